"""A comparison in the terminal: a table of results a section, one of quantum resources, and notes below."""

from __future__ import annotations

import io
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from ..persistence.text import visible
from .columns import MISSING, QUANTUM, RESULTS, Column, gap_text, status_text
from .fitting import Cells, Fitting, lines_of
from .model import Results, Row, Section
from .verdict import overall, verdict

__all__ = ["render", "renderable"]

#: Widest line of a solver's name (the longest part between two hyphens of ours), of a device's and of a status.
NAME, DEVICE, STATUS = 18, 17, 10
_ROLE_STYLE = {"reference": "bold", "control": "dim"}
_BAD = ("FAILED", "BROKEN", "NOT RUN", "NOT INSTALLED", "INTERRUPTED", "DEVICE_FAILED", "BUDGET_SPENT", "DROWNED")


def render(comparison: Results, width: int = 120) -> str:
    """Plain text of at most ``width`` columns."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, force_jupyter=False)
    console.print(renderable(comparison))
    return console.file.getvalue()  # type: ignore[attr-defined]


def renderable(comparison: Results) -> RenderableType:
    """Everything, for `rich.print`."""
    several = len(comparison.sections) > 1
    parts: list[RenderableType] = [_text(overall(comparison), "bold"), Text("")]
    parts += [part for section in comparison.sections for part in _section(section, several)]
    if comparison.interrupted:
        parts.append(Text("Interrupted (Ctrl-C): this is what there was so far.", style="bold red"))
    parts.append(
        Text(
            "Gaps are relative; infeasibility is absolute. # ranks by time what met the tolerance, the rest by "
            "excess where a row is sampled, else by raw gap; "
            "emulated rows apart, controls not."
        )
    )
    return Group(*parts)


def _section(section: Section, several: bool) -> list[RenderableType]:
    notes: list[str] = []
    rows: list[Cells] = []
    for row in section.rows:
        status = status_text(row)
        if remark := row.reason or row.note:
            if remark not in notes:
                notes.append(remark)
            status += f" [{notes.index(remark) + 1}]"
        colour = "red" if row.status in _BAD else ""
        figures = [
            _text(column.cell(row), "bright_black" if column.header == "accuracy" and not row.met(section.tol) else "")
            for column in RESULTS
        ]
        rows.append(((*_head(row), _text(lines_of(status, STATUS), colour)), figures, _ROLE_STYLE.get(row.role)))
    title = f"{section.title}  (n = {section.n}, {section.kind})"
    parts: list[RenderableType] = [_table(title, rows, RESULTS, ("status", "left"))]
    parts += [_text(f"  [{number}] {remark}", style="dim") for number, remark in enumerate(notes, 1)]
    parts.append(_text(f"  reference: {reference_text(section)}", style="dim"))
    if several:
        parts.insert(0, _text(verdict(section), style="bold"))
    circuits = [row for row in section.rows if row.device is not None and row.ran]
    if circuits:
        quantum: list[Cells] = [
            (_head(row), [_text(_narrow(column.cell(row))) for column in QUANTUM], _ROLE_STYLE.get(row.role))
            for row in circuits
        ]
        parts += [Text(""), _table("quantum resources", quantum, QUANTUM)]
    return [*parts, Text("")]


def _text(text: str, style: str = "") -> Text:
    """Text of anyone's solvers and data, which cannot command a terminal."""
    return Text(visible(text, "\n"), style=style)


def reference_text(section: Section) -> str:
    """The reference in one line."""
    if section.reference is None:
        return section.reference_note or MISSING
    raw = section.reference.raw_certificate
    gap = "no certified gap" if raw.relative_gap is None else f"relative gap {gap_text(raw.relative_gap)}"
    return f"cvxopt, objective {raw.objective:.8g}, {gap}"


def _table(title: str, rows: list[Cells], columns: Sequence[Column], *more: tuple[str, str]) -> Fitting:
    names = (("#", "right"), ("solver", "left"), ("device", "left"), *more)
    return Fitting(_text(title, "bold"), names, tuple(columns), tuple(rows))


def _narrow(text: str) -> str:
    """Words in two lines, where a column is as wide as its numbers."""
    return text.replace("emulated", "emu-\nlated").replace("no evidence", "no\nevidence")


def _head(row: Row) -> tuple[Text, Text, Text]:
    where = row.variant if len(row.variant) <= DEVICE else row.variant.replace(":", ":\n", 1).replace("\n ", "\n")
    return _text(row.place), _text(lines_of(row.solver, NAME)), _text(lines_of(where, DEVICE))
