"""Problems with two equalities, solved by a search over the multiplier μ of the second one, 1ᵀα = total.

At a level μ the problem has a single equality (`DualProblem.at_level`), and the working set solves it for α(μ). The sum
S(μ) = 1ᵀα(μ) grows with μ: minus the inner minimum is convex in μ, and S is its slope. For quadratic f, S is piecewise
linear; while the free variables F stay the same its slope is 1ᵀx with Q_FF x − y e_F = 1, e_Fᵀx = 0. So Newton's method
ends in finitely many solves. Where S jumps past the total (f has several minima there, with different sums) the
solution is a mixture of the optima on both sides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve

from ..core.bounds import level_of, vanishing
from ..core.certificate import Certifier
from ..core.workspace import Workspace
from ..flows.gradient import interior_point
from ..refinement.linear_systems import factorise
from ..refinement.refine import refine
from .dense import solve_nearly_free
from .descent import Descent
from .seeding import nested_order, restrict

#: With refined inner solves, a sum that differs from the total by at most this share of it differs by round-off.
SUM_TOL_REFINED = 1e-11
#: The same share with inner solves that are not refined.
SUM_TOL_UNREFINED = 1e-6
#: The search ends when the bracket of levels is at most this share of its ends wide.
BRACKET_TOL = 1e-13
#: Levels up to this size, in the problem's unit, count as 0.
LEVEL_TOL = 1e-15
#: If the bracket does not bound a step, the level grows or shrinks by at most this factor.
MAX_STEP_RATIO = 8.0
#: If Newton's step would change the sign of a level of at most this size, in the problem's unit, the level steps to 0.
NEAR_ZERO = 1e-2
#: Largest number of inner solves.
MAX_INNER_SOLVES = 200
#: With at least this many points, a search over a quarter of them gives the first level.
MIN_POINTS_COARSE = 800
#: Largest number of inner solves of that search.
MAX_SOLVES_COARSE = 12
#: That search ends if the sum differs from the total by at most this share of the total.
SUM_TOL_COARSE = 1e-2
#: Level at which that search ends, in the part's unit. Below this level the inner problem is a C-SVC with very large C:
#: slow from a cold start, fast from the α of a larger level.
LEAST_LEVEL_COARSE = 1e-6
#: Relative gap of an inner solve, before it is refined.
INNER_GAP_TOL = 1e-4
_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class LevelState:
    """State of the search."""

    #: Feasible: the mixture of the optima at the ends of the bracket, or the projection of the last optimum; shape
    #: (n,).
    alpha: NDArray
    #: low, high: the optima at the ends of the bracket of levels, 0 where there is none yet; shape (n,).
    low: NDArray
    high: NDArray
    #: low_level, high_level: these levels, ∓∞ where there is none yet.
    low_level: float
    high_level: float
    #: level, next_level: the level of the last solve, and of the next one.
    level: float
    next_level: float
    solves: int = 0  # inner solves so far
    #: done, exact: whether the search has ended, and whether α is exact at its bounds.
    done: bool = False
    exact: bool = False


class Levels:
    """The search over the level of one problem.

    Parameters
    ----------
    problem : Workspace

    Attributes
    ----------
    unit : float
        The size of the multipliers.
    last : array of shape (n,)
        The optimum at the last level.
    """

    def __init__(self, problem: Workspace) -> None:
        self.problem, self.total, self.last = problem, problem.total or 0.0, np.zeros(problem.n)
        slope = float(np.abs(problem.p).max())
        self.unit = slope or float(problem.diag().mean()) * self.total or 1.0

    def start(self, warm: NDArray | None) -> LevelState:
        """Return the first state: its level is from a quarter of the points, or from a given α; positive if p = 0."""
        problem = self.problem
        alpha = interior_point(problem) if warm is None else warm
        level = self.guess() if warm is None else None
        if level is None:
            level = level_of(problem, problem.product(alpha, None, np.float32)) or 0.0
        none = np.zeros(problem.n)
        lowest = -np.inf if problem.p.any() else 0.0
        level = level if level > lowest else LEVEL_TOL**0.5 * self.unit
        return LevelState(alpha, none, alpha if warm is not None else none, lowest, np.inf, level, level)

    def guess(self) -> float | None:
        """Return the level for a quarter of the points, with bounds four times as wide; None if there are too few."""
        problem = self.problem
        if problem.gram.n < MIN_POINTS_COARSE:
            return None
        part, _ = restrict(problem, nested_order(problem)[: problem.gram.n // 4])
        search = Levels(part)
        state = search.start(None)
        while not (state.done or state.solves >= MAX_SOLVES_COARSE):
            state = search.step(state)
            is_near = abs(float(search.last.sum()) - self.total) <= SUM_TOL_COARSE * self.total
            if is_near or abs(state.level) <= LEAST_LEVEL_COARSE * search.unit:
                break
        return state.level

    def step(self, state: LevelState) -> LevelState:
        """Return the state after one inner solve, with the level of the next one."""
        level, convex = state.next_level, self.problem.psd.is_psd
        near = state.high if abs(state.high_level - level) < abs(level - state.low_level) else state.low
        at, alpha = self.solved(level, near if near.any() else None)
        self.last = alpha
        short = self.total - float(alpha.sum())
        if level == 0.0 and short > 0 and (lifted := self.lifted(alpha, short)) is not None:
            return replace(state, alpha=lifted, level=level, solves=state.solves + 1, done=True, exact=convex)
        state = replace(state, level=level, solves=state.solves + 1)
        free, direction, slope = self.slope(at, alpha) if convex else (np.empty(0, np.intp), np.empty(0), 0.0)
        if abs(short) <= (SUM_TOL_REFINED if convex else SUM_TOL_UNREFINED) * self.total:
            alpha[free] += direction * (short / slope) if slope > 0 else 0.0
            return replace(state, alpha=self.balanced(alpha, free), done=True, exact=convex)
        if short > 0:
            state = replace(state, low=alpha, low_level=level)
        else:
            state = replace(state, high=alpha, high_level=level)
        state = replace(state, alpha=self.between(state, alpha), next_level=self.proposed(state, short, slope))
        width, size = state.high_level - state.low_level, abs(state.high_level) + abs(state.low_level)
        closed = width < np.inf and (width <= BRACKET_TOL * size or size <= 4.0 * LEVEL_TOL * self.unit)
        closed = closed or (state.low_level >= 0.0 and self.is_without_margin(state))
        return replace(state, done=closed or state.solves >= MAX_INNER_SOLVES, exact=closed and convex)

    def is_without_margin(self, state: LevelState) -> bool:
        """Whether f is round-off at α: the sum at level 0 is no smaller than the total, and every level is 0 there."""
        problem, alpha = self.problem, state.alpha
        if problem.p.any() or not abs(state.level) <= LEAST_LEVEL_COARSE * self.unit:
            return False
        quadratic = float(alpha @ problem.product(alpha))
        return 0.5 * quadratic <= vanishing(problem, alpha, quadratic)

    def proposed(self, state: LevelState, short: float, slope: float) -> float:
        """Return the level of Newton's step if it is in the bracket and not too far; else bisect the bracket."""
        level, (low, high) = state.level, (state.low_level, state.high_level)
        if abs(level) <= LEVEL_TOL * self.unit:  # the sign of `short` there is the sign of the level sought
            beyond = high if short > 0 else low
            return float(0.5 * (low + high) if np.isfinite(beyond) else np.copysign(NEAR_ZERO * self.unit, short))
        least, largest = sorted((level / MAX_STEP_RATIO, level * MAX_STEP_RATIO))
        newton = level + short / slope if slope > 0 else np.copysign(np.inf, short)
        newton = min(max(newton, least), largest)
        crosses = level < 0 and slope > 0 and level + short / slope >= 0 and abs(level) <= NEAR_ZERO * self.unit
        newton = 0.0 if crosses else newton
        if low < newton < high:
            return float(newton)
        if low * high > 0:
            return float(np.copysign(np.sqrt(low * high), low))
        if low == 0 or high == 0:
            return float((low + high) / MAX_STEP_RATIO)
        return float(0.5 * (low + high))

    def solved(self, level: float, warm: NDArray | None) -> tuple[Workspace, NDArray]:
        """Return the problem at a level and its optimum, refined if Q is positive semidefinite."""
        problem = self.problem
        at = Workspace(problem.at_level(level), problem.gram, problem.psd)
        descent = Descent(at, INNER_GAP_TOL, None, True, None)
        state = descent.start(warm)
        while not state.done:
            state = descent.step(state)
        alpha = at.project(state.alpha)
        if problem.psd.is_psd:
            alpha = refine(
                at,
                alpha,
                certifier=Certifier.of(at),
                gradient=descent.gradient(state),
                solve_nearly_free=solve_nearly_free,
            ).alpha
        return at, np.array(alpha)

    def slope(self, at: Workspace, alpha: NDArray) -> tuple[NDArray, NDArray, float]:
        """Return the free variables, their derivatives with respect to the level, and the sum of these."""
        free = np.flatnonzero((alpha > 0) & (alpha < at.upper))
        if not len(free) or at.e is None:
            return free, np.zeros(len(free)), 0.0
        Q, e = at.block(free, free), at.e[free]
        Q.flat[:: len(free) + 1] += 16 * _EPS * (float(np.trace(Q)) or 1.0)
        L = np.asfortranarray(Q)
        if not factorise(L):  # no slope: the bracket is bisected
            return free, np.zeros(len(free)), 0.0
        by_one, by_e = cho_solve((L, True), np.stack([np.ones(len(free)), e], axis=1), check_finite=False).T
        direction = by_one - float(e @ by_one) / float(e @ by_e) * by_e
        return free, direction, float(direction.sum())

    def lifted(self, alpha: NDArray, short: float) -> NDArray | None:
        """Return α with both variables of each point raised equally until they sum to the total.

        At level 0 this changes neither f nor the equality. None if the variables of a point do not cancel, or if their
        upper bounds are too small.
        """
        problem, half = self.problem, self.problem.n // 2
        idx, first, second = problem.idx, slice(0, half), slice(half, None)
        if idx is None or not np.array_equal(idx[first], idx[second]) or problem.has_ridge:
            return None
        if (problem.p[first] + problem.p[second]).any() or (problem.sigma[first] + problem.sigma[second]).any():
            return None
        room = np.minimum((problem.upper - alpha)[first], (problem.upper - alpha)[second])
        if not 2.0 * float(room.sum()) >= short:
            return None
        return alpha + np.tile(room * (0.5 * short / float(room.sum())), 2)

    def between(self, state: LevelState, alpha: NDArray) -> NDArray:
        """Return the mixture of the optima at both ends that sums to the total, or the projection of the last one."""
        if not (np.isfinite(state.low_level) and np.isfinite(state.high_level)):
            return self.problem.project(alpha)
        low, high = float(state.low.sum()), float(state.high.sum())
        part = (self.total - low) / (high - low) if high > low else 0.5
        mixed: NDArray = (1.0 - part) * state.low + part * state.high
        return mixed

    def balanced(self, alpha: NDArray, free: NDArray) -> NDArray:
        """Return α with the round-off of both sums added to free variables: a projection would free others too."""
        for J, wanted in self.problem.groups:
            own = np.intersect1d(J, free, assume_unique=True)
            alpha[own] += (wanted - float(alpha[J].sum())) / max(1, len(own))
        return np.clip(alpha, 0.0, self.problem.upper)
