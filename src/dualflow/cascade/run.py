"""The rounds of a cascade: survivors are solved together, every part holds its rows against them, invaders join.

It ends when the bound of all points, reduced from the parts' shares, is within the tolerance.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import gaps
from ..core.certificate import Certificate, certify
from ..core.problem import DualProblem
from ..core.runtime.arrays import immutable
from ..core.runtime.clock import OutOfTime
from ..core.solution import Status
from ..driver.solve import solve
from ..exceptions import ProblemError
from .engines import Engine
from .model import Model, Window, reduced
from .records import Ended, PairState, Round
from .tasks import Broadcast, Found, Survivors, begin, fetch, kind_of, squares_of, sweep

__all__ = ["Cascade"]

#: What a negative gap, or a row that is not what it was, says.
CHANGED = "X: a part changed between two reads; parts must not change while they are fitted"

#: The part of the tolerance that a round's own solve may leave, and the part that points may add which violate a
#: condition by too little to be fetched.
OWN, LEFT = 0.25, 0.25
#: Tolerance of the parts' own solves: what they miss invades later.
PARTS_TOL = 1e-3
#: Tolerance from which a round's solve is refined, and the least that one is asked for.
REFINE_FROM, LEAST_TOL = 1e-5, 1e-14
#: Half the width of the window of multipliers for which knots are sent, at first and at least, in units of the margin;
#: and how many times as wide as the multiplier was off it is.
FIRST_WIDTH, LEAST_WIDTH, WIDER = 0.1, 1e-3, 4.0
#: Invaders of all parts in a round at most, as a part of the survivors: those left out are not as bad, and often are
#: inside when the worst have joined. And what a part may send in any case.
INVADERS, AT_LEAST = 0.5, 64


@dataclass
class Cascade:
    """The cascade of a pair of classes.

    Parameters
    ----------
    engine : Engine
    model : Model
    pair : int
        Its number.
    parts : int
        How many there are.
    mass : float
        What bounds the multipliers' sum over all points.
    tol : float
        Relative gap at which it ends.
    most : int, optional
        Invaders of a part in a round at most.
    max_steps : int
        Rounds at most.
    started : float
        When the fit began, by `time.monotonic`.
    deadline : float, optional
        `time.monotonic` from which no round begins but the first; what ends a round is the clock of the fit.
    told : callable
        Is given each `Round`; a true answer ends the cascade.
    save : callable
        Is given the `PairState` after each round.
    keeps : bool
        Whether Ctrl-C ends the cascade with the best that was certified, as the end of the time does.
    """

    engine: Engine
    model: Model
    pair: int
    parts: int
    mass: float
    tol: float
    most: int | None
    max_steps: int
    started: float
    deadline: float | None
    told: Callable[[Round], Any]
    save: Callable[[PairState], None]
    keeps: bool = False

    def run(self, state: PairState | None = None) -> Ended:
        """Go on from a state, or from the parts' own solves, until something ends it."""
        best: Ended | None = None
        try:
            state, pool = self._begun() if state is None else (state, self._fetched(state))
            while best is None or not state.closed:
                ended, state, pool = self._round(state, pool)
                if best is None or ended.certificate.gap <= best.certificate.gap:  # type: ignore[operator]
                    best = ended
                best = replace(best, status=ended.status, steps=ended.steps)
        except (KeyboardInterrupt, OutOfTime) as end:
            late = isinstance(end, OutOfTime)
            if best is None or not (late or self.keeps):
                raise
            return replace(best, status=Status.TIME_LIMIT if late else Status.INTERRUPTED)
        return best

    def _begun(self) -> tuple[PairState, Survivors]:
        """The survivors of the parts' own problems; what is feasible in each is feasible in all together."""
        tol = max(PARTS_TOL, OWN * self.tol)
        pool = Survivors.joined(self.engine.run(begin, [None] * self.parts, (self.model, tol)))
        if self.model.on_simplex and (total := float(pool.alpha.sum())) > 0:
            pool = replace(pool, alpha=pool.alpha / total)
        return PairState(pool.part, pool.row, pool.alpha, 0, FIRST_WIDTH, OWN * self.tol, False), pool

    def _fetched(self, state: PairState) -> Survivors:
        own = [(state.row[mine], state.alpha[mine]) for mine in self._by_part(state.part)]
        return Survivors.joined(self.engine.run(fetch, own, self.model))

    def _by_part(self, part: NDArray) -> list[NDArray]:
        """Places of each part's rows, which are sorted by part."""
        ends = np.searchsorted(part, np.arange(self.parts + 1))
        return [np.arange(a, b) for a, b in itertools.pairwise(ends)]

    def _round(self, state: PairState, pool: Survivors) -> tuple[Ended, PairState, Survivors]:
        """Solve, unless that was done, and hold all parts against what came of it."""
        before = self.engine.sent, self.engine.received
        problem = self.model.pose(pool.X, pool.sign, pool.weight)
        own, status = self._solved(problem, pool, state)
        pool = replace(pool, alpha=np.array(own.alpha))
        heavy = np.flatnonzero(pool.alpha > 0)
        low, high = own.multiplier_interval or (0.0, 0.0)
        window = (low - state.width, high + state.width)
        negligible = LEFT * self.tol * abs(own.objective) / self.mass
        coefficients = pool.sign[heavy] * pool.alpha[heavy]
        nu = own.multiplier or 0.0
        most = max(AT_LEAST, int(INVADERS * len(heavy) / self.parts))
        if self.most is not None:
            most = min(most, self.most)
        told = Broadcast(self.model, pool.X[heavy], coefficients, nu, window, negligible, most)
        mine = [(pool.row[J], pool.alpha[J]) for J in self._by_part(pool.part)]
        found: list[Found] = self.engine.run(sweep, mine, told)
        for number, (J, one) in enumerate(zip(self._by_part(pool.part), found, strict=True)):
            if not np.allclose(squares_of(pool.X[J]), one.squares, rtol=1e-12, atol=0.0):
                raise ProblemError(f"{CHANGED}: part {number} gives other rows now than before")
        whole, off = self._certified(problem, own, found, window)
        invaders = Survivors.joined([one.invaders for one in found])
        steps = state.steps + (not state.closed)
        # Where nobody invades, what is missing is in the survivors' own solve.
        own_tol = state.own_tol if len(invaders) else 0.1 * state.own_tol
        alone = not len(invaders) and (own_tol < LEAST_TOL or status is not Status.OPTIMAL)
        ended = self._standing(whole, steps, alone)
        violators = sum(one.violators for one in found)
        row = self._row(steps, pool, heavy, invaders, violators, whole, before)
        told_to_stop = bool(self.told(row))
        weights = problem.reading.coefficients(problem, pool.alpha, own.quadratic, whole.multiplier)
        answer = Ended(pool.take(heavy), weights[heavy], whole, ended or Status.STOPPED, steps)
        # Limits and callbacks end this run, and not what a checkpoint resumes.
        closed = ended in (Status.OPTIMAL, Status.ROUNDED, Status.FINISHED)
        if not closed:
            pool = self._joined(pool, found, invaders)
        width = max(LEAST_WIDTH, WIDER * (2.0 * state.width if off is None else off))
        state = PairState(pool.part, pool.row, pool.alpha, steps, width, own_tol, closed)
        self.save(state)
        return answer, replace(state, closed=ended is not None or told_to_stop), pool

    def _standing(self, whole: Certificate, steps: int, alone: bool) -> Status | None:
        """What ends the cascade after a round; None if it goes on. ``alone`` are survivors that nobody joins, and that
        come no nearer to their own optimum."""
        if whole.reaches(self.tol):
            return Status.OPTIMAL if whole.within(self.tol) else Status.ROUNDED
        if self.deadline is not None and time.monotonic() >= self.deadline:
            return Status.TIME_LIMIT
        if alone:
            return Status.FINISHED
        return Status.STEP_LIMIT if steps >= self.max_steps else None

    def _row(
        self,
        steps: int,
        pool: Survivors,
        heavy: NDArray,
        invaders: Survivors,
        violators: int,
        whole: Certificate,
        before: tuple[int, int],
    ) -> Round:
        """What the round came to."""
        return Round(
            self.pair,
            steps,
            len(pool),
            len(heavy),
            len(invaders),
            violators,
            whole.objective,
            float(whole.lower_bound),  # type: ignore[arg-type]
            float(whole.relative_gap),  # type: ignore[arg-type]
            self.engine.sent - before[0],
            self.engine.received - before[1],
            time.monotonic() - self.started,
        )

    def _solved(self, problem: DualProblem, pool: Survivors, state: PairState) -> tuple[Certificate, Status]:
        """The pool's problem solved on its own, from the multipliers it has."""
        if state.closed:
            return certify(problem, pool.alpha), Status.OPTIMAL
        left = None if self.deadline is None else max(1e-3, self.deadline - time.monotonic())
        solution = solve(
            problem,
            tol=state.own_tol,
            refine="early" if state.own_tol < REFINE_FROM else False,
            # The parts' own answers are a feasible start, but a worse one than none, unless the time may be short.
            warm=pool.alpha if state.steps or self.deadline is not None else None,
            time_limit=left,
        )
        return solution.certificate, solution.status

    @staticmethod
    def _joined(pool: Survivors, found: list[Found], invaders: Survivors) -> Survivors:
        """Who is solved together next: without those that lie idle, and with those that invade."""
        stays = np.ones(len(pool), dtype=bool)
        for number, one in enumerate(found):
            stays[(pool.part == number) & np.isin(pool.row, one.idle)] = False
        return Survivors.joined([pool.take(np.flatnonzero(stays)), invaders])

    def _certified(
        self, problem: DualProblem, own: Certificate, found: list[Found], window: Window
    ) -> tuple[Certificate, float | None]:
        """The certificate over all points; and how far its multipliers are from those of the pool alone, None if some
        outside of the window may give a better bound."""
        shares = [one.share for one in found]
        bound, interval, inside = reduced(shares, window, own.quadratic, kind_of(self.model))
        rounding = (own.rounding or 0.0) + sum(share.rounding for share in shares)
        gap, relative = gaps(own.objective, bound, rounding, CHANGED)
        off = 0.0
        if interval is not None and own.multiplier_interval is not None:
            off = max(abs(a - b) for a, b in zip(interval, own.multiplier_interval, strict=True))
            # Where the points are less their centre, that moves the multiplier.
            weights = problem.reading.coefficients(problem, own.alpha, own.quadratic)
            moved = problem.gram.constant(weights)
            interval = (interval[0] + moved, interval[1] + moved)
        bias, bias_interval = problem.reading.bias(problem, own.alpha, own.quadratic, interval)
        whole = replace(
            own,
            alpha=immutable(own.alpha[own.alpha > 0]),
            lower_bound=bound,
            gap=gap,
            relative_gap=relative,
            rounding=rounding,
            multiplier=None if interval is None else 0.5 * (interval[0] + interval[1]),
            multiplier_interval=interval,
            bias=bias,
            bias_interval=bias_interval,
        )
        return whole, off if inside else None
