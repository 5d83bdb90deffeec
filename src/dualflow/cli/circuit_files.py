"""`dualflow circuits list` and `export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..exceptions import ProblemError
from .output import OVERWRITE, Json, clear_errors, print_table, say

__all__ = ["circuits"]

circuits = typer.Typer(help="List the circuits and write them to files.", no_args_is_help=True, rich_markup_mode=None)


@circuits.command("list")
def list_circuits(json: Json = False) -> None:
    """List the circuits that `export` writes: each family's small examples."""
    with clear_errors():
        from ..quantum.circuits import resources
        from ..quantum.circuits.export import elementary, examples

        rows = [
            (circuit.name, circuit.family, cost.qubits, cost.parameters, cost.depth, cost.two_qubit_gates)
            for circuit, cost in ((circuit, resources.count(elementary(circuit.build()))) for circuit in examples())
        ]
        print_table(("circuit", "family", "qubits", "parameters", "depth", "two-qubit gates"), rows, json)


@circuits.command()
def export(
    out: Annotated[Path, typer.Option(help="Folder, made if need be; other files in it stay.")] = Path("circuits"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE)] = False,
) -> None:
    """Write the circuits as QPY and OpenQASM 3, with manifest.json and README.md; the same bytes on one machine."""
    with clear_errors():
        from ..quantum.circuits.export import export_circuits, others_in_the_way

        if not overwrite and (others := others_in_the_way(out)):
            raise ProblemError(
                f"{others[0]} is there already, and dualflow did not write it: give another folder, or add --overwrite"
            )
        say(f"{len(export_circuits(out))} files: {out}")
