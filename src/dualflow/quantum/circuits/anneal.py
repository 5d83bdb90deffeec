"""A Trotterised quantum anneal with a constant transverse field and a growing problem Hamiltonian."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from ...core.options import option
from .base import COUNT_RULE, POSITIVE_RULE
from .split_step import SplitStepCircuit

__all__ = ["AnnealCircuit"]


@dataclass(frozen=True)
class AnnealCircuit(SplitStepCircuit):
    """Evolution under H(t) = −Σ Xₖ + (t/T) V by Strang steps, from the ground state of −Σ Xₖ to that of −Σ Xₖ + V.

    It is an anneal (Farhi et al., quant-ph/0001106) whose transverse field is not switched off. V = Σ hₖ Zₖ +
    Σ Jₖₗ ZₖZₗ, with θ = (h, J) in units of the field. The gates of the field are RX, those of V RZ and RZZ.
    `hamiltonian-adiabatic` runs it with r = 30 steps, T = 6 and at most 8 qubits, one for each variable of a block; the
    files have fewer steps and T = 2.

    Parameters
    ----------
    n_qubits : int ≥ 1
    trotter_steps : int ≥ 1
    total_time : float > 0
        T.

    Examples
    --------
    >>> from dualflow.quantum.circuits import AnnealCircuit
    >>> circuit = AnnealCircuit(n_qubits=2, trotter_steps=3, total_time=2.0)
    >>> circuit.n_parameters, circuit.build().num_qubits
    (3, 2)
    """

    trotter_steps: int = option(30, COUNT_RULE)
    total_time: float = option(6.0, POSITIVE_RULE)
    family: ClassVar[str] = "anneal"
    purpose: ClassVar[str] = "a corner of the box, by slow evolution"
    sent_by: ClassVar[str] = "`hamiltonian-adiabatic`"
    blocks: ClassVar[tuple[tuple[str, tuple[str, ...]], ...]] = (
        ("H on each", ("q",)),
        ("r times: exp(−iτ(t/T)V/2), RX on each, exp(−iτ(t/T)V/2)", ("q",)),
    )
    two_qubit_formula: ClassVar[str] = "(r + 1)·q·(q − 1)/2"
    depth_formula: ClassVar[str] = "3·q + 1 + (r − 1)·(q + 2)"
    formula_note: ClassVar[str] = "r steps; an RZZ counts as one gate; the depth for q ≥ 3"

    @property
    def name(self) -> str:
        return f"{super().name}_s{self.trotter_steps}"

    @classmethod
    def examples(cls) -> tuple[Self, ...]:
        return (cls(1, 2, 2.0), cls(2, 3, 2.0), cls(3, 2, 2.0), cls(8, 4, 2.0))

    def rates(self, t: NDArray) -> tuple[NDArray, NDArray]:
        return np.ones_like(t), t / self.total_time

    def energies(self) -> NDArray:
        # −X is 2|−⟩⟨−| up to a constant.
        return np.array([0.0, 2.0])
