"""Frank-Wolfe: each step solves one linear problem; no projection and no linear system is needed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import OneOf, option
from ..core.problem import DualProblem
from ..core.solver import BOUNDED, Solver
from ..core.workspace import Workspace
from ..flows.gradient import interior_point


@dataclass(frozen=True)
class FrankWolfeState:
    """α of shape (n,), h = Qα − p of shape (n,), the step count, and the last Frank-Wolfe gap hᵀ(α − s)."""

    alpha: NDArray
    h: NDArray
    k: int
    fw_gap: float


@dataclass(frozen=True)
class FrankWolfe(Solver[Workspace, FrankWolfeState]):
    """Frank-Wolfe (conditional gradient) on every compact feasible set: classic, away-step, pairwise.

    The vertex s minimising hᵀs has a closed form on all of them: a coordinate of the simplex, or a box sorted by
    hᵢ/eᵢ. Away vertices are taken from the smallest face that holds α (Freund, Grigas, Mazumder 2017; on the
    simplex this is the textbook away step), so no list of vertices is kept.

    Parameters
    ----------
    variant : {"away", "pairwise", "classic"}
        "classic" is Bauckhage's, with step 2/(k + 2) from the centre: 1e-2 to 1 after thousands of steps. The
        other two search the line exactly and converge linearly.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "frank-wolfe", variant="pairwise")
    >>> round(solution.certificate.objective, 4)  # −½‖w‖² with w = 2
    -2.0
    """

    variant: str = option("away", OneOf(words=("away", "pairwise", "classic")))

    state_type: ClassVar[type] = FrankWolfeState

    name: ClassVar[str] = "frank-wolfe"
    stochastic: ClassVar[bool] = False
    kinds = BOUNDED
    certify_every: ClassVar[int] = 100
    default_max_steps: ClassVar[int] = 100_000

    def start(self, problem: Workspace, rng: np.random.Generator, warm: NDArray | None = None) -> FrankWolfeState:
        alpha = warm
        if alpha is None:
            alpha = interior_point(problem)
            if self.variant != "classic":
                # Away steps leave one face at a time, so they start on the smallest: a vertex.
                alpha = best_vertex(problem, problem.gradient(alpha))
        return FrankWolfeState(alpha, problem.gradient(alpha), 0, np.inf)

    def step(self, problem: Workspace, state: FrankWolfeState) -> FrankWolfeState:
        alpha, h = state.alpha, state.h
        toward = best_vertex(problem, h)
        fw_gap = float(h @ (alpha - toward))
        moves = [toward - alpha]
        if self.variant != "classic":
            away = best_vertex(problem, -h, face_of=alpha)
            moves.append(toward - away if self.variant == "pairwise" else alpha - away)
            # A move of the size of round-off (α is its own away vertex) has no meaningful direction.
            least = 1e-12 * float(problem.effective_upper.max())
            moves = [move for move in moves if np.abs(move).max() > least] or moves[:1]
        move, Qm, length, longest = self.best_move(problem, state, moves)
        after = np.clip(alpha + length * move, 0.0, problem.upper)
        if length == longest:
            # Variables that reach their bound are set to it exactly: faces are recognised by equality.
            tiny = 1e-14 * problem.effective_upper
            after[after < tiny] = 0.0
            full = problem.upper - after < tiny
            after[full] = problem.upper[full]
        fresh = state.k % 50 == 49  # h is updated, and recomputed every 50 steps
        h_after = problem.gradient(after) if fresh else h + length * Qm
        return replace(state, alpha=after, h=h_after, k=state.k + 1, fw_gap=fw_gap)

    def best_move(
        self, problem: Workspace, state: FrankWolfeState, moves: list[NDArray]
    ) -> tuple[NDArray, NDArray, float, float]:
        """Return the candidate move along which f falls most, as (move, Q move, length, longest length)."""
        if self.variant == "classic":
            return moves[0], problem.matvec(moves[0]), 2.0 / (state.k + 2.0), 1.0
        tried = []
        for move in moves:
            Qm, slope = problem.matvec(move), float(state.h @ move)
            longest, curvature = _longest(problem, state.alpha, move), float(move @ Qm)
            length = min(longest, max(0.0, -slope / curvature)) if curvature > 0 else longest
            tried.append((length * slope + 0.5 * length**2 * curvature, move, Qm, length, longest))
        return min(tried, key=lambda trial: trial[0])[1:]

    def finished(self, state: FrankWolfeState) -> bool:
        return state.fw_gap <= 0.0


def best_vertex(problem: DualProblem, h: NDArray, face_of: NDArray | None = None) -> NDArray:
    """Return the vertex s of least hᵀs of the feasible set, or of the smallest face that contains ``face_of``.

    With an equality: variables enter in the order of hᵢ/eᵢ (those with eᵢ = −1 leave their upper bound) until
    eᵀs = d; the last one goes as far as needed.
    """
    lower, upper = np.zeros(problem.n), problem.effective_upper
    if face_of is not None:
        # A variable 1e-17 off its bound must count as bounded: as a free one it would stop every step.
        slack = 1e-12 * upper
        lower = np.where(face_of >= upper - slack, upper, 0.0)
        upper = np.where(face_of <= slack, 0.0, upper)
    e = problem.e
    if e is None:
        return np.where(h < 0, upper, lower)
    # In x = eα every variable can rise by its room at cost h/e per unit, until their sum is d.
    room = upper - lower
    least = float(lower[e > 0].sum()) - float(upper[e < 0].sum())
    budget = problem.d - least
    cost = h * e
    vertex = np.where(e > 0, lower, upper)
    open_ = np.flatnonzero(room > 0)
    order = open_[np.argsort(cost[open_], kind="stable")]
    total = np.cumsum(room[order])
    count = int(np.searchsorted(total, budget * (1 + 1e-12) + np.finfo(float).tiny, side="right"))
    filled = order[:count]
    vertex[filled] = np.where(e[filled] > 0, upper[filled], lower[filled])
    if count < len(order):
        k = order[count]
        rest = budget - (float(total[count - 1]) if count else 0.0)
        vertex[k] += e[k] * min(max(rest, 0.0), room[k])
    return vertex


def _longest(problem: DualProblem, alpha: NDArray, move: NDArray) -> float:
    """Return the longest feasible step along a move."""
    falls, rises = move < 0, move > 0
    longest = np.inf
    if falls.any():
        longest = min(longest, float((alpha[falls] / -move[falls]).min()))
    if rises.any():
        longest = min(longest, float(((problem.upper[rises] - alpha[rises]) / move[rises]).min()))
    return longest if np.isfinite(longest) else 0.0
