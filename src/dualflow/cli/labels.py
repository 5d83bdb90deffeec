"""Labels as numbers or text, and as their user wrote them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from .cells import Cells, number
from .table import SHOWN, Sparse, Table, short

__all__ = ["as_written", "known_codes", "labels_of", "numbers_of"]


def labels_of(table: Table | Sparse) -> NDArray:
    """The labels of a table: integers, exactly, where all are whole numbers, else floats; text where they are text, or
    where two different numbers would become one.

    Raises
    ------
    ProblemError
        One is missing, or numbers and text are mixed; the message names file and line.
    """
    cells, name = _cells(table)
    numeric = [number(cell) is not None for cell in cells]
    if not any(numeric):
        return np.array(cells)
    if not all(numeric):
        text, figure = (short(cells[numeric.index(kind)]) for kind in (False, True))
        raise ProblemError(
            f"{table.place(numeric.index(False))}: the label {name} mixes numbers and text ({figure}, {text}); use one "
            "kind, or name another column with --label"
        )
    exact = [Decimal(cell) for cell in cells]
    if all(value == value.to_integral_value() for value in exact):
        whole = [int(value) for value in exact]
        for dtype in (np.int64, np.uint64):
            if np.iinfo(dtype).min <= min(whole) and max(whole) <= np.iinfo(dtype).max:
                return np.array(whole, dtype=dtype)
    rounded = np.array([float(cell) for cell in cells])
    return rounded if len(np.unique(rounded)) == len(set(exact)) else np.array(cells)


def numbers_of(table: Table | Sparse, form: Cells) -> NDArray:
    """The labels of a table as numbers to be predicted; ProblemError names the line of one that is none."""
    cells, name = _cells(table)
    found = [form.number(cell) for cell in cells]
    for row, value in enumerate(found):
        if value is None:
            fix = form.advice([cells[row]], sum(value is not None for value in found))
            raise ProblemError(
                f"{table.place(row)}: the label {name}, {short(cells[row])}, is not a finite number, as --kind svr "
                f"needs; {fix or '--kind svc tells classes apart'}"
            )
    return np.array(found, dtype=float)


def as_written(classes: NDArray, cells: list[str], values: NDArray) -> list[str]:
    """Each class as it was written first."""
    firsts = np.unique(values, return_index=True)[1]
    assert len(firsts) == len(classes)
    return [cells[row] for row in firsts.tolist()]


def known_codes(cells: list[str], classes: NDArray, written: list[str]) -> NDArray:
    """Which of the classes each cell is: −1 for a class that is not among them, −2 for none at all."""
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


def _cells(table: Table | Sparse) -> tuple[list[str], str]:
    name = "column" if isinstance(table, Sparse) else str(table.chosen.label_name)[:SHOWN]
    if table.labels is None:
        raise ProblemError(f"{table.source} has no label; name its column with --label")
    if "" in table.labels:
        place = table.place(table.labels.index(""))
        raise ProblemError(f"{place}: the label {name} is empty or missing; fill or drop such rows")
    return table.labels, name
