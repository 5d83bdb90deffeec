"""The variables that may come to the margin soon, in arrays of their own: a path looks at them only.

Most points lie far from the margin, and following all their g at every breakpoint is most of the work. So a path is
followed among the near ones; after one path or a few all g are brought up to date at once (`Near.look`), and a far one
that has passed 0 meanwhile is a variable to be learned like any other. The optimum that is reached is the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.kernel_cache import RowCache, grown
from ..core.runtime.memory import borrowed, picked
from ._path import COUNT, FREE, MULTIPLIER, PENDING, WANTED, combined
from .state import State

__all__ = ["Near"]

_VECTORS = ("alpha", "g", "e", "u", "diag", "where")
#: Variables that may join before all is chosen anew, and columns kept of others than margin points.
SPARE = 128


class Near:
    """The margin and what lies next to it, with the attributes of an engine that `follow` asks for.

    Parameters
    ----------
    state : State
    count : int
        Variables beside those on the margin: the ones with the smallest |g|.

    Attributes
    ----------
    quiet : int
        The first variables here, which were on the margin in the beginning: while they are, their g stay 0, and are not
        followed.
    lags : bool
        Whether the state's g are those of the last look: only `gradient_of` tells them then.
    """

    def __init__(self, state: State, count: int) -> None:
        self.state, self.bordered, self.count = state, state.bordered, count
        margin = state.margin
        distance = np.abs(state.g)
        distance[state.where == PENDING] = np.inf
        distance[margin] = -1.0
        count = min(len(margin) + count, int(np.isfinite(distance).sum()))
        closest = np.sort(np.argpartition(distance, count - 1)[:count])
        index = np.concatenate([margin, closest[distance[closest] >= 0]])
        self.quiet = len(margin)
        self.room = count + SPARE
        self.index = np.zeros(self.room, dtype=np.intp)
        self.index[:count] = index
        self.place = np.full(state.n, -1, dtype=np.intp)
        self.place[index] = np.arange(count)
        self._vectors = {name: grown(getattr(state, name)[index], (self.room,)) for name in _VECTORS}
        self.gamma = np.zeros(self.room)
        m = len(margin)
        self.members = np.zeros(len(state.members), dtype=np.int64)
        self.member_slots = np.zeros(len(state.members), dtype=np.int64)
        self.members[:m] = self.member_slots[:m] = np.arange(m)
        self.pool = RowCache(empty=borrowed)
        columns = picked(state.pool.rows, state.member_slots[:m], index)
        self.pool.take(self.members[:m], columns, count, self.room, 2 * SPARE)
        self._bind(count)
        self.before, self.b, self.lags = self._vectors["alpha"].copy(), state.b, False

    def _bind(self, n: int) -> None:
        self.n = n
        self.alpha, self.g, self.e, self.u, self.diag, self.where = (self._vectors[name][:n] for name in _VECTORS)

    def __getattr__(self, name: str) -> Any:
        if name in ("inverse", "counters", "figures", "work", "waiting"):  # shared
            return getattr(self.state, name)
        raise AttributeError(name)

    def mark(self, k: int, code: int) -> None:
        """Variable k is elsewhere now; of no account if it is not here."""
        if k < len(self.place) and (here := self.place[k]) >= 0:
            self.where[here] = code

    def include(self, k: int) -> int:
        """The number here of variable k, which joins if it is not here; −1 if there is no room."""
        state = self.state
        if k >= len(self.place):
            more = np.full(state.n - len(self.place), -1, dtype=np.intp)
            self.place = np.concatenate([self.place, more])
        here = int(self.place[k])
        if here < 0:
            if self.n == self.room:
                return -1
            here, m = self.n, int(self.counters[COUNT])
            own = self.gradient_of(k)
            self.index[here], self.place[k] = k, here
            self.pool.evict(self.members[:m], SPARE)
            self.pool.lengthen(here + 1, self.members[:m], state.pool.rows[state.member_slots[:m], k][None])
            self._bind(here + 1)
            for name, values in self._vectors.items():
                values[here] = getattr(state, name)[k]
            self.g[here], self.before[here] = own, self.alpha[here]
        return here

    def gradient_of(self, k: int) -> float:
        """g of variable k, which the state may not have yet."""
        state = self.state
        if k < len(self.place) and (here := self.place[k]) >= 0:
            return float(self.g[here])
        own = float(state.g[k])
        if self.lags:
            variables, change = self._moved()
            own += float(change @ state.pool.rows[state.pool.slot[variables], k])
            own += (float(self.figures[MULTIPLIER]) - self.b) * float(state.e[k])
        return own

    def _moved(self) -> tuple[NDArray, NDArray]:
        """The variables, as the state numbers them, that have moved since the last look, whose columns are there then,
        and how far."""
        state, index = self.state, self.index[: self.n]
        change: NDArray = self.alpha - self.before[: self.n]
        moved = np.flatnonzero(change)
        variables = index[moved]
        for k in variables[state.pool.slot[variables] < 0]:
            state.bring(int(k))
        return variables, change[moved]

    def fetch(self) -> None:
        """Bring the column that a path wants."""
        here = int(self.counters[WANTED])

        def evaluate(J: NDArray, start: int, out: NDArray) -> None:
            theirs = self.state.bring(int(self.index[here]))
            out[0] = self.state.pool.rows[theirs, self.index[start : self.n]]

        self.pool.one(here, evaluate)

    def make_room(self) -> None:
        """As many places for members as the state has."""
        self.state.make_room()
        if len(self.members) < len(self.state.members):
            self.members = grown(self.members, self.state.members.shape)
            self.member_slots = grown(self.member_slots, self.state.members.shape)

    def write_back(self) -> None:
        """Tell the state what has come of its variables; its g are brought up to date by `look`."""
        state, index, m = self.state, self.index[: self.n], int(self.counters[COUNT])
        state.alpha[index], state.where[index] = self.alpha, self.where
        variables = index[self.members[:m]]
        for k in variables[state.pool.slot[variables] < 0]:
            state.bring(int(k))
        state.members[:m] = variables
        state.member_slots[:m] = state.pool.slot[variables]
        self.lags = True

    def look(self) -> None:
        """Bring all g up to date."""
        if not self.lags:
            return
        state, index = self.state, self.index[: self.n]
        variables, change = self._moved()
        combined(state.pool.rows, state.pool.slot[variables], change, state.gamma[: state.n])
        state.g += state.gamma[: state.n]
        state.g += (float(self.figures[MULTIPLIER]) - self.b) * state.e
        followed = self.where != FREE
        followed[self.quiet :] = True
        state.g[index[followed]] = self.g[followed]
        self.before[: self.n], self.b, self.lags = self.alpha, state.b, False
