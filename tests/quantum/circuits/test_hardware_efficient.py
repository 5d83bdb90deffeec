"""The hardware-efficient ansatz: its circuit against Qiskit, its tangents, and the flow on it."""

import dataclasses

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow
from dualflow import Gram, ProblemError, SolverMismatch, VariationalFlow
from dualflow.core.workspace import Workspace
from dualflow.quantum.circuits import HardwareEfficientCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.solvers.ansatz import HardwareEfficientAnsatz
from tests.combinations import covering, often

ANSATZ = {"ansatz": "hardware-efficient"}
SIZES = [(1, 0), (1, 3), (2, 1), (3, 2), (4, 5), (5, 1)]


def moons(n, C, seed=0):
    """Squared hinge on two moons, or hard SVDD for C=None."""
    X, y = make_moons(n, noise=0.15, random_state=seed)
    gram = Gram(X, kernel="rbf", gamma=1.0)
    return (
        dualflow.problems.svdd(gram) if C is None else dualflow.problems.svc(gram, 2 * y - 1, C, loss="squared_hinge")
    )


def angles(circuit, seed=0, batch=()):
    return np.random.default_rng(seed).uniform(-np.pi, np.pi, (*batch, circuit.n_parameters))


def excess(problem, alpha):
    best = dualflow.solve(problem, "cvxopt", tol=1e-9).certificate.objective
    return (problem.objective(problem.project(alpha)) - best) / abs(best)


# --- the circuit -------------------------------------------------------------------------------


@pytest.mark.parametrize(("n_qubits", "layers"), SIZES)
def test_distribution_and_state_are_qiskits(n_qubits, layers):
    from qiskit.quantum_info import Statevector

    circuit = HardwareEfficientCircuit(n_qubits, layers)
    theta = angles(circuit)
    state = Statevector(circuit.build().assign_parameters(circuit.gate_parameters(theta))).data
    np.testing.assert_allclose(state.imag, 0.0, atol=1e-15)
    np.testing.assert_allclose(circuit.state_and_tangents(theta)[0], state.real, atol=1e-13)
    np.testing.assert_allclose(circuit.distribution(theta), state.real**2, atol=1e-13)
    assert circuit.distribution(angles(circuit, 1, (3,))).shape == (3, 2**n_qubits)


@pytest.mark.parametrize(("n_qubits", "layers"), SIZES)
def test_tangents_are_derivatives(n_qubits, layers):
    circuit = HardwareEfficientCircuit(n_qubits, layers)
    theta, h = angles(circuit, 2), 1e-6
    for k, tangent in enumerate(circuit.state_and_tangents(theta)[1]):
        step = h * np.eye(len(theta))[k]
        ahead, behind = (circuit.state_and_tangents(theta + sign * step)[0] for sign in (1, -1))
        np.testing.assert_allclose(tangent, (ahead - behind) / (2 * h), atol=1e-9)


@pytest.mark.parametrize(("n_qubits", "layers"), SIZES)
def test_shift_distributions_equal_the_distributions_of_the_batch(n_qubits, layers):
    circuit = HardwareEfficientCircuit(n_qubits, layers)
    theta = angles(circuit, 3)
    shifts, P = circuit.shifts(theta), circuit.n_parameters
    assert shifts.shape == (2 * P + 1, P)
    np.testing.assert_array_equal(shifts[0], theta)
    short = circuit.shift_distributions(theta)
    np.testing.assert_allclose(short, circuit.distribution(shifts), atol=1e-13)
    # Half the difference of a pair is the derivative.
    h = 1e-6 * np.eye(P)
    numeric = (circuit.distribution(theta + h) - circuit.distribution(theta - h)) / 2e-6
    np.testing.assert_allclose(0.5 * (short[1 : P + 1] - short[P + 1 :]), numeric, atol=1e-9)


def test_the_emulator_gives_a_batch_the_distributions_of_its_rows():
    circuit = HardwareEfficientCircuit(3, 2)
    theta, device = angles(circuit, 4), make_device("emulator")
    batch = circuit.shifts(theta, again=5)
    np.testing.assert_array_equal(batch, np.concatenate([np.tile(theta, (5, 1)), circuit.shifts(theta)]))
    other = batch.copy()
    other[-1] += 0.1  # an ordinary batch, computed row by row
    for values in (batch, other):
        np.testing.assert_allclose(
            device.submit(circuit, values).result().probabilities, circuit.distribution(values), atol=1e-13
        )


def test_gates():
    circuit = HardwareEfficientCircuit(4, 3)
    operations = circuit.build().count_ops()
    assert dict(operations) == {"ry": 16, "cx": 9}
    assert circuit.name == "hardware-efficient_q4_l3"
    assert HardwareEfficientCircuit(4, 2) != circuit


def test_cx_reaches_every_direction_and_cz_would_not():
    """With CX the tangents span all directions; with CZ only q(q+1)/2, for any number of layers."""
    from qiskit import QuantumCircuit
    from qiskit.quantum_info import Statevector

    q, layers = 3, 8

    def tangents(entangler):
        rng = np.random.default_rng(5)
        theta, h = rng.uniform(-3, 3, (layers + 1, q)), 1e-5

        def state(theta):
            circuit = QuantumCircuit(q)
            for layer, row in enumerate(theta):
                if layer:
                    for k in range(q - 1):
                        getattr(circuit, entangler)(k, k + 1)
                for k, angle in enumerate(row):
                    circuit.ry(angle, k)
            return Statevector(circuit).data.real

        shifts = h * np.eye(theta.size).reshape(-1, *theta.shape)
        return np.array([(state(theta + s) - state(theta - s)) / (2 * h) for s in shifts])

    assert np.linalg.matrix_rank(tangents("cx"), tol=1e-6) == 2**q - 1
    assert np.linalg.matrix_rank(tangents("cz"), tol=1e-6) == q * (q + 1) // 2


@pytest.mark.parametrize("layers", [-1, 1.0, True])
def test_bad_layers(layers):
    with pytest.raises(ProblemError, match="layers"):
        HardwareEfficientCircuit(2, layers)


# --- the flow ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "C"), covering([2, 5, 16, 23, 64], [1.0, 10.0, None], together=1))
def test_exact_mode_reaches_the_optimum(n, C):
    problem = moons(n, C)
    solution = dualflow.solve(problem, "variational-flow", device="emulator", **ANSATZ)
    assert solution.status is dualflow.Status.OPTIMAL
    assert abs(excess(problem, solution.raw_alpha)) < 1e-6
    assert solution.raw_alpha.min() >= 0
    assert solution.raw_alpha.sum() == pytest.approx(problem.d, abs=1e-12)
    P = solution.provenance["angles"]
    assert 1.25 * n <= P
    assert solution.cost.circuits == (2 * P + 1) * (solution.cost.steps + 1)
    np.testing.assert_allclose(solution.extras["parameter_alpha"], solution.raw_alpha, atol=1e-12)
    assert ("mod" in solution.provenance["padding"]) == (n != 2**solution.cost.qubits)


@pytest.mark.parametrize("device", ["aer", "pennylane:default.qubit", "pennylane:lightning.qubit"])
@pytest.mark.parametrize("problem", [moons(8, 10.0), moons(5, None)], ids=["p=0", "padded svdd"])
def test_every_exact_device_takes_the_same_path(device, problem):
    ours, theirs = (
        dualflow.solve(problem, "variational-flow", device=d, trajectory=True, **ANSATZ) for d in ("emulator", device)
    )
    assert ours.status is dualflow.Status.OPTIMAL
    assert len(ours.trajectory.t) == len(theirs.trajectory.t)
    np.testing.assert_allclose(theirs.trajectory.alpha, ours.trajectory.alpha, atol=1e-9)


def test_fewer_angles_than_points_end_above_the_optimum_and_report_it():
    problem = moons(32, 1.0)
    few, many = (
        dualflow.solve(problem, "variational-flow", device="emulator", layers=layers, max_steps=150, **ANSATZ)
        for layers in (1, 8)
    )
    assert few.provenance["angles"] == 10
    assert few.status is not dualflow.Status.OPTIMAL
    assert few.raw_certificate.relative_gap > 1e-2
    assert few.raw_certificate.gap >= problem.objective(few.raw_alpha) - many.certificate.objective
    assert many.status is dualflow.Status.OPTIMAL


def reference_step(problem, circuit, theta, h):
    """δ from the full P × P system by its pseudo-inverse."""
    shifted = circuit.shift_distributions(theta)
    pi, dP = shifted[0], 0.5 * (shifted[1 : len(theta) + 1] - shifted[len(theta) + 1 :]).T
    E = problem.dense() @ pi - problem.p
    E = E - pi @ E
    M = dP.T @ np.diag((1 / h + np.maximum(E, 0) / 2) / pi) @ dP + dP.T @ problem.dense() @ dP
    return -np.linalg.pinv(M, rcond=1e-9) @ dP.T @ E


@pytest.mark.parametrize("layers", [1, 4], ids=["fewer angles", "more angles"])
def test_the_step_solves_the_stated_system(layers):
    problem, solver = moons(8, None), VariationalFlow("emulator", layers=layers, **ANSATZ)
    context = solver.open(problem, Workspace(problem))
    state = dataclasses.replace(solver.start(context, np.random.default_rng(0)), h=0.05)
    expected = reference_step(problem, HardwareEfficientCircuit(3, layers), state.theta, 0.05)
    after = solver.step(context, state)
    assert 0.001 < np.abs(expected).max() < 0.8
    np.testing.assert_allclose(after.theta - state.theta, expected, atol=1e-7)


@pytest.mark.parametrize(("n", "C"), often([(12, 10.0), (12, None), (32, 10.0), (32, None)], (12, 10.0)))
def test_measured_answers_are_at_the_shot_floor(n, C):
    problem, shots = moons(n, C), 10_000
    best = np.maximum(dualflow.solve(problem, "cvxopt", tol=1e-9).alpha, 0)
    draws = [np.random.default_rng(s).multinomial(shots, best / best.sum()) / shots for s in range(50)]
    floor = np.median([excess(problem, draw) for draw in draws])
    runs = [
        dualflow.solve(problem, "variational-flow", device="emulator", shots=shots, random_state=s, **ANSATZ)
        for s in range(9)
    ]
    assert np.median([excess(problem, run.raw_alpha) for run in runs]) <= 3 * floor
    P = runs[0].provenance["angles"]
    assert runs[0].cost.circuits == 41 * (3 * P + 1)
    assert runs[0].cost.shots == runs[0].cost.circuits * shots
    # Measured: the mean of the second half of 40 steps, each of which runs the state P + 1 times.
    counts = 20 * (HardwareEfficientAnsatz(problem.n).circuit.n_parameters + 1) * shots * runs[0].raw_alpha
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-6)
    null = dualflow.solve(problem, "variational-flow", device="null", shots=shots, **ANSATZ)
    assert excess(problem, null.raw_alpha) >= 10 * floor


def test_repeats_of_the_state_are_averaged():
    ansatz = HardwareEfficientAnsatz(6)
    P = ansatz.circuit.n_parameters
    assert ansatz.circuits_a_step(True) == 2 * P + 1
    assert ansatz.circuits_a_step(False) == 3 * P + 1
    rng = np.random.default_rng(0)
    distributions = rng.dirichlet(np.ones(8), 3 * P + 1)
    fold = distributions[:, :6] + np.pad(distributions[:, 6:], ((0, 0), (0, 4)))
    np.testing.assert_allclose(ansatz.measured(distributions), fold[: P + 1].mean(axis=0))
    np.testing.assert_allclose(ansatz.measured(distributions[0]), fold[0])
    np.testing.assert_allclose(ansatz.measured_normalised(distributions), fold[: P + 1].mean(axis=0))
    mu, dP = ansatz.tangents(distributions, 100)
    np.testing.assert_allclose(mu, fold[: P + 1].mean(axis=0))
    np.testing.assert_allclose(dP.T, 0.5 * (fold[P + 1 : 2 * P + 1] - fold[2 * P + 1 :]))


def test_arguments_that_raise_errors():
    problem = moons(8, 1.0)
    with pytest.raises(ProblemError, match="warm: ansatz='hardware-efficient' cannot be started"):
        dualflow.solve(problem, "variational-flow", device="emulator", warm=np.full(8, 0.125), **ANSATZ)
    X = np.random.default_rng(0).normal(size=(1400, 2))
    with pytest.raises(SolverMismatch, match=r"at most 1600 angles, and 1400 variables need 17\d\d; set fewer"):
        dualflow.solve(dualflow.problems.svdd(Gram(X)), "variational-flow", **ANSATZ)


def test_adaptive_shots_do_not_follow_expected_decreases_that_are_noise():
    """With few shots the tangents predict decreases that are noise: the step must not grow before the shots do."""
    problem = moons(64, None)
    run = dualflow.solve(
        problem, "variational-flow", device="emulator", shots="adaptive", shot_budget=40_000_000, **ANSATZ
    )
    null = dualflow.solve(problem, "variational-flow", device="null", shots=10_000, steps=2, **ANSATZ)
    assert run.cost.shots <= 40_000_000
    assert excess(problem, run.extras["parameter_alpha"]) < 0.02 * excess(problem, null.raw_alpha)
