"""The calibration circuit: prepares each qubit in 0 or 1, without entangling gates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .base import ParametricCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["CalibrationCircuit"]


@dataclass(frozen=True)
class CalibrationCircuit(ParametricCircuit):
    """RY(θ_k) on every qubit k without entangling gates: the angle 0 prepares 0, the angle π prepares 1.

    Parameters
    ----------
    n_qubits : int ≥ 1
    of : ParametricCircuit, optional
        The circuit whose read-out is calibrated. A device that chooses qubits uses those on which ``of`` is measured,
        qubit by qubit.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow.quantum.circuits import CalibrationCircuit
    >>> circuit = CalibrationCircuit(n_qubits=2)
    >>> circuit.distribution(np.array([0.0, np.pi])).round(6).ravel()  # 0 on qubit 0, 1 on qubit 1
    array([0., 0., 1., 0.])
    """

    of: ParametricCircuit | None = None
    family: ClassVar[str] = "calibration"
    purpose: ClassVar[str] = "all 0, all 1 and basis states"
    sent_by: ClassVar[str] = "checks of devices, `mitigation=`"
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (("RY(θₖ) on each qubit k", ("q",)),)
    two_qubit_formula: ClassVar[str] = "0"
    depth_formula: ClassVar[str] = "1"

    @property
    def n_parameters(self) -> int:
        return self.n_qubits

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return tuple(cls(n_qubits) for n_qubits in (1, 2, 4))

    def _build(self) -> QuantumCircuit:
        from qiskit import QuantumCircuit

        theta = self.parameters("theta")
        circuit = QuantumCircuit(self.n_qubits, name=self.name)
        for k in range(self.n_qubits):
            circuit.ry(theta[k], k)
        return circuit

    def all_zeros_and_ones(self) -> NDArray:
        """Return the two bindings of a calibration, shape (2, q): every qubit in 0, and every qubit in 1."""
        return np.outer([0.0, np.pi], np.ones(self.n_qubits))

    @property
    def ends(self) -> tuple[NDArray, tuple[int, ...]]:
        return self.all_zeros_and_ones(), tuple(range(self.n_qubits))

    def distribution(self, theta: ArrayLike) -> NDArray:
        half = 0.5 * self.check_parameters(theta)
        out = np.ones((*half.shape[:-1], 1))
        for k in range(self.n_qubits):
            angle = half[..., k, None]
            out = np.concatenate([out * np.cos(angle) ** 2, out * np.sin(angle) ** 2], axis=-1)
        return out
