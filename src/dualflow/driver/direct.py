"""The driver's direct lane: a solver solves the problem in one call, without a run."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate, Certifier
from ..core.problem import DualProblem
from ..core.runtime import clock
from ..core.runtime.arrays import immutable
from ..core.solution import MAX_GAP_UNREFINED, Cost, DirectResult, Progress, Solution, Status
from ..core.workspace import isolated_copy
from ..direct.results import CertifiedResult
from ..refinement.refine import support_set
from ..solvers import Solver
from .result import provenance_of
from .run import Record

__all__ = ["attach_interrupted", "offers_direct", "result_of", "solve_directly"]


def offers_direct(engine: Solver[Any, Any], problem: DualProblem) -> bool:
    """Whether a solver accepts a problem and has a method that solves it in one call."""
    return type(engine).solve_directly is not Solver.solve_directly and engine.mismatch(problem) is None


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


def result_of(solution: Solution) -> CertifiedResult | None:
    """Return the direct result behind a solution; None if it has none, or is a copy."""
    parts = solution.__dict__.get("made")
    return parts.result if isinstance(parts, _ResultFields) else None


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


def solve_directly(
    problem: DualProblem,
    engine: Solver[Any, Any],
    tol: float,
    refine: bool | str,
    provenance_args: dict[str, Any],
    deadline: float | None,
    callback: Callable[[Progress], bool | None] | None,
    record: bool = False,
) -> Solution | None:
    """Solve a problem in one call of the solver; None if a run is needed.

    Parameters
    ----------
    problem : DualProblem
    engine : Solver
    tol : float
        Certified relative gap to reach.
    refine : bool or str
    provenance_args : dict
        Arguments of `provenance_of`.
    deadline : float or None
        Time at which the call is given up.
    callback : callable or None
        Called once. An error that it raises, and Ctrl-C, has the solution as its attribute ``solution``.
    record : bool
        Whether the solution has a trajectory: the feasible point nearest to 0, and the answer.
    """
    begun = time.monotonic()
    result = _run_direct(problem, engine, tol, bool(refine), deadline, begun)
    if result is None:
        return None
    solution = Solution.later(
        _ResultFields(problem, result, provenance_args),
        problem=problem,
        refined=False,
        ended=Status.OPTIMAL,
        raw_ended=Status.OPTIMAL,
        tol=tol,
        extras={},
    )
    if record:
        rows, start = Record(), problem.project(np.zeros(problem.n))
        rows.add(0.0, start, None, Certifier(problem).certify(start))
        rows.add(1.0, solution.raw_alpha, None, solution.certificate)
        solution.__dict__["trajectory"] = rows.trajectory()
    if callback is not None:
        seconds = time.monotonic() - begun
        try:
            callback(Progress(1, 1.0, np.array(solution.raw_alpha), solution.certificate, seconds))
        except BaseException as error:
            attach_interrupted(error, solution)
            raise
    if deadline is None:
        clock.check_time()  # if a limit of the caller has passed, its work is given up as a whole
    return solution


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
