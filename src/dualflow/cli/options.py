"""Command-line options that several commands share, and the CSV format that they describe."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..exceptions import ProblemError
from .cells import THOUSANDS, CellFormat
from .csv_data import CsvFormat
from .output import Json
from .table import MISSING_TEXTS

__all__ = [
    "ClassWeight",
    "Data",
    "Decimal",
    "Delimiter",
    "Drop",
    "Format",
    "Header",
    "Impute",
    "Json",
    "Missing",
    "OneHot",
    "Positive",
    "Standardise",
    "Text",
    "Thousands",
    "form_of",
    "number_or_text",
]

Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV (any delimiter, .gz), parquet or svmlight; - is standard input.")
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help='The separator of the cells of a CSV: one character, or "tab"; detected from the file by default.'
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header", help="Whether the first line names the columns; detected from the file by default."
    ),
]
Decimal = Annotated[str, typer.Option(help='The decimal point of a CSV, "." or ",".')]
Thousands = Annotated[str | None, typer.Option(help='The separator of thousands in a CSV: ",", ".", "\'" or "space".')]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        help="A cell that means a missing value, in addition to empty cells, NA, NaN, null, None and ?. Repeatable."
    ),
]
Format = Annotated[
    str | None, typer.Option("--format", help="csv, parquet or svmlight; detected from the file by default.")
]
Drop = Annotated[
    list[str] | None, typer.Option(help="A column to leave out: its name, or its number from 1. Repeatable.")
]
Text = Annotated[
    list[str] | None,
    typer.Option(help="A column to read as categories although it holds numbers (postcodes, for example). Repeatable."),
]
OneHot = Annotated[
    bool,
    typer.Option("--one-hot/--no-one-hot", help="Encode a text column as one feature for each of its texts."),
]
Impute = Annotated[
    bool,
    typer.Option(
        "--impute/--no-impute", help="Replace a missing cell by the column's median, or its most frequent text."
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        help='Factors of C for the points of a class: "balanced" (as much weight for each class), or "LABEL=WEIGHT,…".'
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(metavar="LABEL", help="The class whose recall and precision are given; the rarest by default."),
]
Standardise = Annotated[
    bool | None,
    typer.Option(
        "--standardise/--no-standardise",
        help="Scale number columns to mean 0 and standard deviation 1; by default yes, and no for svmlight.",
    ),
]


def form_of(
    delimiter: str | None,
    header: bool | None,
    decimal: str,
    missing: list[str] | None,
    thousands: str | None = None,
) -> CsvFormat:
    """Return the CSV format that these options describe; ProblemError if they contradict each other."""
    if delimiter is not None:
        delimiter = {"tab": "\t", "\\t": "\t", "space": " "}.get(delimiter, delimiter)
        if len(delimiter) != 1 or delimiter in '"\r\n\0':
            raise ProblemError(f'--delimiter {delimiter!r} must be one character, or "tab"')
    if decimal not in (".", ","):
        raise ProblemError(f'--decimal {decimal!r} must be "." or ","')
    if decimal == delimiter:
        raise ProblemError("--decimal and --delimiter are the same character")
    thousands = {" ": "space"}.get(thousands, thousands) if thousands else None
    if thousands is not None and thousands not in THOUSANDS:
        raise ProblemError(f'--thousands {thousands!r} must be ",", ".", "\'" or "space"')
    if thousands == decimal:
        raise ProblemError("--decimal and --thousands are the same character")
    return CsvFormat(delimiter, header, CellFormat(decimal, (*MISSING_TEXTS, *(missing or ())), thousands))


def number_or_text(text: str) -> float | str:
    """Return the text as a float if it is a number, else as it is."""
    try:
        return float(text)
    except ValueError:
        return text
