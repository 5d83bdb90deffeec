"""Claim: the L2-SVM to a certified relative gap 1e-9 in less time than LIBSVM takes to 1e-6 on the ready matrix.

`SVC(loss="squared_hinge")` from X to model, against LIBSVM's one-class machine with ν = 1/n at tol = 1e-6 on the
precomputed H = yyᵀ∘(K + 1) + I/(2C), whose forming is not in LIBSVM's time. LIBSVM's gap is certified too. The ratio in
user time is shown. scikit-learn-intelex has neither one-class machines nor precomputed kernels.
"""

from __future__ import annotations

import argparse
import sys

from benchmarks.lib import data
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVC, LibsvmOnL2
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, cells, each_at_least, gaps_at_most
from benchmarks.lib.report import main

OURS, PEER = "dualflow refined", "OneClassSVM on H tol=1e-06"


def build(data_set: str, n: int, C: float, solver: str | None) -> list[Entrant]:
    X, y = data.load(data_set, n)
    gamma = data.scale_gamma(X)
    ours = DualflowSVC(X, y, C, gamma, refine=True, loss="squared_hinge", solver=solver)
    return [ours, LibsvmOnL2(X, y, C, gamma)]


def cases(options: argparse.Namespace) -> list[Case]:
    return [
        Case(f"{name} n={n} C={C:g}", build, {"data_set": name, "n": n, "C": C, "solver": options.solver})
        for n in ((1000,) if options.quick else (1000, 4000))
        for name in data.NAMES
        for C in (1.0, 10.0, 100.0)
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    found = cells(rows, OURS, PEER)
    return [
        each_at_least(found, 1.0, "L2-SVM against LIBSVM on the ready H", strictly=True),
        gaps_at_most([row for row in rows if row.entrant == OURS], 1e-9, "L2-SVM"),
        gaps_at_most([row for row in rows if row.entrant == PEER], 1e-6, "LIBSVM on the ready H", kind="shown"),
        *against(rows, OURS, PEER, "L2-SVM against LIBSVM on the ready H", mean=1.0, kind="shown"),
    ]


if __name__ == "__main__":
    sys.exit(main("classical/l2_against_libsvm", __doc__, cases, judge, "solver"))
