"""A stream is at its optimum after every call, or says how far from it: what is known, checked and mended."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate, certify
from ..core.problem import DualProblem
from ._path import MULTIPLIER, PENDING, REST
from .remembering import Stream
from .seating import balance, known_gap, seat

__all__ = ["Improve", "settle"]

#: Relative gap up to which a state is left as it is.
ENOUGH = 5e-7
NOBODY = np.empty(0, dtype=np.intp)

#: The certificate of the optimum of a problem, from a start nearby.
Improve = Callable[[DualProblem, NDArray], Certificate]


def settle(stream: Stream, optimum: Improve, gone: NDArray = NOBODY) -> float | None:
    """Bring all points of a stream but those ``gone`` to their optimum; return the relative gap that is left, with what
    float64 may have rounded away of it where a certificate was made.

    By what is known, if that says so; else by the margin's system and all g made anew; else by ``optimum``, which
    solves the batch problem from where this stands, and from whose answer the path goes on. None if there is no
    gap, as the kernel is not positive semidefinite.

    Raises
    ------
    PathError
        The path broke off, for that reason.
    """
    engine = stream.engine
    if stream.n == len(gone):
        stream.lost = None
        return 0.0
    if stream.lost is None:
        gap, rounding = _gap(stream, gone)
        if gap <= ENOUGH:
            return gap + rounding
        with stream.on_the_path():
            engine.refactorise(engine)
            engine.refresh(patient=False)
            gap, rounding = _gap(stream, gone)
            if gap <= ENOUGH:
                return gap + rounding
    return _solve_anew(stream, optimum, gone)


def _gap(stream: Stream, gone: NDArray) -> tuple[float, float]:
    """The relative gap, and its rounding: what is known of it, or where that leaves it open, the certified one.

    Then g and b are the certificate's as well: those of the engine are known to less than the model is worth.
    """
    gap, most = known_gap(stream.engine)
    if gap > ENOUGH or most <= ENOUGH:
        return gap, 0.0
    balance(stream.engine)  # the certificate's b would be that of another α
    live = np.setdiff1d(np.arange(stream.n), gone)
    certificate = certify(stream.problem_of(live), stream.alpha_of(live))
    if certificate.relative_gap is None:
        return np.inf, 0.0
    stream.engine.figures[MULTIPLIER] = -(certificate.multiplier or 0.0) * stream.unit
    stream.engine.recompute()
    return certificate.relative_gap, certificate.relative_rounding or 0.0


def _solve_anew(stream: Stream, optimum: Improve, gone: NDArray) -> float | None:
    """Put the engine where ``optimum`` says; the gap that is left there."""
    engine, model, lost = stream.engine, stream.model, stream.lost
    live = np.setdiff1d(np.arange(stream.n), gone)
    variables = stream.variables_of(live)
    if lost is not None:
        engine.where[:] = PENDING
        engine.where[variables] = REST
        engine.d = model.total(len(live))
        engine.p[:] = stream.variables(stream.targets, stream.gram.diag())[0]
    problem = stream.problem_of(live)
    found = optimum(problem, stream.alpha_of(live))
    if found.relative_gap is None:
        if lost is not None:
            raise lost
        return None
    stream.lost = None
    alpha = np.zeros(engine.n)
    at_bound = found.alpha >= problem.upper
    alpha[variables] = np.where(at_bound, engine.u[variables], found.alpha * stream.unit)
    b = -(found.multiplier or 0.0) * stream.unit
    with stream.on_the_path():
        seat(engine, alpha, b)
    if stream.lost is not None or _gap(stream, gone)[0] > max(ENOUGH, found.relative_gap):
        stream.lost = None
        seat(engine, alpha, b, lead=False)
    certificate = certify(problem, stream.alpha_of(live))
    gap, rounding = certificate.relative_gap, certificate.relative_rounding
    return None if gap is None else gap + (rounding or 0.0)
