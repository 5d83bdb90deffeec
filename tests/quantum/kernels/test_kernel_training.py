"""Trainable kernels: gradients against differences, alignment by its definition, and held-out points."""

import pickle

import numpy as np
import pytest
from qiskit import QuantumCircuit
from qiskit.circuit import ParameterVector
from qiskit.quantum_info import Statevector
from sklearn.base import clone
from sklearn.datasets import make_moons

from dualflow import SVC, FidelityKernel, ProblemError, ProjectedKernel, Reuploading, kernel_alignment, train_kernel
from dualflow.quantum.kernels.alignment import alignment_between, target_matrix
from dualflow.quantum.kernels.training import Losses

RNG = np.random.default_rng(5)
X = RNG.normal(size=(9, 2))
Y = np.array([0, 1, 2] * 3)
THETA = ParameterVector("θ", 3)
FEATURES = ParameterVector("x", 2)
VALUES = [0.3, 0.4, 0.5]


def circuit() -> QuantumCircuit:
    """Every gate; weights without and with features, squared, in a sine, and one weight in two angles."""
    made = QuantumCircuit(3)
    made.h(0)
    made.ry(THETA[0] * FEATURES[0] + THETA[1], 0)
    made.cx(0, 1)
    made.x(2)
    made.rzz(THETA[2] ** 2 * FEATURES[1], 1, 2)
    made.rx(FEATURES[0] * FEATURES[1] * THETA[0], 2)
    made.cz(0, 2)
    made.ry(THETA[1].sin(), 1)
    return made


KERNELS = {
    "fidelity": lambda: FidelityKernel(circuit(), weights={THETA: VALUES}),
    "projected": lambda: ProjectedKernel(circuit(), gamma=1.5, weights={THETA: VALUES}),
    "fidelity, re-uploading": lambda: FidelityKernel(Reuploading(3), n_qubits=3),
    "projected, re-uploading": lambda: ProjectedKernel(Reuploading(2), gamma=0.7),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_adjoint_gradient_is_that_of_differences(name):
    kernel = KERNELS[name]()
    losses = Losses(kernel, kernel._map_for(2), X, target_matrix(Y, len(X)))
    weights = kernel.weights + 0.1 * RNG.normal(size=kernel.weights.shape)
    value, gradient = losses(weights)
    assert value == pytest.approx(-kernel_alignment(kernel.with_weights(weights)(X, X), Y), abs=1e-12)
    steps = 1e-5 * np.eye(len(weights))
    differences = [(losses.value(weights + h) - losses.value(weights - h)) / 2e-5 for h in steps]
    np.testing.assert_allclose(gradient, differences, atol=1e-8)
    assert np.abs(gradient).max() > 1e-3


def test_weights_of_a_circuit_are_bound_as_qiskit_binds_them():
    states = [Statevector(circuit().assign_parameters({THETA: VALUES, FEATURES: x})).data for x in X]
    theirs = np.abs(np.conj(states) @ np.transpose(states)) ** 2
    by_name = {"θ[1]": 0.4, THETA[2]: 0.5, THETA[0]: 0.3}
    for weights in ({THETA: VALUES}, by_name):
        np.testing.assert_allclose(FidelityKernel(circuit(), weights=weights)(X, X), theirs, atol=1e-12)
    kernel = FidelityKernel(circuit(), weights=by_name)
    np.testing.assert_array_equal(kernel.weights, [0.4, 0.5, 0.3])
    np.testing.assert_allclose(kernel.with_weights([0.4, 0.5, 0.3])(X, X), theirs, atol=1e-12)
    assert np.abs(kernel.with_weights([0.3, 0.5, 0.4])(X, X) - theirs).max() > 1e-3


def test_re_uploading_is_the_circuit_its_docstring_says():
    weights = RNG.normal(size=2 * 3 * 4)  # 2 layers, 3 features on 2 qubits
    points = RNG.normal(size=(5, 3))
    states = []
    for x in points:
        made, left = QuantumCircuit(2), iter(weights)
        for layer in range(2):
            if layer:
                made.cz(0, 1)
            for slot in range(3):
                a, b, c, d = (next(left) for _ in range(4))
                made.ry(a * x[slot] + b, slot % 2)
                made.rz(c * x[slot] + d, slot % 2)
        states.append(Statevector(made).data)
    kernel = FidelityKernel(Reuploading(2), n_qubits=2, weights=weights)
    np.testing.assert_allclose(kernel(points, points), np.abs(np.conj(states) @ np.transpose(states)) ** 2, atol=1e-12)
    assert kernel.weights.shape == Reuploading(2).start(3, 2).shape
    assert FidelityKernel("reuploading")(points, points).shape == (5, 5)
    aer = FidelityKernel(Reuploading(2), n_qubits=2, weights=weights, device="aer")
    np.testing.assert_allclose(aer(points, points), kernel(points, points), atol=1e-10)


def test_alignment_by_its_definition():
    K, y = np.array([[1.0, 0.4, 0.2], [0.4, 1.0, 0.1], [0.2, 0.1, 1.0]]), np.array([1, 1, -1])
    t = np.array([0.5, 0.5, -1.0])
    by_hand = t @ K @ t / (np.linalg.norm(K) * (t @ t))
    assert kernel_alignment(K, y) == pytest.approx(by_hand)
    assert kernel_alignment(K, np.array(["b", "b", "a"])) == pytest.approx(by_hand)
    assert kernel_alignment(np.outer(t, t), y) == pytest.approx(1.0)
    assert kernel_alignment(-np.outer(t, t), y) == pytest.approx(-1.0)
    targets = np.array([0.5, 1.25, -2.0])
    centred = targets - targets.mean()
    assert kernel_alignment(np.outer(centred, centred), targets) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["fidelity, re-uploading", "projected, re-uploading"])
def test_training_raises_the_alignment_and_reports_it_on_held_out_points(name):
    points, y = make_moons(60, noise=0.1, random_state=0)
    kernel = KERNELS[name]()
    before = kernel(points, points)
    found = train_kernel(kernel, points, y, steps=20)
    assert (found.n_trained, found.n_held_out) == (45, 15)
    assert (np.diff(found.alignment) > -1e-12).all()
    assert found.alignment[-1] > found.alignment[0] + 0.1
    assert found.held_out[1] > found.held_out[0]
    assert found.p_value < 0.01
    assert "15 held out" in str(found)
    np.testing.assert_array_equal(kernel(points, points), before)  # the given kernel is not changed
    np.testing.assert_array_equal(found.kernel.weights, found.weights)
    everything = train_kernel(kernel, points, y, steps=2, held_out=0)
    assert everything.held_out is None
    assert everything.alignment[-1] == pytest.approx(kernel_alignment(everything.kernel(points, points), y), abs=1e-12)
    model = SVC(kernel=found.kernel, C=10).fit(points, y)
    np.testing.assert_array_equal(clone(model).fit(points, y).dual_coef_, model.dual_coef_)
    again = pickle.loads(pickle.dumps(found.kernel))
    np.testing.assert_array_equal(again(points, points), found.kernel(points, points))


def test_training_on_noise_warns():
    rng = np.random.default_rng(0)
    points, y = rng.normal(size=(40, 2)), rng.permutation(np.repeat([0, 1], 20))
    with pytest.warns(UserWarning, match="the points held out do not confirm"):
        found = train_kernel(FidelityKernel(Reuploading(4)), points, y, steps=60, random_state=1)
    assert found.alignment[-1] > found.alignment[0] + 0.1
    assert found.p_value > 0.05


def test_the_mean_alignment_with_held_out_points_is_0_for_random_labels():
    K, rng = FidelityKernel("angle")(X, X), np.random.default_rng(3)
    draws = [alignment_between(K[:5, 5:], rng.permutation([0, 0, 1, 1, 1]), np.array([0, 1, 1, 0])) for _ in range(300)]
    values, p = np.transpose(draws[:300])
    means = [value for value, _ in draws]
    assert abs(np.mean(means)) < 4 * np.std(means) / np.sqrt(len(means))
    assert np.mean(p <= 0.2) < 0.2 + 4 * np.sqrt(0.2 * 0.8 / len(p))  # p-values are uniform
    y = np.array([0, 0, 1, 1, 1])
    ideal = alignment_between(np.outer(np.where(y, 1, -1), [-1, 1, 1, -1]) + 0.5, y, np.array([0, 1, 1, 0]))
    assert ideal[1] < 0.3  # 1 of 10 orders
    assert values.min() < 0 < values.max()


def test_the_trained_kernel_keeps_device_and_shots_and_targets_may_be_real():
    kernel = ProjectedKernel(Reuploading(1), gamma=2.5, shots=500, random_state=7, n_qubits=3)
    found = train_kernel(kernel, X, X[:, 0] ** 2, steps=3, held_out=0).kernel
    assert (found.shots, found.gamma, found.n_qubits, found.random_state) == (500, 2.5, 3, 7)
    assert (found.shots_spent, kernel.shots_spent) == (0, 0)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: train_kernel("rbf", X, Y), TypeError, "found str"),
        (lambda: train_kernel(FidelityKernel("zz"), X, Y), ProblemError, "no weights; use Reuploading"),
        (lambda: train_kernel(KERNELS["fidelity"](), X, Y[:4]), ProblemError, "y has shape"),
        (lambda: train_kernel(KERNELS["fidelity"](), X, np.ones(9, int)), ProblemError, "one class only"),
        (lambda: train_kernel(KERNELS["fidelity"](), X, Y, held_out=1.0), ProblemError, "held_out=1.0"),
        (lambda: train_kernel(KERNELS["fidelity"](), X[:3], Y[:3]), ProblemError, "held_out=0.25 of 3 points"),
        (lambda: train_kernel(KERNELS["fidelity"](), X, Y, steps=0), ProblemError, "steps"),
        (lambda: train_kernel(KERNELS["fidelity"](), X, Y + np.nan), ProblemError, "y contains NaN"),
        (lambda: FidelityKernel(circuit(), weights={"phi": 1.0})(X, X), ProblemError, "no parameter 'phi'"),
        (lambda: FidelityKernel(circuit(), weights={THETA: [1.0]})(X, X), ProblemError, "1 values for 3"),
        (lambda: FidelityKernel(circuit(), weights=VALUES)(X, X), ProblemError, "weights of a circuit are a dict"),
        (lambda: FidelityKernel(circuit(), weights={"θ[0]": np.inf})(X, X), ProblemError, "must be finite"),
        (lambda: FidelityKernel(circuit())(X, X), ProblemError, "weights="),
        (lambda: FidelityKernel("reuploading", weights=[1.0])(X, X), ProblemError, "are 16 finite numbers"),
        (lambda: FidelityKernel("reuploading", weights="one")(X, X), ProblemError, "are 16 finite numbers"),
        (lambda: KERNELS["fidelity"]().with_weights([1.0]), ProblemError, "are 3 finite numbers"),
        (lambda: Reuploading(0), ProblemError, "layers"),
        (lambda: kernel_alignment(np.ones((2, 3)), [0, 1]), ProblemError, "must be square"),
        (lambda: kernel_alignment(np.zeros((2, 2)), [0, 1]), ProblemError, "no direction"),
    ],
)
def test_refusals_name_the_argument(call, error, words):
    with pytest.raises(error, match=words):
        call()


def test_an_angle_without_a_derivative_is_no_weight_to_train():
    made = QuantumCircuit(1)
    made.ry(THETA[0].sign() * FEATURES[0], 0)
    kernel = FidelityKernel(made, weights={THETA[0]: 0.5})
    assert kernel(X[:, :1], X[:, :1]).shape == (9, 9)
    with pytest.raises(ProblemError, match="has no derivative"):
        train_kernel(kernel, X[:, :1], Y, held_out=0)
