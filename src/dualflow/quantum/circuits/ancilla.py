"""The box encoding: a uniform index register and an ancilla that rotates by a separate angle for each index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import ProblemError
from .base import ParametricCircuit
from .multiplexer import multiplex_angles, multiplexed_ry

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["AncillaCircuit"]


@dataclass(frozen=True)
class AncillaCircuit(ParametricCircuit):
    """The state |ψ⟩ = 2^(−(q−1)/2) Σᵢ |i⟩ (cos θᵢ/2 |0⟩ + sin θᵢ/2 |1⟩) with the ancilla on the last qubit, q−1.

    P(1|i) = sin² θᵢ/2 is computed from both outcomes of the ancilla, without post-selection. The circuit has 2^(q−1)
    angles and as many RY and CX: it is a classical parametrisation of the box, run on qubits. Outcome
    i + 2^(q−1)·ancilla.

    Parameters
    ----------
    n_qubits : int ≥ 2
        Including the ancilla.

    Examples
    --------
    >>> from dualflow.quantum.circuits import AncillaCircuit
    >>> circuit = AncillaCircuit(n_qubits=3)
    >>> circuit.n_parameters, circuit.build().num_qubits
    (4, 3)
    """

    family: ClassVar[str] = "ancilla"
    purpose: ClassVar[str] = "box weights αᵢ/uᵢ as P(1 | i) of an ancilla"
    sent_by: ClassVar[str] = "`hamiltonian-dilation`, `variational-lotka-volterra`"
    registers: ClassVar[tuple[tuple[str, str], ...]] = (("index", "q − 1"), ("anc", "1"))
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("H on each", ("index",)),
        ("RY(θᵢ) if index = i", ("index", "anc")),
    )
    two_qubit_formula: ClassVar[str] = "2^(q − 1)"
    depth_formula: ClassVar[str] = "2^q"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_qubits < 2:
            raise ProblemError(f"n_qubits={self.n_qubits!r} must be ≥ 2: an index and an ancilla")

    @property
    def n_parameters(self) -> int:
        return 2 ** (self.n_qubits - 1)

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(2), cls(3), cls(4), cls(8))

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit

        phi, index = self.parameters("phi"), range(self.n_qubits - 1)
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        circuit.h(index)
        multiplexed_ry(circuit, phi, self.n_qubits - 1, index)
        return circuit

    def gate_parameters(self, theta: ArrayLike) -> NDArray:
        """Return φ, shape (…, P): `multiplex_angles` of θ."""
        return multiplex_angles(self.check_parameters(theta))

    @property
    def ends(self) -> tuple[NDArray, tuple[int, ...]]:
        return np.outer([0.0, np.pi], np.ones(self.n_parameters)), (self.n_qubits - 1,)

    def distribution(self, theta: ArrayLike) -> NDArray:
        half = 0.5 * self.check_parameters(theta)
        return np.concatenate([np.cos(half) ** 2, np.sin(half) ** 2], axis=-1) / self.n_parameters
