"""A few points far out do not make a fit run in float64, and few free variables are brought to their end there."""

import dataclasses

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.svm import OneClassSVM

from dualflow import SVC, SVDD, Gram, problems, solve
from dualflow.core.workspace import Workspace, isolated_copy
from dualflow.direct import from_points
from dualflow.refinement import linear_systems
from dualflow.solvers.working_set import WorkingSet

X = make_moons(2000, noise=0.2, random_state=0)[0]


def test_float32_holds_the_kernel_of_points_far_out():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(400, 6))
    points[:4] = np.array([[8.0], [16.0], [-16.0], [24.0]]) + 1e-2 * rng.normal(size=(4, 6))
    gram = Gram(points, gamma=0.1)
    assert 50 < gram.reach <= 1000
    assert gram.is_safe_in_single
    everyone = np.arange(400)
    single, double = gram.rows(everyone, np.float32), gram.rows(everyone)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=1e-4)


def test_a_fit_with_points_far_out_works_in_float32_and_is_certified():
    rng = np.random.default_rng(1)
    points = rng.normal(size=(4500, 6))
    y = (points[:, 0] * points[:, 1] + 0.3 * rng.normal(size=4500) > 0).astype(int)
    points[:3] *= 25.0
    problem = problems.svc(Gram(points, gamma=0.1), 2.0 * y - 1, 10.0)
    assert problem.gram.reach > 50
    solver = WorkingSet().aim(1e-6, hand_over=True)
    context = solver.open(isolated_copy(problem), Workspace(isolated_copy(problem)))
    solver.step(context, solver.start(context, np.random.default_rng(0)))
    assert context.level.precision is np.float32
    assert SVC(C=10.0, gamma=0.1).fit(points, y).certificate_.relative_gap <= 1e-9


@pytest.mark.parametrize("nu", [0.01, 0.1, 0.5])
def test_a_ball_with_few_free_variables_needs_no_refinement(nu):
    model = SVDD(nu=nu, gamma=1.0).fit(X)
    solution = model.solution_
    assert not solution.refined
    assert solution.raw_certificate.relative_gap <= 1e-10
    theirs = OneClassSVM(nu=nu, gamma=1.0, tol=1e-10).fit(X)
    weights = np.zeros(len(X))
    weights[theirs.support_] = theirs.dual_coef_[0] / (nu * len(X))
    problem = solution.problem
    # LIBSVM keeps its kernel in float32.
    assert problem.objective(solution.alpha) == pytest.approx(problem.objective(weights), rel=1e-6)


def test_a_run_that_is_resumed_on_its_way_to_the_end_comes_to_the_same_bits():
    problem = problems.svdd(Gram(X, gamma=1.0), 0.1)
    solver = WorkingSet().aim(1e-6, hand_over=True)

    def opened():
        return solver.open(isolated_copy(problem), Workspace(isolated_copy(problem)))

    context, states = opened(), []
    state = solver.start(context, np.random.default_rng(0))
    while not state.done:
        states.append(state)
        state = solver.step(context, state)
    assert state.offered  # which float32 alone would not be
    for one in states:
        other, again = opened(), dataclasses.replace(one)
        while not again.done:
            again = solver.step(other, again)
        np.testing.assert_array_equal(again.alpha, state.alpha)


def test_raw_answers_are_not_brought_to_their_end():
    raw = solve(problems.svdd(Gram(X, gamma=1.0), 0.1), "working-set", tol=1e-4)
    assert 1e-12 < raw.raw_certificate.relative_gap <= 1e-4


@pytest.mark.parametrize("n", [1300, 4500])
def test_a_ball_whose_weight_few_points_hold_is_solved_without_levels(n):
    X = make_moons(n, noise=0.2, random_state=3)[0]
    few, many = (problems.svdd(Gram(X, gamma=0.7), nu) for nu in (0.01, 0.1))
    solver = WorkingSet(hand_over=True)

    def first(problem):
        return solver.open(problem, Workspace(problem)).start(None)

    state = first(few)
    assert (state.depth, state.single, len(state.order)) == (0, False, 0)
    assert first(many).depth > 0
    assert first(problems.svc(Gram(X, gamma=0.7), np.sign(X[:, 0]), loss="squared_hinge")).depth > 0  # no bounds there
    state = WorkingSet().open(few, Workspace(few)).start(None)  # not handed over: it ends at a tolerance
    assert (state.depth, state.single, len(state.order)) == (0, True, 0)
    solution = solve(few, solver, refine="early", tol=1e-9, random_state=0)
    assert not solution.refined
    assert solution.certificate.relative_gap <= 1e-12
    theirs = OneClassSVM(gamma=0.7, nu=0.01, tol=1e-10).fit(X)
    assert solution.certificate.objective == pytest.approx(_objective(few, theirs), rel=1e-6)


def _objective(problem, theirs):
    alpha = np.zeros(problem.n)
    alpha[theirs.support_] = theirs.dual_coef_[0] / theirs.dual_coef_.sum()
    return problem.objective(alpha)


def test_many_free_points_of_a_ball_leap_to_their_end_and_no_refinement_factors_them(monkeypatch):
    """Pairs were said to crawl, and up to twenty systems of half of the points were factorised: eight times
    scikit-learn's time."""
    factors = []
    factorise = linear_systems.factorise
    monkeypatch.setattr(linear_systems, "factorise", lambda A: factors.append(len(A)) or factorise(A))
    points = np.random.default_rng(0).normal(size=(900, 2))
    solution = SVDD(gamma=12.5, nu=0.035).fit(points).solution_
    free = (solution.alpha > 0) & (solution.alpha < solution.problem.effective_upper)
    assert free.sum() > 300
    assert solution.certificate.relative_gap < 1e-10
    assert not factors


def test_a_search_by_rows_is_given_up_where_float32_hardly_tells_who_is_free(monkeypatch):
    """The subproblem was solved again each time that variables joined, five times."""
    ends = []
    finish_dense = from_points.finish_dense
    monkeypatch.setattr(from_points, "finish_dense", lambda *given: ends.append(1) or finish_dense(*given))
    points = np.random.default_rng(77).normal(size=(3000, 2))
    ball = SVDD(gamma=7.35, nu=0.0293).fit(points)
    assert ball.certificate_.within(1e-6)
    assert not ends


def test_a_part_of_many_is_handed_over_once_the_free_variables_are_known(monkeypatch):
    """Each of d's many sharers moves its gradient by a small part of the unit. At half of the free variables the
    violation was said to be small, and three systems were factorised."""
    factors = []
    factorise = linear_systems.factorise
    monkeypatch.setattr(linear_systems, "factorise", lambda A: factors.append(len(A)) or factorise(A))
    bits = np.random.default_rng(0).integers(0, 2, size=(2000, 30)).astype(float)
    fitted = SVDD(gamma="scale", nu=0.1).fit(bits)
    alpha, upper = fitted.solution_.alpha, fitted.solution_.problem.effective_upper
    free = np.count_nonzero((alpha > 0) & (alpha < upper))
    assert free > 1500
    assert fitted.certificate_.relative_gap <= 1e-12
    own = [size for size in factors if size != linear_systems.SAMPLE_FLOAT32]
    assert len(own) == 1
    assert own[0] == pytest.approx(free, rel=0.02)
