"""What a circuit takes, counted on the circuit as it is run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["Resources", "count"]


@dataclass(frozen=True)
class Resources:
    """Qubits, depth in layers of gates, gates on two qubits or more, and free parameters; read-out not counted."""

    qubits: int
    depth: int
    two_qubit_gates: int
    parameters: int


def count(circuit: QuantumCircuit) -> Resources:
    """Resources of a (transpiled) Qiskit circuit; barriers and read-out instructions are no gates."""
    return Resources(
        qubits=circuit.num_qubits,
        depth=circuit.depth(lambda instruction: _is_gate(instruction.operation)),
        two_qubit_gates=sum(
            1 for instruction in circuit.data if len(instruction.qubits) > 1 and _is_gate(instruction.operation)
        ),
        parameters=circuit.num_parameters,
    )


def _is_gate(operation: object) -> bool:
    from qiskit.circuit import Gate

    return isinstance(operation, Gate)
