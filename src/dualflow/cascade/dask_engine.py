"""Parts on a dask cluster: tasks are submitted with retries, so that a worker's death costs only its running tasks.

A part is the result of a task that returns its description (or computes its chunk), so that the scheduler can compute
it again on another worker. Shared data of a round are scattered to one worker, from which the others copy them. If all
workers that hold them die, they are scattered again, and unfinished tasks are submitted again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import dask
import distributed

from ..core.runtime import clock
from ..exceptions import EngineError
from .parts import Chunk, Part
from .tasks import nbytes, run_task

__all__ = ["Dask"]

#: Retries of a failed task, and of a round whose data were lost.
RETRIES = 3
#: Seconds between two checks that the scheduler is still there.
POLL_S = 1.0
#: Seconds within which a finished result must arrive; a client can wait without end if a worker dies while sending.
MAX_GATHER_S = 30.0
#: Seconds without any running task, while results are missing, after which the round is submitted again.
MAX_IDLE_S = 120.0
#: Seconds for which the cluster may have no worker: new workers have to start and to import the package.
MAX_WITHOUT_WORKER_S = 600.0
#: Graph size above which dask warns. Arrays in memory must be sent once, so that the warning is of no use.
MAX_GRAPH_SIZE = "1 TiB"


def _description(part: Part) -> Part:
    """Return a part's description; as a task of its own it can be computed again."""
    return part


class Dask:
    """Runs parts on the workers of a `distributed.Client`."""

    def __init__(self, parts: Sequence[Part], client: Any) -> None:
        self.parts, self.client, self.sent, self.received = parts, client, 0, 0
        self._check_scheduler()
        self._submitted: list[Any] = [None] * len(parts)
        self._submit_parts(range(len(parts)))

    def _submit_parts(self, missing: Iterable[int]) -> None:
        """Submit the descriptions of parts to the cluster."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": MAX_GRAPH_SIZE}):
            for k in missing:
                if not isinstance(part := self.parts[k], Chunk):
                    self._submitted[k] = self.client.submit(_description, part, pure=False, retries=RETRIES)

    def run(self, function: Any, own: Sequence[Any], shared: Any) -> list[Any]:
        """Return the results of the task for each part, in the order of the parts."""
        results: dict[int, Any] = {}
        self._check_scheduler()
        for attempt in range(RETRIES + 1):
            missing = [k for k in range(len(self.parts)) if k not in results]
            error = self._round(function, own, shared, missing, results)
            if error is None:
                return [results[k] for k in range(len(self.parts))]
            if attempt == RETRIES:
                why = str(error) or type(error).__name__
                raise EngineError(f"dask: what tasks need was lost {RETRIES + 1} times in one round: {why}") from error
            self._submit_parts(k for k in missing if k not in results)
        raise AssertionError("unreachable")

    def _round(
        self, function: Any, own: Sequence[Any], shared: Any, missing: list[int], results: dict[int, Any]
    ) -> BaseException | None:
        """Submit tasks and store their results; return the error if some results are missing and a retry may help."""
        client, tasks, others = self.client, {}, []
        try:
            scattered = shared
            if nbytes(shared):
                self._wait_for_workers()
                # To one worker, from which the others copy: dask's own broadcast waits without end for a dead worker.
                (scattered,) = client.scatter([shared], hash=False)
                others.append(scattered)
                self.sent += nbytes(shared) * max(1, len(client.nthreads()))
            for k in missing:
                part = self._submitted[k]
                if part is None:
                    part = client.compute(self._delayed(k), retries=RETRIES)
                    others.append(part)
                task = client.submit(run_task, function, part, k, own[k], scattered, pure=False, retries=RETRIES)
                self.sent += nbytes(own[k])
                tasks[task] = k
            waiting, busy = set(tasks), time.monotonic()
            while waiting:
                clock.look()
                try:
                    done = distributed.wait(waiting, timeout=POLL_S, return_when="FIRST_COMPLETED").done
                except TimeoutError:
                    done, at_work = set(), client.processing()
                    if not at_work:
                        self._wait_for_workers()
                    if not at_work or any(at_work.values()):
                        busy = time.monotonic()
                    elif time.monotonic() - busy > MAX_IDLE_S:
                        raise
                for task in sorted(done, key=tasks.__getitem__):
                    results[tasks[task]] = found = task.result(timeout=MAX_GATHER_S)
                    self.received += nbytes(found)
                    waiting.discard(task)
                    task.release()
                self._check_scheduler()
        except distributed.KilledWorker as error:
            raise EngineError(
                f"dask: several workers died at one part, one after another: {error}. If they were out of memory, give "
                "more partitions, or workers with more of it"
            ) from error
        except (CancelledError, OSError) as error:
            self._check_scheduler(error)
            return error
        finally:
            self._release([*tasks, *others])
        return None

    def _delayed(self, k: int) -> Any:
        """Return a part's chunk as a delayed object."""
        part = self.parts[k]
        assert isinstance(part, Chunk)
        return part.delayed()

    def _check_scheduler(self, error: BaseException | None = None) -> None:
        """Raise `EngineError` if the scheduler cannot be reached."""
        if self.client.status != "running":
            raise EngineError(
                f"dask: the scheduler is lost (client {self.client.status!r}); with a checkpoint, fit again with "
                "a client of a new cluster, and it goes on from the last round"
            ) from error

    def _wait_for_workers(self) -> None:
        """Wait until there is a worker; raise `EngineError` after `MAX_WITHOUT_WORKER_S` seconds."""
        since = time.monotonic()
        while not self.client.nthreads():
            self._check_scheduler()
            if time.monotonic() - since > MAX_WITHOUT_WORKER_S:
                raise EngineError(
                    f"dask: the cluster has had no worker for {MAX_WITHOUT_WORKER_S:.3g} seconds; with a "
                    "checkpoint, fit again when it has, and it goes on from the last round"
                )
            time.sleep(POLL_S)

    def _release(self, futures: list[Any]) -> None:
        """Cancel unfinished tasks and release all; do nothing on a closed client, which would log an error."""
        left = [future for future in futures if not future.done()]
        if left and self.client.status == "running":
            self.client.cancel(left)
        for future in futures:
            future.release()

    def close(self) -> None:
        """Release the parts on the cluster."""
        for future in self._submitted:
            if future is not None:
                future.release()
        self._submitted = []
