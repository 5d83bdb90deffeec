"""Any Qiskit BackendV2: circuits compiled to its gates and couplings, and counts by its own ``run``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from .base import Capabilities, Device, Limits
from .compiled import CompiledDevice, Reader, measured_on
from .identity import backend_parts, instance_of
from .noise import ONE_QUBIT, TWO_QUBITS
from .readouts import Asked, counts_of_result

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["BackendDevice", "GenericBackendDevice", "measured_on"]

#: Seed of the errors of "backend:generic", and its most qubits: more than that its simulator cannot hold.
GENERIC_SEED, GENERIC_QUBITS = 0, 20
#: Operations of a target that are no gates.
NO_GATES = ("measure", "reset", "delay", "barrier", "if_else", "for_loop", "while_loop", "switch_case", "break_loop",
            "continue_loop", "unitary", "initialize", "save_state")  # fmt: skip


class BackendDevice(CompiledDevice):
    """A Qiskit backend by its own ``run``: counts only.

    A batch is one job of its bound circuits. Counts are read, never memory: Qiskit's sampler over backends reads zeros,
    without an error, from those that keep none (Qiskit #15694).

    Parameters
    ----------
    backend : qiskit.providers.BackendV2
    optimization_level, seed_transpiler, timeout_s, check_bit_order
        See `CompiledDevice`.

    Raises
    ------
    ProblemError
        An argument is out of range.
    DeviceError
        ``backend`` is no BackendV2.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit",)
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=None)

    def __init__(self, backend: Any, **options: Any) -> None:
        super().__init__(**options)
        self.backend = backend
        self._take(backend)

    def _take(self, backend: Any) -> None:
        from qiskit.providers import BackendV2

        if not isinstance(backend, BackendV2):
            raise DeviceError(f"backend must be an instance of qiskit.providers.BackendV2, found {backend!r}")
        self.name = f"backend:{backend.name}"
        self.seeded = hasattr(backend.options, "seed_simulator")
        coupled = backend.num_qubits if backend.coupling_map is None else backend.coupling_map.size()
        self.capabilities = replace(self.capabilities, qubits=min(backend.num_qubits, coupled))
        self.limits = Limits(circuits=backend.max_circuits)

    def _parts(self) -> dict[str, str]:
        return backend_parts(self.backend)

    @property
    def shared(self) -> Any:
        return self.backend

    def _backend(self, n_qubits: int) -> Any:
        return self.backend

    def _compiled_for(self, n_qubits: int) -> dict[str, Any]:
        backend = self._backend(n_qubits)
        if instance_of(backend, "qiskit_aer", "AerSimulator") and backend.coupling_map is not None:
            names = set(backend.operation_names)
            if not names <= {*ONE_QUBIT, *TWO_QUBITS, *NO_GATES}:
                # Its basis is all of Aer's gates, and Qiskit routes none of three qubits along couplings.
                return {
                    "basis_gates": sorted(names & {*ONE_QUBIT, *TWO_QUBITS}),
                    "coupling_map": backend.coupling_map,
                }
        return super()._compiled_for(n_qubits)

    def _run_options(self, backend: Any, seed: int | None) -> dict[str, Any]:
        """Options of ``run`` beside the shots: the seed, if the backend is a simulator that takes one."""
        return {"seed_simulator": seed} if seed is not None and hasattr(backend.options, "seed_simulator") else {}

    def _send(
        self, circuit: QuantumCircuit, bindings: dict[Any, NDArray], asked: Asked, tag: str, seed: int | None
    ) -> tuple[Any, str, Reader]:
        backend, circuits = self._backend(asked.n_qubits), []
        for k in range(asked.rows):
            row = {p: float(np.atleast_1d(values)[k]) for p, values in bindings.items()}
            circuits.append(circuit.assign_parameters(row))
            circuits[-1].name = f"{asked.mark}-{k}"
        sent = backend.run(circuits, shots=asked.shots, **self._run_options(backend, seed))
        return sent, str(sent.job_id()), counts_of_result


class GenericBackendDevice(BackendDevice):
    """A made-up noisy machine (Qiskit's GenericBackendV2), as wide as the circuit needs."""

    name = "backend:generic"
    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=GENERIC_QUBITS)
    seeded: bool = True

    @classmethod
    def named(cls, name: str) -> Device:
        return cls()

    def __init__(self, **options: Any) -> None:
        super().__init__({}, **options)

    def _parts(self) -> dict[str, str]:
        return {}

    @property
    def shared(self) -> Any:
        return self

    def _take(self, backend: Any) -> None:
        pass  # made when a circuit's width is known

    def _backend(self, n_qubits: int) -> Any:
        from qiskit.providers.fake_provider import GenericBackendV2

        width = max(2, n_qubits)  # its CX needs two
        if width not in self.backend:
            self.backend[width] = GenericBackendV2(width, noise_info=True, seed=GENERIC_SEED)
        return self.backend[width]
