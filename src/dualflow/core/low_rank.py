"""Linear systems of a low-rank matrix plus a diagonal, by Woodbury's formula."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .problem import DualProblem
from .runtime.clock import check_time

#: A rank of at most this share of n counts as low.
MAX_RANK_PART = 0.25
#: Rows of a QR factorisation. 8192 rows of 20 columns stay in a core's cache. Up to this number there is only one
#: factorisation.
ROWS_PER_QR = 8192


def thin_factor(problem: DualProblem) -> NDArray | None:
    """Return L of shape (n, r), r ≤ n/4, with Q = LLᵀ + diag(ridge), or None.

    There is one for the linear kernel of dense points with few features.
    """
    gram, few = problem.gram, MAX_RANK_PART * problem.n
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
    """The linear system LLᵀ + D, factorised once for many right-hand sides.

    Parameters
    ----------
    L : array of shape (n, r)
    D : array of shape (n,)
        Positive; ∞ removes a variable.
    """

    def __init__(self, L: NDArray, D: NDArray) -> None:
        self.L, self.root = L, 1.0 / np.sqrt(D)
        self.D = np.where(np.isfinite(D), D, 0.0)
        self.scaled = L * self.root[:, None]
        # The Cholesky factor of I + LᵀD⁻¹L, by QR of stretches of rows: if this sum is formed, rounding loses I, and it
        # is indefinite at gaps of 1e-10.
        self.factor = np.eye(L.shape[1])
        for start in range(0, len(L), ROWS_PER_QR):
            check_time()
            stack = np.vstack([self.scaled[start : start + ROWS_PER_QR], self.factor])
            self.factor = scipy.linalg.qr(stack, mode="r", overwrite_a=True, check_finite=False)[0][: L.shape[1]]

    def solve(self, right: NDArray) -> NDArray:
        """Return the solution, shape (n,), for one right-hand side of shape (n,), with one step of refinement."""
        x = self._woodbury(right)
        return x + self._woodbury(right - self.D * x - self.L @ (self.L.T @ x))

    def _woodbury(self, right: NDArray) -> NDArray:
        """Return the solution by Woodbury's formula."""
        x = right * self.root
        x -= self.scaled @ scipy.linalg.cho_solve((self.factor, False), self.scaled.T @ x, check_finite=False)
        return x * self.root
