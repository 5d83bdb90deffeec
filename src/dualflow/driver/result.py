"""What comes of a run: the raw answer, the refined one if that is asked for, their certificates, and what they cost."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import platform
import time
from dataclasses import replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from ..core.bounds import inseparability_witness
from ..core.certificate import Certificate, Certifier
from ..core.problem import DualProblem
from ..core.runtime import clock
from ..core.runtime.arrays import immutable
from ..core.solution import SHARP, Cost, Solution, Status
from ..refinement.refine import LARGE, support_set
from ..solvers import Solver
from .run import Run, number

__all__ = ["carry", "conclude", "conclude_interrupted", "provenance_of"]

#: Endings after which nothing is refined: time is up, or resuming is the way to an answer, which another would hide.
_SPENT = (
    Status.TIME_LIMIT,
    Status.INTERRUPTED,
    Status.BROKEN,
    Status.STOPPED,
    Status.DEVICE_FAILED,
    Status.BUDGET_SPENT,
)

#: Endings that no certificate changes: an estimator of many solves must see Ctrl-C even if this one was done.
_KEPT = (Status.BROKEN, Status.NOT_SEPARABLE, Status.INTERRUPTED)

#: Seconds past its limit in which a run's certificate is given up, and the solution left without.
GRACE_S = 0.3

#: How short of 1 a margin may fall and still be called round-off.
MARGIN = 1e-9

#: Endings that noise may explain.
_SOLVERS_OWN = (Status.FINISHED, Status.STATIONARY, Status.STEP_LIMIT)


def conclude(run: Run, refine: bool | str, problem: DualProblem) -> Solution:
    """The solution of the problem given, by a run of it (`centred`) that has ended; refined if asked."""
    if run.told is None:
        run.told = _told(run)
    if run.deadline is None:
        return _concluded(run, problem, run.told, refine)
    try:
        # The run has set time aside for this; a device that hung has taken some of it.
        with clock.within(max(run.deadline, time.monotonic()) + GRACE_S):
            return _concluded(run, problem, run.told, refine)
    except clock.OutOfTime:
        run.status = Status.TIME_LIMIT
        with clock.at_leisure():
            price = run.certifier.seconds(run.alpha())
        return replace(uncertified(run, problem), extras={"certificate_s": np.array(price)})


def conclude_interrupted(run: Run, problem: DualProblem) -> Solution:
    """The solution by a run that Ctrl-C has ended, or its conclusion: certified, and not refined."""
    if run.status not in _KEPT:
        run.status = Status.INTERRUPTED
    with clock.interruptible(clock.Interrupt()):
        run.settle()
        return conclude(run, False, problem)


def carry(error: BaseException, run: Run, problem: DualProblem) -> None:
    """Hang what a run had reached on an error that ends it, as ``error.solution``: its certificates are made when they
    are looked at, for Ctrl-C waits for nothing. An error that is of the call, before there was a state, has none."""
    if getattr(error, "solution", None) is not None or (run.state is None and isinstance(error, Exception)):
        return
    with contextlib.suppress(Exception):  # what failed may be what says the state, and an error may take no attribute
        run.status = Status.INTERRUPTED
        error.solution = uncertified(run, problem)  # type: ignore[attr-defined]


def uncertified(run: Run, problem: DualProblem) -> Solution:
    """What a run had reached, as its status says: certificates are made when they are looked at."""
    raw_alpha = immutable(run.alpha())
    alpha = immutable(problem.project(raw_alpha))
    return Solution(
        problem=problem,
        alpha=alpha,
        raw_alpha=raw_alpha,
        refined=False,
        support=np.flatnonzero(alpha),
        ended=run.status,
        raw_ended=run.status,
        tol=run.tol,
        cost=Cost(wall_time_s=run.seconds(), steps=run.steps, kernel_columns=run.columns()),
        trajectory=run.rows.trajectory() if run.record and len(run.rows) else None,
        provenance=provenance_of(run.engine, run.keeping.key.get("seed"), **run.arguments) | _errors_of(run),
    )


def _told(run: Run) -> dict[str, Any]:
    """What the solver itself says of its last state, if it came to one."""
    cost = {"wall_time_s": run.seconds(), "steps": run.steps, "kernel_columns": run.columns()}
    provenance = provenance_of(run.engine, run.keeping.key["seed"], **run.arguments)
    told = {"cost": cost, "extras": {}, "provenance": provenance}
    if run.state is not None:
        with run.keeping.accountable():
            told["cost"] |= run.engine.cost(run.context, run.state)
            told["extras"] = run.engine.extras(run.context, run.state)
            told["provenance"] |= run.engine.provenance(run.context, run.state)
    told["provenance"] |= _errors_of(run)
    return told


def _errors_of(run: Run) -> dict[str, str]:
    errors = {"device_error": run.device_error, "checkpoint_error": run.keeping.error}
    return {name: error for name, error in errors.items() if error is not None}


def _concluded(run: Run, problem: DualProblem, told: dict[str, Any], refine: bool | str) -> Solution:
    engine, raw_alpha = run.engine, immutable(run.alpha())
    if problem.total is not None:
        refine = False  # it knows of one equality; solvers of two meet their bounds exactly by themselves
    # Where certificates are rare and a refinement follows, the raw one is made when somebody looks at it.
    later = bool(refine) and run.certify_every > 1 and run.status is Status.FINISHED
    primal = run.primal()
    raw = None if later else run.certifier.certify(raw_alpha, primal=primal)
    if raw is not None and run.status not in _KEPT and run.within_tol(raw):
        run.status = Status.OPTIMAL
    elif run.status in _SOLVERS_OWN and engine.drowned(run.context, run.state):
        run.status = Status.DROWNED
    if refine == "early" and raw is not None and raw.reaches(run.tol) and problem.n > LARGE:
        refine = False  # which would take about as long again
    gradient = engine.gradient(run.context, run.state) if refine and run.state is not None else None
    if gradient is not None and (np.shape(gradient) != raw_alpha.shape or not np.isfinite(gradient).all()):
        gradient = None
    run.workspace = run.context = None  # the refinement may need the memory
    begun = time.monotonic()
    raw, certificate, ended, witness = _finish(run, raw_alpha, raw, refine, gradient, primal)
    refine_time_s = time.monotonic() - begun if refine else 0.0
    return Solution(
        problem=problem,
        alpha=certificate.alpha,
        raw_alpha=raw_alpha,
        refined=certificate is not raw,
        support=support_set(run.problem, certificate.alpha, run.certifier, certificate),
        ended=ended,
        raw_ended=run.status,
        tol=run.tol,
        cost=Cost(certify_time_s=run.certify_time_s, refine_time_s=refine_time_s, **told["cost"]),
        witness=witness,
        trajectory=run.rows.trajectory() if run.record else None,
        provenance=told["provenance"],
        extras=told["extras"],
        certified=certificate,
        raw_certified=raw,
    )


def _finish(
    run: Run,
    raw_alpha: NDArray,
    raw: Certificate | None,
    refine: bool | str,
    gradient: NDArray | None,
    primal: NDArray | None,
) -> tuple[Certificate | None, Certificate, Status, NDArray | None]:
    """Certificates of the raw answer, if it was made, and of the answer (the same one, if nothing was refined), how
    the run ended, and a witness if the data are not separable."""
    problem, status, witness = run.problem, run.status, run.witness
    start = raw_alpha if raw is None else raw.alpha
    if witness is None and problem.is_hard_margin and status is not Status.OPTIMAL:
        witness = inseparability_witness(problem, start)
    # Whether a hard margin exists at all is a fact about the data: it is looked for even unrefined.
    exact = (
        raw is not None
        and raw.reaches(SHARP)
        and raw.within(run.tol)
        and run.state is not None
        and run.engine.is_exact(run.state)
    )
    wanted = (refine and not exact) or (problem.is_hard_margin and status is not Status.OPTIMAL)
    convex = run.certifier.psd.kind != "indefinite"
    if witness is None and wanted and convex and status not in _SPENT:
        refinement = run.refined(start, gradient, run.tol if refine == "early" else 0.0)
        witness = refinement.witness
        if refine and witness is None:
            certificate = run.certifier.certify(refinement.alpha)
            if not certificate.within(run.tol):
                certificate = _stretched(run.certifier, certificate)
            if raw is None and not certificate.reaches(run.tol):
                raw = run.certifier.certify(raw_alpha, primal=primal)
            if refinement.late and not certificate.reaches(run.tol):
                status = Status.TIME_LIMIT
            if raw is None or not _rank(certificate, run.tol) > _rank(raw, run.tol):
                return raw, certificate, status, None
    raw = run.certifier.certify(start, primal=primal) if raw is None else raw
    return raw, raw, Status.NOT_SEPARABLE if witness is not None else status, witness


def _rank(certificate: Certificate, tol: float) -> tuple[bool, float]:
    """Certificates in order of what they are worth: what rounding may hide counts where it decides, then the gap."""
    return not certificate.within(tol), number(certificate.relative_gap)


def _stretched(certifier: Certifier, certificate: Certificate) -> Certificate:
    """That of α a few ulp larger, if it is the better one.

    A margin that round-off leaves at 1 − 1e-16 costs C · 1e-16, which a large C makes more than all the rest; where no
    variable is at its bound, stretching α takes every margin past 1, at a price of second order.
    """
    problem, alpha = certifier.problem, certificate.alpha
    price = float(problem.p.max())
    if problem.d != 0 or not 0 < price == float(problem.p.min()) or (alpha >= problem.upper).any():
        return certificate
    doubt = number(certificate.rounding) / float(problem.upper.max())  # of a margin, in float64
    short = (doubt - float(certifier.rho(certificate).min())) / price
    if not 0 < short < MARGIN:
        return certificate
    other = certifier.certify(alpha * (1.0 + 2.0 * short))
    known, found = (number(one.relative_gap) + number(one.relative_rounding) for one in (certificate, other))
    return other if found < known else certificate


@functools.cache
def _versions() -> dict[str, str]:
    return {
        "dualflow": importlib.metadata.version("dualflow"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
    }


def provenance_of(
    engine: Solver[Any, Any],
    seed: Any,
    refine: bool | str = False,
    max_steps: int | None = None,
    strategy: str | None = None,
) -> dict[str, Any]:
    """What a reader needs to repeat a solve, and the strategy that was taken: by default the solver's name."""
    return {
        "solver": engine.name,
        "strategy": engine.name if strategy is None else strategy,
        "options": dict(vars(engine)),
        "seed": seed,
        "refine": refine,
        "max_steps": max_steps,
        "versions": dict(_versions()),
    }
