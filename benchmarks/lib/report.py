"""Fits timed by the harness: their cells, the claims about them, the table and the plot."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lib import ratios
from benchmarks.lib.claims import Verdict, conclude, csv_path, each, write_csv
from benchmarks.lib.command import chosen
from benchmarks.lib.command import command_line as options_of
from benchmarks.lib.harness import Case, Row, run_case
from benchmarks.lib.machine import machine

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
    figure = {"sense": ">=", "asked": least, "unit": "×", "note": f"over {len(found)} cells"}
    return Verdict(kind, what, "geometric mean", **asdict(mean_ratio(found)), **figure)


def each_at_least(
    found: Sequence[Cell], least: float, what: str, bound: str = "value", kind: str = "must", strictly: bool = False
) -> Verdict:
    """Every cell's ratio (``bound="value"``) or its lower bound (``"low"``) against a number."""
    measure = {"value": "ratio", "low": "lower bound"}[bound]
    figures = [(cell.case.name, getattr(cell.ratio, bound)) for cell in found]
    verdict = each(kind, what, measure, figures, ">" if strictly else ">=", least, unit="×")
    cell = {cell.case.name: cell for cell in found}.get(verdict.case)
    if cell is None:
        return verdict
    bounds = {"low": cell.ratio.low, "high": cell.ratio.high} if bound == "value" else {}
    return replace(verdict, note=cell.note, **bounds)


def gaps_at_most(rows: Sequence[Row], limit: float, what: str, kind: str = "must") -> Verdict:
    """Every row's certified relative gap against a number; a row without a fit fails."""
    return each(kind, what, "certified relative gap", [(r.case.name, r.relative_gap) for r in rows], "<=", limit)


def no_worse_gaps(found: Sequence[Cell], what: str) -> Verdict:
    """Whether the answers that were timed are as exact as the peer's: without it a ratio says little."""
    both = [c for c in found if c.theirs is not None and c.theirs.status == c.ours.status == "ok"]
    sides = [c.ours for c in both], [c.theirs for c in both]
    shares = [(c.case.name, _share(c.ours.relative_gap, c.theirs.relative_gap)) for c in both if c.theirs is not None]
    widest, theirs = (max((row.relative_gap for row in rows if row), default=float("nan")) for rows in sides)
    note = f"widest {widest:.2g}, theirs {theirs:.2g}"
    return each("shown", what, "our certified gap over the peer's", shares, "<=", 1.0, note=note)


def _share(ours: float, theirs: float) -> float:
    """Their quotient; 1 where both are the same, 0 or infinite."""
    return 1.0 if ours == theirs else ours / theirs if theirs > 0 else float("inf")


def command_line(
    claim: str, *names: str, extra: Callable[[argparse.ArgumentParser], Any] | None = None
) -> argparse.Namespace:
    """The options that every benchmark of the harness heeds, and those named."""
    return options_of(claim, "only", "limit", "runs", "plot", *names, extra=extra)


def main(
    title: str,
    claim: str | None,
    cases: Callable[[argparse.Namespace], list[Case]],
    judge: Callable[[list[Row]], list[Verdict]],
    *names: str,
    extra: Callable[[argparse.ArgumentParser], Any] | None = None,
) -> int:
    """A benchmark from its command line; ``names`` are the options of `OPTIONS` that its cases heed besides."""
    options = command_line(claim or "", *names, extra=extra)
    return run(title, cases(options), judge, options)


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
    cases = [case for case in cases if chosen(case.name, options.only)]
    if not cases:
        print(f"{title}: no case has {options.only!r} in its name")
        return 2
    given = {"limit_s": options.limit, "runs": options.runs}
    cases = [replace(case, **{name: value for name, value in given.items() if value}) for case in cases]
    print(f"{title}: {len(cases)} cases. {machine()}")
    print("one BLAS thread counts, two are shown; LIBSVM is single-threaded")
    path = csv_path(f"{title}_rows", options)
    begun = time.monotonic()
    rows: list[Row] = []
    for number, case in enumerate(cases, 1):
        rows += (new := run_case(case))
        print(f"[{number}/{len(cases)}, {time.monotonic() - begun:.0f} s] {case.name}")
        print(table(new), flush=True)
        if path:
            write_csv(path, [row.flat() for row in rows])
    if options.plot:
        plot(rows, options.plot / f"{title}.png", by)
    few = sorted({row.case.name for row in rows if row.status == "ok" and len(row.times) < 5})
    if few:
        print(f"fewer than 5 runs (a fit took more than 20 s, or --runs): {'; '.join(few)}")
    return conclude(title, judge(rows), options)


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
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)
