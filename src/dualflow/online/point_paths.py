"""The optimum of a hinge or a tube without a point, for one point after the other: each by its response to that, or led
there from that of all by exact unlearning (Cauwenberghs and Poggio, NIPS 13, section 3); none moves another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .incremental import Engine
from .leave_one_out import LARGEST, Response
from .newcomers import LITTLE, seat
from .state import PathError

__all__ = ["PointPaths"]

#: The part of a bias interval's ends within which a point counts as one that sets it.
NEAR = 1e-9
#: The part of the largest weight by which one is off its bounds that fixes the bias beyond doubt.
CLEAR = 1e-6
#: Columns that are kept beside the margin's, for the next point may want them too.
SPARE = 512
#: Free variables from which the response is the faster one: a step of a path is a product with the inverse of so many.
MANY = 128
#: Free variables farthest from their bounds that the bias is read from.
READ = 8


@dataclass(frozen=True)
class _Signed:
    """Q = σσᵀ∘(K + c)[idx, idx] as an engine asks for it."""

    K: NDArray
    sigma: NDArray
    idx: NDArray
    offset: float

    def column(self, k: int, start: int, stop: int) -> NDArray:
        values: NDArray = self.K[self.idx[k], self.idx[start:stop]] + self.offset
        values *= self.sigma[k] * self.sigma[start:stop]
        return values

    def block(self, rows: NDArray, J: NDArray) -> NDArray:
        values: NDArray = self.K[self.idx[rows][:, None], self.idx[J]] + self.offset
        values *= self.sigma[J]
        values *= self.sigma[rows][:, None]
        return values

    def product(self, alpha: NDArray) -> NDArray:
        weights = np.bincount(self.idx, self.sigma * alpha, minlength=len(self.K))
        values: NDArray = self.sigma * (self.K @ weights + self.offset * weights.sum())[self.idx]
        return values


class PointPaths:
    """A problem at its optimum, and what becomes of it where a point is taken out.

    Parameters
    ----------
    problem : DualProblem
        Bounds are finite, d = 0, and Q is positive semidefinite; without a ridge.
    K : array of shape (n, n)
        The kernel matrix of its points; only read.
    alpha : array of shape (problem.n,)
        At, or next to, the optimum.
    bias : float
        b, which for a problem with an equality is its multiplier's negative.

    Raises
    ------
    PathError
        The optimum is not found from there.
    """

    def __init__(self, problem: DualProblem, K: NDArray, alpha: NDArray, bias: float) -> None:
        self.idx = np.arange(problem.n) if problem.idx is None else problem.idx
        self.upper, balanced = problem.upper, problem.e is not None
        alpha = np.where(alpha <= LITTLE * float(alpha.max(initial=0.0)), 0.0, alpha)
        alpha = np.where(self.upper - alpha <= LITTLE * self.upper, self.upper, alpha)
        matrix = _Signed(K, problem.sigma, self.idx, problem.offset)
        self.problem, self.matrix, self.response = problem, matrix, self._response(problem, matrix, alpha)
        self.engine = engine = Engine(matrix, balanced)
        engine.has_rescue = True
        engine.append(problem.p, problem.upper, problem.sigma if balanced else np.zeros(problem.n), problem.diag())
        seat(engine, None, alpha, problem.upper, -bias if balanced else 0.0, whole=False)
        engine.refresh()
        self.kept = engine.snapshot()
        # One path from each snapshot: choosing the near variables anew seldom pays.
        engine.near_from = 16 * engine.near_from
        self.place = np.argsort(self.idx, kind="stable").reshape(len(K), -1)

    def at_rest(self) -> tuple[NDArray, float]:
        """α and the multiplier's negative b where the engine stands; b is the middle of its interval, if it has one."""
        engine = self.engine
        alpha, S, b = np.clip(engine.alpha, 0.0, self.upper), engine.margin, engine.b
        if (np.minimum(alpha[S], self.upper[S] - alpha[S]) > CLEAR * alpha.max(initial=0.0)).any():
            return alpha, b
        low, high = engine.bias_interval()
        if low <= high and (np.isfinite(low) or np.isfinite(high)):
            b = 0.5 * (low + high) if np.isfinite(low) and np.isfinite(high) else low if np.isfinite(low) else high
        return alpha, float(b)

    def movers(self) -> NDArray:
        """The points without which the model is another: those with weight, and where no weight is free, those that
        the interval of biases ends at."""
        engine = self.engine
        moves = engine.alpha > 0
        low, high = engine.bias_interval()
        if engine.bordered and low < high:
            own = engine.b - engine.e * engine.g
            size = NEAR * max(1.0, abs(low), abs(high))
            moves = moves | (np.abs(own - low) <= size) | (np.abs(own - high) <= size)
        found: NDArray = np.unique(self.idx[moves])
        return found

    def without(self, point: int) -> tuple[NDArray, float] | None:
        """`at_rest` without a point; None where the path breaks off."""
        engine = self.engine
        variables = self.place[point]
        if (found := self._answered(variables)) is not None:
            return found
        try:
            # Those at 0 first, so that none of them grows on the way of another.
            for k in variables[np.argsort(engine.alpha[variables], kind="stable")]:
                engine.unlearn(int(k))
            return self.at_rest()
        except PathError:
            return None
        finally:
            engine.restore(self.kept)
            engine.pool.evict(engine.margin, SPARE)

    @staticmethod
    def _response(problem: DualProblem, matrix: _Signed, alpha: NDArray) -> Response | None:
        if problem.n > LARGEST or np.count_nonzero((alpha > 0) & (alpha < problem.upper)) < MANY:
            return None
        everyone = np.arange(problem.n)
        try:
            return Response(problem, matrix.block(everyone, everyone), alpha)
        except (PathError, np.linalg.LinAlgError):
            return None

    def _answered(self, variables: NDArray) -> tuple[NDArray, float] | None:
        """What the response says; None where it has no answer, or no weight is free to read the bias from."""
        alpha = None if self.response is None else self.response.without(variables)
        if alpha is None:
            return None
        if not self.engine.bordered:
            return alpha, 0.0
        inside = np.minimum(alpha, self.upper - alpha)
        inside[variables] = 0.0
        few = np.argpartition(-inside, min(READ, len(inside) - 1))[:READ]
        few = few[inside[few] > CLEAR * alpha.max(initial=0.0)]
        if not len(few):
            return None
        matrix = self.matrix
        weights = np.bincount(self.idx, matrix.sigma * alpha, minlength=len(matrix.K))
        own = matrix.sigma[few] * self.problem.p[few] - matrix.K[self.idx[few]] @ weights
        return alpha, float(own.mean())
