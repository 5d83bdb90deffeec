"""The tree ansatz and its encoding against closed forms, Qiskit's own state vector, Aer and PennyLane."""

import numpy as np
import pytest
from scipy.stats import dirichlet

from dualflow import ProblemError
from dualflow.quantum.circuits import TreeCircuit, encoding, resources
from dualflow.quantum.devices import make_device

QUBITS = (1, 2, 3, 4, 5)


def random_angles(n_qubits, seed=0, batch=()):
    return np.random.default_rng(seed).uniform(0.05, np.pi - 0.05, (*batch, 2**n_qubits - 1))


def product_formula(theta):
    """μᵢ leaf by leaf: walk from the root, most significant bit first."""
    n_qubits = int(np.log2(len(theta) + 1))
    mu = np.ones(2**n_qubits)
    for i in range(2**n_qubits):
        node = 0
        for level in range(n_qubits):
            bit = (i >> (n_qubits - 1 - level)) & 1
            mu[i] *= np.sin(theta[node] / 2) ** 2 if bit else np.cos(theta[node] / 2) ** 2
            node = 2 * node + 1 + bit
    return mu


@pytest.mark.parametrize("n_qubits", QUBITS)
def test_state_is_the_square_root_of_mu(n_qubits):
    from qiskit.quantum_info import Statevector

    circuit, theta = TreeCircuit(n_qubits), random_angles(n_qubits)
    bound = circuit.build().assign_parameters(circuit.gate_parameters(theta))
    np.testing.assert_allclose(Statevector(bound).data, np.sqrt(product_formula(theta)), atol=1e-12)
    np.testing.assert_allclose(
        encoding.amplitudes(circuit.distribution(theta)) ** 2, product_formula(theta), atol=1e-15
    )


@pytest.mark.parametrize("device", ["aer", "pennylane:default.qubit", "pennylane:lightning.qubit", "classical-sampler"])
@pytest.mark.parametrize("n_qubits", QUBITS)
def test_exact_distribution_on_devices(n_qubits, device):
    circuit, theta = TreeCircuit(n_qubits), random_angles(n_qubits, 1, (3,))
    readout = make_device(device).submit(circuit, theta).result()
    assert readout.bit_order == "little"
    assert readout.counts is None
    assert readout.shots is None
    np.testing.assert_allclose(readout.probabilities, [product_formula(t) for t in theta], atol=1e-12)


@pytest.mark.parametrize("n_qubits", [*QUBITS, 8])
def test_gate_counts(n_qubits):
    circuit = TreeCircuit(n_qubits)
    operations = circuit.build().count_ops()
    assert operations["ry"] == circuit.n_parameters == 2**n_qubits - 1
    assert operations.get("cx", 0) == 2**n_qubits - 2
    assert set(operations) <= {"ry", "cx"}
    as_run = make_device("aer").resources(circuit)
    assert (as_run.qubits, as_run.two_qubit_gates, as_run.parameters) == (n_qubits, 2**n_qubits - 2, 2**n_qubits - 1)
    assert as_run.depth == circuit.build().depth()


def test_resources_leave_measurements_out():
    circuit = TreeCircuit(3).build()
    assert resources.count(circuit.measure_all(inplace=False)) == resources.count(circuit)


@pytest.mark.parametrize("n_qubits", QUBITS)
def test_tangents_are_the_parameter_shift(n_qubits):
    circuit, theta = TreeCircuit(n_qubits), random_angles(n_qubits, 2)
    shifts = np.pi / 2 * np.eye(len(theta))
    shifted = 0.5 * (circuit.distribution(theta + shifts) - circuit.distribution(theta - shifts))
    np.testing.assert_allclose(circuit.tangents(circuit.distribution(theta)).toarray(), shifted.T, atol=1e-14)
    np.testing.assert_allclose(circuit.dense_tangents(circuit.distribution(theta)), shifted.T, atol=1e-14)


def test_fisher_metric_is_the_node_mass():
    circuit, theta = TreeCircuit(4), random_angles(4, 3)
    mu = circuit.distribution(theta)
    dP = circuit.tangents(mu).toarray()
    np.testing.assert_allclose(dP.T @ np.diag(1 / mu) @ dP, np.diag(encoding.node_masses(mu)[:15]), atol=1e-14)


def test_tangents_of_dead_leaves_are_finite():
    dP = TreeCircuit(2).tangents(np.array([1.0, 0.0, 0.0, 0.0])).toarray()
    np.testing.assert_array_equal(dP, 0.0)
    assert np.isfinite(TreeCircuit(2).tangents(np.array([1.0, 1e-310, 0.0, 0.0])).toarray()).all()


@pytest.mark.parametrize("n", [1, 2, 3, 5, 8, 12, 31])
def test_simplex_to_angles_and_back_with_padding(n):
    n_qubits = encoding.qubits_for(n)
    assert 2**n_qubits >= n
    assert n <= 2 or 2 ** (n_qubits - 1) < n
    mu = dirichlet.rvs(np.ones(n), random_state=n)[0]
    theta = encoding.simplex_to_angles(encoding.pad(mu, n_qubits), n)
    np.testing.assert_allclose(TreeCircuit(n_qubits).distribution(theta), encoding.pad(mu, n_qubits), atol=1e-15)
    free = encoding.free_angles(n, n_qubits)
    assert free.sum() == n - 1
    assert (theta[~free] == 0).all()
    # For any free angles no mass reaches the padding.
    theta[free] = np.random.default_rng(n).uniform(0, np.pi, n - 1)
    assert TreeCircuit(n_qubits).distribution(theta)[n:].sum() == 0


def test_massless_nodes_split_their_real_leaves_evenly():
    theta = encoding.simplex_to_angles(np.array([1.0, 0, 0, 0, 0, 0, 0, 0]), 7)
    theta[0] = np.pi  # send everything to the right half, leaves 4, 5 and 6
    np.testing.assert_allclose(TreeCircuit(3).distribution(theta), [0, 0, 0, 0, 1 / 3, 1 / 3, 1 / 3, 0], atol=1e-15)


def test_reverse_bits():
    np.testing.assert_array_equal(encoding.reverse_bits(np.arange(8), 3), [0, 4, 2, 6, 1, 5, 3, 7])
    batch = np.random.default_rng(0).random((2, 16))
    np.testing.assert_array_equal(encoding.reverse_bits(encoding.reverse_bits(batch, 4), 4), batch)


@pytest.mark.parametrize(
    "call",
    [
        lambda: TreeCircuit(0),
        lambda: TreeCircuit(2.5),
        lambda: TreeCircuit(2).distribution(np.zeros(4)),
        lambda: TreeCircuit(2).distribution([0.0, np.nan, 0.0]),
        lambda: encoding.qubits_for(0),
        lambda: encoding.pad(np.ones(5), 2),
        lambda: encoding.simplex_to_angles([0.5, -0.5]),
        lambda: encoding.simplex_to_angles([0.0, 0.0]),
        lambda: encoding.angles_to_simplex(np.zeros(4)),
        lambda: encoding.reverse_bits(np.ones(4), 3),
    ],
)
def test_bad_arguments(call):
    with pytest.raises(ProblemError):
        call()


# --- the flow the tree follows -----------------------------------------------------------------


def test_natural_gradient_of_the_tree_is_the_replicator_flow():
    rng = np.random.default_rng(4)
    circuit, theta, F = TreeCircuit(4), random_angles(4, 5), rng.normal(size=16)
    mu = circuit.distribution(theta)
    dP = circuit.tangents(mu).toarray()
    velocity = np.linalg.solve(dP.T @ np.diag(1 / mu) @ dP, -dP.T @ F)
    replicator = -mu * (F - mu @ F)
    np.testing.assert_allclose(dP @ velocity, replicator, atol=1e-13)
    t = 1e-5
    moved = circuit.distribution(theta + t * velocity) - circuit.distribution(theta - t * velocity)
    np.testing.assert_allclose(moved / (2 * t), replicator, atol=1e-9)
    # The closed form depends on the mean F on either side of a node only.
    masses, weighted = encoding.node_masses(mu), encoding.node_masses(mu * F)
    means, node = weighted / masses, np.arange(15)
    np.testing.assert_allclose(velocity, -0.5 * np.sin(theta) * (means[2 * node + 2] - means[2 * node + 1]), atol=1e-13)


def test_imaginary_time_on_the_amplitudes_is_the_same_flow():
    """ψ̇ = −½(F − ⟨F⟩)ψ with ψ = √μ gives μ̇ = 2ψψ̇ = −μ(F − ⟨F⟩), and keeps the norm."""
    rng = np.random.default_rng(6)
    mu, F = dirichlet.rvs(np.ones(16), random_state=7)[0], rng.normal(size=16)
    psi, t = encoding.amplitudes(mu), 1e-6
    velocity = -0.5 * (F - mu @ F) * psi
    assert abs(psi @ velocity) < 1e-15
    theta = encoding.simplex_to_angles((psi + t * velocity) ** 2) - encoding.simplex_to_angles(
        (psi - t * velocity) ** 2
    )
    dP = TreeCircuit(4).tangents(mu).toarray()
    np.testing.assert_allclose(dP @ theta / (2 * t), -mu * (F - mu @ F), atol=1e-9)
