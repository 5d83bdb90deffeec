"""The tree ansatz: a binary tree of splits, every distribution over 2^q outcomes reached exactly once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from ..encoding import angles_to_simplex, node_masses
from .base import ParametricCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["TreeCircuit"]


@dataclass(frozen=True)
class TreeCircuit(ParametricCircuit):
    """2^q − 1 angles θ in heap order; |ψ⟩ = Σ √μᵢ(θ) |i⟩ with `encoding.angles_to_simplex` (for θ in [0, π]).

    Level l of the tree is one RY on qubit q−1−l, multiplexed by the l qubits above it. Each multiplexer is 2^l
    RY and 2^l CX in Gray-code order (Möttönen, Vartiainen, Bergholm, Salomaa, PRL 93, 130502 (2004)), so the
    whole has 2^q − 1 RY and exactly 2^q − 2 CX. As many angles as unknowns: a classical parametrisation of the
    simplex, run on qubits.
    """

    family: ClassVar[str] = "tree"

    @property
    def n_parameters(self) -> int:
        return 2**self.n_qubits - 1

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit
        from qiskit.circuit import ParameterVector

        phi = ParameterVector("phi", self.n_parameters)
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        for level in range(self.n_qubits):
            target, width = self.n_qubits - 1 - level, 2**level
            for k in range(width):
                circuit.ry(phi[width - 1 + k], target)
                if level:
                    # The bit in which the k-th and the next Gray code differ; the last one closes the cycle.
                    changed = min(_trailing_zeros(k + 1), level - 1)
                    circuit.cx(target + 1 + changed, target)
        return circuit

    def gate_parameters(self, theta: ArrayLike) -> NDArray:
        """φ, shape (…, P): within each level φ_k = 2^−l Σ_j (−1)^(j·gray(k)) θ_j, the bits' inner product."""
        theta = self.check_parameters(theta)
        phi = np.empty_like(theta)
        for level in range(self.n_qubits):
            width = 2**level
            at = slice(width - 1, 2 * width - 1)
            gray = np.arange(width) ^ (np.arange(width) >> 1)
            phi[..., at] = _walsh(theta[..., at])[..., gray] / width
        return phi

    def distribution(self, theta: ArrayLike) -> NDArray:
        return angles_to_simplex(self.check_parameters(theta))

    def tangents(self, pi: NDArray) -> scipy.sparse.csr_array:
        """dP = ∂π/∂θ, shape (N, N−1), sparse with q entries a row, from a distribution π alone.

        Under node k, with masses m_l and m_r of its children, ∂πᵢ/∂θ_k = πᵢ √(m_l/m_r) on the right and
        −πᵢ √(m_r/m_l) on the left: for θ_k in [0, π] the same as ½[π(θ_k + π/2) − π(θ_k − π/2)], without the
        two further circuits an angle.
        """
        n_leaves = len(pi)
        masses, leaf = node_masses(pi), np.arange(n_leaves)
        nodes, values = [], []
        for level in range(self.n_qubits):
            node = 2**level - 1 + (leaf >> (self.n_qubits - level))
            left, right = masses[2 * node + 1], masses[2 * node + 2]
            goes_right = ((leaf >> (self.n_qubits - 1 - level)) & 1) == 1
            here, there = np.where(goes_right, right, left), np.where(goes_right, left, right)
            ratio = np.sqrt(np.divide(there, here, out=np.zeros(n_leaves), where=here > np.finfo(float).tiny))
            nodes.append(node)
            values.append(np.where(goes_right, pi, -pi) * ratio)
        rows = np.arange(n_leaves + 1) * self.n_qubits
        columns, entries = np.stack(nodes, axis=1).ravel(), np.stack(values, axis=1).ravel()
        return scipy.sparse.csr_array((entries, columns, rows), shape=(n_leaves, self.n_parameters))


def _trailing_zeros(k: int) -> int:
    return (k & -k).bit_length() - 1


def _walsh(values: NDArray) -> NDArray:
    """Walsh-Hadamard transform Σ_j (−1)^(i·j) v_j over the last axis, whose length is a power of two."""
    width = values.shape[-1]
    out, half = values.copy(), 1
    while half < width:
        pairs = out.reshape(*values.shape[:-1], width // (2 * half), 2, half)
        out = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2)
        out = out.reshape(values.shape)
        half *= 2
    return out
