"""Interior-point steps over the dense Q, and for problems without bounds, as steps of the implicit flow.

A step of `gradient-flow` of infinite length is a Newton step on the optimality conditions, with Mehrotra's predictor
and Gondzio's correctors.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.bounds import vanishing
from ..core.workspace import Workspace
from ..flows.gradient import equality_multipliers, weights
from ..integrate.free import MAX_RELATIVE_ROUND_OFF, FreeFlow
from ..integrate.implicit import ImplicitState, implicit_start, implicit_step
from .crossover import at_bounds
from .state import CONVERGED_GAP, InteriorState, has_ended, inside

_EPS = float(np.finfo(float).eps)
_NONE = np.empty(0)


class Dense:
    """The iteration over the dense Q of a problem with lower bounds.

    Parameters
    ----------
    problem : Workspace
    """

    def __init__(self, problem: Workspace) -> None:
        self.problem: Workspace = problem
        self.Q = problem.dense()
        self.capped = (problem.upper > 0) & np.isfinite(problem.upper)

    def values(self, w: NDArray) -> NDArray:
        """Return w, which is empty: the dense form has no features."""
        return w

    def start(self, warm: NDArray | None) -> InteriorState:
        """Return the start: α as far from its bounds as the equality allows, and multipliers of the size of p."""
        problem = self.problem
        alpha = inside(problem, warm)
        g = problem.p - self.Q @ alpha
        nu, level = equality_multipliers(problem, weights(problem, alpha), g)
        size = float(np.abs(problem.p).mean()) or float(-g @ alpha) / float(alpha.sum())
        at = implicit_start(problem, alpha, np.inf, nu, max(size * float(alpha.mean()), _EPS))
        return self._state(replace(at, level=level))

    def _state(self, at: ImplicitState) -> InteriorState:
        """Return the interior state of a flow's state."""
        room = np.where(self.capped, self.problem.upper - at.alpha, 1.0)
        rows = np.stack([at.alpha, room, at.z_lower, at.z_upper])
        return InteriorState(rows, _NONE, _NONE, at.nu, moved=at.moved, level=at.level)

    def step(self, state: InteriorState) -> InteriorState:
        """Return the state after one predictor and its correctors, or the last one if the gap is reached."""
        gap = self.relative_gap(state)
        stalled = 0 if gap < 0.9 * state.best else state.stalled + 1
        state = replace(state, gap=gap, best=min(gap, state.best), stalled=stalled)
        if has_ended(gap, stalled):
            return self.finish(state)
        alpha, _, low, high = state.at
        at = ImplicitState(0.0, np.inf, alpha, state.nu, low, high, state.moved, state.level)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            after = self._state(implicit_step(self.problem, at))
        if not np.isfinite(after.at).all() or after.moved < 1e-12:
            return self.finish(state)
        return replace(after, gap=gap, best=state.best, stalled=stalled)

    def slopes(self, state: InteriorState) -> NDArray:
        """Return Qα − p − νe − μ, shape (n,)."""
        slopes: NDArray = self.Q @ state.alpha - self.problem.p
        slopes = slopes if self.problem.e is None else slopes - state.nu * self.problem.e
        return slopes - state.level if state.level else slopes

    def relative_gap(self, state: InteriorState) -> float:
        """Return the gap between f at α and the bound that α and ν give, as a part of |f|.

        An infinite upper bound counts as the largest α.
        """
        problem, alpha, slopes = self.problem, state.alpha, self.slopes(state)
        shortfall = 0.0 if problem.e is None else problem.d - float(problem.e @ alpha)
        of_equality = 0.0 if problem.e is None else state.nu * (problem.d - shortfall)
        quadratic = float(alpha @ (slopes + problem.p)) + of_equality
        quadratic += state.level * float(alpha.sum()) if state.level else 0.0
        room = np.where(np.isfinite(problem.upper), problem.upper - alpha, float(alpha.max()))
        room[problem.upper == 0] = 0.0
        objective = 0.5 * quadratic - float(problem.p @ alpha)
        left = float(alpha @ np.maximum(slopes, 0.0)) + float(room @ np.maximum(-slopes, 0.0))
        left += abs(state.nu * shortfall)
        left += 0.0 if problem.total is None else abs(state.level * (problem.total - float(alpha.sum())))
        return left / max(abs(objective), vanishing(problem, alpha, quadratic), float(np.finfo(float).tiny))

    def finish(self, state: InteriorState) -> InteriorState:
        """Return the last state: with variables at the bounds that their multipliers show, if that is as accurate."""
        alpha, room, low, high = state.at
        with np.errstate(over="ignore"):  # the stiffness of a variable at its bound may overflow
            stiff = low / np.maximum(alpha, np.finfo(float).tiny) + high / np.maximum(room, np.finfo(float).tiny)
        crossed = at_bounds(self, state, 1.0 / np.maximum(stiff, np.finfo(float).tiny))
        before, after = state.gap, self.relative_gap(crossed)
        if after <= max(before, CONVERGED_GAP):
            return replace(crossed, gap=after, done=True, exact=True)
        return replace(state, done=True)

    def free_step(self, free: NDArray) -> _FreeStep:
        """Return Newton's step over the free variables alone."""
        return _FreeStep(self, free)


class _FreeStep:
    """Newton's step over the free variables alone."""

    def __init__(self, form: Dense, free: NDArray) -> None:
        self.form, self.free = form, free

    def without(self, keep: NDArray) -> _FreeStep:
        """Return the step over the variables ``keep`` only."""
        return _FreeStep(self.form, self.free[keep])

    def step(self, alpha: NDArray, state: InteriorState, weight: NDArray) -> tuple[NDArray, InteriorState]:
        """Return the change of the free variables, and the state with the new multipliers."""
        form, free = self.form, self.free
        problem, Q = form.problem, form.Q
        e = np.zeros(len(free)) if problem.e is None else problem.e[free]
        rho = problem.p[free] - Q[free] @ alpha + state.nu * e + state.level
        A = Q[np.ix_(free, free)]
        A[np.arange(len(free)), np.arange(len(free))] += 1.0 / weight - problem.ridge[free]
        factor, failed = scipy.linalg.lapack.dpotrf(A, lower=1, overwrite_a=1)
        if failed:
            return np.zeros(len(free)), state
        moved = scipy.linalg.lapack.dpotrs(factor, rho, lower=1)[0]
        if problem.e is None:
            return moved, state
        if problem.groups:
            sides = np.array([e > 0, e < 0], dtype=float)
            lacking = [total - float(alpha[J].sum()) for J, total in problem.groups]
            columns = scipy.linalg.lapack.dpotrs(factor, sides.T, lower=1)[0]
            plus, minus = np.linalg.lstsq(sides @ columns, lacking - sides @ moved, rcond=None)[0].tolist()
            nu, level = state.nu + 0.5 * (plus - minus), state.level + 0.5 * (plus + minus)
            return moved + columns @ [plus, minus], replace(state, nu=nu, level=level)
        along = scipy.linalg.lapack.dpotrs(factor, e, lower=1)[0]
        shortfall = problem.d - float(problem.e @ alpha)
        d_nu = (shortfall - float(e @ moved)) / float(e @ along)
        return moved + d_nu * along, replace(state, nu=state.nu + d_nu)


class Affine:
    """The Newton step of a problem without bounds, and further steps that correct its round-off.

    Parameters
    ----------
    problem : Workspace
    """

    def __init__(self, problem: Workspace) -> None:
        self.flow = FreeFlow(problem)

    def start(self, warm: NDArray | None) -> InteriorState:
        """Return the start: the origin, or ``warm``, projected onto the equality."""
        alpha = self.flow.start(warm, None).alpha
        zeros = np.zeros(len(alpha))
        return InteriorState(np.stack([alpha, zeros, zeros, zeros]), _NONE, _NONE, 0.0)

    def step(self, state: InteriorState) -> InteriorState:
        """Return the state at the end of the flow."""
        at = ImplicitState(0.0, self.flow.longest, state.alpha, state.nu, _NONE, _NONE)
        after, left = self.flow.step(at, 1.0)
        zeros = np.zeros(len(after.alpha))
        rows, rests = np.stack([after.alpha, zeros, zeros, zeros]), after.moved == 0.0 or left <= MAX_RELATIVE_ROUND_OFF
        return replace(state, at=rows, nu=after.nu, gap=left, done=rests, exact=left <= MAX_RELATIVE_ROUND_OFF)
