"""Exact incremental learning as a solver: the variables of a problem are learned one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..online.incremental import Engine
from .base import BOUNDED, Solver

__all__ = ["Incremental"]

#: Steps of the driver a problem is cut into.
PARTS = 64
#: Entries of Q kept from one step to the next (128 MB).
CACHED_ENTRIES = 4000**2


class _OfProblem:
    """Q of a problem as an engine asks for it: columns always whole, so that their bits depend on nothing."""

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem
        self.kept: dict[int, NDArray] = {}
        self.room = max(16, CACHED_ENTRIES // problem.n)

    def column(self, k: int, start: int, stop: int) -> NDArray:
        if k not in self.kept:
            if len(self.kept) >= self.room:
                self.kept.pop(next(iter(self.kept)))
            self.kept[k] = self.problem.columns([k])[:, 0]
        return self.kept[k][start:stop]

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        return self.problem.columns(J)[rows]

    def product(self, alpha: NDArray) -> NDArray:
        return self.problem.product(alpha, None)


@dataclass(frozen=True)
class IncrementalState:
    """An engine's arrays after the first ``fed`` variables; ``passes`` counts the rounds of polishing at the end."""

    alpha: NDArray
    g: NDArray
    where: NDArray
    members: NDArray
    inverse: NDArray
    counters: NDArray
    figures: NDArray
    d: float
    fed: int
    passes: int
    matrix: _OfProblem = field(repr=False, metadata={"saved": False})


@dataclass(frozen=True)
class Incremental(Solver):
    """Exact: the optimum is followed while the variables come in one by one (Cauwenberghs & Poggio 2001).

    Each variable is raised until its margin or its bound is reached, with all others kept optimal along the way; where
    eᵀα = d ≠ 0, d is raised as soon as the variables that are in can carry it. What it is good for is learning and
    forgetting (`IncrementalSVC`); as a batch solver it is exact, and slow for many free support vectors. A warm start
    is not used.
    """

    name: ClassVar[str] = "incremental"
    kinds = BOUNDED
    accuracy: ClassVar[str] = "exact"
    stochastic: ClassVar[bool] = False
    default_max_steps: ClassVar[int] = 2 * PARTS + 10
    certify_every: ClassVar[int] = PARTS

    def start(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None) -> IncrementalState:
        engine = _engine(problem, _OfProblem(problem))
        return _state(engine, 0, 0)

    def step(self, problem: DualProblem, state: IncrementalState) -> IncrementalState:
        engine = _engine(problem, state.matrix, state)
        if state.fed == problem.n:
            engine.refresh()
            return _state(engine, state.fed, state.passes + 1)
        stop = min(problem.n, state.fed + max(1, -(-problem.n // PARTS)))
        for k in range(state.fed, stop):
            engine.learn(k)
            if engine.d != problem.d and problem.e is not None:
                upper, e = problem.upper[: k + 1], problem.e[: k + 1]
                engine.move_d(float(np.clip(problem.d, -upper[e < 0].sum(), upper[e > 0].sum())))
        return _state(engine, stop, 0)

    def alpha(self, state: IncrementalState) -> NDArray:
        return state.alpha

    def finished(self, state: IncrementalState) -> bool:
        return state.passes > 0

    def multiplier(self, state: IncrementalState) -> float | None:
        return -float(state.figures[0]) if state.passes else None


def _engine(problem: DualProblem, matrix: _OfProblem, state: IncrementalState | None = None) -> Engine:
    """An engine that knows all variables; those learned so far as the state has them."""
    engine = Engine(matrix, problem.e is not None)
    e = np.zeros(problem.n) if problem.e is None else problem.e
    engine.append(problem.p, problem.upper, e, problem.diag())
    if state is not None:
        engine.restore(
            {
                "n": problem.n,
                "d": state.d,
                "vectors": {"alpha": state.alpha, "g": state.g, "p": problem.p, "where": state.where},
                "members": state.members,
                "inverse": state.inverse,
                "counters": state.counters,
                "figures": state.figures,
            }
        )
    return engine


def _state(engine: Engine, fed: int, passes: int) -> IncrementalState:
    kept = engine.snapshot()
    return IncrementalState(
        alpha=kept["vectors"]["alpha"],
        g=kept["vectors"]["g"],
        where=kept["vectors"]["where"],
        members=kept["members"],
        inverse=kept["inverse"],
        counters=kept["counters"],
        figures=kept["figures"],
        d=kept["d"],
        fed=fed,
        passes=passes,
        matrix=engine.matrix,  # type: ignore[arg-type]
    )
