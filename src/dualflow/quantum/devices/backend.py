"""Any Qiskit BackendV2: circuits compiled to its gates and couplings, and counts by a V2 sampler."""

from __future__ import annotations

import importlib
import time
from collections import OrderedDict
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError, ProblemError
from ..circuits import CalibrationCircuit, ParametricCircuit, resources
from ..circuits.resources import Resources
from .base import Capabilities, Device, Job, Readout

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["BackendDevice", "BackendJob", "GenericBackendDevice", "imported_backend"]

#: Jobs a device remembers.
REMEMBERED = 256
#: Seed of the errors of "backend:generic", and its most qubits: more than that its simulator cannot hold.
GENERIC_SEED, GENERIC_QUBITS = 0, 20
#: Seconds between two looks at a job that is waited for with a time limit.
POLL_S = 0.02


class BackendJob(Job):
    """A job of a V2 sampler."""

    def __init__(self, device: str, job: Any, tag: str, shape: tuple[int, ...], shots: int, timeout_s: float | None):
        self.device, self.job, self.tag, self.job_id = device, job, tag, str(job.job_id())
        self.shape, self.shots, self.timeout_s = shape, shots, timeout_s
        self._readout: Readout | None = None

    def done(self) -> bool:
        return bool(self.job.in_final_state())

    def result(self) -> Readout:
        if self._readout is None:
            self._wait()
            try:
                (measured,) = self.job.result()[0].data.values()
            except Exception as error:  # vendors raise whatever they like
                how = "was cancelled" if self.job.cancelled() else "failed"
                raise DeviceError(f"device {self.device!r}: job {self.job_id} {how} ({error})") from error
            # Bytes of a shot, the most significant first, whatever the shape of the batch.
            bytes_ = measured.array.reshape(-1, self.shots, measured.array.shape[-1]).astype(np.int64)
            outcomes = bytes_ @ (256 ** np.arange(bytes_.shape[-1])[::-1])
            counts = np.array([np.bincount(row, minlength=self.shape[-1]) for row in outcomes]).reshape(self.shape)
            self._readout = Readout(counts / self.shots, counts, self.shots, "little", self.job_id)
        return self._readout

    def _wait(self) -> None:
        begun = time.monotonic()
        while self.timeout_s is not None and not self.done():
            if time.monotonic() - begun > self.timeout_s:
                raise DeviceError(
                    f"device {self.device!r}: job {self.job_id} was not done after timeout_s={self.timeout_s:g}; it is "
                    "still there, and a run with the same checkpoint or journal goes on from it"
                )
            time.sleep(POLL_S)


class BackendDevice(Device):
    """A Qiskit backend behind ``qiskit.primitives.BackendSamplerV2``: counts only.

    Each circuit is compiled once, and a batch is one PUB with all its bindings. Jobs run in a thread of this
    process and are known to this device only, whatever the backend calls its own.

    Parameters
    ----------
    backend : qiskit.providers.BackendV2
    optimization_level : {0, 1, 2, 3}, default=1
        Of the preset pass manager.
    seed_transpiler : int, default=0
    timeout_s : float > 0, optional
        Seconds a job is waited for.

    Raises
    ------
    ProblemError
        An argument is out of range.
    DeviceError
        ``backend`` is no BackendV2.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit",)
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=None)

    @classmethod
    def named(cls, name: str) -> Device:
        return imported_backend(name.removeprefix("backend:"))

    def __init__(
        self, backend: Any, *, optimization_level: int = 1, seed_transpiler: int = 0, timeout_s: float | None = None
    ) -> None:
        if optimization_level not in (0, 1, 2, 3):
            raise ProblemError(f"optimization_level={optimization_level!r} must be 0, 1, 2 or 3")
        if timeout_s is not None and not timeout_s > 0:
            raise ProblemError(f"timeout_s={timeout_s!r} must be > 0 seconds, or None to wait")
        self.backend, self.timeout_s = backend, timeout_s
        self.optimization_level, self.seed_transpiler = optimization_level, seed_transpiler
        self._compiled: dict[ParametricCircuit, QuantumCircuit] = {}
        self._jobs: OrderedDict[str, BackendJob] = OrderedDict()
        self._take(backend)

    def _take(self, backend: Any) -> None:
        from qiskit.providers import BackendV2

        if not isinstance(backend, BackendV2):
            raise DeviceError(f"backend must be an instance of qiskit.providers.BackendV2, found {backend!r}")
        self.name = f"backend:{backend.name}"
        self.capabilities = replace(self.capabilities, qubits=backend.num_qubits)

    def _backend(self, n_qubits: int) -> Any:
        """The backend for circuits of a width."""
        return self.backend

    def compiled(self, circuit: ParametricCircuit) -> QuantumCircuit:
        """The circuit in the backend's gates on its qubits, read-out included; made once."""
        if circuit not in self._compiled:
            from qiskit.exceptions import QiskitError
            from qiskit.transpiler import generate_preset_pass_manager

            like = circuit.of if isinstance(circuit, CalibrationCircuit) else None
            manager = generate_preset_pass_manager(
                optimization_level=self.optimization_level,
                backend=self._backend(circuit.n_qubits),
                seed_transpiler=self.seed_transpiler,
                initial_layout=None if like is None else measured_on(self.compiled(like)),
            )
            try:
                self._compiled[circuit] = manager.run(circuit.build().measure_all(inplace=False))
            except QiskitError as error:
                raise DeviceError(
                    f"device {self.name!r}: circuit {circuit.name!r} could not be compiled for it ({error})"
                ) from error
        return self._compiled[circuit]

    def _submit(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str, seed: int | None
    ) -> BackendJob:
        from qiskit.primitives import BackendSamplerV2

        assert shots is not None  # the capabilities say so
        compiled, parameters = self.compiled(circuit), circuit.build().parameters
        angles = dict(
            zip((p.name for p in parameters), np.moveaxis(circuit.gate_parameters(values), -1, 0), strict=True)
        )
        bindings = {p: angles[p.name] for p in compiled.parameters}
        sampler = BackendSamplerV2(backend=self._backend(circuit.n_qubits), options={"seed_simulator": seed})
        try:
            sent = sampler.run([(compiled, bindings, shots)])
        except Exception as error:  # vendors raise whatever they like
            raise DeviceError(f"device {self.name!r} refused circuit {circuit.name!r}: {error}") from error
        shape = (*values.shape[:-1], 2**circuit.n_qubits)
        job = BackendJob(self.name, sent, tag, shape, shots, self.timeout_s)
        self._jobs[job.job_id] = job
        while len(self._jobs) > REMEMBERED:
            self._jobs.popitem(last=False)
        return job

    def fetch(self, job_id: str) -> BackendJob:
        """A job of this instance; the last 256 are remembered."""
        if job_id not in self._jobs:
            raise DeviceError(f"device {self.name!r} does not know job {job_id!r}; submit it again")
        return self._jobs[job_id]

    def resources(self, circuit: ParametricCircuit) -> Resources:
        """Of the compiled circuit; its qubits are those that are acted on, not all the backend has."""
        compiled = self.compiled(circuit)
        touched = {q for i in compiled.data if i.operation.name != "barrier" for q in i.qubits}
        return replace(resources.count(compiled), qubits=len(touched))

    def __getstate__(self) -> dict[str, Any]:
        # Threads cannot be pickled, and compiling again gives the same circuits.
        return {**self.__dict__, "_compiled": {}, "_jobs": OrderedDict()}


class GenericBackendDevice(BackendDevice):
    """A made-up noisy machine (Qiskit's GenericBackendV2), as wide as the circuit needs."""

    name = "backend:generic"
    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=GENERIC_QUBITS)

    @classmethod
    def named(cls, name: str) -> Device:
        return cls()

    def __init__(
        self, *, optimization_level: int = 1, seed_transpiler: int = 0, timeout_s: float | None = None
    ) -> None:
        options = {"optimization_level": optimization_level, "seed_transpiler": seed_transpiler}
        super().__init__({}, timeout_s=timeout_s, **options)

    def _take(self, backend: Any) -> None:
        pass  # made when a circuit's width is known

    def _backend(self, n_qubits: int) -> Any:
        from qiskit.providers.fake_provider import GenericBackendV2

        width = max(2, n_qubits)  # its CX needs two
        if width not in self.backend:
            self.backend[width] = GenericBackendV2(width, noise_info=True, seed=GENERIC_SEED)
        return self.backend[width]


def measured_on(compiled: QuantumCircuit) -> list[int]:
    """The backend's qubit that each classical bit of a compiled circuit is read from."""
    found = {
        compiled.find_bit(instruction.clbits[0]).index: compiled.find_bit(instruction.qubits[0]).index
        for instruction in compiled.data
        if instruction.operation.name == "measure"
    }
    return [found[bit] for bit in sorted(found)]


def imported_backend(path: str) -> BackendDevice:
    """The backend that "<module>:<factory>" makes, called without arguments.

    Raises
    ------
    DeviceError
        The module cannot be imported, has no such factory, or the factory fails or makes something else.
    """
    module, _, factory = path.rpartition(":")
    name = f"device='backend:{path}'"
    try:
        make = getattr(importlib.import_module(module), factory)
    except ImportError as error:
        raise DeviceError(f"{name}: module {module!r} cannot be imported ({error})") from error
    except AttributeError:
        raise DeviceError(f"{name}: module {module!r} has no {factory!r}") from None
    try:
        backend = make()
    except Exception as error:  # a factory of the user's
        raise DeviceError(f"{name}: {factory}() failed ({type(error).__name__}: {error})") from error
    return BackendDevice(backend)
