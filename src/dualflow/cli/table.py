"""Tables read from files, and the choice of a file's columns."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError, did_you_mean

#: Stripped cells that mean a missing value.
MISSING_TEXTS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "<NA>", "?")
#: Those of `MISSING_TEXTS` that are classes in a label column.
CLASS_TEXTS = ("NULL", "null", "None", "?")
#: Characters of a cell or a name that a message shows.
SHOWN_CHARS = 40
#: Reason in `ChosenColumns.unused` of a column that names the rows.
LEFT_OUT = "left out in training"
#: Columns with gaps that a message names at most.
MAX_NAMED_GAPS = 6

# The name that pandas gives to a column without one (an index that was written to CSV and read again, for example).
_NAMELESS = re.compile(r"(Unnamed: \d+(_level_\d+)?(\.\d+)*)?")
# The name that pandas gives to an index in parquet.
_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class TextColumn:
    """A column of text: row k holds ``words[codes[k]]``, or a missing value where the code is −1."""

    codes: NDArray
    words: NDArray


@dataclass(frozen=True)
class ChosenColumns:
    """The columns of a file that make up a table."""

    places: list[int]  # positions of the feature columns, from 0
    names: list[str]  # names of the feature columns
    #: Kinds of the feature columns; None means that the cells decide; list of {"number", "text", None}.
    kinds: list[str | None]
    label: int | None  # position of the label column
    label_name: str | None
    notes: tuple[str, ...] = ()  # sentences for the user
    kept: tuple[str, ...] = ()  # names of the feature columns that stay even if they look like names of rows
    #: id, id_name: position and name of the column that names the rows of a result; it may be a feature, too; int and
    #: str, or None.
    id: int | None = None
    id_name: str | None = None
    #: Names of the columns that are neither features nor the label, each with the reason.
    unused: tuple[tuple[str, str], ...] = ()


class ColumnChooser(Protocol):
    """Chooses the columns of a file: by the user's options, or by a model's training table."""

    def header(self, first: list[str]) -> bool | None:
        """Return whether the first line is a header; None if the rest of the file decides."""

    def chosen(self, names: list[str], named: bool, blank: set[int], index: set[int], source: str) -> ChosenColumns:
        """Return the chosen columns of a file.

        Parameters
        ----------
        names : list of str
            All columns of the file.
        named : bool
            Whether the file names its columns.
        blank, index : set of int
            Positions of the columns without any cell, and of those that are an index.
        source : str
            The file, for messages.
        """


@dataclass(frozen=True)
class RequestedColumns:
    """The columns of a training table, chosen by the user's options."""

    label: str | None = None  # name of the label column, or its number from 1; None is the last column, if ``labelled``
    labelled: bool = True  # whether the table has a label column
    drop: tuple[str, ...] = ()  # columns to leave out
    text: tuple[str, ...] = ()  # columns whose numbers are names
    keep: tuple[str, ...] = ()  # columns that are features although they look like names of rows

    def header(self, first: list[str]) -> bool | None:
        named = (*self.drop, *self.text, *self.keep, *(() if self.label is None else (self.label,)))
        named = tuple(part.strip() for word in named for part in (word, *word.split(",")))
        # A word that may be a column's number does not show that the first line has names.
        return True if any(word in first and not _is_number_from_1(word, len(first)) for word in named) else None

    def chosen(self, names: list[str], named: bool, blank: set[int], index: set[int], source: str) -> ChosenColumns:
        dropped = _positions(self.drop, names, source, "--drop")
        text = _positions(self.text, names, source, "--text")
        kept = _positions(self.keep, names, source, "--keep")
        label = None if self.label is None else column_position(self.label, names, source, "--label")
        index = index - dropped - text - kept - blank - {label}
        notes = index_notes(names, index)
        left = [k for k in range(len(names)) if k not in dropped and k not in blank and k not in index]
        if label is None and self.labelled and left:
            label = left[-1]
        places = [k for k in left if k != label]
        if not places:
            wanted = "at least one feature and a label are" if self.labelled else "at least one feature is"
            raise ProblemError(
                f"{source} has a single column; {wanted} needed. If its cells are not separated as expected, name "
                "their separator with --delimiter" + "".join(f". {note}" for note in notes)
            )
        kinds: list[str | None] = ["text" if k in text else None for k in places]
        apart = unique_names(names)
        named_label = None if label is None else apart[label]
        named_kept = tuple(apart[k] for k in places if k in kept)
        unused = [*((apart[k], "--drop") for k in sorted(dropped)), *((apart[k], "empty in training") for k in blank)]
        return ChosenColumns(
            places, [apart[k] for k in places], kinds, label, named_label, notes, named_kept, unused=tuple(unused)
        )


@dataclass(frozen=True)
class Table:
    """The chosen columns of a file, before they are encoded."""

    source: str
    named: bool  # whether the file names its columns
    width: int  # columns of the file
    chosen: ChosenColumns
    columns: list[Any]  # numbers are finite, or NaN where a cell is missing; list of (array of float64 or Words)
    labels: list[str] | None  # the labels as the file writes them
    where: NDArray  # the line in which each row ends, or its row number; ``unit`` says which; int array of shape (n,)
    unit: str = "line"  # {"line", "row"}
    notes: list[str] = field(default_factory=list)  # sentences for the user
    ids: list[str] | None = None  # the cells of the column of ids as the file writes them

    def __len__(self) -> int:
        return len(self.where)

    def take(self, rows: NDArray) -> Table:
        """Return the table of these rows only."""
        columns = [TextColumn(c.codes[rows], c.words) if isinstance(c, TextColumn) else c[rows] for c in self.columns]
        labels = None if self.labels is None else [self.labels[row] for row in rows.tolist()]
        ids = None if self.ids is None else [self.ids[row] for row in rows.tolist()]
        return replace(self, columns=columns, labels=labels, where=self.where[rows], ids=ids)

    def without(self, dropped: Collection[str]) -> Table:
        """Return the table without the feature columns of these names, which `ChosenColumns.unused` then lists."""
        left = [k for k, name in enumerate(self.chosen.names) if name not in dropped]
        places, names = [self.chosen.places[k] for k in left], [self.chosen.names[k] for k in left]
        unused = (*self.chosen.unused, *((name, LEFT_OUT) for name in dropped))
        kinds = [self.chosen.kinds[k] for k in left]
        chosen = replace(self.chosen, places=places, names=names, kinds=kinds, unused=unused)
        return replace(self, chosen=chosen, columns=[self.columns[k] for k in left])

    def place(self, row: int) -> str:
        """Return where a row is in the file, for messages."""
        return f"{self.source}, {self.unit} {self.where[row]}"

    @property
    def empty(self) -> NDArray:
        """Return which rows lack every feature, booleans of shape (n,)."""
        empty = np.ones(len(self), dtype=bool)
        for column in self.columns:
            empty &= column.codes < 0 if isinstance(column, TextColumn) else np.isnan(column)
            if not empty.any():
                break
        return empty

    def gaps(self) -> str | None:
        """Return how many cells of each feature column are missing; None if there are no such cells."""
        counts = [
            (name[:SHOWN_CHARS], int(np.sum(column.codes < 0 if isinstance(column, TextColumn) else np.isnan(column))))
            for name, column in zip(self.chosen.names, self.columns, strict=True)
        ]
        found = [f"{name} {count}" for name, count in counts if count]
        return ", ".join(found[:MAX_NAMED_GAPS]) + (", …" if len(found) > MAX_NAMED_GAPS else "") if found else None

    def filled(self) -> Table:
        """Return the table without the rows that lack every feature and the label; a note reports them."""
        empty = self.empty
        if self.labels is not None and empty.any():
            empty &= np.array([not label for label in self.labels])
        if not empty.any() or empty.all():
            return self
        rows = np.flatnonzero(empty)
        some = ", ".join(str(self.where[row]) for row in rows[:3]) + (", …" if len(rows) > 3 else "")
        table = self.take(np.flatnonzero(~empty))
        note = f"Empty rows are left out: {len(rows)}, {self.unit} {some}."
        return replace(table, notes=[*self.notes, note])


@dataclass(frozen=True)
class SparseTable:
    """The content of an svmlight file."""

    source: str
    X: Any  # CSR array of shape (n, m)
    labels: list[str]
    first: int  # index of the first feature in the file; {0, 1}

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray) -> SparseTable:
        """Return the table of these rows only."""
        return replace(self, X=self.X[rows], labels=[self.labels[row] for row in rows.tolist()])

    def place(self, row: int) -> str:
        """Return where a row is in the file, for messages."""
        return f"{self.source}, row {row + 1}"


def index_positions(names: list[str], declared: Collection[str] = ()) -> set[int]:
    """Return the positions of the columns that are the index of a data frame.

    These are the first columns as long as they have no name, and those that the file declares or names as an index.
    """
    index = {k for k, name in enumerate(names) if name in declared or _INDEX.fullmatch(name)}
    for k, name in enumerate(names):
        if k not in index and not _NAMELESS.fullmatch(name):
            break
        index.add(k)
    return index if len(index) < len(names) else set()


def column_position(word: str, names: list[str], source: str, option: str) -> int:
    """Return the position of the column that the user gives by its name or its number from 1."""
    if names.count(word) > 1:
        raise ProblemError(f"{source} has {names.count(word)} columns {word!r} for {option}; give its number, from 1")
    if word in names:
        return names.index(word)
    if _is_number_from_1(word, len(names)):
        return int(word) - 1
    shown = ", ".join(name[:SHOWN_CHARS] for name in names[:12]) + (", …" if len(names) > 12 else "")
    raise ProblemError(
        f"{source} has no column {shortened(word)} for {option}; its first line is {shown}{did_you_mean(word, names)}"
    )


def _positions(words: Collection[str], names: list[str], source: str, option: str) -> set[int]:
    """Return the positions of columns; a word that is no name may hold several, comma separated."""
    parts = [part.strip() for word in words for part in ([word] if word in names else word.split(","))]
    return {column_position(part, names, source, option) for part in parts}


def unique_names(names: list[str]) -> list[str]:
    """Return different names: an empty or repeated one gets a number."""
    given, found = set(names), dict[str, None]()
    for k, name in enumerate(names):
        wanted, number = name or f"column {k + 1}", 1
        while wanted in found or (wanted != name and wanted in given):
            number += 1
            wanted = f"{name or 'column'} ({number})"
        found[wanted] = None
    return list(found)


def index_notes(names: list[str], index: Collection[int]) -> tuple[str, ...]:
    """Return a sentence on the columns that are left out as an index, if there are any."""
    if not index:
        return ()
    some = [names[place][:SHOWN_CHARS] or f"{place + 1} (without a name)" for place in sorted(index)[:3]]
    if len(index) == 1:
        return (f"Column {some[0]} is left out as the index of a data frame; give it a name to keep it.",)
    shown = ", ".join(some) + (", …" if len(index) > len(some) else "")
    return (f"Columns {shown} are left out as the index of a data frame; give them names to keep them.",)


def shortened(cell: str) -> str:
    """Return a cell as messages show it: quoted, and cut at `SHOWN_CHARS`."""
    return repr(cell if len(cell) <= SHOWN_CHARS else cell[:SHOWN_CHARS] + "…")


def _is_number_from_1(word: str, n_columns: int) -> bool:
    # "²" is a digit for str.isdigit and an error for int, which also refuses strings of more than 4300 digits.
    return word.isascii() and word.isdigit() and len(word) < 10 and 1 <= int(word) <= n_columns
