"""`SVR` against LIBSVM and cvxopt, and what regression alone can get wrong."""

import numpy as np
import pytest
from sklearn import svm
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV

from dualflow import SVR, IncrementalSVR
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum

X, Y = make_friedman1(150, random_state=0, noise=0.5)
Z = make_friedman1(80, random_state=1)[0]
KERNELS = [
    {"kernel": "rbf", "gamma": 0.7},
    {"kernel": "linear"},
    {"kernel": "poly", "degree": 2, "coef0": 1.0, "gamma": 0.5},
]
kernels = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel["kernel"])


@kernels
@pytest.mark.parametrize("C", [0.1, 1.0, 100.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 2.0])
def test_same_model_as_libsvm(kernel, C, epsilon):
    model = SVR(C, epsilon=epsilon, **kernel).fit(X, Y)
    peer = svm.SVR(C=C, epsilon=epsilon, tol=1e-9, **kernel).fit(X, Y)
    scale = np.abs(Y).max()
    assert model.certificate_.relative_gap <= 1e-9
    np.testing.assert_allclose(model.predict(Z), peer.predict(Z), rtol=0, atol=1e-4 * scale)
    if epsilon == 2.0 and kernel["kernel"] == "rbf":
        np.testing.assert_array_equal(model.support_, peer.support_)
        np.testing.assert_allclose(model.dual_coef_, peer.dual_coef_, atol=1e-5 * C)
        np.testing.assert_allclose(model.intercept_, peer.intercept_, atol=1e-4)


@pytest.mark.parametrize("epsilon", [0.0, 0.5])
def test_the_optimum_is_that_of_an_interior_point_method(epsilon):
    model = SVR(5.0, epsilon=epsilon, gamma=0.7).fit(X[:60], Y[:60])
    problem = model.solution_.problem
    best, _ = coneqp_optimum(QuadraticProgram(problem.dense(), problem.p, problem.upper, problem.e, problem.d))
    assert model.certificate_.objective == pytest.approx(best, rel=1e-7)
    assert np.abs(model.dual_coef_).max() <= 5.0
    assert model.dual_coef_.sum() == pytest.approx(0.0, abs=1e-12)


def test_weights_are_repetitions():
    weight = np.random.default_rng(0).integers(0, 4, len(X)).astype(float)
    weighted = SVR(2.0, gamma=0.7).fit(X, Y, sample_weight=weight)
    again = np.repeat(np.arange(len(X)), weight.astype(int))
    np.testing.assert_allclose(weighted.predict(Z), SVR(2.0, gamma=0.7).fit(X[again], Y[again]).predict(Z), atol=1e-7)
    assert not np.isin(weighted.support_, np.flatnonzero(weight == 0)).any()


def test_a_matrix_and_a_function_are_kernels_too():
    direct = SVR(2.0, kernel="linear").fit(X, Y)
    given = SVR(2.0, kernel="precomputed").fit(X @ X.T, Y)
    called = SVR(2.0, kernel=lambda A, B: A @ B.T).fit(X, Y)
    np.testing.assert_allclose(given.predict(Z @ X.T), direct.predict(Z), atol=1e-8)
    np.testing.assert_allclose(called.predict(Z), direct.predict(Z), atol=1e-8)
    constant = direct.predict(Z) - Z @ direct.coef_[0]
    np.testing.assert_allclose(constant, constant[0], rtol=0, atol=1e-9)
    with pytest.raises(AttributeError, match="linear"):
        _ = called.coef_


def test_far_points_keep_their_digits():
    near, far = SVR(2.0, kernel="linear").fit(X, Y), SVR(2.0, kernel="linear").fit(X + 1e7, Y)
    np.testing.assert_allclose(far.predict(Z + 1e7), near.predict(Z), atol=1e-6)


@pytest.mark.parametrize("shift", [0.0, 1e4, -3.0])
@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e5])
def test_units_of_y_do_not_change_the_model(shift, scale):
    plain = SVR(3.0, epsilon=0.2, gamma=0.7).fit(X, Y)
    other = SVR(3.0 * scale, epsilon=0.2 * scale, gamma=0.7).fit(X, scale * (Y + shift))
    expected = scale * (plain.predict(Z) + shift)
    np.testing.assert_allclose(other.predict(Z), expected, rtol=0, atol=1e-6 * scale)


def test_what_lies_within_the_tube_needs_no_support():
    model = SVR(epsilon=1.0).fit([[0.0], [1.0], [2.0]], [4.5, 5.0, 5.5])
    assert len(model.support_) == 0
    assert model.support_vectors_.shape == (0, 1)
    np.testing.assert_allclose(model.predict([[7.0]]), [5.0], atol=0.5)
    assert SVR().fit([[3.0]], [7.0]).predict([[1.0]]) == pytest.approx(7.0, abs=0.1)


@pytest.mark.parametrize("solver", ["smo", "gradient-flow", "frank-wolfe", "invasion", "incremental", "cvxopt"])
def test_every_solver_of_boxes_gives_the_same_function(solver):
    model = SVR(2.0, gamma=0.7, solver=solver).fit(X[:50], Y[:50])
    np.testing.assert_allclose(model.predict(Z), SVR(2.0, gamma=0.7).fit(X[:50], Y[:50]).predict(Z), atol=1e-5)
    assert model.solution_.provenance["solver"] == solver


def test_batch_and_incremental_agree():
    batch = SVR(4.0, epsilon=0.3, gamma=0.7).fit(X, Y)
    stream = IncrementalSVR(4.0, epsilon=0.3, gamma=0.7).fit(X, Y)
    np.testing.assert_allclose(stream.predict(Z), batch.predict(Z), atol=1e-6)
    np.testing.assert_array_equal(np.sort(stream.support_), batch.support_)


def test_real_data_and_a_grid_search():
    data, target = load_diabetes(return_X_y=True)
    grid = {"C": [10.0, 1000.0], "epsilon": [1.0, 10.0]}
    ours = GridSearchCV(SVR(kernel="rbf"), grid, cv=3).fit(data, target)
    theirs = GridSearchCV(svm.SVR(kernel="rbf", tol=1e-7), grid, cv=3).fit(data, target)
    np.testing.assert_allclose(ours.cv_results_["mean_test_score"], theirs.cv_results_["mean_test_score"], atol=1e-5)


@pytest.mark.parametrize(
    ("changes", "arguments", "message"),
    [
        ({"C": 0.0}, (X, Y), "C="),
        ({"C": np.nan}, (X, Y), "C="),
        ({"epsilon": -0.1}, (X, Y), "epsilon="),
        ({"epsilon": np.nan}, (X, Y), "epsilon="),
        ({"tol": 0.0}, (X, Y), "tol="),
        ({}, (X, Y, np.zeros(len(Y))), "sample_weight: .* zero"),
        ({}, (X, np.where(np.arange(len(Y)) == 3, np.nan, Y)), "NaN"),
        ({}, (X, Y[:-1]), "inconsistent"),
        ({}, (X, 1e306 * Y), "overflows; scale it"),
    ],
)
def test_bad_input_is_an_error_with_a_name(changes, arguments, message):
    model = SVR().fit(X, Y)
    before = model.predict(Z)
    with pytest.raises(ValueError, match=message):
        model.set_params(**changes).fit(*arguments)
    np.testing.assert_array_equal(model.predict(Z), before)


def test_a_run_that_is_cut_short_warns():
    with pytest.warns(ConvergenceWarning, match="did not reach tol|Certified relative gap"):
        model = SVR(100.0, gamma=0.7, solver="smo", max_steps=1, refine=False).fit(X, Y)
    assert model.fit_status_ == 1
    assert np.isfinite(model.predict(Z)).all()
