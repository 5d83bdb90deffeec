"""Claim: `NuSVC` and `NuSVR`, certified to 1e-9, take in the mean no longer than scikit-learn's from 1000 points on.

Radial kernel with γ = "scale" at n = 200, 1000 and 3000, and a linear one at n = 2000 and 20 000, all of 8 features;
ν = 0.3 (radial) and 0.6 (linear: below about twice the error of the best plane the margin of a ν-SVC is 0), C = 1; one
thread, by the wall and in user time; scikit-learn's stop at its tolerance of 1e-3. Single cells, and all of those below
a thousand points, where LIBSVM is the faster one, are shown and not judged.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm

import dualflow
from benchmarks.lib import data
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import CACHE_MB
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, gaps_at_most
from benchmarks.lib.report import main

OURS, PEER, GAP = "dualflow", "scikit-learn tol=0.001", 1e-9
#: Points from which the claim is about time.
LARGE = 1000
CELLS = [("rbf", 200), ("rbf", 1000), ("rbf", 3000), ("linear", 2000), ("linear", 20_000)]
FEATURES, NU = 8, {"rbf": 0.3, "linear": 0.6}


class Nu(Entrant):
    """A model of ν, from X to fitted model; ours has a certificate."""

    threads = (1,)

    def __init__(self, name: str, model: Any, X: NDArray, y: NDArray) -> None:
        self.name, self.model, self.X, self.y = name, model, X, y

    def fit(self) -> None:
        self.model.fit(self.X, self.y)

    def check(self) -> dict[str, Any]:
        found = {
            "support_vectors": float(len(self.model.support_)),
            "accuracy": float(self.model.score(self.X, self.y)),
        }
        if isinstance(self.model, (dualflow.NuSVC, dualflow.NuSVR)):
            gap = self.model.certificate_.relative_gap
            found |= {"relative_gap": float("nan") if gap is None else gap, "steps": float(np.sum(self.model.n_iter_))}
        return found


def points(kind: str, kernel: str, n: int) -> tuple[NDArray, NDArray]:
    """Gaussian points; labels and values that a kernel of that kind fits, with noise."""
    rng = np.random.default_rng(data.SEED)
    X = rng.normal(size=(n, FEATURES))
    noise = rng.normal(size=n)
    if kind == "NuSVC":
        bend = 0.5 * X[:, 1] ** 2 if kernel == "rbf" else 0.5 * X[:, 1]
        return X, (X[:, 0] + bend + 0.5 * noise > 0.3).astype(int)
    return X, (np.sin(X[:, 0]) + 0.2 * noise if kernel == "rbf" else X @ rng.normal(size=FEATURES) + noise)


def build(kind: str, kernel: str, n: int) -> list[Entrant]:
    X, y = points(kind, kernel, n)
    given = {"nu": NU[kernel], "kernel": kernel}
    ours, theirs = getattr(dualflow, kind)(**given, tol=GAP), getattr(svm, kind)(**given, cache_size=CACHE_MB)
    return [Nu(OURS, ours, X, y), Nu(PEER, theirs, X, y)]


def cases(options: argparse.Namespace) -> list[Case]:
    return [
        Case(f"{kind} {kernel} n={n}", build, {"kind": kind, "kernel": kernel, "n": n})
        for kind in ("NuSVC", "NuSVR")
        for kernel, n in (CELLS[:1] if options.quick else CELLS)
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    large = [row for row in rows if row.case.fields["n"] >= LARGE]
    return [
        gaps_at_most([row for row in rows if row.entrant in (OURS, "(all)")], GAP, "NuSVC and NuSVR"),
        *(against(large, OURS, PEER, "nu machines from 1000 points on", mean=1.0) if large else ()),
        *against(rows, OURS, PEER, "nu machines, every cell", least=1.0, kind="shown"),
    ]


if __name__ == "__main__":
    sys.exit(main("classical/nu", __doc__, cases, judge))
