"""Fits timed by the harness: from the command line to the table, the plot and the verdicts."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.lib import ratios
from benchmarks.lib.claims import Verdict, conclude, csv_path, write_csv
from benchmarks.lib.command import chosen
from benchmarks.lib.command import command_line as options_of
from benchmarks.lib.harness import Case, Row, run_case
from benchmarks.lib.machine import machine


def command_line(
    claim: str, *names: str, extra: Callable[[argparse.ArgumentParser], Any] | None = None
) -> argparse.Namespace:
    """The options that every benchmark of the harness heeds, and those named."""
    return options_of(claim, "only", "limit", "runs", "threads", "plot", *names, extra=extra)


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
    given = {"limit_s": options.limit, "runs": options.runs, "threads": options.threads}
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
        print(f"fewer than 5 runs (a fit took more than 2 s, or --runs): {'; '.join(few)}")
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
        if row.user_times:
            user, system, fresh = (
                ratios.median(found).value for found in (row.user_times, row.system_times, row.fresh_mb)
            )
            spent += f"  user {user:.4f} system {system:.4f} fresh {fresh:.1f} MB"
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
