"""Smaller problems of the same kind, and feasible starts: from their solutions, or of few nonzero variables."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace


def nested_order(problem: DualProblem) -> NDArray:
    """Return a random order of the Gram's points of which every prefix has the classes in proportion.

    The order is the same on each call, so that the optimum does not depend on a seed.
    """
    points, rng = problem.gram.n, np.random.default_rng(0)
    sign = np.ones(points)
    sign[np.arange(problem.n) if problem.idx is None else problem.idx] = problem.sigma
    place = np.empty(points)
    for value in (1.0, -1.0):
        members = rng.permutation(np.flatnonzero(sign == value))
        place[members] = (np.arange(len(members)) + rng.random()) / max(1, len(members))
    return np.argsort(place, kind="stable")


def restrict(problem: Workspace, points: NDArray) -> tuple[Workspace, NDArray]:
    """Return the problem on some points of the Gram, and the indices of its variables in the given one.

    Where fewer variables have to sum to the same d > 0 (or to the same sums per sign of e), their bounds grow in
    proportion, so that the multiplier ν stays about the same.
    """
    idx, inside = None, points
    if problem.idx is not None:
        where = np.full(problem.gram.n, -1, dtype=np.intp)
        where[points] = np.arange(len(points))
        inside = np.flatnonzero(where[problem.idx] >= 0)
        idx = where[problem.idx[inside]]
    upper = problem.upper[inside]
    if problem.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX):
        upper = upper * (problem.gram.n / len(points))
        total = float(upper.sum())
        if total < problem.d:  # weighted points: the bounds of a prefix can sum to less than its share
            upper = upper * (problem.d / total) * (1 + 1e-9) if total > 0 else np.full(len(inside), problem.d)
    if problem.groups:
        e, wider = problem.e if problem.e is None else problem.e[inside], problem.gram.n / len(points)
        max_sums = [float(upper[e == sign].sum()) for sign in (1.0, -1.0)]
        needed = [
            total / largest if largest else 1.0 for (_, total), largest in zip(problem.groups, max_sums, strict=True)
        ]
        upper = upper * max(wider, *needed)
    return problem.part(inside, problem.gram.subset(points), idx=idx, upper=upper), inside


def seed(problem: DualProblem, alpha: NDArray) -> NDArray:
    """Return a feasible start from the solution on fewer points, with few nonzero variables.

    On the capped simplex the bounds shrink as points are added. A projection would spread what they cut off over all
    variables; here it is given to the variables of least gradient (the points farthest outside), up to their bounds.
    If α = 0 on a simplex, d is shared by as few variables as can hold it, see `evenly_spread`.
    """
    if problem.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX) and not alpha.any():
        return problem.project(evenly_spread(problem))
    clipped = np.minimum(alpha, problem.upper)
    missing = problem.d - float(clipped.sum())
    if problem.kind is not Kind.CAPPED_SIMPLEX or missing <= 1e-12 * problem.d:
        return problem.project(alpha)
    scaled = alpha * (problem.d / float(alpha.sum()))
    order = np.argsort(problem.product(scaled, None, np.float32) - problem.p, kind="stable")
    room = (problem.upper - clipped)[order]
    before = np.cumsum(room) - room
    clipped[order] += np.clip(missing - before, 0.0, room)
    return problem.project(clipped)


def least_nonzero(problem: DualProblem) -> int:
    """Return the least number of variables whose upper bounds can sum to d on the simplex."""
    return math.ceil(problem.d / min(float(problem.upper.max()), problem.d) * (1 - 1e-12))


def evenly_spread(problem: DualProblem) -> NDArray:
    """Return α with eᵀα = d, up to round-off: few variables at their bounds u, evenly spaced by index."""
    n, upper, count = problem.n, problem.effective_upper, least_nonzero(problem)
    order = (np.arange(count) * n + n // 2) // count
    if float(upper[order].sum()) < problem.d * (1 - 1e-12):  # unequal bounds: in golden-section order, until d is met
        order = np.argsort(np.arange(n) * 0.6180339887498949 % 1.0)
    u = upper[order]
    alpha = np.zeros(n)
    alpha[order] = np.minimum(np.maximum(problem.d - (u.cumsum() - u), 0.0), u)
    return alpha
