"""The compiled pair loop and the levels around it, against plain numpy and other solvers."""

import subprocess
import sys

import numpy as np
import pytest
from dualflow.core._radial import add_rows
from dualflow.working_set._pairs import RowSource, padded, solve_pairs
from sklearn.datasets import make_classification, make_moons

from dualflow import Checkpoint, Gram, Kind, problems, solve
from dualflow.core.kernel_cache import RowCache
from dualflow.core.radial import RadialPoints
from dualflow.core.workspace import Workspace
from dualflow.solvers.working_set import WorkingSet
from dualflow.testing.reference import QuadraticProgram, coneqp_optimum, rbf_kernel
from dualflow.working_set import block_rows, descent
from dualflow.working_set import level as levels
from dualflow.working_set.level import Level
from dualflow.working_set.seeding import nested_order, restrict, seed
from tests.combinations import often

X, T = make_moons(60, noise=0.3, random_state=0)
Y = 2.0 * T - 1
K = rbf_kernel(X, 1.0)


def pairs(M, G, beta, low, high, equality, tolerance, limit):
    """All rows at hand."""
    rows, diag = np.ascontiguousarray(M), np.diagonal(M).copy()
    return solve_pairs(rows, np.arange(len(M)), len(M), G, diag, beta, low, high, equality, tolerance, limit)


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
    updates, violation, _ = pairs(M, G, beta, low, high, equality, 1e-4, 10**6)
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
    updates, _, _ = pairs(M, G, beta, low, high, True, 1e-9, 1)
    assert updates == 1
    np.testing.assert_allclose(beta, [7.5, -7.5, 0.0])  # 1.5²/0.2 = 11.25 beats 1.8²/101


@pytest.mark.parametrize("equality", [True, False])
def test_pair_loop_leaps_to_the_minimum_over_the_free(equality):
    """After 20 updates the free variables take a Newton step; pair updates alone would be wrong by 6 there."""
    M = 1.0 / (1.0 + np.subtract.outer(np.arange(9.0), np.arange(9.0)) ** 2) + 1e-3 * np.eye(9)
    M = M @ M @ M @ M  # condition number 6e3
    best = np.array([5.0, -4.0, 3.0, -7.0, 6.0, -5.0, 4.0, -3.0, 1.0])
    for dtype, accuracy in ((np.float64, 1e-6), (np.float32, 1e-2)):
        G, beta = (-M @ best).astype(dtype), np.zeros(9)
        pairs(M.astype(dtype), G, beta, np.full(9, -1e6), np.full(9, 1e6), equality, 1e-12, 21)
        np.testing.assert_allclose(beta, best, atol=accuracy)
        assert np.ptp(G) <= 1e-2 * accuracy


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("equality", [True, False])
def test_pair_loop_does_not_crawl(dtype, equality):
    """C = 1e4 on overlapping moons: pairs alone need 27000 updates, without the equality 900000."""
    Z, t = make_moons(300, noise=0.25, random_state=0)
    y = 2.0 * t - 1
    K, e, C = rbf_kernel(Z, 1.0), y if equality else np.ones(300), 1e4
    Q = y[:, None] * K * y
    M = np.ascontiguousarray((e[:, None] * Q * e).astype(dtype))
    G, beta = (-e).astype(dtype), np.zeros(300)
    low, high = np.where(e > 0, 0.0, -C), np.where(e > 0, C, 0.0)
    updates, violation, _ = pairs(M, G, beta, low, high, equality, 1e-2, 10**6)
    assert violation <= 1e-2
    assert updates < 4000
    assert ((beta >= low) & (beta <= high)).all()
    assert np.count_nonzero((beta > low) & (beta < high)) < 60  # those that met a bound lie on it
    best, _ = coneqp_optimum(QuadraticProgram(Q, np.ones(300), np.full(300, C), y if equality else None))
    alpha = e * beta
    assert 0.5 * alpha @ Q @ alpha - alpha.sum() == pytest.approx(best, rel=1e-3)


def test_pair_loop_stops_at_bounds_exactly():
    M, G, beta = np.eye(2), np.array([-5.0, 5.0]), np.zeros(2)
    pairs(M, G, beta, np.array([0.0, -0.3]), np.array([0.7, 0.0]), True, 1e-12, 10)
    assert beta[1] == -0.3
    assert beta[0] == 0.3


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [60, 130])
def test_rows_made_on_demand_are_the_matrix_and_no_more_are_made(dtype, n):
    """M = factor · S(K + offset)S + ridge: the rows against numpy, and the end against that with all rows at hand."""
    rng = np.random.default_rng(0)
    Z, s, ridge = rng.normal(size=(n, 5)), np.where(rng.random(n) < 0.5, 1.0, -1.0), rng.random(n)
    points = Gram(Z, gamma=0.3).radial_points(dtype)
    M = (1.7 * s[:, None] * s * (rbf_kernel(Z, 0.3) + 0.5) + np.diag(ridge)).astype(dtype)
    low, high, diag = np.zeros(n), np.full(n, 2.0), np.diagonal(M).copy()
    start = rng.normal(size=n).astype(dtype)
    rows, slots = np.full((n, padded(n)), np.nan, dtype=dtype), np.full(n, -1)  # not a number until it is made
    beta, G = np.zeros(n), start.copy()
    source = RowSource(points.points, points.half, s, ridge, 1.7, 0.5)
    _, violation, used = solve_pairs(rows, slots, 0, G, diag, beta, low, high, False, 1e-3, 10**5, source)
    made = np.flatnonzero(slots >= 0)
    assert violation <= 1e-3
    assert 0 < used == len(made) < n
    assert sorted(slots[made]) == list(range(used))
    assert set(np.flatnonzero(beta)) <= set(made)
    accuracy = 1e-5 if dtype is np.float32 else 1e-13
    np.testing.assert_allclose(rows[slots[made], :n], M[made], rtol=accuracy, atol=accuracy)
    whole, G_whole = np.zeros(n), start.copy()
    pairs(M, G_whole, whole, low, high, False, 1e-3, 10**5)
    np.testing.assert_allclose(beta, whole, atol=2e-3)


def test_rows_are_made_together_where_that_is_cheaper():
    """Rows of all free variables are made together, even if no update follows; a single row brings another one."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 20))
    points = RadialPoints.of(X, np.zeros(20), 0.02, np.float64, (X**2).sum(axis=1))
    n, M = 200, points.kernel(points)
    source = RowSource(points.points, points.half, np.ones(n), np.zeros(n), 1.0, 0.0)
    low, high, diag = np.zeros(n), np.ones(n), np.ones(n)
    for weighty, updates, wanted in ((70, 0, 70), (1, 1, 3)):
        beta = np.where(np.arange(n) < weighty, 1.0 / weighty, 0.0)
        beta[0] = 0.5 if weighty > 1 else 1.0 - 1e-9
        G = M @ beta
        rows, slots = np.full((n, padded(n)), np.nan), np.full(n, -1)
        done, _, used = solve_pairs(rows, slots, 0, G, diag, beta, low, high, True, 1e-9, updates, source)
        assert done == updates
        assert used == wanted == (slots >= 0).sum()
        made = np.flatnonzero(slots >= 0)
        np.testing.assert_allclose(rows[slots[made], :n], M[made], rtol=1e-13)


def test_pair_loop_refuses_shapes_that_disagree():
    three = np.zeros(3), np.ones(3), np.zeros(3), np.zeros(3), np.ones(3)
    with pytest.raises(ValueError, match="must be"):
        solve_pairs(np.eye(3), np.arange(3), 3, np.zeros(2), *three[1:], True, 1e-3, 1)
    with pytest.raises(ValueError, match="rows are missing"):
        solve_pairs(np.eye(3), np.full(3, -1), 0, *three, True, 1e-3, 1)
    source = RowSource(np.zeros((3, 4)), np.zeros(3), np.ones(3), np.zeros(3), 1.0, 0.0)
    with pytest.raises(ValueError, match="padded"):
        solve_pairs(np.eye(3), np.full(3, -1), 0, *three, True, 1e-3, 1, source)
    with pytest.raises(ValueError, match="multiple of 4"):
        RowSource(np.zeros((3, 5)), np.zeros(3), np.ones(3), np.zeros(3), 1.0, 0.0)
    with pytest.raises(ValueError, match="as long as"):
        add_rows(np.eye(3), np.array([0]), np.array([1.0, 2.0]), np.zeros(3))


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


KERNELS = {
    "made on demand": lambda: Gram(X, gamma=1.0),
    "computed beforehand": lambda: Gram(X, kernel=lambda A, B: np.exp(-((A[:, None] - B[None]) ** 2).sum(-1))),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", KERNELS)
def test_level_keeps_the_gradient(name, dtype, rows, monkeypatch):
    """G = e∘(Qα − p) after blocks that overlap, with kept rows dropped and fetched again, and with shrunk variables."""
    monkeypatch.setattr(levels, "BLOCK_WIDTH", 16)
    monkeypatch.setattr(levels, "MIN_BLOCK_WIDTH", 8)
    monkeypatch.setattr(levels, "MAX_BLOCK_WIDTH", 16)
    monkeypatch.setattr("dualflow.core.kernel_cache.CACHE_BYTES", 1)
    monkeypatch.setattr("dualflow.core.kernel_cache.MAX_ROWS_PER_BATCH", 16)
    problem = PROBLEMS[name](KERNELS[rows](), Y)
    level = Level(Workspace(problem), problem.project(np.zeros(problem.n)), dtype)
    before, shrunk = problem.objective(level.alpha), False
    for k in range(12):
        level.solve_block(1e-6, 1000)
        shrunk |= not level.active.all()
        if k % 4 == 3:
            level.unshrink()
    level.unshrink()
    h = problem.gradient(level.alpha)
    expected = h if problem.e is None else problem.e * h
    np.testing.assert_allclose(level.G * level.slope, expected, atol=2e-5 if dtype is np.float32 else 1e-11)
    assert problem.infeasibility(level.alpha) <= 1e-9
    assert problem.objective(level.alpha) < before
    assert shrunk == (rows == "made on demand")


def test_violators_stay_active(monkeypatch):
    monkeypatch.setattr(levels, "MIN_BLOCK_WIDTH", 12)
    monkeypatch.setattr(levels, "MAX_BLOCK_WIDTH", 32)
    level = Level(Workspace(PROBLEMS["hinge"](KERNELS["made on demand"](), Y)), np.zeros(60), np.float32)
    assert level.active.all()  # at α = 0 all want to rise
    for _ in range(60):
        level.solve_block(1e-3, 1000)
        level.unshrink()
    assert level.violation_and_gap()[0] < 0.01
    assert 0 < level.active.sum() < 60
    h = level.problem.gradient(level.alpha)
    nu = np.median((h * Y)[(level.alpha > 0) & (level.alpha < 5)])
    shrunk = ~level.active
    assert (level.alpha[shrunk] == 0).all()
    assert ((h - nu * Y)[shrunk] > 0).all()


def test_the_error_of_float32_is_known():
    """By 64 of 60 variables it is by all of them; what is added to a gradient is found."""
    problem = problems.svc(Gram(X, gamma=1.0), Y, C=1e4)
    work = Workspace(problem)
    level = Level(work, np.zeros(60), np.float32)
    for _ in range(10):
        level.solve_block(1e-2, 10_000)
    true = Y * (problem.gradient(level.alpha))
    assert level.gradient_error() == pytest.approx(np.abs(true - level.G).max(), rel=1e-6)
    assert level.gradient_error() > 1e-4
    level.set_gradient(problem.gradient(level.alpha) + 0.25)
    assert level.gradient_error() == pytest.approx(0.25, rel=1e-6)


def test_float32_that_hides_who_violates_is_not_handed_over():
    """Coefficients up to 1e4: float32's rounding errors are larger than the violation it rests at."""
    points, labels = make_moons(1000, noise=0.2, random_state=0)
    problem = problems.svc(Gram(points), 2.0 * labels - 1, C=1e4)
    solution = solve(problem, refine="early", tol=1e-9)
    assert solution.raw_certificate.relative_gap < 1e-5
    assert solution.certificate.relative_gap <= 1e-9


def test_rows_unused_for_longest_make_room():
    fetched = []

    def evaluate(J, start, out):
        assert start == 0
        fetched.extend(J)
        out[:] = J[:, None] * 10.0 + np.arange(5000)

    cache = RowCache(5000, np.float64, 0)
    G, room = np.zeros(5000), cache.capacity
    assert room == 1024
    cache.add_to(G, np.arange(1000), np.ones(1000), evaluate)
    cache.add_to(G, np.arange(900, 1100), np.full(200, 2.0), evaluate)
    expected = (np.arange(1000) * 10.0).sum() + 2 * (np.arange(900, 1100) * 10.0).sum() + 1400 * np.arange(5000)
    np.testing.assert_allclose(G, expected)
    assert len(fetched) == 1100  # none twice
    cache.fetch(np.array([0, 1]), evaluate)
    assert fetched[1100:] == [0, 1]  # the oldest had gone
    cache.fetch(np.arange(1000, 1100), evaluate)
    assert len(fetched) == 1102
    assert cache.count == int((cache.owner >= 0).sum()) == int((cache.slot >= 0).sum()) <= room


def test_levels_estimate_of_the_gap_is_the_certificates():
    problem = problems.svc(Gram(X, gamma=1.0), Y, 5.0)
    solution = solve(problem, "working-set", kkt_tol=1e-2, gap_tol=1e-2)
    level = Level(Workspace(problem), solution.raw_alpha, np.float64)
    violation, gap = level.violation_and_gap()
    assert 0 < violation <= 1e-2
    assert gap >= solution.raw_certificate.relative_gap * (1 - 1e-6)  # the certificate takes the best ν
    assert gap <= 50 * solution.raw_certificate.relative_gap


def test_on_the_simplex_the_estimate_is_the_certificates():
    problem = problems.svc(Gram(X, gamma=1.0), Y, 5.0, loss="squared_hinge")
    solution = solve(problem, "working-set", gap_tol=0.05)
    assert solution.raw_certificate.relative_gap > 1e-9
    level = Level(Workspace(problem), solution.raw_alpha, np.float64)
    assert level.violation_and_gap()[1] == pytest.approx(solution.raw_certificate.relative_gap, rel=1e-6)


def test_a_block_on_the_simplex_is_filled_with_those_that_want_to_rise(monkeypatch):
    monkeypatch.setattr(levels, "MIN_BLOCK_WIDTH", 20)
    problem = problems.svc(Gram(X, gamma=1.0), Y, 5.0, loss="squared_hinge")
    level = Level(Workspace(problem), np.where(np.arange(60) < 4, 0.25, 0.0), np.float64)
    rise, fall = level.rise_and_fall()
    (violators,) = (level.middle(rise.max(), fall.max()) > level.G).nonzero()
    chosen, order = level.choose_block(), violators[np.argsort(level.G[violators])]
    order = order[order >= 4]
    assert len(order) > 16  # then some of each size of violation, the worst among them
    assert set(chosen) == set(range(4)) | set(order[np.arange(16) * len(order) // 16])


def test_nested_order_keeps_the_classes_in_proportion():
    y = np.where(np.arange(400) < 40, 1.0, -1.0)
    problem = problems.svc(Gram(np.random.default_rng(0).normal(size=(400, 2))), y)
    order = nested_order(problem)
    assert sorted(order) == list(range(400))
    for size in (40, 100, 200):
        assert (y[order[:size]] > 0).sum() == pytest.approx(size / 10, abs=2)


@pytest.mark.parametrize("name", PROBLEMS)
def test_restriction_is_the_problem_on_those_points(name):
    problem = PROBLEMS[name](Gram(X, gamma=1.0), Y)
    points = np.array([3, 11, 20, 41, 5, 58, 33, 8])
    part, inside = restrict(Workspace(problem), points)
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
    solution = solve(problem, "working-set", refine=True, gap_tol=5e-7)
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


@pytest.mark.parametrize("steps", often([1, 2, 3, 6, 8], 1, 6))
def test_resumed_run_equals_the_uninterrupted_one(tmp_path, steps, monkeypatch):
    """Cut in a seeding level, in the middle of the last one in float32, and late: the same bits each time."""
    monkeypatch.setattr(descent, "BLOCKS_PER_STEP", 3)
    monkeypatch.setattr(levels, "MIN_BLOCK_WIDTH", 256)
    monkeypatch.setattr(block_rows, "MAX_N_ONE_BLOCK", 256)
    monkeypatch.setattr(descent, "MAX_FIRST_LEVEL_ROWS", 1000)
    Z, t = make_classification(2500, 20, random_state=0)

    def problem():
        return problems.svc(Gram(Z), 2.0 * t - 1, 100.0)

    solver = WorkingSet(gap_tol=5e-7)  # a run
    whole = solve(problem(), solver)
    path = Checkpoint(tmp_path / "run.npz", interval_s=0.0)
    cut = solve(problem(), solver, max_steps=steps, checkpoint=path)
    resumed = solve(problem(), solver, checkpoint=path)
    assert cut.cost.steps == steps < whole.cost.steps == resumed.cost.steps
    assert np.any(cut.raw_alpha != whole.raw_alpha)  # there was something left to do
    np.testing.assert_array_equal(resumed.raw_alpha, whole.raw_alpha)


@pytest.mark.parametrize("option", ["kkt_tol", "gap_tol"])
def test_tolerances_must_be_positive(option):
    with pytest.raises(ValueError, match=option):
        solve(problems.svc(Gram(X), Y), "working-set", **{option: 0.0})


@pytest.mark.parametrize("scale", often([1e-100, 1e-6, 1e6, 1e100], 1e-100, 1e100))
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


SMALL = {
    "soft": lambda: problems.svc(Gram(X, gamma=1.0), Y, 10.0),
    "large C": lambda: problems.svc(Gram(X, gamma=1.0), Y, 1e4),
    "no intercept": lambda: problems.svc(Gram(X, gamma=1.0), Y, 10.0, fit_intercept=False),
    "penalised": lambda: problems.svc(Gram(X, gamma=1.0), Y, 10.0, fit_intercept="penalised"),
    "squared hinge": lambda: problems.svc(Gram(X, gamma=1.0), Y, 10.0, loss="squared_hinge"),
    "ball": lambda: problems.svdd(Gram(X, gamma=1.0), 0.2),
    "tube": lambda: problems.svr(Gram(X, gamma=1.0), X[:, 1] ** 2, 10.0, epsilon=0.05),
}


@pytest.mark.parametrize("name", SMALL)
def test_small_problems_are_brought_to_their_end(name):
    """The answer is the solver's own, it is that of the refinement, and its bounds are met exactly."""
    problem = SMALL[name]()
    solution, refined = solve(problem, refine="early"), solve(problem, "working-set", gap_tol=1e-4, refine=True)
    assert not solution.refined
    assert refined.refined
    assert solution.certificate.relative_gap <= 1e-11
    np.testing.assert_allclose(solution.alpha, refined.alpha, rtol=0, atol=1e-9 * refined.alpha.max())
    for bound in (problem.lower, problem.upper):
        np.testing.assert_array_equal(solution.alpha == bound, refined.alpha == bound)
    best, _ = coneqp_optimum(QuadraticProgram(problem.dense(), problem.p, problem.upper, problem.e, problem.d))
    assert solution.certificate.objective == pytest.approx(best, rel=1e-7)


@pytest.mark.parametrize("n", [600, 900])
def test_many_free_variables_are_handed_over(n, monkeypatch):
    monkeypatch.setattr(descent, "MAX_FREE_FINISH", descent.MAX_FREE_FLOAT64_BOX)
    points, labels = make_classification(n, 20, random_state=0)
    problem = problems.svc(Gram(points, gamma=0.05), 2.0 * labels - 1, 100.0)
    solution = solve(problem, hand_over=True, refine="early")
    assert solution.refined
    free = (solution.alpha > 0) & (solution.alpha < 100.0)
    assert free.sum() > descent.MAX_FREE_FLOAT64_BOX
    assert solution.raw_certificate.relative_gap > 1e-6
    assert solution.certificate.relative_gap <= 1e-10


@pytest.mark.parametrize("seed", [0, 2])
def test_float32_ends_where_its_error_hides_all_progress(seed):
    """The linear matrix of points far from the origin: ten steps without progress went by before float64 took over."""
    x = np.cumsum(np.random.default_rng(seed).normal(size=1200)) + 5e5
    problem = problems.svc(Gram.precomputed(np.outer(x, x)), np.where(x > np.median(x), 1, -1), 0.03)
    found = solve(problem, "working-set", refine=True)
    assert found.cost.steps <= 8
    assert found.certificate.relative_gap < 1e-6
