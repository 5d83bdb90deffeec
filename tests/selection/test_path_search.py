"""The accuracy along the path of C is that of single fits at any C, and "path" in a search finds the best C of all."""

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_iris, make_classification, make_moons
from sklearn.model_selection import GridSearchCV, ShuffleSplit, StratifiedKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualflow import SVC, SVR, FitError, ProblemError, SVCSearchCV, SVRSearchCV, regularization_path
from dualflow.selection._accuracy import best_interval

X, Y = make_moons(160, noise=0.35, random_state=0)
TRAIN, TEST = slice(0, 100), slice(100, None)
SPAN = (0.02, 500.0)
CASES = {
    "rbf": ({"gamma": 1.0}, None),
    "linear": ({"kernel": "linear"}, None),
    "class weights": ({"gamma": 1.0, "class_weight": {0: 1.0, 1: 3.0}}, None),
    "sample weights": ({"gamma": 1.0}, np.random.default_rng(0).uniform(0.5, 2.0, 100)),
}


def accuracy_at(steps, C):
    values, shares = steps
    return shares[np.searchsorted(values, C, side="right") - 1]


@pytest.mark.parametrize("name", CASES)
def test_accuracy_along_c_is_libsvms(name):
    options, weight = CASES[name]
    path = regularization_path(SVC(**options), X[TRAIN], Y[TRAIN], C=SPAN, sample_weight=weight)
    steps = path.accuracy(X[TEST], Y[TEST])
    assert (steps[0][0], steps[0][-1]) == SPAN
    assert (np.diff(steps[0]) > 0).all()
    compared = 0
    for C in np.exp(np.random.default_rng(1).uniform(*np.log(SPAN), 60)):
        theirs = svm.SVC(C=C, tol=1e-9, **options).fit(X[TRAIN], Y[TRAIN], weight)
        if np.abs(theirs.decision_function(X[TEST])).min() > 1e-4 and np.isfinite(accuracy_at(steps, C)):
            assert accuracy_at(steps, C) == pytest.approx(theirs.score(X[TEST], Y[TEST]), abs=1e-12)
            compared += 1
    assert compared >= 40


def test_at_each_step_a_point_is_on_the_boundary():
    path = regularization_path(SVC(gamma=1.0), X[TRAIN], Y[TRAIN], C=SPAN)
    C, shares = path.accuracy(X[TEST], Y[TEST])
    known = np.flatnonzero(np.isfinite(shares[:-1]) & np.isfinite(shares[1:]))
    assert len(known) >= 5
    for k in known:
        exact = SVC(gamma=1.0, C=C[k + 1], tol=1e-11).fit(X[TRAIN], Y[TRAIN]).decision_function(X[TEST])
        assert np.abs(exact).min() < 1e-6


@pytest.mark.parametrize("options", [{"fit_intercept": False}, {"fit_intercept": "penalised"}])
def test_accuracy_without_an_equality(options):
    path = regularization_path(SVC(gamma=1.0, **options), X[TRAIN], Y[TRAIN], C=SPAN)
    steps = path.accuracy(X[TEST], Y[TEST])
    for C in np.exp(np.random.default_rng(2).uniform(*np.log(SPAN), 20)):
        model = SVC(gamma=1.0, C=C, tol=1e-10, **options).fit(X[TRAIN], Y[TRAIN])
        if np.abs(model.decision_function(X[TEST])).min() > 1e-4:
            assert accuracy_at(steps, C) == pytest.approx(model.score(X[TEST], Y[TEST]), abs=1e-12)


def test_blocks_of_breakpoints_change_nothing(monkeypatch):
    path = regularization_path(SVC(gamma=1.0), X[TRAIN], Y[TRAIN], C=SPAN)
    whole = path.accuracy(X[TEST], Y[TEST])
    monkeypatch.setattr("dualflow.selection._accuracy.BREAKPOINTS_PER_BLOCK", 7)
    parts = path.accuracy(X[TEST], Y[TEST])
    np.testing.assert_allclose(parts[0], whole[0], rtol=1e-9)
    np.testing.assert_array_equal(parts[1], whole[1])


def test_a_label_that_the_path_does_not_know_is_an_error_of_prediction():
    path = regularization_path(SVC(gamma=1.0), X[TRAIN], Y[TRAIN], C=SPAN)
    _, shares = path.accuracy(X[TEST][:5], np.full(5, 7))
    assert np.unique(shares[np.isfinite(shares)]).tolist() == [0.0]


def test_accuracy_refuses_what_has_none():
    path = regularization_path(SVC(gamma=1.0), X[TRAIN], Y[TRAIN], C=SPAN)
    with pytest.raises(ProblemError, match="one label for each"):
        path.accuracy(X[TEST], Y[TRAIN])
    with pytest.raises(ProblemError, match="of a classifier along C"):
        regularization_path(SVR(), X[TRAIN], X[TRAIN, 0], C=(0.1, 1.0)).accuracy(X, X[:, 0])


def test_the_widest_interval_of_the_best_mean():
    one = np.array([1.0, 2.0, 3.0, 8.0, 100.0]), np.array([0.5, 1.0, 0.5, 1.0])
    other = np.array([1.0, 2.5, 10.0, 50.0, 100.0]), np.array([1.0, 1.0, np.nan, 1.0])
    # Both are 1 from 2 to 3, from 8 to 10 and from 50 to 100, the widest.
    assert best_interval([one, other]) == (1.0, 50.0, 100.0)
    assert best_interval([(np.array([1.0, 2.0]), np.array([np.nan]))]) is None


def test_no_c_of_a_dense_grid_is_better():
    cv = StratifiedKFold(5)
    found = SVCSearchCV(SVC(), {"C": "path", "gamma": [0.5, 2.0]}, cv=cv).fit(X, Y)
    assert len(found.cv_results_["params"]) == 2
    results = found.cv_results_
    for gamma, row, score in zip([0.5, 2.0], results["params"], results["mean_test_score"], strict=True):
        assert row["gamma"] == gamma
        theirs = cross_val_score(svm.SVC(**row, tol=1e-9), X, Y, cv=cv).mean()
        assert score == pytest.approx(theirs, abs=1e-12)
        grid = {"C": np.geomspace(0.01, 100, 12)}
        assert score >= GridSearchCV(svm.SVC(gamma=gamma), grid, cv=cv).fit(X, Y).best_score_ - 1e-12
    assert found.best_params_["C"] == found.best_estimator_.C
    assert found.best_estimator_.certificate_.reaches(1e-6)


def test_pipelines_intervals_weights_and_lists_of_grids():
    weight = np.where(Y == 1, 20.0, 1.0) * np.random.default_rng(3).uniform(0.5, 2.0, len(Y))
    model = make_pipeline(StandardScaler(), SVC(gamma=1.0))
    grids = [{"svc__C": ("path", 0.1, 10.0)}, {"svc__C": [3.0]}]
    cv = ShuffleSplit(3, random_state=0)
    found = SVCSearchCV(model, grids, cv=cv).fit(X, Y, svc__sample_weight=weight)
    C = found.cv_results_["param_svc__C"]
    assert 0.1 < C[0] < 10.0
    assert C[1] == 3.0
    scores = found.cv_results_["mean_test_score"]
    theirs = make_pipeline(StandardScaler(), svm.SVC(gamma=1.0, tol=1e-9))
    grid = GridSearchCV(theirs, {"svc__C": [C[0], *np.geomspace(0.1, 10.0, 25)]}, cv=cv)
    own = grid.fit(X, Y, svc__sample_weight=weight).cv_results_["mean_test_score"]
    assert scores[0] == pytest.approx(own[0], abs=1e-12)
    assert scores[0] >= max(own.max(), scores[1]) - 1e-12


def test_a_precomputed_kernel_has_a_path():
    K = X @ X.T
    ours = SVCSearchCV(SVC(kernel="precomputed"), {"C": "path"}, cv=4).fit(K, Y)
    linear = SVCSearchCV(SVC(kernel="linear"), {"C": "path"}, cv=4).fit(X, Y)
    assert ours.best_params_["C"] == pytest.approx(linear.best_params_["C"], rel=1e-6)
    assert ours.best_score_ == linear.best_score_


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ({"C": "paths"}, {}, "'path', or"),
        ({"C": ["path", 1.0]}, {}, "'path', or"),
        ({"C": ("path", 10.0, 1.0)}, {}, "ascending"),
        ({"C": "path"}, {"scoring": "f1"}, "chosen by accuracy"),
        ({"C": "path", "loss": ["squared_hinge"]}, {}, "squared_hinge"),
        ({"C": ("path", 1e-9, 1e-8)}, {}, "bias unique"),
    ],
)
def test_what_has_no_path_is_refused(grid, options, message):
    balanced = np.argsort(Y, kind="stable")[np.r_[40:80, 80:120]]
    with pytest.raises(ProblemError, match=message):
        SVCSearchCV(SVC(gamma=1.0), grid, cv=4, **options).fit(X[balanced], Y[balanced])


def test_three_classes_and_regressions_are_refused():
    with pytest.raises(ProblemError, match="3 classes"):
        SVCSearchCV(SVC(), {"C": "path"}).fit(*load_iris(return_X_y=True))
    with pytest.raises((ProblemError, TypeError), match="'C'"):
        SVRSearchCV(SVR(), {"C": "path"}).fit(X, X[:, 0])


def test_weights_of_a_transformer_are_refused():
    model = make_pipeline(StandardScaler(), SVC(gamma=1.0))
    with pytest.raises(ProblemError, match="standardscaler__sample_weight"):
        SVCSearchCV(model, {"svc__C": "path"}).fit(X, Y, standardscaler__sample_weight=np.ones(len(Y)))


def test_a_time_limit_ends_the_paths():
    many, labels = make_classification(1500, n_features=20, flip_y=0.2, random_state=0)
    with pytest.raises(FitError, match="paths along C"):
        SVCSearchCV(SVC(), {"C": "path", "gamma": [0.01, 0.1]}, time_limit=0.05).fit(many, labels)
