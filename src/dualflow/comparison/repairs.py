"""Rows of a section with an indefinite kernel: one for each repair of the kernel, and the best known objective."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from ..core.certificate import Certifier
from ..core.gram import Gram
from ..core.psd import REPAIRS, Repair, repair
from ..exceptions import ProblemError
from ..report import Row
from .tasks import Task

#: The solver of the repaired problems.
REPAIR_SOLVER = "working-set"


def check_repairs(repairs: Sequence[str] | None) -> tuple[str, ...]:
    """Return the requested repairs, each once; raise ProblemError for an unknown one."""
    names = [repairs] if isinstance(repairs, str) or not isinstance(repairs, Iterable | None) else repairs or ()
    for name in names:
        if not isinstance(name, str) or name not in REPAIRS:
            raise ProblemError(f"repairs: {name!r} is not one of {', '.join(map(repr, REPAIRS))}")
    return tuple(dict.fromkeys(names))


def repaired_task(task: Task, method: str) -> tuple[Task, Repair]:
    """Return the task on the repaired kernel matrix, and the repair.

    Its held-out points are columns of the repaired kernel.
    """
    gram = task.problem.gram
    kernel_repair = repair(gram.full(), method)
    Z = kernel_repair.transform(gram.cross(task.Z, np.arange(gram.n))) if len(task.Z) else task.Z
    return Task.of(
        task.name, task.title, task.make, Gram.precomputed(kernel_repair.matrix), Z, task.signs
    ), kernel_repair


def with_repair_note(row: Row, kernel_repair: Repair, raw: Certifier) -> Row:
    """Return the row of a repair with a note: what was changed, and how good the answer is on the original kernel."""
    if row.solution is None:
        return row
    certificate = raw.certify(row.solution.raw_certificate.alpha)
    note = f"not ranked, because its gaps are those of the repaired problem; {kernel_repair}; on the original kernel: "
    note += f"objective {certificate.objective:.6g}, stationarity {certificate.stationarity:.2g}"
    return replace(row, raw_objective=certificate.objective, note="; ".join(filter(None, (note, row.note))))


def with_best_objective(rows: list[Row]) -> tuple[list[Row], str | None]:
    """Return the rows with their excess over the best objective on the original kernel, and a note that names its row.

    It is for sections where no gap is certified.
    """
    found = [row for row in rows if row.raw_objective is not None]
    best = min(found, key=lambda row: row.raw_objective or 0.0, default=None)
    if best is None or not best.raw_objective:
        return rows, None
    least, out = best.raw_objective, []
    for row in rows:
        if row.raw_objective is not None:
            excess = (row.raw_objective - least) / abs(least)
            text = f"f lies {excess:.3g} (relative) above {least:.10g}, the best objective known"
            row = replace(row, excess=excess, note="; ".join(filter(None, (row.note, text))))
        out.append(row)
    of = " ".join(filter(None, (best.solver, best.variant)))
    return out, f"no lower bound exists or is known; best known objective {least:.8g} ({of})"
