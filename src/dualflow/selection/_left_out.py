"""Folds that leave one point out begin at their optimum: led there from that of all points, by exact unlearning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..online.unlearning import Unlearning

__all__ = ["LeftOut", "left_out_by"]


class LeftOut:
    """The optimum of all points but one, for one after the other.

    What it says is a start: whoever asks judges it by a gradient from scratch.

    Parameters
    ----------
    Q : array of shape (n, n)
        The kernel matrix times the labels of its rows and columns; only read.
    sign, upper : arrays of shape (n,)
        Labels ±1, and bounds of α above 0.
    beta : array of shape (n,)
        eα of all points.
    bias : float
    intercept : bool
    """

    def __init__(
        self, Q: NDArray, sign: NDArray, upper: NDArray, beta: NDArray, bias: float, *, intercept: bool
    ) -> None:
        self.sign, e = sign, sign if intercept else None
        self.paths = Unlearning(Q, np.ones(len(Q)), e, 0.0, upper, np.abs(beta), -bias)

    def without(self, k: int) -> NDArray | None:
        """β without point k, shape (n,); None where the path breaks off."""
        alpha = self.paths.without(k)
        return None if alpha is None else self.sign * alpha


def left_out_by(weight: NDArray, weights: NDArray) -> NDArray:
    """The only variable that each row of weights, shape (k, n), leaves out, all others being as in ``weight``; −1 where
    there is none."""
    other = weights != weight
    alone = (other.sum(axis=1) == 1) & ((weights == 0) & other).any(axis=1)
    found: NDArray = np.where(alone, other.argmax(axis=1), -1)
    return found
