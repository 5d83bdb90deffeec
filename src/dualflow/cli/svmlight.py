"""Sparse points from a file of svmlight's and LIBSVM's format, by scikit-learn's reader."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from ..exceptions import ProblemError
from .csv_data import MAX_LINE
from .sources import Source
from .table import Sparse

__all__ = ["MAX_FEATURES", "SUFFIXES", "read_svmlight"]

SUFFIXES = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")
#: Largest index of a feature: what is made of it (weights, means) has so many entries.
MAX_FEATURES = 1 << 22

#: Floats below this hold whole numbers exactly.
_WHOLE = 2.0**53

_LINE = re.compile(rb"\s*[+-]?[\d.]\S*(\s+qid:\d+)?(\s+\d+:[+-]?[\d.]\S*)*\s*(#.*)?", re.ASCII)


def read_svmlight(source: Source, first: int | None = None, n_features: int | None = None) -> Sparse:
    """X in CSR and the labels.

    Parameters
    ----------
    source : Source
        gz or not.
    first : {0, 1, None}
        Index of the first feature; None: 0 if any index is, else 1.
    n_features : int, optional
        Of the model the points are for; by default the largest index.

    Raises
    ------
    ProblemError
        No such file, or damaged; the message names file and line.
    """
    from sklearn.datasets import load_svmlight_file

    try:
        with source.open() as file:
            X, y = load_svmlight_file(file, zero_based=True)
    except ProblemError:
        raise
    except (ValueError, OverflowError, IndexError) as error:
        raise ProblemError(f"{source.name}{_first_bad(source)} is not svmlight: {str(error)[:200]}") from None
    if not X.shape[0]:
        raise ProblemError(f"{source.name} is empty; lines of label index:value … are needed")
    if X.shape[1] > MAX_FEATURES:
        raise ProblemError(f"{source.name} has index {X.shape[1] - 1}; at most MAX_FEATURES={MAX_FEATURES} are read")
    if not np.isfinite(y).all() or not np.isfinite(X.data).all():
        raise ProblemError(f"{source.name}{_first_bad(source)} holds NaN or infinity")
    if first is None:
        first = 0 if len(X.indices) and X.indices.min() == 0 else 1
    if first:
        if len(X.indices) and X.indices.min() == 0:
            raise ProblemError(f"{source.name} has index 0, and the model's features begin with 1")
        X = X[:, 1:]
    if n_features is not None:
        if X.shape[1] > n_features:
            found = X.shape[1] - 1 + first
            raise ProblemError(f"{source.name} has index {found}, and the model was trained with {n_features} features")
        X.resize(X.shape[0], n_features)
    if not X.shape[1]:
        raise ProblemError(f"{source.name} has no features; lines of label index:value … are needed")
    labels = [str(int(v)) if v == int(v) and abs(v) < _WHOLE else repr(v) for v in y.tolist()]
    return Sparse(source.name, X, labels, first)


def _first_bad(source: Source) -> str:
    """The first line that is not as it should be, as ", line 7"."""
    with source.open() as file:
        number = 0
        while line := file.readline(MAX_LINE):
            number += 1
            body = line.partition(b"#")[0]
            if not body.strip():
                continue
            indices = [int(word) for word in re.findall(rb"\s(\d{1,18}):", body)]
            endless = re.search(rb"[:\s][+-]?(nan|inf)|^\s*[+-]?(nan|inf)", body, re.IGNORECASE)
            ordered = all(a < b for a, b in pairwise(indices))
            if endless or not ordered or not _LINE.fullmatch(line.rstrip(b"\r\n")):
                return f", line {number}"
    return ""
