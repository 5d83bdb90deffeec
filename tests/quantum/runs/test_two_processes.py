"""One process at a time sends the jobs of a journal; a process that died holds no lock."""

import copy
import gc
import json
import multiprocessing
import os
import pickle
import signal

import numpy as np
import pytest
from typer.testing import CliRunner

import dualflow
from dualflow import ProblemError
from dualflow.cli import app
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.devices.emulator import EmulatorDevice
from dualflow.quantum.runs.journal import Journal
from dualflow.quantum.runs.journal_lock import JournalLock
from dualflow.quantum.runs.laboratory import Account, Laboratory
from dualflow.testing.cloud import FakeCloud

RUN = {"shots": 500, "steps": 4, "random_state": 0}


def posed():
    X = np.random.default_rng(0).normal(size=(6, 2))
    return dualflow.problems.svdd(dualflow.Gram(X, gamma=0.5))


class Hanging(EmulatorDevice):
    """A device whose third job sends a message and then waits for a reply."""

    name = "emulator"

    def __init__(self, pipe):
        super().__init__()
        self.pipe, self.jobs = pipe, 0

    def _submit(self, *args):
        self.jobs += 1
        if self.jobs == 3:
            self.pipe.send("under way")
            self.pipe.recv()
        return super()._submit(*args)


def run(path, pipe):
    pipe.send(dualflow.solve(posed(), "variational-flow", device=Hanging(pipe), journal=path, **RUN).raw_alpha)


@pytest.fixture
def other(tmp_path):
    """A run in another process, at its third job, and its journal."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=run, args=(tmp_path / "jobs.db", theirs), daemon=True)
    child.start()
    assert ours.poll(120)
    assert ours.recv() == "under way"
    yield tmp_path / "jobs.db", child, ours
    child.kill()
    child.join()


def test_a_second_process_is_refused_until_the_first_has_ended(other):
    path, child, pipe = other
    options = {"device": "emulator", "journal": path, **RUN}
    for _ in range(2):
        with pytest.raises(ProblemError, match=rf"jobs.db' is in use by process {child.pid}, which still runs"):
            dualflow.solve(posed(), "variational-flow", **options)
    found = CliRunner().invoke(app, ["jobs", "resume", str(path)])
    assert found.exit_code != 0
    assert f"in use by process {child.pid}" in found.output
    assert CliRunner().invoke(app, ["jobs", "list", str(path)]).exit_code == 0
    pipe.send("go on")
    assert pipe.poll(120)
    theirs = pipe.recv()
    child.join(60)
    ours = dualflow.solve(posed(), "variational-flow", **options)
    np.testing.assert_array_equal(ours.raw_alpha, theirs)


def test_the_lock_of_a_killed_process_is_released(other):
    path, child, _ = other
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    ours = dualflow.solve(posed(), "variational-flow", device="emulator", journal=path, **RUN)
    whole = dualflow.solve(posed(), "variational-flow", device="emulator", **RUN)
    np.testing.assert_array_equal(ours.raw_alpha, whole.raw_alpha)


def test_one_process_shares_it_and_leaves_no_file(tmp_path):
    labs = [Laboratory(make_device("emulator"), "test", journal=tmp_path / "jobs.db") for _ in range(2)]
    account, circuit = Account.opened(np.random.default_rng(0)), TreeCircuit(2)
    copies = []
    for lab in labs:
        lab.measure(account, circuit, np.ones(3), 100)
        copies += [copy.deepcopy(lab), pickle.loads(pickle.dumps(lab))]
    live = tmp_path / "jobs.db-live"
    assert live.stat().st_mode & 0o777 == 0o600
    labs[0].rest()
    labs[0].rest()
    assert live.exists()
    labs.clear()
    del lab
    gc.collect()
    assert not live.exists()  # copies hold nothing before they measure
    copies[0].measure(account, circuit, np.ones(3), 100)
    assert live.exists()


def test_a_child_of_a_fork_holds_no_lock_of_its_parent(tmp_path):
    journal = Journal(tmp_path / "jobs.db")
    live = JournalLock(journal)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            live.close()  # the lock is its parent's
            JournalLock(Journal(tmp_path / "jobs.db"))
        except ProblemError:
            os._exit(7)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert (tmp_path / "jobs.db-live").exists()


def test_a_lock_file_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "jobs.db-live").mkdir()
    with pytest.raises(ProblemError, match=r"jobs.db' cannot be used: jobs.db-live: unable to open"):
        dualflow.solve(posed(), "variational-flow", device="emulator", journal=tmp_path / "jobs.db", **RUN)


def test_a_kernel_releases_the_lock_between_its_batches(tmp_path):
    cloud = FakeCloud(tmp_path / "cloud.db")
    kernel = dualflow.FidelityKernel("zz", device=cloud, shots=50, journal=tmp_path / "jobs.db")
    kernel(np.random.default_rng(0).normal(size=(3, 2)), np.random.default_rng(0).normal(size=(3, 2)))
    assert not (tmp_path / "jobs.db-live").exists()


@pytest.mark.parametrize("label", ["tiny", "a_machine_with_a_long_name"])
def test_the_list_of_jobs_fits_80_columns_and_json_has_all(tmp_path, monkeypatch, label):
    """Each job is one line for a device with a short name, and no word is broken for a long one."""

    class Named(EmulatorDevice):
        name = label

    path = tmp_path / "jobs.db"
    dualflow.solve(posed(), "variational-flow", device=Named(), journal=path, shots=1000, steps=2)
    monkeypatch.setenv("COLUMNS", "80")
    lines = CliRunner().invoke(app, ["jobs", "list", str(path)]).output.splitlines()
    found = json.loads(CliRunner().invoke(app, ["jobs", "list", str(path), "--json"]).output)
    assert max(map(len, lines)) <= 80
    assert len(found) == 3
    for job in found:
        line = next(line for line in lines if job["tag"] in line)
        assert label in line
        assert "done" in line
        assert (job["circuits"], job["shots"]) == (1, 1000)
        assert job["job"]
        assert "TreeCircuit" in job["circuit"]
        assert label != "tiny" or f"{job['for']}: 1 × 1,000" in line
