"""The solver `hamiltonian-dilation`: mirror descent whose mirror map is a circuit, one circuit a step.

A diagonal Hamiltonian and one ancilla turn a potential into a distribution. The potential, L and m are defined in
`quantum.solvers.dilation`. The methods:

- "plain": S ← S + ∇f/L, entropic mirror descent (Beck and Teboulle, Oper. Res. Lett. 31, 167 (2003)); in the box
  U ← U + m∘(g + νe).
- "accelerated": with x₀ = z₀, A = 0, and a from La² = A + a, τ = a/(A + a),

      v = (1−τ)x + τz,  S ← S + a∇f(v),  z ← the circuit's α for S,  x ← (1−τ)x + τz,  A ← A + a

  (Nesterov, Math. Program. 103, 127 (2005)). The answer is x, an average of measured distributions; f(x) − f* ≤
  D(α*, z₀)/A, on the simplex ≤ 4dL log n/(k(k+1)) after k accepted steps. From exact distributions smaller L than the
  bound are tried; L is raised, and the circuit rejected, if ½aτ ΔzᵀQΔz > D(z′, z).
- "implicit", from exact distributions: one linearised implicit step of length h, a Newton step to the entropic
  proximal point, accepted only if f falls (then h ← 3h, else h ← h/4). α is that of the last accepted circuit.

With shots, L is its bound, and after half of the steps the averages begin again from the present potential. The
accelerated x oscillates about its limit: the answer is the mean of x over the last quarter of the steps, each moved
onto the equality by `Dilation.feasible_alpha`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ...core.options import Number, option
from ...core.problem import DualProblem, Kind
from ...core.workspace import Workspace
from ...exceptions import ProblemError
from ..circuits import ParametricCircuit
from ..runs.batches import Schedule
from ..runs.laboratory import Account, QuantumContext
from .base import QuantumSolver
from .dilation import Dilation, Measured, implicit_direction, make_dilation

#: Implicit: largest change of an entry of the potential in one step.
MAX_POTENTIAL_CHANGE = 5.0
#: Implicit: factor of the step length after an accepted step.
STEP_GROWTH = 3.0
#: Implicit: factor of the step length after a rejected step.
STEP_SHRINK = 0.25
#: Implicit: longest step in units of 1/L. For longer ones the Cholesky factor of a singular Q may not exist.
MAX_STEP = 1e10
#: Accelerated, exact: factor of the trial L after an accepted step.
LIPSCHITZ_DECREASE = 0.9
#: Accelerated, exact: factor of the trial L after a rejected step.
LIPSCHITZ_INCREASE = 2.0
#: With shots: steps by default; the answer comes from their second half.
DEFAULT_STEPS = 200


@dataclass(frozen=True)
class DilationContext(QuantumContext):
    """The data of a run; it ends ``last_step`` circuits after the first."""

    dilation: Dilation
    method: str
    shots: int | None
    last_step: float

    def schedule(self) -> Schedule | None:
        """Return the circuits and shots of a run, or None if they depend on measured results."""
        if self.shots is None or math.isinf(self.last_step):
            return None
        found = Schedule(self.lab)
        for _ in range(1 + max(0, int(self.last_step))):
            found.step(self.dilation.circuit, 1, self.shots)
        return found


@dataclass(frozen=True)
class DilationState:
    """The potential, the α measured for it, and the averages."""

    V: NDArray  # potential −S (simplex) or U (box) of the last accepted circuit; shape (n,)
    #: z, response: α measured for V, and `Measured.response`; shape (n,).
    z: NDArray
    response: NDArray
    x: NDArray  # z itself (implicit; plain from exact distributions), or an average of the z; shape (n,)
    h: float  # Implicit: step length of the next trial. Accelerated: 1/L of the next trial. Plain: the step length.
    #: tried, distribution: potential and outcome of the last circuit, accepted or not; shapes (n,) and (2^q,).
    tried: NDArray
    distribution: NDArray
    account: Account
    weight: float = 0.0  # A of the average: accelerated Σa, plain the number of z in it
    #: success, least_success: share of outcomes kept in the last circuit, and the smallest so far.
    success: float = 1.0
    least_success: float = 1.0
    #: steps, taken: circuits after the first, and accepted ones among them since the averages began.
    steps: int = 0
    taken: int = 0
    resting: bool = False  # the run is finished
    #: mean, averaged: with shots: mean of the x of the last quarter of the steps, and their number; shape (n,).
    mean: NDArray = field(default_factory=lambda: np.empty(0))
    averaged: int = 0

    @property
    def alpha(self) -> NDArray:
        """The answer: the mean if there is one, otherwise x."""
        return self.mean if self.averaged else self.x


def start(context: DilationContext, rng: np.random.Generator, warm: NDArray | None) -> DilationState:
    """Return the state after the first circuit, which prepares equal weights or ``warm``."""
    dilation, nothing = context.dilation, np.zeros(context.workspace.n)
    state = DilationState(
        V=dilation.start(warm),
        z=nothing,
        response=nothing,
        x=nothing,
        h=1.0 / dilation.lipschitz,
        tried=nothing,
        distribution=nothing,
        account=Account.opened(rng),
        resting=context.last_step < 1,
    )
    found, state = _measure(context, state, state.V, None)
    assert found is not None  # for the type checker: an empty first distribution raises
    return replace(_accepted(state, state.V, found), taken=0, x=found.alpha)


def step(context: DilationContext, state: DilationState) -> DilationState:
    """Return the state after one more circuit."""
    if context.shots is not None and state.steps == context.last_step // 2:
        state = replace(state, x=state.z, weight=0.0, taken=0)
    state = replace(state, steps=state.steps + 1, resting=state.steps + 1 >= context.last_step)
    last, state = state.steps, METHODS[context.method](context, state)
    if context.shots is None or last <= 0.75 * context.last_step:
        return state
    averaged, x = state.averaged + 1, context.dilation.feasible_alpha(state.x)
    mean = x if averaged == 1 else state.mean + (x - state.mean) / averaged
    return replace(state, mean=mean, averaged=averaged)


def _implicit(context: DilationContext, state: DilationState) -> DilationState:
    """Make one linearised implicit step, accepted if f falls."""
    problem, dilation = context.workspace, context.dilation
    direction = implicit_direction(problem, dilation, Measured(state.z, state.response, state.success), state.h)
    change = np.clip(direction, -MAX_POTENTIAL_CHANGE, MAX_POTENTIAL_CHANGE)
    V = dilation.feasible_potential(state.V + change)
    found, state = _measure(context, state, V, state.z)
    if found is None:
        return replace(state, h=STEP_SHRINK * state.h)
    if problem.objective(found.alpha) < problem.objective(state.z):
        h = min(STEP_GROWTH * state.h, MAX_STEP / dilation.lipschitz)
        return replace(_accepted(state, V, found), x=found.alpha, h=h)
    # The run ends if α hardly moves, since the remaining fall of f is then below round-off, or if the potential hardly
    # changes: if one point alone is feasible, `feasible_potential` moves every trial further than the step does.
    unmoved = float(np.abs(found.alpha - state.z).max()) <= 1e-10 * float(np.abs(state.z).max())
    unmoved = unmoved or float(np.abs(change).max()) <= 1e-12
    return replace(state, h=STEP_SHRINK * state.h, resting=state.resting or unmoved)


def _plain(context: DilationContext, state: DilationState) -> DilationState:
    """Make one step of entropic mirror descent; with shots x is the running mean of the measured α."""
    dilation = context.dilation
    V = dilation.feasible_potential(state.V - state.h * dilation.mobility * context.workspace.gradient(state.z))
    found, state = _measure(context, state, V, state.z)
    if found is None:
        return state
    state = _accepted(state, V, found)
    if context.shots is None:
        return replace(state, x=found.alpha)
    return replace(state, x=state.x + (found.alpha - state.x) / (state.weight + 1), weight=state.weight + 1)


def _accelerated(context: DilationContext, state: DilationState) -> DilationState:
    """Make one accelerated step; from exact distributions it is rejected if the trial L is too small."""
    problem, dilation, A, L = context.workspace, context.dilation, state.weight, 1.0 / state.h
    a = (1.0 + math.sqrt(1.0 + 4.0 * L * A)) / (2.0 * L)
    tau = a / (A + a)
    v = (1 - tau) * state.x + tau * state.z
    V = dilation.feasible_potential(state.V - a * dilation.mobility * problem.gradient(v))
    found, trial = _measure(context, state, V, state.z)
    if found is None:
        return trial
    if context.shots is None:
        move = found.alpha - state.z
        curvature = 0.5 * a * tau * float(move @ problem.matvec(move))
        if curvature > dilation.distance(V, state.V) and dilation.lipschitz > L:
            return replace(trial, h=1.0 / min(LIPSCHITZ_INCREASE * L, dilation.lipschitz))
        L *= LIPSCHITZ_DECREASE
    accepted = _accepted(trial, V, found)
    return replace(accepted, x=(1 - tau) * state.x + tau * found.alpha, weight=A + a, h=1.0 / L)


def _measure(
    context: DilationContext, state: DilationState, V: NDArray, previous: NDArray | None
) -> tuple[Measured | None, DilationState]:
    """Run the circuit for V; return what it measured, None if no outcome was kept, and the state that counts it."""
    dilation = context.dilation
    distribution, account = context.lab.measure(state.account, dilation.circuit, dilation.angles(V), context.shots)
    found = dilation.read(distribution, previous)
    state = replace(state, account=account, tried=V, distribution=distribution)
    if found is None:
        return None, state
    return found, replace(state, success=found.success, least_success=min(found.success, state.least_success))


def _accepted(state: DilationState, V: NDArray, found: Measured) -> DilationState:
    """Return the state at V, with what was measured there."""
    return replace(state, V=V, z=found.alpha, response=found.response, taken=state.taken + 1)


METHODS = {"implicit": _implicit, "accelerated": _accelerated, "plain": _plain}


@dataclass(frozen=True)
class HamiltonianDilation(QuantumSolver[DilationContext, DilationState]):
    """Mirror descent whose mirror map is a circuit with a diagonal Hamiltonian and one ancilla; hybrid.

    A potential S of shape (n,) is kept classically. The circuit has ⌈log₂ n⌉ + 1 qubits. It puts the index register
    into the uniform superposition and applies exp(−iΘ⊗Y), Θ = diag(θᵢ), to index and ancilla. All terms of Θ⊗Y
    commute, so that there is no Trotter error: one multiplexed RY(2θᵢ), 2^q RY and 2^q CX for 2^q ≥ n (Möttönen et
    al., PRL 93, 130502 (2004)).

    Simplex: cos θᵢ = e^{−(Sᵢ−S_min)/2}, and outcomes with the ancilla in 0 are kept. They show e^{−S/2}|+…+⟩
    normalised, the result of imaginary time under diag(S) (with one ancilla: Kosugi, Nishiya, Nishi, Matsushita, Phys.
    Rev. Research 4, 033121 (2022)), so that μᵢ ∝ e^{−Sᵢ}. The probability of being kept is 1/(2^q max μ), at worst
    2^−q; it does not compound, since every step prepares its state from the beginning. Amplitudes are ≥ 0, so that
    counts determine them.
    Box: sin² θᵢ = sigmoid(Uᵢ), αᵢ = uᵢ P(1|i); both outcomes are used, nothing is post-selected, and an index gets
    about shots/2^q of the shots. The capped simplex is a box with an equality.

    Classical parts: ∇f = Qα − p from the measured α, O(n²) a step; the potential; ν of the equality; and n angles
    for n unknowns with their Walsh transform. The circuit, of depth O(n), samples a distribution that a classical
    computer writes down in O(n): no quantum advantage is claimed, and the control "classical-sampler" does as well.

    method="plain" is entropic mirror descent. "accelerated" averages the measured distributions, with a gap of order
    1/k² after k steps; "implicit", from exact distributions, makes Newton steps to entropic proximal points: it solves
    an n × n system classically, O(n³), and takes 10 to 30 circuits to a relative gap of 1e-6, "accelerated" thousands.
    Formulas and papers: module `quantum.solvers.hamiltonian_dilation`.

    With shots the answer is an average over the second half of the steps, which does not depend on the start: for
    "accelerated" the mean over the last quarter, since its averages oscillate; ``cost.shots`` counts all shots. Counts
    miss the equality of a box; it is met by one t in α = u sigmoid(U + t·m∘e), so that a variable at a bound stays
    there. A measured α is never prepared again, so that an index without counts is not lost.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 9 qubits, 256 CX and depth 1,536 a circuit at n =
    256, CX growing as n; 201 circuits a run, the same at every n; by the model, 11,264 T gates a shot.

    Parameters
    ----------
    device, shots, shot_budget, mitigation, journal
        As for every solver that runs circuits (`QuantumSolver`); "adaptive" shots and ``final_shots`` are refused.
    method : {"implicit", "accelerated", "plain"}, optional
        By default "implicit" from exact distributions, "accelerated" with shots.
    steps : int, optional
        Circuits after the first. By default 200 with shots, or as many as ``shot_budget`` holds; from exact
        distributions the gap ends the run.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        The device is not known, lacks a capability that the options need, or is not installed; or no outcome of its
        first circuit was kept.

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
    def answers_by_average(self) -> bool:
        """Whether the answer is an average."""
        return self.how == "accelerated" or self.shots is not None

    def _last_step(self, preparation: int) -> float:
        """Return the number of steps of a run, given the shots that its preparation takes."""
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
        return start(context, rng, warm)

    def step(self, context: DilationContext, state: DilationState) -> DilationState:
        return step(context, state)

    def finished(self, state: DilationState) -> bool:
        return state.resting

    def circuit(self, context: DilationContext, state: DilationState) -> ParametricCircuit:
        return context.dilation.circuit

    def cost(self, context: DilationContext, state: DilationState) -> dict[str, Any]:
        """Return the cost; ``success_probability`` is that of the last circuit, on the simplex."""
        found = super().cost(context, state)
        return found | {"success_probability": state.success if context.dilation.post_selected else None}

    def extras(self, context: DilationContext, state: DilationState) -> dict[str, NDArray]:
        """Return the extras; ``parameter_alpha`` is α of the last potential, computed and not measured."""
        return super().extras(context, state) | {"parameter_alpha": context.dilation.model(state.V)}

    def final_angles(self, context: DilationContext, state: DilationState) -> NDArray:
        """Return the angles of the circuit whose α is the answer; for an average they are computed from it."""
        V = context.dilation.potential(state.alpha) if self.answers_by_average else state.V
        return context.dilation.angles(V)

    def is_noise_dominated(self, context: DilationContext, state: DilationState) -> bool:
        circuit, angles = context.dilation.circuit, context.dilation.angles(state.tried)
        return context.lab.is_noise_dominated(state.account, circuit, angles, state.distribution, context.shots)

    def provenance(self, context: DilationContext, state: DilationState) -> dict[str, Any]:
        averaged = f"average of {max(1, state.taken)} measured states"
        return super().provenance(context, state) | {
            "answer": averaged if self.answers_by_average else "the last measured state",
            "least_success_probability": state.least_success if context.dilation.post_selected else None,
        }
