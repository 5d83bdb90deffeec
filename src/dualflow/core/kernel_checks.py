"""What a kernel matrix may be made of: each refusal names the argument, what was found, and the fix."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError, near_miss
from ._points import all_finite, asymmetry
from .sparse_points import SparsePoints, checked_rows, held, is_sparse
from .values import in_parts

__all__ = [
    "KERNELS",
    "KernelFunction",
    "as_matrix",
    "as_points",
    "check_gamma",
    "check_kernel",
    "check_number",
    "check_precomputed",
    "is_finite",
]

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")

#: Numbers from which on a matrix is not copied to have their variance.
LARGE = 1 << 20

KernelFunction = Callable[[NDArray, NDArray], ArrayLike]


def check_kernel(kernel: str | KernelFunction) -> str | KernelFunction:
    if callable(kernel) or kernel in KERNELS:
        return kernel
    raise ProblemError(
        f"kernel={kernel!r} is not one of {', '.join(KERNELS)} or a callable{near_miss(kernel, KERNELS)}"
    )


def as_matrix(X: ArrayLike, name: str) -> NDArray:
    """X as a contiguous, finite float64 matrix; `ProblemError` (TypeError if sparse) names what is wrong with it."""
    if type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size and X.flags.c_contiguous:
        return _finite(X, name)
    if isinstance(X, np.ma.MaskedArray):
        raise ProblemError(f"{name} is a masked array; fill or drop the masked entries first")
    if is_sparse(X):
        raise TypeError(f"{name} is sparse; dense data is required, use {name}.toarray()")
    array = np.asarray(X)
    if np.iscomplexobj(array):
        raise ProblemError(f"{name} is complex; kernels here are real")
    if array.dtype.kind not in "biuf":
        raise ProblemError(f"{name} has dtype {array.dtype}; numbers are needed")
    if array.ndim != 2 or 0 in array.shape:
        raise ProblemError(f"{name} must be a non-empty matrix (n, m), found shape {array.shape}")
    return _finite(np.ascontiguousarray(array, dtype=float), name)


def _finite(matrix: NDArray, name: str) -> NDArray:
    if not is_finite(matrix):
        raise ProblemError(f"{name} contains NaN or infinity; impute or drop those rows")
    return matrix


def is_finite(matrix: NDArray) -> bool:
    """Whether all entries of an array are; those of a matrix of another precision a part at a time."""
    if matrix.dtype == np.float64 and matrix.flags.c_contiguous:
        return bool(all_finite(matrix))
    return all(np.isfinite(matrix[rows]).all() for rows in in_parts(matrix, slice(None)))


def as_points(X: Any, kernel: str | KernelFunction) -> NDArray | SparsePoints:
    """X as `as_matrix` has it, or sparse as it is `held`; a callable gets sparse points as they came."""
    if not is_sparse(X):
        return as_matrix(X, "K" if kernel == "precomputed" else "X")
    if kernel == "precomputed":
        raise TypeError("K is sparse; a precomputed kernel must be dense, use K.toarray()")
    points = checked_rows(X, "X")
    return points if callable(kernel) or points is X else held(points)


def check_number(value: float, name: str, lower: float = -np.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ProblemError(f"{name} must be a number, found {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an int may be larger than any float
        number = math.inf
    if not math.isfinite(number) or number < lower:
        raise ProblemError(f"{name}={value!r} must be finite" + (f" and ≥ {lower:g}" if lower > -np.inf else ""))
    return number


def check_gamma(gamma: str | float, X: NDArray | SparsePoints, variance: float | None = None) -> float:
    """The kernel's width as a number; the ``variance`` of all numbers in X is computed if need be."""
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / X.shape[1]
        if gamma == "scale":
            if variance is None:
                with np.errstate(over="ignore", invalid="ignore"):
                    variance = X.variance() if isinstance(X, SparsePoints) else _variance(X)
            if not math.isfinite(variance):
                raise ProblemError(
                    'gamma="scale": the variance of X overflows float64, and so does the kernel. '
                    "The dual coefficients or intercepts are not finite then; scale the features"
                )
            # A variance that underflows to 0 (or whose inverse overflows) has no scale to give: 1, as in
            # scikit-learn for a constant X.
            inverse = 1.0 / (X.shape[1] * variance) if variance > 1e-300 else 1.0
            return float(inverse)
        raise ProblemError(f"gamma={gamma!r} must be 'scale', 'auto' or a positive number")
    value = check_number(gamma, "gamma")
    if value < 0:
        raise ProblemError(f"gamma={gamma!r} must be ≥ 0")
    return value


def _variance(X: NDArray) -> float:
    """Of all entries; those of a large matrix a part at a time, so that no copy of all is made."""
    if X.size <= LARGE:
        return float(X.var())
    mean = X.mean()
    return sum(float(np.square(X[rows] - mean).sum()) for rows in in_parts(X, slice(None))) / X.size


def check_precomputed(K: NDArray) -> NDArray:
    if K.shape[0] != K.shape[1]:
        raise ProblemError(f"K: a precomputed kernel must be square, found shape {K.shape}")
    found = asymmetry(K)
    if found == 0.0:
        return K
    scale = float(np.abs(K).max())
    if found > 1e-3 * max(scale, np.finfo(float).tiny):
        raise ProblemError(
            f"K: the precomputed kernel is not symmetric (largest difference {found:.3g} of {scale:.3g}); "
            "pass (K + K.T)/2 if that is what you mean"
        )
    if found > 1e-8 * scale:
        warnings.warn(f"K was not exactly symmetric (by {found:.3g}); (K + K.T)/2 is used", stacklevel=5)
    mean = np.empty_like(K)
    asymmetry(K, mean)
    return mean
