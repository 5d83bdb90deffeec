"""The public test kit: checks a solver or a device against everything the package relies on.

    from dualflow.testing import check_solver
    check_solver("my-solver")

`zoo` returns problems with known optima. `BROKEN_SOLVERS` are solvers with one deliberate fault each, with the name of
the check that must reject it. `check_device` compares a device with known circuits; `WRONG_DEVICES` names devices with
deliberate faults. pytest is not needed.
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
