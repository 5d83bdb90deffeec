"""Factors in float32 of systems with small condition numbers: when they are made, and that the optimum is the same."""

import numpy as np
import pytest

from dualflow import Gram, certify, problems
from dualflow.core.certificate import Certifier
from dualflow.refinement import active_set, linear_systems
from dualflow.refinement.active_set import ActiveSet
from dualflow.refinement.linear_systems import SAMPLE_FLOAT32, FreeSystem

N, D = 1100, 40
X = np.random.default_rng(0).normal(size=(N, D))
Y = np.where(np.random.default_rng(1).random(N) < 0.5, 1.0, -1.0)
Y[:2] = 1.0, -1.0
#: A point that is in no sample: one that resembles it is no reason for float64 there.
UNSEEN = 1


def problem_of(points):
    """The hinge with labels of chance and no bound that matters: each point is a free support vector."""
    return problems.svc(Gram(points, gamma=3 / D), Y, 1e12)


def with_twin(distance):
    """The points, of which number 1, in no sample, is that far from number 0."""
    assert UNSEEN not in np.arange(SAMPLE_FLOAT32) * N // SAMPLE_FLOAT32
    points = X.copy()
    points[UNSEEN] = points[0]
    points[UNSEEN, 0] += distance
    return points


def system_of(points, free=N):
    problem = problem_of(points)
    return FreeSystem(problem, np.arange(free), float(problem.diag().max()))


def run(problem):
    """Run an active set from a start where all are free."""
    alpha = problem.project(np.ones(N))
    search = ActiveSet(Certifier(problem), alpha, alpha, problem.gradient(alpha), 500, None)
    search.run()
    return search


def exact(problem):
    """The minimiser, by a dense system in float64."""
    bordered = np.block([[problem.dense(), problem.e[:, None]], [problem.e[None], np.zeros((1, 1))]])
    return np.linalg.solve(bordered, np.append(problem.p, 0.0))[:N]


def test_a_factor_is_in_float32_only_where_pivots_are_large():
    rounded = system_of(X)
    assert rounded.in_single
    assert rounded.factors == 1
    assert not system_of(X, 2 * SAMPLE_FLOAT32 - 1).in_single  # it would save less than the sample costs
    assert not system_of(X[:, :3]).in_single  # few features: neighbours explain a point
    late = system_of(with_twin(1e-6))
    assert not late.in_single
    assert late.factors == 2
    assert late.delta == rounded.delta


def test_the_optimum_by_a_float32_factor_is_that_of_a_dense_system():
    problem = problem_of(X)
    expected = exact(problem)
    assert (expected > 0).all()
    found = run(problem)
    assert found.system.in_single
    assert found.converged
    np.testing.assert_allclose(found.alpha, expected, rtol=1e-11)


def test_points_of_different_lengths_have_a_factor_in_float32():
    """A cubic kernel takes lengths to the sixth power; rounding errors of a factor do not depend on them."""
    lengths = np.exp(np.random.default_rng(2).uniform(-0.5, 0.5, size=(N, 1)))
    problem = problems.svc(Gram(lengths * X, "poly", gamma=1 / D, degree=3), Y, 1e12)
    system = FreeSystem(problem, np.arange(N), float(problem.diag().max()))
    assert problem.diag().min() < 1e-4 * problem.diag().max()
    assert system.in_single
    right = np.random.default_rng(3).normal(size=N)
    right -= problem.e * float(problem.e @ right) / N
    left = right - system.product(system.solve(right[:, None])[:, 0])
    left -= problem.e * float(problem.e @ left) / N  # a multiple of e belongs to the equality
    assert np.abs(left).max() <= 1e-3 * np.abs(right).max()


def test_where_residuals_do_not_fall_the_factor_is_made_in_float64(monkeypatch):
    """A twin makes the factor in float32 worthless; its pivots are not looked at here, nor how many are free."""
    monkeypatch.setattr(linear_systems, "MIN_PIVOT_FLOAT32", 0.0)
    monkeypatch.setattr(linear_systems, "MIN_PIVOT_SAMPLE", 0.0)
    monkeypatch.setattr(linear_systems, "SAMPLE_FLOAT32", 100)
    problem = problem_of(with_twin(2e-3))
    precisions = []

    class Spy(FreeSystem):
        def __init__(self, *given):
            super().__init__(*given)
            precisions.append(self.in_single)

    monkeypatch.setattr(active_set, "FreeSystem", Spy)
    found = run(problem)
    assert precisions[0]
    assert not precisions[-1]
    assert found.converged
    assert certify(problem, found.alpha).relative_gap <= 1e-9


@pytest.mark.parametrize("held", [[], [3], list(range(5, 60))])
def test_residuals_contract_whatever_the_multipliers_of_the_held(held):
    """The right side of a held member is its multiplier. It was solved for too, and its error did not fall."""
    problem = problem_of(X)
    system = FreeSystem(problem, np.arange(N), float(problem.diag().max()))
    system.hold(np.array(held, dtype=int))
    right = np.where(system.live, 1e-9 * np.sin(np.arange(N)), 1.0)
    left = right - system.product(system.solve(right[:, None])[:, 0])
    left -= problem.e * float((problem.e * left)[system.live].mean())  # a multiple of e belongs to the equality
    right = right - problem.e * float((problem.e * right)[system.live].mean())
    assert np.abs(left[system.live]).max() <= 1e-3 * np.abs(right[system.live]).max()


@pytest.mark.parametrize(("points", "rounds"), [(X, True), (X[:, :3], False), (with_twin(1e-6), False)])
def test_definite_systems_are_solved_to_round_off_of_float64(points, rounds, monkeypatch):
    """Three features, or a twin in no sample, make a condition number that is too large for float32."""
    given = []
    factorise = linear_systems.factorise
    monkeypatch.setattr(linear_systems, "factorise", lambda A: given.append((len(A), A.dtype)) or factorise(A))
    A = Gram(points, gamma=3 / D).full() + 1e-8 * np.eye(N)
    right = np.column_stack([1e-9 * np.sin(np.arange(N)), np.ones(N)])
    found = linear_systems.solve_definite(A.copy(), right)
    assert ((N, np.float64) in given) != rounds
    assert (np.abs(A @ found - right).max(axis=0) <= 1e-13 * (np.abs(A) @ np.abs(found)).max(axis=0)).all()


def test_a_system_that_is_not_definite_has_no_solution():
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        linear_systems.solve_definite(np.diag(np.r_[np.ones(N - 1), -1.0]), np.ones((N, 1)))
