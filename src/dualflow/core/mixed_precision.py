"""Products Qα in float64 only where float32 leaves a doubt.

A variable at 0 with a multiplier ρᵢ ≥ 0 takes no part in D(ν) = −½ αᵀQα + νd + Σᵢ min(0, uᵢρᵢ) (`bounds`), however
large ρᵢ is. Where float32 finds a ρᵢ that is larger than all that it can be wrong by, its sign is certain, and f, D and
ν are what they are with all of Qα in float64. Most variables of most problems are such.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._bound import rough_doubts
from .bounds import dual_bound
from .problem import DualProblem, Kind
from .radial import AN_EXPONENTIAL, RadialPoints
from .sparse_points import SparsePoints
from .workspace import Workspace

__all__ = ["Screen", "is_bounded", "rough_sums"]

#: Multiplications of a product from which it is worth a look (two milliseconds); variables at 0 that float64 may be
#: left with, as a part of all; and how many of them are asked first.
WORTH_A_LOOK, FEW_IN_DOUBT, SAMPLE = 1 << 25, 0.3, 128
#: Unit round-off of float32, and terms that are summed in it at a time, where not all are.
UNIT, AT_A_TIME = 2.0**-24, 34
#: Weights that float32 holds with all its digits, with room for sums of them.
ORDINARY = 1e-30, 1e30
#: In the place of a multiplier that is far from 0.
FAR = 1e300
#: The part of the points with weight from which their sums in float32, which nobody needs, are left out.
MANY = 1 / 8
#: The largest relative error of a kernel value for which first-order bounds, with a tenth more, are bounds.
LARGEST_ERROR = 0.05
#: The part of its doubt beyond which a variable that is looked at is left alone: the multiplier may move a little.
AT_EASE = 2.0


class Screen:
    """Qα of one problem, whose entries at 0 may be in float32 where their multipliers' signs are certain.

    A product in float32 of all is kept with what it may be wrong by. For another α' that is more by as much as kernel
    sums can have changed: by no more than ‖α' − α‖₁, for the values of a radial kernel are at most 1.

    Parameters
    ----------
    problem : Workspace
    """

    def __init__(self, problem: Workspace) -> None:
        self.problem = problem
        self._base: tuple[NDArray, NDArray, NDArray] | None = None  # weights of points, kernel sums, doubts
        gram = problem.gram
        self.applies = (
            gram.is_radial
            and gram.is_safe_in_single
            and not isinstance(gram.X, SparsePoints)
            and problem.kind is not Kind.AFFINE
            and not problem.kind.may_be_unbounded
            and problem.kind is not Kind.TWO_EQUALITIES  # whose level moves with ν
        )

    def product(self, alpha: NDArray) -> NDArray | None:
        """Qα of a feasible α, shape (n,); None where that is not for float32. Where it leaves many in doubt, all are in
        float64, as all to come will be: this `applies` no more."""
        if not self.serves(int(np.count_nonzero(alpha))):
            return None
        gram, weights = self.problem.gram, _weights(self.problem, alpha)
        self.applies = gram.radial_points(np.float32).bits is None  # which count as fast in either precision
        if not self.applies:
            return None
        # In float64 anyway: of points that have a variable with weight.
        support = self._beside(np.flatnonzero(alpha))
        exact = support, self.problem.product(alpha, support)
        found = None if self._base is None else self._settled(alpha, exact, *self._moved(weights))
        if found is None and self._promises(alpha, weights, exact):
            self._base = (weights, *self._sums(weights))
            found = self._settled(alpha, exact, *self._base[1:])
        if found is None:
            self.applies, self._base, found = False, None, np.empty(len(alpha))
            found[support] = exact[1]
            others = np.setdiff1d(np.arange(len(alpha)), support, assume_unique=True)
            found[others] = self.problem.product(alpha, others)
        return found

    @property
    def is_in_use(self) -> bool:
        """Whether entries of the last product may be in float32."""
        return self._base is not None

    def serves(self, count: int) -> bool:
        """Whether it is worth a try for so many variables with weight."""
        gram = self.problem.gram
        enough = gram.n * count * (AN_EXPONENTIAL + gram.X.shape[1]) >= WORTH_A_LOOK
        return self.applies and enough and not gram.has_whole

    def _sums(self, weights: NDArray, few: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Σⱼ weightsⱼ k(xᵢ, xⱼ) of all points, or few, by float32, shape (n,), and what they may be wrong by: ∞ where
        they were left out, as those with weight are where they are many.
        """
        gram, (J,) = self.problem.gram, weights.nonzero()
        rows: NDArray | slice = slice(None)
        if few is not None or len(J) > MANY * gram.n:
            rows = np.flatnonzero(weights == 0) if few is None else few
        points, others = gram.radial_points(np.float32, rows), gram.radial_points(np.float32, J)
        gram.count(len(points) * len(J))
        half = gram.gamma * gram.squares  # ‖a‖²/2 of points as float32 has them
        sums, doubt = np.zeros(gram.n), np.full(gram.n, np.inf)
        sums[rows], doubt[rows] = rough_sums(points, others, weights[J], half[rows], half[J], gram.X.shape[1])
        return sums, doubt

    def _moved(self, weights: NDArray) -> tuple[NDArray, NDArray]:
        """The sums kept, and what they may be wrong by for other weights."""
        assert self._base is not None
        before, sums, doubt = self._base
        return sums, doubt + float(np.abs(weights - before).sum())

    def _promises(self, alpha: NDArray, weights: NDArray, exact: tuple[NDArray, NDArray]) -> bool:
        """Whether float32 is likely to leave few in doubt, by a sample."""
        problem, gram = self.problem, self.problem.gram
        others = np.ones(gram.n, dtype=bool)
        others[exact[0] if problem.idx is None else problem.idx[exact[0]]] = False
        others = np.flatnonzero(others)
        if not (len(others) and is_bounded(weights[weights != 0], gram.reach, gram.X.shape[1])):
            return False
        few = others[:: max(1, len(others) // SAMPLE)]
        sums, doubt = self._sums(weights, few)
        # Others, whose multipliers nobody knows, are taken for far away.
        Qa = problem.p + FAR
        sample = few if problem.idx is None else np.flatnonzero(np.isin(problem.idx, few))
        Qa[sample] = _from_sums(problem, alpha, sums)[sample]
        Qa[exact[0]] = exact[1]
        ends = _multipliers(problem, alpha, Qa)
        if not ends:
            return False
        left = (_least(problem, Qa, ends) <= AT_EASE * self._in_variables(doubt))[sample]
        return bool(left.mean() * len(others) <= FEW_IN_DOUBT * gram.n)

    def _settled(self, alpha: NDArray, exact: tuple[NDArray, NDArray], sums: NDArray, doubt: NDArray) -> NDArray | None:
        """Qα from kernel sums in float32, some entries ``exact``: anew in float64 where a sign is in doubt; None if
        these are many."""
        problem = self.problem
        Qa, doubts, looked_at = _from_sums(problem, alpha, sums), self._in_variables(doubt), 0
        missing, product = exact
        while len(missing):
            Qa[missing], doubts[missing] = product, -np.inf
            ends = _multipliers(problem, alpha, Qa)
            if not ends:
                return None
            rho = _least(problem, Qa, ends)
            missing = np.flatnonzero(rho <= doubts)
            if len(missing):  # and those who nearly are, so that it need not be asked often
                missing = self._beside(np.flatnonzero(rho <= AT_EASE * doubts))
                looked_at += len(missing)
                if looked_at > FEW_IN_DOUBT * problem.n:
                    return None
                product = problem.product(alpha, missing)
        return Qa

    def _in_variables(self, doubt: NDArray) -> NDArray:
        """What entries of Qα may be wrong by, of what kernel sums may be; a copy."""
        problem = self.problem
        return problem.scale * (doubt if problem.idx is None else doubt[problem.idx])

    def _beside(self, variables: NDArray) -> NDArray:
        """All variables of some variables' points."""
        idx = self.problem.idx
        return variables if idx is None else np.flatnonzero(np.isin(idx, idx[variables]))


def is_bounded(weights: NDArray, reach: float, features: int) -> bool:
    """Whether `rough_sums` of weights other than 0 are within their doubts, for points with squared distances, times
    γ, of up to 4 ``reach``."""
    sizes = np.abs(weights)
    ordinary = len(sizes) > 0 and bool(ORDINARY[0] < sizes.min() <= sizes.max() < ORDINARY[1])
    return ordinary and 4.0 * _unit(features) * reach <= LARGEST_ERROR


def rough_sums(
    points: RadialPoints, others: RadialPoints, weights: NDArray, half: NDArray, half_of_others: NDArray, features: int
) -> tuple[NDArray, NDArray]:
    """Σⱼ weightsⱼ k(xᵢ, zⱼ) of points in float32, and what they may be wrong by, as `is_bounded` has it; given ‖xᵢ‖²/2
    and ‖zⱼ‖²/2 in float64.

    The exponent is a sum of m + 2 terms, aₖbₖ and two halves of squares, whose sizes are at most ½(‖a‖ + ‖b‖)² in
    all; so many units of that are lost, in whatever order they are added up (Higham, Accuracy and Stability of
    Numerical Algorithms, eq. 3.5), and few more by their own rounding.
    """
    size, columns = np.abs(weights), np.empty((len(weights), 3))
    columns[:, 0], columns[:, 1], columns[:, 2] = weights, size, size * half_of_others
    found = points.expand(others, columns)
    terms = AT_A_TIME if points.has_few_features else AT_A_TIME + len(weights)
    rough_doubts(found, half, features, terms, float(size.sum()))
    return found[:, 0], found[:, 1]


def _unit(features: int) -> float:
    """What an exponent may be wrong by, of the sizes of its terms."""
    return (features + 8) * UNIT


def _weights(problem: DualProblem, v: NDArray) -> NDArray:
    """What K is multiplied with for Q v: each point's share, signs included."""
    signed: NDArray = problem.sigma * v
    return signed if problem.idx is None else np.bincount(problem.idx, signed, minlength=problem.gram.n)


def _from_sums(problem: DualProblem, v: NDArray, sums: NDArray) -> NDArray:
    """Q v of `_weights` times K; without the ridge, whose entries are exact anyway."""
    product: NDArray = sums if problem.idx is None else sums[problem.idx]
    return problem.scale * problem.sigma * (product + problem.offset * (problem.sigma * v).sum())


def _multipliers(problem: DualProblem, alpha: NDArray, Qa: NDArray) -> tuple[float, ...]:
    """The ends of the interval of multipliers that give the best bound; 0 where there is no equality; none where there
    is no number."""
    _, interval = dual_bound(problem, alpha, Qa)
    ends = (0.0,) if interval is None else interval
    return ends if np.isfinite(ends).all() else ()


def _least(problem: DualProblem, Qa: NDArray, multipliers: tuple[float, ...]) -> NDArray:
    """The lesser ρ = Qα − p − νe of two multipliers, or that of one."""
    h = Qa - problem.p
    if problem.e is None:
        return h
    return np.minimum(*(h - nu * problem.e for nu in (multipliers[0], multipliers[-1])))
