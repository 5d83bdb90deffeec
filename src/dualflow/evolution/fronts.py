"""Fronts of two criteria to be minimised: dominated points, biases and margins, and bounds of a convex front.

The least weighted sum of a convex front, V(C) = min ½F₁ + C F₂ for a weight C, is bounded from both sides. Every point
found bounds V from above by the line ½F₁ + C F₂. V is concave and does not fall, and V(0) ≥ 0, so that lower bounds of
V at some C bound it in between, too. This is the sandwich of Rote ("The convergence rate of the sandwich algorithm",
Computing 48 (1992) 337-361) in C instead of the plane of the criteria: tangents there are points here, and chords are
chords.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def nondominated(F: NDArray) -> NDArray:
    """Return the nondominated rows of F of shape (k, 2), by rising first criterion; of equal rows the first is kept."""
    order = np.lexsort((F[:, 1], F[:, 0]))
    second = F[order, 1]
    before = np.concatenate([[np.inf], np.minimum.accumulate(second)[:-1]])
    return order[second < before]


def lower_hull(F: NDArray) -> NDArray:
    """Return the rows of F of shape (k, 2) on the lower left hull, by rising first criterion (Andrew's chain)."""
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
    """Return a lower bound of V(C) from lower ``values`` at rising C ``known``: chords from (0, 0), then constant."""
    return np.interp(C, np.concatenate([[0.0], known]), np.concatenate([[0.0], values]))


def sandwich(F: NDArray, known: NDArray, values: NDArray, least: float, most: float) -> tuple[NDArray, NDArray]:
    """Return the largest relative distance of both bounds of V, and the weights where it can be.

    Parameters
    ----------
    F : array of shape (k, 2)
        Points of the front: F₁, F₂ ≥ 0.
    known, values : arrays of shape (m,)
        Rising weights C, and lower bounds of V there.
    least, most : float
        Range of C.

    Returns
    -------
    C : array of shape (r,)
        Weights that include the one with the largest distance over the whole range.
    distance : array of shape (r,)
        (min over the points of ½F₁ + C F₂ − lower bound) / that minimum. Between two of these weights both bounds are
        linear, so that their ratio is monotone.
    """
    hull = F[lower_hull(F)]
    drop = hull[:-1, 1] - hull[1:, 1]
    crossings = 0.5 * (hull[1:, 0] - hull[:-1, 0]) / drop
    C = np.unique(np.clip(np.concatenate([crossings, known, [least, most]]), least, most))
    upper = (0.5 * hull[:, 0] + C[:, None] * hull[:, 1]).min(axis=1)
    lower = least_weighted(C, known, values)
    return C, np.where(upper > 0, np.maximum(upper - lower, 0.0) / np.where(upper > 0, upper, 1.0), 0.0)


def best_thresholds(G: NDArray, y: NDArray, slack: float) -> NDArray:
    """Return for each row of decision values the bias with the fewest points with y(g + b) < 1 − slack, shape (m,).

    Parameters
    ----------
    G : array of shape (m, n)
        Decision values without bias.
    y : array of shape (n,) with entries −1 and +1
    slack : float ≥ 0

    Notes
    -----
    A positive point has its margin for b ≥ 1 − g, a negative one for b ≤ −1 − g. The count changes only at these
    values, so that one of them is the best. All rows are sorted in one call.
    """
    order = np.argsort(-y, kind="stable")  # positives first: at a tie both have their margin
    at = np.where(y > 0, 1.0 - slack - G, slack - 1.0 - G)[:, order]
    ranks = np.argsort(at, axis=1, kind="stable")
    positive = y[order][ranks] > 0
    # Points with their margin at the k-th value: positives up to there, and negatives from there on.
    n_kept = np.cumsum(positive, axis=1) - np.cumsum(~positive, axis=1) + ~positive
    best = np.argmax(n_kept, axis=1)
    rows = np.arange(len(G))
    return np.asarray(at[rows, ranks[rows, best]])


def best_hinge_thresholds(G: NDArray, y: NDArray) -> NDArray:
    """Return for each row of decision values the bias with the least Σ max(0, 1 − y(g + b)), shape (m,).

    Arguments are those of `best_thresholds`.

    The sum is convex in b. Its slope starts at −(number of positives) and rises by 1 at each point's value: it is 0
    between the values of that rank and the next, whose midpoint is returned.
    """
    at, positives = np.where(y > 0, 1.0 - G, -1.0 - G), int(np.count_nonzero(y > 0))
    middle = np.partition(at, [positives - 1, positives], axis=1)[:, positives - 1 : positives + 1]
    return np.asarray(middle.mean(axis=1))


def widest_gaps(G: NDArray, y: NDArray, biased: bool) -> NDArray:
    """Return the widest gap between the classes along each row of decision values, for each number of points left out.

    Parameters
    ----------
    G : array of shape (m, n)
        Decision values without bias.
    y : array of shape (n,) with entries −1 and +1
    biased : bool
        Whether the middle of the gap may lie anywhere; otherwise it is 0.

    Returns
    -------
    array of shape (m, n − 1)
        Column k: with k points left out. Scaled by 2/gap all others have margin 1; if it is ≤ 0, k are not enough.
    """
    if not biased:
        return np.asarray(2.0 * np.sort(y * G, axis=1)[:, :-1])
    lowest, highest = np.sort(G[:, y > 0], axis=1), -np.sort(-G[:, y < 0], axis=1)
    gaps = np.full((len(G), len(y) - 1), -np.inf)
    for k in range(lowest.shape[1]):  # number of positive points left out
        part = gaps[:, k : k + highest.shape[1]]
        np.maximum(part, lowest[:, k, None] - highest, out=part)
    return gaps


def threshold_of(g: NDArray, y: NDArray, left_out: int) -> float:
    """Return the middle of the gap that `widest_gaps` found in one row g of shape (n,)."""
    lowest, highest = np.sort(g[y > 0]), -np.sort(-g[y < 0])
    positive = np.arange(max(0, left_out - len(highest) + 1), min(left_out, len(lowest) - 1) + 1)
    best = positive[np.argmax(lowest[positive] - highest[left_out - positive])]
    return float(0.5 * (lowest[best] + highest[left_out - best]))


def mistakes(values: NDArray, signs: NDArray) -> int:
    """Return the number of points misclassified by the sign of f, from y·f; f = 0 is positive, as in prediction."""
    return int(np.count_nonzero((values < 0) | ((values == 0) & (signs < 0))))
