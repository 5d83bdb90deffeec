"""Problems for circuits, their optima, and what the optimum itself shows when it is sampled: the shot floor."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import dualflow
from benchmarks.lib import data
from dualflow import DualProblem, Gram, Solution, problems

DATA, MODELS, ANSAETZE = ("moons", "digits"), ("L2-SVM", "SVDD"), ("tree", "hardware-efficient")
C = 10.0
#: Draws of the shot floor, and their seeds: 0, 1, …
FLOOR_DRAWS = 101


def make_problem(name: str, n: int, model: str) -> DualProblem:
    """A new problem, whose Gram has computed nothing yet: the squared hinge with C = 10, or the hard SVDD."""
    X, y = data.load(name, n)
    return _model(Gram(X, kernel="rbf", gamma=data.scale_gamma(X)), y, model)


def first_problem(name: str, n: int, model: str) -> DualProblem:
    """The same two models of the points that `data.first` chooses."""
    gram, y = first_gram(name, n)
    return _model(gram, y, model)


def first_gram(name: str, n: int) -> tuple[Gram, NDArray]:
    """The RBF kernel of `data.first`, gamma="scale", and the labels."""
    X, y = data.first(name, n)
    return Gram(X, kernel="rbf", gamma="scale"), y


def _model(gram: Gram, y: NDArray, model: str) -> DualProblem:
    return problems.svc(gram, y, C, loss="squared_hinge") if model == "L2-SVM" else problems.svdd(gram)


def spent(solution: Solution) -> dict[str, Any]:
    """Columns about what a solution took, its largest circuit included."""
    cost = solution.cost
    names = ("circuits", "shots", "qubits", "depth", "two_qubit_gates", "success_probability", "classical_share")
    return {name: getattr(cost, name) for name in names} | {"time_s": cost.wall_time_s}


def optimum(problem: DualProblem) -> Solution:
    """By another solver, refined to round-off."""
    return dualflow.solve(problem, "working-set", tol=1e-12, refine=True)


def gap(problem: DualProblem, alpha: NDArray) -> float:
    """Certified relative gap; inf where there is none."""
    found = dualflow.certify(problem, alpha).relative_gap
    return float("inf") if found is None else float(found)


def excess(problem: DualProblem, alpha: NDArray, least: float) -> float:
    """(f − f*)/|f*| of α's projection; ``least`` is f*."""
    return (problem.objective(problem.project(alpha)) - least) / abs(least)


def floor(problem: DualProblem, best: Solution, shots: int) -> tuple[float, float]:
    """Median certified relative gap and median excess of the optimum itself, sampled with ``shots`` shots."""
    samples = list(drawn(problem, best.alpha, shots, ([s] for s in range(FLOOR_DRAWS))))
    least = best.certificate.objective
    return (
        float(np.median([gap(problem, sample) for sample in samples])),
        float(np.median([excess(problem, sample, least) for sample in samples])),
    )


def drawn(problem: DualProblem, best: NDArray, shots: int, seeds: Iterable[list[int]]) -> Iterable[NDArray]:
    """The optimum of a problem on the simplex, read from ``shots`` counts, once a seed."""
    mu = np.maximum(best, 0.0)
    for seed in seeds:
        yield problem.d * (np.random.default_rng(seed).multinomial(shots, mu / mu.sum()) / shots)
