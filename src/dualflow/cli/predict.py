"""`dualflow predict`: predict the rows of a table with a saved model."""

from __future__ import annotations

import csv
import io
import shlex
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from . import options as shared
from .output import Json, check_output, clear_errors, print_table, print_warnings, say, say_json

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ..report.scores import ClassCounts

Model = Annotated[
    Path, typer.Argument(metavar="MODEL", help="A model saved by dualflow train, or by a model's save().")
]
Label = Annotated[
    str | None, typer.Option(help="Label column, if it is not that of training: its name, or its number from 1.")
]

TrainedThousands = Annotated[str | None, typer.Option(help="The separator of thousands; that of training by default.")]

#: Name of the column of predictions, the first unless there are ids.
_PREDICTION = "prediction"
#: Rows that are written at a time.
_CHUNK_ROWS = 10_000
#: Rows that a terminal shows.
_SHOWN_ROWS = 10
#: Unknown texts of a column that a warning shows.
_MAX_NAMED_TEXTS = 3

# Options of the command, each with its help.
Out = Annotated[
    Path | None,
    typer.Option(help="CSV file to write; by default standard output, of which a terminal shows 10 rows."),
]
Decision = Annotated[
    bool, typer.Option("--decision", help="Also write the decision values: the further from 0, the clearer.")
]
Proba = Annotated[bool, typer.Option("--proba", help="Also write the probability of each class; train with --proba.")]
Id = Annotated[
    str | None,
    typer.Option(
        metavar="COLUMN",
        help="A column that names the rows, copied to the output as its first: its name, or its number from 1.",
    ),
]
Decimal = Annotated[str | None, typer.Option(help='The decimal point, "." or ","; that of training by default.')]


def predict(
    model: Model,
    data: shared.Data,
    out: Out = None,
    decision: Decision = False,
    proba: Proba = False,
    id: Id = None,
    label: Label = None,
    positive: shared.Positive = None,
    delimiter: shared.Delimiter = None,
    header: shared.Header = None,
    missing: shared.Missing = None,
    decimal: Decimal = None,
    thousands: TrainedThousands = None,
    format: shared.Format = None,
    overwrite: shared.Overwrite = False,
    json: Json = False,
) -> None:
    """Predict the rows of a table with a saved model.

    Each row gets one line, which is empty for a row without any feature.

    If the table has labels, the scores are printed, too: of classes with the confusion matrix, of numbers R².
    """
    with clear_errors():
        shared.check_exists(model, data)
        shared.check_order(model, data)
        from dataclasses import replace

        from ..exceptions import ProblemError
        from .training_table import read_model

        if out is not None:
            _check_out(out, id, overwrite, data, model)
        machine, known = read_model(model)
        if proba and not hasattr(machine, "predict_proba"):
            raise ProblemError(
                f"--proba: {model} has no calibrated probabilities; train it with dualflow train --proba"
            )
        known = replace(known, requested_id=id)
        table, X, known = encoded(known, data, label, delimiter, header, missing, decimal, thousands, format)
        with print_warnings():
            empty = _empty(table)
            predictions, score, counts = _predictions(machine, known, table, X, empty, positive)
            values = _decisions(machine, known, X, empty) if decision else {}
            chances = _probabilities(machine, known, X, empty) if proba else {}
        columns = _output_columns(table, predictions, values | chances)
        facts = {"model": str(model), "rows": len(table), **score}
        if counts is not None:
            facts["scores"] = counts.plain()
        if circuits := list(getattr(machine, "raw_summaries_", ())):
            facts["circuits"] = circuits
        if out is not None:
            from ..persistence.files import replacing_text

            with replacing_text(out) as file:
                for chunk in _csv_chunks(columns):
                    file.write(chunk)
            facts["out"] = str(out)
        if json:
            if out is None:
                if id is not None:
                    facts["ids"] = table.ids
                facts["predictions"] = predictions
                if decision:
                    facts["decision"] = values
                if proba:
                    facts["probability"] = chances
            say_json(facts)
            return
        for line in circuits:
            say(f"{model}: {line}", err=True)
        if out is None and sys.stdout.isatty():
            _print_first(columns, len(table))
        elif out is None:
            for chunk in _csv_chunks(columns):
                typer.echo(chunk, nl=False)
        if proba and (note := _disagreement(machine, predictions, chances)) is not None:
            say(note, err=out is None)
        if not known.written and not _is_regressor(machine):
            from .training import outlier_line

            say(outlier_line([value for value in predictions if value is not None], "rows"), err=out is None)
        if score:
            _print_scores(score, counts, machine, X, err=out is None)
        if out is not None:
            say(f"{len(table)} predictions: {out}{_id_hint(table)}")


def _check_out(out: Path, id: str | None, overwrite: bool, data: Path, model: Path) -> None:
    """Raise ProblemError if the predictions cannot or must not be written to ``out``."""
    from ..exceptions import ProblemError

    check_output(out, "--out", partial(_is_ours, id=id), overwrite, data)
    if out.exists() and out.samefile(model):
        raise ProblemError(f"--out {out} is the model file and would be lost; give another name")


def _print_scores(score: dict[str, Any], counts: ClassCounts | None, machine: Any, X: Any, err: bool) -> None:
    """Print the scores of the rows with a label."""
    from .scores import score_lines, training_note

    title = f"rows with a label{training_note(machine, X)}"
    if counts is None:
        name, value = next(iter(score.items()))
        say(f"{name} {value:.4g} on {score['labelled']} {title}", err=err)
        return
    for line in score_lines(counts, title, getattr(machine, "class_weight", None) is not None):
        say(line, err=err)


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
    keep_empty: bool = True,
) -> tuple[Any, Any, Any]:
    """Return a table read for a model, its points, and the model's `TrainingTable` with these options; print the notes.

    Without ``keep_empty``, rows without features and label are left out, as in training.
    """
    from dataclasses import replace

    from .csv_data import CsvFormat
    from .reading import read_known
    from .table import Table

    form = shared.csv_format(
        delimiter, header, decimal or known.cells.decimal, missing, thousands or known.cells.thousands
    )
    cells = replace(form.cells, missing=(*known.cells.missing, *(missing or ())))
    known = replace(known, cells=cells, requested_label=label)
    table = read_known(data, known, CsvFormat(form.delimiter, form.header, cells), format)
    if not keep_empty and isinstance(table, Table):
        table = table.filled()
    for note in getattr(table, "notes", ()):
        say(note, err=True)
    X, unknown = known.encoding.transform(table)
    if unknown:
        say(_unknown_texts(unknown), err=True)
    return table, X, known


def _unknown_texts(unknown: dict[str, dict[str, int]]) -> str:
    parts = []
    for name, texts in unknown.items():
        some = ", ".join(f"{text[:40]!r} ({count})" for text, count in list(texts.items())[:_MAX_NAMED_TEXTS])
        parts.append(f"{name[:40]}: {some}{', …' if len(texts) > _MAX_NAMED_TEXTS else ''}")
    return f"Warning: texts that the training data did not have are encoded as zeros; {'; '.join(parts)}"


def _empty(table: Any) -> NDArray:
    """Return which rows lack every feature and get no prediction; print a note if there are any.

    An svmlight file has no such rows: a feature that is not written is 0.
    """
    import numpy as np

    empty = getattr(table, "empty", None)
    empty = np.zeros(len(table), dtype=bool) if empty is None else empty
    if empty.any():
        rows = np.flatnonzero(empty)
        first = table.place(int(rows[0])).removeprefix(f"{table.source}, ")
        say(f"Rows without any feature get an empty prediction: {len(rows)}, the first is {first}.", err=True)
    return empty


def _predictions(
    machine: Any, known: Any, table: Any, X: Any, empty: NDArray, positive: str | None
) -> tuple[list[Any], dict[str, Any], ClassCounts | None]:
    """Return the predictions, labels as the training file wrote them, and their scores if the table has labels.

    Rows that are ``empty`` get None and do not count.
    """
    import numpy as np

    from ..exceptions import ProblemError
    from .scores import counts_of

    found = machine.predict(X)
    if known.written:
        codes = np.searchsorted(machine.classes_, found)
        predictions = _without_empty([known.written[code] for code in codes.tolist()], empty)
        counts = counts_of(machine, known, table.labels, found, ~empty, positive)
        if counts is None:
            return predictions, {}, None
        return predictions, {"accuracy": counts.accuracy, "labelled": counts.n}, counts
    if positive is not None:
        raise ProblemError("--positive: the model has no classes; leave it out")
    predictions = _without_empty(found.tolist(), empty)
    if not table.labels or not _is_regressor(machine):
        return predictions, {}, None
    truths = [known.cells.number(cell) for cell in table.labels]
    there = np.array([value is not None for value in truths]) & ~empty
    if there.sum() < 2:
        return predictions, {}, None
    from sklearn.metrics import r2_score

    right = np.array(truths, dtype=float)[there]
    return predictions, {"R²": float(r2_score(right, found[there])), "labelled": int(there.sum())}, None


def _without_empty(values: list[Any], empty: NDArray) -> list[Any]:
    """Return the values, with None for empty rows."""
    return [None if nothing else value for value, nothing in zip(values, empty.tolist(), strict=True)]


def _is_regressor(machine: Any) -> bool:
    from sklearn.base import is_regressor

    return bool(is_regressor(machine))


def _decisions(machine: Any, known: Any, X: Any, empty: NDArray) -> dict[str, list[Any]]:
    """Return the decision values by column name; None for rows that are ``empty``."""
    from ..exceptions import ProblemError

    if not hasattr(machine, "decision_function"):
        raise ProblemError(f"--decision: {type(machine).__name__} predicts numbers and has no decision values")
    values = machine.decision_function(X)
    if values.ndim == 1:
        return {"decision": _without_empty(values.tolist(), empty)}
    names = known.written if values.shape[1] == len(known.written) else [str(k + 1) for k in range(values.shape[1])]
    return {f"decision {name}": _without_empty(values[:, k].tolist(), empty) for k, name in enumerate(names)}


def _probabilities(machine: Any, known: Any, X: Any, empty: NDArray) -> dict[str, list[Any]]:
    """Return the calibrated probabilities by column name; None for rows that are ``empty``."""
    found = machine.predict_proba(X)
    return {f"probability {name}": _without_empty(found[:, k].tolist(), empty) for k, name in enumerate(known.written)}


def _disagreement(machine: Any, predictions: list[Any], chances: dict[str, list[Any]]) -> str | None:
    """Return a sentence if a row's prediction is not its class of highest probability; None if all rows agree."""
    names = [name.removeprefix("probability ") for name in chances]
    rows = [(p, row) for p, row in zip(predictions, zip(*chances.values(), strict=True), strict=True) if p is not None]
    count = sum(row[names.index(str(p))] < max(row) for p, row in rows)
    if not count:
        return None
    shift = "" if getattr(machine, "class_weight", None) is None else ", which the class weights shift"
    return (
        f"The prediction of {count} of {len(rows)} rows is not the class of highest probability: predictions follow "
        f"the decision values{shift}; probabilities follow the shares of the classes in the training rows."
    )


def _output_columns(table: Any, predictions: list[Any], values: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the columns of the CSV by name: the ids of the rows if there are any, predictions, and values."""
    from ..exceptions import ProblemError

    columns = {_PREDICTION: predictions} | values
    ids = getattr(table, "ids", None)
    if ids is None:
        return columns
    name = table.chosen.id_name
    if name in columns:
        raise ProblemError(f"--id {name}: the output has a column of this name; rename that of {table.source}")
    return {name: ids} | columns


def _id_hint(table: Any) -> str:
    """Return how to copy the column that names the rows to the output, if there is one that was not copied."""
    from .table import LEFT_OUT

    chosen = getattr(table, "chosen", None)
    if chosen is None or chosen.id is not None:
        return ""
    name = next((name for name, reason in chosen.unused if reason == LEFT_OUT), None)
    return "" if name is None else f", in the order of {table.source}; --id {shlex.quote(name)} copies that column"


def _print_first(columns: dict[str, list[Any]], n: int) -> None:
    """Print the first rows as a table for a terminal, with 4 digits, and how to get all of them."""
    first = [values[:_SHOWN_ROWS] for values in columns.values()]
    cells = [
        [f"{value:.4g}" if isinstance(value, float) else value for value in row] for row in zip(*first, strict=True)
    ]
    print_table(list(columns), [["" if cell is None else cell for cell in row] for row in cells])
    if n > _SHOWN_ROWS:
        say(f"… {_SHOWN_ROWS} of {n} rows; --out predictions.csv writes all.", err=True)


def _csv_chunks(columns: dict[str, list[Any]]) -> Any:
    """Yield the text of the CSV in chunks of rows."""
    lists = list(columns.values())
    for start in range(0, len(lists[0]), _CHUNK_ROWS):
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        if not start:
            writer.writerow(map(_cell, columns))
        writer.writerows(
            [_cell(value) for value in row]
            for row in zip(*(c[start : start + _CHUNK_ROWS] for c in lists), strict=True)
        )
        yield text.getvalue()


def _cell(value: Any) -> Any:
    from ..persistence.files import csv_safe, escape_control_characters
    from .cells import number

    return csv_safe(escape_control_characters(value)) if isinstance(value, str) and number(value) is None else value


def _is_ours(path: Path, id: str | None = None) -> bool:
    """Return whether a file is empty, or begins with the header of a file of predictions; ``id`` may be before it."""
    with open(path, encoding="utf-8", errors="replace") as file:
        start = file.readline(1000)
    cells = start.rstrip("\n").split(",")
    return not start or cells[0] == _PREDICTION or (id is not None and cells[:2] == [id, _PREDICTION])
