"""A lock that allows one process at a time to send the jobs of a journal; the system releases it if that dies."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from pathlib import Path
from typing import Any

from ...core.runtime.threads import in_child
from ...exceptions import ProblemError
from .journal import Journal

#: Row of the journal that holds the id of the process.
OWNER_ROW = "process"
#: Locks that this process holds: by path, the locked connection and the ids of the `JournalLock` objects that share it.
_held: dict[str, tuple[sqlite3.Connection, set[int]]] = {}
#: Id of the process that made `_held`; another id in the child of a fork.
_owner = os.getpid()
_lock = threading.RLock()
#: Connections of the parent, which the child of a fork must neither use nor close.
_parents: list[Any] = []


@in_child
def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


class JournalLock:
    """The lock of a process that sends the jobs of a journal; `close` or deleting the object releases it.

    It is SQLite's own lock on an empty file beside the journal, ``<journal>-live``. It works on every file system that
    SQLite supports, and the system releases it when the process dies. Runs in one process share it.

    Parameters
    ----------
    journal : Journal

    Raises
    ------
    ProblemError
        Another process holds it.
    """

    def __init__(self, journal: Journal) -> None:
        self.path = f"{os.path.realpath(journal.path)}-live"
        with _lock:
            _forget_parent_locks()
            if self.path not in _held:
                _held[self.path] = (_lock_file(Path(self.path), journal), set())
                journal.set_about(OWNER_ROW, str(os.getpid()))
            _held[self.path][1].add(id(self))
        self.close = weakref.finalize(self, _release, self.path, id(self), os.getpid())


def _lock_file(path: Path, journal: Journal) -> sqlite3.Connection:
    """Return a connection that holds the lock on a file; make the file if need be.

    The process that releases the lock deletes the file, so that another process may have made a new file of this name:
    compare the inodes before and after locking.
    """
    while True:
        seen, database = None, None
        try:
            with contextlib.suppress(FileExistsError):  # mode 0600, as the journal
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            seen = _inode(path)
            database = sqlite3.connect(
                f"{path.as_uri()}?mode=rw", uri=True, timeout=0.0, isolation_level=None, check_same_thread=False
            )
            database.execute("BEGIN EXCLUSIVE")
        except (sqlite3.Error, OSError) as error:
            if database is not None:
                database.close()
            if seen is not None and _inode(path) != seen:
                continue
            raise _in_use_error(path, journal, error) from error
        if seen is not None and _inode(path) == seen:
            return database
        database.close()


def _inode(path: Path) -> int | None:
    """Return the inode of a file; None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_ino
    return None


def _in_use_error(path: Path, journal: Journal, error: Exception) -> ProblemError:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ProblemError(f"journal={str(journal.path)!r} cannot be used: {path.name}: {error}")
    process = journal.about(OWNER_ROW) or "(unknown)"
    return ProblemError(
        f"journal={str(journal.path)!r} is in use by process {process}, which still runs: "
        "two processes could pay for the same job twice. Wait for its end, or end it, and run this again; or give "
        "another path"
    )


def _release(path: str, holder: int, process: int) -> None:
    with _lock:
        if process != os.getpid() or path not in _held:
            return
        database, holders = _held[path]
        holders.discard(holder)
        if not holders:
            del _held[path]
            with contextlib.suppress(OSError):  # a system that cannot delete open files keeps an empty one
                os.unlink(path)
            database.close()


def _forget_parent_locks() -> None:
    """In the child of a fork: forget the parent's locks without closing their connections."""
    global _owner
    if _owner != os.getpid():
        _parents.append(dict(_held))
        _held.clear()
        _owner = os.getpid()
