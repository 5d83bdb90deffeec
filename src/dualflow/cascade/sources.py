"""From what the user gives to a list of parts: how many, and which rows go together."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from .parts import Chunk, Mapped, Part, Rows

__all__ = ["PARTITIONERS", "chunks_of", "is_dask", "is_parts", "parts_of"]

PARTITIONERS = ("random", "clusters", "given")

#: Rows that k-means is fitted to: centres need no more, and data in a file stay there.
SAMPLE = 20_000


def is_dask(X: Any) -> bool:
    """Whether this is a dask array or dataframe; dask is not imported to find out."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "to_delayed")


def is_parts(X: Any) -> bool:
    """Whether this is a list of parts."""
    return isinstance(X, (list, tuple)) and bool(X) and all(callable(getattr(part, "load", None)) for part in X)


def parts_of(
    X: NDArray, y: NDArray, weight: NDArray | None, count: int, partitioner: str, rng: np.random.Generator
) -> list[Part]:
    """Arrays as parts; what is mapped stays in its file.

    Parameters
    ----------
    X : array of shape (n, m)
    y, weight : array of shape (n,)
    count : int
        Parts wanted; no part is empty, so that there may be fewer.
    partitioner : {"random", "clusters", "given"}
        "random" deals the rows of each class out by chance, "clusters" puts rows that are near each other into a part
        (Hsieh, Si and Dhillon 2014), "given" leaves them in their order.
    rng : numpy.random.Generator
    """
    n = len(X)
    count = min(count, n)
    if partitioner == "given":
        ends = np.linspace(0, n, count + 1).astype(np.intp)
        rows: list[Any] = [slice(int(a), int(b)) for a, b in itertools.pairwise(ends)]
    elif partitioner == "random":
        order = rng.permutation(n)
        # By class and then dealt out like cards: every part has of every class its share.
        order = order[np.argsort(_codes(y)[order], kind="stable")]
        rows = [np.sort(order[k::count]) for k in range(count)]
    else:
        near = _clusters(X, count, rng)
        rows = [found for k in range(count) if len(found := np.flatnonzero(near == k))]
    return [Rows(_held(X, own), _held(y, own), None if weight is None else _held(weight, own), own) for own in rows]


def _codes(y: NDArray) -> NDArray:
    return np.unique(np.asarray(y), return_inverse=True)[1]


def _held(array: NDArray, rows: Any) -> NDArray | Mapped:
    """Where the rows of a part are from now on: in the file they are in, or in a copy."""
    return Mapped.of(array) or np.array(array[rows])


def _clusters(X: NDArray, count: int, rng: np.random.Generator) -> NDArray:
    from sklearn.cluster import MiniBatchKMeans

    few = np.sort(rng.choice(len(X), min(len(X), SAMPLE), replace=False))
    # One initialisation, and batches, by one seed: the same parts whatever the engine.
    means = MiniBatchKMeans(count, random_state=int(rng.integers(2**31 - 1)), n_init=1)
    means.fit(np.asarray(X[few], dtype=float))
    parts = [means.predict(np.asarray(X[k : k + SAMPLE], dtype=float)) for k in range(0, len(X), SAMPLE)]
    return np.concatenate(parts)


def chunks_of(X: Any, y: Any, weight: Any) -> list[Part]:
    """The chunks of dask arrays, or the partitions of dataframes, as parts; columns are not split."""
    columns = [_delayed(X, "X")]
    for array, name in ((y, "y"), (weight, "sample_weight")):
        if array is None and name == "sample_weight":
            continue
        if not is_dask(array):
            raise ProblemError(f"X is a dask collection, and {name} is a {type(array).__name__}; give one of dask")
        columns.append(_delayed(array, name))
    counts = {len(column) for column in columns}
    if len(counts) > 1:
        raise ProblemError(
            f"X, y and sample_weight have {[len(column) for column in columns]} chunks: they must go together; rechunk "
            "arrays alike, and take y and X from one dataframe"
        )
    return [Chunk(*row) for row in zip(*columns, strict=True)]


def _delayed(array: Any, name: str) -> list[Any]:
    """The chunks along the rows; columns of an array that is split there too are put together."""
    if getattr(array, "ndim", 1) == 2 and hasattr(array, "rechunk"):
        array = array.rechunk({1: -1})
    found = array.to_delayed()
    return list(np.asarray(found, dtype=object).ravel())
