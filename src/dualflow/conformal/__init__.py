"""Prediction sets and intervals with guaranteed coverage, from models that leave out each training point."""

from .classifier import ConformalSVC
from .regressor import ConformalSVR

__all__ = ["ConformalSVC", "ConformalSVR"]
