"""The simplex flow on a parametrised quantum state: McLachlan's principle, hybrid, one batch of circuits a step."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace
from ..quantum.engines.ansatz import ANSAETZE, make_ansatz, unfit
from ..quantum.engines.own_circuit import NameOrCircuit, own_circuit
from ..quantum.engines.variational_flow import SimplexFlow, SimplexState
from ._variational import VariationalSolver

__all__ = ["VariationalFlow"]


@dataclass(frozen=True)
class VariationalFlow(VariationalSolver[SimplexFlow, SimplexState]):
    """Natural-gradient flow of a quantum state over the simplex, hybrid, one batch of circuits a step.

    A circuit prepares ψ(θ), real, on ⌈log₂ n⌉ qubits; measured, it gives μ(θ) = ψ². Everything else is classical:
    F = ∇f = Qμ − p, E = F − μᵀF, the tangents dP = ∂μ/∂θ, and the step

        (dPᵀ [diag((1/h + ½ max(E, 0))/(μ + 1/shots)) + Q] dP + εI) δ = −dPᵀE,

    a linearised implicit Euler step of A θ̇ = b, with A = dPᵀ diag(1/μ) dP the full Fisher matrix and b = −dPᵀE: the
    replicator μ̇ = −μ∘E of Helmke and Moore (Bauckhage eq. 3), that is, imaginary time ψ̇ = −½Eψ by McLachlan's
    principle, wherever the ansatz can follow it. Q is applied classically in O(n²) a step, and the system is solved
    classically in O(P³): no speed-up over classical solvers is claimed.

    ansatz="tree": n − 1 angles for n unknowns, one circuit a step (the tangents follow from the distribution itself);
    a classical parametrisation of the simplex, run on qubits. ansatz="hardware-efficient": layers of RY and CX, the
    tangents by the parameter-shift rule, 2P + 1 circuits a step in one batch (P more with shots, for the gradient).
    With fewer angles than points it is a model of the optimum: it ends above it, and the certificate says how far.

    A circuit of one's own, on as many qubits or more, is taken apart into h, x, cx, cz, rx, ry, rz. Each rotation's
    angle must be an affine function of the parameters: a multiple of one, a sum of them. A parameter may stand in many
    gates; each of the R rotations is shifted by itself, and the chain rule does the rest: 2R + 1 circuits a step,
    exact and on any device (R more with shots). It starts at random angles, ends where its own distributions end, and
    outcome i = Σ_k bit_k 2^k (qubit or wire k) counts for point i mod n.

    From exact distributions a step is taken only if f falls (then h doubles, else h/4); with counts every step is
    taken, h grows at once, and the last three quarters of the steps are damped. α is then the mean of the
    distributions measured in the second half of the steps, in which most of their noise cancels, since each step
    undoes a part of what the last read-out had; from exact ones it is the final state's. μ(θ), known from the final
    angles, is the classical by-product ``extras["parameter_alpha"]``.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 8 qubits, 254 CX and depth 1,494 a circuit at n =
    256, CX growing as n; 41 circuits a run, the same at every n; by the model, 11,220 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance.
    shots : int, "adaptive" or None
        Of each circuit; None asks the device for exact distributions. "adaptive" begins with 100
        and takes half as many again whenever their noise in f is above a quarter of the fall the step promises,
        until ``shot_budget`` is spent.
    ansatz : {"tree", "hardware-efficient"}, qiskit.QuantumCircuit, or PennyLane function or QNode
        A QuantumCircuit has parameters and no measurements. A function applies operations for weights, or for
        (weights, wires); its measurements at the end are left out.
    layers : int ≥ 0, optional
        Of the hardware-efficient ansatz: (layers + 1)·q angles. By default about 1.25 n angles.
    angles : int or tuple of int, optional
        Of a PennyLane function: the shape of its weights.
    qubits : int, optional
        Of a PennyLane function that takes wires; a QNode's are its device's by default.
    integrator : {"semi-implicit", "lsoda"}
        "lsoda" follows the flow faithfully from exact distributions, ``time_step`` a step up to ``t_end``.
    final_shots : int, optional
        Of the final state's own circuit, once the solver rests; it counts in the mean by its shots. By default none,
        with "adaptive" 10 000.
    steps : int, optional
        With shots: steps until the solver rests, 40 by default; with "adaptive" the budget alone decides.
    shot_budget : int, optional
        With shots: shots the whole run may take, final ones included; with "adaptive" as many as 40 steps of 10 000 a
        circuit by default.
    mitigation, journal
        See `QuantumSolver`.
    time_step, t_end : float, optional
        Of "lsoda", in units of flow time: 1 and no end by default.

    Raises
    ------
    ProblemError
        An option is out of range; an ansatz other than the tree is given a warm start; or something in a circuit is no
        unitary gate, or an angle no affine function of the parameters.
    SolverMismatch
        From `open`: a circuit has fewer outcomes than the problem has variables.
    DeviceError, SolverUnavailable
        From `open`: the device is not known, cannot do what is asked, or is not installed.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))  # the ball around a line of points
    >>> solution = solve(problem, "variational-flow", device="emulator", tol=1e-4)
    >>> round(solution.certificate.radius, 2), bool(solution.cost.circuits > 0)
    (1.5, True)

    An ansatz of one's own:

    >>> from qiskit.circuit.library import real_amplitudes
    >>> solution = solve(problem, "variational-flow", device="emulator", ansatz=real_amplitudes(2), tol=1e-4)
    >>> round(solution.certificate.radius, 2), solution.provenance["angles"]
    (1.5, 8)
    """

    ansatz: Any = option("tree", NameOrCircuit(words=tuple(ANSAETZE)))  # noqa: RUF009 - frozen
    layers: int | None = option(None, Number(at_least=0, whole=True, none=True))
    angles: int | tuple[int, ...] | None = field(default=None, repr=False)
    qubits: int | None = field(default=None, repr=False)

    state_type: ClassVar[type] = SimplexState

    name: ClassVar[str] = "variational-flow"
    reaches: ClassVar[str] = "exact; with 10 000 shots a circuit within 3 × the floor of all in 39 of 40 problems"
    kinds = frozenset({Kind.SIMPLEX})

    def __post_init__(self) -> None:
        # A circuit is taken apart once, into plain data that is compared, pickled and written out.
        own = {"ansatz": own_circuit(self.ansatz, self.angles, self.qubits), "angles": None, "qubits": None}
        for name, value in own.items():
            object.__setattr__(self, name, value)
        super().__post_init__()
        make_ansatz(self.ansatz, 2, self.layers)  # refuses layers of all but one

    def mismatch(self, problem: DualProblem) -> str | None:
        return super().mismatch(problem) or unfit(self.name, self.ansatz, problem.n, self.layers)

    def cheaper(self) -> tuple[str, dict[str, Any]] | None:
        if self.ansatz == "tree":
            return None
        kept = ("shots", "final_shots", "steps", "shot_budget", "mitigation")
        return self.name, {name: getattr(self, name) for name in kept} | {"ansatz": "tree"}

    def open(self, problem: DualProblem, workspace: Workspace) -> SimplexFlow:
        workspace.dense()
        ansatz = make_ansatz(self.ansatz, problem.n, self.layers)
        lab = self.laboratory(problem)
        return self._within_budget(SimplexFlow(workspace, lab, ansatz=ansatz, **self._course()))

    def extras(self, context: SimplexFlow, state: SimplexState) -> dict[str, NDArray]:
        """``parameter_alpha``: d·μ(θ), computed from the angles and not measured."""
        ansatz = context.ansatz
        mu = ansatz.measured(context.circuit.distribution(ansatz.angles(state.theta)))
        return super().extras(context, state) | {"parameter_alpha": context.workspace.d * mu}

    def final_angles(self, context: SimplexFlow, state: SimplexState) -> NDArray:
        return context.ansatz.angles(state.theta)

    def drowned(self, context: SimplexFlow, state: SimplexState) -> bool:
        found = np.atleast_2d(state.distributions)[0]
        angles = context.ansatz.angles(state.theta)
        return context.lab.drowned(state.account, context.circuit, angles, found, state.shots_behind or None)

    def provenance(self, context: SimplexFlow, state: SimplexState) -> dict[str, Any]:
        ansatz = self.ansatz if isinstance(self.ansatz, str) else repr(self.ansatz)
        about = {"ansatz": ansatz, "padding": context.ansatz.padding, "angles": context.ansatz.n_angles}
        return super().provenance(context, state) | about
