"""Parts on a dask cluster: tasks are submitted with retries, so that a worker's death costs only its running tasks.

A part is the result of a task that returns its description (or computes its chunk), so that the scheduler can compute
it again on another worker. Shared data of a round are scattered to one worker, from which the others copy them. If all
workers that hold them die, they are scattered again, and unfinished tasks are submitted again. Each worker imports the
package before its first task. A task ends at the time limit of the fit, and when the client cancels it.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.metadata
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

import dask
import distributed
from distributed.threadpoolexecutor import thread_state as pool_state
from distributed.worker import thread_state

from ..core.runtime import clock
from ..core.runtime.warn import warn_user
from ..exceptions import DualflowError, EngineError, ProblemError
from .exchange import nbytes
from .parts import Chunk, Part, unreadable
from .tasks import raise_if_late, run_task

#: Retries of a failed task, and of a round whose data were lost.
RETRIES = 3
#: Seconds between two checks that the scheduler is still there.
POLL_S = 1.0
#: Seconds of waiting after which a warning says what the fit waits for.
MIN_WAIT_WARNED_S = 10.0
#: Seconds within which a finished result must arrive; a client can wait without end if a worker dies while sending.
MAX_GATHER_S = 30.0
#: Seconds without any running task, while results are missing, after which the round is submitted again.
MAX_IDLE_S = 120.0
#: Seconds for which the cluster may have no worker: new workers have to start and to import the package.
MAX_WITHOUT_WORKER_S = 600.0
#: If a pool has more bytes, the memory of the pool before is returned to the system, which takes 0.04 seconds.
MIN_BYTES_RETURNED = 4 << 20
#: Dask warns above this graph size. Arrays in memory must be sent once, so the warning is of no use.
MAX_GRAPH_SIZE = "1 TiB"
#: What a worker evaluates before its first task: it needs no module of this package to be sent.
IMPORT_AND_VERSION = "__import__('dualflow.cascade.dask_engine').__version__"
#: Topic under which dask's nannies report workers that they ended because their memory was full.
MEMORY_TOPIC = "worker-restart-memory"
#: What helps if workers die of memory.
WAY_OUT = "give more partitions, which are smaller, or workers with a larger memory limit"
#: What dask raises if what a task needs was lost with a worker. A scheduler that looks for a worker which has just died
#: raises KeyError.
LOST = (CancelledError, OSError, KeyError)


class _Cancellation(clock.Interrupt):
    """Pending as soon as the scheduler has cancelled the task of this thread, or forgotten it."""

    def __init__(self) -> None:
        self.worker, self.key = distributed.get_worker(), thread_state.key

    @property
    def pending(self) -> bool:  # type: ignore[override]
        task = self.worker.state.tasks.get(self.key)
        return task is None or task.state not in ("executing", "long-running")


def _run_on_worker(*task: Any) -> Any:
    """Return `run_task`; the result None of a cancelled task is dropped by the worker."""
    try:
        with clock.interruptible(_Cancellation()):
            return run_task(*task)
    except KeyboardInterrupt:  # on a worker it would end the process
        return None


def _description(part: Part) -> Part:
    """Return a part's description; as a task of its own it can be computed again."""
    return part


def _sent(result: Any) -> Any:
    """Return what a part sends, of the result of a task of `Dask.advance`."""
    return result[1] if isinstance(result, tuple) else result


def _return_memory() -> None:
    """Return freed memory to the system, where the C library can.

    Messages arrive in a thread of dask, which keeps their memory for the next ones, and they are in reference cycles.
    """
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)


@dataclass(frozen=True)
class _Job:
    """Tasks of one function: one for each part, or, unless ``of_parts``, one of the pool alone."""

    function: Any
    own: Sequence[Any]
    shared: Any
    pool: Any = None
    of_parts: bool = True


class Dask:
    """Runs parts on the workers of a `distributed.Client`.

    In a task of a worker (a search that runs on the same cluster), the thread leaves the worker's pool until `close`.
    Otherwise the tasks of the fit would wait for the thread, and the thread for them.
    """

    def __init__(self, parts: Sequence[Part], client: Any) -> None:
        self.parts, self.client, self.sent, self.received = parts, client, 0, 0
        self.checksums: Sequence[str | None] = [None] * len(parts)
        self.states: list[Any] = [None] * len(parts)
        self._prepared: set[str] = set()
        self._warned: set[str] = set()
        self._submitted: list[Any] = [None] * len(parts)
        self._pool: tuple[Any, Any] | None = None
        with self._naming_losses():
            self._check_scheduler()
            self._memory_events = len(self._events())
            self._prepare_workers()
            self._submit_parts(range(len(parts)))
        self._left_pool = hasattr(thread_state, "execution_state") and getattr(pool_state, "proceed", False)
        if self._left_pool:
            distributed.secede()

    def _submit_parts(self, missing: Iterable[int]) -> None:
        """Submit the descriptions of parts to the cluster."""
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": MAX_GRAPH_SIZE}):
            for k in missing:
                if isinstance(part := self.parts[k], Chunk):
                    self._submitted[k] = part.futures()
                else:
                    self._submitted[k] = self.client.submit(_description, part, pure=False, retries=RETRIES)

    def _prepare_workers(self) -> None:
        """Let each new worker import the package, in one thread; raise `EngineError` if it lacks it.

        Two threads of a worker that import the package at the same time can end the worker.
        """
        new = [worker for worker in self.client.nthreads() if worker not in self._prepared]
        if not new:
            return
        own = importlib.metadata.version("dualflow")
        found = self.client.run(eval, IMPORT_AND_VERSION, workers=new, on_error="return")
        for worker, version in found.items():
            if isinstance(version, ImportError):
                raise EngineError(
                    f"dask: the worker {worker} cannot import dualflow: {version}; install dualflow {own} in the "
                    "environment of every worker"
                ) from version
            if isinstance(version, Exception):
                continue  # it died meanwhile
            if version != own:
                raise EngineError(
                    f"dask: the worker {worker} has dualflow {version}, this process {own}; install the same version "
                    "everywhere"
                )
            self._prepared.add(worker)

    def run(self, function: Any, own: Sequence[Any], shared: Any, pool: Any = None) -> list[Any]:
        """Return the results of the task for each part, in the order of the parts."""
        try:
            return self._results(_Job(function, own, shared, pool))
        finally:
            self._pool = None

    def once(self, function: Any, own: Any, pool: Any) -> Any:
        """Return the result of a task of no part, on the pool alone, which a worker computes."""
        if nbytes(pool) > MIN_BYTES_RETURNED:
            _return_memory()
        (found,) = self._results(_Job(function, [own], None, pool, of_parts=False))
        return found

    def advance(self, function: Any, shared: Any) -> list[Any]:
        """Return what the parts send; the results stay on the workers.

        If a worker dies, dask computes the states that it held again, from the part's first task on.
        """
        kept: dict[int, Any] = {}
        try:
            found = self._results(_Job(function, self.states, shared), kept)
        except BaseException:
            self._release(list(kept.values()))
            raise
        self.states = [kept[k] for k in range(len(self.parts))]
        return found

    def _results(self, job: _Job, kept: dict[int, Any] | None = None) -> list[Any]:
        """Return the results of each task, or, with ``kept``, what they send; ``kept`` receives the futures then."""
        results: dict[int, Any] = {}
        self._check_scheduler()
        for attempt in range(RETRIES + 1):
            missing = [k for k in range(len(job.own)) if k not in results]
            with self._naming_losses():
                error = self._round(job, missing, results, kept)
                if error is None:
                    return raise_if_late([results[k] for k in range(len(job.own))])
                if attempt == RETRIES:
                    why = f"{str(error) or type(error).__name__}{self._deaths_by_memory()}"
                    raise EngineError(
                        f"dask: what tasks need was lost {RETRIES + 1} times in one round: {why}"
                    ) from error
                self._pool = None
                if job.of_parts:
                    self._submit_parts(k for k in missing if k not in results)
        raise AssertionError("unreachable")

    def _round(
        self, job: _Job, missing: list[int], results: dict[int, Any], kept: dict[int, Any] | None
    ) -> BaseException | None:
        """Submit tasks and store their results; return the error if some results are missing and a retry may help."""
        client, tasks, others, shared = self.client, dict[Any, int](), list[Any](), job.shared
        try:
            self._prepare_workers()
            if kept is None and nbytes(shared):
                shared = self._scattered(shared)
                others.append(shared)
            pool = None if job.pool is None else self._scattered_pool(job.pool)
            # One call for all tasks: each call costs the client and the scheduler some milliseconds.
            parts = {k: self._submitted[k] if job.of_parts else None for k in missing}
            if chunks := [k for k in missing if job.of_parts and parts[k] is None]:
                delayed = [self.parts[k].delayed() for k in chunks]  # type: ignore[attr-defined]
                parts.update(zip(chunks, computed := client.compute(delayed, retries=RETRIES), strict=True))
                others += computed
            own_data, count = [job.own[k] for k in missing], len(missing)
            arguments = (
                [job.function] * count,
                [parts[k] for k in missing],
                missing,
                own_data,
                [shared] * count,
                [clock.seconds_left()] * count,
                [self.checksums[k] if job.of_parts else None for k in missing],
                [pool] * count,
            )
            submitted = client.map(_run_on_worker, *arguments, pure=False, retries=RETRIES)
            self.sent += nbytes(own_data)
            if kept is not None:
                # The data of a task that may run again must not be scattered data, which dask cannot compute.
                self.sent += nbytes(job.shared) * len(missing)
                kept.update(zip(missing, submitted, strict=True))
                submitted = client.map(_sent, submitted, pure=False, retries=RETRIES)
            tasks.update(zip(submitted, missing, strict=True))
            waiting, busy = set(tasks), time.monotonic()
            while waiting:
                clock.check_time()
                try:
                    done = distributed.wait(waiting, timeout=POLL_S).done
                except TimeoutError:
                    done, at_work = {task for task in waiting if task.done()}, client.processing()
                    self._wait_for_workers()
                    self._prepare_workers()
                    if not at_work or any(at_work.values()):
                        busy = time.monotonic()
                    elif (idle := time.monotonic() - busy) > MAX_IDLE_S:
                        raise
                    elif idle > MIN_WAIT_WARNED_S:
                        self._warn_once("no worker has begun the tasks of this fit", MAX_IDLE_S)
                for task in sorted(done, key=tasks.__getitem__):
                    self._raise_error_of(task, tasks[task])
                    results[tasks[task]] = found = task.result(timeout=MAX_GATHER_S)
                    self.received += nbytes(found)
                    waiting.discard(task)
                    task.release()
                self._check_scheduler()
        except LOST as error:
            self._check_scheduler(error)
            return error
        finally:
            self._release([*tasks, *others])
        return None

    def _scattered(self, value: Any) -> Any:
        """Return data on one worker, from which the others copy: dask's own broadcast waits for a dead worker."""
        self._wait_for_workers()
        (future,) = self.client.scatter([value], hash=False)
        self.sent += nbytes(value) * max(1, len(self.client.nthreads()))
        return future

    def _scattered_pool(self, pool: Any) -> Any:
        """Return the pool on one worker, where it stays from its solution to the end of the parts' tasks with it."""
        if self._pool is None or self._pool[0] is not pool:
            self._pool = pool, self._scattered(pool)
        return self._pool[1]

    def _raise_error_of(self, task: Any, k: int) -> None:
        """Raise the error that the task of part k has raised, or that ended it; not if what it needs was lost."""
        if task.status != "error":
            return
        error = task.exception(timeout=MAX_GATHER_S)
        if isinstance(error, distributed.KilledWorker):
            raise EngineError(
                f"dask: several workers died at part {k}, one after another, the last one {error.last_worker}"
                + (self._deaths_by_memory() or f". If they were out of memory: {WAY_OUT}")
            ) from error
        if isinstance(error, OSError):  # of a chunk, which dask reads; other parts are read by `load`
            raise ProblemError(unreadable(k, error, "a worker")) from error
        if isinstance(error, MemoryError):
            raise EngineError(f"dask: a worker had no memory for part {k}: {error!r}; {WAY_OUT}") from error
        if isinstance(error, LOST):  # the part's own error, not a loss: a retry would not help
            raise EngineError(f"dask: the task of part {k} failed: {error!r}") from error
        raise error

    def _events(self) -> Sequence[Any]:
        """Return the reports of all workers that were ended because their memory was full."""
        return self.client.get_events(MEMORY_TOPIC) or ()

    def _deaths_by_memory(self) -> str:
        """Return a clause on the workers that died of memory during this fit, empty if none is known."""
        if self.client.status != "running" or not (events := list(self._events())[self._memory_events :]):
            return ""
        held = max((int(event.get("rss", 0)) for _, event in events), default=0)
        times = f"{len(events)} time{'s' * (len(events) > 1)}"
        return (
            f". The cluster ended a worker {times} because its memory was full (it held {held / 1e6:.0f} MB): {WAY_OUT}"
        )

    def _are_all_paused(self) -> bool:
        """Whether no worker has or takes a task, because the memory of all is full."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        at_work = sum(worker.get("metrics", {}).get("task_counts", {}).get("executing", 0) for worker in workers)
        return bool(workers) and not at_work and all(worker.get("status") == "paused" for worker in workers)

    def _warn_once(self, what: str, most: float) -> None:
        """Say what the fit waits for, once a fit."""
        if what not in self._warned:
            self._warned.add(what)
            warn_user(f"dask: {what}; the fit waits for at most {most:.3g} seconds")

    @contextlib.contextmanager
    def _naming_losses(self) -> Iterator[None]:
        """Raise `EngineError` in place of any error of dask's calls if the scheduler is lost: they raise many kinds."""
        try:
            yield
        except Exception as error:
            if not isinstance(error, DualflowError):
                self._check_scheduler(error)
            raise

    def _check_scheduler(self, error: BaseException | None = None) -> None:
        """Raise `EngineError` if the scheduler cannot be reached; after an error of dask's, ask the scheduler itself.

        A client's calls can fail some time before its status says that the scheduler is lost.
        """
        lost = self.client.status != "running" or self.client.scheduler is None
        if not lost and error is not None:
            try:
                self.client.sync(self.client.scheduler.identity, callback_timeout=MAX_GATHER_S)
            except Exception:
                lost = True
        if lost:
            raise EngineError(
                f"dask: the scheduler is lost (client {self.client.status!r}); with a checkpoint, fit again with "
                "a client of a new cluster, and it goes on from the last round"
            ) from error

    def _wait_for_workers(self) -> None:
        """Wait until a worker takes tasks; raise `EngineError` if there is none for too long, or none has memory."""
        since = time.monotonic()
        while (is_empty := not self.client.nthreads()) or self._are_all_paused():
            self._check_scheduler()
            clock.check_time()
            waited, most = time.monotonic() - since, MAX_WITHOUT_WORKER_S if is_empty else MAX_IDLE_S
            if waited > most:
                raise EngineError(
                    (
                        f"dask: the cluster has had no worker for {most:.3g} seconds{self._deaths_by_memory()}; with a "
                        "checkpoint, fit again when it has, and it goes on from the last round"
                    )
                    if is_empty
                    else f"dask: all workers have been paused for {most:.3g} seconds, their memory is full: {WAY_OUT}"
                )
            if waited > MIN_WAIT_WARNED_S:
                paused = "all workers are paused, their memory is full"
                self._warn_once("the cluster has no worker" if is_empty else paused, most)
            time.sleep(POLL_S)

    def _release(self, futures: list[Any]) -> None:
        """Cancel unfinished tasks and release all; do nothing on a closed client, which would log an error."""
        left = [future for future in futures if not future.done()]
        if left and self.client.status == "running":
            self.client.cancel(left)
        for future in futures:
            future.release()

    def close(self) -> None:
        """Release the parts on the cluster, and return to the worker's pool."""
        for future in (*self._submitted, *self.states):
            if isinstance(future, distributed.Future):  # not those of the caller
                future.release()
        self._submitted, self.states, self._pool = [], [], None
        if self._left_pool:
            distributed.rejoin()
