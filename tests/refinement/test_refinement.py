"""The refinement on a singular Q (duplicates, bits, categories): no step raises f or divides by zero."""

import numpy as np
import pytest

from dualflow import SVC, Gram, certify, problems, solve
from dualflow.core.certificate import Certifier
from dualflow.refinement import active_set
from dualflow.refinement.active_set import advance, newton_step
from dualflow.refinement.linear_systems import FreeSystem
from dualflow.refinement.refine import refine
from dualflow.working_set.dense import solve_nearly_free


def bits(n, m, density, positives, seed):
    """Sparse bits, and a noisy linear rule that calls a few of them positive."""
    rng = np.random.default_rng(seed)
    X = (rng.random((n, m)) < 2 * density * rng.random(m)).astype(float)
    score = X @ rng.normal(size=m) + rng.logistic(size=n) * np.sqrt(m * density) / 2
    return X, np.where(score > np.quantile(score, 1 - positives), 1, -1)


def categories(n, groups, positives, seed):
    """Columns of ones and zeros, a group for each attribute: of low rank, with many duplicates."""
    rng, parts, score = np.random.default_rng(seed), [], np.zeros(n)
    for _ in range(groups):
        k = int(rng.integers(2, 9))
        chance = 1.0 / np.arange(1, k + 1) ** 1.5
        which = rng.choice(k, n, p=chance / chance.sum())
        parts.append(np.eye(k)[which])
        score += rng.normal(size=k)[which]
    score += rng.logistic(size=n) * np.sqrt(groups) / 2
    return np.hstack(parts), np.where(score > np.quantile(score, 1 - positives), 1, -1)


@pytest.mark.parametrize("seed", range(6))
def test_a_factor_with_duplicates_of_its_points(seed):
    """A factor with duplicates of its points reports that it is singular, or its step lowers f and keeps eᵀα."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 2, size=(160, 6)).astype(float)
    X[120:] = X[:40]
    y = np.where(rng.random(160) < 0.5, 1.0, -1.0)
    y[120:] = y[:40]
    problem = problems.svc(Gram(X, gamma=0.3), y, 10.0)
    alpha = np.full(160, 5.0)
    alpha[y > 0] *= (y < 0).sum() / (y > 0).sum()
    system = FreeSystem(problem, np.arange(120), float(problem.diag().max()))
    system.hold(np.array([5]))
    system.add(np.array([120, 121, 122]))
    h = problem.gradient(alpha)[system.members]
    step = newton_step(system, h, 0.0)
    if step is not None:
        e = y[system.members]
        assert abs(e @ step) <= 1e-9 * np.abs(step).sum()
        assert step[5] == 0.0
        walk = advance(system, alpha[system.members], h, step)
        if walk is not None:
            move = walk[0] - alpha[system.members]
            assert h @ move + 0.5 * move @ walk[1] <= 1e-9 * abs(problem.objective(alpha))


def test_a_vanishing_denominator_is_no_step():
    problem = problems.svc(Gram(np.eye(4)), [1, 1, -1, -1], 1.0)
    system = FreeSystem(problem, np.arange(4), 1.0)
    system.solve = lambda right: np.zeros_like(right)
    assert newton_step(system, np.ones(4), 0.0) is None
    system.solve = lambda right: np.full_like(right, np.nan)
    assert newton_step(system, np.ones(4), 0.0) is None
    system.solve = lambda right: -right
    assert newton_step(system, np.ones(4), 0.0) is None


def test_a_step_that_rises_is_not_taken():
    problem = problems.svc(Gram(np.eye(4)), [1, 1, -1, -1], 10.0)
    system, here = FreeSystem(problem, np.arange(4), 1.0), np.full(4, 5.0)
    h = problem.gradient(here)
    assert advance(system, here, h, -0.1 * h) is not None
    assert advance(system, here, np.array([1.0, -1.0, 1.0, -1.0]), np.array([0.1, -0.1, 0.1, -0.1])) is None


# Among them are sets on which a division by zero, or a stall at a gap of 1e-6, was found.
@pytest.mark.parametrize(
    ("data", "options"),
    [
        (bits(1500, 56, 0.02, 0.03, 274), {}),
        (categories(1500, 10, 0.3, 149), {"C": 100.0, "kernel": "poly", "degree": 2, "coef0": 1.0}),
        (categories(8000, 8, 0.1, 14), {}),
        (categories(1500, 8, 0.1, 81), {"C": 1e5, "kernel": "poly", "degree": 2, "coef0": 1.0}),
        *((bits(2000, 40, 0.05, 0.03, seed), {"C": C}) for seed in range(2) for C in (1e-3, 1.0, 1e3)),
        *((categories(2000, 6, 0.03, seed), {"C": C}) for seed in range(2) for C in (1e-3, 1.0, 1e5)),
    ],
)
def test_sparse_imbalanced_sets_are_solved_to_round_off(data, options):
    model = SVC(**options).fit(*data)
    assert model.fit_status_ == 0
    assert model.certificate_.relative_gap <= 1e-8


def test_what_a_rough_gradient_said_of_f_ends_no_search():
    """A search starts from a gradient in float32, whose f may lie below the minimum: later ones are not held against
    it."""
    X, y = categories(3000, 8, 0.1, 14)
    problem = problems.svc(Gram(X), y.astype(float), 1.0)
    exact = refine(problem, np.zeros(problem.n))
    for sign in (1.0, -1.0):
        # Wrong by as much as is allowed for, and to one side: f seems lower, or higher, than it is.
        gradient = problem.gradient(exact.alpha)
        wrong = gradient + sign * 1e-6 * np.abs(exact.alpha).sum() * np.sign(exact.alpha)
        found = refine(problem, exact.alpha, gradient=wrong)
        assert found.converged
        assert certify(problem, found.alpha).relative_gap <= 1e-12


def test_a_search_without_free_variables_warns_of_no_empty_mean():
    """4000 points and more, all at their bounds: the residual of no variables is 0, with no warning."""
    X, y = np.ones((4200, 1)), np.tile([1.0, -1.0], 2100)
    problem = problems.svc(Gram(X), y, 1.0)
    with np.errstate(all="raise"):
        found = refine(problem, np.ones(4200), certifier=Certifier(problem))
    assert found.converged
    assert certify(problem, found.alpha).relative_gap == 0.0


@pytest.mark.parametrize("gamma", [3.0, 10.0])
def test_a_smooth_kernel_does_not_free_violators_one_by_one(gamma):
    # Its matrix has rank 20 to 40: of many violators freed together all but a few are held again.
    x = np.random.default_rng(5).normal(size=(700, 1))
    problem = problems.svdd(Gram(np.exp(-gamma * (x - x.T) ** 2), "precomputed"), nu=0.68)
    start = solve(problem, "working-set", tol=1e-3, max_steps=1).raw_alpha
    refined = refine(problem, start, solve_nearly_free=solve_nearly_free)
    assert refined.converged
    assert refined.solves <= 200  # more than 500 where the start's rough gradient keeps the pair updates off
    assert certify(problem, refined.alpha).relative_gap <= 1e-12


def test_a_factor_is_kept_where_pair_updates_do_not_move(monkeypatch):
    """They leave many free variables alone: the factor of these was made anew all the same."""
    factors, calls = [], []

    class Spy(FreeSystem):
        def __init__(self, problem, free, *given):
            super().__init__(problem, free, *given)
            factors.append(tuple(free))

    monkeypatch.setattr(active_set, "FreeSystem", Spy)
    rng = np.random.default_rng(0)
    problem = problems.svc(Gram(rng.normal(size=(600, 8))), np.where(rng.random(600) < 0.5, 1.0, -1.0), 1e3)
    unmoved = refine(problem, np.zeros(600), solve_nearly_free=lambda problem, alpha, excess: calls.append(1) or alpha)
    assert unmoved.converged
    assert calls
    assert len(set(factors)) == len(factors)
    assert certify(problem, unmoved.alpha).relative_gap <= 1e-10
