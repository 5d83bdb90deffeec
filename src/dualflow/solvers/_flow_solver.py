"""The base class of `gradient-flow` and `lotka-volterra`: a vector field, and an integrator chosen by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.factored import FactoredWorkspace, factor_of
from ..core.low_rank import MAX_RANK_PART
from ..core.monomials import rank_by_kernel
from ..core.options import Number, OneOf, option
from ..core.problem import DualProblem, Kind
from ..core.runtime.threads import cached_property
from ..core.solver import EVERY_CONVEX, Solver
from ..core.workspace import Workspace
from ..exceptions import SolverMismatch
from ..flows.gradient import GradientField, equality_multiplier, interior_point, weights
from ..flows.lotka_volterra import LotkaVolterraField
from ..integrate.free import MAX_N_FACTORISED, MAX_RELATIVE_ROUND_OFF, FreeFlow
from ..integrate.implicit import ImplicitState, implicit_start, implicit_step
from ..integrate.multiplicative import max_descent_step, multiplicative_step
from ..integrate.scipy_ivp import METHODS, ivp_step
from ..integrate.stiff_system import low_rank

#: Largest number of columns of a factor. A matrix of their products takes 32 MB, and a step some seconds for 100 000
#: points.
MAX_COLUMNS = 2000


@dataclass
class FlowContext:
    """The workspace, and factors of its matrix for implicit steps.

    Where the kernel is known to have low rank the workspace is a `FactoredWorkspace`, and no dense matrix is formed.
    """

    workspace: Workspace

    @cached_property
    def factor(self) -> NDArray | None:
        """L of shape (n, r) with Q = LLᵀ + diag(ridge), or None if the rank is not low."""
        return self.workspace.L if isinstance(self.workspace, FactoredWorkspace) else low_rank(self.workspace)

    @cached_property
    def free(self) -> FreeFlow:
        """The steps of a problem without bounds."""
        return FreeFlow(self.workspace)


@dataclass(frozen=True)
class FlowState:
    """State of the flow."""

    at: ImplicitState
    #: For implicit steps, the mean product of α and its slacks; without slacks the gradient, as a part of its terms.
    complementarity: float = np.inf
    stalled: int = 0  # implicit steps without movement


@dataclass(frozen=True)
class FlowSolver(Solver[FlowContext, FlowState]):
    """Base of the classical flows; subclasses define the field and the time scale of its multiplier."""

    integrator: str = option("implicit", OneOf(words=("implicit", "multiplicative", *METHODS)))
    time_step: float | None = option(None, Number(above=0, none=True))
    growth: float = option(100.0, Number(at_least=1))
    t_end: float | None = option(None, Number(above=0, none=True, infinite=True))

    state_type: ClassVar[type] = FlowState

    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX
    max_n: ClassVar[int | None] = 8000
    default_max_steps: ClassVar[int] = 200

    def field(self, problem: DualProblem) -> GradientField | LotkaVolterraField:
        """The vector field."""
        raise NotImplementedError

    def multiplier_time(self) -> float:
        """Return the time scale τ of the multiplier; 0 is the exact multiplier."""
        return 0.0

    def mismatch(self, problem: DualProblem) -> str | None:
        if problem.kind in self.kinds and (_rank_is_low(problem) or _may_have_low_rank(problem)):
            return None
        return super().mismatch(problem)

    def open(self, problem: DualProblem, workspace: Workspace) -> FlowContext:
        is_large = problem.kind is not Kind.AFFINE and problem.n > (self.max_n or problem.n)
        if not (_rank_is_low(problem) or is_large):
            return FlowContext(workspace)
        L = factor_of(workspace, _max_columns(problem))
        if L is None:
            raise SolverMismatch(
                f"{super().mismatch(problem)}; for more, the kernel matrix must have a rank of at most "
                f"{_max_columns(problem)}; a linear kernel of features (Nyström, random features) has it"
            )
        return FlowContext(FactoredWorkspace(workspace, L))

    def start(self, context: FlowContext, rng: np.random.Generator, warm: NDArray | None = None) -> FlowState:
        problem = context.workspace
        if self.integrator != "implicit":
            field = self.field(problem)
            y = field.start(warm)
            h = self.time_step or (max_descent_step(problem) if self.integrator == "multiplicative" else 1.0)
            zeros = np.zeros(problem.n)
            return FlowState(ImplicitState(0.0, h, np.array(field.alpha(y)), field.multiplier(y), zeros, zeros))
        if problem.kind is Kind.AFFINE:
            return FlowState(context.free.start(warm, self.time_step))
        centre = interior_point(problem)
        alpha = centre if warm is None else 0.9 * warm + 0.1 * centre
        g = -problem.gradient(alpha)
        w = weights(problem, alpha)
        nu = equality_multiplier(problem, w, g)
        drive = np.abs(g if problem.e is None else g + nu * problem.e)
        # Slacks are margins: they start at the size of p or, if p = 0, of the mean slope Qα. (The size of Qα for all,
        # which is C times too large at α = u/2, costs the hinge 10 more steps.)
        size = float(np.abs(problem.p).mean()) or float(-g @ alpha) / float(alpha.sum())
        mutation = max(size * float(alpha.mean()), float(np.finfo(float).eps))
        # The first step is 100 times the flow's time scale, and at least a tenth of that of λ, whose restoring force is
        # of the size of 1/Q. (With a longer step the flow loses its damping immediately: up to 4 more steps.)
        clock = self.multiplier_time() * float(problem.diag().max())
        h = self.time_step or max(100.0 / max(float(drive.max()), 1e-300), 0.1 * clock)
        first = implicit_start(problem, alpha, h, nu, mutation)
        return FlowState(first, first.complementarity(problem))

    def step(self, context: FlowContext, state: FlowState) -> FlowState:
        problem, at = context.workspace, state.at
        h = at.h if self.t_end is None else min(at.h, self.t_end - at.t)
        if self.integrator == "implicit" and problem.kind is Kind.AFFINE:
            after, left = context.free.step(replace(at, h=h), self.growth)
            return FlowState(after, left, 0 if after.moved else state.stalled + 1)
        if self.integrator == "implicit":
            tau = self.multiplier_time()
            after = implicit_step(problem, replace(at, h=h), tau=tau, growth=self.growth, factor=context.factor)
            return FlowState(after, after.complementarity(problem), state.stalled + 1 if after.moved < 1e-6 else 0)
        if self.integrator == "multiplicative":
            alpha, nu = self.multiplicative(problem, at, h)
        else:
            field = self.field(problem)
            y = at.alpha if isinstance(field, GradientField) else np.append(at.alpha, at.nu)
            y = ivp_step(field.rate, at.t, y, h, method=self.integrator)
            alpha, nu = field.alpha(y), field.multiplier(y)
        return FlowState(replace(at, t=at.t + h, alpha=alpha, nu=nu))

    def multiplicative(self, problem: DualProblem, at: ImplicitState, h: float) -> tuple[NDArray, float]:
        """Return α and ν after one explicit step in log or logit coordinates."""
        alpha = multiplicative_step(problem, at.alpha, h)
        return alpha, self.field(problem).multiplier(alpha)

    def alpha(self, state: FlowState) -> NDArray:
        return state.at.alpha

    def finished(self, state: FlowState) -> bool:
        if self.t_end is not None and state.at.t >= self.t_end * (1 - 1e-12):
            return True
        # Three steps without movement: round-off prevents more. Or ε has underflowed and cannot decrease further.
        return state.stalled >= 3 or state.complementarity <= 1e-300

    def is_exact(self, state: FlowState) -> bool:
        return not state.at.z_lower.size and state.complementarity <= MAX_RELATIVE_ROUND_OFF

    def provenance(self, context: FlowContext, state: FlowState) -> dict[str, Any]:
        work = context.workspace
        if isinstance(work, FactoredWorkspace):
            return {"structure": "low rank", "rank": int(work.L.shape[1])}
        forms_none = self.integrator != "implicit" or (work.kind is Kind.AFFINE and work.n > MAX_N_FACTORISED)
        return {"structure": "products" if forms_none else "dense"}

    def time(self, state: FlowState) -> float:
        return state.at.t

    def multiplier(self, state: FlowState) -> float | None:
        return state.at.nu


def _max_columns(problem: DualProblem) -> int:
    """Return the number of columns up to which the rank is low."""
    return min(MAX_COLUMNS, int(MAX_RANK_PART * problem.gram.n))


def _rank_is_low(problem: DualProblem) -> bool:
    """Whether the kernel alone says that the rank is low."""
    rank = rank_by_kernel(problem.gram)
    return rank is not None and rank + (problem.offset > 0) <= _max_columns(problem)


def _may_have_low_rank(problem: DualProblem) -> bool:
    """Whether a pivoted Cholesky factorisation may find a low rank, which the kernel alone does not say."""
    return problem.gram.is_psd_by_kernel and rank_by_kernel(problem.gram) is None
