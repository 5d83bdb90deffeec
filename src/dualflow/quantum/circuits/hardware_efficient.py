"""The hardware-efficient ansatz: layers of RY on every qubit, separated by chains of CX."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...core.runtime.threads import cached_property
from ...exceptions import ProblemError
from .base import ParametricCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["HardwareEfficientCircuit"]


@dataclass(frozen=True)
class HardwareEfficientCircuit(ParametricCircuit):
    """RY on every qubit, then ``layers`` times a chain of CX (k → k+1) and RY on every qubit again.

    θ has shape ((layers + 1)·q,), layer by layer, qubit 0 first. The amplitudes are real, positive or negative. The
    entangling gate is CX, because with CZ the rank of ∂ψ/∂θ stays at q(q+1)/2 for any number of layers. With fewer
    angles than outcomes the circuit is a model of the distribution. From about 1.25·2^q angles it reaches every
    distribution, and optimisation does not get stuck.

    Parameters
    ----------
    n_qubits : int ≥ 1
    layers : int ≥ 0

    Examples
    --------
    >>> from dualflow.quantum.circuits import HardwareEfficientCircuit
    >>> circuit = HardwareEfficientCircuit(n_qubits=2, layers=1)
    >>> circuit.n_parameters, circuit.build().num_qubits
    (4, 2)
    """

    layers: int = 1
    family: ClassVar[str] = "hardware-efficient"
    purpose: ClassVar[str] = "a distribution with few angles"
    sent_by: ClassVar[str] = '`ansatz="hardware-efficient"`'
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("RY on each", ("q",)),
        ("l times: CX 0→1, 1→2, …; RY on each", ("q",)),
    )
    two_qubit_formula: ClassVar[str] = "l·(q − 1)"
    depth_formula: ClassVar[str] = "q + 1 + (l − 1)·min(q, 3)"
    formula_note: ClassVar[str] = "l ≥ 1 layers"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.layers, bool) or not isinstance(self.layers, (int, np.integer)) or self.layers < 0:
            raise ProblemError(f"layers={self.layers!r} must be an integer ≥ 0")

    @property
    def name(self) -> str:
        return f"{super().name}_l{self.layers}"

    @property
    def n_parameters(self) -> int:
        return (self.layers + 1) * self.n_qubits

    @property
    def sizes(self) -> dict[str, int]:
        return {"q": self.n_qubits, "l": self.layers}

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(1, 0), cls(2, 1), cls(3, 2), cls(4, 3), cls(8, 2))

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit

        theta = self.parameters("theta")
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        for layer in range(self.layers + 1):
            if layer:
                for k in range(self.n_qubits - 1):
                    circuit.cx(k, k + 1)
            for k in range(self.n_qubits):
                circuit.ry(theta[layer * self.n_qubits + k], k)
        return circuit

    def distribution(self, theta: ArrayLike) -> NDArray:
        theta = self.check_parameters(theta)
        return np.array([self._state(row) ** 2 for row in np.atleast_2d(theta)]).reshape(*theta.shape[:-1], -1)

    def shift_distributions(self, theta: ArrayLike) -> NDArray:
        """Return `ParametricCircuit.shift_distributions`, computed from ψ and ∂ψ/∂θ.

        RY(θ ± π/2) = (RY(θ) ± 2 RY′(θ))/√2, so that the shifted states are (ψ ± 2 ∂ψ/∂θ_k)/√2. This takes O(P² 2^q);
        evolving all shifted circuits takes O(P² 2^q q).
        """
        psi, tangents = self.state_and_tangents(theta)
        plus, minus = 0.5 * (psi + 2 * tangents) ** 2, 0.5 * (psi - 2 * tangents) ** 2
        return np.concatenate([(psi**2)[None], plus, minus])

    def state_and_tangents(self, theta: ArrayLike) -> tuple[NDArray, NDArray]:
        """Return ψ of shape (2^q,) and ∂ψ/∂θ of shape (P, 2^q); both are real."""
        angles = self.check_parameters(theta).reshape(self.layers + 1, self.n_qubits)
        outcomes, index = 2**self.n_qubits, np.arange(2**self.n_qubits)
        rows = np.zeros((1 + angles.size, outcomes))
        rows[0, 0], made = 1.0, 1
        for layer, layer_angles in enumerate(angles):
            entangled = np.take(rows[:made], self._before_chain, axis=1) if layer else rows[:made]
            rows[:made] = self._rotate(entangled, layer_angles)
            for k in range(self.n_qubits):
                # RY′ = −½ iY RY, and −iY maps (ψ₀, ψ₁) to (−ψ₁, ψ₀).
                rows[made] = np.where((index >> k) & 1, 0.5, -0.5) * rows[0, index ^ (1 << k)]
                made += 1
        return rows[0], rows[1:]

    def _state(self, theta: NDArray) -> NDArray:
        psi = np.zeros((1, 2**self.n_qubits))
        psi[0, 0] = 1.0
        for layer, layer_angles in enumerate(theta.reshape(self.layers + 1, self.n_qubits)):
            psi = self._rotate(psi[:, self._before_chain] if layer else psi, layer_angles)
        return psi[0]

    def _rotate(self, rows: NDArray, angles: NDArray) -> NDArray:
        """Return the states in ``rows`` after RY(angles[k]) on each qubit k, by two matrix products of size 2^(q/2)."""
        half = self.n_qubits // 2
        low, high = _product(angles[:half]), _product(angles[half:])
        rotated = (rows.reshape(-1, len(low)) @ low.T).reshape(len(rows), len(high), len(low))
        return np.matmul(high, rotated).reshape(rows.shape)

    @cached_property
    def _before_chain(self) -> NDArray:
        """Index of the basis state that the chain of CX maps to each basis state."""
        index = np.arange(2**self.n_qubits)
        after = index.copy()
        for k in range(self.n_qubits - 1):
            after ^= ((after >> k) & 1) << (k + 1)
        return np.argsort(after)


def _product(angles: NDArray) -> NDArray:
    """Return RY(angles[c−1]) ⊗ … ⊗ RY(angles[0]), little-endian, shape (2^c, 2^c)."""
    out = np.ones((1, 1))
    for angle in angles:
        c, s = np.cos(angle / 2), np.sin(angle / 2)
        # np.kron gives the same product, but takes a fifth of a step's time at ten qubits.
        out = (np.array([[c, -s], [s, c]])[:, None, :, None] * out[:, None, :]).reshape(2 * len(out), -1)
    return out
