"""Probabilities of a support vector classifier from its decision values.

A `Calibrator` turns decision values of a pair of classes into the probability of the class of y = +1; it is fitted to
values of the training points by models that have not seen them. `coupled` joins the probabilities of all pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from ..core.runtime.threads import cached_property
from ._left_out import MAX_POINTS_EXACT

__all__ = ["METHODS", "Calibrator", "coupled"]

#: How decision values become probabilities.
METHODS = ("sigmoid", "isotonic", "venn-abers")
#: Points of each class that are added to the targets of the sigmoid: with ½ (Krichevsky and Trofimov 1981) the
#: estimated share of a class has the least worst-case log loss; Platt adds 1.
ADDED_POINTS = 0.5
#: Newton steps of the sigmoid's fit; it takes about 10.
MAX_NEWTON_STEPS = 100
#: Largest component of the gradient at which the sigmoid's fit ends, relative to the number of points.
NEWTON_TOL = 1e-10
#: Least part of a step that the line search of the sigmoid's fit tries.
MIN_STEP = 1e-10
#: Least probability of a class in a pair before coupling, as in LIBSVM: 0 would decide against the class alone.
MIN_PAIR_PROBABILITY = 1e-7


# --- decision values to probabilities --------------------------------------------------------------


@dataclass(frozen=True)
class Calibrator:
    """A monotone map from the decision values of a pair of classes to the probability of y = +1.

    Parameters
    ----------
    method : {"sigmoid", "isotonic", "venn-abers"}
    values : array of shape (n,)
        Decision values of the training points, each by the model without the point.
    is_positive : bool array of shape (n,)
        Whether y = +1.
    weight : array of shape (n,)
        Sample weights; they count relative to their mean.
    """

    method: str
    values: NDArray
    is_positive: NDArray
    weight: NDArray

    @cached_property
    def _map(self) -> Callable[[NDArray], NDArray]:
        given = self.values, self.is_positive.astype(float), self.weight / self.weight.mean()
        if self.method == "sigmoid":
            slope, offset = sigmoid_of(*given)
            return lambda f: expit(slope * f + offset)
        if self.method == "isotonic":
            from sklearn.isotonic import IsotonicRegression  # imported here, because it takes long

            predicted: Callable[[NDArray], NDArray] = IsotonicRegression(out_of_bounds="clip").fit(*given).predict
            return predicted
        scores, table = venn_abers(*given)

        def merged(f: NDArray) -> NDArray:
            low, high = table[:, np.searchsorted(scores, f, "left") + np.searchsorted(scores, f, "right")]
            return high / (1.0 - low + high)

        return merged

    @property
    def is_exact(self) -> bool:
        """Whether ``values`` are exact; those of more points are of the first segment (`left_out_decisions`)."""
        return len(self.values) <= MAX_POINTS_EXACT

    def __call__(self, f: NDArray) -> NDArray:
        """Return the probabilities of y = +1 at decision values f, in their shape."""
        return self._map(f)

    def __getstate__(self) -> dict[str, NDArray | str]:
        return {name: value for name, value in self.__dict__.items() if name != "_map"}  # a pickle holds no function


def sigmoid_of(values: NDArray, targets: NDArray, weight: NDArray) -> tuple[float, float]:
    """Return slope a ≥ 0 and offset b of the sigmoid 1/(1 + exp(−af − b)) with the least log loss.

    Targets are (n₊ + ½)/(n₊ + 1) for y = +1 and ½/(n₋ + 1) for y = −1, so that separable data have a finite optimum
    (Platt 1999, who adds 1 and 2). Where values that are larger for y = −1 would make the slope negative, it is 0.
    """
    scale = float(np.abs(values).max(initial=0.0)) or 1.0
    above = float(weight @ targets)
    below = float(weight.sum()) - above
    t = np.where(
        targets > 0, (above + ADDED_POINTS) / (above + 2 * ADDED_POINTS), ADDED_POINTS / (below + 2 * ADDED_POINTS)
    )
    design = np.column_stack([values / scale, np.ones(len(values))])

    def loss(at: NDArray) -> float:
        z = design @ at
        return float(weight @ (np.logaddexp(0.0, z) - t * z))

    share = float(weight @ t) / float(weight.sum())
    best = np.array([0.0, np.log(share / (1.0 - share))])
    constant = float(best[1])
    for _ in range(MAX_NEWTON_STEPS):
        p = expit(design @ best)
        gradient = design.T @ (weight * (p - t))
        if np.abs(gradient).max() <= NEWTON_TOL * len(values):
            break
        curvature = (design.T * (weight * p * (1.0 - p))) @ design
        curvature += 1e-12 * np.trace(curvature) * np.eye(2)  # all values may be equal
        step = np.linalg.solve(curvature, gradient)
        length, at, decrease = 1.0, loss(best), 1e-4 * float(gradient @ step)
        while length >= MIN_STEP and loss(best - length * step) > at - length * decrease:
            length *= 0.5
        if length < MIN_STEP:
            break
        best = best - length * step
    return (float(best[0]) / scale, float(best[1])) if best[0] > 0 else (0.0, constant)


def venn_abers(values: NDArray, targets: NDArray, weight: NDArray) -> tuple[NDArray, NDArray]:
    """Return the inductive Venn-Abers predictor of a new point for all decision values (Vovk and Petej, UAI 2014).

    p₀ and p₁ are the values at the new point of the isotonic regressions of the training points and the new point, with
    the label 0 and 1. The isotonic regressions of the points before it and after it do not depend on it, so that each
    p follows by pooling it with the blocks beside it.

    Returns
    -------
    scores : array of shape (m,)
        The distinct decision values, ascending.
    table : array of shape (2, 2m + 1)
        p₀ and p₁; column 2k is between scores k − 1 and k, column 2k + 1 at score k.
    """
    scores, place = np.unique(values, return_inverse=True)
    m = len(scores)
    weights = np.bincount(place, weight).tolist()
    sums = np.bincount(place, weight * targets).tolist()
    after = _first_blocks(sums, weights, 1.0)
    before = [(m - 1 - end, s, w) for end, s, w in reversed(_first_blocks(sums[::-1], weights[::-1], -1.0))]
    table = np.empty((2, 2 * m + 1))
    for column in range(2 * m + 1):
        k, is_tied = divmod(column, 2)
        for label in (0, 1):
            s, w = (sums[k] + label, weights[k] + 1.0) if is_tied else (float(label), 1.0)
            left, right = k - 1, k + is_tied
            while True:
                if right < m and after[right][1] * w <= s * after[right][2]:
                    end, more, added = after[right]
                    right = end + 1
                elif left >= 0 and before[left][1] * w >= s * before[left][2]:
                    end, more, added = before[left]
                    left = end - 1
                else:
                    break
                s, w = s + more, w + added
            table[label, column] = s / w
    return scores, table


def _first_blocks(sums: list[float], weights: list[float], sign: float) -> list[tuple[int, float, float]]:
    """Return the first block of the isotonic regression of entries k, k + 1, … for each k: its end, sum and weight.

    With ``sign`` −1 the regression is decreasing.
    """
    found: list[tuple[int, float, float]] = [(0, 0.0, 0.0)] * len(sums)
    for k in range(len(sums) - 1, -1, -1):
        end, s, w = k, sums[k], weights[k]
        while end + 1 < len(sums) and sign * found[end + 1][1] * w <= sign * s * found[end + 1][2]:
            end, more, added = found[end + 1]
            s, w = s + more, w + added
        found[k] = end, s, w
    return found


def coupled(pair_probabilities: NDArray, pairs: tuple[tuple[int, int], ...], classes: int) -> NDArray:
    """Return the probabilities of several classes from those of all pairs.

    They minimise Σᵢ Σⱼ (rⱼᵢpᵢ − rᵢⱼpⱼ)² over Σp = 1, where rᵢⱼ is the probability of class i in the pair (i, j): the
    second method of Wu, Lin and Weng (JMLR 5, 2004), as in LIBSVM. Its linear system has a nonnegative solution.

    Parameters
    ----------
    pair_probabilities : array of shape (n, n_pairs)
        Probability of the first class of each pair.
    pairs : tuple of (int, int)
    classes : int

    Returns
    -------
    array of shape (n, classes)
        Rows sum to 1.
    """
    n = len(pair_probabilities)
    r = np.clip(pair_probabilities, MIN_PAIR_PROBABILITY, 1.0 - MIN_PAIR_PROBABILITY)
    system = np.zeros((n, classes + 1, classes + 1))
    for pair, (i, j) in enumerate(pairs):
        system[:, i, i] += (1.0 - r[:, pair]) ** 2
        system[:, j, j] += r[:, pair] ** 2
        system[:, i, j] = system[:, j, i] = -r[:, pair] * (1.0 - r[:, pair])
    system[:, :classes, classes] = system[:, classes, :classes] = 1.0
    right = np.zeros((n, classes + 1, 1))
    right[:, classes] = 1.0
    found = np.maximum(np.linalg.solve(system, right)[:, :classes, 0], 0.0)
    return found / found.sum(axis=1, keepdims=True)
