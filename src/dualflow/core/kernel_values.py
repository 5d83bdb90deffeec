"""Kernel functions on arrays, each as it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from ..exceptions import ProblemError
from ._points import mean_and_squares, square_points
from .clock import awaited, look
from .kernel_checks import KernelFunction
from .sparse_points import SparsePoints, is_sparse

__all__ = [
    "called",
    "called_diagonal",
    "centred_lengths",
    "check_callable",
    "from_differences",
    "kernel_values",
    "largest",
    "mean_of",
    "of_products",
    "read_again",
    "squared_lengths",
]

#: Degree up to which powers are products.
MULTIPLIED = 64
#: Numbers of sparse points that are written out at a time, to have differences of.
WRITTEN_OUT = 1 << 22
#: Points between which a callable is called for its diagonal.
DIAGONAL_ROWS = 64
#: Points between which a callable is read twice, to find out if it contradicts itself.
READ_AGAIN = 16
#: Relative difference up to which two values of a callable in float64 are the same.
SAME = 1e-8


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
    """What a callable returns, as `kernel_values` reads it. It is not called for no points; sparse points it is given
    as CSR arrays, and may return one."""
    if not (len(A) and len(B)):
        return np.empty((len(A), len(B)))
    return kernel_values(_answer(kernel, A, B), (len(A), len(B)))


def kernel_values(values: Any, shape: tuple[int, int]) -> NDArray:
    """What a callable kernel returned for so many points, as a C-ordered float64 matrix that is a copy.

    Arrays of any order and real type, sparse ones, lists, matrices and frames are taken; `ProblemError` says what is
    wrong with anything else.
    """
    return _with_resolution(values, shape)[0]


def _with_resolution(values: Any, shape: tuple[int, int]) -> tuple[NDArray, float]:
    """The same, and the relative size below which differences between the values are round-off."""
    if isinstance(values, np.ma.MaskedArray):
        raise ProblemError("kernel: the callable returned a masked array; fill the masked entries first")
    try:
        array = np.asarray(values.toarray() if is_sparse(values) else values)
    except ValueError as error:  # rows of several lengths
        raise ProblemError(f"kernel: the callable returned no matrix: {error}") from None
    if array.dtype.kind == "c" or (array.dtype.kind == "O" and any(isinstance(v, complex) for v in array.flat)):
        raise ProblemError("kernel: the callable returned complex values; kernels here are real")
    if array.shape != shape:
        raise ProblemError(
            f"kernel: the callable returned shape {array.shape} for inputs of {shape[0]} and {shape[1]} rows; "
            f"it must return shape {shape}"
        )
    try:
        if array.dtype.kind not in "biufO":
            raise TypeError
        with np.errstate(over="ignore"):  # a longer float may hold more
            K = np.array(array, dtype=float, order="C")
    except (TypeError, ValueError):
        raise ProblemError(f"kernel: the callable returned dtype {array.dtype}; it must return numbers") from None
    if not np.isfinite(K).all():
        raise ProblemError("kernel: the callable returned NaN or infinity")
    return K, max(SAME, 16 * float(np.finfo(array.dtype).eps)) if array.dtype.kind == "f" else SAME


def called_diagonal(kernel: str | KernelFunction, X: NDArray | SparsePoints) -> NDArray:
    """k(x, x) of a callable; `ProblemError` if it is not symmetric on the blocks that are read."""
    diag = np.empty(len(X))
    for start in range(0, len(X), DIAGONAL_ROWS):
        J = slice(start, start + DIAGONAL_ROWS)
        K, same = _with_resolution(_answer(kernel, X[J], X[J]), (len(diag[J]), len(diag[J])))
        _check_symmetric(K, same)
        diag[J] = K.diagonal()
    return diag


def read_again(n: int) -> NDArray:
    """A few of n points, far apart, whose kernel values `check_callable` reads twice."""
    return np.unique(np.linspace(0, n - 1, min(n, READ_AGAIN)).astype(np.intp))


def check_callable(kernel: KernelFunction, points: Any) -> None:
    """`ProblemError` if a callable contradicts itself on a few points: other values when it is called again, with other
    points beside them, or k(x, z) ≠ k(z, x)."""
    n, part = points.shape[0] if hasattr(points, "shape") else len(points), slice(None, None, 2)
    K, same = _with_resolution(_answer(kernel, points, points), (n, n))
    again, first = kernel_values(_answer(kernel, points[part], points), (len(K[part]), n)), K[part]
    apart = np.abs(again - first) - same * _size(K)[part]
    if (apart > 0).any():
        worst = np.unravel_index(int(apart.argmax()), apart.shape)
        raise ProblemError(
            f"kernel: the callable contradicts itself, k(x, z) was {first[worst]:.10g} and then {again[worst]:.10g} "
            "for the same two points; it must give the same value at every call, whatever other points are in it"
        )
    _check_symmetric(K, same)


def _answer(kernel: Any, A: Any, B: Any) -> Any:
    with awaited():
        return kernel(*(points.tocsr() if isinstance(points, SparsePoints) else points for points in (A, B)))


def _check_symmetric(K: NDArray, same: float) -> None:
    if (np.abs(K - K.T) > same * _size(K)).any():
        raise ProblemError("kernel: the callable is not symmetric, k(x, z) ≠ k(z, x) on the data")


def _size(K: NDArray) -> NDArray:
    """|entries|, none below a hundredth of the largest: the units in which two values are the same."""
    size: NDArray = np.abs(K)
    return np.maximum(size, 0.01 * float(size.max()))
