"""The near variables, those that may reach the margin soon, in arrays of their own.

Most points lie far from the margin, and updating all their g at every breakpoint is most of the work. A path is
therefore followed among the near variables only. After one or several paths `Near.update_gradients` updates all g; a
far variable whose g has passed 0 meanwhile is then learned like any other. The optimum is the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.kernel_cache import RowCache, enlarged
from ..core.runtime.memory import arena_array, submatrix
from ._path import COUNT, FREE, MULTIPLIER, PENDING, WANTED, combine_rows
from .state import State

_VECTORS = ("alpha", "g", "e", "u", "diag", "where")
#: After this many variables have joined, the near ones are chosen anew. It is also the number of columns cached besides
#: those of the margin points.
N_SPARE = 128


class Near:
    """The margin points and the variables nearest to the margin, with the attributes of an engine that `follow` reads.

    Parameters
    ----------
    state : State
    count : int
        Number of variables besides the margin points: those with the smallest |g|.

    Attributes
    ----------
    n_initial_margin : int
        Number of margin points at the start. They are the first variables; while they stay on the margin their g are 0
        and are not updated.
    is_stale : bool
        Whether the state's g are older than the last path; `gradient_of` then returns the current value.
    """

    log: Any = None

    def __init__(self, state: State, count: int) -> None:
        self.state, self.bordered, self.count = state, state.bordered, count
        margin = state.margin
        distance = np.abs(state.g)
        distance[state.where == PENDING] = np.inf
        distance[margin] = -1.0
        count = min(len(margin) + count, int(np.isfinite(distance).sum()))
        closest = np.sort(np.argpartition(distance, count - 1)[:count])
        index = np.concatenate([margin, closest[distance[closest] >= 0]])
        self.n_initial_margin = len(margin)
        self.room = count + N_SPARE
        self.index = np.zeros(self.room, dtype=np.intp)
        self.index[:count] = index
        self.place = np.full(state.n, -1, dtype=np.intp)
        self.place[index] = np.arange(count)
        self._vectors = {name: enlarged(getattr(state, name)[index], (self.room,)) for name in _VECTORS}
        self.gamma = np.zeros(self.room)
        m = len(margin)
        self.members = np.zeros(len(state.members), dtype=np.int64)
        self.member_slots = np.zeros(len(state.members), dtype=np.int64)
        self.members[:m] = self.member_slots[:m] = np.arange(m)
        self.pool = RowCache(empty=arena_array)
        columns = submatrix(state.pool.rows, state.member_slots[:m], index)
        self.pool.take(self.members[:m], columns, count, self.room, 2 * N_SPARE)
        self._bind(count)
        self.before, self.b, self.is_stale = self._vectors["alpha"].copy(), state.b, False

    def _bind(self, n: int) -> None:
        """Make the vectors views of their first n entries."""
        self.n = n
        self.alpha, self.g, self.e, self.u, self.diag, self.where = (self._vectors[name][:n] for name in _VECTORS)

    def __getattr__(self, name: str) -> Any:
        if name in ("inverse", "counters", "figures", "work", "waiting"):  # shared
            return getattr(self.state, name)
        raise AttributeError(name)

    def mark(self, k: int, code: int) -> None:
        """Set the set that variable k belongs to, if k is a near variable."""
        if k < len(self.place) and (here := self.place[k]) >= 0:
            self.where[here] = code

    def include(self, k: int) -> int:
        """Return the index of variable k among the near ones, adding it if necessary; −1 if there is no room."""
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
            self.pool.evict(self.members[:m], N_SPARE)
            self.pool.lengthen(here + 1, self.members[:m], state.pool.rows[state.member_slots[:m], k][None])
            self._bind(here + 1)
            for name, values in self._vectors.items():
                values[here] = getattr(state, name)[k]
            self.g[here], self.before[here] = own, self.alpha[here]
        return here

    def gradient_of(self, k: int) -> float:
        """Return the current g of variable k, which the state may not hold yet."""
        state = self.state
        if k < len(self.place) and (here := self.place[k]) >= 0:
            return float(self.g[here])
        own = float(state.g[k])
        if self.is_stale:
            variables, change = self._changes()
            own += float(change @ state.pool.rows[state.pool.slot[variables], k])
            own += (float(self.figures[MULTIPLIER]) - self.b) * float(state.e[k])
        return own

    def _changes(self) -> tuple[NDArray, NDArray]:
        """Return the state's indices of the variables that moved since the last `update_gradients`, and by how much.

        Their columns are cached afterwards.
        """
        state, index = self.state, self.index[: self.n]
        change: NDArray = self.alpha - self.before[: self.n]
        moved = np.flatnonzero(change)
        variables = index[moved]
        for k in variables[state.pool.slot[variables] < 0]:
            state.cache_column(int(k))
        return variables, change[moved]

    def fetch_column(self) -> None:
        """Cache the column that `follow` needs."""
        here = int(self.counters[WANTED])

        def evaluate(J: NDArray, start: int, out: NDArray) -> None:
            slot = self.state.cache_column(int(self.index[here]))
            out[0] = self.state.pool.rows[slot, self.index[start : self.n]]

        self.pool.one(here, evaluate)

    def make_room(self) -> None:
        """Make ``members`` as long as the state's."""
        self.state.make_room()
        if len(self.members) < len(self.state.members):
            self.members = enlarged(self.members, self.state.members.shape)
            self.member_slots = enlarged(self.member_slots, self.state.members.shape)

    def write_back(self) -> None:
        """Copy α, the sets and the margin to the state; its g are updated by `update_gradients`."""
        state, index, m = self.state, self.index[: self.n], int(self.counters[COUNT])
        state.alpha[index], state.where[index] = self.alpha, self.where
        variables = index[self.members[:m]]
        for k in variables[state.pool.slot[variables] < 0]:
            state.cache_column(int(k))
        state.members[:m] = variables
        state.member_slots[:m] = state.pool.slot[variables]
        self.is_stale = True

    def update_gradients(self) -> None:
        """Update all g of the state."""
        if not self.is_stale:
            return
        state, index = self.state, self.index[: self.n]
        variables, change = self._changes()
        combine_rows(state.pool.rows, state.pool.slot[variables], change, state.gamma[: state.n])
        state.g += state.gamma[: state.n]
        state.g += (float(self.figures[MULTIPLIER]) - self.b) * state.e
        followed = self.where != FREE
        followed[self.n_initial_margin :] = True
        state.g[index[followed]] = self.g[followed]
        self.before[: self.n], self.b, self.is_stale = self.alpha, state.b, False
