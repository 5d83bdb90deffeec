"""The one door for data: what scikit-learn's validation lets through or explains badly, and clean arrays past it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, time, timedelta
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _check_sample_weight, validate_data

from ..core.kernel_checks import is_finite
from ..core.sparse_points import check_indices, is_sparse
from ..core.values import filled
from ..exceptions import ProblemError
from ._labels import are_words

__all__ = ["are_things", "checked_data", "checked_weight", "exact_labels", "kept_weight"]

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
