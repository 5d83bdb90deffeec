"""Pools of worker processes that run circuits: started for the first batch, kept while in use, and always ended.

This process has one pool for each size, shared by all devices. joblib's loky starts the processes, so that scripts
need no ``if __name__ == "__main__"``. Each worker has its own pipe. loky's executor is not used: its two queues and two
threads take a tenth of the time of a short batch, and after Ctrl-C its thread failed at a future that was already
cancelled (loky 3.6) and left the processes running.
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
from .tasks import POLL_S

#: Seconds after its last batch at which an idle pool is closed.
IDLE_POOL_S = 10.0
#: Environment variables that set the number of threads of a process' libraries.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")


def is_worker() -> bool:
    """Return whether this process is a worker of another process; a worker starts no processes."""
    return multiprocessing.parent_process() is not None


class _Worker:
    """A process that runs one task after another, and this process' end of its pipe."""

    def __init__(self, threads: int) -> None:
        from joblib.externals.loky.backend import get_context

        context: Any = get_context("loky")
        self.pipe, theirs = context.Pipe()
        environment = {name: str(threads) for name in THREAD_VARIABLES}
        self.process = context.Process(target=_serve, args=(theirs, os.getpid()), env=environment)
        with _ctrl_c_blocked():
            self.process.start()
        theirs.close()

    def end(self) -> None:
        """Kill the process, even during a task, and wait for its end."""
        if self.process.exitcode is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(self.process.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        self.process.join()


class Pool:
    """A pool of worker processes.

    Parameters
    ----------
    processes : int ≥ 1
        Most processes of the pool; they are started when tasks need them.
    threads : int ≥ 1
        Threads of each process' libraries.

    Attributes
    ----------
    closed : bool
        Whether the processes were ended; a closed pool runs no tasks.
    """

    def __init__(self, processes: int, threads: int) -> None:
        self.processes, self.threads = processes, threads
        self.closed = False
        self._workers: list[_Worker] = []
        self._n_users, self._lock, self._turn = 0, threading.Lock(), threading.Lock()
        self._timer: threading.Timer | None = None

    def run(self, function: Callable[..., Any], tasks: Sequence[tuple]) -> tuple[list[Any], BaseException | None]:
        """Return the results of ``function(*task)`` and the error of the last lost task, as `tasks.gather_results`.

        Threads that use the same pool take turns. The pool is closed if a process died, and by any exception during
        the tasks, such as Ctrl-C or the end of a run's time.
        """
        while not self._turn.acquire(timeout=POLL_S):
            clock.check_time()
        running: dict[Any, tuple[_Worker, int]] = {}
        lost: BaseException | None = None
        try:
            found, lost = self._run(function, tasks, running)
        finally:
            if running or lost:
                self.close()
            self._turn.release()
        return found, lost

    def _run(
        self, function: Callable[..., Any], tasks: Sequence[tuple], running: dict[Any, tuple[_Worker, int]]
    ) -> tuple[list[Any], BaseException | None]:
        """Run the tasks of `run`; ``running`` holds the worker and the index of each task that runs, by pipe."""
        found: list[Any] = [None] * len(tasks)
        lost: BaseException | None = None
        errors: list[tuple[int, Exception]] = []
        free, waiting = self._start_workers(len(tasks)), list(range(len(tasks)))[::-1]
        while running or (waiting and free):
            while waiting and free:
                worker = free.pop()
                try:
                    worker.pipe.send((function, tasks[waiting[-1]]))
                except OSError as error:  # the worker died before it received the task
                    lost = error
                else:
                    running[worker.pipe] = worker, waiting.pop()
            for pipe in wait(running, timeout=POLL_S):
                worker, k = running.pop(pipe)
                try:
                    succeeded, result = worker.pipe.recv()
                except (EOFError, OSError) as error:  # the worker died during the task
                    lost = error
                    continue
                free.append(worker)
                if succeeded:
                    found[k] = result
                else:
                    errors.append((k, result))
            clock.check_time()
        if errors:
            raise min(errors, key=itemgetter(0))[1]
        return found, lost or (BrokenPipeError("no process is left") if waiting else None)

    def _start_workers(self, count: int) -> list[_Worker]:
        """Return up to ``count`` workers, started if need be; a closed pool returns none."""
        with self._lock:
            while not self.closed and len(self._workers) < min(count, self.processes):
                self._workers.append(_Worker(self.threads))
            return self._workers[:count]

    @contextlib.contextmanager
    def work(self) -> Iterator[None]:
        """Keep the processes during the block; close the pool `IDLE_POOL_S` after the last block that uses it."""
        with self._lock:
            self._n_users += 1
            if self._timer is not None:
                self._timer.cancel()
        try:
            yield
        finally:
            with self._lock:
                self._n_users -= 1
                if not self._n_users and not self.closed:
                    self._timer = threading.Timer(IDLE_POOL_S, self._close_if_idle)
                    self._timer.daemon = True
                    self._timer.start()

    def _close_if_idle(self) -> None:
        with _lock, self._lock:
            if self._n_users:
                return
            self.closed = True
        self.close()

    def close(self) -> None:
        """Kill all processes of the pool, even during a task."""
        with self._lock:
            self.closed = True
            if self._timer is not None:
                self._timer.cancel()
            workers, self._workers = self._workers, []
        for worker in workers:
            worker.end()


#: Pools by processes and threads.
_pools: dict[tuple[int, int], Pool] = {}
#: Pools of the parent, in the child of a fork: references that keep them from being deleted and so ended.
_parents: list[Any] = []
#: Id of the process that made the pools; another id in the child of a fork.
_owner = os.getpid()
_lock = threading.RLock()


@in_child
def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


def pool_of(processes: int, threads: int) -> Pool:
    """Return the pool of a size; processes are started when there are tasks."""
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
    """Close the pool of a size, if there is one."""
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
def _ctrl_c_blocked() -> Iterator[None]:
    """Block Ctrl-C during the block: processes started in it ignore it, and this process receives it afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(pipe: Any, parent: int) -> None:
    """Run the tasks that a worker process receives, until its parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def exit_with_parent() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if os.name == "posix":  # end with the parent even during a task
        threading.Thread(target=exit_with_parent, daemon=True).start()
    while True:
        try:
            function, task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = True, function(*task)
        except Exception as error:
            answer = False, _picklable_error(error)
        pipe.send(answer)


def _picklable_error(error: Exception) -> Exception:
    """Return an error that can be pickled, with its traceback as a note."""
    where = f"in a process that ran circuits:\n{''.join(traceback.format_exception(error))}"
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(where)
    return error
