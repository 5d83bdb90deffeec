"""Inner products between points of many features, a part of the features at a time.

No copy of all points is made: new memory takes the system longer to provide than the products of a few hundred points
take.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk

from ._points import scale_columns
from .runtime.clock import check_time
from .runtime.memory import arena_array

#: Features of a part: twice the number at which BLAS splits a product itself. The sums are then those of one product.
PART_FEATURES = 1024
#: Multiplications of a part, at most: a fifth of a second, after which the clock is read.
MAX_MULTIPLICATIONS = 1 << 32
#: Rows of a strip above the diagonal; as many rows, read with a stride, stay in the cache.
STRIP_ROWS = 64
_BELOW = np.tri(STRIP_ROWS, k=-1, dtype=bool)


def upper_products(X: NDArray, J: NDArray | slice, center: NDArray | None, scale: float) -> NDArray:
    """Return scale² ⟨x − center, z − center⟩ for all pairs of n points J of a row-major X in float64, shape (n, n).

    Entries below the diagonal are arbitrary. A call of BLAS takes a part of the features, and adds to the same matrix.
    """
    rows = np.arange(len(X))[J]  # contiguous, and none is negative
    n, m = len(rows), X.shape[1]
    width = PART_FEATURES if n * n * PART_FEATURES <= 2 * MAX_MULTIPLICATIONS else PART_FEATURES // 2
    sums, buffer = arena_array((n, n), float), arena_array((n * min(width, m),), float)
    center = np.zeros(m) if center is None else center
    for start in range(0, m, width):
        check_time()
        part = buffer[: n * min(width, m - start)].reshape(n, -1)
        scale_columns(X, rows, center, scale, start, part)
        # BLAS takes transposes: the lower triangle of these is the upper one here.
        dsyrk(1.0, part.T, beta=float(start > 0), c=sums.T, trans=1, lower=1, overwrite_c=1)
    return sums


def strips(n: int) -> list[slice]:
    """Return the strips of `STRIP_ROWS` rows that cover n rows."""
    return [slice(start, min(start + STRIP_ROWS, n)) for start in range(0, n, STRIP_ROWS)]


def mirror(K: NDArray) -> NDArray:
    """Copy the entries above the diagonal of a square matrix to those below it; return the matrix."""
    for rows in strips(len(K)):
        corner = K[rows, rows]
        np.copyto(corner, corner.T, where=_BELOW[: len(corner), : len(corner)])
        K[rows.stop :, rows] = K[rows, rows.stop :].T
    return K
