"""Kernel values of pairs of classes, in lists that a compiled call solves at once; those within a class are shared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.runtime.arrays import immutable
from ..core.runtime.memory import borrowed
from .strategy import USUAL, Thresholds

__all__ = ["Blocks", "Listed", "whole"]


class Listed(NamedTuple):
    """Pairs of classes and their kernel values, for reading only.

    Attributes
    ----------
    within, between, listed : arrays
        See `core._pair_bound.check_listed`.
    entries : array of shape (n_pairs,)
        Kernel entries evaluated for each; those within a class are shared out among its pairs.
    centred : Gram or None
        Of the only pair's points, if its values are about a centre.
    has_digits : array of shape (n_pairs,) or None
        Which have values that differ by enough of their size; None is all.
    """

    within: NDArray
    between: NDArray
    listed: NDArray
    entries: NDArray
    centred: Gram | None
    has_digits: NDArray | None


def whole(gram: Gram, groups: Sequence[NDArray], sizes: NDArray, thresholds: Thresholds = USUAL) -> Listed:
    """All pairs of few points, over the one matrix of all."""
    order, ends = np.concatenate(groups), sizes.cumsum()
    n, at = len(order), ends - sizes
    K = borrowed((n, n), float)
    points = gram.radial_points(float, order) if gram.is_radial else None
    if points is not None:
        points.kernel(points, K)
    else:
        K[:] = gram.block(order, order)
    first, second = _pairs(len(groups))
    a, b = at[first], at[second]
    table = _table(sizes[first], sizes[second], a * (n + 1), a * n + b, b * (n + 1), n, n, n, a, b)
    digits = None
    if points is None:
        parts = [slice(start, end) for start, end in zip(at.tolist(), ends.tolist(), strict=True)]
        digits = np.array([_has_digits(K[i, i], K[i, j], K[j, j], thresholds) for i, j in combinations(parts, 2)])
    values = _locked(K.ravel())
    return Listed(values, values, table, _entries(table, len(groups)), None, digits)


@cache
def _pairs(classes: int) -> tuple[NDArray, NDArray]:
    """The first and the second class of each pair."""
    first, second = np.triu_indices(classes, 1)
    return immutable(first, first.dtype), immutable(second, second.dtype)


class Blocks:
    """Kernel values of pairs of classes of at most ``small`` points each; nothing is written to once they are made, but
    for what `of` hands out."""

    def __init__(
        self,
        gram: Gram,
        groups: Sequence[NDArray],
        sizes: NDArray,
        small: int,
        thresholds: Thresholds = USUAL,
    ) -> None:
        self.gram, self.groups, self.sizes, self.thresholds = gram, groups, sizes, thresholds
        self.bounds_at = sizes.cumsum() - sizes
        # Of classes that are in a small pair at all, one after another.
        least, next_ = np.sort(sizes)[:2]
        squares = np.where(sizes + np.where(sizes == least, next_, least) <= small, sizes * sizes, 0)
        self.within_at = squares.cumsum() - squares
        self.is_kept = (
            (squares > 0) & (self.within_at + squares <= thresholds.max_kept_entries) & (not gram.is_translatable)
        )
        own = np.where(self.is_kept, sizes, 0)
        self.points_at = own.cumsum() - own
        kept = np.flatnonzero(self.is_kept).tolist()
        self.order = np.concatenate([groups[k] for k in kept] or [np.empty(0, dtype=np.intp)])
        self.points = gram.radial_points(float, self.order) if gram.is_radial else None
        self.within = borrowed((int(squares[self.is_kept].sum()),), float)
        for k in kept:
            self._values(k, self._points_of(k), self.block(k))

    def of(self, i: int, others: NDArray) -> Iterator[Listed]:
        """Those of class i with others, ascending, a part at a time."""
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

    def _strip(self, i: int, others: NDArray) -> Listed:
        """Class i with classes whose points follow one another."""
        n, start = self.sizes[others], int(self.points_at[others[0]])
        width = int(n.sum())
        between = borrowed((int(self.sizes[i]), width), float)
        self._values(i, slice(start, start + width), between)
        m, at, bounds = np.full(len(others), self.sizes[i]), self.within_at, self.bounds_at
        places = self.points_at[others] - start
        table = _table(m, n, at[i], places, at[others], m, width, n, bounds[i], bounds[others])
        digits = None
        if not self.gram.is_radial:
            parts = zip(others.tolist(), places.tolist(), n.tolist(), strict=True)
            own = self.block(i)
            digits = np.array(
                [_has_digits(own, between[:, p : p + size], self.block(j), self.thresholds) for j, p, size in parts]
            )
        return Listed(
            _locked(self.within), _locked(between.ravel()), table, _entries(table, len(self.groups)), None, digits
        )

    def _alone(self, i: int, j: int) -> Listed:
        """Classes i and j, by values of their own: about the mean of the pair, which no other has, if that may be."""
        m, n = int(self.sizes[i]), int(self.sizes[j])
        own = self.gram.subset(np.concatenate([self.groups[i], self.groups[j]])).centred()
        K = np.ascontiguousarray(own.block(np.arange(m + n), np.arange(m + n)))
        digits = None if own.is_radial else np.array([_has_digits(K[:m, :m], K[:m, m:], K[m:, m:], self.thresholds)])
        one, wide = np.ones(1, dtype=np.int64), m + n
        bounds = self.bounds_at
        table = _table(one * m, one * n, 0, m, m * (wide + 1), wide, wide, wide, bounds[i], bounds[j])
        values = _locked(K.ravel())
        return Listed(values, values, table, one * float(wide**2), own if own.center is not None else None, digits)

    def block(self, k: int) -> NDArray:
        """Those within class k."""
        m, at = int(self.sizes[k]), int(self.within_at[k])
        return self.within[at : at + m * m].reshape(m, m)

    def _points_of(self, k: int) -> slice:
        return slice(int(self.points_at[k]), int(self.points_at[k] + self.sizes[k]))

    def _values(self, k: int, columns: slice, out: NDArray) -> None:
        """Kernel values between class k and points in the order kept."""
        rows = self._points_of(k)
        if self.points is not None:
            self.points.take(rows).kernel(self.points.take(columns), out)
        else:
            out[:] = self.gram.block(self.order[rows], self.order[columns])


def _table(m: NDArray, n: NDArray, *columns: NDArray | int) -> NDArray:
    """A list of pairs whose multipliers follow one another."""
    table = np.empty((len(m), 11), dtype=np.int64)
    both = m + n
    for k, column in enumerate((m, n, *columns, both.cumsum() - both)):
        table[:, k] = column
    return table


def _entries(table: NDArray, classes: int) -> NDArray:
    m, n = table[:, 0], table[:, 1]
    entries: NDArray = m * n + (m * m + n * n) / (classes - 1)
    return entries


def _locked(values: NDArray) -> NDArray:
    """The same, for reading only: the certificate is made from what the solver was given."""
    view = values.view()
    view.flags.writeable = False
    return view


def _has_digits(first: NDArray, between: NDArray, second: NDArray, thresholds: Thresholds) -> bool:
    """Whether kernel values differ by enough of their size that two ways to compute them agree in the digits that
    count: if not, a run says so, for its certificate is of values of its own."""
    diag = np.concatenate([first.diagonal(), second.diagonal()])
    total = float(first.sum() + 2 * between.sum() + second.sum())
    return float(diag.mean()) - total / len(diag) ** 2 > thresholds.min_relative_spread * float(diag.max())
