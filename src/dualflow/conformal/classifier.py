"""`ConformalSVC`: prediction sets of a support vector classifier: jackknife+ without n fits, CV+, full conformal."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.pipeline import Pipeline

from ..core.options import Flag, OneOf, Rule
from ..estimators._classifier import class_pairs
from ..estimators._validation import label_text
from ..estimators.svc import SVC
from ..exceptions import ProblemError
from ._base import Conformal, ModelReporter, row_blocks
from ._learned import LearnedPoints
from ._models import Models, has_paths

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
    method : {"plus", "minmax", "base", "full"}, default="plus"
        How p-values are computed; see Notes. The first three, with MAPIE's names, use the models without each point,
        and may be changed after the fit. "full" learns each new point with each label instead: a fit finds no models
        then, and predictions take longer.
    mondrian : bool, default=False
        Whether a label's p-value is computed among the training points of that label alone (Mondrian conformal
        prediction). The guarantee then holds for each class. It may be changed after the fit.
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
        The score of each point with its own label by the models without it; large for unusual points. Not with
        ``method="full"``.
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
    - "full" adds (x, y) to the training points, and takes all n + 1 scores by the model of all of them: with S'ᵢ and
      S'₀ for the new point, p(x, y) = (1 + #{i: S'ᵢ ≥ S'₀})/(n + 1). This is full (transductive) conformal prediction
      (Vovk, Gammerman, Shafer, Algorithmic Learning in a Random World, 2005, section 2.2): probability ≥ 1 − α, and at
      most 1 − α + 1/(n + 1) if no scores are equal. S' is the largest of αᵢ/Cᵢ − yᵢf(xᵢ) over the point's pairs, which
      also tells points on the margin apart. The point is learned exactly along the path of the optimum, and the model
      is certified. It needs loss="hinge" and a finite C.

    These probabilities are averages over training sets and new points that are exchangeable. They are not per class,
    unless ``mondrian=True``: then only the points of class y count in p(x, y), and n is their number (the same book,
    section 4.5). A class of fewer than 1/α − 1 points is then in every set.
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
    _methods: ClassVar[Rule] = OneOf(words=("plus", "minmax", "base", "full"))

    classes_: NDArray
    #: The class of each training point, as an index.
    _codes: NDArray
    #: The distinct combinations of models, one a pair of classes, that leave out some point; row 0 leaves out none.
    _together: NDArray
    #: The row of `_together` that leaves out each training point.
    _which: NDArray

    def __init__(
        self,
        estimator: Any = None,
        *,
        confidence_level: float = 0.9,
        method: str = "plus",
        mondrian: bool = False,
        cv: Any = "auto",
        verbose: bool = False,
    ) -> None:
        super().__init__(estimator, confidence_level=confidence_level, method=method, cv=cv, verbose=verbose)
        self.mondrian = mondrian

    def _check_parameters(self) -> None:
        super()._check_parameters()
        Flag().check("mondrian", self.mondrian)

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
            if self.method == "full":
                if not all(has_paths(solution.problem) for solution in machine.solutions_):
                    raise ProblemError("method='full' learns points with loss='hinge' and a finite C only")
                self._keep_scores(model, [], None, None)
                return self
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
        for name in ("conformity_scores_", "_together", "_which"):
            self.__dict__.pop(name, None)
        if not found:  # for method="full", which learns from the training points
            machine.keep_training_data()
            self._keep(model, found, folds, classes_=machine.classes_, _codes=codes)
            return
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
            _codes=codes,
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
            Values from 1/(n + 1) to 1, in the order of `classes_`; with ``mondrian`` n is the number of training
            points of the class.

        Raises
        ------
        ProblemError
            X does not fit the model, or the model was fitted with ``method="full"`` and has another method now.
        """
        points = self._checked(X)
        if self.method == "full":
            return self._learned(points)
        if "conformity_scores_" not in self.__dict__:
            raise ProblemError(
                f"method={self.method!r} needs the models without each point, which a fit with method='full' does not "
                "find; fit again"
            )
        count = len(self.classes_)
        tie = TIE_TOL * max(1.0, float(np.abs(self.conformity_scores_).max()))
        judges = [
            (_Ranks(self.conformity_scores_[among], self._which[among], len(self._together)), labels)
            for among, labels in self._categories()
        ]
        out = np.empty((points.shape[0], count))
        for part in row_blocks(len(out), len(self._together) * max(count, len(self._models))):
            values = [each[:, self._together[:, pair]] for pair, each in enumerate(self._at(points[part]))]
            scores = _scores(np.stack(values, axis=-1), count) - tie
            for ranks, labels in judges:
                out[part, labels] = ranks.p_values(scores[..., labels], self.method)
        return out

    def _categories(self) -> list[tuple[NDArray, slice]]:
        """Return which training points, as a mask, are compared with which labels."""
        if not self.mondrian:
            return [(np.ones(len(self._codes), dtype=bool), slice(None))]
        return [(self._codes == label, slice(label, label + 1)) for label in range(len(self.classes_))]

    def _learned(self, points: Any) -> NDArray:
        """Return the p-values of full conformal prediction for validated points, shape (n_new, n_classes)."""
        machine, codes, classes = self._machine, self._codes, len(self.classes_)
        if not all(isinstance(rows, np.ndarray) for rows in machine._rows):
            raise ProblemError("method='full' learns from the training points, which this pickle does not hold")
        out, n = np.empty((points.shape[0], classes)), len(codes)
        with self._limited():
            pairs = [LearnedPoints(solution.problem, solution.alpha) for solution in machine.solutions_]
            base = np.full((n + 1, len(pairs)), -np.inf)
            for pair, (learned, rows) in enumerate(zip(pairs, machine._rows, strict=True)):
                base[rows, pair] = learned.scores
            given = machine._as_fitted.kernel == "precomputed"
            bound = float(machine.C) * machine.class_weight_
            for part in row_blocks(len(out), n * len(pairs)):
                Z = points[part]
                kernels = [
                    learned.rows_of(Z[:, rows] if given else Z)
                    for learned, rows in zip(pairs, machine._rows, strict=True)
                ]
                for k in range(Z.shape[0]):
                    for label in range(classes):
                        scores = base.copy()
                        for pair, (learned, rows) in enumerate(zip(pairs, machine._rows, strict=True)):
                            if label in (sides := machine._sides(pair)):
                                sign = 1.0 if label == sides[0] else -1.0
                                row, diagonal = kernels[pair][0][k], float(kernels[pair][1][k])
                                found = learned.with_point(row, diagonal, sign, float(bound[label]))
                                scores[np.append(rows, n), pair] = found
                        among = codes == label if self.mondrian else slice(None)
                        others, new = scores[:n].max(axis=1)[among], scores[n].max()
                        tie = TIE_TOL * max(1.0, float(np.abs(others).max()))
                        out[part.start + k, label] = (1 + (others >= new - tie).sum()) / (1 + len(others))
        return out


class _Ranks:
    """The scores of some training points. Scores of new points are compared with them.

    Parameters
    ----------
    own : array of shape (n,)
        The score of each point by the models without it.
    which : int array of shape (n,)
        The index of these models.
    count : int
        How many models there are; model 0 leaves out no point.
    """

    def __init__(self, own: NDArray, which: NDArray, count: int) -> None:
        self.own = np.sort(own)
        self.groups = [np.sort(own[which == model]) for model in range(count)]
        self.alone = np.array([len(group) == 1 for group in self.groups])
        self.singles = np.array([group[0] for group in self.groups if len(group) == 1])
        self.seen = np.array([len(group) > 0 for group in self.groups])

    def p_values(self, scores: NDArray, method: str) -> NDArray:
        """Return p-values, shape (n_new, n_labels), from scores by all models, shape (n_new, count, n_labels)."""
        if method == "plus":
            found = (self.singles[:, None] >= scores[:, self.alone]).sum(axis=1)
            for model in np.flatnonzero(self.seen & ~self.alone):
                found += len(self.groups[model]) - np.searchsorted(self.groups[model], scores[:, model])
        else:
            least = scores[:, self.seen].min(axis=1) if method == "minmax" else scores[:, 0]
            found = len(self.own) - np.searchsorted(self.own, least)
        p: NDArray = (1 + found) / (1 + len(self.own))
        return p


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
