"""`warn_user`: warnings that point at the line of the user's code that called dualflow, however deep they arise."""

from __future__ import annotations

import sys
import warnings

#: Packages whose frames are not the user's: this one, and those that call it on the user's behalf.
NOT_THE_USERS = frozenset({"contextlib", "dualflow", "joblib", "sklearn", "threading", "concurrent"})


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn, with the place of the innermost frame outside of dualflow, scikit-learn and joblib.

    In a thread that has no such frame, the place is the outermost frame.
    """
    level, frame = 1, sys._getframe(0)
    while frame.f_back is not None and _package(frame.f_globals) in NOT_THE_USERS:
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def _package(names: dict[str, object]) -> str:
    """Return the top package of a frame's global names."""
    return str(names.get("__name__", "")).partition(".")[0]
