"""Open the sources of tables: files, gzip files and standard input, all with a maximum size."""

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

#: Maximum size of a file after unpacking, in bytes. Its numbers take at most four times as much memory.
MAX_BYTES = 1 << 30
#: A gzip file may unpack to this size, in bytes, whatever its own size is.
GZ_BYTES = 1 << 26
#: A larger gzip file may unpack to this multiple of its size. gzip shrinks a table to about 1/3, and one that repeats
#: itself to about 1/30; a file that unpacks to 1000 times its size was made to fill the memory.
GZ_RATIO = 100
#: The path that means standard input.
STDIN = "-"

#: First bytes of files that are not tables, and what the user can do.
_OTHER_FORMATS = {
    b"PK\x03\x04": "is a zip archive or an Excel workbook; save the sheet as CSV",
    b"\xd0\xcf\x11\xe0": "is an old Excel workbook; save the sheet as CSV",
    b"BZh": "is compressed by bzip2; unpack it, or use gzip",
    b"\xfd7zX": "is compressed by xz; unpack it, or use gzip",
    b"(\xb5/\xfd": "is compressed by zstd; unpack it, or use gzip",
}


class Source:
    """A file, or a copy of standard input, which can be read more than once.

    Attributes
    ----------
    name : str
        Its name in messages.
    path : Path
    """

    def __init__(self, path: Path, file: BinaryIO | None = None) -> None:
        self.path, self._file, self._measured = path, file, False
        self.name = "standard input" if file is not None else str(path)

    @contextlib.contextmanager
    def raw(self) -> Iterator[BinaryIO]:
        """Open the file as it is, compressed or not."""
        if self._file is not None:
            self._file.seek(0)
            yield self._file
            return
        with open_regular(self.path, MAX_BYTES, "MAX_BYTES") as file:
            yield file

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file, unpacked if it is compressed by gzip."""
        with self.raw() as file:
            start = file.read(4)
            file.seek(0)
            for magic, what in _OTHER_FORMATS.items():
                if start.startswith(magic):
                    raise ProblemError(f"{self.name} {what}")
            if not start.startswith(b"\x1f\x8b"):
                yield file
                return
            max_bytes = min(MAX_BYTES, max(GZ_BYTES, GZ_RATIO * file.seek(0, os.SEEK_END)))
            if not self._measured:  # check the unpacked size before the table is read, which may take minutes
                file.seek(0)
                packed = _Unpacked(gzip.GzipFile(fileobj=file, mode="rb"), self.name, max_bytes)
                while packed.read(1 << 16):
                    pass
                self._measured = True
            file.seek(0)
            yield io.BufferedReader(_Unpacked(gzip.GzipFile(fileobj=file, mode="rb"), self.name, max_bytes))

    def begins_with(self, magic: bytes) -> bool:
        """Return whether the file, as it is, begins with these bytes."""
        with self.raw() as file:
            return file.read(len(magic)) == magic


@contextlib.contextmanager
def open_source(path: Path) -> Iterator[Source]:
    """Open the source at a path; for `STDIN`, standard input is first copied to a private temporary file.

    Raises
    ------
    ProblemError
        It is not a regular file, or is larger than `MAX_BYTES`.
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
    """The unpacked bytes of a gzip file; ProblemError if there are more than ``max_bytes``."""

    def __init__(self, file: gzip.GzipFile, name: str, max_bytes: int) -> None:
        self._packed, self._name, self._left, self._max_bytes = file, name, max_bytes, max_bytes

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._packed.read(len(buffer))
        except (OSError, EOFError, zlib.error) as error:
            raise ProblemError(f"{self._name} is a gzip file that is damaged or cut off: {error}") from None
        if (left := self._left - len(data)) < 0:
            raise ProblemError(
                f"{self._name} unpacks to more than {self._max_bytes} bytes, far more than a table of its size; "
                "if that is "
                "right, unpack it yourself"
            )
        self._left = left
        buffer[: len(data)] = data
        return len(data)
