"""Quantum Hamiltonian descent: a wave packet of growing mass moves to the minimum on a grid, until a stopping time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...core.options import option
from ...exceptions import ProblemError
from .base import COUNT_RULE, POSITIVE_RULE
from .split_step import SplitStepCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["QHDCircuit"]

#: Time at which the descent begins, as a share of its stopping time. Earlier, the ratio of V to the kinetic term is
#: less than an eighth of its final value, and |+…+⟩ is the ground state of the kinetic term.
START_SHARE = 0.7


@dataclass(frozen=True)
class QHDCircuit(SplitStepCircuit):
    """Evolution under H = 2/t³·(−Δ/2) + 2t³·f by Strang steps (Leng, Hickman, Li, Wu, arXiv:2303.01471, eq. 1).

    It runs from 0.7 t* to t*. At t* the kinetic term still has weight, so the packet has a width; its mean is the
    result. The circuit counts time by the kinetic term: dτ = 2/t³ dt. The unit of τ is chosen so that K makes a
    variable respond to a force as the stiffness of ½x² would. In these units H = K + (1 + 1.04 (1 − τ/T))⁻³ V, where V
    is f. Because K is constant, steps of equal length resolve both terms. With one qubit for each variable K is −ΣX,
    and t*² = 1.04 π²/T.

    Each variable has ``bits`` qubits: a periodic grid of 2^bits points on the unit interval. Its Fourier modes k = 2πj,
    −2^(bits−1) ≤ j < 2^(bits−1), have the energy k²/2; the gates of K are the inverse QFT, a quadratic in the bits (RZ
    and RZZ), and the QFT. With one qubit for each variable that is H·RZ·H = RX. V is quadratic in the bits with the
    Ising coefficients θ; its gates are RZ and RZZ.

    Parameters
    ----------
    n_qubits : int ≥ 1
        bits × variables; variable i is on qubits i·bits … (i+1)·bits − 1, its lowest bit first.
    trotter_steps : int ≥ 1
    total_time : float > 0
        T, the total time τ.
    bits : int ≥ 1
        A divisor of ``n_qubits``.

    Examples
    --------
    >>> from dualflow.quantum.circuits import QHDCircuit
    >>> circuit = QHDCircuit(n_qubits=2, trotter_steps=5)
    >>> circuit.n_parameters, circuit.build().num_qubits
    (3, 2)
    """

    trotter_steps: int = option(70, COUNT_RULE)
    total_time: float = option(13.0, POSITIVE_RULE)
    bits: int = option(1, COUNT_RULE)  # type: ignore[misc]
    family: ClassVar[str] = "qhd"
    purpose: ClassVar[str] = "a minimum in a box, by quantum descent"
    sent_by: ClassVar[str] = "`hamiltonian-descent`"
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("H on each", ("q",)),
        ("r times: exp(−iτvV/2); QFT† exp(−iτK) QFT on each b qubits; exp(−iτvV/2)", ("q",)),
    )
    two_qubit_formula: ClassVar[str] = "(r + 1)·q·(q − 1)/2 + r·(q/b)·(3·b·(b − 1)/2 + 6·⌊b/2⌋)"
    formula_note: ClassVar[str] = "r steps, b bits a variable; an RZZ counts as one gate"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.n_qubits % self.bits:
            raise ProblemError(f"n_qubits={self.n_qubits} must be a multiple of bits={self.bits}")

    @property
    def sizes(self) -> dict[str, int]:
        return super().sizes | {"b": self.bits}

    @property
    def name(self) -> str:
        return f"{super().name}_b{self.bits}_s{self.trotter_steps}"

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(1, 2), cls(2, 3), cls(3, 2), cls(4, 3, bits=2), cls(6, 1, bits=3), cls(8, 4))

    def rates(self, t: NDArray) -> tuple[NDArray, NDArray]:
        # With dτ ∝ t⁻³ dt, τ is linear in t⁻², and the ratio of the weights is t⁶.
        return np.ones_like(t), (1.0 + (START_SHARE**-2 - 1.0) * (1.0 - t / self.total_time)) ** -3

    def energies(self) -> NDArray:
        return _plane_waves(self.bits) / _stiffness(self.bits)

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

        # k = 2π Σ cᵢ bᵢ with c = 1, 2, …, −2^(bits−1), b = (1 − Z)/2: k²/2 is a quadratic in Z and so diagonal.
        c = 2.0 ** np.arange(self.bits)
        c[-1] *= -1.0
        terms = [("Z", [i], -(np.pi**2) * c[i] * c.sum()) for i in range(self.bits)]
        terms += [("ZZ", [i, j], np.pi**2 * c[i] * c[j]) for i in range(self.bits) for j in range(i + 1, self.bits)]
        energy = SparsePauliOp.from_sparse_list(terms, self.bits) / _stiffness(self.bits)
        circuit, register = QuantumCircuit(self.bits), range(self.bits)
        circuit.append(QFTGate(self.bits).inverse(), register)
        circuit.append(PauliEvolutionGate(energy, time=time, synthesis=LieTrotter()), register)
        circuit.append(QFTGate(self.bits), register)
        return transpile(circuit, basis_gates=["h", "rz", "rzz", "cx"], optimization_level=0)


def _plane_waves(bits: int) -> NDArray:
    """Return k²/2 for the modes of 2^bits points on the unit interval."""
    # fftfreq orders the modes 0, 1, …, −1 as the Fourier index counts them.
    return 2.0 * np.pi**2 * np.fft.fftfreq(2**bits, 2.0**-bits) ** 2


@lru_cache
def _stiffness(bits: int) -> float:
    """Return the divisor c of −Δ/2 for which a variable responds to a force as with the stiffness of ½x².

    With x from −1 to 1 on the grid, the ground state's ⟨x⟩ under −Δ/2/c + ½x² + hx is −h to first order in h. On one
    qubit ½x² is constant and c = π²; then −Δ/2/c is −X up to a constant.
    """
    size = 2**bits
    x = np.linspace(-1.0, 1.0, size)
    waves = np.exp(2j * np.pi / size * np.outer(np.arange(size), np.arange(size))) / np.sqrt(size)
    kinetic = ((waves * _plane_waves(bits)) @ waves.conj().T).real

    def excess(logarithm: float) -> float:
        energies, states = np.linalg.eigh(kinetic / np.exp(logarithm) + np.diag(0.5 * x**2))
        force = states[:, 1:].T @ (x * states[:, 0])
        return float(2.0 * np.sum(force**2 / (energies[1:] - energies[0])) - 1.0)

    from scipy.optimize import brentq  # its import takes 0.15 s, which no other circuit needs

    return float(np.exp(brentq(excess, 0.0, 12.0, xtol=1e-13)))
