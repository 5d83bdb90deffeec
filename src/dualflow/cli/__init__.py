"""The command line: `dualflow train`, `predict`, `check`, `compare`, `convert`, `jobs`, and lists of what is available.

Commands import large packages only when they run, so that help and errors are fast.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from . import check, compare, convert, jobs, lists, predict, train
from .options import GroupedCommand
from .output import EXIT_CLOSED, EXIT_INTERRUPTED, say

__all__ = ["app", "main"]

app = typer.Typer(
    name="dualflow",
    help="Train, check and compare support vector machines, whose dual problems are solved by interchangeable, "
    "certified solvers.",
    epilog="""\b
Examples, for a table with the label in its last column:
  dualflow compare churn.csv                     which model to use
  dualflow train churn.csv --search --proba      writes model.dualflow
  dualflow predict model.dualflow new.csv --out predictions.csv
  dualflow check model.dualflow                  is the model optimal?""",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (train.train, predict.predict, check.check, compare.compare, lists.solvers, lists.devices):
    app.command(cls=GroupedCommand)(command)
app.command(cls=GroupedCommand)(convert.convert)
app.add_typer(lists.circuits, name="circuits")
app.add_typer(jobs.jobs, name="jobs")


def main() -> None:
    """Run the `dualflow` command; `dualflow_command` is its entry point."""
    _open_streams()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()  # so that a write error is raised here and not when the interpreter exits
    except SystemExit as leave:
        if leave.code == EXIT_CLOSED:
            _drop_output()
        elif leave.code == EXIT_INTERRUPTED:
            # A simulator's worker thread cannot be stopped, and the interpreter would wait for its last circuit.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(EXIT_INTERRUPTED)
        raise
    except BrokenPipeError:
        _drop_output()
        raise SystemExit(EXIT_CLOSED) from None
    except OSError as error:  # from the flush above, when the disk is full, for example
        _drop_output()
        say(f"Error: the output could not be written: {error.strerror}", err=True)
        raise SystemExit(2) from None


def _open_streams() -> None:
    """Open closed output streams on the null device, and make all replace characters that they cannot encode."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        if hasattr(stream := getattr(sys, name), "reconfigure"):
            stream.reconfigure(errors="replace" if name == "stdout" else "backslashreplace")


def _drop_output() -> None:
    """Point standard output to the null device, so that the interpreter does not flush to a closed pipe on exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"dualflow {version('dualflow')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Hold the options of the bare command."""
