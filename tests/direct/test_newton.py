"""Newton's rounds over kernel matrices that are near their diagonal, against LIBSVM and an interior-point method."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn import svm

from dualflow import DualProblem, Gram, certify, problems, solve
from dualflow.core.runtime import memory
from dualflow.direct import newton, whole
from dualflow.direct.newton import NetProblem, coupling, minimise_by_newton
from dualflow.direct.strategy import USUAL
from dualflow.direct.whole import solve_whole, suits_newton, suits_whole

#: Thresholds with which few points of many features count as many.
EARLY = replace(USUAL, min_points_newton=100, max_whole_variables=0, max_whole_variables_wide=0, sample_points_whole=64)


def noise(n=160, m=80, seed=0):
    X = np.random.default_rng(seed).standard_normal((n, m))
    return X, np.sin(X[:, 0]) + 0.5 * np.random.default_rng(seed + 1).standard_normal(n)


def posed(name, kernel):
    X, z = noise()
    gram, y = Gram(X, kernel, gamma="scale"), np.where(z > 0, 1.0, -1.0)
    weights = np.linspace(0.0, 2.0, len(X))
    return {
        "hinge": lambda: problems.svc(gram, y, 1.0),
        "large C": lambda: problems.svc(gram, y, 1e4),
        "small C": lambda: problems.svc(gram, y, 0.02),
        "none free": lambda: problems.svc(gram, np.where(z > np.median(z), 1.0, -1.0), 1e-3),
        "tube": lambda: problems.svr(gram, z, 1.0),
        "small tube": lambda: problems.svr(gram, z, 0.02),
        "no tube": lambda: problems.svr(gram, z, 1.0, epsilon=0.0),
        "weighted tube": lambda: problems.svr(gram, z, 1.0, sample_weight=weights),
        "one class": lambda: problems.one_class(gram, 0.3),
        "ball": lambda: problems.svdd(gram, 0.3),
        "no intercept": lambda: problems.svc(gram, y, 1.0, fit_intercept=False),
        "penalised": lambda: problems.svc(gram, y, 1.0, fit_intercept="penalised"),
    }[name]()


MODELS = (
    "hinge",
    "large C",
    "small C",
    "none free",
    "tube",
    "small tube",
    "no tube",
    "weighted tube",
    "one class",
    "ball",
)


@pytest.mark.parametrize("in_single", [False, True])
@pytest.mark.parametrize(
    ("name", "kernel"), [*((name, kernel) for name in MODELS for kernel in ("poly", "rbf")), ("no intercept", "poly")]
)
def test_the_optimum_is_that_of_an_interior_point_method(name, kernel, in_single, monkeypatch):
    monkeypatch.setattr(newton, "MIN_POINTS_FLOAT32", 0 if in_single else 10**9)
    problem = posed(name, kernel)
    assert suits_newton(problem, None, EARLY)
    alpha = minimise_by_newton(problem, problem.gram.full())
    assert alpha is not None
    assert problem.infeasibility(alpha) <= 1e-12 * np.abs(alpha).sum()
    wanted = solve(problem, "interior-point", refine=True, tol=1e-9).certificate
    certificate = certify(problem, alpha)
    assert certificate.relative_gap <= 1e-10
    assert certificate.objective == pytest.approx(wanted.objective, rel=1e-9)


@pytest.mark.parametrize("C", [0.05, 1.0, 100.0])
def test_decisions_are_those_of_libsvm(C):
    X, z = noise()
    tube = svm.SVR(kernel="poly", C=C, tol=1e-9).fit(X, z)
    problem = problems.svr(Gram(X, "poly", gamma="scale"), z, C)
    alpha = minimise_by_newton(problem, problem.gram.full())
    weights = np.zeros(len(X))
    weights[tube.support_] = tube.dual_coef_[0]
    np.testing.assert_allclose(alpha[: len(X)] - alpha[len(X) :], weights, atol=1e-6 * np.abs(weights).max())


def test_ridges_and_equalities_of_other_signs_are_left_to_pair_updates():
    X, z = noise()
    assert not NetProblem.suits(problems.svc(Gram(X), np.where(z > 0, 1, -1), loss="squared_hinge"))
    ridge = DualProblem(Gram(X), p=z, lower=0.0, upper=1.0, ridge=0.5)
    assert not NetProblem.suits(ridge)
    assert NetProblem.suits(DualProblem(Gram(X), p=z, lower=0.0, upper=1.0))
    assert not suits_newton(posed("penalised", "poly"), None, EARLY)  # the offset is a large part of all entries


def test_points_of_few_features_are_given_up():
    X, z = noise(m=2)
    problem = problems.svr(Gram(X, "poly", gamma="scale"), z, 100.0)
    assert minimise_by_newton(problem, problem.gram.full()) is None
    assert not suits_newton(problem, None, EARLY)


def test_rounds_end_at_the_largest_number_of_products_and_give_way_to_pair_updates(monkeypatch):
    problem = posed("tube", "poly")
    K = problem.gram.full()
    assert minimise_by_newton(problem, K) is not None
    assert minimise_by_newton(problem, K, max_products=3) is None
    monkeypatch.setattr(newton, "MAX_CHANGES", 0.01)
    assert minimise_by_newton(problem, K) is not None
    assert minimise_by_newton(problem, K, gives_way=True) is None
    monkeypatch.setattr(newton, "FACTOR_COST", 0)
    assert minimise_by_newton(problem, K, gives_way=True) is not None


@pytest.mark.parametrize("name", ["hinge", "no intercept", "penalised"])
def test_the_coupling_is_the_energy_beside_the_diagonal_of_the_scaled_and_projected_matrix(name):
    problem = posed(name, "poly")
    K = problem.gram.full()
    Q = K + problem.offset
    scale = 1.0 / np.sqrt(Q.diagonal())
    across = scale / np.linalg.norm(scale)
    P = np.eye(len(K)) - (np.outer(across, across) if problem.e is not None else 0.0)
    S = P @ (scale[:, None] * Q * scale) @ P
    wanted = (S**2).sum() - (S.diagonal() ** 2).sum()
    every = np.arange(len(K))
    assert coupling(problem, K, every) == pytest.approx(wanted / len(K), rel=1e-10)


def test_the_coupling_of_noise_with_a_linear_kernel_is_points_by_features():
    X, z = noise(n=2000, m=100)
    gram = Gram(X, "linear")
    sample = np.arange(400)
    measured = coupling(problems.svr(gram, z), gram.block(sample, sample), sample)
    # ⟨x, z⟩²/(‖x‖²‖z‖²) has mean 1/m and a standard deviation of √2/m, over 400 · 399/2 nearly independent pairs.
    assert measured == pytest.approx(2000 / 100, rel=6 * np.sqrt(2.0) / np.sqrt(400 * 399 / 2) + 2 / 100)


def test_a_large_problem_near_its_diagonal_is_solved_over_the_whole_matrix(monkeypatch):
    problem = posed("tube", "poly")
    assert suits_whole(problem, EARLY)
    assert not suits_whole(problem, replace(EARLY, max_coupling=0.0))
    assert not suits_whole(problem, replace(EARLY, max_points_near_diagonal=150))
    with monkeypatch.context() as small:  # 160² numbers of 8 bytes, twice, are 0.4 MB
        small.setattr(memory, "memory_bytes", lambda: 800_000)
        assert not suits_whole(problem, EARLY)
        small.setattr(memory, "memory_bytes", lambda: 850_000)
        assert suits_whole(problem, EARLY)
    calls, minimise = [], whole._minimise
    monkeypatch.setattr(whole, "_minimise", lambda *args: calls.append(args) or minimise(*args))
    found = solve_whole(problem, 1e-10, 1e-6, EARLY)
    assert found is not None
    assert not calls
    assert found.certificate.relative_gap <= 1e-10
    # Where the rounds are given up, pair updates over so many variables would take longer than a run.
    monkeypatch.setattr(whole, "minimise_by_newton", lambda *args: None)
    assert solve_whole(problem, 1e-10, 1e-6, EARLY) is None
    assert not calls


def test_a_problem_without_linear_term_takes_few_products(monkeypatch):
    problem, products, times = posed("one class", "rbf"), [], NetProblem.times
    monkeypatch.setattr(NetProblem, "times", lambda self, *args: products.append(1) or times(self, *args))
    assert minimise_by_newton(problem, problem.gram.full()) is not None
    assert len(products) < newton.MAX_PRODUCTS  # the first residual is 0: a system to that end would take them all
