"""Stretches of one piece of work, shared out among as many threads as BLAS may have.

Who shares work cuts it so that values do not depend on where (the last bit of BLAS's in float32 may), and while it is
done each BLAS call has one thread.
Compiled loops, numpy and scipy's sparse products run beside one another, for they let the interpreter's lock go.

What threads share and a forked child survives: attributes made once without a lock, contexts and locks of a process.

A child of a fork has the thread that forked alone. A lock that another thread held at that moment is held for ever
there, so that no lock of the process may go into a child as it is.
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

from .clock import Interrupt, interruptible, look

__all__ = [
    "ONE_THREAD",
    "SMALL",
    "WORTH",
    "Crew",
    "ProcessContext",
    "allowed",
    "at_most",
    "blas_for",
    "cached_property",
    "in_child",
    "share",
    "stretches",
]


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


#: Variables up to which more threads cost more than they bring: numpy and scipy bring a pool each, and on a busy
#: machine these wait for one another (30 × slower fits).
SMALL = 2000
#: Multiplications of a stretch, about a millisecond: starting a thread takes a tenth of that.
WORTH = 1 << 24
#: Threads at most: each has memory of its own for what it is at.
MOST = 32


#: Threads to share work among where somebody said so.
_told: ContextVar[int | None] = ContextVar("threads", default=None)


class _OneThread(ProcessContext):
    """A context in which BLAS pools have one thread. It may be entered again, and by several threads at once.

    Where BLAS takes OpenMP's threads the setting belongs to the thread that makes it: there each has its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: list[tuple[Any, int]] = []
        self._openmp = threading.local()

    @cached_property
    def pools(self) -> tuple[list[Any], list[Any]]:
        """Those whose setting is the process's, and those where it is a thread's."""
        blas = [pool for pool in _controller.pools if pool.user_api == "blas"]
        openmp = [pool for pool in blas if getattr(pool, "threading_layer", "") == "openmp"]
        return [pool for pool in blas if pool not in openmp], openmp

    def begin(self) -> None:
        self._before = _limited(self.pools[0])

    def end(self) -> None:
        _give_back(self._before)

    def __enter__(self) -> None:
        _, own = self.pools
        super().__enter__()
        if own:
            self._openmp.inside = getattr(self._openmp, "inside", 0) + 1
            if self._openmp.inside == 1:
                self._openmp.before = _limited(own)

    def __exit__(self, *error: object) -> None:
        if self.pools[1]:
            self._openmp.inside -= 1
            if not self._openmp.inside:
                _give_back(self._openmp.before)
        super().__exit__(*error)


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


def blas_for(n: int, shared: bool) -> contextlib.AbstractContextManager[None]:
    """The context to solve a problem of n variables in: BLAS has one thread while systems are small, and where most
    work is ``shared`` out here. Threads of its pool that wait for the next call keep processors busy (letters,
    n = 16 000: twice the user time, and no less on the wall)."""
    if n <= SMALL:
        return ONE_THREAD
    return _shared() if shared else contextlib.nullcontext()


@contextlib.contextmanager
def _shared() -> Iterator[None]:
    with at_most(allowed()), ONE_THREAD:
        yield


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

    The clock is looked at between parts, so one should not take longer than a tenth of a second, or look itself, which
    each thread can: it is that of the work that is shared. Whatever is raised comes out when no thread is at work any
    more.

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
    context, stop = copy_context(), Interrupt()

    def next_one() -> list[T]:
        with lock:
            return [waiting.pop()] if waiting else []

    def help_out() -> None:
        try:
            with np.errstate(**handling), at_most(1), ONE_THREAD, interruptible(stop):
                while part := next_one():
                    work(part[0])
        except BaseException as error:
            with lock:
                errors.append(error)
                waiting.clear()

    crew = Crew()
    with ONE_THREAD, at_most(1):
        try:
            crew.start(lambda: context.copy().run(help_out), threads - 1)
            while part := next_one():
                look()
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
    """Threads that work until they are told to finish. Whoever has not begun by then does not.

    `threading.Thread.join` is not for this: where Ctrl-C interrupts it, it takes any thread for one that has ended.
    """

    def __init__(self) -> None:
        self._changed, self._at_work, self._open = threading.Condition(), 0, True

    def start(self, work: Callable[[], object], count: int) -> bool:
        """Let so many threads work; whether the system has room for all. Ctrl-C may come before they all are there."""
        try:
            for _ in range(count):
                threading.Thread(target=self._run, args=(work,), name="dualflow", daemon=True).start()
        except RuntimeError:
            return False
        return True

    def _run(self, work: Callable[[], object]) -> None:
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

    def rests(self, timeout: float | None = None) -> bool:
        """Wait, so many seconds at most, until nobody is at work; whether that is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._at_work, timeout)

    def finish(self) -> None:
        """Let nobody begin, and wait for the others; Ctrl-C that comes meanwhile is raised afterwards."""
        interrupt = None
        self._open = False
        while True:
            try:
                self.rests()
                break
            except KeyboardInterrupt as error:
                interrupt = error
        if interrupt is not None:
            raise interrupt
