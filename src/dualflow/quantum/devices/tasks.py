"""Rows of a batch as tasks for other processes: pickle them, run them, collect results and lost tasks."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, CancelledError
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...core.runtime import clock

#: Seconds between two checks of the run's deadline.
POLL_S = 0.1
#: Unpickled devices and circuits that a worker keeps.
MAX_CACHED_OBJECTS = 256
#: Names of errors of dask and of other executors that mean that a worker died or the executor was closed.
LOST_WORKER_ERRORS = ("KilledWorker", "ShutdownExecutorError")

#: Device and circuit (both `pickled`), rows of angles, shots, seed of the whole batch, index of the first row.
Task = tuple[bytes, bytes, NDArray, "int | None", int, int]


def pickled(thing: Any) -> bytes:
    """Return a device or circuit as bytes; classes defined in the caller's script are included."""
    from joblib.externals.loky.backend.reduction import dumps

    return bytes(dumps(thing))


@lru_cache(MAX_CACHED_OBJECTS)
def _unpickled(thing: bytes) -> Any:
    return pickle.loads(thing)  # bytes of `pickled` from the parent process


def run_task(*task: Any) -> tuple[NDArray, NDArray | None]:
    """Call `Device.run_rows` in this worker. The device and circuit are cached, so that a circuit is compiled once."""
    device, circuit, values, shots, seed, first = task
    found: tuple[NDArray, NDArray | None] = _unpickled(device).run_rows(_unpickled(circuit), values, shots, seed, first)
    return found


def gather_results(submit: Any, tasks: Sequence[Task]) -> tuple[list[Any], BaseException | None]:
    """Run tasks and return their results.

    Parameters
    ----------
    submit : callable
        Takes the entries of a task and returns a future, of an executor or of a dask client.
    tasks : sequence of Task

    Returns
    -------
    results : list
        In the order of the tasks; None for a task that was lost because its worker died.
    lost : exception or None
        The error of the last task that was lost.

    Raises
    ------
    BaseException
        What a task raised; or OutOfTime or KeyboardInterrupt, after the other tasks were cancelled.
    """
    found: list[Any] = [None] * len(tasks)
    lost: BaseException | None = None
    futures: list[Any] = []
    ready = threading.Semaphore(0)
    try:
        for task in tasks:
            try:
                futures.append(submit(*task))
            except (BrokenExecutor, RuntimeError) as error:  # the executor broke, or another thread closed it
                lost = error
                break
            futures[-1].add_done_callback(lambda _: ready.release())
        for _ in futures:
            while not ready.acquire(timeout=POLL_S):
                clock.check_time()
            clock.check_time()
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
            if type(error).__name__ not in LOST_WORKER_ERRORS:
                raise
            lost = error
    return found, lost


def rows_of(block: NDArray, parts: int) -> list[NDArray]:
    """Split a block of rows into at most ``parts`` parts of nearly equal size, none of them empty."""
    return [rows for rows in np.array_split(block, max(1, min(parts, len(block)))) if len(rows)]
