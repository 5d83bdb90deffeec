"""Quantum Hamiltonian descent on boxes that shrink, hybrid, a block of variables a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..exceptions import ProblemError
from ..quantum.circuits.qhd import QHDCircuit
from ._box_zoom import BoxZoom

__all__ = ["HamiltonianDescent"]


@dataclass(frozen=True)
class HamiltonianDescent(BoxZoom):
    """TODO"""

    bits: int = 1

    name: ClassVar[str] = "hamiltonian-descent"

    def __post_init__(self) -> None:
        if isinstance(self.bits, bool) or not isinstance(self.bits, int) or not 1 <= self.bits <= 4:
            raise ProblemError(f"bits={self.bits!r} must be an integer from 1 to 4")
        super().__post_init__()

    @property
    def bits_each(self) -> int:
        return self.bits

    def circuit_of(self, variables: int) -> QHDCircuit:
        return QHDCircuit(variables * self.bits, self.steps, self.total_time, self.bits)
