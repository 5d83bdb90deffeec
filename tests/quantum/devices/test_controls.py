"""The controls: their distributions, exact and with shots, and that no state is kept from call to call."""

from __future__ import annotations

import itertools
import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import dualflow
from dualflow.exceptions import DeviceError, ProblemError
from dualflow.quantum.circuits.anneal import AnnealCircuit
from dualflow.quantum.circuits.qhd import QHDCircuit
from dualflow.quantum.circuits.tree import TreeCircuit
from dualflow.quantum.devices import list_devices, make_device
from dualflow.quantum.devices.controls import PermutedDevice

CONTROLS = ("control:random", "control:permuted", "control:shuffled", "control:corner", "control:field")
CIRCUIT = AnnealCircuit(3, 4, 3.0)
THETA = np.random.default_rng(5).normal(size=(6, CIRCUIT.n_parameters))


def run(name, theta=THETA, shots=None, seed=7, circuit=CIRCUIT):
    device = make_device(name) if isinstance(name, str) else name
    return device.submit(circuit, theta, shots, seed=seed).result()


def test_all_are_listed_as_controls():
    rows = {info.name: info for info in list_devices()}
    for name in CONTROLS:
        assert rows[name].control
        assert rows[name].exact
        assert rows[name].sampled
        assert rows[name].summary.startswith("Control:")
        resources = make_device(name).resources(CIRCUIT)
        assert (resources.depth, resources.two_qubit_gates) == (0, 0)


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("shots", [None, 500])
def test_the_same_seed_gives_the_same_result_after_any_other_batch(name, shots):
    device = make_device(name)
    first = run(device, shots=shots)
    run(device, THETA[:2], shots, seed=99)
    for other in (device, make_device(name), pickle.loads(pickle.dumps(device))):
        np.testing.assert_array_equal(run(other, shots=shots).probabilities, first.probabilities)
    np.testing.assert_allclose(first.probabilities.sum(axis=1), 1.0, atol=1e-12)
    if shots:
        assert (first.counts.sum(axis=1) == shots).all()


@pytest.mark.parametrize("name", CONTROLS)
def test_one_binding_is_one_distribution(name):
    assert run(name, THETA[0]).probabilities.shape == (8,)
    assert run(name, THETA[:1]).probabilities.shape == (1, 8)


def test_random_is_one_bit_string_for_each_circuit_and_all_angles():
    found = run("control:random").probabilities
    assert (found.max(axis=1) == 1.0).all()
    np.testing.assert_array_equal(run("control:random", -3 * THETA).probabilities, found)
    other = TreeCircuit(3)
    np.testing.assert_array_equal(
        run("control:random", np.zeros((6, other.n_parameters)), circuit=other).probabilities, found
    )
    np.testing.assert_array_equal(run("control:random", shots=50).counts, 50 * found)
    # Over many circuits all strings are equally frequent.
    many = run("control:random", np.zeros((8000, CIRCUIT.n_parameters))).probabilities.sum(axis=0)
    assert np.abs(many - 1000).max() < 6 * np.sqrt(1000)
    assert not np.array_equal(run("control:random", seed=8).probabilities, found)


def test_permuted_keeps_the_probabilities_and_loses_their_order():
    ideal, found = (run(name).probabilities for name in ("emulator", "control:permuted"))
    np.testing.assert_array_equal(np.sort(found, axis=1), np.sort(ideal, axis=1))
    assert np.abs(found - ideal).max() > 1e-3
    orders = {tuple(np.argsort(b)[np.argsort(np.argsort(a))]) for a, b in zip(ideal, found, strict=True)}
    assert len(orders) == 1  # the probabilities of an anneal are all different
    # There is one permutation for each width and seed; another seed has another permutation and another name.
    other = PermutedDevice(3)
    assert other.name == "control:permuted(seed=3)"
    assert not np.array_equal(run(other).probabilities, found)
    np.testing.assert_array_equal(run("control:permuted", seed=99).probabilities, found)
    with pytest.raises(ProblemError, match="seed"):
        PermutedDevice(-1)


def test_shuffled_angles_are_a_permutation_of_the_angles():
    found = run("control:shuffled", THETA[:, :]).probabilities
    assert np.abs(found - run("emulator").probabilities).max() > 1e-3
    small = AnnealCircuit(2, 3, 2.0)
    theta = np.array([[0.3, -1.0, 2.0]])
    possible = [run("emulator", [p], circuit=small).probabilities[0] for p in itertools.permutations(theta[0])]
    for seed in range(5):
        (one,) = run("control:shuffled", theta, seed=seed, circuit=small).probabilities
        assert min(np.abs(one - p).max() for p in possible) < 1e-12
    np.testing.assert_array_equal(theta, [[0.3, -1.0, 2.0]])
    equal = run("control:shuffled", np.tile(THETA[:1], (20, 1))).probabilities
    assert len(np.unique(equal.round(9), axis=0)) > 5  # each circuit's own


def energy(bits, theta):
    z, q = 1.0 - 2.0 * np.asarray(bits), len(bits)
    pairs = list(itertools.combinations(range(q), 2))
    return theta[:q] @ z + sum(J * z[k] * z[m] for J, (k, m) in zip(theta[q:], pairs, strict=True))


@pytest.mark.parametrize("circuit", [AnnealCircuit(4, 2, 2.0), QHDCircuit(4, 2, 2.0, bits=2)])
def test_corner_is_the_lowest_energy_of_all(circuit):
    theta = np.random.default_rng(1).normal(size=(10, circuit.n_parameters))
    found = run("control:corner", theta, circuit=circuit).probabilities
    for row, angles in zip(found, theta, strict=True):
        energies = [energy([(i >> k) & 1 for k in range(4)], angles) for i in range(16)]
        assert row[int(np.argmin(energies))] == 1.0


def test_field_is_the_sign_of_each_local_field():
    theta = np.array([[1.0, -2.0, 0.0, 9.0, 9.0, 9.0]])
    (found,) = run("control:field", theta).probabilities
    # Energy hZ, Z = 1 − 2 bit: the minimum has 1 on qubit 0, 0 on qubit 1, and either value on qubit 2.
    expected = np.zeros(8)
    expected[[0b001, 0b101]] = 0.5
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["control:corner", "control:field"])
def test_circuits_without_ising_angles_are_refused(name):
    with pytest.raises(DeviceError, match=r"tree_q3.*hamiltonian-descent.*control:random"):
        make_device(name).submit(TreeCircuit(3), np.zeros(7))


@pytest.mark.parametrize("name", CONTROLS)
@pytest.mark.parametrize("shots", [None, 200])
def test_a_solver_takes_them_as_any_device(name, shots):
    X = np.random.default_rng(0).normal(size=(8, 2))
    problem = dualflow.problems.svc(dualflow.Gram(X), np.tile([1, -1], 4), 1.0)
    runs = [
        dualflow.solve(problem, "hamiltonian-adiabatic", device=name, shots=shots, max_steps=3, random_state=s)
        for s in (0, 0)
    ]
    np.testing.assert_array_equal(runs[0].raw_alpha, runs[1].raw_alpha)
    assert runs[0].provenance["device"] == name


@pytest.mark.parametrize("seed", range(4))
def test_outcomes_of_probability_zero_do_not_end_a_run(seed):
    """Padding of probability 0 is permuted onto variables, whose weights 1/μ overflow float64."""
    X = np.random.default_rng(0).normal(size=(10, 2))
    problem = dualflow.problems.svc(dualflow.Gram(X), np.tile([1, -1], 5), 1.0, loss="squared_hinge")
    found = dualflow.solve(problem, "variational-flow", device=PermutedDevice(seed), max_steps=6, random_state=0)
    assert np.isfinite(found.raw_alpha).all()


@pytest.mark.parametrize("name", ["control:random", "control:permuted", "control:shuffled", "null"])
@pytest.mark.parametrize("shots", [None, 300])
@pytest.mark.parametrize("solver", ["variational-lotka-volterra", "hamiltonian-descent"])
def test_a_run_on_a_control_goes_on_after_a_kill(name, shots, solver, tmp_path):
    X = np.random.default_rng(0).normal(size=(8, 2))
    problem = dualflow.problems.svc(dualflow.Gram(X), np.tile([1, -1], 4), 1.0)
    run = {"device": name, "shots": shots, "tol": 1e-12, "random_state": 3}
    whole = dualflow.solve(problem, solver, max_steps=5, **run)
    dualflow.solve(problem, solver, max_steps=2, checkpoint=tmp_path / "run.npz", **run)
    rest = dualflow.solve(problem, solver, max_steps=5, checkpoint=tmp_path / "run.npz", **run)
    np.testing.assert_array_equal(rest.raw_alpha, whole.raw_alpha)
    for _ in range(2):
        kept = dualflow.solve(problem, solver, max_steps=5, journal=tmp_path / "jobs.db", **run)
        np.testing.assert_array_equal(kept.raw_alpha, whole.raw_alpha)


def test_a_solver_on_a_control_is_pickled_cloned_and_saved(tmp_path):
    X = np.random.default_rng(0).normal(size=(8, 2))
    options = {"device": "control:permuted", "shots": 200}
    model = dualflow.SVC(loss="squared_hinge", solver="variational-flow", solver_options=options, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fitted = model.set_params(max_steps=3).fit(X, np.tile([1, -1], 4))
        again = clone(fitted).fit(X, np.tile([1, -1], 4))
    for other in (again, pickle.loads(pickle.dumps(fitted))):
        np.testing.assert_array_equal(other.solution_.raw_alpha, fitted.solution_.raw_alpha)
    fitted.save(tmp_path / "model.dualflow")
    assert dualflow.load(tmp_path / "model.dualflow").solution_.provenance["device"] == "control:permuted"
