"""The iteration over the rows whose bounds are undetermined.

An iteration need not carry variables whose slopes say at which bound they end: each is fixed there, its part of
w = Fᵀσα is a constant vector, and the iteration is over the other variables. They are found in two ways.

- The problem on a sample of m rows, with bounds multiplied by n/m, gives weights w. They give the slope of each
  variable with an error of about √(r/m) times the slopes' size: variables with larger slopes are fixed. The others
  start from the point of the central path that w shows.
- A variable near its bound with a multiplier far above the path's, αz = μ, is fixed when the iteration has come near.

The steps over given rows are first those of a relaxation (`Reduced._relaxed`), whose last one is exact. Where it
fails, those of `LowRank` follow.

In the end one pass over all rows finds fixed variables whose slope has the wrong sign: these join, and the problem is
solved again. The answer is that of the problem as given, as its gap is computed from sums over all rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.features import Features
from ..core.problem import DualProblem
from ._passes import Relaxation
from .low_rank import EXACT_GAP, LowRank, copies_of
from .state import NEAR_GAP, InteriorState

#: A sample pays from this many points on. With fewer, steps of few rows take as long as steps of all.
MIN_POINTS = 8192
#: The relaxation pays from this many points on. The central path of fewer points is for pictures, too.
MIN_POINTS_RELAXED = 100
#: Fixing variables near their bounds pays from this many points on.
MIN_POINTS_NARROWED = 1000
#: The sample has (SAMPLE_FACTOR n √r)^⅔ rows, which minimises the time of its steps and those of the undetermined rows.
SAMPLE_FACTOR = 2.0
#: The sample pays if it has at most this share of the rows.
MAX_SAMPLE_SHARE = 0.33
#: The sample's problem is solved to this relative gap. Below it, the error of its slopes is that of its size.
SAMPLE_GAP = 1e-2
#: Error bound of a slope, in units of √(r/m) times the slopes' root mean square.
SLOPE_ERROR = 5.0
#: μ at the start of the undetermined rows, in the same units.
START_ERROR = 2.0
#: The sample's rows are solved alone only if at most this share of the sample is above its own bounds, which are lower
#: than those of the sample's problem. The share is 0.007 if one class is rare, and 0.4 if classes are even.
MAX_ABOVE_SHARE = 0.05
#: A reduced problem pays if at most this share of the variables is undetermined.
MAX_SHARE = 0.5
#: A slope below this share of the largest |p| always has an undetermined sign.
MIN_SLOPE = 1e-3
#: Error bound of a slope in later rounds, in units of the largest slope with a wrong sign.
LATER_ERROR = 1.5
#: Variables are chosen by their slopes at most this many times.
MAX_CHOICES = 4
#: At a relative gap up to this, variables near their bounds are fixed.
NARROW_GAP = 0.3
#: Such a variable has a multiplier of at least this many μ/u.
NARROW_FACTOR = 30.0
#: At least this many variables per column stay: as many as may be free, and some that may take their places.
MIN_NARROWED_PER_COLUMN = 4
#: The change pays if at most this share of the state's variables stays.
NARROW_SHARE = 0.3
#: If the bounds of at most this share of the variables change, sums over the others are not made anew.
MAX_CHANGED_SHARE = 0.05
#: Largest number of numbers in the rows of a relaxation (32 MB), because its steps are not shared among threads.
MAX_RELAXED = 1 << 22
#: δ at the start, in units of μ/u of the start.
START_DELTA = 2.0
#: Factor from one δ to the next.
DELTA_FACTOR = 0.1
#: The same factor once as few variables are free as may be, and each α is the next centre.
LAST_DELTA_FACTOR = 0.1
#: Least δ, in units of the mean |p|. Round-off of the slopes moves α by u/δ times that.
LEAST_DELTA = 1e-5
#: There are ties at the margin if more than this share of the free variables for the last δ is still free, ...
MAX_FREE_SHARE = 0.7
#: ... and more than this many per column.
MAX_FREE_PER_COLUMN = 4
#: Accuracy of the minimisation for one δ until α is the centre, in units of δ Σu of the free variables.
ACCURACY = 0.002
#: The same accuracy after that.
LAST_ACCURACY = 1e-9
#: Largest number of Newton steps for one δ.
MAX_NEWTON_STEPS = 40
#: Largest number of centres.
MAX_CENTERS = 20
#: A variable with a slope beyond this many δ is fixed.
FIXED_SLOPE = 2.0
#: Fixing some variables pays from this many variables on.
MIN_FIXED_FROM = 200
#: The relaxation ends at this relative gap. One more centre would only repeat round-off.
RELAXED_GAP = 1e-13
#: Values of a state that has none.
_NOTHING = np.empty((4, 0)), np.empty(0), np.empty(0), 0.0


def can_reduce(problem: DualProblem) -> bool:
    """Whether variables may be left out: many points, finite bounds, no ridge, and at most one equality."""
    return (
        problem.gram.n >= MIN_POINTS_RELAXED
        and problem.total is None
        and bool(np.isfinite(problem.upper).all())
        and not problem.has_ridge
        and copies_of(problem) > 0
    )


def can_sample(n: int, rank: int) -> bool:
    """Whether a sample of n rows may determine most bounds."""
    return n >= MIN_POINTS and sample_size(n, rank) <= MAX_SAMPLE_SHARE * n


def sample_size(n: int, rank: int) -> int:
    """Return the number of rows of the sample."""
    return int((SAMPLE_FACTOR * n * np.sqrt(rank)) ** (2 / 3))


class Reduced:
    """The iteration of one problem over few of its rows, or over all if few do not suffice.

    Parameters
    ----------
    problem : DualProblem
        A problem for which `can_reduce` is true.
    features : Features
        Of its Gram matrix.
    """

    def __init__(self, problem: DualProblem, features: Features) -> None:
        self.problem, self.features = problem, features
        self.all_rows = LowRank(problem, features)
        self.size = float(np.abs(problem.p).mean())
        self._part: tuple[NDArray, LowRank] | None = None

    def start(self, warm: NDArray | None) -> InteriorState:
        """Return the start of a sample of the rows: half of it of each sign, or all rows of a sign."""
        problem, n = self.problem, self.problem.gram.n
        if warm is not None or not can_sample(n, self.features.rank):
            return self._relaxing(self.all_rows.start(warm))
        rng, size = np.random.default_rng(0), sample_size(n, self.features.rank)
        live = (problem.upper > 0).reshape(-1, n).any(axis=0)
        signs = problem.sigma[:n] if problem.n == n else np.ones(n)
        rows, share = [], []
        groups = [group for group in (np.flatnonzero(live & (signs == s)) for s in (-1.0, 1.0)) if len(group)]
        for group in groups:
            count = min(len(group), max(size // len(groups), size * len(group) // n))
            rows.append(np.sort(rng.choice(group, count, replace=False)))
            share.append(np.full(count, count / len(group)))
        copies = problem.n // n
        chosen, part = np.concatenate(rows), np.tile(np.concatenate(share), copies)
        within = (chosen + n * np.arange(copies)[:, None]).ravel()
        empty = InteriorState(*_NOTHING, within=within, rest=np.zeros(problem.n), share=part)
        return self._relaxing(self._placed(self.part_of(empty).start(None), empty))

    def step(self, state: InteriorState) -> InteriorState:
        """Return the next state, of the same rows, or the first state of other rows."""
        after = self._relaxed(state) if state.delta else self._form_of(state).step(state)
        if len(state.share):
            return self.start_undetermined(after) if after.done or after.gap <= SAMPLE_GAP else after
        if after.done:
            return self.check(after) if len(after.within) else after
        if after.delta:
            return after
        return self.narrowed(after) if after.gap <= NARROW_GAP and after.rounds < MAX_CHOICES else after

    def part_of(self, state: InteriorState) -> LowRank:
        """Return the iteration over a state's variables, with all others fixed at their bounds."""
        if self._part is None or self._part[0] is not state.within:
            problem, J, sampled = self.problem, state.within, len(state.share) > 0
            share = state.share if sampled else np.ones(len(J))
            held = 0.0 if problem.e is None else float(problem.e @ state.rest)
            part = problem._with(
                p=problem.p[J],
                lower=problem.lower[J],
                upper=problem.upper[J] / share,
                ridge=problem.ridge[J],
                sigma=problem.sigma[J],
                e=None if problem.e is None else problem.e[J],
                d=problem.d - held,
                idx=J if problem.idx is None else problem.idx[J],
            )
            fixed_rows = None if sampled else state.fixed_rows
            self._part = J, LowRank(part, self.features, fixed_rows, float(problem.p @ state.rest))
        return self._part[1]

    def _form_of(self, state: InteriorState) -> LowRank:
        """Return the iteration over the variables of a state."""
        return self.part_of(state) if len(state.within) else self.all_rows

    def _relaxing(self, state: InteriorState) -> InteriorState:
        """Return a start as one of the relaxation, or as it is if the relaxation has failed or is not for its rows."""
        form = self._form_of(state)
        e, p, upper = form.problem.e, form.problem.p, form.problem.upper
        fits = form.rows.n * form.rows.width <= MAX_RELAXED and state.rounds < MAX_CHOICES and state.centers >= 0
        if not fits or e is None or not (e.min() < 0 < e.max() and p.any()):
            return state
        mu = float((state.at[:2] * state.at[2:]).sum()) / float(upper.sum())
        return state.changed(delta=START_DELTA * mu, center=state.alpha)

    def _relaxed(self, state: InteriorState) -> InteriorState:
        """Return the state of the relaxation for its δ, which also says the next δ; the last one is exact.

        Each variable's part of the dual has δ/(2u) (α − center)² added, and Newton's method minimises it in w and ν.
        For large δ most variables are inside their bounds; for small δ as few as in the solution. Variables with large
        slopes are fixed on the way. When few are free, or no fewer than before, α becomes the next centre (proximal
        point method), whose limit is exact. If that fails the state is the start of the central path of all variables.
        """
        form, alpha = self._form_of(state), np.empty(len(state.center))
        w, values, sampled = np.array(state.w), np.array(state.values), len(state.share) > 0
        accuracy = LAST_ACCURACY if state.centers else ACCURACY
        stop_gap = SAMPLE_GAP if sampled else 0.0
        relaxation = Relaxation(form.rows, form.fixed_rows, form.problem.d, form.fixed_p, stop_gap, MAX_NEWTON_STEPS)
        nu, gap, free, steps = relaxation.minimise(state.center, state.delta, accuracy, w, state.nu, values, alpha)
        few = form.rows.width + form.borders
        after = state.changed(at=alpha[None], w=w, values=values, nu=nu, gap=gap)
        if sampled and gap <= SAMPLE_GAP:
            return after
        stalled = state.centers > 1 and NEAR_GAP >= gap > 0.5 * state.gap  # at round-off, which falls as 1/δ
        if (state.centers and gap <= RELAXED_GAP) or ((stalled or state.centers >= MAX_CENTERS) and gap <= EXACT_GAP):
            _meet_equality(form.problem, alpha)
            return after.changed(done=True, exact=True)
        if not np.isfinite(gap) or state.centers >= MAX_CENTERS:
            return self.all_rows.start(None).changed(centers=-1)
        if steps == MAX_NEWTON_STEPS:
            return after.changed(centers=state.centers + 1)
        many, least = free > MAX_FREE_PER_COLUMN * few, LEAST_DELTA * self.size
        ties = many and len(state.at) == 1
        if ties:
            free_before = np.count_nonzero((state.alpha > 0) & (state.alpha < form.problem.upper))
            ties = free > MAX_FREE_SHARE * free_before
        if free <= few or state.centers or state.delta <= least or ties:
            delta = state.delta if many else max(LAST_DELTA_FACTOR * state.delta, least)
            if stalled:
                delta = state.delta / LAST_DELTA_FACTOR
            after = after.changed(delta=delta, center=alpha, centers=state.centers + 1)
        else:
            after = after.changed(delta=max(DELTA_FACTOR * state.delta, least))
        return after if sampled or gap > SAMPLE_GAP else self._fewer(after, FIXED_SLOPE * state.delta)

    def _fewer(self, state: InteriorState, largest: float) -> InteriorState:
        """Return a state of the relaxation without variables whose slopes are above ``largest``, if these are most."""
        total, form = len(state.center), self._form_of(state)
        least = MIN_NARROWED_PER_COLUMN * form.rows.width
        if total < MIN_FIXED_FROM or least > NARROW_SHARE * total:
            return state
        slopes = form.slopes_at(state.values, state.nu, state.alpha)
        sizes = np.abs(slopes)
        if np.count_nonzero(sizes <= largest) > NARROW_SHARE * total:
            return state
        keep = sizes <= max(largest, float(np.partition(sizes, least)[least]))
        if np.count_nonzero(keep) > NARROW_SHARE * total:
            return state
        J = state.within if len(state.within) else np.arange(total)
        rest = np.array(state.rest) if len(state.rest) else np.zeros(total)
        rest[J] = np.where(keep | (slopes > 0), 0.0, self.problem.upper[J])
        if not self._fits(J[keep], rest):
            return state
        fewer = self._over(J[keep], rest, state)
        values = self.part_of(fewer).values(state.w)
        return self._placed(state, fewer).changed(
            at=state.at[:, keep],
            values=values,
            center=state.center[keep],
            centers=state.centers,
        )

    def narrowed(self, state: InteriorState) -> InteriorState:
        """Return the state without variables near their bounds whose slopes are far above the path's.

        Variables that were fixed before, and whose slopes have become as small as those of the others, join at the
        point of the path that their slopes show. It is the same state if most of its variables stay.
        """
        problem, (alpha, room, low, high) = self.problem, state.at
        mean = float(alpha @ low + room @ high) / (2.0 * float(alpha.sum() + room.sum()))  # of μ/u
        total, least = len(alpha), MIN_NARROWED_PER_COLUMN * self.all_rows.rows.width
        if total < MIN_POINTS_NARROWED or least > NARROW_SHARE * total:
            return state
        size = np.abs(low - high)
        most = max(NARROW_FACTOR * mean, float(np.partition(size, least)[least]))
        if np.count_nonzero(size <= most) > NARROW_SHARE * total:
            return state
        known = np.zeros(problem.n, dtype=np.intp)
        known[state.within if len(state.within) else slice(None)] = np.arange(1, total + 1)
        values = state.values if not len(state.within) else self.all_rows.values(state.w)
        slopes = self.all_rows.slopes_at(values, state.nu, problem.upper)  # there are no ridges
        inside = (np.abs(slopes) <= most) & (problem.upper > 0)
        rest, within = np.where(inside | (slopes > 0), 0.0, problem.upper), np.flatnonzero(inside)
        if not self._fits(within, rest):
            return state
        self._part = None  # its copies of rows are not needed beside the new ones
        empty = self._over(within, rest, state)
        begun = self.part_of(empty).start_around(state.w, state.nu, mean)
        old = known[within] > 0
        begun.at[:, old] = state.at[:, known[within[old]] - 1]
        return self._placed(begun, empty)

    def start_undetermined(self, state: InteriorState) -> InteriorState:
        """Return the start of the rows whose bounds the sample leaves undetermined."""
        problem = self.problem
        slopes = self.all_rows.slopes_at(self.all_rows.values(state.w), state.nu, state.rest)  # there are no ridges
        rows = len(state.within) // (problem.n // problem.gram.n)
        error = np.sqrt(self.features.rank / rows * float(slopes @ slopes) / problem.n)
        floor = MIN_SLOPE * float(np.abs(problem.p).max())
        most, mu = max(SLOPE_ERROR * error, floor), max(START_ERROR * error, floor)
        above = np.count_nonzero(state.alpha > problem.upper[state.within])
        ties = np.count_nonzero(np.abs(slopes) <= most) > MAX_SHARE * problem.n
        if ties and above <= MAX_ABOVE_SHARE * len(state.within):
            # Most points are at the margin, and the sample's answer is nearly feasible with the others at 0.
            self._part = None  # its bounds are those of the sample's problem
            return self._start_at(state.within, np.zeros(problem.n), state, mu, 1)
        return self._start_rows(state, slopes, most, mu, 1)

    def check(self, state: InteriorState) -> InteriorState:
        """Return the last state if sums over all rows confirm it; else the start of the rows that are undetermined."""
        end, slopes = self._end(state)
        if end.gap <= EXACT_GAP:
            return end
        wrong = np.where(state.rest > 0, slopes > 0, slopes < 0) & (self.problem.upper > 0)
        wrong[state.within] = False
        if not wrong.any() or state.rounds >= MAX_CHOICES:
            return self._start_all()
        # The largest wrong slope is the size of the weights' error, far less than that of the sample.
        error = float(np.abs(slopes[wrong]).max())
        begun = self._start_rows(state, slopes, LATER_ERROR * error, error, state.rounds + 1)
        if len(begun.within):
            return begun
        # The largest one is an outlier: only the wrong ones join.
        joined = wrong.copy()
        joined[state.within] = True
        rest, within = np.where(joined, 0.0, state.rest), np.flatnonzero(joined)
        if len(within) > MAX_SHARE * self.problem.n or not self._fits(within, rest):
            return self._start_all()
        typical = float(np.median(np.abs(slopes[wrong])))
        return self._start_at(within, rest, state, typical, state.rounds + 1)

    def _start_all(self) -> InteriorState:
        """Return the start of all variables, of which none will be left out any more."""
        return self.all_rows.start(None).changed(rounds=MAX_CHOICES)

    def _end(self, state: InteriorState) -> tuple[InteriorState, NDArray]:
        """Return the state of all variables from a state of some, and the slopes."""
        alpha, values = state.everywhere, self.all_rows.values(state.w)
        self._part = None  # its copies of rows are not needed beside those of a certificate
        slopes = self.all_rows.slopes_at(values, state.nu, alpha)
        end = InteriorState(alpha[None], state.w, values, state.nu, done=True, exact=state.exact)
        return end.changed(gap=self.all_rows.relative_gap(end, slopes)), slopes

    def _start_rows(self, state: InteriorState, slopes: NDArray, error: float, mu: float, rounds: int) -> InteriorState:
        """Return the start of the variables whose slopes are within ``error``, with the others fixed by their signs.

        It is the point of the central path at μu for the weights of ``state``. If too many variables are undetermined,
        or if no feasible point lies between the bounds, it is over all variables.
        """
        problem = self.problem
        inside = (np.abs(slopes) <= error) & (problem.upper > 0)
        rest, within = np.where(inside | (slopes > 0), 0.0, problem.upper), np.flatnonzero(inside)
        if not (len(within) <= MAX_SHARE * problem.n and self._fits(within, rest)):
            begun = self.all_rows.start_around(state.w, state.nu, mu)
            return self._relaxing(begun.changed(rounds=rounds, centers=min(state.centers, 0)))
        return self._start_at(within, rest, state, mu, rounds)

    def _start_at(self, within: NDArray, rest: NDArray, state: InteriorState, mu: float, rounds: int) -> InteriorState:
        """Return the point of the central path at μu for the weights of a state, over the variables ``within``."""
        empty = self._over(within, rest, state).changed(rounds=rounds)
        return self._relaxing(self._placed(self.part_of(empty).start_around(state.w, state.nu, mu), empty))

    def _fits(self, within: NDArray, rest: NDArray) -> bool:
        """Whether a feasible point lies between the bounds of the variables ``within``, with the others at ``rest``."""
        problem = self.problem
        if problem.e is None or not len(within):
            return len(within) > 0
        upper, e, d = problem.upper[within], problem.e[within], problem.d - float(problem.e @ rest)
        plus, minus = float(upper[e > 0].sum()), float(upper[e < 0].sum())
        return -minus < d < plus and (minus > 0 or d > 0) and plus > 0

    def _over(self, within: NDArray, rest: NDArray, before: InteriorState) -> InteriorState:
        """Return a state without values, over the variables ``within``, with the others at ``rest``."""
        known = before.fixed_rows
        changed = np.flatnonzero(rest - before.rest) if len(known) else np.empty(0)
        if not len(known) or len(changed) > MAX_CHANGED_SHARE * len(rest):
            fixed_rows = self.all_rows.weighted_rows(rest)
        else:
            change = self.problem.sigma[changed] * (rest - before.rest)[changed]
            fixed_rows = known + change @ self.all_rows.free_step(changed).F
        empty = InteriorState(*_NOTHING, within=within, rest=rest, fixed_rows=fixed_rows, rounds=before.rounds)
        return empty.changed(centers=min(before.centers, 0))

    @staticmethod
    def _placed(state: InteriorState, over: InteriorState) -> InteriorState:
        """Return a state over the variables of another one."""
        return state.changed(
            within=over.within,
            rest=over.rest,
            share=over.share,
            fixed_rows=over.fixed_rows,
            rounds=over.rounds,
            centers=over.centers,
        )


def _meet_equality(problem: DualProblem, alpha: NDArray) -> None:
    """Add what eᵀα lacks to the free variables, in place: a projection would move variables at bounds too."""
    assert problem.e is not None
    free = np.flatnonzero((alpha > 0) & (alpha < problem.upper))
    moved = alpha[free] + problem.e[free] * (problem.d - float(problem.e @ alpha)) / max(1, len(free))
    alpha[free] = np.clip(moved, 0.0, problem.upper[free])
