"""Tables that fit: as many columns as there is room for, the most telling ones kept, no value cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from .columns import Column

__all__ = ["Cells", "Fitting", "lines_of"]

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
