"""Claims of `hhl` (a study): the direction of the least-squares SVM's α, on Aer, from exact distributions.

Moons (noise 0.2, seed 0) and digits (1 against 4, X/16), n = 15, RBF with gamma="scale", C = 10. Scored against
`problems.least_squares` solved exactly by CVXOPT, never against an SVM: it is another model.

- direction error ‖α/‖α‖ − α*/‖α*‖‖ ≤ 1 %, condition κ ≤ 50
- the null device (uniform outcomes, the same classical half) misses by 10 times

Rows, not claims: other sizes and C, where κ and with it the clock grow. CSV on stdout, verdicts on stderr.
"""

import csv
import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from benchmarks.lib import data
from dualflow import Gram, problems, solve

LIMIT, MOST_KAPPA, MISS = 0.01, 50.0, 10
COLUMNS = ["data", "n", "C", "device", "direction_error", "kappa", "clock", "qubits", "depth", "cx_gates"]
COLUMNS += ["circuits", "success_probability", "success_of_signs", "time_s", "classical_share"]


def problem(name: str, n: int, C: float):
    X, y = data.first(name, n)
    return problems.least_squares(Gram(X, kernel="rbf", gamma="scale"), y, C)


def run(name: str, n: int, C: float, device: str) -> dict:
    p = problem(name, n, C)
    exact = solve(p, "cvxopt", tol=1e-10).alpha
    found = solve(p, "hhl", device=device)
    alpha, cost, about = found.raw_alpha, found.cost, found.provenance
    length = np.linalg.norm(alpha)
    # No direction at all is as wrong as the opposite one.
    error = np.linalg.norm(alpha / length - exact / np.linalg.norm(exact)) if length > 0 else 2.0
    values = [name, n, C, device, float(error), about["condition"], about["clock"], cost.qubits, cost.depth]
    values += [cost.two_qubit_gates, cost.circuits, *about["success_probabilities"], cost.wall_time_s]
    return dict(zip(COLUMNS, [*values, cost.classical_share], strict=True))


def main() -> int:
    writer = csv.DictWriter(sys.stdout, COLUMNS)
    writer.writeheader()
    failed = 0
    for name in ("moons", "digits"):
        rows = [run(name, 15, 10.0, device) for device in ("aer", "null")]
        rows += [run(name, n, C, "aer") for n, C in ((7, 10.0), (16, 10.0), (15, 1.0), (15, 100.0))]
        for row in rows:
            writer.writerow({key: f"{value:.3g}" if isinstance(value, float) else value for key, value in row.items()})
        ours, null = rows[:2]
        error, kappa, control = ours["direction_error"], ours["kappa"], null["direction_error"]
        holds = error <= LIMIT and kappa <= MOST_KAPPA and control > MISS * LIMIT
        failed += not holds
        text = f"hhl, {name}, n = 15: direction error {error:.2%} (wanted {LIMIT:.0%}), κ = {kappa:.0f} (wanted at most"
        text += f" {MOST_KAPPA:.0f}), null device {control:.0%}"
        print(f"{'PASS' if holds else 'FAIL'}: {text}", file=sys.stderr)
    return failed


if __name__ == "__main__":
    sys.exit(main())
