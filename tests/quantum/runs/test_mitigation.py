"""Read-out error mitigation: exact for a known confusion, near the shot floor on a noisy simulator."""

import dataclasses
import importlib.util

import numpy as np
import pytest
from sklearn.datasets import make_moons

import dualflow
from dualflow import DeviceError, ProblemError, SolverUnavailable, VariationalFlow
from dualflow.quantum.circuits import AncillaCircuit, CalibrationCircuit, HardwareEfficientCircuit, TreeCircuit
from dualflow.quantum.devices import Noise, Readout, make_device
from dualflow.quantum.devices.aer import AerDevice
from dualflow.quantum.devices.confusion import apply_tensored
from dualflow.quantum.runs import mitigation
from dualflow.quantum.runs.laboratory import Account, Laboratory

SHOTS = 10_000
CONFUSION = np.array([[[0.98, 0.07], [0.02, 0.93]], [[0.9, 0.04], [0.1, 0.96]], [[0.99, 0.01], [0.01, 0.99]]])


def readout(distribution, shots=None):
    counts = None if shots is None else np.random.default_rng(0).multinomial(shots, distribution)
    return Readout(distribution if counts is None else counts / shots, counts, shots, "little", "id")


def svdd(n=16):
    X, _ = make_moons(n, noise=0.15, random_state=0)
    return dualflow.problems.svdd(dualflow.Gram(X, gamma=1.0))


def optimum(problem):
    alpha = np.maximum(dualflow.solve(problem, "cvxopt", tol=1e-9).alpha, 0)
    return alpha / alpha.sum()


def gap(problem, alpha, best):
    return dualflow.certify(problem, alpha).relative_gap


def excess(problem, alpha, best):
    f = problem.objective(best)
    return (problem.objective(problem.project(alpha)) - f) / abs(f)


def test_the_calibration_circuit_prepares_all_zeros_and_all_ones():
    theta = [*CalibrationCircuit(3).all_zeros_and_ones(), [0.4, 0.9, 2.0]]
    for name in ("emulator", "aer", "pennylane:default.qubit"):
        found = make_device(name).submit(CalibrationCircuit(3), theta).result().probabilities
        np.testing.assert_allclose(found[:2], np.eye(8)[[0, 7]], atol=1e-15)
        low, mid, high = ([np.cos(half) ** 2, np.sin(half) ** 2] for half in (0.2, 0.45, 1.0))
        np.testing.assert_allclose(found[2], np.kron(np.kron(high, mid), low), atol=1e-15)


def test_confusion_is_measured_and_inverted():
    prepared = CalibrationCircuit(3).distribution(CalibrationCircuit(3).all_zeros_and_ones())
    found = mitigation.confusion_matrices(apply_tensored(CONFUSION, prepared), 1000)
    np.testing.assert_allclose(found, CONFUSION, atol=1e-15)
    ideal = np.random.default_rng(0).dirichlet(np.ones(8), 5)
    read = apply_tensored(CONFUSION, ideal)
    assert np.abs(read - ideal).max() > 0.02
    np.testing.assert_allclose(mitigation.mitigate("confusion", readout(read), found), ideal, atol=1e-14)
    np.testing.assert_allclose(mitigation.mitigate("confusion", readout(read[0]), found), ideal[0], atol=1e-14)


def test_the_overhead_is_the_norm_of_the_dense_inverse():
    dense = np.kron(np.kron(CONFUSION[2], CONFUSION[1]), CONFUSION[0])
    assert mitigation.overhead(CONFUSION) == pytest.approx(np.abs(np.linalg.inv(dense)).sum(axis=0).max() ** 2)


def test_the_device_is_calibrated_once_and_the_circuits_are_counted():
    noise = Noise(0.0, (0.02, 0.08))
    lab, circuit = Laboratory(AerDevice(noise), "test", "confusion"), TreeCircuit(2)
    account = Account.opened(np.random.default_rng(0))
    theta = np.full((3, 3), 1.3)
    distributions, booked = lab.measure(account, circuit, theta, 500)
    assert (booked.circuits, booked.shots) == (5, 2 * mitigation.CALIBRATION_SHOTS + 3 * 500)
    assert len(booked.job_ids) == 2
    assert account.circuits == 0
    assert account.calibrations == {}
    np.testing.assert_allclose(distributions.sum(axis=1), 1.0)
    (factors,) = booked.calibrations.values()
    spread = np.sqrt(0.08 * 0.92 / mitigation.CALIBRATION_SHOTS)
    np.testing.assert_allclose(factors, [noise.confusion] * 2, atol=5 * spread)
    _, again = lab.measure(booked, circuit, theta, 500)
    assert again.circuits == 8
    assert lab.effective_shots(again, circuit, 500) == 500 / mitigation.overhead(factors)
    # Another circuit may use other qubits.
    assert lab.measure(again, TreeCircuit(3), np.ones(7), 20_000)[1].shots == again.shots + 3 * 20_000


def test_many_mitigated_shots_give_the_ideal_distribution():
    circuit, theta = TreeCircuit(3), np.random.default_rng(3).uniform(0.7, np.pi - 0.7, 7)
    shots, device = 10_000_000, AerDevice(Noise(0.0, 0.05))
    ideal, account = circuit.distribution(theta), Account.opened(np.random.default_rng(1))
    found, account = Laboratory(device, "test", "confusion").measure(account, circuit, theta, shots)
    plain, _ = Laboratory(device, "test").measure(account, circuit, theta, shots)
    # Shots of the circuit and of the calibration, each of its six numbers off by √(0.05·0.95/S) at most.
    sigma = np.sqrt(mitigation.overhead(next(iter(account.calibrations.values()))) / shots) + 6 * np.sqrt(0.05 / shots)
    assert np.abs(found - ideal).max() < 5 * sigma < 0.3 * np.abs(plain - ideal).max()


def test_sampled_answers_with_noise_are_within_five_times_the_floor():
    """Depolarising 1e-3, 1 % read-out errors, n = 16, 10 000 shots a circuit, 40 steps, median of 10 seeds."""
    problem = svdd()
    best = optimum(problem)
    draws = [np.random.default_rng(seed).multinomial(SHOTS, best) / SHOTS for seed in range(50)]

    def median(measure, alphas):
        return np.median([measure(problem, alpha, best) for alpha in alphas])

    found = {}
    for method in (None, "confusion"):
        solver = VariationalFlow("aer:noisy", SHOTS, mitigation=method)
        runs = [dualflow.solve(problem, solver, random_state=seed) for seed in range(10)]
        found[method] = [run.raw_alpha for run in runs]
        assert {run.provenance["mitigation"] for run in runs} == {method}
        assert runs[0].cost.circuits == (41 if method is None else 43)
    for measure in (gap, excess):
        assert median(measure, found["confusion"]) <= 5 * median(measure, draws)
    assert median(excess, found[None]) > 2 * median(excess, found["confusion"])


@pytest.mark.parametrize("circuit", [TreeCircuit(1), TreeCircuit(3), AncillaCircuit(2), AncillaCircuit(4)], ids=str)
def test_the_ends_of_a_circuit_prepare_all_0_and_all_1(circuit):
    angles, qubits = circuit.ends
    for device in ("emulator", "aer"):
        found = make_device(device).submit(circuit, angles).result().probabilities
        bits = (np.arange(2**circuit.n_qubits)[:, None] >> np.array(qubits)) & 1
        np.testing.assert_allclose(found @ bits, [[0] * len(qubits), [1] * len(qubits)], atol=1e-14)
    assert HardwareEfficientCircuit(2, 1).ends is None


@pytest.mark.parametrize(
    ("circuit", "calibrating", "share"),
    [(TreeCircuit(3), 2, 0.75), (AncillaCircuit(4), 4, 0.5)],
    ids=["tree", "ancilla"],
)
def test_a_circuit_at_its_ends_shows_the_errors_of_its_gates(circuit, calibrating, share):
    """Depolarising 1e-2 on two-qubit gates, 2 % read-out errors: the remaining error relative to "confusion"."""
    points = np.random.default_rng(3).uniform(0.3, np.pi - 0.3, (10, circuit.n_parameters))
    ideal, left, shots = circuit.distribution(points), {}, 200_000
    for method in ("confusion", "circuit"):
        lab = Laboratory(AerDevice(Noise(1e-2, 0.02)), "test", method)
        found, account = lab.measure(Account.opened(np.random.default_rng(1)), circuit, points, shots)
        left[method] = np.sqrt(np.mean((found - ideal) ** 2))
        assert account.circuits == 10 + (2 if method == "confusion" else calibrating)
        assert lab.preparation(circuit, shots) == (account.circuits - 10) * shots
    assert left["circuit"] < share * left["confusion"]


@pytest.mark.parametrize(("name", "calibrating"), [("variational-flow", 2), ("hamiltonian-dilation", 4)])
def test_calibrations_by_the_circuit_are_forecast_and_kept(tmp_path, name, calibrating):
    problem, run = svdd(4), {"shots": 500, "steps": 6, "mitigation": "circuit", "device": "aer:noisy"}
    whole = dualflow.solve(problem, name, random_state=0, **run)
    assert (whole.cost.circuits, whole.cost.shots) == (calibrating + 7, calibrating * 10_000 + 7 * 500)
    said = dualflow.estimate(problem, name, **run)
    assert (said.circuits, said.shots) == (whole.cost.circuits, whole.cost.shots)
    files = {"checkpoint": tmp_path / "run.npz", "journal": tmp_path / "jobs.db"}
    dualflow.solve(problem, name, random_state=0, max_steps=3, **run, **files)
    rest = dualflow.solve(problem, name, random_state=0, **run, **files)
    np.testing.assert_array_equal(rest.raw_alpha, whole.raw_alpha)
    with pytest.raises(ProblemError, match="does not hold"):
        dualflow.solve(problem, name, shot_budget=calibrating * 10_000 + 499, **run)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("variational-flow", {"ansatz": "hardware-efficient"}),
        ("hamiltonian-lchs", {"ancillas": 4}),
        ("hamiltonian-descent", {"block": 2}),
    ],
)
def test_circuits_without_ends_do_not_allow_mitigation_by_the_circuit(name, options):
    problem = svdd(4)
    if name == "hamiltonian-descent":
        X, t = make_moons(4, noise=0.15, random_state=0)
        problem = dualflow.problems.svc(dualflow.Gram(X), 2.0 * t - 1, 1.0)
    with pytest.raises(ProblemError, match="has no known angles for that; use mitigation='confusion'"):
        dualflow.solve(problem, name, device="emulator", shots=100, mitigation="circuit", **options)


def test_a_calibration_survives_a_checkpoint(tmp_path):
    problem, solver = svdd(), VariationalFlow("aer:noisy", 500, steps=6, mitigation="confusion")
    whole = dualflow.solve(problem, solver)
    dualflow.solve(problem, solver, checkpoint=tmp_path / "run.npz", max_steps=3)
    rest = dualflow.solve(problem, solver, checkpoint=tmp_path / "run.npz")
    np.testing.assert_array_equal(rest.raw_alpha, whole.raw_alpha)
    assert (rest.cost.circuits, rest.cost.shots) == (whole.cost.circuits, whole.cost.shots) == (9, 20_000 + 7 * 500)


def test_a_device_with_singular_confusion_cannot_be_mitigated():
    with pytest.raises(DeviceError, match=r"qubit 0 reads 1 with probability 0\.\d+ .* singular"):
        dualflow.solve(svdd(), "variational-flow", device="null", shots=1000, mitigation="confusion")
    with pytest.raises(DeviceError, match="singular"):
        mitigation.confusion_matrices(np.array([[1.0, 0], [1, 0]]), 10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mitigation": "confusion"}, r"needs shots; set shots"),
        ({"mitigation": "zne", "shots": 10}, r"'zne' is not one of 'confusion', 'mthree', 'circuit'"),
        ({"mitigation": "confusion", "shots": 10, "shot_budget": 20_009}, r"does not hold the calibration .*20000"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ProblemError, match=message):
        VariationalFlow(**options)
    VariationalFlow(mitigation="confusion", shots=10, shot_budget=20_010)


def test_mthree_missing_gives_the_pip_line(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "mthree" else find_spec(name))
    with pytest.raises(SolverUnavailable, match=r"pip install 'dualflow\[mitigation\]'"):
        dualflow.solve(svdd(), "variational-flow", device="emulator", shots=100, mitigation="mthree")


def test_mthree_agrees_where_every_outcome_was_seen():
    pytest.importorskip("mthree")
    read = apply_tensored(CONFUSION, np.random.default_rng(0).dirichlet(np.full(8, 5.0)))
    measured = readout(read, SHOTS)
    assert (measured.counts > 0).all()
    ours = mitigation.mitigate("confusion", measured, CONFUSION)
    np.testing.assert_allclose(mitigation.mitigate("mthree", measured, CONFUSION), ours, atol=1e-5)
    batch = dataclasses.replace(measured, counts=np.array([measured.counts, SHOTS * np.eye(8, dtype=int)[5]]))
    found = mitigation.mitigate("mthree", batch, CONFUSION)
    np.testing.assert_allclose(found[0], ours, atol=1e-5)
    np.testing.assert_array_equal(found[1], np.eye(8)[5])


def test_a_solver_runs_with_mthree():
    pytest.importorskip("mthree")
    problem = svdd()
    solution = dualflow.solve(problem, "variational-flow", device="aer:noisy", shots=SHOTS, mitigation="mthree")
    assert solution.provenance["mitigation"] == "mthree"
    assert excess(problem, solution.raw_alpha, optimum(problem)) < 0.02
