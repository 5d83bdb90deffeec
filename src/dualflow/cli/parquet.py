"""Read a table from a parquet file, by pyarrow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..exceptions import ProblemError, SolverUnavailable
from .cells import (
    MAX_COLUMN_TEXTS,
    CellCounts,
    CellFormat,
    ColumnBuilder,
    UnusableColumnError,
    quoted,
    raise_unusable,
    row_number_note,
)
from .sources import MAX_BYTES, Source
from .table import SHOWN_CHARS, ColumnChooser, RequestedColumns, Table, TextColumn, index_positions

#: First bytes of a parquet file.
MAGIC = b"PAR1"
#: Rows that are read at a time.
_BATCH = 1 << 14


def read_parquet(source: Source, chooser: ColumnChooser, form: CellFormat) -> Table:
    """Return the chosen columns of a parquet file; booleans are read as numbers, categories as text.

    The size that the file states is checked before any row is read.

    Raises
    ------
    ProblemError
        The file lacks a requested column, has one of another type (dates, lists), or is damaged; the message names
        file and column.
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
    with source.raw() as raw, _clear_parquet_errors(source.name, (pyarrow.ArrowException, OSError, ValueError)):
        file = pyarrow.parquet.ParquetFile(raw)
        about, schema = file.metadata, file.schema_arrow
        names = [str(name) for name in schema.names]
        needed = 8 * about.num_rows * len(names)
        if about.num_rows < 0 or needed > 4 * MAX_BYTES:
            raise ProblemError(f"{source.name} has {about.num_rows} rows of {len(names)} columns, too many to read")
        chosen = chooser.chosen(names, True, set(), index_positions(names, _declared_index(schema)), source.name)
        new = isinstance(chooser, RequestedColumns)
        columns = []
        for place, name, known in zip(chosen.places, chosen.names, chosen.kinds, strict=True):
            fault = None
            try:
                kind = known or _kind(schema.field(place).type, source.name, name)
            except UnusableColumnError as error:  # the other columns are read, so that one error names all of them
                kind, fault = "text", error
            columns.append(ColumnBuilder(kind, name, MAX_COLUMN_TEXTS if new else None))
            columns[-1].fault = fault
        unusable = {column.name for column in columns if column.fault is not None}
        labels: list[str] | None = None if chosen.label is None else []
        ids: list[str] | None = None if chosen.id is None else []
        rows = 0
        for batch in file.iter_batches(_BATCH, use_threads=False):
            if len(batch.schema.names) != len(names) or (rows := rows + batch.num_rows) > about.num_rows:
                raise ProblemError(f"{source.name} is damaged: its rows or columns are not those that it states")
            places = [f"{source.name}, row {rows - batch.num_rows + k + 1}" for k in range(batch.num_rows)]
            for column, k in zip(columns, chosen.places, strict=True):
                if column.name in unusable:
                    column.codes.extend([-1] * batch.num_rows)
                else:
                    _add(column, batch.column(k), places, form, source.name)
            if labels is not None and chosen.label is not None:
                _check_simple(batch.column(chosen.label).type, source.name, names[chosen.label])
                labels += [
                    "" if v is None else form.label(str(v).strip()) for v in batch.column(chosen.label).to_pylist()
                ]
            if ids is not None and chosen.id is not None:
                ids += ["" if v is None else str(v).strip() for v in batch.column(chosen.id).to_pylist()]
    if not rows:
        raise ProblemError(f"{source.name} has no rows; rows of data are needed")
    gathered = [column.column() for column in columns]
    where = np.arange(1, rows + 1, dtype=np.int64)
    notes = [*chosen.notes, *(note for column in columns for note in column.notes)]
    for column, given, made in zip(columns, chosen.kinds, gathered, strict=True):
        if given is None and isinstance(made, TextColumn) and column.fault is None:
            try:
                _check_texts(column.name, made, form, source.name, notes)
            except UnusableColumnError as error:
                column.fault = error
    raise_unusable([column.fault for column in columns if column.fault is not None], source.name)
    if new:
        notes += row_number_note(chosen.names, gathered)
    return Table(source.name, True, len(names), chosen, gathered, labels, where, "row", notes, ids)


def _declared_index(schema: Any) -> list[str]:
    """Return the columns that pandas wrote as the index of a data frame."""
    try:
        about = schema.pandas_metadata
    except ValueError:  # damaged metadata; the table itself does not need it
        return []
    index = about.get("index_columns") if isinstance(about, dict) else None
    return [name for name in index if isinstance(name, str)] if isinstance(index, list) else []


def _check_texts(name: str, column: TextColumn, form: CellFormat, source: str, notes: list[str]) -> None:
    """Raise ProblemError if a text column of a training table holds dates; add a note if it holds numbers."""
    tally = CellCounts()
    firsts = np.unique(column.codes[column.codes >= 0], return_index=True)[1]
    for word, row in zip(column.words.tolist(), np.flatnonzero(column.codes >= 0)[firsts].tolist(), strict=True):
        tally.add(word, row + 1, form)
    if tally.numeric:
        notes.append(f"Column {name[:SHOWN_CHARS]} holds numbers that the file stores as text; it is read as text.")
    else:
        tally.kind(name, source, form, notes, "row")


@contextmanager
def _clear_parquet_errors(name: str, errors: Any) -> Iterator[None]:
    try:
        yield
    except ProblemError:
        raise
    except errors as error:  # all that a damaged file can raise, text that is not UTF-8 included
        if isinstance(error, OSError) and error.filename:
            raise
        raise ProblemError(f"{name} is not a parquet file that pyarrow reads: {str(error)[:200]}") from None


def _kind(kind: Any, source: str, name: str) -> str:
    import pyarrow.types as types

    _check_simple(kind, source, name)
    inner = kind.value_type if types.is_dictionary(kind) else kind
    return "text" if types.is_string(inner) or types.is_large_string(inner) else "number"


def _check_simple(kind: Any, source: str, name: str) -> None:
    """Raise ProblemError if a column's type is neither a number nor text."""
    import pyarrow.types as types

    inner = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_integer, types.is_floating, types.is_boolean, types.is_decimal, types.is_string, types.is_null)
    if types.is_temporal(inner):
        raise UnusableColumnError(
            f"{source}, {name[:SHOWN_CHARS]}: {kind} is a date or a time, and models need numbers. Convert it to "
            "numbers "
            f"(days since a date, or the month), or leave the column out with --drop {quoted(name[:SHOWN_CHARS])}",
            name,
            f"{kind}",
        )
    if not any(test(inner) for test in (*tests, types.is_large_string)):
        raise UnusableColumnError(
            f"{source}, {name[:SHOWN_CHARS]}: {kind} is neither a number nor text; convert it, or leave the "
            f"column out with --drop {quoted(name[:SHOWN_CHARS])}",
            name,
            f"{kind}, neither a number nor text",
        )


def _add(column: ColumnBuilder, values: Any, places: list[str], form: CellFormat, source: str) -> None:
    _check_simple(values.type, source, column.name)
    found = values.to_pylist()
    if column.values is None:
        found = [None if value is None else str(value) for value in found]
    elif found and not isinstance(next((v for v in found if v is not None), 0.0), str):
        numbers = np.array([np.nan if value is None else float(value) for value in found])
        if (endless := np.isinf(numbers)).any():
            place = places[int(np.argmax(endless))]
            raise ProblemError(f"{place}, {column.name[:SHOWN_CHARS]}: infinity is not a finite number")
        column.values.frombytes(numbers.tobytes())
        return
    for cell, place in zip(found, places, strict=True):
        column.add("" if cell is None else cell.strip(), place, form)
