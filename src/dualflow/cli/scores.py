"""Scores of classes, as text and as values; and the scorers that `--scoring` names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..exceptions import ProblemError, did_you_mean
from ..report.scores import UNEQUAL_SHARE, ClassCounts
from .labels import known_codes
from .table import SHOWN_CHARS

#: The values of --kind whose labels are classes.
CLASSIFIERS = ("svc", "nu-svc")

#: Most classes whose confusion matrix is printed; more would not fit in a line.
MAX_SHOWN_CLASSES = 8
#: Rows whose entries are compared with those of training at a time.
ROWS_AT_ONCE = 10_000


def default_scoring(kind: str, y: NDArray) -> str:
    """Return the score of a search or a cross-validation: of unequal classes the balanced accuracy."""
    if kind not in CLASSIFIERS:
        return "r2"
    share = np.unique(y, return_counts=True)[1].max() / len(y)
    return "balanced_accuracy" if share >= UNEQUAL_SHARE else "accuracy"


def scorer_of(scoring: str, kind: str, classes: NDArray, positive: Any) -> Any:
    """Return the scorer of scikit-learn that --scoring names; those of one class are for ``positive``.

    Raises
    ------
    ProblemError
        There is no such scorer, or it needs two classes.
    """
    from sklearn import metrics

    names = metrics.get_scorer_names()
    if scoring not in names:
        common = "accuracy, balanced_accuracy, f1, recall, precision, roc_auc, average_precision"
        some = common if kind in CLASSIFIERS else "r2, neg_mean_absolute_error, neg_root_mean_squared_error"
        raise ProblemError(
            f"--scoring {scoring!r} is no score of scikit-learn, such as {some}{did_you_mean(scoring, names)}"
        )
    of_one_class = {
        "f1": (metrics.f1_score, "predict"),
        "recall": (metrics.recall_score, "predict"),
        "precision": (metrics.precision_score, "predict"),
        "jaccard": (metrics.jaccard_score, "predict"),
        "average_precision": (metrics.average_precision_score, "decision_function"),
    }
    if kind not in CLASSIFIERS or scoring not in of_one_class:
        return metrics.get_scorer(scoring)
    if len(classes) > 2:
        raise ProblemError(
            f"--scoring {scoring} needs two classes, the label has {len(classes)}; use balanced_accuracy or f1_macro"
        )
    score, response = of_one_class[scoring]
    quiet = {} if response != "predict" else {"zero_division": 0.0}
    return metrics.make_scorer(score, response_method=response, pos_label=positive, **quiet)


def counts_of(
    machine: Any, known: Any, labels: list[str] | None, predicted: NDArray, use: NDArray, positive: str | None
) -> ClassCounts | None:
    """Return the counts of predictions of classes, of the rows in ``use`` whose label the model knows.

    Parameters
    ----------
    machine : model
        With ``classes_``.
    known : TrainingTable
    labels : list of str or None
        The labels as the table writes them.
    predicted : array of shape (n,)
        Predicted labels.
    use : array of bool, shape (n,)
    positive : str or None
        The class of `ClassCounts.positive`; that of training by default.

    Raises
    ------
    ProblemError
        ``positive`` is not a class of the model.
    """
    written = list(known.written)
    if not written or not labels:
        return None
    name = positive if positive is not None else known.positive
    if name is not None and name not in written:
        raise ProblemError(f"--positive: the model has no class {name!r}; it has {', '.join(written[:10])}")
    truth = known_codes(labels, machine.classes_, written)
    there = (truth >= 0) & use
    if not there.any():
        return None
    codes = np.searchsorted(machine.classes_, predicted)
    return ClassCounts.of(truth[there], codes[there], written, None if name is None else written.index(name))


def score_lines(counts: ClassCounts, title: str, weighted: bool) -> list[str]:
    """Return the scores and the confusion matrix as lines of text."""
    names = [name[:SHOWN_CHARS] for name in counts.classes]
    most = names[counts.majority]
    lines = [
        f"Scores of {counts.n} {title}:",
        f"  balanced accuracy {counts.balanced_accuracy:.3f} (a constant answer: {counts.chance:.3f})",
        f"  accuracy {counts.accuracy:.3f} (always {most!r}: {counts.majority_share:.3f})",
        f"  recall of {names[counts.positive]!r} {_share(counts.recall)}, precision {_share(counts.precision)}, "
        f"F1 {_share(counts.f1)}",
    ]
    shown = len(names) <= MAX_SHOWN_CLASSES
    head = ["class", *(f"→ {name}" for name in names if shown), "recall", "precision"]
    rows = [head]
    for k, name in list(enumerate(names))[: 2 * MAX_SHOWN_CLASSES]:
        cells = [str(count) for count in counts.table[k]] if shown else []
        rows.append([name, *cells, _share(counts.recalls[k]), _share(counts.precisions[k])])
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    for row in rows:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        lines.append("  " + "  ".join(cells))
    if len(names) > 2 * MAX_SHOWN_CLASSES:
        lines.append(f"  … ({len(names)} classes in all)")
    if (warning := counts.warning(weighted)) is not None:
        lines.append(warning)
    return lines


def training_note(machine: Any, X: Any) -> str:
    """Return a remark in brackets if rows of X are among a model's training points, which score higher; else ""."""
    machine = getattr(machine, "estimator_", machine)  # of a conformal model
    if getattr(machine, "_rows", None) is None:  # a model of a stream
        return ""
    known: set[bytes] = set()
    for solution in machine.solutions_:
        known.update(_row_bytes(solution.problem.gram.X))
    count = sum(row in known for row in _row_bytes(X))
    if not count:
        return ""
    which = "training rows" if count == X.shape[0] else f"{count} of {X.shape[0]} rows are training rows"
    return f" ({which}, which score higher than new rows)"


def _row_bytes(X: Any) -> Iterator[bytes]:
    """Yield the entries of each row, dense or sparse, as bytes: the places and the values of those that are not 0."""
    for start in range(0, X.shape[0], ROWS_AT_ONCE):
        part = csr_array(X[start : start + ROWS_AT_ONCE])
        part.eliminate_zeros()
        part.sort_indices()
        places, values = part.indices.astype(np.int64), part.data.astype(float)
        for a, b in pairwise(part.indptr.tolist()):
            yield places[a:b].tobytes() + values[a:b].tobytes()


def _share(share: float | None) -> str:
    return "–" if share is None else f"{share:.3f}"
