"""Invasion: variables arrive in batches; violators join the survivors, and variables that fall to 0 are dropped."""

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


@dataclass(frozen=True)
class InvasionState:
    """State between batches."""

    alpha: NDArray  # shape (n,)
    balanced: bool  # whether the survivors are at their optimum
    #: The variables that bound the multiplier ν most tightly, of those that arrived since the last invasion; int array.
    pins: NDArray
    arriving: int  # the variable that arrives next
    quiet: int  # variables that arrived since the last invasion
    #: invasions, extinctions: variables that joined, and that fell to 0, so far.
    invasions: int
    extinctions: int


@dataclass(frozen=True)
class Invasion(Solver[Workspace, InvasionState]):
    """The ecological SVM as a solver: variables arrive in batches, again and again, until none of them invades.

    A new variable invades if its fitness exceeds the multiplier of the survivors, g₀ + νe₀ > 0 (Howell eqs. 9, 17, 28).
    The optimum over survivors and invaders is then computed by the active-set method, and variables at 0 go extinct.
    Kernel rows are needed of survivors and invaders only, over the arriving batch. `EcoSVC` makes one pass over a
    stream; here extinct variables return with their batch, so that the optimum is reached from any order.

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
            # α = 0 if that is feasible; else the first variables at their upper bounds.
            upper, e = problem.effective_upper, problem.e
            before = np.concatenate([[0.0], np.cumsum(upper)[:-1]])
            filled = np.zeros(problem.n) if e is None or problem.d == 0 else np.clip(problem.d - before, 0.0, upper)
            alpha = problem.project(filled)
        return InvasionState(alpha, False, np.empty(0, dtype=np.intp), 0, 0, int(np.count_nonzero(alpha)), 0)

    def step(self, problem: Workspace, state: InvasionState) -> InvasionState:
        from ..online.invasion import Habitat, restrict

        n = problem.n
        arrivals = (state.arriving + np.arange(min(self.batch, n))) % n
        # The subproblem of survivors and arrivals. If no survivor is free, ν is an interval, and two variables may
        # contradict each other's bound on ν from different batches: those with the tightest bounds stay.
        J = np.unique(np.concatenate([np.flatnonzero(state.alpha), state.pins, arrivals]))
        habitat = Habitat(restrict(problem, J), state.alpha[J], disturbed=not state.balanced)
        habitat.invade_until_stable(_equilibrium, np.arange(len(J)))
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

    def finished(self, state: InvasionState) -> bool:
        return state.quiet >= len(state.alpha)


def _equilibrium(problem: DualProblem, alpha: NDArray) -> NDArray:
    """Return the optimum from a start."""
    return refine(problem, alpha).alpha
