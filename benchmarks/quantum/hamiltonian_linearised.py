"""Claims of `hamiltonian-schrodingerisation` and `hamiltonian-lchs`, on Aer, exact distributions.

Certified relative gap of the final state before any refinement, L2-SVM (C = 10) and hard SVDD, RBF kernel:
Schrödingerisation n = 4 / 8 / 16 at most 1e-5 / 2e-3 / 1e-2, LCHS n = 8 / 16 at most 1e-3 / 3e-2, and the null device
(uniform outcomes) above ten times that. Beside it the excess (f − f*)/|f*| against CVXOPT, what a circuit takes, and
the ways that are not the default: windows within what the ancillas resolve, the Lotka-Volterra form, Trotter steps of
Pauli strings (n = 4), and 10 000 shots a circuit (emulated; median of 7 seeds over the shot floor, the excess of the
exact optimum sampled with the same shots; at most 3). Data: `make_moons(n, noise=0.2, random_state=0)`, and the first
n of scikit-learn's digits 1 against 4, / 16.

CSV on stdout, verdicts on stderr; ``--quick`` leaves out what is not the default.
"""

import csv
import sys

import numpy as np

from benchmarks.lib.data import first
from dualflow import Gram, problems, solve

SCHRODINGERISATION, LCHS = "hamiltonian-schrodingerisation", "hamiltonian-lchs"
MUSTS = {(SCHRODINGERISATION, 4): 1e-5, (SCHRODINGERISATION, 8): 2e-3, (SCHRODINGERISATION, 16): 1e-2}
MUSTS |= {(LCHS, 4): 1e-3, (LCHS, 8): 1e-3, (LCHS, 16): 3e-2}
SHOTS, SEEDS, DRAWS, FACTOR = 10_000, 7, 200, 3.0
COLUMNS = ["way", "solver", "data", "model", "n", "gap", "excess", "circuits", "shots", "qubits", "depth", "cx"]
COLUMNS += ["success", "longest_window", "rejected", "wall_s", "classical_share"]


def problem_of(data: str, model: str, n: int):
    X, y = first(data, n)
    gram = Gram(X, kernel="rbf", gamma="scale")
    return problems.svdd(gram) if model == "svdd" else problems.svc(gram, y, C=10.0, loss="squared_hinge")


def excess(problem, alpha, best):
    f = problem.objective(best)
    return (problem.objective(problem.project(alpha)) - f) / abs(f)


def row(way, solver, data, model, problem, best, solution):
    cost, about = solution.cost, solution.provenance
    values = [way, solver, data, model, problem.n, solution.raw_certificate.relative_gap]
    values += [excess(problem, solution.raw_alpha, best), cost.circuits, cost.shots, cost.qubits, cost.depth]
    values += [cost.two_qubit_gates, cost.success_probability, about["longest_window"], about["rejected_windows"]]
    values += [cost.wall_time_s, cost.classical_share]
    return [f"{value:.3g}" if isinstance(value, float) else value for value in values]


def main(quick: bool) -> int:
    writer = csv.writer(sys.stdout)
    writer.writerow(COLUMNS)
    failed = 0

    def verdict(holds: bool, text: str) -> None:
        nonlocal failed
        failed += not holds
        print(f"{'PASS' if holds else 'FAIL'}: {text}", file=sys.stderr, flush=True)

    for (solver, n), must in MUSTS.items():
        found, null, ratios = [], [], []
        other: dict[str, list[float]] = {}
        for data in ("digits", "moons"):
            for model in ("squared hinge", "svdd"):
                problem = problem_of(data, model, n)
                alpha = np.maximum(solve(problem, "cvxopt", tol=1e-10).alpha, 0.0)
                best = alpha / alpha.sum()
                solution = solve(problem, solver)
                found.append(solution.raw_certificate.relative_gap)
                writer.writerow(row("default", solver, data, model, problem, best, solution))
                solution = solve(problem, solver, device="null")
                null.append(solution.raw_certificate.relative_gap)
                writer.writerow(row("null device", solver, data, model, problem, best, solution))
                if quick:
                    continue
                ways = {"within the ancillas": {"longest": solution.provenance["resolved"]}}
                ways["lotka-volterra"] = {"form": "lotka-volterra"}
                if n == 4:
                    ways["trotter"] = {"evolution": "trotter"}
                for way, options in ways.items():
                    solution = solve(problem, solver, device="emulator", max_steps=400, **options)
                    other.setdefault(way, []).append(solution.raw_certificate.relative_gap)
                    writer.writerow(row(way, solver, data, model, problem, best, solution))
                draws = (np.random.default_rng(k).multinomial(SHOTS, best) / SHOTS for k in range(DRAWS))
                floor = np.median([excess(problem, draw, best) for draw in draws])
                runs = [
                    solve(problem, solver, device="emulator", shots=SHOTS, random_state=k, tol=1e-9)
                    for k in range(SEEDS)
                ]
                writer.writerow(row("shots", solver, data, model, problem, best, runs[0]))
                ratios.append(np.median([excess(problem, run.raw_alpha, best) for run in runs]) / floor)
        verdict(max(found) <= must, f"{solver} n = {n}: gap {max(found):.1e}, at most {must:g} asked")
        verdict(min(null) >= 10 * must, f"{solver} n = {n}: null device {min(null):.1e}, at least {10 * must:g} asked")
        for way, gaps in other.items():
            print(f"      {solver} n = {n}, {way}: gap {max(gaps):.1e} (digits, moons: {gaps})", file=sys.stderr)
        if ratios:
            verdict(max(ratios) <= FACTOR, f"{solver} n = {n}: {SHOTS} shots: {max(ratios):.2f} × the shot floor")
    return failed


if __name__ == "__main__":
    sys.exit(main("--quick" in sys.argv[1:]))
