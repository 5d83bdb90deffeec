"""Exact leave-one-out of one-class models: against refits, against held-out points, and what it makes of thresholds."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn import svm
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dualflow
from dualflow import SVDD, Gram, OneClassSVM, ProblemError, load
from dualflow.estimators import _one_class
from dualflow.online import leave_one_out

BOTH = pytest.mark.parametrize("kind", [SVDD, OneClassSVM], ids=lambda kind: kind.__name__)


def normal(n, features=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, features))


def by_interior_points(kind, K, i, nu, weight=None):
    """The score of point i by the model without it, from the matrix alone, by CVXOPT's interior points."""
    rest = np.arange(len(K)) != i
    gram = Gram.precomputed(K[np.ix_(rest, rest)])
    pose = dualflow.problems.svdd if kind is SVDD else dualflow.problems.one_class
    problem = pose(gram, nu, sample_weight=None if weight is None else weight[rest])
    alpha = dualflow.solve(problem, "cvxopt", tol=1e-12).certificate.alpha
    value = K[i, rest] @ alpha
    return value if kind is OneClassSVM else 2 * value - alpha @ K[np.ix_(rest, rest)] @ alpha - K[i, i]


# --- exact leave-one-out -----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize(
    "given",
    [
        {"nu": 0.02},
        {"nu": 0.3, "gamma": 2.0},
        {"nu": 1.0},
        {"nu": 0.2, "kernel": "linear"},
        {"nu": 0.2, "kernel": "poly", "coef0": 1.0},
    ],
    ids=str,
)
def test_scores_are_those_of_refits_by_interior_points(kind, given):
    X = normal(50) + 1.0
    model = kind(**({"gamma": 0.4} | given)).fit(X)
    assert model.loo_relative_gap_ <= 1e-9
    K = model.solution_.problem.gram.full()
    expected = [by_interior_points(kind, K, i, given["nu"]) for i in range(50)]
    np.testing.assert_allclose(model.loo_scores_, expected, rtol=1e-6, atol=1e-6 * np.abs(K).max())


def test_the_hard_ball_weights_and_duplicates():
    X = normal(24, 2)
    X[5], X[11] = X[4], X[4]
    K = np.exp(-0.5 * ((X[:, None] - X) ** 2).sum(-1))
    hard = SVDD(nu=None, gamma=0.5).fit(X).loo_scores_
    np.testing.assert_allclose(hard, [by_interior_points(SVDD, K, i, None) for i in range(24)], atol=1e-6)
    weight = np.random.default_rng(1).uniform(0.2, 2.0, size=24)
    for kind in (SVDD, OneClassSVM):
        found = kind(nu=0.3, gamma=0.5).fit(X, sample_weight=weight).loo_scores_
        expected = [by_interior_points(kind, K, i, 0.3, weight) for i in range(24)]
        np.testing.assert_allclose(found, expected, atol=1e-6)
        some = np.where(np.arange(24) % 4 == 0, 0.0, 1.0)
        found = kind(nu=0.3, gamma=0.5).fit(X, sample_weight=some).loo_scores_
        np.testing.assert_allclose(found, kind(nu=0.3, gamma=0.5).fit(X[some > 0]).loo_scores_, atol=1e-12)


def test_against_refits_by_libsvm():
    X = normal(80, 4)
    found = OneClassSVM(nu=0.2, gamma=0.3).fit(X)
    for i in range(0, 80, 9):
        rest = np.delete(X, i, axis=0)
        expected = svm.OneClassSVM(nu=0.2, gamma=0.3, tol=1e-10).fit(rest).score_samples(X[i : i + 1])[0]
        np.testing.assert_allclose(found.loo_scores_[i] * 0.2 * 79, expected, atol=2e-5)  # its kernel is float32


@BOTH
def test_most_points_share_a_model_and_none_is_solved_for(kind):
    model = kind(nu=0.1, gamma=0.2).fit(normal(300, 5))
    model.p_values(normal(3, 5))
    models = model._models_left
    assert models.refits == 0
    assert len(models.squares) < 80
    assert np.bincount(models.model_of).max() > 220


@BOTH
@pytest.mark.parametrize("broken", ["response", "both"])
def test_scores_without_a_path_are_solved_for(monkeypatch, kind, broken):
    X = normal(40, 2)
    expected = kind(nu=0.3, gamma=1.0).fit(X).loo_scores_
    monkeypatch.setattr(leave_one_out.Response, "without", lambda *_: None)
    if broken == "both":
        monkeypatch.setattr(leave_one_out.Unlearning, "without", lambda *_: None)
    model = kind(nu=0.3, gamma=1.0).fit(X)
    np.testing.assert_allclose(model.loo_scores_, expected, atol=1e-9)
    assert model.loo_relative_gap_ <= 1e-9
    models = model._leave_out()
    assert models.refits <= 1 if broken == "response" else models.refits == len(models.squares)


@pytest.mark.parametrize(("seed", "first"), [(19, True), (24, True), (9, False), (12, False)])
def test_points_that_gain_weight_without_another_get_separate_models(seed, first):
    """Bounds grow when a point is left out, so a point without weight may gain some."""
    X = normal(7, 1, seed)
    K = np.exp(-0.5 * (X - X.T) ** 2)
    problem = dualflow.problems.svdd(Gram.precomputed(K), 0.4)
    idle = np.flatnonzero(dualflow.solve(problem, refine=True).alpha == 0)
    stretched = replace(problem, upper=problem.upper * 7 / 6)
    awake = idle[dualflow.solve(stretched, refine=True).alpha[idle] > 1e-4]
    assert len(idle) > 1
    assert (awake[0] == idle[0]) == first
    found = SVDD(nu=0.4, kernel="precomputed").fit(K).loo_scores_
    np.testing.assert_allclose(found, [by_interior_points(SVDD, K, i, 0.4) for i in range(7)], atol=1e-6)


# --- the share of new points ----------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("given", [{"nu": "auto"}, {"nu": 0.5, "contamination": 0.2}], ids=str)
def test_new_points_are_rejected_at_the_requested_share(kind, given):
    """In the mean over training sets: each set's share is about Beta(k, n + 1 − k), and the new points are binomial."""
    share, n, sets, new = given.get("contamination", 0.05), 199, 16, 1000
    k = round(share * (n + 1))
    found = []
    for seed in range(sets):
        X = normal(n, 4, seed)
        model = kind(gamma=0.1, **given).fit(X)
        found.append(np.mean(model.predict(normal(new, 4, 1000 + seed)) == -1))
        assert model.loo_rejection_rate_ == (k - 1) / n
        assert model.nu_ == (share if given["nu"] == "auto" else given["nu"])
    variance = k * (n + 1 - k) / ((n + 1) ** 2 * (n + 2)) + share * (1 - share) / new
    # A tenth of the share allows for the bias of the plain jackknife, which is of the order 1/n.
    assert abs(np.mean(found) - share) <= 4 * np.sqrt(variance / sets) + 2 / n


@BOTH
def test_nu_alone_rejects_more_new_points_than_nu(kind):
    """ν alone rejects as many new points as there are support vectors, exactly so in leave-one-out."""
    X = normal(300, 5)
    model = kind(nu=0.1, gamma=0.2).fit(X)
    rate = np.mean(model.predict(normal(5000, 5, 1)) == -1)
    assert model.nu_ == 0.1
    assert model.loo_rejection_rate_ > 0.15
    assert abs(model.loo_rejection_rate_ - model.n_support_[0] / 300) <= 0.01
    assert abs(rate - model.loo_rejection_rate_) <= 4 * np.sqrt(0.17 * 0.83 * (1 / 300 + 1 / 5000))


@BOTH
def test_rejected_points_have_p_values_up_to_the_share(kind):
    X, Z = normal(120), 2 * normal(400, seed=1)
    model = kind(contamination=0.1, gamma=0.3).fit(X)
    low = model.p_values(Z, "jackknife") <= 0.1
    np.testing.assert_array_equal(model.predict(Z) == -1, low)
    assert 0.1 < low.mean() < 0.95
    np.testing.assert_allclose(
        model.decision_function(Z), model.score_samples(Z) - (model.offset_ if kind is SVDD else model.offset_[0])
    )
    if kind is SVDD:
        assert model.radius_ != pytest.approx(model.certificate_.radius, rel=1e-3)
        np.testing.assert_allclose(model.radius_**2, -model.offset_, rtol=1e-10)


@BOTH
def test_fit_predict_rejects_the_training_points_with_the_smallest_scores(kind):
    X = normal(120)
    X[7] = X[8]
    for share, count in ((0.05, 6), (0.25, 30), (0.5, 60)):
        model = kind(contamination=share, gamma=0.3)
        labels = model.fit_predict(X)
        assert labels.dtype.kind == "i"
        assert (labels == -1).sum() == count
        assert model.loo_scores_[labels == -1].max() < model.loo_scores_[labels == 1].min()
    weight = np.where(np.arange(120) < 100, 1.0, 0.0)
    labels = model.set_params(contamination=0.1).fit_predict(X, sample_weight=weight)
    assert (labels[:100] == -1).sum() == 10
    np.testing.assert_array_equal(labels[100:], model.predict(X[100:]))  # points without weight count as new
    plain = kind(nu=0.2, gamma=0.3)
    np.testing.assert_array_equal(plain.fit_predict(X), plain.predict(X))


def test_ball_and_plane_agree_for_a_radial_kernel():
    X, Z = normal(150), normal(200, seed=3)
    ball, plane = (kind(nu="auto", contamination=0.08, gamma=0.5).fit(X) for kind in (SVDD, OneClassSVM))
    np.testing.assert_array_equal(plane.predict(Z), ball.predict(Z))
    assert plane.loo_rejection_rate_ == ball.loo_rejection_rate_ == 11 / 150


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"contamination": 0.0}, "contamination=0.0 must be"),
        ({"contamination": 0.6}, "contamination=0.6 must be a finite number > 0 and ≤ 0.5, or None"),
        ({"contamination": "auto"}, "contamination='auto' must be"),
        ({"nu": "automatic"}, "nu='automatic' must be"),
        ({"contamination": 0.01}, "n = 40 points can set a threshold for; give 99 points"),
        ({"nu": "auto", "contamination": 0.001}, "contamination=0.001 is below .*give 999 points"),
    ],
)
@BOTH
def test_shares_out_of_range_are_errors(kind, given, message):
    with pytest.raises(ProblemError, match=message):
        kind(**given).fit(normal(40))


@BOTH
def test_an_indefinite_kernel_has_no_leave_one_out(kind):
    K = normal(20, 20)
    K = K + K.T
    with pytest.warns(UserWarning, match="certificate is withheld"):
        model = kind(kernel="precomputed").fit(K)
    with pytest.raises(ProblemError, match="indefinite on these points"):
        model.p_values(K)
    with pytest.raises(ProblemError, match="two points of positive weight"):
        _ = OneClassSVM().fit([[1.0]]).loo_scores_


# --- p-values -----------------------------------------------------------------------------------------------


@BOTH
@pytest.mark.parametrize("method", ["jackknife+", "jackknife"])
def test_p_values_of_new_points_are_uniform(kind, method):
    """P(p ≤ t) ≤ t over training sets and new points; of each set the share is about Beta(t(n + 1), ·), whose variance
    is t(1 − t)/(n + 2). And that of "jackknife+" is never above 2t."""
    n, sets, new = 99, 25, 200
    found = np.array(
        [
            kind(nu=0.2, gamma=0.1).fit(normal(n, 4, seed)).p_values(normal(new, 4, 500 + seed), method)
            for seed in range(sets)
        ]
    )
    assert found.min() >= 1 / (n + 1)
    assert found.max() <= 1.0
    for t in (0.05, 0.1, 0.3, 0.5, 0.8):
        band = 4 * np.sqrt(t * (1 - t) * (1 / (n + 2) + 1 / new) / sets) + 2 / n
        assert abs(np.mean(found <= t) - t) <= band
        assert np.mean(found <= t) <= 2 * t


@BOTH
def test_p_values_are_what_they_are_defined_to_be(kind):
    X, Z = normal(30, 2), normal(12, 2, 1) * 1.5
    model = kind(nu=0.3, gamma=0.8).fit(X)
    below = np.zeros((2, len(Z)))
    unit = 1.0 if kind is SVDD else 0.3
    for i in range(30):
        rest = kind(nu=0.3, gamma=0.8, tol=1e-12).fit(np.delete(X, i, axis=0))
        own = rest.score_samples(X[i : i + 1])[0]
        below[0] += own <= rest.score_samples(Z)
        below[1] += own / (1 if kind is SVDD else 29) <= model.score_samples(Z) / (1 if kind is SVDD else 30)
        np.testing.assert_allclose(model.loo_scores_[i], own / (1 if kind is SVDD else unit * 29), atol=1e-9)
    np.testing.assert_allclose(model.p_values(Z), (1 + below[0]) / 31)
    np.testing.assert_allclose(model.p_values(Z, method="jackknife"), (1 + below[1]) / 31)


@BOTH
def test_equal_points_count_as_equal_despite_round_off(kind):
    """A new point equal to a training point gets the same score."""
    X = normal(25)
    for scale in (1.0, 1e-6, 1e6):
        model = kind(nu=0.2, gamma=0.3 / scale**2).fit(scale * X)
        ranks = np.argsort(np.argsort(model.loo_scores_))
        for p in (model.p_values(scale * X), model.p_values(scale * X, "jackknife")):
            assert (p >= (ranks + 2) / 26 - 1e-12).all()
    one = kind(nu=0.5).fit(np.ones((6, 2)))
    np.testing.assert_array_equal(one.p_values(np.ones((2, 2))), [1.0, 1.0])
    np.testing.assert_array_equal(one.p_values(9 * np.ones((1, 2))), [1 / 7])


@BOTH
def test_data_may_come_in_any_form(kind, monkeypatch):
    X, Z = normal(40), normal(10, seed=1)
    model = kind(nu=0.2, gamma=0.3).fit(X)
    expected = model.p_values(Z)
    frame = kind(nu=0.2, gamma=0.3).fit(pd.DataFrame(X, columns=list("abc")))
    np.testing.assert_array_equal(frame.p_values(pd.DataFrame(Z, columns=list("abc"))), expected)
    sparse = kind(nu=0.2, gamma=0.3).fit(scipy.sparse.csr_array(X))
    np.testing.assert_array_equal(sparse.p_values(scipy.sparse.csr_array(Z)), expected)
    monkeypatch.setattr(_one_class, "MAX_SCORES_BLOCK", 1)  # a row at a time
    read_only = Z.copy()
    read_only.setflags(write=False)
    np.testing.assert_array_equal(model.p_values(read_only), expected)
    given, of_z = (np.exp(-0.3 * ((A[:, None] - X) ** 2).sum(-1)) for A in (X, Z))
    weight = np.where(np.arange(40) < 35, 1.0, 0.0)
    named = kind(nu=0.2, gamma=0.3).fit(X, sample_weight=weight)
    matrix = kind(nu=0.2, kernel="precomputed").fit(given, sample_weight=weight)
    np.testing.assert_array_equal(matrix.p_values(of_z), named.p_values(Z))
    called = kind(nu=0.2, kernel=lambda A, B: np.exp(-0.3 * ((A[:, None] - B) ** 2).sum(-1))).fit(X)
    np.testing.assert_array_equal(called.p_values(Z), expected)
    with pytest.raises(ProblemError, match=r"method='plus' is not one of 'jackknife\+', 'jackknife'"):
        model.p_values(Z, "plus")
    with pytest.raises(ValueError, match="2 features"):
        model.p_values(Z[:, :2])


# --- as estimators ------------------------------------------------------------------------------------------


@BOTH
def test_it_clones_searches_pickles_and_goes_into_pipelines(kind, tmp_path):
    import pickle

    X, Z = normal(90), normal(30, seed=1)
    model = kind(nu="auto", contamination=0.1)
    assert clone(model).get_params()["contamination"] == 0.1
    assert clone(model).set_params(nu=0.3, contamination=None).fit(X).nu_ == 0.3
    model.fit(X)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.decision_function(Z), model.decision_function(Z))
    np.testing.assert_array_equal(again.p_values(Z), model.p_values(Z))
    path = tmp_path / "model.dualflow"
    for fresh in (model, kind(nu=0.2).fit(X), SVDD(nu=None).fit(X)):
        fresh.save(path)
        loaded = load(path)
        assert loaded.nu_ == fresh.nu_
        np.testing.assert_array_equal(loaded.decision_function(Z), fresh.decision_function(Z))
        assert loaded.loo_rejection_rate_ == fresh.loo_rejection_rate_
        np.testing.assert_allclose(loaded.loo_scores_, fresh.loo_scores_, rtol=1e-12, atol=1e-12)
        np.testing.assert_array_equal(loaded.p_values(Z), fresh.p_values(Z))
    pipeline = make_pipeline(StandardScaler(), kind(contamination=0.1)).fit(X)
    assert 0 < np.mean(pipeline.predict(Z) == -1) < 0.5
    search = GridSearchCV(
        make_pipeline(StandardScaler(), kind(contamination=0.1)),
        {f"{kind.__name__.lower()}__nu": [0.05, 0.2, "auto"]},
        scoring=lambda fitted, X, y=None: -abs(np.mean(fitted.predict(X) == -1) - 0.1),
        cv=3,
    )
    assert search.fit(X).best_score_ > -0.1


@BOTH
def test_refits_drop_the_scores_and_reading_them_changes_nothing(kind):
    X = normal(60)
    model = kind(nu=0.2, gamma=0.3).fit(X)
    before = model.decision_function(X)
    first = model.loo_scores_
    first[:] = 0.0  # a copy
    assert (model.loo_scores_ != 0).all()
    np.testing.assert_array_equal(model.decision_function(X), before)
    model.fit(X[:30])
    assert model.loo_scores_.shape == (30,)
    assert model.p_values(X[:2]).min() >= 1 / 31


@BOTH
def test_ctrl_c_leaves_the_model_as_it_was(kind, monkeypatch):
    X = normal(60)
    model = kind(nu=0.2, gamma=0.3).fit(X)
    before = model.decision_function(X)

    def struck(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(leave_one_out.Response, "without", struck)
    with pytest.raises(KeyboardInterrupt):
        model.p_values(X)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(contamination=0.1).fit(X[:40])
    monkeypatch.undo()
    np.testing.assert_array_equal(model.decision_function(X), before)
    assert model.loo_scores_.shape == (60,)


@BOTH
def test_a_file_with_another_threshold_is_refused(kind):
    model = kind(contamination=0.1).fit(normal(60))
    arrays, facts = model._pack()
    for spoilt in (
        {"loo_scores": np.full(60, np.nan)},
        {"loo_scores": arrays["loo_scores"][:30]},
        {"loo_scores": arrays["loo_scores"] - 0.5},
    ):
        with pytest.raises(ValueError, match="its"):
            fresh(kind, model)._unpack(arrays | spoilt, dict(facts))
    for changed in ({"nu_": 0.9}, {"nu_": None}, {"rejects": 0.7}, {"rejects": 0.001}, {"loo_relative_gap": -1.0}):
        with pytest.raises((ValueError, ProblemError)):
            fresh(kind, model)._unpack(arrays, facts | changed)


def fresh(kind, model):
    other = kind(**model.get_params())
    other.n_features_in_ = model.n_features_in_
    return other


# --- many new points -------------------------------------------------------------------------------


@BOTH
def test_split_p_values_by_their_definition(kind):
    model = kind(nu=0.2, gamma=0.4).fit(normal(60))
    calibration, Z = normal(40, seed=1), normal(30, seed=2) * 1.5
    known, new = model.score_samples(calibration), model.score_samples(Z)
    expected = (1 + (known <= new[:, None]).sum(axis=1)) / 41
    np.testing.assert_allclose(model.p_values(Z, calibration=calibration), expected)
    own = model.p_values(calibration, calibration=calibration)  # equal scores count
    np.testing.assert_allclose(np.sort(own), np.arange(2, 42) / 41)


@BOTH
def test_novelties_are_those_of_benjamini_and_hochberg(kind):
    model, Z = kind(nu=0.2, gamma=0.4).fit(normal(99)), np.vstack([normal(30, seed=2), normal(12, seed=3) + 5.0])
    for given in ({}, {"method": "jackknife"}, {"calibration": normal(79, seed=4)}):
        p = model.p_values(Z, **given)
        for rate in (0.05, 0.1, 0.3):
            order, k = np.argsort(p), 0
            for rank in range(1, 43):
                if p[order[rank - 1]] <= rank * rate / 42 * (1 + 1e-12):
                    k = rank
            expected = np.zeros(42, dtype=bool)
            expected[order[:k]] = True
            np.testing.assert_array_equal(model.novelties(Z, rate, **given), expected)
        assert model.novelties(Z, 0.3, **given)[30:].all()
    assert model.novelties(Z[:0]).shape == (0,)
    with pytest.raises(ProblemError, match="false_discovery_rate=0"):
        model.novelties(Z, 0)


def test_false_discoveries_are_few():
    """With calibration points the expected share of false alarms is at most rate·30/40, whatever the model.

    Means of 150 independent draws, with 4 σ as they are seen; without the procedure, p ≤ rate, it is larger.
    """
    rate, shares, plain = 0.3, [], []
    for seed in range(150):
        X = normal(120, 2, seed)
        model = SVDD(nu=0.2, gamma=0.4).fit(X[:40])
        Z = np.vstack([X[90:], normal(10, 2, 10_000 + seed) + 2.5])
        p = model.p_values(Z, calibration=X[40:90])
        for found, out in ((model.novelties(Z, rate, calibration=X[40:90]), shares), (p <= rate, plain)):
            out.append(found[:30].sum() / max(1, found.sum()))
    assert np.mean(shares) <= rate * 0.75 + 4 * np.std(shares) / np.sqrt(150)
    assert np.mean(plain) > rate * 0.75 + 4 * np.std(plain) / np.sqrt(150)
