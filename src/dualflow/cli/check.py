"""`dualflow check`: compute a saved model's certificate again and say whether the model is optimal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as shared
from .output import Json, clear_errors, print_table, print_warnings, say, say_json
from .predict import Label, Model, TrainedThousands, encoded

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Exit code of a model that is not certified to the tolerance, on whatever data.
EXIT_NOT_OPTIMAL = 1
#: Exit code of an optimal model that was trained on other points or labels than DATA.
EXIT_OTHER_DATA = 3

# Options of the command, each with its help.
Data = Annotated[
    Path | None,
    typer.Argument(metavar="DATA", help="A table: check whether the model was trained on its points and labels."),
]
Tol = Annotated[
    float | None,
    typer.Option(help="Relative gap up to which a model is optimal; by default the model's own, or 1e-6."),
]
RemovalOption = Annotated[
    Path | None,
    typer.Option(help="A certificate of removal (JSON): verify it, and that the model is the one after the removal."),
]
Decimal = Annotated[str | None, typer.Option(help='The decimal point, "." or ","; that of training by default.')]


def check(
    model: Model,
    data: Data = None,
    tol: Tol = None,
    removal: RemovalOption = None,
    label: Label = None,
    positive: shared.Positive = None,
    delimiter: shared.Delimiter = None,
    header: shared.Header = None,
    missing: shared.Missing = None,
    decimal: Decimal = None,
    thousands: TrainedThousands = None,
    format: shared.Format = None,
    json: Json = False,
) -> None:
    """Compute a saved model's certificate again, from its file.

    The file holds the training points and α; the certificate that it states is not used. With a labelled DATA, the
    scores and the confusion matrix of its rows are printed. Exit code 1: the model is not optimal; 3: it is, but was
    not trained on DATA.
    """
    with clear_errors():
        shared.check_exists(model, data, removal)
        shared.check_order(model, data)
        import numpy as np

        from ..core.options import Number
        from ..exceptions import ProblemError
        from .scores import counts_of, score_lines
        from .training_table import read_model

        if positive is not None and data is None:
            raise ProblemError("--positive needs DATA, whose rows are scored; give the table, or leave it out")

        if tol is not None:
            tol = Number(above=0).check("--tol", tol)
        with print_warnings():
            machine, known = read_model(model)
            machine = getattr(machine, "estimator_", machine)  # of a conformal model
            certificates = list(machine.certificates_)
        facts = {"model": str(model)} | _certified_facts(machine, certificates, tol)
        verified = None
        if removal is not None:
            from ..estimators import verify_removal

            verified = list(verify_removal(removal, machine))
        same = counts = None
        if data is not None:
            table, X, known = encoded(
                known, data, label, delimiter, header, missing, decimal, thousands, format, keep_empty=False
            )
            same = _difference(machine, known, table, X)
            if known.written and table.labels:
                use = np.ones(len(table), dtype=bool)
                counts = counts_of(machine, known, table.labels, machine.predict(X), use, positive)
        facts |= {
            "data": None if data is None else same is None,
            "removal": verified,
            "scores": None if counts is None else counts.plain(),
        }
        if json:
            say_json(facts)
        else:
            _print_facts(facts, same)
            if counts is not None:
                title = "training rows (new rows score lower)" if same is None else "rows of the table"
                for line in score_lines(counts, title, getattr(machine, "class_weight", None) is not None):
                    say(line)
        if not facts["optimal"]:
            missed, of = facts["problems"] - facts["optimal_problems"], facts["problems"]
            say(f"{model}: {missed} of {of} problems are not certified to a gap of {facts['tol']:g}", err=True)
            raise typer.Exit(EXIT_NOT_OPTIMAL)
        if same is not None:
            raise typer.Exit(EXIT_OTHER_DATA)


def _certified_facts(machine: Any, certificates: list[Any], tol: float | None) -> dict[str, Any]:
    """Return what the certificates of a model's problems say of it, and its sizes."""
    limit = tol if tol is not None else float(getattr(machine, "tol", None) or 1e-6)
    gaps = [certificate.relative_gap for certificate in certificates]
    met = [gap is not None and gap <= limit for gap in gaps]
    return {
        "class": type(machine).__name__,
        "points": len(_rows(machine)) or None,
        "features": int(machine.n_features_in_),
        "support_vectors": len(machine.support_),
        "problems": len(gaps),
        "optimal_problems": sum(met),
        "relative_gap": max((float("inf") if gap is None else gap for gap in gaps), default=float("inf")),
        "tol": limit,
        "optimal": bool(met) and all(met),
        "circuits": list(machine.raw_summaries_) or None,
    }


def _print_facts(facts: dict[str, Any], difference: str | None) -> None:
    """Print the table of what was found; ``difference`` is that of DATA from the training points."""
    from ..report.columns import gap_text

    worst = facts["relative_gap"]
    rows = [(name.replace("_", " "), value) for name, value in facts.items() if value is not None]
    shown = dict(rows) | {"relative gap": "none" if worst == float("inf") else gap_text(worst)}
    if facts["circuits"]:
        shown["circuits"] = "\n".join(facts["circuits"])
    hidden = {"removal", "scores"} | ({"problems", "optimal problems"} if facts["problems"] == 1 else set())
    shown = {name: value for name, value in shown.items() if name not in hidden}
    shown |= {"tol": f"{facts['tol']:g}", "optimal": "yes" if facts["optimal"] else "NO"}
    if facts["data"] is not None:
        shown["data"] = "its training points" if difference is None else f"NOT its training points: {difference}"
    print_table(("", ""), list(shown.items()))
    for sentence in facts["removal"] or ():
        say(f"Removal: {sentence}.")


def _rows(machine: Any) -> NDArray:
    """Return the rows that a batch model was trained on, ascending; no rows for other models."""
    import numpy as np

    rows = getattr(machine, "_rows", None)
    return np.unique(np.concatenate(list(rows))) if rows is not None and len(rows) else np.empty(0, int)


def _difference(machine: Any, known: Any, table: Any, X: Any) -> str | None:
    """Return how a table differs from the training points of a model; None if it does not."""
    import numpy as np

    from ..exceptions import ProblemError
    from .labels import known_codes

    solutions, rows = machine.solutions_, _rows(machine)
    if not len(rows) or getattr(machine, "_rows", None) is None:
        raise ProblemError(
            f"{type(machine).__name__} learns from a stream; only batch models can be checked against DATA"
        )
    if len(table) <= rows[-1] or len(rows) < len(table):
        return f"the table has {len(table)} rows, the model {len(rows)} points"
    codes = None
    if known.written and table.labels:
        codes = known_codes(table.labels, machine.classes_, list(known.written))
    for k, (part, solution) in enumerate(zip(machine._rows, solutions, strict=True)):
        problem = solution.problem
        if (row := _first_other(problem.gram.X, X[part])) is not None:
            return f"{table.place(int(part[row]))} is another point"
        if codes is not None:
            own = np.where(problem.sigma > 0, *machine._sides(k))
            if (codes[part] != own).any():
                return f"{table.place(int(part[np.argmax(codes[part] != own)]))} has another label"
        elif problem.model in ("svr", "nu_svr") and table.labels:
            half = len(problem.p) // 2
            targets = 0.5 * (problem.p[:half] - problem.p[half:])
            given = np.array([np.nan if (v := known.cells.number(c)) is None else v for c in table.labels])[part]
            if (other := ~np.isclose(given, targets, rtol=1e-9, atol=1e-12)).any():
                return f"{table.place(int(part[np.argmax(other)]))} has another label"
    return None


def _first_other(points: Any, X: Any) -> int | None:
    """Return the first row in which two sets of points differ by more than round-off, or None."""
    import numpy as np

    if points.shape != X.shape:
        return 0
    if isinstance(points, np.ndarray):  # a small sparse X is kept as a dense array, too
        X = X if isinstance(X, np.ndarray) else X.toarray()
        other = ~np.isclose(points, X, rtol=1e-9, atol=1e-12).all(axis=1)
        return int(np.argmax(other)) if other.any() else None
    from scipy.sparse import csr_array

    difference = csr_array((points.data, points.indices, points.indptr), shape=points.shape) - csr_array(X)
    difference.data[np.abs(difference.data) <= 1e-12] = 0.0
    difference.eliminate_zeros()
    filled = np.flatnonzero(np.diff(difference.indptr))
    return int(filled[0]) if len(filled) else None
