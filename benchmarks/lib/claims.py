"""What a benchmark says: rows as they come, figures against what is asked of them, both as CSV too."""

from __future__ import annotations

import argparse
import csv
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.lib.command import is_part

SENSES = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}
SIGNS = {">=": "≥", ">": ">", "<=": "≤", "<": "<"}


@dataclass(frozen=True)
class Verdict:
    """A figure, and whether it is what is asked; a line of the table in README.md.

    Attributes
    ----------
    kind : str
        "must", "stretch" or "shown"; only a must decides the exit code.
    what, measure : str
        Whose figure, and of what.
    value : float
        The figure; of several cells, that of the worst.
    sense, asked : str, float
        ``value sense asked`` is what is wanted, sense being a key of `SENSES`; nothing is where it is empty.
    case : str
        The cell the figure is of.
    low, high : float or None
        95 % bootstrap bounds, where there are any.
    good, cells : int
        How many cells hold, of how many; of one cell, and without ``good``, the figure says it.
    """

    kind: str
    what: str
    measure: str
    value: float
    sense: str = ""
    asked: float = float("nan")
    unit: str = ""
    case: str = ""
    note: str = ""
    low: float | None = None
    high: float | None = None
    good: int | None = None
    cells: int = 1

    @property
    def held(self) -> int:
        if self.good is not None:
            return self.good
        return int(not self.sense or bool(SENSES[self.sense](self.value, self.asked)))

    @property
    def passed(self) -> bool:
        return self.held == self.cells > 0

    @property
    def text(self) -> str:
        bounds = "" if self.low is None or self.high is None else f" [{self.low:.3g}, {self.high:.3g}]"
        unit = self.unit and f" {self.unit}"
        parts = [f"{self.what}: {self.measure} {self.value:.4g}{bounds}{unit}"]
        if self.sense:
            parts.append(f"asked {SIGNS[self.sense]} {self.asked:.4g}{unit}")
        if self.cells != 1:
            parts.append(f"in {self.held} of {self.cells} cells")
        return "; ".join([", ".join(parts), *filter(None, (self.case, self.note))])

    def __str__(self) -> str:
        word = ("PASS" if self.passed else "FAIL") if self.sense else "SHOWN"
        return f"{word} ({self.kind}) {self.text}"

    def flat(self) -> dict[str, Any]:
        """The line of the CSV."""
        asked = self.asked if self.sense else None
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        about = {"kind": self.kind, "what": self.what, "measure": self.measure, "case": self.case}
        wanted = {"unit": self.unit, "sense": self.sense, "asked": asked, "good": self.held, "cells": self.cells}
        return about | {k: None if v is None else f"{v:.6g}" for k, v in numbers.items()} | wanted | {"note": self.note}


def each(
    kind: str, what: str, measure: str, found: Sequence[tuple[str, float]], sense: str, asked: float, **more: Any
) -> Verdict:
    """Every cell's figure, given as (case, figure), against one number; nothing passes where there are none."""
    good = sum(bool(SENSES[sense](value, asked)) for _, value in found)
    case, value = worst(found, sense)
    return Verdict(kind, what, measure, value, sense, asked, case=case, good=good, cells=len(found), **more)


def worst(found: Sequence[tuple[str, float]], sense: str) -> tuple[str, float]:
    """The cell farthest from what is wanted: one without a figure, else the largest or the smallest."""
    sign = 1 if sense.startswith("<") else -1
    return max(found, key=lambda cell: (cell[1] != cell[1], sign * cell[1]), default=("no cells", float("nan")))


class Claims:
    """Figures said case by case, as they come, and put together by claim at the end."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str, str, str, float, str], list[tuple[str, float]]] = {}

    def say(
        self,
        what: str,
        measure: str,
        case: str,
        value: float,
        sense: str,
        asked: float,
        unit: str = "",
        kind: str = "must",
        note: str = "",
    ) -> None:
        """Print a case's figure, and keep it."""
        value = float(value)
        print(Verdict(kind, what, measure, value, sense, asked, unit, case, note), flush=True)
        self.found.setdefault((kind, what, measure, sense, asked, unit), []).append((case, value))

    def verdicts(self) -> list[Verdict]:
        """A line a claim."""
        return [
            each(kind, what, measure, found, sense, asked, unit=unit)
            for (kind, what, measure, sense, asked, unit), found in self.found.items()
        ]


class Rows:
    """Rows as they come: printed (the columns in ``shown``, or all), and written to ``<title>.csv`` one by one."""

    def __init__(self, title: str, options: argparse.Namespace, shown: Sequence[str] = ()) -> None:
        self.path, self.shown = csv_path(title, options), shown
        self.lines: list[dict[str, Any]] = []
        self.columns: list[str] = []  # of the file as this process wrote it

    def add(self, case: str, **columns: Any) -> dict[str, Any]:
        row = {"case": case, **columns}
        self.lines.append(row)
        shown = {name: row[name] for name in self.shown or columns}
        print(f"{case}: " + ", ".join(f"{name} {_text(value)}" for name, value in shown.items()), flush=True)
        if self.path and list(row) == self.columns:
            with self.path.open("a", newline="", encoding="utf-8") as file:
                csv.DictWriter(file, self.columns, lineterminator="\n").writerow(row)
        elif self.path:
            self.columns = write_csv(self.path, self.lines)
        return row

    def resume(self) -> None:
        """Take up the rows of an earlier run, but for one that was cut short; their values are text."""
        if self.path and self.path.exists():
            lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
            self.lines = list(csv.DictReader(line for line in lines if line.endswith("\n")))


def conclude(title: str, verdicts: Sequence[Verdict], options: argparse.Namespace | None = None) -> int:
    """Print the verdicts, write them to ``<title>.csv`` where that is wanted; 1 if a must failed."""
    if options and is_part(options):
        print("A part of the cases only: these lines are about that part, not about the claim.")
    print("\n".join(str(verdict) for verdict in verdicts))
    if options and (path := csv_path(title, options)):
        write_csv(path, [verdict.flat() for verdict in verdicts])
    return int(not verdicts or any(verdict.kind == "must" and not verdict.passed for verdict in verdicts))


def csv_path(title: str, options: argparse.Namespace) -> Path | None:
    """``<folder>/<title>.csv``, or None if no CSV is wanted; a title is "room/name"."""
    return options.csv / f"{title}.csv" if options.csv else None


def write_csv(path: Path, lines: Sequence[dict[str, Any]]) -> list[str]:
    """All lines, or the file as it was; returns the columns, in order of first appearance."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for line in lines for name in line))
    beside = path.with_suffix(".part")
    with beside.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)
    beside.replace(path)
    return names


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
