"""Problems with two equalities: a search for the multiplier of the second one, around the working-set solver."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..core.solver import Solver
from ..core.workspace import Workspace
from ..working_set.level_search import Levels, LevelState


@dataclass(frozen=True)
class LevelSearch(Solver[Levels, LevelState]):
    """Newton's method on the multiplier of a second equality, each of its levels solved by the working set.

    ν-SVC and ν-SVR: at a level μ, the multiplier of 1ᵀα = total, a ν-SVC is a C-SVC with C = 1/μ in units of μ, and a
    ν-SVR an ε-SVR with ε = −μ. The sum of α grows with μ, piecewise linearly, so that Newton's method finds the level
    in about ten solves, each of which starts from the last and is refined to the end: bounds are met exactly.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.nu_svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], nu=0.5)
    >>> solution = solve(problem, "level-search")
    >>> round(solution.bias, 6), round(solution.certificate.level, 6), solution.support  # x − 1.5, and ρ
    (-1.5, 1.0, array([1, 2]))
    """

    state_type: ClassVar[type] = LevelState

    name: ClassVar[str] = "level-search"
    reaches: ClassVar[str] = "1e-10 in about ten solves"
    stochastic: ClassVar[bool] = False
    kinds = frozenset({Kind.TWO_EQUALITIES})
    accuracy: ClassVar[str] = "exact"
    needs_psd: ClassVar[bool] = False
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 300

    def open(self, problem: DualProblem, workspace: Workspace) -> Levels:
        return Levels(workspace)

    def start(self, context: Levels, rng: np.random.Generator, warm: NDArray | None = None) -> LevelState:
        return context.start(warm)

    def step(self, context: Levels, state: LevelState) -> LevelState:
        return context.step(state)

    def alpha(self, state: LevelState) -> NDArray:
        return np.array(state.alpha)

    def is_exact(self, state: LevelState) -> bool:
        return state.exact

    def asks_for_certificate(self, state: LevelState) -> bool:
        return state.done
