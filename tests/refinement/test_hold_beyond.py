"""Bounds that are met many at a time, against cvxopt's minimiser."""

import cvxopt
import numpy as np
import pytest

from dualflow import Gram, problems
from dualflow.core.certificate import Certifier
from dualflow.refinement.active_set import ActiveSet, hold_beyond, newton_step
from dualflow.refinement.linear_systems import FreeSystem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = np.where(RNG.random(240) < 0.5, 1.0, -1.0)
PROBLEMS = {
    "hinge": problems.svc(Gram(X, gamma=3.0), Y, 1.5),
    "no bias": problems.svc(Gram(X, gamma=3.0), Y, 1.5, fit_intercept=False),
    "squared hinge": problems.svc(Gram(X, gamma=0.8), Y, 5.0, loss="squared_hinge"),
    "ball": problems.svdd(Gram(X, gamma=3.0), 0.1),
    "svr": problems.svr(Gram(X, gamma=0.8), X[:, 0], 50.0, epsilon=0.02),
}


def minimiser(problem):
    """By cvxopt."""
    n, finite = problem.n, np.isfinite(problem.upper)
    sides = np.vstack([-np.eye(n), np.eye(n)[finite]])
    limits = np.concatenate([-problem.lower, problem.upper[finite]])
    equality = () if problem.e is None else (problem.e[None], np.array([problem.d]))
    options = {"show_progress": False, "abstol": 1e-13, "reltol": 1e-13, "feastol": 1e-13}
    given = (problem.dense() + 1e-13 * np.eye(n), -problem.p, sides, limits, *equality)
    return np.array(cvxopt.solvers.qp(*(cvxopt.matrix(part) for part in given), options=options)["x"])[:, 0]


def nearby(problem):
    """The minimiser, a point off it, and the free variables there: those at neither bound, and those at a bound with
    the smallest multipliers."""
    exact = minimiser(problem)
    edge = 1e-5 * float(exact.max())
    exact = np.where(exact < problem.lower + edge, problem.lower, exact)
    exact = np.where(exact > problem.upper - edge, problem.upper, exact)
    inside = np.flatnonzero((exact > problem.lower) & (exact < problem.upper))
    rho = problem.gradient(exact)
    if problem.e is not None:
        rho -= float((rho * problem.e)[inside].mean()) * problem.e
    rho[inside] = np.inf
    moved = np.argsort(np.abs(rho))[:6]
    start = exact.copy()
    start[moved] += np.where(exact[moved] == problem.lower[moved], 1e-2, -1e-2) * float(exact.max())
    if problem.e is not None:
        start[inside] -= problem.e[inside] * float(problem.e @ start - problem.d) / len(inside)
    assert (start >= problem.lower).all()
    assert (start <= problem.upper).all()
    return exact, start, np.sort(np.concatenate([inside, moved])), moved


@pytest.mark.parametrize("name", PROBLEMS)
def test_held_together_they_leave_the_minimum_over_the_others(name):
    problem = PROBLEMS[name]
    exact, start, free, moved = nearby(problem)
    system = FreeSystem(problem, free, float(problem.diag().max()))
    here, h = start[free], problem.gradient(start)[free]
    missing = 0.0 if problem.e is None else problem.d - float(problem.e @ start)
    found = hold_beyond(system, here, h, newton_step(system, h, missing), missing)
    assert found is not None
    target, product, blocked = found
    assert len(set(free[blocked]) & set(moved)) >= 4  # not all: variables that others push out may be held first
    assert (system.live == ~blocked).all()
    low, high = problem.lower[free], problem.upper[free]
    assert ((target[blocked] == low[blocked]) | (target[blocked] == high[blocked])).all()
    assert (target >= low).all()
    assert (target <= high).all()
    there = start.copy()
    there[free] = target
    least = problem.objective(exact)
    assert least - 1e-9 * abs(least) <= problem.objective(there) <= least + 0.5 * abs(problem.objective(start) - least)
    Q = problem.dense()[np.ix_(free, free)]
    np.testing.assert_allclose(product, Q @ (target - here), atol=1e-10 * np.abs(Q @ here).max())
    # The minimum over those that are left, to the digits: their gradients are those of one multiplier.
    rho = (h + product)[system.live]
    if problem.e is not None:
        e = problem.e[free]
        assert abs(e @ (target - here) - missing) <= 1e-12 * np.abs(here).sum()
        rho = rho * e[system.live]
        rho = rho - rho.mean()
    assert np.abs(rho).max() <= 1e-10 * np.abs(Q @ here).max()


def test_a_rise_or_too_many_updates_hold_no_variable():
    problem = PROBLEMS["hinge"]
    _, start, free, _ = nearby(problem)
    here, h = start[free], problem.gradient(start)[free]
    system = FreeSystem(problem, free, 1.0)
    step = newton_step(system, h, 0.0)
    assert hold_beyond(system, here, h, -1e-3 * step, 0.0) is None
    assert system.live.all()
    assert hold_beyond(system, here, h, 1e6 * step, 0.0) is None
    assert system.live.all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_variables_held_wrongly_are_freed_again(name):
    """That needs no check of all other variables, and the end is the optimum over the variables of the start."""
    problem = PROBLEMS[name]
    exact, start, free, _ = nearby(problem)
    search = ActiveSet(Certifier(problem), start, start, problem.gradient(start), 1000, None)
    assert set(search.free) == set(free)
    search.minimise_free()
    np.testing.assert_allclose(search.alpha, exact, atol=1e-5 * float(exact.max()))
    assert search.solves <= 12
