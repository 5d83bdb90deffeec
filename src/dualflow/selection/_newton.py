"""One decomposition for all folds: the free variables of the model of all points, factorised once, and every fold's
free set a few changes of it.

With A = [[K_FF, 1], [1ᵀ, 0]] of the reference F and H = A⁻¹, a step over another set, F less D and more N, is that of
A bordered by the unit vectors of D and the columns of N: H times a vector, and a system of |D| + |N| unknowns. The sets
are guessed anew from every step (a primal-dual active set), which ends in a few rounds at the exact optimum, or is
given up: pairs come nearer then, and it may be tried again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, lapack

from ..core.forks import cached_property

__all__ = ["MOST_FREE", "Newton"]

#: Free variables beyond which pairs are the quicker way; and the fewest.
MOST_FREE, LEAST_FREE = 640, 8
#: Rounds at most; the part of the set's size that may change; what of the changes of a round the next may have; and
#: misses before it is no longer tried.
ROUNDS, CHANGES, SHRINK, PATIENCE = 8, 0.6, 1.0, 6
#: Squared distance of a point to those before it, in feature space, below which it is no part of the reference; and
#: what keeps such a point's row apart from theirs.
NEAR, APART = 1e-9, 1e-10


class Newton:
    """Steps over free sets near a reference, with Σβ = 0.

    Parameters
    ----------
    K : array of shape (n, n)
        Its largest diagonal entry is 1.
    free : int array, optional
        The reference; by default who is free where the first step is asked for.
    """

    def __init__(self, K: NDArray, free: NDArray | None = None) -> None:
        self.K, self.free = K, free
        self.hits = self.misses = 0

    @property
    def pays(self) -> bool:
        """Whether the reference is of a size for it, and it has found enough of what it was asked for."""
        fits = self.free is None or LEAST_FREE <= len(self.free) <= MOST_FREE
        return fits and self.misses < PATIENCE + 2 * self.hits

    @cached_property
    def _factor(self) -> tuple[NDArray, NDArray, NDArray]:
        """F without copies and what is nearly their combination, their rows of K, and H."""
        assert self.free is not None
        M = self.K[np.ix_(self.free, self.free)] + 1.0  # + 11ᵀ moves no step of given sum, and is never singular
        half, order, rank, _ = lapack.dpstrf(M, tol=NEAR)
        F = self.free[order[:rank] - 1]
        inverse = lapack.dpotri(half[:rank, :rank])[0]
        inverse = np.triu(inverse) + np.triu(inverse, 1).T
        sums = inverse.sum(axis=0)
        total = float(sums.sum())
        H = np.empty((rank + 1, rank + 1))
        H[:rank, :rank] = inverse - np.outer(sums, sums) / total
        H[rank, :rank] = H[:rank, rank] = sums / total
        H[rank, rank] = -1.0 / total
        return F, self.K[F], H

    def solve(self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, aim: float) -> bool:
        """Take β and its gradient G to the optimum, in place; False, and both as they were, if that was not found."""
        if self.free is None:
            self.free = np.flatnonzero((beta > low) & (beta < high))
        found = self.pays and self._solve(beta, G, low, high, aim)
        self.hits, self.misses = self.hits + found, self.misses + (not found)
        return found

    def _solve(self, beta: NDArray, G: NDArray, low: NDArray, high: NDArray, aim: float) -> bool:
        F, rows, H = self._factor
        f, now, gradient = len(F), beta, G
        moving = (beta > low) & (beta < high)
        before = left = np.inf
        for _ in range(ROUNDS):
            inside = moving[F]
            D = np.flatnonzero(~inside)
            outside = moving.copy()
            outside[F] = False
            N = np.flatnonzero(outside)
            if len(D) + len(N) > CHANGES * f + 20:
                return False
            try:
                step, added, nu = self._step(F, rows, H, D, N, gradient, -float(now.sum()))
            except LinAlgError:
                return False
            there = now.copy()
            there[F] += step
            there[N] += added
            gradient = gradient + step @ rows
            if len(N):
                gradient += added @ self.K[N]
            rho = gradient + nu
            now = np.clip(there, low, high)
            (out,) = np.nonzero(now != there)
            wrong = ~moving & (((now < high) & (rho < -aim)) | ((now > low) & (rho > aim)))
            if not len(out) and not wrong.any():
                # What a nearly singular system leaves of the gradient is less after another step.
                left, known = float(np.abs(rho[moving]).max(initial=0.0)), left
                if left <= aim:
                    beta[:], G[:] = now, gradient
                    return True
                if not left <= 0.5 * known:
                    return False
                continue
            changes = len(out) + int(np.count_nonzero(wrong))
            if not changes <= SHRINK * before:
                return False
            before = changes
            if len(out):
                gradient += (now - there)[out] @ self.K[out]
            moving[out] = False
            moving |= wrong
        return False

    def _step(
        self, F: NDArray, rows: NDArray, H: NDArray, D: NDArray, N: NDArray, G: NDArray, missing: float
    ) -> tuple[NDArray, NDArray, float]:
        """Steps of F (0 for D) and of N after which their gradients are all −ν and Σβ has what was missing; and ν."""
        f, d = len(F), len(D)
        z = H @ np.append(missing - G[F], missing)
        added = np.empty(0)
        if d or len(N):
            border = np.append(rows[:, N].T + 1.0, np.ones((len(N), 1)), axis=1)
            lifted = border @ H
            corner = lifted @ border.T - self.K[np.ix_(N, N)] - 1.0 - APART * np.eye(len(N))
            system = np.block([[H[np.ix_(D, D)], lifted[:, D].T], [lifted[:, D], corner]])
            known = np.linalg.solve(system, np.append(z[D], border @ z - (missing - G[N])))
            z = z - known[:d] @ H[D] - known[d:] @ lifted
            added = known[d:]
        z[D] = 0.0
        return z[:f], added, float(z[f])
