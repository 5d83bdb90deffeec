"""Shots drawn from exact probabilities follow the simulator's own; objects of the user draw their own."""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.stats

from dualflow import DeviceError, Gram, SolverUnavailable, problems, solve
from dualflow.quantum.circuits import HardwareEfficientCircuit, ParametricCircuit, TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.devices import pennylane as pennylane_module
from dualflow.quantum.devices.assembled import assembled
from tests.combinations import often

SHOTS, SEEDS = 100_000, range(7)
CIRCUIT = TreeCircuit(4)
THETA = np.random.default_rng(4).uniform(0.7, np.pi - 0.7, (2, 15))
#: Least p-value of the 14 comparisons of a device: one false alarm in 7000 runs of this file with other seeds.
MIN_P_VALUE = 1e-5
DRAWN = ("aer", "aer:mps", "aer:noisy", "pennylane:lightning.qubit", "pennylane:default.qubit")


@dataclass(frozen=True)
class ProductTree(ParametricCircuit):
    """The tree of 8 levels on the 8 highest qubits, and a level of one shared angle on each of the others."""

    family: ClassVar[str] = "product-tree"

    @property
    def n_parameters(self):
        return 255 + self.n_qubits - 8

    def _build(self):
        from qiskit import QuantumCircuit

        angles, circuit = self.parameters("phi"), QuantumCircuit(self.n_qubits)
        tree = TreeCircuit(8).build()
        circuit.compose(
            tree.assign_parameters(dict(zip(tree.parameters, angles[:255], strict=True))),
            range(self.n_qubits - 8, self.n_qubits),
            inplace=True,
        )
        for k, angle in enumerate(angles[255:]):
            circuit.ry(angle, k)
        return circuit

    def gate_parameters(self, theta):
        theta = self.check_parameters(theta)
        return np.concatenate([TreeCircuit(8).gate_parameters(theta[..., :255]), theta[..., 255:]], axis=-1)

    def distribution(self, theta):
        theta = np.asarray(theta)
        found = TreeCircuit(8).distribution(theta[:255])
        for angle in theta[255:][::-1]:
            found = np.outer(found, [np.cos(angle / 2) ** 2, np.sin(angle / 2) ** 2]).ravel()
        return found


def own_counts(device, seed):
    """Return the simulator's own counts, shape (2, 16)."""
    if device.name.startswith("pennylane:"):
        return device._taped(CIRCUIT, THETA, SHOTS, seed)[1]
    result = device._simulate(CIRCUIT, THETA, "measured", shots=SHOTS, seed_simulator=seed)
    counts = np.zeros((2, 16), dtype=int)
    for row, found in zip(counts, (result.data(i)["counts"] for i in range(2)), strict=True):
        for outcome, number in found.items():
            row[int(outcome, 16)] = number
    return counts


@pytest.mark.parametrize("name", often(DRAWN, *(name for name in DRAWN if name != "aer:mps")))
def test_draws_have_the_distribution_of_the_simulator_s_own_shots(name):
    device, expected = make_device(name), SHOTS * CIRCUIT.distribution(THETA)
    if device.capabilities.noisy:  # Aer's own counts below are the independent reference
        expected = SHOTS * device.submit(CIRCUIT, THETA).result().probabilities
    for seed in SEEDS:
        drawn = device.submit(CIRCUIT, THETA, SHOTS, seed=seed).result().counts
        # Aer takes 8 s for the shots of its matrix product state: they are compared at one seed.
        own = own_counts(device, seed + 100) if name != "aer:mps" or seed == 0 else drawn
        for row, theirs, mean in zip(drawn, own, expected, strict=True):
            assert scipy.stats.chisquare(row, mean).pvalue > MIN_P_VALUE
            assert scipy.stats.chi2_contingency([row, theirs]).pvalue > MIN_P_VALUE


@pytest.mark.parametrize("name", DRAWN)
def test_the_stream_is_one_multinomial_generator_of_the_batch_s_seed(name):
    device = make_device(name)
    exact = device.submit(CIRCUIT, THETA).result().probabilities
    counts = device.submit(CIRCUIT, THETA, 500, seed=3).result().counts
    exact = exact / exact.sum(axis=1, keepdims=True)
    np.testing.assert_array_equal(counts, np.random.default_rng(3).multinomial(500, exact))


def test_a_simulator_of_the_user_draws_its_own_shots():
    from qiskit_aer import AerSimulator

    simulator = AerSimulator(method="statevector")
    counts = make_device(simulator).submit(CIRCUIT, THETA[0], 500, seed=3).result().counts
    circuit = CIRCUIT.build().measure_all(inplace=False)
    bound = circuit.assign_parameters(CIRCUIT.gate_parameters(THETA[0]))
    theirs = simulator.run(bound, shots=500, seed_simulator=3).result().get_counts()
    assert {k: int(v) for k, v in enumerate(counts) if v} == {int(key, 2): value for key, value in theirs.items()}
    assert make_device(simulator).drawing == "by the simulator's own run"


def test_a_pennylane_device_of_the_user_draws_its_own_shots(monkeypatch):
    import pennylane

    taped = []
    run = pennylane_module.PennyLaneDevice._taped
    monkeypatch.setattr(
        pennylane_module.PennyLaneDevice, "_taped", lambda *args: taped.append(args[3]) or run(*args), raising=True
    )
    make_device(pennylane.device("default.qubit", wires=4, seed=1)).submit(CIRCUIT, THETA[0], 50, seed=3)
    assert taped == [50]


@pytest.mark.parametrize("circuit", [TreeCircuit(3), HardwareEfficientCircuit(3, 2)], ids=["tree", "layers"])
@pytest.mark.parametrize("rows", [1, 5])
def test_an_assembled_circuit_equals_aer_s_run(circuit, rows, monkeypatch):
    theta = np.random.default_rng(rows).uniform(0, np.pi, (rows, circuit.n_parameters))
    device = make_device("aer")
    assert device.compiled(circuit)["native"] is not None
    found = device.submit(circuit, theta).result().probabilities
    np.testing.assert_allclose(found, circuit.distribution(theta), atol=1e-13)
    # Another version of Aer may lack the functions that convert circuits: its own ``run`` is used.
    monkeypatch.delattr("qiskit_aer.backends.aer_compiler.assemble_circuits")
    assert assembled(device.compiled(circuit)["exact"], device.compiled(circuit)["simulator"]) is None
    monkeypatch.setattr("dualflow.quantum.devices.aer.assembled", lambda *_: None)
    other = make_device("aer")
    assert other.compiled(circuit)["native"] is None
    np.testing.assert_allclose(other.submit(circuit, theta).result().probabilities, found, atol=1e-13)


def test_lightning_equals_its_tapes():
    device = make_device("pennylane:lightning.qubit")
    found = device.submit(CIRCUIT, THETA).result().probabilities
    np.testing.assert_allclose(found, device._taped(CIRCUIT, THETA, None, 0)[0], atol=1e-14)


@pytest.mark.parametrize("q", [2, 6, 10])
def test_matrix_product_states_equal_state_vectors(q):
    circuit = TreeCircuit(q)
    theta = np.random.default_rng(q).uniform(0, np.pi, circuit.n_parameters)
    mps, exact = (make_device(name).submit(circuit, theta).result().probabilities for name in ("aer:mps", "aer"))
    np.testing.assert_allclose(mps, exact, atol=1e-8)


@pytest.mark.parametrize("q", [12, pytest.param(24, marks=pytest.mark.slow)])
def test_matrix_product_states_run_wide_trees(q):
    circuit = ProductTree(q)
    theta = np.random.default_rng(0).uniform(0, np.pi, circuit.n_parameters)
    exact = make_device("aer:mps").submit(circuit, theta).result().probabilities
    np.testing.assert_allclose(exact, circuit.distribution(theta), atol=1e-8)
    counts = make_device("aer:mps").submit(circuit, theta, 20_000, seed=1).result().counts
    # Over the outcomes of the eight highest qubits, which have 256 cells.
    expected = 20_000 * exact.reshape(256, -1).sum(axis=1)
    common = expected > 5
    found = np.append(counts.reshape(256, -1).sum(axis=1)[common], 0)
    found[-1] = 20_000 - found.sum()
    means = np.append(expected[common], expected[~common].sum())
    assert scipy.stats.chisquare(found, means * found.sum() / means.sum()).pvalue > MIN_P_VALUE


def test_devices_that_need_more_say_what():
    with pytest.raises(SolverUnavailable, match=r"aer:gpu.*pip install qiskit-aer-gpu"):
        make_device("aer:gpu")
    with pytest.raises(DeviceError, match=r"lightning\.gpu.*pip install pennylane-lightning-gpu"):
        make_device("pennylane:lightning.gpu")


def test_a_tensor_network_of_pennylane():
    if importlib.util.find_spec("quimb") is None:
        with pytest.raises(DeviceError, match=r"default\.tensor.*pip install quimb"):
            make_device("pennylane:default.tensor")
        return
    device = make_device("pennylane:default.tensor")
    np.testing.assert_allclose(
        device.submit(CIRCUIT, THETA).result().probabilities, CIRCUIT.distribution(THETA), atol=1e-8
    )
    assert device.submit(CIRCUIT, THETA, 100, seed=1).result().counts.sum() == 200


def test_provenance_says_how_shots_were_drawn():
    problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    options = {"device": "aer", "refine": False, "steps": 2, "random_state": 0}
    assert "multinomial" in solve(problem, "variational-flow", shots=100, **options).provenance["shots_drawn"]
    options.pop("steps")
    assert "shots_drawn" not in solve(problem, "variational-flow", **options).provenance


def test_a_run_on_aer_loads_only_what_it_uses():
    code = (
        "import sys, dualflow; from dualflow import Gram, problems, solve; "
        "problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [4.0]], 'rbf', gamma=0.5)); "
        "solve(problem, 'variational-flow', device='aer', refine=False); "
        "print([name for name in ('pennylane', 'scipy.optimize', 'scipy.integrate', 'qiskit.compiler.transpiler', "
        "'sklearn') if name in sys.modules and name not in before])"
    )
    code = "import sys, qiskit_aer; before = set(sys.modules); " + code
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
