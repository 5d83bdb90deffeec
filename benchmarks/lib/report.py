"""What a benchmark says: the CSV, the table, the cells, the PASS and FAIL lines, the plot, the command line."""

from __future__ import annotations

import argparse
import csv
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

import dualflow
from benchmarks.lib import ratios
from benchmarks.lib.harness import Case, Row, run_case

#: BLAS threads of the entrant's lane that counts; the other lane is shown.
JUDGED_THREADS = 1


@dataclass(frozen=True)
class Cell:
    """One case, two entrants: how many times faster ``ours`` is. ``note`` says why there is no plain ratio."""

    case: Case
    ours: Row
    theirs: Row | None
    ratio: ratios.Estimate
    note: str = ""

    @property
    def times(self) -> tuple[list[float], list[float]]:
        """Times of theirs and of ours, for the geometric mean; a timeout stands at its limit."""
        theirs = [self.case.limit_s] if self.theirs is None or self.theirs.status == "timeout" else self.theirs.times
        return theirs, self.ours.times


@dataclass(frozen=True)
class Verdict:
    """A line of judgement; ``kind`` is "must", "stretch" or "shown", and only a must decides the exit code."""

    kind: str
    passed: bool
    text: str

    def __str__(self) -> str:
        return f"{'PASS' if self.passed else 'FAIL'} ({self.kind}) {self.text}"


def find(rows: Sequence[Row], case: Case, entrant: str, threads: int = JUDGED_THREADS) -> Row | None:
    """The row of a lane, or None."""
    return next((r for r in rows if r.case == case and r.key == (entrant, threads)), None)


def cells(rows: Sequence[Row], ours: str, theirs: str, threads: int = JUDGED_THREADS) -> list[Cell]:
    """A cell for every case that has a row of ours. Ours without a time has ratio 0; a peer that timed out
    counts at its limit, a lower bound; a peer without any time has ratio NaN, which passes nothing."""
    found = []
    for row in rows:
        if row.key != (ours, threads) and row.entrant != "(all)":
            continue
        peer = find(rows, row.case, theirs)
        nothing = ratios.Estimate(float("nan"), float("nan"), float("nan"))
        if row.status != "ok":
            found.append(Cell(row.case, row, peer, ratios.Estimate(0.0, 0.0, 0.0), f"ours: {row.status} {row.reason}"))
        elif peer is not None and peer.status == "timeout":
            bound = ratios.ratio([row.case.limit_s], row.times)
            found.append(Cell(row.case, row, peer, bound, f"{theirs} timed out: a lower bound"))
        elif peer is None or peer.status != "ok":
            found.append(Cell(row.case, row, peer, nothing, f"{theirs}: {peer.reason if peer else 'no row'}"))
        else:
            found.append(Cell(row.case, row, peer, ratios.ratio(peer.times, row.times)))
    return found


def mean_ratio(found: Sequence[Cell]) -> ratios.Estimate:
    """Geometric mean of the cells' ratios; 0 if there is none, or one has no ratio."""
    if not found or not all(cell.ratio.value > 0 for cell in found):
        return ratios.Estimate(0.0, 0.0, 0.0)
    return ratios.geometric_mean([cell.times for cell in found])


def mean_at_least(found: Sequence[Cell], least: float, what: str, kind: str = "must") -> Verdict:
    """Geometric mean of the ratios against a number."""
    mean = mean_ratio(found)
    return Verdict(
        kind, mean.value >= least, f"{what}: geometric mean {mean} × over {len(found)} cells, asked ≥ {least:g} ×"
    )


def each_at_least(
    found: Sequence[Cell], least: float, what: str, bound: str = "value", kind: str = "must", strictly: bool = False
) -> Verdict:
    """Every cell's ratio (``bound="value"``) or its lower bound (``"low"``) against a number."""
    figures = [getattr(cell.ratio, bound) for cell in found]
    good = [figure > least if strictly else figure >= least for figure in figures]
    worst = found[int(np.argmin(np.nan_to_num(figures, nan=-1.0)))] if found else None
    name = {"value": "ratio", "low": "lower bound"}[bound]
    lowest = "no cells" if worst is None else f"lowest {worst.ratio} × in {worst.case.name} {worst.note}".rstrip()
    text = f"{what}: {name} in {sum(good)} of {len(good)} cells, asked {'>' if strictly else '≥'} {least:g} ×; {lowest}"
    return Verdict(kind, bool(good) and all(good), text)


def gaps_at_most(rows: Sequence[Row], limit: float, what: str, kind: str = "must") -> Verdict:
    """Every row's certified relative gap against a number; a row without a fit fails."""
    worst = max(rows, key=lambda row: row.relative_gap, default=None)
    lowest = "no rows" if worst is None else f"worst {worst.relative_gap:.2g} in {worst.case.name}"
    good = sum(row.relative_gap <= limit for row in rows)
    text = f"{what}: certified relative gap ≤ {limit:g} in {good} of {len(rows)} rows; {lowest}"
    return Verdict(kind, bool(rows) and good == len(rows), text)


def no_worse_gaps(found: Sequence[Cell], what: str) -> Verdict:
    """Whether the answers that were timed are as exact as the peer's: without it a ratio says little."""
    both = [cell for cell in found if cell.theirs is not None and cell.theirs.status == cell.ours.status == "ok"]
    good = [cell.ours.relative_gap <= cell.theirs.relative_gap for cell in both if cell.theirs is not None]
    widest = max((c.ours.relative_gap for c in both), default=float("nan"))
    theirs = max((c.theirs.relative_gap for c in both if c.theirs is not None), default=float("nan"))
    text = f"{what}: our gap ≤ the peer's in {sum(good)} of {len(good)} cells; widest {widest:.2g}, theirs {theirs:.2g}"
    return Verdict("shown", bool(good) and all(good), text)


def command_line(claim: str, extra: Callable[[argparse.ArgumentParser], None] | None = None) -> argparse.Namespace:
    """The options all benchmarks share."""
    parser = argparse.ArgumentParser(description=claim.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small part of the cases, about a minute")
    parser.add_argument("--only", metavar="TEXT", help="only the cases whose name contains TEXT")
    parser.add_argument("--solver", metavar="NAME", help="our solver; the estimators' default otherwise")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all rows to FILE, after every case")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write rows (CSV) and plot (PNG) to FOLDER")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="longest single fit (600; MNIST 3600)")
    parser.add_argument("--runs", type=int, metavar="N", help="timed runs of every fit, against the rule; for a look")
    if extra:
        extra(parser)
    return parser.parse_args()


def run(
    title: str,
    cases: Sequence[Case],
    judge: Callable[[list[Row]], list[Verdict]],
    options: argparse.Namespace,
    by: str = "data_set",
) -> int:
    """Measure, print, write, judge; 1 if a must failed.

    ``by`` is the field that the panels of the plot are made by.
    """
    cases = [case for case in cases if not options.only or options.only in case.name]
    if not cases:
        print(f"{title}: no case has {options.only!r} in its name")
        return 2
    given = {"limit_s": options.limit, "runs": options.runs}
    cases = [replace(case, **{name: value for name, value in given.items() if value}) for case in cases]
    paths = [options.csv] if options.csv else []
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        paths.append(options.out / f"{title}.csv")
    print(f"{title}: {len(cases)} cases. {_machine()}")
    print("one BLAS thread counts, two are shown; LIBSVM is single-threaded")
    begun = time.monotonic()
    rows: list[Row] = []
    for number, case in enumerate(cases, 1):
        rows += (new := run_case(case))
        print(f"[{number}/{len(cases)}, {time.monotonic() - begun:.0f} s] {case.name}")
        print(table(new), flush=True)
        for path in paths:
            write_csv(path, rows)
    if options.out:
        plot(rows, options.out / f"{title}.png", by)
    verdicts = judge(rows)
    few = sorted({row.case.name for row in rows if row.status == "ok" and len(row.times) < 5})
    if few:
        print(f"fewer than 5 runs (a fit took more than 20 s, or --runs): {'; '.join(few)}")
    if options.quick or options.only:
        print("A part of the cases only: these lines are about that part, not about the claim.")
    print("\n".join(str(verdict) for verdict in verdicts))
    return int(any(verdict.kind == "must" and not verdict.passed for verdict in verdicts) or not verdicts)


def table(rows: Sequence[Row]) -> str:
    """A line a row."""
    lines = []
    for row in rows:
        lane = f"  {row.entrant:<28} {row.threads} thr"
        if row.status != "ok":
            lines.append(f"{lane}  {row.status}: {row.reason}")
            continue
        middle = ratios.median(row.times)
        wanted = ("support_vectors", "steps", "relative_difference", "accuracy")
        rest = [f"{name} {row.columns[name]:.4g}" for name in wanted if name in row.columns]
        gap = f"gap {row.relative_gap:8.1e}" if "relative_gap" in row.columns else ""
        bounds = f"[{middle.low:9.4f}, {middle.high:9.4f}]"
        spent = f"{middle.value:9.4f} s {bounds} {len(row.times):2d} runs"
        lines.append(f"{lane} {spent}  {gap}  {' '.join(rest)}".rstrip())
    return "\n".join(lines)


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """All rows; columns in order of first appearance."""
    flat = [row.flat() for row in rows]
    names = list(dict.fromkeys(name for line in flat for name in line))
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(flat)


def plot(rows: Sequence[Row], path: Path, by: str) -> None:
    """Median time against certified relative gap: a panel a value of ``by``, a colour an entrant, size by n."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shown = [row for row in rows if row.status == "ok" and np.isfinite(row.relative_gap)]
    values = list(dict.fromkeys(str(row.case.fields.get(by)) for row in shown))
    entrants = list(dict.fromkeys(f"{row.entrant}, {row.threads} thr" for row in shown))
    figure, axes = plt.subplots(1, max(1, len(values)), figsize=(4.2 * max(1, len(values)) + 2, 4), squeeze=False)
    for axis, value in zip(axes[0], values or ["nothing to show"], strict=False):
        axis.set(title=value, xscale="log", yscale="log", xlabel="certified relative gap", ylabel="median time, s")
        for number, entrant in enumerate(entrants):
            part = [
                r for r in shown if str(r.case.fields.get(by)) == value and f"{r.entrant}, {r.threads} thr" == entrant
            ]
            x = [max(row.relative_gap, 1e-16) for row in part]
            y = [ratios.median(row.times).value for row in part]
            size = [10 + 60 * float(row.case.fields.get("n", 1000)) / 10000 for row in part]
            axis.scatter(x, y, s=size, alpha=0.7, color=f"C{number % 10}", label=entrant)
        axis.invert_xaxis()
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="center right", fontsize="small")
    figure.tight_layout(rect=(0, 0, 1 - 2 / (4.2 * max(1, len(values)) + 2), 1))
    figure.savefig(path, dpi=120)
    plt.close(figure)


def _machine() -> str:
    blas = ", ".join(sorted({f"{info['internal_api']} {info['version']}" for info in threadpool_info()}))
    versions = f"scikit-learn {sklearn.__version__}, numpy {np.__version__}, scipy {scipy.__version__}"
    python = f"Python {platform.python_version()}, {os.cpu_count()} processors"
    return f"dualflow {dualflow.__version__}, {versions}, {blas}, {python}"
