"""A table as it was read, and which of a file's columns belong to it."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError, did_you_mean

__all__ = [
    "CLASSES",
    "MISSING",
    "SHOWN",
    "Asked",
    "Chooser",
    "Chosen",
    "Sparse",
    "Table",
    "Words",
    "index_notes",
    "index_of",
    "place_of",
    "short",
    "told_apart",
]

#: Cells that hold nothing, blanks around them taken off.
MISSING = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?")
#: Of these, what may be a class by its name.
CLASSES = ("NULL", "null", "None", "?")
#: Characters of a cell or a name that an error shows.
SHOWN = 40

# What pandas calls columns without a name, an index written along and read again say, and an index in parquet.
_NAMELESS = re.compile(r"(Unnamed: \d+(_level_\d+)?(\.\d+)*)?")
_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class Words:
    """A column of text: ``words[codes[row]]``, or nothing where the code is −1."""

    codes: NDArray
    words: NDArray


@dataclass(frozen=True)
class Chosen:
    """Columns of a file that make a table.

    Attributes
    ----------
    places : list of int
        Of the features, from 0.
    names : list of str
    kinds : list of {"number", "text", None}
        None: what its cells are.
    label : int or None
        Place of the labels.
    label_name : str or None
    notes : tuple of str
        What its user should know.
    """

    places: list[int]
    names: list[str]
    kinds: list[str | None]
    label: int | None
    label_name: str | None
    notes: tuple[str, ...] = ()


class Chooser(Protocol):
    """Who says which columns are wanted: the user, or a model that knows them."""

    def header(self, first: list[str]) -> bool | None:
        """Whether a first line is a header; None if the rest of the file has to tell."""

    def chosen(self, names: list[str], named: bool, blank: set[int], index: set[int], source: str) -> Chosen:
        """Which columns are wanted, of a file that has these, some of them blank from top to bottom, some an index."""


@dataclass(frozen=True)
class Asked:
    """Columns of a new table, as its user says.

    Parameters
    ----------
    label : str or None
        Name of the label column, or its number from 1; None is the last, if ``labelled``.
    labelled : bool
    drop, text : tuple of str
        Columns to leave out, and those whose numbers are names.
    """

    label: str | None = None
    labelled: bool = True
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()

    def header(self, first: list[str]) -> bool | None:
        named = (*self.drop, *self.text, *(() if self.label is None else (self.label,)))
        # A number from 1 says nothing of that kind.
        return True if any(word in first and not _is_number_from_1(word, len(first)) for word in named) else None

    def chosen(self, names: list[str], named: bool, blank: set[int], index: set[int], source: str) -> Chosen:
        dropped = {place_of(word, names, source, "--drop") for word in self.drop}
        text = {place_of(word, names, source, "--text") for word in self.text}
        label = None if self.label is None else place_of(self.label, names, source, "--label")
        index = index - dropped - text - blank - {label}
        notes = index_notes(names, index)
        left = [k for k in range(len(names)) if k not in dropped and k not in blank and k not in index]
        if label is None and self.labelled and left:
            label = left[-1]
        places = [k for k in left if k != label]
        if not places:
            wanted = "at least one feature and a label are" if self.labelled else "at least one feature is"
            raise ProblemError(
                f"{source} has a single column; {wanted} needed, and --delimiter says what is between"
                + "".join(f". {note}" for note in notes)
            )
        kinds: list[str | None] = ["text" if k in text else None for k in places]
        apart = told_apart(names)
        named_label = None if label is None else apart[label]
        return Chosen(places, [apart[k] for k in places], kinds, label, named_label, notes)


@dataclass(frozen=True)
class Table:
    """Columns of a file, before anything is made of them.

    Attributes
    ----------
    source : str
    named : bool
        Whether the file names its columns.
    width : int
        Columns of the file.
    chosen : Chosen
    columns : list of (array of float64 or Words)
        Numbers are finite, or NaN where there is none.
    labels : list of str or None
        As they are written.
    where : array of int
        Of each row, the line that it ends in (``unit`` says of what).
    """

    source: str
    named: bool
    width: int
    chosen: Chosen
    columns: list[Any]
    labels: list[str] | None
    where: NDArray
    unit: str = "line"
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.where)

    def take(self, rows: NDArray) -> Table:
        """Some of its rows."""
        columns = [Words(c.codes[rows], c.words) if isinstance(c, Words) else c[rows] for c in self.columns]
        labels = None if self.labels is None else [self.labels[row] for row in rows.tolist()]
        return replace(self, columns=columns, labels=labels, where=self.where[rows])

    def place(self, row: int) -> str:
        """Where a row is, for errors."""
        return f"{self.source}, {self.unit} {self.where[row]}"

    @property
    def empty(self) -> NDArray:
        """Which rows lack every feature, booleans of shape (n,)."""
        empty = np.ones(len(self), dtype=bool)
        for column in self.columns:
            empty &= column.codes < 0 if isinstance(column, Words) else np.isnan(column)
            if not empty.any():
                break
        return empty

    def filled(self) -> Table:
        """Without the rows that lack every feature and the label, of which the notes speak."""
        empty = self.empty
        if self.labels is not None and empty.any():
            empty &= np.array([not label for label in self.labels])
        if not empty.any() or empty.all():
            return self
        rows = np.flatnonzero(empty)
        some = ", ".join(str(self.where[row]) for row in rows[:3]) + (", …" if len(rows) > 3 else "")
        table = self.take(np.flatnonzero(~empty))
        note = f"Rows that hold nothing are left out: {len(rows)}, {self.unit} {some}."
        return replace(table, notes=[*self.notes, note])


@dataclass(frozen=True)
class Sparse:
    """What an svmlight file holds: X of shape (n, m) in CSR, and labels as text.

    ``first`` is the index of its first feature, 0 or 1.
    """

    source: str
    X: Any
    labels: list[str]
    first: int

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray) -> Sparse:
        """Some of its rows."""
        return replace(self, X=self.X[rows], labels=[self.labels[row] for row in rows.tolist()])

    def place(self, row: int) -> str:
        """Where a row is, for errors."""
        return f"{self.source}, row {row + 1}"


def index_of(names: list[str], declared: Collection[str] = ()) -> set[int]:
    """Places of the columns that are a frame's index, written along: the first ones as long as they have no name, and
    those that are ``declared``, or called, an index."""
    index = {k for k, name in enumerate(names) if name in declared or _INDEX.fullmatch(name)}
    for k, name in enumerate(names):
        if k not in index and not _NAMELESS.fullmatch(name):
            break
        index.add(k)
    return index if len(index) < len(names) else set()


def place_of(word: str, names: list[str], source: str, option: str) -> int:
    """The column that a user names by its name or its number from 1."""
    if names.count(word) > 1:
        raise ProblemError(f"{source} has {names.count(word)} columns {word!r} for {option}; give its number, from 1")
    if word in names:
        return names.index(word)
    if _is_number_from_1(word, len(names)):
        return int(word) - 1
    shown = ", ".join(name[:SHOWN] for name in names[:12]) + (", …" if len(names) > 12 else "")
    raise ProblemError(
        f"{source} has no column {short(word)} for {option}; its first line is {shown}{did_you_mean(word, names)}"
    )


def told_apart(names: list[str]) -> list[str]:
    """The names, those that are empty or there before with their number."""
    given, found = set(names), dict[str, None]()
    for k, name in enumerate(names):
        wanted, number = name or f"column {k + 1}", 1
        while wanted in found or (wanted != name and wanted in given):
            number += 1
            wanted = f"{name or 'column'} ({number})"
        found[wanted] = None
    return list(found)


def index_notes(names: list[str], index: Collection[int]) -> tuple[str, ...]:
    """A sentence on the columns that are left out as an index, if there are any."""
    if not index:
        return ()
    some = ", ".join(names[place][:SHOWN] or f"{place + 1}, without a name," for place in sorted(index)[:3])
    return (f"Column {some} is taken for the index of a frame, and left out; a name of its own keeps it.",)


def short(cell: str) -> str:
    """A cell as errors show it."""
    return repr(cell if len(cell) <= SHOWN else cell[:SHOWN] + "…")


def _is_number_from_1(word: str, most: int) -> bool:
    # Other digits than these, "²" say, are digits to str.isdigit and no number to int; of thousands, int makes none.
    return word.isascii() and word.isdigit() and len(word) < 10 and 1 <= int(word) <= most
