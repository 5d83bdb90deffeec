"""The solver `hamiltonian-adiabatic`: a Trotterised anneal that stops at a finite field, in boxes (a study)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...core.options import Number, OneOf, option
from ...core.problem import DualProblem
from ...core.workspace import Workspace
from ...exceptions import ProblemError
from ..circuits.anneal import AnnealCircuit
from ..circuits.base import COUNT_RULE, POSITIVE_RULE
from .box_zoom import BoxZoom, BoxZoomContext, BoxZoomState


@dataclass(frozen=True)
class HamiltonianAdiabatic(BoxZoom):
    """Quantum annealing that stops at a finite field; the mean of the state is the next α; hybrid (a study).

    Each variable has one qubit, whose two values are the ends of the variable's range in a box. The circuit raises f in
    a constant transverse field, H(t) = −ΣX + (t/T) f from |+…+⟩, in ``trotter_steps`` (Strang) of RX, RZ and RZZ. This
    is an anneal (Farhi et al., quant-ph/0001106) that stops before its end. The strength of the field is that of Q's
    diagonal, which the corners of a box do not show, so that ⟨Z⟩ is close to Newton's step (see `HamiltonianDescent`).

    An anneal to the end finds the best corner, and Srivastava and Sundararaghavan (Phys. Rev. A 99, 052355 (2019)) then
    put a smaller box around it. The mean inside the box needs at most a third of the circuits on most small problems
    whose optimum is inside the box (38 of 46 at n = 8, 16 of 26 at n = 16); the aim was all of them, and the solver is
    therefore a study. Boxes, blocks, multiplier, projection and helpers are the classical ones of `HamiltonianDescent`.
    The limits are the same: an ill-conditioned Q gains little, a classical mean field does as well, and no advantage is
    claimed (docs/explanation/quantum.md).

    The same QUBOs suit annealers: `dualflow.to_qubo` gives f on a grid of the whole box as arrays, a dictionary or a
    ``dimod.BinaryQuadraticModel``. With sampler="annealing" a classical simulated annealing (dwave-samplers) replaces
    the circuit in every box: this is a control without a quantum computer, and no circuits are counted.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 8 qubits, 1,736 CX and depth 943 a circuit at n = 32,
    CX the same at every n; 72 circuits a run, growing as n; by the model, 70,512 T gates a shot.

    Parameters
    ----------
    device, shots, shot_budget, block, levels, shrink, max_blocks, line_search, pattern_moves
        As `HamiltonianDescent`.
    trotter_steps : int ≥ 1
    total_time : float > 0
        T, in units of 1/field.
    sampler : {"circuit", "annealing"}
        What samples a box: a circuit, or classical simulated annealing.
    reads : int ≥ 1
        Samples for each box with sampler="annealing".

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        The device is not known, lacks a capability that the options need, or is not installed; or dwave-samplers is
        not installed.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "hamiltonian-adiabatic", device="emulator", tol=1e-3)
    >>> round(solution.bias, 1), bool(solution.cost.circuits > 0)
    (-3.0, True)
    """

    trotter_steps: int = option(30, COUNT_RULE)
    total_time: float = option(6.0, POSITIVE_RULE)
    sampler: str = option("circuit", OneOf(words=("circuit", "annealing")))
    reads: int = option(100, Number(at_least=1, whole=True, powers=True))

    name: ClassVar[str] = "hamiltonian-adiabatic"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampler == "annealing" and self.shots is not None:
            raise ProblemError(f"shots={self.shots!r} is an option of sampler='circuit'; annealing takes reads")

    @property
    def how(self) -> str:
        if self.sampler == "annealing":
            return (
                f"annealed: the mean of a box is that of {self.reads} reads of classical annealing, without a circuit"
            )
        return super().how

    def circuit_of(self, variables: int) -> AnnealCircuit:
        return AnnealCircuit(variables, self.trotter_steps, self.total_time)

    def open(self, problem: DualProblem, workspace: Workspace) -> BoxZoomContext:
        reads = None if self.sampler == "circuit" else int(self.reads)
        return replace(super().open(problem, workspace), reads=reads)

    def cost(self, context: BoxZoomContext, state: BoxZoomState) -> dict[str, Any]:
        return super().cost(context, state) if self.sampler == "circuit" else {}

    def provenance(self, context: BoxZoomContext, state: BoxZoomState) -> dict[str, Any]:
        found = super().provenance(context, state) | {"sampler": self.sampler}
        if self.sampler == "circuit":
            return found
        of_circuits = ("device", "circuit", "angles", "padded_size", "cx_gates", "trotter_steps", "job_ids")
        return {name: value for name, value in found.items() if name not in of_circuits}
