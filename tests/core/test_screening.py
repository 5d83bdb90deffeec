"""Certificates from float32 screening against those in float64 throughout."""

import numpy as np
import pytest
from sklearn.datasets import make_classification

from dualflow import Gram, certify, problems, solve
from dualflow.core.active_set import ActiveSet
from dualflow.core.screening import change_in_single, product_from_below

X, T = make_classification(600, 100, n_informative=10, class_sep=2.0, random_state=0)
Y = 2.0 * T - 1
PROBLEMS = {
    "hinge": lambda g: problems.svc(g, Y, 1.0),
    "no bias": lambda g: problems.svc(g, Y, 1.0, fit_intercept=False),
    "weighted": lambda g: problems.svc(g, Y, 1.0, sample_weight=np.linspace(0.5, 2.0, 600)),
    "ball": lambda g: problems.svdd(g, 0.1),
    "svr": lambda g: problems.svr(g, np.sin(X[:, 0]), 1.0, epsilon=0.5),
}


@pytest.fixture
def screened(monkeypatch):
    monkeypatch.setattr("dualflow.core.kernels.ESTIMATE_FROM", 100)
    monkeypatch.setattr("dualflow.core.screening.MOST", 0.95)


# The optimum, and a point short of it; seven tenths of a ball have, projected, weight everywhere and spare nobody.
@pytest.mark.parametrize(
    ("name", "share"), [*((name, 1.0) for name in PROBLEMS), *((n, 0.7) for n in PROBLEMS if n != "ball")]
)
def test_certificates_are_the_same_and_never_claim_more(name, share, screened, monkeypatch):
    reference = PROBLEMS[name](Gram(X, gamma=0.005))
    monkeypatch.setattr("dualflow.core.kernels.ESTIMATE_FROM", 10**9)
    alpha = share * solve(reference, "working-set", refine=True).alpha
    expected = certify(reference, alpha)
    monkeypatch.setattr("dualflow.core.kernels.ESTIMATE_FROM", 100)
    problem = PROBLEMS[name](Gram(X, gamma=0.005))
    product = product_from_below(problem, expected.alpha)
    exact = reference.matvec(expected.alpha)
    weighty = expected.alpha > 0
    assert len(problem.screened) == 1
    assert (product <= exact + 1e-12).all()
    np.testing.assert_allclose(product[weighty], exact[weighty], rtol=1e-12, atol=1e-12)
    assert np.any(product < exact - 1e-6)  # somebody was spared
    found = certify(problem, alpha)
    size = abs(expected.objective)
    assert found.objective == pytest.approx(expected.objective, rel=1e-12)
    assert found.lower_bound <= expected.lower_bound + 1e-12 * size
    # Short of the optimum ν is not the one the screening took, and a few estimates less their error take part.
    assert found.lower_bound == pytest.approx(expected.lower_bound, abs=(1e-9 if share == 1 else 1e-4) * size)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_whole_solve_ends_at_the_same_optimum(name, screened):
    problem = PROBLEMS[name](Gram(X, gamma=0.005))
    solution = solve(problem, "working-set", refine=True, hand_over=True)
    assert len(problem.screened) > 0
    assert solution.certificate.relative_gap <= 1e-9
    dense = problem.dense()
    alpha = solution.alpha
    rho = dense @ alpha - problem.p
    if problem.e is not None:
        rho -= solution.certificate.multiplier * problem.e
    assert (rho[alpha <= 0] >= -1e-9).all()
    assert (rho[alpha >= problem.upper] <= 1e-9).all()
    free = (alpha > 0) & (alpha < problem.upper)
    assert np.abs(rho[free]).max(initial=0.0) <= 1e-9


def test_few_points_and_unbounded_duals_are_done_in_float64(screened):
    for problem in (
        problems.svc(Gram(X, gamma=0.005), Y, np.inf),
        problems.least_squares(Gram(X, gamma=0.005), Y, 1.0),
        problems.svc(Gram(X, kernel="linear"), Y, 1.0),
    ):
        alpha = problem.project(np.ones(600))
        np.testing.assert_array_equal(product_from_below(problem, alpha), problem.matvec(alpha))
        assert len(problem.screened) == 0


@pytest.mark.parametrize("name", PROBLEMS)
def test_changes_in_single_are_within_their_bound(name):
    problem, rng = PROBLEMS[name](Gram(X[:, :20], gamma=0.02)), np.random.default_rng(2)
    v = np.where(rng.random(problem.n) < 0.3, rng.normal(size=problem.n), 0.0)
    rows = np.flatnonzero(rng.random(problem.n) < 0.5)
    assert problem.gram.sums_in_single
    found, error = change_in_single(problem, v, rows)
    off = np.abs(found - problem.product(v, rows))
    assert 0 < off.max() <= error <= 1e-4 * problem.scale * np.abs(v).sum()
    assert not Gram(X, gamma=0.02).sums_in_single  # many features
    assert not Gram(X[:, :20] * 100, gamma=0.02).sums_in_single  # float32 is not safe


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_refinements_gradient_is_exact_where_it_matters(name, monkeypatch):
    """From a start halfway: exact with weight or a multiplier that is not positive, else certainly not too high."""
    monkeypatch.setattr("dualflow.core.active_set._SPARES_FROM", 1)
    problem = PROBLEMS[name](Gram(X[:, :20], gamma=0.02))
    start = solve(problem, "working-set", kkt_tol=1e-1, gap_tol=1e-1).raw_alpha
    search = ActiveSet(problem, start, start, 10**4, None)
    search.run()
    assert search.converged
    assert len(problem.screened) > 0
    exact = problem.dense() @ search.alpha - problem.p
    np.testing.assert_allclose(product_from_below(problem, search.alpha) - problem.p, search.h, rtol=0, atol=1e-14)
    off, size = exact - search.h, np.abs(exact).max()
    matters = (search.alpha > 0) | (search.multipliers(exact) <= 0)
    assert np.abs(off[matters]).max() <= 1e-12 * size
    assert off.min() >= -1e-12 * size
    assert off.max() > 1e-9 * size  # somebody was spared
    assert certify(problem, search.alpha).relative_gap <= 1e-9
