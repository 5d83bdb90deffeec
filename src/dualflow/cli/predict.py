"""`dualflow predict`: what a saved model says of the rows of a table."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as shared
from .output import OVERWRITE, check_output, clear_errors, say, say_json, warnings_said

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["KnownThousands", "Model", "encoded", "predict"]

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file of dualflow train, or of a model's save().")]
Label = Annotated[
    str | None, typer.Option(help="Label column, if it is another than in training: its name, or its number from 1.")
]

KnownThousands = Annotated[
    str | None, typer.Option(help="Between groups of three digits; that of training by default.")
]

#: What a file of predictions begins with.
_FIRST = "prediction"
#: Rows that are written at a time, and texts that a warning names.
_CHUNK, _NAMED = 10_000, 3


def predict(
    model: Model,
    data: shared.Data,
    out: Annotated[Path | None, typer.Option(help="CSV to write; by default standard output.")] = None,
    decision: Annotated[bool, typer.Option("--decision", help="Decision values, too: how clear each row is.")] = False,
    label: Label = None,
    delimiter: shared.Delimiter = None,
    header: shared.Header = None,
    missing: shared.Missing = None,
    decimal: Annotated[str | None, typer.Option(help="The decimal point; that of training by default.")] = None,
    thousands: KnownThousands = None,
    format: shared.Format = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE)] = False,
    json: shared.Json = False,
) -> None:
    """Predict a table's rows by a saved model: a line for each, in their order, empty for a row that has no feature.

    Labels that are there are compared.
    """
    with clear_errors():
        from ..exceptions import ProblemError
        from .known import read_model

        if out is not None:
            check_output(out, "--out", _is_ours, overwrite, data)
            if out.exists() and out.samefile(model):
                raise ProblemError(f"--out {out} is the model, which would be lost; give another name")
        machine, known = read_model(model)
        table, X, known = encoded(known, data, label, delimiter, header, missing, decimal, thousands, format)
        with warnings_said():
            empty = _empty(table)
            said, score = _said(machine, known, table, X, empty)
            values = _decisions(machine, known, X, empty) if decision else {}
        facts = {"model": str(model), "rows": len(table), **score}
        if circuits := list(getattr(machine, "raw_summaries_", ())):
            facts["circuits"] = circuits
        if out is not None:
            from ..persistence.files import replacing_text

            with replacing_text(out) as file:
                for chunk in _written(said, values):
                    file.write(chunk)
            facts["out"] = str(out)
        if json:
            whole = {} if out is not None else {"predictions": said, **({"decision": values} if decision else {})}
            say_json(facts | whole)
            return
        for line in circuits:
            say(f"{model}: {line}", err=True)
        if out is None:
            for chunk in _written(said, values):
                typer.echo(chunk, nl=False)
        if score:
            name, value = next(iter(score.items()))
            say(f"{name} {value:.4g} on {score['labelled']} rows with a label", err=out is None)
        if out is not None:
            say(f"{len(table)} predictions: {out}")


def encoded(
    known: Any,
    data: Path,
    label: str | None,
    delimiter: str | None,
    header: bool | None,
    missing: list[str] | None,
    decimal: str | None,
    thousands: str | None,
    format: str | None,
    whole: bool = True,
) -> tuple[Any, Any, Any]:
    """A table for a model, its points, and the model's `Known` as these options have it; says what is to be known.

    If not ``whole``, rows that hold nothing are left out, as in training.
    """
    from dataclasses import replace

    from .csv_data import Form
    from .reading import read_known
    from .table import Table

    form = shared.form_of(
        delimiter, header, decimal or known.cells.decimal, missing, thousands or known.cells.thousands
    )
    cells = replace(form.cells, missing=(*known.cells.missing, *(missing or ())))
    known = replace(known, cells=cells, asked=label)
    table = read_known(data, known, Form(form.delimiter, form.header, cells), format)
    if not whole and isinstance(table, Table):
        table = table.filled()
    for note in getattr(table, "notes", ()):
        say(note, err=True)
    X, unknown = known.encoding.transform(table)
    if unknown:
        say(_strangers(unknown), err=True)
    return table, X, known


def _strangers(unknown: dict[str, dict[str, int]]) -> str:
    parts = []
    for name, texts in unknown.items():
        some = ", ".join(f"{text[:40]!r} ({count})" for text, count in list(texts.items())[:_NAMED])
        parts.append(f"{name[:40]}: {some}{', …' if len(texts) > _NAMED else ''}")
    return f"Warning: texts that training did not have count as none of its own; {'; '.join(parts)}"


def _empty(table: Any) -> NDArray:
    """Which rows lack every feature, so that nothing can be said of them; in svmlight, where a feature that is not
    written is 0, none does."""
    import numpy as np

    empty = getattr(table, "empty", None)
    empty = np.zeros(len(table), dtype=bool) if empty is None else empty
    if empty.any():
        rows = np.flatnonzero(empty)
        first = table.place(int(rows[0])).removeprefix(f"{table.source}, ")
        say(f"Rows without any feature, whose prediction is empty: {len(rows)}, the first is {first}.", err=True)
    return empty


def _said(machine: Any, known: Any, table: Any, X: Any, empty: NDArray) -> tuple[list[Any], dict[str, Any]]:
    """The predictions, labels as they were written, and how good they are, if there are labels; None for rows that are
    ``empty``, which do not count."""
    import numpy as np

    from .labels import known_codes

    found = machine.predict(X)
    if known.written:
        codes = np.searchsorted(machine.classes_, found)
        said = _but([known.written[code] for code in codes.tolist()], empty)
        if not table.labels:
            return said, {}
        truth = known_codes(table.labels, machine.classes_, list(known.written))
        if not (there := (truth >= 0) & ~empty).any():
            return said, {}
        score: dict[str, Any] = {"accuracy": float(np.mean(codes[there] == truth[there])), "labelled": int(there.sum())}
        return said, score
    said = _but(found.tolist(), empty)
    if not table.labels or not _is_regressor(machine):
        return said, {}
    truths = [known.cells.number(cell) for cell in table.labels]
    there = np.array([value is not None for value in truths]) & ~empty
    if there.sum() < 2:
        return said, {}
    from sklearn.metrics import r2_score

    right = np.array(truths, dtype=float)[there]
    return said, {"R²": float(r2_score(right, found[there])), "labelled": int(there.sum())}


def _but(values: list[Any], empty: NDArray) -> list[Any]:
    """The values, None where a row is empty."""
    return [None if nothing else value for value, nothing in zip(values, empty.tolist(), strict=True)]


def _is_regressor(machine: Any) -> bool:
    from sklearn.base import is_regressor

    return bool(is_regressor(machine))


def _decisions(machine: Any, known: Any, X: Any, empty: NDArray) -> dict[str, list[Any]]:
    """Decision values by the name of their column; None for rows that are ``empty``."""
    from ..exceptions import ProblemError

    if not hasattr(machine, "decision_function"):
        raise ProblemError(f"--decision: {type(machine).__name__} predicts numbers and has no decision values")
    values = machine.decision_function(X)
    if values.ndim == 1:
        return {"decision": _but(values.tolist(), empty)}
    names = known.written if values.shape[1] == len(known.written) else [str(k + 1) for k in range(values.shape[1])]
    return {f"decision {name}": _but(values[:, k].tolist(), empty) for k, name in enumerate(names)}


def _written(said: list[Any], values: dict[str, list[Any]]) -> Any:
    """The lines of the CSV, some at a time."""
    lists = [said, *values.values()]
    for start in range(0, len(said), _CHUNK):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not start:
            writer.writerow([_FIRST, *map(_cell, values)])
        writer.writerows(
            [_cell(value) for value in row] for row in zip(*(c[start : start + _CHUNK] for c in lists), strict=True)
        )
        yield text.getvalue()


def _cell(value: Any) -> Any:
    from ..persistence.files import csv_safe, escape_control_characters
    from .cells import number

    return csv_safe(escape_control_characters(value)) if isinstance(value, str) and number(value) is None else value


def _is_ours(path: Path) -> bool:
    with open(path, encoding="utf-8", errors="replace") as file:
        start = file.readline(1000)
    return not start or start.rstrip("\n").split(",")[0] == _FIRST
