"""Simulate a machine with the errors of only those qubits that a circuit acts on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qiskit import QuantumCircuit
    from qiskit_aer import AerSimulator


def active_qubits(circuit: QuantumCircuit) -> frozenset[int]:
    """Return the indices of the qubits that a compiled circuit acts on."""
    return frozenset(
        circuit.find_bit(qubit).index
        for instruction in circuit.data
        if instruction.operation.name != "barrier"
        for qubit in instruction.qubits
    )


def simulator_of(backend: Any, qubits: frozenset[int]) -> AerSimulator:
    """Return an AerSimulator with a machine's gates and couplings, and the errors of some of its qubits.

    For circuits on these qubits, the counts at a seed are bit for bit those of ``AerSimulator.from_backend(backend)``.
    That simulator holds the noise of all qubits and processes it in every job, which takes seconds from 100 qubits on.

    Parameters
    ----------
    backend : qiskit.providers.BackendV2
    qubits : frozenset of int
        Qubits whose errors are simulated.
    """
    from qiskit.providers import BackendV2, Options
    from qiskit.transpiler import Target
    from qiskit_aer import AerSimulator

    full = backend.target
    part = Target(num_qubits=full.num_qubits, dt=full.dt, qubit_properties=full.qubit_properties)
    for name in full.operation_names:
        kept_errors = {at: known for at, known in (full[name] or {}).items() if at is not None and set(at) <= qubits}
        if kept_errors:  # operations without qubits, such as loops, have no errors
            part.add_instruction(full.operation_from_name(name), kept_errors, name=name)

    class Part(BackendV2):
        """The machine as `AerSimulator.from_backend` reads it."""

        target, coupling_map, max_circuits = part, backend.coupling_map, None

        @classmethod
        def _default_options(cls) -> Options:
            return Options()

        def run(self, run_input: Any, **options: Any) -> Any:
            raise NotImplementedError

    return AerSimulator.from_backend(Part(name=backend.name))
