"""Full conformal prediction against a refit for every new point and label; per class; coverage; files."""

import pickle
from itertools import combinations

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, make_classification
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dualflow
from dualflow import SVC, ConformalSVC, ProblemError
from dualflow.conformal import _learned


def two(n=60, m=10):
    X, y = make_classification(n + m, 4, flip_y=0.2, class_sep=0.7, random_state=5)
    return X[:n], np.array(["no", "yes"])[y[:n]], X[n:]


def three(n=60, m=8):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order, 1:3] + 1e-3 * np.random.default_rng(1).normal(size=(150, 2)), y[order]
    return X[:n], y[:n], X[n : n + m]


def scores_of(parameters, X, y):
    """The largest α/C − y f over the pairs of each point's class, by separate fits of the pairs.

    In a pair with a point on the margin whose α is at a bound it is −y f.
    """
    found, C = np.full(len(y), -np.inf), parameters["C"]
    factor = parameters.get("class_weight", {})
    for pair in combinations(np.unique(y), 2):
        (rows,) = np.nonzero(np.isin(y, pair))
        model = SVC(**parameters, tol=1e-11).fit(X[rows], y[rows])
        sign = np.where(y[rows] == pair[1], 1.0, -1.0)
        share = np.zeros(len(rows))
        share[model.support_] = sign[model.support_] * model.dual_coef_[0]
        share /= C * np.array([factor.get(label, 1.0) for label in y[rows]])
        margin = sign * model.decision_function(X[rows])
        at_bound = (share < 1e-7) | (share > 1 - 1e-7)
        tied = (at_bound & (np.abs(margin - 1) < 1e-6)).any()
        found[rows] = np.maximum(found[rows], -margin if tied else share - margin)
    return found


def brute_force(parameters, X, y, Z, per_class=False):
    """p-values by a fit for every new point and label."""
    classes = np.unique(y)
    p = np.empty((len(Z), len(classes)))
    for k, z in enumerate(Z):
        for j, label in enumerate(classes):
            labels = np.append(y, classes[j : j + 1])
            scores = scores_of(parameters, np.vstack([X, z]), labels)
            among = labels == label if per_class else np.ones(len(labels), dtype=bool)
            p[k, j] = (scores[among] >= scores[-1] - 1e-6).mean()
    return p


@pytest.mark.parametrize("per_class", [False, True])
@pytest.mark.parametrize(
    ("data", "parameters"),
    [
        (two, {"C": 1.0, "gamma": 0.5}),
        (two, {"C": 30.0, "gamma": 0.1}),
        (two, {"C": 1e-3, "gamma": 0.5}),  # no variable is free
        (two, {"C": 1.0, "kernel": "linear", "class_weight": {"yes": 2.0}}),
        (two, {"C": 1.0, "gamma": 0.5, "fit_intercept": False}),
        (three, {"C": 2.0, "gamma": 0.5}),
    ],
)
def test_sets_are_those_of_refits(data, parameters, per_class):
    X, y, Z = data()
    model = ConformalSVC(SVC(**parameters), method="full", mondrian=per_class, confidence_level=0.8).fit(X, y)
    wanted = brute_force(parameters, X, y, Z, per_class)
    np.testing.assert_allclose(model.p_values(Z), wanted, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(model.predict_set(Z), wanted > 0.2 + 1e-12)
    assert 0 < model.predict_set(Z).mean() < 1


def test_a_broken_path_is_replaced_by_refits(monkeypatch):
    X, y, Z = two(40)
    model = ConformalSVC(SVC(C=5.0, gamma=0.5), method="full").fit(X, y)
    wanted = model.p_values(Z)
    real = _learned.PointPaths.with_last

    def wrong(self, label, upper):
        alpha, bias = real(self, label, upper)
        return 1.01 * alpha, bias

    for broken in (lambda self, label, upper: None, wrong):
        monkeypatch.setattr(_learned.PointPaths, "with_last", broken)
        np.testing.assert_array_equal(model.p_values(Z), wanted)


def test_the_order_of_equal_points_does_not_matter():
    """A new point that equals a training point has the p-value that the training point has in its place."""
    X, y, _ = two(30)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)  # α of two equal points on the margin is not unique
    labels = np.unique(y)
    for k in (0, 1, 8, 20):
        rest = np.delete(np.arange(60), k)
        p = ConformalSVC(SVC(C=1.0, gamma=0.5), method="full").fit(X[rest], y[rest]).p_values(X[k : k + 1])[0]
        other = k + 1 if k % 2 == 0 else k - 1
        rest = np.delete(np.arange(60), other)
        q = ConformalSVC(SVC(C=1.0, gamma=0.5), method="full").fit(X[rest], y[rest]).p_values(X[other : other + 1])[0]
        own = np.searchsorted(labels, y[k])
        assert p[own] == q[own]


def test_precomputed_pipelines_pickles_and_files(tmp_path):
    X, y, Z = two()
    model = ConformalSVC(SVC(C=5.0, gamma=0.5), method="full", mondrian=True).fit(X, y)
    wanted = model.p_values(Z)

    def radial(A, B):
        return np.exp(-0.5 * ((A[:, None] - B) ** 2).sum(axis=-1))

    given = ConformalSVC(SVC(C=5.0, kernel="precomputed"), method="full", mondrian=True).fit(radial(X, X), y)
    np.testing.assert_array_equal(given.p_values(radial(Z, X)), wanted)
    K = radial(X, X) * np.outer(np.linspace(1, 2, 60), np.linspace(1, 2, 60))
    given.fit(K, y)
    with pytest.raises(ProblemError, match="the training diagonal is not constant"):
        given.p_values(K[:2])
    scaled = ConformalSVC(make_pipeline(StandardScaler(with_std=False), SVC(C=5.0, gamma=0.5)), method="full")
    np.testing.assert_array_equal(scaled.set_params(mondrian=True).fit(X, y).p_values(Z), wanted)
    model.save(tmp_path / "model")
    for again in (dualflow.load(tmp_path / "model"), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(again.p_values(Z), wanted)


def test_methods_after_a_fit():
    X, y, Z = two()
    model = ConformalSVC(SVC(C=5.0, gamma=0.5)).fit(X, y)
    plus, full = model.p_values(Z), model.set_params(method="full").p_values(Z)
    assert not np.array_equal(plus, full)
    model.fit(X, y)
    assert not hasattr(model, "conformity_scores_")
    np.testing.assert_array_equal(model.p_values(Z), full)
    with pytest.raises(ProblemError, match="method='plus' needs the models without each point"):
        model.set_params(method="plus").p_values(Z)
    np.testing.assert_array_equal(model.fit(X, y).p_values(Z), plus)


@pytest.mark.parametrize("parameters", [{"loss": "squared_hinge"}, {"C": np.inf}])
def test_refused(parameters):
    X, y, _ = two()
    X = X + 4.0 * (y == "yes")[:, None]
    with pytest.raises(ProblemError, match="loss='hinge' and a finite C only"):
        ConformalSVC(SVC(**parameters), method="full").fit(X, y)
    with pytest.raises(ProblemError, match="mondrian='yes'"):
        ConformalSVC(SVC(), mondrian="yes").fit(X, y)


# --- per class -------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["plus", "minmax", "base"])
def test_per_class_p_values_by_their_definition(method):
    """Against those of all points: with the scores of the other classes pushed below all, only n changes."""
    X, y, Z = three()
    model = ConformalSVC(SVC(C=5.0, gamma=0.5), method=method).fit(X, y)
    own = model.conformity_scores_
    found = model.set_params(mondrian=True).p_values(Z)
    model.set_params(mondrian=False)
    for label in range(3):
        members = y == label
        model.conformity_scores_ = np.where(members, own, -50.0)
        count = model.p_values(Z)[:, label] * 61 - 1
        wanted = (1 + count) / (1 + members.sum())
        if method == "minmax":  # the least is taken over the models without a point of the class alone
            assert (found[:, label] <= wanted + 1e-12).all()
            assert (found[:, label] >= model.set_params(method="plus").p_values(Z)[:, label] - 1e-12).all()
            model.set_params(method=method)
        else:
            np.testing.assert_allclose(found[:, label], wanted, atol=1e-12)


# --- coverage --------------------------------------------------------------------------------------


@pytest.mark.parametrize("per_class", [False, True])
def test_coverage_over_splits(per_class):
    """The rank of a new score among n is uniform, so p = ⌈0.9(n + 1)⌉/(n + 1) of them are covered; a split's share of
    m points has the variance p(1 − p)(1/m + 1/(n + 2)). Scores are continuous, as the data are."""
    X, y = load_breast_cancer(return_X_y=True)
    X, splits, n, m = StandardScaler().fit_transform(X), 12, 40, 40
    model = ConformalSVC(SVC(C=1.0, gamma=0.03), method="full", mondrian=per_class)
    covered = {0: [], 1: []}
    expected = {0: [], 1: []}
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:n], order[n : n + m]
        sets = model.fit(X[train], y[train]).predict_set(X[test])
        hit = sets[np.arange(m), y[test]]
        for label in (0, 1):
            size = (y[train] == label).sum() if per_class else n
            covered[label].append(hit[y[test] == label])
            expected[label].append(np.ceil(0.9 * (size + 1) - 1e-9) / (size + 1))
    labels = [(0,), (1,)] if per_class else [(0, 1)]
    for own in labels:
        hits = np.concatenate([part for label in own for part in covered[label]])
        p = np.mean([part for label in own for part in expected[label]])
        size = n / len(labels) * 0.7
        sigma = np.sqrt(p * (1 - p) * (1 / len(hits) + 1 / (size + 2) / splits))
        assert abs(hits.mean() - p) <= 4 * sigma
