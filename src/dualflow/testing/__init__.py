"""The public test kit: is a solver what it says it is?

    from dualflow.testing import check_solver
    check_solver("my-solver")

`zoo` is the set of problems with known answers, `BROKEN_SOLVERS` are solvers broken on purpose, each with the
check that must reject it. pytest is not needed.
"""

from .broken import BROKEN_SOLVERS
from .check import CheckFailed, CheckReport, check_solver
from .problem_zoo import ZooProblem, zoo

__all__ = ["BROKEN_SOLVERS", "CheckFailed", "CheckReport", "ZooProblem", "check_solver", "zoo"]
