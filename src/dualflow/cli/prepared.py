"""Points and labels of a table for a model, and what has to be known to read the next one alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from .cells import Cells
from .encoding import Encoding, check_texts, fit_encoding
from .known import Known, SparseEncoding
from .labels import as_written, labels_of, numbers_of
from .table import SHOWN, Sparse, Table

__all__ = ["KINDS", "How", "kind_of", "known_of", "labels_for"]

#: Models by their kind.
KINDS = {"svc": "SVC", "svr": "SVR", "svdd": "SVDD", "one-class": "OneClassSVM"}
#: Different whole numbers from which a label may be a quantity.
MANY = 20


@dataclass(frozen=True)
class How:
    """What is done to columns, as the options of the same names say."""

    one_hot: bool = True
    impute: bool = True
    standardise: bool | None = None

    def encoding(self, table: Table | Sparse) -> Any:
        """The encoding of a table."""
        if isinstance(table, Table):
            return fit_encoding(
                table, one_hot=self.one_hot, impute=self.impute, standardise=self.standardise is not False
            )
        scales = None
        if self.standardise:
            from sklearn.preprocessing import StandardScaler

            scales = StandardScaler(with_mean=False).fit(table.X).scale_
        return SparseEncoding(table.first, scales, table.X.shape[1])

    def encoded(self, table: Table | Sparse) -> tuple[Any, Any]:
        """The encoding of a new table, and its points."""
        if isinstance(table, Table):
            check_texts(table)
        encoding = self.encoding(table)
        return encoding, encoding.transform(table)[0]


def kind_of(table: Table | Sparse, cells: Cells) -> str:
    """ "svc" or "svr", by the labels; ProblemError where both may be meant."""
    try:
        values = numbers_of(table, cells)
    except ProblemError:
        return "svc"
    distinct = np.unique(values)
    if len(distinct) <= MANY and np.array_equal(distinct, np.rint(distinct)):
        return "svc"
    raise ProblemError(
        f"{table.source}: the label has {len(distinct)} different numbers; say --kind svr to predict numbers, --kind "
        "svc to tell classes apart"
    )


def labels_for(kind: str, table: Table | Sparse, cells: Cells) -> tuple[NDArray | None, tuple[str, ...]]:
    """y for a kind of model, and its classes as they are written."""
    if kind == "svr":
        return numbers_of(table, cells), ()
    if kind != "svc":
        return None, ()
    y = labels_of(table)
    classes = np.unique(y)
    if len(classes) < 2:
        raise ProblemError(
            f"{table.source}: the label has a single class, {str(y[0])[:SHOWN]}; two are needed to tell them apart, "
            "another column is named by --label, and --kind svdd describes a single class"
        )
    if 2 * len(classes) > max(len(y), 2 * MANY):
        raise ProblemError(
            f"{table.source}: the label has {len(classes)} classes in {len(y)} rows; name the right column by --label"
        )
    assert table.labels is not None
    return y, tuple(as_written(classes, table.labels, y))


def known_of(table: Table | Sparse, encoding: Any, written: tuple[str, ...], cells: Cells) -> Known:
    """What is to be kept with a model."""
    if isinstance(table, Sparse):
        return Known(encoding, written=written)
    assert isinstance(encoding, Encoding)
    chosen = table.chosen
    return Known(encoding, table.named, table.width, chosen.label_name, chosen.label, written, cells)
