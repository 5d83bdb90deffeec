"""A table from a parquet file, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..exceptions import ProblemError, SolverUnavailable
from .cells import MAX_WORDS, Cells, Gathered, Tally
from .sources import MAX_BYTES, Source
from .table import SHOWN, Asked, Chooser, Table, Words, index_of

__all__ = ["MAGIC", "read_parquet"]

MAGIC = b"PAR1"
#: Rows that are read at a time.
_BATCH = 1 << 14


def read_parquet(source: Source, chooser: Chooser, form: Cells) -> Table:
    """The wanted columns of a parquet file; numbers and truth values are numbers, text and categories text.

    Rows and columns are counted by what the file says of itself before any is read.

    Raises
    ------
    ProblemError
        No such column, one of another type (dates, lists), or no sound file; the message names file and column.
    SolverUnavailable
        pyarrow is not installed.
    OSError
        The file cannot be read.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise SolverUnavailable(
            f"{source.name} is a parquet file, which needs pyarrow: pip install 'dualflow[parquet]'"
        ) from error
    with source.raw() as raw, _sentences(source.name, (pyarrow.ArrowException, OSError, ValueError)):
        file = pyarrow.parquet.ParquetFile(raw)
        about, schema = file.metadata, file.schema_arrow
        names = [str(name) for name in schema.names]
        needed = 8 * about.num_rows * len(names)
        if about.num_rows < 0 or needed > 4 * MAX_BYTES:
            raise ProblemError(f"{source.name} has {about.num_rows} rows of {len(names)} columns; too many to be read")
        chosen = chooser.chosen(names, True, set(), index_of(names, _declared(schema)), source.name)
        kinds = [
            kind or _kind(schema.field(place).type, source.name, name)
            for place, name, kind in zip(chosen.places, chosen.names, chosen.kinds, strict=True)
        ]
        most = MAX_WORDS if isinstance(chooser, Asked) else None
        columns = [Gathered(kind, name, most) for kind, name in zip(kinds, chosen.names, strict=True)]
        labels: list[str] | None = None if chosen.label is None else []
        rows = 0
        for batch in file.iter_batches(_BATCH, use_threads=False):
            if len(batch.schema.names) != len(names) or (rows := rows + batch.num_rows) > about.num_rows:
                raise ProblemError(f"{source.name} has other rows or columns than it says")
            places = [f"{source.name}, row {rows - batch.num_rows + k + 1}" for k in range(batch.num_rows)]
            for column, k in zip(columns, chosen.places, strict=True):
                _add(column, batch.column(k), places, form, source.name)
            if labels is not None and chosen.label is not None:
                _simple(batch.column(chosen.label).type, source.name, names[chosen.label])
                labels += [
                    "" if v is None else form.label(str(v).strip()) for v in batch.column(chosen.label).to_pylist()
                ]
    if not rows:
        raise ProblemError(f"{source.name} has no rows; rows of data are needed")
    gathered = [column.column() for column in columns]
    where = np.arange(1, rows + 1, dtype=np.int64)
    notes = [*chosen.notes, *(note for column in columns for note in column.notes)]
    for name, kind, made in zip(chosen.names, chosen.kinds, gathered, strict=True):
        if kind is None and isinstance(made, Words):
            _check_texts(name, made, form, source.name, notes)
    return Table(source.name, True, len(names), chosen, gathered, labels, where, "row", notes)


def _declared(schema: Any) -> list[str]:
    """Columns that pandas wrote as the index of its frame."""
    try:
        about = schema.pandas_metadata
    except ValueError:  # it is no JSON, and no part of the table
        return []
    index = about.get("index_columns") if isinstance(about, dict) else None
    return [name for name in index if isinstance(name, str)] if isinstance(index, list) else []


def _check_texts(name: str, column: Words, form: Cells, source: str, notes: list[str]) -> None:
    """Texts of a new table that are dates are refused; a note says which columns of text hold numbers."""
    tally = Tally()
    firsts = np.unique(column.codes[column.codes >= 0], return_index=True)[1]
    for word, row in zip(column.words.tolist(), np.flatnonzero(column.codes >= 0)[firsts].tolist(), strict=True):
        tally.add(word, row + 1, form)
    if tally.numeric:
        notes.append(f"Column {name[:SHOWN]} holds numbers that its file has as text; it is taken as text.")
    else:
        tally.kind(name, source, form, notes, "row")


@contextmanager
def _sentences(name: str, errors: Any) -> Iterator[None]:
    try:
        yield
    except ProblemError:
        raise
    except errors as error:  # whatever a damaged file leads to, text that is not UTF-8 included
        if isinstance(error, OSError) and error.filename:
            raise
        raise ProblemError(f"{name} is not a parquet file that pyarrow reads: {str(error)[:200]}") from None


def _kind(kind: Any, source: str, name: str) -> str:
    import pyarrow.types as types

    _simple(kind, source, name)
    inner = kind.value_type if types.is_dictionary(kind) else kind
    return "text" if types.is_string(inner) or types.is_large_string(inner) else "number"


def _simple(kind: Any, source: str, name: str) -> None:
    """Refuse what is neither a number nor text."""
    import pyarrow.types as types

    inner = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_string, types.is_null)
    if types.is_temporal(inner):
        raise ProblemError(
            f"{source}, {name[:SHOWN]}: {kind} is a date or a time, and models take numbers; write what matters of it "
            f"as numbers (days since a day, the month), or leave the column out: --drop {name[:SHOWN]}"
        )
    if not any(test(inner) for test in (*tests, types.is_large_string)):
        raise ProblemError(
            f"{source}, {name[:SHOWN]}: {kind} is neither a number nor text; make it one of them, or leave it out: "
            f"--drop {name[:SHOWN]}"
        )


def _add(column: Gathered, values: Any, places: list[str], form: Cells, source: str) -> None:
    _simple(values.type, source, column.name)
    found = values.to_pylist()
    if column.values is None:
        found = [None if value is None else str(value) for value in found]
    elif found and not isinstance(next((v for v in found if v is not None), 0.0), str):
        numbers = np.array([np.nan if value is None else float(value) for value in found])
        if (endless := np.isinf(numbers)).any():
            place = places[int(np.argmax(endless))]
            raise ProblemError(f"{place}, {column.name[:SHOWN]}: infinity is not a finite number")
        column.values.frombytes(numbers.tobytes())
        return
    for cell, place in zip(found, places, strict=True):
        column.add("" if cell is None else cell.strip(), place, form)
