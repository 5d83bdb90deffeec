"""Run the solves of one fit.

`Solving` runs the problems of a fit in order or in threads, within one time limit and with one rule for Ctrl-C.
`solve_one` and `solve_batch` are its shortcuts for fits without limits or reports. `ProgressReporter` prints what
``verbose`` promises. `check_arguments`, `step_limit` and `ignored_arguments` interpret the arguments that the
estimators share with scikit-learn's.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import replace
from numbers import Integral
from typing import Any, Protocol

import numpy as np
from joblib import cpu_count, effective_n_jobs

from ..core.options import Flag, Number, OneOf, Rule
from ..core.problem import DualProblem
from ..core.runtime.clock import Interrupt, interruptible
from ..core.runtime.threads import ONE_THREAD, Crew
from ..core.runtime.warn import warn_user
from ..core.solution import Solution, Status, raw_summaries
from ..direct.pairs import PairBatch, PairResult
from ..driver.solve import Progress, check_limits, solve
from ..exceptions import FitError, ProblemError
from ..quantum.runs.fit_part import fit_part_context
from ..solvers import Solver
from ._base import MIN_TIME_LEFT_S

#: Seconds between two printed lines where standard output is not a terminal: a log stays short.
LINE_INTERVAL_S = 1.0
#: Seconds between two updates of the line on a terminal: fast enough to look continuous.
LIVE_INTERVAL_S = 0.1
#: From this relative gap on, four decimals are printed.
MIN_GAP_DECIMALS = 0.1
#: In the printed line, a variable counts as a survivor if its weight is at least this share of the largest.
MIN_SURVIVOR_WEIGHT = 1e-8


class ProgressReporter:
    """Print the progress of the solves of one fit; its methods may be called from any thread.

    Parameters
    ----------
    name : str
        Class name of the model, with which each line begins.
    count : int
        Number of solves.
    """

    def __init__(self, name: str, count: int) -> None:
        from rich.console import Console

        self.name, self.count = name, count
        self.lock = threading.Lock()
        self.console = Console(highlight=False, soft_wrap=True)
        self.live = self.console.status(f"{name}: …") if self.console.is_terminal else None
        self.begun = self.printed = time.monotonic()
        self.done, self.worst = 0, 0.0

    def __enter__(self) -> ProgressReporter:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.stop()
        if error[0] is None:
            self.console.print(self._line(f"{self.done} of {self.count} solved", self.worst, None), markup=False)

    def of(self, k: int, callback: Callable[[Progress], bool | None] | None) -> Callable[[Progress], bool | None]:
        """Return a callback for solve ``k`` that prints its progress and then calls the user's ``callback``."""

        def reported(progress: Progress) -> bool | None:
            self._print(k, progress)
            return None if callback is None else callback(progress)

        return reported

    def finished(self, found: Solution | PairResult) -> None:
        """Count a solve as done, and print what its circuits found."""
        gap = found.certificate.relative_gap
        with self.lock:
            self.done += 1
            self.worst = max(self.worst, np.inf if gap is None else gap)
        for line in raw_summaries([found]):
            self.console.print(f"{self.name}: {line}", markup=False)

    def _print(self, k: int, progress: Progress) -> None:
        """Print the progress of solve ``k``, unless the last line is too recent."""
        now = time.monotonic()
        with self.lock:
            if now - self.printed < (LINE_INTERVAL_S if self.live is None else LIVE_INTERVAL_S):
                return
            self.printed = now
        where = f"solve {k + 1} of {self.count}, step {progress.step}" if self.count > 1 else f"step {progress.step}"
        size = np.abs(progress.alpha)
        survivors = int((size > MIN_SURVIVOR_WEIGHT * size.max(initial=0.0)).sum())
        text = self._line(where, progress.certificate.relative_gap, survivors)
        if self.live is None:
            self.console.print(text, markup=False)
        else:
            self.live.update(text)

    def _line(self, where: str, gap: float | None, survivors: int | None) -> str:
        """Return a line of output: where the fit is, its gap, its survivors and the seconds since its start."""
        known = "no certified gap" if gap is None or gap == np.inf else f"certified relative gap {_gap_text(gap)}"
        parts = [f"{self.name}: {where}", known]
        if survivors is not None:
            parts.append(f"{survivors} survivors")
        return ", ".join([*parts, f"{time.monotonic() - self.begun:.1f} s"])


def _gap_text(gap: float) -> str:
    """Return a gap with two digits, or with four decimals if it is large: a gap near 1 falls slowly at first."""
    return f"{gap:.4f}" if gap >= MIN_GAP_DECIMALS else f"{gap:.1e}"


#: Arguments of scikit-learn's SVMs without an effect here: name -> (default, what happens instead).
IGNORED_ARGUMENTS = {
    "shrinking": (True, "solvers here decide for themselves which points they look at"),
    "cache_size": (200, "memory follows the problem, and dualflow.release_memory() gives it back"),
}

RULES: dict[str, Rule] = {
    "max_iter": Number(at_least=-1, whole=True, note="(-1 is no limit)"),
    "shrinking": Flag(),
    "cache_size": Number(above=0, note="(in MB)"),
    "verbose": Number(at_least=0, whole=True, note="or a bool"),
}
#: How leave-one-out decision values become probabilities; "deprecated" is the default of scikit-learn 1.9.
_PROBABILITY = OneOf(words=("sigmoid", "isotonic", "venn-abers", "deprecated"), note="or a bool")


def has_step_limit(model: Any) -> bool:
    """Whether ``max_steps`` or ``max_iter`` limits the fit."""
    return model.max_steps is not None or model.max_iter != -1


def check_arguments(model: Any) -> None:
    """Raise `ProblemError` for an argument out of range. Arguments at their defaults are skipped, for speed."""
    if model.max_iter != -1:
        RULES["max_iter"].check("max_iter", model.max_iter)
        if model.max_iter == 0:
            raise ProblemError("max_iter=0 leaves no iteration; give 1 or more, or -1 for no limit")
        if model.max_steps is not None:
            raise ProblemError(
                f"max_iter={model.max_iter!r} and max_steps={model.max_steps!r} limit the same solve: give one of them"
            )
    if model.shrinking is not True:
        RULES["shrinking"].check("shrinking", model.shrinking)
    if model.cache_size != 200:
        RULES["cache_size"].check("cache_size", model.cache_size)
    if not isinstance(model.verbose, (bool, np.bool_)):
        RULES["verbose"].check("verbose", model.verbose)
    probability = getattr(model, "probability", False)
    if not isinstance(probability, (bool, np.bool_)):
        _PROBABILITY.check("probability", probability)


def ignored_arguments(model: Any) -> list[str]:
    """Return the arguments that are set and have no effect here, each with the reason."""
    return [
        f"{name}={value!r} ({why})"
        for name, (default, why) in IGNORED_ARGUMENTS.items()
        if (value := getattr(model, name, default)) != default and value != "deprecated"
    ]


def warn_of_ignored(model: Any) -> None:
    """Warn once, with all arguments that are set and have no effect."""
    if found := ignored_arguments(model):
        text = f"{type(model).__name__} takes these for scikit-learn's sake and ignores them: {'; '.join(found)}."
        warn_user(text)


def step_limit(model: Any, engine: Solver[Any, Any]) -> tuple[Solver[Any, Any], int | None]:
    """Return the solver, limited by ``max_iter`` if that is set, and the step limit for the driver."""
    return (engine, model.max_steps) if model.max_iter == -1 else engine.within(int(model.max_iter))


def refines(model: Any, engine: Solver[Any, Any]) -> bool:
    """Whether a fit refines the solver's answer; ``refine="auto"`` does, unless the solver runs circuits."""
    return not engine.quantum if isinstance(model.refine, str) else bool(model.refine)


#: Shares of the time limit below this many seconds are replaced by `LONG_SHARE_S`: a garbage collection takes longer.
MIN_SHARE_S = 0.01
#: Seconds that a solve gets instead of a share below `MIN_SHARE_S`, if the fit has as many left.
LONG_SHARE_S = 1.0
#: Seconds between two checks for Ctrl-C while the main thread waits for workers: the wait itself is uninterruptible.
POLL_S = 0.2


def _is_plain(model: Any) -> bool:
    """Whether a fit has no time limit, nothing to print, no interrupt to keep and no warning to give.

    Such a fit skips `Solving`, which takes a third of the time of a small fit.
    """
    return not (
        model.time_limit is not None or model.verbose or model.on_interrupt != "raise" or ignored_arguments(model)
    )


class Reporter(Protocol):
    """Calls a callback with a pair of classes that a batch solved, as `PairSolutions` does."""

    def report(self, k: int, result: PairResult, callback: Callable[[Progress], bool | None]) -> None: ...


def solve_batch(model: Any, batch: PairBatch, reporter: Reporter) -> Sequence[Solution | PairResult]:
    """Return the results of the leading pairs of classes that a batch solves, with a call of the callback for each.

    The rest is left to `Solving`: with a callback from the first pair that needs a run, without one all pairs if any
    needs a run, and always all pairs if several threads may share the work.
    """
    if not _is_plain(model) or (len(batch.units) > 1 and thread_count(getattr(model, "n_jobs", None)) > 1):
        return []
    if model.callback is None:
        return batch.all_pairs() or []
    found: list[Solution | PairResult] = []
    while len(found) < len(batch) and (pair := batch[len(found)]) is not None:
        reporter.report(len(found), pair, model.callback)
        found.append(pair)
    return found


def solve_one(model: Any, problem: DualProblem, engine: Solver[Any, Any], seed: int) -> Solution:
    """Return the solution of a fit that has one problem."""
    if not _is_plain(model) or model.warm_start or engine.quantum:
        return Solving(model, lambda k: problem, [seed], engine).run()[0]  # type: ignore[return-value]
    limited_engine, max_steps = step_limit(model, engine)
    refine = "early" if refines(model, engine) else False
    solution = solve(
        problem,
        limited_engine,
        refine=refine,
        tol=model.tol,
        max_steps=max_steps,
        random_state=seed,
        callback=model.callback,
    )
    if solution.direct_result is None:  # a direct result is optimal and finite
        model._check_solution(solution)
        model._warn_unless_optimal([solution], 1)
    return solution


class Solving:
    """Solve the problems of one fit within one time limit, in order or in threads.

    Ctrl-C stops all running solves and is raised. With ``on_interrupt="keep"`` it is not: each remaining solve then
    gets one step and the status INTERRUPTED, and a second Ctrl-C is raised.

    Parameters
    ----------
    model : BatchMachine
        The estimator, whose parameters set limits, refinement, callback and threads.
    pose : callable
        ``pose(k)`` returns problem k.
    seeds : sequence of int
        One seed a problem; their number is the number of problems.
    engine : Solver
    batch : PairBatch, optional
        ``batch[k]`` returns the result of problem k by a direct method, or None where problem k takes a run.
    reporter : Reporter, optional
        Calls the callback for the problems that the batch solves.
    found : sequence, optional
        The results of the first problems, which are not solved again.
    """

    def __init__(
        self,
        model: Any,
        pose: Callable[[int], DualProblem],
        seeds: Sequence[int],
        engine: Solver[Any, Any],
        batch: PairBatch | None = None,
        reporter: Reporter | None = None,
        found: Sequence[Solution | PairResult] = (),
    ) -> None:
        check_limits(model.tol, model.max_steps, model.time_limit)
        warn_of_ignored(model)
        self.model, self.pose, self.seeds = model, pose, seeds
        self.batch, self.batch_reporter = batch, reporter
        self.engine, self.max_steps = step_limit(model, engine)
        self.refines = refines(model, engine)
        self.reporter = ProgressReporter(type(model).__name__, len(seeds)) if model.verbose else None
        is_warm = model.warm_start and model.__sklearn_is_fitted__()
        self.earlier: Sequence[Solution] = model.solutions_ if is_warm else []
        self.callback: Callable[[Progress], bool | None] | None = model.callback
        # Circuits share a device, a budget and a journal, whose entries follow the order of the pairs. A single
        # problem does not ask joblib for its number of threads, which takes a tenth of a small fit.
        jobs = 1 if engine.quantum or len(seeds) == 1 else thread_count(getattr(model, "n_jobs", None))
        self.units = [range(k, k + 1) for k in range(len(seeds))] if batch is None else batch.units
        self.jobs = min(jobs, len(self.units))
        self.found: dict[int, Solution | PairResult] = dict(enumerate(found))
        self.keeps, self.interrupted = model.on_interrupt == "keep", False
        self.interrupted_index: int | None = None  # the problem that the batch was solving when Ctrl-C came
        # Used by threads only.
        self.lock, self.begun = threading.Lock(), 0
        self.interrupt = Interrupt()
        self.error: BaseException | None = None

    def run(self) -> list[Solution | PairResult]:
        """Return the results of all problems, in order."""
        with nullcontext() if self.reporter is None else self.reporter:
            if self.jobs > 1:
                self.run_threads()
            for k in range(len(self.seeds)):
                if k not in self.found:
                    self.found[k] = self.solve_index(k)
        solutions = [self.found[k] for k in range(len(self.seeds))]
        runs = [solution for solution in solutions if isinstance(solution, Solution)]
        self.model._warn_unless_optimal(runs, len(solutions))
        return solutions

    def time_share(self) -> tuple[float | None, float]:
        """Return the seconds that the next solve may take (None without a limit), and the seconds left for all."""
        left, waiting = self.model._time_left(), len(self.seeds) - len(self.found)
        if left is None:
            return None, 1.0
        share = left * min(self.jobs, waiting) / waiting
        return (min(LONG_SHARE_S, left) if share < MIN_SHARE_S else share), left

    def solve_index(self, k: int) -> Solution | PairResult:
        """Return the result of problem ``k``, and report it if the fit is verbose."""
        if self.reporter is None:
            return self.solve_unreported(k, self.callback)
        found = self.solve_unreported(k, self.reporter.of(k, self.callback))
        self.reporter.finished(found)
        return found

    def solve_unreported(self, k: int, callback: Callable[[Progress], bool | None] | None) -> Solution | PairResult:
        """Return the result of problem ``k`` without printing progress."""
        model, (share, left) = self.model, self.time_share()
        if left > MIN_TIME_LEFT_S and (found := self.batch_result(k, callback)) is not None:
            return found
        interrupted = self.interrupted
        # `aim` sets a tolerance of the solver itself, which rules out its direct method: after an interrupt the solve
        # is a run of one step.
        engine = self.engine.aim(model.tol) if interrupted else self.engine
        before = self.earlier[k] if len(self.earlier) == len(self.seeds) else None
        with fit_part_context(k):
            problem = self.pose(k)
            solution = solve(
                problem,
                engine,
                refine="early" if self.refines and not interrupted else False,
                tol=model.tol,
                max_steps=1 if interrupted else self.max_steps,
                time_limit=share,
                random_state=self.seeds[k],
                callback=callback,
                warm=before.alpha if before is not None and before.problem.n == problem.n else None,
                on_interrupt="raise" if interrupted else model.on_interrupt,
            )
        if solution.certified is None:
            cost_s, why = float(solution.extras["certificate_s"]), solution.provenance.get("device_error")
            raise FitError(
                f"time_limit={model.time_limit!r} was over before what the solver had reached of {problem.n} variables "
                f"could be certified, which alone takes about {cost_s:.2g} s{f': {why}' if why else ''}; raise it, or "
                "give fewer points",
                solution,
            )
        model._check_solution(solution)
        self.interrupted |= solution.ended is Status.INTERRUPTED
        if interrupted and (solution.ended is Status.STEP_LIMIT or k == self.interrupted_index):
            solution = replace(solution, ended=Status.INTERRUPTED, raw_ended=Status.INTERRUPTED)
        return solution

    def batch_result(self, k: int, callback: Callable[[Progress], bool | None] | None) -> Solution | PairResult | None:
        """Return the batch's result of problem ``k``, and report it; None if it has none, or an interrupt ended it."""
        if self.interrupted or self.batch is None:
            return None
        try:
            found: PairResult | None = self.batch[k]
            if found is not None and callback is not None and self.batch_reporter is not None:
                self.batch_reporter.report(k, found, callback)
            return found
        except KeyboardInterrupt as error:
            if not self.keeps:
                raise
            self.interrupted, self.interrupted_index = True, k
            return getattr(error, "solution", None)  # that of an interrupt in the callback

    # --- threads ---------------------------------------------------------------------------------

    def run_threads(self) -> None:
        """Solve the problems in threads until all are solved, or an error or interrupt stops them.

        The main thread only waits, because Python delivers Ctrl-C to it.
        """
        if self.callback is not None:
            self.callback = _one_at_a_time(self.callback)
        crew, handling, context = Crew(), np.geterr(), copy_context()
        with ONE_THREAD:
            try:
                if not crew.start(lambda: context.copy().run(self.work, handling), self.jobs):
                    self.work(handling)  # no thread could be started
                while not (self.is_done() and crew.is_idle(POLL_S)):
                    crew.is_idle(POLL_S)
            except BaseException as error:
                self.fail(error)
            crew.finish()
        if self.error is not None and not (self.keeps and isinstance(self.error, KeyboardInterrupt)):
            raise self.error
        self.interrupted |= self.error is not None

    def is_done(self) -> bool:
        """Whether no further group may begin."""
        return self.error is not None or self.interrupted or self.begun == len(self.units)

    def work(self, handling: Any) -> None:
        """Solve group after group of problems until `is_done`; each thread runs this."""
        with np.errstate(**handling), ONE_THREAD, interruptible(self.interrupt):
            try:
                while (group := self.next_group()) is not None:
                    for k in group:
                        self.found[k] = self.solve_index(k)
                        if self.interrupted:
                            self.interrupt.pending = True
                        if self.is_done():
                            break
            except BaseException as error:
                self.fail(error)

    def next_group(self) -> range | None:
        """Return the indices of the next group of problems, or None if there is none."""
        with self.lock:
            if self.is_done():
                return None
            self.begun += 1
            return self.units[self.begun - 1]

    def fail(self, error: BaseException) -> None:
        """Keep the first error, to be raised when all threads have ended, and interrupt their solves."""
        with self.lock:
            self.error = self.error or error
            self.interrupt.pending = True


def _one_at_a_time(callback: Callable[[Progress], bool | None]) -> Callable[[Progress], bool | None]:
    """Return the callback behind a lock, for callers in several threads."""
    lock = threading.Lock()

    def reported(progress: Progress) -> bool | None:
        with lock:
            return callback(progress)

    return reported


def thread_count(n_jobs: int | None) -> int:
    """Return the number of threads that scikit-learn's ``n_jobs`` means; `ProblemError` if it is not valid."""
    if n_jobs is not None and (isinstance(n_jobs, bool) or not isinstance(n_jobs, Integral) or n_jobs == 0):
        raise ProblemError(f"n_jobs={n_jobs!r} must be a whole number other than 0, or None; -1 is all processors")
    if n_jobs is None:
        return int(effective_n_jobs(None))  # set by a `joblib.parallel_config` context
    # `effective_n_jobs(n)` counts processes and returns 1 inside a worker of multiprocessing, which may start threads.
    return int(n_jobs) if n_jobs > 0 else max(1, cpu_count() + 1 + int(n_jobs))
