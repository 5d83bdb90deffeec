"""Labels as numbers, what each class weighs, and which one wins."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets

from ..core._points import small_numbers, two_labels
from ..core.values import filled
from ..exceptions import ProblemError

__all__ = [
    "are_words",
    "class_weights",
    "classes_with_weight",
    "codes_of",
    "encode",
    "names_not_in",
    "same",
    "several",
    "shown",
    "winners",
]


def are_words(labels: NDArray) -> bool:
    """Whether all labels are text."""
    return labels.dtype.kind == "U" or (labels.dtype.kind == "O" and set(map(type, labels.flat)) == {str})


def encode(labels: NDArray) -> tuple[NDArray, NDArray]:
    """The classes in their order, and which of them each label is; ValueError for what cannot be classes."""
    if are_words(labels):  # to sort them all takes longer than a small fit
        listed = labels.tolist()
        found = sorted(set(listed))
        place = {word: code for code, word in enumerate(found)}
        return np.array(found, dtype=labels.dtype), np.array([place[word] for word in listed], dtype=np.intp)
    # scikit-learn's check costs as much as a small fit; what it would refuse are fractions and objects.
    if (known := _of_numbers(labels)) is not None:
        return known
    whole = labels.dtype.kind == "f" and np.array_equal(labels, np.rint(labels))
    if not whole and labels.dtype.kind not in "biuUS":
        check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes


def _of_numbers(labels: NDArray) -> tuple[NDArray, NDArray] | None:
    """What `encode` says of small whole numbers, and of two numbers, which need no sorting; None of others."""
    kind = labels.dtype.kind
    if kind == "i" or (kind == "u" and labels.dtype.itemsize < 8):
        numbers = np.ascontiguousarray(labels, dtype=np.int64)
        if (small := small_numbers(numbers)) is not None:
            return np.array(small[0], dtype=labels.dtype), small[1]
    elif labels.dtype == np.float64:
        numbers = np.ascontiguousarray(labels)
    elif kind == "b":
        numbers = labels.astype(np.int64)
    else:
        return None
    two = two_labels(numbers)
    if two is None or not (float(two[0]).is_integer() and float(two[1]).is_integer()):
        return None
    return np.array(two[:2], dtype=labels.dtype), two[2]


def several(classes: NDArray, name: str) -> None:
    """Refuse a single class."""
    if len(classes) < 2:
        raise ProblemError(
            f"{name} holds a single class, {shown(classes[0])}; with only one class there is nothing to tell apart: "
            "give at least two"
        )


def shown(label: Any) -> str:
    """A label as its user wrote it: 1, not np.int64(1)."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def classes_with_weight(counts: NDArray, classes: NDArray) -> NDArray:
    """Indices of the classes that have points of positive weight, from how many each has; at least two, or an error."""
    present = np.flatnonzero(counts)
    if len(present) < 2:
        raise ProblemError(
            f"sample_weight, class_weight: no point of class {shown(classes[int(np.argmin(counts))])} has a positive "
            "weight, and at least two classes need one (Invalid input - all samples with positive weights belong to "
            "the same class)"
        )
    return present


def same(given: NDArray, classes: NDArray) -> None:
    """Refuse other classes than those of the first call."""
    if given.tolist() != classes.tolist():  # not of NumPy: integers and floats are compared as they are
        raise ProblemError(f"classes={given.tolist()} differs from those of earlier calls, {classes.tolist()}")


def codes_of(labels: NDArray, classes: NDArray) -> NDArray:
    """Which of the known classes each label is."""
    if labels.dtype.kind != classes.dtype.kind and labels.dtype.kind in "iuf" and classes.dtype.kind in "iuf":
        # NumPy would compare them as floats, in which large integers are equal; Python compares what they are.
        known = {label: code for code, label in enumerate(classes.tolist())}
        codes = np.array([known.get(label, -1) for label in labels.tolist()], dtype=np.intp)
        strange = codes < 0
    else:
        codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        strange = classes[codes] != labels
    if strange.any():
        raise ProblemError(
            f"y holds {np.unique(labels[strange]).tolist()}, none of the classes {classes.tolist()} of the first call"
        )
    return codes


def names_not_in(class_weight: Any, classes: NDArray) -> list[Any]:
    """Labels that a dict of class weights names and that are none of the classes."""
    known = set(classes.tolist())
    return [label for label in class_weight if label not in known] if isinstance(class_weight, dict) else []


def class_weights(class_weight: Any, classes: NDArray, y: NDArray) -> NDArray:
    """One weight a class, 1 for a class that a dict does not name.

    A dict that names every class may name others too: a fold does not hold all classes of its data. One that names
    others and leaves out classes of ``y`` is an error, for the names are probably misspelt.
    """
    if isinstance(class_weight, dict):
        known = classes.tolist()
        unknown, missing = names_not_in(class_weight, classes), [label for label in known if label not in class_weight]
        if unknown and missing:
            raise ProblemError(
                f"class_weight names {unknown!r}, but y holds {known!r}, of which {missing!r} have no weight; name all "
                "classes of y, or no others"
            )
        class_weight = {label: weight for label, weight in class_weight.items() if label not in unknown}
    if class_weight is None:
        return filled(len(classes), 1.0)
    weight = np.asarray(compute_class_weight(class_weight, classes=classes, y=y), dtype=float)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ProblemError(f"class_weight must be finite and ≥ 0, found {weight.tolist()}")
    return weight


def winners(values: NDArray, classes: int, break_ties: bool = False) -> NDArray:
    """The class each row of decision values is for, as an index.

    Parameters
    ----------
    values : array of shape (n, n_pairs)
        Two classes: positive for the second. More: positive for the first class of the pair (0, 1), (0, 2), …
    classes : int
    break_ties : bool
        Whether ties of votes are settled by the "ovr" decision values rather than by the order of the classes.
    """
    if classes == 2:
        return (values[:, 0] >= 0).astype(int)
    if break_ties:
        return np.argmax(_ovr_decision_function(values < 0, -values, classes), axis=1)
    votes = np.zeros((len(values), classes), dtype=int)
    for k, (i, j) in enumerate(combinations(range(classes), 2)):
        votes[:, i] += values[:, k] > 0
        votes[:, j] += values[:, k] <= 0
    return np.argmax(votes, axis=1)
