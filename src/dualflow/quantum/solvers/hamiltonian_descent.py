"""Quantum Hamiltonian descent that stops in time, in boxes that follow the packet's mean (a study)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.options import Number, option
from ..circuits.qhd import QHDCircuit
from .box_zoom import BoxZoom

__all__ = ["HamiltonianDescent"]


@dataclass(frozen=True)
class HamiltonianDescent(BoxZoom):
    """Quantum Hamiltonian descent, hybrid: a wave packet's mean is the next α, and the box follows it (a study).

    Each variable of a block has ``bits`` qubits, which stand for the ends (or a grid) of its side of a box around where
    the block stands. From |+…+⟩ a circuit evolves 2/t³·(−Δ/2) + 2t³·f (Leng, Hickman, Li, Wu, "Quantum Hamiltonian
    Descent", arXiv:2303.01471), in ``trotter_steps`` (Strang), and stops while the kinetic term still holds the packet
    wide. That weight is what makes the mean the answer: on the corners of a box z² = 1, and the diagonal of Q is lost;
    a spin in a transverse field Γ has the stiffness Γ, and the field Γᵢ = Qᵢᵢrᵢ² (r half the width) gives it back. To
    first order ⟨Z⟩ is then −(diag Γ + J)⁻¹h, Newton's step, from one circuit. Spins that are coupled are stiffer than
    that, and Γ is 0.7 of it. f is quadratic in the bits, so that it is RZ and RZZ; at one qubit a variable −Δ/2 is RX.

    The new point is the mean of the outcomes, projected onto the block's feasible set, and nothing else: f may rise.
    The next box is two steps wide where the mean was inside; at the box's edge it grows, or becomes ``shrink`` times as
    wide if the mean turns back. Variables that the packet presses against a bound keep a part of their width. The
    equality's multiplier takes the violation that each mean has before it is projected.

    What stays classical: ∇f in O(n) a variable moved, widths, multiplier, projection; and for more variables than
    ``block``, which of them form the next block of ``levels`` circuits (largest Newton decrement, every other time half
    of them at random). A problem of at most ``block`` variables is one block from beginning to end. ``line_search`` and
    ``pattern_moves`` add classical lengths, as this solver once had by itself: random bits then converge too.

    Against the block's best corner by enumeration in the circuit's place, same loop, it takes at most a third of the
    circuits to an excess of 1e-3 in 37 of 46 small problems (n = 8) whose optimum is inside, and to 1e-2 in 14 of 26 at
    n = 16: not in all, as was asked, hence a study. Ill-conditioned Q gains less; on moons with C = 100 it takes 23
    circuits, the corner 25. The same mean can be had classically, by a fixed point of xᵢ = −hᵢ'/√(hᵢ'² + Γᵢ²), in no
    more evaluations in 44 and 20 of these: entanglement adds nothing here. The dual is convex, where descent has no
    barrier to tunnel through, and no advantage is claimed (docs/explanation/quantum.md,
    benchmarks/quantum/hamiltonian_descent.py).

    device="emulator" multiplies the same product out in milliseconds a circuit, where Aer takes a tenth of a second for
    its gates, to the same distributions (1e-10). Angles are fields, then couplings, in
    units of the transverse field. The default steps resolve the Hamiltonian of 8 qubits: total variation of the
    outcomes to 6400 steps at most 0.05.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 8 qubits, 3,976 CX and depth 2,143 a circuit at n =
    32, CX the same at every n; 72 circuits a run, growing as n; by the model, 1.7e5 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
    shots : int, optional
        Of each circuit; None asks the device for exact distributions. "adaptive" and ``final_shots`` are refused.
    shot_budget : int, optional
        The run rests where another circuit would not fit.
    block : int ≥ 2
        Variables a block.
    levels : int ≥ 1
        Circuits a block.
    shrink : float in (0, 1)
        Of a box whose mean is at its edge and turns back.
    trotter_steps, total_time
        Of the circuit (`quantum.circuits.QHDCircuit`).
    max_blocks : int, optional
        Blocks until the solver rests. By default runs with shots rest after 2 blocks and 4 sweeps over all variables,
        exact ones when circuits have moved nothing for as long.
    line_search, pattern_moves : bool
        Classical helpers: the exact minimum on the way to each mean; and after every third block one along the way of
        the last three (Hooke and Jeeves).
    bits : int from 1 to 4
        Qubits a variable. Two need about 100 steps.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        The device is not known, cannot do what is asked, or is not installed.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "hamiltonian-descent", device="emulator", tol=1e-3)
    >>> round(solution.bias, 1), bool(solution.cost.circuits > 0)
    (-3.0, True)
    """

    bits: int = option(1, Number(at_least=1, at_most=4, whole=True))

    name: ClassVar[str] = "hamiltonian-descent"

    @property
    def bits_each(self) -> int:
        return self.bits

    def circuit_of(self, variables: int) -> QHDCircuit:
        return QHDCircuit(variables * self.bits, self.trotter_steps, self.total_time, self.bits)
