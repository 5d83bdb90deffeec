"""The tree ansatz: a binary tree of splits that represents every distribution over 2^q outcomes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from .base import ParametricCircuit
from .encoding import angles_to_simplex, node_masses
from .multiplexer import multiplex_angles, multiplexed_ry

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["TreeCircuit"]


@dataclass(frozen=True)
class TreeCircuit(ParametricCircuit):
    """The state |ψ⟩ = Σ √μᵢ(θ) |i⟩ with 2^q − 1 angles θ in heap order, and μ(θ) by `encoding.angles_to_simplex`.

    This holds for θ in [0, π]; other angles change signs of amplitudes.

    Level l of the tree is one RY on qubit q−1−l, multiplexed by the l qubits above it. Each multiplexer is 2^l
    RY and 2^l CX in Gray-code order (Möttönen, Vartiainen, Bergholm, Salomaa, PRL 93, 130502 (2004)), so that the
    circuit has 2^q − 1 RY and exactly 2^q − 2 CX. There are as many angles as unknowns: it is a classical
    parametrisation of the simplex, run on qubits.

    Examples
    --------
    >>> from dualflow.quantum.circuits import TreeCircuit
    >>> circuit = TreeCircuit(n_qubits=3)
    >>> circuit.n_parameters, circuit.build().num_qubits
    (7, 3)
    """

    family: ClassVar[str] = "tree"
    purpose: ClassVar[str] = "any distribution over 2^q indices"
    sent_by: ClassVar[str] = "`variational-flow`, `quantum-invasion`"
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("RY on the top qubit", ("q",)),
        ("RY on the next one, by the bits above; … down to qubit 0", ("q",)),
    )
    two_qubit_formula: ClassVar[str] = "2^q − 2"
    depth_formula: ClassVar[str] = "2^(q + 1) − q − 2"

    @property
    def n_parameters(self) -> int:
        return 2**self.n_qubits - 1

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(1), cls(2), cls(3), cls(4), cls(8))

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit

        phi = self.parameters("phi")
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        for level in range(self.n_qubits):
            target, nodes = self.n_qubits - 1 - level, range(2**level - 1, 2 ** (level + 1) - 1)
            multiplexed_ry(circuit, [phi[k] for k in nodes], target, range(target + 1, self.n_qubits))
        return circuit

    def gate_parameters(self, theta: ArrayLike) -> NDArray:
        """Return φ, shape (…, P): `multiplex_angles` of θ, level by level."""
        theta = self.check_parameters(theta)
        levels = [theta[..., 2**level - 1 : 2 ** (level + 1) - 1] for level in range(self.n_qubits)]
        return np.concatenate([multiplex_angles(angles) for angles in levels], axis=-1)

    @property
    def ends(self) -> tuple[NDArray, tuple[int, ...]]:
        return np.outer([0.0, np.pi], np.ones(self.n_parameters)), tuple(range(self.n_qubits))

    def distribution(self, theta: ArrayLike) -> NDArray:
        return angles_to_simplex(self.check_parameters(theta))

    def tangents(self, pi: NDArray) -> scipy.sparse.csr_array:
        """Return ∂π/∂θ, shape (N, N−1), sparse with q entries in each row, from a distribution π.

        Under node k, with masses m_l and m_r of its children, ∂πᵢ/∂θ_k = πᵢ √(m_l/m_r) on the right and
        −πᵢ √(m_r/m_l) on the left. For θ_k in [0, π] this equals ½[π(θ_k + π/2) − π(θ_k − π/2)] and needs no further
        circuits.
        """
        nodes, entries = self._tangent_entries(pi)
        rows = np.arange(len(pi) + 1) * self.n_qubits
        shape = (len(pi), self.n_parameters)
        return scipy.sparse.csr_array((entries.T.ravel(), nodes.T.ravel(), rows), shape=shape)

    def dense_tangents(self, pi: NDArray) -> NDArray:
        """Return `tangents` as an array, which is faster for few outcomes."""
        nodes, entries = self._tangent_entries(pi)
        found = np.zeros((len(pi), self.n_parameters))
        found[np.arange(len(pi)), nodes] = entries
        return found

    def _tangent_entries(self, pi: NDArray) -> tuple[NDArray, NDArray]:
        """Return the nodes above each outcome and the entries of `tangents` there, both of shape (q, N)."""
        masses, leaf, level = node_masses(pi), np.arange(len(pi)), np.arange(self.n_qubits)[:, None]
        nodes = (1 << level) - 1 + (leaf >> (self.n_qubits - level))
        left, right = masses[2 * nodes + 1], masses[2 * nodes + 2]
        goes_right = ((leaf >> (self.n_qubits - 1 - level)) & 1) == 1
        same, other = np.where(goes_right, right, left), np.where(goes_right, left, right)
        ratio = np.divide(other, same, out=np.zeros_like(same), where=same > np.finfo(float).tiny)
        return nodes, np.where(goes_right, pi, -pi) * np.sqrt(ratio)
