"""Move free variables to their bounds where the matrix of the free variables has low rank.

If more variables are free than the matrix has rank, some directions change no gradient. Along such a direction f is
linear, so it decreases until a variable reaches a bound (the singular case of Fletcher, and of Cauwenberghs and
Poggio). At most rank + 1 variables stay free, and a few pair updates or one Newton step solve for these. Pair updates
alone would converge slowly over thousands of free variables.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

#: Variables are moved only if the rank of their matrix is at most this.
MAX_RANK = 96
#: A sample of this many variables is factorised first. If its rank is too high, so is that of all. Without the sample,
#: a regression of 2300 points spends a fifth of its time on columns of a matrix of high rank.
SAMPLE_SIZE = 2 * MAX_RANK
#: The rank is reached if the largest remaining diagonal entry is at most this share of the largest of the matrix.
MAX_DIAGONAL_REST = 1e-11
#: A pivot below this share of the largest pivot is round-off.
MIN_PIVOT = 1e-10
#: An entry of a direction below this share of the largest entry is round-off.
MIN_ENTRY = 1e-9
#: After this many exchanges of basis variables, the inverse of the basis is computed anew.
MAX_BASIS_EXCHANGES = 50


def low_rank(diag: NDArray, column: Callable[[int], NDArray], max_rank: int) -> NDArray | None:
    """Return L of shape (f, r) with LLᵀ = K up to `MAX_DIAGONAL_REST`, by pivoted Cholesky; None if the rank is larger.

    Parameters
    ----------
    diag : array of shape (f,)
        Diagonal of K.
    column : callable
        Returns column k of K, shape (f,).
    max_rank : int
        Largest r.
    """
    residual, largest = diag.astype(float), float(diag.max(initial=0.0))
    L = np.empty((len(residual), max_rank))
    for r in range(max_rank):
        pivot = int(residual.argmax())
        if not residual[pivot] > MAX_DIAGONAL_REST * largest:
            return L[:, :r]
        L[:, r] = (column(pivot) - L[:, :r] @ L[pivot, :r]) / np.sqrt(residual[pivot])
        residual -= L[:, r] ** 2
    return L if not residual.max(initial=0.0) > MAX_DIAGONAL_REST * largest else None


def slide(Y: NDArray, G: NDArray, beta: NDArray, low: NDArray, high: NDArray) -> int:
    """Move β, in place, along directions s with Yᵀs = 0 and Gᵀs ≤ 0, until as many variables are free as Y has rank.

    Parameters
    ----------
    Y : array of shape (f, r)
    G, beta, low, high : arrays of shape (f,)
        All variables are free at first; an infinite bound is 1e300.

    Returns
    -------
    int
        Number of variables that reached a bound.
    """
    _, R, order = scipy.linalg.qr(Y.T, mode="economic", pivoting=True, check_finite=False)
    sizes = np.abs(np.diagonal(R))
    rank = int((sizes > MIN_PIVOT * sizes.max(initial=0.0)).sum())
    basis, columns, moved, exchanges = order[:rank].copy(), np.empty((rank, len(beta))), 0, 0
    columns[:, order] = R[:rank]
    inverse = np.linalg.inv(columns[:, basis])
    for j in order[rank:]:
        if exchanges == MAX_BASIS_EXCHANGES:
            inverse, exchanges = np.linalg.inv(columns[:, basis]), 0
        share = inverse @ columns[:, j]
        sign = -1.0 if G[j] > share @ G[basis] else 1.0
        step, current = -sign * share, beta[basis]
        room = np.where(step > 0, high[basis] - current, current - low[basis])
        size = np.abs(step)
        steps_to_bound = np.full(rank, np.inf)
        np.divide(room, size, out=steps_to_bound, where=size > MIN_ENTRY * size.max(initial=0.0))
        first = int(steps_to_bound.argmin()) if rank else -1
        own = high[j] - beta[j] if sign > 0 else beta[j] - low[j]
        t = min(own, float(steps_to_bound[first])) if rank else own
        if t >= 1e290:
            continue
        beta[basis] = np.clip(current + t * step, low[basis], high[basis])
        moved += 1
        if t == own:
            beta[j] = high[j] if sign > 0 else low[j]
            continue
        leaves = basis[first]
        beta[leaves] = high[leaves] if step[first] > 0 else low[leaves]
        beta[j] += sign * t
        basis[first] = j
        inverse[first] /= share[first]
        others = share.copy()
        others[first] = 0.0
        inverse -= np.outer(others, inverse[first])
        exchanges += 1
    return moved
