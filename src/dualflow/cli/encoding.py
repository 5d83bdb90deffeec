"""Encode the columns of a table as numbers, by scikit-learn's transformers, whose results are kept as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.runtime.memory import memory_bytes
from ..exceptions import ProblemError
from .cells import names_rows, quoted
from .table import SHOWN_CHARS, Table, TextColumn, shortened

#: Numbers of a table that are copied at a time (16 MB).
_MAX_PART_VALUES = 1 << 21


@dataclass(frozen=True)
class Column:
    """A feature column, and its encoding.

    Attributes
    ----------
    name : str
    place : int
        Position in the file, from 0.
    fill : float, str or None
        Replacement of a missing cell: the median or the most frequent text; None if a missing cell is an error.
    mean, scale : float
        A number x becomes (x − mean)/scale.
    categories : tuple of str or None
        The texts of a text column, in the order of their features; None for a number column.
    """

    name: str
    place: int
    fill: float | str | None = None
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """Number of features that the column becomes."""
        return 1 if self.categories is None else len(self.categories)


@dataclass(frozen=True)
class Encoding:
    """The encoding of a table: its rows become points.

    Number columns come first, then text columns with one feature for each of their texts.
    """

    columns: tuple[Column, ...]  # in the order of their features

    @property
    def features(self) -> list[str]:
        """Return the names of the features."""
        return [
            name
            for column in self.columns
            for name in (
                [column.name] if column.categories is None else [f"{column.name}={text}" for text in column.categories]
            )
        ]

    def transform(self, table: Table) -> tuple[NDArray, dict[str, dict[str, int]]]:
        """Return the points, shape (n, features), and the counts of the texts that training did not have, by column.

        The table has the columns of the encoding, which are found by their names.

        Raises
        ------
        ProblemError
            A cell without a replacement is missing, or the points do not fit into this machine's memory.
        """
        X = np.zeros((len(table), checked_width(len(table), sum(column.width for column in self.columns))))
        unknown: dict[str, dict[str, int]] = {}
        found = dict(zip(table.chosen.names, table.columns, strict=True))
        start = 0
        for is_number, run in groupby(self.columns, key=lambda column: column.categories is None):
            if is_number:
                for part in _parts(list(run), len(table)):
                    X[:, start : start + len(part)] = _points([found[column.name] for column in part], part, table)
                    start += len(part)
                continue
            for column in run:
                codes, unknown_texts = _codes(found[column.name], column, table)
                rows = np.flatnonzero(codes >= 0)
                X[rows, start + codes[rows]] = 1.0
                if unknown_texts:
                    unknown[column.name] = unknown_texts
                start += column.width
        return X, unknown


def fit_encoding(table: Table, *, one_hot: bool = True, impute: bool = True, standardise: bool = True) -> Encoding:
    """Return the encoding of a table: replacements of missing cells, means and scales, categories.

    A column without any value is left out, and a note is added to the table.

    Raises
    ------
    ProblemError
        A text without ``one_hot``, or a missing cell without ``impute``; the message names file, line and column.
    """
    columns = list(zip(table.chosen.places, table.chosen.names, table.columns, strict=True))
    numbers = [column for column in columns if not isinstance(column[2], TextColumn)]
    texts = [column for column in columns if isinstance(column[2], TextColumn)]
    blank = {place for place, _, words in texts if (words.codes < 0).all()}
    for part in _parts(numbers, len(table)):
        nothing = np.isnan(np.array([values for _, _, values in part])).all(axis=1)
        blank |= {part[k][0] for k in np.flatnonzero(nothing).tolist()}
    if blank:
        table.notes.extend(
            f"Column {name[:SHOWN_CHARS]} is empty and is left out." for place, name, _ in columns if place in blank
        )
        numbers, texts = ([column for column in some if column[0] not in blank] for some in (numbers, texts))
    if not numbers and not texts:
        raise ProblemError(f"{table.source} has no feature with a value")
    made = [*_number_columns(table, numbers, impute, standardise), *(_text_columns(table, texts, one_hot, impute))]
    checked_width(len(table), sum(column.width for column in made))
    return Encoding(tuple(made))


def without_row_names(table: Table) -> Table:
    """Return the table without the columns that only name its rows; a note names them, and the option that keeps them.

    Raises
    ------
    ProblemError
        The table has no other column.
    """
    found = [
        name
        for name, column in zip(table.chosen.names, table.columns, strict=True)
        if name not in table.chosen.kept and names_rows(name, column)
    ]
    if not found:
        return table
    shown, keep = ", ".join(name[:SHOWN_CHARS] for name in found), " ".join(f"--keep {quoted(name)}" for name in found)
    why = "each row has a different value, from which a model learns nothing for new rows"
    if len(found) == len(table.columns):
        raise ProblemError(f"{table.source} has no feature but {shown}: {why}; {keep} takes it as one")
    what, verb, pronoun = ("Column", "is", "it") if len(found) == 1 else ("Columns", "are", "them")
    note = f"{what} {shown} {verb} left out: {why}; {keep} keeps {pronoun}."
    return replace(table.without(found), notes=[*table.notes, note])


def _number_columns(table: Table, given: list[Any], impute: bool, standardise: bool) -> list[Column]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    made: list[Column] = []
    for part in _parts(given, len(table)):
        # Fortran order, so that the sum of a column does not depend on its neighbours.
        points, k = np.array([values for _, _, values in part]).T, len(part)
        fills: list[float | None] = [None] * k
        means, scales = np.zeros(k), np.ones(k)
        if impute:
            imputer = SimpleImputer(strategy="median")
            points = np.asfortranarray(imputer.fit_transform(points))
            fills = imputer.statistics_.tolist()
        else:
            _check_numbers(points, [Column(name, place) for place, name, _ in part], table)
        if standardise:
            with np.errstate(over="ignore", invalid="ignore"):
                scaler = StandardScaler().fit(points)
            means, scales = scaler.mean_, scaler.scale_
            if (large := ~(np.isfinite(means) & np.isfinite(scales))).any():
                name = part[int(np.argmax(large))][1]
                raise ProblemError(
                    f"{table.source}, {name[:SHOWN_CHARS]}: its numbers are too large to be standardised"
                )
        made += [
            Column(name, place, fill, mean, scale)
            for (place, name, _), fill, mean, scale in zip(part, fills, means.tolist(), scales.tolist(), strict=True)
        ]
    return made


def _parts(columns: list[Any], n: int) -> Iterator[list[Any]]:
    """Yield groups of columns of n numbers, small enough that a copy of one costs little memory."""
    step = max(1, _MAX_PART_VALUES // max(n, 1))
    for start in range(0, len(columns), step):
        yield columns[start : start + step]


def _points(given: list[NDArray], columns: list[Column], table: Table) -> NDArray:
    """Return number columns as features, shape (n, len(columns))."""
    points = np.array(given).T
    _check_numbers(points, columns, table)
    fills, means, scales = np.array([(c.fill or 0.0, c.mean, c.scale) for c in columns], dtype=float).T
    return (np.where(np.isnan(points), fills, points) - means) / scales


def _check_numbers(points: NDArray, columns: list[Column], table: Table) -> None:
    """Raise ProblemError if a number is missing in a column without a replacement."""
    missing = np.isnan(points)
    for k in np.flatnonzero(missing.any(axis=0)).tolist():
        if columns[k].fill is None:
            _check_not_missing(missing[:, k], columns[k], table)


def _text_columns(table: Table, given: list[Any], one_hot: bool, impute: bool) -> list[Column]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    made = []
    for place, name, words in given:
        if not one_hot:
            row = int(np.argmax(words.codes >= 0))
            raise ProblemError(
                f"{table.place(row)}, {name[:SHOWN_CHARS]}: {shortened(words.words[words.codes[row]])} is not a "
                "finite number; take --no-one-hot away to encode text, or leave the column out with --drop "
                f"{quoted(name[:SHOWN_CHARS])}"
            )
        known = words.codes[words.codes >= 0]
        cells = np.full((len(table), 1), None, dtype=object)
        there = words.codes >= 0
        cells[there, 0] = words.words[known]
        fill = None
        if impute:
            imputer = SimpleImputer(missing_values=None, strategy="most_frequent")
            cells = imputer.fit_transform(cells)
            fill = str(imputer.statistics_[0])
        else:
            _check_not_missing(~there, Column(name, place), table)
        encoder = OneHotEncoder(handle_unknown="ignore").fit(cells)
        made.append(Column(name, place, fill, categories=tuple(map(str, encoder.categories_[0]))))
    return made


def _codes(words: TextColumn, column: Column, table: Table) -> tuple[NDArray, dict[str, int]]:
    """Return the category of each cell, −1 for none, and the counts of the texts that are not categories."""
    known = {text: code for code, text in enumerate(column.categories or ())}
    if column.fill is None:
        _check_not_missing(words.codes < 0, column, table)
    # A missing cell has code −1, the last entry: its replacement.
    codes = np.array([known.get(text, -1) for text in (*words.words.tolist(), column.fill)], dtype=np.intp)
    counts = np.bincount(words.codes[words.codes >= 0], minlength=len(words.words))
    unknown_texts = {
        str(text): int(count)
        for text, code, count in zip(words.words.tolist(), codes[:-1], counts, strict=True)
        if code < 0 and count
    }
    return codes[words.codes], unknown_texts


def _check_not_missing(missing: NDArray, column: Column, table: Table) -> None:
    if missing.any():
        raise ProblemError(
            f"{table.place(int(np.argmax(missing)))}, {column.name[:SHOWN_CHARS]}: the cell is missing "
            "(it is empty, or means a missing value); fill it, leave the row out, or train without --no-impute"
        )


def checked_width(n: int, width: int) -> int:
    """Return ``width``, the number of features; raise ProblemError if n rows of them do not fit into memory."""
    there = memory_bytes()
    if there is not None and 2 * 8 * n * width > there:
        raise ProblemError(
            f"{n} rows with {width} features need {8 * n * width / 1e9:.3g} GB, and this machine has "
            f"{there / 1e9:.3g} GB; leave out columns with --drop, or rows"
        )
    return width
