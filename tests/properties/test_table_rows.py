"""What must hold of every table the command line reads: rows in are lines out, an index is no feature, and what is
meant as a number is never a category without a word."""

import csv
import io
import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from dualflow import ProblemError, cli
from dualflow.cli.cells import GAP_TEXTS, CellCounts, CellFormat
from dualflow.cli.options import csv_format
from dualflow.cli.reading import read_new
from dualflow.cli.table import RequestedColumns, TextColumn

ours = settings(
    derandomize=True, max_examples=25, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)

numbers = st.one_of(st.just(""), st.integers(-9, 9).map(str), st.sampled_from(["1.5", "-2e1", "NA", "n.d.", "-", "+3"]))
texts = st.sampled_from(["", "red", "blue", "new", 'say "red"', "two\nlines", "?", "a,b", "=1"])
labels = st.sampled_from(["", "yes", "no", "other"])


def run(*arguments, given=None):
    return CliRunner().invoke(cli.app, [str(a) for a in arguments], input=given)


@pytest.fixture(scope="module")
def models():
    """A folder with a model of two features and one of a single feature, each from CSV, and one from svmlight."""
    with tempfile.TemporaryDirectory() as folder:
        rng, here = np.random.default_rng(0), Path(folder)
        rows = [(round(rng.normal(), 2), ("red", "blue")[k % 2], ("yes", "no")[k % 2]) for k in range(30)]
        pd.DataFrame(rows, columns=["size", "colour", "kind"]).to_csv(here / "two.csv", index=False)
        pd.DataFrame([(k, y) for k, _, y in rows], columns=["size", "kind"]).to_csv(here / "one.csv", index=False)
        (here / "some.svm").write_text("".join(f"{k % 2} 1:{k} 2:1\n" for k in range(20)))
        for name in ("two.csv", "one.csv", "some.svm"):
            assert run("train", here / name, "--out", here / name.partition(".")[0]).exit_code == 0
        yield here


def written(rows, names, *, end, bom, header, blank):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator=end)
    writer.writerows([names, *rows] if header else rows)
    return (("\ufeff" if bom else "") + text.getvalue() + end * blank).encode()


def said(models, model, name, *words, given=None):
    """The predictions, of JSON and of CSV, which agree."""
    result = run("predict", models / model, name, "--json", *words, given=given)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    lines = list(csv.reader(io.StringIO(run("predict", models / model, name, *words, given=given).stdout)))
    assert lines[0][0] == "prediction"
    assert [line[0] or None for line in lines[1:]] == found["predictions"]
    assert found["rows"] == len(found["predictions"])
    return found["predictions"]


@ours
@given(
    rows=st.lists(st.tuples(numbers, texts, labels), min_size=1, max_size=12),
    end=st.sampled_from(["\n", "\r\n"]),
    bom=st.booleans(),
    blank=st.integers(0, 2),
    piped=st.booleans(),
)
def test_predict_writes_a_line_a_row(models, rows, end, bom, blank, piped):
    content = written(rows, ["size", "colour", "kind"], end=end, bom=bom, header=True, blank=blank)
    path = models / "new.csv"
    path.write_bytes(content)
    found = said(models, "two", "-" if piped else path, given=content if piped else None)
    nothing = [size in ("", "NA", "n.d.", "-") and colour in ("", "?") for size, colour, _ in rows]
    assert [label is None for label in found] == nothing


@pytest.mark.slow
@ours
@given(rows=st.lists(numbers, min_size=1, max_size=8), end=st.sampled_from(["\n", "\r\n"]), blank=st.integers(0, 2))
def test_predict_writes_a_line_a_row_of_a_single_column(models, rows, end, blank):
    path = models / "single.csv"
    path.write_bytes(written([[cell] for cell in rows], ["size"], end=end, bom=False, header=True, blank=blank))
    found = said(models, "one", path)
    assert [label is None for label in found] == [cell in ("", "NA", "n.d.", "-") for cell in rows]


@ours
@given(rows=st.lists(st.tuples(numbers.filter(lambda c: c in ("", "-2e1", "1.5")), texts), min_size=1, max_size=12))
def test_predict_writes_a_line_a_row_of_parquet(models, rows):
    path = models / "new.parquet"
    frame = pd.DataFrame({"size": [float(a or "nan") for a, _ in rows], "colour": [b or None for _, b in rows]})
    frame.astype({"size": float, "colour": str if frame["colour"].notna().all() else object}).to_parquet(path)
    found = said(models, "two", path)
    assert [label is None for label in found] == [a == "" and b in ("", "?") for a, b in rows]


@pytest.mark.slow
@ours
@given(rows=st.lists(st.sampled_from(["0", "1 1:2", "0 2:-1", "1 1:0.5 2:3 # why"]), min_size=1, max_size=8))
def test_predict_writes_a_line_a_row_of_svmlight(models, rows):
    (models / "new.svm").write_text("\n".join(rows) + "\n")
    found = said(models, "some", models / "new.svm")
    assert len(found) == len(rows)
    assert None not in found  # a feature that is not written is 0


INDICES = {
    "counted": list(range(30)),
    "shuffled": np.random.default_rng(1).permutation(30).tolist(),
    "sliced": list(range(100, 160, 2)),
    "strings": [f"r{k}" for k in range(30)],
    "dates": pd.date_range("2026-01-01", periods=30).astype(str).tolist(),
}


@pytest.mark.parametrize("texts_only", [False, True])
@pytest.mark.parametrize("writing", ["csv", "again", "twice", "two levels", "parquet", "named parquet"])
@pytest.mark.parametrize("index", INDICES)
def test_an_index_written_along_is_neither_feature_nor_label(tmp_path, index, writing, texts_only):
    kinds = ["x" if k % 3 else "y" for k in range(30)]
    a = ["red" if k % 2 else "blue" for k in range(30)] if texts_only else [k % 7 for k in range(30)]
    frame = pd.DataFrame({"a": a, "kind": kinds}, index=INDICES[index])
    path = tmp_path / ("t.parquet" if "parquet" in writing else "t.csv")
    if writing == "two levels":
        frame.index = pd.MultiIndex.from_arrays([INDICES[index], range(30)])
    if writing == "named parquet":
        frame.index.name = "zz"
    frame.to_parquet(path) if "parquet" in writing else frame.to_csv(path)
    for _ in range({"again": 1, "twice": 2}.get(writing, 0)):
        pd.read_csv(path).to_csv(path, index=writing == "twice")
    table = read_new(path, RequestedColumns(), csv_format(None, None, ".", None))
    assert (table.chosen.names, table.chosen.label_name, len(table)) == (["a"], "kind", 30)
    if index != "counted" or "parquet" not in writing:  # a RangeIndex is not stored in parquet
        assert any("index" in note for note in table.notes)


def test_a_model_reads_frames_with_and_without_an_index(tmp_path):
    frame = pd.DataFrame({"a": [k % 7 for k in range(30)], "kind": ["x" if k % 7 > 3 else "y" for k in range(30)]})
    frame = frame.sample(frac=1.0, random_state=0)
    files = {"with.csv": True, "without.csv": False, "with.parquet": True, "without.parquet": False}
    for name, index in files.items():
        (frame.to_csv if name.endswith("csv") else frame.to_parquet)(tmp_path / name, index=index)
    for trained in files:
        assert run("train", tmp_path / trained, "--out", tmp_path / "m").exit_code == 0
        answers = {run("predict", tmp_path / "m", tmp_path / name).stdout for name in files}
        assert len(answers) == 1
        assert answers.pop().count("\n") == 31


GROUPED = ("1,200", "12,345.5", "1.234.567", "1 200", "1\u00a0200", "1\u2009200", "1'200", "1_000", "1,5")
SIGNED = ("5%", "$5,000", "€ 12", "12 €", "−5", "(5)", "5-")
FOREIGN = ("١٢", "0x1F", "inf", "-Infinity", "1e999", "1d5")
odd = st.sampled_from((*GROUPED, *SIGNED, *FOREIGN))
gap = st.sampled_from(["n.d.", "-", "N/A", "NULL", "nan", "#DIV/0!", "missing", "—", "-NaN", "null", "?"])
plain = st.one_of(st.integers(-999, 999).map(str), st.sampled_from(["+5", "1e3", ".5", "5.", "-0", "1E-7"]))


@ours
@given(cells=st.lists(st.one_of(plain, plain, odd, gap), min_size=1, max_size=12).filter(lambda c: set(c) - {"?"}))
def test_numbers_are_numbers_or_refused_and_never_categories(cells):
    tally, notes = CellCounts(), list[str]()
    for line, cell in enumerate(cells):
        tally.add(cell, line, CellFormat())
    is_odd = [cell for cell in cells if CellFormat().value(cell) is None and cell.casefold() not in GAP_TEXTS]
    if is_odd:
        with pytest.raises(ProblemError, match="finite number") as caught:
            tally.kind("a", "t.csv", CellFormat(), notes)
        assert repr(is_odd[0]) in str(caught.value)
    elif any(CellFormat().number(cell) is not None for cell in cells):
        assert tally.kind("a", "t.csv", CellFormat(), notes) == "number"


@ours
@given(
    cells=st.lists(st.one_of(plain, gap, st.sampled_from(["abc", "x", "12 kg"])), min_size=2, max_size=20),
)
def test_a_column_of_numbers_and_texts_is_refused_or_said(cells):
    content = "a,b,kind\n" + "".join(f"{cell},{k},{'xy'[k % 2]}\n" for k, cell in enumerate(cells))
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "t.csv")
        Path(path).write_text(content, encoding="utf-8")
        try:
            table = read_new(Path(path), RequestedColumns(), csv_format(None, True, ".", None))
        except ProblemError:  # a sentence of its own, tested elsewhere
            return
    numeric = [CellFormat().number(cell) is not None for cell in cells]
    column = table.columns[0]
    if any(numeric) and isinstance(column, TextColumn):
        assert any("read as text" in note for note in table.notes)
    if not isinstance(column, TextColumn):
        found = [float(cell) for cell, is_number in zip(cells, numeric, strict=True) if is_number]
        assert column[~np.isnan(column)].tolist() == found
        unsaid = {"", "?", "NA", "N/A", "NaN", "nan", "NULL", "null"}
        if any(not n and cell not in unsaid for n, cell in zip(numeric, cells, strict=True)):
            assert any("read as missing" in note for note in table.notes)
