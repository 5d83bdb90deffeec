"""Command-line options that several commands share, and the CSV format that they describe."""

from __future__ import annotations

import re
from collections.abc import Iterable
from errno import ENOENT
from functools import partial
from itertools import pairwise
from os import strerror
from pathlib import Path
from textwrap import wrap
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from ..core.named_kernels import kernels_with
from ..exceptions import ProblemError, did_you_mean
from .cells import THOUSANDS, CellFormat
from .csv_data import CsvFormat
from .output import COMMAND_OPTIONS, OVERWRITE_HELP, say
from .table import MISSING_TEXTS

# Groups of options, the values of `rich_help_panel`.
TABLE = "The table"
MODEL = "The model"
CLASSES = "Classes"
SCORES = "Search and scores"
LIMITS = "The solver"
OUTPUT = "Output"

#: How the help names a value, by typer's name of its type.
VALUE_WORDS = {"str": "TEXT", "float": "NUMBER", "int": "NUMBER", "path": "FILE"}


#: What the value of an option must be, by typer's word for the type; versions of typer use different words.
NUMBER_WORDS = {"integer": "a whole number", "number": "a number", "float": "a number"}

#: Parameters that the help of a command with many options explains; it only names the others.
MOST_USED = {
    "compare": "label class_weight positive scoring drop max_n quantum solvers seeds report all_rows json help_all",
    "train": "out label kind search proba class_weight positive cv C gamma kernel drop json help_all",
}
#: One example of each command, which ends its help.
EXAMPLES = {
    "train": "train churn.csv --label churn --class-weight balanced --proba",
    "predict": "predict model.dualflow new.csv --id customer --out predictions.csv",
    "check": "check model.dualflow churn.csv",
    "compare": "compare churn.csv --label churn --scoring recall",
    "solvers": "solvers --json",
    "devices": "devices",
    "convert": "convert model.dualflow model.onnx",
    "circuits list": "circuits list",
    "circuits export": "circuits export --out circuits",
    "jobs list": "jobs list run.journal",
    "jobs show": "jobs show run.journal JOB",
    "jobs fetch": "jobs fetch run.journal",
    "jobs resume": "jobs resume run.journal",
    "jobs cancel": "jobs cancel run.journal JOB",
}
#: Entry of a context's ``meta`` that makes the help explain all options.
_HELP_ALL = "dualflow.help_all"


class GroupedCommand(TyperCommand):
    """A command whose help lists its options in the groups that `rich_help_panel` names.

    Of a command in `MOST_USED` it explains these options, and names the others. An example ends it. If the value of
    a numeric option is not a number, the error is one sentence.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = [param for param in self.params if param.param_type_name == "option"]
        COMMAND_OPTIONS.set({str(param.name): _typed(param, args) for param in options})
        given = list(args)
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as error:
            word = next((word for kind, word in NUMBER_WORDS.items() if f"a valid {kind}" in error.message), None)
            if word is None or error.param is None:
                raise
            option = max(error.param.opts, key=len)
            value = next((text for text in map(partial(_value, given), error.param.opts) if text is not None), None)
            say(f"Error: {option}{'' if value is None else f' {value!r}'} must be {word}", err=True)
            raise typer.Exit(2) from None

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        words: list[str] = []
        while ctx.parent is not None:
            words, ctx = [ctx.info_name, *words], ctx.parent
        if (example := EXAMPLES.get(" ".join(words))) is not None:
            formatter.write(f"\nExample: dualflow {example}\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        groups: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
        others: dict[str, list[str]] = {}
        used = [] if _HELP_ALL in ctx.meta else MOST_USED.get(self.name or "", "").split()
        params = self.get_params(ctx)
        for param in sorted(params, key=lambda param: used.index(param.name) if param.name in used else len(used)):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            record = (re.sub(r"<(\w+)>", lambda kind: VALUE_WORDS.get(kind[1], kind[0]), record[0]), record[1])
            panel = getattr(param, "rich_help_panel", None)
            if param.param_type_name == "argument":
                groups["Arguments"].append(record)
            elif not used or param.name in (*used, "help"):
                groups.setdefault((not used and panel) or "Options", []).append(record)
            else:
                others.setdefault(panel or "Others", []).append(record[0].replace(" / ", "/"))
        if _HELP_ALL in ctx.meta:
            groups["Options"] = groups.pop("Options")  # --help alone: last
        for title, records in groups.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
        if others:
            with formatter.section("More options, explained by --help-all"):
                for title, names in others.items():
                    indent = " " * (formatter.current_indent + 2)
                    text = f"{indent[2:]}{title}: {', '.join(names)}"
                    lines = wrap(text, formatter.width, subsequent_indent=indent, break_on_hyphens=False)
                    formatter.write("\n".join(lines) + "\n")


def _value(args: list[str], option: str) -> str | None:
    """Return the text that the user typed for an option, or None."""
    for word, following in pairwise([*args, ""]):
        if word == option:
            return following
        if option.startswith("--") and word.startswith(f"{option}="):
            return word.partition("=")[2]
    return None


def _typed(param: Any, args: list[str]) -> str:
    """Return an option as errors show it: its long form, or its short one and the value if that was typed."""
    for option in param.opts:
        if not option.startswith("--") and (value := _value(args, option)) is not None:
            return f"{option} {value}"
    return max(param.opts, key=len)


def _show_all_help(ctx: typer.Context, wanted: bool) -> None:
    if wanted:
        ctx.meta[_HELP_ALL] = True
        typer.echo(ctx.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", callback=_show_all_help, is_eager=True, help="Explain all options, and exit.")
]


Data = Annotated[
    Path, typer.Argument(metavar="DATA", help="CSV (any delimiter, .gz), parquet or svmlight; - is standard input.")
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help='The separator of the cells of a CSV: one character, or "tab"; detected from the file by default.',
        rich_help_panel=TABLE,
    ),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether the first line names the columns; detected from the file by default.",
        rich_help_panel=TABLE,
    ),
]
Decimal = Annotated[str, typer.Option(help='The decimal point of a CSV, "." or ",".', rich_help_panel=TABLE)]
Thousands = Annotated[
    str | None,
    typer.Option(help='The separator of thousands in a CSV: ",", ".", "\'" or "space".', rich_help_panel=TABLE),
]
Missing = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TEXT",
        help="A cell that means a missing value, in addition to empty cells, NA, NaN, null, None and ?. Repeatable.",
        rich_help_panel=TABLE,
    ),
]
Format = Annotated[
    str | None,
    typer.Option(
        "--format", help="csv, parquet or svmlight; detected from the file by default.", rich_help_panel=TABLE
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Columns to leave out: names, or numbers from 1, comma separated; repeatable.",
        rich_help_panel=TABLE,
    ),
]
Text = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Columns to read as categories although they hold numbers (postcodes, for example); as --drop.",
        rich_help_panel=TABLE,
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="Columns to keep as features although they look like names or numbers of rows; as --drop.",
        rich_help_panel=TABLE,
    ),
]
OneHot = Annotated[
    bool,
    typer.Option(
        "--one-hot/--no-one-hot",
        help="Encode a text column as one feature for each of its texts.",
        rich_help_panel=TABLE,
    ),
]
Impute = Annotated[
    bool,
    typer.Option(
        "--impute/--no-impute",
        help="Replace a missing cell by the column's median, or its most frequent text.",
        rich_help_panel=TABLE,
    ),
]
ClassWeight = Annotated[
    str | None,
    typer.Option(
        help='Factors of C for the points of a class: "balanced" (as much weight for each class), or "LABEL=WEIGHT,…".',
        rich_help_panel=CLASSES,
    ),
]
Positive = Annotated[
    str | None,
    typer.Option(
        metavar="LABEL",
        help="The class whose recall and precision are given; the rarest by default.",
        rich_help_panel=CLASSES,
    ),
]
Standardise = Annotated[
    bool | None,
    typer.Option(
        "--standardise/--no-standardise",
        help="Scale number columns to mean 0 and standard deviation 1; by default yes, and no for svmlight.",
        rich_help_panel=TABLE,
    ),
]


def kernel_words() -> str:
    """Return the values of --kernel, which a command can compute from a table, as words of a sentence."""
    *names, last = kernels_with()
    return f"{', '.join(names)} or {last}"


Kernel = Annotated[str, typer.Option(help=f"{kernel_words()}.", rich_help_panel=MODEL)]
Gamma = Annotated[str, typer.Option(help="scale, auto or a number.", rich_help_panel=MODEL)]
Degree = Annotated[float, typer.Option(help="Degree of the poly kernel.", rich_help_panel=MODEL)]
Coef0 = Annotated[float, typer.Option(help="Constant of the poly and sigmoid kernels.", rich_help_panel=MODEL)]
Overwrite = Annotated[bool, typer.Option("--overwrite", help=OVERWRITE_HELP, rich_help_panel=OUTPUT)]


def csv_format(
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


def check_kernel(kernel: str) -> None:
    """Raise ProblemError for a kernel that a command cannot compute from a table."""
    if kernel == "precomputed":
        raise ProblemError(
            f"--kernel precomputed needs a kernel matrix, and a table holds points; use {kernel_words()}"
        )
    if kernel not in (names := kernels_with()):
        from ..core.kernel_functions import meant_kernel

        raise ProblemError(f"--kernel={kernel!r} is not one of {', '.join(names)}{meant_kernel(kernel)}")


def check_exists(*paths: Path | None) -> None:
    """Raise ProblemError for a path without a file, before packages are loaded; - and None are fine."""
    for path in paths:
        if path is not None and str(path) != "-" and not path.exists():
            beside = [other.name for other in path.parent.iterdir()] if path.parent.is_dir() else []
            raise ProblemError(f"{path}: {strerror(ENOENT)}{did_you_mean(path.name, beside)}")


def check_order(model: Path, data: Path | None) -> None:
    """Raise ProblemError if the model and the table are swapped."""
    from ..persistence.container import is_model_file

    if data is None or not (data.is_file() and model.is_file()) or not data.stat().st_size:
        return
    if is_model_file(data) and not is_model_file(model):
        raise ProblemError(f"the model comes first, then the table: {data} {model}")


def check_numbers(C: float | None, gamma: str, solvers: Iterable[str] = ()) -> None:
    """Raise ProblemError for a C, a gamma or a solver that no model takes, before a table is read."""
    import numpy as np

    from ..core.kernel_functions import check_gamma
    from ..problems.classification import C_RULE
    from ..solvers.registry import AUTO, solver_class

    if C is not None:
        C_RULE.check("C", C)
    check_gamma(number_or_text(gamma), np.zeros((1, 1)))
    for name in solvers:
        if name != AUTO:
            solver_class(name)


def check_class_weight(text: str | None) -> None:
    """Raise ProblemError for a misspelt "balanced", before the table is read."""
    if text not in (None, "balanced") and (suggestion := did_you_mean(text, ["balanced"])):
        raise ProblemError(f'--class-weight {text!r} must be "balanced", or LABEL=WEIGHT{suggestion}')


def number_or_text(text: str) -> float | str:
    """Return the text as a float if it is a number, else as it is."""
    try:
        return float(text)
    except ValueError:
        return text
