"""Linear systems of a matrix of low rank and a diagonal, by Woodbury's formula."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .problem import DualProblem

__all__ = ["LowRankSystem", "thin_factor"]

#: A rank up to this part of n is low.
LOW = 0.25


def thin_factor(problem: DualProblem) -> NDArray | None:
    """L of shape (n, r) with Q = LLᵀ + diag(ridge), of dense points with few features under a linear kernel: r ≤ n/4.
    None for others."""
    gram, few = problem.gram, LOW * problem.n
    if gram.kernel != "linear" or problem.idx is not None or not isinstance(gram.X, np.ndarray):
        return None
    if gram.X.shape[1] + (problem.offset > 0) > few:
        return None
    X = gram.X if gram.center is None else gram.X - gram.center
    if problem.offset:
        X = np.column_stack([X, np.full(len(X), np.sqrt(problem.offset))])
    L: NDArray = (np.sqrt(problem.scale) * problem.sigma)[:, None] * X
    return L


class LowRankSystem:
    """LLᵀ + D, factorised once for many right-hand sides.

    Parameters
    ----------
    L : array of shape (n, r)
    D : array of shape (n,)
        Positive; ∞ takes a variable out.
    """

    def __init__(self, L: NDArray, D: NDArray) -> None:
        self.L, self.root = L, 1.0 / np.sqrt(D)
        self.D = np.where(np.isfinite(D), D, 0.0)
        self.scaled = L * self.root[:, None]
        # The Cholesky factor of I + LᵀD⁻¹L, by QR: formed, that product loses I, and is indefinite at gaps of 1e-10.
        stack = np.vstack([self.scaled, np.eye(L.shape[1])])
        self.factor = scipy.linalg.qr(stack, mode="r", overwrite_a=True, check_finite=False)[0][: L.shape[1]]

    def solve(self, right: NDArray) -> NDArray:
        """x, shape (n,), for one right-hand side of shape (n,)."""
        x = self._woodbury(right)
        return x + self._woodbury(right - self.D * x - self.L @ (self.L.T @ x))

    def _woodbury(self, right: NDArray) -> NDArray:
        x = right * self.root
        x -= self.scaled @ scipy.linalg.cho_solve((self.factor, False), self.scaled.T @ x, check_finite=False)
        return x * self.root
