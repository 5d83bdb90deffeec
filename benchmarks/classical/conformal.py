"""Claim: `ConformalSVR` has MAPIE's jackknife+ intervals, ≥ 20 × faster than its refits; sets cover what they promise.

Speed: fit and intervals of 100 new points, scikit-learn's `SVR` at its default tolerance in MAPIE's
`CrossConformalRegressor(method="plus", cv=LeaveOneOut())`, one thread for either; diabetes, standardised, at
scikit-learn's defaults, at what cross-validation likes, and where nearly all support vectors are free; Friedman's
function. Ends are held against those of MAPIE with `SVR(tol=1e-8)`, which is not timed, in units of y's standard
deviation. LIBSVM's kernel values are float32.

Sets have no peer in MAPIE, whose classes want probabilities: shown beside a loop of scikit-learn's `SVC` over all
points left out.

Coverage: 200 random splits of diabetes, breast cancer and wine, level 0.9, n training points and m new ones. Splits are
independent, given the set. In each the fraction that is covered has the variance of m coins of p = k/(n + 1), k =
⌈0.9 (n + 1)⌉, and that of p's own, which depends on the training points: p(1 − p)/(n + 2), a rank's. Asked is the band
of 4 σ around p. Full conformal sets have the same band, over 200 splits of breast cancer, wine and iris with 30 new
points each.

False discoveries: `SVDD.novelties` at a rate of 0.2 among 30 usual and 10 shifted normal points, 200 draws. With
calibration points the share of false alarms is at most 0.15; by leave-one-out there is no theorem, and it is shown.
"""

from __future__ import annotations

import argparse
import math
import sys
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn import svm
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine, make_friedman1
from sklearn.model_selection import LeaveOneOut
from sklearn.preprocessing import StandardScaler

import dualflow
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.entrants import CACHE_MB
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, cells, each_at_least, gaps_at_most
from benchmarks.lib.report import main

OURS, PEER, LOOP, COVERAGE = "dualflow", "MAPIE, SVR refits", "SVC refits", "coverage"
LEVEL, NEW, SPLITS, WIDE = 0.9, 100, 200, 4.0
#: New points of a split for full conformal sets, which learn each of them with each label.
NEW_FULL = 30
NOVELTY = "novelties"
#: Asked rate of false discoveries; usual and shifted new points of a draw.
RATE, USUAL, SHIFTED = 0.2, 30, 10


class Intervals(Entrant):
    """`dualflow.ConformalSVR`, fit and intervals."""

    name = OURS

    def __init__(self, X: NDArray, y: NDArray, Z: NDArray, parameters: dict[str, float]) -> None:
        self.X, self.y, self.Z, self.parameters = X, y, Z, parameters

    def fit(self) -> None:
        self.model = dualflow.ConformalSVR(dualflow.SVR(**self.parameters), confidence_level=LEVEL).fit(self.X, self.y)
        self.ends = self.model.predict_interval(self.Z)

    def check(self) -> dict[str, Any]:
        far = np.abs(self.ends - tight(self)).max() / self.y.std()
        return {
            "relative_gap": self.model.max_relative_gap_,
            "models": self.model.n_models_,
            "relative_difference": float(far),
        }


class Mapie(Entrant):
    """MAPIE's jackknife+ over scikit-learn's `SVR`."""

    name = PEER

    def __init__(self, X: NDArray, y: NDArray, Z: NDArray, parameters: dict[str, float], tol: float = 1e-3) -> None:
        self.X, self.y, self.Z = X, y, Z
        self.parameters = parameters | {"tol": tol, "cache_size": CACHE_MB}

    def skip(self) -> str | None:
        try:
            import mapie.regression  # noqa: F401
        except ImportError:
            return "pip install mapie"
        return None

    def fit(self) -> None:
        from mapie.regression import CrossConformalRegressor

        model = CrossConformalRegressor(
            svm.SVR(**self.parameters), confidence_level=LEVEL, method="plus", cv=LeaveOneOut()
        )
        self.ends = model.fit_conformalize(self.X, self.y).predict_interval(self.Z)[1][:, :, 0]


@cache
def tight(ours: Intervals) -> NDArray:
    """MAPIE's ends with tight refits; once a case."""
    theirs = Mapie(ours.X, ours.y, ours.Z, ours.parameters, tol=1e-8)
    theirs.fit()
    return theirs.ends


class Sets(Entrant):
    """`dualflow.ConformalSVC` of two classes, fit and p-values."""

    name = OURS

    def __init__(self, X: NDArray, y: NDArray, Z: NDArray, parameters: dict[str, float]) -> None:
        self.X, self.y, self.Z, self.parameters = X, y, Z, parameters

    def fit(self) -> None:
        self.model = dualflow.ConformalSVC(dualflow.SVC(**self.parameters)).fit(self.X, self.y)
        self.found = self.model.p_values(self.Z)

    def check(self) -> dict[str, Any]:
        theirs = Loop(self.X, self.y, self.Z, self.parameters, tol=1e-8)
        theirs.fit()
        # A score may hang on LIBSVM's float32: one rank is 1/(n + 1).
        ranks = np.abs(self.found - theirs.found).max() * (len(self.y) + 1)
        return {"relative_gap": self.model.max_relative_gap_, "models": self.model.n_models_, "ranks": float(ranks)}


class Loop(Entrant):
    """The same p-values by a fit of scikit-learn's `SVC` for every point."""

    name = LOOP

    def __init__(self, X: NDArray, y: NDArray, Z: NDArray, parameters: dict[str, float], tol: float = 1e-3) -> None:
        self.X, self.y, self.Z = X, y, Z
        self.model = svm.SVC(**parameters, tol=tol, cache_size=CACHE_MB)

    def fit(self) -> None:
        count = np.ones((len(self.Z), 2))
        for i, (train, _) in enumerate(LeaveOneOut().split(self.X)):
            values = self.model.fit(self.X[train], self.y[train]).decision_function(np.vstack([self.X[i], self.Z]))
            strange = np.stack([values, -values], axis=1)
            count += strange[0, self.y[i]] >= strange[1:]
        self.found = count / (len(self.y) + 1)


class Coverage(Entrant):
    """How often intervals, or sets, hold what is new, over random splits."""

    name = COVERAGE

    def __init__(self, X: NDArray, y: NDArray, model: Any, n: int, splits: int) -> None:
        self.X, self.y, self.model, self.n, self.splits = X, y, model, n, splits
        self.methods = ("full",) if model.method == "full" else ("plus", "minmax", "base")

    def fit(self) -> None:
        self.hits: dict[str, list[float]] = {method: [] for method in self.methods}
        self.sizes: dict[str, list[float]] = {method: [] for method in self.methods}
        self.gap, new = 0.0, NEW_FULL if self.methods == ("full",) else NEW
        for seed in range(self.splits):
            order = np.random.default_rng(seed).permutation(len(self.y))
            train, test = order[: self.n], order[self.n : self.n + new]
            self.model.fit(self.X[train], self.y[train])
            self.gap = max(self.gap, self.model.max_relative_gap_)
            for method in self.hits:
                held, size = self._held(self.model.set_params(method=method), self.X[test], self.y[test])
                self.hits[method].append(float(held.mean()))
                self.sizes[method].append(float(size.mean()))
        self.new = len(test)

    def _held(self, model: Any, X: NDArray, y: NDArray) -> tuple[NDArray, NDArray]:
        if isinstance(model, dualflow.ConformalSVC):
            sets = model.predict_set(X)
            return sets[np.arange(len(y)), np.searchsorted(model.classes_, y)], sets.sum(axis=1)
        low, high = model.predict_interval(X).T
        return (low <= y) & (y <= high), high - low

    def check(self) -> dict[str, Any]:
        p = math.ceil(LEVEL * (self.n + 1) - 1e-9) / (self.n + 1)
        sigma = math.sqrt(p * (1 - p) * (1 / self.new + 1 / (self.n + 2)) / self.splits)
        columns: dict[str, Any] = {"relative_gap": self.gap, "expected": p, "sigma": sigma}
        for method, hits in self.hits.items():
            columns |= {
                f"coverage_{method}": float(np.mean(hits)),
                f"size_{method}": float(np.mean(self.sizes[method])),
            }
        columns["sigma_seen"] = float(np.std(self.hits[self.methods[0]]) / math.sqrt(self.splits))
        return columns


class Novelties(Entrant):
    """The share of false alarms among what `SVDD.novelties` finds, over random draws."""

    name = NOVELTY

    def __init__(self, draws: int) -> None:
        self.draws = draws

    def fit(self) -> None:
        self.shares: dict[str, list[float]] = {"split": [], "jackknife_plus": []}
        self.found: dict[str, list[float]] = {"split": [], "jackknife_plus": []}
        for seed in range(self.draws):
            rng = np.random.default_rng(seed)
            X, usual, shifted = (rng.normal(size=(count, 2)) for count in (200, USUAL, SHIFTED))
            Z = np.vstack([usual, shifted + 2.5])
            half = dualflow.SVDD(nu=0.2, gamma=0.4).fit(X[:100])
            whole = dualflow.SVDD(nu=0.2, gamma=0.4).fit(X)
            for name, novel in (
                ("split", half.novelties(Z, RATE, calibration=X[100:])),
                ("jackknife_plus", whole.novelties(Z, RATE)),
            ):
                self.shares[name].append(novel[:USUAL].sum() / max(1, novel.sum()))
                self.found[name].append(novel[USUAL:].mean())

    def check(self) -> dict[str, Any]:
        columns: dict[str, Any] = {"expected": RATE * USUAL / (USUAL + SHIFTED)}
        for name, shares in self.shares.items():
            columns |= {
                f"false_{name}": float(np.mean(shares)),
                f"sigma_{name}": float(np.std(shares) / math.sqrt(self.draws)),
                f"found_{name}": float(np.mean(self.found[name])),
            }
        return columns


def load(name: str) -> tuple[NDArray, NDArray]:
    if name == "friedman":
        X, y = make_friedman1(1000 + NEW, noise=1.0, random_state=0)
    else:
        loaders = {"diabetes": load_diabetes, "breast cancer": load_breast_cancer, "wine": load_wine, "iris": load_iris}
        X, y = loaders[name](return_X_y=True)
    return StandardScaler().fit_transform(X), y


def build_intervals(data_set: str, n: int, C: float, epsilon: float, gamma: float) -> list[Entrant]:
    X, y = load(data_set)
    # There are no more of diabetes: the new ones are between those that are there.
    Z = X[n : n + NEW] if len(X) >= n + NEW else 0.5 * (X[:NEW] + X[-NEW:])
    parameters = {"C": C, "epsilon": epsilon, "gamma": gamma}
    return [Intervals(X[:n], y[:n], Z, parameters), Mapie(X[:n], y[:n], Z, parameters)]


def build_sets(data_set: str, n: int, C: float, gamma: float) -> list[Entrant]:
    X, y = load(data_set)
    parts = X[:n], y[:n], X[n : n + NEW], {"C": C, "gamma": gamma}
    return [Sets(*parts), Loop(*parts)]


def build_coverage(data_set: str, n: int, splits: int) -> list[Entrant]:
    wrapped: dict[str, Any] = {
        "diabetes": dualflow.ConformalSVR(dualflow.SVR(C=100.0, epsilon=10.0, gamma=0.01), confidence_level=LEVEL),
        "breast cancer": dualflow.ConformalSVC(dualflow.SVC(gamma=0.03), confidence_level=LEVEL),
        "wine": dualflow.ConformalSVC(dualflow.SVC(gamma=0.05), confidence_level=LEVEL),
    }
    return [Coverage(*load(data_set), wrapped[data_set], n, splits)]


def build_full(data_set: str, n: int, splits: int) -> list[Entrant]:
    gamma = {"breast cancer": 0.03, "wine": 0.05, "iris": 0.2}[data_set]
    model = dualflow.ConformalSVC(dualflow.SVC(gamma=gamma), method="full", confidence_level=LEVEL)
    return [Coverage(*load(data_set), model, n, splits)]


def build_novelties(draws: int) -> list[Entrant]:
    return [Novelties(draws)]


def cases(options: argparse.Namespace) -> list[Case]:
    quick = options.quick
    asked = [("diabetes", 120 if quick else 442, 1.0, 0.1, 0.1), ("diabetes", 120 if quick else 442, 100.0, 10.0, 0.01)]
    if not quick:
        asked += [("diabetes", 442, 1000.0, 1.0, 0.1), ("friedman", 1000, 10.0, 0.5, 0.1)]
    found = []
    for name, n, C, epsilon, gamma in asked:
        fields = {"data_set": name, "n": n, "C": C, "epsilon": epsilon, "gamma": gamma}
        found.append(Case(f"intervals {name} n={n} C={C:g}", build_intervals, fields, runs=3))
    n = 150 if quick else 469
    fields = {"data_set": "breast cancer", "n": n, "C": 1.0, "gamma": 0.03}
    found.append(Case(f"sets breast cancer n={n} C=1", build_sets, fields, runs=3))
    splits = SPLITS // 10 if quick else SPLITS
    for name in ("diabetes", "breast cancer", "wine"):
        fields = {"data_set": name, "n": 100, "splits": splits}
        found.append(Case(f"coverage {name} n=100", build_coverage, fields, runs=1))
    for name in ("breast cancer", "wine", "iris"):
        fields = {"data_set": name, "n": 100, "splits": splits}
        found.append(Case(f"full sets {name} n=100", build_full, fields, runs=1))
    found.append(Case("novelties", build_novelties, {"draws": splits}, runs=1))
    return found


def judge(rows: list[Row]) -> list[Verdict]:
    intervals, sets, covered, full, novel = (
        [row for row in rows if row.case.name.startswith(kind)]
        for kind in ("intervals", "sets", "coverage", "full", "novelties")
    )

    def of(rows: list[Row], name: str) -> list[tuple[str, float]]:
        ours = [row for row in rows if row.entrant != PEER and row.entrant != LOOP]
        return [(row.case.name, float(row.columns.get(name, math.nan))) for row in ours]

    verdicts = []
    if intervals:
        verdicts += against(intervals, OURS, PEER, "jackknife+ against MAPIE's refits", least=20.0)
        differences = of(intervals, "relative_difference")
        verdicts.append(each("must", "ends against MAPIE, tol=1e-8", "difference", differences, "<=", 1e-3))
    if sets:
        verdicts.append(each_at_least(cells(sets, OURS, LOOP), 20.0, "sets against SVC refits", kind="shown"))
        verdicts.append(each("shown", "p-values against SVC refits, tol=1e-8", "ranks", of(sets, "ranks"), "<=", 1.0))
    if covered:
        plus = []
        for row in covered:
            columns = row.columns
            far = abs(columns.get("coverage_plus", math.nan) - columns.get("expected", math.nan))
            plus.append((row.case.name, far / columns.get("sigma", math.nan)))
        verdicts.append(each("must", "coverage of jackknife+", "distance from k/(n + 1), in σ", plus, "<=", WIDE))
        sure = of(covered, "coverage_minmax")
        verdicts.append(each("must", "coverage of jackknife-minmax", "part", sure, ">=", LEVEL))
        for method in ("plus", "minmax", "base"):
            for case, value in of(covered, f"coverage_{method}"):
                verdicts.append(Verdict("shown", f"coverage, {method}", "part", value, case=case))
    if full:
        far = [
            (case, abs(value - expected) / sigma)
            for (case, value), (_, expected), (_, sigma) in zip(
                of(full, "coverage_full"), of(full, "expected"), of(full, "sigma"), strict=True
            )
        ]
        verdicts.append(each("must", "coverage of full sets", "distance from k/(n + 1), in σ", far, "<=", WIDE))
        for column in ("coverage_full", "size_full"):
            for case, value in of(full, column):
                verdicts.append(Verdict("shown", column.replace("_", ", "), "mean", value, case=case))
    for row in novel:
        columns = row.columns
        excess = (columns["false_split"] - columns["expected"]) / columns["sigma_split"]
        verdicts.append(
            Verdict("must", "false alarms, calibration points", "excess, in σ", excess, "<=", WIDE, case=row.case.name)
        )
        for name in ("false_split", "false_jackknife_plus", "found_split", "found_jackknife_plus"):
            verdicts.append(Verdict("shown", name.replace("_", ", "), "share", columns[name], case=row.case.name))
    ours = [row for row in rows if row.entrant not in (PEER, LOOP, NOVELTY)]
    return [*verdicts, gaps_at_most(ours, 1e-8, "all models")]


if __name__ == "__main__":
    sys.exit(main("classical/conformal", __doc__, cases, judge))
