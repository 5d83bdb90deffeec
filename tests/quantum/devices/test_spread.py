"""Batches split over processes have the same bits for any split. Faults are tested in `test_spread_ends`."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields

import numpy as np
import pytest

from dualflow import (
    DeviceError,
    FidelityKernel,
    Gram,
    ProblemError,
    SolverMismatch,
    SpreadDevice,
    list_solvers,
    problems,
    solve,
)
from dualflow.quantum.circuits import HardwareEfficientCircuit
from dualflow.quantum.devices import make_device, processes
from dualflow.quantum.devices.aer import AerDevice
from dualflow.quantum.devices.local import LocalDevice
from dualflow.solvers import SOLVERS
from dualflow.testing.cloud import FakeCloud
from tests.combinations import often

CIRCUIT = HardwareEfficientCircuit(3, 1)
ANGLES = np.random.default_rng(0).uniform(0.0, 2.0 * np.pi, (7, CIRCUIT.n_parameters))
X = np.random.default_rng(1).normal(size=(6, 2))
Y = np.array([1, -1, 1, -1, 1, -1])
#: Name, and shots or None for exact distributions.
WAYS = [
    ("aer", 500), ("aer", None), ("aer:noisy", 500), ("aer:noisy", None), ("pennylane:lightning.qubit", 500),
    ("pennylane:lightning.qubit", None), ("backend:generic", 500),
]  # fmt: skip


class Failing(LocalDevice):
    name = "failing"
    capabilities = AerDevice.capabilities

    def _run(self, circuit, values, shots, seed):
        raise DeviceError("out of order", transient=False, sent=True)


def counts(device, shots=500, angles=ANGLES, seed=2**31 - 3):
    readout = device.submit(CIRCUIT, angles, shots, seed=seed).result()
    return readout.probabilities if shots is None else readout.counts


@pytest.fixture(scope="module", autouse=True)
def warm():
    """Keep one pool for all tests of the file, and end it after them."""
    patch = pytest.MonkeyPatch()
    patch.setattr(processes, "IDLE_POOL_S", 300.0)
    yield
    patch.undo()
    for pool in list(processes._pools.values()):
        pool.close()


@pytest.mark.parametrize(("name", "shots"), WAYS)
def test_two_processes_give_the_bits_of_one(name, shots):
    device = SpreadDevice(name, 2)
    found, alone = counts(device, shots), counts(SpreadDevice(name, 1), shots)
    assert (found == alone).all()
    if make_device(name).divisible:
        assert device.name == name
        assert (found == counts(make_device(name), shots)).all()
    else:
        assert device.name == f"{name} (a seed a circuit)"
    if shots is None:
        np.testing.assert_allclose(found, CIRCUIT.distribution(ANGLES), atol=0.1 if "noisy" in name else 1e-12)


def test_wide_noisy_circuits_are_counted_by_aer_and_split_alike(monkeypatch):
    monkeypatch.setattr("dualflow.quantum.devices.aer.MAX_DENSITY_QUBITS", 2)
    device, plain = make_device("aer:noisy"), make_device("aer:noisy")
    whole = plain._run(CIRCUIT, ANGLES, 200, 5)[1]
    parts = [device.run_rows(CIRCUIT, ANGLES[k : k + 3], 200, 5, k)[1] for k in (0, 3, 6)]
    assert (np.concatenate(parts) == whole).all()


def test_one_circuit_and_no_seed():
    device = SpreadDevice("aer", 2)
    assert (counts(device, angles=ANGLES[0]) == counts(make_device("aer"), angles=ANGLES[0])).all()
    drawn = [device.submit(CIRCUIT, ANGLES[:2], 500).result().counts for _ in range(2)]
    assert (drawn[0] != drawn[1]).any()


def test_equal_rows_have_different_draws():
    same = np.tile(ANGLES[:1], (4, 1))
    for name in ("aer", "pennylane:lightning.qubit"):
        found = counts(SpreadDevice(name, 2), angles=same)
        assert len(np.unique(found, axis=0)) == 4


@pytest.mark.parametrize("shots", [500, None])
def test_rows_of_several_devices_do_not_depend_on_the_processes(shots):
    devices = [AerDevice(), "aer:noisy", "pennylane:lightning.qubit"]
    found = [counts(SpreadDevice(devices, k), shots) for k in (1, 2)]
    assert (found[0] == found[1]).all()
    rows = np.array_split(np.arange(7), 3)[0]
    assert (found[0][rows] == counts(make_device("aer"), shots)[rows]).all()
    assert SpreadDevice(devices, 1).capabilities.noisy
    assert (
        counts(SpreadDevice(devices, 2), shots, ANGLES[:2]) == counts(SpreadDevice(devices, 1), shots, ANGLES[:2])
    ).all()


def test_an_executor_and_a_copy_without_it():
    with ThreadPoolExecutor(2) as engine:
        device = SpreadDevice("aer", 3, engine=engine)
        for k in (7, 2):  # more processes than circuits, too
            assert (counts(device, angles=ANGLES[:k]) == counts(make_device("aer"), angles=ANGLES[:k])).all()
        again = pickle.loads(pickle.dumps(device))
        assert again.engine is None
        assert again.processes == 1
        failing = SpreadDevice(Failing(), 2, engine=engine)
        with pytest.raises(DeviceError, match="out of order"):
            counts(failing)
    with pytest.raises(DeviceError, match="workers died 2 times"):
        counts(device)  # the executor is shut down


def tiny(name):
    """A small problem that a solver takes."""
    cls, gram = SOLVERS.find(name), Gram(X, kernel="rbf", gamma=0.5)
    for problem in (problems.svdd(gram), problems.svc(gram, Y, 1.0), problems.least_squares(gram, Y, 1.0)):
        if problem.kind in cls.kinds:
            return problem
    raise SolverMismatch(name)


SENDING_SEVERAL = {
    "variational-flow": {"ansatz": "hardware-efficient", "layers": 1},
    "quantum-invasion": {"block": 4, "inner_options": {"ansatz": "hardware-efficient", "layers": 1, "steps": 2}},
    "variational-dqc": {"n_qubits": 2, "layers": 1, "points": 3, "reference": False},
}


#: Its systems are nearly singular in this small problem, and would take twelve qubits for their eigenvalues.
SMALLER = {"quantum-interior-point": {"clock": 5}}


QUANTUM = [info.name for info in list_solvers() if info.quantum]


#: They take a second or two; the others send their batches the same way.
SLOW = {"hhl", "quantum-interior-point"}


@pytest.mark.parametrize("name", often(QUANTUM, *(name for name in QUANTUM if name not in SLOW)))
def test_solvers_find_the_same_and_spend_the_same(name):
    options = {
        "max_steps": 2,
        "tol": 1e-9,
        "refine": False,
        "random_state": 3,
        **SENDING_SEVERAL.get(name, {}),
        **SMALLER.get(name, {}),
    }
    if "shots" in {field.name for field in fields(SOLVERS.find(name))}:
        options["shots"] = 300
    sent = []

    class Counting(SpreadDevice):
        def _run_tasks(self, tasks, workers):
            sent.append(len(tasks))
            return super()._run_tasks(tasks, workers)

    spread = solve(tiny(name), name, device=Counting("aer", 2), **options)
    plain = solve(tiny(name), name, device="aer", **options)
    assert (spread.raw_alpha == plain.raw_alpha).all()
    for what in ("circuits", "shots", "qubits", "depth", "two_qubit_gates"):
        assert getattr(spread.cost, what) == getattr(plain.cost, what)
    assert spread.provenance["device"] == "aer"
    assert set(sent) == ({2} if name in SENDING_SEVERAL else set())


def test_a_kernel_and_its_journal(tmp_path):
    options = {"shots": 200, "journal": tmp_path / "jobs.db"}
    K = FidelityKernel("angle", device=SpreadDevice("aer", 2), **options)(X, X)
    plain = FidelityKernel("angle", device="aer", **options)
    plain.device.submit = None  # all is in the journal, under the same name
    assert (plain(X, X) == K).all()


def test_a_checkpoint_goes_on_with_other_processes(tmp_path):
    given = {"ansatz": "hardware-efficient", "layers": 1, "shots": 100, "tol": 1e-9, "refine": False, "random_state": 0}
    saved = {**given, "checkpoint": tmp_path / "run"}
    solve(tiny("variational-flow"), "variational-flow", device=SpreadDevice("aer", 1), max_steps=1, **saved)
    found = solve(tiny("variational-flow"), "variational-flow", device=SpreadDevice("aer", 2), max_steps=3, **saved)
    whole = solve(tiny("variational-flow"), "variational-flow", device="aer", max_steps=3, **given)
    assert (found.raw_alpha == whole.raw_alpha).all()
    assert found.cost.circuits == whole.cost.circuits


def test_a_name_for_command_lines():
    device = make_device("spread:2:aer:noisy")
    assert (device.processes, device.name) == (2, "aer:noisy")
    for wrong in ("spread:x:aer", "spread:0:aer", "spread:2:nothing", "spread:2:spread:2:aer"):
        with pytest.raises(DeviceError):
            make_device(wrong)


def test_copies_share_the_device_and_pickles_do_not():
    device = SpreadDevice("aer", 2)
    assert copy.deepcopy(device) is device
    again = pickle.loads(pickle.dumps(device))
    assert (repr(again), again.processes) == (repr(device), 2)
    assert (counts(again) == counts(device)).all()
    built = HardwareEfficientCircuit(3, 1)
    built.build()
    assert len(pickle.dumps(built)) < 300
    assert pickle.loads(pickle.dumps(built)) == built


@pytest.mark.parametrize("name", ["emulator", "null", "control:random", SpreadDevice("aer", 1), []])
def test_what_is_not_spread(name):
    with pytest.raises((DeviceError, ProblemError), match=r"not spread|must be a device"):
        SpreadDevice(name, 2)


def test_other_devices_that_are_not_spread(tmp_path):
    pennylane = pytest.importorskip("pennylane")
    from qiskit.primitives import StatevectorSampler

    for own in (FakeCloud(tmp_path / "cloud.db"), pennylane.device("default.qubit", wires=3), StatevectorSampler()):
        with pytest.raises(DeviceError, match="not spread"):
            SpreadDevice(own, 2)


@pytest.mark.parametrize(
    "options", [{"processes": 0}, {"processes": 1.5}, {"processes": True}, {"threads": 0}, {"engine": 3}]
)
def test_options_out_of_range(options):
    with pytest.raises(ProblemError, match=next(iter(options))):
        SpreadDevice("aer", **options)


def test_a_process_that_works_for_another_starts_none():
    pool = processes.pool_of(2, 1)
    assert pool.run(processes.is_worker, [()]) == ([True], None)
    assert not processes.is_worker()
    ((found,), _) = pool.run(_nested, [(2,)])
    assert found[0] == 0
    assert (found[1] == counts(make_device("aer"))).all()


def _nested(workers):
    found = counts(SpreadDevice("aer", workers))
    return len(processes._pools), found
