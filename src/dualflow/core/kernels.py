"""The Gram matrix of a data set, as a value: its points and its kernel, nothing that was computed from them before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .kernel_checks import (
    KernelFunction,
    as_points,
    check_gamma,
    check_kernel,
    check_number,
    check_precomputed,
    is_finite,
)
from .kernel_matrix import BLOCK_ENTRIES, ESTIMATE_FROM, KernelMatrix
from .kernel_values import (
    called_diagonal,
    centred_lengths,
    check_callable,
    largest,
    mean_of,
    of_products,
    read_again,
    squared_lengths,
)
from .picking import picked
from .radial import RadialPoints
from .sparse_points import SparsePoints, is_sparse, products
from .values import Value, filled, immutable, immutable_rows

__all__ = ["Gram", "measured", "reach"]

#: The square of the distance from the origin, in units of the variance, from which a mean's last digit is seen in it.
FAR_OUT = 1e8
#: Numbers of points up to which they are made ready for the kernel at once, and kept: 8 MB.
READY = 1 << 20


class Gram(KernelMatrix, Value):
    """Kernel matrix K of n points, with Kᵢⱼ = k(xᵢ, xⱼ).

    A value: X is copied, no attribute can be set and no array be written to, and nothing that is computed is kept
    (`KeptGram` does that, for the time of a run).

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Data, finite; float64 is used throughout. Any sparse format of scipy; zeros are left out of all that is
        computed and kept, unless the matrix with its zeros is small, or within 64 MB and faster. A callable is then
        given CSR arrays.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Names and formulas are scikit-learn's: ⟨x,z⟩, (γ⟨x,z⟩ + coef0)^degree, exp(−γ‖x−z‖²),
        tanh(γ⟨x,z⟩ + coef0). With "precomputed", X is K itself, symmetric. A callable is
        ``kernel(A, B) -> array of shape (len(A), len(B))`` and must be symmetric.
    gamma : {"scale", "auto"} or float > 0, default="scale"
        "scale" is 1/(m · var(X)), "auto" is 1/m, as in scikit-learn.
    degree : float, default=3
        Degree of "poly"; a whole number, unless γ⟨x,z⟩ + coef0 ≥ 0 for all points, those to come among them.
    coef0 : float, default=0.0
        Offset of "poly" and "sigmoid". Mierswa's sigmoid tanh(κ⟨x,z⟩ − δ) (eq. 30) is coef0 = −δ.
    center : array of shape (m,), optional
        Subtracted from all points by a kernel that `is_translatable`: for problems whose Σσα is fixed.

    Raises
    ------
    ProblemError
        X is not a finite real matrix, a parameter is out of range, or kernel values overflow.

    Attributes
    ----------
    n : int
        Number of points.

    Examples
    --------
    >>> from dualflow import Gram
    >>> gram = Gram([[0.0], [1.0], [3.0]], "linear")
    >>> gram.n, gram.block([0, 1], [1, 2])
    (3, array([[0., 0.],
           [1., 3.]]))
    >>> Gram([[0.0], [1.0]], "rbf", gamma=1.0).columns([0]).ravel().round(4)  # 1 and e⁻¹
    array([1.    , 0.3679])
    """

    ready: RadialPoints | None

    def __init__(
        self,
        X: Any,
        kernel: str | KernelFunction = "rbf",
        *,
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        center: ArrayLike | None = None,
    ) -> None:
        kernel = check_kernel(kernel)
        points: Any = as_points(X, kernel)
        if kernel == "precomputed":
            points = check_precomputed(points)
        if center is not None and is_sparse(X):
            raise ProblemError("center: sparse points keep their zeros, and cannot be moved; use X.toarray()")
        mean = squares = variance = None
        if kernel == "rbf":
            mean, squares = centred_lengths(points)
            if isinstance(gamma, str) and not isinstance(points, SparsePoints):
                variance = _variance(points, mean, squares)
        self._set(
            kernel=kernel,
            degree=check_number(degree, "degree", lower=0.0),
            coef0=check_number(coef0, "coef0"),
            gamma=check_gamma(gamma, points, variance) if kernel in ("poly", "rbf", "sigmoid") else 1.0,
            center=None if mean is None else immutable(mean),
        )
        if center is not None and self.is_translatable:
            self._set(center=immutable(np.asarray(center, dtype=float)))
        self._set(came_sparse=is_sparse(X))
        self._take(points, squares)

    def _take(self, points: Any, squares: NDArray | None = None) -> None:
        """Copy points, and hold what `measured` says of them, their squared lengths if they are known already; few of
        them are made ready for the kernel at once."""
        # A kernel that keeps its values, as those that circuits measure do, cannot contradict itself.
        if callable(self.kernel) and not getattr(self.kernel, "keeps_values", False):
            check_callable(self.kernel, points[read_again(len(points))])
        squares, diag = measured(self, points, squares)
        radial, sparse = self.kernel == "rbf", isinstance(points, SparsePoints)
        self._set(X=points if sparse else immutable(points), n=len(points))
        self._set(squares=immutable(squares), _diag=immutable(diag))
        self._set(reach=reach(self))
        ready = radial and not sparse and self.n < ESTIMATE_FROM and points.size <= READY and self.is_radial
        self._set(ready=KernelMatrix.radial_points(self, float) if ready else None)

    def radial_points(self, dtype: type, J: NDArray | slice = slice(None)) -> RadialPoints:
        if self.ready is None:
            return super().radial_points(dtype, J)
        return self.ready.take(J).astype(dtype)

    def centred(self) -> Gram:
        """The Gram of the same points less their mean, if the kernel is translatable and that was not done; else
        itself. Its kernel is another: see `is_translatable`."""
        if self.center is not None or not self.is_translatable:
            return self
        mean = mean_of(self.X)
        if isinstance(self.X, SparsePoints) and not mean.any():
            return self
        other = object.__new__(Gram)
        other._set(**self.__dict__)
        other._set(center=immutable(mean))
        squares, diag = measured(other, self.X)
        other._set(squares=immutable(squares), _diag=immutable(diag))
        return other

    @classmethod
    def precomputed(cls, K: ArrayLike) -> Gram:
        """Wrap a given symmetric kernel matrix of shape (n, n)."""
        return cls(K, kernel="precomputed")

    @classmethod
    def of(cls, matrix: KernelMatrix, X: Any) -> Gram:
        """Other points under the kernel of a matrix, with its width and its centre; they are checked."""
        gram = object.__new__(cls)
        gram._set(**{name: getattr(matrix, name) for name in ("kernel", "degree", "coef0", "gamma", "came_sparse")})
        gram._set(center=None if matrix.center is None else immutable(matrix.center))
        gram._take(as_points(X, gram.kernel))
        return gram

    def subset(self, J: ArrayLike) -> Gram:
        """The Gram of points J alone, with this one's parameters; no checks."""
        J = np.asarray(J, dtype=np.intp)
        part = object.__new__(Gram)
        part._set(**self.__dict__)
        points: Any = self.X
        if isinstance(points, SparsePoints):
            points = points[J]
        else:
            points = immutable(picked(self.X, J, J)) if self.kernel == "precomputed" else immutable_rows(self.X, J)
        part._set(X=points, n=len(J))
        part._set(squares=immutable(self.squares[J]), _diag=immutable(self._diag[J]))
        part._set(ready=None if self.ready is None else self.ready.take(J).frozen())
        return part


def _variance(points: NDArray, mean: NDArray, squares: NDArray) -> float | None:
    """Of all numbers of the points: that of columns about their means, and that of the means. None where these are so
    large that they have lost digits of it."""
    with np.errstate(over="ignore", invalid="ignore"):
        apart = mean - mean.sum() / mean.size
        variance = float(squares.sum() / points.size + apart @ apart / mean.size)
        return variance if mean @ mean <= FAR_OUT * variance else None


def measured(matrix: KernelMatrix, X: Any, squares: NDArray | None = None) -> tuple[NDArray, NDArray]:
    """‖x − center‖², if they are not known, and k(x, x) of points under a matrix's kernel, each of shape (len(X),).

    `ProblemError` where they overflow; lengths mean nothing where X is K itself, and are 0.
    """
    kernel = matrix.kernel
    if kernel == "precomputed":
        return np.zeros(len(X)), np.diag(X).copy()
    squares = squared_lengths(X, matrix.center) if squares is None else squares
    if callable(kernel):
        return squares, called_diagonal(kernel, X)
    if not is_finite(squares):
        size = f"{largest(X):.3g}"
        raise ProblemError(f"X: squared lengths overflow float64 (entries as large as {size}); scale the features")
    if kernel == "rbf":
        return squares, filled(len(X), 1.0)
    if kernel == "linear":
        squares = immutable(squares)  # both are these numbers, which are held once
        return squares, squares
    with np.errstate(over="ignore"):
        diag = of_products(squares.copy(), str(kernel), matrix.gamma, matrix.coef0, matrix.degree)
    if not np.isfinite(diag).all():
        raise ProblemError(f"X: kernel={kernel!r} overflows float64 on it; scale the features")
    if kernel == "poly" and not float(matrix.degree).is_integer():
        _look_for_negative_bases(matrix, X, float(squares.max(initial=0.0)))
    return squares, diag


def reach(matrix: KernelMatrix) -> float:
    """γ times the largest ‖x − center‖² of the points, for the radial kernel; 0 for others."""
    return float(matrix.gamma) * float(matrix.squares.max()) if matrix.kernel == "rbf" else 0.0


def _look_for_negative_bases(matrix: KernelMatrix, X: NDArray | SparsePoints, longest: float) -> None:
    """`ProblemError` if the kernel has no value for some pair of the points; ``longest`` is the largest ‖x‖²."""
    least = float((X.data if isinstance(X, SparsePoints) else X).min(initial=0.0))
    if matrix.coef0 >= 0 and (matrix.gamma * longest <= matrix.coef0 or least >= 0):
        return
    height = max(1, BLOCK_ENTRIES // len(X))
    for start in range(0, len(X), height):
        of_products(products(X[start : start + height], X), "poly", matrix.gamma, matrix.coef0, matrix.degree)
