"""The compiled pair loop and the levels around it, against plain numpy and other solvers."""

import subprocess
import sys

import numpy as np
import pytest
from dualflow.working_set._pairs import add_rows, solve_pairs
from sklearn.datasets import make_classification, make_moons

from dualflow import Checkpoint, Gram, Kind, problems, solve
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum, rbf_kernel
from dualflow.working_set import level as levels
from dualflow.working_set.level import Level, nested_order, restrict, seed

X, T = make_moons(60, noise=0.3, random_state=0)
Y = 2.0 * T - 1
K = rbf_kernel(X, 1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("equality", [True, False])
@pytest.mark.parametrize("C", [0.5, 50.0])
def test_pair_loop_solves_a_block(dtype, equality, C):
    """In β = yα with M = K (equality), or β = α with M = YKY: the optimum of an independent method."""
    n = len(Y)
    e = Y if equality else np.ones(n)
    Q = Y[:, None] * K * Y
    M = np.ascontiguousarray((e[:, None] * Q * e).astype(dtype))
    G, beta = (-e).astype(dtype), np.zeros(n)
    low, high = np.where(e > 0, 0.0, -C), np.where(e > 0, C, 0.0)
    updates, violation = solve_pairs(M, G, beta, low, high, equality, 1e-4, 10**6)
    best, _ = coneqp_optimum(QuadraticProgram(Q, np.ones(n), np.full(n, C), Y if equality else None))
    alpha = e * beta
    assert updates > 0
    assert violation <= 1e-4
    assert np.all(beta >= low)
    assert np.all(beta <= high)
    assert 0.5 * alpha @ Q @ alpha - alpha.sum() == pytest.approx(best, rel=1e-4)
    np.testing.assert_allclose(G, M.astype(float) @ beta - e, atol=2e-4 * C if dtype is np.float32 else 1e-9)
    if equality:
        assert beta.sum() == pytest.approx(0.0, abs=1e-12 * C)


def test_pair_loop_takes_the_second_order_pair():
    """One update, by hand: i has the least G, j the largest (Gⱼ − Gᵢ)²/(Mᵢᵢ + Mⱼⱼ − 2Mᵢⱼ), not the largest G."""
    M = np.array([[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 100.0]])
    G, beta = np.array([-1.0, 0.5, 0.8]), np.zeros(3)
    low, high = np.full(3, -10.0), np.full(3, 10.0)
    updates, _ = solve_pairs(M, G, beta, low, high, True, 1e-9, 1)
    assert updates == 1
    np.testing.assert_allclose(beta, [7.5, -7.5, 0.0])  # 1.5²/0.2 = 11.25 beats 1.8²/101


def test_pair_loop_stops_at_bounds_exactly():
    M, G, beta = np.eye(2), np.array([-5.0, 5.0]), np.zeros(2)
    solve_pairs(M, G, beta, np.array([0.0, -0.3]), np.array([0.7, 0.0]), True, 1e-12, 10)
    assert beta[1] == -0.3
    assert beta[0] == 0.3


def test_pair_loop_refuses_shapes_that_disagree():
    with pytest.raises(ValueError, match="must be"):
        solve_pairs(np.eye(3), np.zeros(2), np.zeros(3), np.zeros(3), np.ones(3), True, 1e-3, 1)
    with pytest.raises(ValueError, match="as long as"):
        add_rows(np.eye(3), np.array([0]), np.array([1.0]), np.zeros(2))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_add_rows(dtype):
    rng = np.random.default_rng(0)
    rows, out = rng.normal(size=(7, 5000)).astype(dtype), rng.normal(size=5000)
    slots, weights = np.array([6, 0, 3]), np.array([0.5, -2.0, 1.0])
    expected = out + weights @ rows[slots].astype(float)
    add_rows(rows, slots, weights, out)
    np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-13)


def test_loading_the_compiled_loop_leaves_denormals_alone():
    """-ffast-math would set flush-to-zero in the whole process."""
    code = "import dualflow.working_set._pairs, numpy as np; print(np.float64(1e-310) * 1.0 > 0)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"


PROBLEMS = {
    "hinge": lambda g, y: problems.svc(g, y, 5.0),
    "no bias": lambda g, y: problems.svc(g, y, 5.0, fit_intercept=False),
    "squared hinge": lambda g, y: problems.svc(g, y, 5.0, loss="squared_hinge"),
    "ball": lambda g, y: problems.svdd(g),
    "one-class": lambda g, y: problems.one_class(g, 0.2),
    "svr": lambda g, y: problems.svr(g, np.sin(g.X[:, 0]), 5.0),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_level_keeps_the_gradient(name, dtype, monkeypatch):
    """G = e∘(Qα − p) after blocks that overlap, with a row cache so small that rows are dropped and fetched again."""
    monkeypatch.setattr(levels, "BLOCK", 16)
    monkeypatch.setattr(levels, "CACHE_BYTES", 1)
    problem = PROBLEMS[name](Gram(X, gamma=1.0), Y)
    level = Level(problem, problem.project(np.zeros(problem.n)), dtype)
    before = problem.objective(level.alpha)
    for _ in range(12):
        level.improve(1e-6, 1000)
    h = problem.gradient(level.alpha)
    expected = h if problem.e is None else problem.e * h
    np.testing.assert_allclose(level.G * level.slope, expected, atol=2e-5 if dtype is np.float32 else 1e-11)
    assert problem.infeasibility(level.alpha) <= 1e-9
    assert problem.objective(level.alpha) < before
    assert level.capacity < problem.n
    assert level.count == int((level.owner >= 0).sum()) == int((level.slot >= 0).sum())


def test_levels_estimate_of_the_gap_is_the_certificates():
    problem = problems.svc(Gram(X, gamma=1.0), Y, 5.0)
    solution = solve(problem, "working-set", kkt_tol=1e-2, gap_tol=1e-2)
    level = Level(problem, solution.raw_alpha, np.float64)
    violation, gap = level.standing(*level.candidates())
    assert 0 < violation <= 1e-2
    assert gap >= solution.raw_certificate.relative_gap * (1 - 1e-6)  # the certificate takes the best ν
    assert gap <= 50 * solution.raw_certificate.relative_gap


def test_nested_order_keeps_the_classes_in_proportion():
    y = np.where(np.arange(400) < 40, 1.0, -1.0)
    problem = problems.svc(Gram(np.random.default_rng(0).normal(size=(400, 2))), y)
    order = nested_order(problem, np.random.default_rng(1))
    assert sorted(order) == list(range(400))
    for size in (40, 100, 200):
        assert (y[order[:size]] > 0).sum() == pytest.approx(size / 10, abs=2)


@pytest.mark.parametrize("name", PROBLEMS)
def test_restriction_is_the_problem_on_those_points(name):
    problem = PROBLEMS[name](Gram(X, gamma=1.0), Y)
    points = np.array([3, 11, 20, 41, 5, 58, 33, 8])
    part, inside = restrict(problem, points)
    np.testing.assert_allclose(part.dense(), problem.dense()[np.ix_(inside, inside)], atol=1e-12)
    np.testing.assert_array_equal(part.p, problem.p[inside])
    if problem.kind is Kind.CAPPED_SIMPLEX:
        assert part.upper[0] * len(points) == pytest.approx(problem.upper[0] * problem.n)  # ν is kept
    assert part.kind is problem.kind


def test_seed_fills_the_points_farthest_outside():
    """Sixteen points, ν = ½, α on four of them: the other half of the weight goes to the four with the least h."""
    problem = problems.svdd(Gram(X[:16], gamma=1.0), 0.5)  # u = 1/8
    alpha = np.zeros(16)
    alpha[:4] = 0.25
    found = seed(problem, alpha)
    wanting = np.argsort(problem.gradient(alpha)[4:])[:4] + 4
    np.testing.assert_allclose(found[:4], 0.125)
    assert sorted(np.flatnonzero(found[4:]) + 4) == sorted(wanting)
    assert found.sum() == pytest.approx(1.0, abs=1e-15)
    simplex = problems.svdd(Gram(X[:16], gamma=1.0))
    np.testing.assert_array_equal(seed(simplex, alpha), alpha)


@pytest.mark.parametrize("name", PROBLEMS)
def test_seeded_blocks_reach_the_optimum(name):
    """2500 points: two levels, blocks smaller than the problem."""
    Z, t = make_classification(2500, 10, random_state=0)
    problem = PROBLEMS[name](Gram(Z), 2.0 * t - 1)
    solution = solve(problem, "working-set", refine=True)
    assert solution.raw_certificate.relative_gap <= 1e-4
    assert solution.certificate.relative_gap <= 1e-9
    assert solution.raw_certificate.objective >= solution.certificate.objective - 1e-9 * abs(
        solution.certificate.objective
    )


@pytest.mark.parametrize("C", [1.0, 100.0])
def test_tight_tolerance_goes_on_in_float64(C):
    problem = problems.svc(Gram(X, gamma=1.0), Y, C)
    solution = solve(problem, "working-set", kkt_tol=1e-9, gap_tol=1e-9)
    assert solution.raw_certificate.relative_gap <= 1e-9


@pytest.mark.parametrize("steps", [1, 2, 3, 6, 8])
def test_resumed_run_equals_the_uninterrupted_one(tmp_path, steps):
    """Cut in a seeding level, in the middle of the last one in float32, and late: the same bits each time."""
    Z, t = make_classification(2500, 20, random_state=0)

    def problem():
        return problems.svc(Gram(Z), 2.0 * t - 1, 100.0)

    whole = solve(problem(), "working-set")
    path = Checkpoint(tmp_path / "run.npz", interval_s=0.0)
    cut = solve(problem(), "working-set", max_steps=steps, checkpoint=path)
    resumed = solve(problem(), "working-set", checkpoint=path)
    assert cut.cost.steps == steps < whole.cost.steps == resumed.cost.steps
    assert np.any(cut.raw_alpha != whole.raw_alpha)  # there was something left to do
    np.testing.assert_array_equal(resumed.raw_alpha, whole.raw_alpha)


@pytest.mark.parametrize("option", ["kkt_tol", "gap_tol"])
def test_tolerances_must_be_positive(option):
    with pytest.raises(ValueError, match=option):
        solve(problems.svc(Gram(X), Y), "working-set", **{option: 0.0})


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 1e6, 1e100])
@pytest.mark.parametrize("model", ["hinge", "ball"])
def test_the_scale_of_the_kernel_does_not_matter(scale, model):
    """K → cK: α → α/c for the hinge at C/c, the same α for the ball."""
    base = Gram(X, kernel="linear").full() + 1e-3 * np.eye(60)
    gram, scaled = Gram.precomputed(base), Gram.precomputed(base * scale)
    if model == "hinge":
        found = solve(problems.svc(scaled, Y, 5.0 / scale), "working-set", refine=True)
        expected = solve(problems.svc(gram, Y, 5.0), "smo", refine=True)
        np.testing.assert_allclose(found.alpha * scale, expected.alpha, atol=1e-5)
    else:
        found = solve(problems.svdd(scaled), "working-set", refine=True)
        expected = solve(problems.svdd(gram), "smo", refine=True)
        np.testing.assert_allclose(found.alpha, expected.alpha, atol=1e-5)
    assert found.raw_certificate.relative_gap <= 1e-6


def test_indefinite_problems_rest_by_their_violation():
    """No gap exists; the KKT conditions, written out here, must hold to the tolerance all the same."""
    rng = np.random.default_rng(0)
    A = rng.normal(size=(40, 40))
    problem = problems.svc(Gram.precomputed((A + A.T) / 2), np.where(np.arange(40) % 2, 1, -1), 1.0)
    solution = solve(problem, "working-set")
    alpha, h = solution.raw_alpha, problem.gradient(solution.raw_alpha)
    v = -problem.e * h
    rises = np.where(problem.e > 0, alpha < problem.upper, alpha > 0)
    falls = np.where(problem.e > 0, alpha > 0, alpha < problem.upper)
    assert solution.raw_certificate.gap is None
    assert v[rises].max() - v[falls].min() <= 2e-3 * np.abs(problem.p).max()
    assert problem.objective(alpha) < 0
