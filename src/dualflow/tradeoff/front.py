"""The result of `pareto_front`: its points, their certificates, a plot, and the choice of a point by validation."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.model_selection import StratifiedKFold

from .. import problems
from ..core.certificate import Certificate
from ..core.gram import Gram
from ..core.kernel_functions import as_matrix
from ..core.options import Number
from ..driver.solve import solve
from ..evolution.fronts import mistakes
from ..exceptions import ProblemError
from ..persistence.files import replacing_text


def cross_validated(
    gram: Gram, signs: NDArray, weights: Sequence[float], fit_intercept: bool | str, folds: int, random_state: int
) -> NDArray:
    """Return held-out mistakes over all folds at each of the rising ``weights`` C, shape (len(weights),).

    Folds are stratified and shuffled; each follows the path by warm starts, with the kernel width of all points.
    """
    if not problems.svc(gram, signs, weights[-1], fit_intercept=fit_intercept).psd.is_psd:
        raise ProblemError(
            "the kernel is indefinite: each fold would repair it in its own way; give X and y to pick by"
        )
    n_wrong = np.zeros(len(weights), dtype=int)
    splits = StratifiedKFold(folds, shuffle=True, random_state=random_state).split(signs, signs)
    for train, held_out in splits:
        part, alpha, last = gram.subset(train), None, 1.0
        for k, C in enumerate(weights):
            problem = problems.svc(part, signs[train], C, fit_intercept=fit_intercept)
            solution = solve(problem, refine=True, warm=None if alpha is None else alpha * (C / last))
            alpha, last = solution.alpha, C
            J = np.flatnonzero(alpha)
            values = gram.block(held_out, train[J]) @ solution.coefficients[J] + solution.bias
            n_wrong[k] += mistakes(signs[held_out] * values, signs[held_out])
    return n_wrong


_COLUMNS = ("squared_norm", "margin", "error", "mistakes", "C", "bias", "n_support", "relative_gap")


class FrontStatus(Enum):
    """How a front was found; the value is the sentence shown to the user.

    Examples
    --------
    >>> from dualflow import FrontStatus
    >>> [status.name for status in FrontStatus]
    ['CERTIFIED', 'SEARCHED', 'SOLVER_GAP', 'POINT_LIMIT', 'TIME_LIMIT']
    """

    CERTIFIED = "The front is known to the tolerance, between its points and supporting lines."
    SEARCHED = "The search ran its course; the front may lie below what was found."
    SOLVER_GAP = "The remaining distance is the gap of the solver at a point: more points would not help."
    POINT_LIMIT = "The limit of points was reached before the tolerance; the distance is what is known."
    TIME_LIMIT = "The time limit was reached; these are the points so far."

    @property
    def text(self) -> str:
        """The sentence shown to the user."""
        return self.value


@dataclass(frozen=True)
class ParetoPoint:
    """One classifier of the front, Σ yᵢαᵢk(xᵢ, x) + b.

    Attributes
    ----------
    squared_norm : float
        The first criterion, ‖w‖² in feature space (with b² for ``fit_intercept="penalised"``); for an indefinite
        kernel αᵀ|Q|α, see `pareto_front`.
    error : float
        The second: Σξᵢ, ξᵢ = max(0, 1 − yᵢf(xᵢ)), or the number of training points with yᵢf(xᵢ) < 1.
    mistakes : int
        Training points that `predict` misclassifies.
    C : float or None
        The weight for which this is the optimum; None for points of a search.
    alpha : array of shape (n,)
        ≥ 0; of any sign for an indefinite kernel with ``indefinite="flip"``.
    bias : float
        b, also for ``fit_intercept="penalised"``.
    certificate : Certificate or None
        Of ``alpha`` as the dual optimum at C; for the number of points, of the hard margin of the points not left out
        (``alpha`` is then its α, scaled until all their margins are at least 1). With ``indefinite="flip"`` it is that
        of the flipped kernel. None if no convex problem gave the point.

    Examples
    --------
    >>> from dualflow import pareto_front
    >>> front = pareto_front([[0.0], [1.0], [1.5], [3.0]], [-1, -1, 1, 1], kernel="linear")
    >>> point = front.points[-1]
    >>> point.mistakes, point.predict([[0.5], [2.5]])
    (0, array([-1,  1]))
    """

    squared_norm: float
    error: float
    mistakes: int
    C: float | None
    alpha: NDArray = field(repr=False)
    bias: float
    certificate: Certificate | None = field(repr=False)
    gram: Gram = field(repr=False)
    signs: NDArray = field(repr=False)
    classes: NDArray = field(repr=False)

    @property
    def margin(self) -> float:
        """1/‖w‖, in feature space; ∞ for w = 0."""
        return float(1.0 / np.sqrt(self.squared_norm)) if self.squared_norm > 0 else float(np.inf)

    @property
    def support(self) -> NDArray:
        """Indices of the training points with weight."""
        return np.flatnonzero(self.alpha)

    @property
    def n_support(self) -> int:
        """Number of training points with weight."""
        return len(self.support)

    @property
    def relative_gap(self) -> float | None:
        """The certified relative gap; None without a certificate."""
        return None if self.certificate is None else self.certificate.relative_gap

    def decision_function(self, Z: ArrayLike) -> NDArray:
        """Return values at new points, shape (k,), positive for ``classes[1]``.

        Parameters
        ----------
        Z : array of shape (k, m)
            For a precomputed kernel the values between the new points and all n training points, shape (k, n).

        Raises
        ------
        ProblemError
            Z is not a finite matrix of the training data's width.
        """
        points = as_matrix(Z, "Z")
        if points.shape[1] != self.gram.X.shape[1]:
            raise ProblemError(f"Z has {points.shape[1]} columns, the training data have {self.gram.X.shape[1]}")
        J = self.support
        weights = (self.signs * self.alpha)[J]
        return self.gram.expand(points, J, weights[:, None])[:, 0] + self.bias

    def predict(self, Z: ArrayLike) -> NDArray:
        """Return the classes of new points, shape (k,)."""
        return np.asarray(self.classes[(self.decision_function(Z) >= 0).astype(int)])


@dataclass(frozen=True)
class ParetoFront:
    """Nondominated points, by rising ‖w‖² and falling error.

    Attributes
    ----------
    points : tuple of ParetoPoint
    errors : {"hinge", "zero-one"}
    status : FrontStatus
    distance : float or None
        Largest relative distance over all C of the range, (best ½‖w‖² + CΣξ of the points − certified lower bound) /
        the former. None for the number of points, and if no bound is known.
    fit_intercept : bool or "penalised"
    weights, bounds : arrays of shape (m,), or None
        Rising C, and certified lower bounds V ≤ ½‖w‖² + CΣξ of every classifier with this kernel: the supporting
        lines.

    Examples
    --------
    >>> from dualflow import pareto_front
    >>> front = pareto_front([[0.0], [1.0], [1.5], [3.0]], [-1, -1, 1, 1], kernel="linear")
    >>> front.status.name, bool((front.criteria[1:, 0] >= front.criteria[:-1, 0]).all())
    ('CERTIFIED', True)
    """

    points: tuple[ParetoPoint, ...]
    errors: str
    status: FrontStatus
    distance: float | None
    fit_intercept: bool | str
    weights: NDArray | None = field(repr=False, default=None)
    bounds: NDArray | None = field(repr=False, default=None)

    def __len__(self) -> int:
        return len(self.points)

    def __str__(self) -> str:
        known = "" if self.distance is None else f", certified to {self.distance:.2g} (relative) for every C between"
        first, last = self.points[0], self.points[-1]
        return (
            f"{len(self)} points ({self.errors}) from ‖w‖² {first.squared_norm:.4g}, error {first.error:.4g} to ‖w‖² "
            f"{last.squared_norm:.4g}, error {last.error:.4g}{known}. {self.status.text}"
        )

    @property
    def criteria(self) -> NDArray:
        """‖w‖² and error of the points, shape (k, 2)."""
        return np.array([[point.squared_norm, point.error] for point in self.points])

    def lower_bound(self, squared_norm: ArrayLike) -> NDArray:
        """Return a certified lower bound of Σξ of all classifiers with this ‖w‖²: the best supporting line, at least 0.

        Raises
        ------
        ProblemError
            The front has no certificate.
        """
        if self.weights is None or self.bounds is None:
            raise ProblemError(f"nothing is certified of this front of errors={self.errors!r}; see its status")
        given = np.asarray(squared_norm, dtype=float)
        lines = (self.bounds - 0.5 * given[..., None]) / self.weights
        return np.asarray(np.maximum(lines.max(axis=-1), 0.0))

    def pick(
        self, X: ArrayLike | None = None, y: ArrayLike | None = None, *, folds: int = 5, random_state: int = 0
    ) -> ParetoPoint:
        """Return the point with the fewest mistakes on validation data; of several the one with the largest margin.

        Parameters
        ----------
        X : array of shape (k, m), optional
            Not the training data; as for `ParetoPoint.decision_function`. Without X and y, a certified hinge front is
            cross-validated on its training data, at the C of its points.
        y : array of shape (k,), optional
            Labels, of the training data's two classes.
        folds, random_state : int
            Number and seed of the folds, which are stratified and shuffled.

        Raises
        ------
        ProblemError
            X or y do not match the training data, or are empty; or both are missing, and the points have no C, the
            kernel is indefinite, or a class has fewer points than there are folds.
        """
        if X is None or y is None:
            n_wrong = self._cross_validated(X, y, folds, random_state)
            return self.points[int(np.argmin(n_wrong))]
        points, labels = as_matrix(X, "X"), np.asarray(y)
        if labels.shape != (len(points),):
            raise ProblemError(f"y has shape {labels.shape}, X has {len(points)} points; one label a point is needed")
        classes, width = self.points[0].classes, self.points[0].gram.X.shape[1]
        if points.shape[1] != width:
            raise ProblemError(f"X has {points.shape[1]} columns, the training data have {width}")
        if unknown := sorted(set(labels.tolist()) - set(classes.tolist()), key=str):
            raise ProblemError(f"y holds {unknown!r}; the front was made of the classes {classes.tolist()!r}")
        n_wrong = np.array([np.count_nonzero(point.predict(points) != labels) for point in self.points])
        return self.points[int(np.argmin(n_wrong))]

    def _cross_validated(self, X: Any, y: Any, folds: int, random_state: int) -> NDArray:
        """Return the held-out mistakes of every point, after checks of the arguments."""
        if X is not None or y is not None:
            raise ProblemError("X and y go together; give both, or neither for cross-validation")
        weights = [point.C for point in self.points if point.C is not None]
        if len(weights) < len(self):
            raise ProblemError("points of a search have no C to train at in each fold; give X and y to pick by")
        first = self.points[0]
        smaller_class = int(min((first.signs > 0).sum(), (first.signs < 0).sum()))
        folds = Number(at_least=2, at_most=smaller_class, whole=True, note="(the smaller class's points)").check(
            "folds", folds
        )
        return cross_validated(first.gram, first.signs, weights, self.fit_intercept, folds, random_state)

    def to_csv(self, path: str | Path) -> None:
        """Write one line for each point, in full precision, with missing values empty; an existing file is replaced."""
        with replacing_text(path) as file:
            writer = csv.writer(file)
            writer.writerow(_COLUMNS)
            for point in self.points:
                values = (getattr(point, name) for name in _COLUMNS)
                writer.writerow(["" if value is None else value for value in values])

    def plot(self, ax: Any = None, *, picked: ParetoPoint | None = None) -> Any:
        """Draw error against ‖w‖² with matplotlib; return the axes.

        The points of a hinge front are joined, since mixtures of two neighbours lie on or below the line between them.
        No classifier lies in the shaded part below the supporting lines.

        Parameters
        ----------
        ax : Axes, optional
            A new figure by default.
        picked : ParetoPoint, optional
            Drawn as a star, as `pick` chose it.

        Raises
        ------
        ProblemError
            ``picked`` is no point, or ``ax`` no Axes.
        SolverUnavailable
            matplotlib is not installed; the message has the pip line.
        """
        from ..displays.front import draw_front

        return draw_front(self, ax, picked)
