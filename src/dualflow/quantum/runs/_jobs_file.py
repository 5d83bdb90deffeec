"""The file of a journal: a SQLite database whose tables are ours to the letter, for it may be a stranger's."""

from __future__ import annotations

import errno
import os
import sqlite3
from functools import cache
from pathlib import Path
from typing import Any

from ...exceptions import ProblemError
from ...persistence.files import check_regular

__all__ = ["UNSEALED", "connect", "format_of"]

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
