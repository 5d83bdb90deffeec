"""Claims of `hhl` (a study): the direction of the least-squares SVM's α, on Aer, from exact distributions.

Moons (noise 0.2, seed 0) and digits (1 against 4, X/16), n = 15, RBF with gamma="scale", C = 10. Scored against
`problems.least_squares` solved exactly by CVXOPT, never against an SVM: it is another model.

- direction error ‖α/‖α‖ − α*/‖α*‖‖ ≤ 1 %, condition κ ≤ 50
- the null device (uniform outcomes, the same classical half) misses by 10 times

Rows, not claims: other sizes and C, where κ and with it the clock grow; ``--quick`` leaves them out.
"""

import os
import sys
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.lib.circuit_problems import DATA, first_gram, spent
from benchmarks.lib.claims import Claims, Rows, conclude
from benchmarks.lib.command import command_line
from dualflow import problems, solve

TITLE = "quantum/hhl"
LIMIT, MOST_KAPPA, MISS = 0.01, 50.0, 10
OTHERS = ((7, 10.0), (16, 10.0), (15, 1.0), (15, 100.0))


def run(table: Rows, name: str, n: int, C: float, device: str) -> dict[str, Any]:
    problem = problems.least_squares(*first_gram(name, n), C)
    exact = solve(problem, "cvxopt", tol=1e-10).alpha
    found = solve(problem, "hhl", device=device)
    alpha, about = found.raw_alpha, found.provenance
    length = np.linalg.norm(alpha)
    # No direction at all is as wrong as the opposite one.
    error = np.linalg.norm(alpha / length - exact / np.linalg.norm(exact)) if length > 0 else 2.0
    success, success_of_signs = about["success_probabilities"]
    return table.add(
        f"{name} n={n} C={C:g} {device}",
        data=name,
        n=n,
        C=C,
        device=device,
        direction_error=float(error),
        kappa=about["condition"],
        clock=about["clock"],
        **(spent(found) | {"success_probability": success}),
        success_of_signs=success_of_signs,
    )


def main() -> int:
    options = command_line(__doc__)
    table, claims = Rows(f"{TITLE}_rows", options), Claims()
    for name in DATA:
        ours, null = (run(table, name, 15, 10.0, device) for device in ("aer", "null"))
        claims.say("hhl, n = 15", "direction error", name, ours["direction_error"], "<=", LIMIT)
        claims.say("hhl, n = 15", "κ", name, ours["kappa"], "<=", MOST_KAPPA)
        claims.say("null device", "direction error", name, null["direction_error"], ">", MISS * LIMIT)
        for n, C in () if options.quick else OTHERS:
            run(table, name, n, C, "aer")
    return conclude(TITLE, claims.verdicts(), options)


if __name__ == "__main__":
    sys.exit(main())
