"""Predictions and scores of dask collections, chunk by chunk, where the chunks are.

`by_chunks` lets a method that returns one entry or row a point take a dask array or dataframe. The result is a dask
array, and no row is read until it is computed. `score_by_chunks` computes a score from sums of each chunk.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from ..cascade.partitioning import chunks_of, delayed_chunks
from ..core.runtime.arrays import is_dask

Method = TypeVar("Method", bound=Callable[..., Any])


def by_chunks(method: Method) -> Method:
    """Return a method of X that also takes a dask collection, of which it returns a dask array of the same chunks."""

    @functools.wraps(method)
    def call(model: Any, X: Any) -> Any:
        return _lazily(model, method.__name__, X) if is_dask(X) else method(model, X)

    return cast(Method, call)


def _lazily(model: Any, name: str, X: Any) -> Any:
    """Return a method's values at the points of a dask collection, as a dask array."""
    import dask
    import dask.array

    model._check_fitted()
    # The method of no rows says the type and the width of its result, and checks number and names of the columns.
    none = X._meta if hasattr(X, "columns") else np.empty((0, *X.shape[1:]))
    empty = getattr(model, name)(none)
    chunks = delayed_chunks(X, "X")
    sizes = X.chunks[0] if hasattr(X, "chunks") else (np.nan,) * len(chunks)
    call, shared = dask.delayed(_called, pure=False), _shared(model)
    blocks = [
        dask.array.from_delayed(call(shared, name, chunk), (size, *empty.shape[1:]), empty.dtype)
        for chunk, size in zip(chunks, sizes, strict=True)
    ]
    return dask.array.concatenate(blocks, allow_unknown_chunksizes=True)


def _shared(model: Any) -> Any:
    """Return a model as one object of a graph, which all tasks share; its name is new, since models can change."""
    import dask

    return dask.delayed(model, name=f"{type(model).__name__}-{uuid.uuid4().hex}", traverse=False)


def _called(model: Any, name: str, X: Any) -> NDArray:
    """Return a method's values at the points of a chunk."""
    values: NDArray = getattr(model, name)(X)
    return values


def score_by_chunks(model: Any, X: Any, y: Any, sample_weight: Any, of_chunk: Callable[..., NDArray]) -> NDArray:
    """Return the sums ``of_chunk(y, predicted, weight)`` of every chunk, shape (n_chunks, r).

    y and sample_weight must be dask collections of the same chunks; the predictions stay where the chunks are.
    """
    import dask

    model._check_fitted()
    call, shared = dask.delayed(_sums, pure=False), _shared(model)
    found = dask.compute(*(call(shared, of_chunk, part.delayed()) for part in chunks_of(X, y, sample_weight)))
    return np.array(found)


def _sums(model: Any, of_chunk: Callable[..., NDArray], loaded: Any) -> NDArray:
    """Return the sums of one chunk."""
    y = np.asarray(loaded.y)
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    weight = np.ones(len(y)) if loaded.weight is None else np.asarray(loaded.weight, dtype=float).reshape(len(y))
    return of_chunk(y, model.predict(loaded.X), weight)


def weight_of_correct(y: NDArray, predicted: NDArray, weight: NDArray) -> NDArray:
    """Return the weight of correct predictions, and that of all."""
    return np.array([weight[y == predicted].sum(), weight.sum()])


def accuracy(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return the weighted accuracy of a classifier on dask collections."""
    correct, total = score_by_chunks(model, X, y, sample_weight, weight_of_correct).sum(axis=0)
    return float(correct / total)


def moments_and_loss(y: NDArray, predicted: NDArray, weight: NDArray) -> NDArray:
    """Return weight, mean and sum of squared deviations of y, and the sum of squared errors of predictions."""
    total = weight.sum()
    mean = weight @ y / total if total else 0.0
    return np.array([total, mean, weight @ (y - mean) ** 2, weight @ (y - predicted) ** 2])


def explained_variance(model: Any, X: Any, y: Any, sample_weight: Any) -> float:
    """Return R² of a regressor on dask collections."""
    weight, mean, spread, loss = score_by_chunks(model, X, y, sample_weight, moments_and_loss).T
    joint = weight @ mean / weight.sum()
    return float(1.0 - loss.sum() / (spread.sum() + weight @ (mean - joint) ** 2))
