"""Sets and p-values of `ConformalSVC` against a refit of scikit-learn's for every point left out."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_iris, make_classification
from sklearn.model_selection import StratifiedKFold

from dualflow import SVC, ConformalSVC, problems, solve
from dualflow.conformal import _models
from dualflow.exceptions import ProblemError
from tests.conformal.references import p_values, predictions, refits, strangeness

METHODS = ("plus", "minmax", "base")
#: Error of a decision value by LIBSVM's float32 kernel values, at any tolerance.
LIBSVM = 1e-4


def two(n=40):
    X, y = make_classification(n + 10, 4, flip_y=0.2, class_sep=0.7, random_state=5)
    return X[:n], np.array(["no", "yes"])[y[:n]], X[n:]


def three(n=45):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order, 1:3], y[order]  # features that mix the classes
    return X[:n], y[:n], X[n : n + 12]


def by_definition(estimator, X, y, Z, folds):
    """Scores of the training points, and of each label of the new ones to all models and to that of all points."""
    classes, codes = np.unique(y, return_inverse=True)
    precomputed = estimator.kernel == "precomputed"
    models = refits(estimator, X, y, folds)
    fold_of = np.empty(len(y), dtype=int)
    for number, fold in enumerate(folds):
        fold_of[fold] = number

    def all_say(models, points):
        values = predictions(models, "decision_function", points, precomputed)
        return strangeness(values, classes)

    own = all_say(models, X)[fold_of, np.arange(len(y)), codes]
    return own, all_say(models, Z)[fold_of], all_say(refits(estimator, X, y, [[]]), Z)[0]


def held_against(model, own, held_out, whole, Z):
    """p-values by definition; one that depends on a difference below LIBSVM's accuracy may be off by one step."""
    np.testing.assert_allclose(model.conformity_scores_, own, rtol=0, atol=LIBSVM)
    for method in METHODS:
        found = model.set_params(method=method).p_values(Z)
        for k in range(len(found)):
            low = p_values(method, whole[k] + LIBSVM, held_out[:, k] + LIBSVM, own)
            high = p_values(method, whole[k] - LIBSVM, held_out[:, k] - LIBSVM, own)
            assert (low <= found[k]).all()
            assert (found[k] <= high).all()
            assert (high - low < 0.2).all()
    level = model.confidence_level
    np.testing.assert_array_equal(model.predict_set(Z), model.p_values(Z) > 1 - level + 1e-12)


@pytest.mark.parametrize(
    "parameters",
    [
        {"C": 1.0, "gamma": 0.5},
        {"C": 100.0, "gamma": 0.3},
        {"C": 2.0, "kernel": "linear", "class_weight": {"yes": 2.0}},
        {"C": 1e-3, "gamma": 0.5},  # none is free: points without weight set the bias
        {"C": 1.0, "kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
    ],
    ids=lambda parameters: " ".join(f"{name}={value}" for name, value in parameters.items()),
)
def test_two_classes(parameters):
    X, y, Z = two()
    model = ConformalSVC(SVC(**parameters), confidence_level=0.8).fit(X, y)
    held_against(model, *by_definition(model.estimator, X, y, Z, [[i] for i in range(len(y))]), Z)
    assert model.max_relative_gap_ <= 1e-9
    assert model.classes_.tolist() == ["no", "yes"]


@pytest.mark.parametrize("C", [0.05, 1.0, 50.0])
def test_three_classes(C):
    X, y, Z = three()
    model = ConformalSVC(SVC(C=C, gamma=0.5)).fit(X, y)
    held_against(model, *by_definition(model.estimator, X, y, Z, [[i] for i in range(len(y))]), Z)


@pytest.mark.parametrize("data", [two, three])
def test_folds(data):
    X, y, Z = data()
    estimator, cv = SVC(C=5.0, gamma=0.5), StratifiedKFold(4, shuffle=True, random_state=0)
    model = ConformalSVC(estimator, cv=cv).fit(X, y)
    held_against(model, *by_definition(estimator, X, y, Z, [test for _, test in cv.split(X, y)]), Z)


def test_precomputed_and_sparse_as_dense():
    X, y, Z = three()
    estimator = SVC(C=5.0, kernel="linear")
    wanted = ConformalSVC(estimator).fit(X, y).p_values(Z)
    given = ConformalSVC(SVC(C=5.0, kernel="precomputed")).fit(X @ X.T, y)
    np.testing.assert_array_equal(given.p_values(Z @ X.T), wanted)
    sparse = ConformalSVC(estimator).fit(scipy.sparse.csr_array(X), y)
    np.testing.assert_array_equal(sparse.p_values(scipy.sparse.csr_array(Z)), wanted)


@pytest.mark.parametrize(
    "parameters", [{"loss": "squared_hinge"}, {"fit_intercept": "penalised"}, {"C": np.inf}], ids=str
)
def test_models_that_scikit_learn_lacks(parameters):
    """Against independent fits."""
    X, y, _ = two()
    if parameters.get("C") == np.inf:
        X = X + 4.0 * (y == "yes")[:, None]
    estimator = SVC(**({"C": 2.0, "gamma": 0.5, "tol": 1e-10} | parameters))
    scores = ConformalSVC(estimator).fit(X, y).conformity_scores_
    for point in range(0, 40, 3):
        rest = np.delete(np.arange(40), point)
        alone = SVC(**estimator.get_params()).fit(X[rest], y[rest])
        value = alone.decision_function(X[point : point + 1])[0]
        assert abs(scores[point] - (-value if y[point] == "yes" else value)) < 1e-5


def test_cvxopt_has_the_same_scores():
    X, y, _ = two(30)
    model = ConformalSVC(SVC(C=2.0, gamma=0.5)).fit(X, y)
    gram, sign = model.estimator_.solution_.problem.gram, np.where(y == "yes", 1.0, -1.0)
    for point in range(0, 30, 5):
        rest = np.delete(np.arange(30), point)
        solution = solve(problems.svc(gram.subset(rest), sign[rest], 2.0), "cvxopt", refine=False, tol=1e-10)
        value = gram.block([point], rest)[0] @ solution.coefficients + solution.bias
        assert abs(model.conformity_scores_[point] + sign[point] * value) < 1e-6


def test_copies_have_equal_scores():
    """Every point twice: a new copy has the score of its copies despite round-off."""
    X, y, _ = two(24)
    X, y = np.repeat(X, 2, axis=0), np.repeat(y, 2)
    model = ConformalSVC(SVC(C=1.0, gamma=0.5), method="base").fit(X, y)
    whole = model.estimator_.decision_function(X) * np.where(y == "yes", -1, 1)
    still = np.flatnonzero(model._which == 0)  # of which the model without them is the model of all
    assert len(still) > 4
    own = model.p_values(X)[np.arange(48), (y == "yes").astype(int)]
    expected = [(1 + (model.conformity_scores_ >= whole[i] - 1e-7).sum()) / 49 for i in still]
    np.testing.assert_allclose(own[still], expected)


def test_a_broken_path_is_replaced_by_refits(monkeypatch):
    X, y, Z = two()
    estimator = SVC(C=5.0, gamma=0.5)
    wanted = ConformalSVC(estimator).fit(X, y)
    real = _models.PointPaths.without
    for broken in (lambda self, point: None, lambda self, point: (1.01 * real(self, point)[0], real(self, point)[1])):
        monkeypatch.setattr(_models.PointPaths, "without", broken)
        found = ConformalSVC(estimator).fit(X, y)
        np.testing.assert_allclose(found.conformity_scores_, wanted.conformity_scores_, rtol=0, atol=1e-6)
        assert found.max_relative_gap_ <= 1e-9
        np.testing.assert_array_equal(found.p_values(Z), wanted.p_values(Z))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"estimator": SVC(class_weight="balanced")}, "give the weights"),
        ({"confidence_level": 0}, "confidence_level=0 must be"),
        ({"method": "lac"}, "'plus', 'minmax', 'base'"),
        ({"estimator": "SVC"}, "estimator: str is not a dualflow.SVC"),
        ({"estimator": SVC(kernel="sigmoid", coef0=-3.0, gamma=2.0)}, "indefinite"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_refused(arguments, message):
    X, y, _ = two()
    with pytest.raises(ProblemError, match=message):
        ConformalSVC(**arguments).fit(X, y)


def test_a_class_of_one_point():
    X, y, _ = two()
    y = y.astype("U7")
    y[0] = "perhaps"
    with pytest.raises(ProblemError, match="class 'perhaps' are left out together"):
        ConformalSVC(SVC(C=1.0)).fit(X, y)
    y[1] = "perhaps"
    assert ConformalSVC(SVC(C=1.0)).fit(X, y).p_values(X).shape == (40, 3)
