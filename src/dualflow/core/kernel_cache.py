"""A kernel matrix that keeps what it computed, for the time of one run or of a fitted model.

Rows of a matrix that were needed once, in slots that compiled loops read.
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
from .gram import ESTIMATE_FROM, Gram, KernelMatrix, measured, reach
from .kernel_functions import mean_of
from .radial import FEW_FEATURES, RadialPoints
from .runtime.arrays import immutable_parts, immutable_rows, in_parts
from .runtime.memory import borrowed, memory_bytes, picked
from .runtime.threads import WORTH, share, stretches
from .sparse_points import SparsePoints
from .thin_kernel import is_thin

__all__ = ["Evaluate", "KeptGram", "RowCache", "grown"]


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


_GIVEN = ("X", "kernel", "gamma", "degree", "coef0", "n", "center", "squares", "reach", "_diag", "came_sparse")
_given = attrgetter(*_GIVEN)

#: Room for kept rows, in bytes, for each precision, and where points came sparse, whose memory is to stay little.
CACHE_BYTES, SPARSE_CACHE_BYTES = 1 << 30, 96 << 20
#: Numbers of points ready for the kernel up to which a part of them is a copy.
COPIED = 1 << 20
#: Points between which the whole matrix may be computed where entries are dear, and up to which it may if it takes no
#: more than so many times the points' memory (512 MB); and the part of the machine's memory that it may take.
WHOLE, WIDE, TIMES, PART = (500, 4000), 8192, 4, 4


class KeptGram(KernelMatrix):
    """The kernel matrix of a `Gram`, with memory: points ready for the kernel, rows, the whole matrix.

    Attributes
    ----------
    entries_computed : int
        Kernel entries evaluated so far (a whole column costs n of them).
    """

    def __init__(self, gram: KernelMatrix) -> None:
        self.__dict__.update(zip(_GIVEN, _given(gram), strict=True))
        self.entries_computed = 0
        self._full: NDArray | None = None
        self._radial: dict[str, RadialPoints] = {}
        if isinstance(gram, Gram) and gram.ready is not None:
            # Not the object itself, which is the value's: this one's may be reached by a solver.
            self._radial["float64"] = gram.ready.view()
        self._rows: dict[str, RowCache] = {}
        self._less_center: Any = None
        self._single: NDArray | None = None  # the whole matrix in float32
        self._single_points: NDArray | None = None
        self._paid = 0  # entries in float64 so far
        #: Whether an entry takes a product of many features.
        self._takes_products = (
            isinstance(self.kernel, str) and self.kernel != "precomputed" and self.X.shape[1] > FEW_FEATURES
        )
        #: Whether entries are to be computed once only, as far as memory allows: by BLAS.
        self._dear = (
            self._takes_products
            and WHOLE[0] <= self.n <= max(WHOLE[1], min(WIDE, TIMES * self.X.shape[1]))
            and 8 * self.n**2 <= (memory_bytes() or WIDE**3) // PART
            and not isinstance(self.X, SparsePoints)
        )

    @classmethod
    def of(cls, matrix: KernelMatrix, X: NDArray) -> KeptGram:
        """As of a `Gram` of other points with the kernel of a matrix and what it says of a centre, without its copies:
        finite and dense ones, which nobody may write to meanwhile; refused where kernel values overflow."""
        bare = object.__new__(KernelMatrix)
        bare.__dict__.update(zip(_GIVEN, _given(matrix), strict=True))
        bare.X, bare.n = X, len(X)
        if bare.kernel == "rbf":
            bare.center = mean_of(X)
        bare.squares, bare._diag = measured(bare, X)
        bare.reach = reach(bare)
        return cls(bare)

    def __getstate__(self) -> dict[str, Any]:
        arrays = ("_full", "_single", "_single_points", "_less_center")
        return self.__dict__ | dict.fromkeys(arrays) | {"_radial": {}, "_rows": {}}

    @property
    def is_rounded(self) -> bool:
        """Whether what is in float32 was computed in float64 and rounded once."""
        return self._single is not None

    @property
    def is_dear(self) -> bool:
        """Whether `in_single` is worth having where most entries will be wanted: products of many features take most
        of a run, there is room for them all, and float32 holds them."""
        return (self._dear or self._full is not None) and self.is_safe_in_single

    @property
    def has_whole(self) -> bool:
        """Whether the whole K is at hand."""
        return self._full is not None or super()._known() is not None

    def in_single(self) -> NDArray:
        """A copy of the whole K in float32, for somebody to have as his own: computed in float64, and that is kept."""
        K = self.full()
        copy = borrowed(K.shape, np.float32)
        np.copyto(copy, K, casting="same_kind")
        return copy

    def take_single(self, K: NDArray) -> None:
        """Rows and blocks in float32 are those of K from here on, shape (n, n); counted as those of one triangle."""
        self._single = K
        self._rows.pop("float32", None)
        self.count(self.n * (self.n + 1) // 2)

    def _known(self, entries: int = 0, dtype: type = float) -> NDArray | None:
        if dtype is np.float32 and self._single is not None:
            return self._single
        # Whoever has paid for half of a dear matrix is likely to pay for all of it, and more than once.
        if entries and self._dear:
            self._paid += entries
            if self._paid > self.n * self.n // 2:
                self.full()
        return self._full if self._full is not None else super()._known()

    def count(self, entries: int) -> None:
        super().count(entries)
        self.entries_computed += entries

    def _points(self, J: NDArray | slice, dtype: type = float) -> Any:
        sparse = isinstance(self.X, SparsePoints)
        if dtype is np.float32:
            return self._points(J).astype(dtype) if sparse else self._points_in_single()[J]
        if self._less_center is None:
            if self.center is None and not sparse:
                return self.X[J]
            if sparse:
                self._less_center = self._centred(self.X).with_columns()
            else:
                parts = (self._centred(self.X[rows]) for rows in in_parts(self.X, slice(None)))
                self._less_center = immutable_parts(parts, self.X.shape)
        return self._less_center[J]

    def _points_in_single(self) -> NDArray:
        """All points as kernels of products take them in float32, kept: centred in float64, a part at a time."""
        if self._single_points is None:
            parts = (self._centred(self.X[rows]) for rows in in_parts(self.X, slice(None)))
            self._single_points = immutable_parts(parts, self.X.shape, np.float32)
        return self._single_points

    def full(self, empty: Any = borrowed) -> NDArray:
        """The whole K, shape (n, n); kept, so that later calls are free. Read-only by convention."""
        self._full = super().full(empty)
        self._dear = False
        if self._full is not self.X and self.X.shape[1] * self.n > COPIED:  # what it was made of is in the way
            self._less_center = None
            self._radial.pop("float64", None)
        return self._full

    def radial_points(self, dtype: type, J: NDArray | slice = slice(None)) -> RadialPoints:
        """All points, or some, ready for the radial kernel; all are kept for each precision that was asked for."""
        name = "float32" if dtype is np.float32 else "float64"
        if name not in self._radial:
            if self.n >= ESTIMATE_FROM and not isinstance(J, slice) and len(J) < self.n // 4:
                return super().radial_points(dtype, J)
            if (double := self._radial.get("float64")) is not None and self.n < ESTIMATE_FROM:
                self._radial[name] = double.astype(dtype)
            else:
                self._radial[name] = super().radial_points(dtype).ready()
        return self._radial[name].take(J)

    def sum_rows(self, J: NDArray, weights: NDArray, dtype: type) -> NDArray:
        """Σⱼ weights[j] · row J[j] of K, shape (n,), in float64 from rows in one precision, which are kept."""
        out = np.zeros(self.n)
        if is_thin(self):
            out[J] = weights
            return self.matvec(out)
        weights = np.ascontiguousarray(weights, dtype=float)
        if (whole := self._single) is not None and dtype is np.float32:
            add_rows(whole, J.astype(np.int64, copy=False), weights, out)
            return out
        self._cache(dtype).add_to(out, J, weights, lambda J, start, out: self.rows(J, dtype, out))
        return out

    def matvec(self, v: ArrayLike, rows: NDArray | None = None, dtype: type = float) -> NDArray:
        if dtype is not np.float32 or self._single is None or rows is None:
            return super().matvec(v, rows, dtype)
        v = np.asarray(v, dtype=float)
        J = v.nonzero()[0]
        product: NDArray = picked(self._single, rows, J) @ v[J]
        return product

    def kept_block(self, J: NDArray, dtype: type) -> NDArray:
        """The block K[J, J], of kept rows as far as there are any, the caller's to write to."""
        cache = self._rows.get("float32" if dtype is np.float32 else "float64")
        if cache is None or not self._takes_products or self._known(dtype=dtype) is not None:
            return self.block(J, J, dtype)
        here = cache.slot[J] >= 0
        K: NDArray = np.empty((len(J), len(J)), dtype=dtype)
        K[here] = picked(cache.rows, cache.slot[J[here]], J)
        K[np.ix_(~here, here)] = K[np.ix_(here, ~here)].T
        K[np.ix_(~here, ~here)] = self.block(J[~here], J[~here], dtype)
        return K

    def kept_row(self, k: int) -> NDArray:
        """Row k of K in float64, kept; not to be written to."""
        cache = self._cache(float)
        slot = cache.one(k, lambda J, start, out: self.rows(J, float, out))
        row: NDArray = cache.rows[slot, : self.n]
        return row

    def _cache(self, dtype: type) -> RowCache:
        name = "float32" if dtype is np.float32 else "float64"
        if name not in self._rows:
            room = SPARSE_CACHE_BYTES if self.came_sparse else CACHE_BYTES
            self._rows[name] = RowCache(self.n, dtype, room, borrowed)
        return self._rows[name]

    def subset(self, J: ArrayLike, matrix: NDArray | None = None) -> KeptGram:
        """That of points J alone, with their (row-major) ``matrix`` if known; those ready for the kernel come along."""
        J = np.asarray(J, dtype=np.intp)
        # Large ones are made again where they are asked for, if at all: that takes as long as to copy them.
        radial = {
            name: points.take(J)
            for name, points in self._radial.items()
            if points.is_sparse or points.points.size <= COPIED
        }
        part = object.__new__(KeptGram)
        part.__dict__.update(self.__dict__)
        part.X = picked(self.X, J, J) if self.kernel == "precomputed" else _of(self.X, J)
        part.n, part.squares, part._diag = len(J), self.squares[J], self._diag[J]
        part.entries_computed, part._full, part._radial, part._rows, part._dear = 0, matrix, radial, {}, False
        part._single = part._single_points = None
        centred = self._less_center if isinstance(self._less_center, np.ndarray) else None
        part._less_center = None if centred is None else immutable_rows(centred, J)
        return part

    def value(self) -> Gram:
        """The `Gram` of these points."""
        return Gram.of(self, self.X)


def _of(X: Any, J: NDArray) -> Any:
    """Points J."""
    return X[J] if isinstance(X, SparsePoints) else immutable_rows(X, J)
