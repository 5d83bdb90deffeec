"""Other thresholds for what is solved directly, handed in as an argument."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from dualflow.direct import pairs
from dualflow.direct.strategy import USUAL, Thresholds
from dualflow.solvers import working_set

__all__ = ["USUAL", "fits_with", "other"]


def other(**changes: Any) -> Thresholds:
    """The usual thresholds, but for these."""
    return replace(USUAL, **changes)


def fits_with(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    """Let fits by `working-set` be told of these thresholds; its function is handed them as an argument."""
    told = partial(pairs.solve_directly, thresholds=other(**changes))
    monkeypatch.setattr(working_set, "solve_directly", told)
