"""Claims of `hamiltonian-schrodingerisation` and `hamiltonian-lchs`, on Aer, exact distributions.

Certified relative gap of the final state before any refinement, L2-SVM (C = 10) and hard SVDD, RBF kernel:
Schrödingerisation n = 4 / 8 / 16 at most 1e-5 / 2e-3 / 1e-2, LCHS n = 8 / 16 at most 1e-3 / 3e-2, and the null device
(uniform outcomes) above ten times that. Beside it the excess (f − f*)/|f*| against CVXOPT, what a circuit takes, and
the ways that are not the default: windows within what the ancillas resolve, the Lotka-Volterra form, Trotter steps of
Pauli strings (n = 4), and 10 000 shots a circuit (emulated; median of 7 seeds over the shot floor, the excess of the
exact optimum sampled with all shots of a run; at most 3). Data: `make_moons(n, noise=0.2, random_state=0)`, and the
first n of scikit-learn's digits 1 against 4, / 16.

``--quick`` leaves out what is not the default.
"""

import sys
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.lib.circuit_problems import DATA, MODELS, drawn, excess, first_problem, spent
from benchmarks.lib.claims import Claims, Rows, Verdict, conclude
from benchmarks.lib.command import chosen, command_line
from dualflow import DualProblem, Solution, solve

TITLE = "quantum/hamiltonian_linearised"
SCHRODINGERISATION, LCHS = "hamiltonian-schrodingerisation", "hamiltonian-lchs"
MUSTS = {(SCHRODINGERISATION, 4): 1e-5, (SCHRODINGERISATION, 8): 2e-3, (SCHRODINGERISATION, 16): 1e-2}
MUSTS |= {(LCHS, 4): 1e-3, (LCHS, 8): 1e-3, (LCHS, 16): 3e-2}
SHOTS, SEEDS, DRAWS, FACTOR = 10_000, 7, 200, 3.0
SHOWN = ("gap", "excess", "circuits", "qubits", "depth", "two_qubit_gates", "time_s")


class Cell:
    """A solver on a problem with its optimum; every run is a row."""

    def __init__(self, table: Rows, solver: str, data: str, model: str, n: int) -> None:
        self.table, self.solver, self.about = table, solver, {"data": data, "model": model, "n": n}
        self.problem: DualProblem = first_problem(data, n, model)
        alpha = np.maximum(solve(self.problem, "cvxopt", tol=1e-10).alpha, 0.0)
        self.best: NDArray = alpha / alpha.sum()

    def excess(self, alpha: NDArray) -> float:
        return excess(self.problem, alpha, self.problem.objective(self.best))

    def solve(self, **options: Any) -> Solution:
        return solve(self.problem, self.solver, **options)

    def row(self, way: str, solution: Solution) -> dict[str, Any]:
        about = solution.provenance
        return self.table.add(
            f"{self.solver} n={self.problem.n} {self.about['data']} {self.about['model']}, {way}",
            way=way,
            solver=self.solver,
            **self.about,
            gap=solution.raw_certificate.relative_gap,
            excess=self.excess(solution.raw_alpha),
            **spent(solution),
            longest_window=about["longest_window"],
            rejected_windows=about["rejected_windows"],
        )

    def other_ways(self, resolved: float) -> list[dict[str, Any]]:
        """What is not the default; ``resolved`` is the window that the ancillas resolve."""
        ways: dict[str, dict[str, Any]] = {"within the ancillas": {"longest": resolved}}
        ways["lotka-volterra"] = {"form": "lotka-volterra"}
        if self.problem.n == 4:
            ways["trotter"] = {"evolution": "trotter"}
        return [self.row(way, self.solve(device="emulator", max_steps=400, **options)) for way, options in ways.items()]

    def floors(self) -> float:
        """The median excess of sampled runs over the shot floor of all their shots."""
        runs = [self.solve(device="emulator", shots=SHOTS, random_state=k, tol=1e-9) for k in range(SEEDS)]
        draws = drawn(self.problem, self.best, runs[0].cost.shots or SHOTS, ([k] for k in range(DRAWS)))
        floor = np.median([self.excess(draw) for draw in draws])
        self.row("shots", runs[0])
        return float(np.median([self.excess(run.raw_alpha) for run in runs]) / floor)


def main() -> int:
    options = command_line(__doc__, "only")
    table, claims, ways = Rows(f"{TITLE}_rows", options, SHOWN), Claims(), dict[tuple[str, str], list[float]]()
    for ((solver, n), must), data, model in product(MUSTS.items(), DATA, MODELS):
        case, what = f"{data}, {model}", f"{solver}, n = {n}"
        if not chosen(f"{solver} n={n} {data} {model}", options.only):
            continue
        cell = Cell(table, solver, data, model, n)
        solution = cell.solve()
        row, null = cell.row("default", solution), cell.row("null device", cell.solve(device="null"))
        claims.say(what, "certified relative gap", case, row["gap"], "<=", must)
        claims.say(f"{what}, null device", "certified relative gap", case, null["gap"], ">=", 10 * must)
        if options.quick:
            continue
        for other in cell.other_ways(solution.provenance["resolved"]):
            ways.setdefault((what, other["way"]), []).append(other["gap"])
        claims.say(f"{what}, {SHOTS} shots", "excess over the floor", case, cell.floors(), "<=", FACTOR, "×")
    shown = [Verdict("shown", f"{what}, {way}", "widest gap", max(gaps)) for (what, way), gaps in ways.items()]
    return conclude(TITLE, [*claims.verdicts(), *shown], options)


if __name__ == "__main__":
    sys.exit(main())
