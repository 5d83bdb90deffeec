"""Problems on the simplex solved from their points, where few rows of the kernel matrix are needed."""

from __future__ import annotations

import time

from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.problem import DualProblem, Kind
from ..core.radial import FEW_FEATURES
from ..core.runtime import clock
from ..core.sparse_points import SparsePoints
from ..working_set.seeding import evenly_spread, least_nonzero
from .from_points import PointSearch, PointSums
from .single import DirectSingle
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
    if not uniform or problem.has_ridge or problem.offset:
        return False
    max_nonzero = min(int(n * thresholds.max_row_share), thresholds.max_start_points)
    return n <= thresholds.max_points_filled or least_nonzero(problem) <= max_nonzero


def simplex_from_points(problem: DualProblem, gap_tol: float, thresholds: Thresholds = USUAL) -> DirectSingle | None:
    """Solve a problem for which `suits_simplex_points` is true, certified to a relative gap of ``gap_tol``.

    Returns None if many rows are needed and there are too many to make them all, or if the gap is not reached. The
    certificate uses kernel values that are computed anew from the points.
    """
    started, certify_s, scale, e = time.monotonic(), 0.0, problem.scale, problem.sigma
    common_p = float(problem.p[0]) / scale
    start = evenly_spread(problem)
    search = PointSearch(
        problem.gram, slice(None), e, common_p, problem.upper, start, least_nonzero(problem), thresholds
    )
    if not search.solve(gap_tol):
        return None
    products = PointSums(problem.gram, search.points, search.single, e, common_p, thresholds)
    found = point = start
    this: DirectSingle | None = None

    def multipliers_from_sums(sums: NDArray) -> tuple[float, float]:
        nonlocal this
        this = DirectSingle(problem, found, point, scale * sums, search.entries)
        return this.row.low / scale, this.row.high / scale

    while True:
        clock.check_time()
        begun, found = time.monotonic(), search.alpha
        point = problem.project(found)
        sums = products.compute(point, multipliers_from_sums)
        certify_s += time.monotonic() - begun
        if this is not None and this.relative_gap <= gap_tol:
            return this.timed(time.monotonic() - started, certify_s)
        if not search.extend(sums):
            return None
