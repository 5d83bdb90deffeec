"""What `gradient-flow` and `lotka-volterra` share: a field, an integrator chosen by name, a clock."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..exceptions import ProblemError
from ..flows.gradient import GradientField, balance, interior_point, weights
from ..flows.lotka_volterra import LotkaVolterraField
from ..integrate.implicit import ImplicitState, implicit_start, implicit_step
from ..integrate.multiplicative import multiplicative_step, safe_step
from ..integrate.scipy_ivp import METHODS, ivp_step
from ..integrate.stiff_system import low_rank
from .base import EVERY_CONVEX, Solver

__all__ = ["FlowSolver", "FlowState"]

INTEGRATORS = ("implicit", "multiplicative", *METHODS)


@dataclass(frozen=True)
class FlowState:
    """Flow time, step length, α of shape (n,), multiplier, slacks of shape (n,), their mean product, and for implicit
    steps: how far the last one got, steps without movement, L of shape (n, r) where Q = LLᵀ + diag(ridge).
    """

    t: float
    h: float
    alpha: NDArray
    nu: float
    z_lower: NDArray
    z_upper: NDArray
    complementarity: float
    moved: float = 0.0
    stalled: int = 0
    factor: NDArray | None = field(default=None, metadata={"saved": False})


@dataclass(frozen=True)
class FlowSolver(Solver):
    """Base of the classical flows; subclasses say which field moves and how fast its multiplier is."""

    integrator: str = "implicit"
    time_step: float | None = None
    growth: float = 100.0
    t_end: float | None = None

    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX
    max_n: ClassVar[int | None] = 8000
    default_max_steps: ClassVar[int] = 200

    def __post_init__(self) -> None:
        if self.integrator not in INTEGRATORS:
            raise ProblemError(f"integrator={self.integrator!r} is not one of {', '.join(INTEGRATORS)}")
        if self.time_step is not None and not self.time_step > 0:
            raise ProblemError(f"time_step={self.time_step!r} must be > 0")
        if not self.growth >= 1:
            raise ProblemError(f"growth={self.growth!r} must be ≥ 1")
        if self.t_end is not None and not self.t_end > 0:
            raise ProblemError(f"t_end={self.t_end!r} must be > 0")

    def field(self, problem: DualProblem) -> GradientField | LotkaVolterraField:
        """The vector field."""
        raise NotImplementedError

    def multiplier_time(self) -> float:
        """τ of the multiplier; 0 is exact."""
        return 0.0

    def start(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None) -> FlowState:
        if self.integrator != "implicit":
            field = self.field(problem)
            y = field.start(warm)
            h = self.time_step or (safe_step(problem) if self.integrator == "multiplicative" else 1.0)
            zeros = np.zeros(problem.n)
            return FlowState(0.0, h, np.array(field.alpha(y)), field.multiplier(y), zeros, zeros, np.inf)
        centre = interior_point(problem)
        alpha = centre if warm is None else 0.9 * warm + 0.1 * centre
        g = -problem.gradient(alpha)
        w = weights(problem, alpha)
        nu = balance(problem, w, g)
        drive = np.abs(g if problem.e is None else g + nu * problem.e)
        # Slacks are margins: they start at the size of p or, where p = 0, of the mean slope Qα. (The size of Qα
        # for all, which is C times too large at α = u/2, costs the hinge 10 steps more.)
        size = float(np.abs(problem.p).mean()) or float(-g @ alpha) / float(alpha.sum())
        mutation = max(size * float(alpha.mean()), float(np.finfo(float).eps))
        # Of the size of the clocks: 100 times that of the flow, and a tenth of that of λ, whose restoring force is of
        # the size of 1/Q (longer, and the flow's damping is gone at once, for up to 4 steps more).
        clock = self.multiplier_time() * float(problem.diag().max())
        h = self.time_step or max(100.0 / max(float(drive.max()), 1e-300), 0.1 * clock)
        first = implicit_start(problem, alpha, h, nu, mutation)
        return _flow_state(problem, replace(first, factor=low_rank(problem)))

    def step(self, problem: DualProblem, state: FlowState) -> FlowState:
        h = state.h if self.t_end is None else min(state.h, self.t_end - state.t)
        if self.integrator == "implicit":
            implicit = ImplicitState(
                state.t, h, state.alpha, state.nu, state.z_lower, state.z_upper, state.moved, state.factor
            )
            after = implicit_step(problem, implicit, tau=self.multiplier_time(), growth=self.growth)
            stalled = state.stalled + 1 if after.moved < 1e-6 else 0
            return replace(_flow_state(problem, after), stalled=stalled)
        field = self.field(problem)
        if self.integrator == "multiplicative":
            alpha, nu = self.multiplicative(problem, state, h)
        else:
            y = state.alpha if isinstance(field, GradientField) else np.append(state.alpha, state.nu)
            y = ivp_step(field.rate, state.t, y, h, method=self.integrator)
            alpha, nu = field.alpha(y), field.multiplier(y)
        return replace(state, t=state.t + h, alpha=alpha, nu=nu)

    def multiplicative(self, problem: DualProblem, state: FlowState, h: float) -> tuple[NDArray, float]:
        """One explicit step of (α, ν) in log or logit coordinates."""
        alpha = multiplicative_step(problem, state.alpha, h)
        return alpha, self.field(problem).multiplier(alpha)

    def alpha(self, state: FlowState) -> NDArray:
        return state.alpha

    def finished(self, state: FlowState) -> bool:
        if self.t_end is not None and state.t >= self.t_end * (1 - 1e-12):
            return True
        # Three steps without movement: round-off rules. ε underflowed: nothing is left to anneal.
        return state.stalled >= 3 or state.complementarity <= 1e-300

    def time(self, state: FlowState) -> float:
        return state.t

    def multiplier(self, state: FlowState) -> float | None:
        return state.nu


def _flow_state(problem: DualProblem, state: ImplicitState) -> FlowState:
    return FlowState(
        state.t,
        state.h,
        state.alpha,
        state.nu,
        state.z_lower,
        state.z_upper,
        state.complementarity(problem),
        state.moved,
        factor=state.factor,
    )
