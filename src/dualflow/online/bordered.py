"""The inverse of the margin points' system, made anew."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .state import PathError

__all__ = ["bordered_inverse"]

_SINGULAR = "the margin points' kernel block is singular: is the kernel positive semidefinite?"


def bordered_inverse(Q: NDArray, e: NDArray | None) -> NDArray:
    """Inverse of [0 eᵀ; e Q], shape (m + 1, m + 1); without ``e`` that of Q, bordered by zeros.

    By the Cholesky factor of Q + κeeᵀ, which moves nothing but the multiplier (its first diagonal entry, by κ), and
    which is better conditioned than the indefinite system.

    Raises
    ------
    PathError
        Q is not positive definite on the margin points.
    """
    m = len(Q)
    Q = 0.5 * (Q + Q.T)
    kappa = (float(np.trace(Q)) / m or 1.0) if e is not None else 0.0  # Q = [0]: a point at the centre, alone
    factor, info = scipy.linalg.lapack.dpotrf(Q if e is None else Q + kappa * np.outer(e, e), lower=1)
    if info == 0:
        P, info = scipy.linalg.lapack.dpotri(factor, lower=1)
    if info != 0:
        raise PathError(_SINGULAR)
    P = P + P.T  # above its diagonal there were zeros
    P.ravel()[:: m + 1] *= 0.5
    out = np.zeros((m + 1, m + 1))
    out[1:, 1:] = P
    if e is not None:
        Pe = P @ e
        s = float(e @ Pe)
        if not 0 < s < np.inf:  # of a matrix that is positive definite only by its rounding
            raise PathError(_SINGULAR)
        out[0, 0] = kappa - 1.0 / s
        out[1:, 0] = out[0, 1:] = Pe / s
        out[1:, 1:] -= np.outer(Pe, Pe) / s
    return out
