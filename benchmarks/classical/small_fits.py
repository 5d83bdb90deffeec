"""Claim: a certified fit of 50, 100 or 200 points takes no longer than SVC's and 0.3 ms.

Iris, wine and breast cancer (standardised; one class against the rest, all points where there are fewer) and moons;
RBF, γ = "scale", C = 1 and 10; by the wall and in user time. What a fit costs at the least is that of two points, and
shown.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

from benchmarks.lib import data, ratios, real
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.entrants import DualflowSVC, LibsvmSVC
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import CLOCKS, against, find, gaps_at_most, seconds
from benchmarks.lib.peers import INTELEX, IntelexSVC
from benchmarks.lib.report import main

OURS, PEER = "dualflow refined", "SVC tol=0.001"
SETS, SIZES, CS = ("iris", "wine", "breast cancer", "moons"), (50, 100, 200), (1.0, 10.0)
FIXED = "two points"
ALLOWED_MS, GAP, RUNS = 0.3, 1e-9, 101


def build(data_set: str, n: int, C: float) -> list[Entrant]:
    if data_set == FIXED:
        X, y = np.array([[0.0], [1.0]]), np.array([-1.0, 1.0])
    else:
        X, y = real.small(data_set, n)
    given = (X, y, C, data.scale_gamma(X))
    found: list[Entrant] = [DualflowSVC(*given, refine=True), LibsvmSVC(*given), IntelexSVC(*given)]
    for entrant in found:
        entrant.threads = (1,)
    return found


def cases(options: argparse.Namespace) -> list[Case]:
    sizes, weights = (SIZES[:1], CS[:1]) if options.quick else (SIZES, CS)
    grid = [(FIXED, 2, 1.0), *((name, n, C) for name in SETS for n in sizes for C in weights)]
    return [Case(f"{name} n={n} C={C:g}", build, {"data_set": name, "n": n, "C": C}, runs=RUNS) for name, n, C in grid]


def later_ms(rows: list[Row], ours: Row, clock: str) -> float:
    """How much longer than SVC's ours takes, in milliseconds; NaN where one of them has no time."""
    theirs = find(rows, ours.case, PEER)
    if theirs is None or not seconds(ours, clock) or not seconds(theirs, clock):
        return float("nan")
    return 1e3 * (ratios.median(seconds(ours, clock)).value - ratios.median(seconds(theirs, clock)).value)


def judge(rows: list[Row]) -> list[Verdict]:
    usual = [row for row in rows if row.case.fields["data_set"] != FIXED]
    mine = [row for row in usual if row.key in ((OURS, 1), ("(all)", 0))]
    verdicts = []
    for clock in CLOCKS:
        what = "SVC of few points" + ("" if clock == "wall" else f", {clock} time")
        found = [(row.case.name, later_ms(rows, row, clock)) for row in mine]
        verdicts.append(each("must", what, "later than SVC", found, "<=", ALLOWED_MS, unit="ms"))
    verdicts.append(gaps_at_most(mine, GAP, "certified"))
    for row in rows:
        if row.case.fields["data_set"] == FIXED and row.times and row.threads == 1:
            middle = ratios.median([1e3 * t for t in row.times])
            bounds = {"low": middle.low, "high": middle.high}
            verdicts.append(Verdict("shown", row.entrant, "fixed cost of a fit", middle.value, unit="ms", **bounds))
    return [*verdicts, *against(usual, OURS, (PEER, INTELEX), "against the faster one", mean=1.0, kind="shown")]


if __name__ == "__main__":
    sys.exit(main("classical/small_fits", __doc__, cases, judge))
