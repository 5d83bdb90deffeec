"""Learning from a stream by invasion, with bounded memory: the survivors and a reserve of other points are retained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .hinge_updates import MAX_POINTS_PATH, CommunityModel, Equilibrium, add_along_path
from .invasion import Equilibrate, Habitat

#: New points taken in one block: enough for BLAS, and few enough for memory.
MAX_POINTS_PER_BLOCK = 1024
#: If at most this share of the points is distinct, equal points are merged into one variable.
MAX_DISTINCT_MERGED = 0.9
#: If more violators than this, and than twice `max_path_violators`, are expected among the new points, the KKT check is
#: skipped and all points are solved for.
MAX_EXPECTED_VIOLATORS = 4
#: A weight is set to a bound if its distance from it is below this share of the weight of its group.
ROUND_OFF_RATIO = 1e-14


@dataclass(frozen=True)
class Community:
    """The retained points of a stream: its survivors and a reserve of points without weight."""

    X: NDArray  # shape (m, features)
    sign: NDArray  # the class, ±1; all 1 if there are no classes; shape (m,)
    cap: NDArray  # upper bounds of α, or the factors they are computed from; shape (m,)
    alpha: NDArray  # shape (m,)
    h: NDArray  # gradient Qα − p; shape (m,)
    ids: NDArray  # position of each point in the stream; int array of shape (m,), ascending
    seen: int = 0  # number of points met so far
    #: invasions, extinctions: number of points that ever got weight, and that lost it again; the difference is the
    #: number of survivors.
    invasions: int = 0
    extinctions: int = 0

    @classmethod
    def empty(cls, features: int) -> Community:
        """Return the community before any point is met."""
        none = np.empty(0)
        return cls(np.empty((0, features)), none, none, none, none, np.empty(0, dtype=np.int64))

    @property
    def survivors(self) -> NDArray:
        """Positions of the points with weight."""
        return np.flatnonzero(self.alpha > 0)


def learn(
    community: Community,
    X: NDArray,
    sign: NDArray,
    cap: NDArray,
    ids: NDArray,
    *,
    pose: Callable[[NDArray, NDArray, NDArray, int], DualProblem],
    equilibrate: Equilibrate,
    reserve: Callable[[int], float],
    n_init: int,
    gap_tol: float,
) -> Community:
    """Return the community after more points of a stream, taken in blocks; the given community is not changed.

    Parameters
    ----------
    community : Community
    X, sign, cap, ids : arrays with one row for each new point
        As in `Community`.
    pose : callable
        ``pose(X, sign, cap, seen) -> DualProblem``, the problem of these points after ``seen`` points of the stream.
    equilibrate : callable
        Minimises a small problem from a feasible start.
    reserve : callable
        ``reserve(survivors)``: number of points without weight to retain.
    n_init : int
        Number of points that are met before any is forgotten; they are solved as one batch.
    gap_tol : float
        Relative gap, by the present gradient, up to which invasion counts as converged; above it, the problem of all
        present points is solved.
    """
    rows: NDArray | None = None
    start = 0
    while start < len(X):
        size = max(MAX_POINTS_PER_BLOCK, n_init - community.seen)
        part = slice(start, start + size)
        start += size
        seen = community.seen + len(X[part])
        extended = _appended(community, X[part], sign[part], cap[part], ids[part])
        first, group = _distinct(extended.X, extended.sign)
        all_distinct = len(first) == len(group)
        problem = pose(extended.X[first], extended.sign[first], np.bincount(group, extended.cap), seen)
        if rows is not None and all_distinct:
            survivors, new = community.survivors, np.arange(len(community.alpha), problem.n)
            rows = np.concatenate([rows, problem.gram.block(survivors, new)], axis=1)
        habitat = Habitat(problem, np.bincount(group, extended.alpha), rows if all_distinct else None)
        habitat.invade_until_stable(equilibrate, np.arange(problem.n))
        if habitat.gap() > gap_tol:
            habitat.open(equilibrate)
        alpha = habitat.alpha
        if not all_distinct:
            alpha = _distributed(alpha, problem.upper, group, pose(extended.X, extended.sign, extended.cap, seen).upper)
        idle = np.flatnonzero((alpha == 0) & (problem.upper[group] > 0))
        idle = idle[np.argsort(habitat.reluctance()[group[idle]], kind="stable")]
        keep = _retained(alpha, idle, seen, reserve, n_init)
        rows = None
        if start < len(X) and all_distinct:
            # The next block needs the rows of the survivors, in their order, over the retained points.
            order = np.argsort(habitat.residents, kind="stable")
            order = order[alpha[habitat.residents[order]] > 0]
            rows = habitat.rows[np.ix_(order, keep)]
        community = _retained_community(extended, alpha, habitat.h[group], keep, community.invasions, habitat.invasions)
    return community


def learn_in_one_batch(
    community: Community,
    X: NDArray,
    sign: NDArray,
    cap: NDArray,
    ids: NDArray,
    *,
    model_of: Callable[[Community], CommunityModel],
    optimum: Callable[[Community], Equilibrium | None],
    max_path_violators: int,
    reserve: Callable[[int], float],
    n_init: int,
) -> Community | None:
    """Return what `learn` would return for the new points, if there is a cheaper way to compute it; else None.

    Parameters
    ----------
    community, X, sign, cap, ids, reserve, n_init
        As in `learn`.
    model_of : callable
        Returns the non-empty community as new points are compared with it.
    optimum : callable
        Returns the optimum of all points, or None if it is not found.
    max_path_violators : int
        Number of violating points up to which they are added along a path.
    """
    survivors, seen = int(np.count_nonzero(community.alpha > 0)), community.seen + len(X)
    # The expected fraction of violators is the fraction of survivors among the points met so far.
    max_expected = max(MAX_EXPECTED_VIOLATORS, 2 * max_path_violators)
    is_cheap = len(community.X) > 0 and len(X) * survivors <= max_expected * community.seen
    model = model_of(community) if is_cheap else None
    rows = None if model is None else model.rows_of(X)
    found: Equilibrium | None = None
    if model is not None and rows is not None:
        h = model.gradient_at(rows, sign)
        n_violators = int(np.count_nonzero(~model.satisfies_kkt(h, sign)))
        if n_violators == 0:
            has_no_reserve = len(community.alpha) == survivors
            if has_no_reserve and seen >= n_init and reserve(survivors) == 0:
                return replace(community, seen=seen)
            alpha = np.concatenate([community.alpha, np.zeros(len(X))])
            found = Equilibrium(alpha, np.concatenate([community.h, h]), model.nu)
        elif n_violators <= max_path_violators and len(community.alpha) <= MAX_POINTS_PATH:
            found = add_along_path(model, X, rows, sign, cap)
    extended = _appended(community, X, sign, cap, ids)
    if found is None and (found := optimum(extended)) is None:
        return None
    idle = np.flatnonzero(found.alpha == 0)
    reluctance = found.h[idle] - found.nu * extended.sign[idle]
    keep = _retained(found.alpha, idle[np.argsort(reluctance, kind="stable")], seen, reserve, n_init)
    return _retained_community(extended, found.alpha, found.h, keep, community.invasions, 0)


def _appended(community: Community, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community:
    """Return a community with new points of weight 0 appended; its gradient is left empty."""
    return replace(
        community,
        X=np.concatenate([community.X, X]),
        sign=np.concatenate([community.sign, sign]),
        cap=np.concatenate([community.cap, cap]),
        alpha=np.concatenate([community.alpha, np.zeros(len(X))]),
        h=np.empty(0),
        ids=np.concatenate([community.ids, ids]),
        seen=community.seen + len(X),
    )


def _retained(alpha: NDArray, idle: NDArray, seen: int, reserve: Callable[[int], float], n_init: int) -> NDArray:
    """Return the positions of the points to retain, ascending.

    ``idle`` holds the points without weight that could get some, the nearest to doing so first.
    """
    alive = np.flatnonzero(alpha > 0)
    # Before the second class is met no point has weight, and no distance from invading is defined.
    room = reserve(len(alive)) if len(alive) else max(n_init, reserve(n_init))
    return np.sort(np.concatenate([alive, idle if seen < n_init or room >= len(idle) else idle[: int(room)]]))


def _retained_community(
    extended: Community, alpha: NDArray, h: NDArray, keep: NDArray, before: int, admitted: int
) -> Community:
    """Return the community of the points ``keep``, with their new weights."""
    invasions = before + max(admitted, int(np.count_nonzero((alpha > 0) & (extended.alpha == 0))))
    return Community(
        extended.X[keep],
        extended.sign[keep],
        extended.cap[keep],
        alpha[keep],
        h[keep],
        extended.ids[keep],
        extended.seen,
        invasions,
        invasions - int(np.count_nonzero(alpha > 0)),
    )


def are_distinct(X: NDArray, sign: NDArray, squares: NDArray) -> bool:
    """Return whether most points differ from all others of their class, so that `learn` does not merge equal points.

    ``squares`` holds a number for each point, the same for equal points; it mostly answers without comparing points.
    """
    limit = MAX_DISTINCT_MERGED * len(X)
    return len(np.unique(squares)) > limit or len(_distinct(X, sign)[0]) > limit


def _distinct(X: NDArray, sign: NDArray) -> tuple[NDArray, NDArray]:
    """Return the first point of each group of equal points of one class, and the group of each point.

    One variable stands for a group; its bound is the sum of theirs. If few points are equal, each is its own group.
    """
    n = len(X)
    rows = np.ascontiguousarray(np.column_stack([X, sign]) + 0.0)  # −0 is 0
    names = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    _, first, group = np.unique(names, return_index=True, return_inverse=True)
    if len(first) > MAX_DISTINCT_MERGED * n:
        return np.arange(n), np.arange(n)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[group]


def _distributed(alpha: NDArray, upper: NDArray, group: NDArray, room: NDArray) -> NDArray:
    """Distribute the weight of each group over its points, in order, each up to its upper bound ``room``.

    A weight within round-off of a bound is set to that bound exactly.
    """
    given = np.where(alpha[group] >= upper[group], room, 0.0)
    for k in np.flatnonzero((alpha > 0) & (alpha < upper)):
        (members,) = np.nonzero(group == k)
        before = np.concatenate([[0.0], np.cumsum(room[members])[:-1]])
        part, little = np.clip(alpha[k] - before, 0.0, room[members]), ROUND_OFF_RATIO * alpha[k]
        given[members] = np.where(part <= little, 0.0, np.where(room[members] - part <= little, room[members], part))
    return given
