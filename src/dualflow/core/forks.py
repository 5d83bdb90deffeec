"""What threads share and a forked child survives: attributes made once without a lock, contexts and locks of a process.

A child of a fork has the thread that forked alone. A lock that another thread held at that moment is held for ever
there, so that no lock of the process may go into a child as it is.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any, TypeVar

__all__ = ["ProcessContext", "cached_property", "in_child"]

T = TypeVar("T")


class cached_property(functools.cached_property[T]):  # noqa: N801 - named as in the standard library
    """`functools.cached_property` as Python 3.12 has it: without the lock of 3.11, one for all objects of a class.

    Threads that ask at the same time may each make the value; all of them get the first that is there.
    """

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.attrname, self.func(instance))


def in_child(renew: Callable[[], object]) -> Callable[[], object]:
    """Call a function first thing in every forked child; returns it."""
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=renew)
    return renew


class ProcessContext:
    """A context whose effect is one of the process: the first thread that enters brings it about, by `begin`, and the
    last that leaves takes it back, by `end`. It may be entered again by the same thread.

    One object lives as long as the process. In a forked child only the forking thread is left inside.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._own = threading.Lock(), 0, threading.local()
        in_child(self._renew)

    def begin(self) -> None:
        raise NotImplementedError

    def end(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self.begin()
            self._inside += 1
        self._own.count = self._mine + 1

    def __exit__(self, *error: object) -> None:
        self._own.count = self._mine - 1
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self.end()

    @property
    def _mine(self) -> int:
        """How many times this thread is inside."""
        return getattr(self._own, "count", 0)

    def _renew(self) -> None:
        before, self._lock, self._inside = self._inside, threading.Lock(), self._mine
        if before and not self._inside:
            self.end()
