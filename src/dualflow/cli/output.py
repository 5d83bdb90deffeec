"""What the commands share: clear errors, files that are not overwritten by mistake, a live bar, tables."""

from __future__ import annotations

import math
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.runtime.clock import keeping_interrupts
from ..exceptions import DualflowError, ProblemError
from ..persistence.files import escape_control_characters, target_of

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "CLOSED",
    "INTERRUPTED",
    "OVERWRITE",
    "Json",
    "check_output",
    "clear_errors",
    "console",
    "print_table",
    "progress_bar",
    "say",
    "say_json",
    "warnings_said",
]

WIDTH = 120  # of tables that do not go to a terminal
#: Exit codes, those of a shell: 128 and the signal, of Ctrl-C and of a reader that has left.
INTERRUPTED, CLOSED = 130, 141

Json = Annotated[bool, typer.Option("--json", help="Say the result as JSON, on standard output.")]
OVERWRITE = "Overwrite files that are there, even if dualflow did not write them."


@contextmanager
def clear_errors() -> Iterator[None]:
    """Our own errors and those of files: one sentence on stderr, exit code 2. Ctrl-C: exit code 130."""
    at_start = signal.getsignal(signal.SIGINT)
    if callable(at_start) and getattr(at_start, "__module__", "") == "dualflow_command":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on it is answered below
    try:
        with keeping_interrupts():
            yield
    except BrokenPipeError:
        raise typer.Exit(CLOSED) from None  # the reader of our output has left, and wants no sentence either
    except (DualflowError, TypeError, ValueError, OSError) as error:
        text = str(error)
        if isinstance(error, OSError) and not isinstance(error, DualflowError) and error.filename:
            text = f"{error.filename}: {error.strerror}"
        say("Error: " + " ".join(text.split()), err=True)
        raise typer.Exit(2) from None
    except MemoryError as error:
        say("Error: there is not enough memory. " + " ".join(str(error).split()), err=True)
        raise typer.Exit(2) from None
    except (KeyboardInterrupt, RuntimeError) as error:
        # Raised while a class is made, as modules are loaded, it comes out of Python 3.11 as the cause of another.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        say("Interrupted.", err=True)
        raise typer.Exit(INTERRUPTED) from None


def say(text: str, err: bool = False) -> None:
    """One line, in which nothing can command a terminal."""
    typer.echo(escape_control_characters(text), err=err)


def say_json(value: Any) -> None:
    """A value as JSON on one line; what JSON has no word for, NaN and infinity, is null."""
    typer.echo(dumps(_plain(value), allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


@contextmanager
def warnings_said() -> Iterator[None]:
    """Warnings to users: a line each on stderr, none twice."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = (" ".join(str(one.message).split()) for one in caught if issubclass(one.category, UserWarning))
    for text in dict.fromkeys(texts):
        say(f"Warning: {text}", err=True)


def check_output(path: Path, option: str, is_ours: Callable[[Path], bool], overwrite: bool, data: Path | None) -> None:
    """Before a minute of work, not after it: whether a file can be written, and whether it may be.

    Parameters
    ----------
    path : Path
        The value of ``option``.
    is_ours : callable
        Whether a file that is there was written by this command.
    overwrite : bool
        Whether others may be overwritten, too; never ``data``, the file that is read.

    Raises
    ------
    ProblemError
        It cannot, or may not.
    """
    if path.is_dir():
        raise ProblemError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ProblemError(f"{path}: the folder {path.parent} does not exist; create it or give another path")
    try:
        target, old = target_of(path)
    except PermissionError:
        raise ProblemError(f"{path} cannot be written: permission denied") from None
    if old is None:
        if not os.access(target.parent, os.W_OK):
            raise ProblemError(f"{path} cannot be written: permission denied")
        return
    if data is not None and os.path.exists(data) and os.path.samefile(data, target):
        raise ProblemError(f"{option} {path} is the file of --data, which would be lost; give another name")
    if not overwrite and not is_ours(target):
        raise ProblemError(
            f"{option} {path} is there already, and dualflow did not write it. {option} names a file to write (--data "
            "the one to read): give another name, or add --overwrite"
        )


@contextmanager
def progress_bar() -> Iterator[Any]:
    """A live bar on stderr; nothing where stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda done, total, text: bar.update(
            task, completed=done, total=total, description=escape_control_characters(text)
        )


def console() -> Console:
    """Where tables go."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # as everywhere else; rich would leave with a code of its own

    return Quiet(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def print_table(headers: Any, rows: Any, json: bool = False) -> None:
    """A table whose cells are text, whatever is in them; as ``json`` a list of its rows."""
    if json:
        say_json([dict(zip(headers, row, strict=True)) for row in rows])
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD if any(headers) else None, pad_edge=False, show_header=any(headers))
    for number, header in enumerate(headers):
        table.add_column(header, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(escape_control_characters(str(cell))) for cell in row))
    console().print(table)
