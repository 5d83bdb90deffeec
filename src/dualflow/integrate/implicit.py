"""The implicit step: linearly implicit Euler for the replicator-mutator flow, in primal and slack variables.

One step of length h solves, for α⁺, ν⁺ and the slacks z = ε/α, y = ε/(u − α),

    (α⁺ − α)/(hw) = p − Qα⁺ + ν⁺e + z⁺ − y⁺        the flow, divided by its metric w
    eᵀα⁺ − d = −(τ/h)(ν⁺ − ν)                       τ = 0: ν is the exact multiplier (gradient flow);
                                                    τ > 0: Lotka-Volterra's λ̇ = −(eᵀα − d)/τ
    α⁺z⁺ = ε,   (u − α⁺)y⁺ = ε                      mutation, linearised in its own variables

With h and ε fixed this integrates the flow, to first order, stably for any h, and with ε = 0 f never rises.
With h growing and ε annealed after Mehrotra (1992), corrected after Gondzio (1996) and with Colombo and Gondzio's
(2008) choice of the corrector's weight, it is a primal-dual interior-point method; the same step linearised in α
alone does not converge. Each step costs one Cholesky factorisation of an n × n matrix or less
(see `stiff_system`) and a few solves with it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..flows.gradient import weights
from .stiff_system import LowRankSystem, StiffSystem

__all__ = ["ImplicitState", "implicit_start", "implicit_step"]

#: Fraction of the way to the boundary a step may go.
_TO_BOUNDARY = 0.995
#: ε falls to this part in a step at least: what is too bold the correctors mend, and they are cheap.
_TIMID = 0.3
#: Gondzio's correctors: at most so many, each aiming at a step longer by this much, and kept if it gains so much.
_CORRECTORS, _LONGER, _GAIN = 5, 0.3, 0.01
#: They push every product αz, (u − α)y into this multiple of ε.
_LOW, _HIGH = 0.1, 10.0
_WEIGHTS = (0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class ImplicitState:
    """Flow time t, next step length h, α (n,), ν, and the slacks of the lower and upper bounds (n,).

    ``moved`` is the fraction of the last step that the bounds allowed; 0 at the start. ``level`` is the multiplier μ of
    a second equality, 1ᵀα = total.
    """

    t: float
    h: float
    alpha: NDArray
    nu: float
    z_lower: NDArray
    z_upper: NDArray
    moved: float = 0.0
    level: float = 0.0

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
    factor: NDArray | None = None,
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
    factor : array of shape (n, r), optional
        L with Q = LLᵀ + diag(ridge), where the rank is low (see `low_rank`).
    """
    system = _System(problem, state, tau, factor)
    change = _annealed(problem, state, system) if mutation is None else system.towards(mutation)
    reach = system.reach(change, _TO_BOUNDARY)
    moved = _move(state, change, reach)
    return replace(moved, t=state.t + reach * state.h, h=state.h * growth, moved=reach)


class _Change(NamedTuple):
    """Change of (α, ν, z, y, μ)."""

    alpha: NDArray
    nu: float
    lower: NDArray
    upper: NDArray
    level: float = 0.0

    def plus(self, other: _Change, weight: float) -> _Change:
        return _Change(
            self.alpha + weight * other.alpha,
            self.nu + weight * other.nu,
            self.lower + weight * other.lower,
            self.upper + weight * other.upper,
            self.level + weight * other.level,
        )


def _move(state: ImplicitState, change: _Change, reach: float) -> ImplicitState:
    return replace(
        state,
        alpha=state.alpha + reach * change.alpha,
        nu=state.nu + reach * change.nu,
        z_lower=state.z_lower + reach * change.lower,
        z_upper=state.z_upper + reach * change.upper,
        level=state.level + reach * change.level,
    )


def _annealed(problem: DualProblem, state: ImplicitState, system: _System) -> _Change:
    """Mehrotra's predictor and corrector, then Gondzio's correctors, all by the one factorisation."""
    # Predictor: how far would a step without mutation get? Corrector: aim for that, curvature included.
    ahead = system.towards(0.0)
    now = state.complementarity(problem)
    then = _move(state, ahead, system.reach(ahead)).complementarity(problem)
    sigma = min((then / now) ** 3, _TIMID) if now > 0 else 0.0
    if state.moved > 0.9:
        sigma *= _TIMID  # the bounds hardly shortened the last step: that rule was timid
    goal = sigma * now
    change = system.towards(goal, ahead)
    reach = system.reach(change)
    for _ in range(_CORRECTORS):
        if reach > 0.9999:
            break
        # A longer step would throw some products far from ε; send those back and see how far that gets.
        corrector = system.recentre(change, min(1.0, 1.08 * reach + _LONGER), goal)
        tried = [change.plus(corrector, weight) for weight in _WEIGHTS]
        reaches = [system.reach(candidate) for candidate in tried]
        best = int(np.argmax(reaches))
        if reaches[best] < 1.01 * reach + _GAIN * (1.0 - 1.01 * reach):
            break
        change, reach = tried[best], reaches[best]
    return change


class _System:
    """The linear system of one step, factorised once."""

    def __init__(self, problem: DualProblem, state: ImplicitState, tau: float, factor: NDArray | None) -> None:
        self.problem, self.state = problem, state
        self.live, self.capped = _live(problem)
        n, live, capped = problem.n, self.live, self.capped
        # A step to 0.995 of the way, repeated, meets the upper bound in float64: half an ulp of room is kept.
        self.room = np.zeros(n)
        np.maximum(problem.upper - state.alpha, 1e-16 * problem.effective_upper, out=self.room, where=capped)
        # 1/α, 0 where a bound is 0 or ∞; and so on below
        self.inverse = np.divide(1.0, state.alpha, out=np.zeros(n), where=live)
        self.inverse_room = np.divide(1.0, self.room, out=np.zeros(n), where=capped)
        w = weights(problem, state.alpha)
        diagonal = np.divide(1.0, state.h * w, out=np.zeros(n), where=live & (w > 0))
        diagonal += state.z_lower * self.inverse + state.z_upper * self.inverse_room
        diagonal[~live] = np.inf
        Q, e = problem.dense(), problem.e
        self.residual = Q @ state.alpha - problem.p - state.z_lower + state.z_upper
        if e is not None:
            self.residual -= state.nu * e
        if problem.total is not None:
            self.residual -= state.level
        self.stiff: StiffSystem | LowRankSystem
        if factor is None:
            self.stiff = StiffSystem(Q, diagonal)
        else:
            self.stiff = LowRankSystem(factor, diagonal + problem.ridge)
        self.slope = tau / state.h  # of the equality's row
        # Of one equality; of two, those of the variables with e = +1 and with e = −1, which one sum each is about.
        self.column = None if e is None or problem.groups else self.stiff.solve(e)
        self.sides = [J for J, _ in problem.groups]
        self.columns = [self.stiff.solve(np.bincount(J, minlength=n).astype(float)) for J in self.sides]
        self.corner = [[float(column[J].sum()) for column in self.columns] for J in self.sides]
        self.values = self._stack(state.alpha, self.room, state.z_lower, state.z_upper)

    def _stack(self, alpha: NDArray, room: NDArray, lower: NDArray, upper: NDArray) -> NDArray:
        """Everything that must stay positive, in one vector."""
        live, capped = self.live, self.capped
        return np.concatenate([alpha[live], room[capped], lower[live], upper[capped]])

    def _solve(
        self, lower: NDArray, upper: NDArray, residual: NDArray | float, missing: float, short: NDArray | float = 0.0
    ) -> _Change:
        """The change with zΔα + αΔz = lower, −yΔα + (u − α)Δy = upper that takes away residual and missing; of two
        equalities what the sums of both sides are ``short`` of."""
        state, e = self.state, self.problem.e
        change = self.stiff.solve(lower * self.inverse - upper * self.inverse_room - residual)
        d_nu = d_level = 0.0
        if self.columns:
            wanted = short - np.array([float(change[J].sum()) for J in self.sides])
            plus, minus = np.linalg.lstsq(self.corner, wanted)[0].tolist()
            d_nu, d_level = 0.5 * (plus - minus), 0.5 * (plus + minus)
            change += plus * self.columns[0] + minus * self.columns[1]
        elif e is not None and self.column is not None:
            d_nu = (missing - float(e @ change)) / (float(e @ self.column) + self.slope)
            change += d_nu * self.column
        d_lower = (lower - state.z_lower * change) * self.inverse
        d_upper = (upper + state.z_upper * change) * self.inverse_room
        return _Change(change, d_nu, d_lower, d_upper, d_level)

    def towards(self, mutation: float, ahead: _Change | None = None) -> _Change:
        """Change towards mutation ε; ``ahead`` supplies Mehrotra's second-order terms."""
        state, e = self.state, self.problem.e
        lower = mutation - state.alpha * state.z_lower
        upper = mutation - self.room * state.z_upper
        if ahead is not None:
            lower -= ahead.alpha * ahead.lower
            upper += ahead.alpha * ahead.upper
        lower[~self.live] = 0.0
        upper[~self.capped] = 0.0
        missing = 0.0 if e is None else self.problem.d - float(e @ state.alpha)
        short = np.array([wanted - float(state.alpha[J].sum()) for J, wanted in self.problem.groups])
        return self._solve(lower, upper, self.residual, missing, short)

    def recentre(self, change: _Change, aim: float, mutation: float) -> _Change:
        """What brings the products after a part ``aim`` of a change back between 0.1ε and 10ε (Gondzio 1996)."""
        state = self.state
        lower = (state.alpha + aim * change.alpha) * (state.z_lower + aim * change.lower)
        upper = (self.room - aim * change.alpha) * (state.z_upper + aim * change.upper)
        for products, bounded in ((lower, self.live), (upper, self.capped)):
            products[:] = np.clip(products, _LOW * mutation, _HIGH * mutation) - products
            np.maximum(products, -_HIGH * mutation, out=products)
            products[~bounded] = 0.0
        return self._solve(lower, upper, 0.0, 0.0)

    def reach(self, change: _Change, fraction: float = 1.0) -> float:
        """Longest part of a change that stays inside the bounds with all slacks positive, at most 1."""
        moves = self._stack(change.alpha, -change.alpha, change.lower, change.upper)
        falls = moves < 0
        if not falls.any():
            return 1.0
        return min(1.0, fraction / float((-moves[falls] / self.values[falls]).max()))
