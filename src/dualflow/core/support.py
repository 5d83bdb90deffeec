"""From a state to its support set, and from the support set to the optimum.

The refinement is a primal active-set method: minimise over the free variables exactly (bordered Cholesky),
stop at the bounds met on the way, then look at every bounded variable and free those whose multiplier has
the wrong sign. f never rises. It finds the optimum from any start, so a refined answer says nothing about the
solver that delivered the start: raw and refined answers are kept apart everywhere.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from .certificate import certify, inseparability_witness
from .problem import DualProblem
from .projection import project_onto

__all__ = ["Refinement", "refine", "support_set"]

_EPS, _TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)

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


def support_set(problem: DualProblem, alpha: NDArray) -> NDArray:
    """Indices of the variables a state gives weight to, for reading only.

    αᵢ counts if one coordinate Newton step, αᵢ − ρᵢ/Qᵢᵢ, would leave it positive or if it sits above 1e-8 of
    the largest entry with ρᵢ ≤ 0. At an exact optimum this is {i : αᵢ > 0}.
    """
    lower, _ = _active_guess(problem, alpha)
    return np.flatnonzero(~lower & (np.abs(alpha) > 1e-8 * max(float(np.abs(alpha).max()), _TINY)))


def _active_guess(problem: DualProblem, alpha: NDArray) -> tuple[NDArray, NDArray]:
    """Which variables a state says are at their lower and upper bounds.

    The test is that of the primal-dual active set with its natural unit: αᵢ is at a bound if a coordinate
    Newton step αᵢ − ρᵢ/Qᵢᵢ would push it there.
    """
    certificate = certify(problem, alpha)
    rho = problem.gradient(certificate.alpha)
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

    Returns
    -------
    Refinement
    """
    given = start = problem.project(np.asarray(alpha, dtype=float))
    gap = certify(problem, given).relative_gap
    if gap is not None and gap > _USELESS_GAP:
        # A state this far off names a support set so large and wrong that starting empty is far cheaper.
        start = problem.project(np.zeros(problem.n))
    search = _ActiveSet(
        problem, _snap(problem, start, *_active_guess(problem, start)), max_solves or 20 * problem.n + 200, deadline
    )
    witness = search.run()
    best, value = problem.project(search.alpha), problem.objective(given)
    # A converged answer is the better one even where round-off in f (its square root in alpha) says otherwise.
    if problem.objective(best) - value > (1e-12 * abs(value) if search.converged else 0.0):
        return Refinement(given, search.solves, False, witness)  # only after an early stop: snapping had raised f
    return Refinement(best, search.solves, search.converged, witness)


def _snap(problem: DualProblem, alpha: NDArray, at_lower: NDArray, at_upper: NDArray) -> NDArray:
    """Put the guessed variables on their bounds and let the others take up the equality."""
    lower = np.where(at_upper, problem.upper, problem.lower)
    upper = np.where(at_lower, problem.lower, problem.upper)
    snapped = project_onto(alpha, lower, upper, problem.e, problem.d)
    scale = max(abs(problem.d), float(np.abs(snapped).sum()))
    feasible = problem.infeasibility(snapped) <= 1e-12 * scale
    return snapped if feasible else problem.project(snapped)


class _ActiveSet:
    """The running state of one refinement: α, the free set, and the gradient h = Qα − p."""

    def __init__(self, problem: DualProblem, alpha: NDArray, max_solves: int, deadline: float | None) -> None:
        self.problem, self.max_solves, self.deadline = problem, max_solves, deadline
        self.alpha = alpha.copy()
        self.diag_max = float(problem.diag().max()) or 1.0
        self.free = np.flatnonzero((alpha > problem.lower) & (alpha < problem.upper))
        self.h = problem.gradient(self.alpha)
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
            self.minimise_free()
            self.h = self.problem.gradient(self.alpha)
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

    def witness(self) -> NDArray | None:
        if not self.problem.is_hard_margin:
            return None
        total = float(self.alpha.sum())
        flat = float(self.alpha @ (self.h + self.problem.p)) <= 1e-11 * self.diag_max * total**2
        return inseparability_witness(self.problem, self.alpha) if total > 0 and flat else None

    def violators(self) -> NDArray:
        """Bounded variables whose multiplier has the wrong sign, worst first (Howell 9, 17: they can invade)."""
        problem, free = self.problem, self.free
        rho = self.h.copy()
        if problem.e is not None:
            if len(free):
                nu = float(np.mean(self.h[free] * problem.e[free]))
            else:
                nu = certify(problem, self.alpha).multiplier or 0.0
            rho -= nu * problem.e
        wrong = np.where(self.alpha <= problem.lower, -rho, np.where(self.alpha >= problem.upper, rho, 0.0))
        wrong[(problem.upper <= problem.lower)] = 0.0
        wrong[free] = 0.0
        magnitude = self.diag_max * float(np.abs(self.alpha).sum()) + float(np.abs(problem.p).max())
        candidates = np.flatnonzero(wrong > 8 * _EPS * magnitude)
        return candidates[np.argsort(-wrong[candidates], kind="stable")]

    def minimise_free(self) -> None:
        """Exact minimisation over the free variables, dropping those that meet a bound on the way."""
        problem, polish = self.problem, 0
        Q = problem.block(self.free, self.free)
        while len(self.free) and not self.out_of_budget():
            free = self.free
            step = self.newton_step(Q)
            if step is None:
                return
            low, high = problem.lower[free], problem.upper[free]
            target, blocked = self.advance(Q, step, low, high)
            self.h[free] += Q @ (target - self.alpha[free])
            self.alpha[free] = target
            if not blocked.any():
                # A regularised or ill-conditioned solve leaves a residual: solve again for what is left.
                polish += 1
                if polish > 2 or float(np.abs(step).max()) <= 64 * _EPS * float(np.abs(target).max()):
                    return
                continue
            polish = 0
            self.free = free[~blocked]
            Q = Q[np.ix_(~blocked, ~blocked)]

    def newton_step(self, Q: NDArray) -> NDArray | None:
        """Minimiser of ½ sᵀ(Q + δI)s + hᵀs subject to eᵀs = (what is missing of d).

        δ is at round-off level: it makes the singular case (duplicates, low rank) a proximal step, whose
        direction still descends, and which is exact once repeated.
        """
        problem, free = self.problem, self.free
        h = self.h[free]
        delta = 4 * len(free) * _EPS * self.diag_max
        if problem.e is not None:
            # κeeᵀ is constant where eᵀs is given, so it moves no minimiser; without it a null vector of Q that
            # is not orthogonal to e makes both solves below huge, and their difference noise.
            e = problem.e[free]
            Q = Q + (self.diag_max / len(free)) * np.outer(e, e)
        for _ in range(8):
            self.solves += 1
            try:
                factor = scipy.linalg.cho_factor(Q + delta * np.eye(len(free)), lower=True, check_finite=False)
                break
            except scipy.linalg.LinAlgError:
                delta *= 10
        else:
            return None
        if problem.e is None:
            return -scipy.linalg.cho_solve(factor, h, check_finite=False)
        solved = scipy.linalg.cho_solve(factor, np.column_stack([h, e]), check_finite=False)
        missing = problem.d - float(problem.e @ self.alpha)
        nu = (missing + float(e @ solved[:, 0])) / float(e @ solved[:, 1])
        return nu * solved[:, 1] - solved[:, 0]

    def advance(self, Q: NDArray, step: NDArray, low: NDArray, high: NDArray) -> tuple[NDArray, NDArray]:
        """Walk along the step to the first bound, or clip several at once where that lowers f more.

        Clipping several bounds a step is fast on well-conditioned sets and diverges on ill-conditioned ones,
        so it is taken only when f itself says it is the better of the two.
        """
        here = self.alpha[self.free]
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(step > 0, (high - here) / step, np.where(step < 0, (low - here) / step, np.inf))
        t = min(1.0, max(0.0, float(reach.min())))
        one = np.clip(here + t * step, low, high)
        if t == 1.0:
            return one, np.zeros(len(here), dtype=bool)
        first = reach <= t
        one[first] = np.where(step[first] > 0, high[first], low[first])
        e = None if self.problem.e is None else self.problem.e[self.free]
        total = 0.0 if e is None else float(e @ here)
        several = project_onto(here + step, low, high, e, total)
        if self.change(Q, several - here) < self.change(Q, one - here):
            return several, (several <= low) | (several >= high)
        return one, first

    def change(self, Q: NDArray, move: NDArray) -> float:
        """f(α + move) − f(α) for a move of the free variables."""
        return float(self.h[self.free] @ move + 0.5 * move @ (Q @ move))
