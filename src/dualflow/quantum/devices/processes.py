"""Processes that run circuits for this one: started when they are wanted, kept warm for a while, ended for certain.

Pools are this process' own, one for each size, and shared by all devices. joblib's loky starts the processes, so that
scripts need no ``if __name__ == "__main__"``; each is told by a pipe of its own. loky's executor does the same through
two queues and two threads, which cost a short batch a tenth of its time, and after Ctrl-C its thread died at a future
that was cancelled already (3.6) and left the processes at work.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import wait
from operator import itemgetter
from typing import Any

from ...core.runtime import clock
from ...core.runtime.threads import in_child
from .tasks import LOOK_S

__all__ = ["Pool", "close_pool", "is_worker", "pool_of"]

#: Seconds that an idle pool waits for the next circuits.
LINGER_S = 10.0
#: What says how many threads a process' libraries take.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def is_worker() -> bool:
    """Whether this process was started to work for another: it starts none itself."""
    return multiprocessing.parent_process() is not None


class _Worker:
    """A process that runs tasks, one after the other, and this process' end of the pipe to it."""

    def __init__(self, threads: int) -> None:
        from joblib.externals.loky.backend import get_context

        context: Any = get_context("loky")
        self.pipe, theirs = context.Pipe()
        environment = {name: str(threads) for name in THREADS}
        self.process = context.Process(target=_serve, args=(theirs, os.getpid()), env=environment)
        with _deaf_to_ctrl_c():
            self.process.start()
        theirs.close()

    def end(self) -> None:
        """End it, whatever it is at."""
        if self.process.exitcode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        self.process.join()


class Pool:
    """So many processes, with so many threads each.

    Attributes
    ----------
    closed : bool
    """

    def __init__(self, processes: int, threads: int) -> None:
        self.processes, self.threads = processes, threads
        self.closed = False
        self._workers: list[_Worker] = []
        self._at_work, self._lock, self._turn = 0, threading.Lock(), threading.Lock()
        self._timer: threading.Timer | None = None

    def run(self, function: Callable[..., Any], tasks: Sequence[tuple]) -> tuple[list[Any], BaseException | None]:
        """As `tasks.gathered`: what ``function(*task)`` returned, and how the last of those that were lost was lost.

        Threads that want the same processes take turns. The pool is closed where a process died, and by all that is
        raised while some are at work: Ctrl-C, the end of a run's time.
        """
        while not self._turn.acquire(timeout=LOOK_S):
            clock.look()
        at: dict[Any, tuple[_Worker, int]] = {}
        lost: BaseException | None = None
        try:
            found, lost = self._run(function, tasks, at)
        finally:
            if at or lost:
                self.close()
            self._turn.release()
        return found, lost

    def _run(
        self, function: Callable[..., Any], tasks: Sequence[tuple], at: dict[Any, tuple[_Worker, int]]
    ) -> tuple[list[Any], BaseException | None]:
        """The same; who is at which task stands in ``at`` meanwhile."""
        found: list[Any] = [None] * len(tasks)
        lost: BaseException | None = None
        errors: list[tuple[int, Exception]] = []
        free, waiting = self._started(len(tasks)), list(range(len(tasks)))[::-1]
        while at or (waiting and free):
            while waiting and free:
                worker = free.pop()
                try:
                    worker.pipe.send((function, tasks[waiting[-1]]))
                except OSError as error:  # it died before it was told
                    lost = error
                else:
                    at[worker.pipe] = worker, waiting.pop()
            for pipe in wait(at, timeout=LOOK_S):
                worker, k = at.pop(pipe)
                try:
                    returned, given = worker.pipe.recv()
                except (EOFError, OSError) as error:  # it died at it
                    lost = error
                    continue
                free.append(worker)
                if returned:
                    found[k] = given
                else:
                    errors.append((k, given))
            clock.look()
        if errors:
            raise min(errors, key=itemgetter(0))[1]
        return found, lost or (BrokenPipeError("no process is left") if waiting else None)

    def _started(self, wanted: int) -> list[_Worker]:
        """The processes, so many if the pool has as many; none of a pool that is closed."""
        with self._lock:
            while not self.closed and len(self._workers) < min(wanted, self.processes):
                self._workers.append(_Worker(self.threads))
            return self._workers[:wanted]

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """The processes are wanted meanwhile; afterwards they linger for `LINGER_S`, unless another wants them."""
        with self._lock:
            self._at_work += 1
            if self._timer is not None:
                self._timer.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= 1
                if not self._at_work and not self.closed:
                    self._timer = threading.Timer(LINGER_S, self._close_if_idle)
                    self._timer.daemon = True
                    self._timer.start()

    def _close_if_idle(self) -> None:
        with _lock, self._lock:
            if self._at_work:
                return
            self.closed = True
        self.close()

    def close(self) -> None:
        """End all its processes, whatever they are at."""
        with self._lock:
            self.closed = True
            if self._timer is not None:
                self._timer.cancel()
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.end()


#: By processes and threads. A child of a fork has none of its parent's, and must not end them either.
_pools: dict[tuple[int, int], Pool] = {}
_parents: list[Any] = []
_owner, _lock = os.getpid(), threading.RLock()


@in_child
def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


def pool_of(processes: int, threads: int) -> Pool:
    """The pool of that size; nothing is started before there is work."""
    global _owner
    with _lock:
        if _owner != os.getpid():
            _parents.append(dict(_pools))
            _pools.clear()
            _owner = os.getpid()
        pool = _pools.get((processes, threads))
        if pool is None or pool.closed:
            pool = _pools[processes, threads] = Pool(processes, threads)
        return pool


def close_pool(processes: int, threads: int) -> None:
    """End the pool of that size, if there is one."""
    with _lock:
        pool = _pools.get((processes, threads)) if _owner == os.getpid() else None
    if pool is not None:
        pool.close()


@atexit.register
def _close_all() -> None:
    if _owner == os.getpid():
        for pool in _pools.values():
            pool.close()


@contextlib.contextmanager
def _deaf_to_ctrl_c() -> Iterator[None]:
    """What is started meanwhile does not hear Ctrl-C: it is this process' affair, which hears of it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Any, parent: int) -> None:
    """Of a worker: run what comes, until nobody is there who could send more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if os.name == "posix":  # it ends with its parent even in the middle of a task
        threading.Thread(target=look, daemon=True).start()
    while True:
        try:
            function, task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, function(*task)
        except Exception as error:
            answer = False, _sendable(error)
        pipe.send(answer)


def _sendable(error: Exception) -> Exception:
    """An error that survives the way to the parent, with where it was raised as a note."""
    where = f"in a process that ran circuits:\n{''.join(traceback.format_exception(error))}"
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(where)
    return error
