"""Safe reading and writing of files, and safe output of untrusted text.

`replacing` writes a file as a whole or not at all, `open_regular` opens only regular files of a limited size, and
`escape_control_characters` and `csv_safe` make text harmless for terminals and spreadsheets.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TextIO

from ..exceptions import ProblemError

_KIND_NAMES = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: Characters of a file's name that its temporary file's name begins with. At four bytes each, names are at most 255
#: bytes with the suffix, the limit of common file systems.
_TEMPORARY_STEM_CHARACTERS = 50


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """Open a new file for writing and reading that replaces ``path`` when the block ends.

    If the block fails (full disk, Ctrl-C, kill), the old file stays as it was. Only a kill leaves the unfinished file,
    ``path`` with a random suffix and ``.part``. Missing folders are created. A symbolic link stays, and its target is
    replaced. An existing file's mode is kept, and its owner if the system allows it; a new file's mode follows the
    umask.

    Raises
    ------
    ProblemError
        ``path`` exists and is not a regular file, but a folder, a device, a pipe or a socket.
    OSError
        The file cannot be written, for example because the mode of the existing file forbids it.
    """
    target, old = target_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name[:_TEMPORARY_STEM_CHARACTERS]}.{secrets.token_hex(8)}.part")
    # Only the owner may read the temporary file until it has the mode of the file that it replaces.
    descriptor = os.open(temporary, _CREATE_FLAGS, 0o666 if old is None else 0o600)
    try:
        with os.fdopen(descriptor, "w+b") as file:
            yield file
            file.flush()
            if old is not None:
                _take_over(descriptor, old)
            os.fsync(descriptor)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def replacing_text(path: str | Path) -> Iterator[TextIO]:
    """Open a text file in UTF-8 as `replacing` does; line ends are unchanged, and lone surrogates are escaped."""
    with replacing(Path(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        yield text
        text.flush()
        text.detach()


def target_of(path: Path) -> tuple[Path, os.stat_result | None]:
    """Return the file that writing to ``path`` would replace, with links followed, and its status if it exists.

    Raises
    ------
    ProblemError
        It is not a regular file.
    OSError
        Its mode forbids writing, or its links form a circle.
    """
    target = Path(os.path.realpath(path))
    try:
        old = os.stat(path)  # `realpath` accepts a circle of links, `stat` of the path raises OSError
    except FileNotFoundError:
        return target, None
    if not stat.S_ISREG(old.st_mode):
        raise ProblemError(f"{path} is {_kind(old)}, not a file; give the name of a file")
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return target, old


@contextlib.contextmanager
def open_regular(path: str | Path, max_bytes: int, limit: str = "max_bytes", what: str = "") -> Iterator[BinaryIO]:
    """Open a regular file of at most ``max_bytes`` bytes for reading; opening never blocks.

    Parameters
    ----------
    path : str or Path
    max_bytes : int
    limit, what : str
        For errors: the name of the limit, and a text before the name of the file ("checkpoint ").

    Raises
    ------
    ProblemError
        The path is not a regular file, or the file is larger.
    OSError
        The file cannot be read.
    """
    # Checked before opening, because opening a pipe blocks and opening a device may have effects.
    check_regular(path, max_bytes, limit, what)
    with open(path, "rb") as file:
        check_regular(path, max_bytes, limit, what, os.fstat(file.fileno()))
        yield file


def check_regular(
    path: str | Path,
    max_bytes: int,
    limit: str = "max_bytes",
    what: str = "",
    status: os.stat_result | None = None,
) -> None:
    """Raise the errors of `open_regular` by a file's ``status``, which is read from ``path`` if it is not given."""
    status = os.stat(path) if status is None else status
    if not stat.S_ISREG(status.st_mode):
        raise ProblemError(f"{what}{path} is not a file but {_kind(status)}")
    if status.st_size > max_bytes:
        found = f"{what}{path} has {status.st_size} bytes, {limit}={max_bytes}"
        raise ProblemError(f"{found} are allowed; raise it if that is right")


def _kind(status: os.stat_result) -> str:
    return _KIND_NAMES.get(stat.S_IFMT(status.st_mode), "something else")


def _take_over(descriptor: int, old: os.stat_result) -> None:
    """Give a file the owner and the mode of the file that it replaces, as far as the system allows."""
    if not hasattr(os, "fchmod"):  # Windows, where access is inherited from the folder
        return
    mode, new = stat.S_IMODE(old.st_mode) & 0o777, os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, -1, old.st_gid)
        with contextlib.suppress(OSError):
            os.fchown(descriptor, old.st_uid, -1)
        if os.fstat(descriptor).st_gid != old.st_gid:
            mode &= ~0o070 | (mode & 0o007) << 3  # another group gets no more rights than all others
    os.fchmod(descriptor, mode)


#: Flags that create a file and fail if the name exists, also as a link.
_CREATE_FLAGS = (
    os.O_RDWR
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


#: Characters with which a spreadsheet begins a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


def escape_control_characters(text: str, keep: str = "") -> str:
    """Return the text with characters that act on a terminal written as escapes, for example ``\\x1b``.

    Escaped are control characters, which move the cursor and send commands; format characters, which change the
    direction of writing or are invisible; separators of lines and paragraphs; and lone surrogates, which cannot be
    encoded. Characters in ``keep`` stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_escaped(c) if c not in keep and _is_control(c) else c for c in text)


def csv_safe(value: object) -> object:
    """Return a value for a CSV file; text that a spreadsheet would take for a formula gets an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value


def _is_control(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def duration_text(seconds: float) -> str:
    """Return a time as text, in seconds, minutes or hours."""
    if seconds < 90:
        return f"{seconds:.3g} seconds"
    return f"{seconds / 60:.3g} minutes" if seconds < 5400 else f"{seconds / 3600:,.1f} hours"
