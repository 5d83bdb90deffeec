"""The benchmarks run as modules of the root, their children too; options and verdicts mean what they say."""

import importlib
import importlib.util
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.lib import claims, command, tables
from benchmarks.lib.harness import Case, Row

ROOT = Path(__file__).resolve().parents[2]
#: What a benchmark needs beyond the extra "test".
NEEDS = {"quantum/against_varqite": "qiskit_algorithms", "quantum/fidelity_kernel": "qiskit_machine_learning"}


@pytest.mark.parametrize("name", tables.benchmarks())
def test_a_benchmark_is_a_module_and_its_title_is_its_place(name):
    if importlib.util.find_spec(NEEDS.get(name, "numpy")) is None:
        pytest.skip(f"{NEEDS[name]} is not installed: pip install 'dualflow[bench]'")
    module = importlib.import_module(f"benchmarks.{name.replace('/', '.')}")
    assert callable(module.main)
    assert f'"{name}' in Path(module.__file__).read_text(encoding="utf-8")


def test_no_benchmark_touches_the_path():
    files = [*(ROOT / "benchmarks").rglob("*.py")]
    assert len(files) > 30
    assert [file.name for file in files if "sys.path" in file.read_text(encoding="utf-8")] == []


@pytest.mark.slow
def test_a_benchmark_from_the_root_with_its_children(tmp_path):
    arguments = ["--quick", "--only", "moons nu=0.5", "--runs", "1", "--csv", str(tmp_path)]
    line = [sys.executable, "-m", "benchmarks.classical.svdd_against_one_class", *arguments]
    env = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if Path(path, "dualflow").is_dir())}
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert "(must) raw against OneClassSVM: ratio" in done.stdout, done.stdout + done.stderr
    rows = tables.read(tmp_path / "classical" / "svdd_against_one_class_rows.csv")
    assert {row["entrant"] for row in rows} == {"dualflow raw", "dualflow refined", "OneClassSVM tol=0.001"}
    assert {row["status"] for row in rows if row["blas_threads"] == "1"} == {"ok"}
    figures = tables.read(tmp_path / "classical" / "svdd_against_one_class.csv")
    musts = [line["good"] == line["cells"] for line in figures if line["kind"] == "must"]
    assert done.returncode == (0 if all(musts) else 1)


def test_a_part_of_a_run_is_not_kept_as_a_full_one(monkeypatch, capsys, tmp_path):
    for part in ("--quick", "--only=moons"):
        monkeypatch.setattr(sys, "argv", ["claim", part, "--csv", str(command.RESULTS)])
        with pytest.raises(SystemExit):
            command.command_line("Claim: one.", "only")
        assert "keeps full runs only" in capsys.readouterr().err
        monkeypatch.setattr(sys, "argv", ["claim", part, "--csv", str(tmp_path)])
        assert command.command_line("Claim: one.", "only").csv == tmp_path
    monkeypatch.setattr(sys, "argv", ["claim", "--csv", str(command.RESULTS)])
    assert not command.is_part(command.command_line("Claim: one.", "only"))


def test_an_option_that_a_benchmark_does_not_heed_is_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["claim", "--solver", "smo"])
    with pytest.raises(SystemExit):
        command.command_line("Claim: one.", "only")
    assert "unrecognized arguments: --solver" in capsys.readouterr().err


def test_all_words_choose_a_case():
    assert command.chosen("moons n=4000 C=1", "C=1 moons")
    assert not command.chosen("moons n=4000 C=1", "moons n=1000")
    assert command.chosen("anything", "")


def test_a_folder_of_the_machine_is_no_column():
    fields = {"data_set": "mnist", "folder": "/home/someone", "n": 3}
    line = Row(Case("mnist", dict, fields), "ours", 1, times=[1.0, 2.0]).flat()
    assert line["n"] == 3
    assert "folder" not in line


@pytest.mark.parametrize(
    ("found", "sense", "worst", "passed"),
    [
        ([("a", 1.0), ("b", 2.0)], "<=", "b", True),
        ([("a", 1.0), ("b", 2.1)], "<=", "b", False),
        ([("a", 2.0), ("b", 3.0)], ">=", "a", True),
        ([("a", 2.0), ("b", 3.0)], ">", "a", False),
        ([("a", 2.0), ("b", 1.0)], "<", "a", False),
        ([("a", np.nan), ("b", 9.0)], ">=", "a", False),
        ([("a", np.nan), ("b", 1.0)], "<=", "a", False),
        ([], "<=", "no cells", False),
    ],
)
def test_the_worst_cell_speaks_for_all(found, sense, worst, passed):
    verdict = claims.each("must", "ours", "figure", found, sense, 2.0)
    assert (verdict.case, verdict.passed, verdict.cells) == (worst, passed, len(found))
    assert str(verdict).startswith("PASS" if passed else "FAIL")


def test_claims_are_put_together_by_what_is_asked(tmp_path, capsys):
    said = claims.Claims()
    said.say("exact", "gap", "moons", 1e-4, "<=", 1e-3)
    said.say("exact", "gap", "digits", 2e-3, "<=", 1e-3)
    said.say("exact", "time", "moons", 1.0, "<=", 2.0, "s", kind="shown")
    assert capsys.readouterr().out.splitlines()[1] == "FAIL (must) exact: gap 0.002, asked ≤ 0.001; digits"
    gap, time = said.verdicts()
    assert (gap.held, gap.cells, gap.case, gap.value) == (1, 2, "digits", 2e-3)
    assert time.passed
    options = Namespace(csv=tmp_path, quick=False)
    assert claims.conclude("room/name", [gap, time], options) == 1
    assert claims.conclude("room/name", [time], options) == 0
    assert claims.conclude("room/name", [], options) == 1
    assert tables.read(tmp_path / "room" / "name.csv") == []
