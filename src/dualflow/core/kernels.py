"""The Gram matrix of a data set: computed where it is asked for, block by block.

Nothing here stores more than is asked: all work from the data, and only `Gram.full` forms (and keeps) the matrix.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from .kernel_checks import KernelFunction, as_matrix, check_gamma, check_kernel, check_number, check_precomputed
from .kernel_values import called, called_diagonal, from_differences, mean_of, of_products, squared_lengths
from .radial import RadialPoints
from .row_cache import RowCache

__all__ = ["BLOCK_ENTRIES", "Gram"]

#: Entries of one temporary block: 32 MB of float64, large enough for BLAS, small enough for any machine.
BLOCK_ENTRIES = 1 << 22

#: Points from which sums of float32 rows are worth a second look in float64.
ESTIMATE_FROM = 4096
#: Room for kept rows, in bytes, for each precision.
CACHE_BYTES = 1 << 30

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
        self.n, self.entries_computed = len(self.X), 0
        self._full: NDArray | None = None
        if kernel == "precomputed":
            self.X = self._full = check_precomputed(self.X)
        # The radial kernel depends on differences only: centred, data far from the origin do not cancel in it.
        self._center: Any = mean_of(self.X) if kernel == "rbf" else None
        self._radial: dict[str, RadialPoints] = {}
        self._kept: dict[str, RowCache] = {}
        if self._center is not None and self.n < ESTIMATE_FROM:
            self._radial["float64"], self._squares = RadialPoints.few(self.X, self._center, self.gamma)
        else:
            self._squares = squared_lengths(self.X, self._center)
        if kernel != "precomputed" and not callable(kernel) and not np.isfinite(self._squares).all():
            size = f"{np.abs(self.X).max():.3g}"
            raise ProblemError(f"X: squared lengths overflow float64 (entries as large as {size}); scale the features")
        with np.errstate(over="ignore"):
            self._reach = self.gamma * float(self._squares.max()) if kernel == "rbf" else 0.0
        self._diag = self._diagonal()

    @classmethod
    def precomputed(cls, K: ArrayLike) -> Gram:
        """Wrap a given symmetric kernel matrix of shape (n, n)."""
        return cls(K, kernel="precomputed")

    def __getstate__(self) -> dict[str, Any]:
        # A kept matrix is made again when asked for; a given one is the data.
        state = self.__dict__.copy()
        if self.kernel != "precomputed":
            state["_full"] = None
        state["_radial"], state["_kept"] = {}, {}
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

    def rows(self, J: ArrayLike, dtype: type = float, out: NDArray | None = None) -> NDArray:
        """Rows J of K, shape (len(J), n), in float64 or float32 (at half the cost and 1e-7 relative accuracy); in
        ``out`` if that is given, row-major and of that precision."""
        J = np.asarray(J, dtype=np.intp)
        if out is not None and self.is_radial and self._full is None and self._work(dtype) is dtype:
            self.entries_computed += self.n * len(J)
            return self.radial_points(dtype, J).kernel(self.radial_points(dtype), out)
        if out is not None:
            out[:] = self.rows(J, dtype)
            return out
        if self._full is not None:
            return self._full[J].astype(dtype, copy=False)
        self.entries_computed += self.n * len(J)
        return self._between(J, slice(None), dtype)

    def sum_rows(self, J: NDArray, weights: NDArray, dtype: type) -> NDArray:
        """Σⱼ weights[j] · row J[j] of K, shape (n,), in float64 from rows in one precision, which are kept."""
        name = "float32" if dtype is np.float32 else "float64"
        if name not in self._kept:
            self._kept[name] = RowCache(self.n, dtype, CACHE_BYTES, lambda J, out: self.rows(J, dtype, out))
        out = np.zeros(self.n)
        self._kept[name].add_to(out, J, np.ascontiguousarray(weights, dtype=float))
        return out

    @property
    def sums_in_single(self) -> bool:
        """Whether sums of float32 kernel values spare something where they will do: few features, float32 is safe."""
        may = self.is_radial and self._full is None and self.is_safe_in_single
        return may and self.radial_points(np.float32).has_few_features

    @property
    def estimates(self) -> bool:
        """Whether `estimate` spares anything: many points of many features, and float32 is safe."""
        may = self.n >= ESTIMATE_FROM and self.is_radial and self._full is None and self.is_safe_in_single
        return may and not self.radial_points(np.float32).has_few_features

    def estimate(self, v: NDArray) -> tuple[NDArray, NDArray]:
        """K v from float32 rows, which are kept, and a bound on its error, each of shape (n,)."""
        J, relative = np.flatnonzero(v), self.radial_points(np.float32).error_in_single
        values = self.sum_rows(J, v[J], np.float32)
        size = self.sum_rows(J, np.abs(v[J]), np.float32)
        return values, (relative / (1 - relative) + len(J) * 2.0**-50) * size

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

    def upper_block(self, J: ArrayLike) -> NDArray:
        """The block K[J, J] in float64, at half the cost: below its diagonal there may be anything."""
        J = np.asarray(J, dtype=np.intp)
        if not self.is_radial or self._full is not None:
            return self.block(J, J)
        self.entries_computed += len(J) * len(J) // 2
        return self.radial_points(float, J).upper()

    def subset(self, J: ArrayLike, matrix: NDArray | None = None) -> Gram:
        """The Gram of points J alone, with this one's parameters and its (row-major) ``matrix`` if known; no checks."""
        J = np.asarray(J, dtype=np.intp)
        part = object.__new__(Gram)
        part.__dict__.update(self.__dict__)
        given = self.kernel == "precomputed"
        part.X = self.X[np.ix_(J, J)] if given else self.X[J]
        part.n, part.entries_computed, part._full = len(J), 0, part.X if given else matrix
        part._squares, part._diag = self._squares[J], self._diag[J]
        part._kept = {}
        part._radial = {name: points.take(J) for name, points in self._radial.items()}
        return part

    def matvec(self, v: ArrayLike, rows: NDArray | None = None, dtype: type = float) -> NDArray:
        """K v, shape (n,), or some entries of it, by columns where v is not 0; only the radial kernel in float32."""
        v = np.asarray(v, dtype=float)
        J = np.flatnonzero(v)
        if self._full is not None and rows is None and len(J) > self.n // 4:
            return self._full @ v
        height = self.n if rows is None else len(rows)
        if self.is_radial and self._full is None:
            self.entries_computed += height * len(J)
            dtype, where = self._work(dtype), slice(None) if rows is None else rows
            return self.radial_points(dtype, where).expand(self.radial_points(dtype, J), v[J, None])[:, 0]
        out = np.zeros(height)
        for start in range(0, len(J), width := max(1, BLOCK_ENTRIES // max(1, height))):
            part = J[start : start + width]
            out += (self.columns(part) if rows is None else self.block(rows, part)) @ v[part]
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
        if callable(self.kernel):
            return called(self.kernel, points, self.X[J]).astype(dtype, copy=False)
        if self._reach > SHARP:
            return from_differences(points - self._center, self._points(J), self.gamma).astype(dtype, copy=False)
        if self.is_radial:
            new, near = self._new_points(points, dtype)
            values: NDArray = np.zeros((len(points), len(J)), dtype=dtype)
            values[near] = new.kernel(self.radial_points(self._work(dtype), J))
            return values
        work = self._work(dtype)
        product: NDArray = points.astype(work, copy=False) @ self._points(J).astype(work, copy=False).T
        return self._apply(product).astype(dtype, copy=False)

    def expand(self, Z: ArrayLike, J: ArrayLike, weights: ArrayLike, dtype: type = float) -> NDArray:
        """Σⱼ weights[j, :] k(z, xⱼ) for new points Z (as in `cross`): shape (len(Z), r), in float64.

        Kernel values are computed in float64 or float32, and never more than a few MB of them at a time.
        """
        J, W = np.asarray(J, dtype=np.intp), np.asarray(weights, dtype=float)
        points = np.asarray(Z, dtype=float)
        out = np.zeros((len(points), W.shape[1]))
        height = max(1, BLOCK_ENTRIES // max(1, len(J), 0 if self.kernel == "precomputed" else points.shape[1]))
        for start in range(0, len(points) if len(J) else 0, height):
            rows = slice(start, start + height)
            if self.is_radial:
                new, near = self._new_points(points[rows], dtype)
                out[rows][near] = new.expand(self.radial_points(self._work(dtype), J), W)
            else:
                K = self.cross(points[rows], J, dtype)
                out[rows] = K @ W.astype(K.dtype)
        return out

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

    def _points(self, J: NDArray | slice = slice(None)) -> NDArray:
        """Points as the kernel takes them; not kept, for `radial_points` are."""
        return self.X[J] if self._center is None else self.X[J] - self._center

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
        return called_diagonal(self.kernel, self.X)

    def _between(self, rows: NDArray, J: NDArray | slice, dtype: type) -> NDArray:
        """Kernel values between points ``rows`` and J, computed in the precision asked for or a better one."""
        if callable(self.kernel):
            return called(self.kernel, self.X[rows], self.X[J]).astype(dtype, copy=False)
        if self._reach > SHARP:
            return from_differences(self._points(rows), self._points(J), self.gamma).astype(dtype, copy=False)
        work = self._work(dtype)
        if self.is_radial:
            return self.radial_points(work, rows).kernel(self.radial_points(work, J)).astype(dtype, copy=False)
        product: NDArray = self._points(rows).astype(work, copy=False) @ self._points(J).astype(work, copy=False).T
        return self._apply(product).astype(dtype, copy=False)

    @property
    def is_radial(self) -> bool:
        """Whether `radial_points` may be used: the radial kernel where its product form is accurate."""
        return self.kernel == "rbf" and self._reach <= SHARP

    def radial_points(self, dtype: type, J: NDArray | slice = slice(None)) -> RadialPoints:
        """All points, or some, ready for the radial kernel; all are kept for each precision that was asked for."""
        name = "float32" if dtype is np.float32 else "float64"
        if name not in self._radial:
            if self.n >= ESTIMATE_FROM and not isinstance(J, slice) and len(J) < self.n // 4:
                return RadialPoints.of(self.X[J], self._center, self.gamma, dtype, self._squares[J])
            if (double := self._radial.get("float64")) is not None and self.n < ESTIMATE_FROM:
                self._radial[name] = RadialPoints(double.points.astype(dtype), double.half.astype(dtype))
            else:
                self._radial[name] = RadialPoints.of(self.X, self._center, self.gamma, dtype, self._squares)
        return self._radial[name].take(J)

    def _new_points(self, Z: NDArray, dtype: type) -> tuple[RadialPoints, NDArray]:
        """New points ready for the radial kernel, and which of Z they are: those so far away that their squared
        length would overflow are left out, for their kernel values are 0."""
        points = Z - self._center
        with np.errstate(over="ignore"):
            squares = np.einsum("ij,ij->i", points, points)
            near = squares * self.gamma < FAR
        Z, squares = (Z, squares) if near.all() else (Z[near], squares[near])
        return RadialPoints.of(Z, self._center, self.gamma, self._work(dtype), squares), near

    def _work(self, dtype: type) -> type:
        """The precision to compute in: the one asked for, or float64 where float32 is unsafe."""
        return dtype if self.is_safe_in_single else float

    def _apply(self, inner: NDArray) -> NDArray:
        """The kernel as a function of inner products (not for "rbf")."""
        return of_products(inner, str(self.kernel), self.gamma, self.coef0, self.degree)
