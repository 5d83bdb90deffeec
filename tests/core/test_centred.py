"""Kernels that a translation changes by a constant are computed on centred points if the model allows it; multipliers
and decision values are those of the given points."""

import numpy as np
import pytest
from sklearn.svm import SVC as LIBSVM

from dualflow import SVC, SVDD, Gram, certify, load, problems, solve
from dualflow.core.growing import GrowingGram

RNG = np.random.default_rng(5)
# On a grid, so that the translation below loses no bit of them.
X = np.round(RNG.normal(size=(90, 3)) * 1024) / 1024
Z = np.round(RNG.normal(size=(40, 3)) * 1024) / 1024
Y = np.where(X[:, 0] + 0.7 * RNG.normal(size=90) > 0, 1, -1)
NEAR = np.array([3.0, -2.0, 5.0])
FAR = np.array([2.0**20, -(2.0**21), 2.0**19])
KERNELS = {"linear": {"kernel": "linear"}, "poly": {"kernel": "poly", "degree": 1, "gamma": 0.5, "coef0": 1.0}}
kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@kernels
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_a_classifier_far_from_the_origin(kernel, C):
    near, far = SVC(C=C, **kernel).fit(X, Y), SVC(C=C, **kernel).fit(X + FAR, Y)
    assert far.certificate_.relative_gap <= 1e-9
    values = near.decision_function(Z)
    # The centre of points that far off is rounded, and each coordinate from it, by half a unit of its last place.
    coordinates = 0.5 * np.finfo(float).eps * np.abs(FAR).sum() * kernel.get("gamma", 1.0)
    rounded = coordinates * np.abs(far.dual_coef_).sum()
    assert rounded < 1e-5 * np.abs(values).max()
    np.testing.assert_allclose(far.decision_function(Z + FAR), values, rtol=1e-7, atol=max(1e-8, rounded))
    # Bias and coefficients are those of the kernel as it is, of the points as they are.
    model = SVC(C=C, **kernel).fit(X + NEAR, Y)
    K = kernel.get("gamma", 1.0) * (Z + NEAR) @ model.support_vectors_.T + kernel.get("coef0", 0.0)
    np.testing.assert_allclose(K @ model.dual_coef_[0] + model.intercept_, values, atol=1e-8)
    if kernel["kernel"] == "linear":
        np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-8)
        np.testing.assert_allclose((Z + FAR) @ far.coef_[0] + far.intercept_, values, atol=1e-6)
        peer = LIBSVM(C=C, kernel="linear", tol=1e-8).fit(X, Y)
        np.testing.assert_allclose(near.intercept_, peer.intercept_, atol=1e-5)
    solution = far.solution_
    np.testing.assert_allclose(solution.decision_values(Z + FAR), values, atol=1e-6)
    assert solution.bias == far.intercept_[0] == pytest.approx(-solution.certificate.multiplier)


@kernels
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("nu", [None, 0.2])
def test_a_ball_moves_with_its_points(kernel, nu):
    near, far = SVDD(nu=nu, **kernel).fit(X), SVDD(nu=nu, **kernel).fit(X + FAR)
    assert far.certificate_.relative_gap <= 1e-9
    assert far.radius_ == pytest.approx(near.radius_, abs=1e-9)
    np.testing.assert_allclose(far.decision_function(Z + FAR), near.decision_function(Z), atol=1e-8)
    np.testing.assert_allclose(far.solution_.decision_values(Z + FAR), near.solution_.decision_values(Z), atol=1e-7)
    if kernel["kernel"] == "linear":
        np.testing.assert_allclose(far.center_ - FAR, near.center_, atol=1e-8)


POSED = {
    "svc": lambda gram: problems.svc(gram, Y, 10.0),
    "svr": lambda gram: problems.svr(gram, X[:, 1] + X[:, 0] ** 2, 10.0),
    "least squares": lambda gram: problems.least_squares(gram, Y, 10.0),
    "ball": lambda gram: problems.svdd(gram, 0.3),
    "ball with a ridge": lambda gram: problems.svdd(gram, 0.3, ridge=np.linspace(0.0, 1.0, 90)),
}
STAY = {
    "no intercept": lambda gram: problems.svc(gram, Y, 10.0, fit_intercept=False),
    "penalised": lambda gram: problems.svc(gram, Y, 10.0, fit_intercept="penalised"),
    "squared hinge": lambda gram: problems.svc(gram, Y, 10.0, loss="squared_hinge"),
    "least squares without": lambda gram: problems.least_squares(gram, Y, 10.0, fit_intercept=False),
    "one class": lambda gram: problems.one_class(gram, 0.3),
}


@kernels
@pytest.mark.parametrize("name", POSED)
def test_f_and_certificate_are_those_of_the_problem_given(kernel, name):
    """Against its own matrix, not too far from the origin for that to say something."""
    problem = POSED[name](Gram(X + NEAR, **kernel))
    posed = problem.centred()
    assert posed is not problem
    assert posed.centred() is posed
    alpha = problem.project(RNG.uniform(size=problem.n))
    assert posed.objective(alpha) == pytest.approx(problem.objective(alpha), rel=1e-11)
    alpha = solve(problem, "cvxopt", refine=True).alpha
    certificate, Q = certify(problem, alpha), problem.dense()
    assert certificate.objective == pytest.approx(0.5 * alpha @ Q @ alpha - problem.p @ alpha, rel=1e-9)
    assert certificate.quadratic == pytest.approx(alpha @ Q @ alpha, rel=1e-9)
    rho = Q @ alpha - problem.p - certificate.multiplier * problem.e
    size = np.abs(Q @ alpha).max() + np.abs(problem.p).max()
    assert np.abs(rho[(alpha > 0) & (alpha < problem.upper)]).max() <= 1e-7 * size
    assert (rho[alpha <= 0] >= -1e-7 * size).all()
    at_bound = alpha >= problem.upper
    assert (rho[at_bound] <= 1e-7 * size).all()


@kernels
@pytest.mark.parametrize("name", STAY)
def test_models_that_know_the_origin_stay(kernel, name):
    problem = STAY[name](Gram(X, **kernel))
    assert problem.centred() is problem


def test_kernels_that_know_the_origin_stay():
    for kernel in (
        {"kernel": "rbf"},
        {"kernel": "poly", "degree": 2},
        {"kernel": "poly", "degree": 1, "coef0": -1.0},
        {"kernel": "sigmoid"},
        {"kernel": lambda A, B: A @ B.T},
    ):
        gram = Gram(X, **kernel)
        assert gram.centred() is gram
        assert problems.svc(gram, Y).centred().gram is gram


@kernels
def test_every_regression_and_least_squares_far_from_the_origin(kernel):
    for name, solver in (("svr", "working-set"), ("svr", "smo"), ("least squares", "cvxopt")):
        near, far = (solve(POSED[name](Gram(points, **kernel)), solver, refine=True) for points in (X, X + FAR))
        assert far.certificate.relative_gap <= 1e-9
        np.testing.assert_allclose(far.decision_values(Z + FAR), near.decision_values(Z), atol=1e-6)


def test_separable_data_far_from_the_origin_are_separable():
    apart = X + 8.0 * (Y[:, None] > 0)
    near, far = (SVC(C=np.inf, kernel="linear").fit(points, Y) for points in (apart, apart + FAR))
    np.testing.assert_allclose(far.coef_, near.coef_, atol=1e-8)


def test_more_classes_and_their_files(tmp_path):
    labels = np.digitize(X[:, 0] + 0.3 * X[:, 1], [-0.5, 0.5])
    weight = np.where(np.arange(90) % 7 == 0, 0.0, 1.0)
    near = SVC(C=10, kernel="linear").fit(X, labels, weight)
    far = SVC(C=10, kernel="linear").fit(X + FAR, labels, weight)
    near.decision_function_shape = far.decision_function_shape = "ovo"
    np.testing.assert_allclose(far.decision_function(Z + FAR), near.decision_function(Z), atol=1e-7)
    ball = SVDD(nu=0.2, kernel="linear").fit(X + FAR, sample_weight=weight)
    for name, model in (("classes", far), ("ball", ball)):
        model.save(tmp_path / name)
        again = load(tmp_path / name)
        np.testing.assert_array_equal(again.decision_function(Z + FAR), model.decision_function(Z + FAR))


def test_a_trajectory_has_the_multiplier_of_the_problem_given():
    problem = POSED["svc"](Gram(X + NEAR, kernel="linear"))
    solution = solve(problem, "gradient-flow", trajectory=True, tol=1e-6)
    assert solution.trajectory.multiplier[-1] == pytest.approx(solution.certificate.multiplier, abs=1e-3)


@kernels
def test_a_growing_matrix_takes_a_centre(kernel):
    """By default the mean of its first points: all that it knows of those to come."""
    plain, moved = GrowingGram(X[:5], **kernel), GrowingGram(X[:5], **kernel, center=FAR)
    moved.append(X[5:] + FAR)
    plain.append(X[5:])
    np.testing.assert_allclose(plain.center, X[:5].mean(axis=0), rtol=1e-12)
    plain = Gram(X, **kernel)
    np.testing.assert_array_equal(moved.block(np.arange(5, 90), np.arange(5, 90)), plain.full()[5:, 5:])
    np.testing.assert_array_equal(moved.frozen_copy().full(), moved.full())
    weights = np.zeros(90)
    weights[[7, 9]] = 1.0, -1.0
    expected = moved.gamma * ((X[7] - X[9]) @ FAR)
    assert moved.constant(weights) == pytest.approx(expected, rel=1e-12)
