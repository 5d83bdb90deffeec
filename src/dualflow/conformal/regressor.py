"""Prediction intervals of a support vector regression: jackknife+ without n fits, and CV+."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin

from ..estimators.svr import SVR
from ._base import Conformal, folds_of, rank, stretches

__all__ = ["ConformalSVR"]


class ConformalSVR(RegressorMixin, Conformal):
    """Prediction intervals around an `SVR`, which hold a new point's y with a probability that is guaranteed.

    Every training point is judged by the model that never saw it. Those models are exact, and no fit is made for them:
    without a point inside the tube the model is the same, and a support vector is unlearned on the path of the optimum
    (Cauwenberghs and Poggio), from the model of all points.

    Parameters
    ----------
    estimator : SVR, optional
        Unfitted, with the parameters of all models; `SVR` with its defaults if None. It is cloned. Its solver, limits
        and ``tol`` are those of `estimator_` alone: models without a point are brought to the optimum.
    confidence_level : float in (0, 1), default=0.9
        1 − α. It is read where intervals are asked for: another one needs no other fit.
    method : {"plus", "minmax", "base"}, default="plus"
        How intervals are made of the models, by the names of MAPIE; see Notes. It is read there, too.
    cv : int, splitter or iterable, optional
        None leaves out one point at a time (jackknife), for up to 8000 points. Else folds, as in scikit-learn's
        ``cv``, of which each point is in one: CV+, by a warm solve a fold.

    Attributes
    ----------
    estimator_ : SVR
        Fitted to all points.
    left_out_predictions_ : array of shape (n,)
        Of each point, by the model without it (without its fold).
    conformity_scores_ : array of shape (n,)
        Their distances from y, Rᵢ = |yᵢ − f₋ᵢ(xᵢ)|.
    n_models_ : int
        Models that differ, that of all points among them.
    max_relative_gap_ : float
        The largest certified relative gap of all models; 1e-9 was asked for.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    With f₋ᵢ the model without point i, and q⁺ the ⌈(1 − α)(n + 1)⌉-th smallest of n numbers, q⁻ the ⌊α(n + 1)⌋-th
    (Barber, Candès, Ramdas, Tibshirani, Annals of Statistics 49, 2021):

    - "plus" is the jackknife+, [q⁻{f₋ᵢ(x) − Rᵢ}, q⁺{f₋ᵢ(x) + Rᵢ}]. It holds a new y with probability ≥ 1 − 2α, whatever
      the distribution, and in practice with about 1 − α. With folds it is CV+, whose bound is less by a term of at
      most √(2/n).
    - "minmax" is [min f₋ᵢ(x) − q⁺{Rᵢ}, max f₋ᵢ(x) + q⁺{Rᵢ}]: ≥ 1 − α, wider.
    - "base" is f(x) ± q⁺{Rᵢ}, the jackknife; nothing is guaranteed.

    All this is on average over training sets and new points that are exchangeable. The training itself must treat
    points alike and not know the point left out; ``gamma="scale"`` is the width for all n points in every model, as is
    whatever was standardised before. Give a number for the theorem to hold to the letter.

    Where n is too small for the level, ⌈(1 − α)(n + 1)⌉ > n, the interval is (−∞, ∞).

    There is no ``sample_weight``: points of different weights are not exchangeable.

    **Memory.** While leaving out one: 40 n² bytes at most. Kept are the weights, u rows and k columns for u points that
    have a weight in any of the k models that differ, 8uk bytes; intervals take some 150 MB besides, however many.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import SVR, ConformalSVR
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(0, 6, (1100, 1))
    >>> y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=1100)
    >>> model = ConformalSVR(SVR(C=10, gamma=1.0), confidence_level=0.9).fit(X[:100], y[:100])
    >>> low, high = model.predict_interval(X[100:]).T
    >>> round(float(np.mean((low <= y[100:]) & (y[100:] <= high))), 2), round(float(np.mean(high - low)), 2)
    (0.92, 0.38)
    """

    _kind: ClassVar[type] = SVR

    left_out_predictions_: NDArray

    def fit(self, X: ArrayLike, y: ArrayLike) -> ConformalSVR:
        """Fit the model of all points, and find those without each of them.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            As `SVR.fit` takes it; at least two points.
        y : array of shape (n,)

        Returns
        -------
        ConformalSVR
            The fitted estimator itself. If anything is raised, it is what it was before.

        Raises
        ------
        ProblemError
            Data or parameters are out of range, the kernel is indefinite, there are more than 8000 points for
            ``cv=None``, or ``cv`` does not hold out every point once.
        """
        with self._limited():
            model = self._fitted(X, y)
            values = np.asarray(y, dtype=float).ravel()
            (models,) = self._take(model, folds_of(self.cv, X, values, classifier=False))
        self._keep(
            model, [models], left_out_predictions_=models.values, conformity_scores_=np.abs(values - models.values)
        )
        return self

    def predict_interval(self, X: ArrayLike) -> NDArray:
        """Intervals in which y is expected.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed

        Returns
        -------
        array of shape (n_new, 2)
            Lower and upper ends, in units of y; −∞ and ∞ where there were too few points for the level.
        """
        points = self._checked(X)
        (models,), scores = self._models, self.conformity_scores_
        n, count = len(scores), points.shape[0]
        k = rank(self.confidence_level, n)
        if k > n:
            return np.tile([-np.inf, np.inf], (count, 1))
        out = np.empty((count, 2))
        widest = float(np.partition(scores, k - 1)[k - 1])
        for part in stretches(count, n):
            (values,) = self._at(points[part])
            if self.method == "plus":
                each = values[:, models.without]
                # The ⌊α(n + 1)⌋-th smallest is the k-th largest.
                out[part, 0] = np.partition(each - scores, n - k, axis=1)[:, n - k]
                out[part, 1] = np.partition(each + scores, k - 1, axis=1)[:, k - 1]
            else:
                each = values[:, np.unique(models.without) if self.method == "minmax" else [0]]
                out[part, 0], out[part, 1] = each.min(axis=1) - widest, each.max(axis=1) + widest
        return out
