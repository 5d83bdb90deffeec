"""Kernel matrices of sparse points as a constant plus a sparse matrix: most pairs of points share no coordinate.

If ⟨x, z⟩ = 0, then k(x, z) = k₀ for a kernel of products, and exp(−γ‖x‖²)·exp(−γ‖z‖²) for the radial one. So
K = diag(l)(k₀ + S)diag(r) with S as sparse as XXᵀ. l and r are 1, except for the radial kernel, for which k₀ is 1 and
S is exp(2γ⟨x, z⟩) − 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from .named_kernels import values_of_products
from .runtime.clock import check_time
from .sparse_points import SparsePoints

#: This form is faster if two points share at most this many coordinates on average.
MAX_COMMON_COORDINATES = 0.2
#: Largest γ‖x‖². Up to it, exp(−γ‖x‖²) and its inverse are far from the limits of float64.
MAX_REACH = 50.0
#: Multiplications for the entries of S that are computed at a time.
MAX_WORK_PER_PART = 1 << 22


def is_thin(gram: Any) -> bool:
    """Whether products with a kernel matrix are faster in this form."""
    points = gram.X
    if not isinstance(points, SparsePoints) or gram.reach > MAX_REACH or gram.function is not None:
        return False
    return gram.kernel == "linear" or points.common_coordinates() <= MAX_COMMON_COORDINATES


@dataclass(frozen=True)
class ThinBlock:
    """The block diag(left)(base + S)diag(right) of some rows and columns; ``rest`` is S."""

    rest: scipy.sparse.csr_array
    base: float
    left: NDArray
    right: NDArray

    def __matmul__(self, v: NDArray) -> NDArray:
        weights = self.right * v
        product: NDArray = self.left * (self.rest @ weights + self.base * float(weights.sum()))
        return product


def thin_block(gram: Any, rows: NDArray | slice, J: NDArray | slice) -> ThinBlock:
    """Return the block K[rows, J] in float64, for a kernel that `is_thin` and not linear."""
    own, columns = gram._points(rows), gram._points(J).T
    gram.count(len(own) * columns.shape[1])
    size = len(own) * columns.shape[1]
    height = max(1, int(MAX_WORK_PER_PART / max(1.0, columns.shape[1] * own.cost_per_value(columns)))) if size else 1
    parts = []
    for start in range(0, len(own), height):
        check_time()
        parts.append(_sparse_part(gram, own[start : start + height].sparse_times(columns)))
    rest = parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr")
    base, left, right = _constants(gram, rows, J)
    return ThinBlock(rest, base, left, right)


def thin_product(gram: Any, v: NDArray, rows: NDArray | slice, J: NDArray) -> NDArray:
    """Return K[rows, J] v[J] in float64, for a kernel that `is_thin`; a small part of K is stored at a time."""
    own, others = gram._points(rows), gram._points(J)
    gram.count(len(own) * len(others))
    if gram.kernel == "linear":
        return own.dot(v[J] @ others)
    columns = others.T
    base, left, right = _constants(gram, rows, J)
    weights = right * v[J]
    out = np.empty(len(own))
    height = max(1, int(MAX_WORK_PER_PART / max(1.0, columns.shape[1] * own.cost_per_value(columns))))
    for start in range(0, len(own), height):
        check_time()
        part = slice(start, start + height)
        out[part] = _sparse_part(gram, own[part].sparse_times(columns)) @ weights
    out += base * float(weights.sum())
    out *= left
    return out


def _sparse_part(gram: Any, products: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """Return S, given the inner products, which it overwrites."""
    if gram.kernel == "rbf":
        products.data *= 2.0 * gram.gamma
        np.expm1(products.data, out=products.data)
    else:
        values = values_of_products(gram, products.data)
        products.data = values - _value_at_zero(gram)
    return products


def _value_at_zero(gram: Any) -> float:
    """Return k₀, the kernel value of points with inner product 0."""
    return float(values_of_products(gram, np.zeros(1))[0])


def _constants(gram: Any, rows: NDArray | slice, J: NDArray | slice) -> tuple[float, NDArray, NDArray]:
    """Return k₀, and l and r for some rows and columns J."""
    squares = gram.squares
    if gram.kernel == "rbf":
        return 1.0, np.exp(-gram.gamma * squares[rows]), np.exp(-gram.gamma * squares[J])
    return _value_at_zero(gram), np.ones(len(squares[rows])), np.ones(len(squares[J]))
