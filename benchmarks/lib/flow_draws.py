"""Draws of the data that stand for Bauckhage's figure, and the flow of each with a kernel: rest, rates, states."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import make_moons
from sklearn.preprocessing import StandardScaler

from benchmarks.lib import replicator
from dualflow import DualProblem, Gram, problems, solve

KERNELS: dict[str, dict[str, Any]] = {
    "linear": {"kernel": "linear"},
    "polynomial": {"kernel": "poly", "degree": 3, "gamma": 1.0, "coef0": 1.0},
    "Gaussian": {"kernel": "rbf", "gamma": 0.5},
}
N, NOISE, C, END, ITERATES = 100, 0.15, 1.0, 12.0, 200
#: Half the side of the square of the figure, in standard deviations, and its points a side.
SIDE, POINTS = 2.4, 60


def moons(seed: int) -> tuple[NDArray, NDArray]:
    """A draw of the figure's stand-in."""
    X, label = make_moons(N, noise=NOISE, random_state=seed)
    return StandardScaler().fit_transform(X), 2.0 * label - 1


@dataclass(frozen=True)
class Flow:
    """A draw's flow with a kernel: its problem, rest, rates and path."""

    seed: int
    kernel: str

    @cached_property
    def problem(self) -> DualProblem:
        X, y = moons(self.seed)
        return problems.svc(Gram(X, **KERNELS[self.kernel]), y, C=C, loss="squared_hinge")

    @cached_property
    def hessian(self) -> NDArray:
        return self.problem.dense()

    @cached_property
    def rest(self) -> NDArray:
        solution = solve(self.problem, tol=1e-12, refine=True)
        if not solution.certificate.relative_gap <= 1e-10:
            raise RuntimeError(f"seed {self.seed}, {self.kernel}: no certified rest, {solution.certificate}")
        return solution.alpha

    @cached_property
    def modes(self) -> replicator.Modes:
        return replicator.modes(self.hessian, self.rest)

    @cached_property
    def path(self) -> replicator.Path:
        """From the start to where the slowest mode alone is left."""
        first, last = 1e-2 / self.modes.level, 1.05 * replicator.WINDOW[1] / self.modes.slowest
        return replicator.path(self.hessian, np.append(0.0, np.geomspace(first, max(last, 2 * END), 400)))

    @property
    def optimum(self) -> float:
        return 0.5 * self.modes.level

    @cached_property
    def at_twelve(self) -> NDArray:
        """μ(12), to five decimals as the paper has it."""
        return np.round(replicator.path(self.hessian, np.array([0.0, END])).mu[-1], 5)

    @cached_property
    def wolfe(self) -> NDArray:
        """The last of 200 Frank-Wolfe iterates, to five decimals."""
        run = solve(self.problem, "frank-wolfe", variant="classic", tol=1e-12, max_steps=ITERATES)
        return np.round(run.raw_alpha, 5)

    def excess(self, mu: NDArray) -> float:
        """Of f over the optimum, as a share of it; μ is brought back to Σμ = 1 first."""
        mu = mu / mu.sum()
        return float(0.5 * mu @ self.hessian @ mu / self.optimum - 1)

    def decision(self, mu: NDArray, Z: NDArray) -> NDArray:
        """Σ yᵢaᵢ(k(z, xᵢ) + 1) with a = μ/(μᵀHμ), shape (len(Z),)."""
        a = self.problem.sigma * mu / (mu @ self.hessian @ mu)
        return (self.problem.gram.cross(Z, np.arange(N)) + 1.0) @ a


def square() -> NDArray:
    """The points of the figure's square."""
    axis = np.linspace(-SIDE, SIDE, POINTS)
    return np.stack(np.meshgrid(axis, axis), axis=-1).reshape(-1, 2)
