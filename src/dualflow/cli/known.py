"""A model and the table it was trained on, in one file: what makes points of rows is kept as plain values beside it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators._persistence import Persistent, load_with_header, save_with_header
from ..exceptions import ProblemError, did_you_mean
from .cells import THOUSANDS, Cells, is_gap
from .encoding import Column, Encoding
from .table import SHOWN, Chosen, Sparse, index_notes, place_of, told_apart

__all__ = ["FORMAT", "Known", "SparseEncoding", "read_model"]

#: Version of what stands beside the model.
FORMAT = 1


@dataclass(frozen=True)
class SparseEncoding:
    """What turns the rows of an svmlight file into points.

    ``first`` is the index of the first feature; each is divided by its scale, if there are any.
    """

    first: int
    scales: NDArray | None
    count: int

    @property
    def features(self) -> list[str]:
        """Names of the features."""
        return [str(k + self.first) for k in range(self.count)]

    def transform(self, table: Sparse) -> tuple[Any, dict[str, dict[str, int]]]:
        """Points, CSR of shape (n, count)."""
        if self.scales is None:
            return table.X, {}
        X = table.X.copy()
        X.data /= self.scales[X.indices]
        return X, {}


@dataclass(frozen=True)
class Known:
    """How a model reads a table: the chooser of its columns, and their encoding.

    Attributes
    ----------
    encoding : Encoding or SparseEncoding
    named : bool
        Whether columns are found by their names, else by their places.
    width : int
        Columns of the file it was trained on.
    label, label_place : str or None, int or None
        Of the column of labels.
    written : tuple of str
        The classes as their user wrote them.
    cells : Cells
    asked : str, optional
        Another column of labels, by its name or its number from 1.
    """

    encoding: Encoding | SparseEncoding
    named: bool = True
    width: int = 0
    label: str | None = None
    label_place: int | None = None
    written: tuple[str, ...] = ()
    cells: Cells = field(default_factory=Cells)
    asked: str | None = None

    def header(self, first: list[str]) -> bool | None:
        """Whether a first line is a header: always, or if text stands in the place of all numbers."""
        if self.named or not isinstance(self.encoding, Encoding):
            return True
        shift = self._shift(len(first), self.label_place)
        if shift is None:
            return None
        numbers = [first[shift(c.place)] for c in self.encoding.columns if c.categories is None]
        there = [cell for cell in numbers if not self.cells.is_missing(cell)]
        return bool(there) and all(self.cells.number(cell) is None and not is_gap(cell) for cell in there)

    def chosen(self, names: list[str], named: bool, blank: set[int], index: set[int], source: str) -> Chosen:
        """The columns the model was trained on; the label if it is there."""
        assert isinstance(self.encoding, Encoding)
        columns = self.encoding.columns
        kinds: list[str | None] = ["number" if c.categories is None else "text" for c in columns]
        wanted = [column.name for column in columns]
        if not self.named:
            asked = None if self.asked is None else place_of(self.asked, names, source, "--label")
            shift = self._shift(len(names), asked)
            if shift is None:
                raise ProblemError(f"{source} has {len(names)} columns, and the model was trained on {self.width}")
            label = self.label_place if len(names) == self.width else asked if len(names) > self.width else None
            return Chosen([shift(c.place) for c in columns], wanted, kinds, label, self.label or self.asked)
        apart = told_apart(names)
        known = {name: k for k, name in enumerate(apart)}
        if lost := [name for name in wanted if name not in known]:
            many = f", nor {len(lost) - 1} others that" if len(lost) > 1 else ", which"
            raise ProblemError(
                f"{source} has no column {lost[0][:SHOWN]!r}{many} the model was trained on; its first line is "
                f"{', '.join(name[:SHOWN] for name in apart[:12])}{did_you_mean(lost[0], apart)}"
            )
        label = None if self.label is None else known.get(self.label)
        if self.asked is not None:
            label = place_of(self.asked, names, source, "--label")
        places = [known[name] for name in wanted]
        used = {*places, label}
        left = [name for k, name in enumerate(apart) if k not in used and k not in index]
        notes = index_notes(names, index - used)
        if left:
            notes = (f"Not used, for training did not: {', '.join(name[:SHOWN] for name in left[:12])}.", *notes)
        return Chosen(places, wanted, kinds, label, None if label is None else apart[label], notes)

    def _shift(self, width: int, label: int | None = None) -> Callable[[int], int] | None:
        """Where the columns of a file of such a width stand: all of them, all but the label, or one more, a label."""
        if width == self.width:
            return lambda place: place
        if self.label_place is not None and width == self.width - 1:
            left = self.label_place
            return lambda place: place - (place > left)
        if self.label_place is None and label is not None and width == self.width + 1:
            return lambda place: place + (place >= label)
        return None

    def save(self, model: Persistent, path: Path) -> None:
        """Write model and all this to one file."""
        save_with_header(model, path, {"table": self.plain()})

    def plain(self) -> dict[str, Any]:
        """All of it in what JSON can hold."""
        about: dict[str, Any] = {"format": FORMAT, "written": list(self.written)}
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
        }


def read_model(path: Path) -> tuple[Any, Known]:
    """A saved model, and how it reads tables; one that was saved without takes as many numbers as it has features.

    Raises
    ------
    ProblemError
        The file is no model, damaged, or contradicts itself.
    OSError
        It cannot be read.
    """
    model, header = load_with_header(path)
    if "table" not in header:
        return model, _bare(model)
    try:
        known = _known(header["table"])
        count = sum(c.width for c in known.encoding.columns) if isinstance(known.encoding, Encoding) else 0
        count = count or getattr(known.encoding, "count", 0)
        if count != model.n_features_in_:
            raise ValueError(f"it makes {count} features, the model has {model.n_features_in_}")
        if len(known.written) != len(getattr(model, "classes_", ())):
            raise ValueError("it names other classes than the model has")
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise ProblemError(f"{path} holds no sound table beside its model: {error}") from error
    return model, known


def _bare(model: Any) -> Known:
    names = getattr(model, "feature_names_in_", None)
    count = int(model.n_features_in_)
    columns = [Column(str(names[k]) if names is not None else f"column {k + 1}", k) for k in range(count)]
    written = [str(label) for label in getattr(model, "classes_", np.empty(0)).tolist()]
    return Known(Encoding(tuple(columns)), names is not None, count, written=tuple(written))


def _known(plain: Any) -> Known:
    if plain["format"] != FORMAT:
        raise ValueError(f"its format is {plain['format']!r}, and this version of dualflow reads {FORMAT}")
    written = _texts(plain["written"])
    if "sparse" in plain:
        sparse = plain["sparse"]
        first, count, scales = sparse["first"], _whole(sparse["count"]), sparse["scales"]
        if type(first) is not int or first not in (0, 1):
            raise ValueError("the index of its first feature is neither 0 nor 1")
        if scales is not None and (len(scales) != count or not all(_finite(scale) > 0 for scale in scales)):
            raise ValueError("its scales are none")
        return Known(SparseEncoding(first, None if scales is None else np.array(scales, float), count), written=written)
    columns = tuple(map(_column, plain["columns"]))
    width, named, label, place = _whole(plain["width"]), plain["named"], plain["label"], plain["label_place"]
    places = [column.place for column in columns] + ([] if place is None else [_whole(place, 0)])
    if type(named) is not bool or len(set(places)) < len(places) or max(places) >= width:
        raise ValueError("its columns are none")
    if len({column.name for column in columns}) < len(columns) or (label is not None and type(label) is not str):
        raise ValueError("its columns have no names")
    if plain["decimal"] not in (".", ","):
        raise ValueError("its decimal point is none")
    thousands = plain.get("thousands")  # files of before 2026-11-26 have none
    if thousands is not None and (thousands not in THOUSANDS or thousands == plain["decimal"]):
        raise ValueError("its separator of thousands is none")
    cells = Cells(plain["decimal"], _texts(plain["missing"]), thousands)
    return Known(Encoding(columns), named, width, label, place, written, cells)


def _column(plain: Any) -> Column:
    name, fill, categories = plain["name"], plain["fill"], plain["categories"]
    if type(name) is not str:
        raise ValueError("a column of it has no name")
    if categories is None:
        fill = None if fill is None else _finite(fill)
        mean, scale = _finite(plain["mean"]), _finite(plain["scale"])
        if not scale > 0:
            raise ValueError(f"the scale of its column {name[:SHOWN]} is {scale}")
        return Column(name, _whole(plain["place"], 0), fill, mean, scale)
    texts = _texts(categories)
    if not texts or len(set(texts)) < len(texts) or (fill is not None and fill not in texts):
        raise ValueError(f"the categories of its column {name[:SHOWN]} are none")
    return Column(name, _whole(plain["place"], 0), fill, categories=texts)


def _texts(plain: Any) -> tuple[str, ...]:
    if type(plain) is not list or not all(type(text) is str for text in plain):
        raise ValueError("it has something else where texts belong")
    return tuple(plain)


def _whole(plain: Any, least: int = 1) -> int:
    if type(plain) is not int or not least <= plain < 1 << 31:
        raise ValueError(f"it has {plain!r} where a whole number belongs")
    return plain


def _finite(plain: Any) -> float:
    if type(plain) not in (int, float) or not math.isfinite(plain):
        raise ValueError(f"it has {plain!r} where a number belongs")
    return float(plain)
