"""Interior-point steps and Newton steps in place of pair updates that crawl, against scikit-learn and certificates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn import svm

from dualflow import SVC, SVR, Gram, certify, problems
from dualflow.direct import low_rank, pairs, whole
from dualflow.direct.low_rank import solve_low_rank, suits_low_rank, updates_like_steps
from dualflow.direct.pairs import solve_directly
from dualflow.direct.strategy import USUAL
from dualflow.direct.whole import solve_whole


def rare(n, d, seed=0):
    """Points of which one in twenty-five is of the second class, whatever the points are."""
    rng = np.random.default_rng(seed)
    y = np.full(n, -1.0)
    y[rng.choice(n, n // 25, replace=False)] = 1.0
    return rng.standard_normal((n, d)), y


def regression(n, d, seed=0):
    """Points and smooth targets with noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    score = X @ rng.standard_normal(d)
    return X, np.sin(2.0 * score / score.std()) + 0.5 * rng.standard_normal(n)


@pytest.mark.parametrize("offset", [0.0, 100.0])
@pytest.mark.parametrize(("n", "d", "C"), [(150, 2, 0.1), (700, 3, 0.01)])
def test_two_classes_reach_the_minimum_that_libsvm_approaches(n, d, C, offset):
    X, y = rare(n, d)
    problem = problems.svc(Gram(X + offset, "linear"), y, C)
    assert suits_low_rank(problem)
    found = solve_low_rank(problem, 1e-10, 1e-6)
    known = certify(problem, found.certificate.alpha)
    assert known.relative_gap <= 1e-10
    assert found.certificate.bias == pytest.approx(known.bias, abs=1e-6 * (1 + offset))
    theirs = svm.SVC(kernel="linear", C=C, tol=1e-6, max_iter=10**6).fit(X, y)
    assert known.objective == pytest.approx(-np.abs(theirs.dual_coef_).sum() + 0.5 * (theirs.coef_**2).sum(), rel=1e-6)


def test_a_regression_reaches_the_minimum_that_libsvm_approaches():
    X, y = regression(120, 20)
    problem = problems.svr(Gram(X, "linear"), y, C=0.01)
    found = solve_low_rank(problem, 1e-10, 1e-6)
    known = certify(problem, found.certificate.alpha)
    assert known.relative_gap <= 1e-10
    theirs = svm.SVR(kernel="linear", C=0.01, tol=1e-6, max_iter=10**6).fit(X, y)
    weights = theirs.dual_coef_[0]
    linear = weights @ y[theirs.support_] - 0.1 * np.abs(weights).sum()
    assert known.objective == pytest.approx(0.5 * (theirs.coef_**2).sum() - linear, rel=1e-6)


def test_steps_follow_where_pair_updates_take_as_long(monkeypatch):
    X, y = rare(300, 1)
    calls, honest = [], low_rank.interior_minimiser

    def counted(*given):
        calls.append(1)
        return honest(*given)

    monkeypatch.setattr(low_rank, "interior_minimiser", counted)
    problem = problems.svc(Gram(X, "linear"), y, 1000.0)
    by_updates = solve_directly(problem, 1e-6, True).certificate
    assert not calls
    monkeypatch.setattr(pairs, "updates_like_steps", lambda *given: 20)
    by_steps = solve_directly(problem, 1e-6, True).certificate
    assert calls == [1]
    assert max(by_updates.relative_gap, by_steps.relative_gap) <= 1e-10
    assert by_steps.objective == pytest.approx(by_updates.objective, rel=1e-9)


def test_pairs_of_classes_that_crawl_stay_in_their_batch(monkeypatch):
    X, _ = rare(240, 2)
    y = np.random.default_rng(1).integers(3, size=240)
    monkeypatch.setattr(pairs, "updates_like_steps", lambda *given: 20)
    fitted = SVC(kernel="linear", C=10.0).fit(X, y)
    assert [solution.provenance["strategy"] for solution in fitted.solutions_] == ["batch"] * 3
    for solution in fitted.solutions_:
        assert certify(solution.problem, solution.alpha).relative_gap <= 1e-10
    monkeypatch.setattr(pairs, "interior_minimiser", lambda *given: None)
    left = SVC(kernel="linear", C=10.0).fit(X, y)
    assert "batch" not in {solution.provenance["strategy"] for solution in left.solutions_}


def test_a_wide_regression_that_took_minutes_is_solved_directly():
    X, y = regression(200, 60)
    fitted = SVR(kernel="linear", C=100.0).fit(X, y)
    assert fitted.solution_.provenance["strategy"] == "direct"
    assert certify(fitted.solution_.problem, fitted.solution_.alpha).relative_gap <= 1e-10


def test_no_more_columns_than_points_and_no_infinite_bounds():
    X, y = rare(60, 80)
    assert not suits_low_rank(problems.svc(Gram(X, "linear"), y, 1.0))
    assert not suits_low_rank(problems.svc(Gram(X[:, :5], "rbf"), y, 1.0))
    assert not suits_low_rank(problems.svc(Gram(X[:, :5], "linear"), y, np.inf))
    assert suits_low_rank(problems.svc(Gram(X[:, :5], "linear"), y, 1.0))


def test_columns_whose_steps_take_too_long_are_left_to_other_ways():
    X, y = rare(60, 20)
    problem = problems.svc(Gram(X, "linear"), y, 1.0)
    assert suits_low_rank(problem, replace(USUAL, max_rank_work=60 * 20.0**2))
    assert not suits_low_rank(problem, replace(USUAL, max_rank_work=60 * 20.0**2 - 1))


def test_more_columns_allow_more_updates_and_more_variables_fewer():
    assert updates_like_steps(100, 500, 500) > updates_like_steps(10, 500, 500) > updates_like_steps(10, 500, 1000)


def test_newton_steps_of_all_free_variables_follow_where_pair_updates_crawl(monkeypatch):
    X, y = regression(100, 120)
    problem = problems.svr(Gram(X, "linear"), y, C=10.0)
    few = replace(USUAL, max_whole_updates=1)
    monkeypatch.setattr(whole, "suits_newton", lambda *given: False)
    found = solve_whole(problem, 1e-10, 1e-6, few)
    assert certify(problem, found.certificate.alpha).relative_gap <= 1e-10
    monkeypatch.setattr(whole, "MAX_NEWTON_ROUNDS", 0)
    assert solve_whole(problem, 1e-10, 1e-6, few) is None


def test_a_margin_for_round_off_closes_the_gap_of_a_tube(monkeypatch):
    X, y = regression(100, 300)
    problem = problems.svr(Gram(X, "linear"), y, C=1e5)
    found = solve_whole(problem, 1e-10, 1e-6)
    assert certify(problem, found.certificate.alpha).relative_gap <= 1e-10
    monkeypatch.setattr(whole, "_margin", lambda best: 0.0)
    without = solve_whole(problem, 1e-10, 1e-6)
    assert without is None or without.certificate.relative_gap > 10 * found.certificate.relative_gap


def test_copies_of_one_point_are_pairs_of_a_batch():
    y = np.repeat([0, 1, 2], [20, 25, 30])
    fitted = SVC(kernel="linear").fit(np.ones((75, 1)), y)
    assert [solution.provenance["strategy"] for solution in fitted.solutions_] == ["batch"] * 3
    for solution in fitted.solutions_:
        assert certify(solution.problem, solution.alpha).relative_gap <= 1e-12


def test_constants_of_all_points_follow_their_order():
    X, _ = rare(40, 6)
    gram = Gram(X + 5.0, "linear").centred()
    order = np.random.default_rng(0).permutation(40)
    expected = (X - X.mean(axis=0)) @ (X + 5.0).mean(axis=0)
    np.testing.assert_allclose(gram.constants(order), expected[order], atol=1e-10)
    np.testing.assert_allclose(gram.constants(order[:7]), expected[order[:7]], atol=1e-10)
