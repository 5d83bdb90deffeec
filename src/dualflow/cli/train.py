"""`dualflow train`: train a model on a table, and save it with the description of the table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as shared
from .output import (
    OVERWRITE_HELP,
    check_output,
    clear_errors,
    print_table,
    print_warnings,
    progress_bar,
    say,
    say_json,
)

if TYPE_CHECKING:
    from .table import SparseTable, Table

__all__ = ["train"]


def train(
    data: shared.Data,
    out: Annotated[Path, typer.Option(help="The model file to write.")] = Path("model.dualflow"),
    label: Annotated[
        str | None,
        typer.Option(
            help="Label column: its name, or its number from 1. The last by default; none for svdd and one-class."
        ),
    ] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            help="svc or nu-svc (classes), svr or nu-svr (numbers), svdd or one-class (outliers); by default svc if "
            "labels are classes."
        ),
    ] = None,
    C: Annotated[
        float | None, typer.Option("--C", help="For svc, svr and nu-svr, as in scikit-learn; 1 by default.")
    ] = None,
    nu: Annotated[
        str | None,
        typer.Option(
            help="For svdd and one-class: the fraction of points that may lie outside. For nu-svc and nu-svr: the "
            "fraction that may lie on the wrong side of the margin or outside of the tube."
        ),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="For svr: errors up to this size cost nothing; 0.1 by default.")
    ] = None,
    class_weight: shared.ClassWeight = None,
    positive: shared.Positive = None,
    kernel: Annotated[str, typer.Option(help="linear, poly, rbf or sigmoid.")] = "rbf",
    gamma: Annotated[str, typer.Option(help="scale, auto or a number.")] = "scale",
    degree: Annotated[float, typer.Option(help="Degree of the poly kernel.")] = 3.0,
    coef0: Annotated[float, typer.Option(help="Constant of the poly and sigmoid kernels.")] = 0.0,
    search: Annotated[
        bool,
        typer.Option(
            "--search", help="Choose C, gamma and, of unequal classes, the weights by cross-validation before the fit."
        ),
    ] = False,
    search_time: Annotated[
        float | None,
        typer.Option(help="Seconds for --search, 60 by default; the best setting that was reached is taken."),
    ] = None,
    scoring: Annotated[
        str | None,
        typer.Option(
            help="Score of --search and --cv, a name of scikit-learn's; by default accuracy, of unequal classes "
            "balanced_accuracy, and of numbers r2."
        ),
    ] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Calibrate probabilities by leave-one-out, for dualflow predict --proba.")
    ] = False,
    cv: Annotated[
        int | None,
        typer.Option(help="Number of folds: cross-validate the model; scores are then of rows it had not seen."),
    ] = None,
    solver: Annotated[str, typer.Option(help="Name of a solver (see dualflow solvers), or auto.")] = "auto",
    tol: Annotated[float, typer.Option(help="Relative gap up to which a model is optimal.")] = 1e-6,
    time_limit: Annotated[
        float | None, typer.Option(help="Maximum seconds for the fit, and for the search without --search-time.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of folds and solvers.")] = 0,
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE_HELP)] = False,
    json: shared.Json = False,
) -> None:
    """Train a model on a table, and save it. Exit code 1: the model is saved, but not certified to --tol."""
    with clear_errors():
        from ..core.options import Number
        from ..exceptions import FitError, ProblemError
        from ..persistence import container
        from . import training_data
        from .reading import read_new
        from .scores import CLASSIFIERS, score_lines
        from .table import RequestedColumns
        from .training import (
            SEARCH_BUDGET_S,
            check_scorer,
            cross_validation,
            cv_splits,
            new_model,
            searched_model,
        )

        begun = time.perf_counter()
        if kind is not None and kind not in training_data.KINDS:
            raise ProblemError(f"--kind {kind!r} must be one of {', '.join(training_data.KINDS)}")
        if kernel == "precomputed":
            raise ProblemError(
                "--kernel precomputed needs a kernel matrix, and a table holds points; use linear, poly, rbf or sigmoid"
            )
        seed = Number(at_least=0, whole=True).check("--seed", seed)
        if search_time is not None and not search:
            raise ProblemError("--search-time is the time of --search; add --search, or leave it out")
        if scoring is not None and not search and cv is None:
            raise ProblemError("--scoring is the score of --search and --cv; add one of them, or leave it out")
        budget_s = Number(above=0, none=True, note="(in seconds)").check("--search-time", search_time)
        check_output(out, "--out", container.is_model_file, overwrite, data)
        form = shared.form_of(delimiter, header, decimal, missing, thousands)
        requested = RequestedColumns(
            label, kind in (None, *training_data.LABELLED), tuple(drop or ()), tuple(text or ())
        )
        how = training_data.EncodingOptions(one_hot, impute, standardise)
        with progress_bar() as progress:
            progress(0, None, f"reading {data}")
            table = read_new(data, requested, form, format)
            kind = kind or training_data.kind_of(table, form.cells)
            y, written = training_data.labels_for(kind, table, form.cells)
            given = training_data.Classes.of(kind, y, written, table.source, class_weight, positive, scoring, proba)
            encoding, X = how.encoded(table)
            _notes(table)
            model = new_model(
                kind,
                {
                    "C": C,
                    "nu": nu if nu is None else shared.number_or_text(nu),
                    "epsilon": epsilon,
                    "class-weight": given.weights,
                },
                kernel=kernel,
                gamma=shared.number_or_text(gamma),
                degree=degree,
                coef0=coef0,
                solver=solver,
                tol=tol,
                time_limit=time_limit,
                random_state=seed,
            )
            best = folded = counts = None
            splits = cv_splits(kind, y, cv, seed, table.source)
            try:
                with print_warnings():
                    if search:
                        progress(0, None, "searching")
                        model, best = searched_model(
                            kind,
                            model,
                            X,
                            y,
                            cv,
                            seed,
                            table.source,
                            scoring=given.scoring,
                            scorer=given.scorer,
                            budget_s=next((s for s in (budget_s, time_limit) if s is not None), SEARCH_BUDGET_S),
                            announce=lambda text: say(text, err=True),
                        )
                    else:
                        progress(0, None, f"fitting {X.shape[0]} points")
                        model.fit(X) if y is None else model.fit(X, y)
                    if y is not None and splits:
                        check_scorer(given.scorer, given.scoring, model, X, y)
                    if y is not None and proba:
                        progress(0, None, "calibrating")
                        model.set_params(probability="sigmoid")._calibrate()
                    description = training_data.description_of(table, encoding, written, form.cells, given.positive)
                    description.save(model, out)
                    if splits:
                        scorer = {"scoring": given.scoring, "scorer": given.scorer}
                        folded, predicted = cross_validation(kind, model, table, y, how, splits, progress, **scorer)
                    if kind in CLASSIFIERS:
                        counts = given.counts(predicted if splits else model.predict(X))
            except FitError as error:  # the options are valid, but the problem has no such model: exit code 1
                say("Failed: " + " ".join(str(error).split()), err=True)
                raise typer.Exit(1) from None
        gap = model.certificate_.relative_gap
        optimal = gap is not None and gap <= tol
        facts = {
            "model": str(out),
            "kind": kind,
            "points": int(X.shape[0]),
            "features": int(X.shape[1]),
            "classes": list(written) or None,
            "support_vectors": len(model.support_),
            "parameters": _parameters(model),
            "relative_gap": gap,
            "tol": tol,
            "optimal": optimal,
            "circuits": list(model.raw_summaries_) or None,
            "search": best,
            "cross_validation": folded,
            "probabilities": hasattr(model, "predict_proba"),
            "scored_rows": None if counts is None else "unseen" if splits else "training",
            "scores": None if counts is None else counts.plain(),
            "seconds": round(time.perf_counter() - begun, 3),
        }
        if json:
            say_json(facts)
        else:
            _print(facts)
            if counts is not None:
                title = (
                    f"rows, each by a fold that had not seen it ({len(splits)} folds)"
                    if splits
                    else ("training rows (new rows score lower: --cv 5 scores rows that the model has not seen)")
                )
                for line in score_lines(counts, title, model.class_weight is not None):
                    say(line)
        if not optimal:
            raise typer.Exit(1)


def _notes(table: Table | SparseTable) -> None:
    for note in getattr(table, "notes", ()):
        say(note, err=True)


def _parameters(model: Any) -> dict[str, Any]:
    names: tuple[str, ...] = ("C", "epsilon", "nu", "class_weight", "kernel", "gamma")
    if getattr(model, "class_weight", None) is None:
        names = tuple(name for name in names if name != "class_weight")
    if model.kernel == "linear":
        names = names[:-1]
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _print(facts: dict[str, Any]) -> None:
    from ..report.columns import gap_text
    from .scores import score_title

    gap = facts["relative_gap"]
    certified = "none: the kernel is indefinite" if gap is None else gap_text(gap)
    verdict = f"{'optimal' if facts['optimal'] else 'NOT optimal'} to {facts['tol']:g}"
    settings = [f"{name} {_short(value)}" for name, value in facts["parameters"].items()]
    rows = [
        ("model", ", ".join([facts["kind"], *settings])),
        ("points", facts["points"]),
        ("features, encoded", facts["features"]),
        ("classes", None if facts["classes"] is None else _first_names(facts["classes"])),
        ("support vectors", facts["support_vectors"]),
        ("certified relative gap", f"{certified}, {verdict}"),
    ]
    rows += [("circuits", summary) for summary in facts["circuits"] or ()]
    if facts["search"]:
        found = facts["search"]
        missed = found["candidates"] - found["finished"]
        more = f"; {missed} were not reached in time" if missed else ""
        score = score_title(found["scoring"])
        rows.append(
            (f"{score} in the search", f"{found['score']:.4g}, the best of {found['candidates']} settings{more}")
        )
    if facts["cross_validation"]:
        found = facts["cross_validation"]
        score = score_title(found["scoring"])
        rows.append((f"{score}, {found['folds']} folds", f"{found['mean']:.4g} ± {found['std']:.2g}"))
    if facts["probabilities"]:
        rows.append(("probabilities", "calibrated by leave-one-out; dualflow predict --proba"))
    rows += [("seconds", facts["seconds"]), ("saved as", facts["model"])]
    print_table(("", ""), [(name, value) for name, value in rows if value is not None])


def _short(value: Any) -> Any:
    """Return a number with 6 digits, as text; any other value as it is."""
    return f"{value:.6g}" if isinstance(value, float) else value


def _first_names(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
