"""Labels as numbers, and what each class weighs."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets

from ..exceptions import ProblemError

__all__ = ["class_weights", "encode"]


def encode(labels: NDArray) -> tuple[NDArray, NDArray]:
    """The classes in their order, and which of them each label is; ValueError for what cannot be classes."""
    # scikit-learn's check costs as much as a small fit; what it would refuse are fractions and objects.
    whole = labels.dtype.kind == "f" and np.array_equal(labels, np.rint(labels))
    if not whole and labels.dtype.kind not in "biuUS":
        check_classification_targets(labels)
    if labels.dtype.kind in "biuf":  # two numbers need no sorting
        ends = np.stack([labels.min(), labels.max()])
        last = labels == ends[1]
        if ends[0] != ends[1] and (last | (labels == ends[0])).all():
            return ends, last.astype(np.intp)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes


def class_weights(class_weight: Any, classes: NDArray, y: NDArray) -> NDArray:
    """One weight a class; a label that does not occur is an error rather than dropped."""
    if isinstance(class_weight, dict):
        known = set(classes.tolist())
        if unknown := [label for label in class_weight if label not in known]:
            raise ProblemError(f"class_weight names {unknown!r}, but y holds {classes.tolist()!r}")
    if class_weight is None:
        return np.ones(len(classes))
    weight = np.asarray(compute_class_weight(class_weight, classes=classes, y=y), dtype=float)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ProblemError(f"class_weight must be finite and ≥ 0, found {weight.tolist()}")
    return weight
