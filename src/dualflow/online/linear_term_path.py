"""The optimum as a piecewise linear function of a parameter in the linear term, from breakpoint to breakpoint.

For min ½ αᵀQα − (p + tr)ᵀα, 0 ≤ α ≤ u, eᵀα = d (or no equality), the optimum α(t) and its multiplier are piecewise
linear in t. The path along C of a support vector machine is one of these (Hastie, Rosset, Tibshirani, Zhu 2004), in the
variables α/C with t = 1/C, and so is the path along ε of a regression (Wang, Yeung, Lochovsky 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from ..core.runtime.clock import check_time
from ._path import AT_LOWER, AT_UPPER, ENTERING, FREE, TRAVELLED
from .hinge_updates import DenseMatrix
from .incremental import Engine
from .optimum_transfer import set_optimum, tracked_gap
from .state import PathError

__all__ = ["LinearTermPath", "Solve", "follow_linear_term"]

#: Ratio of t, or part of the whole way if t changes its sign, after which all gradients are computed from scratch.
SECTION_RATIO = 2.0
#: Sections of the whole way, at least.
MIN_SECTIONS = 8
#: Breakpoints closer than this, relative to t, are one.
MIN_DISTANCE = 1e-13
#: Distance from a bound, relative to it, that is round-off.
ROUND_OFF = 1e-13
#: Deviation of α from a straight line, relative to its bounds, that is none.
MAX_DEVIATION = 1e-12
#: Part of a section that is left out, where the path breaks off, before the optimum is computed anew.
LEFT_OUT_RATIO = 1e-3
#: Times that the path may break off.
MAX_BREAKS = 200
#: Relative gap at the end of a section, beyond which round-off has spoiled the section.
MAX_GAP_SECTION = 1e-9
#: The same in units of the gap at its start, which the solver may have left.
MAX_GAP_GROWTH = 10.0
#: Part of the first width of a section, below which a spoiled one is left out instead of halved.
MIN_SECTION_SHARE = 1.0 / 16.0

#: Returns the optimum and its multiplier ν at t.
Solve = Callable[[float], tuple[NDArray, float]]


@dataclass(frozen=True)
class LinearTermPath:
    """Optima at breakpoints; between two of them α is linear in t. Two may be at the same t, if Q is singular.

    Attributes
    ----------
    t : array of shape (k,)
        In the order of the path.
    codes : int8 array of shape (k, n)
        The set of each variable at the breakpoint: at 0, at its bound, or free.
    free : list of arrays
        The free variables at each breakpoint, ...
    values : list of arrays
        ... and their α.
    breaks : array of shape (k,)
        Whether the path broke off before this breakpoint, so that α is not known between it and the one before.
    upper : array of shape (n,)
    """

    t: NDArray
    codes: NDArray
    free: list[NDArray]
    values: list[NDArray]
    breaks: NDArray
    upper: NDArray

    def at(self, k: int) -> NDArray:
        """Return α at the k-th breakpoint."""
        alpha = np.where(self.codes[k] == AT_UPPER, self.upper, 0.0)
        alpha[self.free[k]] = self.values[k]
        return alpha

    def between(self, t: float) -> NDArray:
        """Return α at any t of the path."""
        order = self.t if self.t[-1] >= self.t[0] else -self.t
        here = t if order is self.t else -t
        k = int(np.clip(np.searchsorted(order, here), 1, len(order) - 1))
        left, right = order[k - 1], order[k]
        share = 0.0 if right == left else (here - left) / (right - left)
        return (1.0 - share) * self.at(k - 1) + share * self.at(k)


@dataclass(frozen=True)
class _Row:
    t: float
    codes: NDArray
    free: NDArray
    values: NDArray
    broken: bool


class _Record:
    """The breakpoints of an engine on its way."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.begin, self.sign = 0.0, 1.0
        self.rows: list[_Row] = []
        #: Relative gap up to which the engine's α counts as the optimum.
        self.max_gap = MAX_GAP_SECTION

    def is_optimum(self, p: NDArray) -> bool:
        """Whether the engine's α is the optimum of the linear term p, or as near as the round-off of its gradients."""
        self.engine.p[:] = p
        self.engine.recompute()
        gap, gap_and_rounding = tracked_gap(self.engine)
        return gap <= max(self.max_gap, gap_and_rounding - gap)

    def note(self, broken: bool = False) -> None:
        """Add the engine's state, or replace the last one at the same t; ``broken``: the path broke off before it."""
        engine = self.engine
        t = self.begin + self.sign * float(engine.figures[TRAVELLED])
        codes = engine.where.copy()
        if (entering := int(engine.counters[ENTERING])) >= 0:  # it joins the margin here
            codes[entering] = FREE
        free = np.flatnonzero(codes == FREE)
        alpha, upper = engine.alpha[free], engine.u[free]
        alpha = np.where(alpha <= ROUND_OFF * upper, 0.0, np.where(upper - alpha <= ROUND_OFF * upper, upper, alpha))
        row = _Row(t, codes, free, alpha, broken)
        last = self.rows[-1] if self.rows else row
        is_here = bool(self.rows) and not broken and abs(t - last.t) <= MIN_DISTANCE * max(abs(t), abs(last.t))
        if is_here and (np.abs(self._alpha(row) - self._alpha(last)) <= MAX_DEVIATION * engine.u).all():
            self.rows[-1] = replace(row, broken=last.broken)
        else:  # where Q is singular, α may jump from one optimum to another of the same t
            self.rows.append(replace(row, t=last.t) if is_here else row)

    def path(self) -> LinearTermPath:
        """Return the breakpoints of α; there is none where only the multiplier bends, or where a section ends."""
        rows = self.rows
        kept = [rows[0]]
        for here, after in pairwise(rows[1:]):
            if not self._is_straight(kept[-1], here, after):
                kept.append(here)
        kept.append(rows[-1])
        return LinearTermPath(
            np.array([row.t for row in kept]),
            np.array([row.codes for row in kept]),
            [row.free for row in kept],
            [row.values for row in kept],
            np.array([row.broken for row in kept]),
            self.engine.u.copy(),
        )

    def _is_straight(self, before: _Row, here: _Row, after: _Row) -> bool:
        """Whether α is linear around a row."""
        if here.broken or after.broken or not before.t != here.t != after.t:
            return False
        low, middle, high = (self._alpha(row) for row in (before, here, after))
        share = (here.t - before.t) / (after.t - before.t)
        deviation = np.abs((1.0 - share) * low + share * high - middle)
        return bool((deviation <= MAX_DEVIATION * self.engine.u).all())

    def _alpha(self, row: _Row) -> NDArray:
        alpha = np.where(row.codes == AT_UPPER, self.engine.u, 0.0)
        alpha[row.free] = row.values
        return alpha


def follow_linear_term(
    Q: NDArray, e: NDArray | None, upper: NDArray, p: NDArray, rate: NDArray, span: tuple[float, float], solve: Solve
) -> LinearTermPath:
    """Return the optima from t = ``span[0]`` to ``span[1]``.

    Parameters
    ----------
    Q : array of shape (n, n), positive semidefinite
    e : array of shape (n,) or None
        Signs of the equality.
    upper, p, rate : arrays of shape (n,)
        u, p and r.
    span : (float, float)
        First and last t.
    solve : callable
        Returns the optimum and its multiplier ν at a t, to round-off: at the start, and where the path breaks off.

    Raises
    ------
    PathError
        The path breaks off again and again: Q is not positive semidefinite.
    """
    n, (first, last) = len(Q), span
    engine = Engine(DenseMatrix(Q), e is not None, room=n)
    engine.append(p + first * rate, upper, np.zeros(n) if e is None else e, Q.diagonal().copy())
    engine.where[:] = AT_LOWER
    record = _Record(engine)
    record.sign = 1.0 if last >= first else -1.0
    _start(engine, record, first, p + first * rate, solve)
    record.note()
    engine.pivots_per_call = -1
    engine.on_pivot = lambda _engine, _variable: record.note()
    count = 0
    for last_end in _sections(first, last):
        ends, least = [last_end], MIN_SECTION_SHARE * abs(last_end - record.begin)
        while ends:
            check_time()
            begin, kept, end = record.begin, list(record.rows), ends[-1]
            try:
                _follow(engine, record, end, p, rate)
                ends.pop()
                continue
            except PathError:
                here = record.begin + record.sign * float(engine.figures[TRAVELLED])
            t = here + LEFT_OUT_RATIO * (end - here)
            if not record.is_optimum(p + here * rate):
                record.rows[:] = kept  # round-off has spoiled all breakpoints since ``begin``
                if abs(end - begin) > least:
                    ends.append(begin + 0.5 * (end - begin))
                    _start(engine, record, begin, p + begin * rate, solve)
                    continue
                t = end
            count += 1
            if count > MAX_BREAKS:
                raise PathError(PathError.NOT_PSD)
            t = end if abs(end - t) <= MIN_DISTANCE * abs(end) else t
            _start(engine, record, t, p + t * rate, solve)
            record.note(broken=True)
            if t == end:
                ends.pop()
    return record.path()


def _sections(first: float, last: float) -> NDArray:
    """Return the ends of the sections of a path."""
    if first > 0 and last > 0:
        count = max(MIN_SECTIONS, int(np.ceil(abs(np.log(last) - np.log(first)) / np.log(SECTION_RATIO))))
        return np.append(np.geomspace(first, last, count + 1)[1:-1], last)
    return np.append(np.linspace(first, last, 4 * MIN_SECTIONS + 1)[1:-1], last)


def _start(engine: Engine, record: _Record, t: float, p: NDArray, solve: Solve) -> None:
    """Set an engine to the optimum at t."""
    alpha, nu = solve(t)
    engine.p[:] = p
    record.begin = t
    engine.figures[TRAVELLED] = 0.0
    on_pivot, engine.on_pivot = engine.on_pivot, None
    set_optimum(engine, alpha, -nu)
    engine.figures[TRAVELLED] = 0.0
    engine.on_pivot = on_pivot
    record.max_gap = max(MAX_GAP_SECTION, MAX_GAP_GROWTH * tracked_gap(engine)[0])


def _follow(engine: Engine, record: _Record, end: float, p: NDArray, rate: NDArray) -> None:
    """Follow the path to the end of a section, and compute all gradients from scratch there."""
    engine.update_floor()
    engine.move_p(record.sign * rate, abs(end - record.begin))
    record.begin = end
    engine.figures[TRAVELLED] = 0.0
    if not record.is_optimum(p + end * rate):
        raise PathError(PathError.NOT_PSD)
    on_pivot, engine.on_pivot = engine.on_pivot, None
    engine.tidy(exact=True)
    engine.on_pivot = on_pivot
    if len(engine.violators()):
        raise PathError(PathError.NOT_PSD)
    record.note()
