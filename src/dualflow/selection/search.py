"""The searches: `SVCSearchCV` and `SVRSearchCV`."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.runtime.warn import warn_user
from ..estimators._validation import checked_data, checked_weight, encode, names_not_in, require_two_classes
from ..estimators.svc import SVC
from ..estimators.svr import SVR
from ._evaluation import Task, last_step
from ._folds import Classes, Numbers
from ._models import FoldSVC, FoldSVR
from ._path_search import candidates_of
from ._search import Search


class SVCSearchCV(Search):
    """Cross-validated search for the parameters of an `SVC`, with a certificate for each fold.

    The results are those of `sklearn.model_selection.GridSearchCV`. Where it is faster, the kernel matrix of all points
    is computed once for each kernel setting. All folds, all C and all pairs of classes are boxes over it: a point left
    out has the box [0, 0], and a fold starts from the model of all points. One product for each C gives every fold's
    certificate and the decision values of its test rows without new kernel values. A fold without points at their upper
    bound has the same solution for every larger C and is not solved again.

    Parameters
    ----------
    estimator : SVC or Pipeline
        In a `sklearn.pipeline.Pipeline` whose last step is an `SVC`, transformers with equal parameters are fitted once
        a fold and cached in memory, or in the pipeline's ``memory`` if it has one.
    param_grid : dict or list of dict
        Lists of values by parameter of the `SVC` (``svc__C`` and those of the transformers in a pipeline). Every
        combination is a candidate. ``"C": "path"`` is all C from 0.01 to 1000, and ``("path", low, high)`` those of
        another interval: for each combination of the other parameters the candidate has the C whose mean accuracy is
        the best of all (Notes).
    scoring : str, callable, list, tuple or dict, optional
        As in `GridSearchCV`; accuracy by default. A scorer gets an `SVC` whose values on the fold's rows are known; if
        it reads anything else, the `SVC` is fitted to the fold.
    n_jobs : int, optional
        Threads, over kernel settings; each thread has its own kernel matrix.
    refit : bool, str or callable, default=True
        As in `GridSearchCV`.
    cv : int, splitter, iterable or "loo", optional
        As in `GridSearchCV`: 5 stratified folds by default. "loo" leaves out every point once. The model of all points
        gives the answer for points without weight; support vectors are unlearned exactly, as in `IncrementalSVC`.
    verbose : int, default=0
        1 prints the number of fits, 2 prints every fit.
    error_score : "raise" or float, default=NaN
        Score of a fit that fails.
    return_train_score : bool, default=False
    time_limit : float, optional
        Seconds for the whole search. Fits that were not reached count as failed; the best complete candidate is
        fitted to all data in the time that is left. Without a complete candidate `fit` raises a `FitError`, which
        says how long one candidate takes.

    Attributes
    ----------
    cv_results_ : dict of arrays
        The keys of `GridSearchCV`, and ``max_relative_gap``: for each candidate the largest certified relative gap of
        its solves, ≤ ``tol`` of the estimator unless there was a ConvergenceWarning.
    best_estimator_, best_params_, best_score_, best_index_, refit_time_, scorer_, n_splits_, multimetric_, classes_
        As in `GridSearchCV`.

    Notes
    -----
    If ``class_weight`` names a label that ``y`` does not contain, there is one warning. A fold may lack a class that is
    named.

    The first fold of a kernel setting is fitted alone and timed. The matrix of all points is made only if an estimate
    from that time says that it is faster, and is given up if it turns out slower; the remaining folds are then fitted
    one by one, as `GridSearchCV` does. Accuracy, macro F1, R² and mean absolute and squared errors of scikit-learn's
    own scorers are computed by their formulas, without the checks that take longer than a small fit; all other scores
    are computed by scikit-learn.

    Scores are those of single fits, solved to a KKT violation of 1e-6 and to ``tol``. Fits are shared for the hinge
    loss, with or without intercept, at finite C, with kernels "linear", "poly" (integer degree, coef0 ≥ 0) and "rbf",
    the default solver, up to 8000 points, and several C or at least 32 folds. Other candidates, and pipelines, are
    fitted one by one. Memory is 16 n² bytes, 8 n² more for each further thread, and twice as much for leave-one-out.
    With a radial kernel of at most 64 features, and 4096 points of two classes at most, the fits to one fold share the
    kernel rows that they need, and each C starts from the solution of the C before.
    With ``gamma="scale"`` the width depends on each fold's training points, so that every fold has its own matrix, made
    from shared distances; a number is faster.

    With ``"C": "path"`` the exact `regularization_path` is followed in each fold, for two classes and scoring by
    accuracy. Between breakpoints each decision value is linear in C, so that the accuracy of a fold's test rows is a
    step function of C, known at every C. The candidate's C is the (geometric) middle of the widest interval with the
    best mean. An interval of C without a free variable in some fold, where b is not unique, is left out. The candidates
    are then fitted and scored like others. It takes one path a fold and setting, each 5 to 42 times as long as one fit,
    one after the other, and an n × n matrix.

    `SVDD` has no search of this kind: it is fitted to one class without labels, but the score of a novelty detector
    needs labels of the other class. Use `GridSearchCV` with a suitable scorer.

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

    def _candidates(
        self, X: Any, y: Any, splits: Any, fit_params: dict[str, Any], deadline: float | None
    ) -> list[dict[str, Any]]:
        return candidates_of(self, X, y, splits, fit_params, deadline)

    def _check_names(self, models: list[Any], y: Any) -> None:
        given = [last_step(model).class_weight for model in models]
        labels = np.ravel(np.asarray(y))
        unknown = dict.fromkeys(label for each in given for label in names_not_in(each, labels))
        if unknown:
            warn_user(
                f"class_weight names {list(unknown)!r}, but y holds {list(dict.fromkeys(labels.tolist()))!r}; these "
                "weights have no effect. Name classes as they are in y"
            )

    def _folds(self, model: Any, task: Task) -> tuple[NDArray, Classes]:
        points, labels = checked_data(model, task.X, task.y, first=True, least=2)
        classes, codes = encode(labels)
        require_two_classes(classes, "y")
        weight = checked_weight(task.fit_params.get("sample_weight"), points)
        # Sorted by class, so that a pair of classes is four blocks of the kernel matrix.
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
        Candidates that differ in C only are solved together; all of one kernel setting share its matrix.
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
