"""The accuracy of a classifier on given points as an exact step function of C, along its regularization path.

Between two breakpoints α and b are linear in C, and so is each decision value, which changes its sign once at most.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.runtime.clock import check_time
from ..exceptions import ProblemError

#: Breakpoints whose decision values are computed in one product: they and their α take n numbers each.
BREAKPOINTS_PER_BLOCK = 256
#: A variable is free and fixes the bias if its relative distance from its bounds is more than this.
MIN_FREE_DISTANCE = 1e-9
#: Mean scores that differ by less are equal: they are sums of shares of test points.
SCORE_ROUND_OFF = 1e-12


class _Segments:
    """The intervals between two breakpoints of a path, where α and b are linear in C.

    Parameters
    ----------
    path : RegularizationPath
        Along C, of a classifier.
    X : array of shape (m, n_features)
        Points whose decision values are wanted.
    """

    def __init__(self, path: Any, X: Any) -> None:
        problem = path._problem(float(path.values[0])).centred()
        self.path, self.gram, self.sigma = path._path, problem.gram, problem.sigma
        self.C, self.has_bias = path.values, problem.e is not None
        self.cross = self.gram.cross(X) + problem.offset
        self.is_segment = path.is_exact & (np.diff(path.values) > 0)

    def block(self, start: int, stop: int) -> tuple[NDArray, NDArray, NDArray]:
        """Return the decision values at both ends of the segments from breakpoint ``start`` to ``stop``.

        Returns
        -------
        left, right : arrays of shape (stop − start, m)
        is_known : array of shape (stop − start,)
            False where no variable is free, so that b is not unique, and where the path was interpolated.
        """
        scaled = np.array([self.path.at(k) for k in range(start, stop + 1)])
        weights = self.sigma * scaled * self.C[start : stop + 1, None]
        values = weights @ self.cross.T
        left, right, is_known = values[:-1], values[1:], self.is_segment[start:stop].copy()
        if self.has_bias:
            middle = 0.5 * (scaled[:-1] + scaled[1:])
            room = np.minimum(middle, self.path.upper - middle) / self.path.upper
            free = room.argmax(axis=1)
            is_known &= room[np.arange(len(free)), free] > MIN_FREE_DISTANCE
            chosen, which = np.unique(free, return_inverse=True)
            rows = self.gram.rows(chosen)[which]  # y f(x) = 1 at a free point, at both ends of its segment
            left = left + (self.sigma[free] - np.einsum("ij,ij->i", rows, weights[:-1]))[:, None]
            right = right + (self.sigma[free] - np.einsum("ij,ij->i", rows, weights[1:]))[:, None]
        return left, right, is_known


def accuracy_steps(path: Any, X: Any, y: ArrayLike) -> tuple[NDArray, NDArray]:
    """Return C and accuracies, as `RegularizationPath.accuracy` does."""
    if path.classes_ is None or path.parameter != "C":
        raise ProblemError("accuracy is for the path of a classifier along C")
    points, labels = path._fitted._check_new_data(X), np.asarray(y)
    if labels.shape != (points.shape[0],) or not len(labels):
        raise ProblemError(f"y has shape {labels.shape}; one label for each of the {points.shape[0]} points is needed")
    is_positive, is_known_label = labels == path.classes_[1], np.isin(labels, path.classes_)
    segments, last = _Segments(path, points), len(path.values) - 1
    starts, counts, events = path.values[:-1], np.empty(last), []
    for start in range(0, last, BREAKPOINTS_PER_BLOCK):
        check_time()
        stop = min(last, start + BREAKPOINTS_PER_BLOCK)
        left, right, is_known = segments.block(start, stop)
        right_now = ((np.where(left == 0, right, left) >= 0) == is_positive) & is_known_label
        counts[start:stop] = np.where(is_known, right_now.sum(axis=1), -1.0)
        s, j = np.nonzero((left * right < 0) & is_known[:, None] & is_known_label)
        low, high, before, after = starts[start + s], path.values[start + s + 1], left[s, j], right[s, j]
        crossing = low + (high - low) * (before / (before - after))
        events.append((start + s, crossing, np.where((after >= 0) == is_positive[j], 1.0, -1.0)))
    where, crossings, changes = (np.concatenate(part) for part in zip(*events, strict=True))
    # A segment starts with its own count, so that no error is carried on from the ones before.
    ends = counts + np.bincount(where, changes, minlength=last)
    jumps = counts - np.append(0.0, ends[:-1])
    C, segment = np.concatenate([starts, crossings]), np.concatenate([np.arange(last), where])
    order = np.lexsort((np.arange(len(C)) >= last, C, segment))  # a crossing at a breakpoint comes after its start
    running = np.cumsum(np.concatenate([jumps, changes])[order])
    C, share = C[order], np.where(running < 0, np.nan, running / len(labels))
    # Steps of no width, and equal neighbours.
    keep = np.append(np.diff(C) > 0, path.values[-1] > C[-1])
    C, share = C[keep], share[keep]
    is_new = np.append(True, ~((share[1:] == share[:-1]) | (np.isnan(share[1:]) & np.isnan(share[:-1]))))
    return np.append(C[is_new], path.values[-1]), share[is_new]


def best_interval(steps: list[tuple[NDArray, NDArray]]) -> tuple[float, float, float] | None:
    """Return the largest mean of step functions on one interval of C, and the widest interval where it is reached.

    Parameters
    ----------
    steps : list of (C of shape (k + 1,), scores of shape (k,))
        A mean is not known where one of the scores is NaN.

    Returns
    -------
    (score, low, high) or None
        The widest by the ratio of its ends; None if the mean is known nowhere.
    """
    cuts = np.unique(np.concatenate([C for C, _ in steps]))
    means = np.mean([scores[np.searchsorted(C, cuts[:-1], side="right") - 1] for C, scores in steps], axis=0)
    if np.isnan(means).all():
        return None
    best = float(np.nanmax(means))
    edges = np.diff(np.concatenate([[0], (means >= best - SCORE_ROUND_OFF).astype(int), [0]]))
    lows, highs = cuts[np.flatnonzero(edges > 0)], cuts[np.flatnonzero(edges < 0)]
    k = int(np.argmax(highs / lows))
    return best, float(lows[k]), float(highs[k])
