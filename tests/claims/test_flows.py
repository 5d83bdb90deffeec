"""The flows and their steppers: identities, orders, what never increases, and how many steps to rest."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from sklearn.datasets import load_digits, make_blobs, make_classification, make_moons

from dualflow import Gram, Status, problems, solve
from dualflow.core.low_rank import LowRankSystem
from dualflow.flows.gradient import GradientField, interior_point, weights
from dualflow.flows.lotka_volterra import LotkaVolterraField
from dualflow.flows.replicator_mutator import ReplicatorMutatorField
from dualflow.integrate.implicit import ImplicitState, implicit_start, implicit_step
from dualflow.integrate.multiplicative import max_descent_step, multiplicative_step
from dualflow.integrate.scipy_ivp import METHODS, ivp_step
from dualflow.integrate.stiff_system import StiffSystem, low_rank
from tests.combinations import covering, often

X, T = make_moons(24, noise=0.2, random_state=0)
Y = 2.0 * T - 1
GRAM = Gram(X, gamma=1.0)
PROBLEMS = {
    "simplex": problems.svc(GRAM, Y, 2.0, loss="squared_hinge"),
    "ball": problems.svdd(GRAM),
    "capped simplex": problems.svdd(GRAM, 0.3),
    "box with equality": problems.svc(GRAM, Y, 2.0),
    "box": problems.svc(GRAM, Y, 2.0, fit_intercept=False),
    "orthant with equality": problems.svc(GRAM, Y, np.inf),
    "orthant": problems.svc(GRAM, Y, np.inf, fit_intercept=False),
}


def interior(problem, seed=0):
    """A random strictly feasible point."""
    rng = np.random.default_rng(seed)
    alpha = interior_point(problem)
    wiggled = problem.project(alpha * (1 + 0.2 * rng.uniform(-1, 1, problem.n)))
    return 0.5 * wiggled + 0.5 * alpha


def exact_path(rate, y0, t_end):
    result = solve_ivp(rate, (0, t_end), y0, method="DOP853", rtol=1e-12, atol=1e-14)
    assert result.success
    return result.y[:, -1]


@pytest.mark.parametrize("name", PROBLEMS)
def test_gradient_field_is_feasible_and_descends(name):
    problem = PROBLEMS[name]
    alpha, field = interior(problem), GradientField(problem)
    rate = field.rate(0.0, alpha)
    if problem.e is not None:
        assert problem.e @ rate == pytest.approx(0.0, abs=1e-12 * np.abs(rate).sum())
    # df/dt = −Σ w(g + νe)²: the chain rule against the formula
    w, g = weights(problem, alpha), -problem.gradient(alpha)
    drive = g if problem.e is None else g + field.multiplier(alpha) * problem.e
    assert problem.gradient(alpha) @ rate == pytest.approx(-np.sum(w * drive**2), rel=1e-10)
    finite = np.isfinite(problem.upper)
    u = problem.upper[finite]
    np.testing.assert_allclose(w[finite], alpha[finite] * (u - alpha[finite]) / u)
    np.testing.assert_array_equal(w[~finite], alpha[~finite])


def test_imaginary_time_identity():
    """ψ = √μ: ψ̇ = −½(F − ⟨F⟩)ψ, F = diag(∇f), is the simplex flow."""
    problem = PROBLEMS["simplex"]
    mu = interior(problem)
    psi, F = np.sqrt(mu), problem.gradient(mu)
    psi_rate = -0.5 * (F - psi @ (F * psi)) * psi
    np.testing.assert_allclose(2 * psi * psi_rate, GradientField(problem).rate(0.0, mu), rtol=1e-12, atol=1e-16)


def test_bauckhage_equation_3_is_the_field_on_the_simplex_and_unstable_off_it():
    problem = PROBLEMS["simplex"]
    H, field = problem.dense(), GradientField(problem)

    def literal(mu):
        return -mu * (H @ mu) + mu * (mu @ H @ mu)

    mu = interior(problem)
    np.testing.assert_allclose(field.rate(0.0, mu), literal(mu), atol=1e-15)
    off = 1.01 * mu
    s = off.sum()
    assert literal(off).sum() == pytest.approx((s - 1) * (off @ H @ off), rel=1e-9)  # ṡ > 0: it runs away
    assert field.rate(0.0, off).sum() == pytest.approx(0.0, abs=1e-15)


def test_howell_16_is_this_flow_C_times_faster():
    problem, C = PROBLEMS["box with equality"], 2.0
    a, lam = interior(problem), 0.3
    howell = a * (C - a) * (1 - Y * (GRAM.full() @ (Y * a)) + lam * Y)
    ours = LotkaVolterraField(problem).rate(0.0, np.append(a, lam))[:-1]
    np.testing.assert_allclose(howell, C * ours, rtol=1e-12)


def test_howell_27_has_half_our_time_and_lambda():
    """Kᵢᵢ = 1, K for 2K: ȧ = a(λ − Ka); ours has Q = 2K, p = 1, so ν = 2λ − 1 and every rate doubles."""
    problem = PROBLEMS["ball"]
    a, lam = interior(problem), 0.7
    howell = a * (lam - GRAM.full() @ a)
    ours = LotkaVolterraField(problem).rate(0.0, np.append(a, 2 * lam - 1))[:-1]
    np.testing.assert_allclose(ours, 2 * howell, rtol=1e-12)


@pytest.mark.parametrize("name", often(["box with equality", "simplex"], "simplex"))
def test_fast_lambda_limit_is_the_gradient_flow(name):
    """From eᵀα₀ = d and λ(0) = ν(α₀) the paths differ by O(τ)."""
    problem = PROBLEMS[name]
    alpha, t_end = interior(problem), 2.0
    slow = exact_path(GradientField(problem).rate, alpha, t_end)
    lam = GradientField(problem).multiplier(alpha)
    taus = np.array([1e-1, 1e-2, 1e-3])
    errors = []
    for tau in taus:
        y = exact_path(LotkaVolterraField(problem, tau).rate, np.append(alpha, lam), t_end)
        errors.append(np.abs(y[:-1] - slow).max() / np.abs(slow).max())
    order = np.polyfit(np.log(taus), np.log(errors), 1)[0]
    assert 0.8 <= order <= 1.3
    assert errors[-1] <= 1e-3


def test_damping_calms_lambda():
    problem = PROBLEMS["box with equality"]
    y0 = np.append(interior(problem) * np.where(Y > 0, 1.2, 1.0), 0.0)

    def turning_points(damping):
        field = LotkaVolterraField(problem, 1e-3, damping)
        lam = solve_ivp(field.rate, (0, 1), y0, method="LSODA", rtol=1e-9, atol=1e-12, max_step=1e-3).y[-1]
        return int((np.diff(np.sign(np.diff(lam))) != 0).sum())

    assert turning_points(10.0) * 4 < turning_points(0.0)


@pytest.mark.parametrize("name", ["simplex", "capped simplex", "box with equality", "box"])
def test_replicator_mutator_rests_on_the_central_path(name):
    problem, mutation = PROBLEMS[name], 1e-2
    field = ReplicatorMutatorField(problem, mutation)
    alpha = exact_path(field.rate, interior(problem), 400.0)
    force = -problem.gradient(alpha) + mutation / alpha
    finite = np.isfinite(problem.upper)
    force[finite] -= (mutation / (problem.upper - alpha))[finite]
    if problem.e is not None:
        force += field.multiplier(alpha) * problem.e
    np.testing.assert_allclose(force, 0.0, atol=1e-4)


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_must_never_increase_does_not(name):
    problem = PROBLEMS[name]
    for field in (GradientField(problem), ReplicatorMutatorField(problem, 1e-3)):
        y, values = interior(problem), []
        for k in range(12):
            values.append(field.lyapunov(y))
            y = ivp_step(field.rate, 0.25 * k, y, 0.25, method="LSODA", rtol=1e-10, atol=1e-13)
        assert np.all(np.diff(values) <= 1e-9 * np.abs(values[0]))
        assert values[-1] < values[0]


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("h", [0.1, 10.0, 1e4])
def test_implicit_step_without_mutation_never_raises_f(name, h):
    problem = PROBLEMS[name]
    alpha = interior(problem)
    state = implicit_start(problem, alpha, h, 0.0, mutation=0.0)
    values = [problem.objective(alpha)]
    for _ in range(8):
        state = implicit_step(problem, state, mutation=0.0)
        values.append(problem.objective(state.alpha))
    assert np.all(np.diff(values) <= 1e-12 * max(np.abs(values)))
    assert values[-1] < values[0]


@pytest.mark.parametrize("name", ["simplex", "ball", "capped simplex", "box with equality", "box"])
def test_multiplicative_euler_never_raises_f_at_its_safe_step(name):
    problem = PROBLEMS[name]
    alpha, h = interior_point(problem), max_descent_step(problem)
    values = []
    for _ in range(200):
        values.append(problem.objective(alpha))
        alpha = multiplicative_step(problem, alpha, h)
        assert problem.infeasibility(alpha) <= 1e-12
    assert np.all(np.diff(values) <= 1e-14)
    assert values[-1] < values[0]


def implicit_path(problem, alpha, nu, h, steps, tau, mutation):
    state = implicit_start(problem, alpha, h, nu, mutation)
    for _ in range(steps):
        state = implicit_step(problem, state, tau=tau, mutation=mutation)
        assert state.moved == 1.0
    return state.alpha


def multiplicative_path(problem, alpha, h, steps):
    for _ in range(steps):
        alpha = multiplicative_step(problem, alpha, h)
    return alpha


@pytest.mark.parametrize("stepper", ["implicit", "implicit, mutation", "implicit, lambda", "multiplicative"])
@pytest.mark.parametrize("name", ["simplex", "box with equality", "box"])
def test_declared_order_is_one(stepper, name):
    """Halve the step, compare the slope of the error with the declared order."""
    problem = PROBLEMS[name]
    alpha, t_end = interior(problem), 0.4
    nu = GradientField(problem).multiplier(alpha)
    if stepper == "implicit, mutation":
        exact = exact_path(ReplicatorMutatorField(problem, 1e-2).rate, alpha, t_end)
    elif stepper == "implicit, lambda":
        exact = exact_path(LotkaVolterraField(problem, tau=0.5).rate, np.append(alpha, nu), t_end)[:-1]
    else:
        exact = exact_path(GradientField(problem).rate, alpha, t_end)
    counts = np.array([20, 40, 80, 160])
    errors = []
    for steps in counts:
        h = t_end / steps
        if stepper == "multiplicative":
            found = multiplicative_path(problem, alpha, h, steps)
        else:
            tau = 0.5 if stepper.endswith("lambda") else 0.0
            mutation = 1e-2 if stepper.endswith("mutation") else 0.0
            found = implicit_path(problem, alpha, nu, h, steps, tau, mutation)
        errors.append(np.abs(found - exact).max())
    slope = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    assert 0.85 <= slope <= 1.25


@pytest.mark.parametrize("method", METHODS)
def test_scipy_methods_follow_the_path(method):
    problem = PROBLEMS["box with equality"]
    alpha, field = interior(problem), GradientField(problem)
    y = alpha
    for k in range(4):
        y = ivp_step(field.rate, 0.5 * k, y, 0.5, method=method)
    np.testing.assert_allclose(y, exact_path(field.rate, alpha, 2.0), atol=1e-6)


def data(name, n=200):
    if name == "moons":
        X, t = make_moons(n, noise=0.2, random_state=0)
    elif name == "digits":
        digits = load_digits()
        X, t = digits.data[:n], digits.target[:n] % 2
    elif name == "blobs":
        X, t = make_blobs(n, 8, centers=16, random_state=0)
        t = t % 2
    else:
        X, t = make_classification(n, 20, random_state=0)
    return X, 2.0 * t - 1


KERNELS = {"rbf": {"kernel": "rbf"}, "poly": {"kernel": "poly", "coef0": 1.0}}


@pytest.mark.parametrize("solver", ["gradient-flow", "lotka-volterra"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["moons", "digits", "classification"])
def test_implicit_steps_to_relative_gap_1e6(solver, kernel, name):
    """At most 20 steps at every C; each is one factorisation. 14 is the most that was seen."""
    X, y = data(name)
    gram = Gram(X, **KERNELS[kernel])
    for C in (1.0, 10.0, 100.0, 1000.0):
        for loss in ("hinge", "squared_hinge"):
            solution = solve(problems.svc(gram, y, C, loss=loss), solver, tol=1e-6, max_steps=20)
            assert solution.status is Status.OPTIMAL, f"C={C}, {loss}: {solution.raw_certificate}"
            assert solution.raw_certificate.relative_gap <= 1e-6
            assert not solution.refined


@pytest.mark.parametrize("solver", ["gradient-flow", "lotka-volterra"])
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_implicit_steps_where_they_are_most(solver, kernel, loss):
    """Moons, C = 1000, n = 1000: 39 steps once. 15 is the most that was seen."""
    X, y = data("moons", 1000)
    problem = problems.svc(Gram(X, **KERNELS[kernel]), y, 1000.0, loss=loss)
    solution = solve(problem, solver, tol=1e-6, max_steps=20)
    assert solution.status is Status.OPTIMAL, solution.raw_certificate
    assert solution.raw_certificate.relative_gap <= 1e-6


@pytest.mark.parametrize("name", ["moons", "blobs"])
def test_low_rank_is_exact_to_a_gap_of_1e10(name):
    """Plain Woodbury breaks off before: I + LᵀD⁻¹L turns indefinite, or its cancellation spoils the step."""
    X, y = data(name, 1000)
    problem = problems.svc(Gram(X, **KERNELS["rbf" if name == "moons" else "poly"]), y, 1000.0)
    assert low_rank(problem) is not None
    solution = solve(problem, "gradient-flow", tol=1e-10, max_steps=20)
    # Of "blobs" the certificate's own rounding is estimated at 1.1e-10.
    assert solution.status in (Status.OPTIMAL, Status.ROUNDED), solution.raw_certificate
    assert solution.raw_certificate.reaches(1e-10)


def stiff_diagonal(n, seed):
    """D as in a late step: a few free species, the others held by forces that are stiff to all degrees."""
    return np.geomspace(1e-8, 1e12, n)[np.random.default_rng(seed).permutation(n)]


@pytest.mark.parametrize("power", [0.0, 0.5])
def test_extinction_leaves_the_solution_right(power):
    """‖x − x̂‖ in the energy norm is within 2κ = 2e-4 of ‖x‖, and what is left out is left out."""
    X, y = data("classification", 120)
    Q, D = problems.svc(Gram(X), y).dense(), stiff_diagonal(120, 0)
    right = np.random.default_rng(1).normal(size=120) * D**power  # the survivors weigh most, or all the same
    exact = np.linalg.solve(Q + np.diag(D), right)
    system = StiffSystem(Q, D)
    assert 0 < len(system.survivors) < 100
    assert (D[system.extinct] > 1e4 * Q.diagonal()[system.extinct]).all()
    np.testing.assert_array_equal(np.sort(np.append(system.survivors, system.extinct)), np.arange(120))
    error = system.solve(right) - exact
    assert error @ (Q @ error + D * error) <= (2e-4) ** 2 * (exact @ right)
    D[7] = np.inf
    assert system.solve(right)[7] != 0.0 == StiffSystem(Q, D).solve(right)[7]


def test_without_stiffness_nobody_is_extinct():
    X, y = data("classification", 60)
    Q, D = problems.svc(Gram(X), y).dense(), np.geomspace(1e-3, 1e3, 60)
    system, right = StiffSystem(Q, D), np.random.default_rng(1).normal(size=60)
    assert len(system.survivors) == 60
    np.testing.assert_allclose(system.solve(right), np.linalg.solve(Q + np.diag(D), right), rtol=1e-9)


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_low_rank_is_the_whole_matrix(loss):
    """A cubic kernel of 2 features has rank 10; the offset of the squared hinge is among its monomials."""
    X, y = data("moons", 80)
    problem = problems.svc(Gram(X, **KERNELS["poly"]), y, 10.0, loss=loss)
    Q, L = problem.dense(), low_rank(problem)
    assert L.shape == (80, 10)
    np.testing.assert_allclose(L @ L.T + np.diag(problem.ridge), Q, atol=1e-11 * Q.diagonal().max())
    D = stiff_diagonal(80, 0) + 1e-3
    D[7] = np.inf
    system, right = LowRankSystem(L, D + problem.ridge), np.random.default_rng(1).normal(size=80)
    rest = np.arange(80) != 7
    exact = np.linalg.solve((Q + np.diag(np.where(rest, D, 1.0)))[np.ix_(rest, rest)], right[rest])
    x = system.solve(right)
    assert x[7] == 0.0
    error = x[rest] - exact
    assert error @ (Q[np.ix_(rest, rest)] @ error + D[rest] * error) <= (1e-6) ** 2 * (exact @ right[rest])


def test_full_rank_or_indefinite_is_not_low_rank():
    X, y = data("classification", 80)
    assert low_rank(problems.svc(Gram(X), y)) is None
    K = np.zeros((40, 40))
    K[0, 1] = K[1, 0] = 1.0
    assert low_rank(problems.svc(Gram.precomputed(K), np.where(np.arange(40) % 2, 1.0, -1.0))) is None


@pytest.mark.parametrize("solver", ["gradient-flow", "lotka-volterra"])
def test_the_dead_leave_the_factorisation(solver, monkeypatch):
    """At rest only those near the margin are still factorised, and the gap is certified over everybody."""
    kept = []

    class Spy(StiffSystem):
        def __init__(self, Q, D):
            super().__init__(Q, D)
            kept.append(len(self.survivors))

    monkeypatch.setattr("dualflow.integrate.implicit.StiffSystem", Spy)
    X, y = data("classification")
    solution = solve(problems.svc(Gram(X), y, 10.0), solver, tol=1e-8)
    assert kept[0] == 200
    assert kept[-1] < 150
    assert solution.raw_certificate.relative_gap <= 1e-8


@pytest.mark.parametrize("solver", ["gradient-flow", "lotka-volterra"])
def test_trajectory_fills_every_field(solver):
    problem = PROBLEMS["box with equality"]
    solution = solve(problem, solver, trajectory=True)
    path, rows = solution.trajectory, solution.cost.steps + 1
    assert path.t.shape == path.multiplier.shape == path.survivors.shape == path.objective.shape == (rows,)
    assert path.gap.shape == (rows,)
    assert path.alpha.shape == (rows, problem.n)
    assert path.t[0] == 0.0
    assert np.all(np.diff(path.t) > 0)
    assert np.isfinite(path.multiplier).all()
    assert np.isfinite(path.objective).all()
    assert np.isfinite(path.gap).all()
    assert path.gap[-1] <= 1e-6 < path.gap[0]
    assert path.survivors[0] == problem.n > path.survivors[-1]
    np.testing.assert_array_equal(path.alpha[-1], solution.raw_alpha)
    assert path.multiplier[-1] == pytest.approx(solution.raw_certificate.multiplier, abs=1e-3)


@pytest.mark.parametrize(
    ("solver", "integrator"),
    covering(["gradient-flow", "lotka-volterra"], ["RK45", "LSODA", "multiplicative"], together=1),
)
def test_other_integrators_agree_on_the_trajectory(solver, integrator):
    problem, t_end = PROBLEMS["simplex"], 2.0
    step = 1e-3 if integrator == "multiplicative" else 0.5
    solution = solve(problem, solver, integrator=integrator, time_step=step, t_end=t_end, tol=1e-12, max_steps=5000)
    field = GradientField(problem) if solver == "gradient-flow" else LotkaVolterraField(problem)
    expected = field.alpha(exact_path(field.rate, field.start(), t_end))
    assert solution.status is Status.FINISHED
    tolerance = 2e-4 if integrator == "multiplicative" else 1e-6
    np.testing.assert_allclose(solution.raw_alpha, expected, atol=tolerance)


def test_an_implicit_state_says_its_mutation():
    problem = PROBLEMS["box"]
    state = implicit_start(problem, interior_point(problem), 1.0, 0.0, mutation=0.02)
    assert isinstance(state, ImplicitState)
    assert state.complementarity(problem) == pytest.approx(0.02, rel=1e-12)
