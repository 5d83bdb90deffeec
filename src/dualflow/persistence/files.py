"""Files that are whole or not there, and files that may be read: regular ones, of a size that was allowed.

Text of others, made harmless for terminals and spreadsheets.
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

__all__ = ["cell", "check_regular", "open_regular", "replacing", "replacing_text", "span", "target_of", "visible"]


_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
#: Characters of a name that its temporary file begins with: four bytes each, they leave room for the suffix.
_STEM = 50


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, open for writing and reading, that takes the place of ``path`` when the block ends.

    Whatever goes wrong before that (a full disk, Ctrl-C, a kill) leaves the old file as it was; only a kill leaves
    the unfinished one, ``path`` with a random suffix and ``.part``. Folders are made. A symbolic link stays, and what
    it points to is replaced. The mode of a file that was there is kept, and its owner where the system allows it; a
    new file gets the mode that the umask says.

    Raises
    ------
    ProblemError
        There is something at ``path`` that is no regular file: a folder, a device, a pipe, a socket.
    OSError
        The file cannot be written, one that is there because its mode forbids it, say.
    """
    target, old = target_of(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f"{target.name[:_STEM]}.{secrets.token_hex(8)}.part")
    # Until it is whole, what replaces a file is nobody else's to read.
    descriptor = os.open(temporary, _NEW, 0o666 if old is None else 0o600)
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
    """`replacing` for text in UTF-8, line ends as they are written; what UTF-8 lacks (halves of pairs) is escaped."""
    with replacing(Path(path)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", newline="")
        yield text
        text.flush()
        text.detach()


def target_of(path: Path) -> tuple[Path, os.stat_result | None]:
    """The file that writing to ``path`` would replace, links followed, and what is known of it if it is there.

    Raises
    ------
    ProblemError
        It is no regular file.
    OSError
        Its mode forbids writing, or it is a link in a circle.
    """
    target = Path(os.path.realpath(path))
    try:
        old = os.stat(path)  # not of the target: a circle of links is an error
    except FileNotFoundError:
        return target, None
    if not stat.S_ISREG(old.st_mode):
        raise ProblemError(f"{path} is {_kind(old)}, not a file; give the name of a file")
    if not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
    return target, old


@contextlib.contextmanager
def open_regular(path: str | Path, max_bytes: int, limit: str = "max_bytes", what: str = "") -> Iterator[BinaryIO]:
    """A regular file, open for reading, of at most so many bytes: nothing is waited for, and nothing is endless.

    Parameters
    ----------
    path : str or Path
    max_bytes : int
    limit, what : str
        For errors: what the limit is called, and what stands before the name of the file ("checkpoint ").

    Raises
    ------
    ProblemError
        It is another kind of thing, or larger.
    OSError
        It cannot be read.
    """
    # A pipe would be waited for when it is opened, and a device may act on it.
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
    """Raise as `open_regular` does, by what is known of a file (or by its ``status``) without opening it."""
    status = os.stat(path) if status is None else status
    if not stat.S_ISREG(status.st_mode):
        raise ProblemError(f"{what}{path} is not a file but {_kind(status)}")
    if status.st_size > max_bytes:
        found = f"{what}{path} has {status.st_size} bytes, {limit}={max_bytes}"
        raise ProblemError(f"{found} are allowed; raise it if that is right")


def _kind(status: os.stat_result) -> str:
    return _KINDS.get(stat.S_IFMT(status.st_mode), "something else")


def _take_over(descriptor: int, old: os.stat_result) -> None:
    """Give a file the owner and the mode of the one it is to replace, as far as the system allows."""
    if not hasattr(os, "fchmod"):  # on Windows, where access is inherited from the folder
        return
    mode, new = stat.S_IMODE(old.st_mode) & 0o777, os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(OSError):
            os.fchown(descriptor, -1, old.st_gid)
        with contextlib.suppress(OSError):
            os.fchown(descriptor, old.st_uid, -1)
        if os.fstat(descriptor).st_gid != old.st_gid:
            mode &= ~0o070 | (mode & 0o007) << 3  # another group may do no more than anybody
    os.fchmod(descriptor, mode)


_NEW = (
    os.O_RDWR
    | os.O_CREAT
    | os.O_EXCL
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_CLOEXEC", 0)
    | getattr(os, "O_BINARY", 0)
)


#: What a spreadsheet takes for the beginning of a formula.
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def visible(text: str, keep: str = "") -> str:
    """The text with everything that a terminal would obey rather than show written as an escape, ``\\x1b`` say.

    That is control characters, which move the cursor and send commands; format characters, which turn the direction of
    writing or are not seen at all; separators of lines and paragraphs; and halves of surrogate pairs, which cannot be
    encoded. Characters in ``keep`` stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(c) if c not in keep and _unseen(c) else c for c in text)


def cell(value: object) -> object:
    """A value for a CSV file: text that a spreadsheet would compute has an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value


def _unseen(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _shown(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def span(seconds: float) -> str:
    """Seconds, minutes or hours, whichever reads best."""
    if seconds < 90:
        return f"{seconds:.3g} seconds"
    return f"{seconds / 60:.3g} minutes" if seconds < 5400 else f"{seconds / 3600:,.1f} hours"
