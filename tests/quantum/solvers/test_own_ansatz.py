"""A user's circuit as an ansatz: distributions, gradients, error messages, and runs."""

import copy
import pickle
import sys
from functools import partial

import numpy as np
import pytest
from qiskit import QuantumCircuit, QuantumRegister
from qiskit.circuit import Parameter, ParameterVector
from qiskit.circuit.library import efficient_su2, real_amplitudes
from qiskit.quantum_info import Statevector
from sklearn.base import clone
from sklearn.datasets import make_moons

import dualflow
from dualflow import SVC, Checkpoint, Gram, ProblemError, SolverMismatch, VariationalFlow, problems, solve
from dualflow.quantum.solvers.ansatz import make_ansatz
from dualflow.quantum.solvers.own_circuit import own_circuit

pytestmark = pytest.mark.filterwarnings("error")


def svdd(n):
    X, _ = make_moons(n, noise=0.2, random_state=0)
    return problems.svdd(Gram(X, kernel="rbf", gamma=1.0))


def shared():
    """Two parameters, each in several gates, with factors and sums."""
    a, b = Parameter("a"), Parameter("b")
    circuit = QuantumCircuit(QuantumRegister(2, "u"), QuantumRegister(1, "v"), name="shared")
    circuit.ry(2 * a, 0)
    circuit.rx(b - a / 3 + 0.2, 1)
    circuit.crx(a, 0, 2)
    circuit.barrier()
    circuit.cp(b, 1, 2)
    circuit.rzz(a + b, 0, 1)
    circuit.u(a, b, 0.3, 2)
    circuit.h(1)
    circuit.ry(0.4, 0)
    circuit.ccx(0, 1, 2)
    return circuit


CIRCUITS = [real_amplitudes(3, reps=2), efficient_su2(2, reps=1), shared()]


@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
def test_a_qiskit_circuit_is_decomposed_exactly(circuit):
    own, rng = own_circuit(circuit), np.random.default_rng(0)
    assert own.n_angles == circuit.num_parameters
    for theta in rng.uniform(-4, 4, (3, own.n_angles)):
        dense = Statevector(circuit.assign_parameters(theta)).probabilities()
        assert own.circuit.distribution(own.angles(theta)) == pytest.approx(dense, abs=1e-12)
        built = own.circuit.build().assign_parameters(own.angles(theta))
        assert Statevector(built).probabilities() == pytest.approx(dense, abs=1e-12)


@pytest.mark.parametrize("circuit", CIRCUITS, ids=lambda circuit: circuit.name)
@pytest.mark.parametrize("n", [2, 3, 4])
def test_gradients_are_those_of_finite_differences(circuit, n):
    ansatz = make_ansatz(own_circuit(circuit), n)
    theta = np.random.default_rng(1).uniform(-3, 3, ansatz.n_angles)

    def mu(theta):
        dense, found = Statevector(circuit.assign_parameters(theta)).probabilities(), np.zeros(n)
        np.add.at(found, np.arange(len(dense)) % n, dense)
        return found

    known, tangents = ansatz.tangents(ansatz.circuit.distribution(ansatz.bindings(theta, exact=True)), None)
    assert known == pytest.approx(mu(theta), abs=1e-12)
    steps = 1e-5 * np.eye(ansatz.n_angles)
    differences = np.array([(mu(theta + step) - mu(theta - step)) / 2e-5 for step in steps]).T
    assert np.abs(tangents - differences).max() < 1e-9
    assert np.abs(tangents).max() > 1e-2


def layered(weights, wires):
    import pennylane as qml

    for layer in weights:
        for k, wire in enumerate(wires):
            qml.Rot(layer[k], 2 * layer[0] - layer[k], 0.3, wires=wire)
        qml.CRY(layer[1], wires=[wires[0], wires[1]])
        qml.IsingXX(layer[0] + 0.1, wires=[wires[1], wires[2]])


def test_a_pennylane_function_is_decomposed_exactly():
    qml = pytest.importorskip("pennylane")
    own = own_circuit(layered, (2, 3), 3)
    device = qml.device("default.qubit", wires=3)

    @qml.qnode(device)
    def qnode(weights):
        layered(weights, range(3))
        return qml.probs(wires=[2, 1, 0])  # the most significant bit first

    of_qnode = own_circuit(qnode, (2, 3))
    assert of_qnode.circuit == own.circuit
    assert of_qnode.slopes == own.slopes
    for theta in np.random.default_rng(0).uniform(-3, 3, (3, 6)):
        dense = qnode(theta.reshape(2, 3))
        assert own.circuit.distribution(own.angles(theta)) == pytest.approx(dense, abs=1e-9)
    wide = own_circuit(partial(layered, wires=range(3)), (2, 3))
    assert wide.circuit == own.circuit


@pytest.mark.parametrize("device", ["aer", "pennylane:lightning.qubit"])
def test_devices_give_the_same_path(device):
    pytest.importorskip("pennylane")
    problem, given = svdd(6), {"ansatz": shared(), "max_steps": 4, "tol": 1e-12, "trajectory": True}
    ours = solve(problem, "variational-flow", device="emulator", **given)
    theirs = solve(problem, "variational-flow", device=device, **given)
    assert np.abs(ours.trajectory.alpha - theirs.trajectory.alpha).max() < 1e-9


@pytest.mark.parametrize("n", [4, 6])
def test_a_run_ends_at_the_optimum_that_the_circuit_reaches(n):
    problem, circuit = svdd(n), real_amplitudes(3, reps=4)
    solution = solve(problem, "variational-flow", device="emulator", ansatz=circuit, tol=1e-6, refine=False)
    assert solution.raw_certificate.relative_gap <= 1e-6
    assert solution.provenance["angles"] == 15
    assert solution.provenance["circuits_a_step"] == 2 * 15 + 1
    assert "RealAmplitudes" in solution.provenance["ansatz"]
    final = Statevector(dualflow.final_circuit(solution)).probabilities()
    folded = [final[k::n].sum() for k in range(n)]
    assert np.array(folded) == pytest.approx(solution.raw_alpha, abs=1e-9)
    assert solution.extras["parameter_alpha"] == pytest.approx(solution.raw_alpha, abs=1e-9)


def test_with_shots_a_run_comes_near_and_is_estimated_exactly():
    problem, given = svdd(4), {"ansatz": real_amplitudes(2, reps=2), "shots": 2000, "steps": 15}
    found = dualflow.estimate(problem, "variational-flow", "emulator", **given)
    solution = solve(problem, "variational-flow", device="emulator", tol=1e-12, **given)
    assert found.fixed
    assert (found.circuits, found.shots) == (solution.cost.circuits, solution.cost.shots)
    assert found.circuits == 16 * (3 * 6 + 1)
    exact = solve(problem, tol=1e-9).certificate.objective
    assert problem.objective(problem.project(solution.raw_alpha)) - exact < 0.02 * abs(exact)


def test_a_run_is_resumed_and_another_circuit_is_not(tmp_path):
    problem, saving = svdd(6), Checkpoint(tmp_path / "run.npz", interval_s=0.0)

    def run(circuit, **more):
        solver = VariationalFlow("emulator", shots=500, ansatz=circuit, steps=8)
        return solve(problem, solver, tol=1e-12, random_state=3, **more)

    whole = run(real_amplitudes(3))
    assert run(real_amplitudes(3), max_steps=3, checkpoint=saving).status.name == "STEP_LIMIT"
    with pytest.raises(ProblemError, match="belongs to another run: its options"):
        run(efficient_su2(3), checkpoint=saving)
    resumed = run(real_amplitudes(3), checkpoint=saving)
    assert np.array_equal(resumed.raw_alpha, whole.raw_alpha)


def test_a_solver_with_a_circuit_is_plain_data():
    pytest.importorskip("pennylane")
    circuit = shared()
    solver = VariationalFlow("emulator", ansatz=circuit)
    function = VariationalFlow("emulator", ansatz=lambda w, wires: layered(w, wires), angles=(1, 3), qubits=3)
    for one in (solver, function):
        for other in (pickle.loads(pickle.dumps(one)), copy.deepcopy(one)):
            assert other == one
            assert repr(other) == repr(one)
            assert hash(other) == hash(one)
    circuit.ry(Parameter("z"), 0)  # the solver has a copy
    assert solver == VariationalFlow("emulator", ansatz=shared())
    assert solver != VariationalFlow("emulator", ansatz=circuit)


def test_an_estimator_takes_one_and_says_that_no_file_does(tmp_path):
    X, y = make_moons(8, noise=0.1, random_state=0)
    options = {"device": "emulator", "ansatz": real_amplitudes(3, reps=4)}
    model = clone(SVC(loss="squared_hinge", solver="variational-flow", solver_options=options)).fit(X, y)
    assert model.score(X, y) >= 0.75
    with pytest.raises(ProblemError, match=r"'ansatz'.*cannot be stored without pickle; keep a model with an ansatz"):
        model.save(tmp_path / "model")
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.decision_function(X), model.decision_function(X))


def bent():
    a = Parameter("a")
    circuit = QuantumCircuit(1)
    circuit.ry(a * a, 0)
    return circuit


def measured():
    circuit = real_amplitudes(2)
    circuit.measure_all()
    return circuit


def unmoved():
    circuit = QuantumCircuit(2)
    circuit.h(0)
    return circuit


def of_phase():
    circuit = QuantumCircuit(1, global_phase=Parameter("a"))
    circuit.h(0)
    return circuit


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ansatz": "bush"}, "ansatz='bush' is not one of 'tree', 'hardware-efficient' .others are not known"),
        ({"ansatz": [1, 2]}, r"ansatz=\[1, 2\] of type list is not one of .* PennyLane function or QNode, with angles"),
        ({"ansatz": QuantumCircuit}, "of type type is not one of"),
        ({"ansatz": None}, "ansatz=None of type NoneType is not one of"),
        ({"ansatz": bent()}, r"the angle a\*.* is no affine function of the parameters"),
        ({"ansatz": measured()}, "ansatz: the circuit holds 'measure'.*an ansatz prepares a state.*remove_final"),
        ({"ansatz": unmoved()}, "the circuit has no parameters"),
        ({"ansatz": of_phase()}, "no rotation of the circuit depends on a parameter"),
        ({"ansatz": real_amplitudes(2), "layers": 2}, "layers=2 is an option of ansatz='hardware-efficient'"),
        ({"ansatz": real_amplitudes(2), "angles": 4}, "angles=4 goes with an ansatz that is a PennyLane function"),
        ({"qubits": 4}, "qubits=4 goes with an ansatz that is a PennyLane function"),
        ({"ansatz": real_amplitudes(2), "qubits": 0}, "qubits=0 must be an integer ≥ 1"),
        ({"ansatz": real_amplitudes}, "real_amplitudes is a Qiskit function that returns circuits"),
    ],
)
def test_an_unsuitable_circuit_is_refused(options, message):
    with pytest.raises(ProblemError, match=message):
        VariationalFlow("emulator", **options)


def fickle(w):
    import pennylane as qml

    for _ in range(2 + int(w[0] > 0.7)):
        qml.RX(w[0], wires=0)


def curved(w):
    import pennylane as qml

    qml.RX(w[0], wires=0)
    qml.RY(w[0] * w[1], wires=1)


def measuring(w):
    import pennylane as qml

    qml.RX(w[0], wires=0)
    qml.measure(0)


def far_out(w, wires):
    import pennylane as qml

    qml.RX(w[0], wires=7)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ansatz": layered}, "layered is called with weights of shape angles"),
        ({"ansatz": layered, "angles": (2, 0)}, r"angles=\(2, 0\), but layered is called with"),
        ({"ansatz": layered, "angles": (2, 3)}, "layered takes wires; set their number by qubits"),
        ({"ansatz": fickle, "angles": 1}, "applies other gates at other weights"),
        ({"ansatz": curved, "angles": 2}, "in curved, the angle of ry on wire 1 is no affine function"),
        ({"ansatz": measuring, "angles": 1}, "the function measures; an ansatz prepares a state"),
        ({"ansatz": far_out, "angles": 1, "qubits": 2}, "RX acts on wire 7, and the wires are 0 to 1; set qubits"),
        ({"ansatz": lambda w: None, "angles": 1}, "applies no PennyLane operation"),
        ({"ansatz": lambda w: QuantumCircuit(2), "angles": 1}, "returns a circuit; give such a circuit"),
        ({"ansatz": lambda a, b, c: None, "angles": 1}, "takes a, b, c: set the others by functools.partial"),
    ],
)
def test_an_unsuitable_function_is_refused(options, message):
    pytest.importorskip("pennylane")
    with pytest.raises(ProblemError, match=message):
        VariationalFlow("emulator", **options)


def test_without_pennylane_a_function_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pennylane", None)
    with pytest.raises(dualflow.SolverUnavailable, match="pip install pennylane"):
        VariationalFlow("emulator", ansatz=layered, angles=(2, 3), qubits=3)


def test_too_few_outcomes_and_too_many_rotations_are_a_mismatch():
    with pytest.raises(SolverMismatch, match="has 4 outcomes, and the problem has 6 variables; give a circuit of 3"):
        solve(svdd(6), "variational-flow", device="emulator", ansatz=real_amplitudes(2))
    many = QuantumCircuit(1)
    for angle in ParameterVector("t", 1601):
        many.ry(angle, 0)
    with pytest.raises(SolverMismatch, match=r"at most 1600 rotations, and .* has 1601"):
        solve(svdd(2), "variational-flow", device="emulator", ansatz=many)


def test_a_warm_start_is_refused():
    with pytest.raises(ProblemError, match=r"warm: ansatz=<circuit 'RealAmplitudes'.*use ansatz='tree'"):
        solve(svdd(4), "variational-flow", device="emulator", ansatz=real_amplitudes(2), warm=np.full(4, 0.25))
