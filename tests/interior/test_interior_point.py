"""`interior-point`: answers against CVXOPT's and the working set's, hard cells, and how its runs behave."""

import threading
import time

import numpy as np
import pytest

from dualflow import Gram, SolverMismatch, Workspace, certify, problems, solve
from dualflow.core.runtime.threads import at_most
from dualflow.interior.dense import Dense
from dualflow.interior.low_rank import LowRank
from dualflow.solvers.registry import make_solver

RNG = np.random.default_rng(7)
X = RNG.normal(size=(90, 3))
LABELS = np.where(X[:, 0] + 0.5 * X[:, 1] ** 2 + 0.6 * RNG.normal(size=90) > 0.3, 1, -1)
VALUES = X[:, 0] - X[:, 2] + 0.3 * RNG.normal(size=90)
WEIGHT = np.where(np.arange(90) % 7 == 0, 0.0, RNG.random(90) + 0.2)


def posed(gram):
    """A problem of every kind and option, by name."""
    svc, y = problems.svc, LABELS
    return {
        "hinge": svc(gram, y, 2.0),
        "hinge, weights": svc(gram, y, 2.0, sample_weight=WEIGHT),
        "hinge, no bias": svc(gram, y, 2.0, fit_intercept=False),
        "hinge, bias in the kernel": svc(gram, y, 2.0, fit_intercept="penalised"),
        "squared hinge": svc(gram, y, 2.0, loss="squared_hinge"),
        "squared hinge, weights": svc(gram, y, 2.0, loss="squared_hinge", sample_weight=WEIGHT),
        "squared hinge, no bias": svc(gram, y, 2.0, loss="squared_hinge", fit_intercept=False),
        "tube": problems.svr(gram, VALUES, 3.0, epsilon=0.2),
        "tube, weights": problems.svr(gram, VALUES, 3.0, epsilon=0.2, sample_weight=WEIGHT),
        "one class": problems.one_class(gram, 0.3),
        "one class, all at their bounds": problems.one_class(gram, 1.0),
        "soft ball": problems.svdd(gram, 0.2),
        "soft ball, weights": problems.svdd(gram, 0.2, sample_weight=WEIGHT),
        "hard ball": problems.svdd(gram),
        "nu-SVC": problems.nu_svc(gram, y, 0.7),
        "nu-SVC, weights": problems.nu_svc(gram, y, 0.6, sample_weight=WEIGHT),
        "nu-SVR": problems.nu_svr(gram, VALUES, 3.0, nu=0.4),
        "nu-SVR, weights": problems.nu_svr(gram, VALUES, 3.0, nu=0.4, sample_weight=WEIGHT),
        "least squares": problems.least_squares(gram, y, 2.0),
        "ridge regression": problems.least_squares(gram, VALUES, 2.0, regression=True, fit_intercept=False),
    }


GRAMS = {
    "linear": lambda: Gram(X + 0.7, "linear"),
    "quadratic": lambda: Gram(X, "poly", degree=2, coef0=1.0, gamma=0.5),
    "smooth": lambda: Gram(X[:, :1], "rbf", gamma=0.05),
    "radial": lambda: Gram(X, "rbf", gamma=0.5),
    "given": lambda: Gram(X @ X.T, "precomputed"),
    "callable": lambda: Gram(X, lambda A, B: A @ B.T + 1.0),
}
CASES = [(kernel, name) for kernel in GRAMS for name in posed(Gram(X, "linear"))]


@pytest.mark.parametrize(("kernel", "name"), CASES)
def test_answers_are_those_of_cvxopt(kernel, name):
    problem = posed(GRAMS[kernel]())[name]
    solution, reference = solve(problem, "interior-point"), solve(problem, "cvxopt", tol=1e-12)
    size = abs(reference.certificate.objective)
    assert solution.raw_certificate.relative_gap <= 1e-9
    assert solution.raw_certificate.objective <= reference.certificate.objective + 1e-9 * size
    own = certify(problem, solution.alpha)
    assert own.objective == pytest.approx(solution.certificate.objective, rel=1e-9)
    assert solution.provenance["solver"] == "interior-point"


@pytest.mark.parametrize("name", ["hinge", "hinge, weights", "tube", "soft ball"])
def test_bounds_are_met_exactly_and_support_vectors_are_those_of_the_working_set(name):
    problem = posed(Gram(X, "linear"))[name]
    solution, other = solve(problem, "interior-point"), solve(problem, "working-set", refine=True)
    np.testing.assert_array_equal(solution.support, other.support)
    np.testing.assert_array_equal(solution.alpha == problem.upper, other.alpha == problem.upper)
    assert ((solution.alpha > 0) & (solution.alpha < problem.upper)).sum() <= X.shape[1] + 1


def test_few_columns_are_taken_where_they_are_few_and_the_whole_matrix_else():
    solver = make_solver("interior-point")
    forms = {
        kernel: type(solver.open(problem, Workspace(problem)))
        for kernel, problem in ((kernel, problems.svc(make(), LABELS)) for kernel, make in GRAMS.items())
    }
    few = {"linear", "quadratic", "smooth", "given", "callable"}
    assert forms == {kernel: LowRank if kernel in few else Dense for kernel in GRAMS}


def heavy(n=1200, d=6):
    rng = np.random.default_rng(0)
    points = rng.standard_t(1.5, (n, d))
    return points, np.where(points @ rng.normal(size=d) + rng.normal(size=n) > 0, 1, -1)


def rare(n=3000, d=5):
    rng = np.random.default_rng(1)
    points = rng.normal(size=(n, d))
    score = points @ rng.normal(size=d) + 2 * rng.normal(size=n)
    return points, np.where(score > np.quantile(score, 0.99), 1, -1)


def noise(n=320, d=200):
    rng = np.random.default_rng(2)
    return rng.normal(size=(n, d)), np.where(rng.random(n) < 0.5, 1, -1)


def apart(n=800, d=5):
    rng = np.random.default_rng(3)
    points, w = rng.normal(size=(n, d)), rng.normal(size=d)
    margin = points @ w
    return points + 0.3 * np.sign(margin)[:, None] * w / np.linalg.norm(w), np.where(margin > 0, 1, -1)


def far(n=1000, d=4):
    rng = np.random.default_rng(4)
    points = rng.normal(size=(n, d))
    return points + 1e4, np.where(points[:, 0] + 0.5 * rng.normal(size=n) > 0, 1, -1)


@pytest.mark.parametrize(
    ("data", "C"),
    [(heavy, 1.0), (heavy, 1e4), (rare, 1.0), (rare, 1e4), (noise, 1.0), (noise, 1e4), (apart, 1e8), (far, 1.0)],
    ids=lambda value: getattr(value, "__name__", f"{value}"),
)
def test_hard_cells_are_certified(data, C):
    points, y = data()
    # At a large C each margin within round-off adds C to the gap: stretching α takes the margins past 1.
    solution = solve(problems.svc(Gram(points, "linear"), y, C), "interior-point", tol=1e-8, refine="early")
    assert solution.status.name == "OPTIMAL"
    assert solution.certificate.relative_gap <= 1e-8


def test_hard_margin_and_its_absence():
    points, y = apart()
    solution = solve(problems.svc(Gram(points, "linear"), y, np.inf), "interior-point", refine=True)
    assert solution.certificate.relative_gap <= 1e-9
    overlapping = np.where(np.arange(len(y)) % 2, 1, -1)
    found = solve(problems.svc(Gram(points, "linear"), overlapping, np.inf), "interior-point")
    assert found.status.name == "NOT_SEPARABLE"


def test_too_many_points_of_too_high_a_rank_are_refused_with_a_way_out():
    points = RNG.normal(size=(4200, 6))
    y = np.where(points[:, 0] > 0, 1, -1)
    with pytest.raises(SolverMismatch, match=r"at most 4000 variables.*'working-set'"):
        solve(problems.svc(Gram(points, "rbf", gamma=2.0), y), "interior-point")
    wide = RNG.normal(size=(4200, 1200))
    with pytest.raises(SolverMismatch, match="at most 4000 variables"):
        solve(problems.svc(Gram(wide, "linear"), y), "interior-point")


# --- runs --------------------------------------------------------------------------------------


@pytest.fixture
def large():
    points = np.random.default_rng(5).normal(size=(3000, 8))
    return problems.svc(Gram(points, "linear"), np.where(points[:, 0] + points[:, 1] ** 2 > 1, 1, -1), 1.0)


def test_the_path_is_recorded_and_its_gaps_fall(large):
    path = solve(large, "interior-point", trajectory=True).trajectory
    assert 8 <= len(path.t) <= 40
    assert path.gap[-1] <= 1e-10
    assert (np.diff(path.gap[-5:]) <= 1e-12).all()


def test_a_callback_sees_every_step_and_may_stop(large):
    steps = []
    whole = solve(large, "interior-point", callback=lambda progress: steps.append(progress.step))
    assert steps == list(range(1, whole.cost.steps + 1))
    short = solve(large, "interior-point", callback=lambda progress: progress.step == 3)
    assert (short.cost.steps, short.raw_status.name) == (3, "STOPPED")


def test_a_run_resumes_to_the_bit(large, tmp_path):
    whole = solve(large, "interior-point")
    solve(large, "interior-point", checkpoint=tmp_path / "run", max_steps=whole.cost.steps // 2)
    again = solve(large, "interior-point", checkpoint=tmp_path / "run")
    assert again.cost.steps == whole.cost.steps
    np.testing.assert_array_equal(again.raw_alpha, whole.raw_alpha)
    np.testing.assert_array_equal(again.certificate.primal, whole.certificate.primal)


def test_threads_leave_the_bits_as_they_are(large):
    points = np.random.default_rng(6).normal(size=(30_000, 30))
    problem = problems.svc(Gram(points, "linear"), np.where(points[:, 0] + points[:, 1] ** 2 > 1, 1, -1), 1.0)
    found = []
    for threads in (1, 2):
        with at_most(threads):
            found.append(solve(problem, "interior-point", max_steps=4).raw_alpha)
    np.testing.assert_array_equal(*found)


def test_a_time_limit_gives_what_there_is(large):
    solution = solve(large, "interior-point", time_limit=1e-9)
    assert solution.status.name == "TIME_LIMIT"
    assert np.isfinite(solution.alpha).all()


def test_ctrl_c_gives_the_state_before(large):
    def interrupt(progress):
        if progress.step == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as caught:
        solve(large, "interior-point", callback=interrupt)
    solution = caught.value.solution
    assert solution.status.name == "INTERRUPTED"
    assert solution.cost.steps == 2


def test_two_runs_at_once_do_not_disturb_each_other(large):
    alone, found = solve(large, "interior-point").raw_alpha, []
    threads = [threading.Thread(target=lambda: found.append(solve(large, "interior-point"))) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(np.array_equal(solution.raw_alpha, alone) for solution in found)


def test_a_linear_kernel_of_many_points_takes_no_kernel_values():
    points = np.random.default_rng(8).normal(size=(40_000, 5))
    problem = problems.svc(Gram(points, "linear"), np.where(points[:, 0] > 0.3 * points[:, 1], 1, -1), 1.0)
    begun = time.process_time()
    solution = solve(problem, "interior-point")
    assert solution.certificate.relative_gap <= 1e-10
    assert time.process_time() - begun < 60  # n² kernel values would take minutes
