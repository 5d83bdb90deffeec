"""A simulator of some qubits of a machine: the noise of all others is none of a circuit's that leaves them alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qiskit import QuantumCircuit
    from qiskit_aer import AerSimulator

__all__ = ["simulator_of", "touched"]


def touched(circuit: QuantumCircuit) -> frozenset[int]:
    """Indices of the qubits that a compiled circuit acts on."""
    return frozenset(
        circuit.find_bit(qubit).index
        for instruction in circuit.data
        if instruction.operation.name != "barrier"
        for qubit in instruction.qubits
    )


def simulator_of(backend: Any, qubits: frozenset[int]) -> AerSimulator:
    """Aer with a machine's gates and couplings, and the errors of those of its qubits.

    Counts at a seed are those of ``AerSimulator.from_backend(backend)``, to the bit, for circuits on these qubits. That
    one makes the noise of all qubits, and takes it through every job: seconds a job, from 100 qubits on.

    Parameters
    ----------
    backend : qiskit.providers.BackendV2
    qubits : frozenset of int
    """
    from qiskit.providers import BackendV2, Options
    from qiskit.transpiler import Target
    from qiskit_aer import AerSimulator

    whole = backend.target
    part = Target(num_qubits=whole.num_qubits, dt=whole.dt, qubit_properties=whole.qubit_properties)
    for name in whole.operation_names:
        here = {at: known for at, known in (whole[name] or {}).items() if at is not None and set(at) <= qubits}
        if here:  # what has no qubits of its own, such as a loop, has no errors
            part.add_instruction(whole.operation_from_name(name), here, name=name)

    class Part(BackendV2):
        """The machine, as a simulator is made from it."""

        target, coupling_map, max_circuits = part, backend.coupling_map, None

        @classmethod
        def _default_options(cls) -> Options:
            return Options()

        def run(self, run_input: Any, **options: Any) -> Any:
            raise NotImplementedError

    return AerSimulator.from_backend(Part(name=backend.name))
