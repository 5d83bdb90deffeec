"""From the interior to the bounds: which variables are at them, and where that leaves the others.

Of a pair αz = μ one tends to 0 and the other does not, so that near the end the smaller of the two, each in its own
unit, says which. The variables that are free then are the solution of a linear system; those that it takes to a bound
are held there, and the system of the others is solved again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .state import InteriorState

__all__ = ["Form", "FreeStep", "at_bounds"]

#: Solves at most, and how much bolder than the last step's the weights of their proximal terms are; of two equalities,
#: whose border columns leave less of float64, they are not.
SOLVES, BOLDER = 12, 1e3
#: The largest weight of a variable before it is made bolder: beyond, it would leave float64.
FINITE = 1e300
#: A step, as a part of the largest α, that is round-off.
RESTS = 1e-15
#: Rounds of letting go of variables at most, and the wrong multiplier, as a part of the others' mean, that is one.
ROUNDS, SHARP = 8, 1e-11


class FreeStep(Protocol):
    """Newton's step of some variables alone, the others held where they are."""

    def step(self, alpha: NDArray, state: InteriorState, weight: NDArray) -> tuple[NDArray, InteriorState]:
        """The change of these variables, and the state with the weights w and the multipliers afterwards, which are all
        that is looked at of it; ``weight`` is q of each."""

    def without(self, keep: NDArray) -> FreeStep:
        """That of fewer variables."""


class Form(Protocol):
    """A form of the iteration: with few columns, or over the whole Q."""

    @property
    def problem(self) -> DualProblem:
        """What is solved."""

    def free_step(self, free: NDArray) -> FreeStep:
        """Newton's step of some variables alone."""

    def values(self, w: NDArray) -> NDArray:
        """F w."""

    def slopes(self, state: InteriorState) -> NDArray:
        """∇f − νe − μ of a state, shape (n,)."""


def _sides(problem: DualProblem, state: InteriorState) -> tuple[NDArray, NDArray]:
    """Which variables are at their lower, and at their upper bounds."""
    alpha, room, low, high = state.at
    capped, live = np.isfinite(problem.upper), problem.upper > 0
    unit = np.minimum(problem.upper, float(alpha.max()) or 1.0)
    price = float((low + high)[live].mean()) or 1.0
    at_lower = ~live | (alpha * price < low * unit)
    at_upper = capped & ~at_lower & (room * price < high * unit)
    return at_lower, at_upper


def at_bounds(form: Form, state: InteriorState, q: NDArray) -> InteriorState:
    """The state at the bounds that its multipliers show, where the others' system leads; ``q`` is 1/(z/α + y/(u − α))
    of the last step. Variables whose multipliers have the wrong sign there are let go, and it is solved again."""
    problem, upper = form.problem, form.problem.upper
    at_lower, at_upper = _sides(problem, state)
    price = float((state.at[2] + state.at[3])[upper > 0].mean())
    best: InteriorState | None = None
    least = np.inf
    for _ in range(ROUNDS):
        state = _solved(form, state, at_lower, at_upper, q)
        slopes, alpha = form.slopes(state), state.alpha
        at_lower, at_upper = alpha <= 0.0, alpha >= upper
        wrong = np.where(at_lower & ~at_upper, -slopes, np.where(at_upper & ~at_lower, slopes, np.abs(slopes)))
        wrong[upper == 0] = 0.0
        worst = float(wrong.max())
        if worst < least:
            best, least = state, worst
        violators = (wrong > SHARP * price) & (at_lower | at_upper)
        if not violators.any():
            break
        at_lower, at_upper = at_lower & ~violators, at_upper & ~violators
    return state if best is None else best


def _solved(form: Form, state: InteriorState, at_lower: NDArray, at_upper: NDArray, q: NDArray) -> InteriorState:
    """The state with those variables at their bounds, and the others where their system leads."""
    problem = form.problem
    alpha = np.where(at_lower, 0.0, np.where(at_upper, problem.upper, state.alpha))
    free = np.flatnonzero(~(at_lower | at_upper))
    system = form.free_step(free)
    bolder = 1.0 if problem.groups else BOLDER
    for _ in range(SOLVES if len(free) else 0):
        weight = 1.0 / (1.0 / (bolder * np.minimum(q[free], FINITE)) + problem.ridge[free])
        step, state = system.step(alpha, state, weight)
        wish, most = alpha[free] + step, problem.upper[free]
        alpha[free] = np.clip(wish, 0.0, most)
        inside = (wish > 0) & (wish < most)
        if not inside.all():
            free, system = free[inside], system.without(inside)
            if not len(free):
                break
        elif np.abs(step).max(initial=0.0) <= RESTS * float(alpha.max()):
            break
    # What is left of an equality goes to its free variables: a projection would move those at their bounds too.
    if problem.groups:
        for J, wanted in problem.groups:
            own = np.intersect1d(J, free, assume_unique=True)
            moved = alpha[own] + (wanted - float(alpha[J].sum())) / max(1, len(own))
            alpha[own] = np.clip(moved, 0.0, problem.upper[own])
    elif problem.e is not None and len(free):
        moved = alpha[free] + problem.e[free] * (problem.d - float(problem.e @ alpha)) / len(free)
        alpha[free] = np.clip(moved, 0.0, problem.upper[free])
    room = np.where(np.isfinite(problem.upper), problem.upper - alpha, 1.0)
    at = np.stack([alpha, room, *state.at[2:]])
    return replace(state, at=at, values=form.values(state.w))
