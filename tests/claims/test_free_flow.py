"""The gradient flow where nothing bounds α: its path in closed form, its rest state, its certificate at every size."""

import numpy as np
import pytest
import scipy.linalg

import dualflow
from dualflow import DualProblem, GradientFlow, Gram, ProblemError, SolverMismatch, Workspace, problems
from dualflow.core import bounds, certificate, workspace
from dualflow.core.bounds import affine_bound
from dualflow.flows.gradient import GradientField
from dualflow.integrate import free
from dualflow.integrate.free import MAX_RELATIVE_ROUND_OFF, FreeFlow

RNG = np.random.default_rng(5)
X, Z = RNG.normal(size=(12, 2)), RNG.normal(size=12)


def ridge(C=3.0, n=12, kernel="rbf", **more):
    return problems.least_squares(Gram(X[:n], kernel), Z[:n], C, regression=True, **more)


def optimum(problem):
    """α and f* of the KKT system."""
    Q, e, n = problem.dense(), problem.e, problem.n
    if e is None:
        alpha = np.linalg.solve(Q, problem.p)
    else:
        A = np.block([[Q, -e[:, None]], [e[None], np.zeros((1, 1))]])
        alpha = np.linalg.solve(A, np.append(problem.p, problem.d))[:n]
    return alpha, 0.5 * alpha @ Q @ alpha - problem.p @ alpha


def path(problem, t):
    """α(t) from α(0) = 0: α* − exp(−PQPt)α*, P the projection onto eᵀα = 0."""
    n, e = problem.n, problem.e
    P = np.eye(n) if e is None else np.eye(n) - np.outer(e, e) / n
    best = optimum(problem)[0]
    return best - scipy.linalg.expm(-P @ problem.dense() @ P * t) @ best


@pytest.mark.parametrize("intercept", [True, False])
def test_the_path_is_the_exponential(intercept):
    problem = ridge(fit_intercept=intercept)
    found = dualflow.solve(
        problem, "gradient-flow", integrator="DOP853", time_step=0.25, max_steps=8, trajectory=True, tol=1e-14
    ).trajectory
    for t, alpha in zip(found.t, found.alpha, strict=True):
        np.testing.assert_allclose(alpha, path(problem, t), atol=1e-7)
    assert (np.diff(found.objective) <= 0).all()


def test_implicit_steps_follow_it_to_first_order():
    problem = ridge()
    errors = []
    for h in (0.02, 0.01):
        solver = GradientFlow(time_step=h, growth=1.0)
        found = dualflow.solve(problem, solver, max_steps=round(1.0 / h), tol=1e-14).raw_alpha
        errors.append(np.abs(found - path(problem, 1.0)).max())
    assert 1e-5 < errors[1] < 0.01
    assert errors[0] / errors[1] == pytest.approx(2.0, rel=0.1)


def test_one_long_step_is_rest_and_the_next_say_so():
    flow = FreeFlow(Workspace(ridge()))
    at, left = flow.step(flow.start(None, None), 100.0)
    assert left <= MAX_RELATIVE_ROUND_OFF
    np.testing.assert_allclose(at.alpha, optimum(ridge())[0], rtol=1e-10)
    after, still = flow.step(at, 100.0)
    assert (after.moved, still) == (0.0, left)
    np.testing.assert_array_equal(after.alpha, at.alpha)


WAYS = ["cholesky", "low rank", "products"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("more", [{}, {"fit_intercept": False}, {"fit_intercept": "penalised"}], ids=str)
def test_every_way_to_solve_the_system_ends_at_the_same_rest(way, more, monkeypatch):
    data, z = RNG.normal(size=(40, 3)), RNG.normal(size=40)
    if way != "low rank":
        monkeypatch.setattr(free, "thin_factor", lambda problem: None)
        monkeypatch.setattr(free, "low_rank", lambda problem: None)
    if way == "products":
        monkeypatch.setattr(free, "MAX_N_FACTORISED", 10)
    weight = np.linspace(0.2, 3.0, 40)
    problem = problems.least_squares(Gram(data, "linear"), z, 5.0, sample_weight=weight, regression=True, **more)
    flow = FreeFlow(Workspace(problem))
    assert (flow.L is None, flow.Q is None) == (way != "low rank", way != "cholesky")
    solution = dualflow.solve(problem, "gradient-flow", tol=1e-13)
    np.testing.assert_allclose(solution.raw_alpha, optimum(problem)[0], rtol=0, atol=1e-10)
    assert solution.cost.steps <= 2


def test_more_variables_than_q_is_formed_for_are_taken_by_products(monkeypatch):
    monkeypatch.setattr(free, "MAX_N_FACTORISED", 20)
    monkeypatch.setattr(certificate, "MAX_N_DENSE_CERTIFICATE", 20)
    for module in (workspace, bounds):
        monkeypatch.setattr(module, "MAX_N_FACTOR", 20)
    monkeypatch.setattr(DualProblem, "dense", lambda problem: pytest.fail("Q was formed"))
    data, z = RNG.normal(size=(60, 20)), RNG.normal(size=60)
    problem = problems.least_squares(Gram(data), z, 5.0, regression=True)
    solution = dualflow.solve(problem, "gradient-flow", refine=True, tol=1e-9)
    assert solution.status is dualflow.Status.OPTIMAL
    assert not solution.refined
    K = problem.gram.full() + np.eye(60) / 5.0
    residual = z - K @ solution.alpha - solution.bias
    np.testing.assert_allclose(residual, 0.0, atol=1e-10)


@pytest.mark.parametrize("intercept", [True, False])
def test_where_q_is_not_factorised_the_bound_is_one_and_is_looser(intercept, monkeypatch):
    problem = ridge(fit_intercept=intercept)
    best = optimum(problem)[1]
    for scale in (0.1, 1e-3, 1e-6):
        alpha = problem.project(optimum(problem)[0] + scale * RNG.normal(size=12))
        product, f = problem.matvec(alpha), problem.objective(alpha)
        exact = affine_bound(Workspace(problem), alpha, product)[0]
        assert exact == pytest.approx(best, abs=1e-12)
        with monkeypatch.context() as patch:
            for module in (workspace, bounds):
                patch.setattr(module, "MAX_N_FACTOR", 5)
            loose = affine_bound(Workspace(problem), alpha, product)[0]
        assert loose < best
        assert f - loose <= (1 + 12 * 3.0) * (f - best)  # λ_max/λ_min of Q at most


def test_large_linear_kernels_have_an_exact_bound_without_q(monkeypatch):
    monkeypatch.setattr(workspace, "MIN_N_LOW_RANK", 5)
    problem = ridge(kernel="linear")
    alpha = problem.project(RNG.normal(size=12))
    assert affine_bound(Workspace(problem), alpha, problem.matvec(alpha))[0] == pytest.approx(optimum(problem)[1])


def test_a_singular_q_is_left_in_a_proximal_step_and_never_certified():
    singular = DualProblem(
        Gram([[1.0, 0.0], [2.0, 0.0]], "linear"), p=np.array([1.0, 1.0]), lower=-np.inf, upper=np.inf
    )
    solution = dualflow.solve(singular, "gradient-flow", max_steps=5)
    assert not solution.certificate.within(0.5)  # f falls for ever along (2, −1)


def test_the_field_is_that_of_the_projected_gradient():
    problem = ridge()
    field, alpha = GradientField(problem), problem.project(RNG.normal(size=12))
    g = problem.p - problem.matvec(alpha)
    np.testing.assert_allclose(field.rate(0.0, alpha), g - g.mean(), atol=1e-12)
    np.testing.assert_array_equal(field.start(alpha), alpha)
    assert dualflow.solve(problem, "gradient-flow", warm=alpha, tol=1e-12).status is dualflow.Status.OPTIMAL


@pytest.mark.parametrize(
    ("options", "message"), [({"integrator": "multiplicative"}, "integrator="), ({"mutation": 0.1}, "mutation=")]
)
def test_options_that_want_bounds_are_refused(options, message):
    with pytest.raises(SolverMismatch, match=message):
        dualflow.solve(ridge(), "gradient-flow", **options)


def test_labels_pose_what_they_did_and_values_what_ridge_regression_is():
    y = np.where(Z > 0, 1.0, -1.0)
    labels = problems.least_squares(Gram(X), y, 2.0)
    values = problems.least_squares(Gram(X), y, 2.0, regression=True)
    assert (labels.model, values.model) == ("least_squares", "least_squares_regression")
    np.testing.assert_array_equal(labels.p, 1.0)
    np.testing.assert_array_equal(labels.e, y)
    np.testing.assert_array_equal(values.p, y)
    np.testing.assert_array_equal(values.e, 1.0)
    found = [dualflow.solve(problem, "gradient-flow") for problem in (labels, values)]
    np.testing.assert_allclose(found[0].coefficients, found[1].coefficients, atol=1e-12)
    assert found[0].bias == pytest.approx(found[1].bias)


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        ((Z,), {}, "−1 and \\+1 only; .* regression=True"),
        ((Z[:5],), {"regression": True}, "12 finite numbers"),
        ((np.where(Z > 0, np.inf, Z),), {"regression": True}, "12 finite numbers"),
        ((1e200 * Z,), {"regression": True}, "overflows"),
        ((Z, np.inf), {"regression": True}, "C="),
        ((Z, 1e-320), {"regression": True}, "C="),
        ((Z,), {"regression": True, "sample_weight": np.arange(12)}, "weight 0"),
        ((Z,), {"regression": True, "fit_intercept": "maybe"}, "fit_intercept="),
    ],
)
def test_bad_problems_are_refused(arguments, more, message):
    with pytest.raises(ProblemError, match=message):
        problems.least_squares(Gram(X), *arguments, **more)


def test_a_comparison_has_a_section_for_it():
    y = np.where(np.arange(12) % 2, "a", "b")
    found = dualflow.compare(
        X, y, problems=("hinge", "least_squares"), solvers=["gradient-flow", "cvxopt", "smo"], controls=False
    )
    assert [section.problem for section in found.sections] == ["hinge", "least_squares"]
    rows = {row.solver: row for row in found.sections[1].rows}
    assert rows["gradient-flow"].status == rows["cvxopt"].status == "OPTIMAL"
    assert rows["gradient-flow"].raw_gap <= 1e-12
    assert rows["smo"].status == "DOES NOT APPLY"
    assert "gradient-flow" in rows["smo"].reason


def test_a_comparison_has_a_section_for_the_discriminant():
    rng = np.random.default_rng(1)
    y = np.arange(200) % 2
    data = rng.normal(size=(200, 3)) * [1.0, 100.0, 0.01] + np.outer(y, [2.0, 0.0, 0.02])
    found = dualflow.compare(data, y, problems="discriminant", solvers=["gradient-flow", "cvxopt"], max_n=80)
    (section,) = found.sections
    model = dualflow.LDA(priors=[0.5, 0.5])
    names = {row.solver: row for row in section.rows}
    kept = dualflow.comparison.tasks.Subsample.split(data, y, None, None, 80, 0, None)
    model.fit(kept.X, kept.y)
    assert names["gradient-flow"].accuracy == names["cvxopt"].accuracy == model.score(kept.X_test, kept.y_test) > 0.8
    assert (section.n, section.kind, names["gradient-flow"].status) == (3, "affine", "OPTIMAL")
    with pytest.raises(ProblemError, match="precomputed"):
        dualflow.compare(data @ data.T, y, problems="discriminant", kernel="precomputed")


@pytest.mark.parametrize("n", [4, 12])
def test_hhl_is_a_row_of_it_as_a_study(n):
    pytest.importorskip("qiskit")
    y = np.where(np.arange(n) % 2, 1, -1)
    solver = dualflow.HHL(device="classical-sampler")
    found = dualflow.compare(X[:n], y, problems="least_squares", solvers=[solver, "cvxopt"], controls=False, tol=1e-3)
    (row,) = [row for row in found.sections[0].rows if row.solver == "hhl"]
    assert row.raw_gap <= 1e-3


@pytest.mark.parametrize("C", [1e2, 1e4, 1e6])
def test_cvxopt_solves_what_nothing_bounds_at_any_cost(C):
    """With an inequality added, such as 0 ≤ 1, CVXOPT divides by its gap of exactly 0."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 2))
    problem = problems.least_squares(Gram(points, "linear"), np.where(points[:, 0] > 0, 1, -1), C)
    solution = dualflow.solve(problem, "cvxopt")
    assert solution.certificate.relative_gap <= 1e-9
    np.testing.assert_allclose(solution.alpha, optimum(problem)[0], atol=1e-5 * np.abs(solution.alpha).max())


def test_cvxopt_refuses_equations_that_are_singular_in_float64():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(30, 2))
    problem = problems.least_squares(Gram(points, "linear"), np.where(points[:, 0] > 0, 1, -1), 1e18)
    with pytest.raises(SolverMismatch, match=r"'cvxopt' cannot factorise.*lower C, or try 'interior-point'"):
        dualflow.solve(problem, "cvxopt")
