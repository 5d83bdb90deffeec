"""The solution of a run that has ended: the raw answer, the refined one if requested, their certificates and costs."""

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
from ..core.solution import MAX_GAP_UNREFINED, Cost, Solution, Status
from ..refinement.refine import MAX_N_REFINED, support_set, supporting
from ..solvers import Solver
from .run import Run, number

#: Statuses after which nothing is refined: the time is over, or the run can be resumed for an answer of its own.
_NOT_REFINED = (
    Status.TIME_LIMIT,
    Status.INTERRUPTED,
    Status.BROKEN,
    Status.STOPPED,
    Status.DEVICE_FAILED,
    Status.BUDGET_SPENT,
)

#: Statuses that no certificate changes: an estimator of many solves must see Ctrl-C even if this solve was complete.
_FINAL = (Status.BROKEN, Status.NOT_SEPARABLE, Status.INTERRUPTED)

#: Seconds after its time limit at which a run's certificate is given up: a fit ends within a second or 5 % of its
#: limit, whichever is more, and what follows the certificate takes less than the rest of that second.
GRACE_S = 0.7
#: The same as a part of the limit.
GRACE_PART = 0.04

#: If a margin differs from 1 by at most this, the difference is round-off.
MAX_MARGIN_SHORTFALL = 1e-9

#: Statuses that the noise of a sampling solver may explain.
_MAY_BE_NOISE = (Status.FINISHED, Status.STATIONARY, Status.STEP_LIMIT)


def conclude(run: Run, refine: bool | str, problem: DualProblem) -> Solution:
    """Return the solution of a problem from a run of it (`centred`) that has ended, refined if ``refine`` is set."""
    if run.reported is None:
        run.reported = _reported_by_solver(run)
    if run.deadline is None:
        return _solution_of(run, problem, run.reported, refine)
    grace_s = max(GRACE_S, GRACE_PART * (run.deadline - run.started))
    try:
        # The run has reserved time for this, of which a device that hung may have used a part.
        with clock.within(max(run.deadline, time.monotonic()) + grace_s):
            return _solution_of(run, problem, run.reported, refine)
    except clock.OutOfTime:
        run.status = Status.TIME_LIMIT
        with clock.without_time_limit():
            if run.certifier.last is not None:
                return _last_certified(run, problem, *run.certifier.last)
            needed_s = run.certifier.seconds(run.alpha())
        return replace(uncertified(run, problem), extras={"certificate_s": np.array(needed_s)})


def conclude_interrupted(run: Run, problem: DualProblem) -> Solution:
    """Return the certified, unrefined solution of a run that Ctrl-C has ended, in its loop or later."""
    if run.status not in _FINAL:
        run.status = Status.INTERRUPTED
    with clock.interruptible(clock.Interrupt()):
        run.save_final()
        return conclude(run, False, problem)


def attach_solution(error: BaseException, run: Run, problem: DualProblem) -> None:
    """Set ``error.solution`` of an error that ends a run: the solution so far, certified when it is read.

    Ctrl-C must not wait for a certificate. Errors before the first state get no solution.
    """
    if getattr(error, "solution", None) is not None or (run.state is None and isinstance(error, Exception)):
        return
    with contextlib.suppress(Exception):  # reading the state may be what failed, and some errors accept no attribute
        run.status = Status.INTERRUPTED
        error.solution = uncertified(run, problem)  # type: ignore[attr-defined]


def uncertified(run: Run, problem: DualProblem) -> Solution:
    """Return the solution of a run so far; its certificates are made when they are read."""
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
        provenance=provenance_of(run.engine, run.checkpoint_file.key.get("seed"), **run.arguments) | _errors_of(run),
    )


def _last_certified(run: Run, problem: DualProblem, raw_alpha: NDArray, certificate: Certificate) -> Solution:
    """Return the solution of the state that was certified last, where the time is over for that of the last state."""
    return replace(
        uncertified(run, problem),
        alpha=certificate.alpha,
        raw_alpha=immutable(raw_alpha),
        support=supporting(run.certifier.problem, certificate.alpha, run.certifier.rho(certificate)),
        certified=certificate,
        raw_certified=certificate,
    )


def _reported_by_solver(run: Run) -> dict[str, Any]:
    """Return cost, extras and provenance, with what the solver reports of its last state."""
    cost = {"wall_time_s": run.seconds(), "steps": run.steps, "kernel_columns": run.columns()}
    provenance = provenance_of(run.engine, run.checkpoint_file.key["seed"], **run.arguments)
    reported = {"cost": cost, "extras": {}, "provenance": provenance}
    if run.state is not None:
        with run.checkpoint_file.blame_file():
            reported["cost"] |= run.engine.cost(run.context, run.state)
            reported["extras"] = run.engine.extras(run.context, run.state)
            reported["provenance"] |= run.engine.provenance(run.context, run.state)
    reported["provenance"] |= _errors_of(run)
    return reported


def _errors_of(run: Run) -> dict[str, str]:
    """Return the errors of device and checkpoint, for the provenance."""
    errors = {"device_error": run.device_error, "checkpoint_error": run.checkpoint_file.error}
    return {name: error for name, error in errors.items() if error is not None}


def _solution_of(run: Run, problem: DualProblem, reported: dict[str, Any], refine: bool | str) -> Solution:
    """Return the certified solution of a run, refined if ``refine`` is set."""
    engine, raw_alpha = run.engine, immutable(run.alpha())
    if problem.total is not None:
        refine = False  # a refinement handles one equality; solvers of two equalities meet bounds exactly themselves
    # If certificates are rare and a refinement follows, the raw certificate is made when it is read.
    later = bool(refine) and run.certify_every > 1 and run.status is Status.FINISHED
    primal = run.primal()
    raw = None if later else run.certifier.certify(raw_alpha, primal=primal)
    if raw is not None and run.status not in _FINAL and run.within_tol(raw):
        run.status = Status.OPTIMAL
    elif run.status in _MAY_BE_NOISE and engine.is_noise_dominated(run.context, run.state):
        run.status = Status.NOISE_DOMINATED
    if refine == "early" and raw is not None and raw.reaches(run.tol) and problem.n > MAX_N_REFINED:
        # It would take about as long again, unless the state has the right bounds: then its products are over points.
        near = run.state is not None and engine.is_exact(run.state) and problem.gram.n <= MAX_N_REFINED
        refine = refine if near else False
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
        cost=Cost(certify_time_s=run.certify_time_s, refine_time_s=refine_time_s, **reported["cost"]),
        witness=witness,
        trajectory=run.rows.trajectory() if run.record else None,
        provenance=reported["provenance"],
        extras=reported["extras"],
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
    """Refine if requested, and certify.

    Returns
    -------
    raw : Certificate or None
        Of the raw answer; None if it is made later.
    certificate : Certificate
        Of the answer; ``raw`` if nothing was refined, or if the raw answer is better.
    status : Status
    witness : array or None
        If the data are not separable.
    """
    problem, status, witness = run.problem, run.status, run.witness
    start = raw_alpha if raw is None else raw.alpha
    if witness is None and problem.is_hard_margin and status is not Status.OPTIMAL:
        witness = inseparability_witness(problem, start)
    exact = (
        raw is not None
        and raw.reaches(MAX_GAP_UNREFINED)
        and raw.within(run.tol)
        and run.state is not None
        and run.engine.is_exact(run.state)
    )
    # A hard-margin problem is refined even if not requested: that tells whether the data are separable.
    refines = (refine and not exact) or (problem.is_hard_margin and status is not Status.OPTIMAL)
    convex = run.certifier.psd.kind != "indefinite"
    if witness is None and refines and convex and status not in _NOT_REFINED:
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
    """Return a sort key for certificates, best first: within tol with its `rounding`, then by gap."""
    return not certificate.within(tol), number(certificate.relative_gap)


def _stretched(certifier: Certifier, certificate: Certificate) -> Certificate:
    """Return the certificate of α stretched by a few ulp, if it is the better one.

    A margin that round-off leaves at 1 − 1e-16 adds C · 1e-16 to the gap, which dominates the gap if C is large. If no
    variable is at its bound, stretching α takes every margin past 1, and adds a term of second order only.
    """
    problem, alpha = certifier.problem, certificate.alpha
    common_p = float(problem.p.max())
    if problem.d != 0 or not 0 < common_p == float(problem.p.min()) or (alpha >= problem.upper).any():
        return certificate
    rounding = number(certificate.rounding) / float(problem.upper.max())  # of a margin, in float64
    short = (rounding - float(certifier.rho(certificate).min())) / common_p
    if not 0 < short < MAX_MARGIN_SHORTFALL:
        return certificate
    other = certifier.certify(alpha * (1.0 + 2.0 * short))
    known, found = (number(one.relative_gap) + number(one.relative_rounding) for one in (certificate, other))
    return other if found < known else certificate


@functools.cache
def _versions() -> dict[str, str]:
    """Return the versions of this package, Python, numpy and scipy."""
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
    """Return what is needed to repeat a solve, and the strategy, which is the solver's name if none is given."""
    return {
        "solver": engine.name,
        "strategy": engine.name if strategy is None else strategy,
        "options": dict(vars(engine)),
        "seed": seed,
        "refine": refine,
        "max_steps": max_steps,
        "versions": dict(_versions()),
    }
