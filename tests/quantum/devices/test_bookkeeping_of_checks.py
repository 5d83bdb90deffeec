"""Checks of the bit order, which a device runs in addition, are counted, forecast and kept within budgets."""

import numpy as np
import pytest

import dualflow
from dualflow import DeviceError
from dualflow.quantum.devices.backend import BackendDevice
from dualflow.quantum.devices.partial_simulator import active_qubits, simulator_of

N_CHECKS, CHECK_SHOTS = 4, 200  # two jobs of two circuits, of three qubits
RUN = {"shots": 500, "steps": 5, "random_state": 3, "tol": 1e-300}


class Counting(BackendDevice):
    """Counts the circuits and shots that reach the backend."""

    def __init__(self, check=True):
        from qiskit.providers.fake_provider import GenericBackendV2

        super().__init__(GenericBackendV2(4, noise_info=True, seed=7), check_bit_order=check)
        self.circuits = self.shots = 0

    def _send(self, circuit, bindings, request, tag, seed):
        self.circuits += request.rows
        self.shots += request.rows * request.shots
        return super()._send(circuit, bindings, request, tag, seed)


def posed():
    X = np.random.default_rng(0).normal(size=(6, 2))
    return dualflow.problems.svdd(dualflow.Gram(X, gamma=0.5))


@pytest.mark.parametrize("mitigation", [None, "confusion"])
def test_checks_of_the_order_of_bits_are_counted_and_forecast(mitigation):
    device, plain = Counting(), Counting(check=False)
    said = dualflow.estimate(posed(), "variational-flow", device, mitigation=mitigation, **RUN)
    found = dualflow.solve(posed(), "variational-flow", device=device, mitigation=mitigation, **RUN)
    without = dualflow.solve(posed(), "variational-flow", device=plain, mitigation=mitigation, **RUN)
    assert (found.cost.circuits, found.cost.shots) == (device.circuits, device.shots) == (said.circuits, said.shots)
    assert found.cost.circuits == without.cost.circuits + N_CHECKS
    assert found.cost.shots == without.cost.shots + N_CHECKS * CHECK_SHOTS
    np.testing.assert_array_equal(found.raw_alpha, without.raw_alpha)
    again = dualflow.solve(posed(), "variational-flow", device=device, mitigation=mitigation, **RUN)
    assert again.cost.shots == without.cost.shots  # once a device


@pytest.mark.parametrize(("solver", "checks"), [("variational-flow", N_CHECKS), ("hamiltonian-dilation", 6)])
def test_checks_are_within_budgets(solver, checks):
    refused, most = Counting(), 2 * 500 + checks * CHECK_SHOTS
    for budget in (most, most + 499):
        options = {"shots": 500, "shot_budget": budget, "random_state": 0, "tol": 1e-300}
        found = dualflow.solve(posed(), solver, device=Counting(), **options)
        assert found.cost.shots == most
    with pytest.raises(DeviceError, match="max_shots=399 does not hold"):
        dualflow.solve(posed(), solver, device=refused, shots=500, max_shots=399)
    assert refused.circuits == 0
    with pytest.raises(dualflow.ProblemError, match=f"{200 * checks} shots of calibration"):
        dualflow.solve(posed(), solver, device=refused, shots=500, shot_budget=1299)


def test_a_resumed_run_checks_no_more(tmp_path):
    files = {"checkpoint": tmp_path / "run.npz", "journal": tmp_path / "jobs.db"}
    whole = dualflow.solve(posed(), "variational-flow", device=Counting(), **RUN)
    dualflow.solve(posed(), "variational-flow", device=Counting(), max_steps=2, **RUN, **files)
    device = Counting()
    rest = dualflow.solve(posed(), "variational-flow", device=device, **RUN, **files)
    assert (device.circuits, device.shots) == (3, 3 * 500)
    np.testing.assert_array_equal(rest.raw_alpha, whole.raw_alpha)
    assert (rest.cost.circuits, rest.cost.shots) == (whole.cost.circuits, whole.cost.shots)


def test_a_simulator_of_some_qubits_gives_the_counts_of_the_whole_machine():
    from qiskit import QuantumCircuit, transpile
    from qiskit.providers.fake_provider import GenericBackendV2
    from qiskit_aer import AerSimulator

    backend = GenericBackendV2(12, noise_info=True, seed=1)
    circuit = QuantumCircuit(12, 3)
    circuit.h(5)
    circuit.cx(5, 7)
    circuit.cx(7, 2)
    circuit.barrier()
    circuit.measure([5, 7, 2], [0, 1, 2])
    compiled = transpile(circuit, backend, optimization_level=0)
    assert active_qubits(compiled) == {2, 5, 7}
    part, whole = simulator_of(backend, active_qubits(compiled)), AerSimulator.from_backend(backend)
    counts = [s.run(compiled, shots=3000, seed_simulator=5).result().get_counts() for s in (part, whole)]
    assert counts[0] == counts[1]
    assert len(counts[0]) == 8  # errors show
    assert set(part.options.noise_model.noise_qubits) == {2, 5, 7}
    assert len(whole.options.noise_model.noise_qubits) == 12
