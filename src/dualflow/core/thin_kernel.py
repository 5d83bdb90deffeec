"""Kernel matrices of sparse points as a constant and what differs from it: most pairs share no coordinate.

Where ⟨x, z⟩ = 0, k(x, z) = k₀ for a kernel of products, and exp(−γ‖x‖²)·exp(−γ‖z‖²) for the radial one. So
K = diag(l)(k₀ + S)diag(r) with S as sparse as XXᵀ; l and r are 1 but for the radial kernel, whose k₀ is 1 and whose S
is exp(2γ⟨x, z⟩) − 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from .kernel_functions import of_products
from .runtime.clock import look
from .sparse_points import SparsePoints

__all__ = ["ThinBlock", "is_thin", "thin_block", "thin_product"]

#: The part of the pairs that share coordinates, up to which that pays.
THIN = 0.2
#: Largest γ‖x‖²: exp(−γ‖x‖²) and its inverse are far from the ends of float64.
LONGEST = 50.0
#: Entries of S made at a time.
AT_ONCE = 1 << 22


def is_thin(gram: Any) -> bool:
    """Whether a kernel matrix is better made this way."""
    points, kernel = gram.X, gram.kernel
    if not isinstance(points, SparsePoints) or callable(kernel) or gram.reach > LONGEST:
        return False
    return kernel == "linear" or points.met() <= THIN


@dataclass(frozen=True)
class ThinBlock:
    """diag(left)(base + S)diag(right) for some rows and columns."""

    rest: scipy.sparse.csr_array
    base: float
    left: NDArray
    right: NDArray

    def __matmul__(self, v: NDArray) -> NDArray:
        weights = self.right * v
        product: NDArray = self.left * (self.rest @ weights + self.base * float(weights.sum()))
        return product


def thin_block(gram: Any, rows: NDArray | slice, J: NDArray | slice) -> ThinBlock:
    """The block K[rows, J] in float64, for a kernel that `is_thin` and not linear."""
    own, columns = gram._points(rows), gram._points(J).T
    gram.count(len(own) * columns.shape[1])
    size = len(own) * columns.shape[1]
    height = max(1, int(AT_ONCE / max(1.0, columns.shape[1] * own.work(columns)))) if size else 1
    parts = []
    for start in range(0, len(own), height):
        look()
        parts.append(_differing(gram, own[start : start + height].sparse_times(columns)))
    rest = parts[0] if len(parts) == 1 else scipy.sparse.vstack(parts, format="csr")
    base, left, right = _constants(gram, rows, J)
    return ThinBlock(rest, base, left, right)


def thin_product(gram: Any, v: NDArray, rows: NDArray | slice, J: NDArray) -> NDArray:
    """K[rows, J] v[J] in float64, for a kernel that `is_thin`; little of K is there at a time."""
    own, others = gram._points(rows), gram._points(J)
    gram.count(len(own) * len(others))
    if gram.kernel == "linear":
        return own.dot(v[J] @ others)
    columns = others.T
    base, left, right = _constants(gram, rows, J)
    weights = right * v[J]
    out = np.empty(len(own))
    height = max(1, int(AT_ONCE / max(1.0, columns.shape[1] * own.work(columns))))
    for start in range(0, len(own), height):
        look()
        part = slice(start, start + height)
        out[part] = _differing(gram, own[part].sparse_times(columns)) @ weights
    out += base * float(weights.sum())
    out *= left
    return out


def _differing(gram: Any, products: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
    """S from inner products, in their place."""
    if gram.kernel == "rbf":
        products.data *= 2.0 * gram.gamma
        np.expm1(products.data, out=products.data)
    else:
        values = of_products(products.data, str(gram.kernel), gram.gamma, gram.coef0, gram.degree)
        products.data = values - _of_zero(gram)
    return products


def _of_zero(gram: Any) -> float:
    return float(of_products(np.zeros(1), str(gram.kernel), gram.gamma, gram.coef0, gram.degree)[0])


def _constants(gram: Any, rows: NDArray | slice, J: NDArray | slice) -> tuple[float, NDArray, NDArray]:
    squares = gram.squares
    if gram.kernel == "rbf":
        return 1.0, np.exp(-gram.gamma * squares[rows]), np.exp(-gram.gamma * squares[J])
    return _of_zero(gram), np.ones(len(squares[rows])), np.ones(len(squares[J]))
