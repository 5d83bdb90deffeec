"""The simplex flow by linear combination of Hamiltonian simulation."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ..quantum.circuits import LCHSCircuit
from ..quantum.circuits.select import SelectCircuit
from ._linearised import LinearisedSolver

__all__ = ["HamiltonianLCHS"]


@dataclass(frozen=True)
class HamiltonianLCHS(LinearisedSolver):
    """The simplex flow, window by window, as a linear combination of Hamiltonian simulations (An, Liu, Lin)."""

    cutoff: float = 50.0

    name: ClassVar[str] = "hamiltonian-lchs"

    def _family(self, n_qubits: int, splits: int) -> SelectCircuit:
        return LCHSCircuit(n_qubits, self.ancillas, splits, self.evolution, self.order, self.cutoff)

    @property
    def _longest(self) -> float:
        # The sum over k has period 2π/Δk in λt; half of it is far from where the damping ends.
        return np.pi * 2**self.ancillas / (2.0 * self.cutoff)
