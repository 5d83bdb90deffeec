"""The command line of a benchmark: options with one name and one meaning in all of them."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

#: Where the figures of full runs are kept, by room.
RESULTS = Path(__file__).parents[1] / "results"

#: Every benchmark has the first two, and those of the rest that it heeds.
OPTIONS: dict[str, dict[str, Any]] = {
    "quick": {"action": "store_true", "help": "a small part, in about a minute"},
    "csv": {"type": Path, "metavar": "FOLDER", "help": "write figures and rows to FOLDER/<room>/, as CSV"},
    "only": {"metavar": "TEXT", "default": "", "help": "only cases whose name contains all words of TEXT"},
    "data": {"metavar": "FOLDER", "help": "holds the real data sets; else the folder DUALFLOW_DATA, else OpenML"},
    "plot": {"type": Path, "metavar": "FOLDER", "help": "write plots to FOLDER, as PNG"},
    "paper": {"type": Path, "metavar": "FILE", "help": "CSV with the paper's figures; else that in the data folder"},
    "solver": {"metavar": "NAME", "help": "our solver; the estimators' default otherwise"},
    "limit": {"type": float, "metavar": "SECONDS", "help": "longest single fit (600; MNIST 3600)"},
    "runs": {"type": int, "metavar": "N", "help": "timed runs of every fit, against the rule; for a look"},
    "threads": {"type": int, "metavar": "N", "help": "only what runs on so many BLAS threads"},
}


def command_line(
    claim: str, *names: str, extra: Callable[[argparse.ArgumentParser], Any] | None = None
) -> argparse.Namespace:
    """The options of `OPTIONS` that are named, and what ``extra`` adds; ``claim`` is the module's docstring."""
    parser = argparse.ArgumentParser(description=claim.split("\n\n")[0])
    for name in ("quick", "csv", *names):
        parser.add_argument(f"--{name}", **OPTIONS[name])
    if extra:
        extra(parser)
    options = parser.parse_args()
    if is_part(options) and options.csv and options.csv.resolve() == RESULTS:
        parser.error("--csv: benchmarks/results keeps full runs only; give a part of one another folder")
    return options


def is_part(options: argparse.Namespace) -> bool:
    """Whether less than the claim was asked for, or something else."""
    names = ("quick", "only", "runs", "rows", "sizes", "seeds", "some", "n", "how", "shots")
    return any(getattr(options, name, None) for name in names)


def chosen(case: str, only: str) -> bool:
    """Whether a case's name contains all words of ``only``."""
    return all(word in case for word in only.split())
