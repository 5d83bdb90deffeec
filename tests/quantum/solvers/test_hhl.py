"""hhl against dense exponentials and the bordered system solved by numpy, on Aer, PennyLane and the controls."""

import numpy as np
import pytest
import scipy.linalg
from sklearn.datasets import load_digits, make_moons

import dualflow
from dualflow import HHL, DualProblem, Gram, ProblemError, SolverMismatch, Status
from dualflow.core.workspace import Workspace
from dualflow.quantum.circuits import HHLCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.runs.journal import read_journal
from dualflow.quantum.solvers.hhl import clock_for, invert, make_system
from tests.combinations import covering

#: Largest direction error.
MAX_DIRECTION_ERROR = 0.01
#: The null device must have at least this multiple of it.
MIN_NULL_RATIO = 10


def build(data="moons", n=15, C=10.0, **options):
    if data == "moons":
        X, label = make_moons(n, noise=0.2, random_state=0)
        y = 2 * label - 1
    else:
        bunch = load_digits()
        rows = np.isin(bunch.target, (1, 4))
        X, y = bunch.data[rows][:n] / 16, np.where(bunch.target[rows][:n] == 1, 1, -1)
    return dualflow.problems.least_squares(Gram(X, kernel="rbf", gamma="scale"), y, C, **options)


def bordered(problem):
    """α of the bordered system, which the solver never forms; Q from its definition."""
    X, n = problem.gram.X, problem.n
    K = np.exp(-problem.gram.gamma * ((X[:, None] - X) ** 2).sum(axis=2))
    Q = np.outer(problem.sigma, problem.sigma) * K + np.diag(problem.ridge)
    if problem.e is None:
        return np.linalg.solve(Q, problem.p)
    e = problem.e[:, None]
    return np.linalg.solve(np.block([[Q, e], [e.T, np.zeros((1, 1))]]), np.append(problem.p, problem.d))[:n]


def direction_error(alpha, exact):
    return np.linalg.norm(alpha / np.linalg.norm(alpha) - exact / np.linalg.norm(exact))


def random_circuit(s, t, seed=0):
    rng, n = np.random.default_rng(seed), 2**s
    V = np.linalg.qr(rng.standard_normal((n, n)))[0]
    A = (V * np.geomspace(0.2, 0.9, n)) @ V.T
    return HHLCircuit(s + t + 1, 0.5 * (A + A.T), rng.standard_normal(n), 0.15)


def begun(solver, problem, seed):
    context = solver.open(problem, Workspace(problem))
    return context, solver.start(context, np.random.default_rng(seed))


# --- the circuit -------------------------------------------------------------------------------


@pytest.mark.parametrize(("s", "t"), [(1, 1), (1, 3), (2, 3), (3, 2), (2, 5)])
def test_circuit_is_its_distribution_on_aer_and_pennylane(s, t):
    circuit = random_circuit(s, t)
    expected = circuit.distribution([])
    assert expected.sum() == pytest.approx(1.0, abs=1e-12)
    for device in ("aer", "pennylane:default.qubit"):
        found = make_device(device).submit(circuit, []).result().ordered("little").probabilities
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9, err_msg=device)


@pytest.mark.parametrize(("s", "t"), [(1, 2), (2, 3), (2, 4)])
def test_accepted_outcomes_are_those_of_dense_exponentials(s, t):
    circuit, n, T = random_circuit(s, t, seed=1), 2**s, 2**t
    A, b = np.array(circuit.matrix), np.array(circuit.rhs)
    window = np.sin(np.pi * (np.arange(T) + 0.5) / T)
    window /= np.linalg.norm(window)
    # On clock ⊗ system: Σ_τ |τ⟩⟨τ| ⊗ exp(2πiAτ), the Fourier matrix, the rotation, and the inverse.
    evolution = scipy.linalg.block_diag(*[scipy.linalg.expm(2j * np.pi * A * tau) for tau in range(T)])
    fourier = np.exp(-2j * np.pi * np.outer(np.arange(T), np.arange(T)) / T) / np.sqrt(T)
    estimation = np.kron(fourier, np.eye(n)) @ evolution
    turn = np.diag([0.0, *(min(1.0, circuit.least * T / k) for k in range(1, T))])
    start = np.kron(window[:, None], np.eye(n))
    found = start.T @ estimation.conj().T @ np.kron(turn, np.eye(n)) @ estimation @ start @ (b / np.linalg.norm(b))
    assert abs(found.imag).max() < 1e-12
    np.testing.assert_allclose(circuit.accepted(circuit.distribution([])), found.real**2, rtol=0, atol=1e-12)


def test_an_eigenvalue_on_a_reading_is_inverted_by_the_mean_of_the_window():
    # A = λ1: readings follow the window's own distribution around λT, the same for every b.
    t, reading, least = 6, 40, 0.25
    T = 2**t
    circuit = HHLCircuit(t + 2, np.eye(2) * reading / T, (0.6, -0.8), least)
    amplitudes = np.fft.fft(np.sqrt(2) / T * np.sin(np.pi * (np.arange(T) + 0.5) / T))
    k = (reading + np.arange(T)) % T
    turn = np.where(k > 0, np.minimum(1, least * T / np.maximum(k, 1)), 0.0)
    mean = (abs(amplitudes) ** 2) @ turn
    np.testing.assert_allclose(circuit.accepted(circuit.distribution([])), mean**2 * np.array([0.36, 0.64]), atol=1e-14)
    assert mean == pytest.approx(least * T / reading, rel=1e-3)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((4, [[1.0, 0.0], [0.0, 0.5]]), r"\(0, 1\)"),
        ((4, [[0.5, 0.1], [0.2, 0.5]]), "symmetric"),
        ((4, np.eye(3) / 2, np.ones(3)), "power of two"),
        ((4, np.eye(2) / 2, [0.0, 0.0]), "not 0"),
        ((2,), "no clock"),
        ((4, np.eye(2) / 2, [1.0, 0.0], 1.5), "least=1.5"),
    ],
)
def test_circuit_refuses(arguments, words):
    with pytest.raises(ProblemError, match=words):
        HHLCircuit(*arguments)


# --- the solver --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "device"),
    [
        *(pytest.param("moons", device, marks=pytest.mark.slow) for device in ("aer", "emulator")),
        ("digits", "emulator"),
    ],
)
def test_direction_at_fifteen_points(data, device):
    problem = build(data)
    exact = bordered(problem)
    assert (exact < 0).any()  # so that the signs are tested
    solution = dualflow.solve(problem, "hhl", device=device, refine=False)
    assert solution.provenance["condition"] <= 50
    assert direction_error(solution.raw_alpha, exact) <= MAX_DIRECTION_ERROR
    np.testing.assert_allclose(solution.raw_alpha, exact, atol=MAX_DIRECTION_ERROR * np.linalg.norm(exact))
    assert solution.raw_certificate.relative_gap <= 1e-4
    cost = solution.cost
    assert (cost.circuits, cost.shots, cost.steps) == (2, 0, 1)
    assert cost.qubits == 5 + solution.provenance["clock"]
    # Each controlled exponential, and its inverse, is a dense matrix of 5 qubits.
    assert 150 < cost.two_qubit_gates / (2 * solution.provenance["clock"]) < 400
    assert cost.success_probability == solution.provenance["success_probabilities"][0]


@pytest.mark.parametrize("data", ["moons", "digits"])
def test_the_null_device_misses_ten_times(data):
    problem = build(data)
    solution = dualflow.solve(problem, "hhl", device="null", refine=False)
    assert direction_error(solution.raw_alpha, bordered(problem)) > MIN_NULL_RATIO * MAX_DIRECTION_ERROR
    assert solution.raw_status is Status.NOISE_DOMINATED


def test_success_probability_is_the_norm_of_the_solution():
    problem = build()
    solution = dualflow.solve(problem, "hhl", device="emulator", clock=12, refine=False)
    system = make_system(problem)
    circuit = system.circuit(system.b, 12)
    state = np.linalg.solve(np.array(circuit.matrix), circuit.rhs) * circuit.least / np.linalg.norm(circuit.rhs)
    assert solution.cost.success_probability == pytest.approx(state @ state, rel=1e-3)


def test_error_falls_with_the_square_of_the_clock():
    problem = build()
    exact = bordered(problem)
    errors = []
    for clock in (8, 10, 12):
        context, start = begun(HHL(device="emulator", clock=clock), problem, 0)
        errors.append(direction_error(invert(context, start).alpha, exact))
    assert 10 < errors[0] / errors[1] < 26  # 16 by (readings)^-2
    assert 10 < errors[1] / errors[2] < 26


@pytest.mark.parametrize(("n", "fit_intercept"), covering([2, 3, 9, 16], [True, False], together=1))
def test_other_sizes_with_and_without_bias(n, fit_intercept):
    problem = build(n=n, C=2.0, fit_intercept=fit_intercept)
    solution = dualflow.solve(problem, "hhl", device="emulator", refine=False)
    assert direction_error(solution.raw_alpha, bordered(problem)) <= MAX_DIRECTION_ERROR


def test_an_affine_problem_with_a_right_side():
    base = build(n=6, C=1.0)
    p = np.random.default_rng(0).standard_normal(6)
    problem = DualProblem(
        base.gram, p, -np.inf, np.inf, e=base.e, d=0.7, sigma=base.sigma, ridge=base.ridge, reading=base.reading
    )
    solution = dualflow.solve(problem, "hhl", device="emulator", clock=11, refine=False)
    np.testing.assert_allclose(solution.raw_alpha, bordered(problem), atol=1e-4)


def test_one_class_alone_has_the_solution_zero_and_runs_no_circuit():
    gram = Gram([[0.0], [1.0], [2.0]], gamma=1.0)
    solution = dualflow.solve(dualflow.problems.least_squares(gram, [1, 1, 1]), "hhl", refine=False)
    assert (solution.raw_alpha == 0).all()
    assert solution.cost.circuits == 0


def test_sampled_reading_approaches_the_exact_one():
    # Each |x_i| is read with a standard deviation of ½ scale/√shots, the direction with at most √n of them.
    problem, shots, errors = build(C=1.0), 1_000_000, []
    for seed in range(5):
        context, start = begun(HHL(device="classical-sampler"), problem, seed)
        exact = invert(*begun(HHL(device="emulator"), problem, seed))
        sampled = invert(context, start, shots)
        errors.append(np.linalg.norm(sampled.alpha - exact.alpha))
    circuit = context.circuit
    scale = context.system.magnitudes(circuit, np.ones(2**circuit.n_qubits)).max()
    sigma = 0.5 * scale * np.sqrt(problem.n / shots)
    assert 0 < np.median(errors) < 2 * sigma


def test_its_jobs_are_journalled_and_fetched_again(tmp_path):
    problem, path = build(n=4), tmp_path / "jobs.db"
    device = make_device("emulator")
    first, again = (
        dualflow.solve(problem, HHL(device=device, journal=path), refine=False, random_state=0) for _ in range(2)
    )
    assert [(record.label, record.state) for record in read_journal(path)] == [("hhl 0", "done"), ("hhl 1", "done")]
    assert (
        [record.job_id for record in read_journal(path)] == again.provenance["job_ids"] == first.provenance["job_ids"]
    )
    np.testing.assert_array_equal(again.raw_alpha, first.raw_alpha)


def test_a_saved_run_is_taken_up_with_what_it_measured(tmp_path):
    runs = [dualflow.solve(build(n=4), "hhl", device="emulator", checkpoint=tmp_path / "run.npz") for _ in range(2)]
    np.testing.assert_array_equal(runs[0].raw_alpha, runs[1].raw_alpha)
    assert [run.cost.circuits for run in runs] == [2, 2]
    assert runs[0].provenance == runs[1].provenance


# --- refusals ----------------------------------------------------------------------------------


def test_refusals():
    with pytest.raises(SolverMismatch, match="at most 16 variables"):
        dualflow.solve(build(n=17), "hhl")
    with pytest.raises(SolverMismatch, match="does not solve"):
        dualflow.solve(dualflow.problems.svdd(build().gram), "hhl")
    with pytest.raises(ProblemError, match="leave shots out"):
        dualflow.solve(build(), "hhl", shots=100)
    for option in ("final_shots", "shot_budget", "mitigation"):
        with pytest.raises(TypeError, match=f"no option '{option}'"):
            dualflow.solve(build(), "hhl", **{option: 100})
    with pytest.raises(ProblemError, match="lower C"):
        dualflow.solve(build(C=1e6), "hhl")
    for clock in (0, 13, 2.5, True):
        with pytest.raises(ProblemError, match="clock="):
            HHL(clock=clock)
    gram = Gram([[0.0], [0.0], [1.0]], kernel="linear")
    singular = DualProblem(gram, np.ones(3), -np.inf, np.inf)
    with pytest.raises(ProblemError, match="singular"):
        make_system(singular)
    indefinite = dualflow.problems.least_squares(Gram(-4.0 * np.eye(4), "precomputed"), [1, -1, 1, -1], 1.0)
    with pytest.raises(ProblemError, match=r"indefinite.*from -3 to"):
        make_system(indefinite)


def test_the_clock_grows_with_the_condition_number():
    assert [clock_for(k) for k in (1, 10, 50, 400)] == [6, 7, 9, 12]
