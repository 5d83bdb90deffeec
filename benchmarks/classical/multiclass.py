"""Claim: with more than two classes a certified fit is nowhere slower than SVC's, in the geometric mean 3 × faster.

Iris, wine (standardised), digits (/ 16), letter (26 classes, the first 16000 rows, standardised), MNIST (the first
10000 images / 255); RBF, γ = "scale", C = 1 and 10; every pair of classes certified to a relative gap ≤ 1e-9. By the
wall and in user time, one thread: letter and MNIST are ≥ 1.5 × faster than scikit-learn-intelex too. With two threads
these two are ≥ 1.5 × faster than our own one.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.lib import data, real
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVC, LibsvmSVC
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, between_threads, each_at_least, gaps_at_most, little_system_time
from benchmarks.lib.peers import INTELEX, IntelexSVC
from benchmarks.lib.report import main

OURS, PEER = "dualflow refined", "SVC tol=0.001"
SETS, LARGE, CS, GAP = ("iris", "wine", "digits", "letter", "mnist"), ("letter", "mnist"), (1.0, 10.0), 1e-9


def build(data_set: str, C: float, folder: str | None) -> list[Entrant]:
    X, y = real.many_classes(data_set, folder)
    gamma = data.scale_gamma(X)
    return [DualflowSVC(X, y, C, gamma, refine=True), LibsvmSVC(X, y, C, gamma), IntelexSVC(X, y, C, gamma)]


def cases(options: argparse.Namespace) -> list[Case]:
    return [
        Case(f"{name} C={C:g}", build, {"data_set": name, "C": C, "folder": options.data})
        for name in (SETS[:3] if options.quick else SETS)
        for C in (CS[:1] if options.quick else CS)
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    large = [row for row in rows if row.case.fields["data_set"] in LARGE]
    mine = [row for row in rows if row.entrant in (OURS, "(all)")]
    verdicts = [
        *against(rows, OURS, PEER, "against SVC", mean=3.0, least=1.0),
        gaps_at_most(mine, GAP, "certified"),
        little_system_time(mine, (OURS,)),
    ]
    if large:
        verdicts += against(large, OURS, INTELEX, "letter and MNIST, against intelex", least=1.5)
        verdicts.append(each_at_least(between_threads(large, OURS), 1.5, "letter and MNIST, two threads against one"))
    return [*verdicts, *against(rows, OURS, INTELEX, "against intelex", mean=1.0, kind="shown")]


if __name__ == "__main__":
    sys.exit(main("classical/multiclass", __doc__, cases, judge, "data"))
