"""Learning as invasion (Howell et al., "Machine Learning as Ecology"): points are species, those with weight survive.

A newcomer 0 with α₀ = 0 grows where its fitness beats the multiplier of those present,

    g₀ + νe₀ > 0,   g = p − Qα                                          (9; 17 and 19 without their harmless C − a₀)

which for the C-SVM is t₀f(x₀) < 1 (17, with the αᵢ that the published scripts leave out), and for the data
description K₀₀ − K_kk − 2Σαᵢ(K₀ᵢ − K_kᵢ) > 0, k a free survivor: outside the sphere (28; for constant Kᵢᵢ it is (30),
FISVDD's rule, Σαᵢk(x₀,xᵢ) < Σαᵢk(x_k,xᵢ)). Whoever invades makes the others find a new equilibrium, and those whose
weight falls to 0 go extinct.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind

__all__ = ["BLOCK", "Community", "Equilibrate", "Habitat", "interval", "learn", "middle", "restrict"]

#: Minimise a small problem from a feasible start: ``equilibrate(problem, alpha) -> alpha``.
Equilibrate = Callable[[DualProblem, NDArray], NDArray]

#: Newcomers met at a time: enough for BLAS, little enough for memory.
BLOCK = 1024
#: Invaders let in between two equilibria: so many, or this many times those with weight.
AT_ONCE, CROWD = 128, 0.5
#: From this part of all variables on, a problem of everybody is the faster way.
MANY = 0.25

_EPS = float(np.finfo(float).eps)


def restrict(problem: DualProblem, J: NDArray, K: NDArray | None = None) -> DualProblem:
    """The problem of some variables alone, all others being 0; ``K`` is their kernel matrix where it is known."""
    points = J if problem.idx is None else problem.idx[J]
    return replace(
        problem,
        gram=problem.gram.subset(points, K),
        p=problem.p[J],
        lower=problem.lower[J],
        upper=problem.upper[J],
        e=None if problem.e is None else problem.e[J],
        sigma=problem.sigma[J],
        ridge=problem.ridge[J],
        idx=None,
    )


def interval(h: NDArray, e: NDArray, alpha: NDArray, upper: NDArray) -> tuple[float, float]:
    """The multipliers ν at which variables rest (ρ = h − νe ≥ 0 at 0, ≤ 0 at u, 0 in between), from low to high.

    Where there is none, low exceeds high by the worst violation; ±∞ where nothing limits ν.
    """
    knot, positive = h * e, e > 0
    can_rise, has_weight = alpha < upper, alpha > 0
    above = np.where(positive, has_weight, can_rise)
    below = np.where(positive, can_rise, has_weight)
    return float(knot[above].max(initial=-np.inf)), float(knot[below].min(initial=np.inf))


def middle(low: float, high: float) -> float:
    """The middle of an interval of multipliers; its only end if the other is infinite, 0 if both are."""
    ends = [end for end in (low, high) if np.isfinite(end)]
    return sum(ends) / len(ends) if ends else 0.0


class Habitat:
    """The variables of one problem, of which some have been admitted, and the gradient h = Qα − p of all.

    Parameters
    ----------
    problem : DualProblem
        Of a kind with finite bounds or 1ᵀα = d.
    alpha : array of shape (n,)
        Weights so far. Above the bounds, or short of 1ᵀα = d, they are mended first (bounds 1/(νn) fall as n grows).
    rows : array of shape (residents, n), optional
        Kernel rows of the variables with α > 0, in their order, where they are known.

    Attributes
    ----------
    residents : int array of shape (r,)
        Who has been admitted; whoever has weight is one of them.
    rows : array of shape (r, n)
        Their kernel rows.
    h : array of shape (n,)
    invasions : int
        Newcomers that were admitted.
    disturbed : bool
        Whether the residents may be away from their equilibrium.
    """

    def __init__(self, problem: DualProblem, alpha: NDArray, rows: NDArray | None = None, disturbed: bool = False):
        self.problem = problem
        self.alpha = np.minimum(alpha, problem.upper)
        self.disturbed = disturbed or not np.array_equal(self.alpha, alpha)
        self.residents = np.flatnonzero(alpha > 0)
        self.rows = self.kernel(self.residents) if rows is None else rows
        self.present = alpha > 0
        self.invasions = 0
        self.h = self.gradient()
        if problem.e is not None and problem.d > 0:
            self.share_out()

    def kernel(self, J: NDArray) -> NDArray:
        """Kernel rows of variables J over all, shape (len(J), n)."""
        problem = self.problem
        if problem.idx is None:
            return problem.gram.rows(J)
        return problem.gram.rows(problem.idx[J])[:, problem.idx]

    def gradient(self) -> NDArray:
        """h = Qα − p from the residents' rows, shape (n,)."""
        problem, R = self.problem, self.residents
        weights = problem.sigma[R] * self.alpha[R]
        product = weights @ self.rows + problem.offset * float(weights.sum())
        return problem.scale * problem.sigma * product + problem.ridge * self.alpha - problem.p

    def share_out(self) -> None:
        """What 1ᵀα lacks of d goes to those who want it most, as much as each may have."""
        problem = self.problem
        missing = problem.d - float(self.alpha.sum())
        if problem.kind not in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX) or missing <= 4 * _EPS * problem.d:
            return
        self.disturbed = True
        for k in np.argsort(self.h, kind="stable"):
            given = min(problem.upper[k] - self.alpha[k], missing)
            if given > 0:
                self.admit(np.array([k]) if not self.present[k] else np.empty(0, dtype=np.intp))
                self.alpha[k] += given
                missing -= given
            if missing <= 0:
                break
        self.h = self.gradient()

    def admit(self, J: NDArray) -> None:
        """Let newcomers in, with no weight yet."""
        if len(J):
            self.residents = np.concatenate([self.residents, J])
            self.rows = np.concatenate([self.rows, self.kernel(J)])
            self.present[J] = True
            self.invasions += len(J)

    def multipliers(self, among: NDArray) -> tuple[float, float]:
        """The ν at which all of ``among`` rest: see `interval`."""
        problem = self.problem
        assert problem.e is not None
        return interval(self.h[among], problem.e[among], self.alpha[among], problem.upper[among])

    def round_off(self) -> float:
        """What a gradient may be wrong by."""
        problem = self.problem
        magnitude = float(problem.diag().max()) * float(self.alpha.sum()) + float(np.abs(problem.p).max())
        return 8 * _EPS * magnitude

    def invaders(self, candidates: NDArray) -> NDArray:
        """Those of the candidates that are not present and can invade, who grow fastest first (Howell 9, 17, 28).

        ν is that of the free survivors; where none is free, the middle of its interval, and nobody invades as long as
        some ν of the interval keeps all of them out.
        """
        problem, least = self.problem, self.round_off()
        candidates = candidates[~self.present[candidates] & (problem.upper[candidates] > 0)]
        if problem.e is None:
            growth = -self.h[candidates]
        else:
            low, high = self.multipliers(self.residents)
            # Survivors that are out of balance by so much cannot tell anything smaller.
            least = max(least, low - high)
            everyone = self.multipliers(np.concatenate([self.residents, candidates]))
            if everyone[0] - everyone[1] <= least:
                return np.empty(0, dtype=np.intp)
            growth = middle(low, high) * problem.e[candidates] - self.h[candidates]
        order = np.argsort(-growth, kind="stable")
        return candidates[order[growth[order] > least]]

    def settle(self, equilibrate: Equilibrate, candidates: NDArray) -> None:
        """Admit invaders, find the new equilibrium, look again, until none of the candidates invades."""
        if self.disturbed:
            self.balance(equilibrate)
        if len(self.invaders(candidates)) > MANY * self.problem.n:
            self.open(equilibrate)
        while len(invaders := self.invaders(candidates)):
            self.admit(invaders[: max(AT_ONCE, int(CROWD * np.count_nonzero(self.alpha)))])
            self.balance(equilibrate)

    def open(self, equilibrate: Equilibrate) -> None:
        """Everybody's equilibrium at once; whoever has weight then has got in."""
        self.alpha = equilibrate(self.problem, self.alpha)
        R = self.residents
        stay = self.alpha[R] > 0
        self.present[R[~stay]] = False
        self.residents, self.rows = R[stay], self.rows[stay]
        self.admit(np.setdiff1d(np.flatnonzero(self.alpha > 0), R, assume_unique=True))
        self.h = self.gradient()

    def balance(self, equilibrate: Equilibrate) -> None:
        """The residents' new equilibrium."""
        R, problem = self.residents, self.problem
        self.disturbed = False
        if not len(R):
            return
        if problem.e is not None and float(problem.upper[R].sum()) <= problem.d * (1 + 1e-12):
            self.alpha[R] = problem.upper[R]  # the only point there is
            self.h = self.gradient()
            return
        part = restrict(problem, R, self.rows.take(R, axis=1) if problem.idx is None else None)
        self.alpha[R] = equilibrate(part, self.alpha[R])
        self.h = self.gradient()

    def nearest(self, candidates: NDArray) -> NDArray:
        """Candidates without weight, from the one closest to invading on."""
        problem = self.problem
        candidates = candidates[(self.alpha[candidates] == 0) & (problem.upper[candidates] > 0)]
        rho = self.h[candidates]
        if problem.e is not None:
            rho = rho - middle(*self.multipliers(self.residents)) * problem.e[candidates]
        return candidates[np.argsort(rho, kind="stable")]


@dataclass(frozen=True)
class Community:
    """What is remembered of a stream: its survivors and a reserve of those without weight.

    Attributes
    ----------
    X : array of shape (m, features)
    sign : array of shape (m,)
        ±1, the class; all 1 where there are none.
    cap : array of shape (m,)
        Upper bounds of α, or what they are made of.
    alpha : array of shape (m,)
    h : array of shape (m,)
        Gradient Qα − p.
    ids : int array of shape (m,), ascending
        Which point of the stream each is.
    seen : int
        Points met so far.
    invasions, extinctions : int
        Points that ever got in, and went; the difference is the number of survivors.
    """

    X: NDArray
    sign: NDArray
    cap: NDArray
    alpha: NDArray
    h: NDArray
    ids: NDArray
    seen: int = 0
    invasions: int = 0
    extinctions: int = 0

    @classmethod
    def empty(cls, features: int) -> Community:
        """Before anything is met."""
        none = np.empty(0)
        return cls(np.empty((0, features)), none, none, none, none, np.empty(0, dtype=np.int64))

    @property
    def survivors(self) -> NDArray:
        """Positions of those with weight."""
        return np.flatnonzero(self.alpha > 0)


def learn(
    community: Community,
    X: NDArray,
    sign: NDArray,
    cap: NDArray,
    ids: NDArray,
    *,
    pose: Callable[[NDArray, NDArray, NDArray, int], DualProblem],
    equilibrate: Equilibrate,
    reserve: Callable[[int], float],
    n_init: int,
) -> Community:
    """Meet more points of a stream, a block at a time; returns the new community and changes nothing.

    Parameters
    ----------
    community : Community
    X, sign, cap, ids : arrays with a row for each newcomer
        As in `Community`.
    pose : callable
        ``pose(X, sign, cap, seen) -> DualProblem`` of some points, of ``seen`` met so far.
    equilibrate : callable
        Minimises a small problem from a feasible start.
    reserve : callable
        ``reserve(survivors)``: how many points without weight to remember.
    n_init : int
        Nobody is forgotten before so many points were met: the first ones are solved as a batch.
    """
    rows: NDArray | None = None
    start = 0
    while start < len(X):
        size = max(BLOCK, n_init - community.seen)
        part = slice(start, start + size)
        start += size
        seen = community.seen + len(X[part])
        together = Community(
            np.concatenate([community.X, X[part]]),
            np.concatenate([community.sign, sign[part]]),
            np.concatenate([community.cap, cap[part]]),
            np.concatenate([community.alpha, np.zeros(len(X[part]))]),
            np.empty(0),
            np.concatenate([community.ids, ids[part]]),
            seen,
        )
        problem = pose(together.X, together.sign, together.cap, seen)
        survivors, newcomers = community.survivors, np.arange(len(community.alpha), problem.n)
        if rows is not None:
            rows = np.concatenate([rows, problem.gram.block(survivors, newcomers)], axis=1)
        habitat = Habitat(problem, together.alpha, rows)
        habitat.settle(equilibrate, np.arange(problem.n))
        alpha = habitat.alpha
        idle = habitat.nearest(np.arange(problem.n))
        alive = np.flatnonzero(alpha > 0)
        # Before the second class comes nobody has weight, and there is nobody to be near to.
        room = reserve(len(alive)) if len(alive) else max(n_init, reserve(n_init))
        keep = np.sort(np.concatenate([alive, idle if seen < n_init or room >= len(idle) else idle[: int(room)]]))
        # Rows of those alive, in their order, over those who stay.
        order = np.argsort(habitat.residents, kind="stable")
        order = order[alpha[habitat.residents[order]] > 0]
        rows = habitat.rows[np.ix_(order, keep)]
        invasions = community.invasions + habitat.invasions
        community = Community(
            together.X[keep],
            together.sign[keep],
            together.cap[keep],
            alpha[keep],
            habitat.h[keep],
            together.ids[keep],
            seen,
            invasions,
            invasions - len(alive),
        )
    return community
