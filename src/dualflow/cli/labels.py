"""The labels of a table, as numbers or text, and the texts of the classes as the file writes them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError, did_you_mean
from .cells import CellFormat, number
from .table import SHOWN_CHARS, SparseTable, Table, shortened


def labels_of(table: Table | SparseTable) -> NDArray:
    """Return the labels of a table.

    They are exact integers if all are whole numbers, else floats. They stay text if they are not numbers, or if two
    different numbers would become the same float.

    Raises
    ------
    ProblemError
        A label is missing, or numbers and text are mixed; the message names file and line.
    """
    cells, name = _cells(table)
    numeric = [number(cell) is not None for cell in cells]
    if not any(numeric):
        return np.array(cells)
    if not all(numeric):
        text, figure = (shortened(cells[numeric.index(kind)]) for kind in (False, True))
        raise ProblemError(
            f"{table.place(numeric.index(False))}: the label {name} mixes numbers and text ({figure}, {text}); write "
            "all as numbers or all as text, or name another column with --label"
        )
    exact = [Decimal(cell) for cell in cells]
    if all(value == value.to_integral_value() for value in exact):
        whole = [int(value) for value in exact]
        for dtype in (np.int64, np.uint64):
            if np.iinfo(dtype).min <= min(whole) and max(whole) <= np.iinfo(dtype).max:
                return np.array(whole, dtype=dtype)
    rounded = np.array([float(cell) for cell in cells])
    return rounded if len(np.unique(rounded)) == len(set(exact)) else np.array(cells)


def numbers_of(table: Table | SparseTable, form: CellFormat) -> NDArray:
    """Return the labels of a table as floats; ProblemError names the line of a label that is not a number."""
    cells, name = _cells(table)
    found = [form.number(cell) for cell in cells]
    for row, value in enumerate(found):
        if value is None:
            fix = form.advice([cells[row]], sum(value is not None for value in found))
            raise ProblemError(
                f"{table.place(row)}: the label {name}, {shortened(cells[row])}, is not a finite number, which "
                "--kind svr "
                f"needs; {fix or 'for classes use --kind svc'}"
            )
    return np.array(found, dtype=float)


def as_written(classes: NDArray, cells: list[str], values: NDArray) -> list[str]:
    """Return the text of each class at its first occurrence."""
    firsts = np.unique(values, return_index=True)[1]
    assert len(firsts) == len(classes)
    return [cells[row] for row in firsts.tolist()]


def known_codes(cells: list[str], classes: NDArray, written: list[str]) -> NDArray:
    """Return the index of each cell's class: −1 for an unknown class, −2 for a missing label."""
    known: dict[Any, int] = {text: code for code, text in enumerate(written)}
    if classes.dtype.kind in "iuf":
        known = {Decimal(str(value)): code for code, value in enumerate(classes.tolist())}

    def code(cell: str) -> int:
        if not cell:
            return -2
        if classes.dtype.kind not in "iuf":
            return known.get(cell, -1)
        return -1 if number(cell) is None else known.get(Decimal(cell), -1)

    return np.array([code(cell) for cell in cells], dtype=np.intp)


def label_named(text: str, option: str, classes: list[Any], written: tuple[str, ...], source: str) -> Any:
    """Return the label that the user names, as the file writes it or as it was read; ProblemError if there is none."""
    named = {str(label): label for label in classes} | dict(zip(written, classes, strict=True))
    if text not in named:
        known = list(written)
        shown = ", ".join(known[:10]) + (", …" if len(known) > 10 else "")
        raise ProblemError(
            f"{option}: {source} has no class {shortened(text)}; it has {shown}{did_you_mean(text, known)}"
        )
    return named[text]


def class_weights_of(text: str, classes: list[Any], written: tuple[str, ...], source: str) -> Any:
    """Return the value of --class-weight: "balanced", or a dict by label of texts such as "yes=5,no=1".

    Raises
    ------
    ProblemError
        A part is not LABEL=WEIGHT, names no class or one twice, or has a weight that is not a positive number.
    """
    if text == "balanced":
        return text
    weights: dict[Any, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, sign, figure = part.rpartition("=")
        weight = number(figure.strip()) if sign else None
        if weight is None or not weight > 0:
            raise ProblemError(
                f'--class-weight {shortened(part)} must be "balanced", or LABEL=WEIGHT with a weight above 0, such as '
                f'"{written[-1][:SHOWN_CHARS]}=5"'
            )
        label = label_named(name.strip(), "--class-weight", classes, written, source)
        if label in weights:
            raise ProblemError(f"--class-weight names the class {shortened(name.strip())} twice")
        weights[label] = weight
    if not weights:
        raise ProblemError('--class-weight is empty; give "balanced", or LABEL=WEIGHT')
    return weights


def _cells(table: Table | SparseTable) -> tuple[list[str], str]:
    name = "column" if isinstance(table, SparseTable) else str(table.chosen.label_name)[:SHOWN_CHARS]
    if table.labels is None:
        raise ProblemError(f"{table.source} has no label column; name it with --label")
    if "" in table.labels:
        place, count = table.place(table.labels.index("")), table.labels.count("")
        more = f", as in {count} of {len(table.labels)} rows" if count > 1 else ""
        raise ProblemError(f"{place}: the label {name} is empty or missing{more}; fill or drop such rows")
    return table.labels, name
