"""The direct lane: small problems that are solved and certified without a run of the driver."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.problem import DualProblem, Kind, constant
from ..core.solution import MAX_GAP_UNREFINED
from .pairs import solve_pair
from .results import CertifiedResult, DirectPair, DirectSimplex, DirectWhole
from .simplex import simplex_from_points, suits_simplex_points
from .strategy import USUAL, Thresholds
from .whole import is_wide, solve_whole, suits_whole

__all__ = ["is_pair", "solve_directly"]


def is_pair(problem: DualProblem) -> bool:
    """Whether a problem is the dual of the hinge with an intercept, over points of both classes."""
    if problem.kind is not Kind.BOX_EQUALITY or problem.idx is not None or problem.d != 0 or problem.offset:
        return False
    signs = problem.sigma
    same = problem.e is signs or (problem.e is not None and np.array_equal(problem.e, signs))
    usual = same and problem.scale == 1 and _is_constant(problem.ridge, 0.0) and _is_constant(problem.p, 1.0)
    return usual and abs(float(signs.sum())) < problem.n


def _is_constant(vector: NDArray, value: float) -> bool:
    """Whether all entries of a vector are ``value``; vectors that `constant` caches are recognised without a pass."""
    return vector is constant(len(vector), value) or bool((vector == value).all())


def _is_whole_first(problem: DualProblem, gram: Gram, thresholds: Thresholds) -> bool:
    """Whether a pair is solved over its whole matrix without a trial of `solve_pair`.

    Its rows are expensive, and `solve_pair` would make them one by one, or not take them at all.
    """
    if problem.n <= thresholds.max_pair_dense or not is_wide(problem, thresholds):
        return False
    in_blocks = gram.is_radial and problem.n * gram.X.shape[1] >= thresholds.max_pair_numbers_wide
    return not (in_blocks and float(problem.upper.max()) <= thresholds.max_bound_expensive)


def solve_directly(
    problem: DualProblem, tol: float, refine: bool, thresholds: Thresholds = USUAL
) -> CertifiedResult | None:
    """Solve and certify a problem without a run; None if it does not suit, or its tolerance is not reached.

    Parameters
    ----------
    problem : DualProblem
        The hinge's dual with an intercept, a problem on the simplex, or any convex problem of few variables, with a
        kernel that is positive semidefinite for any points. Others return None.
    tol : float
        Certified relative gap to reach.
    refine : bool
        Whether the computed gap has to reach 1e-10 too.
    thresholds : Thresholds
    """
    gram = problem.gram
    if not (isinstance(gram, Gram) and gram.is_psd_by_kernel):
        return None
    pairs, suits = is_pair(problem), None
    if pairs and _is_whole_first(problem, gram, thresholds):
        suits = suits_whole(problem, thresholds)
    if pairs and not suits:
        negative = problem.sigma < 0
        groups = [negative.nonzero()[0], (~negative).nonzero()[0]]
        order = np.concatenate(groups)
        pair = solve_pair(gram, groups, problem.upper[order], tol, refine, None, thresholds)
        if pair is not None:
            return DirectPair(pair, order)
    begun, gap_tol = time.monotonic(), min(MAX_GAP_UNREFINED, tol) if refine else tol
    if suits_simplex_points(problem, thresholds):
        found = simplex_from_points(problem, gap_tol, thresholds)
        return None if found is None else DirectSimplex(found, time.monotonic() - begun)
    if suits is None:
        suits = suits_whole(problem, thresholds)
    whole = solve_whole(problem, gap_tol, tol, thresholds) if suits else None
    return None if whole is None else DirectWhole(whole, time.monotonic() - begun)
