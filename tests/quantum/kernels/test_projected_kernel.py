"""Projected kernels against Qiskit's partial traces; measured ones against the law of their shots."""

import pickle

import numpy as np
import pennylane as qml
import pytest
from qiskit import QuantumCircuit
from qiskit.circuit import ParameterVector
from qiskit.circuit.library import PauliFeatureMap, pauli_feature_map, zz_feature_map
from qiskit.quantum_info import DensityMatrix, Pauli, Statevector, partial_trace, state_fidelity
from sklearn.base import clone

from dualflow import SVC, SVDD, SVR, DeviceError, FidelityKernel, Gram, ProblemError, ProjectedKernel
from dualflow.core.psd import examine
from dualflow.quantum.circuits import ProjectedCircuit
from dualflow.quantum.kernels.projected import bloch_vectors

RNG = np.random.default_rng(3)
X = RNG.uniform(-1.5, 1.5, (7, 3))
Z = RNG.uniform(-1.5, 1.5, (4, 3))


def tangled() -> QuantumCircuit:
    """Complex amplitudes, other states on every qubit, angles that are no polynomials, one power."""
    x = ParameterVector("x", 3)
    circuit = QuantumCircuit(3, name="tangled")
    circuit.ry(x[0], 0)
    circuit.u(x[1].sin(), x[2] ** 2, 0.4, 1)
    circuit.cx(0, 1)
    circuit.rzz(x[0] * x[1] * x[2], 1, 2)
    circuit.rx(x[2], 2)
    circuit.cx(2, 0)
    circuit.rx(0.7, 1)
    return circuit


def strange(x, wires):
    qml.AngleEmbedding(x, wires, rotation="X")
    qml.IsingXX(x[2], [wires[2], wires[0]])
    qml.Hadamard(wires[1])


def by_hand(circuit, A, B, gamma):
    """exp(−γ Σ ‖ρ − σ‖²), from Qiskit's partial traces."""

    def reduced(x):
        state = DensityMatrix(circuit.assign_parameters(x))
        others = [[k for k in range(state.num_qubits) if k != q] for q in range(state.num_qubits)]
        return [partial_trace(state, rest).data for rest in others]

    left, right = [reduced(x) for x in A], [reduced(x) for x in B]
    squares = [[sum(np.linalg.norm(r - s) ** 2 for r, s in zip(a, b, strict=True)) for b in right] for a in left]
    return np.exp(-gamma * np.array(squares))


# --- exact -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("circuit", [zz_feature_map(3), tangled()], ids=["zz", "tangled"])
@pytest.mark.parametrize("gamma", [0.3, 2.0])
def test_the_kernel_is_that_of_qiskits_partial_traces(circuit, gamma):
    kernel = ProjectedKernel(circuit, gamma=gamma)
    np.testing.assert_allclose(kernel(X, Z), by_hand(circuit, X, Z, gamma), atol=1e-12)
    K = kernel(X, X)
    np.testing.assert_allclose(K, by_hand(circuit, X, X, gamma), atol=1e-12)
    assert (K == K.T).all()
    assert (np.diag(K) == 1).all()
    assert kernel.circuits == len(X) + len(Z)


def test_bloch_vectors_are_expectations_of_paulis():
    state = Statevector(tangled().assign_parameters(X[0]))
    theirs = [state.expectation_value(Pauli(label), [q]).real for q in range(3) for label in ("X", "Y", "Z")]
    np.testing.assert_allclose(bloch_vectors(state.data[None]), [theirs], atol=1e-12)


@pytest.mark.parametrize("device", ["aer", "pennylane:default.qubit", "classical-sampler"])
@pytest.mark.parametrize("source", ["zz", tangled(), strange], ids=["zz", "qiskit", "pennylane"])
def test_measured_settings_give_the_kernel_of_the_states(device, source):
    exact = ProjectedKernel(source)(X, Z)
    assert exact.std() > 0.05
    np.testing.assert_allclose(ProjectedKernel(source, device=device)(X, Z), exact, atol=1e-10)


def test_the_circuits_distribution_is_qiskits():
    circuit = ProjectedCircuit.examples()[1]
    theta = np.linspace(0.1, 2.0, circuit.n_parameters)
    theirs = Statevector(circuit.build().assign_parameters(theta)).probabilities()
    np.testing.assert_allclose(circuit.distribution(theta), theirs, atol=1e-12)


# --- maps of Qiskit's library ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make", [zz_feature_map, lambda m: pauli_feature_map(m, paulis=["X", "YZ", "ZXZ"]), PauliFeatureMap]
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_function_of_the_number_of_features_makes_the_circuit(make):
    states = [Statevector(make(3).assign_parameters(x)) for x in X]
    theirs = [[state_fidelity(a, b) for b in states] for a in states]
    np.testing.assert_allclose(FidelityKernel(make)(X, X), theirs, atol=1e-10)
    np.testing.assert_allclose(ProjectedKernel(make)(X, X), ProjectedKernel(make(3))(X, X), atol=1e-12)


def test_angles_that_are_affine_in_every_feature_are_not_bound_one_by_one():
    known = [ProjectedKernel(c)._map_for(3).angles.expressions for c in (zz_feature_map(3), tangled())]
    assert all(expression.coefficients is not None for expression in known[0])
    assert any(expression.coefficients is None for expression in known[1])
    x = ParameterVector("x", 1)
    bent = QuantumCircuit(1)
    bent.ry(abs(x[0] + 1.0), 0)
    there = ProjectedKernel(bent)._map_for(1)
    np.testing.assert_allclose(there.angles_of(np.array([[-3.0], [0.5]])), [[2.0], [1.5]])


# --- shots -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("device", ["emulator", "aer"])
def test_sampled_bloch_vectors_are_binomial_and_the_kernel_stays_positive(device):
    shots, points = 300, np.random.default_rng(1).uniform(-1.5, 1.5, (30, 3))
    kernel = ProjectedKernel(tangled(), device=device, shots=shots, random_state=4)
    K = kernel(points, points)
    assert (kernel.circuits, kernel.shots_spent) == (90, 90 * shots)
    assert examine(K).kind != "indefinite"
    np.testing.assert_array_equal(kernel(points[3:5], points), K[3:5])  # kept: nothing is measured again
    assert kernel.shots_spent == 90 * shots
    exact = bloch_vectors(kernel._map.states(points))
    z = (kernel._vectors(np.arange(30)) - exact) / np.sqrt((1 - exact**2) / shots + 1e-12)
    assert np.abs(z).max() < 4.5  # 270 draws
    # Qubits of one circuit are not independent: Σz² varies more than χ², by at most the number of qubits.
    assert abs((z**2).sum() / z.size - 1) < 4 * np.sqrt(2 * 3 / z.size)


def test_same_seed_same_matrix_and_another_seed_another():
    one, same, other = (ProjectedKernel("zz", shots=50, random_state=s)(X, X) for s in (5, 5, 6))
    np.testing.assert_array_equal(one, same)
    assert (one != other).any()
    again = pickle.loads(pickle.dumps(ProjectedKernel("zz", shots=50, random_state=5)))
    np.testing.assert_array_equal(again(X, X), one)


def test_a_batch_too_large_for_memory_is_split(monkeypatch):
    whole = ProjectedKernel("zz", device="aer")(X, Z)
    monkeypatch.setattr("dualflow.quantum.kernels.projected.MAX_BATCH_NUMBERS", 8 * 7)
    np.testing.assert_allclose(ProjectedKernel("zz", device="aer")(X, Z), whole, atol=1e-12)


def test_the_null_device_gives_a_constant_kernel():
    np.testing.assert_allclose(ProjectedKernel("zz", device="null")(X, Z), 1.0)


# --- estimators ------------------------------------------------------------------------------------------


def test_estimators_take_the_kernel_exact_or_sampled():
    points = np.random.default_rng(2).uniform(-1.5, 1.5, (60, 2))
    y = np.where(points[:, 0] * points[:, 1] > 0, "a", "b")
    kernel = ProjectedKernel("zz", gamma=2.0)
    direct = SVC(C=5.0, kernel=kernel).fit(points[:40], y[:40])
    K = ProjectedKernel("zz", gamma=2.0)(points, points)
    given = SVC(C=5.0, kernel="precomputed").fit(K[:40, :40], y[:40])
    np.testing.assert_allclose(direct.decision_function(points[40:]), given.decision_function(K[40:, :40]), atol=1e-6)
    np.testing.assert_array_equal(clone(direct).fit(points[:40], y[:40]).dual_coef_, direct.dual_coef_)
    sampled = SVC(C=5.0, kernel=ProjectedKernel("zz", shots=200)).fit(points[:40], y[:40])
    assert sampled.certificate_.relative_gap <= 1e-3  # positive semidefinite: the certificate is given
    assert sampled.predict(points[40:]).shape == (20,)
    assert SVDD(nu=0.2, kernel=kernel).fit(points).certificate_.relative_gap <= 1e-3
    assert SVR(kernel=kernel, C=10, epsilon=0.01).fit(points, points[:, 0]).score(points, points[:, 0]) > 0.9
    np.testing.assert_allclose(Gram(points, kernel=kernel).rows([0, 1]) if hasattr(Gram, "rows") else K[:2], K[:2])


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: ProjectedKernel("zz", gamma=0), ProblemError, "gamma=0 must be above 0"),
        (lambda: ProjectedKernel("zz", gamma=-1.0), ProblemError, "gamma"),
        (lambda: ProjectedKernel("zz", gamma="scale"), (ProblemError, TypeError), "gamma"),
        (lambda: ProjectedKernel("zz", shots=0), ProblemError, "shots=0"),
        (lambda: ProjectedKernel("zz", device="areo"), DeviceError, "areo"),
        (lambda: ProjectedKernel("zz")(X, Z[:, :2]), ProblemError, "X has 3 features and Z has 2"),
        (lambda: ProjectedKernel("zz", weights=[1.0])(X, Z), ProblemError, "'zz' has none"),
        (lambda: ProjectedKernel(strange, weights=[1.0])(X, Z), ProblemError, "PennyLane function has none"),
        (lambda: ProjectedKernel(lambda m: m)(X, Z), TypeError, "found int"),
    ],
)
def test_refusals_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_callers_arrays_are_left_alone():
    fixed = np.asfortranarray(X.astype(np.float32))
    fixed.setflags(write=False)
    K = ProjectedKernel("zz")(fixed, fixed[::2])
    np.testing.assert_allclose(K, ProjectedKernel("zz")(X, X[::2]), atol=1e-5)
    assert ProjectedKernel("angle")([[1], [2]], [[1]]).shape == (2, 1)
