"""From columns to the numbers a model is trained on, by scikit-learn's transformers, kept as plain values."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.runtime.memory import memory_bytes
from ..exceptions import ProblemError
from .table import SHOWN, Table, Words, short

__all__ = ["Column", "Encoding", "affordable", "check_texts", "fit_encoding"]

#: Rows up to which texts may all be different.
FEW = 20
#: Numbers of a part of a table that is copied at once.
_PART = 1 << 21


@dataclass(frozen=True)
class Column:
    """A column of features, and what is made of it.

    Attributes
    ----------
    name : str
    place : int
        In the file, from 0.
    fill : float, str or None
        What stands in for nothing: the median or the most frequent text; None where nothing is refused.
    mean, scale : float
        Of a column of numbers: x becomes (x − mean)/scale.
    categories : tuple of str or None
        Of a column of text, in their order; None for one of numbers.
    """

    name: str
    place: int
    fill: float | str | None = None
    mean: float = 0.0
    scale: float = 1.0
    categories: tuple[str, ...] | None = None

    @property
    def width(self) -> int:
        """Features that it becomes."""
        return 1 if self.categories is None else len(self.categories)


@dataclass(frozen=True)
class Encoding:
    """What turns the rows of a table into points: columns of numbers first, then those of text, one feature for each of
    their texts.

    Attributes
    ----------
    columns : tuple of Column
        In the order of their features.
    """

    columns: tuple[Column, ...]

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return [
            name
            for column in self.columns
            for name in (
                [column.name] if column.categories is None else [f"{column.name}={text}" for text in column.categories]
            )
        ]

    def transform(self, table: Table) -> tuple[NDArray, dict[str, dict[str, int]]]:
        """Points of shape (n, features), and the texts that training did not have: by column, how often each is there.

        The table's columns are those of the encoding, found by their names.

        Raises
        ------
        ProblemError
            A cell is missing that may not be, or the points do not fit into this machine's memory.
        """
        X = np.zeros((len(table), affordable(len(table), sum(column.width for column in self.columns))))
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
                codes, strange = _codes(found[column.name], column, table)
                rows = np.flatnonzero(codes >= 0)
                X[rows, start + codes[rows]] = 1.0
                if strange:
                    unknown[column.name] = strange
                start += column.width
        return X, unknown


def fit_encoding(table: Table, *, one_hot: bool = True, impute: bool = True, standardise: bool = True) -> Encoding:
    """The encoding of a table: medians and most frequent texts for what is missing, means and scales, categories.

    A column in which there is nothing at all is left out, and the table's notes say so.

    Raises
    ------
    ProblemError
        Text, or a missing cell, where it may not be; the message names file, line and column.
    """
    columns = list(zip(table.chosen.places, table.chosen.names, table.columns, strict=True))
    numbers = [column for column in columns if not isinstance(column[2], Words)]
    texts = [column for column in columns if isinstance(column[2], Words)]
    blank = {place for place, _, words in texts if (words.codes < 0).all()}
    for part in _parts(numbers, len(table)):
        nothing = np.isnan(np.array([values for _, _, values in part])).all(axis=1)
        blank |= {part[k][0] for k in np.flatnonzero(nothing).tolist()}
    if blank:
        table.notes.extend(
            f"Column {name[:SHOWN]} holds nothing, and is left out." for place, name, _ in columns if place in blank
        )
        numbers, texts = ([column for column in some if column[0] not in blank] for some in (numbers, texts))
    if not numbers and not texts:
        raise ProblemError(f"{table.source} has no feature with anything in it")
    made = [*_numbers(table, numbers, impute, standardise), *(_texts(table, texts, one_hot, impute))]
    affordable(len(table), sum(column.width for column in made))
    return Encoding(tuple(made))


def check_texts(table: Table) -> None:
    """ProblemError where a column's texts are names of its rows."""
    for name, given in zip(table.chosen.names, table.columns, strict=True):
        known = given.codes[given.codes >= 0] if isinstance(given, Words) else ()
        if len(known) > FEW and len(np.unique(known)) == len(known):
            raise ProblemError(
                f"{table.source}, {name[:SHOWN]}: each row has a text of its own, which says nothing of others; leave "
                f"the column out: --drop {name[:SHOWN]}"
            )


def _numbers(table: Table, given: list[Any], impute: bool, standardise: bool) -> list[Column]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import StandardScaler

    made: list[Column] = []
    for part in _parts(given, len(table)):
        # Column after column in memory, so that each is summed as it would be alone.
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
                raise ProblemError(f"{table.source}, {name[:SHOWN]}: its numbers are too large to be standardised")
        made += [
            Column(name, place, fill, mean, scale)
            for (place, name, _), fill, mean, scale in zip(part, fills, means.tolist(), scales.tolist(), strict=True)
        ]
    return made


def _parts(columns: list[Any], n: int) -> Iterator[list[Any]]:
    """Columns of n numbers, some at a time: a copy of a part is a small thing."""
    step = max(1, _PART // max(n, 1))
    for start in range(0, len(columns), step):
        yield columns[start : start + step]


def _points(given: list[NDArray], columns: list[Column], table: Table) -> NDArray:
    """Columns of numbers as features, shape (n, len(columns))."""
    points = np.array(given).T
    _check_numbers(points, columns, table)
    fills, means, scales = np.array([(c.fill or 0.0, c.mean, c.scale) for c in columns], dtype=float).T
    return (np.where(np.isnan(points), fills, points) - means) / scales


def _check_numbers(points: NDArray, columns: list[Column], table: Table) -> None:
    """ProblemError where a number is missing that may not be."""
    missing = np.isnan(points)
    for k in np.flatnonzero(missing.any(axis=0)).tolist():
        if columns[k].fill is None:
            _check_there(missing[:, k], columns[k], table)


def _texts(table: Table, given: list[Any], one_hot: bool, impute: bool) -> list[Column]:
    from sklearn.impute import SimpleImputer
    from sklearn.preprocessing import OneHotEncoder

    made = []
    for place, name, words in given:
        if not one_hot:
            row = int(np.argmax(words.codes >= 0))
            raise ProblemError(
                f"{table.place(row)}, {name[:SHOWN]}: {short(words.words[words.codes[row]])} is not a finite number; "
                f"without --no-one-hot text becomes numbers, and --drop {name[:SHOWN]} leaves it out"
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
            _check_there(~there, Column(name, place), table)
        encoder = OneHotEncoder(handle_unknown="ignore").fit(cells)
        made.append(Column(name, place, fill, categories=tuple(map(str, encoder.categories_[0]))))
    return made


def _codes(words: Words, column: Column, table: Table) -> tuple[NDArray, dict[str, int]]:
    """Which category each cell is, −1 for none, and the texts that are none."""
    known = {text: code for code, text in enumerate(column.categories or ())}
    if column.fill is None:
        _check_there(words.codes < 0, column, table)
    # The last entry is what a missing cell, whose code is −1, becomes.
    codes = np.array([known.get(text, -1) for text in (*words.words.tolist(), column.fill)], dtype=np.intp)
    counts = np.bincount(words.codes[words.codes >= 0], minlength=len(words.words))
    strange = {
        str(text): int(count)
        for text, code, count in zip(words.words.tolist(), codes[:-1], counts, strict=True)
        if code < 0 and count
    }
    return codes[words.codes], strange


def _check_there(missing: NDArray, column: Column, table: Table) -> None:
    if missing.any():
        raise ProblemError(
            f"{table.place(int(np.argmax(missing)))}, {column.name[:SHOWN]}: the cell is missing, an empty cell or one "
            "that says so; fill it, leave the row out, or train without --no-impute"
        )


def affordable(n: int, width: int) -> int:
    """The width; ProblemError where so many numbers do not fit into memory."""
    there = memory_bytes()
    if there is not None and 2 * 8 * n * width > there:
        raise ProblemError(
            f"{n} rows with {width} features take {8 * n * width / 1e9:.3g} GB, and this machine has "
            f"{there / 1e9:.3g} GB; leave out columns with --drop, or rows"
        )
    return width
