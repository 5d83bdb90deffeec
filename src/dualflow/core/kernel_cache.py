"""Caches of kernel values for one run or one fitted model.

`RowCache` holds rows of a matrix in slots that compiled loops read. `KeptGram` is a kernel matrix that caches scaled
points, rows, and the dense matrix.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._radial import add_rows
from .gram import MIN_POINTS_SEPARATE, Gram, KernelMatrix, measured, reach
from .kernel_functions import mean_of
from .radial import FEW_FEATURES, RadialPoints
from .runtime.arrays import immutable_parts, immutable_rows, in_parts
from .runtime.clock import check_time
from .runtime.memory import arena_array, memory_bytes, submatrix
from .runtime.threads import STRETCH_WORK, share, stretches
from .sparse_points import SparsePoints
from .thin_kernel import is_thin

#: ``evaluate(J, start, out)`` writes the entries start, start + 1, … of rows J to ``out``, one row for each of J.
Evaluate = Callable[[NDArray, int, NDArray], object]
#: ``empty(shape, dtype)`` returns an array with arbitrary entries.
Empty = Callable[[tuple[int, int], Any], NDArray]

#: Rows evaluated in one batch: enough for BLAS to be fast, and few enough for memory.
MAX_ROWS_PER_BATCH = 512
#: Largest size of two batches of rows in bytes. With more than 100 000 points a batch has fewer rows.
MAX_BYTES_TWO_BATCHES = 1 << 30
#: By default `RowCache.evict` keeps this many rows beside one for each member.
SPARE_ROWS = 64
#: Up to this many bytes of rows, the cache grows by doubling and copying. A larger one reserves address space for all
#: rows, or `RESERVED_BYTES`. The first write to a page of memory costs more than a copy, and copies make more such
#: writes.
MAX_BYTES_COPIED = 1 << 20
RESERVED_BYTES = 3 << 26

#: A stretch of a sum of rows has at least this many columns.
MIN_STRETCH_COLUMNS = 2048
#: Cost of adding one entry of a row to a sum, in multiplications.
ADDITION_COST = 4

_NO_ROWS = np.empty(0, dtype=np.int64)


def enlarged(array: NDArray, shape: tuple[int, ...]) -> NDArray:
    """Return a copy of the array, enlarged to this shape with zeros."""
    larger = np.zeros(shape, dtype=array.dtype)
    larger[tuple(slice(0, n) for n in array.shape)] = array
    return larger


class RowCache:
    """Cached rows of a symmetric (n, n) matrix in one precision; a full cache evicts the least recently used rows.

    The matrix may grow and shrink (`lengthen`, `keep`). A row that lacks the newest entries is completed when it is
    fetched.

    Parameters
    ----------
    n : int
    dtype : type
    capacity_bytes : int, optional
        There is room for at least 2 · ``batch_rows`` rows in any case. By default rows stay until `evict` is called.
    empty : callable, optional
        Allocates the rows.
    length : int, default=64
        Entries per row that there is room for from the start.

    Attributes
    ----------
    rows : array of shape (room, length)
        One row per slot, of which the first n entries count.
    slot : int64 array of shape (length,)
        The slot of each row, −1 if it is not cached or incomplete.
    owner : int64 array of shape (room,)
        The index of the row in each slot, −1 if the slot is free.
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
        self.capacity, self.batch_rows = sys.maxsize, MAX_ROWS_PER_BATCH
        if capacity_bytes is not None:
            width = self.dtype.itemsize * n
            self.batch_rows = min(MAX_ROWS_PER_BATCH, max(1, MAX_BYTES_TWO_BATCHES // (2 * width)))
            self.capacity = min(n, max(2 * self.batch_rows, capacity_bytes // width))
        self.take(_NO_ROWS, np.empty((0, 0)), n, length)

    def take(self, members: NDArray, rows: NDArray, n: int, length: int = 64, spare: int = 0) -> None:
        """Replace the contents by these rows of n entries, in slots 0, 1, 2, …

        ``rows`` has shape (len(members), n). There is room for ``length`` entries a row and ``spare`` more rows.
        """
        m = len(members)
        room, length = max(16, m + spare), max(n, length)
        #: The slot of each row, complete or not; `slot`, for compiled loops, has complete rows alone. It is first: see
        #: `cached_row`.
        self.place = np.full(length, -1, dtype=np.int64)
        self.n, self.clock, self.count = n, 0, m
        values: NDArray = self._empty((room, length), self.dtype)
        values[:m, : rows.shape[1]] = rows
        self.rows = values
        self.owner = np.full(room, -1, dtype=np.int64)
        self.filled, self.used = np.zeros((2, room), dtype=np.int64)
        self.place[members] = np.arange(m)
        self.slot = self.place.copy()
        self.owner[:m], self.filled[:m] = members, n

    # --- requested rows --------------------------------------------------------------------------

    def add_to(self, G: NDArray, J: NDArray, weights: NDArray, evaluate: Evaluate) -> None:
        """Add Σⱼ weights[j] · row J[j] to G, and fetch missing rows.

        The rows are fetched in batches, so that J may be longer than the capacity.
        """
        for start in range(0, len(J), self.batch_rows):
            part = J[start : start + self.batch_rows]
            self.fetch(part, evaluate)
            slots, shares = self.slot[part], np.ascontiguousarray(weights[start : start + self.batch_rows])
            width = max(MIN_STRETCH_COLUMNS, STRETCH_WORK // (ADDITION_COST * len(part)))
            share(partial(self._add, G, slots, shares), stretches(len(G), width))

    def _add(self, G: NDArray, slots: NDArray, weights: NDArray, columns: slice) -> None:
        """Add the weighted rows of some slots to G, in some columns."""
        add_rows(self.rows, slots, weights, G[columns], columns.start)

    def fetch(self, J: NDArray, evaluate: Evaluate) -> None:
        """Evaluate what is missing of rows J, at most ``batch_rows`` of them, so that all are cached and complete."""
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
        """Fetch row k and return its slot."""
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

    def cached_row(self, k: int, n: int) -> NDArray | None:
        """Return the first n entries of row k, or None if they are not cached; also after Ctrl-C within a change."""
        s = int(self.place[k]) if k < len(self.place) else -1
        if s < 0 or s >= len(self.owner) or self.owner[s] != k or self.filled[s] < n:
            return None
        return self.rows[s, :n]

    def _own(self, slots: NDArray | int, J: NDArray | int) -> None:
        """Record that rows J are in these slots, complete. `cached_row` relies on the order."""
        self.filled[slots], self.used[slots] = self.n, self.clock
        self.owner[slots] = J
        self.place[J] = slots
        self.slot[J] = slots

    def _free(self, wanted: int) -> NDArray:
        """Return ``wanted`` free slots; evict rows or enlarge the cache to have them."""
        if self.count + wanted > self.capacity:
            self.evict(_NO_ROWS, self.capacity - wanted)
        free = np.flatnonzero(self.owner < 0)
        if len(free) < wanted:
            length, room = self.rows.shape[1], max(self.count + wanted, 2 * len(self.rows))
            width = length * self.dtype.itemsize
            if room * width > MAX_BYTES_COPIED:
                room = max(room, min(length, RESERVED_BYTES // width))
            if room * width > RESERVED_BYTES and self.capacity < sys.maxsize:  # do not copy a large cache again
                room = self.capacity
            self._move(min(room, self.capacity), length)
            free = np.flatnonzero(self.owner < 0)
        return free[:wanted]

    def _move(self, room: int, length: int) -> None:
        """Move the rows to memory of another shape, which has room for all cached rows."""
        held = min(room, len(self.rows))
        rows: NDArray = self._empty((room, length), self.dtype)
        rows[:held, : self.n] = self.rows[:held, : self.n]
        self.rows = rows
        self.filled, self.used = enlarged(self.filled[:held], (room,)), enlarged(self.used[:held], (room,))
        self.owner = np.concatenate([self.owner[:held], np.full(room - held, -1, dtype=np.int64)])

    # --- eviction --------------------------------------------------------------------------------

    def evict(self, members: NDArray, spare: int | None = None) -> None:
        """Drop all rows but those of ``members`` and the ``spare`` most recently used others."""
        spare = len(members) + SPARE_ROWS if spare is None else spare
        if self.count <= len(members) + spare:
            return
        others = self.owner >= 0
        others[self.place[members]] = False
        slots = np.flatnonzero(others)
        self._drop(slots[np.argsort(self.used[slots], kind="stable")][: len(slots) - spare])

    def _drop(self, slots: NDArray) -> None:
        """Free these slots."""
        owners = self.owner[slots]
        self.slot[owners] = self.place[owners] = -1
        self.owner[slots] = -1
        self.count -= len(slots)

    # --- a matrix that grows and shrinks -----------------------------------------------------------

    def lengthen(self, n: int, members: NDArray, values: NDArray) -> None:
        """Set the row length to n; append ``values``, shape (new, len(members)), to the rows of ``members``.

        Other rows become incomplete.
        """
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

    def keep(self, variables: NDArray, members: NDArray) -> None:
        """Renumber the given variables 0, 1, 2, …, and keep only the rows of ``members``, which must be complete."""
        rows = self.rows[np.ix_(self.slot[members], variables)]
        self.take(np.searchsorted(variables, members), rows, len(variables))


_GIVEN = ("X", "kernel", "gamma", "degree", "coef0", "n", "center", "squares", "reach", "_diag", "came_sparse")
_given = attrgetter(*_GIVEN)

#: Bytes of cached rows, for each precision.
CACHE_BYTES = 1 << 30
#: The same if X was sparse, because users of sparse points expect little memory to be used.
SPARSE_CACHE_BYTES = 96 << 20
#: Up to this many numbers of scaled points, `subset` copies them, and `full` does not free them.
MAX_NUMBERS_COPIED = 1 << 20
#: If entries are expensive, the dense matrix is computed for at least this many points, ...
MIN_POINTS_DENSE = 500
#: ... and for at most this many.
MAX_POINTS_DENSE = 4000
#: Up to this many points, it is also computed in two cases: if it has at most `MAX_DENSE_RATIO` times the numbers of X;
#: or if each point has two variables, as in a regression with a tube, because both need the same rows (512 MB).
MAX_POINTS_DENSE_WIDE = 8192
MAX_DENSE_RATIO = 4
#: Points up to which it is computed where many support vectors are expected: in float64 and float32 it takes 1 GB then,
#: as much memory as a process keeps. 12 000 points of 300 features took 6.1 s in new memory (3.6), 2.3 in kept (3.2).
MAX_POINTS_DENSE_MANY = 9216
#: The dense matrix may take 1/4 of the machine's memory.
MEMORY_DIVISOR = 4


class KeptGram(KernelMatrix):
    """The kernel matrix of a `Gram` with caches: scaled points, rows, the dense matrix.

    Parameters
    ----------
    gram : KernelMatrix
    n_variables : int, default=0
        Variables of the problem that it serves.

    Attributes
    ----------
    entries_computed : int
        Kernel entries evaluated so far (a whole column costs n of them).
    """

    def __init__(self, gram: KernelMatrix, n_variables: int = 0) -> None:
        self.__dict__.update(zip(_GIVEN, _given(gram), strict=True))
        self.entries_computed = 0
        self._full: NDArray | None = None
        self._radial: dict[str, RadialPoints] = {}
        if isinstance(gram, Gram) and gram.ready is not None:
            # New array objects: a solver may reach those of this cache, and must not reach those of the Gram.
            self._radial["float64"] = gram.ready.view()
        self._rows: dict[str, RowCache] = {}
        self._less_center: Any = None
        self._dense_float32: NDArray | None = None
        self._points_float32: NDArray | None = None
        self._requested_entries = 0  # in float64
        #: Whether an entry takes a product of many features.
        self._takes_products = self.has_named_kernel and self.X.shape[1] > FEW_FEATURES
        #: Whether each entry is expensive, and there is memory for all of them.
        self._fits = (
            self._takes_products
            and MIN_POINTS_DENSE <= self.n <= MAX_POINTS_DENSE_MANY
            and 8 * self.n**2 <= (memory_bytes() or MAX_POINTS_DENSE_WIDE**3) // MEMORY_DIVISOR
            and not isinstance(self.X, SparsePoints)
        )
        self._expensive = self._fits and self.n <= self._most_dense(n_variables)

    def _most_dense(self, n_variables: int) -> int:
        """Return the points up to which the dense matrix saves time if most entries are needed more than once."""
        most = max(MAX_POINTS_DENSE, min(MAX_POINTS_DENSE_WIDE, MAX_DENSE_RATIO * self.X.shape[1]))
        return MAX_POINTS_DENSE_WIDE if n_variables == 2 * self.n else most

    @classmethod
    def of(cls, matrix: KernelMatrix, X: NDArray) -> KeptGram:
        """Return the kernel matrix of other points, with the kernel and centre of ``matrix``; X is not copied.

        X must be finite and dense, and must not change while this object is used. A `ProblemError` if kernel values
        overflow.
        """
        bare = object.__new__(KernelMatrix)
        bare.__dict__.update(zip(_GIVEN, _given(matrix), strict=True))
        bare.X, bare.n = X, len(X)
        if bare.kernel == "rbf":
            bare.center = mean_of(X)
        bare.squares, bare._diag = measured(bare, X)
        bare.reach = reach(bare)
        return cls(bare)

    def __getstate__(self) -> dict[str, Any]:
        arrays = ("_full", "_dense_float32", "_points_float32", "_less_center")
        state = self.__dict__ | dict.fromkeys(arrays) | {"_radial": {}, "_rows": {}}
        if self.has_named_kernel and self.kernel != "precomputed" and not isinstance(self.X, SparsePoints):
            state |= {"squares": None, "_diag": None}  # computed from X again
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.squares is None:
            self.squares, self._diag = measured(self, self.X)

    @property
    def is_rounded(self) -> bool:
        """Whether float32 values were computed in float64 and rounded once."""
        return self._dense_float32 is not None

    @property
    def is_expensive(self) -> bool:
        """Whether `in_single` saves time if most entries are needed: entries are expensive, and float32 suffices."""
        return (self._expensive or self._full is not None) and self.is_safe_in_single

    @property
    def saves_if_many(self) -> bool:
        """Whether `in_single` saves time if many support vectors are expected: for more points than `is_expensive`."""
        return self.is_expensive or (self._fits and self.is_safe_in_single)

    def in_single(self) -> NDArray:
        """Return a float32 copy of the dense K, which the caller may write to; K is computed and cached in float64."""
        K = self.full()
        copy = arena_array(K.shape, np.float32)
        for start in range(0, self.n, MAX_ROWS_PER_BATCH):  # new memory takes long
            check_time()
            J = slice(start, start + MAX_ROWS_PER_BATCH)
            np.copyto(copy[J], K[J], casting="same_kind")
        return copy

    def use_float32(self, K: NDArray) -> None:
        """Use K, shape (n, n), for all rows and blocks in float32; its entries are counted as those of one triangle."""
        self._dense_float32 = K
        self._rows.pop("float32", None)
        self.count(self.n * (self.n + 1) // 2)

    def take_float32(self) -> NDArray:
        """Return the matrix of `use_float32` for the caller to write to; it is no longer used here."""
        K, self._dense_float32 = self._dense_float32, None
        assert K is not None
        return K

    def _known(self, entries: int = 0, dtype: type = float) -> NDArray | None:
        if dtype is np.float32 and self._dense_float32 is not None:
            return self._dense_float32
        # A caller that requested half of an expensive matrix is likely to request all of it, and more than once.
        if entries and self._expensive:
            self._requested_entries += entries
            if self._requested_entries > self.n * self.n // 2:
                self.full()
        return self._full if self._full is not None else super()._known()

    def count(self, entries: int) -> None:
        super().count(entries)
        self.entries_computed += entries

    def _points(self, J: NDArray | slice, dtype: type = float) -> Any:
        sparse = isinstance(self.X, SparsePoints)
        if dtype is np.float32:
            return self._points(J).astype(dtype) if sparse else self._all_points_float32()[J]
        if self._less_center is None:
            if self.center is None and not sparse:
                return self.X[J]
            if sparse:
                self._less_center = self._centred(self.X).with_columns()
            else:
                parts = (self._centred(self.X[rows]) for rows in in_parts(self.X, slice(None)))
                self._less_center = immutable_parts(parts, self.X.shape)
        return self._less_center[J]

    def _all_points_float32(self) -> NDArray:
        """Return all centred points in float32, for kernels of products; centred in float64, and cached."""
        if self._points_float32 is None:
            parts = (self._centred(self.X[rows]) for rows in in_parts(self.X, slice(None)))
            self._points_float32 = immutable_parts(parts, self.X.shape, np.float32)
        return self._points_float32

    def full(self) -> NDArray:
        """Return the dense K, shape (n, n), and cache it. The caller must not write to it."""
        self._full = super().full()
        self._expensive = False
        if self._full is not self.X and self.X.shape[1] * self.n > MAX_NUMBERS_COPIED:  # free the points K is made of
            self._less_center = None
            self._radial.pop("float64", None)
        return self._full

    def radial_points(self, dtype: type, J: NDArray | slice = slice(None)) -> RadialPoints:
        """Return all points, or points J, scaled for the radial kernel; all are cached in each requested precision."""
        name = "float32" if dtype is np.float32 else "float64"
        if name not in self._radial:
            if self.n >= MIN_POINTS_SEPARATE and not isinstance(J, slice) and len(J) < self.n // 4:
                return super().radial_points(dtype, J)
            if (double := self._radial.get("float64")) is not None and self.n < MIN_POINTS_SEPARATE:
                self._radial[name] = double.astype(dtype)
            else:
                self._radial[name] = super().radial_points(dtype).ready()
        return self._radial[name].take(J)

    def sum_rows(self, J: NDArray, weights: NDArray, dtype: type) -> NDArray:
        """Return Σⱼ weights[j] · row J[j] of K, shape (n,), in float64, from cached rows in one precision."""
        out = np.zeros(self.n)
        if is_thin(self):
            out[J] = weights
            return self.matvec(out)
        weights = np.ascontiguousarray(weights, dtype=float)
        if (dense := self._dense_float32) is not None and dtype is np.float32:
            add_rows(dense, J.astype(np.int64, copy=False), weights, out)
            return out
        self._cache(dtype).add_to(out, J, weights, lambda J, start, out: self.rows(J, dtype, out))
        return out

    def matvec(self, v: ArrayLike, rows: NDArray | None = None, dtype: type = float) -> NDArray:
        if dtype is not np.float32 or self._dense_float32 is None or rows is None:
            return super().matvec(v, rows, dtype)
        v = np.asarray(v, dtype=float)
        J = v.nonzero()[0]
        product: NDArray = submatrix(self._dense_float32, rows, J) @ v[J]
        return product

    def cached_block(self, J: NDArray, dtype: type) -> NDArray:
        """Return the block K[J, J], from cached rows where there are any; the caller may write to it."""
        cache = self._rows.get("float32" if dtype is np.float32 else "float64")
        if cache is None or not self._takes_products or self._known(dtype=dtype) is not None:
            return self.block(J, J, dtype)
        cached = cache.slot[J] >= 0
        K: NDArray = np.empty((len(J), len(J)), dtype=dtype)
        K[cached] = submatrix(cache.rows, cache.slot[J[cached]], J)
        K[np.ix_(~cached, cached)] = K[np.ix_(cached, ~cached)].T
        K[np.ix_(~cached, ~cached)] = self.block(J[~cached], J[~cached], dtype)
        return K

    def kept_row(self, k: int) -> NDArray:
        """Return row k of K in float64, and cache it; the caller must not write to it."""
        cache = self._cache(float)
        slot = cache.one(k, lambda J, start, out: self.rows(J, float, out))
        row: NDArray = cache.rows[slot, : self.n]
        return row

    def _cache(self, dtype: type) -> RowCache:
        """Return the row cache of a precision."""
        name = "float32" if dtype is np.float32 else "float64"
        if name not in self._rows:
            room = SPARSE_CACHE_BYTES if self.came_sparse else CACHE_BYTES
            self._rows[name] = RowCache(self.n, dtype, room, arena_array)
        return self._rows[name]

    def subset(self, J: ArrayLike, matrix: NDArray | None = None) -> KeptGram:
        """Return the kernel matrix of points J alone, with their scaled points.

        ``matrix`` is their dense (row-major) matrix, if known.
        """
        J = np.asarray(J, dtype=np.intp)
        # Many points are scaled again on request: that takes as long as a copy, and may not be needed.
        radial = {
            name: points.take(J)
            for name, points in self._radial.items()
            if points.is_sparse or points.points.size <= MAX_NUMBERS_COPIED
        }
        part = object.__new__(KeptGram)
        part.__dict__.update(self.__dict__)
        part.X = submatrix(self.X, J, J) if self.kernel == "precomputed" else _of(self.X, J)
        part.n, part.squares, part._diag = len(J), self.squares[J], self._diag[J]
        part.entries_computed, part._full, part._radial, part._rows = 0, matrix, radial, {}
        part._expensive = part._fits = False
        part._dense_float32 = part._points_float32 = None
        centred = self._less_center if isinstance(self._less_center, np.ndarray) else None
        part._less_center = None if centred is None else immutable_rows(centred, J)
        return part

    def frozen_copy(self) -> Gram:
        """Return the `Gram` of these points."""
        return Gram.of(self, self.X)


def _of(X: Any, J: NDArray) -> Any:
    """Return points J of X."""
    return X[J] if isinstance(X, SparsePoints) else immutable_rows(X, J)
