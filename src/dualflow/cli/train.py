"""`dualflow train`: train a model on a table, and save it with the description of the table."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exceptions import ProblemError
from . import options as shared
from .output import (
    Json,
    check_output,
    clear_errors,
    print_table,
    print_warnings,
    progress_bar,
    say,
    say_json,
)

if TYPE_CHECKING:
    from .training import Fitted, Scored
    from .training_data import TrainingData

# Options of the command, each with its help.
Out = Annotated[Path, typer.Option(help="The model file to write.", rich_help_panel=shared.OUTPUT)]
LabelOption = Annotated[
    str | None,
    typer.Option(
        help="Label column: its name, or its number from 1. The last by default; none for svdd and one-class.",
        rich_help_panel=shared.TABLE,
    ),
]
Kind = Annotated[
    str | None,
    typer.Option(
        help="svc or nu-svc (classes), svr or nu-svr (numbers), svdd or one-class (outliers); by default svc if "
        "labels are classes.",
        rich_help_panel=shared.MODEL,
    ),
]
COption = Annotated[
    float | None,
    typer.Option(
        "--C", "-C", help="For svc, svr and nu-svr, as in scikit-learn; 1 by default.", rich_help_panel=shared.MODEL
    ),
]
Nu = Annotated[
    str | None,
    typer.Option(
        help="For svdd and one-class: the fraction of points that may lie outside. For nu-svc and nu-svr: the "
        "fraction that may lie on the wrong side of the margin or outside of the tube.",
        rich_help_panel=shared.MODEL,
    ),
]
Epsilon = Annotated[
    float | None,
    typer.Option(help="For svr: errors up to this size cost nothing; 0.1 by default.", rich_help_panel=shared.MODEL),
]
Search = Annotated[
    bool,
    typer.Option(
        "--search",
        help="Choose C, gamma and, of unequal classes, the weights by cross-validation before the fit.",
        rich_help_panel=shared.SCORES,
    ),
]
SearchTime = Annotated[
    float | None,
    typer.Option(
        help="Seconds for --search, 60 by default; the best setting that was reached is taken.",
        rich_help_panel=shared.SCORES,
    ),
]
Scoring = Annotated[
    str | None,
    typer.Option(
        help="Score of --search and --cv, a name of scikit-learn's; by default accuracy, of unequal classes "
        "balanced_accuracy, and of numbers r2.",
        rich_help_panel=shared.SCORES,
    ),
]
Proba = Annotated[
    bool,
    typer.Option(
        "--proba",
        help="Calibrate probabilities by leave-one-out, for dualflow predict --proba.",
        rich_help_panel=shared.SCORES,
    ),
]
Cv = Annotated[
    int | None,
    typer.Option(
        help="Number of folds: cross-validate the model; scores are then of rows it had not seen.",
        rich_help_panel=shared.SCORES,
    ),
]
Solver = Annotated[
    str, typer.Option(help="Name of a solver (see dualflow solvers), or auto.", rich_help_panel=shared.LIMITS)
]
Tol = Annotated[float, typer.Option(help="Relative gap up to which a model is optimal.", rich_help_panel=shared.LIMITS)]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        help="Maximum seconds for the fit, and for the search without --search-time.", rich_help_panel=shared.LIMITS
    ),
]
Seed = Annotated[int, typer.Option(help="Random seed of folds and solvers.", rich_help_panel=shared.SCORES)]


def train(
    data: shared.Data,
    out: Out = Path("model.dualflow"),
    label: LabelOption = None,
    kind: Kind = None,
    C: COption = None,
    nu: Nu = None,
    epsilon: Epsilon = None,
    class_weight: shared.ClassWeight = None,
    positive: shared.Positive = None,
    kernel: shared.Kernel = "rbf",
    gamma: shared.Gamma = "scale",
    degree: shared.Degree = 3.0,
    coef0: shared.Coef0 = 0.0,
    search: Search = False,
    search_time: SearchTime = None,
    scoring: Scoring = None,
    proba: Proba = False,
    cv: Cv = None,
    solver: Solver = "auto",
    tol: Tol = 1e-6,
    time_limit: TimeLimit = None,
    seed: Seed = 0,
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
    overwrite: shared.Overwrite = False,
    json: Json = False,
    help_all: shared.HelpAll = False,
) -> None:
    """Train a model on a table, and save it. Exit code 1: the model is saved, but not certified to --tol."""
    with clear_errors():
        shared.check_exists(data)
        shared.check_class_weight(class_weight)
        from ..core.options import Number
        from ..exceptions import FitError
        from ..persistence import container
        from .reading import read_new
        from .table import RequestedColumns
        from .training import SEARCH_BUDGET_S, Steps, cv_splits, fitted_model, new_model, scored_model, search_splits
        from .training_data import LABELLED, ClassOptions, EncodingOptions, training_data

        begun = time.perf_counter()
        _check_options(kind, kernel, search, search_time, scoring, cv)
        shared.check_numbers(C, gamma, [solver])
        seed = Number(at_least=0, whole=True).check("--seed", seed)
        budget_s = Number(above=0, none=True, note="(in seconds)").check("--search-time", search_time)
        budget_s = next((s for s in (budget_s, time_limit) if s is not None), SEARCH_BUDGET_S)
        steps = Steps(search, budget_s, proba, cv, seed)
        replaced = check_output(out, "--out", container.is_model_file, overwrite, data)
        form = shared.csv_format(delimiter, header, decimal, missing, thousands)
        columns = (tuple(given or ()) for given in (drop, text, keep))
        requested = RequestedColumns(label, kind in (None, *LABELLED), *columns)
        options = ClassOptions(class_weight, positive, scoring, proba)
        with progress_bar() as progress:
            progress(0, None, f"reading {data}")
            table = read_new(data, requested, form, format)
            read = training_data(table, form.cells, kind, EncodingOptions(one_hot, impute, standardise), options)
            for note in getattr(read.table, "notes", ()):
                say(note, err=True)
            own = {"C": C, "nu": nu if nu is None else shared.number_or_text(nu), "epsilon": epsilon}
            model = new_model(
                read.kind, own | {"class-weight": read.classes.weights},
                kernel=kernel, gamma=shared.number_or_text(gamma), degree=degree, coef0=coef0,
                solver=solver, tol=tol, time_limit=time_limit, random_state=seed,
            )  # fmt: skip
            splits = cv_splits(read, steps)
            try:
                with print_warnings():
                    fitted = fitted_model(read, model, steps, progress, partial(say, err=True))
                    read.description().save(fitted.model, out)
                    splits = splits or search_splits(read, steps, fitted.search)
                    scored = scored_model(read, fitted.model, splits, progress)
            except FitError as error:  # the options are valid, but the problem has no such model: exit code 1
                say("Failed: " + " ".join(str(error).split()), err=True)
                raise typer.Exit(1) from None
        facts = {"model": str(out), "replaced": replaced, **_facts(read, fitted, scored, tol)}
        facts["seconds"] = round(time.perf_counter() - begun, 3)
        if json:
            say_json(facts)
        else:
            _print(facts, both=cv is not None)
            _print_scores(fitted, scored)
        if not facts["optimal"]:
            raise typer.Exit(1)


def _check_options(
    kind: str | None, kernel: str, search: bool, search_time: float | None, scoring: str | None, cv: int | None
) -> None:
    """Raise ProblemError for options that are unknown, or that need another one."""
    from .training_data import KINDS

    if kind is not None and kind not in KINDS:
        raise ProblemError(f"--kind {kind!r} must be one of {', '.join(KINDS)}")
    shared.check_kernel(kernel)
    if search_time is not None and not search:
        raise ProblemError("--search-time is the time of --search; add --search, or leave it out")
    if scoring is not None and not search and cv is None:
        raise ProblemError("--scoring is the score of --search and --cv; add one of them, or leave it out")


def _facts(read: TrainingData, fitted: Fitted, scored: Scored, tol: float) -> dict[str, Any]:
    """Return what is printed of a trained model."""
    model, counts = fitted.model, scored.counts
    gap = model.certificate_.relative_gap
    return {
        "kind": read.kind,
        "points": int(read.X.shape[0]),
        "features": int(read.X.shape[1]),
        "gaps_filled": read.gaps_filled,
        "label": _label_of(read),
        "classes": list(read.written) or None,
        "support_vectors": len(model.support_),
        "parameters": _parameters(model),
        "relative_gap": gap,
        "tol": tol,
        "optimal": gap is not None and gap <= tol,
        "circuits": list(model.raw_summaries_) or None,
        "search": fitted.search,
        "cross_validation": scored.cross_validation,
        "probabilities": hasattr(fitted.model, "predict_proba"),
        "scored_rows": None if counts is None else "unseen" if scored.folds else "training",
        "scores": None if counts is None else counts.plain(),
    }


def _label_of(read: TrainingData) -> str | None:
    """Return the name of the label's column, or its number from 1; None without labels."""
    table = read.description()
    if table.label_place is None:
        return None
    return table.label if table.label is not None else f"column {table.label_place + 1}"


def _parameters(model: Any) -> dict[str, Any]:
    names: tuple[str, ...] = ("C", "epsilon", "nu", "class_weight", "kernel", "gamma")
    if getattr(model, "class_weight", None) is None:
        names = tuple(name for name in names if name != "class_weight")
    if model.kernel == "linear":
        names = names[:-1]
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _print(facts: dict[str, Any], both: bool) -> None:
    """Print the facts; of the scores of a search and of its folds, which are alike, only the first unless ``both``."""
    from ..report.columns import gap_text
    from ..report.scores import score_title

    gap = facts["relative_gap"]
    certified = "none: the kernel is indefinite" if gap is None else gap_text(gap)
    verdict = f"{'optimal' if facts['optimal'] else 'NOT optimal'} to {facts['tol']:g}"
    settings = [f"{name} {_short(value)}" for name, value in facts["parameters"].items()]
    rows = [
        ("model", ", ".join([facts["kind"], *settings])),
        ("points", facts["points"]),
        ("features, encoded", facts["features"]),
        ("label", facts["label"]),
        ("classes", None if facts["classes"] is None else _first_names(facts["classes"])),
        ("support vectors", facts["support_vectors"]),
        ("certified relative gap", f"{certified}, {verdict}"),
    ]
    rows += [("circuits", summary) for summary in facts["circuits"] or ()]
    if facts["search"]:
        found = facts["search"]
        rows.append((f"{score_title(found['scoring'])} in the search", search_text(found)))
    if facts["cross_validation"] and (both or not facts["search"]):
        found = facts["cross_validation"]
        score = score_title(found["scoring"])
        rows.append((f"{score}, {found['folds']} folds", f"{found['mean']:.4g} ± {found['std']:.2g}"))
    if facts["probabilities"]:
        rows.append(("probabilities", "calibrated by leave-one-out; dualflow predict --proba"))
        if "class_weight" in facts["parameters"]:
            rows.append(("", "predictions follow the class weights, probabilities do not: they can differ"))
    rows.append(("gaps filled", facts["gaps_filled"]))
    replaced = "" if facts["replaced"] is None else f", in place of the model of {facts['replaced']}"
    rows += [("seconds", f"{facts['seconds']:.1f}"), ("saved as", f"{facts['model']}{replaced}")]
    print_table(("", ""), [(name, value) for name, value in rows if value is not None])


def search_text(found: dict[str, Any]) -> str:
    """Return the score of a search, and of how many settings it is the best."""
    missed = found["candidates"] - found["finished"]
    of = f"{found['finished']} of {found['candidates']}" if missed else found["candidates"]
    more = f"; {missed} {'was' if missed == 1 else 'were'} not reached in time" if missed else ""
    edges = "".join(f"; {name} is the {end} that it tries" for name, end in found.get("edges", {}).items())
    return f"{found['score']:.4g}, the best of {of} settings{more}{edges}"


def _print_scores(fitted: Fitted, scored: Scored) -> None:
    """Print the scores of the classes, and of which rows they are."""
    from .scores import score_lines

    if scored.line is not None:
        say(scored.line)
    if scored.counts is None:
        return
    title = "training rows (new rows score lower; --cv 5 scores unseen rows)"
    if scored.folds:
        title = f"rows, each by a fold that had not seen it ({scored.folds} folds)"
        title += "; the choice of the setting has seen them" if fitted.search else ""
    for line in score_lines(scored.counts, title, fitted.model.class_weight is not None):
        say(line)


def _short(value: Any) -> Any:
    """Return a number with 6 digits, as text; any other value as it is."""
    return f"{value:.6g}" if isinstance(value, float) else value


def _first_names(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
