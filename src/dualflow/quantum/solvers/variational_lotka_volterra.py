"""The solver `variational-lotka-volterra`: Lotka-Volterra competition in a box, in ancilla angles; hybrid.

Variable i of 0 ≤ α ≤ u < ∞ is the angle θᵢ in [0, π] by which index i turns the ancilla of `AncillaCircuit`:
αᵢ = uᵢ sin²(θᵢ/2) = uᵢ P(1|i). The flow α̇ = w(g + λe), w = α(u − α)/u, g = p − Qα, is then

    θ̇ᵢ = ½ sin θᵢ (gᵢ + λeᵢ),   λ exact: λ = −Σewg/Σw,   or dynamic: λ̇ = −(eᵀα − d)/τ

(Howell (16) has w = a(C − a): the same path C times faster). It is a natural gradient in the metric of the read-out:
the Fisher information of index i's Bernoulli outcome is 1 for every θᵢ, so that, weighted by the range of αᵢ,
diag(u) θ̇ = J(g + λe) with J = ∂α/∂θ = diag(½ u sin θ). In the log-odds Lᵢ = log(αᵢ/(uᵢ − αᵢ)) = 2 log tan(θᵢ/2) it is
L̇ = g + λe: λ moves every variable along e at a rate that does not depend on its value.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
import scipy.optimize
from numpy.typing import NDArray

from ...core.options import Number, option
from ...core.problem import DualProblem, Kind
from ...core.runtime.threads import cached_property
from ...core.workspace import Workspace
from ...flows.gradient import GradientField, equality_multiplier
from ..circuits import ParametricCircuit
from ..circuits.ancilla import AncillaCircuit
from ..circuits.encoding import qubits_for
from ..runs.laboratory import Account, Ledger
from .variational import AngleFlow, AngleState, Pace, VariationalSolver

#: Exact distributions: smallest distance of an angle from 0 and π, radians; α = u sin²(θ/2) = 0 could never grow again.
MIN_ANGLE = 1e-5
#: Largest |log-odds|: e^−50 is below the precision of α/u. `BoxEncoding.on_equality` searches shifts up to twice this.
MAX_LOG_ODDS = 50.0
#: Ridge of every linear system, in units of each diagonal entry.
RIDGE_EXACT = 1e-13
#: Ridge with 1000 shots an index, in units of the mean diagonal entry; it falls as shots^−½.
RIDGE_SAMPLED = 1e-2
#: An angle is at the end of its range up to this relative distance from `MIN_ANGLE`.
END_TOLERANCE = 1e-6
#: An exact run ends when a rejected step was shorter than this, in units of the first one.
MIN_STEP = 1e-9


class BoxEncoding:
    """The maps between the n variables of a box and the angles and outcomes of one circuit.

    Attributes
    ----------
    upper : array of shape (n,)
        u, reduced to d if eᵀα = d with e ≥ 0 allows no more.
    free : boolean array of shape (n,)
        u > 0.
    circuit : AncillaCircuit
    indices : int
        2^(q−1) ≥ n values of the index register, each with about 1/indices of the shots.
    """

    def __init__(self, problem: DualProblem) -> None:
        self.n, self.e, self.d = problem.n, problem.e, problem.d
        self.upper = problem.effective_upper
        self.free = self.upper > 0
        self.circuit = AncillaCircuit(qubits_for(self.n) + 1)
        self.indices = self.circuit.n_parameters

    @property
    def padding(self) -> str:
        """How the indices beyond n are used, for the provenance."""
        idle = self.indices - self.n
        if not idle:
            return "none"
        return f"{idle} of {self.indices} index values stand for no variable: angle 0, their counts are not used"

    def alpha(self, theta: NDArray) -> NDArray:
        """Return α = u sin²(θ/2), shape (n,)."""
        return self.upper * np.sin(0.5 * theta) ** 2

    def angles(self, alpha: NDArray) -> NDArray:
        """Return the angles in [0, π] of α clipped to the box, shape (n,)."""
        share = np.clip(np.divide(alpha, self.upper, out=np.zeros(self.n), where=self.free), 0.0, 1.0)
        return 2.0 * np.arctan2(np.sqrt(share), np.sqrt(1.0 - share))

    def bindings(self, theta: NDArray) -> NDArray:
        """Return the angles of the circuit, shape (indices,): θ, and 0 for the indices beyond n."""
        return np.concatenate([theta, np.zeros(self.indices - self.n)])

    def clipped(self, theta: NDArray, least: float) -> NDArray:
        """Return θ clipped to [least, π − least], and to 0 if u = 0."""
        return np.where(self.free, np.clip(theta, least, np.pi - least), 0.0)

    def read(self, distribution: NDArray, before: NDArray) -> tuple[NDArray, float]:
        """Return the measured α, shape (n,), and the share of the outcomes that belong to one of the n indices.

        Parameters
        ----------
        distribution : array of shape (2^q,)
            Frequencies of i + 2^(q−1)·ancilla.
        before : array of shape (n,)
            The last measured α, used for an index without counts.
        """
        zeros, ones = distribution[: self.n], distribution[self.indices : self.indices + self.n]
        seen = zeros + ones
        alpha = self.upper * np.divide(ones, seen, out=np.zeros(self.n), where=seen > 0)
        return np.where(seen > 0, alpha, before), float(seen.sum())

    def excess(self, alpha: NDArray) -> float:
        """Return eᵀα − d, 0 without an equality."""
        return 0.0 if self.e is None else float(self.e @ alpha) - self.d

    def on_equality(self, theta: NDArray, least: float) -> NDArray:
        """Return θ moved along e in log-odds to eᵀα = d, or to the nearest value for angles in [least, π − least].

        This is the path of the flow under λ alone; it stays in the box.
        """
        e = self.e
        if e is None or self.excess(self.alpha(theta)) == 0:
            return theta
        with np.errstate(divide="ignore"):
            odds = np.clip(2.0 * np.log(np.tan(0.5 * theta)), -MAX_LOG_ODDS, MAX_LOG_ODDS)

        def shifted(shift: float) -> NDArray:
            moved = 2.0 * np.arctan(np.exp(0.5 * np.clip(odds + shift * e, -MAX_LOG_ODDS, MAX_LOG_ODDS)))
            return self.clipped(moved, least)

        def excess(shift: float) -> float:
            return self.excess(self.alpha(shifted(shift)))

        limit = 2 * MAX_LOG_ODDS
        if excess(-limit) >= 0:
            return shifted(-limit)
        if excess(limit) <= 0:
            return shifted(limit)
        return shifted(float(scipy.optimize.brentq(excess, -limit, limit, xtol=1e-15, rtol=1e-14)))


@dataclass(frozen=True)
class BoxState(AngleState):
    """The state of `AngleState` with the multiplier and the quality of the read-out.

    An index without counts keeps the α that was measured before, at first u/2.
    """

    useful: float = 1.0  # share of the outcomes that belong to one of the n indices, not to padding
    lam: float = 0.0  # λ, as in ρ = Qα − p − λe
    #: The outcome of the last circuit, or of one tried from here, cannot be distinguished from uniform noise.
    drowned: bool = False


@dataclass(frozen=True)
class BoxFlow(AngleFlow[BoxState]):
    """The box flow in ancilla angles; ``tau`` is the time scale of a dynamic multiplier, None for the exact one."""

    box: BoxEncoding
    tau: float | None

    pace: ClassVar[Pace] = Pace(steps=60, growth=1.6, longest=500.0, averaging=0.5, part=2)

    @property
    def circuit(self) -> ParametricCircuit:
        return self.box.circuit

    @cached_property
    def first_step(self) -> float:
        """The time scale of the flow, 1/(largest rate of the log-odds)."""
        problem = self.workspace
        largest = max(float((problem.diag() * self.box.upper).max()), float(np.ptp(problem.p)))
        return 1.0 / largest if largest > 0 else 1.0

    @property
    def longest(self) -> float:
        return self.pace.longest * self.first_step

    def first_state(self, rng: np.random.Generator, warm: NDArray | None) -> BoxState:
        box, account = self.box, Account.opened(rng)
        theta = box.clipped(box.angles(GradientField(self.workspace).start(warm)), MIN_ANGLE)
        state = BoxState(theta, self.first_step, account, self.plan.final is None, 0.5 * box.upper)
        return self._with_exact_multiplier(self.measure(state, self.plan.first))

    def measure(self, state: BoxState, shots: int | None, final: bool = False) -> BoxState:
        bindings = self.box.bindings(state.theta)
        found, account = self.lab.measure(state.account, self.circuit, bindings, shots)
        drowned = self.lab.is_noise_dominated(account, self.circuit, bindings, found, shots)
        measured, useful = self.box.read(found, state.measured)
        state = replace(state, measured=measured, useful=useful, drowned=drowned)
        return replace(state, shots_behind=shots or 0, account=account)

    def trial(self, state: BoxState, share: float) -> tuple[BoxState, float]:
        box, shots, least = self.box, state.shots_behind or None, MIN_ANGLE if self.exact else 0.0
        at = state.theta, state.measured, state.lam
        step, change, fall = primal_dual_step(self.workspace, box, *at, state.h, self.tau or 0.0, shots)
        theta = box.clipped(state.theta + self.clipped(share * step), least)
        if self.exact and self.tau is None:
            theta = box.on_equality(theta, least)
        return replace(state, theta=theta, lam=state.lam + share * change, steps=state.steps + 1), fall

    def objective(self, state: BoxState) -> float:
        """Return f of the measured α, moved along e in log-odds to eᵀα = d."""
        theta = self.box.clipped(self.box.angles(state.measured), MIN_ANGLE)
        return self.workspace.objective(self.box.alpha(self.box.on_equality(theta, MIN_ANGLE)))

    def accepts(self, state: BoxState, trial: BoxState) -> bool:
        """Return whether an exact trial is accepted.

        A dynamic multiplier lags behind, so that f may rise on the path of the flow. With it a trial is also accepted
        if it halves the residual of the implicit Euler step that it linearises, as every short enough step does.
        """
        if super().accepts(state, trial):
            return True
        tau = self.tau
        return tau is not None and 4.0 * self._residual(state, trial, tau) <= self._residual(state, state, tau)

    def _residual(self, here: BoxState, there: BoxState, tau: float) -> float:
        """Return the squared residual of the implicit Euler step from ``here`` to ``there``, in the flow's metric."""
        box, theta, h = self.box, there.theta, here.h
        rho, least = drive(self.workspace, there.measured, there.lam), MIN_ANGLE * (1.0 + END_TOLERANCE)
        held = ((theta <= least) & (rho < 0)) | ((np.pi - theta <= least) & (rho > 0)) | ~box.free
        force = np.where(held, 0.0, (theta - here.theta) / h - 0.5 * np.sin(theta) * rho)
        slack = tau / h * (there.lam - here.lam) + box.excess(there.measured)
        return h * (float(box.upper @ force**2) + slack**2 / tau)

    def with_rejected(self, state: BoxState, trial: BoxState) -> BoxState:
        # A noise-dominated trial is remembered: rejected trials come nearer and nearer to the state.
        return replace(state, drowned=state.drowned or trial.drowned)

    def is_last_step(self, state: BoxState, unmoved: bool, accepted: bool) -> bool:
        # On a device that violates eᵀα = d every trial moves the angles, and only the length of the step can end a run.
        return unmoved or (not accepted and state.h < MIN_STEP * self.first_step)

    def variance(self, state: BoxState) -> float:
        """Return V = ½ Σ Qᵢᵢ αᵢ(uᵢ − αᵢ) · indices; see `AngleFlow.variance`."""
        alpha = state.measured
        spread = np.maximum(alpha * (self.box.upper - alpha), 0.0)
        return 0.5 * self.box.indices * float(self.workspace.diag() @ spread)

    def rate(self, ledger: Ledger, state: BoxState, y: NDArray) -> NDArray:
        """Return ẏ of the flow, for y = θ (λ exact) or y = (θ, λ)."""
        problem, box, theta = self.workspace, self.box, y[: self.box.n]
        found = ledger.measure(box.circuit, box.bindings(theta), None)
        alpha = box.read(found, state.measured)[0]
        lam = exact_multiplier(problem, box, alpha) if self.tau is None else float(y[-1])
        moving = 0.5 * np.sin(theta) * drive(problem, alpha, lam)
        return moving if self.tau is None else np.append(moving, -box.excess(alpha) / self.tau)

    def unknowns(self, state: BoxState) -> NDArray:
        return state.theta if self.tau is None else np.append(state.theta, state.lam)

    def state_at(self, state: BoxState, y: NDArray) -> BoxState:
        after = super().state_at(state, y[: self.box.n])
        return self._with_exact_multiplier(after) if self.tau is None else replace(after, lam=float(y[-1]))

    def _with_exact_multiplier(self, state: BoxState) -> BoxState:
        return replace(state, lam=exact_multiplier(self.workspace, self.box, state.measured))


def primal_dual_step(
    problem: DualProblem,
    box: BoxEncoding,
    theta: NDArray,
    alpha: NDArray,
    multiplier: float,
    h: float,
    tau: float,
    shots: int | None,
) -> tuple[NDArray, float, float]:
    """Return a linearised implicit Euler step of length h of angles and multiplier together.

    It solves, with ρ = g + λe and c = ½u max(−cos θ·ρ, 0),

        (diag(u/h + c) + JQJ) δ − Je δλ = Jρ,   eᵀJ δ + (τ/h) δλ = −(eᵀα − d).

    c is the derivative of the flow's factor ½ sin θ for variables on their way to a bound, where it damps. For
    variables that leave a bound it is negative, which would make the matrix indefinite for long steps, and is left out.

    Parameters
    ----------
    theta, alpha : arrays of shape (n,)
        Angles, and the α measured at them.
    multiplier : float
        λ.
    h : float
        Step length in units of flow time.
    tau : float
        Time scale of the dynamic multiplier; 0 for the exact one.
    shots : int or None
        Shots of the measurement.

    Returns
    -------
    delta : array of shape (n,)
        Not clipped; 0 for variables that stay at an end of their range.
    delta_multiplier : float
    fall : float ≥ 0
        ½ δᵀJρ, the fall of the Lagrangian that the step predicts.
    """
    rho = drive(problem, alpha, multiplier)
    # A variable at the end of its range that is driven outwards is left out: it cannot move, but would change the step
    # of the others.
    moving, end = box.free, MIN_ANGLE * (1.0 + END_TOLERANCE) if shots is None else 0.0
    moving = moving & ~((theta <= end) & (rho < 0)) & ~((np.pi - theta <= end) & (rho > 0))
    least = 0.0
    if shots is not None:
        # The angle of half a shot: an index without counts need not have angle 0, and could not grow from 0.
        least = np.sin(2.0 * np.arcsin(np.sqrt(min(0.5, 0.5 * box.indices / shots))))
    delta = np.zeros(box.n)
    if not moving.any():
        return delta, 0.0, 0.0
    u, rho = box.upper[moving], rho[moving]
    sine = np.sin(theta[moving])
    J = 0.5 * u * np.maximum(sine, least)
    M = J[:, None] * problem.dense()[np.ix_(moving, moving)] * J
    M[np.diag_indices(len(u))] += u / h + 0.5 * u * np.maximum(-np.cos(theta[moving]) * rho, 0.0)
    if shots is not None:
        M[np.diag_indices(len(u))] += RIDGE_SAMPLED * np.sqrt(1000.0 * box.indices / shots) * np.trace(M) / len(u)
    b = J * rho
    constraint = None if box.e is None else J * box.e[moving]
    delta[moving], change = _bordered_solve(M, b, constraint, tau / h, -box.excess(alpha))
    return delta, change, max(0.0, 0.25 * float(delta[moving] @ (u * sine * rho)))


def drive(problem: DualProblem, alpha: NDArray, multiplier: float) -> NDArray:
    """Return ρ = g + λe, the rate of the log-odds, shape (n,)."""
    g = -problem.gradient(alpha)
    return g if problem.e is None else g + multiplier * problem.e


def exact_multiplier(problem: DualProblem, box: BoxEncoding, alpha: NDArray) -> float:
    """Return the λ that keeps eᵀα constant; 0 without an equality."""
    share = np.divide(alpha, box.upper, out=np.zeros(box.n), where=box.free)
    return equality_multiplier(problem, alpha * (1.0 - share), -problem.gradient(alpha))


def _bordered_solve(M: NDArray, b: NDArray, a: NDArray | None, corner: float, right: float) -> tuple[NDArray, float]:
    """Return x and z with Mx − az = b and aᵀx + corner·z = right, for M positive definite."""
    scale = 1.0 / np.sqrt(M.diagonal())  # variables near a bound have tiny rows
    unit = M * scale * scale[:, None]
    unit[np.diag_indices(len(b))] += RIDGE_EXACT
    factor = scipy.linalg.cho_factor(unit, check_finite=False)
    x: NDArray = scale * scipy.linalg.cho_solve(factor, scale * b)
    if a is None:
        return x, 0.0
    y = scale * scipy.linalg.cho_solve(factor, scale * a)
    pivot = float(a @ y) + corner
    z = (right - float(a @ x)) / pivot if pivot > 0 else 0.0
    return x + z * y, z


@dataclass(frozen=True)
class VariationalLotkaVolterra(VariationalSolver[BoxFlow, BoxState]):
    """Lotka-Volterra flow in a box, in the angles of an ancilla, one circuit a step; hybrid.

    An index register of ⌈log₂ n⌉ qubits in the uniform superposition turns an ancilla, index i by θᵢ: αᵢ = uᵢ P(1|i) =
    uᵢ sin²(θᵢ/2). Both outcomes of the ancilla are used, nothing is post-selected. With n angles for n unknowns this is
    a classical parametrisation of the box, run on qubits. The flow α̇ = w(g + λe), w = α(u − α)/u, g = p − Qα, becomes
    θ̇ᵢ = ½ sin θᵢ (gᵢ + λeᵢ); Howell's (16) has w = a(C − a), the same path C times faster. λ is the exact multiplier
    (the gradient flow), or the dynamic resource λ̇ = −(eᵀα − d)/τ (Howell eq. 7, 16), and 0 without an equality.

    Only the read-out of α is quantum. Classical parts: Qα in O(n²), and a linearised implicit Euler step of θ and λ
    together in O(n³) (`quantum.solvers.variational_lotka_volterra` has its equations). No speed-up over classical
    solvers is claimed.

    From exact distributions a step is accepted only if f falls, for α moved along e in log-odds to eᵀα = d (then h
    doubles, otherwise h/4). With the exact multiplier the angles are moved too, so that eᵀα = d holds throughout. α is
    that of the final state. With counts every step is accepted, h grows slowly, and the second half of the steps is
    damped; α is the mean of what that half measured, in which most of the noise cancels. u sin²(θ/2), computed from the
    final angles, is the classical by-product ``extras["parameter_alpha"]``. Each index gets about shots/n of the shots,
    and α an error of u√(P(1 − P)n/shots): if α is far below u (large C), shots determine it poorly, as the shot floor
    shows.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 9 qubits, 256 CX and depth 1,536 a circuit at n =
    256, CX growing as n; 61 circuits a run, the same at every n; by the model, 11,264 T gates a shot.

    Parameters
    ----------
    device : str or Device, default="aer"
        A name of `dualflow.list_devices`, or an instance.
    shots : int, "adaptive" or None
        Shots of each circuit, about shots/n for each variable; None requests exact distributions. "adaptive" as for
        `VariationalFlow`; the run ends when the budget does not hold another circuit with as many shots as the last.
    tau : float > 0, optional
        Time scale of a dynamic λ; Howell's is 1. None: the exact multiplier, the limit τ → 0.
    integrator : {"semi-implicit", "lsoda"}
        "lsoda" follows the flow to a tolerance of 1e-9 from exact distributions, ``time_step`` a step up to ``t_end``.
    final_shots, steps, shot_budget : int, optional
        As for `VariationalFlow`; 60 steps by default.
    mitigation, journal
        See `QuantumSolver`.
    time_step, t_end : float, optional
        For "lsoda", in units of flow time; by default 1 and no end.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        Raised by `open`: the device is not known, lacks a capability that the options need, or is not installed.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "variational-lotka-volterra", device="emulator", tol=1e-4)
    >>> round(solution.bias, 2), bool(solution.cost.circuits > 0)
    (-3.0, True)
    """

    tau: float | None = option(None, Number(above=0, none=True, note="for the exact multiplier"))

    state_type: ClassVar[type] = BoxState

    name: ClassVar[str] = "variational-lotka-volterra"
    reaches: ClassVar[str] = (
        "1e-6 in at most 60 steps for n up to 256; with 10 000 shots a circuit within 3 × the floor of all in 69 of 70"
    )
    kinds = frozenset({Kind.BOX, Kind.BOX_EQUALITY, Kind.CAPPED_SIMPLEX})
    encoding: ClassVar[str | None] = "box"

    def mismatch(self, problem: DualProblem) -> str | None:
        reason = super().mismatch(problem)
        if reason is None and not np.isfinite(problem.effective_upper).all():
            return f"{self.name!r} needs a finite upper bound for every variable, some of this problem's are infinite"
        return reason

    def open(self, problem: DualProblem, workspace: Workspace) -> BoxFlow:
        workspace.dense()
        lab, box = self.laboratory(problem), BoxEncoding(workspace)
        return self._within_budget(BoxFlow(workspace, lab, box=box, tau=self.tau, **self._flow_options()))

    def multiplier(self, state: BoxState) -> float | None:
        return state.lam

    def cost(self, context: BoxFlow, state: BoxState) -> dict[str, Any]:
        return super().cost(context, state) | {"success_probability": state.useful}

    def extras(self, context: BoxFlow, state: BoxState) -> dict[str, NDArray]:
        """Return the extras; ``parameter_alpha`` is u sin²(θ/2), computed from the angles and not measured."""
        return super().extras(context, state) | {"parameter_alpha": context.box.alpha(state.theta)}

    def final_angles(self, context: BoxFlow, state: BoxState) -> NDArray:
        return context.box.bindings(state.theta)

    def is_noise_dominated(self, context: BoxFlow, state: BoxState) -> bool:
        return state.drowned

    def provenance(self, context: BoxFlow, state: BoxState) -> dict[str, Any]:
        about = {"padding": context.box.padding, "wasted_share": 1.0 - state.useful}
        return super().provenance(context, state) | about
