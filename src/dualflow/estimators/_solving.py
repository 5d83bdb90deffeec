"""The solves of one fit, one after another or side by side: what each may take, and what ends them.

What ``verbose`` says of a fit: a line that is kept up to date on a terminal, and a line a second elsewhere.

Arguments of scikit-learn's estimators: what they are here, and which of them mean nothing.

Optima that more than one solve stands on: certified tightly, and whole or not at all.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from contextvars import copy_context
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from joblib import cpu_count, effective_n_jobs
from numpy.typing import NDArray

from ..core.certificate import Certificate
from ..core.options import Flag, Number, OneOf, Rule
from ..core.problem import DualProblem
from ..core.runtime.clock import Interrupt, interruptible
from ..core.runtime.threads import ONE_THREAD, Crew
from ..core.solution import Solution, Status, raw_summaries
from ..direct.pairs import PairBatch
from ..direct.results import PairResult
from ..driver.direct import result_of
from ..driver.solve import Progress, check_limits, solve
from ..exceptions import FitError, ProblemError
from ..quantum.runs.fit_part import part_of_a_fit
from ..solvers import Solver
from ._base import LEAST_S

__all__ = [
    "TOL",
    "Solving",
    "Teller",
    "at_once",
    "check_arguments",
    "ignored",
    "is_limited",
    "jobs_of",
    "limits",
    "optimum",
    "refines",
    "solve_one",
    "warn_of_ignored",
]


#: Seconds between two lines, and between two changes of the one on a terminal.
EVERY, EVERY_LIVE = 1.0, 0.1
#: Of the largest: what has less weight is no survivor.
SURVIVES = 1e-8


class Teller:
    """Tells how the solves of one fit go on, from any of their threads.

    Parameters
    ----------
    name : str
        Of the model.
    count : int
        Of solves.
    """

    def __init__(self, name: str, count: int) -> None:
        from rich.console import Console

        self.name, self.count = name, count
        self.lock = threading.Lock()
        self.console = Console(highlight=False, soft_wrap=True)
        self.live = self.console.status(f"{name}: …") if self.console.is_terminal else None
        self.begun = self.told = time.monotonic()
        self.done, self.worst = 0, 0.0

    def __enter__(self) -> Teller:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.stop()
        if error[0] is None:
            self.console.print(self._line(f"{self.done} of {self.count} solved", self.worst, None), markup=False)

    def of(self, k: int, callback: Callable[[Progress], bool | None] | None) -> Callable[[Progress], bool | None]:
        """The callback of a solve, which calls the user's own, too."""

        def told(progress: Progress) -> bool | None:
            self._say(k, progress)
            return None if callback is None else callback(progress)

        return told

    def finished(self, found: Solution | PairResult) -> None:
        """A solve is done."""
        gap = found.certificate.relative_gap
        with self.lock:
            self.done += 1
            self.worst = max(self.worst, np.inf if gap is None else gap)
        for line in raw_summaries([found]):
            self.console.print(f"{self.name}: {line}", markup=False)

    def _say(self, k: int, progress: Progress) -> None:
        now = time.monotonic()
        with self.lock:
            if now - self.told < (EVERY if self.live is None else EVERY_LIVE):
                return
            self.told = now
        where = f"solve {k + 1} of {self.count}, step {progress.step}" if self.count > 1 else f"step {progress.step}"
        size = np.abs(progress.alpha)
        survivors = int((size > SURVIVES * size.max(initial=0.0)).sum())
        text = self._line(where, progress.certificate.relative_gap, survivors)
        if self.live is None:
            self.console.print(text, markup=False)
        else:
            self.live.update(text)

    def _line(self, where: str, gap: float | None, survivors: int | None) -> str:
        known = "no certified gap" if gap is None or gap == np.inf else f"certified relative gap {gap:.1e}"
        parts = [f"{self.name}: {where}", known]
        if survivors is not None:
            parts.append(f"{survivors} survivors")
        return ", ".join([*parts, f"{time.monotonic() - self.begun:.1f} s"])


#: What LIBSVM has to be told and nothing here has, its default, and what to know instead.
IGNORED = {
    "shrinking": (True, "solvers here decide for themselves which points they look at"),
    "cache_size": (200, "memory follows the problem, and dualflow.release_memory() gives it back"),
    "probability": (False, "for probabilities wrap the model, sklearn.calibration.CalibratedClassifierCV(SVC())"),
}

RULES: dict[str, Rule] = {
    "max_iter": Number(at_least=-1, whole=True, note="(-1 is no limit)"),
    "shrinking": Flag(),
    "cache_size": Number(above=0, note="(in MB)"),
    "verbose": Number(at_least=0, whole=True, note="or a bool"),
}
#: "deprecated" is scikit-learn 1.9's default.
_PROBABILITY = OneOf(words=("deprecated",), note="or a bool")


def is_limited(model: Any) -> bool:
    """Whether a fit may end before its solver would."""
    return model.max_steps is not None or model.max_iter != -1


def check_arguments(model: Any) -> None:
    """`ProblemError` for an argument that is out of range; those at their defaults are not looked at."""
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


def ignored(model: Any) -> list[str]:
    """What is set and means nothing here, and why."""
    return [
        f"{name}={value!r} ({why})"
        for name, (default, why) in IGNORED.items()
        if (value := getattr(model, name, default)) != default and value != "deprecated"
    ]


def warn_of_ignored(model: Any) -> None:
    """One warning that names it."""
    if said := ignored(model):
        text = f"{type(model).__name__} takes these for scikit-learn's sake and ignores them: {'; '.join(said)}."
        warnings.warn(text, UserWarning, stacklevel=6)


def limits(model: Any, engine: Solver[Any, Any]) -> tuple[Solver[Any, Any], int | None]:
    """The solver and the driver's step limit that ``max_iter`` or ``max_steps`` ask for."""
    return (engine, model.max_steps) if model.max_iter == -1 else engine.within(int(model.max_iter))


def refines(model: Any, engine: Solver[Any, Any]) -> bool:
    """Whether a fit follows the solver up with the classical refinement; "auto" does unless it runs circuits."""
    return not engine.quantum if isinstance(model.refine, str) else bool(model.refine)


#: A part of the time, in seconds, that a pause of the interpreter outlasts (it collects garbage), and what a solve may
#: take instead, if there is so much left.
BRIEF, PATIENCE = 0.01, 1.0
#: Seconds between two looks whether Ctrl-C has come, where a wait for a thread cannot be interrupted.
PATIENT = 0.2


def _is_plain(model: Any) -> bool:
    """Whether a fit has no clock to look at, nothing to report, no interrupt to keep and no warning to give: a third of
    the time of a small fit goes into all that `Solving` minds."""
    return not (model.time_limit is not None or model.verbose or model.on_interrupt != "raise" or ignored(model))


def at_once(model: Any, batch: PairBatch) -> list[PairResult] | None:
    """What pairs of classes come to by compiled calls alone; None where they take more, a callback is to be told, or
    other threads may help."""
    if not _is_plain(model) or model.callback is not None:
        return None
    if len(batch.units) > 1 and jobs_of(getattr(model, "n_jobs", None)) > 1:
        return None
    return batch.at_once()


def solve_one(model: Any, problem: DualProblem, engine: Solver[Any, Any], seed: int) -> Solution:
    """The solution of the one problem of a fit."""
    if not _is_plain(model) or model.warm_start or engine.quantum:
        return Solving(model, lambda k: problem, [seed], engine).run()[0]  # type: ignore[return-value]
    aimed, most = limits(model, engine)
    refine = "early" if refines(model, engine) else False
    solution = solve(
        problem,
        aimed,
        refine=refine,
        tol=model.tol,
        max_steps=most,
        random_state=seed,
        callback=model.callback,
    )
    if result_of(solution) is None:  # which is optimal, and finite
        model._check_solution(solution)
        model._warn_unless_optimal([solution], 1)
    return solution


class Solving:
    """Solve problems within one time limit, as many as there are seeds, but for those that a batch has solved.

    Ctrl-C stops all that are at work, and is raised, unless the model says to keep what there is: then the remaining
    ones get one step each, and say that they were interrupted. A second Ctrl-C is raised.

    Parameters
    ----------
    model : BatchMachine
        Whose parameters say how.
    pose : callable
        The problem of a number.
    seeds : sequence of int
    engine : Solver
    batch : PairBatch, optional
        What a number came to without a run, or None.
    progress : callable, optional
        What a callback is told of a number that the batch has solved.
    """

    def __init__(
        self,
        model: Any,
        pose: Callable[[int], DualProblem],
        seeds: Sequence[int],
        engine: Solver[Any, Any],
        batch: PairBatch | None = None,
        progress: Callable[[int, PairResult], Progress] | None = None,
    ) -> None:
        check_limits(model.tol, model.max_steps, model.time_limit)
        warn_of_ignored(model)
        self.model, self.pose, self.seeds = model, pose, seeds
        self.batch, self.progress = batch, progress
        self.engine, self.max_steps = limits(model, engine)
        self.refines = refines(model, engine)
        self.teller = Teller(type(model).__name__, len(seeds)) if model.verbose else None
        again = model.warm_start and model.__sklearn_is_fitted__()
        self.earlier: Sequence[Solution] = model.solutions_ if again else []
        self.callback: Callable[[Progress], bool | None] | None = model.callback
        # Circuits share a device, a budget and a journal, which has the order of the pairs.
        # And asking takes a tenth of what a small fit does.
        jobs = 1 if engine.quantum or len(seeds) == 1 else jobs_of(getattr(model, "n_jobs", None))
        self.units = [range(k, k + 1) for k in range(len(seeds))] if batch is None else batch.units
        self.jobs = min(jobs, len(self.units))
        self.found: dict[int, Solution | PairResult] = {}
        self.keeps, self.interrupted = model.on_interrupt == "keep", False
        self.struck: int | None = None  # the number that Ctrl-C came in, if that was not in a run
        # Side by side only.
        self.lock, self.begun = threading.Lock(), 0
        self.interrupt = Interrupt()
        self.error: BaseException | None = None

    def run(self) -> list[Solution | PairResult]:
        """What they came to, in order."""
        with nullcontext() if self.teller is None else self.teller:
            if self.jobs > 1:
                self.side_by_side()
            for k in range(len(self.seeds)):
                if k not in self.found:
                    self.found[k] = self.one(k)
        solutions = [self.found[k] for k in range(len(self.seeds))]
        runs = [solution for solution in solutions if isinstance(solution, Solution)]
        self.model._warn_unless_optimal(runs, len(solutions))
        return solutions

    def share_of(self) -> tuple[float | None, float]:
        """Seconds the next solve may take, and those left for all."""
        left, waiting = self.model._time_left(), len(self.seeds) - len(self.found)
        if left is None:
            return None, 1.0
        share = left * min(self.jobs, waiting) / waiting
        return (min(PATIENCE, left) if share < BRIEF else share), left

    def one(self, k: int) -> Solution | PairResult:
        """What a number comes to."""
        if self.teller is None:
            return self.one_untold(k, self.callback)
        found = self.one_untold(k, self.teller.of(k, self.callback))
        self.teller.finished(found)
        return found

    def one_untold(self, k: int, callback: Callable[[Progress], bool | None] | None) -> Solution | PairResult:
        """The same, without progress reporting."""
        model, (share, left) = self.model, self.share_of()
        if left > LEAST_S and (found := self.batched(k)) is not None:
            if callback is not None and self.progress is not None:
                callback(self.progress(k, found))
            return found
        interrupted = self.interrupted
        # With a tolerance of its own the solver takes a run, of one step.
        engine = self.engine.aim(model.tol) if interrupted else self.engine
        before = self.earlier[k] if len(self.earlier) == len(self.seeds) else None
        with part_of_a_fit(k):
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
            price, why = float(solution.extras["certificate_s"]), solution.provenance.get("device_error")
            raise FitError(
                f"time_limit={model.time_limit!r} was over before what the solver had reached of {problem.n} variables "
                f"could be certified, which alone takes about {price:.2g} s{f': {why}' if why else ''}; raise it, or "
                "give fewer points",
                solution,
            )
        model._check_solution(solution)
        self.interrupted |= solution.ended is Status.INTERRUPTED
        if interrupted and (solution.ended is Status.STEP_LIMIT or k == self.struck):
            solution = replace(solution, ended=Status.INTERRUPTED, raw_ended=Status.INTERRUPTED)
        return solution

    def batched(self, k: int) -> PairResult | None:
        """What a number came to without a run, if it did."""
        if self.interrupted or self.batch is None:
            return None
        try:
            found: PairResult | None = self.batch[k]
            return found
        except KeyboardInterrupt:
            if not self.keeps:
                raise
            self.interrupted, self.struck = True, k
            return None

    # --- side by side ----------------------------------------------------------------------------

    def side_by_side(self) -> None:
        """As many of them as come to an end, in threads; this one waits, for Ctrl-C comes to it."""
        if self.callback is not None:
            self.callback = _one_at_a_time(self.callback)
        crew, handling, context = Crew(), np.geterr(), copy_context()
        with ONE_THREAD:
            try:
                if not crew.start(lambda: context.copy().run(self.work, handling), self.jobs):
                    self.work(handling)  # there may be no other thread
                while not (self.is_done() and crew.rests(PATIENT)):
                    crew.rests(PATIENT)
            except BaseException as error:
                self.fail(error)
            crew.finish()
        if self.error is not None and not (self.keeps and isinstance(self.error, KeyboardInterrupt)):
            raise self.error
        self.interrupted |= self.error is not None

    def is_done(self) -> bool:
        """Whether there is nothing to begin."""
        return self.error is not None or self.interrupted or self.begun == len(self.units)

    def work(self, handling: Any) -> None:
        """Take the next unit and solve what is in it, until there is none, or an error."""
        with np.errstate(**handling), ONE_THREAD, interruptible(self.interrupt):
            try:
                while (unit := self.next_unit()) is not None:
                    for k in unit:
                        self.found[k] = self.one(k)
                        if self.interrupted:
                            self.interrupt.pending = True
                        if self.is_done():
                            break
            except BaseException as error:
                self.fail(error)

    def next_unit(self) -> range | None:
        """The next unit, if there is one."""
        with self.lock:
            if self.is_done():
                return None
            self.begun += 1
            return self.units[self.begun - 1]

    def fail(self, error: BaseException) -> None:
        """What is to be raised when all threads have ended, which they do soon."""
        with self.lock:
            self.error = self.error or error
            self.interrupt.pending = True


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


#: Certified relative gap of every model that is left when a point goes.
TOL = 1e-9


def optimum(problem: DualProblem, start: NDArray | None) -> Certificate:
    """The certificate of the optimum, from a start nearby if one is known."""
    solution = solve(problem, refine="early", tol=TOL, warm=start)
    return solution.certificate
