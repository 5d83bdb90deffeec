"""`dualflow compare`: compare all solvers on scikit-learn's digits, or on two classes of a table."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exceptions import ProblemError
from . import options as shared
from .output import (
    EXIT_INTERRUPTED,
    OVERWRITE_HELP,
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

    from ..comparison import DryRun
    from ..report import Comparison
    from .table import SparseTable, Table
    from .training_data import EncodingOptions

__all__ = ["compare"]

#: How to read the ranks; printed below the table.
RANKING_NOTE = (
    "Solvers that met the tolerance are ranked by time, the others by the raw gap, which is that of the solver's own "
    "answer. The refined gap is that after a classical refinement; it is not evidence for a solver. No quantum "
    "advantage is claimed."
)

#: Columns of the table of a dry run.
DRY_RUN_COLUMNS = ("problem", "solver", "device", "circuits", "shots", "qubits", "depth", "2q gates", "QPU", "cost")


def compare(
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[DATA]",
            help="CSV (any delimiter, .gz), parquet or svmlight with a label column; - is standard input. Without it, "
            "the digits data of scikit-learn.",
        ),
    ] = None,
    data: Annotated[Path | None, typer.Option(help="The same as DATA.")] = None,
    label: Annotated[
        str | None, typer.Option(help="Label column: its name, or its number from 1. The last by default.")
    ] = None,
    classes: Annotated[
        str | None, typer.Option(help='The two labels to compare, "A,B"; svdd is trained on the first.')
    ] = None,
    digits: Annotated[
        str, typer.Option(help="The two digits to compare if there is no DATA; svdd is trained on the first.")
    ] = "1,4",
    problems: Annotated[
        str,
        typer.Option(help="Problems, comma separated: hinge, squared_hinge, svdd, least_squares, discriminant."),
    ] = "hinge,squared_hinge,svdd",
    solvers: Annotated[
        str | None, typer.Option(help="Solver names, comma separated (see dualflow solvers); all by default.")
    ] = None,
    max_n: Annotated[int, typer.Option(help="Number of points that are drawn, both classes together.")] = 64,
    C: Annotated[float, typer.Option("--C", help="As in scikit-learn; inf is the hard margin.")] = 1.0,
    nu: Annotated[
        float | None,
        typer.Option(help="For svdd: the fraction of points that may lie outside, in (0, 1]; without it, none may."),
    ] = None,
    kernel: Annotated[str, typer.Option(help="linear, poly, rbf or sigmoid.")] = "rbf",
    gamma: Annotated[str, typer.Option(help="scale, auto or a number.")] = "scale",
    degree: Annotated[float, typer.Option(help="Degree of the poly kernel.")] = 3.0,
    coef0: Annotated[float, typer.Option(help="Constant of the poly and sigmoid kernels.")] = 0.0,
    fit_intercept: Annotated[
        str, typer.Option(help="Whether models have a bias: yes, no, or penalised (a constant added to the kernel).")
    ] = "yes",
    shots: Annotated[float, typer.Option(help="Shots per circuit; 1e4 is 10000.")] = 10_000,
    devices: Annotated[
        str | None, typer.Option(help="Devices of the quantum solvers, comma separated (see dualflow devices).")
    ] = None,
    studies: Annotated[bool, typer.Option("--studies", help='Include solvers of maturity "study".')] = False,
    seed: Annotated[int, typer.Option(help="Random seed of the drawn points and of every solver.")] = 0,
    time_limit: Annotated[
        float, typer.Option(help="Seconds for each row; a row that reaches it shows its result so far.")
    ] = 2.0,
    total_time_limit: Annotated[
        float | None,
        typer.Option(help="Seconds for the whole comparison; rows that have not begun by then are not run."),
    ] = None,
    tol: Annotated[float, typer.Option(help="Relative gap at which a solver stops.")] = 1e-6,
    report: Annotated[Path, typer.Option(help="The HTML report to write.")] = Path("dualflow-report.html"),
    csv: Annotated[Path | None, typer.Option(help="Also write the rows as CSV, to this file.")] = None,
    no_report: Annotated[bool, typer.Option("--no-report", help="Write no HTML report.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE_HELP)] = False,
    dry: Annotated[
        bool, typer.Option("--dry-run", help="Only list what the quantum rows would send and cost; send nothing.")
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
    """Compare all solvers on the same points.

    The tables show raw gap, refined gap, accuracy, time and the cost of circuits.

    After Ctrl-C, or when the time is up, the report shows the rows that have run.
    """
    with clear_errors():
        from ..comparison import compare as run
        from ..comparison import dry_run
        from ..report.comparison import is_comparison_csv, is_comparison_html
        from .reading import read_new
        from .table import RequestedColumns
        from .training_data import EncodingOptions

        if data is not None and path is not None:
            raise ProblemError(f"the data are given twice, as {path} and as --data {data}; give them once")
        data = path if data is None else data
        if csv is not None and not dry:
            check_output(csv, "--csv", is_comparison_csv, overwrite, data)
        if not no_report and not dry:
            check_output(report, "--report", is_comparison_html, overwrite, data)
            if csv is not None and csv.resolve() == report.resolve():
                raise ProblemError(f"--csv and --report are the same file, {csv}; give two names")
        if data is None:
            if label or classes:
                raise ProblemError("--label and --classes need DATA; for the bundled digits use --digits")
            X, y, first = _two_digits(digits)
        else:
            form = shared.form_of(delimiter, header, decimal, missing, thousands)
            requested = RequestedColumns(label, True, tuple(drop or ()), tuple(text or ()))
            how = EncodingOptions(one_hot, impute, standardise)
            X, y, first = _two_classes(read_new(data, requested, form, format), _split_names(classes), how)
        arguments = (X, y, _split_names(problems) or (), _split_names(solvers), max_n)
        options: dict[str, Any] = {
            "C": C,
            "nu": nu,
            "kernel": kernel,
            "gamma": shared.number_or_text(gamma),
            "degree": degree,
            "coef0": coef0,
            "fit_intercept": {"yes": True, "no": False}.get(fit_intercept, fit_intercept),
            "shots": shots,
            "devices": _split_names(devices),
            "studies": studies,
            "inlier_class": first,
            "time_limit": time_limit,
            "random_state": seed,
            "tol": tol,
        }
        if dry:
            with progress_bar() as progress:
                forecast = dry_run(*arguments, **options, progress=progress)
            _print_forecast(forecast, json)
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
            say("Interrupted." if no_report else "Interrupted; the report shows the rows that have run.", err=True)
            raise typer.Exit(EXIT_INTERRUPTED)
        if not json:
            say(RANKING_NOTE)


def _print_forecast(forecast: DryRun, json: bool) -> None:
    """Print the result of a dry run, as a table or as JSON."""
    if json:
        rows = [dict(zip(DRY_RUN_COLUMNS, cells, strict=True)) for cells in forecast.cells()]
        say_json({"rows": rows, "total": forecast.total()})
        return
    print_table(DRY_RUN_COLUMNS, forecast.cells())
    for line in (*forecast.left_out(), *forecast.advice(), forecast.total(), "Nothing was sent."):
        say(line)


def _plain(comparison: Comparison) -> dict[str, Any]:
    """Return a comparison as plain values; its rows are without their solutions."""
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


def _split_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _two_digits(digits: str) -> tuple[NDArray, NDArray, Any]:
    from sklearn.datasets import load_digits

    wanted = _split_names(digits) or []
    if len(wanted) != 2 or not all(d in set("0123456789") for d in wanted) or wanted[0] == wanted[1]:
        raise ProblemError(f'--digits "{digits}" must be two different digits, such as "1,4"')
    X, y = load_digits(return_X_y=True)
    keep, first = _rows_of_two(y, wanted, "digits")
    return X[keep], y[keep], first


def _two_classes(
    table: Table | SparseTable, wanted: list[str] | None, how: EncodingOptions
) -> tuple[Any, NDArray, Any]:
    """Return points and labels of two classes of a table, and the first of the two labels."""
    import numpy as np

    from .encoding import checked_width
    from .labels import labels_of

    y = labels_of(table)
    keep, first = _rows_of_two(y, wanted, table.source)
    table = table.take(np.flatnonzero(keep))
    X = how.encoded(table)[1]
    for note in getattr(table, "notes", ()):
        say(note, err=True)
    if not isinstance(X, np.ndarray):
        checked_width(*X.shape)
        X = X.toarray()
    return X, y[keep], first


def _rows_of_two(y: NDArray, wanted: list[str] | None, source: str) -> tuple[NDArray, Any]:
    """Return which rows have one of the two wanted labels, and the first of these labels as it is in y."""
    import numpy as np

    classes = np.unique(y).tolist()
    if wanted is None:
        if len(classes) > 2:
            shown = ", ".join(map(str, classes[:6])) + (", …" if len(classes) > 6 else "")
            raise ProblemError(
                f"{source} has {len(classes)} classes ({shown}); choose two of them with --classes "
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
