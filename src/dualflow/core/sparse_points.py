"""`SparsePoints`: points with few non-zero coordinates, in CSR form, which kernels use like a dense matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..exceptions import ProblemError
from .runtime.arrays import Value, immutable, immutable_written

#: Points whose dense matrix has up to this many numbers (2 MB) are always stored as one.
MAX_NUMBERS_SMALL = 1 << 18
#: The same limit if dense products are faster (64 MB).
MAX_NUMBERS_DENSE = 1 << 23
#: A multiplication in a sparse product takes as long as this many in a dense one (8 ns, and 0.04 ns).
SPARSE_COST = 200
#: A value of a sparse product takes as long as this many dense multiplications, besides its own multiplications.
SPARSE_COST_PER_VALUE = 80


class SparsePoints(Value):
    """n points of m coordinates, immutable, with the operations that kernels need of an array of shape (n, m).

    ``points[J]``, ``points - center``, ``points * factor``, ``points.astype(dtype)``, ``weights @ points`` and
    ``points @ others.T``, whose result is dense.

    Attributes
    ----------
    data : array of shape (nnz,)
        The non-zero coordinates, in float64 or float32.
    indices : int32 or int64 array of shape (nnz,)
        Their columns, ascending in each row.
    indptr : int32 or int64 array of shape (n + 1,)
        Where each row begins.
    shape : tuple of int
    """

    data: NDArray
    indices: NDArray
    indptr: NDArray
    shape: tuple[int, int]
    #: The transpose in CSR form, cached for repeated products with all points.
    _columns: scipy.sparse.csr_array | None

    #: NumPy's operators defer to the methods of this class.
    __array_ufunc__ = None

    def __init__(self, rows: Any) -> None:
        """Copy a CSR array or matrix with sorted indices, without duplicates or zeros."""
        index = np.int32 if max(*rows.shape, rows.nnz) < np.iinfo(np.int32).max else np.int64
        self._set(
            data=immutable(rows.data, rows.data.dtype),
            indices=immutable(rows.indices, index),
            indptr=immutable(rows.indptr, index),
            shape=(int(rows.shape[0]), int(rows.shape[1])),
            _columns=None,
        )

    @classmethod
    def of(cls, X: Any) -> SparsePoints:
        """Return a float64 copy of any sparse array or matrix of scipy; a `ProblemError` if an index is outside it."""
        check_indices(X, "X")
        rows = scipy.sparse.csr_array(X, dtype=float, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return cls(rows)

    @classmethod
    def joined(cls, parts: Sequence[SparsePoints]) -> SparsePoints:
        """Return the points of all parts, one after another."""
        return cls(scipy.sparse.vstack([part._rows() for part in parts], format="csr"))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_columns": None}

    def __repr__(self) -> str:
        return f"SparsePoints(shape={self.shape}, stored={len(self.data)})"

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.data.dtype

    @property
    def nbytes(self) -> int:
        return self.data.nbytes + self.indices.nbytes + self.indptr.nbytes

    def __len__(self) -> int:
        return self.shape[0]

    def _rows(self) -> scipy.sparse.csr_array:
        """Return a CSR array of scipy over the same memory."""
        rows = scipy.sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape, copy=False)
        rows.has_canonical_format = True
        return rows

    def _with(self, data: NDArray) -> SparsePoints:
        """Return points with other numbers in the same places; some may be 0."""
        other = object.__new__(SparsePoints)
        other._set(**self.__dict__ | {"data": immutable(data, data.dtype), "_columns": None})
        return other

    def view(self) -> SparsePoints:
        """Return a new object with the same numbers."""
        return self._with(self.data)

    def tocsr(self) -> scipy.sparse.csr_array:
        """Return a CSR array, a copy."""
        return self._rows().copy()

    def toarray(self) -> NDArray:
        """Return the dense matrix, shape (n, m)."""
        dense: NDArray = self._rows().toarray()
        return dense

    def write_dense(self, out: NDArray) -> None:
        """Write the dense matrix to ``out``, row-major and of the same shape and precision."""
        self._rows().toarray(out=out)

    def __getitem__(self, J: NDArray | slice) -> SparsePoints:
        if isinstance(J, slice) and slice(None) == J:
            return self
        if isinstance(J, np.ndarray) and len(J) == len(self) and J.dtype != bool and (np.diff(J) == 1).all():
            return self
        return SparsePoints(self._rows()[J])

    def astype(self, dtype: Any, copy: bool = False) -> SparsePoints:
        """Return the points in a precision: these themselves if they have it."""
        if self.data.dtype == dtype:
            return self
        other = self._with(self.data.astype(dtype))
        if self._columns is not None:
            other._set(_columns=self._columns.astype(dtype))
        return other

    def __mul__(self, factor: float) -> SparsePoints:
        return self._with(self.data * factor)

    def __sub__(self, center: NDArray) -> SparsePoints:
        """Return the points less ``center``, which should have few non-zeros: these coordinates become non-zero."""
        (J,) = np.nonzero(center)
        if not len(J):
            return self
        if self._has_all(J):
            return self._with(self.data - center[self.indices])
        moved = scipy.sparse.csr_array((center[J], J, [0, len(J)]), shape=(1, self.shape[1]))
        rows = self._rows() - scipy.sparse.csr_array(np.ones((len(self), 1))) @ moved
        rows.sort_indices()
        return SparsePoints(rows)

    def _has_all(self, J: NDArray) -> bool:
        """Whether all points store each of these coordinates."""
        return bool((self.counts()[J] == len(self)).all())

    def counts(self) -> NDArray:
        """Return the number of points that store each coordinate, shape (m,)."""
        return np.bincount(self.indices, minlength=self.shape[1])

    def mean(self) -> NDArray:
        """Return the mean in the coordinates that all points store, and 0 in others, shape (m,).

        It can be subtracted from the points without making zeros non-zero.
        """
        full = self.counts() == len(self)
        mean = np.zeros(self.shape[1])
        if full.any():
            mean = np.where(full, np.bincount(self.indices, self.data / len(self), self.shape[1]), 0.0)
        return mean

    def variance(self) -> float:
        """Return the variance of all n·m numbers, zeros included."""
        size = self.shape[0] * self.shape[1]
        mean = self.data.sum() / size
        return float((((self.data - mean) ** 2).sum() + (size - len(self.data)) * mean**2) / size)

    def squares(self) -> NDArray:
        """Return ‖x‖², shape (n,)."""
        rows = self._rows()
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=float).ravel()

    def with_columns(self) -> SparsePoints:
        """Return the points with their transpose cached, for many products ``@ self.T``."""
        if self._columns is not None:
            return self
        other = self.view()
        other._set(_columns=self.T)
        return other

    @property
    def T(self) -> scipy.sparse.csr_array:  # noqa: N802
        """The transpose, shape (m, n)."""
        return self._columns if self._columns is not None else self._rows().T.tocsr()

    def common_coordinates(self) -> float:
        """Return the average number of coordinates that are non-zero in both of two points."""
        n, counts = len(self), self.counts().astype(float)
        return float((counts * (counts - 1.0)).sum()) / max(1.0, n * (n - 1.0))

    def dot(self, v: NDArray) -> NDArray:
        """Return the product with a vector of shape (m,), shape (n,)."""
        return np.asarray(self._rows() @ v)

    def sparse_times(self, columns: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """Return the product with a transpose, as a sparse array."""
        return self._rows() @ columns

    def __matmul__(self, columns: scipy.sparse.csr_array) -> NDArray:
        return self.times(columns)

    def __rmatmul__(self, weights: NDArray) -> NDArray:
        return np.asarray(weights @ self._rows())

    def times(self, columns: scipy.sparse.csr_array, out: NDArray | None = None) -> NDArray:
        """Return the product with a transpose, dense: shape (n, columns.shape[1]).

        ``out``, if given, receives it; it must be row-major.
        """
        product: NDArray = (self._rows() @ columns).toarray(order=None if out is not None else "C", out=out)
        return product

    def cost_per_value(self, columns: scipy.sparse.csr_array) -> float:
        """Return the average number of multiplications of `times` per value of its result."""
        size = len(self) * columns.shape[1]
        each = columns.indptr[1:][self.indices] - columns.indptr[self.indices]
        return float(each.sum()) / size if size else 0.0


def is_sparse(X: Any) -> bool:
    """Whether X is a sparse array or matrix of scipy, or `SparsePoints`."""
    return hasattr(X, "tocsr")


def given_points(Z: Any) -> Any:
    """Return new points in float64, as an array or `SparsePoints`."""
    if isinstance(Z, SparsePoints):
        return Z
    return SparsePoints.of(Z) if is_sparse(Z) else np.asarray(Z, dtype=float)


def alike(Z: Any, X: Any) -> Any:
    """Return new points in the form of X, dense or sparse."""
    points = given_points(Z)
    if isinstance(X, SparsePoints):
        return points if isinstance(points, SparsePoints) else SparsePoints.of(scipy.sparse.csr_array(points))
    return points.toarray() if isinstance(points, SparsePoints) else points


def held(points: SparsePoints) -> Any:
    """Return the points in the form that a kernel matrix stores.

    They become a dense matrix if it is small, or has at most 64 MB and faster products.
    """
    n, m = points.shape
    if n * m > MAX_NUMBERS_DENSE:
        return points
    is_dense = n * m <= MAX_NUMBERS_SMALL or SPARSE_COST * points.common_coordinates() + SPARSE_COST_PER_VALUE >= m
    return immutable_written(points.shape, points.write_dense) if is_dense else points


def products(A: Any, B: Any, out: NDArray | None = None) -> NDArray:
    """Return ⟨a, b⟩ for all rows of A and B, both dense or both sparse; ``out``, if given, receives them."""
    if isinstance(A, SparsePoints):
        return A.times(B.T, out)
    return np.matmul(A, B.T, out=out)


def checked_rows(X: Any, name: str) -> SparsePoints:
    """Return a sparse array or matrix as points; a `ProblemError` names the fault of one that is not valid."""
    if isinstance(X, SparsePoints):
        return X
    if X.ndim != 2 or 0 in X.shape:
        raise ProblemError(f"{name} must be a non-empty matrix (n, m), found shape {X.shape}")
    if X.dtype.kind == "c":
        raise ProblemError(f"{name} is complex; kernels here are real")
    with np.errstate(over="ignore", invalid="ignore"):
        points = SparsePoints.of(X)
    if not np.isfinite(points.data).all():
        raise ProblemError(f"{name} contains NaN or infinity; impute or drop those rows")
    return points


def check_indices(X: Any, name: str) -> None:
    """Raise a `ProblemError` if an index of a CSR, CSC, BSR or COO array is outside it.

    Conversions and products of scipy would read and write memory there.
    """
    form, shape = getattr(X, "format", ""), X.shape
    if form in ("csr", "csc", "bsr"):
        block = X.blocksize if form == "bsr" else (1, 1)
        sizes = [size // step for size, step in zip(shape, block, strict=True)]
        (major, minor), kind = (sizes[::-1], "row") if form == "csc" else (sizes, "column")
        starts, indices = X.indptr, X.indices
        if len(starts) != major + 1 or starts[0] != 0 or (starts[1:] < starts[:-1]).any():
            raise ProblemError(
                f"{name}: indptr of the sparse matrix must hold {major + 1} numbers that rise from 0; build it by "
                "scipy.sparse's constructors, and check it with check_format()"
            )
        if starts[-1] > min(len(indices), len(X.data)):
            raise ProblemError(
                f"{name}: indptr of the sparse matrix ends at {starts[-1]}, with {len(indices)} indices and "
                f"{len(X.data)} values; check it with check_format()"
            )
        indexed = [(kind, indices[: starts[-1]], minor)]
    elif form == "coo":
        if not len(X.row) == len(X.col) == len(X.data):
            raise ProblemError(f"{name}: row, col and data of the sparse matrix must be of one length")
        indexed = [("row", X.row, shape[0]), ("column", X.col, shape[1])]
    else:
        return
    for kind, indices, size in indexed:
        if len(indices) and not 0 <= (least := int(indices.min())) <= (most := int(indices.max())) < size:
            raise ProblemError(
                f"{name}: a {kind} index of the sparse matrix is {least if least < 0 else most}, and must be from 0 to "
                f"{size - 1}; build it with the shape it needs"
            )
