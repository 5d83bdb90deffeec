"""Claim: a certified `SVR` is ≥ 2 × faster than scikit-learn's at its default tolerance, and predicts the same.

The rings of abalone (features standardised) and Friedman's first function with noise 1 at n = 1000 and 4000; RBF,
γ = "scale", ε = 0.1, C = 1 and 10; certified to a relative gap ≤ 1e-9; one thread, by the wall and in user time. "The
same" is max|f − f'| ≤ 1e-3 max|f'| on the training points, f' being scikit-learn's at tol = 1e-8.
"""

from __future__ import annotations

import argparse
import sys

from sklearn.datasets import make_friedman1

from benchmarks.lib import data, real
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, gaps_at_most, little_system_time
from benchmarks.lib.peers import IntelexSVR
from benchmarks.lib.regression import DualflowSVR, LibsvmSVR
from benchmarks.lib.report import main

OURS, PEER, INTELEX = "dualflow refined", "SVR tol=0.001", "intelex SVR"
EPSILON, CS, GAP, SAME = 0.1, (1.0, 10.0), 1e-9, 1e-3


def build(data_set: str, n: int | None, C: float, folder: str | None) -> list[Entrant]:
    X, z = make_friedman1(n, noise=1.0, random_state=data.SEED) if n else real.rings(folder)
    given = (X, z, C, EPSILON, data.scale_gamma(X))
    return [DualflowSVR(*given, compared=True), LibsvmSVR(*given), IntelexSVR(*given)]


def cases(options: argparse.Namespace) -> list[Case]:
    sets = [("friedman1", 1000)] if options.quick else [("abalone", None), ("friedman1", 1000), ("friedman1", 4000)]
    return [
        Case(
            f"{name}{f' n={n}' if n else ''} C={C:g}",
            build,
            {"data_set": name, "n": n, "C": C, "folder": options.data},
        )
        for name, n in sets
        for C in CS
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    mine = [row for row in rows if row.entrant in (OURS, "(all)")]
    figures = [(row.case.name, row.columns.get("relative_difference", float("nan"))) for row in mine]
    return [
        *against(rows, OURS, PEER, "SVR against scikit-learn's", least=2.0),
        gaps_at_most(mine, GAP, "SVR"),
        each("must", "SVR", "predictions off scikit-learn's tight ones", figures, "<=", SAME),
        little_system_time(mine, (OURS,)),
        *against(rows, OURS, INTELEX, "SVR against intelex", mean=1.0, kind="shown"),
    ]


if __name__ == "__main__":
    sys.exit(main("classical/svr", __doc__, cases, judge, "data"))
