"""The optimum without one of its variables, for one after the other: exact unlearning from where all are at rest."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .incremental import Engine
from .newcomers import Dense, seat
from .state import PathError

__all__ = ["Unlearning"]


class Unlearning:
    """The path of the optimum from that of all variables (Cauwenberghs and Poggio, NIPS 13, section 3).

    What it says is a start or a proposal: whoever asks judges it by a gradient from scratch.

    Parameters
    ----------
    Q : array of shape (n, n)
        Only read.
    p, upper : arrays of shape (n,)
        Of the dual problem, whose lower bound is 0.
    e : array of shape (n,), or None
    d : float
        Its right-hand side.
    alpha : array of shape (n,)
        The optimum.
    nu : float
        Its multiplier.

    Raises
    ------
    PathError
        The free variables' block is singular.
    """

    def __init__(
        self, Q: NDArray, p: NDArray, e: NDArray | None, d: float, upper: NDArray, alpha: NDArray, nu: float
    ) -> None:
        self.upper, self.price = upper, p / d if d else p
        self.engine = engine = Engine(Dense(Q), e is not None)
        engine.has_rescue = True
        engine.append(p, upper, np.zeros(len(Q)) if e is None else e, Q.diagonal())
        engine.d = d
        seat(engine, Q, alpha, upper, nu, whole=False)
        self.kept = engine.snapshot()
        engine.near_from = 16 * engine.near_from  # one path from each snapshot: choosing near variables seldom pays

    def without(self, k: int, stretch: float = 1.0) -> NDArray | None:
        """α without variable k, shape (n,), all bounds ``stretch`` times as large; None where the path breaks off."""
        engine = self.engine
        try:
            engine.unlearn(k)
            if stretch != 1.0:  # the same as less to hand out, and at a lower price, within the same bounds
                engine.move_d(engine.d / stretch, self.price)
            found: NDArray = stretch * np.clip(engine.alpha, 0.0, self.upper)
        except PathError:
            return None
        else:
            return found
        finally:
            engine.restore(self.kept)
