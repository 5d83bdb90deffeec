"""The container of saved models: a zip archive of plain arrays and a JSON header, checked before it is used.

Members are stored without compression, in the order of their names and with one fixed date. Equal contents therefore
give equal bytes, and a file is as large as what it unpacks to. ``header.json`` lists every other member with its
SHA-256, and the archive ends with the SHA-256 of all bytes before it. Members are ``.npy`` arrays; other suffixes are
reserved for later formats.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from .files import open_regular, replacing
from .npy import array_of

#: Name of the member that holds the header.
HEADER = "header.json"
#: The archive's comment begins with this text, and ends with the digest in 64 hexadecimal digits, the last bytes.
MARK = b"dualflow sha256 "
#: Kinds of dtype that a member may have, with at most 8 bytes a number; none of them can hold a Python object.
DTYPES = "biufUSmM"
#: Largest header in bytes: it bounds reading to seconds and a gigabyte. The solve of one pair takes about 600 bytes.
MAX_HEADER_BYTES = 1 << 26
#: Most values in a header, for the same bound. The solve of one pair takes about 35 values.
MAX_HEADER_VALUES = 1 << 22

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,200}\.npy", re.ASCII)


class _Digest:
    """A file object that computes the SHA-256 of what is written to it, and stores nothing else."""

    def __init__(self) -> None:
        self.sha256 = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self.sha256.update(data)
        return len(data)


def write(path: Path, header: dict[str, Any], arrays: Mapping[str, NDArray]) -> None:
    """Write a container that replaces ``path`` as a whole, or leaves it unchanged if an error occurs.

    Parameters
    ----------
    path : Path
    header : dict
        Values that JSON can hold, without NaN and infinity; "members" is added.
    arrays : mapping
        Names of members, without ``.npy``, to arrays of dtypes in `DTYPES`.

    Raises
    ------
    ProblemError
        An array has another dtype, a name is not valid, or the header is larger than `read` accepts.
    OSError
        The file cannot be written.
    """
    members: dict[str, dict[str, Any]] = {}
    plain: dict[str, NDArray] = {}
    for name, array in sorted((f"{name}.npy", array) for name, array in arrays.items()):
        if not _NAME.fullmatch(name):
            raise ProblemError(f"{name!r} cannot be the name of an array in a file")
        _check_dtype(name, array.dtype)
        # Always row-major and little-endian, so that equal arrays give equal bytes.
        plain[name] = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        digest = _Digest()
        np.lib.format.write_array(digest, plain[name], version=(1, 0), allow_pickle=False)
        members[name] = {"sha256": digest.sha256.hexdigest()}
    text = json.dumps(header | {"members": members}, sort_keys=True, allow_nan=False, separators=(",", ":")).encode()
    try:
        _check_header(text)
    except ValueError as error:
        raise ProblemError(
            f"{path} cannot be written: {error}; one file cannot hold this number of models, save them in several"
        ) from None
    with replacing(path) as file:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name in sorted([HEADER, *members]):
                info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
                info.create_system, info.external_attr = 3, 0o644 << 16  # Unix on every system, for equal bytes
                info.file_size = len(text) if name == HEADER else plain[name].nbytes + 1000  # zipfile needs an estimate
                with archive.open(info, "w") as member:
                    if name == HEADER:
                        member.write(text)
                    else:
                        np.lib.format.write_array(member, plain[name], version=(1, 0), allow_pickle=False)
            archive.comment = MARK + b"0" * 64
        digest_of_all = _digest_without_tail(file)
        file.seek(-64, os.SEEK_END)
        file.write(digest_of_all)


def read(path: Path, max_bytes: int) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return header and arrays of a container after verifying every checksum; the arrays are writeable copies.

    Raises
    ------
    ProblemError
        The file is not a container, larger than ``max_bytes``, truncated or damaged; the message says what was found.
    OSError
        The file cannot be read.
    """
    with open_regular(path, max_bytes) as file:
        size = file.seek(0, os.SEEK_END)
        _check_ending(path, file, size)
        try:
            with zipfile.ZipFile(file) as archive:
                infos = _check_directory(archive, size)
                if infos[HEADER].file_size > MAX_HEADER_BYTES:
                    raise ValueError(f"its {HEADER} has {infos[HEADER].file_size} bytes")
                text = archive.read(HEADER)
                _check_header(text)
                header = json.loads(text, parse_constant=_no_constant)
                listed = header["members"]
                if set(listed) != set(infos) - {HEADER}:
                    raise ValueError("it does not hold the members its header lists")
                arrays = {}
                for name, entry in listed.items():
                    data = archive.read(name)
                    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                        raise ValueError(f"the SHA-256 of {name} is not the one its header gives")
                    arrays[name.removesuffix(".npy")] = array_of(name, data, DTYPES)
        except Exception as error:  # zipfile, json and numpy raise many kinds of errors on damaged bytes
            raise ProblemError(f"{path} is not a dualflow file or is damaged: {_error_text(error)}") from error
    return header, arrays


def is_model_file(path: Path) -> bool:
    """Whether a file ends as `write` ends it, or is empty: such a file may be replaced."""
    with open(path, "rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 64 - len(MARK)))
        return not size or file.read().startswith(MARK)


def _check_header(text: bytes) -> None:
    """Raise ValueError for a header that would take too long to read."""
    # Each value but the first of a list or object follows a comma, so these characters bound the number of values.
    if len(text) > MAX_HEADER_BYTES or sum(map(text.count, (b",", b"[", b"{"))) > MAX_HEADER_VALUES:
        raise ValueError(f"its {HEADER} has more than {MAX_HEADER_BYTES} bytes or {MAX_HEADER_VALUES} values")


def _error_text(error: Exception) -> str:
    """Return an error's message, or its class if that is empty."""
    return str(error) or type(error).__name__


def _no_constant(name: str) -> None:
    raise ValueError(f"its {HEADER} holds {name}")


def _digest_without_tail(file: BinaryIO) -> bytes:
    """Return the SHA-256 of all but the last 64 bytes, in hexadecimal digits."""
    left = file.seek(0, os.SEEK_END) - 64
    file.seek(0)
    sha256 = hashlib.sha256()
    while left > 0 and (data := file.read(min(left, 1 << 20))):
        sha256.update(data)
        left -= len(data)
    return sha256.hexdigest().encode()


def _check_ending(path: Path, file: BinaryIO, size: int) -> None:
    """Raise `ProblemError` unless the file ends with the mark and its digest; nothing is parsed before this check."""
    file.seek(max(0, size - 64 - len(MARK)))
    tail = file.read()
    file.seek(0)
    start = file.read(4)
    if start[:2] != b"PK" or not tail.startswith(MARK):
        if start[:2] == b"PK":
            what = "a zip archive (an .npz?) of something else, or the beginning of a longer file"
        elif start[:1] == b"\x80":
            what = "a pickle (of pickle or joblib?), which is never read, because it could run any code"
        else:
            shown = start.decode("ascii", "backslashreplace")
            what = f"something that begins with {shown!r}" if size else "empty"
        raise ProblemError(f"{path} is not a dualflow file but {what}; give a file of dualflow train or of save()")
    if _digest_without_tail(file) != tail[-64:]:
        raise ProblemError(f"{path} is damaged: its SHA-256 is not the one at its end; take another copy of it")


def _check_directory(archive: zipfile.ZipFile, size: int) -> dict[str, zipfile.ZipInfo]:
    """Return the members by name; ValueError for names, compression or overlaps that `write` does not produce."""
    infos: dict[str, zipfile.ZipInfo] = {}
    end = 0
    for info in archive.infolist():
        name = info.filename
        if name in infos or not (name == HEADER or _NAME.fullmatch(name)):
            raise ValueError(f"it holds a member {name!r}, which does not belong there")
        if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size or info.flag_bits:
            raise ValueError(f"its member {name} is compressed or encrypted")
        if info.header_offset < end or (info.header_offset and not infos):
            raise ValueError(f"its member {name} overlaps another, or something is in front of it")
        end = info.header_offset + info.file_size
        infos[name] = info
    if HEADER not in infos or end > size:
        raise ValueError(f"it has no {HEADER}" if HEADER not in infos else "its members are longer than it is")
    return infos


def _check_dtype(name: str, dtype: np.dtype) -> None:
    """Raise `ProblemError` for an array of a dtype that a file cannot hold."""
    if dtype.kind not in DTYPES or not dtype.itemsize or (dtype.kind in "iuf" and dtype.itemsize > 8):
        raise ProblemError(f"{name} has dtype {dtype}, which cannot be stored without pickle on every machine")
