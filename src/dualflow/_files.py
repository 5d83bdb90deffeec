"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

__all__ = ["replacing"]


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A new file, open for writing and reading, that takes the place of ``path`` when the block ends.

    Whatever goes wrong before that (a full disk, Ctrl-C, a kill) leaves the old file as it was; only a kill leaves
    the unfinished one, ``path`` with a random suffix and ``.part``. Folders are made.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not tempfile: its files can be read by their owner alone, and so could what takes their name.
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(temporary, "x+b") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
