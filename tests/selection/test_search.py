"""Tests of the searches against scikit-learn's, fold by fold."""

import numpy as np
import pytest
import scipy.sparse
import sklearn.svm
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, make_classification, make_regression
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import make_scorer, roc_auc_score
from sklearn.model_selection import GridSearchCV, GroupKFold, LeaveOneOut

from dualflow import SVC, SVR, IncrementalSVC, SVCSearchCV, SVRSearchCV
from dualflow.direct import pairs
from dualflow.selection import _duals, _evaluation, _folds, _plan
from dualflow.selection._duals import Newton
from dualflow.selection._models import FoldSVC
from tests.combinations import covering, often

GRID = {"C": [0.1, 1.0, 30.0], "gamma": [0.01, 0.1, 1.0]}


def german():
    return make_classification(n_samples=260, n_features=24, weights=[0.7], flip_y=0.1, random_state=0)


def digits():
    X, y = load_digits(return_X_y=True)
    return X[:400] / 16.0, y[:400]


def same_tables(ours, theirs, tolerance=0.0):
    """Every score of every fold, and every key that scikit-learn has."""
    assert set(theirs) <= set(ours)
    for name, column in theirs.items():
        if "score" in name and "time" not in name:
            np.testing.assert_allclose(ours[name], column, rtol=0, atol=tolerance, err_msg=name)
        elif name.startswith("param_"):
            assert ours[name].tolist() == column.tolist()
    assert ours["params"] == theirs["params"]


def peer(grid, **options):
    given = {"tol": 1e-8} | {k: options.pop(k) for k in list(options) if k in ("class_weight", "kernel", "gamma")}
    return GridSearchCV(sklearn.svm.SVC(**given), grid, **options)


@pytest.mark.parametrize(
    ("data", "folds"), covering([german, lambda: load_iris(return_X_y=True), digits], [2, 10], together=1)
)
def test_scores_are_those_of_scikit_learn(data, folds):
    X, y = data()
    ours = SVCSearchCV(SVC(), GRID, cv=folds, return_train_score=True).fit(X, y)
    theirs = peer(GRID, cv=folds, return_train_score=True).fit(X, y)
    same_tables(ours.cv_results_, theirs.cv_results_, tolerance=1e-12)
    assert ours.best_params_ == theirs.best_params_
    assert ours.best_index_ == theirs.best_index_
    assert ours.best_score_ == pytest.approx(theirs.best_score_, abs=1e-12)
    np.testing.assert_array_equal(ours.predict(X), theirs.predict(X))


def decisions(model, X, y):
    """Return a score that depends on every digit of the values on the test rows, not only on the labels."""
    return float(np.linalg.norm(model.decision_function(X)))


@pytest.mark.parametrize(
    "given",
    [
        {"kernel": "linear"},
        {"kernel": "poly", "degree": 2, "coef0": 1.0},
        {"kernel": "rbf", "gamma": "scale"},
        {"kernel": "rbf", "gamma": 0.05},
        {"kernel": "rbf", "gamma": "auto", "class_weight": "balanced"},
        {"kernel": "rbf", "gamma": 0.1, "class_weight": {0: 3.0}},
        {"kernel": "rbf", "gamma": 0.1, "fit_intercept": False},
        {"kernel": "rbf", "gamma": 0.1, "fit_intercept": "penalised"},
        {"kernel": "rbf", "gamma": 1e6},
        {"kernel": "sigmoid", "gamma": 0.001},
        {"loss": "squared_hinge", "gamma": 0.1},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_decision_values_are_those_of_fits_one_by_one(given):
    X, y = german()
    X, y = X[:120], y[:120]
    grid = {"C": [0.5, 50.0]}
    model = SVC(random_state=0, tol=1e-9, **given)
    ours = SVCSearchCV(model, grid, cv=4, scoring=decisions).fit(X, y)
    theirs = GridSearchCV(model, grid, cv=4, scoring=decisions).fit(X, y)
    for name in (f"split{k}_test_score" for k in range(4)):
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=1e-5)


def norm_and_accuracy(model, X, y, sample_weight=None):
    return {"norm": decisions(model, X, y), "accuracy": model.score(X, y, sample_weight)}


# Values of 120 points are kept in float64, of 700 in float32.
@pytest.mark.parametrize(("n", "classes", "gamma"), covering([120, 700], [2, 4], ["scale", 0.05]))
def test_all_costs_of_a_fold_share_rows_and_give_the_values_of_fits_one_by_one(n, classes, gamma, monkeypatch):
    X, y = make_classification(n, 12, n_informative=6, n_classes=classes, flip_y=0.1, random_state=0)
    y = np.array(["d", "a", "c", "b"])[y]
    weight = np.random.default_rng(1).uniform(0.2, 2.0, n)
    grid = {"C": [30.0, 0.01, 1.0, 1.0], "class_weight": [None, "balanced"]}
    options = {"cv": 3, "scoring": norm_and_accuracy, "refit": "norm", "return_train_score": True}
    theirs = GridSearchCV(SVC(gamma=gamma), grid, **options).fit(X, y, sample_weight=weight)
    monkeypatch.setattr(_evaluation, "fits_of_fold", None)  # no fit to a fold is made
    monkeypatch.setattr(_evaluation, "MIN_GAIN", np.inf)
    ours = SVCSearchCV(SVC(gamma=gamma), grid, **options).fit(X, y, sample_weight=weight)
    for name in (key for key in theirs.cv_results_ if key.startswith(("split", "mean_t", "rank"))):
        tolerance = 1e-6 if "norm" in name else 1e-12
        np.testing.assert_allclose(ours.cv_results_[name], theirs.cv_results_[name], rtol=tolerance, err_msg=name)
    assert ours.best_params_ == theirs.best_params_
    assert (ours.cv_results_["max_relative_gap"] <= 1e-9).all()


@pytest.mark.parametrize("X_y", [german(), load_iris(return_X_y=True)], ids=["two", "three"])
def test_weights_groups_and_many_metrics(X_y):
    X, y = X_y
    rng = np.random.default_rng(0)
    weight, groups = rng.random(len(y)) * (rng.random(len(y)) > 0.1), np.arange(len(y)) % 7
    options = {"cv": GroupKFold(4), "scoring": ["accuracy", "balanced_accuracy"], "refit": "balanced_accuracy"}
    ours = SVCSearchCV(SVC(), GRID, **options)
    theirs = GridSearchCV(sklearn.svm.SVC(tol=1e-8), GRID, **options)
    for search in (ours, theirs):
        search.fit(X, y, sample_weight=weight, groups=groups)
    same_tables(ours.cv_results_, theirs.cv_results_, tolerance=1e-12)
    assert ours.best_params_ == theirs.best_params_
    assert ours.score(X, y) == pytest.approx(theirs.score(X, y))


@pytest.mark.parametrize("scoring", ["roc_auc", make_scorer(roc_auc_score, response_method="decision_function")])
def test_any_scorer(scoring):
    X, y = german()
    ours = SVCSearchCV(SVC(), GRID, cv=5, scoring=scoring).fit(X, y)
    same_tables(ours.cv_results_, peer(GRID, cv=5, scoring=scoring).fit(X, y).cv_results_, tolerance=1e-3)


@pytest.mark.parametrize("call_s", [0.0, 10.0], ids=["a call for each C", "one call"])
@pytest.mark.parametrize("limit", [85, 10_000])
def test_larger_costs_of_many_free_variables_are_left_to_single_fits(limit, call_s, monkeypatch):
    """Pair updates take up to six times as long there."""
    monkeypatch.setattr(pairs, "MAX_PATH_CALL_S", call_s)
    monkeypatch.setattr(pairs, "MAX_FREE_PATH", limit)
    X, y = german()
    solved, path = [], _folds.Classes.path

    def counted(self, gram, chain, fold):
        found = path(self, gram, chain, fold)
        solved.append([chain.costs[chain.candidates.index(c)] for c in found])
        return found

    monkeypatch.setattr(_folds.Classes, "path", counted)
    grid, options = {"C": [0.01, 1.0, 10.0]}, {"cv": 2, "refit": False, "scoring": decisions}
    ours = SVCSearchCV(SVC(gamma=0.1), grid, **options).fit(X, y)
    theirs = GridSearchCV(SVC(gamma=0.1), grid, **options).fit(X, y)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], rtol=1e-7)
    assert solved == [grid["C"][: 2 if limit == 85 else 3]] * 2


def test_a_scorer_may_ask_for_anything():
    X, y = german()
    elsewhere = X[:7] + 0.5
    asked = []

    def scorer(model, X, y):
        assert isinstance(model, SVC)
        asked.append(model)
        again = SVC(C=model.C, gamma=0.05, random_state=0).fit(*model._training[:2])
        np.testing.assert_allclose(model.decision_function(X), again.decision_function(X), atol=1e-4)
        np.testing.assert_array_equal(model.predict(elsewhere), again.predict(elsewhere))
        np.testing.assert_array_equal(model.support_, again.support_)
        assert model.certificate_.relative_gap <= 1e-6
        assert type(clone(model)) is SVC
        return 1.0

    SVCSearchCV(SVC(gamma=0.05, random_state=0), {"C": [1.0, 5.0]}, cv=3, scoring=scorer).fit(X, y)
    assert [type(model) for model in asked] == [FoldSVC] * 6


def test_every_gap_is_certified_and_reported():
    X, y = german()
    search = SVCSearchCV(SVC(tol=1e-8), GRID, cv=5).fit(X, y)
    assert (search.cv_results_["max_relative_gap"] <= 1e-8).all()
    assert search.best_estimator_.certificate_.relative_gap <= 1e-8


def test_a_gap_above_tol_is_reported(monkeypatch, one_matrix):
    monkeypatch.setattr(_duals, "UPDATES_PER_VARIABLE", 0.01)
    monkeypatch.setattr(_duals, "MAX_CALLS", 1)
    monkeypatch.setattr(_duals.Duals, "descend", lambda self, *row: None)
    X, y = german()
    with pytest.warns(ConvergenceWarning, match="above their tol"):
        search = SVCSearchCV(SVC(gamma=0.05), {"C": [1.0]}, cv=3).fit(X, y)
    assert search.cv_results_["max_relative_gap"][0] > 0.1


@pytest.mark.parametrize("cv", ["loo", LeaveOneOut()])
def test_leave_one_out_is_that_of_refits_and_of_the_incremental_engine(cv):
    X, y = make_classification(n_samples=60, n_features=5, flip_y=0.2, random_state=1)

    def value(model, X, y):
        return float(model.decision_function(X)[0])

    search = SVCSearchCV(SVC(tol=1e-10, gamma=0.2), {"C": [0.3, 3.0, 300.0]}, cv=cv, scoring=value).fit(X, y)
    for k, C in enumerate(search.param_grid["C"]):
        found = np.array([search.cv_results_[f"split{i}_test_score"][k] for i in range(len(y))])
        refits = [
            sklearn.svm.SVC(C=C, gamma=0.2, tol=1e-9).fit(np.delete(X, i, 0), np.delete(y, i)) for i in range(len(y))
        ]
        values = [model.decision_function(X[i : i + 1])[0] for i, model in enumerate(refits)]
        np.testing.assert_allclose(found, values, atol=2e-5)
        exact = IncrementalSVC(C=C, gamma=0.2).fit(X, y).leave_one_out()
        np.testing.assert_allclose((found * (2 * y - 1) - 1)[exact.ids], exact.margins, atol=2e-5)


def test_leave_one_out_folds_start_at_their_optimum(monkeypatch, one_matrix):
    X, y = make_classification(n_samples=80, n_features=5, flip_y=0.2, random_state=1)
    descents, honest = [], _duals.Duals.descend

    def counted(self, beta, *rest):
        descents.append(1)
        return honest(self, beta, *rest)

    def scores(*, paths):
        descents.clear()
        with monkeypatch.context() as patch:
            patch.setattr(_duals.Duals, "descend", counted)
            if not paths:
                patch.setattr(_duals.LeftOutPoints, "without", lambda self, k: None)
            grid = {"C": [0.5, 5.0]}
            search = SVCSearchCV(SVC(tol=1e-9, gamma=0.2), grid, cv="loo", scoring=margin, refit=False).fit(X, y)
        assert search.cv_results_["max_relative_gap"].max() <= 1e-9
        return np.array([search.cv_results_[f"split{i}_test_score"] for i in range(len(y))]), len(descents)

    def margin(model, X, y):
        return float(model.decision_function(X)[0])

    led, few = scores(paths=True)
    searched, many = scores(paths=False)
    np.testing.assert_allclose(led, searched, atol=1e-5)
    assert few < 10  # the model of all points, twice
    assert many > 40


def test_leave_one_out_with_points_of_weight_0_is_that_of_refits(monkeypatch, one_matrix):
    """A point without weight takes no part; the folds of the others start at their optimum as ever."""
    X, y = make_classification(n_samples=60, n_features=5, flip_y=0.2, random_state=1)
    weight = np.ones(60)
    weight[[3, 17, 40]], weight[5] = 0.0, 2.0
    led, honest = [], _duals.LeftOutPoints.without
    monkeypatch.setattr(_duals.LeftOutPoints, "without", lambda self, k: led.append(honest(self, k)) or led[-1])

    def value(model, X, y):
        return float(model.decision_function(X)[0])

    search = SVCSearchCV(SVC(tol=1e-10, gamma=0.2), {"C": [3.0]}, cv="loo", scoring=value, refit=False)
    with pytest.warns(UserWarning, match="does not support sample_weight"):
        search.fit(X, y, sample_weight=weight)
    found = [search.cv_results_[f"split{i}_test_score"][0] for i in range(60)]
    rest = [np.delete(np.arange(60), i) for i in range(60)]
    refits = [sklearn.svm.SVC(C=3.0, gamma=0.2, tol=1e-9).fit(X[i], y[i], weight[i]) for i in rest]
    np.testing.assert_allclose(
        found, [model.decision_function(X[i : i + 1])[0] for i, model in enumerate(refits)], atol=2e-5
    )
    assert search.cv_results_["max_relative_gap"].max() <= 1e-10
    assert len(led) > 20
    assert all(beta is not None for beta in led)


def test_leave_one_out_of_several_classes():
    X, y = load_iris(return_X_y=True)
    X, y = X[::3], y[::3]
    ours = SVCSearchCV(SVC(), GRID, cv="loo").fit(X, y)
    same_tables(ours.cv_results_, peer(GRID, cv=LeaveOneOut()).fit(X, y).cv_results_)


def test_folds_that_overlap_or_lack_a_class_are_fitted_by_themselves():
    X, y = load_iris(return_X_y=True)
    rng = np.random.default_rng(0)
    twice = rng.integers(0, 150, 150)
    splits = [
        (twice, np.arange(20)),
        (np.flatnonzero(y < 2), np.arange(80)),
        (np.arange(0, 150, 2), np.arange(1, 150, 2)),
    ]
    ours = SVCSearchCV(SVC(), GRID, cv=splits).fit(X, y)
    same_tables(ours.cv_results_, peer(GRID, cv=splits).fit(X, y).cv_results_)


def test_threads_change_nothing():
    X, y = german()
    one, two = (SVCSearchCV(SVC(), GRID, cv=5, n_jobs=jobs).fit(X, y) for jobs in (None, 2))
    same_tables(one.cv_results_, two.cv_results_)


def test_frames_lists_and_read_only_arrays_give_the_same_scores():
    pandas = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True)
    names = np.array(["one", "two", "three"])[y]
    frame = pandas.DataFrame(X, columns=list("abcd"))
    reference = SVCSearchCV(SVC(), GRID, cv=5).fit(X, y)
    frozen = X.copy()
    frozen.flags.writeable = False
    for data, labels in (
        (frame, pandas.Series(names)),
        (frozen, y),
        (np.asfortranarray(X), y),
        (X.tolist(), names.tolist()),
    ):
        search = SVCSearchCV(SVC(), GRID, cv=5).fit(data, labels)
        np.testing.assert_array_equal(search.cv_results_["mean_test_score"], reference.cv_results_["mean_test_score"])
    assert search.classes_.tolist() == ["one", "three", "two"]
    named = SVCSearchCV(SVC(), GRID, cv=5).fit(frame, y)
    assert named.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(X, load_iris().data)


@pytest.mark.parametrize("folds", often([3, 10], 3))
def test_regression(folds):
    X, y = make_regression(n_samples=150, n_features=6, noise=5.0, random_state=0)
    y = y / 50 + 7.0
    grid = {"C": [0.1, 1.0, 30.0], "epsilon": [0.0, 0.1, 1.0], "gamma": [0.02, 0.2]}
    ours = SVRSearchCV(SVR(tol=1e-9), grid, cv=folds, return_train_score=True).fit(X, y)
    theirs = GridSearchCV(sklearn.svm.SVR(tol=1e-8), grid, cv=folds, return_train_score=True).fit(X, y)
    scores = {name: column for name, column in theirs.cv_results_.items() if "rank" not in name}
    same_tables(ours.cv_results_, scores, tolerance=1e-5)
    assert ours.best_params_ == theirs.best_params_
    assert (ours.cv_results_["max_relative_gap"] <= 1e-9).all()


def test_newton_steps_that_found_the_free_set_pay_for_some_that_did_not():
    steps = Newton(np.eye(20), np.arange(20))
    steps.misses = _duals.MAX_FAILURES
    assert not steps.is_worthwhile
    steps.hits = 1
    assert steps.is_worthwhile


@pytest.mark.parametrize("copies", [1, 2])
def test_starts_from_the_model_of_all_points_and_newton_steps_change_nothing(monkeypatch, copies, one_matrix):
    X, y = make_classification(n_samples=280, n_features=16, flip_y=0.1, random_state=3)
    X, y = np.repeat(X, copies, axis=0), np.repeat(y, copies)  # copies: singular systems
    grid = {"C": [1.0, 30.0, 1000.0], "gamma": [0.01, 0.1]}
    plain = SVCSearchCV(SVC(tol=1e-9), grid, cv=5, scoring=decisions).fit(X, y)
    steps = []
    solve = Newton.solve

    def counted(self, *row):
        steps.append(solve(self, *row))
        return steps[-1]

    monkeypatch.setattr(_duals, "MIN_VARIABLES_SEED", 0)
    monkeypatch.setattr(Newton, "solve", counted)
    seeded = SVCSearchCV(SVC(tol=1e-9), grid, cv=5, scoring=decisions).fit(X, y)
    assert sum(steps) >= 5
    for found in (plain, seeded):
        assert (found.cv_results_["max_relative_gap"] <= 1e-9).all()
    for name in (f"split{k}_test_score" for k in range(5)):
        np.testing.assert_allclose(seeded.cv_results_[name], plain.cv_results_[name], rtol=2e-5)


@pytest.mark.parametrize("layout", [scipy.sparse.csr_matrix, scipy.sparse.coo_matrix, scipy.sparse.csc_array])
def test_sparse_points_are_fitted_by_themselves_to_the_same_scores(layout):
    X, y = german()
    X = np.where(np.abs(X) < 0.8, 0.0, X)
    grid = {"C": [0.1, 1.0, 10.0]}
    dense, sparse = (SVCSearchCV(SVC(gamma=0.05), grid, cv=3).fit(points, y) for points in (X, layout(X)))
    np.testing.assert_array_equal(dense.cv_results_["mean_test_score"], sparse.cv_results_["mean_test_score"])
    assert scipy.sparse.issparse(sparse.best_estimator_.support_vectors_)
    np.testing.assert_array_equal(sparse.predict(layout(X)), dense.predict(X))


def test_a_matrix_that_is_slower_than_fits_one_by_one_is_given_up(monkeypatch):
    X, y = german()
    monkeypatch.setattr(_evaluation, "MIN_GAIN", 0.0)
    monkeypatch.setattr(_evaluation, "RETRY_GAIN_RATIO", np.inf)
    monkeypatch.setattr(_folds, "MAX_LOSS_FRACTION", 0.0)
    tried, honest = [], _plan.Kernels.matrix
    monkeypatch.setattr(_plan.Kernels, "matrix", lambda *given: tried.append(1) or honest(*given))
    ours = SVCSearchCV(SVC(), GRID, cv=5).fit(X, y)
    assert len(tried) == 1  # of three settings: it is not tried again
    same_tables(ours.cv_results_, peer(GRID, cv=5).fit(X, y).cv_results_, tolerance=1e-12)


def test_fits_where_no_multiplier_is_at_its_bound_serve_every_larger_cost(monkeypatch):
    X, y = make_classification(n_samples=60, n_features=40, flip_y=0.1, random_state=0)
    monkeypatch.setattr(_folds.Classes, "path", lambda *given: {})  # fits are made one by one
    fits, honest = [], SVC.fit
    monkeypatch.setattr(SVC, "fit", lambda self, *given, **named: fits.append(self.C) or honest(self, *given, **named))
    grid = {"C": [0.1, 10.0, 20.0, 40.0]}
    ours = SVCSearchCV(SVC(gamma=0.5), grid, cv=2, refit=False, scoring=decisions).fit(X, y)
    assert fits.count(10.0) >= 1
    assert not {20.0, 40.0} & set(fits)
    theirs = GridSearchCV(SVC(gamma=0.5), grid, cv=2, refit=False, scoring=decisions).fit(X, y)
    same_tables(ours.cv_results_, theirs.cv_results_, tolerance=1e-9)


def test_a_slower_matrix_is_tried_again_where_fits_take_far_longer(monkeypatch):
    X, y = german()
    gains = iter([2.0, 3.0, 10.0])
    monkeypatch.setattr(_evaluation, "shared_gain", lambda *given: next(gains))
    monkeypatch.setattr(_folds, "MAX_LOSS_FRACTION", -np.inf)
    tried, honest = [], _plan.Kernels.matrix
    monkeypatch.setattr(_plan.Kernels, "matrix", lambda *given: tried.append(given[1].gamma) or honest(*given))
    SVCSearchCV(SVC(), {"C": [0.1, 1.0], "gamma": [0.01, 0.1, 1.0]}, cv=5, refit=False).fit(X, y)
    assert tried == [0.01, 1.0]


def test_matrices_are_shared_where_they_fit_into_memory(monkeypatch):
    X, y = german()
    made, honest = [], _plan.Kernels.matrix
    monkeypatch.setattr(_plan.Kernels, "matrix", lambda *given: made.append(given[1].gamma) or honest(*given))
    monkeypatch.setattr(_evaluation, "shared_gain", lambda *given: np.inf)
    search = SVCSearchCV(SVC(gamma=0.1), {"C": [0.1, 1.0]}, cv=5, refit=False)
    shared = search.fit(X, y).cv_results_
    assert made == [0.1]
    needed = 8 * (1.0 + _plan.MATRICES_PER_THREAD) * len(X) ** 2 / _plan.MAX_MEMORY_FRACTION
    monkeypatch.setattr(_plan, "memory_bytes", lambda: needed - 1)
    alone = search.fit(X, y).cv_results_
    assert made == [0.1]
    monkeypatch.setattr(_plan, "memory_bytes", lambda: needed)
    search.fit(X, y)
    assert made == [0.1, 0.1]
    same_tables(shared, alone, tolerance=1e-9)
    monkeypatch.setattr(_plan, "memory_bytes", lambda: None)  # the machine does not tell
    assert _plan.can_share(8000, 1)
    assert not _plan.can_share(30_000, 1)


def test_a_slow_first_fold_is_left_to_the_matrix(monkeypatch):
    X, y = german()
    monkeypatch.setattr(_folds.Classes, "path", lambda *given: {})  # fits are made one by one
    fits, honest = [], SVC.fit
    monkeypatch.setattr(SVC, "fit", lambda self, *given, **named: fits.append(self.C) or honest(self, *given, **named))
    monkeypatch.setattr(_evaluation, "STOP_GAIN", 1e-9)
    monkeypatch.setattr(_evaluation, "shared_gain", lambda *given: np.inf)
    monkeypatch.setattr(_folds, "MAX_LOSS_FRACTION", np.inf)
    grid = {"C": [0.1, 0.3, 1.0, 3.0]}
    ours = SVCSearchCV(SVC(gamma=0.1), grid, cv=5, refit=False).fit(X, y)
    assert fits == [0.1]
    monkeypatch.undo()
    theirs = GridSearchCV(SVC(gamma=0.1), grid, cv=5, refit=False).fit(X, y)
    same_tables(ours.cv_results_, theirs.cv_results_, tolerance=1e-9)


def test_three_folds_do_not_pay_for_the_model_of_all_points():
    data = {"points": 300, "variables": 300, "features": 5, "pairs": 1}
    assert _folds.shared_gain([1.0, 1.0], **data, folds=2) == 0.0
    assert _folds.shared_gain([1.0, 1.0], **data, folds=9) > _folds.shared_gain([1.0, 1.0], **data, folds=4) > 0.0
    assert _folds.shared_gain([1.0], **data | {"variables": 600}, folds=9) < _folds.shared_gain([1.0], **data, folds=9)


def test_a_multiplier_an_ulp_inside_its_bound_does_not_move_the_bias():
    rng = np.random.default_rng(0)
    points, target = rng.normal(size=(6, 2)), np.array([1.0, 1.0, 1.0, -1.0, -1.0, -1.0])
    K = np.exp(-((points[:, None] - points) ** 2).sum(axis=2))
    duals, upper = _duals.Duals(K, target, None, True, lambda: None), np.full((1, 6), 0.01)
    biases = []
    for beta in (0.01 * target, np.append(np.nextafter(0.01, 0.0), 0.01 * target[1:])):
        row = beta[None]
        biases.append(duals.certify(row, duals.gradient(row), *duals.boxes(upper), upper)[1][0])
    assert biases[1] == pytest.approx(biases[0], abs=1e-12)


def test_scores_of_numbers_over_one_matrix_are_those_of_fits_at_the_default_tolerance(one_matrix):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 6))
    y = X[:, 0] + np.tanh(2 * X[:, 1]) + 0.1 * rng.normal(size=150)
    grid = {"C": [1.0, 30.0, 100.0], "gamma": [0.2]}
    options = {"cv": 5, "refit": False, "scoring": "neg_mean_absolute_error"}
    ours = SVRSearchCV(SVR(), grid, **options).fit(X, y).cv_results_
    theirs = GridSearchCV(SVR(), grid, **options).fit(X, y).cv_results_
    # Solutions at `tol` differ by 4e-8.
    np.testing.assert_allclose(ours["mean_test_score"], theirs["mean_test_score"], rtol=0, atol=1e-10)
