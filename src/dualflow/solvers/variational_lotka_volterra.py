"""The box flow on ancilla angles: Lotka-Volterra competition, hybrid, one circuit a step."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..exceptions import ProblemError
from ..flows.gradient import GradientField
from ..integrate.scipy_ivp import ivp_step
from ..quantum.circuits import ParametricCircuit
from ..quantum.engines.box import LEAST_ANGLE, BoxEncoding
from ..quantum.engines.variational_lotka_volterra import (
    acceptable,
    exact_multiplier,
    faithful_rate,
    first_step,
    primal_dual_step,
    sampling_variance,
)
from ..quantum.runs.laboratory import Account, Laboratory, open_account
from .quantum import QuantumSolver

__all__ = ["VariationalLotkaVolterra"]

INTEGRATORS = ("semi-implicit", "lsoda")
#: Largest change of an angle in a step, from exact distributions and from counts.
CLIP_EXACT, CLIP_SAMPLED = 0.8, 0.4
#: With shots: growth of h a step, and its largest value in units of the first one.
GROWTH_SAMPLED, LARGEST_STEP = 1.3, 50.0
#: With shots: step k of the second half is scaled by k^−0.6, so that the shot noise of its circuits averages out
#: (Robbins and Monro 1951; the exponent must lie in (½, 1]).
AVERAGING = 0.6
DEFAULT_STEPS = 60
#: Tolerances of LSODA, absolute and relative, on angles (and λ).
LSODA_TOLERANCE = 1e-9


@dataclass(frozen=True)
class VariationalLotkaVolterraState:
    """Angles, what was measured at them, and the controls of the step.

    Attributes
    ----------
    theta, measured : arrays of shape (n,)
        Angles in [0, π], and α measured there; an index that no shot fell on keeps what was measured before, u/2 first.
    useful : float
        Share of the outcomes that belong to one of the n indices; the others fell on padding.
    lam : float
        λ, in the sign of ρ = Qα − p − λe.
    shots_behind : int
        Behind ``measured``; 0 for an exact distribution.
    h, flow_time : float
        Step size to try next, and the sum of the steps taken, in units of flow time.
    steps : int
        Steps tried, rejected ones included.
    resting, measured_finally : bool
        No step is left that lowers f (exact), or the budget is spent (shots); the final read-out has been made.
    account : dict
        Circuits, shots, seconds and jobs so far (`quantum.runs.laboratory`).
    lab, box
        Made again by `VariationalLotkaVolterra.start`.
    """

    theta: NDArray
    measured: NDArray
    useful: float
    lam: float
    shots_behind: int
    h: float
    flow_time: float
    steps: int
    resting: bool
    measured_finally: bool
    account: Account
    lab: Laboratory = field(repr=False, metadata={"saved": False})
    box: BoxEncoding = field(repr=False, metadata={"saved": False})


@dataclass(frozen=True)
class VariationalLotkaVolterra(QuantumSolver):
    """Lotka-Volterra flow over a box in the angles of an ancilla, hybrid, one circuit a step.

    A uniform register of ⌈log₂ n⌉ qubits turns an ancilla, index i by θᵢ: αᵢ = uᵢ P(1|i) = uᵢ sin²(θᵢ/2), read from
    both outcomes of the ancilla, nothing post-selected. n angles for n unknowns: a classical parametrisation of the
    box, run on qubits. The flow α̇ = w(g + λe), w = α(u − α)/u, g = p − Qα, becomes θ̇ᵢ = ½ sin θᵢ (gᵢ + λeᵢ); Howell's
    (16) has w = a(C − a), the same path C times faster. λ is the exact multiplier (the gradient flow), or the
    dynamic resource λ̇ = −(eᵀα − d)/τ (Howell eq. 7, 16), and 0 without an equality.

    All but the read-out of α is classical: Qα in O(n²), and a linearised implicit Euler step of θ and λ together in
    O(n³) (`quantum.engines.variational_lotka_volterra` has its equations). No speed-up over classical solvers is
    claimed.

    From exact distributions a step is taken only if f falls, each α shifted along e in log-odds to eᵀα = d (then h
    doubles, else h/4); with the exact multiplier the angles are shifted too, so that eᵀα = d on the way. With counts
    every step is taken, h grows slowly, and the second half of the steps is damped so that shot noise averages out.
    α is what was measured in the final state; u sin²(θ/2), known from the angles and far less noisy, is the
    classical by-product ``extras["parameter_alpha"]``. Each index gets about shots/n of the shots and an error of
    u√(P(1 − P)n/shots): where α lies far below u (large C) shots show little, and the shot floor says so.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance.
    shots : int, "adaptive" or None
        Of each circuit, about shots/n on each variable; None asks the device for exact distributions. "adaptive" as
        for `VariationalFlow`; it rests once what is left does not pay for another circuit as good as the last.
    tau : float > 0, optional
        Time scale of a dynamic λ; Howell's is 1. None: the exact multiplier, the limit τ → 0.
    integrator : {"semi-implicit", "lsoda"}
        "lsoda" follows the flow faithfully from exact distributions, ``time_step`` a step up to ``t_end``.
    final_shots, steps, shot_budget : int, optional
        As for `VariationalFlow`; 60 steps by default.
    time_step, t_end : float, optional
        Of "lsoda", in units of flow time: 1 and no end by default.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        From `start`: the device is not known, cannot do what is asked, or is not installed.
    """

    steps: int | None = None
    tau: float | None = None
    integrator: str = "semi-implicit"
    time_step: float | None = None
    t_end: float | None = None

    name: ClassVar[str] = "variational-lotka-volterra"
    reaches: ClassVar[str] = "1e-6 in at most 60 steps for n up to 256; with shots within 3 × the shot floor"
    kinds = frozenset({Kind.BOX, Kind.BOX_EQUALITY, Kind.CAPPED_SIMPLEX})
    max_n: ClassVar[int | None] = 4096
    encoding: ClassVar[str | None] = "box"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.steps is not None and (
            type(self.steps) is bool or not isinstance(self.steps, Integral) or self.steps < 1
        ):
            raise ProblemError(f"steps={self.steps!r} must be an integer ≥ 1")
        if self.tau is not None and not 0 < self.tau < np.inf:
            raise ProblemError(f"tau={self.tau!r} must be a finite number > 0, or None for the exact multiplier")
        if self.integrator not in INTEGRATORS:
            raise ProblemError(f"integrator={self.integrator!r} is not one of {', '.join(INTEGRATORS)}")
        if self.integrator == "lsoda" and self.shots is not None:
            raise ProblemError("integrator='lsoda' follows exact distributions; set shots=None")
        for option, value in (("time_step", self.time_step), ("t_end", self.t_end)):
            if value is not None and (self.integrator != "lsoda" or not 0 < value < np.inf):
                raise ProblemError(f"{option}={value!r} must be a finite number > 0, and integrator='lsoda'")

    def mismatch(self, problem: DualProblem) -> str | None:
        reason = super().mismatch(problem)
        if reason is None and not np.isfinite(problem.effective_upper).all():
            return f"{self.name!r} needs a finite upper bound for every variable, some of this problem's are infinite"
        return reason

    def start(
        self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None
    ) -> VariationalLotkaVolterraState:
        problem.dense()  # before any product: with Q at hand products round differently, and runs are repeatable
        state = self._unmeasured(problem, rng, warm)
        state = self._measured(state, state.theta, self._plan.first)
        return replace(state, lam=exact_multiplier(problem, state.box, state.measured))

    def blank(self, problem: DualProblem) -> VariationalLotkaVolterraState:
        problem.dense()
        return self._unmeasured(problem, np.random.default_rng(0), None)

    def _unmeasured(
        self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None
    ) -> VariationalLotkaVolterraState:
        box = BoxEncoding(problem)
        theta = box.kept(box.angles(GradientField(problem).start(warm)), LEAST_ANGLE)
        return VariationalLotkaVolterraState(
            theta=theta,
            measured=0.5 * box.upper,
            useful=1.0,
            lam=0.0,
            shots_behind=0,
            h=first_step(problem, box),
            flow_time=0.0,
            steps=0,
            resting=False,
            measured_finally=self._plan.final is None,
            account=open_account(rng),
            lab=self._laboratory(),
            box=box,
        )

    def step(self, problem: DualProblem, state: VariationalLotkaVolterraState) -> VariationalLotkaVolterraState:
        if state.resting:
            return replace(self._measured(state, state.theta, self._plan.final), measured_finally=True)
        if self.integrator == "lsoda":
            return self._follow(problem, state)
        return self._exact_step(problem, state) if self.shots is None else self._sampled_step(problem, state)

    def alpha(self, state: VariationalLotkaVolterraState) -> NDArray:
        return state.measured

    def finished(self, state: VariationalLotkaVolterraState) -> bool:
        return state.resting and state.measured_finally

    def time(self, state: VariationalLotkaVolterraState) -> float | None:
        return state.flow_time

    def multiplier(self, state: VariationalLotkaVolterraState) -> float | None:
        return state.lam

    def circuit(self, state: VariationalLotkaVolterraState) -> ParametricCircuit:
        return state.box.circuit

    def cost(self, state: VariationalLotkaVolterraState) -> dict[str, float | int | None]:
        return super().cost(state) | {"success_probability": state.useful}

    def extras(self, state: VariationalLotkaVolterraState) -> dict[str, NDArray]:
        """``parameter_alpha``: u sin²(θ/2), computed from the angles and not measured."""
        return super().extras(state) | {"parameter_alpha": state.box.alpha(state.theta)}

    def final_angles(self, state: VariationalLotkaVolterraState) -> NDArray:
        return state.box.bindings(state.theta)

    def provenance(self, state: VariationalLotkaVolterraState) -> dict[str, Any]:
        about = {"circuits_a_step": 1, "padding": state.box.padding, "wasted_share": 1.0 - state.useful}
        return super().provenance(state) | about

    # --- the steps -----------------------------------------------------------------------------

    def _exact_step(self, problem: DualProblem, state: VariationalLotkaVolterraState) -> VariationalLotkaVolterraState:
        box, h, tau = state.box, state.h, self.tau or 0.0
        step, change, _ = primal_dual_step(problem, box, state.theta, state.measured, state.lam, h, tau, None)
        trial = box.kept(state.theta + np.clip(step, -CLIP_EXACT, CLIP_EXACT), LEAST_ANGLE)
        if self.tau is None:
            trial = box.balanced(trial, LEAST_ANGLE)
        moved = self._measured(replace(state, steps=state.steps + 1, lam=state.lam + change), trial, None)
        # Once the trial is that near, what is left of f's fall is below round-off.
        near = bool(np.abs(trial - state.theta).max() < 1e-9)
        here, there = ((s.theta, s.measured, s.lam) for s in (state, moved))
        if acceptable(problem, box, here, there, h, tau):
            return replace(moved, h=2.0 * h, flow_time=state.flow_time + h, resting=near)
        # A rejected trial costs its circuit and leaves the state where it was. (A device that breaks eᵀα = d never
        # lets it come near.)
        resting = near or h < 1e-9 * first_step(problem, box)
        return replace(state, steps=moved.steps, account=moved.account, h=0.25 * h, resting=resting)

    def _sampled_step(
        self, problem: DualProblem, state: VariationalLotkaVolterraState
    ) -> VariationalLotkaVolterraState:
        box, plan, tau = state.box, self._plan, self.tau or 0.0
        step, change, fall = primal_dual_step(
            problem, box, state.theta, state.measured, state.lam, state.h, tau, state.shots_behind
        )
        steps = self.steps if plan.adaptive else self.steps or DEFAULT_STEPS
        damping = 1.0 if plan.adaptive or not steps else max(1, state.steps - steps // 2 + 1) ** -AVERAGING
        noise = sampling_variance(problem, box, state.measured)
        shots = plan.next(state.shots_behind, fall, noise, state.account, 1)
        trial = box.kept(state.theta + np.clip(damping * step, -CLIP_SAMPLED, CLIP_SAMPLED), 0.0)
        moved = self._measured(replace(state, steps=state.steps + 1, lam=state.lam + damping * change), trial, shots)
        return replace(
            moved,
            h=min(state.h * GROWTH_SAMPLED, LARGEST_STEP * first_step(problem, box)),
            flow_time=state.flow_time + state.h,
            resting=moved.steps == steps or plan.exhausted(moved.shots_behind, moved.account, 1),
        )

    def _follow(self, problem: DualProblem, state: VariationalLotkaVolterraState) -> VariationalLotkaVolterraState:
        """`time_step` of the flow by LSODA, whose every evaluation is a circuit."""
        account, box = state.account, state.box

        def rate(t: float, y: NDArray) -> NDArray:
            nonlocal account
            bindings = box.bindings(y[: box.n])
            distribution, account = state.lab.measure(account, box.circuit, bindings, None)
            return faithful_rate(problem, box, y, box.read(distribution, state.measured)[0], self.tau)

        h = self.time_step or 1.0
        if self.t_end is not None:
            h = min(h, self.t_end - state.flow_time)
        y = state.theta if self.tau is None else np.append(state.theta, state.lam)
        y = ivp_step(rate, state.flow_time, y, h, rtol=LSODA_TOLERANCE, atol=LSODA_TOLERANCE)
        moved = self._measured(replace(state, account=account, steps=state.steps + 1), y[: box.n], None)
        lam = exact_multiplier(problem, box, moved.measured) if self.tau is None else float(y[-1])
        flow_time = state.flow_time + h
        over = self.t_end is not None and flow_time >= self.t_end * (1 - 1e-12)
        return replace(moved, lam=lam, flow_time=flow_time, resting=over)

    def _measured(
        self, state: VariationalLotkaVolterraState, theta: NDArray, shots: int | None
    ) -> VariationalLotkaVolterraState:
        """The state at other angles, with their circuit run."""
        box = state.box
        distribution, account = state.lab.measure(state.account, box.circuit, box.bindings(theta), shots)
        measured, useful = box.read(distribution, state.measured)
        return replace(state, theta=theta, measured=measured, useful=useful, shots_behind=shots or 0, account=account)
