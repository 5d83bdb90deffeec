"""Validate data, labels and weights.

`checked_data` returns clean arrays: it refuses what scikit-learn's validation accepts or explains badly, and skips
that validation for arrays that need none. Other functions encode labels, compute class and sample weights, and count
the votes of pairs of classes.
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

from ..core._points import all_finite, small_numbers, two_labels
from ..core.runtime.arrays import filled, is_dask
from ..core.sparse_points import check_indices, is_sparse
from ..exceptions import ProblemError


def are_words(labels: NDArray) -> bool:
    """Whether all labels are text."""
    return labels.dtype.kind == "U" or (labels.dtype.kind == "O" and set(map(type, labels.flat)) == {str})


def encode(labels: NDArray) -> tuple[NDArray, NDArray]:
    """Return the sorted classes and the index of each label's class; ValueError for labels that cannot be classes."""
    if are_words(labels):  # sorting all labels as text takes longer than a small fit
        listed = labels.tolist()
        found = sorted(set(listed))
        place = {word: code for code, word in enumerate(found)}
        return np.array(found, dtype=labels.dtype), np.array([place[word] for word in listed], dtype=np.intp)
    # scikit-learn's check takes as long as a small fit; only fractions and objects need it.
    if (known := _of_numbers(labels)) is not None:
        return known
    is_whole = labels.dtype.kind == "f" and np.array_equal(labels, np.rint(labels))
    if not is_whole and labels.dtype.kind not in "biuUS":
        check_classification_targets(labels)
    classes, codes = np.unique(labels, return_inverse=True)
    return classes, codes


def _of_numbers(labels: NDArray) -> tuple[NDArray, NDArray] | None:
    """Return `encode` of small whole numbers, or of two whole numbers, without sorting; None for other labels."""
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


def require_two_classes(classes: NDArray, name: str) -> None:
    """Raise `ProblemError` for a single class."""
    if len(classes) < 2:
        raise ProblemError(
            f"{name} holds a single class, {label_text(classes[0])}; with only one class there is nothing to tell "
            "apart: give at least two"
        )


def label_text(label: Any) -> str:
    """Return a label as text in the user's form: 1, not np.int64(1)."""
    return repr(label.item() if isinstance(label, np.generic) else label)


def classes_with_weight(counts: NDArray, classes: NDArray) -> NDArray:
    """Return the indices of the classes that have points of positive weight; `ProblemError` for fewer than two.

    ``counts`` holds the number of such points of each class.
    """
    present = np.flatnonzero(counts)
    if len(present) < 2:
        absent = label_text(classes[int(np.argmin(counts))])
        raise ProblemError(
            f"sample_weight, class_weight: no point of class {absent} has a positive weight, and at least two classes "
            "need one (Invalid input - all samples with positive weights belong to the same class; for NuSVC: "
            "specified nu is infeasible)"
        )
    return present


def check_same_classes(given: NDArray, classes: NDArray) -> None:
    """Raise `ProblemError` for other classes than those of the first call."""
    if given.tolist() != classes.tolist():  # Python compares large integers with floats exactly, NumPy does not
        raise ProblemError(f"classes={given.tolist()} differs from those of earlier calls, {classes.tolist()}")


def codes_of(labels: NDArray, classes: NDArray) -> NDArray:
    """Return the index of each label among the known classes; `ProblemError` for a label that is none of them."""
    if labels.dtype.kind != classes.dtype.kind and labels.dtype.kind in "iuf" and classes.dtype.kind in "iuf":
        # NumPy would compare them as floats, in which large integers may be equal; Python compares them exactly.
        known = {label: code for code, label in enumerate(classes.tolist())}
        codes = np.array([known.get(label, -1) for label in labels.tolist()], dtype=np.intp)
        is_unknown = codes < 0
    else:
        codes = np.minimum(np.searchsorted(classes, labels), len(classes) - 1)
        is_unknown = classes[codes] != labels
    if is_unknown.any():
        unknown = np.unique(labels[is_unknown]).tolist()
        raise ProblemError(f"y holds {unknown}, none of the classes {classes.tolist()} of the first call")
    return codes


def names_not_in(class_weight: Any, classes: NDArray) -> list[Any]:
    """Return the labels in a dict of class weights that are none of the classes."""
    known = set(classes.tolist())
    return [label for label in class_weight if label not in known] if isinstance(class_weight, dict) else []


def class_weights(class_weight: Any, classes: NDArray, y: NDArray) -> NDArray:
    """Return one weight a class, 1 for a class that a dict does not name.

    A dict that names every class may also name others, because a fold may lack classes of its data. A dict that names
    others and lacks classes of ``y`` is an error: its names are probably misspelt.
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
        return np.ones(len(classes))
    weight = np.asarray(compute_class_weight(class_weight, classes=classes, y=y), dtype=float)
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise ProblemError(f"class_weight must be finite and ≥ 0, found {weight.tolist()}")
    return weight


def stream_class_weights(class_weight: Any, classes: NDArray) -> NDArray:
    """Return one weight above 0 a class of a stream, whose points are not known yet: 1 where a dict names none."""
    if not (class_weight is None or isinstance(class_weight, dict)):
        raise ProblemError(
            f"class_weight={class_weight!r}: a stream takes a dict of factors by label, or None; 'balanced' would "
            "change the bounds of all points with every new one"
        )
    weight = class_weights(class_weight, classes, classes)
    if not (weight > 0).all():
        raise ProblemError(f"class_weight must be above 0 in a stream, found {weight.tolist()}: leave points out")
    return weight


def winners(values: NDArray, classes: int, break_ties: bool = False) -> NDArray:
    """Return the predicted class of each row of decision values, as an index.

    Parameters
    ----------
    values : array of shape (n, n_pairs)
        With two classes positive for the second; with more positive for the first class of the pair (0, 1), (0, 2), …
    classes : int
        Number of classes.
    break_ties : bool
        Whether the "ovr" decision values, instead of the order of the classes, break ties between votes.
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


#: Columns that an error message names before it only counts the rest.
MAX_NAMED_COLUMNS = 5
#: What an error says of dates, in y as in X.
NUMBERS_FOR_DATES = (
    "numbers are needed: make them numbers that mean something here, e.g. days since a day, "
    "(column - start) / pd.Timedelta('1D'), or the month, column.dt.month"
)
#: Smallest sample weight above 0; with it, sums and squares of C times weights do not vanish in float64.
MIN_WEIGHT = 1e-100
#: Largest sample weight; with it, sums and squares of C times weights do not overflow float64.
MAX_WEIGHT = 1e100


def checked_data(
    model: Any, X: ArrayLike, *y: ArrayLike, first: bool, least: int = 1, numeric: bool = False
) -> tuple[NDArray, ...]:
    """Return X of shape (n, n_features), float64 and finite, and y of shape (n,) if it is given.

    The arrays may be the caller's own. Sparse X becomes CSR, possibly with duplicate entries, if the model accepts it.

    Parameters
    ----------
    model : estimator
    X, *y : array-likes
    first : bool
        Whether these data set n_features_in_ and feature_names_in_; otherwise they must agree with them.
    least : int
        Minimum number of points.
    numeric : bool
        Whether y holds numbers instead of labels.
    """
    # The shortcut: scikit-learn's validation takes as long as a small fit, or as learning twenty points of a stream.
    plain, labels = _plain(X, 2), [_plain(array, 1, not numeric) for array in y]
    if plain is not None and len(plain) >= least:
        matching = [array for array in labels if array is not None and len(array) == len(plain)]
        has_features = first or (plain.shape[1] == model.n_features_in_ and not hasattr(model, "feature_names_in_"))
        if has_features and len(matching) == len(y):
            if first:
                model.n_features_in_ = plain.shape[1]
                model.__dict__.pop("feature_names_in_", None)
            return plain, *matching
    if is_dask(X):
        raise ProblemError(
            f"X is a dask {type(X).__name__.lower()}, and {type(model).__name__} needs all rows in this process: give "
            "X.compute() if they fit in memory; CascadeSVC and PartitionedLinearSVC (-SVR, -SVDD) fit data in chunks"
        )
    if is_sparse(X):
        _reject_sparse(model, first)
        check_indices(X, "X")
        rows: Any = X
        matching = [array for array in labels if array is not None and len(array) == rows.shape[0]]
        has_features = first or (rows.shape[1] == model.n_features_in_ and not hasattr(model, "feature_names_in_"))
        if _is_plain_csr(rows, least) and has_features and len(matching) == len(y):
            if first:
                model.n_features_in_ = rows.shape[1]
                model.__dict__.pop("feature_names_in_", None)
            return rows, *matching
    else:
        _reject_unfit(X)
    for array in y:
        _reject_mixed_labels(array)
        if numeric and _has_dates(np.asarray(array)):
            raise ProblemError(f"y holds dates, times or durations; {NUMBERS_FOR_DATES}")
    if not numeric:
        y = tuple(map(exact_labels, y))
    options: dict[str, Any] = {"dtype": np.float64, "order": "C", "ensure_min_samples": least, "reset": first}
    if model._takes_sparse and not _is_precomputed(model):  # data frames may hold sparse columns, too
        options["accept_sparse"] = "csr"
    found = validate_data(model, X, *y, **options, **({"y_numeric": True} if numeric else {}))
    return found if y else (found,)


def checked_weight(sample_weight: ArrayLike | None, X: NDArray) -> NDArray:
    """Return the sample weights: finite, ≥ 0, not all of them 0; 1 for each point if None is given."""
    if sample_weight is None:
        return filled(X.shape[0], 1.0)
    if not np.any(np.asarray(sample_weight)):
        raise ProblemError("sample_weight is zero for every point; nothing is left to fit")
    weight: NDArray = _check_sample_weight(sample_weight, X, dtype=np.float64)
    if (weight < 0).any():
        raise ProblemError(f"sample_weight must be ≥ 0, found {weight.min():.6g}")
    _check_range(weight)
    return weight


def nonnegative_weight(sample_weight: ArrayLike | None, X: NDArray) -> NDArray:
    """Return the sample weights: finite, not all of them 0, and 0 for those below 0, as in LIBSVM."""
    if sample_weight is None:
        return np.ones(X.shape[0])
    given = np.asarray(sample_weight)
    if given.dtype.kind in "biuf" and (given <= 0).all():  # false if there is a NaN, which is refused below
        raise ProblemError(
            "sample_weight: Invalid input - all samples have zero or negative weights. Nothing is left to fit; give "
            "weights above 0"
        )
    weight: NDArray = _check_sample_weight(sample_weight, X, dtype=np.float64)
    weight = np.maximum(weight, 0.0)
    _check_range(weight)
    return weight


def rows_of_weight(sample_weight: ArrayLike | None, X: NDArray) -> tuple[NDArray, NDArray | None]:
    """Return the rows with a weight above 0, and their `nonnegative_weight`; all rows, and None, without weights."""
    if sample_weight is None:
        return np.arange(X.shape[0]), None
    weight = nonnegative_weight(sample_weight, X)
    (rows,) = (weight > 0).nonzero()
    return rows, weight[rows]


def _check_range(weight: NDArray) -> None:
    """Raise `ProblemError` for weights whose sums and squares may overflow float64 or vanish."""
    (wrong,) = np.nonzero((weight > 0) & ((weight < MIN_WEIGHT) | (weight > MAX_WEIGHT)))
    if len(wrong):
        raise ProblemError(
            f"sample_weight: row {wrong[0]} has the weight {weight[wrong[0]]:.6g}; weights above 0 must be between "
            f"{MIN_WEIGHT:.0e} and {MAX_WEIGHT:.0e}: divide them all by one number and multiply C by it, or give 0 to "
            "leave a point out"
        )


def are_objects(X: Any) -> bool:
    """Whether X holds objects that only a callable kernel can compare: texts, sequences, graphs."""
    if is_sparse(X) or isinstance(X, np.ma.MaskedArray):
        return False
    try:
        array = np.asarray(X)
    except ValueError:  # sequences of different lengths
        return True
    return array.dtype.kind in "US" or (array.ndim == 1 and array.dtype.kind == "O") or _has_text(array)


def _plain(array: Any, ndim: int, words: bool = False) -> NDArray | None:
    """Return the array, contiguous, if it needs no validation, else None.

    That is a finite float64 matrix, or a finite vector of numbers, or with ``words`` one of texts.
    """
    if type(array) is not np.ndarray or array.ndim != ndim or not array.size:
        return None
    array, kind = np.ascontiguousarray(array), array.dtype.kind
    if kind == "f":
        is_plain = array.dtype == np.float64 and all_finite(array)
    else:
        is_plain = ndim == 1 and (kind in "iu" or (words and kind in "UO" and are_words(array)))
    return array if is_plain else None


def _is_plain_csr(X: Any, least: int) -> bool:
    """Whether a sparse matrix, whose indices are valid, needs no further validation: finite float64 CSR."""
    if X.format != "csr" or X.ndim != 2 or X.dtype != np.float64 or X.shape[0] < max(least, 1) or X.shape[1] < 1:
        return False
    return bool(np.isfinite(X.data).all())


def _is_precomputed(model: Any) -> bool:
    return isinstance(kernel := model._as_fitted.kernel, str) and kernel == "precomputed"


def _reject_sparse(model: Any, first: bool) -> None:
    """Raise TypeError for sparse X if it is a kernel matrix or the model does not accept it.

    As in scikit-learn, a fitted model of dense points raises `ProblemError` for sparse new ones, unless its kernel is a
    callable.
    """
    if _is_precomputed(model):
        raise TypeError("Sparse precomputed kernels are not supported, and X is sparse; use X.toarray()")
    if not model._takes_sparse:
        raise TypeError(
            f"X is sparse; {type(model).__name__} needs dense data, use X.toarray(), or SVC, SVDD or SVR, which take "
            "sparse data"
        )
    if not first and not model._sparse and not callable(model._as_fitted.kernel):
        raise ProblemError(
            f"X: cannot use sparse input in {type(model).__name__!r} trained on dense data; use X.toarray(), or fit on "
            "sparse data"
        )


def _reject_unfit(X: Any) -> None:
    """Raise `ProblemError` for X with masks, text, dates, or rows of different lengths."""
    if isinstance(X, np.ma.MaskedArray):
        raise ProblemError("X is a masked array; fill or drop the masked entries first")
    try:
        array = np.asarray(X)
    except (ValueError, np.exceptions.DTypePromotionError) as error:
        raise ProblemError(f"X is not a table of numbers (are its rows equally long?): {error}") from None
    text = array.dtype.kind in "US" or _has_text(array)
    if text:
        raise ProblemError(
            f"X holds text{_in_which_columns(X, array, _has_text)}; numbers are needed: encode categories (in "
            "a pipeline, scikit-learn's make_column_transformer((OneHotEncoder(), columns), remainder='passthrough')), "
            "and convert numbers that are written as text with X.astype(float)"
        )
    temporal = _temporal_columns(X)
    if temporal or _has_dates(array):
        where = _named(temporal) if temporal else _in_which_columns(X, array, _has_dates)
        raise ProblemError(f"X holds dates, times or durations{where}; {NUMBERS_FOR_DATES}, or drop them")


def _temporal_columns(X: Any) -> list[str]:
    """Return the names of a polars frame's columns of dates, times or durations, which NumPy reads as numbers."""
    dtypes = getattr(X, "dtypes", None)
    if not isinstance(dtypes, list):  # pandas has a Series; its dates are dates for NumPy, too
        return []
    return [repr(name) for name, dtype in zip(X.columns, dtypes, strict=True) if dtype.is_temporal()]


def _has_text(array: NDArray) -> bool:
    return array.dtype.kind == "O" and any(isinstance(entry, (str, bytes)) for entry in array.flat)


def _has_dates(array: NDArray) -> bool:
    """Whether an array holds dates, times, periods or durations of NumPy, pandas or Python."""
    if array.dtype.kind in "Mm":
        return True
    return array.dtype.kind == "O" and any(
        isinstance(entry, (date, time, timedelta, np.datetime64, np.timedelta64)) or hasattr(entry, "to_timestamp")
        for entry in array.flat
    )


def _in_which_columns(X: Any, array: NDArray, holds: Callable[[NDArray], bool]) -> str:
    """Return text that names the columns for which ``holds`` is true; empty if X has no names and all columns do."""
    if array.ndim != 2 or array.dtype.kind != "O":
        return ""
    given = getattr(X, "column_names", getattr(X, "columns", None))  # the former in pyarrow
    names = [repr(k) for k in range(array.shape[1])] if given is None else [repr(name) for name in list(given)]
    found = [name for k, name in enumerate(names) if holds(array[:, k])]
    if len(found) == len(names) and given is None:
        return ""
    return _named(found)


def _named(names: list[str]) -> str:
    """Return text that names columns."""
    more = f" and {len(names) - MAX_NAMED_COLUMNS} more" if len(names) > MAX_NAMED_COLUMNS else ""
    return f" in column{'s' if len(names) > 1 else ''} {', '.join(names[:MAX_NAMED_COLUMNS])}{more}"


def _reject_mixed_labels(y: Any) -> None:
    """Raise `ProblemError` for labels that mix text and others: NumPy silently turns [1, "a"] into ["1", "a"]."""
    if isinstance(y, np.ma.MaskedArray):
        raise ProblemError("y is a masked array; fill or drop the masked entries first")
    if isinstance(y, (list, tuple)) or getattr(getattr(y, "dtype", None), "kind", "") == "O":
        text = {isinstance(label, str) for label in np.asarray(y, dtype=object).flat}
        if len(text) == 2:
            raise ProblemError("y mixes text with other labels (or missing ones); give labels of one type")


def exact_labels(y: Any, name: str = "y") -> Any:
    """Return the labels, with pandas' nullable integers as plain ones; `ProblemError` if NumPy would merge two labels.

    NumPy silently turns integers that no integer dtype holds into floats, and drops NUL characters at the end of text.
    """
    dtype: Any = getattr(y, "dtype", None)
    if getattr(dtype, "kind", "") in "iu" and hasattr(dtype, "numpy_dtype") and not y.isna().any():
        return y.to_numpy(dtype.numpy_dtype)  # scikit-learn would convert them to floats
    if isinstance(y, (list, tuple)):
        kind = np.asarray(y, dtype=None if _is_flat(y) else object).dtype.kind
        if kind == "U" and any(isinstance(label, str) and label.endswith("\0") for label in y):
            raise ProblemError(f"{name} holds text that ends in NUL characters, which NumPy drops; take them off")
        integers = [int(label) for label in y if isinstance(label, (int, np.integer))] if kind == "f" else []
        if any(float(label) != label for label in integers):
            raise ProblemError(
                f"{name} holds integers as large as {max(integers, key=abs)}, and no integer dtype holds all its "
                "labels; as floats some would be equal: give text, [str(label) for label in y]"
            )
    return y


def _is_flat(y: Any) -> bool:
    return not any(isinstance(label, (list, tuple, np.ndarray)) for label in y)
