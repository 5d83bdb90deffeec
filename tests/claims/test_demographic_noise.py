"""The flow with demographic noise: its stationary distribution against quadrature, and its limits."""

import numpy as np
import pytest

from dualflow import Gram, Workspace, problems, solve
from dualflow.core.factored import FactoredWorkspace, factor_of
from dualflow.exceptions import ProblemError
from dualflow.flows.demographic import DemographicFlow, _implicit_angle
from dualflow.flows.gradient import GradientField
from tests.combinations import often

TWO = problems.svc(Gram([[1.0, 0.3], [2.0, -0.5]], "linear"), [-1, 1], C=1.0, fit_intercept=False)


def by_quadrature(flow, cells=400):
    """Mean and covariance of α of two variables; midpoints in θ, dα = ½u sin θ dθ."""
    middle = (np.arange(cells) + 0.5) * np.pi / cells
    theta = np.stack(np.meshgrid(middle, middle, indexing="ij"), -1).reshape(-1, 2)
    alpha = flow.alpha(theta)
    log_p = flow.log_density(alpha) + np.log(np.sin(theta)).sum(axis=1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    mean = p @ alpha
    return mean, ((alpha - mean) * p[:, None]).T @ (alpha - mean)


def sampled(flow, runs, h, burn, time, seed):
    """Means of α over independent runs, one for each time unit after ``burn``, shape (time, runs, n)."""
    theta, rng, rows = flow.start(runs), np.random.default_rng(seed), []
    for k in range(round((burn + time) / h)):
        theta = flow.step(theta, h, rng)
        if k >= burn / h and k % round(1 / h) == 0:
            rows.append(flow.alpha(theta))
    return np.array(rows)


@pytest.mark.parametrize(("temperature", "mutation"), often([(0.1, 0.1), (0.1, 0.3), (1.0, 1.0)], (0.1, 0.3)))
def test_the_stationary_distribution_is_the_computed_one(temperature, mutation):
    """Mean and covariance within 4 σ, σ from independent runs; explicit steps miss the mean by 9 to 30 σ."""
    flow = DemographicFlow(TWO, temperature, mutation)
    mean, covariance = by_quadrature(flow)
    rows = sampled(flow, 2000, 0.02, burn=10, time=10, seed=1)
    of_runs = rows.mean(axis=0)  # runs are independent of each other, times are not
    error = of_runs.std(axis=0, ddof=1) / np.sqrt(len(of_runs))
    assert (np.abs(of_runs.mean(axis=0) - mean) <= 4 * error).all()
    squares = ((rows - mean)[..., :, None] * (rows - mean)[..., None, :]).mean(axis=0)
    error = squares.std(axis=0, ddof=1) / np.sqrt(len(squares))
    assert (np.abs(squares.mean(axis=0) - covariance) <= 4 * error).all()


def test_its_density_over_cells_is_the_computed_one():
    """χ² of α₂ in ten cells of equal probability, of independent runs: below the 99.9 % quantile of χ²(9)."""
    flow = DemographicFlow(TWO, 0.1)
    grid = (np.arange(1000) + 0.5) / 1000
    alpha = np.stack(np.meshgrid(grid, grid, indexing="ij"), -1).reshape(-1, 2)
    log_p = flow.log_density(alpha)
    p = np.exp(log_p - log_p.max()).reshape(1000, 1000).sum(axis=0)
    edges = np.interp(np.arange(1, 10) / 10, np.cumsum(p) / p.sum(), grid + 0.0005)
    last = sampled(flow, 4000, 0.02, burn=10, time=1, seed=2)[0, :, 1]
    counts = np.bincount(np.searchsorted(edges, last), minlength=10)
    assert ((counts - 400) ** 2 / 400).sum() < 27.88


def test_with_mutation_as_large_as_the_temperature_the_density_is_gibbs():
    flow = DemographicFlow(TWO, 0.2)
    alpha = np.random.default_rng(0).uniform(0.1, 0.9, (5, 2))
    f = np.array([TWO.objective(one) for one in alpha])
    np.testing.assert_allclose(flow.log_density(alpha), -f / 0.2, rtol=1e-12)
    assert flow.log_density(alpha[0]) == pytest.approx(-f[0] / 0.2)


def test_without_noise_it_is_the_gradient_flow():
    """A small step at a small temperature moves α by h times the field."""
    flow, h = DemographicFlow(TWO, 1e-12), 1e-5
    theta = np.array([[0.7, 2.0]])
    moved = (flow.alpha(flow.step(theta, h, np.random.default_rng(0))) - flow.alpha(theta))[0] / h
    np.testing.assert_allclose(moved, GradientField(TWO).rate(0.0, flow.alpha(theta)[0]), atol=1e-3)
    assert np.abs(moved).max() > 0.05


@pytest.mark.slow
def test_each_species_adds_its_share_of_the_temperature():
    """As T → 0 a variable at a bound adds T to the mean of f, and a free one T/2: within 4 σ plus a tenth."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.sign(X[:, 0] + 0.5 * rng.normal(size=40))
    problem = problems.svc(Gram(X, "linear"), y, C=1.0, fit_intercept=False)
    best = solve(problem, refine=True).alpha
    free = int(((best > 0) & (best < 1)).sum())
    expected = (40 - free) + 0.5 * free
    T = 1e-3
    flow = DemographicFlow(Workspace(problem), T)
    rows = sampled(flow, 100, 0.02, burn=40, time=20, seed=0)
    excess = np.array([[problem.objective(one) for one in row] for row in rows]).mean(axis=0) - problem.objective(best)
    error = excess.std(ddof=1) / np.sqrt(len(excess)) / T
    assert abs(excess.mean() / T - expected) <= 4 * error + 0.1 * expected


def test_a_factor_gives_the_same_fitness():
    X = np.random.default_rng(0).normal(size=(50, 3))
    problem = problems.svc(Gram(X, "linear"), np.where(X[:, 0] > 0, 1.0, -1.0), fit_intercept=False)
    factored = FactoredWorkspace(Workspace(problem), factor_of(problem, 3))
    alpha = np.random.default_rng(1).uniform(size=(4, 50))
    np.testing.assert_allclose(
        DemographicFlow(factored, 0.1).fitness(alpha), DemographicFlow(problem, 0.1).fitness(alpha), atol=1e-12
    )


def test_the_implicit_angle_solves_its_equation():
    y = np.concatenate([np.linspace(-50, 50, 401), [0.0, np.pi / 2, np.pi, 1e-9]])
    for c in (1e-8, 1e-3, 0.1, 10.0):
        x = _implicit_angle(y, np.full(len(y), c))
        assert ((x > 0) & (x < np.pi)).all()
        residual = x - c / np.tan(x) - y
        assert np.abs(residual / (1 + np.abs(y) + c / np.sin(x) ** 2)).max() <= 1e-13


@pytest.mark.parametrize(
    ("problem", "options", "said"),
    [
        (problems.svc(TWO.gram, [-1, 1]), {"temperature": 1.0}, "no equality"),
        (TWO, {"temperature": 0.0}, "temperature=0.0 must be positive"),
        (TWO, {"temperature": np.inf}, "temperature=inf must be positive"),
        (TWO, {"temperature": 1.0, "mutation": 0.5}, "mutation=0.5 must be finite and above half the temperature"),
    ],
)
def test_what_is_out_of_range_is_refused(problem, options, said):
    with pytest.raises(ProblemError, match=said):
        DemographicFlow(problem, **options)
