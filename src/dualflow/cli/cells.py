"""What a cell of a text file is: nothing, a number, a number in a writing that is not plain, a date, or text."""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import isfinite, nan

import numpy as np

from ..exceptions import ProblemError
from .table import CLASSES, MISSING, SHOWN, Words, short

__all__ = ["GAPS", "MAX_WORDS", "THOUSANDS", "Cells", "Gathered", "Tally", "is_gap", "number"]

#: Different texts of a column of features: more are names of its rows, not kinds of them.
MAX_WORDS = 1000
# What stands for nothing among numbers, in any case; among texts each is a text like others.
_SIGNS = ("-", "--", "---", "–", "—", ".", "..", "…")
_WORDS = ("n.d.", "n.d", "nd", "n/d", "n.a.", "n.a", "na", "n/a", "nan", "-nan", "nil", "null", "none", "missing")
_ERRORS = ("#n/a", "#n/v", "#div/0!", "#value!", "#ref!", "#num!", "#name?", "#null!", "1.#qnan", "1.#ind", "-1.#ind")
GAPS = frozenset((*_SIGNS, *_WORDS, *_ERRORS))
#: What may stand between groups of three digits, by the name of its option.
THOUSANDS = {",": ",", ".": ".", "'": "'’", "space": " \u00a0\u2007\u2009\u202f"}
# Shared by the columns without strange cells, which may be many: none of them has a dictionary of its own.
_NONE: dict[str, int] = {}
#: Different cells of a kind that an error shows.
_EXAMPLES = 3
#: Characters from which a cell is text without a look.
_LONGEST = 400

# \d is a digit of any script here: the cell is meant as a number, although files do not write it like this.
_DIGITS = r"(\d{1,3}([,.'’ \u00a0\u2007\u2009\u202f]\d{3})+|\d+(_\d+)*)([.,]\d*)?|[.,]\d+"
_FIGURE = re.compile(rf"[(]?[+\-−–]?\s*({_DIGITS})([eEdD][+\-−]?\d+)?\s*[%‰]?[)]?-?")
_ENDLESS = re.compile(r"[+\-−]?(inf|infinity|∞|1\.#inf)|0x[0-9a-f]+", re.IGNORECASE)
_DECIMAL_COMMA = re.compile(r"[+-]?\d*,\d+([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(
    r"(\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d\d))([T ]\d{1,2}:\d\d(:\d\d([.,]\d+)?)?)?"
    r"(\s?([AP]M|Z|UTC|[+-]\d\d:?\d\d))?|\d{1,2}:\d\d(:\d\d([.,]\d+)?)?",
    re.ASCII | re.IGNORECASE,
)


def number(cell: str) -> float | None:
    """The finite number that a cell is as files write it; Python's own takes "1_000" and digits of any script, too."""
    try:
        value = float(cell) if cell.isascii() and "_" not in cell else None
    except ValueError:
        return None
    return value if value is not None and isfinite(value) else None


@lru_cache(maxsize=256)
def _grouped(separators: str, decimal: str) -> re.Pattern[str]:
    """Numbers whose digits stand in groups of three."""
    return re.compile(rf"[+-]?[1-9]\d{{0,2}}([{re.escape(separators)}]\d{{3}})+({re.escape(decimal)}\d*)?", re.ASCII)


@dataclass(frozen=True)
class Cells:
    """How cells are written.

    Parameters
    ----------
    decimal : {".", ","}
    missing : tuple of str
        What stands for nothing.
    thousands : {",", ".", "'", "space", None}
        What stands between groups of three digits: a key of `THOUSANDS`; None is nothing.
    """

    decimal: str = "."
    missing: tuple[str, ...] = MISSING
    thousands: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_missing", frozenset(self.missing))
        object.__setattr__(self, "_is_plain", self.decimal == "." and self.thousands is None)

    def is_missing(self, cell: str) -> bool:
        """Whether a stripped cell stands for nothing, whatever its column holds."""
        return cell in self._missing  # type: ignore[attr-defined]

    def label(self, cell: str) -> str:
        """A stripped cell as a label, "" if there is none; a class may be called None."""
        return "" if self.is_missing(cell) and cell not in CLASSES else cell

    def value(self, cell: str) -> float | None:
        """The number that a stripped cell is: NaN if it stands for nothing, None if it is something else."""
        if cell in self._missing:  # type: ignore[attr-defined]
            return nan
        return number(cell if self._is_plain else self.plain(cell))  # type: ignore[attr-defined]

    def values(self, cells: list[str]) -> list[float] | None:
        """The numbers that stripped cells are, as `value` says, if all are numbers; None where one may be none."""
        if not (self._is_plain and self._missing.isdisjoint(cells)):  # type: ignore[attr-defined]
            return None
        text = "".join(cells)
        if not text.isascii() or "_" in text:
            return None
        try:
            values = list(map(float, cells))
        except ValueError:
            return None
        return values if all(map(isfinite, values)) else None

    def number(self, cell: str) -> float | None:
        """The number that a stripped cell is, whatever stands for nothing."""
        return number(self.plain(cell))

    def plain(self, cell: str) -> str:
        """A stripped cell with a decimal point and no separators of thousands, "" if it is no such number."""
        if self.thousands is not None:
            separators = THOUSANDS[self.thousands]
            if _grouped(separators, self.decimal).fullmatch(cell):
                cell = cell.translate({ord(separator): None for separator in separators})
        if self.decimal == ",":
            return cell.replace(",", ".", 1) if "." not in cell else ""
        return cell

    def advice(self, cells: Iterable[str], others: int) -> str | None:
        """The option that reads cells which are no plain numbers, if there is one; ``others`` of their column are."""
        found = list(cells)
        for option, separators in THOUSANDS.items():
            for decimal in (d for d in ".," if d != option):
                if not all(_grouped(separators, decimal).fullmatch(cell) for cell in found):
                    continue
                needed = decimal != self.decimal and (option == self.decimal or any(decimal in cell for cell in found))
                bare = found[0].translate({ord(separator): None for separator in separators}).replace(decimal, ".")
                reads = f'--thousands "{option}"{f" --decimal {decimal}" if needed else ""} reads it as {bare}'
                if option == "," and not others and all(_DECIMAL_COMMA.fullmatch(cell) for cell in found):
                    return f"{reads}, --decimal , as {found[0].replace(',', '.')}"
                return reads
        if self.decimal == "." and all(_DECIMAL_COMMA.fullmatch(cell) for cell in found):
            return "if that is a decimal comma, add --decimal ,"
        return None


def is_gap(cell: str) -> bool:
    """Whether a stripped cell stands for nothing among numbers."""
    return cell.casefold() in GAPS


def _meaning(cell: str) -> str:
    """What a stripped cell that is no plain number is meant as: "gap", "date", "figure" or "text"."""
    return "text" if len(cell) > _LONGEST else _short_meaning(cell)


@lru_cache(maxsize=1 << 12)
def _short_meaning(cell: str) -> str:
    # A figure is a number in another writing: with signs of currencies and per cent, separators, digits of any script.
    if is_gap(cell):
        return "gap"
    if _DATE.fullmatch(cell):
        return "date"
    bare = "".join(c for c in cell if unicodedata.category(c) != "Sc").strip()
    return "figure" if _FIGURE.fullmatch(bare) or _ENDLESS.fullmatch(bare) else "text"


class Tally:
    """Of what kinds the cells of a column are, and the first of them that are not plain numbers."""

    __slots__ = ("again", "date", "dates", "figures", "gaps", "numbers", "strange", "texts", "words")

    def __init__(self) -> None:
        self.numbers = self.figures = self.dates = self.texts = self.gaps = 0
        self.date: tuple[str, int] | None = None  # the first one, and its line
        self.again = False  # whether the first line's cell is there again
        # The first figures, and the first dates and texts, that are different, each with its line.
        self.strange = self.words = _NONE

    def add(self, cell: str, line: int, cells: Cells) -> None:
        """Count a stripped cell."""
        if (value := cells.value(cell)) is not None:
            self.numbers += value == value
            return
        meaning = _meaning(cell)
        if meaning == "gap":
            self.gaps += 1
            return
        if meaning == "figure":
            self.figures += 1
        elif meaning == "date":
            self.dates += 1
            self.date = self.date or (cell, line)
        else:
            self.texts += 1
        if meaning == "figure":
            kept = self.strange = self.strange or {}
        else:
            kept = self.words = self.words or {}
        if len(kept) < _EXAMPLES:
            kept.setdefault(cell, line)

    @property
    def blank(self) -> bool:
        """Whether there is nothing in it."""
        return not (self.numbers or self.figures or self.dates or self.texts or self.gaps)

    @property
    def numeric(self) -> bool:
        """Whether it is meant to hold numbers, with gaps and mistakes at most."""
        figures, texts = self.numbers + self.figures, self.dates + self.texts
        return figures > 0 and (figures >= texts or (figures > 1 and len(self.words) == 1))

    def kind(self, name: str, source: str, cells: Cells, notes: list[str], unit: str = "line") -> str:
        """ "number" or "text"; ``notes`` gets a sentence on numbers that are taken as text.

        Raises
        ------
        ProblemError
            It holds numbers and others that are none, or dates: the message shows cells and the options.
        """
        shown, figures = name[:SHOWN], self.numbers + self.figures
        if self.date is not None and self.dates >= figures + self.texts:
            cell, line = self.date
            raise ProblemError(
                f"{source}, {unit} {line}, {shown}: {short(cell)} is a date or a time, and models take "
                "numbers; write what matters of it as numbers (days since a day, the month), leave the column out: "
                f"--drop {shown}, or take its texts as names: --text {shown}"
            )
        if not (figures or self.dates or self.texts):
            return "number"  # gaps at most
        if not self.numeric:
            if figures:
                rest = self.dates + self.texts + self.gaps
                notes.append(f"Column {shown}: {figures} of {figures + rest} cells are numbers; it is taken as text.")
            return "text"
        if not (wrong := {**self.strange, **self.words}):
            return "number"
        those = ", ".join(map(short, list(wrong)[:_EXAMPLES]))
        verb = "is not a finite number" if len(wrong) == 1 else "are not finite numbers"
        fix = None if self.words else cells.advice(self.strange, self.numbers)
        if fix is None:
            fix = (
                f"{self.numbers} others of this column are. Mend it, or say --missing {next(iter(wrong))[:SHOWN]} if "
                f"it stands for nothing, --text {shown} if the column holds names"
            )
        raise ProblemError(f"{source}, {unit} {min(wrong.values())}, {shown}: {those} {verb}; {fix}")


class Gathered:
    """A column as it is read, cell by cell.

    Parameters
    ----------
    kind : {"number", "text"}
    name : str
    most : int or None
        Different texts at most.
    """

    __slots__ = ("codes", "gaps", "most", "name", "values", "words")

    def __init__(self, kind: str, name: str, most: int | None) -> None:
        self.name, self.most = name, most
        self.values = array("d") if kind == "number" else None
        self.gaps = _NONE
        if self.values is None:
            self.codes, self.words = array("i"), dict[str, int]()

    def add(self, cell: str, place: str, cells: Cells) -> None:
        """Take in a stripped cell of a ``place``."""
        if self.values is not None:
            value = cells.value(cell)
            if value is None and is_gap(cell):
                self.gaps = self.gaps or {}
                self.gaps[cell] = self.gaps.get(cell, 0) + 1
                value = nan
            if value is None:
                fix = cells.advice([cell], 0)
                raise ProblemError(
                    f"{place}, {self.name[:SHOWN]}: {short(cell)} is not a finite number{f'; {fix}' if fix else ''}"
                )
            self.values.append(value)
        elif cells.is_missing(cell):
            self.codes.append(-1)
        else:
            self.codes.append(self.words.setdefault(cell, len(self.words)))
            if self.most is not None and len(self.words) > self.most:
                raise ProblemError(
                    f"{place}, {self.name[:SHOWN]}: {short(cell)} is the {len(self.words)}th different text of this "
                    f"column; leave it out: --drop {self.name[:SHOWN]}"
                )

    @property
    def notes(self) -> list[str]:
        """A sentence on cells among numbers that are taken as missing, if there are any."""
        if not self.gaps:
            return []
        those = ", ".join(f"{short(cell)} ({count})" for cell, count in list(self.gaps.items())[:_EXAMPLES])
        more = ", …" if len(self.gaps) > _EXAMPLES else ""
        return [f"Column {self.name[:SHOWN]} holds numbers; missing in it: {those}{more}."]

    def column(self) -> object:
        """All of it: an array of float64, or `Words`."""
        if self.values is not None:
            return np.frombuffer(self.values, dtype=float) if self.values else np.empty(0)
        codes = np.frombuffer(self.codes, dtype=np.int32) if self.codes else np.empty(0, np.int32)
        words = np.empty(len(self.words), dtype=object)
        words[:] = list(self.words)
        return Words(codes, words)
