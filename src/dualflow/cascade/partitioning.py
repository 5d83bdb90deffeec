"""Conversion of the user's data to a list of parts, and the choice of the rows of each part."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..core.runtime.arrays import is_dask
from ..exceptions import ProblemError
from .parts import Chunk, Mapped, Part, Rows

#: Ways to choose the rows of each part.
PARTITIONERS = ("random", "clusters", "given")

#: Rows that k-means is fitted to. More do not improve the centres, and data in a file need not be read.
N_SAMPLE_ROWS = 20_000


def is_parts(X: Any) -> bool:
    """Return whether X is a list of parts."""
    return isinstance(X, (list, tuple)) and bool(X) and all(callable(getattr(part, "load", None)) for part in X)


def parts_of(
    X: NDArray, y: NDArray, weight: NDArray | None, count: int, partitioner: str, rng: np.random.Generator
) -> list[Part]:
    """Return arrays as parts; memory-mapped arrays stay in their file.

    Parameters
    ----------
    X : array of shape (n, m)
    y, weight : array of shape (n,)
    count : int
        Number of parts; no part is empty, so that there may be fewer.
    partitioner : {"random", "clusters", "given"}
        "random" deals out the rows of each class at random, "clusters" puts rows near each other into the same part
        (Hsieh, Si and Dhillon 2014), "given" keeps the order of the rows.
    rng : numpy.random.Generator
    """
    n = len(X)
    count = min(count, n)
    if partitioner == "given":
        ends = np.linspace(0, n, count + 1).astype(np.intp)
        rows: list[Any] = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
    elif partitioner == "random":
        order = rng.permutation(n)
        # Rows sorted by class are dealt out in turn, so that every part gets its share of every class.
        order = order[np.argsort(_codes(y)[order], kind="stable")]
        rows = [np.sort(order[k::count]) for k in range(count)]
    else:
        cluster = _clusters(X, count, rng)
        rows = [found for k in range(count) if len(found := np.flatnonzero(cluster == k))]
    return [
        Rows(_rows_of(X, own), _rows_of(y, own), None if weight is None else _rows_of(weight, own), own) for own in rows
    ]


def _codes(y: NDArray) -> NDArray:
    """Return the class of each label as a number."""
    return np.unique(np.asarray(y), return_inverse=True)[1]


def _rows_of(array: NDArray, rows: Any) -> NDArray | Mapped:
    """Return the file that holds the rows of a part, or a copy of the rows."""
    return Mapped.of(array) or np.array(array[rows])


def _clusters(X: NDArray, count: int, rng: np.random.Generator) -> NDArray:
    """Return the number of the k-means cluster of each row."""
    from sklearn.cluster import MiniBatchKMeans

    sample = np.sort(rng.choice(len(X), min(len(X), N_SAMPLE_ROWS), replace=False))
    # One initialisation, and mini-batches from one seed: the parts do not depend on the engine.
    means = MiniBatchKMeans(count, random_state=int(rng.integers(2**31 - 1)), n_init=1)
    means.fit(np.asarray(X[sample], dtype=float))
    parts = [means.predict(np.asarray(X[k : k + N_SAMPLE_ROWS], dtype=float)) for k in range(0, len(X), N_SAMPLE_ROWS)]
    return np.concatenate(parts)


def chunks_of(X: Any, y: Any, weight: Any) -> list[Chunk]:
    """Return the chunks of dask arrays, or the partitions of dataframes, as parts; columns are not split."""
    columns = [delayed_chunks(X, "X")]
    for array, name in ((y, "y"), (weight, "sample_weight")):
        if array is None and name == "sample_weight":
            continue
        if not is_dask(array):
            raise ProblemError(f"X is a dask collection, but {name} is a {type(array).__name__}; give one of dask")
        columns.append(delayed_chunks(array, name))
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise ProblemError(
            f"X, y and sample_weight have {[len(column) for column in columns]} chunks, but need equal numbers; "
            "rechunk arrays alike, or take y and X from one dataframe"
        )
    return [Chunk(*row) for row in zip(*columns, strict=True)]


def delayed_chunks(array: Any, name: str) -> list[Any]:
    """Return the chunks along the rows; an array that is also split along its columns is rechunked first."""
    if getattr(array, "ndim", 1) == 2 and hasattr(array, "rechunk"):
        array = array.rechunk({1: -1})
    found = array.to_delayed()
    return list(np.asarray(found, dtype=object).ravel())
