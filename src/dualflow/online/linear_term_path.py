"""The optimum as a piecewise linear function of a parameter in the linear term, from breakpoint to breakpoint.

For min ½ αᵀQα − (p + tr)ᵀα, 0 ≤ α ≤ u, eᵀα = d (or no equality), the optimum α(t) and its multiplier are piecewise
linear in t. The path along C of a support vector machine is one of these (Hastie, Rosset, Tibshirani, Zhu 2004), in the
variables α/C with t = 1/C, and so is the path along ε of a regression (Wang, Yeung, Lochovsky 2008).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.kernel_cache import RowCache, enlarged
from ..core.runtime.clock import check_time
from ._path import AT_LOWER, AT_UPPER, FREE, TRAVELLED
from .engine import Engine
from .hinge_updates import DenseMatrix
from .optimum_transfer import set_optimum, tracked_gap
from .state import PathError

#: All gradients are computed from scratch each time t changes by this ratio. If t changes its sign, the whole way is
#: divided evenly instead.
SECTION_RATIO = 2.0
#: Least number of sections of the whole way. If t changes its sign, there are four times as many.
MIN_SECTIONS = 8
#: Breakpoints closer than this, relative to t, are merged.
MIN_DISTANCE = 1e-13
#: If α is at most this share of a bound away from it, the distance is round-off.
ROUND_OFF = 1e-13
#: If α deviates from a straight line by at most this share of its bounds, the line counts as straight.
MAX_DEVIATION = 1e-12
#: If the path breaks off, this share of the rest of the section is skipped, and the optimum is computed anew.
LEFT_OUT_RATIO = 1e-3
#: The path may break off at most this many times.
MAX_BREAKS = 200
#: If the relative gap at the end of a section exceeds this, round-off has spoiled the section, ...
MAX_GAP_SECTION = 1e-9
#: ... unless it is at most this many times the gap that the solver left at its start.
MAX_GAP_GROWTH = 10.0
#: Breakpoints for which a new log has memory.
LOG_ROWS = 2048
#: Free α for which a new log has memory, besides those of two breakpoints.
LOG_NUMBERS = 1 << 17
#: A spoiled section narrower than this share of its first width is skipped; a wider one is halved.
MIN_SECTION_SHARE = 1.0 / 16.0

#: Returns the optimum and its multiplier ν at t.
Solve = Callable[[float], tuple[NDArray, float]]


@dataclass(frozen=True)
class LinearTermPath:
    """Optima at breakpoints; between two of them α is linear in t. Two may be at the same t, if Q is singular."""

    t: NDArray  # in the order of the path; shape (k,)
    #: The set of each variable at the breakpoint: at 0, at its bound, or free; int8 array of shape (k, n).
    codes: NDArray
    #: Breakpoint i has the entries ``starts[i]`` to ``starts[i + 1]`` of ``free`` and ``values``; int array of shape
    #: (k + 1,).
    starts: NDArray
    #: free, values: the free variables, ascending, and their α, one breakpoint after another.
    free: NDArray
    values: NDArray
    #: Whether the path broke off before this breakpoint, so that α is not known between it and the one before; shape
    #: (k,).
    breaks: NDArray
    upper: NDArray  # shape (n,)

    def at(self, k: int) -> NDArray:
        """Return α at the k-th breakpoint."""
        alpha = np.where(self.codes[k] == AT_UPPER, self.upper, 0.0)
        own = slice(self.starts[k], self.starts[k + 1])
        alpha[self.free[own]] = self.values[own]
        return alpha

    def between(self, t: float) -> NDArray:
        """Return α at any t of the path."""
        order = self.t if self.t[-1] >= self.t[0] else -self.t
        here = t if order is self.t else -t
        k = int(np.clip(np.searchsorted(order, here), 1, len(order) - 1))
        left, right = order[k - 1], order[k]
        share = 0.0 if right == left else (here - left) / (right - left)
        return (1.0 - share) * self.at(k - 1) + share * self.at(k)

    def subset(self, keep: NDArray, t: NDArray | None = None, breaks: NDArray | None = None) -> LinearTermPath:
        """Return the path without some breakpoints, with other t and breaks."""
        t, breaks = self.t if t is None else t, self.breaks if breaks is None else breaks
        if keep.all():
            return replace(self, t=t, breaks=breaks)
        counts = np.diff(self.starts)
        own, starts = np.repeat(keep, counts), np.append(0, np.cumsum(counts[keep]))
        return LinearTermPath(
            t[keep], self.codes[keep], starts, self.free[own], self.values[own], breaks[keep], self.upper
        )

    def merged(self) -> LinearTermPath:
        """Return the path with one breakpoint where several are at the same t, or two if α jumps there."""
        size = np.maximum(np.abs(self.t[1:]), np.abs(self.t[:-1]))
        joins = (np.abs(np.diff(self.t)) <= MIN_DISTANCE * size) & ~self.breaks[1:]
        firsts = np.flatnonzero(np.append(True, ~joins))
        lasts = np.append(firsts[1:], len(self.t)) - 1
        keep, t, breaks = np.ones(len(self.t), dtype=bool), self.t.copy(), self.breaks.copy()
        for first, last in zip(firsts[lasts > firsts], lasts[lasts > firsts], strict=True):
            keep[first:last] = False
            if (np.abs(self.at(first) - self.at(last)) <= MAX_DEVIATION * self.upper).all():
                breaks[last] = self.breaks[first]
            else:
                keep[first], t[last] = True, self.t[first]
        return self.subset(keep, t, breaks)

    def without_straight_breakpoints(self) -> LinearTermPath:
        """Return the path without the breakpoints where α is straight.

        There only the multiplier bends, or a section ends.
        """
        n, here = len(self.upper), np.arange(1, len(self.t) - 1)
        # The variable that joins or leaves the margin shows most bends without a look at the others.
        i = (self.codes[1:-1] != self.codes[:-2]).argmax(axis=1)
        keys = np.repeat(n * np.arange(len(self.t)), np.diff(self.starts)) + self.free

        def alpha_at(k: NDArray) -> NDArray:
            code = self.codes[k, i]
            alpha, is_free = np.where(code == AT_UPPER, self.upper[i], 0.0), code == FREE
            alpha[is_free] = self.values[np.searchsorted(keys, (k * n + i)[is_free])]
            return alpha

        before, middle, after = (alpha_at(here + step) for step in (-1, 0, 1))
        width = self.t[here + 1] - self.t[here - 1]
        share = np.divide(self.t[here] - self.t[here - 1], width, out=np.zeros(len(here)), where=width != 0)
        deviation = np.abs((1.0 - share) * before + share * after - middle)
        same_sets = self.codes[here, i] == self.codes[here - 1, i]  # the end of a section, where α is solved for anew
        keep = np.ones(len(self.t), dtype=bool)
        for k in here[~(deviation > MAX_DEVIATION * self.upper[i]) | same_sets]:
            last = int(np.flatnonzero(keep[:k])[-1])
            if not (self.breaks[k] or self.breaks[k + 1]) and self.t[last] != self.t[k] != self.t[k + 1]:
                keep[k] = not (same_sets[k - 1] or self._is_straight(last, k, k + 1))
        return self.subset(keep)

    def _is_straight(self, before: int, here: int, after: int) -> bool:
        """Whether α is linear around a breakpoint."""
        low, middle, high = (self.at(k) for k in (before, here, after))
        share = (self.t[here] - self.t[before]) / (self.t[after] - self.t[before])
        deviation = np.abs((1.0 - share) * low + share * high - middle)
        return bool((deviation <= MAX_DEVIATION * self.upper).all())


class LinearTermLog:
    """The breakpoints of an engine on its way, most of them written by the compiled path.

    Attributes
    ----------
    t : array of shape (room,)
    where : int8 array of shape (room, n)
    ends : int64 array of shape (room,)
        Number of entries of ``free`` and ``alpha`` up to each breakpoint.
    free, alpha : int64 and float arrays of shape (room of numbers,)
        The free variables, ascending, and their α, one breakpoint after the other.
    used : int64 array of shape (2,)
        Numbers of breakpoints and of entries of ``alpha`` that are written.
    """

    def __init__(self, engine: Engine) -> None:
        n = engine.n
        self.engine, self.begin, self.sign = engine, 0.0, 1.0
        self.t, self.ends = np.empty(LOG_ROWS), np.empty(LOG_ROWS, dtype=np.int64)
        self.where = np.empty((LOG_ROWS, n), dtype=np.int8)
        self.free, self.alpha = np.empty(2 * (n + 2) + LOG_NUMBERS, dtype=np.int64), np.empty(2 * (n + 2) + LOG_NUMBERS)
        self.used = np.zeros(2, dtype=np.int64)
        #: Number of breakpoints whose ``t`` is no longer the distance that the compiled path has written.
        self.taken = 0
        #: Breakpoints before which the path broke off.
        self.breaks: list[int] = []
        #: The engine's α counts as the optimum up to this relative gap.
        self.max_gap = MAX_GAP_SECTION

    def update(self) -> None:
        """Turn the distances that the compiled path has written into t, and make room for more breakpoints."""
        rows, numbers = (int(count) for count in self.used)
        new = slice(self.taken, rows)
        self.t[new] = self.begin + self.sign * self.t[new]
        self.taken = rows
        if rows + 2 > len(self.t):
            room = 2 * len(self.t)
            self.t, self.ends = enlarged(self.t, (room,)), enlarged(self.ends, (room,))
            self.where = enlarged(self.where, (room, self.engine.n))
        if numbers + 2 * (self.engine.n + 2) > len(self.alpha):
            room = 2 * len(self.alpha)
            self.free, self.alpha = enlarged(self.free, (room,)), enlarged(self.alpha, (room,))

    def record(self, broken: bool = False) -> None:
        """Add the engine's state; ``broken``: the path broke off before it."""
        self.update()
        where, row, begin = self.engine.where, int(self.used[0]), int(self.used[1])
        free = np.flatnonzero(where == FREE)
        end = begin + len(free)
        self.t[row], self.where[row], self.ends[row] = self.begin, where, end
        self.free[begin:end], self.alpha[begin:end] = free, self.engine.alpha[free]
        self.used[:] = row + 1, end
        self.taken = row + 1
        if broken:
            self.breaks.append(row)
        self.update()

    def truncate(self, rows: int) -> None:
        """Forget all breakpoints but the first ``rows``."""
        self.used[:] = rows, self.ends[rows - 1]
        self.taken = rows

    def is_optimum(self, p: NDArray) -> bool:
        """Whether the engine's α is the optimum of the linear term p, or as near as the round-off of its gradients."""
        self.engine.p[:] = p
        self.engine.recompute()
        gap, gap_and_rounding = tracked_gap(self.engine)
        return gap <= max(self.max_gap, gap_and_rounding - gap)

    def path(self) -> LinearTermPath:
        """Return the breakpoints of α."""
        rows, numbers = self.used
        free, alpha, upper = self.free[:numbers], self.alpha[:numbers], self.engine.u.copy()
        bound = upper[free]
        alpha[alpha <= ROUND_OFF * bound] = 0.0
        at_bound = bound - alpha <= ROUND_OFF * bound
        alpha[at_bound] = bound[at_bound]
        breaks = np.zeros(rows, dtype=bool)
        breaks[self.breaks] = True
        starts = np.append(0, self.ends[:rows])
        path = LinearTermPath(self.t[:rows], self.where[:rows], starts, free, alpha, breaks, upper)
        return path.merged().without_straight_breakpoints()


class _AllRows(RowCache):
    """All rows of a dense matrix, which is not copied; none is ever evicted."""

    def __init__(self, Q: NDArray) -> None:
        super().__init__()
        n = len(Q)
        every = np.arange(n, dtype=np.int64)
        self.rows, self.n, self.count = Q, n, n
        self.slot, self.place, self.owner = every, every.copy(), every.copy()
        self.filled, self.used = np.full(n, n, dtype=np.int64), np.zeros(n, dtype=np.int64)

    def evict(self, members: NDArray, spare: int | None = None) -> None:
        """Keep all rows."""


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
    engine = Engine(DenseMatrix(Q), e is not None)
    engine.append(p + first * rate, upper, np.zeros(n) if e is None else e, Q.diagonal().copy())
    engine.pool = _AllRows(np.ascontiguousarray(Q))
    engine.where[:] = AT_LOWER
    log = engine.log = LinearTermLog(engine)
    log.sign = 1.0 if last >= first else -1.0
    _start(engine, log, first, p + first * rate, solve)
    log.record()
    count = 0
    for last_end in _sections(first, last):
        ends, least = [last_end], MIN_SECTION_SHARE * abs(last_end - log.begin)
        while ends:
            check_time()
            begin, n_before, end = log.begin, int(log.used[0]), ends[-1]
            try:
                _follow(engine, log, end, p, rate)
                ends.pop()
                continue
            except PathError:
                here = log.begin + log.sign * float(engine.figures[TRAVELLED])
            t = here + LEFT_OUT_RATIO * (end - here)
            if not log.is_optimum(p + here * rate):
                log.truncate(n_before)  # round-off has spoiled all breakpoints since ``begin``
                if abs(end - begin) > least:
                    ends.append(begin + 0.5 * (end - begin))
                    _start(engine, log, begin, p + begin * rate, solve)
                    continue
                t = end
            count += 1
            if count > MAX_BREAKS:
                raise PathError(PathError.NOT_PSD)
            t = end if abs(end - t) <= MIN_DISTANCE * abs(end) else t
            _start(engine, log, t, p + t * rate, solve)
            log.record(broken=True)
            if t == end:
                ends.pop()
    engine.log = None  # without this reference to each other, their matrices are free at once
    return log.path()


def _sections(first: float, last: float) -> NDArray:
    """Return the ends of the sections of a path."""
    if first > 0 and last > 0:
        count = max(MIN_SECTIONS, int(np.ceil(abs(np.log(last) - np.log(first)) / np.log(SECTION_RATIO))))
        return np.append(np.geomspace(first, last, count + 1)[1:-1], last)
    return np.append(np.linspace(first, last, 4 * MIN_SECTIONS + 1)[1:-1], last)


def _start(engine: Engine, log: LinearTermLog, t: float, p: NDArray, solve: Solve) -> None:
    """Set an engine to the optimum at t."""
    alpha, nu = solve(t)
    engine.p[:] = p
    log.begin = t
    set_optimum(engine, alpha, -nu)
    engine.figures[TRAVELLED] = 0.0
    log.max_gap = max(MAX_GAP_SECTION, MAX_GAP_GROWTH * tracked_gap(engine)[0])


def _follow(engine: Engine, log: LinearTermLog, end: float, p: NDArray, rate: NDArray) -> None:
    """Follow the path to the end of a section, and compute all gradients from scratch there."""
    engine.update_floor()
    engine.move_p(log.sign * rate, abs(end - log.begin))
    log.begin = end
    engine.figures[TRAVELLED] = 0.0
    if not log.is_optimum(p + end * rate):
        raise PathError(PathError.NOT_PSD)
    engine.polish()
    if len(engine.violators()):
        raise PathError(PathError.NOT_PSD)
    log.record()
