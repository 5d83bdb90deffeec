"""The Gram matrix of a data set: computed where it is asked for, block by block.

Nothing here stores more than is asked: `Gram.columns`, `Gram.block` and `Gram.matvec` work from the
data by BLAS, and only `Gram.full` forms (and keeps) the whole matrix.
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError

__all__ = ["KERNELS", "Gram", "as_matrix"]

KERNELS = ("linear", "poly", "rbf", "sigmoid", "precomputed")

#: Entries of one temporary block: 32 MB of float64, large enough for BLAS, small enough for any machine.
BLOCK_ENTRIES = 1 << 22

KernelFunction = Callable[[NDArray, NDArray], ArrayLike]


class Gram:
    """Kernel matrix K of n points, with Kᵢⱼ = k(xᵢ, xⱼ).

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
        Degree of "poly".
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
    entries_computed : int
        Kernel entries evaluated so far (a whole column costs n of them).
    """

    def __init__(
        self,
        X: ArrayLike,
        kernel: str | KernelFunction = "rbf",
        *,
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
    ) -> None:
        self.kernel = _check_kernel(kernel)
        self.X = as_matrix(X, "K" if kernel == "precomputed" else "X")
        self.degree = _check_number(degree, "degree", lower=0.0)
        self.coef0 = _check_number(coef0, "coef0")
        self.gamma = _check_gamma(gamma, self.X) if kernel in ("poly", "rbf", "sigmoid") else 1.0
        self.n = self.X.shape[0]
        self.entries_computed = 0
        self._full: NDArray | None = None
        if kernel == "precomputed":
            self.X = self._full = _check_precomputed(self.X)
        # The radial kernel depends on differences only; centring keeps ‖x‖² − 2⟨x,z⟩ + ‖z‖² from
        # cancelling when the data sit far from the origin.
        self._center = self.X.mean(axis=0) if kernel == "rbf" else None
        self._points = self.X if self._center is None else self.X - self._center
        with np.errstate(over="ignore", invalid="ignore"):
            self._squares = np.einsum("ij,ij->i", self._points, self._points)
        if kernel != "precomputed" and not callable(kernel) and not np.isfinite(self._squares).all():
            raise ProblemError(
                "X: squared lengths overflow float64 (entries as large as "
                f"{np.abs(self.X).max():.3g}); scale the features, e.g. with StandardScaler"
            )
        self._diag = self._diagonal()

    @classmethod
    def precomputed(cls, K: ArrayLike) -> Gram:
        """Wrap a given symmetric kernel matrix of shape (n, n)."""
        return cls(K, kernel="precomputed")

    def __len__(self) -> int:
        return self.n

    def __getstate__(self) -> dict[str, Any]:
        # A kept matrix is made again when asked for; a given one is the data.
        state = self.__dict__.copy()
        if self.kernel != "precomputed":
            state["_full"] = None
        return state

    def __repr__(self) -> str:
        name = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "callable")
        return f"Gram(n={self.n}, kernel={name!r}, gamma={self.gamma:.6g})"

    @property
    def is_psd_by_kernel(self) -> bool:
        """Whether K is positive semidefinite whatever the data (Mercer), so no spectrum need be looked at."""
        if self.kernel in ("linear", "rbf"):
            return True
        return self.kernel == "poly" and float(self.degree).is_integer() and self.coef0 >= 0

    def diag(self) -> NDArray:
        """Kᵢᵢ, shape (n,)."""
        return self._diag.copy()

    def columns(self, J: ArrayLike) -> NDArray:
        """Columns J of K, shape (n, len(J))."""
        J = np.asarray(J, dtype=np.intp)
        if self._full is not None:
            return self._full[:, J]
        self.entries_computed += self.n * len(J)
        return self._evaluate(self._points, self._squares, J)

    def block(self, rows: ArrayLike, J: ArrayLike) -> NDArray:
        """The block K[rows, J], shape (len(rows), len(J))."""
        rows, J = np.asarray(rows, dtype=np.intp), np.asarray(J, dtype=np.intp)
        if self._full is not None:
            return self._full[np.ix_(rows, J)]
        self.entries_computed += len(rows) * len(J)
        return self._evaluate(self._points[rows], self._squares[rows], J)

    def matvec(self, v: ArrayLike) -> NDArray:
        """K v, shape (n,); columns where v is zero are neither computed nor read."""
        v = np.asarray(v, dtype=float)
        if self._full is not None and np.count_nonzero(v) > self.n // 4:
            return self._full @ v
        J = np.flatnonzero(v)
        out = np.zeros(self.n)
        for start in range(0, len(J), width := max(1, BLOCK_ENTRIES // self.n)):
            part = J[start : start + width]
            out += self.columns(part) @ v[part]
        return out

    def full(self) -> NDArray:
        """The whole K, shape (n, n); kept, so that later calls are free. Read-only by convention."""
        if self._full is None:
            K = self.columns(np.arange(self.n))
            self._full = 0.5 * (K + K.T)  # BLAS may round the two triangles differently
        return self._full

    def cross(self, Z: ArrayLike, J: ArrayLike) -> NDArray:
        """Kernel between new points and training points J: shape (len(Z), len(J)).

        With a precomputed kernel, Z is the matrix of kernel values between the new points and *all* training
        points, shape (n_new, n).
        """
        J = np.asarray(J, dtype=np.intp)
        points = np.asarray(Z, dtype=float)
        if self.kernel == "precomputed":
            return points[:, J]
        if self._center is not None:
            points = points - self._center
        with np.errstate(over="ignore", invalid="ignore"):
            return self._evaluate(points, np.einsum("ij,ij->i", points, points), J)

    def self_kernel(self, Z: ArrayLike) -> NDArray:
        """k(z, z) for new points, shape (len(Z),); not defined for a precomputed kernel."""
        Z = np.asarray(Z, dtype=float)
        if self.kernel == "precomputed":
            raise ProblemError("kernel='precomputed': k(z, z) of new points is not in the matrix; give a kernel")
        if self.kernel == "rbf":
            return np.ones(len(Z))
        if callable(self.kernel):
            return np.array([np.asarray(self.kernel(z[None], z[None]), float).item() for z in Z])
        return self._apply(np.einsum("ij,ij->i", Z, Z))

    def _diagonal(self) -> NDArray:
        if self.kernel == "precomputed":
            return np.diag(self.X).copy()
        if self.kernel == "rbf":
            return np.ones(self.n)
        if not callable(self.kernel):
            with np.errstate(over="ignore"):
                diag = self._apply(self._squares)
            if not np.isfinite(diag).all():
                raise ProblemError(f"X: kernel={self.kernel!r} overflows float64 on it; scale the features")
            return diag
        diag = np.empty(self.n)
        for start in range(0, self.n, 64):
            J = np.arange(start, min(start + 64, self.n))
            K = self._call(self.X[J], self.X[J])
            if not np.allclose(K, K.T, rtol=1e-8, atol=1e-10 * max(1.0, float(np.abs(K).max()))):
                raise ProblemError("kernel: the callable is not symmetric, k(x, z) ≠ k(z, x) on the data")
            diag[J] = np.diag(K)
        return diag

    def _evaluate(self, A: NDArray, A_squares: NDArray, J: NDArray) -> NDArray:
        if callable(self.kernel):
            return self._call(A, self.X[J])
        G = A @ self._points[J].T
        if self.kernel != "rbf":
            return self._apply(G)
        G *= -2.0
        G += A_squares[:, None]
        G += self._squares[J]
        # Far-away new points overflow to inf or nan: their kernel value is 0 either way.
        np.nan_to_num(G, copy=False, nan=np.inf, posinf=np.inf)
        np.maximum(G, 0.0, out=G)
        G *= -self.gamma
        return np.exp(G, out=G)

    def _apply(self, inner: NDArray) -> NDArray:
        """The kernel as a function of inner products (not for "rbf")."""
        if self.kernel == "poly":
            return (self.gamma * inner + self.coef0) ** self.degree
        if self.kernel == "sigmoid":
            return np.tanh(self.gamma * inner + self.coef0)
        return inner

    def _call(self, A: NDArray, B: NDArray) -> NDArray:
        K = np.asarray(self.kernel(A, B), dtype=float)  # type: ignore[operator]
        if K.shape != (len(A), len(B)):
            raise ProblemError(
                f"kernel: the callable returned shape {K.shape} for inputs of {len(A)} and {len(B)} rows; "
                f"it must return shape ({len(A)}, {len(B)})"
            )
        if not np.isfinite(K).all():
            raise ProblemError("kernel: the callable returned NaN or infinity")
        return K


def _check_kernel(kernel: str | KernelFunction) -> str | KernelFunction:
    if callable(kernel) or kernel in KERNELS:
        return kernel
    near = difflib.get_close_matches(str(kernel), KERNELS, n=1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise ProblemError(f"kernel={kernel!r} is not one of {', '.join(KERNELS)} or a callable{hint}")


def as_matrix(X: ArrayLike, name: str) -> NDArray:
    """X as a contiguous, finite float64 matrix; `ProblemError` (TypeError if sparse) names what is wrong with it."""
    if isinstance(X, np.ma.MaskedArray):
        raise ProblemError(f"{name} is a masked array; fill or drop the masked entries first")
    if hasattr(X, "tocsr"):
        raise TypeError(f"{name} is sparse; dense data is required, use {name}.toarray()")
    array = np.asarray(X)
    if np.iscomplexobj(array):
        raise ProblemError(f"{name} is complex; kernels here are real")
    if array.dtype.kind not in "biuf":
        raise ProblemError(f"{name} has dtype {array.dtype}; numbers are needed")
    if array.ndim != 2 or 0 in array.shape:
        raise ProblemError(f"{name} must be a non-empty matrix (n, m), found shape {array.shape}")
    matrix = np.ascontiguousarray(array, dtype=float)
    if not np.isfinite(matrix).all():
        raise ProblemError(f"{name} contains NaN or infinity; impute or drop those rows")
    return matrix


def _check_number(value: float, name: str, lower: float = -np.inf) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise ProblemError(f"{name} must be a number, found {value!r}")
    if not np.isfinite(value) or value < lower:
        raise ProblemError(f"{name}={value!r} must be finite" + (f" and ≥ {lower:g}" if lower > -np.inf else ""))
    return float(value)


def _check_gamma(gamma: str | float, X: NDArray) -> float:
    if isinstance(gamma, str):
        if gamma == "auto":
            return 1.0 / X.shape[1]
        if gamma == "scale":
            with np.errstate(over="ignore", invalid="ignore"):
                variance = X.var()
            if not np.isfinite(variance):
                raise ProblemError('gamma="scale": the variance of X overflows float64; scale the features')
            # A variance that underflows to 0 (or whose inverse overflows) has no scale to give: 1, as in
            # scikit-learn for a constant X.
            inverse = 1.0 / (X.shape[1] * variance) if variance > 1e-300 else 1.0
            return float(inverse)
        raise ProblemError(f"gamma={gamma!r} must be 'scale', 'auto' or a positive number")
    value = _check_number(gamma, "gamma")
    if value < 0:
        raise ProblemError(f"gamma={gamma!r} must be ≥ 0")
    return value


def _check_precomputed(K: NDArray) -> NDArray:
    if K.shape[0] != K.shape[1]:
        raise ProblemError(f"K: a precomputed kernel must be square, found shape {K.shape}")
    asymmetry = float(np.abs(K - K.T).max())
    scale = float(np.abs(K).max())
    if asymmetry > 1e-3 * max(scale, np.finfo(float).tiny):
        raise ProblemError(
            f"K: the precomputed kernel is not symmetric (largest difference {asymmetry:.3g} of {scale:.3g}); "
            "pass (K + K.T)/2 if that is what you mean"
        )
    if asymmetry == 0.0:
        return K
    if asymmetry > 1e-8 * scale:
        warnings.warn(f"K was not exactly symmetric (by {asymmetry:.3g}); (K + K.T)/2 is used", stacklevel=5)
    return 0.5 * (K + K.T)
