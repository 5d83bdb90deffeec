"""A potential that a diagonal Hamiltonian and one ancilla turn into a distribution, one circuit a step.

Mirror descent whose mirror map is a circuit: the steps of `hamiltonian-dilation`, one circuit each.

Potential, L and m are those of `dilation`.

- "plain": S ← S + ∇f/L, entropic mirror descent (Beck and Teboulle, Oper. Res. Lett. 31, 167 (2003)); in the box
  U ← U + m∘(g + νe).
- "accelerated": with x₀ = z₀, A = 0, and a from La² = A + a, τ = a/(A + a),

      v = (1−τ)x + τz,  S ← S + a∇f(v),  z ← the circuit's α for S,  x ← (1−τ)x + τz,  A ← A + a

  (Nesterov, Math. Program. 103, 127 (2005)). x, an average of measured distributions, is the answer; f(x) − f* ≤
  D(α*, z₀)/A, on the simplex ≤ 4dL log n/(k(k+1)) after k steps taken. From exact distributions L is tried below its
  bound and raised where ½aτ ΔzᵀQΔz > D(z′, z), at the price of the rejected circuit.
- "implicit", from exact distributions: one linearised implicit step of length h, a Newton step to the entropic
  proximal point, taken only if f falls (then 3h, else h/4). α is the last circuit's that was taken.

With shots, L is its bound, and half-way the averages begin again from the present potential. An accelerated x swings
about its end; the answer is the mean of x over the last quarter of the steps, each `Dilation.balanced`.
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

__all__ = ["METHODS", "DilationContext", "DilationState", "HamiltonianDilation", "start", "step"]


#: Implicit: largest change of a potential in a step, factors of the step length after success and failure, and its
#: largest value in units of 1/L, beyond which the system of a singular Q could lose its Cholesky factor.
CLIP, LONGER, SHORTER, LONGEST = 5.0, 3.0, 0.25, 1e10
#: Accelerated, exact: factors of the trial L after success and failure.
EASED, RAISED = 0.9, 2.0


@dataclass(frozen=True)
class DilationContext(QuantumContext):
    """What a run works with; ``last_step`` counts the circuits after the first until it rests."""

    dilation: Dilation
    method: str
    shots: int | None
    last_step: float

    def schedule(self) -> Schedule | None:
        """What a run sends, or None where that depends on what is measured."""
        if self.shots is None or math.isinf(self.last_step):
            return None
        found = Schedule(self.lab)
        for _ in range(1 + max(0, int(self.last_step))):
            found.step(self.dilation.circuit, 1, self.shots)
        return found


@dataclass(frozen=True)
class DilationState:
    """Potential, what was measured for it, and the averages.

    Attributes
    ----------
    V : array of shape (n,)
        Potential −S (simplex) or U (box) of the last circuit that was taken.
    z, response : array of shape (n,)
        α measured for V, and `Measured.response`.
    x : array of shape (n,)
        z itself (implicit; plain from exact distributions), or an average of z's.
    mean, averaged : array of shape (n,), int
        Of the x's of the last quarter of the steps with shots, and how many they are.
    weight : float
        A of the average: accelerated Σa, plain the number of z's in it.
    h : float
        Implicit: step length to try next. Accelerated: 1/L of the next trial. Plain: the step length.
    success, least_success : float
        Share of outcomes kept in the last circuit, and the least so far.
    steps, taken : int
        Circuits after the first, and those of them whose result was taken, since the averages began.
    tried, distribution : array of shape (n,), (2^q,)
        Potential of the last circuit, taken or not, and what it gave.
    """

    V: NDArray
    z: NDArray
    response: NDArray
    x: NDArray
    h: float
    tried: NDArray
    distribution: NDArray
    account: Account
    weight: float = 0.0
    success: float = 1.0
    least_success: float = 1.0
    steps: int = 0
    taken: int = 0
    resting: bool = False
    mean: NDArray = field(default_factory=lambda: np.empty(0))
    averaged: int = 0

    @property
    def alpha(self) -> NDArray:
        """The answer."""
        return self.mean if self.averaged else self.x


def start(context: DilationContext, rng: np.random.Generator, warm: NDArray | None) -> DilationState:
    """The circuit of the even point, or of a warm α, run and read."""
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
    return replace(_taken(state, state.V, found), taken=0, x=found.alpha)


def step(context: DilationContext, state: DilationState) -> DilationState:
    """One more circuit."""
    if context.shots is not None and state.steps == context.last_step // 2:
        state = replace(state, x=state.z, weight=0.0, taken=0)
    state = replace(state, steps=state.steps + 1, resting=state.steps + 1 >= context.last_step)
    last, state = state.steps, METHODS[context.method](context, state)
    if context.shots is None or last <= 0.75 * context.last_step:
        return state
    averaged, x = state.averaged + 1, context.dilation.balanced(state.x)
    mean = x if averaged == 1 else state.mean + (x - state.mean) / averaged
    return replace(state, mean=mean, averaged=averaged)


def _implicit(context: DilationContext, state: DilationState) -> DilationState:
    problem, dilation = context.workspace, context.dilation
    direction = implicit_direction(problem, dilation, Measured(state.z, state.response, state.success), state.h)
    change = np.clip(direction, -CLIP, CLIP)
    V = dilation.settled(state.V + change)
    found, state = _measure(context, state, V, state.z)
    if found is None:
        return replace(state, h=SHORTER * state.h)
    if problem.objective(found.alpha) < problem.objective(state.z):
        h = min(LONGER * state.h, LONGEST / dilation.lipschitz)
        return replace(_taken(state, V, found), x=found.alpha, h=h)
    # Once a trial is that near, what is left of f's fall is below round-off. So short a step rests too: where the
    # equality leaves one point alone, `settled` moves any trial further than the step does.
    near = float(np.abs(found.alpha - state.z).max()) <= 1e-10 * float(np.abs(state.z).max())
    near = near or float(np.abs(change).max()) <= 1e-12
    return replace(state, h=SHORTER * state.h, resting=state.resting or near)


def _plain(context: DilationContext, state: DilationState) -> DilationState:
    dilation = context.dilation
    V = dilation.settled(state.V - state.h * dilation.mobility * context.workspace.gradient(state.z))
    found, state = _measure(context, state, V, state.z)
    if found is None:
        return state
    state = _taken(state, V, found)
    if context.shots is None:
        return replace(state, x=found.alpha)
    return replace(state, x=state.x + (found.alpha - state.x) / (state.weight + 1), weight=state.weight + 1)


def _accelerated(context: DilationContext, state: DilationState) -> DilationState:
    problem, dilation, A, L = context.workspace, context.dilation, state.weight, 1.0 / state.h
    a = (1.0 + math.sqrt(1.0 + 4.0 * L * A)) / (2.0 * L)
    tau = a / (A + a)
    v = (1 - tau) * state.x + tau * state.z
    V = dilation.settled(state.V - a * dilation.mobility * problem.gradient(v))
    found, trial = _measure(context, state, V, state.z)
    if found is None:
        return trial
    if context.shots is None:
        move = found.alpha - state.z
        curvature = 0.5 * a * tau * float(move @ problem.matvec(move))
        if curvature > dilation.distance(V, state.V) and dilation.lipschitz > L:
            return replace(trial, h=1.0 / min(RAISED * L, dilation.lipschitz))
        L *= EASED
    taken = _taken(trial, V, found)
    return replace(taken, x=(1 - tau) * state.x + tau * found.alpha, weight=A + a, h=1.0 / L)


def _measure(
    context: DilationContext, state: DilationState, V: NDArray, previous: NDArray | None
) -> tuple[Measured | None, DilationState]:
    """What the circuit for V says, None if all was discarded, and the state with the circuit booked."""
    dilation = context.dilation
    distribution, account = context.lab.measure(state.account, dilation.circuit, dilation.angles(V), context.shots)
    found = dilation.read(distribution, previous)
    state = replace(state, account=account, tried=V, distribution=distribution)
    if found is None:
        return None, state
    return found, replace(state, success=found.success, least_success=min(found.success, state.least_success))


def _taken(state: DilationState, V: NDArray, found: Measured) -> DilationState:
    return replace(state, V=V, z=found.alpha, response=found.response, taken=state.taken + 1)


METHODS = {"implicit": _implicit, "accelerated": _accelerated, "plain": _plain}


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
        return start(context, rng, warm)

    def step(self, context: DilationContext, state: DilationState) -> DilationState:
        return step(context, state)

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
