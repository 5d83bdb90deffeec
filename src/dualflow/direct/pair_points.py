"""One pair of classes solved from its points, where few rows of its kernel matrix are needed."""

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
from ..core.solution import SHARP
from ..core.sparse_points import SparsePoints
from ..working_set._point_pairs import solve_point_pairs
from ..working_set.descent import MIN_KKT_FLOAT32
from .from_points import FromPoints, limits_of, pays_in_single
from .point_sums import PointSums
from .strategy import USUAL, Thresholds

__all__ = ["FoundPair", "PointPairs", "pair_from_points", "suit_together", "suits_points"]

#: Where there is no start, and no sums are asked for.
NOT_ASKED = np.empty(0)


class FoundPair(NamedTuple):
    """What pairs came to: as `core._pair_bound.certify_listed` has it, kernel entries evaluated for each, and if they
    are asked for K times the weights, NaN where that is not all in float64."""

    alpha: NDArray
    point: NDArray
    weights: NDArray
    figures: NDArray
    entries: NDArray
    sums: NDArray = NOT_ASKED


def suits_points(gram: Gram, n: int, of_several: bool = False, thresholds: Thresholds = USUAL) -> bool:
    """Whether n points of two classes, all that there are or ``of_several``, are first tried by rows they ask for."""
    if not gram.is_radial or isinstance(gram.X, SparsePoints):
        return False
    features = gram.X.shape[1]
    few = features <= FEW_FEATURES
    if n <= thresholds.max_points_filled:
        return few and (n >= thresholds.min_pair_points_multiclass or not of_several) and _is_compiled(gram)
    if not few:
        most = thresholds.max_pair_numbers_wide_shared if of_several else thresholds.max_pair_numbers_wide
        return n <= thresholds.max_points_unsampled and n * features < most
    return n <= thresholds.max_pair_points and n * features < thresholds.max_pair_numbers


def suit_together(gram: Gram, least: int, thresholds: Thresholds = USUAL) -> bool:
    """Whether all pairs of few points of several classes are, of which none has less than so many points."""
    if not gram.is_radial or gram.ready is None or least < thresholds.min_pair_points_list:
        return False
    features = gram.X.shape[1]
    wide_enough = least > thresholds.min_points_per_feature * features
    return features <= FEW_FEATURES and wide_enough and _is_compiled(gram)


def _is_compiled(gram: Gram) -> bool:
    """Whether `PointPairs` are for these points: ready as they are, and no bits."""
    points = gram.ready
    return points is not None and points.table is None


class PointPairs:
    """Pairs of classes that a compiled call settles from their points, many at once, if they suit it.

    Parameters
    ----------
    gram : Gram
    groups : sequence of int arrays
        The points of each class.
    upper : array
        The bounds of their multipliers, class after class.
    start : array, optional
        Feasible multipliers to begin with, of two classes only.
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
        self.start = NOT_ASKED if start is None else start
        self.sizes = [len(group) for group in groups]
        points, least = gram.ready, sum(sorted(self.sizes)[:2])
        if points is None and gram.X.size <= thresholds.max_ready_numbers and least <= thresholds.max_points_unsampled:
            points = gram.radial_points(float)
        self.points: RadialPoints | None = points
        self.starts = [0, *accumulate(self.sizes)]

    def serves(self, i: int, others: list[int]) -> bool:
        """Whether class i with others suits it: all points are few enough to be made ready, and no bits, and no sample
        is to say first how many support vectors are to be expected."""
        most = self.sizes[i] + max(self.sizes[j] for j in others)
        return most <= self.thresholds.max_points_unsampled and self.points is not None and self.points.table is None

    def table(self, pairs: Sequence[tuple[int, int]]) -> NDArray:
        """What `settle` is told of pairs of classes."""
        rows: list[list[int]] = []
        start = 0
        for i, j in pairs:
            m, n = self.sizes[i], self.sizes[j]
            single = pays_in_single(self.gram, m + n, (m + n) / 2, self.thresholds)
            limits = limits_of(m + n, self.gram.X.shape[1], self.thresholds)
            rows.append([m, n, self.starts[i], self.starts[j], single, *limits, start])
            start += m + n
        return np.array(rows, dtype=np.int64)

    @cached_property
    def single(self) -> RadialPoints:
        """The points in float32, once for all pairs that are searched in it."""
        assert self.points is not None
        return self.points.in_single()

    def settle(self, table: NDArray, sign: float, enough: float, found: FoundPair, begin: int, seconds: float) -> int:
        """What pairs of a table come to, from one of them on, until so many seconds have passed: into what is `found`
        of each, one after the other; figures stay as they are where a search is given up. Returns the next one."""
        points, single = self.points, self.single if table[:, 4].any() else None
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
                enough,
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


def _expected(
    gram: Gram, order: NDArray, e: NDArray, upper: NDArray, thresholds: Thresholds = USUAL
) -> tuple[float, float]:
    """About how many support vectors there will be, and how many of them free, by how their parts fall from one sample
    to another, twice as large."""
    parts = list[tuple[float, float]]()
    for size in thresholds.sample_points:
        some = np.arange(size) * len(order) // size
        sample = FromPoints(gram, order[some], e[some], 1.0, upper[some], np.zeros(size), np.inf, thresholds)
        sample.settle(np.inf)
        clock.look()
        alpha = sample.alpha
        has_weight = alpha > 0
        free = np.count_nonzero(has_weight & (alpha < sample.upper))
        parts.append((np.count_nonzero(has_weight) / size, free / size))
    n, doublings = len(order), math.log2(len(order) / thresholds.sample_points[1])
    (few, few_free), (more, more_free) = (tuple(max(part, 1 / n) for part in both) for both in parts)
    return n * more * (more / few) ** doublings, n * more_free * (more_free / few_free) ** doublings


def pair_from_points(
    gram: Gram,
    order: NDArray,
    m: int,
    upper: NDArray,
    sign: float,
    enough: float = SHARP,
    start: NDArray | None = None,
    thresholds: Thresholds = USUAL,
) -> FoundPair | None:
    """The hinge's optimum with an intercept for points ``order``, of which the first m have the label ``sign`` and the
    others −``sign``, below bounds ``upper``, from ``start`` on, if that is given, which is feasible.

    None where more rows than a few are asked for, and there are too many to make them all. What the certificate is made
    of is computed anew, from the points.
    """
    n = len(order)
    e = np.empty(n)
    e[:m], e[m:] = sign, -sign
    search = FromPoints(gram, order, e, 1.0, upper, np.zeros(n) if start is None else start, n / 2, thresholds)
    expected = None
    if n > thresholds.max_points_unsampled:
        expected, free = _expected(gram, order, e, upper, thresholds)
        if expected > thresholds.max_expected_support or free > thresholds.max_expected_free:
            return None
    if not search.settle(enough, expected):
        return None
    point, weights, figures = np.empty(n), np.zeros(n), np.empty((1, 9))

    growth = growth_of(gram)

    def certify(sums: NDArray) -> tuple[float, float]:
        certify_pair(m, upper, sign, point, weights, sums, figures[0], growth)
        return figures[0, 4], figures[0, 5]

    products = PointSums(gram, search.points, search.single, e, 1.0, thresholds)
    while True:
        clock.look()
        alpha = search.alpha
        project_pair(m, upper, sign, alpha, point, weights, figures[0])
        sums = products.of(weights, certify)
        search.entries += float(n) * products.columns
        objective, bound = figures[0, :2].tolist()
        if objective - bound <= enough * max(abs(objective), abs(bound)) or not search.look(sums):
            return FoundPair(alpha, point, weights, figures, np.array([search.entries]))
