"""The first part of the way to an optimum, in float32: an update of pairs has half its price there."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.arena import borrowed
from ..working_set._pairs import solve_pairs

__all__ = ["ROUGH_FROM", "Rough"]

#: Variables from which it pays: fewer rows stay in the cache in float64 too.
ROUGH_FROM = 512
#: KKT violation to end at, or where round-off begins: so many units in the last place of the widest box; and updates
#: for a variable.
ENOUGH, NOISE, UPDATES = 1e-3, 16, 3


class Rough:
    """M in float32, for boxes over it.

    Parameters
    ----------
    rows : array of shape (n, v)
    slots : int array of shape (v,)
        Row i of M is ``rows[slots[i]]``.
    diag : array of shape (v,)
    """

    def __init__(self, rows: NDArray, slots: NDArray, diag: NDArray) -> None:
        # A search makes one for every kernel setting: memory of the last one serves the next.
        self.rows = borrowed(rows.shape, np.float32)
        self.rows[...] = rows
        self.slots, self.diag = slots, diag.astype(np.float32)

    def approach(self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, equality: bool) -> bool:
        """Bring a feasible β near the optimum.

        Parameters
        ----------
        beta : array of shape (v,)
            Changed in place.
        G : array of shape (v,)
            Its gradient; read only, so that it is wrong where β moved.
        low, high : arrays of shape (v,)
        equality : bool
            Whether Σβ stays what it is.

        Returns
        -------
        bool
            Whether β moved.
        """
        noise = NOISE * float(np.finfo(np.float32).eps) * float((high - low).max())
        box, single = (beta, low, high), G.astype(np.float32)
        limit = UPDATES * len(beta)
        rows = (self.rows, self.slots, len(self.rows))
        moved, *_ = solve_pairs(*rows, single, self.diag, *box, equality, max(ENOUGH, noise), limit)
        return bool(moved)
