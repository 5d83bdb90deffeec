"""The search that solves a problem of the radial kernel from its points, where few rows of its matrix are needed."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.radial import EXPONENTIAL_COST, RadialPoints
from ..core.runtime.memory import arena_array
from ..working_set._from_points import solve_points
from ..working_set._wishes import begin, multiplier, violations, weights_of
from ..working_set.dense import (
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
    nearly_free,
)
from ..working_set.descent import MIN_GAP_FLOAT32, MIN_KKT_FLOAT32
from ..working_set.units import ScaledVariables
from .strategy import USUAL, Thresholds

__all__ = ["PointSearch", "limits_of", "pays_in_float32"]

#: Replaces an objective of 0 as a divisor.
MIN_OBJECTIVE = 1e-300


def pays_in_float32(gram: Gram, n: int, rows: float, thresholds: Thresholds = USUAL) -> bool:
    """Whether ``rows`` kernel rows of n points are made in float32 first."""
    products = rows * n * (EXPONENTIAL_COST + gram.X.shape[1])
    return bool(gram.is_safe_in_single) and products >= thresholds.min_rows_float32


def limits_of(n: int, m: int, thresholds: Thresholds = USUAL) -> tuple[bool, int, int, int]:
    """Return fills, max_updates, max_rows and max_rows_bounded of `solve_points` for n points of m coordinates."""
    max_rows = int(n * thresholds.max_row_share)
    if n > thresholds.max_points_by_share or m > thresholds.max_features_by_share:
        max_rows = min(max_rows, thresholds.max_rows)
    if n <= thresholds.max_points_filled:
        return True, UPDATES_PER_VARIABLE * n, max_rows, int(n * thresholds.max_row_share_bounded)
    return False, thresholds.max_updates, max_rows, min(n, thresholds.max_values_bounded // n)


class PointSearch:
    """Minimise f = ½ Σᵢⱼ eᵢeⱼKᵢⱼαᵢαⱼ − price Σᵢ αᵢ for 0 ≤ α ≤ u with eᵀα fixed.

    Pair updates use rows of K that are made on demand, in float32 where that is safe: this finds the support vectors
    and approximate multipliers. The free and nearly free variables are then optimised in float64 as a subproblem, which
    variables join that violate their KKT condition by exact kernel sums.

    Parameters
    ----------
    gram : Gram
        Of the radial kernel, and dense points.
    order : array of int or slice
        The points of the variables.
    e : array of shape (n,)
        Labels, ±1.
    price : float
    upper : array of shape (n,)
    alpha : array of shape (n,)
        Feasible start.
    rows : float
        Estimated number of rows that are needed.
    thresholds : Thresholds

    Attributes
    ----------
    entries : float
        Kernel entries evaluated.
    members : int array
        Variables of the float64 subproblem.
    looks : int
        Times that violators joined it.
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
        pays = pays_in_float32(gram, len(e), rows, thresholds)
        self.points: RadialPoints = gram.radial_points(float, order)
        self.single = self.points.in_single() if pays else None
        self.e, self.upper, self.entries = e, upper, 0.0
        self.ep, self.low, self.high, self.beta = begin(e, upper, alpha, price, FINITE_BOUND)
        self.members, self.looks = np.empty(0, dtype=np.intp), 0

    @property
    def alpha(self) -> NDArray:
        """The current α, shape (n,)."""
        found: NDArray = weights_of(self.e, self.beta, self.upper)
        return found

    def solve(self, gap_tol: float, n_support: float | None = None) -> bool:
        """Search for the optimum, and solve the float64 subproblem unless float32 reaches the relative gap ``gap_tol``.

        Parameters
        ----------
        gap_tol : float
        n_support : float, optional
            Expected number of support vectors, which limits the rows.

        Returns
        -------
        bool
            Whether the search was completed; it is given up where it needs many rows or updates.
        """
        points, n = self.points if self.single is None else self.single, len(self.points)
        fills, max_updates, max_rows, max_rows_bounded = limits_of(n, points.points.shape[1], self.thresholds)
        if n_support is not None:
            rows = int(self.thresholds.max_rows_per_expected * n_support) + self.thresholds.max_rows // 2
            max_rows = max_rows_bounded = min(n, rows)
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
            max_updates,
            max_rows,
            max_rows_bounded,
            fills,
            MAX_RESTARTS if self.single is None else 1,
            MAX_UPDATES_EXACT,
        )
        self.entries += float(n) * made
        if made and self.single is not None and not self._is_trusted(G, gap_tol):
            if self._has_many_undetermined(G):
                return False
            self._solve_subset(self._nearly_free(G))
        return bool(made)

    def _is_trusted(self, G: NDArray, gap_tol: float) -> bool:
        """Whether float32 resolves the requested gap, and its own gradient says that it is reached."""
        return gap_tol > MIN_GAP_FLOAT32 and not self._gap(G) > TRUSTED_GAP_SHARE * gap_tol

    def _has_many_undetermined(self, G: NDArray) -> bool:
        """Whether float32 leaves many variables undetermined as free or not, compared with those that are free.

        In ill-conditioned problems a few of these would join the subproblem at a time, and it would be solved anew.
        """
        near = int(np.count_nonzero(self._excess(G) > -NEARLY_FREE_FACTOR * MIN_KKT_FLOAT32))
        return near > max(
            MAX_NEARLY_FREE, self.thresholds.max_undetermined_per_free * int(np.count_nonzero(self._free))
        )

    @property
    def _free(self) -> NDArray:
        free: NDArray = (self.beta > self.low) & (self.beta < self.high)
        return free

    def extend(self, sums: NDArray) -> bool:
        """Add violators to the float64 subproblem and solve it; return whether there were any.

        Parameters
        ----------
        sums : array of shape (n,)
            Kβ in float64, β = eα, up to a constant.
        """
        excess, members = self._excess(sums - self.ep), self.members
        if self.single is None or self.looks == MAX_LOOKS:
            return False
        if not len(members):
            joining = members = self._nearly_free(sums - self.ep)
        else:
            excess[members] = 0.0
            (joining,) = (excess > KKT_TOL).nonzero()
        self.looks += 1
        if len(joining):
            self._solve_subset(np.union1d(members, joining))
        return len(joining) > 0

    def _gap(self, G: NDArray) -> float:
        """Return the relative gap for a gradient: Σ (β − l)(G − ν) over G > ν, plus Σ (h − β)(ν − G) over G < ν."""
        beta, away = self.beta, G - self._multiplier(G)
        gap = float(np.where(away > 0, beta - self.low, beta - self.high) @ away)
        return gap / max(abs(0.5 * float(beta @ (G - self.ep))), MIN_OBJECTIVE)

    def _nearly_free(self, G: NDArray) -> NDArray:
        """Return the free variables and those that float32 cannot tell from free."""
        return nearly_free(self._free, self._excess(G), MIN_KKT_FLOAT32)

    def _multiplier(self, G: NDArray) -> float:
        """Return the multiplier: the mean gradient of the free variables, or halfway between the worst violators."""
        mean, count = multiplier(G, self.beta, self.low, self.high)
        if count:
            return float(mean)
        sides = -G[self.beta < self.high], G[self.beta > self.low]
        return ScaledVariables.middle(*(float(side.max(initial=-np.inf)) for side in sides))

    def _excess(self, G: NDArray) -> NDArray:
        """Return by how much each variable violates its KKT condition; negative is slack."""
        found: NDArray = violations(G, self._multiplier(G), self.beta, self.low, self.high)
        return found

    def _solve_subset(self, W: NDArray) -> None:
        """Optimise over the variables W in float64, with all others fixed."""
        self.members = W
        if not len(W):
            return
        fixed = self.beta != 0
        fixed[W] = False
        (others,) = fixed.nonzero()
        points, beta = self.points.take(W), self.beta[W]
        K = points.kernel(points, arena_array((len(W), len(W)), float))
        self.entries += float(len(W)) * (len(W) + len(others))
        gradient = K @ beta - self.ep[W]
        if len(others):
            gradient += points.expand(self.points.take(others), self.beta[others, None])[:, 0]
        finish_dense(K, gradient, beta, self.low[W], self.high[W])
        self.beta[W] = beta
