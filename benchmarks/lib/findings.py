"""What a paper says, what we get, and why they differ where they do: a row a figure, a table's cell or a claim."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from benchmarks.lib.claims import csv_path, write_csv
from benchmarks.lib.command import command_line

VERDICTS = ("match", "mismatch", "not reproducible")


@dataclass(frozen=True)
class Finding:
    """A row of a paper's table.

    Attributes
    ----------
    where : str
        "figure 4", "table 2, liver, C = 1", "equation 3", "section 5".
    what : str
        The quantity.
    says, gets : str
        What the paper says of it, and what is found here, with its spread and the number of realisations.
    verdict : {"match", "mismatch", "not reproducible"}
        Decided by a rule that is written where it is applied, never by hand. "not reproducible" is for what the paper
        gives too little of to be tried, or what contradicts itself; the reason is then the evidence.
    why : str
        The reason, wherever the verdict is not "match".
    seed : int or None
        Of the draws; None where nothing is drawn.
    """

    where: str
    what: str
    says: str
    gets: str
    verdict: Literal["match", "mismatch", "not reproducible"]
    why: str = ""
    seed: int | None = None

    def __post_init__(self) -> None:
        if self.verdict not in VERDICTS:
            raise ValueError(f"verdict is {self.verdict!r}, one of {', '.join(VERDICTS)} is wanted")
        if self.verdict != "match" and not self.why:
            raise ValueError(f"{self.where}, {self.what}: a {self.verdict} needs its reason")

    def __str__(self) -> str:
        reason = f"; {self.why}" if self.why else ""
        return f"{self.verdict.upper()} {self.where}, {self.what}: paper {self.says}, here {self.gets}{reason}"


def main(title: str, claim: str | None, find: Callable[[argparse.Namespace], Sequence[Finding]], *names: str) -> int:
    """A paper's file from its command line to its table; 1 if it finds nothing.

    ``names`` are options of `benchmarks.lib.command.OPTIONS` besides ``quick``, ``csv``, ``data`` and ``plot``. What
    misses the paper is a finding, not a failure.
    """
    options = command_line(claim or "", "data", "plot", *names)
    begun = time.perf_counter()
    findings = list(find(options))
    for finding in findings:
        print(finding)
    counts = ", ".join(f"{sum(f.verdict == verdict for f in findings)} {verdict}" for verdict in VERDICTS)
    print(f"{title}: {counts}; {time.perf_counter() - begun:.0f} s", flush=True)
    if path := csv_path(title, options):
        write_csv(path, [flat(finding) for finding in findings])
    return int(not findings)


def flat(finding: Finding) -> dict[str, Any]:
    """The line of the CSV."""
    return asdict(finding)


def by(agrees: bool, why: str) -> dict[str, Any]:
    """Verdict and reason: ``why`` counts only where the two disagree."""
    return {"verdict": "match"} if agrees else {"verdict": "mismatch", "why": why}


def agree(mean: float, error: float, paper: float, paper_error: float = 0.0, k: float = 3.0) -> bool:
    """Whether a mean with a standard error is within k standard errors of a paper's figure."""
    return abs(mean - paper) <= k * float((error**2 + paper_error**2) ** 0.5)
