"""The device protocol: every device of the catalogue, its shot noise, its errors, its laziness."""

import copy
import importlib.util
import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from dualflow import DeviceError, ProblemError, SolverUnavailable
from dualflow.quantum.circuits import HardwareEfficientCircuit, ParametricCircuit, TreeCircuit
from dualflow.quantum.devices import Capabilities, Device, Readout, list_devices, make_device

CONTROLS = ("random", "permuted", "shuffled", "corner", "field")
# Controls, which have other distributions, are tested in test_controls.
NAMES = [info.name for info in list_devices() if info.installed and not info.name.startswith("control:")]
EXACT = [info.name for info in list_devices() if info.exact and info.name in NAMES]
CIRCUIT = TreeCircuit(3)
THETA = np.random.default_rng(0).uniform(0.6, np.pi - 0.6, (2, 7))
SHOTS = 20_000


@dataclass(frozen=True)
class EveryGate(ParametricCircuit):
    """All gates of PennyLane's translation, on qubits in asymmetric states, so that mixed-up qubits are found."""

    family: ClassVar[str] = "every-gate"
    n_parameters = 3

    def _build(self):
        from qiskit import QuantumCircuit
        from qiskit.circuit import ParameterVector

        angles, circuit = ParameterVector("a", 3), QuantumCircuit(3)
        circuit.h(0)
        circuit.rz(angles[0], 0)
        circuit.rx(angles[1], 0)
        circuit.x(1)
        circuit.ry(0.3, 1)
        circuit.cx(0, 1)
        circuit.ry(angles[2], 2)
        circuit.cz(1, 2)
        circuit.rx(0.8, 2)
        return circuit


def chi_square(counts, expected):
    return float(((counts - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("name", EXACT)
def test_counts_follow_the_distribution(name):
    readout = make_device(name).submit(CIRCUIT, THETA, SHOTS, "a tag", seed=11).result()
    assert readout.counts.shape == (2, 8)
    assert (readout.counts.sum(axis=1) == SHOTS).all()
    assert readout.shots == SHOTS
    np.testing.assert_array_equal(readout.probabilities, readout.counts / SHOTS)
    noisy = make_device(name).capabilities.noisy  # tests of noise have a file of their own
    expected = SHOTS * (
        make_device(name).submit(CIRCUIT, THETA).result().probabilities if noisy else CIRCUIT.distribution(THETA)
    )
    assert expected.min() > 5
    for counts, mean in zip(readout.ordered("little").counts, expected, strict=True):
        # χ² with 7 degrees of freedom has mean 7 and standard deviation √14; a wrong bit order gives thousands.
        assert chi_square(counts, mean) < 7 + 5 * np.sqrt(14)
        assert chi_square(counts, mean) > 0


@pytest.mark.parametrize("name", NAMES)
def test_seeds(name):
    device = make_device(name)
    first, again, other = (device.submit(CIRCUIT, THETA[0], 500, seed=s).result().counts for s in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()
    # Two circuits of one batch must not share their shot noise.
    twice = device.submit(CIRCUIT, THETA[[0, 0]], 500, seed=3).result().counts
    assert (twice[0] != twice[1]).any()
    unseeded = [device.submit(CIRCUIT, THETA[0], 500).result().counts for _ in range(3)]
    assert (unseeded[0] != unseeded[1]).any() or (unseeded[0] != unseeded[2]).any()


@pytest.mark.parametrize("name", EXACT)
def test_one_binding_or_a_batch(name):
    device = make_device(name)
    one, batch = device.submit(CIRCUIT, THETA[1]).result(), device.submit(CIRCUIT, THETA).result()
    assert one.probabilities.shape == (8,)
    assert batch.probabilities.shape == (2, 8)
    np.testing.assert_allclose(batch.probabilities[1], one.probabilities, atol=1e-14)
    np.testing.assert_allclose(batch.probabilities.sum(axis=1), 1.0, atol=1e-12)


def test_null_is_uniform_for_every_circuit():
    readout = make_device("null").submit(CIRCUIT, THETA).result()
    np.testing.assert_array_equal(readout.probabilities, 1 / 8)


@pytest.mark.parametrize("name", ["pennylane:default.qubit", "pennylane:lightning.qubit"])
def test_translation_of_every_gate(name):
    angles = np.random.default_rng(1).uniform(-np.pi, np.pi, (4, 3))
    ours = make_device(name).submit(EveryGate(3), angles).result().probabilities
    theirs = make_device("aer").submit(EveryGate(3), angles).result().probabilities
    np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert np.ptp(theirs, axis=0).max() > 0.1


@pytest.mark.parametrize("name", ["aer", "pennylane:default.qubit", "pennylane:lightning.qubit"])
def test_a_step_of_the_parameter_shift_rule_equals_the_emulator(name, monkeypatch):
    circuit = HardwareEfficientCircuit(4, 3)
    batch = circuit.shifts(np.random.default_rng(2).uniform(0, 2 * np.pi, circuit.n_parameters))
    exact = make_device("emulator").submit(circuit, batch).result().probabilities
    device = make_device(name)
    np.testing.assert_allclose(device.submit(circuit, batch).result().probabilities, exact, atol=1e-12)
    monkeypatch.setattr("dualflow.quantum.devices.pennylane.MAX_BATCH_AMPLITUDES", 7 * 16)
    np.testing.assert_allclose(device.submit(circuit, batch).result().probabilities, exact, atol=1e-12)


def test_the_emulator_recognises_a_batch_of_shifts_by_its_class_alone(monkeypatch):
    circuit, device, taken = HardwareEfficientCircuit(3, 2), make_device("emulator"), []
    short = HardwareEfficientCircuit.shift_distributions
    monkeypatch.setattr(
        HardwareEfficientCircuit, "shift_distributions", lambda self, theta: taken.append(theta) or short(self, theta)
    )
    theta = np.arange(circuit.n_parameters) / 7
    batch = circuit.shifts(theta, again=2)
    theta[:] = 0.0  # the batch has its own
    # The same numbers as an ordinary array, and results of operations on a batch.
    others = (np.array(batch), batch.copy(), batch[1:], batch[::-1], batch + 0.1, copy.deepcopy(batch))
    for values in (batch, *others):
        found = device.submit(circuit, values).result().probabilities
        np.testing.assert_allclose(found, circuit.distribution(values), atol=1e-13)
    assert len(taken) == 1
    np.testing.assert_array_equal(taken[0], np.arange(circuit.n_parameters) / 7)
    with pytest.raises(ValueError, match="read-only"):
        batch[-1] += 0.1


def test_untranslatable_gates_are_refused():
    from qiskit import QuantumCircuit
    from qiskit.circuit import Parameter

    from dualflow.quantum.devices.pennylane import translate

    circuit = QuantumCircuit(2)
    circuit.ecr(0, 1)
    with pytest.raises(DeviceError, match="ecr"):
        translate(circuit)
    circuit = QuantumCircuit(1)
    circuit.ry(Parameter("a") ** 2, 0)
    with pytest.raises(DeviceError, match="multiple"):
        translate(circuit)


@pytest.mark.parametrize("name", NAMES)
def test_jobs_are_fetched_by_id(name):
    device = make_device(name)
    job = device.submit(CIRCUIT, THETA[0], 100, "mine", seed=1)
    job.result()
    other = device.submit(CIRCUIT, THETA[0], 100, "mine", seed=2)
    assert job.job_id != other.job_id
    assert job.tag == "mine"
    assert job.done()
    assert device.fetch(job.job_id).result() is job.result()
    assert job.result().job_id == job.job_id
    with pytest.raises(DeviceError, match="unknown"):
        device.fetch("unknown")


def test_old_jobs_are_dropped():
    from dualflow.quantum.devices.local import MAX_KEPT_JOBS

    device = make_device("null")
    ids = [device.submit(TreeCircuit(1), [0.1], 1, seed=k).job_id for k in range(MAX_KEPT_JOBS + 1)]
    assert device.fetch(ids[1]).job_id == ids[1]
    with pytest.raises(DeviceError):
        device.fetch(ids[0])


def test_readout_in_the_other_bit_order():
    readout = Readout(np.array([0.0, 1.0, 0, 0]), np.array([0, 9, 0, 0]), 9, "big", "id")
    little = readout.ordered("little")
    np.testing.assert_array_equal(little.probabilities, [0, 0, 1, 0])
    np.testing.assert_array_equal(little.counts, [0, 0, 9, 0])
    assert little.bit_order == "little"
    assert little.ordered("little") is little


@pytest.mark.parametrize("shots", [0, -1, 1.5, "many", True, np.nan])
def test_bad_shots(shots):
    with pytest.raises(ProblemError, match="shots"):
        make_device("null").submit(CIRCUIT, THETA, shots)


@pytest.mark.parametrize("seed", [-1, 2**31, 0.5])
def test_bad_seeds(seed):
    with pytest.raises(ProblemError, match="seed"):
        make_device("null").submit(CIRCUIT, THETA, 10, seed=seed)


def test_bad_parameters():
    device = make_device("aer")
    with pytest.raises(ProblemError, match="parameter_values"):
        device.submit(CIRCUIT, np.zeros(8))
    with pytest.raises(ProblemError, match="NaN"):
        device.submit(CIRCUIT, np.full(7, np.nan))


@dataclass
class Stub(Device):
    capabilities: Capabilities
    name: str = "stub"


def test_capabilities_are_enforced():
    with pytest.raises(DeviceError, match="2 qubits"):
        Stub(Capabilities(True, True, False, 2)).submit(CIRCUIT, THETA)
    with pytest.raises(DeviceError, match="set shots"):
        Stub(Capabilities(False, True, True, None)).submit(CIRCUIT, THETA)
    with pytest.raises(DeviceError, match="shots=None"):
        Stub(Capabilities(True, False, False, None)).submit(CIRCUIT, THETA, 10)


def test_unknown_names():
    with pytest.raises(DeviceError, match=r"is not known; did you mean 'aer'.*classical-sampler"):
        make_device("aers")
    with pytest.raises(DeviceError, match="lightning"):
        make_device("pennylane:lightnin.qubit")
    with pytest.raises(DeviceError, match="not known"):
        make_device("pennylane:")
    with pytest.raises(TypeError, match="int"):
        make_device(3)


def test_a_missing_package_gives_the_pip_line(monkeypatch):
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if "pennylane" in name else find_spec(name))
    with pytest.raises(SolverUnavailable, match="pip install qiskit pennylane pennylane-lightning"):
        make_device("pennylane:lightning.qubit")
    rows = {info.name: info for info in list_devices()}
    assert not rows["pennylane:default.qubit"].installed
    assert rows["pennylane:default.qubit"].install == "pip install qiskit pennylane"
    assert rows["aer"].installed


def test_list_devices():
    rows = {info.name: info for info in list_devices()}
    assert {"aer", "pennylane:lightning.qubit", "pennylane:default.qubit", "classical-sampler", "null"} <= set(rows)
    assert rows["null"].control
    assert rows["classical-sampler"].control
    assert not rows["aer"].control
    assert all(info.summary and info.sampled for info in rows.values())
    assert {name for name in rows if rows[name].noisy} == {"aer:noisy", "backend:generic", "null"} | {
        f"control:{name}" for name in CONTROLS
    }
    for name in (name for name in rows if rows[name].installed):
        assert make_device(name).name == name
        can = make_device(name).capabilities
        assert (can.exact, can.sampled, can.noisy) == (rows[name].exact, rows[name].sampled, rows[name].noisy)


@pytest.mark.parametrize("name", NAMES)
def test_a_device_can_be_copied_and_pickled(name):
    device = make_device(name)
    expected = device.submit(CIRCUIT, THETA, 100, seed=2).result().counts
    assert copy.deepcopy(device) is device
    revived = pickle.loads(pickle.dumps(device))
    np.testing.assert_array_equal(revived.submit(CIRCUIT, THETA, 100, seed=2).result().counts, expected)
    assert repr(revived) == repr(device) == f"<device {name!r}>"


def test_a_circuit_is_transpiled_once(monkeypatch):
    device = make_device("aer")
    made = []
    compile_ = device._compile
    monkeypatch.setattr(device, "_compile", lambda circuit: made.append(circuit) or compile_(circuit))
    for _ in range(3):
        device.submit(TreeCircuit(3), THETA)
        device.submit(TreeCircuit(3), THETA, 10)
    assert made == [CIRCUIT]


def test_importing_devices_loads_no_quantum_package():
    code = (
        "import sys, dualflow.quantum.solvers.variational_flow; from dualflow.quantum.devices import *; "
        "list_devices(); make_device('null'); "
        "print([m for m in ('qiskit', 'qiskit_aer', 'pennylane') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
