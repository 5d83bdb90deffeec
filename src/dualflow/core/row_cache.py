"""Rows of a matrix that were needed once, in slots that compiled loops read."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._radial import add_rows
from .threads import WORTH, share, stretches

__all__ = ["Evaluate", "RowCache", "grown"]

#: ``evaluate(J, start, out)`` puts entries start, start + 1, … of rows J into ``out``, a row for each of J.
Evaluate = Callable[[NDArray, int, NDArray], object]
#: ``empty(shape, dtype)`` makes an array, whose entries may be anything.
Empty = Callable[[tuple[int, int], Any], NDArray]

#: Rows evaluated at a time: enough for BLAS, little enough for memory; of more than 100 000 points fewer, so that twice
#: as many take no more than so many bytes.
AT_ONCE, MOST_BYTES = 512, 1 << 30
#: Rows kept by `RowCache.evict` unless said otherwise, beside as many again as there are members.
SPARE = 64
#: Up to so many bytes rows move to larger memory when they need it; beyond, address space for all rows, or so much, is
#: taken at once: memory behind it is taken when it is first written to, which is dear, and dearer than to copy.
MOVED, RESERVED = 1 << 20, 3 << 26

#: Columns of a stretch of a sum of rows, at least, and what an entry takes, in multiplications.
ABREAST, ADDED = 2048, 4

_NOBODY = np.empty(0, dtype=np.int64)


def grown(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """The array in a larger one; what is new is 0."""
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(0, n) for n in array.shape)] = array
    return larger


class RowCache:
    """Rows of a symmetric (n, n) matrix in one precision; beyond the capacity those unused for longest make room.

    The matrix may grow and shrink (`lengthen`, `truncate`, `keep`). A row that has fallen behind is completed when it
    is asked for.

    Parameters
    ----------
    n : int
    dtype : type
    capacity_bytes : int, optional
        Room for at least 2 · ``at_once`` rows is always taken. By default rows stay until `evict` lets them go.
    length : int, default=64
        Entries a row for which there is room from the start.

    Attributes
    ----------
    rows : array of shape (room, length)
        A row a slot, of which the first n entries count.
    slot : int64 array of shape (length,)
        The slot of each row, −1 if it is not here or has fallen behind.
    owner : int64 array of shape (room,)
        Whose row is in each slot, −1: nobody's.
    """

    def __init__(
        self,
        n: int = 0,
        dtype: type = float,
        capacity_bytes: int | None = None,
        empty: Empty = np.empty,
        length: int = 64,
    ) -> None:
        self.dtype, self._empty = np.dtype(dtype), empty
        self.capacity, self.at_once = sys.maxsize, AT_ONCE
        if capacity_bytes is not None:
            width = self.dtype.itemsize * n
            self.at_once = min(AT_ONCE, max(1, MOST_BYTES // (2 * width)))
            self.capacity = min(n, max(2 * self.at_once, capacity_bytes // width))
        self.take(_NOBODY, np.empty((0, 0)), n, length)

    def take(self, members: NDArray, rows: NDArray, n: int, length: int = 64, spare: int = 0) -> None:
        """Hold just these rows of n entries, in slots 0, 1, 2, …, with room for ``length`` entries and ``spare`` rows
        more; ``rows`` has shape (len(members), n)."""
        m = len(members)
        room, length = max(16, m + spare), max(n, length)
        self.n, self.clock, self.count = n, 0, m
        self.rows: NDArray = self._empty((room, length), self.dtype)
        self.rows[:m, : rows.shape[1]] = rows
        #: Where each row is, complete or not; `slot` is what compiled loops may use.
        self.place = np.full(length, -1, dtype=np.int64)
        self.owner = np.full(room, -1, dtype=np.int64)
        self.filled, self.used = np.zeros((2, room), dtype=np.int64)
        self.place[members] = np.arange(m)
        self.slot = self.place.copy()
        self.owner[:m], self.filled[:m] = members, n

    # --- rows that are asked for -----------------------------------------------------------------

    def add_to(self, G: NDArray, J: NDArray, weights: NDArray, evaluate: Evaluate) -> None:
        """G += Σⱼ weights[j] · row j, fetching what is missing; in parts, so that J may outgrow the capacity."""
        for start in range(0, len(J), self.at_once):
            part = J[start : start + self.at_once]
            self.fetch(part, evaluate)
            slots, shares = self.slot[part], np.ascontiguousarray(weights[start : start + self.at_once])
            share(partial(self._add, G, slots, shares), stretches(len(G), max(ABREAST, WORTH // (ADDED * len(part)))))

    def _add(self, G: NDArray, slots: NDArray, weights: NDArray, columns: slice) -> None:
        add_rows(self.rows, slots, weights, G[columns], columns.start)

    def fetch(self, J: NDArray, evaluate: Evaluate) -> None:
        """Make sure that rows J, no more than ``at_once``, are there and complete."""
        self.clock += 1
        places = self.place[J]
        self.used[places[places >= 0]] = self.clock
        for k in J[(places >= 0) & (self.slot[J] < 0)]:
            self.one(int(k), evaluate)
        missing = J[places < 0]
        if len(missing) == 0:
            return
        free = self._free(len(missing))
        if free[-1] - free[0] == len(free) - 1 and self.n == self.rows.shape[1]:
            evaluate(missing, 0, self.rows[free[0] : free[-1] + 1])
        else:
            values: NDArray = np.empty((len(free), self.n), dtype=self.dtype)
            evaluate(missing, 0, values)
            self.rows[free, : self.n] = values
        self._own(free, missing)
        self.count += len(missing)

    def one(self, k: int, evaluate: Evaluate) -> int:
        """The slot of row k, which is then there and complete."""
        self.clock += 1
        s = int(self.place[k])
        if s < 0:
            s = int(self._free(1)[0])
            evaluate(np.array([k]), 0, self.rows[s : s + 1, : self.n])
            self.count += 1
        elif (start := int(self.filled[s])) < self.n:
            evaluate(np.array([k]), start, self.rows[s : s + 1, start : self.n])
        self._own(s, k)
        return s

    def _own(self, slots: NDArray | int, J: NDArray | int) -> None:
        """Rows J are in these slots now, complete."""
        self.slot[J] = self.place[J] = slots
        self.owner[slots], self.filled[slots], self.used[slots] = J, self.n, self.clock

    def _free(self, wanted: int) -> NDArray:
        """So many free slots."""
        if self.count + wanted > self.capacity:
            self.evict(_NOBODY, self.capacity - wanted)
        free = np.flatnonzero(self.owner < 0)
        if len(free) < wanted:
            length, room = self.rows.shape[1], max(self.count + wanted, 2 * len(self.rows))
            width = length * self.dtype.itemsize
            if room * width > MOVED:
                room = max(room, min(length, RESERVED // width))
            if room * width > RESERVED and self.capacity < sys.maxsize:  # no more moves of very much
                room = self.capacity
            self._move(min(room, self.capacity), length)
            free = np.flatnonzero(self.owner < 0)
        return free[:wanted]

    def _move(self, room: int, length: int) -> None:
        """To memory of another shape, which has room for all rows that are here."""
        held = min(room, len(self.rows))
        rows: NDArray = self._empty((room, length), self.dtype)
        rows[:held, : self.n] = self.rows[:held, : self.n]
        self.rows = rows
        self.filled, self.used = grown(self.filled[:held], (room,)), grown(self.used[:held], (room,))
        self.owner = np.concatenate([self.owner[:held], np.full(room - held, -1, dtype=np.int64)])

    # --- rows that go ----------------------------------------------------------------------------

    def evict(self, members: NDArray, spare: int | None = None) -> None:
        """Drop rows of others than the ``members``, those unused for longest, beyond a number of spares."""
        spare = len(members) + SPARE if spare is None else spare
        if self.count <= len(members) + spare:
            return
        others = self.owner >= 0
        others[self.place[members]] = False
        slots = np.flatnonzero(others)
        self._drop(slots[np.argsort(self.used[slots], kind="stable")][: len(slots) - spare])

    def _drop(self, slots: NDArray) -> None:
        owners = self.owner[slots]
        self.slot[owners] = self.place[owners] = -1
        self.owner[slots] = -1
        self.count -= len(slots)

    # --- a matrix that grows and shrinks -----------------------------------------------------------

    def lengthen(self, n: int, members: NDArray, values: NDArray) -> None:
        """There are n entries a row now; ``values`` of shape (new, len(members)) continues the rows of ``members``."""
        length = self.rows.shape[1]
        if n > length:
            held = np.flatnonzero(self.owner >= 0)
            length = max(n, 2 * length)
            self._move(max(16, int(held[-1]) + 1 if len(held) else 0), length)
            missing = np.full(length - len(self.place), -1, dtype=np.int64)
            self.slot, self.place = np.concatenate([self.slot, missing]), np.concatenate([self.place, missing])
        slots = self.place[members]
        self.rows[slots, self.n : n] = values.T
        self.filled[slots] = n
        self.slot[self.owner[self.owner >= 0]] = -1
        self.slot[members] = slots
        self.n = n

    def truncate(self, n: int) -> None:
        """Entries n and later, and their rows, are no longer known."""
        self._drop(np.flatnonzero(self.owner >= n))
        np.minimum(self.filled, n, out=self.filled)
        self.n = n
        whole = np.flatnonzero((self.owner >= 0) & (self.filled == n))
        self.slot[self.owner[whole]] = whole

    def keep(self, variables: NDArray, members: NDArray) -> None:
        """Renumber: the given variables become 0, 1, 2, …; only the rows of ``members``, all complete, stay."""
        rows = self.rows[np.ix_(self.slot[members], variables)]
        self.take(np.searchsorted(variables, members), rows, len(variables))
