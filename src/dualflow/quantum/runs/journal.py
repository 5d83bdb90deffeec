"""A journal of jobs, a SQLite file: every job is recorded before it is sent, and its result is kept.

A run that continues after its process died finds jobs at the device by their id, jobs whose id was not received by
their tag, and results by their content, so that no job is paid for twice. `job_record` defines the rows of the file.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ...core.runtime.warn import warn_user
from ...exceptions import DeviceError, ProblemError
from ...persistence.files import target_of
from ...persistence.unconfirmed import Unconfirmed
from .fit_part import fit_part
from .job_record import COLUMNS, JobRecord, connect, pack_result, read_rows, seal_of, unpack_result
from .spending import Spent


class Journal:
    """The jobs of one run, over all its processes.

    Each change is on the disk before its method returns (WAL, ``synchronous=FULL``), and only the owner can read the
    file (mode 0600). A journal can be copied and pickled; every process opens its own connection.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist.
    data : str, optional
        Digest of the run's data. The first one is kept, and runs with other data are refused.

    Raises
    ------
    ProblemError
        The file cannot be written, is not a journal, is damaged, or belongs to other data; it is not changed. Or its
        name was read from a model file and was not confirmed.
    """

    def __init__(self, path: str | Path, data: str | None = None) -> None:
        if isinstance(path, Unconfirmed):
            path.refuse("journal", "would be written to")
        self.path, self.token, self.sequence = Path(path), secrets.token_hex(8), 0
        self._warned = False
        self._connect()
        try:
            with self._reading() as database:
                read_rows(database)  # check all rows once: later sums of what was spent do not check them
            with self._writing() as database:
                self._claim_data(database, data)
        except DeviceError as error:
            raise ProblemError(f"journal={str(path)!r} cannot be used: {error}") from error

    def _connect(self) -> None:
        self._lock, self._pid = threading.Lock(), os.getpid()
        try:
            target_of(self.path)  # raises an error unless the path is a writable regular file
            self._database = connect(self.path, write=True)
        except ProblemError as error:
            raise ProblemError(f"journal={str(self.path)!r} cannot be used: {error}") from error
        except OSError as error:
            raise ProblemError(f"journal={str(self.path)!r} cannot be used: {error.strerror or error}") from error

    def _reopen_after_fork(self) -> None:
        """In the child of a fork, open a new connection and make a new token; keep the parent's connection open."""
        if self._pid != os.getpid():
            self._parents, self.token, self.sequence = self._database, secrets.token_hex(8), 0
            self._connect()

    def _claim_data(self, database: sqlite3.Connection, data: str | None) -> None:
        if data is None:
            return
        name = f"data {fit_part()}"
        found = database.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        if found is None:
            database.execute("INSERT INTO about VALUES (?, ?)", (name, data))
        elif found[0] != data:
            raise ProblemError(
                f"journal={str(self.path)!r} was made for other data, or for another problem with them (their digest "
                f"begins with {str(found[0])[:12]!r}, this run's with {data[:12]!r}): its jobs do not belong to this "
                "run. Give another path, or the data and parameters of that run"
            )

    def claim_machine(self, name: str, configuration: dict[str, str]) -> None:
        """Check that the journal's jobs of a device name belong to this machine; record the machine at its first job.

        Parameters
        ----------
        name : str
        configuration : dict
            `Device.configuration`.

        Raises
        ------
        ProblemError
            They belong to another machine of that name; the message lists the differences.
        """
        row = f"machine {name}"
        try:
            text = self.about(row)
            there = None if text is None else {str(k): str(v) for k, v in json.loads(text).items()}
        except (ValueError, AttributeError) as error:
            raise damaged_error(self.path, error) from error
        if there is None:
            self.set_about(row, json.dumps(configuration, sort_keys=True))
        elif there != configuration:
            differ = [part for part in sorted({*there, *configuration}) if there.get(part) != configuration.get(part)]
            differences = ", ".join(
                f"its {part} is {there.get(part, 'not given')} there and {configuration.get(part, 'not given')} here"
                for part in differ
            )
            raise ProblemError(
                f"journal={str(self.path)!r} holds jobs of another machine of the name {name!r}: {differences}. Their "
                "results are not those of this machine: give another path, or the device as it was"
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Run the block in a transaction: it is on the disk when the block ends, or has no effect."""
        self._reopen_after_fork()
        with self._lock:
            try:
                self._database.execute("BEGIN IMMEDIATE")
                try:
                    yield self._database
                    self._database.execute("COMMIT")
                except BaseException:
                    if self._database.in_transaction:
                        self._database.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise JournalWriteError(f"journal {self.path} could not be written: {error}") from error

    def intend(self, record: JobRecord, allow: Callable[[Spent], None]) -> JobRecord:
        """Insert the record of a job that will be sent and return it with its new tag.

        Parameters
        ----------
        record : JobRecord
        allow : callable
            Called with what the journal's jobs have spent; raises an error if this job must not be sent.
        """
        self._reopen_after_fork()
        self.sequence += 1
        record = replace(record, tag=f"dualflow-{self.token}-{self.sequence}", state="intended", intended=_now())
        with self._writing() as database:
            allow(_spent(database))
            _insert(database, record)
        return record

    def insert_job(self, record: JobRecord, values: NDArray | None) -> None:
        """Insert an unchanged job of another journal, with its result."""
        with self._writing() as database:
            _insert(database, record, *((None, None) if values is None else pack_result(values, record)))

    def note(self, record: JobRecord, state: str, note: str = "", job_id: str | None = None) -> JobRecord:
        """Update the state of a job; if that fails, only warn, because the job is paid for."""
        record = replace(record, state=state, note=note, job_id=job_id or record.job_id)
        return self._update_row(record, "state = ?, note = ?, job_id = ?", (state, note, record.job_id))

    def keep(self, record: JobRecord, values: NDArray) -> JobRecord:
        """Store a job's result: counts or exact distributions, shape (circuits, 2^q)."""
        record = replace(record, state="done", note="")
        blob, digest = pack_result(values, record)
        changes = ("done", "", record.job_id, blob, digest)
        return self._update_row(record, "state = ?, note = ?, job_id = ?, result = ?, digest = ?", changes)

    def _update_row(self, record: JobRecord, changes: str, values: tuple[Any, ...]) -> JobRecord:
        try:
            with self._writing() as database:
                database.execute(f"UPDATE jobs SET {changes} WHERE tag = ?", (*values, record.tag))
                for (digest,) in database.execute("SELECT digest FROM jobs WHERE tag = ?", (record.tag,)).fetchall():
                    seal = seal_of(record, digest)
                    database.execute("UPDATE jobs SET seal = ? WHERE tag = ?", (seal, record.tag))
        except JournalWriteError as error:
            self.warn_unwritten(error)
        return record

    def warn_unwritten(self, error: Exception) -> None:
        """Warn once that the file can no longer be written."""
        if not self._warned:
            warn_user(f"{error}; the run goes on, and the results of its jobs are not stored")
        self._warned = True

    def find(self, record: JobRecord) -> JobRecord | None:
        """Return the last job of the same content, or None."""
        with self._reading() as database:
            rows = read_rows(database, "WHERE content = ? ORDER BY rowid DESC LIMIT 1", (record.content,))
        return rows[0] if rows else None

    def result(self, record: JobRecord) -> NDArray | None:
        """Return the result of a job, shape (circuits, 2^q), or None if it is not stored."""
        with self._reading() as database:
            row = database.execute("SELECT result, digest FROM jobs WHERE tag = ?", (record.tag,)).fetchone()
            return None if row is None or row[0] is None else unpack_result(row[0], row[1], record)

    def set_about(self, name: str, value: str) -> None:
        """Store a named value of the run; if that fails, only warn."""
        try:
            with self._writing() as database:
                database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))
        except JournalWriteError as error:
            self.warn_unwritten(error)

    def about(self, name: str) -> str | None:
        """Return a named value of the run, or None if it was not stored."""
        with self._reading() as database:
            row = database.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self._reopen_after_fork()
        with self._lock:
            try:
                yield self._database
            except (sqlite3.Error, ValueError) as error:
                raise damaged_error(self.path, error) from error

    def spent(self) -> Spent:
        """Return the sums of shots, seconds and cost of all jobs that may have reached the machine."""
        with self._reading() as database:
            return _spent(database)

    def records(self) -> list[JobRecord]:
        """Return all jobs, oldest first."""
        with self._reading() as database:
            return read_rows(database)

    def __del__(self) -> None:
        # Closing the last connection merges the log into the file; do not wait for the garbage collector.
        if self.__dict__.get("_database") is not None and self._pid == os.getpid():
            self._database.close()

    def __getstate__(self) -> dict[str, Any]:
        # Each object has its own token: a copy draws a new one.
        return {"path": self.path, "sequence": 0, "token": None, "_warned": self._warned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"token": secrets.token_hex(8)})
        self._connect()


class JournalWriteError(DeviceError):
    """A transaction failed and has no effect. If it was the record of a job, the job was not sent."""


def read_journal(path: str | Path) -> list[JobRecord]:
    """Return all jobs in a journal, oldest first, without writing to the file.

    Raises
    ------
    ProblemError
        The file is not a journal, or is damaged.
    OSError
        The file cannot be read.
    """
    database = connect(Path(path), write=False)
    try:
        return read_rows(database)
    except (sqlite3.Error, ValueError) as error:
        raise damaged_error(path, error) from error
    finally:
        database.close()


def damaged_error(path: str | Path, error: Exception) -> ProblemError:
    """Return the error to raise for a damaged journal."""
    return ProblemError(
        f"journal {path} is damaged ({type(error).__name__}: {error}). The file was not changed; give another path"
    )


def _insert(
    database: sqlite3.Connection, record: JobRecord, blob: bytes | None = None, digest: str | None = None
) -> None:
    names = (*COLUMNS, "result", "digest", "seal")
    values = [*(getattr(record, name) for name in COLUMNS), blob, digest, seal_of(record, digest)]
    marks = ", ".join("?" * len(names))
    database.execute(f"INSERT INTO jobs ({', '.join(names)}) VALUES ({marks})", values)


def _spent(database: sqlite3.Connection) -> Spent:
    row = database.execute(
        "SELECT coalesce(sum(circuits * coalesce(shots, 0)), 0), coalesce(sum(qpu_seconds), 0.0), "
        "coalesce(sum(cost), 0.0) FROM jobs WHERE state != 'not sent'"
    ).fetchone()
    return Spent(int(row[0]), float(row[1]), float(row[2]))


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
