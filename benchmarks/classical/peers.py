"""Shown: general QP solvers on the dual of a C-SVM, beside `dualflow.SVC` and the flows.

cvxopt, and qpsolvers' piqp, proxqp, clarabel and osqp where installed, at their default tolerances and at 1e-9. They
and the flows start from the ready Q, SVC from X; forming Q is not timed. Stretch: at n = 1000 `gradient-flow` and
`lotka-volterra` reach a certified relative gap 1e-6 at least 3 × faster than cvxopt.
"""

from __future__ import annotations

import argparse
import sys

import dualflow
from benchmarks.lib import data
from benchmarks.lib.claims import Verdict
from benchmarks.lib.entrants import DualflowSVC, Qpsolver, SolverOnProblem
from benchmarks.lib.harness import Case, Entrant, Row
from benchmarks.lib.judging import cells, each_at_least, gaps_at_most, mean_at_least
from benchmarks.lib.report import main

FLOWS = ("gradient-flow", "lotka-volterra")
OURS = "dualflow refined"

#: Each solver's own names for an accuracy of 1e-9.
TIGHT = {
    "piqp": {"eps_abs": 1e-9, "eps_rel": 1e-9},
    "proxqp": {"eps_abs": 1e-9, "eps_rel": 1e-9},
    "clarabel": {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9},
    "osqp": {"eps_abs": 1e-9, "eps_rel": 1e-9, "max_iter": 20000},
}


def build(data_set: str, n: int, C: float, solver: str | None) -> list[Entrant]:
    X, y = data.load(data_set, n)
    gamma = data.scale_gamma(X)
    problem = dualflow.problems.svc(dualflow.Gram(X, gamma=gamma), y, C)
    entrants: list[Entrant] = [DualflowSVC(X, y, C, gamma, refine=True, solver=solver)]
    entrants += [SolverOnProblem(problem, name, tol=1e-6) for name in FLOWS]
    entrants += [SolverOnProblem(problem, "cvxopt", tol=1e-6)]
    for name, options in TIGHT.items():
        entrants += [Qpsolver(problem, name, "default", {}), Qpsolver(problem, name, "1e-9", options)]
    return entrants


def cases(options: argparse.Namespace) -> list[Case]:
    sizes, sets = ((300,), ("moons", "digits")) if options.quick else ((500, 1000, 2000), data.NAMES)
    return [
        Case(f"{name} n={n} C=10", build, {"data_set": name, "n": n, "C": 10.0, "solver": options.solver})
        for n in sizes
        for name in sets
    ]


def judge(rows: list[Row]) -> list[Verdict]:
    verdicts = []
    at_1000 = [row for row in rows if row.case.fields["n"] == 1000]
    for flow in FLOWS if at_1000 else ():
        verdicts.append(each_at_least(cells(at_1000, flow, "cvxopt"), 3.0, f"{flow} against cvxopt", kind="stretch"))
        verdicts.append(gaps_at_most([r for r in at_1000 if r.entrant == flow], 1e-6, flow, kind="stretch"))
    for peer in dict.fromkeys(row.entrant for row in rows if row.status == "ok"):
        if peer != OURS and peer not in FLOWS:
            known = [cell for cell in cells(rows, OURS, peer) if cell.ratio.value > 0]
            verdicts.append(mean_at_least(known, 1.0, f"SVC refined against {peer}", kind="shown"))
            gaps = [row for row in rows if row.entrant == peer and row.status == "ok"]
            verdicts.append(gaps_at_most(gaps, 1e-6, peer, kind="shown"))
    return verdicts


if __name__ == "__main__":
    sys.exit(main("classical/peers", __doc__, cases, judge, "solver"))
