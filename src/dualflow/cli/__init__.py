"""Floor 6: the command line: `dualflow train`, `predict`, `check`, `compare`, `convert`, and lists of what there is.

Heavy imports happen inside the commands, so that help and errors are quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from . import check, compare, convert, jobs, lists, predict, train
from .output import CLOSED, INTERRUPTED, say

__all__ = ["app", "main"]

app = typer.Typer(
    name="dualflow",
    help="Support vector machines whose dual problem flows to rest, on interchangeable solvers, certified.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (train.train, predict.predict, check.check, compare.compare, lists.solvers, lists.devices):
    app.command()(command)
app.command()(convert.convert)
app.add_typer(lists.circuits, name="circuits")
app.add_typer(jobs.jobs, name="jobs")


def main() -> None:
    """The `dualflow` command; `dualflow_command` is its entry point."""
    _open_streams()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # what could not be written is known here, not when the interpreter has gone
    except SystemExit as leave:
        if leave.code == CLOSED:
            _drop_output()
        elif leave.code == INTERRUPTED:
            # A simulator's worker thread cannot be stopped, and the interpreter would wait for its last circuit.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise
    except BrokenPipeError:
        _drop_output()
        raise SystemExit(CLOSED) from None
    except OSError as error:  # of that flush: a full disk, say
        _drop_output()
        say(f"Error: the output could not be written: {error.strerror}", err=True)
        raise SystemExit(2) from None


def _open_streams() -> None:
    """Streams that were closed lead nowhere, and none fails for want of a character."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        if hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")


def _drop_output() -> None:
    """What is left in the buffer has nowhere to go, and the interpreter is not to try again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dualflow {version('dualflow')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """Nothing of its own: holds the options of the bare command."""
