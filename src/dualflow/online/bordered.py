"""The inverse of the margin points' system, made anew."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsymv, dsyr
from scipy.linalg.lapack import dpotrf, dpotri

from .state import PathError

__all__ = ["bordered_inverse", "lower_inverse"]

_SINGULAR = "the margin points' kernel block is singular: is the kernel positive semidefinite?"


def bordered_inverse(Q: NDArray, e: NDArray | None) -> NDArray:
    """Inverse of [0 eᵀ; e Q], shape (m + 1, m + 1), both its triangles; arguments and errors as in `lower_inverse`."""
    lower = lower_inverse(Q, e)
    return lower + np.tril(lower, -1).T


def lower_inverse(Q: NDArray, e: NDArray | None) -> NDArray:
    """Lower triangle of the inverse of [0 eᵀ; e Q], zeros above it; without ``e`` of that of Q, bordered by zeros.

    By the Cholesky factor of Q + κeeᵀ, which moves nothing but the multiplier (its first diagonal entry, by κ), and
    which is better conditioned than the indefinite system. Of Q the lower triangle is read.

    Raises
    ------
    PathError
        Q is not positive definite on the margin points.
    """
    m = len(Q)
    kappa = float(np.trace(Q)) / m or 1.0  # Q = [0]: a point at the centre, alone
    # What is the lower triangle here is the upper one where matrices go by columns; all is done in one memory.
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
        if not 0 < s < np.inf:  # of a matrix that is positive definite only by its rounding
            raise PathError(_SINGULAR)
        out[0, 0] = kappa - 1.0 / s
        out[1:, 0] = Pe / s
        A = dsyr(-1.0 / s, Pe, lower=0, a=A, overwrite_a=1)
    out[1:, 1:] = A.T
    return out
