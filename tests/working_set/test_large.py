"""Many points: a tolerance that is met ends the work, no factor is made of too many, and blocks grow with n."""

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow.refinement.active_set
import dualflow.refinement.refine
from dualflow import SVC, Gram, problems, solve
from dualflow.core import kernel_cache
from dualflow.core.certificate import Certifier
from dualflow.core.kernel_cache import CACHE_BYTES, RowCache
from dualflow.core.workspace import Workspace
from dualflow.refinement.linear_systems import FreeSystem
from dualflow.refinement.refine import MAX_N_REFINED, refine
from dualflow.solvers.working_set import WorkingSet
from dualflow.working_set import descent, level
from tests.thresholds import fits_with

X, t = make_moons(MAX_N_REFINED + 600, noise=0.2, random_state=0)
Y = 2.0 * t - 1


@pytest.fixture
def no_factor(monkeypatch):
    def refused(self, problem, free, diag_max):
        raise AssertionError(f"a factor of {len(free)} free variables")

    monkeypatch.setattr(FreeSystem, "__init__", refused)


@pytest.mark.usefixtures("no_factor")
def test_a_tolerance_that_is_met_is_the_end_of_a_large_fit():
    model = SVC(tol=1e-3).fit(X, t)
    solution = model.solution_
    assert not solution.refined
    assert solution.status.name == "OPTIMAL"
    assert 1e-9 < solution.certificate.relative_gap <= 1e-3


def test_a_smaller_tolerance_asks_for_more_and_so_does_a_refinement_by_name(monkeypatch):
    solution = SVC(tol=1e-6).fit(X, t).solution_
    assert not solution.refined  # few are free: pairs come to the end
    assert solution.certificate.relative_gap <= 1e-9
    monkeypatch.setattr(descent, "MAX_FREE_FINISH", 0)
    assert SVC(tol=1e-6).fit(X, t).solution_.refined
    solution = solve(problems.svc(Gram(X), Y), refine=True, tol=1e-3)
    assert solution.refined
    assert solution.certificate.relative_gap <= 1e-9


@pytest.mark.parametrize("few", [descent.MAX_FREE_FINISH, 0])
def test_a_small_fit_goes_to_its_end_whatever_the_tolerance(few, monkeypatch):
    monkeypatch.setattr(descent, "MAX_FREE_FINISH", few)
    fits_with(monkeypatch, max_pair_numbers=0)
    solution = SVC(tol=1e-3).fit(X[:3000], t[:3000]).solution_
    assert solution.refined == (few == 0)
    assert solution.certificate.relative_gap <= 1e-9


@pytest.mark.usefixtures("no_factor")
def test_pairs_go_on_where_more_are_free_than_should_be_factorised(monkeypatch):
    monkeypatch.setattr(descent, "MAX_FREE_HAND_OVER", 2)
    solution = SVC(tol=1e-6).fit(X, t).solution_
    assert not solution.refined
    assert solution.certificate.relative_gap <= 1e-6


def test_pairs_that_crawl_or_are_stuck_are_handed_over_where_a_factor_is_small(monkeypatch):
    problem = Workspace(problems.svc(Gram(X), Y))
    context = WorkingSet().aim(1e-3, hand_over=True).open(problem, problem)
    work = level.Level(problem, np.zeros(len(X)), np.float32)
    assert not context.hands_over(work)
    assert context.hands_over(work, stuck=True)
    work.updates = descent.CRAWLING_UPDATES * len(X)
    assert context.hands_over(work)
    monkeypatch.setattr(descent, "MAX_FREE_HAND_OVER", -1)
    assert not context.hands_over(work)


def test_violators_at_bounds_are_counted():
    problem = problems.svc(Gram(X[:800]), Y[:800])
    alpha = solve(problem, tol=0.3, gap_tol=0.3, refine=False).alpha
    work = level.Level(Workspace(problem), alpha, np.float64)
    # Against Qα − p of the dense Q: violators at the multiplier halfway between the two worst ones.
    h = (problem.dense() @ alpha - problem.p) * problem.e
    up = np.where(problem.e > 0, alpha < problem.upper, alpha > 0)
    down = np.where(problem.e > 0, alpha > 0, alpha < problem.upper)
    nu = 0.5 * (h[up].min() + h[down].max())
    violates = (up & ~down & (h < nu)) | (down & ~up & (h > nu))
    assert 0 < violates.sum() == work.violator_count()


@pytest.mark.parametrize("has_none", [True, False])
def test_pair_updates_continue_while_many_variables_at_bounds_violate(has_none, monkeypatch):
    monkeypatch.setattr(level.Level, "violator_count", lambda work: 0 if has_none else len(X))
    rng = np.random.default_rng(0)
    points = rng.normal(size=(1500, 8))
    labels = np.where(points[:, 0] + rng.normal(size=1500) > 0, 1.0, -1.0)
    problem = Workspace(problems.svc(Gram(points, gamma=0.5), labels, 10.0))
    context = WorkingSet().aim(1e-9, hand_over=True).open(problem, problem)
    state = context.start(None)
    while not state.done:
        state = context.step(state)
    limit = descent.HAND_OVER_TOLS_ROWS[1]
    assert state.violation <= limit
    assert (state.violation > descent.FINER_TOL_RATIO * limit) == has_none


@pytest.mark.parametrize("has_none", [True, False])
def test_crawling_problems_are_handed_over_later_if_many_at_bounds_violate(has_none, monkeypatch):
    monkeypatch.setattr(level.Level, "violator_count", lambda work: 0 if has_none else len(X))
    monkeypatch.setattr(descent, "MAX_FREE_FLOAT64_BOX", -1)
    problem = Workspace(problems.svc(Gram(X[:3000]), Y[:3000]))
    context = WorkingSet().aim(1e-9, hand_over=True).open(problem, problem)
    work = level.Level(problem, np.zeros(3000), np.float32)
    ends = []
    for updates in (1, descent.CRAWLING_UPDATES * 3000, 2 * descent.CRAWLING_UPDATES * 3000):
        work.updates = updates
        ends.append(context.should_stop(work, 1.0, descent.MAX_GAP_CRAWLING, 0.0, 0.0))
    assert ends == [False, has_none, True]
    assert not context.should_stop(work, 1.0, 2 * descent.MAX_GAP_CRAWLING, 0.0, 0.0)


def test_a_refinement_of_a_large_problem_ends_where_the_tolerance_is_met(monkeypatch):
    monkeypatch.setattr(dualflow.refinement.refine, "MAX_N_REFINED", 1000)
    problem = problems.svc(Gram(X[:1500]), Y[:1500])
    start = solve(problem, tol=1e-3, gap_tol=0.02).alpha
    near, end = (refine(problem, start, tol=tol) for tol in (0.3, 0.0))
    assert near.converged
    assert end.converged
    assert near.solves < end.solves
    certifier = Certifier(problem)
    assert 1e-9 < certifier.certify(near.alpha).relative_gap <= 0.3
    assert certifier.certify(end.alpha).relative_gap <= 1e-9


@pytest.mark.usefixtures("no_factor")
def test_a_refinement_that_would_need_too_large_a_factor_gives_back_its_start(monkeypatch):
    monkeypatch.setattr(dualflow.refinement.active_set, "_MAX_N_FACTOR", 2)
    problem = problems.svc(Gram(X[:500]), Y[:500])
    start = solve(problem, tol=1e-3).alpha
    found = refine(problem, start)
    assert not found.converged
    assert problem.objective(found.alpha) <= problem.objective(start) + 1e-12


@pytest.mark.parametrize(
    ("n", "width"), [(level.MAX_N_FREE_BLOCKS, level.MIN_BLOCK_WIDTH), (200_000, 200_000 // level.VARIABLES_PER_EXTRA)]
)
def test_blocks_of_very_many_have_room_for_a_part_of_them(n, width):
    points = np.random.default_rng(0).normal(size=(n, 2))
    problem = Workspace(problems.svc(Gram(points), np.where(points[:, 0] > 0, 1.0, -1.0)))
    assert len(level.Level(problem, np.zeros(n), np.float32).choose_block()) == width


def test_wider_blocks_come_to_the_same_optimum(monkeypatch):
    problem = problems.svc(Gram(X[:8000]), Y[:8000])
    before = solve(problem, tol=1e-6, gap_tol=5e-7)
    for module in (level, descent):
        monkeypatch.setattr(module, "MAX_N_FREE_BLOCKS", 4000)
    monkeypatch.setattr(level, "VARIABLES_PER_EXTRA", 4)
    after = solve(problem, tol=1e-6, gap_tol=5e-7)
    assert after.certificate.relative_gap <= 1e-6
    assert after.certificate.objective == pytest.approx(before.certificate.objective, rel=2e-6)
    assert not np.array_equal(after.alpha, before.alpha)  # they were wider


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kept_rows_of_a_million_points_take_a_gigabyte(dtype):
    rows = RowCache(1_000_000, dtype, CACHE_BYTES)
    assert rows.capacity * 1_000_000 * np.dtype(dtype).itemsize <= CACHE_BYTES
    assert 2 * rows.batch_rows <= rows.capacity


def test_sums_of_more_rows_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr(kernel_cache, "MAX_BYTES_TWO_BATCHES", 8 * 50 * 7)
    K, out = np.random.default_rng(0).normal(size=(50, 50)), np.zeros(50)
    rows, weights = RowCache(50, float, 0), np.linspace(1.0, 2.0, 20)
    assert rows.capacity < 20
    rows.add_to(out, np.arange(20), weights, lambda J, start, to: np.copyto(to, K[J, start:]))
    np.testing.assert_allclose(out, weights @ K[:20], rtol=1e-12)
