"""Flows without an n × n matrix: the same paths as with it, the same optimum, memory of the size of the features."""

import tracemalloc

import numpy as np
import pytest
import scipy.sparse
from sklearn.datasets import make_classification

from dualflow import Gram, Status, Workspace, certify, problems, solve
from dualflow.core import low_rank, monomials
from dualflow.core.factored import FactoredWorkspace, factor_of
from dualflow.core.low_rank import LowRankSystem
from dualflow.core.problem import DualProblem
from dualflow.core.runtime import memory
from dualflow.exceptions import ProblemError, SolverMismatch

FLOWS = ["gradient-flow", "lotka-volterra"]


def noisy(n, features=20, seed=0):
    """Two classes that overlap; the points have mean 0, so that the centring of linear kernels changes nothing."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, features))
    y = np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=n))
    return X - X.mean(axis=0), y


GRAMS = {
    "linear": lambda X: Gram(X, "linear"),
    "poly": lambda X: Gram(X[:, :5], "poly", degree=2, coef0=1.0),
}


def both(gram):
    """The Gram, and the same matrix as a given one, of which no factor is known."""
    return gram, Gram.precomputed(np.array(gram.full()))


# --- the same paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
@pytest.mark.parametrize("C", [1.0, 100.0])
@pytest.mark.parametrize("kernel", GRAMS)
@pytest.mark.parametrize("solver", FLOWS)
def test_implicit_steps_take_the_path_of_the_dense_flow(solver, kernel, C, loss):
    """6e-9 is the most that was seen, relative to the largest α."""
    X, y = noisy(500)
    paths, structures = [], []
    for gram in both(GRAMS[kernel](X)):
        solution = solve(problems.svc(gram, y, C, loss=loss), solver, trajectory=True)
        paths.append(solution.trajectory)
        structures.append(solution.provenance["structure"])
        assert solution.status in (Status.OPTIMAL, Status.ROUNDED)
        assert solution.raw_certificate.reaches(1e-6)
    assert structures == ["low rank", "dense"]
    thin, dense = paths
    assert thin.alpha.shape == dense.alpha.shape
    np.testing.assert_allclose(thin.alpha, dense.alpha, rtol=0, atol=1e-6 * dense.alpha.max())
    np.testing.assert_allclose(thin.multiplier, dense.multiplier, rtol=0, atol=1e-6)
    np.testing.assert_allclose(thin.t, dense.t, rtol=1e-6)
    np.testing.assert_allclose(thin.objective, dense.objective, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("integrator", ["multiplicative", "LSODA"])
@pytest.mark.parametrize("solver", FLOWS)
def test_explicit_steps_take_the_path_of_the_dense_flow(solver, integrator):
    X, y = noisy(500)
    options = {"integrator": integrator, "time_step": 1e-3 if integrator == "multiplicative" else 0.02}
    paths = [
        solve(problems.svc(gram, y, 1.0), solver, trajectory=True, max_steps=8, **options).trajectory
        for gram in both(GRAMS["linear"](X))
    ]
    np.testing.assert_allclose(paths[0].alpha, paths[1].alpha, rtol=0, atol=1e-6)
    assert np.abs(np.diff(paths[0].alpha, axis=0)).max() > 1e-3


@pytest.mark.parametrize("kernel", GRAMS)
def test_without_bounds_it_takes_the_path_of_the_dense_flow(kernel):
    X, y = noisy(500)
    paths = []
    for gram in both(GRAMS[kernel](X)):
        solution = solve(problems.least_squares(gram, y, 1.0), "gradient-flow", time_step=0.01, trajectory=True)
        assert solution.status is Status.OPTIMAL
        paths.append(solution.trajectory)
    np.testing.assert_allclose(paths[0].alpha, paths[1].alpha, rtol=0, atol=1e-6 * np.abs(paths[1].alpha).max())


# --- large problems ------------------------------------------------------------------------------------------


@pytest.fixture
def no_matrix(monkeypatch):
    """A dense Q, or a dense K, raises."""

    def forbidden(*args, **kwargs):
        raise AssertionError("an n × n matrix was formed")

    monkeypatch.setattr(DualProblem, "dense", forbidden)
    monkeypatch.setattr(Workspace, "dense", forbidden)
    monkeypatch.setattr(Gram, "full", forbidden)


@pytest.mark.parametrize("model", ["hinge", "squared hinge", "without bias", "regression", "one class"])
@pytest.mark.parametrize("solver", FLOWS)
def test_beyond_8000_variables_no_matrix_is_formed(solver, model, no_matrix):
    X, y = noisy(9000, 8)
    gram = Gram(X, "linear")
    problem = {
        "hinge": lambda: problems.svc(gram, y, 1.0),
        "squared hinge": lambda: problems.svc(gram, y, 1.0, loss="squared_hinge"),
        "without bias": lambda: problems.svc(gram, y, 1.0, fit_intercept=False),
        "regression": lambda: problems.svr(gram, X[:, 0] + 0.1 * y, 1.0, epsilon=0.1),
        "one class": lambda: problems.one_class(Gram(X + 2.0, "linear"), 0.1),
    }[model]()
    solution = solve(problem, solver, max_steps=20)
    assert solution.status is Status.OPTIMAL, solution.certificate
    assert certify(problem, solution.alpha).relative_gap <= 1e-6
    assert solution.provenance["structure"] == "low rank"
    assert solution.provenance["rank"] in (8, 9)
    known = solve(problem, "interior-point", tol=1e-9)
    assert solution.certificate.objective == pytest.approx(known.certificate.objective, rel=1e-6)


@pytest.mark.parametrize("solver", FLOWS)
def test_a_polynomial_kernel_beyond_8000_variables(solver, no_matrix):
    X, y = noisy(9000, 3)
    problem = problems.svc(Gram(X, "poly", degree=3, coef0=1.0), y, 1.0)
    solution = solve(problem, solver, max_steps=25)
    assert solution.status is Status.OPTIMAL, solution.certificate
    assert solution.provenance["rank"] == 20


def test_a_radial_kernel_of_low_rank_beyond_8000_variables():
    X = np.random.default_rng(0).normal(size=(8200, 1))
    y = np.where(X[:, 0] > 0.1, 1.0, -1.0)
    y[::10] *= -1
    smooth = solve(problems.svc(Gram(X, gamma=0.01), y, 1.0), "lotka-volterra", max_steps=25)
    assert smooth.status is Status.OPTIMAL
    assert smooth.provenance["structure"] == "low rank"


@pytest.mark.parametrize("solver", [FLOWS[0], pytest.param(FLOWS[1], marks=pytest.mark.slow)])
def test_a_radial_kernel_beyond_8000_variables_of_a_high_rank_is_refused(solver):
    X = np.random.default_rng(0).normal(size=(8200, 20))
    rough = problems.svc(Gram(X, gamma=1.0), np.where(X[:, 0] > 0.1, 1.0, -1.0), 1.0)
    with pytest.raises(SolverMismatch, match=r"at most 8000 variables.*a rank of at most 2000;"):
        solve(rough, solver)


def test_wide_points_beyond_8000_variables_are_refused_before_a_run():
    X = scipy.sparse.random(8200, 3000, density=1e-3, random_state=0, format="csr")
    y = np.where(np.arange(8200) % 2, 1.0, -1.0)
    with pytest.raises(SolverMismatch, match="at most 8000 variables, the problem has 8200; try 'working-set'"):
        solve(problems.svc(Gram(X, "linear"), y), "gradient-flow")


def test_memory_is_that_of_the_features():
    """L, a scaled copy, and some vectors: a dense Q of these points takes 70 times as much."""
    X, y = noisy(20_000, 10)
    problem = problems.svc(Gram(X, "linear"), y, 1.0)
    tracemalloc.start()
    try:
        solution = solve(problem, "gradient-flow", max_steps=20)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert solution.status is Status.OPTIMAL
    assert peak < 8 * X.nbytes + 60 * 8 * len(X)


def test_few_columns_decide(monkeypatch):
    """At a quarter of the points and below, features are used; above, the matrix."""
    X, y = make_classification(80, 21, random_state=0)
    structures = {}
    for features in (20, 21):
        problem = problems.svc(Gram(X[:, :features], "linear"), 2.0 * y - 1, 1.0)
        structures[features] = solve(problem, "gradient-flow").provenance["structure"]
    assert structures == {20: "low rank", 21: "dense"}
    explicit = solve(problem, "gradient-flow", integrator="multiplicative", max_steps=2)
    assert explicit.provenance["structure"] == "products"
    monkeypatch.setattr("dualflow.solvers._flow_solver.MAX_N_FACTORISED", 79)
    free = solve(problems.least_squares(Gram(X), 2.0 * y - 1), "gradient-flow")
    assert free.provenance["structure"] == "products"
    assert solve(problems.svc(Gram(X), 2.0 * y - 1, 1.0), "gradient-flow").provenance["structure"] == "dense"


def test_a_resumed_run_has_the_same_bits(tmp_path):
    X, y = noisy(600, 5)
    problem = problems.svc(Gram(X, "linear"), y, 10.0)
    whole = solve(problem, "lotka-volterra", trajectory=True)
    path = tmp_path / "run"
    solve(problem, "lotka-volterra", trajectory=True, max_steps=3, checkpoint=path)
    resumed = solve(problem, "lotka-volterra", trajectory=True, checkpoint=path)
    np.testing.assert_array_equal(resumed.trajectory.alpha, whole.trajectory.alpha)


# --- the parts -------------------------------------------------------------------------------------------


def test_the_factor_is_the_matrix():
    X, y = noisy(60, 3)
    grams = {
        "linear": Gram(X + 1.0, "linear"),
        "centred": Gram(X + 5.0, "linear").centred(),
        "sparse": Gram(scipy.sparse.csr_array(np.where(X > 0.5, X, 0.0)), "linear"),
        "poly": Gram(X, "poly", degree=2, coef0=0.5, gamma=0.7),
        "homogeneous": Gram(X, "poly", degree=3, coef0=0.0),
    }
    for name, gram in grams.items():
        for problem in (
            problems.svc(gram, y, 2.0, loss="squared_hinge"),
            problems.svc(gram, y, 2.0),
            problems.svr(gram, X[:, 0], 2.0),
            problems.svdd(gram),
        ):
            L, Q = factor_of(problem, 15), problem.dense()
            np.testing.assert_allclose(
                L @ L.T + np.diag(problem.ridge), Q, atol=1e-12 * np.abs(Q).max(), err_msg=f"{name}, {problem.model}"
            )
            work = FactoredWorkspace(Workspace(problem), L)
            v, rows = np.random.default_rng(1).normal(size=problem.n), np.arange(3, 20, 2)
            np.testing.assert_allclose(work.product(v), Q @ v, atol=1e-11 * np.abs(Q).max())
            np.testing.assert_allclose(work.product(v, rows), (Q @ v)[rows], atol=1e-11 * np.abs(Q).max())
    assert factor_of(problems.svc(grams["poly"], y), 9) is None
    assert factor_of(problems.svc(grams["poly"], y), 0) is None


@pytest.mark.parametrize(("degree", "coef0"), [(2, 1.0), (3, 0.0), (3, 0.4)])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_a_product_by_monomials_is_that_of_the_kernel_values(degree, coef0, is_sparse, monkeypatch):
    X, _ = noisy(400, 3)
    points = scipy.sparse.csr_array(np.where(X > 0.5, X, 0.0)) if is_sparse else X
    gram = Gram(points, "poly", degree=degree, coef0=coef0, gamma=0.7)
    v = np.random.default_rng(1).normal(size=400) * (np.arange(400) % 3 > 0)
    rows = np.arange(1, 400, 2)
    by_values, some = gram.matvec(v), gram.matvec(v, rows)
    monkeypatch.setattr(monomials, "MIN_VALUES_MONOMIALS", 1)
    monkeypatch.setattr(monomials, "MONOMIALS_PER_PART", 700)  # several parts
    assert monomials.product_by_monomials(gram, 400, 266) == monomials.rank_by_kernel(gram)
    by_monomials = gram.matvec(v)
    assert (by_monomials != by_values).any()  # the other way was taken
    size = float(np.sqrt(gram.diag().max()) * (np.abs(v) @ np.sqrt(gram.diag())))
    np.testing.assert_allclose(by_monomials, by_values, rtol=0, atol=1e-14 * size)
    np.testing.assert_allclose(gram.matvec(v, rows), some, rtol=0, atol=1e-14 * size)


def test_a_product_by_monomials_is_for_few_monomials_only():
    X = np.zeros((20_000, 40))
    assert monomials.product_by_monomials(Gram(X[:, :3], "poly", degree=2, coef0=1.0), 20_000, 20_000) == 10
    assert monomials.product_by_monomials(Gram(X[:, :3], "poly", degree=2, coef0=1.0), 20_000, 100) == 0
    assert monomials.product_by_monomials(Gram(X, "poly", degree=3, coef0=1.0), 20_000, 20_000) == 0
    assert monomials.product_by_monomials(Gram(X, "poly", degree=2, coef0=-1.0), 20_000, 20_000) == 0
    assert monomials.product_by_monomials(Gram(X), 20_000, 20_000) == 0


def test_many_rows_are_factorised_a_part_at_a_time(monkeypatch):
    rng = np.random.default_rng(0)
    L, D, right = rng.normal(size=(100, 4)), np.geomspace(1e-6, 1e6, 100), rng.normal(size=100)
    D[7] = np.inf
    at_once = LowRankSystem(L, D).solve(right)
    monkeypatch.setattr(low_rank, "ROWS_PER_QR", 16)
    np.testing.assert_allclose(LowRankSystem(L, D).solve(right), at_once, rtol=1e-9, atol=1e-12)
    rest = np.arange(100) != 7
    exact = np.linalg.solve((L @ L.T + np.diag(np.where(rest, D, 1.0)))[np.ix_(rest, rest)], right[rest])
    np.testing.assert_allclose(at_once[rest], exact, rtol=1e-6, atol=1e-9 * np.abs(exact).max())


def test_a_factor_that_does_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "memory_bytes", lambda: 1 << 20)
    X, y = noisy(9000, 20)
    with pytest.raises(ProblemError, match=r"a factor of 9000 rows and 20 columns takes 0\.00432 GB"):
        solve(problems.svc(Gram(X, "linear"), y), "gradient-flow")
