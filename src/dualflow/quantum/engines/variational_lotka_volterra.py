"""Steps of the box flow in ancilla angles, the multiplier of the equality among the unknowns.

With αᵢ = uᵢ sin²(θᵢ/2) the flow α̇ = w(g + λe), w = α(u − α)/u, g = p − Qα, reads

    θ̇ᵢ = ½ sin θᵢ (gᵢ + λeᵢ),   λ exact: λ = −Σewg/Σw,   or dynamic: λ̇ = −(eᵀα − d)/τ

(Howell (16) has w = a(C − a): the same path C times faster). In the read-out's own metric it is a natural gradient:
the Fisher information of index i's Bernoulli outcome is 1 for every θᵢ, so that, weighted by the range of αᵢ,
diag(u) θ̇ = J(g + λe) with J = ∂α/∂θ = diag(½ u sin θ).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ...core.problem import DualProblem
from ...flows.gradient import GradientField, balance
from ..circuits import ParametricCircuit
from ..runs.laboratory import Account, Ledger
from .box import LEAST_ANGLE, BoxEncoding
from .variational import AngleFlow, AngleState, Pace, Proposal

__all__ = [
    "BoxFlow",
    "BoxState",
    "acceptable",
    "drive",
    "exact_multiplier",
    "faithful_rate",
    "primal_dual_step",
    "sampling_variance",
]

#: Ridge: always, in units of each diagonal entry; with 1000 shots an index, in units of their mean.
RIDGE_EXACT, RIDGE_SAMPLED = 1e-13, 1e-2
#: An angle this much (relative) above `LEAST_ANGLE` is at it.
AT_THE_END = 1e-6
#: Steps shorter than this, in units of the first one, are none.
SHORTEST = 1e-9


@dataclass(frozen=True)
class BoxState(AngleState):
    """An `AngleState` with a multiplier.

    An index that no shot fell on keeps the α that was measured before, u/2 first. ``useful`` is the share of the
    outcomes that belong to one of the n indices; the others fell on padding. ``lam`` is λ, in the sign of
    ρ = Qα − p − λe.
    """

    useful: float
    lam: float


@dataclass(frozen=True)
class BoxFlow(AngleFlow[BoxState]):
    """The flow of this module; ``tau`` is that of a dynamic multiplier, None for the exact one."""

    box: BoxEncoding
    tau: float | None

    pace: ClassVar[Pace] = Pace(steps=60, growth=1.3, longest=50.0, averaging=0.6, part=2)

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

    def start(self, rng: np.random.Generator, warm: NDArray | None) -> BoxState:
        problem, box = self.workspace, self.box
        state = BoxState(
            theta=box.kept(box.angles(GradientField(problem).start(warm)), LEAST_ANGLE),
            measured=0.5 * box.upper,
            shots_behind=0,
            h=self.first_step,
            flow_time=0.0,
            steps=0,
            resting=False,
            measured_finally=self.plan.final is None,
            kept=True,
            account=Account.opened(rng),
            useful=1.0,
            lam=0.0,
        )
        state = self.measure(state, self.plan.first)
        return replace(state, lam=exact_multiplier(problem, box, state.measured))

    def measure(self, state: BoxState, shots: int | None) -> BoxState:
        box = self.box
        found, account = self.lab.measure(state.account, box.circuit, box.bindings(state.theta), shots)
        measured, useful = box.read(found, state.measured)
        return replace(state, measured=measured, useful=useful, shots_behind=shots or 0, account=account)

    def propose(self, state: BoxState) -> Proposal:
        shots, tau = None if self.exact else state.shots_behind, self.tau or 0.0
        found = primal_dual_step(self.workspace, self.box, state.theta, state.measured, state.lam, state.h, tau, shots)
        return Proposal(*found)

    def moved(self, state: BoxState, proposal: Proposal, share: float, clip: float) -> BoxState:
        least = LEAST_ANGLE if self.exact else 0.0
        theta = self.box.kept(state.theta + np.clip(share * proposal.step, -clip, clip), least)
        if self.exact and self.tau is None:
            theta = self.box.balanced(theta, least)
        return replace(state, theta=theta, lam=state.lam + share * proposal.multiplier, steps=state.steps + 1)

    def accepts(self, state: BoxState, trial: BoxState) -> bool:
        here, there = ((s.theta, s.measured, s.lam) for s in (state, trial))
        return acceptable(self.workspace, self.box, here, there, state.h, self.tau or 0.0)

    def rests(self, state: BoxState, near: bool, taken: bool) -> bool:
        # A device that breaks eᵀα = d never lets a trial come near.
        return near or (not taken and state.h < SHORTEST * self.first_step)

    def variance(self, state: BoxState) -> float:
        return sampling_variance(self.workspace, self.box, state.measured)

    def unknowns(self, state: BoxState) -> NDArray:
        return state.theta if self.tau is None else np.append(state.theta, state.lam)

    def rate(self, ledger: Ledger, state: BoxState, y: NDArray) -> NDArray:
        box = self.box
        found = ledger.measure(box.circuit, box.bindings(y[: box.n]), None)
        return faithful_rate(self.workspace, box, y, box.read(found, state.measured)[0], self.tau)

    def landed(self, state: BoxState, y: NDArray) -> BoxState:
        after = super().landed(state, y[: self.box.n])
        lam = exact_multiplier(self.workspace, self.box, after.measured) if self.tau is None else float(y[-1])
        return replace(after, lam=lam)


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


def faithful_rate(problem: DualProblem, box: BoxEncoding, y: NDArray, alpha: NDArray, tau: float | None) -> NDArray:
    """ẏ of the flow, for y = θ (λ exact, ``tau`` None) or y = (θ, λ), and α measured at θ."""
    if tau is None:
        return 0.5 * np.sin(y) * drive(problem, alpha, exact_multiplier(problem, box, alpha))
    rate = 0.5 * np.sin(y[:-1]) * drive(problem, alpha, float(y[-1]))
    return np.append(rate, -box.excess(alpha) / tau)


#: Angles, the α measured there (arrays of shape (n,)), and λ.
Point = tuple[NDArray, NDArray, float]


def acceptable(problem: DualProblem, box: BoxEncoding, here: Point, there: Point, h: float, tau: float) -> bool:
    """Whether to take a step of length h, from exact distributions.

    f must fall, each α shifted along e in log-odds to where eᵀα = d. With a dynamic multiplier (``tau`` > 0), which
    comes late, it may rise on the flow's own path: then a step is taken too that halves the distance to the implicit
    Euler step which it linearises, as every short one does.
    """
    if _balanced_objective(problem, box, there[1]) < _balanced_objective(problem, box, here[1]):
        return True
    return tau > 0 and 4.0 * _residual(problem, box, here, there, h, tau) <= _residual(problem, box, here, here, h, tau)


def _balanced_objective(problem: DualProblem, box: BoxEncoding, alpha: NDArray) -> float:
    theta = box.kept(box.angles(alpha), LEAST_ANGLE)
    return problem.objective(box.alpha(box.balanced(theta, LEAST_ANGLE)))


def _residual(problem: DualProblem, box: BoxEncoding, here: Point, there: Point, h: float, tau: float) -> float:
    """How far ``there`` is from the implicit Euler step of ``here``, squared, in the metric of the flow."""
    theta, alpha, multiplier = there
    rho, least = drive(problem, alpha, multiplier), LEAST_ANGLE * (1.0 + AT_THE_END)
    held = ((theta <= least) & (rho < 0)) | ((np.pi - theta <= least) & (rho > 0)) | ~box.free
    force = np.where(held, 0.0, (theta - here[0]) / h - 0.5 * np.sin(theta) * rho)
    slack = tau / h * (multiplier - here[2]) + box.excess(alpha)
    return h * (float(box.upper @ force**2) + slack**2 / tau)


def sampling_variance(problem: DualProblem, box: BoxEncoding, alpha: NDArray) -> float:
    """V, where V/S is the mean excess of f that S shots of the state add: ½ Σ Qᵢᵢ αᵢ(uᵢ − αᵢ) · indices."""
    return 0.5 * box.indices * float(problem.diag() @ np.maximum(alpha * (box.upper - alpha), 0.0))


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
