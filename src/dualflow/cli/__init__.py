"""Floor 6: the command line: `dualflow compare`, `solvers`, `devices`, `jobs`, `circuits`.

Heavy imports happen inside the commands, so that help and errors are quick.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from . import circuit_files, compare, lists
from .output import INTERRUPTED

__all__ = ["app", "main"]

app = typer.Typer(
    name="dualflow",
    help="Support vector machines whose dual problem flows to rest, on interchangeable solvers, certified.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
for command in (compare.compare, lists.solvers, lists.devices, lists.jobs):
    app.command()(command)
app.add_typer(circuit_files.circuits, name="circuits")


def main() -> None:
    """Entry point of the `dualflow` command."""
    try:
        app()
    except SystemExit as leave:
        if leave.code == INTERRUPTED:
            # A simulator's worker thread cannot be stopped, and the interpreter would wait for its last circuit.
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


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
