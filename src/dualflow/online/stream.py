"""What a stream leaves behind: its survivors, and a reserve of those who nearly were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .invasion import Equilibrate, Habitat
from .newcomers import POINTS, Equilibrium, Standing, led_in

__all__ = ["BLOCK", "Community", "are_distinct", "learn", "meet_at_once"]

#: Newcomers met at a time: enough for BLAS, little enough for memory.
BLOCK = 1024
#: The part of the points that are different from all others, up to which equal ones are taken together.
DISTINCT = 0.9
#: Newcomers who are expected to want in, above which nobody is asked.
SOME = 4
#: The part of a weight that is round-off.
LITTLE = 1e-14


@dataclass(frozen=True)
class Community:
    """What is remembered of a stream: its survivors and a reserve of those without weight.

    Attributes
    ----------
    X : array of shape (m, features)
    sign : array of shape (m,)
        ±1, the class; all 1 where there are none.
    cap : array of shape (m,)
        Upper bounds of α, or what they are made of.
    alpha : array of shape (m,)
    h : array of shape (m,)
        Gradient Qα − p.
    ids : int array of shape (m,), ascending
        Which point of the stream each is.
    seen : int
        Points met so far.
    invasions, extinctions : int
        Points that ever got in, and went; the difference is the number of survivors.
    """

    X: NDArray
    sign: NDArray
    cap: NDArray
    alpha: NDArray
    h: NDArray
    ids: NDArray
    seen: int = 0
    invasions: int = 0
    extinctions: int = 0

    @classmethod
    def empty(cls, features: int) -> Community:
        """Before anything is met."""
        none = np.empty(0)
        return cls(np.empty((0, features)), none, none, none, none, np.empty(0, dtype=np.int64))

    @property
    def survivors(self) -> NDArray:
        """Positions of those with weight."""
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
    enough: float,
) -> Community:
    """Meet more points of a stream, a block at a time; returns the new community and changes nothing.

    Parameters
    ----------
    community : Community
    X, sign, cap, ids : arrays with a row for each newcomer
        As in `Community`.
    pose : callable
        ``pose(X, sign, cap, seen) -> DualProblem`` of some points, of ``seen`` met so far.
    equilibrate : callable
        Minimises a small problem from a feasible start.
    reserve : callable
        ``reserve(survivors)``: how many points without weight to remember.
    n_init : int
        Nobody is forgotten before so many points were met: the first ones are solved as a batch.
    enough : float
        Relative gap, by the gradient at hand, up to which invasion has found the equilibrium; else all present are
        solved for at once.
    """
    rows: NDArray | None = None
    start = 0
    while start < len(X):
        size = max(BLOCK, n_init - community.seen)
        part = slice(start, start + size)
        start += size
        seen = community.seen + len(X[part])
        together = _with(community, X[part], sign[part], cap[part], ids[part])
        first, group = _distinct(together.X, together.sign)
        alone = len(first) == len(group)
        problem = pose(together.X[first], together.sign[first], np.bincount(group, together.cap), seen)
        if rows is not None and alone:
            survivors, newcomers = community.survivors, np.arange(len(community.alpha), problem.n)
            rows = np.concatenate([rows, problem.gram.block(survivors, newcomers)], axis=1)
        habitat = Habitat(problem, np.bincount(group, together.alpha), rows if alone else None)
        habitat.settle(equilibrate, np.arange(problem.n))
        if habitat.gap() > enough:
            habitat.open(equilibrate)
        alpha = habitat.alpha
        if not alone:
            alpha = _dealt(alpha, problem.upper, group, pose(together.X, together.sign, together.cap, seen).upper)
        idle = np.flatnonzero((alpha == 0) & (problem.upper[group] > 0))
        idle = idle[np.argsort(habitat.reluctance()[group[idle]], kind="stable")]
        keep = _kept(alpha, idle, seen, reserve, n_init)
        rows = None
        if start < len(X) and alone:
            # For the next block: rows of those alive, in their order, over those who stay.
            order = np.argsort(habitat.residents, kind="stable")
            order = order[alpha[habitat.residents[order]] > 0]
            rows = habitat.rows[np.ix_(order, keep)]
        community = _after(together, alpha, habitat.h[group], keep, community.invasions, habitat.invasions)
    return community


def meet_at_once(
    community: Community,
    X: NDArray,
    sign: NDArray,
    cap: NDArray,
    ids: NDArray,
    *,
    standing: Callable[[Community], Standing],
    optimum: Callable[[Community], Equilibrium | None],
    lead: int,
    reserve: Callable[[int], float],
    n_init: int,
) -> Community | None:
    """What `learn` would make of newcomers, if it can be said at less cost; else None.

    Parameters
    ----------
    community, X, sign, cap, ids, reserve, n_init
        As in `learn`.
    standing : callable
        How newcomers find a community that is not empty.
    optimum : callable
        The equilibrium of all, if it is found.
    lead : int
        How many who want in are sooner led in.
    """
    survivors, seen = int(np.count_nonzero(community.alpha > 0)), community.seen + len(X)
    # As many are expected to want in, of those who come, as have weight of those who came.
    asked = len(community.X) > 0 and len(X) * survivors <= max(SOME, 2 * lead) * community.seen
    at = standing(community) if asked else None
    rows = None if at is None else at.rows_of(X)
    found: Equilibrium | None = None
    if at is not None and rows is not None:
        h = at.gradient_at(rows, sign)
        wants_in = int(np.count_nonzero(~at.keeps_out(h, sign)))
        if wants_in == 0:
            nobody_waits = len(community.alpha) == survivors
            if nobody_waits and seen >= n_init and reserve(survivors) == 0:
                return replace(community, seen=seen)
            alpha = np.concatenate([community.alpha, np.zeros(len(X))])
            found = Equilibrium(alpha, np.concatenate([community.h, h]), at.nu)
        elif wants_in <= lead and len(community.alpha) <= POINTS:
            found = led_in(at, X, rows, sign, cap)
    together = _with(community, X, sign, cap, ids)
    if found is None and (found := optimum(together)) is None:
        return None
    idle = np.flatnonzero(found.alpha == 0)
    reluctance = found.h[idle] - found.nu * together.sign[idle]
    keep = _kept(found.alpha, idle[np.argsort(reluctance, kind="stable")], seen, reserve, n_init)
    return _after(together, found.alpha, found.h, keep, community.invasions, 0)


def _with(community: Community, X: NDArray, sign: NDArray, cap: NDArray, ids: NDArray) -> Community:
    """A community and newcomers, who have no weight yet; its gradient is not made."""
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


def _kept(alpha: NDArray, idle: NDArray, seen: int, reserve: Callable[[int], float], n_init: int) -> NDArray:
    """Who is remembered, ascending; ``idle`` are those without weight who may be, the nearest to having some first."""
    alive = np.flatnonzero(alpha > 0)
    # Before the second class comes nobody has weight, and there is nobody to be near to.
    room = reserve(len(alive)) if len(alive) else max(n_init, reserve(n_init))
    return np.sort(np.concatenate([alive, idle if seen < n_init or room >= len(idle) else idle[: int(room)]]))


def _after(together: Community, alpha: NDArray, h: NDArray, keep: NDArray, before: int, admitted: int) -> Community:
    """Those of a community who are kept, with their new weights."""
    invasions = before + max(admitted, int(np.count_nonzero((alpha > 0) & (together.alpha == 0))))
    return Community(
        together.X[keep],
        together.sign[keep],
        together.cap[keep],
        alpha[keep],
        h[keep],
        together.ids[keep],
        together.seen,
        invasions,
        invasions - int(np.count_nonzero(alpha > 0)),
    )


def are_distinct(X: NDArray, sign: NDArray, squares: NDArray) -> bool:
    """Whether most points are different from all others of their class, as `learn` asks; ``squares`` hold a number for
    each, the same for the same points, which mostly says it."""
    enough = DISTINCT * len(X)
    return len(np.unique(squares)) > enough or len(_distinct(X, sign)[0]) > enough


def _distinct(X: NDArray, sign: NDArray) -> tuple[NDArray, NDArray]:
    """Which points are the first of their place and class, and for each point which of these it is the same as.

    Their weights are then those of one with all their bounds together. Where few are the same, they are left alone.
    """
    n = len(X)
    rows = np.ascontiguousarray(np.column_stack([X, sign]) + 0.0)  # −0 is 0
    names = rows.view(np.dtype((np.void, rows.shape[1] * rows.itemsize))).ravel()
    _, first, group = np.unique(names, return_index=True, return_inverse=True)
    if len(first) > DISTINCT * n:
        return np.arange(n), np.arange(n)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[group]


def _dealt(alpha: NDArray, upper: NDArray, group: NDArray, room: NDArray) -> NDArray:
    """The weights of places as weights of the points there, of which each has its ``room``: to each in turn as much as
    it may have. What round-off leaves of a room, or takes of it, is none: who is at a bound is there exactly."""
    given = np.where(alpha[group] >= upper[group], room, 0.0)
    for k in np.flatnonzero((alpha > 0) & (alpha < upper)):
        (members,) = np.nonzero(group == k)
        before = np.concatenate([[0.0], np.cumsum(room[members])[:-1]])
        part, little = np.clip(alpha[k] - before, 0.0, room[members]), LITTLE * alpha[k]
        given[members] = np.where(part <= little, 0.0, np.where(room[members] - part <= little, room[members], part))
    return given
