"""The certificate against CVXOPT and LIBSVM: a true bound for any α, and the right bias, interval and radius."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, make_classification, make_moons
from sklearn.svm import SVC, OneClassSVM

from dualflow import Gram, Kind, ProblemError, Status, certify, problems, solve
from dualflow.core.bounds import inseparability_witness
from dualflow.refinement.refine import refine
from dualflow.testing.reference import QuadraticProgram, affine_optimum, coneqp_optimum, rbf_kernel

MODELS = (
    "hinge",
    "no bias",
    "hard margin",
    "hard margin, no bias",
    "squared hinge",
    "svdd",
    "soft svdd",
    "one-class",
    "svr",
    "least squares",
    "nu-SVC",
    "nu-SVR",
)


def random_problem(model, seed, n):
    """A problem and its data written out densely: (problem, Q, p, u, e, d)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(np.arange(n) % 2, 1.0, -1.0)
    gamma = float(rng.uniform(0.3, 3.0))
    C = float(10 ** rng.uniform(-1, 2))
    nu = float(rng.uniform(1.5 / n, 1.0))
    gram, K = Gram(X, gamma=gamma), rbf_kernel(X, gamma)
    YKY, ones, none = y[:, None] * K * y, np.ones(n), np.zeros(n)
    if model == "hinge":
        return problems.svc(gram, y, C), YKY, ones, np.full(n, C), y, 0.0
    if model == "no bias":
        return problems.svc(gram, y, C, fit_intercept=False), YKY, ones, np.full(n, C), None, 0.0
    if model == "hard margin":
        return problems.svc(gram, y, np.inf), YKY, ones, np.full(n, np.inf), y, 0.0
    if model == "hard margin, no bias":
        return problems.svc(gram, y, np.inf, fit_intercept=False), YKY, ones, np.full(n, np.inf), None, 0.0
    if model == "squared hinge":
        Q = y[:, None] * (K + 1) * y + np.eye(n) / (2 * C)
        return problems.svc(gram, y, C, loss="squared_hinge"), Q, none, np.full(n, np.inf), ones, 1.0
    if model == "svdd":
        return problems.svdd(gram), 2 * K, ones, np.full(n, np.inf), ones, 1.0
    if model == "soft svdd":
        return problems.svdd(gram, nu), 2 * K, ones, np.full(n, 1 / (nu * n)), ones, 1.0
    if model == "one-class":
        return problems.one_class(gram, nu), K, none, np.full(n, 1 / (nu * n)), ones, 1.0
    if model == "least squares":
        return problems.least_squares(gram, y, C), YKY + np.eye(n) / C, ones, None, y, 0.0
    if model == "nu-SVC":  # the classes are about equal: any ν up to 0.8 is feasible
        return problems.nu_svc(gram, y, 0.4 + 0.4 * nu), YKY, none, ones, y, 0.0
    z = np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)
    signs = np.repeat([1.0, -1.0], n)
    Q = np.block([[K, -K], [-K, K]])
    if model == "nu-SVR":
        return problems.nu_svr(gram, z, C, nu=nu), Q, np.concatenate([z, -z]), np.full(2 * n, C), signs, 0.0
    p = np.concatenate([z - 0.1, -z - 0.1])
    return problems.svr(gram, z, C, epsilon=0.1), Q, p, np.full(2 * n, C), signs, 0.0


@given(model=st.sampled_from(MODELS), seed=st.integers(0, 10**6), n=st.integers(4, 16))
@settings(max_examples=200, deadline=None, derandomize=True)
def test_the_gap_is_a_true_bound_for_any_alpha(model, seed, n):
    """f(α) − gap ≤ f* ≤ f(α) for a random, infeasible α (of its projection), a feasible one and a good one."""
    problem, Q, p, u, e, d = random_problem(model, seed, n)
    if u is None:
        best, alpha_best = affine_optimum(Q, p, e, d)
    else:
        best, alpha_best = coneqp_optimum(QuadraticProgram(Q, p, u, e, d, problem.total))
    rng = np.random.default_rng(seed)
    size = float(np.abs(alpha_best).max())
    slack = 4e-9 * max(abs(best), 1e-3)  # the reference's own closure
    for alpha in (
        rng.normal(size=problem.n) * size,
        np.abs(rng.normal(size=problem.n)) * size,
        alpha_best + 1e-3 * size * rng.normal(size=problem.n),
        alpha_best,
    ):
        certificate = certify(problem, alpha)
        point = certificate.alpha
        assert certificate.objective == pytest.approx(0.5 * point @ Q @ point - p @ point, abs=1e-9 * (1 + abs(best)))
        assert problem.infeasibility(point) <= 1e-9 * (1 + np.abs(point).max())
        assert certificate.gap is not None
        assert certificate.gap >= 0.0
        assert certificate.objective >= best - slack
        assert certificate.objective - certificate.gap <= best + slack, "the lower bound lies above the optimum"
    assert certificate.relative_gap <= 1e-5  # and at the optimum it closes (looser where f* is near 0)


def test_least_squares_gap_is_exact():
    problem, Q, p, _, e, d = random_problem("least squares", 3, 12)
    best, _ = affine_optimum(Q, p, e, d)
    alpha = np.random.default_rng(0).normal(size=12)
    certificate = certify(problem, alpha)
    assert certificate.objective - certificate.gap == pytest.approx(best, rel=1e-9)


DATA = {
    "moons": make_moons(120, noise=0.25, random_state=0),
    "classification": make_classification(120, 8, random_state=1),
}


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("C", [0.1, 1.0])
def test_bias_agrees_with_libsvm(name, C):
    X, t = DATA[name]
    y = 2.0 * t - 1
    peer = SVC(C=C, gamma=0.5, tol=1e-10).fit(X, y)
    problem = problems.svc(Gram(X, gamma=0.5), y, C)
    certificate = solve(problem, "smo", refine=True).certificate
    assert certificate.bias == pytest.approx(peer.intercept_[0], abs=1e-6)
    low, high = certificate.bias_interval
    assert low <= certificate.bias <= high


# LIBSVM takes half a minute to reach 1e-10 at C = 1000.
@pytest.mark.parametrize("C", [10.0, 100.0, pytest.param(1000.0, marks=pytest.mark.slow)])
def test_bias_agrees_with_libsvm_at_large_C(C):
    """LIBSVM keeps its kernel in float32, which moves b by 2e-6 at C = 10 already. On a grid of 1/16 the quadratic
    kernel is exact in float32 (22 bits), and the two must agree."""
    X = np.round(DATA["moons"][0] * 16) / 16
    y = 2.0 * DATA["moons"][1] - 1
    kernel = {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}
    K = Gram(X, **kernel).full()
    assert np.array_equal(K, K.astype(np.float32))
    peer = SVC(C=C, tol=1e-10, **kernel).fit(X, y)
    certificate = solve(problems.svc(Gram(X, **kernel), y, C), "smo", refine=True).certificate
    assert certificate.bias == pytest.approx(peer.intercept_[0], abs=1e-6)


@pytest.mark.parametrize("C", [10.0, 100.0])
def test_bias_agrees_with_libsvm_on_the_kernel_that_libsvm_sees(C):
    """RBF on the same moons: against the float64 kernel LIBSVM's b is 2e-6 to 3e-6 off, and CVXOPT agrees with ours;
    on the kernel rounded to float32, as LIBSVM keeps it, the two agree."""
    X, t = DATA["moons"]
    y = 2.0 * t - 1
    peer = SVC(C=C, gamma=0.5, tol=1e-10).fit(X, y)
    rounded = Gram.precomputed(rbf_kernel(X, 0.5).astype(np.float32).astype(float))
    same = solve(problems.svc(rounded, y, C), "smo", kkt_tol=1e-11, max_steps=3000)
    assert same.raw_certificate.bias == pytest.approx(peer.intercept_[0], abs=1e-6)
    exact = problems.svc(Gram(X, gamma=0.5), y, C)
    ours, independent = solve(exact, "smo", refine=True).bias, solve(exact, "cvxopt").bias
    assert ours == pytest.approx(independent, abs=1e-7)


def test_bias_interval_without_free_support_vectors():
    """Two pairs at ±1 and C so small that all four sit at the bound: b is anywhere in a known interval.

    Linear kernel, x = ±1, ±2, α = C throughout: f⁰(x) = Σ yαk = 6C·x. KKT at the bound: y(f⁰ + b) ≤ 1 for every
    point, so b ≤ 1 − 6C·1 (the tightest of y = +1 is x = 2: b ≤ 1 − 12C) and b ≥ −(1 − 12C).
    """
    X = np.array([[-1.0], [-2.0], [1.0], [2.0]])
    y = np.array([-1.0, -1.0, 1.0, 1.0])
    C = 0.05
    problem = problems.svc(Gram(X, kernel="linear"), y, C)
    certificate = certify(problem, np.full(4, C))
    assert certificate.relative_gap <= 1e-15
    assert certificate.bias_interval == pytest.approx((-(1 - 12 * C), 1 - 12 * C), abs=1e-12)
    assert certificate.bias == pytest.approx(0.0, abs=1e-12)
    peer = SVC(C=C, kernel="linear", tol=1e-10).fit(X, y)
    assert certificate.bias == pytest.approx(peer.intercept_[0], abs=1e-10)


@pytest.mark.parametrize("C", [0.01, 0.02])
def test_midpoint_is_libsvms_choice_where_no_vector_is_free(C):
    X, t = make_moons(40, noise=0.3, random_state=2)
    y = 2.0 * t - 1
    problem = problems.svc(Gram(X, gamma=0.5), y, C)
    certificate = solve(problem, "smo", refine=True).certificate
    assert np.all((certificate.alpha == 0) | (certificate.alpha == C)), "the case has a free vector after all"
    low, high = certificate.bias_interval
    assert high > low + 0.1
    assert certificate.bias == pytest.approx(SVC(C=C, gamma=0.5, tol=1e-10).fit(X, y).intercept_[0], abs=1e-6)


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
def test_one_class_and_radius_agree_with_libsvm(nu):
    X = DATA["moons"][0]
    n = len(X)
    gram = Gram(X, gamma=0.5)
    peer = OneClassSVM(nu=nu, gamma=0.5, tol=1e-10).fit(X)
    one = solve(problems.one_class(gram, nu), "smo", refine=True)
    assert one.certificate.multiplier * nu * n == pytest.approx(-peer.intercept_[0], abs=1e-6)
    ball = solve(problems.svdd(gram, nu), "smo", refine=True)
    # For constant Kᵢᵢ: R² = 1 + αᵀKα − 2ρ' with ρ' = ρ/(νn) and αᵀKα from the same α.
    alpha = np.zeros(n)
    alpha[peer.support_] = peer.dual_coef_[0] / (nu * n)
    squared = 1.0 + alpha @ rbf_kernel(X, 0.5) @ alpha + 2.0 * peer.intercept_[0] / (nu * n)
    assert ball.certificate.radius**2 == pytest.approx(squared, abs=1e-6)


def test_hard_sphere_is_the_smallest_enclosing_ball():
    """Linear kernel: the ball around a regular hexagon and inner points is the circle, radius 1, in closed form."""
    angles = np.arange(6) * np.pi / 3
    X = np.vstack([np.column_stack([np.cos(angles), np.sin(angles)]), [[0.1, 0.2], [-0.3, 0.0]]]) + 5.0
    solution = solve(problems.svdd(Gram(X, kernel="linear")), "smo", refine=True)
    assert solution.certificate.radius == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(solution.alpha @ X, [5.0, 5.0], atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_hard_margin_equals_a_huge_C_on_separable_data(fit_intercept):
    digits = load_digits()
    keep = np.isin(digits.target, (0, 1))
    X, y = digits.data[keep][:120] / 16, np.where(digits.target[keep][:120] == 1, 1.0, -1.0)
    gram = Gram(X, kernel="linear")
    solution = solve(problems.svc(gram, y, np.inf, fit_intercept=fit_intercept), "smo", refine=True)
    assert solution.status is Status.OPTIMAL
    boxed = solve(problems.svc(gram, y, 1e10, fit_intercept=fit_intercept), "cvxopt", refine=True)
    np.testing.assert_allclose(solution.alpha, boxed.alpha, atol=1e-6 * boxed.alpha.max())
    if fit_intercept:
        peer = SVC(C=1e10, kernel="linear", tol=1e-10).fit(X, y)
        assert solution.bias == pytest.approx(peer.intercept_[0], abs=1e-6)
        alpha = np.zeros(len(y))
        alpha[peer.support_] = np.abs(peer.dual_coef_[0])
        np.testing.assert_allclose(solution.alpha, alpha, atol=1e-6 * alpha.max())


@pytest.mark.parametrize("solver", ["smo", "gradient-flow", "lotka-volterra", "cvxopt"])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_inseparable_data_are_proved_inseparable(solver, fit_intercept):
    X, t = make_moons(60, noise=0.3, random_state=0)
    y = 2.0 * t - 1
    problem = problems.svc(Gram(X, kernel="linear"), y, np.inf, fit_intercept=fit_intercept)
    solution = solve(problem, solver)
    assert solution.status is Status.NOT_SEPARABLE
    v = solution.witness
    assert v is not None
    assert np.all(v >= 0)
    assert v.sum() == pytest.approx(1.0)
    if fit_intercept:
        assert y @ v == pytest.approx(0.0, abs=1e-9)
    # The two convex hulls meet: the same point is a mixture of either class (or, without b, the origin is one).
    assert np.linalg.norm((v * y) @ X) <= 1e-5


def test_squared_hinge_hard_margin_has_a_witness_too():
    X, t = make_moons(60, noise=0.3, random_state=0)
    problem = problems.svc(Gram(X, kernel="linear"), 2.0 * t - 1, np.inf, loss="squared_hinge")
    solution = solve(problem, "smo", refine=True)
    assert solution.status is Status.NOT_SEPARABLE
    assert np.linalg.norm((solution.witness * problem.sigma) @ np.column_stack([X, np.ones(60)])) <= 1e-5


def test_no_witness_on_separable_data():
    X = np.array([[-1.0], [1.0]])
    problem = problems.svc(Gram(X, kernel="linear"), np.array([-1.0, 1.0]), np.inf)
    assert inseparability_witness(problem, np.array([0.5, 0.5])) is None
    certificate = certify(problem, np.array([3.0, 3.0]))  # wrong scale, right direction: the ray is searched
    assert certificate.objective == pytest.approx(-0.5)
    assert certificate.gap == pytest.approx(0.0, abs=1e-15)


def test_indefinite_gets_no_number():
    rng = np.random.default_rng(0)
    A = rng.normal(size=(10, 10))
    problem = problems.svc(Gram.precomputed((A + A.T) / 2), np.where(np.arange(10) % 2, 1, -1))
    certificate = certify(problem, np.full(10, 0.5))
    assert certificate.gap is certificate.relative_gap is certificate.lower_bound is None
    assert certificate.psd.kind == "indefinite"
    assert "no bound" in str(certificate)


@pytest.mark.parametrize("model", [model for model in MODELS if not model.startswith("nu-")])
@pytest.mark.parametrize("start", ["zeros", "random"])
def test_refinement_reaches_the_optimum_from_any_start(model, start):
    problem, Q, p, u, e, d = random_problem(model, 11, 14)
    best = (
        affine_optimum(Q, p, e, d)[0]
        if u is None
        else coneqp_optimum(QuadraticProgram(Q, p, u, e, d, problem.total))[0]
    )
    rng = np.random.default_rng(0)
    alpha = np.zeros(problem.n) if start == "zeros" else rng.uniform(0, 2, problem.n)
    before = problem.objective(problem.project(alpha))
    refinement = refine(problem, alpha)
    certificate = certify(problem, refinement.alpha)
    assert refinement.converged
    assert certificate.objective <= before + 1e-12 * abs(before)
    assert certificate.relative_gap <= 1e-10
    assert certificate.objective == pytest.approx(best, rel=4e-9)


@pytest.mark.parametrize("C", [1.0, 1000.0, 1e5])
def test_refinement_on_ill_conditioned_moons(C):
    X, t = make_moons(200, noise=0.2, random_state=0)
    problem = problems.svc(Gram(X, gamma=1.0), 2.0 * t - 1, C)
    refinement = refine(problem, np.zeros(200))
    assert refinement.converged
    assert certify(problem, refinement.alpha).relative_gap <= 1e-9


def test_refinement_with_duplicates_and_low_rank():
    rng = np.random.default_rng(4)
    X = np.repeat(rng.integers(-2, 3, size=(15, 2)).astype(float), 3, axis=0)
    y = np.where(rng.random(45) < 0.5, 1.0, -1.0)  # contradicting duplicates, rank 2
    problem = problems.svc(Gram(X, kernel="linear"), y, 10.0)
    refinement = refine(problem, np.zeros(45))
    assert certify(problem, refinement.alpha).relative_gap <= 1e-9


@pytest.mark.parametrize("model", ["nu-SVC", "nu-SVR"])
def test_a_refinement_refuses_two_equalities(model):
    problem = random_problem(model, 0, 10)[0]
    with pytest.raises(ProblemError, match="this problem has two"):
        refine(problem, np.zeros(problem.n))


def test_kinds_are_all_covered():
    covered = {random_problem(model, 0, 8)[0].kind for model in MODELS}
    assert covered == set(Kind)
