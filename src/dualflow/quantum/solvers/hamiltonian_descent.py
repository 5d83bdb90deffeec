"""The solver `hamiltonian-descent`: quantum Hamiltonian descent in boxes that follow the packet's mean (a study)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from ...core.options import Number, option
from ..circuits.qhd import QHDCircuit
from .box_zoom import BoxZoom


@dataclass(frozen=True)
class HamiltonianDescent(BoxZoom):
    """Quantum Hamiltonian descent: the mean of a wave packet is the next α, and the box follows it; hybrid (a study).

    Each variable of a block has ``bits`` qubits, whose values are the ends (or a grid) of the variable's range in a box
    around the present α. From |+…+⟩ a circuit evolves 2/t³·(−Δ/2) + 2t³·f (Leng, Hickman, Li, Wu, "Quantum Hamiltonian
    Descent", arXiv:2303.01471) in ``trotter_steps`` (Strang). It stops while the kinetic term still keeps the packet
    wide, for then the mean is near the optimum: on the corners of a box z² = 1, and the diagonal of Q is lost, but a
    spin in a transverse field Γ has the stiffness Γ, and the field Γᵢ = Qᵢᵢrᵢ² (r is half the width) restores it. To
    first order ⟨Z⟩ is −(diag Γ + J)⁻¹h, Newton's step, from one circuit. Coupled spins are stiffer than that, so that Γ
    is set to 0.7 of this value. f is quadratic in the bits, and its evolution is RZ and RZZ; with one qubit for each
    variable that of −Δ/2 is RX.

    The next α is the mean of the outcomes, projected onto the block's feasible set; f may rise. If the mean was inside
    the box, the next box is two steps wide. If it was at the edge, the box grows, or becomes ``shrink`` times as wide
    when the mean turns back. Variables that the packet presses against a bound keep a part of their width. The
    multiplier of the equality is updated by the violation of each mean before its projection.

    Classical parts: ∇f in O(n) for each variable moved, widths, multiplier and projection; and with more variables than
    ``block``, the choice of those that form the next block of ``levels`` circuits (largest Newton decrement; in every
    second block half of them at random). A problem of at most ``block`` variables is one block throughout.
    ``line_search`` and ``pattern_moves`` add classical step lengths; with them random bits converge too.

    If the circuit is replaced by an enumeration of the block's corners, the same loop takes more circuits: the packet's
    mean takes at most a third of them to an excess of 1e-3 in 37 of 46 small problems (n = 8) whose optimum is inside
    the box, and to 1e-2 in 14 of 26 at n = 16. The aim was all of them, and the solver is therefore a study. An
    ill-conditioned Q gains less; on moons with C = 100 it takes 23 circuits, the corner 25. The same mean can be found
    classically, as a fixed point of xᵢ = −hᵢ'/√(hᵢ'² + Γᵢ²), with no more evaluations in 44 and 20 of these problems:
    entanglement adds nothing here. The dual is convex and has no barrier to tunnel through. No advantage is claimed
    (docs/explanation/quantum.md, benchmarks/quantum/hamiltonian_descent.py).

    device="emulator" computes the same product in milliseconds a circuit, Aer in a tenth of a second; their
    distributions agree to 1e-10. The angles are fields, then couplings, in units of the transverse field. The default
    ``trotter_steps`` resolve the Hamiltonian of 8 qubits: the total variation of the outcomes to those of 6400 steps is
    at most 0.05.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 8 qubits, 3,976 CX and depth 2,143 a circuit at n =
    32, CX the same at every n; 72 circuits a run, growing as n; by the model, 1.7e5 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
    shots : int, optional
        Shots of each circuit; None requests exact distributions. "adaptive" and ``final_shots`` are refused.
    shot_budget : int, optional
        Shots of the run, which ends before a circuit that would exceed them.
    block : int ≥ 2
        Variables of a block.
    levels : int ≥ 1
        Circuits of a block.
    shrink : float in (0, 1)
        Factor of the width of a box whose mean is at its edge and turns back.
    trotter_steps, total_time
        Parameters of the circuit (`quantum.circuits.QHDCircuit`).
    max_blocks : int, optional
        Largest number of blocks. By default a run with shots ends after 2 blocks and 4 sweeps over all variables, an
        exact run when circuits have not moved α for as long.
    line_search, pattern_moves : bool
        Classical helpers: an exact line search towards each mean; and after every third block one along the sum of the
        last three moves (Hooke and Jeeves).
    bits : int from 1 to 4
        Qubits for each variable. Two need about 100 steps.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        The device is not known, lacks a capability that the options need, or is not installed.

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
