"""Parts on a dask cluster: `Client.submit` with retries; a worker's death costs what it was at.

A part is a task of its own that makes its description (or computes its chunk), so that the scheduler can have it made
again elsewhere. What all share in a round is scattered to one worker, and goes on from there; should those that have it
all die, it is scattered again, and what was not done is submitted again.
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

#: How often a task that failed is tried again, and a round's tasks whose data were lost are submitted again.
RETRIES = 3
#: Seconds between two looks whether the scheduler is still there.
PATIENCE = 1.0
#: Seconds in which a result that is there has come, and for which no worker is at work while something is wanted; after
#: them it is submitted anew, for a client can wait for ever for one whose worker died as it handed over.
GATHERED, IDLE = 30.0, 120.0
#: Seconds for which there may be no worker at all: new ones have to be begun, and to import the package.
ABSENT = 600.0
#: How large a graph may be before dask warns: arrays in memory have to go there somehow, once.
LARGE = "1 TiB"


def _made(part: Part) -> Part:
    """A part's description as the result of a task, which can be made again."""
    return part


class Dask:
    """A `distributed.Client`'s workers."""

    def __init__(self, parts: Sequence[Part], client: Any) -> None:
        self.parts, self.client, self.sent, self.received = parts, client, 0, 0
        self._look()
        self._held: list[Any] = [None] * len(parts)
        self._hold(range(len(parts)))

    def _hold(self, wanted: Iterable[int]) -> None:
        """Have the descriptions of parts on the cluster."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": LARGE}):
            for k in wanted:
                if not isinstance(part := self.parts[k], Chunk):
                    self._held[k] = self.client.submit(_made, part, pure=False, retries=RETRIES)

    def run(self, function: Any, own: Sequence[Any], shared: Any) -> list[Any]:
        results: dict[int, Any] = {}
        self._look()
        for attempt in range(RETRIES + 1):
            wanted = [k for k in range(len(self.parts)) if k not in results]
            lost = self._round(function, own, shared, wanted, results)
            if lost is None:
                return [results[k] for k in range(len(self.parts))]
            if attempt == RETRIES:
                why = str(lost) or type(lost).__name__
                raise EngineError(f"dask: what tasks need was lost {RETRIES + 1} times in one round: {why}") from lost
            self._hold(k for k in wanted if k not in results)
        raise AssertionError("unreachable")

    def _round(
        self, function: Any, own: Sequence[Any], shared: Any, wanted: list[int], results: dict[int, Any]
    ) -> BaseException | None:
        """Submit tasks and take what they return; what is in the way of some that is worth another try."""
        client, tasks, others = self.client, {}, []
        try:
            told = shared
            if nbytes(shared):
                self._wait_for_workers()
                # To one worker, from which the others have it: dask's own broadcast waits for ever for one that dies.
                (told,) = client.scatter([shared], hash=False)
                others.append(told)
                self.sent += nbytes(shared) * max(1, len(client.nthreads()))
            for k in wanted:
                part = self._held[k]
                if part is None:
                    part = client.compute(self._delayed(k), retries=RETRIES)
                    others.append(part)
                task = client.submit(run_task, function, part, k, own[k], told, pure=False, retries=RETRIES)
                self.sent += nbytes(own[k])
                tasks[task] = k
            waiting, busy = set(tasks), time.monotonic()
            while waiting:
                clock.look()
                try:
                    done = distributed.wait(waiting, timeout=PATIENCE, return_when="FIRST_COMPLETED").done
                except TimeoutError:
                    done, at_work = set(), client.processing()
                    if not at_work:
                        self._wait_for_workers()
                    if not at_work or any(at_work.values()):
                        busy = time.monotonic()
                    elif time.monotonic() - busy > IDLE:
                        raise
                for task in sorted(done, key=tasks.__getitem__):
                    results[tasks[task]] = found = task.result(timeout=GATHERED)
                    self.received += nbytes(found)
                    waiting.discard(task)
                    task.release()
                self._look()
        except distributed.KilledWorker as error:
            raise EngineError(
                f"dask: several workers died at one part, one after another: {error}. If they were out of memory, give "
                "more partitions, or workers with more of it"
            ) from error
        except (CancelledError, OSError) as error:
            self._look(error)
            return error
        finally:
            self._drop([*tasks, *others])
        return None

    def _delayed(self, k: int) -> Any:
        part = self.parts[k]
        assert isinstance(part, Chunk)
        return part.delayed()

    def _look(self, error: BaseException | None = None) -> None:
        """`EngineError` if there is no scheduler to talk to."""
        if self.client.status != "running":
            raise EngineError(
                f"dask: the scheduler is lost (client {self.client.status!r}); with a checkpoint, fit again with "
                "a client of a new cluster, and it goes on from the last round"
            ) from error

    def _wait_for_workers(self) -> None:
        """Wait until there is one; `EngineError` if there is none for long."""
        since = time.monotonic()
        while not self.client.nthreads():
            self._look()
            if time.monotonic() - since > ABSENT:
                raise EngineError(
                    f"dask: the cluster has had no worker for {ABSENT:.3g} seconds; with a checkpoint, fit again when "
                    "it has, and it goes on from the last round"
                )
            time.sleep(PATIENCE)

    def _drop(self, futures: list[Any]) -> None:
        """Cancel what is not done, without a word where nobody is there to hear it."""
        left = [future for future in futures if not future.done()]
        if left and self.client.status == "running":
            self.client.cancel(left)
        for future in futures:
            future.release()

    def close(self) -> None:
        for future in self._held:
            if future is not None:
                future.release()
        self._held = []
