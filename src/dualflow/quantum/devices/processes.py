"""Processes that run circuits for this one: started when they are wanted, kept warm for a while, ended for certain.

Pools are this process' own, one for each size, and shared by all devices. joblib's loky starts them: scripts need no
``if __name__ == "__main__"``, and a worker that dies is noticed.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core import clock

__all__ = ["Pool", "Task", "close_pool", "gathered", "is_worker", "packed", "pool_of", "rows_of", "run_task"]

#: Seconds that an idle pool waits for the next circuits.
LINGER_S = 10.0
#: Seconds between two looks at the clock.
LOOK_S = 0.1
#: Devices and circuits that a worker keeps.
KEPT = 256
#: Errors of dask's and of loky's that say the same as the standard library's: nobody is at it any more.
LOST = ("KilledWorker", "ShutdownExecutorError")
#: What says how many threads a process' libraries take.
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")

#: Device, circuit (both `packed`), rows of angles, shots, seed of the whole batch, number of the first row.
Task = tuple[bytes, bytes, NDArray, "int | None", int, int]


def packed(thing: Any) -> bytes:
    """A device or a circuit as it travels; classes that only the caller's script has travel along."""
    from joblib.externals.loky.backend.reduction import dumps

    return bytes(dumps(thing))


@lru_cache(KEPT)
def _opened(thing: bytes) -> Any:
    return pickle.loads(thing)  # by `packed`, of the process that this one works for


def run_task(*task: Any) -> tuple[NDArray, NDArray | None]:
    """`Device.run_rows` in another process. What travelled is kept there, so that a circuit is compiled once."""
    device, circuit, values, shots, seed, first = task
    found: tuple[NDArray, NDArray | None] = _opened(device).run_rows(_opened(circuit), values, shots, seed, first)
    return found


def is_worker() -> bool:
    """Whether this process was started to work for another: it starts none itself."""
    return multiprocessing.parent_process() is not None


class Pool:
    """So many processes, with so many threads each.

    Attributes
    ----------
    closed : bool
    """

    def __init__(self, processes: int, threads: int) -> None:
        from joblib.externals.loky.process_executor import ProcessPoolExecutor

        environment = {name: str(threads) for name in THREADS}
        self.executor = ProcessPoolExecutor(processes, initializer=_begin, initargs=(os.getpid(),), env=environment)
        self.closed = False
        self._at_work, self._lock = 0, threading.Lock()
        self._timer: threading.Timer | None = None

    def submit(self, *task: Any) -> Any:
        """The future of a task; `BrokenExecutor` or RuntimeError if the pool is no more."""
        return self.executor.submit(run_task, *task)

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
        self.closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.executor.shutdown(wait=True, kill_workers=True)


#: By processes and threads. A child of a fork has none of its parent's, and must not end them either.
_pools: dict[tuple[int, int], Pool] = {}
_parents: list[Any] = []
_owner, _lock = os.getpid(), threading.RLock()


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


def _begin(parent: int) -> None:
    """Of a worker: Ctrl-C is its parent's affair, and without a parent it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)

    def look() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    if os.name == "posix":
        threading.Thread(target=look, daemon=True).start()


def gathered(submit: Any, tasks: Sequence[Task]) -> tuple[list[Any], BaseException | None]:
    """What tasks returned, None for those that were lost with whoever was at them, and how the last was lost.

    Parameters
    ----------
    submit : callable
        Gives a future: of an executor, or of a dask client.

    Raises
    ------
    BaseException
        What a task raised; OutOfTime and KeyboardInterrupt, with the other tasks cancelled.
    """
    found: list[Any] = [None] * len(tasks)
    lost: BaseException | None = None
    futures: list[Any] = []
    ready = threading.Semaphore(0)
    try:
        for task in tasks:
            try:
                futures.append(submit(*task))
            except (BrokenExecutor, RuntimeError) as error:  # it broke, or was closed by another thread, meanwhile
                lost = error
                break
            futures[-1].add_done_callback(lambda _: ready.release())
        for _ in futures:
            while not ready.acquire(timeout=LOOK_S):
                clock.look()
            clock.look()
    except BaseException:
        for future in futures:
            future.cancel()
        raise
    for k, future in enumerate(futures):
        try:
            found[k] = future.result()
        except (BrokenExecutor, CancelledError) as error:
            lost = error
        except Exception as error:
            if type(error).__name__ not in LOST:
                raise
            lost = error
    return found, lost


def rows_of(block: NDArray, parts: int) -> list[NDArray]:
    """A block of rows in so many parts as alike as may be, none of them empty."""
    return [rows for rows in np.array_split(block, max(1, min(parts, len(block)))) if len(rows)]
