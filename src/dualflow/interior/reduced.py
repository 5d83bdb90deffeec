"""The iteration over the rows whose bounds are undetermined: a sample of all rows says which these are.

With the weights of a sample, whose bounds are multiplied by n/m, the slope of each variable is known to about √(r/m)
of their size. Variables whose slopes are larger have their bounds by the sign, and their part of w = Fᵀσα is
a constant vector; the iteration is over the others alone. Then one pass over all rows tells whether any of those held
at bounds has a slope of the wrong sign: these join, and it is solved again. The answer is that of the whole problem,
for it is judged by the sums over all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.features import Features
from ..core.problem import DualProblem
from .low_rank import EXACT, LowRank, copies_of
from .state import InteriorState

__all__ = ["Reduced", "can_reduce"]

#: Points from which on it pays: below, steps of few rows take as long as steps of all.
MIN_POINTS = 8192
#: The sample's size is (SAMPLE_FACTOR n √r)^⅔: its steps and those of the undetermined rows then take least together.
SAMPLE_FACTOR = 2.0
#: Relative gap of the sample's problem at which its slopes are as good as its size lets them be.
SAMPLE_GAP = 1e-4
#: Error bound of a slope, in units of √(r/m) times the slopes' root mean square.
SLOPE_ERROR = 5.0
#: The part of all variables up to which a reduced problem is worth its own steps.
MAX_SHARE = 0.5
#: The part of the largest |p| below which the sign of a slope is undetermined in any case.
MIN_SLOPE = 1e-3
#: Error bound of a slope afterwards, in units of the largest one with a wrong sign.
LATER_ERROR = 1.5
#: Times that variables are chosen anew.
MAX_ROUNDS = 4


def can_reduce(problem: DualProblem, rank: int) -> bool:
    """Whether a sample of the rows may tell most bounds: there are many rows, all bounds are finite, and at most one
    equality binds."""
    n = problem.gram.n
    sample = _sample_size(n, rank)
    undetermined = SLOPE_ERROR * np.sqrt(rank / sample) * n
    return (
        n >= MIN_POINTS
        and problem.total is None
        and sample + 0.5 * undetermined <= MAX_SHARE * n
        and bool(np.isfinite(problem.upper).all())
        and not problem.ridge.any()
        and copies_of(problem) > 0
    )


def _sample_size(n: int, rank: int) -> int:
    return int((SAMPLE_FACTOR * n * np.sqrt(rank)) ** (2 / 3))


class Reduced:
    """The iteration of one problem over few of its rows, or over all where few do not tell.

    Parameters
    ----------
    problem : DualProblem
        One that `can_reduce`.
    features : Features
        Of its Gram matrix.
    """

    def __init__(self, problem: DualProblem, features: Features) -> None:
        self.problem, self.features = problem, features
        self.whole = LowRank(problem, features)
        self._part: tuple[NDArray, LowRank] | None = None

    def start(self, warm: NDArray | None) -> InteriorState:
        """The start of a sample of the rows, as many of each sign as there are, or half of the sample."""
        problem, n = self.problem, self.problem.gram.n
        if warm is not None:
            return self.whole.start(warm)
        rng, wanted = np.random.default_rng(0), _sample_size(n, self.features.rank)
        live = (problem.upper > 0).reshape(-1, n).any(axis=0)
        signs = problem.sigma[:n] if problem.n == n else np.ones(n)
        rows, share = [], []
        groups = [group for group in (np.flatnonzero(live & (signs == s)) for s in (-1.0, 1.0)) if len(group)]
        for group in groups:
            count = min(len(group), max(wanted // len(groups), wanted * len(group) // n))
            rows.append(np.sort(rng.choice(group, count, replace=False)))
            share.append(np.full(count, count / len(group)))
        copies = problem.n // n
        chosen, part = np.concatenate(rows), np.tile(np.concatenate(share), copies)
        within = (chosen + n * np.arange(copies)[:, None]).ravel()
        return self._begun(within, np.zeros(problem.n), part)

    def step(self, state: InteriorState) -> InteriorState:
        """The next state, of the same rows, or the first one of others."""
        if not len(state.within):
            return self.whole.step(state)
        after = self.part_of(state).step(state)
        if len(state.share):
            return self.undetermined(after) if after.done or after.gap <= SAMPLE_GAP else after
        return self.judged(after) if after.done else after

    def part_of(self, state: InteriorState) -> LowRank:
        """The iteration over a state's variables, the others held at their bounds."""
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
            beside = None if sampled else self.whole.gathered(state.rest)
            self._part = J, LowRank(part, self.features, beside)
        return self._part[1]

    def undetermined(self, state: InteriorState) -> InteriorState:
        """The start of the rows whose bounds the sample leaves undetermined."""
        problem = self.problem
        slopes = self.whole.slopes_at(self.whole.values(state.w), state.nu, state.rest)  # there are no ridges
        rows = len(state.within) // (problem.n // problem.gram.n)
        error = SLOPE_ERROR * np.sqrt(self.features.rank / rows * float(slopes @ slopes) / problem.n)
        floor = MIN_SLOPE * float(np.abs(problem.p).max())
        return self._held(slopes, max(error, floor), 1)

    def judged(self, state: InteriorState) -> InteriorState:
        """The end, if the sums over all rows say so; else the start of the rows that are undetermined by now."""
        end, slopes = self._end(state)
        if end.gap <= EXACT:
            return end
        wrong = np.where(state.rest > 0, slopes > 0, slopes < 0) & (self.problem.upper > 0)
        wrong[state.within] = False
        if not wrong.any() or state.rounds >= MAX_ROUNDS:
            return self.whole.start(None)
        # The weights are off by what the worst of these says, far less than the sample's were.
        return self._held(slopes, LATER_ERROR * float(np.abs(slopes[wrong]).max()), state.rounds + 1)

    def _end(self, state: InteriorState) -> tuple[InteriorState, NDArray]:
        """A state of some variables as a last one of all, and the slopes."""
        alpha, values = state.everywhere, self.whole.values(state.w)
        slopes = self.whole.slopes_at(values, state.nu, alpha)
        end = InteriorState(alpha[None], state.w, values, state.nu, done=True, exact=state.exact)
        return replace(end, gap=self.whole.left(end)), slopes

    def _held(self, slopes: NDArray, error: float, rounds: int) -> InteriorState:
        """The start of the variables whose slopes' signs are undetermined, the others held at the bounds that
        theirs say; of all, if that leaves nothing between the bounds."""
        problem = self.problem
        inside = (np.abs(slopes) <= error) & (problem.upper > 0)
        rest, within = np.where(inside | (slopes > 0), 0.0, problem.upper), np.flatnonzero(inside)
        upper, d = problem.upper[within], problem.d
        fits = 0 < len(within) <= MAX_SHARE * problem.n
        if problem.e is not None and fits:
            e, d = problem.e[within], d - float(problem.e @ rest)
            plus, minus = float(upper[e > 0].sum()), float(upper[e < 0].sum())
            fits = -minus < d < plus and (minus > 0 or d > 0) and plus > 0
        return replace(self._begun(within, rest, np.empty(0)), rounds=rounds) if fits else self.whole.start(None)

    def _begun(self, within: NDArray, rest: NDArray, share: NDArray) -> InteriorState:
        empty = InteriorState(np.empty((4, 0)), np.empty(0), np.empty(0), 0.0, within=within, rest=rest, share=share)
        begun = self.part_of(empty).start(None)
        return replace(begun, within=within, rest=rest, share=share)
