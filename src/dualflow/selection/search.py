"""The searches: `SVCSearchCV` and `SVRSearchCV`."""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..estimators._validation import checked_data, checked_weight, encode, names_not_in, several
from ..estimators.svc import SVC
from ..estimators.svr import SVR
from ._evaluation import Task, last_step
from ._folds import Classes, Numbers
from ._models import FoldSVC, FoldSVR
from ._search import Search

__all__ = ["SVCSearchCV", "SVRSearchCV"]


class SVCSearchCV(Search):
    """Cross-validated search for the parameters of an `SVC`: the results of `sklearn.model_selection.GridSearchCV`,
    with a certificate for each fold.

    Where it pays, the kernel matrix of all points is made once for each kernel setting. All folds, all C and all
    pairs of classes are boxes over it: a point left out has the box [0, 0], the model of all points is a fold's
    start, and one product a C gives every fold's certificate and the decision values of its test rows, at no new
    kernel value. A fold in which no point is at its box has the same answer for every larger C, and none is solved
    for again.

    Parameters
    ----------
    estimator : SVC or Pipeline
        Of a `sklearn.pipeline.Pipeline` whose last step is an `SVC`, transformers with equal parameters are fitted
        once a fold and held in memory; its own ``memory`` is used instead if it has one.
    param_grid : dict or list of dict
        Lists of values by parameter of the `SVC` (``svc__C`` and those of the transformers in a pipeline), every
        combination of which is a candidate.
    scoring : str, callable, list, tuple or dict, optional
        As in `GridSearchCV`; by default accuracy. A scorer is handed an `SVC` whose values on the fold's rows are
        known; whatever else is asked of it is answered by a fit to the fold, made then.
    n_jobs : int, optional
        Threads, over kernel settings; each has a kernel matrix of its own.
    refit : bool, str or callable, default=True
        As in `GridSearchCV`.
    cv : int, splitter, iterable or "loo", optional
        As in `GridSearchCV`: 5 stratified folds by default. "loo" leaves out every point once. A point without weight
        in the model of all points is judged by that; support vectors are unlearned exactly, as in `IncrementalSVC`.
    verbose : int, default=0
        1 says how much there is to do, 2 every fit.
    error_score : "raise" or float, default=NaN
        Score of a fit that fails.
    return_train_score : bool, default=False
    time_limit : float, optional
        Seconds for the whole search. Fits that were not reached are among the failed ones; what is whole stays, and
        the best of it is fitted to all data in the time that is left. Where nothing is whole it is a `FitError` that
        says how long one candidate takes.

    Attributes
    ----------
    cv_results_ : dict of arrays
        The keys of `GridSearchCV`, and ``max_relative_gap``: of each candidate the widest certified relative gap of any
        of its solves, ≤ ``tol`` of the estimator unless there was a ConvergenceWarning.
    best_estimator_, best_params_, best_score_, best_index_, refit_time_, scorer_, n_splits_, multimetric_, classes_
        As in `GridSearchCV`.

    Notes
    -----
    A label that ``class_weight`` names and ``y`` does not hold is warned of once. A fold may lack a class that is
    named.

    The first fold of a kernel setting is fitted by itself and timed. The matrix of all points is made only where an
    estimate from that time says that it pays, and is given up where it does not; `GridSearchCV`'s way is then taken.
    Accuracy, macro F1, R² and mean absolute and squared errors of scikit-learn's own scorers are computed by their
    formulas, without the checks that take longer than a small fit; all else is scored by scikit-learn.

    Scores are those of fits one by one, brought to KKT violation 1e-6 and to ``tol``. Shared are the hinge, with or
    without intercept, at finite C, with kernels "linear", "poly" (of whole degree, coef0 ≥ 0) and "rbf", the
    default solver, up to 8000 points, and several C or at least 32 folds. Other candidates, and those of a pipeline,
    are fitted one by one, as `GridSearchCV` does. Memory is 16 n² bytes and 8 n² for each further thread, and as much
    again for leaving out one. With ``gamma="scale"`` the width is that of each fold's training points, so that every
    fold has a matrix of its own, of shared distances; a number is faster.

    `SVDD` has no search of this kind: it is fitted to one class without labels, and the score of a novelty detector
    needs labels of the other; `GridSearchCV` takes it with a scorer of one's own.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dualflow import SVC, SVCSearchCV
    >>> X, y = load_iris(return_X_y=True)
    >>> search = SVCSearchCV(SVC(), {"C": [0.1, 1, 10], "gamma": [0.01, 0.1, 1]}, cv=10).fit(X, y)
    >>> search.best_params_, round(float(search.best_score_), 3)
    ({'C': 10, 'gamma': 0.01}, 0.98)
    """

    _kind: ClassVar[type] = SVC
    _of_fold: ClassVar[Any] = FoldSVC

    def _check_names(self, models: list[Any], y: Any) -> None:
        given = [last_step(model).class_weight for model in models]
        labels = np.ravel(np.asarray(y))
        unknown = dict.fromkeys(label for each in given for label in names_not_in(each, labels))
        if unknown:
            warnings.warn(
                f"class_weight names {list(unknown)!r}, but y holds {list(dict.fromkeys(labels.tolist()))!r}; these "
                "weights have no effect. Name classes as they are in y",
                UserWarning,
                stacklevel=3,
            )

    def _folds(self, model: Any, task: Task) -> tuple[NDArray, Classes]:
        points, labels = checked_data(model, task.X, task.y, first=True, least=2)
        classes, codes = encode(labels)
        several(classes, "y")
        weight = checked_weight(task.fit_params.get("sample_weight"), points)
        # By class, so that a pair of classes is four blocks of the kernel matrix.
        order = np.argsort(codes, kind="stable")
        place = np.argsort(order)
        splits = [(place[train], place[test]) for train, test in task.splits]
        folds = Classes(classes, codes[order], weight[order], splits, task.train_scores, points.shape[1])
        return points[order], folds


class SVRSearchCV(Search):
    """Cross-validated search for the parameters of an `SVR`, as `SVCSearchCV` is for an `SVC`.

    Parameters
    ----------
    estimator : SVR or Pipeline
        Or a pipeline whose last step is one.
    param_grid : dict or list of dict
        Candidates that differ in C alone are made together; all of one kernel setting share its matrix.
    scoring, n_jobs, refit, cv, verbose, error_score, return_train_score, time_limit
        As in `SVCSearchCV`; the default score is R², and folds are not stratified.

    Attributes
    ----------
    cv_results_, best_estimator_, best_params_, best_score_, best_index_, refit_time_, scorer_, n_splits_, multimetric_
        As in `SVCSearchCV`.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import SVR, SVRSearchCV
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> grid = {"C": [0.1, 10], "epsilon": [0.01, 0.5], "gamma": [0.01, 1.0]}
    >>> SVRSearchCV(SVR(), grid).fit(X, np.sin(X[:, 0])).best_params_
    {'C': 10, 'epsilon': 0.01, 'gamma': 1.0}
    """

    _kind: ClassVar[type] = SVR
    _of_fold: ClassVar[Any] = FoldSVR

    def _folds(self, model: Any, task: Task) -> tuple[NDArray, Numbers]:
        points, values = checked_data(model, task.X, task.y, first=True, numeric=True)
        weight = checked_weight(task.fit_params.get("sample_weight"), points)
        values = np.asarray(values, dtype=float)
        return points, Numbers(values, weight, task.splits, task.train_scores, points.shape[1])
