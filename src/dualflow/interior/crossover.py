"""The step from the interior to the bounds: find the variables at bounds, and solve for the free ones.

In a complementary pair αz = μ one factor tends to 0 and the other does not. Near the end the smaller of the two, each
in its own unit, is the one that is 0. The free variables solve a linear system; those that it takes to a bound are
fixed there, and the system of the others is solved again.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .state import InteriorState

#: Largest number of linear systems to solve.
MAX_SYSTEMS = 12
#: The weights of the systems' proximal terms are the last step's q times this. With two equalities the factor is 1,
#: because border columns leave fewer digits of float64.
WEIGHT_FACTOR = 1e3
#: Largest q to multiply by that factor, so that the product stays in float64.
MAX_WEIGHT = 1e300
#: A step below this share of the largest α is round-off.
MIN_STEP = 1e-15
#: Largest number of rounds in which variables are freed from their bounds.
MAX_RELEASE_ROUNDS = 8
#: A multiplier of the wrong sign frees its variable if it exceeds this share of the mean multiplier.
MAX_WRONG_MULTIPLIER = 1e-11


class FreeStep(Protocol):
    """Newton's step over some variables, with the others fixed."""

    def step(self, alpha: NDArray, state: InteriorState, weight: NDArray) -> tuple[NDArray, InteriorState]:
        """Return the change of the variables, and the state with the new weights w and multipliers.

        Only these fields of the state are used. ``weight`` has q of each variable.
        """

    def without(self, keep: NDArray) -> FreeStep:
        """Return the step over the variables ``keep`` only."""


class Form(Protocol):
    """A form of the iteration: low-rank, or over the dense Q."""

    @property
    def problem(self) -> DualProblem:
        """The problem that is solved."""

    def free_step(self, free: NDArray) -> FreeStep:
        """Return Newton's step over the free variables alone."""

    def values(self, w: NDArray) -> NDArray:
        """Return F w."""

    def slopes(self, state: InteriorState) -> NDArray:
        """Return ∇f − νe − μ of a state, shape (n,)."""


def _sides(problem: DualProblem, state: InteriorState) -> tuple[NDArray, NDArray]:
    """Return which variables are at their lower bounds, and which at their upper ones."""
    alpha, room, low, high = state.at
    capped, live = np.isfinite(problem.upper), problem.upper > 0
    unit = np.minimum(problem.upper, float(alpha.max()) or 1.0)
    multiplier_scale = float((low + high)[live].mean()) or 1.0
    at_lower = ~live | (alpha * multiplier_scale < low * unit)
    at_upper = capped & ~at_lower & (room * multiplier_scale < high * unit)
    return at_lower, at_upper


def at_bounds(form: Form, state: InteriorState, q: NDArray, quick: bool = False) -> InteriorState:
    """Return the state with variables at the bounds that its multipliers show, and the others solved for.

    Variables whose multipliers then have the wrong sign are freed, and the system is solved again. ``q`` is
    1/(z/α + y/(u − α)) of the last step. An attempt that is ``quick`` ends at the first sign that other
    bounds are met.
    """
    problem, upper = form.problem, form.problem.upper
    at_lower, at_upper = _sides(problem, state)
    multiplier_scale = float((state.at[2] + state.at[3])[upper > 0].mean())
    best: InteriorState | None = None
    least = np.inf
    for _ in range(1 if quick else MAX_RELEASE_ROUNDS):
        state = _solve_free(form, state, at_lower, at_upper, q, quick)
        slopes, alpha = form.slopes(state), state.alpha
        at_lower, at_upper = alpha <= 0.0, alpha >= upper
        wrong = np.where(at_lower & ~at_upper, -slopes, np.where(at_upper & ~at_lower, slopes, np.abs(slopes)))
        wrong[upper == 0] = 0.0
        worst = float(wrong.max())
        if worst < least:
            best, least = state, worst
        violators = (wrong > MAX_WRONG_MULTIPLIER * multiplier_scale) & (at_lower | at_upper)
        if not violators.any():
            break
        at_lower, at_upper = at_lower & ~violators, at_upper & ~violators
    return state if best is None else best


def _solve_free(
    form: Form, state: InteriorState, at_lower: NDArray, at_upper: NDArray, q: NDArray, quick: bool
) -> InteriorState:
    """Return the state with the given variables at their bounds and the others solved for."""
    problem = form.problem
    alpha = np.where(at_lower, 0.0, np.where(at_upper, problem.upper, state.alpha))
    free = np.flatnonzero(~(at_lower | at_upper))
    system = form.free_step(free)
    factor = 1.0 if problem.groups else WEIGHT_FACTOR
    for _ in range(MAX_SYSTEMS if len(free) else 0):
        weight = 1.0 / (1.0 / (factor * np.minimum(q[free], MAX_WEIGHT)) + problem.ridge[free])
        step, state = system.step(alpha, state, weight)
        moved, upper = alpha[free] + step, problem.upper[free]
        alpha[free] = np.clip(moved, 0.0, upper)
        inside = (moved > 0) & (moved < upper)
        if not inside.all():
            if quick:
                break
            free, system = free[inside], system.without(inside)
            if not len(free):
                break
        elif np.abs(step).max(initial=0.0) <= MIN_STEP * float(alpha.max()):
            break
    # The residual of an equality goes to its free variables: a projection would move variables at bounds too.
    if problem.groups:
        for J, total in problem.groups:
            free_of_group = np.intersect1d(J, free, assume_unique=True)
            moved = alpha[free_of_group] + (total - float(alpha[J].sum())) / max(1, len(free_of_group))
            alpha[free_of_group] = np.clip(moved, 0.0, problem.upper[free_of_group])
    elif problem.e is not None and len(free):
        moved = alpha[free] + problem.e[free] * (problem.d - float(problem.e @ alpha)) / len(free)
        alpha[free] = np.clip(moved, 0.0, problem.upper[free])
    room = np.where(np.isfinite(problem.upper), problem.upper - alpha, 1.0)
    at = np.stack([alpha, room, *state.at[2:]])
    return state.changed(at=at, values=form.values(state.w))
