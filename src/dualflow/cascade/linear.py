"""An exact linear model over parts: the optimum of all rows from few passes over them.

It is the method of `interior.reduced`, with the rows where they are. A sample of the rows, with bounds multiplied,
gives weights w. With these each part tells, in one pass, which variables are at which bound; it adds up the rows of
those, and sends the undetermined ones, or a sample of them if they are many. The problem of the rows that were sent,
with all others fixed, is solved by the interior point in this process, and gives better weights. The error of a
sample's weights is that of the rows that it stands for, so that the number of undetermined variables falls by a factor
in each pass. When all of them are sent the solution is exact, which one more pass certifies. At most `most_sent` rows
are ever in this process.

Few rows are worked on by steps over all of them (`linear_steps`), and so are data that leave most variables
undetermined: with many exact ties at the margin, or with more columns than a sample can determine.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.certificate import Certificate
from ..core.features import Features
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.runtime import clock
from ..core.solution import Status
from ..interior.low_rank import LowRank
from ..interior.reduced import LATER_ERROR, START_ERROR, can_sample, sample_size
from ..interior.state import InteriorState
from .engines import PartEngine
from .linear_steps import Steps, Sums, conclude
from .linear_sums import Seen, View, certificate_of, look, sums_by_sign
from .model import LinearModel, Variables
from .records import Round

#: Numbers of rows in this process, 64 MB, or rows per column, whichever is more; and numbers at most, 256 MB.
NUMBERS_SENT = 1 << 23
ROWS_PER_COLUMN = 64
MAX_NUMBERS_SENT = 1 << 25
#: Size of a sample, relative to that of one process. It is larger because a pass over parts costs more than one in
#: memory.
SAMPLE_FACTOR = 1.26
#: If the expected number of undetermined variables is at most this share of the rows that may be sent, all of them are
#: sent.
SENT_WHOLE = 0.8
#: At this relative gap of a sample's problem, its weights have the error of a sample.
SAMPLE_GAP = 1e-3
#: Error bound of a slope after a sample, in units of the slopes' root mean square error. It is large because a wrong
#: variable costs two more passes.
SLOPE_ERRORS = 6.0
#: Smallest divisor.
TINY = 1e-300
#: Part of the undetermined variables of a pass that may be undetermined in the next one.
MAX_LEFT = 0.6
#: Passes after which steps over all rows are taken.
MAX_PASSES = 20
#: Times the last step that must be left of the time limit for another one and the certificate.
MIN_STEPS_LEFT = 2.0


@dataclass(frozen=True)
class Stage:
    """What a pass over all rows begins with."""

    view: View
    left: float  # number of undetermined variables in the last pass
    #: `sums_by_sign` of a feasible α, which the pass certifies; tuple of arrays, or None.
    alpha: tuple[NDArray, NDArray] | None = None
    is_whole: bool = False  # whether the weights are those of all undetermined variables, not of a sample


@dataclass(frozen=True)
class LinearResult:
    """The result of a problem: weights, bias, certificate over all rows, status and number of steps."""

    w: NDArray
    bias: float
    certificate: Certificate
    status: Status
    steps: int


@dataclass
class LinearFit:
    """The fit of one problem."""

    engine: PartEngine
    model: LinearModel
    #: pair, parts: number of the pair of classes, and number of parts.
    pair: int
    parts: int
    #: counts, mass: number of variables, and sum of their upper bounds, of σ = +1 and of σ = −1.
    counts: tuple[float, float]
    mass: tuple[float, float]
    features: int
    tol: float  # relative gap at which the fit ends
    max_steps: int
    #: started, deadline: by `time.monotonic`.
    started: float
    deadline: float | None
    on_round: Callable[[Round], object]  # called with a `Round` after each step; a true result ends the fit
    _best: LinearResult | None = None
    _steps: int = 0
    _traffic: tuple[int, int] = (0, 0)

    @property
    def width(self) -> int:
        """Number of weights."""
        return self.features + (self.model.offset > 0)

    @property
    def most_sent(self) -> int:
        """Number of rows in this process, at most."""
        r = self.width
        return min(max(NUMBERS_SENT // r, ROWS_PER_COLUMN * r), MAX_NUMBERS_SENT // r)

    def run(self) -> LinearResult:
        """Return the certified result."""
        self._traffic = self.engine.sent, self.engine.received
        try:
            if can_sample(int(sum(self.counts)), self.width) and (found := self._by_samples()) is not None:
                return found
            return self._by_steps()
        except clock.OutOfTime:
            if self._best is None:
                raise
            return replace(self._best, status=Status.TIME_LIMIT)

    # --- samples ---------------------------------------------------------------------------------

    def _by_samples(self) -> LinearResult | None:
        """Return the result by samples; None if these leave too many variables undetermined."""
        n, model = sum(self.counts), self.model
        size = min(SAMPLE_FACTOR * sample_size(int(n), self.width), SENT_WHOLE * self.most_sent)
        plus, minus = (min(1.0, max(0.5 * size, size * own / n) / max(own, 1.0)) for own in self.counts)
        stage = Stage(View(model, None, 0.0, np.inf, (plus, minus), 0), n)
        for _ in range(MAX_PASSES):
            begun, view, seen = time.monotonic(), stage.view, self._look(stage.view)
            count = float(seen.count.sum())
            if view.w is not None and stage.alpha is not None:
                certificate = certificate_of(model, view.w, view.nu, *stage.alpha, seen.bound)
                if (ended := self._ended(certificate, int(count), len(seen.X), time.monotonic() - begun)) is not None:
                    return ended
            if stage.is_whole:  # some variables are at wrong bounds; the largest of their slopes is the error of w
                if not seen.wrong:
                    return None
                radius = LATER_ERROR * seen.wrong
                share = self._share(count * radius / view.radius)
                view = replace(view, radius=radius, shares=(share, share), before=None)
                stage = Stage(view, n)
                continue
            if view.w is not None and count > max(MAX_LEFT * stage.left, self.most_sent):
                return None
            following = self._solved(replace(stage, left=count), seen)
            if following is None:
                return None
            stage = following
        return None

    def _look(self, view: View) -> Seen:
        """Return the sums of what all parts answer."""
        found: list[Seen] = self.engine.run(look, [None] * self.parts, view)
        added = {name: sum(getattr(one, name) for one in found) for name in ("vectors", "sums", "bound", "count")}
        rows = {name: np.concatenate([getattr(one, name) for one in found]) for name in ("X", "sigma", "p", "upper")}
        return Seen(**added, wrong=max(one.wrong for one in found), **rows)

    def _share(self, expected: float) -> float:
        """Return the part of an expected number of undetermined variables that is sent."""
        most = SENT_WHOLE * self.most_sent
        return 1.0 if expected <= most else most / expected

    def _solved(self, stage: Stage, seen: Seen) -> Stage | None:
        """Return the next stage, from the rows that were sent; None if no feasible point lies between their bounds."""
        view, (held, middle), (held_sums, middle_sums) = stage.view, seen.vectors, seen.sums
        share = np.where(seen.sigma > 0, *view.shares)
        following = replace(view, shares=(0.0, 0.0), seed=view.seed + 1)
        if min(view.shares) >= 1:
            if (found := self._solution(stage, seen, slice(None), share)) is None:
                return None
            state, own = found[1], Variables(seen.X, seen.sigma[None], seen.p[None], seen.upper[None])
            vectors, sums = sums_by_sign(self.model, own, state.everywhere[None])
            before = None if view.w is None else (view.w, view.nu, view.radius)
            following = replace(following, w=state.w, nu=state.nu, before=before)
            return replace(stage, view=following, alpha=(held + vectors, held_sums + sums), is_whole=True)
        # The difference of the weights of two halves is twice the error of their mean.
        first, second = (self._solution(stage, seen, slice(k, None, 2), 0.5 * share) for k in range(2))
        if first is None or second is None:
            return None
        (form, one), (other_form, other) = first, second
        slopes = [form.slopes_at(form.values(w), nu, one.alpha) for w, nu in ((one.w, one.nu), (other.w, other.nu))]
        error = 0.5 * float(np.sqrt(np.mean((slopes[0] - slopes[1]) ** 2)))
        radius, near = SLOPE_ERRORS * error, 0.5 * np.abs(slopes[0] + slopes[1])
        expected = float(((near <= radius) / (0.5 * share[::2])).sum())
        following = replace(
            following,
            w=0.5 * (one.w + other.w),
            nu=0.5 * (one.nu + other.nu),
            radius=radius,
            shares=(self._share(expected),) * 2,
        )
        # The undetermined variables are at the mean of the sample's, as parts of their bounds.
        alpha, upper = (
            np.concatenate([one.alpha, other.alpha]),
            np.concatenate([form.problem.upper, other_form.problem.upper]),
        )
        sigma = np.concatenate([form.problem.sigma, other_form.problem.sigma])
        at = np.array([alpha[sigma == sign].sum() / max(upper[sigma == sign].sum(), TINY) for sign in (1.0, -1.0)])
        if self.model.has_equality and self.model.d:
            at[0] = (self.model.d - held_sums[0, 0]) / middle_sums[0, 0]
        both = held + at[:, None] * middle, held_sums + at * middle_sums
        return replace(stage, view=following, alpha=both if at.max() <= 1 else None)

    def _solution(self, stage: Stage, seen: Seen, rows: slice, share: NDArray) -> tuple[LowRank, InteriorState] | None:
        """Solve the problem of some of the rows that were sent, with all determined variables at their bounds.

        A sample's bounds are divided by its ``share``. Return the iteration and its last state; None if no feasible
        point lies between the bounds.
        """
        model, view, held_sums = self.model, stage.view, seen.sums[0]
        X, sigma, upper = seen.X[rows], seen.sigma[rows], seen.upper[rows] / share[rows]
        d = model.d - float(held_sums[0, 0] - held_sums[0, 1]) if model.has_equality else 0.0
        plus, minus = float(upper[sigma > 0].sum()), float(upper[sigma < 0].sum())
        inside = -minus < d < plus and (minus > 0 or d > 0) and plus > 0
        if not len(X) or (model.has_equality and not inside):
            return None
        problem = DualProblem(
            Gram(X, "linear", center=model.center),
            p=seen.p[rows],
            lower=np.zeros(1),
            upper=upper,
            sigma=sigma,
            e=sigma if model.has_equality else None,
            d=d,
            offset=model.offset,
        )
        fixed = seen.vectors[0, 0] - seen.vectors[0, 1]
        form = LowRank(problem, Features(problem.gram.X, model.center, True), fixed, float(held_sums[1].sum()))
        mu = view.radius * START_ERROR / SLOPE_ERRORS
        state = form.start(None) if view.w is None else form.start_around(view.w, view.nu, mu)
        enough = SAMPLE_GAP * (stage.left / sum(self.counts)) ** 2 if min(view.shares) < 1 else 0.0
        while not state.done and state.gap > enough:
            clock.check_time()
            state = form.step(state)
        return form, state

    # --- steps over all rows ---------------------------------------------------------------------

    def _by_steps(self) -> LinearResult:
        """Return the result of steps over all rows."""
        status, begun, before = Status.FINISHED, time.monotonic(), self._steps

        def goes_on(steps: int, sums: Sums) -> bool:
            nonlocal status, begun
            step_s, begun, self._steps = time.monotonic() - begun, time.monotonic(), before + steps
            if steps and self._record(sums.objective, sums.gap, int(sums.count) // 2, 0):
                status = Status.STOPPED
            elif self.deadline is not None and begun + MIN_STEPS_LEFT * step_s > self.deadline:
                status = Status.TIME_LIMIT
            elif self._steps >= self.max_steps:
                status = Status.STEP_LIMIT
            return status is Status.FINISHED

        at, has_ended = Steps(self.engine, self.model, self.mass, self.width, self.tol).run(goes_on)
        found = self.engine.run(conclude, self.engine.states, (self.model, at.w, at.nu))
        self.engine.states = [None] * self.parts
        vectors, sums, bound = (sum(one) for one in zip(*found, strict=True))
        certificate = certificate_of(self.model, at.w, at.nu, vectors, sums, bound)
        return self._result(certificate, Status.FINISHED if has_ended and status is not Status.STOPPED else status)

    # --- records ---------------------------------------------------------------------------------

    def _result(self, certificate: Certificate, status: Status) -> LinearResult:
        """Return a result; the status says whether its certificate is within the tolerance."""
        if certificate.reaches(self.tol) and status is not Status.STOPPED:
            status = Status.OPTIMAL if certificate.within(self.tol) else Status.ROUNDED
        return LinearResult(certificate.primal, certificate.bias, certificate, status, self._steps)  # type: ignore[arg-type]

    def _ended(self, certificate: Certificate, count: int, sent: int, step_s: float) -> LinearResult | None:
        """Record a pass; return the best result if the fit ends with it."""
        self._steps += 1
        found = self._result(certificate, Status.FINISHED)
        if self._best is None or certificate.gap < self._best.certificate.gap:  # type: ignore[operator]
            self._best = found
        stops = self._record(certificate.objective, float(certificate.relative_gap), sent, count)  # type: ignore[arg-type]
        if stops:
            return replace(self._best, status=Status.STOPPED, steps=self._steps)
        if certificate.reaches(self.tol):
            return found
        late = self.deadline is not None and time.monotonic() + MIN_STEPS_LEFT * step_s > self.deadline
        if late or self._steps >= self.max_steps:
            return replace(self._best, status=Status.TIME_LIMIT if late else Status.STEP_LIMIT, steps=self._steps)
        return None

    def _record(self, objective: float, gap: float, points: int, count: int) -> bool:
        """Report a step or pass; return whether the fit is to stop."""
        sent, received = self.engine.sent - self._traffic[0], self.engine.received - self._traffic[1]
        self._traffic = self.engine.sent, self.engine.received
        figures = objective, objective - gap * abs(objective), gap, sent, received, time.monotonic() - self.started
        return bool(self.on_round(Round(self.pair, self._steps, points, count or points, 0, 0, *figures)))
