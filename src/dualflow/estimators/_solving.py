"""The solves of one fit, one after another or side by side: what each may take, and what ends them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs

from .._settled import Settled
from .._solve import Progress, check_limits, solve
from .._together import SettledPairs
from ..core.clock import Interrupt, interruptible
from ..core.problem import DualProblem
from ..core.solution import Solution, Status
from ..core.threads import ONE_THREAD, Crew
from ..exceptions import ProblemError
from ..quantum.runs.fit_part import part_of_a_fit
from ..solvers import Solver
from ._arguments import ignored, limits, warn_of_ignored
from ._telling import Teller

__all__ = ["Solving", "at_once", "jobs_of"]

#: A part of the time, in seconds, that a pause of the interpreter outlasts (it collects garbage), and what a solve may
#: take instead, if there is so much left.
BRIEF, PATIENCE = 0.01, 1.0
#: Seconds between two looks whether Ctrl-C has come, where a wait for a thread cannot be interrupted.
PATIENT = 0.2


def at_once(model: Any, settled: Any) -> Sequence[Any] | None:
    """What problems come to by compiled calls alone; None where they take more, or there is a clock to look at, other
    threads to help, or something to tell; the model's limits are checked. A third of what a small fit takes goes into
    all that `Solving` minds."""
    if model.time_limit is not None or model.verbose or ignored(model):
        return None
    units = getattr(settled, "units", ())  # asking for threads takes a tenth of what a small fit does
    if len(units) > 1 and jobs_of(getattr(model, "n_jobs", None)) > 1:
        return None
    return settled.at_once()


class Solving:
    """Solve problems within one time limit, as many as there are seeds, but for those that are ``settled``.

    After Ctrl-C the remaining ones get one step each, and say that they were interrupted; a second Ctrl-C is an error,
    as it is between two solves, and leaves the model as it was. Side by side, the first reaches all that are at work.

    Parameters
    ----------
    model : BatchMachine
        Whose parameters say how.
    pose : callable
        The problem of a number.
    seeds : sequence of int
    engine : Solver
    settled : sequence of Settled or None
        What a number came to without a run.
    """

    def __init__(
        self,
        model: Any,
        pose: Callable[[int], DualProblem],
        seeds: Sequence[int],
        engine: Solver[Any, Any],
        settled: Sequence[Settled | Solution | None],
    ) -> None:
        check_limits(model.tol, model.max_steps, model.time_limit)
        warn_of_ignored(model)
        self.model, self.pose, self.seeds, self.settled = model, pose, seeds, settled
        self.engine, self.max_steps = limits(model, engine)
        self.teller = Teller(type(model).__name__, len(seeds)) if model.verbose else None
        again = model.warm_start and model.__sklearn_is_fitted__()
        self.earlier: Sequence[Solution] = model.solutions_ if again else []
        self.callback: Callable[[Progress], bool | None] | None = model.callback
        self.started = time.monotonic()
        # Circuits share a device, a budget and a journal, which has the order of the pairs.
        # And asking takes a tenth of what a small fit does.
        jobs = 1 if engine.quantum or len(seeds) == 1 else jobs_of(getattr(model, "n_jobs", None))
        single = [range(k, k + 1) for k in range(len(seeds))]
        self.units = settled.units if isinstance(settled, SettledPairs) else single
        self.jobs = min(jobs, len(self.units))
        self.found: dict[int, Solution | Settled] = {}
        self.interrupted = False
        # Side by side only.
        self.lock, self.begun = threading.Lock(), 0
        self.interrupts, self.own = [Interrupt() for _ in range(self.jobs)], threading.local()
        self.error: BaseException | None = None

    def run(self) -> list[Solution | Settled]:
        """What they came to, in order."""
        with nullcontext() if self.teller is None else self.teller:
            self.run_all()
        solutions = [self.found[k] for k in range(len(self.seeds))]
        runs = [solution for solution in solutions if isinstance(solution, Solution)]
        self.model._warn_unless_optimal(runs, len(solutions))
        return solutions

    def run_all(self) -> None:
        """Solve them, in this thread or in several."""
        if self.jobs == 1:
            for k in range(len(self.seeds)):
                self.found[k] = self.one(k, self.interrupted)
        else:
            self.side_by_side()

    def share_of(self) -> tuple[float | None, float]:
        """Seconds the next solve may take, and those left for all."""
        limit, waiting = self.model.time_limit, len(self.seeds) - len(self.found)
        if limit is None:
            return None, 1.0
        left = limit - (time.monotonic() - self.started)
        share = max(left, 1e-9) * min(self.jobs, waiting) / waiting
        return (min(PATIENCE, max(left, 1e-9)) if share < BRIEF else share), left

    def one(self, k: int, interrupted: bool) -> Solution | Settled:
        """What a number comes to, when Ctrl-C has come before or not."""
        if self.teller is None:
            return self.one_untold(k, interrupted, self.callback)
        found = self.one_untold(k, interrupted, self.teller.of(k, self.callback))
        self.teller.finished(found)
        return found

    def one_untold(
        self, k: int, interrupted: bool, callback: Callable[[Progress], bool | None] | None
    ) -> Solution | Settled:
        """The same, and nobody is told."""
        model, came_here, (share, left) = self.model, False, self.share_of()
        try:
            found = self.settled[k] if left > 0 and not interrupted else None
        except KeyboardInterrupt:
            found, came_here, interrupted = None, True, True
            self.interrupt()
        if found is not None:
            return found
        before = self.earlier[k] if len(self.earlier) == len(self.seeds) else None
        refine: bool | str = "early" if model.refine and not interrupted else False
        with part_of_a_fit(k):
            problem = self.pose(k)
            solution = solve(
                problem,
                self.engine,
                refine=refine,
                tol=model.tol,
                max_steps=1 if interrupted else self.max_steps,
                time_limit=share,
                random_state=self.seeds[k],
                callback=callback,
                warm=before.alpha if before is not None and before.problem.n == problem.n else None,
            )
        model._check_solution(solution)
        if solution.ended is Status.INTERRUPTED:
            if interrupted:
                raise KeyboardInterrupt
            self.interrupt()
        elif came_here or (interrupted and solution.ended is Status.STEP_LIMIT):
            solution = replace(solution, ended=Status.INTERRUPTED, raw_ended=Status.INTERRUPTED)
        return solution

    # --- side by side ----------------------------------------------------------------------------

    def side_by_side(self) -> None:
        """All of them in threads; this one waits, for Ctrl-C comes to it."""
        if self.callback is not None:
            self.callback = _one_at_a_time(self.callback)
        crew, handling, interrupts = Crew(), np.geterr(), iter(self.interrupts)
        with ONE_THREAD:
            try:
                all_there = crew.start(lambda: self.work(next(interrupts), handling), self.jobs)
            except KeyboardInterrupt:
                self.interrupt()
                all_there = False
            if not all_there:  # nobody may be
                self.work(Interrupt(), handling)
            while True:
                try:
                    while not (self.is_done() and crew.rests(PATIENT)):
                        crew.rests(PATIENT)
                    break
                except KeyboardInterrupt as again:
                    if self.interrupted:
                        self.fail(again)
                    else:
                        self.interrupt()
            crew.finish()
        if self.error is not None:
            raise self.error

    def is_done(self) -> bool:
        """Whether there is nothing to begin."""
        return self.error is not None or self.begun == len(self.units)

    def work(self, interrupt: Interrupt, handling: Any) -> None:
        """Take the next number and solve it, until there is none, or an error."""
        with ExitStack() as stack:
            for context in (np.errstate(**handling), ONE_THREAD, interruptible(interrupt)):
                stack.enter_context(context)
            self.own.interrupt, mine = interrupt, deque[int]()
            try:
                while (taken := self.next_one(interrupt, mine)) is not None:
                    self.found[taken[0]] = self.one_again(*taken)
            except BaseException as error:
                self.fail(error)

    def one_again(self, k: int, interrupted: bool) -> Solution | Settled:
        """`one`, from the beginning where the first Ctrl-C came before its run."""
        try:
            return self.one(k, interrupted)
        except KeyboardInterrupt:
            if interrupted or not self.interrupted:
                raise
            return self.one(k, True)

    def next_one(self, interrupt: Interrupt, mine: deque[int]) -> tuple[int, bool] | None:
        """The next number of a thread's unit, or of one that nobody has begun, and whether Ctrl-C has come."""
        with self.lock:
            interrupt.pending = False
            if self.error is not None or not (mine or self.begun < len(self.units)):
                return None
            if not mine:
                mine.extend(self.units[self.begun])
                self.begun += 1
            return mine.popleft(), self.interrupted

    def interrupt(self) -> None:
        """Ctrl-C: for all that are at work, if it has not come before."""
        with self.lock:
            if not self.interrupted:
                self.interrupted = True
                self._tell_all()

    def fail(self, error: BaseException) -> None:
        """What is to be raised when all have ended, which they do soon."""
        with self.lock:
            self.error = self.error or error
            self._tell_all()

    def _tell_all(self) -> None:
        own = getattr(self.own, "interrupt", None)
        for each in self.interrupts:
            each.pending = each is not own


def _one_at_a_time(callback: Callable[[Progress], bool | None]) -> Callable[[Progress], bool | None]:
    lock = threading.Lock()

    def told(progress: Progress) -> bool | None:
        with lock:
            return callback(progress)

    return told


def jobs_of(n_jobs: int | None) -> int:
    """Threads, of what scikit-learn's ``n_jobs`` says; `ProblemError` if it is no such number."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ProblemError(f"n_jobs={n_jobs!r} must be a whole number other than 0, or None; -1 is all processors")
    if n_jobs is None:
        return int(effective_n_jobs(None))  # what a context of joblib says
    # `effective_n_jobs` is about processes, of which a worker of multiprocessing starts none.
    return int(n_jobs) if n_jobs > 0 else max(1, cpu_count() + 1 + int(n_jobs))
