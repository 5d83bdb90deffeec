"""Kernel functions on arrays, each as it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..exceptions import ProblemError
from ._points import mean_and_squares, square_points
from .clock import look
from .kernel_checks import KernelFunction
from .sparse_points import SparsePoints, is_sparse

__all__ = [
    "called",
    "called_diagonal",
    "centred_lengths",
    "from_differences",
    "largest",
    "mean_of",
    "of_products",
    "squared_lengths",
]

#: Degree up to which powers are products.
MULTIPLIED = 64
#: Numbers of sparse points that are written out at a time, to have differences of.
WRITTEN_OUT = 1 << 22


def mean_of(X: NDArray | SparsePoints) -> NDArray:
    """Mean of the points, of sparse ones in the coordinates that none leaves out; where it overflows so will their
    squared lengths, and that is an error with a name."""
    with np.errstate(over="ignore", invalid="ignore"):
        mean: NDArray = X.mean() if isinstance(X, SparsePoints) else np.add.reduce(X, axis=0) / len(X)
    return mean


def centred_lengths(X: NDArray | SparsePoints) -> tuple[NDArray, NDArray]:
    """Their `mean_of`, and `squared_lengths` about it."""
    if isinstance(X, SparsePoints):
        mean = mean_of(X)
        return mean, squared_lengths(X, mean)
    found: tuple[NDArray, NDArray] = mean_and_squares(X)
    return found


def largest(X: NDArray | SparsePoints) -> float:
    """The largest |entry|."""
    return float(np.abs(X.data if isinstance(X, SparsePoints) else X).max(initial=0.0))


def squared_lengths(X: NDArray | SparsePoints, center: NDArray | None) -> NDArray:
    """‖x − center‖² of the points, shape (n,)."""
    if isinstance(X, SparsePoints):
        with np.errstate(over="ignore", invalid="ignore"):
            return (X if center is None else X - center).squares()
    squares: NDArray = square_points(
        np.ascontiguousarray(X, dtype=float), np.zeros(X.shape[1]) if center is None else center
    )
    return squares


def of_products(inner: NDArray, kernel: str, gamma: float, coef0: float, degree: float) -> NDArray:
    """ "linear", "sigmoid" and "poly" as functions of inner products."""
    if kernel == "linear":
        return inner
    inner = inner * inner.dtype.type(gamma)
    inner += inner.dtype.type(coef0)
    if kernel == "sigmoid":
        return np.tanh(inner, out=inner)
    if degree in range(1, MULTIPLIED + 1):  # numpy's pow is 20 times slower than the products
        return _whole_power(inner, int(degree))
    if not float(degree).is_integer():
        inner = _never_negative(inner, degree)
    return inner**degree


def _whole_power(base: NDArray, degree: int) -> NDArray:
    """The power by squares and products of these."""
    if degree == 1:
        return base
    root = _whole_power(base, degree // 2)
    square = root * root
    return square * base if degree % 2 else square


def _never_negative(base: NDArray, degree: float) -> NDArray:
    """The base of a broken power, with round-off below 0 set to 0."""
    least = float(base.min(initial=0.0))
    if least < -64 * float(np.finfo(base.dtype).eps) * float(np.abs(base).max(initial=0.0)):
        raise ProblemError(
            f"degree={degree!r}: γ⟨x,z⟩ + coef0 is {least:.3g} for two points, which has no such power; give a whole "
            "number, raise coef0, or shift the features above 0"
        )
    return np.maximum(base, 0.0)


def from_differences(A: NDArray | SparsePoints, B: NDArray | SparsePoints, gamma: float) -> NDArray:
    """The radial kernel from differences: slower, and right where γ‖x‖² is so large that the product's cancellation
    would show (identical points must have 1, whatever γ)."""
    if isinstance(A, SparsePoints) and isinstance(B, SparsePoints):
        height = max(1, WRITTEN_OUT // A.shape[1])
        parts = [slice(start, start + height) for start in range(0, max(len(A), len(B)), height)]
        K = np.empty((len(A), len(B)))
        for rows in parts:
            look()
            own = A[rows].toarray()
            for J in parts:
                K[rows, J] = from_differences(own, B[J].toarray(), gamma)
        return K
    with np.errstate(over="ignore"):
        return np.exp(-gamma * cdist(A, B, "sqeuclidean"))


def called(kernel: str | KernelFunction, A: NDArray | SparsePoints, B: NDArray | SparsePoints) -> NDArray:
    """What a callable returns, checked; a copy, for the array may be somebody's. Of no points it is not asked. Sparse
    points it is given as CSR arrays, and may return one."""
    if not (len(A) and len(B)):
        return np.empty((len(A), len(B)))
    given = (points.tocsr() if isinstance(points, SparsePoints) else points for points in (A, B))
    values: Any = kernel(*given)  # type: ignore[operator]
    K = np.array(values.toarray() if is_sparse(values) else values, dtype=float)
    if K.shape != (len(A), len(B)):
        raise ProblemError(
            f"kernel: the callable returned shape {K.shape} for inputs of {len(A)} and {len(B)} rows; "
            f"it must return shape ({len(A)}, {len(B)})"
        )
    if not np.isfinite(K).all():
        raise ProblemError("kernel: the callable returned NaN or infinity")
    return K


def called_diagonal(kernel: str | KernelFunction, X: NDArray | SparsePoints) -> NDArray:
    """k(x, x) of a callable, which is found out if it is not symmetric."""
    diag = np.empty(len(X))
    for start in range(0, len(X), 64):
        J = np.arange(start, min(start + 64, len(X)))
        K = called(kernel, X[J], X[J])
        if not np.allclose(K, K.T, rtol=1e-8, atol=1e-10 * max(1.0, float(np.abs(K).max()))):
            raise ProblemError("kernel: the callable is not symmetric, k(x, z) ≠ k(z, x) on the data")
        diag[J] = np.diag(K)
    return diag
