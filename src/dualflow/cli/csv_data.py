"""Labelled data from a CSV file, or one sentence on what is wrong with it."""

from __future__ import annotations

import csv
from math import isfinite
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError

__all__ = ["read_csv"]


def read_csv(path: Path, label: str | None) -> tuple[NDArray, NDArray]:
    """Features of shape (n, m) and labels of shape (n,) of a CSV file, with or without a header line.

    Parameters
    ----------
    path : Path
    label : str or None
        Name of the label column, or its number from 1; None is the last.

    Raises
    ------
    ProblemError
        No data, no such column, ragged rows, a feature that is not a finite number, labels of mixed kinds.
    OSError
        The file cannot be read.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            numbered = list(enumerate(csv.reader(file), 1))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ProblemError(f"{path} is not a CSV text file in UTF-8: {error}") from error
    lines = [(number, row) for number, row in numbered if any(cell.strip() for cell in row)]
    if not lines:
        raise ProblemError(f"{path} is empty; rows of numbers and a label are needed")
    width = len(lines[0][1])
    if width < 2:
        raise ProblemError(f"{path} has a single column; at least one feature and a label are needed")
    header = [cell.strip() for cell in lines[0][1]]
    column = _label_column(label, header, path)
    has_header = label in header or any(not _is_number(c) for k, c in enumerate(header) if k != column)
    if not has_header and len(lines) > 1 and _is_number(lines[1][1][column]) and not _is_number(header[column]):
        has_header = True  # features named by numbers: the label column still gives the header away
    names = header if has_header else [f"column {k + 1}" for k in range(width)]
    rows = lines[1:] if has_header else lines
    if not rows:
        raise ProblemError(f"{path} has a header only; rows of data are needed")
    for number, row in rows:
        if len(row) != width:
            raise ProblemError(f"{path}, line {number} has {len(row)} cells, the first line has {width}")
        for k, cell in enumerate(row):
            if k != column and not _is_number(cell):
                found = "an empty cell" if not cell.strip() else repr(cell)
                raise ProblemError(f"{path}, line {number}, {names[k]}: {found} is not a finite number")
    features = np.array([[float(c) for k, c in enumerate(row) if k != column] for _, row in rows])
    return features, np.array(_parse_labels([row[column].strip() for _, row in rows], path, names[column]))


def _label_column(label: str | None, header: list[str], path: Path) -> int:
    if label is None:
        return len(header) - 1
    if label in header:
        return header.index(label)
    if label.isdigit() and 1 <= int(label) <= len(header):
        return int(label) - 1
    raise ProblemError(f"{path} has no column {label!r} for --label; its first line is {', '.join(header[:12])}")


def _parse_labels(cells: list[str], path: Path, name: str) -> list[int] | list[float] | list[str]:
    if any(not cell for cell in cells):
        raise ProblemError(f"{path}: the label {name} is empty in some rows; fill or drop them")
    numeric = [_is_number(cell) for cell in cells]
    if all(numeric):
        values = [float(cell) for cell in cells]
        return [int(value) for value in values] if all(value.is_integer() for value in values) else values
    if any(numeric):
        text, number = cells[numeric.index(False)], cells[numeric.index(True)]
        raise ProblemError(
            f"{path}: the label {name} mixes numbers and text ({number!r}, {text!r}); use one kind, or name another "
            "column with --label"
        )
    return cells


def _is_number(cell: str) -> bool:
    try:
        return isfinite(float(cell))
    except ValueError:
        return False
