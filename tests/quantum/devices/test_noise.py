"""Noise: Aer's density matrix against dense matrices, and multinomial draws against Aer's own counts."""

import numpy as np
import pytest

from dualflow import DeviceError, ProblemError
from dualflow.quantum.circuits import HardwareEfficientCircuit, SchrodingerisedCircuit, TreeCircuit
from dualflow.quantum.devices import Noise, make_device
from dualflow.quantum.devices.aer import AerDevice
from dualflow.quantum.devices.confusion import apply_tensored, nearest_distribution
from dualflow.quantum.devices.pauli_basis import PauliCircuit

SHOTS = 200_000


def operator(gate, qubits, n):
    """A gate on some qubits of n as a dense matrix, qubit 0 the least significant bit of its index."""
    full = np.zeros((2**n, 2**n))
    rest = [k for k in range(n) if k not in qubits]
    for column in range(2**n):
        local = sum(((column >> q) & 1) << i for i, q in enumerate(qubits))
        for out in range(2 ** len(qubits)):
            row = sum(((column >> k) & 1) << k for k in rest) + sum(((out >> i) & 1) << q for i, q in enumerate(qubits))
            full[row, column] += gate[out, local]
    return full


def depolarised(rho, p, qubits, n):
    """(1 − p) ρ + p tr_qubits(ρ) ⊗ 1/2^k, the partial trace as an average over Paulis' squares: X, Z, XZ."""
    X, Z = np.array([[0.0, 1], [1, 0]]), np.diag([1.0, -1])
    mixed = rho
    for qubit in qubits:
        x, z = operator(X, [qubit], n), operator(Z, [qubit], n)
        mixed = (mixed + x @ mixed @ x + z @ mixed @ z + x @ z @ mixed @ z @ x) / 4
    return (1 - p) * rho + p * mixed


def noisy_distribution(circuit, theta, p, up, down):
    """The distribution of a circuit of RY and CX, every gate followed by depolarising noise, read with errors."""
    n, built = circuit.n_qubits, circuit.build()
    angle = dict(zip(built.parameters, circuit.gate_parameters(theta), strict=True))
    rho = np.zeros((2**n, 2**n))
    rho[0, 0] = 1.0
    for instruction in built.data:
        qubits = [built.find_bit(q).index for q in instruction.qubits]
        if instruction.operation.name == "ry":
            half = angle[instruction.operation.params[0]] / 2
            gate = np.array([[np.cos(half), -np.sin(half)], [np.sin(half), np.cos(half)]])
        else:
            assert instruction.operation.name == "cx"
            gate = np.eye(4)[[0, 3, 2, 1]]  # control is the first, least significant bit
        u = operator(gate, qubits, n)
        rho = depolarised(u @ rho @ u.T, p, qubits, n)
    read = np.ones((1, 1))
    for _ in range(n):
        read = np.kron(read, [[1 - up, down], [up, 1 - down]])
    return read @ np.diag(rho)


@pytest.mark.parametrize("circuit", [TreeCircuit(3), HardwareEfficientCircuit(3, 2)], ids=lambda c: c.name)
def test_the_noisy_distribution_is_that_of_dense_algebra(circuit):
    theta = np.random.default_rng(0).uniform(0, np.pi, (2, circuit.n_parameters))
    found = AerDevice(Noise(0.03, (0.02, 0.1))).submit(circuit, theta).result().probabilities
    expected = [noisy_distribution(circuit, row, 0.03, 0.02, 0.1) for row in theta]
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert np.abs(found - circuit.distribution(theta)).max() > 0.05


def generic_model(n):
    from qiskit.providers.fake_provider import GenericBackendV2
    from qiskit_aer.noise import NoiseModel

    return NoiseModel.from_backend(GenericBackendV2(n, noise_info=True, seed=3))


@pytest.mark.parametrize("noise", [Noise(0.02, (0.01, 0.06)), None], ids=["two numbers", "a noise model"])
def test_draws_follow_aers_own_counts(noise):
    """χ² of two samples with equal totals, Σ (a − b)²/(a + b), against 5 standard deviations √(2·15)."""
    circuit, device = TreeCircuit(4), AerDevice(noise or generic_model(4))
    theta = np.random.default_rng(5).uniform(0.7, np.pi - 0.7, (2, 15))
    ours = device.submit(circuit, theta, SHOTS, seed=1).result().counts
    result = device._simulate(circuit, theta, "measured", shots=SHOTS, seed_simulator=4)
    for i in range(2):
        theirs = np.zeros(16)
        for outcome, number in result.data(i)["counts"].items():
            theirs[int(outcome, 16)] = number
        assert theirs.sum() == ours[i].sum() == SHOTS
        chi_square = ((ours[i] - theirs) ** 2 / (ours[i] + theirs)).sum()
        assert chi_square < 15 + 5 * np.sqrt(30)
        ideal = SHOTS * circuit.distribution(theta[i])
        assert ((ours[i] - ideal) ** 2 / ideal).sum() > 10 * (15 + 5 * np.sqrt(30))


def test_a_wide_noisy_circuit_is_sampled_by_aer():
    circuit = HardwareEfficientCircuit(11, 0)
    device = AerDevice(Noise(0.1, 0.05))
    with pytest.raises(DeviceError, match=r"at most 10 qubits.*set shots"):
        device.submit(circuit, np.zeros(11))
    counts = device.submit(circuit, np.zeros(11), 20_000, seed=2).result().counts
    wrong = (1 - 0.1 / 2) * 0.05 + 0.1 / 2 * 0.95  # a qubit in 0 is flipped by half the depolarising, or misread
    for k in range(11):
        ones = counts[(np.arange(2**11) >> k) & 1 == 1].sum()
        assert abs(ones - 20_000 * wrong) < 5 * np.sqrt(20_000 * wrong)


def test_correlated_readout_errors_are_refused():
    from qiskit_aer.noise import NoiseModel, ReadoutError

    model = NoiseModel()
    model.add_readout_error(ReadoutError(np.eye(4)[::-1]), [0, 1])  # Aer ignores it where qubits are measured singly
    with pytest.raises(ProblemError, match="each qubit its own"):
        AerDevice(model)


def test_devices_are_named_by_their_noise():
    names = [AerDevice(noise).name for noise in (None, Noise(), Noise(0.1), generic_model(2), generic_model(2))]
    assert names[:3] == ["aer", "aer:noisy", "aer:noisy(depolarizing=0.1, readout=0.01)"]
    assert names[3] == names[4] != AerDevice(generic_model(3)).name
    assert AerDevice().capabilities.noisy is False
    assert AerDevice(generic_model(2)).capabilities.noisy is True
    assert make_device("aer:noisy").noise == Noise(1e-3, 0.01)


@pytest.mark.parametrize(
    "options", [{"depolarizing": -0.1}, {"depolarizing": 2}, {"readout": 1.1}, {"readout": (0.1,)}, {"readout": "no"}]
)
def test_bad_noise(options):
    with pytest.raises(ProblemError, match=next(iter(options))):
        Noise(**options)


def test_noise_of_another_type():
    with pytest.raises(ProblemError, match="noise must be"):
        AerDevice(0.1)


def test_tensored_matrices_are_the_kronecker_product():
    rng = np.random.default_rng(0)
    factors, batch = rng.uniform(size=(3, 2, 2)), rng.uniform(size=(4, 8))
    dense = np.kron(np.kron(factors[2], factors[1]), factors[0])
    np.testing.assert_allclose(apply_tensored(factors, batch), batch @ dense.T, atol=1e-14)
    np.testing.assert_allclose(apply_tensored(factors, batch[0]), dense @ batch[0], atol=1e-14)


def test_the_nearest_distribution_is_the_euclidean_projection():
    from dualflow.core.problem import project_onto

    rng = np.random.default_rng(1)
    quasi = rng.normal(1 / 8, 0.3, (20, 8))
    found = nearest_distribution(quasi)
    for row, projected in zip(quasi, found, strict=True):
        np.testing.assert_allclose(projected, project_onto(row, np.zeros(8), np.ones(8), np.ones(8), 1.0), atol=1e-13)
    inside = rng.dirichlet(np.ones(8))
    np.testing.assert_allclose(nearest_distribution(inside), inside, atol=1e-15)


@pytest.mark.parametrize(
    "circuit",
    [TreeCircuit(5), HardwareEfficientCircuit(4, 3), SchrodingerisedCircuit.examples()[0]],
    ids=lambda circuit: circuit.family,
)
def test_the_pauli_basis_equals_aer_s_density_matrix(circuit):
    theta = np.random.default_rng(3).uniform(-np.pi, np.pi, (3, circuit.n_parameters))
    device = AerDevice(Noise(0.02, (0.01, 0.06)))
    compiled, gates = device.compiled(circuit), circuit.gate_parameters(theta)
    assert isinstance(compiled["native"], PauliCircuit)
    result = device._simulate(circuit, theta, "exact")
    theirs = np.array([result.data(i)["probabilities"] for i in range(3)])
    np.testing.assert_allclose(compiled["native"].probabilities(gates), theirs, atol=1e-12)
    np.testing.assert_allclose(compiled["native"].probabilities(gates[:1]), theirs[:1], atol=1e-12)
    assert np.abs(theirs - circuit.distribution(theta)).max() > 1e-3
