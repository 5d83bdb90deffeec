"""Searches over pipelines: the scores of GridSearchCV, with transformers fitted once a fold."""

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.datasets import make_classification
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from dualflow import SVC, SVR, ProblemError, SVCSearchCV, SVRSearchCV
from dualflow.selection import _plan

GRID = {"pca__n_components": [2, 4], "svc__C": [0.1, 1.0, 30.0]}


def german():
    return make_classification(n_samples=150, n_features=6, flip_y=0.1, random_state=0)


class Counting(TransformerMixin, BaseEstimator):
    """Scales by ``factor``, and counts its fits."""

    fits: list[float] = []  # noqa: RUF012 - of all copies

    def __init__(self, factor=1.0):
        self.factor = factor

    def fit(self, X, y=None):
        self.fits.append(self.factor)
        self.n_features_in_ = X.shape[1]
        return self

    def transform(self, X):
        return self.factor * X


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("scoring", ["roc_auc", ["accuracy", "f1"]], ids=str)
def test_scores_are_those_of_grid_search(jobs, scoring):
    X, y = german()
    model = Pipeline([("scale", StandardScaler()), ("pca", PCA(random_state=0)), ("svc", SVC())])
    options = {"cv": 3, "scoring": scoring, "refit": "f1" if isinstance(scoring, list) else True}
    ours = SVCSearchCV(model, GRID, n_jobs=jobs, **options).fit(X, y)
    theirs = GridSearchCV(model, GRID, **options).fit(X, y)
    for name in (name for name in theirs.cv_results_ if "test_" in name):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], atol=1e-12, err_msg=name)
    assert ours.best_params_ == theirs.best_params_
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))
    assert (ours.cv_results_["max_relative_gap"] <= 1e-6).all()
    assert ours.best_estimator_.memory is None


def test_transformers_are_fitted_once_a_fold_and_setting():
    X, y = german()
    model = make_pipeline(Counting(), SVC())
    Counting.fits.clear()
    SVCSearchCV(model, {"counting__factor": [1.0, 2.0], "svc__C": [0.1, 1.0, 30.0]}, cv=3, refit=False).fit(X, y)
    assert sorted(Counting.fits) == [1.0] * 3 + [2.0] * 3


def test_transformers_that_cannot_be_pickled_are_fitted_each_time():
    X, y = german()
    model = make_pipeline(FunctionTransformer(lambda X: X + 1.0), SVC())
    search = SVCSearchCV(model, {"svc__C": [0.1, 1.0]}, cv=3).fit(X, y)
    assert search.best_score_ > 0.6


def test_fit_parameters_weights_and_limits_reach_the_last_step():
    X, y = german()
    weight = np.random.default_rng(0).uniform(0.1, 2.0, len(y))
    model, grid = make_pipeline(StandardScaler(), SVC(time_limit=60.0)), {"svc__C": [0.1, 10.0]}
    ours = SVCSearchCV(model, grid, cv=3, time_limit=120.0).fit(X, y, svc__sample_weight=weight)
    theirs = GridSearchCV(model, grid, cv=3).fit(X, y, svc__sample_weight=weight)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])
    assert ours.best_estimator_[-1].time_limit == 60.0


def test_regression_in_a_pipeline():
    X, _ = german()
    model, grid = make_pipeline(StandardScaler(), SVR()), {"svr__C": [0.1, 10.0], "svr__epsilon": [0.01, 0.5]}
    ours, theirs = SVRSearchCV(model, grid, cv=3).fit(X, X[:, 0]), GridSearchCV(model, grid, cv=3).fit(X, X[:, 0])
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-9)


def test_a_pipeline_whose_last_step_is_not_of_the_kind_is_refused():
    X, y = german()
    with pytest.raises(ProblemError, match=r"estimator: a pipeline whose last step is LogisticRegression is not"):
        SVCSearchCV(make_pipeline(StandardScaler(), LogisticRegression()), {}).fit(X, y)
    with pytest.raises(ProblemError, match=r"estimator: a pipeline whose last step is SVC is not a dualflow\.SVR"):
        SVRSearchCV(make_pipeline(SVC()), {}).fit(X, y)
    with pytest.raises(ProblemError, match=r"param_grid: the estimator of .*LogisticRegression"):
        SVCSearchCV(make_pipeline(SVC()), {"svc": [LogisticRegression()]}).fit(X, y)


def test_a_lone_candidate_of_few_folds_and_many_points_is_not_planned():
    few, many = _plan.MIN_FOLDS_ONE_COST - 1, _plan.MIN_FOLDS_ONE_COST
    small, large = _plan.MAX_POINTS_LONE, _plan.MAX_POINTS_LONE + 1
    lone = [SVC(gamma=0.1), SVC(gamma=0.2)]
    assert _plan.chains_of(lone, few, large) == []
    assert len(_plan.chains_of(lone, many, large)) == len(_plan.chains_of(lone, few, small)) == 2
    assert _plan.chains_of([SVC(kernel="linear"), SVC(fit_intercept=False), SVR()], few, small) == []
    assert [chain.costs for chain in _plan.chains_of([SVC(C=1.0), SVC(C=2.0), *lone], few, large)] == [[1.0, 2.0]]
