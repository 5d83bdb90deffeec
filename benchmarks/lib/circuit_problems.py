"""What the benchmarks of `variational-flow` share: problems, optima, shot floors, tables and threads."""

from __future__ import annotations

import argparse
import csv
import importlib.metadata
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

import dualflow
from benchmarks.lib import data
from benchmarks.lib.report import Verdict
from dualflow import Gram, Solution, problems
from dualflow.core.problem import DualProblem

DATA, MODELS, ANSAETZE = ("moons", "digits"), ("L2-SVM", "SVDD"), ("tree", "hardware-efficient")
C = 10.0
#: Draws of the shot floor, and their seeds: 0, 1, …
FLOOR_DRAWS = 101


def make_problem(name: str, n: int, model: str) -> DualProblem:
    """A new problem, whose Gram has computed nothing yet: the squared hinge with C = 10, or the hard SVDD."""
    X, y = data.load(name, n)
    gram = Gram(X, kernel="rbf", gamma=data.scale_gamma(X))
    return problems.svc(gram, y, C=C, loss="squared_hinge") if model == "L2-SVM" else problems.svdd(gram, None)


def optimum(problem: DualProblem) -> Solution:
    """By another solver, refined to round-off."""
    return dualflow.solve(problem, "working-set", tol=1e-12, refine=True)


def gap(problem: DualProblem, alpha: NDArray) -> float:
    """Certified relative gap; inf where there is none."""
    found = dualflow.certify(problem, alpha).relative_gap
    return float("inf") if found is None else float(found)


def excess(problem: DualProblem, alpha: NDArray, best: Solution) -> float:
    """(f − f*)/|f*| of α's projection, f* that of the refined optimum."""
    least = best.certificate.objective
    return (problem.objective(problem.project(alpha)) - least) / abs(least)


def floor(problem: DualProblem, best: Solution, shots: int) -> tuple[float, float]:
    """Median certified relative gap and median excess of the optimum itself, sampled with ``shots`` shots."""
    mu = np.maximum(best.alpha, 0.0)
    drawn = [np.random.default_rng(s).multinomial(shots, mu / mu.sum()) / shots for s in range(FLOOR_DRAWS)]
    samples = [problem.d * sample for sample in drawn]
    return (
        float(np.median([gap(problem, sample) for sample in samples])),
        float(np.median([excess(problem, sample, best) for sample in samples])),
    )


def one_thread() -> None:
    """One thread for BLAS, Aer and Lightning: what a library starts with is asked when it is loaded, so load them."""
    import pennylane
    import qiskit_aer

    qiskit_aer.AerSimulator()
    pennylane.device("lightning.qubit", wires=1)
    threadpool_limits(limits=1)


def header(title: str) -> str:
    """What ran where."""
    names = ("dualflow", "numpy", "scipy", "qiskit", "qiskit-aer", "pennylane-lightning")
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in names)
    openmp = os.environ.get("OMP_NUM_THREADS", "not set")
    return f"{title}: {versions}; {os.cpu_count()} processors, one thread (OMP_NUM_THREADS {openmp})"


def options(claim: str) -> argparse.Namespace:
    """The options these benchmarks share with the others."""
    parser = argparse.ArgumentParser(description=claim.split("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="a small part, about a minute")
    parser.add_argument("--only", metavar="TEXT", default="", help="only cases whose name contains all words of TEXT")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write all rows to FILE, after every case")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="write all rows to FOLDER, as CSV")
    return parser.parse_args()


def chosen(case: str, only: str) -> bool:
    """Whether a case's name contains all words of ``only``."""
    return all(word in case for word in only.split())


class Table:
    """Rows as they come: printed (the columns in ``shown``, or all), and written to CSV files after every one."""

    def __init__(self, title: str, given: argparse.Namespace, shown: Sequence[str] = ()) -> None:
        self.shown = shown
        self.rows: list[dict[str, Any]] = []
        self.paths = [given.csv] if given.csv else []
        if given.out:
            given.out.mkdir(parents=True, exist_ok=True)
            self.paths.append(given.out / f"{title}.csv")

    def add(self, case: str, **columns: Any) -> dict[str, Any]:
        row = {"case": case, **columns}
        self.rows.append(row)
        shown = {name: row[name] for name in self.shown or columns}
        print(f"{case}: " + ", ".join(f"{name} {_text(value)}" for name, value in shown.items()), flush=True)
        names = list(dict.fromkeys(name for line in self.rows for name in line))
        for path in self.paths:
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, names)
                writer.writeheader()
                writer.writerows(self.rows)
        return row


def judge(verdicts: Sequence[Verdict], part: bool) -> int:
    """Print the lines; 1 if a must failed."""
    if part:
        print("A part of the cases only: these lines are about that part, not about the claim.")
    print("\n".join(str(verdict) for verdict in verdicts))
    return int(not verdicts or any(verdict.kind == "must" and not verdict.passed for verdict in verdicts))


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
