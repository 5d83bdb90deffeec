"""`dualflow solvers`: what there is, as the catalogue says."""

from __future__ import annotations

from .output import Json, clear_errors, print_table

__all__ = ["solvers"]


def solvers(json: Json = False) -> None:
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
        print_table(("solver", "problem kinds", "accuracy", "maturity", "max n", "installed"), rows, json)
