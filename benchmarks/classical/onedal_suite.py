"""Shown: the cases of scikit-learn-intelex's own benchmarks, scikit-learn_bench's configs/regular/svm.json.

Those whose data are at hand or can be made alike: a8a in a9a's place (5000 rows, linear, C = 1); numbers as wide and as
sparse as gisette (6000 × 5000, C = 100 and, as regression, 1); MNIST (20000 images of ten classes, pixels as they are,
cubic and RBF, C = 1); Friedman's first function in fried's place (20384 rows, C = 2); 2dplanes, made by its formula
(25000 rows, linear, cubic and RBF, C = 1); `make_regression` (10000 × 1000, half of it informative, linear, C = 0.1).
Features of a8a, Friedman's function and 2dplanes are standardised, γ = "scale". Not here: skin_segmentation, ijcnn,
connect, codrnanorm (no data), and ν-SVC and ν-SVR, which dualflow does not have. Certified, one thread and two.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_friedman1, make_regression

from benchmarks.classical.wide import gisette_like
from benchmarks.lib import data, real
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVC, LibsvmSVC
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, gaps_at_most, little_system_time
from benchmarks.lib.peers import INTELEX, IntelexSVC, IntelexSVR
from benchmarks.lib.regression import DualflowSVR, LibsvmSVR
from benchmarks.lib.report import main

OURS = "dualflow refined"
#: Data set, whether its labels are numbers to be regressed on, rows, C, kernels.
SUITE = (
    ("a8a", False, 5000, 1.0, ("linear",)),
    ("gisette-like", False, 6000, 100.0, ("linear", "poly", "rbf")),
    ("mnist", False, 20000, 1.0, ("poly", "rbf")),
    ("friedman1", True, 20384, 2.0, ("rbf",)),
    ("2dplanes", True, 25000, 1.0, ("linear", "poly", "rbf")),
    ("gisette-like", True, 6000, 1.0, ("poly", "rbf")),
    ("make_regression", True, 10000, 0.1, ("linear",)),
)
EPSILON = 0.1


def planes(n: int) -> tuple[NDArray, NDArray]:
    """Breiman's 2dplanes: two planes in ten columns of −1, 0 and 1, the first of which says which plane; noise 1."""
    rng = np.random.default_rng(data.SEED)
    X = rng.integers(-1, 2, (n, 10)).astype(float)
    X[:, 0] = rng.choice([-1.0, 1.0], n)
    one = 3 + 3 * X[:, 1] + 2 * X[:, 2] + X[:, 3]
    other = -3 + 3 * X[:, 4] + 2 * X[:, 5] + X[:, 6]
    return X, np.where(X[:, 0] > 0, one, other) + rng.standard_normal(n)


def load(data_set: str, n: int, folder: str | None) -> tuple[NDArray, NDArray]:
    if data_set == "mnist":
        images, digits = (array[:n] for array in data.load_mnist_part("train", folder))
        return images.reshape(len(images), -1).astype(float), digits.astype(int)
    if data_set == "gisette-like":
        return gisette_like(n, 5000)
    if data_set == "make_regression":
        return make_regression(n, 1000, n_informative=500, random_state=data.SEED)
    if data_set == "a8a":
        X, y = real.two_classes("a8a", folder)
        return real.standardised(X[:n]), y[:n]
    X, z = planes(n) if data_set == "2dplanes" else make_friedman1(n, noise=1.0, random_state=data.SEED)
    return real.standardised(X), z


def build(data_set: str, regression: bool, n: int, C: float, kernel: str, folder: str | None) -> list[Entrant]:
    X, y = load(data_set, n, folder)
    gamma = data.scale_gamma(X)
    if regression:
        return [maker(X, y, C, EPSILON, gamma, kernel=kernel) for maker in (DualflowSVR, LibsvmSVR, IntelexSVR)]
    ours = DualflowSVC(X, y, C, gamma, refine=True, kernel=kernel)
    return [ours, LibsvmSVC(X, y, C, gamma, kernel=kernel), IntelexSVC(X, y, C, gamma, kernel=kernel)]


def cases(options: argparse.Namespace) -> list[Case]:
    found = []
    for data_set, regression, rows, C, kernels in SUITE[3:5] if options.quick else SUITE:
        for kernel in kernels:
            n = min(rows, 1000) if options.quick else rows
            fields = {"data_set": data_set, "regression": regression, "n": n, "C": C, "kernel": kernel}
            name = f"{data_set}{' regression' if regression else ''} n={n} {kernel} C={C:g}"
            found.append(Case(name, build, {**fields, "folder": options.data}, limit_s=1800.0))
    return found


def judge(rows: list[Row]) -> list[Verdict]:
    verdicts: list[Verdict] = []
    for regression, peer, intelex in ((False, "SVC tol=0.001", INTELEX), (True, "SVR tol=0.001", "intelex SVR")):
        if part := [row for row in rows if row.case.fields["regression"] == regression]:
            what = "regression" if regression else "classification"
            verdicts += against(
                part, OURS, (peer, intelex), f"{what}, the faster one", mean=1.0, least=1.0, kind="shown"
            )
            verdicts += against(part, OURS, peer, f"{what}, scikit-learn", mean=1.0, kind="shown")
            two = f"{what}, intelex, two threads each"
            verdicts += against(part, OURS, intelex, two, mean=1.0, threads=2, their_threads=2, kind="shown")
    mine = [row for row in rows if row.entrant in (OURS, "(all)")]
    return [
        *verdicts,
        gaps_at_most(mine, 1e-9, "certified", kind="shown"),
        little_system_time(mine, (OURS,), kind="shown"),
    ]


if __name__ == "__main__":
    sys.exit(main("classical/onedal_suite", __doc__, cases, judge, "data"))
