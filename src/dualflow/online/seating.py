"""An engine judged by what it knows, and put where another method has found the optimum."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ._path import BOUND, COUNT, DRIVEN, ENTERING, FLOOR, FREE, MULTIPLIER, PENDING, REST, STRAYED, tally
from .incremental import Engine
from .state import PathError

__all__ = ["balance", "known_gap", "seat"]

#: What is left of a point's Q_kk outside the span of the margin points, from which on it joins them; stricter ones are
#: tried where the margin's system cannot be factorised.
INDEPENDENT = (1e-9, 1e-7, 1e-5, 1e-3)
#: The part of the weights by which their sum may be off.
INFEASIBLE = 1e-10


def known_gap(engine: Engine) -> tuple[float, float]:
    """The relative gap by the engine's own g and b, f − D = αᵀg − b(eᵀα − d) + Σᵢ uᵢ max(−gᵢ, 0) over the learned.

    Never below that of the exact g with its best b, up to what g has lost: the second one is the largest it can be if
    every g is off by the round-off of its largest terms.
    """
    weight, surplus, slack, price, short, most = found = tally(engine)
    if np.isnan(found).any():
        return np.inf, np.inf
    if weight == 0.0:
        # Then g is known without any product, whatever the engine made of it on the way here.
        live = (engine.where != PENDING) & (engine.u > 0)
        g = engine.b * engine.e[live] - engine.p[live]
        wrong = bool((g < -STRAYED * float(engine.figures[FLOOR])).any())
        return (np.inf, np.inf) if wrong else (0.0, 0.0)
    if abs(surplus) > INFEASIBLE * weight:
        return np.inf, np.inf
    moved = abs(engine.b * surplus)
    objective = 0.5 * (slack - price - engine.b * (surplus + engine.d))
    gap, doubtful = (max(0.0, slack + violated) + moved for violated in (short, most))
    return _part(gap, objective), _part(doubtful + float(engine.figures[FLOOR]) * weight, objective)


def _part(gap: float, objective: float) -> float:
    size = max(abs(objective), abs(objective - gap))
    return gap / size if size > 0 else float(gap > 0)


def balance(engine: Engine) -> None:
    """Take what round-off has made of eᵀα − d from the margin point with most room; g is to be computed anew.

    Where all kernel values are nearly the same it moves every g by more than these differ.
    """
    S = engine.margin
    if not engine.bordered or len(S) == 0:
        return
    excess = engine.e[S] * (float(engine.e @ engine.alpha) - engine.d)
    room = np.where(excess > 0, engine.alpha[S], engine.u[S] - engine.alpha[S])
    k = int(np.argmax(room))
    if abs(excess[k]) < room[k]:
        engine.alpha[S[k]] -= excess[k]


def seat(engine: Engine, alpha: NDArray, b: float, lead: bool = True) -> None:
    """Put an engine at a feasible α and its multiplier.

    Learned variables are where α has them, and the margin is those between their bounds that are independent. The
    others of these are led to a bound, or left at what they have, as if that were one.

    Raises
    ------
    PathError
        The path breaks off as they are led.
    """
    engine.near = None
    live = engine.where != PENDING
    engine.alpha[:] = np.where(live, alpha, 0.0)
    engine.where[live] = np.where(engine.alpha >= engine.u, BOUND, REST)[live]
    engine.where[live & (engine.u == 0)] = REST
    inside = np.flatnonzero(live & (engine.alpha > 0) & (engine.alpha < engine.u))
    engine.counters[ENTERING] = -1
    engine.figures[MULTIPLIER] = b
    for least in INDEPENDENT:
        if _take_for_margin(engine, _independent(engine, inside, least)):
            break
    else:
        _take_for_margin(engine, inside[:1])
    engine.g[:] = engine.matrix.product(engine.alpha) - engine.p + b * engine.e
    engine.measure()
    if not lead:
        return
    others = inside[engine.where[inside] != FREE]
    engine.where[others] = DRIVEN
    engine.polish()
    for k in others:
        engine.learn(int(k))
    engine.refresh(patient=False)


def _take_for_margin(engine: Engine, S: NDArray) -> bool:
    """Make these variables the margin; False where their system is singular."""
    m = len(S)
    engine.counters[COUNT] = 0
    engine.pool.evict(engine.margin, 0)
    engine.counters[COUNT] = m
    engine.make_room()
    engine.members[:m] = S
    for k in S:
        engine.bring(int(k))
    engine.member_slots[:m] = engine.pool.slot[S]
    try:
        engine.refactorise(engine)
    except PathError:
        engine.counters[COUNT] = 0
        return False
    engine.where[S] = FREE
    return True


def _independent(engine: Engine, J: NDArray, least: float) -> NDArray:
    """Those of J that make a margin: by a pivoted Cholesky factor of Q on the directions that leave eᵀα as it is."""
    if len(J) < 2:
        return J
    Q = engine.matrix.block(J, J)
    first = int(np.argmax(engine.diag[J]))
    if engine.bordered:
        signs = engine.e[J] * engine.e[J[first]]
        row = signs * Q[first]
        Q = signs[:, None] * signs * Q - row[:, None] - row + Q[first, first]
        Q[first] = Q[:, first] = 0.0
    scale = np.sqrt(engine.diag[J])
    scale[scale == 0] = 1.0
    Q = 0.5 * (Q + Q.T) / scale / scale[:, None]
    _, pivots, rank, _ = scipy.linalg.lapack.dpstrf(Q, tol=least, lower=1)
    chosen = pivots[:rank] - 1
    if engine.bordered:
        chosen = np.union1d(chosen, [first])
    return J[np.sort(chosen)]
