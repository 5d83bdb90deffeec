"""`dualflow solvers`, `dualflow jobs`: what there is, as the catalogue and a journal say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from .output import clear_errors, print_table

__all__ = ["jobs", "solvers"]


def solvers() -> None:
    """List all solvers: what each can solve, and whether it is installed."""
    with clear_errors():
        from ..registry import list_solvers

        rows = [
            (
                info.name,
                ", ".join(info.kinds),
                info.accuracy,
                info.maturity,
                "" if info.max_n is None else str(info.max_n),
                "yes" if info.install is None else info.install,
            )
            for info in list_solvers()
        ]
        print_table(("solver", "problem kinds", "accuracy", "maturity", "max n", "installed"), rows)


def jobs(file: Annotated[Path, typer.Argument(help="The journal of a run: its solver's option journal.")]) -> None:
    """List the jobs in a journal: what was sent where, and what came of it."""
    with clear_errors():
        from ..quantum.runs.journal import read_journal

        rows = [
            (
                record.id,
                record.submitted,
                record.device,
                record.tag,
                record.circuit,
                "exact" if record.shots is None else str(record.shots),
                str(record.seed),
                record.outcome or "not known",
            )
            for record in read_journal(file)
        ]
        print_table(("job", "submitted", "device", "tag", "circuit", "shots", "seed", "outcome"), rows)
