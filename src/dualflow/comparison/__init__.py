"""Floor 6: the main job, `compare`."""

from ..report import Comparison
from .main_job import PROBLEMS, compare
from .plan import CONTROLS
from .rows import shot_floor

__all__ = ["CONTROLS", "PROBLEMS", "Comparison", "compare", "shot_floor"]
