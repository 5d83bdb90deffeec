"""Problems of few variables, solved over the whole kernel matrix of their points without a run."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import make_classification
from sklearn.svm import SVC

from dualflow import Gram, certify, problems, solve
from dualflow.core import pair_certificate
from dualflow.direct import pairs, whole
from dualflow.direct.pairs import solve_directly
from dualflow.direct.strategy import USUAL
from dualflow.direct.whole import solve_whole, suits_whole

#: Thresholds with which no problem is solved over its whole matrix.
WITHOUT = replace(USUAL, max_whole_variables=0, max_whole_variables_wide=0)


def points(n=60, m=4, seed=0):
    return np.random.default_rng(seed).standard_normal((n, m))


def targets(X, seed=1):
    noise = np.random.default_rng(seed).standard_normal(len(X))
    return np.sin(2.0 * X[:, 0]) + 0.3 * noise


def labels(X, seed=1):
    return np.where(targets(X, seed) > 0, 1.0, -1.0)


def posed(name, kernel, C=10.0):
    X = points()
    gram, y = Gram(X, kernel, coef0=0.5), labels(X)
    return {
        "tube": lambda: problems.svr(gram, targets(X), C),
        "weighted tube": lambda: problems.svr(gram, targets(X), C, sample_weight=np.linspace(0.0, 2.0, len(X))),
        "one class": lambda: problems.one_class(gram, 0.3),
        "ball": lambda: problems.svdd(gram, 0.3),
        "hard ball": lambda: problems.svdd(gram),
        "no intercept": lambda: problems.svc(gram, y, C, fit_intercept=False),
        "penalised": lambda: problems.svc(gram, y, C, fit_intercept="penalised"),
        "squared hinge": lambda: problems.svc(gram, y, C, loss="squared_hinge"),
    }[name]()


MODELS = ("tube", "weighted tube", "one class", "ball", "hard ball", "no intercept", "penalised", "squared hinge")


@pytest.mark.parametrize("kernel", ["linear", "poly", "rbf"])
@pytest.mark.parametrize("name", MODELS)
def test_the_optimum_is_that_of_an_interior_point_method(name, kernel):
    problem = posed(name, kernel)
    assert suits_whole(problem)
    found = solve_whole(problem, 1e-10, 1e-6)
    assert found is not None
    wanted = solve(problem, "interior-point", refine=True, tol=1e-9).certificate
    anew = certify(problem, found.certificate.alpha)  # by kernel values of its own
    scale = abs(wanted.objective) + 1e-9
    assert abs(found.certificate.objective - wanted.objective) <= 1e-8 * scale
    assert anew.relative_gap <= 1e-9
    assert found.certificate.bias == pytest.approx(anew.bias, rel=1e-6, abs=1e-6)
    if problem.e is not None:
        assert found.certificate.multiplier == pytest.approx(anew.multiplier, rel=1e-6, abs=1e-6)
    np.testing.assert_array_equal(found.support(problem), solve(problem, "working-set", refine=True).support)


@pytest.mark.parametrize("name", ["tube", "one class"])
def test_a_fit_is_direct_and_a_run_has_the_same_optimum(name):
    problem = posed(name, "poly")
    assert solve(problem, refine=True).provenance["strategy"] == "direct"
    assert solve_directly(problem, 1e-6, True, WITHOUT) is None
    run = solve(problem, refine=True, warm=np.zeros(problem.n))  # a start rules direct methods out
    assert run.provenance["strategy"] != "direct"
    np.testing.assert_allclose(solve(problem, refine=True).alpha, run.alpha, atol=1e-7)


def test_a_bound_that_vanishes_is_reached_by_the_shortest_step():
    """0 lies in the hull of the points, so f is 0 at many α; pair updates leave their rounding errors."""
    for seed in range(5):
        problem = problems.one_class(Gram(points(200, 3, seed), "linear"), 0.1)
        found = solve_whole(problem, 1e-10, 1e-6)
        assert found is not None
        assert found.certificate.relative_gap == 0.0
        assert certify(problem, found.certificate.alpha).relative_gap == 0.0


def test_newton_steps_finish_where_pair_updates_crawl():
    X = points(300, 40)
    problem = problems.svr(Gram(X, "poly", coef0=1.0), targets(X), 1e4)
    few = replace(USUAL, max_whole_updates=3)
    found = solve_whole(problem, 1e-10, 1e-6, few)
    assert found is not None
    assert certify(problem, found.certificate.alpha).relative_gap <= 1e-9
    assert solve_whole(problem, 1e-10, 1e-6, replace(few, max_free_polished=0)) is None


def test_points_with_equal_kernel_values_are_left_to_a_run():
    """All kernel values of a polynomial far from the origin have the same leading digits."""
    X = 1e5 + points()
    assert solve_whole(problems.svr(Gram(X, "poly", gamma=1.0), targets(X)), 1e-10, 1e-6) is None


def test_only_few_variables_suit():
    X = points(700, 2)
    assert not suits_whole(problems.svr(Gram(X), targets(X)))
    wide = points(700, 130)
    assert suits_whole(problems.svr(Gram(wide), targets(wide)))
    assert not suits_whole(problems.nu_svr(Gram(points()), targets(points())))


@pytest.mark.parametrize("n", [50, 1100])
def test_sparse_points_and_large_matrices_give_the_optimum(n):
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((n, 2000), density=0.01, format="csr", random_state=rng)
    z = X.sum(axis=1) + 0.1 * rng.standard_normal(n)
    problem = problems.svr(Gram(X), z, 10.0)
    found = solve_whole(problem, 1e-10, 1e-6)
    assert found is not None
    assert certify(problem, found.certificate.alpha).relative_gap <= 1e-9
    dense = solve_whole(problems.svr(Gram(X.toarray()), z, 10.0), 1e-10, 1e-6)
    assert found.certificate.objective == pytest.approx(dense.certificate.objective, rel=1e-9)


@pytest.mark.parametrize(("nu", "suits"), [(0.05, False), (0.6, True)])
def test_a_sample_says_whether_a_large_matrix_pays(nu, suits):
    gram = Gram(points(1400, 150), gamma=1e-3)
    assert suits_whole(problems.one_class(gram, nu)) is suits


def test_a_sample_of_a_tube_has_both_variables_of_each_point():
    X = points(1400, 150)
    assert suits_whole(problems.svr(Gram(X), targets(X), epsilon=0.01))
    assert not suits_whole(problems.svr(Gram(X), targets(X), epsilon=10.0))


def test_margins_that_round_off_leaves_below_1_are_stretched(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.integers(0, 12, size=(230, 98)).astype(float)
    y = np.where(rng.standard_normal(230) > 0, 1.0, -1.0)
    problem = problems.svc(Gram(X, "poly"), y, 1e4)
    found = solve_whole(problem, 1e-10, 1e-6)
    assert certify(problem, found.certificate.alpha).relative_gap <= 1e-10
    monkeypatch.setattr("dualflow.direct.whole._stretched", lambda best: None)
    monkeypatch.setattr("dualflow.direct.whole._margin", lambda best: 0.0)
    unstretched = solve_whole(problem, 1e-10, 1e-6)
    assert unstretched is None or unstretched.certificate.relative_gap > 1e-10


def test_pair_updates_end_where_no_sharer_of_many_can_gain():
    """d is shared by 400, each of which moves its gradient by a small part of the unit: the tolerance is that part. A
    Newton step over all of them took twice as long as the pair updates."""
    problem = problems.one_class(Gram(np.random.default_rng(0).integers(0, 2, size=(1200, 60)) - 0.5, "poly"), 0.35)
    found = solve_whole(problem, 1e-11, 1e-6, replace(USUAL, max_free_polished=0))
    assert found is not None
    assert 0.0 <= certify(problem, found.certificate.alpha).relative_gap <= 1e-11


@pytest.mark.parametrize("has_equality", [True, False])
def test_the_newton_step_of_many_free_variables_ends_at_the_minimum_or_at_the_first_bound(has_equality):
    rng = np.random.default_rng(3)
    n, free = 60, np.arange(5, 50)
    A = rng.normal(size=(n, n + 10))
    M, ep, beta = A @ A.T / n, rng.normal(size=n), rng.normal(size=n)
    slots = np.arange(n)

    def moved(bound):
        scaled = SimpleNamespace(beta=beta.copy(), low=np.full(n, -bound), high=np.full(n, bound))
        whole._move_free(M, slots, M @ beta - ep, scaled, has_equality, free)
        return scaled.beta

    far = moved(1e6)
    gradient = (M @ far - ep)[free]
    assert np.allclose(gradient, gradient.mean() if has_equality else 0.0, rtol=0, atol=1e-9)
    assert not has_equality or abs(far.sum() - beta.sum()) < 1e-9
    assert np.array_equal(np.delete(far, free), np.delete(beta, free))

    assert np.abs(far[free]).max() > np.abs(beta).max()
    bound = 0.5 * (np.abs(far[free]).max() + np.abs(beta).max())
    near = moved(bound)
    assert np.abs(near).max() == bound
    step, whole_step = near - beta, far - beta
    share = step[free] @ whole_step[free] / (whole_step @ whole_step)
    assert 0 < share < 1
    assert np.allclose(step, share * whole_step, rtol=0, atol=1e-9)


def test_many_free_variables_of_a_wide_pair_need_few_updates_after_a_newton_step(monkeypatch):
    X, y = make_classification(1500, 70, n_informative=70, n_redundant=0, class_sep=0.3, random_state=0)
    problem = problems.svc(Gram(X, "rbf"), np.where(y > 0, 1.0, -1.0), C=1.0)
    updates = []

    def counted(*arguments):
        found = solve_pairs(*arguments)
        if len(arguments[3]) == 1500:
            updates.append(found[0])
        return found

    solve_pairs = whole.solve_pairs
    monkeypatch.setattr(whole, "solve_pairs", counted)
    found = whole.solve_whole(problem, 1e-10, 1e-6)
    assert ((found.alpha > 0) & (found.alpha < 1)).sum() > whole.MAX_FREE_NEWTON
    assert found.certificate.relative_gap < 1e-12
    assert len(updates) >= 2
    assert sum(updates[1:]) < 0.1 * updates[0]


def test_points_that_nearly_repeat_are_solved_over_the_whole_matrix():
    """A run leaves a gap of 7e-7 here."""
    rng = np.random.default_rng(3)
    places = rng.standard_normal((70, 20))
    at = rng.integers(70, size=1400)
    X, y = places[at] + 1e-6 * rng.standard_normal((1400, 20)), np.where(places[at, 0] > 0, 1.0, -1.0)
    problem = problems.svc(Gram(X, "poly", gamma=0.05), y, 1000.0)
    assert suits_whole(problem)
    assert not suits_whole(problem, replace(USUAL, min_share_near=1.1))
    solution = solve(problem, refine=True)
    reference = SVC(kernel="poly", gamma=0.05, C=1000.0, tol=1e-9).fit(X, y)
    own = certify(problem, dense_multipliers(reference, len(X)))
    assert solution.provenance["strategy"] == "direct"
    assert certify(problem, solution.alpha).relative_gap <= 1e-9
    assert solution.certificate.objective == pytest.approx(own.objective, rel=1e-7)


def dense_multipliers(fitted, n):
    alpha = np.zeros(n)
    alpha[fitted.support_] = np.abs(fitted.dual_coef_[0])
    return alpha


@pytest.mark.parametrize(("features", "C"), [(40, 1e4), (100, 1e4)])  # from the points, and from kernel blocks
def test_newton_steps_begin_where_a_pair_misses_its_tolerance(features, C, monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((250, features)), np.where(rng.standard_normal(250) > 0, 1.0, -1.0)
    problem = problems.svc(Gram(X), y, C)
    tight = 0.1 * solve_directly(problem, 1e-6, True).certificate.relative_gap  # a gap that the pair cannot reach
    monkeypatch.setattr(pair_certificate, "MAX_GAP_WITHIN_ROUNDING", 0.0)  # nor is it accepted as round-off
    refined = []

    def counted(*arguments):
        refined.append(1)
        return solve_whole(*arguments)

    monkeypatch.setattr(pairs, "_stretch", lambda *given: False)
    monkeypatch.setattr(pairs, "solve_whole", counted)
    monkeypatch.setattr(whole, "_minimise", None)
    monkeypatch.setattr(pairs, "MAX_GAP_UNREFINED", tight)
    solve_directly(problem, 1e-6, True)
    assert refined == [1]
