"""A comparison in the terminal: for each section a table of results, one of quantum resources, and notes.

If the terminal is narrow, the least important columns are left out; values are not cut.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..persistence.files import escape_control_characters
from .columns import MISSING, QUANTUM, RESULTS, Column, gap_text, status_text
from .model import Results, Row, Section
from .scores import best_model
from .verdict import constant_note, counts_text, model_cells, overall, verdict

#: Headers of the columns, the most important first; columns that are not listed are left out first.
COLUMN_PRIORITY = (
    (
        "raw gap",
        "time",
        "accuracy",
        "excess",
        "excess band",
        "balanced accuracy",
        "support",
        "refined gap",
        "steps",
        "infeasibility",
        "classical",
    ),
    (
        "over chance",
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
RowCells = tuple[Sequence[Text], Sequence[Text], str | None]


@dataclass(frozen=True)
class FittedTable:
    """A table that is laid out when its width is known."""

    title: Text
    #: Header and justification of the columns that name a row; they are never left out.
    names: tuple[tuple[str, str], ...]
    columns: tuple[Column, ...]
    rows: tuple[RowCells, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        shown = list(self.columns)
        for least in self._by_priority():
            if len(shown) == 1 or self._width(shown, console, options) <= options.max_width:
                break
            shown.remove(least)
        yield self._table(shown, self._width(shown, console, options) > options.max_width)
        if missing := [column.header for column in self.columns if column not in shown]:
            yield _note(f"not shown in {options.max_width} columns: {', '.join(missing)} (all are in the report)")

    def _by_priority(self) -> list[Column]:
        """Return the columns in the order in which they are left out."""
        order = [name for names in COLUMN_PRIORITY for name in names]
        place = {name: k for k, name in enumerate(order)}
        return sorted(self.columns, key=lambda column: -place.get(column.header, len(order)))

    def _width(self, shown: Sequence[Column], console: Console, options: ConsoleOptions) -> int:
        """Return the width, in characters, at which no value is cut or broken."""
        return Measurement.get(console, options.update(max_width=10_000), self._table(shown, False)).maximum

    def _table(self, shown: Sequence[Column], narrow: bool) -> Table:
        """Return the table; if the terminal is too ``narrow`` even for these columns, values are broken into lines."""
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
    """Return the text in lines of at most ``width`` characters, broken after hyphens, colons and spaces if possible."""
    return "\n".join(line for part in text.split("\n") for line in wrap(part, width) or [""])


#: Maximum width of a solver's name, in characters: the longest part of our solver names between two hyphens.
NAME_CHARS = 18
#: Maximum width of a device's name, in characters.
DEVICE_CHARS = 17
#: Maximum width of a status, in characters.
STATUS_CHARS = 10
#: Header and justification of the columns that name a row.
NAME_COLUMNS = (("#", "right"), ("solver", "left"), ("device", "left"))
_ROLE_STYLE = {"reference": "bold", "control": "dim"}
_BAD = (
    "FAILED",
    "BROKEN",
    "NOT RUN",
    "NOT INSTALLED",
    "INTERRUPTED",
    "DEVICE_FAILED",
    "BUDGET_SPENT",
    "NOISE_DOMINATED",
)


def render(comparison: Results, width: int = 120) -> str:
    """Return the tables as plain text of at most ``width`` columns."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False, force_jupyter=False)
    console.print(renderable(comparison))
    return console.file.getvalue()  # type: ignore[attr-defined]


def renderable(comparison: Results, brief: bool = False) -> RenderableType:
    """Return the comparison for `rich.print`; if ``brief``, large sections show their `main_rows` only."""
    several = len(comparison.sections) > 1
    parts: list[RenderableType] = [_text(overall(comparison), "bold"), Text("")]
    if comparison.models:
        parts += _models(comparison)
    for section in comparison.sections:
        parts += [*([Text("")] if section is not comparison.sections[0] else []), *_section(section, several, brief)]
    if comparison.interrupted:
        parts.append(Text("Interrupted (Ctrl-C): only the rows so far are shown.", style="bold red"))
    sampled = any(section.by_excess for section in comparison.sections)
    note = "# ranks the rows that met the tolerance by time, the others by "
    note += "excess if a row is sampled, else by raw gap." if sampled else "raw gap."
    if (seeds := max((row.seeds for row in comparison.rows), default=1)) > 1:
        note += f" Gap and excess of sampled rows are medians of {seeds} seeds."
    if any(row.device is not None for row in comparison.rows):
        note += " Emulated rows are ranked among themselves (in brackets); controls are not ranked."
    parts.append(Text(note))
    return Group(*parts)


#: `MODEL_HEADERS` for a terminal.
NARROW_HEADERS = (
    "model",
    "bal.\nacc.",
    "fit",
    "recall",
    "preci-\nsion",
    "accu-\nracy",
    "avg.\nprec.",
    "ROC\nAUC",
    "gap",
)


def _models(comparison: Results) -> list[RenderableType]:
    """Return the table of the models' scores, and the rows behind them."""
    positive = next(score.counts for score in comparison.models if score.counts is not None)
    title = f"Models: {positive.n} held-out rows; recall and precision of {positive.classes[positive.positive]!r}"
    # One blank between columns: with those of all scores the table fits 80 characters.
    table = Table(box=box.SIMPLE_HEAD, padding=0, pad_edge=False, show_edge=False)
    for number, header in enumerate(NARROW_HEADERS):
        table.add_column(header, justify="right" if number else "left", overflow="fold", no_wrap=bool(number))
    remarks = []
    for score in comparison.models:
        table.add_row(*map(_text, model_cells(score)))
        if score.reason is not None:
            remarks.append(f"{score.title}: {score.reason}")
    if (note := constant_note(comparison.models)) is not None:
        remarks.append(note)
    if (best := best_model(comparison.models, comparison.scoring)) is not None:
        remarks.append(f"{best.title}: {counts_text(best)}")
    return [_text(title, "bold"), table, *map(_note, remarks), Text("")]


#: Statuses of rows without numbers that share one line under the table.
SHARED_STATUSES = ("DOES NOT APPLY", "NOT INSTALLED", "NOT RUN")


def _shared_lines(rows: Iterable[Row]) -> list[str]:
    """Return one line for the solvers that do not apply, and one for each reason why others were not run."""
    found: dict[str, dict[str, None]] = {}
    for row in rows:
        what = row.reason or "not run"
        if row.status == "DOES NOT APPLY":
            what = "does not apply"
        elif row.status == "NOT INSTALLED":
            # The reason names the solver, its package and the pip line; the solver's name stands behind the colon.
            way_out = what.partition("not installed: ")[2]
            what = f"not installed ({way_out})" if way_out else "not installed"
        found.setdefault(what, {})[row.solver] = None
    return [f"{what}: {', '.join(names)}" for what, names in found.items()]


#: A section of up to this many rows is shown whole.
MAX_BRIEF_ROWS = 12
#: Rows that met the tolerance that a brief section shows, the fastest first.
BRIEF_BEST = 3
#: Quantum rows that a brief section shows, each with its best control.
BRIEF_QUANTUM = 3


def main_rows(rows: list[Row], tol: float) -> list[Row]:
    """Return the rows that a brief section shows, in their order.

    They are the fastest that met the tolerance, the reference, and for each of the best quantum solvers its best row
    and the best of its controls, so that no result of a circuit stands without a control.
    """
    if len(rows) <= MAX_BRIEF_ROWS:
        return rows
    shown = [row for row in rows if row.met(tol) and row.device is None][:BRIEF_BEST]
    shown += [row for row in rows if row.role == "reference"]
    for solver in list(dict.fromkeys(row.solver for row in rows if row.role == "quantum"))[:BRIEF_QUANTUM]:
        for role in ("quantum", "control"):
            # Of the rows with shots, if there are any: an exact simulation is no device.
            same = [row for row in rows if row.solver == solver and row.role == role]
            shown += sorted(same, key=lambda row: not row.shots_per_circuit)[:1]
    return [row for row in rows if row in shown]


def _hidden_lines(shown: list[Row], hidden: list[Row]) -> list[str]:
    """Return one line on the rows that a brief section leaves out, if there are any."""
    if not hidden:
        return []
    known = {row.solver for row in shown}
    names = list(dict.fromkeys(row.solver for row in hidden if row.solver not in known))
    circuits = any(row.device is not None for row in hidden)
    names += ["other devices and controls"] if circuits else []
    more = "; so are circuits, shots and evidence" if circuits else ""
    return [f"{len(hidden)} more rows with --all-rows, or in the report: {', '.join(names)}{more}"]


def _section(section: Section, several: bool, brief: bool) -> list[RenderableType]:
    notes: list[str] = []
    rows: list[RowCells] = []
    apart = [row for row in section.rows if not row.ran and row.status in SHARED_STATUSES]
    every = [row for row in section.rows if row not in apart]
    shown = main_rows(every, section.tol) if brief else every
    hidden = [row for row in every if row not in shown]
    columns = [column for column in RESULTS if any(column.value(row) is not None for row in shown)]
    for row in shown:
        status = status_text(row)
        if remark := row.reason or row.note:
            if remark not in notes:
                notes.append(remark)
            status += f" [{notes.index(remark) + 1}]"
        colour = "red" if row.status in _BAD else ""
        figures = [
            _text(column.cell(row), "bright_black" if column.header == "accuracy" and not row.met(section.tol) else "")
            for column in columns
        ]
        rows.append(((*_head(row), _text(lines_of(status, STATUS_CHARS), colour)), figures, _ROLE_STYLE.get(row.role)))
    title = f"{section.title}  (n = {section.n}, {section.kind})"
    names: tuple[tuple[str, str], ...] = (*NAME_COLUMNS, ("status", "left"))
    if not any(row.variant for row in shown):
        names = tuple(name for name in names if name[0] != "device")
        rows = [((head[0], head[1], head[3]), figures, style) for head, figures, style in rows]
    parts: list[RenderableType] = [FittedTable(_text(title, "bold"), names, tuple(columns), tuple(rows))]
    parts += [_note(line) for line in (*_hidden_lines(shown, hidden), *_shared_lines(apart))]
    parts += [_note(f"[{number}] {remark}") for number, remark in enumerate(notes, 1)]
    parts.append(_note(f"reference: {reference_text(section)}"))
    if several:
        parts.insert(0, _text(verdict(section), style="bold"))
    circuits = [row for row in section.rows if row.device is not None and row.ran]
    if circuits and not hidden:
        quantum: list[RowCells] = [
            (_head(row), [_text(_narrow(column.cell(row))) for column in QUANTUM], _ROLE_STYLE.get(row.role))
            for row in circuits
        ]
        resources = _text("quantum resources", "bold")
        parts += [Text(""), FittedTable(resources, NAME_COLUMNS, tuple(QUANTUM), tuple(quantum))]
    return parts


def _text(text: str, style: str = "") -> Text:
    """Return text without control characters: names and data may come from third parties."""
    return Text(escape_control_characters(text, "\n"), style=style)


def _note(text: str) -> Padding:
    """Return a note below a table, all its lines indented."""
    return Padding(_text(text, "dim"), (0, 0, 0, 2), expand=False)


def reference_text(section: Section) -> str:
    """Return one line on the reference."""
    if section.reference is None:
        # The text stands behind "reference: ".
        return (section.reference_note or MISSING).replace("no reference: ", "none: ", 1).rstrip(".")
    raw = section.reference.raw_certificate
    gap = "no certified gap" if raw.relative_gap is None else f"relative gap {gap_text(raw.relative_gap)}"
    return f"cvxopt, objective {raw.objective:.8g}, {gap}"


def _narrow(text: str) -> str:
    """Return the words in two lines, so that the column stays as narrow as its numbers."""
    return text.replace("emulated", "emu-\nlated").replace("no evidence", "no\nevidence")


def _head(row: Row) -> tuple[Text, Text, Text]:
    where = row.variant if len(row.variant) <= DEVICE_CHARS else row.variant.replace(":", ":\n", 1).replace("\n ", "\n")
    return _text(row.place), _text(lines_of(row.solver, NAME_CHARS)), _text(lines_of(where, DEVICE_CHARS))
