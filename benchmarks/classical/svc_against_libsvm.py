"""Claim: `dualflow.SVC` is faster than scikit-learn's `SVC` everywhere, and tells how exact it is.

Raw (the solver alone, refine=False, tol=1e-3) against SVC(tol=1e-3, cache_size=2000): geometric mean ≥ 4 ×, every
cell's lower bound ≥ 1.1 ×. Refined to a certified relative gap ≤ 1e-9: no cell slower than SVC at its default
tolerance, geometric mean ≥ 3.5 ×. On moons with C = 1000 and 1e4: at least 5 × (n = 1000, C = 1000: 4 ×), and
certified. All by the wall and in user time. scikit-learn-intelex, where it is installed, is shown.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.lib import data
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVC, LibsvmSVC
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, cells, gaps_at_most, little_system_time, mean_at_least, no_worse_gaps
from benchmarks.lib.peers import INTELEX, IntelexSVC
from benchmarks.lib.report import main

RAW, REFINED, PEER = "dualflow raw", "dualflow refined", "SVC tol=0.001"
EXTREME = (1000.0, 1e4)
GAP = 1e-9


def build(data_set: str, n: int, C: float, solver: str | None) -> list[Entrant]:
    X, y = data.load(data_set, n)
    gamma = data.scale_gamma(X)
    ours: list[Entrant] = [DualflowSVC(X, y, C, gamma, refine=refine, solver=solver) for refine in (False, True)]
    return [ours[0], LibsvmSVC(X, y, C, gamma), ours[1], IntelexSVC(X, y, C, gamma)]


def cases(options: argparse.Namespace) -> list[Case]:
    sizes, weights = ((1000,), (1.0, 100.0)) if options.quick else ((1000, 4000, 10000), (1.0, 10.0, 100.0))
    grid = [(name, n, C) for n in sizes for name in data.NAMES for C in weights]
    grid += [("moons", n, C) for n in sizes for C in EXTREME]
    return [
        Case(f"{name} n={n} C={C:g}", build, {"data_set": name, "n": n, "C": C, "solver": options.solver})
        for name, n, C in grid
    ]


def is_smallest(row: Row) -> bool:
    """Whether it is of that extreme which takes about as long as a fit takes at the least."""
    return (row.case.fields["n"], row.case.fields["C"]) == (1000, 1000.0)


def judge(rows: list[Row]) -> list[Verdict]:
    usual = [row for row in rows if row.case.fields["C"] not in EXTREME]
    extreme = [row for row in rows if row.case.fields["C"] in EXTREME]
    verdicts = []
    if usual:
        raw = cells(usual, RAW, PEER)
        verdicts += [
            *against(usual, RAW, PEER, "raw against SVC", mean=4.0, least=1.1, bound="low"),
            *against(usual, REFINED, PEER, "refined against SVC", mean=3.5, least=1.0),
            gaps_at_most([row for row in usual if row.entrant == REFINED], GAP, "refined"),
            mean_at_least(raw, 5.0, "raw against SVC", kind="stretch"),
            little_system_time(usual, (RAW, REFINED)),
            no_worse_gaps(raw, "raw against SVC"),
            mean_at_least(cells(usual, RAW, PEER, 2), 4.0, "raw against SVC, 2 BLAS threads", kind="shown"),
            mean_at_least(cells(usual, REFINED, PEER, 2), 3.5, "refined against SVC, 2 BLAS threads", kind="shown"),
            mean_at_least(cells(usual, REFINED, INTELEX), 1.0, "refined against intelex", kind="shown"),
        ]
    if extreme:
        for name, least, small in (("C = 1000 and 1e4", 5.0, False), ("n = 1000, C = 1000", 4.0, True)):
            if part := [row for row in extreme if is_smallest(row) == small]:
                verdicts += against(part, REFINED, PEER, f"moons, {name}, refined against SVC", least=least)
        verdicts += [
            gaps_at_most([row for row in extreme if row.entrant == REFINED], GAP, "moons, C = 1000 and 1e4, refined"),
        ]
    return verdicts


if __name__ == "__main__":
    sys.exit(main("classical/svc_against_libsvm", __doc__, cases, judge, "solver"))
