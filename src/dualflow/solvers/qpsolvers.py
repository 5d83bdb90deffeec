"""General QP solvers on the whole dual, through qpsolvers: second opinions, on small problems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.clock import is_late
from ..core.memory import check_memory
from ..core.options import Number, OneOf, option
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace
from ..exceptions import SolverUnavailable
from ._quadratic_program import BACKENDS, Program
from .base import EVERY_CONVEX, Solver

__all__ = ["BACKENDS", "QPSolvers"]

#: The tightest accuracy that is asked for, and how much tighter each call is than the one before.
FLOOR, TIGHTER = 1e-13, 1e-2


@dataclass(frozen=True)
class QPSolversState:
    """α of shape (n,), the multiplier (NaN without an equality), the accuracy that the next call asks for, whether
    there is to be none, and what the backend said of the last one ("" before the first)."""

    alpha: NDArray
    multiplier: float
    eps: float
    done: bool
    said: str


@dataclass(frozen=True)
class QPSolvers(Solver[Program, QPSolversState]):
    """General QP solvers (piqp, clarabel, osqp, proxqp) on the whole Q: second opinions.

    Each step is a call for the whole problem; while the certified gap is above the tolerance, the next asks for a
    hundredth of the residuals, down to 1e-13, or until the backend falls short of what it was asked for.

    The time limit is looked at between calls, and handed to clarabel and osqp, which give back where they are; piqp
    and proxqp know none, and end their call first. Ctrl-C waits for the end of a call too, and gives back the state
    before it.

    Parameters
    ----------
    backend : {"piqp", "clarabel", "osqp", "proxqp"}, optional
        By default the first of these that is installed; piqp is the fastest of them on the dual of a C-SVM.
    eps : float > 0, optional
        What the first call asks for, in the backend's own terms: of its residuals, absolute and relative, and of its
        duality gap, where it looks at one. By default a tenth of the driver's ``tol``.

    Raises
    ------
    SolverUnavailable
        The backend is not installed; the message has the pip line.
    SolverMismatch
        The backend refuses the problem; the message has its own.
    ProblemError
        Q and what the backend makes of it cannot fit into memory; the message says how much that is.

    Examples
    --------
    >>> import dualflow
    >>> problem = dualflow.problems.svdd(dualflow.Gram([[0.0], [1.0], [3.0]], kernel="linear"))
    >>> dualflow.solve(problem, "qpsolvers", backend="piqp", tol=1e-8).alpha.round(6)
    array([0.5, 0. , 0.5])
    """

    backend: str | None = option(None, OneOf(none=True, words=tuple(BACKENDS)))
    eps: float | None = option(None, Number(above=0, none=True))

    state_type: ClassVar[type] = QPSolversState

    name: ClassVar[str] = "qpsolvers"
    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX | {Kind.AFFINE, Kind.TWO_EQUALITIES}
    accuracy: ClassVar[str] = "exact"
    requires: ClassVar[tuple[str, ...]] = ("qpsolvers",)
    extra: ClassVar[str | None] = "qpsolvers"
    interruptible: ClassVar[bool] = False
    max_n: ClassVar[int | None] = 5000
    default_max_steps: ClassVar[int] = 10

    def aim(self, tol: float, hand_over: bool = False) -> QPSolvers:
        return self if self.eps is not None else replace(self, eps=min(0.1 * tol, 1e-3))

    def chosen(self) -> str:
        """The backend: that which was named, or the first that is installed."""
        wanted = tuple(BACKENDS) if self.backend is None else (self.backend,)
        for name in wanted:
            if find_spec(BACKENDS[name].package) is not None:
                return name
        raise SolverUnavailable(
            f"solver 'qpsolvers': backend {' or '.join(wanted)} is not installed: pip install 'dualflow[qpsolvers]'"
        )

    def open(self, problem: DualProblem, workspace: Workspace) -> Program:
        backend = self.chosen()
        check_memory(problem.n, f"a problem of solver 'qpsolvers' with backend={backend!r}", BACKENDS[backend].matrices)
        return Program.of(workspace, backend)

    def start(self, context: Program, rng: np.random.Generator, warm: NDArray | None = None) -> QPSolversState:
        alpha = context.origin if warm is None else warm
        return QPSolversState(alpha, np.nan, max(FLOOR, self.eps or 1e-9), False, "")

    def step(self, context: Program, state: QPSolversState) -> QPSolversState:
        alpha, nu, content, said = context.solve(state.eps)
        if not content and state.said:  # the last call got what it asked for
            alpha, nu = state.alpha, state.multiplier
        last = not content or state.eps <= FLOOR
        return QPSolversState(alpha, nu, max(FLOOR, TIGHTER * state.eps), last and not is_late(), said)

    def alpha(self, state: QPSolversState) -> NDArray:
        return state.alpha

    def finished(self, state: QPSolversState) -> bool:
        return state.done

    def multiplier(self, state: QPSolversState) -> float | None:
        return None if np.isnan(state.multiplier) else state.multiplier

    def provenance(self, context: Program, state: QPSolversState) -> dict[str, Any]:
        return {"backend": context.backend, "backend_said": state.said}
