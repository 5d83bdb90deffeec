"""What a stream leaves behind: its survivors, and a reserve of those who nearly were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .invasion import Equilibrate, Habitat

__all__ = ["BLOCK", "Community", "learn"]

#: Newcomers met at a time: enough for BLAS, little enough for memory.
BLOCK = 1024


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
    """
    rows: NDArray | None = None
    start = 0
    while start < len(X):
        size = max(BLOCK, n_init - community.seen)
        part = slice(start, start + size)
        start += size
        seen = community.seen + len(X[part])
        together = Community(
            np.concatenate([community.X, X[part]]),
            np.concatenate([community.sign, sign[part]]),
            np.concatenate([community.cap, cap[part]]),
            np.concatenate([community.alpha, np.zeros(len(X[part]))]),
            np.empty(0),
            np.concatenate([community.ids, ids[part]]),
            seen,
        )
        problem = pose(together.X, together.sign, together.cap, seen)
        survivors, newcomers = community.survivors, np.arange(len(community.alpha), problem.n)
        if rows is not None:
            rows = np.concatenate([rows, problem.gram.block(survivors, newcomers)], axis=1)
        habitat = Habitat(problem, together.alpha, rows)
        habitat.settle(equilibrate, np.arange(problem.n))
        alpha = habitat.alpha
        idle = habitat.nearest(np.arange(problem.n))
        alive = np.flatnonzero(alpha > 0)
        # Before the second class comes nobody has weight, and there is nobody to be near to.
        room = reserve(len(alive)) if len(alive) else max(n_init, reserve(n_init))
        keep = np.sort(np.concatenate([alive, idle if seen < n_init or room >= len(idle) else idle[: int(room)]]))
        if start < len(X):
            # For the next block: rows of those alive, in their order, over those who stay.
            order = np.argsort(habitat.residents, kind="stable")
            order = order[alpha[habitat.residents[order]] > 0]
            rows = habitat.rows[np.ix_(order, keep)]
        invasions = community.invasions + habitat.invasions
        community = Community(
            together.X[keep],
            together.sign[keep],
            together.cap[keep],
            alpha[keep],
            habitat.h[keep],
            together.ids[keep],
            seen,
            invasions,
            invasions - len(alive),
        )
    return community
