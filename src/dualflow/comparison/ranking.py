"""The order of a section's rows."""

from __future__ import annotations

from dataclasses import replace

from ..report import Row, ranks_by_excess

__all__ = ["ranked"]


def ranked(rows: list[Row], tol: float) -> tuple[Row, ...]:
    """Rows that met tol by time, then the best, by excess where a row is sampled, else by raw gap; controls in their
    place but unranked, emulated rows ranked apart; then those without a gap, repairs, the rest."""
    sampled = ranks_by_excess(rows)

    def key(row: Row) -> tuple[int, float, float]:
        if row.role == "repair" and row.ran:
            return 3, 0.0, 0.0
        if row.met(tol):
            return 0, row.wall_time_s or 0.0, 0.0
        if row.raw_gap is None:
            return 2 if row.ran else 4, 0.0, 0.0
        return 1, (row.excess or 0.0) if sampled else 0.0, row.raw_gap

    places, out = {True: 0, False: 0}, []
    for row in sorted(rows, key=key):
        if row.raw_gap is not None and row.role not in ("control", "repair"):
            apart = row.role == "emulated"
            places[apart] += 1
            row = replace(row, rank=places[apart])
        out.append(row)
    return tuple(out)
