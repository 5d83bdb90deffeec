"""Compiled calls in a row, until a path has ended, and the inverse they need."""

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

#: Pivots of one compiled call; Ctrl-C is honoured between calls.
AT_ONCE = 256
#: Pivots in a row on which a path may stand still, for each variable and in addition: ties are passed in fewer, and
#: round-off can send a path round in a circle for ever.
STILL, STILL_MORE = 8, 500


class Walker(State):
    """A state that can be taken along a path; what `Engine` says of ``on_pivot`` and ``quiet`` holds here."""

    on_pivot: Callable[[Any, int], None] | None = None
    quiet: int = 0

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
        """Follow the path among the variables of ``space`` to its end; False if none of them can take up the change."""
        budget, limit = self.pivots + 100 * self.n + 10000, 1 if self.on_pivot else AT_ONCE
        still, place, moved = STILL * self.n + STILL_MORE, np.nan, self.pivots
        self.counters[READY] = False
        while True:
            space.make_room()
            code = follow(space, k, v, to_margin, d_rate, p_rate, reach, limit)
            if code == WANTS_COLUMN:
                space.fetch()
            elif code == DRIFTED:
                self.refactorise(space)
            elif code == STUCK:
                left = reach - self.figures[TRAVELLED] if k < 0 else space.alpha[k]
                size = space.u[k] if k >= 0 and space.u[k] < np.inf else max(reach, abs(self.d)) or 1.0
                # Where every other variable is at its bound, what is left is round-off.
                return not to_margin and bool(left <= 1e-10 * size)
            elif code == INDEFINITE:
                raise PathError(PathError.NOT_PSD)
            here = code == WANTS_COLUMN and self.counters[ENTERING] >= 0  # a breakpoint that waits for its column
            if self.on_pivot and (here or code in (PAUSED, ARRIVED, AT_MARGIN)):
                self.on_pivot(self, k)
            if code in (ARRIVED, AT_MARGIN):
                return True
            now = float(self.figures[TRAVELLED] if k < 0 else space.alpha[k])
            if now != place:
                place, moved = now, self.pivots
            if self.pivots > budget or self.pivots - moved > still:
                raise PathError(PathError.NOT_PSD)

    def refactorise(self, space: Walker | Near) -> None:
        """The inverse of the bordered margin block [0 eᵀ; e Q_SS], anew from its columns."""
        m = int(self.counters[COUNT])
        self.counters[REFACTORED] += 1
        self.counters[CHANGES] = self.waiting[0] = 0
        if m == 0:
            return
        S = space.members[:m]
        Q = space.pool.rows[space.member_slots[:m]][:, S]
        self.inverse[: m + 1, : m + 1] = lower_inverse(Q, space.e[S] if self.bordered else None)
