"""The description of a model's training table, which is saved in the model's file.

It says how the columns of a later table are found and encoded. It is stored as JSON beside the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators._persistence import Persistent, load_with_header, save_with_header
from ..exceptions import ProblemError, did_you_mean
from .cells import THOUSANDS, CellFormat, is_gap
from .encoding import Column, Encoding
from .table import SHOWN_CHARS, ChosenColumns, SparseTable, column_position, index_notes, unique_names

#: Version of the table description in a model's file.
TABLE_FORMAT = 1
#: Columns that a message names at most.
MAX_NAMED = 12


@dataclass(frozen=True)
class SparseEncoding:
    """The encoding of an svmlight file: its rows become points."""

    first: int  # index of the first feature in the file; {0, 1}
    #: Each feature is divided by its scale; None leaves the features as they are; shape (count,), or None.
    scales: NDArray | None
    count: int  # number of features

    @property
    def features(self) -> list[str]:
        """Return the names of the features: their indices in the file."""
        return [str(k + self.first) for k in range(self.count)]

    def transform(self, table: SparseTable) -> tuple[Any, dict[str, dict[str, int]]]:
        """Return the points of a table, CSR of shape (n, count), and an empty dictionary: there are no texts."""
        if self.scales is None:
            return table.X, {}
        X = table.X.copy()
        X.data /= self.scales[X.indices]
        return X, {}


@dataclass(frozen=True)
class TrainingTable:
    """How a model reads a table: it finds the columns of training, and encodes them."""

    encoding: Encoding | SparseEncoding
    named: bool = True  # whether columns are found by their names; if not, by their positions
    width: int = 0  # number of columns of the training file
    label: str | None = None  # name of the label column
    label_place: int | None = None  # position of the label column in the training file, from 0
    written: tuple[str, ...] = ()  # the classes as the training file wrote them
    cells: CellFormat = field(default_factory=CellFormat)
    requested_label: str | None = None  # another label column for this table, by its name or its number from 1
    positive: str | None = None  # the class whose recall and precision are given
    requested_id: str | None = None  # the column of this table that names its rows, by its name or its number from 1
    #: The columns of the training file that the model does not use, each with the reason.
    unused: dict[str, str] = field(default_factory=dict)

    def header(self, first: list[str]) -> bool | None:
        """Return whether the first line is a header; None if the number of columns does not fit.

        It always is one if the training file had one. If not, it is one if no number column has a number there.
        """
        if self.named or not isinstance(self.encoding, Encoding):
            return True
        shift = self._shift(len(first), self.label_place)
        if shift is None:
            return None
        numbers = [first[shift(c.place)] for c in self.encoding.columns if c.categories is None]
        there = [cell for cell in numbers if not self.cells.is_missing(cell)]
        return bool(there) and all(self.cells.number(cell) is None and not is_gap(cell) for cell in there)

    def chosen(self, names: list[str], named: bool, blank: set[int], index: set[int], source: str) -> ChosenColumns:
        """Return the columns that the model was trained on, and the label column if the file has it.

        Raises
        ------
        ProblemError
            The file lacks a column of training, or the column of ids.
        """
        assert isinstance(self.encoding, Encoding)
        columns = self.encoding.columns
        kinds: list[str | None] = ["number" if c.categories is None else "text" for c in columns]
        wanted = [column.name for column in columns]
        apart = unique_names(names)
        id_place = None if self.requested_id is None else column_position(self.requested_id, names, source, "--id")
        id_name = None if id_place is None else apart[id_place]
        if not self.named:
            requested = (
                None
                if self.requested_label is None
                else column_position(self.requested_label, names, source, "--label")
            )
            shift = self._shift(len(names), requested)
            if shift is None:
                raise ProblemError(f"{source} has {len(names)} columns, and the model was trained on {self.width}")
            label = self.label_place if len(names) == self.width else requested if len(names) > self.width else None
            places = [shift(c.place) for c in columns]
            if id_place is not None and id_place in places:
                raise ProblemError(
                    f"--id {self.requested_id}: where {source} has it, the model, which was trained on columns without "
                    "names, has a feature. Train it on a table with a header line"
                )
            return ChosenColumns(
                places, wanted, kinds, label, self.label or self.requested_label, id=id_place, id_name=id_name
            )
        known = {name: k for k, name in enumerate(apart)}
        if lost := [name for name in wanted if name not in known]:
            raise ProblemError(_lacking(lost, apart, {*wanted, self.label}, source))
        label = None if self.label is None else known.get(self.label)
        if self.requested_label is not None:
            label = column_position(self.requested_label, names, source, "--label")
        places = [known[name] for name in wanted]
        used = {*places, label, id_place}
        left = [name for k, name in enumerate(apart) if k not in used and k not in index]
        notes = index_notes(names, index - used)
        if left:
            why = {name: f" ({self.unused[name]})" if name in self.unused else "" for name in left}
            some = ", ".join(name[:SHOWN_CHARS] + why[name] for name in left[:MAX_NAMED])
            some += ", …" if len(left) > MAX_NAMED else ""
            notes = (f"Columns that the model does not use: {some}.", *notes)
        label_name = None if label is None else apart[label]
        unused = tuple((name, self.unused.get(name, "")) for name in left)
        return ChosenColumns(places, wanted, kinds, label, label_name, notes, (), id_place, id_name, unused)

    def _shift(self, width: int, label: int | None = None) -> Callable[[int], int] | None:
        """Return a function from positions in the training file to those in a file of this width; None if none fits.

        The file has the same columns, or lacks the label column, or has one more: the label column at ``label``.
        """
        if width == self.width:
            return lambda place: place
        if self.label_place is not None and width == self.width - 1:
            left = self.label_place
            return lambda place: place - (place > left)
        if self.label_place is None and label is not None and width == self.width + 1:
            return lambda place: place + (place >= label)
        return None

    def save(self, model: Persistent, path: Path) -> None:
        """Write the model and this description to one file."""
        save_with_header(model, path, {"table": self.plain()})

    def plain(self) -> dict[str, Any]:
        """Return the description as values that JSON can hold."""
        about: dict[str, Any] = {"format": TABLE_FORMAT, "written": list(self.written)}
        if self.positive is not None:
            about["positive"] = self.positive
        if isinstance(self.encoding, SparseEncoding):
            scales = None if self.encoding.scales is None else self.encoding.scales.tolist()
            return about | {"sparse": {"first": self.encoding.first, "count": self.encoding.count, "scales": scales}}
        columns = [
            {
                "name": c.name,
                "place": c.place,
                "fill": c.fill,
                "mean": c.mean,
                "scale": c.scale,
                "categories": None if c.categories is None else list(c.categories),
            }
            for c in self.encoding.columns
        ]
        return about | {
            "columns": columns,
            "named": self.named,
            "width": self.width,
            "label": self.label,
            "label_place": self.label_place,
            "decimal": self.cells.decimal,
            "missing": list(self.cells.missing),
            "thousands": self.cells.thousands,
            "unused": self.unused,
        }


def _lacking(lost: list[str], names: list[str], used: set[str | None], source: str) -> str:
    """Return the sentence on the columns that a table lacks; names that the model ``used`` are not suggested."""
    shown = ", ".join(repr(name[:SHOWN_CHARS]) for name in lost[:MAX_NAMED])
    more = f" and {len(lost) - MAX_NAMED} others" if len(lost) > MAX_NAMED else ""
    free = [name for name in names if name not in used]
    meant = [f"{match} for {name[:SHOWN_CHARS]!r}?" for name in lost if (match := did_you_mean(name, free)[:-1])]
    meant = [did_you_mean(lost[0], free)] if len(lost) == 1 else meant
    first = ", ".join(name[:SHOWN_CHARS] for name in names[:MAX_NAMED]) + (", …" if len(names) > MAX_NAMED else "")
    return (
        f"{source} lacks column{'s' if len(lost) > 1 else ''} {shown}{more} of the model's training data; its first "
        f"line is {first}{''.join(meant[:1])}"
    )


def read_model(path: Path) -> tuple[Any, TrainingTable]:
    """Return a saved model and the description of its training table.

    A model that was saved without a description reads as many columns of numbers as it has features.

    Raises
    ------
    ProblemError
        The file is not a model, is damaged, or contradicts itself.
    OSError
        The file cannot be read.
    """
    model, header = load_with_header(path)
    if "table" not in header:
        return model, _without_description(model)
    try:
        known = _parsed_description(header["table"])
        count = sum(c.width for c in known.encoding.columns) if isinstance(known.encoding, Encoding) else 0
        count = count or getattr(known.encoding, "count", 0)
        if count != model.n_features_in_:
            raise ValueError(f"it gives {count} features, and the model has {model.n_features_in_}")
        if len(known.written) != len(getattr(model, "classes_", ())):
            raise ValueError("it does not have as many classes as the model")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProblemError(f"{path} has a damaged table description beside its model: {error}") from error
    return model, known


def _without_description(model: Any) -> TrainingTable:
    names = getattr(model, "feature_names_in_", None)
    count = int(model.n_features_in_)
    columns = [Column(str(names[k]) if names is not None else f"column {k + 1}", k) for k in range(count)]
    written = [str(label) for label in getattr(model, "classes_", np.empty(0)).tolist()]
    return TrainingTable(Encoding(tuple(columns)), names is not None, count, written=tuple(written))


def _parsed_description(plain: Any) -> TrainingTable:
    if plain["format"] != TABLE_FORMAT:
        raise ValueError(f"its format is {plain['format']!r}, and this version of dualflow reads format {TABLE_FORMAT}")
    written = _parsed_texts(plain["written"])
    return replace(_parsed_columns(plain, written), positive=_parsed_positive(plain.get("positive"), written))


def _parsed_positive(positive: Any, written: tuple[str, ...]) -> str | None:
    if positive is not None and positive not in written:
        raise ValueError("its positive class is not one of its classes")
    return positive


def _parsed_columns(plain: Any, written: tuple[str, ...]) -> TrainingTable:
    """Return the description without what it says about the classes."""
    if "sparse" in plain:
        sparse = plain["sparse"]
        first, count, scales = sparse["first"], _parsed_int(sparse["count"]), sparse["scales"]
        if type(first) is not int or first not in (0, 1):
            raise ValueError("the index of its first feature is neither 0 nor 1")
        if scales is not None and (len(scales) != count or not all(_parsed_float(scale) > 0 for scale in scales)):
            raise ValueError("its scales are not one positive number for each feature")
        return TrainingTable(
            SparseEncoding(first, None if scales is None else np.array(scales, float), count), written=written
        )
    columns = tuple(map(_parsed_column, plain["columns"]))
    width, named, label, place = _parsed_int(plain["width"]), plain["named"], plain["label"], plain["label_place"]
    places = [column.place for column in columns] + ([] if place is None else [_parsed_int(place, 0)])
    if type(named) is not bool or len(set(places)) < len(places) or max(places) >= width:
        raise ValueError("the positions of its columns are not valid")
    if len({column.name for column in columns}) < len(columns) or (label is not None and type(label) is not str):
        raise ValueError("the names of its columns are not valid")
    if plain["decimal"] not in (".", ","):
        raise ValueError(f"its decimal point {plain['decimal']!r} is neither a point nor a comma")
    thousands = plain.get("thousands")  # files written before 2026-11-26 lack it
    if thousands is not None and (thousands not in THOUSANDS or thousands == plain["decimal"]):
        raise ValueError(f"its separator of thousands {thousands!r} is not valid")
    cells = CellFormat(plain["decimal"], _parsed_texts(plain["missing"]), thousands)
    unused = plain.get("unused", {})  # files written before 2026-11-28 lack it
    if type(unused) is not dict or not all(type(text) is str for text in unused.values()):
        raise ValueError("the columns that it does not use are not valid")
    return TrainingTable(Encoding(columns), named, width, label, place, written, cells, unused=unused)


def _parsed_column(plain: Any) -> Column:
    name, fill, categories = plain["name"], plain["fill"], plain["categories"]
    if type(name) is not str:
        raise ValueError("the name of a column is not text")
    if categories is None:
        fill = None if fill is None else _parsed_float(fill)
        mean, scale = _parsed_float(plain["mean"]), _parsed_float(plain["scale"])
        if not scale > 0:
            raise ValueError(f"the scale of its column {name[:SHOWN_CHARS]} is {scale}")
        return Column(name, _parsed_int(plain["place"], 0), fill, mean, scale)
    texts = _parsed_texts(categories)
    if not texts or len(set(texts)) < len(texts) or (fill is not None and fill not in texts):
        raise ValueError(f"the categories of its column {name[:SHOWN_CHARS]} are not valid")
    return Column(name, _parsed_int(plain["place"], 0), fill, categories=texts)


def _parsed_texts(plain: Any) -> tuple[str, ...]:
    if type(plain) is not list or not all(type(text) is str for text in plain):
        raise ValueError("it lacks a list of texts where one is needed")
    return tuple(plain)


def _parsed_int(plain: Any, least: int = 1) -> int:
    if type(plain) is not int or not least <= plain < 1 << 31:
        raise ValueError(f"it has {plain!r} where a whole number is needed")
    return plain


def _parsed_float(plain: Any) -> float:
    if type(plain) not in (int, float) or not math.isfinite(plain):
        raise ValueError(f"it has {plain!r} where a finite number is needed")
    return float(plain)
