"""The one door for data: CSV, parquet and svmlight, from a file or from standard input.

Sparse points from a file of svmlight's and LIBSVM's format.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scipy import sparse

from ..exceptions import ProblemError
from ..interchange.svmlight import parsed
from .csv_data import Form, read_csv
from .parquet import MAGIC, read_parquet
from .sources import Source, source_of
from .table import Asked, Chooser, Sparse, Table

__all__ = ["FORMATS", "SUFFIXES", "format_of", "read_known", "read_new", "read_svmlight"]


SUFFIXES = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")


def read_svmlight(source: Source, first: int | None = None, n_features: int | None = None) -> Sparse:
    """X in CSR and the labels.

    Parameters
    ----------
    source : Source
        gz or not.
    first : {0, 1, None}
        Index of the first feature; None: 0 if any index is, else 1.
    n_features : int, optional
        Of the model the points are for; by default the largest index.

    Raises
    ------
    ProblemError
        No such file, or damaged; the message names file and line.
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
        raise ProblemError(f"{source.name} has no features; lines of label index:value … are needed")
    X = sparse.csr_array((X.data, X.indices - first, X.indptr), shape=(X.shape[0], width))
    return Sparse(source.name, X, [str(label) for label in y.tolist()], first)


FORMATS = ("csv", "parquet", "svmlight")


def read_new(path: Path, asked: Asked, form: Form, kind: str | None = None) -> Table | Sparse:
    """The table at a path; ``kind`` is one of `FORMATS`, and by default told from the file.

    Raises
    ------
    ProblemError
        It is none, too large, or not as it is asked for; the message names file and line.
    SolverUnavailable
        It is parquet, and pyarrow is not installed.
    OSError
        It cannot be read.
    """
    with source_of(path) as source:
        if format_of(source, kind) == "svmlight":
            if asked.drop or asked.text:
                raise ProblemError("--drop and --text are for columns that have names; svmlight has indices")
            return read_svmlight(source)
        return _columns(source, asked, form, kind).filled()


def read_known(path: Path, known: Any, form: Form, kind: str | None = None) -> Table | Sparse:
    """The table at a path that a model (`Known`) is to be used on; raises as `read_new` does."""
    first = getattr(known.encoding, "first", None)
    with source_of(path) as source:
        found = format_of(source, kind or ("svmlight" if first is not None else None))
        if first is not None and found == "svmlight":
            return read_svmlight(source, first, known.encoding.count)
        if first is not None or found == "svmlight":
            trained = "svmlight" if first is not None else "a table with columns"
            raise ProblemError(f"{source.name} is {found}, and the model was trained on {trained}")
        return _columns(source, known, form, kind)


def format_of(source: Source, kind: str | None) -> str:
    """One of `FORMATS`: the one that is said, or that of a file's first bytes or its name."""
    if kind is not None:
        if kind not in FORMATS:
            raise ProblemError(f"--format {kind!r} must be one of {', '.join(FORMATS)}")
        return kind
    if source.begins_with(MAGIC):
        return "parquet"
    return "svmlight" if source.path.name.lower().endswith(SUFFIXES) else "csv"


def _columns(source: Source, chooser: Chooser, form: Form, kind: str | None) -> Table:
    if format_of(source, kind) == "parquet":
        return read_parquet(source, chooser, form.cells)
    return read_csv(source, chooser, form)
