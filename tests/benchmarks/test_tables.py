"""README.md of the benchmarks is what the CSVs of full runs make of it."""

import re
import shutil

import pytest

from benchmarks.lib import claims, findings, tables
from benchmarks.lib.command import RESULTS

TEXT = tables.README.read_text(encoding="utf-8")
NAMES = [name for _, name, _ in tables.BLOCK.findall(TEXT)]
KEPT = sorted(path.relative_to(RESULTS).with_suffix("").as_posix() for path in RESULTS.glob("*/*.csv"))
SHOWN = [name for name in KEPT if not name.endswith("_rows")]
#: Longest cell: a line of the source.
WIDEST = 120


def lines_of(name):
    return tables.read(RESULTS / f"{name}.csv")


def test_readme_is_what_the_command_makes():
    assert tables.rewritten(TEXT) == TEXT, "run python -m benchmarks.lib.tables"


def test_every_csv_is_shown_once_and_nothing_else():
    assert sorted(NAMES) == sorted([*SHOWN, "files"])


def test_every_csv_and_every_duration_is_of_a_benchmark():
    known = tables.benchmarks()
    assert [name for name in KEPT if not any(name == k or name.startswith(f"{k}_") for k in known)] == []
    assert [line["benchmark"] for line in tables.read(RESULTS / "minutes.csv")] == known


def test_the_provenance_of_every_csv_is_told():
    told = (RESULTS / "README.md").read_text(encoding="utf-8")
    assert [name for name in SHOWN if f"`{name}`" not in told] == []


def test_cells_are_a_line_long():
    cells = [cell.strip() for line in TEXT.splitlines() if line.startswith("|") for cell in line.split(" | ")]
    assert [cell for cell in cells if len(cell) > WIDEST] == []


def test_a_table_follows_its_csv(tmp_path):
    shutil.copytree(RESULTS, tmp_path / "results")
    path = tmp_path / "results" / "classical" / "growth.csv"
    before = tables.table("classical/growth", tmp_path / "results")
    assert "| 1.45 |" in before
    path.write_text(path.read_text(encoding="utf-8").replace(",1.45,", ",7.77,"), encoding="utf-8")
    text = tables.rewritten(TEXT, tmp_path / "results")
    assert text != TEXT
    assert text.replace("| 7.77 |", "| 1.45 |") == TEXT
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"no results/classical/growth\.csv"):
        tables.rewritten(TEXT, tmp_path / "results")


def test_what_a_run_writes_is_what_a_table_reads(tmp_path, capsys):
    found = [("a", 1.0), ("b", 3.0)]
    verdicts = [
        claims.Verdict("must", "raw", "geometric mean", 3.8312345, ">=", 3.5, "×", low=3.5, high=4.1234),
        claims.each("stretch", "raw | cold", "relative gap", found, "<=", 2.0),
        claims.Verdict("shown", "raw", "time", 0.0123456, unit="s"),
    ]
    claims.write_csv(tmp_path / "room" / "name.csv", [verdict.flat() for verdict in verdicts])
    assert tables.table("room/name", tmp_path).splitlines()[2:] == [
        "| raw: geometric mean | 3.83 [3.5, 4.12] × | ≥ 3.5 × | yes |  |",
        r"| raw \| cold: relative gap | 3 | ≤ 2 (stretch) | 1 of 2 | b |",
        "| raw: time | 0.0123 s | shown |  |  |",
    ]


def test_a_papers_findings_are_a_table(tmp_path):
    found = [
        findings.Finding("figure 1", "slope | linear", "2", "2.0 ± 0.1", "match", seed=0),
        findings.Finding("equation 3", "sum", "0", "1", **findings.by(False, "a misprint")),
    ]
    claims.write_csv(tmp_path / "papers" / "name.csv", [findings.flat(finding) for finding in found])
    assert tables.table("papers/name", tmp_path).splitlines()[2:] == [
        r"| figure 1: slope \| linear | 2 | 2.0 ± 0.1 | match |  |",
        "| equation 3: sum | 0 | 1 | mismatch | a misprint |",
    ]


@pytest.mark.parametrize("name", [name for name in SHOWN if "sense" in lines_of(name)[0]])
def test_no_line_that_holds_is_contradicted_by_its_figure(name):
    for line in lines_of(name):
        good, cells = int(line["good"]), int(line["cells"])
        assert 0 <= good <= cells
        if line["sense"] and line["value"]:
            holds = claims.SENSES[line["sense"]](float(line["value"]), float(line["asked"]))
            assert holds == (good == cells), line


def test_kept_files_have_columns_in_plain_words_and_no_path_of_a_machine():
    for path in RESULTS.glob("**/*.csv"):
        lines = tables.read(path)
        assert lines, path
        assert [name for name in lines[0] if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name)] == [], path
        assert not any(value.startswith(("/", "~", "C:")) for line in lines for value in line.values() if value), path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("3.83124", "3.83"),
        ("0.999953", "0.99995"),
        ("1.0034", "1.0034"),
        ("1", "1"),
        ("12800", "12800"),
        ("4.1e5", "4.1e5"),
        ("30000000", "3e7"),
        ("8.94321e-05", "8.94e-5"),
        ("inf", "∞"),
        ("nan", "none"),
        ("", ""),
        ("tree", "tree"),
    ],
)
def test_numbers_are_short(text, shown):
    assert tables.short(text) == shown
