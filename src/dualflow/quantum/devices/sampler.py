"""Anything with the interface of Qiskit's V2 samplers."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

from numpy.typing import NDArray

from ...exceptions import DeviceError
from .base import Capabilities
from .compiled import CompiledDevice, Reader
from .draws import generators_of, reseed
from .identity import backend_parts, digest, vars_digest
from .readouts import MARK, Asked, counts_of_sampler

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["SamplerDevice"]


class SamplerDevice(CompiledDevice):
    """A sampler of Qiskit's V2 interface, known by what it does: ``run(pubs, shots=…)``, then ``result()``.

    A batch is one PUB with all its bindings. The sampler is not seeded: its own options do that. In place of a random
    generator that it holds, each job has one of its own, which that one's state, the run's seed and the job decide.

    Parameters
    ----------
    sampler : object with ``run(pubs, shots=…)``
        Its job has ``job_id()``, ``status()`` and ``result()``, and its result, PUB by PUB, ``data`` with a BitArray.
    backend : qiskit.providers.BackendV2, optional
        What circuits are compiled for; by default the sampler's own, or, where it has none, no gates in particular.
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
                "give its backend as the device: device=sampler.backend"
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

    def _seeded(self, circuit: QuantumCircuit, tag: str, seed: int | None, asked: Asked) -> Any:
        """The sampler for a job of a compiled circuit.

        A sampler that holds a random generator draws by one of the job's own: copies of the sampler, as searches make
        them for each of their fits, would all draw the same numbers.
        """
        if not (states := generators_of(self.sampler)):
            return self.sampler
        own = copy.copy(self.sampler)
        reseed(own, states, f"{asked.mark} {seed}")
        return own

    def _send(
        self, circuit: QuantumCircuit, bindings: dict[Any, NDArray], asked: Asked, tag: str, seed: int | None
    ) -> tuple[Any, str, Reader]:
        circuit.metadata = {**(circuit.metadata or {}), MARK: asked.mark}
        assert asked.shots is not None  # the capabilities say so
        sent = self._seeded(circuit, tag, seed, asked).run([(circuit, bindings, asked.shots)], shots=asked.shots)
        return sent, str(sent.job_id()), counts_of_sampler


def _own_backend(sampler: Any) -> Any:
    """The backend that a sampler runs on, under one of the names that vendors use for it."""
    found = getattr(sampler, "backend", None)
    if callable(found):
        found = found()
    return getattr(sampler, "_backend", None) if found is None else found
