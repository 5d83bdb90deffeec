"""Products in mixed precision: each figure of a certificate has the value that float64 gives."""

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.datasets import make_classification

from dualflow import Gram, problems, solve
from dualflow.core import mixed_precision
from dualflow.core.bounds import dual_bound
from dualflow.core.certificate import Certifier
from dualflow.core.mixed_precision import Screen
from dualflow.refinement.refine import refine
from tests.combinations import covering

N = 1500
X, T = make_classification(N, 12, n_informative=6, class_sep=1.5, random_state=0)
Y = 2.0 * T - 1
RNG = np.random.default_rng(0)
WIDE = np.column_stack([X, RNG.normal(size=(N, 88)) / 20])
FAR_OUT = np.where(RNG.random(X.shape) < 0.002, 40.0, 1.0) * X
GRAMS = {
    "few features": lambda: Gram(X, gamma=0.03),
    "many": lambda: Gram(WIDE, gamma=0.03),
    "far out": lambda: Gram(FAR_OUT, gamma=0.03),
}
PROBLEMS = {
    "hinge": lambda g: problems.svc(g, Y, 1.0),
    "large C": lambda g: problems.svc(g, Y, 50.0),
    "no bias": lambda g: problems.svc(g, Y, 1.0, fit_intercept=False),
    "weighted": lambda g: problems.svc(g, Y, 1.0, sample_weight=np.linspace(0.0, 2.0, N)),
    "squared hinge": lambda g: problems.svc(g, Y, 1.0, loss="squared_hinge"),
    "ball": lambda g: problems.svdd(g, 0.05),
    "svr": lambda g: problems.svr(g, np.sin(X[:, 0]), 1.0, epsilon=0.3),
}


@pytest.fixture(autouse=True)
def small_ones_too(monkeypatch):
    monkeypatch.setattr(mixed_precision, "MIN_MULTIPLICATIONS", 1)


def screened(problem, alpha):
    """Whether float32 does a part of a product."""
    screen = Screen(Certifier(problem).workspace)
    screen.product(alpha)
    return screen.is_in_use


def starts(problem):
    """The optimum, points near it and far from it."""
    best = solve(problem, tol=1e-9).alpha
    rng = np.random.default_rng(1)
    size = np.abs(best).max()
    yield best
    for part in (1e-6, 1e-3, 0.1):
        yield problem.project(np.where(best > 0, best + part * size * rng.normal(size=problem.n), 0.0))
    few = np.where(rng.random(problem.n) < 0.1, size * rng.random(problem.n), 0.0)
    yield problem.project(few)


def check(problem, certificate, alpha):
    Qa = problem.dense() @ alpha
    bound, interval = dual_bound(problem, alpha, Qa)
    size = float(np.abs(problem.p) @ np.abs(alpha)) + float(alpha @ Qa)
    assert certificate.objective == pytest.approx(0.5 * alpha @ Qa - problem.p @ alpha, abs=1e-12 * size)
    assert certificate.lower_bound == pytest.approx(bound, abs=1e-12 * size + 1e-12 * abs(bound))
    if interval is not None:
        scale = np.abs(Qa).max() + np.abs(problem.p).max()
        np.testing.assert_allclose(certificate.multiplier_interval, interval, atol=1e-11 * scale)


@pytest.mark.parametrize(("name", "gram"), covering(list(PROBLEMS), list(GRAMS), together=1))
def test_certificates_are_those_of_float64_and_float32_does_most(name, gram):
    problem = PROBLEMS[name](GRAMS[gram]())
    used = []
    for alpha in starts(problem):
        check(problem, Certifier(problem).certify(alpha), alpha)
        used.append(screened(problem, alpha))
    assert any(used)


@pytest.mark.parametrize("gram", GRAMS)
@pytest.mark.parametrize("times", [0.03, 30.0])
def test_error_bounds_exceed_the_errors_of_float32(gram, times):
    given = GRAMS[gram]()
    problem = problems.svc(Gram(given.X, gamma=given.gamma * times), Y, 1.0)
    K = np.exp(-problem.gram.gamma * cdist(problem.gram.X, problem.gram.X, "sqeuclidean"))
    rng, screen = np.random.default_rng(5), Screen(Certifier(problem).workspace)
    for share in (0.05, 0.8):
        weights = np.where(rng.random(N) < share, rng.normal(size=N) * 10.0 ** rng.uniform(-4, 4, N), 0.0)
        sums, bound = screen._sums(weights)
        off, there = np.abs(sums - K @ weights), np.isfinite(bound)
        assert (off[there] <= bound[there]).all()
        most = max(1e-4, 8 * (problem.gram.X.shape[1] + 8) * 2.0**-24 * problem.gram.reach)
        assert (bound[there] <= most * (K @ np.abs(weights))[there] + 1e-30).all()
        np.testing.assert_array_equal(there, (weights == 0) | (share < mixed_precision.MAX_PART_WEIGHTED))


@pytest.mark.parametrize("name", ["hinge", "ball", "svr", "no bias"])
def test_errors_within_the_bounds_change_nothing(name, monkeypatch):
    problem = PROBLEMS[name](GRAMS["few features"]())
    rng, kept = np.random.default_rng(2), Screen._sums

    def wrong(self, weights, few=None):
        sums, bound = kept(self, weights, few)
        bound = 3e3 * bound  # this leaves many signs undetermined
        return sums + 0.999 * np.where(np.isfinite(bound), bound, 0.0) * rng.choice([-1.0, 1.0], len(sums)), bound

    monkeypatch.setattr(Screen, "_sums", wrong)
    used = False
    for alpha in starts(problem):
        check(problem, Certifier(problem).certify(alpha), alpha)
        used |= screened(problem, alpha)
    assert used


def test_another_alpha_near_takes_no_other_product(monkeypatch):
    problem = PROBLEMS["hinge"](GRAMS["many"]())
    best = solve(problem, tol=1e-9).alpha
    calls, kept = [], Screen._sums
    monkeypatch.setattr(Screen, "_sums", lambda self, *given: calls.append(len(given)) or kept(self, *given))
    certifier = Certifier(problem)
    check(problem, certifier.certify(best), best)
    assert calls == [2, 1]  # a sample, and all
    rng = np.random.default_rng(3)
    for part in (1e-7, 1e-5):
        near = problem.project(np.where(best > 0, best + part * rng.normal(size=N), 0.0))
        check(problem, certifier.certify(near), near)
    assert calls == [2, 1]
    away = problem.project(np.where(best > 0, 0.5 * best, 0.0))
    check(problem, certifier.certify(away), away)


def test_no_product_is_made_of_a_screened_one():
    """Its entries are valid for their own α alone: updates by changes of α would show false violators."""
    problem = PROBLEMS["hinge"](GRAMS["many"]())
    best = solve(problem, tol=1e-9).alpha
    products = Certifier(problem).products
    other = best.copy()
    other[np.flatnonzero(best)[:2]] *= 0.5
    assert products.changes_little(other - best, best)
    products.of(best)
    assert products.is_screened
    assert not products.changes_little(other - best, other)


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_refinements_end_at_the_optimum_with_errors_within_the_bounds(sign, monkeypatch):
    kept = Screen._sums

    def wrong(self, weights, few=None):
        sums, bound = kept(self, weights, few)
        bound = 300 * bound
        return sums - sign * 0.999 * np.where(np.isfinite(bound), bound, 0.0) * Y, bound

    monkeypatch.setattr(Screen, "_sums", wrong)
    monkeypatch.setattr("dualflow.core.certificate.MIN_VALUES_UPDATED", 1)
    problem = problems.svc(GRAMS["few features"](), Y, 0.3)
    best = solve(problem, tol=1e-9).alpha
    rng, held = np.random.default_rng(7), np.flatnonzero(best == 0.3)
    for _ in range(10):
        start = best.copy()
        start[rng.choice(held, 6, replace=False)] = 0.0
        found = refine(problem, problem.project(start))
        assert found.converged
        check(problem, Certifier(problem).certify(found.alpha), found.alpha)
        assert Certifier(problem).certify(found.alpha).relative_gap <= 1e-12


def test_points_that_lose_their_weight_are_looked_at_again():
    problem = PROBLEMS["hinge"](GRAMS["few features"]())
    best = solve(problem, tol=1e-9).alpha
    certifier = Certifier(problem)
    certifier.certify(best)
    rng, support = np.random.default_rng(4), np.flatnonzero(best)
    for count in (1, 20, 150):
        without = best.copy()
        without[rng.choice(support, count, replace=False)] = 0.0
        without = problem.project(without)
        check(problem, certifier.certify(without), without)


def test_two_variables_of_a_point_may_make_up_for_one_another():
    problem = PROBLEMS["svr"](GRAMS["few features"]())
    alpha = solve(problem, tol=1e-9).alpha.copy()
    both = np.arange(0, N, 3)
    alpha[both] = alpha[both + N] = 0.25  # of which the point's kernel function takes nothing
    alpha = problem.project(alpha)
    certifier = Certifier(problem)
    check(problem, certifier.certify(alpha), alpha)
    found = Screen(certifier.workspace).product(alpha)
    heavy = alpha != 0
    exact = problem.dense() @ alpha
    np.testing.assert_allclose(found[heavy], exact[heavy], atol=1e-12 * np.abs(exact).max())


def test_weights_that_float32_does_not_hold_are_left_to_float64():
    for C in (1e-35, 1e33, 1e60):
        problem = problems.svc(GRAMS["few features"](), Y, C)
        alpha = problem.project(np.where(np.arange(N) < 200, 0.5 * C, 0.0))
        certifier = Certifier(problem)
        with np.errstate(all="raise"):
            certificate = certifier.certify(alpha)
        assert not screened(problem, alpha)
        Qa = problem.dense() @ alpha
        assert certificate.lower_bound == pytest.approx(dual_bound(problem, alpha, Qa)[0], rel=1e-12)


def test_others_are_not_screened():
    X_bits = (np.random.default_rng(6).random((N, 40)) < 0.3).astype(float)
    hard = problems.svc(Gram(X), Y, np.inf)
    least = problems.least_squares(Gram(X), Y, 1.0)
    for problem in (problems.svc(Gram(X_bits), Y), problems.svc(Gram(X, "linear"), Y), hard, least):
        alpha = problem.project(np.where(np.arange(N) < 200, 0.5, 0.0))
        assert not screened(problem, alpha)
