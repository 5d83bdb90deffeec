"""Products with a radial kernel matrix whose values are never stored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MANY", "radial_product"]

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
