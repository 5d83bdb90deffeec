"""The radial kernel exp(−γ‖x − z‖²) of many points at once.

Products with a radial kernel matrix whose values are never stored.

Points all of whose coordinates are 0 or 1, as bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._points import scale_points, scaled_points
from ._radial import hamming_rows, hamming_sum, radial_apply, radial_rows, radial_square, radial_sum
from .runtime.arrays import OURS, immutable, immutable_from, immutable_parts, immutable_rows, in_parts
from .runtime.clock import look
from .runtime.memory import borrowed
from .runtime.threads import WORTH, allowed, share, stretches
from .sparse_points import SparsePoints, products

__all__ = ["MANY", "RadialPoints", "bits_of", "radial_product", "values_of"]


#: Numbers from which it is worth a look whether all of them are 0 or 1, and features up to which: so many values stay
#: in the first-level cache.
LOOKED_AT, MOST_BITS = 1 << 14, 2048


def bits_of(X: NDArray, J: NDArray | slice = slice(None)) -> NDArray | None:
    """Points all of whose coordinates are 0 or 1, as words of 64 bits, shape (n, words); None for all others, and where
    they are few, or have many features."""
    m = X.shape[1]
    if X.size < LOOKED_AT or m > MOST_BITS or X.item(0) not in (0.0, 1.0) or not _is_binary(X[:1]):
        return None
    bits = np.zeros((len(range(len(X))[J]) if isinstance(J, slice) else len(J), -(-m // 64) * 8), dtype=np.uint8)
    done = 0
    for rows in in_parts(X, J):
        points = X[rows]
        if not _is_binary(points):
            return None
        bits[done : done + len(points), : -(-m // 8)] = np.packbits(points != 0, axis=1)
        done += len(points)
    return immutable(bits.view(np.uint64), np.uint64)


def _is_binary(points: NDArray) -> bool:
    return bool(((points == 0) | (points == 1)).all())


def values_of(gamma: float, most: int) -> NDArray:
    """exp(−γh) of h = 0, 1, …, and 0 where that would be denormal, as in exponential.h."""
    values = np.exp(-gamma * np.arange(most + 1.0))
    return immutable(np.where(values < np.finfo(float).tiny, 0.0, values))


#: Up to this many features the compiled product is faster than BLAS and a pass over its result.
FEW_FEATURES = 64
#: And where all values are stored, in float32 and in float64.
FEW_STORED = {4: 32, 8: 16}
#: Kernel values a compiled call, a tenth of a second: Ctrl-C and the clock are honoured between calls. With BLAS,
#: multiplications.
AT_ONCE, PRODUCTS_AT_ONCE = 1 << 25, 1 << 32
#: The same of sparse products, which scipy makes as sparse matrices first: 50 MB at most.
SPARSE_AT_ONCE, SPARSE_PRODUCTS_AT_ONCE = 1 << 22, 1 << 25
#: What is stored of an expansion at a time, in kernel values.
STORED = 1 << 21
#: What a kernel value takes beside its product, in multiplications.
AN_EXPONENTIAL = 16
#: Rows of a stretch, at least, where each puts the others in order first; what it is a multiple of by BLAS, whose own
#: tiles are then those of the whole (but for columns in float32, whose last bit may be another); and points of a tile.
LOW, BROAD, TILE = 64, 192, 128
#: Sums of pairs that are made beside one another, at most.
MOST_SUMS = 32
#: Numbers up to which points are scaled where they stay, in one piece.
SMALL = 1 << 17
#: Stretches a thread, so that all end at about the same time.
FOR_EACH = 2


@dataclass(frozen=True)
class RadialPoints:
    """Points ready for the kernel: scaled by √(2γ), with half their squared lengths, in one precision.

    k(x, z) = exp(aᵀb − ‖a‖²/2 − ‖b‖²/2) with a = √(2γ)x. ``points`` has shape (n, m) with zeros appended until m
    is a multiple of 4, ``half`` has shape (n,). Sparse points stay sparse, and as wide as they are.

    Points whose coordinates all were 0 or 1 (one-hot columns, fingerprints) have them as ``bits`` beside, 64 to a word:
    ‖x − z‖² is the number of those that differ, and ``table``, in float64, has the kernel value of each number.
    """

    points: Any
    half: NDArray
    bits: NDArray | None = None
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
        """From points, or some of them, of which ``center`` is subtracted first, and their squared lengths after that,
        shape (n,).

        A part at a time, so that no other copy of all is made; nobody can write to it.
        """
        scale = math.sqrt(2.0 * gamma)
        half: NDArray = (gamma * squares[J]).astype(dtype, copy=False)
        if isinstance(X, SparsePoints):
            return cls(((X[J] - center) * scale).astype(dtype), half)
        width = -(-X.shape[1] // 4) * 4

        bits = bits_of(X, J)
        table = None if bits is None else values_of(gamma, 64 * bits.shape[1])
        if dtype is float and len(half) * width <= SMALL:
            owner = scaled_points(np.ascontiguousarray(X[J]), center, scale, width, OURS)
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
        """Some of the points."""
        if isinstance(J, slice) and J in (slice(None), slice(0, len(self))):
            return self
        bits = None if self.bits is None else self.bits[J]
        return RadialPoints(self.points[J], self.half[J], bits, self.table)

    def astype(self, dtype: type) -> RadialPoints:
        """The same in a precision; themselves if they are."""
        if self.points.dtype == dtype:
            return self
        points = self.points.astype(dtype) if self.is_sparse else immutable_rows(self.points, slice(None), dtype)
        return replace(self, points=points, half=self.half.astype(dtype))

    def in_single(self) -> RadialPoints:
        """The same in float32, in memory of the caller's own."""
        return RadialPoints(self.points.astype(np.float32), self.half.astype(np.float32), self.bits, self.table)

    def frozen(self) -> RadialPoints:
        """A copy that nobody can write to."""
        points = self.points if self.is_sparse else immutable(self.points, self.points.dtype)
        return RadialPoints(points, immutable(self.half, self.half.dtype), self.bits, self.table)

    def view(self) -> RadialPoints:
        """The same memory in arrays of their own."""
        bits, table = (None if own is None else own.view() for own in (self.bits, self.table))
        return RadialPoints(self.points.view(), self.half.view(), bits, table)

    @property
    def is_sparse(self) -> bool:
        """Whether products leave zeros out."""
        return isinstance(self.points, SparsePoints)

    @property
    def has_few_features(self) -> bool:
        """Whether the compiled product is used."""
        return not self.is_sparse and self.points.shape[1] <= FEW_FEATURES

    @property
    def price(self) -> int:
        """What a kernel value takes, in multiplications."""
        return AN_EXPONENTIAL + (self.points.shape[1] if self.bits is None else 4 * self.bits.shape[1])

    def _table(self, other: RadialPoints) -> NDArray | None:
        """Kernel values by the number of bits that differ, in the precision of these points; None unless both have
        bits."""
        if self.table is None or other.bits is None:
            return None
        return self.table.astype(self.points.dtype, copy=False)

    def _bits(self, J: slice) -> NDArray:
        assert self.bits is not None
        return self.bits[J]

    def ready(self) -> RadialPoints:
        """The same, sparse ones with their transpose, which every product needs."""
        return replace(self, points=self.points.with_columns()) if self.is_sparse else self

    def kernel(self, other: RadialPoints, out: NDArray | None = None) -> NDArray:
        """Kernel values, shape (len(self), len(other)); in ``out`` if given, row-major and of the same precision."""
        K: NDArray = np.empty((len(self), len(other)), dtype=self.points.dtype) if out is None else out
        other, table = other.ready(), self._table(other)
        few = table is not None or (not self.is_sparse and self.points.shape[1] <= FEW_STORED[self.points.itemsize])
        if few and table is None and len(self) * len(other) * self.price <= WORTH:
            look()
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
        """Rows and columns of stretches of the kernel with other points; ``few``, by the compiled product."""
        height, everyone = self.at_once(other), slice(0, len(other))
        if self.is_sparse:
            return [(rows, everyone) for rows in stretches(len(self), height)]
        work = len(self) * len(other) * self.price
        threads = allowed() if work > 2 * WORTH else 1
        if threads == 1:
            return [(slice(start, start + height), everyone) for start in range(0, len(self), height)]
        if few:  # each call puts all others in order first, and takes rows by twos
            low = max(LOW, len(self) // (FOR_EACH * threads) // 2 * 2)
            return [(rows, everyone) for rows in stretches(len(self), min(height + height % 2, low))]
        if len(other) < min(height, len(self)):
            low = max(BROAD, len(self) // (FOR_EACH * threads) // BROAD * BROAD)
            return [(rows, everyone) for rows in stretches(len(self), min(height, low))]
        columns = stretches(len(other), max(BROAD, len(other) // (FOR_EACH * threads) // BROAD * BROAD))
        return [(rows, J) for rows in stretches(len(self), height) for J in columns]

    def at_once(self, other: RadialPoints) -> int:
        """Points of these whose kernel with all of those takes a tenth of a second."""
        if self.is_sparse:
            entries = min(SPARSE_AT_ONCE, int(SPARSE_PRODUCTS_AT_ONCE / max(1.0, self.points.work(other.points.T))))
        elif self.bits is not None:
            entries = 4 * AT_ONCE // (4 + self.bits.shape[1])
        else:
            entries = AT_ONCE if self.has_few_features else min(AT_ONCE, PRODUCTS_AT_ONCE // self.points.shape[1])
        return max(1, entries // max(1, len(other)))

    def upper(self) -> NDArray:
        """Kernel values of all pairs, of which what lies below the diagonal may be anything."""
        if not self.has_few_features:
            return self.kernel(self)
        K = borrowed((len(self), len(self)), self.points.dtype)
        height = self.at_once(self)
        if height >= len(self):
            radial_rows(self.points, self.half, self.points, self.half, K, upper=True)
            return K
        for start in range(0, len(self), height):
            K[start : start + height, start:] = self.take(slice(start, start + height)).kernel(
                self.take(slice(start, None))
            )
        return K

    def expand(self, other: RadialPoints, weights: NDArray) -> NDArray:
        """Σⱼ weights[j, :] k(zᵢ, xⱼ) for points xⱼ of ``other``: shape (len(self), r), in float64."""
        weights = np.ascontiguousarray(weights, dtype=self.points.dtype)
        count, size, by_the_compiled = len(self), max(1, len(other)), self.has_few_features and self.table is None
        work = size * (self.price - AN_EXPONENTIAL + AN_EXPONENTIAL * weights.shape[1])  # of one of these points
        if by_the_compiled and count * work <= WORTH:
            look()
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
                room = None if self.is_sparse else borrowed((len(part), len(other)), self.points.dtype)
                out[rows] = part.kernel(other, room) @ weights

        height = self.at_once(other)
        if few:
            height = min(height, max(TILE, WORTH // work // TILE * TILE))
        else:  # what is stored is to be little, too
            height = min(height, max(1, STORED // size))
            if count * size * self.price > 2 * WORTH:
                height = min(height, max(BROAD, count // (FOR_EACH * allowed())))
            height = max(height // BROAD * BROAD, min(height, BROAD))
        share(add_up, stretches(count, height), blas=not few)
        return out

    def expand_among(self, weights: NDArray) -> NDArray:
        """Σⱼ weights[j] k(xᵢ, xⱼ) of these points themselves, shape (n,), in float64: each pair's kernel value is made
        once."""
        if self.is_sparse or self.bits is not None:
            return self.expand(self, weights[:, None])[:, 0]
        n, few, price = len(self), self.has_few_features, self.price
        weights = np.ascontiguousarray(weights, dtype=self.points.dtype)
        # Stretches of about as many pairs, whose number is not up to that of threads: each sums on its own.
        count = max(1, min(n * n * price // (2 * WORTH), n // TILE, MOST_SUMS))
        if count == 1 and few and n * n <= AT_ONCE:
            look()
            sum_of_all: NDArray = radial_square(self.points, self.half, weights, 0, n)
            return sum_of_all
        edges = [0, *(int(n * np.sqrt((k + 1) / count)) // TILE * TILE for k in range(count - 1)), n]
        sums: list[NDArray] = [np.empty(0)] * count

        def add_up(k: int) -> None:
            start, stop = edges[k], edges[k + 1]
            sums[k] = np.zeros(n)
            if few:
                width = max(TILE, AT_ONCE // max(1, stop) // TILE * TILE)
                for first in range(start, stop, width):
                    look()
                    sums[k] += radial_square(self.points, self.half, weights, first, min(first + width, stop))
                return
            height = max(1, STORED // max(1, stop))
            for first in range(start, stop, height):
                look()
                J = slice(first, min(first + height, stop))
                part, before = self.take(J), self.take(slice(0, J.stop))
                K = part.kernel(before, borrowed((len(part), J.stop), self.points.dtype))
                sums[k][J] += K @ weights[: J.stop]
                sums[k][: J.start] += weights[J] @ K[:, : J.start]

        share(add_up, range(count), blas=not few)
        return np.asarray(np.sum(sums, axis=0))


#: The part of all columns that is many.
MANY = 1 / 4


def radial_product(matrix: Any, v: NDArray, rows: NDArray | slice, J: NDArray, dtype: type) -> NDArray:
    """Entries ``rows`` of K v, or all, by columns J where v is not 0, in float64 from kernel values in a precision.

    Values between two of J are made once where rows are these, or where they are many of all.
    """
    points, few = matrix.radial_points(dtype, J), not isinstance(rows, slice)
    if not isinstance(rows, slice) and np.array_equal(rows, J):
        among: NDArray = points.expand_among(v[J])
        return among
    if few or len(J) <= MANY * matrix.n:
        product: NDArray = matrix.radial_points(dtype, rows).expand(points, v[J, None])[:, 0]
        return product
    others, product = np.ones(matrix.n, dtype=bool), np.empty(matrix.n)
    others[J] = False
    product[J] = points.expand_among(v[J])
    product[others] = matrix.radial_points(dtype, others.nonzero()[0]).expand(points, v[J, None])[:, 0]
    return product
