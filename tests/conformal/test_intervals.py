"""Intervals of `ConformalSVR` against a refit of scikit-learn's for every point left out."""

import numpy as np
import pytest
import scipy.sparse
import sklearn.svm
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.model_selection import KFold, LeaveOneOut

from dualflow import SVR, ConformalSVR, problems, solve
from dualflow.conformal import _models
from dualflow.exceptions import ProblemError
from tests.conformal.references import interval, predictions, refits

METHODS = ("plus", "minmax", "base")
#: Error of values of the order of 20 by LIBSVM's float32 kernel values, at any tolerance.
LIBSVM = 2e-4


def friedman(n=45, noise=1.0):
    X, y = make_friedman1(n + 8, noise=noise, random_state=3)
    return X[:n], y[:n], X[n:]


def by_definition(estimator, X, y, Z, folds, level, method):
    precomputed = estimator.kernel == "precomputed"
    models = refits(estimator, X, y, folds)
    here, there = predictions(models, "predict", X, precomputed), predictions(models, "predict", Z, precomputed)
    whole = predictions(refits(estimator, X, y, [[]]), "predict", Z, precomputed)[0]
    fold_of = np.empty(len(y), dtype=int)
    for number, fold in enumerate(folds):
        fold_of[fold] = number
    left_out = here[fold_of, np.arange(len(y))]
    residuals = np.abs(y - left_out)
    ends = [interval(level, method, whole[k], there[fold_of, k], residuals) for k in range(len(whole))]
    return left_out, np.array(ends)


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 1.0, "epsilon": 0.1, "gamma": 1.0},  # nearly all at their bounds
        {"C": 100.0, "epsilon": 0.5, "gamma": 0.3},  # free ones, bounded ones, and many without weight
        {"C": 1000.0, "epsilon": 0.0, "gamma": 0.3},
        {"C": 0.5, "epsilon": 0.5, "kernel": "linear"},
        {"C": 0.1, "epsilon": 0.2, "kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
        {"C": 1e-3, "epsilon": 0.1, "gamma": 1.0},  # none is free: points without weight set the bias
        {"C": 1.0, "epsilon": 100.0, "gamma": 1.0},  # no weight at all
    ],
    ids=lambda parameters: " ".join(f"{name}={value}" for name, value in parameters.items()),
)
def test_left_out_models_equal_refits(parameters):
    X, y, Z = friedman()
    model = ConformalSVR(SVR(**parameters), confidence_level=0.8).fit(X, y)
    folds = [[i] for i in range(len(y))]
    for method in METHODS:
        left_out, ends = by_definition(model.estimator, X, y, Z, folds, 0.8, method)
        np.testing.assert_allclose(model.left_out_predictions_, left_out, rtol=0, atol=LIBSVM)
        np.testing.assert_allclose(model.set_params(method=method).predict_interval(Z), ends, rtol=0, atol=LIBSVM)
    assert model.max_relative_gap_ <= 1e-9


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.97, 0.98])
def test_ranks(level):
    """n = 45: at 0.98 there are too few points, at 0.97 it is the last one."""
    X, y, Z = friedman()
    model = ConformalSVR(SVR(C=10, gamma=0.3)).fit(X, y).set_params(confidence_level=level)
    folds = [[i] for i in range(len(y))]
    found = model.predict_interval(Z)
    np.testing.assert_allclose(
        found, by_definition(model.estimator, X, y, Z, folds, level, "plus")[1], rtol=0, atol=LIBSVM
    )
    assert np.isinf(found).all() == (level == 0.98)


def test_fold_models_equal_refits():
    X, y, Z = friedman()
    estimator, cv = SVR(C=50.0, epsilon=0.3, gamma=0.3), KFold(5, shuffle=True, random_state=0)
    folds = [test for _, test in cv.split(X)]
    for method in METHODS:
        model = ConformalSVR(estimator, cv=cv, method=method).fit(X, y)
        left_out, ends = by_definition(estimator, X, y, Z, folds, 0.9, method)
        np.testing.assert_allclose(model.left_out_predictions_, left_out, rtol=0, atol=LIBSVM)
        np.testing.assert_allclose(model.predict_interval(Z), ends, rtol=0, atol=LIBSVM)
    assert model.n_models_ == 6


def test_precomputed_and_sparse_as_dense():
    X, y, Z = friedman()
    dense = ConformalSVR(SVR(C=50, kernel="linear")).fit(X, y)
    expected = dense.predict_interval(Z)
    given = ConformalSVR(SVR(C=50, kernel="precomputed")).fit(X @ X.T, y)
    np.testing.assert_allclose(given.predict_interval(Z @ X.T), expected, rtol=0, atol=1e-6)
    sparse = ConformalSVR(SVR(C=50, kernel="linear")).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_allclose(sparse.predict_interval(scipy.sparse.csr_array(Z)), expected, rtol=0, atol=1e-6)
    called = ConformalSVR(SVR(C=50, kernel=lambda A, B: A @ B.T)).fit(X, y)
    np.testing.assert_allclose(called.predict_interval(Z), expected, rtol=0, atol=1e-6)


def test_cvxopt_has_the_same_left_out_values():
    X, y, _ = friedman(25)
    model = ConformalSVR(SVR(C=20.0, epsilon=0.3, gamma=0.4)).fit(X, y)
    gram = model.estimator_.solution_.problem.gram
    for point in range(0, 25, 4):
        rest = np.delete(np.arange(25), point)
        problem = problems.svr(gram.subset(rest), y[rest], 20.0, epsilon=0.3)
        solution = solve(problem, "cvxopt", refine=False, tol=1e-10)
        value = gram.block([point], rest)[0] @ solution.coefficients + solution.bias
        assert abs(value - model.left_out_predictions_[point]) < 1e-6


def test_mapie_has_the_same_intervals():
    regression = pytest.importorskip("mapie.regression", reason="pip install 'dualflow[bench]'")
    X, y = load_diabetes(return_X_y=True)
    X, y, Z = X[:60], y[:60], X[60:80]
    parameters = {"C": 200.0, "epsilon": 20.0, "gamma": 10.0}
    for method in METHODS:
        ours = ConformalSVR(SVR(**parameters), confidence_level=0.85, method=method).fit(X, y).predict_interval(Z)
        tight = sklearn.svm.SVR(**parameters, tol=1e-8)
        theirs = regression.CrossConformalRegressor(tight, confidence_level=0.85, method=method, cv=LeaveOneOut())
        found = theirs.fit_conformalize(X, y).predict_interval(Z)[1][:, :, 0]
        np.testing.assert_allclose(ours, found, rtol=0, atol=1e-3)


def test_a_broken_path_is_replaced_by_refits(monkeypatch):
    X, y, Z = friedman()
    estimator = SVR(C=50.0, epsilon=0.3, gamma=0.3)
    expected = ConformalSVR(estimator).fit(X, y).predict_interval(Z)
    real = _models.PointPaths.without
    monkeypatch.setattr(_models.PointPaths, "without", lambda self, point: None if point % 2 else real(self, point))
    np.testing.assert_allclose(ConformalSVR(estimator).fit(X, y).predict_interval(Z), expected, rtol=0, atol=1e-5)
    # A wrong model is detected, because its gap is computed by a product from scratch.
    monkeypatch.setattr(_models.PointPaths, "without", lambda self, point: (real(self, point)[0], 1.0))
    model = ConformalSVR(estimator).fit(X, y)
    np.testing.assert_allclose(model.predict_interval(Z), expected, rtol=0, atol=1e-5)
    assert model.max_relative_gap_ <= 1e-9
    # Nor is there a path at all.
    monkeypatch.setattr(_models, "_path", lambda *arguments: None)
    np.testing.assert_allclose(ConformalSVR(estimator).fit(X, y).predict_interval(Z), expected, rtol=0, atol=1e-5)


def test_hard_tube():
    X, y, Z = friedman(20, noise=0.0)
    model = ConformalSVR(SVR(C=np.inf, epsilon=0.5, gamma=0.5), confidence_level=0.8).fit(X, y)
    large = ConformalSVR(SVR(C=1e6, epsilon=0.5, gamma=0.5), confidence_level=0.8).fit(X, y)
    np.testing.assert_allclose(model.predict_interval(Z), large.predict_interval(Z), rtol=0, atol=1e-5)


def test_many_new_points_are_predicted_in_blocks(monkeypatch):
    X, y, Z = friedman()
    model = ConformalSVR(SVR(C=50, gamma=0.3)).fit(X, y)
    expected = model.predict_interval(Z)
    monkeypatch.setattr("dualflow.conformal._base.MAX_BLOCK_VALUES", 100)
    np.testing.assert_allclose(model.predict_interval(Z), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"confidence_level": 1.0}, "confidence_level=1.0 must be"),
        ({"method": "jackknife"}, "'plus', 'minmax', 'base'"),
        ({"estimator": KFold()}, "estimator: KFold is not a dualflow.SVR"),
        ({"cv": [(np.arange(5, 45), np.arange(5))]}, "every point must be held out once"),
        ({"estimator": SVR(C=1.0, epsilon=-1.0)}, "epsilon"),
    ],
)
def test_refused(arguments, message):
    X, y, _ = friedman()
    with pytest.raises(ProblemError, match=message):
        ConformalSVR(**arguments).fit(X, y)


def test_too_few_and_too_many_points(monkeypatch):
    X, y, Z = friedman()
    with pytest.raises(ProblemError, match="give at least two"):
        ConformalSVR().fit(X[:1], y[:1])
    two = ConformalSVR(confidence_level=0.5).fit(X[:2], y[:2])
    np.testing.assert_allclose(two.left_out_predictions_, y[[1, 0]])  # a constant, of the other point
    monkeypatch.setattr(_models, "MAX_POINTS_LEFT_OUT", 40)
    with pytest.raises(ProblemError, match="give cv=10"):
        ConformalSVR().fit(X, y)
    assert np.isfinite(ConformalSVR(cv=10).fit(X, y).predict_interval(Z)).all()
