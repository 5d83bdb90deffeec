"""Sparse points from a file of svmlight's and LIBSVM's format."""

from __future__ import annotations

from scipy import sparse

from ..exceptions import ProblemError
from ..interchange.svmlight import parsed
from .sources import Source
from .table import Sparse

__all__ = ["SUFFIXES", "read_svmlight"]

SUFFIXES = (".svm", ".svmlight", ".libsvm", ".svm.gz", ".svmlight.gz", ".libsvm.gz")


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
    with source.open() as file:
        X, y = parsed(file, source.name, None, True)
    least = int(X.indices.min()) if len(X.indices) else 1
    first = min(least, 1) if first is None else first
    if least < first:
        raise ProblemError(f"{source.name} has index 0, and the model's features begin with 1")
    width = X.shape[1] - first
    if n_features is not None and width > n_features:
        found = X.shape[1] - 1
        raise ProblemError(f"{source.name} has index {found}, and the model was trained with {n_features} features")
    if not (width := width if n_features is None else n_features) > 0:
        raise ProblemError(f"{source.name} has no features; lines of label index:value … are needed")
    X = sparse.csr_array((X.data, X.indices - first, X.indptr), shape=(X.shape[0], width))
    return Sparse(source.name, X, [str(label) for label in y.tolist()], first)
