"""The simplex flow by Schrödingerisation."""
from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..quantum.circuits import SchrodingerisedCircuit
from ..quantum.circuits.select import SelectCircuit
from ._linearised import LinearisedSolver

__all__ = ["HamiltonianSchrodingerisation"]


@dataclass(frozen=True)
class HamiltonianSchrodingerisation(LinearisedSolver):
    """The simplex flow, window by window, as a Schrödinger equation in one more dimension (Jin, Liu, Yu)."""

    half_width: float = 8.0

    name: ClassVar[str] = "hamiltonian-schrodingerisation"

    def _family(self, n_qubits: int, splits: int) -> SelectCircuit:
        return SchrodingerisedCircuit(n_qubits, self.ancillas, splits, self.evolution, self.order, self.half_width)

    @property
    def _longest(self) -> float:
        return self.half_width
