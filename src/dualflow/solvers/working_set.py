"""The fast one: blocks of a few hundred variables, solved by a compiled pair loop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Flag, Number, option
from ..core.problem import DualProblem, Kind
from ..core.workspace import Workspace
from .base import EVERY_CONVEX, Solver

if TYPE_CHECKING:
    from ..working_set.level import Level

__all__ = ["WorkingSet"]

#: Below this KKT violation and relative gap float32 is unsafe: its gradient no longer tells who violates.
SINGLE_KKT, SINGLE_GAP = 1e-3, 5e-5
#: Estimated relative gap and KKT violation at which the refinement is the faster of the two, and the gap at which it
#: is after so many pair updates a variable: then the problem is ill-conditioned, and pairs crawl.
HAND_OVER_GAP, HAND_OVER_KKT, CRAWLING_GAP, CRAWLING = 1e-2, 3e-3, 3e-2, 5
#: The same on the simplex.
SIMPLEX_GAP = 0.01
#: Smallest level of the seeding.
SEED_FROM = 1000
#: Pair updates in a block before the rest is looked at again.
PAIRS_PER_BLOCK = 10_000
#: Steps without progress after which a level counts as at rest: round-off rules.
STALLED = 12
#: Those asleep are looked at when the violation has fallen to this part of what it was then.
WAKE_AT = 0.1
#: Blocks a step of the driver, so that limits are honoured without being in the way.
BLOCKS_PER_STEP = 8


@dataclass
class WorkingSetContext:
    """The workspace, and the level in work: which state it belongs to, and which variables it holds."""

    workspace: Workspace
    level: Level | None = None
    inside: NDArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    at: tuple[int, bool, int] | None = None


@dataclass(frozen=True)
class WorkingSetState:
    """α of shape (n,), the order of the points, and how far the seeding is.

    ``depth`` counts the levels still to come; ``single`` says whether float32 is still in use; ``blocks`` counts.
    ``best`` is the least estimated gap (violation, where no gap is finite) of this level and precision, and
    ``stalled`` the steps since it last fell by a tenth. ``anchor`` is α where this level began and ``replay`` the
    blocks since: gradient and kernel rows are not saved, so a resumed run goes through them again, to the same bits.
    ``offered`` says that float32 came to rest here: a certificate decides whether that is enough.
    """

    alpha: NDArray
    order: NDArray
    depth: int
    single: bool
    violation: float
    blocks: int
    updates: int
    best: float
    stalled: int
    anchor: NDArray
    replay: int
    done: bool = False
    offered: bool = False


@dataclass(frozen=True)
class WorkingSet(Solver[WorkingSetContext, WorkingSetState]):
    """Block decomposition: seeded on a quarter of the points, recursively; second-order SMO in compiled blocks.

    A block holds all free variables where it can, and the worst violators. Inside it pairs are chosen by the
    second-order rule (Fan, Chen, Lin 2005) over float32 rows, made when they are first asked for (radial kernels of up
    to 64 features; the others' blocks of 512 are computed beforehand). Where few variables are free, they also move
    all at once now and then, by Newton steps, so that ill-conditioned problems (large C) do not crawl. Only what moved
    is carried to the rest, and not to those whose multipliers are far from changing sign: they are looked at when the
    violation has fallen to a tenth, and before it ends. Below KKT violation 1e-3 (LIBSVM's default) and relative gap
    5e-5, float32 no longer tells who violates, and it goes on in float64. A refinement that follows takes over earlier:
    see ``hand_over``.

    Parameters
    ----------
    gap_tol : float > 0, optional
        Estimated relative gap at rest. By default half of the driver's ``tol``.
    kkt_tol : float > 0, optional
        Worst KKT violation at rest, in units of the gradient (of the largest Qᵢᵢ on the simplex), wanted besides,
        unless the gap is a hundred times smaller than asked. Where no gap exists (Q not positive semidefinite) the
        violation alone decides, with 1e-3 by default.
    hand_over : bool, optional
        Rest where a refinement is the faster way on: at gap 1e-2 with violation 3e-3, or at gap 3e-2 once the pair
        updates outnumber the variables by 5 to 1; on the simplex at gap 0.01. By default if the driver asks for it
        (``refine="early"``) and neither tolerance is given.
    """

    gap_tol: float | None = option(None, Number(above=0, none=True, infinite=True))
    kkt_tol: float | None = option(None, Number(above=0, none=True, infinite=True))
    hand_over: bool | None = option(None, Flag(none=True))

    state_type: ClassVar[type] = WorkingSetState

    name: ClassVar[str] = "working-set"
    reaches: ClassVar[str] = "the tolerance asked for"
    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX
    needs_psd: ClassVar[bool] = False
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 20_000

    def aim(self, tol: float, hand_over: bool = False) -> WorkingSet:
        if self.hand_over is not None:
            hand_over = self.hand_over
        elif self.gap_tol is not None or self.kkt_tol is not None:
            hand_over = False
        return replace(self, hand_over=hand_over, gap_tol=0.5 * tol if self.gap_tol is None else self.gap_tol)

    def open(self, problem: DualProblem, workspace: Workspace) -> WorkingSetContext:
        return WorkingSetContext(workspace)

    def start(
        self, context: WorkingSetContext, rng: np.random.Generator, warm: NDArray | None = None
    ) -> WorkingSetState:
        from ..working_set.seeding import nested_order

        problem, depth = context.workspace, 0
        if warm is None:
            while problem.gram.n // 4**depth > SEED_FROM:
                depth += 1
        alpha = np.zeros(problem.n) if warm is None else warm  # the level finds a start from nothing
        order = nested_order(problem) if depth else np.empty(0, dtype=np.intp)
        return WorkingSetState(alpha, order, depth, True, np.inf, 0, 0, np.inf, 0, alpha, 0)

    def step(self, context: WorkingSetContext, state: WorkingSetState) -> WorkingSetState:
        problem = context.workspace
        level = self.level(context, state)
        if state.offered:
            # float32 cannot vouch for itself: look once with the true gradient.
            level.set_gradient(problem.gradient(state.alpha))
            violation, gap = level.standing()
            gap_tol, kkt_tol = self.wanted(problem)
            finer = not _at_rest(violation, gap, 2 * kkt_tol, 2 * gap_tol)
            return _afresh(state, violation=violation, single=not finer, done=not finer, offered=False)
        done, updates, violation, gap, rest = self.advance(problem, level, state.single, BLOCKS_PER_STEP)
        measure = gap if np.isfinite(gap) else violation
        fell = measure < 0.9 * state.best
        after = replace(
            state,
            alpha=_expanded(context, state, level),
            violation=violation,
            blocks=state.blocks + done,
            updates=state.updates + updates,
            replay=state.replay + done,
            best=min(measure, state.best),
            stalled=0 if fell else state.stalled + 1,
        )
        context.at = (after.depth, after.single, after.blocks)
        if not rest and after.stalled < STALLED:
            return after
        if state.depth:
            return _afresh(after, depth=state.depth - 1)
        if state.single and not self.hand_over:
            return replace(after, offered=True)
        return _afresh(after, done=True)

    def gradient(self, context: WorkingSetContext, state: WorkingSetState) -> NDArray | None:
        level = context.level
        known = level is not None and not state.depth and context.at == (0, state.single, state.blocks)
        return level.gradient if level is not None and known else None

    def asks_for_certificate(self, state: WorkingSetState) -> bool:
        return state.offered and self.kkt_tol is None

    def advance(
        self, problem: DualProblem, level: Level, single: bool, blocks: int
    ) -> tuple[int, int, float, float, bool]:
        """Up to so many blocks: how many, pair updates, violation, estimated gap, and whether the level rests."""
        gap_tol, kkt_tol = self.wanted(problem)
        if single:
            gap_tol, kkt_tol = max(gap_tol, SINGLE_GAP), max(kkt_tol, SINGLE_KKT)
        n, updates = level.problem.n, 0
        for done in range(blocks + 1):
            violation, gap = level.standing()
            rest = self.rests(level, violation, gap, kkt_tol, gap_tol)
            if rest or violation <= WAKE_AT * level.violation:
                if level.wake():
                    violation, gap = level.standing()
                    rest = self.rests(level, violation, gap, kkt_tol, gap_tol)
                level.violation = violation
            if rest or done == blocks:
                break
            inner = level.depth_of_a_block * violation
            if gap <= gap_tol and np.isfinite(kkt_tol):
                inner = max(inner, 0.3 * kkt_tol)
            moved = level.improve(inner, min(PAIRS_PER_BLOCK, CRAWLING * max(n, 100)))
            updates += moved
            if moved == 0:
                rest = True  # nothing can be moved at this precision
                break
        return done, updates, violation, gap, rest

    def rests(self, level: Level, violation: float, gap: float, kkt_tol: float, gap_tol: float) -> bool:
        """Whether a level is as good as wanted, or good enough to hand over."""
        crawls = bool(self.hand_over) and level.updates >= CRAWLING * level.problem.n
        return _at_rest(violation, gap, kkt_tol, gap_tol) or (crawls and gap <= CRAWLING_GAP)

    def wanted(self, problem: DualProblem) -> tuple[float, float]:
        """Gap and violation to reach. Where Q may be indefinite an estimated gap bounds nothing."""
        if not problem.psd.is_psd:
            return np.inf, self.kkt_tol or SINGLE_KKT
        if self.hand_over:
            # Without upper bounds a support set is all there is to find; to the last pairs the gap says how near it is.
            return (SIMPLEX_GAP, np.inf) if problem.kind is Kind.SIMPLEX else (HAND_OVER_GAP, HAND_OVER_KKT)
        return self.gap_tol or SINGLE_GAP, self.kkt_tol or np.inf

    def level(self, context: WorkingSetContext, state: WorkingSetState) -> Level:
        """The level in work: from the context if that belongs to this state, else from its anchor, replayed."""
        from ..working_set.level import Level
        from ..working_set.seeding import restrict, seed

        if context.level is None or context.at != (state.depth, state.single, state.blocks):
            part, inside = context.workspace, np.arange(context.workspace.n)
            if state.depth:
                part, inside = restrict(part, state.order[: part.gram.n // 4**state.depth])
            alpha = seed(part, state.anchor[inside])
            context.level = Level(part, alpha, np.float32 if state.single else np.float64)
            context.inside = inside
            if state.replay:
                self.advance(context.workspace, context.level, state.single, state.replay)
        context.at = None  # until the step is whole, it belongs to no state
        return context.level

    def alpha(self, state: WorkingSetState) -> NDArray:
        return state.alpha

    def finished(self, state: WorkingSetState) -> bool:
        return state.done


def _afresh(state: WorkingSetState, **changes: Any) -> WorkingSetState:
    """The state at the beginning of another level or precision, or at the end."""
    return replace(state, best=np.inf, stalled=0, anchor=state.alpha, replay=0, **changes)


def _expanded(context: WorkingSetContext, state: WorkingSetState, level: Level) -> NDArray:
    """α of the whole problem from a level's."""
    if not state.depth:
        return np.array(level.alpha)
    alpha = np.zeros(context.workspace.n)
    alpha[context.inside] = level.alpha
    return alpha


def _at_rest(violation: float, gap: float, kkt_tol: float, gap_tol: float) -> bool:
    """Both tolerances, or a gap so much smaller than asked that the violation no longer matters."""
    enough = np.isfinite(gap_tol) and gap <= 0.01 * gap_tol
    return bool(gap <= gap_tol and (violation <= kkt_tol or enough))
