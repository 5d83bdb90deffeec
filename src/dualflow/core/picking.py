"""Parts of large matrices: some rows and columns of what is there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._radial import gather
from .arena import borrowed

__all__ = ["picked"]


def picked(matrix: NDArray, rows: NDArray, columns: NDArray, dtype: Any = None) -> NDArray:
    """``matrix[np.ix_(rows, columns)]`` of a matrix of float32 or float64, in memory that the process keeps: a third of
    the time, and where the system's memory is slow, less. In another precision if ``dtype`` is one."""
    part: NDArray | None = None
    if matrix.flags.c_contiguous:
        part = borrowed((len(rows), len(columns)), matrix.dtype)
        try:
            gather(matrix, *(np.ascontiguousarray(J, dtype=np.int64) for J in (rows, columns)), part)
        except IndexError:  # −1 is the last one in NumPy, and what is not there has its message
            part = None
    if part is None:
        part = matrix[np.ix_(rows, columns)]
    return part if dtype is None else part.astype(dtype, copy=False)
