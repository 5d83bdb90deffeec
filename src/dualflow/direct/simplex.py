"""A problem on the simplex solved from its points, where few rows of its kernel matrix are needed."""

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
from ..working_set.seeding import evenly, sharing
from .from_points import FromPoints
from .point_sums import PointSums
from .strategy import USUAL, Thresholds

__all__ = ["FoundSimplex", "simplex_from_points", "suits_simplex_points"]


def suits_simplex_points(problem: DualProblem, thresholds: Thresholds = USUAL) -> bool:
    """Whether a problem is one that is first tried by the rows it asks for: of points of the radial kernel, each with
    one variable, no ridge, and a price that is the same for all; of many points, few of which can hold d."""
    gram, n = problem.gram, problem.n
    if (
        problem.kind not in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)
        or problem.idx is not None
        or n > thresholds.max_simplex_points
    ):
        return False
    if not (isinstance(gram, Gram) and gram.is_radial) or isinstance(gram.X, SparsePoints):
        return False
    if gram.X.shape[1] > FEW_FEATURES or gram.X.size >= thresholds.max_simplex_numbers:
        return False
    uniform = (problem.p == problem.p[0]).all() and (problem.sigma == 1).all()  # as those of a simplex's e are
    if not uniform or problem.ridge.any() or problem.offset:
        return False
    most = min(int(n * thresholds.max_row_share), thresholds.max_start_points)
    return n <= thresholds.max_points_filled or sharing(problem) <= most


class FoundSimplex(NamedTuple):
    """What such a problem came to: α as found, what it is worth, its support set, kernel entries evaluated, and the
    seconds that certificates took."""

    alpha: NDArray
    certificate: Certificate
    support: NDArray
    entries: float
    certify_s: float


def simplex_from_points(problem: DualProblem, enough: float, thresholds: Thresholds = USUAL) -> FoundSimplex | None:
    """The optimum of a problem that `suits_simplex_points`, certified to a relative gap that is ``enough``; None where
    more rows than a few are asked for, and there are too many to make them all, or it is not reached. What the
    certificate is made of is computed anew, from the points."""
    scale, p, e = problem.scale, problem.p, problem.sigma
    price = float(p[0]) / scale
    start = evenly(problem)
    search = FromPoints(problem.gram, slice(None), e, price, problem.upper, start, sharing(problem), thresholds)
    if not search.settle(enough):
        return None
    products, psd = (
        PointSums(problem.gram, search.points, search.single, e, price, thresholds),
        SpectrumEvidence("by kernel"),
    )
    bound: tuple[float, Interval | None] = (-np.inf, None)
    certify_s = 0.0
    while True:
        clock.look()
        begun = time.monotonic()
        alpha = search.alpha
        point = problem.project(alpha)

        def certify(sums: NDArray, point: NDArray = point) -> tuple[float, float]:
            nonlocal bound
            bound = dual_bound(problem, point, scale * sums)
            low, high = bound[1] or (np.nan, np.nan)
            return low / scale, high / scale

        sums = products.of(point, certify)
        certificate = certificate_of(problem, psd, alpha, point, point, scale * sums, bound)
        certify_s += time.monotonic() - begun
        if certificate.reaches(enough):
            nu = certificate.multiplier or 0.0
            support = supporting(problem, alpha, scale * sums - (p + nu))
            return FoundSimplex(alpha, certificate, support, search.entries, certify_s)
        if not search.look(sums):
            return None
