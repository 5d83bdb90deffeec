"""`dualflow compare`: the main job on bundled digits, or on two classes of a CSV file."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exceptions import ProblemError
from . import options as shared
from .output import (
    INTERRUPTED,
    OVERWRITE,
    check_output,
    clear_errors,
    console,
    print_table,
    progress_bar,
    say,
    say_json,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..report import Comparison
    from .prepared import How
    from .table import Sparse, Table

__all__ = ["compare"]

HONEST = (
    "Who met the tolerance is ranked by time, the others by the raw gap, what each solver itself delivered; the "
    "refined gap stands beside it and is no evidence for a solver. No quantum advantage is claimed."
)

#: Columns of a dry run.
DRY = ("problem", "solver", "device", "circuits", "shots", "qubits", "depth", "2q gates", "QPU", "cost")


def compare(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA]",
            help="CSV (any delimiter, .gz), parquet or svmlight with a label column, - for standard input; without it, "
            "scikit-learn's bundled digits.",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The same as DATA.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Label column: its name, or its number from 1. The last by default.")
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
    shots: Annotated[float, typer.Option(help="Per circuit; 1e4 is 10000.")] = 10_000,
    devices: Annotated[str | None, typer.Option(help="For quantum solvers, comma separated.")] = None,
    studies: Annotated[bool, typer.Option("--studies", help="Include solvers that are studies.")] = False,
    seed: Annotated[int, typer.Option(help="Of the subsample and of every solver.")] = 0,
    time_limit: Annotated[float, typer.Option(help="Seconds a row; it shows what there is by then.")] = 2.0,
    total_time_limit: Annotated[
        float | None, typer.Option(help="Seconds for all of it; rows that are not reached by then are not run.")
    ] = None,
    tol: Annotated[float, typer.Option(help="Relative gap at which a run ends.")] = 1e-6,
    report: Annotated[Path, typer.Option(help="Where the HTML report goes.")] = Path("dualflow-report.html"),
    csv: Annotated[Path | None, typer.Option(help="Write the rows of the result as CSV, too, to this file.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no HTML report.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE)] = False,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Only say what the quantum rows would send and cost; send nothing.")
    ] = False,
    drop: shared.Drop = None,
    text: shared.Text = None,
    one_hot: shared.OneHot = True,
    impute: shared.Impute = True,
    standardise: shared.Standardise = None,
    delimiter: shared.Delimiter = None,
    header: shared.Header = None,
    decimal: shared.Decimal = ".",
    thousands: shared.Thousands = None,
    missing: shared.Missing = None,
    format: shared.Format = None,
    json: shared.Json = False,
) -> None:
    """Compare all solvers on the same points: raw gap, refined gap, accuracy, time, circuits.

    On Ctrl-C, and when the time is up, the report has what there is.
    """
    with clear_errors():
        from ..comparison import compare as run
        from ..comparison import dry_run
        from ..report.comparison import is_comparison_csv, is_comparison_html
        from .prepared import How
        from .reading import read_new
        from .table import Asked

        if data is not None and path is not None:
            raise ProblemError(f"the data are named twice, {path} and --data {data}; name them once")
        data = path if data is None else data
        if csv is not None and not dry:
            check_output(csv, "--csv", is_comparison_csv, overwrite, data)
        if not no_report and not dry:
            check_output(report, "--report", is_comparison_html, overwrite, data)
            if csv is not None and csv.resolve() == report.resolve():
                raise ProblemError(f"--csv and --report are the same file, {csv}; give two names")
        if data is None:
            if label or classes:
                raise ProblemError("--label and --classes go with --data; for the bundled digits use --digits")
            X, y, first = _two_digits(digits)
        else:
            form = shared.form_of(delimiter, header, decimal, missing, thousands)
            asked = Asked(label, True, tuple(drop or ()), tuple(text or ()))
            how = How(one_hot, impute, standardise)
            X, y, first = _two_of(read_new(data, asked, form, format), _names(classes), how)
        arguments = (X, y, _names(problems) or (), _names(solvers), max_n)
        options: dict[str, Any] = {
            "C": C,
            "nu": nu,
            "kernel": kernel,
            "gamma": shared.number_or_text(gamma),
            "degree": degree,
            "coef0": coef0,
            "fit_intercept": {"yes": True, "no": False}.get(fit_intercept, fit_intercept),
            "shots": shots,
            "devices": _names(devices),
            "studies": studies,
            "inlier_class": first,
            "time_limit": time_limit,
            "random_state": seed,
            "tol": tol,
        }
        if dry:
            with progress_bar() as progress:
                forecast = dry_run(*arguments, **options, progress=progress)
            if json:
                rows = [dict(zip(DRY, cells, strict=True)) for cells in forecast.cells()]
                say_json({"rows": rows, "total": forecast.total()})
                return
            print_table(DRY, forecast.cells())
            for line in (*forecast.left_out(), *forecast.advice(), forecast.total(), "Nothing was sent."):
                say(line)
            return
        with progress_bar() as progress:
            try:
                comparison = run(
                    *arguments,
                    **options,
                    total_time_limit=total_time_limit,
                    progress=progress,
                    announce=partial(say, err=True),
                )
            except KeyboardInterrupt as interrupt:
                if not hasattr(interrupt, "comparison"):
                    raise
                comparison = interrupt.comparison
        if json:
            say_json(_plain(comparison))
        else:
            console().print(comparison)
        if csv is not None:
            comparison.to_csv(csv)
            say(f"CSV: {csv}", err=json)
        if not no_report:
            comparison.to_html(report)
            say(f"Report: {report}", err=json)
        if comparison.interrupted:
            say("Interrupted." if no_report else "Interrupted; the report has what there was.", err=True)
            raise typer.Exit(INTERRUPTED)
        if not json:
            say(HONEST)


def _plain(comparison: Comparison) -> dict[str, Any]:
    """A comparison in plain values: its rows without their solutions."""
    from dataclasses import fields

    from ..report.verdict import overall

    rows = [{f.name: getattr(row, f.name) for f in fields(row) if f.name != "solution"} for row in comparison.rows]
    return {
        "verdict": overall(comparison),
        "interrupted": comparison.interrupted,
        "settings": comparison.settings,
        "versions": comparison.versions,
        "rows": rows,
    }


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _two_digits(digits: str) -> tuple[NDArray, NDArray, Any]:
    from sklearn.datasets import load_digits

    wanted = _names(digits) or []
    if len(wanted) != 2 or not all(d in set("0123456789") for d in wanted) or wanted[0] == wanted[1]:
        raise ProblemError(f'--digits "{digits}" must be two different digits, such as "1,4"')
    X, y = load_digits(return_X_y=True)
    keep, first = _two(y, wanted, "digits")
    return X[keep], y[keep], first


def _two_of(table: Table | Sparse, wanted: list[str] | None, how: How) -> tuple[Any, NDArray, Any]:
    """Points and labels of two classes of a table, and the first of these labels."""
    import numpy as np

    from .encoding import affordable
    from .labels import labels_of

    y = labels_of(table)
    keep, first = _two(y, wanted, table.source)
    table = table.take(np.flatnonzero(keep))
    X = how.encoded(table)[1]
    for note in getattr(table, "notes", ()):
        say(note, err=True)
    if not isinstance(X, np.ndarray):
        affordable(*X.shape)
        X = X.toarray()
    return X, y[keep], first


def _two(y: NDArray, wanted: list[str] | None, source: str) -> tuple[NDArray, Any]:
    """Which rows have one of the two wanted labels, and the first of these labels as y has it."""
    import numpy as np

    classes = np.unique(y).tolist()
    if wanted is None:
        if len(classes) > 2:
            shown = ", ".join(map(str, classes[:6])) + (", …" if len(classes) > 6 else "")
            raise ProblemError(
                f"{source} has {len(classes)} classes ({shown}); choose two with --classes "
                f'"{classes[0]},{classes[1]}", or another label column with --label'
            )
        return np.ones(len(y), dtype=bool), None
    if len(wanted) != 2 or wanted[0] == wanted[1]:
        raise ProblemError(f'--classes "{",".join(wanted)}" must be two different labels, such as "A,B"')
    named = {str(label): label for label in classes}
    for text in wanted:
        if text not in named:
            raise ProblemError(f"{source} has no class {text!r}; it has {', '.join(list(named)[:10])}")
    keep = np.isin(y, [named[text] for text in wanted])
    return keep, named[wanted[0]]
