"""The gap of an engine by its own gradients, and the transfer of an optimum from another method to an engine."""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ._path import (
    AT_LOWER,
    AT_UPPER,
    COUNT,
    ENTERING,
    FLOOR,
    FREE,
    MOVING,
    MULTIPLIER,
    PENDING,
    VIOLATION_FACTOR,
    gap_terms,
)
from .engine import Engine
from .state import PathError

#: A point joins the margin if the part of Q_kk outside the span of the margin points exceeds this share. If the
#: margin's system cannot be factorised, the larger values are tried in turn.
RANK_TOLERANCES = (1e-9, 1e-7, 1e-5, 1e-3)
#: If |eᵀα − d| / Σα exceeds this, the tracked gap is infinite.
MAX_TRACKED_EQUALITY_ERROR = 1e-10


def tracked_gap(engine: Engine) -> tuple[float, float]:
    """Return the relative gap by the engine's own g and b, and an upper bound of it; set g where α = 0.

    The gap is αᵀg − b(eᵀα − d) + Σᵢ uᵢ max(−gᵢ, 0), summed over the learned variables. With exact g it is never below
    the gap for the best b. The upper bound assumes that every g is too large by its round-off error.
    """
    alpha_sum, residual, alpha_g, alpha_p, excess, max_excess = found = gap_terms(engine)
    if np.isnan(found).any():
        return np.inf, np.inf
    if alpha_sum == 0.0:
        # α = 0: g follows without a product. The engine's own has the round-off of α that were clipped to 0.
        engine.g[:] = engine.b * engine.e - engine.p
        live = (engine.where != PENDING) & (engine.u > 0)
        wrong = bool((engine.g[live] < -VIOLATION_FACTOR * float(engine.figures[FLOOR])).any())
        return (np.inf, np.inf) if wrong else (0.0, 0.0)
    if abs(residual) > MAX_TRACKED_EQUALITY_ERROR * alpha_sum:
        return np.inf, np.inf
    equality_term = abs(engine.b * residual)
    objective = 0.5 * (alpha_g - alpha_p - engine.b * (residual + engine.d))
    gap, max_gap = (max(0.0, alpha_g + violated) + equality_term for violated in (excess, max_excess))
    return _relative_gap(gap, objective), _relative_gap(max_gap + float(engine.figures[FLOOR]) * alpha_sum, objective)


def _relative_gap(gap: float, objective: float) -> float:
    """Return the gap relative to the larger of the primal and the dual objective."""
    size = max(abs(objective), abs(objective - gap))
    return gap / size if size > 0 else float(gap > 0)


def restore_equality(engine: Engine) -> None:
    """Subtract the round-off of eᵀα − d from the margin point with most room; g must be computed anew afterwards.

    Where all kernel values are nearly equal, this round-off moves every g by more than their differences.
    """
    S = engine.margin
    if not engine.bordered or len(S) == 0:
        return
    excess = engine.e[S] * (float(engine.e @ engine.alpha) - engine.d)
    room = np.where(excess > 0, engine.alpha[S], engine.u[S] - engine.alpha[S])
    k = int(np.argmax(room))
    if abs(excess[k]) < room[k]:
        engine.alpha[S[k]] -= excess[k]


def set_optimum(engine: Engine, alpha: NDArray, b: float, lead: bool = True) -> None:
    """Set an engine to a feasible α and its multiplier b.

    Learned variables get their values from α. The margin is a set of independent variables strictly between their
    bounds. If ``lead``, the other variables between their bounds are moved to a bound or to the margin; otherwise
    they keep their values, as if these were bounds.

    Raises
    ------
    PathError
        The path breaks off while these variables are moved.
    """
    engine.near = None
    live = engine.where != PENDING
    engine.alpha[:] = np.where(live, alpha, 0.0)
    engine.where[live] = np.where(engine.alpha >= engine.u, AT_UPPER, AT_LOWER)[live]
    engine.where[live & (engine.u == 0)] = AT_LOWER
    inside = np.flatnonzero(live & (engine.alpha > 0) & (engine.alpha < engine.u))
    engine.counters[ENTERING] = -1
    engine.figures[MULTIPLIER] = b
    for least in RANK_TOLERANCES:
        if _set_margin(engine, _independent(engine, inside, least)):
            break
    else:
        _set_margin(engine, inside[:1])
    engine.g[:] = engine.matrix.product(engine.alpha) - engine.p + b * engine.e
    engine.update_floor()
    if not lead:
        return
    others = inside[engine.where[inside] != FREE]
    engine.where[others] = MOVING
    engine.polish()
    for k in others:
        engine.learn(int(k))
    engine.refresh(complete=False)


def _set_margin(engine: Engine, S: NDArray) -> bool:
    """Make these variables the margin; return False if their system is singular."""
    m = len(S)
    engine.counters[COUNT] = 0
    engine.pool.evict(engine.margin, 0)
    engine.counters[COUNT] = m
    engine.make_room()
    engine.members[:m] = S
    for k in S:
        engine.cache_column(int(k))
    engine.member_slots[:m] = engine.pool.slot[S]
    try:
        engine.refactorise(engine)
    except PathError:
        engine.counters[COUNT] = 0
        return False
    engine.where[S] = FREE
    return True


def _independent(engine: Engine, J: NDArray, least: float) -> NDArray:
    """Return the variables of J that can form a margin.

    They are the pivots of a pivoted Cholesky factor of Q on the directions that leave eᵀα unchanged.
    """
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
