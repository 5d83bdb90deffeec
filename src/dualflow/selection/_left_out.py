"""Folds that leave one point out begin at their optimum: led there from that of all points, by exact unlearning."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..online.incremental import Engine
from ..online.newcomers import Dense, seat
from ..online.state import PathError

__all__ = ["LeftOut", "left_out_by"]


class LeftOut:
    """The optimum of all points but one (Cauwenberghs and Poggio, NIPS 13, section 3), for one after the other.

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
        self.sign, self.upper = sign, upper
        self.engine = engine = Engine(Dense(Q), intercept)
        engine.has_rescue = True
        engine.append(np.ones(len(Q)), upper, sign if intercept else np.zeros(len(Q)), Q.diagonal())
        seat(engine, Q, np.abs(beta), upper, -bias, whole=False)
        self.kept = engine.snapshot()
        engine.near_from = 16 * engine.near_from  # one path from each snapshot: choosing near variables seldom pays

    def without(self, k: int) -> NDArray | None:
        """β without point k, shape (n,); None where the path breaks off."""
        try:
            self.engine.unlearn(k)
        except PathError:
            return None
        else:
            beta: NDArray = self.sign * np.clip(self.engine.alpha, 0.0, self.upper)
            return beta
        finally:
            self.engine.restore(self.kept)


def left_out_by(weight: NDArray, weights: NDArray) -> NDArray:
    """The only variable that each row of weights, shape (k, n), leaves out, all others being as in ``weight``; −1 where
    there is none."""
    other = weights != weight
    alone = (other.sum(axis=1) == 1) & ((weights == 0) & other).any(axis=1)
    found: NDArray = np.where(alone, other.argmax(axis=1), -1)
    return found
