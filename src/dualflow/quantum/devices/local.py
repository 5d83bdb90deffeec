"""Base class of devices that run in this process: `submit` runs the job, and recent jobs are kept for `fetch`."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from ..circuits import ParametricCircuit
from .base import Device, Job, Readout
from .readouts import Request, check_readout

#: Jobs that a local device keeps.
MAX_KEPT_JOBS = 256
#: Bytes of the distributions of all kept jobs; the last job is kept whatever its size.
MAX_KEPT_BYTES = 2**26


@dataclass(frozen=True)
class LocalJob(Job):
    """A job that has ended, with its read-out."""

    job_id: str
    tag: str
    readout: Readout

    def done(self) -> bool:
        return True

    def result(self) -> Readout:
        return self.readout


@dataclass(frozen=True)
class Rates:
    """Speed of a simulator on one core, measured on tree circuits (2026-11); within a factor of three elsewhere."""

    build_s: float  # seconds to build and compile a gate, once for each circuit
    #: gate_s, number_s: seconds of a gate, and of it for each number of the simulator's state.
    gate_s: float
    number_s: float
    gate_bytes: float  # memory of a compiled gate
    base: int = 2  # the state has base^q numbers: 2 for amplitudes, 4 for density matrices


class LocalDevice(Device):
    """Base class of simulators and controls. Subclasses implement `_run` and, if they compile circuits, `_compile`."""

    seeded: bool = True

    def __init__(self) -> None:
        self._compiled: dict[ParametricCircuit, Any] = {}
        self._jobs: OrderedDict[str, LocalJob] = OrderedDict()
        self._kept_bytes = 0  # of the distributions of all kept jobs

    def _run(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, seed: int
    ) -> tuple[NDArray, NDArray | None]:
        """Return probabilities and counts (None if exact), both (k, 2^q) and little-endian, for values (k, P)."""
        raise NotImplementedError

    def _compile(self, circuit: ParametricCircuit) -> Any:
        """Return the object that `_run` needs for a circuit and that does not depend on its parameters."""
        raise NotImplementedError

    def compiled(self, circuit: ParametricCircuit) -> Any:
        """Return `_compile` of a circuit, computed once for each instance."""
        if circuit not in self._compiled:
            self._compiled[circuit] = self._compile(circuit)
        return self._compiled[circuit]

    def _submit(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str, seed: int | None
    ) -> LocalJob:
        if seed is None:
            seed = int(np.random.default_rng().integers(2**31))
        probabilities, counts = self._run(circuit, np.atleast_2d(values), shots, seed)
        # The id is a digest of the content, so that the same job has the same id in every run.
        content = f"{self.name} {circuit!r} {shots} {seed if shots else ''} {tag}".encode() + values.tobytes()
        job_id = f"local-{hashlib.sha256(content).hexdigest()[:20]}"
        readout = Readout(probabilities, counts, shots, "little", job_id)
        request = Request(circuit.n_qubits, np.shape(values)[:-1], shots)
        job = LocalJob(job_id, tag, check_readout(readout, self.name, request))
        if (known := self._jobs.pop(job_id, None)) is not None:
            self._kept_bytes -= known.readout.probabilities.nbytes
        self._jobs[job_id] = job
        self._kept_bytes += job.readout.probabilities.nbytes
        while len(self._jobs) > MAX_KEPT_JOBS or (len(self._jobs) > 1 and self._kept_bytes > MAX_KEPT_BYTES):
            self._kept_bytes -= self._jobs.popitem(last=False)[1].readout.probabilities.nbytes
        return job

    @property
    def rates(self) -> Rates | None:
        """Speed of the simulator; None if it is not known."""
        return None

    def simulation(self, circuit: ParametricCircuit, circuits: int) -> tuple[float, float] | None:
        if (rates := self.rates) is None:
            return None
        gates, numbers = circuit.build().size() if rates.gate_bytes else 0, rates.base**circuit.n_qubits
        seconds = rates.build_s * gates + circuits * max(1, gates) * (rates.gate_s + rates.number_s * numbers)
        # Complex amplitudes, and a read-out kept as probabilities and counts.
        return seconds, rates.gate_bytes * gates + 16.0 * numbers + 16.0 * 2**circuit.n_qubits

    def fetch(self, job_id: str) -> LocalJob:
        """Return one of the last 256 jobs of this instance."""
        if job_id not in self._jobs:
            raise DeviceError(
                f"device {self.name!r} does not know job {job_id!r}: a simulator keeps the last {MAX_KEPT_JOBS} jobs "
                "of its own process; submit it again"
            )
        return self._jobs[job_id]

    def __getstate__(self) -> dict[str, Any]:
        # Compiled circuits and simulators may not be picklable, and making them again is fast.
        return {**self.__dict__, "_compiled": {}, "_jobs": OrderedDict(), "_kept_bytes": 0}
