"""`dualflow.circuit`: the circuit before a run, against the circuits that a run sends."""

import numpy as np
import pytest
from qiskit.quantum_info import Statevector

import dualflow
from dualflow import Gram, ProblemError, SolverMismatch, problems
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.circuits.export import families
from dualflow.quantum.devices.emulator import EmulatorDevice
from dualflow.solvers.registry import list_solvers

X = np.array([[0.0, 0.1], [1.0, 0.3], [0.2, 2.0], [3.0, 1.0]])
Y = np.array([1.0, -1.0, 1.0, -1.0])
BY_KIND = {
    "simplex": problems.svdd(Gram(X, gamma=0.5)),
    "box": problems.svc(Gram(X), Y, fit_intercept=False),
    "box with equality": problems.svc(Gram(X), Y),
    "affine": problems.least_squares(Gram(X), Y),
}
QUANTUM = [info for info in list_solvers() if info.quantum and info.name in dualflow.solvers.SOLVERS.targets]


class Recorder(EmulatorDevice):
    """The emulator, with the angles of all circuits."""

    def __init__(self):
        super().__init__()
        self.sent = []

    def _submit(self, circuit, values, shots, tag, seed):
        self.sent.append((circuit, np.atleast_2d(values)))
        return super()._submit(circuit, values, shots, tag, seed)


@pytest.mark.parametrize("info", QUANTUM, ids=lambda info: info.name)
def test_the_circuit_and_its_first_angles_are_those_that_the_run_sends(info):
    problem = next(problem for kind, problem in BY_KIND.items() if kind in info.kinds)
    device = Recorder()
    dualflow.solve(problem, info.name, device=device, max_steps=1, random_state=3)
    free = dualflow.circuit(problem, info.name)
    bound = dualflow.circuit(problem, info.name, angles="first", random_state=3)
    family, theta = next((c, values) for c, values in device.sent if c.name == free.name)
    assert free == family.build()
    assert bound.num_parameters == 0
    np.testing.assert_array_equal(bound.metadata["theta"], theta[0])
    if family.n_qubits <= 8:
        ours = Statevector(bound).probabilities()
        np.testing.assert_allclose(ours, family.distribution(theta[0]).ravel(), atol=1e-9)


def test_every_family_in_the_table_of_circuits_is_sent_by_what_it_says():
    sent_by = {family.family: family.sent_by for family in families()}
    assert all(sent_by.values())
    for info in QUANTUM:
        problem = next(problem for kind, problem in BY_KIND.items() if kind in info.kinds)
        name = dualflow.circuit(problem, info.name).name
        family = max((f for f in sent_by if name.startswith(f)), key=len)
        assert f"`{info.name}`" in sent_by[family]


def test_given_angles_are_those_of_the_solver_not_those_of_the_gates():
    theta = [0.3, 1.1, 2.0]
    found = dualflow.circuit(BY_KIND["simplex"], "variational-flow", angles=theta)
    ideal = TreeCircuit(2).distribution(theta).ravel()
    np.testing.assert_allclose(Statevector(found).probabilities(), ideal, atol=1e-12)
    gates = TreeCircuit(2).build().assign_parameters(theta)
    assert np.abs(Statevector(gates).probabilities() - ideal).max() > 0.1


def test_what_has_no_circuit_is_refused():
    ball = BY_KIND["simplex"]
    with pytest.raises(ProblemError, match="runs no circuits"):
        dualflow.circuit(ball, "smo")
    with pytest.raises(SolverMismatch, match="variational-flow"):
        dualflow.circuit(BY_KIND["box"], "variational-flow")
    with pytest.raises(ProblemError, match="angles='last'"):
        dualflow.circuit(ball, "variational-flow", angles="last")
    with pytest.raises(ProblemError, match="takes"):
        dualflow.circuit(ball, "variational-flow", angles=[0.1])
    with pytest.raises(ProblemError, match="one circuit"):
        dualflow.circuit(ball, "variational-flow", angles=np.zeros((2, 3)))


def test_a_model_in_place_of_a_problem_names_the_way_out():
    model = dualflow.SVC(C=10).fit(X, Y)
    with pytest.raises(ProblemError, match=r"found SVC; that of a fitted model is model\.solution_\.problem"):
        dualflow.circuit(model, "variational-lotka-volterra")
    assert dualflow.circuit(model.solution_.problem, "variational-lotka-volterra").num_qubits == 3
