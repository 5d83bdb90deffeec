"""Problems of few variables, solved in float64 over the whole kernel matrix of their points.

A run of the driver takes longer than such a solve: workspace, isolated copy, context, states and record are objects of
Python. Here one matrix serves the pair loop and the certificate.
"""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import dual_bound
from ..core.certificate import Certificate, certificate_of
from ..core.gram import Gram
from ..core.problem import DualProblem, Kind
from ..core.psd import SpectrumEvidence
from ..core.runtime import clock
from ..core.runtime.memory import arena_array
from ..refinement.refine import supporting
from ..working_set._pairs import solve_pairs
from ..working_set.dense import KKT_TOL_ROUND_OFF, MAX_RESTARTS, MAX_UPDATES_EXACT, UPDATES_PER_VARIABLE
from ..working_set.seeding import seed
from ..working_set.units import ScaledVariables
from .pair_blocks import relative_spread
from .strategy import USUAL, Thresholds

__all__ = ["WholeResult", "solve_whole", "suits_whole"]

#: The feasible sets that the pair loop takes.
_KINDS = (Kind.BOX, Kind.BOX_EQUALITY, Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)


class WholeResult(NamedTuple):
    """Result of a problem over its whole kernel matrix.

    Attributes
    ----------
    alpha : array of shape (n,)
        As found.
    certificate : Certificate
    problem : DualProblem
        The centred problem.
    rho : array of shape (n,)
        Qα − p − νe of it.
    entries : float
        Kernel entries evaluated.
    certify_s : float
        Seconds spent on the certificate.
    """

    alpha: NDArray
    certificate: Certificate
    problem: DualProblem
    rho: NDArray
    entries: float
    certify_s: float

    def support(self) -> NDArray:
        """Return the support set."""
        return supporting(self.problem, self.certificate.alpha, self.rho)


def suits_whole(problem: DualProblem, thresholds: Thresholds = USUAL) -> bool:
    """Whether a problem has few variables, either one for each point, or two as in a regression with a tube."""
    n, points, idx = problem.n, problem.gram.n, problem.idx
    if n > thresholds.max_whole_variables or problem.kind not in _KINDS:
        return False
    if idx is None:
        return True
    if n != 2 * points or problem.ridge.any() or not np.array_equal(problem.e, problem.sigma):
        return False
    order = np.arange(points)
    return np.array_equal(idx[:points], order) and np.array_equal(idx[points:], order)


def solve_whole(
    problem: DualProblem, gap_tol: float, tol: float, thresholds: Thresholds = USUAL
) -> WholeResult | None:
    """Solve and certify a problem for which `suits_whole` is true; None if a tolerance is not reached.

    Parameters
    ----------
    problem : DualProblem
        With a kernel that is positive semidefinite for any points.
    gap_tol : float
        Relative gap that objective and bound as computed have to reach.
    tol : float
        The same with the bound on rounding errors included.
    thresholds : Thresholds
    """
    problem = problem.centred()
    gram, n = problem.gram, problem.n
    assert isinstance(gram, Gram)
    K = _kernel_matrix(gram)
    if gram.kernel == "poly" and not relative_spread(K) > thresholds.min_relative_spread:
        return None
    alpha = _minimise(problem, K)
    clock.check_time()
    begun = time.monotonic()
    point = problem.project(alpha)
    Qa = problem.product(point) if gram.kernel == "linear" else _product(problem, K, point)
    bound = dual_bound(problem, point, Qa)
    shift = problem.scale * gram.constant(problem.reading.coefficients(problem, point, 0.0), problem.d)
    psd = SpectrumEvidence("by kernel")
    certificate = certificate_of(problem, psd, alpha, point, point, Qa, bound, shift)
    if not (certificate.reaches(gap_tol) and certificate.within(tol)):
        return None
    rho = Qa - problem.p
    if problem.e is not None and certificate.multiplier is not None:
        rho -= (certificate.multiplier - shift) * problem.e
    return WholeResult(alpha, certificate, problem, rho, float(gram.n) ** 2, time.monotonic() - begun)


def _kernel_matrix(gram: Gram) -> NDArray:
    """Return the kernel matrix of all points in float64."""
    if not gram.is_radial:
        every = np.arange(gram.n)
        return gram.block(every, every)
    points = gram.radial_points(float)
    return points.kernel(points, arena_array((gram.n, gram.n), float))


def _product(problem: DualProblem, K: NDArray, alpha: NDArray) -> NDArray:
    """Return Qα from the kernel matrix of the points."""
    weights, points = problem.sigma * alpha, len(K)
    sums = K @ weights if problem.idx is None else np.tile(K @ (weights[:points] + weights[points:]), 2)
    if problem.offset:
        sums += problem.offset * float(weights.sum())
    product: NDArray = problem.scale * problem.sigma * sums + problem.ridge * alpha
    return product


def _minimise(problem: DualProblem, K: NDArray) -> NDArray:
    """Return the minimiser of f by pair updates and Newton steps, shape (n,)."""
    scaled = ScaledVariables(problem, seed(problem, np.zeros(problem.n)), problem.diag())
    slots = np.arange(problem.n) if problem.idx is None else problem.idx.astype(np.int64)
    M = K + problem.offset if problem.offset else K
    M = M * (problem.scale * scaled.unit / scaled.slope)
    if problem.idx is not None:
        M = np.tile(M, 2)  # the two variables of a point have the same row
    elif (scaled.sign < 0).any():
        M *= scaled.sign[:, None]
        M *= scaled.sign
    if problem.ridge.any():
        M[slots, slots] += problem.ridge * (scaled.unit / scaled.slope)
    diag = M.diagonal()[slots]
    for _ in range(MAX_RESTARTS):
        G = (M @ scaled.beta)[slots] - scaled.ep
        limit = UPDATES_PER_VARIABLE * problem.n
        low, high, has_equality = scaled.low, scaled.high, problem.e is not None
        moved, violation, _ = solve_pairs(
            M, slots, len(M), G, diag, scaled.beta, low, high, has_equality, KKT_TOL_ROUND_OFF, limit
        )
        if moved == 0 or (violation <= KKT_TOL_ROUND_OFF and moved < MAX_UPDATES_EXACT):
            break
    return scaled.alpha
