"""Options that several commands share, and what they say of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..exceptions import ProblemError
from .cells import THOUSANDS, Cells
from .csv_data import Form
from .output import Json
from .table import MISSING

__all__ = [
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
    str | None, typer.Option(help='Between the cells of a CSV: one character, or "tab"; told from the file by default.')
]
Header = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line names the columns; told from the file."),
]
Decimal = Annotated[str, typer.Option(help='The decimal point of a CSV, "." or ",".')]
Thousands = Annotated[
    str | None, typer.Option(help='Between groups of three digits in a CSV: ",", ".", "\'" or "space".')
]
Missing = Annotated[
    list[str] | None,
    typer.Option(help="A cell that stands for nothing, beside empty ones, NA, NaN, null, None and ?. Repeatable."),
]
Format = Annotated[str | None, typer.Option("--format", help="csv, parquet or svmlight; told from the file.")]
Drop = Annotated[
    list[str] | None, typer.Option(help="A column to leave out: its name, or its number from 1. Repeatable.")
]
Text = Annotated[
    list[str] | None, typer.Option(help="A column whose numbers are names (codes of places, say). Repeatable.")
]
OneHot = Annotated[
    bool, typer.Option("--one-hot/--no-one-hot", help="Columns of text become a feature for each of their texts.")
]
Impute = Annotated[
    bool,
    typer.Option("--impute/--no-impute", help="Missing cells become the median, or the most frequent text."),
]
Standardise = Annotated[
    bool | None,
    typer.Option(
        "--standardise/--no-standardise",
        help="Columns of numbers to mean 0 and deviation 1; by default all but those of svmlight.",
    ),
]


def form_of(
    delimiter: str | None,
    header: bool | None,
    decimal: str,
    missing: list[str] | None,
    thousands: str | None = None,
) -> Form:
    """How a CSV is written, as these options say."""
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
    return Form(delimiter, header, Cells(decimal, (*MISSING, *(missing or ())), thousands))


def number_or_text(text: str) -> float | str:
    """A number if it is one."""
    try:
        return float(text)
    except ValueError:
        return text
