"""The Schrödingerisation circuit: a wave in one additional dimension p, evolved in its Fourier variable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number, option
from ...core.runtime.threads import cached_property
from .base import POSITIVE_RULE
from .encoding import simplex_to_angles
from .select import SelectCircuit
from .tree import TreeCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["SchrodingerisedCircuit"]

#: Decimals of the register's angles; rounding makes them equal on every processor.
ANGLE_DECIMALS = 12


@dataclass(frozen=True, repr=False)
class SchrodingerisedCircuit(SelectCircuit):
    """exp(−t(L + iH)) x as e^p v(t, p) at p > 0, where v solves v̇ = L ∂v/∂p − iHv, v(0, p) = e^(−p) x for p ≥ 0.

    Since L ⪰ 0, the wave moves towards lower p, and v(0, p) can be chosen for p < 0. Jin, Liu and Yu (PRL 133, 230602
    (2024)) choose e^(−|p|); here it is e^(3p), which leaves three quarters of the weight at p ≥ 0 instead of a half. p
    has 2^ancillas points of [−P, P), P = half_width, as a two's complement number. The Fourier transform
    v = Σ_k v̂_k e^(ikp) gives v̂̇_k = −i(−kL + H)v̂_k, the evolution under −k̂ ⊗ L + I ⊗ H, read at p > 0. (With +k̂ the
    result is read at p < 0; reading it on the wrong side gives exp(+tL).) k is an odd multiple of π/2P, so that v is
    antiperiodic.

    Accepted outcomes are 0 < p ≤ P/4, all of which show |exp(−t(L + iH)) x|²: 0.65 of all at P = 16, if L x = 0.

    Parameters
    ----------
    n_qubits, trotter_steps, evolution, order
        As in `SelectCircuit`.
    ancillas : int ≥ 3
    half_width : float > 0
        P. λt is resolved up to about 1.5 P.

    Examples
    --------
    >>> from dualflow.quantum.circuits import SchrodingerisedCircuit
    >>> circuit = SchrodingerisedCircuit(n_qubits=4)
    >>> circuit.n_parameters, circuit.build().num_qubits
    (9, 4)
    """

    ancillas: int = option(3, Number(at_least=3, whole=True))
    half_width: float = option(16.0, POSITIVE_RULE)
    family: ClassVar[str] = "schrodingerised"
    purpose: ClassVar[str] = "a window of the flow, with one more dimension"
    sent_by: ClassVar[str] = "`hamiltonian-schrodingerisation`"
    registers: ClassVar[tuple[tuple[str, str], ...]] = (("sys", "s"), ("anc", "a"))
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("tree: x", ("sys",)),
        ("tree: v(0, p), QFT†", ("anc",)),
        ("V", ("sys",)),
        ("r times: exp(−i dt k⊗Λ), rotation", ("sys", "anc")),
        ("QFT", ("anc",)),
    )
    two_qubit_formula: ClassVar[str] = (
        "2^s − 2 + 2^a − 2 + 2·(a·(a − 1) + 3·⌊a/2⌋) + (r + 1)·(2^s − 1)·2^(s − 1) + r·a·2^s"
    )
    formula_note: ClassVar[str] = (
        'evolution="exact", s ≥ 2 qubits of the system, a ancillas, r steps; one rotation has (2^s − 1)·2^(s − 1) CX, '
        "and none for s = 1"
    )
    pairing: ClassVar[int] = -1
    #: Rate of v(0, p) = e^(LEFT_RATE·p) for p < 0.
    LEFT_RATE: ClassVar[float] = 3.0

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return cls(4, 3, half_width=2.0), cls(5, 3, 2, half_width=2.0), cls(8, 5, half_width=4.0)

    @property
    def spacing(self) -> float:
        return np.pi / self.half_width

    @cached_property
    def p(self) -> NDArray:
        """Values of p by the outcome of the register, shape (2^ancillas,)."""
        return self._steps * 2.0 * self.half_width / 2**self.ancillas

    @cached_property
    def _steps(self) -> NDArray:
        m = np.arange(2**self.ancillas)
        return np.where(m < len(m) // 2, m, m - len(m))

    @cached_property
    def _tree(self) -> NDArray:
        v = np.exp(np.where(self.p < 0, self.LEFT_RATE, -1.0) * self.p)
        return np.round(simplex_to_angles(v**2), ANGLE_DECIMALS)

    @property
    def accepted(self) -> NDArray:
        return (self._steps > 0) & (self._steps <= 2**self.ancillas // 8)

    def _prepare(self, circuit: QuantumCircuit, register: Sequence[int]) -> None:
        tree = TreeCircuit(self.ancillas)
        circuit.compose(tree.build().assign_parameters(tree.gate_parameters(self._tree)), register, inplace=True)
        for b, qubit in enumerate(register):
            # e^(−iπm/N) with m in two's complement: the highest bit counts −N/2.
            circuit.rz(np.pi / 2 if b == self.ancillas - 1 else -np.pi * 2.0 ** (b - self.ancillas), qubit)
        circuit.compose(_fourier(self.ancillas).inverse(), register, inplace=True)

    def _unprepare(self, circuit: QuantumCircuit, register: Sequence[int]) -> None:
        circuit.compose(_fourier(self.ancillas), register, inplace=True)

    def start_amplitudes(self) -> NDArray:
        v = np.sqrt(TreeCircuit(self.ancillas).distribution(self._tree))
        return np.fft.fft(v * np.exp(-1j * np.pi * self._steps / len(v)), norm="ortho")

    def apply_unprepare(self, psi: NDArray) -> NDArray:
        return np.fft.ifft(psi, axis=0, norm="ortho")


def _fourier(qubits: int) -> QuantumCircuit:
    """Return `QFTGate` in gates that every device supports."""
    from qiskit import QuantumCircuit, transpile
    from qiskit.circuit.library import QFTGate

    circuit = QuantumCircuit(qubits)
    circuit.append(QFTGate(qubits), range(qubits))
    return transpile(circuit, basis_gates=["cx", "h", "rz"], optimization_level=0)
