"""Claim: `EcoSVC` learns a stream ≥ 500 × faster than the published method re-solved by cvxopt, and as well as a batch.

digits (odd against even, N = 1000): points per second of one call, against the published method written anew, with its
loops over kernel values and a quadratic program for each invader. (Points of one call meet the survivors in blocks of
1024; the same in calls of 100 and of one point is shown, and takes longer.) MNIST 1 against 4 (pixels/255, C = 5.321,
γ = 1/784): all 12584 points in less time than one batch fit of scikit-learn's SVC, test accuracy within 0.05 points.
make_classification (N = 5000, C = 1 and 10, five seeds): test accuracy within 0.3 points of batch, with a reserve no
larger than the survivors, in one call and in batches of 100.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

import numpy as np
from cvxopt import matrix, solvers
from numpy.typing import NDArray
from sklearn import svm
from sklearn.datasets import make_classification

from benchmarks.lib import data
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import cells, each_at_least, find
from benchmarks.lib.report import main
from dualflow import EcoSVC

#: Howell's N_s, the published scripts' threshold for a weight that counts, and how far accuracy may lag (points).
FIRST, THRESHOLD = 30, 1e-3
LAG = {"mnist": 0.05, "classification": 0.3}

CALL, HUNDREDS, POINTS = "EcoSVC", "EcoSVC by 100", "EcoSVC point by point"
PUBLISHED, BATCH = "published method, cvxopt", "SVC tol=0.001"


class Learner(Entrant):
    """Something fitted on X, y, with its accuracy on test points."""

    def __init__(self, X: NDArray, y: NDArray, test: tuple[NDArray, NDArray], name: str) -> None:
        self.X, self.y, self.test, self.name = X, y, test, name
        self.model: Any = None

    def check(self) -> dict[str, Any]:
        return {"accuracy": 100 * float((self.model.predict(self.test[0]) == self.test[1]).mean())}


class Eco(Learner):
    """EcoSVC over the stream, ``batch`` points a call (None: all in one)."""

    def __init__(self, *args: Any, parameters: dict[str, Any], batch: int | None = None) -> None:
        super().__init__(*args)
        self.parameters, self.batch = parameters, batch

    def fit(self) -> None:
        self.model = EcoSVC(**self.parameters)
        step = self.batch or len(self.X)
        for start in range(0, len(self.X), step):
            part = slice(start, start + step)
            self.model.partial_fit(self.X[part], self.y[part], classes=[-1.0, 1.0])

    def check(self) -> dict[str, Any]:
        model = self.model
        return {
            **super().check(),
            "relative_gap": model.certify(self.X, self.y).relative_gap,
            "support_vectors": len(model.survivors_),
            "reserve": len(model.reserve_),
            "invasions": model.n_invasions_,
        }


class Batch(Learner):
    """scikit-learn's SVC on all points."""

    def __init__(self, *args: Any, parameters: dict[str, Any]) -> None:
        super().__init__(*args)
        self.parameters = parameters

    def fit(self) -> None:
        self.model = svm.SVC(**self.parameters, cache_size=2000).fit(self.X, self.y)

    def check(self) -> dict[str, Any]:
        return {**super().check(), "support_vectors": int(self.model.n_support_.sum())}


class Published(Learner):
    """The published method: every point tested by a loop over the survivors, a new quadratic program for an invader.

    Kernel values are computed one by one, and all again for each program. As in the scripts, but with the αᵢ that they
    leave out of the invasion test, and b from the active survivor nearest to C/2.
    """

    def __init__(self, *args: Any, C: float, gamma: float) -> None:
        super().__init__(*args)
        self.C, self.gamma = C, gamma

    def kernel(self, x: NDArray, z: NDArray) -> float:
        return float(np.exp(-self.gamma * np.dot(x - z, x - z)))

    def solved(self, X: list[NDArray], y: list[float]) -> tuple[list[NDArray], list[float], list[float]]:
        """Survivors of a quadratic program: their points, labels and weights."""
        n = len(X)
        Q = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                Q[i, j] = y[i] * y[j] * self.kernel(X[i], X[j])
        bounds, limits = np.vstack([-np.eye(n), np.eye(n)]), np.concatenate([np.zeros(n), np.full(n, self.C)])
        program = matrix(Q), matrix(-np.ones(n)), matrix(bounds), matrix(limits), matrix(y, (1, n), "d"), matrix(0.0)
        weights = [float(w) for w in solvers.qp(*program, options={"show_progress": False})["x"]]
        alive = [i for i in range(n) if weights[i] > THRESHOLD]
        return [X[i] for i in alive], [y[i] for i in alive], [weights[i] for i in alive]

    def fit(self) -> None:
        X, y, a = self.solved(list(self.X[:FIRST]), list(self.y[:FIRST]))
        for x, t in zip(self.X[FIRST:], self.y[FIRST:], strict=True):
            k = int(np.argmin([(w - self.C / 2) ** 2 for w in a]))
            growth = 1 - t * y[k]
            for i in range(len(X)):
                growth += t * y[i] * a[i] * (self.kernel(X[i], X[k]) - self.kernel(X[i], x))
            if growth >= 0:
                X, y, a = self.solved([*X, x], [*y, t])
        self.survivors = X, y, a

    def check(self) -> dict[str, Any]:
        X, y, a = (np.array(part) for part in self.survivors)
        k = int(np.argmin((a - self.C / 2) ** 2))

        def values(Z: NDArray) -> NDArray:
            squares = (Z**2).sum(axis=1)[:, None] + (X**2).sum(axis=1) - 2 * Z @ X.T
            return np.exp(-self.gamma * squares) @ (a * y)

        b = y[k] - values(X[k : k + 1])[0]
        right = np.where(values(self.test[0]) + b >= 0, 1.0, -1.0) == self.test[1]
        return {"accuracy": 100 * float(right.mean()), "support_vectors": len(X)}


def digits(n: int, C: float) -> list[Entrant]:
    X, y = data.load("digits", 1797)
    gamma = data.scale_gamma(X[:n])
    stream, test = (X[:n], y[:n]), (X[n:], y[n:])
    parameters = {"C": C, "gamma": gamma, "reserve": 0}
    return [
        Eco(*stream, test, CALL, parameters=parameters),
        Eco(*stream, test, HUNDREDS, parameters=parameters, batch=100),
        Eco(*stream, test, POINTS, parameters=parameters, batch=1),
        Published(*stream, test, PUBLISHED, C=C, gamma=gamma),
    ]


def mnist(rows: int | None, C: float, folder: str | None) -> list[Entrant]:
    (X, y), test = (one_and_four(*data.load_mnist_part(part, folder)) for part in ("train", "test"))
    parameters = {"C": C, "gamma": 1 / 784}
    stream = X[:rows], y[:rows]
    return [Eco(*stream, test, CALL, parameters=parameters), Batch(*stream, test, BATCH, parameters=parameters)]


def classification(n: int, C: float, seed: int) -> list[Entrant]:
    X, label = make_classification(2 * n, random_state=seed)
    y = np.where(label == 1, 1.0, -1.0)
    stream, test = (X[:n], y[:n]), (X[n:], y[n:])
    parameters = {"C": C, "gamma": data.scale_gamma(X[:n])}
    return [
        Eco(*stream, test, CALL, parameters=parameters),
        Eco(*stream, test, HUNDREDS, parameters=parameters, batch=100),
        Batch(*stream, test, BATCH, parameters=parameters),
    ]


def one_and_four(images: NDArray, digits: NDArray) -> tuple[NDArray, NDArray]:
    """MNIST's ones and fours, pixels/255, y = +1 for a four."""
    rows = (digits == 1) | (digits == 4)
    return images[rows].reshape(rows.sum(), -1) / 255.0, np.where(digits[rows] == 4, 1.0, -1.0)


def judge(rows: list[Row]) -> list[Verdict]:
    of = {name: [row for row in rows if row.case.fields["data_set"] == name] for name in ("digits", *LAG)}
    verdicts = []
    if of["digits"]:
        for kind, name in (("must", CALL), ("shown", HUNDREDS), ("shown", POINTS)):
            verdicts.append(each_at_least(cells(of["digits"], name, PUBLISHED), 500.0, f"digits, {name}", kind=kind))
        verdicts += lags(of["digits"], CALL, PUBLISHED, 0.0, kind="shown")
    if of["mnist"]:
        verdicts.append(each_at_least(cells(of["mnist"], CALL, BATCH), 1.0, "MNIST 1 against 4", strictly=True))
        verdicts += lags(of["mnist"], CALL, BATCH, LAG["mnist"])
    for name in (CALL, HUNDREDS) if of["classification"] else ():
        verdicts += lags(of["classification"], name, BATCH, LAG["classification"])
    ours = [row for row in rows if "reserve" in row.columns]
    shares = [(row.case.name, row.columns["reserve"] / row.columns["support_vectors"]) for row in ours]
    return [*verdicts, each("must", "all streams", "reserve over survivors", shares, "<=", 1.0)]


def lags(rows: list[Row], ours: str, peer: str, most: float, kind: str = "must") -> list[Verdict]:
    """How many points of test accuracy ours lacks."""
    found = []
    for row in rows:
        other = find(rows, row.case, peer)
        if row.key == (ours, 1):
            both = row.status == "ok" and other is not None and other.status == "ok"
            lag = other.columns["accuracy"] - row.columns["accuracy"] if both and other else float("inf")
            found.append((row.case.name, round(lag, 9)))  # percentages: 0.05 points are not 0.0499999
    what = f"{rows[0].case.fields['data_set']}, {ours}"
    return [each(kind, what, f"test accuracy below {peer}", found, "<=", most, unit="points")]


def cases(options: argparse.Namespace) -> list[Case]:
    n, size, rows = (300, 1000, 3000) if options.quick else (1000, 5000, None)
    found = [Case(f"digits n={n} C=10", build, {"data_set": "digits", "n": n, "C": 10.0})]
    fields = {"data_set": "mnist", "rows": rows, "C": 5.321, "folder": options.data}
    found.append(Case("mnist 1 against 4", build, fields))
    for C in (1.0, 10.0):
        for seed in range(2 if options.quick else 5):
            fields = {"data_set": "classification", "n": size, "C": C, "seed": seed}
            # Only accuracy is judged: one timed run is enough.
            found.append(Case(f"classification n={size} C={C:g} seed={seed}", build, fields, runs=1))
    return found


def build(data_set: str, **fields: Any) -> list[Entrant]:
    return {"digits": digits, "mnist": mnist, "classification": classification}[data_set](**fields)


if __name__ == "__main__":
    sys.exit(main("online/ecological", __doc__, cases, judge, "data"))
