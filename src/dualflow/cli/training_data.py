"""Prepare a table for training: its points and labels, and the description that is saved with the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ..report.scores import ClassCounts
from .cells import CellFormat
from .encoding import Encoding, fit_encoding, without_row_names
from .labels import as_written, class_weights_of, label_named, labels_of, numbers_of
from .scores import CLASSIFIERS, default_scoring, scorer_of
from .table import SHOWN_CHARS, SparseTable, Table
from .training_table import SparseEncoding, TrainingTable

#: Estimators by the values of --kind.
KINDS = {
    "svc": "SVC",
    "svr": "SVR",
    "nu-svc": "NuSVC",
    "nu-svr": "NuSVR",
    "svdd": "SVDD",
    "one-class": "OneClassSVM",
}
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
        """Return the encoding of a training table, without the columns that only name its rows, and its points."""
        used = without_row_names(table) if isinstance(table, Table) else table
        encoding = self.encoding(used)
        return encoding, encoding.transform(used)[0]


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
    assert table.labels is not None
    if 2 * len(classes) > max(len(y), 2 * MAX_CLASS_NUMBERS):
        numbers = ", or use --kind svr to predict numbers" if y.dtype.kind in "iuf" else ""
        raise ProblemError(
            f"{table.source}: the label has {len(classes)} classes in {len(y)} rows; name the right column with "
            f"--label{numbers}"
        )
    return y, tuple(as_written(classes, table.labels, y))


@dataclass(frozen=True)
class ClassOptions:
    """The options on classes and scores, as given; None where an option is not."""

    class_weight: str | None = None
    positive: str | None = None
    scoring: str | None = None
    proba: bool = False


@dataclass(frozen=True)
class Classes:
    """The classes of a training table, and the options on them."""

    y: NDArray | None  # shape (n,) or None
    classes: NDArray  # the labels, sorted; empty unless ``kind`` is svc; shape (k,)
    written: tuple[str, ...]
    weights: Any  # the value of ``class_weight``; None, "balanced" or dict
    positive: str | None  # the class that --positive names, as the file writes it
    scoring: str
    scorer: Any  # None without labels

    @classmethod
    def of(
        cls,
        kind: str,
        y: NDArray | None,
        written: tuple[str, ...],
        source: str,
        options: ClassOptions,
    ) -> Classes:
        """Return the options, checked against the labels; ProblemError names the option that does not fit."""
        class_weight, positive, scoring = options.class_weight, options.positive, options.scoring
        given = {"--class-weight": class_weight, "--positive": positive, "--proba": options.proba or None}
        for option, value in given.items():
            if value is not None and kind not in CLASSIFIERS:
                raise ProblemError(f"{option} needs classes, and --kind {kind} has none; leave it out")
        if y is None:
            if scoring is not None:
                raise ProblemError(f"--scoring needs labels, and --kind {kind} has none; leave it out")
            return cls(None, np.empty(0), (), None, None, "", None)
        name = default_scoring(kind, y) if scoring is None else scoring
        if kind not in CLASSIFIERS:
            return cls(y, np.empty(0), (), None, None, name, scorer_of(name, kind, y, None))
        classes = np.unique(y)
        known = classes.tolist()
        weights = None if class_weight is None else class_weights_of(class_weight, known, written, source)
        codes = np.searchsorted(classes, y)
        index = ClassCounts.of(codes, codes, written).positive
        if positive is not None:
            index = known.index(label_named(positive, "--positive", known, written, source))
        scorer = scorer_of(name, kind, classes, known[index])
        return cls(y, classes, written, weights, None if positive is None else written[index], name, scorer)

    def counts(self, predicted: NDArray) -> ClassCounts:
        """Return the counts of predicted labels."""
        assert self.y is not None
        truth, codes = np.searchsorted(self.classes, self.y), np.searchsorted(self.classes, predicted)
        index = None if self.positive is None else self.written.index(self.positive)
        return ClassCounts.of(truth, codes, self.written, index)


@dataclass(frozen=True)
class TrainingData:
    """A training table, its points and labels, and how they were made."""

    table: Table | SparseTable  # without the columns that only name its rows
    cells: CellFormat
    kind: str  # a key of `KINDS`
    how: EncodingOptions
    encoding: Any  # Encoding or SparseEncoding
    X: Any  # array or CSR array of shape (n, m)
    y: NDArray | None  # shape (n,) or None
    written: tuple[str, ...]  # the classes as the file writes them
    classes: Classes

    @property
    def gaps_filled(self) -> str | None:
        """The numbers of missing cells by column, which the median or the most frequent text stands for."""
        return self.table.gaps() if isinstance(self.table, Table) else None

    def description(self) -> TrainingTable:
        """Return the description of the table that is saved with its model."""
        more: dict[str, Any] = {"positive": self.classes.positive}
        table = self.table
        if isinstance(table, SparseTable):
            return TrainingTable(self.encoding, written=self.written, **more)
        assert isinstance(self.encoding, Encoding)
        label, place = table.chosen.label_name, table.chosen.label
        encoded = {column.name for column in self.encoding.columns}
        empty = {name: "empty in training" for name in table.chosen.names if name not in encoded}
        more["unused"] = dict(table.chosen.unused) | empty
        return TrainingTable(self.encoding, table.named, table.width, label, place, self.written, self.cells, **more)


def training_data(
    table: Table | SparseTable, cells: CellFormat, kind: str | None, how: EncodingOptions, options: ClassOptions
) -> TrainingData:
    """Return the points and labels of a table; ProblemError says which cell, column or option does not fit."""
    kind = kind or kind_of(table, cells)
    y, written = labels_for(kind, table, cells)
    classes = Classes.of(kind, y, written, table.source, options)
    table = without_row_names(table) if isinstance(table, Table) else table
    encoding, X = how.encoded(table)
    return TrainingData(table, cells, kind, how, encoding, X, y, written, classes)
