"""Sequential minimal optimisation: each update solves the problem over one pair of variables exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.options import Number, option
from ..core.solver import EVERY_CONVEX, Solver
from ..core.workspace import Workspace

#: Least curvature along a pair, relative to the largest Qᵢᵢ (LIBSVM's τ). Without it, Q may be flat or indefinite along
#: the pair.
MIN_CURVATURE = 1e-12
#: Updates per step if Q is not cached: about a second, after which limits are checked.
UPDATES_PER_STEP = 1000


@dataclass(frozen=True)
class SMOState:
    """α of shape (n,), h = Qα − p of shape (n,), the worst KKT violation, and the pair updates so far."""

    alpha: NDArray
    h: NDArray
    violation: float
    updates: int


@dataclass(frozen=True)
class SMO(Solver[Workspace, SMOState]):
    """SMO with second-order pair selection, for every kind of problem with lower bounds.

    The pair is (i, j) with i the worst violator and j the one promising the largest decrease with it
    (Fan, Chen, Lin 2005, WSS 2; LIBSVM's rule; the blog's section 4 uses the first-order one). Without an
    equality a single variable moves. One step of the driver is n pair updates, or 1000 where n is above 4000.

    Parameters
    ----------
    kkt_tol : float, default=1e-10
        Worst KKT violation (gradient units) at which the solver rests. The driver's certified gap usually
        ends the run earlier; where no gap exists (indefinite Q) this is the only criterion.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> solution = solve(problem, "smo")
    >>> round(solution.certificate.objective, 6), round(solution.bias, 6)  # −½‖w‖² with w = 2, and b
    (-2.0, -3.0)
    """

    kkt_tol: float = option(1e-10, Number(at_least=0))

    state_type: ClassVar[type] = SMOState

    name: ClassVar[str] = "smo"
    stochastic: ClassVar[bool] = False
    kinds = EVERY_CONVEX  # all that have a lower bound of 0, which the updates rely on
    needs_psd: ClassVar[bool] = False
    default_max_steps: ClassVar[int] = 2000

    def start(self, problem: Workspace, rng: np.random.Generator, warm: NDArray | None = None) -> SMOState:
        alpha = warm
        if alpha is None:
            # 0 if it is feasible; on the simplex a feasible point that needs few columns of Q.
            alpha = problem.project(np.zeros(problem.n)) if problem.d == 0 else _corner(problem)
        return SMOState(alpha, problem.gradient(alpha), np.inf, 0)

    def step(self, problem: Workspace, state: SMOState) -> SMOState:
        alpha = state.alpha.copy()
        if problem.uses_dense_columns:
            problem.dense()  # before the product, so that a resumed run multiplies as this one does
        # Updates accumulate round-off; if Q is cached a new gradient takes as long as one of the n updates.
        h = problem.gradient(alpha) if problem.uses_dense_columns else state.h.copy()
        sweep = _pair_updates if problem.e is not None else _single_updates
        count = max(100, problem.n) if problem.uses_dense_columns else UPDATES_PER_STEP
        updates, violation = sweep(problem, alpha, h, count, self.kkt_tol)
        return replace(state, alpha=alpha, h=h, violation=violation, updates=state.updates + updates)

    def finished(self, state: SMOState) -> bool:
        return state.violation <= self.kkt_tol


def _corner(problem: Workspace) -> NDArray:
    """Return a feasible α of a simplex problem with as few nonzero variables as the bounds allow (LIBSVM's start)."""
    upper = problem.effective_upper
    before = np.concatenate([[0.0], np.cumsum(upper)[:-1]])
    return problem.project(np.clip(problem.d - before, 0.0, upper))


def _pair_updates(problem: Workspace, alpha: NDArray, h: NDArray, count: int, kkt_tol: float) -> tuple[int, float]:
    """Make up to ``count`` pair updates of α and h in place; return their number, and the violation before the last."""
    e, upper, diag = problem.e, problem.upper, problem.diag()
    assert e is not None
    positive = e > 0
    least = MIN_CURVATURE * (float(diag.max()) or 1.0)

    def rooms(k: int | slice) -> tuple[NDArray, NDArray]:
        above, below = alpha[k] < upper[k], alpha[k] > 0
        return np.where(positive[k], above, below), np.where(positive[k], below, above)

    can_rise, can_fall = rooms(slice(None))  # eᵢαᵢ can rise, can fall
    score = -e * h
    column = problem.cached_columns()
    violation = np.inf
    for done in range(count):
        i = int(np.argmax(np.where(can_rise, score, -np.inf)))
        excess = np.where(can_fall, score[i] - score, -np.inf)
        violation = float(excess.max()) if can_rise[i] else 0.0
        if violation <= kkt_tol:
            return done, max(violation, 0.0)
        qi = column(i)
        curvature = np.maximum(diag[i] + diag - 2.0 * e[i] * e * qi, least)
        gain = np.where(excess > 0, excess * excess / curvature, -np.inf)
        j = int(np.argmax(gain))
        room_i = upper[i] - alpha[i] if positive[i] else alpha[i]
        room_j = alpha[j] if positive[j] else upper[j] - alpha[j]
        t = min(excess[j] / curvature[j], room_i, room_j)
        old_i, old_j = alpha[i], alpha[j]
        # A bound that stops the move is met exactly: sets of bounded variables are found by equality.
        alpha[i] = (upper[i] if positive[i] else 0.0) if t == room_i else old_i + e[i] * t
        alpha[j] = (0.0 if positive[j] else upper[j]) if t == room_j else old_j - e[j] * t
        h += qi * (alpha[i] - old_i)
        h += column(j) * (alpha[j] - old_j)
        np.multiply(e, h, out=score)
        np.negative(score, out=score)
        for k in (i, j):
            can_rise[k], can_fall[k] = rooms(k)
    return count, violation


def _single_updates(problem: Workspace, alpha: NDArray, h: NDArray, count: int, kkt_tol: float) -> tuple[int, float]:
    """Make updates without an equality: the single variable with the largest decrease of f moves."""
    upper = problem.upper
    curvature = np.maximum(problem.diag(), MIN_CURVATURE * (float(problem.diag().max()) or 1.0))
    column = problem.cached_columns()
    violation = np.inf
    for done in range(count):
        wrong = np.where(h < 0, np.where(alpha < upper, -h, 0.0), np.where(alpha > 0, h, 0.0))
        violation = float(wrong.max())
        if violation <= kkt_tol:
            return done, violation
        # Decrease of f by a clipped Newton step on each variable alone.
        target = np.clip(alpha - h / curvature, 0.0, upper)
        move = target - alpha
        j = int(np.argmin(move * (h + 0.5 * curvature * move)))
        alpha[j] = target[j]
        h += column(j) * move[j]
    return count, violation
