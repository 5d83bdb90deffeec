"""A problem on the simplex solved from its points, where few rows of its kernel matrix are needed."""

from __future__ import annotations

import numpy as np

from .core.kernels import Gram
from .core.problem import DualProblem, Kind
from .core.radial import FEW_FEATURES
from .core.sparse_points import SparsePoints
from .working_set.descent import FEW_WHOLE
from .working_set.from_points import MANY_ROWS, SMALL_ENOUGH, FromPoints
from .working_set.seeding import seed, sharing

__all__ = ["simplex_from_points", "suits_simplex_points"]

#: Points that hold d to begin with, at most.
BEGINNERS = 800
#: Numbers of the data from which rows are dear.
HEAVY = 200_000


def suits_simplex_points(problem: DualProblem) -> bool:
    """Whether a problem is one that is first tried by the rows it asks for: of points of the radial kernel, each with
    one variable, no ridge, and a price that is the same for all; of many points, few of which can hold d."""
    gram, n = problem.gram, problem.n
    if problem.kind not in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX) or problem.idx is not None or n > FEW_WHOLE:
        return False
    if not (isinstance(gram, Gram) and gram.is_radial) or isinstance(gram.X, SparsePoints):
        return False
    if gram.X.shape[1] > FEW_FEATURES or gram.X.size >= HEAVY:
        return False
    if problem.ridge.any() or np.ptp(problem.p) > 0 or (problem.sigma != 1).any() or (np.asarray(problem.e) != 1).any():
        return False
    return n <= SMALL_ENOUGH or sharing(problem) <= min(int(n * MANY_ROWS), BEGINNERS)


def simplex_from_points(problem: DualProblem) -> FromPoints:
    """The search for α of a problem that `suits_simplex_points`."""
    start = seed(problem, np.zeros(problem.n))
    return FromPoints(problem.gram, slice(None), np.ones(problem.n), 0.0, problem.upper, start, sharing(problem))
