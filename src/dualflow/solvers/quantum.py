"""Base of the solvers that run circuits: a device, shots, an account of what was measured.

Public, for those of third parties: a subclass adds its options, says what its context holds beside the laboratory, and
measures by ``context.lab.measure(state.account, circuit, angles, shots)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.problem import DualProblem
from ..core.workspace import Workspace
from ..exceptions import ProblemError
from ..quantum.circuits import ParametricCircuit
from ..quantum.devices import Device, make_device
from ..quantum.runs.budget import ADAPTIVE, ShotPlan
from ..quantum.runs.final_circuit import FINAL_CIRCUIT, pack_circuit
from ..quantum.runs.laboratory import Account, Laboratory
from ..quantum.runs.mitigation import CALIBRATION_SHOTS, check_method
from .base import Solver

__all__ = ["QuantumContext", "QuantumSolver", "QuantumState"]


#: Shots of a circuit, and whole numbers that may be left out.
SHOTS = Number(at_least=1, whole=True, words=(ADAPTIVE,), none=True, note="for exact")
COUNT = Number(at_least=1, whole=True, none=True)


@dataclass(frozen=True)
class QuantumContext:
    """What a run on circuits works with; subclasses add what belongs to their engine."""

    workspace: Workspace
    lab: Laboratory


class QuantumState(Protocol):
    """What every state of such a run has."""

    @property
    def account(self) -> Account: ...


ContextT = TypeVar("ContextT", bound=QuantumContext)
StateT = TypeVar("StateT", bound=QuantumState)


@dataclass(frozen=True)
class QuantumSolver(Solver[ContextT, StateT]):
    """Base of the solvers that run circuits. Their contexts are `QuantumContext`s, their states have an ``account``.

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
    shots: int | str | None = option(None, SHOTS)
    final_shots: int | None = option(None, COUNT)
    shot_budget: int | None = option(None, COUNT)
    mitigation: str | None = None
    journal: str | Path | None = None

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    quantum: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    #: How α is read, which decides the shot floor: "simplex", "box", or None for what the problem's kind suggests.
    encoding: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def laboratory(self) -> Laboratory:
        """A laboratory on the device."""
        return Laboratory(make_device(self.device), self.name, self.mitigation, self.journal)

    def open(self, problem: DualProblem, workspace: Workspace) -> ContextT:
        """The context; by default workspace and laboratory alone."""
        super().open(problem, workspace)
        return QuantumContext(workspace, self.laboratory())  # type: ignore[return-value]

    def circuit(self, context: ContextT, state: StateT) -> ParametricCircuit:
        """The largest circuit of a run."""
        raise NotImplementedError

    def final_angles(self, context: ContextT, state: StateT) -> NDArray | None:
        """Angles of `circuit` that prepare the final state, or None where no one circuit does."""
        return None

    def extras(self, context: ContextT, state: StateT) -> dict[str, NDArray]:
        angles = self.final_angles(context, state)
        return {} if angles is None else {FINAL_CIRCUIT: pack_circuit(self.circuit(context, state), angles)}

    def cost(self, context: ContextT, state: StateT) -> dict[str, Any]:
        return context.lab.cost(state.account, self.circuit(context, state))

    def provenance(self, context: ContextT, state: StateT) -> dict[str, Any]:
        circuit = self.circuit(context, state)
        return {
            "device": context.lab.device.name,
            "mitigation": self.mitigation,
            "circuit": circuit.name,
            "angles": circuit.n_parameters,
            "padded_size": 2**circuit.n_qubits,
            "job_ids": list(state.account.job_ids),
        }

    def accuracy_class(self) -> str:
        return self.accuracy if self.shots is None else "sampled"
