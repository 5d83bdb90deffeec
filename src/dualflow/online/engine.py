"""Exact incremental and decremental learning: the optimum is followed while one variable enters or leaves.

After Cauwenberghs & Poggio (2001; CP), for the canonical problem min ½ αᵀQα − pᵀα, 0 ≤ α ≤ u, eᵀα = d (or no
equality), so that one engine serves classification, data description and regression. Signs: g = Qα − p + b e, which is
CP's g (yf − 1 in the C-SVM) and −(fitness + νe) with b = −ν. At the optimum g ≥ 0 where α = 0 (CP's set R), g = 0 on
the margin (S) and g ≤ 0 where α = u (E).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._path import (
    ARRIVED,
    AT_LOWER,
    AT_MARGIN,
    AT_UPPER,
    CHANGES,
    COUNT,
    DRIFTED,
    ENTERING,
    FLOOR,
    FREE,
    INDEFINITE,
    MOVING,
    MULTIPLIER,
    PAUSED,
    PENDING,
    PIVOTS,
    READY,
    REFACTORED,
    REFRESHED,
    STUCK,
    TRAVELLED,
    WANTS_COLUMN,
    combine_rows,
    follow,
    inverse_times,
    remove_margin_point,
)
from .bordered import lower_inverse
from .near import Near
from .snapshot import Snapshot
from .state import PathError, State

#: All g are computed from scratch if this takes no more kernel values than this, ...
MAX_VALUES_RECOMPUTE = 1 << 14
#: ... or if it takes this many times fewer operations than the breakpoints since the last time.
RECOMPUTE_COST_RATIO = 100
#: If margin points × variables are at least this, a path is first followed among the near variables.
MIN_WORK_NEAR = 1 << 17
#: There are at least this many near variables besides the margin points, ...
MIN_NEAR = 128
#: ... or n divided by this, if that is more.
NEAR_DIVISOR = 16
#: D. With a fallback, `refresh` gives up above n / D + D violators, and `_correct_violators` after n / (4D) + 2D rounds
#: without progress. Without a fallback, both correct all violators one at a time.
VIOLATORS_DIVISOR = 8
#: While several variables are learned, all g are updated after this many paths.
MAX_PATHS_PER_UPDATE = 64
#: Breakpoints of one compiled call. Ctrl-C is honoured between calls.
MAX_PIVOTS_PER_CALL = 256
#: A path counts as broken after this many breakpoints without progress for each variable, ...
MAX_STILL_PIVOTS_PER_VARIABLE = 8
#: ... plus this many. Ties need fewer. Round-off can make a path repeat a circle of breakpoints without end.
MAX_STILL_PIVOTS = 500


class Engine(State):
    """The optimum over the variables learned so far, changed by learning, unlearning and moves of d.

    Parameters and attributes are those of `State`, and two more. If ``on_pivot`` is set, it is called with the engine
    and the variable that moves (−1: none) at every breakpoint. ``has_fallback`` says that the caller solves the problem
    anew if a path breaks off; the engine then gives up early where violators do not become fewer.
    """

    on_pivot: Callable[[Any, int], None] | None = None
    #: Takes the breakpoints of paths of d and p; `LinearTermLog` describes it.
    log: Any = None
    #: No margin points are left out of the updates of g, unlike among the near variables (`Near.n_initial_margin`).
    n_initial_margin: int = 0
    near: Near | None = None
    min_work_near: int = MIN_WORK_NEAR
    has_fallback: bool = False
    #: Paths between two updates of all g.
    paths_per_update: int = 1
    #: Paths since the last update of all g.
    paths: int = 0

    @contextlib.contextmanager
    def updating_rarely(self) -> Iterator[None]:
        """Return a context for learning several variables: far variables may be violators within it, not after it."""
        self.paths_per_update = MAX_PATHS_PER_UPDATE
        try:
            yield
        finally:
            self.paths_per_update = 1
        if self.near is not None:
            self._correct_violators(-1)

    def learn(self, k: int) -> None:
        """Bring variable k to its optimum (CP Algorithm 1), whether it is new or a violator."""
        self.update_floor()
        g = self._gradient_of(k)
        room, floor = self.u[k] - self.alpha[k], self.figures[FLOOR]
        if self.where[k] == FREE:
            return
        if g < -floor and room > 0:
            self._move(k, 1.0, True)
        elif g > floor and self.alpha[k] > 0:
            self._move(k, -1.0, True)
        elif room > 0 and self.alpha[k] > 0:
            self._move(k, 1.0 if g < 0 else -1.0, True)
        else:
            self._mark(k, AT_UPPER if self.alpha[k] > 0 else AT_LOWER)

    def unlearn(self, k: int) -> None:
        """Remove variable k (CP Algorithm 2): its coefficient moves to 0 and it no longer counts."""
        if self.where[k] == FREE:
            self._remove_margin_point(int(np.flatnonzero(self.margin == k)[0]))
        if self.alpha[k] > 0:
            self.update_floor()
            self._move(k, -1.0, False)
            self.alpha[k] = 0.0
        self._mark(k, PENDING)

    def move_d(self, d: float, p_rate: NDArray | None = None) -> None:
        """Follow the optimum to another right-hand side d of eᵀα = d; p changes by ``p_rate`` per unit of d."""
        change = d - self.d
        if change == 0.0:
            return
        self.update_floor()
        self.figures[TRAVELLED] = 0.0
        sign = 1.0 if change > 0 else -1.0
        rate = None if p_rate is None else np.ascontiguousarray(sign * p_rate)
        self._leave_near()
        if not self._run(self, -1, 0.0, False, sign, rate, abs(change)):
            raise PathError(PathError.UNBOUNDED)
        if p_rate is not None:
            self.p += change * p_rate
        self.d = d

    def move_p(self, rate: NDArray, distance: float) -> None:
        """Follow the optimum while p changes by ``distance`` times ``rate``."""
        self.figures[TRAVELLED] = 0.0
        self._leave_near()
        if not self._run(self, -1, 0.0, False, 0.0, np.ascontiguousarray(rate), distance):
            raise PathError(PathError.UNBOUNDED)
        self.p += distance * rate

    def _remove_margin_point(self, j: int) -> None:
        """Remove the j-th margin point from the margin; its coefficient and the others' are unchanged."""
        remove_margin_point(self, j)
        if self.near is not None:
            last = int(self.counters[COUNT])  # the margin point that has taken place j
            for array in (self.near.members, self.near.member_slots):
                array[j] = array[last]

    def _gradient_of(self, k: int) -> float:
        """Return the current g of one variable, also while those of the far variables are out of date."""
        return float(self.g[k]) if self.near is None else self.near.gradient_of(k)

    def _update_gradients(self) -> None:
        """Update all g."""
        self.paths = 0
        if self.near is not None:
            self.near.update_gradients()

    def _leave_near(self) -> None:
        """Follow all variables from here on."""
        self._update_gradients()
        self.near = None

    def _mark(self, k: int, code: int) -> None:
        """Record that variable k is in set R, S or E, not learned, or on a path; here and among the near variables."""
        self.where[k] = code
        if self.near is not None:
            self.near.mark(k, code)

    def _move(self, k: int, v: float, to_margin: bool) -> None:
        """Follow the path of variable k from its bound, v = 1 upwards or −1 downwards, to the margin or to a bound."""
        self._mark(k, MOVING)
        if self.on_pivot or len(self.margin) * self.n < self.min_work_near:
            self._leave_near()
            if not self._run(self, k, v, to_margin):
                raise PathError(PathError.UNBOUNDED)
        else:
            self._move_near(k, v, to_margin)
            self.paths += 1
            if self.paths >= self.paths_per_update:
                self._correct_violators(-1)

    def _run(
        self,
        space: Engine | Near,
        k: int,
        v: float,
        to_margin: bool,
        d_rate: float = 0.0,
        p_rate: NDArray | None = None,
        distance: float = 0.0,
    ) -> bool:
        """Follow a path among the variables of ``space``; return False if none of them can take up the change."""
        budget, limit = self.pivots + 100 * self.n + 10000, 1 if self.on_pivot else MAX_PIVOTS_PER_CALL
        max_still, place, moved = MAX_STILL_PIVOTS_PER_VARIABLE * self.n + MAX_STILL_PIVOTS, np.nan, self.pivots
        self.counters[READY] = False
        while True:
            space.make_room()
            code = follow(space, k, v, to_margin, d_rate, p_rate, distance, limit)
            if self.log is not None:
                self.log.update()
            if code == WANTS_COLUMN:
                space.fetch_column()
            elif code == DRIFTED:
                self.refactorise(space)
            elif code == STUCK:
                left = distance - self.figures[TRAVELLED] if k < 0 else space.alpha[k]
                size = space.u[k] if k >= 0 and space.u[k] < np.inf else max(distance, abs(self.d)) or 1.0
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

    def _move_near(self, k: int, v: float, to_margin: bool) -> None:
        """Follow the path of k among the near variables; far ones may be `violators` afterwards."""
        near = self.near or Near(self, max(MIN_NEAR, self.n // NEAR_DIVISOR))
        if (here := near.include(k)) < 0:
            near.update_gradients()
            near = Near(self, near.count)
            here = near.include(k)
        self.near = near
        arrived = self._run(near, here, v, to_margin)
        if arrived and not to_margin:
            near.where[here], near.alpha[here] = PENDING, 0.0
        near.write_back()
        if not arrived:
            # No near variable can take up the change: make all variables near.
            if near.count >= self.n:
                raise PathError(PathError.UNBOUNDED)
            near.update_gradients()
            self.near = Near(self, self.n)
            self._correct_violators(k)
            self._move_near(k, (1.0 if self._gradient_of(k) < 0 else -1.0) if to_margin else v, to_margin)

    def _correct_violators(self, but: int) -> None:
        """Move every violator except ``but`` to its optimum."""
        fewest, stalled = self.n, 0
        for _ in range(10 * self.n + 100):
            self._update_gradients()
            if len(wrong := np.setdiff1d(self.violators(), [but])) == 0:
                return
            fewest, stalled = (len(wrong), 0) if len(wrong) < fewest else (fewest, stalled + 1)
            if self.has_fallback and stalled > self.n // (4 * VIOLATORS_DIVISOR) + 2 * VIOLATORS_DIVISOR:
                break
            worst = int(wrong[np.argmax(np.abs(self.g[wrong]))])
            self._mark(worst, MOVING)
            self._move_near(worst, 1.0 if self.g[worst] < 0 else -1.0, True)
        raise PathError(PathError.NOT_PSD)

    def restore(self, kept: Snapshot) -> None:
        super().restore(kept)
        self.near = None

    def keep(self, variables: NDArray) -> None:
        super().keep(variables)
        self.near = None

    def pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """Return all that later bits depend on; see `State.pack`."""
        self.near = None  # the unpacked engine starts without near variables, and both must give the same bits
        return super().pack()

    # --- round-off ------------------------------------------------------------------------------

    def refactorise(self, space: Engine | Near) -> None:
        """Compute the inverse of the bordered margin block [0 eᵀ; e Q_SS] from its columns."""
        m = int(self.counters[COUNT])
        self.counters[REFACTORED] += 1
        self.counters[CHANGES] = self.waiting[0] = 0
        if m == 0:
            return
        S = space.members[:m]
        Q = space.pool.rows[space.member_slots[:m]][:, S]
        self.inverse[: m + 1, : m + 1] = lower_inverse(Q, space.e[S] if self.bordered else None)

    def polish(self, min_residual: float = 0.0) -> None:
        """Set α and b on the margin to the solution of their system if its residual exceeds ``min_residual``."""
        S = self.margin
        if len(S) == 0:
            return
        right = np.concatenate([[self.d - float(self.e @ self.alpha) if self.bordered else 0.0], -self.g[S]])
        if float(np.abs(right).max()) <= min_residual:
            return
        self.near = None
        change, before = inverse_times(self, right), self.alpha[S]
        self.alpha[S] = np.clip(before + change[1:], 0.0, self.u[S])
        change[1:] = self.alpha[S] - before  # what the bounds have cut off must not change g
        self.figures[MULTIPLIER] += change[0]
        combine_rows(self.pool.rows, self.member_slots[: len(S)], change[1:], self.gamma[: self.n])
        self.g += self.gamma[: self.n]
        self.g += change[0] * self.e
        left = self.g[S]
        self.g[S] = np.where(np.abs(left) <= self.figures[FLOOR], 0.0, left)

    def refresh(self, complete: bool = True) -> None:
        """Compute all g from scratch, solve the margin's system anew, and correct the violators.

        Unless ``complete``, many violators are left to the caller, which can solve the problem anew.
        """
        self.counters[REFRESHED] = self.pivots
        for _ in range(3):
            self.recompute()
            self.polish()
            wrong = self.violators()
            if len(wrong) == 0:
                return
            if not complete and len(wrong) > self.n // VIOLATORS_DIVISOR + VIOLATORS_DIVISOR:
                break
            for k in wrong:
                self.learn(int(k))
        # The last corrections have changed g by updates; the caller judges the state by exact ones.
        self.recompute()

    def recompute(self) -> None:
        """Compute all g from scratch; those of margin points are then round-off, not exactly 0."""
        self.near = None
        self.g[:] = self.matrix.product(self.alpha) - self.p + self.b * self.e

    def tidy(self, exact: bool = False) -> None:
        """Reduce accumulated round-off after a series of paths, and drop cached columns that have left the margin.

        All g are computed from scratch if ``exact``, or if that is cheap compared with the work since the last time.
        """
        since = int(self.counters[PIVOTS] - self.counters[REFRESHED])
        if since == 0 or self.n == 0:
            return
        self.pool.evict(self.margin)
        weighty = int(np.count_nonzero(self.alpha))
        is_cheap = (
            weighty * self.n <= MAX_VALUES_RECOMPUTE or since * (len(self.margin) + 1) >= RECOMPUTE_COST_RATIO * weighty
        )
        if exact or is_cheap:
            self.refresh(complete=False)
        else:
            self.polish(float(self.figures[FLOOR]))
