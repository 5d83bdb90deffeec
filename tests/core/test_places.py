"""Sums of each place: certificates where the variables of equal points nearly cancel, against exact arithmetic."""

from fractions import Fraction

import numpy as np
import pytest

from dualflow import Gram, certify, problems, solve
from dualflow.core import certificate as certificates
from dualflow.core.places import few_distinct, places_of

rng = np.random.default_rng(7)
X = rng.integers(0, 2, size=(6000, 5)).astype(float)
Y = np.where((X.sum(axis=1) > 2) ^ (rng.random(len(X)) < 0.3), 1, -1)
GRAM = Gram(X, gamma=0.4)


def exact_gap(problem, alpha, nu):
    """Return the relative gap with the sums of each place as fractions, and the rest in extended precision."""
    bits = X.astype(int) @ (1 << np.arange(5))
    sums = [sum((Fraction(a) for a in (alpha * problem.sigma)[bits == place]), Fraction(0)) for place in range(32)]
    points = (np.arange(32)[:, None] >> np.arange(5)) & 1
    K = np.exp(np.longdouble(-0.4) * (points[:, None, :] != points).sum(axis=2).astype(np.longdouble))
    w = np.array([np.longdouble(s.numerator) / np.longdouble(s.denominator) for s in sums])
    values = (K @ w)[bits] - np.longdouble(nu)
    square, total = w @ K @ w, np.longdouble(float(sum(map(Fraction, alpha))))
    f = square / 2 - total
    slack = np.maximum(1 - problem.sigma * values, 0)
    bound = -square / 2 - (problem.upper * slack).sum() - np.longdouble(nu) * w.sum()
    return float((f - bound) / abs(f))


@pytest.mark.parametrize("C", [1e4, 1e5, 1e6])
def test_points_of_both_labels_have_a_certificate_at_large_costs(C):
    problem = problems.svc(GRAM, Y, C=C)
    found = solve(problem, refine=True)
    made = found.certificate
    assert made.within(1e-9)
    assert ((found.alpha >= 0) & (found.alpha <= problem.upper)).all()
    exact = exact_gap(problem, found.alpha, made.multiplier)
    assert abs(exact - made.relative_gap) <= made.relative_rounding + 1e-13
    again = certify(problem, found.alpha)
    assert again.within(1e-9)
    assert again.objective == pytest.approx(made.objective, rel=1e-13)


def test_the_product_is_that_of_a_dense_matrix():
    alpha = rng.uniform(0, 3, 300)
    for intercept in (True, False):
        problem = problems.svc(Gram(X[:300], gamma=0.4), Y[:300], C=3.0, fit_intercept=intercept)
        product, reach = places_of(problem).product(alpha)
        np.testing.assert_allclose(product, problem.dense() @ alpha, rtol=1e-12, atol=1e-12)
        assert 0 < reach < np.abs(alpha).sum()


def test_rounding_moves_no_answer_that_is_not_optimal():
    problem = problems.svc(GRAM, Y, C=1e4)
    alpha = problem.project(rng.uniform(0, 1e4, len(X)))
    np.testing.assert_array_equal(places_of(problem).rounded(alpha), alpha)


def test_only_bounded_problems_of_few_places_have_them():
    distinct = Gram(rng.standard_normal((2000, 3)))
    assert places_of(problems.svc(distinct, np.where(np.arange(2000) % 2, 1, -1))) is None
    assert places_of(problems.svc(Gram(X, "linear"), Y)) is None
    assert places_of(problems.svc(GRAM, Y, loss="squared_hinge")) is None
    assert few_distinct(X, 0.5)
    assert not few_distinct(distinct.X, 0.5)


def test_a_certificate_of_an_unfinished_run_is_made_as_before(monkeypatch):
    problem = problems.svc(GRAM, Y, C=1e6)
    monkeypatch.setattr(certificates, "places_of", lambda *given: pytest.fail("places are looked for"))
    assert certify(problem, np.zeros(len(X))).relative_gap > 0.1
