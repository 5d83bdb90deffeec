"""Claim: the flows certify a linear SVM of 100 000 × 20 to 1e-6 in ≤ 20 implicit steps, and 1 000 000 × 20 to 1e-4.

C = 1. "gaussian" has normal points, and labels from a plane with noise; "classification" is make_classification with 20
features. Kernels: linear; polynomial of degree 2 over the first 5 features; linear over 100 Nyström features of a
radial kernel, which is how a user gives a factor. A step costs O(n r²) for r columns, and no n × n matrix is formed.

Times are processor time of the whole call, certificates included; memory is the peak of the process so far, with X of
the size before it. At n = 500 the path is held against that of the same problem with a given matrix, of which no factor
is known. ``--quick`` is n = 500 and 20 000.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from itertools import product

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_classification
from sklearn.kernel_approximation import Nystroem

from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line
from dualflow import Gram, problems, solve

TITLE = "classical/flows_large"
SOLVERS = ("gradient-flow", "lotka-volterra")
DATA, KERNELS = ("gaussian", "classification"), ("linear", "poly", "nystroem")
SEED, FEATURES, LANDMARKS = 0, 20, 100
#: Points and the relative gap; the last size has the linear kernel of the first data alone.
SIZES = ((100_000, 1e-6), (1_000_000, 1e-4))
QUICK = ((20_000, 1e-6),)
STEPS, SECONDS, MEMORY_MB, PATH = 20, 20.0, 5000.0, 1e-6
SHOWN = ("steps", "relative_gap", "cpu_s", "peak_memory_mb", "interior_point_cpu_s")


def load(name: str, n: int) -> tuple[NDArray, NDArray]:
    """X of shape (n, 20), its columns of mean 0, and y of ±1."""
    rng = np.random.default_rng(SEED)
    if name == "gaussian":
        X = rng.normal(size=(n, FEATURES))
        y = np.sign(X[:, 0] + 0.5 * X[:, 1] + 0.7 * rng.normal(size=n))
    else:
        X, t = make_classification(n, FEATURES, random_state=SEED)
        y = 2.0 * t - 1
    return X - X.mean(axis=0), y


def gram_of(kernel: str, X: NDArray) -> Gram:
    """The kernel matrix."""
    if kernel == "poly":
        return Gram(X[:, :5], "poly", degree=2, coef0=1.0)
    if kernel == "nystroem":
        made = Nystroem(gamma=1 / FEATURES, n_components=LANDMARKS, random_state=SEED)
        return Gram(made.fit(X[:10_000]).transform(X), "linear")
    return Gram(X, "linear")


def timed(problem: object, solver: str, tol: float) -> tuple[object, float]:
    """The solution, and the processor time of the whole call."""
    begun = time.process_time()
    solution = solve(problem, solver, tol=tol)
    return solution, time.process_time() - begun


def main() -> int:
    options = command_line(__doc__, "only")
    table, paths = Rows(f"{TITLE}_rows", options, SHOWN), []
    for name, kernel, solver in product(DATA, KERNELS[:2], SOLVERS):
        if chosen(case := f"{name} n=500 {kernel} {solver}", options.only):
            paths.append((case, apart(name, kernel, solver)))
            print(f"{case}: paths apart by {paths[-1][1]:.2g}", flush=True)
    for n, tol in QUICK if options.quick else SIZES:
        for name, kernel in product(DATA, KERNELS):
            case = f"{name} n={n} {kernel}"
            if n == SIZES[-1][0] and (name, kernel) != (DATA[0], KERNELS[0]):
                continue
            if any(chosen(f"{case} {solver}", options.only) for solver in SOLVERS):
                measure(table, case, n, tol, name, kernel, options)
    return conclude(TITLE, judge(table, paths), options)


def apart(name: str, kernel: str, solver: str) -> float:
    """How far α is from the dense flow's at any step, relative to the largest α."""
    X, y = load(name, 500)
    gram = gram_of(kernel, X)
    thin, dense = (
        solve(problems.svc(one, y, 1.0), solver, trajectory=True)
        for one in (gram, Gram.precomputed(np.array(gram.full())))
    )
    if thin.trajectory.alpha.shape != dense.trajectory.alpha.shape:
        return float("nan")
    return float(np.abs(thin.trajectory.alpha - dense.trajectory.alpha).max() / dense.alpha.max())


def measure(table: Rows, case: str, n: int, tol: float, name: str, kernel: str, options: argparse.Namespace) -> None:
    """Both flows on one problem, with `interior-point` beside them."""
    X, y = load(name, n)
    problem = problems.svc(gram_of(kernel, X), y, 1.0)
    del X
    beside = {}
    for solver in SOLVERS:
        if not chosen(f"{case} {solver}", options.only):
            continue
        solution, spent = timed(problem, solver, tol)
        if not beside and n < SIZES[-1][0]:
            beside["interior_point_cpu_s"] = timed(problem, "interior-point", tol)[1]
        table.add(
            f"{case} {solver}",
            n=n,
            kernel=kernel,
            solver=solver,
            tol=tol,
            rank=solution.provenance["rank"],
            steps=solution.cost.steps,
            relative_gap=solution.raw_certificate.relative_gap,
            cpu_s=spent,
            peak_memory_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            interior_point_cpu_s=beside.get("interior_point_cpu_s", np.nan),
        )


def judge(table: Rows, paths: list[tuple[str, float]]) -> list[Verdict]:
    """Gaps, steps, times and memory, and the paths' distance."""
    verdicts = [each("must", "both flows", "α from the dense flow's, n = 500", paths, "<=", PATH)] if paths else []
    for solver in SOLVERS:
        for n in sorted({row["n"] for row in table.lines}):
            rows = [row for row in table.lines if (row["n"], row["solver"]) == (n, solver)]
            if not rows:
                continue
            what = f"{solver}, n = {n}"
            verdicts += [
                each("must", what, "relative gap", of(rows, "relative_gap"), "<=", rows[0]["tol"]),
                each("must", what, "peak resident memory", of(rows, "peak_memory_mb"), "<=", MEMORY_MB, unit="MB"),
            ]
            linear = [row for row in rows if row["kernel"] == "linear"]
            others = [row for row in rows if row["kernel"] != "linear"]
            for kind, some, which in (("must", linear, "linear"), ("stretch", others, "others")):
                if some:
                    verdicts.append(each(kind, what, f"steps, {which}", of(some, "steps"), "<=", STEPS))
                    limit = SECONDS * max(1.0, n / SIZES[0][0])
                    verdicts.append(each(kind, what, f"time, {which}", of(some, "cpu_s"), "<=", limit, unit="s"))
    return verdicts


def of(rows: list[dict], column: str) -> list[tuple[str, float]]:
    """One column, by case."""
    return [(row["case"], row[column]) for row in rows]


if __name__ == "__main__":
    sys.exit(main())
