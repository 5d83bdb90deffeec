"""An exact linear classifier over parts, by an interior-point iteration whose sums over rows are added part by part.

The iteration is that of `interior.low_rank`: Newton's system has the size of the features, and the rows enter it by
sums only. In a step each part adds up its share three times: a weighted Gram matrix of (r + 1)² numbers, two vectors,
and the largest step to a bound. Weights, multipliers and step lengths come back. The variables of the rows stay where
the part is (`Engine.advance`).

In the end each part reads its rows once more, compares their checksum, and adds its share of the objective of feasible
multipliers and of the bound of w and ν, so that the certificate is that of all rows, whatever the steps did.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import EPS, gaps
from ..core.certificate import Certificate
from ..core.gram import LINEAR_GROWTH
from ..core.psd import SpectrumEvidence
from ..core.runtime.arrays import immutable
from ..core.solution import Status
from ..interior import _passes
from ..interior._passes import Rows
from ..interior.low_rank import MAX_STALLED, MAX_STALLED_NEAR, MIN_ROW_SHARE, NEAR_GAP, STEP_TO_BOUND, System
from .engines import Engine
from .model import Members, Model
from .parts import Loaded
from .records import Round
from .tasks import CHANGED_PART

__all__ = ["LinearFit", "LinearResult"]

#: Part of the tolerance at which the iteration ends by its own sums, and the smallest such gap in float64.
OWN_TOL_FRACTION = 0.1
MIN_OWN_GAP = 1e-11
#: Part of the upper bounds at which the variables of the smaller class start.
START_SHARE = 0.5
#: Length of a step below which round-off prevents progress.
MIN_LENGTH = 1e-12
#: Smallest inverse of a step length; a division by it stays finite.
MIN_INVERSE = 1e-300
#: Times the last step that must be left of the time limit for another one and the certificate.
MIN_STEPS_LEFT = 2.0


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

    ``start`` has the parts of the upper bounds at which variables of y = +1 and −1 start.
    """

    model: Model
    length: float
    nu: float
    least: float
    start: tuple[float, float]


@dataclass(frozen=True)
class Direction:
    """A change of w and ν, and the goal μ of the corrector."""

    model: Model
    dw: NDArray
    d_nu: float
    goal: float


#: A task's result: the state that stays with the part, and what it sends.
Kept = tuple[PartState, tuple[NDArray, ...]]


def _rows(loaded: Loaded, number: int, model: Model) -> tuple[Members, Rows]:
    """Return the rows of a part that take part, and the passes over them."""
    members = model.members(loaded, number)
    n, sign = len(members.row), members.sign
    e = sign if model.has_equality else None
    upper, none, one = model.C * members.weight, np.zeros(n), np.ones(n)
    extra = float(np.sqrt(model.offset))
    return members, Rows(np.ascontiguousarray(members.X), model.center, extra, 1, upper, none, one, sign, e, 1.0)


def weigh(loaded: Loaded, number: int, own: Kept | None, shared: Weighing) -> Kept:
    """Take the last step, if there was one; return the weighted Gram matrix, three vectors and the sums of the rows."""
    members, rows = _rows(loaded, number, shared.model)
    n, width = rows.n, rows.width
    if own is None:
        upper = shared.model.C * members.weight
        alpha = np.where(members.sign > 0, *shared.start) * upper
        at, values = np.stack([alpha, upper - alpha, np.ones(n), np.full(n, 2.0)]), np.zeros(n)
    else:
        before = own[0]
        at, values = np.empty_like(before.at), before.values + shared.length * before.change
        rows.advance(0, n, before.at, before.changes, shared.length, at)
    q, rho = np.empty((2, n))
    gram, vectors, sums = np.zeros((width, width)), np.zeros((3, width)), np.zeros(_passes.SUMS)
    rows.weigh(0, n, at, values, shared.nu, 0.0, shared.least, q, rho, gram, vectors, sums)
    state = PartState(at, values, q, rho, np.empty((3, n)), np.empty(n))
    return state, (gram, vectors, sums, np.array([q.max(initial=0.0), n]))


def predict(loaded: Loaded, number: int, own: Kept, shared: Direction) -> Kept:
    """Return the sums of the corrector's right side."""
    (state, _), rows = own, _rows(loaded, number, shared.model)[1]
    # Nothing that the task is given is changed: it may run again, after a worker died.
    state = replace(state, changes=np.empty((3, rows.n)))
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


def conclude(loaded: Loaded, number: int, own: Kept, shared: tuple[Model, NDArray, float]) -> tuple[NDArray, NDArray]:
    """Return a part's share of objective and bound at w and ν.

    Returns
    -------
    vectors : array of shape (2, r)
        Σ αᵢ rowᵢ over y = +1 and over y = −1.
    sums : array of shape (4,)
        Σ αᵢ over these, Σ uᵢ min(0, slopeᵢ), and the rounding error of the latter.
    """
    model, w, nu = shared
    members, rows = _rows(loaded, number, model)
    n, sign, upper, alpha = rows.n, members.sign, model.C * members.weight, own[0].at[0]
    vectors, values = np.zeros((2, rows.width)), np.empty(n)
    positive = np.where(sign > 0, alpha, 0.0)
    rows.gather(0, n, positive, vectors[0])
    rows.gather(0, n, alpha - positive, vectors[1])
    rows.values(0, n, w, values)
    slopes = sign * values - 1.0 - (nu * sign if model.has_equality else 0.0)
    lengths = np.square(members.X if model.center is None else members.X - model.center).sum(axis=1) + model.offset
    error = EPS * (LINEAR_GROWTH * np.sqrt(lengths) * float(np.linalg.norm(w)) + 1.0 + abs(nu))
    near = slopes <= error
    bound, rounding = upper @ np.minimum(slopes, 0.0), upper[near] @ error[near]
    return vectors, np.array([positive.sum(), (alpha - positive).sum(), bound, rounding])


@dataclass(frozen=True)
class LinearResult:
    """The result of a pair of classes: weights, bias, certificate over all rows, status and number of steps."""

    w: NDArray
    bias: float
    certificate: Certificate
    status: Status
    steps: int


@dataclass(frozen=True)
class Iterate:
    """Weights and multiplier, the length of the step to them, and the largest q before it."""

    w: NDArray
    nu: float
    length: float = 0.0
    largest: float = 0.0


@dataclass(frozen=True)
class Sums:
    """The sums of the first pass over all rows.

    Attributes
    ----------
    gram, by_e, by_rho : arrays
        Fᵀdiag(q)F, and rows times qe and qρ.
    missing, lack : array of shape (r,), float
        Fᵀσα − w, and −eᵀα.
    totals : array
        The sums that `_passes` names.
    largest, count : float
        The largest q, and the number of products αz.
    objective, gap : float
        f, and the relative gap by these sums.
    """

    gram: NDArray
    by_e: NDArray
    by_rho: NDArray
    missing: NDArray
    lack: float
    totals: NDArray
    largest: float
    count: float
    objective: float
    gap: float

    @classmethod
    def of(
        cls,
        at: Iterate,
        gram: NDArray,
        vectors: NDArray,
        totals: NDArray,
        largest: float,
        count: float,
        has_equality: bool,
    ) -> Sums:
        """Return the sums with the gap that they give."""
        by_e, by_rho, w_alpha = vectors
        missing, lack = w_alpha - at.w, -float(totals[_passes.SUM_EA]) if has_equality else 0.0
        size = float(totals[_passes.SUM_PA])
        objective = 0.5 * float(w_alpha @ w_alpha) - size
        left = float(totals[_passes.SUM_PRODUCTS] + totals[_passes.SUM_RESIDUAL])
        left += 0.5 * float(missing @ missing) + abs(lack * at.nu)
        gap = left / max(abs(objective), EPS * size)
        return cls(gram, by_e, by_rho, missing, lack, totals, largest, count, objective, gap)


@dataclass
class LinearFit:
    """The iteration of one pair of classes.

    Parameters
    ----------
    engine : Engine
    model : Model
        With a linear kernel and the hinge.
    pair, parts : int
        Number of the pair, and number of parts.
    mass : tuple of float
        Sum of the upper bounds of y = +1 and of y = −1.
    features : int
    checksums : sequence of str
        Of the parts' rows.
    tol : float
        Relative gap at which the iteration ends.
    max_steps : int
    started, deadline : float, float or None
        By `time.monotonic`.
    on_round : callable
        Called with a `Round` after each step; a true result ends the iteration.
    """

    engine: Engine
    model: Model
    pair: int
    parts: int
    mass: tuple[float, float]
    features: int
    checksums: list[str | None]
    tol: float
    max_steps: int
    started: float
    deadline: float | None
    on_round: Callable[[Round], object]

    def run(self) -> LinearResult:
        """Take steps until the gap, by the iteration's own sums, is small, and return the certified result."""
        width = self.features + (self.model.offset > 0)
        self.engine.states, self.engine.checksums = [None] * self.parts, [None] * self.parts
        at = Iterate(np.zeros(width), 0.0)
        best, stalled, steps, step_s = np.inf, 0, 0, 0.0
        while True:
            begun, before = time.monotonic(), (self.engine.sent, self.engine.received)
            sums = self._weighed(at)
            stalled = 0 if sums.gap < 0.9 * best else stalled + 1
            best = min(best, sums.gap)
            if steps and self.on_round(self._record(steps, sums, before)):
                return self._certified(at, Status.STOPPED, steps)
            most_stalled = MAX_STALLED if sums.gap > NEAR_GAP else MAX_STALLED_NEAR
            own_tol = max(OWN_TOL_FRACTION * self.tol, MIN_OWN_GAP)
            if sums.gap <= own_tol or stalled > most_stalled or not np.isfinite(sums.gap):
                return self._certified(at, Status.FINISHED, steps)
            if self.deadline is not None and time.monotonic() + MIN_STEPS_LEFT * step_s > self.deadline:
                return self._certified(at, Status.TIME_LIMIT, steps)
            if steps >= self.max_steps:
                return self._certified(at, Status.STEP_LIMIT, steps)
            after = self._stepped(at, sums)
            if after is None:
                return self._certified(at, Status.FINISHED, steps)
            at, steps, step_s = after, steps + 1, time.monotonic() - begun

    def _weighed(self, at: Iterate) -> Sums:
        """Return the sums of the first pass over all rows."""
        plus, minus = self.mass
        start = (START_SHARE, START_SHARE)
        if self.model.has_equality:
            start = (START_SHARE * min(1.0, minus / plus), START_SHARE * min(1.0, plus / minus))
        shared = Weighing(self.model, at.length, at.nu, MIN_ROW_SHARE * at.largest, start)
        grams, vectors, sums, sizes = zip(*self.engine.advance(weigh, shared), strict=True)
        half = sum(grams)  # the lower triangle
        gram = half + half.T
        gram.flat[:: len(gram) + 1] = half.diagonal()
        largest, count = max(float(one[0]) for one in sizes), sum(float(one[1]) for one in sizes)
        return Sums.of(at, gram, sum(vectors), sum(sums), largest, 2.0 * count, self.model.has_equality)

    def _stepped(self, at: Iterate, sums: Sums) -> Iterate | None:
        """Return w and ν after a predictor and a corrector step, whose length the parts still have to go; or None."""
        has_e, totals, lack = self.model.has_equality, sums.totals, sums.lack
        corner = float(totals[_passes.SUM_Q])
        system = System(sums.gram, [sums.by_e] if has_e else [], [[corner, 0.0], [0.0, corner]], 1.0)

        def border(value: float) -> NDArray:
            return np.array([value] if has_e else [])

        dw, d_nu, _ = system.solve(sums.missing + sums.by_rho, border(lack - totals[_passes.SUM_EQR]))
        vectors, parts = zip(*self.engine.advance(predict, Direction(self.model, dw, d_nu, 0.0)), strict=True)
        (fixed, free), ahead = sum(vectors), sum(parts)
        k = min(1.0, 1.0 / max(max(float(one[_passes.MOST_INVERSE]) for one in parts), MIN_INVERSE))
        products = float(totals[_passes.SUM_PRODUCTS])
        after = max(products + k * float(ahead[_passes.SUM_FIRST]) + k * k * float(ahead[_passes.SUM_SECOND]), 0.0)
        goal = (after / products) ** 3 * products / sums.count
        right = border(lack - ahead[_passes.SUM_FIXED] - goal * ahead[_passes.SUM_FREE])
        dw, d_nu, _ = system.solve(sums.missing + fixed + goal * free, right)
        found = self.engine.advance(correct, Direction(self.model, dw, d_nu, goal))
        length = min(1.0, STEP_TO_BOUND / max(max(float(one[0]) for (one,) in found), MIN_INVERSE))
        if not (np.isfinite(length) and np.isfinite(dw).all() and np.isfinite(d_nu)) or length < MIN_LENGTH:
            return None
        return Iterate(at.w + length * dw, at.nu + length * d_nu, length, sums.largest)

    def _certified(self, at: Iterate, status: Status, steps: int) -> LinearResult:
        """Return the result with the certificate over all rows, which are read again and compared."""
        model = self.model
        self.engine.checksums = self.checksums
        found = self.engine.run(conclude, self.engine.states, (model, at.w, at.nu))
        self.engine.states = [None] * self.parts
        (plus, minus), (sum_plus, sum_minus, bound, rounding) = (sum(one) for one in zip(*found, strict=True))
        # α of the class with the larger sum is scaled, so that the equality holds.
        scale_plus = scale_minus = 1.0
        if model.has_equality and sum_plus > 0 and sum_minus > 0:
            scale_plus, scale_minus = min(1.0, sum_minus / sum_plus), min(1.0, sum_plus / sum_minus)
        w_alpha = scale_plus * plus - scale_minus * minus
        total = float(scale_plus * sum_plus + scale_minus * sum_minus)
        quadratic = float(w_alpha @ w_alpha)
        objective, lower_bound = 0.5 * quadratic - total, float(bound) - 0.5 * float(at.w @ at.w)
        rounding = float(rounding) + EPS * LINEAR_GROWTH * (quadratic + total + float(at.w @ at.w))
        gap, relative = gaps(objective, lower_bound, rounding, CHANGED_PART)
        w = at.w[: self.features]
        bias = -at.nu if model.has_equality else float(at.w[self.features :].sum())
        moved = 0.0 if model.center is None else float(model.center @ w)
        certificate = Certificate(
            alpha=immutable(np.empty(0)),
            objective=objective,
            lower_bound=lower_bound,
            gap=gap,
            relative_gap=relative,
            infeasibility=0.0,
            projection_distance=0.0,
            multiplier=at.nu + moved if model.has_equality else None,
            multiplier_interval=(at.nu + moved,) * 2 if model.has_equality else None,
            bias=bias - moved,
            bias_interval=(bias - moved,) * 2,
            radius=None,
            quadratic=quadratic,
            psd=SpectrumEvidence("by kernel"),
            primal=immutable(w),
            rounding=rounding,
        )
        if certificate.reaches(self.tol) and status is not Status.STOPPED:
            status = Status.OPTIMAL if certificate.within(self.tol) else Status.ROUNDED
        return LinearResult(w, bias - moved, certificate, status, steps)

    def _record(self, steps: int, sums: Sums, before: tuple[int, int]) -> Round:
        """Return the record of a step; the bound is that of the iteration's own sums."""
        sent, received = self.engine.sent - before[0], self.engine.received - before[1]
        count, bound = int(sums.count) // 2, sums.objective - sums.gap * abs(sums.objective)
        figures = sums.objective, bound, sums.gap, sent, received, time.monotonic() - self.started
        return Round(self.pair, steps, count, count, 0, 0, *figures)
