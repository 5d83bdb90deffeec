"""Output of all commands: errors in one sentence, checks before a file is overwritten, a progress bar, tables."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from json import dumps
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..core.runtime.clock import keeping_interrupts
from ..exceptions import DualflowError, ProblemError
from ..persistence.files import escape_control_characters, target_of

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

#: Width, in characters, of tables that are not printed to a terminal, unless the variable COLUMNS gives another.
TABLE_WIDTH_CHARS = 120
#: Exit code after Ctrl-C: 128 + SIGINT, as in a shell.
EXIT_INTERRUPTED = 130
#: Exit code if the reader of the output has closed the pipe: 128 + SIGPIPE.
EXIT_CLOSED = 141

Json = Annotated[
    bool, typer.Option("--json", help="Print the result as JSON, on standard output.", rich_help_panel="Output")
]
OVERWRITE_HELP = "Overwrite existing files, even if dualflow did not write them."


#: The options of the command that runs, by the names of their parameters.
COMMAND_OPTIONS: ContextVar[dict[str, str] | None] = ContextVar("command_options", default=None)


@contextmanager
def clear_errors() -> Iterator[None]:
    """Print expected errors as one sentence on stderr, with exit code 2; Ctrl-C gives exit code 130."""
    at_start = signal.getsignal(signal.SIGINT)
    if callable(at_start) and getattr(at_start, "__module__", "") == "dualflow_command":
        signal.signal(signal.SIGINT, signal.default_int_handler)  # from here on KeyboardInterrupt is caught below
    try:
        with keeping_interrupts():
            yield
    except BrokenPipeError:
        raise typer.Exit(EXIT_CLOSED) from None  # the reader has closed the pipe, so no message is printed
    except (DualflowError, TypeError, ValueError, OSError) as error:
        text = str(error)
        if isinstance(error, OSError) and not isinstance(error, DualflowError) and error.filename:
            text = f"{error.filename}: {error.strerror}"
        say("Error: " + _with_option(" ".join(text.split())), err=True)
        raise typer.Exit(2) from None
    except MemoryError as error:
        say("Error: there is not enough memory. " + " ".join(str(error).split()), err=True)
        raise typer.Exit(2) from None
    except (KeyboardInterrupt, RuntimeError) as error:
        # Python 3.11 wraps a KeyboardInterrupt that is raised while a class is created into a RuntimeError.
        if not isinstance(error.__cause__ or error, KeyboardInterrupt):
            raise
        say("Interrupted.", err=True)
        raise typer.Exit(EXIT_INTERRUPTED) from None


def _with_option(text: str) -> str:
    """Return an error whose first word is a parameter of the library ("max_n=0") with the option in its place."""
    name = text.partition("=")[0]
    known = COMMAND_OPTIONS.get() or {}
    option = known.get("seed" if name == "random_state" else name) or known.get(f"{name}s")
    if option and not option.startswith("--"):  # with the value as it was typed
        return f"{option} {text.partition(' ')[2]}"
    return f"{option}{text[len(name) :]}" if option else text


def say(text: str, err: bool = False) -> None:
    """Print one line, without control characters; a terminal gets it broken between words, a pipe as it is."""
    text = escape_control_characters(text)
    if (sys.stderr if err else sys.stdout).isatty():
        width, indent = shutil.get_terminal_size().columns, " " * (len(text) - len(text.lstrip()))
        lines = wrap(text, width, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)
        text = "\n".join(lines)
    typer.echo(text, err=err)


def say_json(value: Any) -> None:
    """Print a value as JSON on one line; NaN and infinity become null."""
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
def print_warnings() -> Iterator[None]:
    """Print each different UserWarning of the block as one line on stderr."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    texts = (" ".join(str(one.message).split()) for one in caught if issubclass(one.category, UserWarning))
    for text in dict.fromkeys(texts):
        # The library's advice names parameters; of these the commands have one.
        say(f"Warning: {text.replace('max_steps or time_limit', '--time-limit')}", err=True)


def check_output(
    path: Path, option: str, is_ours: Callable[[Path], bool], overwrite: bool, data: Path | None
) -> str | None:
    """Return when the file that an output replaces was written, in local time; None if there is none.

    Parameters
    ----------
    path : Path
        The value of ``option``.
    is_ours : callable
        Returns whether an existing file was written by this command.
    overwrite : bool
        Whether other files may be overwritten, too.
    data : Path or None
        The file that is read, which is never overwritten.

    Raises
    ------
    ProblemError
        Before any work: the file cannot be written, or would overwrite another one.
    """
    if path.is_dir():
        raise ProblemError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ProblemError(f"{path}: the folder {path.parent} does not exist; create it, or give another path")
    try:
        target, old = target_of(path)
    except PermissionError:
        raise ProblemError(f"{path} cannot be written: permission denied") from None
    if old is None:
        if not os.access(target.parent, os.W_OK):
            raise ProblemError(f"{path} cannot be written: permission denied")
        return None
    if data is not None and os.path.exists(data) and os.path.samefile(data, target):
        raise ProblemError(f"{option} {path} is the data file and would be lost; give another name")
    if not overwrite and not is_ours(target):
        raise ProblemError(
            f"{option} {path} exists and was not written by this command. {option} names the file to write, and "
            "DATA the table to read; give another name, or add --overwrite"
        )
    return f"{datetime.fromtimestamp(target.stat().st_mtime):%Y-%m-%d %H:%M}"


@contextmanager
def progress_bar() -> Iterator[Any]:
    """Show a progress bar on stderr if that is a terminal; yield the function that updates it."""
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
    """Return the console for tables, on standard output."""
    from rich.console import Console

    class Quiet(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # handled by `clear_errors`; rich would exit with another code

    return Quiet(width=None if sys.stdout.isatty() else piped_width(), highlight=False)


def print_stripped(item: RenderableType) -> None:
    """Print what rich lays out, without blanks at the ends of lines."""
    target = console()
    with target.capture() as printed:
        target.print(item)
    typer.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))


def piped_width() -> int:
    """Return the width of output that is not a terminal: the variable COLUMNS if it is a number above 0, or 120."""
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isascii() and given.isdigit() and int(given[:5]) > 0 else TABLE_WIDTH_CHARS


def print_indented(text: str) -> None:
    """Print a paragraph as plain text, indented by two characters, in lines as wide as the console."""
    from rich.padding import Padding
    from rich.text import Text

    print_stripped(Padding(Text(escape_control_characters(text)), (0, 0, 0, 2), expand=False))


def print_table(headers: Any, rows: Any, json: bool = False, whole: int = 1) -> None:
    """Print a table, whose cells are printed as plain text; with ``json`` as a list of rows.

    The first ``whole`` columns are not broken into lines.
    """
    if json:
        say_json([dict(zip(headers, row, strict=True)) for row in rows])
        return
    from rich import box
    from rich.table import Table
    from rich.text import Text

    titled = any(headers)
    table = Table(
        box=box.SIMPLE_HEAD if titled else None,
        padding=(0, 1, 0, 0) if titled else (0, 1),
        collapse_padding=titled,
        pad_edge=False,
        show_edge=False,
        show_header=titled,
    )
    for number, header in enumerate(headers):
        table.add_column(header, overflow="fold", no_wrap=number < whole)
    for row in rows:
        table.add_row(*(Text(escape_control_characters(str(cell))) for cell in row))
    print_stripped(table)
