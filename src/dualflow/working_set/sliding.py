"""Free variables of a matrix of low rank: more than its rank are free for nothing, and slide to their bounds.

Between more free variables than the rank there are moves that change no gradient: along these f is linear, and falls
until one of them is at a bound (the slide of Fletcher's and of Cauwenberghs and Poggio's singular case). What is left
are at most rank + 1 free variables, which few pairs or one Newton step bring to their end, where pairs of thousands
crawl.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

__all__ = ["MOST", "low_rank", "slide"]

#: Rank up to which variables slide; and what is left of a matrix that has no more, as a part of its largest entry.
MOST, REST = 96, 1e-11
#: The part of the largest that a pivot, or an entry of one, must have to be told from round-off.
PIVOT, ENTRY = 1e-10, 1e-9
#: Exchanges after which the inverse of a basis is made anew.
EXCHANGES = 50


def low_rank(diag: NDArray, column: Callable[[int], NDArray], most: int) -> NDArray | None:
    """L of shape (f, r), r ≤ ``most``, with LLᵀ = K up to `REST`, by Cholesky with pivots; None where K has a rank
    beyond.

    Parameters
    ----------
    diag : array of shape (f,)
        Of K.
    column : callable
        One of its columns, shape (f,).
    most : int
    """
    left, largest = diag.astype(float), float(diag.max(initial=0.0))
    L = np.empty((len(left), most))
    for r in range(most):
        pivot = int(left.argmax())
        if not left[pivot] > REST * largest:
            return L[:, :r]
        L[:, r] = (column(pivot) - L[:, :r] @ L[pivot, :r]) / np.sqrt(left[pivot])
        left -= L[:, r] ** 2
    return L if not left.max(initial=0.0) > REST * largest else None


def slide(Y: NDArray, G: NDArray, beta: NDArray, low: NDArray, high: NDArray) -> int:
    """Move β, in place, along directions s with Yᵀs = 0 and Gᵀs ≤ 0, until as many are free as Y has rank.

    Parameters
    ----------
    Y : array of shape (f, r)
    G, beta, low, high : arrays of shape (f,)
        All between their bounds at first, which may be 1e300 for infinite.

    Returns
    -------
    int
        How many came to a bound.
    """
    _, R, order = scipy.linalg.qr(Y.T, mode="economic", pivoting=True, check_finite=False)
    sizes = np.abs(np.diagonal(R))
    rank = int((sizes > PIVOT * sizes.max(initial=0.0)).sum())
    basis, columns, held, exchanges = order[:rank].copy(), np.empty((rank, len(beta))), 0, 0
    columns[:, order] = R[:rank]
    inverse = np.linalg.inv(columns[:, basis])
    for j in order[rank:]:
        if exchanges == EXCHANGES:
            inverse, exchanges = np.linalg.inv(columns[:, basis]), 0
        share = inverse @ columns[:, j]
        sign = -1.0 if G[j] > share @ G[basis] else 1.0
        step, here = -sign * share, beta[basis]
        room = np.where(step > 0, high[basis] - here, here - low[basis])
        size = np.abs(step)
        reach = np.full(rank, np.inf)
        np.divide(room, size, out=reach, where=size > ENTRY * size.max(initial=0.0))
        first = int(reach.argmin()) if rank else -1
        own = high[j] - beta[j] if sign > 0 else beta[j] - low[j]
        t = min(own, float(reach[first])) if rank else own
        if t >= 1e290:
            continue
        beta[basis] = np.clip(here + t * step, low[basis], high[basis])
        held += 1
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
    return held
