"""`LDA` against scikit-learn's, against least squares, and on data that have no inverse."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from dualflow import LDA, LSSVR, ProblemError, SolverMismatch, solve

DATA = {
    "breast cancer": load_breast_cancer(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "iris": load_iris(return_X_y=True),
    "digits": tuple(part[:500] for part in load_digits(return_X_y=True)),
}
X, Y = DATA["wine"]
PAIR, SIGN = X[Y < 2], Y[Y < 2]


def near(found, expected, part=1e-8):
    np.testing.assert_allclose(found, expected, rtol=0, atol=part * np.abs(expected).max())


def differences(model):
    """Return coefficients and intercepts up to a constant for all classes, which changes no prediction."""
    if len(model.coef_) == 1:
        return model.coef_, model.intercept_
    return np.diff(model.coef_, axis=0), np.diff(model.intercept_)


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("two", [True, False], ids=["two classes", "all"])
@pytest.mark.parametrize(
    ("shrinkage", "solver"), [(0.0, "eigen"), (0.3, "lsqr"), ("auto", "lsqr"), (1.0, "eigen")], ids=str
)
def test_same_discriminant_as_scikit_learn(name, two, shrinkage, solver):
    data, y = DATA[name]
    data, y = (data[y < 2], y[y < 2]) if two else (data, y)
    if name == "digits" and not shrinkage:
        data = data + 0.5 * np.random.default_rng(0).normal(size=data.shape)  # some pixels are constant
    theirs = LinearDiscriminantAnalysis(solver=solver, shrinkage=shrinkage or None).fit(data, y)
    ours = LDA(shrinkage=shrinkage).fit(data, y)
    for found, expected in zip(differences(ours), differences(theirs), strict=True):
        near(found, expected)
    np.testing.assert_array_equal(ours.predict(data), theirs.predict(data))
    np.testing.assert_allclose(ours.predict_proba(data), theirs.predict_proba(data), atol=1e-8)
    assert ours.certificate_.relative_gap <= 1e-10
    assert ours.fit_status_ == 0


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("two", [True, False], ids=["two classes", "all"])
def test_by_default_it_is_scikit_learns_default(name, two):
    data, y = DATA[name]
    data, y = (data[y < 2], y[y < 2]) if two else (data, y)
    ours, theirs = LDA().fit(data, y), LinearDiscriminantAnalysis().fit(data, y)
    # Older versions divide the covariance by n − n_classes, this one and the newer ones by n.
    n, classes = len(y), len(ours.classes_)
    factor = min((1.0, (n - classes) / n), key=lambda f: np.abs(theirs.coef_ - f * ours.coef_).max())
    near(theirs.coef_, factor * ours.coef_)
    np.testing.assert_array_equal(ours.predict(data), theirs.predict(data))


@pytest.mark.parametrize("shrinkage", [0.0, 0.2])
def test_priors_weigh_the_classes(shrinkage):
    priors = [0.2, 0.8]
    ours = LDA(priors=priors, shrinkage=shrinkage).fit(PAIR, SIGN)
    theirs = LinearDiscriminantAnalysis(priors=priors, solver="eigen", shrinkage=shrinkage or None).fit(PAIR, SIGN)
    near(ours.coef_, theirs.coef_)
    near(ours.intercept_, theirs.intercept_)
    near(ours.decision_function(PAIR), theirs.decision_function(PAIR))
    np.testing.assert_allclose(np.exp(ours.predict_log_proba(PAIR)), theirs.predict_proba(PAIR), rtol=1e-6, atol=1e-12)


def test_least_squares_without_a_ridge_has_its_direction():
    """Targets n/n₊ and −n/n₋: the classical equivalence (Duda, Hart, Stork, section 5.8)."""
    scaled = (PAIR - PAIR.mean(axis=0)) / PAIR.std(axis=0)
    n, plus = len(SIGN), SIGN.sum()
    targets = np.where(SIGN == 1, n / plus, -n / (n - plus))
    w = LDA().fit(scaled, SIGN).coef_[0]
    apart = []
    for C in (1e1, 1e3, 1e5):
        v = LSSVR(C, kernel="linear").fit(scaled, targets).coef_[0]
        apart.append(np.linalg.norm(v / np.linalg.norm(v) - w / np.linalg.norm(w)))
    assert apart[2] < 1e-5 < 1e-3 < apart[0]
    assert apart[1] / apart[2] == pytest.approx(100.0, rel=0.1)  # by the ridge


def test_the_optimum_is_the_dense_solution_and_its_gap_is_true():
    model = LDA(shrinkage=0.1).fit(PAIR, SIGN)
    problem = model.solution_.problem
    Q = problem.dense()
    best = np.linalg.solve(Q, problem.p)
    near(model.solution_.raw_alpha, best, 1e-10)
    rough = solve(problem, "gradient-flow", time_step=0.1, growth=1.0, max_steps=5)
    true = rough.certificate.objective + 0.5 * problem.p @ best
    assert true > 1e-3
    assert rough.certificate.gap == pytest.approx(true, rel=1e-9)


@pytest.mark.parametrize("solver", ["cvxopt", "hhl"])
def test_other_solvers_of_free_variables(solver):
    if solver == "hhl":
        pytest.importorskip("qiskit")
    options = {"device": "classical-sampler"} if solver == "hhl" else None
    data = DATA["iris"][0][:100]
    raw = LDA(solver=solver, solver_options=options, refine=False, tol=1e-4).fit(data, DATA["iris"][1][:100])
    w, own = raw.coef_[0], LDA().fit(data, DATA["iris"][1][:100]).coef_[0]
    assert w @ own > 0.999 * np.linalg.norm(w) * np.linalg.norm(own)
    with pytest.raises(SolverMismatch, match=r"kind 'affine'.*'gradient-flow'"):
        LDA(solver="working-set").fit(PAIR, SIGN)


def test_collinear_and_constant_features_change_nothing():
    plain = LDA().fit(PAIR, SIGN)
    more = np.column_stack([PAIR, PAIR[:, :2] @ [1.0, -2.0], np.full(len(PAIR), 3.0), PAIR[:, 4]])
    model = LDA().fit(more, SIGN)
    assert (plain.rank_, model.rank_) == (13, 13)
    near(model.decision_function(more), plain.decision_function(PAIR))
    theirs = LinearDiscriminantAnalysis().fit(more, SIGN)
    np.testing.assert_array_equal(model.predict(more), theirs.predict(more))
    assert LDA(shrinkage=0.1).fit(more, SIGN).certificate_.relative_gap <= 1e-10


def test_more_features_than_points():
    rng = np.random.default_rng(0)
    data, y = rng.normal(size=(12, 40)), np.arange(12) % 3
    ours, theirs = LDA().fit(data, y), LinearDiscriminantAnalysis().fit(data, y)
    assert ours.rank_ == 9
    np.testing.assert_array_equal(ours.predict(data), theirs.predict(data))
    shrunk = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(data, y)
    near(LDA(shrinkage="auto").fit(data, y).predict_proba(data), shrunk.predict_proba(data))


def test_units_and_places_of_the_features_mean_nothing():
    unit, far = 10.0 ** np.arange(-6, 7), 1e5 * np.arange(13)
    plain, moved = LDA().fit(PAIR, SIGN), LDA().fit((PAIR + far) * unit, SIGN)
    near(moved.decision_function((PAIR + far) * unit), plain.decision_function(PAIR), 1e-7)


def test_two_features_by_hand_and_labels_that_are_text():
    data = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 1.0], [1.0, -1.0]])
    model = LDA(priors=[0.5, 0.5]).fit(np.vstack([data, data + np.array([0.0, 4.0])]), list("bbbbaaaa"))
    np.testing.assert_allclose(model.coef_, [[0.0, -8.0]], atol=1e-12)
    np.testing.assert_allclose(model.intercept_, [16.0])
    assert model.classes_.tolist() == ["a", "b"]
    assert model.predict([[9.0, 1.9], [-9.0, 2.1]]).tolist() == ["b", "a"]
    with pytest.raises(AttributeError, match="see coef_"):
        _ = model.support_
    with pytest.raises(ValueError, match="read-only"):
        model.coef_[0, 0] = 1.0


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"shrinkage": 1.1}, (X, Y), "shrinkage="),
        ({"shrinkage": "much"}, (X, Y), "shrinkage="),
        ({"priors": [0.5, 0.6, 0.1]}, (X, Y), "priors="),
        ({"priors": [1.0, 0.0, 0.0]}, (X, Y), "priors="),
        ({"priors": [0.5, 0.5]}, (X, Y), "priors="),
        ({"rank_tol": 0.0}, (X, Y), "rank_tol="),
        ({}, (X, np.zeros(len(Y))), "single class"),
        ({}, (X[[0, 70, 140]], Y[[0, 70, 140]]), "more than the number of classes"),
        ({}, (np.repeat(X[[0, 70]], 3, axis=0), [0, 0, 0, 1, 1, 1]), "no feature varies"),
        ({}, (np.where(X > 100, np.nan, X), Y), "NaN"),
        ({}, (X * 1e200, Y), "overflow"),
    ],
)
def test_bad_arguments_are_named(changes, arguments, message):
    with pytest.raises((ProblemError, ValueError), match=message):
        LDA(**changes).fit(*arguments)
