"""Features of kernels that are polynomials of inner products: the points themselves, or monomials of their coordinates.

By the multinomial theorem (γ⟨x, z⟩ + coef0)^degree is an inner product of monomials, so that a product with K takes two
passes over n · r monomials, and no kernel values.
"""

from __future__ import annotations

from itertools import combinations_with_replacement
from math import comb, factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .runtime.clock import check_time
from .sparse_points import SparsePoints

#: Monomials are considered for a product of at least this many kernel values, which take about a second. Products of
#: smaller problems keep their bits.
MIN_VALUES_MONOMIALS = 1 << 26
#: One monomial takes as long as this many kernel values. It is computed for each row and each column.
VALUES_PER_MONOMIAL = 4
#: Monomials that are computed at a time: 32 MB.
MONOMIALS_PER_PART = 1 << 22


def rank_by_kernel(gram: Any) -> int | None:
    """Return the number of columns that suffice for any points, or None if it is not known or infinite."""
    if gram.kernel not in ("linear", "poly") or not gram.is_psd_by_kernel:
        return None
    m = int(gram.X.shape[1])
    if gram.kernel == "linear":
        return m
    degree = int(gram.degree)
    return comb(m + degree, degree) if gram.coef0 else comb(m + degree - 1, degree)


def monomials(X: NDArray, gram: Any) -> NDArray:
    """Return columns with inner products (γ⟨x, z⟩ + coef0)^degree: one monomial each, by the multinomial theorem."""
    degree, columns = int(gram.degree), []
    powers = range(degree + 1) if gram.coef0 else (degree,)
    for k in powers:
        for chosen in combinations_with_replacement(range(X.shape[1]), k):
            check_time()
            weight = factorial(degree) // factorial(degree - k)
            for column in set(chosen):
                weight //= factorial(chosen.count(column))
            scale = np.sqrt(weight * gram.gamma**k * gram.coef0 ** (degree - k))
            columns.append(scale * np.prod(X[:, list(chosen)], axis=1) if k else np.full(len(X), scale))
    return np.ascontiguousarray(np.column_stack(columns))


def product_by_monomials(gram: Any, rows: int, columns: int) -> int:
    """Return the number of monomials of a point if a product with this block of K is faster by them, else 0."""
    if rows * columns < MIN_VALUES_MONOMIALS or gram.kernel != "poly" or (rank := rank_by_kernel(gram)) is None:
        return 0
    return rank if VALUES_PER_MONOMIAL * rank * (rows + columns) < rows * columns else 0


def monomial_product(gram: Any, v: NDArray, rows: NDArray | slice, J: NDArray, rank: int) -> NDArray:
    """Return K[rows, J] v[J] of a polynomial kernel by its ``rank`` monomials, which are computed a part at a time."""
    all_rows = np.arange(gram.n)[rows]
    height = max(1, MONOMIALS_PER_PART // rank)
    total, out = np.zeros(rank), np.empty(len(all_rows))
    for start in range(0, len(J), height):
        part = J[start : start + height]
        total += v[part] @ monomials(_dense(gram._points(part)), gram)
    for start in range(0, len(all_rows), height):
        part = all_rows[start : start + height]
        out[start : start + height] = monomials(_dense(gram._points(part)), gram) @ total
    return out


def _dense(points: Any) -> NDArray:
    """Return points as a dense array."""
    return points.toarray() if isinstance(points, SparsePoints) else points
