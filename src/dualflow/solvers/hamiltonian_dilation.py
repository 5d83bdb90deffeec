"""A potential that a diagonal Hamiltonian and one ancilla turn into a distribution, one circuit a step."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..exceptions import ProblemError
from ..quantum.circuits import ParametricCircuit
from ..quantum.engines.hamiltonian_dilation import DilationState, Reading, implicit_direction, make_dilation
from ..quantum.runs.laboratory import open_account
from .quantum import QuantumSolver

__all__ = ["HamiltonianDilation"]

METHODS = ("implicit", "accelerated", "plain")
#: With shots: steps, of which the second half is the answer.
DEFAULT_STEPS = 200
#: Implicit: largest change of a potential in a step, factors of the step length after success and failure, and its
#: largest value in units of 1/L, beyond which the system of a singular Q could lose its Cholesky factor.
CLIP, LONGER, SHORTER, LONGEST = 5.0, 3.0, 0.25, 1e10
#: Accelerated, exact: factors of the trial L after success and failure.
EASED, RAISED = 0.9, 2.0


@dataclass(frozen=True)
class HamiltonianDilation(QuantumSolver):
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

    method="plain": S ← S + F/L, entropic mirror descent (Beck and Teboulle, Oper. Res. Lett. 31, 167 (2003)); in the
    box U ← U + m∘(g + νe). L and m as in `quantum.engines.hamiltonian_dilation`.
    method="accelerated": with x₀ = z₀, A = 0, and a from La² = A + a, τ = a/(A + a),

        v = (1−τ)x + τz,  S ← S + a∇f(v),  z ← the circuit's α for S,  x ← (1−τ)x + τz,  A ← A + a

    (Nesterov, Math. Program. 103, 127 (2005)). x, an average of measured distributions, is the answer; f(x) − f* ≤
    D(α*, z₀)/A, on the simplex ≤ 4dL log n/(k(k+1)) after k steps taken. From exact distributions L is tried below its
    bound and raised where ½aτ ΔzᵀQΔz > D(z′, z), at the price of the rejected circuit.
    method="implicit", from exact distributions: one linearised implicit step of length h, a Newton step to the
    entropic proximal point, taken only if f falls (then 3h, else h/4). It solves an n × n system classically, O(n³),
    and takes 10 to 30 circuits to a relative gap of 1e-6; "accelerated" takes thousands. α is the last circuit's that
    was taken.

    With shots, L is its bound, and half-way the averages begin again from the present potential: the answer is the
    average over the second half, which forgets the start and has the shot noise of about 3/8 of all circuits;
    ``cost.shots`` counts all. A measured α is never prepared again, so an index without counts is not lost.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance.
    shots : int or None
        Of each circuit; None asks the device for exact distributions.
    final_shots : None
        Not used: the answer with shots is an average over the second half.
    shot_budget : int, optional
        With shots: shots the whole run may take.
    mitigation, journal
        As for every solver that runs circuits (`QuantumSolver`).
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
        From `start`: the device is not known, cannot do what is asked, or is not installed; or it measured nothing that
        could be kept.
    """

    method: str | None = None
    steps: int | None = None

    name: ClassVar[str] = "hamiltonian-dilation"
    reaches: ClassVar[str] = "1e-6 in 10 to 30 circuits for n up to 128; with shots within 3 × the shot floor"
    kinds = frozenset({Kind.SIMPLEX, Kind.CAPPED_SIMPLEX, Kind.BOX, Kind.BOX_EQUALITY})
    max_n: ClassVar[int | None] = 4096
    default_max_steps: ClassVar[int] = 20_000

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method is not None and self.method not in METHODS:
            raise ProblemError(f"method={self.method!r} is not known; use one of {', '.join(map(repr, METHODS))}")
        if self.method == "implicit" and self.shots is not None:
            raise ProblemError("method='implicit' needs exact distributions; set shots=None or method='accelerated'")
        if self._plan.adaptive:
            raise ProblemError("shots='adaptive' is not for this solver: its answer is an average; give a number")
        if self.final_shots is not None:
            raise ProblemError("final_shots is not for this solver: its answer is an average over half the steps")
        integer = isinstance(self.steps, Integral) and type(self.steps) is not bool
        if self.steps is not None and not (integer and self.steps >= 1):
            raise ProblemError(f"steps={self.steps!r} must be an integer ≥ 1")

    @property
    def _method(self) -> str:
        return self.method or ("implicit" if self.shots is None else "accelerated")

    @property
    def _averages(self) -> bool:
        """Whether the answer is an average."""
        return self._method == "accelerated" or self.shots is not None

    @property
    def _last_step(self) -> float:
        """Steps until the solver rests."""
        if self.shots is None:
            return math.inf if self.steps is None else self.steps
        if self.shot_budget is None:
            return self.steps or DEFAULT_STEPS
        shots = int(self.shots)
        return min(self.steps or math.inf, (self.shot_budget - self._calibration) // shots - 1)

    def mismatch(self, problem: DualProblem) -> str | None:
        reason = super().mismatch(problem)
        if reason is None and problem.kind is not Kind.SIMPLEX and not np.isfinite(problem.effective_upper).all():
            return f"{self.name!r} needs every upper bound of a box to be finite; try 'working-set'"
        return reason

    def start(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None) -> DilationState:
        problem.dense()  # before any product: with Q at hand products round differently, and runs are repeatable
        state = self._unmeasured(problem, rng, warm)
        found, state = self._measure(state, state.V, None)
        assert found is not None  # for the type checker: an empty first distribution raises
        state = replace(self._taken(state, state.V, found), taken=0)
        return replace(state, x=found.alpha, resting=self._last_step < 1)

    def blank(self, problem: DualProblem) -> DilationState:
        problem.dense()
        return self._unmeasured(problem, np.random.default_rng(0), None)

    def _unmeasured(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None) -> DilationState:
        dilation, nothing = make_dilation(problem), np.zeros(problem.n)
        return DilationState(
            V=dilation.start(warm),
            z=nothing,
            response=nothing,
            x=nothing,
            weight=0.0,
            h=1.0 / dilation.lipschitz,
            success=1.0,
            least_success=1.0,
            steps=0,
            taken=0,
            resting=False,
            tried=nothing,
            distribution=np.empty(0),
            account=open_account(rng),
            lab=self._laboratory(),
            dilation=dilation,
        )

    def step(self, problem: DualProblem, state: DilationState) -> DilationState:
        if self.shots is not None and state.steps == self._last_step // 2:
            state = replace(state, x=state.z, weight=0.0, taken=0)
        state = replace(state, steps=state.steps + 1, resting=state.steps + 1 >= self._last_step)
        if self._method == "implicit":
            return self._implicit(problem, state)
        return self._plain(problem, state) if self._method == "plain" else self._accelerated(problem, state)

    def alpha(self, state: DilationState) -> NDArray:
        return state.x

    def finished(self, state: DilationState) -> bool:
        return state.resting

    def circuit(self, state: DilationState) -> ParametricCircuit:
        return state.dilation.circuit

    def cost(self, state: DilationState) -> dict[str, float | int | None]:
        """``success_probability`` is the last circuit's, on the simplex."""
        return super().cost(state) | {"success_probability": state.success if state.dilation.post_selected else None}

    def extras(self, state: DilationState) -> dict[str, NDArray]:
        """``parameter_alpha``: α of the last potential, computed and not measured."""
        return super().extras(state) | {"parameter_alpha": state.dilation.model(state.V)}

    def final_angles(self, state: DilationState) -> NDArray | None:
        """Of the circuit whose α is the answer; an average has none."""
        return None if self._averages else state.dilation.angles(state.V)

    def drowned(self, state: DilationState) -> bool:
        dilation = state.dilation
        angles, shots = dilation.angles(state.tried), self._plan.first
        return state.lab.drowned(state.account, dilation.circuit, angles, state.distribution, shots)

    def provenance(self, state: DilationState) -> dict[str, Any]:
        return super().provenance(state) | {
            "method": self._method,
            "answer": f"average of {max(1, state.taken)} measured states"
            if self._averages
            else "the last measured state",
            "least_success_probability": state.least_success if state.dilation.post_selected else None,
        }

    # --- the steps -----------------------------------------------------------------------------

    def _implicit(self, problem: DualProblem, state: DilationState) -> DilationState:
        dilation, reading = state.dilation, Reading(state.z, state.response, state.success)
        step = np.clip(implicit_direction(problem, dilation, reading, state.h), -CLIP, CLIP)
        V = dilation.settled(state.V + step)
        found, state = self._measure(state, V, state.z)
        if found is None:
            return replace(state, h=SHORTER * state.h)
        if problem.objective(found.alpha) < problem.objective(state.z):
            h = min(LONGER * state.h, LONGEST / dilation.lipschitz)
            return replace(self._taken(state, V, found), x=found.alpha, h=h)
        # Once a trial is that near, what is left of f's fall is below round-off. So short a step rests too: where the
        # equality leaves one point alone, `settled` moves any trial further than the step does.
        near = float(np.abs(found.alpha - state.z).max()) <= 1e-10 * float(np.abs(state.z).max())
        near = near or float(np.abs(step).max()) <= 1e-12
        return replace(state, h=SHORTER * state.h, resting=state.resting or near)

    def _plain(self, problem: DualProblem, state: DilationState) -> DilationState:
        V = state.dilation.settled(state.V - state.h * state.dilation.mobility * problem.gradient(state.z))
        found, state = self._measure(state, V, state.z)
        if found is None:
            return state
        state = self._taken(state, V, found)
        if self.shots is None:
            return replace(state, x=found.alpha)
        return replace(state, x=state.x + (found.alpha - state.x) / (state.weight + 1), weight=state.weight + 1)

    def _accelerated(self, problem: DualProblem, state: DilationState) -> DilationState:
        dilation, A, L = state.dilation, state.weight, 1.0 / state.h
        a = (1.0 + math.sqrt(1.0 + 4.0 * L * A)) / (2.0 * L)
        tau = a / (A + a)
        v = (1 - tau) * state.x + tau * state.z
        V = dilation.settled(state.V - a * dilation.mobility * problem.gradient(v))
        found, trial = self._measure(state, V, state.z)
        if found is None:
            return trial
        if self.shots is None:
            move = found.alpha - state.z
            curvature = 0.5 * a * tau * float(move @ problem.matvec(move))
            if curvature > dilation.distance(V, state.V) and dilation.lipschitz > L:
                return replace(trial, h=1.0 / min(RAISED * L, dilation.lipschitz))
            L *= EASED
        taken = self._taken(trial, V, found)
        return replace(taken, x=(1 - tau) * state.x + tau * found.alpha, weight=A + a, h=1.0 / L)

    def _measure(
        self, state: DilationState, V: NDArray, previous: NDArray | None
    ) -> tuple[Reading | None, DilationState]:
        """What the circuit for V says, None if all was discarded, and the state with the circuit booked."""
        angles, shots = state.dilation.angles(V), self._plan.first
        distribution, account = state.lab.measure(state.account, state.dilation.circuit, angles, shots)
        found = state.dilation.read(distribution, previous)
        state = replace(state, account=account, tried=V, distribution=distribution)
        if found is None:
            return None, state
        return found, replace(state, success=found.success, least_success=min(found.success, state.least_success))

    def _taken(self, state: DilationState, V: NDArray, found: Reading) -> DilationState:
        return replace(state, V=V, z=found.alpha, response=found.response, taken=state.taken + 1)
