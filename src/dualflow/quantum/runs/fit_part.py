"""Which of several problems of one fit is being solved: a journal that they share knows the data of each."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar

__all__ = ["fit_part", "part_of_a_fit"]

_part: ContextVar[int] = ContextVar("part", default=0)


@contextlib.contextmanager
def part_of_a_fit(k: int) -> Iterator[None]:
    """Solve problem ``k`` of several whose jobs go to one journal: the pairs of classes."""
    token = _part.set(k)
    try:
        yield
    finally:
        _part.reset(token)


def fit_part() -> int:
    """The number of the problem being solved."""
    return _part.get()
