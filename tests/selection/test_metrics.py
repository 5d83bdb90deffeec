"""Tests that scores computed without scikit-learn's checks are equal to scikit-learn's."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.datasets import make_classification, make_regression
from sklearn.metrics import f1_score, get_scorer, make_scorer
from sklearn.model_selection import GridSearchCV

from dualflow import SVC, SVR, SVCSearchCV, SVRSearchCV
from dualflow.selection import _evaluation, _metrics
from dualflow.selection._metrics import Metrics


class Says(ClassifierMixin, BaseEstimator):
    """A classifier that predicts the values it was made with."""

    def __init__(self, predicted, classes=None):
        self.predicted, self.classes_ = predicted, classes

    def __sklearn_is_fitted__(self):
        return True

    def predict(self, X):
        return self.predicted


class SaysNumbers(RegressorMixin, Says):
    """A regressor that predicts the values it was made with."""


@pytest.mark.parametrize("name", ["accuracy", "f1_macro"])
@pytest.mark.parametrize("names", [np.arange(6), np.array(list("abcdef")), np.array([False, True])], ids=str)
def test_scores_of_labels_are_those_of_scikit_learn(name, names):
    rng, scorer = np.random.default_rng(0), get_scorer(name)
    for rows in (1, 2, 7, 30, 300):
        for _ in range(5):
            y, other = rng.integers(0, len(names), (2, rows))
            said = names[np.where(rng.random(rows) < 0.6, y, other)]
            model = Says(said, names)
            assert Metrics(scorer, {})(model, said, names[y]) == scorer(model, said, names[y])


@pytest.mark.parametrize("name", ["r2", "neg_mean_absolute_error", "neg_mean_squared_error"])
def test_scores_of_numbers_are_those_of_scikit_learn(name):
    rng, scorer = np.random.default_rng(0), get_scorer(name)
    for rows in (2, 7, 30, 3000):
        y, noise = rng.normal(3.0, 1.0, (2, rows))
        model = SaysNumbers(y + noise)
        # Sums of other versions of scikit-learn may be in another order.
        assert Metrics(scorer, {})(model, y, y) == pytest.approx(scorer(model, y, y), rel=1e-14)


@pytest.mark.parametrize("name", ["accuracy", "f1_macro", "r2", "neg_mean_absolute_error", "neg_mean_squared_error"])
def test_weighted_scores_are_those_of_scikit_learn(name):
    rng, scorer = np.random.default_rng(0), get_scorer(name)
    for rows in (2, 7, 30, 300):
        weight = rng.uniform(0.1, 2.0, rows) * (rng.random(rows) < 0.8)
        weight[0] = 1.0
        if name in ("accuracy", "f1_macro"):
            y, said = rng.integers(0, 3, (2, rows))
            model = Says(said, np.arange(3))
        else:
            y = rng.normal(3.0, 1.0, rows)
            model = SaysNumbers(y + rng.normal(size=rows))
        found = Metrics(scorer, {"sample_weight": weight})(model, y, y, weight)
        if found is None:  # a label has no weight
            assert name == "f1_macro"
            assert rows < 30
            continue
        assert found == pytest.approx(scorer(model, y, y, sample_weight=weight), rel=1e-14)
    for wrong in (np.zeros(rows), -weight, weight[1:], weight.tolist(), weight.astype(np.float32), weight * np.nan):
        assert Metrics(scorer, {"sample_weight": wrong})(model, y, y, wrong) is None


@pytest.mark.parametrize(
    ("name", "y", "said"),
    [
        ("accuracy", [0, 1, 1], [0, 1, 1]),
        ("accuracy", np.array([0.0, 1.0]), np.array([0.0, 1.0])),
        ("accuracy", np.array(["a", "b"], dtype=object), np.array(["a", "b"], dtype=object)),
        ("accuracy", np.array([[0, 1], [1, 1]]), np.array([[0, 1], [1, 1]])),
        ("accuracy", np.array([0, 1]), np.array(["a", "b"])),
        ("r2", np.array([1.0]), np.array([1.0])),
        ("r2", np.array([1.0, 1.0]), np.array([1.0, 2.0])),
        ("r2", np.array([1.0, 2.0]), np.array([1.0, np.nan])),
        ("roc_auc", np.array([0, 1]), np.array([0, 1])),
    ],
)
def test_scikit_learn_computes_scores_with_checks_or_warnings(name, y, said):
    assert Metrics(get_scorer(name), {})(Says(said), y, y) is None


@pytest.mark.parametrize(
    "scorer",
    [make_scorer(f1_score, average="micro"), make_scorer(f1_score, average="macro", zero_division=1), lambda *_: 1.0],
    ids=["micro", "option", "own"],
)
def test_scikit_learn_computes_scores_of_scorers_with_options(scorer):
    y = np.array([0, 1, 1])
    assert Metrics(scorer, {})(Says(y), y, y) is None
    assert Metrics(get_scorer("accuracy"), {"other": y})(Says(y), y, y) is None


@pytest.mark.parametrize("scoring", [None, "accuracy", ["accuracy", "f1_macro"]], ids=str)
def test_a_search_for_a_classifier_computes_the_usual_scores_itself(monkeypatch, scoring):
    X, y = make_classification(n_samples=120, n_features=6, n_informative=4, n_classes=3, random_state=0)
    grid, options = {"C": [0.1, 10.0], "gamma": [0.01, 0.3]}, {"cv": 3, "scoring": scoring, "return_train_score": True}
    agrees(monkeypatch, SVCSearchCV, SVC(), grid, X, y, options | {"refit": False})


@pytest.mark.parametrize("scoring", [None, ["r2", "neg_mean_absolute_error"]], ids=str)
def test_a_search_for_a_regression_computes_the_usual_scores_itself(monkeypatch, scoring):
    X, y = make_regression(n_samples=80, n_features=4, noise=5.0, random_state=0)
    agrees(monkeypatch, SVRSearchCV, SVR(), {"gamma": [0.01, 0.3]}, X, y / 50, {"scoring": scoring, "refit": False})


def agrees(monkeypatch, kind, model, grid, X, y, options):
    """A search that may not call scikit-learn's scorers has the scores of `GridSearchCV`."""
    theirs = GridSearchCV(model, grid, **options).fit(X, y).cv_results_

    def refuse(*given):
        raise AssertionError("scikit-learn was called")

    monkeypatch.setattr(_evaluation, "_score", refuse)
    ours = kind(model, grid, **options).fit(X, y).cv_results_
    for name in (name for name in theirs if "score" in name and "time" not in name):
        np.testing.assert_allclose(ours[name], theirs[name], rtol=0, atol=1e-6, err_msg=name)


def test_a_model_that_cannot_predict_is_scored_as_scikit_learn_says():
    X, y = make_classification(n_samples=60, random_state=0)
    search = SVCSearchCV(SVC(break_ties=True, decision_function_shape="ovo"), {"C": [1.0]}, cv=3, refit=False)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        search.fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"]).all()
    assert any("Scoring failed" in str(each.message) for each in said)


def test_a_fold_reads_no_signature_of_a_model_with_plain_parameters(monkeypatch):
    X, y = make_classification(n_samples=60, random_state=0)
    reads, honest = [], SVC._get_param_names.__func__
    monkeypatch.setattr(SVC, "_get_param_names", classmethod(lambda cls: reads.append(1) or honest(cls)))
    counts = []
    for folds in (2, 6):
        reads.clear()
        SVCSearchCV(SVC(), {"C": [1.0]}, cv=folds, refit=False).fit(X, y)
        counts.append(len(reads))
    assert counts[0] == counts[1]


def test_parameters_that_a_fit_may_change_are_each_fits_own():
    X, y = make_classification(n_samples=60, random_state=0)
    model = SVC(random_state=np.random.RandomState(0), class_weight={0: 2.0})
    grid, options = {"C": [1.0, 2.0]}, {"cv": 3, "refit": False}
    ours = SVCSearchCV(model, grid, **options).fit(X, y).cv_results_
    theirs = GridSearchCV(model, grid, **options).fit(X, y).cv_results_
    np.testing.assert_array_equal(ours["mean_test_score"], theirs["mean_test_score"])


@pytest.mark.parametrize("missing", ["_Scorer", "_score_func"])
def test_without_the_private_parts_of_scikit_learn_its_scorers_are_called(missing, monkeypatch):
    scorer = get_scorer("accuracy")
    assert Metrics(scorer, {})._known
    if missing == "_Scorer":
        monkeypatch.setattr(_metrics, "_Scorer", None)
    else:
        monkeypatch.delattr(scorer, missing)
    assert not Metrics(scorer, {})._known
