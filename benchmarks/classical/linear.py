"""Claim: linear `SVC` and `SVR` certified to 1e-9 are ≥ 30 × faster than scikit-learn's kernel machines from n = 2000.

Classes of make_classification (5 % of labels flipped, columns standardised), bits, rare positives, a column of scale
1e7 beside others of 1, and values for an ε-tube; C = 0.01 … 1e4; one thread. Peers: `SVC(kernel="linear")` or
`SVR(kernel="linear")` at their defaults, and scikit-learn-intelex's where it is installed. Shown:
`LinearSVC(loss="hinge")` or `LinearSVR`, which penalise the intercept, end at a tolerance, and warn where they do not
reach it; and `rehline`, where it is installed. Default solver throughout.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

import dualflow
from benchmarks.lib.claims import Verdict
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, gaps_at_most
from benchmarks.lib.peers import INTELEX, REHLINE, IntelexSVC, IntelexSVR, Rehline
from benchmarks.lib.report import main

OURS, KERNEL, LINEAR = "dualflow", "kernel machine", "liblinear"
GAP, MEAN, LEAST = 1e-9, 30.0, 2.0


class Fit(Entrant):
    """One estimator on one set of data."""

    def __init__(self, name: str, model: Any, X: NDArray, y: NDArray) -> None:
        self.name, self.model, self.X, self.y = name, model, X, y

    def fit(self) -> None:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", ConvergenceWarning)
            self.model.fit(self.X, self.y)
        self.converged = not any(issubclass(warning.category, ConvergenceWarning) for warning in said)

    def check(self) -> dict[str, Any]:
        if self.name == LINEAR:
            return {"converged": self.converged}
        if self.name != OURS:
            return {}
        certificate, solution = self.model.certificate_, self.model.solution_
        return {"relative_gap": certificate.relative_gap, "solver": solution.provenance["solver"]}


def points(kind: str, n: int, d: int) -> tuple[NDArray, NDArray]:
    """Points and targets."""
    rng = np.random.default_rng(1)
    if kind == "bits":
        X = (rng.random((n, d)) < 0.5).astype(float)
        return X, np.where(X @ rng.normal(size=d) + 0.7 * rng.normal(size=n) > 0.3, 1, -1)
    if kind == "rare":
        X = rng.normal(size=(n, d))
        score = X @ rng.normal(size=d) + 2.0 * rng.normal(size=n)
        return X, np.where(score > np.quantile(score, 0.99), 1, -1)
    if kind in ("apart", "apart, tube"):
        X = rng.normal(size=(n, d))
        values = X[:, 0] + X[:, 1] + 0.5 * rng.normal(size=n)
        X[:, -1] *= 1e7
        return X, values if kind == "apart, tube" else np.where(values > 0, 1, -1)
    if kind == "tube":
        X = rng.normal(size=(n, d))
        return X, X @ rng.normal(size=d) + rng.normal(size=n)
    X, y = make_classification(n, d, n_informative=max(2, d // 2), flip_y=0.05, random_state=1)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


def build(kind: str, n: int, d: int, C: float) -> list[Entrant]:
    X, y = points(kind, n, d)
    foreign: list[Entrant]
    if kind.endswith("tube"):
        foreign = [IntelexSVR(X, y, C, 0.1, 1.0, kernel="linear"), Rehline(X, y, C, 0.0)]
        models = dualflow.SVR(C=C, kernel="linear"), svm.SVR(C=C, kernel="linear"), svm.LinearSVR(C=C)
    else:
        foreign = [IntelexSVC(X, y, C, 1.0, kernel="linear"), Rehline(X, y, C)]
        kernel = svm.SVC(C=C, kernel="linear", cache_size=2000)
        models = dualflow.SVC(C=C, kernel="linear"), kernel, svm.LinearSVC(C=C, loss="hinge")
    own = [Fit(name, model, X, y) for name, model in zip((OURS, KERNEL, LINEAR), models, strict=True)]
    return [*own, *foreign]


CELLS = [
    *(("classes", n, d, C) for n in (2000, 16_000) for d in (5, 20) for C in (0.01, 1.0, 1e4)),
    *(("classes", 12_000, 200, C) for C in (0.01, 1.0)),
    ("classes", 100_000, 50, 1.0),
    *(("bits", 12_000, 6, C) for C in (0.01, 1.0, 100.0)),
    *(("rare", 12_000, 10, C) for C in (0.01, 1.0, 1e4)),
    *(("tube", n, 20, C) for n in (2000, 20_000) for C in (0.01, 1.0)),
    ("apart", 3000, 10, 1.0),
    ("apart, tube", 3000, 10, 1.0),
]


def cases(options: argparse.Namespace) -> list[Case]:
    chosen = [("classes", 2000, 20, 1.0), ("apart", 3000, 10, 1.0)] if options.quick else CELLS
    return [
        Case(f"{kind} n={n} d={d} C={C:g}", build, {"kind": kind, "n": n, "d": d, "C": C}, limit_s=60.0)
        for kind, n, d, C in chosen
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    return [
        gaps_at_most([row for row in rows if row.entrant in (OURS, "(all)")], GAP, "linear"),
        *against(rows, OURS, KERNEL, "linear against kernel machines", mean=MEAN, least=LEAST),
        *_against_liblinear(rows),
        *_against_others(rows),
    ]


def _against_liblinear(rows: list[Row]) -> list[Verdict]:
    """LIBLINEAR where it converges, and where it warns that it does not."""
    found: list[Verdict] = []
    for converged, where, mean, least in ((True, "where it converges", 1.2, 0.5), (False, "where it warns", 6.0, None)):
        cases = [row.case for row in rows if row.entrant == LINEAR and row.columns.get("converged") is converged]
        those = [row for row in rows if row.case in cases]
        what = f"linear against LIBLINEAR {where}"
        found += against(those, OURS, LINEAR, what, mean=mean, least=least, kind="shown") if those else []
    return found


def _against_others(rows: list[Row]) -> list[Verdict]:
    """Peers that may not be installed, where there are rows of them."""
    found: list[Verdict] = []
    for peer, mean in ((INTELEX, MEAN), ("intelex SVR", MEAN), (REHLINE, 3.0)):
        cases = [row.case for row in rows if row.entrant == peer and row.status in ("ok", "timeout")]
        if any(row.entrant == peer and row.status == "ok" for row in rows):
            those = [row for row in rows if row.case in cases]
            found += against(those, OURS, peer, f"linear against {peer}", mean=mean, least=1.0, kind="shown")
    return found


if __name__ == "__main__":
    sys.exit(main("classical/linear", __doc__, cases, judge))
