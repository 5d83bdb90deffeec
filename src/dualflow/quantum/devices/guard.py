"""Calls into what others wrote: any error of theirs is a `DeviceError`, and a hang ends where the clock says so."""

from __future__ import annotations

import atexit
import contextlib
import contextvars
import importlib.util
import os
import queue
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from ...core.runtime import clock
from ...exceptions import DualflowError
from .vendor_errors import cause, device_error

__all__ = ["Guard", "held", "load", "translated"]

#: Seconds between two looks at the clock.
LOOK_S = 0.05
#: Seconds that a call which is given up has to end by itself, so that processes it started are gone.
GRACE_S = 0.3

T = TypeVar("T")

#: Locks of backends, by their `id`, for as long as they live.
_locks: dict[int, tuple[Any, threading.RLock]] = {}
_lock = threading.Lock()
#: Imports under way in threads of their own.
_imports: list[threading.Event] = []


def _forget_locks() -> None:
    """In a child of a fork: locks that other threads held would never be let go."""
    global _lock
    _lock = threading.Lock()
    _locks.clear()
    _imports.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


@contextlib.contextmanager
def translated(device: str, doing: str, sent: bool | None = False) -> Iterator[None]:
    """What is raised within is a `DeviceError`, unless it is an error of dualflow's own, or no Exception at all."""
    try:
        yield
    except DualflowError:
        raise
    except Exception as error:  # vendors and users raise whatever they like
        raise device_error(device, doing, error, sent=sent) from cause(error)


@contextlib.contextmanager
def held(shared: Any) -> Iterator[None]:
    """One call at a time into a backend, whatever devices share it; the clock is looked at while another one is in it.

    Qiskit's fake backends make their simulator in their first run, and a second thread finds it without its noise.
    """
    lock = _lock_of(shared)
    while not lock.acquire(timeout=LOOK_S):
        clock.look()
    try:
        clock.look()  # the call of a run that is over is not made
        yield
    finally:
        lock.release()


def _lock_of(shared: Any) -> threading.RLock:
    key = id(shared)
    with _lock:
        if key not in _locks:
            try:
                life = weakref.finalize(shared, _locks.pop, key, None)
                life.atexit = False
            except TypeError:  # no weak reference to it: it is kept, so that its number is no other object's
                life = shared
            _locks[key] = (life, threading.RLock())
        return _locks[key][1]


def load(packages: Iterable[str]) -> None:
    """Import packages where nothing ends before the process does: what is not installed is left out.

    Qiskit 2 crashes the process once the thread that first imported it has ended (a segmentation fault in the next
    thread that makes a `Parameter`). An import takes a second or two: work with a deadline waits for it no longer than
    until then, and the import goes on beside it.

    Raises
    ------
    OutOfTime
        The time of the work under way is over.
    """
    _await_imports()
    missing = [name for name in packages if name not in sys.modules and importlib.util.find_spec(name) is not None]
    if not missing:
        return
    if threading.current_thread() is threading.main_thread() and clock.left() is None:
        _import(missing)
        return
    loaded = threading.Event()
    _imports.append(loaded)
    threading.Thread(target=_import, args=(missing, loaded), name="dualflow imports", daemon=True).start()
    _await_imports()


def _await_imports() -> None:
    """Wait for imports that are under way: of a package whose import has not ended, half is there."""
    while _imports:
        loaded = _imports[0]
        while not loaded.wait(LOOK_S):
            clock.look()
        with contextlib.suppress(ValueError):  # another thread has waited for it, too
            _imports.remove(loaded)


def _end_imports() -> None:
    """At the end of the process: a thread that is within an import then would crash it."""
    for loaded in list(_imports):
        loaded.wait()


atexit.register(_end_imports)


def _import(packages: Iterable[str], loaded: threading.Event | None = None) -> None:
    try:
        for name in packages:
            with contextlib.suppress(Exception):  # where it is needed, the error is a better one
                importlib.import_module(name)
    finally:
        if loaded is not None:
            loaded.set()
            threading.Event().wait()  # the thread is there until the process ends


class _Errand:
    """One call, made in a worker's thread in its caller's context."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call, self.context, self.interrupt = call, contextvars.copy_context(), clock.Interrupt()
        self.found: Any = None
        self.error: BaseException | None = None
        self.pending = threading.Lock()
        self.pending.acquire()

    def run(self) -> None:
        try:
            self.found = self.context.run(self._call)
        except BaseException as error:
            self.error = error
        finally:
            self.pending.release()

    def _call(self) -> Any:
        with clock.interruptible(self.interrupt):
            return self.call()


def _work(errands: queue.SimpleQueue[_Errand | None]) -> None:
    while (errand := errands.get()) is not None:
        errand.run()
        del errand  # what it holds is not kept until the next one


class Guard:
    """Makes calls for one device in a thread of its own, so that a call that hangs holds up nothing but that thread.

    A call that is still under way when the time is over, or at Ctrl-C, is given up: what it gives later is dropped.

    Parameters
    ----------
    device : str
        Its name, for errors.
    grace_s : float
        Seconds that a call which is given up has to end by itself.
    """

    def __init__(self, device: str, grace_s: float = GRACE_S) -> None:
        self.device, self.grace_s = device, grace_s
        self._errands: queue.SimpleQueue[_Errand | None] | None = None
        self._worker: threading.Thread | None = None
        self._given_up: threading.Lock | None = None

    @property
    def hangs(self) -> bool:
        """Whether a call that was given up is still under way."""
        return self._given_up is not None and self._given_up.locked()

    def call(self, doing: str, call: Callable[[], T], sent: bool | None = False) -> T:
        """What a call returns.

        Parameters
        ----------
        doing : str
            What it is for, such as "failed on circuit 'tree_q3'": what errors say.
        call : callable
        sent : bool or None
            Whether the job has reached the machine when it raises; see `DeviceError`.

        Raises
        ------
        DeviceError
            It raised any Exception that is no `DualflowError`.
        OutOfTime, KeyboardInterrupt
            At once, whatever the call does.
        """
        clock.look()
        errand = _Errand(call)
        errands = self._at_work()
        try:
            errands.put(errand)
            while not errand.pending.acquire(timeout=LOOK_S):
                clock.look()
        except BaseException as error:
            self._give_up(errands, errand)
            if isinstance(error, clock.OutOfTime):
                raise self._late() from None
            raise
        if isinstance(errand.error, clock.OutOfTime) and not errand.error.args:  # the call saw the clock first
            raise self._late() from errand.error
        if errand.error is not None:
            with translated(self.device, doing, sent):
                raise errand.error
        found: T = errand.found
        return found

    def _late(self) -> clock.OutOfTime:
        return clock.OutOfTime(
            f"device {self.device!r} had not answered when the time was over; what it gives later is dropped"
        )

    def _at_work(self) -> queue.SimpleQueue[_Errand | None]:
        if self._errands is None or self._worker is None or not self._worker.is_alive():  # a fork leaves threads behind
            self._errands = queue.SimpleQueue()
            self._worker = threading.Thread(target=_work, args=(self._errands,), name="dualflow device", daemon=True)
            self._worker.start()
            weakref.finalize(self, self._errands.put, None).atexit = False
        return self._errands

    def _give_up(self, errands: queue.SimpleQueue[_Errand | None], errand: _Errand) -> None:
        """Leave the thread to what it hangs in; the next call has a new one."""
        self._errands = self._worker = None
        self._given_up = errand.pending
        errand.interrupt.pending = True
        errands.put(None)
        if errand.pending.acquire(timeout=self.grace_s):
            errand.pending.release()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_errands": None, "_worker": None, "_given_up": None}
