"""Claim: on wide data a certified fit is ≥ 1.3 × faster than scikit-learn-intelex in every cell, and ≥ 3 × than SVC.

`make_classification` with a tenth of the columns informative, 2000 × 2000 and 3000 × 2000, standardised; and, as wide
as gisette (6000 × 5000), numbers from 0 to 1 of which seven eighths are 0, with 50 columns that tell the classes apart.
Linear, RBF and cubic kernels, γ = "scale", C = 1; certified to a relative gap ≤ 1e-9; one thread, by the wall and in
user time. The whole kernel matrix by BLAS, one product and what is left to do to it, stands beside them: who looks at
every pair of points cannot be faster.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification

from benchmarks.lib import data, real
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVC, LibsvmSVC
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, gaps_at_most, little_system_time
from benchmarks.lib.peers import INTELEX, IntelexSVC
from benchmarks.lib.report import main

OURS, PEER, LIMIT = "dualflow refined", "SVC tol=0.001", "whole Gram by BLAS"
SHAPES, GISETTE, KERNELS, GAP = ((2000, 2000), (3000, 2000)), (6000, 5000), ("linear", "rbf", "poly"), 1e-9


class WholeGram(Entrant):
    """K by one product, and in place what makes the kernel of it: no fit."""

    name = LIMIT
    threads = (1, 2)

    def __init__(self, X: NDArray, kernel: str, gamma: float) -> None:
        self.X, self.kernel, self.gamma = X, kernel, gamma

    def fit(self) -> None:
        K = self.X @ self.X.T
        if self.kernel == "rbf":
            norms = K.diagonal().copy()
            K *= -2.0
            K += norms[:, None]
            K += norms
            K *= -self.gamma
            np.exp(K, out=K)
        elif self.kernel == "poly":
            K *= self.gamma
            K *= K * K
        self.K = K

    def check(self) -> dict[str, Any]:
        self.K = None
        return {}


def gisette_like(n: int, m: int) -> tuple[NDArray, NDArray]:
    """Sparse in numbers, dense in memory; labels are the sign of a random mix of 50 columns, 2 % of them turned."""
    rng = np.random.default_rng(data.SEED)
    X = rng.random((n, m))
    X *= rng.random((n, m)) < 0.125
    score = X[:, :50] @ rng.standard_normal(50)
    y = np.where(score > np.median(score), 1.0, -1.0)
    return X, np.where(rng.random(n) < 0.02, -y, y)


def build(data_set: str, n: int, m: int, kernel: str) -> list[Entrant]:
    if data_set == "gisette-like":
        X, y = gisette_like(n, m)
    else:
        X, label = make_classification(n, m, n_informative=m // 10, n_redundant=0, random_state=data.SEED)
        X, y = real.standardised(X), 2.0 * label - 1.0
    gamma = data.scale_gamma(X)
    peers: list[Entrant] = [maker(X, y, 1.0, gamma, kernel=kernel) for maker in (LibsvmSVC, IntelexSVC)]
    return [DualflowSVC(X, y, 1.0, gamma, refine=True, kernel=kernel), *peers, WholeGram(X, kernel, gamma)]


def cases(options: argparse.Namespace) -> list[Case]:
    shapes = [("classification", 600, 600)] if options.quick else [("classification", *shape) for shape in SHAPES]
    shapes += [] if options.quick else [("gisette-like", *GISETTE)]
    return [
        Case(f"{name} {n}x{m} {kernel}", build, {"data_set": name, "n": n, "m": m, "kernel": kernel})
        for name, n, m in shapes
        for kernel in KERNELS
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    mine = [row for row in rows if row.entrant in (OURS, "(all)")]
    return [
        *against(rows, OURS, INTELEX, "against intelex", least=1.3),
        *against(rows, OURS, PEER, "against SVC", least=3.0),
        gaps_at_most(mine, GAP, "certified"),
        little_system_time(mine, (OURS,)),
        *against(rows, OURS, LIMIT, "against the whole Gram by BLAS", mean=1.0, kind="shown"),
    ]


if __name__ == "__main__":
    sys.exit(main("classical/wide", __doc__, cases, judge))
