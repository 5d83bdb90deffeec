"""Claim: a search is never slower than `GridSearchCV` on the same estimator, whatever the table, grid and scorer.

30 random tables (200 to 6000 rows, 2 to 60 columns, mixed columns, several classes, rare classes, regression), each
with a grid (C, γ, both, kernels, one candidate), a scorer, and 3, 5 or 10 folds; the seeds are the tables' numbers.
The searches alternate in one process with one BLAS thread, after a warm-up. A ratio is of medians of processor time.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import sklearn.svm
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold
from threadpoolctl import threadpool_limits

import dualflow
from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line

TITLE = "classical/search_tables"
TABLES = 30
KINDS = ("numbers", "mixed", "classes", "rare", "weights", "regression")
#: Ratios that are wanted: of each table, and in the geometric mean.
LEAST, MEAN = 1.0, 4.0
#: Processor seconds of `GridSearchCV` from which a table is timed three times rather than seven.
LONG_S = 1.0


@dataclass(frozen=True)
class Table:
    """A table, and the search over it."""

    name: str
    X: NDArray
    y: NDArray
    grid: Any
    options: dict[str, Any]
    fit_params: dict[str, Any]
    regression: bool

    def searches(self) -> dict[str, Callable[[], Any]]:
        """Ours, `GridSearchCV` on the same estimator, and on that of scikit-learn; each makes and fits one."""
        ours, search, theirs = dualflow.SVC, dualflow.SVCSearchCV, sklearn.svm.SVC
        if self.regression:
            ours, search, theirs = dualflow.SVR, dualflow.SVRSearchCV, sklearn.svm.SVR
        return {
            "ours": lambda: self.fitted(search(ours(), self.grid, **self.options)),
            "grid": lambda: self.fitted(GridSearchCV(ours(), self.grid, **self.options)),
            "libsvm": lambda: self.fitted(GridSearchCV(theirs(), self.grid, **self.options)),
        }

    def fitted(self, search: Any) -> Any:
        return search.fit(self.X, self.y, **self.fit_params)


def table(seed: int, largest: int) -> Table:
    """The table of a seed, of at most so many rows."""
    rng, kind = np.random.default_rng(seed), KINDS[seed % len(KINDS)]
    n = int(np.exp(rng.uniform(np.log(200), np.log(largest))))
    d = int(np.exp(rng.uniform(np.log(2), np.log(60))))
    k = int(rng.integers(3, 8)) if kind == "classes" else 2
    X = rng.normal(size=(n, d))
    values = X @ rng.normal(size=(d, k)) / np.sqrt(d) + 0.7 * np.tanh(X @ rng.normal(size=(d, k)))
    values += rng.uniform(0.2, 1.2) * rng.normal(size=(n, k))
    y: NDArray = values.argmax(axis=1)
    if kind == "mixed":
        levels = rng.integers(0, 4, (n, 4))
        X = np.hstack([X, *(np.eye(4)[levels[:, j]] for j in range(4))])
    elif kind == "rare":
        y = (values[:, 0] > np.quantile(values[:, 0], 0.9)).astype(int)
    elif kind == "regression":
        y = values[:, 0]
    shape, grid = random_grid(rng, 1.0 / (X.shape[1] * float(X.var())))
    folds, regression = int(rng.choice([3, 5, 10])), kind == "regression"
    scorers = ("r2", "neg_mean_absolute_error") if regression else ("accuracy", "f1_macro")
    scoring: Any = (*scorers, list(scorers), *(() if regression or k > 2 else ("roc_auc",)))[int(rng.integers(3))]
    splitter = ("folds", "shuffled", "groups")[int(rng.integers(3))]
    options = {
        "cv": {"folds": folds, "shuffled": KFold(folds, shuffle=True, random_state=seed), "groups": GroupKFold(folds)}[
            splitter
        ],
        "scoring": scoring,
        "refit": scorers[0] if isinstance(scoring, list) else True,
    }
    fit_params = {"groups": rng.integers(0, 40, n)} if splitter == "groups" else {}
    if kind == "weights":
        fit_params["sample_weight"] = rng.uniform(0.1, 2.0, n)
    name = f"{seed} {kind} {n} × {X.shape[1]}, {shape}, {folds} {splitter}, {scoring}"
    return Table(name, X, y, grid, options, fit_params, regression)


def random_grid(rng: np.random.Generator, width: float) -> tuple[str, Any]:
    """A grid, and its name; ``width`` is the γ of "scale"."""
    costs = [0.1, 1.0, 10.0, 100.0]
    kernels = [
        {"kernel": ["linear"], "C": [0.1, 1.0]},
        {"kernel": ["rbf"], "gamma": ["scale", width], "C": [1.0, 10.0]},
        {"kernel": ["poly"], "degree": [2], "gamma": [width], "coef0": [1.0]},
    ]
    grids: dict[str, Any] = {
        "C and gamma": {"C": costs, "gamma": [0.2 * width, width, 5.0 * width]},
        "C": {"C": costs},
        "gamma": {"gamma": list(width * 2.0 ** np.arange(-3, 4))},
        "12 C": {"C": list(np.logspace(-2, 2, 12)), "gamma": [width]},
        "one": {"C": [1.0]},
        "kernels": kernels,
    }
    name = list(grids)[int(rng.integers(len(grids)))]
    return name, grids[name]


def measure(given: Table) -> dict[str, float]:
    """Medians of processor time, and the largest difference of a mean score from `GridSearchCV`'s."""
    seconds: dict[str, list[float]] = {}
    found: dict[str, Any] = {}
    searches, rounds = given.searches(), 1
    while len(seconds.get("ours", ())) < rounds:
        for name, search in list(searches.items()):
            began = time.process_time()
            found[name] = search().cv_results_
            seconds.setdefault(name, []).append(time.process_time() - began)
        searches.pop("libsvm", None)  # a ratio of several: once is enough
        searches = dict(reversed(searches.items()))
        rounds = 3 if seconds["grid"][0] > LONG_S else 7
    means = [name for name in found["grid"] if name.startswith("mean_test")]
    differences = [np.abs(found["ours"][name] - found["grid"][name]).max() for name in means]
    medians = {name: float(np.median(times)) for name, times in seconds.items()}
    return medians | {"difference": float(np.max(differences))}


def geometric_mean(ratios: list[tuple[str, float]]) -> float:
    return float(np.exp(np.mean([np.log(ratio) for _, ratio in ratios])))


def main() -> int:
    options = command_line(__doc__, "only")
    rows = Rows(f"{TITLE}_rows", options)
    ratios: dict[str, list[tuple[str, float]]] = {"grid": [], "libsvm": []}
    tables = (table(seed, 400 if options.quick else 6000) for seed in range(6 if options.quick else TABLES))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for search in table(0, 300).searches().values():
            search()
        for given in (each for each in tables if chosen(each.name, options.only)):
            found = measure(given)
            for peer, known in ratios.items():
                known.append((given.name, found[peer] / found["ours"]))
            own, other = (known[-1][1] for known in ratios.values())
            rows.add(given.name, **found, ratio=own, ratio_libsvm=other)
    for name, ratio in ratios["grid"]:
        if ratio < LEAST:
            print(f"slower: {ratio:.3f} ×, {name}")
    own, other = ratios["grid"], ratios["libsvm"]
    what = "search against GridSearchCV on the same estimator"
    verdicts = [
        each("must", what, "ratio", own, ">=", LEAST, unit="×"),
        Verdict("must", what, "geometric mean", geometric_mean(own), ">=", MEAN, "×"),
        each("shown", "search against GridSearchCV on LIBSVM's", "ratio", other, ">=", LEAST, unit="×"),
        Verdict("shown", "search against GridSearchCV on LIBSVM's", "geometric mean", geometric_mean(other), unit="×"),
    ]
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
