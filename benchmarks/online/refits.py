"""Claim: `EcoSVC` in calls of 1 and of 100 points takes no longer than warm-started refits of all points so far.

A stream of 2000 points in calls of 100, and of 400 in calls of 1, of the two-class sets of `real_data` in a random
order, of MNIST's ones and fours, and of three generated sets; C = 1, 10, 100; RBF, γ = "scale"; `EcoSVC` as it is by
default, with a reserve as large as its survivors. The refits are of dualflow, after each call, whichever is faster: a
`SVC` with ``warm_start``, which solves two classes of so few points from their points, and the default solver from the
multipliers of the refit before, with zeros for the newcomers. One thread, by the wall and in user time. `EcoSVC` is
certified over what it remembers, and its accuracy on other points is within 1 point of the last refit's; how far it is
from the optimum over all is shown.
"""

from __future__ import annotations

import argparse
import sys
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib import data, real
from benchmarks.lib.claims import Verdict, each
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import against, find, gaps_at_most, little_system_time
from benchmarks.lib.report import main
from benchmarks.online.ecological import one_and_four
from dualflow import SVC, EcoSVC, Gram, problems, solve

OURS, COLD, WARM = "EcoSVC", "SVC, refitted", "working-set from the last α"
#: Points of a stream, by how many are met at a time, and of the test.
LENGTH, TEST = {100: 2000, 1: 400}, 2000
GAP, OPTIMUM, LAG = 1e-9, 1e-6, 1.0
GENERATED = ("moons", "classification", "digits")


class Streamed(Entrant):
    """Something that learns points a few at a time, with its accuracy on others."""

    def __init__(
        self, X: NDArray, y: NDArray, test: tuple[NDArray, NDArray], C: float, gamma: float, step: int
    ) -> None:
        self.X, self.y, self.test, self.C, self.gamma, self.step = X, y, test, C, gamma, step

    def ends(self) -> list[int]:
        """How many points there are after each call that finds both classes."""
        both = 1 + int(np.argmax(self.y != self.y[0]))
        return [end for end in range(self.step, len(self.y) + 1, self.step) if end >= both]

    def decide(self, Z: NDArray) -> NDArray:
        raise NotImplementedError

    def check(self) -> dict[str, Any]:
        return {"accuracy": 100 * float((np.sign(self.decide(self.test[0])) == self.test[1]).mean())}


class Ecological(Streamed):
    """`dualflow.EcoSVC`, a call at a time."""

    name = OURS

    def fit(self) -> None:
        self.model = EcoSVC(C=self.C, gamma=self.gamma)
        for start in range(0, len(self.y), self.step):
            part = slice(start, start + self.step)
            self.model.partial_fit(self.X[part], self.y[part], classes=[-1.0, 1.0])

    def decide(self, Z: NDArray) -> NDArray:
        return self.model.decision_function(Z)

    def check(self) -> dict[str, Any]:
        model = self.model
        found = {"relative_gap": model.certificate_.relative_gap, "survivors": len(model.survivors_)}
        return super().check() | found | {"behind": model.certify(self.X, self.y).relative_gap}


class Refitted(Streamed):
    """`dualflow.SVC` of all points so far after each call."""

    name = COLD

    def fit(self) -> None:
        self.model = SVC(C=self.C, gamma=self.gamma, warm_start=True)
        for end in self.ends():
            self.model.fit(self.X[:end], self.y[:end])

    def decide(self, Z: NDArray) -> NDArray:
        return self.model.decision_function(Z)

    def check(self) -> dict[str, Any]:
        return super().check() | {"relative_gap": self.model.solution_.certificate.relative_gap}


class FromTheLast(Streamed):
    """The default solver on all points so far after each call, from where it ended before."""

    name = WARM

    def fit(self) -> None:
        alpha = np.empty(0)
        for end in self.ends():
            problem = problems.svc(Gram(self.X[:end], gamma=self.gamma), self.y[:end], self.C)
            start = np.concatenate([alpha, np.zeros(end - len(alpha))])
            self.solution = solve(problem, "working-set", refine="early", tol=1e-6, warm=start)
            alpha = self.solution.alpha

    def decide(self, Z: NDArray) -> NDArray:
        weights = self.y * self.solution.alpha
        values: NDArray = self.solution.problem.gram.cross(Z) @ weights + self.solution.bias
        return values

    def check(self) -> dict[str, Any]:
        return super().check() | {"relative_gap": self.solution.certificate.relative_gap}


def points(name: str, folder: str | None) -> tuple[NDArray, NDArray]:
    """A set in a random order."""
    if name in GENERATED:
        X, y = data.load(name, LENGTH[100] + TEST)
    elif name == "mnist 1 4":
        X, y = one_and_four(*data.load_mnist_part("train", folder))
    else:
        X, y = real.two_classes(name, folder, False)
    order = np.random.default_rng(0).permutation(len(y))
    return np.ascontiguousarray(X[order]), y[order]


def build(data_set: str, step: int, C: float, folder: str | None) -> list[Entrant]:
    X, y = points(data_set, folder)
    n = min(LENGTH[step], len(y) // 2)
    gamma, test = data.scale_gamma(X[:n]), (X[n : n + TEST], y[n : n + TEST])
    return [kind(X[:n], y[:n], test, C, gamma, step) for kind in (Ecological, Refitted, FromTheLast)]


def cases(options: argparse.Namespace) -> list[Case]:
    names = ("moons",) if options.quick else (*GENERATED, *(n for n in real.TWO_CLASSES if n != "digits"), "mnist 1 4")
    grid = product((100, 1), names, (10.0,) if options.quick else (1.0, 10.0, 100.0))
    return [
        Case(f"{name} by {step} C={C:g}", build, {"data_set": name, "step": step, "C": C, "folder": options.data})
        for step, name, C in grid
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    verdicts = []
    for step in LENGTH:
        of = [row for row in rows if row.case.fields["step"] == step]
        if of:
            what = f"calls of {step}, against the faster refit"
            verdicts += against(of, OURS, (COLD, WARM), what, least=1.0)
            verdicts += against(of, OURS, (COLD, WARM), what, mean=1.0, kind="shown")
    mine = [row for row in rows if row.entrant in (OURS, "(all)")]
    lags = [(row.case.name, _lag(rows, row)) for row in mine]
    behind = [(row.case.name, row.columns.get("behind", float("inf"))) for row in mine]
    return [
        *verdicts,
        each("shown", "all streams", "relative gap over all that was met", behind, "<=", OPTIMUM),
        gaps_at_most(mine, GAP, "certified, of those remembered"),
        each("must", "all streams", "test accuracy below the refit's", lags, "<=", LAG, unit="points"),
        little_system_time(mine, (OURS,), "streams"),
    ]


def _lag(rows: list[Row], row: Row) -> float:
    other = find(rows, row.case, COLD)
    both = row.status == "ok" and other is not None and other.status == "ok"
    return round(other.columns["accuracy"] - row.columns["accuracy"], 9) if both and other else float("inf")


if __name__ == "__main__":
    sys.exit(main("online/refits", __doc__, cases, judge, "data"))
