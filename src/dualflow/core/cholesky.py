"""Cholesky factors that take long: LAPACK's below a size, and panels of LAPACK's above it, with a look at the clock."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .clock import look

__all__ = ["factorise"]

#: Rows up to which one LAPACK call does it (a tenth of a second), and columns of a panel beyond.
AT_ONCE, PANEL = 2048, 256


def factorise(A: NDArray) -> bool:
    """L with A = LLᵀ, in the place of A's lower triangle; whether A was positive definite, else it is spoilt.

    Parameters
    ----------
    A : array of shape (n, n)
        Symmetric, column-major, in float64 or float32; what lies above the diagonal may be anything, and is not kept.
    """
    (potrf,) = scipy.linalg.lapack.get_lapack_funcs(("potrf",), (A,))
    n = len(A)
    if n <= AT_ONCE:
        factor, failed = potrf(A, lower=1, clean=0, overwrite_a=1)
        if factor is not A and not np.shares_memory(factor, A):
            A[:] = factor
        return not failed
    for start in range(0, n, PANEL):
        look()
        stop = min(start + PANEL, n)
        panel, before = A[start:, start:stop], A[start:, :start]
        with np.errstate(invalid="ignore", over="ignore"):  # what lies above the diagonal may be anything, NaN too
            panel -= before @ before[: stop - start].T
        corner, failed = potrf(panel[: stop - start], lower=1, clean=0)
        if failed:
            return False
        panel[: stop - start] = corner
        if stop < n:
            rest = scipy.linalg.solve_triangular(corner, panel[stop - start :].T, lower=True, check_finite=False)
            panel[stop - start :] = rest.T
    return True
