"""Records of jobs, their results, and the SQLite file that a journal keeps them in.

A journal may come from an untrusted source. Therefore its tables must be exactly those of dualflow, every row must
have the declared types, and a result is decompressed to the size that its circuit has, whatever the file says. The
read-outs of jobs are checked against their records, and the parts of a split batch are joined.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import sqlite3
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...exceptions import ProblemError
from ...persistence.files import check_regular
from ..devices import Job, Readout
from ..devices.readouts import Request, check_readout

#: SQLite's application id in the header of a journal: "dfjl".
APPLICATION_ID = 0x64666A6C
#: Format that is written, in the header's user version.
FORMAT = 3
_TABLES = (
    "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE jobs (tag TEXT PRIMARY KEY, content TEXT NOT NULL, label TEXT NOT NULL, device TEXT NOT NULL, "
    "circuit TEXT NOT NULL, qubits INTEGER NOT NULL, bindings TEXT NOT NULL, circuits INTEGER NOT NULL, "
    "shots INTEGER, seed INTEGER NOT NULL, mitigation TEXT, qpu_seconds REAL, cost REAL, currency TEXT NOT NULL, "
    "intended TEXT NOT NULL, job_id TEXT, state TEXT NOT NULL, note TEXT NOT NULL, result BLOB, digest TEXT, "
    "seal TEXT NOT NULL)",
    "CREATE INDEX jobs_by_content ON jobs (content)",
)
#: Most bytes of a journal.
MAX_BYTES = 1 << 36
#: Most bytes of a value in it.
MAX_VALUE_BYTES = 1 << 28
#: Most steps of SQLite's virtual machine for reading a journal; a hostile file could need infinitely many.
MAX_SQL_STEPS = 1 << 26
#: Steps between two checks of this limit.
SQL_STEPS_PER_CHECK = 1 << 16
#: Error codes of SQLite that show a fault of the system, not of the file.
_SYSTEM_ERRORS = (
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
)
#: Seconds to wait for another process' transaction.
LOCK_TIMEOUT_S = 30.0


def connect(path: Path, write: bool) -> sqlite3.Connection:
    """Return a connection to a journal whose header and tables were checked; to write, make a missing file.

    Raises
    ------
    ProblemError
        The file is not a regular file, not a journal of this version, or damaged.
    OSError
        The file cannot be read or written.
    """
    if write and not path.exists():
        # SQLite would make it with the umask's mode, and its -wal and -shm files with the mode of this file.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
    # Only SQLite may open the file: closing any descriptor of it releases this process' locks on it.
    check_regular(path, MAX_BYTES, "MAX_BYTES", "journal ")
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    database = None
    try:
        database = _open_database(path, write)
        _check(database, path, write)
    except BaseException as error:
        if database is not None:
            database.close()
        # SQLite's messages quote damaged bytes, which Python may fail to decode.
        if not isinstance(error, (sqlite3.Error, UnicodeDecodeError)):
            raise
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _SYSTEM_ERRORS:
            raise OSError(f"journal {path} cannot be used: {error}") from error
        raise _not_a_journal(path, str(error)) from error
    return database


def _open_database(path: Path, write: bool) -> sqlite3.Connection:
    # Read a file without a write-ahead log as immutable, which makes no other files. With a log, SQLite needs locks.
    log = Path(f"{os.path.realpath(path)}-wal").exists()
    mode = "mode=rw" if write else "mode=ro" if log else "mode=ro&immutable=1"
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=LOCK_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        database.execute(f"PRAGMA {pragma}")
    return database


def _check(database: sqlite3.Connection, path: Path, write: bool) -> None:
    """Check the header and the schema of a journal; make the tables in an empty file."""
    steps = 0

    def exceeds_limit() -> bool:
        nonlocal steps
        steps += SQL_STEPS_PER_CHECK
        return steps > MAX_SQL_STEPS

    if not write:
        # Pages of a hostile file may form a cycle.
        database.set_progress_handler(exceeds_limit, SQL_STEPS_PER_CHECK)
        database.execute("PRAGMA query_only = ON")
    schema = _schema(database)
    # SQLite treats a file of a few bytes as empty and would overwrite it.
    empty = os.stat(path).st_size == 0 or _header(database, "page_count") > 0
    if write and empty and not schema and not _header(database, "application_id"):
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN IMMEDIATE")
        if not _schema(database):  # another process may have made it meanwhile
            for table in _TABLES:
                database.execute(table)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {FORMAT}")
        database.execute("COMMIT")
        schema = _schema(database)
    if _header(database, "application_id") != APPLICATION_ID:
        raise _not_a_journal(path, "it is another database" if schema else "it has no tables")
    if (version := _header(database, "user_version")) != FORMAT:
        raise ProblemError(
            f"{path} is a journal whose format is {version}, this version reads {FORMAT}. The file was not changed; "
            "give journal= the path of a new file, or use the version of dualflow that wrote this one"
        )
    if schema != _expected_schema():
        raise _not_a_journal(path, "its tables are not those of a journal")
    if write:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        for name in (Path(f"{os.path.realpath(path)}{end}") for end in ("", "-wal", "-shm")):
            if name.exists() and name.stat().st_mode & 0o077:
                os.chmod(name, 0o600)


def _header(database: sqlite3.Connection, name: str) -> int:
    return int(database.execute(f"PRAGMA {name}").fetchone()[0])


def _schema(database: sqlite3.Connection) -> list[Any]:
    return database.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name LIMIT 10").fetchall()


@cache
def _expected_schema() -> list[Any]:
    database = sqlite3.connect(":memory:")
    for table in _TABLES:
        database.execute(table)
    schema = _schema(database)
    database.close()
    return schema


def _not_a_journal(path: Path, why: str) -> ProblemError:
    return ProblemError(
        f"{path} is not a journal of jobs: {why}. The file was not changed; give the file of a run's journal="
    )


#: Columns of the table of jobs that make a `JobRecord`.
COLUMNS = (
    "tag", "content", "label", "device", "circuit", "qubits", "bindings", "circuits", "shots", "seed", "mitigation",
    "qpu_seconds", "cost", "currency", "intended", "job_id", "state", "note",
)  # fmt: skip
#: States of a job and their meaning.
STATES = {
    "intended": "may have been sent, its id was not received",
    "sent": "with the device",
    "done": "its result is in the journal",
    "failed": "it failed, was cancelled, or its result was damaged",
    "not sent": "it certainly never reached the machine",
    "given up": "its state is unknown, and it may be sent again",
}
#: Most characters of a text; the longest describe circuits.
MAX_TEXT_CHARACTERS = 1 << 20
#: Most bytes of a result that is kept.
MAX_RESULT_BYTES = 1 << 27
#: Fewest bytes of a file for each of its rows: with more rows than its size allows, the file is hostile.
MIN_ROW_BYTES = 64


@dataclass(frozen=True)
class JobRecord:
    """One row of a journal: what a job measures, on which device, its price, and its state.

    Attributes
    ----------
    tag : str
        Unique name of the job, chosen before it is sent.
    label : str
        Purpose of the job, such as the solver's name and a number.
    device : str
        `Device.identity`.
    circuit : str
        The circuit's repr, with all values that decide its gates.
    qubits, circuits : int
        Width of the circuit, and number of bindings.
    bindings : str
        Digest of the bindings.
    shots : int or None
        Of each circuit; None for exact distributions.
    seed : int
    mitigation : str or None
        Method of the run; the result is kept as measured, before mitigation.
    qpu_seconds, cost : float or None
        By the device's `price`, in its ``currency``.
    intended : str
        Time at which the record was written: UTC, ISO 8601.
    job_id : str or None
        Id at the device, once it is known.
    state : str
        One of `STATES`.
    note : str
        Reason for the state, such as the error message.
    """

    label: str
    device: str
    circuit: str
    qubits: int
    bindings: str
    circuits: int
    shots: int | None
    seed: int
    mitigation: str | None = None
    qpu_seconds: float | None = None
    cost: float | None = None
    currency: str = "USD"
    tag: str = ""
    intended: str = ""
    job_id: str | None = None
    state: str = "intended"
    note: str = ""

    @property
    def content(self) -> str:
        """Digest of what is measured: two jobs with the same digest may share one result.

        With shots the seed is included, also for machines that cannot be seeded: the batches of one run have different
        seeds and so different results, and a resumed run uses the same seeds again.
        """
        seed = None if self.shots is None else self.seed
        what = (self.device, self.circuit, self.qubits, self.bindings, self.circuits, self.shots, seed)
        return hashlib.sha256(repr(what).encode("utf-8", "surrogatepass")).hexdigest()


#: Types of the columns that are not str.
_COLUMN_TYPES: dict[str, tuple[type, ...]] = {
    "qubits": (int,), "circuits": (int,), "shots": (int, type(None)), "seed": (int,),
    "mitigation": (str, type(None)), "qpu_seconds": (float, type(None)), "cost": (float, type(None)),
    "job_id": (str, type(None)),
}  # fmt: skip


def read_rows(
    database: sqlite3.Connection, where: str = "ORDER BY rowid", values: tuple[Any, ...] = ()
) -> list[JobRecord]:
    """Return the checked records of the rows that an SQL clause selects.

    Parameters
    ----------
    database : sqlite3.Connection
    where : str
        SQL after the name of the table.
    values : tuple
        Of the placeholders in ``where``.

    Raises
    ------
    sqlite3.Error, ValueError
        A page or a row is damaged.
    """
    (pages,), (page,) = (database.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
    max_rows = pages * page // MIN_ROW_BYTES
    records: list[JobRecord] = []
    for row in database.execute(f"SELECT {', '.join(COLUMNS)}, seal, digest FROM jobs {where}", values):
        if len(records) >= max_rows:
            raise ValueError("it has more rows than its size can hold")
        records.append(_record(dict(zip(COLUMNS, row[: len(COLUMNS)], strict=True))))
        if seal_of(records[-1], row[-1]) != row[-2]:
            raise ValueError(f"the row of job {records[-1].tag!r} does not match its seal")
    return records


def seal_of(record: JobRecord, digest: str | None) -> str:
    """Return the digest of a full row, which includes the digest of its result."""
    what = [getattr(record, name) for name in COLUMNS]
    return hashlib.sha256(repr((what, digest)).encode("utf-8", "surrogatepass")).hexdigest()


def _record(found: dict[str, Any]) -> JobRecord:
    """Return the record of a row; raise ValueError for wrong types, wrong numbers or a wrong digest."""
    content = found.pop("content")
    for name, value in found.items():
        if type(value) not in _COLUMN_TYPES.get(name, (str,)):
            raise ValueError(f"{name} is of type {type(value).__name__}")
        if isinstance(value, str) and len(value) > MAX_TEXT_CHARACTERS:
            raise ValueError(f"{name} has {len(value)} characters")
        if isinstance(value, float) and not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}")
    within = 0 <= found["qubits"] <= 62 and found["circuits"] >= 1 and 0 <= found["seed"] < 2**31
    if not within or (found["shots"] is not None and found["shots"] < 1) or found["state"] not in STATES:
        raise ValueError(f"job {found['tag']!r} has numbers or a state that no job has")
    record = JobRecord(**found)
    if record.content != content:
        raise ValueError(f"job {record.tag!r} does not match its digest")
    return record


def pack_result(values: NDArray, record: JobRecord) -> tuple[bytes | None, str | None]:
    """Return a result as compressed bytes and the digest that binds it to its job; (None, None) if it is too large."""
    plain = np.ascontiguousarray(values, dtype="<f8" if values.dtype.kind == "f" else "<i8").tobytes()
    if len(plain) > MAX_RESULT_BYTES:
        return None, None
    return zlib.compress(plain, 1), _result_digest(plain, record)


def unpack_result(blob: Any, digest: Any, record: JobRecord) -> NDArray:
    """Return a result, shape (circuits, 2^q), from its compressed bytes.

    Parameters
    ----------
    blob : bytes
        Any other type is an error.
    digest : str
    record : JobRecord

    Raises
    ------
    ValueError
        The size or the digest is not that of the job's result.
    """
    size = 8 * record.circuits * 2**record.qubits
    if type(blob) is not bytes or size > MAX_RESULT_BYTES:
        raise ValueError(f"the result of job {record.tag!r} is missing or too large")
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(blob, size + 1)
    except zlib.error as error:
        raise ValueError(f"the result of job {record.tag!r} cannot be unpacked: {error}") from error
    if len(plain) != size or _result_digest(plain, record) != digest:
        raise ValueError(f"the result of job {record.tag!r} does not match its digest")
    values = np.frombuffer(plain, dtype="<f8" if record.shots is None else "<i8").reshape(record.circuits, -1)
    return values.astype(values.dtype.newbyteorder("="))


def _result_digest(plain: bytes, record: JobRecord) -> str:
    return hashlib.sha256(f"{record.tag} {record.content} ".encode("utf-8", "surrogatepass") + plain).hexdigest()


def bindings_digest(values: NDArray) -> str:
    """Return a digest of bindings and their shape."""
    plain = np.ascontiguousarray(values, dtype=float)
    return hashlib.sha256(f"{plain.shape}".encode() + plain.tobytes()).hexdigest()


def readout_from_journal(record: JobRecord, values: NDArray) -> Readout:
    """Return the checked read-out of a job, shape (circuits, 2^q), from its result in a journal."""
    counts = None if record.shots is None else values
    probabilities = values if record.shots is None else values / record.shots
    readout = Readout(probabilities, counts, record.shots, "little", str(record.job_id))
    return check_readout(readout, record.device, _request(record))


def checked_readout(readout: Readout, record: JobRecord, job: Job) -> Readout:
    """Return a read-out in shape (circuits, 2^q); raise `DeviceError` unless it has the job and size of the record."""
    return check_readout(readout, record.device, _request(record), job.job_id)


def _request(record: JobRecord) -> Request:
    return Request(record.qubits, (record.circuits,), record.shots)


def join_readouts(readouts: list[Readout], shape: tuple[int, ...], shots: int | None) -> Readout:
    """Return one read-out for the parts of a split batch: concatenate the bindings, and add counts of the same ones.

    Parameters
    ----------
    readouts : list of Readout
        In the order of `Limits.parts`: all shots of the first rows of bindings, then those of the next rows.
    shape : tuple of int
        Of the batch's distributions.
    shots : int or None
        Of each circuit, summed over the parts.
    """
    first = readouts[0]
    if len(readouts) == 1:
        counts = None if first.counts is None else first.counts.reshape(shape)
        return Readout(first.probabilities.reshape(shape), counts, shots, "little", first.job_id)
    if shots is None:
        exact = np.concatenate([np.atleast_2d(readout.probabilities) for readout in readouts])
        return Readout(exact.reshape(shape), None, None, "little", first.job_id)
    rows: list[NDArray] = []
    shots_read = 0  # of the present rows
    for readout in readouts:
        part = np.atleast_2d(np.asarray(readout.counts))
        if shots_read == 0:
            rows.append(part)
        else:
            rows[-1] = rows[-1] + part
        shots_read = (shots_read + int(readout.shots or 0)) % shots
    added = np.concatenate(rows).reshape(shape)
    return Readout(added / shots, added, shots, "little", first.job_id)
