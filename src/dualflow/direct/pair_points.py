"""Pairs of classes solved from their points, where few rows of the kernel matrix are needed.

`PointPairs` solves and certifies many pairs in one compiled call. `pair_from_points` does the same for one larger pair
in Python, and first estimates from two samples whether few rows suffice.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core._pair_bound import certify_pair, project_pair
from ..core.bounds import growth_of
from ..core.gram import Gram
from ..core.radial import FEW_FEATURES, RadialPoints
from ..core.runtime import clock
from ..core.runtime.threads import cached_property
from ..core.solution import MAX_GAP_UNREFINED
from ..core.sparse_points import SparsePoints
from ..working_set._point_pairs import HIGH, IN_FLOAT32, LOW, LOWER_BOUND, N_FIGURES, OBJECTIVE, solve_point_pairs
from ..working_set.descent import MIN_KKT_FLOAT32
from .from_points import PointSearch, limits_of, pays_in_float32
from .point_sums import PointSums
from .strategy import USUAL, Thresholds

__all__ = ["PairArrays", "PointPairs", "pair_from_points", "suits_one_table", "suits_points"]

#: In place of a start or of sums that are not given.
EMPTY = np.empty(0)


class PairArrays(NamedTuple):
    """Results of pairs, one pair after another.

    Attributes
    ----------
    alpha, point, weights, figures : arrays
        As of `core._pair_bound.certify_listed`.
    entries : array of shape (n_pairs,)
        Kernel entries evaluated for each pair.
    sums : array
        K times the weights, NaN for pairs searched in float32; or empty.
    """

    alpha: NDArray
    point: NDArray
    weights: NDArray
    figures: NDArray
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
    if not gram.is_radial or isinstance(gram.X, SparsePoints):
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
        self.gram, self.upper, self.members = gram, upper, np.concatenate(groups)
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
            limits = limits_of(m + n, self.gram.X.shape[1], self.thresholds)
            rows.append([m, n, self.starts[i], self.starts[j], in_float32, *limits, at_alpha])
            at_alpha += m + n
        return np.array(rows, dtype=np.int64)

    @cached_property
    def single(self) -> RadialPoints:
        """The points in float32, converted once for all pairs."""
        assert self.points is not None
        return self.points.in_single()

    def solve(self, table: NDArray, sign: float, gap_tol: float, found: PairArrays, begin: int, seconds: float) -> int:
        """Solve and certify pairs of a table, from number ``begin`` on; return the number of the next one.

        Results go to ``found``. Figures are not written where a search is given up. No further pair is started after
        ``seconds``.
        """
        points, single = self.points, self.single if table[:, IN_FLOAT32].any() else None
        assert points is not None
        return int(
            solve_point_pairs(
                points.points,
                points.half,
                np.empty((0, 1), dtype=np.float32) if single is None else single.points,
                np.empty(0, dtype=np.float32) if single is None else single.half,
                self.members,
                self.upper,
                table,
                sign,
                self.gram.X.shape[1],
                self.gram.reach,
                growth_of(self.gram),
                gap_tol,
                MIN_KKT_FLOAT32,
                self.thresholds.min_list_product_float32,
                self.thresholds.max_uncertain_share,
                self.thresholds.safe_errors,
                self.start,
                *found,
                begin,
                seconds,
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
    point, weights, figures = np.empty(n), np.zeros(n), np.empty((1, N_FIGURES))

    growth = growth_of(gram)

    def certify(sums: NDArray) -> tuple[float, float]:
        certify_pair(m, upper, sign, point, weights, sums, figures[0], growth)
        return figures[0, LOW], figures[0, HIGH]

    products = PointSums(gram, search.points, search.single, e, 1.0, thresholds)
    while True:
        clock.check_time()
        alpha = search.alpha
        project_pair(m, upper, sign, alpha, point, weights, figures[0])
        sums = products.compute(weights, certify)
        search.entries += float(n) * products.columns
        objective, bound = float(figures[0, OBJECTIVE]), float(figures[0, LOWER_BOUND])
        if objective - bound <= gap_tol * max(abs(objective), abs(bound)) or not search.extend(sums):
            return PairArrays(alpha, point, weights, figures, np.array([search.entries]))
