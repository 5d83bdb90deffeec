"""From a state to its support set, and from the support set to the optimum.

The refinement (`ActiveSet`) finds the optimum from any start, so a refined answer says nothing about the solver that
delivered the start: raw and refined answers are kept apart everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate, Certifier
from ..core.problem import DualProblem, project_onto
from ..core.runtime import clock
from ..exceptions import ProblemError
from .active_set import ActiveSet

__all__ = ["LARGE", "Refinement", "refine", "snap", "support_set", "supporting"]

_EPS, _TINY = float(np.finfo(float).eps), float(np.finfo(float).tiny)

#: Variables beyond which a refinement is dear, and buys nothing where the tolerance is met.
LARGE = 16_384

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
    late : bool
        Whether the deadline ended it.
    """

    alpha: NDArray
    solves: int
    converged: bool
    witness: NDArray | None = None
    late: bool = False


def support_set(
    problem: DualProblem,
    alpha: NDArray,
    certifier: Certifier | None = None,
    certificate: Certificate | None = None,
) -> NDArray:
    """Indices of the variables a state gives weight to, for reading only.

    αᵢ counts if one coordinate Newton step, αᵢ − ρᵢ/Qᵢᵢ, would leave it positive or if it sits above 1e-8 of
    the largest entry with ρᵢ ≤ 0. At an exact optimum this is {i : αᵢ > 0}. The certifier that certified α saves
    a product, and its certificate says what ρ is of, if that is not α alone.
    """
    certifier = certifier or Certifier(problem)
    if certificate is None or certificate.primal is None:
        certificate = certifier.certify(alpha)
    return supporting(certifier.problem, alpha, certifier.rho(certificate))


def supporting(problem: DualProblem, alpha: NDArray, rho: NDArray) -> NDArray:
    """The `support_set` of a state whose Qα − p − νe is known."""
    lower, _ = _active_guess(problem, alpha, rho)
    sizes = np.abs(alpha)
    found: NDArray = (~lower & (sizes > 1e-8 * max(float(sizes.max()), _TINY))).nonzero()[0]
    return found


def _active_guess(problem: DualProblem, alpha: NDArray, rho: NDArray) -> tuple[NDArray, NDArray]:
    """Which variables a state says are at their lower and upper bounds.

    The test is that of the primal-dual active set with its natural unit: αᵢ is at a bound if a coordinate
    Newton step αᵢ − ρᵢ/Qᵢᵢ would push it there, ρ = h − νe.
    """
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
    certifier: Certifier | None = None,
    gradient: NDArray | None = None,
    tol: float = 0.0,
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
    certifier : Certifier, optional
        That of the problem. Its last product is that of the answer, if that converged.
    gradient : array of shape (n,), optional
        About Qα − p, from anywhere: it may save a product, and decides nothing.
    tol : float, default=0
        Relative gap at which the search of a large problem ends, or of one with many violators left; all others go to
        the end, which is near.

    Returns
    -------
    Refinement

    Raises
    ------
    ProblemError
        The problem has two equalities; this method knows of one.
    """
    if problem.total is not None:
        raise ProblemError("a refinement knows of one equality, this problem has two: solve it, or refine `at_level`")
    certifier = certifier or Certifier(problem)
    problem = certifier.problem
    given = problem.project(np.asarray(alpha, dtype=float))
    search, witness, late = None, None, False
    try:
        with clock.within(deadline):
            start, h, rho = _start(certifier, given, gradient)
            snapped = snap(problem, start, rho)
            most = max_solves or 20 * problem.n + 200
            search = ActiveSet(certifier, snapped, start, h, most, deadline, tol, LARGE)
            witness = search.run()
            late = not search.converged and witness is None and clock.is_late()
    except clock.OutOfTime:
        late = True
    if search is None:
        return Refinement(given, 0, False, late=late)
    best = problem.project(search.alpha)
    if search.converged:
        return Refinement(best, search.solves, True, witness)
    # Only after an early stop: snapping had raised f.
    worse = _objective(certifier, best) > _objective(certifier, given)
    return Refinement(given if worse else best, search.solves, False, witness, late)


def _objective(certifier: Certifier, alpha: NDArray) -> float:
    return float(0.5 * alpha @ certifier.compute(alpha) - certifier.problem.p @ alpha)


def _start(certifier: Certifier, given: NDArray, gradient: NDArray | None) -> tuple[NDArray, NDArray, NDArray]:
    """A feasible start, and about Qα − p and Qα − p − νe there."""
    work, start = certifier.workspace, given
    # In float32, where that is quicker: the search computes anew what must be exact.
    Qa = work.product(start, None, np.float32) if gradient is None else gradient + work.p
    gap, rho = certifier.appraise(start, Qa)
    if gap > _USELESS_GAP and work.psd.is_psd:
        # A state this far off names a support set so large and wrong that starting empty is far cheaper.
        empty = work.project(np.zeros(work.n))
        product = work.product(empty, None, np.float32)
        # On the simplex f may have an optimum of 0, which no gap is small beside: the empty start's is what to go by.
        if not work.d or certifier.gap(start, Qa) > _USELESS_GAP * certifier.gap(empty, product):
            start, Qa = empty, product
            _, rho = certifier.appraise(start, Qa)
    return start, Qa - work.p, rho


def snap(problem: DualProblem, alpha: NDArray, rho: NDArray) -> NDArray:
    """Put the variables that a state says are at a bound there, and let the others take up the equality; a feasible α
    of shape (n,) as it was if they cannot. ``rho`` is Qα − p − νe, as `Certifier.appraise` gives it."""
    at_lower, at_upper = _active_guess(problem, alpha, rho)
    lower = np.where(at_upper, problem.upper, problem.lower)
    upper = np.where(at_lower, problem.lower, problem.upper)
    snapped = project_onto(alpha, lower, upper, problem.e, problem.d)
    scale = max(abs(problem.d), float(np.abs(snapped).sum()))
    feasible = problem.infeasibility(snapped) <= 1e-12 * scale
    return snapped if feasible else alpha  # a projection would lift many off their bounds
