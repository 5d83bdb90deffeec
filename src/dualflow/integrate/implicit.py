"""Linearly implicit Euler steps of the replicator-mutator flow, in primal and slack variables.

One step of length h solves, for α⁺, ν⁺ and the slacks z = ε/α, y = ε/(u − α),

    (α⁺ − α)/(hw) = p − Qα⁺ + ν⁺e + z⁺ − y⁺        the flow, divided by its metric w
    eᵀα⁺ − d = −(τ/h)(ν⁺ − ν)                       τ = 0: ν is the exact multiplier (gradient flow);
                                                    τ > 0: Lotka-Volterra's λ̇ = −(eᵀα − d)/τ
    α⁺z⁺ = ε,   (u − α⁺)y⁺ = ε                      mutation, linearised in α, z and y

With h and ε fixed this integrates the flow to first order, stably for any h, and with ε = 0 f never rises. With h
growing and ε decreasing after Mehrotra (1992), correctors after Gondzio (1996), and their weight after Colombo and
Gondzio (2008), it is a primal-dual interior-point method; the same step linearised in α only does not converge. Each
step costs one Cholesky factorisation of an n × n matrix or a smaller one (see `stiff_system`), and a few solves.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.factored import FactoredWorkspace
from ..core.low_rank import LowRankSystem
from ..core.problem import DualProblem
from ..flows.gradient import weights
from .stiff_system import StiffSystem

#: Largest fraction of the way to the boundary that a step goes.
_BOUNDARY_FRACTION = 0.995
#: Largest factor of ε in a step. If ε falls too fast, the correctors, which are cheap, compensate.
_MAX_MUTATION_RATIO = 0.3
#: Largest number of Gondzio's correctors in a step.
_MAX_CORRECTORS = 5
#: Each corrector aims at a step whose fraction of the way to the boundary is larger by 8 % and by this.
_CORRECTOR_AIM = 0.3
#: A corrector is kept if it makes the step 1 % longer, and closes this share of what is left to a full step.
_MIN_CORRECTOR_GAIN = 0.01
#: Correctors move every product αz, (u − α)y to at least this multiple of ε.
_MIN_PRODUCT_RATIO = 0.1
#: Correctors move every product to at most this multiple of ε.
_MAX_PRODUCT_RATIO = 10.0
#: Weights of a corrector that are tried.
_CORRECTOR_WEIGHTS = (0.2, 0.4, 0.6, 0.8, 1.0)


@dataclass(frozen=True)
class ImplicitState:
    """The state of an integration."""

    #: t, h: flow time, and the length of the next step.
    t: float
    h: float
    alpha: NDArray  # shape (n,)
    nu: float  # multiplier of eᵀα = d
    #: z_lower, z_upper: slacks of the lower and upper bounds; shape (n,).
    z_lower: NDArray
    z_upper: NDArray
    moved: float = 0.0  # fraction of the last step that the bounds allowed; 0 at the start
    level: float = 0.0  # multiplier μ of a second equality, 1ᵀα = total

    def complementarity(self, problem: DualProblem) -> float:
        """Return the mean of αz and (u − α)y, the ε of this state."""
        positive, capped = _positive_and_capped(problem)
        room = problem.upper - self.alpha
        total = float(self.alpha[positive] @ self.z_lower[positive]) + float(room[capped] @ self.z_upper[capped])
        return total / max(1, int(positive.sum()) + int(capped.sum()))


def _positive_and_capped(problem: DualProblem) -> tuple[NDArray, NDArray]:
    """Return which variables have u > 0, and which of these have a finite u."""
    positive = problem.upper > 0
    return positive, positive & np.isfinite(problem.upper)


def implicit_start(problem: DualProblem, alpha: NDArray, h: float, nu: float, mutation: float) -> ImplicitState:
    """Return the state at t = 0 from an interior α, with the slacks ε/α and ε/(u − α) of mutation ε."""
    positive, capped = _positive_and_capped(problem)
    z_lower, z_upper = np.zeros(problem.n), np.zeros(problem.n)
    z_lower[positive] = mutation / alpha[positive]
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
    """Return the state after one implicit step.

    Parameters
    ----------
    problem : DualProblem
        Q must be positive semidefinite. The dense matrix is formed, unless it is a `FactoredWorkspace`.
    state : ImplicitState
    tau : float ≥ 0
        Time scale of a dynamic multiplier; 0 makes it exact.
    mutation : float ≥ 0, optional
        Fixed ε; by default ε decreases by Mehrotra's rule.
    growth : float ≥ 1
        Factor from this step's h to the next one's.
    factor : array of shape (n, r), optional
        L with Q = LLᵀ + diag(ridge), if the rank is low (see `low_rank`). That of a `FactoredWorkspace` is its own.
    """
    system = _System(problem, state, tau, factor)
    change = _mehrotra_change(problem, state, system) if mutation is None else system.towards(mutation)
    fraction = system.feasible_fraction(change, _BOUNDARY_FRACTION)
    moved = _move(state, change, fraction)
    return replace(moved, t=state.t + fraction * state.h, h=state.h * growth, moved=fraction)


class _Change(NamedTuple):
    """A change of (α, ν, z, y, μ)."""

    alpha: NDArray
    nu: float
    lower: NDArray
    upper: NDArray
    level: float = 0.0

    def plus(self, other: _Change, weight: float) -> _Change:
        """Return the sum of this change and ``weight`` times another."""
        return _Change(
            self.alpha + weight * other.alpha,
            self.nu + weight * other.nu,
            self.lower + weight * other.lower,
            self.upper + weight * other.upper,
            self.level + weight * other.level,
        )


def _move(state: ImplicitState, change: _Change, fraction: float) -> ImplicitState:
    """Return the state after a fraction of a change."""
    return replace(
        state,
        alpha=state.alpha + fraction * change.alpha,
        nu=state.nu + fraction * change.nu,
        z_lower=state.z_lower + fraction * change.lower,
        z_upper=state.z_upper + fraction * change.upper,
        level=state.level + fraction * change.level,
    )


def _mehrotra_change(problem: DualProblem, state: ImplicitState, system: _System) -> _Change:
    """Return Mehrotra's predictor and corrector, then Gondzio's correctors, all by one factorisation."""
    # The predictor is a step without mutation; the corrector aims at its ε, second-order terms included.
    ahead = system.towards(0.0)
    now = state.complementarity(problem)
    then = _move(state, ahead, system.feasible_fraction(ahead)).complementarity(problem)
    sigma = min((then / now) ** 3, _MAX_MUTATION_RATIO) if now > 0 else 0.0
    if state.moved > 0.9:
        sigma *= _MAX_MUTATION_RATIO  # the bounds hardly shortened the last step, so that ε can fall faster
    goal = sigma * now
    change = system.towards(goal, ahead)
    fraction = system.feasible_fraction(change)
    for _ in range(_MAX_CORRECTORS):
        if fraction > 0.9999:
            break
        # A longer step would move some products far from ε. The corrector moves them back; the best weight is kept.
        corrector = system.recentre(change, min(1.0, 1.08 * fraction + _CORRECTOR_AIM), goal)
        tried = [change.plus(corrector, weight) for weight in _CORRECTOR_WEIGHTS]
        fractions = [system.feasible_fraction(candidate) for candidate in tried]
        best = int(np.argmax(fractions))
        if fractions[best] < 1.01 * fraction + _MIN_CORRECTOR_GAIN * (1.0 - 1.01 * fraction):
            break
        change, fraction = tried[best], fractions[best]
    return change


class _System:
    """The linear system of one step, factorised once."""

    def __init__(self, problem: DualProblem, state: ImplicitState, tau: float, factor: NDArray | None) -> None:
        self.problem, self.state = problem, state
        self.positive, self.capped = _positive_and_capped(problem)
        n, positive, capped = problem.n, self.positive, self.capped
        # Repeated steps of 0.995 of the way reach the upper bound in float64: half an ulp of room is kept.
        self.room = np.zeros(n)
        np.maximum(problem.upper - state.alpha, 1e-16 * problem.effective_upper, out=self.room, where=capped)
        # 1/α and 1/(u − α), 0 for variables without room or with an infinite bound.
        self.inverse = np.divide(1.0, state.alpha, out=np.zeros(n), where=positive)
        self.inverse_room = np.divide(1.0, self.room, out=np.zeros(n), where=capped)
        w = weights(problem, state.alpha)
        diagonal = np.divide(1.0, state.h * w, out=np.zeros(n), where=positive & (w > 0))
        diagonal += state.z_lower * self.inverse + state.z_upper * self.inverse_room
        diagonal[~positive] = np.inf
        e, is_factored = problem.e, isinstance(problem, FactoredWorkspace)
        product = problem.product(state.alpha) if is_factored else problem.dense() @ state.alpha
        self.residual = product - problem.p - state.z_lower + state.z_upper
        if e is not None:
            self.residual -= state.nu * e
        if problem.total is not None:
            self.residual -= state.level
        self.stiff: StiffSystem | LowRankSystem
        if isinstance(problem, FactoredWorkspace):
            factor = problem.L
        if factor is None:
            self.stiff = StiffSystem(problem.dense(), diagonal)
        else:
            self.stiff = LowRankSystem(factor, diagonal + problem.ridge)
        self.slope = tau / state.h  # entry of the multiplier in the equality's row
        # Solutions for the column e of one equality; with two, for the indicators of e = +1 and of e = −1.
        self.column = None if e is None or problem.groups else self.stiff.solve(e)
        self.sides = [J for J, _ in problem.groups]
        self.columns = [self.stiff.solve(np.bincount(J, minlength=n).astype(float)) for J in self.sides]
        self.corner = [[float(column[J].sum()) for column in self.columns] for J in self.sides]
        self.values = self._stack(state.alpha, self.room, state.z_lower, state.z_upper)

    def _stack(self, alpha: NDArray, room: NDArray, lower: NDArray, upper: NDArray) -> NDArray:
        """Return all values that must stay positive, in one vector."""
        positive, capped = self.positive, self.capped
        return np.concatenate([alpha[positive], room[capped], lower[positive], upper[capped]])

    def _solve(
        self, lower: NDArray, upper: NDArray, residual: NDArray | float, missing: float, short: NDArray | float = 0.0
    ) -> _Change:
        """Return the change with zΔα + αΔz = lower and −yΔα + (u − α)Δy = upper.

        It removes ``residual``, and ``missing`` of the equality; with two equalities ``short`` of the sums over e = +1
        and e = −1.
        """
        state, e = self.state, self.problem.e
        change = self.stiff.solve(lower * self.inverse - upper * self.inverse_room - residual)
        d_nu = d_level = 0.0
        if self.columns:
            sums = short - np.array([float(change[J].sum()) for J in self.sides])
            plus, minus = np.linalg.lstsq(self.corner, sums, rcond=None)[0].tolist()
            d_nu, d_level = 0.5 * (plus - minus), 0.5 * (plus + minus)
            change += plus * self.columns[0] + minus * self.columns[1]
        elif e is not None and self.column is not None:
            d_nu = (missing - float(e @ change)) / (float(e @ self.column) + self.slope)
            change += d_nu * self.column
        d_lower = (lower - state.z_lower * change) * self.inverse
        d_upper = (upper + state.z_upper * change) * self.inverse_room
        return _Change(change, d_nu, d_lower, d_upper, d_level)

    def towards(self, mutation: float, ahead: _Change | None = None) -> _Change:
        """Return the change towards mutation ε; ``ahead`` gives Mehrotra's second-order terms."""
        state, e = self.state, self.problem.e
        lower = mutation - state.alpha * state.z_lower
        upper = mutation - self.room * state.z_upper
        if ahead is not None:
            lower -= ahead.alpha * ahead.lower
            upper += ahead.alpha * ahead.upper
        lower[~self.positive] = 0.0
        upper[~self.capped] = 0.0
        missing = 0.0 if e is None else self.problem.d - float(e @ state.alpha)
        short = np.array([target - float(state.alpha[J].sum()) for J, target in self.problem.groups])
        return self._solve(lower, upper, self.residual, missing, short)

    def recentre(self, change: _Change, aim: float, mutation: float) -> _Change:
        """Return the change that brings the products after ``aim`` of a change to 0.1ε…10ε (Gondzio 1996)."""
        state = self.state
        lower = (state.alpha + aim * change.alpha) * (state.z_lower + aim * change.lower)
        upper = (self.room - aim * change.alpha) * (state.z_upper + aim * change.upper)
        for products, bounded in ((lower, self.positive), (upper, self.capped)):
            products[:] = np.clip(products, _MIN_PRODUCT_RATIO * mutation, _MAX_PRODUCT_RATIO * mutation) - products
            np.maximum(products, -_MAX_PRODUCT_RATIO * mutation, out=products)
            products[~bounded] = 0.0
        return self._solve(lower, upper, 0.0, 0.0)

    def feasible_fraction(self, change: _Change, target: float = 1.0) -> float:
        """Return the largest part of a change, at most 1, that keeps α inside its bounds and the slacks positive."""
        moves = self._stack(change.alpha, -change.alpha, change.lower, change.upper)
        falls = moves < 0
        if not falls.any():
            return 1.0
        return min(1.0, target / float((-moves[falls] / self.values[falls]).max()))
