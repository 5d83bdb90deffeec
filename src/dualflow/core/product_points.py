"""Kernels that are powers of inner products, ⟨x, z⟩ and (γ⟨x, z⟩ + coef0)^degree, for many points."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .gram import KernelMatrix
from .runtime.clock import check_time
from .sparse_points import SparsePoints

#: Kernel values computed at a time.
MAX_POWERS_STORED = 1 << 20
#: Up to this degree, a power is computed by multiplications.
MAX_DEGREE = 16


@dataclass(frozen=True)
class ProductPoints:
    """Points scaled for the kernel, in one precision: k(x, z) = (aᵀb − half_a − half_b)^degree with a = √γ x."""

    points: NDArray  # scaled points, with zeros appended until m is a multiple of 4; shape (n, m)
    half: NDArray  # −coef0/2, or 0 for the linear kernel, for which γ is 1; shape (n,)
    degree: int

    @staticmethod
    def supports(matrix: KernelMatrix) -> bool:
        """Whether this class supports a matrix: such a kernel and dense points."""
        if isinstance(matrix.X, SparsePoints) or matrix.kernel not in ("linear", "poly"):
            return False
        degree = matrix.degree
        is_supported_power = float(degree).is_integer() and 1 <= degree <= MAX_DEGREE and matrix.gamma > 0
        return matrix.kernel == "linear" or is_supported_power

    @classmethod
    def of(cls, matrix: Any, dtype: type) -> ProductPoints:
        """Return all points of a `KeptGram`, centred if it has a centre."""
        X, linear = matrix._points(slice(None)), matrix.kernel == "linear"
        points = np.zeros((len(X), -(-X.shape[1] // 4) * 4), dtype=dtype)
        points[:, : X.shape[1]] = X if linear else math.sqrt(matrix.gamma) * X
        half: NDArray = np.full(len(X), 0.0 if linear else -0.5 * matrix.coef0, dtype=dtype)
        return cls(points, half, 1 if linear else int(matrix.degree))

    def __len__(self) -> int:
        return len(self.half)

    def take(self, J: NDArray | slice) -> ProductPoints:
        """Return points J."""
        return ProductPoints(self.points[J], self.half[J], self.degree)

    def expand(self, other: ProductPoints, weights: NDArray) -> NDArray:
        """Return Σⱼ weights[j, :] k(zᵢ, xⱼ) for points xⱼ of ``other``: shape (len(self), r), in float64."""
        if self.degree == 1:
            plain = self.points @ (other.points.T.astype(float) @ weights)
            return plain - self.half[:, None] * weights.sum(axis=0) - other.half @ weights
        out, height = np.empty((len(self), weights.shape[1])), max(1, MAX_POWERS_STORED // max(1, len(other)))
        for start in range(0, len(self), height):
            check_time()
            rows = slice(start, start + height)
            base = self.points[rows] @ other.points.T
            base -= self.half[rows, None]
            base -= other.half
            power = base.copy()
            for _ in range(1, self.degree):
                power *= base
            out[rows] = power @ weights.astype(base.dtype)
        return out
