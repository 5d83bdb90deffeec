"""The inverse of the margin points' system, computed from scratch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv, dsyr
from scipy.linalg.lapack import dpotrf, dpotri

from .state import PathError

_SINGULAR = "the margin points' kernel block is singular: is the kernel positive semidefinite?"


def bordered_inverse(Q: NDArray, e: NDArray | None) -> NDArray:
    """Return the inverse of [0 eᵀ; e Q], both triangles, shape (m + 1, m + 1); the rest as in `lower_inverse`."""
    lower = lower_inverse(Q, e)
    return lower + np.tril(lower, -1).T


def lower_inverse(Q: NDArray, e: NDArray | None) -> NDArray:
    """Return the lower triangle of the inverse of [0 eᵀ; e Q], shape (m + 1, m + 1), with zeros above it.

    Without ``e`` it is the inverse of Q, bordered by zeros. Only the lower triangle of Q is read. The inverse is
    computed from the Cholesky factor of Q + κeeᵀ, which is better conditioned than the indefinite system; the shift
    changes only the first diagonal entry of the inverse, by κ.

    Raises
    ------
    PathError
        Q is not positive definite on the margin points.
    """
    m = len(Q)
    kappa = float(np.trace(Q)) / m or 1.0  # Q = [0] if the only point lies at the centre
    # The lower triangle of the row-major A is the upper one of the column-major A.T; all steps work in A's memory.
    A = np.array(Q, order="C").T
    if e is not None:
        A = dsyr(kappa, e, lower=0, a=A, overwrite_a=1)
    A, info = dpotrf(A, lower=0, overwrite_a=1)
    if info == 0:
        A, info = dpotri(A, lower=0, overwrite_c=1)
    if info != 0:
        raise PathError(_SINGULAR)
    out = np.zeros((m + 1, m + 1))
    if e is not None:
        Pe = dsymv(1.0, A, e, lower=0)
        s = float(e @ Pe)
        if not 0 < s < np.inf:  # A is positive definite by its rounding only
            raise PathError(_SINGULAR)
        out[0, 0] = kappa - 1.0 / s
        out[1:, 0] = Pe / s
        A = dsyr(-1.0 / s, Pe, lower=0, a=A, overwrite_a=1)
    out[1:, 1:] = A.T
    return out
