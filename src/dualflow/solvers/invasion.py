"""Invasion: variables arrive in batches, those that can grow get in, those that lose their weight are gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.problem import DualProblem
from ..core.solver import BOUNDED, Solver
from ..core.workspace import Workspace
from ..refinement.refine import refine

__all__ = ["Invasion"]


@dataclass(frozen=True)
class InvasionState:
    """α of shape (n,), whether its survivors are at equilibrium, those who leave ν the least room of all that arrived
    since the last invasion, the variable that arrives next, how many arrived since then, and counts."""

    alpha: NDArray
    balanced: bool
    pins: NDArray
    arriving: int
    quiet: int
    invasions: int
    extinctions: int


@dataclass(frozen=True)
class Invasion(Solver[Workspace, InvasionState]):
    """Howell's EcoSVM as a solver: variables arrive in batches, again and again, until none of them invades.

    An arrival grows if its fitness beats the multiplier of the survivors, g₀ + νe₀ > 0 (9, 17, 28). Survivors and
    invaders then find their equilibrium by the active-set method of the core, and whose weight is 0 goes extinct: only
    kernel rows of survivors and invaders are made, over the arriving batch. One pass is what `EcoSVC` does with a
    stream; here the extinct return with their batch, so the optimum is reached from any order.

    Parameters
    ----------
    batch : int > 0, default=512
        Variables that arrive in one step.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "invasion")
    >>> round(solution.bias, 6), solution.support
    (-3.0, array([1, 2]))
    """

    batch: int = option(512, Number(at_least=1, whole=True))

    state_type: ClassVar[type] = InvasionState

    name: ClassVar[str] = "invasion"
    stochastic: ClassVar[bool] = False
    kinds = BOUNDED
    accuracy: ClassVar[str] = "exact"
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 20_000

    def start(self, problem: Workspace, rng: np.random.Generator, warm: NDArray | None = None) -> InvasionState:
        alpha = warm
        if alpha is None:
            # Nobody, where that is feasible; else the first ones, with all the weight they may have.
            upper, e = problem.effective_upper, problem.e
            before = np.concatenate([[0.0], np.cumsum(upper)[:-1]])
            filled = np.zeros(problem.n) if e is None or problem.d == 0 else np.clip(problem.d - before, 0.0, upper)
            alpha = problem.project(filled)
        return InvasionState(alpha, False, np.empty(0, dtype=np.intp), 0, 0, int(np.count_nonzero(alpha)), 0)

    def step(self, problem: Workspace, state: InvasionState) -> InvasionState:
        from ..online.invasion import Habitat, restrict

        n = problem.n
        arrivals = (state.arriving + np.arange(min(self.batch, n))) % n
        # The part of the problem that is looked at: survivors and arrivals. Where no survivor is free, ν is an
        # interval, and two who want it beyond each other may come in different batches: those who pin it stay.
        J = np.unique(np.concatenate([np.flatnonzero(state.alpha), state.pins, arrivals]))
        habitat = Habitat(restrict(problem, J), state.alpha[J], disturbed=not state.balanced)
        habitat.settle(_equilibrium, np.arange(len(J)))
        alpha = np.zeros(n)
        alpha[J] = habitat.alpha
        invasions = state.invasions + habitat.invasions
        return InvasionState(
            alpha,
            True,
            J[habitat.pins()],
            (state.arriving + len(arrivals)) % n,
            0 if habitat.invasions else state.quiet + len(arrivals),
            invasions,
            invasions - int(np.count_nonzero(alpha)),
        )

    def alpha(self, state: InvasionState) -> NDArray:
        return state.alpha

    def finished(self, state: InvasionState) -> bool:
        return state.quiet >= len(state.alpha)


def _equilibrium(problem: DualProblem, alpha: NDArray) -> NDArray:
    return refine(problem, alpha).alpha
