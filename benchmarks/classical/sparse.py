"""Claim: on CSR data ≥ 2 × scikit-learn's `SVC`, resident ≤ 1.5 × LIBSVM's, certified relative gap ≤ 1e-9.

Text-like data are generated: 20000 documents of 20000 words, of which each has 40 on average, labels by a noisy linear
rule. The Adult set a8a (22696 × 123, binary, 11 % not zero) joins where `--data` has it, in svmlight's format. Both
estimators at their defaults (ours with tol = 1e-9: with so many points it ends where that is met), LIBSVM's cache of
200 MB among them. Memory is the peak of a process that holds the data and has done one fit (getrusage): ours before
LIBSVM's first, LIBSVM's in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import Any

import numpy as np
from sklearn import svm

import dualflow
from benchmarks.lib import data, real
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.entrants import certified, to_gap
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import cells, each_at_least, find, gaps_at_most, mean_at_least
from benchmarks.lib.report import main

OURS, PEER, GAP = "dualflow refined", "SVC tol=0.001", 1e-9
#: Name of the case in which LIBSVM is alone, for its memory.
ALONE = " (memory)"


class OnCsr(Entrant):
    """A classifier from CSR to fitted model."""

    def __init__(self, name: str, model: Any, X: Any, y: np.ndarray) -> None:
        self.name, self.model, self.X, self.y = name, model, X, y

    def fit(self) -> None:
        self.model.fit(self.X, self.y)

    def check(self) -> dict[str, Any]:
        alpha = np.zeros(len(self.y))
        alpha[self.model.support_] = self.model.dual_coef_.toarray()[0] * self.y[self.model.support_]
        gram = dualflow.Gram(self.X, self.model.kernel, gamma=self.model.gamma)
        return certified(dualflow.problems.svc(gram, self.y, self.model.C), alpha)


def build(data_set: str, n: int, kernel: str, C: float, folder: str | None, alone: bool) -> list[Entrant]:
    if data_set == "a8a":
        X, y = (part[:n] for part in real.two_classes("a8a", folder, sparse=True))
        X = data.narrow(X)
    else:
        X, y = data.text_like(n)
    theirs = OnCsr(PEER, svm.SVC(C=C, kernel=kernel), X, y)
    # Ours first: the peak after the first lane's warm-up is then ours alone.
    return [theirs] if alone else [OnCsr(OURS, dualflow.SVC(C=C, kernel=kernel, **to_gap(n, GAP)), X, y), theirs]


def cases(options: argparse.Namespace) -> list[Case]:
    sets = [("text", 2000 if options.quick else 20000, kernel) for kernel in ("linear", "rbf")]
    if options.data or os.environ.get("DUALFLOW_DATA"):
        sets.append(("a8a", 2000 if options.quick else 22696, "rbf"))
    found = []
    for data_set, n, kernel in sets:
        for C in (1.0,) if options.quick else (1.0, 10.0):
            fields = {"data_set": data_set, "n": n, "kernel": kernel, "C": C, "folder": options.data}
            name = f"{data_set} {kernel} n={n} C={C:g}"
            found.append(Case(name, build, fields | {"alone": False}, limit_s=1800.0))
            found.append(Case(name + ALONE, build, fields | {"alone": True}, limit_s=1800.0, runs=1))
    return found


def judge(rows: list[Row]) -> list[Verdict]:
    both = [row for row in rows if not row.case.name.endswith(ALONE)]
    found, ours = cells(both, OURS, PEER), [row for row in both if row.entrant == OURS]
    return [
        each_at_least(found, 2.0, "CSR"),
        gaps_at_most(ours, GAP, "CSR"),
        each("must", "CSR", "resident memory over LIBSVM's", _memory(rows, ours), "<=", 1.5, unit="×"),
        mean_at_least(found, 2.0, "CSR", kind="shown"),
    ]


def _memory(rows: list[Row], ours: list[Row]) -> list[tuple[str, float]]:
    """Ours over theirs, case by case; without one of the two it is ∞, and where LIBSVM was timed out there is none."""
    found = []
    for row in ours:
        alone = next((r for r in rows if r.case.name == row.case.name + ALONE), None)
        peer = None if alone is None else find(rows, alone.case, PEER)
        if peer is not None and peer.status == "timeout":
            continue
        mine, theirs = (r.columns.get("peak_memory_mb") if r is not None else None for r in (row, peer))
        found.append((row.case.name, mine / theirs if mine and theirs else float("inf")))
    return found


if __name__ == "__main__":
    sys.exit(main("classical/sparse", __doc__, cases, judge, "data"))
