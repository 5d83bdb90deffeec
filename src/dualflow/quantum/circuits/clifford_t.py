"""Gate counts of circuits on a fault-tolerant machine: Clifford gates and T, with synthesised rotations.

A rotation about Z by an angle that is not a multiple of π/4 is approximated to ε by about 3 log₂(1/ε) T gates, without
ancillas (Ross and Selinger, "Optimal ancilla-free Clifford+T approximation of z-rotations", Quantum Inf. Comput. 16,
901 (2016), arXiv:1403.2975: the typical cost without lower-order terms). The error of the circuit is at most the sum
of all errors, so that each of R rotations gets ε = error/R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .base import ParametricCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["SYNTHESIS_ERROR", "LogicalCounts", "logical_counts", "t_count"]

#: Error of all rotations of a circuit together, in operator norm.
SYNTHESIS_ERROR = 1e-2
#: T gates of a rotation for each bit of precision.
T_GATES_PER_BIT = 3.0
#: An angle counts as a multiple of π/4 if it differs from it by at most this share of π/4.
MULTIPLE_TOL = 1e-9


@dataclass(frozen=True)
class LogicalCounts:
    """Counts of a circuit in CX and one-qubit gates, with couplings between all qubits."""

    qubits: int
    cx: int
    depth: int  # layers of CX, √X, X and rotations about Z
    rotations: int  # rotations about Z by parameters or by angles that are not multiples of π/4
    t_gates: int  # T gates without synthesis: rotations by odd multiples of π/4


def logical_counts(circuit: ParametricCircuit) -> LogicalCounts:
    """Return the counts of a circuit decomposed into CX, RZ, √X and X without optimisation."""
    from qiskit import transpile

    plain: QuantumCircuit = transpile(circuit.build(), basis_gates=["cx", "rz", "sx", "x"], optimization_level=0)
    rotations = t_gates = 0
    for instruction in plain.data:
        if instruction.operation.name == "rz":
            (angle,) = instruction.operation.params
            eighths = None if _is_free(angle) else float(angle) / (math.pi / 4)
            if eighths is None or abs(eighths - round(eighths)) > MULTIPLE_TOL:
                rotations += 1
            else:
                t_gates += round(eighths) % 2
    return LogicalCounts(
        qubits=plain.num_qubits,
        cx=plain.count_ops().get("cx", 0),
        depth=plain.depth(lambda instruction: instruction.operation.name != "barrier"),
        rotations=rotations,
        t_gates=t_gates,
    )


def t_count(rotations: float, t_gates: float = 0, error: float = SYNTHESIS_ERROR) -> int:
    """Return the T gates of a circuit whose rotations together have at most the given error."""
    if rotations <= 0:
        return round(t_gates)
    return round(t_gates + rotations * math.ceil(T_GATES_PER_BIT * math.log2(max(rotations, 1.0) / error)))


def _is_free(angle: object) -> bool:
    return bool(getattr(angle, "parameters", None))
