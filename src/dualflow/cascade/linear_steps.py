"""Interior-point steps over all rows of all parts: their sums over rows are added part by part.

The iteration is that of `interior.low_rank`: Newton's system has the size of the features, and the rows enter it by
sums only. In a step each part adds up its share three times: a weighted Gram matrix of (r + 1)² numbers, two vectors,
and the largest step to a bound. Weights, multipliers and step lengths come back. The variables of the rows stay where
the part is (`PartEngine.advance`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import EPS
from ..interior import _passes
from ..interior._passes import PassRows
from ..interior.low_rank import MIN_ROW_SHARE, STEP_TO_BOUND, System
from ..interior.state import MAX_STALLED, MAX_STALLED_NEAR, NEAR_GAP
from .engines import PartEngine
from .linear_sums import bound_of, sums_by_sign
from .model import LinearModel, Variables
from .parts import Loaded

#: Part of the tolerance at which the iteration ends by its own sums, and the smallest such gap in float64.
OWN_TOL_FRACTION = 0.1
MIN_OWN_GAP = 1e-11
#: Part of the upper bounds at which the variables of the smaller class start.
START_SHARE = 0.5
#: A step shorter than this makes no progress because of round-off.
MIN_LENGTH = 1e-12
#: Smallest inverse of a step length; a division by it stays finite.
MIN_INVERSE = 1e-300


@dataclass(frozen=True)
class PartState:
    """The variables of a part's rows, which stay where the part is.

    ``at`` (4, n) and ``values`` (n,) are those of `interior.state`; q, ρ and the changes are those of the current step.
    """

    at: NDArray
    values: NDArray
    q: NDArray
    rho: NDArray
    changes: NDArray
    change: NDArray


@dataclass(frozen=True)
class Weighing:
    """What parts need for the first pass of a step: the length of the last step, ν, and the least weight of a row.

    ``start`` has the parts of the upper bounds at which variables of σ = +1 and −1 start.
    """

    model: LinearModel
    length: float
    nu: float
    least: float
    start: tuple[float, float]


@dataclass(frozen=True)
class Direction:
    """A change of w and ν, and the goal μ of the corrector."""

    model: LinearModel
    dw: NDArray
    d_nu: float
    goal: float


#: A task's result: the state that stays with the part, and what it sends.
Kept = tuple[PartState, tuple[NDArray, ...]]


def _rows(loaded: Loaded, number: int, model: LinearModel) -> tuple[Variables, PassRows]:
    """Return the variables of a part, and the passes over its rows."""
    found = model.variables(loaded, number)
    flat = [np.ascontiguousarray(array).ravel() for array in (found.upper, found.p, found.sigma)]
    upper, p, sigma = flat
    copies, e = len(found.p), sigma if model.has_equality else None
    X, extra = np.ascontiguousarray(found.X), float(np.sqrt(model.offset))
    return found, PassRows(X, model.center, extra, copies, upper, np.zeros(len(p)), p, sigma, e, 1.0)


def weigh(loaded: Loaded, number: int, own: Kept | None, shared: Weighing) -> Kept:
    """Take the last step, if there was one; return the weighted Gram matrix, three vectors and the sums of the rows."""
    variables, rows = _rows(loaded, number, shared.model)
    n, width = rows.n, rows.width
    if own is None:
        upper, p = variables.upper.ravel(), variables.p.ravel()
        alpha = np.where(variables.sigma.ravel() > 0, *shared.start) * upper
        size = shared.model.size
        at = np.stack([alpha, upper - alpha, np.maximum(-p, 0.0) + size, np.maximum(p, 0.0) + size])
        values = np.zeros(n)
    else:
        before = own[0]
        at, values = np.empty_like(before.at), before.values + shared.length * before.change
        rows.advance(0, n, before.at, before.changes, shared.length, at)
    q, rho = np.empty((2, at.shape[1]))
    gram, vectors, sums = np.zeros((width, width)), np.zeros((3, width)), np.zeros(_passes.SUMS)
    rows.weigh(0, n, at, values, shared.nu, 0.0, shared.least, q, rho, gram, vectors, sums)
    state = PartState(at, values, q, rho, np.empty((3, len(q))), np.empty(n))
    return state, (gram, vectors, sums, np.array([q.max(initial=0.0), len(q)]))


def predict(loaded: Loaded, number: int, own: Kept, shared: Direction) -> Kept:
    """Return the sums of the corrector's right side."""
    (state, _), rows = own, _rows(loaded, number, shared.model)[1]
    # Nothing that the task is given is changed: it may run again, after a worker died.
    state = replace(state, changes=np.empty_like(state.changes))
    vectors, sums = np.zeros((2, rows.width)), np.zeros(_passes.AHEAD)
    step = shared.dw, shared.d_nu, 0.0
    rows.predict(0, rows.n, state.at, *step, state.q, state.rho, state.changes[0], vectors, sums)
    return state, (vectors, sums)


def correct(loaded: Loaded, number: int, own: Kept, shared: Direction) -> Kept:
    """Return the largest inverse of a step length that ends at a bound."""
    (state, _), rows = own, _rows(loaded, number, shared.model)[1]
    state = replace(state, changes=state.changes.copy(), change=np.empty(rows.n))
    step = shared.dw, shared.d_nu, 0.0, shared.goal
    most = rows.correct(0, rows.n, state.at, *step, state.q, state.rho, state.changes, state.change)
    return state, (np.array([most]),)


def conclude(loaded: Loaded, number: int, own: Kept, shared: tuple[LinearModel, NDArray, float]) -> tuple[NDArray, ...]:
    """Return a part's share of the objective, at its own α, and of the bound at w and ν (`linear_sums`)."""
    model, w, nu = shared
    variables = model.variables(loaded, number)
    alpha = own[0].at[0].reshape(variables.p.shape)
    return (*sums_by_sign(model, variables, alpha), bound_of(model, variables, w, nu))


@dataclass(frozen=True)
class Iterate:
    """Weights and multiplier, the length of the step to them, and the largest q before it."""

    w: NDArray
    nu: float
    length: float = 0.0
    largest: float = 0.0


@dataclass(frozen=True)
class Sums:
    """The sums of the first pass over all rows."""

    #: gram, by_e, by_rho: Fᵀdiag(q)F, and rows times qσe and qσρ.
    gram: NDArray
    by_e: NDArray
    by_rho: NDArray
    #: missing, shortfall: Fᵀσα − w, and d − eᵀα; shape (r,), float.
    missing: NDArray
    shortfall: float
    totals: NDArray  # the sums that `_passes` names
    #: largest, count: the largest q, and the number of products αz.
    largest: float
    count: float
    #: objective, gap: f, and the relative gap by these sums.
    objective: float
    gap: float


@dataclass
class Steps:
    """The iteration over all rows."""

    engine: PartEngine
    model: LinearModel
    mass: tuple[float, float]  # sum of the upper bounds of σ = +1 and of σ = −1
    width: int  # number of weights
    tol: float  # relative gap at which the iteration ends

    def run(self, goes_on: Callable[[int, Sums], bool]) -> tuple[Iterate, bool]:
        """Take steps until the gap, by the iteration's own sums, is small, or ``goes_on`` is false.

        Return the last iterate, and whether the iteration has ended itself.
        """
        at, best, stalled, steps = Iterate(np.zeros(self.width), 0.0), np.inf, 0, 0
        while True:
            sums = self._weighed(at)
            stalled = 0 if sums.gap < 0.9 * best else stalled + 1
            best = min(best, sums.gap)
            most_stalled = MAX_STALLED if sums.gap > NEAR_GAP else MAX_STALLED_NEAR
            has_ended = sums.gap <= max(OWN_TOL_FRACTION * self.tol, MIN_OWN_GAP) or stalled > most_stalled
            if not goes_on(steps, sums):
                return at, has_ended
            after = None if has_ended or not np.isfinite(sums.gap) else self._stepped(at, sums)
            if after is None:
                return at, True
            at, steps = after, steps + 1

    def _start(self) -> tuple[float, float]:
        """Return the parts of the upper bounds at which the variables of σ = +1 and −1 start, with eᵀα = d."""
        plus, minus = self.mass
        if not self.model.has_equality:
            return START_SHARE, START_SHARE
        if not minus:
            return self.model.d / plus, 0.0
        return START_SHARE * min(1.0, minus / plus), START_SHARE * min(1.0, plus / minus)

    def _weighed(self, at: Iterate) -> Sums:
        """Return the sums of the first pass over all rows."""
        model = self.model
        shared = Weighing(model, at.length, at.nu, MIN_ROW_SHARE * at.largest, self._start())
        grams, vectors, sums, sizes = zip(*self.engine.advance(weigh, shared), strict=True)
        half, totals = sum(grams), sum(sums)  # half is the lower triangle
        gram = half + half.T
        gram.flat[:: len(gram) + 1] = half.diagonal()
        by_e, by_rho, w_alpha = sum(vectors)
        largest, count = max(float(one[0]) for one in sizes), 2.0 * sum(float(one[1]) for one in sizes)
        missing, shortfall = w_alpha - at.w, model.d - float(totals[_passes.SUM_EA]) if model.has_equality else 0.0
        size = float(totals[_passes.SUM_PA])
        objective = 0.5 * float(w_alpha @ w_alpha) - size
        left = float(totals[_passes.SUM_PRODUCTS] + totals[_passes.SUM_RESIDUAL])
        left += 0.5 * float(missing @ missing) + abs(shortfall * at.nu)
        gap = left / max(abs(objective), EPS * abs(size), MIN_INVERSE)
        return Sums(gram, by_e, by_rho, missing, shortfall, totals, largest, count, objective, gap)

    def _stepped(self, at: Iterate, sums: Sums) -> Iterate | None:
        """Return w and ν after a predictor and a corrector step, whose length the parts still have to go; or None."""
        has_e, totals, shortfall = self.model.has_equality, sums.totals, sums.shortfall
        corner = float(totals[_passes.SUM_Q])
        system = System(sums.gram, [sums.by_e] if has_e else [], [[corner, 0.0], [0.0, corner]], 1.0)

        def border(value: float) -> NDArray:
            return np.array([value] if has_e else [])

        dw, d_nu, _ = system.solve(sums.missing + sums.by_rho, border(shortfall - totals[_passes.SUM_EQR]))
        vectors, parts = zip(*self.engine.advance(predict, Direction(self.model, dw, d_nu, 0.0)), strict=True)
        (fixed, free), ahead = sum(vectors), sum(parts)
        k = min(1.0, 1.0 / max(max(float(one[_passes.MOST_INVERSE]) for one in parts), MIN_INVERSE))
        products = float(totals[_passes.SUM_PRODUCTS])
        after = max(products + k * float(ahead[_passes.SUM_FIRST]) + k * k * float(ahead[_passes.SUM_SECOND]), 0.0)
        goal = (after / products) ** 3 * products / sums.count
        right = border(shortfall - ahead[_passes.SUM_FIXED] - goal * ahead[_passes.SUM_FREE])
        dw, d_nu, _ = system.solve(sums.missing + fixed + goal * free, right)
        found = self.engine.advance(correct, Direction(self.model, dw, d_nu, goal))
        length = min(1.0, STEP_TO_BOUND / max(max(float(one[0]) for (one,) in found), MIN_INVERSE))
        if not (np.isfinite(length) and np.isfinite(dw).all() and np.isfinite(d_nu)) or length < MIN_LENGTH:
            return None
        return Iterate(at.w + length * dw, at.nu + length * d_nu, length, sums.largest)
