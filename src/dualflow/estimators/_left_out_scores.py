"""What each training point of a one-class model scores by the model without it, and what that says of new points."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..exceptions import ProblemError
from ..online.each_without import each_without
from ._optimum import TOL, optimum

__all__ = ["LeftOutScores", "Scores", "left_out_scores", "rank_for", "share_of"]

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Scores:
    """Leave-one-out scores of n points, shape (n,), in the order of the problem, and the worst certified relative gap
    of the models behind them. Of a ball they are −‖φ(x) − a‖², of a plane ⟨w, φ(x)⟩ with weights that sum to 1."""

    values: NDArray
    relative_gap: float

    def threshold(self, contamination: float) -> float:
        """The score below which a point is outside: its p-value against these scores is then ≤ ``contamination``."""
        rank = rank_for(contamination, len(self.values))
        return float(np.partition(self.values, rank - 1)[rank - 1])


@dataclass(frozen=True)
class LeftOutScores(Scores):
    """And the models, as far as they differ.

    Attributes
    ----------
    model_of : int array of shape (n,)
        Which of them each point is judged by.
    weights : sparse array of shape (models, n)
    squares : array of shape (models,)
        ‖a‖² of a ball; 0 for planes.
    slack : float
        Round-off of a score: points that differ by less are equal.
    refits : int
        How many took a solve of their own.
    """

    model_of: NDArray
    weights: scipy.sparse.csr_array
    squares: NDArray
    slack: float
    refits: int

    def below(self, scores: NDArray) -> NDArray:
        """How many points, each by the model without it, score no more than new ones of ``scores``, shape (k, models),
        by that same model: shape (k,)."""
        found = np.zeros(len(scores), dtype=np.int64)
        order = np.argsort(self.model_of, kind="stable")
        starts = np.searchsorted(self.model_of[order], np.arange(len(self.squares) + 1))
        for j in range(len(self.squares)):
            own = np.sort(self.values[order[starts[j] : starts[j + 1]]])
            found += np.searchsorted(own, scores[:, j] + self.slack, side="right")
        return found


def rank_for(contamination: float, n: int) -> int:
    """How many of n + 1 points may be outside; ProblemError where that is none."""
    rank = share_of(contamination, n + 1)
    if rank < 1:
        least = int(np.ceil(1.0 / contamination)) - 1
        raise ProblemError(
            f"contamination={contamination!r} needs {least} points or more to tell so small a share; there are {n}"
        )
    return rank


def share_of(contamination: float | None, n: int) -> int:
    """The whole points in a share of n: ⌊cn⌋, to round-off."""
    return int(np.floor((contamination or 0.0) * n * (1 + 4 * _EPS)))


def left_out_scores(problem: DualProblem, alpha: NDArray) -> LeftOutScores:
    """The scores of all points of a description whose bounds 1/(νn) are those of its points, from a start.

    Without a point the bounds of the others are 1/(ν(n − 1)). Points that then have no weight, whoever goes, leave one
    and the same model behind; it is found once, without one of them, and its certificate is good for all.
    """
    n = problem.n
    if n < 2:
        raise ProblemError("leave-one-out needs two points of positive weight or more; there is one")
    certificate = optimum(problem, alpha)
    if certificate.gap is None:
        raise ProblemError(
            "kernel: it is indefinite on these points, so that no model without one of them can be certified; give one "
            "that is positive semidefinite (dualflow.repair mends a matrix)"
        )
    upper, total = problem.upper, float(problem.upper.sum())
    soft = bool(np.isfinite(upper).all())
    stretches = total / (total - upper) if soft else np.ones(n)
    ball = problem.reading.needs_self_kernel
    diag = problem.centred().gram.diag()
    values, model_of, gaps = np.empty(n), np.full(n, -1), np.zeros(n)
    weights: list[scipy.sparse.csr_array] = []
    squares: list[float] = []
    refits = 0

    alike = bool(np.ptp(upper) == 0) if soft else True
    idle = np.flatnonzero(certificate.alpha == 0) if alike else np.empty(0, dtype=np.intp)
    asked = [np.append(np.setdiff1d(np.arange(n), idle), idle[:1])]
    while asked:
        points = asked.pop()
        for left in each_without(problem, certificate.alpha, points, optimum, TOL, stretches[points]):
            c, model = left.point, left.weights()
            square = float(left.certificate.quadratic) / left.problem.scale if ball else 0.0
            model_of[c], gaps[c] = len(weights), left.certificate.relative_gap or 0.0
            values[c] = 2.0 * left.expansion(model) - square - diag[c] if ball else left.expansion(model)
            weights.append(scipy.sparse.csr_array(model[None]))
            squares.append(square)
            refits += left.refitted
            if len(idle) and c == idle[0]:
                # Whoever has no weight in this one, as it is a point that is inside, leaves it behind as well.
                limit = -(float(left.certificate.radius or 0.0) ** 2) if ball else -left.certificate.bias
                same = idle[1:][model[idle[1:]] == 0] if values[c] >= limit else idle[:0]
                (J,) = np.nonzero(model)
                inner = left.gram.block(same, J) @ model[J]
                values[same] = 2.0 * inner - square - diag[same] if ball else inner
                model_of[same], gaps[same] = model_of[c], gaps[c]
                if len(others := idle[model_of[idle] < 0]):
                    asked.append(others)
    slack = 64 * _EPS * (float(np.abs(diag).max()) + max(squares))
    found = scipy.sparse.csr_array(scipy.sparse.vstack(weights))
    return LeftOutScores(values, float(gaps.max()), model_of, found, np.array(squares), slack, refits)
