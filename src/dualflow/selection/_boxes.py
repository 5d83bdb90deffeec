"""Where variables are in their boxes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["free_ones", "is_inside"]


def is_inside(beta: NDArray, upper: NDArray) -> NDArray:
    """Of each row, whether no variable is at its upper bound, shape (k,): then none would be at a larger one."""
    inside: NDArray = ((np.abs(beta) < upper) | (upper == 0)).all(axis=1)
    return inside


def free_ones(beta: NDArray, upper: NDArray) -> NDArray:
    """Who is between its bounds."""
    return np.flatnonzero((beta != 0) & (np.abs(beta) < upper))
