"""The circuit of differentiable quantum circuits: a Chebyshev feature map followed by hardware-efficient layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...exceptions import ProblemError
from .base import ParametricCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["ChebyshevCircuit"]


@dataclass(frozen=True)
class ChebyshevCircuit(ParametricCircuit):
    """RY(feature angle) on every qubit, then layers of RY on every qubit and a line of CX (0→1, 1→2, …).

    The parameter vector holds the q feature angles, then the q·layers variational angles, layer by layer. `angles` sets
    qubit k's feature angle to (k + 1)χ with χ = arccos x, the tower map of Kyriienko, Paine, Elfving (PRA 103, 052416
    (2021), section II B) without their factor 2: with this factor only even powers of cos χ and sin χ occur, and a
    linear function of x is not in the span. Expectation values are trigonometric polynomials in χ of degree q(q + 1)/2,
    with the Chebyshev polynomials T_k(x) = cos kχ among their terms.

    Parameters
    ----------
    n_qubits : int ≥ 1
    layers : int ≥ 1

    Examples
    --------
    >>> from dualflow.quantum.circuits import ChebyshevCircuit
    >>> circuit = ChebyshevCircuit(n_qubits=2)
    >>> circuit.n_parameters, circuit.build().num_qubits
    (4, 2)
    """

    layers: int = 1
    family: ClassVar[str] = "chebyshev"
    purpose: ClassVar[str] = "a curve over time, as an expectation value"
    sent_by: ClassVar[str] = "`variational-dqc`"
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("RY((k + 1)χ) on each k", ("q",)),
        ("l times: RY on each; CX 0→1, 1→2, …", ("q",)),
    )
    two_qubit_formula: ClassVar[str] = "l·(q − 1)"
    depth_formula: ClassVar[str] = "q + 1 + (l − 1)·min(q, 3)"
    formula_note: ClassVar[str] = "l layers"

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.layers, bool) or not isinstance(self.layers, (int, np.integer)) or self.layers < 1:
            raise ProblemError(f"layers={self.layers!r} must be an integer ≥ 1")

    @property
    def name(self) -> str:
        return f"{self.family}_q{self.n_qubits}_l{self.layers}"

    @property
    def n_parameters(self) -> int:
        return self.n_qubits * (1 + self.layers)

    @property
    def sizes(self) -> dict[str, int]:
        return {"q": self.n_qubits, "l": self.layers}

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(2, 1), cls(3, 2), cls(4, 3)

    @property
    def n_angles(self) -> int:
        """Number of variational angles."""
        return self.n_qubits * self.layers

    @property
    def frequencies(self) -> NDArray:
        """Feature angles divided by χ, qubit by qubit: 1, 2, …, q."""
        return np.arange(1, self.n_qubits + 1)

    @property
    def degree(self) -> int:
        """Degree in χ of every expectation value: q(q + 1)/2."""
        return int(self.frequencies.sum())

    def angles(self, chi: ArrayLike, theta: ArrayLike) -> NDArray:
        """Return parameter vectors, shape (b·k, q + P), for ``theta`` (b, P) and ``chi`` (k,): for each θ all χ."""
        chi, theta = np.asarray(chi, dtype=float), np.atleast_2d(np.asarray(theta, dtype=float))
        features = np.tile(chi[:, None] * self.frequencies, (len(theta), 1))
        return np.hstack([features, np.repeat(theta, len(chi), axis=0)])

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit

        angle = self.parameters("theta")
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        for layer in range(self.layers + 1):
            for qubit in range(self.n_qubits):
                circuit.ry(angle[layer * self.n_qubits + qubit], qubit)
            if layer:
                for qubit in range(self.n_qubits - 1):
                    circuit.cx(qubit, qubit + 1)
        return circuit

    def distribution(self, theta: ArrayLike) -> NDArray:
        theta = self.check_parameters(theta)
        q, half = self.n_qubits, 0.5 * theta[..., None]
        cos, sin, index = np.cos(half), np.sin(half), np.arange(2**q)
        psi = np.zeros((*theta.shape[:-1], 2**q))
        psi[..., 0] = 1.0
        for layer in range(self.layers + 1):
            for qubit in range(q):
                k, flipped = layer * q + qubit, psi[..., index ^ (1 << qubit)]
                sign = np.where(index >> qubit & 1, 1.0, -1.0)
                psi = cos[..., k, :] * psi + sin[..., k, :] * sign * flipped
            if layer:
                for qubit in range(q - 1):
                    psi = psi[..., index ^ ((index >> qubit & 1) << (qubit + 1))]
        return psi**2
