"""Compare solvers on the same problems: `compare`, and `dry_run`, which only estimates the cost of quantum rows."""

from ..report import Comparison
from .beforehand import DryRun, dry_run
from .main_job import compare
from .plan import CONTROLS
from .rows import shot_floor
from .tasks import PROBLEMS

__all__ = ["CONTROLS", "PROBLEMS", "Comparison", "DryRun", "compare", "dry_run", "shot_floor"]
