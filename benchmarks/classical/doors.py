"""Claim: the same problem has the same bits and takes the same time, however it is given to `working-set`.

96 problems of `SVC` (moons with noise columns, classification, blobs; 100 to 8000 points, 10 to 150 features; C = 1, 30
and 1000) and 30 others (`SVR`, `SVDD`, several classes, polynomials, precomputed kernels), drawn from one seed. Each is
fitted by the estimator's default, by the solver's name, by an instance of the solver, with a callback, and by
`dualflow.solve(problem, "working-set", refine=True)` (but for several classes, which are several problems). The fits
alternate in one process with one BLAS thread, after a warm-up; a ratio is that of a door's median processor time to the
default's.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_blobs, make_classification, make_moons
from threadpoolctl import threadpool_limits

from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line
from dualflow import SVC, SVDD, SVR, Gram, WorkingSet, problems, solve

TITLE = "classical/doors"
PROBLEMS, OTHERS = 96, 30
KINDS = ("moons", "classification", "blobs")
OTHER_KINDS = ("svr", "svdd", "classes", "poly", "precomputed")
COSTS = (1.0, 30.0, 1000.0)
#: Ratios of time that are wanted: in the geometric mean of a door, and in each problem.
MEAN, MOST = 1.10, 1.25
#: Processor seconds that the fits of one door may take in all before a problem is timed no further.
ENOUGH_S = 1.5
#: Rounds of one problem, at least and at most.
ROUNDS = (3, 15)


@dataclass(frozen=True)
class Cell:
    """A problem, and the fits of it: by each door, a function that returns what the bits are read from."""

    name: str
    doors: dict[str, Callable[[], list[Any]]]


def points(kind: str, n: int, d: int, seed: int, classes: int = 2) -> tuple[NDArray, NDArray]:
    """Points, shape (n, d), and their labels."""
    rng = np.random.default_rng(seed)
    if kind == "moons":
        X, y = make_moons(n, noise=0.25, random_state=seed)
        return np.hstack([X, 0.3 * rng.standard_normal((n, d - 2))]), y
    if kind == "blobs":
        return make_blobs(n, d, centers=2 * classes, cluster_std=6.0, random_state=seed)[0], np.arange(n) % classes
    return make_classification(
        n, d, n_informative=max(d // 2, 5), n_redundant=0, n_classes=classes, flip_y=0.1, random_state=seed
    )


def bits(model: Any) -> list[Any]:
    """What two fits of one problem are compared by."""
    certificates = [solution.certificate for solution in model.solutions_]
    return [
        model.support_,
        model.dual_coef_,
        *(solution.alpha for solution in model.solutions_),
        *(np.array([certificate.objective, certificate.lower_bound]) for certificate in certificates),
    ]


def by_estimator(model: Callable[..., Any], *given: NDArray) -> dict[str, Callable[[], list[Any]]]:
    """The doors of an estimator, which ``model`` makes of further parameters."""
    return {
        "default": lambda: bits(model().fit(*given)),
        "name": lambda: bits(model(solver="working-set").fit(*given)),
        "instance": lambda: bits(model(solver=WorkingSet()).fit(*given)),
        "callback": lambda: bits(model(callback=lambda progress: False).fit(*given)),
    }


def by_solve(problem: Callable[[], Any]) -> Callable[[], list[Any]]:
    """The door of `solve`; the problem is made anew, so that no fit finds kernel values of another."""

    def run() -> list[Any]:
        solution = solve(problem(), "working-set", refine=True)
        return [solution.alpha, np.array([solution.certificate.objective, solution.certificate.lower_bound])]

    return run


def cells() -> Iterator[Cell]:
    """All problems."""
    rng = np.random.default_rng(0)
    for k in range(PROBLEMS):
        kind, C = KINDS[k % 3], COSTS[k // 3 % 3]
        n, d = int(np.exp(rng.uniform(np.log(100), np.log(8000)))), int(np.exp(rng.uniform(np.log(10), np.log(150))))
        yield classifier(f"{kind} {n} × {d}, C = {C:g}", *points(kind, n, d, k), C)
    for k in range(OTHERS):
        kind, C = OTHER_KINDS[k % 5], COSTS[k // 5 % 3]
        n, d = int(np.exp(rng.uniform(np.log(100), np.log(3000)))), int(np.exp(rng.uniform(np.log(3), np.log(40))))
        yield other(kind, n, max(d, 6) if kind == "classes" else d, C, PROBLEMS + k)


def classifier(name: str, X: NDArray, y: NDArray, C: float, **kernel: Any) -> Cell:
    doors = by_estimator(lambda **more: SVC(C=C, **kernel, **more), X, y)
    signs = np.where(y == 1, 1.0, -1.0)
    return Cell(name, {**doors, "solve": by_solve(lambda: problems.svc(Gram(X, **kernel), signs, C))})


def other(kind: str, n: int, d: int, C: float, seed: int) -> Cell:
    name = f"{kind} {n} × {d}, C = {C:g}"
    if kind == "classes":
        X, y = points("classification" if seed % 2 else "blobs", n, d, seed, classes=4)
        return Cell(name, by_estimator(lambda **more: SVC(C=C, **more), X, y))
    X, y = points("classification", n, max(d, 5), seed)
    if kind == "svr":
        z = np.tanh(X[:, 0]) + 0.1 * np.random.default_rng(seed).standard_normal(n)
        doors = by_estimator(lambda **more: SVR(C=C, **more), X, z)
        return Cell(name, {**doors, "solve": by_solve(lambda: problems.svr(Gram(X), z, C, epsilon=0.1))})
    if kind == "svdd":
        doors = by_estimator(lambda **more: SVDD(nu=0.1, **more), X)
        return Cell(f"svdd {n} × {d}", {**doors, "solve": by_solve(lambda: problems.svdd(Gram(X), nu=0.1))})
    if kind == "poly":
        return classifier(name, X, y, C, kernel="poly", degree=3, coef0=1.0)
    squares = (X**2).sum(axis=1)
    K = np.exp(-np.maximum(squares[:, None] + squares - 2.0 * (X @ X.T), 0.0) / X.shape[1])
    return classifier(name, 0.5 * (K + K.T), y, C, kernel="precomputed")


def measure(cell: Cell) -> tuple[dict[str, float], bool]:
    """The median processor time of each door, and whether all gave the same bits."""
    seconds: dict[str, list[float]] = {door: [] for door in cell.doors}
    expected = cell.doors["default"]()
    same, order = True, list(cell.doors)
    while len(seconds["default"]) < ROUNDS[0] or (
        sum(seconds["default"]) < ENOUGH_S and len(seconds["default"]) < ROUNDS[1]
    ):
        for door in order:
            began = time.process_time()
            found = cell.doors[door]()
            seconds[door].append(time.process_time() - began)
            wanted = expected[2:] if door == "solve" else expected
            same &= all(np.array_equal(one, two) for one, two in zip(found, wanted, strict=True))
        order.reverse()
    return {door: float(np.median(times)) for door, times in seconds.items()}, same


def main() -> int:
    options = command_line(__doc__, "only")
    rows = Rows(f"{TITLE}_rows", options)
    ratios: dict[str, list[tuple[str, float]]] = {}
    differing: list[tuple[str, float]] = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number, cell in enumerate(cells()):
            if not chosen(cell.name, options.only) or (options.quick and number % 11):
                continue
            seconds, same = measure(cell)
            rows.add(cell.name, **{f"{door}_s": took for door, took in seconds.items()}, same_bits=int(same))
            differing.append((cell.name, float(not same)))
            for door in (door for door in cell.doors if door != "default"):
                ratios.setdefault(door, []).append((cell.name, seconds[door] / seconds["default"]))
    verdicts = [each("must", "every door", "problems with other bits", differing, "<=", 0.0)]
    for door, found in ratios.items():
        for name, ratio in found:
            if ratio > MOST:
                print(f"slower by {door}: {ratio:.2f} ×, {name}")
        mean = float(np.exp(np.mean([np.log(ratio) for _, ratio in found])))
        # A callback may cost its own time.
        kind = "shown" if door == "callback" else "must"
        verdicts.append(Verdict(kind, f"by {door}", "geometric mean of time to the default's", mean, "<=", MEAN, "×"))
        verdicts.append(each(kind, f"by {door}", "time to the default's", found, "<=", MOST, unit="×"))
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
