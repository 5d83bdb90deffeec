"""Machines of one name are distinguished in names, labels, checkpoints and journals, in every process."""

import os
import subprocess
import sys
from dataclasses import dataclass

import numpy as np
import pytest

import dualflow
from dualflow import Device, ProblemError, VariationalFlow
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import Noise, make_device
from dualflow.quantum.devices.backend import BackendDevice
from dualflow.quantum.devices.emulator import EmulatorDevice
from dualflow.quantum.runs.journal import read_journal

CIRCUIT, THETA = TreeCircuit(2), np.full((2, 3), 0.7)
RUN = {"shots": 100, "steps": 3, "random_state": 1}


def posed():
    X = np.random.default_rng(0).normal(size=(6, 2))
    y = np.where(np.arange(6) % 2 == 0, 1.0, -1.0)
    return dualflow.problems.svc(dualflow.Gram(X, gamma=0.7), y, 5.0, loss="squared_hinge")


def generic(seed=1, **options):
    from qiskit.providers.fake_provider import GenericBackendV2

    return GenericBackendV2(3, seed=seed, **({"noise_info": True} | options))


def aer(readout=0.2, **options):
    from qiskit_aer import AerSimulator

    return AerSimulator(noise_model=None if readout is None else Noise(0.01, readout).model(), **options)


def sampler(**options):
    from qiskit.primitives import StatevectorSampler

    return StatevectorSampler(**options)


def pennylane(name="default.mixed", noise=None, **options):
    qml = pytest.importorskip("pennylane")
    device = qml.device(name, wires=3, **options)
    if noise is None:
        return device
    rule = {qml.noise.op_eq("RY"): lambda op, **more: qml.PhaseDamping(noise, wires=op.wires)}
    return qml.add_noise(device, qml.NoiseModel(rule))


class Mine(EmulatorDevice):
    name = "mine"

    def __init__(self, readout=0.0, run_by=None):
        super().__init__()
        self.readout, self.calls = readout, 0

    def _run(self, *arguments):
        self.calls += 1
        return super()._run(*arguments)


@dataclass(frozen=True)
class Plain(Device):
    name = "plain"
    readout: float = 0.0


PAIRS = {
    "the seed of the errors": (lambda: generic(1), lambda: generic(2)),
    "errors, and none": (lambda: generic(), lambda: generic(noise_info=False)),
    "other couplings": (lambda: generic(), lambda: generic(coupling_map=[[0, 1], [1, 0], [1, 2], [2, 1]])),
    "read-out errors": (lambda: aer(0.2), lambda: aer(0.45)),
    "a noise model, and none": (lambda: aer(0.2, seed_simulator=3), lambda: aer(0.2, seed_simulator=4)),
    "a simulator's precision": (
        lambda: aer(None, precision="double", fusion_enable=False),
        lambda: aer(None, precision="single", fusion_enable=False),
    ),
    "the level of compiling": (
        lambda: BackendDevice(generic(), optimization_level=1),
        lambda: BackendDevice(generic(), optimization_level=3),
    ),
    "the seed of compiling": (
        lambda: make_device("backend:generic"),
        lambda: type(make_device("backend:generic"))(seed_transpiler=7),
    ),
    "a sampler's seed": (lambda: sampler(seed=1), lambda: sampler(seed=2)),
    "a sampler's generator": (
        lambda: sampler(seed=np.random.default_rng(1)),
        lambda: sampler(seed=np.random.default_rng(2)),
    ),
    "PennyLane's read-out errors": (lambda: pennylane(readout_prob=0.1), lambda: pennylane(readout_prob=0.2)),
    "PennyLane's noise model": (lambda: pennylane(noise=0.1), lambda: pennylane(noise=0.2)),
    "an argument of one's own": (lambda: Mine(0.2), lambda: Mine(0.45)),
    "a field of one's own": (lambda: Plain(0.2), lambda: Plain(0.45)),
    "several devices' noise": (
        lambda: dualflow.SpreadDevice([BackendDevice(generic(1)), BackendDevice(generic(1))], 1),
        lambda: dualflow.SpreadDevice([BackendDevice(generic(1)), BackendDevice(generic(2))], 1),
    ),
}
#: Devices that can run: the dataclass has no `_submit`, and PennyLane fails with read-out errors on several wires.
RUNNING = [name for name in PAIRS if name not in ("a field of one's own", "PennyLane's read-out errors")]


@pytest.mark.parametrize("what", PAIRS)
def test_two_machines_of_one_name_have_two_identities(what):
    one, other = (make_device(make()) for make in PAIRS[what])
    assert one.name == other.name
    assert one.identity.startswith(one.name)
    assert one.identity != other.identity
    assert repr(one) != repr(other)  # checkpoints compare it
    assert make_device(PAIRS[what][0]()).identity == one.identity


@pytest.mark.parametrize("what", [name for name in RUNNING if name != "several devices' noise"])
def test_running_does_not_change_an_identity(what):
    given = PAIRS[what][0]()
    device = make_device(given)
    before = device.identity
    device.submit(CIRCUIT, THETA, 50, seed=1).result()
    assert device.identity == make_device(given).identity == before


def test_devices_by_name_have_their_name_as_identity():
    for name in (
        "emulator",
        "aer",
        "aer:noisy",
        "null",
        "control:permuted",
        "backend:generic",
        "pennylane:default.qubit",
    ):
        assert make_device(name).identity == name


def test_an_identity_is_the_same_in_every_process():
    what = ["read-out errors", "the seed of the errors", "a sampler's seed", "an argument of one's own"]
    code = (
        "from tests.quantum.devices.test_identity import *\n"
        f"for name in {what}: print(make_device(PAIRS[name][0]()).identity)"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split("\n")[:-1] == [make_device(PAIRS[name][0]()).identity for name in what]


@pytest.mark.parametrize("what", RUNNING)
def test_a_journal_is_not_replayed_for_another_machine_of_the_name(tmp_path, what):
    file, (one, other) = tmp_path / "jobs.db", PAIRS[what]
    whole = dualflow.solve(posed(), "variational-flow", device=one(), journal=file, **RUN)
    before = read_journal(file)
    assert {record.device for record in before} == {whole.provenance["device"]} == {make_device(one()).identity}
    with pytest.raises(ProblemError, match=r"journal=.*another machine of the name .*there and .* here"):
        dualflow.solve(posed(), "variational-flow", device=other(), journal=file, **RUN)
    assert read_journal(file) == before
    again = dualflow.solve(posed(), "variational-flow", device=one(), journal=file, **RUN)
    np.testing.assert_array_equal(again.raw_alpha, whole.raw_alpha)
    assert (whole.provenance["circuits_from_journal"], again.provenance["circuits_from_journal"]) == (0, 4)
    assert read_journal(file) == before


def test_the_error_says_what_differs(tmp_path):
    file = tmp_path / "jobs.db"
    dualflow.solve(posed(), "variational-flow", device=aer(0.2), journal=file, **RUN)
    with pytest.raises(ProblemError, match=r": its noise is \w{12} there and \w{12} here\. Their"):
        dualflow.solve(posed(), "variational-flow", device=aer(0.45), journal=file, **RUN)
    device = BackendDevice(aer(0.2), optimization_level=3)
    with pytest.raises(ProblemError, match=r"optimization_level is not given there and 3 here"):
        dualflow.solve(posed(), "variational-flow", device=device, journal=file, **RUN)
    other = tmp_path / "mine.db"
    dualflow.solve(posed(), "variational-flow", device=Mine(0.2), journal=other, **RUN)
    with pytest.raises(ProblemError, match=r"its readout is 0\.2 there and 0\.45 here"):
        dualflow.solve(posed(), "variational-flow", device=Mine(0.45), journal=other, **RUN)


def test_a_checkpoint_is_not_resumed_on_another_machine_of_the_name(tmp_path):
    file = tmp_path / "run.npz"
    dualflow.solve(posed(), "variational-flow", device=aer(0.2), checkpoint=file, max_steps=1, **RUN)
    with pytest.raises(ProblemError, match=r"belongs to another run: its options .*noise \w{12}.*noise \w{12}"):
        dualflow.solve(posed(), "variational-flow", device=aer(0.45), checkpoint=file, **RUN)
    dualflow.solve(posed(), "variational-flow", device=aer(0.2), checkpoint=file, **RUN)


def test_two_noise_models_are_two_labels_in_a_comparison():
    X = np.random.default_rng(0).normal(size=(6, 2))
    y = np.where(np.arange(6) % 2 == 0, 1.0, -1.0)
    solvers = [VariationalFlow(aer(readout), 100, steps=2) for readout in (0.2, 0.45)]
    found = dualflow.compare(X, y, "squared_hinge", ["working-set", *solvers], shots=100, controls=False)
    labels = {row.device for row in found.rows if row.role == "quantum"}
    assert len(labels) == 2
    assert all(label.startswith("backend:aer_simulator (target ") for label in labels)


def test_an_argument_that_may_be_a_secret_is_in_no_text(tmp_path):
    class Hidden(EmulatorDevice):
        name = "hidden"

        def __init__(self, token):
            super().__init__()

    dualflow.solve(posed(), "variational-flow", device=Hidden("very-secret-text"), journal=tmp_path / "jobs.db", **RUN)
    assert b"very-secret-text" not in (tmp_path / "jobs.db").read_bytes()
    assert "very-secret-text" not in Hidden("very-secret-text").identity
