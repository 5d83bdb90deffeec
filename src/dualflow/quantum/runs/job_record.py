"""What a journal says of a job: what was measured, where, what it takes, and what became of it; and its result.

A file may be a stranger's: every row is of the types it should have, and a result is unpacked to the size that the
circuit says, not the file.

Read-outs of jobs: held against what was asked for, taken from a journal, and joined where a batch was split.

The file of a journal: a SQLite database whose tables are ours to the letter, for it may be a stranger's.
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
from ..devices.readouts import Asked, check_readout

__all__ = [
    "COLUMNS",
    "STATES",
    "UNSEALED",
    "JobRecord",
    "bindings_digest",
    "checked",
    "connect",
    "format_of",
    "joined",
    "kept",
    "packed",
    "read_rows",
    "seal_of",
    "unpacked",
]


#: In the header of the file: whose it is ("dfjl"), and which version.
APPLICATION_ID, FORMAT, UNSEALED = 0x64666A6C, 3, 2
_JOBS = (
    "CREATE TABLE jobs (tag TEXT PRIMARY KEY, content TEXT NOT NULL, label TEXT NOT NULL, device TEXT NOT NULL, "
    "circuit TEXT NOT NULL, qubits INTEGER NOT NULL, bindings TEXT NOT NULL, circuits INTEGER NOT NULL, "
    "shots INTEGER, seed INTEGER NOT NULL, mitigation TEXT, qpu_seconds REAL, cost REAL, currency TEXT NOT NULL, "
    "intended TEXT NOT NULL, job_id TEXT, state TEXT NOT NULL, note TEXT NOT NULL, result BLOB, digest TEXT{more})"
)
#: The tables by format. Rows of the earlier one are not sealed, and its results not bound to their jobs.
TABLES = {
    number: (
        "CREATE TABLE about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        _JOBS.format(more=more),
        "CREATE INDEX jobs_by_content ON jobs (content)",
    )
    for number, more in ((UNSEALED, ""), (FORMAT, ", seal TEXT NOT NULL"))
}
#: Most bytes of a file, and of a value in it.
MAX_BYTES, VALUE_BYTES = 1 << 36, 1 << 28
#: Most steps of SQLite's machine that reading a journal takes, and how many go between two counts.
STEPS, STEPS_AT_ONCE = 1 << 26, 1 << 16
#: Errors that are the system's, not the file's.
_OF_THE_SYSTEM = (
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
)
#: Seconds that another process' transaction is waited for.
BUSY_S = 30.0


def connect(path: Path, write: bool) -> sqlite3.Connection:
    """The journal in a file, found to be one; to write, made if it is not there.

    Raises
    ------
    ProblemError
        It is another kind of thing, or no journal of this version, or damaged.
    OSError
        It cannot be read, or written.
    """
    if write and not path.exists():
        # SQLite would make it as the umask says, and its companions with the mode of the file.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600))
    # Not opened but by SQLite: closing a file takes away the locks that this process has on it.
    check_regular(path, MAX_BYTES, "MAX_BYTES", "journal ")
    if not os.access(path, os.R_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    database = None
    try:
        database = _opened(path, write)
        _check(database, path, write)
    except BaseException as error:
        if database is not None:
            database.close()
        # SQLite quotes what is damaged, and Python reads that as text.
        if not isinstance(error, (sqlite3.Error, UnicodeDecodeError)):
            raise
        if getattr(error, "sqlite_errorcode", 0) & 0xFF in _OF_THE_SYSTEM:
            raise OSError(f"journal {path} cannot be used: {error}") from error
        raise _foreign(path, str(error)) from error
    return database


def _opened(path: Path, write: bool) -> sqlite3.Connection:
    # A file that nobody writes to is read without a trace; beside a log, SQLite must take part.
    log = Path(f"{os.path.realpath(path)}-wal").exists()
    mode = "mode=rw" if write else "mode=ro" if log else "mode=ro&immutable=1"
    database = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}",
        uri=True,
        timeout=BUSY_S,
        isolation_level=None,
        check_same_thread=False,
    )
    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, VALUE_BYTES)
    for pragma in ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0"):
        database.execute(f"PRAGMA {pragma}")
    return database


def _check(database: sqlite3.Connection, path: Path, write: bool) -> None:
    """Hold the schema against ours; make it in a file that has none."""
    steps = 0

    def over() -> bool:
        nonlocal steps
        steps += STEPS_AT_ONCE
        return steps > STEPS

    if not write:
        # Pages of a hostile file may lead to one another for ever.
        database.set_progress_handler(over, STEPS_AT_ONCE)
        database.execute("PRAGMA query_only = ON")
    schema = _schema(database)
    # SQLite takes a few bytes of anything for nothing, and would write over them.
    empty = os.stat(path).st_size == 0 or _header(database, "page_count") > 0
    if write and empty and not schema and not _header(database, "application_id"):
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("BEGIN IMMEDIATE")
        if not _schema(database):  # another process may have made it meanwhile
            for table in TABLES[FORMAT]:
                database.execute(table)
            database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            database.execute(f"PRAGMA user_version = {FORMAT}")
        database.execute("COMMIT")
        schema = _schema(database)
    if _header(database, "application_id") != APPLICATION_ID:
        raise _foreign(path, "it is a database of something else" if schema else "there is nothing of one in it")
    version = format_of(database)
    if version == UNSEALED and write:
        raise ProblemError(
            f"{path} is a journal of an earlier version, whose results are bound neither to their jobs nor to one "
            "machine of a name. It was left as it is: `dualflow jobs list` shows it, and `dualflow jobs convert` takes "
            "what passes the checks over into a new journal, of the device that you say it is of"
        )
    if version not in TABLES:
        raise _foreign(path, f"its format is {version}, this version reads {FORMAT}")
    if schema != _ours(version):
        raise _foreign(path, "its tables are not those of a journal")
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


def format_of(database: sqlite3.Connection) -> int:
    """The format that a journal's header says."""
    return _header(database, "user_version")


@cache
def _ours(version: int) -> list[Any]:
    database = sqlite3.connect(":memory:")
    for table in TABLES[version]:
        database.execute(table)
    schema = _schema(database)
    database.close()
    return schema


def _foreign(path: Path, why: str) -> ProblemError:
    return ProblemError(
        f"{path} is not a journal of jobs: {why}. It was left as it is; give the file of a run's journal= (journals of "
        "JSON lines, of earlier versions, are not read any more)"
    )


COLUMNS = (
    "tag", "content", "label", "device", "circuit", "qubits", "bindings", "circuits", "shots", "seed", "mitigation",
    "qpu_seconds", "cost", "currency", "intended", "job_id", "state", "note",
)  # fmt: skip
#: What may have become of a job.
STATES = {
    "intended": "may have been sent, its id was never heard",
    "sent": "with the device",
    "done": "its result is here",
    "failed": "it failed, was cancelled, or came back damaged",
    "not sent": "it certainly never reached the machine",
    "given up": "nobody knows, and it may be sent again",
}
#: Most characters of a text (a circuit with all that shapes it), and bytes of a result that is kept.
TEXT_CHARACTERS, RESULT_BYTES = 1 << 20, 1 << 27
#: Fewest bytes of a file that each row of an honest one takes.
ROW_BYTES = 64


@dataclass(frozen=True)
class JobRecord:
    """One job.

    Attributes
    ----------
    tag : str
        Its own, known before it was sent; no two jobs have the same.
    label, device, circuit : str
        What it was for, the device's identity, and the circuit with all that shapes it.
    qubits, circuits : int
    bindings : str
        Digest of the bindings.
    shots : int or None
        Of each circuit; None is the exact distribution.
    seed : int
    mitigation : str or None
        What was asked for; the result that is kept is as it was measured.
    qpu_seconds, cost : float or None
        By the device's `price`, in its ``currency``.
    intended : str
        When it was written down: UTC, ISO 8601.
    job_id : str or None
        The device's, once it is known.
    state, note : str
        One of `STATES`, and what was said.
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
        """Digest of what is measured: two jobs with the same one have the same answer.

        A seed is part of it, where there are shots, on machines that know none, too: the draws of one run are
        different draws, and a run that is resumed asks for the same ones again.
        """
        seed = None if self.shots is None else self.seed
        what = (self.device, self.circuit, self.qubits, self.bindings, self.circuits, self.shots, seed)
        return hashlib.sha256(repr(what).encode("utf-8", "surrogatepass")).hexdigest()


_KINDS: dict[str, tuple[type, ...]] = {
    "qubits": (int,), "circuits": (int,), "shots": (int, type(None)), "seed": (int,),
    "mitigation": (str, type(None)), "qpu_seconds": (float, type(None)), "cost": (float, type(None)),
    "job_id": (str, type(None)),
}  # fmt: skip


def read_rows(
    database: sqlite3.Connection, where: str = "ORDER BY rowid", values: tuple[Any, ...] = ()
) -> list[JobRecord]:
    """Records of the jobs that are asked for.

    Raises
    ------
    sqlite3.Error, ValueError
        A page or a row is damaged.
    """
    sealed = format_of(database) != UNSEALED
    more = ", seal, digest" if sealed else ""
    (pages,), (page,) = (database.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
    most = pages * page // ROW_BYTES
    records: list[JobRecord] = []
    for row in database.execute(f"SELECT {', '.join(COLUMNS)}{more} FROM jobs {where}", values):
        if len(records) >= most:
            raise ValueError("it has more rows than its size can hold")
        records.append(_record(dict(zip(COLUMNS, row[: len(COLUMNS)], strict=True))))
        if sealed and seal_of(records[-1], row[-1]) != row[-2]:
            raise ValueError(f"the row of job {records[-1].tag!r} is not what its seal says")
    return records


def seal_of(record: JobRecord, digest: str | None) -> str:
    """Digest of a whole row, that of its result included."""
    what = [getattr(record, name) for name in COLUMNS]
    return hashlib.sha256(repr((what, digest)).encode("utf-8", "surrogatepass")).hexdigest()


def _record(found: dict[str, Any]) -> JobRecord:
    """A record of the types it declares; ValueError for others."""
    content = found.pop("content")
    for name, value in found.items():
        if type(value) not in _KINDS.get(name, (str,)):
            raise ValueError(f"{name} is of type {type(value).__name__}")
        if isinstance(value, str) and len(value) > TEXT_CHARACTERS:
            raise ValueError(f"{name} has {len(value)} characters")
        if isinstance(value, float) and not 0 <= value < math.inf:
            raise ValueError(f"{name} is {value}")
    within = 0 <= found["qubits"] <= 62 and found["circuits"] >= 1 and 0 <= found["seed"] < 2**31
    if not within or (found["shots"] is not None and found["shots"] < 1) or found["state"] not in STATES:
        raise ValueError(f"job {found['tag']!r} has numbers or a state that no job has")
    record = JobRecord(**found)
    if record.content != content:
        raise ValueError(f"job {record.tag!r} is not what its digest says")
    return record


def packed(values: NDArray, record: JobRecord) -> tuple[bytes | None, str | None]:
    """A result as it is kept, and its digest, which binds it to its job; nothing where it is too large to be."""
    plain = np.ascontiguousarray(values, dtype="<f8" if values.dtype.kind == "f" else "<i8").tobytes()
    if len(plain) > RESULT_BYTES:
        return None, None
    return zlib.compress(plain, 1), _result_digest(plain, record)


def unpacked(blob: Any, digest: Any, record: JobRecord, bound: bool = True) -> NDArray:
    """A result of the shape that its circuit says; ValueError if it is not. Those of format 2 are bound to no job."""
    size = 8 * record.circuits * 2**record.qubits
    if type(blob) is not bytes or size > RESULT_BYTES:
        raise ValueError(f"the result of job {record.tag!r} is none")
    try:
        unpacker = zlib.decompressobj()
        plain = unpacker.decompress(blob, size + 1)
    except zlib.error as error:
        raise ValueError(f"the result of job {record.tag!r} cannot be unpacked: {error}") from error
    expected = _result_digest(plain, record) if bound else hashlib.sha256(plain).hexdigest()
    if len(plain) != size or expected != digest:
        raise ValueError(f"the result of job {record.tag!r} is not what its digest says")
    values = np.frombuffer(plain, dtype="<f8" if record.shots is None else "<i8").reshape(record.circuits, -1)
    return values.astype(values.dtype.newbyteorder("="))


def _result_digest(plain: bytes, record: JobRecord) -> str:
    return hashlib.sha256(f"{record.tag} {record.content} ".encode("utf-8", "surrogatepass") + plain).hexdigest()


def bindings_digest(values: NDArray) -> str:
    """Digest of bindings and their shape."""
    plain = np.ascontiguousarray(values, dtype=float)
    return hashlib.sha256(f"{plain.shape}".encode() + plain.tobytes()).hexdigest()


def kept(record: JobRecord, values: NDArray) -> Readout:
    """The read-out of a job from what a journal keeps of it, shape (circuits, 2^q), checked as any other is."""
    counts = None if record.shots is None else values
    probabilities = values if record.shots is None else values / record.shots
    readout = Readout(probabilities, counts, record.shots, "little", str(record.job_id))
    return check_readout(readout, record.device, _asked(record))


def checked(readout: Readout, record: JobRecord, job: Job) -> Readout:
    """A read-out, shape (circuits, 2^q), if it is of the job and the size that was asked for; `DeviceError` if not."""
    return check_readout(readout, record.device, _asked(record), job.job_id)


def _asked(record: JobRecord) -> Asked:
    return Asked(record.qubits, (record.circuits,), record.shots)


def joined(readouts: list[Readout], shape: tuple[int, ...], shots: int | None) -> Readout:
    """One read-out of a batch's parts: other bindings one below the other, counts of the same ones added.

    Parameters
    ----------
    readouts : list of Readout
        In the order they were cut: the shots of some bindings, then those of the next.
    shape : tuple of int
        Of the batch's.
    shots : int or None
        Of each circuit, in all.
    """
    first = readouts[0]
    if len(readouts) == 1:
        counts = None if first.counts is None else first.counts.reshape(shape)
        return Readout(first.probabilities.reshape(shape), counts, shots, "little", first.job_id)
    if shots is None:
        exact = np.concatenate([np.atleast_2d(readout.probabilities) for readout in readouts])
        return Readout(exact.reshape(shape), None, None, "little", first.job_id)
    rows: list[NDArray] = []
    load = 0
    for readout in readouts:
        part = np.atleast_2d(np.asarray(readout.counts))
        if load == 0:
            rows.append(part)
        else:
            rows[-1] = rows[-1] + part
        load = (load + int(readout.shots or 0)) % shots
    added = np.concatenate(rows).reshape(shape)
    return Readout(added / shots, added, shots, "little", first.job_id)
