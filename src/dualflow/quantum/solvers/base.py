"""Base classes of the solvers that run circuits: `CircuitSolver`, and `QuantumSolver` with shots.

They are public, so that third parties can write solvers. A subclass adds its options and the fields of its context, and
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
from ..runs.budget import COUNT_RULE, SHOTS_RULE, ShotPlan
from ..runs.fidelity import warn_of_fault
from ..runs.final_circuit import FINAL_CIRCUIT, OF_AVERAGE, pack_circuit
from ..runs.laboratory import UNBUILT_REASON, Account, Laboratory, QuantumContext
from ..runs.mitigation import CALIBRATION_SHOTS, check_method
from ..runs.spending import AMOUNT_RULE, Budget

#: Options that concern the sending of jobs. They do not change the circuits and shots of a run.
SENDING_OPTIONS = ("journal", "resend", "max_shots", "max_qpu_seconds", "max_cost", "min_fidelity")


class QuantumState(Protocol):
    """The attributes of every state of a run with circuits."""

    @property
    def account(self) -> Account: ...


ContextT = TypeVar("ContextT", bound=QuantumContext)
StateT = TypeVar("StateT", bound=QuantumState)


@dataclass(frozen=True)
class CircuitSolver(Solver[ContextT, StateT]):
    """Base of the solvers that run circuits, here from exact distributions.

    The context of a subclass is a `QuantumContext`; its states have an ``account``.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance. A Qiskit backend or V2 sampler is wrapped in a device.
    journal : str or Path, optional
        File of the run's jobs (SQLite). Each job is recorded before it is sent, and its result is stored. A run that is
        started again with the same file, data and seed, also in another process, goes through the same states and
        sends no job twice; with a ``checkpoint`` it starts at the checkpoint's state.
    resend : bool, default=False
        If a process ended between sending a job and receiving its id, and the device cannot report whether it has the
        job, the run stops. True sends the job again, which may be charged twice.
    max_shots, max_qpu_seconds, max_cost : optional
        Limits of the run, by the device's `price`. They include what earlier processes have sent with the same journal
        (without a journal: what this process has sent, and the account of the checkpoint). A batch that exceeds a limit
        is not sent, and the run ends with its present α. These options and ``resend`` may change from one process to
        the next.
    min_fidelity : float in (0, 1), optional
        A run ends with a `DeviceError` if the fidelity of its read-outs to their circuits (``provenance["fidelity"]``)
        is below this by more than shot noise. Without it a `FidelityWarning` is given below 0.5, and if the read-outs
        of a device that reports no noise deviate from those of its circuits.
    """

    device: str | Device = "aer"
    journal: str | Path | None = field(default=None, kw_only=True)
    resend: bool = option(False, Flag(), kw_only=True, repr=False)
    max_shots: int | None = option(None, COUNT_RULE, kw_only=True, repr=False)
    max_qpu_seconds: float | None = option(None, AMOUNT_RULE, kw_only=True, repr=False)
    max_cost: float | None = option(None, AMOUNT_RULE, kw_only=True, repr=False)
    min_fidelity: float | None = option(None, Number(above=0, below=1, none=True), kw_only=True, repr=False)

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    quantum: ClassVar[bool] = True
    whole: ClassVar[bool] = True
    #: Control devices of this solver in a comparison, in addition to those of every solver.
    own_controls: ClassVar[tuple[str, ...]] = ()
    #: For a solver without the option ``shots``: the reason and the way out, as the end of an error message.
    without_shots: ClassVar[str] = "takes no shots; leave shots out"
    #: Why there is no final circuit, if `final_angles` returns None.
    no_final_circuit: ClassVar[str] = "no single circuit prepares its final state"
    #: Method of a run from exact distributions, and of one with shots, for ``provenance["method"]``.
    exact_method: ClassVar[str] = "exact"
    sampled_method: ClassVar[str] = "sampled"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.device, str):
            # A backend is wrapped once, so that jobs and checkpoints always see the same device name.
            object.__setattr__(self, "device", make_device(self.device))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        if "shots" in options and "shots" not in {f.name for f in fields(cls)}:
            if options["shots"] is not None:
                raise ProblemError(f"shots={options['shots']!r}: {cls.name!r} {cls.without_shots}")
            options = {name: value for name, value in options.items() if name != "shots"}
        return super().from_options(options)

    def laboratory(self, problem: DualProblem | None = None) -> Laboratory:
        """Return a laboratory on the device; the journal stores its jobs under the fingerprint of ``problem``.

        Raises
        ------
        DeviceError
            The device gives counts only, and no shots are set, or the solver takes none.
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
        """Return the context, by default with workspace and laboratory only."""
        super().open(problem, workspace)
        return QuantumContext(workspace, self.laboratory(problem))  # type: ignore[return-value]

    def schedule(self, context: ContextT) -> Schedule | None:
        """Return the circuits and shots of a run, step by step, or None if they depend on measured results.

        The context computes it with the rules that end its run, so that an estimate and a run agree.
        """
        schedule: Callable[[], Schedule | None] = getattr(context, "schedule", lambda: None)
        return schedule()

    @property
    def counts_are_fixed(self) -> bool:
        """Whether all runs with these options take the same number of circuits and shots; used without a `schedule`."""
        return False

    def cheaper(self) -> tuple[str, dict[str, Any]] | None:
        """Return name and options of a solver that takes fewer circuits for the same problem, or None."""
        return None

    def rehearsed(self, device: str | Device) -> Self:
        """Return this solver on another device, without journal and budgets."""
        own: dict[str, Any] = {f.name: f.default for f in fields(self) if f.name in SENDING_OPTIONS}
        return replace(self, **own | {"device": device})

    def controlled(self, control: str | Device) -> Self:
        """Return this solver on a control device, without journal, budgets and mitigation.

        A mitigation finds no read-out errors on a control, and ends the run.
        """
        return self.rehearsed(control)

    def circuit(self, context: ContextT, state: StateT) -> ParametricCircuit:
        """Return the largest circuit of a run."""
        raise NotImplementedError

    def final_angles(self, context: ContextT, state: StateT) -> NDArray | None:
        """Return the angles of `circuit` that prepare the final state, or None if no single circuit does."""
        return None

    @property
    def answers_by_average(self) -> bool:
        """Whether the answer is an average, whose angles are computed from it and were not sent to the device."""
        return False

    @property
    def circuit_origin(self) -> str | None:
        """Where the final circuit's angles come from, in words, if its state is not the answer as it was measured."""
        return OF_AVERAGE if self.answers_by_average else None

    def extras(self, context: ContextT, state: StateT) -> dict[str, NDArray]:
        """Return the packed final circuit, if there is one and it was built in time."""
        angles = self.final_angles(context, state)
        if angles is None:
            return {}
        circuit = self.circuit(context, state)
        try:
            return {FINAL_CIRCUIT: context.lab.built(circuit, lambda: pack_circuit(circuit, angles))}
        except clock.OutOfTime:
            return {}

    def shots_spent(self, state: StateT) -> int:
        return int(state.account.shots)

    def cost(self, context: ContextT, state: StateT) -> dict[str, Any]:
        """Return the cost of the run's circuits."""
        return context.lab.cost(state.account, self.circuit(context, state))

    @property
    def how(self) -> str:
        """The method of this run: exact distributions and shots have different ones."""
        return self.exact_method

    def provenance(self, context: ContextT, state: StateT) -> dict[str, Any]:
        """Return method, device, circuit, jobs and fidelity; warn if the fidelity is low."""
        circuit, device, fidelity = self.circuit(context, state), context.lab.device, state.account.fidelity
        missing = UNBUILT_REASON if context.lab.unbuilt else None
        if self.final_angles(context, state) is None:
            missing = self.no_final_circuit
        elif missing is None:
            missing = self.circuit_origin
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
    """Base of the solvers whose α is a measured distribution, from shots or exact.

    Parameters
    ----------
    device, journal, resend, max_shots, max_qpu_seconds, max_cost
        See `CircuitSolver`.
    shots, final_shots, shot_budget
        See `quantum.runs.budget.ShotPlan`.
    mitigation : {"confusion", "mthree", "circuit"}, optional
        Correct read-out errors by one confusion matrix for each qubit. It is measured on the device first, by two
        circuits of at least 10 000 shots each, which are counted. "circuit" measures it by the solver's circuit if that
        can prepare all 0 and all 1 (`quantum.runs.mitigation`), with two or four circuits, so that it includes the bit
        flips of the gates. Needs shots.

    Examples
    --------
    >>> from dualflow import QuantumSolver, VariationalFlow
    >>> solver = VariationalFlow(device="emulator", shots=1000)
    >>> isinstance(solver, QuantumSolver), solver.shots
    (True, 1000)
    """

    shots: int | str | None = option(None, SHOTS_RULE)
    final_shots: int | None = option(None, COUNT_RULE)
    shot_budget: int | None = option(None, COUNT_RULE)
    mitigation: str | None = None

    #: How α is read, which decides the shot floor: "simplex", "box", or None to choose by the problem's kind.
    encoding: ClassVar[str | None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        plan = self._plan  # raises if the numbers are inconsistent
        check_method(self.mitigation, exact=self.shots is None)
        needed = self._calibration + (plan.first or 0) + (plan.final or 0)
        if self.mitigation and plan.budget is not None and plan.budget < needed:
            raise ProblemError(
                f"shot_budget={plan.budget} does not hold the calibration of mitigation={self.mitigation!r} "
                f"({self._calibration} shots) and a circuit; raise it, or set mitigation=None"
            )

    @property
    def _plan(self) -> ShotPlan:
        return ShotPlan(self.shots, self.final_shots, self.shot_budget)

    @property
    def _calibration(self) -> int:
        """Shots of the mitigation's calibration for one circuit."""
        return 2 * max(CALIBRATION_SHOTS, self._plan.first or 0) if self.mitigation else 0

    def _prepared(self, lab: Laboratory, circuit: ParametricCircuit, circuits: int = 1) -> int:
        """Return the shots that precede a circuit's first batch.

        Raises `ProblemError` if the shot budget does not hold them and ``circuits`` circuits.
        """
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
        more |= {} if self.encoding is None else {"encoding": self.encoding}
        return super().provenance(context, state) | more

    @property
    def how(self) -> str:
        return self.exact_method if self.shots is None else self.sampled_method

    def accuracy_class(self) -> str:
        return self.accuracy if self.shots is None else "sampled"
