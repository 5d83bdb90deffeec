"""`record_circuits`: the circuits that runs send, with bound angles, as files that other packages read."""

import json
import threading

import numpy as np
import pytest
from qiskit import qasm3, qpy
from qiskit.quantum_info import Statevector

from dualflow import FidelityKernel, Gram, problems, record_circuits, solve

X = np.random.default_rng(0).normal(size=(4, 2))
LABELS = [1, -1, 1, -1]


def posed(kind):
    gram = Gram(X, "rbf", gamma=0.5)
    return problems.svdd(gram) if kind == "simplex" else problems.svc(gram, LABELS, C=1.0)


def recorded(solver, kind, **options):
    with record_circuits() as record:
        solution = solve(posed(kind), solver, device="emulator", random_state=0, refine=False, **options)
    return record, solution


CASES = [
    ("variational-flow", "simplex", {"max_steps": 3}),
    ("variational-flow", "simplex", {"max_steps": 2, "ansatz": "hardware-efficient"}),
    ("variational-lotka-volterra", "box", {"max_steps": 3, "shots": 50}),
    ("hamiltonian-dilation", "simplex", {"max_steps": 3}),
    ("hamiltonian-adiabatic", "box", {"max_steps": 2, "trotter_steps": 2}),
    ("quantum-interior-point", "linear", {"max_steps": 1, "clock": 2}),
]


@pytest.mark.parametrize(
    ("solver", "kind", "options"), CASES, ids=lambda value: value if isinstance(value, str) else ""
)
def test_files_hold_the_states_of_the_run(solver, kind, options, tmp_path, monkeypatch):
    if kind == "linear":
        monkeypatch.setattr(__name__ + ".posed", lambda _: problems.svc(Gram(X, "linear"), LABELS, C=1.0))
    record, solution = recorded(solver, kind, **options)
    assert len(record) == solution.cost.circuits > 0
    record.save(tmp_path)
    lines = json.loads((tmp_path / "manifest.json").read_text())
    for k in (0, len(record) - 1):
        family, theta, _ = record._sent[k]
        assert lines[k]["theta"] == theta.tolist()
        assert lines[k]["shots"] == options.get("shots")
        by_qasm = Statevector(qasm3.loads((tmp_path / lines[k]["files"][0]).read_text()))
        with open(tmp_path / lines[k]["files"][1], "rb") as file:
            [circuit] = qpy.load(file)
        assert circuit.num_parameters == 0
        by_qpy = Statevector(circuit)
        # The distribution of the family is computed without gates.
        np.testing.assert_allclose(by_qpy.probabilities(), family.distribution(theta), atol=1e-10)
        phase = np.vdot(by_qasm.data, by_qpy.data)  # OpenQASM 3 leaves it out
        np.testing.assert_allclose(by_qasm.data * phase, by_qpy.data, atol=1e-10)


def test_a_record_is_what_the_device_got(monkeypatch):
    from dualflow.quantum.devices.emulator import EmulatorDevice

    got, submit = [], EmulatorDevice._submit

    def counting(self, circuit, values, shots, tag, seed):
        got.extend(np.atleast_2d(values).tolist())
        return submit(self, circuit, values, shots, tag, seed)

    monkeypatch.setattr(EmulatorDevice, "_submit", counting)
    record, _ = recorded("variational-flow", "simplex", shots=100, max_steps=3, mitigation="confusion")
    assert [theta.tolist() for _, theta, _ in record._sent] == got
    assert any(circuit.name.startswith("calibration") for circuit in record)


def test_a_run_is_the_same_with_a_record_and_without():
    record, solution = recorded("variational-flow", "simplex", shots=100, max_steps=3)
    again = solve(
        posed("simplex"), "variational-flow", device="emulator", random_state=0, refine=False, shots=100, max_steps=3
    )
    np.testing.assert_array_equal(solution.alpha, again.alpha)
    assert len(record) == again.cost.circuits  # nothing was added after it was closed


def test_kernels_are_recorded_and_other_threads_are_not():
    def other():
        FidelityKernel("zz", device="aer", shots=10)(X, X)

    with record_circuits() as record:
        FidelityKernel("zz", device="aer", shots=10)(X, X)
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(record) == 6  # pairs of four points
