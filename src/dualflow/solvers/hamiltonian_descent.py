"""Quantum Hamiltonian descent on boxes that shrink, hybrid, a block of variables a step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ..core.options import Number, option
from ..quantum.circuits.qhd import QHDCircuit
from ._box_zoom import BoxZoom

__all__ = ["HamiltonianDescent"]


@dataclass(frozen=True)
class HamiltonianDescent(BoxZoom):
    """Quantum Hamiltonian descent, hybrid: a wave packet finds the low side of a box, a smaller box is put there.

    A block of variables is written in bits, ``bits`` qubits each, on the corners (or a grid) of a box around where it
    stands. The circuit evolves H(t) = 2/(10⁻³ + t³)·(−Δ/2) + 2t³·f from |+…+⟩ to ``total_time`` in ``trotter_steps``
    (Strang's; Leng, Hickman, Li, Wu, "Quantum Hamiltonian Descent", arXiv:2303.01471), f shifted and divided by its
    standard deviation on the grid. f is quadratic in the bits, so that it is RZ and RZZ; −Δ/2 is the QFT, a quadratic
    in the bits, and the inverse QFT, and at one qubit a variable H·RZ·H = RX. The mean of the outcomes (not the best
    sample) is the centre of the next box, ``shrink`` times as wide, ``levels`` times. The equality is met by an
    augmented Lagrangian: a penalty inside f, a multiplier that takes the measured violation after every level.

    What stays classical: which variables form a block (largest Newton decrement, or half of them and a random rest),
    the width of the first box (from each variable's own slope and curvature), ∇f in O(n) a variable moved, the
    multiplier, the projection of the last mean onto the block's feasible set, an exact line search from the old point
    to it, and after every third block one along the way of the last three (Hooke and Jeeves' pattern move). α is the
    point so composed: measured directions, classical lengths. It is feasible, and f never rises. The boxes lie
    symmetrically around the point, also over its bounds (the mean is clipped), so that uniform outcomes point
    nowhere: with the null device nothing moves, and what its shot noise moves leaves gaps of 0.2 to 0.9. Nothing is
    post-selected.

    What a step costs: one block is ``levels`` circuits on block × bits qubits, one after the other. A circuit has
    (trotter_steps + 1) q(q−1)/2 RZZ, two CX each: 2856 CX at 8 qubits and 50 steps. The number of blocks grows about in
    proportion to n, and with the condition of Q. A classical computer evaluates f on all 2^q corners of such a block
    in less time: no advantage is claimed. Leng et al. report QHD against other methods on nonconvex box problems; the
    duals here are convex, where descent has no barriers to tunnel through.

    The default device is the emulator, which multiplies the same product out in a millisecond a circuit; binding and
    running 2000 gates takes Aer a hundred. device="aer" or "pennylane:…" runs the circuits themselves, to the same
    distributions (1e-10).

    Counted (docs/resources.md, 10 000 shots a circuit): 8 qubits, 2,856 CX and depth 1,543 a circuit at n = 32, CX the
    same at every n; 144 circuits a run, growing as n; by the model, 1.2e5 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="emulator"
    shots : int, optional
        Of each circuit; None asks the device for exact distributions. "adaptive" and ``final_shots`` are refused.
    shot_budget : int, optional
        The run rests where another block would not fit.
    block : int ≥ 2
        Variables a block.
    levels : int ≥ 1
    shrink : float in (0, 1)
    trotter_steps, total_time
        Of the circuit.
    max_blocks : int, optional
        Blocks until the solver rests. By default exact runs rest after 200 + 2 sweeps of blocks in a row that
        disappoint, those with shots after 2 blocks and 4 sweeps.
    bits : int from 1 to 4
        Qubits a variable. Each doubles the grid's highest momentum: two need about 100 steps.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        The device is not known, cannot do what is asked, or is not installed.
    """

    bits: int = option(1, Number(at_least=1, at_most=4, whole=True))

    name: ClassVar[str] = "hamiltonian-descent"

    @property
    def bits_each(self) -> int:
        return self.bits

    def circuit_of(self, variables: int) -> QHDCircuit:
        return QHDCircuit(variables * self.bits, self.trotter_steps, self.total_time, self.bits)
