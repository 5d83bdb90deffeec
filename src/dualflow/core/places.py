"""Places: distinct points, each with the exact sum of the weights of its variables.

Where equal points have both labels and C is large, their variables are large and nearly cancel: of 20 000 points at 64
places with C = 1e6 they add up to 1e8 at a place, and their difference is about 1. Only this difference counts in Qα.
If weights are summed in any order, each margin has an error of about ε · 1e8, and the gap is 1e-8. Sums of each place
that are exact leave errors in proportion to the difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ._points import hash_rows
from .bounds import sum_error
from .gram import Gram
from .problem import DualProblem, Kind
from .runtime.threads import cached_property
from .sparse_points import SparsePoints

#: The sample has this many times √n points. If each point occurs twice, it has 32 equal pairs on average.
SAMPLE_PER_ROOT = 8
#: The points of the sample are first compared in this many columns.
SAMPLE_COLUMNS = 8
#: Up to this many places, their kernel matrix is made: 8 MB.
MAX_PLACES = 1024
#: Places are looked for only if a sample estimates that they are at most this share of the points.
MAX_PLACE_SHARE = 0.7
#: Largest move of a variable, relative to the largest sum of a place. Round-off times the condition of the places'
#: kernel matrix leaves an optimum this far off.
MAX_MOVE = 1e-12


def few_distinct(points: NDArray, share: float) -> bool:
    """Whether a random sample has enough equal pairs for at most a ``share`` of all points to be distinct."""
    n = len(points)
    sample = _sample(n)
    # If `share` · n points differ and none occurs more than twice, (1 − share) · n are pairs.
    most = len(sample) - 0.5 * (1.0 - share) * len(sample) ** 2 / n
    # A few columns show most points to be different, at a cost that does not grow with the features.
    step = 1 + points.shape[1] // SAMPLE_COLUMNS
    return all(_count_distinct(hash_rows(points, sample, each)) <= most for each in (step, 1))


def _count_distinct(hashes: NDArray) -> int:
    ordered = np.sort(hashes)
    return 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


@lru_cache(maxsize=16)
def _sample(n: int) -> NDArray:
    """Return the indices of random points, ascending; evenly spaced ones would miss copies that follow each other."""
    return np.unique(np.random.default_rng(0).integers(n, size=int(SAMPLE_PER_ROOT * n**0.5)))


def grouped(hashes: NDArray, rows: NDArray) -> tuple[NDArray, NDArray] | None:
    """Return the first row of each group of equal rows, ascending, and the group of each row.

    None if rows with one hash are not equal.
    """
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    first, group = first[order], place[group]
    return (first, group) if np.array_equal(rows[first][group], rows) else None


@dataclass(frozen=True, eq=False)
class Places:
    """The distinct points of a problem of a radial kernel with bounds, without a ridge."""

    problem: DualProblem
    first: NDArray  # a point of the Gram at each place; int array of shape (m,)
    of: NDArray  # the place of each variable; int array of shape (n,)

    @cached_property
    def matrix(self) -> NDArray:
        """The kernel matrix of the places, with scale and offset."""
        found: NDArray = self.problem.scale * (self.problem.gram.block(self.first, self.first) + self.problem.offset)
        return found

    @cached_property
    def members(self) -> list[NDArray]:
        """The variables of each place."""
        return np.split(np.argsort(self.of, kind="stable"), np.cumsum(np.bincount(self.of))[:-1])

    def weights(self, alpha: NDArray) -> NDArray:
        """Return Σσα of each place, rounded once."""
        signed = self.problem.sigma * alpha
        return np.array([math.fsum(signed[J]) for J in self.members])

    def product(self, alpha: NDArray) -> tuple[NDArray, float]:
        """Return Qα, and the `sum_error` of the weights, which its rounding error is in proportion to."""
        w = self.weights(alpha)
        return self.problem.sigma * (self.matrix @ w)[self.of], sum_error(np.abs(w) * np.sqrt(self.matrix.diagonal()))

    def rounded(self, alpha: NDArray) -> NDArray:
        """Return α with free variables moved by their last digits, so that the margins of their places are exact.

        It is a Newton step over the places with free variables, which one variable of each takes. α is returned if a
        step is larger than round-off.
        """
        problem, e = self.problem, self.problem.e
        room = np.minimum(alpha - problem.lower, problem.upper - alpha)
        free = np.array([J[np.argmax(room[J])] for J in self.members])
        (F,) = (room[free] > 0).nonzero()
        if not len(F) or (e is not None and e is not problem.sigma and not np.array_equal(e, problem.sigma)):
            return alpha
        free, w, m = free[F], self.weights(alpha), len(F)
        wanted = problem.sigma[free] * problem.p[free]
        A, right = np.zeros((m + 1, m + 1)), np.zeros(m + 1)
        A[:m, :m], right[:m] = self.matrix[np.ix_(F, F)], wanted - self.matrix[F] @ w
        A[:m, m] = A[m, :m] = 1.0
        right[m] = problem.d - math.fsum(w)
        if e is None:
            A, right = A[:m, :m], right[:m]
        try:
            step = np.linalg.solve(A, right)[:m] * problem.sigma[free]
        except np.linalg.LinAlgError:
            return alpha
        moved = alpha.copy()
        moved[free] += step
        fits = ((moved >= problem.lower) & (moved <= problem.upper)).all()
        largest = float(np.bincount(self.of, np.abs(alpha)).max())
        return moved if fits and float(np.abs(step).max()) <= MAX_MOVE * largest else alpha


def places_of(problem: DualProblem, point: tuple[NDArray, NDArray] | None = None) -> Places | None:
    """Return the places of a problem, None if they are not few or the problem is of another kind.

    ``point`` has a point of the Gram at each place and the place of each point, if they are known.
    """
    gram = problem.gram
    if not isinstance(gram, Gram) or not gram.is_radial or isinstance(gram.X, SparsePoints):
        return None
    if point is None and not few_distinct(gram.X, MAX_PLACE_SHARE):
        return None
    if problem.kind not in (Kind.BOX, Kind.BOX_EQUALITY) or problem.has_ridge or np.isinf(problem.upper).any():
        return None
    point = grouped(hash_rows(gram.X), gram.X) if point is None else point
    if point is None or len(point[0]) > MAX_PLACES:
        return None
    return Places(problem, point[0], point[1] if problem.idx is None else point[1][problem.idx])
