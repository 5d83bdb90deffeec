"""Classify the cells of a text file: missing, a plain number, a number in another notation, a date, or text."""

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
from .table import CLASS_TEXTS, MISSING_TEXTS, SHOWN_CHARS, TextColumn, shortened

#: Maximum number of different texts in a feature column; with more, these are no categories.
MAX_COLUMN_TEXTS = 1000
# Cells that mean a missing value in a column of numbers, in upper or lower case. In a column of text they are texts.
_GAP_SIGNS = ("-", "--", "---", "–", "—", ".", "..", "…")
_GAP_WORDS = ("n.d.", "n.d", "nd", "n/d", "n.a.", "n.a", "na", "n/a", "nan", "-nan", "nil", "null", "none", "missing")
_SPREADSHEET_ERRORS = (
    "#n/a",
    "#n/v",
    "#div/0!",
    "#value!",
    "#ref!",
    "#num!",
    "#name?",
    "#null!",
    "1.#qnan",
    "1.#ind",
    "-1.#ind",
)
GAP_TEXTS = frozenset((*_GAP_SIGNS, *_GAP_WORDS, *_SPREADSHEET_ERRORS))
#: Characters that may separate groups of three digits, by the value of --thousands.
THOUSANDS = {",": ",", ".": ".", "'": "'’", "space": " \u00a0\u2007\u2009\u202f"}
# An empty dictionary that all columns without unusual cells share, to save memory.
_EMPTY: dict[str, int] = {}
#: Different cells of a column that a message shows.
_MAX_EXAMPLES = 3
#: In a table of more rows, a column whose texts are all different names the rows.
MAX_ROWS_ALL_DIFFERENT = 20
# Names of columns that hold identifiers, at the end of the name.
_IDENTIFIER = re.compile(r"((^|[\W_])(id|nr|uuid)|[a-z](Id|ID|Nr))$|^(Id|ID|Nr|NR)$")
# Names of columns that may hold identifiers, or quantities (a price index).
_MAYBE_IDENTIFIER = re.compile(r"(^|[\W_])(key|index)$")
#: A cell of more characters is text; the patterns below are not tried.
_MAX_NUMBER_CHARS = 400

# \d matches the digits of any script: such a cell is meant as a number, but it is not a plain one.
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
    """Return the finite number that a cell holds, or None.

    Only ASCII digits without "_" count: ``float`` alone would accept "1_000" and the digits of any script.
    """
    try:
        value = float(cell) if cell.isascii() and "_" not in cell else None
    except ValueError:
        return None
    return value if value is not None and isfinite(value) else None


@lru_cache(maxsize=256)
def _grouped(separators: str, decimal: str) -> re.Pattern[str]:
    """Return a pattern for numbers with digits in groups of three."""
    return re.compile(rf"[+-]?[1-9]\d{{0,2}}([{re.escape(separators)}]\d{{3}})+({re.escape(decimal)}\d*)?", re.ASCII)


@dataclass(frozen=True)
class CellFormat:
    """The notation of cells: the decimal point, missing values, and the separator of thousands."""

    decimal: str = "."
    missing: tuple[str, ...] = MISSING_TEXTS  # cells that mean a missing value
    #: Separator of groups of three digits, a key of `THOUSANDS`; None if there is none; {",", ".", "'", "space", None}.
    thousands: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "_missing", frozenset(self.missing))
        object.__setattr__(self, "_is_plain", self.decimal == "." and self.thousands is None)

    def is_missing(self, cell: str) -> bool:
        """Return whether a stripped cell is missing in a column of any kind."""
        return cell in self._missing  # type: ignore[attr-defined]

    def label(self, cell: str) -> str:
        """Return a stripped cell as a label, "" if it is missing; a class may be called "None"."""
        return "" if self.is_missing(cell) and cell not in CLASS_TEXTS else cell

    def value(self, cell: str) -> float | None:
        """Return the number in a stripped cell: NaN if the cell is missing, None if it is not a number."""
        if cell in self._missing:  # type: ignore[attr-defined]
            return nan
        return number(cell if self._is_plain else self.plain(cell))  # type: ignore[attr-defined]

    def values(self, cells: list[str]) -> list[float] | None:
        """Return the numbers in stripped cells, or None if one of them may not be a plain number."""
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
        """Return the number in a stripped cell, or None; missing values are not considered."""
        return number(self.plain(cell))

    def plain(self, cell: str) -> str:
        """Return a stripped cell with a decimal point and without separators of thousands, "" if that is impossible."""
        if self.thousands is not None:
            separators = THOUSANDS[self.thousands]
            if _grouped(separators, self.decimal).fullmatch(cell):
                cell = cell.translate({ord(separator): None for separator in separators})
        if self.decimal == ",":
            return cell.replace(",", ".", 1) if "." not in cell else ""
        return cell

    def advice(self, cells: Iterable[str], others: int) -> str | None:
        """Return a sentence on the option that reads these cells as numbers, or None if there is none.

        ``others`` is the number of plain numbers in their column.
        """
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
    """Return whether a stripped cell means a missing value in a column of numbers."""
    return cell.casefold() in GAP_TEXTS


def _meaning(cell: str) -> str:
    """Return what a stripped cell that is not a plain number means: "gap", "date", "figure" or "text".

    A figure is a number in another notation: with a currency, a per cent sign, separators, or digits of any script.
    """
    return "text" if len(cell) > _MAX_NUMBER_CHARS else _meaning_of_short(cell)


@lru_cache(maxsize=1 << 12)
def _meaning_of_short(cell: str) -> str:
    if is_gap(cell):
        return "gap"
    if _DATE.fullmatch(cell):
        return "date"
    bare = "".join(c for c in cell if unicodedata.category(c) != "Sc").strip()
    return "figure" if _FIGURE.fullmatch(bare) or _ENDLESS.fullmatch(bare) else "text"


class UnusableColumnError(ProblemError):
    """A column that no feature can be made of.

    Attributes
    ----------
    column : str
        Its name.
    what : str
        A few words on its cells.
    fix : str or None
        The option that reads its cells as numbers, if there is one.
    """

    def __init__(self, message: str, column: str = "", what: str = "", fix: str | None = None) -> None:
        super().__init__(message)
        self.column, self.what, self.fix = column, what, fix


def raise_unusable(faults: list[UnusableColumnError], source: str) -> None:
    """Raise one error for all columns that no feature can be made of, if there are any."""
    if not faults:
        return
    if len(faults) == 1 or (faults[0].fix is not None and len({fault.fix for fault in faults}) == 1):
        raise faults[0]  # one column, or one option that reads them all
    shown = ", ".join(f"{fault.column[:SHOWN_CHARS]} ({fault.what})" for fault in faults)
    fixes: dict[str, list[str]] = {}
    for fault in faults:
        if fault.fix is not None:
            fixes.setdefault(fault.fix, []).append(fault.column[:SHOWN_CHARS])
    drop = " ".join(f"--drop {quoted(fault.column[:SHOWN_CHARS])}" for fault in faults if fault.fix is None)
    advice = [f"{', '.join(names)}: {fix}" for fix, names in fixes.items()]
    if drop:
        leave = (
            f"Leave columns out with {drop}; or correct the cells, write dates as numbers, read categories with --text"
        )
        advice.insert(0, leave)
    raise ProblemError(f"{source}: {len(faults)} columns are not features: {shown}. {'. '.join(advice)}")


def quoted(name: str) -> str:
    """Return a column's name as a shell takes it."""
    return f'"{name}"' if re.search(r"[^\w.-]", name) else name


def names_rows(name: str, column: object) -> bool:
    """Whether a feature column only names its rows: a different text in each, or different numbers called an id."""
    if isinstance(column, TextColumn):
        known = column.codes[column.codes >= 0]
        return len(known) > MAX_ROWS_ALL_DIFFERENT and len(np.unique(known)) == len(known)
    return isinstance(column, np.ndarray) and _IDENTIFIER.search(name) is not None and _are_different(column)


def row_number_note(names: list[str], columns: list[object]) -> list[str]:
    """Return a sentence on all number columns that may be numbers of rows, and are features, if there are any."""
    found = [
        name[:SHOWN_CHARS]
        for name, column in zip(names, columns, strict=True)
        if isinstance(column, np.ndarray) and not names_rows(name, column) and _may_number_rows(name, column)
    ]
    if not found:
        return []
    one = len(found) == 1
    drop = " ".join(f"--drop {quoted(name)}" for name in found)
    return [
        f"Column{'' if one else 's'} {', '.join(found)} look{'s' if one else ''} like the number of a row or a person, "
        f"from which a model learns nothing for new rows; {drop} leaves {'it' if one else 'them'} out."
    ]


def _may_number_rows(name: str, values: np.ndarray) -> bool:
    """Whether whole numbers, all different, have a name that an identifier may have, or count the rows from 0 or 1."""
    if not _are_different(values):
        return False
    counts_rows = values[0] in (0.0, 1.0) and bool((np.diff(values) == 1.0).all())
    return counts_rows or _MAYBE_IDENTIFIER.search(name) is not None


def _are_different(values: np.ndarray) -> bool:
    """Whether the values of more than a few rows are whole numbers, all different; NaN is no whole number."""
    is_whole = len(values) > MAX_ROWS_ALL_DIFFERENT and np.array_equal(values, np.rint(values))
    return is_whole and len(np.unique(values)) == len(values)


class CellCounts:
    """Counts of the kinds of cells in a column, and the first cells that are not plain numbers."""

    __slots__ = (
        "date",
        "dates",
        "figures",
        "first_figures",
        "first_texts",
        "gaps",
        "numbers",
        "repeats_header",
        "texts",
    )

    def __init__(self) -> None:
        self.numbers = self.figures = self.dates = self.texts = self.gaps = 0
        self.date: tuple[str, int] | None = None  # the first date, and its line
        self.repeats_header = False  # whether a cell repeats that of the first line
        # The first different figures, and the first different dates and texts, each with its line.
        self.first_figures = self.first_texts = _EMPTY

    def add(self, cell: str, line: int, cells: CellFormat) -> None:
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
            kept = self.first_figures = self.first_figures or {}
        else:
            kept = self.first_texts = self.first_texts or {}
        if len(kept) < _MAX_EXAMPLES:
            kept.setdefault(cell, line)

    @property
    def blank(self) -> bool:
        """Whether the column has no cell that counts."""
        return not (self.numbers or self.figures or self.dates or self.texts or self.gaps)

    @property
    def numeric(self) -> bool:
        """Whether the column is meant to hold numbers, apart from gaps and mistakes."""
        figures, texts = self.numbers + self.figures, self.dates + self.texts
        return figures > 0 and (figures >= texts or (figures > 1 and len(self.first_texts) == 1))

    def kind(self, name: str, source: str, cells: CellFormat, notes: list[str], unit: str = "line") -> str:
        """Return "number" or "text"; a sentence is added to ``notes`` if numbers are read as text.

        Raises
        ------
        UnusableColumnError
            The column mixes numbers and other cells, or holds dates; the message shows cells and options.
        """
        shown, figures = name[:SHOWN_CHARS], self.numbers + self.figures
        if self.date is not None and self.dates >= figures + self.texts:
            cell, line = self.date
            raise UnusableColumnError(
                f"{source}, {unit} {line}, {shown}: {shortened(cell)} is a date or a time, and models need numbers. "
                "Convert it to numbers (days since a date, or the month), leave the column out with --drop "
                f"{quoted(shown)}, or read it as categories with --text {quoted(shown)}",
                name,
                f"dates or times, such as {shortened(cell)}",
            )
        if not (figures or self.dates or self.texts):
            return "number"  # it has only gaps
        if not self.numeric:
            if figures:
                rest = self.dates + self.texts + self.gaps
                notes.append(f"Column {shown}: {figures} of {figures + rest} cells are numbers; it is read as text.")
            return "text"
        if not (wrong := {**self.first_figures, **self.first_texts}):
            return "number"
        those = ", ".join(map(shortened, list(wrong)[:_MAX_EXAMPLES]))
        verb = "is not a finite number" if len(wrong) == 1 else "are not finite numbers"
        fix = None if self.first_texts else cells.advice(self.first_figures, self.numbers)
        advice = fix
        if advice is None:
            advice = (
                f"{self.numbers} other cell{' is' if self.numbers == 1 else 's are'}. Correct it, or add --missing "
                f"{quoted(next(iter(wrong))[:SHOWN_CHARS])} if it means a missing value, or --text {quoted(shown)} if "
                "the column holds names"
            )
        line = min(wrong.values())
        raise UnusableColumnError(
            f"{source}, {unit} {line}, {shown}: {those} {verb}; {advice}", name, f"{unit} {line}: {those} {verb}", fix
        )


class ColumnBuilder:
    """A column that is built cell by cell.

    Parameters
    ----------
    kind : {"number", "text"}
    name : str
    max_texts : int or None
        Maximum number of different texts, unless no text is repeated; None if there is no limit.
    """

    __slots__ = ("codes", "fault", "gaps", "known", "max_texts", "name", "values", "words")

    def __init__(self, kind: str, name: str, max_texts: int | None) -> None:
        self.name, self.max_texts = name, max_texts
        self.values = array("d") if kind == "number" else None
        self.gaps = _EMPTY
        self.fault: UnusableColumnError | None = None
        if self.values is None:
            self.codes, self.words, self.known = array("i"), dict[str, int](), 0

    def add(self, cell: str, place: str, cells: CellFormat) -> None:
        """Add a stripped cell; ``place`` says where it is, for messages. More texts than allowed set ``fault``."""
        if self.values is not None:
            value = cells.value(cell)
            if value is None and is_gap(cell):
                self.gaps = self.gaps or {}
                self.gaps[cell] = self.gaps.get(cell, 0) + 1
                value = nan
            if value is None:
                fix = cells.advice([cell], 0)
                raise ProblemError(
                    f"{place}, {self.name[:SHOWN_CHARS]}: {shortened(cell)} is not a finite number"
                    f"{f'; {fix}' if fix else ''}"
                )
            self.values.append(value)
        elif cells.is_missing(cell) or (self.fault is not None and len(self.words) > MAX_COLUMN_TEXTS):
            self.codes.append(-1)
        else:
            self.codes.append(self.words.setdefault(cell, len(self.words)))
            self.known += 1
            # Without a repeated text the column names the rows, and is left out later.
            if self.max_texts is not None and self.max_texts < len(self.words) < self.known:
                self.fault = self.fault or UnusableColumnError(
                    f"{place}, {self.name[:SHOWN_CHARS]}: up to {shortened(cell)} there are more than the "
                    f"{self.max_texts} texts that a column of categories may have; leave the column out with --drop "
                    f"{self.name[:SHOWN_CHARS]}",
                    self.name,
                    f"more than {self.max_texts} different texts",
                )

    @property
    def notes(self) -> list[str]:
        """A sentence on the cells of a number column that are read as missing, if there are any."""
        if not self.gaps:
            return []
        those = ", ".join(f"{shortened(cell)} ({count})" for cell, count in list(self.gaps.items())[:_MAX_EXAMPLES])
        more = ", …" if len(self.gaps) > _MAX_EXAMPLES else ""
        return [f"Column {self.name[:SHOWN_CHARS]} holds numbers; these cells are read as missing: {those}{more}."]

    def column(self) -> object:
        """Return the column: an array of float64, or a `TextColumn`."""
        if self.values is not None:
            return np.frombuffer(self.values, dtype=float) if self.values else np.empty(0)
        codes = np.frombuffer(self.codes, dtype=np.int32) if self.codes else np.empty(0, np.int32)
        words = np.empty(len(self.words), dtype=object)
        words[:] = list(self.words)
        return TextColumn(codes, words)
