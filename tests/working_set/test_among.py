"""Subproblems over free and nearly free variables, and problems solved from points by way of float32."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_classification, make_moons

from dualflow import Gram, certify, problems, solve
from dualflow.core.workspace import Workspace
from dualflow.direct import from_points
from dualflow.direct.from_points import PointSearch
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum
from dualflow.working_set import dense
from dualflow.working_set.dense import finish_dense, nearly_free, solve_subset
from tests.thresholds import other

X, T = make_moons(400, noise=0.3, random_state=0)
Y = np.where(T == 1, 1.0, -1.0)


@pytest.mark.parametrize("squared", [False, True])
def test_the_end_of_a_few_is_cvxopts_with_all_others_held(squared):
    loss = "squared_hinge" if squared else "hinge"
    problem = problems.svc(Gram(X, gamma=0.5), Y, 3.0, loss=loss)
    rough = solve(problem, "cvxopt", tol=1e-3).alpha
    alpha = problem.project(np.where(rough < 1e-3, 0.0, rough))
    W = np.flatnonzero(np.random.default_rng(0).random(400) < 0.3)
    found, violation, _ = solve_subset(Workspace(problem), alpha, W)
    others = np.setdiff1d(np.arange(400), W)
    np.testing.assert_array_equal(found[others], alpha[others])
    assert violation <= 1e-12
    Q, e = problem.dense(), problem.e
    linear = problem.p[W] - Q[np.ix_(W, others)] @ alpha[others]
    held = QuadraticProgram(Q[np.ix_(W, W)], linear, problem.upper[W], e[W], float(e[W] @ alpha[W]))
    best, _ = coneqp_optimum(held)
    mine = 0.5 * found[W] @ held.Q @ found[W] - linear @ found[W]
    assert mine == pytest.approx(best, rel=1e-8)
    assert e[W] @ found[W] == pytest.approx(e[W] @ alpha[W], abs=1e-12)


def test_pair_updates_are_limited_and_none_are_made_without_variables():
    problem = Workspace(problems.svc(Gram(X, gamma=0.5), Y, 3.0))
    start = np.zeros(400)
    for most in (0, 1, 7):
        _, violation, updates = solve_subset(problem, start, np.arange(400), most)
        assert updates == most
        assert violation > 1e-3
    alpha, violation, updates = solve_subset(problem, start, np.arange(0))
    assert (violation, updates) == (0.0, 0)
    np.testing.assert_array_equal(alpha, start)


@pytest.mark.parametrize("equality", [True, False])
@pytest.mark.parametrize("n", [1, 3, 8, 31, 32, 33, 37, 64, 66, 95, 133, 259, 700])
def test_where_no_bound_is_met_a_leap_is_the_solution_of_the_linear_system(n, equality):
    rng = np.random.default_rng(n)
    points = rng.normal(size=(n, 4))
    M = np.exp(-0.5 * ((points[:, None] - points) ** 2).sum(axis=2)) + 0.1 * np.eye(n)
    gradient, beta, far = rng.normal(size=n), np.zeros(n), np.full(n, 1e3)
    violation, updates = finish_dense(M, gradient.copy(), beta, -far, far, equality)
    assert violation <= 1e-12
    assert updates <= 2
    right = np.append(-gradient, 0.0)
    ones = np.full((n, 1), float(equality))
    system = np.block([[M, ones], [ones.T, np.full((1, 1), float(not equality))]])
    np.testing.assert_allclose(beta, np.linalg.solve(system, right)[:n], rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize(("n", "times", "less"), [(12, 4, 5e-12), (30, 3, 0.0), (20, 5, 5e-11), (25, 4, 2e-11)])
def test_what_is_singular_or_a_little_indefinite_is_factorised_with_more_on_its_diagonal(n, times, less):
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n, 3)).repeat(times, axis=0)  # so that the least eigenvalue is -less
    M = np.exp(-0.5 * ((points[:, None] - points) ** 2).sum(axis=2)) - less * np.eye(len(points))
    gradient, beta, far = rng.normal(size=n).repeat(times), np.zeros(len(points)), np.full(len(points), 1e4)
    _, updates = finish_dense(M, gradient.copy(), beta, -far, far)
    assert updates <= 2
    rest = gradient + M @ beta
    assert np.ptp(rest) <= 1e-10 * np.abs(beta).max()
    assert abs(beta.sum()) <= 1e-12 * np.abs(beta).sum()


def test_the_nearest_are_taken_where_many_are_near(monkeypatch):
    monkeypatch.setattr(dense, "MAX_NEARLY_FREE", 5)
    free = np.zeros(50, dtype=bool)
    free[[3, 40]] = True
    excess = -np.arange(50) / 50.0
    np.testing.assert_array_equal(nearly_free(free, excess, 0.01), [0, 1, 3, 40])  # up to three times as far
    np.testing.assert_array_equal(nearly_free(free, excess, 1.0), [0, 1, 2, 3, 40])
    excess[2] = excess[4] = excess[1]  # of one slack: the first of them
    np.testing.assert_array_equal(nearly_free(free, excess, 1.0), [0, 1, 2, 3, 40])
    free[7] = free[9] = free[11] = True
    np.testing.assert_array_equal(nearly_free(free, excess, 1.0), [3, 7, 9, 11, 40])
    free[:] = True
    assert len(nearly_free(free, excess, 0.0)) == 50


def searched(gram, C, order=None, enough=1e-10, twice=0):
    order, thresholds = np.arange(len(Y)) if order is None else order, other(min_rows_float32=twice)
    return PointSearch(
        gram, order, Y[order], 1.0, np.full(len(order), C), np.zeros(len(order)), 200.0, thresholds
    ), enough


@pytest.mark.parametrize("C", [0.3, 30.0, 1e4])
def test_float32_first_ends_where_float64_does(C):
    gram = Gram(X, gamma=0.5)
    problem = problems.svc(gram, Y, C)
    found = []
    for twice in (0, np.inf):
        search, enough = searched(gram, C, twice=twice)
        assert (search.single is None) == (twice > 0)
        assert search.solve(enough)
        while search.extend(gram.block(np.arange(400), np.arange(400)) @ (Y * search.alpha)):
            pass
        certificate = certify(problem, search.alpha)
        assert certificate.relative_gap <= 1e-10
        found.append(certificate)
    assert found[0].objective == pytest.approx(found[1].objective, rel=1e-10)
    np.testing.assert_array_equal(found[0].alpha == C, found[1].alpha == C)
    np.testing.assert_array_equal(found[0].alpha == 0, found[1].alpha == 0)


def test_a_gap_that_is_met_in_float32_is_the_end(monkeypatch):
    gram = Gram(X, gamma=0.5)
    problem = problems.svc(gram, Y, 1.0)
    gaps = []
    for enough in (1e-2, 1e-10):
        search, _ = searched(gram, 1.0)
        search.solve(enough)
        gaps.append(certify(problem, search.alpha).relative_gap)
        assert (len(search.subproblem) > 0) == (enough < 1e-3)
    assert 1e-9 < gaps[0] <= 1e-2
    assert gaps[1] <= 1e-10
    monkeypatch.setattr(from_points, "TRUSTED_GAP_SHARE", 0.0)  # which is not believed
    search, _ = searched(gram, 1.0)
    search.solve(1e-2)
    assert certify(problem, search.alpha).relative_gap <= 1e-10


def test_the_gap_that_float32_sees_is_about_the_certificates(monkeypatch):
    monkeypatch.setattr(from_points, "MIN_KKT_FLOAT32", 0.05)
    gram = Gram(X, gamma=0.5)
    search, _ = searched(gram, 1.0)
    search.solve(np.inf)
    G = gram.block(np.arange(400), np.arange(400)) @ (Y * search.alpha) - Y
    theirs = certify(problems.svc(gram, Y, 1.0), search.alpha).relative_gap
    assert theirs > 1e-4
    assert theirs <= search._gap(G) * (1 + 1e-9)
    assert search._gap(G) <= 5 * theirs


def test_all_variables_at_bounds_leave_no_subproblem():
    """Two classes so far apart, and C so small, that everybody is at the bound."""
    points, labels = make_classification(600, 20, class_sep=3.0, random_state=0)
    signs = np.where(labels == 1, 1.0, -1.0)[:600]
    order = np.concatenate([np.flatnonzero(signs > 0)[:290], np.flatnonzero(signs < 0)[:290]])
    gram = Gram(points, gamma=0.01)
    search = PointSearch(gram, order, signs[order], 1.0, np.full(580, 1e-3), np.zeros(580), np.inf)
    assert search.single is not None
    assert search.solve(1e-10)
    np.testing.assert_array_equal(search.alpha, 1e-3)
