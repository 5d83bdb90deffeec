"""Devices that run circuits on any Qiskit BackendV2 through its own ``run`` method, and read counts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...exceptions import DeviceError
from .base import Capabilities, Device, Limits
from .compiled import CompiledDevice, Reader
from .identity import backend_parts, instance_of
from .noise import ONE_QUBIT_GATES, TWO_QUBIT_GATES
from .readouts import Request, counts_of_result

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

#: Seed of the gate errors of "backend:generic".
GENERIC_SEED = 0
#: Widest circuit of "backend:generic"; its simulator cannot hold more qubits.
MAX_GENERIC_QUBITS = 20
#: Operations of a target that are not gates.
NON_GATES = ("measure", "reset", "delay", "barrier", "if_else", "for_loop", "while_loop", "switch_case", "break_loop",
            "continue_loop", "unitary", "initialize", "save_state")  # fmt: skip


class BackendDevice(CompiledDevice):
    """A Qiskit backend, used through its own ``run``. It gives counts only.

    A batch is one job of bound circuits. Counts are read, not the shot-by-shot memory: from backends that keep none,
    Qiskit's sampler over backends reads zeros without an error (Qiskit #15694).

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
        ``backend`` is not a BackendV2.
    """

    requires: ClassVar[tuple[str, ...]] = ("qiskit",)
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=None)

    def __init__(self, backend: Any, **options: Any) -> None:
        super().__init__(**options)
        self.backend = backend
        self._read_backend(backend)

    def _read_backend(self, backend: Any) -> None:
        """Set the name, capabilities and limits from the backend."""
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
            if not names <= {*ONE_QUBIT_GATES, *TWO_QUBIT_GATES, *NON_GATES}:
                # The backend's basis is all gates of Aer, and Qiskit does not route gates of three qubits along
                # couplings: compile to gates of one and two qubits.
                return {
                    "basis_gates": sorted(names & {*ONE_QUBIT_GATES, *TWO_QUBIT_GATES}),
                    "coupling_map": backend.coupling_map,
                }
        return super()._compiled_for(n_qubits)

    def _run_options(self, backend: Any, seed: int | None) -> dict[str, Any]:
        """Return options of ``run`` in addition to the shots: the seed, if the backend accepts one."""
        return {"seed_simulator": seed} if seed is not None and hasattr(backend.options, "seed_simulator") else {}

    def _send(
        self, circuit: QuantumCircuit, bindings: dict[Any, NDArray], request: Request, tag: str, seed: int | None
    ) -> tuple[Any, str, Reader]:
        backend, circuits = self._backend(request.n_qubits), []
        for k in range(request.rows):
            row = {p: float(np.atleast_1d(values)[k]) for p, values in bindings.items()}
            circuits.append(circuit.assign_parameters(row))
            circuits[-1].name = f"{request.mark}-{k}"
        sent = backend.run(circuits, shots=request.shots, **self._run_options(backend, seed))
        return sent, str(sent.job_id()), counts_of_result


class GenericBackendDevice(BackendDevice):
    """A synthetic noisy machine (Qiskit's GenericBackendV2) with as many qubits as the circuit."""

    name = "backend:generic"
    requires: ClassVar[tuple[str, ...]] = ("qiskit", "qiskit_aer")
    capabilities = Capabilities(exact=False, sampled=True, noisy=True, qubits=MAX_GENERIC_QUBITS)
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

    def _read_backend(self, backend: Any) -> None:
        pass  # backends are made when a circuit's width is known

    def _backend(self, n_qubits: int) -> Any:
        from qiskit.providers.fake_provider import GenericBackendV2

        width = max(2, n_qubits)  # the backend's CX needs two qubits
        if width not in self.backend:
            self.backend[width] = GenericBackendV2(width, noise_info=True, seed=GENERIC_SEED)
        return self.backend[width]
