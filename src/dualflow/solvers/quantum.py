"""What the solvers that run circuits share: a device, shots, an account of what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from numpy.typing import NDArray

from ..exceptions import ProblemError
from ..quantum.circuits import ParametricCircuit
from ..quantum.devices import Device, make_device
from ..quantum.runs.budget import ShotPlan
from ..quantum.runs.final_circuit import FINAL_CIRCUIT, pack_circuit
from ..quantum.runs.laboratory import Laboratory
from ..quantum.runs.mitigation import CALIBRATION_SHOTS, check_method
from .base import Solver

__all__ = ["QuantumSolver"]


@dataclass(frozen=True)
class QuantumSolver(Solver):
    """Base of the solvers that run circuits. Their states have the fields ``account`` and ``lab``.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance.
    shots, final_shots, shot_budget
        See `quantum.runs.budget.ShotPlan`.
    mitigation : {"confusion", "mthree"}, optional
        Undo read-out errors by a confusion matrix a qubit, which is measured on the device first: two circuits, at
        least 10 000 shots each, counted. Needs shots.
    journal : str or Path, optional
        File that jobs are written to before they are waited for; with the same file a run fetches them by id
        instead of submitting them again, if the device still knows them.
    """

    device: str | Device = "aer"
    shots: int | str | None = None
    final_shots: int | None = None
    shot_budget: int | None = None
    mitigation: str | None = None
    journal: str | Path | None = None

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    quantum: ClassVar[bool] = True
    #: How α is read, which decides the shot floor: "simplex", "box", or None for what the problem's kind suggests.
    encoding: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        plan = self._plan  # refuses shots that are out of range
        check_method(self.mitigation, exact=self.shots is None)
        least = self._calibration + (plan.first or 0) + (plan.final or 0)
        if self.mitigation and plan.budget is not None and plan.budget < least:
            raise ProblemError(
                f"shot_budget={plan.budget} does not hold the calibration of mitigation={self.mitigation!r} "
                f"({self._calibration} shots) and a circuit; raise it, or set mitigation=None"
            )

    @property
    def _plan(self) -> ShotPlan:
        return ShotPlan(self.shots, self.final_shots, self.shot_budget)

    @property
    def _calibration(self) -> int:
        """Shots that calibrate the mitigation for one circuit."""
        return 2 * max(CALIBRATION_SHOTS, self._plan.first or 0) if self.mitigation else 0

    def _laboratory(self) -> Laboratory:
        return Laboratory(make_device(self.device), self.name, self.mitigation, self.journal)

    def circuit(self, state: Any) -> ParametricCircuit:
        """The largest circuit of a run."""
        raise NotImplementedError

    def final_angles(self, state: Any) -> NDArray | None:
        """Angles of `circuit` that prepare the final state, or None where no one circuit does."""
        return None

    def extras(self, state: Any) -> dict[str, NDArray]:
        angles = self.final_angles(state)
        return {} if angles is None else {FINAL_CIRCUIT: pack_circuit(self.circuit(state), angles)}

    def cost(self, state: Any) -> dict[str, float | int | None]:
        lab: Laboratory = state.lab
        return lab.cost(state.account, self.circuit(state))

    def provenance(self, state: Any) -> dict[str, Any]:
        circuit = self.circuit(state)
        return {
            "device": state.lab.device.name,
            "mitigation": self.mitigation,
            "circuit": circuit.name,
            "angles": circuit.n_parameters,
            "padded_size": 2**circuit.n_qubits,
            "job_ids": list(state.account["job_ids"]),
        }

    def accuracy_class(self) -> str:
        return self.accuracy if self.shots is None else "sampled"
