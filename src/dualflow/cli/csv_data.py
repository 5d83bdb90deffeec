"""Labelled data from a CSV file, or one sentence on what is wrong with it."""

from __future__ import annotations

import csv
import io
from array import array
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain
from math import isfinite
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from .._files import open_regular
from ..exceptions import ProblemError

__all__ = ["MAX_BYTES", "read_csv"]

#: Most bytes of a file: as numbers they take four times as many, at worst.
MAX_BYTES = 1 << 30
#: Characters of a cell that an error shows.
_SHOWN = 40

Line = tuple[int, list[str]]


def read_csv(path: Path, label: str | None) -> tuple[NDArray, NDArray]:
    """Features of shape (n, m) and labels of shape (n,) of a CSV file, with or without a header line.

    Labels that are whole numbers become integers, exactly; other numbers floats. Where two different numbers would
    become one, labels stay text.

    Parameters
    ----------
    path : Path
        A regular file of at most `MAX_BYTES`, UTF-8, separated by commas.
    label : str or None
        Name of the label column, or its number from 1; None is the last.

    Raises
    ------
    ProblemError
        No data, no such column, ragged rows, a feature that is not a finite number, labels of mixed kinds; not a CSV
        file, not a file, or one too large. The message names file and line.
    OSError
        The file cannot be read.
    """
    with open_regular(path, MAX_BYTES, "MAX_BYTES") as file:
        return _table(_lines(path, file), path, label)


def _lines(path: Path, file: BinaryIO) -> Iterator[Line]:
    """The rows that are not blank, with the number of the line each ends in."""
    text = io.TextIOWrapper(file, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, strict=True)
    try:
        for row in reader:
            if any("\0" in cell for cell in row):
                raise ProblemError(f"{path}, line {reader.line_num} has a NUL byte; it is not a CSV text file")
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except UnicodeDecodeError as error:
        raise ProblemError(f"{path}, {_where(path)} is not a CSV text file in UTF-8: {error.reason}") from None
    except csv.Error as error:
        raise ProblemError(f"{path}, line {reader.line_num} is not CSV: {error}") from None
    finally:
        text.close()


def _where(path: Path) -> str:
    """The line of the first bytes that are not UTF-8: text is decoded far ahead of the line that is read."""
    with open_regular(path, MAX_BYTES, "MAX_BYTES") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return f"line {number}"
    return "its end"


def _table(lines: Iterator[Line], path: Path, label: str | None) -> tuple[NDArray, NDArray]:
    first, second = next(lines, None), next(lines, None)
    if first is None:
        raise ProblemError(f"{path} is empty; rows of numbers and a label are needed")
    width = len(first[1])
    if width < 2:
        raise ProblemError(
            f"{path} has a single column; at least one feature and a label, separated by commas, are needed"
        )
    header = [cell.strip() for cell in first[1]]
    column = _label_column(label, header, path)
    has_header = label in header or any(_is_text(cell) for k, cell in enumerate(header) if k != column)
    if not has_header and second is not None and column < len(second[1]):
        # Features named by numbers: the label column still gives the header away.
        has_header = _is_number(second[1][column]) and _is_text(header[column])
    names = header if has_header else [f"column {k + 1}" for k in range(width)]
    features, labels, numbers = array("d"), [], []
    for number, row in chain([] if has_header else [first], [] if second is None else [second], lines):
        if len(row) != width:
            raise ProblemError(f"{path}, line {number} has {len(row)} cells, the first line has {width}")
        labels.append(row.pop(column).strip())
        numbers.append(number)
        features.extend(_numbers(row, path, number, names[:column] + names[column + 1 :]))
    if not labels:
        raise ProblemError(f"{path} has a header only; rows of data are needed")
    X = np.frombuffer(features, dtype=float).reshape(len(labels), width - 1)
    return X, _parsed(labels, numbers, path, names[column])


def _numbers(row: list[str], path: Path, number: int, names: list[str]) -> list[float]:
    for cell, name in zip(row, names, strict=True):
        if not _is_number(cell):
            found = "an empty cell" if not cell.strip() else _short(cell)
            raise ProblemError(f"{path}, line {number}, {name[:_SHOWN]}: {found} is not a finite number")
    return [float(cell) for cell in row]


def _label_column(label: str | None, header: list[str], path: Path) -> int:
    if label is None:
        return len(header) - 1
    if header.count(label) > 1:
        raise ProblemError(f"{path} has {header.count(label)} columns {label!r} for --label; give its number, from 1")
    if label in header:
        return header.index(label)
    # Other digits than these, "²" say, are digits to str.isdigit and no number to int; of thousands, int makes none.
    if label.isascii() and label.isdigit() and len(label) < 10 and 1 <= int(label) <= len(header):
        return int(label) - 1
    shown = ", ".join(name[:_SHOWN] for name in header[:12])
    raise ProblemError(f"{path} has no column {label!r} for --label; its first line is {shown}")


def _parsed(cells: list[str], numbers: list[int], path: Path, name: str) -> NDArray:
    """Labels as integers, floats or text."""
    if "" in cells:
        line = numbers[cells.index("")]
        raise ProblemError(f"{path}, line {line}: the label {name} is empty; fill or drop such rows")
    numeric = [_is_number(cell) for cell in cells]
    if not any(numeric):
        return np.array(cells)
    if not all(numeric):
        text, number = (_short(cells[numeric.index(kind)]) for kind in (False, True))
        line = numbers[numeric.index(False)]
        raise ProblemError(
            f"{path}, line {line}: the label {name} mixes numbers and text ({number}, {text}); use one kind, or name "
            "another column with --label"
        )
    exact = [Decimal(cell) for cell in cells]
    if all(value == value.to_integral_value() for value in exact):
        whole = [int(value) for value in exact]
        for dtype in (np.int64, np.uint64):
            if np.iinfo(dtype).min <= min(whole) and max(whole) <= np.iinfo(dtype).max:
                return np.array(whole, dtype=dtype)
    rounded = np.array([float(cell) for cell in cells])
    return rounded if len(np.unique(rounded)) == len(set(exact)) else np.array(cells)


def _short(cell: str) -> str:
    return repr(cell if len(cell) <= _SHOWN else cell[:_SHOWN] + "…")


def _is_number(cell: str) -> bool:
    """Whether this is a finite number as files write it; Python's own takes "1_000" and digits of any script, too."""
    try:
        return cell.isascii() and "_" not in cell and isfinite(float(cell))
    except ValueError:
        return False


def _is_text(cell: str) -> bool:
    """Whether this is a name rather than a number, a missing one ("", "nan") included."""
    try:
        float(cell or "nan")
    except ValueError:
        return True
    return False
