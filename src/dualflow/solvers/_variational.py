"""What `variational-flow` and `variational-lotka-volterra` share: options, and doors to an engine of the same kind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, OneOf, option
from ..exceptions import ProblemError
from ..quantum.circuits import ParametricCircuit
from ..quantum.engines.variational import AngleFlow, AngleState
from ..quantum.runs.budget import COUNT
from .quantum import QuantumSolver

__all__ = ["VariationalSolver"]

SEMI_IMPLICIT, LSODA = "semi-implicit", "lsoda"

ContextT = TypeVar("ContextT", bound=AngleFlow[Any])
StateT = TypeVar("StateT", bound=AngleState)


@dataclass(frozen=True)
class VariationalSolver(QuantumSolver[ContextT, StateT]):
    """Base of the flows in the angles of a circuit; the stepping is `quantum.engines.variational.AngleFlow`'s."""

    steps: int | None = option(None, COUNT)
    integrator: str = option(SEMI_IMPLICIT, OneOf(words=(SEMI_IMPLICIT, LSODA)))
    time_step: float | None = option(None, Number(above=0, none=True))
    t_end: float | None = option(None, Number(above=0, none=True))

    exact_method: ClassVar[str] = "exact: a step is taken only where f falls, or LSODA's; the answer is the final state"
    sampled_method: ClassVar[str] = (
        "sampled: every step is taken, and damped; the answer is the mean of what the later steps measured"
    )
    max_n: ClassVar[int | None] = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.integrator == LSODA and self.shots is not None:
            raise ProblemError("integrator='lsoda' follows exact distributions; set shots=None")
        for name in ("time_step", "t_end"):
            if (value := getattr(self, name)) is not None and self.integrator != LSODA:
                raise ProblemError(f"{name}={value!r} must be None, or go with shots=None and integrator='lsoda'")

    def _course(self) -> dict[str, Any]:
        """The options above, as `AngleFlow` takes them."""
        return {
            "plan": self._plan,
            "steps": self.steps,
            "faithful": self.integrator == LSODA,
            "time_step": self.time_step or 1.0,
            "t_end": self.t_end,
        }

    def _within_budget(self, context: ContextT) -> ContextT:
        """The context, or `ProblemError` if the budget of shots does not hold its first step."""
        self._prepared(context.lab, context.circuit, context.circuits_a_step)
        return context

    def start(self, context: ContextT, rng: np.random.Generator, warm: NDArray | None = None) -> StateT:
        state: StateT = context.start(rng, warm)
        return state

    def step(self, context: ContextT, state: StateT) -> StateT:
        return context.step(state)

    def alpha(self, state: StateT) -> NDArray:
        return state.alpha

    def finished(self, state: StateT) -> bool:
        return state.resting and state.measured_finally

    def time(self, state: StateT) -> float | None:
        return state.flow_time

    def circuit(self, context: ContextT, state: StateT) -> ParametricCircuit:
        return context.circuit

    def provenance(self, context: ContextT, state: StateT) -> dict[str, Any]:
        about = super().provenance(context, state) | {"circuits_a_step": context.circuits_a_step}
        if state.shots_behind:  # in units of f, the mean excess that the shots of one circuit add
            about["shot_noise"] = context.variance(state) / state.shots_behind
        return about
