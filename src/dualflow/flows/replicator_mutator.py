"""The replicator-mutator flow: the gradient flow with a mutation that keeps every variable inside its bounds.

    α̇ᵢ = wᵢ(gᵢ + νeᵢ) + ε(1 − 2αᵢ/uᵢ)        (uᵢ = ∞: + ε; on the simplex, through ν, + ε(1 − nμᵢ))

Divided by w, mutation is the force ε/α − ε/(u − α): the fixed points g + νe + ε/α − ε/(u − α) = 0 are the
central path of the interior-point method. The function that never increases is f − ε Σ(log αᵢ + log(uᵢ − αᵢ)).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .gradient import GradientField, equality_multiplier, weights


class ReplicatorMutatorField(GradientField):
    """The replicator-mutator flow; its state y is α, shape (n,), strictly inside the bounds.

    Parameters
    ----------
    problem : DualProblem
    mutation : float ≥ 0
        ε, in units of the objective.
    """

    def __init__(self, problem: DualProblem, mutation: float) -> None:
        super().__init__(problem)
        self.mutation = mutation

    def _drive(self, y: NDArray) -> tuple[NDArray, NDArray, float]:
        """Return w, the rate of α without the multiplier, and ν at y."""
        problem = self.problem
        w = weights(problem, y)
        u = np.where(problem.upper > 0, problem.upper, np.inf)
        rate = self.mutation * np.where(problem.upper > 0, 1.0 - 2.0 * y / u, 0.0)
        g = -problem.gradient(y)
        nu = equality_multiplier(problem, w, g)
        if problem.e is not None and w.sum() > 0:
            nu -= float(problem.e @ rate) / float(w.sum())
        return w, w * g + rate, nu

    def rate(self, t: float, y: NDArray) -> NDArray:
        """Return ẏ, shape (n,)."""
        w, drive, nu = self._drive(y)
        return drive if self.problem.e is None else drive + nu * w * self.problem.e

    def multiplier(self, y: NDArray) -> float:
        """Return ν at y, in the sign of ρ = Qα − p − νe."""
        return self._drive(y)[2]

    def lyapunov(self, y: NDArray) -> float:
        """Return f − ε Σ(log αᵢ + log(uᵢ − αᵢ)), which never increases along the flow."""
        positive, finite = self.problem.upper > 0, np.isfinite(self.problem.upper)
        entropy = float(np.log(y[positive]).sum())
        entropy += float(np.log((self.problem.upper - y)[positive & finite]).sum())
        return super().lyapunov(y) - self.mutation * entropy
