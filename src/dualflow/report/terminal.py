"""A comparison in the terminal: a table of results a section, one of quantum resources, and notes below."""

from __future__ import annotations

import io
from collections.abc import Sequence
from textwrap import wrap

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from .._text import visible
from .columns import MISSING, QUANTUM, RESULTS, Column, gap_text, status_text
from .model import Results, Row, Section

__all__ = ["render", "renderable"]

#: Widest line of a solver's name, the longest part between two hyphens of ours.
NAME = 18
_ROLE_STYLE = {"reference": "bold", "control": "dim"}
_BAD = ("FAILED", "BROKEN", "NOT RUN", "NOT INSTALLED", "INTERRUPTED", "DEVICE_FAILED", "DROWNED")


def render(comparison: Results, width: int = 120) -> str:
    """Plain text of at most ``width`` columns."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(renderable(comparison))
    return console.file.getvalue()  # type: ignore[attr-defined]


def renderable(comparison: Results) -> RenderableType:
    """Everything, for `rich.print`."""
    parts: list[RenderableType] = [part for section in comparison.sections for part in _section(section)]
    if comparison.interrupted:
        parts.append(Text("Interrupted (Ctrl-C): this is what there was so far.", style="bold red"))
    parts.append(
        Text(
            "Gaps are relative; infeasibility is absolute. # ranks by excess where a row is sampled, else by raw gap; "
            "emulated rows apart, controls not."
        )
    )
    return Group(*parts)


def _section(section: Section) -> list[RenderableType]:
    notes: list[str] = []
    results = _table(f"{section.title}  (n = {section.n}, {section.kind})")
    _add_names(results)
    results.add_column("status", max_width=12)
    _add_columns(results, RESULTS)
    for row in section.rows:
        status = _text(status_text(row), style="red" if row.status in _BAD else "")
        if remark := row.reason or row.note:
            if remark not in notes:
                notes.append(remark)
            status.append(f" [{notes.index(remark) + 1}]")
        results.add_row(*_head(row), status, *(column.cell(row) for column in RESULTS), style=_ROLE_STYLE.get(row.role))
    parts: list[RenderableType] = [results]
    parts += [_text(f"  [{number}] {remark}", style="dim") for number, remark in enumerate(notes, 1)]
    parts.append(_text(f"  reference: {reference_text(section)}", style="dim"))
    circuits = [row for row in section.rows if row.device is not None and row.ran]
    if circuits:
        quantum = _table("quantum resources")
        _add_names(quantum)
        _add_columns(quantum, QUANTUM)
        for row in circuits:
            quantum.add_row(
                *_head(row), *(_narrow(column.cell(row)) for column in QUANTUM), style=_ROLE_STYLE.get(row.role)
            )
        parts += [Text(""), quantum]
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


def _table(title: str) -> Table:
    return Table(
        title=_text(title, style="bold"),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, 1, 0, 0),
        collapse_padding=True,
        pad_edge=False,
        show_edge=False,
    )


def _add_names(table: Table) -> None:
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("solver", overflow="fold", min_width=16, max_width=NAME)
    table.add_column("device", overflow="fold", min_width=9, max_width=10)


def _add_columns(table: Table, columns: Sequence[Column]) -> None:
    for column in columns:
        table.add_column(column.narrow or column.header.replace(" ", "\n"), justify="right", no_wrap=True)


def _narrow(text: str) -> str:
    """Words in two lines, where a column is as wide as its numbers."""
    return text.replace("emulated", "emu-\nlated").replace("no evidence", "no\nevidence")


def _head(row: Row) -> tuple[Text, Text, Text]:
    where = row.variant.replace("control: ", "control:\n").replace("pennylane:", "pennylane:\n")
    return (
        _text(row.place),
        _text("\n".join(wrap(row.solver, NAME - 1, break_long_words=False))),
        _text(where),
    )  # names break at their hyphens
