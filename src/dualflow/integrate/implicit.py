"""The implicit step: linearly implicit Euler for the replicator-mutator flow, in primal and slack variables.

One step of length h solves, for α⁺, ν⁺ and the slacks z = ε/α, y = ε/(u − α),

    (α⁺ − α)/(hw) = p − Qα⁺ + ν⁺e + z⁺ − y⁺        the flow, divided by its metric w
    eᵀα⁺ − d = −(τ/h)(ν⁺ − ν)                       τ = 0: ν is the exact multiplier (gradient flow);
                                                    τ > 0: Lotka-Volterra's λ̇ = −(eᵀα − d)/τ
    α⁺z⁺ = ε,   (u − α⁺)y⁺ = ε                      mutation, linearised in its own variables

With h and ε fixed this integrates the flow, to first order, stably for any h, and with ε = 0 f never rises.
With h growing and ε annealed after Mehrotra (1992) it is a primal-dual interior-point method and reaches
relative gap 1e-6 in 7-20 steps; the same step linearised in α alone does not converge. Each step costs one
Cholesky factorisation of an n × n matrix and two solves with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..flows.gradient import weights

__all__ = ["ImplicitState", "implicit_start", "implicit_step"]

#: Fraction of the way to the boundary a step may go.
_TO_BOUNDARY = 0.995


@dataclass(frozen=True)
class ImplicitState:
    """Flow time t, next step length h, α (n,), ν, and the slacks of the lower and upper bounds (n,).

    ``moved`` is the fraction of the last step that the bounds allowed.
    """

    t: float
    h: float
    alpha: NDArray
    nu: float
    z_lower: NDArray
    z_upper: NDArray
    moved: float = 1.0

    def complementarity(self, problem: DualProblem) -> float:
        """Mean of αz and (u − α)y: the ε this state stands for."""
        live, capped = _live(problem)
        room = problem.upper - self.alpha
        total = float(self.alpha[live] @ self.z_lower[live]) + float(room[capped] @ self.z_upper[capped])
        return total / max(1, int(live.sum()) + int(capped.sum()))


def _live(problem: DualProblem) -> tuple[NDArray, NDArray]:
    live = problem.upper > 0
    return live, live & np.isfinite(problem.upper)


def implicit_start(problem: DualProblem, alpha: NDArray, h: float, nu: float, mutation: float) -> ImplicitState:
    """State at t = 0 from an interior α, with the slacks ε/α and ε/(u − α) of mutation ε."""
    live, capped = _live(problem)
    z_lower, z_upper = np.zeros(problem.n), np.zeros(problem.n)
    z_lower[live] = mutation / alpha[live]
    z_upper[capped] = mutation / (problem.upper - alpha)[capped]
    return ImplicitState(0.0, h, alpha, nu, z_lower, z_upper)


def implicit_step(
    problem: DualProblem,
    state: ImplicitState,
    *,
    tau: float = 0.0,
    mutation: float | None = None,
    growth: float = 1.0,
) -> ImplicitState:
    """One implicit step.

    Parameters
    ----------
    problem : DualProblem
        Q positive semidefinite; it is formed.
    state : ImplicitState
    tau : float ≥ 0
        Time scale of a dynamic multiplier; 0 makes it exact.
    mutation : float ≥ 0, optional
        ε held fixed; None anneals it by Mehrotra's rule.
    growth : float ≥ 1
        Factor from this step's h to the next one's.
    """
    system = _System(problem, state, tau)
    if mutation is None:
        # Predictor: how far would a step without mutation get? Corrector: aim for that, curvature included.
        ahead = system.direction(0.0)
        reach = system.reach(ahead, 1.0)
        now = state.complementarity(problem)
        then = system.move(ahead, reach).complementarity(problem)
        sigma = (then / now) ** 3 if now > 0 else 0.0
        change = system.direction(sigma * now, ahead)
    else:
        change = system.direction(mutation)
    reach = system.reach(change, _TO_BOUNDARY)
    moved = system.move(change, reach)
    return replace(moved, t=state.t + reach * state.h, h=state.h * growth, moved=reach)


class _System:
    """The linear system of one step, factorised once."""

    def __init__(self, problem: DualProblem, state: ImplicitState, tau: float) -> None:
        self.problem, self.state = problem, state
        self.live, self.capped = _live(problem)
        # A step to 0.995 of the way, repeated, meets the upper bound in float64: half an ulp of room is kept.
        self.room = np.maximum(problem.upper - state.alpha, 1e-16 * problem.effective_upper)
        inverse = np.zeros(problem.n)  # 1/α, 0 for dead variables, and so on below
        inverse[self.live] = 1.0 / state.alpha[self.live]
        inverse_room = np.zeros(problem.n)
        inverse_room[self.capped] = 1.0 / self.room[self.capped]
        self.inverse, self.inverse_room = inverse, inverse_room
        w = weights(problem, state.alpha)
        damping = np.divide(1.0, state.h * w, out=np.zeros(problem.n), where=self.live & (w > 0))
        diagonal = damping + state.z_lower * inverse + state.z_upper * inverse_room
        self.residual = problem.dense() @ state.alpha - problem.p - state.z_lower + state.z_upper
        e = problem.e
        if e is not None:
            self.residual -= state.nu * e
        self.factor = _factorise(problem.dense(), diagonal, self.live)
        self.slope = tau / state.h  # of the equality's row
        self.column = None if e is None else self._solve(np.where(self.live, e, 0.0))

    def _solve(self, right: NDArray) -> NDArray:
        return scipy.linalg.cho_solve(self.factor, right, check_finite=False)

    def direction(
        self, mutation: float, ahead: tuple[NDArray, float, NDArray, NDArray] | None = None
    ) -> tuple[NDArray, float, NDArray, NDArray]:
        """Change of (α, ν, z, y) towards mutation ε; ``ahead`` supplies Mehrotra's second-order terms."""
        state, e = self.state, self.problem.e
        goal_lower = np.where(self.live, mutation, 0.0)
        goal_upper = np.where(self.capped, mutation, 0.0)
        if ahead is not None:
            goal_lower = goal_lower - ahead[0] * ahead[2]
            goal_upper = goal_upper + ahead[0] * ahead[3]
        right = -self.residual
        right = right + goal_lower * self.inverse - state.z_lower - goal_upper * self.inverse_room + state.z_upper
        change = self._solve(np.where(self.live, right, 0.0))
        d_nu = 0.0
        if e is not None and self.column is not None:
            missing = self.problem.d - float(e @ state.alpha)
            d_nu = (missing - float(e @ change)) / (float(e @ self.column) + self.slope)
            change = change + d_nu * self.column
        change = np.where(self.live, change, 0.0)
        d_lower = (goal_lower - state.z_lower * change) * self.inverse - state.z_lower
        d_upper = (goal_upper + state.z_upper * change) * self.inverse_room - state.z_upper
        return change, d_nu, d_lower, d_upper

    def reach(self, change: tuple[NDArray, float, NDArray, NDArray], fraction: float) -> float:
        """Longest part of a change that stays inside the bounds with all slacks positive, at most 1."""
        d_alpha, _, d_lower, d_upper = change
        state, live, capped = self.state, self.live, self.capped
        reach = 1.0
        for value, move in (
            (state.alpha[live], d_alpha[live]),
            (self.room[capped], -d_alpha[capped]),
            (state.z_lower[live], d_lower[live]),
            (state.z_upper[capped], d_upper[capped]),
        ):
            falls = move < 0
            if falls.any():
                reach = min(reach, fraction * float((value[falls] / -move[falls]).min()))
        return reach

    def move(self, change: tuple[NDArray, float, NDArray, NDArray], reach: float) -> ImplicitState:
        state = self.state
        return replace(
            state,
            alpha=state.alpha + reach * change[0],
            nu=state.nu + reach * change[1],
            z_lower=state.z_lower + reach * change[2],
            z_upper=state.z_upper + reach * change[3],
        )


def _factorise(Q: NDArray, diagonal: NDArray, live: NDArray) -> tuple[NDArray, bool]:
    """Cholesky of Q + diag on the live variables (the rest decoupled), lifted by round-off if need be."""
    A = Q + np.diag(diagonal)
    if not live.all():
        A[~live, :] = 0.0
        A[:, ~live] = 0.0
        A[~live, ~live] = 1.0
    lift = 0.0
    for _ in range(12):
        try:
            return scipy.linalg.cho_factor(A + lift * np.eye(len(A)), lower=True, check_finite=False)
        except scipy.linalg.LinAlgError:
            lift = max(10 * lift, float(np.finfo(float).eps * np.abs(Q).max() * len(Q)))
    raise scipy.linalg.LinAlgError("Q is indefinite beyond round-off")
