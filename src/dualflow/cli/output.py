"""What the commands share: clear errors, a live bar, tables."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import typer

from ..exceptions import DualflowError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["INTERRUPTED", "clear_errors", "console", "print_table", "progress_bar"]

WIDTH = 120  # of tables that do not go to a terminal
INTERRUPTED = 130


@contextmanager
def clear_errors() -> Iterator[None]:
    """Our own errors and those of files: one sentence on stderr, exit code 2. Ctrl-C: exit code 130."""
    try:
        yield
    except BrokenPipeError:
        raise  # the reader of our output has left; typer ends quietly
    except (DualflowError, TypeError, OSError) as error:
        text = str(error)
        if isinstance(error, OSError) and not isinstance(error, DualflowError) and error.filename:
            text = f"{error.filename}: {error.strerror}"
        typer.echo("Error: " + " ".join(text.split()), err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None


@contextmanager
def progress_bar() -> Iterator[Any]:
    """A live bar on stderr; nothing where stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)


def console() -> Console:
    """Where tables go."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def print_table(headers: Any, rows: Any) -> None:
    """A table whose cells are text, whatever is in them."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    console().print(table)
