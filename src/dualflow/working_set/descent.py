"""The descent of `working-set`: levels of ever more points, blocks on each, float32 before float64."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.problem import Kind
from ..core.runtime.threads import cached_property
from ..core.workspace import Workspace
from ..refinement.refine import LARGE
from .block_rows import makes_rows, one_block_of
from .level import VAST, Level
from .seeding import nested_order, restrict, seed, sharing
from .state import WorkingSetState, afresh
from .whole import AMONG, END, nearly_free, solve_among, solve_whole

__all__ = ["Descent"]

#: Below this KKT violation and relative gap float32 is unsafe: its gradient no longer tells who violates.
SINGLE_KKT, SINGLE_GAP = 1e-3, 5e-5
#: Estimated relative gap and KKT violation at which the refinement is the faster of the two: where blocks are computed,
#: and where rows are made as they are needed, and updates are cheap. The gap at which it is after so many pair updates
#: a variable, or after twice as many if others than the free variables still want to be free: then the problem is
#: ill-conditioned, and pairs crawl.
BLOCKS_HAND_OVER, ROWS_HAND_OVER, CRAWLING_GAP, CRAWLING = (1e-2, 3e-3), (3e-3, 1e-3), 3e-2, 5
#: As `CRAWLING`, on a simplex of so few variables that it is brought to its end: those that are free leap, where each
#: round of a refinement would take a factor.
LEAPING = 100
#: The part of the free variables up to which others may want to be free when a problem is handed over: each round of a
#: refinement takes a factor, and pairs settle many sooner. The part of the tolerances for these, how often at most; the
#: simplex's gap.
UNSETTLED, FINER, FINEST, SIMPLEX_GAP = 0.1, 0.1, 3, 0.01
#: Free variables from which a large problem is not handed over: a refinement's dense factor takes 2.4 GB then, with
#: what it is made of. To a gap that float32 can reach none is either, unless pairs crawl.
FACTORED = 12_288
#: Variables, and free ones among them, up to which pairs and leaps in float64 come to the end before a refinement
#: would, in a box, and variables on the simplex; free variables up to which these, and those who nearly are, are
#: brought there among themselves; and the violation that round-off may end at.
WHOLE, FEW, SIMPLEX_WHOLE, ENDED, NEAR_END = 512, 200, 1536, 500, 1e-11
#: How often those who nearly are free are brought to their end among themselves, where they are too many for once.
ENDS = 6
#: Variables up to which such a problem is solved over its whole matrix, in one go.
SMALL_WHOLE = 112
#: Points of the smallest level of the seeding at most. A block in a box that makes the rows it needs makes no more
#: without a level's α to begin with: its levels are larger, with none up to `one_block_of`. Of dear kernels a level
#: says whether to have the whole matrix.
SEED_FROM, ROWS_SEED_FROM = 1000, 2048
#: Variables up to which so few may share d on the capped simplex that levels, and float32, cost more than they save.
FEW_WHOLE, SHARING = 8192, 64
#: Pair updates in a block before the rest is looked at again: so many, or that part of very many variables.
PAIRS_PER_BLOCK, PAIRED = 10_000, 32
#: Steps without progress after which a level counts as at rest, for round-off rules; and the part of the violation when
#: those asleep were last looked at at which they are again.
STALLED, WAKE_AT = 12, 0.1
#: The part of the points that are support vectors, in the level before, from which the whole kernel matrix pays: by
#: blocks, and by rows made as they are needed.
MANY, MOST = 0.35, 0.6
#: Blocks a step of the driver.
BLOCKS_PER_STEP = 8


@dataclass
class Descent:
    """What a run works with: the workspace, what is wanted, and the level in work.

    Attributes
    ----------
    gap_tol, kkt_tol, hand_over, max_updates
        As in `WorkingSet`.
    level, inside : Level, array of int
        The level in work, and which variables it holds.
    at : tuple or None
        Depth, precision and blocks of the state it belongs to.
    """

    workspace: Workspace
    gap_tol: float | None
    kkt_tol: float | None
    hand_over: bool
    max_updates: int | None = None
    level: Level | None = None
    inside: NDArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    at: tuple[int, bool, int] | None = None

    def start(self, warm: NDArray | None) -> WorkingSetState:
        """The first state: of the smallest level, or of the whole problem if a start is given."""
        problem, depth, (whole, smallest) = self.workspace, 0, self.seeding
        while warm is None and problem.gram.n > whole and problem.gram.n // 4**depth > smallest:
            depth += 1
        alpha = np.zeros(problem.n) if warm is None else warm  # the level finds a start from nothing
        order = nested_order(problem) if depth else np.empty(0, dtype=np.intp)
        return WorkingSetState(alpha, order, depth, not self.ends_here, np.inf, 0, 0, np.inf, 0, alpha, 0)

    @property
    def seeding(self) -> tuple[int, int]:
        """Points up to which there are no levels, and those of the smallest one at most."""
        gram = self.workspace.gram
        if self.on_simplex:
            return FEW_WHOLE if self.is_shared_by_few else SEED_FROM, SEED_FROM
        rows_pay = makes_rows(gram) and not gram.is_dear
        return (one_block_of(gram), ROWS_SEED_FROM) if rows_pay else (SEED_FROM, SEED_FROM)

    @property
    def on_simplex(self) -> bool:
        return self.workspace.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)

    @property
    def ends_here(self) -> bool:
        """Whether a problem that may be handed over is small enough to be brought to its end in float64 instead."""
        n, most = self.workspace.n, WHOLE
        if self.on_simplex:
            most = FEW_WHOLE if self.is_shared_by_few else SIMPLEX_WHOLE
        return self.hand_over and n <= most and self.workspace.psd.is_psd

    @cached_property
    def is_shared_by_few(self) -> bool:
        """Whether few points hold d: then few have weight at the end, and few rows are needed."""
        return self.workspace.kind is Kind.CAPPED_SIMPLEX and sharing(self.workspace) <= SHARING

    @property
    def leaps(self) -> bool:
        """Whether pairs and leaps in float64 go to the end of a problem on the simplex, however many they are."""
        return self.ends_here and self.on_simplex and self.workspace.n <= SIMPLEX_WHOLE

    @property
    def crawling(self) -> int:
        """Pair updates a variable from which pairs are said to crawl."""
        return LEAPING if self.leaps else CRAWLING

    def step(self, state: WorkingSetState) -> WorkingSetState:
        """The next state, some blocks on."""
        problem = self.workspace
        if self.ends_here and problem.n <= SMALL_WHOLE:
            return self.finished(state)
        level = self.level_of(state)
        if state.offered:
            # Look once with the true gradient.
            level.set_gradient(problem.gradient(state.alpha))
            violation, gap = level.standing()
            gap_tol, kkt_tol = self.wanted(level)
            finer = not _at_rest(violation, gap, 2 * kkt_tol, 2 * gap_tol)
            return afresh(state, violation=violation, single=not finer, done=not finer, offered=False)
        left = None if self.max_updates is None else self.max_updates - state.updates
        done, updates, violation, gap, rest = self.advance(level, state, BLOCKS_PER_STEP, left)
        measure = gap if np.isfinite(gap) else violation
        fell = measure < 0.9 * state.best
        alpha = self.expanded(state, level)
        after: dict[str, Any] = {
            "alpha": alpha,
            "violation": violation,
            "blocks": state.blocks + done,
            "updates": state.updates + updates,
            "replay": state.replay + done,
            "best": min(measure, state.best),
            "stalled": 0 if fell else state.stalled + 1,
        }
        self.at = (state.depth, state.single, after["blocks"])
        if left is not None and updates >= left:
            return afresh(state, **after | {"done": True})
        if not rest and after["stalled"] < STALLED:
            return replace(state, **after)
        if state.depth:
            return afresh(state, **after | {"depth": state.depth - 1})
        # float32 cannot vouch for itself; a refinement can live with what it leaves, unless that hides who violates.
        handed = self.hands_over(level, stuck=not rest)
        if state.single and (not handed or level.error() > 2 * self.wanted(level)[1]):
            return replace(state, **after, offered=True)
        # With few that are free, blocks come to the end sooner than a refinement.
        if state.single and self.may_end(level):
            return afresh(state, **self.ended(level, after))
        # At the end a certificate may say that there is nothing to refine.
        ended = self.ends_here and violation <= max(NEAR_END, level.noise())
        ended |= self.workspace.n > LARGE and not handed
        return afresh(state, **after | {"done": True, "offered": ended})

    def finished(self, state: WorkingSetState) -> WorkingSetState:
        """The state at the end of a problem that is small enough to be solved in one go."""
        begun = seed(self.workspace, state.alpha)
        alpha, violation, updates = solve_whole(self.workspace, begun, END, self.max_updates)
        end = {"blocks": state.blocks + 1, "updates": state.updates + updates, "offered": violation <= NEAR_END}
        return afresh(state, alpha=alpha, violation=violation, done=True, **end)

    def ended(self, level: Level, after: dict[str, Any]) -> dict[str, Any]:
        """What the next state has, when those who are free, or nearly, were brought to their end in float64."""
        alpha, updates, margin = after["alpha"], after["updates"], max(SINGLE_KKT, after["violation"])
        for _ in range(ENDS):
            left = None if self.max_updates is None else self.max_updates - updates
            wish = level.wishes(asleep=True)
            W = nearly_free(level.is_free, wish, margin)
            alpha, violation, moved = solve_among(self.workspace, alpha, W, left)
            updates += moved
            if len(W) < AMONG or left == moved:
                break
            # Others are as near: they are looked at, in float64.
            level.take(alpha, self.workspace.gradient(alpha))
            margin = violation = level.standing()[0]
            if violation <= NEAR_END:
                break
        end = {"alpha": alpha, "violation": violation, "updates": updates}
        return after | end | {"done": True, "offered": True}

    def strategy(self, state: WorkingSetState) -> str:
        """The way a run takes: over the whole matrix of few variables, by levels of ever more points, or by blocks."""
        if self.ends_here and self.workspace.n <= SMALL_WHOLE:
            return "whole"
        return "levels" if len(state.order) else "blocks"

    def wants_whole(self, state: WorkingSetState) -> bool:
        """Whether a state begins, or is in, the whole problem in float32, and many support vectors are expected: that
        is asked of where this level began, so that a resumed run finds the same."""
        gram = self.workspace.gram
        points = gram.n >> (2 if len(state.order) else 0)
        many = bool(np.count_nonzero(state.anchor) >= (MOST if makes_rows(gram) else MANY) * points)
        return many and state.single and not state.depth and gram.is_dear

    def gradient(self, state: WorkingSetState) -> NDArray | None:
        """Qα − p of a state, if it is the whole problem's in work."""
        known = self.level is not None and not state.depth and self.at == (0, state.single, state.blocks)
        return self.level.gradient if self.level is not None and known else None

    def may_end(self, level: Level) -> bool:
        """Whether what float32 leaves is soon brought to its end in float64."""
        return level.points is not None and self.workspace.psd.is_psd and level.free_ones() <= ENDED

    def advance(
        self, level: Level, state: WorkingSetState, blocks: int, most: int | None = None
    ) -> tuple[int, int, float, float, bool]:
        """Up to so many blocks, of so many pair updates at most: how many, pair updates, violation, estimated gap, and
        whether the level rests."""
        gap_tol, kkt_tol = self.wanted(level)
        if state.single:
            gap_tol, kkt_tol = max(gap_tol, SINGLE_GAP), max(kkt_tol, SINGLE_KKT)
        n, updates, finer = level.problem.n, 0, 0
        for done in range(blocks + 1):
            violation, gap = level.standing()
            if finer < FINEST and _at_rest(violation, gap, kkt_tol, gap_tol) and not self.is_settled(level):
                finer, gap_tol, kkt_tol = finer + 1, FINER * gap_tol, FINER * kkt_tol
            rest = self.rests(level, violation, gap, kkt_tol, gap_tol)
            if rest or violation <= WAKE_AT * level.violation:
                if level.wake():
                    violation, gap = level.standing()
                    rest = self.rests(level, violation, gap, kkt_tol, gap_tol)
                level.violation = violation
            if rest or done == blocks:
                break
            inner = level.depth_of_a_block * violation
            if self.ends_here:
                first = not (self.on_simplex or _may_hand_over(level, violation, gap))
                inner = min(0.3 * _handing_over(level)[1], inner) if first else END
            if gap <= gap_tol and np.isfinite(kkt_tol):
                inner = max(inner, 0.3 * kkt_tol)
            limit = min(PAIRS_PER_BLOCK, CRAWLING * max(n, 100)) if n <= VAST else max(PAIRS_PER_BLOCK, n // PAIRED)
            limit = self.crawling * n if self.leaps else limit
            room = limit if most is None else min(limit, most - updates)
            moved = level.improve(inner, room)
            updates += moved
            if moved == 0 or updates == most:
                rest = True  # nothing can be moved at this precision
                break
            if moved >= room:
                level.slide()  # pairs of more free variables than there are dimensions crawl
        return done, updates, violation, gap, rest

    def rests(self, level: Level, violation: float, gap: float, kkt_tol: float, gap_tol: float) -> bool:
        """Whether a level is as good as wanted, or good enough to hand over."""
        pairs = level.updates // self.crawling // level.problem.n
        crawls = self.hands_over(level) and pairs > 0 and gap <= CRAWLING_GAP
        crawls = crawls and (pairs > 1 or self.is_settled(level))
        many = self.ends_here and not self.on_simplex and _may_hand_over(level, violation, gap)
        if _at_rest(violation, gap, kkt_tol, gap_tol) or crawls or (many and level.free_ones() > FEW):
            return True
        # Below what its gradient is wrong by, a level has nothing to go by: an optimum of 0 has no gap to end at.
        return violation <= SINGLE_KKT and violation <= level.doubt()

    def is_settled(self, level: Level) -> bool:
        """Whether hardly any variable at a bound wants to leave it, beside those that are free."""
        if not self.hands_over(level):
            return True
        free = 0 if self.on_simplex else level.free_ones()
        # Few that are free soon come to their end, but for the step of a refinement that each of the others takes.
        return level.invaders() <= (AMONG if free <= FEW else UNSETTLED * free)

    def hands_over(self, level: Level, stuck: bool = False) -> bool:
        """Whether a refinement is the faster way on, from where it may be handed over; ``stuck``, by pairs none is."""
        if not self.hand_over or self.workspace.n <= LARGE:
            return self.hand_over
        stuck |= level.updates >= CRAWLING * level.problem.n
        return (stuck or (self.gap_tol or 0.0) < SINGLE_GAP) and level.free_ones() <= FACTORED

    def wanted(self, level: Level) -> tuple[float, float]:
        """Gap and violation to reach. Where Q may be indefinite an estimated gap bounds nothing."""
        if not self.workspace.psd.is_psd:
            return np.inf, self.kkt_tol or SINGLE_KKT
        if self.ends_here:
            return np.inf, END
        if self.hands_over(level):
            # Without upper bounds a support set is all there is to find; to the last pairs the gap says how near it is.
            return (SIMPLEX_GAP, np.inf) if self.workspace.kind is Kind.SIMPLEX else _handing_over(level)
        return self.gap_tol or SINGLE_GAP, self.kkt_tol or np.inf

    def level_of(self, state: WorkingSetState) -> Level:
        """The level in work: the one at hand if it belongs to this state, else made from its anchor, and replayed."""
        if self.level is None or self.at != (state.depth, state.single, state.blocks):
            part, inside = self.workspace, np.arange(self.workspace.n)
            if state.depth:
                part, inside = restrict(part, state.order[: part.gram.n >> 2 * state.depth])
            alpha = seed(part, state.anchor[inside])
            self.level = Level(part, alpha, np.float32 if state.single else np.float64, alone=not len(state.order))
            self.inside = inside
            if state.replay:
                self.advance(self.level, state, state.replay)
        self.at = None  # until the step is whole, it belongs to no state
        return self.level

    def expanded(self, state: WorkingSetState, level: Level) -> NDArray:
        """α of the whole problem from a level's."""
        if not state.depth:
            return np.array(level.alpha)
        alpha = np.zeros(self.workspace.n)
        alpha[self.inside] = level.alpha
        return alpha


def _handing_over(level: Level) -> tuple[float, float]:
    """Gap and violation at which a refinement goes on faster than pairs."""
    return BLOCKS_HAND_OVER if level.points is None else ROWS_HAND_OVER


def _may_hand_over(level: Level, violation: float, gap: float) -> bool:
    """Whether a level is at `_handing_over`, or better."""
    enough = _handing_over(level)
    return _at_rest(violation, gap, enough[1], enough[0])


def _at_rest(violation: float, gap: float, kkt_tol: float, gap_tol: float) -> bool:
    """Both tolerances, or a gap so much smaller than asked that the violation no longer matters."""
    enough = np.isfinite(gap_tol) and gap <= 0.01 * gap_tol
    return bool(gap <= gap_tol and (violation <= kkt_tol or enough))
