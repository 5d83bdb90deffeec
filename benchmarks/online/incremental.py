"""Claim: learning 4000 points one by one, exactly, takes 50 × less time than refits of the growing set by LIBSVM.

And exact leave-one-out at n = 1000 takes 10 × less time (stretch: 20 ×) than one refit for every support vector,
without it; refits without other points change nothing. The refits are sampled: every 100th size of the growing set,
every 10th support vector. Their time stands for that of all, which is what ratios are made of. The inverse never drifts
by more than 1e-8.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm

import dualflow
from benchmarks.lib import data
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.entrants import CACHE_MB, certified
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import Cell, cells, each_at_least, gaps_at_most
from benchmarks.lib.report import main

OURS, BY_CALLS, PEER = "dualflow", "dualflow, a call a point", "SVC refits"
#: Every so many sizes, and support vectors, one refit.
SIZE_STRIDE, VECTOR_STRIDE = 100, 10
DRIFT = 1e-8


class Learning(Entrant):
    """`dualflow.IncrementalSVC` over all points, in one call or in a call for each."""

    def __init__(self, X: NDArray, y: NDArray, C: float, gamma: float, by_calls: bool) -> None:
        self.X, self.y, self.by_calls = X, y, by_calls
        self.name = BY_CALLS if by_calls else OURS
        self.parameters: dict[str, Any] = {"C": C, "gamma": gamma}

    def fit(self) -> None:
        self.model = dualflow.IncrementalSVC(**self.parameters)
        if not self.by_calls:
            self.model.fit(self.X, self.y)
            return
        for k in range(len(self.y)):
            self.model.partial_fit(self.X[k : k + 1], self.y[k : k + 1], classes=[-1, 1])

    def check(self) -> dict[str, Any]:
        alpha = np.zeros(len(self.y))
        alpha[self.model.support_ids_] = np.abs(self.model.dual_coef_[0])
        gram = dualflow.Gram(self.X, gamma=self.parameters["gamma"])
        columns = certified(dualflow.problems.svc(gram, self.y, self.parameters["C"]), alpha)
        margin = int((alpha[alpha > 0] < self.parameters["C"] * (1 - 1e-9)).sum())
        return {**columns, "on_margin": margin, "steps": self.model.n_pivots_, "drift": self.model.drift_}


class Refits(Entrant):
    """scikit-learn's `SVC`, fitted to the first 100, 200, … points; stands for a fit after every point."""

    name = PEER

    def __init__(self, X: NDArray, y: NDArray, C: float, gamma: float) -> None:
        self.X, self.y = X, y
        self.model = svm.SVC(C=C, gamma=gamma, cache_size=CACHE_MB)

    def fit(self) -> None:
        for k in range(SIZE_STRIDE, len(self.y) + 1, SIZE_STRIDE):
            self.model.fit(self.X[:k], self.y[:k])

    def check(self) -> dict[str, Any]:
        return {"stands_for": float(SIZE_STRIDE), "support_vectors": len(self.model.support_)}


class LeaveOneOut(Entrant):
    """`IncrementalSVC.leave_one_out` of a model that is there."""

    name = OURS

    def __init__(self, model: dualflow.IncrementalSVC, y: NDArray) -> None:
        self.model, self.y = model, y

    def fit(self) -> None:
        self.found = self.model.leave_one_out()

    def check(self) -> dict[str, Any]:
        # Against our batch solver, certified, for some of them.
        X, worst = self.model._streams[0].gram.X, 0.0
        for c in self.model.support_ids_[:: 3 * VECTOR_STRIDE]:
            rest = np.delete(np.arange(len(self.y)), c)
            batch = dualflow.SVC(C=self.model.C, gamma=self.model.gamma, tol=1e-11).fit(X[rest], self.y[rest])
            margin = self.y[c] * batch.decision_function(X[c : c + 1])[0] - 1.0
            worst = max(worst, abs(margin - self.found.margins[c]))
        return {
            "margin_difference": worst,
            "support_vectors": self.found.unlearned,
            "error_rate": self.found.error_rate,
            "first_segment_error_rate": self.model.leave_one_out("first_segment").error_rate,
        }


class RefitsWithoutOne(Entrant):
    """scikit-learn's `SVC`, fitted without every 10th support vector in turn."""

    name = PEER

    def __init__(self, X: NDArray, y: NDArray, C: float, gamma: float, support: NDArray) -> None:
        self.support = support
        self.parts = []
        for c in support[::VECTOR_STRIDE]:
            rest = np.delete(np.arange(len(y)), c)
            self.parts.append((X[rest], y[rest]))
        self.model = svm.SVC(C=C, gamma=gamma, cache_size=CACHE_MB)

    def fit(self) -> None:
        for X, y in self.parts:
            self.model.fit(X, y)

    def check(self) -> dict[str, Any]:
        return {"stands_for": len(self.support) / len(self.parts), "support_vectors": len(self.support)}


def build_growth(data_set: str, n: int, C: float) -> list[Entrant]:
    X, y = data.load(data_set, n)
    gamma = data.scale_gamma(X)
    ours: list[Entrant] = [Learning(X, y, C, gamma, by_calls=False)]
    if C == 1.0:
        ours.append(Learning(X, y, C, gamma, by_calls=True))
    return [*ours, Refits(X, y, C, gamma)]


def build_leave_one_out(data_set: str, n: int, C: float) -> list[Entrant]:
    X, y = data.load(data_set, n)
    gamma = data.scale_gamma(X)
    model = dualflow.IncrementalSVC(C=C, gamma=gamma).fit(X, y)
    return [LeaveOneOut(model, y), RefitsWithoutOne(X, y, C, gamma, model.support_ids_)]


def cases(options: argparse.Namespace) -> list[Case]:
    found = []
    for title, build, n in (
        ("growing", build_growth, 1000 if options.quick else 4000),
        ("leave one out", build_leave_one_out, 1000),
    ):
        for name in ("moons", "blobs") if options.quick else data.NAMES:
            for C in (1.0, 10.0):
                found.append(Case(f"{title} {name} n={n} C={C:g}", build, {"data_set": name, "n": n, "C": C}))
    return found


def whole(rows: list[Row]) -> list[Row]:
    """The rows with the times that the sampled refits stand for."""
    return [replace(row, times=[t * row.columns.get("stands_for", 1.0) for t in row.times]) for row in rows]


def judge(rows: list[Row]) -> list[Verdict]:
    rows = whole(rows)
    growing = [row for row in rows if row.case.name.startswith("growing")]
    left_out = [row for row in rows if row.case.name.startswith("leave")]
    verdicts: list[Verdict] = []
    if growing:
        found = cells(growing, OURS, PEER)
        verdicts.append(each_at_least(found, 50.0, "exact incremental learning against refits"))
        verdicts += listed(found)
        verdicts.append(each_at_least(cells(growing, BY_CALLS, PEER), 50.0, "with a call a point", kind="shown"))
        ours = [row for row in growing if row.entrant != PEER]
        verdicts.append(gaps_at_most(ours, 1e-9, "incremental learning"))
        drifts = [(row.case.name, row.columns.get("drift", np.inf)) for row in ours]
        verdicts.append(each("must", "incremental learning", "drift of the inverse", drifts, "<=", DRIFT))
    if left_out:
        found = cells(left_out, OURS, PEER)
        verdicts.append(each_at_least(found, 10.0, "leave one out against refits"))
        verdicts.append(each_at_least(found, 20.0, "leave one out against refits", kind="stretch"))
        verdicts += listed(found)
        far = [(r.case.name, r.columns.get("margin_difference", np.inf)) for r in left_out if r.entrant == OURS]
        verdicts.append(each("must", "margins left out against batch refits", "difference", far, "<=", 1e-6))
    return verdicts


def listed(found: list[Cell]) -> list[Verdict]:
    """Every cell's ratio."""
    return [Verdict("shown", c.case.name, "ratio", **asdict(c.ratio), unit="×") for c in found]


if __name__ == "__main__":
    sys.exit(main("online/incremental", __doc__, cases, judge))
