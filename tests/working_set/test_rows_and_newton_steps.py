"""Rows that are made once, early Newton steps, and small violations with large gaps."""

import numpy as np
import pytest
from dualflow.working_set._pairs import RowSource, fetch_rows, padded, solve_pairs
from sklearn import svm
from sklearn.datasets import load_diabetes, make_moons

from dualflow import Gram, problems, solve
from dualflow.core.workspace import Workspace
from dualflow.testing.reference import rbf_kernel
from dualflow.working_set import descent
from dualflow.working_set.level import Level
from dualflow.working_set.seeding import seed

RNG = np.random.default_rng(0)
Z = RNG.normal(size=(150, 5))
SIGNS, RIDGE = np.where(RNG.random(150) < 0.5, 1.0, -1.0), RNG.random(150)


def rows_of(dtype):
    """A source, the matrix it is of, and room for its rows."""
    points = Gram(Z, gamma=0.3).radial_points(dtype)
    source = RowSource(points.points, points.half, SIGNS, RIDGE, 1.7, 0.5)
    M = 1.7 * SIGNS[:, None] * SIGNS * (rbf_kernel(Z, 0.3) + 0.5) + np.diag(RIDGE)
    return source, M, np.full((150, padded(150)), np.nan, dtype=dtype), np.full(150, -1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_wanted_are_made_once(dtype):
    source, M, rows, slots = rows_of(dtype)
    first = RNG.permutation(150)[:100]
    assert fetch_rows(rows, slots, 0, first, source) == 100
    before = rows[:100].copy()
    again = np.concatenate([first[:7], np.flatnonzero(slots < 0)[:3], np.flatnonzero(slots < 0)[:3]])
    assert fetch_rows(rows, slots, 100, again, source) == 103
    np.testing.assert_array_equal(rows[:100], before)
    made = np.flatnonzero(slots >= 0)
    assert sorted(slots[made]) == list(range(103))
    np.testing.assert_allclose(rows[slots[made], :150], M[made], rtol=1e-5 if dtype is np.float32 else 1e-12, atol=1e-5)
    assert fetch_rows(rows, slots, 103, np.empty(0, dtype=np.int64), source) == 103


@pytest.mark.parametrize("which", [[-1], [150], [3, 400]])
def test_rows_that_there_are_not_are_refused(which):
    source, _, rows, slots = rows_of(float)
    with pytest.raises(ValueError, match="numbered from 0"):
        fetch_rows(rows, slots, 0, np.array(which), source)
    with pytest.raises(ValueError, match="must have n points"):
        fetch_rows(rows[:10], slots, 0, np.array([1]), source)
    assert (slots < 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_level_that_begins_somewhere_makes_the_rows_of_the_free_once(dtype):
    """They are what its first gradient is made of, and what its pairs ask for first."""
    X, t = make_moons(900, noise=0.25, random_state=0)
    problem = problems.svc(Gram(X), 2.0 * t - 1, 10.0)
    alpha = solve(problem, refine=True).alpha
    free, bounded = (alpha > 0) & (alpha < 10.0), alpha == 10.0
    assert free.sum() > 5
    assert bounded.sum() > 50
    work = Workspace(problem)
    level = Level(work, seed(work, alpha), dtype, alone=True)
    assert work.gram.entries_computed == 900 * np.count_nonzero(alpha)
    expected = problem.gradient(alpha)
    np.testing.assert_allclose(level.gradient, expected, atol=1e-4 if dtype is np.float32 else 1e-10)
    assert level.solve_block(1e-12, 1) <= 1
    assert work.gram.entries_computed <= 900 * (np.count_nonzero(alpha) + 2)
    assert np.count_nonzero(level.rows.slot >= 0) <= free.sum() + 2


def test_the_free_leap_as_soon_as_they_are_the_same_for_a_while():
    """Diabetes by its median, C = 100: 214 of 442 are free. Newton steps after a fixed number of updates reach the end
    after 10 506 updates; most of them do not change which variables are free."""
    X, target = load_diabetes(return_X_y=True)
    X, y, C, n = X / X.std(axis=0), np.where(target > np.median(target), 1.0, -1.0), 100.0, len(X)
    K, low, high = rbf_kernel(X, 0.1), np.where(y > 0, 0.0, -C), np.where(y > 0, C, 0.0)
    beta, G = np.zeros(n), -y
    updates, violation, _ = solve_pairs(
        K, np.arange(n), n, G, np.diagonal(K).copy(), beta, low, high, True, 1e-11, 10**6
    )
    assert updates < 6000
    assert violation <= 1e-11
    gradient = K @ beta - y
    assert gradient[beta > low].max() - gradient[beta < high].min() <= 1e-10
    tight = svm.SVC(C=C, gamma=0.1, tol=1e-9).fit(X, y)  # in float32
    np.testing.assert_allclose(K @ beta, tight.decision_function(X) - tight.intercept_, atol=1e-4)


def test_a_small_violation_with_a_large_gap_is_worked_on(monkeypatch):
    """The tolerance of the pair loop stopped it before it moved anything, and left all work to a refinement."""
    monkeypatch.setattr(descent, "HAND_OVER_TOLS_ROWS", (1e-15, 0.5))
    X, t = make_moons(900, noise=0.2, random_state=0)
    solution = solve(problems.svc(Gram(X), 2.0 * t - 1, 10.0), refine="early")
    assert not solution.refined
    assert solution.certificate.relative_gap <= 1e-11
