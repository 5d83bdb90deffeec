"""Calls of the compiled path following until a path has ended, and the inverse they need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._path import (
    ARRIVED,
    AT_MARGIN,
    CHANGES,
    COUNT,
    DRIFTED,
    ENTERING,
    INDEFINITE,
    PAUSED,
    READY,
    REFACTORED,
    STUCK,
    TRAVELLED,
    WANTS_COLUMN,
    follow,
)
from .bordered import lower_inverse
from .near import Near
from .state import PathError, State

__all__ = ["Walker"]

#: Breakpoints of one compiled call; Ctrl-C is honoured between calls.
MAX_PIVOTS_PER_CALL = 256
#: Breakpoints in a row without progress after which a path counts as broken: this many for each variable, ...
MAX_STILL_PIVOTS_PER_VARIABLE = 8
#: ... plus this many. Ties need fewer, and round-off can make a path repeat a circle of breakpoints without end.
MAX_STILL_PIVOTS = 500


class Walker(State):
    """A state with `_run`, which follows a path. `Engine` and `Near` describe the attributes."""

    on_pivot: Callable[[Any, int], None] | None = None
    #: Takes the breakpoints of paths of d and p; `LinearTermLog` describes it.
    log: Any = None
    n_initial_margin: int = 0

    def _run(
        self,
        space: Walker | Near,
        k: int,
        v: float,
        to_margin: bool,
        d_rate: float = 0.0,
        p_rate: NDArray | None = None,
        reach: float = 0.0,
    ) -> bool:
        """Follow a path among the variables of ``space``; return False if none of them can take up the change."""
        budget, limit = self.pivots + 100 * self.n + 10000, 1 if self.on_pivot else MAX_PIVOTS_PER_CALL
        max_still, place, moved = MAX_STILL_PIVOTS_PER_VARIABLE * self.n + MAX_STILL_PIVOTS, np.nan, self.pivots
        self.counters[READY] = False
        while True:
            space.make_room()
            code = follow(space, k, v, to_margin, d_rate, p_rate, reach, limit)
            if self.log is not None:
                self.log.empty()
            if code == WANTS_COLUMN:
                space.fetch_column()
            elif code == DRIFTED:
                self.refactorise(space)
            elif code == STUCK:
                left = reach - self.figures[TRAVELLED] if k < 0 else space.alpha[k]
                size = space.u[k] if k >= 0 and space.u[k] < np.inf else max(reach, abs(self.d)) or 1.0
                # If every other variable is at its bound, the remaining distance is round-off.
                return not to_margin and bool(left <= 1e-10 * size)
            elif code == INDEFINITE:
                raise PathError(PathError.NOT_PSD)
            here = code == WANTS_COLUMN and self.counters[ENTERING] >= 0  # a breakpoint that needs its column first
            if self.on_pivot and (here or code in (PAUSED, ARRIVED, AT_MARGIN)):
                self.on_pivot(self, k)
            if code in (ARRIVED, AT_MARGIN):
                return True
            now = float(self.figures[TRAVELLED] if k < 0 else space.alpha[k])
            if now != place:
                place, moved = now, self.pivots
            if self.pivots > budget or self.pivots - moved > max_still:
                raise PathError(PathError.NOT_PSD)

    def refactorise(self, space: Walker | Near) -> None:
        """Compute the inverse of the bordered margin block [0 eᵀ; e Q_SS] from its columns."""
        m = int(self.counters[COUNT])
        self.counters[REFACTORED] += 1
        self.counters[CHANGES] = self.waiting[0] = 0
        if m == 0:
            return
        S = space.members[:m]
        Q = space.pool.rows[space.member_slots[:m]][:, S]
        self.inverse[: m + 1, : m + 1] = lower_inverse(Q, space.e[S] if self.bordered else None)
