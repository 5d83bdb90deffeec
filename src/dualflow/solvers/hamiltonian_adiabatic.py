"""A Trotterised anneal of bit-encoded boxes that shrink, hybrid; the same QUBOs go to annealers."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ..quantum.circuits.anneal import AnnealCircuit
from ..quantum.engines.qubo import Qubo, sample_annealing
from ..quantum.runs.laboratory import Account, Laboratory
from ._box_zoom import BoxZoom, BoxZoomState

__all__ = ["HamiltonianAdiabatic"]

SAMPLERS = ("circuit", "annealing")


@dataclass(frozen=True)
class HamiltonianAdiabatic(BoxZoom):
    """A quantum anneal of bit-encoded boxes, Trotterised, hybrid: the low corner of a box is the centre of the next.

    One qubit a variable stands for the two ends of its side of a box. The circuit turns a transverse field down and f
    up, H(t) = −(1 − t/T) ΣX + (t/T) f from |+…+⟩ (Farhi et al., quant-ph/0001106), in ``steps`` Strang steps of RX,
    RZ and RZZ, f shifted and divided by its standard deviation on the corners. Where the mean of the outcomes lies, a
    smaller box is put: after the box algorithm of Srivastava and Sundararaghavan (Phys. Rev. A 99, 052355 (2019)),
    which does so with an annealer. Blocks, multiplier, projection and line search are those of `HamiltonianDescent`,
    classical as there, and its page says what that means; only the circuit differs. Nothing is post-selected, the
    number of blocks grows as there, and no advantage is claimed: the corners of a block are few, and the dual is
    convex.

    The same QUBOs go to annealers: `to_qubo` gives f on the whole box's grid as plain arrays, a dictionary or a
    ``dimod.BinaryQuadraticModel``, and sampler="annealing" lets a classical simulated annealing (dwave-samplers) stand
    in for the circuit in every box: a control, no quantum computer, and no circuits are counted.

    Parameters
    ----------
    device, shots, shot_budget, block, levels, shrink, max_blocks
        As `HamiltonianDescent`.
    steps : int ≥ 1
    total_time : float > 0
        T, where the spread of f is 1.
    sampler : {"circuit", "annealing"}
    reads : int ≥ 1
        Samples a box of sampler="annealing".

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        From `start`: the device is not known, cannot do what is asked, or is not installed. From a step: dwave-samplers
        is not installed.
    """

    steps: int = 30
    total_time: float = 20.0
    sampler: str = "circuit"
    reads: int = 100

    name: ClassVar[str] = "hamiltonian-adiabatic"

    def __post_init__(self) -> None:
        if self.sampler not in SAMPLERS:
            raise ProblemError(f"sampler={self.sampler!r} is not one of {', '.join(map(repr, SAMPLERS))}")
        if isinstance(self.reads, bool) or not isinstance(self.reads, Integral) or self.reads < 1:
            raise ProblemError(f"reads={self.reads!r} must be an integer ≥ 1")
        if self.sampler == "annealing" and self.shots is not None:
            raise ProblemError(f"shots={self.shots!r} is an option of sampler='circuit'; annealing takes reads")
        super().__post_init__()

    def circuit_of(self, variables: int) -> AnnealCircuit:
        return AnnealCircuit(variables, self.steps, self.total_time)

    def cost(self, state: BoxZoomState) -> dict[str, float | int | None]:
        return super().cost(state) if self.sampler == "circuit" else {}

    def provenance(self, state: BoxZoomState) -> dict[str, Any]:
        found = super().provenance(state) | {"sampler": self.sampler}
        if self.sampler == "circuit":
            return found
        of_circuits = ("device", "circuit", "angles", "padded_size", "cx_gates", "strang_steps", "job_ids")
        return {name: value for name, value in found.items() if name not in of_circuits}

    def _means(
        self, lab: Laboratory, account: Account, qubo: Qubo, rng: np.random.Generator
    ) -> tuple[NDArray, NDArray, NDArray, Account]:
        if self.sampler == "circuit":
            return super()._means(lab, account, qubo, rng)
        return sample_annealing(qubo, self.reads, int(rng.integers(2**31))), np.empty(0), np.empty(0), account
