"""A potential that a diagonal Hamiltonian and one ancilla turn into a distribution, one circuit a step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace
from ..exceptions import ProblemError
from ..quantum.circuits import ParametricCircuit
from ..quantum.engines import hamiltonian_dilation as engine
from ..quantum.engines.dilation import make_dilation
from ..quantum.engines.hamiltonian_dilation import METHODS, DilationContext, DilationState
from .quantum import QuantumSolver

__all__ = ["HamiltonianDilation"]

#: With shots: steps, of which the second half is the answer.
DEFAULT_STEPS = 200


@dataclass(frozen=True)
class HamiltonianDilation(QuantumSolver[DilationContext, DilationState]):
    """Mirror descent whose mirror map is a circuit: a potential, a diagonal Hamiltonian, one ancilla. Hybrid.

    A potential S of shape (n,) is kept classically. On ⌈log₂ n⌉ + 1 qubits the circuit puts the index register into
    the even superposition and lets exp(−iΘ⊗Y), Θ = diag(θᵢ), act on index and ancilla. All terms of Θ⊗Y commute: no
    Trotter error, one multiplexed RY(2θᵢ), 2^q RY and 2^q CX for 2^q ≥ n (Möttönen et al., PRL 93, 130502 (2004)).

    Simplex: cos θᵢ = e^{−(Sᵢ−S_min)/2}, and outcomes with the ancilla in 0 are kept: e^{−S/2}|+…+⟩ normalised, what
    imaginary time under diag(S) would give (one ancilla for that: Kosugi, Nishiya, Nishi, Matsushita, Phys. Rev.
    Research 4, 033121 (2022)), so that μᵢ ∝ e^{−Sᵢ}. It succeeds with probability 1/(2^q max μ), at worst 2^−q, and
    this does not compound: every step prepares the state anew. Amplitudes are ≥ 0, so that counts are all there is to
    measure.
    Box: sin² θᵢ = sigmoid(Uᵢ), αᵢ = uᵢ P(1|i); both outcomes are used, nothing is post-selected, and an index gets
    about shots/2^q of the shots. The capped simplex is a box with an equality.

    What stays classical: ∇f = Qα − p from the measured α, O(n²) a step; the potential; ν of the equality; and n angles
    for n unknowns with their Walsh transform. The circuit, of depth O(n), samples a distribution that a classical
    computer writes down in O(n): no quantum advantage is claimed, and the control "classical-sampler" does as well.

    method="plain" is entropic mirror descent. "accelerated" averages the measured distributions, with a gap of order
    1/k² after k steps; "implicit", from exact distributions, makes Newton steps to entropic proximal points: it solves
    an n × n system classically, O(n³), and takes 10 to 30 circuits to a relative gap of 1e-6, "accelerated" thousands.
    Formulas and papers: `quantum.engines.hamiltonian_dilation`.

    With shots the answer is an average over the second half of the steps, which forgets the start: the mean of the
    accelerated averages of the last quarter, which swing; ``cost.shots`` counts all. An equality of the box, which
    counts miss, is met by one t in α = u sigmoid(U + t·m∘e): who is at a bound stays there. A measured α is never
    prepared again, so an index without counts is not lost.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 9 qubits, 256 CX and depth 1,536 a circuit at n =
    256, CX growing as n; 201 circuits a run, the same at every n; by the model, 11,264 T gates a shot.

    Parameters
    ----------
    device, shots, shot_budget, mitigation, journal
        As for every solver that runs circuits (`QuantumSolver`); "adaptive" shots and ``final_shots`` are refused.
    method : {"implicit", "accelerated", "plain"}, optional
        By default "implicit" from exact distributions, "accelerated" with shots.
    steps : int, optional
        Circuits after the first until the solver rests: with shots 200 by default, or as many as ``shot_budget`` holds;
        from exact distributions the gap decides.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        The device is not known, cannot do what is asked, or is not installed; or its first circuit measured nothing
        that could be kept.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))  # the ball around a line of points
    >>> solution = solve(problem, "hamiltonian-dilation", device="emulator", tol=1e-4)
    >>> round(solution.certificate.radius, 2), bool(solution.cost.circuits > 0)
    (1.5, True)
    """

    method: str | None = None
    steps: int | None = option(None, Number(at_least=1, whole=True, powers=True, none=True))

    state_type: ClassVar[type] = DilationState
    no_final_circuit: ClassVar[str] = "its answer is an average of what many circuits measured, and no one circuit's"

    name: ClassVar[str] = "hamiltonian-dilation"
    reaches: ClassVar[str] = (
        "1e-6 in 10 to 30 circuits for n up to 128; with 10 000 shots a circuit within 3 floors of all in 106 of 110"
    )
    kinds = frozenset({Kind.SIMPLEX, Kind.CAPPED_SIMPLEX, Kind.BOX, Kind.BOX_EQUALITY})
    max_n: ClassVar[int | None] = 4096
    default_max_steps: ClassVar[int] = 20_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method not in (None, *METHODS):
            raise ProblemError(f"method={self.method!r} is not known; use one of {', '.join(map(repr, METHODS))}")
        if self.method == "implicit" and self.shots is not None:
            raise ProblemError("method='implicit' needs exact distributions; set shots=None or method='accelerated'")
        if self._plan.adaptive:
            raise ProblemError("shots='adaptive' is not for this solver: its answer is an average; give a number")
        if self.final_shots is not None:
            raise ProblemError("final_shots is not for this solver: its answer is an average over half the steps")

    @property
    def how(self) -> str:
        return self.method or ("implicit" if self.shots is None else "accelerated")

    @property
    def _averages(self) -> bool:
        """Whether the answer is an average."""
        return self.how == "accelerated" or self.shots is not None

    def _last_step(self, preparation: int) -> float:
        """Steps until the solver rests; shots that go before its first circuit."""
        shots = self._plan.first
        if shots is None or self.shot_budget is None:
            return self.steps or (math.inf if shots is None else DEFAULT_STEPS)
        return min(self.steps or math.inf, (self.shot_budget - preparation) // shots - 1)

    def mismatch(self, problem: DualProblem) -> str | None:
        reason = super().mismatch(problem)
        if reason is None and problem.kind is not Kind.SIMPLEX and not np.isfinite(problem.effective_upper).all():
            return f"{self.name!r} needs every upper bound of a box to be finite; try 'working-set'"
        return reason

    def open(self, problem: DualProblem, workspace: Workspace) -> DilationContext:
        lab = super().open(problem, workspace).lab
        dilation = make_dilation(workspace)
        last_step = self._last_step(self._prepared(lab, dilation.circuit))
        return DilationContext(workspace, lab, dilation, self.how, self._plan.first, last_step)

    def start(self, context: DilationContext, rng: np.random.Generator, warm: NDArray | None = None) -> DilationState:
        return engine.start(context, rng, warm)

    def step(self, context: DilationContext, state: DilationState) -> DilationState:
        return engine.step(context, state)

    def alpha(self, state: DilationState) -> NDArray:
        return state.alpha

    def finished(self, state: DilationState) -> bool:
        return state.resting

    def circuit(self, context: DilationContext, state: DilationState) -> ParametricCircuit:
        return context.dilation.circuit

    def cost(self, context: DilationContext, state: DilationState) -> dict[str, Any]:
        """``success_probability`` is the last circuit's, on the simplex."""
        found = super().cost(context, state)
        return found | {"success_probability": state.success if context.dilation.post_selected else None}

    def extras(self, context: DilationContext, state: DilationState) -> dict[str, NDArray]:
        """``parameter_alpha``: α of the last potential, computed and not measured."""
        return super().extras(context, state) | {"parameter_alpha": context.dilation.model(state.V)}

    def final_angles(self, context: DilationContext, state: DilationState) -> NDArray | None:
        """Of the circuit whose α is the answer; an average has none."""
        return None if self._averages else context.dilation.angles(state.V)

    def drowned(self, context: DilationContext, state: DilationState) -> bool:
        circuit, angles = context.dilation.circuit, context.dilation.angles(state.tried)
        return context.lab.drowned(state.account, circuit, angles, state.distribution, context.shots)

    def provenance(self, context: DilationContext, state: DilationState) -> dict[str, Any]:
        averaged = f"average of {max(1, state.taken)} measured states"
        return super().provenance(context, state) | {
            "answer": averaged if self._averages else "the last measured state",
            "least_success_probability": state.least_success if context.dilation.post_selected else None,
        }
