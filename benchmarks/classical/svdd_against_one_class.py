"""Claim: `dualflow.SVDD` is at least 4 × faster than scikit-learn's `OneClassSVM`, and nowhere slower.

Abalone, spambase, phoneme (features standardised), all digits, and the generated sets; ν = 0.01, 0.1, 0.5. Raw (the
solver alone, refine=False, tol=1e-3) and certified to a relative gap ≤ 1e-9, each against OneClassSVM(tol=1e-3,
cache_size=2000), by the wall and in user time: geometric mean ≥ 4 ×, no cell below 1 ×. Both solve the same problem,
k(x, x) being 1. Two BLAS threads are shown. scikit-learn-intelex has no one-class machine.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.lib import data, real
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVDD, LibsvmOneClass
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, cells, gaps_at_most, little_system_time, mean_at_least, no_worse_gaps
from benchmarks.lib.report import main

RAW, REFINED, PEER = "dualflow raw", "dualflow refined", "OneClassSVM tol=0.001"
REAL = ("abalone", "spambase", "phoneme", "digits")


def build(data_set: str, n: int | None, nu: float, folder: str | None, solver: str | None) -> list[Entrant]:
    X, _ = data.load(data_set, n) if n else real.two_classes(data_set, folder)
    gamma = data.scale_gamma(X)
    ours: list[Entrant] = [DualflowSVDD(X, nu, gamma, refine=refine, solver=solver) for refine in (False, True)]
    return [ours[0], LibsvmOneClass(X, nu, gamma), ours[1]]


def cases(options: argparse.Namespace) -> list[Case]:
    sizes = (1000,) if options.quick else (1000, 4000, 10000)
    sets: list[tuple[str, int | None]] = [] if options.quick else [(name, None) for name in REAL]
    sets += [(name, n) for n in sizes for name in data.NAMES]
    given = {"folder": options.data, "solver": options.solver}
    return [
        Case(f"{name}{f' n={n}' if n else ''} nu={nu:g}", build, {"data_set": name, "n": n, "nu": nu, **given})
        for name, n in sets
        for nu in (0.01, 0.1, 0.5)
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    return [
        *against(rows, RAW, PEER, "raw against OneClassSVM", mean=4.0, least=1.0),
        *against(rows, REFINED, PEER, "refined against OneClassSVM", mean=4.0, least=1.0),
        gaps_at_most([row for row in rows if row.entrant in (REFINED, "(all)")], 1e-9, "refined"),
        little_system_time(rows, (RAW, REFINED)),
        no_worse_gaps(cells(rows, RAW, PEER), "raw against OneClassSVM"),
        mean_at_least(cells(rows, RAW, PEER, 2), 4.0, "raw against OneClassSVM, 2 BLAS threads", kind="shown"),
    ]


if __name__ == "__main__":
    sys.exit(main("classical/svdd_against_one_class", __doc__, cases, judge, "solver", "data"))
