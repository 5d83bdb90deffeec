"""The journal of jobs: what it holds, what it refuses, and that nothing of a bad one is lost."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from dualflow import ProblemError
from dualflow.cli import app
from dualflow.quantum.circuits import TreeCircuit
from dualflow.quantum.devices import make_device
from dualflow.quantum.runs.journal import DONE, JobRecord, Journal, bindings_digest, read_journal
from dualflow.quantum.runs.laboratory import Account, Laboratory


def measured(path, batches=2):
    """A journal of two batches on the emulator."""
    lab, account = Laboratory(make_device("emulator"), "flow", journal=path), Account.opened(np.random.default_rng(0))
    for k in range(batches):
        _, account = lab.measure(account, TreeCircuit(2), np.full((k + 1, 3), 1.0), 100)
    return account


def test_a_journal_holds_what_was_sent_and_what_came_of_it(tmp_path):
    path = tmp_path / "jobs.jsonl"
    account = measured(path)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert len(lines) == 5
    assert set(lines[1]) == {"id", "tag", "device", "circuit", "bindings", "shots", "seed", "submitted"}
    first, second = read_journal(path)
    assert (first.id, second.id) == account.job_ids
    assert (first.tag, second.tag) == ("flow 0", "flow 1")
    assert (first.device, first.circuit, first.shots) == ("emulator", "TreeCircuit(n_qubits=2)", 100)
    assert first.bindings == bindings_digest(np.full((1, 3), 1.0)) != second.bindings
    assert first.seed != second.seed
    assert (first.outcome, second.outcome) == (DONE, DONE)
    assert first.submitted.endswith("+00:00")


def test_a_line_is_on_the_disk_before_the_job_is_waited_for(tmp_path):
    journal = Journal(tmp_path / "jobs.jsonl")
    record = journal.submitted(JobRecord("a", "tag", "device", "circuit", "0", 1, 2))
    assert [r.id for r in read_journal(journal.path)] == ["a"]
    assert Journal(journal.path).find(JobRecord("", "tag", "device", "circuit", "0", 1, 2)) == record
    for other in ({"tag": "x"}, {"device": "x"}, {"circuit": "x"}, {"bindings": "x"}, {"shots": None}, {"seed": 3}):
        plain = {"tag": "tag", "device": "device", "circuit": "circuit", "bindings": "0", "shots": 1, "seed": 2}
        assert journal.find(JobRecord("", **(plain | other))) is None


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda text: text[:-20] + b"\n", r"is damaged: line 5"),
        (lambda text: text.replace(b'"shots"', b'"shouts"', 1), r"is damaged: line 2"),
        (lambda text: text.replace(b'{"id"', b'{"id"\xff', 1), r"is damaged: line 2"),
        (lambda text: text + b'{"id": "nobody", "outcome": "done"}\n', r"is damaged: line 6 .*nobody"),
        (lambda text: text + b"[1]\n", r"is damaged: line 6"),
        (lambda text: b"a,b\n1,2\n", r"is not a journal of jobs: line 1"),
        (lambda text: b'{"journal": "dualflow jobs", "format": 2}\n', r"is not a journal of jobs: line 1"),
    ],
)
def test_damaged_and_foreign_files_are_refused_and_left_alone(tmp_path, damage, message):
    path = tmp_path / "jobs.jsonl"
    measured(path)
    path.write_bytes(damage(path.read_bytes()))
    before = path.read_bytes()
    with pytest.raises(ProblemError, match=message):
        measured(path)
    assert path.read_bytes() == before
    found = CliRunner().invoke(app, ["jobs", str(path)])
    assert found.exit_code == 2
    assert "line" in found.output


def test_files_that_cannot_be_used(tmp_path):
    with pytest.raises(ProblemError, match=r"journal=.*No such file"):
        measured(tmp_path / "nowhere" / "jobs.jsonl")
    with pytest.raises(ProblemError, match=r"journal=.*directory"):
        measured(tmp_path)
    (tmp_path / "empty").touch()
    measured(tmp_path / "empty")
    assert len(read_journal(tmp_path / "empty")) == 2


def test_the_command_lists_a_journal(tmp_path):
    path = tmp_path / "jobs.jsonl"
    measured(path)
    Journal(path).submitted(JobRecord("abc", "tag", "far away", "circuit", "0", None, 2))
    found = CliRunner().invoke(app, ["jobs", str(path)])
    assert found.exit_code == 0, found.output
    flat = " ".join(found.output.split())
    for text in (read_journal(path)[0].id, "emulator", "done", "abc", "far away", "exact", "not known"):
        assert text in flat
    assert CliRunner().invoke(app, ["jobs", str(tmp_path / "none")]).exit_code == 2
