"""Exact incremental learning as a solver: the variables of a problem are learned one at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..core.solver import BOUNDED, Solver
from ..core.workspace import Workspace
from ..exceptions import ProblemError
from ..online.engine import Engine
from ..online.snapshot import Snapshot

#: Steps of the driver into which a problem is divided.
PARTS = 64


class _ProblemMatrix:
    """Q of a problem, as an engine reads it: full columns are cached, so that the bits never depend on ranges."""

    def __init__(self, problem: Workspace) -> None:
        self.problem = problem

    def column(self, k: int, start: int, stop: int) -> NDArray:
        return self.problem.kept_column(k)[start:stop]

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        return self.problem.columns(J)[rows]

    def product(self, alpha: NDArray) -> NDArray:
        return self.problem.product(alpha)


@dataclass(frozen=True)
class IncrementalContext:
    """The problem, and an engine with all its variables, which is restored from the state before each step."""

    problem: Workspace
    engine: Engine


@dataclass(frozen=True)
class IncrementalState:
    """The engine after the first ``fed`` variables; ``passes`` counts the final passes that remove round-off."""

    at: Snapshot
    fed: int
    passes: int


@dataclass(frozen=True)
class Incremental(Solver[IncrementalContext, IncrementalState]):
    """Exact: the optimum is followed while the variables come in one by one (Cauwenberghs & Poggio 2001).

    Each variable is raised until it reaches its margin or its bound, with all others kept optimal on the way; if
    eᵀα = d ≠ 0, d is raised as soon as the learned variables can sum to it. The method is meant for learning and
    unlearning (`IncrementalSVC`); as a batch solver it is exact, and slow for many free support vectors. A warm start
    is not used.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "incremental")
    >>> round(solution.bias, 6), solution.support
    (-3.0, array([1, 2]))
    """

    state_type: ClassVar[type] = IncrementalState

    name: ClassVar[str] = "incremental"
    kinds = BOUNDED
    accuracy: ClassVar[str] = "exact"
    stochastic: ClassVar[bool] = False
    default_max_steps: ClassVar[int] = 2 * PARTS + 10
    certify_every: ClassVar[int] = PARTS

    def open(self, problem: DualProblem, workspace: Workspace) -> IncrementalContext:
        engine = Engine(_ProblemMatrix(workspace), workspace.e is not None)
        e = np.zeros(workspace.n) if workspace.e is None else workspace.e
        engine.append(workspace.p, workspace.upper, e, workspace.diag())
        return IncrementalContext(workspace, engine)

    def start(
        self, context: IncrementalContext, rng: np.random.Generator, warm: NDArray | None = None
    ) -> IncrementalState:
        return IncrementalState(context.engine.snapshot(), 0, 0)

    def step(self, context: IncrementalContext, state: IncrementalState) -> IncrementalState:
        problem, engine, n = context.problem, context.engine, context.problem.n
        try:
            state.at.check(n)
        except ValueError as error:
            raise ProblemError(f"the state to resume from does not fit this problem: {error}") from None
        engine.restore(state.at)
        engine.pool.evict(engine.margin, 0)  # as in a new engine, so that a resumed run gives the same bits
        if state.fed == n:
            engine.refresh()
            return IncrementalState(engine.snapshot(), n, state.passes + 1)
        stop = min(n, state.fed + max(1, -(-n // PARTS)))
        for k in range(state.fed, stop):
            engine.learn(k)
            if engine.d != problem.d and problem.e is not None:
                upper, e = problem.upper[: k + 1], problem.e[: k + 1]
                engine.move_d(float(np.clip(problem.d, -upper[e < 0].sum(), upper[e > 0].sum())))
        return IncrementalState(engine.snapshot(), stop, 0)

    def alpha(self, state: IncrementalState) -> NDArray:
        return state.at.alpha

    def finished(self, state: IncrementalState) -> bool:
        return state.passes > 0

    def multiplier(self, state: IncrementalState) -> float | None:
        return -state.at.b if state.passes else None
