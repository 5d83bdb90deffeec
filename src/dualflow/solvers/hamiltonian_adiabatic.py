"""A Trotterised anneal of bit-encoded boxes that shrink, hybrid; the same QUBOs go to annealers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ..quantum.circuits.anneal import AnnealCircuit
from ..quantum.laboratory import Account, Laboratory
from ..quantum.qubo import Qubo, sample_annealing
from ._box_zoom import BoxZoom

__all__ = ["HamiltonianAdiabatic"]

SAMPLERS = ("circuit", "annealing")


@dataclass(frozen=True)
class HamiltonianAdiabatic(BoxZoom):
    """TODO"""

    steps: int = 60
    total_time: float = 20.0
    sampler: str = "circuit"
    reads: int = 100

    name: ClassVar[str] = "hamiltonian-adiabatic"

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise ProblemError(f"sampler={self.sampler!r} is not one of {', '.join(map(repr, SAMPLERS))}")
        if isinstance(self.reads, bool) or not isinstance(self.reads, int) or self.reads < 1:
            raise ProblemError(f"reads={self.reads!r} must be an integer ≥ 1")
        super().__post_init__()

    def circuit_of(self, variables: int) -> AnnealCircuit:
        return AnnealCircuit(variables, self.steps, self.total_time)

    def _means(
        self, lab: Laboratory, account: Account, qubo: Qubo, rng: np.random.Generator
    ) -> tuple[NDArray, NDArray, NDArray, Account]:
        if self.sampler == "circuit":
            return super()._means(lab, account, qubo, rng)
        return sample_annealing(qubo, self.reads, int(rng.integers(2**31))), np.empty(0), np.empty(0), account
