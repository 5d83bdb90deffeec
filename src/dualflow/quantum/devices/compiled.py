"""Devices with gates and couplings of their own: compiled once, sent as one batch, read by their vendor's job."""

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
from ..circuits import CalibrationCircuit, ParametricCircuit, resources
from ..circuits.resources import Resources
from .base import Device, Job, Readout
from .bit_order import SEED, SHOTS, basis_states, check_bit_order
from .guard import translated
from .part import touched
from .readouts import Asked, readout_of_counts
from .vendor_errors import cause, device_error

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["CompiledDevice", "VendorJob", "measured_on"]

#: Jobs a device remembers.
REMEMBERED = 256
#: How circuits are compiled unless it is said otherwise.
COMPILER = {"optimization_level": 1, "seed_transpiler": 0}
#: What vendors call a job's states; an unknown word is a job that runs.
STATES = {
    "INITIALIZING": "queued", "INITIALIZED": "queued", "CREATED": "queued", "VALIDATING": "queued", "QUEUED": "queued",
    "RUNNING": "running", "DONE": "done", "COMPLETED": "done", "ERROR": "failed", "FAILED": "failed",
    "CANCELLED": "cancelled", "CANCELLING": "cancelled",
}  # fmt: skip
FINAL = ("done", "failed", "cancelled")

#: Counts and shots of a vendor's result, with what was asked for if that is known.
Reader = Callable[[Any, str, str, "Asked | None"], "tuple[NDArray, int]"]


class VendorJob(Job):
    """A job of a vendor's library.

    Parameters
    ----------
    device : str
    job : object with ``status()`` (or ``state()``), ``result()`` and ``cancel()``
    job_id : str
    read : Reader
    tag : str
    asked : Asked, optional
        None for a job that another process sent.
    timeout_s : float, optional
    """

    def __init__(
        self,
        device: str,
        job: Any,
        job_id: str,
        read: Reader,
        tag: str = "",
        asked: Asked | None = None,
        timeout_s: float | None = None,
    ) -> None:
        self.device, self.job, self.job_id, self.tag = device, job, job_id, tag
        self.read, self.asked, self.timeout_s = read, asked, timeout_s
        self._readout: Readout | None = None

    remote: ClassVar[bool] = False  # its vendor is asked how it is, every `poll_s`

    def status(self) -> str:
        if self._readout is not None:
            return "done"
        try:
            state = self.job.status() if hasattr(self.job, "status") else self.job.state()
        except Exception as error:  # vendors raise whatever they like
            raise device_error(self.device, f"could not tell of job {self.job_id}", error, sent=True) from cause(error)
        return STATES.get(str(getattr(state, "name", state)).upper(), "running")

    def done(self) -> bool:
        return self.status() in FINAL

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
            if result is None:  # Braket's way to say so
                raise DeviceError(f"device {self.device!r}: job {self.job_id} failed, without a result", sent=True)
            try:
                counts, shots = self.read(result, self.device, self.job_id, self.asked)
                self._readout = readout_of_counts(counts, self.device, self.job_id, self.asked, shots)
            except DeviceError:
                raise
            except Exception as error:  # a result that is built in another way than it should be
                what = f"gave back what cannot be read, of job {self.job_id}"
                raise device_error(self.device, what, error, sent=True) from cause(error)
        return self._readout

    def _wait(self) -> str:
        """Its last state; a job of this process with no time limit is not looked at, but waited for by its result."""
        begun = time.monotonic()
        if not self.remote and self.timeout_s is None:
            return ""
        while (status := self.status()) not in FINAL:
            if self.timeout_s is not None and time.monotonic() - begun > self.timeout_s:
                raise DeviceError(
                    f"device {self.device!r}: job {self.job_id} was not done after timeout_s={self.timeout_s:g}; it is "
                    "still there, and a run with the same checkpoint or journal goes on from it",
                    sent=True,
                )
            time.sleep(self.poll_s)
        return status


class CompiledDevice(Device):
    """Base class of backends and vendors' machines: subclasses give `_send` and say what to compile for.

    Each circuit is compiled once, by Qiskit's preset pass manager, and a batch is one job with all its bindings.

    Parameters
    ----------
    optimization_level : {0, 1, 2, 3}, default=1
        Of the preset pass manager.
    seed_transpiler : int, default=0
        Of layout and routing: another seed, other qubits.
    timeout_s : float > 0, optional
        Seconds a job is waited for.
    check_bit_order : bool, default=False
        Before a circuit's first job, prepare basis states on its qubits and see that each is read where it belongs:
        two jobs of ⌈log₂(q + 1)⌉ circuits of 200 shots, which a run counts.

    Raises
    ------
    ProblemError
        An argument is out of range.
    """

    job_type: ClassVar[type[VendorJob]] = VendorJob
    #: Whose machines they are, where an account is wanted.
    vendor: ClassVar[str | None] = None

    def __init__(
        self,
        *,
        optimization_level: int = COMPILER["optimization_level"],
        seed_transpiler: int = COMPILER["seed_transpiler"],
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
        self._ordered: set[ParametricCircuit] = set()
        self._jobs: OrderedDict[str, VendorJob] = OrderedDict()

    def _parts(self) -> dict[str, str]:
        """The `configuration` without the compiler: what tells the machine from others of its name."""
        return {}

    @property
    def configuration(self) -> dict[str, str]:
        compiler = {"optimization_level": self.optimization_level, "seed_transpiler": self.seed_transpiler}
        own = {name: str(value) for name, value in compiler.items() if value != COMPILER[name]}
        return self._parts() | own | super().configuration

    def _backend(self, n_qubits: int) -> Any:
        """What circuits of a width are compiled for: a BackendV2, or None for no gates in particular."""
        raise NotImplementedError

    def _compiled_for(self, n_qubits: int) -> dict[str, Any]:
        """What the pass manager is to compile for, by its argument."""
        return {"backend": self._backend(n_qubits)}

    def _send(
        self, circuit: QuantumCircuit, bindings: dict[Any, NDArray], asked: Asked, tag: str, seed: int | None
    ) -> tuple[Any, str, Reader]:
        """Send a compiled circuit whose parameters take arrays of shape (k,) or (): the vendor's job, its id, how to
        read it. The circuit is a copy that may be changed."""
        raise NotImplementedError

    def compiled(self, circuit: ParametricCircuit) -> QuantumCircuit:
        """The circuit in the backend's gates on its qubits, read-out included; made once."""
        if circuit not in self._compiled:
            from qiskit.transpiler import generate_preset_pass_manager

            like = circuit.of if isinstance(circuit, CalibrationCircuit) else None
            layout = None if like is None else measured_on(self.compiled(like))
            with translated(self.name, f"could not compile circuit {circuit.name!r}"):
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
        if self.wants_check(circuit):  # a laboratory has seen to it, and booked it
            states, batches = basis_states(circuit)
            jobs = [self._run_unchecked(states, bindings, SHOTS, "bit order", SEED) for bindings in batches]
            self.check_read(circuit, [job.result() for job in jobs])
        return self._run_unchecked(circuit, values, shots, tag, seed)

    def wants_check(self, circuit: ParametricCircuit) -> bool:
        return self.check_bit_order and not isinstance(circuit, CalibrationCircuit) and circuit not in self._ordered

    def check_read(self, circuit: ParametricCircuit, readouts: Sequence[Readout] | None) -> None:
        if readouts is not None:
            check_bit_order(self, circuit, readouts)
        self._ordered.add(circuit)

    def _run_unchecked(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str = "", seed: int | None = None
    ) -> VendorJob:
        assert shots is not None  # the capabilities say so
        self._check_limits(values.shape[0] if values.ndim == 2 else 1, shots)
        compiled, parameters = self.compiled(circuit).copy(), circuit.build().parameters
        angles = dict(
            zip((p.name for p in parameters), np.moveaxis(circuit.gate_parameters(values), -1, 0), strict=True)
        )
        bindings = {p: angles[p.name] for p in compiled.parameters}
        asked = Asked(circuit.n_qubits, values.shape[:-1], shots, _mark(circuit, values, shots, tag, seed))
        try:
            sent, job_id, read = self._send(compiled, bindings, asked, tag, seed)
        except DeviceError:
            raise
        except Exception as error:  # vendors raise whatever they like
            unsure = None if self.remote else False
            raise device_error(self.name, f"refused circuit {circuit.name!r}", error, sent=unsure) from cause(error)
        return self._kept(self.job_type(self.name, sent, job_id, read, tag, asked, self.timeout_s))

    def _check_limits(self, circuits: int, shots: int) -> None:
        limits, total = self.limits, circuits * shots
        for what, found, most in (
            ("circuits", circuits, limits.circuits),
            ("shots a circuit", shots, limits.shots),
            ("circuits × shots", total, limits.executions),
        ):
            if most is not None and found > most:
                raise DeviceError(f"device {self.name!r} takes {most} {what} in a job, found {found}; send fewer")

    def _kept(self, job: VendorJob) -> VendorJob:
        self._jobs[job.job_id] = job
        while len(self._jobs) > REMEMBERED:
            self._jobs.popitem(last=False)
        return job

    def fetch(self, job_id: str) -> VendorJob:
        """A job of this instance, of which the last 256 are remembered; or of any process, where the vendor has it."""
        if job_id not in self._jobs:
            self._kept(self._retrieve(job_id))
        return self._jobs[job_id]

    def _retrieve(self, job_id: str) -> VendorJob:
        """A job that another process sent."""
        raise DeviceError(f"device {self.name!r} does not know job {job_id!r}; submit it again")

    def resources(self, circuit: ParametricCircuit) -> Resources:
        """Of the compiled circuit; its qubits are those that are acted on, not all the backend has."""
        compiled = self.compiled(circuit)
        return replace(resources.count(compiled), qubits=len(touched(compiled)))

    def queue(self) -> str | None:
        """How long the queue is, in words; None where nobody says. It asks the vendor."""
        return None

    @classmethod
    def account(cls) -> str | None:
        """What is known, without network, of the account that a vendor wants; None where none is needed."""
        return None

    def __getstate__(self) -> dict[str, Any]:
        # Threads cannot be pickled, and compiling again gives the same circuits.
        return {**self.__dict__, "_compiled": {}, "_jobs": OrderedDict()}


def measured_on(compiled: QuantumCircuit) -> list[int]:
    """The backend's qubit that each classical bit of a compiled circuit is read from."""
    found = {
        compiled.find_bit(instruction.clbits[0]).index: compiled.find_bit(instruction.qubits[0]).index
        for instruction in compiled.data
        if instruction.operation.name == "measure"
    }
    return [found[bit] for bit in sorted(found)]


def _mark(circuit: ParametricCircuit, values: NDArray, shots: int, tag: str, seed: int | None) -> str:
    """Eight hexadecimal digits that tell a job from others by what it holds."""
    content = f"{circuit!r} {shots} {tag} {seed}".encode() + np.ascontiguousarray(values).tobytes()
    return f"df{hashlib.sha256(content).hexdigest()[:8]}"
