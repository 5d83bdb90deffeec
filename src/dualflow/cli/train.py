"""`dualflow train`: a model from a table, saved with all that the next table needs.

Making, searching and cross-validating models for `dualflow train`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from ..exceptions import FitError, ProblemError
from . import options as shared
from .output import (
    OVERWRITE,
    check_output,
    clear_errors,
    print_table,
    progress_bar,
    say,
    say_json,
    warnings_said,
)
from .prepared import KINDS, How
from .table import Sparse, Table

__all__ = ["cross_validated", "made", "searched", "splits_of", "train"]


#: Parameters of some kinds only.
_OF = {"svc": ("C",), "svr": ("C", "epsilon"), "svdd": ("nu",), "one-class": ("nu",)}
#: What a search tries: these C, and these times the width that gamma="scale" gives.
COSTS, WIDTHS = (0.1, 1.0, 10.0, 100.0, 1000.0), (0.1, 0.3, 1.0, 3.0, 10.0)


def made(kind: str, given: dict[str, Any], **common: Any) -> Any:
    """A model that is not fitted; ``given`` are parameters that not all kinds have, None where they are not given."""
    from .. import estimators

    own = {name: value for name, value in given.items() if value is not None}
    for name in own:
        if name not in _OF[kind]:
            kinds = " and ".join(other for other, names in _OF.items() if name in names)
            raise ProblemError(f"--{name} is a parameter of {kinds}, not of {kind}")
    return getattr(estimators, KINDS[kind])(**own, **common)


def searched(
    kind: str, model: Any, X: Any, y: NDArray | None, folds: int | None, seed: int, source: str
) -> tuple[Any, dict[str, Any]]:
    """The best model of the search, fitted to all points, and what the search found."""
    from ..selection import SVCSearchCV, SVRSearchCV

    if y is None:
        raise ProblemError(f"--search needs labels to choose by, and {kind} has none; choose --nu and --gamma yourself")
    grid: dict[str, list[Any]] = {"C": list(COSTS)}
    if model.kernel != "linear":
        variance = float(X.var() if isinstance(X, np.ndarray) else X.power(2).mean() - X.mean() ** 2)
        scale = 1.0 / (X.shape[1] * variance) if variance > 0 else 1.0
        grid["gamma"] = [scale * width for width in WIDTHS]
    search = (SVCSearchCV if kind == "svc" else SVRSearchCV)(
        model, grid, cv=_splitter(kind, y, folds, seed, source), time_limit=model.time_limit
    )
    try:
        search.fit(X, y)
    except FitError as error:  # the time was over
        said = str(error).replace("time_limit=", "--time-limit ").replace("raise time_limit", "raise --time-limit")
        raise ProblemError(f"--search found nothing: {said}; or name --C and --gamma") from None
    except ProblemError:
        raise
    except ValueError as error:  # all fits failed
        said = str(error).partition(".")[0].strip()
        raise ProblemError(f"--search found nothing: {said}; name --C and --gamma") from None
    found = {"score": float(search.best_score_), "candidates": len(search.cv_results_["params"])}
    return search.best_estimator_, found


def cross_validated(
    kind: str,
    model: Any,
    table: Table | Sparse,
    y: NDArray | None,
    how: How,
    splits: list[tuple[NDArray, NDArray]],
    progress: Callable[[int, int, str], object],
) -> dict[str, Any]:
    """Accuracy (R² of numbers) on rows that neither the model nor the encoding has seen, fold by fold."""
    from sklearn.base import clone
    from sklearn.metrics import accuracy_score, r2_score

    assert y is not None
    score, found = (accuracy_score if kind == "svc" else r2_score), []
    for done, (train, test) in enumerate(splits):
        progress(done, len(splits), "cross-validating")
        part = table.take(train)
        encoding = how.encoding(part)
        fold = clone(model).fit(encoding.transform(part)[0], y[train])
        found.append(float(score(y[test], fold.predict(encoding.transform(table.take(test))[0]))))
    return {"folds": len(splits), "mean": float(np.mean(found)), "std": float(np.std(found)), "scores": found}


def splits_of(kind: str, y: NDArray | None, folds: int | None, seed: int, source: str) -> list[tuple[NDArray, NDArray]]:
    """Training and test rows of each fold, if folds are asked for."""
    if folds is None:
        return []
    if y is None:
        raise ProblemError(f"--cv needs labels to judge by, and {kind} has none")
    return list(_splitter(kind, y, folds, seed, source).split(y, y))


def _splitter(kind: str, y: NDArray, folds: int | None, seed: int, source: str) -> Any:
    from sklearn.model_selection import KFold, StratifiedKFold

    least = int(np.unique(y, return_counts=True)[1].min()) if kind == "svc" else len(y) // 2
    if least < 2:
        raise ProblemError(
            f"{source}: a class has a single row, or there are too few; cross-validation needs two of each"
        )
    folds = min(5, least) if folds is None else folds
    if not 2 <= folds <= least:
        what = "the smallest class has so many rows" if kind == "svc" else "a fold needs two rows"
        raise ProblemError(f"--cv {folds} of {source} must be from 2 to {least}, for {what}")
    return (StratifiedKFold if kind == "svc" else KFold)(folds, shuffle=True, random_state=seed)


def train(
    data: shared.Data,
    out: Annotated[Path, typer.Option(help="Where the model goes.")] = Path("model.dualflow"),
    label: Annotated[
        str | None,
        typer.Option(
            help="Label column: its name, or its number from 1. The last by default; none for svdd, one-class."
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="svc (classes), svr (numbers), svdd, one-class; svc where labels are classes.")
    ] = None,
    C: Annotated[float | None, typer.Option("--C", help="Of svc and svr, as in scikit-learn; 1 by default.")] = None,
    nu: Annotated[str | None, typer.Option(help="Of svdd and one-class: the part that may lie outside.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="Of svr: errors up to it cost nothing; 0.1 by default.")] = None,
    kernel: Annotated[str, typer.Option(help="linear, poly, rbf or sigmoid.")] = "rbf",
    gamma: Annotated[str, typer.Option(help="scale, auto or a number.")] = "scale",
    degree: Annotated[float, typer.Option(help="Of the poly kernel.")] = 3.0,
    coef0: Annotated[float, typer.Option(help="Of the poly and sigmoid kernels.")] = 0.0,
    search: Annotated[bool, typer.Option("--search", help="Search C and gamma by cross-validation first.")] = False,
    cv: Annotated[int | None, typer.Option(help="Folds: say how well it predicts rows it was not trained on.")] = None,
    solver: Annotated[str, typer.Option(help="A name of dualflow solvers, or auto.")] = "auto",
    tol: Annotated[float, typer.Option(help="Relative gap that is optimal.")] = 1e-6,
    time_limit: Annotated[float | None, typer.Option(help="Seconds for the fit, and for the search.")] = None,
    seed: Annotated[int, typer.Option(help="Of folds and solvers.")] = 0,
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
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE)] = False,
    json: shared.Json = False,
) -> None:
    """Train a model on a table, and save it. Exit code 1: the model is saved, and not certified to --tol."""
    with clear_errors():
        from ..core.options import Number
        from ..exceptions import FitError, ProblemError
        from ..persistence import container
        from . import prepared
        from .reading import read_new
        from .table import Asked

        begun = time.perf_counter()
        if kind is not None and kind not in prepared.KINDS:
            raise ProblemError(f"--kind {kind!r} must be one of {', '.join(prepared.KINDS)}")
        if kernel == "precomputed":
            raise ProblemError(
                "--kernel precomputed is for kernel matrices; a table holds points: linear, poly, rbf, sigmoid"
            )
        seed = Number(at_least=0, whole=True).check("--seed", seed)
        check_output(out, "--out", container.is_ours, overwrite, data)
        form = shared.form_of(delimiter, header, decimal, missing, thousands)
        asked = Asked(label, kind in (None, "svc", "svr"), tuple(drop or ()), tuple(text or ()))
        how = prepared.How(one_hot, impute, standardise)
        with progress_bar() as progress:
            progress(0, None, f"reading {data}")
            table = read_new(data, asked, form, format)
            kind = kind or prepared.kind_of(table, form.cells)
            y, written = prepared.labels_for(kind, table, form.cells)
            encoding, X = how.encoded(table)
            _notes(table)
            model = made(
                kind,
                {"C": C, "nu": nu if nu is None else shared.number_or_text(nu), "epsilon": epsilon},
                kernel=kernel,
                gamma=shared.number_or_text(gamma),
                degree=degree,
                coef0=coef0,
                solver=solver,
                tol=tol,
                time_limit=time_limit,
                random_state=seed,
            )
            best = accuracy = None
            splits = splits_of(kind, y, cv, seed, table.source)
            try:
                with warnings_said():
                    if search:
                        progress(0, None, "searching")
                        model, best = searched(kind, model, X, y, cv, seed, table.source)
                    else:
                        progress(0, None, f"fitting {X.shape[0]} points")
                        model.fit(X) if y is None else model.fit(X, y)
                    prepared.known_of(table, encoding, written, form.cells).save(model, out)
                    if splits:
                        accuracy = cross_validated(kind, model, table, y, how, splits, progress)
            except FitError as error:  # nothing is wrong with the call: there is no such model
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
            "cross_validation": accuracy,
            "seconds": round(time.perf_counter() - begun, 3),
        }
        if json:
            say_json(facts)
        else:
            _print(facts)
        if not optimal:
            raise typer.Exit(1)


def _notes(table: Table | Sparse) -> None:
    for note in getattr(table, "notes", ()):
        say(note, err=True)


def _parameters(model: Any) -> dict[str, Any]:
    names: tuple[str, ...] = ("C", "epsilon", "nu", "kernel", "gamma")
    if model.kernel == "linear":
        names = names[:-1]
    return {name: getattr(model, name) for name in names if hasattr(model, name)}


def _print(facts: dict[str, Any]) -> None:
    from ..report.columns import gap_text

    score = "accuracy" if facts["kind"] == "svc" else "R²"
    gap = facts["relative_gap"]
    certified = "none: the kernel is indefinite" if gap is None else gap_text(gap)
    verdict = f"{'optimal' if facts['optimal'] else 'NOT optimal'} to {facts['tol']:g}"
    rows = [
        ("model", ", ".join([facts["kind"], *(f"{name} {value}" for name, value in facts["parameters"].items())])),
        ("points", facts["points"]),
        ("features, encoded", facts["features"]),
        ("classes", None if facts["classes"] is None else _few(facts["classes"])),
        ("support vectors", facts["support_vectors"]),
        ("certified relative gap", f"{certified}, {verdict}"),
    ]
    rows += [("circuits", summary) for summary in facts["circuits"] or ()]
    if facts["search"]:
        found = facts["search"]
        rows.append((f"{score} in the search", f"{found['score']:.4g}, the best of {found['candidates']} settings"))
    if facts["cross_validation"]:
        found = facts["cross_validation"]
        rows.append((f"{score}, {found['folds']} folds", f"{found['mean']:.4g} ± {found['std']:.2g}"))
    rows += [("seconds", facts["seconds"]), ("saved as", facts["model"])]
    print_table(("", ""), [(name, value) for name, value in rows if value is not None])


def _few(names: list[str]) -> str:
    return ", ".join(names[:12]) + (f", … ({len(names)} in all)" if len(names) > 12 else "")
