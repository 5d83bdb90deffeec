"""Quantum kernels: states against Qiskit and PennyLane, circuits against states, counts against the binomial law."""

import pickle

import numpy as np
import pennylane as qml
import pytest
from qiskit import QuantumCircuit
from qiskit.circuit import Parameter, ParameterVector
from qiskit.circuit.library import zz_feature_map
from qiskit.quantum_info import Statevector, state_fidelity
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import dualflow
from dualflow import SVC, DeviceError, FidelityKernel, Gram, ProblemError, SolverUnavailable, quantum_kernel
from dualflow.core.psd import examine
from dualflow.quantum.devices import Noise
from dualflow.quantum.devices.aer import AerDevice
from dualflow.quantum.kernels import feature_maps

RNG = np.random.default_rng(7)
X = RNG.uniform(-1.5, 1.5, (8, 3))
Z = RNG.uniform(-1.5, 1.5, (5, 3))


def every_gate() -> QuantumCircuit:
    """Fixed and free angles, an expression of two parameters, a gate of three angles, a parameter used twice."""
    a, b, c = Parameter("a"), Parameter("b"), Parameter("c")
    circuit = QuantumCircuit(3, name="every gate")
    circuit.h([0, 1])
    circuit.rx(a, 0)
    circuit.ry(0.3, 2)
    circuit.u(b, a * b, -c, 1)
    circuit.x(2)
    circuit.barrier()
    circuit.cz(0, 2)
    circuit.cx(2, 0)
    circuit.rzz(c / 2 + 1, 0, 1)
    circuit.swap(1, 2)
    circuit.rx(a, 2)
    return circuit


def embedding(x, wires):
    qml.IQPEmbedding(x, wires, n_repeats=2)


def strange(x, wires):
    """Operations whose decomposition is not trivial."""
    qml.AngleEmbedding(x, wires, rotation="X")
    qml.ctrl(qml.RY(x[0] * x[1], wires[1]), wires[0])
    qml.IsingXX(x[2], [wires[2], wires[0]])
    qml.Hadamard(wires[1])


def states_of(circuit, points):
    return [Statevector(circuit.assign_parameters(x)) for x in points]


# --- exact -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("circuit", [zz_feature_map(3, reps=1), zz_feature_map(3, entanglement="linear"), every_gate()])
def test_the_kernel_of_a_qiskit_circuit_is_qiskits_state_fidelity(circuit):
    theirs = [[state_fidelity(a, b) for b in states_of(circuit, Z)] for a in states_of(circuit, X)]
    np.testing.assert_allclose(quantum_kernel(circuit, X, Z), theirs, atol=1e-12)
    square = [[state_fidelity(a, b) for b in states_of(circuit, X)] for a in states_of(circuit, X)]
    K = quantum_kernel(circuit, X)
    np.testing.assert_allclose(K, square, atol=1e-12)
    assert (K == K.T).all()
    assert (np.diag(K) == 1.0).all()
    assert examine(K).is_psd


def test_built_in_maps_match_their_names():
    np.testing.assert_allclose(quantum_kernel("zz", X), quantum_kernel(zz_feature_map(3, reps=2), X), atol=1e-12)
    by_hand = np.prod(np.cos(0.5 * (X[:, None] - Z)) ** 2, axis=2)
    np.testing.assert_allclose(quantum_kernel("angle", X, Z), by_hand, atol=1e-12)


def test_states_of_all_maps_are_in_qiskits_order():
    circuit = every_gate()
    ours = feature_maps.make_feature_map(circuit, 3, None).states(X)
    for found, theirs in zip(ours, states_of(circuit, X), strict=True):
        assert abs(np.vdot(found, theirs.data)) == pytest.approx(1.0, abs=1e-12)

    def little(x, wires):
        qml.RX(x[0], wires[0])
        qml.CNOT([wires[0], wires[1]])

    (state,) = feature_maps.make_feature_map(little, 1, 3).states(np.array([[0.8]]))
    np.testing.assert_allclose(np.flatnonzero(np.abs(state) > 1e-9), [0, 3])


@pytest.mark.parametrize("function", [embedding, strange])
def test_the_kernel_of_a_pennylane_function_is_pennylanes(function):
    node = qml.QNode(lambda x: (function(x, range(3)), qml.state())[1], qml.device("default.qubit", wires=3))
    a, b = (np.array([node(x) for x in points]) for points in (X, Z))
    np.testing.assert_allclose(quantum_kernel(function, X, Z), np.abs(a.conj() @ b.T) ** 2, atol=1e-12)


def test_a_pennylane_function_and_a_qiskit_circuit_of_the_same_gates_agree():
    x = ParameterVector("x", 3)
    circuit = QuantumCircuit(3)
    for _ in range(2):  # IQP: diagonal gates of the features and their products
        circuit.h(range(3))
        for k in range(3):
            circuit.rz(x[k], k)
        for i, j in ((0, 1), (0, 2), (1, 2)):
            circuit.rzz(x[i] * x[j], i, j)
    np.testing.assert_allclose(quantum_kernel(embedding, X), quantum_kernel(circuit, X), atol=1e-12)


def test_a_function_may_have_more_wires_than_features_and_any_operation():
    def amplitudes(x, wires):
        qml.AmplitudeEmbedding(x, wires, pad_with=0.0, normalize=True)

    unit = np.abs(X) / np.linalg.norm(X, axis=1, keepdims=True)
    K = quantum_kernel(amplitudes, np.abs(X), n_qubits=2)
    np.testing.assert_allclose(K, (unit @ unit.T) ** 2, atol=1e-12)


# --- circuits --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["aer", "pennylane:default.qubit", "classical-sampler"])
@pytest.mark.parametrize("source", ["zz", every_gate(), strange], ids=["zz", "qiskit", "pennylane"])
def test_compute_uncompute_circuits_give_the_kernel_of_the_states(device, source):
    exact = quantum_kernel(source, X)
    np.testing.assert_allclose(quantum_kernel(source, X, device=device), exact, atol=1e-12)
    np.testing.assert_allclose(quantum_kernel(source, X, Z, device=device), quantum_kernel(source, X, Z), atol=1e-12)


@pytest.mark.parametrize("device", ["emulator", "aer", "pennylane:lightning.qubit"])
def test_sampled_entries_are_binomial(device):
    shots = 400
    points = np.random.default_rng(1).uniform(-1, 1, (16, 2))
    exact = quantum_kernel("zz", points)
    K = quantum_kernel("zz", points, device=device, shots=shots, random_state=3)
    assert (K == K.T).all()
    assert (np.diag(K) == 1).all()
    np.testing.assert_allclose(K * shots, np.round(K * shots), rtol=0, atol=1e-9)
    pairs = np.triu_indices(16, 1)
    p = exact[pairs]
    z = (K[pairs] - p) / np.sqrt(p * (1 - p) / shots)
    assert np.abs(z).max() < 4.5  # 120 draws: 1e-3
    # Σz² is about χ² of 120, whose standard deviation is √240; half of them would be a wrong variance.
    assert abs((z**2).sum() - 120) < 4 * np.sqrt(240)


class Counting(AerDevice):
    """Aer, which stores the bindings it receives."""

    def __init__(self, noise=None):
        super().__init__(noise)
        self.batches = []

    def _submit(self, circuit, values, shots, tag, seed):
        self.batches.append(values.shape)
        return super()._submit(circuit, values, shots, tag, seed)


def test_all_pairs_are_sent_as_one_batch_and_none_twice():
    device = Counting()
    kernel = FidelityKernel("zz", device=device, shots=50)
    K = kernel(X, X)
    angles = 2 * (3 + 3)
    assert device.batches == [(8 * 7 // 2, angles)]
    assert (kernel.circuits, kernel.shots_spent) == (28, 28 * 50)
    np.testing.assert_array_equal(kernel(X[2:5], X), K[2:5])  # kept
    np.testing.assert_array_equal(kernel(X[:, ::-1][:, ::-1], X[:3]), K[:, :3])
    assert len(device.batches) == 1
    kernel(np.vstack([X[:2], Z[:1], Z[:1]]), X)  # one new point, given twice
    assert device.batches[1:] == [(8, angles)]


def test_a_batch_too_large_for_memory_is_split(monkeypatch):
    whole = quantum_kernel("zz", X, device="aer", shots=None)
    monkeypatch.setattr("dualflow.quantum.kernels.fidelity.MAX_BATCH_NUMBERS", 8 * 10)
    device = Counting()
    np.testing.assert_allclose(quantum_kernel("zz", X, device=device), whole, atol=1e-12)
    assert [rows for rows, _ in device.batches] == [10, 10, 8]


def test_noise_lowers_what_is_measured_and_the_diagonal_only_if_measured():
    exact = quantum_kernel("angle", X)
    device = AerDevice(Noise(depolarizing=0.0, readout=0.1))
    noisy = quantum_kernel("angle", X, device=device, diagonal="measured")
    np.testing.assert_allclose(np.diag(noisy), 0.9**3, atol=1e-12)  # all three bits are read correctly
    assert (np.diag(quantum_kernel("angle", X, device=device)) == 1).all()
    mended = quantum_kernel("angle", X, device=device, diagonal="measured", shots=100_000, mitigation="confusion")
    assert np.abs(mended - exact).max() < 0.02 < np.abs(noisy - exact).max()


def test_a_backend_with_couplings_measures_the_kernel():
    K = quantum_kernel("angle", X[:4, :2], device="backend:generic", shots=2000)
    exact = quantum_kernel("angle", X[:4, :2])
    assert np.abs(K - exact).max() < 4.5 * 0.5 / np.sqrt(2000) + 0.1  # shot noise and the machine's errors
    assert (K == K.T).all()


def test_the_null_device_gives_a_constant_kernel():
    K = quantum_kernel("zz", X, device="null")
    np.testing.assert_allclose(K, np.where(np.eye(8, dtype=bool), 1.0, 1 / 8))


# --- seeds, estimators, evidence -------------------------------------------------------------------------


def test_same_seed_same_matrix_and_another_seed_another():
    one, same, other = (quantum_kernel("angle", X, shots=60, random_state=s) for s in (5, np.random.default_rng(5), 6))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    again = pickle.loads(pickle.dumps(FidelityKernel("angle", shots=60, random_state=5)))
    np.testing.assert_array_equal(again(X, X), one)


def test_a_sampled_kernel_is_reported_indefinite_and_repaired():
    points = np.random.default_rng(0).uniform(-0.5, 0.5, (40, 3))
    y = np.where(points[:, 0] > 0, 1, -1)
    exact, K = quantum_kernel("angle", points), quantum_kernel("angle", points, shots=100)
    assert examine(exact).kind == "checked"
    assert examine(K).kind == "indefinite"
    problem = dualflow.problems.svc(Gram.precomputed(K), y)
    assert problem.psd.kind == "indefinite"
    with pytest.warns(ConvergenceWarning, match="certificate is withheld"):
        SVC(kernel="precomputed").fit(K, y)
    assert SVC(kernel="precomputed").fit(dualflow.repair(K).matrix, y).certificate_.relative_gap <= 1e-6


def test_estimators_take_the_kernel_and_predict_new_points():
    points = np.random.default_rng(2).uniform(-1.5, 1.5, (60, 2))
    y = np.where(points[:, 0] * points[:, 1] > 0, "a", "b")
    direct = SVC(C=5.0, kernel=FidelityKernel("zz")).fit(points[:40], y[:40])
    K = quantum_kernel("zz", points)
    given = SVC(C=5.0, kernel="precomputed").fit(K[:40, :40], y[:40])
    np.testing.assert_allclose(direct.decision_function(points[40:]), given.decision_function(K[40:, :40]), atol=1e-6)
    np.testing.assert_array_equal(clone(direct).fit(points[:40], y[:40]).dual_coef_, direct.dual_coef_)
    sampled = FidelityKernel("zz", shots=200)
    with pytest.warns(ConvergenceWarning, match="indefinite"):
        model = SVC(C=5.0, kernel=sampled).fit(points[:40], y[:40])
    # Blocks of one matrix agree: the model is that of the whole matrix.
    with pytest.warns(ConvergenceWarning, match="indefinite"):
        whole = SVC(C=5.0, kernel="precomputed").fit(sampled(points[:40], points[:40]), y[:40])
    np.testing.assert_allclose(model.dual_coef_, whole.dual_coef_, atol=1e-9)
    assert model.predict(points[40:]).shape == (20,)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: quantum_kernel("zzz", X), ProblemError, "feature_map='zzz' is not one of.*did you mean 'zz'"),
        (lambda: quantum_kernel(3.5, X), TypeError, "found float"),
        (lambda: quantum_kernel(zz_feature_map(2), X), ProblemError, "2 parameters and the points have 3 features"),
        (lambda: quantum_kernel("zz", X, Z[:, :2]), ProblemError, "X has 3 features and Z has 2"),
        (lambda: quantum_kernel("zz", X[0]), ProblemError, "X must be a non-empty matrix"),
        (lambda: quantum_kernel("zz", X * np.nan), ProblemError, "X contains NaN"),
        (lambda: quantum_kernel("zz", X, shots=0), ProblemError, "shots=0"),
        (lambda: quantum_kernel("zz", X, device="areo"), DeviceError, "device='areo'"),
        (lambda: quantum_kernel("zz", X, device="backend:generic"), DeviceError, "set shots"),
        (lambda: quantum_kernel("zz", X, diagonal="ones"), ProblemError, "diagonal='ones' is not one of"),
        (lambda: quantum_kernel("zz", X, n_qubits=4), ProblemError, "n_qubits=4, but the map 'zz' has"),
        (lambda: quantum_kernel("zz", X, n_qubits=0), ProblemError, "n_qubits=0 must be an integer ≥ 1"),
        (lambda: quantum_kernel("zz", X, n_qubits=1.5), ProblemError, "n_qubits=1.5 must be an integer ≥ 1"),
        (lambda: quantum_kernel("zz", X, mitigation="confusion"), ProblemError, "mitigation"),
        (lambda: quantum_kernel("zz", X, random_state=-1), ProblemError, "random_state=-1 must be"),
        (lambda: quantum_kernel("zz", X, diagonal=np.ones(2)), ProblemError, "diagonal=array"),
        (lambda: quantum_kernel("zz", X * 1e200), ProblemError, "feature_map: an angle of the point .* is not finite"),
        (lambda: quantum_kernel("angle", np.zeros((2, 25))), DeviceError, "has 24 qubits, the feature map needs 25"),
    ],
)
def test_refusals_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_an_unsuitable_feature_map_is_refused():
    measured = zz_feature_map(3)
    measured.measure_all()
    with pytest.raises(ProblemError, match="holds 'measure'"):
        quantum_kernel(measured, X)

    def moody(x, wires):
        qml.RX(x[0], wires[0] if x[1] > 0 else wires[1])

    with pytest.raises(ProblemError, match="other gates to other points"):
        quantum_kernel(moody, X, device="aer")
    kernel = FidelityKernel("zz")
    kernel(X, X)
    with pytest.raises(ProblemError, match="2 features, this kernel's first ones 3"):
        kernel(X[:, :2], X[:, :2])


def test_a_circuit_whose_angles_are_not_finite_is_refused():
    a, b, c = ParameterVector("a", 3)
    circuit = QuantumCircuit(1)
    circuit.ry(1 / a, 0)
    circuit.rz(b.arccos(), 0)
    circuit.rx(c, 0)
    for points in (np.zeros((2, 3)), np.full((2, 3), 2.0)):
        with pytest.raises(ProblemError, match=r"an angle of the point .* is not finite"):
            quantum_kernel(circuit, points)


@pytest.mark.parametrize("device", ["emulator", "aer"])
def test_an_unsuitable_pennylane_function_is_refused(device):
    @qml.qnode(qml.device("default.qubit", wires=3))
    def node(x, wires):
        qml.AngleEmbedding(x, wires)
        return qml.state()

    def outside(x, wires):
        qml.RX(x[0], 7)

    def named(x, wires):
        qml.RX(x[0], "a")

    def measured(x, wires):
        qml.RX(x[0], 0)
        qml.measure(0)

    refused = [
        (node, "applies no PennyLane operation; of a QNode give the function"),
        (outside, "RX acts on wire 7, and the wires are 0 to 2; set n_qubits"),
        (named, "RX acts on wire 'a'"),
        (measured, "the function measures"),
    ]
    if qml.__version__.startswith("0.42"):  # a QNode applies its operations where it is called
        np.testing.assert_allclose(quantum_kernel(node, X, device=device), quantum_kernel("angle", X), atol=1e-12)
        refused = refused[1:]
    for function, words in refused:
        with pytest.raises(ProblemError, match=words):
            quantum_kernel(function, X, device=device)
    np.testing.assert_allclose(quantum_kernel(lambda x, wires: node.func(x, wires), X), quantum_kernel("angle", X))
    wide = quantum_kernel(outside, X, n_qubits=np.int64(8))
    np.testing.assert_allclose(wide, np.cos(0.5 * (X[:, :1] - X[:, 0])) ** 2, atol=1e-12)


@pytest.mark.parametrize("device", ["emulator", "aer"])
@pytest.mark.parametrize(
    ("end", "kind"), [(lambda: qml.expval(qml.Z(0)), "Expectation"), (lambda: qml.probs([0]), "Prob")]
)
def test_a_pennylane_function_that_measures_is_refused(device, end, kind):
    def measuring(x, wires):
        qml.AngleEmbedding(x, wires)
        return end()

    def of_states(x, wires):
        qml.AngleEmbedding(x, wires)
        return qml.state()

    with pytest.raises(ProblemError, match=f"ends in a PennyLane measurement .{kind}"):
        quantum_kernel(measuring, X, device=device)
    np.testing.assert_allclose(quantum_kernel(of_states, X, device=device), quantum_kernel("angle", X), atol=1e-12)


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(SolverUnavailable, match="pip install pennylane"):
        feature_maps.make_feature_map(embedding, 3, None)
