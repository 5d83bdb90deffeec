"""``device=`` as an object of Qiskit, Aer or PennyLane."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import dualflow
from dualflow.exceptions import DeviceError, ProblemError
from dualflow.quantum.circuits.tree import TreeCircuit
from dualflow.quantum.devices import Noise, make_device
from dualflow.quantum.devices.aer import AerDevice
from dualflow.quantum.devices.backend import BackendDevice

CIRCUIT = TreeCircuit(3)
THETA = np.random.default_rng(4).uniform(0.2, 2.0, (4, 7))
FORMS = (
    "dualflow.Device",
    "BackendV2",
    "AerSimulator",
    "NoiseModel",
    "V2 sampler",
    "PennyLane device",
    "dualflow.devices",
)


def simulator(**options):
    return pytest.importorskip("qiskit_aer").AerSimulator(**options)


def pennylane(name, **options):
    return pytest.importorskip("pennylane").device(name, **options)


IDEAL = [
    lambda: simulator(),
    lambda: simulator(method="matrix_product_state"),
    lambda: pennylane("default.qubit"),
    lambda: pennylane("default.qubit", wires=5),
    lambda: pennylane("default.mixed", wires=["a", "b", "c", "d"]),
]


@pytest.mark.parametrize("make", IDEAL)
def test_a_simulator_gives_the_ideal_distribution_and_counts_of_it(make):
    device, ideal = make_device(make()), CIRCUIT.distribution(THETA)
    np.testing.assert_allclose(device.submit(CIRCUIT, THETA).result().probabilities, ideal, atol=1e-12)
    found = device.submit(CIRCUIT, THETA, 4000, seed=1).result()
    assert (found.counts.sum(axis=1) == 4000).all()
    assert np.abs(found.probabilities - ideal).max() < 6 / np.sqrt(4000)


@pytest.mark.parametrize("make", IDEAL)
def test_a_solver_takes_it(make):
    problem = dualflow.problems.svdd(dualflow.Gram(np.random.default_rng(0).normal(size=(4, 2))))
    given, named = (dualflow.solve(problem, "variational-flow", device=d, max_steps=4) for d in (make(), "emulator"))
    np.testing.assert_allclose(given.raw_alpha, named.raw_alpha, atol=1e-9)
    assert given.provenance["device"] == make_device(make()).identity


def test_the_simulator_that_is_given_is_the_one_that_runs(monkeypatch):
    given, ran = simulator(), []
    run = type(given).run
    monkeypatch.setattr(type(given), "run", lambda self, *a, **k: ran.append(self) or run(self, *a, **k))
    make_device(given).submit(CIRCUIT, THETA, 10, seed=1).result()
    assert ran == [given]


def test_a_noise_model_is_aer_with_it():
    noise = Noise(0.05, 0.1)
    given, own = make_device(pytest.importorskip("qiskit_aer") and noise.model()), AerDevice(noise.model())
    assert isinstance(given, AerDevice)
    assert (given.name, given.capabilities.noisy) == (own.name, True)
    found = given.submit(CIRCUIT, THETA).result().probabilities
    np.testing.assert_allclose(found, own.submit(CIRCUIT, THETA).result().probabilities, atol=1e-12)
    assert np.abs(found - CIRCUIT.distribution(THETA)).max() > 0.01


def test_a_simulator_with_noise_runs_as_a_backend():
    device = make_device(simulator(noise_model=Noise(0.05, 0.1).model()))
    assert isinstance(device, BackendDevice)
    with pytest.raises(DeviceError, match="counts only"):
        device.submit(CIRCUIT, THETA)
    found = device.submit(CIRCUIT, THETA, 4000, seed=1).result().probabilities
    assert np.abs(found - CIRCUIT.distribution(THETA)).max() > 0.03
    with pytest.raises(ProblemError, match="one of noise and simulator"):
        AerDevice(Noise(), simulator=simulator())


def test_a_pennylane_device_has_as_many_qubits_as_wires():
    device = make_device(pennylane("default.qubit", wires=2))
    with pytest.raises(DeviceError, match="has 2 qubits"):
        device.submit(CIRCUIT, THETA)
    assert make_device(pennylane("default.mixed", wires=2)).capabilities.noisy
    assert not device.capabilities.noisy


def test_what_a_pennylane_device_raises_is_a_device_error(monkeypatch):
    given = pennylane("default.qubit", wires=3)

    def broken(self, *arguments, **options):
        raise OSError("the fridge is warm")

    monkeypatch.setattr(type(given), "execute", broken)
    with pytest.raises(DeviceError, match="the fridge is warm"):
        make_device(given).submit(CIRCUIT, THETA)


def estimator():
    return pytest.importorskip("qiskit.primitives").StatevectorEstimator()


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda: 3, TypeError),
        (lambda: None, TypeError),
        (lambda: dict, TypeError),
        (lambda: ["aer"], TypeError),
        (estimator, TypeError),  # it has a run, too
        (lambda: "aers", DeviceError),
    ],
)
def test_the_error_lists_every_form(make, kind):
    with pytest.raises(kind) as caught:
        make_device(make())
    for form in FORMS:
        assert form in str(caught.value)


COUNTS = [
    "backend:generic",
    lambda: pytest.importorskip("qiskit.primitives").StatevectorSampler(),
    lambda: simulator(noise_model=Noise(0.05, 0.1).model()),
]


@pytest.mark.parametrize("solver", [info.name for info in dualflow.list_solvers() if info.quantum])
@pytest.mark.parametrize("device", COUNTS)
def test_missing_shots_raise_an_error_before_anything_runs(device, solver):
    X, y = np.random.default_rng(0).normal(size=(4, 2)), [1, -1, 1, -1]
    kinds, gram = dualflow.solvers.registry.solver_class(solver).kinds, dualflow.Gram(X)
    if dualflow.Kind.BOX_EQUALITY in kinds:
        problem = dualflow.problems.svc(gram, y, C=1.0)
    elif dualflow.Kind.SIMPLEX in kinds:
        problem = dualflow.problems.svc(gram, y, C=1.0, loss="squared_hinge")
    else:
        problem = dualflow.problems.least_squares(gram, y, C=1.0)
    with pytest.raises(DeviceError, match="counts only"):
        dualflow.solve(problem, solver, device=device if isinstance(device, str) else device())


def test_too_few_qubits_raise_an_error_before_anything_runs():
    X = np.random.default_rng(0).normal(size=(8, 2))
    problem = dualflow.problems.svc(dualflow.Gram(X), [1, -1] * 4, C=1.0)
    for solver in ("hamiltonian-descent", "hamiltonian-adiabatic"):
        with pytest.raises(DeviceError, match="has 3 qubits"):
            dualflow.solve(problem, solver, device=pennylane("default.qubit", wires=3))


def test_a_simulator_with_couplings_alone_is_compiled_for_them():
    """Its basis includes Aer's gates of three qubits, which Qiskit does not route."""
    device = make_device(simulator(coupling_map=[[0, 1], [1, 2]]))
    assert device.capabilities.qubits == 3
    compiled = device.compiled(CIRCUIT)
    pairs = {tuple(compiled.find_bit(q).index for q in one.qubits) for one in compiled.data if len(one.qubits) == 2}
    assert pairs <= {(0, 1), (1, 2)}
    found = device.submit(CIRCUIT, THETA, 4000, seed=1).result()
    assert np.abs(found.probabilities - CIRCUIT.distribution(THETA)).max() < 6 / np.sqrt(4000)
    with pytest.raises(DeviceError, match="has 3 qubits"):
        device.submit(TreeCircuit(4), np.ones(15), 10)


def test_what_cannot_be_compiled_is_a_device_error():
    device = make_device(simulator(coupling_map=[[0, 1], [2, 3]], basis_gates=["rz", "sx", "cx"]))
    with pytest.raises(DeviceError, match="could not compile circuit 'tree_q3'"):
        device.submit(CIRCUIT, THETA, 10)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("shots", [None, 100])
def test_a_fitted_simulator_of_pennylane_is_cloned_and_pickled(shots):
    pytest.importorskip("pennylane_lightning")
    given = pennylane("lightning.qubit", wires=2)
    X, y = np.random.default_rng(0).normal(size=(4, 2)), [1, -1, 1, -1]
    options = {"device": given, "steps": 2, "shots": shots}
    model = dualflow.SVC(loss="squared_hinge", solver="variational-flow", solver_options=options, random_state=0).fit(
        X, y
    )
    for other in (clone(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.fit(X, y).decision_function(X), model.decision_function(X))
    solver = dualflow.VariationalFlow(given, shots, steps=2)
    problem = dualflow.problems.svdd(dualflow.Gram(X))
    whole = dualflow.solve(problem, solver)
    again = dualflow.solve(problem, pickle.loads(pickle.dumps(solver)))
    np.testing.assert_array_equal(again.raw_alpha, whole.raw_alpha)


@pytest.mark.parametrize("make", ["sampler", "pennylane"])
def test_a_sampler_with_a_generator_gives_each_fold_different_draws(make):
    """A search copies the sampler for each fold; the folds' noise must not be equal."""
    if make == "sampler":
        given = pytest.importorskip("qiskit.primitives").StatevectorSampler(seed=np.random.default_rng(7))
    else:
        given = pennylane("default.qubit", wires=3, seed=7)
    theta = THETA[0]

    def fold(shift, seed=1):
        return make_device(copy.deepcopy(given)).submit(CIRCUIT, theta + shift, 2000, seed=seed).result().counts

    same, other = fold(0.0), fold(0.0)
    np.testing.assert_array_equal(same, other)  # the same job of the same run
    assert (fold(0.0, seed=2) != same).any()
    # The change of the angles is too small to change the counts: different counts are different draws.
    assert np.abs(CIRCUIT.distribution(theta + 1e-9) - CIRCUIT.distribution(theta)).max() < 1e-8
    assert (fold(1e-9) != same).any()


@pytest.mark.parametrize("shots", [1e4, np.float64(1e4), np.int32(10_000)])
def test_shots_may_be_written_1e4(shots):
    assert make_device("emulator").submit(CIRCUIT, THETA, shots, seed=1).result().shots == 10_000
    solver = dualflow.VariationalFlow("emulator", shots, final_shots=shots, shot_budget=1e6, max_shots=1e7)
    assert repr(solver) == repr(dualflow.VariationalFlow("emulator", 10_000, final_shots=10_000, shot_budget=10**6))
    assert type(solver.shots) is type(solver.max_shots) is int
    assert dualflow.FidelityKernel("angle", shots=shots).shots == 10_000
    for wrong in (1e4 + 0.5, np.inf, np.nan, 0.0, -1e4, "1e4"):
        with pytest.raises(ProblemError, match="shots="):
            dualflow.VariationalFlow("emulator", wrong)


@pytest.mark.parametrize(
    ("solver", "name"),
    [
        (dualflow.HamiltonianAdiabatic, "reads"),
        (dualflow.HamiltonianDilation, "steps"),
        (dualflow.VariationalFlow, "steps"),
        (dualflow.HamiltonianLCHS, "windows"),
        (dualflow.HamiltonianDescent, "max_blocks"),
    ],
)
def test_options_for_the_length_of_a_run_may_be_written_1e4(solver, name):
    made = solver(**{name: np.float64(1e4)})
    assert type(getattr(made, name)) is int
    assert made == solver(**{name: 10_000})
    for wrong in (1e4 + 0.5, np.inf, "1e4", True):
        with pytest.raises(ProblemError, match=f"{name}="):
            solver(**{name: wrong})
