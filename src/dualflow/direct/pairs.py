"""The small ones among the pairs of classes of one fit: solved over blocks of kernel values that they share, or from
their points.

A run of its own for each (workspace, twin, context, record) takes longer than solving it, and so do Python's objects:
lists of pairs are solved and certified by one compiled call, or two, and become objects when they are looked at. What
comes of it is what `working-set` brings such a problem to, its end in float64; and what the certificate does not call
sharp is not handed out, but left to a run.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core._pair_bound import certify_listed
from ..core.bounds import growth_of
from ..core.gram import Gram
from ..core.runtime.arrays import filled
from ..core.solution import SHARP
from ..working_set.whole import END, solve_small_pairs
from .pair_blocks import Blocks, Listed, whole
from .pair_points import FoundPair, PointPairs, pair_from_points, suit_together, suits_points
from .results import Batch, PairResult
from .strategy import USUAL, Thresholds

__all__ = ["PairBatch", "solve_pair"]

#: Seconds after which a compiled call begins no other pair: Ctrl-C and the clock are honoured between calls.
AT_ONCE = 0.05


class Aim(NamedTuple):
    """Relative gaps that a pair is to be brought to: as computed, and with what float64 may have rounded away."""

    sharp: float
    enough: float

    @classmethod
    def of(cls, tol: float, refine: bool) -> Aim:
        """Those of a certified gap that is wanted, or a sharp one, where that is less."""
        return cls(min(SHARP, tol) if refine else tol, tol)


def solve_pair(
    gram: Gram,
    groups: Sequence[NDArray],
    upper: NDArray,
    tol: float,
    refine: bool = True,
    start: NDArray | None = None,
    thresholds: Thresholds = USUAL,
) -> PairResult | None:
    """The one pair of two classes: as `PairBatch`, with y = +1 for the second.

    Parameters
    ----------
    gram, groups, upper, tol, refine, thresholds
        As of `PairBatch`.
    start : array, optional
        Multipliers to begin with, feasible, as ``upper`` has them; where their points are asked.
    """
    if _are_usual(upper) and suits_points(gram, len(upper), False, thresholds):
        return _two_classes(gram, groups, upper, Aim.of(tol, refine), start, thresholds)
    return PairBatch(gram, groups, upper, tol, refine, thresholds)[0]


def _are_usual(upper: NDArray) -> bool:
    """Whether all bounds are finite and above 0."""
    return float(upper.min()) > 0.0 and float(upper.max()) < np.inf


def _two_classes(
    gram: Gram,
    groups: Sequence[NDArray],
    upper: NDArray,
    aim: Aim,
    start: NDArray | None,
    thresholds: Thresholds,
) -> PairResult | None:
    """The pair of two classes that `suits_points`."""
    pairs = PointPairs(gram, groups, upper, start, thresholds)
    if pairs.serves(0, [1]):
        return next(_compiled(pairs, pairs.table([(0, 1)]), -1.0, aim))
    return _from_points(gram, pairs.members, len(groups[0]), upper, -1.0, aim, start, thresholds)


class PairBatch(Sequence[PairResult | None]):
    """The hinge's dual with an intercept for each pair of classes (0, 1), (0, 2), …, in this order; settled when it is
    asked for, by any thread.

    An item is None where a run of its own is called for: there are too many points, a bound is 0 or not finite (a
    weight was too small, or too large, to multiply C), or the end could not be reached. y is +1 for the first class,
    but for the second where there are two only.

    Parameters
    ----------
    gram : Gram
        Of all points, its kernel positive semidefinite whatever they are.
    groups : sequence of int arrays
        The points of each class.
    upper : array
        The bounds of their multipliers, class after class.
    tol : float
        Certified relative gap that is wanted.
    refine : bool, default=True
        Whether a sharp one is, where that is less.
    thresholds : Thresholds

    Attributes
    ----------
    units : list of range
        Numbers of pairs that one list leads to the next of: threads that take a unit each need not wait for another.
    """

    def __init__(
        self,
        gram: Gram,
        groups: Sequence[NDArray],
        upper: NDArray,
        tol: float,
        refine: bool = True,
        thresholds: Thresholds = USUAL,
    ) -> None:
        self._thresholds = thresholds
        aim = Aim.of(tol, refine)
        usual, classes = _are_usual(upper), len(groups)
        self._lists: list[Iterator[PairResult | None]] = []
        if classes == 2 and usual and suits_points(gram, len(upper), False, thresholds):
            counts, self._lists = [1], [(_two_classes(gram, groups, upper, aim, None, thresholds) for _ in range(1))]
        elif usual:
            counts = self._listed(gram, groups, upper, aim)
        else:
            counts = [classes * (classes - 1) // 2]
        ends = list(accumulate(counts))
        self.units = [range(end - count, end) for count, end in zip(counts, ends, strict=True)]
        if not self._lists:
            self.units = [range(k, k + 1) for k in range(ends[-1])]
        self._ends = ends
        self._found: list[list[PairResult | None]] = [[] for _ in counts]
        self._locks = [threading.Lock() for _ in counts]

    def _listed(self, gram: Gram, groups: Sequence[NDArray], upper: NDArray, aim: Aim) -> list[int]:
        """Set lists that lead to pairs, if there is a way but runs; returns how many pairs each has."""
        classes, t = len(groups), self._thresholds
        few = len(upper) <= t.max_points_one_matrix
        if classes > 2 and few and suit_together(gram, sum(sorted(map(len, groups))[:2]), t):
            every, pairs = list(combinations(range(classes), 2)), PointPairs(gram, groups, upper, None, t)
            self._lists = [_compiled(pairs, pairs.table(every), 1.0, aim)]
            return [len(every)]
        sizes = np.array([len(group) for group in groups])
        # Two classes that suit have been met already.
        sign, small, most = (1.0, t.max_pair_shared, t.max_dense_updates)
        if classes == 2:
            sign, small = -1.0, t.max_pair_dense
            expensive = gram.is_radial and not gram.has_few_features
            if expensive and float(upper.max() * gram.diag().mean()) <= t.max_scaled_bound:
                small, most = t.max_pair_dense_expensive, t.max_dense_updates_per_point * len(upper)
        elif gram.is_radial and not gram.came_sparse and gram.has_few_features:
            small = t.max_pair_dense
        elif gram.is_radial and not gram.came_sparse:
            small, most = t.max_pair_shared_wide, t.max_dense_updates_wide
        both = [sizes[i] + sizes[i + 1 :] for i in range(classes - 1)]
        alone = [np.array([classes > 2 and suits_points(gram, n, True, t) for n in pairs.tolist()]) for pairs in both]
        listed = [(pairs <= small) & ~other for pairs, other in zip(both, alone, strict=True)]
        counts = list(range(classes - 1, 0, -1))
        if few and not gram.is_translatable and not alone[0].any():
            self._lists = [_solved(whole(gram, groups, sizes, t), upper, sign, most, aim, growth_of(gram))]
            return [sum(counts)]
        if not any(ways.any() for ways in (*alone, *listed)):
            return [sum(counts)]
        blocks = Blocks(gram, groups, sizes, small, t) if any(ways.any() for ways in listed) else None
        points = PointPairs(gram, groups, upper, None, t) if any(ways.any() for ways in alone) else None

        own = np.split(upper, sizes.cumsum()[:-1])

        def by_points(i: int, others: list[int]) -> Iterator[PairResult | None]:
            if points is not None and others and points.serves(i, others):
                return _compiled(points, points.table([(i, j) for j in others]), sign, aim)
            given = ((np.concatenate([groups[i], groups[j]]), np.concatenate([own[i], own[j]])) for j in others)
            return (_from_points(gram, order, len(groups[i]), limits, sign, aim, None, t) for order, limits in given)

        def of_class(i: int) -> Iterator[PairResult | None]:
            apart = by_points(i, (i + 1 + np.flatnonzero(alone[i])).tolist())
            if alone[i].all():
                return apart
            parts = blocks.of(i, i + 1 + np.flatnonzero(listed[i])) if blocks else ()
            settled = (pair for part in parts for pair in _solved(part, upper, sign, most, aim, growth_of(gram)))
            ways = zip(listed[i].tolist(), alone[i].tolist(), strict=True)
            return (next(settled) if is_listed else next(apart) if is_alone else None for is_listed, is_alone in ways)

        self._lists = [of_class(i) for i in range(classes - 1)]
        return counts

    def at_once(self) -> list[PairResult] | None:
        """All of them, one list after the other, where all have come to an end; None otherwise."""
        for found, own in zip(self._found, self._lists, strict=False):
            found.extend(own)
        settled = [pair for found in self._found for pair in found if pair is not None]
        return settled if len(settled) == len(self) else None

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, k: Any) -> Any:
        if not 0 <= k < len(self):
            raise IndexError(k)
        if not self._lists:
            return None
        unit = bisect_right(self._ends, k)
        found, place = self._found[unit], k - self.units[unit].start
        with self._locks[unit]:
            while len(found) <= place:
                found.append(next(self._lists[unit]))
        return found[place]


def _from_points(
    gram: Gram,
    order: NDArray,
    m: int,
    upper: NDArray,
    sign: float,
    aim: Aim,
    start: NDArray | None,
    thresholds: Thresholds,
) -> PairResult | None:
    """One pair, in a list of its own."""
    begun, found = time.monotonic(), pair_from_points(gram, order, m, upper, sign, aim.sharp, start, thresholds)
    if found is None:
        return None
    pair = np.array([[m, len(order) - m, 0]])
    return next(_read(pair, found, 0, 1, aim, time.monotonic() - begun))


def _compiled(pairs: PointPairs, table: NDArray, sign: float, aim: Aim) -> Iterator[PairResult | None]:
    """Pairs of a table, from their points. It writes to nothing but what it makes."""
    m, n, *_, start = table[-1].tolist()
    count, size, begin = len(table), start + m + n, 0
    figures, sums = filled((count, 9), np.nan), np.empty(len(pairs.start))
    found = FoundPair(np.empty(size), np.empty(size), np.empty(size), figures, np.empty(count), sums)
    while begin < count:
        begun = time.monotonic()
        end = pairs.settle(table, sign, aim.sharp, found, begin, AT_ONCE)
        yield from _read(table, found, begin, end, aim, (time.monotonic() - begun) / (end - begin))
        begin = end


def _read(
    table: NDArray, found: FoundPair, begin: int, end: int, aim: Aim, seconds: float
) -> Iterator[PairResult | None]:
    """Those from one to another of pairs that were settled from their points."""
    alpha, point, weights, figures, entries, sums = found
    batch = Batch.of(
        table[begin:end], alpha, point, weights, figures[begin:end], 0.0, seconds, entries[begin:end], sums
    )
    for k, fine in enumerate(batch.are_sharp(*aim)):
        yield PairResult(batch, k) if fine else None


def _solved(
    part: Listed, upper: NDArray, sign: float, most: int, aim: Aim, growth: float
) -> Iterator[PairResult | None]:
    """The pairs of a list. It writes to nothing but what it makes."""
    within, between, listed, entries, centred, has_digits = part
    size = int(listed[-1, 10] + listed[-1, :2].sum())
    alpha, point, weights, begin = np.empty(size), np.empty(size), np.empty(size), 0
    while begin < len(listed):
        begun = time.monotonic()
        end = solve_small_pairs(within, between, listed, upper, sign, alpha, begin, END, most, AT_ONCE)
        which = listed[begin:end]
        figures = np.empty((end - begin, 9))
        certify_listed(within, between, which, upper, sign, alpha, point, weights, figures, growth)
        seconds = (time.monotonic() - begun) / (end - begin)
        shift = 0.0 if centred is None else centred.constant(weights)
        batch = Batch.of(which, alpha, point, weights, figures, shift, seconds, entries[begin:end])
        sharp = batch.are_sharp(*aim)
        if has_digits is not None:
            sharp = [fine and has for fine, has in zip(sharp, has_digits[begin:end].tolist(), strict=True)]
        for k, fine in enumerate(sharp):
            yield PairResult(batch, k) if fine else None
        begin = end
