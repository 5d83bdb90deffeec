"""IBM's machines by qiskit-ibm-runtime, and its fake ones on this computer: ``pip install 'dualflow[ibm]'``."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ...core.runtime.threads import cached_property
from ...exceptions import DeviceError, ProblemError, near_miss
from ..circuits import ParametricCircuit
from .base import Capabilities, Device, Limits, Price
from .compiled import CompiledDevice, VendorJob
from .part import simulator_of, touched
from .readouts import Asked, counts_of_sampler
from .sampler import SamplerDevice
from .vendor_errors import cause, device_error

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["FakeIBMDevice", "IBMDevice"]

MODES = ("job", "batch", "session")
SEQUENCES = ("XX", "XpXm", "XY4")
FAKE = "fake_"
#: Variants that twirling draws; IBM's own number is 32.
FEWEST_DRAWS, MOST_DRAWS = 8, 32
#: Most circuits × shots of a sampler job (IBM's guide "Job limits").
EXECUTIONS = 10_000_000
#: Seconds of a sub-job beside its shots, and between two shots where the backend does not say (IBM's guide on usage).
OVERHEAD_S, REPETITION_S = 2.0, 250e-6
ACCOUNTS = Path("~/.qiskit/qiskit-ibm.json")


class IBMJob(VendorJob):
    """A job of IBM's service; the service is asked as often as its own library asks."""

    remote: ClassVar[bool] = True
    poll_s: ClassVar[float] = 0.5


class IBMDevice(SamplerDevice):
    """An IBM machine by the runtime's sampler, in job, batch or session mode.

    The account is the one that `QiskitRuntimeService` finds: saved on this computer, or QISKIT_IBM_TOKEN. It is not
    kept here. "ibm:<backend>:<mode>" is a name too. A batch or session is opened by the first job and ended by `close`.

    Parameters
    ----------
    backend : str
        Such as "ibm_torino", or "least_busy"; of a fake one, such as "fake_manila".
    mode : {"job", "batch", "session"}, default="job"
        The open plan refuses sessions.
    dynamical_decoupling : {"XX", "XpXm", "XY4"}, optional
        Sequence on idle qubits; fake machines leave it out, as their simulator has no idle errors.
    twirling : bool, default=False
        Of two-qubit gates and read-out: 8 to 32 variants of a circuit, of which the number of shots is a multiple.
    max_execution_time_s : int ≥ 1, optional
        After so many seconds on the machine IBM ends a job.
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
    limits = Limits(executions=EXECUTIONS)

    @classmethod
    def named(cls, name: str) -> Device:
        backend, _, mode = name.removeprefix("ibm:").partition(":")
        return (FakeIBMDevice if backend.startswith(FAKE) else IBMDevice)(backend, mode=mode or "job")

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
        if mode not in MODES:
            raise ProblemError(f"mode={mode!r} is not one of {', '.join(map(repr, MODES))}")
        if dynamical_decoupling not in (None, *SEQUENCES):
            raise ProblemError(
                f"dynamical_decoupling={dynamical_decoupling!r} is not one of {', '.join(map(repr, SEQUENCES))}, None"
            )
        if max_execution_time_s is not None and not max_execution_time_s >= 1:
            raise ProblemError(f"max_execution_time_s={max_execution_time_s!r} must be ≥ 1 second, or None")
        self.wanted, self.mode = backend, mode
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
        except Exception as error:  # the library raises much, network errors too
            raise device_error(self.name, "cannot be reached", error) from cause(error)

    @cached_property
    def backend(self) -> Any:
        """IBM's backend; asked for once."""
        service = self._service
        try:
            return service.least_busy(operational=True) if self.wanted == "least_busy" else service.backend(self.wanted)
        except Exception as error:
            raise device_error(self.name, "cannot be had", error) from cause(error)

    @cached_property
    def _mode(self) -> Any:
        """What the sampler runs in: the backend, or a batch or session on it."""
        from qiskit_ibm_runtime import Batch, Session

        if self.mode == "job":
            return self.backend
        try:
            return (Batch if self.mode == "batch" else Session)(backend=self.backend)
        except Exception as error:
            raise device_error(self.name, f"opened no {self.mode}", error) from cause(error)

    def close(self) -> None:
        """End the batch or session; its jobs run on."""
        if self.mode != "job" and "_mode" in self.__dict__:
            self._mode.close()
            del self.__dict__["_mode"]

    def _options(self, tag: str, seed: int | None, shots: int) -> dict[str, Any]:
        """Options of the sampler for a job."""
        options: dict[str, Any] = {"environment": {"job_tags": [tag] if tag else []}}
        if self.dynamical_decoupling is not None:
            options["dynamical_decoupling"] = {"enable": True, "sequence_type": self.dynamical_decoupling}
        if self.twirling:
            # By itself IBM rounds the shots up, and bills more than was asked for: so many draws as divide them.
            draws = next(k for k in range(min(MOST_DRAWS, shots), 0, -1) if shots % k == 0)
            if draws < FEWEST_DRAWS:
                raise DeviceError(
                    f"twirling=True draws {FEWEST_DRAWS} to {MOST_DRAWS} variants of a circuit, each with as many of "
                    f"its shots, and shots={shots} has no such divisor; take for example shots={-(-shots // 25) * 25}",
                    sent=False,
                )
            sizes = {"num_randomizations": draws, "shots_per_randomization": shots // draws}
            options["twirling"] = {"enable_gates": True, "enable_measure": True, **sizes}
        if self.max_execution_time_s is not None:
            options["max_execution_time"] = int(self.max_execution_time_s)
        return options

    def _parts(self) -> dict[str, str]:
        # The machine is calibrated anew day by day, and its jobs of yesterday are still this run's.
        chosen = {"dynamical_decoupling": self.dynamical_decoupling, "twirling": self.twirling or None}
        return {name: str(value) for name, value in chosen.items() if value is not None}

    @property
    def shared(self) -> Any:
        return self

    def _seeded(self, circuit: QuantumCircuit, tag: str, seed: int | None, asked: Asked) -> Any:
        from qiskit_ibm_runtime.executor_sampler import Sampler

        assert asked.shots is not None  # the capabilities say so
        return Sampler(mode=self._runs_on(circuit), options=self._options(tag, seed, asked.shots))

    def _runs_on(self, circuit: QuantumCircuit) -> Any:
        """What a sampler for a compiled circuit runs in."""
        return self._mode

    def _retrieve(self, job_id: str) -> VendorJob:
        try:
            job = self._service.job(job_id)
        except Exception as error:
            raise device_error(self.name, f"does not know job {job_id!r}", error, sent=None) from cause(error)
        if str(job.job_id()) != job_id:
            raise DeviceError(f"device {self.name!r}: asked for job {job_id}, got {job.job_id()}", sent=None)
        return self.job_type(self.name, job, job_id, counts_of_sampler, timeout_s=self.timeout_s)

    def lookup(self, tag: str) -> str | None:
        try:
            found = self._service.jobs(job_tags=[tag], limit=2)
        except Exception as error:
            raise device_error(self.name, f"could not look for jobs tagged {tag!r}", error, sent=None) from cause(error)
        if len(found) > 1:
            raise DeviceError(
                f"device {self.name!r}: several jobs are tagged {tag!r}, such as "
                f"{' and '.join(str(job.job_id()) for job in found)}; which is meant cannot be told",
                sent=True,
            )
        return str(found[0].job_id()) if found else None

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        """2 s + circuits × shots × (250 µs + the circuit's own time), by IBM's guide; a price is not public."""
        compiled = self.compiled(circuit)
        bound = compiled.assign_parameters([0.1] * compiled.num_parameters)
        duration = bound.estimate_duration(self.backend.target)
        repetition = getattr(self.backend, "default_rep_delay", None) or REPETITION_S
        seconds = OVERHEAD_S + circuits * shots * (repetition + duration)
        words = (
            f"{OVERHEAD_S:g} s a job + circuits × shots × ({repetition * 1e6:.0f} µs between shots + "
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
            saved = json.loads(ACCOUNTS.expanduser().read_text(encoding="utf-8"))
        except (OSError, ValueError):
            saved = {}
        if isinstance(saved, dict) and saved:
            return f"saved in {ACCOUNTS}: {', '.join(sorted(saved))}"
        return "none: run QiskitRuntimeService.save_account(token=…) once, or set QISKIT_IBM_TOKEN"

    def __getstate__(self) -> dict[str, Any]:
        # What holds credentials is made again from where the library keeps them.
        kept = super().__getstate__()
        return {
            name: value for name, value in kept.items() if name not in ("_service", "backend", "_mode", "_simulators")
        }


class FakeIBMDevice(IBMDevice):
    """A fake IBM machine in qiskit-ibm-runtime's local mode: gates, couplings and errors of a real one, no account.

    Its simulator gets the errors of the qubits that a circuit is compiled to, which are all that matter. Batches and
    sessions are nothing there.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer", "qiskit_ibm_runtime")
    remote: ClassVar[bool] = False
    seeded: bool = True
    job_type: ClassVar[type[VendorJob]] = VendorJob

    @cached_property
    def backend(self) -> Any:
        """The fake backend of that name; the library's own search would make all seventy."""
        from qiskit_ibm_runtime import fake_provider

        classes = {getattr(c, "backend_name", None): c for c in vars(fake_provider).values() if isinstance(c, type)}
        names = sorted(name for name in classes if name)
        if self.wanted not in names:
            raise DeviceError(
                f"device {self.name!r}: qiskit-ibm-runtime has no {self.wanted!r} among its {len(names)} fake "
                f"backends, such as {names[0]}{near_miss(self.wanted, names)}"
            )
        return classes[self.wanted]()

    @cached_property
    def _simulators(self) -> dict[frozenset[int], Any]:
        return {}

    def _runs_on(self, circuit: QuantumCircuit) -> Any:
        qubits = touched(circuit)
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
        """What the machine that it stands for would take; here it costs nothing."""
        real = super().price(circuit, circuits, shots)
        return Price(real.qpu_seconds, 0.0, formula=f"of the machine it stands for: {real.formula}")

    def queue(self) -> str | None:
        return None

    @classmethod
    def account(cls) -> str | None:
        return None
