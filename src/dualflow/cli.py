"""The command line: `dualflow compare`, `dualflow solvers`, `dualflow devices`, `dualflow jobs`, `dualflow circuits`.

Heavy imports happen inside the commands, so that help and errors are quick.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .exceptions import DualflowError, ProblemError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from rich.console import Console

__all__ = ["app", "main"]

HONEST = (
    "Ranked by the raw gap, what each solver itself delivered; the refined gap stands beside it and is no evidence "
    "for a solver. No quantum advantage is claimed."
)
WIDTH = 120  # of tables that do not go to a terminal
INTERRUPTED = 130

app = typer.Typer(
    name="dualflow",
    help="Support vector machines whose dual problem flows to rest, on interchangeable solvers, certified.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
circuits = typer.Typer(help="List the circuits and write them to files.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(circuits, name="circuits")


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


@app.command()
def compare(
    data: Annotated[
        Path | None,
        typer.Option(help="CSV of numbers with a label column; without it, scikit-learn's bundled digits."),
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Label column of the CSV: its name, or its number from 1. The last by default.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help='The two labels to compare, "A,B"; svdd describes the first.')
    ] = None,
    digits: Annotated[str, typer.Option(help="The two digits of the bundled data; svdd describes the first.")] = "1,4",
    problems: Annotated[str, typer.Option(help="Sections, comma separated.")] = "hinge,squared_hinge,svdd",
    solvers: Annotated[str | None, typer.Option(help="Names, comma separated; all by default.")] = None,
    max_n: Annotated[int, typer.Option(help="Points of the subsample, both classes together.")] = 64,
    C: Annotated[float, typer.Option("--C", help="As in scikit-learn; inf is the hard margin.")] = 1.0,
    nu: Annotated[float | None, typer.Option(help="Of svdd, in (0, 1]; without it, the hard ball.")] = None,
    kernel: Annotated[str, typer.Option(help="linear, poly, rbf or sigmoid.")] = "rbf",
    gamma: Annotated[str, typer.Option(help="scale, auto or a number.")] = "scale",
    degree: Annotated[float, typer.Option(help="Of the poly kernel.")] = 3.0,
    coef0: Annotated[float, typer.Option(help="Of the poly and sigmoid kernels.")] = 0.0,
    fit_intercept: Annotated[str, typer.Option(help="yes, no, or penalised: the bias inside the kernel.")] = "yes",
    shots: Annotated[int, typer.Option(help="Per circuit.")] = 10_000,
    devices: Annotated[str | None, typer.Option(help="For quantum solvers, comma separated.")] = None,
    studies: Annotated[bool, typer.Option("--studies", help="Include solvers that are studies.")] = False,
    seed: Annotated[int, typer.Option(help="Of the subsample and of every solver.")] = 0,
    time_limit: Annotated[float, typer.Option(help="Seconds a row; it shows what there is by then.")] = 5.0,
    tol: Annotated[float, typer.Option(help="Relative gap at which a run ends.")] = 1e-6,
    report: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("dualflow-report.html"),
    csv: Annotated[Path | None, typer.Option(help="Write the rows as CSV too.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no HTML report.")] = False,
) -> None:
    """Compare all solvers on the same points: raw gap, refined gap, accuracy, time, circuits."""
    with _clear_errors():
        from ._csv import read_csv
        from .comparison import compare as run

        files = [path for path in (None if no_report else report, csv) if path is not None]
        for path in files:
            _check_writable(path)
        X, y = _digits(digits) if data is None else read_csv(data, label)
        if data is None and (label or classes):
            raise ProblemError("--label and --classes go with --data; for the bundled digits use --digits")
        X, y, first = _two(X, y, _names(classes if data is not None else digits), str(data or "digits"))
        with _progress() as progress:
            comparison = run(
                X,
                y,
                _names(problems) or (),
                _names(solvers),
                max_n,
                C=C,
                nu=nu,
                kernel=kernel,
                gamma=_number_or_text(gamma),
                degree=degree,
                coef0=coef0,
                fit_intercept={"yes": True, "no": False}.get(fit_intercept, fit_intercept),
                shots=shots,
                devices=_names(devices),
                studies=studies,
                inlier_class=first,
                time_limit=time_limit,
                random_state=seed,
                tol=tol,
                progress=progress,
            )
        console = _console()
        console.print(comparison)
        if comparison.interrupted:
            typer.echo("Interrupted; no file was written.", err=True)
            raise typer.Exit(INTERRUPTED)
        if csv is not None:
            comparison.to_csv(csv)
            typer.echo(f"CSV: {csv}")
        if not no_report:
            comparison.to_html(report)
            typer.echo(f"Report: {report}")
        typer.echo(HONEST)


@app.command()
def solvers() -> None:
    """List all solvers: what each can solve, and whether it is installed."""
    with _clear_errors():
        from .registry import list_solvers

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
        _print_table(("solver", "problem kinds", "accuracy", "maturity", "max n", "installed"), rows)


@app.command()
def devices() -> None:
    """List the devices circuits can run on, and whether each is installed."""
    with _clear_errors():
        import dualflow

        rows = [
            (
                info.name,
                ", ".join(word for word in ("exact", "sampled", "noisy") if getattr(info, word)),
                "yes" if info.control else "no",
                "" if info.qubits is None else str(info.qubits),
                info.summary,
                info.install or "yes",
            )
            for info in dualflow.list_devices()
        ]
        _print_table(("device", "gives", "control", "qubits", "what it is", "installed"), rows)


@app.command()
def jobs(file: Annotated[Path, typer.Argument(help="The journal of a run: its solver's option journal.")]) -> None:
    """List the jobs in a journal: what was sent where, and what came of it."""
    with _clear_errors():
        from .quantum.runs.journal import read_journal

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
        _print_table(("job", "submitted", "device", "tag", "circuit", "shots", "seed", "outcome"), rows)


@circuits.command("list")
def list_circuits() -> None:
    """List the circuits that `export` writes: each family's small examples."""
    with _clear_errors():
        from .quantum.circuits import resources
        from .quantum.circuits.export import elementary, examples

        rows = [
            (circuit.name, circuit.family, cost.qubits, cost.parameters, cost.depth, cost.two_qubit_gates)
            for circuit, cost in ((circuit, resources.count(elementary(circuit.build()))) for circuit in examples())
        ]
        _print_table(("circuit", "family", "qubits", "parameters", "depth", "two-qubit gates"), rows)


@circuits.command()
def export(
    out: Annotated[Path, typer.Option(help="Folder, made if need be; other files in it stay.")] = Path("circuits"),
) -> None:
    """Write the circuits as QPY and OpenQASM 3, with manifest.json and README.md; the same bytes every time."""
    with _clear_errors():
        from .quantum.circuits.export import export_circuits

        typer.echo(f"{len(export_circuits(out))} files: {out}")


# --- what the commands share -----------------------------------------------------------------------------


@contextmanager
def _clear_errors() -> Iterator[None]:
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
def _progress() -> Iterator[Any]:
    """A live bar on stderr; nothing where stderr is not a terminal."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("starting", total=None)
        yield lambda done, total, text: bar.update(task, completed=done, total=total, description=text)


def _console() -> Console:
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else WIDTH, highlight=False)


def _print_table(headers: Any, rows: Any) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, header in enumerate(headers):
        table.add_column(header, overflow="fold", no_wrap=number == 0)
    for row in rows:
        table.add_row(*(Text(str(cell)) for cell in row))
    _console().print(table)


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _number_or_text(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _check_writable(path: Path) -> None:
    """Before a minute of work, not after it."""
    if path.is_dir():
        raise ProblemError(f"{path} is a folder; give the name of a file")
    if not path.parent.is_dir():
        raise ProblemError(f"{path}: the folder {path.parent} does not exist; create it or give another path")
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise ProblemError(f"{path} cannot be written: permission denied")


# --- the data --------------------------------------------------------------------------------------------


def _digits(digits: str) -> tuple[NDArray, NDArray]:
    from sklearn.datasets import load_digits

    wanted = _names(digits) or []
    if len(wanted) != 2 or not all(d in set("0123456789") for d in wanted) or wanted[0] == wanted[1]:
        raise ProblemError(f'--digits "{digits}" must be two different digits, such as "1,4"')
    return load_digits(return_X_y=True)


def _two(X: NDArray, y: NDArray, wanted: list[str] | None, source: str) -> tuple[NDArray, NDArray, Any]:
    """The rows of the two wanted labels, and the first of these labels as y has it."""
    import numpy as np

    classes = np.unique(y).tolist()
    if wanted is None:
        if len(classes) > 2:
            shown = ", ".join(map(str, classes[:6])) + (", …" if len(classes) > 6 else "")
            raise ProblemError(
                f"{source} has {len(classes)} classes ({shown}); choose two with --classes "
                f'"{classes[0]},{classes[1]}", or another label column with --label'
            )
        return X, y, None
    if len(wanted) != 2 or wanted[0] == wanted[1]:
        raise ProblemError(f'--classes "{",".join(wanted)}" must be two different labels, such as "A,B"')
    named = {str(label): label for label in classes}
    for text in wanted:
        if text not in named:
            raise ProblemError(f"{source} has no class {text!r}; it has {', '.join(list(named)[:10])}")
    keep = np.isin(y, [named[text] for text in wanted])
    return X[keep], y[keep], named[wanted[0]]
