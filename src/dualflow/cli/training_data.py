"""Prepare a table for training: its points and labels, and the description that is saved with the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from .cells import CellFormat
from .encoding import Encoding, check_texts, fit_encoding
from .labels import as_written, labels_of, numbers_of
from .table import SHOWN_CHARS, SparseTable, Table
from .training_table import SparseEncoding, TrainingTable

__all__ = ["CLASSIFIERS", "KINDS", "LABELLED", "EncodingOptions", "description_of", "kind_of", "labels_for"]

#: Estimators by the values of --kind.
KINDS = {
    "svc": "SVC",
    "svr": "SVR",
    "nu-svc": "NuSVC",
    "nu-svr": "NuSVR",
    "svdd": "SVDD",
    "one-class": "OneClassSVM",
}
#: The kinds whose labels are classes.
CLASSIFIERS = ("svc", "nu-svc")
#: The kinds that have labels.
LABELLED = (*CLASSIFIERS, "svr", "nu-svr")
#: With more different whole numbers than this, a label may be a quantity and not a class.
MAX_CLASS_NUMBERS = 20


@dataclass(frozen=True)
class EncodingOptions:
    """The encoding of columns, by the options of the same names."""

    one_hot: bool = True
    impute: bool = True
    standardise: bool | None = None

    def encoding(self, table: Table | SparseTable) -> Any:
        """Return the encoding of a table."""
        if isinstance(table, Table):
            return fit_encoding(
                table, one_hot=self.one_hot, impute=self.impute, standardise=self.standardise is not False
            )
        scales = None
        if self.standardise:
            from sklearn.preprocessing import StandardScaler

            scales = StandardScaler(with_mean=False).fit(table.X).scale_
        return SparseEncoding(table.first, scales, table.X.shape[1])

    def encoded(self, table: Table | SparseTable) -> tuple[Any, Any]:
        """Return the encoding of a training table, and its points."""
        if isinstance(table, Table):
            check_texts(table)
        encoding = self.encoding(table)
        return encoding, encoding.transform(table)[0]


def kind_of(table: Table | SparseTable, cells: CellFormat) -> str:
    """Return "svc" if the labels are classes; raise ProblemError if they may be classes or quantities."""
    try:
        values = numbers_of(table, cells)
    except ProblemError:
        return "svc"
    distinct = np.unique(values)
    if len(distinct) <= MAX_CLASS_NUMBERS and np.array_equal(distinct, np.rint(distinct)):
        return "svc"
    raise ProblemError(
        f"{table.source}: the label has {len(distinct)} different numbers; add --kind svr to predict numbers, or "
        "--kind svc to predict classes"
    )


def labels_for(kind: str, table: Table | SparseTable, cells: CellFormat) -> tuple[NDArray | None, tuple[str, ...]]:
    """Return y for a kind of model, and the classes as the file writes them."""
    if kind not in LABELLED:
        return None, ()
    if kind not in CLASSIFIERS:
        return numbers_of(table, cells), ()
    y = labels_of(table)
    classes = np.unique(y)
    if len(classes) < 2:
        raise ProblemError(
            f"{table.source}: the label has a single class, {str(y[0])[:SHOWN_CHARS]}, and --kind {kind} needs two; "
            "name another column with --label, or use --kind svdd for a single class"
        )
    if 2 * len(classes) > max(len(y), 2 * MAX_CLASS_NUMBERS):
        raise ProblemError(
            f"{table.source}: the label has {len(classes)} classes in {len(y)} rows; name the right column with --label"
        )
    assert table.labels is not None
    return y, tuple(as_written(classes, table.labels, y))


def description_of(
    table: Table | SparseTable, encoding: Any, written: tuple[str, ...], cells: CellFormat
) -> TrainingTable:
    """Return the description of a table that is saved with its model."""
    if isinstance(table, SparseTable):
        return TrainingTable(encoding, written=written)
    assert isinstance(encoding, Encoding)
    chosen = table.chosen
    return TrainingTable(encoding, table.named, table.width, chosen.label_name, chosen.label, written, cells)
