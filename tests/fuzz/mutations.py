"""Random changes that keep a file's structure, so that they get past its first check."""

from __future__ import annotations

import hashlib
import io
import json
import sqlite3
import zipfile
from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

from dualflow.persistence import container

#: Values that have broken readers: limits of integers and floats, wrong types, tags of the format, names of code.
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 255, 2**31, 2**32, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63) - 1, 10**30,
    0.0, -0.0, 0.5, 1e-320, 1e308, -1e308, "", "a", "\x1b[2J", "²", "nan", "rbf", "poly", "linear", "precomputed",
    "backend:os:abort", "../x", "\0", "é" * 50, "\ud800", [], {}, [[]], [None], {"": None},
    {"$float": "nan"}, {"$float": "inf"}, {"$float": "-inf"}, {"$tuple": [1, 2]}, {"$bytes": "00ff"},
    {"$map": [[1, 2]]},
    {"$scalar": ["<f8", 1.0]}, {"$scalar": ["<U200000000", "a"]}, {"$array": ["<U200000000", [1], ["a"]]},
    {"$array": ["<f8", [0, 1 << 60], []]}, {"$array": ["O", [2], [1, {"$map": [[[], 1]]}]]},
    {"$solver": ["smo", {}]}, {"$solver": ["variational-flow", {"device": "backend:os:abort"}]},
    {"$random_state": {"bit_generator": "MT19937"}},
]  # fmt: skip
#: Headers of arrays: types, and shapes.
DTYPES = ["<f8", ">f8", "<f4", "<f2", "<i8", "<u8", "<i4", "|i1", "|b1", "<U5", "<U200000000", "|S0", "|S9", "<M8[D]"]
DTYPES += ["|O", "<c16", "|V8", "<f16", "('<f8', (1000000,))", "[('a', '<f8')]", "nonsense"]
SHAPES = [
    "()",
    "(0,)",
    "(1,)",
    "(-1,)",
    "(0, 1152921504606846976)",
    "(4611686018427387904, 4)",
    "(True,)",
    "(1.0,)",
    "x",
]


def flipped(rng: Random, data: bytes) -> bytes:
    """Bytes changed, taken out, put in, repeated, cut off."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        at, what = rng.randrange(len(changed) + 1), rng.randrange(6)
        if what == 0 and at < len(changed):
            changed[at] = rng.randrange(256)
        elif what == 1 and at < len(changed):
            changed[at] ^= 1 << rng.randrange(8)
        elif what == 2:
            del changed[at : at + rng.choice((1, 2, 8, 64))]
        elif what == 3:
            changed[at:at] = rng.choice(PIECES)
        elif what == 4:
            changed[at:at] = changed[at : at + rng.randrange(1, 40)] * rng.choice((1, 2, 50))
        elif rng.random() < 0.2:
            del changed[at:]
    return bytes(changed)


#: What texts and binary files have been broken with.
PIECES = [
    b"\0",
    b"\xff",
    b"\n",
    b"\r",
    b"\r\n",
    b",",
    b'"',
    b"'",
    b";",
    b"\t",
    b" ",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"nan",
]
PIECES += [b"inf", b"1e999", b"-0", b"0x1p3", b"1_000", "²".encode(), "١".encode(), b"\x1b[31m", b"=1+1", b"9" * 400]
PIECES += [b"[" * 3000, b'{"a":' * 3000, b"18446744073709551616", b"9007199254740993", b"\x80\x04.", b"PK\x03\x04"]


def json_changed(rng: Random, value: Any) -> Any:
    """The value with one of its parts, at any depth, replaced, doubled, renamed or taken out."""
    if isinstance(value, (dict, list)) and value and rng.random() < 0.9:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        key = rng.choice(keys)
        what, changed = rng.random(), dict(value) if isinstance(value, dict) else list(value)
        if what < 0.85:
            changed[key] = json_changed(rng, value[key])
        elif what < 0.92:
            del changed[key]
        elif isinstance(changed, dict):
            changed[rng.choice(["", "$array", "x", str(key) + "x"])] = changed[key]
        else:
            changed += [changed[key]] * rng.choice((1, 3, 100))
        return changed
    if isinstance(value, (int, float)) and rng.random() < 0.3:
        return value + rng.choice((-1, 1, 1e-9, 2**40))
    return rng.choice(VALUES)


def array_changed(rng: Random, data: bytes) -> bytes:
    """A ``.npy`` with another header, other numbers, or other bytes."""
    what = rng.random()
    if what < 0.3:
        return flipped(rng, data)
    try:
        array = np.load(io.BytesIO(data), allow_pickle=False)
    except Exception:  # not an array any more
        return flipped(rng, data)
    if what < 0.5:
        text = (
            f"{{'descr': {_dtype(rng, array)}, 'fortran_order': {rng.random() < 0.2}, 'shape': {_shape(rng, array)}, }}"
        )
        line = text.encode().ljust(117) + b"\n"
        return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line + array.tobytes()
    if array.size and array.dtype.kind in "iuf" and what < 0.9:
        array = array.copy()
        numbers = (
            [v for v in VALUES if type(v) in (int, float)] if array.dtype.kind == "f" else [-1, 0, 1, 2, 10**9, 2**62]
        )
        if array.dtype.kind == "f":
            numbers += [float("nan"), float("inf")]
        number = rng.choice(numbers) if array.dtype.itemsize == 8 else 1
        try:
            with np.errstate(all="ignore"):
                array.flat[rng.randrange(array.size)] = number
        except (ValueError, OverflowError):  # −1 among numbers without a sign
            return flipped(rng, data)
    else:
        array = array[: rng.randrange(len(array) + 1)] if array.ndim else array[None]
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, version=(1, 0))
    return stream.getvalue()


def _dtype(rng: Random, array: np.ndarray) -> str:
    name = rng.choice([array.dtype.str, *DTYPES])
    return name if name[:1] in "([" else repr(name)


def _shape(rng: Random, array: np.ndarray) -> str:
    return rng.choice([str(array.shape), str(array.shape[::-1]), f"({array.size},)", f"({array.size}, 1)", *SHAPES])


def members_of(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def archive_of(members: dict[str, bytes], comment: bytes = b"") -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.comment = comment
    return stream.getvalue()


def trained_changed(rng: Random, data: bytes) -> bytes:
    """A model of `dualflow train` with a change in what stands beside it."""
    try:
        members = members_of(data)
        header = json.loads(members["header.json"])
        header["table"] = json_changed(rng, header["table"])
        members["header.json"] = json.dumps(header).encode()
        return sealed(archive_of(members, container.MARK + b"0" * 64))
    except Exception:
        return flipped(rng, data)


def model_changed(rng: Random, data: bytes) -> bytes:
    """A model file with a change in its header or an array, every checksum made right again."""
    if rng.random() < 0.1:
        return sealed(flipped(rng, data)) if rng.random() < 0.5 else flipped(rng, data)
    try:
        members = members_of(data)
        header = json.loads(members["header.json"])
    except Exception:
        return flipped(rng, data)
    if rng.random() < 0.6:
        part = rng.choice(["parameters", "features", "facts", "objects", "class", "format"])
        if isinstance(header, dict):
            header[part] = json_changed(rng, header.get(part))
    else:
        name = rng.choice([name for name in members if name != "header.json"] or ["header.json"])
        members[name] = array_changed(rng, members[name])
    if isinstance(header, dict):
        header["members"] = {
            name: {"sha256": hashlib.sha256(content).hexdigest()}
            for name, content in members.items()
            if name != "header.json"
        }
    members["header.json"] = json.dumps(header).encode()
    return sealed(archive_of(members, container.MARK + b"0" * 64))


def sealed(data: bytes) -> bytes:
    """The content with the digest at its end that belongs to it."""
    return data[:-64] + hashlib.sha256(data[:-64]).hexdigest().encode()


def checkpoint_changed(rng: Random, data: bytes) -> bytes:
    """A checkpoint with a change in its header or an array."""
    if rng.random() < 0.1:
        return flipped(rng, data)
    try:
        members = members_of(data)
        header = json.loads(np.load(io.BytesIO(members["header.npy"])).tobytes())
    except Exception:
        return flipped(rng, data)
    if rng.random() < 0.5:
        part = rng.choice(["state", "steps", "wall_time_s", "format"])
        header[part] = json_changed(rng, header.get(part))
        stream = io.BytesIO()
        np.save(stream, np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
        members["header.npy"] = stream.getvalue()
    else:
        name = rng.choice(list(members))
        members[name] = array_changed(rng, members[name])
    return archive_of(members)


#: What has no place in a journal, and what its pages and headers may be told to be.
STATEMENTS = [
    "CREATE TABLE more (x)", "CREATE VIEW more AS SELECT * FROM jobs", "DROP INDEX jobs_by_content",
    "CREATE TRIGGER t AFTER UPDATE ON jobs BEGIN DELETE FROM jobs; END", "DELETE FROM jobs", "DELETE FROM about",
    "PRAGMA user_version = 3", "PRAGMA application_id = 1", "INSERT INTO about VALUES ('x', 'y')",
    "UPDATE jobs SET result = zeroblob(10000000)", "UPDATE jobs SET note = hex(zeroblob(2000000))",
    "UPDATE jobs SET circuits = 1000000000000, qubits = 40", "UPDATE jobs SET shots = 9223372036854775807",
]  # fmt: skip


def database_changed(rng: Random, data: bytes) -> bytes:
    """A SQLite file with a value, its schema or some bytes of its pages changed."""
    what = rng.random()
    if what < 0.4:
        changed = bytearray(data)
        for _ in range(rng.choice((1, 1, 3, 20))):
            if changed:
                # Headers of the file and of its pages matter most.
                start = rng.randrange(0, len(changed), 4096) if rng.random() < 0.7 else rng.randrange(len(changed))
                at = min(start + rng.randrange(120), len(changed) - 1)
                changed[at] = rng.choice((0, 1, 2, 5, 13, 127, 128, 255, rng.randrange(256)))
        return bytes(changed)
    if what < 0.5:
        return flipped(rng, data)
    database = sqlite3.connect(":memory:")
    try:
        database.deserialize(data)
        database.execute("PRAGMA journal_mode = MEMORY")
        if rng.random() < 0.3:
            database.execute(rng.choice(STATEMENTS))
        else:
            columns = [row[1] for row in database.execute("PRAGMA table_info(jobs)")]
            value = rng.choice([v for v in VALUES if not isinstance(v, (list, dict))] + [b"\xff", "-wal"])
            column, row = rng.choice(columns), rng.randrange(1, 6)
            database.execute(f"UPDATE jobs SET {column} = ? WHERE rowid = ?", (value, row))
        database.commit()
        return bytes(database.serialize())
    except (sqlite3.Error, OverflowError, UnicodeError, IndexError):
        return flipped(rng, data)
    finally:
        database.close()


Mutation = Callable[[Random, bytes], bytes]
