"""The driver: it owns every loop, every limit and every certificate; solvers only step."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.certificate import Certifier
from ..core.digest import seed_of
from ..core.options import Number, OneOf
from ..core.problem import DualProblem, Kind
from ..core.repeats import Repeats, repeats_of
from ..core.runtime import clock
from ..core.runtime.threads import blas_for
from ..core.solution import Progress, Solution
from ..core.solver import BOUNDED
from ..core.workspace import twin
from ..exceptions import FitError, ProblemError
from ..solvers import Solver
from ..solvers.registry import AUTO, DEFAULT_SOLVER, make_solver
from .checkpoint import Checkpoint, Keeping, check_writable
from .direct import offers_direct, solve_directly
from .result import carry, conclude, conclude_interrupted
from .run import Run

__all__ = [
    "AUTO",
    "DEFAULT_SOLVER",
    "ON_INTERRUPT",
    "Progress",
    "check_limits",
    "check_time_limit",
    "limited",
    "patient",
    "solve",
]


_TOL = Number(above=0, note="(a relative gap)")
_MAX_STEPS = Number(at_least=1, whole=True, none=True)
#: Seconds that are left for a smaller problem where finding repeats has taken all.
MIN_LIMIT_S = 1e-3
#: What Ctrl-C does.
ON_INTERRUPT = OneOf(words=("raise", "keep"))
_TIME_LIMIT = Number(above=0, infinite=True, none=True, note="(in seconds)")


@clock.hearing()
def solve(
    problem: DualProblem,
    solver: str | Solver[Any, Any] = AUTO,
    *,
    refine: bool | str = False,
    trajectory: bool = False,
    tol: float = 1e-6,
    max_steps: int | None = None,
    time_limit: float | None = None,
    random_state: int | np.random.Generator | None = 0,
    callback: Callable[[Progress], bool | None] | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
    warm: ArrayLike | Solution | None = None,
    on_interrupt: str = "raise",
    **options: Any,
) -> Solution:
    """Let a dual problem flow to rest on a solver, and certify where it came to.

    A solver that can solve the problem directly, in one call, is let do so (``provenance["strategy"]`` is "direct"
    then), unless a start is given: by whatever name, with a callback or limits, the bits are the same.

    Parameters
    ----------
    problem : DualProblem
    solver : str or Solver
        A name of `list_solvers`, with its options as further keywords, or an instance. "auto" is "interior-point" for
        problems of 1000 variables and more whose kernel matrix is made by few columns (a linear kernel with few
        features, polynomials of them), and "working-set" for all others; of problems with two equalities
        "interior-point" for these and "level-search" for others. Which one it was is in the provenance.
    refine : bool or "early", default=False
        Follow up with the classical active-set refinement. Raw and refined answers are both kept. A solver that can
        tell rests where the refinement is the faster way on, unless its options say how far to go. "early" besides
        refines nothing beyond 16 384 variables that is certified within ``tol`` already: the estimators' choice.
    trajectory : bool, default=False
        Record every state.
    tol : float > 0
        Relative gap, certified by us, at which the run ends.
    max_steps : int, optional
        Step limit; the solver's ``default_max_steps`` otherwise.
    time_limit : float, optional
        Seconds. Looked at in steps, by whatever takes long there: the step under way is given up, and what was reached
        before it is returned. Time for its certificate is set aside; where there is not enough for one, the certificate
        is made when it is first looked at.
    random_state : int, numpy.random.Generator or None
        Same seed, same answer, shots included: an error bar needs a seed a run, or None, or one Generator for all runs,
        which each run that draws moves on, unless it has a checkpoint, where its state is what the run is known by.
    callback : callable, optional
        Called with a `Progress` after each step; a true return value stops the run. A problem that is solved directly
        takes one step.
    checkpoint : str, Path or Checkpoint, optional
        File to save to, and to resume from if it exists. That it can be written is made sure of before the run; where
        it fails later (a full disk) there is a warning, and the run goes on. A problem that is solved directly, in one
        call, leaves none: there is nothing to go on with.
    warm : array of shape (n,) or Solution, optional
        Start; projected onto the feasible set.
    on_interrupt : {"raise", "keep"}, default="raise"
        Ctrl-C raises KeyboardInterrupt, or is an ending like a limit: the state before the step it came in is
        certified and returned, with status INTERRUPTED. A second one always raises.

    Returns
    -------
    Solution
        Whatever ended the run; its `status` says what did.

    Raises
    ------
    SolverMismatch, SolverUnavailable, TypeError
        The solver cannot solve this problem, needs a package, or does not have an option.
    ProblemError
        An argument is out of range, the checkpoint belongs to another run or cannot be written, or a kernel of one's
        own returned what is none.
    KeyboardInterrupt, Exception
        Ctrl-C, and whatever a signal handler, a kernel, a callback or a device of one's own raises, apart from
        `DeviceError`, which is a status. The checkpoint then holds the state before it, and so does
        ``error.solution``, a `Solution` with status INTERRUPTED, unless the error cannot hold one.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "smo", tol=1e-8)
    >>> solution.status.name, round(solution.certificate.objective, 6), round(solution.bias, 6)
    ('OPTIMAL', -2.0, -3.0)
    """
    begun = time.monotonic()  # before the solver's own imports
    bounded = problem.kind in BOUNDED | {Kind.TWO_EQUALITIES}
    engine = make_solver(solver, options, problem.gram if bounded else None, problem.n, problem.kind)
    check_limits(tol, max_steps, time_limit)
    if refine not in (False, True, "early"):
        raise ProblemError(f"refine={refine!r} is not one of False, True, 'early'")
    ON_INTERRUPT.check("on_interrupt", on_interrupt)
    asked = time.monotonic()
    problem = problem.value()
    if engine.merges_repeats and (repeats := repeats_of(problem)) is not None:
        return _solve_merged(
            repeats,
            AUTO if solver == AUTO and not options else engine,
            callback,
            warm,
            refine=refine,
            trajectory=trajectory,
            tol=tol,
            max_steps=max_steps,
            time_limit=None if time_limit is None else max(begun + time_limit - time.monotonic(), MIN_LIMIT_S),
            random_state=random_state,
            checkpoint=checkpoint,
            on_interrupt=on_interrupt,
        )
    arguments = {"refine": refine, "max_steps": max_steps}
    # A direct solve is one step, with nothing to save on the way: a file that is there is another run's state.
    path = Keeping.of(checkpoint).path
    direct = warm is None and offers_direct(engine, problem)
    if direct and path is not None:
        check_writable(path)
        direct = not path.exists()

    def begin(hand_over: bool) -> Run:
        """A run, which is not started yet."""
        aimed = engine.aim(tol, hand_over=hand_over)
        certifier = Certifier(problem)
        posed, start = certifier.problem, _warm_start(problem, warm)
        solvers_own = twin(posed)
        aimed.check(solvers_own, certifier.psd.twin())
        started = time.monotonic()
        # What follows a run passes over the points about as often as what comes before it.
        deadline = None if time_limit is None else begun + time_limit - (started - asked)
        return Run(
            posed,
            solvers_own,
            aimed,
            certifier,
            tol,
            trajectory,
            callback,
            deadline,
            started,
            start,
            Keeping.of(checkpoint),
            arguments,
        )

    if direct:
        told = {"engine": engine, "seed": seed_of(random_state)} | arguments
        deadline = None if time_limit is None else begun + time_limit
        try:
            solution = solve_directly(problem, engine, tol, refine, told, deadline, callback, trajectory)
        except KeyboardInterrupt as error:
            if on_interrupt == "keep" and isinstance(known := getattr(error, "solution", None), Solution):
                return known
            run = begin(hand_over=False)
            if on_interrupt != "keep":
                carry(error, run, problem)
                raise
            run.run(random_state, 1)  # what one step comes to is more than nothing
            return conclude_interrupted(run, problem)
        if solution is not None:
            return solution
    with blas_for(problem.n, shared=problem.gram.is_radial), patient(time_limit):
        run = begin(hand_over=bool(refine))
        try:
            run.run(random_state, engine.default_max_steps if max_steps is None else max_steps)
            found = conclude(run, refine, problem)
            if time_limit is None:
                clock.look()  # where the time is that of other work, half a run is none
            return found
        except KeyboardInterrupt as error:
            if on_interrupt == "keep":
                return conclude_interrupted(run, problem)
            carry(error, run, problem)
            raise
        except BaseException as error:
            carry(error, run, problem)
            raise


def _solve_merged(
    repeats: Repeats,
    solver: str | Solver[Any, Any],
    callback: Callable[[Progress], bool | None] | None,
    warm: ArrayLike | Solution | None,
    **arguments: Any,
) -> Solution:
    """Solve the problem of the different variables, and spread its answer over the repeated ones."""
    start = _warm_start(repeats.given, warm)

    def observed(progress: Progress) -> bool | None:
        assert callback is not None
        return callback(repeats.progress(progress))

    try:
        solution = solve(
            repeats.problem,
            solver,
            callback=None if callback is None else observed,
            warm=None if start is None else repeats.summed(start),
            **arguments,
        )
    except BaseException as error:
        if isinstance(known := getattr(error, "solution", None), Solution):
            error.solution = repeats.solution(known)  # type: ignore[attr-defined]
        raise
    return repeats.solution(solution)


@contextlib.contextmanager
def limited(seconds: float | None, what: str, limit: float | None = None) -> Iterator[None]:
    """Give up work when ``seconds`` are over, of a ``limit`` that may be more; `FitError` then, which
    names ``what`` was not done."""
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        with clock.within(deadline):
            yield
    except clock.OutOfTime as error:
        if deadline is None or time.monotonic() < deadline:
            raise
        why = f": {error}" if str(error) else ""
        raise FitError(
            f"time_limit={limit or seconds!r} was over before {what}{why}; raise it, or give fewer points",
            getattr(error, "solution", None),
        ) from None


@contextlib.contextmanager
def patient(seconds: float | None) -> Iterator[None]:
    """Work whose kernel is waited for no longer than that: a device that hangs behind it ends in a `FitError`."""
    with clock.waiting(None if seconds is None else time.monotonic() + seconds):
        try:
            yield
        except clock.OutOfTime as error:
            if clock.is_late():
                raise  # the time of what is around this
            why = f": {error}" if str(error) else ""
            raise FitError(
                f"time_limit was over before the kernel's values were there{why}; raise it, or take another device",
                getattr(error, "solution", None),
            ) from None


def check_limits(tol: float, max_steps: int | None, time_limit: float | None) -> None:
    """Raise `ProblemError` naming the limit that is out of range."""
    _TOL.check("tol", tol)
    _MAX_STEPS.check("max_steps", max_steps)
    check_time_limit(time_limit)


def check_time_limit(time_limit: float | None) -> None:
    """Raise `ProblemError` for a limit that is no number of seconds."""
    _TIME_LIMIT.check("time_limit", time_limit)


def _warm_start(problem: DualProblem, warm: ArrayLike | Solution | None) -> NDArray | None:
    if warm is None:
        return None
    alpha = np.asarray(warm.alpha if isinstance(warm, Solution) else warm, dtype=float)
    if alpha.shape != (problem.n,) or not np.isfinite(alpha).all():
        raise ProblemError(f"warm must be {problem.n} finite numbers, found shape {alpha.shape}")
    return problem.project(alpha)
