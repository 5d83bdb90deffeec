"""Files that cannot be written, at every call and byte: the run ends, the old file stays, and no litter is left."""

import contextlib
import errno
import io
import os
import resource
import signal
import warnings

import numpy as np
import pytest

from dualflow import SVC, Checkpoint, Gram, IncrementalSVC, ProblemError, Status, load, problems, solve
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.runs.journal import DONE, JobRecord, Journal, read_journal
from dualflow.quantum.runs.laboratory import Account, Laboratory

rng = np.random.default_rng(0)
Y = np.where(np.arange(30) % 2 == 0, 1.0, -1.0)
X = rng.standard_normal((30, 2)) + 0.7 * Y[:, None]


def posed(C=1.0):
    return problems.svc(Gram(X, gamma=0.5), Y, C)


def run(path, **more):
    settings = {"tol": 1e-12, "max_steps": 6} | more
    return solve(posed(), "frank-wolfe", checkpoint=Checkpoint(path, interval_s=0.0), **settings)


def measured(path, batches=2):
    lab, account = Laboratory(make_device("emulator"), "flow", journal=path), Account.opened(np.random.default_rng(0))
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


@pytest.mark.parametrize("nth", range(1, 8))
@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("call", CALLS)
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


@pytest.mark.parametrize("share", [0.0, 0.2, 0.9, 0.999])
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


@pytest.mark.parametrize("nth", [1, 2, 3, 4])
@pytest.mark.parametrize("error", ERRORS)
def test_a_journal_that_fails_costs_no_run(tmp_path, monkeypatch, error, nth):
    path = tmp_path / "jobs.jsonl"
    Journal(path)
    failing = NthCall(os.fsync, nth, error)
    monkeypatch.setattr(os, "fsync", failing)
    with pytest.warns(UserWarning, match=r"jobs\.jsonl could not be written: .*the run goes on"):
        found, _ = measured(path)
    monkeypatch.undo()
    assert failing.calls == 4
    assert np.array_equal(found, measured(tmp_path / "other")[0])
    # All lines but one are there, and whole.
    lines = path.read_text().splitlines()
    assert len(lines) == 4
    if nth in (2, 4):
        assert [record.outcome for record in read_journal(path)] == [
            None if nth == 2 else DONE,
            None if nth == 4 else DONE,
        ]


@pytest.mark.parametrize("more", [0, 1, 100, 250, 330])
def test_a_disk_that_fills_up_leaves_whole_lines(tmp_path, more):
    path = tmp_path / "jobs.jsonl"
    measured(path, batches=1)
    before = path.read_bytes()
    with pytest.warns(UserWarning, match="the run goes on"), no_file_above(len(before) + more):
        measured(path)
    after = path.read_bytes()
    assert after.startswith(before)
    assert after.endswith(b"\n")
    assert len(read_journal(path)) == 1 + (more >= 250)


def test_a_journal_that_cannot_even_be_cut_is_written_no_more(tmp_path, monkeypatch):
    journal = Journal(tmp_path / "jobs.jsonl")

    class Stuck(io.FileIO):
        def write(self, data):
            return super().write(data[:10])

        def truncate(self, size=None):
            raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr("builtins.open", lambda name, mode, buffering: Stuck(name, mode))
    with pytest.warns(UserWarning, match="Input/output error"):
        journal.submitted(JobRecord("a", "tag", "device", "circuit", "0", 1, 2))
    monkeypatch.undo()
    torn = journal.path.read_bytes()
    journal.submitted(JobRecord("b", "tag", "device", "circuit", "0", 1, 3))
    assert journal.path.read_bytes() == torn
    assert journal.find(JobRecord("", "tag", "device", "circuit", "0", 1, 3)).id == "b"


def test_a_last_line_that_was_cut_anywhere_is_taken_off_and_the_run_goes_on(tmp_path):
    path = tmp_path / "jobs.jsonl"
    found, _ = measured(path)
    content = path.read_bytes()
    starts = [0, *(k + 1 for k, byte in enumerate(content) if byte == 10)]
    for cut in {1, 5, len(content) - 1, len(content) - 2, *range(1, len(content), 29)} - set(starts):
        path.write_bytes(content[:cut])
        whole = content[:cut].rfind(b"\n") + 1
        ended = cut + 1 in starts  # only the end of the line is missing
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            before = read_journal(path)
            again, _ = measured(path)
        assert any("cut short" in str(w.message) for w in caught) != ended
        assert len(before) <= 2
        assert np.array_equal(again, found)
        assert path.read_bytes().startswith(content[: cut if ended else whole])
        assert [record.outcome for record in read_journal(path)][-2:] == [DONE, DONE]


def test_the_journal_is_found_unwritable_before_a_job_is_sent(tmp_path, monkeypatch):
    path = tmp_path / "jobs.jsonl"
    measured(path)

    def refused(name, mode="r", *arguments, real=open, **more):
        if "+" in mode or "a" in mode:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return real(name, mode, *arguments, **more)

    monkeypatch.setattr("builtins.open", refused)
    with pytest.raises(ProblemError, match=r"journal=.*Permission denied"):
        measured(path)
