"""The errors dualflow raises on purpose. Each message names the argument, what was found, and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "ConcentrationWarning",
    "DeviceError",
    "DualflowError",
    "FitError",
    "ProblemError",
    "SolverMismatch",
    "SolverUnavailable",
    "near_miss",
]


class DualflowError(Exception):
    """Base class of every error raised on purpose."""


class ProblemError(DualflowError, ValueError):
    """The data or parameters do not make a well-posed dual problem."""


class FitError(ProblemError):
    """A solve ended without a usable model; ``solution`` is what it left, with its status and any witness, or None."""

    def __init__(self, message: str, solution: Any = None) -> None:
        super().__init__(message)
        self.solution = solution


class SolverMismatch(DualflowError, ValueError):  # noqa: N818 - a public name fixed by the design
    """The solver exists but cannot solve this problem; the message says what it lacks."""


class SolverUnavailable(DualflowError, ImportError):  # noqa: N818 - a public name fixed by the design
    """A package the solver or device needs is not installed; the message gives the pip line."""


class DeviceError(DualflowError, RuntimeError):
    """A device refused, lost or failed a job.

    Attributes
    ----------
    transient : bool
        The same may work a little later: it is worth another try.
    sent : bool or None
        Whether the job has reached the machine; None if nobody knows, so that sending it again may pay for it twice.
    """

    def __init__(self, message: str = "", *, transient: bool = False, sent: bool | None = False) -> None:
        super().__init__(message)
        self.transient, self.sent = transient, sent


class ConcentrationWarning(UserWarning):
    """A measured kernel's entries differ by less than their shots' noise: what is fitted to it is fitted to noise."""


def near_miss(word: object, known: Iterable[str]) -> str:
    """The end of a message on a word that is not known: the nearest that is, if one is near."""
    near = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
