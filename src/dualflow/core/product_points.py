"""Kernels that are powers of inner products, ⟨x, z⟩ and (γ⟨x, z⟩ + coef0)^degree, of many points at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .gram import KernelMatrix
from .runtime.clock import look
from .sparse_points import SparsePoints

__all__ = ["ProductPoints"]

#: Kernel values that are made at a time.
AT_ONCE = 1 << 20
#: Degree up to which a power is made by multiplications.
MOST = 16


@dataclass(frozen=True)
class ProductPoints:
    """Points ready for the kernel, in one precision: k(x, z) = (aᵀb − half_a − half_b)^degree with a = √γ x.

    ``points`` has shape (n, m) with zeros appended until m is a multiple of 4, ``half`` has shape (n,): −coef0/2, or 0
    of the linear kernel, whose γ is 1.
    """

    points: NDArray
    half: NDArray
    degree: int

    @staticmethod
    def serve(matrix: KernelMatrix) -> bool:
        """Whether a matrix is of such a kernel, and of dense points."""
        if isinstance(matrix.X, SparsePoints) or matrix.kernel not in ("linear", "poly"):
            return False
        degree = matrix.degree
        return matrix.kernel == "linear" or (float(degree).is_integer() and 1 <= degree <= MOST and matrix.gamma > 0)

    @classmethod
    def of(cls, matrix: Any, dtype: type) -> ProductPoints:
        """All points of a `KeptGram`, less their centre if it has one."""
        X, linear = matrix._points(slice(None)), matrix.kernel == "linear"
        points = np.zeros((len(X), -(-X.shape[1] // 4) * 4), dtype=dtype)
        points[:, : X.shape[1]] = X if linear else math.sqrt(matrix.gamma) * X
        half: NDArray = np.full(len(X), 0.0 if linear else -0.5 * matrix.coef0, dtype=dtype)
        return cls(points, half, 1 if linear else int(matrix.degree))

    def __len__(self) -> int:
        return len(self.half)

    def take(self, J: NDArray | slice) -> ProductPoints:
        """Some of the points."""
        return ProductPoints(self.points[J], self.half[J], self.degree)

    def expand(self, other: ProductPoints, weights: NDArray) -> NDArray:
        """Σⱼ weights[j, :] k(zᵢ, xⱼ) for points xⱼ of ``other``: shape (len(self), r), in float64."""
        if self.degree == 1:
            plain = self.points @ (other.points.T.astype(float) @ weights)
            return plain - self.half[:, None] * weights.sum(axis=0) - other.half @ weights
        out, height = np.empty((len(self), weights.shape[1])), max(1, AT_ONCE // max(1, len(other)))
        for start in range(0, len(self), height):
            look()
            rows = slice(start, start + height)
            base = self.points[rows] @ other.points.T
            base -= self.half[rows, None]
            base -= other.half
            power = base.copy()
            for _ in range(1, self.degree):
                power *= base
            out[rows] = power @ weights.astype(base.dtype)
        return out
