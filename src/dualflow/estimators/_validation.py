"""The one door for data: what scikit-learn's validation lets through or explains badly, and clean arrays past it.

Labels as numbers, what each class weighs, and which one wins.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time, timedelta
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import _check_sample_weight, validate_data

from ..core._points import small_numbers, two_labels
from ..core.kernel_functions import is_finite
from ..core.runtime.arrays import filled
from ..core.sparse_points import check_indices, is_sparse
from ..exceptions import ProblemError

__all__ = [
    "are_things",
    "are_words",
    "checked_data",
    "checked_weight",
    "class_weights",
    "classes_with_weight",
    "codes_of",
    "encode",
    "exact_labels",
    "kept_weight",
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


#: Columns that an error names.
MOST_NAMED = 5
#: Least and largest sample weight above 0: sums and squares of C times weights stay within float64.
WEIGHT_RANGE = 1e-100, 1e100


def checked_data(
    model: Any, X: ArrayLike, *y: ArrayLike, first: bool, least: int = 1, numeric: bool = False
) -> tuple[NDArray, ...]:
    """X of shape (n, n_features), float64 and finite, and y of shape (n,) if it is given; maybe the caller's own.

    Sparse X, from models that take it, is CSR then, and may have duplicates. The ``first`` ones fix n_features_in_ and
    feature_names_in_, others have to agree with them; there must be at ``least`` so many points; ``numeric`` is a y
    that holds no labels.
    """
    # scikit-learn's validation takes as long as a small fit, or as it takes to learn twenty points of a stream.
    plain, labels = _plain(X, 2), [_plain(array, 1, not numeric) for array in y]
    if plain is not None and len(plain) >= least:
        agree = [array for array in labels if array is not None and len(array) == len(plain)]
        known = first or (plain.shape[1] == model.n_features_in_ and not hasattr(model, "feature_names_in_"))
        if known and len(agree) == len(y):
            if first:
                model.n_features_in_ = plain.shape[1]
                model.__dict__.pop("feature_names_in_", None)
            return plain, *agree
    if is_sparse(X):
        _reject_sparse(model)
        check_indices(X, "X")
    else:
        _reject_unfit(X)
    for array in y:
        _reject_mixed_labels(array)
    if not numeric:
        y = tuple(map(exact_labels, y))
    wanted: dict[str, Any] = {"dtype": np.float64, "order": "C", "ensure_min_samples": least, "reset": first}
    if model._takes_sparse and not _is_precomputed(model):  # frames may hold sparse columns, too
        wanted["accept_sparse"] = "csr"
    found = validate_data(model, X, *y, **wanted, **({"y_numeric": True} if numeric else {}))
    return found if y else (found,)


def checked_weight(sample_weight: ArrayLike | None, X: NDArray) -> NDArray:
    """Finite weights ≥ 0, one a point, not all of them 0."""
    if sample_weight is None:
        return filled(X.shape[0], 1.0)
    if not np.any(np.asarray(sample_weight)):
        raise ProblemError("sample_weight is zero for every point; nothing is left to fit")
    weight: NDArray = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ProblemError(f"sample_weight must be ≥ 0, found {weight.min():.6g}")
    _check_range(weight)
    return weight


def kept_weight(sample_weight: ArrayLike | None, X: NDArray) -> NDArray:
    """Finite weights ≥ 0, not all of them 0; those below 0 take a point out as 0 does, for LIBSVM has it so."""
    if sample_weight is None:
        return filled(X.shape[0], 1.0)
    given = np.asarray(sample_weight)
    if given.dtype.kind in "biuf" and (given <= 0).all():  # a NaN is not
        raise ProblemError(
            "sample_weight: Invalid input - all samples have zero or negative weights. Nothing is left to fit; give "
            "weights above 0"
        )
    weight: NDArray = _check_sample_weight(sample_weight, X, dtype=np.float64)
    weight = np.maximum(weight, 0.0)
    _check_range(weight)
    return weight


def _check_range(weight: NDArray) -> None:
    """Refuse weights whose sums and squares overflow float64 or vanish."""
    least, most = WEIGHT_RANGE
    (wrong,) = np.nonzero((weight > 0) & ((weight < least) | (weight > most)))
    if len(wrong):
        raise ProblemError(
            f"sample_weight: row {wrong[0]} has the weight {weight[wrong[0]]:.6g}; weights above 0 must be between "
            f"{least:.0e} and {most:.0e}: divide them all by one number and multiply C by it, or give 0 to leave a "
            "point out"
        )


def are_things(X: Any) -> bool:
    """Whether points are what only a kernel of one's own knows: text, sequences, graphs."""
    if is_sparse(X) or isinstance(X, np.ma.MaskedArray):
        return False
    try:
        array = np.asarray(X)
    except ValueError:  # sequences of several lengths
        return True
    return array.dtype.kind in "US" or (array.ndim == 1 and array.dtype.kind == "O") or _has_text(array)


def _plain(array: Any, ndim: int, words: bool = False) -> NDArray | None:
    """A float64 matrix, or a vector of numbers (or ``words``), all finite, contiguous; None if it is something else."""
    if type(array) is not np.ndarray or array.ndim != ndim or not array.size:
        return None
    kind = array.dtype.kind
    if kind == "f":
        fine = array.dtype == np.float64 and is_finite(array if ndim == 2 else np.ascontiguousarray(array))
    else:
        fine = ndim == 1 and (kind in "iu" or (words and kind in "UO" and are_words(array)))
    return np.ascontiguousarray(array) if fine else None


def _is_precomputed(model: Any) -> bool:
    return isinstance(kernel := model._as_fitted.kernel, str) and kernel == "precomputed"


def _reject_sparse(model: Any) -> None:
    """From models that do not take sparse data, and where it is a matrix of kernel values."""
    if _is_precomputed(model):
        raise TypeError("Sparse precomputed kernels are not supported, and X is sparse; use X.toarray()")
    if not model._takes_sparse:
        raise TypeError(
            f"X is sparse; {type(model).__name__} needs dense data, use X.toarray(), or SVC, SVDD or SVR, which take "
            "sparse data"
        )


def _reject_unfit(X: Any) -> None:
    """Masks, text, dates, ragged rows."""
    if isinstance(X, np.ma.MaskedArray):
        raise ProblemError("X is a masked array; fill or drop the masked entries first")
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ProblemError(f"X is not a table of numbers (are its rows equally long?): {error}") from None
    text = array.dtype.kind in "US" or _has_text(array)
    if text:
        raise ProblemError(
            f"X holds text{_in_which_columns(X, array, _has_text)}; numbers are needed: encode categories (in "
            "a pipeline, scikit-learn's make_column_transformer((OneHotEncoder(), columns), remainder='passthrough')), "
            "and convert numbers that are written as text with X.astype(float)"
        )
    if _has_dates(array):
        raise ProblemError(
            f"X holds dates, times or durations{_in_which_columns(X, array, _has_dates)}; numbers are needed: make them"
            " numbers that mean something here, e.g. days since a day, (column - start) / pd.Timedelta('1D'), or the "
            "month, column.dt.month, or drop them"
        )


def _has_text(array: NDArray) -> bool:
    return array.dtype.kind == "O" and any(isinstance(entry, (str, bytes)) for entry in array.flat)


def _has_dates(array: NDArray) -> bool:
    """Whether there are dates, times, periods or durations, numpy's, pandas' or Python's."""
    if array.dtype.kind in "Mm":
        return True
    return array.dtype.kind == "O" and any(
        isinstance(entry, (date, time, timedelta, np.datetime64, np.timedelta64)) or hasattr(entry, "to_timestamp")
        for entry in array.flat
    )


def _in_which_columns(X: Any, array: NDArray, holds: Callable[[NDArray], bool]) -> str:
    """Which columns of a table hold what is not wanted, if it is not all of them: by name where they have names."""
    if array.ndim != 2 or array.dtype.kind != "O":
        return ""
    given = getattr(X, "columns", None)
    names = [repr(k) for k in range(array.shape[1])] if given is None else [repr(name) for name in list(given)]
    found = [name for k, name in enumerate(names) if holds(array[:, k])]
    if len(found) == len(names) and given is None:
        return ""
    some = ", ".join(found[:MOST_NAMED]) + (f" and {len(found) - MOST_NAMED} more" if len(found) > MOST_NAMED else "")
    return f" in column{'s' if len(found) > 1 else ''} {some}"


def _reject_mixed_labels(y: Any) -> None:
    """NumPy would turn [1, "a"] into ["1", "a"] without a word."""
    if isinstance(y, np.ma.MaskedArray):
        raise ProblemError("y is a masked array; fill or drop the masked entries first")
    if isinstance(y, (list, tuple)) or getattr(getattr(y, "dtype", None), "kind", "") == "O":
        text = {isinstance(label, str) for label in np.asarray(y, dtype=object).flat}
        if len(text) == 2:
            raise ProblemError("y mixes text with other labels (or missing ones); give labels of one type")


def exact_labels(y: Any, name: str = "y") -> Any:
    """The labels, nullable integers of pandas as plain ones; ProblemError where NumPy would make one label of two: it
    turns integers that no integer dtype holds into floats, and drops NUL characters, without a word."""
    dtype: Any = getattr(y, "dtype", None)
    if getattr(dtype, "kind", "") in "iu" and hasattr(dtype, "numpy_dtype") and not y.isna().any():
        return y.to_numpy(dtype.numpy_dtype)  # scikit-learn would take floats
    if isinstance(y, (list, tuple)):
        kind = np.asarray(y, dtype=None if _is_flat(y) else object).dtype.kind
        if kind == "U" and any(isinstance(label, str) and label.endswith("\0") for label in y):
            raise ProblemError(f"{name} holds text that ends in NUL characters, which NumPy drops; take them off")
        whole = [int(label) for label in y if isinstance(label, (int, np.integer))] if kind == "f" else []
        if any(float(label) != label for label in whole):
            raise ProblemError(
                f"{name} holds integers as large as {max(whole, key=abs)}, and no integer dtype holds all its labels; "
                "as floats some would be equal: give text, [str(label) for label in y]"
            )
    return y


def _is_flat(y: Any) -> bool:
    return not any(isinstance(label, (list, tuple, np.ndarray)) for label in y)
