"""Read-out calibration: every qubit in 0, or every qubit in 1."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .base import ParametricCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["CalibrationCircuit"]


@dataclass(frozen=True)
class CalibrationCircuit(ParametricCircuit):
    """RY(θ) on every qubit: θ = 0 prepares every qubit in 0, θ = π in 1. One angle, no entangling gate.

    Parameters
    ----------
    n_qubits : int ≥ 1
    of : ParametricCircuit, optional
        The circuit whose read-out is calibrated: a device with qubits to choose from takes those that ``of`` is
        measured on, qubit by qubit.
    """

    of: ParametricCircuit | None = None
    family: ClassVar[str] = "calibration"

    @property
    def n_parameters(self) -> int:
        return 1

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit
        from qiskit.circuit import ParameterVector

        (theta,) = ParameterVector("theta", 1)
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        for k in range(self.n_qubits):
            circuit.ry(theta, k)
        return circuit

    def distribution(self, theta: ArrayLike) -> NDArray:
        half = 0.5 * self.check_parameters(theta)
        ones = np.bitwise_count(np.arange(2**self.n_qubits))
        distribution: NDArray = np.sin(half) ** (2 * ones) * np.cos(half) ** (2 * (self.n_qubits - ones))
        return distribution
