"""Solvers walked by hand: the only place of the benchmarks that speaks a solver's own protocol."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dualflow import DualProblem, Solver, Workspace
from dualflow.core.workspace import isolated_copy


class Walk:
    """A solver on a problem, a step at a time, as the driver makes them; ``changed`` are fields of its first state."""

    def __init__(self, problem: DualProblem, solver: Solver, seed: int = 0, **changed: Any) -> None:
        own = isolated_copy(problem)
        self.solver, self.context = solver, solver.open(own, Workspace(own))
        self.state: Any = solver.start(self.context, np.random.default_rng(seed))
        if changed:
            self.state = replace(self.state, **changed)

    def look(self) -> Any:
        """The state after a step that is not taken."""
        return self.solver.step(self.context, self.state)

    def step(self) -> None:
        self.state = self.solver.step(self.context, self.state)

    @property
    def alpha(self) -> NDArray:
        return self.solver.alpha(self.state)

    @property
    def finished(self) -> bool:
        return self.solver.finished(self.state)

    @property
    def cost(self) -> dict[str, Any]:
        return self.solver.cost(self.context, self.state)

    @property
    def extras(self) -> dict[str, Any]:
        return self.solver.extras(self.context, self.state)
