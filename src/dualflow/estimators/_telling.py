"""What ``verbose`` says of a fit: a line that is kept up to date on a terminal, and a line a second elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .._solve import Progress
from ..core.solution import Solution, raw_summaries
from ..direct.results import PairResult

__all__ = ["Teller"]

#: Seconds between two lines, and between two changes of the one on a terminal.
EVERY, EVERY_LIVE = 1.0, 0.1
#: Of the largest: what has less weight is no survivor.
SURVIVES = 1e-8


class Teller:
    """Tells how the solves of one fit go on, from any of their threads.

    Parameters
    ----------
    name : str
        Of the model.
    count : int
        Of solves.
    """

    def __init__(self, name: str, count: int) -> None:
        from rich.console import Console

        self.name, self.count = name, count
        self.lock = threading.Lock()
        self.console = Console(highlight=False, soft_wrap=True)
        self.live = self.console.status(f"{name}: …") if self.console.is_terminal else None
        self.begun = self.told = time.monotonic()
        self.done, self.worst = 0, 0.0

    def __enter__(self) -> Teller:
        if self.live is not None:
            self.live.start()
        return self

    def __exit__(self, *error: Any) -> None:
        if self.live is not None:
            self.live.stop()
        if error[0] is None:
            self.console.print(self._line(f"{self.done} of {self.count} solved", self.worst, None), markup=False)

    def of(self, k: int, callback: Callable[[Progress], bool | None] | None) -> Callable[[Progress], bool | None]:
        """The callback of a solve, which calls the user's own, too."""

        def told(progress: Progress) -> bool | None:
            self._say(k, progress)
            return None if callback is None else callback(progress)

        return told

    def finished(self, found: Solution | PairResult) -> None:
        """A solve is done."""
        gap = found.certificate.relative_gap
        with self.lock:
            self.done += 1
            self.worst = max(self.worst, np.inf if gap is None else gap)
        for line in raw_summaries([found]):
            self.console.print(f"{self.name}: {line}", markup=False)

    def _say(self, k: int, progress: Progress) -> None:
        now = time.monotonic()
        with self.lock:
            if now - self.told < (EVERY if self.live is None else EVERY_LIVE):
                return
            self.told = now
        where = f"solve {k + 1} of {self.count}, step {progress.step}" if self.count > 1 else f"step {progress.step}"
        size = np.abs(progress.alpha)
        survivors = int((size > SURVIVES * size.max(initial=0.0)).sum())
        text = self._line(where, progress.certificate.relative_gap, survivors)
        if self.live is None:
            self.console.print(text, markup=False)
        else:
            self.live.update(text)

    def _line(self, where: str, gap: float | None, survivors: int | None) -> str:
        known = "no certified gap" if gap is None or gap == np.inf else f"certified relative gap {gap:.1e}"
        parts = [f"{self.name}: {where}", known]
        if survivors is not None:
            parts.append(f"{survivors} survivors")
        return ", ".join([*parts, f"{time.monotonic() - self.begun:.1f} s"])
