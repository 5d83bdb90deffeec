"""Problems of the radial kernel solved from their points, where few rows of the kernel matrix are needed.

`PointPairs` solves and certifies many pairs of classes in one compiled call. `pair_from_points` does the same for one
larger pair in Python, and first estimates from two samples whether few rows suffice. `PointSearch` is its search, also
for problems on the simplex; `PointSums` makes the product of a certificate in float64 where float32 leaves the sign of
a multiplier undetermined.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core._bound import undetermined_signs
from ..core._pair_bound import N_NUMBERS, certify_pair, project_pair
from ..core.gram import Gram
from ..core.mixed_precision import has_valid_error_bounds, rough_sums
from ..core.pair_certificate import CertificateRow
from ..core.radial import EXPONENTIAL_COST, FEW_FEATURES, RadialPoints, radial_product
from ..core.runtime import clock
from ..core.runtime.arrays import filled
from ..core.runtime.memory import arena_array
from ..core.runtime.threads import cached_property
from ..core.solution import MAX_GAP_UNREFINED
from ..core.sparse_points import SparsePoints
from ..working_set._from_points import solve_points
from ..working_set._point_pairs import IN_FLOAT32, solve_point_pairs
from ..working_set._wishes import multiplier, scaled, unscaled, violations
from ..working_set.dense import (
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

#: Replaces an objective of 0 as a divisor.
MIN_OBJECTIVE = 1e-300


def pays_in_float32(gram: Gram, n: int, rows: float, thresholds: Thresholds = USUAL) -> bool:
    """Whether ``rows`` kernel rows of n points are made in float32 first."""
    products = rows * n * (EXPONENTIAL_COST + gram.X.shape[1])
    return products >= thresholds.min_rows_float32 and bool(gram.is_safe_in_single)


def search_limits(n: int, m: int, thresholds: Thresholds = USUAL) -> tuple[bool, int, int, int]:
    """Return the limits of `solve_points` for n points of m coordinates.

    They are whether all rows may be made at once, and the largest numbers of pair updates, of rows, and of rows where
    most support vectors are at their bounds.
    """
    max_rows = int(n * thresholds.max_row_share)
    if n > thresholds.max_points_by_share or m > thresholds.max_features_by_share:
        max_rows = min(max_rows, thresholds.max_rows)
    if n <= thresholds.max_points_filled:
        return True, UPDATES_PER_VARIABLE * n, max_rows, int(n * thresholds.max_row_share_bounded)
    return False, thresholds.max_updates, max_rows, min(n, thresholds.max_values_bounded // n)


class PointSearch:
    """Minimise f = ½ Σᵢⱼ eᵢeⱼKᵢⱼαᵢαⱼ − common_p Σᵢ αᵢ for 0 ≤ α ≤ u with eᵀα fixed.

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
    common_p : float
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
    subproblem : int array
        Variables of the float64 subproblem.
    looks : int
        Times that violators joined it.
    """

    def __init__(
        self,
        gram: Gram,
        order: NDArray | slice,
        e: NDArray,
        common_p: float,
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
        _, self.ep, self.low, self.high, self.beta = scaled(e, e, filled(len(e), common_p), upper, alpha, 1.0, 1.0)
        self.subproblem, self.looks = np.empty(0, dtype=np.intp), 0

    @property
    def alpha(self) -> NDArray:
        """The current α, shape (n,)."""
        found: NDArray = unscaled(self.e, self.beta, self.low, self.high, self.upper, 1.0)
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
        fills, max_updates, max_rows, max_rows_bounded = search_limits(n, points.points.shape[1], self.thresholds)
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
        excess, subproblem = self._excess(sums - self.ep), self.subproblem
        if self.single is None or self.looks == MAX_LOOKS:
            return False
        if not len(subproblem):
            joining = subproblem = self._nearly_free(sums - self.ep)
        else:
            excess[subproblem] = 0.0
            (joining,) = (excess > KKT_TOL).nonzero()
        self.looks += 1
        if len(joining):
            self._solve_subset(np.union1d(subproblem, joining))
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
        self.subproblem = W
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


class PointSums:
    """Kernel sums for the certificate of f = ½ Σᵢⱼ eᵢeⱼKᵢⱼαᵢαⱼ − common_p Σᵢ αᵢ with eᵀα fixed.

    They are what `core.mixed_precision` computes for a general problem.

    Parameters
    ----------
    gram : Gram
    points : RadialPoints
        In float64.
    single : RadialPoints or None
        The same in float32, if float32 is accurate enough for the kernel.
    e : array of shape (n,)
        Labels, ±1.
    common_p : float
    thresholds : Thresholds

    Attributes
    ----------
    columns : int
        Number of nonzero weights in the last call of `compute`.
    """

    def __init__(
        self,
        gram: Gram,
        points: RadialPoints,
        single: RadialPoints | None,
        e: NDArray,
        common_p: float,
        thresholds: Thresholds = USUAL,
    ) -> None:
        self.thresholds = thresholds
        self.points, self.single, self.e, self.common_p = points, single, e, common_p
        self.reach, self.features, self.columns, self.n = gram.reach, gram.X.shape[1], 0, len(e)

    def compute(self, weights: NDArray, multipliers_from_sums: Callable[[NDArray], tuple[float, float]]) -> NDArray:
        """Return Σⱼ weightsⱼ k(xᵢ, xⱼ), shape (n,), accurate enough for a certificate.

        Parameters
        ----------
        weights : array of shape (n,)
        multipliers_from_sums : callable
            Takes the sums and returns the interval of the equality's best multiplier. It is called last with the sums
            that are returned.
        """
        (J,), n, single = weights.nonzero(), len(weights), self.single
        self.columns = len(J)
        pays = n * len(J) * (EXPONENTIAL_COST + self.features) >= self.thresholds.min_product_float32
        if single is None or not (pays and has_valid_error_bounds(weights[J], self.reach, self.features)):
            sums = self._exact(slice(None), J, weights)
            multipliers_from_sums(sums)
            return sums
        (rest,), support = (weights == 0).nonzero(), self.points.take(J)
        sums, error_bounds = np.empty(n), np.full(n, -np.inf)
        sums[J] = support.expand_among(weights[J])
        half = self.points.half
        sums[rest], error_bounds[rest] = rough_sums(
            single.take(rest), single.take(J), weights[J], half[rest], support.half, self.features
        )
        left = self.thresholds.max_uncertain_share * n
        while True:
            ends = multipliers_from_sums(sums)
            if not (math.isfinite(ends[0]) and math.isfinite(ends[1])):
                return sums
            # The points whose sign is undetermined, or nearly so, are computed anew.
            any_undetermined, missing = undetermined_signs(
                sums, error_bounds, self.e, *ends, self.common_p, self.thresholds.safe_errors
            )
            if not any_undetermined:
                return sums
            left -= len(missing)
            if left < 0:
                (missing,) = (error_bounds > -np.inf).nonzero()
            sums[missing], error_bounds[missing] = self._exact(missing, J, weights), -np.inf

    def radial_points(self, dtype: type, J: NDArray | slice) -> RadialPoints:
        """Return the points J: `radial_product` calls this method of a matrix."""
        return self.points.take(J)

    def _exact(self, rows: NDArray | slice, J: NDArray, weights: NDArray) -> NDArray:
        """Return the sums of some rows in float64."""
        return radial_product(self, weights, rows, J, float)


#: In place of a start or of sums that are not given.
EMPTY = np.empty(0)


class PairArrays(NamedTuple):
    """Results of pairs, one pair after another.

    Attributes
    ----------
    alpha, point, weights, certificates : arrays
        As of `core._pair_bound.certify_listed`.
    entries : array of shape (n_pairs,)
        Kernel entries evaluated for each pair.
    sums : array
        K times the weights, NaN for pairs searched in float32; or empty.
    """

    alpha: NDArray
    point: NDArray
    weights: NDArray
    certificates: NDArray
    entries: NDArray
    sums: NDArray = EMPTY


def suits_points(gram: Gram, n: int, multiclass: bool = False, thresholds: Thresholds = USUAL) -> bool:
    """Whether a pair of n points is first tried from its points, with rows made on demand.

    Parameters
    ----------
    gram : Gram
    n : int
    multiclass : bool, default=False
        Whether it is one of several pairs.
    thresholds : Thresholds
    """
    if isinstance(gram.X, SparsePoints) or (gram.ready is None and not gram.is_radial):
        return False
    features = gram.X.shape[1]
    is_narrow = features <= FEW_FEATURES
    if n <= thresholds.max_points_filled:
        return is_narrow and (n >= thresholds.min_pair_points_multiclass or not multiclass) and _has_ready_points(gram)
    if not is_narrow:
        max_numbers = thresholds.max_pair_numbers_wide_shared if multiclass else thresholds.max_pair_numbers_wide
        return n <= thresholds.max_points_unsampled and n * features < max_numbers
    return n <= thresholds.max_pair_points and n * features < thresholds.max_pair_numbers


def suits_one_table(gram: Gram, least: int, thresholds: Thresholds = USUAL) -> bool:
    """Whether all pairs of few points of several classes are solved from their points in one call.

    ``least`` is the number of points of the smallest pair.
    """
    if not gram.is_radial or gram.ready is None or least < thresholds.min_pair_points_list:
        return False
    features = gram.X.shape[1]
    has_many_points = least > thresholds.min_points_per_feature * features
    return features <= FEW_FEATURES and has_many_points and _has_ready_points(gram)


def _has_ready_points(gram: Gram) -> bool:
    """Whether the Gram has scaled points that `PointPairs` can use: float64 vectors, not bit patterns."""
    points = gram.ready
    return points is not None and points.table is None


class PointPairs:
    """Pairs of classes that a compiled call solves from their points.

    Parameters
    ----------
    gram : Gram
    groups : sequence of int arrays
        The points of each class.
    upper : array
        Upper bounds of their multipliers, one class after another.
    start : array, optional
        Feasible multipliers to start from; of two classes only.
    thresholds : Thresholds
    """

    def __init__(
        self,
        gram: Gram,
        groups: Sequence[NDArray],
        upper: NDArray,
        start: NDArray | None = None,
        thresholds: Thresholds = USUAL,
    ) -> None:
        self.thresholds = thresholds
        self.gram, self.upper, self.point_order = gram, upper, np.concatenate(groups)
        self.start = EMPTY if start is None else start
        self.sizes = [len(group) for group in groups]
        points, least = gram.ready, sum(sorted(self.sizes)[:2])
        if points is None and gram.X.size <= thresholds.max_ready_numbers and least <= thresholds.max_points_unsampled:
            points = gram.radial_points(float)
        self.points: RadialPoints | None = points
        self.starts = [0, *accumulate(self.sizes)]

    def serves(self, i: int, others: list[int]) -> bool:
        """Whether the pairs of class i with others can be solved here.

        All points must be ready as float64 vectors, and no pair may need a sample that predicts its support vectors.
        """
        largest = self.sizes[i] + max(self.sizes[j] for j in others)
        return largest <= self.thresholds.max_points_unsampled and self.points is not None and self.points.table is None

    def table(self, pairs: Sequence[tuple[int, int]]) -> NDArray:
        """Return a row for each pair of classes, with the columns of `working_set._point_pairs`."""
        rows: list[list[int]] = []
        at_alpha = 0
        for i, j in pairs:
            m, n = self.sizes[i], self.sizes[j]
            in_float32 = pays_in_float32(self.gram, m + n, (m + n) / 2, self.thresholds)
            limits = search_limits(m + n, self.gram.X.shape[1], self.thresholds)
            rows.append([m, n, self.starts[i], self.starts[j], in_float32, *limits, 0, at_alpha])
            at_alpha += m + n
        return np.array(rows, dtype=np.int64)

    @cached_property
    def single(self) -> RadialPoints:
        """The points in float32, converted once for all pairs."""
        assert self.points is not None
        return self.points.in_single()

    def solve(
        self,
        table: NDArray,
        sign: float,
        gap_tol: float,
        found: PairArrays,
        begin: int,
        seconds: float,
        max_free: int,
    ) -> int:
        """Solve and certify pairs of a table, from number ``begin`` on; return the number of the next one.

        Results go to ``found``. Figures are not written where a search is given up. No further pair is started after
        ``seconds``, and none that continues one with more than ``max_free`` free variables.
        """
        points, single = self.points, self.single if table[:, IN_FLOAT32].any() else None
        assert points is not None
        return int(
            solve_point_pairs(
                points.points,
                points.half,
                np.empty((0, 1), dtype=np.float32) if single is None else single.points,
                np.empty(0, dtype=np.float32) if single is None else single.half,
                self.point_order,
                self.upper,
                table,
                sign,
                self.gram.X.shape[1],
                self.gram.reach,
                self.gram.growth,
                gap_tol,
                MIN_KKT_FLOAT32,
                self.thresholds.min_list_product_float32,
                self.thresholds.max_uncertain_share,
                self.thresholds.safe_errors,
                self.start,
                *found,
                begin,
                seconds,
                max_free,
            )
        )


def expected_support(
    gram: Gram, order: NDArray, e: NDArray, upper: NDArray, thresholds: Thresholds = USUAL
) -> tuple[float, float]:
    """Estimate the number of support vectors, and of free ones, from two samples.

    The second sample is twice as large as the first. The change of the two shares from one to the other is extrapolated
    to all points.
    """
    shares = list[tuple[float, float]]()
    for size in thresholds.sample_points:
        J = np.arange(size) * len(order) // size
        sample = PointSearch(gram, order[J], e[J], 1.0, upper[J], np.zeros(size), np.inf, thresholds)
        sample.solve(np.inf)
        clock.check_time()
        alpha = sample.alpha
        is_support = alpha > 0
        free = np.count_nonzero(is_support & (alpha < sample.upper))
        shares.append((np.count_nonzero(is_support) / size, free / size))
    n, doublings = len(order), math.log2(len(order) / thresholds.sample_points[1])
    (first, first_free), (second, second_free) = (tuple(max(share, 1 / n) for share in both) for both in shares)
    return n * second * (second / first) ** doublings, n * second_free * (second_free / first_free) ** doublings


def pair_from_points(
    gram: Gram,
    order: NDArray,
    m: int,
    upper: NDArray,
    sign: float,
    gap_tol: float = MAX_GAP_UNREFINED,
    start: NDArray | None = None,
    thresholds: Thresholds = USUAL,
) -> PairArrays | None:
    """Solve and certify the hinge's dual with an intercept for one pair of classes.

    Parameters
    ----------
    gram : Gram
    order : int array of shape (n,)
        The points of both classes.
    m : int
        Number of points of the first class.
    upper : array of shape (n,)
        Upper bounds.
    sign : float
        Label of the first class, ±1; the second has −``sign``.
    gap_tol : float
        Relative gap to reach.
    start : array of shape (n,), optional
        Feasible multipliers to start from.
    thresholds : Thresholds

    Returns
    -------
    PairArrays or None
        None if many rows are needed and there are too many to make them all. The certificate uses kernel values that
        are computed anew from the points.
    """
    n = len(order)
    e = np.empty(n)
    e[:m], e[m:] = sign, -sign
    search = PointSearch(gram, order, e, 1.0, upper, np.zeros(n) if start is None else start, n / 2, thresholds)
    n_support = None
    if n > thresholds.max_points_unsampled:
        n_support, n_free = expected_support(gram, order, e, upper, thresholds)
        if n_support > thresholds.max_expected_support or n_free > thresholds.max_expected_free:
            return None
    if not search.solve(gap_tol, n_support):
        return None
    point, weights, certificates = np.empty(n), np.zeros(n), np.empty((1, N_NUMBERS))

    growth = gram.growth

    def multipliers_from_sums(sums: NDArray) -> tuple[float, float]:
        certify_pair(m, upper, sign, point, weights, sums, certificates[0], growth)
        row = CertificateRow._make(certificates[0])
        return row.low, row.high

    products = PointSums(gram, search.points, search.single, e, 1.0, thresholds)
    while True:
        clock.check_time()
        alpha = search.alpha
        project_pair(m, upper, sign, alpha, point, weights, certificates[0])
        sums = products.compute(weights, multipliers_from_sums)
        search.entries += float(n) * products.columns
        row = CertificateRow._make(certificates[0].tolist())
        if row.objective - row.lower_bound <= gap_tol * row.size or not search.extend(sums):
            return PairArrays(alpha, point, weights, certificates, np.array([search.entries]))
