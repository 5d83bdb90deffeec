"""Floor 6: prediction sets and intervals with a guarantee, from models that never saw a point."""

from .classifier import ConformalSVC
from .regressor import ConformalSVR

__all__ = ["ConformalSVC", "ConformalSVR"]
