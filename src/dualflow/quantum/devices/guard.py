"""Guarded calls into the code of vendors and users.

Every error of theirs becomes a `DeviceError`. A call that hangs is abandoned when the run's time is over. One backend
is used by one thread at a time, and packages are imported in a thread that does not end before the process.
"""

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

#: Seconds between two checks of the run's deadline.
POLL_S = 0.05
#: Seconds that an abandoned call has to end by itself, so that processes it started are ended too.
GRACE_S = 0.3

T = TypeVar("T")

#: Locks of backends by `id`, each removed when its backend is deleted.
_locks: dict[int, tuple[Any, threading.RLock]] = {}
_lock = threading.Lock()
#: Imports that run in other threads; each event is set when its import has ended.
_imports: list[threading.Event] = []


def _forget_locks() -> None:
    """Make new locks in the child of a fork: locks that other threads held would never be released."""
    global _lock
    _lock = threading.Lock()
    _locks.clear()
    _imports.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_locks)


@contextlib.contextmanager
def device_errors(device: str, doing: str, sent: bool | None = False) -> Iterator[None]:
    """Raise a `DeviceError` for every Exception raised within; dualflow's own errors pass unchanged."""
    try:
        yield
    except DualflowError:
        raise
    except Exception as error:  # code of vendors and users raises errors of any type
        raise device_error(device, doing, error, sent=sent) from cause(error)


@contextlib.contextmanager
def locked(shared: Any) -> Iterator[None]:
    """Allow one call at a time into a backend that several devices may share; check the deadline while waiting.

    Qiskit's fake backends make their simulator in their first run, and a second thread would find it without noise.
    """
    lock = _lock_of(shared)
    while not lock.acquire(timeout=POLL_S):
        clock.check_time()
    try:
        clock.check_time()  # do not start a call after the deadline
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
            except TypeError:  # it allows no weak reference: keep it alive, so that no other object gets its id
                life = shared
            _locks[key] = (life, threading.RLock())
        return _locks[key][1]


def import_packages(packages: Iterable[str]) -> None:
    """Import packages in a thread that lives until the process ends; skip those that are not installed.

    Qiskit 2 crashes the process once the thread that first imported it has ended (a segmentation fault in the next
    thread that makes a `Parameter`). An import takes one or two seconds. Work with a deadline waits for it until the
    deadline only, and the import continues in its thread.

    Raises
    ------
    OutOfTime
        The deadline has passed.
    """
    _await_imports()
    missing = [name for name in packages if name not in sys.modules and importlib.util.find_spec(name) is not None]
    if not missing:
        return
    if threading.current_thread() is threading.main_thread() and clock.seconds_left() is None:
        _import(missing)
        return
    loaded = threading.Event()
    _imports.append(loaded)
    threading.Thread(target=_import, args=(missing, loaded), name="dualflow imports", daemon=True).start()
    _await_imports()


def _await_imports() -> None:
    """Wait for imports in other threads: a package whose import has not ended is incomplete."""
    while _imports:
        loaded = _imports[0]
        while not loaded.wait(POLL_S):
            clock.check_time()
        with contextlib.suppress(ValueError):  # another thread that waited for it has removed it
            _imports.remove(loaded)


def _end_imports() -> None:
    """Wait for all imports at the end of the process: a thread that is still importing would crash it."""
    for loaded in list(_imports):
        loaded.wait()


atexit.register(_end_imports)


def _import(packages: Iterable[str], loaded: threading.Event | None = None) -> None:
    try:
        for name in packages:
            with contextlib.suppress(Exception):  # code that needs the package raises a better error
                importlib.import_module(name)
    finally:
        if loaded is not None:
            loaded.set()
            threading.Event().wait()  # keep the thread until the process ends


class _Call:
    """One call that a worker thread makes in the context of its caller."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self.call, self.context, self.interrupt = call, contextvars.copy_context(), clock.Interrupt()
        self.found: Any = None
        self.error: BaseException | None = None
        self.running = threading.Lock()
        self.running.acquire()

    def run(self) -> None:
        try:
            self.found = self.context.run(self._call)
        except BaseException as error:
            self.error = error
        finally:
            self.running.release()

    def _call(self) -> Any:
        with clock.interruptible(self.interrupt):
            return self.call()


def _serve_calls(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (pending_call := calls.get()) is not None:
        pending_call.run()
        del pending_call  # release its objects before waiting for the next call


class Guard:
    """Makes calls for one device in a separate thread, so that a call that hangs blocks only that thread.

    A call that still runs at the deadline or at Ctrl-C is abandoned, and its later result is dropped.

    Parameters
    ----------
    device : str
        Name of the device, for error messages.
    grace_s : float
        Seconds that an abandoned call has to end by itself.
    """

    def __init__(self, device: str, grace_s: float = GRACE_S) -> None:
        self.device, self.grace_s = device, grace_s
        self._calls: queue.SimpleQueue[_Call | None] | None = None
        self._worker: threading.Thread | None = None
        self._given_up: threading.Lock | None = None

    @property
    def hangs(self) -> bool:
        """Whether an abandoned call still runs."""
        return self._given_up is not None and self._given_up.locked()

    def call(self, doing: str, call: Callable[[], T], sent: bool | None = False) -> T:
        """Make a call and return its result.

        Parameters
        ----------
        doing : str
            What failed if the call raises, such as "failed on circuit 'tree_q3'"; part of the error message.
        call : callable
        sent : bool or None
            Whether the job has reached the machine when the call raises; see `DeviceError`.

        Raises
        ------
        DeviceError
            The call raised an Exception that is not a `DualflowError`.
        OutOfTime, KeyboardInterrupt
            Raised without waiting for the call.
        """
        clock.check_time()
        pending_call = _Call(call)
        calls = self._call_queue()
        try:
            calls.put(pending_call)
            while not pending_call.running.acquire(timeout=POLL_S):
                clock.check_time()
        except BaseException as error:
            self._give_up(calls, pending_call)
            if isinstance(error, clock.OutOfTime):
                raise self._timeout_error() from None
            raise
        # Without arguments the deadline was noticed within the call.
        if isinstance(pending_call.error, clock.OutOfTime) and not pending_call.error.args:
            raise self._timeout_error() from pending_call.error
        if pending_call.error is not None:
            with device_errors(self.device, doing, sent):
                raise pending_call.error
        found: T = pending_call.found
        return found

    def _timeout_error(self) -> clock.OutOfTime:
        return clock.OutOfTime(
            f"device {self.device!r} had not answered when the time was over; its later result is dropped"
        )

    def _call_queue(self) -> queue.SimpleQueue[_Call | None]:
        """Return the queue of the worker thread; start a thread if there is none, as in the child of a fork."""
        if self._calls is None or self._worker is None or not self._worker.is_alive():
            self._calls = queue.SimpleQueue()
            self._worker = threading.Thread(
                target=_serve_calls, args=(self._calls,), name="dualflow device", daemon=True
            )
            self._worker.start()
            weakref.finalize(self, self._calls.put, None).atexit = False
        return self._calls

    def _give_up(self, calls: queue.SimpleQueue[_Call | None], pending_call: _Call) -> None:
        """Abandon a call and its thread; the next call gets a new thread."""
        self._calls = self._worker = None
        self._given_up = pending_call.running
        pending_call.interrupt.pending = True
        calls.put(None)
        if pending_call.running.acquire(timeout=self.grace_s):
            pending_call.running.release()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_calls": None, "_worker": None, "_given_up": None}
