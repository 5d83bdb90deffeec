"""A table from a CSV file, or one sentence on what is wrong with it."""

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
from .cells import MAX_WORDS, Cells, Gathered, Tally, is_gap
from .sources import Source
from .table import Asked, Chooser, Table, index_of

__all__ = ["DELIMITERS", "MAX_LINE", "Form", "read_csv"]

#: Most characters of a line.
MAX_LINE = 1 << 24
#: What may stand between cells, the likelier ones first; blanks count as one.
DELIMITERS = "\t;|, "
#: Lines, and characters of them, from which the delimiter is told.
_LINES, _SAMPLE = 20, 1 << 16
#: Neighbouring cells of a row that are converted in one call; if one is no number, all of them are read one by one.
_PIECE = 64

Line = tuple[int, list[str]]


@dataclass(frozen=True)
class Form:
    """How a file is written; what is None is told from the file.

    Parameters
    ----------
    delimiter : str, optional
        One character.
    header : bool, optional
        Whether the first line names the columns.
    cells : Cells
    """

    delimiter: str | None = None
    header: bool | None = None
    cells: Cells = field(default_factory=Cells)


def read_csv(source: Source, chooser: Chooser, form: Form) -> Table:
    """The wanted columns of a CSV file, with or without a header line.

    Every cell is read twice: to see what a column holds, and to keep it in the least memory that it takes.

    Parameters
    ----------
    source : Source
        Text in UTF-8, gz or not.
    chooser : Chooser
    form : Form

    Raises
    ------
    ProblemError
        No data, no such column, ragged rows, a cell that does not go with its column; no CSV file, or one too large.
        The message names file and line.
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
    # A delimiter at the end of each line makes a column of nothing.
    blank = {k for k, tally in enumerate(tallies) if tally.blank and (not header or not cells[k])}
    notes: list[str] = []
    if blanks:
        notes.append(f"Blank lines between the rows are no rows: {len(blanks)}, the first is line {blanks[0]}.")
    chosen = chooser.chosen(names, header, blank, index_of(cells) if header else set(), source.name)
    notes += chosen.notes
    kinds = [
        kind or tallies[place].kind(name, source.name, form.cells, notes)
        for place, name, kind in zip(chosen.places, chosen.names, chosen.kinds, strict=True)
    ]
    new = isinstance(chooser, Asked)
    columns = [Gathered(kind, name, MAX_WORDS if new else None) for kind, name in zip(kinds, chosen.names, strict=True)]
    labels: list[str] | None = None if chosen.label is None else []
    seen: dict[str, str] = {}  # one object a label, however often it is there
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
            numbers.append(number)
    if not numbers:
        raise ProblemError(f"{source.name} has a header only; rows of data are needed")
    gathered = [column.column() for column in columns]
    where = np.array(numbers, dtype=np.int64)
    notes += [note for column in columns for note in column.notes]
    return Table(source.name, header, len(cells), chosen, gathered, labels, where, notes=notes)


def _survey(source: Source, delimiter: str, form: Cells) -> tuple[Line, list[Tally], list[int]]:
    """The first line, what is in the columns below it, and which lines between them are blank."""
    with source.open() as file, closing(_lines(source, file, delimiter)) as lines:
        first = next((line for line in lines if line[1]), None)
        if first is None:
            raise ProblemError(f"{source.name} is empty; rows of data are needed")
        top = [cell.strip() for cell in first[1]]
        tallies, blanks, pending = [Tally() for _ in top], list[int](), list[int]()
        starts = range(0, len(top), _PIECE)
        pieces = [(tallies[start : start + _PIECE], top[start : start + _PIECE]) for start in starts]
        plain = [0] * len(pieces)  # rows in which all cells of a piece are numbers
        for number, row in lines:
            if not row:
                pending.append(number)
                continue
            if pending and len(top) == 1:
                raise ProblemError(
                    f'{source.name}, line {pending[0]} is blank, in a table of one column: write "" where a cell is '
                    "empty, or take the line out"
                )
            blanks += pending
            pending.clear()
            _check_width(row, len(top), f"{source.name}, line {number}")
            for piece, (own, above) in enumerate(pieces):
                start = _PIECE * piece
                found = [cell.strip() for cell in row[start : start + _PIECE]]
                if form.values(found) is not None:
                    plain[piece] += 1
                else:
                    for tally, cell in zip(own, found, strict=True):
                        tally.add(cell, number, form)
                if any(map(eq, found, above)):
                    for tally, cell, once in zip(own, found, above, strict=True):
                        tally.again |= cell == once
    for (own, _), count in zip(pieces, plain, strict=True):
        for tally in own:
            tally.numbers += count
    return first, tallies, blanks


def _gather(piece: list[tuple[Gathered, int]], cells: list[str], place: str, form: Cells) -> None:
    """Take in stripped cells of a row, those of a piece of the columns."""
    values = form.values(cells) if piece[0][0].values is not None else None
    if values is None:
        for (column, _), cell in zip(piece, cells, strict=True):
            column.add(cell, place, form)
        return
    for (column, _), value in zip(piece, values, strict=True):
        column.values.append(value)  # type: ignore[union-attr]


def _pieces(columns: list[tuple[Gathered, int]]) -> list[list[tuple[Gathered, int]]]:
    """Columns, each with its place, in groups of at most `_PIECE`; a group holds only numbers or only texts."""
    found = []
    for _, run in groupby(columns, key=lambda column: column[0].values is None):
        alike = list(run)
        found += [alike[start : start + _PIECE] for start in range(0, len(alike), _PIECE)]
    return found


def _has_header(first: list[str], tallies: list[Tally], form: Cells) -> bool:
    """Whether the first line names the columns: as text above numbers, or, where all is text, as words that are nowhere
    else. An index has no name, and does not count."""
    text = [not form.is_missing(cell) and form.number(cell) is None and not is_gap(cell) for cell in first]
    if all(tally.blank for tally in tallies):
        return any(text[:-1])  # nothing is below it
    start = next((k for k, cell in enumerate(first) if cell), 0)
    first, text, tallies = first[start:], text[start:], tallies[start:]
    if any(tally.numeric for tally in tallies):
        return any(is_text for is_text, tally in zip(text, tallies, strict=True) if tally.numeric)
    return all(text) and len(set(first)) == len(first) and not any(tally.again for tally in tallies)


def _check_width(row: list[str], width: int, place: str) -> None:
    if len(row) != width:
        raise ProblemError(f"{place} has {len(row)} cells, the first line has {width}")


def _lines(source: Source, file: BinaryIO, delimiter: str) -> Generator[Line]:
    """The rows, each with the number of the line it ends in; blank lines, which have no cells, are empty rows.

    A line of delimiters or of quotes is a row, whose cells are empty.
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
                    raise ProblemError(f"{source.name}, line {reader.line_num} has empty cells only, between blanks")
                yield reader.line_num, row
        except UnicodeDecodeError as error:
            where = f"{source.name}, {_where(source)}"
            raise ProblemError(f"{where} is not a CSV text file in UTF-8: {error.reason}") from None
        except csv.Error as error:
            raise ProblemError(f"{source.name}, line {reader.line_num} is not CSV: {error}") from None
    finally:
        text.detach()


def _bounded(text: io.TextIOWrapper, source: Source, last: list[str]) -> Iterator[str]:
    """The lines; ``last`` holds the one that was read last."""
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
    """The line of the first bytes that are not UTF-8: text is decoded far ahead of the line that is read."""
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
    """The first of `DELIMITERS` that cuts the first lines into equally many cells, more than one; else the first one
    that is in the first line at all, commas before others."""
    with source.open() as file:
        text = file.read(_SAMPLE).decode("utf-8-sig", errors="replace")
    lines = list(io.StringIO(text, newline=""))
    if len(text) >= _SAMPLE and len(lines) > 1:
        del lines[-1]  # it is cut off
    first = next((line for line in lines if line.strip()), "")
    there = [delimiter for delimiter in DELIMITERS[:-1] if delimiter in first]
    for delimiter in there or " ":
        widths = set()
        try:
            rows = (row for row in csv.reader(lines, delimiter=delimiter) if any(cell.strip() for cell in row))
            for row in islice(rows, _LINES):
                widths.add(len([cell for cell in row if cell] if delimiter == " " else row))
        except csv.Error:
            continue
        if len(widths) == 1 and max(widths) > 1:
            return delimiter
    return "," if "," in there else there[0] if there else ","
