"""The commands that list what is available: `dualflow solvers`, `devices`, `circuits list`; and `circuits export`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..exceptions import ProblemError
from .options import GroupedCommand
from .output import OVERWRITE_HELP, Json, clear_errors, console, print_indented, print_table, say, say_json

#: Which models pose which kind of problem; printed above the kinds that each solver solves.
KINDS_NOTE = (
    "Problem kinds: SVC and SVR pose a box with equality (without an intercept: a box), "
    "SVDD and OneClassSVM a capped simplex, NuSVC and NuSVR a box with two equalities."
)
LICENCE_NOTE = "Licence: cvxopt calls CVXOPT, which is under the GPL-3. All else works without it."


def solvers(json: Json = False) -> None:
    """List the solvers, what they solve, and what is installed."""
    with clear_errors():
        from rich.text import Text

        from ..solvers.registry import list_solvers

        found = list_solvers()
        rows = [
            (
                info.name,
                ", ".join(info.kinds),
                info.accuracy,
                info.maturity,
                "" if info.max_n is None else str(info.max_n),
                "yes" if info.install is None else info.install,
            )
            for info in found
        ]
        headers = ("solver", "problem kinds", "accuracy", "maturity", "max n", "installed")
        if json:
            print_table(headers, rows, json)
            return
        # The kinds stand below the table: beside the other columns they would be a few letters wide.
        print_table(
            (headers[0], "quantum", *headers[2:]),
            [(row[0], "yes" if info.quantum else "", *row[2:]) for row, info in zip(rows, found, strict=True)],
        )
        console().print(Text(f"\n{KINDS_NOTE}"))
        solving: dict[str, list[str]] = {}
        for name, kinds, *_ in rows:
            if kinds:  # a solver that is not installed may not say its own
                solving.setdefault(kinds, []).append(name)
        for kinds, names in solving.items():
            print_indented(f"{kinds}: {', '.join(names)}")
        console().print(Text(LICENCE_NOTE))


def devices(
    ask: Annotated[
        str | None,
        typer.Option(metavar="DEVICE", help="Query this machine over the network: its qubits, job limit and queue."),
    ] = None,
    json: Json = False,
) -> None:
    """List the devices for circuits, and what is installed.

    Machines of vendors are listed with whether an account is known.
    """
    with clear_errors():
        if ask is not None:
            from ..quantum.devices.vendors import machine_info

            found = machine_info(ask)
            qubits = "" if found.qubits is None else str(found.qubits)
            answer = ("device", "qubits", "a job holds at most", "queue")
            print_table(answer, [(found.name, qubits, found.job_limits, found.queue)], json)
            return
        from ..quantum.devices import list_devices
        from ..quantum.devices.vendors import list_vendors

        rows = [
            (
                info.name,
                ", ".join(word for word in ("exact", "sampled", "noisy") if getattr(info, word)),
                "yes" if info.control else "no",
                "" if info.qubits is None else str(info.qubits),
                info.summary,
                info.install or "yes",
            )
            for info in list_devices()
        ]
        headers = ("device", "gives", "control", "qubits", "what it is", "installed")
        machines = ("machines", "vendor", "installed", "account", "a job holds at most")
        vendors = [
            (info.name, info.vendor, info.install or "yes", info.account, info.job_limits) for info in list_vendors()
        ]
        if json:
            parts = (("devices", headers, rows), ("machines", machines, vendors))
            say_json({name: [dict(zip(head, row, strict=True)) for row in table] for name, head, table in parts})
            return
        # What each is stands below the table: beside the other columns it would be a few letters wide.
        print_table((*headers[:4], headers[5]), [(*row[:4], row[5]) for row in rows])
        say("")
        for name, *_, summary, _ in rows:
            print_indented(f"{name}: {summary}")
        say("")
        print_table(machines, vendors)


circuits = typer.Typer(help="List the circuits and write them to files.", no_args_is_help=True, rich_markup_mode=None)


@circuits.command("list", cls=GroupedCommand)
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


@circuits.command(cls=GroupedCommand)
def export(
    out: Annotated[
        Path, typer.Option(help="Folder to write to, created if it does not exist; other files in it stay.")
    ] = Path("circuits"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE_HELP)] = False,
) -> None:
    """Write the circuits as QPY and OpenQASM 3, with manifest.json and README.md.

    On the same machine the files are the same, byte for byte.
    """
    with clear_errors():
        from ..quantum.circuits.export import export_circuits, foreign_files

        if not overwrite and (others := foreign_files(out)):
            raise ProblemError(
                f"{others[0]} exists and was not written by dualflow; give another folder, or add --overwrite"
            )
        say(f"{len(export_circuits(out))} files: {out}")
