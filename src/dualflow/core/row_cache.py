"""Rows of the matrix that were needed once, kept while there is room."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ._radial import add_rows

__all__ = ["RowCache"]

#: Rows evaluated at a time: enough for BLAS, little enough for memory.
AT_ONCE = 512


class RowCache:
    """Rows of an (n, n) matrix in one precision; those unused for longest make room.

    Parameters
    ----------
    n : int
    dtype : type
    capacity_bytes : int
        Room for at least 2 · `AT_ONCE` rows is always taken.
    evaluate : callable
        ``evaluate(J, out)`` puts rows J into ``out`` of shape (len(J), n).
    """

    def __init__(
        self, n: int, dtype: type, capacity_bytes: int, evaluate: Callable[[NDArray, NDArray], object]
    ) -> None:
        self.n, self.dtype, self.evaluate = n, dtype, evaluate
        self.capacity = min(n, max(2 * AT_ONCE, int(capacity_bytes // (np.dtype(dtype).itemsize * n))))
        self.rows: NDArray = np.empty((self.capacity, n), dtype=dtype)  # memory is taken when it is first written to
        self.slot = np.full(n, -1, dtype=np.int64)
        self.owner = np.full(self.capacity, -1, dtype=np.int64)
        self.used = np.zeros(self.capacity, dtype=np.int64)
        self.count = self.clock = 0

    def add_to(self, G: NDArray, J: NDArray, weights: NDArray) -> None:
        """G += Σⱼ weights[j] · row j, fetching what is missing; in parts, so that J may outgrow the cache."""
        for start in range(0, len(J), AT_ONCE):
            part = J[start : start + AT_ONCE]
            self.fetch(part)
            add_rows(self.rows, self.slot[part], np.ascontiguousarray(weights[start : start + AT_ONCE]), G)

    def fetch(self, J: NDArray) -> None:
        """Make sure that rows J are there."""
        self.clock += 1
        kept = J[self.slot[J] >= 0]
        self.used[self.slot[kept]] = self.clock
        missing = J[self.slot[J] < 0]
        if len(missing) == 0:
            return
        if self.count + len(missing) > self.capacity:
            self.evict(len(missing))
        free = np.flatnonzero(self.owner < 0)[: len(missing)]
        if free[-1] - free[0] == len(free) - 1:
            self.evaluate(missing, self.rows[free[0] : free[-1] + 1])
        else:
            values: NDArray = np.empty((len(free), self.n), dtype=self.dtype)
            self.evaluate(missing, values)
            self.rows[free] = values
        self.slot[missing], self.owner[free], self.used[free] = free, missing, self.clock
        self.count += len(missing)

    def evict(self, wanted: int) -> None:
        """Drop the rows unused for longest."""
        held = np.flatnonzero(self.owner >= 0)
        oldest = held[np.argsort(self.used[held], kind="stable")][:wanted]
        self.slot[self.owner[oldest]] = -1
        self.owner[oldest] = -1
        self.count -= len(oldest)
