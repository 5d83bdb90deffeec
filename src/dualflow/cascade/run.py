"""The rounds of a cascade for one pair of classes.

In a round the pool, the survivors and the points near them, is solved; every part compares its rows with the survivors;
invaders join the pool. The cascade ends when the bound over all points, the sum of the parts' shares, is within the
tolerance.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import MIN_PART_OF_TERMS, gaps
from ..core.certificate import Certificate
from ..core.problem import DualProblem
from ..core.reading import multiplier_of
from ..core.runtime.arrays import immutable
from ..core.runtime.clock import OutOfTime
from ..core.solution import Status
from .engines import PartEngine
from .exchange import Packing, Survivors
from .model import CascadeModel, Window, reduced
from .records import CascadePairResult, PairState, Round
from .tasks import CHANGED_PART, Broadcast, Found, PoolResult, PoolTask, begin, fetch, kind_of, solve_pool, sweep

#: Fraction of the tolerance that the pool's own solve may use.
POOL_TOL_FRACTION = 0.25
#: Tolerance of the first round's solve, if that is larger: its pool lacks points, so that its bound is worse anyway.
FIRST_TOL = 1e-2
#: Fraction of the tolerance that points may use whose violation is too small for them to join the pool.
UNSENT_TOL_FRACTION = 0.25
#: Relative gap of the parts' own solves; points that they miss invade later.
PARTS_TOL = 1e-3
#: Fraction of the time left that the parts' own solves may use, one after another.
PARTS_TIME_FRACTION = 0.25
#: Fraction of the time left that the first round's solve may use; the rest is for its bound.
POOL_TIME_FRACTION = 0.5
#: Smallest time limit of a solve, in seconds; the driver refuses 0.
MIN_LIMIT_S = 1e-3
#: Smallest tolerance of the pool's solve.
MIN_POOL_TOL = 1e-14
#: Half the width of the first window of multipliers for which knots are sent, in units of the margin.
INITIAL_HALF_WIDTH = 0.1
#: Smallest half width of a later window.
MIN_HALF_WIDTH = 1e-3
#: Half width of a later window, divided by the last error of the multiplier.
HALF_WIDTH_PER_ERROR = 4.0
#: Invaders of all parts in a round at most, as a fraction of the survivors. Those left out violate less, and often
#: violate no longer once the worst have joined.
MAX_INVADERS_FRACTION = 0.5
#: Invaders that a part may send in any case.
MIN_INVADERS_PER_PART = 64


@dataclass
class Cascade:
    """The cascade of one pair of classes.

    Parameters
    ----------
    engine : PartEngine
    model : CascadeModel
    pair : int
        Number of the pair.
    parts : int
        Number of parts.
    packing : Packing
    mass : float
        Upper bound of the sum of the multipliers over all points.
    tol : float
        Relative gap at which the cascade ends.
    most : int, optional
        Maximum number of invaders of a part in a round.
    max_steps : int
        Maximum number of rounds.
    started : float
        Start of the fit, by `time.monotonic`.
    deadline : float, optional
        `time.monotonic` after which no round but the first is started. A running round is ended by the clock of the
        fit.
    on_round : callable
        Called with each `Round`; a true result ends the cascade.
    save : callable
        Called with the `PairState` after each round.
    keeps : bool
        Whether Ctrl-C ends the cascade with the best certified result, as the time limit does.
    """

    engine: PartEngine
    model: CascadeModel
    pair: int
    parts: int
    packing: Packing
    mass: float
    tol: float
    most: int | None
    max_steps: int
    started: float
    deadline: float | None
    on_round: Callable[[Round], Any]
    save: Callable[[PairState], None]
    keeps: bool = False
    _best: CascadePairResult | None = field(default=None, init=False)

    def run(self, state: PairState | None = None) -> CascadePairResult:
        """Run rounds from a state, or from the parts' own solves, until the cascade ends; return the best result."""
        self._best = None
        try:
            state, pool = self._initial_pool() if state is None else (state, self._stored_pool(state))
            while self._best is None or not state.closed:
                state = self._round(state, pool)
        except (KeyboardInterrupt, OutOfTime) as end:
            late = isinstance(end, OutOfTime)
            if self._best is None or not (late or self.keeps):
                raise
            return replace(self._best, status=Status.TIME_LIMIT if late else Status.INTERRUPTED)
        return self._best

    def _initial_pool(self) -> tuple[PairState, list[Survivors]]:
        """Return the first state and pool: the survivors of the parts' own problems, which are feasible together."""
        tol = max(PARTS_TOL, POOL_TOL_FRACTION * self.tol)
        left = None if self.deadline is None else max(MIN_LIMIT_S, self.deadline - time.monotonic())
        limit = None if left is None else PARTS_TIME_FRACTION * left / self.parts
        pool: list[Survivors] = self.engine.run(begin, [None] * self.parts, (self.model, self.packing, tol, limit))
        total = sum(float(own.alpha.sum()) for own in pool)
        if self.model.on_simplex and total > 0:
            pool = [replace(own, alpha=own.alpha / total) for own in pool]
        return self._state(pool, 0, INITIAL_HALF_WIDTH, max(FIRST_TOL, POOL_TOL_FRACTION * self.tol), False), pool

    def _stored_pool(self, state: PairState) -> list[Survivors]:
        """Return the pool of a stored state, read from the parts."""
        ends = np.searchsorted(state.part, np.arange(self.parts + 1))  # they are sorted
        rows = [(state.row[a:b], state.alpha[a:b]) for a, b in itertools.pairwise(ends)]
        pool: list[Survivors] = self.engine.run(fetch, rows, (self.model, self.packing))
        return pool

    @staticmethod
    def _state(pool: list[Survivors], steps: int, width: float, own_tol: float, closed: bool) -> PairState:
        """Return the state for a pool."""
        part, row, alpha = (np.concatenate([getattr(own, name) for own in pool]) for name in ("part", "row", "alpha"))
        return PairState(part, row, alpha, steps, width, own_tol, closed)

    def _round(self, state: PairState, pool: list[Survivors]) -> PairState:
        """Solve the pool, unless the state is closed, compare all parts with its solution, and make it the next one.

        The best result has no copy of the rows that are in the next pool.
        """
        before = self.engine.sent, self.engine.received
        sent: list[Any] = [own.packed for own in pool]
        target, weight = (np.concatenate([getattr(own, name) for own in pool]) for name in ("target", "weight"))
        solved = self._solve_pool(sent, target, weight, state)
        alone = solved.certificate
        alpha = np.array(self.model.of_points(alone.alpha))
        low, high = alone.multiplier_interval or (0.0, 0.0)
        window = (low - state.width, high + state.width)
        survivors = int(np.count_nonzero(alpha))
        most = max(MIN_INVADERS_PER_PART, int(MAX_INVADERS_FRACTION * survivors / self.parts))
        message = Broadcast(
            model=self.model,
            packing=self.packing,
            weighted=np.packbits(alpha != 0),
            coefficient=self.model.weights(target, alpha)[alpha != 0],
            nu=alone.multiplier or 0.0,
            window=window,
            threshold=UNSENT_TOL_FRACTION * self.tol * abs(alone.objective) / self.mass,
            most=most if self.most is None else min(most, self.most),
        )
        found: list[Found] = self.engine.run(sweep, [own.row for own in pool], message, sent)
        ends = list(itertools.accumulate((len(own) for own in pool), initial=0))
        pool[:] = [replace(own, alpha=alpha[a:b]) for own, (a, b) in zip(pool, itertools.pairwise(ends), strict=True)]
        # A reading takes bias and weights from a problem without its points.
        problem = replace(self.model, center=None).pose(np.zeros((len(target), 1)), target, weight)  # type: ignore[type-var]
        certificate, multiplier_error = self._certify_all(problem, solved, found, window)
        invaders = sum(len(one.invaders) for one in found)
        steps = state.steps + (not state.closed)
        # Without invaders the remaining gap is that of the pool's own solve.
        own_tol = min(state.own_tol, POOL_TOL_FRACTION * self.tol) if invaders else 0.1 * state.own_tol
        is_exhausted = not invaders and (own_tol < MIN_POOL_TOL or solved.status is not Status.OPTIMAL)
        ended = self._status_after(certificate, steps, is_exhausted)
        row = self._record(steps, (len(alpha), survivors, invaders), found, certificate, before)
        stop_requested = bool(self.on_round(row))
        weights = problem.reading.coefficients(problem, alone.alpha, alone.quadratic, certificate.multiplier)
        answer = CascadePairResult(list(pool), weights, certificate, ended or Status.STOPPED, steps)
        if self._best is None or certificate.gap <= self._best.certificate.gap:  # type: ignore[operator]
            self._best = answer
        self._best = replace(self._best, status=answer.status, steps=steps)
        # Limits and callbacks end this run, but a resumed run goes on.
        closed = ended in (Status.OPTIMAL, Status.ROUNDED, Status.FINISHED)
        if not closed:
            del sent
            for k, one in enumerate(found):  # one part after another, so that there is no second copy of all
                pool[k], answer.pool[k] = pool[k].followed(one.idle, one.invaders)
        width = max(
            MIN_HALF_WIDTH, HALF_WIDTH_PER_ERROR * (2.0 * state.width if multiplier_error is None else multiplier_error)
        )
        state = self._state(pool, steps, width, own_tol, closed)
        self.save(state)
        return replace(state, closed=ended is not None or stop_requested)

    def _status_after(self, certificate: Certificate, steps: int, is_exhausted: bool) -> Status | None:
        """Return the status that ends the cascade after a round, or None.

        ``is_exhausted`` says that there are no invaders and that the pool's solve cannot be made more exact.
        """
        if certificate.reaches(self.tol):
            return Status.OPTIMAL if certificate.within(self.tol) else Status.ROUNDED
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return Status.TIME_LIMIT
        if is_exhausted:
            return Status.FINISHED
        return Status.STEP_LIMIT if steps >= self.max_steps else None

    def _record(
        self,
        steps: int,
        counts: tuple[int, int, int],
        found: list[Found],
        certificate: Certificate,
        before: tuple[int, int],
    ) -> Round:
        """Return the record of the round; ``counts`` are those of points, survivors and invaders."""
        return Round(
            self.pair,
            steps,
            *counts,
            sum(one.violators for one in found),
            certificate.objective,
            float(certificate.lower_bound),  # type: ignore[arg-type]
            float(certificate.relative_gap),  # type: ignore[arg-type]
            self.engine.sent - before[0],
            self.engine.received - before[1],
            time.monotonic() - self.started,
        )

    def _solve_pool(self, sent: list[NDArray], target: NDArray, weight: NDArray, state: PairState) -> PoolResult:
        """Return the solution of the pool's own problem, solved from its present multipliers."""
        left = None if self.deadline is None else max(MIN_LIMIT_S, self.deadline - time.monotonic())
        if left is not None and not state.steps:
            left *= POOL_TIME_FRACTION  # without the bound of the first round there is no certified model
        # The parts' own multipliers are a feasible start but slower than none; they are used if time is limited.
        warm = bool(state.steps) or self.deadline is not None
        weight = weight[:1] if len(weight) and (weight == weight[0]).all() else weight
        task = PoolTask(self.model, self.packing, target, weight, state.alpha, state.own_tol, warm, left, state.closed)
        solved: PoolResult = self.engine.once(solve_pool, task, sent)
        return solved

    def _certify_all(
        self, problem: DualProblem, solved: PoolResult, found: list[Found], window: Window
    ) -> tuple[Certificate, float | None]:
        """Return the certificate over all points, and how far its multipliers are from those of the pool alone.

        The distance is None if multipliers outside the window may give a better bound.
        """
        shares, pool_certificate = [one.share for one in found], solved.certificate
        kind, quadratic = kind_of(self.model), pool_certificate.quadratic
        bound, interval, inside = reduced(shares, window, quadratic, kind, self.model.d)
        rounding = (pool_certificate.rounding or 0.0) + sum(share.rounding for share in shares)
        objective = pool_certificate.objective
        gap, relative = gaps(objective, bound, rounding, CHANGED_PART)
        terms = 0.5 * quadratic + abs(0.5 * quadratic - objective)
        if max(abs(objective), abs(bound)) <= MIN_PART_OF_TERMS * terms:  # both are 0 up to rounding
            relative = rounding = 0.0
        multiplier_error = 0.0
        if interval is not None and pool_certificate.multiplier_interval is not None:
            multiplier_error = max(
                abs(a - b) for a, b in zip(interval, pool_certificate.multiplier_interval, strict=True)
            )
            # The kernel is of centred points; this shifts the multiplier.
            interval = (interval[0] + solved.moved, interval[1] + solved.moved)
        bias, bias_interval = problem.reading.bias(problem, pool_certificate.alpha, quadratic, interval)
        multiplier = None if interval is None else multiplier_of(interval)
        certificate = replace(
            pool_certificate,
            alpha=immutable(pool_certificate.alpha[pool_certificate.alpha > 0]),
            lower_bound=bound,
            gap=gap,
            relative_gap=relative,
            rounding=rounding,
            multiplier=multiplier,
            multiplier_interval=interval,
            bias=bias,
            bias_interval=bias_interval,
            radius=problem.reading.radius(problem, quadratic, multiplier),
        )
        return certificate, multiplier_error if inside else None
