"""The refinement's linear systems against dense solves of the same equations."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import make_blobs
from sklearn.model_selection import train_test_split

from dualflow import Gram, certify, problems
from dualflow.refinement.linear_systems import FreeSystem
from dualflow.refinement.refine import refine

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 3))
Y = np.where(RNG.random(60) < 0.5, 1.0, -1.0)
PROBLEMS = {
    "hinge": problems.svc(Gram(X, gamma=0.8), Y, 5.0),
    "no bias": problems.svc(Gram(X, gamma=0.8), Y, 5.0, fit_intercept=False),
    "squared hinge": problems.svc(Gram(X, gamma=0.8), Y, 5.0, loss="squared_hinge"),
    "ball": problems.svdd(Gram(X, gamma=0.8), 0.3),
    "svr": problems.svr(Gram(X, gamma=0.8), X[:, 0], 5.0),
}


def kkt_solution(problem, members, live, right, total):
    """Q s = right − νe on the live members with eᵀs = total, by one dense bordered system."""
    J = members[live]
    Q = problem.dense()[np.ix_(J, J)]
    if problem.e is None:
        return np.linalg.solve(Q, right[live])
    e = problem.e[J]
    bordered = np.block([[Q, e[:, None]], [e[None], np.zeros((1, 1))]])
    return np.linalg.solve(bordered, np.append(right[live], total))[:-1]


def own_solution(problem, system, right, total):
    if problem.e is None:
        return system.solve(right[:, None])[system.live, 0]
    e = problem.e[system.members]
    solved = system.solve(np.column_stack([right, e]))
    nu = (total - e @ solved[:, 0]) / (e @ solved[:, 1])
    return (solved[:, 0] + nu * solved[:, 1])[system.live]


@pytest.mark.parametrize("name", PROBLEMS)
def test_solutions_while_variables_come_and_go(name):
    problem = PROBLEMS[name]
    free = np.arange(3, 51)
    system = FreeSystem(problem, free, float(problem.diag().max()))
    assert system.factors == 1

    def check():
        right = np.sin(system.members)
        expected = kkt_solution(problem, system.members, system.live, right, 0.3)
        np.testing.assert_allclose(own_solution(problem, system, right, 0.3), expected, rtol=1e-6, atol=1e-8)
        v = np.cos(system.members) * system.live
        Q = problem.dense()[np.ix_(system.members, system.members)]
        np.testing.assert_allclose(system.product(v), Q @ v, rtol=1e-11, atol=1e-12)
        outside = system.solve(right[:, None])[~system.live]
        assert (outside == 0).all()

    check()
    system.hold(np.array([4, 10]))
    check()
    system.add(np.array([55]))
    check()
    system.hold(np.array([4]))  # held before
    system.add(np.array([free[10]]))  # one that was held moves again
    check()
    assert list(system.not_live(np.array([free[4], 55, 1]))) == [free[4], 1]
    assert system.changes == 2
    assert system.can_update(1)
    assert not system.can_update(2)  # 48 // 16
    system.hold(np.flatnonzero(system.members == 55))  # an added one meets a bound
    check()


def test_what_lies_below_the_diagonal_is_never_read(monkeypatch):
    """Half of a block is computed, on sizes that end within a tile and beyond one; the rest of its memory is filth."""
    memory = np.empty

    def filthy(*shape, **options):
        out = memory(*shape, **options)
        out.fill(np.nan if out.dtype.kind == "f" else 255)  # raw bytes are NaN, too
        return out

    monkeypatch.setattr(np, "empty", filthy)
    rng = np.random.default_rng(1)
    points, y = rng.normal(size=(333, 5)), np.where(rng.random(333) < 0.5, 1.0, -1.0)
    for problem in (
        problems.svc(Gram(points, gamma=0.3), y, 5.0, loss="squared_hinge"),  # float32
        problems.svc(Gram(points, gamma=0.3), y, 5.0),
    ):
        system = FreeSystem(problem, np.arange(2, 331), float(problem.diag().max()))
        v = np.sin(system.members)
        Q = problem.block(system.members, system.members)
        np.testing.assert_allclose(system.product(v), Q @ v, rtol=1e-11, atol=1e-11)
        found = own_solution(problem, system, v, 0.0)
        assert np.isfinite(found).all()
        residual = Q @ found - v
        e = problem.e[system.members]
        residual -= e * np.mean(e * residual)
        assert np.abs(residual).max() <= 1e-3 * np.abs(v).max()


def test_singular_matrices_are_factorised_with_a_shift():
    """Twelve copies of a point: rank one, and the step still solves what is solvable."""
    doubled = np.repeat(X[:4], 12, axis=0)
    problem = problems.svdd(Gram(doubled, gamma=0.8))
    system = FreeSystem(problem, np.arange(48), float(problem.diag().max()))
    Q = problem.dense()
    right = Q @ np.sin(np.arange(48))
    assert np.linalg.matrix_rank(Q) == 4
    found = own_solution(problem, system, right, 0.0)
    residual = Q @ found - right
    residual -= residual.mean()  # the multiplier
    assert np.abs(residual).max() <= 1e-6 * np.abs(right).max()


def test_a_matrix_that_is_not_positive_has_no_factor():
    given = Gram.precomputed(np.diag(np.r_[np.ones(30), -np.ones(30)]))
    system = FreeSystem(problems.svc(given, Y, 1.0), np.arange(60), 1.0)
    assert system.factor is None
    assert scipy.linalg.eigvalsh(given.full()).min() == -1
    assert not system.can_update(0)


def test_refinement_leaves_a_vertex_where_a_pair_must_move_together():
    """Fifteen points against sixteen at a small C: all at bounds, but one of the sixteen, in turn, at zero.

    A violator freed alone cannot move; its partner, whose multiplier is the one the certificate takes, violates not.
    """
    blobs, centre = make_blobs(centers=3, random_state=0, cluster_std=20)
    blobs, _, centre, _ = train_test_split(blobs, centre, test_size=0.5, random_state=0)
    points, y = blobs[centre > 0], np.where(centre[centre > 0] == 1, 1.0, -1.0)
    problem = problems.svc(Gram(points, gamma=0.3), y, 1e-4)
    assert (y > 0).sum() == 15
    for k in np.flatnonzero(y < 0):
        found = refine(problem, np.where(np.arange(31) == k, 0.0, 1e-4))
        assert found.converged
        assert certify(problem, found.alpha).relative_gap <= 1e-12
