"""The fast one: blocks of a few hundred variables, solved by a compiled pair loop."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind
from ..core.screening import product_from_below
from ..exceptions import ProblemError
from .base import EVERY_CONVEX, Solver

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


class _Memory:
    """The level in work, made again and replayed when a run is resumed; it belongs to one state at a time."""

    def __init__(self) -> None:
        self.level: Any = None
        self.inside: NDArray = np.empty(0, dtype=np.intp)
        self.at: tuple[int, bool, int] | None = None


@dataclass(frozen=True)
class WorkingSetState:
    """α of shape (n,), the order of the points, and how far the seeding is.

    ``depth`` counts the levels still to come; ``single`` says whether float32 is still in use; ``blocks`` counts.
    ``best`` is the least estimated gap (violation, where no gap is finite) of this level and precision, and
    ``stalled`` the steps since it last fell by a tenth. ``anchor`` is α where this level began and ``replay`` the
    blocks since: gradient and kernel rows are not saved, so a resumed run goes through them again, to the same bits.
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
    done: bool
    memory: _Memory = field(repr=False, metadata={"saved": False})


@dataclass(frozen=True)
class WorkingSet(Solver):
    """Block decomposition: seeded on a quarter of the points, recursively; second-order SMO in compiled blocks.

    A block holds all free variables where it can, and the worst violators. Inside it pairs are chosen by the
    second-order rule (Fan, Chen, Lin 2005) over float32 rows, made when they are first asked for (radial kernels of up
    to 64 features; the others' blocks of 512 are computed beforehand). Where few variables are free, they also move
    all at once now and then, by Newton steps, so that ill-conditioned problems (large C) do not crawl. Only what moved
    is carried to the rest, and not to those whose multipliers are far from changing sign: they are looked at when the
    violation has fallen to a tenth, and before it ends. Below KKT violation 1e-3 (LIBSVM's default) and relative gap
    5e-5, float32 no longer tells who violates, and it goes on in float64. Estimators that refine take over earlier:
    see ``hand_over``.

    Parameters
    ----------
    gap_tol : float > 0, optional
        Estimated relative gap at rest. By default half of the driver's ``tol``.
    kkt_tol : float > 0, optional
        Worst KKT violation at rest, in units of the gradient (of the largest Qᵢᵢ on the simplex), wanted besides,
        unless the gap is a hundred times smaller than asked. Where no gap exists (Q not positive semidefinite) the
        violation alone decides, with 1e-3 by default.
    hand_over : bool, default=False
        Rest where a refinement is the faster way on: at gap 1e-2 with violation 3e-3, or at gap 3e-2 once the pair
        updates outnumber the variables by 5 to 1; on the simplex at gap 0.01.
    """

    gap_tol: float | None = None
    kkt_tol: float | None = None
    hand_over: bool = False

    name: ClassVar[str] = "working-set"
    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX
    needs_psd: ClassVar[bool] = False
    certify_every: ClassVar[int] = 1 << 30
    default_max_steps: ClassVar[int] = 20_000

    def __post_init__(self) -> None:
        for name in ("kkt_tol", "gap_tol"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ProblemError(f"{name}={value!r} must be > 0")

    def to_be_refined(self) -> WorkingSet:
        return replace(self, hand_over=True)

    def aim(self, tol: float) -> WorkingSet:
        return self if self.gap_tol is not None else replace(self, gap_tol=0.5 * tol)

    def start(self, problem: DualProblem, rng: np.random.Generator, warm: NDArray | None = None) -> WorkingSetState:
        from ..working_set.seeding import nested_order

        points, depth = problem.gram.n, 0
        if warm is None:
            while points // 4**depth > SEED_FROM:
                depth += 1
        alpha = np.zeros(problem.n) if warm is None else warm  # the level finds a start from nothing
        order = nested_order(problem) if depth else np.empty(0, dtype=np.intp)
        return WorkingSetState(alpha, order, depth, True, np.inf, 0, 0, np.inf, 0, alpha, 0, False, _Memory())

    def step(self, problem: DualProblem, state: WorkingSetState) -> WorkingSetState:
        level = self.level(problem, state)
        done, updates, violation, gap, rest = self.advance(problem, level, state.single, BLOCKS_PER_STEP)
        measure = gap if np.isfinite(gap) else violation
        fell = measure < 0.9 * state.best
        after = replace(
            state,
            alpha=self.expand(problem, state, level),
            violation=violation,
            blocks=state.blocks + done,
            updates=state.updates + updates,
            replay=state.replay + done,
            best=min(measure, state.best),
            stalled=0 if fell else state.stalled + 1,
        )
        if not rest and after.stalled < STALLED:
            state.memory.at = (after.depth, after.single, after.blocks)
            return after
        state.memory.at = None
        afresh: dict[str, Any] = {"best": np.inf, "stalled": 0, "anchor": after.alpha, "replay": 0}
        if state.depth:
            return replace(after, depth=state.depth - 1, **afresh)
        finer = False
        if state.single:
            # float32 cannot vouch for itself: look once with the true gradient, which the certificate needs anyway.
            level.set_gradient(product_from_below(problem, after.alpha) - problem.p)
            violation, gap = level.standing()
            gap_tol, kkt_tol = self.wanted(problem)
            finer = not _at_rest(violation, gap, 2 * kkt_tol, 2 * gap_tol)
        return replace(after, violation=violation, single=not finer and state.single, done=not finer, **afresh)

    def advance(
        self, problem: DualProblem, level: Any, single: bool, blocks: int
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

    def rests(self, level: Any, violation: float, gap: float, kkt_tol: float, gap_tol: float) -> bool:
        """Whether a level is as good as wanted, or good enough to hand over."""
        crawls = self.hand_over and level.updates >= CRAWLING * level.problem.n
        return _at_rest(violation, gap, kkt_tol, gap_tol) or (crawls and gap <= CRAWLING_GAP)

    def wanted(self, problem: DualProblem) -> tuple[float, float]:
        """Gap and violation to reach. Where Q may be indefinite an estimated gap bounds nothing."""
        if not problem.psd.is_psd:
            return np.inf, self.kkt_tol or SINGLE_KKT
        if self.hand_over:
            # Without upper bounds a support set is all there is to find; to the last pairs the gap says how near it is.
            return (SIMPLEX_GAP, np.inf) if problem.kind is Kind.SIMPLEX else (HAND_OVER_GAP, HAND_OVER_KKT)
        return self.gap_tol or SINGLE_GAP, self.kkt_tol or np.inf

    def level(self, problem: DualProblem, state: WorkingSetState) -> Any:
        """The level in work: from memory if that belongs to this state, else from its anchor, replayed."""
        from ..working_set.level import Level
        from ..working_set.seeding import restrict, seed

        memory = state.memory
        if memory.at != (state.depth, state.single, state.blocks):
            part, inside = problem, np.arange(problem.n)
            if state.depth:
                part, inside = restrict(problem, state.order[: problem.gram.n // 4**state.depth])
            alpha = seed(part, state.anchor[inside])
            memory.level = Level(part, alpha, np.float32 if state.single else np.float64)
            memory.inside = inside
            if state.replay:
                self.advance(problem, memory.level, state.single, state.replay)
        memory.at = None
        return memory.level

    def expand(self, problem: DualProblem, state: WorkingSetState, level: Any) -> NDArray:
        """α of the whole problem from a level's."""
        if not state.depth:
            return np.array(level.alpha)
        alpha = np.zeros(problem.n)
        alpha[state.memory.inside] = level.alpha
        return alpha

    def alpha(self, state: WorkingSetState) -> NDArray:
        return state.alpha

    def finished(self, state: WorkingSetState) -> bool:
        return state.done


def _at_rest(violation: float, gap: float, kkt_tol: float, gap_tol: float) -> bool:
    """Both tolerances, or a gap so much smaller than asked that the violation no longer matters."""
    enough = np.isfinite(gap_tol) and gap <= 0.01 * gap_tol
    return bool(gap <= gap_tol and (violation <= kkt_tol or enough))
