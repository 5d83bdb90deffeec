"""The LCHS circuit: a linear combination of Hamiltonian simulations by an ancilla register."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...core.options import option
from ...core.runtime.threads import cached_property
from .base import POSITIVE_RULE
from .encoding import simplex_to_angles
from .select import SelectCircuit, append_phases
from .tree import TreeCircuit

if TYPE_CHECKING:
    from qiskit import QuantumCircuit

__all__ = ["LCHSCircuit"]

#: Decimals of the register's angles; rounding makes them equal on every processor.
ANGLE_DECIMALS = 12


@dataclass(frozen=True, repr=False)
class LCHSCircuit(SelectCircuit):
    """exp(−t(L + iH)) x as Σ_k c_k exp(−it(kL + H)) x with L ⪰ 0, if the ancillas end in 0.

    c_k = Δk f(k)/(1 − ik) with f(k) = 1/(2π e^(−2^β) e^((1+ik)^β)), β = 0.7, on 2^ancillas points of [−cutoff, cutoff]
    (An, Childs, Lin, arXiv:2312.03916; An, Liu, Lin, PRL 131, 150603 (2023), use f = 1/(π(1 + ik)), which falls far
    more slowly). A tree prepares the register in √|c_k|, the phases of c_k are applied, and after the evolution the
    tree is inverted. The probability of success is ‖Σ_k c_k exp(−it(kL + H)) x‖² / (Σ_k |c_k|)².

    Parameters
    ----------
    n_qubits, ancillas, trotter_steps, evolution, order
        As in `SelectCircuit`.
    cutoff : float > 0
        Largest |k|. The truncation changes e^(−λt) by at most 1.5e-2 for 12.5 (2.7e-3 at λt = 0), 2.1e-3 for 25 and
        9e-5 for 50. The points resolve λt up to π·2^ancillas/cutoff, at which the approximation is periodic.

    Examples
    --------
    >>> from dualflow.quantum.circuits import LCHSCircuit
    >>> circuit = LCHSCircuit(n_qubits=3)
    >>> circuit.n_parameters, circuit.build().num_qubits
    (7, 3)
    """

    cutoff: float = option(12.5, POSITIVE_RULE)
    family: ClassVar[str] = "lchs"
    purpose: ClassVar[str] = "a window of the flow, as a sum of evolutions"
    sent_by: ClassVar[str] = "`hamiltonian-lchs`"
    registers: ClassVar[tuple[tuple[str, str], ...]] = (("sys", "s"), ("anc", "a"))
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("tree: x", ("sys",)),
        ("tree: √|cₖ|, phases of cₖ", ("anc",)),
        ("V", ("sys",)),
        ("r times: exp(−i dt k⊗Λ), rotation", ("sys", "anc")),
        ("tree†", ("anc",)),
    )
    two_qubit_formula: ClassVar[str] = "2^s − 2 + 3·(2^a − 2) + (r + 1)·(2^s − 1)·2^(s − 1) + r·a·2^s"
    formula_note: ClassVar[str] = (
        'evolution="exact", s ≥ 2 qubits of the system, a ancillas, r steps; one rotation has (2^s − 1)·2^(s − 1) CX, '
        "and none for s = 1"
    )
    BETA: ClassVar[float] = 0.7

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (
            cls(3, 2, cutoff=2.0),
            cls(5, 3, 2, cutoff=4.0),
            cls(5, 3, 1, "trotter", cutoff=4.0),
            cls(8, 5, cutoff=8.0),
        )

    @property
    def spacing(self) -> float:
        return 2.0 * self.cutoff / 2**self.ancillas

    @cached_property
    def weights(self) -> NDArray:
        """Weights c_k, complex, shape (2^ancillas,)."""
        u = 1.0 + 1j * self.k
        f = 1.0 / (2.0 * np.pi * np.exp(-(2.0**self.BETA)) * np.exp(u**self.BETA))
        return self.spacing * f / (1.0 - 1j * self.k)

    @cached_property
    def _tree(self) -> NDArray:
        return np.round(simplex_to_angles(np.abs(self.weights)), ANGLE_DECIMALS)

    @cached_property
    def _phases(self) -> NDArray:
        return np.round(np.angle(self.weights), ANGLE_DECIMALS)

    @property
    def accepted(self) -> NDArray:
        return np.arange(2**self.ancillas) == 0

    def _tree_circuit(self) -> QuantumCircuit:
        tree = TreeCircuit(self.ancillas)
        return tree.build().assign_parameters(tree.gate_parameters(self._tree))

    def _prepare(self, circuit: QuantumCircuit, register: Sequence[int]) -> None:
        circuit.compose(self._tree_circuit(), register, inplace=True)
        append_phases(circuit, self._phases, register)

    def _unprepare(self, circuit: QuantumCircuit, register: Sequence[int]) -> None:
        circuit.compose(self._tree_circuit().inverse(), register, inplace=True)

    def start_amplitudes(self) -> NDArray:
        return np.sqrt(TreeCircuit(self.ancillas).distribution(self._tree)) * np.exp(1j * self._phases)

    def apply_unprepare(self, psi: NDArray) -> NDArray:
        for level in reversed(range(self.ancillas)):
            half = 0.5 * self._tree[2**level - 1 : 2 ** (level + 1) - 1].reshape(-1, 1)
            c, s = np.cos(half), np.sin(half)
            pairs = psi.reshape(2**level, 2, -1)
            low, high = pairs[:, 0], pairs[:, 1]
            psi = np.stack([c * low + s * high, c * high - s * low], axis=1).reshape(psi.shape)
        return psi
