"""Learning as invasion (Howell et al., "Machine Learning as Ecology"): points are species, and survivors have weight.

A new point 0 with α₀ = 0 invades, so that its weight grows, if its fitness exceeds the community's multiplier,

    g₀ + νe₀ > 0,   g = p − Qα                                          (9; 17 and 19 without their harmless C − a₀)

For the C-SVM this is t₀f(x₀) < 1 (17, with the αᵢ that the published scripts leave out). For the data description it is
K₀₀ − K_kk − 2Σαᵢ(K₀ᵢ − K_kᵢ) > 0 with a free survivor k, i.e. the point lies outside the sphere (28; for constant Kᵢᵢ
this is (30), FISVDD's rule, Σαᵢk(x₀,xᵢ) < Σαᵢk(x_k,xᵢ)). After invasions the residents' optimum, their equilibrium, is
computed again, and points whose weight falls to 0 become extinct.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..core._bound import maximisers
from ..core.certificate import Certifier
from ..core.gram import KernelMatrix
from ..core.problem import DualProblem, Kind
from ..core.reading import finite_middle
from ..core.workspace import Workspace

#: Function ``equilibrate(problem, alpha) -> alpha`` that minimises a small problem from a feasible start.
Equilibrate = Callable[[DualProblem, NDArray], NDArray]

#: The limit on invaders admitted between two equilibria is never below this.
MIN_ADMITTED = 128
#: If it is more, the limit is this many times the number of points with weight.
ADMITTED_RATIO = 0.5
#: If more than this share of all variables invades, one problem of all variables is solved instead.
SOLVE_ALL_FRACTION = 0.25
#: If |eᵀα| / Σα exceeds this, the weights violate eᵀα = 0.
MAX_EQUALITY_ERROR = 1e-12

_EPS = float(np.finfo(float).eps)
#: Rounding error of a sum of kernel values, in units of ε times their size.
SUM_GROWTH = 8.0


def restrict(problem: DualProblem, J: NDArray, K: NDArray | None = None) -> Workspace:
    """Return the problem of the variables J alone, all others being 0.

    Its kernel matrix is ``K`` if given, else what the problem's own Gram has cached of it.
    """
    work = problem if isinstance(problem, Workspace) else Workspace(problem)
    return work.part(J, work.gram.subset(J if problem.idx is None else problem.idx[J], K))


def interval(h: NDArray, e: NDArray, alpha: NDArray, upper: NDArray) -> tuple[float, float]:
    """Return the smallest and the largest multiplier ν for which the variables satisfy their KKT conditions.

    With ρ = h − νe these are ρ ≥ 0 at α = 0, ρ ≤ 0 at α = u and ρ = 0 in between. If there is no such ν, the first
    value exceeds the second by the worst violation. An end without a limit is ±∞.
    """
    above, below = _multiplier_limits(h, e, alpha, upper)
    return float(above.max(initial=-np.inf)), float(below.min(initial=np.inf))


def _multiplier_limits(h: NDArray, e: NDArray, alpha: NDArray, upper: NDArray) -> tuple[NDArray, NDArray]:
    """Return each variable's lower limit for ν (−∞ if it has none) and its upper limit (∞ if it has none)."""
    knot, positive = h * e, e > 0
    can_rise, has_weight = alpha < upper, alpha > 0
    above = np.where(np.where(positive, has_weight, can_rise), knot, -np.inf)
    below = np.where(np.where(positive, can_rise, has_weight), knot, np.inf)
    return above, below


def largest_value(gram: KernelMatrix) -> float:
    """Return the largest kernel value, times the excess of their own rounding errors over those of a sum.

    Values of a radial kernel between points that are many widths apart have such errors.
    """
    return float(gram.diag().max()) * max(1.0, gram.growth / SUM_GROWTH)


def round_off(problem: DualProblem, alpha: NDArray) -> float:
    """Return the round-off error of a gradient at ``alpha``."""
    magnitude = float(problem.diag().max()) * float(alpha.sum()) + float(np.abs(problem.p).max())
    return SUM_GROWTH * _EPS * magnitude


def round_off_gap(problem: DualProblem, alpha: NDArray, gradient: NDArray) -> float:
    """Return the part of the relative gap that rounding errors of the gradient and of kernel values can cause."""
    objective = 0.5 * abs(float(alpha @ (gradient - problem.p)))
    of_values = max(1.0, problem.gram.growth / SUM_GROWTH)
    most = of_values * round_off(problem, alpha) * float(problem.effective_upper.sum())
    return most / objective if objective > 0 else float(most > 0)


def best_multiplier(h: NDArray, e: NDArray, upper: NDArray, d: float) -> float:
    """Return the ν of the best lower bound, which certificates use.

    It exists also where an `interval` is empty because a variable is an ulp off its bound; the middle of such an
    interval would lie between the classes.
    """
    return finite_middle(maximisers(h, e, upper, d))


class Habitat:
    """The variables of one problem, of which some have been admitted, and the gradient h = Qα − p of all.

    Parameters
    ----------
    problem : DualProblem
        With finite bounds or 1ᵀα = d.
    alpha : array of shape (n,)
        Start weights. If they exceed the bounds, violate eᵀα = 0 or sum to less than d, they are made feasible first
        (bounds 1/(νn) fall as n grows).
    rows : array of shape (residents, n), optional
        Kernel rows of the variables with α > 0, in their order, if already known.

    Attributes
    ----------
    residents : int array of shape (r,)
        The admitted variables; they include all with weight.
    rows : array of shape (r, n)
        Kernel rows of the residents.
    h : array of shape (n,)
    invasions : int
        Number of variables admitted.
    disturbed : bool
        Whether the residents may be away from their equilibrium.
    """

    def __init__(self, problem: DualProblem, alpha: NDArray, rows: NDArray | None = None, disturbed: bool = False):
        self.problem = problem
        self.work = Workspace(problem)
        self.alpha = np.minimum(alpha, problem.upper)
        if (
            problem.e is not None
            and problem.d == 0.0
            and abs(problem.e @ alpha) > MAX_EQUALITY_ERROR * float(alpha.sum())
        ):
            self.alpha = problem.project(self.alpha)  # weights of a model without intercept
        self.disturbed = disturbed or not np.array_equal(self.alpha, alpha)
        self.residents = np.flatnonzero(alpha > 0)
        self.rows = self.kernel(self.residents) if rows is None else rows
        self.present = alpha > 0
        self.invasions = 0
        self.h = self.gradient()
        if problem.e is not None and problem.d > 0:
            self.share_out()

    def kernel(self, J: NDArray) -> NDArray:
        """Kernel rows of variables J over all, shape (len(J), n)."""
        gram, idx = self.work.gram, self.problem.idx
        return gram.rows(J) if idx is None else gram.rows(idx[J])[:, idx]

    def gradient(self) -> NDArray:
        """Return h = Qα − p from the residents' rows, shape (n,)."""
        problem, R = self.problem, self.residents
        weights = problem.sigma[R] * self.alpha[R]
        product = weights @ self.rows + problem.offset * float(weights.sum())
        return problem.scale * problem.sigma * product + problem.ridge * self.alpha - problem.p

    def share_out(self) -> None:
        """Add weight up to 1ᵀα = d, to the variables with the smallest h first, up to their bounds."""
        problem = self.problem
        missing = problem.d - float(self.alpha.sum())
        if problem.kind not in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX) or missing <= 4 * _EPS * problem.d:
            return
        self.disturbed = True
        order = np.argsort(self.h, kind="stable")
        room = (problem.upper - self.alpha)[order]
        before = np.concatenate([[0.0], np.cumsum(room)[:-1]])
        given = np.clip(missing - before, 0.0, room)
        self.admit(order[(given > 0) & ~self.present[order]])
        self.alpha[order] += given
        self.h = self.gradient()

    def admit(self, J: NDArray) -> None:
        """Make variables residents, with weight 0."""
        if len(J):
            self.residents = np.concatenate([self.residents, J])
            self.rows = np.concatenate([self.rows, self.kernel(J)])
            self.present[J] = True
            self.invasions += len(J)

    def multipliers(self, among: NDArray) -> tuple[float, float]:
        """Return the ν for which the variables ``among`` satisfy their KKT conditions, as `interval`."""
        problem = self.problem
        assert problem.e is not None
        return interval(self.h[among], problem.e[among], self.alpha[among], problem.upper[among])

    def pins(self) -> NDArray:
        """Return the variables that limit ν most, from below and from above; shape (0,) or (2,)."""
        problem = self.problem
        if problem.e is None:
            return np.empty(0, dtype=np.intp)
        above, below = _multiplier_limits(self.h, problem.e, self.alpha, problem.upper)
        return np.array([np.argmax(above), np.argmin(below)])

    def round_off(self) -> float:
        """Return the round-off error of the gradient."""
        return round_off(self.problem, self.alpha)

    def invaders(self, candidates: NDArray) -> NDArray:
        """Return the candidates that are not residents and can invade, the fastest growing first (Howell 9, 17, 28).

        ν is that of the free survivors. If no survivor is free, ν is the middle of its interval, and no candidate
        invades as long as one ν of the interval satisfies the KKT conditions of all of them.
        """
        problem, min_growth = self.problem, self.round_off()
        candidates = candidates[~self.present[candidates] & (problem.upper[candidates] > 0)]
        if problem.e is None:
            growth = -self.h[candidates]
        else:
            low, high = self.multipliers(self.residents)
            # A violation among the survivors hides all smaller ones of candidates.
            min_growth = max(min_growth, low - high)
            limits = self.multipliers(np.concatenate([self.residents, candidates]))
            if limits[0] - limits[1] <= min_growth:
                return np.empty(0, dtype=np.intp)
            growth = finite_middle((low, high)) * problem.e[candidates] - self.h[candidates]
        order = np.argsort(-growth, kind="stable")
        return candidates[order[growth[order] > min_growth]]

    def invade_until_stable(self, equilibrate: Equilibrate, candidates: NDArray) -> None:
        """Admit invaders and compute the new equilibrium, until no candidate invades."""
        if self.disturbed:
            self.balance(equilibrate)
        if len(self.invaders(candidates)) > SOLVE_ALL_FRACTION * self.problem.n:
            self.open(equilibrate)
        while len(invaders := self.invaders(candidates)):
            self.admit(invaders[: max(MIN_ADMITTED, int(ADMITTED_RATIO * np.count_nonzero(self.alpha)))])
            self.balance(equilibrate)

    def gap(self) -> float:
        """Return the relative gap of the problem of all variables, by the present gradient."""
        return Certifier(self.problem).appraise(self.alpha, self.h + self.problem.p)[0]

    def open(self, equilibrate: Equilibrate) -> None:
        """Compute the optimum over all variables; those with weight become the residents."""
        self.alpha = np.array(equilibrate(self.problem, self.alpha))
        R = self.residents
        stay = self.alpha[R] > 0
        self.present[R[~stay]] = False
        self.residents, self.rows = R[stay], self.rows[stay]
        self.admit(np.setdiff1d(np.flatnonzero(self.alpha > 0), R, assume_unique=True))
        self.h = self.gradient()

    def balance(self, equilibrate: Equilibrate) -> None:
        """Compute the residents' equilibrium."""
        R, problem = self.residents, self.problem
        self.disturbed = False
        if not len(R):
            return
        if problem.e is not None and float(problem.upper[R].sum()) <= problem.d * (1 + 1e-12):
            self.alpha[R] = problem.upper[R]  # the only feasible point
            self.h = self.gradient()
            return
        part = restrict(self.work, R, self.rows.take(R, axis=1) if problem.idx is None else None)
        self.alpha[R] = equilibrate(part, self.alpha[R])
        self.h = self.gradient()

    def reluctance(self) -> NDArray:
        """Return ρ = h − νe, shape (n,): for a variable without weight its distance from invading."""
        problem = self.problem
        return self.h if problem.e is None else self.h - finite_middle(self.multipliers(self.residents)) * problem.e
