"""How long a comparison takes at the most, said before it begins."""

from __future__ import annotations

from collections.abc import Sequence

from ..planning.estimate import span
from .plan import Entry
from .refusals import barred_by
from .task import Task

__all__ = ["announcement"]


def announcement(
    tasks: Sequence[Task], entries: Sequence[Entry], repairs: int, time_limit: float | None, total: float | None = None
) -> str:
    """One sentence: problems, rows that will run, and the most they can take together.

    ``repairs`` is the number of rows of repaired kernels. Rows that do not apply take no time and are not counted.
    """
    apply = {
        (number, entry.group): barred_by(entry, task.certifier) is None
        for number, task in enumerate(tasks)
        for entry in {entry.group: entry for entry in entries}.values()
    }
    found = [entry for number, _ in enumerate(tasks) for entry in entries if apply[number, entry.group]]
    circuits = sum(entry.role in ("quantum", "emulated", "control") for entry in found)
    rows = len(found) + repairs
    text = f"{_several(len(tasks), 'problem')}, {_several(rows, 'row')}"
    text += f", {circuits} of them on devices and their controls" if circuits else ""
    if total is not None and (time_limit is None or total < rows * time_limit):
        return f"{text}; no row begins after {span(total)}."
    if time_limit is None:
        return f"{text}; without a time limit nobody knows for how long."
    return f"{text}; a row ends after {span(time_limit)} at the latest, all of them after {span(rows * time_limit)}."


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
