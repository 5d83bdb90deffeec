"""The searches `SVCSearchCV` and `SVRSearchCV`: grid search with shared fits of all candidates and folds."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import LeaveOneOut, ParameterGrid, check_cv
from sklearn.model_selection._search import BaseSearchCV
from sklearn.model_selection._validation import _insert_error_scores, _warn_or_raise_about_fit_failures
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable
from sklearn.utils.validation import _check_method_params, _num_samples

from ..core.options import Number
from ..core.runtime.threads import blas_for
from ..core.runtime.warn import warn_user
from ..estimators._base import MIN_TIME_LEFT_S
from ..estimators._solving import thread_count
from ..estimators._validation import checked_data, checked_weight, encode, names_not_in, require_two_classes
from ..estimators.svc import SVC
from ..estimators.svr import SVR
from ..exceptions import FitError, ProblemError
from ._evaluation import Evaluation, SearchTask, Times, last_name, last_step
from ._folds import Classes, Numbers
from ._models import FoldSVC, FoldSVR, with_parameters
from ._path_search import candidates_of
from ._plan import Kernels, Plan, can_share, chains_of, planned

_TIME_LIMIT = Number(above=0, infinite=True, none=True, note="(in seconds, of the whole search)")


class Search(BaseSearchCV):
    """Base of the searches; a subclass sets the estimator and checks the data for it."""

    #: The class of the estimator.
    _kind: ClassVar[type]

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        n_jobs: int | None = None,
        refit: Any = True,
        cv: Any = None,
        verbose: int = 0,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        time_limit: float | None = None,
    ) -> None:
        super().__init__(
            estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.param_grid = param_grid
        self.time_limit = time_limit

    #: The class that stands for a fitted estimator in a fold.
    _of_fold: ClassVar[Any]

    @abstractmethod
    def _folds(self, model: Any, task: SearchTask) -> tuple[NDArray, Classes | Numbers]:
        """Return the checked points and the folds; a ValueError or TypeError is left to single fits to raise."""

    def fit(self, X: ArrayLike, y: ArrayLike, **params: Any) -> Any:
        """Score every candidate in every fold, and fit the best one to all data.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
        y : array of shape (n,)
        **params
            ``groups`` for the splitter, and what `fit` of the estimator takes: ``sample_weight`` of shape (n,).

        Returns
        -------
        self

        Raises
        ------
        ProblemError
            The estimator, or the last step of a pipeline, is of another class, or ``time_limit`` is out of range.
        FitError
            ``time_limit`` was over before a candidate was fitted to all folds, or the best of them to all data.
        ValueError
            A parameter is none of the estimator's, no fit succeeded, or the splitter and the data do not go together.

        Warns
        -----
        UserWarning
            ``class_weight`` names a label that y does not hold.
        FitFailedWarning
            Some fits failed, or were not reached before ``time_limit``; ``error_score`` is their score.
        ConvergenceWarning
            A solve ended above the estimator's ``tol``.
        """
        self._check_kind("estimator", self.estimator)
        _TIME_LIMIT.check("time_limit", self.time_limit)
        if self.error_score != "raise" and not isinstance(self.error_score, (int, float, np.number)):
            raise ProblemError(f"error_score={self.error_score!r} is neither 'raise' nor a number")
        began = time.monotonic()
        times = Times(None if self.time_limit is None else began + self.time_limit)
        scorer, metric = self._get_scorers()
        X, y = indexable(X, y)
        params = _check_method_params(X, params=params)
        routed = self._get_routed_params_for_fit(params)
        given = LeaveOneOut() if isinstance(self.cv, str) and self.cv == "loo" else self.cv
        cv = check_cv(given, y, classifier=is_classifier(self.estimator))
        splits = [(np.asarray(train), np.asarray(test)) for train, test in cv.split(X, y, **routed.splitter.split)]
        splits = [tuple(np.flatnonzero(rows) if rows.dtype == bool else rows for rows in pair) for pair in splits]  # type: ignore[misc]
        candidates = self._candidates(X, y, splits, routed.estimator.fit, times.deadline)
        plain = clone(self.estimator)
        models = [with_parameters(plain, each) for each in candidates]
        for each, model in zip(candidates, models, strict=True):
            self._check_kind(f"param_grid: the estimator of {each}", model)
        self._check_names(models, y)
        task = SearchTask(
            X,
            y,
            splits,
            models,
            scorer,
            routed.estimator.fit,
            routed.scorer.score,
            self.return_train_score,
            self.error_score,
            self.verbose,
        )
        if self.verbose > 0:
            count = len(models) * len(splits)
            print(f"Fitting {len(splits)} folds for each of {len(models)} candidates, totalling {count} fits")
        plan, alone, kernels, folds = self._plan(task)
        evaluation = Evaluation(task, times, kernels, folds, self._of_fold)
        with blas_for(_num_samples(X), shared=False):
            out = evaluation.run(plan, alone, thread_count(self.n_jobs))
        evaluation.check_any_complete(self.time_limit, bool(self.refit))
        results = self._table(candidates, models, out, len(splits))
        self._refit(task, metric, out[0]["test_scores"], results, models, times)
        self._checked_cv_orig, self.n_splits_, self.cv_results_ = cv, len(splits), results
        return self

    def _candidates(
        self, X: Any, y: Any, splits: Any, fit_params: dict[str, Any], deadline: float | None
    ) -> list[dict[str, Any]]:
        """Return the parameters of every candidate."""
        return list(ParameterGrid(self.param_grid))

    def _check_kind(self, name: str, model: Any) -> None:
        """Raise `ProblemError` unless a model, or the last step of a pipeline, is of the search's class."""
        if isinstance(last := last_step(model), self._kind):
            return
        found = f"a pipeline whose last step is {type(last).__name__}" if last is not model else type(model).__name__
        raise ProblemError(
            f"{name}: {found} is not a dualflow.{self._kind.__name__}, nor a Pipeline whose last step is one; for "
            "others use sklearn.model_selection.GridSearchCV, which takes dualflow's estimators too"
        )

    def _check_names(self, models: list[Any], y: Any) -> None:
        """Warn of labels that parameters name and y does not contain."""

    def _plan(self, task: SearchTask) -> tuple[Plan, list[tuple[int, int]], Kernels | None, Classes | Numbers | None]:
        """Return the plan, the pairs of candidate and fold that are fitted one by one, the kernels and the folds."""
        every = [(c, f) for c in range(len(task.models)) for f in range(len(task.splits))]
        if isinstance(self.estimator, Pipeline):
            return {}, every, None, None
        points = _num_samples(task.X)
        is_known = not task.fit_params.keys() - {"sample_weight"}
        is_shared = is_known and can_share(points, thread_count(self.n_jobs))
        chains = chains_of(task.models, len(task.splits), points) if is_shared else []
        if not chains:
            return {}, every, None, None
        try:
            points, folds = self._folds(clone(self.estimator), task)
        except (ValueError, TypeError):
            return {}, every, None, None
        if not isinstance(points, np.ndarray):  # sparse data are fitted one by one
            return {}, every, None, None
        return *planned(chains, len(task.models), folds, points), Kernels(points), folds

    @staticmethod
    def _limit_of(model: Any, end: float | None) -> dict[str, float]:
        """Return the time limit of the refit as a parameter, or an empty dict."""
        limit = last_step(model).time_limit
        own = [] if limit is None else [limit]
        left = [] if end is None else [max(end - time.monotonic(), MIN_TIME_LEFT_S)]
        return {f"{last_name(model)}time_limit": min(own + left)} if own or left else {}

    def _table(
        self, candidates: list[dict[str, Any]], models: list[Any], out: list[dict[str, Any]], splits: int
    ) -> dict[str, Any]:
        """Return `cv_results_`."""
        _warn_or_raise_about_fit_failures(out, self.error_score)
        if callable(self.scoring):
            _insert_error_scores(out, self.error_score)
        gaps = np.array([row["gap"] for row in out]).reshape(len(models), splits)
        wide = [k for k, model in enumerate(models) if (gaps[k] > last_step(model).tol).any()]
        if wide:
            warn_user(
                f"{len(wide)} of {len(models)} candidates have fits above their tol; the widest certified relative gap "
                f"is {np.nanmax(gaps[wide]):.3g}, of {candidates[wide[0]]}. Scale the features, or lower C.",
                ConvergenceWarning,
            )
        widest = np.where(np.isnan(gaps).any(axis=1), np.nan, gaps.max(axis=1))
        results: dict[str, Any] = self._format_results(candidates, splits, out, {"max_relative_gap": widest})
        return results

    def _refit(
        self, task: SearchTask, metric: Any, first: Any, results: dict[str, Any], models: list[Any], times: Times
    ) -> None:
        """Set the best candidate, and fit it to all data in the time that is left."""
        self.multimetric_ = isinstance(first, dict)
        if callable(self.scoring) and self.multimetric_:
            self._check_refit_for_multimetric(first)
            metric = self.refit
        if self.refit or not self.multimetric_:
            self.best_index_ = self._select_best_index(self.refit, metric, results)
            if not callable(self.refit):
                self.best_score_ = results[f"mean_test_{metric}"][self.best_index_]
            self.best_params_ = results["params"][self.best_index_]
        if self.refit:
            began, best = time.time(), clone(models[self.best_index_])
            best.set_params(**self._limit_of(best, times.deadline))
            try:
                self.best_estimator_ = best.fit(task.X, task.y, **task.fit_params)
            except FitError as error:
                if times.deadline is None or time.monotonic() < times.deadline:
                    raise
                raise FitError(
                    f"time_limit={self.time_limit!r} was over before the best candidate, {self.best_params_}, was "
                    f"fitted to all points, which would take about {times.refit_s:.2g} s by its fits to folds; raise "
                    "time_limit by as much, or give fewer points",
                    error.solution,
                ) from error
            self.refit_time_ = time.time() - began
            last_step(self.best_estimator_).set_params(time_limit=last_step(models[self.best_index_]).time_limit)
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
        scorers = getattr(task.scorer, "_scorers", None)
        self.scorer_ = task.scorer if scorers is None else scorers


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

    def _folds(self, model: Any, task: SearchTask) -> tuple[NDArray, Classes]:
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

    def _folds(self, model: Any, task: SearchTask) -> tuple[NDArray, Numbers]:
        points, values = checked_data(model, task.X, task.y, first=True, numeric=True)
        weight = checked_weight(task.fit_params.get("sample_weight"), points)
        values = np.asarray(values, dtype=float)
        return points, Numbers(values, weight, task.splits, task.train_scores, points.shape[1])
