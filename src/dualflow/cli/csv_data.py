"""Read a table from a CSV file; a fault in the file is reported in one sentence."""

from __future__ import annotations

import csv
import io
from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import eq
from typing import BinaryIO

import numpy as np

from ..exceptions import ProblemError
from .cells import (
    MAX_COLUMN_TEXTS,
    CellCounts,
    CellFormat,
    ColumnBuilder,
    UnusableColumnError,
    is_gap,
    raise_unusable,
    row_number_note,
)
from .sources import Source
from .table import ColumnChooser, RequestedColumns, Table, index_positions

#: Maximum length of a line, in characters.
MAX_LINE = 1 << 24
#: Possible delimiters, the likelier ones first. Several blanks count as one delimiter.
DELIMITERS = "\t;|, "
#: Lines at the start of the file from which the delimiter is detected.
_SAMPLE_LINES = 20
#: Characters at the start of the file from which the delimiter is detected.
_SAMPLE_CHARS = 1 << 16
#: Neighbouring cells of a row that are converted in one call; if one is not a number, each is converted alone.
_GROUP_CELLS = 64

#: The number of a line, and its cells.
Line = tuple[int, list[str]]


@dataclass(frozen=True)
class CsvFormat:
    """The format of a CSV file; values that are None are detected from the file."""

    delimiter: str | None = None  # one character
    header: bool | None = None  # whether the first line names the columns
    cells: CellFormat = field(default_factory=CellFormat)


def read_csv(source: Source, chooser: ColumnChooser, form: CsvFormat) -> Table:
    """Return the chosen columns of a CSV file, which may have a header line or not.

    The file is read twice: first to find the kind of each column, then to store the cells as that kind.

    Parameters
    ----------
    source : Source
        Text in UTF-8, which may be compressed by gzip.
    chooser : Chooser
    form : Form

    Raises
    ------
    ProblemError
        The file has no data, lacks a requested column, has rows of different lengths, a cell that does not fit its
        column, is not CSV, or is too large. The message names file and line.
    OSError
        The file cannot be read.
    """
    delimiter = form.delimiter or _delimiter(source)
    first, tallies, blanks = _survey(source, delimiter, form.cells)
    cells = [cell.strip() for cell in first[1]]
    header = form.header
    if header is None:
        header = chooser.header(cells)
    if header is None:
        header = _has_header(cells, tallies, form.cells)
    names = cells if header else [f"column {k + 1}" for k in range(len(cells))]
    if not header:
        for cell, tally in zip(cells, tallies, strict=True):
            tally.add(cell, first[0], form.cells)
    # A delimiter at the end of each line makes an empty column.
    blank = {k for k, tally in enumerate(tallies) if tally.blank and (not header or not cells[k])}
    notes: list[str] = []
    if blanks:
        notes.append(f"Blank lines between the rows are ignored: {len(blanks)}, the first is line {blanks[0]}.")
    chosen = chooser.chosen(names, header, blank, index_positions(cells) if header else set(), source.name)
    notes += chosen.notes
    kinds: list[str] = []
    faults: dict[str, UnusableColumnError] = {}
    for column_place, name, kind in zip(chosen.places, chosen.names, chosen.kinds, strict=True):
        try:
            kinds.append(kind or tallies[column_place].kind(name, source.name, form.cells, notes))
        except UnusableColumnError as fault:  # the other columns are read, so that one error names all of them
            kinds.append("text")
            faults[name] = fault
    new = isinstance(chooser, RequestedColumns)
    columns = [
        ColumnBuilder(kind, name, MAX_COLUMN_TEXTS if new else None)
        for kind, name in zip(kinds, chosen.names, strict=True)
    ]
    for column in columns:
        column.fault = faults.get(column.name)
    labels: list[str] | None = None if chosen.label is None else []
    ids: list[str] | None = None if chosen.id is None else []
    seen: dict[str, str] = {}  # equal labels share one string object
    numbers = []
    pieces = _pieces(list(zip(columns, chosen.places, strict=True)))
    with source.open() as file, closing(_lines(source, file, delimiter)) as lines:
        for number, row in islice((line for line in lines if line[1]), int(header), None):
            place = f"{source.name}, line {number}"
            _check_width(row, len(cells), place)
            for piece in pieces:
                found = [row[k].strip() for _, k in piece]
                _gather(piece, found, place, form.cells)
            if labels is not None and chosen.label is not None:
                label = form.cells.label(row[chosen.label].strip())
                labels.append(seen.setdefault(label, label))
            if ids is not None and chosen.id is not None:
                ids.append(row[chosen.id].strip())
            numbers.append(number)
    if not numbers:
        raise ProblemError(f"{source.name} has only a header; rows of data are needed")
    gathered = [column.column() for column in columns]
    if new:
        raise_unusable([column.fault for column in columns if column.fault is not None], source.name)
        notes += row_number_note(chosen.names, gathered)
    where = np.array(numbers, dtype=np.int64)
    notes += [note for column in columns for note in column.notes]
    return Table(source.name, header, len(cells), chosen, gathered, labels, where, notes=notes, ids=ids)


def _survey(source: Source, delimiter: str, form: CellFormat) -> tuple[Line, list[CellCounts], list[int]]:
    """Return the first line, the cell counts of each column, and the numbers of the blank lines between the rows."""
    with source.open() as file, closing(_lines(source, file, delimiter)) as lines:
        first = next((line for line in lines if line[1]), None)
        if first is None:
            raise ProblemError(f"{source.name} is empty; rows of data are needed")
        top = [cell.strip() for cell in first[1]]
        tallies, blanks, pending = [CellCounts() for _ in top], list[int](), list[int]()
        starts = range(0, len(top), _GROUP_CELLS)
        pieces = [(tallies[start : start + _GROUP_CELLS], top[start : start + _GROUP_CELLS]) for start in starts]
        plain = [0] * len(pieces)  # rows in which all cells of a group are numbers
        for number, row in lines:
            if not row:
                pending.append(number)
                continue
            if pending and len(top) == 1:
                raise ProblemError(
                    f'{source.name}, line {pending[0]} is blank in a table of one column; write "" for an empty cell, '
                    "or remove the line"
                )
            blanks += pending
            pending.clear()
            _check_width(row, len(top), f"{source.name}, line {number}")
            for piece, (own, above) in enumerate(pieces):
                start = _GROUP_CELLS * piece
                found = [cell.strip() for cell in row[start : start + _GROUP_CELLS]]
                if form.values(found) is not None:
                    plain[piece] += 1
                else:
                    for tally, cell in zip(own, found, strict=True):
                        tally.add(cell, number, form)
                if any(map(eq, found, above)):
                    for tally, cell, once in zip(own, found, above, strict=True):
                        tally.repeats_header |= cell == once
    for (own, _), count in zip(pieces, plain, strict=True):
        for tally in own:
            tally.numbers += count
    return first, tallies, blanks


def _gather(piece: list[tuple[ColumnBuilder, int]], cells: list[str], place: str, form: CellFormat) -> None:
    """Add the stripped cells of a row to a group of columns."""
    values = form.values(cells) if piece[0][0].values is not None else None
    if values is None:
        for (column, _), cell in zip(piece, cells, strict=True):
            column.add(cell, place, form)
        return
    for (column, _), value in zip(piece, values, strict=True):
        column.values.append(value)  # type: ignore[union-attr]


def _pieces(columns: list[tuple[ColumnBuilder, int]]) -> list[list[tuple[ColumnBuilder, int]]]:
    """Return the columns, each with its position, in groups of at most `_GROUP_CELLS` columns of one kind."""
    found = []
    for _, run in groupby(columns, key=lambda column: column[0].values is None):
        alike = list(run)
        found += [alike[start : start + _GROUP_CELLS] for start in range(0, len(alike), _GROUP_CELLS)]
    return found


def _has_header(first: list[str], tallies: list[CellCounts], form: CellFormat) -> bool:
    """Return whether the first line names the columns.

    It does if it has text above numbers, or, in a table of text, if its cells differ and none is repeated below. An
    index column without a name does not count.
    """
    text = [not form.is_missing(cell) and form.number(cell) is None and not is_gap(cell) for cell in first]
    if all(tally.blank for tally in tallies):
        return any(text[:-1])  # there are no cells below it
    start = next((k for k, cell in enumerate(first) if cell), 0)
    first, text, tallies = first[start:], text[start:], tallies[start:]
    if any(tally.numeric for tally in tallies):
        return any(is_text for is_text, tally in zip(text, tallies, strict=True) if tally.numeric)
    return all(text) and len(set(first)) == len(first) and not any(tally.repeats_header for tally in tallies)


def _check_width(row: list[str], width: int, place: str) -> None:
    if len(row) != width:
        raise ProblemError(f"{place} has {len(row)} cells, the first line has {width}")


def _lines(source: Source, file: BinaryIO, delimiter: str) -> Generator[Line]:
    """Yield the rows, each with the number of the line in which it ends; a blank line is an empty row.

    A line of delimiters or quotes only is a row of empty cells.
    """
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    last = [""]
    try:
        reader = csv.reader(_bounded(text, source, last), delimiter=delimiter, strict=True)
        try:
            for row in reader:
                if delimiter == " ":
                    row = [cell for cell in row if cell]
                if len(row) < 2 and '"' not in last[0] and not any(map(str.strip, row)):
                    row = []
                elif not row:
                    raise ProblemError(f"{source.name}, line {reader.line_num} has only empty cells, between blanks")
                yield reader.line_num, row
        except UnicodeDecodeError as error:
            where = f"{source.name}, {_where(source)}"
            raise ProblemError(f"{where} is not a CSV text file in UTF-8: {error.reason}") from None
        except csv.Error as error:
            raise ProblemError(f"{source.name}, line {reader.line_num} is not CSV: {error}") from None
    finally:
        text.detach()


def _bounded(text: io.TextIOWrapper, source: Source, last: list[str]) -> Iterator[str]:
    """Yield the lines of the file; ``last[0]`` is the line that was read last."""
    number = 0
    while line := text.readline(MAX_LINE + 1):
        number += 1
        if len(line) > MAX_LINE:
            raise ProblemError(f"{source.name}, line {number} has more than MAX_LINE={MAX_LINE} characters")
        if "\0" in line:
            raise ProblemError(f"{source.name}, line {number} has a NUL byte; it is not a CSV text file")
        last[0] = line
        yield line


def _where(source: Source) -> str:
    """Return the line of the first bytes that are not UTF-8; the decoder is far ahead of the line that is parsed."""
    with source.open() as file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            try:
                line.decode()
            except UnicodeDecodeError:
                return f"line {number}"
    return "its end"


def _delimiter(source: Source) -> str:
    """Return the delimiter of a file.

    It is the first of `DELIMITERS` that splits the first lines into the same number of cells, more than one. If there
    is none, it is the comma if the first line has one, else the first delimiter that the first line has.
    """
    with source.open() as file:
        text = file.read(_SAMPLE_CHARS).decode("utf-8-sig", errors="replace")
    lines = list(io.StringIO(text, newline=""))
    if len(text) >= _SAMPLE_CHARS and len(lines) > 1:
        del lines[-1]  # the sample ends within it
    first = next((line for line in lines if line.strip()), "")
    there = [delimiter for delimiter in DELIMITERS[:-1] if delimiter in first]
    for delimiter in there or " ":
        widths = set()
        try:
            rows = (row for row in csv.reader(lines, delimiter=delimiter) if any(cell.strip() for cell in row))
            for row in islice(rows, _SAMPLE_LINES):
                widths.add(len([cell for cell in row if cell] if delimiter == " " else row))
        except csv.Error:
            continue
        if len(widths) == 1 and max(widths) > 1:
            return delimiter
    return "," if "," in there else there[0] if there else ","
