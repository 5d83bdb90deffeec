"""Steps of the simplex flow in the angles of a parametrised state, from measured distributions and their tangents.

With μ(θ) = |ψ(θ)|² for a real state ψ, McLachlan's principle for imaginary time, ψ̇ = −½(F − ⟨F⟩)ψ, F = ∇f, asks for
A θ̇ = b with A = dPᵀ diag(1/μ) dP (the full Fisher matrix, four times McLachlan's), dP = ∂μ/∂θ and b = −dPᵀ(F − ⟨F⟩):
the replicator flow μ̇ = −μ∘(F − ⟨F⟩) of Helmke and Moore (Bauckhage eq. 3) wherever the ansatz can follow it.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .ansatz import Ansatz, Tangents, normalised

__all__ = ["faithful_rate", "sampling_variance", "semi_implicit_step"]

#: Ridge: always, in units of each diagonal entry; with 1000 shots, in units of their mean (it falls as shots^−½).
RIDGE_EXACT, RIDGE_SAMPLED = 1e-11, 1e-2
#: Tangents that carry less than this share of the strongest one's speed are round-off.
LEAST_SINGULAR = 1e-9


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
    weights = (1.0 / h + 0.5 * np.maximum(E, 0.0)) / (mu + (1.0 / shots if shots else ansatz.least_mass))
    M = problem.d * (dP.T @ (problem.dense() @ dP)) + _gram(dP, weights)
    b = -(dP.T @ E)
    if shots:
        M[np.diag_indices(len(b))] += RIDGE_SAMPLED * np.sqrt(1000.0 / shots) * np.trace(M) / max(len(b), 1)
    step = _solve(M, b)
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
    pi = normalised(ansatz.measured(distributions))
    return max(0.0, 0.5 * problem.d**2 * float(problem.diag() @ pi - pi @ problem.matvec(pi)))


def _centred(problem: DualProblem, ansatz: Ansatz, distributions: NDArray) -> NDArray:
    """E = F − πᵀF of the measured state π."""
    pi = normalised(ansatz.measured(distributions))
    F = problem.gradient(problem.d * pi)
    centred: NDArray = F - pi @ F
    return centred


def _gram(dP: Tangents, weights: NDArray) -> NDArray:
    """dPᵀ diag(weights) dP, dense."""
    if isinstance(dP, np.ndarray):
        product: NDArray = dP.T @ (dP * weights[:, None])
        return product
    return (dP.T @ (dP * weights[:, None])).toarray()


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
