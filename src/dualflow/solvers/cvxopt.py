"""CVXOPT's interior-point method: the independent reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.problem import Kind
from ..core.runtime.clock import check_time, is_late
from ..core.solver import EVERY_CONVEX, Solver
from ..core.workspace import Workspace
from ..exceptions import SolverMismatch


@dataclass(frozen=True)
class CVXOPTState:
    """α of shape (n,), the multiplier (NaN without an equality), and whether CVXOPT was called."""

    alpha: NDArray
    multiplier: float
    done: bool


@dataclass(frozen=True)
class CVXOPT(Solver[Workspace, CVXOPTState]):
    """CVXOPT's coneqp on the whole problem in one call: a reference, not a fast solver. CVXOPT is under the GPL-3.

    The time limit is checked between its iterations, each a factorisation of the dense Q (a second or two at n = 5000);
    the current point is returned then. Ctrl-C takes effect there too, and the start is returned.

    Parameters
    ----------
    abstol, reltol, feastol : float > 0
        CVXOPT's tolerances; tight, because other solvers are compared with it.
    max_iterations : int > 0

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "cvxopt")
    >>> round(solution.certificate.objective, 6), round(solution.bias, 6)
    (-2.0, -3.0)
    """

    abstol: float = option(1e-12, Number(above=0))
    reltol: float = option(1e-10, Number(above=0))
    feastol: float = option(1e-10, Number(above=0))
    max_iterations: int = option(200, Number(at_least=1, whole=True))

    state_type: ClassVar[type] = CVXOPTState

    name: ClassVar[str] = "cvxopt"
    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX | {Kind.AFFINE, Kind.TWO_EQUALITIES}
    accuracy: ClassVar[str] = "exact"
    requires: ClassVar[tuple[str, ...]] = ("cvxopt",)
    interruptible: ClassVar[bool] = False
    max_n: ClassVar[int | None] = 5000

    def start(self, problem: Workspace, rng: np.random.Generator, warm: NDArray | None = None) -> CVXOPTState:
        alpha = warm if warm is not None else problem.project(np.zeros(problem.n))
        return CVXOPTState(alpha, np.nan, False)

    def step(self, problem: Workspace, state: CVXOPTState) -> CVXOPTState:
        import cvxopt
        import cvxopt.solvers
        from cvxopt import misc

        n = problem.n
        lower, upper = np.isfinite(problem.lower), np.isfinite(problem.upper)
        # In units of the largest bound, so that the absolute tolerances have the same meaning for every C.
        scale = float(problem.upper[upper].max(initial=0.0)) or 1.0
        bounds = np.concatenate([-problem.lower[lower], problem.upper[upper]]) / scale
        signs = np.repeat([-1.0, 1.0], [lower.sum(), upper.sum()])
        which = np.concatenate([np.flatnonzero(lower), np.flatnonzero(upper)])
        # A dense matrix of the bounds would take ten times as long as everything else.
        G = cvxopt.spmatrix(signs, range(len(which)), which.tolist(), (len(which), n))
        e, d = (np.zeros((0, n)), np.zeros(0)) if problem.e is None else (problem.e[None], np.array([problem.d]))
        if problem.total is not None:
            e, d = np.vstack([e, np.ones(n)]), np.append(d, problem.total)
        Q, A = cvxopt.matrix(problem.dense() * scale), cvxopt.matrix(e)
        factorise, iterations = misc.kkt_chol2(G, {"l": len(which), "q": [], "s": []}, A), 0

        def factorise_in_time(W: Any) -> Any:
            nonlocal iterations
            if iterations < 2:  # CVXOPT has no point to return yet
                check_time()
            elif is_late():
                raise ArithmeticError  # CVXOPT then returns its current point
            iterations += 1
            return factorise(W, Q)

        try:
            result = cvxopt.solvers.coneqp(
                Q,
                cvxopt.matrix(-problem.p),
                G,
                cvxopt.matrix(bounds),
                A=A,
                b=cvxopt.matrix(d / scale, (len(d), 1)),
                kktsolver=factorise_in_time,
                options={
                    "show_progress": False,
                    "abstol": self.abstol,
                    "reltol": self.reltol,
                    "feastol": self.feastol,
                    "maxiters": self.max_iterations,
                },
            )
        except (ArithmeticError, ValueError) as error:  # its first factorisation failed
            raise SolverMismatch(
                f"'cvxopt' cannot factorise the problem's equations, which are singular in float64: {error}; lower "
                "C, or try 'interior-point'"
            ) from error
        alpha = np.array(result["x"], dtype=float).ravel() * scale
        # CVXOPT's Lagrangian has + yᵀ(Ax − b): its multiplier is −ν.
        nu = -float(result["y"][0]) if problem.e is not None and len(result["y"]) else np.nan
        return CVXOPTState(alpha, nu, not is_late())

    def multiplier(self, state: CVXOPTState) -> float | None:
        return None if np.isnan(state.multiplier) else state.multiplier
