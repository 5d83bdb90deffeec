"""Counts of qubits, depth and gates of a circuit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["Resources", "count"]


@dataclass(frozen=True)
class Resources:
    """Qubits, depth in layers of gates, gates on two or more qubits, and free parameters; without the read-out."""

    qubits: int
    depth: int
    two_qubit_gates: int
    parameters: int


def count(circuit: QuantumCircuit) -> Resources:
    """Return the resources of a Qiskit circuit; barriers and measurements are not counted."""
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
