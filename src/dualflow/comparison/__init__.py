"""Compare solvers on the same problems: `compare`, `dry_run` (the cost of quantum rows), and `scaling_study`."""

from ..report import Comparison
from .beforehand import DryRun, dry_run
from .main_job import compare
from .plan import CONTROLS
from .rows import shot_floor
from .scaling import ScalingPoint, ScalingStudy, scaling_study
from .tasks import PROBLEMS

__all__ = [
    "CONTROLS",
    "PROBLEMS",
    "Comparison",
    "DryRun",
    "ScalingPoint",
    "ScalingStudy",
    "compare",
    "dry_run",
    "scaling_study",
    "shot_floor",
]
