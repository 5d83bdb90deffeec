"""Circuits of Qiskit's library as feature maps, against Qiskit's states; errors with a way out."""

from functools import partial

import numpy as np
import pytest
from qiskit import QuantumCircuit, QuantumRegister
from qiskit.circuit import Delay, Parameter, ParameterVector
from qiskit.circuit import library as qiskit
from qiskit.quantum_info import SparsePauliOp, Statevector

from dualflow import FidelityKernel, ProblemError, ProjectedKernel, quantum_kernel

RNG = np.random.default_rng(11)


def angles() -> QuantumCircuit:
    x = ParameterVector("x", 2)
    circuit = QuantumCircuit(2)
    circuit.h([0, 1])
    circuit.ry(x[0], 0)
    circuit.rz(x[0] * x[1], 1)
    circuit.cx(0, 1)
    return circuit


def strange() -> QuantumCircuit:
    """Registers, barriers, bits that nothing is written to, a phase, wide gates, an inverted subcircuit."""
    x = ParameterVector("x", 3)
    circuit = QuantumCircuit(QuantumRegister(2, "a"), QuantumRegister(1, "b"), global_phase=x[0])
    circuit.add_bits([*QuantumCircuit(0, 2).clbits])
    circuit.append(angles().assign_parameters(x[:2]).to_instruction(), [2, 0])
    circuit.barrier()
    circuit.ccx(0, 1, 2)
    circuit.cp(x[2], 0, 2)
    circuit.id(1)
    circuit.unitary(np.array([[0, 1], [1j, 0]]), [1])
    circuit.append(qiskit.QFTGate(3), range(3))
    circuit.swap(0, 1)
    return circuit


def bound() -> QuantumCircuit:
    """Two features, one angle that is a number."""
    circuit = qiskit.z_feature_map(3, reps=1)
    return circuit.assign_parameters({circuit.parameters[1]: 0.7})


LIBRARY = {
    "z": qiskit.z_feature_map(3),
    "zz, linear": qiskit.zz_feature_map(3, entanglement="linear"),
    "zz, own function": qiskit.zz_feature_map(2, data_map_func=lambda x: np.prod(np.sin(x))),
    "pauli": qiskit.pauli_feature_map(3, paulis=["X", "YZ", "XYZ"]),
    "efficient SU2": qiskit.efficient_su2(2, reps=1),
    "real amplitudes": qiskit.real_amplitudes(3, reps=1),
    "n-local": qiskit.n_local(3, ["rx", "rz"], "crx", reps=1),
    "excitation preserving": qiskit.excitation_preserving(2, reps=1),
    "QAOA": qiskit.qaoa_ansatz(SparsePauliOp(["ZZ", "XI"], [1, 0.5])),
    "own": strange(),
    "partly bound": bound(),
}


def states(circuit: QuantumCircuit, X: np.ndarray) -> np.ndarray:
    return np.array([Statevector(circuit.assign_parameters(x)).data for x in X])


@pytest.mark.parametrize("name", LIBRARY)
def test_a_circuit_of_the_library_is_a_feature_map(name):
    circuit = LIBRARY[name]
    X = RNG.uniform(-1, 1, (4, circuit.num_parameters))
    phi = states(circuit, X)
    K = quantum_kernel(circuit, X)
    np.testing.assert_allclose(K, np.abs(phi.conj() @ phi.T) ** 2, atol=1e-12)
    np.testing.assert_allclose(quantum_kernel(circuit, X[:2], device="aer"), K[:2, :2], atol=1e-12)


@pytest.mark.parametrize(
    "given", [qiskit.z_feature_map, partial(qiskit.zz_feature_map, reps=1), lambda n: qiskit.real_amplitudes(n, reps=0)]
)
def test_a_function_of_the_library_is_given_the_number_of_features(given):
    X = RNG.uniform(-1, 1, (3, 2))
    np.testing.assert_array_equal(ProjectedKernel(given)(X, X), ProjectedKernel(given(2))(X, X))


def measured() -> QuantumCircuit:
    circuit = angles()
    circuit.measure_all()
    return circuit


def with_operation(operate) -> QuantumCircuit:
    circuit = angles()
    operate(circuit)
    return circuit


def saved() -> QuantumCircuit:
    import qiskit_aer  # noqa: F401  # brings save_statevector

    return with_operation(lambda circuit: circuit.save_statevector())


def conditional() -> QuantumCircuit:
    circuit = QuantumCircuit(2, 1)
    circuit.compose(angles(), inplace=True)
    with circuit.if_test((circuit.clbits[0], 1)):
        circuit.x(0)
    return circuit


def complex_angle() -> QuantumCircuit:
    a, b = Parameter("a"), Parameter("b")
    circuit = QuantumCircuit(1)
    circuit.ry(1j * a, 0)
    circuit.rz(b, 0)
    return circuit


REFUSED = {
    "measured": (measured(), "holds 'measure', which is not a unitary gate.*remove_final_measurements"),
    "reset": (with_operation(lambda c: c.reset(0)), "holds 'reset'.*leave it out"),
    "initialize": (with_operation(lambda c: c.initialize([1, 0], 0)), "holds 'initialize'.*prepare_state"),
    "delay": (with_operation(lambda c: c.append(Delay(100), [0])), "holds 'delay'"),
    "conditional": (conditional(), "holds 'if_else'"),
    "saved": (saved(), "Qiskit cannot decompose the circuit into cx, cz, .*save_statevector"),
    "bound": (angles().assign_parameters([0.1, 0.2]), "has 0 parameters and the points have 2.*unbound"),
    "few": (qiskit.z_feature_map(1), "has 1 parameters and the points have 2 features.*or take fewer features"),
    "many": (qiskit.z_feature_map(3), "has 3 parameters and the points have 2 features.*weights={"),
    "empty": (QuantumCircuit(2), "has 0 parameters"),
    "phase only": (QuantumCircuit(1, global_phase=sum(ParameterVector("x", 2))), "no gate of the circuit depends"),
    "complex": (complex_angle(), "an angle of the point .* is not finite, or not real"),
    "name": ("ZZFeatureMap", "'ZZFeatureMap' is not one of 'angle', .*give any other map as a circuit"),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kernel", [FidelityKernel, ProjectedKernel])
def test_an_unsuitable_feature_map_is_refused_with_a_way_out(name, kernel):
    given, words = REFUSED[name]
    X = RNG.uniform(0.1, 1, (3, 2))
    with pytest.raises(ProblemError, match=f"feature_map.*{words}"):
        kernel(given)(X, X)


def test_the_way_out_of_too_many_parameters_works():
    circuit = qiskit.zz_feature_map(2).compose(qiskit.efficient_su2(2, reps=1))
    weights = {p: 0.1 * k for k, p in enumerate(qiskit.efficient_su2(2, reps=1).parameters)}
    X = RNG.uniform(-1, 1, (3, 2))
    with pytest.raises(ProblemError, match="10 parameters"):
        quantum_kernel(circuit, X)
    phi = states(circuit.assign_parameters({p.name: v for p, v in weights.items()}), X)
    K = quantum_kernel(circuit, X, weights={p.name: v for p, v in weights.items()})
    np.testing.assert_allclose(K, np.abs(phi.conj() @ phi.T) ** 2, atol=1e-12)


def test_the_way_out_of_measurements_works():
    X = RNG.uniform(-1, 1, (3, 2))
    circuit = measured().remove_final_measurements(inplace=False)
    np.testing.assert_allclose(quantum_kernel(circuit, X), quantum_kernel(angles(), X), atol=1e-12)


@pytest.mark.parametrize("value", ["a", 1j, None, [1, 2], np.inf])
def test_weights_are_real_numbers(value):
    with pytest.raises(ProblemError, match=r"weights\['x\[1\]'\]"):
        quantum_kernel(qiskit.z_feature_map(2), np.ones((2, 1)), weights={"x[1]": value})


def test_a_function_with_more_arguments_is_refused_with_a_way_out():
    with pytest.raises(
        TypeError, match=r"feature_map: a function.* needs num_qubits, rotation_blocks, entanglement_blocks"
    ):
        quantum_kernel(qiskit.n_local, np.ones((2, 2)))
    made = partial(qiskit.n_local, rotation_blocks="ry", entanglement_blocks="cz", reps=0)
    assert quantum_kernel(made, np.ones((2, 2))).shape == (2, 2)


def test_a_circuit_that_is_changed_later_changes_no_kernel():
    circuit, X = angles(), np.array([[0.9, 0.8], [-0.7, 0.4], [0.2, -0.5]])  # some draws of RNG are nearly equal
    kernel, K = FidelityKernel(circuit), quantum_kernel(circuit, X)
    before = circuit.copy()
    circuit.rx(circuit.parameters[0], 1)
    np.testing.assert_array_equal(kernel(X, X), K)
    assert np.abs(quantum_kernel(circuit, X) - K).max() > 1e-3
    assert before != circuit
