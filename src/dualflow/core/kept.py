"""A kernel matrix that keeps what it computed, for the time of one run or of a fitted model."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .arena import borrowed
from .kernel_matrix import ESTIMATE_FROM, KernelMatrix
from .kernels import Gram
from .radial import FEW_FEATURES, RadialPoints
from .row_cache import RowCache
from .sparse_points import SparsePoints
from .thin_kernel import is_thin

__all__ = ["KeptGram"]

_GIVEN = ("X", "kernel", "gamma", "degree", "coef0", "n", "center", "squares", "reach", "_diag", "came_sparse")
_given = attrgetter(*_GIVEN)

#: Room for kept rows, in bytes, for each precision, and where points came sparse, whose memory is to stay little.
CACHE_BYTES, SPARSE_CACHE_BYTES = 1 << 30, 96 << 20
#: Points between which the whole matrix may be computed where entries are dear.
WHOLE = 1000, 4000


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
            self._radial["float64"] = RadialPoints(gram.ready.points, gram.ready.half)
        self._rows: dict[str, RowCache] = {}
        self._less_center: Any = None
        self._paid = 0  # entries in float64 so far
        #: Whether entries are to be computed once only, as far as memory allows: by BLAS, of many features.
        self._dear = (
            isinstance(self.kernel, str)
            and self.kernel != "precomputed"
            and WHOLE[0] <= self.n <= WHOLE[1]
            and self.X.shape[1] > FEW_FEATURES
            and not isinstance(self.X, SparsePoints)
        )

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_full": None, "_radial": {}, "_rows": {}, "_less_center": None}

    def _known(self, entries: int = 0) -> NDArray | None:
        # Whoever has paid for half of a dear matrix is likely to pay for all of it, and more than once.
        if entries and self._dear:
            self._paid += entries
            if self._paid > self.n * self.n // 2:
                self.full()
        return self._full if self._full is not None else super()._known()

    def count(self, entries: int) -> None:
        super().count(entries)
        self.entries_computed += entries

    def _points(self, J: NDArray | slice) -> Any:
        sparse = isinstance(self.X, SparsePoints)
        if self._less_center is None:
            if self.center is None and not sparse:
                return self.X[J]
            points = self._centred(self.X)
            self._less_center = points.with_columns() if sparse else points
        return self._less_center[J]

    def full(self) -> NDArray:
        """The whole K, shape (n, n); kept, so that later calls are free. Read-only by convention."""
        self._dear = False
        self._full = super().full()
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
        self._cache(dtype).add_to(out, J, weights, lambda J, start, out: self.rows(J, dtype, out))
        return out

    def kept_block(self, J: NDArray, dtype: type) -> NDArray:
        """The block K[J, J], of kept rows as far as there are any, the caller's to write to."""
        if not self._dear or self._known() is not None:
            return self.block(J, J, dtype)
        cache = self._cache(dtype)
        here = cache.slot[J] >= 0
        K: NDArray = np.empty((len(J), len(J)), dtype=dtype)
        K[here] = cache.rows[cache.slot[J[here]]][:, J]
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
        radial = {name: points.take(J) for name, points in self._radial.items()}
        part = object.__new__(KeptGram)
        part.__dict__.update(self.__dict__)
        part.X = self.X[np.ix_(J, J)] if self.kernel == "precomputed" else self.X[J]
        part.n, part.squares, part._diag = len(J), self.squares[J], self._diag[J]
        part.entries_computed, part._full, part._radial, part._rows, part._dear = 0, matrix, radial, {}, False
        centred = self._less_center if isinstance(self._less_center, np.ndarray) else None
        part._less_center = None if centred is None else centred[J]
        return part

    def value(self) -> Gram:
        """The `Gram` of these points."""
        return Gram.of(self, self.X)
