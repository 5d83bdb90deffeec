"""Base classes of devices that compile circuits to their own gates and couplings, and of vendors' jobs.

A circuit is compiled once. All its bindings are sent as one job, whose result is read through the vendor's library.
"""

from __future__ import annotations

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError, ProblemError
from ..circuits import ParametricCircuit, resources
from ..circuits.calibration import CalibrationCircuit
from ..circuits.resources import Resources
from .base import Device, Job, Readout
from .bit_order import CHECK_SEED, SHOTS_PER_STATE, basis_states, check_bit_order
from .guard import device_errors
from .partial_simulator import active_qubits
from .readouts import Request, readout_of_counts
from .vendor_errors import cause, device_error

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

#: Jobs that a device keeps for `fetch`.
MAX_KEPT_JOBS = 256
#: Default options of Qiskit's preset pass manager.
COMPILER_DEFAULTS = {"optimization_level": 1, "seed_transpiler": 0}
#: Status of a job by the vendors' words for its state; a job in an unknown state counts as running.
JOB_STATES = {
    "INITIALIZING": "queued", "INITIALIZED": "queued", "CREATED": "queued", "VALIDATING": "queued", "QUEUED": "queued",
    "RUNNING": "running", "DONE": "done", "COMPLETED": "done", "ERROR": "failed", "FAILED": "failed",
    "CANCELLED": "cancelled", "CANCELLING": "cancelled",
}  # fmt: skip
FINAL_STATES = ("done", "failed", "cancelled")

#: Function that returns the counts and shots of a vendor's result, from the result, device name, job id and request.
Reader = Callable[[Any, str, str, "Request | None"], "tuple[NDArray, int]"]


class VendorJob(Job):
    """A job of a vendor's library, read as a `Readout`.

    Parameters
    ----------
    device : str
    job : object with ``status()`` (or ``state()``), ``result()`` and ``cancel()``
    job_id : str
    read : Reader
        Reads counts and shots from the vendor's result.
    tag : str
    request : Request, optional
        None for a job that another process sent.
    timeout_s : float, optional
        Seconds that `result` waits; by default without limit.
    """

    def __init__(
        self,
        device: str,
        job: Any,
        job_id: str,
        read: Reader,
        tag: str = "",
        request: Request | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.device, self.job, self.job_id, self.tag = device, job, job_id, tag
        self.read, self.request, self.timeout_s = read, request, timeout_s
        self._readout: Readout | None = None

    remote: ClassVar[bool] = False  # True: `result` requests the job's status from the vendor every `poll_s` seconds

    def status(self) -> str:
        if self._readout is not None:
            return "done"
        try:
            state = self.job.status() if hasattr(self.job, "status") else self.job.state()
        except Exception as error:  # vendors' libraries raise errors of any type
            what = f"could not report the status of job {self.job_id}"
            raise device_error(self.device, what, error, sent=True) from cause(error)
        return JOB_STATES.get(str(getattr(state, "name", state)).upper(), "running")

    def done(self) -> bool:
        return self.status() in FINAL_STATES

    def cancel(self) -> None:
        if self.done():
            return
        try:
            self.job.cancel()
        except Exception as error:
            raise device_error(self.device, f"could not cancel job {self.job_id}", error, sent=True) from cause(error)

    def result(self) -> Readout:
        if self._readout is None:
            if self._wait() == "cancelled":
                raise DeviceError(f"device {self.device!r}: job {self.job_id} was cancelled", sent=True)
            try:
                result = self.job.result()
            except Exception as error:
                raise device_error(self.device, f"job {self.job_id} failed", error, sent=True) from cause(error)
            if result is None:  # Braket returns None for a failed task
                raise DeviceError(f"device {self.device!r}: job {self.job_id} failed, without a result", sent=True)
            try:
                counts, shots = self.read(result, self.device, self.job_id, self.request)
                self._readout = readout_of_counts(counts, self.device, self.job_id, self.request, shots)
            except DeviceError:
                raise
            except Exception as error:  # a result of unexpected structure
                what = f"returned a result of job {self.job_id} that cannot be read"
                raise device_error(self.device, what, error, sent=True) from cause(error)
        return self._readout

    def _wait(self) -> str:
        """Wait until the job has ended and return its status.

        Return "" for a job of this process without a time limit: the vendor's ``result`` waits for it.
        """
        begun = time.monotonic()
        if not self.remote and self.timeout_s is None:
            return ""
        while (status := self.status()) not in FINAL_STATES:
            if self.timeout_s is not None and time.monotonic() - begun > self.timeout_s:
                raise DeviceError(
                    f"device {self.device!r}: job {self.job_id} was not done after timeout_s={self.timeout_s:g}; it "
                    "was not cancelled, and a run with the same checkpoint or journal takes its result",
                    sent=True,
                )
            time.sleep(self.poll_s)
        return status


class CompiledDevice(Device):
    """Base class of backends and vendors' machines. Subclasses implement `_send` and `_backend`.

    Each circuit is compiled once by Qiskit's preset pass manager. A batch is one job with all its bindings.

    Parameters
    ----------
    optimization_level : {0, 1, 2, 3}, default=1
        Of the preset pass manager.
    seed_transpiler : int, default=0
        Seed of layout and routing. Another seed may choose other qubits.
    timeout_s : float > 0, optional
        Seconds to wait for a job's result; by default without limit.
    check_bit_order : bool, default=False
        Before a circuit's first job, prepare basis states on its qubits and check that each bit is read from its own
        qubit. This takes two jobs of ⌈log₂(q + 1)⌉ circuits of 200 shots, which count towards a run's shots.

    Raises
    ------
    ProblemError
        An argument is out of range.
    """

    job_type: ClassVar[type[VendorJob]] = VendorJob
    #: Name of the vendor, for devices that need an account.
    vendor: ClassVar[str | None] = None

    def __init__(
        self,
        *,
        optimization_level: int = COMPILER_DEFAULTS["optimization_level"],
        seed_transpiler: int = COMPILER_DEFAULTS["seed_transpiler"],
        timeout_s: float | None = None,
        check_bit_order: bool = False,
    ) -> None:
        if optimization_level not in (0, 1, 2, 3):
            raise ProblemError(f"optimization_level={optimization_level!r} must be 0, 1, 2 or 3")
        if timeout_s is not None and not timeout_s > 0:
            raise ProblemError(f"timeout_s={timeout_s!r} must be > 0 seconds, or None to wait")
        self.optimization_level, self.seed_transpiler = optimization_level, seed_transpiler
        self.timeout_s, self.check_bit_order = timeout_s, check_bit_order
        self._compiled: dict[ParametricCircuit, QuantumCircuit] = {}
        self._bit_order_checked: set[ParametricCircuit] = set()
        self._jobs: OrderedDict[str, VendorJob] = OrderedDict()

    def _parts(self) -> dict[str, str]:
        """Return the parts of `configuration` that describe the machine, without the compiler's options."""
        return {}

    @property
    def configuration(self) -> dict[str, str]:
        compiler = {"optimization_level": self.optimization_level, "seed_transpiler": self.seed_transpiler}
        own = {name: str(value) for name, value in compiler.items() if value != COMPILER_DEFAULTS[name]}
        return self._parts() | own | super().configuration

    def _backend(self, n_qubits: int) -> Any:
        """Return the BackendV2 that circuits of a width are compiled for, or None for no particular gates."""
        raise NotImplementedError

    def _compiled_for(self, n_qubits: int) -> dict[str, Any]:
        """Return the pass manager's keyword arguments that describe the machine."""
        return {"backend": self._backend(n_qubits)}

    def _send(
        self, circuit: QuantumCircuit, bindings: dict[Any, NDArray], request: Request, tag: str, seed: int | None
    ) -> tuple[Any, str, Reader]:
        """Send a compiled circuit and return the vendor's job, its id and the function that reads its result.

        Parameters
        ----------
        circuit : QuantumCircuit
            A copy, which may be changed.
        bindings : dict of Parameter to array of shape (k,) or ()
        request : Request
        tag : str
        seed : int or None
        """
        raise NotImplementedError

    def compiled(self, circuit: ParametricCircuit) -> QuantumCircuit:
        """Return the circuit compiled to the backend's gates and qubits, with measurements; compiled once."""
        if circuit not in self._compiled:
            from qiskit.transpiler import generate_preset_pass_manager

            calibrated = circuit.of if isinstance(circuit, CalibrationCircuit) else None
            layout = None if calibrated is None else measured_on(self.compiled(calibrated))
            with device_errors(self.name, f"could not compile circuit {circuit.name!r}"):
                manager = generate_preset_pass_manager(
                    optimization_level=self.optimization_level,
                    seed_transpiler=self.seed_transpiler,
                    initial_layout=layout,
                    **self._compiled_for(circuit.n_qubits),
                )
                self._compiled[circuit] = manager.run(circuit.build().measure_all(inplace=False))
        return self._compiled[circuit]

    def _submit(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str, seed: int | None
    ) -> VendorJob:
        if self.wants_check(circuit):  # False in a run: its laboratory has already run and counted the check
            states, batches = basis_states(circuit)
            jobs = [
                self._run_unchecked(states, bindings, SHOTS_PER_STATE, "bit order", CHECK_SEED) for bindings in batches
            ]
            self.check_read(circuit, [job.result() for job in jobs])
        return self._run_unchecked(circuit, values, shots, tag, seed)

    def wants_check(self, circuit: ParametricCircuit) -> bool:
        return (
            self.check_bit_order
            and not isinstance(circuit, CalibrationCircuit)
            and circuit not in self._bit_order_checked
        )

    def check_read(self, circuit: ParametricCircuit, readouts: Sequence[Readout] | None) -> None:
        if readouts is not None:
            check_bit_order(self, circuit, readouts)
        self._bit_order_checked.add(circuit)

    def _run_unchecked(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str = "", seed: int | None = None
    ) -> VendorJob:
        assert shots is not None  # `check` has refused exact distributions
        self._check_limits(values.shape[0] if values.ndim == 2 else 1, shots)
        compiled, parameters = self.compiled(circuit).copy(), circuit.build().parameters
        angles = dict(
            zip((p.name for p in parameters), np.moveaxis(circuit.gate_parameters(values), -1, 0), strict=True)
        )
        bindings = {p: angles[p.name] for p in compiled.parameters}
        request = Request(circuit.n_qubits, values.shape[:-1], shots, _job_digest(circuit, values, shots, tag, seed))
        try:
            sent, job_id, read = self._send(compiled, bindings, request, tag, seed)
        except DeviceError:
            raise
        except Exception as error:  # vendors' libraries raise errors of any type
            may_be_sent = None if self.remote else False
            what = f"refused circuit {circuit.name!r}"
            raise device_error(self.name, what, error, sent=may_be_sent) from cause(error)
        return self._remember(self.job_type(self.name, sent, job_id, read, tag, request, self.timeout_s))

    def _check_limits(self, circuits: int, shots: int) -> None:
        limits, total = self.limits, circuits * shots
        for what, found, limit in (
            ("circuits", circuits, limits.circuits),
            ("shots a circuit", shots, limits.shots),
            ("circuits × shots", total, limits.executions),
        ):
            if limit is not None and found > limit:
                raise DeviceError(f"device {self.name!r} takes {limit} {what} in a job, found {found}; send fewer")

    def _remember(self, job: VendorJob) -> VendorJob:
        self._jobs[job.job_id] = job
        while len(self._jobs) > MAX_KEPT_JOBS:
            self._jobs.popitem(last=False)
        return job

    def fetch(self, job_id: str) -> VendorJob:
        """Return one of the last 256 jobs of this instance, or a job of any process that the vendor can find."""
        if job_id not in self._jobs:
            self._remember(self._retrieve(job_id))
        return self._jobs[job_id]

    def _retrieve(self, job_id: str) -> VendorJob:
        """Return a job that another process sent."""
        raise DeviceError(f"device {self.name!r} does not know job {job_id!r}; submit it again")

    def resources(self, circuit: ParametricCircuit) -> Resources:
        """Return the resources of the compiled circuit; only qubits that it acts on count."""
        compiled = self.compiled(circuit)
        return replace(resources.count(compiled), qubits=len(active_qubits(compiled)))

    def queue(self) -> str | None:
        """Return the length of the queue in words, from the vendor over the network; None if it is not known."""
        return None

    @classmethod
    def account(cls) -> str | None:
        """Return in words what is known of the vendor's account, without network; None if no account is needed."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        # Jobs may hold threads, which cannot be pickled. Compiling again gives the same circuits.
        return {**self.__dict__, "_compiled": {}, "_jobs": OrderedDict()}


def measured_on(compiled: QuantumCircuit) -> list[int]:
    """Return the backend's qubit that each classical bit of a compiled circuit is read from, in order of the bits."""
    found = {
        compiled.find_bit(instruction.clbits[0]).index: compiled.find_bit(instruction.qubits[0]).index
        for instruction in compiled.data
        if instruction.operation.name == "measure"
    }
    return [found[bit] for bit in sorted(found)]


def _job_digest(circuit: ParametricCircuit, values: NDArray, shots: int, tag: str, seed: int | None) -> str:
    """Return "df" and eight hexadecimal digits, a digest of what a job holds."""
    content = f"{circuit!r} {shots} {tag} {seed}".encode() + np.ascontiguousarray(values).tobytes()
    return f"df{hashlib.sha256(content).hexdigest()[:8]}"
