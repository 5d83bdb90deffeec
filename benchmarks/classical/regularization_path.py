"""Claim: the whole path along C of 1000 points takes ≤ 20 fits at its largest C, certified ≤ 1e-9 at every breakpoint.

Radial kernel, γ = "scale", C from 0.01 to 10 and to 1000, on ten tables: drawn ones from separable to pure noise, of 2
to 20 features, one of 0s and 1s, and digits (0 to 4 against 5 to 9). One thread; processor time; each path between fits
of the same points in one process, medians of 5 paths and 35 fits after one of each; the kernel matrix and the first fit
are part of the path.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits, make_blobs, make_circles, make_classification, make_moons
from threadpoolctl import threadpool_limits

from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line
from dualflow import SVC, regularization_path

TITLE = "classical/regularization_path"
POINTS, LOW, HIGHS = 1000, 0.01, (10.0, 1000.0)
PATHS, FITS = 5, 7
RATIO, GAP = 20.0, 1e-9


def digits() -> tuple[NDArray, NDArray]:
    """The first 1000 digits: 0 to 4 against 5 to 9."""
    X, y = load_digits(return_X_y=True)
    return X[:POINTS] / 16.0, (y[:POINTS] > 4).astype(int)


def bits() -> tuple[NDArray, NDArray]:
    """Rows of 8 bits, by whether about half of them or more are 1."""
    rng = np.random.default_rng(3)
    X = rng.integers(0, 2, size=(POINTS, 8)).astype(float)
    return X, (X.sum(axis=1) + rng.normal(size=POINTS) > 4).astype(int)


def noise() -> tuple[NDArray, NDArray]:
    """Ten normal features and random labels."""
    rng = np.random.default_rng(3)
    return rng.normal(size=(POINTS, 10)), rng.integers(0, 2, POINTS)


TABLES: dict[str, Callable[[], tuple[NDArray, NDArray]]] = {
    "moons": lambda: make_moons(POINTS, noise=0.3, random_state=1),
    "circles": lambda: make_circles(POINTS, noise=0.2, factor=0.5, random_state=7),
    "blobs": lambda: make_blobs(POINTS, centers=2, cluster_std=3.0, random_state=4),
    "separable": lambda: make_blobs(POINTS, centers=[[-3, 0], [3, 0]], random_state=6),
    "classification 6": lambda: make_classification(POINTS, 6, random_state=2),
    "classification 20": lambda: make_classification(POINTS, 20, random_state=0),
    "clusters 20": lambda: make_classification(
        POINTS, 20, n_informative=10, n_clusters_per_class=4, flip_y=0.05, random_state=0
    ),
    "noise": noise,
    "bits": bits,
    "digits": digits,
}
SHOWN = ("fit_ms", "path_ms", "ratio", "breakpoints", "max_gap")


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Processor time of a piece of work, and its result."""
    begun = time.process_time()
    found = work()
    return time.process_time() - begun, found


def measure(table: Rows, case: str, X: NDArray, y: NDArray, high: float) -> None:
    """One path, between fits at its largest C."""
    fits, paths, path = [], [], None
    SVC(C=high).fit(X, y)
    regularization_path(SVC(), X, y, C=(LOW, high))
    for _ in range(PATHS):
        fits += [timed(lambda: SVC(C=high).fit(X, y))[0] for _ in range(FITS)]
        path = None  # its matrix is the next one's memory
        seconds, path = timed(lambda: regularization_path(SVC(), X, y, C=(LOW, high)))
        paths.append(seconds)
    fit, whole = float(np.median(fits)), float(np.median(paths))
    table.add(
        case,
        fit_ms=1e3 * fit,
        path_ms=1e3 * whole,
        ratio=whole / fit,
        breakpoints=len(path.values),
        max_gap=float(path.relative_gaps().max()),
        is_exact=bool(path.is_exact.all()),
    )


def judge(table: Rows) -> list[Verdict]:
    """Ratios of time and gaps."""
    ratios = [(row["case"], row["ratio"]) for row in table.lines]
    what = "a path along C, n = 1000"
    mean = float(np.exp(np.mean(np.log([ratio for _, ratio in ratios]))))
    return [
        each("must", what, "its time in fits", ratios, "<=", RATIO),
        Verdict("shown", what, "its time in fits, geometric mean", mean, "<=", RATIO),
        each(
            "must", what, "relative gap at any breakpoint", [(r["case"], r["max_gap"]) for r in table.lines], "<=", GAP
        ),
    ]


def main() -> int:
    options = command_line(__doc__, "only")
    table = Rows(f"{TITLE}_rows", options, SHOWN)
    with threadpool_limits(limits=1):
        for name, load in list(TABLES.items())[: 1 if options.quick else None]:
            X, y = load()
            for high in HIGHS:
                if chosen(case := f"{name}, C ≤ {high:g}", options.only):
                    measure(table, case, X, y, high)
    return conclude(TITLE, judge(table), options)


if __name__ == "__main__":
    sys.exit(main())
