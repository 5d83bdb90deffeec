"""What a cell of a text file is: nothing, a number, or text."""

from __future__ import annotations

import re
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite

import numpy as np

from ..exceptions import ProblemError
from .table import CLASSES, MISSING, SHOWN, Words, short

__all__ = ["MAX_WORDS", "Cells", "Gathered", "Tally", "number"]

#: Different texts of a column of features: more are names of its rows, not kinds of them.
MAX_WORDS = 1000

_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?", re.ASCII)


def number(cell: str) -> float | None:
    """The finite number that a cell is as files write it; Python's own takes "1_000" and digits of any script, too."""
    try:
        value = float(cell) if cell.isascii() and "_" not in cell else None
    except ValueError:
        return None
    return value if value is not None and isfinite(value) else None


@dataclass(frozen=True)
class Cells:
    """How cells are written.

    Parameters
    ----------
    decimal : {".", ","}
    missing : tuple of str
        What stands for nothing.
    """

    decimal: str = "."
    missing: tuple[str, ...] = MISSING

    def label(self, cell: str) -> str:
        """A stripped cell as a label, "" if there is none; a class may be called None."""
        return "" if cell in self.missing and cell not in CLASSES else cell

    def number(self, cell: str) -> float | None:
        """The number that a stripped cell is."""
        if self.decimal == ",":
            cell = cell.replace(",", ".", 1) if "." not in cell else ""
        return number(cell)


class Tally:
    """Of what kinds the cells of a column are, and the first of them that is text."""

    def __init__(self) -> None:
        self.numbers = self.commas = self.texts = 0
        self.again = False  # whether the first line's cell is there again
        self.text: tuple[int, str] | None = None

    def add(self, cell: str, line: int, cells: Cells) -> None:
        """Count a stripped cell."""
        if cell in cells.missing:
            return
        if cells.number(cell) is not None:
            self.numbers += 1
            return
        if _COMMA.fullmatch(cell):
            self.commas += 1
        else:
            self.texts += 1
        if self.text is None:
            self.text = line, cell

    @property
    def blank(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.numbers or self.commas or self.texts)

    @property
    def numeric(self) -> bool:
        """Whether it is meant to hold numbers, with mistakes at most."""
        return self.numbers + self.commas > self.texts

    def kind(self, name: str, source: str) -> str:
        """ "number" or "text"; ProblemError where it holds numbers but for a few cells."""
        if self.text is None:
            return "number"
        if not self.numeric:
            return "text"
        line, cell = self.text
        fix = (
            "if that is a decimal comma, add --decimal ,"
            if _COMMA.fullmatch(cell)
            else f"{self.numbers} others of this column are. Mend it, or say --missing {cell[:SHOWN]} if it stands for "
            f"nothing, --text {name[:SHOWN]} if the column holds names"
        )
        raise ProblemError(f"{source}, line {line}, {name[:SHOWN]}: {short(cell)} is not a finite number; {fix}")


class Gathered:
    """A column as it is read, cell by cell.

    Parameters
    ----------
    kind : {"number", "text"}
    name : str
    most : int or None
        Different texts at most.
    """

    def __init__(self, kind: str, name: str, most: int | None) -> None:
        self.name, self.most = name, most
        self.values = array("d") if kind == "number" else None
        self.codes, self.words = array("i"), dict[str, int]()

    def add(self, cell: str, place: str, cells: Cells) -> None:
        """Take in a stripped cell."""
        missing = cell in cells.missing
        if self.values is not None:
            value = np.nan if missing else cells.number(cell)
            if value is None:
                raise ProblemError(f"{place}, {self.name[:SHOWN]}: {short(cell)} is not a finite number")
            self.values.append(value)
        elif missing:
            self.codes.append(-1)
        else:
            self.codes.append(self.words.setdefault(cell, len(self.words)))
            if self.most is not None and len(self.words) > self.most:
                raise ProblemError(
                    f"{place}, {self.name[:SHOWN]}: {short(cell)} is the {len(self.words)}th different text of this "
                    f"column; leave it out: --drop {self.name[:SHOWN]}"
                )

    def add_all(self, cells: Iterable[str | float | None], places: Iterable[str], form: Cells) -> None:
        """Take in many."""
        for cell, place in zip(cells, places, strict=True):
            self.add("" if cell is None else str(cell).strip(), place, form)

    def column(self) -> object:
        """All of it: an array of float64, or `Words`."""
        if self.values is not None:
            return np.frombuffer(self.values, dtype=float) if self.values else np.empty(0)
        codes = np.frombuffer(self.codes, dtype=np.int32) if self.codes else np.empty(0, np.int32)
        words = np.empty(len(self.words), dtype=object)
        words[:] = list(self.words)
        return Words(codes, words)
