"""Problems on the simplex solved from their points, where few rows of the kernel matrix are needed."""

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
from ..core.radial import FEW_FEATURES
from ..core.reading import Interval
from ..core.runtime import clock
from ..core.sparse_points import SparsePoints
from ..refinement.refine import supporting
from ..working_set.seeding import evenly_spread, least_nonzero
from .from_points import PointSearch, PointSums
from .strategy import USUAL, Thresholds


def suits_simplex_points(problem: DualProblem, thresholds: Thresholds = USUAL) -> bool:
    """Whether a problem is first tried from its points, with kernel rows made on demand.

    It must be on a simplex, over points of the radial kernel with one variable each, without ridge, and with the same
    p for all variables. Of many points, few must be able to hold d.
    """
    gram, n = problem.gram, problem.n
    if (
        problem.kind not in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)
        or problem.idx is not None
        or n > thresholds.max_simplex_points
    ):
        return False
    if not (isinstance(gram, Gram) and gram.is_radial) or isinstance(gram.X, SparsePoints):
        return False
    features = gram.X.shape[1]
    if features > thresholds.max_simplex_features or gram.X.size >= thresholds.max_simplex_numbers:
        return False
    if features > FEW_FEATURES and not thresholds.max_whole_variables < n <= thresholds.max_whole_variables_wide:
        return False
    uniform = (problem.p == problem.p[0]).all() and (problem.sigma == 1).all()  # e of a simplex is 1 too
    if not uniform or problem.ridge.any() or problem.offset:
        return False
    max_nonzero = min(int(n * thresholds.max_row_share), thresholds.max_start_points)
    return n <= thresholds.max_points_filled or least_nonzero(problem) <= max_nonzero


class SimplexResult(NamedTuple):
    """Result of a problem on the simplex.

    Attributes
    ----------
    alpha : array of shape (n,)
    certificate : Certificate
    support : int array
        The support set.
    entries : float
        Kernel entries evaluated.
    certify_s : float
        Seconds spent on certificates.
    """

    alpha: NDArray
    certificate: Certificate
    support: NDArray
    entries: float
    certify_s: float


def simplex_from_points(problem: DualProblem, gap_tol: float, thresholds: Thresholds = USUAL) -> SimplexResult | None:
    """Solve a problem for which `suits_simplex_points` is true, certified to a relative gap of ``gap_tol``.

    Returns None if many rows are needed and there are too many to make them all, or if the gap is not reached. The
    certificate uses kernel values that are computed anew from the points.
    """
    scale, p, e = problem.scale, problem.p, problem.sigma
    common_p = float(p[0]) / scale
    start = evenly_spread(problem)
    search = PointSearch(
        problem.gram, slice(None), e, common_p, problem.upper, start, least_nonzero(problem), thresholds
    )
    if not search.solve(gap_tol):
        return None
    products = PointSums(problem.gram, search.points, search.single, e, common_p, thresholds)
    psd = SpectrumEvidence("by kernel")
    bound: tuple[float, Interval | None] = (-np.inf, None)
    certify_s = 0.0
    while True:
        clock.check_time()
        begun = time.monotonic()
        alpha = search.alpha
        point = problem.project(alpha)

        def multipliers_from_sums(sums: NDArray, point: NDArray = point) -> tuple[float, float]:
            nonlocal bound
            bound = dual_bound(problem, point, scale * sums)
            low, high = bound[1] or (np.nan, np.nan)
            return low / scale, high / scale

        sums = products.compute(point, multipliers_from_sums)
        certificate = certificate_of(problem, psd, alpha, point, point, scale * sums, bound)
        certify_s += time.monotonic() - begun
        if certificate.reaches(gap_tol):
            nu = certificate.multiplier or 0.0
            support = supporting(problem, alpha, scale * sums - (p + nu))
            return SimplexResult(alpha, certificate, support, search.entries, certify_s)
        if not search.extend(sums):
            return None
