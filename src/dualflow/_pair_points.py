"""One pair of classes solved from its points, where few rows of its kernel matrix are needed."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._point_sums import PointSums
from .core._pair_bound import certify_pair, project_pair
from .core.kernels import Gram
from .core.radial import FEW_FEATURES
from .core.solution import SHARP
from .core.sparse_points import SparsePoints
from .working_set.from_points import SMALL_ENOUGH, FromPoints

__all__ = ["FoundPair", "pair_from_points", "suits_points"]

#: Points from which rows are made when they are asked for, and up to which: fewer take no longer all at once, and more
#: are worth a run of their own, as are those whose rows are dear: of so many numbers.
FEWEST, MOST, HEAVY = 180, 8192, 600_000
#: The same of more than `FEW_FEATURES`, of up to `SAMPLED` points: 1.2 to 2 × faster where less than half of them are
#: support vectors, and 0.7 to 1.2 where nearly all are. A pair of several classes is told apart more easily.
HEAVY_BY_BLAS, HEAVY_OF_SEVERAL = 1_000_000, 2_000_000
#: Points beyond which samples of so many say how many support vectors are to be expected; and up to how many it pays.
SAMPLED, SAMPLES, EXPECTED = 4096, (512, 1024), 1500
#: Points for each feature up to which BLAS makes all rows sooner than the compiled product makes those asked for: 1.1
#: to 2.4 × faster over 200 to 640 points of 64 to 500 features.
WIDE = 7


class FoundPair(NamedTuple):
    """What one pair came to: as `core._pair_bound.certify_listed` has it, and kernel entries evaluated."""

    alpha: NDArray
    point: NDArray
    weights: NDArray
    figures: NDArray
    entries: float


def suits_points(gram: Gram, n: int, of_several: bool = False) -> bool:
    """Whether n points of two classes, all that there are or ``of_several``, are first tried by rows they ask for."""
    if not gram.is_radial or isinstance(gram.X, SparsePoints):
        return False
    features = gram.X.shape[1]
    if n <= SMALL_ENOUGH:
        return n >= FEWEST and n > WIDE * features
    if features > FEW_FEATURES:
        return n <= SAMPLED and n * features < (HEAVY_OF_SEVERAL if of_several else HEAVY_BY_BLAS)
    return n <= MOST and n * features < HEAVY


def _expected(gram: Gram, order: NDArray, e: NDArray, upper: NDArray) -> float:
    """About how many support vectors there will be, by how their part falls from one sample to another, twice as
    large."""
    parts = list[float]()
    for size in SAMPLES:
        some = np.arange(size) * len(order) // size
        sample = FromPoints(gram, order[some], e[some], 1.0, upper[some], np.zeros(size), np.inf)
        sample.settle(np.inf)
        parts.append(max(1, int(np.count_nonzero(sample.beta))) / size)
    return len(order) * parts[1] * (parts[1] / parts[0]) ** math.log2(len(order) / SAMPLES[1])


def pair_from_points(
    gram: Gram, order: NDArray, m: int, upper: NDArray, sign: float, enough: float = SHARP
) -> FoundPair | None:
    """The hinge's optimum with an intercept for points ``order``, of which the first m have the label ``sign`` and the
    others −``sign``, below bounds ``upper``.

    None where more rows than a few are asked for, and there are too many to make them all. What the certificate is made
    of is computed anew, from the points.
    """
    n = len(order)
    e = np.empty(n)
    e[:m], e[m:] = sign, -sign
    search = FromPoints(gram, order, e, 1.0, upper, np.zeros(n), n / 2)
    expected = _expected(gram, order, e, upper) if n > SAMPLED else None
    if expected is not None and expected > EXPECTED:
        return None
    if not search.settle(enough, expected):
        return None
    point, weights, figures = np.empty(n), np.zeros(n), np.empty((1, 8))

    def certify(sums: NDArray) -> tuple[float, float]:
        certify_pair(m, upper, sign, point, weights, sums, figures[0])
        return figures[0, 4], figures[0, 5]

    products = PointSums(gram, search.points, search.single, e, 1.0)
    while True:
        alpha = search.alpha
        project_pair(m, upper, sign, alpha, point, weights, figures[0])
        sums = products.of(weights, certify)
        search.entries += float(n) * products.columns
        objective, bound = figures[0, :2].tolist()
        if objective - bound <= enough * max(abs(objective), abs(bound)) or not search.look(sums):
            return FoundPair(alpha, point, weights, figures, search.entries)
