"""A comparison in the terminal: a table of results a section, one of quantum resources, and notes below.

Tables that fit: as many columns as there is room for, the most telling ones kept, no value cut.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from ..persistence.files import escape_control_characters
from .columns import MISSING, QUANTUM, RESULTS, Column, gap_text, status_text
from .model import Results, Row, Section
from .verdict import overall, verdict

__all__ = ["Cells", "Fitting", "lines_of", "render", "renderable"]


#: What is kept longest, first; a column that is not named goes first.
KEPT = (
    ("raw gap", "time", "accuracy", "excess", "support", "refined gap", "steps", "infeasibility", "classical"),
    (
        "evidence",
        "fidelity",
        "circuits",
        "shots",
        "excess/floor",
        "shot floor",
        "gap/floor",
        "2-qubit",
        "depth",
        "qubits",
    ),
)

#: A row: the cells of the columns that name it, those of its figures, and its style.
Cells = tuple[Sequence[Text], Sequence[Text], str | None]


@dataclass(frozen=True)
class Fitting:
    """A table of rows, made when the room for it is known.

    Attributes
    ----------
    title : Text
    names : tuple of (str, str)
        Header and justification of the columns that name a row; they are never left out.
    columns : tuple of Column
    rows : tuple of Cells
    """

    title: Text
    names: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    rows: tuple[Cells, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        shown = list(self.columns)
        for least in self._by_priority():
            if len(shown) == 1 or self._width(shown, console, options) <= options.max_width:
                break
            shown.remove(least)
        yield self._table(shown, self._width(shown, console, options) > options.max_width)
        if missing := [column.header for column in self.columns if column not in shown]:
            yield Text(
                f"  not shown in {options.max_width} columns: {', '.join(missing)} (all are in the report)", style="dim"
            )

    def _by_priority(self) -> list[Column]:
        """The columns, those first that are left out first."""
        order = [name for names in KEPT for name in names]
        place = {name: k for k, name in enumerate(order)}
        return sorted(self.columns, key=lambda column: -place.get(column.header, len(order)))

    def _width(self, shown: Sequence[Column], console: Console, options: ConsoleOptions) -> int:
        """Columns of the terminal that no value is cut in, nor any line of it broken."""
        return Measurement.get(console, options.update(max_width=10_000), self._table(shown, False)).maximum

    def _table(self, shown: Sequence[Column], narrow: bool) -> Table:
        """The table; where the room is too ``narrow`` for even this, values go on in the next line."""
        table = Table(
            title=self.title,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            padding=(0, 1, 0, 0),
            collapse_padding=True,
            pad_edge=False,
            show_edge=False,
        )
        for header, justify in self.names:
            table.add_column(header, justify=justify, overflow="fold", no_wrap=not narrow)  # type: ignore[arg-type]
        for column in shown:
            header = column.narrow or column.header.replace(" ", "\n")
            table.add_column(header, justify="right", overflow="fold", no_wrap=not narrow)
        which = [self.columns.index(column) for column in shown]
        for names, figures, style in self.rows:
            table.add_row(*names, *(figures[k] for k in which), style=style)
        return table


def lines_of(text: str, width: int) -> str:
    """``text`` in lines of at most ``width``, broken after hyphens, colons and spaces if it can be."""
    return "\n".join(line for part in text.split("\n") for line in wrap(part, width) or [""])


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
    return Text(escape_control_characters(text, "\n"), style=style)


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
