"""`ConformalSVR`: intervals of a regression or of two quantiles, by jackknife+ without n fits, or by CV+."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import RegressorMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..estimators.quantile_svr import QuantileSVR
from ..estimators.svr import SVR
from ..exceptions import ProblemError
from ._base import Conformal, rank, row_blocks
from ._models import Models


class ConformalSVR(RegressorMixin, Conformal):
    """Prediction intervals of an `SVR` or a `QuantileSVR`, which contain a new y with guaranteed probability.

    The residual of each training point is computed by the model that leaves it out. These models are exact and need no
    fit: leaving out a point inside the tube does not change the model, and a support vector is unlearned from the model
    of all points along the path of the optimum (Cauwenberghs and Poggio).

    Parameters
    ----------
    estimator : SVR, QuantileSVR of two quantiles, or Pipeline that ends in one, optional
        An unfitted estimator with the parameters of all models, which is cloned; by default an `SVR` with its defaults.
        A `QuantileSVR`, such as ``QuantileSVR([0.05, 0.95])``, gives intervals that are wide where y scatters
        (conformalised quantile regression).
        Its solver, limits and ``tol`` apply to `estimator_` only: the models without a point are exact.
    confidence_level : float in (0, 1), default=0.9
        1 − α. It may be changed after the fit.
    method : {"plus", "minmax", "base"}, default="plus"
        How intervals are computed from the models, by MAPIE's names; see Notes. It may be changed after the fit.
    cv : "auto", None, int, splitter or iterable, default="auto"
        None leaves out one point at a time (jackknife), for up to 8000 points. Otherwise the folds, as in
        scikit-learn's ``cv``, of which each point is in one: CV+, with one warm solve for each fold. "auto" leaves out
        one point at a time where that is cheap, else ten folds: above 2500 points, or where too many models would have
        to be solved again (32 of 2000 points each). The choice does not depend on the machine; see `n_folds_`.
    verbose : bool, default=False
        Whether to print how many models are found: one line on a terminal, else one line a second.

    Attributes
    ----------
    estimator_ : SVR, QuantileSVR or Pipeline
        The estimator fitted to all points.
    left_out_predictions_ : array of shape (n,), or (n, 2) of two quantiles
        The prediction for each point by the model without it (without its fold).
    conformity_scores_ : array of shape (n,)
        The absolute residuals of these predictions, Rᵢ = |yᵢ − f₋ᵢ(xᵢ)|; of two quantiles by how much yᵢ is outside of
        them, Rᵢ = max(f₋ᵢ(xᵢ) − yᵢ, yᵢ − g₋ᵢ(xᵢ)), below 0 inside.
    n_folds_ : int or None
        Number of folds that were left out (CV+); None if one point at a time was (jackknife+).
    n_models_ : int
        Number of distinct models, including that of all points.
    max_relative_gap_ : float
        The largest certified relative gap of all models; they are solved to 1e-9.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Let f₋ᵢ be the model without point i, q⁺ the ⌈(1 − α)(n + 1)⌉-th smallest of n numbers, and q⁻ the ⌊α(n + 1)⌋-th
    (Barber, Candès, Ramdas, Tibshirani, Annals of Statistics 49, 2021):

    - "plus" is the jackknife+, [q⁻{f₋ᵢ(x) − Rᵢ}, q⁺{f₋ᵢ(x) + Rᵢ}]. It contains a new y with probability ≥ 1 − 2α for
      every distribution, and in practice with about 1 − α. With folds it is CV+, whose bound is smaller by a term of at
      most √(2/n).
    - "minmax" is [min f₋ᵢ(x) − q⁺{Rᵢ}, max f₋ᵢ(x) + q⁺{Rᵢ}]: probability ≥ 1 − α, wider intervals.
    - "base" is f(x) ± q⁺{Rᵢ}, the jackknife, without a guarantee.

    For two quantiles f and g, the lower ends have f in these formulas, the upper ends g. They are conformalised
    (Romano, Patterson, Candès, NeurIPS 32, 2019) by the models without each point, so that no part of the points is set
    aside; the bounds above are those of nested sets (Gupta, Kuchibhotla, Ramdas, Pattern Recognition 127, 2022). An
    interval whose lower end is above its upper one is empty.

    These probabilities are averages over training sets and new points that are exchangeable. The theorem needs a
    training that treats all points alike and does not use the point left out. ``gamma="scale"`` does use it, since the
    width is that of all n points in every model, and so does a standardisation before; give a number for gamma if the
    guarantee must hold exactly.

    If n is too small for the level, ⌈(1 − α)(n + 1)⌉ > n, the interval is (−∞, ∞).

    The transformers of a Pipeline are fitted to all points, too; one that learns from y is refused.

    There is no ``sample_weight``: points of different weights are not exchangeable.

    **Memory.** Leaving out one point at a time takes up to 40 n² bytes. The model keeps 8uk bytes: the weights of the u
    points that have weight in any of the k distinct models. Computing intervals takes about 150 MB more, for any number
    of points.

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
    _others: ClassVar[tuple[type, ...]] = (QuantileSVR,)

    left_out_predictions_: NDArray

    def fit(self, X: ArrayLike, y: ArrayLike) -> ConformalSVR:
        """Fit the model of all points, and find the models without each point or fold.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            As in `SVR.fit`; at least two points.
        y : array of shape (n,)
            Finite numbers.

        Returns
        -------
        ConformalSVR
            The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range; the kernel is indefinite; there are more than 8000 points for
            ``cv=None``; or ``cv`` does not hold out every point exactly once. After an error the estimator is as it
            was.
        """
        with self._limited():
            model = self._fitted(X, y)
            values = np.asarray(y, dtype=float).ravel()
            machine = model[-1] if isinstance(model, Pipeline) else model
            if isinstance(machine, QuantileSVR) and len(machine.solutions_) != 2:
                raise ProblemError(
                    f"estimator: QuantileSVR(quantile={machine.quantile!r}) does not make an interval; give the "
                    "quantiles of its two ends, such as [0.05, 0.95]"
                )
            found, folds = self._find_models(machine, X, values, classifier=False)
        self._keep_scores(model, found, folds, values)
        return self

    def _keep_scores(self, model: Any, found: list[Models], folds: int | None, targets: NDArray | None) -> None:
        assert targets is not None
        low, high = found[0].values, found[-1].values
        scores = np.abs(targets - low) if len(found) == 1 else np.maximum(low - targets, targets - high)
        self._keep(
            model,
            found,
            folds,
            left_out_predictions_=low if len(found) == 1 else np.column_stack([low, high]),
            conformity_scores_=scores,
            _targets=targets,
        )

    def score(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the score of the estimator fitted to all points."""
        check_is_fitted(self, "estimator_")
        return float(self.estimator_.score(X, y, sample_weight))

    def predict_interval(self, X: ArrayLike) -> NDArray:
        """Return the prediction intervals of new points.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            New points.

        Returns
        -------
        array of shape (n_new, 2)
            Lower and upper ends, in units of y; −∞ and ∞ if there were too few training points for the level.
        """
        points = self._checked(X)
        lower, upper, scores = self._models[0], self._models[-1], self.conformity_scores_
        n, count = len(scores), points.shape[0]
        k = rank(self.confidence_level, n)
        if k > n:
            return np.tile([-np.inf, np.inf], (count, 1))
        out = np.empty((count, 2))
        widest = float(np.partition(scores, k - 1)[k - 1])
        for part in row_blocks(count, n):
            values = self._at(points[part])
            low, high = values[0], values[-1]
            if self.method == "plus":
                # The ⌊α(n + 1)⌋-th smallest is the k-th largest.
                out[part, 0] = np.partition(low[:, lower.without] - scores, n - k, axis=1)[:, n - k]
                out[part, 1] = np.partition(high[:, upper.without] + scores, k - 1, axis=1)[:, k - 1]
            else:
                least, most = (
                    np.unique(models.without) if self.method == "minmax" else np.zeros(1, dtype=np.intp)
                    for models in (lower, upper)
                )
                out[part, 0] = low[:, least].min(axis=1) - widest
                out[part, 1] = high[:, most].max(axis=1) + widest
        return out
