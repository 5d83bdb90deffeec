"""`LSSVC` and `LSSVR` against dense solves, Ridge, KernelRidge and RidgeClassifier, and what breaks them."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import NearestCentroid
from sklearn.preprocessing import StandardScaler

from dualflow import LSSVC, LSSVR, SVC, ProblemError, SolverMismatch
from dualflow.interchange import from_libsvm, to_libsvm

X, Z = load_diabetes(return_X_y=True)
X, NEW = StandardScaler().fit_transform(X)[:200], StandardScaler().fit_transform(X)[200:230]
Z = Z[:200]
B, LABELS = load_breast_cancer(return_X_y=True)
B = StandardScaler().fit_transform(B)[:250]
LABELS = LABELS[:250]
WEIGHT = np.random.default_rng(0).uniform(0.1, 3.0, len(Z))
RBF = {"kernel": "rbf", "gamma": 0.05}


def bordered(K, C, z, weight, intercept=True):
    """α and b of the KKT system, by LAPACK."""
    n = len(z)
    A, right = np.zeros((n + 1, n + 1)), np.append(z, 0.0)
    A[:n, :n] = K + np.diag(1 / (C * weight))
    A[:n, n] = A[n, :n] = float(intercept)
    A[n, n] = 1.0 - intercept
    found = np.linalg.solve(A, right)
    return found[:n], found[n]


def rbf(A, B, gamma=0.05):
    return np.exp(-gamma * ((A[:, None] - B) ** 2).sum(-1))


def near(found, expected, part=1e-8):
    np.testing.assert_allclose(np.ravel(found), np.ravel(expected), rtol=0, atol=part * np.abs(expected).max())


@pytest.mark.parametrize("C", [1e-6, 1e-2, 1.0, 1e3, 1e5])
def test_a_linear_kernel_is_ridge_regression(C):
    ours = LSSVR(C, kernel="linear").fit(X, Z, WEIGHT)
    theirs = Ridge(alpha=1 / C, solver="cholesky").fit(X, Z, WEIGHT)
    near(ours.coef_, theirs.coef_)
    near(ours.intercept_, theirs.intercept_)
    near(ours.predict(NEW), theirs.predict(NEW))
    assert ours.certificate_.relative_gap <= 1e-10
    assert not ours.solution_.refined  # the flow itself came to rest, in one step
    assert ours.n_iter_ == 1


@pytest.mark.parametrize("C", [1e-6, 1.0, 1e4, 1e9])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_kernel_is_the_dense_system(C, intercept):
    ours = LSSVR(C, **RBF, fit_intercept=intercept).fit(X, Z, WEIGHT)
    alpha, b = bordered(rbf(X, X), C, Z, WEIGHT, intercept)
    near(ours.dual_coef_, alpha)
    near(ours.predict(NEW), rbf(NEW, X) @ alpha + b)
    if not intercept:
        near(ours.predict(NEW), KernelRidge(alpha=1 / C, **RBF).fit(X, Z, WEIGHT).predict(NEW))


@pytest.mark.parametrize("kernel", [{"kernel": "linear"}, RBF], ids=["linear", "rbf"])
def test_a_penalised_intercept_is_a_constant_feature(kernel):
    ours = LSSVR(2.0, fit_intercept="penalised", **kernel).fit(X, Z)
    K = (rbf(X, X) if kernel is RBF else X @ X.T) + 1.0
    alpha = np.linalg.solve(K + np.eye(len(Z)) / 2.0, Z)
    near(ours.dual_coef_, alpha)
    near(ours.intercept_, alpha.sum())


@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_two_classes_are_ridge_regression_of_signs(C):
    ours = LSSVC(C, kernel="linear").fit(B, LABELS)
    theirs = RidgeClassifier(alpha=1 / C, solver="cholesky").fit(B, LABELS)
    near(ours.coef_, theirs.coef_)
    near(ours.decision_function(B), theirs.decision_function(B))
    np.testing.assert_array_equal(ours.predict(B), theirs.predict(B))
    values = LSSVR(C, kernel="linear").fit(B, 2 * LABELS - 1)
    near(ours.dual_coef_[0], values.dual_coef_[0, ours.support_])  # by class; yᵢαᵢ of labels is α of values


def test_pairs_of_classes_and_their_weights_are_dense_systems():
    data, y = load_iris(return_X_y=True)
    names = np.array(["west", "east", "north"])[y]
    balance = {"east": 1.0, "north": 2.0, "west": 0.5}
    model = LSSVC(3.0, gamma=0.3, class_weight=balance, decision_function_shape="ovo").fit(data, names)
    values = model.decision_function(data)
    for k, (first, second) in enumerate([("east", "north"), ("east", "west"), ("north", "west")]):
        pair = np.isin(names, [first, second])
        sign = np.where(names[pair] == first, 1.0, -1.0)
        weight = np.array([balance[name] for name in names[pair]])
        alpha, b = bordered(rbf(data[pair], data[pair], 0.3), 3.0, sign, weight)
        near(values[:, k], rbf(data, data[pair], 0.3) @ alpha + b)
    assert model.score(data, names) > 0.95
    assert len(model.solutions_) == 3


def test_weights_are_repetitions_and_those_of_0_take_points_out():
    weight = np.random.default_rng(1).integers(0, 4, len(Z)).astype(float)
    again = np.repeat(np.arange(len(Z)), weight.astype(int))
    near(LSSVR(2.0, **RBF).fit(X, Z, weight).predict(NEW), LSSVR(2.0, **RBF).fit(X[again], Z[again]).predict(NEW))
    model = LSSVR(2.0, **RBF).fit(X, Z, weight)
    np.testing.assert_array_equal(model.support_, np.flatnonzero(weight))


@pytest.mark.parametrize("solver", ["gradient-flow", "cvxopt", "qpsolvers"])
def test_every_solver_without_bounds_gives_the_same_raw_answer(solver):
    pytest.importorskip(solver.partition("-")[0] if solver != "gradient-flow" else "numpy")
    few = slice(0, 40)
    model = LSSVR(5.0, **RBF, solver=solver, refine=False).fit(X[few], Z[few])
    alpha, _ = bordered(rbf(X[few], X[few]), 5.0, Z[few], np.ones(40))
    near(model.solution_.raw_alpha, alpha, 1e-5)
    assert model.solution_.provenance["solver"] == solver


@pytest.mark.parametrize("solver", ["smo", "working-set", "lotka-volterra", "frank-wolfe", "incremental"])
def test_solvers_of_bounds_refuse_and_name_the_others(solver):
    with pytest.raises(SolverMismatch, match=rf"'{solver}' does not solve problems of kind 'affine'.*'gradient-flow'"):
        LSSVC(solver=solver).fit(B[:20], LABELS[:20])


@pytest.mark.parametrize("kind", [LSSVC, LSSVR], ids=lambda kind: kind.__name__)
def test_sparse_data_matrices_and_functions_give_the_same_model(kind):
    y = (Z.mean() < Z).astype(int) if kind is LSSVC else Z
    value = "decision_function" if kind is LSSVC else "predict"
    holes = np.where(np.abs(X) > 0.8, X, 0.0)
    plain = kind(2.0, kernel="linear").fit(holes, y)
    others = {
        "sparse": (kind(2.0, kernel="linear").fit(scipy.sparse.csr_array(holes), y), holes),
        "matrix": (kind(2.0, kernel="precomputed").fit(holes @ holes.T, y), holes @ holes.T),
        "function": (kind(2.0, kernel=lambda A, B: A @ B.T).fit(holes, y), holes),
    }
    for model, data in others.values():
        near(getattr(model, value)(data), getattr(plain, value)(holes), 1e-9)
    assert scipy.sparse.issparse(others["sparse"][0].coef_)


def test_far_points_and_units_of_y_cost_no_digits():
    plain = LSSVR(3.0, kernel="linear").fit(X, Z)
    near(LSSVR(3.0, kernel="linear").fit(X + 1e6, Z).predict(NEW + 1e6), plain.predict(NEW))
    for scale, shift in ((1e-6, 0.0), (1e5, -3.0), (1.0, 1e4)):
        near(LSSVR(3.0, kernel="linear").fit(X, scale * (Z + shift)).predict(NEW), scale * (plain.predict(NEW) + shift))


@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e12])
def test_constant_values_need_no_support_and_are_certified(value):
    model = LSSVR(10.0, **RBF).fit(X[:50], np.full(50, value))
    assert model.fit_status_ == 0
    near(model.predict(NEW), np.full(len(NEW), value), 1e-12) if value else None
    assert model.certificate_.relative_gap == 0.0


@pytest.mark.parametrize("C", [1e-300, 1e-6, 1.0, 1e6])
def test_collinear_constant_and_repeated_data(C):
    rng = np.random.default_rng(3)
    data = rng.normal(size=(12, 3))
    wide = np.column_stack([data, data[:, 0], 2 * data[:, 1], np.full(12, 5.0), rng.normal(size=(12, 30))])
    wide = np.vstack([wide, wide[:6]])
    y, labels = np.append(data[:, 0], data[:6, 0]), np.append(data[:, 0], data[:6, 0]) > 0
    for kernel in ("linear", "rbf"):
        model = LSSVR(C, kernel=kernel).fit(wide, y)
        assert model.certificate_.relative_gap <= 1e-8
        assert LSSVC(C, kernel=kernel).fit(wide, labels).certificate_.relative_gap <= 1e-8
    near(
        LSSVR(C, kernel="linear").fit(wide, y).predict(wide), Ridge(alpha=min(1 / C, 1e300)).fit(wide, y).predict(wide)
    )


def test_one_point_a_class_and_one_point_of_all():
    model = LSSVC(kernel="linear").fit([[0.0], [2.0]], ["a", "b"])
    assert model.predict([[0.4], [1.6]]).tolist() == ["a", "b"]
    assert model.decision_function([[1.0]]) == pytest.approx(0.0, abs=1e-15)
    assert LSSVR().fit([[3.0]], [7.0]).predict([[1.0]]) == pytest.approx(7.0)


def test_a_singular_limit_shows_in_its_gap():
    with pytest.warns(ConvergenceWarning, match=r"Certified relative gap"):
        LSSVR(1e14, kernel="linear").fit(X, Z)


def test_an_indefinite_kernel_that_its_ridge_mends_is_solved_and_another_refused():
    K = rbf(X[:40], X[:40]) - 0.5 * np.eye(40)
    alpha, b = bordered(K, 1.0, Z[:40], np.ones(40))
    near(LSSVR(1.0, kernel="precomputed").fit(K, Z[:40]).predict(K), K @ alpha + b)
    with pytest.raises(SolverMismatch, match="positive semidefinite"):
        LSSVR(10.0, kernel="precomputed").fit(K, Z[:40])


def test_a_search_over_the_ridge():
    grid = {"C": [0.1, 10.0]}
    ours = GridSearchCV(LSSVR(kernel="rbf", gamma=0.05, fit_intercept=False), grid, cv=3).fit(X, Z)
    theirs = GridSearchCV(KernelRidge(**RBF), {"alpha": [10.0, 0.1]}, cv=3).fit(X, Z)
    near(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"])


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"C": 0.0}, (X, Z), "C="),
        ({"C": np.inf}, (X, Z), "C="),
        ({"C": 1e-320}, (X, Z), "C="),
        ({"fit_intercept": "yes"}, (X, Z), "fit_intercept="),
        ({"tol": 0.0}, (X, Z), "tol="),
        ({"max_iter": 0}, (X, Z), "max_iter=0"),
        ({}, (X, np.where(Z > 100, np.nan, Z)), "NaN"),
        ({}, (np.where(X > 1, np.nan, X), Z), "NaN"),
        ({}, (X, np.column_stack([Z, Z])), "1d array"),
        ({}, (X, 1e200 * Z), "overflows"),
        ({}, (X, Z, np.zeros(len(Z))), "sample_weight"),
    ],
)
def test_bad_arguments_are_named(changes, arguments, message):
    model = LSSVR().fit(X[:5], Z[:5])
    before = model.predict(X[:5])
    with pytest.raises(ValueError, match=message):
        model.set_params(**changes).fit(*arguments)
    np.testing.assert_array_equal(model.set_params(**LSSVR().get_params()).predict(X[:5]), before)


def test_one_class_is_refused():
    with pytest.raises(ProblemError, match="single class"):
        LSSVC().fit(X[:3], [1, 1, 1])


def test_files_of_libsvm_hold_them(tmp_path):
    to_libsvm(LSSVC(3.0, **RBF).fit(B, LABELS), tmp_path / "labels")
    near(from_libsvm(tmp_path / "labels").decision_function(B), LSSVC(3.0, **RBF).fit(B, LABELS).decision_function(B))
    to_libsvm(LSSVR(3.0, **RBF).fit(X, Z), tmp_path / "values")
    near(from_libsvm(tmp_path / "values").predict(NEW), LSSVR(3.0, **RBF).fit(X, Z).predict(NEW))


def test_the_nearest_mean_lies_in_the_middle_of_the_simplex():
    """The least-cost end of the squared hinge's simplex: μ goes to 1/n, w to the difference of the means."""
    means = B[LABELS == 0].mean(axis=0), B[LABELS == 1].mean(axis=0)
    middle = 0.5 * (means[0] + means[1])
    model = SVC(
        1e-12, loss="squared_hinge", kernel="linear", class_weight="balanced", solver="gradient-flow", tol=1e-9
    ).fit(B - middle, LABELS)
    share = np.where(LABELS == 1, 0.5 / LABELS.sum(), 0.5 / (1 - LABELS).sum())
    np.testing.assert_allclose(model.solution_.alpha, share, rtol=1e-6)
    direction = model.coef_[0] / np.linalg.norm(model.coef_)
    np.testing.assert_allclose(direction, (means[1] - means[0]) / np.linalg.norm(means[1] - means[0]), atol=1e-7)
    np.testing.assert_array_equal(model.predict(B - middle), NearestCentroid().fit(B, LABELS).predict(B))
