"""`ConformalSVC`: prediction sets of a support vector classifier by jackknife+ without n fits, or by CV+."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.pipeline import Pipeline

from ..estimators._classifier import class_pairs
from ..estimators._validation import label_text
from ..estimators.svc import SVC
from ..exceptions import ProblemError
from ._base import Conformal, ModelReporter, row_blocks
from ._models import Models

__all__ = ["ConformalSVC"]

#: Scores that differ by less than this part of the largest count as equal, so that round-off rejects no label.
TIE_TOL = 1e-9
#: A p-value above α by less than this counts as α: the difference is round-off of 1 − confidence_level.
P_VALUE_SLACK = 1e-12


class ConformalSVC(ClassifierMixin, Conformal):
    """Prediction sets of an `SVC`, which contain a new point's label with guaranteed probability, and p-values.

    The score of each training point is computed by the model that leaves it out. These models are exact and need no
    fit: leaving out a point that is not a support vector does not change the model, and a support vector is unlearned
    from the model of all points along the path of the optimum (Cauwenberghs and Poggio).

    Parameters
    ----------
    estimator : SVC or Pipeline that ends in one, optional
        An unfitted estimator with the parameters of all models, which is cloned; by default an `SVC` with its defaults.
        Its solver, limits and ``tol`` apply to `estimator_` only: the models without a point are exact.
        ``class_weight="balanced"`` is not allowed, because the weights would differ between models; give the weights.
    confidence_level : float in (0, 1), default=0.9
        1 − α. It may be changed after the fit.
    method : {"plus", "minmax", "base"}, default="plus"
        How p-values are computed from the models, by MAPIE's names; see Notes. It may be changed after the fit.
    cv : "auto", None, int, splitter or iterable, default="auto"
        None leaves out one point at a time (jackknife), for up to 8000 points in two classes. Otherwise the folds, as
        in scikit-learn's ``cv`` (stratified), of which each point is in one: CV+, with one warm solve for each fold and
        pair of classes. "auto" leaves out one point at a time where that is cheap, else ten folds: above 5000 points in
        two classes, or where too many models would have to be solved again (32 of 2000 points each). The choice does
        not depend on the machine; see `n_folds_`.
    verbose : bool, default=False
        Whether to print how many models are found: one line on a terminal, else one line a second.

    Attributes
    ----------
    estimator_ : SVC or Pipeline
        The estimator fitted to all points.
    classes_ : array of shape (n_classes,)
        The class labels.
    conformity_scores_ : array of shape (n,)
        The score of each point with its own label by the models without it; large for unusual points.
    n_folds_ : int or None
        Number of folds that were left out (CV+); None if one point at a time was (jackknife+).
    n_models_ : int
        Number of distinct models of all pairs of classes, including those of all points.
    max_relative_gap_ : float
        The largest certified relative gap of all models; they are solved to 1e-9.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The score of a point x with a label y is −m(x, y), where m is the smallest decision value for y against another
    class in `SVC`'s pairs; with two classes it is −y f(x). A point is left out of the pairs of its own class; it is not
    in the other pairs. With s₋ᵢ by the models without point i and Sᵢ = s₋ᵢ(xᵢ, yᵢ),

    - "plus" is p(x, y) = (1 + #{i: Sᵢ ≥ s₋ᵢ(x, y)})/(n + 1), the jackknife+ (Barber, Candès, Ramdas, Tibshirani, Annals
      of Statistics 49, 2021) for classification (Romano, Sesia, Candès, NeurIPS 33, 2020). The true label has
      P(p ≤ α) ≤ 2α for every distribution, so a set contains it with probability ≥ 1 − 2α, and in practice with about
      1 − α. With folds it is CV+, Vovk's cross-conformal prediction (Annals of Mathematics and Artificial Intelligence
      74, 2015), whose bound is smaller by a term of at most √(2/n).
    - "minmax" takes the minimum over all models of s(x, y) instead of s₋ᵢ(x, y): probability ≥ 1 − α, larger sets.
    - "base" takes the score by the model of all points, without a guarantee.

    These probabilities are averages over training sets and new points that are exchangeable; they are not per class.
    A set is empty if no label is plausible. The theorem needs a training that treats all points alike and does not use
    the point left out. ``gamma="scale"`` does use it, since the width is that of all n points in every model, and so
    does a standardisation before; give a number for gamma if the guarantee must hold exactly.

    The transformers of a Pipeline are fitted to all points, too; one that learns from y is refused.

    There is no ``sample_weight``: points of different weights are not exchangeable.

    **Memory.** Leaving out one point at a time takes up to 40 n² bytes, where n is the number of points of a pair of
    classes. The model keeps 8uk bytes for each pair: the weights of the u points that have weight in any of its k
    distinct models. Computing p-values takes about 150 MB more, for any number of points.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualflow import SVC, ConformalSVC
    >>> X, y = load_iris(return_X_y=True)
    >>> model = ConformalSVC(SVC(gamma=0.5), confidence_level=0.9).fit(X[::2], y[::2])
    >>> sets = model.predict_set(X[1::2])
    >>> float(sets[range(75), y[1::2]].mean().round(2)), float(sets.sum(axis=1).mean().round(2))  # how often, how many
    (0.92, 0.92)
    """

    _kind: ClassVar[type] = SVC

    classes_: NDArray
    #: The distinct combinations of models, one a pair of classes, that leave out some point; row 0 leaves out none.
    _together: NDArray
    #: The row of `_together` that leaves out each training point.
    _which: NDArray

    def fit(self, X: ArrayLike, y: ArrayLike) -> ConformalSVC:
        """Fit the model of all points, and find the models without each point or fold.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            As in `SVC.fit`.
        y : array of shape (n,)
            Labels of at least two classes, with at least two points each.

        Returns
        -------
        ConformalSVC
            The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range; the kernel is indefinite; a class has no points outside of one fold;
            there are more than 8000 points in two classes for ``cv=None``; or ``cv`` does not hold out every point
            exactly once. After an error the estimator is as it was.
        """
        if getattr(self._given, "class_weight", None) == "balanced":
            raise ProblemError(
                "class_weight='balanced' changes with every point left out; give the weights, "
                "class_weight={label: weight}"
            )
        with self._limited():
            model = self._fitted(X, y)
            machine = model[-1] if isinstance(model, Pipeline) else model
            if machine._present is not None:
                absent = np.setdiff1d(np.arange(len(machine.classes_)), machine._present)
                name = label_text(machine.classes_[absent[0]])
                raise ProblemError(
                    f"class_weight: class {name} has weight 0, and no model is made of its points; leave them out of X "
                    "and y"
                )
            found, folds = self._find_models(machine, X, _codes(machine), classifier=True)
        self._keep_scores(model, found, folds, None)
        return self

    def _take(
        self, machine: Any, fold: NDArray | None, max_work: float, reporter: ModelReporter
    ) -> list[Models] | None:
        codes = _codes(machine)
        _check_folds(codes, np.arange(len(codes)) if fold is None else fold, machine.classes_)
        return super()._take(machine, fold, max_work, reporter)

    def _keep_scores(self, model: Any, found: list[Models], folds: int | None, targets: NDArray | None) -> None:
        machine = model[-1] if isinstance(model, Pipeline) else model
        codes, count = _codes(machine), len(machine.classes_)
        # Values of pairs without the point's class stay 0: the score with its own label does not use them.
        values, without = np.zeros((len(codes), len(found))), np.zeros((len(codes), len(found)), dtype=np.intp)
        for pair, (models, rows) in enumerate(zip(found, machine._rows, strict=True)):
            values[rows, pair], without[rows, pair] = models.values, models.without
        if folds is not None:  # leaving out a fold also changes the pairs without the point's class
            without = np.tile(without.max(axis=1)[:, None], len(found))
        scores = _scores(values, count)[np.arange(len(codes)), codes]
        # The first row is the combination of the models of all points.
        together, which = np.unique(np.vstack([0 * without[:1], without]), axis=0, return_inverse=True)
        self._keep(
            model,
            found,
            folds,
            classes_=machine.classes_,
            conformity_scores_=scores,
            _together=together,
            _which=which.ravel()[1:],
        )

    def predict_set(self, X: ArrayLike) -> NDArray:
        """Return the prediction sets of new points.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            New points.

        Returns
        -------
        bool array of shape (n_new, n_classes)
            Whether each of `classes_` is in the set, that is whether its p-value is above 1 − ``confidence_level``.
        """
        found: NDArray = self.p_values(X) > 1.0 - self.confidence_level + P_VALUE_SLACK
        return found

    def p_values(self, X: ArrayLike) -> NDArray:
        """Return the p-value of each label for new points; small for implausible labels.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            New points.

        Returns
        -------
        array of shape (n_new, n_classes)
            Values from 1/(n + 1) to 1, in the order of `classes_`.
        """
        points = self._checked(X)
        own, count = self.conformity_scores_, len(self.classes_)
        groups = [np.sort(own[self._which == model]) for model in range(len(self._together))]
        alone = np.array([len(group) == 1 for group in groups])
        singles = np.array([group[0] for group in groups if len(group) == 1])
        seen = np.array([len(group) > 0 for group in groups])
        tie = TIE_TOL * max(1.0, float(np.abs(own).max()))
        out = np.empty((points.shape[0], count))
        for part in row_blocks(len(out), len(groups) * max(count, len(self._models))):
            values = [each[:, self._together[:, pair]] for pair, each in enumerate(self._at(points[part]))]
            scores = _scores(np.stack(values, axis=-1), count) - tie
            if self.method == "plus":
                found = (singles[:, None] >= scores[:, alone]).sum(axis=1)
                for model in np.flatnonzero(seen & ~alone):
                    found += len(groups[model]) - np.searchsorted(groups[model], scores[:, model])
            else:
                least = scores[:, seen].min(axis=1) if self.method == "minmax" else scores[:, 0]
                found = len(own) - np.searchsorted(np.sort(own), least)
            out[part] = (1 + found) / (1 + len(own))
        return out


def _codes(model: SVC) -> NDArray:
    """Return the class of each training point, as an index."""
    codes = np.zeros(1 + max(int(rows[-1]) for rows in model._rows), dtype=np.intp)
    for k, (solution, rows) in enumerate(zip(model.solutions_, model._rows, strict=True)):
        high, low = model._sides(k)
        codes[rows] = np.where(solution.problem.sigma > 0, high, low)
    return codes


def _check_folds(codes: NDArray, fold: NDArray, classes: NDArray) -> None:
    """Raise `ProblemError` if a class has all its points in one fold, so that a model would lack it."""
    for code, name in enumerate(classes):
        folds = np.unique(fold[codes == code])
        if len(folds) < 2:
            raise ProblemError(
                f"y: all points of class {label_text(name)} are left out together, which leaves no model; give at "
                "least two points of each class, in two folds"
            )


def _scores(values: NDArray, classes: int) -> NDArray:
    """Return the score of each label, shape (…, classes), from the decision values of the pairs, (…, n_pairs)."""
    least = np.full((*values.shape[:-1], classes), np.inf)
    for pair, (i, j) in enumerate(class_pairs(classes)):
        margin = -values[..., pair] if classes == 2 else values[..., pair]
        least[..., i] = np.minimum(least[..., i], margin)
        least[..., j] = np.minimum(least[..., j], -margin)
    return -least
