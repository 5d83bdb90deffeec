"""Differentiable quantum circuits against SciPy, finite differences, Qiskit, and their own dense check."""

import dataclasses

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import dualflow
from dualflow import Gram, ProblemError, SolverMismatch, Status, VariationalDQC, Workspace
from dualflow.flows.lotka_volterra import LogitLotkaVolterra, LotkaVolterraField
from dualflow.quantum.circuits import ChebyshevCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.runs.journal import read_journal
from dualflow.quantum.runs.laboratory import Account, Laboratory
from dualflow.quantum.solvers.dqc_model import (
    COLLOCATIONS,
    DENSE_POINTS_PER_COLLOCATION,
    WINDOW_SHARE,
    Executor,
    Window,
)
from dualflow.quantum.solvers.variational_dqc import Rules
from dualflow.testing import check_solver, zoo
from tests.combinations import often

pytest.importorskip("pennylane")
FAST = "classical-sampler"  # the same distributions in a tenth of the time


def three_points(C=1.0, **options):
    gram = Gram([[0.0, 0.0], [1.0, 0.4], [0.3, 1.2]], gamma=0.7)
    return dualflow.problems.svc(gram, [1, -1, 1], C, **options)


def moons_like(n, loss="hinge", C=1.0, **options):
    rng = np.random.default_rng(n)
    y = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    X = rng.normal(size=(n, 2)) + 0.8 * y[:, None]
    return dualflow.problems.svc(Gram(X, gamma=0.7), y, C, loss=loss, **options)


def problems():
    weight = np.array([1.0, 0.0, 2.0, 1.0, 0.5])
    return {
        "box with equality": moons_like(5),
        "box": moons_like(5, fit_intercept=False),
        "simplex": moons_like(5, "squared_hinge"),
        "weights": moons_like(5, sample_weight=weight),
    }


def executor(circuit=None, device=FAST):
    account = Account.opened(np.random.default_rng(0))
    return Executor(Laboratory(make_device(device), "test"), account, circuit or ChebyshevCircuit(3, 2))


# --- the circuit -------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["aer", "pennylane:default.qubit", "pennylane:lightning.qubit"])
@pytest.mark.parametrize(("qubits", "layers"), [(1, 1), (2, 3), (4, 6)])
def test_devices_give_the_circuits_distribution(device, qubits, layers):
    circuit, rng = ChebyshevCircuit(qubits, layers), np.random.default_rng(0)
    values = rng.uniform(-4, 4, (5, circuit.n_parameters))
    for batch in (values, values[0], values[:1]):
        found = make_device(device).submit(circuit, batch, seed=0).result().ordered("little").probabilities
        np.testing.assert_allclose(found, circuit.distribution(batch), atol=1e-13)


def test_the_circuit_is_the_feature_map_under_hardware_efficient_layers():
    circuit = ChebyshevCircuit(3, 2)
    counts = circuit.build().count_ops()
    assert (counts["ry"], counts["cx"]) == (9, 4)
    assert circuit.degree == 6
    values = circuit.angles([0.3, 0.5], np.arange(12.0).reshape(2, 6))
    assert values.shape == (4, 9)
    np.testing.assert_allclose(values[1], [0.5, 1.0, 1.5, 0, 1, 2, 3, 4, 5])
    np.testing.assert_allclose(values[2], [0.3, 0.6, 0.9, 6, 7, 8, 9, 10, 11])


def test_expectations_contain_the_chebyshev_polynomials():
    """With θ = 0 and no entangling, ⟨Z⟩ of qubit k is T_{k+1}(x)."""
    circuit = ChebyshevCircuit(3, 1)
    x = np.linspace(-0.9, 0.9, 7)
    found = executor(circuit).run(circuit.angles(np.arccos(x), np.zeros(3)))
    # The CX line turns ⟨Z_k⟩ into the product of the first k + 1.
    T = np.stack([x, 2 * x**2 - 1, 4 * x**3 - 3 * x])
    np.testing.assert_allclose(found.T, np.cumprod(T, axis=0), atol=1e-14)


def test_the_first_window_is_as_long_as_the_field_takes_to_change():
    problem = moons_like(5)

    def first(**options):
        solver = VariationalDQC(FAST, **options)
        context = solver.open(problem, Workspace(problem))
        return context.flow, solver.start(context, np.random.default_rng(0)).h

    flow, h = first()
    assert h * np.sqrt(np.mean(flow.rate(flow.y0[None]) ** 2)) == pytest.approx(1.0, rel=1e-12)
    assert first(t_end=0.25 * h)[1] == 0.25 * h
    assert first(first_window=0.5 * h)[1] == 0.5 * h


def test_a_start_at_rest_has_a_window_of_1():
    """K = 1 and C = 2: α = 1 is the optimum and in the middle between its bounds, where the field is exactly 0."""
    problem = dualflow.problems.svc(Gram.precomputed(np.eye(2)), [1, -1], 2.0, fit_intercept=False)
    solver = VariationalDQC(FAST)
    context = solver.open(problem, Workspace(problem))
    assert solver.start(context, np.random.default_rng(0), np.ones(2)).h == 1.0


# --- derivatives -------------------------------------------------------------------------------


@pytest.mark.parametrize("collocation", COLLOCATIONS)
def test_values_and_slopes_from_the_grid_are_those_of_the_circuit(collocation):
    circuit = ChebyshevCircuit(3, 2)
    window, run = Window(circuit, 9, collocation), executor(circuit)
    theta = np.random.default_rng(1).uniform(0, 6, 6)

    def at(xi):
        return run.run(circuit.angles(np.arccos(WINDOW_SHARE * xi), theta))

    values, slopes = window.readers
    grid = run.run(circuit.angles(window.grid, theta))
    assert len(grid) == 2 * circuit.degree + 1
    np.testing.assert_allclose(values @ grid, at(window.xi) - at(window.xi[:1]), atol=1e-13)
    h = 1e-5
    np.testing.assert_allclose(slopes @ grid, (at(window.xi + h) - at(window.xi - h)) / (2 * h), atol=1e-8)


def fitted(problem, points=9, h=0.5, seed=2, circuit=None, rounds=0):
    circuit = circuit or ChebyshevCircuit(3, 2)
    flow = LogitLotkaVolterra(problem, 1.0, 0.5)
    window, run = Window(circuit, points), executor(circuit)
    theta = np.random.default_rng(seed).uniform(0, 6, circuit.n_angles)
    fit = window.begin(run, flow, flow.y0, h, theta)
    for _ in range(rounds):
        fit = window.improve(run, flow, flow.y0, h, fit)
    return flow, window, run, fit


@pytest.mark.parametrize("name", problems())
def test_the_jacobian_of_the_residual_is_that_of_finite_differences(name):
    flow, window, run, fit = fitted(problems()[name])
    J, residual = window._linearise(run, flow, flow.y0, 0.5, fit)
    packed = np.concatenate([fit.theta, fit.weights.ravel()])

    def at(vector):
        moved = dataclasses.replace(fit, theta=vector[:6], weights=vector[6:].reshape(fit.weights.shape))
        return window._linearise(run, flow, flow.y0, 0.5, moved)[1]

    np.testing.assert_allclose(residual, at(packed))
    step = 1e-5 * np.eye(len(packed))
    found = np.array([(at(packed + s) - at(packed - s)) / 2e-5 for s in step]).T
    np.testing.assert_allclose(J, found, atol=1e-7 * np.abs(J).max())


def test_the_dense_check_gives_the_residual_of_finite_differences():
    """The check's slopes come from shifts of single gates; here they come from differences of its values."""
    flow, window, run, fit = fitted(three_points(), points=30)
    # Large weights: the slopes must be most of the residual.
    fit = dataclasses.replace(fit, weights=np.random.default_rng(3).normal(size=fit.weights.shape))
    y, residual, size = window.check(run, flow, flow.y0, 0.5, fit)
    np.testing.assert_allclose(y[0], flow.y0)
    slopes = np.gradient(y, window.dense, axis=0, edge_order=2)
    rate = 0.25 * flow.rate(y)
    assert residual == pytest.approx(np.sqrt(np.mean((slopes - rate) ** 2)), rel=1e-2)
    assert size == pytest.approx(np.sqrt(np.mean(rate**2)))
    assert len(window.dense) == DENSE_POINTS_PER_COLLOCATION * 30
    assert residual > 2 * size


# --- the flow in logit coordinates --------------------------------------------------------------


@pytest.mark.parametrize("name", problems())
def test_logit_coordinates_are_the_same_field(name):
    problem = problems()[name]
    flow, original = LogitLotkaVolterra(problem, 0.7, 0.5), LotkaVolterraField(problem, 0.7, 0.5)
    np.testing.assert_allclose(flow.alpha(flow.y0), original.alpha(original.start()), rtol=1e-12)
    y = flow.y0 + np.random.default_rng(0).normal(size=(3, flow.size))
    h = 1e-6
    for row, rate in zip(y, flow.rate(y), strict=True):
        # dα/dt along ẏ, against the original field at the same point.
        moving = (flow.alpha(row + h * rate) - flow.alpha(row - h * rate)) / (2 * h)
        expected = original.rate(0.0, np.append(flow.alpha(row), flow.multiplier(row)))
        np.testing.assert_allclose(moving, expected[:-1], atol=1e-8)
        if problem.e is not None:
            assert rate[-1] * flow.unit == pytest.approx(expected[-1])
    step = h * np.eye(flow.size)
    found = np.stack([(flow.rate(y + s) - flow.rate(y - s)) / (2 * h) for s in step], axis=-1)
    np.testing.assert_allclose(flow.jacobian(y), found, atol=1e-7)


# --- the trajectory ----------------------------------------------------------------------------


def independent(problem, alpha0, lam0, times, damping):
    """Howell's (16) with λ dynamic, written out in α and integrated by DOP853 with a dense Q."""
    Q, y, u = problem.dense(), problem.e, problem.upper

    def rate(t, state):
        alpha, excess = state[:-1], y @ state[:-1]
        fitness = 1 - Q @ alpha + (state[-1] - damping * excess) * y
        return np.append(alpha * (u - alpha) / u * fitness, -excess)

    solution = solve_ivp(rate, (0, times[-1]), np.append(alpha0, lam0), "DOP853", times, rtol=1e-11, atol=1e-13)
    return solution.y[:-1].T


@pytest.mark.parametrize(("options", "allowed"), often([({}, 3e-3), ({"residual_tol": 1e-3}, 3e-4)], ({}, 3e-3)))
def test_three_points_follow_scipy_to_t_10(options, allowed):
    """The prototype had an error of 1.4e-3 here; α lies in [0, 1]."""
    problem = three_points()
    solution = dualflow.solve(problem, VariationalDQC(FAST, t_end=10.0, **options), tol=1e-14)
    t, alpha = solution.extras["path_t"], solution.extras["path_alpha"]
    assert solution.raw_status is Status.FINISHED
    assert t[-1] == pytest.approx(10.0)
    start = LotkaVolterraField(problem).start()
    expected = independent(problem, start[:-1], start[-1], t, damping=1.0)
    assert np.ptp(expected, axis=0).max() > 0.2  # α moves along the trajectory
    assert np.abs(alpha - expected).max() < allowed
    np.testing.assert_allclose(solution.extras["path_reference"], expected, atol=1e-6)
    assert solution.provenance["largest_error_against_lsoda"] == pytest.approx(
        np.abs(alpha - solution.extras["path_reference"]).max()
    )
    np.testing.assert_array_equal(alpha[-1], solution.raw_alpha)
    assert (solution.extras["window_residuals"][:, 1] <= solution.extras["window_residuals"][:, 2]).all()
    assert "passed in all" in solution.provenance["residual_check"]


@pytest.mark.parametrize("name", problems())
def test_it_comes_to_rest_at_the_optimum(name):
    problem = problems()[name]
    solution = dualflow.solve(problem, VariationalDQC(FAST, reference=False), tol=1e-5)
    best = dualflow.solve(problem, "cvxopt", tol=1e-9)
    assert solution.status is Status.OPTIMAL
    excess = problem.objective(solution.raw_certificate.alpha) - best.certificate.objective
    assert abs(excess) <= 1e-5 * abs(best.certificate.objective)
    assert "path_reference" not in solution.extras
    assert solution.provenance["largest_error_against_lsoda"] is None


@pytest.mark.parametrize(
    "few",
    [
        {"box two points"},
        pytest.param({"contradicting duplicates", "box two points", "soft SVDD line"}, marks=pytest.mark.slow),
    ],
)
def test_the_kit_accepts_it(few):
    """On a few problems; the whole zoo is in the conformance suite, where it takes minutes."""
    report = check_solver(VariationalDQC(FAST), problems=[z for z in zoo() if z.name in few])
    assert set(report.gaps) == few


@pytest.mark.parametrize("device", ["aer", "pennylane:default.qubit", "pennylane:lightning.qubit"])
def test_every_device_takes_the_same_path(device):
    small = {"n_qubits": 2, "layers": 2, "points": 6, "residual_tol": 0.1, "t_end": 0.5}
    ours = dualflow.solve(three_points(), VariationalDQC(device, **small), max_steps=4)
    fast = dualflow.solve(three_points(), VariationalDQC(FAST, **small), max_steps=4)
    assert ours.cost.circuits == fast.cost.circuits > 0
    assert len(ours.extras["path_t"]) > 0
    np.testing.assert_allclose(ours.extras["path_alpha"], fast.extras["path_alpha"], atol=1e-9)
    assert (ours.cost.qubits, ours.cost.two_qubit_gates, ours.cost.depth > 0) == (2, 2, True)
    assert 0 < ours.cost.device_time_s < ours.cost.wall_time_s
    assert ours.provenance["device"] == device


# --- the check on the dense grid------------------------------------------------------------------


@pytest.mark.parametrize("collocation", COLLOCATIONS)
def test_a_spurious_solution_is_seen_on_the_dense_grid_only(collocation):
    """Six points for functions of degree 10: the residual is 0 there, and large between them."""
    flow, circuit = LogitLotkaVolterra(three_points(), 1.0, 1.0), ChebyshevCircuit(4, 6)
    window, run = Window(circuit, 6, collocation), executor(circuit)
    fit = window.begin(run, flow, flow.y0, 5.0, np.random.default_rng(0).uniform(0, 6, 24))
    for _ in range(60):
        fit = window.improve(run, flow, flow.y0, 5.0, fit)
        if fit.rms < 2e-3:
            break
    y, residual, size = window.check(run, flow, flow.y0, 5.0, fit)
    assert fit.rms < 0.2 * Rules(1e-2).allowed(size)
    assert residual > 50 * Rules(1e-2).allowed(size)
    true = independent(three_points(), flow.alpha(flow.y0), flow.multiplier(flow.y0), [5.0], 1.0)[0]
    assert np.abs(flow.alpha(y[-1]) - true).max() > 1e-2


def trained_rms(collocation, seed):
    flow, circuit = LogitLotkaVolterra(three_points(), 1.0, 1.0), ChebyshevCircuit(4, 6)
    window, run = Window(circuit, 12, collocation), executor(circuit)
    fit = window.begin(run, flow, flow.y0, 5.0, np.random.default_rng(seed).uniform(0, 6, 24))
    for _ in range(60):
        fit = window.improve(run, flow, flow.y0, 5.0, fit)
        if fit.stalled:
            break
    return window.check(run, flow, flow.y0, 5.0, fit)[1] / fit.rms


@pytest.mark.slow
def test_uniform_points_hide_more_than_lobatto_points_do():
    """At 12 points for degree 10: the dense residual over the trained one, median of seeds."""
    lobatto, uniform = (np.median([trained_rms(c, seed) for seed in range(3)]) for c in COLLOCATIONS)
    assert lobatto < 2
    assert uniform > 2 * lobatto


def test_a_trained_window_with_changed_angles_is_rejected():
    flow, window, run, fit = fitted(three_points(), 16, 1.0, 0, ChebyshevCircuit(4, 6), rounds=30)
    _, residual, size = window.check(run, flow, flow.y0, 1.0, fit)
    assert residual <= Rules(1e-2).allowed(size)
    wrong = dataclasses.replace(fit, theta=fit.theta + 0.05 * np.cos(np.arange(24)))
    _, residual, size = window.check(run, flow, flow.y0, 1.0, wrong)
    assert residual > Rules(1e-2).allowed(size)


def test_a_failed_check_warns_ends_the_run_and_is_reported():
    problem = three_points()
    with pytest.warns(UserWarning, match=r"residual on the dense grid is .* halvings did not help"):
        solution = dualflow.solve(problem, VariationalDQC("null"))
    assert solution.raw_status is Status.FINISHED
    assert solution.provenance["residual_check"].startswith("FAILED in the window after t = 0")
    assert solution.provenance["rejected_windows"] == 8
    # On the null device α stays at its start, far from the optimum.
    start = LotkaVolterraField(problem).start()[:-1]
    np.testing.assert_allclose(solution.raw_alpha, start, rtol=1e-12)
    assert solution.raw_certificate.relative_gap > 0.1


# --- the solver class---------------------------------------------------------------------------


class Counting(type(make_device(FAST))):
    name, rows = "counting", 0

    def _run(self, circuit, values, shots, seed):
        self.rows += len(values)
        return super()._run(circuit, values, shots, seed)


def test_circuits_are_counted_as_they_are_submitted():
    device = Counting()
    solution = dualflow.solve(three_points(), VariationalDQC(device, t_end=0.3))
    assert solution.cost.circuits == device.rows > 1029
    assert solution.cost.shots == 0


def test_its_jobs_are_journalled_and_fetched_again(tmp_path):
    device, file = Counting(), tmp_path / "jobs.db"
    solver = VariationalDQC(device, 2, 2, 6, residual_tol=0.1, t_end=0.5, journal=file)
    first, again = (dualflow.solve(three_points(), solver, max_steps=4) for _ in range(2))
    assert first.cost.circuits == again.cost.circuits == device.rows > 0
    np.testing.assert_array_equal(first.raw_alpha, again.raw_alpha)
    jobs = [record.job_id for record in read_journal(file)]
    assert first.provenance["job_ids"] == again.provenance["job_ids"] == jobs[-10:]


def test_a_time_limit_holds_to_a_step():
    solution = dualflow.solve(moons_like(8), VariationalDQC(FAST), tol=1e-12, time_limit=0.2)
    assert solution.raw_status is Status.TIME_LIMIT
    assert solution.cost.wall_time_s < 2.0


def test_a_killed_run_resumes_to_the_same_bits(tmp_path):
    problem, solver = moons_like(4), VariationalDQC(FAST, t_end=4.0)
    whole = dualflow.solve(problem, solver, random_state=3, tol=1e-12)
    file = tmp_path / "run.npz"
    for steps in range(3, whole.cost.steps, 5):
        dualflow.solve(problem, solver, random_state=3, tol=1e-12, checkpoint=file, max_steps=steps)
    resumed = dualflow.solve(problem, solver, random_state=3, tol=1e-12, checkpoint=file)
    assert resumed.cost.circuits == whole.cost.circuits
    for name, array in whole.extras.items():
        np.testing.assert_array_equal(resumed.extras[name], array)


def test_a_warm_run_resumes_to_the_same_bits(tmp_path):
    problem, solver, file = moons_like(4), VariationalDQC(FAST, t_end=1.0), tmp_path / "run.npz"
    warm = dualflow.solve(problem, "working-set").alpha
    whole = dualflow.solve(problem, solver, warm=warm, tol=1e-12)
    cold = dualflow.solve(problem, solver, tol=1e-12)
    dualflow.solve(problem, solver, warm=warm, tol=1e-12, checkpoint=file, max_steps=2)
    resumed = dualflow.solve(problem, solver, warm=warm, tol=1e-12, checkpoint=file)
    assert 2 < resumed.cost.steps == whole.cost.steps
    np.testing.assert_array_equal(resumed.raw_alpha, whole.raw_alpha)
    assert (cold.raw_alpha != whole.raw_alpha).any()
    assert whole.provenance["largest_error_against_lsoda"] < 3e-3


def test_shots_are_refused_with_the_reason():
    for shots in (1000, 0):
        with pytest.raises(ProblemError, match=r"takes no shots.*variational-flow"):
            dualflow.solve(three_points(), "variational-dqc", shots=shots)
    with pytest.raises(TypeError, match="layer"):
        dualflow.solve(three_points(), "variational-dqc", layer=3)


@pytest.mark.parametrize(
    "options",
    [
        {"n_qubits": 0},
        {"layers": True},
        {"points": 2},
        {"collocation": "random"},
        {"tau": 0.0},
        {"damping": -1.0},
        {"residual_tol": np.nan},
        {"t_end": np.inf},
        {"first_window": -1.0},
    ],
    ids=lambda options: next(iter(options)),
)
def test_bad_options_are_named(options):
    with pytest.raises(ProblemError, match=next(iter(options))):
        VariationalDQC(**options)


def test_more_points_than_max_n_are_refused_by_name():
    with pytest.raises(SolverMismatch, match=r"at most 12 variables, the problem has 13; try"):
        dualflow.solve(moons_like(13), "variational-dqc")


def test_a_comparison_leaves_it_out_unless_requested():
    X, y = np.random.default_rng(0).normal(size=(12, 2)), np.arange(12) % 2
    small = {"max_n": 4, "time_limit": 0.5}
    assert "variational-dqc" not in {row.solver for row in dualflow.compare(X, y, "svdd", ["smo"], **small).rows}
    rows = dualflow.compare(X, y, "hinge", ["variational-dqc"], **small).rows
    assert [(row.role, row.device) for row in rows if row.role == "quantum"] == [("quantum", "aer")]
    assert {row.device for row in rows if row.role == "control"} == {"null", "control:random", "classical-sampler"}
    assert {row.status for row in rows} <= {"OPTIMAL", "TIME_LIMIT", "FINISHED"}
