"""One process at a time sends by a journal: a lock of the system's, gone with the process that held it."""

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

__all__ = ["Live"]

#: Where the journal says which process it is.
OWNER = "process"
#: Of this process: by the file that is locked, the locked connection and who holds it. A child of a fork has none.
_held: dict[str, tuple[sqlite3.Connection, set[int]]] = {}
_owner, _lock = os.getpid(), threading.RLock()
#: Connections of a parent, which a child must neither use nor close.
_parents: list[Any] = []


@in_child
def _renew_lock() -> None:
    global _lock
    _lock = threading.RLock()


class Live:
    """Held while something in this process sends by a journal; let go by `close`, or with the object.

    SQLite's own lock on an empty file beside the journal, ``<journal>-live``: it works wherever SQLite does, and the
    system takes it back when the process dies, however it dies. Runs in one process share it.

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
            _forked()
            if self.path not in _held:
                _held[self.path] = (_locked(Path(self.path), journal), set())
                journal.tell(OWNER, str(os.getpid()))
            _held[self.path][1].add(id(self))
        self.close = weakref.finalize(self, _let_go, self.path, id(self), os.getpid())


def _locked(path: Path, journal: Journal) -> sqlite3.Connection:
    """The lock on the file of this name: whoever lets go of it takes the file away, and another may be made anew."""
    while True:
        seen, database = None, None
        try:
            with contextlib.suppress(FileExistsError):  # its owner's alone, as the journal is
                os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            seen = _number(path)
            database = sqlite3.connect(
                f"{path.as_uri()}?mode=rw", uri=True, timeout=0.0, isolation_level=None, check_same_thread=False
            )
            database.execute("BEGIN EXCLUSIVE")
        except (sqlite3.Error, OSError) as error:
            if database is not None:
                database.close()
            if seen is not None and _number(path) != seen:
                continue
            raise _refused(path, journal, error) from error
        if seen is not None and _number(path) == seen:
            return database
        database.close()


def _number(path: Path) -> int | None:
    """Which file it is; None if there is none."""
    with contextlib.suppress(FileNotFoundError):
        return path.stat().st_ino
    return None


def _refused(path: Path, journal: Journal, error: Exception) -> ProblemError:
    if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return ProblemError(f"journal={str(journal.path)!r} cannot be used: {path.name}: {error}")
    return ProblemError(
        f"journal={str(journal.path)!r} is in use by process {journal.told(OWNER) or '(unknown)'}, which still runs: "
        "two at once could pay for the same job twice. Wait for its end, or end it, and run this again; or give "
        "another path"
    )


def _let_go(path: str, holder: int, process: int) -> None:
    with _lock:
        if process != os.getpid() or path not in _held:
            return
        database, holders = _held[path]
        holders.discard(holder)
        if not holders:
            del _held[path]
            with contextlib.suppress(OSError):  # where an open file cannot be taken away, it stays: it is empty
                os.unlink(path)
            database.close()


def _forked() -> None:
    """In a child of a fork: forget what its parent holds, without a word to SQLite."""
    global _owner
    if _owner != os.getpid():
        _parents.append(dict(_held))
        _held.clear()
        _owner = os.getpid()
