"""Claim: `gradient-flow` and `lotka-volterra` reach certified relative gap 1e-6 in at most 20 implicit steps.

n = 200, 1000 and 2000; moons, digits (odd against even; all 1797 rows for n = 2000), make_classification and
make_blobs; RBF and cubic kernels; hinge and squared hinge; C = 1, 10, 100, 1000. A step is one Cholesky
factorisation. At n = 1000 the time stands beside cvxopt's for the same problem, with Q already formed, in the same
process. Sizes may be given as arguments; ``--quick`` is n = 200.
"""

import argparse
import sys
import time
from itertools import product

import numpy as np
from sklearn.datasets import load_digits, make_blobs

from benchmarks.lib import data
from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line
from dualflow import DualProblem, Gram, problems, solve

TITLE = "classical/flow_steps"
SIZES, TIMED, LIMIT, GAP, SEED = (200, 1000, 2000), 1000, 20, 1e-6, 0
SOLVERS = ("gradient-flow", "lotka-volterra")
KERNELS = ({"kernel": "rbf"}, {"kernel": "poly", "coef0": 1.0})
LOSSES, CS = ("hinge", "squared_hinge"), (1.0, 10.0, 100.0, 1000.0)
SHOWN = ("steps", "relative_gap", "time_s", "cvxopt_over_it")


def load(name: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """As `data.load`, but digits in their order, unscaled, and blobs of standard deviation 1."""
    if name not in ("digits", "blobs"):
        return data.load(name, n, SEED)
    if name == "digits":
        digits = load_digits()
        X, t = digits.data[:n], digits.target[:n]
    else:
        X, t = make_blobs(n, 8, centers=16, random_state=SEED)
    return X, 2.0 * (t % 2) - 1


def seconds_of_cvxopt(problem: DualProblem) -> float:
    begun = time.perf_counter()
    solve(problem, "cvxopt")
    return time.perf_counter() - begun


def add_sizes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sizes", nargs="*", type=int, metavar="n", help="200 1000 2000")


def main() -> int:
    options = command_line(__doc__, "only", extra=add_sizes)
    sizes = options.sizes or (SIZES[:1] if options.quick else SIZES)
    table = Rows(f"{TITLE}_rows", options, SHOWN)
    for n, name, kernel in product(sizes, data.NAMES, KERNELS):
        X, y = load(name, n)
        gram = Gram(X, **kernel)
        for loss, C in product(LOSSES, CS):
            case = f"{name} n={n} {kernel['kernel']} {loss} C={C:g}"
            if not chosen(case, options.only):
                continue
            problem = problems.svc(gram, y, C, loss=loss)
            problem.dense()  # all start from the same Q
            reference = seconds_of_cvxopt(problem) if n == TIMED else np.nan
            for solver in SOLVERS:
                begun = time.perf_counter()
                solution = solve(problem, solver, tol=GAP, max_steps=2 * LIMIT)
                spent = time.perf_counter() - begun
                table.add(
                    f"{case} {solver}",
                    n=n,
                    data=name,
                    kernel=kernel["kernel"],
                    loss=loss,
                    C=C,
                    solver=solver,
                    steps=solution.cost.steps,
                    relative_gap=solution.raw_certificate.relative_gap,
                    time_s=spent,
                    cvxopt_over_it=reference / spent,
                )
    return conclude(TITLE, [line for solver in SOLVERS for line in judge(table, solver)], options)


def judge(table: Rows, solver: str) -> list[Verdict]:
    """Steps to the gap, those of a run that misses it being twice the limit; and the time beside cvxopt's."""
    rows = [row for row in table.lines if row["solver"] == solver]
    steps = [(row["case"], row["steps"] if row["relative_gap"] <= GAP else 2 * LIMIT) for row in rows]
    verdicts = [each("must", solver, f"steps to gap {GAP:g}", steps, "<=", LIMIT)]
    if timed := [(row["case"], row["cvxopt_over_it"]) for row in rows if row["n"] == TIMED]:
        mean, what = float(np.exp(np.mean(np.log([ratio for _, ratio in timed])))), f"{solver}, n = {TIMED}"
        verdicts.append(Verdict("shown", what, "ratio to cvxopt, geometric mean", mean, unit="×"))
        verdicts.append(each("stretch", what, "ratio to cvxopt", timed, ">=", 3.0, unit="×"))
    return verdicts


if __name__ == "__main__":
    sys.exit(main())
