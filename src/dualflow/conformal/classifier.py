"""Prediction sets of a support vector classifier: jackknife+ without n fits, and CV+."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from ..estimators._classifier import pairs_of
from ..estimators._validation import shown
from ..estimators.svc import SVC
from ..exceptions import ProblemError
from ._base import Conformal, folds_of, stretches

__all__ = ["ConformalSVC"]

#: The part of the largest score by which two count as equal: round-off breaks no tie against a label.
TIE = 1e-9
#: By how much a p-value may be above α and count as that.
WHOLE = 1e-12


class ConformalSVC(ClassifierMixin, Conformal):
    """Sets of labels by an `SVC`, which hold a new point's label with a probability that is guaranteed; and p-values.

    Every training point is judged by the model that never saw it. Those models are exact, and no fit is made for them:
    without a point that is no support vector the model is the same, and a support vector is unlearned on the path of
    the optimum (Cauwenberghs and Poggio), from the model of all points.

    Parameters
    ----------
    estimator : SVC, optional
        Unfitted, with the parameters of all models; `SVC` with its defaults if None. It is cloned. Its solver, limits
        and ``tol`` are those of `estimator_` alone: models without a point are brought to the optimum. Not
        with ``class_weight="balanced"``, which every model would have its own of; give the weights.
    confidence_level : float in (0, 1), default=0.9
        1 − α. It is read where sets are asked for: another one needs no other fit.
    method : {"plus", "minmax", "base"}, default="plus"
        How p-values are made of the models, by the names of MAPIE; see Notes. It is read there, too.
    cv : int, splitter or iterable, optional
        None leaves out one point at a time (jackknife), for up to 8000 points in two classes. Else folds, as in
        scikit-learn's ``cv`` (stratified), of which each point is in one: CV+, by a warm solve a fold and pair.

    Attributes
    ----------
    estimator_ : SVC
        Fitted to all points.
    classes_ : array of shape (n_classes,)
    conformity_scores_ : array of shape (n,)
        Of each point with its own label, by the models without it: how strange that is.
    n_models_ : int
        Models that differ, of all pairs of classes, those of all points among them.
    max_relative_gap_ : float
        The largest certified relative gap of all models; 1e-9 was asked for.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    The score of a point x with a label y is −m(x, y), m being the least decision value for y against another class: one
    against one, as `SVC` has it. Two classes: −y f(x). A point left out is left out of the pairs of its own class; the
    other pairs never saw it. With s₋ᵢ by the models without point i and Sᵢ = s₋ᵢ(xᵢ, yᵢ),

    - "plus" is p(x, y) = (1 + #{i: Sᵢ ≥ s₋ᵢ(x, y)})/(n + 1), the jackknife+ (Barber, Candès, Ramdas, Tibshirani, Annals
      of Statistics 49, 2021) for classification (Romano, Sesia, Candès, NeurIPS 33, 2020). The true label has
      P(p ≤ α) ≤ 2α, whatever the distribution, so that a set holds it with probability ≥ 1 − 2α, and in practice with
      about 1 − α. With folds it is CV+, Vovk's cross-conformal prediction (Annals of Mathematics and Artificial
      Intelligence 74, 2015), whose bound is less by a term of at most √(2/n).
    - "minmax" has min over all models of s(x, y) in place of s₋ᵢ(x, y): ≥ 1 − α, larger sets.
    - "base" has the score by the model of all points: nothing is guaranteed.

    All this is on average over training sets and new points that are exchangeable; it says nothing of a single class.
    Sets may be empty, where no label is plausible. The training itself must treat points alike and not know the point
    left out; ``gamma="scale"`` is the width for all n points in every model, as is whatever was standardised before.
    Give a number for the theorem to hold to the letter.

    There is no ``sample_weight``: points of different weights are not exchangeable.

    **Memory.** While leaving out one: 40 n² bytes at most, n the points of a pair of classes. Kept are the weights of
    each pair, u rows and k columns for u points that have a weight in any of the k models that differ, 8uk bytes;
    p-values take some 150 MB besides, however many.

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
    #: The models of all pairs, together, that are without some point, a row of each; and which are so without each.
    _together: NDArray
    _which: NDArray

    def fit(self, X: ArrayLike, y: ArrayLike) -> ConformalSVC:
        """Fit the model of all points, and find those without each of them.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            As `SVC.fit` takes it.
        y : array of shape (n,)
            Labels of at least two classes, two points of each.

        Returns
        -------
        ConformalSVC
            The fitted estimator itself. If anything is raised, it is what it was before.

        Raises
        ------
        ProblemError
            Data or parameters are out of range, the kernel is indefinite, a class has no point without the one left
            out (its fold), there are more than 8000 points in two classes for ``cv=None``, or ``cv`` does not hold out
            every point once.
        """
        if getattr(self.estimator, "class_weight", None) == "balanced":
            raise ProblemError(
                "class_weight='balanced' changes with every point left out; give the weights, "
                "class_weight={label: weight}"
            )
        with self._limited():
            model = self._fitted(X, y)
            if model._present is not None:
                absent = np.setdiff1d(np.arange(len(model.classes_)), model._present)
                raise ProblemError(
                    f"class_weight: class {shown(model.classes_[absent[0]])} has weight 0, and no model is made of its "
                    "points; leave them out of X and y"
                )
            codes = _codes(model)
            fold = folds_of(self.cv, X, codes, classifier=True)
            _several(codes, np.arange(len(codes)) if fold is None else fold, model.classes_)
            found = self._take(model, fold)
        # Of pairs that a point is not in no value is asked for: they are of other labels than its own.
        values, without = np.zeros((len(codes), len(found))), np.zeros((len(codes), len(found)), dtype=np.intp)
        for pair, (models, rows) in enumerate(zip(found, model._rows, strict=True)):
            values[rows, pair], without[rows, pair] = models.values, models.without
        if fold is not None:  # which has points of those pairs, too
            without = np.tile(1 + fold[:, None], len(found))
        scores = _scores(values, len(model.classes_))[np.arange(len(codes)), codes]
        # The first are those of all points.
        together, which = np.unique(np.vstack([0 * without[:1], without]), axis=0, return_inverse=True)
        self._keep(
            model,
            found,
            classes_=model.classes_,
            conformity_scores_=scores,
            _together=together,
            _which=which.ravel()[1:],
        )
        return self

    def predict_set(self, X: ArrayLike) -> NDArray:
        """Which labels are plausible.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed

        Returns
        -------
        bool array of shape (n_new, n_classes)
            Whether each of `classes_` is in the set: whether its p-value is above 1 − ``confidence_level``.
        """
        found: NDArray = self.p_values(X) > 1.0 - self.confidence_level + WHOLE
        return found

    def p_values(self, X: ArrayLike) -> NDArray:
        """How plausible each label is.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed

        Returns
        -------
        array of shape (n_new, n_classes)
            From 1/(n + 1) to 1, in the order of `classes_`.
        """
        points = self._checked(X)
        own, count = self.conformity_scores_, len(self.classes_)
        groups = [np.sort(own[self._which == model]) for model in range(len(self._together))]
        alone = np.array([len(group) == 1 for group in groups])
        singles = np.array([group[0] for group in groups if len(group) == 1])
        seen = np.array([len(group) > 0 for group in groups])
        tie = TIE * max(1.0, float(np.abs(own).max()))
        out = np.empty((points.shape[0], count))
        for part in stretches(len(out), len(groups) * max(count, len(self._models))):
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
    """Which class each training point is of."""
    codes = np.zeros(1 + max(int(rows[-1]) for rows in model._rows), dtype=np.intp)
    for k, (solution, rows) in enumerate(zip(model.solutions_, model._rows, strict=True)):
        high, low = model._sides(k)
        codes[rows] = np.where(solution.problem.sigma > 0, high, low)
    return codes


def _several(codes: NDArray, fold: NDArray, classes: NDArray) -> None:
    """Refuse a class that a model would be without."""
    for code, name in enumerate(classes):
        folds = np.unique(fold[codes == code])
        if len(folds) < 2:
            raise ProblemError(
                f"y: all points of class {shown(name)} are left out at once, and a model without them is none; give at "
                "least two points of each class, in two folds"
            )


def _scores(values: NDArray, classes: int) -> NDArray:
    """How strange each label is, shape (…, classes), from decision values of pairs, (…, n_pairs)."""
    least = np.full((*values.shape[:-1], classes), np.inf)
    for pair, (i, j) in enumerate(pairs_of(classes)):
        first = -values[..., pair] if classes == 2 else values[..., pair]
        least[..., i] = np.minimum(least[..., i], first)
        least[..., j] = np.minimum(least[..., j], -first)
    return -least
