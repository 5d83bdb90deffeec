"""Smooth data of few features: their kernel matrices have a low rank, and take no more work than that."""

import numpy as np
import pytest
from dualflow.working_set._pairs import RowSource, fetch_rows, padded

from dualflow import Gram, problems, solve
from dualflow.core.kernel_cache import KeptGram
from dualflow.core.product_points import ProductPoints
from dualflow.core.workspace import Workspace
from dualflow.refinement.refine import refine
from dualflow.working_set import sliding
from dualflow.working_set.level import Level

TOL = 1e-6


def normal(n: int, d: int = 1, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, d))


def smooth_tube(n: int):
    X = normal(n)
    y = X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=n)
    return problems.svr(Gram(X, gamma=0.33), y, C=50.0, epsilon=0.01)


def dominated_tube(n: int):
    X = normal(n, 5) * [1.0, 0.03, 0.03, 0.03, 0.03]
    y = X[:, 0] + 0.3 * np.random.default_rng(1).normal(size=n)
    return problems.svr(Gram(X, gamma=0.33), y, C=50.0, epsilon=0.01)


def repeated(n: int):
    rng = np.random.default_rng(16)
    x = rng.integers(0, 60, size=n) / 15 - 2.0
    y = np.where(x**2 / 2 + 0.1 * rng.normal(size=n) > 0.5, 1.0, -1.0)
    return problems.svc(Gram(x[:, None], "linear"), y, C=1.0)


def within_the_hull(n: int):
    """One class and a plane through the origin, among the points: the optimum is 0."""
    return problems.one_class(Gram(np.random.default_rng(4).uniform(-1, 1, size=(n, 6)), "linear"), nu=0.05)


@pytest.mark.parametrize(
    ("problem", "columns"),
    [(smooth_tube(2400), 4.0), (dominated_tube(2400), 6.0), (repeated(2400), 3.0), (within_the_hull(6000), 1.0)],
    ids=["smooth tube", "dominated tube", "repeated points", "within the hull"],
)
def test_blocks_come_to_the_end_of_a_singular_problem(problem, columns):
    """Kernel columns made, for each point; and nothing is left to refine."""
    solution = solve(problem, "working-set", hand_over=True, max_steps=40)
    assert solution.raw_certificate.relative_gap <= TOL
    assert solution.cost.kernel_columns <= columns * problem.gram.n
    assert solution.cost.steps <= 12


def test_a_polynomial_of_low_rank_is_left_to_no_refinement():
    X = normal(6000, 2, seed=10)
    problem = problems.one_class(Gram(X, "poly", gamma=0.1, degree=2, coef0=1.0), nu=0.5)
    solution = solve(problem, "working-set", hand_over=True)
    assert solution.raw_certificate.relative_gap <= TOL


def test_more_free_variables_than_dimensions_slide_to_their_bounds():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 12))
    y = np.where(X[:, 0] + rng.normal(size=3000) > 0, 1.0, -1.0)
    problem = problems.svc(Gram(X, "linear"), y, C=100.0)
    alpha = problem.project(rng.uniform(0, 100.0, size=3000))
    level = Level(Workspace(problem), alpha, np.float64)
    level.set_gradient(problem.gradient(level.alpha))
    before, start = level.G.copy(), level.alpha.copy()
    assert level.free_count() > 2900
    assert level.slide()
    assert level.free_count() <= 13
    assert np.abs(level.G - before).max() <= 1e-7 * np.abs(before).max()
    assert problem.infeasibility(level.alpha) <= 1e-9 * level.alpha.sum()
    change = level.alpha - start
    assert problem.gradient(start) @ change < 0


def test_slides_are_not_made_where_the_rank_is_full():
    X = normal(300, 5)
    problem = problems.svc(Gram(X, gamma=3.0), np.where(X[:, 0] > 0, 1.0, -1.0), C=10.0)
    level = Level(Workspace(problem), problem.project(np.full(300, 5.0)), np.float64)
    assert not level.slide()


def test_a_sample_shows_that_the_rank_is_too_high():
    X = normal(2000, 5)
    problem = problems.svc(Gram(X, gamma=3.0), np.where(X[:, 0] > 0, 1.0, -1.0), C=10.0)
    level = Level(Workspace(problem), problem.project(np.full(2000, 5.0)), np.float64)
    computed = level.problem.gram.entries_computed
    assert not level.slide()
    assert level.problem.gram.entries_computed - computed <= (2 * sliding.SAMPLE_SIZE) ** 2  # 96 columns are 192 000


@pytest.mark.parametrize("rank", [1, 5])
def test_the_factor_of_low_rank_is_the_matrix(rank):
    Z = normal(200, rank)
    K = Z @ Z.T
    L = sliding.low_rank(np.diag(K).copy(), lambda k: K[:, k], 20)
    assert L is not None
    assert L.shape == (200, rank)
    np.testing.assert_allclose(L @ L.T, K, atol=1e-9)
    assert sliding.low_rank(np.ones(50), lambda k: np.eye(50)[k], 20) is None


def test_pairs_with_many_free_variables_of_few_dimensions_do_not_crawl():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 20))
    y = np.where(X[:, 0] + rng.normal(size=3000) > 0, 1.0, -1.0)
    solution = solve(problems.svc(Gram(X, "linear"), y, C=100.0), "working-set", hand_over=True, refine=True)
    assert solution.certificate.relative_gap <= TOL
    assert solution.cost.steps <= 12


def test_a_refinement_begins_where_it_is_told_though_the_optimum_is_0():
    problem = within_the_hull(1500)
    rough = solve(problem, "working-set", hand_over=True).raw_alpha
    found = refine(problem, rough)
    assert found.converged
    assert found.solves <= 40


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("kernel", "degree"), [("linear", 1), ("poly", 1), ("poly", 2), ("poly", 3), ("poly", 6)])
def test_rows_of_products_are_the_kernels(kernel, degree, dtype):
    X = normal(300, 3) + 0.5
    gram = KeptGram(Gram(X, kernel, gamma=0.4, degree=degree, coef0=0.7))
    points, n = ProductPoints.of(gram, dtype), 300
    source = RowSource(points.points, points.half, np.ones(n), np.zeros(n), 1.0, 0.0, points.degree)
    rows, slots = np.zeros((n, padded(n)), dtype=dtype), np.full(n, -1, dtype=np.int64)
    which = np.array([7, 3, 299])
    assert fetch_rows(rows, slots, 0, which, source) == 3
    wanted, digits = gram.full(), 50 * np.finfo(dtype).eps * np.abs(gram.full()).max()
    np.testing.assert_allclose(rows[slots[which], :n], wanted[which], atol=digits, rtol=0)
    weights = np.random.default_rng(2).normal(size=(n, 2))
    sums = points.take(slice(0, 50)).expand(points, weights)
    np.testing.assert_allclose(sums, wanted[:50] @ weights, atol=20 * digits, rtol=0)


def test_products_with_a_linear_kernel_are_those_of_its_matrix():
    X = normal(400, 7)
    gram, v = KeptGram(Gram(X, "linear")), np.random.default_rng(1).normal(size=400)
    np.testing.assert_allclose(gram.matvec(v), X @ X.T @ v, rtol=1e-12, atol=1e-11)
    rows = np.array([5, 90])
    np.testing.assert_allclose(gram.matvec(v, rows), (X @ X.T @ v)[rows], rtol=1e-12, atol=1e-11)
