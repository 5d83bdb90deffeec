"""Where tables come from: files, gz files and standard input, none of them endless."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ..exceptions import ProblemError
from ..persistence.files import open_regular

__all__ = ["MAX_BYTES", "STDIN", "Source", "source_of"]

#: Most bytes of a file, unpacked: as numbers they take four times as many, at worst.
MAX_BYTES = 1 << 30
#: How far a gz file may unpack: so many bytes in any case, and so many times its size. Tables shrink to a third, or to
#: a thirtieth where they repeat themselves; what shrinks to a thousandth was made to.
GZ_BYTES, GZ_RATIO = 1 << 26, 100
#: The path that is standard input.
STDIN = "-"

#: What begins like this is no table, and what to do with it.
_OTHERS = {
    b"PK\x03\x04": "is a zip archive or an Excel workbook; save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "is an old Excel workbook; save the sheet as CSV",
    b"BZh": "is compressed by bzip2; unpack it, or use gzip",
    b"\xfd7zX": "is compressed by xz; unpack it, or use gzip",
    b"(\xb5/\xfd": "is compressed by zstd; unpack it, or use gzip",
}


class Source:
    """A file, or what standard input held, which can be read more than once.

    Attributes
    ----------
    name : str
        For errors.
    path : Path
    """

    def __init__(self, path: Path, file: BinaryIO | None = None) -> None:
        self.path, self._file, self._measured = path, file, False
        self.name = "standard input" if file is not None else str(path)

    @contextlib.contextmanager
    def raw(self) -> Iterator[BinaryIO]:
        """Its bytes as they are, from the first on."""
        if self._file is not None:
            self._file.seek(0)
            yield self._file
            return
        with open_regular(self.path, MAX_BYTES, "MAX_BYTES") as file:
            yield file

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Its bytes from the first on, unpacked if they are gz."""
        with self.raw() as file:
            start = file.read(4)
            file.seek(0)
            for magic, what in _OTHERS.items():
                if start.startswith(magic):
                    raise ProblemError(f"{self.name} {what}")
            if not start.startswith(b"\x1f\x8b"):
                yield file
                return
            most = min(MAX_BYTES, max(GZ_BYTES, GZ_RATIO * file.seek(0, os.SEEK_END)))
            if not self._measured:  # before minutes of reading, not after them
                file.seek(0)
                packed = _Unpacked(gzip.GzipFile(fileobj=file, mode="rb"), self.name, most)
                while packed.read(1 << 16):
                    pass
                self._measured = True
            file.seek(0)
            yield io.BufferedReader(_Unpacked(gzip.GzipFile(fileobj=file, mode="rb"), self.name, most))

    def begins_with(self, magic: bytes) -> bool:
        """Whether these are its first bytes, as they are."""
        with self.raw() as file:
            return file.read(len(magic)) == magic


@contextlib.contextmanager
def source_of(path: Path) -> Iterator[Source]:
    """The source at a path; `STDIN` is read to its end first, into a file that nobody else sees.

    Raises
    ------
    ProblemError
        No regular file, or larger than `MAX_BYTES`.
    OSError
        It cannot be read.
    """
    if str(path) != STDIN:
        yield Source(path)
        return
    if sys.stdin is None:
        raise ProblemError("standard input is closed; give the path of a file")
    with tempfile.TemporaryFile() as kept:
        left = MAX_BYTES
        while data := sys.stdin.buffer.read(min(1 << 20, left + 1)):
            if (left := left - len(data)) < 0:
                raise ProblemError(f"standard input has more than MAX_BYTES={MAX_BYTES} bytes")
            kept.write(data)
        yield Source(path, kept)


class _Unpacked(io.RawIOBase):
    """What a gz file unpacks to, and not a byte more than that may be."""

    def __init__(self, file: gzip.GzipFile, name: str, most: int) -> None:
        self._packed, self._name, self._left, self._most = file, name, most, most

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._packed.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise ProblemError(f"{self._name} is a gz file that is damaged or cut off: {error}") from None
        if (left := self._left - len(data)) < 0:
            raise ProblemError(
                f"{self._name} unpacks to more than {self._most} bytes, far more than a table of its size; unpack it "
                "yourself if that is right"
            )
        self._left = left
        buffer[: len(data)] = data
        return len(data)
