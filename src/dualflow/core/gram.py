"""Kernel matrices of points, computed on request, a block at a time.

`KernelMatrix` holds what all of them share: rows, blocks, products and kernel values of new points. `Gram` is the
immutable one that users make: points and a kernel, no computed values. `KeptGram` (`kernel_cache`) also caches what it
computed, and `GrowingGram` (`growing`) gains and loses points.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..exceptions import ProblemError
from ._points import all_finite
from ._radial import radial_apply
from .kernel_functions import (
    KernelFunction,
    as_points,
    call_kernel,
    call_kernel_diagonal,
    centred_variance,
    check_callable,
    check_gamma,
    check_kernel,
    check_number,
    from_differences,
    largest_entry,
    mean_of,
    measured_points,
    squared_lengths,
    trial_rows,
)
from .monomials import monomial_product, product_by_monomials
from .named_kernels import KERNELS, named, values_of_products
from .radial import FEW_FEATURES, MIN_PART_SQUARE, RadialPoints, may_be_bits, radial_product
from .runtime.arrays import Value, constant, immutable, immutable_rows, immutable_written, in_parts
from .runtime.clock import check_time
from .runtime.memory import arena_array, check_block, check_memory, submatrix
from .sparse_points import SparsePoints, alike, given_points, is_sparse, products
from .thin_kernel import is_thin, thin_product
from .wide_products import mirror, strips, upper_products

EPS = float(np.finfo(float).eps)
#: Entries of one temporary block: 32 MB of float64, large enough for BLAS, small enough for any machine.
BLOCK_ENTRIES = 1 << 22
#: Up to this many points, kernel values between all of them are made from parts of many features at a time.
MAX_POINTS_IN_PARTS = 4096
#: With at least this many points, scaled points for the radial kernel are made for each precision, and for small parts
#: alone.
MIN_POINTS_SEPARATE = 4096
#: A linear-kernel product of more than this many kernel values is computed from sums of the features.
MIN_VALUES_SUMMED = 1 << 18
#: Up to this γ‖x‖², −γ‖x − z‖² is computed from products, otherwise from differences. Products lose 1e-5 there, but
#: only between points at that distance. A few such points in the data must not make all of it slow.
MAX_REACH_PRODUCTS = 1e9
#: Kernel values are computed in float32 only up to this γ‖x‖². There float32 loses 1e-4.
MAX_REACH_FLOAT32 = 1000.0
#: If γ‖z‖² of a new point exceeds this, its kernel values count as 0: they are far below the smallest float32.
MAX_REACH_NEW = 1e30
#: Kernel values beyond this, or below its inverse, are not computed in float32.
MAX_VALUE_FLOAT32 = 1e12
#: Largest error of float32 in sums of new points, relative to half their range.
MAX_ERROR_FLOAT32 = 1e-4
#: With fewer new points, float64 is used without a trial.
MIN_NEW_FLOAT32 = 64
#: At most this many new points are tried in both precisions.
TRIAL_POINTS = 32
#: Float32 is used only if its largest trial error times this is allowed, because other new points may have larger
#: errors.
TRIAL_MARGIN = 4
#: Rounding error of a kernel value k(x, z), in units of ε √(k(x, x) k(z, z)). Tuned on 500 hard random problems, tested
#: on 500 more: no error of a gap exceeded 0.49 of the estimate, by GCC and clang (tests/core/test_rounding.py).
GROWTH = 2.0
#: The same for a linear kernel. It is larger because an error of one coordinate is an error of all kernel values of the
#: point.
LINEAR_GROWTH = 5.0


class KernelMatrix:
    """The kernel matrix Kᵢⱼ = k(xᵢ, xⱼ) of n points; subclasses define where the points are and what is cached.

    Attributes
    ----------
    X : array of shape (n, m), or SparsePoints
        The points, or K itself.
    kernel, gamma, degree, coef0
        As in `Gram`; ``gamma`` is a number.
    center : array of shape (m,), or None
        Subtracted from all points, those of the matrix and new ones, to avoid cancellation for data far from the
        origin. The radial kernel depends on differences only; other kernels change with it (`is_translatable`).
    squares : array of shape (n,)
        ‖x − center‖².
    reach : float
        γ times the largest of ``squares`` for the radial kernel, else 0.
    """

    X: Any
    kernel: str | KernelFunction
    gamma: float
    degree: float
    coef0: float
    n: int
    center: Any
    squares: NDArray
    reach: float
    came_sparse: bool = False  # whether X was given as a sparse matrix, however it is held
    _diag: NDArray

    # --- what subclasses may cache ---------------------------------------------------------------

    def radial_points(self, dtype: type, J: NDArray | slice = slice(None)) -> RadialPoints:
        """Return all points, or points J, scaled for the radial kernel in float64 or float32."""
        return RadialPoints.of(self.X, self.center, self.gamma, dtype, self.squares, J)

    def _known(self, entries: int = 0, dtype: type = float) -> NDArray | None:
        """Return the dense K if it is cached in this precision or a better one, else None.

        A subclass may compute K when ``entries`` more kernel values are requested in float64.
        """
        return self.X if self.kernel == "precomputed" else None

    @property
    def has_dense(self) -> bool:
        """Whether the dense K is cached in float64."""
        return self._known() is not None

    def count(self, entries: int) -> None:
        """Record that kernel values are about to be computed, and check the time limit."""
        check_time()

    # --- facts -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        name = self.kernel if isinstance(self.kernel, str) else getattr(self.kernel, "__name__", "callable")
        return f"{type(self).__name__}(n={self.n}, kernel={name!r}, gamma={self.gamma:.6g})"

    @property
    def has_named_kernel(self) -> bool:
        """Whether the kernel is a known function of the points: neither a callable nor a given matrix."""
        return isinstance(self.kernel, str) and self.kernel != "precomputed"

    @property
    def function(self) -> KernelFunction | None:
        """The function that computes kernel values from two sets of points; None for other kernels."""
        if not isinstance(self.kernel, str):
            return self.kernel
        if (values := KERNELS[self.kernel].of_points) is None:
            return None
        return lambda A, B: values(A, B, self.gamma, self.coef0, self.degree)

    @property
    def is_psd_by_kernel(self) -> bool:
        """Whether K is positive semidefinite for any data (Mercer), so that no eigenvalues are needed to know it."""
        return named(self.kernel).is_psd(self.degree, self.coef0)

    @property
    def is_translatable(self) -> bool:
        """Whether a translation of all points changes the kernel by u(x) + u(z) alone: ⟨x,z⟩ and γ⟨x,z⟩ + coef0.

        Sums of kernel values with weights that sum to 0 then change by a constant, and distances do not change.
        """
        return named(self.kernel).is_translatable(self.degree, self.coef0)

    def constant(self, weights: NDArray, total: float = 0.0) -> float:
        """Return by how much the centre lowers Σⱼ weightsⱼ k(z, xⱼ) for any z, if the n weights sum to 0.

        If they sum to ``total``, it lowers the sum by this and by total·u(z).
        """
        if self.center is None or not self.is_translatable:
            return 0.0
        parts = in_parts(self.X, np.flatnonzero(weights))
        along = sum(float((weights[part] @ self._points(part)) @ self.center) for part in parts)
        return self.gamma * (along + 0.5 * total * float(self.center @ self.center))

    def constants(self, J: NDArray) -> NDArray | None:
        """Return by how much the centre lowers a sum for a unit of the weight of each of the points J.

        The sum over points J is the `constant` of weights that sum to 0. None if there is no such centre.
        """
        if self.center is None or not self.is_translatable:
            return None
        every = len(J) == self.n  # in the order of the points, of which no copy is made then
        parts = in_parts(self.X, slice(None) if every else J)
        found = np.concatenate([self._points(part).dot(self.center) for part in parts])
        return self.gamma * (found[J] if every else found)

    @property
    def is_safe_in_single(self) -> bool:
        """Whether float32 computes K to 1e-4 of its largest entry; else float64 is used and rounded at the end."""
        largest = 1.0 if self.kernel == "rbf" else float(np.abs(self._diag).max())
        return self.reach <= MAX_REACH_FLOAT32 and 1 / MAX_VALUE_FLOAT32 <= largest <= MAX_VALUE_FLOAT32

    @property
    def is_radial(self) -> bool:
        """Whether the kernel is radial and its product form accurate, so that `radial_points` may be used."""
        return self.kernel == "rbf" and self.reach <= MAX_REACH_PRODUCTS

    @property
    def growth(self) -> float:
        """The rounding error of the kernel values, in the units of `GROWTH`.

        A power multiplies the error of its base by the degree. An exponential has the error of its exponent, in which
        squared lengths cancel, or coordinates if it is computed from differences.
        """
        if self.kernel == "rbf":
            mean = float(np.add.reduce(self.squares)) / self.n  # `mean` takes four times as long for a few points
            exponent = float(self.gamma) * mean
            # The error of the exponent −t, t = γ‖x − z‖², counts times e^−t. Computed from differences it is at most
            # about √(γ‖x‖²), since √t e^−t < ½.
            exponent = 2.0 * exponent if self.is_radial else math.sqrt(exponent)
            # If the exponent has no correct digit, the kernel is 0 between points that are not copies.
            return GROWTH + (exponent if exponent * EPS < 1.0 else 0.0)
        if self.kernel == "linear":
            return LINEAR_GROWTH
        return GROWTH * named(self.kernel).error_factor(self.degree)

    @property
    def has_few_features(self) -> bool:
        """Whether the compiled radial kernel is faster than BLAS followed by a pass over its result."""
        return self.is_radial and self.X.shape[1] <= FEW_FEATURES and not isinstance(self.X, SparsePoints)

    @property
    def makes_squares_in_parts(self) -> bool:
        """Whether kernel values between all pairs of some points are made from a part of the features at a time.

        The points are dense. A radial kernel has its compiled form for few features, and a table for bits. Runs of an
        indefinite kernel depend on the last bits of its values: they stay.
        """
        if not (isinstance(self.X, np.ndarray) and self.X.flags.c_contiguous and self.has_named_kernel):
            return False
        if not self.is_psd_by_kernel or self.function is not None or self.reach > MAX_REACH_PRODUCTS:
            return False
        return not self.is_radial or not (self.has_few_features or may_be_bits(self.X))

    def diag(self) -> NDArray:
        """Return Kᵢᵢ, shape (n,)."""
        return self._diag.copy()

    # --- parts of K, and products ------------------------------------------------------------------

    def rows(self, J: ArrayLike, dtype: type = float, out: NDArray | None = None) -> NDArray:
        """Return rows J of K, shape (len(J), n), in float64 or float32.

        float32 has half the cost and a relative accuracy of 1e-7. ``out``, if given, receives the rows; it must be
        row-major and of this precision.
        """
        J = np.asarray(J, dtype=np.intp)
        known = self._known(self.n * len(J) if dtype is float else 0, dtype)
        if out is not None and self.is_radial and known is None and self._work(dtype) is dtype:
            self.count(self.n * len(J))
            return self.radial_points(dtype, J).kernel(self.radial_points(dtype), out)
        if out is not None and self._is_of_products and known is None and self._work(dtype) is dtype:
            self.count(self.n * len(J))
            values = self._of_products(self._points(J, dtype), self._points(slice(None), dtype), dtype, out)
            if values is not out:
                out[:] = values
            return out
        if out is not None:
            out[:] = self.rows(J, dtype)
            return out
        if known is not None:
            return known[J].astype(dtype, copy=False)
        self.count(self.n * len(J))
        return self._between(J, slice(None), dtype)

    def columns(self, J: ArrayLike) -> NDArray:
        """Return columns J of K, shape (n, len(J))."""
        return self.rows(J).T

    def block(self, rows: ArrayLike, J: ArrayLike, dtype: type = float) -> NDArray:
        """Return the block K[rows, J], shape (len(rows), len(J)), in float64 or float32."""
        rows, J = np.asarray(rows, dtype=np.intp), np.asarray(J, dtype=np.intp)
        if (known := self._known(len(rows) * len(J) if dtype is float else 0, dtype)) is not None:
            return submatrix(known, rows, J, dtype)
        self.count(len(rows) * len(J))
        return self._between(rows, J, dtype)

    def upper_block(self, J: ArrayLike) -> NDArray:
        """Return the block K[J, J] in float64 at half the cost; entries below the diagonal may be arbitrary."""
        J = np.asarray(J, dtype=np.intp)
        if not self.is_radial or self.has_dense:
            return self.block(J, J)
        check_block(len(J), len(J), float)
        self.count(len(J) * len(J) // 2)
        return self.radial_points(float, J).upper()

    def matvec(self, v: ArrayLike, rows: NDArray | None = None, dtype: type = float) -> NDArray:
        """Return K v, shape (n,), or the entries ``rows`` of it, from the columns where v is not 0.

        ``dtype`` matters for the radial kernel alone; others are computed in float64.
        """
        v = np.asarray(v, dtype=float)
        J, height = v.nonzero()[0], self.n if rows is None else len(rows)
        if self.is_linear and height * len(J) > MIN_VALUES_SUMMED and not self.has_dense:
            return self.linear_values(self.weighted_sum(v, J), rows)
        if (rank := product_by_monomials(self, height, len(J))) and not self.has_dense:
            return monomial_product(self, v, slice(None) if rows is None else rows, J, rank)
        known = self._known(height * len(J) if dtype is float else 0)
        if known is not None and len(J) > self.n // 4 and 8 * height > self.n:
            return known @ v if rows is None else (known @ v)[rows]
        where = slice(None) if rows is None else rows
        if known is None and is_thin(self):
            return thin_product(self, v, where, J)
        if self.is_radial and known is None:
            self.count(height * len(J))
            return radial_product(self, v, where, J, self._work(dtype))
        if self.kernel == "linear" and known is None:
            self.count(height * len(J))
            product: NDArray = self._points(where) @ (v[J] @ self._points(J))
            return product
        is_dense = self._is_of_products and isinstance(self.X, np.ndarray)
        if rows is None and known is None and is_dense and 2 * len(J) > self.n and height * len(J) > BLOCK_ENTRIES:
            return self._product_by_halves(v, J)
        out = np.zeros(height)
        for start in range(0, len(J), width := max(1, BLOCK_ENTRIES // max(1, height))):
            check_time()
            part = J[start : start + width]
            out += (self.columns(part) if rows is None else self.block(rows, part)) @ v[part]
        return out

    def _product_by_halves(self, v: NDArray, J: NDArray) -> NDArray:
        """Return K v for a kernel of products of dense points, where v is not 0 at J: K[J, J] is made by half."""
        points, weights, sums = self._points(J), v[J], np.zeros(len(J))
        height = max(1, BLOCK_ENTRIES // len(J))
        for start in range(0, len(J), height):
            check_time()
            stop = min(start + height, len(J))
            values = self._of_products(points[start:stop], points[start:], float)
            self.count(values.size)
            sums[start:stop] += values @ weights[start:]
            sums[stop:] += weights[start:stop] @ values[:, stop - start :]
        out = np.empty(self.n)
        out[J] = sums
        (others,) = (v == 0).nonzero()
        for start in range(0, len(others), height):
            check_time()
            part = others[start : start + height]
            values = self._of_products(self._points(part), points, float)
            self.count(values.size)
            out[part] = values @ weights
        return out

    @property
    def is_linear(self) -> bool:
        """Whether K = XXᵀ of dense points, so that products with K need no kernel values."""
        return self.kernel == "linear" and isinstance(self.X, np.ndarray)

    def product_cost(self, columns: int, rows: int | None = None) -> int:
        """Return how many kernel values a product with this number of columns takes, in all rows or some.

        A linear kernel takes none, but a pass over the points of the rows and columns: their number is returned. A
        polynomial one takes such a pass for each of its monomials, if these are faster.
        """
        if self.kernel == "linear":
            return (self.n if rows is None else rows) + columns
        if rank := product_by_monomials(self, self.n if rows is None else rows, columns):
            return rank * ((self.n if rows is None else rows) + columns)
        if rows is None and self.is_radial and columns > MIN_PART_SQUARE * self.n:  # each value is used twice
            return self.n * columns - columns * columns // 2
        return (self.n if rows is None else rows) * columns

    def weighted_sum(self, v: NDArray, J: NDArray) -> NDArray:
        """Return Σⱼ vⱼ(xⱼ − center) over points J, shape (m,), for a kernel that `is_linear`."""
        total = np.zeros(self.X.shape[1])
        for part in in_parts(self.X, slice(None) if len(J) == self.n else J):
            check_time()
            total += v[part] @ self._centred(self.X[part])
        return total

    def linear_values(self, w: NDArray, rows: NDArray | None = None) -> NDArray:
        """Return ⟨w, xᵢ − center⟩ of all points or the given ones, for a kernel that `is_linear`."""
        out = np.empty(self.n if rows is None else len(rows))
        done = 0
        for part in in_parts(self.X, slice(None) if rows is None else rows):
            check_time()
            points = self._centred(self.X[part])
            out[done : done + len(points)] = points @ w
            done += len(points)
        return out

    def term_sizes(self, v: NDArray, w: NDArray) -> tuple[NDArray, NDArray]:
        """Return Σᵢ|vᵢxᵢ| of each feature and Σ|wx| of each point.

        They are the sizes of the terms of `weighted_sum` and `linear_values`.
        """
        features, points, v, w = np.zeros(self.X.shape[1]), np.empty(self.n), np.abs(v), np.abs(w)
        for part in in_parts(self.X, slice(None)):
            check_time()
            size = abs(self._centred(self.X[part]))
            features += v[part] @ size
            points[part] = size @ w
        return features, points

    def full(self) -> NDArray:
        """Return the dense K, shape (n, n), symmetric to the bit; a `ProblemError` if it does not fit into memory."""
        if (known := self._known()) is not None:
            return known
        check_memory(self.n, "the whole kernel matrix", matrices=1)
        if self.makes_squares_in_parts and self.n <= MAX_POINTS_IN_PARTS:
            self.count(self.n * (self.n + 1) // 2)
            return self._square(slice(None))
        K = arena_array((self.n, self.n), float)
        height = max(1, min(BLOCK_ENTRIES // self.n, max(64, self.n // 16)))
        for start in range(0, self.n, height):
            check_time()
            J, rest = slice(start, min(start + height, self.n)), slice(start, None)
            self.count((J.stop - start) * (self.n - start))
            K[J, rest] = self._between(J, rest, float)
            corner = K[J, J]
            corner[:] = 0.5 * (corner + corner.T)  # BLAS may round the two triangles differently
            for left in range(J.stop, self.n, 64):  # 64 rows, read with a stride, stay in the cache
                K[left : left + 64, J] = K[J, left : left + 64].T
        return K

    def by_one_product(self) -> NDArray:
        """Return K of few points, shape (n, n), as one product of them, without a copy of the points."""
        every = slice(None)
        return self._between(every, every, float)

    # --- new points --------------------------------------------------------------------------------

    def cross(self, Z: ArrayLike, J: ArrayLike | None = None, dtype: type = float) -> NDArray:
        """Return the kernel between new points and points J, or all: shape (len(Z), len(J)), in float64 or float32.

        With a precomputed kernel, Z is the matrix of kernel values between the new points and *all* n points.
        """
        columns: NDArray | slice = slice(None) if J is None else np.asarray(J, dtype=np.intp)
        points, width = alike(Z, self.X), self.n if isinstance(columns, slice) else len(columns)
        check_block(len(points), width, dtype)
        if self.kernel == "precomputed":
            return points[:, columns].astype(dtype, copy=False)
        if (function := self.function) is not None:
            return call_kernel(function, points, self.X[columns]).astype(dtype, copy=False)
        if self.reach > MAX_REACH_PRODUCTS:
            return from_differences(self._centred(points), self._points(columns), self.gamma).astype(dtype, copy=False)
        if self.is_radial:
            new, near = self._new_points(points, dtype)
            values: NDArray = np.zeros((len(points), width), dtype=dtype)
            values[near] = new.kernel(self.radial_points(self._work(dtype), columns))
            return values
        return self._of_products(self._centred(points), self._points(columns), dtype)

    def expand(
        self,
        Z: ArrayLike,
        J: ArrayLike,
        weights: ArrayLike,
        dtype: type = float,
        beside: NDArray | None = None,
    ) -> NDArray:
        """Return Σⱼ weights[j, :] k(z, xⱼ) for new points Z (as in `cross`): shape (len(Z), r), in float64.

        Kernel values are computed a few MB at a time. float32 is used only if a trial with some points shows an error
        of at most `MAX_ERROR_FLOAT32`, relative to the sums plus ``beside``, shape (len(Z),), which the caller adds.
        """
        J, W = np.asarray(J, dtype=np.intp), np.asarray(weights, dtype=float)
        points = given_points(Z)
        if dtype is np.float32 and not self._is_accurate_in_float32(points, J, W, beside):
            dtype = float
        return self._sums(points, J, W, dtype)

    def _is_accurate_in_float32(self, points: Any, J: NDArray, W: NDArray, beside: NDArray | None) -> bool:
        """Whether float32 is accurate enough for `expand`, from some points computed in both precisions.

        The error of float32 grows with the kernel values, and these with the distance from the centre, so half of the
        points tried are the farthest. The size of the sums is half their range: a part that all sums share is not
        counted, since an intercept cancels it.
        """
        given = self.kernel == "precomputed" or self.function is not None  # in float64 already
        if given or len(points) < MIN_NEW_FLOAT32 or not len(J):
            return False
        with np.errstate(over="ignore"):
            squares = squared_lengths(points, self.center)
        far = np.argpartition(-squares, TRIAL_POINTS // 2)[: TRIAL_POINTS // 2]
        rows = np.union1d(far, np.arange(TRIAL_POINTS // 2) * len(points) // (TRIAL_POINTS // 2))
        exact, rough = (self._sums(points[rows], J, W, dtype) for dtype in (float, np.float32))
        with np.errstate(invalid="ignore", over="ignore"):
            error = np.abs(rough - exact).max(axis=0)
            sums = exact if beside is None else exact + beside[rows, None]
            size = 0.5 * np.ptp(sums, axis=0)
            return bool((TRIAL_MARGIN * error <= MAX_ERROR_FLOAT32 * size).all())

    def _sums(self, points: Any, J: NDArray, W: NDArray, dtype: type) -> NDArray:
        """Return the sums of `expand`, with kernel values in one precision."""
        out = np.zeros((len(points), W.shape[1]))
        narrow = self.kernel == "precomputed" or isinstance(self.X, SparsePoints)
        height = max(1, BLOCK_ENTRIES // max(1, len(J), 0 if narrow else points.shape[1]))
        # Scaled once for all parts: this is expensive.
        radial = self.radial_points(self._work(dtype), J).ready() if self.is_radial and len(J) else None
        for start in range(0, len(points) if len(J) else 0, height):
            rows = slice(start, start + height)
            if radial is not None:
                new, near = self._new_points(alike(points[rows], self.X), dtype)
                out[rows][near] = new.expand(radial, W)
            else:
                K = self.cross(points[rows], J, dtype)
                out[rows] = K @ W.astype(K.dtype)
        return out

    def self_kernel(self, Z: ArrayLike) -> NDArray:
        """Return k(z, z) of new points, shape (len(Z),); a `ProblemError` for a precomputed kernel."""
        points = given_points(Z)
        if self.kernel == "precomputed":
            raise ProblemError("kernel='precomputed': k(z, z) of new points is not in the matrix; give a kernel")
        if self.kernel == "rbf":
            return np.ones(len(points))
        if (function := self.function) is not None:
            points, one = alike(points, self.X), [slice(i, i + 1) for i in range(len(points))]
            return np.array([call_kernel(function, points[i], points[i]).item() for i in one])
        return self._apply(squared_lengths(points, self.center))

    # --- helpers -----------------------------------------------------------------------------------

    def _points(self, J: NDArray | slice, dtype: type = float) -> Any:
        """Return the centred points J in one precision, for kernels of products or differences."""
        return self._centred(self.X[J]).astype(dtype, copy=False)

    def _centred(self, points: Any) -> Any:
        """Return points less the centre, if there is one."""
        return points if self.center is None else points - self.center

    def _between(self, rows: NDArray | slice, J: NDArray | slice, dtype: type) -> NDArray:
        """Return the kernel values between points ``rows`` and J, computed in the requested precision or float64."""
        height, width = (len(range(self.n)[of] if isinstance(of, slice) else of) for of in (rows, J))
        check_block(height, width, dtype)
        if (function := self.function) is not None:
            return call_kernel(function, self.X[rows], self.X[J]).astype(dtype, copy=False)
        if self.reach > MAX_REACH_PRODUCTS:
            return from_differences(self._points(rows), self._points(J), self.gamma).astype(dtype, copy=False)
        work = self._work(dtype)
        # BLAS makes a square in half the time. Runs of an indefinite kernel depend on its last bits: they stay.
        is_square = rows is J and self.is_psd_by_kernel
        if is_square and dtype is float and height <= MAX_POINTS_IN_PARTS and self.makes_squares_in_parts:
            return self._square(rows)
        if self.is_radial:
            radial = self.radial_points(work, rows)
            others = radial if is_square else self.radial_points(work, J)
            return radial.kernel(others, arena_array((height, width), work)).astype(dtype, copy=False)
        points = self._points(rows, work)
        return self._of_products(points, points if is_square else self._points(J, work), dtype)

    def _square(self, J: NDArray | slice) -> NDArray:
        """Return K[J, J] in float64 from parts of the features, for a kernel of products or the radial one."""
        if not self.is_radial:
            return self._apply(mirror(upper_products(self.X, J, self.center, 1.0)))
        K = upper_products(self.X, J, self.center, math.sqrt(2.0 * self.gamma))
        half = self.gamma * self.squares[J]
        for rows in strips(len(K)):
            radial_apply(K[rows, rows.start :], half[rows], half[rows.start :])
        return mirror(K)

    @property
    def _is_of_products(self) -> bool:
        """Whether kernel values are computed from inner products of the points."""
        return self.has_named_kernel and self.kernel != "rbf" and self.function is None

    def _of_products(self, A: Any, B: Any, dtype: type, out: NDArray | None = None) -> NDArray:
        """Return the kernel values between centred points, from their inner products (not for "rbf").

        ``out``, if given, receives the inner products; it must be of the precision in which they are computed.
        """
        work = self._work(dtype)
        points = A.astype(work, copy=False)
        others = points if A is B else B.astype(work, copy=False)
        if out is None and not isinstance(points, SparsePoints):
            out = arena_array((len(points), len(others)), work)
        return self._apply(products(points, others, out)).astype(dtype, copy=False)

    def _new_points(self, Z: Any, dtype: type) -> tuple[RadialPoints, NDArray]:
        """Return new points scaled for the radial kernel, and a mask of those of Z that they are.

        Points whose squared length could overflow are left out: their kernel values are 0.
        """
        squares = squared_lengths(Z, self.center)
        with np.errstate(over="ignore"):
            near = squares * self.gamma < MAX_REACH_NEW
        Z, squares = (Z, squares) if near.all() else (Z[near], squares[near])
        return RadialPoints.of(Z, self.center, self.gamma, self._work(dtype), squares), near

    def _work(self, dtype: type) -> type:
        """Return the precision to compute in: the requested one, or float64 if float32 is inaccurate."""
        return dtype if dtype is float or self.is_safe_in_single else float

    def _apply(self, inner: NDArray) -> NDArray:
        """Return the kernel values of inner products (not for "rbf"), which are overwritten."""
        return values_of_products(self, inner)


#: Up to this many numbers of X (8 MB), the constructor scales points of few features for the radial kernel and keeps
#: them. Of many features, each user makes what it needs: products take longer than a copy.
MAX_NUMBERS_READY = 1 << 20


class Gram(KernelMatrix, Value):
    """Kernel matrix K of n points, with Kᵢⱼ = k(xᵢ, xⱼ).

    Immutable: X is copied, attributes and arrays cannot be changed, and computed kernel values are not kept
    (`KeptGram` caches them during a run).

    Parameters
    ----------
    X : array or sparse matrix of shape (n, m)
        Data, finite; float64 is used throughout. Any sparse format of scipy; zeros are neither stored nor computed
        with, unless the dense matrix is small, or has at most 64 MB and is faster. A callable kernel then receives
        CSR arrays.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Names and formulas are scikit-learn's: ⟨x,z⟩, (γ⟨x,z⟩ + coef0)^degree, exp(−γ‖x−z‖²),
        tanh(γ⟨x,z⟩ + coef0). With "precomputed", X is K itself, symmetric. A callable is
        ``kernel(A, B) -> array of shape (len(A), len(B))`` and must be symmetric.
    gamma : {"scale", "auto"} or float > 0, default="scale"
        "scale" is 1/(m · var(X)), "auto" is 1/m, as in scikit-learn.
    degree : float, default=3
        Degree of "poly"; a whole number, unless γ⟨x,z⟩ + coef0 ≥ 0 for all points, also for new ones.
    coef0 : float, default=0.0
        Offset of "poly" and "sigmoid". Mierswa's sigmoid tanh(κ⟨x,z⟩ − δ) (eq. 30) is coef0 = −δ.
    center : array of shape (m,), optional
        Subtracted from all points if the kernel `is_translatable`: for problems in which Σσα is fixed.

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
        points, mean, squares = measured_points(X, kernel)
        if center is not None and is_sparse(X):
            raise ProblemError("center: a sparse X cannot be translated, its zeros are not stored; pass X.toarray()")
        variance = None
        if kernel == "rbf" and isinstance(gamma, str) and not isinstance(points, SparsePoints):
            variance = centred_variance(points, mean, squares)
        self.__dict__.update(
            kernel=kernel,
            degree=check_number(degree, "degree", lower=0.0),
            coef0=check_number(coef0, "coef0"),
            gamma=check_gamma(gamma, points, variance)
            if kernel == "rbf" or "gamma" in named(kernel).parameters
            else 1.0,
            came_sparse=type(X) is not np.ndarray and is_sparse(X),
            center=mean,
        )
        if center is not None and self.is_translatable:
            self._set(center=immutable(np.asarray(center, dtype=float)))
        self._take(points, squares)

    def _take(self, points: Any, squares: NDArray | None = None) -> None:
        """Copy the points and store their `measured` lengths; scale them for the radial kernel if they are few.

        ``squares`` are their squared lengths, if known.
        """
        # A kernel that caches its values, as kernels measured by circuits do, returns the same value each time.
        if callable(self.kernel) and not getattr(self.kernel, "keeps_values", False):
            check_callable(self.kernel, points[trial_rows(len(points))])
        squares, diag = measured(self, points, squares)
        n, sparse = len(points), isinstance(points, SparsePoints)
        self.__dict__.update(X=points if sparse else immutable(points), n=n, squares=immutable(squares))
        self.__dict__.update(_diag=immutable(diag), ready=None)
        if self.center is not None:
            self.__dict__["center"] = immutable(self.center)
        self.__dict__["reach"] = longest = float(self.gamma) * float(squares.max()) if self.kernel == "rbf" else 0.0
        is_radial = self.kernel == "rbf" and longest <= MAX_REACH_PRODUCTS
        few = not sparse and points.shape[1] <= FEW_FEATURES and points.size <= MAX_NUMBERS_READY
        if is_radial and few and n < MIN_POINTS_SEPARATE:
            self.__dict__["ready"] = RadialPoints.of(self.X, self.center, self.gamma, float, self.squares)

    def radial_points(self, dtype: type, J: NDArray | slice = slice(None)) -> RadialPoints:
        if self.ready is None:
            return super().radial_points(dtype, J)
        return self.ready.take(J).astype(dtype)

    def centred(self) -> Gram:
        """Return the Gram of the points less their mean if the kernel `is_translatable` and has no centre, else self.

        The kernel values differ by u(x) + u(z), see `is_translatable`.
        """
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
        """Return the Gram of a symmetric kernel matrix of shape (n, n)."""
        return cls(K, kernel="precomputed")

    @classmethod
    def of(cls, matrix: KernelMatrix, X: Any) -> Gram:
        """Return the Gram of other points, which are checked, with the kernel, γ and centre of a matrix."""
        gram = object.__new__(cls)
        gram._set(**{name: getattr(matrix, name) for name in ("kernel", "degree", "coef0", "gamma", "came_sparse")})
        gram._set(center=None if matrix.center is None else immutable(matrix.center))
        gram._take(as_points(X, gram.kernel))
        return gram

    def subset(self, J: ArrayLike) -> Gram:
        """Return the Gram of points J alone, with the same parameters; no checks."""
        J = np.asarray(J, dtype=np.intp)
        part = object.__new__(Gram)
        part._set(**self.__dict__)
        points: Any = self.X
        if isinstance(points, SparsePoints):
            points = points[J]
        elif self.kernel == "precomputed":
            points = immutable_written((len(J), len(J)), lambda out: submatrix(self.X, J, J, out=out))
        else:
            points = immutable_rows(self.X, J)
        part._set(X=points, n=len(J))
        part._set(squares=immutable(self.squares[J]), _diag=immutable(self._diag[J]))
        part._set(ready=None if self.ready is None else self.ready.take(J).frozen())
        return part


def measured(matrix: KernelMatrix, X: Any, squares: NDArray | None = None) -> tuple[NDArray, NDArray]:
    """Return ‖x − center‖² and k(x, x) of points with a matrix's kernel, each of shape (len(X),).

    ``squares`` are the former, if known. They are 0 for a precomputed kernel.

    Raises
    ------
    ProblemError
        They overflow, or the kernel is not defined for these points.
    """
    kernel = matrix.kernel
    if kernel == "precomputed":
        return np.zeros(len(X)), np.diag(X).copy()
    squares = squared_lengths(X, matrix.center) if squares is None else squares
    if (function := matrix.function) is not None:
        return squares, call_kernel_diagonal(function, X)
    if not all_finite(squares):
        size = f"{largest_entry(X):.3g}"
        raise ProblemError(f"X: squared lengths overflow float64 (entries as large as {size}); scale the features")
    if kernel == "rbf":
        return squares, constant(len(X), 1.0)
    if kernel == "linear":
        squares = immutable(squares)  # both are the same numbers, stored once
        return squares, squares
    with np.errstate(over="ignore"):
        diag = values_of_products(matrix, squares.copy())
    if not np.isfinite(diag).all():
        raise ProblemError(f"X: the values of kernel={kernel!r} overflow float64; scale the features")
    if kernel == "poly" and not float(matrix.degree).is_integer():
        _check_bases(matrix, X, float(squares.max(initial=0.0)))
    return squares, diag


def reach(matrix: KernelMatrix) -> float:
    """Return γ times the largest ‖x − center‖² of the points for the radial kernel, 0 for others."""
    return float(matrix.gamma) * float(matrix.squares.max()) if matrix.kernel == "rbf" else 0.0


def _check_bases(matrix: KernelMatrix, X: NDArray | SparsePoints, longest: float) -> None:
    """Raise a `ProblemError` if γ⟨x,z⟩ + coef0 is negative for a pair of points; ``longest`` is the largest ‖x‖²."""
    least = float((X.data if isinstance(X, SparsePoints) else X).min(initial=0.0))
    if matrix.coef0 >= 0 and (matrix.gamma * longest <= matrix.coef0 or least >= 0):
        return
    height = max(1, BLOCK_ENTRIES // len(X))
    for start in range(0, len(X), height):
        values_of_products(matrix, products(X[start : start + height], X))
