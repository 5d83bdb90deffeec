"""What `compare` returns, and the ways to show it."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from ..persistence.files import csv_safe, escape_control_characters, replacing_text
from .model import Results, Row

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Comparison", "is_comparison_csv", "is_comparison_html"]

#: Columns of the CSV file.
_NAMES = [f.name for f in fields(Row) if f.name != "solution"]
#: What an HTML file of `Comparison.to_html` begins with.
_TITLE = b"<title>dualflow: comparison of solvers</title>"


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

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from dualflow import Comparison, compare
    >>> X, y = make_moons(16, noise=0.1, random_state=0)
    >>> found = compare(X, y, problems=["hinge"], solvers=["working-set", "smo"], C=10.0, random_state=0)
    >>> isinstance(found, Comparison), found.interrupted, len(found.sections)
    (True, False, 1)
    """

    def to_csv(self, path: str | Path) -> None:
        """One line a row, figures in full precision, empty where there is none. A file that is there is replaced.

        Text that a spreadsheet would take for a formula has an apostrophe before it, and control characters are
        escaped: names and reasons come from anyone's solvers and data.
        """
        with replacing_text(path) as file:
            writer = csv.writer(file)
            writer.writerow(_NAMES)
            for row in self.rows:
                writer.writerow([_cell(getattr(row, name)) for name in _NAMES])

    def to_html(self, path: str | Path) -> None:
        """One self-contained file: tables, charts, limitations, versions; no script or network needed."""
        from .html import render

        text = render(self)
        with replacing_text(path) as file:
            file.write(text)

    def table(self, width: int = 120) -> str:
        """The tables as plain text of at most ``width`` columns."""
        from .terminal import render

        return render(self, width)

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> RenderableType:
        from .terminal import renderable

        return renderable(self)


def is_comparison_csv(path: Path) -> bool:
    """Whether `Comparison.to_csv` wrote a file, by its first line; an empty one is nobody's."""
    start = _start(path)
    return not start or start.startswith(",".join(_NAMES).encode() + b"\r\n")


def is_comparison_html(path: Path) -> bool:
    """Whether `Comparison.to_html` wrote a file, by its title; an empty one is nobody's."""
    start = _start(path)
    return not start or _TITLE in start


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(1000)


def _cell(value: object) -> object:
    if isinstance(value, str):
        return csv_safe(escape_control_characters(value))
    return "" if value is None else value
