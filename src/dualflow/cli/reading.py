"""Read a table in CSV, parquet or svmlight format, from a file or from standard input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy import sparse

from ..exceptions import ProblemError
from ..interchange.svmlight import parsed
from .csv_data import CsvFormat, read_csv
from .parquet import MAGIC, read_parquet
from .sources import Source, open_source
from .table import ColumnChooser, RequestedColumns, SparseTable, Table

#: File name endings of the svmlight (LIBSVM) format.
SUFFIXES = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")


def read_svmlight(source: Source, first: int | None = None, n_features: int | None = None) -> SparseTable:
    """Return the points, in CSR format, and the labels of an svmlight file.

    Parameters
    ----------
    source : Source
        A text file, which may be compressed by gzip.
    first : {0, 1, None}
        Index of the first feature; None means 0 if the file has an index 0, else 1.
    n_features : int, optional
        Number of features of the model; by default the largest index gives it.

    Raises
    ------
    ProblemError
        The file is damaged, or has other features than the model; the message names file and line.
    """
    with source.open() as file:
        X, y = parsed(file, source.name, None, True)
    least = int(X.indices.min()) if len(X.indices) else 1
    first = min(least, 1) if first is None else first
    if least < first:
        raise ProblemError(f"{source.name} has index 0, and the model's features begin with 1")
    width = X.shape[1] - first
    if n_features is not None and width > n_features:
        found = X.shape[1] - 1
        raise ProblemError(f"{source.name} has index {found}, and the model was trained with {n_features} features")
    if not (width := width if n_features is None else n_features) > 0:
        raise ProblemError(f'{source.name} has no features; lines such as "label index:value …" are needed')
    X = sparse.csr_array((X.data, X.indices - first, X.indptr), shape=(X.shape[0], width))
    return SparseTable(source.name, X, [str(label) for label in y.tolist()], first)


#: The formats, by the values of --format.
FORMATS = ("csv", "parquet", "svmlight")


def read_new(path: Path, requested: RequestedColumns, form: CsvFormat, kind: str | None = None) -> Table | SparseTable:
    """Return the training table at a path; ``kind`` is one of `FORMATS`, by default detected from the file.

    Raises
    ------
    ProblemError
        The file is not a table, is too large, or does not have the requested columns; the message names file and line.
    SolverUnavailable
        The file is parquet, and pyarrow is not installed.
    OSError
        The file cannot be read.
    """
    with open_source(path) as source:
        if format_of(source, kind) == "svmlight":
            if requested.drop or requested.text or requested.keep:
                raise ProblemError("--drop, --text and --keep need columns; an svmlight file has indices only")
            return read_svmlight(source)
        return _columns(source, requested, form, kind).filled()


def read_known(path: Path, known: Any, form: CsvFormat, kind: str | None = None) -> Table | SparseTable:
    """Return the table at a path, with the columns of a model's `TrainingTable`; errors are those of `read_new`."""
    first = getattr(known.encoding, "first", None)
    if first is not None and known.requested_id is not None:
        raise ProblemError("--id needs columns, and the model was trained on an svmlight file, which has indices only")
    with open_source(path) as source:
        found = format_of(source, kind or ("svmlight" if first is not None else None))
        if first is not None and found == "svmlight":
            return read_svmlight(source, first, known.encoding.count)
        if first is not None or found == "svmlight":
            trained = "svmlight" if first is not None else "a table with columns"
            raise ProblemError(f"{source.name} is {found}, and the model was trained on {trained}")
        return _columns(source, known, form, kind)


def format_of(source: Source, kind: str | None) -> str:
    """Return one of `FORMATS`: ``kind`` if it is given, else by the file's first bytes or its name."""
    if kind is not None:
        if kind not in FORMATS:
            raise ProblemError(f"--format {kind!r} must be one of {', '.join(FORMATS)}")
        return kind
    if source.begins_with(MAGIC):
        return "parquet"
    return "svmlight" if source.path.name.lower().endswith(SUFFIXES) else "csv"


def _columns(source: Source, chooser: ColumnChooser, form: CsvFormat, kind: str | None) -> Table:
    if format_of(source, kind) == "parquet":
        return read_parquet(source, chooser, form.cells)
    return read_csv(source, chooser, form)
