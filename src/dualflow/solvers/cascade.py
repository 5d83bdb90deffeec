"""Cascade: parts of the variables are solved alone, their support vectors together, and violators join these."""

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

#: Variables of a part, at least.
MIN_PART = 32
#: The survivors are solved to this share of the solver's tolerance.
SURVIVORS_TOL_SHARE = 0.25
#: Violators that do not join may together add this share of the tolerance to the gap.
VIOLATORS_TOL_SHARE = 0.25
#: Least tolerance of the parts' solves. Variables that they miss join later.
PARTS_TOL = 1e-3
#: In a step, at most this share of the survivors joins from the violators, ...
MAX_VIOLATORS_SHARE = 0.5
#: ... but this many violators may always join.
VIOLATORS_ALWAYS_ALLOWED = 512


@dataclass(frozen=True)
class CascadeState:
    """State of the rounds."""

    alpha: NDArray  # shape (n,)
    pool: NDArray  # the variables that are solved together next; int array
    begun: bool  # whether the parts were solved
    done: bool  # whether no violator joined


@dataclass(frozen=True)
class Cascade(Solver[Workspace, CascadeState]):
    """Parts are solved alone, then their support vectors together; KKT violators join these until there are none.

    The rounds of `CascadeSVC` (Graf and others 2005, with violators that join in the place of their tree), in this
    process, on any problem whose points are in one place. Kernel values are needed between all variables and the
    survivors (nonzero variables) only. Each part has the same share of the variables of each sign, in their order.

    Parameters
    ----------
    parts : int > 0, default=8
        Parts, at most; none has fewer than 32 variables.
    gap_tol : float > 0, optional
        Estimated relative gap at which the run ends; by default the driver's ``tol``.

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
    reaches: ClassVar[str] = "the requested tolerance"
    stochastic: ClassVar[bool] = False
    kinds = BOUNDED
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 1000

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        if "engine" in options:
            raise SolverMismatch(
                "solver='cascade' works in this process, on points in its memory; engines (joblib, dask) are options "
                "of CascadeSVC(engine=...), which trains where the rows are"
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
            for J in self._split(problem):
                alpha[J] = _solve_part(
                    problem, J, state.alpha[J], max(PARTS_TOL, SURVIVORS_TOL_SHARE * tol), warm=False
                )
            pool = np.flatnonzero(alpha)
            # The parts' solutions together are feasible; all of them may be 0.
            return CascadeState(alpha, pool if len(pool) else np.arange(min(problem.n, MIN_PART)), True, False)
        alpha = np.zeros(problem.n)
        alpha[state.pool] = _solve_part(
            problem, state.pool, state.alpha[state.pool], SURVIVORS_TOL_SHARE * tol, warm=True
        )
        joining = _violators(problem, alpha, state.pool, VIOLATORS_TOL_SHARE * tol)
        pool = np.union1d(np.flatnonzero(alpha), joining)
        return CascadeState(alpha, pool if len(pool) else state.pool, True, not len(joining))

    def _split(self, problem: Workspace) -> list[NDArray]:
        """Return the variables of each part."""
        count = max(1, min(self.parts, problem.n // MIN_PART))
        order = np.argsort(problem.sigma if problem.e is None else problem.sigma + 2 * problem.e, kind="stable")
        return [np.sort(order[k::count]) for k in range(count)]


def _solve_part(problem: Workspace, J: NDArray, alpha: NDArray, tol: float, warm: bool) -> NDArray:
    """Return the optimum over the variables J alone, with the sum eᵀα that the given feasible α has over them."""
    from ..working_set.descent import Descent

    gram = problem.gram.subset(J if problem.idx is None else problem.idx[J])
    part = problem.part(J, gram, d=None if problem.e is None or warm else float(problem.e[J] @ alpha))
    context = Descent(part, 0.5 * tol, None, False, None)
    state = context.start(alpha if warm else None)
    while not state.done:
        state = context.step(state)
    return part.project(state.alpha)


def _violators(problem: Workspace, alpha: NDArray, pool: NDArray, tol: float) -> NDArray:
    """Return the variables outside the pool whose KKT violation could add more than the tolerance to the gap."""
    from ..online.invasion import best_multiplier

    h, upper, e = problem.gradient(alpha), problem.effective_upper, problem.e
    rho = h if e is None else h - best_multiplier(h[pool], e[pool], upper[pool], problem.d) * e
    objective = abs(0.5 * float(alpha @ (h - problem.p)))
    outside = np.ones(problem.n, dtype=bool)
    outside[pool] = False
    worst = np.flatnonzero(outside & (rho < -tol * objective / float(upper.sum())))
    max_count = max(VIOLATORS_ALWAYS_ALLOWED, int(MAX_VIOLATORS_SHARE * np.count_nonzero(alpha)))
    return worst if len(worst) <= max_count else worst[np.argsort(rho[worst], kind="stable")[:max_count]]
