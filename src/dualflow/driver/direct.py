"""The driver's direct lane: a solver brings the problem to its end in one call, and no run is begun."""

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
from ..core.solution import SHARP, Cost, DirectResult, Progress, Solution, Status
from ..core.workspace import twin
from ..direct.results import CertifiedResult
from ..refinement.refine import support_set
from ..solvers import Solver
from .result import provenance_of
from .run import Record

__all__ = ["offers_direct", "result_of", "solve_directly"]


def offers_direct(engine: Solver[Any, Any], problem: DualProblem) -> bool:
    """Whether a solver can solve a problem, and has a way to do it in one call."""
    return type(engine).solve_directly is not Solver.solve_directly and engine.mismatch(problem) is None


class _Parts:
    """The fields of the solution that a result makes."""

    def __init__(self, problem: DualProblem, result: CertifiedResult, told: dict[str, Any]) -> None:
        self.problem, self.result, self.told = problem, result, told

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
        made = self.result
        return Cost(
            wall_time_s=made.seconds,
            steps=1,
            kernel_columns=made.kernel_columns,
            certify_time_s=made.certify_s,
        )

    @property
    def provenance(self) -> dict[str, Any]:
        return provenance_of(**self.told, strategy=self.result.strategy)


def result_of(solution: Solution) -> CertifiedResult | None:
    """The direct result that a solution was made of, if it was; a copy has none."""
    parts = solution.__dict__.get("made")
    return parts.result if isinstance(parts, _Parts) else None


class _Certified(CertifiedResult):
    """What a solver from outside this package came to, with the driver's certificate."""

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
    told: dict[str, Any],
    deadline: float | None,
    callback: Callable[[Progress], bool | None] | None,
    record: bool = False,
) -> Solution | None:
    """What a solver brings a problem to in one call, certified; None where a run is the way.

    ``told`` are the arguments of `provenance_of`; where it is to ``record`` a trajectory, that is of the feasible point
    next to 0 and of the answer. An error of a callback, Ctrl-C among them, carries the solution.
    """
    begun = time.monotonic()
    result = _result_of(problem, engine, tol, bool(refine), deadline, begun)
    if result is None:
        return None
    solution = Solution.later(
        _Parts(problem, result, told),
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
            with contextlib.suppress(Exception):  # an error may take no attribute
                ended = replace(solution, ended=Status.INTERRUPTED, raw_ended=Status.INTERRUPTED)
                error.solution = ended  # type: ignore[attr-defined]
            raise
    if deadline is None:
        clock.look()  # where the time is that of other work, half of it is none
    return solution


def _result_of(
    problem: DualProblem, engine: Solver[Any, Any], tol: float, refine: bool, deadline: float | None, begun: float
) -> CertifiedResult | None:
    try:
        with clock.within(deadline) if deadline is not None else contextlib.nullcontext():
            clock.look()
            ours = type(engine).__module__.startswith("dualflow.")
            found = engine.solve_directly(problem if ours else twin(problem), tol, refine)
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
            made = certifier.certify(alpha)
    except clock.OutOfTime:
        if deadline is None:
            raise
        return None
    enough = min(SHARP, tol) if refine else tol
    good = made.reaches(enough) and made.within(tol) and made.is_near_feasible(tol)
    return _Certified(found, certifier, seconds, made) if good else None
