"""Tables as people have them: delimiters, headers, missing cells, text, gz, parquet, svmlight, standard input."""

from __future__ import annotations

import gzip
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sklearn.compose import make_column_transformer
from sklearn.datasets import dump_svmlight_file, load_iris
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dualflow import ProblemError
from dualflow.cli import encoding, sources
from dualflow.cli.cells import CellFormat
from dualflow.cli.csv_data import CsvFormat, read_csv
from dualflow.cli.encoding import fit_encoding
from dualflow.cli.labels import as_written, known_codes, labels_of
from dualflow.cli.options import csv_format
from dualflow.cli.reading import read_new
from dualflow.cli.sources import Source
from dualflow.cli.table import RequestedColumns, Table, TextColumn
from dualflow.cli.training_data import EncodingOptions, kind_of


def read(
    folder: Path, content: str | bytes, requested: RequestedColumns | None = None, name: str = "t.csv", **form: object
) -> Table:
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    table = read_new(path, requested or RequestedColumns(), csv_format(**({"decimal": "."} | OPEN | form)))
    assert isinstance(table, Table)
    return table


OPEN = {"delimiter": None, "header": None, "missing": None}


def cells(column: object) -> list[object]:
    if isinstance(column, TextColumn):
        return [None if code < 0 else column.words[code] for code in column.codes]
    return [None if np.isnan(value) else value for value in column]


@pytest.mark.parametrize(
    "content",
    [
        "size,colour,kind\n1.5,red,yes\n2,blue,no\n",
        "\ufeffsize;colour;kind\r\n1.5;red;yes\r\n2;blue;no\r\n",
        "size\tcolour\tkind\n1.5\tred\tyes\n2\tblue\tno",
        "size|colour|kind\n1.5|red|yes\n2|blue|no\n",
        "size colour kind\n 1.5   red yes\n2 blue  no \n",
        'size;colour;kind\n"1.5";"red";yes\n\n2;blue;no\n',
        "size;colour;kind;\n1.5;red;yes;\n2;blue;no;\n",
        gzip.compress(b"size;colour;kind\n1.5;red;yes\n2;blue;no\n", mtime=0),
    ],
)
def test_one_table_in_many_writings(tmp_path, content):
    table = read(tmp_path, content)
    assert table.named
    assert table.chosen.names == ["size", "colour"]
    assert [cells(column) for column in table.columns] == [[1.5, 2.0], ["red", "blue"]]
    assert table.labels == ["yes", "no"]
    assert table.chosen.label_name == "kind"


@pytest.mark.parametrize(
    ("content", "named"),
    [
        ("1,2,x\n3,4,y\n", False),
        ("red,1,x\nblue,2,y\n", False),
        ("red,round,x\nred,square,y\n", False),
        ("colour,form,kind\nred,round,x\nred,square,y\n", True),
        ("colour,form,1\nred,round,1\nred,square,0\n", False),
        ("1,2,kind\n3,4,1\n3,5,0\n", True),
        (",2,x\n3,4,y\n", False),
    ],
)
def test_a_header_is_told_from_what_is_below_it(tmp_path, content, named):
    assert read(tmp_path, content).named is named
    for header in (True, False):
        assert read(tmp_path, content, header=header).named is header


def test_missing_cells_are_missing_and_decimal_commas_numbers(tmp_path):
    table = read(tmp_path, "a;b;kind\n1,5;NA;x\n;rot;y\nnan;?;x\n-;blau;y\n2;-;x\n", decimal=",", missing=["-"])
    assert [cells(column) for column in table.columns] == [
        [1.5, None, None, None, 2.0],
        [None, "rot", None, "blau", None],
    ]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (
            "a;b\n1,5;x\n2,5;y\n",
            "line 2, a: '1,5', '2,5' are not finite numbers; if that is .* add --decimal ,",
        ),
        (
            "a,b\n1,x\n2,x\nvier,y\n",
            r"line 4, a: 'vier' is not a finite number; 2 other cells .* --missing vier .* --text a",
        ),
        ("a,b\n1,x\n2,x\ninf,y\n", "line 4, a: 'inf' is not a finite number"),
        ("a,b\n1,x\n2\n", "line 3 has 1 cells, the first line has 2"),
        ("a;b\n", "only a header"),
        (b"PK\x03\x04" + bytes(50), "Excel"),
        (gzip.compress(b"a,b\n1,x\n", mtime=0)[:-9], "gzip file that is damaged or cut off"),
        (gzip.compress(b"a,b\n1,x\n", mtime=0) + b"rest", "gzip file that is damaged or cut off"),
        (b"PAR1" + bytes(50) + b"PAR1", "not a parquet file"),
        (b"PAR1", "not a parquet file"),
    ],
)
def test_what_is_no_table_is_one_sentence(tmp_path, content, words):
    with pytest.raises(ProblemError, match=words) as caught:
        read(tmp_path, content)
    assert str(caught.value).startswith(str(tmp_path / "t.csv"))


def test_columns_are_left_out_or_taken_as_text(tmp_path):
    content = "id,zip,size,kind\n7,10115,1,x\n8,20095,2,y\n"
    table = read(tmp_path, content, RequestedColumns(drop=("id",), text=("2",)))
    assert table.chosen.names == ["zip", "size"]
    assert cells(table.columns[0]) == ["10115", "20095"]
    table = read(tmp_path, content, RequestedColumns(label="zip", labelled=True, drop=("4",)))
    assert table.labels == ["10115", "20095"]
    assert table.chosen.names == ["id", "size"]
    with pytest.raises(ProblemError, match=r"no column 'sise' for --drop; .* did you mean 'size'"):
        read(tmp_path, content, RequestedColumns(drop=("sise",)))


def test_texts_that_are_names_of_rows_are_left_out(tmp_path):
    for n in (21, 40, 1100):
        content = "name,size,kind\n" + "".join(f"n{k},{k},{k % 2}\n" for k in range(n))
        assert EncodingOptions().encoded(read(tmp_path, content))[0].features == ["size"]
        kept = read(tmp_path, content, RequestedColumns(keep=("name",)))
        assert len(EncodingOptions().encoded(kept)[0].features) == n + 1
    content = "name,size,kind\n" + "".join(f"n{k},{k},{k % 2}\n" for k in range(20))
    assert len(EncodingOptions().encoded(read(tmp_path, content))[0].features) == 21


def test_more_texts_than_categories_may_be_are_refused(tmp_path):
    content = "name,size,kind\n" + "".join(f"n{max(k, 1)},{k},{k % 2}\n" for k in range(1100))
    with pytest.raises(ProblemError, match=r"line 1003, name: up to 'n1001' there are more than the 1000.*--drop name"):
        read(tmp_path, content)
    content = "name,size,kind\n" + "".join(f"n{k % 1090},{k},{k % 2}\n" for k in range(1100))
    with pytest.raises(ProblemError, match=r"line 1092, name: up to 'n0' there are more than the 1000.*--drop name"):
        read(tmp_path, content)


def test_a_gz_bomb_is_found_before_it_is_read(tmp_path, monkeypatch):
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n" * (1 << 17), mtime=0))
    monkeypatch.setattr(sources, "GZ_BYTES", 1 << 12)
    tracemalloc.start()
    with pytest.raises(ProblemError, match="unpacks to more than"):
        read_new(path, RequestedColumns(), CsvFormat())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    monkeypatch.setattr(sources, "GZ_BYTES", 1 << 20)
    assert len(read_new(path, RequestedColumns(), CsvFormat())) == 1 << 17


def test_a_line_without_end_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("dualflow.cli.csv_data.MAX_LINE", 1000)
    with pytest.raises(ProblemError, match="line 2 has more than MAX_LINE=1000"):
        read(tmp_path, "a,b\n" + "1," * 2000)


def test_points_that_do_not_fit_into_memory_are_refused(tmp_path, monkeypatch):
    table = read(tmp_path, "a,b\n1,x\n2,y\n")
    monkeypatch.setattr(encoding, "memory_bytes", lambda: 8)
    with pytest.raises(ProblemError, match="2 rows with 1 features"):
        fit_encoding(table)


def mixed(n: int = 120, seed: int = 0) -> tuple[str, np.ndarray, list[str]]:
    """A CSV with numbers and text, both with gaps, and the same as an array of objects."""
    rng = np.random.default_rng(seed)
    rows = np.empty((n, 4), dtype=object)
    rows[:, 0], rows[:, 1] = rng.normal(170, 10, n).round(3), rng.integers(0, 99, n).astype(float)
    rows[:, 2], rows[:, 3] = rng.choice(["red", "blue", "ä;b"], n), rng.choice(["x", "y"], n)
    kinds = ["yes" if a > 170 or c == "red" else "no" for a, _, c, _ in rows]
    rows[rng.random((n, 4)) < 0.07] = None
    lines = ["size,age,colour,town,kind"]
    lines += [
        ",".join("" if v is None else str(v) for v in (*row, kind)) for row, kind in zip(rows, kinds, strict=True)
    ]
    return "\n".join(lines), rows, kinds


def test_the_encoding_is_that_of_scikit_learns_transformers(tmp_path):
    content, rows, _ = mixed()
    table = read(tmp_path, content)
    made = fit_encoding(table)
    frame = np.where(rows == None, np.nan, rows)  # noqa: E711 - elementwise
    numbers = make_pipeline(SimpleImputer(strategy="median"), StandardScaler())
    texts = make_pipeline(
        SimpleImputer(missing_values=None, strategy="most_frequent"), OneHotEncoder(sparse_output=False)
    )
    whole = make_column_transformer((numbers, [0, 1]), sparse_threshold=0)
    expected = np.hstack([whole.fit_transform(frame[:, :2].astype(float)), texts.fit_transform(rows[:, 2:])])
    X, unknown = made.transform(table)
    assert unknown == {}
    np.testing.assert_allclose(X, expected, rtol=1e-12, atol=1e-12)
    assert made.features == ["size", "age", "colour=blue", "colour=red", "colour=ä;b", "town=x", "town=y"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"impute": False}, "the cell is missing"),
        ({"one_hot": False}, "is not a finite number; take --no-one-hot away"),
    ],
)
def test_what_may_not_be_is_refused(tmp_path, options, words):
    with pytest.raises(ProblemError, match=rf"t.csv, line \d+, \w+: .*{words}"):
        fit_encoding(read(tmp_path, mixed()[0]), **options)


def test_without_standardising_numbers_stay_what_they_are(tmp_path):
    table = read(tmp_path, "a,b\n1,x\n5,y\n,y\n")
    assert fit_encoding(table, standardise=False).transform(table)[0].tolist() == [[1.0], [5.0], [3.0]]


def test_a_column_of_nothing_is_left_out(tmp_path):
    table = read(tmp_path, "a,none,b\n1,,x\n5,NA,y\n")
    assert fit_encoding(table).features == ["a"]
    assert table.notes == ["Column none is empty and is left out."]


def test_the_index_that_pandas_writes_is_left_out(tmp_path):
    table = read(tmp_path, ",a,kind\n0,5,x\n1,6,y\n")
    assert table.chosen.names == ["a"]
    one = "Column 1 (without a name) is left out as the index of a data frame; give it a name to keep it."
    assert table.notes == [one]
    table = read(tmp_path, ",,a,kind\n0,0,5,x\n0,1,6,y\n")
    assert table.chosen.names == ["a"]
    several = "Columns 1 (without a name), 2 (without a name) are left out as the index of a data frame; "
    assert table.notes == [several + "give them names to keep them."]


def test_names_that_are_there_twice_are_told_apart(tmp_path):
    table = read(tmp_path, "a,a,a (2),,column 4,kind\n1,2,3,4,5,x\n")
    assert table.chosen.names == ["a", "a (3)", "a (2)", "column (2)", "column 4"]
    assert fit_encoding(table, standardise=False).transform(table)[0].tolist() == [[1.0, 2.0, 3.0, 4.0, 5.0]]


def test_a_label_may_be_called_none_and_may_not_be_missing(tmp_path):
    assert labels_of(read(tmp_path, "a,kind\n1,None\n2,mild\n")).tolist() == ["None", "mild"]
    with pytest.raises(ProblemError, match="line 3: the label kind is empty or missing"):
        labels_of(read(tmp_path, "a,kind\n1,mild\n2,NA\n"))


def test_labels_are_compared_by_what_they_are_and_shown_as_written(tmp_path):
    table = read(tmp_path, "a,kind\n1,+1\n2,-1\n3,1.0\n")
    y = labels_of(table)
    assert y.tolist() == [1, -1, 1]
    written = as_written(np.unique(y), table.labels, y)
    assert written == ["-1", "+1"]
    assert known_codes(["1", "01", "-1.0", "2", "", "x"], np.unique(y), written).tolist() == [1, 1, 0, -1, -2, -1]


@pytest.mark.parametrize(
    ("labels", "kind"), [(["x", "y"], "svc"), (["0", "1"], "svc"), (["0.5", "1.5"], None), (range(30), None)]
)
def test_the_kind_of_model_is_told_where_labels_say_it(tmp_path, labels, kind):
    table = read(tmp_path, "a,b\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels)))
    if kind is None:
        with pytest.raises(ProblemError, match="add --kind svr"):
            kind_of(table, CellFormat())
    else:
        assert kind_of(table, CellFormat()) == kind


def test_parquet_has_the_table_of_its_csv(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    content, rows, kinds = mixed()
    columns = {name: rows[:, k].tolist() for k, name in enumerate(["size", "age", "colour", "town"])}
    made = pyarrow.table(columns | {"kind": kinds, "when": pyarrow.array([0] * len(kinds), pyarrow.timestamp("s"))})
    parquet.write_table(made.set_column(2, "colour", made["colour"].dictionary_encode()), tmp_path / "t.parquet")
    expected = read(tmp_path, content)
    with pytest.raises(ProblemError, match=r"t.parquet, when: timestamp\[\w+\] is a date or a time.*--drop when"):
        read_new(tmp_path / "t.parquet", RequestedColumns("kind"), CsvFormat())
    found = read_new(tmp_path / "t.parquet", RequestedColumns("kind", drop=("when",)), CsvFormat())
    assert found.chosen.names == expected.chosen.names
    assert found.labels == expected.labels
    for one, other in zip(found.columns, expected.columns, strict=True):
        assert cells(one) == cells(other)
    assert found.place(3).endswith("row 4")


def test_svmlight_by_its_name_or_by_flag(tmp_path):
    X, y = load_iris(return_X_y=True)
    for name, zero_based in (("iris.svm", False), ("iris.txt", True)):
        dump_svmlight_file(X, y, str(tmp_path / name), zero_based=zero_based)
        table = read_new(tmp_path / name, RequestedColumns(), CsvFormat(), None if name == "iris.svm" else "svmlight")
        np.testing.assert_array_equal(table.X.toarray(), X)
        assert table.labels == [str(k) for k in y]
        assert table.first == (0 if zero_based else 1)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"1 1:0.5\n2 2;3\n", r", line 2, '2 2;3', is not 'label index:value"),
        (b"1 1:0.5\n\n2 3:1 2:3\n", r", line 3, .* is not 'label index:value"),
        (b"1 1:0.5\n2 1:nan\n", "a value of point 2 is not a finite number"),
        (b"yes 1:0.5\n", r", line 1, .* is not 'label index:value"),
        (b"1 99999999999:0.5\n", "t.svm"),
        (b"1 99999999:0.5\n", "MAX_FEATURES"),
        (b"", "has no data"),
        (b"1\n2\n", "no features"),
    ],
)
def test_svmlight_that_is_none_is_one_sentence(tmp_path, content, words):
    (tmp_path / "t.svm").write_bytes(content)
    with pytest.raises(ProblemError, match=words):
        read_new(tmp_path / "t.svm", RequestedColumns(), CsvFormat())


def test_every_row_of_a_csv_is_read_in_its_place(tmp_path):
    (tmp_path / "t.csv").write_text('a,b\n1,x\n\n"2\n",y\n', encoding="utf-8")
    table = read_csv(Source(tmp_path / "t.csv"), RequestedColumns(), CsvFormat())
    assert table.where.tolist() == [2, 5]


@pytest.mark.parametrize(
    ("cells", "words"),
    [
        (["1,200", "950"], r"a: '1,200' is not a finite number; --thousands \",\" reads it as 1200$"),
        (["1,200", "2,300"], r"'1,200', '2,300' .* --thousands \",\" reads it as 1200, --decimal , as 1.200$"),
        (["1,200.5", "950"], r"--thousands \",\" reads it as 1200.5$"),
        (["1.200,5", "950"], r"--thousands \".\" --decimal , reads it as 1200.5$"),
        (["1.234.567", "950"], r"--thousands \".\" --decimal , reads it as 1234567$"),
        (["1 200", "950"], r"--thousands \"space\" reads it as 1200$"),
        (["1\u202f200", "1\u00a0300"], r"--thousands \"space\" reads it as 1200$"),
        (["1'200", "950"], r"--thousands \"'\" reads it as 1200$"),
        (["5%", "7%", "9"], r"'5%', '7%' are not finite numbers; 1 other cell is"),
        (["$5,000", "950"], r"'\$5,000' is not a finite number"),
        (["inf", "inf", "1"], r"'inf' is not a finite number; .* --missing inf"),
        (["1,5", "1,200"], "that is a decimal comma"),
        (["odd", "odd", "odd", "1", "2"], r"'odd' is not a finite number; .* --missing odd"),
        (["2026-11-26", "26.11.2026"], r"'2026-11-26' is a date or a time.* --drop a.* --text a"),
        (["12:30", "13:45:10"], "'12:30' is a date or a time"),
    ],
)
def test_numbers_in_other_writings_and_dates_are_refused_with_their_cells(tmp_path, cells, words):
    content = "a;b;kind\n" + "".join(f"{cell};{k};{'xy'[k % 2]}\n" for k, cell in enumerate(cells))
    with pytest.raises(ProblemError, match=words):
        read(tmp_path, content)
    assert isinstance(read(tmp_path, content, RequestedColumns(text=("a",))).columns[0], TextColumn)


@pytest.mark.parametrize(
    ("cells", "option", "found"),
    [
        (["1,200", "950", "12,345,678.5"], {"thousands": ","}, [1200.0, 950.0, 12345678.5]),
        (["1 200", "1\u00a0300", "1\u2009400"], {"thousands": "space"}, [1200.0, 1300.0, 1400.0]),
        (["1.200,5", "7"], {"thousands": ".", "decimal": ","}, [1200.5, 7.0]),
        (["1'200", "7"], {"thousands": "'"}, [1200.0, 7.0]),
    ],
)
def test_thousands_are_read_by_their_option(tmp_path, cells, option, found):
    content = "a;b;kind\n" + "".join(f"{cell};{k};{'xy'[k % 2]}\n" for k, cell in enumerate(cells))
    assert read(tmp_path, content, **option).columns[0].tolist() == found
    with pytest.raises(ProblemError, match="--decimal and --thousands are the same"):
        read(tmp_path, content, thousands=",", decimal=",")
    with pytest.raises(ProblemError, match="--thousands 'x' must be"):
        read(tmp_path, content, thousands="x")


def test_half_a_column_of_gaps_is_numbers_and_said(tmp_path):
    table = read(tmp_path, "a,b,kind\n1,1,x\nn.d.,2,y\n-,3,x\n4,4,y\nn.d.,5,y\n")
    assert cells(table.columns[0]) == [1.0, None, None, 4.0, None]
    assert table.notes == ["Column a holds numbers; these cells are read as missing: 'n.d.' (2), '-' (1)."]


def test_numbers_among_texts_are_texts_and_said(tmp_path):
    table = read(tmp_path, "size,b,kind\nS,1,x\nM,2,y\nL,3,x\n38,4,y\n")
    assert isinstance(table.columns[0], TextColumn)
    assert table.notes == ["Column size: 1 of 4 cells are numbers; it is read as text."]


def test_rows_of_nothing_are_left_out_of_training_and_said(tmp_path):
    table = read(tmp_path, "a,b,kind\n1,1,x\n,,\n2,2,y\n,,\n")
    assert table.where.tolist() == [2, 4]
    assert table.notes == ["Empty rows are left out: 2, line 3, 5."]
    with pytest.raises(ProblemError, match="line 3: the label kind is empty"):
        labels_of(read(tmp_path, "a,b,kind\n1,1,x\n,5,\n2,2,y\n"))


def test_blank_lines_are_no_rows_and_said(tmp_path):
    table = read(tmp_path, "a,kind\n1,x\n\n \n2,y\n\n")
    assert table.where.tolist() == [2, 5]
    assert table.notes == ["Blank lines between the rows are ignored: 2, the first is line 3."]
    with pytest.raises(ProblemError, match=r"line 3 is blank in a table of one column; write \"\""):
        read(tmp_path, "a\n1\n\n2\n", RequestedColumns(labelled=False))


def test_a_table_of_ten_thousand_columns_takes_one_transformer_a_block(tmp_path, monkeypatch):
    width = 10_000
    calls = []
    fit = SimpleImputer.fit_transform
    monkeypatch.setattr(SimpleImputer, "fit_transform", lambda self, X: calls.append(X.shape) or fit(self, X))
    rows = np.random.default_rng(0).normal(size=(6, width)).round(3)
    rows[0, ::7] = np.nan
    lines = [",".join("" if np.isnan(v) else str(v) for v in row) + f",{'xy'[k % 2]}" for k, row in enumerate(rows)]
    table = read(tmp_path, ",".join(f"f{k}" for k in range(width)) + ",kind\n" + "\n".join(lines))
    X = fit_encoding(table).transform(table)[0]
    assert calls == [(6, width)]
    monkeypatch.undo()
    expected = make_pipeline(SimpleImputer(strategy="median"), StandardScaler()).fit_transform(rows)
    np.testing.assert_allclose(X, expected, rtol=1e-12, atol=1e-12)


def test_a_row_of_numbers_is_read_at_once_and_one_cell_that_is_none_by_itself(tmp_path, monkeypatch):
    """A cell a call took 2 ms a thousand columns; what is no plain number must still be told cell by cell."""
    rng = np.random.default_rng(0)
    cells = [[f"{value:.6g}" for value in row] for row in rng.standard_normal((6, 3000))]
    cells[2][1700], cells[4][5] = "", " 3.5 "
    path = tmp_path / "wide.csv"
    path.write_text("\n".join(",".join(row) for row in [[f"f{k}" for k in range(3000)], *cells]))
    calls, value = [], CellFormat.value
    monkeypatch.setattr(CellFormat, "value", lambda self, cell: calls.append(cell) or value(self, cell))
    table = read_new(path, RequestedColumns(None, False), CsvFormat())
    assert len(calls) < 1000
    assert np.isnan(table.columns[1700][2])
    assert table.columns[5][4] == 3.5
    wanted = np.array([[float(cell or "nan") for cell in row] for row in cells])
    np.testing.assert_array_equal(np.array(table.columns).T, wanted)
    for odd in ("inf", "1_000", "٣"):
        cells[3][2000] = odd
        path.write_text("\n".join(",".join(row) for row in [[f"f{k}" for k in range(3000)], *cells]))
        with pytest.raises(ProblemError, match="line 5, f2000"):
            read_new(path, RequestedColumns(None, False), CsvFormat())
