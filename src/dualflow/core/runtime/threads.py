"""Threads: work shared among as many of them as BLAS may use, and state of the process that survives a fork.

`share` runs the parts of one piece of work in several threads. Callers must split work so that results do not depend on
the split points (only the last bit of BLAS in float32 may). Each BLAS call has one thread meanwhile. Compiled loops,
numpy and scipy's sparse products run in parallel, because they release the interpreter's lock.

A forked child has only the thread that forked. A lock that another thread held at that moment is never released there,
so each lock of the process is replaced in the child (`in_child`, `ProcessContext`).
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar, copy_context
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from .clock import Interrupt, check_time, interruptible

T = TypeVar("T")


class cached_property(functools.cached_property[T]):  # noqa: N801 - named as in the standard library
    """`functools.cached_property` as in Python 3.12, without the lock of 3.11, which all objects of a class share.

    Threads that access it at the same time may each compute the value; all of them get the one that was stored first.
    """

    def __get__(self, instance: Any, owner: type[Any] | None = None) -> Any:
        if instance is None:
            return self
        return instance.__dict__.setdefault(self.attrname, self.func(instance))


def in_child(renew: Callable[[], object]) -> Callable[[], object]:
    """Register a function to be called first in each forked child, and return it."""
    if hasattr(os, "register_at_fork"):  # Windows has no fork
        os.register_at_fork(after_in_child=renew)
    return renew


class ProcessContext:
    """A context that acts on the whole process: the first thread that enters calls `begin`, the last that leaves `end`.

    A thread may enter it again. The object must live as long as the process. In a forked child, only the thread that
    forked is inside.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._own = threading.Lock(), 0, threading.local()
        in_child(self._renew)

    def begin(self) -> None:
        """Start the effect on the process."""
        raise NotImplementedError

    def end(self) -> None:
        """End the effect on the process."""
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
        """How many times this thread has entered."""
        return getattr(self._own, "count", 0)

    def _renew(self) -> None:
        """Replace the lock in a forked child, and count only the thread that forked."""
        before, self._lock, self._inside = self._inside, threading.Lock(), self._mine
        if before and not self._inside:
            self.end()


#: Up to this many variables BLAS has one thread. Numpy and scipy each have a pool, and on a busy machine the pools wait
#: for one another (fits are 30 times slower).
MAX_N_ONE_THREAD = 2000
#: Multiplications of a stretch of work. They take about a millisecond, ten times as long as starting a thread.
STRETCH_WORK = 1 << 24
#: Largest number of threads, because each has its own buffers.
MAX_THREADS = 32


#: Number of threads that `at_most` sets, or None.
_requested: ContextVar[int | None] = ContextVar("threads", default=None)


class _OneThread(ProcessContext):
    """A context in which BLAS pools have one thread; several threads may be inside, each more than once.

    If BLAS uses OpenMP, the setting belongs to the thread that makes it, so each thread sets it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: list[tuple[Any, int]] = []
        self._openmp = threading.local()

    @cached_property
    def pools(self) -> tuple[list[Any], list[Any]]:
        """The BLAS pools with a setting for the process, and those with a setting for each thread."""
        blas = [pool for pool in _controller.pools if pool.user_api == "blas"]
        openmp = [pool for pool in blas if getattr(pool, "threading_layer", "") == "openmp"]
        return [pool for pool in blas if pool not in openmp], openmp

    def begin(self) -> None:
        self._before = _limited_to_one(self.pools[0])

    def end(self) -> None:
        _restore_threads(self._before)

    def __enter__(self) -> None:
        _, own = self.pools
        super().__enter__()
        if own:
            self._openmp.inside = getattr(self._openmp, "inside", 0) + 1
            if self._openmp.inside == 1:
                self._openmp.before = _limited_to_one(own)

    def __exit__(self, *error: object) -> None:
        if self.pools[1]:
            self._openmp.inside -= 1
            if not self._openmp.inside:
                _restore_threads(self._openmp.before)
        super().__exit__(*error)


class _Controller:
    """The thread pools of the process."""

    @cached_property
    def pools(self) -> list[Any]:
        """All pools, found once: that takes milliseconds."""
        return list(ThreadpoolController().lib_controllers)


def _limited_to_one(pools: list[Any]) -> list[tuple[Any, int]]:
    """Set pools to one thread; return those that had more, with their numbers."""
    before = [(pool, int(pool.num_threads)) for pool in pools]
    before = [(pool, count) for pool, count in before if count > 1]
    for pool, _ in before:
        pool.set_num_threads(1)
    return before


def _restore_threads(before: list[tuple[Any, int]]) -> None:
    """Restore the numbers of threads that `_limited_to_one` returned."""
    for pool, count in before:
        pool.set_num_threads(count)


_controller = _Controller()
ONE_THREAD = _OneThread()


def blas_for(n: int, shared: bool) -> contextlib.AbstractContextManager[None]:
    """Return the context to solve a problem of n variables in.

    BLAS has one thread if the problem is small, or if most work is ``shared`` by `share`: threads of its pool that wait
    for the next call keep processors busy (letters, n = 16 000: twice the user time, the same wall time).
    """
    if n <= MAX_N_ONE_THREAD:
        return ONE_THREAD
    return _shared() if shared else contextlib.nullcontext()


@contextlib.contextmanager
def _shared() -> Iterator[None]:
    """A context in which `share` uses the threads of BLAS, and BLAS has one."""
    with at_most(allowed()), ONE_THREAD:
        yield


def allowed() -> int:
    """Return the number of threads that work may be shared among.

    It is the number that `at_most` sets, or that of the BLAS pool with the fewest, or of OpenMP if threadpoolctl does
    not know BLAS.
    """
    requested = _requested.get()
    if requested is not None:
        return requested
    pools = [pool for found in ONE_THREAD.pools for pool in found] or _controller.pools
    return max(1, min((int(pool.num_threads) for pool in pools), default=1))


@contextlib.contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Share work among this number of threads, whatever BLAS has; None changes nothing."""
    if threads is None:
        yield
        return
    token = _requested.set(threads)
    try:
        yield
    finally:
        _requested.reset(token)


def stretches(count: int, width: int) -> list[slice]:
    """Return slices of ``width`` that cover range(count); the last of several is half to less than twice as wide."""
    starts = list(range(0, max(1, count - width // 2), max(1, width)))
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], count], strict=True)]


def share(work: Callable[[T], object], parts: Sequence[T], *, blas: bool = False) -> None:
    """Call ``work(part)`` for each of the parts, which must be independent, in several threads.

    The time limit is checked between parts, so a part should take at most a tenth of a second, or call `check_time`
    itself: all threads have the time limit of the caller. An exception is raised here when no thread works any more.

    Parameters
    ----------
    work : callable
    parts : sequence
    blas : bool
        Whether ``work`` calls BLAS.
    """
    threads = min(len(parts), allowed(), MAX_THREADS) if len(parts) > 1 else 1
    if threads > 1:
        _share_among(work, parts, threads)
        return
    with ONE_THREAD if blas else contextlib.nullcontext():
        for part in parts:
            check_time()
            work(part)


def _share_among(work: Callable[[T], object], parts: Sequence[T], threads: int) -> None:
    """Call ``work(part)`` for each of the parts, in this thread and ``threads`` − 1 others."""
    waiting, lock, errors, handling = list(parts)[::-1], threading.Lock(), [], np.geterr()
    context, stop = copy_context(), Interrupt()

    def next_part() -> list[T]:
        with lock:
            return [waiting.pop()] if waiting else []

    def work_on_parts() -> None:
        try:
            with np.errstate(**handling), at_most(1), ONE_THREAD, interruptible(stop):
                while part := next_part():
                    work(part[0])
        except BaseException as error:
            with lock:
                errors.append(error)
                waiting.clear()

    crew = Crew()
    with ONE_THREAD, at_most(1):
        try:
            crew.start(lambda: context.copy().run(work_on_parts), threads - 1)
            while part := next_part():
                check_time()
                work(part[0])
        except BaseException:
            stop.pending = True
            raise
        finally:
            with lock:
                waiting.clear()
            crew.finish()
    if errors:
        raise errors[0]


class Crew:
    """Threads that run a function; those that have not begun when `finish` is called do not run it.

    `threading.Thread.join` cannot be used here: if Ctrl-C interrupts it, it counts a running thread as ended.
    """

    def __init__(self) -> None:
        self._changed, self._at_work, self._open = threading.Condition(), 0, True

    def start(self, work: Callable[[], object], count: int) -> bool:
        """Start ``count`` threads, and return whether the system allowed all of them. Ctrl-C may interrupt this."""
        try:
            for _ in range(count):
                threading.Thread(target=self._run, args=(work,), name="dualflow", daemon=True).start()
        except RuntimeError:
            return False
        return True

    def _run(self, work: Callable[[], object]) -> None:
        """Call ``work`` unless `finish` has been called, and count this thread as working meanwhile."""
        with self._changed:
            if not self._open:
                return
            self._at_work += 1
        try:
            work()
        finally:
            with self._changed:
                self._at_work -= 1
                self._changed.notify_all()

    def is_idle(self, timeout: float | None = None) -> bool:
        """Wait at most ``timeout`` seconds until no thread works, and return whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._at_work, timeout)

    def finish(self) -> None:
        """Prevent further threads from beginning, and wait for the others; Ctrl-C meanwhile is raised afterwards."""
        interrupt = None
        self._open = False
        while True:
            try:
                self.is_idle()
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
