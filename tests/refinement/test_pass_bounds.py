"""A walk past bounds that are met one after another, against dense solves of each step."""

import numpy as np
import pytest

from dualflow import Gram, problems
from dualflow.refinement.active_set import newton_step, pass_bounds
from dualflow.refinement.linear_systems import FreeSystem

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 3))
Y = np.where(RNG.random(240) < 0.5, 1.0, -1.0)
PROBLEMS = {
    "hinge": problems.svc(Gram(X, gamma=0.8), Y, 5.0),
    "no bias": problems.svc(Gram(X, gamma=0.8), Y, 5.0, fit_intercept=False),
    "squared hinge": problems.svc(Gram(X, gamma=0.8), Y, 5.0, loss="squared_hinge"),
    "ball": problems.svdd(Gram(X, gamma=0.8), 0.3),
    "svr": problems.svr(Gram(X, gamma=0.8), X[:, 0], 5.0),
}


def interior(problem, free):
    """α that is at no bound where it is free, and at its lower one elsewhere, with eᵀα = d."""
    alpha, e = np.zeros(problem.n), problem.e
    top = min(1.0, float(problem.upper[free].min()))
    alpha[free] = top * RNG.uniform(0.2, 0.4, len(free))
    if e is not None and problem.d > 0:
        alpha *= problem.d / alpha.sum()
    elif e is not None:
        plus, minus = free[e[free] > 0], free[e[free] < 0]
        alpha[minus] *= alpha[plus].sum() / alpha[minus].sum()
    assert (alpha[free] > problem.lower[free]).all()
    assert (alpha[free] < problem.upper[free]).all()
    return alpha


def dense_walk(problem, members, live, here, h, most):
    """The walk from bound to bound, each step by a bordered dense solve: its end, and the variables held."""
    Q, here, held = problem.dense()[np.ix_(members, members)], here.copy(), []
    live, h = live.copy(), h.copy()
    low, high = problem.lower[members], problem.upper[members]
    while True:
        J = np.flatnonzero(live)
        if problem.e is None:
            part = np.linalg.solve(Q[np.ix_(J, J)], -h[J])
        else:
            e = problem.e[members[J]]
            bordered = np.block([[Q[np.ix_(J, J)], e[:, None]], [e[None], np.zeros((1, 1))]])
            part = np.linalg.solve(bordered, np.append(-h[J], 0.0))[:-1]
        step = np.zeros(len(members))
        step[J] = part
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = np.where(step > 0, (high - here) / step, np.where(step < 0, (low - here) / step, np.inf))
        k = int(reach.argmin())
        t = min(1.0, reach[k])
        here += t * step
        h += t * Q @ step
        if t == 1.0 or len(held) == most:
            return here, held
        here[k] = high[k] if step[k] > 0 else low[k]
        live[k] = False
        held.append(k)


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("begun", [False, True])
def test_bounds_one_by_one_are_those_of_dense_solves(name, begun):
    problem, free = PROBLEMS[name], np.arange(5, 205)
    if name == "svr":  # both sides of the tube, of different points
        free = np.concatenate([free[:100], problem.gram.n + free[100:]])
    system = FreeSystem(problem, free, float(problem.diag().max()))
    if begun:  # some were held before, and some have joined
        system.hold(np.array([3, 100]))
        system.add(np.array([210, 1]))
    alpha = interior(problem, system.members)
    h = problem.gradient(alpha)[system.members]
    live, here = system.live.copy(), alpha[system.members]
    step = newton_step(system, h, 0.0)
    target, product, blocked = pass_bounds(system, here, h, step)
    expected, held = dense_walk(problem, system.members, live, here, h, int(blocked.sum()))
    assert len(held) > 3
    assert set(np.flatnonzero(blocked)) == set(held)
    assert (system.live == (live & ~blocked)).all()
    low, high = problem.lower[system.members], problem.upper[system.members]
    assert ((target[blocked] == low[blocked]) | (target[blocked] == high[blocked])).all()
    if system.can_update(1):  # else the last to be held ended it: no step was made after it
        np.testing.assert_allclose(target, expected, atol=1e-7 * float(np.abs(here).max()))
    Q = problem.dense()[np.ix_(system.members, system.members)]
    np.testing.assert_allclose(product, Q @ (target - here), atol=1e-10 * np.abs(Q @ here).max())
    if problem.e is not None:
        assert abs(problem.e[system.members] @ (target - here)) <= 1e-12 * np.abs(here).sum()
    # What is held stays where it is in what the system solves next.
    after = newton_step(system, h + product, 0.0)
    assert (after[~system.live] == 0.0).all()


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_walk_to_the_end_of_its_step_ends_where_dense_solves_do(name, monkeypatch):
    """At the minimum over those that are left, however many are held on the way."""
    monkeypatch.setattr(FreeSystem, "can_update", lambda system, more: True)
    problem, free = PROBLEMS[name], np.arange(5, 205)
    if name == "svr":
        free = np.concatenate([free[:100], problem.gram.n + free[100:]])
    alpha, system = interior(problem, free), FreeSystem(problem, free, float(problem.diag().max()))
    here, h = alpha[free], problem.gradient(alpha)[free]
    target, _, blocked = pass_bounds(system, here, h, newton_step(system, h, 0.0))
    expected, held = dense_walk(problem, free, np.ones(200, dtype=bool), here, h, 200)
    assert len(held) > 5
    assert set(np.flatnonzero(blocked)) == set(held)
    np.testing.assert_allclose(target, expected, atol=1e-7 * float(np.abs(expected).max()))


def test_a_walk_that_rises_holds_no_variable():
    problem, free = PROBLEMS["hinge"], np.arange(40)
    system, alpha = FreeSystem(problem, free, 1.0), interior(PROBLEMS["hinge"], free)
    h = problem.gradient(alpha)[free]
    uphill = -newton_step(system, h, 0.0)
    assert pass_bounds(system, alpha[free], h, 1e-3 * uphill) is None
    assert pass_bounds(system, alpha[free], h, uphill) is None
    assert system.live.all()
