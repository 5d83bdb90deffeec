"""What `hamiltonian-schrodingerisation` and `hamiltonian-lchs` share: windows of a linear flow, one circuit each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, OneOf, option
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace
from ..quantum.circuits.select import EVOLUTIONS, ORDERS, SelectCircuit
from ..quantum.engines import linearised as engine
from ..quantum.engines.linear_model import FORMS, quadratic_form, system_qubits
from ..quantum.engines.linearised import LinearisedContext, LinearisedState
from .quantum import QuantumSolver

__all__ = ["MOST_ANCILLAS", "LinearisedSolver"]

#: Most ancillas: with 16 variables, 20 qubits.
MOST_ANCILLAS = 16
#: Steps of a splitting in a window, where there is something to split; with shots, windows until the solver rests.
TROTTER_STEPS, WINDOWS = 8, 60
#: With shots: longest window by default, as λt; longer ones leave what the linearised flow is good for.
LONGEST = 55.0
#: Of option ``windows``: none beyond what the ancillas resolve.
RESOLVED = "resolved"


@dataclass(frozen=True)
class LinearisedSolver(QuantumSolver[LinearisedContext, LinearisedState]):
    """Base of the two solvers."""

    ancillas: int = option(8, Number(at_least=2, at_most=MOST_ANCILLAS, whole=True))
    form: str = option("replicator", OneOf(words=FORMS))
    evolution: str = option("exact", EVOLUTIONS)
    trotter_steps: int | None = option(None, Number(at_least=1, whole=True, none=True))
    order: int = option(2, ORDERS)
    windows: int | str | None = option(None, Number(at_least=1, whole=True, powers=True, none=True, words=(RESOLVED,)))
    longest: float | None = option(None, Number(above=0, none=True))

    state_type: ClassVar[type] = LinearisedState
    no_final_circuit: ClassVar[str] = (
        "its answer is an average of what many circuits measured, which no one of them prepares; shots=None leaves one"
    )

    kinds = frozenset({Kind.SIMPLEX})
    exact_method: ClassVar[str] = "exact: a window is taken only where f falls; the answer is the final state"
    sampled_method: ClassVar[str] = (
        "sampled: windows within the noise are taken, cut ones too; the answer is an average of them"
    )
    max_n: ClassVar[int | None] = 16
    renamed: ClassVar[Mapping[str, str]] = {"steps": "windows", "splits": "trotter_steps"}

    def _family(self, n_qubits: int, trotter_steps: int) -> SelectCircuit:
        """The circuit with this solver's ancillas."""
        raise NotImplementedError

    @property
    def _resolved(self) -> float:
        """Largest λt that the ancillas damp by e^(−λt); behind it the damping begins anew."""
        raise NotImplementedError

    def open(self, problem: DualProblem, workspace: Workspace) -> LinearisedContext:
        lab, plan = super().open(problem, workspace).lab, self._plan
        exact = self.evolution == "exact"
        splits = TROTTER_STEPS if self.form != "replicator" or not exact else 1
        qubits = system_qubits(self.form, problem.n) + self.ancillas
        circuit = self._family(qubits, self.trotter_steps or splits)
        self._prepared(lab, circuit)
        count = None if isinstance(self.windows, str) else self.windows
        cuts = exact and self.shots is not None and self.windows != RESOLVED
        free = self.shots is None and self.windows != RESOLVED
        return LinearisedContext(
            workspace,
            lab,
            circuit=circuit,
            H=quadratic_form(workspace),
            form=self.form,
            plan=plan,
            windows=count if plan.adaptive else count or WINDOWS,
            longest=self.longest or (np.inf if free and exact else LONGEST if cuts else self._resolved),
            cut=self._resolved if cuts else np.inf,
        )

    def start(
        self, context: LinearisedContext, rng: np.random.Generator, warm: NDArray | None = None
    ) -> LinearisedState:
        return engine.start(context, rng, warm)

    def step(self, context: LinearisedContext, state: LinearisedState) -> LinearisedState:
        return engine.step(context, state)

    def alpha(self, state: LinearisedState) -> NDArray:
        return state.total * state.mean

    def finished(self, state: LinearisedState) -> bool:
        return state.resting and state.measured_finally

    def time(self, state: LinearisedState) -> float | None:
        return state.flow_time

    def cheaper(self) -> tuple[str, dict[str, Any]] | None:
        return "variational-flow", {"shots": self.shots, "mitigation": self.mitigation}

    def circuit(self, context: LinearisedContext, state: LinearisedState) -> SelectCircuit:
        return context.circuit

    def cost(self, context: LinearisedContext, state: LinearisedState) -> dict[str, Any]:
        return super().cost(context, state) | {"success_probability": state.kept / state.reads}

    def final_angles(self, context: LinearisedContext, state: LinearisedState) -> NDArray | None:
        """None with shots, where the answer is an average of several circuits."""
        return state.theta if self.shots is None else None

    def drowned(self, context: LinearisedContext, state: LinearisedState) -> bool:
        shots = state.shots or None
        return context.lab.drowned(state.account, context.circuit, state.theta, state.distribution, shots)

    def provenance(self, context: LinearisedContext, state: LinearisedState) -> dict[str, Any]:
        return super().provenance(context, state) | {
            "ancillas": self.ancillas,
            "trotter_steps": context.circuit.trotter_steps,
            "rejected_windows": state.rejected,
            "longest_window": state.longest,
            "resolved": self._resolved,
        }
