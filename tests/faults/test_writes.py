"""Files that cannot be written, at every call and byte: the run ends, the old file stays, and no litter is left."""

import contextlib
import errno
import os
import resource
import signal
import sqlite3
import warnings

import numpy as np
import pytest

from dualflow import SVC, Checkpoint, DeviceError, Gram, IncrementalSVC, ProblemError, Status, load, problems, solve
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.runs.journal import Journal, read_journal
from dualflow.quantum.runs.laboratory import Account, Laboratory
from dualflow.testing.cloud import FakeCloud
from tests.combinations import covering

rng = np.random.default_rng(0)
Y = np.where(np.arange(30) % 2 == 0, 1.0, -1.0)
X = rng.standard_normal((30, 2)) + 0.7 * Y[:, None]


def posed(C=1.0):
    return problems.svc(Gram(X, gamma=0.5), Y, C)


def run(path, **more):
    settings = {"tol": 1e-12, "max_steps": 6} | more
    return solve(posed(), "frank-wolfe", checkpoint=Checkpoint(path, interval_s=0.0), **settings)


def measured(path, batches=2, device="emulator"):
    lab, account = Laboratory(make_device(device), "flow", journal=path), Account.opened(np.random.default_rng(0))
    for k in range(batches):
        found, account = lab.measure(account, TreeCircuit(2), np.full((k + 1, 3), 1.0), 100)
    return found, account


class NthCall:
    """A function that fails at its n-th call."""

    def __init__(self, real, nth, error):
        self.real, self.nth, self.error, self.calls = real, nth, error, 0

    def __call__(self, *arguments, **more):
        self.calls += 1
        if self.calls == self.nth:
            raise OSError(self.error, os.strerror(self.error))
        return self.real(*arguments, **more)


@contextlib.contextmanager
def no_file_above(size):
    """Files can grow to so many bytes: a write across that is a short one, the next fails, as on a full disk."""
    limits, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


CALLS = ["os.fsync", "os.replace"]
ERRORS = [errno.ENOSPC, errno.EACCES, errno.EIO]


# --- checkpoints -------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "error", "nth"), covering(list(CALLS), list(ERRORS), range(1, 8)))
def test_a_checkpoint_that_fails_costs_no_run(tmp_path, monkeypatch, call, error, nth):
    file, whole = tmp_path / "run.npz", run(tmp_path / "whole.npz")
    (tmp_path / "whole.npz").unlink()
    failing = NthCall(getattr(os, call.split(".")[1]), nth, error)
    monkeypatch.setattr(call, failing)
    with pytest.warns(UserWarning, match=r"run\.npz could not be written at step"):
        found = run(file)
    monkeypatch.undo()
    assert failing.calls == 7  # six steps and the end: it tried again
    assert np.array_equal(found.raw_alpha, whole.raw_alpha)
    assert ("checkpoint_error" in found.provenance) == (nth == 7)
    assert os.listdir(tmp_path) == ["run.npz"]
    assert np.array_equal(run(file).raw_alpha, whole.raw_alpha)
    assert run(file).cost.steps == 6


# Not 0.999: a time in it may have some digits fewer in the next one.
@pytest.mark.parametrize("share", [0.0, 0.2, 0.9, 0.98])
def test_a_disk_that_fills_up_keeps_the_old_checkpoint(tmp_path, share):
    file = tmp_path / "run.npz"
    run(file, max_steps=2)
    before = file.read_bytes()
    with pytest.warns(UserWarning, match=r"File too large; the run goes on"), no_file_above(int(share * len(before))):
        found = run(file)
    assert found.status is Status.STEP_LIMIT
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["run.npz"]
    assert np.array_equal(run(file).raw_alpha, found.raw_alpha)


def test_that_it_can_be_written_is_looked_at_before_the_run(tmp_path):
    def callback(progress):
        raise AssertionError("it ran")

    (tmp_path / "file").touch()
    for path in (tmp_path / "file" / "run.npz", tmp_path / ("x" * 300)):
        with pytest.raises(ProblemError, match=r"checkpoint .* cannot be written: .*give another path"):
            run(path, callback=callback)
    assert os.listdir(tmp_path) == ["file"]


def test_a_folder_without_permission_is_found_before_the_run(tmp_path, monkeypatch):
    file = tmp_path / "run.npz"
    run(file, max_steps=1)
    before = file.read_bytes()

    def refused(name, *arguments, real=open, **more):
        if str(name).endswith(".part"):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(name, *arguments, **more)

    monkeypatch.setattr("builtins.open", refused)
    monkeypatch.setattr(os, "open", lambda name, *rest, real=os.open, **more: refused(name, *rest, real=real, **more))
    with pytest.raises(ProblemError, match=r"cannot be written: Permission denied"):
        run(file)
    monkeypatch.undo()
    assert file.read_bytes() == before


@pytest.mark.parametrize("value", [-1.0, np.nan, True, "1"])
def test_the_interval_is_a_number(tmp_path, value):
    with pytest.raises(ProblemError, match="interval_s"):
        Checkpoint(tmp_path / "run.npz", value)
    with pytest.raises(TypeError, match="a path is needed, found int"):
        Checkpoint(3)


# --- models and streams ------------------------------------------------------------------------


def models():
    batch = SVC(C=2.0).fit(X, Y)
    stream = IncrementalSVC(C=2.0, gamma=0.5).partial_fit(X[:20], Y[:20], classes=[-1, 1])
    return {"batch": batch, "stream": stream}


@pytest.mark.parametrize("which", ["batch", "stream"])
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("error", ERRORS)
def test_a_model_that_cannot_be_saved_leaves_the_old_file(tmp_path, monkeypatch, which, call, error):
    file, model = tmp_path / "model.dualflow", models()[which]
    SVC(C=1.0).fit(X, Y).save(file)
    before = file.read_bytes()
    monkeypatch.setattr(call, NthCall(getattr(os, call.split(".")[1]), 1, error))
    with pytest.raises(OSError, match=os.strerror(error)):
        model.save(file)
    monkeypatch.undo()
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.dualflow"]
    model.save(file)
    assert np.array_equal(load(file).predict(X), model.predict(X))


@pytest.mark.parametrize("which", ["batch", "stream"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 0.8, 0.99, 0.9999])
def test_a_disk_that_fills_up_keeps_the_old_model(tmp_path, which, share):
    file, model = tmp_path / "model.dualflow", models()[which]
    model.save(file)
    before = file.read_bytes()
    with pytest.raises(OSError, match="File too large"), no_file_above(int(share * len(before))):
        model.save(file)
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == ["model.dualflow"]


# --- journals ----------------------------------------------------------------------------------


class FailingOnce:
    """A connection whose n-th statement that begins so fails, as on a full disk."""

    def __init__(self, database, word, nth):
        self.database, self.word, self.left = database, word, nth

    def execute(self, statement, *values):
        self.left -= statement.startswith(self.word)
        if statement.startswith(self.word) and self.left == 0:
            raise sqlite3.OperationalError("database or disk is full")
        return self.database.execute(statement, *values)

    def __getattr__(self, name):
        return getattr(self.database, name)


@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("word", ["INSERT INTO jobs", "UPDATE jobs SET state", "BEGIN", "COMMIT"])
def test_a_journal_that_fails_costs_no_run(tmp_path, monkeypatch, word, nth):
    path, (found, _) = tmp_path / "jobs.db", measured(tmp_path / "other")
    Journal(path)
    real = Journal._connect

    def failing(self):
        real(self)
        self._database = FailingOnce(self._database, word, nth + (word in ("BEGIN", "COMMIT")))

    monkeypatch.setattr(Journal, "_connect", failing)
    with pytest.warns(UserWarning, match=r"jobs\.db could not be written: .*the run goes on"):
        again, _ = measured(path)
    monkeypatch.undo()
    assert np.array_equal(again, found)
    # What was written is whole, and the next run goes on from it.
    assert {record.state for record in read_journal(path)} <= {"intended", "sent", "done"}
    assert np.array_equal(measured(path)[0], found)


def test_where_jobs_cost_money_nothing_is_sent_that_cannot_be_written_down(tmp_path, monkeypatch):
    cloud, path, real = FakeCloud(tmp_path / "cloud.db"), tmp_path / "jobs.db", Journal._connect

    def failing(self):
        real(self)
        self._database = FailingOnce(self._database, "INSERT INTO jobs", 2)

    monkeypatch.setattr(Journal, "_connect", failing)
    with pytest.raises(DeviceError, match=r"could not be written: database or disk is full; nothing was sent"):
        measured(path, device=cloud)
    assert cloud.paid()["jobs"] == 1
    monkeypatch.undo()
    measured(path, device=cloud)
    assert cloud.paid()["jobs"] == 2


@pytest.mark.parametrize("more", [0, 1000, 5000, 20_000])
def test_a_disk_that_fills_up_leaves_a_whole_journal(tmp_path, more):
    path, whole = tmp_path / "jobs.db", measured(tmp_path / "other", batches=8)[0]
    measured(path, batches=1)
    size = path.stat().st_size
    # Nothing of it is lost: the run goes on without a journal, or is refused before a job is sent.
    with warnings.catch_warnings(), no_file_above(size + more), contextlib.suppress(ProblemError):
        warnings.simplefilter("ignore", UserWarning)
        assert np.array_equal(measured(path, batches=8)[0], whole)
    assert len(read_journal(path)) >= 1
    assert np.array_equal(measured(path, batches=8)[0], whole)


def test_the_journal_is_found_unwritable_before_a_job_is_sent(tmp_path, monkeypatch):
    path = tmp_path / "jobs.db"
    measured(path)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with pytest.raises(ProblemError, match=r"journal=.*Permission denied"):
        measured(path)


# --- whose checkpoint it is --------------------------------------------------------------------


def product(scale=1.0, power=1):
    """A kernel without a name of its own: all of these have the same."""
    return lambda A, B: scale * (A @ B.T) ** power


@pytest.mark.parametrize("other", [product(1 + 1e-6), product(-1.0, 2), product(1.0, 3), product(2.0)])
def test_the_checkpoint_of_another_callable_is_refused(tmp_path, other):
    file, first = tmp_path / "run.npz", problems.svc(Gram(X, product()), Y, C=1.0)
    solve(first, "smo", checkpoint=file, max_steps=1, tol=1e-14)
    before = file.read_bytes()
    with pytest.raises(ProblemError, match="belongs to another run: its problem is"):
        solve(problems.svc(Gram(X, other), Y, C=1.0), "smo", checkpoint=file, tol=1e-14)
    assert file.read_bytes() == before
    # The same by another object goes on.
    again = solve(problems.svc(Gram(X, product()), Y, C=1.0), "smo", checkpoint=file, tol=1e-14)
    assert np.array_equal(again.raw_alpha, solve(first, "smo", tol=1e-14).raw_alpha)


@pytest.mark.parametrize(
    "change",
    [
        {"random_state": np.random.default_rng(6)},
        {"random_state": 5},
        {"random_state": np.int64(6)},
        {"warm": np.full(30, 0.2)},
        {"warm": None},
    ],
)
def test_the_checkpoint_of_another_seed_or_start_is_refused(tmp_path, change):
    file, same = tmp_path / "run.npz", {"random_state": np.random.default_rng(5), "warm": np.full(30, 0.1)}
    run(file, **same)
    with pytest.raises(ProblemError, match=r"belongs to another run: its (seed|warm) is"):
        run(file, **same | change)
    assert run(file, **same | {"random_state": np.random.default_rng(5)}).cost.steps == 6
