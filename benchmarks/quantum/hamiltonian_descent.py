"""Claims of `hamiltonian-descent` and `hamiltonian-adiabatic`, each beside the null device.

Hinge, C = 1, RBF with gamma="scale"; moons (noise 0.2, seed 0) and digits (1 against 4, X/16); with bias (the box with
equality) and without (the box). The gap is the certified relative gap of the raw final state, from exact distributions.

- descent, n = 8: gap ≤ 1e-4 in ≤ 2 s; n = 16: ≤ 1e-3; n = 64 in blocks of 8: ≤ 1e-3 with the equality, ≤ 1e-2 without,
  in ≤ 60 s
- adiabatic, n = 16: gap ≤ 5e-3
- the null device (uniform outcomes, the same classical half) misses each by 10 times, exact and with 10 000 shots

Rows, not claims: 10 000 shots a circuit; the same runs on Aer (--aer; minutes), n = 16 as one block of 16 qubits
(--wide; minutes), two qubits a variable, and simulated annealing where dwave-samplers is installed. ``--quick`` is
n = 8.
"""

import argparse
import importlib.util
import os
import sys
import time
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.lib.circuit_problems import DATA, first_gram, spent
from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import chosen, command_line
from dualflow import problems, solve

TITLE = "quantum/hamiltonian_descent"
DESCENT, ADIABATIC = "hamiltonian-descent", "hamiltonian-adiabatic"
#: solver, n, with bias, wanted gap, wanted seconds
CLAIMS = [
    (DESCENT, 8, True, 1e-4, 2.0),
    (DESCENT, 8, False, 1e-4, 2.0),
    (DESCENT, 16, True, 1e-3, np.inf),
    (DESCENT, 16, False, 1e-3, np.inf),
    (DESCENT, 64, True, 1e-3, 60.0),
    (DESCENT, 64, False, 1e-2, 60.0),
    (ADIABATIC, 16, True, 5e-3, np.inf),
    (ADIABATIC, 16, False, 5e-3, np.inf),
]
SHOTS, MISS = 10_000, 10
SHOWN = ("relative_gap", "excess", "time_s", "classical_share", "steps", "circuits")


def run(
    table: Rows, label: str, solver: str, data: str, n: int, bias: bool, tol: float, **options: Any
) -> dict[str, Any]:
    """One run, as a row."""
    gram, y = first_gram(data, n)
    problem = problems.svc(gram, y, 1.0, fit_intercept=bias)
    best = solve(problem, "cvxopt").certificate.objective
    begun = time.perf_counter()
    solution = solve(problem, solver, tol=tol, **options)
    seconds, certificate = time.perf_counter() - begun, solution.raw_certificate
    return table.add(
        f"{case_of(solver, data, n, bias)}, {label}",
        solver=solver,
        data=data,
        n=n,
        bias=bias,
        run=label,
        relative_gap=certificate.relative_gap,
        excess=(certificate.objective - best) / abs(best),
        steps=solution.cost.steps,
        **(spent(solution) | {"time_s": seconds, "two_qubit_gates": solution.provenance["cx_gates"]}),
    )


def case_of(solver: str, data: str, n: int, bias: bool) -> str:
    return f"{solver}, {data}, n = {n}, {'equality' if bias else 'box'}"


def extra(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--aer", action="store_true", help="run the circuits on Aer too")
    parser.add_argument("--wide", action="store_true", help="n = 16 as one block of 16 qubits too")


def main() -> int:
    options = command_line(__doc__, "only", extra=extra)
    table, claims = Rows(f"{TITLE}_rows", options, SHOWN), Claims()
    run(table, "warm-up", DESCENT, "moons", 8, True, 1e-4)
    for solver, n, bias, wanted, seconds in CLAIMS[:2] if options.quick else CLAIMS:
        what = f"{solver}, n = {n}, {'equality' if bias else 'box'}"
        for data in DATA:
            if not chosen(case_of(solver, data, n, bias), options.only):
                continue
            which = (solver, data, n, bias, wanted)
            row = run(table, "exact", *which)
            claims.say(what, "certified relative gap", data, row["relative_gap"], "<=", wanted)
            if np.isfinite(seconds):
                claims.say(what, "time", data, row["time_s"], "<=", seconds, "s")
            nulls = [
                run(table, f"null device, shots {shots}", *which, device="null", shots=shots)["relative_gap"]
                for shots in (None, SHOTS)
            ]
            claims.say(f"{what}, null device", "certified relative gap", data, min(nulls), ">=", MISS * wanted)
            run(table, f"{SHOTS} shots", solver, data, n, bias, 1e-9, shots=SHOTS)
            if options.aer:
                run(table, "aer", *which, device="aer")
            if options.wide and n == 16:
                run(table, "one block of 16", *which, block=16)
            if solver == DESCENT and n == 8:
                run(table, "two qubits a variable, blocks of 4", *which, bits=2, block=4, trotter_steps=100)
            if solver == ADIABATIC and importlib.util.find_spec("dwave"):
                run(table, "simulated annealing", *which, sampler="annealing")
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
