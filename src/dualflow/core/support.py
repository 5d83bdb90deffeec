"""From a state to its support set, and from the support set to the optimum.

The refinement is a primal active-set method: minimise over the free variables exactly (one Cholesky factor, kept
while variables come and go: `FreeSystem`), stop at the bounds met on the way, then look at every bounded variable
and free those whose multiplier has the wrong sign. f never rises. It finds the optimum from any start, so a refined
answer says nothing about the solver that delivered the start: raw and refined answers are kept apart everywhere.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .certificate import Certificate, certify, inseparability_witness
from .free_system import FreeSystem
from .problem import DualProblem
from .projection import project_onto
from .screening import product_from_below

__all__ = ["Refinement", "refine", "support_set"]

_EPS, _TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)

#: Solves for what a solve has left, at most: a float32 factor needs a few.
_POLISH = 6

#: The part of the variables looked at between two looks at all of them, how often at most, and from which size on.
_NEAR_PART, _NEAR_ROUNDS, _NEAR_FROM = 8, 50, 4000

#: Relative gap above which a state says nothing of the support set.
_USELESS_GAP = 0.5


@dataclass(frozen=True)
class Refinement:
    """What `refine` returns.

    Attributes
    ----------
    alpha : array of shape (n,)
        Feasible, and never worse than the start.
    solves : int
        Linear systems solved.
    converged : bool
        No bounded variable had a multiplier of the wrong sign at the end, up to round-off.
    witness : array of shape (n,) or None
        v ≥ 0, yᵀv = 0, 1ᵀv = 1, vᵀQv ≈ 0 when a hard margin does not exist.
    """

    alpha: NDArray
    solves: int
    converged: bool
    witness: NDArray | None = None


def support_set(problem: DualProblem, alpha: NDArray, certificate: Certificate | None = None) -> NDArray:
    """Indices of the variables a state gives weight to, for reading only.

    αᵢ counts if one coordinate Newton step, αᵢ − ρᵢ/Qᵢᵢ, would leave it positive or if it sits above 1e-8 of
    the largest entry with ρᵢ ≤ 0. At an exact optimum this is {i : αᵢ > 0}. The certificate of α saves making it.
    """
    lower, _ = _active_guess(problem, alpha, certificate or certify(problem, alpha))
    return np.flatnonzero(~lower & (np.abs(alpha) > 1e-8 * max(float(np.abs(alpha).max()), _TINY)))


def _active_guess(problem: DualProblem, alpha: NDArray, certificate: Certificate) -> tuple[NDArray, NDArray]:
    """Which variables a state says are at their lower and upper bounds.

    The test is that of the primal-dual active set with its natural unit: αᵢ is at a bound if a coordinate
    Newton step αᵢ − ρᵢ/Qᵢᵢ would push it there.
    """
    rho = product_from_below(problem, certificate.alpha) - problem.p
    if problem.e is not None and certificate.multiplier is not None:
        rho = rho - certificate.multiplier * problem.e
    diag = problem.diag()
    curvature = np.maximum(diag, _EPS * (float(diag.max()) or 1.0))
    target = alpha - rho / curvature
    # A variable exactly at its bound with ρ = 0 is left there: freeing it is the invasion check's business.
    at_lower = (target < problem.lower) | (alpha <= problem.lower)
    at_upper = ~at_lower & ((target > problem.upper) | (alpha >= problem.upper))
    return at_lower, at_upper


def refine(
    problem: DualProblem,
    alpha: NDArray,
    *,
    max_solves: int | None = None,
    deadline: float | None = None,
    certificate: Certificate | None = None,
) -> Refinement:
    """Minimise f from any start by the safeguarded active-set method.

    Parameters
    ----------
    problem : DualProblem
        Q positive semidefinite; singular Q (duplicate points, low rank) is fine.
    alpha : array of shape (n,)
        The start; projected first. Better starts cost fewer linear solves, nothing else.
    max_solves : int, optional
        Limit on linear solves; 20·n + 200 by default, far above what is seen.
    deadline : float, optional
        `time.monotonic()` value after which the best point so far is returned.
    certificate : Certificate, optional
        That of ``alpha``, which saves making it.

    Returns
    -------
    Refinement
    """
    given = start = problem.project(np.asarray(alpha, dtype=float))
    certificate = certificate or certify(problem, given)
    gap = certificate.relative_gap
    if gap is not None and gap > _USELESS_GAP:
        # A state this far off names a support set so large and wrong that starting empty is far cheaper.
        start = problem.project(np.zeros(problem.n))
        certificate = certify(problem, start)
    snapped = _snap(problem, start, *_active_guess(problem, start, certificate))
    search = _ActiveSet(problem, start, snapped, max_solves or 20 * problem.n + 200, deadline)
    witness = search.run()
    best, value = problem.project(search.alpha), _objective(problem, given)
    # A converged answer is the better one even where round-off in f (its square root in alpha) says otherwise.
    if _objective(problem, best) - value > (1e-12 * abs(value) if search.converged else 0.0):
        return Refinement(given, search.solves, False, witness)  # only after an early stop: snapping had raised f
    return Refinement(best, search.solves, search.converged, witness)


def _objective(problem: DualProblem, alpha: NDArray) -> float:
    return float(0.5 * alpha @ product_from_below(problem, alpha) - problem.p @ alpha)


def _snap(problem: DualProblem, alpha: NDArray, at_lower: NDArray, at_upper: NDArray) -> NDArray:
    """Put the guessed variables on their bounds and let the others take up the equality; as it was if they cannot."""
    lower = np.where(at_upper, problem.upper, problem.lower)
    upper = np.where(at_lower, problem.lower, problem.upper)
    snapped = project_onto(alpha, lower, upper, problem.e, problem.d)
    scale = max(abs(problem.d), float(np.abs(snapped).sum()))
    feasible = problem.infeasibility(snapped) <= 1e-12 * scale
    return snapped if feasible else alpha  # a projection would lift many off their bounds


class _ActiveSet:
    """The running state of one refinement: α, the free set with its linear system, and the gradient h = Qα − p."""

    def __init__(
        self, problem: DualProblem, start: NDArray, alpha: NDArray, max_solves: int, deadline: float | None
    ) -> None:
        self.problem, self.max_solves, self.deadline = problem, max_solves, deadline
        self.alpha = alpha.copy()
        self.diag_max = float(problem.diag().max()) or 1.0
        self.free = np.flatnonzero((alpha > problem.lower) & (alpha < problem.upper))
        # Its product with Q is known: others are made of the difference from it.
        self.origin = start
        self.h = product_from_below(problem, alpha, start) - problem.p
        self.system: FreeSystem | None = None
        self.solves = 0
        self.converged = False

    def out_of_budget(self) -> bool:
        late = self.deadline is not None and time.monotonic() > self.deadline
        return late or self.solves >= self.max_solves

    def objective(self) -> float:
        return 0.5 * float(self.alpha @ (self.h - self.problem.p))

    def run(self) -> NDArray | None:
        """Alternate minimisation over the free set and invasion; return a witness if f falls for ever."""
        stalled, last = 0, np.inf
        while not self.out_of_budget():
            self.minimise_free_and_near()
            self.h = product_from_below(self.problem, self.alpha, self.origin) - self.problem.p
            if (witness := self.witness()) is not None:
                return witness
            violators = self.violators()
            if len(violators) == 0:
                self.converged = True
                break
            value = self.objective()
            # No progress with many newcomers at once: take the worst alone; if that fails too, round-off rules.
            stalled = stalled + 1 if value >= last - 4 * _EPS * abs(value) else 0
            if stalled > 2:
                break
            last = min(last, value)
            newcomers = max(32, len(self.free)) if stalled == 0 else 2
            self.free = np.union1d(self.free, violators[:newcomers])
        return None

    def minimise_free_and_near(self) -> None:
        """Minimise over the free variables, and over those close to becoming free, before looking at all others.

        The gradient of all costs as much as the rest of a step; most who invade had a multiplier near zero.
        """
        problem = self.problem
        if problem.n < _NEAR_FROM or problem.gram.estimates:
            self.minimise_free()
            return
        margin, count = np.abs(self.multipliers()), problem.n // _NEAR_PART
        margin[self.free] = np.inf
        near = np.argpartition(margin, count)[:count]
        for _ in range(_NEAR_ROUNDS):
            self.minimise_free()
            if self.out_of_budget():
                return
            self.h[near] = problem.product(self.alpha, near) - problem.p[near]
            violators = self.violators(near)
            if len(violators) == 0:
                return
            self.free = np.union1d(self.free, violators[: max(32, len(self.free))])
        self.minimise_free()

    def witness(self) -> NDArray | None:
        if not self.problem.is_hard_margin:
            return None
        total = float(self.alpha.sum())
        flat = float(self.alpha @ (self.h + self.problem.p)) <= 1e-11 * self.diag_max * total**2
        return inseparability_witness(self.problem, self.alpha) if total > 0 and flat else None

    def multipliers(self) -> NDArray:
        """ρ = h − νe, with ν read off the free variables; at a vertex, halfway between the worst violating pair, so
        that both of it violate: one alone could not move."""
        problem, free, alpha = self.problem, self.free, self.alpha
        if problem.e is None:
            return self.h.copy()
        if len(free):
            return self.h - float(np.mean(self.h[free] * problem.e[free])) * problem.e
        wish = self.h * problem.e
        sides = alpha < problem.upper, alpha > problem.lower
        rises, falls = np.where(problem.e > 0, sides, sides[::-1])
        if rises.any() and falls.any():
            nu = 0.5 * (float(wish[rises].min()) + float(wish[falls].max()))
        else:
            nu = certify(problem, alpha).multiplier or 0.0
        return self.h - nu * problem.e

    def violators(self, among: NDArray | slice = slice(None)) -> NDArray:
        """Bounded variables whose multiplier has the wrong sign, worst first (Howell 9, 17: they can invade)."""
        problem, alpha = self.problem, self.alpha
        rho = self.multipliers()
        wrong = np.where(alpha <= problem.lower, -rho, np.where(alpha >= problem.upper, rho, 0.0))
        wrong[(problem.upper <= problem.lower)] = 0.0
        wrong[self.free] = 0.0
        looked_at = np.zeros(problem.n, dtype=bool)
        looked_at[among] = True
        candidates = np.flatnonzero(looked_at & (wrong > self.round_off()))
        return candidates[np.argsort(-wrong[candidates], kind="stable")]

    def minimise_free(self) -> None:
        """Exact minimisation over the free variables, dropping those that meet a bound on the way."""
        problem, polish = self.problem, 0
        while len(self.free) and not self.out_of_budget():
            system = self.system = self.current_system()
            if system.factor is None:
                return
            members = system.members
            step = self.newton_step(system)
            low, high = problem.lower[members], problem.upper[members]
            target, change, blocked = self.advance(system, step, low, high)
            self.h[members] += change
            self.alpha[members] = target
            if blocked.any():
                polish = 0
                system.hold(np.flatnonzero(blocked))
                self.free = members[system.live]
            elif self.residual() <= self.round_off():
                return
            elif polish < _POLISH:
                polish += 1  # a regularised or ill-conditioned solve leaves a residual: solve again for what is left
            elif system.changes:
                self.system, polish = None, 0  # carried changes cost digits where Q is ill-conditioned
            else:
                return

    def current_system(self) -> FreeSystem:
        """The factorised system of the free variables: the one at hand, with what changed, or a new one."""
        system = self.system
        if system is not None:
            strangers = system.strangers(self.free)
            if system.bears(len(strangers)):
                if len(strangers):
                    system.add(strangers)
                return system
        self.system = None  # its memory is needed for the next
        self.solves -= 1
        system = FreeSystem(self.problem, self.free, self.diag_max)
        self.solves += system.factors
        return system

    def newton_step(self, system: FreeSystem) -> NDArray:
        """Minimiser of ½ sᵀQs + hᵀs over the members' steps s, subject to eᵀs = (what is missing of d)."""
        problem, members = self.problem, system.members
        self.solves += 1
        h = self.h[members]
        if problem.e is None:
            return -system.solve(h[:, None])[:, 0]
        # A multiple of e moves the multiplier, not the step: without it the right side falls with the residual, and
        # with it the error of an inexact factor.
        e = problem.e[members]
        h = h - float(np.mean((h * e)[system.live])) * e
        solved = system.solve(np.column_stack([h, e]))
        missing = problem.d - float(problem.e @ self.alpha)
        nu = (missing + float(e @ solved[:, 0])) / float(e @ solved[:, 1])
        return nu * solved[:, 1] - solved[:, 0]

    def residual(self) -> float:
        """How far the free variables' gradients are from being all equal to a multiplier."""
        h = self.h[self.free]
        if self.problem.e is not None:
            h = h * self.problem.e[self.free]
            h = h - float(np.mean(h))
        return float(np.abs(h).max(initial=0.0))

    def round_off(self) -> float:
        """What a gradient may be wrong by."""
        magnitude = self.diag_max * float(np.abs(self.alpha).sum()) + float(np.abs(self.problem.p).max())
        return 8 * _EPS * magnitude

    def advance(
        self, system: FreeSystem, step: NDArray, low: NDArray, high: NDArray
    ) -> tuple[NDArray, NDArray, NDArray]:
        """Walk along the step to the first bound, or clip several at once where that lowers f more.

        Returns where that leads, Q times the move, and who is at a bound now. Clipping several bounds a step is fast
        on well-conditioned sets and diverges on ill-conditioned ones, so it is taken only when f itself says it is
        the better of the two.
        """
        live, here = system.live, self.alpha[system.members]
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(step > 0, (high - here) / step, np.where(step < 0, (low - here) / step, np.inf))
        t = min(1.0, max(0.0, float(reach.min())))
        one = np.where(live, np.minimum(np.maximum(here + t * step, low), high), here)
        if t == 1.0:
            return one, system.product(one - here), np.zeros(len(here), dtype=bool)
        first = reach <= t
        one[first] = np.where(step[first] > 0, high[first], low[first])
        e = None if self.problem.e is None else self.problem.e[system.members]
        total = 0.0 if e is None else float(e @ here)
        several = project_onto(here + step, np.where(live, low, here), np.where(live, high, here), e, total)
        h = self.h[system.members]
        best: tuple[float, NDArray, NDArray, NDArray] | None = None
        for target, blocked in ((several, live & ((several <= low) | (several >= high))), (one, first & live)):
            move = target - here
            product = system.product(move)
            value = float(h @ move + 0.5 * move @ product)
            if best is None or value <= best[0]:
                best = value, target, product, blocked
        assert best is not None
        return best[1:]
