"""Rows of an indefinite section: refinement on each repair of the kernel, and the best objective anybody found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..core.certificate import Certifier
from ..core.gram import Gram
from ..core.psd import REPAIRS, Repair, repair
from ..exceptions import ProblemError
from ..report import Row
from .posing import Task

__all__ = ["SOLVER", "check_repairs", "explained", "repaired", "with_best_objective"]

#: Solves the repaired problems.
SOLVER = "working-set"


def check_repairs(repairs: Sequence[str] | None) -> tuple[str, ...]:
    """The repairs asked for, each once, or `ProblemError`."""
    names = [repairs] if isinstance(repairs, str) or not isinstance(repairs, Iterable | None) else repairs or ()
    for name in names:
        if not isinstance(name, str) or name not in REPAIRS:
            raise ProblemError(f"repairs: {name!r} is not one of {', '.join(map(repr, REPAIRS))}")
    return tuple(dict.fromkeys(names))


def repaired(task: Task, method: str) -> tuple[Task, Repair]:
    """The task with its kernel repaired: training matrix, and held-out points as columns of the repaired kernel."""
    gram = task.problem.gram
    mended = repair(gram.full(), method)
    Z = mended.transform(gram.cross(task.Z, np.arange(gram.n))) if len(task.Z) else task.Z
    return Task.of(task.name, task.title, task.make, Gram.precomputed(mended.matrix), Z, task.signs), mended


def explained(row: Row, mended: Repair, raw: Certifier) -> Row:
    """The row of a repair, saying what was changed and what its answer is worth for the kernel as it was."""
    if row.solution is None:
        return row
    certificate = raw.certify(row.solution.raw_certificate.alpha)
    note = f"its gaps are those of the repaired problem, so it is not ranked; {mended}; on the kernel as it was: "
    note += f"objective {certificate.objective:.6g}, stationarity {certificate.stationarity:.2g}"
    return replace(row, raw_objective=certificate.objective, note="; ".join(filter(None, (note, row.note))))


def with_best_objective(rows: list[Row]) -> tuple[list[Row], str | None]:
    """Where nothing is certified: the excess of each row over the least objective on the raw kernel, and who has it."""
    found = [row for row in rows if row.raw_objective is not None]
    best = min(found, key=lambda row: row.raw_objective or 0.0, default=None)
    if best is None or not best.raw_objective:
        return rows, None
    least, out = best.raw_objective, []
    for row in rows:
        if row.raw_objective is not None:
            excess = (row.raw_objective - least) / abs(least)
            told = f"f lies {excess:.3g} (relative) above {least:.10g}, the best objective known"
            row = replace(row, excess=excess, note="; ".join(filter(None, (row.note, told))))
        out.append(row)
    of = " ".join(filter(None, (best.solver, best.variant)))
    return out, f"no bound exists or is known; best known objective {least:.8g} ({of})"
