"""The journal of jobs: its content, its data and owner, jobs that are requested again, and the commands."""

import copy
import os
import pickle
import sqlite3

import numpy as np
import pytest
from typer.testing import CliRunner

import dualflow
from dualflow import SVC, DeviceError, ProblemError
from dualflow.cli import app
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import DEVICES, make_device
from dualflow.quantum.runs import sending
from dualflow.quantum.runs.job_record import JobRecord, bindings_digest
from dualflow.quantum.runs.journal import Journal, read_journal
from dualflow.quantum.runs.laboratory import Account, Laboratory
from dualflow.testing.cloud import FakeCloud, Faults

X = np.random.default_rng(0).normal(size=(6, 2))
Y = np.where(np.arange(6) % 2 == 0, 1.0, -1.0)
OPTIONS = {"shots": 100, "steps": 3, "random_state": 1}


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    monkeypatch.setattr(sending, "FIRST_PAUSE_S", 0.0005)


def posed(y=Y, C=5.0, data=X):
    return dualflow.problems.svc(dualflow.Gram(data, gamma=0.7), y, C, loss="squared_hinge")


def measured(path, batches=2, device="emulator", **more):
    """A journal of some batches."""
    lab, account = (
        Laboratory(make_device(device), "flow", journal=path, **more),
        Account.opened(np.random.default_rng(0)),
    )
    for k in range(batches):
        found, account = lab.measure(account, TreeCircuit(2), np.full((k + 1, 3), 1.0), 100)
    return found, account


def job(**changes):
    plain = {"label": "for", "device": "device", "circuit": "circuit", "qubits": 1, "bindings": "0", "circuits": 1}
    return JobRecord(**(plain | {"shots": 10, "seed": 2} | changes))


def free(spent):
    pass


# --- content ---------------------------------------------------------------------------------------


def test_a_journal_holds_jobs_and_their_results(tmp_path):
    found, account = measured(tmp_path / "jobs.db")
    first, second = read_journal(tmp_path / "jobs.db")
    assert (first.job_id, second.job_id) == account.job_ids
    assert (first.label, second.label) == ("flow 0", "flow 1")
    assert (first.device, first.circuit, first.shots) == ("emulator", "TreeCircuit(n_qubits=2)", 100)
    assert (first.qubits, first.circuits, second.circuits) == (2, 1, 2)
    assert first.bindings == bindings_digest(np.full((1, 3), 1.0)) != second.bindings
    assert first.seed != second.seed
    assert first.tag != second.tag
    assert (first.state, second.state) == ("done", "done")
    assert first.intended.endswith("+00:00")
    np.testing.assert_array_equal(Journal(tmp_path / "jobs.db").result(second) / 100, found)


def test_exact_distributions_are_kept_to_the_last_bit(tmp_path):
    theta = np.random.default_rng(3).normal(size=(2, 7))
    for _ in range(2):
        lab = Laboratory(make_device("emulator"), "flow", journal=tmp_path / "jobs.db")
        found, _ = lab.measure(Account.opened(np.random.default_rng(_)), TreeCircuit(3), theta, None)
        np.testing.assert_array_equal(found, TreeCircuit(3).distribution(theta))
    assert len(read_journal(tmp_path / "jobs.db")) == 1  # a seed means nothing there


def test_an_intent_is_on_the_disk_before_it_is_sent(tmp_path):
    seen = []

    class Watched(FakeCloud):
        def _submit(self, circuit, values, shots, tag, seed):
            seen.append((tag, [(r.tag, r.state) for r in read_journal(tmp_path / "jobs.db")]))
            return super()._submit(circuit, values, shots, tag, seed)

    cloud = Watched(tmp_path / "cloud.db")
    measured(tmp_path / "jobs.db", device=cloud)
    assert [rows[-1] for _, rows in seen] == [(tag, "intended") for tag, _ in seen]
    assert cloud.paid()["tags"] == [tag for tag, _ in seen]
    assert len({tag for tag, _ in seen}) == 2


def test_jobs_of_equal_content_are_found(tmp_path):
    journal = Journal(tmp_path / "jobs.db")
    record = journal.intend(job(), free)
    assert Journal(journal.path).find(job(label="another", mitigation="confusion", cost=1.0)) == record
    for other in ("device", "circuit", "bindings"):
        assert journal.find(job(**{other: "x"})) is None
    for other in ({"shots": None}, {"shots": 11}, {"seed": 3}, {"qubits": 2}, {"circuits": 2}):
        assert journal.find(job(**other)) is None


def test_only_the_owner_can_read_it(tmp_path):
    old = os.umask(0o000)
    try:
        (tmp_path / "empty.db").touch()
        journals = [Journal(tmp_path / name) for name in ("jobs.db", "empty.db")]
        for journal in journals:
            journal.intend(job(), free)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
        assert {"jobs.db", "jobs.db-wal", "empty.db"} <= set(modes)
        assert set(modes.values()) == {0o600}
    finally:
        os.umask(old)
    (mode,), (synchronous,) = (
        journals[0]._database.execute(f"PRAGMA {name}").fetchone() for name in ("journal_mode", "synchronous")
    )
    assert (mode, synchronous) == ("wal", 2)


def test_copies_and_children_of_a_fork_use_different_tags(tmp_path):
    journal = Journal(tmp_path / "jobs.db")
    for other in (journal, copy.deepcopy(journal), pickle.loads(pickle.dumps(journal))):
        other.intend(job(), free)
    child = os.fork()
    if child == 0:  # pragma: no cover - another process
        try:
            journal.intend(job(seed=9), free)
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    journal.intend(job(seed=10), free)
    records = read_journal(tmp_path / "jobs.db")
    assert len({record.tag for record in records}) == len(records) == 5
    assert {record.seed for record in records} == {2, 9, 10}


def test_a_list_changes_no_file(tmp_path):
    measured(tmp_path / "jobs.db")
    before = (tmp_path / "jobs.db").read_bytes()
    assert len(read_journal(tmp_path / "jobs.db")) == 2
    assert (tmp_path / "jobs.db").read_bytes() == before
    assert os.listdir(tmp_path) == ["jobs.db"]


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(ProblemError, match=r"journal=.*No such file"):
        measured(tmp_path / "nowhere" / "jobs.db")
    with pytest.raises(ProblemError, match=r"journal=.*directory"):
        measured(tmp_path)
    (tmp_path / "empty").touch()
    measured(tmp_path / "empty")
    assert len(read_journal(tmp_path / "empty")) == 2


# --- its data and owner ----------------------------------------------------------------------------


def test_other_data_are_refused_by_their_hash(tmp_path):
    path = tmp_path / "jobs.db"
    whole = dualflow.solve(posed(), "variational-flow", device="emulator", journal=path, **OPTIONS)
    before = read_journal(path)
    for other in (posed(data=X + 1e-9), posed(y=-Y), posed(C=4.0)):
        with pytest.raises(ProblemError, match=r"journal=.*was made for other data"):
            dualflow.solve(other, "variational-flow", device="emulator", journal=path, **OPTIONS)
    again = dualflow.solve(posed(), "variational-flow", device="emulator", journal=path, **OPTIONS)
    np.testing.assert_array_equal(again.raw_alpha, whole.raw_alpha)
    assert read_journal(path) == before


def test_all_pairs_of_a_fit_share_a_journal(tmp_path):
    data, classes = np.concatenate([X, X + 2]), np.arange(12) % 3
    options = {"device": "emulator", "shots": 100, "steps": 3, "journal": tmp_path / "jobs.db"}
    model = SVC(loss="squared_hinge", solver="variational-flow", solver_options=options, random_state=1, refine=False)
    with pytest.warns(UserWarning, match="did not reach tol"):
        model.fit(data, classes)
    before = read_journal(tmp_path / "jobs.db")
    with pytest.warns(UserWarning, match="did not reach tol"):
        model.fit(data, classes)
    assert read_journal(tmp_path / "jobs.db") == before
    assert len(before) == 12
    with pytest.raises(ProblemError, match="was made for other data"):
        model.fit(data, (np.arange(12) + 1) % 3)


# --- jobs that are requested again -----------------------------------------------------------------


def test_a_run_is_replayed_without_its_device(tmp_path):
    cloud = FakeCloud(tmp_path / "cloud.db")
    whole = dualflow.solve(posed(), "variational-flow", device=cloud, journal=tmp_path / "jobs.db", **OPTIONS)
    paid = cloud.paid()
    os.unlink(tmp_path / "cloud.db")
    gone = FakeCloud(tmp_path / "cloud.db", Faults(unreachable=1.0))
    again = dualflow.solve(posed(), "variational-flow", device=gone, journal=tmp_path / "jobs.db", **OPTIONS)
    np.testing.assert_array_equal(again.raw_alpha, whole.raw_alpha)
    assert (again.cost.circuits, again.cost.shots) == (whole.cost.circuits, whole.cost.shots)
    assert again.provenance["job_ids"] == whole.provenance["job_ids"]
    assert paid["circuits"] == whole.cost.circuits
    assert gone.paid()["jobs"] == 0


class Dead(BaseException):
    """Raised in place of a kill of the process."""


def dying(word):
    """An observer of a cloud that raises `Dead` at one word, once."""
    observed = []

    def observe(said):
        if said == word and not observed:
            observed.append(said)
            raise Dead

    return observe


@pytest.mark.parametrize("tags", [True, False])
@pytest.mark.parametrize("word", ["before submit", "after submit"])
def test_a_job_without_an_id_is_looked_up_or_needs_resend(tmp_path, tags, word):
    path = tmp_path / "jobs.db"
    with pytest.raises(Dead):
        measured(path, device=FakeCloud(tmp_path / "cloud.db", tags=tags, on_event=dying(word)))
    assert [record.state for record in read_journal(path)] == ["intended"]
    cloud = FakeCloud(tmp_path / "cloud.db", tags=tags)
    if not tags:
        with pytest.raises(DeviceError, match=r"may have been sent.*resend=True") as caught:
            measured(path, device=cloud)
        assert caught.value.sent is None
        assert cloud.paid()["jobs"] == (word == "after submit")
    found, _ = measured(path, device=cloud, resend=not tags)
    np.testing.assert_array_equal(found, measured(tmp_path / "other")[0])
    # Only a job of unknown state is paid twice, with resend=True.
    assert cloud.paid()["jobs"] == 2 + (not tags and word == "after submit")
    states = [record.state for record in read_journal(path)]
    assert states == (["done", "done"] if tags and word == "after submit" else [states[0], "done", "done"])
    assert states[0] in ("done", "not sent", "given up")


@pytest.mark.parametrize("word", ["before result", "after result", "after status", "before status"])
def test_a_job_with_an_id_is_found_again(tmp_path, word):
    path = tmp_path / "jobs.db"
    with pytest.raises(Dead):
        measured(path, device=FakeCloud(tmp_path / "cloud.db", Faults(slow=3), on_event=dying(word)))
    assert [record.state for record in read_journal(path)] == ["sent"]
    cloud = FakeCloud(tmp_path / "cloud.db", Faults(slow=3))
    measured(path, device=cloud)
    assert cloud.paid()["jobs"] == 2


def test_a_failed_job_is_sent_again_by_the_next_run_alone(tmp_path):
    path, broken = tmp_path / "jobs.db", FakeCloud(tmp_path / "cloud.db", Faults(failing=1.0))
    for k in (1, 2):
        with pytest.raises(DeviceError, match="is failed"):
            measured(path, device=broken)
        assert [record.state for record in read_journal(path)] == ["failed"] * k
    measured(path, device=FakeCloud(tmp_path / "cloud.db"))
    assert FakeCloud(tmp_path / "cloud.db").paid()["jobs"] == 2


# --- the commands ----------------------------------------------------------------------------------


def command(*words):
    found = CliRunner().invoke(app, ["jobs", *map(str, words)])
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, " ".join(found.output.split())


@pytest.fixture
def half(tmp_path, monkeypatch):
    """A journal with a finished job and a job whose process died while it waited, and their cloud."""

    class Named(FakeCloud):
        @classmethod
        def named(cls, name):
            return cls(tmp_path / "cloud.db", Faults(slow=3))

    everything, load = DEVICES._all() | {"fake-cloud": "tests.none:Named"}, type(DEVICES)._load
    monkeypatch.setattr(type(DEVICES), "_all", lambda self: everything)
    monkeypatch.setattr(
        type(DEVICES), "_load", lambda self, name, target: Named if name == "fake-cloud" else load(self, name, target)
    )
    path = tmp_path / "jobs.db"
    measured(path, batches=1, device=FakeCloud(tmp_path / "cloud.db"))
    with pytest.raises(Dead):
        measured(path, device=FakeCloud(tmp_path / "cloud.db", Faults(slow=9, seed=2), on_event=dying("after status")))
    return path


def test_list_and_show(half):
    code, text = command("list", half)
    first, second = read_journal(half)
    assert code == 0
    for word in (first.tag, first.job_id, "fake-cloud", "done", "sent", "flow 0", "100"):
        assert word in text
    for name in (second.tag, second.job_id):
        code, text = command("show", half, name)
        assert code == 0
        assert "with the device" in text
        assert second.bindings in text
    assert command("show", half, "unknown")[0] == 2
    assert command("list", half.parent / "none")[0] == 2


def test_the_user_must_name_the_device_of_a_journal(half):
    code, text = command("resume", half)
    assert code == 2
    assert "--device fake-cloud" in text
    code, text = command("resume", half, "--device", "emulator")
    assert code == 2
    assert "the journal's jobs are on 'fake-cloud'" in text


def test_fetch_requests_once_and_resume_waits(half):
    tag = read_journal(half)[1].tag
    code, text = command("fetch", half, "--device", "fake-cloud")
    assert (code, text in (f"{tag}: queued", f"{tag}: running")) == (0, True)
    assert read_journal(half)[1].state == "sent"
    assert command("resume", half, "--device", "fake-cloud") == (0, f"{tag}: done")
    assert [record.state for record in read_journal(half)] == ["done", "done"]
    assert command("fetch", half, "--device", "fake-cloud") == (
        0,
        "No job is open: each has its results, or has failed.",
    )
    # The run itself sends no more requests to the cloud.
    found, _ = measured(half, device=FakeCloud(half.parent / "gone.db", Faults(unreachable=1.0)))
    np.testing.assert_array_equal(found, measured(half.parent / "other")[0])


def test_cancel_cancels_jobs_that_have_not_run(half):
    assert command("cancel", half, "--device", "fake-cloud")[1].endswith("cancelled")
    cloud = FakeCloud(half.parent / "cloud.db")
    assert cloud.paid()["jobs"] == 1
    assert [record.state for record in read_journal(half)] == ["done", "failed"]
    measured(half, device=cloud)
    assert cloud.paid()["jobs"] == 2


def test_resume_stops_at_an_unknown_job_and_sends_it_with_resend(tmp_path, half, monkeypatch):
    path = tmp_path / "unknown.db"
    with pytest.raises(Dead):
        measured(path, device=FakeCloud(tmp_path / "other.db", tags=False, on_event=dying("after submit")))
    monkeypatch.setattr(FakeCloud, "lookup", lambda self, tag: super(FakeCloud, self).lookup(tag))
    code, text = command("resume", path, "--device", "fake-cloud")
    assert code == 1
    assert "--resend" in text
    assert [record.state for record in read_journal(path)] == ["intended"]
    code, text = command("resume", path, "--device", "fake-cloud", "--resend")
    assert code == 0
    assert "the next run sends it" in text
    assert [record.state for record in read_journal(path)] == ["given up"]


def test_a_locked_journal_is_waited_for(tmp_path):
    journal = Journal(tmp_path / "jobs.db")
    other = sqlite3.connect(tmp_path / "jobs.db")
    assert other.execute("SELECT count(*) FROM jobs").fetchone() == (0,)
    journal.intend(job(), free)
    assert other.execute("SELECT count(*) FROM jobs").fetchone() == (1,)
    other.close()
