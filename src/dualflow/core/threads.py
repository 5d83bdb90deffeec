"""Stretches of one piece of work, shared out among as many threads as BLAS may have.

Who shares work cuts it so that values do not depend on where, and while it is done each BLAS call has one thread.
Compiled loops, numpy and scipy's sparse products run beside one another, for they let the interpreter's lock go.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from .clock import look

__all__ = ["ONE_THREAD", "SMALL", "WORTH", "Helper", "allowed", "at_most", "blas_for", "share", "stretches"]

#: Variables up to which more threads cost more than they bring: numpy and scipy bring a pool each, and on a busy
#: machine these wait for one another (30 × slower fits).
SMALL = 2000
#: Multiplications of a stretch, about a millisecond: starting a thread takes a tenth of that.
WORTH = 1 << 24
#: Threads at most: each has memory of its own for what it is at.
MOST = 32

T = TypeVar("T")

#: Threads to share work among where somebody said so.
_told: ContextVar[int | None] = ContextVar("threads", default=None)


class _OneThread:
    """A context in which BLAS pools have one thread. It may be entered again, and by several threads at once.

    The setting belongs to the process: the first to enter makes it, and the last to leave takes it back. Where BLAS
    takes OpenMP's threads it belongs to the thread that makes it: there each has its own.
    """

    def __init__(self) -> None:
        self._lock, self._inside, self._own = threading.Lock(), 0, threading.local()
        self._before: list[tuple[Any, int]] = []

    @cached_property
    def pools(self) -> tuple[list[Any], list[Any]]:
        """Those whose setting is the process's, and those where it is a thread's."""
        blas = [pool for pool in _controller.pools if pool.user_api == "blas"]
        openmp = [pool for pool in blas if getattr(pool, "threading_layer", "") == "openmp"]
        return [pool for pool in blas if pool not in openmp], openmp

    def __enter__(self) -> None:
        shared, own = self.pools
        with self._lock:
            if not self._inside:
                self._before = _limited(shared)
            self._inside += 1
        if own:
            self._own.inside = getattr(self._own, "inside", 0) + 1
            if self._own.inside == 1:
                self._own.before = _limited(own)

    def __exit__(self, *error: object) -> None:
        if self.pools[1]:
            self._own.inside -= 1
            if not self._own.inside:
                _give_back(self._own.before)
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _give_back(self._before)


class _Controller:
    """The pools of threads there are."""

    @cached_property
    def pools(self) -> list[Any]:
        """Looked for once: it takes milliseconds."""
        return list(ThreadpoolController().lib_controllers)


def _limited(pools: list[Any]) -> list[tuple[Any, int]]:
    before = [(pool, int(pool.num_threads)) for pool in pools]
    before = [(pool, count) for pool, count in before if count > 1]
    for pool, _ in before:
        pool.set_num_threads(1)
    return before


def _give_back(before: list[tuple[Any, int]]) -> None:
    for pool, count in before:
        pool.set_num_threads(count)


_controller = _Controller()
ONE_THREAD = _OneThread()


def blas_for(n: int) -> contextlib.AbstractContextManager[None]:
    """The context to solve a problem of n variables in: BLAS has one thread while systems are small."""
    return ONE_THREAD if n <= SMALL else contextlib.nullcontext()


def allowed() -> int:
    """Threads that work may be shared among now: as many as the BLAS pool that has fewest, or OpenMP's where BLAS is
    not known to threadpoolctl."""
    told = _told.get()
    if told is not None:
        return told
    pools = [pool for found in ONE_THREAD.pools for pool in found] or _controller.pools
    return max(1, min((int(pool.num_threads) for pool in pools), default=1))


@contextlib.contextmanager
def at_most(threads: int | None) -> Iterator[None]:
    """Share work among so many threads, whatever BLAS has; None leaves it at those."""
    if threads is None:
        yield
        return
    token = _told.set(threads)
    try:
        yield
    finally:
        _told.reset(token)


def stretches(count: int, width: int) -> list[slice]:
    """0 … count in stretches of a width; the last is at least half as wide, and less than twice, if there are more."""
    starts = list(range(0, max(1, count - width // 2), max(1, width)))
    return [slice(start, stop) for start, stop in zip(starts, [*starts[1:], count], strict=True)]


def share(work: Callable[[T], object], parts: Sequence[T], *, blas: bool = False) -> None:
    """``work(part)`` for each of the parts, which must not depend on one another.

    The clock is looked at between parts, so one should not take longer than a tenth of a second. Whatever is raised
    comes out when no thread is at work any more.

    Parameters
    ----------
    work : callable
    parts : sequence
    blas : bool
        Whether BLAS is called there.
    """
    threads = min(len(parts), allowed(), MOST) if len(parts) > 1 else 1
    if threads > 1:
        _side_by_side(work, parts, threads)
        return
    with ONE_THREAD if blas else contextlib.nullcontext():
        for part in parts:
            look()
            work(part)


def _side_by_side(work: Callable[[T], object], parts: Sequence[T], threads: int) -> None:
    waiting, lock, errors, handling = list(parts)[::-1], threading.Lock(), [], np.geterr()

    def next_one() -> list[T]:
        with lock:
            return [waiting.pop()] if waiting else []

    def help_out() -> None:
        try:
            with np.errstate(**handling), at_most(1), ONE_THREAD:
                while part := next_one():
                    work(part[0])
        except BaseException as error:
            with lock:
                errors.append(error)
                waiting.clear()

    helpers = [Helper(help_out) for _ in range(threads - 1)]
    with ONE_THREAD, at_most(1):
        try:
            started = _started(helpers)
            while part := next_one():
                look()
                work(part[0])
        finally:
            with lock:
                waiting.clear()
            _finish(started)
    if errors:
        raise errors[0]


class Helper(threading.Thread):
    """A thread that says when it has ended: `join`, interrupted by Ctrl-C, takes any for one that has (Python 3.11)."""

    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__(name="dualflow", daemon=True)
        self.work, self.ended = work, threading.Event()

    def run(self) -> None:
        """Work."""
        try:
            self.work()
        finally:
            self.ended.set()


def _started(helpers: list[Helper]) -> list[Helper]:
    """Those that the system has room for."""
    started: list[Helper] = []
    for helper in helpers:
        try:
            helper.start()
        except RuntimeError:
            break
        started.append(helper)
    return started


def _finish(helpers: Sequence[Helper]) -> None:
    """Wait until they have ended, which they soon do; Ctrl-C that comes meanwhile is raised afterwards."""
    interrupt = None
    for helper in helpers:
        while not helper.ended.is_set():
            try:
                helper.ended.wait()
            except KeyboardInterrupt as error:
                interrupt = error
        helper.join()
    if interrupt is not None:
        raise interrupt
