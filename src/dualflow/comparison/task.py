"""What a section of a comparison is made of."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray

from ..core.problem import DualProblem

__all__ = ["Task"]


@dataclass(frozen=True)
class Task:
    """One section to be: a problem, and held-out points with the sign its decision should have."""

    name: str
    title: str
    problem: DualProblem
    Z: NDArray
    signs: NDArray
