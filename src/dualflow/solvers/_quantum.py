"""What the solvers that run circuits share: a device, shots, an account of what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from ..quantum.budget import ShotPlan
from ..quantum.circuits import ParametricCircuit
from ..quantum.devices import Device, make_device
from ..quantum.laboratory import Laboratory
from .base import Solver

__all__ = ["QuantumSolver"]


@dataclass(frozen=True)
class QuantumSolver(Solver):
    """Base of the solvers that run circuits. Their states have the fields ``account`` and ``lab``."""

    device: str | Device = "aer"
    shots: int | str | None = None
    final_shots: int | None = None
    shot_budget: int | None = None

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    quantum: ClassVar[bool] = True
    #: How α is read, which decides the shot floor: "simplex", "box", or None for what the problem's kind suggests.
    encoding: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        self._plan  # noqa: B018 - it refuses shots that are out of range

    @property
    def _plan(self) -> ShotPlan:
        return ShotPlan(self.shots, self.final_shots, self.shot_budget)

    def _laboratory(self) -> Laboratory:
        return Laboratory(make_device(self.device), self.name)

    def circuit(self, state: Any) -> ParametricCircuit:
        """The largest circuit of a run."""
        raise NotImplementedError

    def cost(self, state: Any) -> dict[str, float | int | None]:
        lab: Laboratory = state.lab
        return lab.cost(state.account, self.circuit(state))

    def provenance(self, state: Any) -> dict[str, Any]:
        circuit = self.circuit(state)
        return {
            "device": state.lab.device.name,
            "circuit": circuit.name,
            "angles": circuit.n_parameters,
            "padded_size": 2**circuit.n_qubits,
            "job_ids": list(state.account["job_ids"]),
        }

    def accuracy_class(self) -> str:
        return self.accuracy if self.shots is None else "sampled"
