"""`Comparison`, the result of `compare`, and its output as text, CSV and HTML."""

from __future__ import annotations

import csv
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from ..persistence.files import csv_safe, escape_control_characters, replacing_text
from .model import Results, Row

if TYPE_CHECKING:
    from rich.console import RenderableType

#: Columns of the CSV file.
_NAMES = [f.name for f in fields(Row) if f.name != "solution"]
#: First columns by which a file of this class is recognised.
FIRST_COLUMNS = 10
#: The title near the start of a file that `Comparison.to_html` wrote.
_TITLE = b"<title>dualflow: comparison of solvers</title>"


@dataclass(frozen=True)
class Comparison(Results):
    """What `dualflow.compare` returns.

    Attributes
    ----------
    sections : tuple of Section
    settings : dict
        All settings, chosen by the caller or by default.
    versions : dict
        Package name to version.
    interrupted : bool
        Whether Ctrl-C ended it early; rows that had not begun say so.
    models : tuple of ModelScore
        Scores on held-out points of the larger class and of the `SVC` of scikit-learn and dualflow; empty unless
        requested.
    scoring : str
        The score by which the models are compared.

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
        """Write one line for each row, numbers in full precision, missing values empty. An existing file is replaced.

        Text that a spreadsheet would read as a formula gets an apostrophe in front, and control characters are escaped,
        because names and reasons may come from third parties.
        """
        with replacing_text(path) as file:
            writer = csv.writer(file)
            writer.writerow(_NAMES)
            for row in self.rows:
                writer.writerow([_cell(getattr(row, name)) for name in _NAMES])

    def to_html(self, path: str | Path) -> None:
        """Write one self-contained file: tables, charts, limitations, versions. It needs no network."""
        from .html import render

        text = render(self)
        with replacing_text(path) as file:
            file.write(text)

    def table(self, width: int = 120) -> str:
        """Return the tables as plain text of at most ``width`` columns."""
        from .terminal import render

        return render(self, width)

    def __str__(self) -> str:
        return self.table()

    def __rich__(self) -> RenderableType:
        from .terminal import renderable

        return renderable(self)


def is_comparison_csv(path: Path) -> bool:
    """Return whether `Comparison.to_csv` wrote a file, by its first line; an empty file may be replaced, too."""
    start = _start(path)
    # Earlier versions lack the last columns.
    return not start or start.startswith(",".join(_NAMES[:FIRST_COLUMNS]).encode() + b",")


def is_comparison_html(path: Path) -> bool:
    """Return whether `Comparison.to_html` wrote a file, by its title; an empty file may be replaced, too."""
    start = _start(path)
    return not start or _TITLE in start


def _start(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(1000)


def _cell(value: object) -> object:
    if isinstance(value, str):
        return csv_safe(escape_control_characters(value))
    return "" if value is None else value
