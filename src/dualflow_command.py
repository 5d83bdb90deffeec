"""Entry point of the `dualflow` command: Ctrl-C is answered in one line from its first moment on.

A module of its own, for any within the package would load numpy and scipy first, which takes most of a second.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

__all__ = ["main"]


def main() -> None:
    """Load dualflow, and run the command."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not ignored, as behind nohup
        # Not an exception: raised within another package's import, or while arguments are read, it might come out as
        # another one, or as none. A command that begins takes Ctrl-C over.
        signal.signal(signal.SIGINT, _leave)
    from dualflow.cli import main as run

    run()


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(130)
