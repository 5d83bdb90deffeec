"""The command line on bad days: files that are not to be lost, readers that leave, hostile text, an early Ctrl-C."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import time
import tracemalloc
import zlib
from pathlib import Path

import numpy as np
import pytest
import typer

import dualflow
from dualflow import ProblemError, cli
from dualflow.cli import sources
from dualflow.cli.output import clear_errors
from dualflow.persistence.files import csv_safe, escape_control_characters
from dualflow.quantum.runs.journal import JobRecord, Journal, read_journal
from tests.cli.test_cli import QUICK, numbers_and_labels, refused, run, table, write
from tests.combinations import often

posix = pytest.mark.skipif(sys.platform == "win32", reason="pipes, signals and devices are POSIX's")
COMMAND = [sys.executable, "-c", "from dualflow_command import main; main()"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


ESCAPE = "\x1b]0;owned\x07\x1b[2J"


# --- files that are not to be lost -----------------------------------------------------------------


def test_a_table_given_as_output_is_not_overwritten(folder):
    path = write(folder, table(), "mydata.csv")
    for arguments in (("--csv", path), ("--data", path, "--csv", path), ("--report", path)):
        refused(run(*QUICK, *arguments), "mydata.csv", "give another name")
        assert path.read_text(encoding="utf-8") == table()
    assert [p.name for p in folder.iterdir()] == ["mydata.csv"]


def test_the_data_are_not_overwritten_even_if_asked_for(folder):
    path = write(folder, table(), "mydata.csv")
    (folder / "link").symlink_to("mydata.csv")
    for out in (path, "link"):
        refused(run(*QUICK, "--data", path, "--csv", out, "--overwrite"), "is the data file")
    assert path.read_text(encoding="utf-8") == table()


def test_results_are_written_over_earlier_ones(folder):
    for _ in range(2):
        result = run(*QUICK, "--csv", "rows.csv")
        assert result.exit_code == 0, result.output
    assert sorted(p.name for p in folder.iterdir()) == ["dualflow-report.html", "rows.csv"]


def test_other_files_are_overwritten_when_asked_for(folder):
    path = write(folder, table(), "other.csv")
    result = run(*QUICK, "--csv", path, "--no-report", "--overwrite")
    assert result.exit_code == 0, result.output
    assert path.read_text(encoding="utf-8").startswith("problem,solver,")


def test_one_file_cannot_be_both_outputs(folder):
    refused(run(*QUICK, "--csv", "out", "--report", "./out"), "are the same file")


def test_circuits_are_not_written_over_the_files_of_others(folder):
    readme = write(folder, "mine", "README.md")
    refused(run("circuits", "export", "--out", folder), "README.md exists", "--overwrite")
    assert readme.read_text() == "mine"
    assert [p.name for p in folder.iterdir()] == ["README.md"]


@posix
def test_output_that_is_no_file_is_refused_before_the_work(folder):
    os.mkfifo("pipe")
    refused(run(*QUICK, "--csv", "pipe"), "is a pipe")
    refused(run(*QUICK, "--report", "/dev/null"), "is a device")


# --- streams ---------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("command", often(["solvers", "devices", "--help", "--version"], "devices", "--version"))
def test_a_reader_that_leaves_gets_no_traceback(command):
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([*COMMAND, command], stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120)
    os.close(writing)
    assert done.stderr == ""
    assert done.returncode in (141, 1)  # 1 is click's, for its own texts


@posix
@pytest.mark.parametrize("closed", often([">&-", "2>&-", ">&- 2>&-"], ">&- 2>&-"))
def test_closed_streams_are_no_error(closed):
    line = f"{sys.executable} -c 'from dualflow_command import main; main()' solvers {closed}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert done.stderr == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_behind_stdout_is_one_sentence():
    with open("/dev/full", "w") as full:
        done = subprocess.run([*COMMAND, "solvers"], stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.startswith("Error: ")
    assert done.stderr.count("\n") == 1


def test_a_terminal_without_the_characters_is_no_error():
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    done = subprocess.run([*COMMAND, "solvers"], capture_output=True, env=environment, timeout=120)
    assert done.returncode == 0
    assert done.stdout.isascii()
    assert b"working-set" in done.stdout


@posix
def test_ctrl_c_at_any_moment_of_the_start_is_one_line():
    # The first moment is the one from which Ctrl-C is answered; until then there is Python alone.
    code = """
import os, signal
from dualflow_command import main
answer = signal.signal
def answered(*given):
    signal.signal = answer
    answer(*given)
    os.write(1, b".")
signal.signal = answered
main()
"""
    for delay in (0.0, 0.05, 0.2, 0.4):
        command = [sys.executable, "-c", code, "compare", "--no-report", "--time-limit", "5"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            process.stdout.read(1)
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=120)
        assert process.returncode == 130, (delay, errors)
        assert errors.startswith(b"Interrupted")
        assert errors.count(b"\n") == 1


def test_ctrl_c_while_a_class_is_made_is_one_line(capsys):
    class Named:
        def __set_name__(self, owner, name):
            raise KeyboardInterrupt

    with pytest.raises(typer.Exit) as left, clear_errors():
        type("Made", (), {"named": Named()})
    assert left.value.exit_code == 130
    assert capsys.readouterr().err == "Interrupted.\n"
    with pytest.raises(RuntimeError, match="another"), clear_errors():
        raise RuntimeError("another")


@posix
def test_ctrl_c_that_is_ignored_stays_so():
    code = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
from dualflow_command import main
import sys
sys.argv = ["dualflow", "--version"]
try:
    main()
finally:
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"dualflow {dualflow.__version__}\n"


# --- hostile text ----------------------------------------------------------------------------------


def test_text_that_commands_is_shown():
    assert escape_control_characters(ESCAPE) == r"\x1b]0;owned\x07\x1b[2J"
    assert escape_control_characters("a\u202eb\u2028\x9b\ud800\r\n", keep="\n") == "a\\u202eb\\u2028\\x9b\\ud800\\r\n"
    for plain in ("", "plain", "Größe – α → ∞", "日本語"):
        assert escape_control_characters(plain) is plain or escape_control_characters(plain) == plain


def test_formulas_are_text():
    assert [csv_safe(text) for text in ("=1+1", "+1", "-1", "@x", "\tx", "x=1", "")] == [
        "'=1+1", "'+1", "'-1", "'@x", "'\tx", "x=1", "",
    ]  # fmt: skip
    assert csv_safe(-1.5) == -1.5


def test_labels_and_names_of_files_cannot_command_the_terminal(folder):
    path = write(folder, table().replace("up", f"u{ESCAPE}p"), f"d{ESCAPE.replace('/', '')}.csv")
    result = run(*QUICK, "--data", path, "--csv", "rows.csv")
    assert result.exit_code == 0, result.output
    wrong = run(*QUICK, "--data", path, "--classes", f"left{ESCAPE},down")
    refused(wrong, "no class")
    files = [(folder / name).read_text(encoding="utf-8") for name in ("rows.csv", "dualflow-report.html")]
    for text in (result.stdout, result.stderr, wrong.stderr, *files):
        assert "\x1b" not in text
        assert "\x07" not in text


def job(**changes):
    plain = {"label": "for", "device": "d", "circuit": "c", "qubits": 1, "bindings": "b", "circuits": 1, "shots": 4}
    return JobRecord(**(plain | {"seed": 1} | changes))


def test_names_from_a_journal_cannot_command_the_terminal(folder):
    journal = Journal("jobs.db")
    record = journal.intend(job(label=f"tag{ESCAPE}", device=f"device{ESCAPE}"), lambda spent: None)
    journal.note(record, "failed", f"failed{ESCAPE}", job_id=f"id{ESCAPE}")
    sent = journal.intend(job(device=f"device{ESCAPE}", seed=2), lambda spent: None)
    for words in (
        ["list", "jobs.db"],
        ["show", "jobs.db", record.tag],
        ["fetch", "jobs.db"],
        ["show", "jobs.db", ESCAPE],
    ):
        result = run("jobs", *words)
        assert result.exit_code == (2 if words[0] == "fetch" or words[-1] == ESCAPE else 0)
        assert "\x1b" not in result.stdout + result.stderr
        assert r"\x1b" in result.stdout + result.stderr
    assert sent.state == "intended"


# --- journals --------------------------------------------------------------------------------------


def changed(*statements):
    """A journal of two jobs with these statements done to it, as text in a file that is closed."""
    journal = Journal("jobs.db")
    for k in range(2):
        record = journal.intend(job(seed=k), lambda spent: None)
        journal.keep(journal.note(record, "sent", job_id=str(k)), np.array([[1, 3]]))
    del journal
    database = sqlite3.connect("jobs.db")
    for statement in statements:
        database.execute(statement)
    database.commit()
    database.close()
    return Path("jobs.db").read_bytes()


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("UPDATE jobs SET seed = 'x'", "seed is of type str"),
        ("UPDATE jobs SET label = x'ff'", "label is of type bytes"),
        ("UPDATE jobs SET shots = 1.5", "shots is of type float"),
        ("UPDATE jobs SET cost = 9e999", "cost is inf"),
        ("UPDATE jobs SET cost = -1.0", "cost is -1.0"),
        ("UPDATE jobs SET state = 'paid'", "a state that no job has"),
        ("UPDATE jobs SET circuits = -1", "numbers or a state"),
        ("UPDATE jobs SET qubits = 10000", "numbers or a state"),
        ("UPDATE jobs SET seed = 5", "does not match its digest"),
        ("UPDATE jobs SET circuit = 'other'", "does not match its digest"),
        ("UPDATE jobs SET note = hex(zeroblob(1000000))", "note has 2000000 characters"),
        ("UPDATE jobs SET label = CAST(x'ff' AS TEXT)", "UTF-8"),
        ("CREATE TABLE more (x)", "tables are not those of a journal"),
        ("CREATE VIEW more AS SELECT * FROM jobs", "tables are not those of a journal"),
        ("CREATE TRIGGER t AFTER UPDATE ON jobs BEGIN DELETE FROM jobs; END", "tables are not those of a journal"),
        ("DROP INDEX jobs_by_content", "tables are not those of a journal"),
        ("PRAGMA user_version = 9", "format is 9"),
        ("PRAGMA application_id = 0", "another database"),
    ],
)
def test_what_no_journal_has_is_one_sentence(folder, statement, words):
    before = changed(statement)
    refused(run("jobs", "list", "jobs.db"), "jobs.db", words)
    with pytest.raises(ProblemError, match=words):
        read_journal("jobs.db")
    if words.startswith(("tables", "format", "another")):
        with pytest.raises(ProblemError, match=words):
            Journal("jobs.db")
    assert Path("jobs.db").read_bytes() == before


@pytest.mark.parametrize(
    "content",
    [
        b'{"journal": "dualflow jobs", "format": 1}\n',
        b"a,b\n1,2\n",
        b"[" * 100_000,
        b"SQLite format 3\0" + b"\xff" * 5000,
        b"SQLite format 3\0" + b"\0" * 100,
        b"\0",
    ],
)
def test_files_of_something_else_are_refused_and_left_alone(folder, content):
    Path("jobs.db").write_bytes(content)
    refused(run("jobs", "list", "jobs.db"), "jobs.db", "not a journal of jobs")
    with pytest.raises(ProblemError, match=r"not a journal of jobs.*was not changed; give the file"):
        Journal("jobs.db")
    assert Path("jobs.db").read_bytes() == content
    assert sorted(os.listdir()) == ["jobs.db"]


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE jobs SET result = x'00'",
        "UPDATE jobs SET result = 'text'",
        "UPDATE jobs SET digest = 'other'",
        "UPDATE jobs SET digest = NULL",
    ],
)
def test_a_result_that_is_not_what_was_kept_is_not_used(folder, statement):
    changed(statement)

    def result():
        journal = Journal("jobs.db")
        journal.result(journal.records()[0])

    with pytest.raises(ProblemError, match="is damaged"):
        result()


def test_a_result_is_unpacked_to_its_circuits_size_and_no_further(folder):
    changed()
    bomb = zlib.compress(bytes(100_000_000))
    database = sqlite3.connect("jobs.db")
    database.execute("UPDATE jobs SET result = ?", (bomb,))
    database.commit()
    database.close()
    journal = Journal("jobs.db")
    tracemalloc.start()
    with pytest.raises(ProblemError, match="does not match its digest"):
        journal.result(journal.records()[0])
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_000_000


@posix
def test_journals_that_are_no_files_are_refused(folder):
    os.mkfifo("pipe")
    for path, kind in (("pipe", "pipe"), ("/dev/zero", "device"), (folder, "directory")):
        refused(run("jobs", "list", path), f"is not a file but a {kind}")
        with pytest.raises(ProblemError, match=f"a {kind}"):
            Journal(path)
    refused(run("jobs", "list", "nowhere"), "nowhere", "No such file")


# --- tables ----------------------------------------------------------------------------------------


def data(folder: Path, content: bytes | str) -> Path:
    path = folder / "data.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a,b,kind\n1,2,x\n1,2,\xe9\n", ("line 3", "UTF-8")),
        (b"\xff\xfea\0,\0b\0", ("line 1", "UTF-8")),
        (b"a,b,kind\n1,2,x\n1,2\0,y\n", ("line 3", "NUL")),
        (b'a,b,kind\n1,"2,x\n1,2,y\n', ("data.csv", "line")),
        (b'a,b,kind\n1,"2"3,x\n', ("line 2",)),
        (b"a,b,kind\n1," + b"9" * 200_000 + b",x\n", ("line 2", "field")),
        (b"a,b,kind\n1," + b"x" * 100_000 + b",x\n", ("line 2", "is not a finite number")),
        (b"a,b,kind\n1,1_000,x\n", ("line 2", "'1_000' is not a finite number")),
        ("a,b,kind\n1,١,x\n", ("line 2", "is not a finite number")),
        (b"1,2,x\nnan,2,x\n", ("line 2", "column 1: the cell is missing")),
        (b"nan,2,x\n1,2,x\n", ("line 1", "column 1: the cell is missing")),
        (b",2,x\n1,2,y\n", ("line 1", "column 1", "it is empty")),
        (b"a,b,kind\n1,2,x\n\n\n1,2,\n", ("line 5", "kind is empty")),
        (b"a,b,kind\n1,2,x\n1,2,3\n", ("line 2", "mixes numbers and text")),
        (b"a,b,kind\n1,2,x\n1,2,y,z\n", ("line 3 has 4 cells",)),
        (b"\n\n \n", ("is empty",)),
    ],
)
def test_tables_that_are_none_are_one_sentence_with_file_and_line(folder, content, words):
    result = run("compare", "--data", data(folder, content), "--no-one-hot", "--no-impute")
    refused(result, "data.csv", *words)
    assert len(result.stderr) < 500


@pytest.mark.parametrize("label", ["²", "१", "9" * 5000, "-1", "0", "1.0", " 1", "", "+1", "1_0", ESCAPE])
def test_labels_that_name_no_column_are_one_sentence(folder, label):
    refused(run("compare", "--data", data(folder, table()), f"--label={label}"), "has no column")


def test_a_label_that_names_two_columns_is_refused(folder):
    refused(run("compare", "--data", data(folder, "a,a,b\n1,2,x\n"), "--label", "a"), "has 2 columns 'a'")


@pytest.mark.parametrize(
    "content",
    [
        "1,2,x\r\n3,4,y\r\n",
        "\ufeff1,2,x\n3,4,y",
        '"1","2","x"\n\n3,4,"y"\n\n',
        " 1 , 2 ,x\n3,4, y \n",
        "1,2,x\r3,4,y\r",
    ],
)
def test_one_table_in_many_writings(folder, content):
    X, y = numbers_and_labels(data(folder, content))
    assert X.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert y.tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        ([2**53, 2**53 + 1], "i"),
        ([-(2**63), 2**63 - 1], "i"),
        ([2**63, 2**64 - 1], "u"),
        ([-1, 2**63, 2**63 + 1], "U"),
        ([2**64, 2**64 + 1], "U"),
        (["9007199254740992.0", "9007199254740993.0"], "i"),
        (["0.1", "0.10000000000000000001"], "U"),
        (["0.5", "1.5"], "f"),
        (["01", "1"], "i"),
        (["1_0", "10a"], "U"),
    ],
)
def test_labels_that_differ_stay_apart(folder, labels, kind):
    content = "a,label\n" + "".join(f"{k}.5,{label}\n" for k, label in enumerate(labels))
    found = numbers_and_labels(data(folder, content))[1]
    assert found.dtype.kind == kind
    assert len(np.unique(found)) == (1 if labels == ["01", "1"] else len(labels))
    if kind in "iu" and type(labels[0]) is int:
        assert found.tolist() == labels


def test_classes_of_large_numbers_are_chosen_exactly(folder):
    rows = "".join(f"{k / 7},{k % 3},{2**53 + k % 3}\n" for k in range(30))
    path = data(folder, rows)
    result = run(*QUICK, "--data", path, "--classes", f"{2**53 + 1},{2**53 + 2}", "--no-report")
    assert result.exit_code == 0, result.output
    assert f"trained on class {2**53 + 1}" in result.stdout


@posix
def test_tables_that_are_no_files_are_refused(folder):
    os.mkfifo("pipe")
    for path, kind in (("pipe", "pipe"), ("/dev/zero", "device")):
        refused(run("compare", "--data", path), f"is not a file but a {kind}")


def test_a_table_that_is_too_large_is_not_read(folder, monkeypatch):
    monkeypatch.setattr(sources, "MAX_BYTES", 100)
    refused(run("compare", "--data", data(folder, table())), "data.csv has", "MAX_BYTES=100")


def test_the_entry_point_is_that_of_the_command():
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"]["dualflow"] == "dualflow_command:main"
    assert callable(cli.main)
