"""Engines that run tasks in this process or in joblib's processes; `dask_engine` has the one for dask clusters."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from ..core.runtime import clock
from ..exceptions import EngineError, ProblemError, SolverUnavailable
from .exchange import nbytes
from .parts import Part
from .tasks import raise_if_late, run_task

#: How often a round is restarted after one of its processes died.
RETRIES = 3


class PartEngine(Protocol):
    """Runs a task for every part.

    Attributes
    ----------
    sent, received : int
        Bytes of arrays sent to tasks and received from them; shared data count once for each process.
    checksums : sequence of str or None
        The checksum of each part's rows when they were read first; a task with other rows raises `ProblemError`.
    states : list
        The last results of `advance`, or None; on a cluster they stay on the workers.
    """

    sent: int
    received: int
    checksums: Sequence[str | None]
    states: list[Any]

    def run(self, function: Any, own: Sequence[Any], shared: Any, pool: Any = None) -> list[Any]:
        """Return the results of the task for each part, in the order of the parts."""
        ...

    def once(self, function: Any, own: Any, pool: Any) -> Any:
        """Return the result of a task of no part, on the pool alone."""
        ...

    def advance(self, function: Any, shared: Any) -> list[Any]:
        """Call the task with each part's state; it returns a pair, the new state and what it sends.

        Return what the parts send. The next task receives the pair.
        """
        ...

    def close(self) -> None:
        """Release all resources."""
        ...


class LocalStates:
    """States of parts that are held in this process, and a pool that is solved in it."""

    states: list[Any]

    def run(self, function: Any, own: Sequence[Any], shared: Any, pool: Any = None) -> list[Any]:
        """Return the results of the task for each part."""
        raise NotImplementedError

    def once(self, function: Any, own: Any, pool: Any) -> Any:
        """Return the result of a task on the pool."""
        return run_task(function, None, 0, own, None, pool=pool)

    def advance(self, function: Any, shared: Any) -> list[Any]:
        """Return what the parts send, and keep the results as their states."""
        self.states = self.run(function, self.states, shared)
        return [sent for _, sent in self.states]


class InProcess(LocalStates):
    """Runs one part after another in this process; no data are sent."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.parts, self.sent, self.received = parts, 0, 0
        self.checksums: Sequence[str | None] = [None] * len(parts)
        self.states = [None] * len(parts)

    def run(self, function: Any, own: Sequence[Any], shared: Any, pool: Any = None) -> list[Any]:
        rows = enumerate(zip(self.parts, own, self.checksums, strict=True))
        return [run_task(function, part, k, mine, shared, None, sum_, pool) for k, (part, mine, sum_) in rows]

    def close(self) -> None:
        return


class Joblib(LocalStates):
    """Runs parts in joblib's processes; ``n_jobs`` and `joblib.parallel_config` set their number and backend.

    Parts are sent in every round; joblib sends arrays of more than a megabyte as memory maps.
    """

    def __init__(self, parts: Sequence[Part], n_jobs: int | None) -> None:
        import joblib

        self.parts, self.sent, self.received = parts, 0, 0
        self.checksums: Sequence[str | None] = [None] * len(parts)
        self.states = [None] * len(parts)
        self.jobs, self._delayed = joblib.effective_n_jobs(n_jobs), joblib.delayed(run_task)
        self._new_pool = lambda: joblib.Parallel(n_jobs=n_jobs)
        self._parallel = self._new_pool().__enter__()

    def run(self, function: Any, own: Sequence[Any], shared: Any, pool: Any = None) -> list[Any]:
        self.sent += nbytes(own) + (nbytes(shared) + nbytes(pool)) * self.jobs
        for attempt in range(RETRIES + 1):
            try:
                left, parts = clock.seconds_left(), enumerate(self.parts)
                calls = (
                    self._delayed(function, part, k, own[k], shared, left, self.checksums[k], pool) for k, part in parts
                )
                found = raise_if_late(list(self._parallel(calls)))
            except BrokenProcessPool as error:
                self.close()
                self._parallel = self._new_pool().__enter__()
                if attempt == RETRIES:
                    raise EngineError(
                        f"engine='joblib': a process died {RETRIES + 1} times in one round, the last time with: "
                        f"{str(error).strip() or type(error).__name__}. If it was out of memory, give more partitions "
                        "or a smaller n_jobs"
                    ) from error
            else:
                self.received += nbytes(found)
                return found
        raise AssertionError("unreachable")

    def close(self) -> None:
        self._parallel.__exit__(None, None, None)


def engine_of(engine: Any, parts: Sequence[Part], n_jobs: int | None) -> PartEngine:
    """Return the engine that a user names: None, "joblib", "dask" (the present client), or a dask client."""
    if engine is None:
        return InProcess(parts)
    if isinstance(engine, str) and engine == "joblib":
        return Joblib(parts, n_jobs)
    if isinstance(engine, str) and engine == "dask":
        engine = _current_client()
    packages = {kind.__module__.partition(".")[0] for kind in type(engine).__mro__}
    if "distributed" in packages and hasattr(engine, "submit"):
        from .dask_engine import Dask

        return Dask(parts, engine)
    raise ProblemError(f"engine={engine!r} is not one of None, 'joblib', 'dask', or a distributed.Client")


def _current_client() -> Any:
    """Return dask's current client; raise an error with the way out if there is none."""
    try:
        import distributed
    except ImportError as error:
        raise SolverUnavailable("engine='dask' needs distributed: pip install 'dualflow[dask]'") from error
    try:
        # In a task of a worker this is a client of that worker's scheduler.
        return distributed.get_client()
    except ValueError as error:
        raise ProblemError("engine='dask': there is no client; create one first: distributed.Client(...)") from error
