"""IBM's machines through qiskit-ibm-runtime, and fake ones on this computer: ``pip install 'dualflow[ibm]'``."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.runtime.threads import cached_property
from ...exceptions import DeviceError, ProblemError, did_you_mean
from ..circuits import ParametricCircuit
from .base import Capabilities, Device, Limits, Price
from .compiled import CompiledDevice, VendorJob
from .partial_simulator import active_qubits, simulator_of
from .readouts import Request, counts_of_sampler
from .sampler import SamplerDevice
from .vendor_errors import cause, device_error

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

RUN_MODES = ("job", "batch", "session")
DECOUPLING_SEQUENCES = ("XX", "XpXm", "XY4")
FAKE_PREFIX = "fake_"
#: Fewest variants of a circuit that twirling draws; with fewer it is an error.
MIN_TWIRLING_VARIANTS = 8
#: Most variants of a circuit that twirling draws, IBM's default.
MAX_TWIRLING_VARIANTS = 32
#: Most circuits × shots of a sampler job (IBM's guide "Job limits").
MAX_EXECUTIONS = 10_000_000
#: Seconds of a sub-job in addition to its shots (IBM's guide on usage).
JOB_OVERHEAD_S = 2.0
#: Seconds between two shots, for a backend that does not report them (IBM's guide on usage).
SHOT_DELAY_S = 250e-6
#: File in which qiskit-ibm-runtime saves accounts.
ACCOUNTS_FILE = Path("~/.qiskit/qiskit-ibm.json")


class IBMJob(VendorJob):
    """A job of IBM's service; its status is requested as often as IBM's own library does."""

    remote: ClassVar[bool] = True
    poll_s: ClassVar[float] = 0.5


class IBMDevice(SamplerDevice):
    """An IBM machine, used through the runtime's sampler in job, batch or session mode.

    The account is the one that `QiskitRuntimeService` finds: saved on this computer, or in QISKIT_IBM_TOKEN. The device
    does not store it. The name "ibm:<backend>:<mode>" sets the mode. The first job opens a batch or session, and
    `close` ends it.

    Parameters
    ----------
    backend : str
        A machine such as "ibm_torino", "least_busy", or a fake machine such as "fake_manila".
    mode : {"job", "batch", "session"}, default="job"
        IBM's open plan has no sessions.
    dynamical_decoupling : {"XX", "XpXm", "XY4"}, optional
        Sequence on idle qubits. Fake machines ignore it, as their simulator has no errors of idle qubits.
    twirling : bool, default=False
        Twirl two-qubit gates and read-out with 8 to 32 variants of a circuit; their number must divide the shots.
    max_execution_time_s : int ≥ 1, optional
        Seconds on the machine after which IBM ends a job.
    optimization_level, seed_transpiler, timeout_s, check_bit_order
        See `CompiledDevice`.

    Raises
    ------
    ProblemError
        An argument is out of range.
    DeviceError
        No account, no network, no such backend.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_ibm_runtime")
    extra: ClassVar[str | None] = "ibm"
    vendor: ClassVar[str | None] = "IBM"
    remote: ClassVar[bool] = True
    job_type: ClassVar[type[VendorJob]] = IBMJob
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=None)
    limits = Limits(executions=MAX_EXECUTIONS)

    @classmethod
    def named(cls, name: str) -> Device:
        backend, _, mode = name.removeprefix("ibm:").partition(":")
        return (FakeIBMDevice if backend.startswith(FAKE_PREFIX) else IBMDevice)(backend, mode=mode or "job")

    def __init__(
        self,
        backend: str,
        *,
        mode: str = "job",
        dynamical_decoupling: str | None = None,
        twirling: bool = False,
        max_execution_time_s: int | None = None,
        **options: Any,
    ) -> None:
        CompiledDevice.__init__(self, **options)
        if mode not in RUN_MODES:
            raise ProblemError(f"mode={mode!r} is not one of {', '.join(map(repr, RUN_MODES))}")
        if dynamical_decoupling not in (None, *DECOUPLING_SEQUENCES):
            known = ", ".join(map(repr, DECOUPLING_SEQUENCES))
            raise ProblemError(f"dynamical_decoupling={dynamical_decoupling!r} is not one of {known}, None")
        if max_execution_time_s is not None and not max_execution_time_s >= 1:
            raise ProblemError(f"max_execution_time_s={max_execution_time_s!r} must be ≥ 1 second, or None")
        self.requested, self.mode = backend, mode
        self.dynamical_decoupling, self.twirling = dynamical_decoupling, bool(twirling)
        self.max_execution_time_s = max_execution_time_s
        self.name = f"ibm:{backend}"
        self.name = f"ibm:{self.backend.name}" + ("" if mode == "job" else f":{mode}")
        self.capabilities = replace(self.capabilities, qubits=self.backend.num_qubits)

    @cached_property
    def _service(self) -> Any:
        from qiskit_ibm_runtime import QiskitRuntimeService

        try:
            return QiskitRuntimeService()
        except Exception as error:  # the library raises errors of many types, including those of the network
            raise device_error(self.name, "cannot be reached", error) from cause(error)

    @cached_property
    def backend(self) -> Any:
        """IBM's backend, requested once."""
        service = self._service
        try:
            return (
                service.least_busy(operational=True)
                if self.requested == "least_busy"
                else service.backend(self.requested)
            )
        except Exception as error:
            raise device_error(self.name, "cannot be had", error) from cause(error)

    @cached_property
    def _mode(self) -> Any:
        """The sampler's execution mode: the backend, or a batch or session on it."""
        from qiskit_ibm_runtime import Batch, Session

        if self.mode == "job":
            return self.backend
        try:
            return (Batch if self.mode == "batch" else Session)(backend=self.backend)
        except Exception as error:
            raise device_error(self.name, f"opened no {self.mode}", error) from cause(error)

    def close(self) -> None:
        """Close the batch or session; jobs that were sent still run."""
        if self.mode != "job" and "_mode" in self.__dict__:
            self._mode.close()
            del self.__dict__["_mode"]

    def _options(self, tag: str, seed: int | None, shots: int) -> dict[str, Any]:
        """Return the sampler's options for a job."""
        options: dict[str, Any] = {"environment": {"job_tags": [tag] if tag else []}}
        if self.dynamical_decoupling is not None:
            options["dynamical_decoupling"] = {"enable": True, "sequence_type": self.dynamical_decoupling}
        if self.twirling:
            # IBM rounds the shots up to a multiple of the variants and bills for these: use a number that divides them.
            variants = next(k for k in range(min(MAX_TWIRLING_VARIANTS, shots), 0, -1) if shots % k == 0)
            if variants < MIN_TWIRLING_VARIANTS:
                raise DeviceError(
                    f"twirling=True draws {MIN_TWIRLING_VARIANTS} to {MAX_TWIRLING_VARIANTS} variants of a circuit, "
                    f"each with the same number of shots, and shots={shots} has no such divisor; take for example "
                    f"shots={-(-shots // 25) * 25}",
                    sent=False,
                )
            sizes = {"num_randomizations": variants, "shots_per_randomization": shots // variants}
            options["twirling"] = {"enable_gates": True, "enable_measure": True, **sizes}
        if self.max_execution_time_s is not None:
            options["max_execution_time"] = int(self.max_execution_time_s)
        return options

    def _parts(self) -> dict[str, str]:
        # Calibration data are not included: they change every day, and a run may continue from yesterday's jobs.
        chosen = {"dynamical_decoupling": self.dynamical_decoupling, "twirling": self.twirling or None}
        return {name: str(value) for name, value in chosen.items() if value is not None}

    @property
    def shared(self) -> Any:
        return self

    def _sampler_for(self, circuit: QuantumCircuit, tag: str, seed: int | None, request: Request) -> Any:
        from qiskit_ibm_runtime.executor_sampler import Sampler

        assert request.shots is not None  # `check` has refused exact distributions
        return Sampler(mode=self._runs_on(circuit), options=self._options(tag, seed, request.shots))

    def _runs_on(self, circuit: QuantumCircuit) -> Any:
        """Return the execution mode of a sampler for a compiled circuit."""
        return self._mode

    def _retrieve(self, job_id: str) -> VendorJob:
        try:
            job = self._service.job(job_id)
        except Exception as error:
            raise device_error(self.name, f"does not know job {job_id!r}", error, sent=None) from cause(error)
        if str(job.job_id()) != job_id:
            raise DeviceError(f"device {self.name!r}: requested job {job_id}, got {job.job_id()}", sent=None)
        return self.job_type(self.name, job, job_id, counts_of_sampler, timeout_s=self.timeout_s)

    def lookup(self, tag: str) -> str | None:
        try:
            found = self._service.jobs(job_tags=[tag], limit=2)
        except Exception as error:
            raise device_error(self.name, f"could not look for jobs tagged {tag!r}", error, sent=None) from cause(error)
        if len(found) > 1:
            raise DeviceError(
                f"device {self.name!r}: several jobs are tagged {tag!r}, such as "
                f"{' and '.join(str(job.job_id()) for job in found)}; it is not known which one belongs to this run",
                sent=True,
            )
        return str(found[0].job_id()) if found else None

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        """Return 2 s + circuits × shots × (250 µs + the circuit's duration), by IBM's guide; costs are not public."""
        compiled = self.compiled(circuit)
        bound = compiled.assign_parameters([0.1] * compiled.num_parameters)
        duration = bound.estimate_duration(self.backend.target)
        repetition = getattr(self.backend, "default_rep_delay", None) or SHOT_DELAY_S
        seconds = JOB_OVERHEAD_S + circuits * shots * (repetition + duration)
        words = (
            f"{JOB_OVERHEAD_S:g} s a job + circuits × shots × ({repetition * 1e6:.0f} µs between shots + "
            f"{duration * 1e6:.2f} µs of circuit)"
        )
        return Price(seconds, None, formula=words)

    def queue(self) -> str | None:
        try:
            status = self.backend.status()
        except Exception as error:
            raise device_error(self.name, "could not say how long its queue is", error) from cause(error)
        return f"{status.pending_jobs} jobs wait, {status.status_msg}"

    @classmethod
    def account(cls) -> str | None:
        if os.environ.get("QISKIT_IBM_TOKEN"):
            return "QISKIT_IBM_TOKEN is set"
        try:
            saved = json.loads(ACCOUNTS_FILE.expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError):
            saved = {}
        if isinstance(saved, dict) and saved:
            return f"saved in {ACCOUNTS_FILE}: {', '.join(sorted(saved))}"
        return "none: run QiskitRuntimeService.save_account(token=…) once, or set QISKIT_IBM_TOKEN"

    def __getstate__(self) -> dict[str, Any]:
        # Attributes that hold credentials are not pickled; they are made again from the library's own storage.
        kept = super().__getstate__()
        return {
            name: value for name, value in kept.items() if name not in ("_service", "backend", "_mode", "_simulators")
        }


class FakeIBMDevice(IBMDevice):
    """A fake IBM machine in qiskit-ibm-runtime's local mode: gates, couplings and errors of a real one, no account.

    The simulator gets the errors of only those qubits that a circuit is compiled to; the others do not change the
    result. Batches and sessions have no effect.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer", "qiskit_ibm_runtime")
    remote: ClassVar[bool] = False
    seeded: bool = True
    job_type: ClassVar[type[VendorJob]] = VendorJob

    @cached_property
    def backend(self) -> Any:
        """The fake backend of that name, made directly: the library's own search makes all seventy."""
        from qiskit_ibm_runtime import fake_provider

        classes = {getattr(c, "backend_name", None): c for c in vars(fake_provider).values() if isinstance(c, type)}
        names = sorted(name for name in classes if name)
        if self.requested not in names:
            raise DeviceError(
                f"device {self.name!r}: qiskit-ibm-runtime has no {self.requested!r} among its {len(names)} fake "
                f"backends, such as {names[0]}{did_you_mean(self.requested, names)}"
            )
        return classes[self.requested]()

    @cached_property
    def _simulators(self) -> dict[frozenset[int], Any]:
        return {}

    def _runs_on(self, circuit: QuantumCircuit) -> Any:
        qubits = active_qubits(circuit)
        if qubits not in self._simulators:
            self._simulators[qubits] = simulator_of(self.backend, qubits)
        return self._simulators[qubits]

    def _options(self, tag: str, seed: int | None, shots: int) -> dict[str, Any]:
        return {**super()._options(tag, seed, shots), "simulator": {"seed_simulator": seed}}

    def _retrieve(self, job_id: str) -> VendorJob:
        return CompiledDevice._retrieve(self, job_id)

    def lookup(self, tag: str) -> str | None:
        return Device.lookup(self, tag)

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        """Return the time and cost of the real machine, so that an estimate is of the run that this one rehearses."""
        real = super().price(circuit, circuits, shots)
        return Price(
            real.qpu_seconds, real.cost, formula=f"of the real machine, this stand-in costs nothing: {real.formula}"
        )

    def queue(self) -> str | None:
        return None

    @classmethod
    def account(cls) -> str | None:
        return None
