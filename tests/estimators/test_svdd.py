"""SVDD against scikit-learn's OneClassSVM, against geometry done by hand, and against its own definition."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn import svm
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dualflow import SVDD, ProblemError
from dualflow.core.gram import KernelMatrix

X, _ = make_moons(91, noise=0.2, random_state=0)
Z = np.random.default_rng(0).uniform(-3, 3, size=(60, 2))


@pytest.mark.parametrize("nu", [0.02, 0.1, 0.5])
@pytest.mark.parametrize("gamma", ["scale", 3.0])
def test_decision_is_that_of_one_class_svm_times_2_over_nu_n(nu, gamma):
    ours, theirs = SVDD(nu=nu, gamma=gamma).fit(X), svm.OneClassSVM(nu=nu, gamma=gamma, tol=1e-10).fit(X)
    factor = 2.0 / (nu * len(X))
    for points in (X, Z):
        values = ours.decision_function(points)
        np.testing.assert_allclose(values, factor * theirs.decision_function(points), rtol=0, atol=1e-6)
        clear = np.abs(values) > 1e-6
        np.testing.assert_array_equal(ours.predict(points)[clear], theirs.predict(points)[clear])
    np.testing.assert_array_equal(ours.support_, theirs.support_)
    np.testing.assert_allclose(ours.dual_coef_ * nu * len(X), theirs.dual_coef_, rtol=0, atol=2e-5)


def test_real_digits():
    digits, labels = load_digits(return_X_y=True)
    ones, others = digits[labels == 1] / 16.0, digits[labels != 1] / 16.0
    ours = SVDD(nu=0.1, gamma=0.2).fit(ones)
    theirs = svm.OneClassSVM(nu=0.1, gamma=0.2, tol=1e-10).fit(ones)
    values = 2.0 / (0.1 * len(ones)) * theirs.decision_function(others)
    np.testing.assert_allclose(ours.decision_function(others), values, rtol=0, atol=1e-6)
    assert (ours.predict(others) == -1).mean() > 0.9


@pytest.mark.parametrize("nu", [0.05, 0.3])
def test_sample_weight_is_that_of_one_class_svm(nu):
    weight = np.random.default_rng(2).uniform(0.5, 2.0, size=len(X))
    weight[::8] = 0.0
    ours = SVDD(nu=nu, gamma=0.7).fit(X, sample_weight=weight)
    theirs = svm.OneClassSVM(nu=nu, gamma=0.7, tol=1e-10).fit(X, sample_weight=weight)
    total = theirs.dual_coef_.sum()
    np.testing.assert_allclose(ours.decision_function(Z), 2.0 / total * theirs.decision_function(Z), rtol=0, atol=1e-6)
    assert (weight[ours.support_] > 0).all()


@pytest.mark.parametrize("kernel", [{"kernel": "linear"}, {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}])
@pytest.mark.parametrize("nu", [None, 0.3])
def test_repeating_a_point_is_weighting_it(kernel, nu):
    counts = np.random.default_rng(3).integers(0, 4, size=40)
    weighted = SVDD(nu=nu, **kernel).fit(X[:40], sample_weight=counts)
    repeated = SVDD(nu=nu, **kernel).fit(np.repeat(X[:40], counts, axis=0))
    np.testing.assert_allclose(weighted.decision_function(Z), repeated.decision_function(Z), rtol=0, atol=1e-8)


def test_ball_by_hand():
    """Three points on a circle with an acute triangle, one inside: centre (0, 0), radius 5."""
    corners = np.array([[5.0, 0.0], [-3.0, 4.0], [-3.0, -4.0], [1.0, 1.0]])
    ball = SVDD(nu=None, kernel="linear").fit(corners)
    np.testing.assert_allclose(ball.center_, [0.0, 0.0], atol=1e-12)
    assert ball.radius_ == pytest.approx(5.0, abs=1e-12)
    np.testing.assert_array_equal(ball.support_, [0, 1, 2])
    np.testing.assert_allclose(ball.decision_function([[3.0, 4.0], [0.0, 0.0], [6.0, 8.0]]), [0, 25, -75], atol=1e-9)
    np.testing.assert_array_equal(ball.predict([[5.001, 0.0], [4.999, 0.0]]), [-1, 1])
    assert not hasattr(SVDD().fit(corners), "center_")


@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_hard_ball_holds_all_points_and_is_certified_smallest(kernel):
    ball = SVDD(nu=None, kernel=kernel).fit(X)
    assert (ball.fit_predict(X) == 1).all()
    # R² of the dual and the distance of the farthest point meet at the optimum, and nowhere else.
    assert ball.radius_ == pytest.approx(ball.certificate_.radius, rel=1e-9)
    assert ball.certificate_.relative_gap < 1e-9
    rough = SVDD(nu=None, kernel=kernel, solver="frank-wolfe", refine=False, tol=1e-2).fit(X)
    assert kernel != "rbf" or rough.certificate_.relative_gap > 1e-5
    assert (rough.predict(X) == 1).all()


@pytest.mark.parametrize("nu", [0.05, 0.2, 0.6])
@pytest.mark.parametrize("kernel", ["linear", "rbf", "poly"])
def test_soft_ball_minimises_its_primal(kernel, nu):
    """R² + 1/(νn) Σ max(0, d² − R²) equals −f at the dual optimum: no smaller value exists."""
    ball = SVDD(nu=nu, kernel=kernel).fit(X)
    excess = np.maximum(0.0, -ball.decision_function(X))
    primal = ball.radius_**2 + excess.sum() / (nu * len(X))
    assert primal == pytest.approx(-ball.certificate_.objective, rel=1e-9)
    assert (ball.predict(X) == -1).mean() <= nu
    np.testing.assert_allclose(ball.score_samples(X) - ball.offset_, ball.decision_function(X))
    assert ball.offset_ == pytest.approx(-(ball.radius_**2), rel=1e-12)


@pytest.mark.parametrize("kernel", ["rbf", "poly"])
def test_callable_and_precomputed_kernels_equal_the_named_one(kernel):
    function = rbf_kernel if kernel == "rbf" else polynomial_kernel
    options = {"gamma": 0.6} if kernel == "rbf" else {"gamma": 0.6, "degree": 3, "coef0": 0.0}
    named = SVDD(nu=0.2, kernel=kernel, **options).fit(X)
    called = SVDD(nu=0.2, kernel=lambda A, B: function(A, B, **options)).fit(X)
    given = SVDD(nu=0.2, kernel="precomputed").fit(function(X, **options))
    np.testing.assert_allclose(called.decision_function(Z), named.decision_function(Z), rtol=1e-7, atol=1e-9)
    np.testing.assert_array_equal(called.support_vectors_, X[named.support_])
    np.testing.assert_allclose(given.decision_function(function(X, **options)), named.decision_function(X), atol=1e-8)
    if kernel == "rbf":  # k(z, z) is taken to be the constant diagonal of the training matrix
        values = given.decision_function(function(Z, X, **options))
        np.testing.assert_allclose(values, named.decision_function(Z), rtol=0, atol=1e-9)
    else:
        with pytest.raises(ProblemError, match=r"kernel='precomputed': k\(x, x\) of new points"):
            given.predict(function(Z, X, **options))


def test_prediction_in_blocks_equals_prediction_in_one_batch(monkeypatch):
    model = SVDD(nu=0.3).fit(X)
    expected, heights = model.decision_function(X), []
    prepare = KernelMatrix._new_points
    monkeypatch.setattr("dualflow.core.gram.BLOCK_ENTRIES", 25 * len(model.support_))
    monkeypatch.setattr(KernelMatrix, "_new_points", lambda *a: heights.append(len(a[1])) or prepare(*a))
    np.testing.assert_allclose(model.decision_function(X), expected, rtol=0, atol=1e-12)
    assert heights == [25, 25, 25, 16]


def test_clone_pickle_pipeline_and_names():
    model = SVDD(nu=0.2, tol=1e-8).fit(pd.DataFrame(X, columns=["u", "v"]))
    assert model.feature_names_in_.tolist() == ["u", "v"]
    assert clone(model).get_params() == model.get_params()
    frame = pd.DataFrame(Z, columns=["u", "v"])
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.decision_function(frame), model.decision_function(frame))
    pipeline = make_pipeline(StandardScaler(), SVDD(nu=0.2)).fit(X)
    reference = make_pipeline(StandardScaler(), svm.OneClassSVM(nu=0.2)).fit(X)
    assert (pipeline.predict(Z) == reference.predict(Z)).mean() > 0.98
