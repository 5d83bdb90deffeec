"""Repeated points: equal variables of a dual problem are merged into one.

Two variables are equal if they have the same point, the same sign and the same linear term. One variable stands for the
sum of k equal ones, and its bound is the sum of their bounds: Q depends on that sum alone, so f and the dual bound are
those of the merged problem, and a certificate of one problem is a certificate of the other. The answer is spread over
the equal variables in proportion to their bounds. If each variable has a ridge rᵢ (squared hinge) and no bound, the
merged one has the ridge 1/Σ(1/rᵢ), and is spread in proportion to 1/rᵢ, which is optimal.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ._points import hash_rows
from .certificate import Certificate, by_places, may_be_rounded
from .gram import Gram
from .places import few_distinct, grouped, places_of
from .problem import DualProblem
from .runtime.arrays import immutable
from .solution import Progress, Solution, Trajectory
from .sparse_points import SparsePoints

#: Equal variables are looked for from this number of variables on. A smaller problem takes about as long as the sample.
MIN_VARIABLES = 1000
#: The merged problem is solved only if at most this share of the variables is distinct. It then saves more time than
#: hashing takes.
MAX_DISTINCT_SHARE = 0.7


@dataclass(frozen=True, eq=False)
class Repeats:
    """A merged problem, and the map from its answers to those of the original problem."""

    problem: DualProblem  # the merged problem, with one variable for each group of equal ones
    group: NDArray  # the merged variable that stands for each original one; int array of shape (n,)
    share: NDArray  # the part of the merged variable that each original one gets; shape (n,)
    original: DualProblem  # the problem with equal variables
    point: tuple[NDArray, NDArray]  # a point of the Gram at each place, and the place of each point

    def spread(self, alpha: NDArray) -> NDArray:
        """Return the original α, shape (n,), of a merged one; variables at a bound are at their bound to the bit."""
        found = self.share * alpha[self.group]
        full = (alpha >= self.problem.upper)[self.group] & np.isfinite(self.original.upper)
        return immutable(np.where(full, self.original.upper, np.minimum(found, self.original.upper)))

    def summed(self, alpha: NDArray) -> NDArray:
        """Return the merged α of an original one."""
        return np.bincount(self.group, alpha, minlength=self.problem.n)

    def certificate(self, certificate: Certificate) -> Certificate:
        """Return a certificate with the original α; the infeasibility of that is at most the stated one.

        Where round-off leaves a gap, α is rounded so that the sums of each place are right, and certified by these.
        """
        found = replace(certificate, alpha=self.spread(certificate.alpha))
        places = places_of(self.original, self.point) if may_be_rounded(certificate) else None
        if places is None:
            return found
        return by_places(places, replace(found, alpha=immutable(places.rounded(found.alpha))))

    def solution(self, solution: Solution) -> Solution:
        """Return the original problem's solution of a merged one."""
        witness, trajectory, cost = solution.witness, solution.trajectory, solution.cost
        known, raw = solution.__dict__.get("certified"), solution.__dict__.get("raw_certified")
        if known is None and "made" in solution.__dict__:
            known = solution.certificate
        certified, alpha, raw_alpha = None, self.spread(solution.alpha), self.spread(solution.raw_alpha)
        if known is not None:
            certified = self.certificate(known)
            alpha = certified.alpha
            if np.array_equal(solution.raw_alpha, known.alpha):
                raw_alpha = alpha
        return replace(
            solution,
            problem=self.original,
            alpha=alpha,
            raw_alpha=raw_alpha,
            support=np.flatnonzero(np.isin(self.group, solution.support)),
            witness=None if witness is None else self.share * witness[self.group],
            trajectory=None if trajectory is None else self._trajectory(trajectory),
            certified=certified,
            raw_certified=None if raw is None else self.certificate(raw),
            cost=replace(cost, kernel_columns=cost.kernel_columns * self.problem.n / self.original.n),
            provenance=solution.provenance | {"distinct_variables": self.problem.n},
        )

    def progress(self, progress: Progress) -> Progress:
        """Return what a callback receives, with the original α."""
        certificate = self.certificate(progress.certificate)
        return replace(progress, alpha=np.array(self.spread(progress.alpha)), certificate=certificate)

    def _trajectory(self, trajectory: Trajectory) -> Trajectory:
        rows = [self.spread(alpha) for alpha in trajectory.alpha]
        return replace(trajectory, alpha=np.array(rows).reshape(len(rows), self.original.n))


def repeats_of(problem: DualProblem) -> Repeats | None:
    """Return the merged problem if a sample of the points shows that few variables are distinct, else None.

    Points must be dense rows of a named kernel: the values of a callable may differ between equal points, as those of a
    sampled quantum kernel do. The feasible set must be a box or a simplex.
    """
    gram = problem.gram
    if problem.n < MIN_VARIABLES or not isinstance(gram, Gram) or not gram.has_named_kernel:
        return None
    points = gram.X
    if isinstance(points, SparsePoints) or not few_distinct(points, MAX_DISTINCT_SHARE) or problem.lower.any():
        return None
    ridge = problem.ridge
    has_ridge = bool(ridge.any())
    if has_ridge and not (ridge.min() > 0 and np.isposinf(problem.upper).all()):
        return None
    point = grouped(hash_rows(points), points)
    if point is None:
        return None
    idx = np.arange(problem.n) if problem.idx is None else problem.idx
    first_point, of_point = point
    signs = problem.sigma + (2.0 * problem.e if problem.e is not None else 0.0)
    keys = np.stack([of_point[idx].astype(float), signs, problem.p], axis=1)
    merged = grouped(hash_rows(keys), keys)
    if merged is None or len(merged[0]) > MAX_DISTINCT_SHARE * problem.n:
        return None
    first, group = merged
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
    return Repeats(small, group, share, problem, point)
