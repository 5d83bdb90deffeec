"""From a state to its support set, and from the support set to the optimum.

The refinement (`ActiveSet`) finds the optimum from any start, so a refined answer says nothing about the solver that
delivered the start: raw and refined answers are kept apart everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .active_set import ActiveSet
from .certificate import Certificate, certify
from .problem import DualProblem
from .projection import project_onto
from .screening import product_from_below

__all__ = ["Refinement", "refine", "snap", "support_set"]

_EPS, _TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)

#: Relative gap above which a state says nothing of the support set.
_USELESS_GAP = 0.5


@dataclass(frozen=True)
class Refinement:
    """What `refine` returns.

    Attributes
    ----------
    alpha : array of shape (n,)
        Feasible, and never worse than the start.
    solves : int
        Linear systems solved.
    converged : bool
        No bounded variable had a multiplier of the wrong sign at the end, up to round-off.
    witness : array of shape (n,) or None
        v ≥ 0, yᵀv = 0, 1ᵀv = 1, vᵀQv ≈ 0 when a hard margin does not exist.
    """

    alpha: NDArray
    solves: int
    converged: bool
    witness: NDArray | None = None


def support_set(problem: DualProblem, alpha: NDArray, certificate: Certificate | None = None) -> NDArray:
    """Indices of the variables a state gives weight to, for reading only.

    αᵢ counts if one coordinate Newton step, αᵢ − ρᵢ/Qᵢᵢ, would leave it positive or if it sits above 1e-8 of
    the largest entry with ρᵢ ≤ 0. At an exact optimum this is {i : αᵢ > 0}. The certificate of α saves making it.
    """
    lower, _ = _active_guess(problem, alpha, certificate or certify(problem, alpha))
    return np.flatnonzero(~lower & (np.abs(alpha) > 1e-8 * max(float(np.abs(alpha).max()), _TINY)))


def _active_guess(problem: DualProblem, alpha: NDArray, certificate: Certificate) -> tuple[NDArray, NDArray]:
    """Which variables a state says are at their lower and upper bounds.

    The test is that of the primal-dual active set with its natural unit: αᵢ is at a bound if a coordinate
    Newton step αᵢ − ρᵢ/Qᵢᵢ would push it there.
    """
    rho = product_from_below(problem, certificate.alpha) - problem.p
    if problem.e is not None and certificate.multiplier is not None:
        rho = rho - certificate.multiplier * problem.e
    diag = problem.diag()
    curvature = np.maximum(diag, _EPS * (float(diag.max()) or 1.0))
    target = alpha - rho / curvature
    # A variable exactly at its bound with ρ = 0 is left there: freeing it is the invasion check's business.
    at_lower = (target < problem.lower) | (alpha <= problem.lower)
    at_upper = ~at_lower & ((target > problem.upper) | (alpha >= problem.upper))
    return at_lower, at_upper


def refine(
    problem: DualProblem,
    alpha: NDArray,
    *,
    max_solves: int | None = None,
    deadline: float | None = None,
    certificate: Certificate | None = None,
) -> Refinement:
    """Minimise f from any start by the safeguarded active-set method.

    Parameters
    ----------
    problem : DualProblem
        Q positive semidefinite; singular Q (duplicate points, low rank) is fine.
    alpha : array of shape (n,)
        The start; projected first. Better starts cost fewer linear solves, nothing else.
    max_solves : int, optional
        Limit on linear solves; 20·n + 200 by default, far above what is seen.
    deadline : float, optional
        `time.monotonic()` value after which the best point so far is returned.
    certificate : Certificate, optional
        That of ``alpha``, which saves making it.

    Returns
    -------
    Refinement
    """
    given = start = problem.project(np.asarray(alpha, dtype=float))
    certificate = certificate or certify(problem, given)
    gap = certificate.relative_gap
    if gap is not None and gap > _USELESS_GAP:
        # A state this far off names a support set so large and wrong that starting empty is far cheaper.
        start = problem.project(np.zeros(problem.n))
        certificate = certify(problem, start)
    snapped = snap(problem, start, certificate)
    search = ActiveSet(problem, start, snapped, max_solves or 20 * problem.n + 200, deadline)
    witness = search.run()
    best, value = problem.project(search.alpha), _objective(problem, given)
    # A converged answer is the better one even where round-off in f (its square root in alpha) says otherwise.
    if _objective(problem, best) - value > (1e-12 * abs(value) if search.converged else 0.0):
        return Refinement(given, search.solves, False, witness)  # only after an early stop: snapping had raised f
    return Refinement(best, search.solves, search.converged, witness)


def _objective(problem: DualProblem, alpha: NDArray) -> float:
    return float(0.5 * alpha @ product_from_below(problem, alpha) - problem.p @ alpha)


def snap(problem: DualProblem, alpha: NDArray, certificate: Certificate) -> NDArray:
    """Put the variables that a state says are at a bound there, and let the others take up the equality; a feasible α
    of shape (n,) as it was if they cannot. ``certificate`` is that of ``alpha``."""
    at_lower, at_upper = _active_guess(problem, alpha, certificate)
    lower = np.where(at_upper, problem.upper, problem.lower)
    upper = np.where(at_lower, problem.lower, problem.upper)
    snapped = project_onto(alpha, lower, upper, problem.e, problem.d)
    scale = max(abs(problem.d), float(np.abs(snapped).sum()))
    feasible = problem.infeasibility(snapped) <= 1e-12 * scale
    return snapped if feasible else alpha  # a projection would lift many off their bounds
