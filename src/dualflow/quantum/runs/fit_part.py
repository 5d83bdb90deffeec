"""The number of the problem that is being solved, of several problems of one fit that share a journal."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

_part: ContextVar[int] = ContextVar("part", default=0)


@contextlib.contextmanager
def fit_part_context(k: int) -> Iterator[None]:
    """Set the number of the problem, such as a pair of classes, during the block."""
    token = _part.set(k)
    try:
        yield
    finally:
        _part.reset(token)


def fit_part() -> int:
    """Return the number of the problem that is being solved; 0 by default."""
    return _part.get()
