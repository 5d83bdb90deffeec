"""Names of points, which of a pool are asked for, and a moment in which nothing may be interrupted."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.options import Number
from ..exceptions import ProblemError

__all__ = ["as_ids", "nearest", "new_ids", "uninterrupted"]


def as_ids(ids: ArrayLike) -> NDArray:
    """Whole numbers, shape (n,); `ProblemError` for anything else, and for one that stands there twice."""
    names = np.atleast_1d(np.asarray(ids))
    if names.ndim != 1 or (names.size and names.dtype.kind not in "iu"):
        raise ProblemError(f"ids must be whole numbers, one a point; found shape {names.shape}, dtype {names.dtype}")
    names = names.astype(np.int64)
    if len(names) > 1 and len(np.unique(names)) != len(names):
        raise ProblemError("ids holds an id twice; every point has its own")
    return names


def new_ids(ids: ArrayLike | None, n: int, next_id: int, known: NDArray | None) -> NDArray:
    """Names of n points to come: those given, none of which may be known, or the next in order of arrival."""
    if ids is None:
        return next_id + np.arange(n, dtype=np.int64)
    names = as_ids(ids)
    if len(names) != n:
        raise ProblemError(f"ids has {len(names)} entries for {n} points")
    if (names < 0).any():
        raise ProblemError(f"ids must be ≥ 0, found {names.min()}")
    if known is not None and (met := np.intersect1d(names, known)).size:
        raise ProblemError(f"ids: {met[:5].tolist()} are remembered already; forget them first, or give others")
    return names


def nearest(values: NDArray, k: int) -> NDArray:
    """Rows of the k smallest values of a pool, the smallest first."""
    Number(at_least=1, at_most=len(values), whole=True, note="(the size of the pool)").check("k", k)
    return np.argsort(values, kind="stable")[:k]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C waits until the end of the block, which must be short."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[Any] = []
    before = signal.signal(signal.SIGINT, lambda *event: waiting.append(event))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if waiting:
            signal.raise_signal(signal.SIGINT)
