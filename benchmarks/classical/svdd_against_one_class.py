"""Claim: `dualflow.SVDD` is at least 4 × faster than scikit-learn's `OneClassSVM`, and nowhere slower.

Raw (the solver alone, refine=False, tol=1e-3) against OneClassSVM(tol=1e-3, cache_size=2000), ν = 0.01, 0.1, 0.5:
geometric mean ≥ 4 ×, no cell below 1 ×. Both solve the same problem, k(x, x) being 1. Refined and two BLAS threads
are shown.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.lib import data
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVDD, LibsvmOneClass
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.report import (
    cells,
    each_at_least,
    gaps_at_most,
    main,
    mean_at_least,
    no_worse_gaps,
)

RAW, REFINED, PEER = "dualflow raw", "dualflow refined", "OneClassSVM tol=0.001"


def build(data_set: str, n: int, nu: float, solver: str | None) -> list[Entrant]:
    X, _ = data.load(data_set, n)
    gamma = data.scale_gamma(X)
    ours: list[Entrant] = [DualflowSVDD(X, nu, gamma, refine=refine, solver=solver) for refine in (False, True)]
    return [ours[0], LibsvmOneClass(X, nu, gamma), ours[1]]


def cases(options: argparse.Namespace) -> list[Case]:
    sizes = (1000,) if options.quick else (1000, 4000, 10000)
    return [
        Case(f"{name} n={n} nu={nu:g}", build, {"data_set": name, "n": n, "nu": nu, "solver": options.solver})
        for n in sizes
        for name in data.NAMES
        for nu in (0.01, 0.1, 0.5)
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    raw, refined = cells(rows, RAW, PEER), cells(rows, REFINED, PEER)
    return [
        mean_at_least(raw, 4.0, "raw against OneClassSVM"),
        each_at_least(raw, 1.0, "raw against OneClassSVM"),
        no_worse_gaps(raw, "raw against OneClassSVM"),
        mean_at_least(refined, 4.0, "refined against OneClassSVM", kind="shown"),
        each_at_least(refined, 1.0, "refined against OneClassSVM", kind="shown"),
        gaps_at_most([row for row in rows if row.entrant == REFINED], 1e-9, "refined", kind="shown"),
        mean_at_least(cells(rows, RAW, PEER, 2), 4.0, "raw against OneClassSVM, 2 BLAS threads", kind="shown"),
    ]


if __name__ == "__main__":
    sys.exit(main("classical/svdd_against_one_class", __doc__, cases, judge, "solver"))
