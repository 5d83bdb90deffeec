"""Check that a stream is at its optimum, and restore the optimum where it is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import EPS
from ..core.certificate import Certificate, certify
from ..core.problem import DualProblem
from ._path import AT_LOWER, MULTIPLIER, PENDING
from .growing_problem import Stream
from .optimum_transfer import restore_equality, set_optimum, tracked_gap

#: A state is accepted as optimal up to this relative gap.
MAX_GAP = 5e-7
#: Rounding error of a kernel value that the engine's round-off error of g allows for, in units of ε k(x, x).
ENGINE_GROWTH = 16.0
#: No point, as an index array.
NO_POINTS = np.empty(0, dtype=np.intp)

#: Function of a problem and a start that returns the certificate of the problem's optimum.
Improve = Callable[[DualProblem, NDArray], Certificate]


def restore_optimum(stream: Stream, optimum: Improve, removed: NDArray = NO_POINTS) -> float | None:
    """Bring all points of a stream except ``removed`` to their optimum and return the relative gap that is left.

    The tracked gap is tried first, then the gap after the margin's system and all g are computed from scratch. If
    neither is small enough, ``optimum`` solves the batch problem from the present α, and the engine continues from its
    answer. Where a certificate was computed, its rounding error is added to the gap.

    Returns
    -------
    gap : float or None
        None if there is no finite gap, because the kernel is not positive semidefinite.

    Raises
    ------
    PathError
        The path broke off because the kernel is not positive semidefinite.
    """
    engine = stream.engine
    left = np.delete(stream.weights, removed) if len(removed) else stream.weights
    if not left.any():  # no point is left, or none with a weight
        stream.path_error = None
        return 0.0
    if stream.path_error is None:
        gap, rounding = _gap(stream, removed)
        if gap <= MAX_GAP:
            return gap + rounding
        with stream.catching_path_errors():
            engine.refactorise(engine)
            engine.refresh(complete=False)
            gap, rounding = _gap(stream, removed)
            if gap <= MAX_GAP:
                return gap + rounding
    return _solve_batch(stream, optimum, removed)


def _gap(stream: Stream, removed: NDArray) -> tuple[float, float]:
    """Return the relative gap and its rounding error: the tracked gap, or the certified one if the former is undecided.

    With a certificate, b and g are set to the certificate's, which are more exact than those of the engine.
    """
    engine = stream.engine
    gap, max_excess = tracked_gap(engine)
    if gap > MAX_GAP or max_excess + _kernel_rounding(stream) <= MAX_GAP:
        return gap, 0.0
    restore_equality(engine)  # otherwise the certificate's b would belong to another α
    live = np.setdiff1d(np.arange(stream.n), removed)
    certificate = certify(stream.problem_of(live), stream.alpha_of(live))
    if certificate.relative_gap is None:
        return np.inf, 0.0
    engine.figures[MULTIPLIER] = -(certificate.multiplier or 0.0) * stream.unit
    engine.recompute()
    return certificate.relative_gap, certificate.relative_rounding or 0.0


def _kernel_rounding(stream: Stream) -> float:
    """Return a bound of the relative gap's error by inexact kernel values; 0 where the engine's own estimate covers it.

    The engine counts `ENGINE_GROWTH` ε for each kernel value. Those of a radial kernel between points that are many
    widths apart have larger errors.
    """
    growth = stream.gram.growth
    if growth <= ENGINE_GROWTH:
        return 0.0
    engine = stream.engine
    learned = engine.where != PENDING
    bounds = np.where(np.isfinite(engine.u), engine.u, engine.d)[learned]
    errors = EPS * growth * float(engine.alpha.sum()) * float(engine.diag.max(initial=0.0))
    size = abs(float(engine.alpha @ (engine.g - engine.p)) - engine.b * engine.d) / 2.0
    return errors * float(bounds.sum()) / size if size > 0 else np.inf


def _solve_batch(stream: Stream, optimum: Improve, removed: NDArray) -> float | None:
    """Solve the batch problem by ``optimum``, set the engine to its answer, and return the gap that is left."""
    engine, model, path_error = stream.engine, stream.model, stream.path_error
    live = np.setdiff1d(np.arange(stream.n), removed)
    variables = stream.variables_of(live)
    if path_error is not None:
        engine.where[:] = PENDING
        engine.where[variables] = np.where(engine.u[variables] > 0, AT_LOWER, PENDING)
        engine.d = model.total(float(stream.weights[live].sum()))
        engine.p[:] = stream.variables(stream.targets, stream.gram.diag(), stream.weights)[0]
    problem = stream.problem_of(live)
    found = optimum(problem, stream.alpha_of(live))
    if found.relative_gap is None:
        if path_error is not None:
            raise path_error
        return None
    stream.path_error = None
    alpha = np.zeros(engine.n)
    at_bound = found.alpha >= problem.upper
    alpha[variables] = np.where(at_bound, engine.u[variables], found.alpha * stream.unit)
    b = -(found.multiplier or 0.0) * stream.unit
    with stream.catching_path_errors():
        set_optimum(engine, alpha, b)
    if stream.path_error is not None or _gap(stream, removed)[0] > max(MAX_GAP, found.relative_gap):
        stream.path_error = None
        set_optimum(engine, alpha, b, lead=False)
    certificate = certify(problem, stream.alpha_of(live))
    gap, rounding = certificate.relative_gap, certificate.relative_rounding
    return None if gap is None else gap + (rounding or 0.0)
