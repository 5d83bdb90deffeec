"""Base class of the searches: scikit-learn's grid search with shared fits of all candidates and folds."""

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
from ..exceptions import FitError, ProblemError
from ._evaluation import Evaluation, Task, Times, last_name, last_step
from ._folds import Classes, Numbers
from ._models import with_parameters
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
    def _folds(self, model: Any, task: Task) -> tuple[NDArray, Classes | Numbers]:
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
        task = Task(
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

    def _plan(self, task: Task) -> tuple[Plan, list[tuple[int, int]], Kernels | None, Classes | Numbers | None]:
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
        self, task: Task, metric: Any, first: Any, results: dict[str, Any], models: list[Any], times: Times
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
