"""Optima of a hinge or tube problem after one point is removed or added, for each point in turn.

Each is found by the linear `Response` to a removal, or by exact learning or unlearning from the optimum of all points
(Cauwenberghs and Poggio, NIPS 13, section 3). The model of all points is restored after each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ._path import FLOOR
from .engine import Engine
from .hinge_updates import ROUND_OFF_RATIO, start_at_optimum
from .leave_one_out import MAX_VARIABLES_RESPONSE, Response
from .state import PathError

#: A point sets an end of the bias interval if its relative distance from that end is at most this.
BIAS_END_TOLERANCE = 1e-9
#: A variable is free and fixes the bias if its distance from its bounds exceeds this share of the largest weight.
MIN_FREE_DISTANCE = 1e-6
#: This many columns are cached besides those of the margin points, because the next point may need them.
N_SPARE_COLUMNS = 512
#: With at least this many free variables, the response is faster than a path, each of whose steps is a product with the
#: inverse.
MIN_FREE_RESPONSE = 128
#: The bias is the mean of at most this many free variables, those farthest from their bounds.
MAX_FREE_READ = 8


@dataclass(frozen=True)
class _Signed:
    """Q = σσᵀ∘(K + c)[idx, idx] with the methods that `Engine` needs."""

    K: NDArray
    sigma: NDArray
    idx: NDArray
    offset: float

    def column(self, k: int, start: int, stop: int) -> NDArray:
        """Return Q[start:stop, k]."""
        values: NDArray = self.K[self.idx[k], self.idx[start:stop]] + self.offset
        values *= self.sigma[k] * self.sigma[start:stop]
        return values

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        """Return Q[rows, J]."""
        values: NDArray = self.K[self.idx[rows][:, None], self.idx[J]] + self.offset
        values *= self.sigma[J]
        values *= self.sigma[rows][:, None]
        return values

    def product(self, alpha: NDArray) -> NDArray:
        """Return Q α."""
        weights = np.bincount(self.idx, self.sigma * alpha, minlength=len(self.K))
        values: NDArray = self.sigma * (self.K @ weights + self.offset * weights.sum())[self.idx]
        return values


class PointPaths:
    """A problem at its optimum, and its optima without one point each.

    Parameters
    ----------
    problem : DualProblem
        Finite bounds, d = 0, Q positive semidefinite, no ridge.
    K : array of shape (n, n)
        The kernel matrix of its points; it is not changed.
    alpha : array of shape (problem.n,)
        At the optimum or close to it.
    bias : float
        b; for a problem with an equality the negative of its multiplier.
    responds : bool, default=True
        Whether `without` may use the `Response`, which takes two matrices of memory.

    Raises
    ------
    PathError
        The path from ``alpha`` does not reach the optimum.
    """

    def __init__(self, problem: DualProblem, K: NDArray, alpha: NDArray, bias: float, *, responds: bool = True) -> None:
        self.idx = np.arange(problem.n) if problem.idx is None else problem.idx
        self.upper, balanced = problem.upper, problem.e is not None
        alpha = np.where(alpha <= ROUND_OFF_RATIO * float(alpha.max(initial=0.0)), 0.0, alpha)
        alpha = np.where(self.upper - alpha <= ROUND_OFF_RATIO * self.upper, self.upper, alpha)
        matrix = _Signed(K, problem.sigma, self.idx, problem.offset)
        self.problem, self.matrix = problem, matrix
        self.response = self._response(problem, matrix, alpha) if responds else None
        self.engine = engine = Engine(matrix, balanced)
        engine.has_fallback = True
        engine.append(problem.p, problem.upper, problem.sigma if balanced else np.zeros(problem.n), problem.diag())
        start_at_optimum(engine, None, alpha, problem.upper, -bias if balanced else 0.0, all_rows=False)
        engine.refresh()
        self.kept = engine.snapshot()
        # One path follows each snapshot, so that choosing the near variables anew costs more than it saves.
        engine.min_work_near = 16 * engine.min_work_near
        self.place = np.argsort(self.idx, kind="stable").reshape(len(K), -1)

    def at_rest(self) -> tuple[NDArray, float]:
        """Return α and b, the negative of the multiplier; b is the middle of its interval if it is not unique."""
        engine = self.engine
        alpha, S = np.clip(engine.alpha, 0.0, self.upper), engine.margin
        if (np.minimum(alpha[S], self.upper[S] - alpha[S]) > MIN_FREE_DISTANCE * alpha.max(initial=0.0)).any():
            return alpha, engine.b
        return alpha, float(engine.central_bias(engine.b))

    def movers(self) -> NDArray:
        """Return the points whose removal can change the model.

        These are the points with weight and, if no variable is free, those that set an end of the bias interval.
        """
        engine = self.engine
        moves = engine.alpha > 0
        low, high = engine.bias_interval()
        if engine.bordered and low < high:
            own = engine.b - engine.e * engine.g
            size = BIAS_END_TOLERANCE * max(1.0, abs(low), abs(high))
            moves = moves | (np.abs(own - low) <= size) | (np.abs(own - high) <= size)
        found: NDArray = np.unique(self.idx[moves])
        return found

    def without(self, point: int) -> tuple[NDArray, float] | None:
        """Return `at_rest` without a point; None if the path breaks off."""
        engine = self.engine
        variables = self.place[point]
        if (found := self._respond(variables)) is not None:
            return found
        try:
            # Variables at 0 first, so that none of them grows while another one is unlearned.
            for k in variables[np.argsort(engine.alpha[variables], kind="stable")]:
                engine.unlearn(int(k))
            return self.at_rest()
        except PathError:
            return None
        finally:
            engine.restore(self.kept)
            engine.pool.evict(engine.margin, N_SPARE_COLUMNS)

    def extend(self, K: NDArray, sigma: NDArray) -> None:
        """Prepare `with_last`: K, shape (n + 1, n + 1), and sigma, shape (n + 1,), have the new point last.

        Both are read at each call of `with_last`, for which the caller sets their last entries. There must be one
        variable a point.
        """
        self.engine.matrix = self.matrix = _Signed(K, sigma, np.arange(len(K)), self.problem.offset)

    def with_last(self, label: float, upper: float) -> tuple[NDArray, float] | None:
        """Return α, shape (n + 1,), and b with the last point of `extend`; None if the path breaks off."""
        engine, matrix = self.engine, self.matrix
        n = len(matrix.K) - 1
        try:
            own = matrix.K[n, n] + matrix.offset
            engine.append(np.ones(1), np.array([upper]), np.array([label * engine.bordered]), np.array([own]))
            engine.learn(n)
            engine.polish(float(engine.figures[FLOOR]))
            alpha, S = np.clip(engine.alpha, 0.0, engine.u), engine.margin
            room = np.minimum(alpha[S], engine.u[S] - alpha[S])
            is_free = (room > MIN_FREE_DISTANCE * alpha.max(initial=0.0)).any()
            return alpha, engine.b if is_free else float(engine.central_bias(engine.b))
        except PathError:
            return None
        finally:
            engine.restore(self.kept)
            engine.pool.evict(engine.margin, N_SPARE_COLUMNS)

    @staticmethod
    def _response(problem: DualProblem, matrix: _Signed, alpha: NDArray) -> Response | None:
        """Return the `Response` of a problem, or None if it is too large, has few free variables, or is singular."""
        if (
            problem.n > MAX_VARIABLES_RESPONSE
            or np.count_nonzero((alpha > 0) & (alpha < problem.upper)) < MIN_FREE_RESPONSE
        ):
            return None
        all_variables = np.arange(problem.n)
        try:
            return Response(problem, matrix.block(all_variables, all_variables), alpha)
        except (PathError, np.linalg.LinAlgError):
            return None

    def _respond(self, variables: NDArray) -> tuple[NDArray, float] | None:
        """Return the response's answer; None if it has none or if no free variable determines the bias."""
        alpha = None if self.response is None else self.response.without(variables)
        if alpha is None:
            return None
        if not self.engine.bordered:
            return alpha, 0.0
        inside = np.minimum(alpha, self.upper - alpha)
        inside[variables] = 0.0
        read = np.argpartition(-inside, min(MAX_FREE_READ, len(inside) - 1))[:MAX_FREE_READ]
        read = read[inside[read] > MIN_FREE_DISTANCE * alpha.max(initial=0.0)]
        if not len(read):
            return None
        matrix = self.matrix
        weights = np.bincount(self.idx, matrix.sigma * alpha, minlength=len(matrix.K))
        own = matrix.sigma[read] * self.problem.p[read] - matrix.K[self.idx[read]] @ weights
        return alpha, float(own.mean())
