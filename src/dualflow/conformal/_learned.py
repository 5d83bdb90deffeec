"""Optima of a two-class problem with one more point, for one point and label after another (full conformal prediction).

Each is found by exact learning from the optimum of all training points, along the path of the optimum (Cauwenberghs
and Poggio, NIPS 13, 2001, Algorithm 1), and certified; one that misses the tolerance is solved again.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.decision import coefficients
from ..core.gram import Gram
from ..core.kernel_cache import KeptGram
from ..core.problem import DualProblem
from ..estimators._left_out import LEFT_OUT_TOL, certified_optimum
from ..exceptions import ProblemError
from ..online.hinge_updates import ROUND_OFF_RATIO
from ..online.point_paths import PointPaths
from ..online.state import PathError
from ._models import MAX_POINTS_LEFT_OUT, relative_gaps

#: If its margin is above this, a new point surely has no weight and does not change the model.
SURE_MARGIN = 1.0 + 1e-9
#: Distance from the margin, and from a bound relative to it, that counts as round-off.
MARGIN_TOL = 1e-7


def nonconformity(sigma: NDArray, weights: NDArray, values: NDArray, upper: NDArray) -> NDArray:
    """Return how strange each point is to the model of all points, shape (n,): αᵢ/Cᵢ − yᵢf(xᵢ).

    It is at most −1 for points beyond the margin (α = 0), from −1 to 0 on it, and at least 0 within it (α = C), so
    that points on the margin are not equal. The score must not depend on the order of the points, but α may, where it
    is not unique. Then a point on the margin has α = 0 or α = C; in such a model all scores are −yᵢf(xᵢ), and points
    on the margin are equal.
    """
    margin, share = sigma * values, sigma * weights / upper
    on_margin = np.abs(margin - 1.0) <= MARGIN_TOL
    is_at_bound = (share <= MARGIN_TOL) | (share >= 1.0 - MARGIN_TOL)
    return -margin if (on_margin & is_at_bound).any() else share - margin


class LearnedPoints:
    """The optimum of a problem of two classes, and its optima with one more point each.

    Parameters
    ----------
    problem : DualProblem
        Of two classes with the hinge loss: finite bounds, positive semidefinite, one variable a point.
    alpha : array of shape (n,)
        A start for its optimum.

    Attributes
    ----------
    scores : array of shape (n,)
        The nonconformity of its points by the model of all of them.

    Raises
    ------
    ProblemError
        There are more than 8000 points.
    """

    def __init__(self, problem: DualProblem, alpha: NDArray) -> None:
        self.posed, n = problem.centred(), problem.gram.n
        if n > MAX_POINTS_LEFT_OUT:
            raise ProblemError(
                f"method='full' is for {MAX_POINTS_LEFT_OUT} points of two classes at most, and here are {n}; give "
                "method='plus' and fit again"
            )
        best = certified_optimum(problem, alpha)
        self.alpha, self.gram = best.alpha, KeptGram(self.posed.gram)
        weights = coefficients(problem, best)
        bias = best.bias + self.posed.gram.constant(weights)
        # The last row and column, and the last entries below, are those of the point that is learned.
        self.K = np.zeros((n + 1, n + 1))
        self.K[:n, :n] = self.gram.full()
        self.sigma = np.append(problem.sigma, 1.0)
        self.weights, self.bias = weights, bias
        self.scores = nonconformity(problem.sigma, weights, self.K[:n, :n] @ weights + bias, problem.upper)
        self.is_unique = best.bias_interval[0] == best.bias_interval[1]
        self.paths: PointPaths | None = None
        with suppress(PathError, np.linalg.LinAlgError):
            paths = PointPaths(self.posed, self.K[:n, :n], best.alpha, bias, responds=False)
            paths.extend(self.K, self.sigma)
            self.paths = paths

    def rows_of(self, Z: Any) -> tuple[NDArray, NDArray]:
        """Return the kernel values of validated new points and the training points, (len(Z), n), and k(z, z)."""
        rows = self.gram.cross(Z)
        if self.posed.gram.kernel != "precomputed":
            return rows, self.gram.self_kernel(Z)
        diag = self.gram.diag()
        if np.ptp(diag) > 0:
            raise ProblemError(
                "kernel='precomputed': k(z, z) of new points is not in the matrix, and the training diagonal is not "
                "constant, so that method='full' cannot learn them; give a callable kernel, or normalise K"
            )
        return rows, np.full(len(rows), diag[0])

    def with_point(self, row: NDArray, own: float, label: float, upper: float) -> NDArray:
        """Return the `nonconformity` of the n points and the new one, shape (n + 1,), by the model of all of them.

        Parameters
        ----------
        row : array of shape (n,)
            The kernel values of the new point and the others.
        own : float
            k(z, z).
        label : {-1.0, 1.0}
        upper : float
            The upper bound of its variable.
        """
        n = len(row)
        margin = label * (float(row @ self.weights) + self.bias)
        if self.is_unique and margin > SURE_MARGIN:
            return np.append(self.scores, -margin)
        self.K[n, :n] = self.K[:n, n] = row
        self.K[n, n], self.sigma[n] = own, label
        if (found := None if self.paths is None else self.paths.with_last(label, upper)) is not None:
            alpha, bias = found
            weights = self.sigma * np.where(alpha <= ROUND_OFF_RATIO * alpha.max(initial=0.0), 0.0, alpha)
            if self.posed.e is None:
                bias = self.posed.offset * float(weights.sum())
            if self._gap(weights, bias, upper) <= LEFT_OUT_TOL:
                return self._judged(weights, bias, upper)
        posed = self._extended(label, upper)
        certificate = certified_optimum(posed, posed.project(np.append(self.alpha, 0.0)))
        return self._judged(coefficients(posed, certificate), certificate.bias, upper)

    def _gap(self, weights: NDArray, bias: float, upper: float) -> float:
        """Return the relative gap of a model of all n + 1 points."""
        posed, one = self.posed, np.zeros((len(weights), 1), dtype=bool)
        extended: Any = SimpleNamespace(
            idx=None,
            e=posed.e,
            sigma=self.sigma,
            offset=posed.offset,
            p=np.append(posed.p, 1.0),
            upper=np.append(posed.upper, upper),
        )
        return float(relative_gaps(extended, extended, self.K, weights[:, None], np.array([bias]), one)[0])

    def _judged(self, weights: NDArray, bias: float, upper: float) -> NDArray:
        """Return the nonconformity of all n + 1 points by their model."""
        J = np.flatnonzero(weights)
        values = self.K[:, J] @ weights[J] + bias
        return nonconformity(self.sigma, weights, values, np.append(self.posed.upper, upper))

    def _extended(self, label: float, upper: float) -> DualProblem:
        """Return the problem with the new point, over the matrix of all kernel values."""
        posed = self.posed
        return replace(
            posed,
            gram=Gram(self.K.copy(), "precomputed"),
            p=np.append(posed.p, 1.0),
            lower=np.zeros(1),
            upper=np.append(posed.upper, upper),
            ridge=np.zeros(1),
            sigma=self.sigma.copy(),
            e=None if posed.e is None else np.append(posed.e, label),
        )
