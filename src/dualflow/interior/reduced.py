"""The iteration over the rows whose bounds are undetermined, which a sample of all rows identifies.

The problem on a sample of m rows, with bounds multiplied by n/m, gives weights w. They give the slope of each variable
with an error of about √(r/m) times the slopes' size. Variables with larger slopes are fixed at the bound that the sign
says, and their part of w = Fᵀσα is a constant vector; the iteration is over the other variables. Then one pass over all
rows finds fixed variables whose slope has the wrong sign: these join, and the problem is solved again. The answer is
that of the problem as given, as its gap is computed from sums over all rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..core.features import Features
from ..core.problem import DualProblem
from .low_rank import EXACT_GAP, LowRank, copies_of
from .state import InteriorState

__all__ = ["Reduced", "can_reduce"]

#: Points from which this pays: with fewer, steps of few rows take as long as steps of all.
MIN_POINTS = 8192
#: The sample has (SAMPLE_FACTOR n √r)^⅔ rows, which minimises the time of its steps and those of the undetermined rows.
SAMPLE_FACTOR = 2.0
#: Relative gap of the sample's problem, below which the error of its slopes is that of its size.
SAMPLE_GAP = 1e-4
#: Error bound of a slope, in units of √(r/m) times the slopes' root mean square.
SLOPE_ERROR = 5.0
#: Undetermined variables, as a part of all, up to which a reduced problem pays.
MAX_SHARE = 0.5
#: Slopes below this part of the largest |p| have an undetermined sign in any case.
MIN_SLOPE = 1e-3
#: Error bound of a slope in later rounds, in units of the largest slope with a wrong sign.
LATER_ERROR = 1.5
#: Times that variables are chosen, at most.
MAX_ROUNDS = 4


def can_reduce(problem: DualProblem, rank: int) -> bool:
    """Whether a sample of the rows may determine most bounds.

    There must be many rows, finite bounds, no ridge, and at most one equality.
    """
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
        self._part: tuple[NDArray, LowRank] | None = None

    def start(self, warm: NDArray | None) -> InteriorState:
        """Return the start of a sample of the rows: half of it of each sign, or all rows of a sign."""
        problem, n = self.problem, self.problem.gram.n
        if warm is not None:
            return self.all_rows.start(warm)
        rng, size = np.random.default_rng(0), _sample_size(n, self.features.rank)
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
        return self._start_state(within, np.zeros(problem.n), part)

    def step(self, state: InteriorState) -> InteriorState:
        """Return the next state, of the same rows, or the first state of other rows."""
        if not len(state.within):
            return self.all_rows.step(state)
        after = self.part_of(state).step(state)
        if len(state.share):
            return self.start_undetermined(after) if after.done or after.gap <= SAMPLE_GAP else after
        return self.check(after) if after.done else after

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
            fixed_rows = None if sampled else self.all_rows.weighted_rows(state.rest)
            self._part = J, LowRank(part, self.features, fixed_rows)
        return self._part[1]

    def start_undetermined(self, state: InteriorState) -> InteriorState:
        """Return the start of the rows whose bounds the sample leaves undetermined."""
        problem = self.problem
        slopes = self.all_rows.slopes_at(self.all_rows.values(state.w), state.nu, state.rest)  # there are no ridges
        rows = len(state.within) // (problem.n // problem.gram.n)
        error = SLOPE_ERROR * np.sqrt(self.features.rank / rows * float(slopes @ slopes) / problem.n)
        floor = MIN_SLOPE * float(np.abs(problem.p).max())
        return self._start_rows(slopes, max(error, floor), 1)

    def check(self, state: InteriorState) -> InteriorState:
        """Return the last state if sums over all rows confirm it; else the start of the rows that are undetermined."""
        end, slopes = self._end(state)
        if end.gap <= EXACT_GAP:
            return end
        wrong = np.where(state.rest > 0, slopes > 0, slopes < 0) & (self.problem.upper > 0)
        wrong[state.within] = False
        if not wrong.any() or state.rounds >= MAX_ROUNDS:
            return self.all_rows.start(None)
        # The largest wrong slope is the size of the weights' error, far less than that of the sample.
        return self._start_rows(slopes, LATER_ERROR * float(np.abs(slopes[wrong]).max()), state.rounds + 1)

    def _end(self, state: InteriorState) -> tuple[InteriorState, NDArray]:
        """Return the state of all variables from a state of some, and the slopes."""
        alpha, values = state.everywhere, self.all_rows.values(state.w)
        slopes = self.all_rows.slopes_at(values, state.nu, alpha)
        end = InteriorState(alpha[None], state.w, values, state.nu, done=True, exact=state.exact)
        return replace(end, gap=self.all_rows.relative_gap(end)), slopes

    def _start_rows(self, slopes: NDArray, error: float, rounds: int) -> InteriorState:
        """Return the start of the variables whose slopes are within ``error``, with the others fixed by their signs.

        It is the start of all variables if too many are undetermined, or if no feasible point lies between the bounds.
        """
        problem = self.problem
        inside = (np.abs(slopes) <= error) & (problem.upper > 0)
        rest, within = np.where(inside | (slopes > 0), 0.0, problem.upper), np.flatnonzero(inside)
        upper, d = problem.upper[within], problem.d
        fits = 0 < len(within) <= MAX_SHARE * problem.n
        if problem.e is not None and fits:
            e, d = problem.e[within], d - float(problem.e @ rest)
            plus, minus = float(upper[e > 0].sum()), float(upper[e < 0].sum())
            fits = -minus < d < plus and (minus > 0 or d > 0) and plus > 0
        return (
            replace(self._start_state(within, rest, np.empty(0)), rounds=rounds) if fits else self.all_rows.start(None)
        )

    def _start_state(self, within: NDArray, rest: NDArray, share: NDArray) -> InteriorState:
        """Return the first state over the variables ``within``."""
        empty = InteriorState(np.empty((4, 0)), np.empty(0), np.empty(0), 0.0, within=within, rest=rest, share=share)
        begun = self.part_of(empty).start(None)
        return replace(begun, within=within, rest=rest, share=share)
