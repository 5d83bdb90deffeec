"""The rounds of a cascade: survivors are solved together, every part holds its rows against them, invaders join.

It ends when the bound of all points, reduced from the parts' shares, is within the tolerance.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._solve import solve
from ..core.bounds import gaps
from ..core.certificate import Certificate, certify
from ..core.problem import DualProblem
from ..core.solution import Status
from ..core.values import immutable
from .bound import Window, reduced
from .engines import Engine
from .model import Model
from .tasks import Broadcast, Found, Survivors, begin, fetch, kind_of, sweep

__all__ = ["Cascade", "Ended", "PairState", "Round"]

#: The part of the tolerance that a round's own solve may leave, and the part that points may add which violate a
#: condition by too little to be fetched.
OWN, LEFT = 0.25, 0.25
#: Tolerance of the parts' own solves: what they miss invades later.
PARTS_TOL = 1e-3
#: Tolerance from which a round's solve is refined, and the least that one is asked for.
REFINE_FROM, LEAST_TOL = 1e-5, 1e-14
#: Half the width of the window of multipliers for which knots are sent, at first and at least, in units of the margin;
#: and how many times as wide as the multiplier was off it is.
FIRST_WIDTH, LEAST_WIDTH, WIDER = 0.5, 1e-3, 4.0


@dataclass(frozen=True)
class Round:
    """What a round of a cascade came to.

    Attributes
    ----------
    pair : int
        Which pair of classes it is of.
    step : int
        Its number, from 1.
    points : int
        That were solved together.
    survivors : int
        Of them that have weight.
    invaders, violators : int
        Points that join for the next round, and all that violate a condition by more than the tolerance lets them.
    objective, lower_bound, relative_gap : float
        Certified, over all points of all parts.
    sent, received : int
        Bytes of arrays that went to parts, once a process for what all of them need, and that came back.
    wall_time_s : float
        Since the fit began.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import CascadeSVC
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> rounds = CascadeSVC(partitions=3, random_state=0).fit(X, X[:, 0] > 0).rounds_
    >>> rounds[-1].relative_gap <= 1e-3, rounds[-1].points >= rounds[-1].survivors
    (True, True)
    """

    pair: int
    step: int
    points: int
    survivors: int
    invaders: int
    violators: int
    objective: float
    lower_bound: float
    relative_gap: float
    sent: int
    received: int
    wall_time_s: float


@dataclass(frozen=True)
class PairState:
    """Where a pair's cascade is, as a checkpoint has it: which points are solved together next, from which
    multipliers; all else is read from the parts again. ``closed`` says that there is no next."""

    part: NDArray
    row: NDArray
    alpha: NDArray
    steps: int
    width: float
    own_tol: float
    closed: bool


@dataclass(frozen=True)
class Ended:
    """What a pair's cascade came to: the survivors, their weights in the decision function, the certificate over all
    points, and how it ended."""

    survivors: Survivors
    coefficients: NDArray
    certificate: Certificate
    status: Status
    steps: int


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
    most : int
        Invaders of a part in a round at most.
    max_steps : int
        Rounds at most.
    started : float
        When the fit began, by `time.monotonic`.
    deadline : float, optional
        `time.monotonic` from which no round begins but the first.
    told : callable
        Is given each `Round`; a true answer ends the cascade.
    save : callable
        Is given the `PairState` after each round.
    """

    engine: Engine
    model: Model
    pair: int
    parts: int
    mass: float
    tol: float
    most: int
    max_steps: int
    started: float
    deadline: float | None
    told: Callable[[Round], Any]
    save: Callable[[PairState], None]

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
        except KeyboardInterrupt:
            if best is None:
                raise
            return replace(best, status=Status.INTERRUPTED)
        return best

    def _begun(self) -> tuple[PairState, Survivors]:
        """The survivors of the parts' own problems; what is feasible in each is feasible in all together."""
        tol = max(PARTS_TOL, OWN * self.tol)
        pool = Survivors.joined(self.engine.run(begin, [None] * self.parts, (self.model, tol)))
        return self._state(pool, 0, FIRST_WIDTH, OWN * self.tol, False), pool

    def _fetched(self, state: PairState) -> Survivors:
        own = [(state.row[mine], state.alpha[mine]) for mine in self._by_part(state.part)]
        return Survivors.joined(self.engine.run(fetch, own, self.model))

    def _by_part(self, part: NDArray) -> list[NDArray]:
        """Places of each part's rows, which are sorted by part."""
        ends = np.searchsorted(part, np.arange(self.parts + 1))
        return [np.arange(a, b) for a, b in zip(ends[:-1], ends[1:], strict=True)]

    @staticmethod
    def _state(pool: Survivors, steps: int, width: float, own_tol: float, closed: bool) -> PairState:
        return PairState(pool.part, pool.row, pool.alpha, steps, width, own_tol, closed)

    def _round(self, state: PairState, pool: Survivors) -> tuple[Ended, PairState, Survivors]:
        """Solve, unless that was done, and hold all parts against what came of it."""
        sent, received, model = self.engine.sent, self.engine.received, self.model
        problem = model.pose(pool.X, pool.sign, pool.weight)
        certificate, status = self._solved(problem, pool, state)
        pool = replace(pool, alpha=np.array(certificate.alpha))
        nu = 0.0 if certificate.multiplier is None else certificate.multiplier
        low, high = certificate.multiplier_interval or (0.0, 0.0)
        window = (low - state.width, high + state.width)
        heavy = np.flatnonzero(pool.alpha > 0)
        shared = Broadcast(
            model,
            pool.X[heavy],
            pool.sign[heavy] * pool.alpha[heavy],
            nu,
            window,
            LEFT * self.tol * abs(certificate.objective) / self.mass,
            self.most,
        )
        own = [(pool.row[mine], pool.alpha[mine]) for mine in self._by_part(pool.part)]
        found: list[Found] = self.engine.run(sweep, own, shared)
        whole, inside = self._certified(problem, certificate, found, window)
        invaders = Survivors.joined([one.invaders for one in found])
        steps = state.steps + (not state.closed)
        own_tol = state.own_tol if len(invaders) else 0.1 * state.own_tol
        late = self.deadline is not None and time.monotonic() >= self.deadline
        if whole.within(self.tol):
            status = Status.OPTIMAL
        elif status is Status.INTERRUPTED:
            raise KeyboardInterrupt
        elif late:
            status = Status.TIME_LIMIT
        elif not len(invaders) and (own_tol < LEAST_TOL or status is not Status.OPTIMAL):
            status = Status.FINISHED  # nobody is left to join, and they themselves come no nearer
        elif steps >= self.max_steps:
            status = Status.STEP_LIMIT
        else:
            status = Status.STOPPED  # unless it goes on
        row = Round(
            self.pair,
            steps,
            len(pool),
            len(heavy),
            len(invaders),
            sum(one.violators for one in found),
            whole.objective,
            float(whole.lower_bound),  # type: ignore[arg-type]
            float(whole.relative_gap),  # type: ignore[arg-type]
            self.engine.sent - sent,
            self.engine.received - received,
            time.monotonic() - self.started,
        )
        closed = bool(self.told(row)) or status is not Status.STOPPED
        coefficients = problem.reading.coefficients(problem, pool.alpha, certificate.quadratic, whole.multiplier)
        ended = Ended(pool.take(heavy), coefficients[heavy], whole, status, steps)
        if not closed:
            off = self._off(whole.multiplier_interval, (low, high), problem, certificate)
            width = max(LEAST_WIDTH, WIDER * (off if inside else 2.0 * state.width))
            pool = self._joined(pool, found, invaders)
            state = self._state(pool, steps, width, own_tol, False)
        else:
            # Limits and callbacks end a run, and not what a checkpoint resumes.
            done = status in (Status.OPTIMAL, Status.FINISHED)
            joined = pool if done else self._joined(pool, found, invaders)
            state = self._state(joined, steps, state.width, own_tol, done)
            self.save(state)
            return ended, replace(state, closed=True), pool
        self.save(state)
        return ended, state, pool

    def _solved(self, problem: DualProblem, pool: Survivors, state: PairState) -> tuple[Certificate, Status]:
        """The pool's problem solved on its own, from the multipliers it has."""
        if state.closed:
            return certify(problem, pool.alpha), Status.OPTIMAL
        left = None if self.deadline is None else max(1e-3, self.deadline - time.monotonic())
        solution = solve(
            problem,
            tol=state.own_tol,
            refine="early" if state.own_tol < REFINE_FROM else False,
            warm=pool.alpha if state.steps else None,
            time_limit=left,
        )
        if solution.ended is Status.INTERRUPTED:
            raise KeyboardInterrupt
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
    ) -> tuple[Certificate, bool]:
        """The certificate over all points, and whether no multiplier gives a better bound."""
        shares = [one.share for one in found]
        bound, interval, inside = reduced(shares, window, own.quadratic, kind_of(self.model))
        gap, relative = gaps(own.objective, bound)
        if interval is not None and problem.gram.center is not None and problem.gram.is_translatable:
            # The points are less their centre here, which moves the multiplier.
            moved = problem.scale * problem.gram.constant(problem.reading.coefficients(problem, own.alpha, 0.0))
            interval = (interval[0] + moved, interval[1] + moved)
        bias, bias_interval = problem.reading.bias(problem, own.alpha, own.quadratic, interval)
        whole = replace(
            own,
            alpha=immutable(own.alpha[own.alpha > 0]),
            lower_bound=bound,
            gap=gap,
            relative_gap=relative,
            multiplier=None if interval is None else 0.5 * (interval[0] + interval[1]),
            multiplier_interval=interval,
            bias=bias,
            bias_interval=bias_interval,
        )
        return whole, inside

    def _off(self, whole: Window | None, own: Window, problem: DualProblem, certificate: Certificate) -> float:
        """How far the multipliers of all points are from those of the pool alone."""
        if whole is None:
            return 0.0
        moved = 0.0
        if problem.gram.center is not None and problem.gram.is_translatable:
            weights = problem.reading.coefficients(problem, certificate.alpha, 0.0)
            moved = problem.scale * problem.gram.constant(weights)
        return max(abs(a - moved - b) for a, b in zip(whole, own, strict=True))
