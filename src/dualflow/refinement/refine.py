"""Refinement of a solver's state: its support set, and the optimum that an active-set method finds from there.

The refinement (`ActiveSet`) finds the optimum from any start, so a refined solution is no evidence for the solver that
made the start. Raw and refined solutions are therefore reported apart everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate, Certifier
from ..core.problem import DualProblem, project_onto
from ..core.runtime import clock
from ..exceptions import ProblemError
from .active_set import ActiveSet, SolveNearlyFree

_EPS = float(np.finfo(float).eps)
_TINY = float(np.finfo(float).tiny)

#: With more variables a refinement is expensive, and is not run if the tolerance is met.
MAX_N_REFINED = 16_384

#: Above this relative gap a state does not indicate the support set.
_MAX_GAP_START = 0.5


@dataclass(frozen=True)
class Refinement:
    """The result of `refine`."""

    alpha: NDArray  # feasible, with f no larger than at the start; shape (n,)
    solves: int  # number of linear systems solved
    #: Whether no bounded variable had a multiplier of the wrong sign at the end, up to round-off, or ``tol`` was met.
    converged: bool
    #: If a hard margin does not exist: v ≥ 0 with yᵀv = 0, 1ᵀv = 1, vᵀQv ≈ 0; shape (n,) or None.
    witness: NDArray | None = None
    late: bool = False  # whether the deadline ended it


def support_set(
    problem: DualProblem,
    alpha: NDArray,
    certifier: Certifier | None = None,
    certificate: Certificate | None = None,
) -> NDArray:
    """Return the indices of the support set that a state indicates; it is reported, not used for solving.

    Variable i belongs to it if αᵢ exceeds 1e-8 of the largest entry and one coordinate Newton step, αᵢ − ρᵢ/Qᵢᵢ, would
    not take it to its lower bound. At an exact optimum this is {i : αᵢ > 0}.

    Parameters
    ----------
    problem : DualProblem
    alpha : array of shape (n,)
    certifier : Certifier, optional
        The one that certified α saves a product.
    certificate : Certificate, optional
        That of α, needed if its ρ comes from weights of the features.
    """
    certifier = certifier or Certifier(problem)
    if certificate is None:
        certificate = certifier.certify(alpha)
    return supporting(certifier.problem, alpha, certifier.rho(certificate))


def supporting(problem: DualProblem, alpha: NDArray, rho: NDArray) -> NDArray:
    """Return the `support_set` of a state, given ``rho`` = Qα − p − νe."""
    lower, _ = _active_guess(problem, alpha, rho)
    sizes = np.abs(alpha)
    found: NDArray = (~lower & (sizes > 1e-8 * max(float(sizes.max()), _TINY))).nonzero()[0]
    return found


def _active_guess(problem: DualProblem, alpha: NDArray, rho: NDArray) -> tuple[NDArray, NDArray]:
    """Return masks of the variables that a state indicates to be at their lower and upper bounds.

    The test is that of the primal-dual active set method with its natural scaling: αᵢ is at a bound if a coordinate
    Newton step αᵢ − ρᵢ/Qᵢᵢ would take it there, ρ = h − νe.
    """
    diag = problem.diag()
    curvature = np.maximum(diag, _EPS * (float(diag.max()) or 1.0))
    target = alpha - rho / curvature
    # A variable exactly at its bound with ρ = 0 stays there: the check for violators frees it if necessary.
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
    solve_nearly_free: SolveNearlyFree | None = None,
) -> Refinement:
    """Minimise f from any start by the active-set method.

    Parameters
    ----------
    problem : DualProblem
        Q positive semidefinite; singular Q (duplicate points, low rank) is fine.
    alpha : array of shape (n,)
        The start; projected first. A better start saves linear solves, and does not change the result.
    max_solves : int, optional
        Limit on linear solves; 20·n + 200 by default, far more than problems need.
    deadline : float, optional
        `time.monotonic()` value after which the best point so far is returned.
    certifier : Certifier, optional
        That of the problem. If the refinement converges, its last product is that of the result.
    gradient : array of shape (n,), optional
        Approximation of Qα − p of any origin; it saves a product, and does not change the result.
    tol : float, default=0
        Relative gap at which the refinement ends if the problem is large or has many violators left; others run to the
        optimum, which is near.
    solve_nearly_free : callable, optional
        As of `ActiveSet`.

    Returns
    -------
    Refinement

    Raises
    ------
    ProblemError
        The problem has two equalities; this method supports one.
    """
    if problem.total is not None:
        raise ProblemError(
            "a refinement supports one equality, this problem has two: use `solve`, or refine `problem.at_level(level)`"
        )
    certifier = certifier or Certifier(problem)
    problem = certifier.problem
    given = problem.project(np.asarray(alpha, dtype=float))
    search, witness, late = None, None, False
    try:
        with clock.within(deadline):
            start, h, rho = _start(certifier, given, gradient)
            snapped = snap(problem, start, rho)
            most = max_solves or 20 * problem.n + 200
            search = ActiveSet(certifier, snapped, start, h, most, deadline, tol, MAX_N_REFINED, solve_nearly_free)
            witness = search.run()
            late = not search.converged and witness is None and clock.is_late()
    except clock.OutOfTime:
        late = True
    if search is None:
        return Refinement(given, 0, False, late=late)
    best = problem.project(search.alpha)
    if search.converged:
        return Refinement(best, search.solves, True, witness)
    # After an early stop f may be larger than at the start, because `snap` raised it.
    worse = _objective(certifier, best) > _objective(certifier, given)
    return Refinement(given if worse else best, search.solves, False, witness, late)


def _objective(certifier: Certifier, alpha: NDArray) -> float:
    """Return f(α)."""
    return float(0.5 * alpha @ certifier.compute(alpha) - certifier.problem.p @ alpha)


def _start(certifier: Certifier, given: NDArray, gradient: NDArray | None) -> tuple[NDArray, NDArray, NDArray]:
    """Return a feasible start, and approximations of Qα − p and Qα − p − νe there."""
    work, start = certifier.workspace, given
    # float32 suffices: the active-set method recomputes what must be exact.
    Qa = work.product(start, None, np.float32) if gradient is None else gradient + work.p
    gap, rho = certifier.appraise(start, Qa)
    if gap > _MAX_GAP_START and work.psd.is_psd:
        # Such a state indicates a large and wrong support set; a start at 0 takes far fewer solves.
        zero = work.project(np.zeros(work.n))
        product = work.product(zero, None, np.float32)
        # On the simplex the optimum of f may be 0, and then each relative gap is large: compare the gaps themselves.
        if not work.d or certifier.gap(start, Qa) > _MAX_GAP_START * certifier.gap(zero, product):
            start, Qa = zero, product
            _, rho = certifier.appraise(start, Qa)
    return start, Qa - work.p, rho


def snap(problem: DualProblem, alpha: NDArray, rho: NDArray) -> NDArray:
    """Return a feasible α, shape (n,), with variables moved to the bounds that the state indicates for them.

    The others are shifted to meet the equality; if they cannot, ``alpha`` is returned. ``rho`` is Qα − p − νe, as from
    `Certifier.appraise`.
    """
    at_lower, at_upper = _active_guess(problem, alpha, rho)
    lower = np.where(at_upper, problem.upper, problem.lower)
    upper = np.where(at_lower, problem.lower, problem.upper)
    snapped = project_onto(alpha, lower, upper, problem.e, problem.d)
    scale = max(abs(problem.d), float(np.abs(snapped).sum()))
    feasible = problem.infeasibility(snapped) <= 1e-12 * scale
    return snapped if feasible else alpha  # projecting it again would move many variables off their bounds
