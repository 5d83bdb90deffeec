"""What `compare` returns, and the ways to show it."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from .model import Results, Row

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Comparison"]


@dataclass(frozen=True)
class Comparison(Results):
    """What `dualflow.compare` returns.

    Attributes
    ----------
    sections : tuple of Section
    settings : dict
        Everything that was chosen, by the caller or by default.
    versions : dict
        Package name to version.
    interrupted : bool
        Ctrl-C ended it early; rows that were not reached say so.
    """

    def to_csv(self, path: str | Path) -> None:
        """One line a row, figures in full precision, empty where there is none."""
        names = [f.name for f in fields(Row) if f.name != "solution"]
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            for row in self.rows:
                writer.writerow(["" if (value := getattr(row, name)) is None else value for name in names])

    def to_html(self, path: str | Path) -> None:
        """One self-contained file: tables, charts, limitations, versions; no script or network needed."""
        from .html import render

        Path(path).write_text(render(self), encoding="utf-8")

    def table(self, width: int = 120) -> str:
        """The tables as plain text of at most ``width`` columns."""
        from .terminal import render

        return render(self, width)

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> RenderableType:
        from .terminal import renderable

        return renderable(self)
