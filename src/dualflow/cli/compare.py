"""`dualflow compare`: models and solvers on two classes of a table, or all solvers on scikit-learn's digits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exceptions import ProblemError
from . import options as shared
from .output import (
    EXIT_INTERRUPTED,
    Json,
    check_output,
    clear_errors,
    print_stripped,
    print_table,
    progress_bar,
    say,
    say_json,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..report import Comparison
    from .table import SparseTable, Table
    from .training_data import EncodingOptions

#: How to read the ranks; printed below the table.
RANKING_NOTE = (
    "Solvers that met the tolerance are ranked by time, the others by the raw gap, which is that of the solver's own "
    "answer. The refined gap is that after a classical refinement; it is not evidence for a solver. No quantum "
    "advantage is claimed."
)

#: Training rows of a table that are drawn at most by default: scikit-learn's SVC takes seconds for them.
MAX_TABLE_ROWS = 10_000
#: Training rows for solvers that run circuits: six qubits hold them.
CIRCUIT_ROWS = 64
#: Rows from which on a fifth is held out.
MIN_SPLIT_ROWS = 10
#: Seconds for a row of a table, and of the digits.
TABLE_LIMIT_S = 4.0
DIGITS_LIMIT_S = 2.0
#: Seconds after which no row of a table begins.
TABLE_TOTAL_LIMIT_S = 45.0
#: Columns of the table of a dry run.
DRY_RUN_COLUMNS = ("problem", "solver", "device", "circuits", "shots", "qubits", "depth", "2q gates", "QPU", "cost")

# Options of the command, each with its help.
PathOption = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATA",
        help="CSV (any delimiter, .gz), parquet or svmlight with a label column; - is standard input. Without it, "
        "the digits data of scikit-learn.",
    ),
]
Data = Annotated[Path | None, typer.Option(help="The same as DATA.", rich_help_panel=shared.TABLE)]
LabelOption = Annotated[
    str | None,
    typer.Option(
        help="Label column: its name, or its number from 1. The last by default.", rich_help_panel=shared.TABLE
    ),
]
Classes = Annotated[
    str | None,
    typer.Option(
        help='The two labels to compare, "A,B"; svdd is trained on the first.', rich_help_panel=shared.CLASSES
    ),
]
Digits = Annotated[
    str,
    typer.Option(
        help="The two digits to compare if there is no DATA; svdd is trained on the first.",
        rich_help_panel=shared.TABLE,
    ),
]
Quantum = Annotated[
    bool,
    typer.Option(
        "--quantum",
        help="Add the solvers that run circuits, with their controls, on 64 of the rows.",
        rich_help_panel=shared.LIMITS,
    ),
]
Every = Annotated[
    bool,
    typer.Option(
        "--all",
        help="Add the problems squared_hinge (L2-SVM) and svdd, beside hinge.",
        rich_help_panel=shared.MODEL,
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        help='Factors of C for the points of a class: "balanced", or "LABEL=WEIGHT,…"; by default none and, where '
        "classes are unequal, balanced are compared.",
        rich_help_panel=shared.CLASSES,
    ),
]
Scoring = Annotated[
    str,
    typer.Option(
        help="Score that chooses the model: balanced_accuracy, accuracy, recall, precision, f1, average_precision "
        "or roc_auc.",
        rich_help_panel=shared.CLASSES,
    ),
]
ProblemsOption = Annotated[
    str | None,
    typer.Option(
        help="Problems, comma separated: hinge, squared_hinge, svdd, least_squares, discriminant. By default hinge "
        "for DATA, the first three without.",
        rich_help_panel=shared.MODEL,
    ),
]
SolversOption = Annotated[
    str | None,
    typer.Option(
        help="Solver names, comma separated (see dualflow solvers). By default all that run no circuits for DATA, "
        "all without.",
        rich_help_panel=shared.LIMITS,
    ),
]
MaxN = Annotated[
    int | None,
    typer.Option(
        help="Number of training rows that are drawn, both classes together; by default 64 for circuits and "
        "without DATA, else four fifths of the rows, up to 10000.",
        rich_help_panel=shared.TABLE,
    ),
]
COption = Annotated[
    float,
    typer.Option("--C", "-C", help="As in scikit-learn; inf is the hard margin.", rich_help_panel=shared.MODEL),
]
Nu = Annotated[
    float | None,
    typer.Option(
        help="For svdd: the fraction of points that may lie outside, in (0, 1]; without it, none may.",
        rich_help_panel=shared.MODEL,
    ),
]
FitIntercept = Annotated[
    str,
    typer.Option(
        help="Whether models have a bias: yes, no, or penalised (a constant added to the kernel).",
        rich_help_panel=shared.MODEL,
    ),
]
ShotsOption = Annotated[float, typer.Option(help="Shots per circuit; 1e4 is 10000.", rich_help_panel=shared.LIMITS)]
DevicesOption = Annotated[
    str | None,
    typer.Option(
        help="Devices of the quantum solvers, comma separated (see dualflow devices).",
        rich_help_panel=shared.LIMITS,
    ),
]
Studies = Annotated[
    bool, typer.Option("--studies", help='Include solvers of maturity "study".', rich_help_panel=shared.LIMITS)
]
Seed = Annotated[
    int, typer.Option(help="Random seed of the drawn points and of every solver.", rich_help_panel=shared.LIMITS)
]
Seeds = Annotated[
    int,
    typer.Option(
        help="Runs of each row that draws random numbers: the table has medians and quartiles, the report error bars.",
        rich_help_panel=shared.LIMITS,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        help="Seconds for each solver's run; a run that reaches it shows its result so far. 4 for DATA by default, "
        "else 2.",
        rich_help_panel=shared.LIMITS,
    ),
]
TotalTimeLimit = Annotated[
    float | None,
    typer.Option(
        help="Seconds for the whole comparison; runs that have not begun by then are left out. 45 by default for "
        "DATA without circuits.",
        rich_help_panel=shared.LIMITS,
    ),
]
Tol = Annotated[float, typer.Option(help="Relative gap at which a solver stops.", rich_help_panel=shared.LIMITS)]
ReportOption = Annotated[Path, typer.Option(help="The HTML report to write.", rich_help_panel=shared.OUTPUT)]
Csv = Annotated[
    Path | None,
    typer.Option(help="Also write the table of solvers as CSV, to this file.", rich_help_panel=shared.OUTPUT),
]
AllRows = Annotated[
    bool,
    typer.Option(
        "--all-rows",
        help="Print all rows and what circuits took; else these are in the report.",
        rich_help_panel=shared.OUTPUT,
    ),
]
NoReport = Annotated[bool, typer.Option("--no-report", help="Write no HTML report.", rich_help_panel=shared.OUTPUT)]
Dry = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only list what the quantum rows would send and cost; send nothing.",
        rich_help_panel=shared.LIMITS,
    ),
]


def compare(
    path: PathOption = None,
    data: Data = None,
    label: LabelOption = None,
    classes: Classes = None,
    digits: Digits = "1,4",
    quantum: Quantum = False,
    every: Every = False,
    class_weight: ClassWeight = None,
    positive: shared.Positive = None,
    scoring: Scoring = "balanced_accuracy",
    problems: ProblemsOption = None,
    solvers: SolversOption = None,
    max_n: MaxN = None,
    C: COption = 1.0,
    nu: Nu = None,
    kernel: shared.Kernel = "rbf",
    gamma: shared.Gamma = "scale",
    degree: shared.Degree = 3.0,
    coef0: shared.Coef0 = 0.0,
    fit_intercept: FitIntercept = "yes",
    shots: ShotsOption = 10_000,
    devices: DevicesOption = None,
    studies: Studies = False,
    seed: Seed = 0,
    seeds: Seeds = 1,
    time_limit: TimeLimit = None,
    total_time_limit: TotalTimeLimit = None,
    tol: Tol = 1e-6,
    report: ReportOption = Path("dualflow-report.html"),
    csv: Csv = None,
    all_rows: AllRows = False,
    no_report: NoReport = False,
    overwrite: shared.Overwrite = False,
    dry: Dry = False,
    drop: shared.Drop = None,
    text: shared.Text = None,
    keep: shared.Keep = None,
    one_hot: shared.OneHot = True,
    impute: shared.Impute = True,
    standardise: shared.Standardise = None,
    delimiter: shared.Delimiter = None,
    header: shared.Header = None,
    decimal: shared.Decimal = ".",
    thousands: shared.Thousands = None,
    missing: shared.Missing = None,
    format: shared.Format = None,
    json: Json = False,
    help_all: shared.HelpAll = False,
) -> None:
    """Compare models and solvers on a table: which to use.

    With DATA: fits the SVC of scikit-learn and of dualflow to four fifths of the rows, scores them on the others, and
    lets every solver solve the same problem. Without: runs all solvers, those with circuits too, on two digits.

    After Ctrl-C, or when the time is up, the report shows the runs that have ended.
    """
    with clear_errors():
        shared.check_exists(path, data)
        shared.check_class_weight(class_weight)
        from .reading import read_new
        from .table import RequestedColumns
        from .training_data import EncodingOptions

        if data is not None and path is not None:
            raise ProblemError(f"the data are given twice, as {path} and as --data {data}; give them once")
        data = path if data is None else data
        shared.check_kernel(kernel)
        shared.check_numbers(C, gamma)
        outputs = Outputs(csv, None if no_report else report)
        if not dry:
            outputs.check(overwrite, data)
        options: dict[str, Any] = {
            "C": C, "nu": nu, "kernel": kernel, "gamma": shared.number_or_text(gamma), "degree": degree, "coef0": coef0,
            "fit_intercept": {"yes": True, "no": False}.get(fit_intercept, fit_intercept),
            "shots": shots, "devices": _split_names(devices), "studies": studies, "random_state": seed, "seeds": seeds,
            "tol": tol,
        }  # fmt: skip
        if data is None:
            _check_no_table_options(label or classes, positive or class_weight or scoring != "balanced_accuracy")
            found = _two_digits(digits)
        else:
            form = shared.csv_format(delimiter, header, decimal, missing, thousands)
            columns = (tuple(given or ()) for given in (drop, text, keep))
            table = read_new(data, RequestedColumns(label, True, *columns), form, format)
            how = EncodingOptions(one_hot, impute, standardise)
            found = _two_classes(table, _split_names(classes), how, max_n, seed)
        options["inlier_class"] = found.first
        requested = _split_names(problems) or []
        if problems is None:
            requested = ["hinge", "squared_hinge", "svdd"] if every or dry or data is None else ["hinge"]
        circuits = quantum or (devices is not None and solvers is None)
        plan = Plan(requested, _split_names(solvers), max_n, time_limit, total_time_limit, circuits)
        if dry:
            _forecast(plan, found, options, json)
            return
        if data is not None:
            options |= _class_options(found, class_weight, positive, scoring, options)
        with progress_bar() as progress:
            comparison = _run(plan, found, options, progress)
        # With other options of the table or the model the next command would have to repeat them.
        other = (classes, delimiter, header, missing, thousands, format, standardise)
        is_plain = (one_hot, impute, decimal, kernel) == (True, True, ".", "rbf") and other == (None,) * len(other)
        if data is not None and str(data) != "-" and is_plain:
            given = {"--label": [label], "--drop": drop, "--text": text, "--keep": keep}
            comparison = _with_next(comparison, data, given, class_weight)
        outputs.write(comparison, json, all_rows)
        _end(comparison, json, no_report)


def _end(comparison: Comparison, json: bool, no_report: bool) -> None:
    """Print what to do next; exit with `EXIT_INTERRUPTED` if the comparison was interrupted."""
    if comparison.interrupted:
        say("Interrupted." if no_report else "Interrupted; the report shows the rows that have run.", err=True)
        raise typer.Exit(EXIT_INTERRUPTED)
    if json:
        return
    if not comparison.models:
        say(RANKING_NOTE)
    if "next" in comparison.settings:
        say(f"Next: {comparison.settings['next']}")


def _check_no_table_options(of_table: object, of_classes: object) -> None:
    """Raise ProblemError if options of a table are given without one."""
    if of_table:
        raise ProblemError("--label and --classes need DATA; for the bundled digits use --digits")
    if of_classes:
        raise ProblemError("--class-weight, --positive and --scoring need DATA; the digits have classes of one size")


@dataclass(frozen=True)
class Outputs:
    """The files that a comparison is written to; None for one that is not."""

    csv: Path | None
    report: Path | None

    def check(self, overwrite: bool, data: Path | None) -> None:
        """Raise ProblemError, before any work, if a file cannot or must not be written."""
        from ..report.comparison import is_comparison_csv, is_comparison_html

        if self.csv is not None:
            check_output(self.csv, "--csv", is_comparison_csv, overwrite, data)
        if self.report is not None:
            check_output(self.report, "--report", is_comparison_html, overwrite, data)
        if self.csv is not None and self.report is not None and self.csv.resolve() == self.report.resolve():
            raise ProblemError(f"--csv and --report are the same file, {self.csv}; give two names")

    def write(self, comparison: Comparison, json: bool, all_rows: bool) -> None:
        """Print the comparison, and write the files."""
        if json:
            say_json(_plain(comparison))
        else:
            from ..report.terminal import renderable

            print_stripped(renderable(comparison, brief=not all_rows))
        if self.csv is not None:
            comparison.to_csv(self.csv)
            say(f"CSV: {self.csv}", err=json)
        if self.report is not None:
            comparison.to_html(self.report)
            say(f"Report: {self.report}", err=json)


@dataclass(frozen=True)
class TableRows:
    """The rows of two classes, for training and held out, and their source."""

    #: X, y: shapes (n, m) and (n,).
    X: Any
    y: NDArray
    first: Any  # the first of the two labels that the user named; label or None
    #: X_test, y_test: None leaves it to `compare` to hold out what it does not draw; shapes (k, m) and (k,), or None.
    X_test: Any = None
    y_test: Any = None
    rows: int | None = None  # rows of the table, of which these are drawn; None for the digits
    source: str = ""
    about: dict[str, str] = field(default_factory=dict)  # what was made of the columns, for the report


@dataclass(frozen=True)
class Plan:
    """Which problems and solvers are compared, on how many rows, and for how long."""

    problems: list[str]
    solvers: list[str] | None
    max_n: int | None
    time_limit: float | None
    total_time_limit: float | None
    quantum: bool

    @property
    def circuit_n(self) -> int:
        """Training rows of the sections with circuits."""
        return CIRCUIT_ROWS if self.max_n is None else self.max_n

    @property
    def circuit_limit_s(self) -> float:
        """Seconds for each row of the sections with circuits."""
        return DIGITS_LIMIT_S if self.time_limit is None else self.time_limit

    def split(self) -> tuple[list[str] | None, list[str] | None]:
        """Return the solvers without and with circuits; None is all of them, an empty list none."""
        if self.solvers is None:
            return None, (None if self.quantum else [])
        from ..solvers.registry import list_solvers

        circuits = {info.name for info in list_solvers() if info.quantum}
        named = [name for name in self.solvers if name in circuits]
        plain = [name for name in self.solvers if name not in circuits]
        return plain, (None if self.quantum and not named else named)


def _run(plan: Plan, found: TableRows, options: dict[str, Any], progress: Any) -> Comparison:
    """Return the comparison; after Ctrl-C, that of the rows so far."""
    common = {**options, "progress": progress, "announce": partial(say, err=True)}
    if found.rows is None:
        return _caught(
            found.X, found.y, plan.problems, plan.solvers, plan.circuit_n,
            time_limit=plan.circuit_limit_s, total_time_limit=plan.total_time_limit, **common,
        )  # fmt: skip
    plain, circuits = plan.split()
    if found.X_test is not None:
        common |= {"X_test": found.X_test, "y_test": found.y_test}
    parts: list[Comparison] = []
    if plain != []:
        parts.append(_without_circuits(plan, found, plain, common, circuits != []))
    if circuits != [] and not (parts and parts[0].interrupted):
        weights = parts[0].settings.get("class weights") if parts else None
        parts.append(_on_circuits(plan, found, circuits, common, weights))
    first, *others = parts
    for other in others:
        changed = {f"circuits: {k}": v for k, v in other.settings.items() if first.settings.get(k) != v}
        first = replace(
            first,
            sections=(*first.sections, *other.sections),
            settings=first.settings | changed,
            interrupted=other.interrupted,
        )
    return first


def _without_circuits(
    plan: Plan, found: TableRows, solvers: list[str] | None, common: dict[str, Any], circuits_follow: bool
) -> Comparison:
    """Return the comparison of the models, and of the solvers that run no circuits, on all training rows."""
    no_limit = plan.total_time_limit is None and not circuits_follow
    one = _caught(
        found.X, found.y, plan.problems, solvers, max(len(found.y), 2),
        time_limit=TABLE_LIMIT_S if plan.time_limit is None else plan.time_limit,
        total_time_limit=TABLE_TOTAL_LIMIT_S if no_limit else plan.total_time_limit, circuits=False, **common,
    )  # fmt: skip
    used = len(found.y) + (0 if found.y_test is None else len(found.y_test))
    if found.rows is not None and used < found.rows:
        one = _with_titles(one, f"{len(found.y)} of {found.rows} rows, drawn at random")
    about = {"table": f"{found.source}, {found.rows} rows", **found.about}
    return replace(one, settings=about | one.settings)


def _on_circuits(
    plan: Plan, found: TableRows, solvers: list[str] | None, common: dict[str, Any], weights: Any
) -> Comparison:
    """Return the comparison of solvers with circuits, on few rows; ``weights`` are the class weights of "auto"."""
    common = {name: value for name, value in common.items() if name not in ("models", "positive", "scoring")}
    common["class_weight"] = weights if common.get("class_weight") == "auto" else common.get("class_weight")
    problems = list(dict.fromkeys([*plan.problems, *(("squared_hinge",) if plan.problems == ["hinge"] else ())]))
    one = _caught(
        found.X, found.y, problems, solvers or _circuits_and_yardsticks(common["studies"]), plan.circuit_n,
        time_limit=plan.circuit_limit_s, total_time_limit=plan.total_time_limit, **common,
    )  # fmt: skip
    return _with_titles(one, f"circuits on {min(plan.circuit_n, len(found.y))} of {found.rows} rows")


def _with_titles(comparison: Comparison, text: str) -> Comparison:
    """Return a comparison whose sections say in their titles on which rows they ran."""
    sections = (replace(section, title=f"{section.title}, {text}") for section in comparison.sections)
    return replace(comparison, sections=tuple(sections))


def _circuits_and_yardsticks(studies: bool) -> list[str]:
    """Return the solvers that run circuits, and two others to compare them with."""
    from ..solvers.registry import list_solvers

    known = [info for info in list_solvers() if info.quantum and (studies or info.maturity != "study")]
    return ["working-set", "cvxopt", *(info.name for info in known)]


def _caught(*arguments: Any, **options: Any) -> Comparison:
    """Run a comparison, and return that of the rows so far after Ctrl-C."""
    from ..comparison import compare as compare_solvers

    try:
        return compare_solvers(*arguments, **options)
    except KeyboardInterrupt as interrupt:
        if not hasattr(interrupt, "comparison"):
            raise
        return interrupt.comparison


def _class_options(
    found: TableRows, class_weight: str | None, positive: str | None, scoring: str, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the arguments of `compare` on classes and models."""
    import math

    import numpy as np

    from ..comparison.models import model_kernels
    from .labels import class_weights_of, label_named

    classes = np.unique(found.y).tolist()
    written = tuple(map(str, classes))
    weights = None if class_weight is None else class_weights_of(class_weight, classes, written, found.source)
    named = None if positive is None else label_named(positive, "--positive", classes, written, found.source)
    fits = options["fit_intercept"] is True and math.isfinite(options["C"])
    models = fits and options["kernel"] in model_kernels() and found.X_test is not None
    auto = "auto" if models and class_weight is None else weights
    return {"class_weight": auto, "models": models, "positive": named, "scoring": scoring}


def _forecast(plan: Plan, found: TableRows, options: dict[str, Any], json: bool) -> None:
    """Print what the quantum rows would send and cost, as a table or as JSON."""
    from ..comparison import dry_run

    with progress_bar() as progress:
        arguments = (found.X, found.y, plan.problems, plan.solvers, plan.circuit_n)
        forecast = dry_run(*arguments, time_limit=plan.circuit_limit_s, **options, progress=progress)
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
        "models": [score.plain() for score in comparison.models],
        "interrupted": comparison.interrupted,
        "settings": comparison.settings,
        "versions": comparison.versions,
        "rows": rows,
    }


def _split_names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def _with_next(comparison: Comparison, data: Path, given: dict[str, Any], class_weight: str | None) -> Comparison:
    """Add the command line that trains the best model on the same columns, with a search and probabilities."""
    import shlex

    from ..report.scores import best_model

    best = best_model(comparison.models, comparison.scoring)
    if best is None:
        return comparison
    words = ["dualflow", "train", str(data)]
    given = given | {"--class-weight": [best.class_weight if class_weight is None else class_weight]}
    for option, values in given.items():
        words += [word for value in values or () if value is not None for word in (option, value)]
    return replace(comparison, settings=comparison.settings | {"next": shlex.join([*words, "--search", "--proba"])})


def _two_digits(digits: str) -> TableRows:
    from sklearn.datasets import load_digits

    wanted = _split_names(digits) or []
    if len(wanted) != 2 or not all(d in set("0123456789") for d in wanted) or wanted[0] == wanted[1]:
        raise ProblemError(f'--digits "{digits}" must be two different digits, such as "1,4"')
    X, y = load_digits(return_X_y=True)
    keep, first = _rows_of_two(y, wanted, "digits")
    return TableRows(X[keep], y[keep], first)


def _two_classes(
    table: Table | SparseTable, wanted: list[str] | None, how: EncodingOptions, max_n: int | None, seed: int
) -> TableRows:
    """Return the rows of two classes of a table, a fifth of them held out; the encoding is that of the others."""
    import numpy as np

    from ..comparison.tasks import stratified
    from ..core.options import Number
    from .encoding import checked_width, without_row_names
    from .labels import labels_of
    from .table import Table

    y = labels_of(table)
    keep, first = _rows_of_two(y, wanted, table.source)
    source, labels = table.source, y[keep]
    if len(classes := np.unique(labels)) < 2:
        how.encoded(table)  # a fault of the cells comes first: it may be why there is one class
        raise ProblemError(f"{source}: the label has a single class, {classes[0]}; a comparison needs two")
    most = MAX_TABLE_ROWS if max_n is None else Number(at_least=2, whole=True).check("max_n", max_n)
    n = int(np.sum(keep))
    rng = np.random.default_rng(Number(at_least=0, whole=True).check("--seed", seed))
    chosen = np.flatnonzero(keep)
    if isinstance(table, Table):
        if n < len(table):
            table, chosen = table.take(chosen), np.arange(n)
        table = without_row_names(table)
    held_out = n // 5 if n >= MIN_SPLIT_ROWS else 0
    training = min(n - held_out, most)
    second = labels == classes[1]
    train = stratified(second, training, rng)
    rest = np.setdiff1d(np.arange(n), train)
    parts = [train]
    if held_out:
        size = min(len(rest), max(held_out, MIN_SPLIT_ROWS) if n <= MAX_TABLE_ROWS else MAX_TABLE_ROWS // 4)
        parts.append(rest[stratified(second[rest], max(size, 2), rng)])
    part = table.take(chosen[train])
    encoding = how.encoding(part)
    notes = list(dict.fromkeys([*getattr(table, "notes", ()), *getattr(part, "notes", ())]))
    for note in notes:
        say(note, err=True)
    about = _about(part, encoding, notes)
    points = []
    for rows in parts:
        X = encoding.transform(table.take(chosen[rows]))[0]
        if not isinstance(X, np.ndarray):
            checked_width(*X.shape)
            X = X.toarray()
        points.append(X)
    if len(parts) == 1:
        return TableRows(points[0], labels[train], first, rows=n, source=source, about=about)
    return TableRows(points[0], labels[train], first, points[1], labels[parts[1]], n, source, about)


def _about(part: Table | SparseTable, encoding: Any, notes: list[str]) -> dict[str, str]:
    """Return what was made of the columns: features, filled gaps, and the notes on the table."""
    from .table import Table

    if not isinstance(part, Table):
        return {}
    found = {"features": f"{len(encoding.features)}, of {len(encoding.columns)} columns"}
    if gaps := part.gaps():
        found["gaps filled"] = f"{gaps} of {len(part)} training rows, by the median or the most frequent text"
    return found | ({"notes": " ".join(notes)} if notes else {})


def _rows_of_two(y: NDArray, wanted: list[str] | None, source: str) -> tuple[NDArray, Any]:
    """Return which rows have one of the two wanted labels, and the first of these labels as it is in y."""
    import numpy as np

    from .training_data import MAX_CLASS_NUMBERS

    classes = np.unique(y).tolist()
    if wanted is None:
        if len(classes) > MAX_CLASS_NUMBERS and isinstance(classes[0], (int, float)):
            raise ProblemError(
                f"the label of {source} has {len(classes)} different numbers, and compare is for two classes; "
                f"dualflow train {source} --kind svr --cv 5 fits and scores numbers"
            )
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
