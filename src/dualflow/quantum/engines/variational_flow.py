"""Steps of the simplex flow in the angles of a parametrised state, from measured distributions and their tangents.

With μ(θ) = |ψ(θ)|² for a real state ψ, McLachlan's principle for imaginary time, ψ̇ = −½(F − ⟨F⟩)ψ, F = ∇f, asks for
A θ̇ = b with A = dPᵀ diag(1/μ) dP (the full Fisher matrix, four times McLachlan's), dP = ∂μ/∂θ and b = −dPᵀ(F − ⟨F⟩):
the replicator flow μ̇ = −μ∘(F − ⟨F⟩) of Helmke and Moore (Bauckhage eq. 3) wherever the ansatz can follow it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
import scipy.linalg
import scipy.sparse
from numpy.typing import NDArray

from ...core.forks import cached_property
from ...core.problem import DualProblem
from ..circuits import ParametricCircuit
from ..runs.laboratory import Account, Ledger
from .ansatz import Ansatz, Tangents, normalised
from .variational import AngleFlow, AngleState, Pace

__all__ = ["SimplexFlow", "SimplexState", "faithful_rate", "sampling_variance", "semi_implicit_step"]

#: Ridge: always, in units of each diagonal entry; with 1000 shots, in units of their mean (it falls as shots^−½).
RIDGE_EXACT, RIDGE_SAMPLED = 1e-11, 1e-3
#: Tangents that carry less than this share of the strongest one's speed are round-off.
LEAST_SINGULAR = 1e-9


@dataclass(frozen=True)
class SimplexState(AngleState):
    """With the distributions of the k circuits of a step, θ itself first, or of θ alone: shape (k, 2^q) or (2^q,)."""

    distributions: NDArray = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True)
class SimplexFlow(AngleFlow[SimplexState]):
    """The flow of this module on an ansatz."""

    ansatz: Ansatz

    # A promise of which no quarter came was made of noise in the tangents.
    pace: ClassVar[Pace] = Pace(steps=40, growth=1.8, longest=100.0, averaging=0.6, part=4, promise=0.25)

    @property
    def circuit(self) -> ParametricCircuit:
        return self.ansatz.circuit

    @cached_property
    def circuits_a_step(self) -> int:
        return self.ansatz.circuits_a_step(self.exact)

    @property
    def readouts_a_step(self) -> int:
        return 1 + self.ansatz.repeats

    @property
    def at_rest_from_the_start(self) -> bool:
        return self.workspace.n == 1

    @cached_property
    def longest(self) -> float:
        # The time scale is 1 over the mean |Fᵢ − ⟨F⟩| at the uniform distribution.
        problem = self.workspace
        F = problem.gradient(np.full(problem.n, problem.d / problem.n))
        return self.pace.longest / (float(np.abs(F - F.mean()).mean()) or 1.0)

    def begin(self, rng: np.random.Generator, warm: NDArray | None) -> SimplexState:
        problem, ansatz = self.workspace, self.ansatz
        theta = ansatz.start(None if warm is None else np.maximum(warm, 0.0), rng)
        theta = ansatz.move(theta, np.zeros_like(theta), self.exact)
        largest = max(float(problem.diag().max()), float(np.ptp(problem.p)))
        h = 1.0 / (problem.d * largest) if largest > 0 else 1.0
        account, nothing = Account.opened(rng), np.empty(0)
        state = SimplexState(theta, h, account, self.plan.final is None, nothing, resting=self.at_rest_from_the_start)
        return self.measure(state, self.plan.first)

    def measure(self, state: SimplexState, shots: int | None, final: bool = False) -> SimplexState:
        ansatz = self.ansatz
        bindings = ansatz.angles(state.theta) if final else ansatz.bindings(state.theta, self.exact)
        found, account = self.lab.measure(state.account, self.circuit, bindings, shots)
        mu = ansatz.measured(found)
        if not final:
            normalised(mu)  # nothing but padding measured is an error, and at once
        alpha = self.workspace.d * mu
        return replace(state, distributions=found, measured=alpha, shots_behind=shots or 0, account=account)

    def trial(self, state: SimplexState, share: float) -> tuple[SimplexState, float]:
        problem, ansatz, shots = self.workspace, self.ansatz, state.shots_behind or None
        step, fall = semi_implicit_step(problem, ansatz, state.distributions, state.h, shots)
        theta = ansatz.move(state.theta, self.clipped(share * step), self.exact)
        return replace(state, theta=theta, steps=state.steps + 1), fall

    def objective(self, state: SimplexState) -> float:
        return self.workspace.objective(self.workspace.d * self.ansatz.known(state.distributions))

    def variance(self, state: SimplexState) -> float:
        return sampling_variance(self.workspace, self.ansatz, state.distributions)

    def rate(self, ledger: Ledger, state: SimplexState, y: NDArray) -> NDArray:
        found = ledger.measure(self.circuit, self.ansatz.bindings(y, True), None)
        return faithful_rate(self.workspace, self.ansatz, found)


def semi_implicit_step(
    problem: DualProblem, ansatz: Ansatz, distributions: NDArray, h: float, shots: int | None
) -> tuple[NDArray, float]:
    """A linearised implicit Euler step of length h, and the fall of f it promises.

    Solves (dPᵀ [diag((1/h + ½ max(E, 0))/μ) + d·Q] dP + ridge) δ = −dPᵀE, E = F − ⟨F⟩. The term in E is the derivative
    of the flow's own factor −½E of ψ; without it leaves that die keep the step short (at n = 64 four times as many).

    Parameters
    ----------
    distributions : array of shape (2^q,) or (k, 2^q)
        Of `Ansatz.bindings` at the current angles.
    h : float
        In units of flow time.
    shots : int or None
        Behind each distribution; 1/shots is added to μ in the weights.

    Returns
    -------
    step : array of shape (P,)
        Not clipped; 0 for angles that must not move.
    fall : float ≥ 0
        ½ δᵀb in units of f.
    """
    E = _centred(problem, ansatz, distributions)
    mu, dP = ansatz.tangents(distributions, shots)
    with np.errstate(over="ignore"):  # a device may give an outcome exactly 0, whose tangents are 0 too
        weights = (1.0 / h + 0.5 * np.maximum(E, 0.0)) / (mu + (1.0 / shots if shots else ansatz.least_mass))
    weights = np.minimum(weights, np.finfo(float).max)
    b = -(dP.T @ E)
    ridge = RIDGE_SAMPLED * np.sqrt(1000.0 / shots) if shots else RIDGE_EXACT
    # With as many angles as variables or more the tangents depend on one another; fewer are independent, in general.
    solve = _shortest_step if dP.shape[1] >= dP.shape[0] else _direct_step
    step = solve(problem, dP, weights, E, ridge)
    return ansatz.spread(step), max(0.0, 0.5 * problem.d * float(step @ b))


def faithful_rate(problem: DualProblem, ansatz: Ansatz, distributions: NDArray) -> NDArray:
    """θ̇ of shape (P,): the shortest least-squares solution of dP θ̇ = −μ∘E in the metric 1/μ; exact distributions."""
    E = _centred(problem, ansatz, distributions)
    mu, dP = ansatz.tangents(distributions, None)
    root = np.sqrt(mu + ansatz.least_mass)
    dense = dP if isinstance(dP, np.ndarray) else dP.toarray()
    rate, *_ = scipy.linalg.lstsq(dense / root[:, None], -root * E, cond=LEAST_SINGULAR, lapack_driver="gelsd")
    return ansatz.spread(rate)


def sampling_variance(problem: DualProblem, ansatz: Ansatz, distributions: NDArray) -> float:
    """V, where V/S is the mean excess of f that S shots of the state add: ½ d² (Σ Qᵢᵢμᵢ − μᵀQμ)."""
    pi = ansatz.known(distributions)
    return max(0.0, 0.5 * problem.d**2 * float(problem.diag() @ pi - pi @ problem.matvec(pi)))


def _centred(problem: DualProblem, ansatz: Ansatz, distributions: NDArray) -> NDArray:
    """E = F − πᵀF of the measured state π."""
    pi = ansatz.known(distributions)
    F = problem.gradient(problem.d * pi)
    centred: NDArray = F - pi @ F
    return centred


def _direct_step(problem: DualProblem, dP: Tangents, weights: NDArray, E: NDArray, ridge: float) -> NDArray:
    """δ for independent tangents, from the F × F system."""
    metric = dP.T @ (dP * weights[:, None])
    M = problem.d * (dP.T @ (problem.dense() @ dP)) + (metric.toarray() if scipy.sparse.issparse(metric) else metric)
    if ridge > RIDGE_EXACT:
        M[np.diag_indices_from(M)] += ridge * np.trace(M) / max(len(M), 1)
    return _solve(M, -(dP.T @ E))


def _shortest_step(problem: DualProblem, dP: NDArray, weights: NDArray, E: NDArray, ridge: float) -> NDArray:
    """δ = dPᵀz for dependent tangents: (dP dPᵀ + ε B⁻¹) z = −B⁻¹E, B = diag(weights) + d·Q.

    The same δ as from the P × P system, without its null directions, along which that one would add up round-off.
    """
    B = problem.d * problem.dense()
    B[np.diag_indices_from(B)] += weights
    S = dP @ dP.T
    if not S.any():  # exactly uniform outcomes at all angles: there is nothing to follow
        return np.zeros(dP.shape[1])
    inverse = _inverse(B)
    epsilon = ridge * float(np.sum(B * S)) / dP.shape[1]
    # 1ᵀdP = 0, so a constant in E changes no step; this one leaves z nothing along 1, where S is singular.
    force = inverse @ E
    balance = inverse.sum(axis=1)
    force -= balance * (force.sum() / balance.sum())
    return dP.T @ _solve(S + epsilon * inverse, -force)


def _inverse(B: NDArray) -> NDArray:
    """B⁻¹ of a positive definite B, by its Cholesky factor after scaling to a unit diagonal."""
    scale = 1.0 / np.sqrt(B.diagonal())
    factor = scipy.linalg.cho_factor(B * scale * scale[:, None], check_finite=False)
    inverse: NDArray = scipy.linalg.cho_solve(factor, np.eye(len(B)), check_finite=False)
    return inverse * scale * scale[:, None]


def _solve(M: NDArray, b: NDArray) -> NDArray:
    """M⁻¹b for M positive semidefinite, scaled to a unit diagonal: angles of nearly massless leaves have tiny ones."""
    scale = 1.0 / np.sqrt(np.maximum(M.diagonal(), np.finfo(float).tiny))
    unit = M * scale * scale[:, None]
    unit[np.diag_indices(len(b))] += RIDGE_EXACT
    try:
        solution: NDArray = scipy.linalg.cho_solve(scipy.linalg.cho_factor(unit, check_finite=False), b * scale)
    except np.linalg.LinAlgError:  # round-off can leave it indefinite
        solution = np.linalg.lstsq(unit, b * scale, rcond=None)[0]
    return solution * scale
