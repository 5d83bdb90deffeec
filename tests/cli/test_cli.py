"""The command line: exit codes, one-sentence errors, the files it writes."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner, Result

import dualflow
from dualflow import cli, comparison
from dualflow.catalogue import SOLVER_CLASSES
from dualflow.cli.csv_data import CsvFormat
from dualflow.cli.labels import labels_of
from dualflow.cli.options import EXAMPLES
from dualflow.cli.reading import read_new
from dualflow.cli.table import RequestedColumns
from dualflow.cli.training_data import EncodingOptions
from dualflow.solvers import registry

QUICK = ("compare", "--solvers", "smo,cvxopt", "--max-n", "12", "--problems", "hinge,svdd")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli.app, [str(a) for a in arguments])


def refused(result: Result, *words: str) -> None:
    """Exit code 2, one sentence on stderr, nothing on stdout."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1
    for word in words:
        assert word in result.stderr


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(folder: Path, text: str, name: str = "data.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def table(n: int = 40, header: str = "a,b,kind\n") -> str:
    rng = np.random.default_rng(0)
    rows = [f"{x:.4f},{y:.4f},{'up' if y > 0 else 'down'}" for x, y in rng.normal(size=(n, 2))]
    return header + "\n".join(rows) + "\n"


def numbers_and_labels(path: Path, label: str | None = None) -> tuple[np.ndarray, np.ndarray]:
    """What a table of numbers holds, as it is."""
    table = read_new(path, RequestedColumns(label), CsvFormat())
    return EncodingOptions(one_hot=False, impute=False, standardise=False).encoded(table)[1], labels_of(table)


def test_the_main_job_on_bundled_digits(folder):
    result = run(*QUICK, "--csv", "rows.csv")
    assert result.exit_code == 0, result.output
    assert "C-SVM, hinge loss, C = 1  (n = 12, box with equality)" in result.stdout
    assert "trained on class 1  (n = 6, simplex)" in result.stdout
    assert max(map(len, result.stdout.split("Report:")[0].splitlines())) <= 120
    assert "Report: dualflow-report.html" in result.stdout
    assert result.stdout.rstrip().endswith("No quantum advantage is claimed.")
    assert (folder / "dualflow-report.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    with open("rows.csv", newline="", encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 4


def test_no_report_and_options_reach_the_comparison(folder, monkeypatch):
    seen = {}

    def spy(X, y, *arguments, **options):
        seen.update(options, classes=np.unique(y).tolist(), arguments=arguments)
        return kept(X, y, *arguments, **options)

    kept = comparison.compare
    monkeypatch.setattr(comparison, "compare", spy)
    options = "--C 2.5 --nu 0.4 --gamma 0.01 --kernel rbf --shots 77 --seed 5 --time-limit 9 --tol 1e-4 --studies"
    result = run(*QUICK, "--no-report", "--digits", "7, 3", *options.split())
    assert result.exit_code == 0, result.output
    assert list(folder.iterdir()) == []
    assert seen["classes"] == [3, 7]
    assert seen["inlier_class"] == 7
    assert seen["arguments"] == (["hinge", "svdd"], ["smo", "cvxopt"], 12)
    wanted = {"C": 2.5, "nu": 0.4, "gamma": 0.01, "shots": 77, "random_state": 5, "time_limit": 9, "tol": 1e-4}
    assert {name: seen[name] for name in wanted} == wanted
    assert seen["studies"] is True


@pytest.mark.parametrize("header", ["a,b,kind\n", ""])
def test_csv_with_and_without_a_header(folder, header):
    path = write(folder, "\ufeff" + table(header=header) + "\n")
    result = run(*QUICK, "--data", path, "--no-report")
    assert result.exit_code == 0, result.output
    assert "trained on class down" in result.stdout


def test_csv_with_the_label_named_or_numbered(folder):
    lines = [line.split(",") for line in table().splitlines()]
    path = write(folder, "\ufeff" + "\n".join(f"{kind},{a},{b}" for a, b, kind in lines))
    for label in ("kind", "1"):
        result = run(*QUICK, "--data", path, "--label", label, "--classes", "up,down", "--no-report")
        assert result.exit_code == 0, result.output
        assert "trained on class up" in result.stdout


def test_csv_with_numeric_labels_keeps_them(folder):
    path = write(folder, "1,2\n" + "\n".join(f"{k / 10},{k % 2}" for k in range(20)), "numbers.csv")
    X, y = numbers_and_labels(path)
    assert X.shape == (21, 1)
    assert y.dtype.kind == "i"
    assert y[:3].tolist() == [2, 0, 1]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", (), ("is empty",)),
        ("a,b,kind\n", (), ("has only a header",)),
        (table(), ("--label", "colour"), ("no column 'colour'", "a, b, kind")),
        (table(), ("--label", "7"), ("no column '7'",)),
        (table() + "1.0,two,up\n", (), ("line 42", "b", "'two' is not a finite number")),
        ("last login,a,kind\n2024-01-05,1,x\n2024-02-06,2,y\n", (), ("is a date", '--drop "last login", or')),
        (table() + "1.0,€ 2,up\n", (), ("'€ 2' is not a finite number", 'add --missing "€ 2" if')),
        (table() + "1.0,,up\n", ("--no-impute",), ("line 42", "b", "it is empty")),
        (table() + "1.0,nan,up\n", ("--no-impute",), ("line 42", "b", "missing")),
        (table() + "1.0,2.0\n", (), ("line 42 has 2 cells", "3")),
        (table() + "1.0,2.0,3\n", (), ("mixes numbers and text", "'3'")),
        (table() + "1.0,2.0,\n", (), ("kind is empty or missing",)),
        (table() + "1.0,2.0,sideways\n", (), ("3 classes", '--classes "down,sideways"')),
        (table(), ("--classes", "up,left"), ("no class 'left'", "down, up")),
        (table(), ("--classes", "up"), ("two different labels",)),
        ("a\n1\n2\n", (), ("single column",)),
        ("a,kind\n1,up\n2,up\n", (), ("single class",)),
    ],
)
def test_bad_csv_is_one_sentence(folder, text, options, words):
    path = write(folder, text)
    refused(run("compare", "--data", path, *options), *words)
    assert [p.name for p in folder.iterdir()] == ["data.csv"]


def test_files_that_are_not_there_or_not_text(folder):
    refused(run("compare", "--data", "nowhere.csv"), "nowhere.csv", "No such file")
    refused(run("compare", "--data", folder), "directory")
    (folder / "binary.csv").write_bytes(bytes(range(128, 256)))
    refused(run("compare", "--data", "binary.csv"), "not a CSV text file")
    refused(run("compare", "--report", "no/such/folder.html"), "does not exist")
    refused(run("compare", "--csv", folder), "is a folder")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--problems", "hing"), ("did you mean 'hinge'",)),
        (("--problems", ","), ("problems is empty",)),
        (("--solvers", "sm0"), ("did you mean 'smo'",)),
        (("--max-n", "1"), ("--max-n=1",)),
        (("--shots", "0"), ("shots=0",)),
        (("--C", "-1"), ("C=-1",)),
        (("--C", "nan"), ("C=nan",)),
        (("--nu", "2"), ("nu=2",)),
        (("--gamma", "wide"), ("gamma='wide'",)),
        (("--kernel", "rbff"), ("did you mean 'rbf'",)),
        (("--fit-intercept", "maybe"), ("--fit-intercept='maybe'", "penalised")),
        (("--seed", "-1"), ("--seed=-1",)),
        (("--time-limit", "0"), ("--time-limit=0",)),
        (("--digits", "1"), ("two different digits",)),
        (("--digits", "1,1"), ("two different digits",)),
        (("--label", "x"), ("need DATA",)),
    ],
)
def test_bad_options_are_one_sentence(folder, options, words):
    refused(run("compare", *options), *words)
    assert list(folder.iterdir()) == []


def test_a_comparison_of_an_indefinite_kernel_with_the_bias_inside_it(folder):
    options = ("--kernel", "sigmoid", "--problems", "hinge", "--max-n", "20", "--no-report", "--csv", "rows.csv")
    result = run("compare", *options, "--solvers", "working-set,evolution-strategy", "--fit-intercept", "penalised")
    assert result.exit_code == 0, result.stderr
    assert "penalised bias" in result.stdout
    rows = (folder / "rows.csv").read_text(encoding="utf-8")
    assert "evolution-strategy" in rows
    assert rows.count("hinge,working-set,repair,") == 3
    assert all(f"those of the repaired problem; {method}: " in rows for method in ("clip", "flip", "shift"))


def test_an_unknown_option_exits_with_2():
    result = run("compare", "--shotz", "5")
    assert result.exit_code == 2
    assert "--shotz" in result.stderr
    assert "Traceback" not in result.stderr


def test_ctrl_c_shows_what_there_is_and_exits_with_130(folder, monkeypatch):
    kept = dualflow.solve

    def solve(problem, solver, **options):
        if getattr(solver, "name", solver) == "smo" and problem.model == "svdd":
            raise KeyboardInterrupt
        return kept(problem, solver, **options)

    monkeypatch.setattr(comparison.rows, "solve", solve)
    result = run(*QUICK, "--report", "x.html")
    assert result.exit_code == 130
    assert "optimal" in result.stdout
    assert "not run" in result.stdout
    assert "Interrupted; the report shows the rows that have run" in result.stderr
    assert [path.name for path in folder.iterdir()] == ["x.html"]
    assert "The comparison was interrupted" in (folder / "x.html").read_text(encoding="utf-8")


def test_ctrl_c_before_there_is_anything_exits_with_130(folder, monkeypatch):
    def compare(*_arguments, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(comparison, "compare", compare)
    assert run(*QUICK).exit_code == 130


def test_ctrl_c_does_not_wait_for_a_simulators_thread(folder):
    code = """
import sys, threading, time
from dualflow import cli, comparison
def compare(*arguments, **options):
    threading.Thread(target=time.sleep, args=(60,)).start()
    raise KeyboardInterrupt
comparison.compare = compare
sys.argv = ["dualflow", "compare"]
cli.main()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=45)
    assert done.returncode == 130
    assert done.stderr == "Interrupted.\n"


def test_solvers_lists_all_with_what_to_install(monkeypatch):
    monkeypatch.setitem(SOLVER_CLASSES, "absent", "no_such_module_at_all:Solver")
    result = run("solvers")
    assert result.exit_code == 0
    for name in registry.solver_names():
        assert name in result.stdout
    assert "no_such_module_at_all" in " ".join(result.stdout.split())
    assert "CVXOPT, which is under the GPL-3" in " ".join(result.stdout.split())


def test_solvers_are_a_line_each_in_80_columns_and_below_it_what_they_solve(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    text = run("solvers").stdout
    assert max(map(len, text.splitlines())) <= 80
    infos = dualflow.list_solvers()
    table, _, below = text.partition("Problem kinds: ")
    assert len(table.strip().splitlines()) - 2 <= len(infos) + 3  # an install line may be folded
    joined = " ".join(below.split())
    for info in infos:
        kinds = ", ".join(info.kinds)
        same = [other.name for other in infos if other.kinds == info.kinds]
        assert f"{kinds}: {', '.join(same)}" in joined


def test_devices_lists_all():
    result = run("devices")
    assert result.exit_code == 0
    for info in dualflow.list_devices():
        assert info.name in result.stdout


@pytest.mark.parametrize("words", [("solvers",), ("devices",), ("circuits", "list")])
def test_lists_are_json_on_request(words):
    found = json.loads(run(*words, "--json").stdout)
    rows = found["devices"] if words == ("devices",) else found
    assert {"smo", "aer", "tree-4"} & {row[words[0].rstrip("s")] for row in rows} or len(rows) > 10
    assert len({tuple(row) for row in rows}) == 1


def test_version_and_help():
    assert run("--version").stdout.strip() == f"dualflow {dualflow.__version__}"
    result = run("--help")
    assert result.exit_code == 0
    for command in ("train", "predict", "check", "compare", "solvers", "devices"):
        assert command in result.stdout
    assert "..." not in result.stdout.partition("Commands:")[2]  # no sentence is cut
    options = run("train", "--help").stdout
    assert "--drop COLUMN" in options
    assert "--tol NUMBER" in options
    assert not re.search("<[a-z]", options)


@pytest.mark.parametrize(
    "words", [(), ("train",), ("predict",), ("compare",), ("jobs", "list"), ("circuits", "export")]
)
def test_h_is_help_everywhere(words):
    short, long = run(*words, "-h"), run(*words, "--help")
    assert (short.exit_code, long.exit_code) == (0, 0)
    assert short.stdout == long.stdout
    assert "-h, --help" in short.stdout


@pytest.mark.parametrize("words", sorted(EXAMPLES))
def test_help_ends_with_an_example_that_the_command_takes(words):
    text = run(*words.split(), "--help").stdout
    assert text.endswith(f"\n\nExample: dualflow {EXAMPLES[words]}\n")
    assert EXAMPLES[words].startswith(words)
    command = get_command(cli.app)
    for word in words.split():
        command = command.commands[word]
    rest = EXAMPLES[words].split()[len(words.split()) :]
    command.make_context(words, rest)  # the options are its own


def test_every_command_has_an_example_and_a_usage_without_braces():
    top = get_command(cli.app)
    names = [
        f"{name} {part}".strip()
        for name, command in top.commands.items()
        for part in getattr(command, "commands", {"": None})
    ]
    assert sorted(names) == sorted(EXAMPLES)
    assert run("check", "--help").stdout.splitlines()[0].endswith(" check [OPTIONS] MODEL [DATA]")


@pytest.mark.parametrize(("command", "first"), [("compare", "--label"), ("train", "--out")])
def test_help_explains_the_most_used_options_and_names_all(monkeypatch, command, first):
    monkeypatch.setenv("COLUMNS", "80")
    short, full = (run(command, option).stdout for option in ("--help", "--help-all"))
    lines = short.splitlines()
    assert len(lines) <= 70
    assert max(map(len, lines)) <= 80
    assert re.search(rf"^Options:\n  {first} ", short, flags=re.MULTILINE)
    options = [set(re.findall(r"--[A-Za-z][A-Za-z0-9-]*", text)) for text in (short, full)]
    assert options[1] <= options[0]
    assert len(full.splitlines()) > len(lines)


def test_help_loads_nothing_heavy():
    code = (
        "import sys; import dualflow.cli; "
        "print([m for m in ('sklearn', 'qiskit', 'pennylane', 'matplotlib', 'jinja2', 'cvxopt') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


DRY = ("compare", "--dry-run", "--max-n", "12", "--devices", "aer", "--time-limit", "20")


def test_a_dry_run_says_what_would_be_sent_and_runs_nothing(folder, monkeypatch):
    def sent(*_):
        raise AssertionError("a dry run sent a job")

    monkeypatch.setattr("dualflow.quantum.devices.aer.AerDevice._submit", sent)
    result = run(*DRY, "--problems", "squared_hinge", "--solvers", "variational-flow,smo", "--shots", "500")
    assert result.exit_code == 0, result.output
    assert list(folder.iterdir()) == []
    (row,) = [line for line in result.stdout.splitlines() if "variational" in line]
    assert "41" in row
    assert "20,500" in row
    assert "smo" not in result.stdout
    assert "In all 41 circuits and 20,500 shots, all on this computer." in result.stdout
    assert result.stdout.rstrip().endswith("Nothing was sent.")


def test_a_dry_run_has_a_row_for_what_cannot_run(folder):
    found = comparison.dry_run(
        *tiny(), problems="hinge", solvers=["variational-flow", "hamiltonian-dilation"], shots=100, time_limit=60.0
    )
    first, *others = found.rows
    assert first.estimate is None
    assert "does not solve problems of kind" in first.reason
    assert [row.device for row in others] == ["aer", "pennylane:lightning.qubit", "aer"]
    assert [row.estimate.shots for row in others] == [20_100, 20_100, 0]
    assert "exact" in others[-1].cells()
    assert [cells[1] for cells in found.cells()] == ["hamiltonian-dilation"] * 3
    (why,) = found.left_out()
    assert "'variational-flow' does not solve problems of kind" in why


def test_a_dry_run_adds_up_hours_and_names_what_is_cheaper(folder, monkeypatch):
    from dualflow.quantum.devices import Price
    from dualflow.quantum.devices.aer import AerDevice

    def price(self, circuit, circuits, shots):
        return Price(2 + 3e-4 * circuits * shots, 1.0, formula="2 s and 300 µs a shot")

    monkeypatch.setattr(AerDevice, "remote", True)
    monkeypatch.setattr(AerDevice, "price", price)
    solver = dualflow.VariationalFlow(shots=10_000, ansatz="hardware-efficient")
    found = comparison.dry_run(*tiny(), problems="squared_hinge", solvers=[solver])
    (only,) = found.estimates
    assert only.qpu_seconds > 3600
    assert f"{only.qpu_seconds / 3600:.1f} hours of QPU" in found.total()
    assert "cheaper is variational-flow" in found.advice()[0]
    assert "ansatz='tree'" in found.advice()[0]


def tiny():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 2))
    return X, X[:, 0] > 0


def test_seeds_repeat_sampled_rows(folder):
    options = ("--problems", "squared_hinge", "--devices", "emulator", "--shots", "100", "--max-n", "4", "--no-report")
    result = run("compare", *options, "--solvers", "smo,variational-flow", "--seeds", "2", "--json")
    assert result.exit_code == 0, result.output
    rows = {row["role"]: row for row in json.loads(result.stdout)["rows"]}
    assert (rows["classical"]["seeds"], rows["emulated"]["seeds"]) == (1, 2)
    assert rows["emulated"]["excess_low"] <= rows["emulated"]["excess"] <= rows["emulated"]["excess_high"]
    refused = run("compare", *options, "--solvers", "smo", "--seeds", "0")
    assert refused.exit_code == 2
    assert "seeds=0" in refused.output
