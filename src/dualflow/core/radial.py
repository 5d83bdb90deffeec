"""The radial kernel exp(−γ‖x − z‖²): blocks of kernel values, and products for which none are stored.

`RadialPoints` are points scaled for the kernel, in one precision; their blocks and products are computed in stretches
by several threads. Points whose coordinates are all 0 or 1 are also packed into bits, since their kernel values come
from a table. `radial_product` is the product of a kernel matrix and a vector.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._points import scale_points, scaled_points
from ._radial import hamming_rows, hamming_sum, radial_apply, radial_rows, radial_square, radial_sum
from .runtime.arrays import MARK, immutable, immutable_from, immutable_parts, immutable_rows, in_parts
from .runtime.clock import check_time
from .runtime.memory import arena_array
from .runtime.threads import STRETCH_WORK, allowed, share, stretches
from .sparse_points import SparsePoints, products

#: If X has at least this many numbers, checking whether all are 0 or 1 saves time.
MIN_NUMBERS_BITS = 1 << 14
#: Up to this many features, points are packed into bits. The table of kernel values then stays in the first-level
#: cache.
MAX_FEATURES_BITS = 2048


def bits_of(X: NDArray, J: NDArray | slice = slice(None)) -> NDArray | None:
    """Return points whose coordinates are all 0 or 1 as words of 64 bits, shape (n, words).

    Return None for other points, and if X is small or has many features.
    """
    if not may_be_bits(X):
        return None
    m = X.shape[1]
    bits = np.zeros((len(range(len(X))[J]) if isinstance(J, slice) else len(J), -(-m // 64) * 8), dtype=np.uint8)
    done = 0
    for rows in in_parts(X, J):
        points = X[rows]
        if not _is_binary(points):
            return None
        bits[done : done + len(points), : -(-m // 8)] = np.packbits(points != 0, axis=1)
        done += len(points)
    return immutable(bits.view(np.uint64), np.uint64)


def may_be_bits(X: NDArray) -> bool:
    """Whether `bits_of` looks at all points: they are of a size that pays, and the first one is of 0 and 1."""
    fits = X.size >= MIN_NUMBERS_BITS and X.shape[1] <= MAX_FEATURES_BITS
    return fits and X.item(0) in (0.0, 1.0) and _is_binary(X[:1])


def _is_binary(points: NDArray) -> bool:
    """Whether all coordinates are 0 or 1."""
    return bool(((points == 0) | (points == 1)).all())


def values_of(gamma: float, most: int) -> NDArray:
    """Return exp(−γh) for h = 0, 1, …, ``most``, with 0 where that would be denormal, as in exponential.h."""
    values = np.exp(-gamma * np.arange(most + 1.0))
    return immutable(np.where(values < np.finfo(float).tiny, 0.0, values))


#: Up to this many features, the compiled sum is faster than BLAS followed by a pass over its result.
FEW_FEATURES = 64
#: The same limit for stored blocks, by the bytes of a number: in float32 and float64.
MAX_FEATURES_STORED = {4: 32, 8: 16}
#: Kernel values of one compiled call, which takes a tenth of a second. Ctrl-C and the time limit are checked between
#: calls.
MAX_VALUES_PER_CALL = 1 << 25
#: Multiplications of one call with BLAS, for the same reason.
MAX_PRODUCTS_PER_CALL = 1 << 32
#: Kernel values of one sparse product. Scipy first makes a sparse matrix, which then has at most 50 MB.
MAX_VALUES_PER_CALL_SPARSE = 1 << 22
#: Multiplications of one sparse product.
MAX_PRODUCTS_PER_CALL_SPARSE = 1 << 25
#: Kernel values of an expansion that are stored at a time.
MAX_VALUES_STORED = 1 << 21
#: Cost of the exponential of a kernel value, in multiplications.
EXPONENTIAL_COST = 16
#: Least number of rows of a stretch of the compiled kernel, because each stretch packs all other points first.
MIN_ROWS = 64
#: The rows of a stretch with BLAS are a multiple of this. The tiles of BLAS are then those of one product, and so are
#: the bits, except the last bit of columns in float32.
BLAS_ROWS = 192
#: Points of a tile of radial.h in float32.
TILE = 128
#: Largest number of partial sums of `expand_among`.
MAX_SUMS = 32
#: Up to this many numbers, points are scaled in one piece.
MAX_NUMBERS_ONE_PIECE = 1 << 17
#: Stretches per thread, so that all threads end at about the same time.
STRETCHES_PER_THREAD = 2


@dataclass(frozen=True)
class RadialPoints:
    """Points scaled by √(2γ) for the kernel, with half their squared lengths, in one precision.

    k(x, z) = exp(aᵀb − ‖a‖²/2 − ‖b‖²/2) with a = √(2γ)x.
    """

    #: Scaled points, with zeros appended until m is a multiple of 4; sparse ones keep their width; shape (n, m), or
    #: SparsePoints.
    points: Any
    half: NDArray  # ‖a‖²/2; shape (n,)
    #: The coordinates as bits, 64 to a word, if all of them were 0 or 1 before scaling (one-hot columns, fingerprints):
    #: ‖x − z‖² is then the number of bits that differ; shape (n, words), or None.
    bits: NDArray | None = None
    #: The kernel value for each number of differing bits, in float64; shape (64 · words + 1,), or None.
    table: NDArray | None = None

    @classmethod
    def of(
        cls,
        X: NDArray | SparsePoints,
        center: NDArray,
        gamma: float,
        dtype: type,
        squares: NDArray,
        J: NDArray | slice = slice(None),
    ) -> RadialPoints:
        """Return points X[J] less ``center``, scaled, read-only; ``squares`` are ‖x − center‖², shape (n,).

        They are scaled a part at a time, to avoid a second copy of all points.
        """
        scale = math.sqrt(2.0 * gamma)
        half: NDArray = (gamma * squares[J]).astype(dtype, copy=False)
        if isinstance(X, SparsePoints):
            return cls(((X[J] - center) * scale).astype(dtype), half)
        width = -(-X.shape[1] // 4) * 4

        bits = bits_of(X, J)
        table = None if bits is None else values_of(gamma, 64 * bits.shape[1])
        if dtype is float and len(half) * width <= MAX_NUMBERS_ONE_PIECE:
            owner = scaled_points(np.ascontiguousarray(X[J]), center, scale, width, MARK)
            return cls(immutable_from(owner, (len(half), width)), immutable(half), bits, table)

        def scaled(rows: NDArray | slice) -> NDArray:
            points = np.ascontiguousarray(X[rows])
            part = np.empty((len(points), width), dtype=dtype)
            scale_points(points, center, scale, part)
            return part

        parts = map(scaled, in_parts(X, J))
        return cls(immutable_parts(parts, (len(half), width), dtype), immutable(half, dtype), bits, table)

    def __len__(self) -> int:
        return len(self.half)

    def take(self, J: NDArray | slice) -> RadialPoints:
        """Return points J."""
        if isinstance(J, slice) and J in (slice(None), slice(0, len(self))):
            return self
        bits = None if self.bits is None else self.bits[J]
        return RadialPoints(self.points[J], self.half[J], bits, self.table)

    def astype(self, dtype: type) -> RadialPoints:
        """Return the points in a precision: these themselves if they have it."""
        if self.points.dtype == dtype:
            return self
        points = self.points.astype(dtype) if self.is_sparse else immutable_rows(self.points, slice(None), dtype)
        return replace(self, points=points, half=self.half.astype(dtype))

    def in_single(self) -> RadialPoints:
        """Return a float32 copy that the caller may write to."""
        return RadialPoints(self.points.astype(np.float32), self.half.astype(np.float32), self.bits, self.table)

    def frozen(self) -> RadialPoints:
        """Return a read-only copy."""
        points = self.points if self.is_sparse else immutable(self.points, self.points.dtype)
        return RadialPoints(points, immutable(self.half, self.half.dtype), self.bits, self.table)

    def view(self) -> RadialPoints:
        """Return new array objects over the same memory."""
        bits, table = (None if own is None else own.view() for own in (self.bits, self.table))
        return RadialPoints(self.points.view(), self.half.view(), bits, table)

    @property
    def is_sparse(self) -> bool:
        """Whether the points are stored without their zeros."""
        return isinstance(self.points, SparsePoints)

    @property
    def has_few_features(self) -> bool:
        """Whether compiled sums are used instead of BLAS."""
        return not self.is_sparse and self.points.shape[1] <= FEW_FEATURES

    @property
    def cost(self) -> int:
        """The cost of a kernel value, in multiplications."""
        return EXPONENTIAL_COST + (self.points.shape[1] if self.bits is None else 4 * self.bits.shape[1])

    def _table(self, other: RadialPoints) -> NDArray | None:
        """Return the table of kernel values in the precision of these points, or None unless both have bits."""
        if self.table is None or other.bits is None:
            return None
        return self.table.astype(self.points.dtype, copy=False)

    def _bits(self, J: slice) -> NDArray:
        """Return the bits of points J, which must have some."""
        assert self.bits is not None
        return self.bits[J]

    def ready(self) -> RadialPoints:
        """Return the points; sparse ones with their transpose, which each product needs."""
        return replace(self, points=self.points.with_columns()) if self.is_sparse else self

    def kernel(self, other: RadialPoints, out: NDArray | None = None) -> NDArray:
        """Return the kernel values, shape (len(self), len(other)).

        ``out``, if given, receives them; it must be row-major and of this precision.
        """
        K: NDArray = np.empty((len(self), len(other)), dtype=self.points.dtype) if out is None else out
        other, table = other.ready(), self._table(other)
        narrow = not self.is_sparse and self.points.shape[1] <= MAX_FEATURES_STORED[self.points.itemsize]
        few = table is not None or narrow
        if few and table is None and len(self) * len(other) * self.cost <= STRETCH_WORK:
            check_time()
            radial_rows(self.points, self.half, other.points, other.half, K)
            return K

        def fill(part: tuple[slice, slice]) -> None:
            rows, J = part
            if table is not None:
                hamming_rows(self._bits(rows), other._bits(J), table, K[rows, J])
                return
            points, half, values = self.points[rows], self.half[rows], K[rows, J]
            if few:
                radial_rows(points, half, other.points, other.half, values)
            else:
                products(points, other.points[J], values)
                radial_apply(values, half, other.half[J])

        share(fill, self.parts(other, few), blas=not (few or self.is_sparse))
        return K

    def parts(self, other: RadialPoints, few: bool) -> list[tuple[slice, slice]]:
        """Return the rows and columns of the stretches in which the kernel with other points is computed.

        ``few`` says whether by the compiled kernel instead of BLAS.
        """
        height, all_columns = self.rows_per_call(other), slice(0, len(other))
        if self.is_sparse:
            return [(rows, all_columns) for rows in stretches(len(self), height)]
        work = len(self) * len(other) * self.cost
        threads = allowed() if work > 2 * STRETCH_WORK else 1
        if threads == 1:
            return [(slice(start, start + height), all_columns) for start in range(0, len(self), height)]
        if few:  # each call packs all other points first, and takes rows in pairs
            low = max(MIN_ROWS, len(self) // (STRETCHES_PER_THREAD * threads) // 2 * 2)
            return [(rows, all_columns) for rows in stretches(len(self), min(height + height % 2, low))]
        if len(other) < min(height, len(self)):
            low = max(BLAS_ROWS, len(self) // (STRETCHES_PER_THREAD * threads) // BLAS_ROWS * BLAS_ROWS)
            return [(rows, all_columns) for rows in stretches(len(self), min(height, low))]
        width = max(BLAS_ROWS, len(other) // (STRETCHES_PER_THREAD * threads) // BLAS_ROWS * BLAS_ROWS)
        columns = stretches(len(other), width)
        return [(rows, J) for rows in stretches(len(self), height) for J in columns]

    def rows_per_call(self, other: RadialPoints) -> int:
        """Return the number of these points whose kernel with all other points takes a tenth of a second."""
        if self.is_sparse:
            products_each = max(1.0, self.points.cost_per_value(other.points.T))
            entries = min(MAX_VALUES_PER_CALL_SPARSE, int(MAX_PRODUCTS_PER_CALL_SPARSE / products_each))
        elif self.bits is not None:
            entries = 4 * MAX_VALUES_PER_CALL // (4 + self.bits.shape[1])
        elif self.has_few_features:
            entries = MAX_VALUES_PER_CALL
        else:
            entries = min(MAX_VALUES_PER_CALL, MAX_PRODUCTS_PER_CALL // self.points.shape[1])
        return max(1, entries // max(1, len(other)))

    def upper(self) -> NDArray:
        """Return the kernel values of all pairs; those below the diagonal may be arbitrary."""
        if not self.has_few_features:
            return self.kernel(self)
        K = arena_array((len(self), len(self)), self.points.dtype)
        height = self.rows_per_call(self)
        if height >= len(self):
            radial_rows(self.points, self.half, self.points, self.half, K, upper=True)
            return K
        for start in range(0, len(self), height):
            K[start : start + height, start:] = self.take(slice(start, start + height)).kernel(
                self.take(slice(start, None))
            )
        return K

    def expand(self, other: RadialPoints, weights: NDArray) -> NDArray:
        """Return Σⱼ weights[j, :] k(zᵢ, xⱼ) for points xⱼ of ``other``: shape (len(self), r), in float64."""
        weights = np.ascontiguousarray(weights, dtype=self.points.dtype)
        count, size, is_compiled = len(self), max(1, len(other)), self.has_few_features and self.table is None
        work = size * (self.cost - EXPONENTIAL_COST + EXPONENTIAL_COST * weights.shape[1])  # of one of these points
        if is_compiled and count * work <= STRETCH_WORK:
            check_time()
            sums: NDArray = radial_sum(other.points, other.half, self.points, self.half, weights)
            return sums
        out = np.empty((count, weights.shape[1]))
        other, table = other.ready(), self._table(other)
        few = self.has_few_features or table is not None

        def add_up(rows: slice) -> None:
            part = self.take(rows)
            if table is not None:
                out[rows] = hamming_sum(other._bits(slice(None)), part._bits(slice(None)), table, weights)
            elif few:
                out[rows] = radial_sum(other.points, other.half, part.points, part.half, weights)
            else:
                buffer = None if self.is_sparse else arena_array((len(part), len(other)), self.points.dtype)
                out[rows] = part.kernel(other, buffer) @ weights

        height = self.rows_per_call(other)
        if few:
            height = min(height, max(TILE, STRETCH_WORK // work // TILE * TILE))
        else:  # kernel values are stored: few at a time
            height = min(height, max(1, MAX_VALUES_STORED // size))
            if count * size * self.cost > 2 * STRETCH_WORK:
                height = min(height, max(BLAS_ROWS, count // (STRETCHES_PER_THREAD * allowed())))
            height = max(height // BLAS_ROWS * BLAS_ROWS, min(height, BLAS_ROWS))
        share(add_up, stretches(count, height), blas=not few)
        return out

    def expand_among(self, weights: NDArray) -> NDArray:
        """Return Σⱼ weights[j] k(xᵢ, xⱼ) of these points, shape (n,), in float64.

        The kernel value of each pair is computed once.
        """
        if self.is_sparse or self.bits is not None:
            return self.expand(self, weights[:, None])[:, 0]
        n, few, cost = len(self), self.has_few_features, self.cost
        weights = np.ascontiguousarray(weights, dtype=self.points.dtype)
        # Stretches with about the same number of pairs, each with a partial sum. Their number does not depend on the
        # number of threads, so neither do the bits of the result.
        count = max(1, min(n * n * cost // (2 * STRETCH_WORK), n // TILE, MAX_SUMS))
        if count == 1 and few and n * n <= MAX_VALUES_PER_CALL:
            check_time()
            sum_of_all: NDArray = radial_square(self.points, self.half, weights, 0, n)
            return sum_of_all
        edges = [0, *(int(n * np.sqrt((k + 1) / count)) // TILE * TILE for k in range(count - 1)), n]
        sums: list[NDArray] = [np.empty(0)] * count

        def add_up(k: int) -> None:
            start, stop = edges[k], edges[k + 1]
            sums[k] = np.zeros(n)
            if few:
                width = max(TILE, MAX_VALUES_PER_CALL // max(1, stop) // TILE * TILE)
                for first in range(start, stop, width):
                    check_time()
                    sums[k] += radial_square(self.points, self.half, weights, first, min(first + width, stop))
                return
            height = max(1, MAX_VALUES_STORED // max(1, stop))
            for first in range(start, stop, height):
                check_time()
                J = slice(first, min(first + height, stop))
                part, before = self.take(J), self.take(slice(0, J.stop))
                K = part.kernel(before, arena_array((len(part), J.stop), self.points.dtype))
                sums[k][J] += K @ weights[: J.stop]
                sums[k][: J.start] += weights[J] @ K[:, : J.start]

        share(add_up, range(count), blas=not few)
        return np.asarray(np.sum(sums, axis=0))


#: If the columns are more than this share of all, kernel values between two of them are computed once, not twice.
MIN_PART_SQUARE = 1 / 4


def radial_product(matrix: Any, v: NDArray, rows: NDArray | slice, J: NDArray, dtype: type) -> NDArray:
    """Return the entries ``rows`` of K v, or all, in float64, from kernel values in the precision ``dtype``.

    J are the columns where v is not 0. Kernel values between two of J are computed once if ``rows`` are J, or if J has
    more than `MIN_PART_SQUARE` of all columns.
    """
    points, few = matrix.radial_points(dtype, J), not isinstance(rows, slice)
    if not isinstance(rows, slice) and np.array_equal(rows, J):
        among: NDArray = points.expand_among(v[J])
        return among
    if few or len(J) <= MIN_PART_SQUARE * matrix.n:
        product: NDArray = matrix.radial_points(dtype, rows).expand(points, v[J, None])[:, 0]
        return product
    others, product = np.ones(matrix.n, dtype=bool), np.empty(matrix.n)
    others[J] = False
    product[J] = points.expand_among(v[J])
    product[others] = matrix.radial_points(dtype, others.nonzero()[0]).expand(points, v[J, None])[:, 0]
    return product
