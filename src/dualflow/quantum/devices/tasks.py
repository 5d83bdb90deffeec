"""Rows of a batch as tasks for whoever runs them: how they travel, what they return, and how they are lost."""

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

__all__ = ["LOOK_S", "Task", "gathered", "packed", "rows_of", "run_task"]

#: Seconds between two looks at the clock.
LOOK_S = 0.1
#: Devices and circuits that a worker keeps.
KEPT = 256
#: Errors of dask's and of executors' that say the same as the standard library's: nobody is at it any more.
LOST = ("KilledWorker", "ShutdownExecutorError")

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
