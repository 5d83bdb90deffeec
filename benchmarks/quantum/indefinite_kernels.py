"""Study: what each way of dealing with an indefinite kernel gives on held-out data. No claim beyond its table.

Kernels: the fidelity kernel of an 8-qubit circuit (RY layer, line of CX, RY layer) sampled with 100 shots a pair, new
points too; and tanh(γ⟨x,z⟩ + coef0) with γ = 1/8 and coef0 = 0 and −1. Data: `classification` and `blobs` of
`data.py`, each seed another problem of the generator, 60 points to train on and 200 held out, on the 8 first principal
components of the training points, standardised (for the circuit, 0.4 rad a standard deviation). C = 1. All routes
solve the same dual, the box with the bias in the kernel, the form that evolution strategies solve; "the kernel" is
therefore k + 1:

- clip, flip, shift: the training matrix repaired (`dualflow.repair`), solved by `working-set` with refinement; the
  held-out columns are treated alike;
- raw, working-set: a stationary point of the indefinite problem;
- raw, evolution-strategy: a global search in the same box, if the registry has it, else skipped with the reason;
- exact (fidelity only): the kernel without shots, what sampling costs.

The table: accuracy, mean ± standard deviation over 20 seeds. Between every two routes of a cell a Wilcoxon signed-rank
test on the 20 paired accuracies (zero differences after Pratt), p-values corrected by Holm over all tests of the run.
Must: every training matrix is indefinite, for that is what is studied. All else is shown.
"""

from __future__ import annotations

import sys
import warnings
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray
from qiskit import QuantumCircuit
from qiskit.circuit import ParameterVector
from scipy.stats import wilcoxon

import dualflow
from benchmarks.lib import data
from benchmarks.lib.claims import Rows, Verdict, conclude, each
from benchmarks.lib.command import chosen, command_line
from benchmarks.lib.machine import QUANTUM, machine, one_thread
from dualflow import FidelityKernel, Gram, problems, repair, solve
from dualflow.core.decision import decision_values
from dualflow.core.psd import REPAIRS, examine

TITLE = "quantum/indefinite_kernels"
TRAIN, TEST, QUBITS, SHOTS, SEEDS, QUICK = 60, 200, 8, 100, 20, 6
C, RADIANS, LEVEL = 1.0, 0.4, 0.05
KERNELS = ("fidelity", "sigmoid 0", "sigmoid -1")
EVOLUTION = "evolution-strategy"


def circuit() -> QuantumCircuit:
    """Every feature enters twice, before and after the qubits are entangled."""
    x = ParameterVector("x", QUBITS)
    made = QuantumCircuit(QUBITS)
    for k in range(QUBITS):
        made.ry(x[k], k)
    for k in range(QUBITS - 1):
        made.cx(k, k + 1)
    for k in range(QUBITS):
        made.ry(x[k], k)
    return made


def points(name: str, seed: int) -> tuple[NDArray, NDArray]:
    """8 standardised principal components, those of the training points, and labels ±1; training points first."""
    X, y = data.load(name, TRAIN + TEST, seed)
    centred = X - X[:TRAIN].mean(axis=0)
    axes = np.linalg.svd(centred[:TRAIN], full_matrices=False)[2][:QUBITS]
    components = centred @ axes.T
    return components / components[:TRAIN].std(axis=0), y


def matrices(kernel: str, X: NDArray, seed: int) -> tuple[NDArray, NDArray, NDArray | None]:
    """k + 1: training matrix, held-out columns (TEST, TRAIN), and of the fidelity kernel the exact values of all."""
    if kernel == "fidelity":
        train, test = RADIANS * X[:TRAIN], RADIANS * X[TRAIN:]
        sampled = FidelityKernel(circuit(), shots=SHOTS, random_state=seed)
        return sampled(train, train) + 1, sampled(test, train) + 1, FidelityKernel(circuit())(RADIANS * X, train) + 1
    values = np.tanh(X @ X[:TRAIN].T / QUBITS + float(kernel.split()[1])) + 1
    return 0.5 * (values[:TRAIN] + values[:TRAIN].T), values[TRAIN:], None


def accuracy(K: NDArray, columns: NDArray, y: NDArray, solver: str, refine: bool, seed: int) -> float:
    """Share of held-out points classified rightly by the solver's state, refined or not."""
    problem = problems.svc(Gram.precomputed(K), y[:TRAIN], C, fit_intercept=False)
    found = solve(problem, solver, refine=refine, random_state=seed)
    values = decision_values(problem, found.certificate, columns)
    return float(np.mean((values >= 0) == (y[TRAIN:] > 0)))


def cell(kernel: str, name: str, seeds: int, evolves: bool) -> tuple[dict[str, list[float]], list[float], list[float]]:
    """Accuracies of each route by seed; smallest eigenvalues; relative change by clipping."""
    found: dict[str, list[float]] = {}
    smallest, changes = [], []
    for seed in range(seeds):
        X, y = points(name, seed)
        K, columns, exact = matrices(kernel, X, seed)
        evidence = examine(K)
        smallest.append(evidence.smallest_eigenvalue if evidence.smallest_eigenvalue is not None else 0.0)
        for method in REPAIRS:
            mended = repair(K, method)
            if method == "clip":
                changes.append(mended.relative_change)
            rate = accuracy(mended.matrix, mended.transform(columns), y, "working-set", True, seed)
            found.setdefault(method, []).append(rate)
        found.setdefault("raw, working-set", []).append(accuracy(K, columns, y, "working-set", False, seed))
        if evolves:
            found.setdefault(f"raw, {EVOLUTION}", []).append(accuracy(K, columns, y, EVOLUTION, False, seed))
        if exact is not None:
            rate = accuracy(exact[:TRAIN], exact[TRAIN:], y, "working-set", True, seed)
            found.setdefault("exact", []).append(rate)
    return found, smallest, changes


def holm(p: NDArray) -> NDArray:
    """Holm's step-down correction: adjusted p-values in the order given."""
    order = np.argsort(p)
    adjusted = np.maximum.accumulate(np.minimum(1.0, p[order] * np.arange(len(p), 0, -1)))
    out = np.empty(len(p))
    out[order] = adjusted
    return out


def compared(cells: dict[str, dict[str, list[float]]]) -> list[tuple[str, str, str, float, float]]:
    """(case, route, route, mean difference, Holm-corrected p) for every two routes of every cell."""
    pairs = [(case, a, b) for case, found in cells.items() for a, b in combinations(found, 2)]
    p, means = [], []
    for case, a, b in pairs:
        difference = np.round(np.subtract(cells[case][a], cells[case][b]), 12)  # equal counts are equal
        means.append(float(difference.mean()))
        p.append(float(wilcoxon(difference, zero_method="pratt").pvalue) if difference.any() else 1.0)
    return [(*pair, m, float(q)) for pair, m, q in zip(pairs, means, holm(np.array(p)), strict=True)]


def main() -> int:
    options = command_line(__doc__, "only")
    one_thread()
    print(f"{TITLE}: {machine(*QUANTUM)}, one thread")
    warnings.simplefilter("ignore")
    seeds = QUICK if options.quick else SEEDS
    evolves = EVOLUTION in {info.name for info in dualflow.list_solvers() if info.install is None}
    if not evolves:
        print(f"skipped: raw, {EVOLUTION}: no solver of that name is in the registry")
    table, cells, largest = Rows(f"{TITLE}_rows", options), {}, []
    for kernel, name in product(KERNELS, ("classification", "blobs")):
        case = f"{kernel}, {name}"
        if not chosen(case, options.only):
            continue
        cells[case], smallest, changes = cell(kernel, name, seeds, evolves)
        for route, rates in cells[case].items():
            table.add(
                f"{case}: {route}",
                accuracy=100 * float(np.mean(rates)),
                sd=100 * float(np.std(rates, ddof=1)),
                seeds=seeds,
                smallest_eigenvalue=float(np.median(smallest)),
                changed_by_clip=float(np.median(changes)),
            )
        largest.append((case, max(smallest)))
    verdicts = [each("must", "every training matrix", "smallest eigenvalue", largest, "<", 0.0)]
    tests = compared(cells)
    for case, a, b, mean, p in tests:
        if p < LEVEL:
            better, worse = (a, b) if mean > 0 else (b, a)
            what = f"{case}: {better} over {worse}"
            note = f"p = {p:.2g} after Holm, {seeds} seeds"
            verdicts.append(Verdict("shown", what, "accuracy", 100 * abs(mean), unit="points", note=note))
    rest = sum(p >= LEVEL for *_, p in tests)
    same = f"pairs, of {len(tests)}, that do not differ at {LEVEL:g}"
    verdicts.append(Verdict("shown", "routes, Wilcoxon after Holm", same, rest))
    return conclude(TITLE, verdicts, options)


if __name__ == "__main__":
    sys.exit(main())
