"""Which rows are evidence for their circuits: each beside its controls."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import zip_longest

from ..core.evidence import CONTROLS, Ending, margin
from ..core.solution import Status
from ..report import Row

__all__ = ["judged"]


def judged(rows: list[Row], groups: list[int], tol: float) -> list[Row]:
    """The rows, those that ran circuits with their `Row.margin`, where both their controls were run.

    ``groups`` says which rows are of one solver, whose options may differ from those of another of its class; what
    comes after the last of them is of none. A control that failed, such as one that never reads an ancilla as 0, found
    nothing.
    """
    nothing = Ending(math.inf, None, False)
    controls = {
        (group, row.device, row.shots_per_circuit): nothing if row.status == "FAILED" else _ending(row)
        for row, group in zip(rows, groups, strict=False)
        if row.role == "control"
    }
    out = []
    for row, group in zip_longest(rows, groups):
        own = _ending(row) if row.role in ("quantum", "emulated") else None
        beside = [controls.get((group, name, row.shots_per_circuit)) for name in CONTROLS]
        if own is not None and all(beside):
            level = max(tol, row.excess_floor or 0.0)
            row = replace(row, margin=min(margin(own, control, level) for control in beside if control is not None))
        out.append(row)
    return out


def _ending(row: Row) -> Ending | None:
    if not row.ran or row.excess is None:
        return None
    return Ending(row.excess, row.circuits, row.status == Status.OPTIMAL.name)
