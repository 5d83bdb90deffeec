"""A problem of the radial kernel solved from its points, where few rows of its matrix are needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.radial import AN_EXPONENTIAL, RadialPoints
from ..core.runtime.memory import borrowed
from ..working_set._from_points import solve_points
from ..working_set._wishes import begin, multiplier, violations, weights_of
from ..working_set.descent import MIN_GAP_FLOAT32, MIN_KKT_FLOAT32
from ..working_set.units import ScaledVariables
from ..working_set.whole import (
    FINITE_BOUND,
    KKT_TOL,
    MAX_LOOKS,
    MAX_NEARLY_FREE,
    MAX_RESTARTS,
    MAX_UPDATES_EXACT,
    NEARLY_FREE_FACTOR,
    TRUSTED_GAP_SHARE,
    UPDATES_PER_VARIABLE,
    finish_dense,
    nearest_free,
)
from .strategy import USUAL, Thresholds

__all__ = ["FromPoints", "limits_of", "pays_in_single"]

#: In the place of an objective of 0.
TINY = 1e-300


def pays_in_single(gram: Gram, n: int, rows: float, thresholds: Thresholds = USUAL) -> bool:
    """Whether so many rows of n points are in float32 first."""
    work = rows * n * (AN_EXPONENTIAL + gram.X.shape[1])
    return bool(gram.is_safe_in_single) and work >= thresholds.min_rows_float32


def limits_of(n: int, m: int, thresholds: Thresholds = USUAL) -> tuple[bool, int, int, int]:
    """Of a search over n points of m coordinates: whether all rows are made if many are asked for, updates a round, and
    what is many; see `solve_points`."""
    room = int(n * thresholds.max_row_share)
    if n > thresholds.max_points_by_share or m > thresholds.max_features_by_share:
        room = min(room, thresholds.max_rows)
    if n <= thresholds.max_points_filled:
        return True, UPDATES_PER_VARIABLE * n, room, int(n * thresholds.max_row_share_bounded)
    return False, thresholds.max_updates, room, min(n, thresholds.max_values_bounded // n)


class FromPoints:
    """f = ½ Σᵢⱼ eᵢeⱼKᵢⱼαᵢαⱼ − price Σᵢ αᵢ for 0 ≤ α ≤ u, where eᵀα stays what it is.

    Pairs ask for rows of K, in float32 where that is safe: it shows who has a weight, and about which. These few are
    then brought to their end in float64 among themselves, and whoever else would want a weight joins them.

    Parameters
    ----------
    gram : Gram
        Of the radial kernel, and dense points.
    order : array of int or slice
        Which of its points are those of the variables.
    e : array of shape (n,)
        ±1, the labels.
    price : float
    upper : array of shape (n,)
    alpha : array of shape (n,)
        Where to begin, feasible.
    rows : float
        How many rows may be asked for, about.
    thresholds : Thresholds

    Attributes
    ----------
    entries : float
        Kernel entries evaluated.
    """

    def __init__(
        self,
        gram: Gram,
        order: NDArray | slice,
        e: NDArray,
        price: float,
        upper: NDArray,
        alpha: NDArray,
        rows: float,
        thresholds: Thresholds = USUAL,
    ) -> None:
        self.thresholds = thresholds
        pays = pays_in_single(gram, len(e), rows, thresholds)
        self.points: RadialPoints = gram.radial_points(float, order)
        self.single = self.points.in_single() if pays else None
        self.e, self.upper, self.entries = e, upper, 0.0
        self.ep, self.low, self.high, self.beta = begin(e, upper, alpha, price, FINITE_BOUND)
        self.members, self.looks = np.empty(0, dtype=np.intp), 0

    @property
    def alpha(self) -> NDArray:
        """Where it is, of shape (n,)."""
        found: NDArray = weights_of(self.e, self.beta, self.upper)
        return found

    def settle(self, enough: float, expected: float | None = None) -> bool:
        """Go to the optimum, as far as is known without a look at all; to about what float32 can tell of it, if such a
        relative gap is ``enough``. False where it is given up: many rows were asked for, many more than support vectors
        are ``expected``, or many updates, of more points than are filled in."""
        points, n = self.points if self.single is None else self.single, len(self.points)
        fills, limit, room, more = limits_of(n, points.points.shape[1], self.thresholds)
        if expected is not None:
            rows = int(self.thresholds.max_rows_per_expected * expected) + self.thresholds.max_rows // 2
            room = more = min(n, rows)
        G = np.empty(n, dtype=points.half.dtype)
        made = solve_points(
            points.points,
            points.half,
            self.ep.astype(points.half.dtype),
            self.low,
            self.high,
            self.beta,
            G,
            KKT_TOL if self.single is None else MIN_KKT_FLOAT32,
            limit,
            room,
            more,
            fills,
            MAX_RESTARTS if self.single is None else 1,
            MAX_UPDATES_EXACT,
        )
        self.entries += float(n) * made
        if (
            made
            and self.single is not None
            and (enough <= MIN_GAP_FLOAT32 or self._gap(G) > TRUSTED_GAP_SHARE * enough)
        ):
            if self._is_undetermined(G):
                return False
            self._among(self._nearly_free(G))
        return bool(made)

    def _is_undetermined(self, G: NDArray) -> bool:
        """Whether float32 hardly tells which variables are free: in ill-conditioned problems they join a few at a time,
        and all that were there go to their end anew each time."""
        near = int(np.count_nonzero(self._wrong(G) > -NEARLY_FREE_FACTOR * MIN_KKT_FLOAT32))
        return near > max(
            MAX_NEARLY_FREE, self.thresholds.max_undetermined_per_free * int(np.count_nonzero(self._free))
        )

    @property
    def _free(self) -> NDArray:
        free: NDArray = (self.beta > self.low) & (self.beta < self.high)
        return free

    def look(self, sums: NDArray) -> bool:
        """Whether others join, told Kβ of all in float64, β = eα, up to what is the same for all: then it has gone on
        to the optimum over these too."""
        wrong, members = self._wrong(sums - self.ep), self.members
        if self.single is None or self.looks == MAX_LOOKS:
            return False
        if not len(members):
            joining = members = self._nearly_free(sums - self.ep)
        else:
            wrong[members] = 0.0
            (joining,) = (wrong > KKT_TOL).nonzero()
        self.looks += 1
        if len(joining):
            self._among(np.union1d(members, joining))
        return len(joining) > 0

    def _gap(self, G: NDArray) -> float:
        """The relative gap, given the gradient: Σ (β − l)(G − ν) where G > ν, and Σ (h − β)(ν − G) where it is less."""
        beta, away = self.beta, G - self._multiplier(G)
        gap = float(np.where(away > 0, beta - self.low, beta - self.high) @ away)
        return gap / max(abs(0.5 * float(beta @ (G - self.ep))), TINY)

    def _nearly_free(self, G: NDArray) -> NDArray:
        return nearest_free(self._free, self._wrong(G), MIN_KKT_FLOAT32)

    def _multiplier(self, G: NDArray) -> float:
        """Of the equality, from the gradients of those who are free, or halfway between who wants to move most."""
        mean, count = multiplier(G, self.beta, self.low, self.high)
        if count:
            return float(mean)
        tops = -G[self.beta < self.high], G[self.beta > self.low]
        return ScaledVariables.middle(*(float(wish.max(initial=-np.inf)) for wish in tops))

    def _wrong(self, G: NDArray) -> NDArray:
        """How much each violates the KKT conditions, given the gradient; how far it is from it, if negative."""
        found: NDArray = violations(G, self._multiplier(G), self.beta, self.low, self.high)
        return found

    def _among(self, W: NDArray) -> None:
        """The optimum over some, in float64; others with a weight keep it."""
        self.members = W
        if not len(W):
            return
        held = self.beta != 0
        held[W] = False
        (others,) = held.nonzero()
        near, beta = self.points.take(W), self.beta[W]
        K = near.kernel(near, borrowed((len(W), len(W)), float))
        self.entries += float(len(W)) * (len(W) + len(others))
        gradient = K @ beta - self.ep[W]
        if len(others):
            gradient += near.expand(self.points.take(others), self.beta[others, None])[:, 0]
        finish_dense(K, gradient, beta, self.low[W], self.high[W])
        self.beta[W] = beta
