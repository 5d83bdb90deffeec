"""The Gram matrix of a data set: computed where it is asked for, block by block.

Nothing here stores more than is asked: `Gram.columns`, `Gram.block` and `Gram.matvec` work from the
data by BLAS, and only `Gram.full` forms (and keeps) the whole matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial.distance import cdist

from ..exceptions import ProblemError
from .kernel_checks import KernelFunction, as_matrix, check_gamma, check_kernel, check_number, check_precomputed

__all__ = ["BLOCK_ENTRIES", "Gram"]

#: Entries of one temporary block: 32 MB of float64, large enough for BLAS, small enough for any machine.
BLOCK_ENTRIES = 1 << 22

#: γ‖x‖² from which −γ‖x − z‖² is taken from differences, and from which not in float32: both lose 1e-5 there.
SHARP, SHARP_SINGLE = 1e9, 50.0
#: γ‖z‖² of a new point from which its kernel values count as 0, far below the smallest float32.
FAR = 1e30
#: Kernel values beyond this, or its inverse, are not computed in float32.
LARGE_SINGLE = 1e12


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
        self.kernel = check_kernel(kernel)
        self.X = as_matrix(X, "K" if kernel == "precomputed" else "X")
        self.degree = check_number(degree, "degree", lower=0.0)
        self.coef0 = check_number(coef0, "coef0")
        self.gamma = check_gamma(gamma, self.X) if kernel in ("poly", "rbf", "sigmoid") else 1.0
        self.n = self.X.shape[0]
        self.entries_computed = 0
        self._full: NDArray | None = None
        if kernel == "precomputed":
            self.X = self._full = check_precomputed(self.X)
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
        with np.errstate(over="ignore"):
            self._reach = self.gamma * float(self._squares.max()) if kernel == "rbf" else 0.0
        self._diag = self._diagonal()
        self._factors: dict[str, NDArray] = {}

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
        state["_factors"] = {}
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

    @property
    def is_safe_in_single(self) -> bool:
        """Whether float32 holds K to about 1e-5 relative; where not, float64 is used and rounded at the end."""
        largest = float(np.abs(self._diag).max())
        return self._reach <= SHARP_SINGLE and 1 / LARGE_SINGLE <= largest <= LARGE_SINGLE

    def diag(self) -> NDArray:
        """Kᵢᵢ, shape (n,)."""
        return self._diag.copy()

    def rows(self, J: ArrayLike, dtype: type = float) -> NDArray:
        """Rows J of K, shape (len(J), n), in float64 or float32 (at half the cost and 1e-7 relative accuracy)."""
        J = np.asarray(J, dtype=np.intp)
        if self._full is not None:
            return self._full[J].astype(dtype, copy=False)
        self.entries_computed += self.n * len(J)
        return self._between(J, slice(None), dtype)

    def columns(self, J: ArrayLike) -> NDArray:
        """Columns J of K, shape (n, len(J))."""
        return self.rows(J).T

    def block(self, rows: ArrayLike, J: ArrayLike, dtype: type = float) -> NDArray:
        """The block K[rows, J], shape (len(rows), len(J)), in float64 or float32."""
        rows, J = np.asarray(rows, dtype=np.intp), np.asarray(J, dtype=np.intp)
        if self._full is not None:
            return self._full[np.ix_(rows, J)].astype(dtype, copy=False)
        self.entries_computed += len(rows) * len(J)
        return self._between(rows, J, dtype)

    def subset(self, J: ArrayLike) -> Gram:
        """The Gram of points J alone, with this one's kernel parameters; nothing is checked or evaluated again."""
        J = np.asarray(J, dtype=np.intp)
        part = object.__new__(Gram)
        part.__dict__.update(self.__dict__)
        given = self.kernel == "precomputed"
        part.X = self.X[np.ix_(J, J)] if given else self.X[J]
        part.n, part.entries_computed, part._full = len(J), 0, part.X if given else None
        part._points, part._squares, part._diag = self._points[J], self._squares[J], self._diag[J]
        part._factors = {name: factor[J] for name, factor in self._factors.items()}
        return part

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

    def cross(self, Z: ArrayLike, J: ArrayLike, dtype: type = float) -> NDArray:
        """Kernel between new points and training points J: shape (len(Z), len(J)), in float64 or float32.

        With a precomputed kernel, Z is the matrix of kernel values between the new points and *all* training
        points, shape (n_new, n).
        """
        J = np.asarray(J, dtype=np.intp)
        points = np.asarray(Z, dtype=float)
        if self.kernel == "precomputed":
            return points[:, J].astype(dtype, copy=False)
        if self._center is not None:
            points = points - self._center
        if callable(self.kernel):
            return self._call(points, self.X[J]).astype(dtype, copy=False)
        if self._reach > SHARP:
            return self._sharp(points, self._points[J]).astype(dtype, copy=False)
        work = dtype if self.is_safe_in_single else float
        right = self._factor(work)[J]
        if self.kernel != "rbf":
            return self._evaluate(points.astype(work, copy=False), right).astype(dtype, copy=False)
        with np.errstate(over="ignore"):
            squares = np.einsum("ij,ij->i", points, points)
            # A point so far away that its square would overflow has kernel value 0 with all of them.
            near = squares * self.gamma < FAR
        values: NDArray = np.zeros((len(points), len(J)), dtype=dtype)
        augmented: NDArray = self._augment(points[near], squares[near]).astype(work, copy=False)
        values[near] = self._evaluate(self._left(augmented), right)
        return values

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

    def _between(self, rows: NDArray, J: NDArray | slice, dtype: type) -> NDArray:
        """Kernel values between points ``rows`` and J, computed in the precision asked for or a better one."""
        if callable(self.kernel):
            return self._call(self.X[rows], self.X[J]).astype(dtype, copy=False)
        if self._reach > SHARP:
            return self._sharp(self._points[rows], self._points[J]).astype(dtype, copy=False)
        factor = self._factor(dtype if self.is_safe_in_single else float)
        return self._evaluate(self._left(factor[rows]), factor[J]).astype(dtype, copy=False)

    def _sharp(self, A: NDArray, B: NDArray) -> NDArray:
        """The radial kernel from differences: slower, and right where γ‖x‖² is so large that the product's
        cancellation would show (identical points must have 1, whatever γ)."""
        with np.errstate(over="ignore"):
            return np.exp(-self.gamma * cdist(A, B, "sqeuclidean"))

    # --- kernels as products: K = φ(L Rᵀ), with R kept and L made from rows of R ------------------

    def _augment(self, points: NDArray, squares: NDArray) -> NDArray:
        """[x, 1, −γ‖x‖²]: with `_left`, one product gives −γ‖x − z‖² without a pass for each term."""
        return np.column_stack([points, np.ones(len(points)), -self.gamma * squares])

    def _factor(self, dtype: type) -> NDArray:
        """R of all points, shape (n, m) or (n, m + 2), kept for each precision that was asked for."""
        name = np.dtype(dtype).name
        if name not in self._factors:
            factor = self._augment(self._points, self._squares) if self.kernel == "rbf" else self._points
            self._factors[name] = np.ascontiguousarray(factor, dtype=dtype)
        return self._factors[name]

    def _left(self, factor: NDArray) -> NDArray:
        """L = [2γx, −γ‖x‖², 1] from R = [x, 1, −γ‖x‖²]; R itself where no radial term is needed."""
        if self.kernel != "rbf":
            return factor
        left = np.empty_like(factor)
        np.multiply(factor[:, :-2], 2.0 * self.gamma, out=left[:, :-2])
        left[:, -2], left[:, -1] = factor[:, -1], 1.0
        return left

    def _evaluate(self, L: NDArray, R: NDArray) -> NDArray:
        G = L @ R.T
        if self.kernel != "rbf":
            return self._apply(G)
        np.minimum(G, 0.0, out=G)
        return np.exp(G, out=G)

    def _apply(self, inner: NDArray) -> NDArray:
        """The kernel as a function of inner products (not for "rbf")."""
        if self.kernel == "linear":
            return inner
        inner = inner * inner.dtype.type(self.gamma)
        inner += inner.dtype.type(self.coef0)
        if self.kernel == "sigmoid":
            return np.tanh(inner, out=inner)
        if self.degree in (2, 3, 4):  # numpy's pow is 20 times slower than the products
            square = inner * inner
            return square if self.degree == 2 else square * (inner if self.degree == 3 else square)
        return inner**self.degree

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
