"""A problem of the radial kernel solved from its points, where few rows of its matrix are needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.radial import RadialPoints
from ._classes import solve_points
from ._pairs import solve_pairs
from .descent import SINGLE_KKT
from .whole import AGAIN, FEW_UPDATES, FINITE, UPDATES

__all__ = ["MANY_OF_MORE", "MANY_ROWS", "SMALL_ENOUGH", "FromPoints"]

#: Points up to which all rows are made if many are asked for; beyond, it is left to others then; and pair updates that
#: these may take.
SMALL_ENOUGH, PATIENCE = 640, 16_384
#: What is many: that part of the points, or so many. And where at least half of those that moved are at their bounds,
#: so that few are left to find a value for: so many kernel values, or that part where all are soon made at once.
MANY_ROWS, MANY_OF_MORE, MOST_ROWS, MOST_VALUES = 0.6, 1000, 2 / 3, 8_000_000
#: KKT violation to end at, LIBSVM's: round-off ends it at about a tenth of that.
END = 1e-12
#: How often others may join those who have a weight; and how often these begin again with a gradient from scratch.
LOOKS, ROUNDS = 5, 12
#: Those join at once who are so near to it, in KKT violations that are left.
NEAR = 3.0
#: Pair updates of those who have a weight between two leaps, for each.
BETWEEN_LEAPS = 1


class FromPoints:
    """f = ½ Σᵢⱼ eᵢeⱼKᵢⱼαᵢαⱼ − price Σᵢ αᵢ for 0 ≤ α ≤ u, where eᵀα stays what it is.

    Pairs ask for rows of K, in float32 where that is safe: it shows who has a weight, and about which. These few are
    then brought to their end in float64 among themselves, and whoever else would want a weight joins them.

    Parameters
    ----------
    points : RadialPoints
        In float64.
    single : RadialPoints or None
        The same in float32, if that holds the kernel's digits.
    e : array of shape (n,)
        ±1, the labels.
    price : float
    upper : array of shape (n,)
    alpha : array of shape (n,)
        Where to begin, feasible.

    Attributes
    ----------
    entries : float
        Kernel entries evaluated.
    """

    def __init__(
        self,
        points: RadialPoints,
        single: RadialPoints | None,
        e: NDArray,
        price: float,
        upper: NDArray,
        alpha: NDArray,
    ) -> None:
        self.points, self.single, self.e, self.ep, self.upper = points, single, e, price * e, upper
        bounds = np.minimum(upper, FINITE)
        self.low, self.beta, self.entries = np.where(e > 0, 0.0, -bounds), e * alpha, 0.0
        self.high = bounds + self.low
        self.members, self.looks = np.empty(0, dtype=np.intp), 0

    @property
    def alpha(self) -> NDArray:
        """Where it is, of shape (n,)."""
        found: NDArray = np.minimum(np.maximum(self.e * self.beta, 0.0), self.upper)
        return found

    def settle(self) -> bool:
        """Go to the optimum, as far as is known without a look at all; False where it is given up: many rows were asked
        for, or many updates, of more points than `SMALL_ENOUGH`."""
        points, n = self.points if self.single is None else self.single, len(self.points)
        fills = n <= SMALL_ENOUGH
        room = min(int(n * MANY_ROWS), MANY_OF_MORE)
        more = int(n * MOST_ROWS) if fills else min(n, MOST_VALUES // n)
        G = np.empty(n, dtype=points.half.dtype)
        made = solve_points(
            points.points,
            points.half,
            self.ep.astype(points.half.dtype),
            self.low,
            self.high,
            self.beta,
            G,
            END if self.single is None else SINGLE_KKT,
            UPDATES * n if fills else PATIENCE,
            room,
            more,
            fills,
            AGAIN if self.single is None else 1,
            FEW_UPDATES,
        )
        self.entries += float(n) * made
        if made and self.single is not None:
            self._among(np.flatnonzero((self.beta != 0) | (self._wrong(G) > -NEAR * SINGLE_KKT)))
        return bool(made)

    def look(self, sums: NDArray) -> bool:
        """Whether others join, told Kβ of all in float64, β = eα, up to what is the same for all: then it has gone on
        to the optimum over these too."""
        wrong = self._wrong(sums - self.ep)
        wrong[self.members] = 0.0
        joining = np.flatnonzero(wrong > END)
        if self.single is None or not len(joining) or self.looks == LOOKS:
            return False
        self.looks += 1
        self._among(np.union1d(np.flatnonzero(self.beta), joining))
        return True

    def _wrong(self, G: NDArray) -> NDArray:
        """How much each violates the KKT conditions, given the gradient; how far it is from it, if negative."""
        rises, falls = self.beta < self.high, self.beta > self.low
        inside = G[rises & falls]
        nu = inside.mean() if len(inside) else 0.5 * (G[rises].min() + G[falls].max())
        return np.maximum(np.where(rises, nu - G, -np.inf), np.where(falls, G - nu, -np.inf))

    def _among(self, J: NDArray) -> None:
        """The optimum over variables J, in float64."""
        near, n = self.points.take(J), len(J)
        K, ep, low, high = near.kernel(near), self.ep[J], self.low[J], self.high[J]
        self.entries += float(n) * n
        beta, rows, ones = self.beta[J], np.arange(n), np.ones(n)
        for _ in range(ROUNDS):
            G = K @ beta - ep
            limit = max(FEW_UPDATES, BETWEEN_LEAPS * n)
            moved, violation, _ = solve_pairs(
                K, rows, n, G, ones, beta, low, high, True, END, limit, None, True
            )
            if moved == 0 or (violation <= END and moved < FEW_UPDATES):
                break
        self.beta[J], self.members = beta, J
