"""The public test kit: is a solver what it says it is?

    from dualflow.testing import check_solver
    check_solver("my-solver")

`zoo` is the set of problems with known answers, `BROKEN_SOLVERS` are solvers broken on purpose, each with the
check that must reject it. `check_device` compares a device with known circuits, and `WRONG_DEVICES` names devices that
are wrong on purpose. pytest is not needed.
"""

from .broken import BROKEN_SOLVERS
from .check import CheckFailed, CheckReport, check_solver
from .problem_zoo import ZooProblem, zoo
from .wrong_devices import WRONG_DEVICES, WrongDevice, check_device

__all__ = [
    "BROKEN_SOLVERS",
    "WRONG_DEVICES",
    "CheckFailed",
    "CheckReport",
    "WrongDevice",
    "ZooProblem",
    "check_device",
    "check_solver",
    "zoo",
]
