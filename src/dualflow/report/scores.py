"""Scores of classifiers: counts by class, the scores that follow from them, and what to say about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

#: Share of the largest class from which on classes count as unequal: accuracy alone then rewards a model that ignores
#: the other classes.
UNEQUAL_SHARE = 0.6
#: Scores within this number of standard errors of each other are a tie.
TIE_ERRORS = 2.0
#: The scores by which models are compared.
SCORES = ("balanced_accuracy", "accuracy", "recall", "precision", "f1", "average_precision", "roc_auc")
#: Those that follow from the order of the decision values, and not from a threshold.
ORDER_SCORES = ("average_precision", "roc_auc")
#: Titles of scores that read better than their names.
SCORE_TITLES = {"r2": "R²", "roc_auc": "ROC AUC"}


def score_title(scoring: str) -> str:
    """Return the name of a score as the output shows it."""
    return SCORE_TITLES.get(scoring, scoring.replace("_", " "))


@dataclass(frozen=True)
class ClassCounts:
    """How often each class was predicted for the rows of each class.

    Attributes
    ----------
    classes : tuple of str
        Names of the classes.
    table : array of int, shape (k, k)
        Entry (i, j) counts the rows of class i for which class j was predicted (the confusion matrix).
    positive : int
        Index of the class whose recall and precision are given.

    Examples
    --------
    >>> from dualflow.report.scores import ClassCounts
    >>> counts = ClassCounts.of([0, 0, 0, 1], [0, 0, 1, 1], ["no", "yes"])
    >>> counts.table.tolist(), counts.recall, counts.precision, counts.accuracy
    ([[2, 1], [0, 1]], 1.0, 0.5, 0.75)
    """

    classes: tuple[str, ...]
    table: np.ndarray
    positive: int

    @classmethod
    def of(
        cls, truth: ArrayLike, predicted: ArrayLike, classes: Sequence[object], positive: int | None = None
    ) -> ClassCounts:
        """Count from indices of classes; ``positive`` is the rarest class that occurs in ``truth`` by default."""
        table = np.zeros((len(classes), len(classes)), dtype=int)
        np.add.at(table, (np.asarray(truth, dtype=int), np.asarray(predicted, dtype=int)), 1)
        sizes = table.sum(axis=1)
        if positive is None:
            # The last of equally rare classes: of 0 and 1 the 1.
            positive = len(sizes) - 1 - int(np.argmin(np.where(sizes > 0, sizes, sizes.sum() + 1)[::-1]))
        return cls(tuple(map(str, classes)), table, positive)

    @property
    def n(self) -> int:
        """Number of rows."""
        return int(self.table.sum())

    @property
    def majority(self) -> int:
        """Index of the largest class."""
        return int(np.argmax(self.table.sum(axis=1)))

    @property
    def majority_share(self) -> float:
        """Share of the largest class: the accuracy of a model that always predicts it."""
        return float(self.table.sum(axis=1).max() / self.n)

    @property
    def accuracy(self) -> float:
        """Share of the rows that were predicted correctly."""
        return float(np.trace(self.table) / self.n)

    @property
    def recalls(self) -> list[float | None]:
        """For each class the share of its rows that were predicted as such; None for a class without rows."""
        return [int(self.table[k, k]) / int(size) if (size := self.table[k].sum()) else None for k in range(self.k)]

    @property
    def precisions(self) -> list[float | None]:
        """For each class the share of its predictions that were right; None for a class that was never predicted."""
        return [int(self.table[k, k]) / int(size) if (size := self.table[:, k].sum()) else None for k in range(self.k)]

    @property
    def k(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def balanced_accuracy(self) -> float:
        """Mean recall of the classes that have rows."""
        return float(np.mean([recall for recall in self.recalls if recall is not None]))

    @property
    def recall(self) -> float | None:
        """Recall of the positive class."""
        return self.recalls[self.positive]

    @property
    def precision(self) -> float | None:
        """Precision of the positive class."""
        return self.precisions[self.positive]

    @property
    def f1(self) -> float | None:
        """Harmonic mean of recall and precision."""
        recall, precision = self.recall, self.precision
        if recall is None:
            return None
        return 2 * precision * recall / (precision + recall) if precision and recall else 0.0

    @property
    def chance(self) -> float:
        """Balanced accuracy of a model that always predicts the same class."""
        return 1.0 / sum(recall is not None for recall in self.recalls)

    @property
    def error(self) -> float:
        """Standard error of `balanced_accuracy`, with a row added for and against each class."""
        sizes = self.table.sum(axis=1)
        there = [(int(self.table[k, k]) + 1) / (int(sizes[k]) + 2) for k in range(self.k) if sizes[k]]
        parts = [p * (1 - p) / int(size) for p, size in zip(there, sizes[sizes > 0], strict=True)]
        return math.sqrt(sum(parts)) / len(there)

    @property
    def beats_majority(self) -> bool:
        """Whether the balanced accuracy is above that of a constant answer by more than chance."""
        return self.balanced_accuracy - self.chance > TIE_ERRORS * self.error

    def warning(self, weighted: bool) -> str | None:
        """Return a sentence if the rows do not show that the model is better than the largest class; None if they do.

        ``weighted`` says whether it was trained with class weights.
        """
        if len([recall for recall in self.recalls if recall is not None]) < 2:
            return None
        always = f"always answering {self.classes[self.majority]!r}"
        fix = "" if weighted else " Try --class-weight balanced, other columns, or --search."
        if not self.beats_majority and self.balanced_accuracy > self.chance:
            return (
                f"These {self.n} rows ({int(self.table[self.positive].sum())} of {self.classes[self.positive]!r}) "
                f"cannot show that the model is better than {always} (balanced accuracy {self.balanced_accuracy:.3f} "
                f"± {self.error:.3f}, chance is {self.chance:.3f}).{fix}"
            )
        if not self.beats_majority:
            return (
                f"This model is NO better than {always}: its balanced accuracy is {self.balanced_accuracy:.3f}, "
                f"chance is {self.chance:.3f}.{fix}"
            )
        if self.accuracy <= self.majority_share and not weighted:
            return (
                f"Its accuracy is no better than that of {always} ({self.majority_share:.3f}); its recall of "
                f"{self.classes[self.positive]!r} is {self.recall or 0.0:.3f}, which --class-weight balanced raises."
            )
        size = int(self.table[self.positive].sum())
        found = int(self.table[self.positive, self.positive])
        if self.majority_share >= UNEQUAL_SHARE and 3 * found < size and not weighted:
            return (
                f"It finds {found} of the {size} rows of {self.classes[self.positive]!r}; try --class-weight balanced."
            )
        return None

    def plain(self) -> dict[str, object]:
        """Return all scores as plain values."""
        return {
            "rows": self.n,
            "classes": list(self.classes),
            "positive": self.classes[self.positive],
            "majority": self.classes[self.majority],
            "majority_share": self.majority_share,
            "accuracy": self.accuracy,
            "balanced_accuracy": self.balanced_accuracy,
            "recall": self.recall,
            "precision": self.precision,
            "f1": self.f1,
            "recalls": self.recalls,
            "precisions": self.precisions,
            "confusion": self.table.tolist(),
            "better_than_majority": self.beats_majority,
        }


@dataclass(frozen=True)
class ModelScore:
    """One model of a comparison on held-out rows: the majority, or an SVC of one package with its class weights.

    Attributes
    ----------
    model : str
    class_weight : str or None
        The weights as text; None without weights.
    counts : ClassCounts or None
        None if it was not fitted.
    fit_time_s : float or None
        Least wall time of the fit; None for the majority.
    relative_gap : float or None
        Certified relative gap of its dual variables; None for the majority, and where no gap can be certified.
    reason : str or None
        Why it was not fitted.
    average_precision, roc_auc : float or None
        Scores of the order of its decision values, as in scikit-learn: the positive class is that of ``counts``.
    solver : str or None
        The solver that dualflow's model chose by itself.
    """

    model: str
    class_weight: str | None = None
    counts: ClassCounts | None = None
    fit_time_s: float | None = None
    relative_gap: float | None = None
    reason: str | None = None
    average_precision: float | None = None
    roc_auc: float | None = None
    solver: str | None = None

    @property
    def title(self) -> str:
        """The model, with its class weights."""
        return self.model if self.class_weight is None else f"{self.model}, {self.class_weight}"

    def score(self, name: str) -> float:
        """Return a score of `SCORES`; −1 if there is none."""
        source = self if name in ORDER_SCORES else self.counts
        value = None if source is None else getattr(source, name)
        return -1.0 if value is None else float(value)

    def error(self, name: str) -> float:
        """Return the standard error of a score of `SCORES`, of two classes of these sizes; 0 if there is no score.

        Scores of counts are linearised in the two rates at which the classes are taken for the positive one. ROC AUC:
        Hanley and McNeil, Radiology 143, 29 (1982). Average precision: Boyd, Eng and Page, ECML PKDD (2013).
        """
        counts, value = self.counts, self.score(name)
        if counts is None or value < 0:
            return 0.0
        if name == "balanced_accuracy":
            return counts.error
        size, taken = (int(counts.table.sum(axis=k)[counts.positive]) for k in (1, 0))
        others, right = counts.n - size, int(counts.table[counts.positive, counts.positive])
        wrong = taken - right
        if name == "roc_auc":
            spread = value * (1 - value) + (size - 1) * (value / (2 - value) - value**2)
            spread += (others - 1) * (2 * value**2 / (1 + value) - value**2)
            return math.sqrt(max(spread, 0.0) / (size * others))
        if name == "average_precision":
            return math.sqrt(value * (1 - value) / size)
        slopes = {  # by the number of rows that are found rightly, and of those wrongly
            "accuracy": (1 / counts.n, 1 / counts.n),
            "recall": (1 / max(size, 1), 0.0),
            "precision": (wrong / max(taken, 1) ** 2, right / max(taken, 1) ** 2),
            "f1": (2 * (wrong + size) / (taken + size) ** 2, 2 * right / (taken + size) ** 2),
        }[name]
        # A row is added for and against.
        rates = [((k + 1) / (n + 2), n) for k, n in ((right, size), (wrong, others))]
        return math.sqrt(sum(slope**2 * n * p * (1 - p) for slope, (p, n) in zip(slopes, rates, strict=True)))

    def plain(self) -> dict[str, object]:
        """Return it as plain values."""
        about: dict[str, object] = {
            "model": self.model,
            "class_weight": self.class_weight,
            "fit_time_s": self.fit_time_s,
            "relative_gap": self.relative_gap,
            "reason": self.reason,
            "average_precision": self.average_precision,
            "roc_auc": self.roc_auc,
        }
        return about | ({} if self.counts is None else self.counts.plain())


def best_model(scores: Sequence[ModelScore], scoring: str) -> ModelScore | None:
    """Return the model with the best score, of ties the fastest; None if none was fitted."""
    fitted = [score for score in scores if score.fit_time_s is not None and score.counts is not None]
    if not fitted:
        return None
    best = max(fitted, key=lambda score: score.score(scoring))
    alike = [one for one in fitted if one.class_weight == best.class_weight and best.counts is not None]
    near = [one for one in alike if best.score(scoring) - one.score(scoring) <= best.error(scoring)]
    return min(near, key=lambda score: score.fit_time_s or 0.0)
