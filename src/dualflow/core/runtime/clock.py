"""The time limit of a run, which long computations check (`check_time`), and delivery of Ctrl-C to them."""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar

#: A Ctrl-C that Python dropped is raised again after this many seconds.
RETRY_S = 0.01

#: Shortest interval, in seconds, whose CPU/wall ratio measures load. Shorter ones are dominated by scheduling delays
#: (hundredths of a second).
MIN_SECONDS_LOAD = 0.5
#: Largest `Timer.load`. A process that waits longer waits for something else than the processor.
MAX_LOAD = 10.0

#: A sample shows how long a dense factorisation takes. It has at most this many rows: 0.3 s.
MAX_ROWS_SAMPLE = 1024

#: `time.monotonic` value at which the current work must stop. A context variable: each thread's run has its own.
_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)

#: Deadline for kernel calls made before a run starts, a `time.monotonic` value.
_kernel_deadline: ContextVar[float | None] = ContextVar("kernel_deadline", default=None)


class Interrupt:
    """Stands for Ctrl-C in a worker thread, which gets no signal: if ``pending``, the next `check_time` raises it."""

    pending = False


_interrupt: ContextVar[Interrupt | None] = ContextVar("interrupt", default=None)


class Timer:
    """Wall and processor time since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.monotonic(), time.process_time()

    def seconds(self) -> tuple[float, float]:
        """Return the wall time and the processor time of the process."""
        return time.monotonic() - self._wall, time.process_time() - self._processor

    def load(self) -> float:
        """Return how much longer work takes than on an idle machine: wall over processor time, from 1 to `MAX_LOAD`."""
        wall, processor = self.seconds()
        return 1.0 if wall < MIN_SECONDS_LOAD else min(max(1.0, wall / max(processor, 1e-9)), MAX_LOAD)


class OutOfTime(BaseException):
    """The time limit of the current run is over.

    Like KeyboardInterrupt it is not an Exception, so that handlers of errors do not catch it. The driver drops the
    half-finished step and returns the state before it.
    """


def within(deadline: float | None) -> contextlib.AbstractContextManager[None]:
    """Return a context in which work must stop at a `time.monotonic` value, or at an earlier limit around it."""
    return _earlier(_deadline, deadline)


@contextlib.contextmanager
def without_time_limit() -> Iterator[None]:
    """A context without time limits, for work that is short or has its time reserved."""
    token, kernel_token = _deadline.set(None), _kernel_deadline.set(None)
    try:
        yield
    finally:
        _deadline.reset(token)
        _kernel_deadline.reset(kernel_token)


def with_kernel_limit(deadline: float | None) -> contextlib.AbstractContextManager[None]:
    """Return a context without a time limit for work, but with one for calls of a kernel that checks it."""
    return _earlier(_kernel_deadline, deadline)


@contextlib.contextmanager
def _earlier(limit: ContextVar[float | None], deadline: float | None) -> Iterator[None]:
    """A context with a limit at the deadline, or the earlier limit that is set."""
    outer = limit.get()
    token = limit.set(outer if deadline is None else deadline if outer is None else min(deadline, outer))
    try:
        yield
    finally:
        limit.reset(token)


@contextlib.contextmanager
def kernel_call_limit() -> Iterator[None]:
    """Outside a run, limit a kernel call by `with_kernel_limit`."""
    with within(_kernel_deadline.get() if _deadline.get() is None else None):
        yield


@contextlib.contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """A context for work that another thread may interrupt."""
    token = _interrupt.set(interrupt)
    try:
        yield
    finally:
        _interrupt.reset(token)


@contextlib.contextmanager
def keeping_interrupts() -> Iterator[None]:
    """A context, and a decorator, in which no Ctrl-C is lost.

    Python drops exceptions in a finalizer or in the callback of a weak reference, and each import calls one. A
    KeyboardInterrupt there is raised again a moment later, or at the end of the context.
    """
    if getattr(sys.unraisablehook, "hears", False) or threading.current_thread() is not threading.main_thread():
        yield  # only the main thread receives Ctrl-C, and an outer context may handle it
        return
    lost: list[bool] = []
    before, main = sys.unraisablehook, threading.get_ident()

    def again() -> None:
        time.sleep(RETRY_S)
        with contextlib.suppress(IndexError):  # the end of the context may have raised it
            lost.pop()
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(main, signal.SIGINT)  # unlike interrupt_main, it ends a system call
            else:
                _thread.interrupt_main()

    def hear(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt) or threading.get_ident() != main:
            before(dropped)
            return
        lost.append(True)
        _thread.start_new_thread(again, ())  # `threading.Thread` takes locks, which the interrupted code may hold

    hear.hears = True  # type: ignore[attr-defined]
    sys.unraisablehook = hear
    try:
        yield
        with contextlib.suppress(IndexError):
            lost.pop()
            raise KeyboardInterrupt
    finally:
        sys.unraisablehook = before


def is_late() -> bool:
    """Whether the deadline of the current work is over."""
    deadline = _deadline.get()
    return deadline is not None and time.monotonic() >= deadline


def seconds_left() -> float | None:
    """Return the seconds until the deadline of the current work, 0 if it is over, None without one."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def check_time() -> None:
    """Raise `OutOfTime` if the current work is late, or KeyboardInterrupt if it is interrupted.

    The driver, or the code that set the limit, catches `OutOfTime`. Call this about every tenth of a second; it takes a
    tenth of a microsecond.
    """
    interrupt = _interrupt.get()
    if interrupt is not None and interrupt.pending:
        raise KeyboardInterrupt
    if is_late():
        raise OutOfTime


def check_time_cubic(rows: int, call: Callable[[int], object], what: str) -> None:
    """As `check_time`, and raise `OutOfTime` if a call that cannot be interrupted takes longer than the time left.

    Parameters
    ----------
    rows : int
    call : callable
        ``call(rows)`` takes a time that grows with the third power of the rows. A sample with fewer rows is timed.
    what : str
        The call, for the text of the error.
    """
    check_time()
    left = seconds_left()
    if left is None or rows <= MAX_ROWS_SAMPLE:
        return
    begun, sample = time.monotonic(), min(MAX_ROWS_SAMPLE, rows // 2)
    call(sample)
    if (time.monotonic() - begun) * (rows / sample) ** 3 > left:
        raise OutOfTime(f"{what} of {rows} variables takes longer than what is left")
