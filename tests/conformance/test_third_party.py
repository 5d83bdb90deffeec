"""A third party's quantum solver and device, in a package of their own: nothing in ours is edited for them."""

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

import dualflow
from dualflow.quantum.circuits.export import families
from dualflow.quantum.devices import make_device
from dualflow.testing import check_solver, zoo

ENTRY_POINTS = """
[dualflow.solvers]
theirs = their_quantum:Theirs

[dualflow.devices]
their-device = their_quantum:TheirDevice
their-cloud:<machine> = their_quantum:TheirCloud
aer = their_quantum:TheirDevice
broken = their_quantum:NotADevice
absent = no_such_module:Device
failing = their_failing_module:Device
silent = their_quantum:SilentDevice
"""


@pytest.fixture
def theirs(tmp_path, monkeypatch):
    """Their distribution on sys.path: one module, and entry points for both."""
    shutil.copy(Path(__file__).parent / "theirs" / "their_quantum.py", tmp_path)
    (tmp_path / "their_failing_module.py").write_text("raise RuntimeError('no licence')\n")
    info = tmp_path / "their_quantum-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-quantum\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRY_POINTS)
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    yield importlib.import_module("their_quantum")
    sys.modules.pop("their_quantum", None)


@pytest.fixture
def problem():
    X = np.random.default_rng(0).normal(size=(6, 2))
    return dualflow.problems.svc(dualflow.Gram(X), [1, -1] * 3, 2.0, loss="squared_hinge")


def test_both_are_listed(theirs):
    solver = {row.name: row for row in dualflow.list_solvers()}["theirs"]
    assert (solver.install, solver.quantum, solver.kinds) == (None, True, ("simplex",))
    device = {row.name: row for row in dualflow.list_devices()}["their-device"]
    assert (device.installed, device.exact, device.qubits, device.control) == (True, True, 8, False)
    assert device.summary == "A machine of theirs, which counts its qubits from the other end."


def test_their_solver_runs_on_their_device(theirs, problem):
    solution = dualflow.solve(problem, "theirs", device="their-device", tol=1e-8)
    assert solution.raw_certificate.relative_gap <= 1e-8
    assert solution.provenance["device"] == "their-device"
    assert solution.provenance["circuit"] == "bit-by-bit_q3"
    assert solution.cost.circuits == solution.cost.steps + 1
    assert solution.cost.two_qubit_gates > 0
    assert solution.alpha == pytest.approx(dualflow.solve(problem, "cvxopt").alpha, abs=1e-4)


@pytest.mark.parametrize("device", ["their-cloud:third floor", "aer", "emulator"])
def test_and_on_any_other(theirs, problem, device):
    own, other = (dualflow.solve(problem, "theirs", device=name, max_steps=5) for name in ("their-device", device))
    assert other.provenance["device"] == device
    np.testing.assert_allclose(other.raw_alpha, own.raw_alpha, atol=1e-12)


def test_our_solver_runs_on_their_device(theirs, problem):
    solution = dualflow.solve(problem, "variational-flow", device="their-device", shots=500, steps=3)
    assert solution.cost.shots == 500 * solution.cost.circuits


def some_sizes():
    return [z for z in zoo(max_n=16) if z.problem.n in (2, 3, 16)]


@pytest.mark.slow
@pytest.mark.parametrize("chosen", [some_sizes, zoo])
def test_their_solver_conforms(theirs, chosen):
    report = check_solver("theirs", problems=chosen())
    assert report.failed == {}
    assert "squared hinge clouds" in report.problems


def test_their_rows_are_compared(theirs):
    X = np.random.default_rng(1).normal(size=(20, 2))
    found = dualflow.compare(X, X[:, 0] > 0, "squared_hinge", ["theirs"], 8, devices=["their-device"], shots=None)
    rows = {(row.device, row.role): row for row in found.rows}
    controls = {(name, "control") for name in ("null", "control:random", "classical-sampler")}
    assert set(rows) == {("their-device", "quantum")} | controls
    assert rows["their-device", "quantum"].rank == 1
    assert rows["null", "control"].excess > 20 * rows["their-device", "quantum"].excess


def test_their_device_cannot_take_a_name_of_ours(theirs):
    assert type(make_device("aer")).__module__ == "dualflow.quantum.devices.aer"


def test_what_is_wrong_with_an_entry_point_is_said(theirs):
    rows = {row.name: row for row in dualflow.list_devices()}
    assert "not a subclass of dualflow.Device" in rows["broken"].install
    assert "no_such_module" in rows["absent"].install
    assert "no licence" in rows["failing"].install
    assert "capabilities" in rows["silent"].install
    for name in ("broken", "absent", "failing"):
        with pytest.raises(dualflow.SolverUnavailable, match=f"device {name!r}"):
            make_device(name)
    with pytest.raises(dualflow.DeviceError, match=r"did you mean 'their-device'.*their-cloud:<machine>"):
        make_device("their-devise")


def test_without_the_package_nothing_of_it_is_known(problem):
    assert "their-device" not in {row.name for row in dualflow.list_devices()}
    with pytest.raises(dualflow.SolverMismatch, match="'theirs' is not known"):
        dualflow.solve(problem, "theirs")
    assert "bit-by-bit" not in {family.family for family in families()}
