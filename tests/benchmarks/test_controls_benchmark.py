"""The benchmark of controls: it goes on where it was ended, and counts what it says it counts."""

from __future__ import annotations

import sys

import pytest

from benchmarks.lib import tables
from benchmarks.quantum import controls

PART = ["--quick", "--device", "emulator", "--how", "exact", "--only", "variational-flow SVDD"]


@pytest.fixture
def run(monkeypatch, tmp_path):
    def run(*more):
        monkeypatch.setattr(sys, "argv", ["controls", *PART, "--csv", str(tmp_path), *more])
        code = controls.main()
        return code, tables.read(tmp_path / "quantum" / "controls_rows.csv")

    return run


def test_a_run_that_was_killed_goes_on(run, tmp_path, capsys):
    code, rows = run()
    assert code == 0
    assert [row["device"] for row in rows] == ["emulator", "null", "control:random"]
    assert float(rows[0]["excess"]) <= 1e-3 < min(float(row["excess"]) for row in rows[1:])
    assert rows[0]["circuits_to_1e3"]
    path = tmp_path / "quantum" / "controls_rows.csv"
    whole = path.read_text(encoding="utf-8")
    path.write_text("".join(whole.splitlines(keepends=True)[:-1]), encoding="utf-8")  # killed between two rows
    assert run()[1] == rows
    path.write_text(whole[: whole.rindex("control:")], encoding="utf-8")  # killed within one
    assert run()[1] == rows
    capsys.readouterr()
    assert run()[1] == rows
    assert "circuits_to" not in capsys.readouterr().out  # nothing was run again
    assert {row["seeds"] for row in run("--seeds", "2")[1]} == {"2"}
    assert {row["seeds"] for row in run("--seeds", "1")[1]} == {"2"}  # more than is asked for


def test_cells_without_evidence_are_listed_and_counted(capsys):
    table = controls.Rows("quantum/controls_rows", controls.argparse.Namespace(csv=None))
    for cell, least in (("a", 100.0), ("b", 4.99), ("c", 5.0)):
        about = {"solver": "variational-flow", "n": 8, "shots": None}
        for device, margin in (("aer", None), ("null", 50.0), ("control:random", least), ("control:permuted", 1.0)):
            table.add(cell, **about, device=device, margin=margin, circuits_to_1e3=8.0 if cell > "a" else None)
    (verdict,) = controls.verdicts(table)
    assert (verdict.kind, verdict.what, verdict.case) == ("must", "variational-flow, exact", "b")
    assert verdict.value == pytest.approx(2 / 3)
    assert not verdict.passed
    assert "no evidence: b, margin 4.99" in capsys.readouterr().out
    (line,) = controls.summary(table)
    assert (line["cells"], line["circuits_to_1e3"]) == ("3", "8 (in 2)")
    assert (line["null"], line["random"], line["permuted"], line["corner"]) == ("50 (3)", "5.0 (2)", "1.0 (0)", "")


@pytest.mark.parametrize("n", controls.SIZES)
@pytest.mark.parametrize("data", controls.DATA)
def test_points_are_of_both_classes_and_problems_are_solved(data, n):
    X, y = controls.points(data, n)
    assert len(X) == n
    assert abs(y.sum()) == 0
    for model in controls.MODELS:
        z = controls.problem(model, data, n, None if model in controls.WITHOUT_C else 10.0)
        assert z.problem.objective(z.alpha) == pytest.approx(z.optimum)
        assert z.problem.infeasibility(z.alpha) <= 1e-9


def test_every_quantum_solver_has_cells(monkeypatch):
    options = controls.argparse.Namespace(quick=True, n=None, how=None, some=None, only="")
    asked = {cell.solver for cell in controls.cells(options) if controls.solver_of(cell, "emulator") is not None}
    assert asked == {info.name for info in controls.list_solvers() if info.quantum and not info.install}
