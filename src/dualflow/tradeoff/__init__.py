"""Margin against training error, as a Pareto front."""

from .from_data import pareto_front
from .front import FrontStatus, ParetoFront, ParetoPoint

__all__ = ["FrontStatus", "ParetoFront", "ParetoPoint", "pareto_front"]
