"""Points most of whose coordinates are 0, as rows in CSR form, in the place of a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..exceptions import ProblemError
from .runtime.arrays import Value, immutable

__all__ = ["SparsePoints", "alike", "check_indices", "checked_rows", "given_points", "held", "is_sparse", "products"]

#: Numbers up to which points are held as a matrix, whatever their density (2 MB), and up to which they are where its
#: products are faster (64 MB).
SMALL, AFFORDABLE = 1 << 18, 1 << 23
#: What a multiplication of a sparse product takes of those of a dense one.
DEARER = 64


class SparsePoints(Value):
    """n points of m coordinates: a value that does what kernels ask of an array of shape (n, m), without its zeros.

    ``points[J]``, ``points - center``, ``points * factor``, ``points.astype(dtype)``, ``weights @ points`` and
    ``points @ others.T``, whose result is dense.

    Attributes
    ----------
    data : array of shape (nnz,)
        float64 or float32, none of them 0.
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
    #: The transpose in CSR form where many products with all points are to come.
    _columns: scipy.sparse.csr_array | None

    #: NumPy's operators leave it to ours.
    __array_ufunc__ = None

    def __init__(self, rows: Any) -> None:
        """From a CSR array or matrix whose indices are sorted and which has neither duplicates nor zeros; copied."""
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
        """From any sparse array or matrix of scipy, in float64, which is not changed; `ProblemError` where its indices
        lead out of it."""
        check_indices(X, "X")
        rows = scipy.sparse.csr_array(X, dtype=float, copy=True)
        rows.sum_duplicates()
        rows.eliminate_zeros()
        return cls(rows)

    @classmethod
    def joined(cls, parts: Sequence[SparsePoints]) -> SparsePoints:
        """The points of all parts, one after another."""
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
        """Themselves for scipy, over the same memory."""
        rows = scipy.sparse.csr_array((self.data, self.indices, self.indptr), shape=self.shape, copy=False)
        rows.has_canonical_format = True
        return rows

    def _with(self, data: NDArray) -> SparsePoints:
        """Other numbers in the same places; they may become 0."""
        other = object.__new__(SparsePoints)
        other._set(**self.__dict__ | {"data": immutable(data, data.dtype), "_columns": None})
        return other

    def view(self) -> SparsePoints:
        """The same numbers as an object of its own."""
        return self._with(self.data)

    def tocsr(self) -> scipy.sparse.csr_array:
        """A copy that is the caller's."""
        return self._rows().copy()

    def toarray(self) -> NDArray:
        """The matrix, of shape (n, m)."""
        dense: NDArray = self._rows().toarray()
        return dense

    def __getitem__(self, J: NDArray | slice) -> SparsePoints:
        if isinstance(J, slice) and slice(None) == J:
            return self
        if isinstance(J, np.ndarray) and len(J) == len(self) and J.dtype != bool and (np.diff(J) == 1).all():
            return self
        return SparsePoints(self._rows()[J])

    def astype(self, dtype: Any, copy: bool = False) -> SparsePoints:
        """In another precision; themselves if they are in it."""
        if self.data.dtype == dtype:
            return self
        other = self._with(self.data.astype(dtype))
        if self._columns is not None:
            other._set(_columns=self._columns.astype(dtype))
        return other

    def __mul__(self, factor: float) -> SparsePoints:
        return self._with(self.data * factor)

    def __sub__(self, center: NDArray) -> SparsePoints:
        """Less a point that is 0 but in few coordinates: where it is not, none is left out afterwards."""
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
        """Whether none of these coordinates is left out by any point."""
        return bool((self.counts()[J] == len(self)).all())

    def counts(self) -> NDArray:
        """How many points have each coordinate, shape (m,)."""
        return np.bincount(self.indices, minlength=self.shape[1])

    def mean(self) -> NDArray:
        """Their mean in the coordinates that no point leaves out, 0 elsewhere, shape (m,): what can be subtracted from
        them without filling them up."""
        full = self.counts() == len(self)
        mean = np.zeros(self.shape[1])
        if full.any():
            mean = np.where(full, np.bincount(self.indices, self.data / len(self), self.shape[1]), 0.0)
        return mean

    def variance(self) -> float:
        """Of all n·m numbers, zeros included."""
        size = self.shape[0] * self.shape[1]
        mean = self.data.sum() / size
        return float((((self.data - mean) ** 2).sum() + (size - len(self.data)) * mean**2) / size)

    def squares(self) -> NDArray:
        """‖x‖², shape (n,)."""
        rows = self._rows()
        return np.asarray(rows.multiply(rows).sum(axis=1), dtype=float).ravel()

    def with_columns(self) -> SparsePoints:
        """Themselves, ready for many products ``@ self.T``."""
        if self._columns is not None:
            return self
        other = self.view()
        other._set(_columns=self.T)
        return other

    @property
    def T(self) -> scipy.sparse.csr_array:  # noqa: N802
        """The transpose, of shape (m, n)."""
        return self._columns if self._columns is not None else self._rows().T.tocsr()

    def met(self) -> float:
        """In how many coordinates two points meet, on average."""
        n, counts = len(self), self.counts().astype(float)
        return float((counts * (counts - 1.0)).sum()) / max(1.0, n * (n - 1.0))

    def dot(self, v: NDArray) -> NDArray:
        """The product with a vector of shape (m,)."""
        return np.asarray(self._rows() @ v)

    def sparse_times(self, columns: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """The product with a transpose, sparse."""
        return self._rows() @ columns

    def __matmul__(self, columns: scipy.sparse.csr_array) -> NDArray:
        return self.times(columns)

    def __rmatmul__(self, weights: NDArray) -> NDArray:
        return np.asarray(weights @ self._rows())

    def times(self, columns: scipy.sparse.csr_array, out: NDArray | None = None) -> NDArray:
        """The product with a transpose, dense: shape (n, columns.shape[1]); in ``out`` if that is given, row-major."""
        product: NDArray = (self._rows() @ columns).toarray(order=None if out is not None else "C", out=out)
        return product

    def work(self, columns: scipy.sparse.csr_array) -> float:
        """Multiplications of `times` for a value of its result, on average."""
        size = len(self) * columns.shape[1]
        each = columns.indptr[1:][self.indices] - columns.indptr[self.indices]
        return float(each.sum()) / size if size else 0.0


def is_sparse(X: Any) -> bool:
    """Whether this is a sparse array or matrix of scipy, or points of ours."""
    return hasattr(X, "tocsr")


def given_points(Z: Any) -> Any:
    """New points as float64: an array, or `SparsePoints`."""
    if isinstance(Z, SparsePoints):
        return Z
    return SparsePoints.of(Z) if is_sparse(Z) else np.asarray(Z, dtype=float)


def alike(Z: Any, X: Any) -> Any:
    """New points in the form that X has."""
    points = given_points(Z)
    if isinstance(X, SparsePoints):
        return points if isinstance(points, SparsePoints) else SparsePoints.of(scipy.sparse.csr_array(points))
    return points.toarray() if isinstance(points, SparsePoints) else points


def held(points: SparsePoints) -> Any:
    """Points as a kernel matrix holds them: as a matrix, if that is small, or within 64 MB and its products are faster;
    else as they are."""
    n, m = points.shape
    if n * m > AFFORDABLE:
        return points
    return points.toarray() if n * m <= SMALL or DEARER * points.met() >= m else points


def products(A: Any, B: Any, out: NDArray | None = None) -> NDArray:
    """⟨a, b⟩ for all rows of A and of B, both arrays or both sparse; in ``out`` if that is given."""
    if isinstance(A, SparsePoints):
        return A.times(B.T, out)
    return np.matmul(A, B.T, out=out)


def checked_rows(X: Any, name: str) -> SparsePoints:
    """A sparse array or matrix as points; `ProblemError` names what is wrong with it."""
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
    """`ProblemError` where the index arrays of a CSR, CSC, BSR or COO array lead out of it: scipy's conversions and
    products would read and write there."""
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
