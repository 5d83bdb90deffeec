"""Bases of the solvers that run circuits: a device, an account of what was measured; with shots, or without.

Public, for those of third parties: a subclass adds its options, says what its context holds beside the laboratory, and
measures by ``context.lab.measure(state.account, circuit, angles, shots)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self, TypeVar

from numpy.typing import NDArray

from ...core.digest import fingerprint
from ...core.options import Flag, Number, option
from ...core.problem import DualProblem
from ...core.runtime import clock
from ...core.solver import Solver
from ...core.workspace import Workspace
from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit
from ..devices import Device, make_device
from ..runs.batches import Schedule
from ..runs.budget import COUNT, SHOTS, ShotPlan
from ..runs.fidelity import warn_of_fault
from ..runs.final_circuit import FINAL_CIRCUIT, pack_circuit
from ..runs.laboratory import UNBUILT, Account, Laboratory, QuantumContext
from ..runs.mitigation import CALIBRATION_SHOTS, check_method
from ..runs.spending import AMOUNT, Budget

__all__ = ["CircuitSolver", "QuantumContext", "QuantumSolver", "QuantumState"]


#: Options that say what becomes of jobs, and nothing of what a run asks for.
SENDING = ("journal", "resend", "max_shots", "max_qpu_seconds", "max_cost", "min_fidelity")


class QuantumState(Protocol):
    """What every state of such a run has."""

    @property
    def account(self) -> Account: ...


ContextT = TypeVar("ContextT", bound=QuantumContext)
StateT = TypeVar("StateT", bound=QuantumState)


@dataclass(frozen=True)
class CircuitSolver(Solver[ContextT, StateT]):
    """Base of the solvers that run circuits. Their contexts are `QuantumContext`s, their states have an ``account``.

    This one takes no shots: distributions are exact.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance; a Qiskit backend or V2 sampler is made one.
    journal : str or Path, optional
        File of the run's jobs (SQLite): each is written down before it is sent, and its result is kept. The same run
        begun again with the same file, data and seed, in another process too, goes through the same states and sends
        nothing twice; with a ``checkpoint`` it begins at the last state of that.
    resend : bool, default=False
        Where a process died between sending a job and hearing its id, and the device cannot say whether it has it, the
        run stops; True sends it again, and may pay twice.
    max_shots, max_qpu_seconds, max_cost : optional
        What the run may spend, by the device's `price`, from what it is about to send and including what the processes
        before it have sent by the same journal (without one: what this process has, and what the checkpoint tells). A
        batch that does not fit is not sent, and the run ends with what it has. These and ``resend`` may change from one
        process to the next.
    min_fidelity : float in (0, 1), optional
        A run ends with a `DeviceError` where the fidelity of its read-outs to their circuits
        (``provenance["fidelity"]``) is below it, beyond shot noise. Without it there is a `FidelityWarning` below 0.5,
        and where the read-outs of a device that says it has no noise are not those of its circuits.
    """

    device: str | Device = "aer"
    journal: str | Path | None = field(default=None, kw_only=True)
    resend: bool = option(False, Flag(), kw_only=True, repr=False)
    max_shots: int | None = option(None, COUNT, kw_only=True, repr=False)
    max_qpu_seconds: float | None = option(None, AMOUNT, kw_only=True, repr=False)
    max_cost: float | None = option(None, AMOUNT, kw_only=True, repr=False)
    min_fidelity: float | None = option(None, Number(above=0, below=1, none=True), kw_only=True, repr=False)

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    quantum: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    #: Controls that stand beside its rows in a comparison, with those of every solver.
    own_controls: ClassVar[tuple[str, ...]] = ()
    #: Where there is no option ``shots``: why, and what to do about it.
    without_shots: ClassVar[str] = "takes no shots; leave shots out"
    #: Why there is no final circuit, where `final_angles` gives none.
    no_final_circuit: ClassVar[str] = "no one circuit prepares its final state"
    #: What a run from exact distributions does, and what one with shots does instead, for ``provenance["method"]``.
    exact_method: ClassVar[str] = "exact"
    sampled_method: ClassVar[str] = "sampled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.device, str):
            # A backend is wrapped once, so that its jobs are found again and checkpoints see a name that stays.
            object.__setattr__(self, "device", make_device(self.device))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        if "shots" in options and "shots" not in {f.name for f in fields(cls)}:
            if options["shots"] is not None:
                raise ProblemError(f"shots={options['shots']!r}: {cls.name!r} {cls.without_shots}")
            options = {name: value for name, value in options.items() if name != "shots"}
        return super().from_options(options)

    def laboratory(self, problem: DualProblem | None = None) -> Laboratory:
        """A laboratory on the device; the problem is whose jobs the journal keeps.

        Raises
        ------
        DeviceError
            The device gives counts only, and no shots are asked for, or none can be.
        """
        device = make_device(self.device)
        if getattr(self, "shots", None) is None and not device.capabilities.exact:
            takes_shots = "shots" in {f.name for f in fields(self)}
            way_out = (
                "set shots, for example shots=10_000" if takes_shots else f"{self.name!r} takes no shots; use 'aer'"
            )
            raise DeviceError(f"device {device.name!r} gives counts only; {way_out}")
        budget = Budget(self.max_shots, self.max_qpu_seconds, self.max_cost)
        data = None if self.journal is None or problem is None else fingerprint(problem)
        return Laboratory(
            device,
            self.name,
            self._mitigation,
            self.journal,
            data=data,
            budget=budget,
            resend=self.resend,
            min_fidelity=self.min_fidelity,
        )

    @property
    def _mitigation(self) -> str | None:
        return None

    def open(self, problem: DualProblem, workspace: Workspace) -> ContextT:
        """The context; by default workspace and laboratory alone."""
        super().open(problem, workspace)
        return QuantumContext(workspace, self.laboratory(problem))  # type: ignore[return-value]

    def schedule(self, context: ContextT) -> Schedule | None:
        """What a run sends, step by step, where nothing that is measured changes it; else None.

        The context says it, by the rules it rests by itself, so that an estimate and a run agree.
        """
        tell: Callable[[], Schedule | None] = getattr(context, "schedule", lambda: None)
        return tell()

    @property
    def counts_are_fixed(self) -> bool:
        """Whether every run without a `schedule` takes as many circuits and shots as any other with these options."""
        return False

    def cheaper(self) -> tuple[str, dict[str, Any]] | None:
        """A solver and options that solve the same problem with fewer circuits; None where none is known."""
        return None

    def rehearsed(self, device: str | Device) -> Self:
        """This solver on another device, with all left out that concerns the sending: journal and budgets."""
        own: dict[str, Any] = {f.name: f.default for f in fields(self) if f.name in SENDING}
        return replace(self, **own | {"device": device})

    def controlled(self, control: str | Device) -> Self:
        """This solver on a control in its device's place: without journal and budgets, and with no mitigation, which
        would find nothing to undo and end the run."""
        return self.rehearsed(control)

    def circuit(self, context: ContextT, state: StateT) -> ParametricCircuit:
        """The largest circuit of a run."""
        raise NotImplementedError

    def final_angles(self, context: ContextT, state: StateT) -> NDArray | None:
        """Angles of `circuit` that prepare the final state, or None where no one circuit does."""
        return None

    def extras(self, context: ContextT, state: StateT) -> dict[str, NDArray]:
        angles = self.final_angles(context, state)
        if angles is None:
            return {}
        circuit = self.circuit(context, state)
        try:
            return {FINAL_CIRCUIT: context.lab.built(circuit, lambda: pack_circuit(circuit, angles))}
        except clock.OutOfTime:
            return {}

    def cost(self, context: ContextT, state: StateT) -> dict[str, Any]:
        return context.lab.cost(state.account, self.circuit(context, state))

    @property
    def how(self) -> str:
        """What this run does; runs with shots take another way than exact ones."""
        return self.exact_method

    def provenance(self, context: ContextT, state: StateT) -> dict[str, Any]:
        circuit, device, fidelity = self.circuit(context, state), context.lab.device, state.account.fidelity
        missing = UNBUILT if context.lab.unbuilt else None
        if self.final_angles(context, state) is None:
            missing = self.no_final_circuit
        if not device.control:
            warn_of_fault(fidelity, device.name)
        return (
            context.lab.provenance(state.account)
            | {
                "method": self.how,
                "circuit": circuit.name,
                "angles": circuit.n_parameters,
                "job_ids": list(state.account.job_ids),
                "fidelity": fidelity.report(),
            }
            | ({} if missing is None else {"final_circuit": missing})
        )


@dataclass(frozen=True)
class QuantumSolver(CircuitSolver[ContextT, StateT]):
    """Base of the solvers whose α is a measured distribution: with shots, or exact.

    Parameters
    ----------
    device, journal, resend, max_shots, max_qpu_seconds, max_cost
        See `CircuitSolver`.
    shots, final_shots, shot_budget
        See `quantum.runs.budget.ShotPlan`.
    mitigation : {"confusion", "mthree", "circuit"}, optional
        Undo read-out errors by a confusion matrix a qubit, which is measured on the device first: two circuits, at
        least 10 000 shots each, counted. "circuit" measures it by the circuit itself where it can prepare all 0 and
        all 1 (`quantum.runs.mitigation`), two or four circuits: gates' flips are in it, too. Needs shots.

    Examples
    --------
    >>> from dualflow import QuantumSolver, VariationalFlow
    >>> solver = VariationalFlow(device="emulator", shots=1000)
    >>> isinstance(solver, QuantumSolver), solver.shots
    (True, 1000)
    """

    shots: int | str | None = option(None, SHOTS)
    final_shots: int | None = option(None, COUNT)
    shot_budget: int | None = option(None, COUNT)
    mitigation: str | None = None

    #: How α is read, which decides the shot floor: "simplex", "box", or None for what the problem's kind suggests.
    encoding: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        plan = self._plan  # refuses numbers that do not go together
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

    def _prepared(self, lab: Laboratory, circuit: ParametricCircuit, circuits: int = 1) -> int:
        """Shots that go before a circuit's first batch; `ProblemError` if the budget does not hold them and that."""
        shots = lab.preparation(circuit, self._plan.first)
        self._plan.check_start(circuits, shots)
        return shots

    @property
    def _mitigation(self) -> str | None:
        return self.mitigation

    def controlled(self, control: str | Device) -> Self:
        return replace(super().controlled(control), mitigation=None)

    def provenance(self, context: ContextT, state: StateT) -> dict[str, Any]:
        more = {"mitigation": self.mitigation, "padded_size": 2 ** self.circuit(context, state).n_qubits}
        return super().provenance(context, state) | more

    @property
    def how(self) -> str:
        return self.exact_method if self.shots is None else self.sampled_method

    def accuracy_class(self) -> str:
        return self.accuracy if self.shots is None else "sampled"
