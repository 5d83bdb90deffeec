"""Kernel values of pairs of classes, in lists that one compiled call solves; values within a class are shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core._pair_bound import N_COLUMNS, N_FIRST, N_SECOND
from ..core.gram import Gram
from ..core.runtime.arrays import immutable
from ..core.runtime.memory import arena_array
from .strategy import USUAL, Thresholds


class BlockList(NamedTuple):
    """Pairs of classes and their kernel values, all read-only.

    Attributes
    ----------
    within, between, listed : arrays
        See `core._pair_bound.check_listed`.
    entries : array of shape (n_pairs,)
        Kernel entries evaluated for each pair; each pair of a class has an equal share of those within the class.
    lowered : array or None
        How much the centre of the kernel values, if they are about one, lowers a kernel sum for a unit of each weight,
        see `KernelMatrix.constants`. Laid out as the multipliers.
    has_digits : bool array of shape (n_pairs,) or None
        Which pairs have kernel values with enough significant digits, see `_has_digits`; None is all.
    """

    within: NDArray
    between: NDArray
    listed: NDArray
    entries: NDArray
    lowered: NDArray | None
    has_digits: NDArray | None


def dense_list(gram: Gram, groups: Sequence[NDArray], sizes: NDArray, thresholds: Thresholds = USUAL) -> BlockList:
    """Return all pairs of classes of few points, over one kernel matrix of all points."""
    order, ends, gram = np.concatenate(groups), sizes.cumsum(), gram.centred()
    n, starts = len(order), ends - sizes
    K = gram.block(order, order)
    first, second = _pairs(len(groups))
    a, b = starts[first], starts[second]
    table = _table(sizes[first], sizes[second], a * (n + 1), a * n + b, b * (n + 1), n, n, n, a, b)
    digits = None
    if not gram.is_radial:
        parts = [slice(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        shares = gram.center is not None and len(groups) > 2
        digits = np.array(
            [_has_digits(K[i, i], K[i, j], K[j, j], shares, thresholds) for i, j in combinations(parts, 2)]
        )
    values, constants = _read_only(K.ravel()), gram.constants(order)
    pairs = combinations([] if constants is None else np.split(constants, ends[:-1]), 2)
    lowered = None if constants is None else np.concatenate([one for pair in pairs for one in pair])
    return BlockList(values, values, table, _entries(table, len(groups)), lowered, digits)


@cache
def _pairs(classes: int) -> tuple[NDArray, NDArray]:
    """Return the first and the second class of each pair."""
    first, second = np.triu_indices(classes, 1)
    return immutable(first, first.dtype), immutable(second, second.dtype)


class SharedBlocks:
    """Kernel values of pairs of classes of at most ``max_points`` points each, in blocks that pairs share.

    Nothing is written to after construction, so that threads can use `of` at the same time.

    Parameters
    ----------
    gram : Gram
    groups : sequence of int arrays
        The points of each class.
    sizes : int array
        Their numbers.
    max_points : int
        Points of a pair, at most.
    thresholds : Thresholds
    """

    def __init__(
        self,
        gram: Gram,
        groups: Sequence[NDArray],
        sizes: NDArray,
        max_points: int,
        thresholds: Thresholds = USUAL,
    ) -> None:
        self.given, self.gram, self.groups, self.sizes = gram, gram.centred(), groups, sizes
        self.thresholds = thresholds
        self.bounds_at = sizes.cumsum() - sizes
        # Blocks within classes follow one another, for classes whose smallest pair is small enough.
        smallest, second = np.sort(sizes)[:2]
        squares = np.where(sizes + np.where(sizes == smallest, second, smallest) <= max_points, sizes * sizes, 0)
        self.within_at = squares.cumsum() - squares
        self.is_kept = (squares > 0) & (self.within_at + squares <= thresholds.max_kept_entries)
        kept_sizes = np.where(self.is_kept, sizes, 0)
        self.points_at = kept_sizes.cumsum() - kept_sizes
        kept = np.flatnonzero(self.is_kept).tolist()
        self.order = np.concatenate([groups[k] for k in kept] or [np.empty(0, dtype=np.intp)])
        self.points = gram.radial_points(float, self.order) if gram.is_radial else None
        self.constants = self.gram.constants(self.order)
        self.within = arena_array((int(squares[self.is_kept].sum()),), float)
        for k in kept:
            self._values(k, self._points_of(k), self.block(k))

    def of(self, i: int, others: NDArray) -> Iterator[BlockList]:
        """Yield the pairs of class i with other classes, in ascending order, as lists."""
        start = 0
        while start < len(others):
            stop, first = start + 1, others[start]
            if not (self.is_kept[i] and self.is_kept[first]):
                yield self._alone(i, int(first))
            else:
                width, end = self.sizes[first], self.points_at[first] + self.sizes[first]
                while stop < len(others) and self.is_kept[k := others[stop]] and self.points_at[k] == end:
                    width, end = width + self.sizes[k], end + self.sizes[k]
                    if width * self.sizes[i] > self.thresholds.max_strip_entries:
                        break
                    stop += 1
                yield self._strip(i, others[start:stop])
            start = stop

    def _strip(self, i: int, others: NDArray) -> BlockList:
        """Return the pairs of class i with kept classes whose points follow one another."""
        n, start = self.sizes[others], int(self.points_at[others[0]])
        width = int(n.sum())
        between = arena_array((int(self.sizes[i]), width), float)
        self._values(i, slice(start, start + width), between)
        m, within_at, bounds = np.full(len(others), self.sizes[i]), self.within_at, self.bounds_at
        places = self.points_at[others] - start
        table = _table(m, n, within_at[i], places, within_at[others], m, width, n, bounds[i], bounds[others])
        digits = None
        if not self.gram.is_radial:
            parts = zip(others.tolist(), places.tolist(), n.tolist(), strict=True)
            block, shares = self.block(i), self.constants is not None and len(self.groups) > 2
            digits = np.array(
                [
                    _has_digits(block, between[:, p : p + size], self.block(j), shares, self.thresholds)
                    for j, p, size in parts
                ]
            )
        lowered, constants = None, self.constants
        if constants is not None:
            lowered = np.concatenate([constants[self._points_of(k)] for j in others.tolist() for k in (i, j)])
        entries = _entries(table, len(self.groups))
        return BlockList(_read_only(self.within), _read_only(between.ravel()), table, entries, lowered, digits)

    def _alone(self, i: int, j: int) -> BlockList:
        """Return classes i and j with kernel values of their own, about the mean of the pair if that is possible."""
        m, n = int(self.sizes[i]), int(self.sizes[j])
        gram, both = self.given.subset(np.concatenate([self.groups[i], self.groups[j]])).centred(), np.arange(m + n)
        K, digits = np.ascontiguousarray(gram.block(both, both)), None
        if not gram.is_radial:
            digits = np.array([_has_digits(K[:m, :m], K[:m, m:], K[m:, m:], False, self.thresholds)])
        one, width = np.ones(1, dtype=np.int64), m + n
        bounds = self.bounds_at
        table = _table(one * m, one * n, 0, m, m * (width + 1), width, width, width, bounds[i], bounds[j])
        values = _read_only(K.ravel())
        return BlockList(values, values, table, one * float(width**2), gram.constants(both), digits)

    def block(self, k: int) -> NDArray:
        """Return the kernel values within class k, shape (m, m)."""
        m, at = int(self.sizes[k]), int(self.within_at[k])
        return self.within[at : at + m * m].reshape(m, m)

    def _points_of(self, k: int) -> slice:
        """Return the places of class k in the order of the kept points."""
        return slice(int(self.points_at[k]), int(self.points_at[k] + self.sizes[k]))

    def _values(self, k: int, columns: slice, out: NDArray) -> None:
        """Compute the kernel values between class k and kept points, into ``out``."""
        rows = self._points_of(k)
        if self.points is not None:
            self.points.take(rows).kernel(self.points.take(columns), out)
        else:
            J = self.order[rows]
            out[:] = self.gram.block(J, J if rows == columns else self.order[columns])


def _table(m: NDArray, n: NDArray, *columns: NDArray | int) -> NDArray:
    """Return a list of pairs, with the columns of `working_set._classes`; their multipliers follow one another."""
    table = np.empty((len(m), N_COLUMNS), dtype=np.int64)
    both = m + n
    for k, column in enumerate((m, n, *columns, both.cumsum() - both)):
        table[:, k] = column
    return table


def _entries(table: NDArray, classes: int) -> NDArray:
    """Return the kernel entries of each pair, with its share of those within its classes."""
    m, n = table[:, N_FIRST], table[:, N_SECOND]
    entries: NDArray = m * n + (m * m + n * n) / (classes - 1)
    return entries


def _read_only(values: NDArray) -> NDArray:
    """Return a read-only view: the certificate must use the same values as the solver."""
    view = values.view()
    view.flags.writeable = False
    return view


def _has_digits(first: NDArray, between: NDArray, second: NDArray, shares: bool, thresholds: Thresholds) -> bool:
    """Whether the spread of the points in feature space is large compared with the kernel values.

    If not, two ways to compute the values differ in the digits that matter. Such a pair is left to a run, whose
    certificate computes values of its own. If the pair ``shares`` the centre of all classes, the spread must be large
    compared with the squared lengths too: about its own centre the pair has more digits.
    """
    diag = np.concatenate([first.diagonal(), second.diagonal()])
    if not diag.any():
        return True  # copies of one point, about it: all values are 0, without rounding
    spread = spread_of(diag, float(first.sum() + 2 * between.sum() + second.sum()))
    near = not shares or spread * float(diag.max()) > thresholds.min_spread_shared * float(diag.mean())
    return near and spread > thresholds.min_relative_spread


def relative_spread(K: NDArray) -> float:
    """Return the mean squared distance of the points of a kernel matrix from their mean, over the largest Kᵢᵢ."""
    return spread_of(K.diagonal(), float(K.sum()))


def spread_of(diag: NDArray, total: float) -> float:
    """Return the `relative_spread` of a matrix with this diagonal and sum."""
    largest = float(diag.max())
    return (float(diag.mean()) - total / len(diag) ** 2) / largest if largest > 0 else 0.0
