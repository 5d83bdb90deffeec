"""What a journal says of a job: what was measured, where, what it takes, and what became of it; and its result.

A file may be a stranger's: every row is of the types it should have, and a result is unpacked to the size that the
circuit says, not the file.
"""

from __future__ import annotations

import hashlib
import math
import sqlite3
import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jobs_file import UNSEALED, format_of

__all__ = ["COLUMNS", "STATES", "JobRecord", "bindings_digest", "packed", "read_rows", "seal_of", "unpacked"]

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
