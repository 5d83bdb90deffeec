"""The Gram matrix of a data set, as a value: its points and its kernel, nothing that was computed from them before."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .kernel_checks import KernelFunction, as_matrix, check_gamma, check_kernel, check_number, check_precomputed
from .kernel_matrix import BLOCK_ENTRIES, ESTIMATE_FROM, KernelMatrix
from .kernel_values import called_diagonal, mean_of, of_products, squared_lengths
from .radial import RadialPoints
from .values import Value, immutable

__all__ = ["Gram", "measured"]


class Gram(KernelMatrix, Value):
    """Kernel matrix K of n points, with Kᵢⱼ = k(xᵢ, xⱼ).

    A value: X is copied, no attribute can be set and no array be written to, and nothing that is computed is kept
    (`KeptGram` does that, for the time of a run).

    Parameters
    ----------
    X : array of shape (n, m)
        Data, finite; float64 is used throughout.
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

    Raises
    ------
    ProblemError
        X is not a finite real matrix, a parameter is out of range, or kernel values overflow.

    Attributes
    ----------
    n : int
        Number of points.
    """

    ready: RadialPoints | None

    def __init__(
        self,
        X: ArrayLike,
        kernel: str | KernelFunction = "rbf",
        *,
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
    ) -> None:
        kernel = check_kernel(kernel)
        points = as_matrix(X, "K" if kernel == "precomputed" else "X")
        if kernel == "precomputed":
            points = check_precomputed(points)
        self._set(
            kernel=kernel,
            degree=check_number(degree, "degree", lower=0.0),
            coef0=check_number(coef0, "coef0"),
            gamma=check_gamma(gamma, points) if kernel in ("poly", "rbf", "sigmoid") else 1.0,
            center=immutable(mean_of(points)) if kernel == "rbf" else None,
        )
        self._take(points)

    def _take(self, points: NDArray) -> None:
        """Copy points, and hold what `measured` says of them; few of them are made ready for the kernel at once."""
        squares, diag = measured(self, points)
        radial = self.kernel == "rbf"
        with np.errstate(over="ignore"):
            reach = self.gamma * float(squares.max()) if radial else 0.0
        self._set(X=immutable(points), n=len(points), squares=immutable(squares), _diag=immutable(diag), reach=reach)
        ready = radial and self.n < ESTIMATE_FROM and self.is_radial
        self._set(ready=KernelMatrix.radial_points(self, float).frozen() if ready else None)

    def radial_points(self, dtype: type, J: NDArray | slice = slice(None)) -> RadialPoints:
        if self.ready is None:
            return super().radial_points(dtype, J)
        return self.ready.take(J).astype(dtype)

    def centred(self) -> Gram:
        """The Gram of the same points less their mean, if the kernel is translatable and that was not done; else
        itself. Its kernel is another: see `is_translatable`."""
        if self.center is not None or not self.is_translatable:
            return self
        other = object.__new__(Gram)
        other._set(**self.__dict__)
        other._set(center=immutable(mean_of(self.X)))
        squares, diag = measured(other, self.X)
        other._set(squares=immutable(squares), _diag=immutable(diag))
        return other

    @classmethod
    def precomputed(cls, K: ArrayLike) -> Gram:
        """Wrap a given symmetric kernel matrix of shape (n, n)."""
        return cls(K, kernel="precomputed")

    @classmethod
    def of(cls, matrix: KernelMatrix, X: ArrayLike) -> Gram:
        """Other points under the kernel of a matrix, with its width and its centre; they are checked."""
        gram = object.__new__(cls)
        gram._set(**{name: getattr(matrix, name) for name in ("kernel", "degree", "coef0", "gamma")})
        gram._set(center=None if matrix.center is None else immutable(matrix.center))
        gram._take(as_matrix(X, "X"))
        return gram

    def subset(self, J: ArrayLike) -> Gram:
        """The Gram of points J alone, with this one's parameters; no checks."""
        J = np.asarray(J, dtype=np.intp)
        part = object.__new__(Gram)
        part._set(**self.__dict__)
        part._set(X=immutable(self.X[np.ix_(J, J)] if self.kernel == "precomputed" else self.X[J]), n=len(J))
        part._set(squares=immutable(self.squares[J]), _diag=immutable(self._diag[J]))
        part._set(ready=None if self.ready is None else self.ready.take(J).frozen())
        return part


def measured(matrix: KernelMatrix, X: NDArray) -> tuple[NDArray, NDArray]:
    """‖x − center‖² and k(x, x) of points under a matrix's kernel, each of shape (len(X),).

    `ProblemError` where they overflow; lengths mean nothing where X is K itself, and are 0.
    """
    kernel = matrix.kernel
    if kernel == "precomputed":
        return np.zeros(len(X)), np.diag(X).copy()
    squares = squared_lengths(X, matrix.center)
    if callable(kernel):
        return squares, called_diagonal(kernel, X)
    if not np.isfinite(squares).all():
        size = f"{np.abs(X).max():.3g}"
        raise ProblemError(f"X: squared lengths overflow float64 (entries as large as {size}); scale the features")
    if kernel == "rbf":
        return squares, np.ones(len(X))
    with np.errstate(over="ignore"):
        diag = of_products(squares.copy(), str(kernel), matrix.gamma, matrix.coef0, matrix.degree)
    if not np.isfinite(diag).all():
        raise ProblemError(f"X: kernel={kernel!r} overflows float64 on it; scale the features")
    if kernel == "poly" and not float(matrix.degree).is_integer():
        _look_for_negative_bases(matrix, X, float(squares.max(initial=0.0)))
    return squares, diag


def _look_for_negative_bases(matrix: KernelMatrix, X: NDArray, largest: float) -> None:
    """`ProblemError` if the kernel has no value for some pair of the points; ``largest`` is the largest ‖x‖²."""
    if matrix.coef0 >= 0 and (matrix.gamma * largest <= matrix.coef0 or X.min() >= 0):
        return
    height = max(1, BLOCK_ENTRIES // len(X))
    for start in range(0, len(X), height):
        of_products(X[start : start + height] @ X.T, "poly", matrix.gamma, matrix.coef0, matrix.degree)
