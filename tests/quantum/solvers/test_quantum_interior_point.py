"""quantum-interior-point against `interior-point`, CVXOPT and numpy, on simulators and the controls."""

import numpy as np
import pytest

import dualflow
from dualflow import Gram, ProblemError, QuantumInteriorPoint, SolverMismatch, Status
from dualflow.core.workspace import Workspace
from dualflow.quantum.runs.laboratory import Account
from dualflow.quantum.solvers.quantum_interior_point import NewtonState, _Step

NAME = "quantum-interior-point"
#: Relative difference of objectives that count as equal, and the certified gap that exact circuits must reach.
EQUAL = 1e-8


def noisy_halfspaces(n, d=3, C=1.0, seed=0):
    """Two classes of n normal points in d dimensions with a quarter of the labels wrong, linear kernel."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X.sum(axis=1) + rng.standard_normal(n) >= 0, 1, -1)
    return dualflow.problems.svc(Gram(X, "linear"), y, C=C)


def run(problem, seed=0, **options):
    options = {"device": "emulator", "tol": 1e-12} | options
    return dualflow.solve(problem, NAME, refine=False, random_state=seed, **options)


@pytest.fixture(scope="module")
def thousand():
    return noisy_halfspaces(1000)


@pytest.fixture(scope="module")
def least(thousand):
    return dualflow.solve(thousand, "interior-point").certificate.objective


# --- one system --------------------------------------------------------------------------------


def solved(A, b, solution=None, **options):
    """u of A u = b by one system of a run, and the state after it."""
    solver = QuantumInteriorPoint(**{"device": "emulator"} | options)
    state = NewtonState(None, np.empty(0), np.empty(0), np.inf, Account.opened(np.random.default_rng(0)))
    step = _Step(solver, solver.laboratory(), state)
    return step.solve(A, b, np.linalg.solve(A, b) if solution is None else solution), step.state


def matrix(m, condition, seed=0):
    rng = np.random.default_rng(seed)
    V = np.linalg.qr(rng.standard_normal((m, m)))[0]
    A = (V * np.geomspace(1.0, condition, m)) @ V.T
    return 0.5 * (A + A.T), rng.standard_normal(m)


@pytest.mark.parametrize("m", [1, 2, 3, 4, 7, 8])
def test_circuits_solve_a_system_with_the_signs_of_the_solution(m):
    A, b = matrix(m, 20.0 if m > 1 else 1.0, seed=m)
    expected = np.linalg.solve(A, b)
    found, state = solved(A, b)
    np.testing.assert_allclose(found, expected, atol=0.01 * np.linalg.norm(expected))
    (condition, clock, error, success), *others = state.systems
    assert not others
    assert condition == pytest.approx(np.linalg.cond(A))
    assert error == pytest.approx(np.linalg.norm(found - expected) / np.linalg.norm(expected))
    assert clock == 8 if m > 1 else 6
    assert 0 < success <= 1
    assert state.account.circuits == 2


def test_error_falls_with_the_square_of_the_clock():
    A, b = matrix(4, 10.0)
    first, second, third = (solved(A, b, clock=clock)[1].systems[0, 2] for clock in (8, 10, 12))
    assert 10 < first / second < 26  # 16 by (readings)^-2
    assert 10 < second / third < 26


def test_eigenvalues_below_the_clock_are_not_amplified_beyond_its_smallest_reading():
    A, b = matrix(2, 1e6)
    found, state = solved(A, b)
    condition, clock, error, success = state.systems[0]
    assert (clock, condition > 1e5) == (12, True)
    # The smallest reading is 1 of 4096, and reading 3686 (0.9 of them) stands for the largest eigenvalue.
    assert np.linalg.norm(found) <= 0.9 * 4096 / 1e6 * np.linalg.norm(b)
    assert error > 0.9
    assert success < 1e-2


def test_a_matrix_that_is_singular_to_rounding_is_solved_too():
    solution = np.ones(3)
    found, _ = solved(np.ones((3, 3)), np.full(3, 3.0), solution)
    np.testing.assert_allclose(found, solution, atol=1e-3)


@pytest.mark.parametrize("shots", [10**4, 10**6])
def test_shot_noise_of_a_system_is_that_of_its_amplitudes(shots):
    A, b = matrix(4, 5.0)
    exact, state = solved(A, b)
    success = state.systems[0, 3]
    found, _ = solved(A, b, shots=shots)
    # An amplitude has the standard deviation ½/√shots, and the norm of all four is √success.
    sigma = 0.5 * np.sqrt(len(b) / (shots * success)) * np.linalg.norm(exact)
    assert 0.05 * sigma < np.linalg.norm(found - exact) < 4 * sigma


# --- runs --------------------------------------------------------------------------------------


def test_exact_circuits_reach_the_optimum_of_a_thousand_points(thousand, least):
    solution = run(thousand)
    assert solution.raw_certificate.relative_gap <= EQUAL
    assert solution.raw_certificate.objective == pytest.approx(least, rel=EQUAL)
    about, cost, rows = solution.provenance, solution.cost, solution.extras["systems"]
    assert (about["unknowns"], about["systems"]) == (4, len(rows))
    assert cost.circuits == 2 * len(rows)
    assert (cost.shots, cost.qubits) == (0, 2 + about["clock"] + 1)
    assert cost.success_probability == rows[:, 3].min()
    assert about["largest_condition"] == rows[:, 0].max() < 100
    assert about["median_error"] == np.median(rows[:, 2]) < 0.01
    assert about["method"].startswith("exact")
    # The certificate may take the solver's weights, which are better than those of a slightly infeasible α.
    assert solution.raw_certificate.primal is None or len(solution.raw_certificate.primal) == 3


def test_eight_unknowns_take_three_qubits():
    # Of most such problems the last systems are singular to round-off, whose size differs from processor to processor.
    problem = noisy_halfspaces(1000, d=7, seed=2)
    solution = run(problem)
    assert solution.provenance["largest_condition"] < 1000
    expected = dualflow.solve(problem, "cvxopt", tol=1e-10).certificate.objective
    assert solution.raw_certificate.objective == pytest.approx(expected, rel=1e-7)
    assert solution.cost.qubits == 3 + solution.provenance["clock"] + 1


def test_classical_systems_are_those_of_interior_point(thousand, least):
    solution = run(thousand, systems="classical")
    assert solution.raw_certificate.relative_gap <= 1e-10
    assert solution.raw_certificate.objective == pytest.approx(least, rel=EQUAL)
    assert solution.cost.circuits == 0
    assert (solution.extras["systems"][:, 1:3] == 0).all()


def test_shots_reach_a_gap_that_no_control_reaches(thousand):
    def gap(seed, **options):
        return run(thousand, seed, max_steps=25, **options).raw_certificate.relative_gap

    for seed in (0, 1):
        assert gap(seed, shots=50_000) <= 1e-2
        assert gap(seed, shots=5_000_000) <= 1e-3
    for control in ({"device": "null"}, {"device": "control:random"}, {"systems": "null"}):
        assert gap(0, **control) > 0.1, control


def test_errors_fall_with_the_root_of_the_shots(thousand):
    few, many = (
        [np.median(run(thousand, seed, shots=shots, clock=8, max_steps=4).extras["systems"][:, 2]) for seed in range(5)]
        for shots in (10_000, 1_000_000)
    )
    assert 4 < np.median(few) / np.median(many) < 25  # 10


def test_the_null_device_is_reported_as_noise_dominated(thousand):
    assert run(thousand, device="null", shots=1000).raw_status is Status.NOISE_DOMINATED
    assert run(thousand, max_steps=3).raw_status is not Status.NOISE_DOMINATED


@pytest.mark.parametrize("error", [0.01, 0.3])
def test_a_chosen_error_is_that_of_every_solution(thousand, error):
    solution = run(thousand, systems="classical", error=error, max_steps=5)
    np.testing.assert_allclose(solution.extras["systems"][:, 2], error, rtol=1e-6)


def test_a_null_direction_has_the_norm_of_the_solution():
    A, b = matrix(4, 5.0)
    found, _ = solved(A, b, systems="null")
    assert np.linalg.norm(found) == pytest.approx(np.linalg.norm(np.linalg.solve(A, b)))


@pytest.mark.parametrize("device", ["aer", "pennylane:default.qubit"])
def test_simulated_gates_give_the_emulator_s_steps(device):
    problem = noisy_halfspaces(40, d=1)
    found, expected = (run(problem, device=name, clock=4, max_steps=2) for name in (device, "emulator"))
    np.testing.assert_allclose(found.raw_alpha, expected.raw_alpha, rtol=0, atol=1e-8)
    assert found.cost.two_qubit_gates > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda gram, y: dualflow.problems.svc(gram, y, C=1.0, fit_intercept=False),
        lambda gram, y: dualflow.problems.svc(gram, y, C=1.0, loss="squared_hinge"),
        lambda gram, y: dualflow.problems.svdd(gram, nu=0.2),
        lambda gram, y: dualflow.problems.svr(gram, gram.X[:, 0] + 0.1 * y, C=1.0, epsilon=0.05),
    ],
)
def test_other_models(make):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((60, 2))
    problem = make(Gram(X, "linear"), np.where(X.sum(axis=1) + rng.standard_normal(60) > 0, 1, -1))
    solution = run(problem)
    expected = dualflow.solve(problem, "cvxopt", tol=1e-10).certificate.objective
    assert solution.raw_certificate.objective == pytest.approx(expected, rel=1e-4)


def test_an_estimator_takes_it(thousand):
    X, y = thousand.gram.X, thousand.sigma.astype(int)
    model = dualflow.SVC(kernel="linear", solver=NAME, solver_options={"device": "emulator"}, tol=1e-6).fit(X, y)
    expected = dualflow.SVC(kernel="linear", tol=1e-8).fit(X, y)
    np.testing.assert_allclose(model.coef_, expected.coef_, atol=1e-3)


# --- a run's files -----------------------------------------------------------------------------


def test_a_journalled_run_sends_no_job_twice(tmp_path):
    problem, options = noisy_halfspaces(30, d=1), {"shots": 1000, "max_steps": 3, "journal": tmp_path / "jobs.db"}
    first, again = run(problem, **options), run(problem, **options)
    np.testing.assert_array_equal(first.raw_alpha, again.raw_alpha)
    assert again.provenance["circuits_from_journal"] == again.cost.circuits > 0


def test_a_resumed_run_has_the_bits_of_the_whole_one(tmp_path):
    problem, path = noisy_halfspaces(50), tmp_path / "run.npz"
    whole = run(problem, shots=10_000, max_steps=6)
    run(problem, shots=10_000, max_steps=3, checkpoint=path)
    resumed = run(problem, shots=10_000, max_steps=6, checkpoint=path)
    np.testing.assert_array_equal(resumed.raw_alpha, whole.raw_alpha)
    np.testing.assert_array_equal(resumed.extras["systems"], whole.extras["systems"])
    assert resumed.cost.circuits == whole.cost.circuits


def test_the_circuit_before_a_run_is_the_first_one():
    problem = noisy_halfspaces(30)
    for clock, qubits in ((None, 2 + 6 + 1), (5, 2 + 5 + 1)):
        solver = QuantumInteriorPoint(device="emulator", clock=clock)
        context = solver.open(problem, Workspace(problem))
        assert solver.circuit(context, None).n_qubits == qubits


# --- refusals ----------------------------------------------------------------------------------


def test_refusals():
    with pytest.raises(SolverMismatch, match="at most 8 unknowns"):
        run(noisy_halfspaces(30, d=8))
    with pytest.raises(SolverMismatch, match="at most 8 unknowns"):
        run(dualflow.problems.svdd(Gram(np.random.default_rng(0).standard_normal((20, 2)), gamma=2.0)))
    with pytest.raises(SolverMismatch, match="at most 10000 variables"):
        run(noisy_halfspaces(10_001, d=1))
    with pytest.raises(SolverMismatch, match="does not solve"):
        run(dualflow.problems.least_squares(Gram([[0.0], [1.0]], "linear"), [-1, 1], 1.0))
    hard = dualflow.problems.svc(Gram([[0.0], [1.0]], "linear"), [-1, 1], C=np.inf, loss="squared_hinge")
    with pytest.raises(SolverMismatch, match="does not solve hard margins"):
        run(hard)
    for options in ({"clock": 13}, {"systems": "both"}, {"error": -0.1}, {"shots": 0}):
        (name,) = options
        with pytest.raises(ProblemError, match=name):
            QuantumInteriorPoint(**options)
