"""Columns of Q for the points on the margin, and for a few that were there a moment ago."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

__all__ = ["ColumnPool", "Matrix", "grown"]

#: Columns kept of points that have left the margin, beside as many again as there are margin points.
SPARE = 64


class Matrix(Protocol):
    """What an engine must be told of Q, a piece at a time; variables are numbered in the order of arrival."""

    def column(self, k: int, start: int, stop: int) -> NDArray:
        """Q[start:stop, k], shape (stop − start,)."""

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        """Q[rows, J], shape (len(rows), len(J))."""

    def product(self, alpha: NDArray) -> NDArray:
        """Q α, shape (n,)."""


def grown(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """The array in a larger one; what is new is 0."""
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(0, n) for n in array.shape)] = array
    return larger


class ColumnPool:
    """Columns of a symmetric matrix that gains rows; one that has fallen behind is completed when it is asked for.

    Attributes
    ----------
    rows : array of shape (room, length)
        One column a slot.
    slot : integer array
        The slot of each variable's column, −1 if it is not here or has fallen behind.
    """

    def __init__(self, matrix: Matrix) -> None:
        self.matrix = matrix
        self.take(np.zeros(0, dtype=np.int64), np.zeros((0, 0)), 0)

    def take(self, members: NDArray, columns: NDArray, n: int) -> None:
        """Hold just these columns of n variables, in slots 0, 1, 2, …; ``columns`` has shape (len(members), n)."""
        m = len(members)
        room, length = max(16, m), max(64, n)
        self.n, self.clock = n, 0
        self.rows = grown(columns, (room, length))
        self.slot, self.place = np.full((2, length), -1, dtype=np.int64)
        self.owner = np.full(room, -1, dtype=np.int64)
        self.filled, self.used = np.zeros((2, room), dtype=np.int64)
        self.slot[members] = self.place[members] = np.arange(m)
        self.owner[:m] = members
        self.filled[:m] = n

    def lengthen(self, n: int, members: NDArray, values: NDArray) -> None:
        """There are n variables now; ``values`` of shape (new, len(members)) continues the columns of ``members``."""
        length = self.rows.shape[1]
        if n > length:
            self.rows = grown(self.rows, (len(self.rows), max(n, 2 * length)))
            missing = np.full(self.rows.shape[1] - length, -1, dtype=np.int64)
            self.slot, self.place = np.concatenate([self.slot, missing]), np.concatenate([self.place, missing])
        slots = self.place[members]
        self.rows[slots, self.n : n] = values.T
        self.filled[slots] = n
        self.slot[self.owner[self.owner >= 0]] = -1
        self.slot[members] = slots
        self.n = n

    def fetch(self, k: int) -> int:
        """The slot of column k, which is then there and complete."""
        self.clock += 1
        s = int(self.place[k])
        start = 0 if s < 0 else int(self.filled[s])
        if start < self.n:
            values = self.matrix.column(k, start, self.n)
            if s < 0:
                s = self._free_slot()
                self.filled[s] = 0
                self.place[k], self.owner[s] = s, k
            self.rows[s, start : self.n] = values
        self.filled[s], self.used[s] = self.n, self.clock
        self.slot[k] = s
        return s

    def _free_slot(self) -> int:
        free = np.flatnonzero(self.owner < 0)
        if len(free) == 0:
            held = len(self.owner)
            self.rows = grown(self.rows, (2 * held, self.rows.shape[1]))
            self.filled, self.used = grown(self.filled, (2 * held,)), grown(self.used, (2 * held,))
            self.owner = np.concatenate([self.owner, np.full(held, -1, dtype=np.int64)])
            return held
        return int(free[0])

    def evict(self, members: NDArray, spare: int | None = None) -> None:
        """Drop columns of others than the ``members``, those unused for longest, beyond a number of spares."""
        spare = len(members) + SPARE if spare is None else spare
        held = np.flatnonzero(self.owner >= 0)
        if len(held) <= len(members) + spare:
            return
        inside = np.zeros(len(self.owner), dtype=bool)
        inside[self.place[members]] = True
        others = held[~inside[held]]
        self._drop(others[np.argsort(self.used[others], kind="stable")][: len(others) - spare])

    def _drop(self, slots: NDArray) -> None:
        owners = self.owner[slots]
        self.slot[owners] = self.place[owners] = -1
        self.owner[slots] = -1

    def truncate(self, n: int) -> None:
        """Variables n and later are no longer known."""
        self._drop(np.flatnonzero(self.owner >= n))
        np.minimum(self.filled, n, out=self.filled)
        self.n = n
        whole = np.flatnonzero((self.owner >= 0) & (self.filled == n))
        self.slot[self.owner[whole]] = whole

    def keep(self, variables: NDArray, members: NDArray) -> None:
        """Renumber: the given variables become 0, 1, 2, …; only the columns of ``members``, all complete, stay."""
        columns = self.rows[np.ix_(self.slot[members], variables)]
        self.take(np.searchsorted(variables, members), columns, len(variables))
