"""`solve`: the driver has the loop, the limits and the certificates; a solver only makes steps.

A solver that offers it solves the problem in one call, without a run (`_Call.directly`).
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core import repeats
from ..core.certificate import Certificate, Certifier
from ..core.digest import seed_of
from ..core.gram import Gram
from ..core.options import Number, OneOf
from ..core.problem import DualProblem, Kind
from ..core.runtime import clock
from ..core.runtime.arrays import immutable
from ..core.runtime.threads import blas_for
from ..core.solution import MAX_GAP_UNREFINED, Cost, DirectResult, Progress, Solution, Status
from ..core.solver import BOUNDED
from ..core.workspace import isolated_copy
from ..direct.single import CertifiedResult
from ..exceptions import FitError, ProblemError
from ..refinement.refine import support_set
from ..solvers import Solver
from ..solvers.registry import AUTO, USUAL_TRAITS, make_solver, needs_no_package, traits_of
from .checkpoint import Checkpoint, CheckpointFile, check_writable
from .result import attach_solution, conclude, conclude_interrupted, provenance_of
from .run import Record, Run


def offers_direct(engine: Solver[Any, Any], problem: DualProblem) -> bool:
    """Whether a solver accepts a problem and has a method that solves it in one call."""
    if type(engine).solve_directly is Solver.solve_directly:
        return False
    return problem.kind in engine.kinds and (engine.max_n is None or engine.mismatch(problem) is None)


class _ResultFields:
    """The fields of a `Solution` that are computed from a direct result when they are read."""

    def __init__(self, problem: DualProblem, result: CertifiedResult, provenance_args: dict[str, Any]) -> None:
        self.problem, self.result, self.provenance_args = problem, result, provenance_args

    @property
    def certified(self) -> Certificate:
        return self.result.certificate

    @property
    def alpha(self) -> NDArray:
        return self.result.certificate.alpha

    @property
    def raw_alpha(self) -> NDArray:
        return self.result.alpha

    @property
    def support(self) -> NDArray:
        return self.result.support(self.problem)

    @property
    def cost(self) -> Cost:
        result = self.result
        return Cost(
            wall_time_s=result.seconds,
            steps=1,
            kernel_columns=result.kernel_columns,
            certify_time_s=result.certify_s,
        )

    @property
    def provenance(self) -> dict[str, Any]:
        return provenance_of(**self.provenance_args, strategy=self.result.strategy)


class _ForeignResult(CertifiedResult):
    """The result of a solver from outside this package, with the driver's certificate."""

    def __init__(self, result: DirectResult, certifier: Certifier, seconds: float, certificate: Certificate) -> None:
        self.__dict__.update(
            alpha=immutable(result.alpha),
            strategy=result.strategy,
            kernel_columns=result.kernel_columns,
            seconds=seconds,
            certify_s=0.0,
            certificate=certificate,
        )
        self.__dict__["_support"] = support_set(certifier.problem, certificate.alpha, certifier, certificate)

    def support(self, problem: DualProblem) -> NDArray:
        found: NDArray = self.__dict__["_support"]
        return found


def attach_interrupted(error: BaseException, solution: Solution) -> None:
    """Set the attribute ``solution`` of an error that a callback raised, with the status INTERRUPTED."""
    with contextlib.suppress(Exception):  # some errors accept no attribute
        ended = replace(solution, ended=Status.INTERRUPTED, raw_ended=Status.INTERRUPTED)
        error.solution = ended  # type: ignore[attr-defined]


def _run_direct(
    problem: DualProblem, engine: Solver[Any, Any], tol: float, refine: bool, deadline: float | None, begun: float
) -> CertifiedResult | None:
    """Return the certified result of the solver's direct method; None if it gave up or misses its tolerances."""
    try:
        with clock.within(deadline) if deadline is not None else contextlib.nullcontext():
            if deadline is not None:
                clock.check_time()
            ours = type(engine).__module__.startswith("dualflow.")
            # A solver from outside gets a copy, so that it cannot change the problem.
            found = engine.solve_directly(problem if ours else isolated_copy(problem), tol, refine)
            if found is None or (ours and isinstance(found, CertifiedResult)):
                return found
            if not isinstance(found, DirectResult):
                raise TypeError(
                    f"solve_directly of {engine.name!r} returned {type(found).__name__}; return a DirectResult or None"
                )
            alpha = np.asarray(found.alpha, dtype=float)
            if alpha.shape != (problem.n,) or not np.isfinite(alpha).all():
                return None
            seconds, certifier = time.monotonic() - begun, Certifier(problem)
            certificate = certifier.certify(alpha)
    except clock.OutOfTime:
        if deadline is None:
            raise
        return None
    gap_tol = min(MAX_GAP_UNREFINED, tol) if refine else tol
    meets = certificate.reaches(gap_tol) and certificate.within(tol) and certificate.is_near_feasible(tol)
    return _ForeignResult(found, certifier, seconds, certificate) if meets else None


_TOL = Number(above=0, note="(a relative gap)")
_MAX_STEPS = Number(at_least=1, whole=True, none=True)
#: Time limit in seconds of the smaller problem if the search for repeated points has used the whole limit.
MIN_LIMIT_S = 1e-3
#: Certified relative gap of the reference of `Solution.summary`: below every floor of shots.
REFERENCE_TOL = 1e-9
#: The values of ``on_interrupt``: what Ctrl-C does.
ON_INTERRUPT = OneOf(words=("raise", "keep"))
_TIME_LIMIT = Number(above=0, infinite=True, none=True, note="(in seconds)")


@clock.keeping_interrupts()
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
    """Solve a dual problem and certify the answer.

    A solver that can solve the problem directly, in one call, does so (``provenance["strategy"]`` is "direct" then),
    unless a start is given. The bits are the same with or without a callback or limits, and under any solver name.

    Parameters
    ----------
    problem : DualProblem
    solver : str or Solver
        A name of `list_solvers`, with its options as further keywords, or an instance. "auto" is "interior-point" for
        problems of 1000 variables and more whose kernel matrix is made by few columns (a linear kernel with few
        features, polynomials of them), unless at most 500 share the sum of a simplex, for linear kernels with very
        uneven scales or squared-hinge weights, and, with ``refine``, for radial kernels of few columns with bounds
        above 1e8 / n; and "working-set" for all others; of problems with two equalities
        "interior-point" for these and "level-search" for others. The provenance has the name of the solver used.
    refine : bool or "early", default=False
        Follow up with the classical active-set refinement. Raw and refined answers are both kept. Some solvers stop
        where the refinement is faster than further steps, unless their options set a tolerance. "early" also skips the
        refinement of more than 16 384 variables if the raw answer is certified within ``tol``: the estimators' choice.
    trajectory : bool, default=False
        Record every state.
    tol : float > 0
        Certified relative gap at which the run ends.
    max_steps : int, optional
        Step limit; the solver's ``default_max_steps`` otherwise.
    time_limit : float, optional
        Seconds. It is checked within steps too: the current step is given up, and the state before it is returned. Time
        for a certificate is reserved; if there is not enough, the certificate is computed when it is first read.
    random_state : int, numpy.random.Generator or None
        Same seed, same answer, shots included: an error bar needs another seed for each run, or None, or one Generator
        for all runs. A run that draws numbers advances the Generator, unless it has a checkpoint: the Generator's state
        then identifies the run.
    callback : callable, optional
        Called with a `Progress` after each step; a true return value stops the run. A problem that is solved directly
        takes one step.
    checkpoint : str, Path or Checkpoint, optional
        File to save to, and to resume from if it exists. The run starts only if it can be written; if writing fails
        later (a full disk) there is a warning, and the run continues. A problem that is solved directly writes none:
        there is nothing to resume.
    warm : array of shape (n,) or Solution, optional
        Start; projected onto the feasible set.
    on_interrupt : {"raise", "keep"}, default="raise"
        Ctrl-C raises KeyboardInterrupt, or ends the run like a limit: the state before the current step is certified
        and returned, with status INTERRUPTED. A second Ctrl-C always raises.

    Returns
    -------
    Solution
        Its `status` says what ended the run.

    Raises
    ------
    SolverMismatch, SolverUnavailable, TypeError
        The solver cannot solve this problem, needs a package, or does not have an option.
    ProblemError
        An argument is out of range, the checkpoint belongs to another run or cannot be written, or the user's kernel
        returned something else than a kernel matrix.
    KeyboardInterrupt, Exception
        Ctrl-C, and errors of the user's signal handler, kernel, callback or device, apart from `DeviceError`, which is
        a status. The checkpoint then has the state before the error, and so has ``error.solution``, a `Solution` with
        status INTERRUPTED, unless the error accepts no attribute.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "smo", tol=1e-8)
    >>> solution.status.name, round(solution.certificate.objective, 6), round(solution.bias, 6)
    ('OPTIMAL', -2.0, -3.0)
    """
    begun = time.monotonic()  # before the solver imports its packages
    engine = _engine_of(problem, solver, options, refine)
    check_limits(tol, max_steps, time_limit)
    if refine not in (False, True, "early"):
        raise ProblemError(f"refine={refine!r} is not one of False, True, 'early'")
    if on_interrupt != "raise":
        ON_INTERRUPT.check("on_interrupt", on_interrupt)
    checked = time.monotonic()
    if type(problem) is not DualProblem or not isinstance(problem.gram, Gram):
        problem = problem.frozen_copy()
    is_large = len(problem.p) >= repeats.MIN_VARIABLES
    if is_large and engine.merges_repeats and (merged := repeats.repeats_of(problem)) is not None:
        return _solve_merged(
            merged,
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
    call = _Call(
        problem,
        engine,
        refine,
        trajectory,
        tol,
        max_steps,
        time_limit,
        random_state,
        callback,
        checkpoint,
        warm,
        on_interrupt,
        begun,
        checked,
    )
    solution = call.directly() if call.offers_direct() else None
    return call.by_run() if solution is None else solution


def _engine_of(
    problem: DualProblem, solver: str | Solver[Any, Any], options: dict[str, Any], refine: bool | str
) -> Solver[Any, Any]:
    """Return the solver of a call of `solve`."""
    if isinstance(solver, Solver) and not options and needs_no_package(type(solver)):  # type: ignore[arg-type]
        return solver
    bounded = problem.kind in BOUNDED or problem.kind is Kind.TWO_EQUALITIES
    gram, traits = (problem.gram, traits_of(problem, refine)) if bounded else (None, USUAL_TRAITS)
    return make_solver(solver, options, gram, problem.n, problem.kind, traits)


@dataclass
class _Call:
    """A call of `solve` with its checked arguments; ``begun`` and ``checked`` are times before and after the checks."""

    problem: DualProblem
    engine: Solver[Any, Any]
    refine: bool | str
    trajectory: bool
    tol: float
    max_steps: int | None
    time_limit: float | None
    random_state: Any
    callback: Callable[[Progress], bool | None] | None
    checkpoint: str | Path | Checkpoint | None
    warm: ArrayLike | Solution | None
    on_interrupt: str
    begun: float
    checked: float

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments beside the solver, for the provenance."""
        return {"refine": self.refine, "max_steps": self.max_steps}

    def offers_direct(self) -> bool:
        """Whether a direct solve may be tried.

        It is one step without checkpoints: an existing file has the state of a run, which is resumed.
        """
        if self.warm is not None or not offers_direct(self.engine, self.problem):
            return False
        path = None if self.checkpoint is None else CheckpointFile.of(self.checkpoint).path
        if path is None:
            return True
        check_writable(path)
        return not path.exists()

    def directly(self) -> Solution | None:
        """Return the solution by the solver's direct method; None if a run is needed."""
        try:
            return self._direct_solution()
        except KeyboardInterrupt as error:
            if self.on_interrupt == "keep" and isinstance(known := getattr(error, "solution", None), Solution):
                return known
            run = self.new_run(hand_over=False)
            if self.on_interrupt != "keep":
                attach_solution(error, run, self.problem)
                raise
            run.run(self.random_state, 1)  # one step gives a better answer than none
            return conclude_interrupted(run, self.problem)

    def _direct_solution(self) -> Solution | None:
        """Return the solution by the direct method, as `directly`; what its callback raises has it as ``solution``."""
        problem, engine, random_state, begun = self.problem, self.engine, self.random_state, time.monotonic()
        seed = random_state if type(random_state) is int else seed_of(random_state)
        deadline = None if self.time_limit is None else self.begun + self.time_limit
        result = _run_direct(problem, engine, self.tol, bool(self.refine), deadline, begun)
        if result is None:
            return None
        solution: Solution = object.__new__(Solution)
        solution.__dict__.update(
            made=_ResultFields(problem, result, {"engine": engine, "seed": seed} | self.arguments),
            direct_result=result,
            problem=problem,
            refined=False,
            ended=Status.OPTIMAL,
            raw_ended=Status.OPTIMAL,
            tol=self.tol,
            extras={},
        )
        if self.trajectory:
            rows, start = Record(), problem.project(np.zeros(problem.n))
            rows.add(0.0, start, None, Certifier(problem).certify(start))
            rows.add(1.0, solution.raw_alpha, None, solution.certificate)
            solution.__dict__["trajectory"] = rows.trajectory()
        if self.callback is not None:
            seconds = time.monotonic() - begun
            try:
                self.callback(Progress(1, 1.0, np.array(solution.raw_alpha), solution.certificate, seconds))
            except BaseException as error:
                attach_interrupted(error, solution)
                raise
        if deadline is None:
            clock.check_time()  # if a limit of the caller has passed, its work is given up as a whole
        return solution

    def by_run(self) -> Solution:
        """Return the solution by a run of the solver."""
        problem, engine = self.problem, self.engine
        # If no certificate is visible before the solution is returned, the spectrum of a large Q is examined when the
        # solution's certificate is read: the factorisation takes ten times as long as a fit with few support vectors.
        presumes = self.callback is None and not self.trajectory and self.checkpoint is None
        presumes = presumes and not (engine.needs_psd or engine.stochastic)
        presumes = presumes and problem.kind is not Kind.AFFINE and not problem.is_hard_margin
        with blas_for(problem.n, shared=problem.gram.is_radial), limit_kernel_wait(self.time_limit):
            run = self.new_run(bool(self.refine), presumes)
            try:
                run.run(self.random_state, engine.default_max_steps if self.max_steps is None else self.max_steps)
                found = conclude(run, self.refine, problem)
                if self.time_limit is None:
                    clock.check_time()  # if a limit of the caller has passed, its work is given up as a whole
                return found
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt) and self.on_interrupt == "keep":
                    return conclude_interrupted(run, problem)
                attach_solution(error, run, problem)
                raise

    def new_run(self, hand_over: bool, presumes: bool = False) -> Run:
        """Return a run that has not started."""
        aimed = self.engine.aim(self.tol, hand_over=hand_over)
        certifier = Certifier(self.problem, presumes)
        posed, start = certifier.problem, _warm_start(self.problem, self.warm)
        solvers_own = isolated_copy(posed)
        aimed.check(solvers_own, certifier.psd.copied())
        started = time.monotonic()
        # The work after a run takes about as long as the work before it: reserve as much.
        deadline = None if self.time_limit is None else self.begun + self.time_limit - (started - self.checked)
        return Run(
            posed,
            solvers_own,
            aimed,
            certifier,
            self.tol,
            self.trajectory,
            self.callback,
            deadline,
            started,
            start,
            CheckpointFile.of(self.checkpoint),
            self.arguments,
        )


def _solve_merged(
    merged: repeats.Repeats,
    solver: str | Solver[Any, Any],
    callback: Callable[[Progress], bool | None] | None,
    warm: ArrayLike | Solution | None,
    **arguments: Any,
) -> Solution:
    """Solve the merged problem, and spread its answer over the equal variables."""
    start = _warm_start(merged.original, warm)

    def observed(progress: Progress) -> bool | None:
        assert callback is not None
        return callback(merged.progress(progress))

    try:
        solution = solve(
            merged.problem,
            solver,
            callback=None if callback is None else observed,
            warm=None if start is None else merged.summed(start),
            **arguments,
        )
    except BaseException as error:
        if isinstance(known := getattr(error, "solution", None), Solution):
            error.solution = merged.solution(known)  # type: ignore[attr-defined]
        raise
    return merged.solution(solution)


@contextlib.contextmanager
def time_limited(seconds: float | None, what: str, limit: float | None = None) -> Iterator[None]:
    """Give up the work within after ``seconds``, with a `FitError`.

    Parameters
    ----------
    seconds : float or None
        None is no limit.
    what : str
        The work, for the error's text.
    limit : float, optional
        The ``time_limit`` that the user gave, if it is more than ``seconds``.
    """
    deadline = None if seconds is None else time.monotonic() + seconds
    try:
        with clock.within(deadline):
            yield
    except clock.OutOfTime as error:
        left = clock.seconds_left()
        if deadline is None or (left is not None and time.monotonic() + left <= deadline):
            raise  # the limit of the work around this one is the earlier
        why = f": {error}" if str(error) else ""
        raise FitError(
            f"time_limit={limit or seconds!r} was over before {what}{why}; raise it, or give fewer points",
            getattr(error, "solution", None),
        ) from None


@contextlib.contextmanager
def limit_kernel_wait(seconds: float | None) -> Iterator[None]:
    """Limit the time that the work within waits for kernel values: a device that hangs ends in a `FitError`."""
    with clock.with_kernel_limit(None if seconds is None else time.monotonic() + seconds):
        try:
            yield
        except clock.OutOfTime as error:
            if clock.is_late():
                raise  # the limit of the caller has passed, not this one
            why = f": {error}" if str(error) else ""
            raise FitError(
                f"time_limit was over before the kernel's values were there{why}; raise it, or take another device",
                getattr(error, "solution", None),
            ) from None


def check_limits(tol: float, max_steps: int | None, time_limit: float | None) -> None:
    """Raise `ProblemError` naming the limit that is out of range."""
    if not (type(tol) is float and 0.0 < tol < math.inf):
        _TOL.check("tol", tol)
    if max_steps is not None:
        _MAX_STEPS.check("max_steps", max_steps)
    if time_limit is not None:
        check_time_limit(time_limit)


def check_time_limit(time_limit: float | None) -> None:
    """Raise `ProblemError` for a limit that is not a positive number of seconds."""
    _TIME_LIMIT.check("time_limit", time_limit)


def _warm_start(problem: DualProblem, warm: ArrayLike | Solution | None) -> NDArray | None:
    """Return the projection of a given start, shape (n,), or None."""
    if warm is None:
        return None
    alpha = np.asarray(warm.alpha if isinstance(warm, Solution) else warm, dtype=float)
    if alpha.shape != (problem.n,) or not np.isfinite(alpha).all():
        raise ProblemError(f"warm must be {problem.n} finite numbers, found shape {alpha.shape}")
    return problem.project(alpha)


def _solve_classically(problem: DualProblem) -> Solution:
    """Return the classical reference of `Solution.summary`."""
    solver = "gradient-flow" if problem.kind is Kind.AFFINE else AUTO
    return solve(problem, solver, tol=REFERENCE_TOL, refine=True)


Solution.solve_classically = staticmethod(_solve_classically)
