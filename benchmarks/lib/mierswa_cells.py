"""A cell of Mierswa's Table 2, a data set at one C: every method's errors on the same folds, times, shares, variants.

The dual of EvoSVM is that of b = 0. What bias the paper's classifiers had it does not say; hence each evolved α is
tried with two more: "mean b", the mean of y − f over the support vectors, as the optimality conditions suggest, and
"hinge b", the bias of the least hinge loss. The other variants are what a figure of the paper may be instead.
"""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import sklearn.svm
from numpy.typing import NDArray
from sklearn.datasets import load_iris
from sklearn.model_selection import StratifiedKFold
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from benchmarks.lib import data
from dualflow import DualProblem, EvolutionStrategy, Gram, ParticleSwarm, Solver, problems, solve
from dualflow.evolution.generations import coordinate_sweep

#: Table 1's "sigma", read as γ; and the bundled set of --quick.
GAMMAS = {"liver": 0.01, "ionosphere": 1.0, "sonar": 1.0, "lawsuit": 0.01, "lupus": 0.001, "crabs": 0.1}
BUNDLED, BUNDLED_GAMMA = "iris", 0.5
SEED, SWEEPS, LONG, MEMETIC_TOL, ETA = 0, 50, 2000, 1e-4, 0.05

PAPERS_OWN: dict[str, Solver] = {
    "EvoSVM-G": EvolutionStrategy(preset="paper", mutation="gaussian"),
    "EvoSVM-S": EvolutionStrategy(preset="paper", mutation="switching"),
    "EvoSVM-H": EvolutionStrategy(preset="paper", mutation="hybrid"),
    "PSO": ParticleSwarm(preset="paper"),
}
OTHERS: dict[str, Solver] = {
    "long": EvolutionStrategy(mutation="switching-gaussian", memetic=False, generations=LONG),
    "memetic": EvolutionStrategy(),
}
#: scikit-learn's SVC by other readings of the paper's words; σ is Table 1's, m the number of features.
READINGS = ("SVC", "SVC, balanced", "SVC, standardised", "SVC, γ = 1/m", "SVC, γ = 1/2σ²")


@dataclass
class Cell:
    """What was found for one set at one C.

    Attributes
    ----------
    errors : dict of arrays of shape (folds,)
        Per cent, by method or variant.
    shares : dict of arrays of shape (folds,)
        Share of the dual's optimum (b = 0) that an answer has.
    seconds : dict
        Processor time of all folds' fits.
    square, training, margin : float
        ‖w‖² of the exact answer, b = 0, on all points; the share of them with yf < 0, and with yf < 1.
    n : int
        Points.
    """

    name: str
    C: float
    n: int = 0
    errors: dict[str, Any] = field(default_factory=dict)
    shares: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    square: float = 0.0
    training: float = 0.0
    margin: float = 0.0

    def mean(self, method: str) -> float:
        return float(np.mean(self.errors[method]))

    def sd(self, method: str) -> float:
        return float(np.std(self.errors[method], ddof=1))

    @property
    def bound(self) -> float:
        """Vapnik's bound of the risk: training error + √((h(ln(2n/h) + 1) − ln(η/4))/n), h = R²‖w‖² + 1, R² = 1.

        The points of a Gaussian kernel lie on the unit sphere around 0, and these hyperplanes go through 0.
        """
        return self.training + self.confidence

    @property
    def margin_bound(self) -> float:
        """The same with the points inside of the margin counted as errors, as its capacity h asks for."""
        return self.margin + self.confidence

    @property
    def confidence(self) -> float:
        """Its second term."""
        h = min(self.square + 1.0, 2.0 * self.n)
        return float(np.sqrt((h * (np.log(2 * self.n / h) + 1) - np.log(ETA / 4)) / self.n))

    def flat(self) -> Iterator[dict[str, Any]]:
        """A line a method or variant."""
        for method, errors in self.errors.items():
            share = self.shares.get(method, [])
            yield {
                "set": self.name,
                "C": self.C,
                "method": method,
                "error": round(self.mean(method), 4),
                "sd": round(self.sd(method), 4),
                "folds": len(errors),
                "seconds": round(self.seconds[method], 3) if method in self.seconds else None,
                "least_share": round(float(np.min(share)), 6) if len(share) else None,
                "mean_share": round(float(np.mean(share)), 6) if len(share) else None,
            }


def load(name: str, folder: str | None) -> tuple[NDArray, NDArray, float]:
    """Points, ±1 and γ; the bundled set is 50 versicolor against 25 virginica."""
    if name == BUNDLED:
        X, y = load_iris(return_X_y=True)
        return X[50:125], np.where(y[50:125] == 1, 1.0, -1.0), BUNDLED_GAMMA
    return *data.load_mierswa(name, folder), GAMMAS[name]


def descent(problem: DualProblem, sweeps: int) -> NDArray:
    """Plain box coordinate descent from 0, in a random order a sweep."""
    rng, Q = np.random.default_rng(SEED), problem.dense()
    alpha, product = np.zeros((1, problem.n)), np.zeros((1, problem.n))
    for _ in range(sweeps):
        coordinate_sweep(Q, problem.p, problem.upper, alpha, product, rng.permutation(problem.n))
    return alpha[0]


def hinge_bias(values: NDArray, y: NDArray) -> float:
    """The middle of the biases b of least Σ max(0, 1 − y(f + b)); ``values`` are f."""
    corners = np.sort(y - values)  # y(f + b) = 1 there
    loss = np.maximum(0.0, 1.0 - y * (values + corners[:, None])).sum(axis=1)
    best = np.flatnonzero(loss <= loss.min() + 1e-9)
    return float(0.5 * (corners[best[0]] + corners[best[-1]]))


def mean_bias(values: NDArray, y: NDArray, alpha: NDArray) -> float:
    """The mean of y − f over the support vectors; of all points if there is none."""
    held = alpha > 0
    return float(np.mean((y - values)[held] if held.any() else y - values))


def cell(name: str, C: float, folder: str | None, folds: int, *, short: bool = False) -> Cell:
    """All methods on the same folds; ``short`` leaves out what stops late."""
    X, y, gamma = load(name, folder)
    found = Cell(name, C, len(X))
    evolved = PAPERS_OWN if short else PAPERS_OWN | OTHERS
    whole = solve(problems.svc(Gram(X, gamma=gamma), y, C, fit_intercept=False), refine=True, tol=1e-9)
    found.square = float(whole.alpha @ whole.problem.dense() @ whole.alpha)
    values = whole.decision_values(X)
    found.training = float(np.mean((values >= 0) != (y > 0)))
    found.margin = float(np.mean(y * values < 1 - 1e-6))
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # 19 lawsuits of one class do not fill 20 folds
        splits = StratifiedKFold(folds, shuffle=True, random_state=SEED).split(X, y)
        for fold, (train, test) in enumerate(splits):
            _fold(found, evolved, (X[train], y[train], X[test], y[test]), gamma, fold)
    return found


def _fold(found: Cell, evolved: dict[str, Solver], parts: tuple[NDArray, ...], gamma: float, fold: int) -> None:
    """One fold's errors, shares and times, added to the cell."""
    X, y, X_test, y_test = parts
    gram = Gram(X, gamma=gamma)
    K, K_test = gram.full(), gram.cross(X_test, np.arange(len(X)))

    def note(method: str, values: NDArray) -> None:
        wrong = 100 * float(np.mean((values >= 0) != (y_test > 0)))
        found.errors.setdefault(method, []).append(wrong)

    def note_with_biases(method: str, alpha: NDArray) -> None:
        f, f_test = K @ (y * alpha), K_test @ (y * alpha)
        note(method, f_test)
        note(f"{method}, mean b", f_test + mean_bias(f, y, alpha))
        note(f"{method}, hinge b", f_test + hinge_bias(f, y))

    problem = problems.svc(gram, y, found.C, fit_intercept=False)
    best = solve(problem, refine=True, tol=1e-9)
    optimum = best.certificate.objective
    for method, solver in evolved.items():
        begun = time.process_time()
        solution = solve(
            problem, solver, tol=MEMETIC_TOL if method == "memetic" else 1e-9, random_state=SEED + fold
        )  # fmt: skip
        found.seconds[method] = found.seconds.get(method, 0.0) + time.process_time() - begun
        note_with_biases(method, solution.raw_alpha)
        found.shares.setdefault(method, []).append(solution.raw_certificate.objective / optimum)
    note_with_biases("b = 0", best.alpha)
    note("K + 1", solve(problems.svc(gram, y, found.C, fit_intercept="penalised"), tol=1e-9).decision_values(X_test))
    alpha = descent(problem, SWEEPS)
    note("descent", K_test @ (y * alpha))
    found.shares.setdefault("descent", []).append(problem.objective(alpha) / optimum)
    note("majority", np.full(len(y_test), 1.0 if y.sum() >= 0 else -1.0))
    scaler = StandardScaler().fit(X)
    for reading in READINGS:
        width = {"SVC, γ = 1/m": 1 / X.shape[1], "SVC, γ = 1/2σ²": 1 / (2 * gamma**2)}.get(reading, gamma)
        weight = "balanced" if reading.endswith("balanced") else None
        scaled = scaler.transform if reading.endswith("standardised") else np.asarray
        begun = time.process_time()
        model = sklearn.svm.SVC(C=found.C, gamma=width, class_weight=weight).fit(scaled(X), y)
        found.seconds[reading] = found.seconds.get(reading, 0.0) + time.process_time() - begun
        note(reading, model.decision_function(scaled(X_test)))


@dataclass(frozen=True)
class Figure:
    """A cell of the paper's table: error and its standard deviation in %, seconds (NaN if not given)."""

    error: float
    sd: float
    seconds: float = float("nan")


Paper = dict[tuple[str, float, str], Figure]


def read_paper(file: Path) -> Paper:
    """The paper's figures by set, C and method; "<1" seconds are read as 0.5."""
    with file.open(newline="", encoding="utf-8") as lines:
        return {
            (row["set"], float(row["C"]), row["method"]): Figure(
                float(row["error"]), float(row["sd"]), _seconds(row.get("seconds") or "nan")
            )
            for row in csv.DictReader(lines)
        }


def _seconds(text: str) -> float:
    return 0.5 * float(text[1:]) if text.startswith("<") else float(text)


def z_of(mean: float, sd: float, paper: Figure, folds: int = 20) -> float:
    """Two-sample z of two means over so many folds each; 0 for equal means without spread."""
    difference, spread = mean - paper.error, np.hypot(sd, paper.sd) / np.sqrt(folds)
    return 0.0 if difference == 0 else float(difference / spread) if spread > 0 else np.inf * np.sign(difference)
