"""Learning as invasion (Howell et al., "Machine Learning as Ecology"): points are species, those with weight survive.

A newcomer 0 with α₀ = 0 grows where its fitness beats the multiplier of those present,

    g₀ + νe₀ > 0,   g = p − Qα                                          (9; 17 and 19 without their harmless C − a₀)

which for the C-SVM is t₀f(x₀) < 1 (17, with the αᵢ that the published scripts leave out), and for the data
description K₀₀ − K_kk − 2Σαᵢ(K₀ᵢ − K_kᵢ) > 0, k a free survivor: outside the sphere (28; for constant Kᵢᵢ it is (30),
FISVDD's rule, Σαᵢk(x₀,xᵢ) < Σαᵢk(x_k,xᵢ)). Whoever invades makes the others find a new equilibrium, and those whose
weight falls to 0 go extinct.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..core._bound import maximisers
from ..core.certificate import Certifier
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace

__all__ = ["INFEASIBLE", "Equilibrate", "Habitat", "best_multiplier", "blur", "interval", "middle", "restrict"]

#: Minimise a small problem from a feasible start: ``equilibrate(problem, alpha) -> alpha``.
Equilibrate = Callable[[DualProblem, NDArray], NDArray]

#: Invaders let in between two equilibria: so many, or this many times those with weight.
AT_ONCE, CROWD = 128, 0.5
#: From this part of all variables on, a problem of everybody is the faster way.
MANY = 0.25

#: The part of the weights by which their signed sum may be off.
INFEASIBLE = 1e-12

_EPS = float(np.finfo(float).eps)


def restrict(problem: DualProblem, J: NDArray, K: NDArray | None = None) -> Workspace:
    """The problem of some variables alone, all others being 0, with what is known of their kernel matrix: ``K``, or
    what the problem's own Gram keeps."""
    work = problem if isinstance(problem, Workspace) else Workspace(problem)
    return work.part(J, work.gram.subset(J if problem.idx is None else problem.idx[J], K))


def interval(h: NDArray, e: NDArray, alpha: NDArray, upper: NDArray) -> tuple[float, float]:
    """The multipliers ν at which variables rest (ρ = h − νe ≥ 0 at 0, ≤ 0 at u, 0 in between), from low to high.

    Where there is none, low exceeds high by the worst violation; ±∞ where nothing limits ν.
    """
    above, below = _ends(h, e, alpha, upper)
    return float(above.max(initial=-np.inf)), float(below.min(initial=np.inf))


def _ends(h: NDArray, e: NDArray, alpha: NDArray, upper: NDArray) -> tuple[NDArray, NDArray]:
    """What each variable wants ν to be at least (−∞: it does not care), and at most."""
    knot, positive = h * e, e > 0
    can_rise, has_weight = alpha < upper, alpha > 0
    above = np.where(np.where(positive, has_weight, can_rise), knot, -np.inf)
    below = np.where(np.where(positive, can_rise, has_weight), knot, np.inf)
    return above, below


def round_off(problem: DualProblem, alpha: NDArray) -> float:
    """What a gradient may be wrong by."""
    magnitude = float(problem.diag().max()) * float(alpha.sum()) + float(np.abs(problem.p).max())
    return 8 * _EPS * magnitude


def blur(problem: DualProblem, alpha: NDArray, gradient: NDArray) -> float:
    """The relative gap that is nothing but what a gradient may be wrong by."""
    objective = 0.5 * abs(float(alpha @ (gradient - problem.p)))
    most = round_off(problem, alpha) * float(problem.effective_upper.sum())
    return most / objective if objective > 0 else float(most > 0)


def middle(low: float, high: float) -> float:
    """The middle of an interval of multipliers; its only end if the other is infinite, 0 if both are."""
    ends = [end for end in (low, high) if np.isfinite(end)]
    return sum(ends) / len(ends) if ends else 0.0


def best_multiplier(h: NDArray, e: NDArray, upper: NDArray, d: float) -> float:
    """The ν of the best lower bound, as certificates have it. An `interval` is empty where a variable is an ulp off its
    bound, and its middle then between two classes."""
    return middle(*maximisers(h, e, upper, d))


class Habitat:
    """The variables of one problem, of which some have been admitted, and the gradient h = Qα − p of all.

    Parameters
    ----------
    problem : DualProblem
        Of a kind with finite bounds or 1ᵀα = d.
    alpha : array of shape (n,)
        Weights so far. Above the bounds, off eᵀα = 0 or short of 1ᵀα = d, they are mended first (bounds 1/(νn) fall as
        n grows).
    rows : array of shape (residents, n), optional
        Kernel rows of the variables with α > 0, in their order, where they are known.

    Attributes
    ----------
    residents : int array of shape (r,)
        Who has been admitted; whoever has weight is one of them.
    rows : array of shape (r, n)
        Their kernel rows.
    h : array of shape (n,)
    invasions : int
        Newcomers that were admitted.
    disturbed : bool
        Whether the residents may be away from their equilibrium.
    """

    def __init__(self, problem: DualProblem, alpha: NDArray, rows: NDArray | None = None, disturbed: bool = False):
        self.problem = problem
        self.work = Workspace(problem)
        self.alpha = np.minimum(alpha, problem.upper)
        if problem.e is not None and problem.d == 0.0 and abs(problem.e @ alpha) > INFEASIBLE * float(alpha.sum()):
            self.alpha = problem.project(self.alpha)  # they were those of no intercept
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
        """h = Qα − p from the residents' rows, shape (n,)."""
        problem, R = self.problem, self.residents
        weights = problem.sigma[R] * self.alpha[R]
        product = weights @ self.rows + problem.offset * float(weights.sum())
        return problem.scale * problem.sigma * product + problem.ridge * self.alpha - problem.p

    def share_out(self) -> None:
        """What 1ᵀα lacks of d goes to those who want it most, as much as each may have."""
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
        """Let newcomers in, with no weight yet."""
        if len(J):
            self.residents = np.concatenate([self.residents, J])
            self.rows = np.concatenate([self.rows, self.kernel(J)])
            self.present[J] = True
            self.invasions += len(J)

    def multipliers(self, among: NDArray) -> tuple[float, float]:
        """The ν at which all of ``among`` rest: see `interval`."""
        problem = self.problem
        assert problem.e is not None
        return interval(self.h[among], problem.e[among], self.alpha[among], problem.upper[among])

    def pins(self) -> NDArray:
        """The variables whose wishes leave ν the least room, from below and from above; shape (0,) or (2,)."""
        problem = self.problem
        if problem.e is None:
            return np.empty(0, dtype=np.intp)
        above, below = _ends(self.h, problem.e, self.alpha, problem.upper)
        return np.array([np.argmax(above), np.argmin(below)])

    def round_off(self) -> float:
        """What a gradient may be wrong by."""
        return round_off(self.problem, self.alpha)

    def invaders(self, candidates: NDArray) -> NDArray:
        """Those of the candidates that are not present and can invade, who grow fastest first (Howell 9, 17, 28).

        ν is that of the free survivors; where none is free, the middle of its interval, and nobody invades as long as
        some ν of the interval keeps all of them out.
        """
        problem, least = self.problem, self.round_off()
        candidates = candidates[~self.present[candidates] & (problem.upper[candidates] > 0)]
        if problem.e is None:
            growth = -self.h[candidates]
        else:
            low, high = self.multipliers(self.residents)
            # Survivors that are out of balance by so much cannot tell anything smaller.
            least = max(least, low - high)
            everyone = self.multipliers(np.concatenate([self.residents, candidates]))
            if everyone[0] - everyone[1] <= least:
                return np.empty(0, dtype=np.intp)
            growth = middle(low, high) * problem.e[candidates] - self.h[candidates]
        order = np.argsort(-growth, kind="stable")
        return candidates[order[growth[order] > least]]

    def settle(self, equilibrate: Equilibrate, candidates: NDArray) -> None:
        """Admit invaders, find the new equilibrium, look again, until none of the candidates invades."""
        if self.disturbed:
            self.balance(equilibrate)
        if len(self.invaders(candidates)) > MANY * self.problem.n:
            self.open(equilibrate)
        while len(invaders := self.invaders(candidates)):
            self.admit(invaders[: max(AT_ONCE, int(CROWD * np.count_nonzero(self.alpha)))])
            self.balance(equilibrate)

    def gap(self) -> float:
        """The relative gap of everybody's problem, by the gradient at hand."""
        return Certifier(self.problem).appraise(self.alpha, self.h + self.problem.p)[0]

    def open(self, equilibrate: Equilibrate) -> None:
        """Everybody's equilibrium at once; whoever has weight then has got in."""
        self.alpha = np.array(equilibrate(self.problem, self.alpha))
        R = self.residents
        stay = self.alpha[R] > 0
        self.present[R[~stay]] = False
        self.residents, self.rows = R[stay], self.rows[stay]
        self.admit(np.setdiff1d(np.flatnonzero(self.alpha > 0), R, assume_unique=True))
        self.h = self.gradient()

    def balance(self, equilibrate: Equilibrate) -> None:
        """The residents' new equilibrium."""
        R, problem = self.residents, self.problem
        self.disturbed = False
        if not len(R):
            return
        if problem.e is not None and float(problem.upper[R].sum()) <= problem.d * (1 + 1e-12):
            self.alpha[R] = problem.upper[R]  # the only point there is
            self.h = self.gradient()
            return
        part = restrict(self.work, R, self.rows.take(R, axis=1) if problem.idx is None else None)
        self.alpha[R] = equilibrate(part, self.alpha[R])
        self.h = self.gradient()

    def reluctance(self) -> NDArray:
        """ρ = h − νe of all: how far from invading those without weight are, shape (n,)."""
        problem = self.problem
        return self.h if problem.e is None else self.h - middle(*self.multipliers(self.residents)) * problem.e
