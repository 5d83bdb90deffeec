"""Quantum Hamiltonian descent: a wave packet on a grid whose mass grows while it rolls down the objective."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...core.options import option
from ...exceptions import ProblemError
from .base import COUNT
from .split_step import SplitStepCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["QHDCircuit"]

#: The schedule is 2/(START + t³) on the kinetic term: finite at t = 0.
START = 1e-3


@dataclass(frozen=True)
class QHDCircuit(SplitStepCircuit):
    """H(t) = 2/(10⁻³ + t³)·(−Δ/2) + 2t³·V by Strang steps (Leng, Hickman, Li, Wu, arXiv:2303.01471, eq. 1).

    ``bits`` qubits a variable: a grid of 2^bits points on the unit interval, periodic. Its Fourier modes k = 2πj,
    −2^(bits−1) ≤ j < 2^(bits−1), have the energy k²/2: the inverse QFT, a quadratic in the bits (RZ and RZZ), and the
    QFT. At one qubit a variable that is H·RZ·H = RX. V is quadratic in the bits, θ its Ising coefficients: RZ and
    RZZ.

    Parameters
    ----------
    n_qubits : int ≥ 1
        bits × variables; variable i on qubits i·bits … (i+1)·bits − 1, its lowest bit first.
    trotter_steps : int ≥ 1
    total_time : float > 0
    bits : int ≥ 1
        A divisor of ``n_qubits``.
    """

    bits: int = option(1, COUNT)  # type: ignore[misc]
    family: ClassVar[str] = "qhd"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_qubits % self.bits:
            raise ProblemError(f"n_qubits={self.n_qubits} must be a multiple of bits={self.bits}")

    @property
    def name(self) -> str:
        return f"{super().name}_b{self.bits}_s{self.trotter_steps}"

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(1, 2), cls(2, 3), cls(3, 2), cls(4, 3, bits=2), cls(6, 1, bits=3), cls(8, 4))

    def rates(self, t: NDArray) -> tuple[NDArray, NDArray]:
        return 2.0 / (START + t**3), 2.0 * t**3

    def energies(self) -> NDArray:
        # fftfreq orders the modes 0, 1, …, −1 as the Fourier index counts them.
        return 2.0 * np.pi**2 * np.fft.fftfreq(2**self.bits, 2.0**-self.bits) ** 2

    @property
    def _kinetic_cx(self) -> int:
        if self.bits == 1:
            return 0
        return self.n_qubits // self.bits * self._kinetic(1.0).decompose("rzz").count_ops()["cx"]

    def _kinetic(self, time: float) -> QuantumCircuit:
        if self.bits == 1:
            return super()._kinetic(time)
        from qiskit import QuantumCircuit, transpile
        from qiskit.circuit.library import PauliEvolutionGate, QFTGate
        from qiskit.quantum_info import SparsePauliOp
        from qiskit.synthesis import LieTrotter

        # k = 2π Σ cᵢ bᵢ with c = 1, 2, …, −2^(bits−1), b = (1 − Z)/2: k²/2 is a quadratic in Z, all of it diagonal.
        c = 2.0 ** np.arange(self.bits)
        c[-1] *= -1.0
        terms = [("Z", [i], -(np.pi**2) * c[i] * c.sum()) for i in range(self.bits)]
        terms += [("ZZ", [i, j], np.pi**2 * c[i] * c[j]) for i in range(self.bits) for j in range(i + 1, self.bits)]
        energy = SparsePauliOp.from_sparse_list(terms, self.bits)
        circuit, register = QuantumCircuit(self.bits), range(self.bits)
        circuit.append(QFTGate(self.bits).inverse(), register)
        circuit.append(PauliEvolutionGate(energy, time=time, synthesis=LieTrotter()), register)
        circuit.append(QFTGate(self.bits), register)
        return transpile(circuit, basis_gates=["h", "rz", "rzz", "cx"], optimization_level=0)
