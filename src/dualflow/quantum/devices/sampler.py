"""A device that runs circuits on any object with the interface of Qiskit's V2 samplers."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from ...exceptions import DeviceError
from .base import Capabilities
from .compiled import CompiledDevice, Reader
from .identity import backend_parts, digest, vars_digest
from .readouts import MARK_KEY, Request, counts_of_sampler
from .user_generators import generators_of, reseed

if TYPE_CHECKING:
    from qiskit import QuantumCircuit


class SamplerDevice(CompiledDevice):
    """A sampler with Qiskit's V2 interface: ``run(pubs, shots=…)``, whose job has ``result()``.

    A batch is one PUB with all its bindings. The sampler is seeded through its own options only. If it holds a random
    generator, each job uses a new generator, seeded by the state of that one, the run's seed and the job.

    Parameters
    ----------
    sampler : object with ``run(pubs, shots=…)``
        Its job has ``job_id()``, ``status()`` and ``result()``; each PUB of the result has ``data`` with a BitArray.
    backend : qiskit.providers.BackendV2, optional
        The backend that circuits are compiled for; by default the sampler's own. Without either, circuits are compiled
        to no particular gates.
    optimization_level, seed_transpiler, timeout_s, check_bit_order
        See `CompiledDevice`.

    Raises
    ------
    ProblemError
        An argument is out of range.
    DeviceError
        ``sampler`` has no ``run``, or is Qiskit's BackendSamplerV2.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit",)
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=None)

    def __init__(self, sampler: Any, backend: Any = None, **options: Any) -> None:
        super().__init__(**options)
        from qiskit.primitives import BackendSamplerV2

        if not callable(getattr(sampler, "run", None)):
            raise DeviceError(f"sampler must have a method run(pubs, shots=…), found {type(sampler).__name__}")
        if isinstance(sampler, BackendSamplerV2):
            raise DeviceError(
                "BackendSamplerV2 reads zeros, without an error, from backends that keep no memory (Qiskit #15694); "
                "use its backend as the device: device=sampler.backend"
            )
        self.sampler, self.backend = sampler, _own_backend(sampler) if backend is None else backend
        self.name = f"sampler:{getattr(self.backend, 'name', None) or type(sampler).__name__}"
        self.capabilities = replace(self.capabilities, qubits=getattr(self.backend, "num_qubits", None))

    def _parts(self) -> dict[str, str]:
        machine = {} if self.backend is None else backend_parts(self.backend)
        return machine | {"sampler": digest(f"{vars_digest(self.sampler)} {generators_of(self.sampler)}")}

    @property
    def shared(self) -> Any:
        return self.sampler if self.backend is None else self.backend

    def _backend(self, n_qubits: int) -> Any:
        return self.backend

    def _sampler_for(self, circuit: QuantumCircuit, tag: str, seed: int | None, request: Request) -> Any:
        """Return the sampler for a job of a compiled circuit.

        If the sampler holds a random generator, return a copy with a new generator for this job. Otherwise copies of
        the sampler, as a search makes them for each fit, would all draw the same numbers.
        """
        if not (states := generators_of(self.sampler)):
            return self.sampler
        job_sampler = copy.copy(self.sampler)
        reseed(job_sampler, states, f"{request.mark} {seed}")
        return job_sampler

    def _send(
        self, circuit: QuantumCircuit, bindings: dict[Any, NDArray], request: Request, tag: str, seed: int | None
    ) -> tuple[Any, str, Reader]:
        circuit.metadata = {**(circuit.metadata or {}), MARK_KEY: request.mark}
        assert request.shots is not None  # `check` has refused exact distributions
        sent = self._sampler_for(circuit, tag, seed, request).run(
            [(circuit, bindings, request.shots)], shots=request.shots
        )
        return sent, str(sent.job_id()), counts_of_sampler


def _own_backend(sampler: Any) -> Any:
    """Return the backend that a sampler runs on, from the attributes that vendors use for it; None if it has none."""
    found = getattr(sampler, "backend", None)
    if callable(found):
        found = found()
    return getattr(sampler, "_backend", None) if found is None else found
