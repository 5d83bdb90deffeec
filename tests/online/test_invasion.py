"""Tests of the invasion engine and its solver against batch solutions and values by hand."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow
from dualflow import Gram, ProblemError, problems, solve
from dualflow.core.reading import finite_middle
from dualflow.online.invasion import Habitat, interval
from dualflow.refinement.refine import refine
from tests.combinations import often


def equilibrium(problem, alpha):
    return refine(problem, alpha).alpha


def moons(n=150):
    X, y = make_moons(n, noise=0.3, random_state=0)
    return X, 2.0 * y - 1


def some_problems():
    X, y = moons()
    gram = Gram(X, gamma=0.8)
    return {
        "box with equality": problems.svc(gram, y, 3.0),
        "box": problems.svc(gram, y, 3.0, fit_intercept=False),
        "simplex": problems.svc(gram, y, 3.0, loss="squared_hinge"),
        "capped simplex": problems.svdd(gram, 0.2),
        "sorted classes": problems.svc(Gram(X[np.argsort(y)], gamma=0.8), np.sort(y), 3.0),
        "all at their bounds": problems.svc(gram, y, 1e-3),
        "repeated rows": problems.svr(gram, X[:, 0], 2.0, epsilon=0.1),
    }


@pytest.mark.parametrize("name", some_problems())
@pytest.mark.parametrize("batch", often([1, 5, 64], 5))
def test_solver_reaches_the_optimum_by_batches_that_come_again(name, batch):
    problem = some_problems()[name]
    solution = solve(problem, "invasion", batch=batch, tol=1e-12)
    assert solution.raw_certificate.relative_gap <= 1e-9
    # Until the driver's tolerance is reached, the solver goes on through whole rounds without invaders.
    assert solution.cost.steps > problem.n / batch
    best = solve(problem, "cvxopt", refine=True).certificate.objective
    assert solution.certificate.objective == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("batch", [0, -1, 2.5, True])
def test_batch_out_of_range(batch):
    with pytest.raises(ProblemError, match="batch="):
        dualflow.Invasion(batch=batch)


def test_multipliers_by_hand():
    # Two free variables of both signs at ν = −b = 0.5; then only bounded ones, where ν may be anything in between.
    e, upper = np.array([1.0, -1.0, 1.0, -1.0]), np.full(4, 2.0)
    assert interval(np.array([0.5, -0.5, 0.9, -0.1]), e, np.array([1.0, 1.0, 0.0, 0.0]), upper) == (0.5, 0.5)
    assert interval(np.array([0.2, -0.7, 0.9, 0.1]), e, np.array([2.0, 2.0, 0.0, 0.0]), upper) == (0.2, 0.7)
    # e = +1 alone and at 0: ν ≤ h.
    assert interval(np.array([-1.0]), e[:1], np.zeros(1), upper[:1]) == (-np.inf, -1.0)
    assert finite_middle((0.25, 0.75)) == 0.5
    assert finite_middle((-np.inf, -1.0)) == -1.0
    assert finite_middle((-np.inf, np.inf)) == 0.0


def test_no_point_invades_while_one_multiplier_satisfies_all():
    """Two points, one a class, at their bounds: ν has an interval, and a new point inside the gap narrows it only."""
    X = np.array([[-1.0], [1.0], [-1.6], [3.0], [-0.5]])
    y = np.array([-1.0, 1.0, -1.0, 1.0, -1.0])
    problem = problems.svc(Gram(X, kernel="linear"), y, 0.1)
    habitat = Habitat(problem, np.array([0.1, 0.1, 0, 0, 0]))
    low, high = habitat.multipliers(habitat.residents)
    assert (low, high) == pytest.approx((-0.8, 0.8))
    # With w = 0.2 margins are y(0.2x + b): x = 3 needs b ≥ 0.4, which the interval contains; x = −1.6 then b ≤ −0.68.
    assert habitat.invaders(np.array([3])).size == 0
    assert set(habitat.invaders(np.arange(5))) <= {2, 3, 4}
    assert habitat.invaders(np.arange(5)).size > 0
    habitat.invade_until_stable(equilibrium, np.arange(5))
    assert dualflow.certify(problem, habitat.alpha).relative_gap <= 1e-12


def test_a_habitat_tracks_residents_rows_and_gradient():
    X, y = moons()
    problem = problems.svc(Gram(X, gamma=0.8), y, 3.0)
    habitat = Habitat(problem, np.zeros(150))
    habitat.invade_until_stable(equilibrium, np.arange(30))
    first = habitat.invasions
    assert 0 < first <= 30
    habitat.invade_until_stable(equilibrium, np.arange(150))
    assert first < habitat.invasions
    assert np.array_equal(np.flatnonzero(habitat.present), np.sort(habitat.residents))
    assert set(np.flatnonzero(habitat.alpha)) <= set(habitat.residents)
    np.testing.assert_allclose(habitat.rows, problem.gram.rows(habitat.residents), atol=1e-14)
    np.testing.assert_allclose(habitat.h, problem.gradient(habitat.alpha), atol=1e-12)
    assert dualflow.certify(problem, habitat.alpha).relative_gap <= 1e-10


def test_solving_for_all_leaves_only_residents_with_weight():
    X, y = moons()
    problem = problems.svc(Gram(X, gamma=0.8), y, 3.0)
    habitat = Habitat(problem, np.zeros(150))
    habitat.admit(np.arange(150))
    habitat.open(equilibrium)
    assert np.array_equal(np.flatnonzero(habitat.present), np.flatnonzero(habitat.alpha))


def test_falling_bounds_are_met_and_weight_goes_to_the_smallest_gradient():
    X, _ = moons(60)
    gram = Gram(X, gamma=0.8)
    alpha = solve(problems.svdd(gram, 0.1), refine=True).alpha
    tighter = problems.svdd(gram, 0.5)
    habitat = Habitat(tighter, alpha)
    assert habitat.disturbed
    assert tighter.infeasibility(habitat.alpha) <= 1e-15
    habitat.invade_until_stable(equilibrium, np.arange(60))
    assert dualflow.certify(tighter, habitat.alpha).relative_gap <= 1e-10
