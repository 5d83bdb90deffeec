"""Exact incremental and decremental learning: the optimum is followed while one variable enters or leaves.

Cauwenberghs & Poggio (2001; CP), for the canonical problem min ½ αᵀQα − pᵀα, 0 ≤ α ≤ u, eᵀα = d (or no equality), so
that classifier, data description and regression are one engine. Signs: g = Qα − p + b e, which is CP's g (yf − 1 in
the C-SVM) and −(fitness + νe) with b = −ν; at the optimum g ≥ 0 where α = 0 (their R), g = 0 on the margin (S) and
g ≤ 0 where α = u (E).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._path import (
    BOUND,
    COUNT,
    DRIVEN,
    FLOOR,
    FREE,
    MULTIPLIER,
    PENDING,
    PIVOTS,
    REFRESHED,
    REST,
    TRAVELLED,
    combined,
    inverse_times,
    take_out,
)
from .near import Near
from .snapshot import Snapshot
from .state import PathError
from .walking import Walker

__all__ = ["Engine"]

#: All g are computed anew where that takes no more kernel values than this, ...
CHEAP = 1 << 14
#: ... or this many times fewer operations than the breakpoints since.
SHARE = 100
#: Margin points × variables from which a path is followed among the near variables first, ...
NEAR_FROM = 1 << 17
#: ... of which there are so many, or this part of all.
NEAR_LEAST, NEAR_PART = 128, 16
#: The part of the variables from which, and the number in addition, who is not optimal is too many to be led there.
MANY = 8
#: Paths between two looks at those who are not near, where somebody looks in the end.
SELDOM = 64


class Engine(Walker):
    """The optimum over the variables learned so far, moved by learning, unlearning and changes of d.

    Parameters and attributes are those of `State`. ``on_pivot`` is called with the engine and the variable that is on
    its way (−1: none) at every breakpoint; then a compiled call goes no further than one. ``has_rescue`` says that
    somebody solves anew where a path breaks off, so that it is not to go on for long without coming nearer.
    """

    near: Near | None = None
    near_from: int = NEAR_FROM
    has_rescue: bool = False
    #: Paths between two looks at those who are not near, and those since the last one.
    patience: int = 1
    paths: int = 0

    @contextlib.contextmanager
    def looking_seldom(self) -> Iterator[None]:
        """Learn several variables: who is not near may be behind on the way, and not optimal, but not in the end."""
        self.patience = SELDOM
        try:
            yield
        finally:
            self.patience = 1
        if self.near is not None:
            self._mend(-1)

    def learn(self, k: int) -> None:
        """Bring variable k to its optimum (CP Algorithm 1); also if it is there, but not optimal."""
        self.measure()
        g = self._gradient_of(k)
        room, floor = self.u[k] - self.alpha[k], self.figures[FLOOR]
        if self.where[k] == FREE:
            return
        if g < -floor and room > 0:
            self._drive(k, 1.0, True)
        elif g > floor and self.alpha[k] > 0:
            self._drive(k, -1.0, True)
        elif room > 0 and self.alpha[k] > 0:
            self._drive(k, 1.0 if g < 0 else -1.0, True)
        else:
            self._mark(k, BOUND if self.alpha[k] > 0 else REST)

    def unlearn(self, k: int) -> None:
        """Take variable k out (CP Algorithm 2): its coefficient goes to 0, and it no longer counts."""
        if self.where[k] == FREE:
            self._take_out(int(np.flatnonzero(self.margin == k)[0]))
        if self.alpha[k] > 0:
            self.measure()
            self._drive(k, -1.0, False)
            self.alpha[k] = 0.0
        self._mark(k, PENDING)

    def move_d(self, d: float, p_rate: NDArray | None = None) -> None:
        """Follow the optimum to another right-hand side of eᵀα = d; p moves with it at ``p_rate`` a unit of d."""
        change = d - self.d
        if change == 0.0:
            return
        self.measure()
        self.figures[TRAVELLED] = 0.0
        sign = 1.0 if change > 0 else -1.0
        rate = None if p_rate is None else np.ascontiguousarray(sign * p_rate)
        self._leave_near()
        if not self._run(self, -1, 0.0, False, sign, rate, abs(change)):
            raise PathError(PathError.UNBOUNDED)
        if p_rate is not None:
            self.p += change * p_rate
        self.d = d

    def _take_out(self, j: int) -> None:
        """The j-th margin point is none any more; its coefficient and the others' stay as they are."""
        take_out(self, j)
        if self.near is not None:
            last = int(self.counters[COUNT])  # which has taken its place
            for array in (self.near.members, self.near.member_slots):
                array[j] = array[last]

    def _gradient_of(self, k: int) -> float:
        """g of one variable, also while those who are not near are behind."""
        return float(self.g[k]) if self.near is None else self.near.gradient_of(k)

    def _look(self) -> None:
        """Bring all g up to date."""
        self.paths = 0
        if self.near is not None:
            self.near.look()

    def _leave_near(self) -> None:
        """Follow all variables from here on."""
        self._look()
        self.near = None

    def _mark(self, k: int, code: int) -> None:
        self.where[k] = code
        if self.near is not None:
            self.near.mark(k, code)

    def _drive(self, k: int, v: float, to_margin: bool) -> None:
        self._mark(k, DRIVEN)
        if self.on_pivot or len(self.margin) * self.n < self.near_from:
            self._leave_near()
            if not self._run(self, k, v, to_margin):
                raise PathError(PathError.UNBOUNDED)
        else:
            self._drive_near(k, v, to_margin)
            self.paths += 1
            if self.paths >= self.patience:
                self._mend(-1)

    def _drive_near(self, k: int, v: float, to_margin: bool) -> None:
        """Follow the path of k among the near variables; far ones may be `violators` afterwards."""
        near = self.near or Near(self, max(NEAR_LEAST, self.n // NEAR_PART))
        if (here := near.include(k)) < 0:
            near.look()
            near = Near(self, near.count)
            here = near.include(k)
        self.near = near
        arrived = self._run(near, here, v, to_margin)
        if arrived and not to_margin:
            near.where[here], near.alpha[here] = PENDING, 0.0
        near.write_back()
        if not arrived:
            # Nobody near could take up the change: look at all.
            if near.count >= self.n:
                raise PathError(PathError.UNBOUNDED)
            near.look()
            self.near = Near(self, self.n)
            self._mend(k)
            self._drive_near(k, (1.0 if self._gradient_of(k) < 0 else -1.0) if to_margin else v, to_margin)

    def _mend(self, but: int) -> None:
        """Drive what is not optimal to where it is, but for one that is on its way."""
        least, waited = self.n, 0
        for _ in range(10 * self.n + 100):
            self._look()
            if len(wrong := np.setdiff1d(self.violators(), [but])) == 0:
                return
            least, waited = (len(wrong), 0) if len(wrong) < least else (least, waited + 1)
            if self.has_rescue and waited > self.n // (4 * MANY) + 2 * MANY:
                break
            worst = int(wrong[np.argmax(np.abs(self.g[wrong]))])
            self._mark(worst, DRIVEN)
            self._drive_near(worst, 1.0 if self.g[worst] < 0 else -1.0, True)
        raise PathError(PathError.NOT_PSD)

    def restore(self, kept: Snapshot) -> None:
        super().restore(kept)
        self.near = None

    def keep(self, variables: NDArray) -> None:
        super().keep(variables)
        self.near = None

    def pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        self.near = None  # the engine that is made of this starts without, and is to give the same bits
        return super().pack()

    # --- the inverse, and what it has lost -----------------------------------------------------

    def polish(self, least: float = 0.0) -> None:
        """Take α and b on the margin to the solution of their system, if that is off by more than ``least``."""
        S = self.margin
        if len(S) == 0:
            return
        right = np.concatenate([[self.d - float(self.e @ self.alpha) if self.bordered else 0.0], -self.g[S]])
        if float(np.abs(right).max()) <= least:
            return
        self.near = None
        change, before = inverse_times(self, right), self.alpha[S]
        self.alpha[S] = np.clip(before + change[1:], 0.0, self.u[S])
        change[1:] = self.alpha[S] - before  # what a bound has cut off moves no g
        self.figures[MULTIPLIER] += change[0]
        combined(self.pool.rows, self.member_slots[: len(S)], change[1:], self.gamma[: self.n])
        self.g += self.gamma[: self.n]
        self.g += change[0] * self.e
        left = self.g[S]
        self.g[S] = np.where(np.abs(left) <= self.figures[FLOOR], 0.0, left)

    def refresh(self, patient: bool = True) -> None:
        """Compute g anew, take α and b to the solution of their system, and mend what is not optimal: where that is too
        many, only if ``patient``, for nobody else will."""
        self.counters[REFRESHED] = self.pivots
        for _ in range(3):
            self.recompute()
            self.polish()
            wrong = self.violators()
            if len(wrong) == 0:
                return
            if not patient and len(wrong) > self.n // MANY + MANY:
                break
            for k in wrong:
                self.learn(int(k))
        # What the last of them moved is not trusted: whether all is well is for whoever asks to see.
        self.recompute()

    def recompute(self) -> None:
        """All g from scratch, with what round-off makes of those on the margin."""
        self.near = None
        self.g[:] = self.matrix.product(self.alpha) - self.p + self.b * self.e

    def tidy(self, exact: bool = False) -> None:
        """After a while of learning: mend what round-off has done, and let go of columns that have left the margin.

        All g are computed anew if ``exact`` is asked for, or where that costs little beside what was done since.
        """
        since = int(self.counters[PIVOTS] - self.counters[REFRESHED])
        if since == 0 or self.n == 0:
            return
        self.pool.evict(self.margin)
        weighty = int(np.count_nonzero(self.alpha))
        worth = weighty * self.n <= CHEAP or since * (len(self.margin) + 1) >= SHARE * weighty
        if exact or worth:
            self.refresh(patient=False)
        else:
            self.polish(float(self.figures[FLOOR]))
