"""Kernel functions of arrays, and checks of their arguments.

The checks raise a `ProblemError` that names the argument, what was found, and the fix.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError, did_you_mean
from ._points import all_finite, asymmetry, mean_and_squares, square_points
from .named_kernels import KERNELS
from .runtime.arrays import immutable_written, in_parts
from .runtime.clock import check_time, kernel_call_limit
from .runtime.memory import arena_array
from .runtime.warn import warn_user
from .sparse_points import SparsePoints, checked_rows, held, is_sparse

#: Largest ‖mean‖², in units of the variance, for which rounding of the mean does not spoil the variance.
MAX_OFFSET_VARIANCES = 1e8
#: Numbers of a matrix up to which its variance is computed in one piece, with a copy.
MAX_NUMBERS_COPIED = 1 << 20

#: Names of the kernels in other packages and books.
OTHER_NAMES = {"gauss": "rbf", "gaussian": "rbf", "radial": "rbf", "polynomial": "poly", "tanh": "sigmoid"}

KernelFunction = Callable[[NDArray, NDArray], ArrayLike]


def check_kernel(kernel: str | KernelFunction) -> str | KernelFunction:
    """Return the kernel if it is a known name or a callable, else raise a `ProblemError`."""
    if callable(kernel) or (isinstance(kernel, str) and kernel in KERNELS):
        return kernel
    raise ProblemError(f"kernel={kernel!r} is not one of {', '.join(KERNELS)} or a callable{meant_kernel(kernel)}")


def meant_kernel(kernel: object) -> str:
    """Return "; did you mean …?" for another name of a kernel or a misspelt one, else ""."""
    name = str(kernel).lower()
    return did_you_mean(OTHER_NAMES.get(name, name), KERNELS)


def as_matrix(X: ArrayLike, name: str) -> NDArray:
    """Return X as a contiguous, finite float64 matrix.

    Raises
    ------
    ProblemError
        X is not a finite, real matrix; the message names ``name`` and the fault.
    TypeError
        X is sparse.
    """
    return _finite(_as_floats(X, name), name)


def _as_floats(X: ArrayLike, name: str) -> NDArray:
    """Return X as `as_matrix` does, whether its numbers are finite or not."""
    if type(X) is np.ndarray and X.dtype == np.float64 and X.ndim == 2 and X.size and X.flags.c_contiguous:
        return X
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
    return np.ascontiguousarray(array, dtype=float)


def _finite(matrix: NDArray, name: str) -> NDArray:
    """Return the matrix if it is finite, else raise a `ProblemError`."""
    if not is_finite(matrix):
        raise ProblemError(f"{name} contains NaN or infinity; impute or drop those rows")
    return matrix


def is_finite(matrix: NDArray) -> bool:
    """Whether all entries of an array are finite; a matrix that is not float64 is checked a part at a time."""
    if matrix.dtype == np.float64 and matrix.flags.c_contiguous:
        return bool(all_finite(matrix))
    return all(np.isfinite(matrix[rows]).all() for rows in in_parts(matrix, slice(None)))


def as_points(X: Any, kernel: str | KernelFunction) -> NDArray | SparsePoints:
    """Return X as `as_matrix` does, or sparse points as `held` does; for a callable, sparse points stay sparse."""
    if kernel == "precomputed":
        if type(X) is not np.ndarray and is_sparse(X):
            raise TypeError("K is sparse; a precomputed kernel must be dense, use K.toarray()")
        return check_precomputed(X)
    if type(X) is np.ndarray or not is_sparse(X):
        return as_matrix(X, "X")
    points = checked_rows(X, "X")
    return points if callable(kernel) or points is X else held(points)


def check_number(value: float, name: str, lower: float = -np.inf) -> float:
    """Return a finite number ≥ ``lower`` as a float, else raise a `ProblemError`."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ProblemError(f"{name} must be a number, found {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an int larger than any float
        number = math.inf
    if not math.isfinite(number) or number < lower:
        raise ProblemError(f"{name}={value!r} must be finite" + (f" and ≥ {lower:g}" if lower > -np.inf else ""))
    return number


def check_gamma(gamma: str | float, X: NDArray | SparsePoints, variance: float | None = None) -> float:
    """Return γ of the kernel as a number; the ``variance`` of all numbers in X is computed if needed and not given."""
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
            # If the variance underflows to 0 (or its inverse overflows), γ is 1, as in scikit-learn for a constant X.
            inverse = 1.0 / (X.shape[1] * variance) if variance > 1e-300 else 1.0
            return float(inverse)
        raise ProblemError(f"gamma={gamma!r} must be 'scale', 'auto' or a positive number")
    value = check_number(gamma, "gamma")
    if value < 0:
        raise ProblemError(f"gamma={gamma!r} must be ≥ 0")
    return value


def centred_variance(points: NDArray, mean: NDArray, squares: NDArray) -> float | None:
    """Return the variance of all numbers of the points, or None if large means have cost it digits.

    It is the variance of the columns about their means plus that of the means; ``squares`` are ‖x − mean‖².
    """
    with np.errstate(over="ignore", invalid="ignore"):
        offsets = mean - mean.sum() / mean.size
        variance = float(squares.sum() / points.size + offsets @ offsets / mean.size)
        return variance if mean @ mean <= MAX_OFFSET_VARIANCES * variance else None


def _variance(X: NDArray) -> float:
    """Return the variance of all entries; a large matrix is read a part at a time, to avoid a copy.

    A smaller one has the bits of ``X.var()``, without its new memory.
    """
    if X.size <= MAX_NUMBERS_COPIED:
        differences = np.subtract(X, X.mean(), out=arena_array(X.shape, float))
        return float(np.multiply(differences, differences, out=differences).sum()) / X.size
    mean = X.mean()
    return sum(float(np.square(X[rows] - mean).sum()) for rows in in_parts(X, slice(None))) / X.size


def check_precomputed(X: ArrayLike) -> NDArray:
    """Return a read-only copy of K, or of (K + Kᵀ)/2, with a warning unless the difference is round-off.

    One pass over K finds whether it is finite and symmetric, and makes the copy.

    Raises
    ------
    ProblemError
        K is not a square, finite, symmetric matrix.
    """
    K = _as_floats(X, "K")
    if K.shape[0] != K.shape[1]:
        raise ProblemError(f"K: a precomputed kernel must be square, found shape {K.shape}")
    found = 0.0

    def write(mean: NDArray) -> None:
        nonlocal found
        found = asymmetry(K, mean)

    mean = immutable_written(K.shape, write)
    if found < 0.0:
        _finite(K, "K")
        found = math.inf
    # An entry of the diagonal shows most differences to be round-off, without a pass over K.
    if found > 1e-8 * float(np.abs(K.diagonal()).max()):
        _check_asymmetry(found, max(float(K.max()), -float(K.min())))
    return mean


def _check_asymmetry(found: float, scale: float) -> None:
    """Warn of a largest difference of Kᵢⱼ and Kⱼᵢ, or raise a `ProblemError`; ``scale`` is the largest |Kᵢⱼ|."""
    if found > 1e-3 * max(scale, np.finfo(float).tiny):
        raise ProblemError(
            f"K: the precomputed kernel is not symmetric (largest difference {found:.3g} of {scale:.3g}); "
            "pass (K + K.T)/2 if that is intended"
        )
    if found > 1e-8 * scale:
        warn_user(f"K was not exactly symmetric (by {found:.3g}); (K + K.T)/2 is used")


#: Numbers of sparse points that are made dense at a time, to compute differences.
MAX_NUMBERS_DENSE = 1 << 22
#: Points of a block in which a callable is called for its diagonal.
DIAGONAL_ROWS = 64
#: Points between which the values of a callable are checked for consistency.
CHECKED_POINTS = 16
#: Relative difference up to which two values of a callable in float64 count as equal.
VALUE_TOL = 1e-8


def mean_of(X: NDArray | SparsePoints) -> NDArray:
    """Return the mean of the points, shape (m,).

    For sparse points it is 0 in coordinates that some point does not store. If it overflows, so do the squared lengths,
    and the check of those raises an error.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean: NDArray = X.mean() if isinstance(X, SparsePoints) else np.add.reduce(X, axis=0) / len(X)
    return mean


def measured_points(X: Any, kernel: str | KernelFunction) -> tuple[Any, Any, Any]:
    """Return X as `as_points` does; for the radial kernel `mean_of` it and its `squared_lengths` about it, else None.

    Dense points are then read once less: they are finite if their squared lengths are.
    """
    if kernel != "rbf":
        return as_points(X, kernel), None, None
    points = as_points(X, kernel) if type(X) is not np.ndarray and is_sparse(X) else _as_floats(X, "X")
    if isinstance(points, SparsePoints):
        mean = mean_of(points)
        return points, mean, squared_lengths(points, mean)
    mean, squares = mean_and_squares(points)
    if not all_finite(squares):
        _finite(points, "X")
    return points, mean, squares


def largest_entry(X: NDArray | SparsePoints) -> float:
    """Return the largest |entry|."""
    return float(np.abs(X.data if isinstance(X, SparsePoints) else X).max(initial=0.0))


def squared_lengths(X: NDArray | SparsePoints, center: NDArray | None) -> NDArray:
    """Return ‖x − center‖² of the points, shape (n,)."""
    if isinstance(X, SparsePoints):
        with np.errstate(over="ignore", invalid="ignore"):
            return (X if center is None else X - center).squares()
    squares: NDArray = square_points(
        np.ascontiguousarray(X, dtype=float), np.zeros(X.shape[1]) if center is None else center
    )
    return squares


def from_differences(A: NDArray | SparsePoints, B: NDArray | SparsePoints, gamma: float) -> NDArray:
    """Return the radial kernel between two sets of points, computed from differences.

    This is slower than products, and accurate if γ‖x‖² is so large that products would cancel: identical points must
    have k = 1 for any γ.
    """
    if isinstance(A, SparsePoints) and isinstance(B, SparsePoints):
        height = max(1, MAX_NUMBERS_DENSE // A.shape[1])
        parts = [slice(start, start + height) for start in range(0, max(len(A), len(B)), height)]
        K = np.empty((len(A), len(B)))
        for rows in parts:
            check_time()
            own = A[rows].toarray()
            for J in parts:
                K[rows, J] = from_differences(own, B[J].toarray(), gamma)
        return K
    with np.errstate(over="ignore"):
        from scipy.spatial.distance import cdist  # its import takes 0.1 s, and few kernels are computed by it

        return np.exp(-gamma * cdist(A, B, "sqeuclidean"))


def call_kernel(kernel: str | KernelFunction, A: NDArray | SparsePoints, B: NDArray | SparsePoints) -> NDArray:
    """Return the kernel values of a callable, checked by `kernel_values`; without points it is not called.

    It receives sparse points as CSR arrays, and may return a sparse array.
    """
    if not (len(A) and len(B)):
        return np.empty((len(A), len(B)))
    return kernel_values(_call(kernel, A, B), (len(A), len(B)))


def kernel_values(values: Any, shape: tuple[int, int]) -> NDArray:
    """Return what a callable kernel returned, which must have this shape, as a C-ordered float64 copy.

    Arrays of any order and real type, sparse ones, lists, matrices and frames are accepted; a `ProblemError` names the
    fault of anything else.
    """
    return _with_resolution(values, shape)[0]


def _with_resolution(values: Any, shape: tuple[int, int]) -> tuple[NDArray, float]:
    """Return the values as `kernel_values` does, and the relative difference up to which they count as equal."""
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
        with np.errstate(over="ignore"):  # a longer float may exceed float64
            K = np.array(array, dtype=float, order="C")
    except (TypeError, ValueError):
        raise ProblemError(f"kernel: the callable returned dtype {array.dtype}; it must return numbers") from None
    if not np.isfinite(K).all():
        raise ProblemError("kernel: the callable returned NaN or infinity")
    return K, max(VALUE_TOL, 16 * float(np.finfo(array.dtype).eps)) if array.dtype.kind == "f" else VALUE_TOL


def call_kernel_diagonal(kernel: str | KernelFunction, X: NDArray | SparsePoints) -> NDArray:
    """Return k(x, x) of a callable, shape (len(X),); a `ProblemError` if it is not symmetric on the blocks computed."""
    diag = np.empty(len(X))
    for start in range(0, len(X), DIAGONAL_ROWS):
        J = slice(start, start + DIAGONAL_ROWS)
        K, tol = _with_resolution(_call(kernel, X[J], X[J]), (len(diag[J]), len(diag[J])))
        _check_symmetric(K, tol)
        diag[J] = K.diagonal()
    return diag


def trial_rows(n: int) -> NDArray:
    """Return the indices of a few of n points, evenly spaced, for `check_callable`."""
    return np.unique(np.linspace(0, n - 1, min(n, CHECKED_POINTS)).astype(np.intp))


def check_callable(kernel: KernelFunction, points: Any) -> None:
    """Raise a `ProblemError` if a callable is inconsistent on a few points.

    It is if a second call, with fewer points, returns other values, or if k(x, z) ≠ k(z, x).
    """
    n, part = points.shape[0] if hasattr(points, "shape") else len(points), slice(None, None, 2)
    K, tol = _with_resolution(_call(kernel, points, points), (n, n))
    first = K[part, part]
    # Square, as in a fit: scikit-learn calls no kernel with fewer points on the left than on the right while it fits.
    again = kernel_values(_call(kernel, points[part], points[part]), first.shape)
    excess = np.abs(again - first) - tol * _size(K)[part, part]
    if (excess > 0).any():
        worst = np.unravel_index(int(excess.argmax()), excess.shape)
        raise ProblemError(
            f"kernel: the callable contradicts itself, k(x, z) was {first[worst]:.10g} and then {again[worst]:.10g} "
            "for the same two points; it must return the same value at each call, with any other points in it"
        )
    _check_symmetric(K, tol)


def _call(kernel: Any, A: Any, B: Any) -> Any:
    """Return what a callable kernel returns for points A and B, sparse ones as CSR arrays."""
    with kernel_call_limit():
        return kernel(*(points.tocsr() if isinstance(points, SparsePoints) else points for points in (A, B)))


def _check_symmetric(K: NDArray, tol: float) -> None:
    """Raise a `ProblemError` if K is not symmetric up to a relative difference ``tol``."""
    if (np.abs(K - K.T) > tol * _size(K)).any():
        raise ProblemError("kernel: the callable is not symmetric, k(x, z) ≠ k(z, x) on the data")


def _size(K: NDArray) -> NDArray:
    """Return the scale of a difference between two values of a square K: |K|, at least a hundredth of its largest entry
    and √(k(x,x) k(z,z)), with which the rounding of a sum of products grows, however much of it cancels."""
    size, length = np.abs(K), np.sqrt(np.abs(K.diagonal()))
    scale: NDArray = np.maximum(np.maximum(size, 0.01 * float(size.max())), np.outer(length, length))
    return scale
