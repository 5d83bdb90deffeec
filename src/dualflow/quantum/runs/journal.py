"""A journal of jobs, a SQLite file: what is to be sent is written down first, and what came back is kept.

A run that died finds its jobs again: those the device still has by their id, those whose id was never heard by their
tag, and results by their content, so that nothing is paid for twice. What is in such a file: `job_record`.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from ...exceptions import DeviceError, ProblemError
from ...persistence.files import target_of
from ...persistence.unconfirmed import Unconfirmed
from .fit_part import fit_part
from .job_record import COLUMNS, JobRecord, connect, packed, read_rows, seal_of, unpacked
from .spending import Spent

__all__ = ["JobRecord", "Journal", "Unwritten", "damaged", "read_journal"]


class Journal:
    """The jobs of one run, of all processes that it took.

    Everything is on the disk before the next thing happens (WAL, ``synchronous=FULL``), and the file is its owner's
    alone (mode 0600). It can be copied and pickled; every process opens it for itself.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist.
    data : str, optional
        Digest of what the run is about. The first one is kept, and runs about others are refused.

    Raises
    ------
    ProblemError
        The file cannot be written, is no journal, is damaged, or belongs to other data; it is left as it is. Or its
        name was read from a model file, and nobody confirmed it.
    """

    def __init__(self, path: str | Path, data: str | None = None) -> None:
        if isinstance(path, Unconfirmed):
            path.refuse("journal", "would be written to")
        self.path, self.token, self.sequence = Path(path), secrets.token_hex(8), 0
        self._warned = False
        self._connect()
        try:
            with self._reading() as database:
                read_rows(database)  # what is spent is summed up row by row, and no row is looked at again
            with self._writing() as database:
                self._claim(database, data)
        except DeviceError as error:
            raise ProblemError(f"journal={str(path)!r} cannot be used: {error}") from error

    def _connect(self) -> None:
        self._lock, self._pid = threading.Lock(), os.getpid()
        try:
            target_of(self.path)  # refuses what is no regular file, or may not be written
            self._database = connect(self.path, write=True)
        except ProblemError as error:
            raise ProblemError(f"journal={str(self.path)!r} cannot be used: {error}") from error
        except OSError as error:
            raise ProblemError(f"journal={str(self.path)!r} cannot be used: {error.strerror or error}") from error

    def _own(self) -> None:
        """In a child of a fork: a connection and tags of its own; its parent's connection is not even to be closed."""
        if self._pid != os.getpid():
            self._parents, self.token, self.sequence = self._database, secrets.token_hex(8), 0
            self._connect()

    def _claim(self, database: sqlite3.Connection, data: str | None) -> None:
        if data is None:
            return
        name = f"data {fit_part()}"
        found = database.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
        if found is None:
            database.execute("INSERT INTO about VALUES (?, ?)", (name, data))
        elif found[0] != data:
            raise ProblemError(
                f"journal={str(self.path)!r} was made for other data, or for another problem with them (their digest "
                f"begins with {str(found[0])[:12]!r}, this run's with {data[:12]!r}): its jobs are none of this run's. "
                "Give another path, or the data and parameters of that run"
            )

    def claim_machine(self, name: str, configuration: dict[str, str]) -> None:
        """Make sure that the jobs of a device's name are those of this machine.

        Parameters
        ----------
        name : str
        configuration : dict
            `Device.configuration`.

        Raises
        ------
        ProblemError
            They are of another machine of that name; the message says what differs.
        """
        row = f"machine {name}"
        try:
            there = None if (told := self.told(row)) is None else {str(k): str(v) for k, v in json.loads(told).items()}
        except (ValueError, AttributeError) as error:
            raise damaged(self.path, error) from error
        if there is None:
            self.tell(row, json.dumps(configuration, sort_keys=True))
        elif there != configuration:
            differ = [part for part in sorted({*there, *configuration}) if there.get(part) != configuration.get(part)]
            said = ", ".join(
                f"its {part} is {there.get(part, 'not given')} there and {configuration.get(part, 'not given')} here"
                for part in differ
            )
            raise ProblemError(
                f"journal={str(self.path)!r} holds jobs of another machine of the name {name!r}: {said}. What that one "
                "measured is not this one's: give another path, or the device as it was"
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is on the disk when the block ends, or has not been."""
        self._own()
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
                raise Unwritten(f"journal {self.path} could not be written: {error}") from error

    def intend(self, record: JobRecord, allow: Callable[[Spent], None]) -> JobRecord:
        """Write down what is to be sent, under a tag of its own.

        Parameters
        ----------
        record : JobRecord
        allow : callable
            Given what the journal's jobs have taken, raises if this one is not to be sent.
        """
        self._own()
        self.sequence += 1
        record = replace(record, tag=f"dualflow-{self.token}-{self.sequence}", state="intended", intended=_now())
        with self._writing() as database:
            allow(_spent(database))
            _insert(database, record)
        return record

    def adopt(self, record: JobRecord, values: NDArray | None) -> None:
        """Write down a job of another journal as it stands there, with its result."""
        with self._writing() as database:
            _insert(database, record, *((None, None) if values is None else packed(values, record)))

    def note(self, record: JobRecord, state: str, note: str = "", job_id: str | None = None) -> JobRecord:
        """Write down what became of a job; one that cannot be written is a warning, since the job is paid for."""
        record = replace(record, state=state, note=note, job_id=job_id or record.job_id)
        return self._changed(record, "state = ?, note = ?, job_id = ?", (state, note, record.job_id))

    def keep(self, record: JobRecord, values: NDArray) -> JobRecord:
        """Write down a result: counts, or exact distributions, of shape (circuits, 2^q)."""
        record = replace(record, state="done", note="")
        blob, digest = packed(values, record)
        changes = ("done", "", record.job_id, blob, digest)
        return self._changed(record, "state = ?, note = ?, job_id = ?, result = ?, digest = ?", changes)

    def _changed(self, record: JobRecord, changes: str, values: tuple[Any, ...]) -> JobRecord:
        try:
            with self._writing() as database:
                database.execute(f"UPDATE jobs SET {changes} WHERE tag = ?", (*values, record.tag))
                for (digest,) in database.execute("SELECT digest FROM jobs WHERE tag = ?", (record.tag,)).fetchall():
                    seal = seal_of(record, digest)
                    database.execute("UPDATE jobs SET seal = ? WHERE tag = ?", (seal, record.tag))
        except Unwritten as error:
            self.complain(error)
        return record

    def complain(self, error: Exception) -> None:
        """Say once that the file cannot be written any more."""
        if not self._warned:
            warnings.warn(
                f"{error}; the run goes on, and what came of its jobs is in no file", UserWarning, stacklevel=5
            )
        self._warned = True

    def find(self, record: JobRecord) -> JobRecord | None:
        """The last job of the same content, or None."""
        with self._reading() as database:
            rows = read_rows(database, "WHERE content = ? ORDER BY rowid DESC LIMIT 1", (record.content,))
        return rows[0] if rows else None

    def result(self, record: JobRecord) -> NDArray | None:
        """The result of a job, shape (circuits, 2^q), or None if it is not kept here."""
        with self._reading() as database:
            row = database.execute("SELECT result, digest FROM jobs WHERE tag = ?", (record.tag,)).fetchone()
            return None if row is None or row[0] is None else unpacked(row[0], row[1], record)

    def tell(self, name: str, value: str) -> None:
        """Write down something about the run."""
        try:
            with self._writing() as database:
                database.execute("INSERT OR REPLACE INTO about VALUES (?, ?)", (name, value))
        except Unwritten as error:
            self.complain(error)

    def told(self, name: str) -> str | None:
        """What was written down so; None if nothing was."""
        with self._reading() as database:
            row = database.execute("SELECT value FROM about WHERE name = ?", (name,)).fetchone()
            return None if row is None else str(row[0])

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self._own()
        with self._lock:
            try:
                yield self._database
            except (sqlite3.Error, ValueError) as error:
                raise damaged(self.path, error) from error

    def spent(self) -> Spent:
        """What all jobs have taken that may have reached the machine."""
        with self._reading() as database:
            return _spent(database)

    def records(self) -> list[JobRecord]:
        """All jobs, oldest first."""
        with self._reading() as database:
            return read_rows(database)

    def __del__(self) -> None:
        # The log goes into the file when its last connection is closed, which waits for the collector otherwise.
        if self.__dict__.get("_database") is not None and self._pid == os.getpid():
            self._database.close()

    def __getstate__(self) -> dict[str, Any]:
        # A token is one object's alone: a copy draws its own.
        return {"path": self.path, "sequence": 0, "token": None, "_warned": self._warned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"token": secrets.token_hex(8)})
        self._connect()


class Unwritten(DeviceError):  # noqa: N818 - what it says of the file
    """What was to be written is not: nothing has been sent."""


def read_journal(path: str | Path) -> list[JobRecord]:
    """All jobs in a journal, oldest first; the file is not written to.

    Raises
    ------
    ProblemError
        The file is no journal, or is damaged.
    OSError
        It cannot be read.
    """
    database = connect(Path(path), write=False)
    try:
        return read_rows(database)
    except (sqlite3.Error, ValueError) as error:
        raise damaged(path, error) from error
    finally:
        database.close()


def damaged(path: str | Path, error: Exception) -> ProblemError:
    return ProblemError(
        f"journal {path} is damaged ({type(error).__name__}: {error}). The file was left as it is; give another path"
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
