"""Cascade: parts are solved alone, their survivors together, and who violates a condition joins."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.solver import BOUNDED, Solver
from ..core.workspace import Workspace
from ..exceptions import SolverMismatch

__all__ = ["Cascade"]

#: Variables of a part, at least: fewer are no problem of their own.
LEAST = 32
#: The parts of the tolerance that the survivors' own solve may leave, and that those may add which violate a condition
#: by too little to join; and the tolerance of the parts' own solves: what they miss joins later.
OWN, LEFT, PARTS_TOL = 0.25, 0.25, 1e-3
#: Invaders of a step at most, as a part of the survivors, and what is let in anyway.
INVADERS, ANYWAY = 0.5, 512


@dataclass(frozen=True)
class CascadeState:
    """α of shape (n,), who is solved together next, whether the parts were solved, and whether nobody joined."""

    alpha: NDArray
    pool: NDArray
    begun: bool
    done: bool


@dataclass(frozen=True)
class Cascade(Solver[Workspace, CascadeState]):
    """Parts are solved alone, their survivors together; whoever violates a condition then joins, until nobody does.

    The rounds of `CascadeSVC` (Graf and others 2005, with invasion in the place of their tree), in this process, on any
    problem whose points are in one place: kernels are needed between all variables and the survivors alone. Variables
    are dealt out to the parts by sign, in their order, so that each has of either its share.

    Parameters
    ----------
    parts : int > 0, default=8
        Parts at most; none has fewer than 32 variables.
    gap_tol : float > 0, optional
        Estimated relative gap at rest; by default the driver's ``tol``.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "cascade")
    >>> round(solution.certificate.objective, 6), round(solution.bias, 6)
    (-2.0, -3.0)
    """

    parts: int = option(8, Number(at_least=1, whole=True))
    gap_tol: float | None = option(None, Number(above=0, none=True, infinite=True))

    state_type: ClassVar[type] = CascadeState

    name: ClassVar[str] = "cascade"
    reaches: ClassVar[str] = "the tolerance asked for"
    stochastic: ClassVar[bool] = False
    kinds = BOUNDED
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 1000

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        if "engine" in options:
            raise SolverMismatch(
                "solver='cascade' works in this process, where all points are; engines (joblib, dask) are those of "
                "CascadeSVC(engine=...), which trains where the rows are"
            )
        return super().from_options(options)

    def aim(self, tol: float, hand_over: bool = False) -> Cascade:
        return replace(self, gap_tol=tol if self.gap_tol is None else self.gap_tol)

    def start(self, problem: Workspace, rng: np.random.Generator, warm: NDArray | None = None) -> CascadeState:
        if warm is not None and warm.any():
            return CascadeState(warm, np.flatnonzero(warm), True, False)
        return CascadeState(problem.project(np.zeros(problem.n)), np.empty(0, dtype=np.intp), False, False)

    def step(self, problem: Workspace, state: CascadeState) -> CascadeState:
        tol = 1e-6 if self.gap_tol is None else self.gap_tol
        if not state.begun:
            alpha = np.zeros(problem.n)
            for J in self._dealt(problem):
                alpha[J] = _solved(problem, J, state.alpha[J], max(PARTS_TOL, OWN * tol), warm=False)
            pool = np.flatnonzero(alpha)
            # What is feasible in each part is so in all, and nobody may have weight at the optimum of each.
            return CascadeState(alpha, pool if len(pool) else np.arange(min(problem.n, LEAST)), True, False)
        alpha = np.zeros(problem.n)
        alpha[state.pool] = _solved(problem, state.pool, state.alpha[state.pool], OWN * tol, warm=True)
        joining = _invaders(problem, alpha, state.pool, LEFT * tol)
        pool = np.union1d(np.flatnonzero(alpha), joining)
        return CascadeState(alpha, pool if len(pool) else state.pool, True, not len(joining))

    def _dealt(self, problem: Workspace) -> list[NDArray]:
        count = max(1, min(self.parts, problem.n // LEAST))
        order = np.argsort(problem.sigma if problem.e is None else problem.sigma + 2 * problem.e, kind="stable")
        return [np.sort(order[k::count]) for k in range(count)]

    def alpha(self, state: CascadeState) -> NDArray:
        return state.alpha

    def finished(self, state: CascadeState) -> bool:
        return state.done


def _solved(problem: Workspace, J: NDArray, alpha: NDArray, tol: float, warm: bool) -> NDArray:
    """The optimum of variables J alone, whose share of the equality is what a feasible α of theirs has of it."""
    from ..working_set.descent import Descent

    gram = problem.gram.subset(J if problem.idx is None else problem.idx[J])
    part = problem.part(J, gram, d=None if problem.e is None or warm else float(problem.e[J] @ alpha))
    context = Descent(part, 0.5 * tol, None, False, None)
    state = context.start(alpha if warm else None)
    while not state.done:
        state = context.step(state)
    return part.project(state.alpha)


def _invaders(problem: Workspace, alpha: NDArray, pool: NDArray, tol: float) -> NDArray:
    """Who is not in the pool and violates a condition by more than what all of them may add to the gap together."""
    from ..online.invasion import best_multiplier

    h, upper, e = problem.gradient(alpha), problem.effective_upper, problem.e
    rho = h if e is None else h - best_multiplier(h[pool], e[pool], upper[pool], problem.d) * e
    objective = abs(0.5 * float(alpha @ (h - problem.p)))
    outside = np.ones(problem.n, dtype=bool)
    outside[pool] = False
    worst = np.flatnonzero(outside & (rho < -tol * objective / float(upper.sum())))
    most = max(ANYWAY, int(INVADERS * np.count_nonzero(alpha)))
    return worst if len(worst) <= most else worst[np.argsort(rho[worst], kind="stable")[:most]]
