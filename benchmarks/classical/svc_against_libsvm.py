"""Claim: `dualflow.SVC` is faster than scikit-learn's `SVC` everywhere, and tells how exact it is.

Raw (the solver alone, refine=False, tol=1e-3) against SVC(tol=1e-3, cache_size=2000): geometric mean ≥ 3.5 ×, every
cell's lower bound ≥ 1.1 ×. Refined to a certified relative gap ≤ 1e-9: no cell slower than SVC at its default
tolerance, geometric mean ≥ 2 ×. On moons with C = 1000 and 1e4: at least 5 ×, and certified.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.lib import data
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVC, LibsvmSVC
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.report import (
    cells,
    each_at_least,
    gaps_at_most,
    main,
    mean_at_least,
    no_worse_gaps,
)

RAW, REFINED, PEER = "dualflow raw", "dualflow refined", "SVC tol=0.001"
EXTREME = (1000.0, 1e4)
GAP = 1e-9


def build(data_set: str, n: int, C: float, solver: str | None) -> list[Entrant]:
    X, y = data.load(data_set, n)
    gamma = data.scale_gamma(X)
    ours: list[Entrant] = [DualflowSVC(X, y, C, gamma, refine=refine, solver=solver) for refine in (False, True)]
    return [ours[0], LibsvmSVC(X, y, C, gamma), ours[1]]


def cases(options: argparse.Namespace) -> list[Case]:
    sizes, weights = ((1000,), (1.0, 100.0)) if options.quick else ((1000, 4000, 10000), (1.0, 10.0, 100.0))
    grid = [(name, n, C) for n in sizes for name in data.NAMES for C in weights]
    grid += [("moons", n, C) for n in sizes for C in EXTREME]
    return [
        Case(f"{name} n={n} C={C:g}", build, {"data_set": name, "n": n, "C": C, "solver": options.solver})
        for name, n, C in grid
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    usual = [row for row in rows if row.case.fields["C"] not in EXTREME]
    extreme = [row for row in rows if row.case.fields["C"] in EXTREME]
    verdicts = []
    if usual:
        raw, refined = cells(usual, RAW, PEER), cells(usual, REFINED, PEER)
        verdicts += [
            mean_at_least(raw, 3.5, "raw against SVC"),
            each_at_least(raw, 1.1, "raw against SVC", bound="low"),
            mean_at_least(refined, 2.0, "refined against SVC"),
            each_at_least(refined, 1.0, "refined against SVC"),
            gaps_at_most([row for row in usual if row.entrant == REFINED], GAP, "refined"),
            mean_at_least(raw, 5.0, "raw against SVC", kind="stretch"),
            mean_at_least(refined, 3.0, "refined against SVC", kind="stretch"),
            no_worse_gaps(raw, "raw against SVC"),
            mean_at_least(cells(usual, RAW, PEER, 2), 3.5, "raw against SVC, 2 BLAS threads", kind="shown"),
            mean_at_least(cells(usual, REFINED, PEER, 2), 2.0, "refined against SVC, 2 BLAS threads", kind="shown"),
        ]
    if extreme:
        verdicts += [
            each_at_least(cells(extreme, REFINED, PEER), 5.0, "moons, C = 1000 and 1e4, refined against SVC"),
            gaps_at_most([row for row in extreme if row.entrant == REFINED], GAP, "moons, C = 1000 and 1e4, refined"),
        ]
    return verdicts


if __name__ == "__main__":
    sys.exit(main("classical/svc_against_libsvm", __doc__, cases, judge, "solver"))
