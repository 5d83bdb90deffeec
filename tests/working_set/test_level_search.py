"""`level-search`: answers against CVXOPT's, optima where the sum jumps, and how its runs behave."""

from types import SimpleNamespace

import numpy as np
import pytest

from dualflow import Gram, Status, Workspace, certify, problems, solve
from dualflow.core.runtime import clock
from dualflow.refinement import linear_systems
from dualflow.solvers.registry import make_solver
from dualflow.working_set.level_search import Levels
from tests.combinations import often


def case(k):
    """A small random problem of two equalities."""
    rng = np.random.default_rng(k)
    n, features = int(rng.integers(20, 60)), int(rng.integers(1, 5))
    X = rng.normal(size=(n, features))
    y = np.where(X[:, 0] + rng.normal(size=n) > 0.3, 1, -1)
    weight = rng.uniform(0.5, 2.0, n) if k % 2 else np.ones(n)
    gram = Gram(X, "rbf", gamma=0.3)
    if k % 4 < 2:
        most = 2.0 * min(weight[y > 0].sum(), weight[y < 0].sum()) / weight.sum()
        return problems.nu_svc(gram, y, most * rng.uniform(0.7, 1.0), sample_weight=weight)
    values = X[:, 0] + 0.3 * rng.normal(size=n)
    return problems.nu_svr(gram, values, 10.0 ** rng.uniform(-1, 2), nu=rng.uniform(0.1, 1.0), sample_weight=weight)


@pytest.mark.parametrize("k", often(range(64), *range(0, 64, 2)))
def test_answers_are_those_of_cvxopt_and_of_the_interior_point(k):
    problem = case(k)
    solution, reference = solve(problem, "level-search"), solve(problem, "cvxopt", tol=1e-12)
    assert solution.status is Status.OPTIMAL
    assert solution.certificate.reaches(1e-9)
    assert solution.certificate.infeasibility <= 1e-12 * problem.total
    size = abs(reference.certificate.objective)
    assert abs(solution.certificate.objective - reference.certificate.objective) <= 1e-7 * size
    other = solve(problem, "interior-point")
    assert other.certificate.reaches(1e-9)
    assert solution.certificate.level == pytest.approx(other.certificate.level, rel=1e-6, abs=1e-9)
    assert solution.cost.steps <= 25


def test_a_quarter_of_many_points_says_where_to_begin():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1200, 5))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=1200) > 0.3, 1, -1)
    solution = solve(problems.nu_svc(Gram(X), y, 0.4), "level-search")
    assert solution.certificate.reaches(1e-9)
    assert solution.cost.steps <= 10
    assert solve(problems.nu_svc(Gram(X), y, 0.4), "level-search", warm=solution.alpha).cost.steps <= 2


def test_where_the_sum_jumps_the_optimum_lies_between():
    # Every point twice: α(μ) is no single one, and S jumps where the last of them meets its bound.
    X = np.repeat([[0.0], [1.0], [3.0], [4.0]], 2, axis=0)
    problem = problems.nu_svc(Gram(X, "linear"), np.repeat([-1, -1, 1, 1], 2), 0.375)
    solution = solve(problem, "level-search")
    assert solution.certificate.relative_gap <= 1e-12
    assert solution.certificate.infeasibility <= 1e-12
    assert solution.certificate.objective == pytest.approx(0.5 * (1.5 * 2.0) ** 2)


def test_a_tube_of_no_width_raises_both_variables_of_points():
    rng = np.random.default_rng(2)
    problem = problems.nu_svr(Gram(rng.normal(size=(25, 3))), rng.normal(size=25), 1.0, nu=1.0)
    solution = solve(problem, "level-search")
    assert solution.certificate.reaches(1e-10)
    assert abs(solution.certificate.level) <= 1e-9
    assert float(solution.alpha.sum()) == pytest.approx(problem.total)


def test_an_indefinite_kernel_is_solved_without_a_certificate():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 3))
    y = np.where(X[:, 0] > 0, 1, -1)
    solution = solve(problems.nu_svc(Gram(X, "sigmoid", gamma=1.0, coef0=-1.0), y, 0.5), "level-search")
    assert solution.certificate.gap is None
    assert solution.certificate.infeasibility <= 1e-9


def test_runs_resume_from_a_checkpoint_to_the_same_bits(tmp_path):
    problem = case(1)
    whole = solve(problem, "level-search")
    solve(problem, "level-search", checkpoint=tmp_path / "run", max_steps=1)
    resumed = solve(problem, "level-search", checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.raw_alpha, whole.raw_alpha)


def test_a_state_before_the_end_is_feasible():
    problem = case(6)
    cut = solve(problem, "level-search", max_steps=1)
    assert cut.status is Status.STEP_LIMIT
    assert cut.certificate.infeasibility <= 1e-12 * problem.total
    assert 0 < cut.certificate.relative_gap < np.inf


def test_auto_takes_it_where_many_columns_make_the_kernel_matrix():
    y = np.where(np.arange(40) % 2 == 0, 1, -1)
    X = np.random.default_rng(5).normal(size=(40, 2)) + y[:, None]
    names = [solve(problems.nu_svc(Gram(X, kernel), y, 0.5)).provenance["solver"] for kernel in ("rbf", "linear")]
    assert names == ["level-search", "interior-point"]


def test_certificates_do_not_come_from_the_solver():
    problem = case(4)
    found = solve(problem, "level-search")
    again = certify(problem, found.raw_alpha)
    assert again.objective == pytest.approx(found.certificate.objective)
    assert again.reaches(1e-9)
    assert isinstance(make_solver("level-search").open(problem, Workspace(problem)), Levels)


def test_a_slope_of_many_free_variables_looks_at_the_clock():
    """The system of all free variables takes seconds where thousands are free."""
    n = linear_systems.MAX_ROWS_ONE_CALL + 1
    at = SimpleNamespace(upper=np.ones(n), e=np.where(np.arange(n) % 2, 1.0, -1.0), block=lambda *_: np.eye(n))
    alpha = np.full(n, 0.5)
    free, _, slope = Levels.slope(None, at, alpha)
    assert len(free) == n
    np.testing.assert_allclose(slope, n, rtol=1e-6)  # Q = I: 1 minus its part along e
    with clock.within(0.0), pytest.raises(clock.OutOfTime):
        Levels.slope(None, at, alpha)
