"""A simulated cloud service for tests of devices and runs; its queue is a file that outlives the process.

    from dualflow.testing.cloud import Faults, FakeCloud
    dualflow.solve(problem, "variational-flow", device=FakeCloud("cloud.db", Faults(seed=1, lost_reply=0.2)), ...)

Counts are the emulator's at the seed of the job, so that a run's answer does not depend on the faults. Time is counted
in requests of a job's status, not in seconds. `FakeCloud.paid` returns the bill.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..exceptions import DeviceError
from ..quantum.circuits import ParametricCircuit
from ..quantum.devices import Capabilities, Device, Job, Limits, Price, Readout
from ..quantum.devices.emulator import EmulatorDevice

__all__ = ["FakeCloud", "FakeCloudJob", "Faults"]

#: Schema of the file: the jobs, and the number of calls, which decides the faults.
TABLES = """
CREATE TABLE IF NOT EXISTS jobs (id INTEGER PRIMARY KEY, tag TEXT, circuits INTEGER, shots INTEGER, wait INTEGER,
    fate TEXT, state TEXT, width INTEGER, counts BLOB);
CREATE TABLE IF NOT EXISTS calls (done INTEGER);
"""


@dataclass(frozen=True)
class Faults:
    """The rates of faults. The seed and the index of a call determine its faults, equally in all processes.

    Parameters
    ----------
    seed : int
    slow : int
        Largest number of status requests until a job ends.
    failing, cancelling : float
        Share of jobs that fail or are cancelled; they are not on the bill.
    unreachable, rate_limited : float
        Share of calls that fail before they arrive, with a transient error.
    lost_reply : float
        Share of calls that arrive, but whose reply is lost.
    doubling : float
        Share of submissions that arrive twice. A service with tags recognises the second one; without tags this fault
        does not occur, since the client could not detect it.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dualflow import Gram, problems, solve
    >>> from dualflow.testing.cloud import FakeCloud, Faults
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cloud = FakeCloud(Path(folder) / "cloud.db", Faults(seed=1, rate_limited=0.2))
    ...     found = solve(problem, "variational-flow", device=cloud, shots=100, steps=3, max_steps=2, tol=1e-9)
    ...
    >>> found.cost.circuits
    3
    """

    seed: int = 0
    slow: int = 0
    failing: float = 0.0
    cancelling: float = 0.0
    unreachable: float = 0.0
    rate_limited: float = 0.0
    lost_reply: float = 0.0
    doubling: float = 0.0


class FakeCloudJob(Job):
    """A job of the simulated service.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dualflow.quantum.circuits import TreeCircuit
    >>> from dualflow.testing.cloud import FakeCloud
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     job = FakeCloud(Path(folder) / "cloud.db").submit(TreeCircuit(1), [0.0], shots=100)
    ...     while not job.done():
    ...         pass
    ...     print(job.status(), job.result().counts.ravel())  # RY(0) leaves the qubit in 0
    ...
    done [100   0]
    """

    poll_s: ClassVar[float] = 0.0

    def __init__(self, device: FakeCloud, job_id: str, tag: str) -> None:
        self.device, self.job_id, self.tag = device, job_id, tag

    def status(self) -> str:
        with self.device.call("status") as service:
            state, wait, fate = service.execute(
                "SELECT state, wait, fate FROM jobs WHERE id = ?", (int(self.job_id),)
            ).fetchone()
            if state in ("queued", "running"):
                state = "queued" if wait > 1 else "running" if wait == 1 else fate
                service.execute("UPDATE jobs SET state = ?, wait = wait - 1 WHERE id = ?", (state, int(self.job_id)))
        return str(state)

    def done(self) -> bool:
        return self.status() in ("done", "failed", "cancelled")

    def cancel(self) -> None:
        with self.device.call("cancel") as service:
            service.execute(
                "UPDATE jobs SET state = 'cancelled' WHERE id = ? AND state IN ('queued', 'running')",
                (int(self.job_id),),
            )

    def result(self) -> Readout:
        with self.device.call("result") as service:
            row = service.execute(
                "SELECT state, counts, shots, circuits, width FROM jobs WHERE id = ?", (int(self.job_id),)
            ).fetchone()
        state, content, shots, circuits, width = row
        if state != "done":
            raise DeviceError(f"device {self.device.name!r}: job {self.job_id} is {state}", sent=True)
        counts = np.frombuffer(content, dtype=np.int64).reshape(circuits, width)
        return Readout(counts / shots, counts, shots, "little", self.job_id)


class FakeCloud(Device):
    """A simulated remote service in a file; objects with the same file are the same service, in all processes.

    Parameters
    ----------
    path : str or Path
    faults : Faults, optional
    tags : bool, default=True
        Jobs are found by their tags.
    limits : Limits, optional
        Limits of a job; larger jobs are refused.
    cost_per_shot : float, default=0.001
    on_event : callable, optional
        Called with "before …" before a call arrives, and "after …" before its reply is sent; a test can end the process
        there.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dualflow import Gram, problems, solve
    >>> from dualflow.testing.cloud import FakeCloud
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cloud = FakeCloud(Path(folder) / "cloud.db")
    ...     found = solve(problem, "variational-flow", device=cloud, shots=100, steps=3, max_steps=2, tol=1e-9)
    ...
    >>> found.cost.circuits, found.cost.shots
    (3, 300)
    """

    name = "fake-cloud"
    remote: ClassVar[bool] = True
    capabilities = Capabilities(exact=False, sampled=True, noisy=False, qubits=24)

    def __init__(
        self,
        path: str | Path,
        faults: Faults | None = None,
        *,
        tags: bool = True,
        limits: Limits | None = None,
        cost_per_shot: float = 0.001,
        on_event: Callable[[str], None] = lambda word: None,
    ) -> None:
        self.path, self.faults, self.tags, self.on_event = Path(path), faults or Faults(), tags, on_event
        self.limits, self.cost_per_shot = limits or Limits(), cost_per_shot
        with self._service() as service:
            service.executescript(TABLES)

    @property
    def configuration(self) -> dict[str, str]:
        return {}  # the faults do not change the counts, which are the emulator's

    @contextlib.contextmanager
    def _service(self) -> Iterator[sqlite3.Connection]:
        """Open the service's file."""
        service = sqlite3.connect(self.path, timeout=30.0, isolation_level=None)
        try:
            # The file must survive the end of a process, not of the machine.
            service.execute("PRAGMA synchronous = OFF")
            yield service
        finally:
            service.close()

    @contextlib.contextmanager
    def call(self, what: str) -> Iterator[sqlite3.Connection]:
        """Make one request, with faults before it arrives and after it is done."""
        self.on_event(f"before {what}")
        with self._service() as service:
            chance = self._chance(service)
            if chance.random() < self.faults.unreachable:
                raise DeviceError(f"device {self.name!r} cannot be reached", transient=True, sent=False)
            if chance.random() < self.faults.rate_limited:
                raise DeviceError(f"device {self.name!r}: too many requests (429)", transient=True, sent=False)
            service.execute("BEGIN IMMEDIATE")
            yield service
            service.execute("COMMIT")
        self.on_event(f"after {what}")
        if chance.random() < self.faults.lost_reply:
            raise DeviceError(f"device {self.name!r}: the connection broke off", transient=True, sent=None)

    def _chance(self, service: sqlite3.Connection) -> np.random.Generator:
        """Return the generator of this call's faults, and count the call."""
        service.execute("BEGIN IMMEDIATE")
        service.execute("INSERT INTO calls VALUES (1)")
        (number,) = service.execute("SELECT count(*) FROM calls").fetchone()
        service.execute("COMMIT")
        return np.random.default_rng([self.faults.seed, number])

    def _submit(
        self, circuit: ParametricCircuit, values: NDArray, shots: int | None, tag: str, seed: int | None
    ) -> FakeCloudJob:
        assert shots is not None  # the capabilities say so
        rows = np.atleast_2d(np.asarray(values))
        for name, found, limit in (("circuits", len(rows), self.limits.circuits), ("shots", shots, self.limits.shots)):
            if limit is not None and found > limit:
                raise DeviceError(f"device {self.name!r} takes {limit} {name} a job, not {found}", sent=False)
        counts = EmulatorDevice().submit(circuit, rows, shots, "", seed).result().counts
        assert counts is not None
        with self.call("submit") as service:
            chance = self._submission_chance(service)
            twice = self.tags and chance.random() < self.faults.doubling
            for _ in range(1 + twice):
                known = service.execute("SELECT id FROM jobs WHERE tag = ?", (tag,)).fetchone() if self.tags else None
                job_id = known[0] if known else self._queued(service, chance, tag, counts, shots)
        return FakeCloudJob(self, str(job_id), tag)

    def _submission_chance(self, service: sqlite3.Connection) -> np.random.Generator:
        """Return the generator of a submission's faults."""
        (number,) = service.execute("SELECT count(*) FROM calls").fetchone()
        return np.random.default_rng([self.faults.seed, number, 1])

    def _queued(
        self, service: sqlite3.Connection, chance: np.random.Generator, tag: str, counts: NDArray, shots: int
    ) -> int:
        """Add a job to the queue and return its number."""
        draw, faults = chance.random(), self.faults
        fate = (
            "failed" if draw < faults.failing else "cancelled" if draw < faults.failing + faults.cancelling else "done"
        )
        wait, content = int(chance.integers(faults.slow + 1)), np.ascontiguousarray(counts, dtype=np.int64).tobytes()
        cursor = service.execute(
            "INSERT INTO jobs (tag, circuits, shots, wait, fate, state, width, counts) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (tag, len(counts), shots, wait, fate, "queued", counts.shape[1], content),
        )
        return int(cursor.lastrowid or 0)

    def fetch(self, job_id: str) -> FakeCloudJob:
        with self.call("fetch") as service:
            found = service.execute("SELECT tag FROM jobs WHERE id = ?", (job_id,)).fetchone()
        if found is None:
            raise DeviceError(f"device {self.name!r} does not know job {job_id!r}", sent=None)
        return FakeCloudJob(self, str(job_id), str(found[0]))

    def lookup(self, tag: str) -> str | None:
        if not self.tags:
            return super().lookup(tag)
        with self.call("lookup") as service:
            found = service.execute("SELECT id FROM jobs WHERE tag = ?", (tag,)).fetchone()
        return None if found is None else str(found[0])

    def price(self, circuit: ParametricCircuit, circuits: int, shots: int) -> Price:
        """Return the price: a second a job and a millisecond a shot, and ``cost_per_shot``."""
        taken = circuits * shots
        formula = "1 s a job and 1 ms a shot; a price a shot"
        return Price(1.0 + 1e-3 * taken, self.cost_per_shot * taken, formula=formula)

    def paid(self) -> dict[str, Any]:
        """Return the bill: the jobs that ran or will run, with their circuits, shots and tags."""
        with self._service() as service:
            rows = service.execute(
                "SELECT tag, circuits, shots FROM jobs WHERE fate = 'done' AND state != 'cancelled'"
            ).fetchall()
        return {
            "jobs": len(rows),
            "circuits": sum(circuits for _, circuits, _ in rows),
            "shots": sum(circuits * shots for _, circuits, shots in rows),
            "tags": [tag for tag, _, _ in rows],
        }
