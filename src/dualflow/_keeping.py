"""A run's checkpoint while it runs: what it was resumed from, when it was last saved, and why that failed."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import _checkpoint
from ._checkpoint import Checkpoint, Saved
from .exceptions import DeviceError, ProblemError
from .solvers import Solver

__all__ = ["Keeping"]


@dataclass
class Keeping:
    """The file of a run, or none.

    Attributes
    ----------
    checkpoint : Checkpoint or None
    key : dict
        What makes a run the same: a file of another is refused.
    saved : Saved or None
        What the run resumed.
    open : bool
        Whether states may be saved: not before the run has started, lest half a start replace a whole file.
    error : str or None
        Why the state on disk is not the last that was to be saved.
    """

    checkpoint: Checkpoint | None
    key: dict[str, Any] = field(default_factory=dict)
    saved: Saved | None = None
    open: bool = False
    error: str | None = None
    saved_at: float = 0.0

    @classmethod
    def of(cls, checkpoint: str | Path | Checkpoint | None) -> Keeping:
        """From what the user gave."""
        given = checkpoint is None or isinstance(checkpoint, Checkpoint)
        return cls(checkpoint if given else Checkpoint(checkpoint))  # type: ignore[arg-type]

    @property
    def path(self) -> Path | None:
        """Where the file is, or is to be."""
        return None if self.checkpoint is None else Path(self.checkpoint.path)

    def load(self, engine: Solver[Any, Any]) -> Saved | None:
        """What the file holds, if it is there; `ProblemError` if it is of another run, or could not be written."""
        if self.path is None:
            return None
        _checkpoint.check_writable(self.path)
        self.saved = _checkpoint.load(self.path, self.key, engine.state_type) if self.path.exists() else None
        return self.saved

    def begin(self) -> None:
        """From now on states are saved."""
        self.open, self.saved_at = True, time.monotonic()

    @property
    def due(self) -> bool:
        """Whether it is time for a save."""
        due = self.checkpoint is not None and time.monotonic() - self.saved_at >= self.checkpoint.interval_s
        return self.open and due

    def save(self, state: Any, steps: int, wall_time_s: float, rows: dict[str, Any]) -> None:
        """Save a state; a full disk must not cost the run, so that it is a warning."""
        if self.path is None or not self.open:
            return
        try:
            _checkpoint.save(Saved(self.path, state, steps, wall_time_s, rows), self.key)
        except OSError as error:
            if self.error is None:
                text = f"checkpoint {self.path} could not be written at step {steps}: {error}; the run goes on"
                warnings.warn(text, UserWarning, stacklevel=6)
            self.error = str(error)
        else:
            self.error = None
        self.saved_at = time.monotonic()

    @contextlib.contextmanager
    def accountable(self) -> Iterator[None]:
        """Where a run was resumed, whatever goes wrong within is the file's fault."""
        try:
            yield
        except DeviceError:
            raise
        except Exception as error:
            if self.saved is None:
                raise
            raise ProblemError(
                f"checkpoint {self.saved.path} holds a state that is none of this problem: {error}; delete the file"
            ) from error
