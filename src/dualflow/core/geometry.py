"""How far a support vector is from what the margin vectors span (CP section 4)."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .problem import DualProblem

__all__ = ["balances", "response_and_distance"]


def balances(problem: DualProblem) -> bool:
    """Whether the classes' weights must be equal, yᵀα = 0: what responds then is an affine hull, not a span."""
    return problem.e is not None and problem.d == 0


def response_and_distance(problem: DualProblem, which: NDArray, S: NDArray) -> tuple[NDArray, NDArray]:
    """γ_c by linear response and 2W_c by the distance, for c in ``which``, which holds S; both ascend.

    Labels cancel: with θⱼ = −y_c yⱼβⱼ all is said in the kernel without signs. The affine hull is a span about the mean
    of S; eigenvalues are kept from falling below round-off, so that duplicates are at distance 0 from each other.
    """
    affine = balances(problem)
    diag, s = problem.diag()[which], len(S)
    if not s:
        alone = np.full(len(which), np.inf) if affine else diag
        return alone, alone.copy()
    A, B = problem.plain_block(S, S), problem.plain_block(S, which)
    centred, columns, lengths, ones = A, B, diag, np.zeros(s)
    if affine:
        means, mean = A.mean(axis=0), float(A.mean())
        centred = A - means - means[:, None] + mean
        columns = B - B.mean(axis=0) - means[:, None] + mean
        lengths = diag - 2.0 * B.mean(axis=0) + mean
        ones = np.full(s, 1.0 / s)
    size = float(np.trace(centred)) or 1.0
    # The mean itself is no direction: it gets an eigenvalue of its own, which is taken out again.
    eigenvalues, U = scipy.linalg.eigh(centred + size * np.outer(ones, ones) * s)
    floored = np.maximum(eigenvalues, 4 * s * np.finfo(float).eps * eigenvalues[-1])
    R = (U / floored) @ U.T - np.outer(ones, ones) * s / size
    # Not by R: its entries are as large as the inverse of round-off.
    along = U.T @ columns
    gamma = lengths - np.einsum("ij,ij->j", along, along / floored[:, None])
    theta = U @ (along / floored[:, None]) + ones[:, None]
    # A margin vector responds to the others alone: their weights are a column of R, and γ_c = 1/R_cc (CP eq. 11).
    inside = np.searchsorted(which, S)
    own = np.diag(R) if s > 1 or not affine else np.zeros(1)
    with np.errstate(divide="ignore", invalid="ignore"):
        theta[:, inside] = np.where(np.eye(s, dtype=bool), 0.0, -R / own)
        gamma[inside] = 1.0 / own
    distance = diag - 2.0 * np.einsum("ij,ij->j", B, theta) + np.einsum("ij,ij->j", theta, A @ theta)
    return np.maximum(gamma, 0.0), np.where(np.isinf(gamma), np.inf, np.maximum(distance, 0.0))
