"""BLAS on one thread while systems are small."""

from __future__ import annotations

import contextlib
import threading
from typing import Any

from threadpoolctl import ThreadpoolController

__all__ = ["SMALL", "blas_for"]

#: Variables up to which more threads cost more than they bring: numpy and scipy bring a pool each, and on a busy
#: machine these wait for one another (30 × slower fits).
SMALL = 2000


class _OneThread:
    """A context in which BLAS pools have one thread. It may be entered again, and by several threads at once.

    The setting belongs to the process, or to the thread, as a pool has it. So one thread at a time makes it, and takes
    it back when it leaves; others that come meanwhile leave it alone, for what they found is not what there was.
    """

    def __init__(self) -> None:
        self._lock, self._owner, self._depth = threading.Lock(), 0, 0
        self._controller: ThreadpoolController | None = None
        self._limit: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._controller is None:
                self._controller = ThreadpoolController()  # looks through all libraries: milliseconds, once
            if not self._owner and any(pool.num_threads > 1 for pool in self._controller.lib_controllers):
                self._limit = self._controller.limit(limits=1, user_api="blas")
                self._owner = threading.get_ident()
            self._depth += self._owner == threading.get_ident()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._owner == threading.get_ident():
                self._depth -= 1
                if not self._depth:
                    self._owner = 0
                    self._limit.__exit__(None, None, None)


_ONE_THREAD = _OneThread()


def blas_for(n: int) -> contextlib.AbstractContextManager[None]:
    """The context to solve a problem of n variables in."""
    return _ONE_THREAD if n <= SMALL else contextlib.nullcontext()
