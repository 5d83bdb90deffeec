"""Circuits as a fault-tolerant machine would run them: Clifford gates and T, rotations synthesised.

A rotation about Z by an angle that is no multiple of π/4 is approximated to ε by about 3 log₂(1/ε) T gates, without
ancillas (Ross and Selinger, "Optimal ancilla-free Clifford+T approximation of z-rotations", Quantum Inf. Comput. 16,
901 (2016), arXiv:1403.2975: the typical cost; lower-order terms are left out). Errors add up at most, so that each of
R rotations gets ε = error/R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .base import ParametricCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["SYNTHESIS_ERROR", "LogicalCounts", "logical_counts", "t_count"]

#: Of all rotations of a circuit together, in operator norm.
SYNTHESIS_ERROR = 1e-2
#: T gates a rotation and bit of precision.
T_A_BIT = 3.0
#: An angle so near to a multiple of π/4 is one.
ROUNDING = 1e-9


@dataclass(frozen=True)
class LogicalCounts:
    """A circuit in CX and one-qubit gates, every qubit next to every other.

    Attributes
    ----------
    qubits, cx : int
    depth : int
        In layers of CX, √X, X and rotations about Z.
    rotations : int
        About Z, by angles that are no multiples of π/4 or are parameters.
    t_gates : int
        T gates that stand in the circuit as they are.
    """

    qubits: int
    cx: int
    depth: int
    rotations: int
    t_gates: int


def logical_counts(circuit: ParametricCircuit) -> LogicalCounts:
    """Counts of a circuit written out in CX, RZ, √X and X, not optimised."""
    from qiskit import transpile

    plain: QuantumCircuit = transpile(circuit.build(), basis_gates=["cx", "rz", "sx", "x"], optimization_level=0)
    rotations = t_gates = 0
    for instruction in plain.data:
        if instruction.operation.name == "rz":
            (angle,) = instruction.operation.params
            eighths = None if _is_free(angle) else float(angle) / (math.pi / 4)
            if eighths is None or abs(eighths - round(eighths)) > ROUNDING:
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
    """T gates of a circuit whose rotations together may be ``error`` off."""
    if rotations <= 0:
        return round(t_gates)
    return round(t_gates + rotations * math.ceil(T_A_BIT * math.log2(max(rotations, 1.0) / error)))


def _is_free(angle: object) -> bool:
    return bool(getattr(angle, "parameters", None))
