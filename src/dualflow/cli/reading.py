"""The one door for data: CSV, parquet and svmlight, from a file or from standard input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ..exceptions import ProblemError
from .csv_data import Form, read_csv
from .parquet import MAGIC, read_parquet
from .sources import Source, source_of
from .svmlight import SUFFIXES, read_svmlight
from .table import Asked, Chooser, Sparse, Table

__all__ = ["FORMATS", "format_of", "read_known", "read_new"]

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
