"""A kernel matrix that keeps what it computed, for the time of one run or of a fitted model."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ._radial import add_rows
from .arena import borrowed
from .kernel_matrix import ESTIMATE_FROM, KernelMatrix
from .kernel_values import mean_of
from .kernels import Gram, measured, reach
from .memory import memory_bytes
from .picking import picked
from .radial import FEW_FEATURES, RadialPoints
from .row_cache import RowCache
from .sparse_points import SparsePoints
from .thin_kernel import is_thin
from .values import immutable_parts, immutable_rows, in_parts

__all__ = ["KeptGram"]

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
