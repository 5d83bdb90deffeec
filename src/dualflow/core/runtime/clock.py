"""The time a run has: whatever takes long looks at the clock on its way."""

from __future__ import annotations

import _thread
import contextlib
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextvars import ContextVar

__all__ = [
    "Interrupt",
    "OutOfTime",
    "at_leisure",
    "awaited",
    "hearing",
    "interruptible",
    "is_late",
    "left",
    "look",
    "waiting",
    "within",
]

#: Seconds after which Ctrl-C that Python dropped is given again.
AGAIN_S = 0.01

#: When the work under way must stop, by `time.monotonic`. Of a context: other threads' runs have their own.
_deadline: ContextVar[float | None] = ContextVar("deadline", default=None)

#: Until when a kernel is waited for before the run it is needed for, by `time.monotonic`.
_patience: ContextVar[float | None] = ContextVar("patience", default=None)


class Interrupt:
    """Ctrl-C for work in a thread that the system's never reaches: once ``pending``, it is raised where that looks."""

    pending = False


_interrupt: ContextVar[Interrupt | None] = ContextVar("interrupt", default=None)


class OutOfTime(BaseException):
    """The time limit of the run under way is over.

    Like KeyboardInterrupt it is no Exception: who handles errors on the way must not take it for one. The driver throws
    the half-finished step away and returns what there was before it.
    """


def within(deadline: float | None) -> contextlib.AbstractContextManager[None]:
    """Work that must stop at a time of `time.monotonic`, or at that of the work around it, if that is earlier."""
    return _earlier(_deadline, deadline)


@contextlib.contextmanager
def at_leisure() -> Iterator[None]:
    """Work that is done to its end, whatever the clock says: it must be short, or its time set aside before."""
    token, patience = _deadline.set(None), _patience.set(None)
    try:
        yield
    finally:
        _deadline.reset(token)
        _patience.reset(patience)


def waiting(deadline: float | None) -> contextlib.AbstractContextManager[None]:
    """Work that is done to its end, but waits no longer than until then for a kernel that looks at the clock."""
    return _earlier(_patience, deadline)


@contextlib.contextmanager
def _earlier(limit: ContextVar[float | None], deadline: float | None) -> Iterator[None]:
    """Work with a limit at a deadline, unless the limit is earlier already."""
    outer = limit.get()
    token = limit.set(outer if deadline is None else deadline if outer is None else min(deadline, outer))
    try:
        yield
    finally:
        limit.reset(token)


@contextlib.contextmanager
def awaited() -> Iterator[None]:
    """The call of a kernel: where no clock is looked at, before a run, it ends when `waiting` said."""
    with within(_patience.get() if _deadline.get() is None else None):
        yield


@contextlib.contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """Work that another thread may interrupt."""
    token = _interrupt.set(interrupt)
    try:
        yield
    finally:
        _interrupt.reset(token)


@contextlib.contextmanager
def hearing() -> Iterator[None]:
    """Work in which no Ctrl-C is lost; also a decorator.

    Python drops what is raised in a finalizer or in the callback of a weak reference, and each import calls one. A
    KeyboardInterrupt that came there is raised a moment later, or at the end of the work.
    """
    if getattr(sys.unraisablehook, "hears", False) or threading.current_thread() is not threading.main_thread():
        yield  # Ctrl-C comes to the main thread alone, and the work around this may hear it
        return
    lost: list[bool] = []
    before, main = sys.unraisablehook, threading.get_ident()

    def again() -> None:
        time.sleep(AGAIN_S)
        with contextlib.suppress(IndexError):  # the work's end may have raised it
            lost.pop()
            if hasattr(signal, "pthread_kill"):
                signal.pthread_kill(main, signal.SIGINT)  # unlike the other one, it ends a system call
            else:
                _thread.interrupt_main()

    def hear(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt) or threading.get_ident() != main:
            before(dropped)
            return
        lost.append(True)
        _thread.start_new_thread(again, ())  # `threading.Thread` takes locks, which what was interrupted may hold

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
    """Whether the deadline of the work under way is over."""
    deadline = _deadline.get()
    return deadline is not None and time.monotonic() >= deadline


def left() -> float | None:
    """Seconds until the deadline of the work under way, 0 if it is over; None without one."""
    deadline = _deadline.get()
    return None if deadline is None else max(0.0, deadline - time.monotonic())


def look() -> None:
    """Stop the work under way if it is late, or interrupted: `OutOfTime` passes through to the driver, or to whoever
    set the limit, and KeyboardInterrupt to the user.

    To be called every tenth of a second or so; it costs a tenth of a microsecond.
    """
    interrupt = _interrupt.get()
    if interrupt is not None and interrupt.pending:
        raise KeyboardInterrupt
    if is_late():
        raise OutOfTime
