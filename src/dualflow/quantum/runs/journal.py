"""A journal of submitted jobs: a run that died while it waited finds them again instead of paying twice."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import warnings
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._files import open_regular, target_of
from ..._unconfirmed import Unconfirmed
from ...exceptions import ProblemError

__all__ = ["DONE", "JobRecord", "Journal", "bindings_digest", "read_journal"]

HEADER = {"journal": "dualflow jobs", "format": 1}
#: Most bytes of a journal: a job takes a few hundred.
MAX_BYTES = 1 << 30
#: Outcome of a job whose read-out came; any other is the message of what went wrong.
DONE = "done"


@dataclass(frozen=True)
class JobRecord:
    """One submitted job.

    Attributes
    ----------
    id, tag, device, circuit : str
        The device's id of it, its label, the device's name, and the circuit with all that shapes it.
    bindings : str
        Digest of the bindings.
    shots : int or None
        Of each circuit.
    seed : int
    submitted : str
        UTC, ISO 8601.
    outcome : str or None
        "done", what went wrong, or None while nobody knows.
    """

    id: str
    tag: str
    device: str
    circuit: str
    bindings: str
    shots: int | None
    seed: int
    submitted: str = ""
    outcome: str | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        """What makes two submissions the same job."""
        return (self.tag, self.device, self.circuit, self.bindings, self.shots, self.seed)


class Journal:
    """A JSON-lines file: a header, then a line for each submission and one for what came of it.

    Lines are only ever appended, and are on the disk before anything is waited for. Where the disk is full there is a
    warning, and the run goes on: a job that is paid for is worth more than its line. A last line that was cut short by
    a kill is taken off with a warning; what it said of a job is not known then.

    Parameters
    ----------
    path : str or Path
        Made if it does not exist.

    Raises
    ------
    ProblemError
        The file cannot be written, is no journal, or is damaged; it is left as it is. Or its name was read from a
        model file, and nobody confirmed it.
    """

    def __init__(self, path: str | Path) -> None:
        if isinstance(path, Unconfirmed):
            path.refuse("journal", "would be written to")
        self.path = Path(path)
        self._latest: dict[tuple[Any, ...], JobRecord] = {}
        self._failed: OSError | None = None
        self._torn = False
        try:
            _, there = target_of(self.path)
            if there is not None and there.st_size:
                self._latest = {record.key: record for record in read_journal(self.path)}
                self._mend()
            if not self.path.exists() or not self.path.stat().st_size:
                self._append(HEADER)
        except ProblemError as error:
            raise ProblemError(f"journal={str(path)!r} cannot be used: {error}") from error
        except OSError as error:
            raise ProblemError(f"journal={str(path)!r} cannot be used: {error.strerror or error}") from error

    def find(self, record: JobRecord) -> JobRecord | None:
        """The latest submission of the same job."""
        return self._latest.get(record.key)

    def submitted(self, record: JobRecord) -> JobRecord:
        """Write a submission down."""
        record = replace(record, submitted=_now(), outcome=None)
        self._note({name: value for name, value in asdict(record).items() if name != "outcome"})
        self._latest[record.key] = record
        return record

    def concluded(self, record: JobRecord, outcome: str) -> None:
        """Write down what came of it."""
        self._note({"id": record.id, "outcome": outcome, "at": _now()})
        self._latest[record.key] = replace(record, outcome=outcome)

    def _note(self, line: dict[str, Any]) -> None:
        """Append a line, or warn."""
        try:
            self._append(line)
        except OSError as error:
            if self._failed is None:
                text = (
                    f"journal {self.path} could not be written: {error}; the run goes on, and its jobs are in no file"
                )
                warnings.warn(text, UserWarning, stacklevel=4)
            self._failed = error

    def _append(self, line: dict[str, Any]) -> None:
        """Append a whole line, or nothing."""
        if self._torn and self._failed is not None:
            raise self._failed
        data = json.dumps(line).encode() + b"\n"
        with open(self.path, "ab", buffering=0) as file:
            size = file.seek(0, os.SEEK_END)
            try:
                if file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                os.fsync(file.fileno())
            except OSError:
                self._torn = True
                file.truncate(size)
                self._torn = False
                raise

    def _mend(self) -> None:
        """Take off what stands behind the last end of a line, or end the line if it is whole."""
        with open(self.path, "r+b") as file:
            content = file.read()
            end = content.rfind(b"\n") + 1
            if _whole(content[end:]):
                file.write(b"\n")
            else:
                file.truncate(end)


def read_journal(path: str | Path) -> list[JobRecord]:
    """All submissions in a journal, oldest first, each with its outcome.

    Raises
    ------
    ProblemError
        The file is no journal, or a line is damaged; a last one that was cut short is a warning.
    OSError
        It cannot be read.
    """
    records: list[JobRecord] = []
    last: dict[str, int] = {}
    with open_regular(path, MAX_BYTES, "MAX_BYTES", "journal ") as file:
        lines = file.read().split(b"\n")
    # What a kill cut short is the last line, without its end.
    if lines[-1] and not _whole(lines[-1]) and (len(lines) > 1 or json.dumps(HEADER).encode().startswith(lines[-1])):
        lines.pop()
        warnings.warn(f"journal {path}: line {len(lines) + 1}, the last, is cut short; it is left out", stacklevel=2)
    for number, line in enumerate(lines, 1):
        try:
            if number == 1:
                if json.loads(line) != HEADER:
                    raise ValueError("its first line is not that of a dualflow journal")
            elif line:
                found = json.loads(line)
                if "outcome" in found:
                    records[last[found["id"]]] = replace(records[last[found["id"]]], outcome=str(found["outcome"]))
                else:
                    last[found["id"]] = len(records)
                    records.append(_record(found))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            what = "is not a journal of jobs" if number == 1 else "is damaged"
            raise ProblemError(
                f"journal {path} {what}: line {number} ({type(error).__name__}: {error}). The file was left as it is; "
                "give another path, or take the line out: its job is then submitted again"
            ) from error
    return records


def _record(found: dict[str, Any]) -> JobRecord:
    """A record of the types it declares; ValueError or TypeError for others."""
    for name, value in found.items():
        number = name in ("shots", "seed")
        if type(value) is not (int if number else str) and not (name == "shots" and value is None):
            raise ValueError(f"{name} is of type {type(value).__name__}")
    return JobRecord(**found)


def _whole(line: bytes) -> bool:
    """Whether a line that does not end is all there."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def bindings_digest(values: NDArray) -> str:
    """Sixteen hex digits of bindings and their shape."""
    return hashlib.sha256(f"{values.shape}".encode() + np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
