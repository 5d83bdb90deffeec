"""The box flow on ancilla angles: Lotka-Volterra competition, hybrid, one circuit a step.

Steps of the box flow in ancilla angles, the multiplier of the equality among the unknowns.

With αᵢ = uᵢ sin²(θᵢ/2) the flow α̇ = w(g + λe), w = α(u − α)/u, g = p − Qα, reads

    θ̇ᵢ = ½ sin θᵢ (gᵢ + λeᵢ),   λ exact: λ = −Σewg/Σw,   or dynamic: λ̇ = −(eᵀα − d)/τ

(Howell (16) has w = a(C − a): the same path C times faster). In the read-out's own metric it is a natural gradient:
the Fisher information of index i's Bernoulli outcome is 1 for every θᵢ, so that, weighted by the range of αᵢ,
diag(u) θ̇ = J(g + λe) with J = ∂α/∂θ = diag(½ u sin θ).

Box ↔ ancilla angles, and what counts say about a point of the box.

Variable i of 0 ≤ α ≤ u < ∞ is the angle θᵢ in [0, π] by which index i turns the ancilla of `AncillaCircuit`:
αᵢ = uᵢ sin²(θᵢ/2) = uᵢ P(1|i). In the log-odds Lᵢ = log(αᵢ/(uᵢ − αᵢ)) = 2 log tan(θᵢ/2) the flow
α̇ = w(g + λe), w = α(u − α)/u, is L̇ = g + λe: λ moves every variable along e, whatever its value.
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
from ...flows.gradient import GradientField, balance
from ..circuits import AncillaCircuit, ParametricCircuit
from ..circuits.encoding import qubits_for
from ..runs.laboratory import Account, Ledger
from .variational import AngleFlow, AngleState, Pace, VariationalSolver

__all__ = [
    "LEAST_ANGLE",
    "BoxEncoding",
    "BoxFlow",
    "BoxState",
    "VariationalLotkaVolterra",
    "drive",
    "exact_multiplier",
    "primal_dual_step",
]


#: With exact distributions no angle comes nearer to 0 or π: α = u sin²(θ/2) = 0 could never grow again.
LEAST_ANGLE = 1e-5
#: Log-odds of ±50 are 0 and 1 in all digits that matter; `BoxEncoding.balanced` looks for a shift that far beyond.
MOST_LOG_ODDS = 50.0


class BoxEncoding:
    """n variables as the angles of one circuit, and back.

    Attributes
    ----------
    upper : array of shape (n,)
        u; where eᵀα = d sums non-negative terms, no more than d.
    free : boolean array of shape (n,)
        u > 0: the variables that there are.
    circuit : AncillaCircuit
    indices : int
        2^(q−1) ≥ n: values of the index register, each with 1/indices of the shots.
    """

    def __init__(self, problem: DualProblem) -> None:
        self.n, self.e, self.d = problem.n, problem.e, problem.d
        self.upper = problem.effective_upper
        self.free = self.upper > 0
        self.circuit = AncillaCircuit(qubits_for(self.n) + 1)
        self.indices = self.circuit.n_parameters

    @property
    def padding(self) -> str:
        """What became of the indices beyond n."""
        idle = self.indices - self.n
        if not idle:
            return "none"
        return f"{idle} of {self.indices} index values stand for no variable: angle 0, their counts are not used"

    def alpha(self, theta: NDArray) -> NDArray:
        """α of shape (n,) for angles of shape (n,): u sin²(θ/2)."""
        return self.upper * np.sin(0.5 * theta) ** 2

    def angles(self, alpha: NDArray) -> NDArray:
        """θ in [0, π] of shape (n,) with `alpha` (θ) = α clipped to the box."""
        share = np.clip(np.divide(alpha, self.upper, out=np.zeros(self.n), where=self.free), 0.0, 1.0)
        return 2.0 * np.arctan2(np.sqrt(share), np.sqrt(1.0 - share))

    def bindings(self, theta: NDArray) -> NDArray:
        """Angles of the circuit, shape (indices,): θ, and 0 for the indices beyond n."""
        return np.concatenate([theta, np.zeros(self.indices - self.n)])

    def kept(self, theta: NDArray, least: float) -> NDArray:
        """θ no nearer than ``least`` to 0 and π; 0 for variables that u = 0 takes out."""
        return np.where(self.free, np.clip(theta, least, np.pi - least), 0.0)

    def read(self, distribution: NDArray, before: NDArray) -> tuple[NDArray, float]:
        """α as measured, shape (n,), and the share of the outcomes that belong to one of the n indices.

        Parameters
        ----------
        distribution : array of shape (2^q,)
            Frequencies of i + 2^(q−1)·ancilla.
        before : array of shape (n,)
            What was measured last: kept for an index that no shot fell on.
        """
        zeros, ones = distribution[: self.n], distribution[self.indices : self.indices + self.n]
        seen = zeros + ones
        alpha = self.upper * np.divide(ones, seen, out=np.zeros(self.n), where=seen > 0)
        return np.where(seen > 0, alpha, before), float(seen.sum())

    def excess(self, alpha: NDArray) -> float:
        """eᵀα − d; 0 without an equality."""
        return 0.0 if self.e is None else float(self.e @ alpha) - self.d

    def balanced(self, theta: NDArray, least: float) -> NDArray:
        """θ moved along e in log-odds until eᵀα = d (as far as angles ``least`` from 0 and π let it).

        This is the path on which λ alone drives the flow, so it changes nothing but the multiplier's part, and
        it never leaves the box.
        """
        e = self.e
        if e is None or self.excess(self.alpha(theta)) == 0:
            return theta
        with np.errstate(divide="ignore"):
            odds = np.clip(2.0 * np.log(np.tan(0.5 * theta)), -MOST_LOG_ODDS, MOST_LOG_ODDS)

        def at(shift: float) -> NDArray:
            moved = 2.0 * np.arctan(np.exp(0.5 * np.clip(odds + shift * e, -MOST_LOG_ODDS, MOST_LOG_ODDS)))
            return self.kept(moved, least)

        def excess(shift: float) -> float:
            return self.excess(self.alpha(at(shift)))

        most = 2 * MOST_LOG_ODDS
        if excess(-most) >= 0:
            return at(-most)
        if excess(most) <= 0:
            return at(most)
        return at(float(scipy.optimize.brentq(excess, -most, most, xtol=1e-15, rtol=1e-14)))


#: Ridge: always, in units of each diagonal entry; with 1000 shots an index, in units of their mean.
RIDGE_EXACT, RIDGE_SAMPLED = 1e-13, 1e-2
#: An angle this much (relative) above `LEAST_ANGLE` is at it.
AT_THE_END = 1e-6
#: Steps shorter than this, in units of the first one, are none.
SHORTEST = 1e-9


@dataclass(frozen=True)
class BoxState(AngleState):
    """With the share of the outcomes that belong to one of the n indices, not to padding, λ (ρ = Qα − p − λe), and
    whether noise left nothing of the last circuit, or of one tried from here.

    An index that no shot fell on keeps the α that was measured before, u/2 first.
    """

    useful: float = 1.0
    lam: float = 0.0
    drowned: bool = False


@dataclass(frozen=True)
class BoxFlow(AngleFlow[BoxState]):
    """The flow of this module; ``tau`` is that of a dynamic multiplier, None for the exact one."""

    box: BoxEncoding
    tau: float | None

    pace: ClassVar[Pace] = Pace(steps=60, growth=1.6, longest=500.0, averaging=0.5, part=2)

    @property
    def circuit(self) -> ParametricCircuit:
        return self.box.circuit

    @cached_property
    def first_step(self) -> float:
        """The flow's own time scale: 1 over its largest drive."""
        problem = self.workspace
        largest = max(float((problem.diag() * self.box.upper).max()), float(np.ptp(problem.p)))
        return 1.0 / largest if largest > 0 else 1.0

    @property
    def longest(self) -> float:
        return self.pace.longest * self.first_step

    def begin(self, rng: np.random.Generator, warm: NDArray | None) -> BoxState:
        box, account = self.box, Account.opened(rng)
        theta = box.kept(box.angles(GradientField(self.workspace).start(warm)), LEAST_ANGLE)
        state = BoxState(theta, self.first_step, account, self.plan.final is None, 0.5 * box.upper)
        return self._with_exact_multiplier(self.measure(state, self.plan.first))

    def measure(self, state: BoxState, shots: int | None, final: bool = False) -> BoxState:
        bindings = self.box.bindings(state.theta)
        found, account = self.lab.measure(state.account, self.circuit, bindings, shots)
        drowned = self.lab.drowned(account, self.circuit, bindings, found, shots)
        measured, useful = self.box.read(found, state.measured)
        state = replace(state, measured=measured, useful=useful, drowned=drowned)
        return replace(state, shots_behind=shots or 0, account=account)

    def trial(self, state: BoxState, share: float) -> tuple[BoxState, float]:
        box, shots, least = self.box, state.shots_behind or None, LEAST_ANGLE if self.exact else 0.0
        at = state.theta, state.measured, state.lam
        step, change, fall = primal_dual_step(self.workspace, box, *at, state.h, self.tau or 0.0, shots)
        theta = box.kept(state.theta + self.clipped(share * step), least)
        if self.exact and self.tau is None:
            theta = box.balanced(theta, least)
        return replace(state, theta=theta, lam=state.lam + share * change, steps=state.steps + 1), fall

    def objective(self, state: BoxState) -> float:
        """f of what was measured, each α shifted along e in log-odds to where eᵀα = d."""
        theta = self.box.kept(self.box.angles(state.measured), LEAST_ANGLE)
        return self.workspace.objective(self.box.alpha(self.box.balanced(theta, LEAST_ANGLE)))

    def accepts(self, state: BoxState, trial: BoxState) -> bool:
        """With a dynamic multiplier, which comes late, f may rise on the flow's own path: then a step is taken too
        that halves the distance to the implicit Euler step which it linearises, as every short one does."""
        if super().accepts(state, trial):
            return True
        tau = self.tau
        return tau is not None and 4.0 * self._residual(state, trial, tau) <= self._residual(state, state, tau)

    def _residual(self, here: BoxState, there: BoxState, tau: float) -> float:
        """How far ``there`` is from the implicit Euler step of ``here``, squared, in the metric of the flow."""
        box, theta, h = self.box, there.theta, here.h
        rho, least = drive(self.workspace, there.measured, there.lam), LEAST_ANGLE * (1.0 + AT_THE_END)
        held = ((theta <= least) & (rho < 0)) | ((np.pi - theta <= least) & (rho > 0)) | ~box.free
        force = np.where(held, 0.0, (theta - here.theta) / h - 0.5 * np.sin(theta) * rho)
        slack = tau / h * (there.lam - here.lam) + box.excess(there.measured)
        return h * (float(box.upper @ force**2) + slack**2 / tau)

    def rejected(self, state: BoxState, trial: BoxState) -> BoxState:
        # Trials come nearer until their own circuits are as good as uniform: one that was not has told it.
        return replace(state, drowned=state.drowned or trial.drowned)

    def rests(self, state: BoxState, near: bool, taken: bool) -> bool:
        # A device that breaks eᵀα = d never lets a trial come near.
        return near or (not taken and state.h < SHORTEST * self.first_step)

    def variance(self, state: BoxState) -> float:
        """½ Σ Qᵢᵢ αᵢ(uᵢ − αᵢ) · indices."""
        alpha = state.measured
        spread = np.maximum(alpha * (self.box.upper - alpha), 0.0)
        return 0.5 * self.box.indices * float(self.workspace.diag() @ spread)

    def rate(self, ledger: Ledger, state: BoxState, y: NDArray) -> NDArray:
        """ẏ of the flow, for y = θ (λ exact) or y = (θ, λ)."""
        problem, box, theta = self.workspace, self.box, y[: self.box.n]
        found = ledger.measure(box.circuit, box.bindings(theta), None)
        alpha = box.read(found, state.measured)[0]
        lam = exact_multiplier(problem, box, alpha) if self.tau is None else float(y[-1])
        moving = 0.5 * np.sin(theta) * drive(problem, alpha, lam)
        return moving if self.tau is None else np.append(moving, -box.excess(alpha) / self.tau)

    def unknowns(self, state: BoxState) -> NDArray:
        return state.theta if self.tau is None else np.append(state.theta, state.lam)

    def landed(self, state: BoxState, y: NDArray) -> BoxState:
        after = super().landed(state, y[: self.box.n])
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
    """A linearised implicit Euler step of length h of angles and multiplier together.

    Solves, with ρ = g + λe and c = ½u max(−cos θ·ρ, 0),

        (diag(u/h + c) + JQJ) δ − Je δλ = Jρ,   eᵀJ δ + (τ/h) δλ = −(eᵀα − d).

    c is the derivative of the flow's own factor ½ sin θ where it damps: of variables on their way to a bound. Its
    negative part, that of variables leaving one, would make the matrix indefinite for long steps.

    Parameters
    ----------
    theta, alpha : arrays of shape (n,)
        Angles, and α measured there.
    multiplier : float
        λ.
    h : float
        In units of flow time.
    tau : float
        Of the dynamic multiplier; 0 for the exact one.
    shots : int or None
        Behind the measurement.

    Returns
    -------
    delta : array of shape (n,)
        Not clipped; 0 for variables that rest at an end of their range.
    delta_multiplier : float
    fall : float ≥ 0
        ½ δᵀJρ: what the step promises to take off the Lagrangian, in units of f.
    """
    rho = drive(problem, alpha, multiplier)
    # At the end of its range a variable that is driven on cannot move; left in, it would pull others along.
    moving, end = box.free, LEAST_ANGLE * (1.0 + AT_THE_END) if shots is None else 0.0
    moving = moving & ~((theta <= end) & (rho < 0)) & ~((np.pi - theta <= end) & (rho > 0))
    least = 0.0
    if shots is not None:
        # Half a shot: where none was counted, an angle of 0 need not be, and could not grow again.
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
    """ρ = g + λe of shape (n,): the rate of the log-odds."""
    g = -problem.gradient(alpha)
    return g if problem.e is None else g + multiplier * problem.e


def exact_multiplier(problem: DualProblem, box: BoxEncoding, alpha: NDArray) -> float:
    """The λ with which eᵀα stays where it is; 0 without an equality."""
    share = np.divide(alpha, box.upper, out=np.zeros(box.n), where=box.free)
    return balance(problem, alpha * (1.0 - share), -problem.gradient(alpha))


def _bordered_solve(M: NDArray, b: NDArray, a: NDArray | None, corner: float, right: float) -> tuple[NDArray, float]:
    """x and z with Mx − az = b and aᵀx + corner·z = right; M positive definite, scaled to a unit diagonal first."""
    scale = 1.0 / np.sqrt(M.diagonal())  # nearly dead variables have tiny rows
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
    every step is taken, h grows slowly, and the second half of the steps is damped. α is then the mean of what that
    half measured, in which most of the noise cancels; from exact distributions it is the final state's. u sin²(θ/2),
    known from the final angles, is the classical by-product ``extras["parameter_alpha"]``. Each index gets about
    shots/n of the shots and an error of u√(P(1 − P)n/shots): where α lies far below u (large C) shots show little,
    and the shot floor says so.

    Counted (docs/reference/resources.md, 10 000 shots a circuit): 9 qubits, 256 CX and depth 1,536 a circuit at n =
    256, CX growing as n; 61 circuits a run, the same at every n; by the model, 11,264 T gates a shot.

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
    mitigation, journal
        See `QuantumSolver`.
    time_step, t_end : float, optional
        Of "lsoda", in units of flow time: 1 and no end by default.

    Raises
    ------
    ProblemError
        An option is out of range.
    DeviceError, SolverUnavailable
        From `open`: the device is not known, cannot do what is asked, or is not installed.

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
        return self._within_budget(BoxFlow(workspace, lab, box=box, tau=self.tau, **self._course()))

    def multiplier(self, state: BoxState) -> float | None:
        return state.lam

    def cost(self, context: BoxFlow, state: BoxState) -> dict[str, Any]:
        return super().cost(context, state) | {"success_probability": state.useful}

    def extras(self, context: BoxFlow, state: BoxState) -> dict[str, NDArray]:
        """``parameter_alpha``: u sin²(θ/2), computed from the angles and not measured."""
        return super().extras(context, state) | {"parameter_alpha": context.box.alpha(state.theta)}

    def final_angles(self, context: BoxFlow, state: BoxState) -> NDArray:
        return context.box.bindings(state.theta)

    def drowned(self, context: BoxFlow, state: BoxState) -> bool:
        return state.drowned

    def provenance(self, context: BoxFlow, state: BoxState) -> dict[str, Any]:
        about = {"padding": context.box.padding, "wasted_share": 1.0 - state.useful}
        return super().provenance(context, state) | about
