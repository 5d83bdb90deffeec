"""Products Qα in mixed precision: float32 where the error bound decides the sign of the multiplier, else float64.

A variable at 0 with a multiplier ρᵢ ≥ 0 adds nothing to D(ν) = −½ αᵀQα + νd + Σᵢ min(0, uᵢρᵢ) (`bounds`), whatever the
size of ρᵢ. If ρᵢ in float32 exceeds its error bound, its sign is certain, and f, D and ν have the same values as with
all of Qα in float64. In most problems this holds for most variables.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._bound import has_rough_error_bounds, rough_error_bounds
from .bounds import dual_bound
from .gram import MAX_REACH_FLOAT32, Gram
from .kernel_functions import squared_lengths
from .problem import DualProblem, Kind
from .radial import EXPONENTIAL_COST, RadialPoints
from .sparse_points import SparsePoints
from .workspace import Workspace

#: A product of fewer multiplications is computed in float64 alone: it takes about two milliseconds.
MIN_MULTIPLICATIONS = 1 << 25
#: If float32 leaves the sign of more than this share of the variables undetermined, float64 computes all of them.
MAX_UNCERTAIN_SHARE = 0.3
#: Sample of variables at 0, tested in float32 first.
TRIAL_VARIABLES = 128
#: If points have few features, this many terms are summed in float32, and the partial sums are added in float64.
TERMS_PER_SUM = 34
#: Stands for a multiplier that is far from 0.
FAR_MULTIPLIER = 1e300
#: If more than this share of points has weight, skip float32 for these points; float64 computes them anyway.
MAX_PART_WEIGHTED = 1 / 8
#: If any sign is undetermined, each variable whose ρ is at most this many error bounds is recomputed. More than 1,
#: because ν may change a little.
SAFE_ERRORS = 2.0


class Screen:
    """Qα of one problem, in float32 for variables at 0 whose multipliers have a certain sign.

    The last float32 product of all points is kept with its error bounds. For another α' the bounds grow by
    ‖α' − α‖₁, the most that kernel sums can change, since the values of a radial kernel are at most 1.

    Parameters
    ----------
    problem : Workspace
    """

    def __init__(self, problem: Workspace) -> None:
        self.problem = problem
        #: Weights of points, kernel sums, error bounds of these.
        self._base: tuple[NDArray, NDArray, NDArray] | None = None
        gram = problem.gram
        self.applies = (
            gram.is_radial
            and gram.is_safe_in_single
            and not isinstance(gram.X, SparsePoints)
            and problem.kind is not Kind.AFFINE
            and not problem.kind.may_be_unbounded
            and problem.kind is not Kind.TWO_EQUALITIES  # its level moves with ν
        )

    def product(self, alpha: NDArray) -> NDArray | None:
        """Return Qα of a feasible α, shape (n,), or None if float32 is not worth a try.

        If the signs of too many variables are undetermined, all of Qα is computed in float64, and `applies` becomes
        False: later products are in float64 too.
        """
        if not self.is_worthwhile(int(np.count_nonzero(alpha))):
            return None
        gram, weights = self.problem.gram, _weights(self.problem, alpha)
        self.applies = gram.radial_points(np.float32).bits is None  # bit points are as fast in float64
        if not self.applies:
            return None
        # Variables of points with weight are computed in float64 in any case.
        support = self._same_points(np.flatnonzero(alpha))
        exact = support, self.problem.product(alpha, support)
        found = None if self._base is None else self._with_certain_signs(alpha, exact, *self._moved(weights))
        if found is None and self._is_promising(alpha, weights, exact):
            self._base = (weights, *self._sums(weights))
            found = self._with_certain_signs(alpha, exact, *self._base[1:])
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

    def is_worthwhile(self, count: int) -> bool:
        """Whether float32 saves time for ``count`` variables with weight."""
        gram = self.problem.gram
        pays = gram.n * count * (EXPONENTIAL_COST + gram.X.shape[1]) >= MIN_MULTIPLICATIONS
        return self.applies and pays and not gram.has_dense

    def _sums(self, weights: NDArray, few: NDArray | None = None) -> tuple[NDArray, NDArray]:
        """Return Σⱼ weightsⱼ k(xᵢ, xⱼ) of all points, or a few, in float32, and their error bounds, shapes (n,).

        The bound is ∞ for points that are left out; points with weight are left out if there are many of them.
        """
        gram, (J,) = self.problem.gram, weights.nonzero()
        rows: NDArray | slice = slice(None)
        if few is not None or len(J) > MAX_PART_WEIGHTED * gram.n:
            rows = np.flatnonzero(weights == 0) if few is None else few
        points, others = gram.radial_points(np.float32, rows), gram.radial_points(np.float32, J)
        gram.count(len(points) * len(J))
        half = gram.gamma * gram.squares  # ‖a‖²/2 of the points scaled for float32
        sums, error_bound = np.zeros(gram.n), np.full(gram.n, np.inf)
        sums[rows], error_bound[rows] = rough_sums(points, others, weights[J], half[rows], half[J], gram.X.shape[1])
        return sums, error_bound

    def _moved(self, weights: NDArray) -> tuple[NDArray, NDArray]:
        """Return the kept sums, and their error bounds as sums of other weights."""
        assert self._base is not None
        before, sums, error_bound = self._base
        return sums, error_bound + float(np.abs(weights - before).sum())

    def _is_promising(self, alpha: NDArray, weights: NDArray, exact: tuple[NDArray, NDArray]) -> bool:
        """Whether float32 determines the sign of most variables of a sample."""
        problem, gram = self.problem, self.problem.gram
        others = np.ones(gram.n, dtype=bool)
        others[exact[0] if problem.idx is None else problem.idx[exact[0]]] = False
        others = np.flatnonzero(others)
        if not (len(others) and has_valid_error_bounds(weights[weights != 0], gram.reach, gram.X.shape[1])):
            return False
        few = others[:: max(1, len(others) // TRIAL_VARIABLES)]
        sums, error_bound = self._sums(weights, few)
        # Variables outside the sample count as far from their bounds.
        Qa = problem.p + FAR_MULTIPLIER
        sample = few if problem.idx is None else np.flatnonzero(np.isin(problem.idx, few))
        Qa[sample] = _from_sums(problem, alpha, sums)[sample]
        Qa[exact[0]] = exact[1]
        ends = _multipliers(problem, alpha, Qa)
        if not ends:
            return False
        undetermined = (_least(problem, Qa, ends) <= SAFE_ERRORS * self._in_variables(error_bound))[sample]
        return bool(undetermined.mean() * len(others) <= MAX_UNCERTAIN_SHARE * gram.n)

    def _with_certain_signs(
        self, alpha: NDArray, exact: tuple[NDArray, NDArray], sums: NDArray, error_bound: NDArray
    ) -> NDArray | None:
        """Return Qα with certain signs of ρ, or None if too many entries need float64.

        Entries come from the kernel sums in float32, but for the ``exact`` ones (variables, values) and those that
        are recomputed in float64 because the sign of ρ is undetermined.
        """
        problem = self.problem
        Qa, error_bounds, recomputed = _from_sums(problem, alpha, sums), self._in_variables(error_bound), 0
        missing, product = exact
        while len(missing):
            Qa[missing], error_bounds[missing] = product, -np.inf
            ends = _multipliers(problem, alpha, Qa)
            if not ends:
                return None
            rho = _least(problem, Qa, ends)
            missing = np.flatnonzero(rho <= error_bounds)
            if len(missing):  # recompute those near the limit too: this saves rounds
                missing = self._same_points(np.flatnonzero(rho <= SAFE_ERRORS * error_bounds))
                recomputed += len(missing)
                if recomputed > MAX_UNCERTAIN_SHARE * problem.n:
                    return None
                product = problem.product(alpha, missing)
        return Qa

    def _in_variables(self, error_bound: NDArray) -> NDArray:
        """Return the error bounds of Qα, given those of the kernel sums; a copy."""
        problem = self.problem
        return problem.scale * (error_bound if problem.idx is None else error_bound[problem.idx])

    def _same_points(self, variables: NDArray) -> NDArray:
        """Return all variables that share a point with one of the given variables."""
        idx = self.problem.idx
        return variables if idx is None else np.flatnonzero(np.isin(idx, idx[variables]))


def has_valid_error_bounds(weights: NDArray, reach: float, features: int) -> bool:
    """Whether the error bounds of `rough_sums` are valid.

    Requires nonzero weights and γ‖x − z‖² ≤ 4·reach.
    """
    sizes = np.abs(weights)
    return len(sizes) > 0 and has_rough_error_bounds(sizes.min(), sizes.max(), reach, features)


def rough_sums(
    points: RadialPoints, others: RadialPoints, weights: NDArray, half: NDArray, half_of_others: NDArray, features: int
) -> tuple[NDArray, NDArray]:
    """Return Σⱼ weightsⱼ k(xᵢ, zⱼ) of points in float32, and error bounds, valid if `has_valid_error_bounds`.

    ``half`` and ``half_of_others`` are ‖xᵢ‖²/2 and ‖zⱼ‖²/2 in float64.

    The exponent is a sum of m + 2 terms, aₖbₖ and two halves of squares, whose sizes add up to at most ½(‖a‖ + ‖b‖)².
    Its error is at most m + 2 units of that in any order of summation (Higham, Accuracy and Stability of Numerical
    Algorithms, eq. 3.5), plus the rounding of the terms themselves.
    """
    size, columns = np.abs(weights), np.empty((len(weights), 3))
    columns[:, 0], columns[:, 1], columns[:, 2] = weights, size, size * half_of_others
    found = points.expand(others, columns)
    terms = TERMS_PER_SUM if points.has_few_features else TERMS_PER_SUM + len(weights)
    rough_error_bounds(found, half, features, terms, float(size.sum()))
    return found[:, 0], found[:, 1]


def rough_sums_of_new(gram: Gram, Z: NDArray, weights: NDArray) -> tuple[NDArray, NDArray] | None:
    """Return Σⱼ weightsⱼ k(zᵢ, xⱼ) of new points in float32, and their error bounds, shapes (len(Z),).

    Return None if float32 saves no time, or if its error has no bound. ``weights`` has shape (gram.n,), without zeros.
    """
    m = Z.shape[1]
    if len(Z) * gram.n * (EXPONENTIAL_COST + m) < MIN_MULTIPLICATIONS or not gram.is_radial:
        return None
    squares = squared_lengths(Z, gram.center)
    reach = max(gram.reach, gram.gamma * float(squares.max()))
    if not (reach <= MAX_REACH_FLOAT32 and has_valid_error_bounds(weights, reach, m)):
        return None
    points = RadialPoints.of(Z, gram.center, gram.gamma, np.float32, squares)
    others = gram.radial_points(np.float32)
    if points.bits is not None and others.bits is not None:  # as fast in float64
        return None
    return rough_sums(points, others, weights, gram.gamma * squares, gram.gamma * gram.squares, m)


def _weights(problem: DualProblem, v: NDArray) -> NDArray:
    """Return the weight of each point in Q v, signs included, shape (points,)."""
    signed: NDArray = problem.sigma * v
    return signed if problem.idx is None else np.bincount(problem.idx, signed, minlength=problem.gram.n)


def _from_sums(problem: DualProblem, v: NDArray, sums: NDArray) -> NDArray:
    """Return Q v, given K times `_weights`, without the ridge: it concerns only entries that are exact anyway."""
    product: NDArray = sums if problem.idx is None else sums[problem.idx]
    return problem.scale * problem.sigma * (product + problem.offset * (problem.sigma * v).sum())


def _multipliers(problem: DualProblem, alpha: NDArray, Qa: NDArray) -> tuple[float, ...]:
    """Return the ends of the interval of multipliers that give the best bound, (0,) without an equality, and () if an
    end is not finite."""
    _, interval = dual_bound(problem, alpha, Qa)
    ends = (0.0,) if interval is None else interval
    return ends if np.isfinite(ends).all() else ()


def _least(problem: DualProblem, Qa: NDArray, multipliers: tuple[float, ...]) -> NDArray:
    """Return the elementwise minimum of ρ = Qα − p − νe over the given multipliers ν, one or two."""
    h = Qa - problem.p
    if problem.e is None:
        return h
    return np.minimum(*(h - nu * problem.e for nu in (multipliers[0], multipliers[-1])))
