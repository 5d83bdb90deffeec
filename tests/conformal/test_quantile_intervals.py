"""Conformalised quantiles: intervals of `ConformalSVR(QuantileSVR)` against refits, coverage, files."""

import numpy as np
import pytest
from sklearn.model_selection import KFold

import dualflow
from dualflow import ConformalSVR, ProblemError, QuantileSVR, problems, solve

BAND = [0.1, 0.9]


def noisy(n=40, m=8, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-2, 2, (n + m, 1))
    y = np.sin(2 * X[:, 0]) + (0.1 + 0.4 * np.abs(X[:, 0])) * rng.normal(size=n + m)
    return X[:n], y[:n], X[n:], y[n:]


def refits(estimator, X, y, Z, folds):
    """Quantiles of the training points and of the new ones by a tight fit without each fold."""
    own, there = np.empty((len(y), 2)), np.empty((len(y), len(Z), 2))
    for fold in folds:
        rest = np.setdiff1d(np.arange(len(y)), fold)
        model = QuantileSVR(**estimator.get_params() | {"tol": 1e-11}).fit(X[rest], y[rest])
        own[fold] = model.predict(X[fold])
        there[fold] = model.predict(Z)
    return own, there


def interval(method, level, whole, there, scores):
    """Ends of one point's interval by definition."""
    n = len(scores)
    k = int(np.ceil(level * (n + 1) - 1e-9))
    if method == "plus":
        return sorted(there[:, 0] - scores)[n - k], sorted(there[:, 1] + scores)[k - 1]
    widest = sorted(scores)[k - 1]
    if method == "minmax":
        return there[:, 0].min() - widest, there[:, 1].max() + widest
    return whole[0] - widest, whole[1] + widest


@pytest.mark.parametrize("cv", [None, KFold(5, shuffle=True, random_state=0)], ids=["points", "folds"])
@pytest.mark.parametrize("C", [0.3, 10.0])
def test_intervals_are_those_of_refits(C, cv):
    X, y, Z, _ = noisy()
    model = ConformalSVR(QuantileSVR(BAND, C=C, gamma=0.5), confidence_level=0.8, cv=cv).fit(X, y)
    folds = [[i] for i in range(40)] if cv is None else [test for _, test in cv.split(X)]
    own, there = refits(model.estimator, X, y, Z, folds)
    np.testing.assert_allclose(model.left_out_predictions_, own, rtol=0, atol=1e-5)
    scores = np.maximum(own[:, 0] - y, y - own[:, 1])
    np.testing.assert_allclose(model.conformity_scores_, scores, rtol=0, atol=1e-5)
    assert (scores < 0).any()
    whole = QuantileSVR(BAND, C=C, gamma=0.5, tol=1e-11).fit(X, y).predict(Z)
    for method in ("plus", "minmax", "base"):
        ends = [interval(method, 0.8, whole[k], there[:, k], scores) for k in range(len(Z))]
        np.testing.assert_allclose(model.set_params(method=method).predict_interval(Z), ends, rtol=0, atol=1e-5)
    assert model.max_relative_gap_ <= 1e-9


def test_left_out_quantiles_are_those_of_cvxopt():
    X, y, _, _ = noisy(25)
    model = ConformalSVR(QuantileSVR(BAND, C=2.0, gamma=0.5), cv=None).fit(X, y)
    gram = model.estimator_.solutions_[0].problem.gram
    for point in range(0, 25, 6):
        rest = np.delete(np.arange(25), point)
        for k, tau in enumerate(BAND):
            problem = problems.quantile_svr(gram.subset(rest), y[rest], 2.0, quantile=tau)
            solution = solve(problem, "cvxopt", refine=False, tol=1e-11)
            value = gram.block([point], rest)[0] @ solution.coefficients + solution.bias
            assert abs(model.left_out_predictions_[point, k] - value) < 1e-5


def test_coverage_and_width():
    """A new score's rank among n is uniform; a split's share of m points has the variance p(1 − p)(1/m + 1/(n + 2))."""
    n, m, splits, hits, widths = 60, 100, 15, [], []
    for seed in range(splits):
        X, y, Z, truth = noisy(n, m, seed)
        model = ConformalSVR(QuantileSVR(BAND, C=3.0, gamma=0.5), confidence_level=0.8, cv=10).fit(X, y)
        low, high = model.predict_interval(Z).T
        hits.append(((low <= truth) & (truth <= high)).mean())
        calm = np.abs(Z[:, 0]) < 0.7
        widths.append([(high - low)[calm].mean(), (high - low)[np.abs(Z[:, 0]) > 1.5].mean()])
    p = np.ceil(0.8 * (n + 1)) / (n + 1)
    sigma = np.sqrt(p * (1 - p) * (1 / m + 1 / (n + 2)) / splits)
    assert abs(np.mean(hits) - p) <= 4 * sigma
    narrow, wide = np.mean(widths, axis=0)
    assert wide > 1.5 * narrow


def test_files_scores_and_errors(tmp_path):
    X, y, Z, _ = noisy()
    model = ConformalSVR(QuantileSVR(BAND, C=3.0, gamma=0.5)).fit(X, y)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(dualflow.load(tmp_path / "model").predict_interval(Z), model.predict_interval(Z))
    assert model.predict(Z).shape == (8, 2)
    assert model.score(X, y) == model.estimator_.score(X, y)
    for quantile in (0.5, [0.1, 0.5, 0.9]):
        with pytest.raises(ProblemError, match="the quantiles of its two ends"):
            ConformalSVR(QuantileSVR(quantile)).fit(X, y)
