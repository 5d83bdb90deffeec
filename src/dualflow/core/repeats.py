"""Repeated points: variables of a dual problem that are alike, made one variable.

Two variables are alike where they have the same point, the same sign and the same linear term. The sum of k such
variables is one variable whose bound is the sum of their bounds: Q sees their sum alone, so f and the dual bound are
those of the smaller problem, and a certificate of one is a certificate of the other. The sum is given back in
proportion to the bounds. Where each variable has a ridge rᵢ (squared hinge) and no bound, the sum has the ridge
1/Σ(1/rᵢ), and it is given back in proportion to 1/rᵢ, which is optimal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from .certificate import Certificate
from .gram import Gram
from .problem import DualProblem
from .runtime.arrays import immutable
from .solution import Progress, Solution, Trajectory
from .sparse_points import SparsePoints

__all__ = ["Repeats", "repeats_of"]

#: Variables from which repeats are looked for: a smaller problem takes about as long as the sample.
MIN_VARIABLES = 1000
#: Points of the sample, in units of the square root of their number: where each point is there twice, it has 32 equal
#: pairs in the mean.
SAMPLE_PER_ROOT = 8
#: Different variables, as a part of all, up to which the smaller problem is solved: below it the time saved is more
#: than that of hashing.
MAX_DISTINCT_SHARE = 0.7
#: Odd multipliers of the hash of a row (those of SplitMix64).
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)


@dataclass(frozen=True, eq=False)
class Repeats:
    """A problem of different variables, and how its answers are those of the problem with repeats.

    Parameters
    ----------
    problem : DualProblem
        With one variable for each group of equal ones.
    group : int array of shape (n,)
        The variable of ``problem`` that each variable is part of.
    share : array of shape (n,)
        Its part of that.
    given : DualProblem
        The problem with repeats.
    """

    problem: DualProblem
    group: NDArray
    share: NDArray
    given: DualProblem

    def spread(self, alpha: NDArray) -> NDArray:
        """Multipliers of the problem with repeats, shape (n,), by those of ``problem``. Bounds stay bounds to the
        bit."""
        found = self.share * alpha[self.group]
        full = (alpha >= self.problem.upper)[self.group] & np.isfinite(self.given.upper)
        return immutable(np.where(full, self.given.upper, np.minimum(found, self.given.upper)))

    def summed(self, alpha: NDArray) -> NDArray:
        """Multipliers of ``problem`` by those of the problem with repeats."""
        return np.bincount(self.group, alpha, minlength=self.problem.n)

    def certificate(self, certificate: Certificate) -> Certificate:
        """The same figures, of the problem with repeats; its distance from the feasible set is at most the one said."""
        return replace(certificate, alpha=self.spread(certificate.alpha))

    def solution(self, solution: Solution) -> Solution:
        """A solution of ``problem`` as one of the problem with repeats."""
        witness, trajectory, cost = solution.witness, solution.trajectory, solution.cost
        known, raw = solution.__dict__.get("certified"), solution.__dict__.get("raw_certified")
        if known is None and "made" in solution.__dict__:
            known = solution.certificate
        certified = None if known is None else self.certificate(known)
        return replace(
            solution,
            problem=self.given,
            alpha=self.spread(solution.alpha) if certified is None else certified.alpha,
            raw_alpha=self.spread(solution.raw_alpha),
            support=np.flatnonzero(np.isin(self.group, solution.support)),
            witness=None if witness is None else self.share * witness[self.group],
            trajectory=None if trajectory is None else self._trajectory(trajectory),
            certified=certified,
            raw_certified=None if raw is None else self.certificate(raw),
            cost=replace(cost, kernel_columns=cost.kernel_columns * self.problem.n / self.given.n),
            provenance=solution.provenance | {"distinct_variables": self.problem.n},
        )

    def progress(self, progress: Progress) -> Progress:
        """What a callback is given, of the problem with repeats."""
        certificate = self.certificate(progress.certificate)
        return replace(progress, alpha=np.array(self.spread(progress.alpha)), certificate=certificate)

    def _trajectory(self, trajectory: Trajectory) -> Trajectory:
        rows = [self.spread(alpha) for alpha in trajectory.alpha]
        return replace(trajectory, alpha=np.array(rows).reshape(len(rows), self.given.n))


def repeats_of(problem: DualProblem) -> Repeats | None:
    """The problem of the different variables, where a sample of the points says that they are few enough; else None.

    Points must be dense rows of a named kernel: the values of a callable may differ between equal points, as those of a
    sampled quantum kernel do. The feasible set must be a box or a simplex.
    """
    gram = problem.gram
    if problem.n < MIN_VARIABLES or not isinstance(gram, Gram) or not gram.has_named_kernel:
        return None
    points = gram.X
    if isinstance(points, SparsePoints) or not _few_distinct(points) or problem.lower.any():
        return None
    ridge = problem.ridge
    has_ridge = bool(ridge.any())
    if has_ridge and not (ridge.min() > 0 and np.isposinf(problem.upper).all()):
        return None
    point = _grouped(_hashes(points), points)
    if point is None:
        return None
    idx = np.arange(problem.n) if problem.idx is None else problem.idx
    first_point, of_point = point
    signs = problem.sigma + (2.0 * problem.e if problem.e is not None else 0.0)
    keys = np.stack([of_point[idx].astype(float), signs, problem.p], axis=1)
    alike = _grouped(_hashes(keys), keys)
    if alike is None or len(alike[0]) > MAX_DISTINCT_SHARE * problem.n:
        return None
    first, group = alike
    count = len(first)
    if has_ridge:
        weight = 1.0 / ridge
        upper = np.full(count, np.inf)
    else:
        weight = np.where(np.isfinite(problem.upper), problem.upper, 1.0)
        upper = np.bincount(group, problem.upper, minlength=count)
    total = np.bincount(group, weight, minlength=count)
    sigma = problem.sigma[first]
    e = sigma if problem.e is problem.sigma else None if problem.e is None else problem.e[first]
    if problem.idx is None:
        kept, new_idx = idx[first], None
    else:
        kept, new_idx = first_point, of_point[idx[first]]
    small = DualProblem(
        gram.subset(kept),
        p=problem.p[first],
        lower=np.zeros(count),
        upper=upper,
        e=e,
        d=problem.d,
        sigma=sigma,
        scale=problem.scale,
        offset=problem.offset,
        ridge=1.0 / total if has_ridge else np.zeros(count),
        idx=new_idx,
        reading=problem.reading,
        total=problem.total,
    )
    share = np.divide(weight, total[group], out=np.zeros(problem.n), where=total[group] > 0)
    return Repeats(small, group, share, problem)


def _few_distinct(points: NDArray) -> bool:
    """Whether a random sample of the points has enough equal pairs: at most `MAX_DISTINCT_SHARE` of all points are
    distinct then."""
    n = len(points)
    sample = _sample(n)
    # If MAX_DISTINCT_SHARE of n points differ and none occurs more than twice, 1 − MAX_DISTINCT_SHARE of n are pairs.
    most = len(sample) - 0.5 * (1.0 - MAX_DISTINCT_SHARE) * len(sample) ** 2 / n
    # Most data have a column whose values differ: one look at it is enough.
    if len(np.unique(points[sample, points.shape[1] // 2])) > most:
        return False
    return len(np.unique(_hashes(points[sample]))) <= most


@lru_cache(maxsize=16)
def _sample(n: int) -> NDArray:
    """Places of random points, in order; a neighbour may be a repeat, so that equal steps would miss it."""
    return np.unique(np.random.default_rng(0).integers(n, size=int(SAMPLE_PER_ROOT * n**0.5)))


def _hashes(rows: NDArray) -> NDArray:
    """A 64-bit hash of each row of numbers, shape (n,); −0 is 0."""
    first, second = (np.uint64(value) for value in _MULTIPLIERS)
    bits = np.ascontiguousarray(rows + 0.0, dtype=float).view(np.uint64)
    found = np.zeros(len(bits), dtype=np.uint64)
    for column in bits.T:
        found ^= column
        found ^= found >> np.uint64(30)
        found *= first
        found ^= found >> np.uint64(27)
        found *= second
        found ^= found >> np.uint64(31)
    return found


def _grouped(hashes: NDArray, rows: NDArray) -> tuple[NDArray, NDArray] | None:
    """The first row of each group of equal ones, in their order, and the group of each row; None where rows of one hash
    are not equal."""
    _, first, group = np.unique(hashes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.intp)
    place[order] = np.arange(len(order))
    first, group = first[order], place[group]
    return (first, group) if np.array_equal(rows[first][group], rows) else None
