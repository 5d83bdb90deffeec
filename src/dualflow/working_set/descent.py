"""The iteration of the solver `working-set`.

A large problem is solved in levels: first on a sample of the points, then on four times as many, and so on up to all of
them, each level starting from the α of the one before. A level is solved in float32 first and in float64 if float32 is
not accurate enough. Within a level the variables are optimised block by block. The iteration ends at the tolerances, or
earlier where the active-set refinement is faster than further pair updates.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.problem import Kind
from ..core.runtime.threads import cached_property
from ..core.workspace import Workspace
from ..refinement.refine import MAX_N_REFINED
from .block_rows import makes_rows, one_block_of
from .dense import KKT_TOL_ROUND_OFF, MAX_NEARLY_FREE, nearly_free, solve_dense, solve_subset
from .level import MAX_N_FREE_BLOCKS, MIN_GAP_LOST, Level
from .seeding import least_nonzero, nested_order, restrict, seed
from .state import WorkingSetState, restarted

#: Least KKT violation that float32 can resolve. Below it, the sign of a violation is not reliable.
MIN_KKT_FLOAT32 = 1e-3
#: Least relative gap that float32 can resolve.
MIN_GAP_FLOAT32 = 5e-5

# When a refinement takes over. It is faster than pair updates near the optimum.

#: If blocks of the matrix are computed, the refinement takes over at this estimated relative gap and this KKT
#: violation.
HAND_OVER_TOLS_BLOCKS = (1e-2, 3e-3)
#: The same if rows are made on demand. They are smaller because pair updates are then cheaper.
HAND_OVER_TOLS_ROWS = (3e-3, 1e-3)
#: On a simplex without upper bounds, the refinement takes over at this relative gap. Only the support set is left to
#: find.
HAND_OVER_GAP_SIMPLEX = 0.01
#: After this many pair updates per variable, updates are said to crawl: the problem is ill-conditioned. The refinement
#: then takes over at `MAX_GAP_CRAWLING`. After twice as many updates it takes over even if variables at bounds still
#: violate.
CRAWLING_UPDATES = 5
#: If updates crawl, a problem is handed over at a relative gap up to this.
MAX_GAP_CRAWLING = 3e-2
#: As `CRAWLING_UPDATES`, on a simplex of at most `MAX_N_FLOAT64_SIMPLEX` variables. Newton steps over the free
#: variables finish it, while each round of a refinement would need a new factor.
CRAWLING_UPDATES_SIMPLEX = 100
#: A problem is handed over if the violators at bounds are at most this share of the free variables. Each round of a
#: refinement factorises a matrix; pair updates move many violators in less time.
MAX_VIOLATORS_PER_FREE = 0.1
#: While there are more violators than that, both tolerances are multiplied by this.
FINER_TOL_RATIO = 0.1
#: The tolerances are reduced by it at most this many times.
MAX_FINER_ROUNDS = 3
#: A large problem is handed over if it has at most this many free variables. Their dense factor and its matrix take 2.4
#: GB.
MAX_FREE_HAND_OVER = 12_288

# When a problem is finished in float64 instead.

#: Up to this many variables of a box, float64 pair updates and Newton steps take less time than a refinement.
MAX_N_FLOAT64_BOX = 512
#: The same limit for the free variables of a box.
MAX_FREE_FLOAT64_BOX = 200
#: The same limit for the variables of a simplex.
MAX_N_FLOAT64_SIMPLEX = 1536
#: Up to this many free variables, they and the nearly free ones are finished as a subproblem.
MAX_FREE_FINISH = 500
#: This is done at most this many times, if the nearly free variables are too many for one subproblem.
MAX_FINISH_ROUNDS = 12
#: It ends at this relative gap, and no refinement follows.
MAX_GAP_FINISHED = 3e-11
#: A KKT violation up to this may be round-off in float64.
MAX_KKT_ROUND_OFF = 1e-11
#: Up to this many variables, a problem is solved over its dense matrix in one step.
MAX_N_ONE_STEP = 112

# Levels.

#: The first level has at most this many points.
MAX_FIRST_LEVEL = 1000
#: The same limit for a box whose rows are made on demand. It makes as few rows without an α to start from, so there are
#: no levels up to `one_block_of` variables. Expensive kernels keep `MAX_FIRST_LEVEL`, because the level before says
#: whether the dense matrix pays.
MAX_FIRST_LEVEL_ROWS = 2048
#: Up to this many variables of a capped simplex, levels and float32 cost more than they save if at most
#: `MAX_FEW_SUPPORT` variables can share d.
MAX_N_FEW_SUPPORT = 8192
#: Largest number of variables that share d, for that.
MAX_FEW_SUPPORT = 64
#: The same limit if the kernel matrix is given, so that no rows are computed. A linear matrix of 2000 points, of which
#: 100 share d, takes half the time, and none takes more.
MAX_FEW_SUPPORT_GIVEN = 256
#: After this many steps without progress a level ends, because round-off prevents more.
MAX_STALLED_STEPS = 12
#: The same limit while the violation is below the error of the gradient. From float32, float64 then takes over. With
#: the limit above, linear kernel matrices of points far from the origin took 100 blocks.
MAX_STALLED_STEPS_LOST = 2
#: Shrunk variables are checked again when the violation has fallen to this share of its value at the last check.
UNSHRINK_RATIO = 0.1
#: If blocks are computed, the dense kernel matrix pays from this share of support vectors among the points of the level
#: before.
MIN_SUPPORT_SHARE_BLOCKS = 0.35
#: The same share if rows are made on demand, or if there are more points than for `KeptGram.is_expensive`.
MIN_SUPPORT_SHARE_ROWS = 0.6

# Blocks.

#: Pair updates in a block before the gradient of all variables is updated.
MAX_UPDATES_PER_BLOCK = 10_000
#: Variables per pair update in a block, of more than `MAX_N_FREE_BLOCKS` variables.
VARIABLES_PER_UPDATE = 32
#: Blocks in a step of the driver.
BLOCKS_PER_STEP = 8


@dataclass
class Descent:
    """The context of a run: the workspace, the tolerances, and the current level."""

    workspace: Workspace
    #: gap_tol, kkt_tol, hand_over, max_updates: as in `WorkingSet`.
    gap_tol: float | None
    kkt_tol: float | None
    hand_over: bool
    max_updates: int | None = None
    level: Level | None = None  # the current level
    #: The variables of the problem that the level holds; int array.
    inside: NDArray = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    #: Depth, precision and number of blocks of the state that the level belongs to.
    at: tuple[int, bool, int] | None = None

    def start(self, warm: NDArray | None) -> WorkingSetState:
        """Return the first state: at the first level, or at the whole problem if a start is given."""
        problem, depth, (max_one_level, max_first) = self.workspace, 0, self.level_sizes
        while warm is None and problem.gram.n > max_one_level and problem.gram.n // 4**depth > max_first:
            depth += 1
        alpha = np.zeros(problem.n) if warm is None else warm  # the level makes it feasible
        order = nested_order(problem) if depth else np.empty(0, dtype=np.intp)
        return WorkingSetState(alpha, order, depth, not self.solves_in_float64, np.inf, 0, 0, np.inf, 0, alpha, 0)

    @property
    def level_sizes(self) -> tuple[int, int]:
        """Points up to which there is one level, and points of the first of several, at most."""
        gram = self.workspace.gram
        if self.on_simplex:
            return MAX_N_FEW_SUPPORT if self.is_shared_by_few else MAX_FIRST_LEVEL, MAX_FIRST_LEVEL
        rows_pay = makes_rows(gram) and not gram.is_expensive
        return (one_block_of(gram), MAX_FIRST_LEVEL_ROWS) if rows_pay else (MAX_FIRST_LEVEL, MAX_FIRST_LEVEL)

    @property
    def on_simplex(self) -> bool:
        """Whether the problem is on a simplex, with or without upper bounds."""
        return self.workspace.kind in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)

    @property
    def solves_in_float64(self) -> bool:
        """Whether a problem that may be handed over is small enough to be finished in float64 instead."""
        n, max_n = self.workspace.n, MAX_N_FLOAT64_BOX
        if self.on_simplex:
            max_n = MAX_N_FEW_SUPPORT if self.is_shared_by_few else MAX_N_FLOAT64_SIMPLEX
        return self.hand_over and n <= max_n and self.workspace.psd.is_psd

    @cached_property
    def is_shared_by_few(self) -> bool:
        """Whether few variables share d: then few are nonzero at the optimum, and few rows are needed."""
        most = MAX_FEW_SUPPORT_GIVEN if self.workspace.gram.kernel == "precomputed" else MAX_FEW_SUPPORT
        return self.workspace.kind is Kind.CAPPED_SIMPLEX and least_nonzero(self.workspace) <= most

    @property
    def finishes_simplex(self) -> bool:
        """Whether a problem on a simplex is finished by pair updates and Newton steps, even if many are needed."""
        return self.solves_in_float64 and self.on_simplex and self.workspace.n <= MAX_N_FLOAT64_SIMPLEX

    @property
    def crawling_updates(self) -> int:
        """Pair updates per variable from which they are said to crawl."""
        return CRAWLING_UPDATES_SIMPLEX if self.finishes_simplex else CRAWLING_UPDATES

    def step(self, state: WorkingSetState) -> WorkingSetState:
        """Return the next state, after `BLOCKS_PER_STEP` blocks or the end of a level."""
        problem = self.workspace
        if self.solves_in_float64 and problem.n <= MAX_N_ONE_STEP:
            return self.finish_dense_problem(state)
        level = self.level_of(state)
        if state.offered:
            # Check once with the gradient computed in float64.
            level.set_gradient(problem.gradient(state.alpha))
            violation, gap = level.violation_and_gap()
            gap_tol, kkt_tol = self.target_tols(level)
            finer = not _meets_tols(violation, gap, 2 * kkt_tol, 2 * gap_tol)
            return restarted(state, violation=violation, single=not finer, done=not finer, offered=False)
        left = None if self.max_updates is None else self.max_updates - state.updates
        done, updates, violation, gap, stops = self.advance(level, state, BLOCKS_PER_STEP, left)
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
            return restarted(state, **after | {"done": True})
        lost = after["stalled"] >= MAX_STALLED_STEPS_LOST and violation <= level.error_bound()
        lost &= state.single or gap > MIN_GAP_LOST
        if not stops and after["stalled"] < MAX_STALLED_STEPS and not lost:
            return replace(state, **after)
        if state.depth:
            return restarted(state, **after | {"depth": state.depth - 1})
        # With few free variables a float64 subproblem takes less time than a refinement.
        handed = self.hands_over(level, stuck=not stops)
        if state.single and handed and self.can_finish_free(level):
            return restarted(state, **self.finish_free(level, after))
        # A float32 result is checked in float64, unless a refinement follows and float32 resolves the violators.
        if state.single and (not handed or level.gradient_error() > 2 * self.target_tols(level)[1]):
            return replace(state, **after, offered=True)
        # An offered state is certified: it may need no refinement.
        offered = self.solves_in_float64 and violation <= max(MAX_KKT_ROUND_OFF, level.round_off())
        offered |= self.workspace.n > MAX_N_REFINED and not handed
        return restarted(state, **after | {"done": True, "offered": offered})

    def finish_dense_problem(self, state: WorkingSetState) -> WorkingSetState:
        """Return the last state of a problem that is solved over its dense matrix in one step."""
        begun = seed(self.workspace, state.alpha)
        alpha, violation, updates = solve_dense(self.workspace, begun, KKT_TOL_ROUND_OFF, self.max_updates)
        end = {
            "blocks": state.blocks + 1,
            "updates": state.updates + updates,
            "offered": violation <= MAX_KKT_ROUND_OFF,
        }
        return restarted(state, alpha=alpha, violation=violation, done=True, **end)

    def finish_free(self, level: Level, after: dict[str, Any]) -> dict[str, Any]:
        """Return the fields of the last state, after float64 subproblems over the free and nearly free variables."""
        problem, alpha, updates = self.workspace, after["alpha"], after["updates"]
        margin, h = max(MIN_KKT_FLOAT32, after["violation"], level.gradient_error()), None
        for _ in range(MAX_FINISH_ROUNDS):
            left = None if self.max_updates is None else self.max_updates - updates
            W, before = nearly_free(level.is_free, level.kkt_excess(shrunk=True), margin), alpha
            alpha, violation, moved = solve_subset(problem, alpha, W, left, None if h is None else h[W])
            updates += moved
            if len(W) < MAX_NEARLY_FREE or left == moved:
                break
            # More variables are nearly free than one subproblem holds: choose again by the float64 gradient.
            h = problem.gradient(alpha) if h is None else h + problem.product(alpha - before)
            level.restart_from(alpha, h)
            margin, gap = level.violation_and_gap()
            violation = margin
            if violation <= MAX_KKT_ROUND_OFF or gap <= MAX_GAP_FINISHED:
                break
        end = {"alpha": alpha, "violation": violation, "updates": updates}
        return after | end | {"done": True, "offered": True}

    def strategy(self, state: WorkingSetState) -> str:
        """Return the strategy of a run: "whole" (one step over the dense matrix), "levels" or "blocks"."""
        if self.solves_in_float64 and self.workspace.n <= MAX_N_ONE_STEP:
            return "whole"
        return "levels" if len(state.order) else "blocks"

    def wants_whole(self, state: WorkingSetState) -> bool:
        """Whether the last level, in float32, should compute the dense kernel matrix: it expects many support vectors.

        They are counted at the α where this level began, so that a resumed run decides the same.
        """
        gram = self.workspace.gram
        points = gram.n >> (2 if len(state.order) else 0)
        rows = makes_rows(gram)
        min_share = MIN_SUPPORT_SHARE_BLOCKS if gram.is_expensive and not rows else MIN_SUPPORT_SHARE_ROWS
        saves = gram.is_expensive if rows else gram.saves_if_many
        many = bool(np.count_nonzero(state.anchor) >= min_share * points)
        return many and state.single and not state.depth and saves

    def gradient(self, state: WorkingSetState) -> NDArray | None:
        """Return Qα − p of a state, or None if it is not the current one or not of the whole problem."""
        known = self.level is not None and not state.depth and self.at == (0, state.single, state.blocks)
        return self.level.gradient if self.level is not None and known else None

    def can_finish_free(self, level: Level) -> bool:
        """Whether a float64 subproblem over the free and nearly free variables finishes the problem."""
        return level.points is not None and self.workspace.psd.is_psd and level.free_count() <= MAX_FREE_FINISH

    def advance(
        self, level: Level, state: WorkingSetState, blocks: int, max_updates: int | None = None
    ) -> tuple[int, int, float, float, bool]:
        """Solve up to ``blocks`` blocks of a level, by at most ``max_updates`` pair updates.

        Returns
        -------
        blocks, updates : int
            As many as were made.
        violation, gap : float
            KKT violation (in units of s), and estimated relative gap.
        stops : bool
            Whether the level has ended.
        """
        gap_tol, kkt_tol = self.target_tols(level)
        if state.single:
            gap_tol, kkt_tol = max(gap_tol, MIN_GAP_FLOAT32), max(kkt_tol, MIN_KKT_FLOAT32 * level.max_own_change)
        n, updates, finer = level.problem.n, 0, 0
        for done in range(blocks + 1):
            violation, gap = level.violation_and_gap()
            meets = _meets_tols(violation, gap, kkt_tol, gap_tol)
            if finer < MAX_FINER_ROUNDS and meets and not self.has_few_violators(level):
                finer, gap_tol, kkt_tol = finer + 1, FINER_TOL_RATIO * gap_tol, FINER_TOL_RATIO * kkt_tol
            stops = self.should_stop(level, violation, gap, kkt_tol, gap_tol)
            if stops or violation <= UNSHRINK_RATIO * level.violation:
                if level.unshrink():
                    violation, gap = level.violation_and_gap()
                    stops = self.should_stop(level, violation, gap, kkt_tol, gap_tol)
                level.violation = violation
            if stops or done == blocks:
                break
            block_tol = level.block_tol_ratio * violation
            if self.solves_in_float64:
                coarse = not (self.on_simplex or _reaches_hand_over(level, violation, gap))
                block_tol = min(0.3 * _hand_over_tols(level)[1], block_tol) if coarse else KKT_TOL_ROUND_OFF
            if gap <= gap_tol and np.isfinite(kkt_tol):
                block_tol = max(block_tol, 0.3 * kkt_tol)
            limit = self._block_updates(n)
            if max_updates is not None:
                limit = min(limit, max_updates - updates)
            moved = level.solve_block(block_tol, limit)
            updates += moved
            if moved == 0 or updates == max_updates:
                stops = True  # nothing can be moved at this precision, or no more updates are allowed
                break
            if moved >= limit:
                level.slide()  # pair updates crawl where more variables are free than the matrix has rank
        return done, updates, violation, gap, stops

    def _block_updates(self, n: int) -> int:
        """Return the pair updates that one block of a level of n variables may take."""
        if self.finishes_simplex:
            return self.crawling_updates * n
        if n <= MAX_N_FREE_BLOCKS:
            return min(MAX_UPDATES_PER_BLOCK, CRAWLING_UPDATES * max(n, 100))
        return max(MAX_UPDATES_PER_BLOCK, n // VARIABLES_PER_UPDATE)

    def should_stop(self, level: Level, violation: float, gap: float, kkt_tol: float, gap_tol: float) -> bool:
        """Whether a level meets its tolerances, or a refinement is the faster way from here."""
        crawled = level.updates // self.crawling_updates // level.problem.n
        crawls = self.hands_over(level) and crawled > 0 and gap <= MAX_GAP_CRAWLING
        crawls = crawls and (crawled > 1 or self.has_few_violators(level))
        near = self.solves_in_float64 and not self.on_simplex and _reaches_hand_over(level, violation, gap)
        has_many_free = near and level.free_count() > MAX_FREE_FLOAT64_BOX
        if _meets_tols(violation, gap, kkt_tol, gap_tol) or crawls or has_many_free:
            return True
        # A violation below the error of the gradient says nothing. An optimum of 0 has no relative gap to stop at.
        return (violation <= MIN_KKT_FLOAT32 and violation <= level.error_bound()) or level.has_lost(violation, gap)

    def has_few_violators(self, level: Level) -> bool:
        """Whether few variables at bounds violate their KKT condition, compared with the free variables."""
        if not self.hands_over(level):
            return True
        free = 0 if self.on_simplex else level.free_count()
        # A refinement over few free variables is fast; each violator costs it a step.
        few = MAX_NEARLY_FREE if free <= MAX_FREE_FLOAT64_BOX else MAX_VIOLATORS_PER_FREE * free
        return level.violator_count() <= few

    def hands_over(self, level: Level, stuck: bool = False) -> bool:
        """Whether a refinement follows this level.

        Parameters
        ----------
        level : Level
        stuck : bool
            Whether pair updates no longer make progress.
        """
        if not self.hand_over or self.workspace.n <= MAX_N_REFINED:
            return self.hand_over
        stuck |= level.updates >= CRAWLING_UPDATES * level.problem.n
        return (stuck or (self.gap_tol or 0.0) < MIN_GAP_FLOAT32) and level.free_count() <= MAX_FREE_HAND_OVER

    def target_tols(self, level: Level) -> tuple[float, float]:
        """Return the relative gap and the KKT violation at which a level stops."""
        if not self.workspace.psd.is_psd:
            return np.inf, self.kkt_tol or MIN_KKT_FLOAT32  # the gap of an indefinite Q bounds nothing
        if self.solves_in_float64:
            return np.inf, KKT_TOL_ROUND_OFF
        if self.hands_over(level):
            # On a simplex without upper bounds only the support set has to be found: the gap says how near it is.
            return (HAND_OVER_GAP_SIMPLEX, np.inf) if self.workspace.kind is Kind.SIMPLEX else _hand_over_tols(level)
        return self.gap_tol or MIN_GAP_FLOAT32, self.kkt_tol or np.inf

    def level_of(self, state: WorkingSetState) -> Level:
        """Return the level of a state: the current one, or one made from the state's anchor by replaying its blocks."""
        if self.level is None or self.at != (state.depth, state.single, state.blocks):
            part, inside = self.workspace, np.arange(self.workspace.n)
            if state.depth:
                part, inside = restrict(part, state.order[: part.gram.n >> 2 * state.depth])
            alpha = seed(part, state.anchor[inside])
            self.level = Level(part, alpha, np.float32 if state.single else np.float64, alone=not len(state.order))
            self.inside = inside
            if state.replay:
                self.advance(self.level, state, state.replay)
        self.at = None  # until the step is complete it belongs to no state
        return self.level

    def expanded(self, state: WorkingSetState, level: Level) -> NDArray:
        """Return α of the whole problem, 0 outside of the level."""
        if not state.depth:
            return np.array(level.alpha)
        alpha = np.zeros(self.workspace.n)
        alpha[self.inside] = level.alpha
        return alpha


def _hand_over_tols(level: Level) -> tuple[float, float]:
    """Return the gap and the violation from which a refinement is faster than pair updates."""
    gap_tol, kkt_tol = HAND_OVER_TOLS_BLOCKS if level.points is None else HAND_OVER_TOLS_ROWS
    return gap_tol, kkt_tol * level.max_own_change


def _reaches_hand_over(level: Level, violation: float, gap: float) -> bool:
    """Whether a level meets `_hand_over_tols`."""
    gap_tol, kkt_tol = _hand_over_tols(level)
    return _meets_tols(violation, gap, kkt_tol, gap_tol)


def _meets_tols(violation: float, gap: float, kkt_tol: float, gap_tol: float) -> bool:
    """Whether both tolerances are met, or the gap is a hundredth of its tolerance: the violation is irrelevant then."""
    gap_suffices = np.isfinite(gap_tol) and gap <= 0.01 * gap_tol
    return bool(gap <= gap_tol and (violation <= kkt_tol or gap_suffices))
