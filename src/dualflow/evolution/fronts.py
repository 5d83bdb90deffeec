"""Fronts of two criteria, both to be made small: who is dominated, and how far a convex front is known.

Of a convex front, weights 1/2 and C of its criteria F₁ and F₂ have the least sum V(C). Every point found bounds V from
above, by the line ½F₁ + C F₂; V is concave, does not fall, and V(0) ≥ 0, so values below it bound it from below in
between, too. That is the sandwich of Rote ("The convergence rate of the sandwich algorithm", Computing 48 (1992)
337-361), told in C instead of in the plane of the criteria: tangents there are points here, and chords are chords.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "best_hinge_thresholds",
    "best_thresholds",
    "least_weighted",
    "lower_hull",
    "mistakes",
    "nondominated",
    "sandwich",
    "threshold_of",
    "widest_gaps",
]


def nondominated(F: NDArray) -> NDArray:
    """Rows of F of shape (k, 2) that no other row is as good as in both criteria, by rising first criterion.

    Of equal rows the first stays.
    """
    order = np.lexsort((F[:, 1], F[:, 0]))
    second = F[order, 1]
    before = np.concatenate([[np.inf], np.minimum.accumulate(second)[:-1]])
    return order[second < before]


def lower_hull(F: NDArray) -> NDArray:
    """Rows of F of shape (k, 2) on the lower left of the convex hull, by rising first criterion (Andrew's chain)."""
    hull: list[int] = []
    for k in nondominated(F):
        while len(hull) > 1:
            a, b, c = F[hull[-2]], F[hull[-1]], F[k]
            if (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]) > 0:
                break
            hull.pop()
        hull.append(int(k))
    return np.array(hull, dtype=np.intp)


def least_weighted(C: NDArray, known: NDArray, values: NDArray) -> NDArray:
    """A lower bound on V(C), from ``values`` below V at rising C ``known``: chords, from (0, 0), then level."""
    return np.interp(C, np.concatenate([[0.0], known]), np.concatenate([[0.0], values]))


def sandwich(F: NDArray, known: NDArray, values: NDArray, least: float, most: float) -> tuple[NDArray, NDArray]:
    """Where a front is known worst, as seen from the weights.

    Parameters
    ----------
    F : array of shape (k, 2)
        Points that can be had: F₁, F₂ ≥ 0.
    known, values : arrays of shape (m,)
        Rising weights C, and lower bounds on V there.
    least, most : float
        The range of C asked for.

    Returns
    -------
    C : array of shape (r,)
        Weights among which the largest distance over the whole range is.
    distance : array of shape (r,)
        (min over the points of ½F₁ + C F₂ − lower bound) / that minimum, there: between two of these weights both
        bounds are linear, so their ratio is monotone.
    """
    hull = F[lower_hull(F)]
    drop = hull[:-1, 1] - hull[1:, 1]
    crossings = 0.5 * (hull[1:, 0] - hull[:-1, 0]) / drop
    C = np.unique(np.clip(np.concatenate([crossings, known, [least, most]]), least, most))
    upper = (0.5 * hull[:, 0] + C[:, None] * hull[:, 1]).min(axis=1)
    lower = least_weighted(C, known, values)
    return C, np.where(upper > 0, np.maximum(upper - lower, 0.0) / np.where(upper > 0, upper, 1.0), 0.0)


def best_thresholds(G: NDArray, y: NDArray, slack: float) -> NDArray:
    """The bias of each row of decision values that leaves the fewest points with y(g + b) < 1 − slack, shape (m,).

    Parameters
    ----------
    G : array of shape (m, n)
        Decision values without bias.
    y : array of shape (n,) with entries −1 and +1
    slack : float ≥ 0

    Notes
    -----
    A positive point is content from b = 1 − g on, a negative one up to b = −1 − g: the count changes only there, and is
    best at one of these values. All rows are sorted at once.
    """
    order = np.argsort(-y, kind="stable")  # positives first: at a tie both are content
    at = np.where(y > 0, 1.0 - slack - G, slack - 1.0 - G)[:, order]
    ranks = np.argsort(at, axis=1, kind="stable")
    positive = y[order][ranks] > 0
    # Content at the k-th value: positives up to there, and negatives not before it.
    content = np.cumsum(positive, axis=1) - np.cumsum(~positive, axis=1) + ~positive
    best = np.argmax(content, axis=1)
    rows = np.arange(len(G))
    return np.asarray(at[rows, ranks[rows, best]])


def best_hinge_thresholds(G: NDArray, y: NDArray) -> NDArray:
    """The bias of each row of decision values of the least Σ max(0, 1 − y(g + b)), shape (m,); arguments as above.

    The sum is convex in b, and its slope rises by 1 at each point's own value (as above), from −(number of positives):
    it is 0 between the values of that rank and the next. Their midpoint is taken.
    """
    at, positives = np.where(y > 0, 1.0 - G, -1.0 - G), int(np.count_nonzero(y > 0))
    middle = np.partition(at, [positives - 1, positives], axis=1)[:, positives - 1 : positives + 1]
    return np.asarray(middle.mean(axis=1))


def widest_gaps(G: NDArray, y: NDArray, biased: bool) -> NDArray:
    """The widest gap between the classes along each row of decision values, when so many points are given up.

    Parameters
    ----------
    G : array of shape (m, n)
        Decision values without bias.
    y : array of shape (n,) with entries −1 and +1
    biased : bool
        Whether the middle of the gap may lie anywhere, or is 0.

    Returns
    -------
    array of shape (m, n − 1)
        Column k: with k points given up. Scaled by 2/gap all others keep the margin 1; not positive: none can be kept.
    """
    if not biased:
        return np.asarray(2.0 * np.sort(y * G, axis=1)[:, :-1])
    lowest, highest = np.sort(G[:, y > 0], axis=1), -np.sort(-G[:, y < 0], axis=1)
    gaps = np.full((len(G), len(y) - 1), -np.inf)
    for k in range(lowest.shape[1]):  # so many of them positive
        part = gaps[:, k : k + highest.shape[1]]
        np.maximum(part, lowest[:, k, None] - highest, out=part)
    return gaps


def threshold_of(g: NDArray, y: NDArray, given_up: int) -> float:
    """The middle of the gap that `widest_gaps` found in one row g of shape (n,)."""
    lowest, highest = np.sort(g[y > 0]), -np.sort(-g[y < 0])
    positive = np.arange(max(0, given_up - len(highest) + 1), min(given_up, len(lowest) - 1) + 1)
    best = positive[np.argmax(lowest[positive] - highest[given_up - positive])]
    return float(0.5 * (lowest[best] + highest[given_up - best]))


def mistakes(values: NDArray, signs: NDArray) -> int:
    """How many points the sign of f puts on the wrong side, from y·f; f = 0 counts as positive, as in prediction."""
    return int(np.count_nonzero((values < 0) | ((values == 0) & (signs < 0))))
