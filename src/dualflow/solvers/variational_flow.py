"""The simplex flow on a parametrised quantum state: McLachlan's principle, hybrid, one batch of circuits a step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..exceptions import ProblemError
from ..integrate.scipy_ivp import ivp_step
from ..quantum.circuits import ParametricCircuit
from ..quantum.engines.ansatz import ANSAETZE, Ansatz, make_ansatz, normalised, too_many_angles
from ..quantum.engines.variational_flow import faithful_rate, sampling_variance, semi_implicit_step, slope
from ..quantum.runs.laboratory import Account, Laboratory, open_account
from .quantum import QuantumSolver

__all__ = ["VariationalFlow"]

INTEGRATORS = ("semi-implicit", "lsoda")
#: Largest change of an angle in a step, from exact distributions and from counts.
CLIP_EXACT, CLIP_SAMPLED = 0.8, 0.4
#: With shots: growth of h a step, and its largest value in units of the flow's time scale.
GROWTH_SAMPLED, LARGEST_STEP = 1.8, 100.0
#: With shots: after a quarter of the steps step k is scaled by k^−0.9, so that the shot noise averages out
#: (Robbins and Monro 1951; the exponent must lie in (½, 1]).
AVERAGING = 0.9
DEFAULT_STEPS = 40
#: Share of the fall it promised that a step must show; else the promise was made of noise in the tangents.
PROMISE = 0.25
#: Tolerances of LSODA, absolute and relative, on angles.
LSODA_TOLERANCE = 1e-9


@dataclass(frozen=True)
class VariationalFlowState:
    """Angles, what was measured at them, and the controls of the step.

    Attributes
    ----------
    theta : array of shape (P,)
    distributions : array of shape (2^q,) or (k, 2^q)
        Measured for ``theta``, little-endian: of the k circuits of a step (θ itself first), or of θ alone; with
        ``shots_behind`` shots each, 0 for exact ones.
    h, flow_time : float
        Next step, and the sum of those taken.
    steps : int
        Tried, rejected ones included.
    resting : bool
        No step is left that lowers f (exact), or the budget of steps is spent (shots).
    measured_finally : bool
        No read-out with ``final_shots`` is to come.
    account : dict
        Of `quantum.runs.laboratory`.
    kept : bool
        With shots: the last step took off f what it promised, or a fair part of it.
    """

    theta: NDArray
    distributions: NDArray
    shots_behind: int
    h: float
    flow_time: float
    steps: int
    resting: bool
    measured_finally: bool
    account: Account
    total: float
    kept: bool
    lab: Laboratory = field(repr=False, metadata={"saved": False})
    ansatz: Ansatz = field(repr=False, metadata={"saved": False})


@dataclass(frozen=True)
class VariationalFlow(QuantumSolver):
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

    From exact distributions a step is taken only if f falls (then h doubles, else h/4); with counts every step is
    taken, h grows at once, and the last three quarters of the steps are damped so that shot noise averages out.
    α is the distribution measured in the final state; μ(θ), known from the angles and far less noisy, is the
    classical by-product ``extras["parameter_alpha"]``.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance.
    shots : int, "adaptive" or None
        Of each circuit; None asks the device for exact distributions. "adaptive" begins with 100
        and takes half as many again whenever their noise in f is above a quarter of the fall the step promises,
        until ``shot_budget`` is spent.
    ansatz : {"tree", "hardware-efficient"}
    layers : int ≥ 0, optional
        Of the hardware-efficient ansatz: (layers + 1)·q angles. By default about 1.25 n angles.
    integrator : {"semi-implicit", "lsoda"}
        "lsoda" follows the flow faithfully from exact distributions, ``time_step`` a step up to ``t_end``.
    final_shots : int, optional
        Of the final state's own circuit, when the run ends by its budget; ``shots`` by default, with "adaptive" 10 000.
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
        An option is out of range, or the hardware-efficient ansatz is given a warm start.
    DeviceError, SolverUnavailable
        From `start`: the device is not known, cannot do what is asked, or is not installed.
    """

    ansatz: str = "tree"
    steps: int | None = None
    layers: int | None = None
    integrator: str = "semi-implicit"
    time_step: float | None = None
    t_end: float | None = None

    name: ClassVar[str] = "variational-flow"
    reaches: ClassVar[str] = "exact; with shots within 3 × the shot floor"
    kinds = frozenset({Kind.SIMPLEX})
    max_n: ClassVar[int | None] = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.ansatz not in ANSAETZE:
            raise ProblemError(f"ansatz={self.ansatz!r} is not known; use one of {', '.join(map(repr, ANSAETZE))}")
        make_ansatz(self.ansatz, 2, self.layers)  # refuses bad layers
        if self.steps is not None and (
            type(self.steps) is bool or not isinstance(self.steps, Integral) or self.steps < 1
        ):
            raise ProblemError(f"steps={self.steps!r} must be an integer ≥ 1")
        if self.integrator not in INTEGRATORS:
            raise ProblemError(f"integrator={self.integrator!r} is not one of {', '.join(INTEGRATORS)}")
        if self.integrator == "lsoda" and self.shots is not None:
            raise ProblemError("integrator='lsoda' follows exact distributions; set shots=None")
        for option, value in (("time_step", self.time_step), ("t_end", self.t_end)):
            if value is not None and (self.integrator != "lsoda" or not 0 < value < np.inf):
                raise ProblemError(f"{option}={value!r} must be a finite number > 0, and integrator='lsoda'")

    def mismatch(self, problem: DualProblem) -> str | None:
        return super().mismatch(problem) or too_many_angles(self.name, self.ansatz, problem.n, self.layers)

    def start(
        self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None
    ) -> VariationalFlowState:
        problem.dense()  # before any product: with Q at hand products round differently, and runs are repeatable
        state = self._unmeasured(problem, rng, warm)
        state = self._measured(state, state.theta, self._plan.first)
        return replace(state, resting=problem.n == 1)

    def blank(self, problem: DualProblem) -> VariationalFlowState:
        problem.dense()
        return self._unmeasured(problem, np.random.default_rng(0), None)

    def _unmeasured(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None) -> VariationalFlowState:
        ansatz = make_ansatz(self.ansatz, problem.n, self.layers)
        theta = ansatz.start(None if warm is None else np.maximum(warm, 0.0), rng)
        largest = max(float(problem.diag().max()), float(np.ptp(problem.p)))
        return VariationalFlowState(
            theta=ansatz.move(theta, np.zeros_like(theta), self.shots is None),
            distributions=np.empty(0),
            shots_behind=0,
            h=1.0 / (problem.d * largest) if largest > 0 else 1.0,
            flow_time=0.0,
            steps=0,
            resting=False,
            measured_finally=self._plan.final is None,
            account=open_account(rng),
            total=problem.d,
            kept=True,
            lab=self._laboratory(),
            ansatz=ansatz,
        )

    def step(self, problem: DualProblem, state: VariationalFlowState) -> VariationalFlowState:
        if state.resting:
            shots = self._plan.final
            pi, account = state.lab.measure(state.account, state.ansatz.circuit, state.theta, shots)
            return replace(state, distributions=pi, shots_behind=shots or 0, account=account, measured_finally=True)
        if self.integrator == "lsoda":
            return self._follow(problem, state)
        return self._exact_step(problem, state) if self.shots is None else self._sampled_step(problem, state)

    def alpha(self, state: VariationalFlowState) -> NDArray:
        return state.total * state.ansatz.measured(state.distributions)

    def finished(self, state: VariationalFlowState) -> bool:
        return state.resting and state.measured_finally

    def time(self, state: VariationalFlowState) -> float | None:
        return state.flow_time

    def circuit(self, state: VariationalFlowState) -> ParametricCircuit:
        return state.ansatz.circuit

    def extras(self, state: VariationalFlowState) -> dict[str, NDArray]:
        """``parameter_alpha``: d·μ(θ), computed from the angles and not measured."""
        mu = state.ansatz.measured(state.ansatz.circuit.distribution(state.theta))
        return super().extras(state) | {"parameter_alpha": state.total * mu}

    def final_angles(self, state: VariationalFlowState) -> NDArray:
        return state.theta

    def drowned(self, state: VariationalFlowState) -> bool:
        found, circuit = np.atleast_2d(state.distributions)[0], state.ansatz.circuit
        return state.lab.drowned(state.account, circuit, state.theta, found, state.shots_behind or None)

    def provenance(self, state: VariationalFlowState) -> dict[str, Any]:
        ansatz = state.ansatz
        about = {
            "ansatz": self.ansatz,
            "circuits_a_step": ansatz.circuits_a_step(self.shots is None),
            "padding": ansatz.padding,
        }
        return super().provenance(state) | about

    # --- the steps -----------------------------------------------------------------------------

    def _exact_step(self, problem: DualProblem, state: VariationalFlowState) -> VariationalFlowState:
        step, _ = semi_implicit_step(problem, state.ansatz, state.distributions, state.h, None)
        trial = state.ansatz.move(state.theta, np.clip(step, -CLIP_EXACT, CLIP_EXACT), True)
        moved = self._measured(replace(state, steps=state.steps + 1), trial, None)
        if self._objective(problem, moved) < self._objective(problem, state):
            return replace(moved, h=2.0 * state.h, flow_time=state.flow_time + state.h)
        # A rejected trial costs its circuits and leaves the state where it was; once the trial is that near,
        # what is left of f's fall is below round-off.
        resting = bool(np.abs(trial - state.theta).max() < 1e-9)
        return replace(state, steps=moved.steps, account=moved.account, h=0.25 * state.h, resting=resting)

    def _sampled_step(self, problem: DualProblem, state: VariationalFlowState) -> VariationalFlowState:
        ansatz, plan, circuits = state.ansatz, self._plan, state.ansatz.circuits_a_step(False)
        step, fall = semi_implicit_step(problem, ansatz, state.distributions, state.h, state.shots_behind)
        steps = DEFAULT_STEPS if self.steps is None and not plan.adaptive else self.steps
        if not plan.adaptive and steps is not None:
            step = step * max(1, state.steps - steps // 4 + 1) ** -AVERAGING
        noise = sampling_variance(problem, ansatz, state.distributions)
        shots = plan.next(state.shots_behind, fall if state.kept else 0.0, noise, state.account, circuits)
        trial = ansatz.move(state.theta, np.clip(step, -CLIP_SAMPLED, CLIP_SAMPLED), False)
        moved = self._measured(replace(state, steps=state.steps + 1), trial, shots)
        kept = self._objective(problem, state) - self._objective(problem, moved) > PROMISE * fall
        growth = GROWTH_SAMPLED if kept or not plan.adaptive else 1.0 / GROWTH_SAMPLED
        return replace(
            moved,
            h=min(state.h * growth, max(LARGEST_STEP / slope(problem), state.h)),
            flow_time=state.flow_time + state.h,
            resting=moved.steps == steps or plan.exhausted(moved.shots_behind, moved.account, circuits),
            kept=kept,
        )

    def _follow(self, problem: DualProblem, state: VariationalFlowState) -> VariationalFlowState:
        """`time_step` of A θ̇ = b by LSODA, whose every evaluation is a batch of circuits."""
        account, ansatz = state.account, state.ansatz

        def rate(t: float, theta: NDArray) -> NDArray:
            nonlocal account
            distributions, account = state.lab.measure(account, ansatz.circuit, ansatz.bindings(theta, True), None)
            return faithful_rate(problem, ansatz, distributions)

        h = self.time_step or 1.0
        if self.t_end is not None:
            h = min(h, self.t_end - state.flow_time)
        theta = ivp_step(rate, state.flow_time, state.theta, h, rtol=LSODA_TOLERANCE, atol=LSODA_TOLERANCE)
        moved = self._measured(replace(state, account=account, steps=state.steps + 1), theta, None)
        flow_time = state.flow_time + h
        over = self.t_end is not None and flow_time >= self.t_end * (1 - 1e-12)
        return replace(moved, flow_time=flow_time, resting=over)

    def _measured(self, state: VariationalFlowState, theta: NDArray, shots: int | None) -> VariationalFlowState:
        """The state at other angles, with the circuits of a step run there."""
        ansatz = state.ansatz
        distributions, account = state.lab.measure(
            state.account, ansatz.circuit, ansatz.bindings(theta, shots is None), shots
        )
        normalised(ansatz.measured(distributions))  # nothing but padding measured is an error, and at once
        return replace(state, theta=theta, distributions=distributions, shots_behind=shots or 0, account=account)

    def _objective(self, problem: DualProblem, state: VariationalFlowState) -> float:
        return problem.objective(problem.d * state.ansatz.known(state.distributions))
