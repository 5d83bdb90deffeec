"""The gradient flow of f on the feasible set (Bauckhage eq. 3; Helmke and Moore 1994).

    α̇ᵢ = wᵢ (gᵢ + νeᵢ),   g = p − Qα,   wᵢ = αᵢ if uᵢ = ∞, else αᵢ(uᵢ − αᵢ)/uᵢ;   wᵢ = 1 if αᵢ is free

ν = −Σew g/Σe²w keeps eᵀα constant, and df/dt = −Σ w(g + νe)² ≤ 0. On the simplex this is the replicator
equation, and with ψᵢ = √μᵢ it is imaginary-time evolution, ψ̇ = −½(F − ⟨F⟩)ψ with F = diag(∇f).

Bauckhage's (3) integrated as printed, μ̇ = −μ∘(Hμ) + μ(μᵀHμ), drifts off the simplex: s = 1ᵀμ obeys
ṡ = (s − 1)μᵀHμ, so that a deviation grows. With ν as above Σα̇e = 0 holds everywhere, not only on the simplex.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem, Kind


def weights(problem: DualProblem, alpha: NDArray) -> NDArray:
    """Return the metric w of the flow, shape (n,).

    It is 0 at every bound, so that the flow stays within the bounds, and 1 for problems without bounds.
    """
    if problem.kind is Kind.AFFINE:
        return np.ones(problem.n)
    finite = np.isfinite(problem.upper)
    w = alpha.copy()
    u = problem.upper[finite]
    w[finite] *= np.divide(u - alpha[finite], u, out=np.zeros(len(u)), where=u > 0)
    return w


def interior_point(problem: DualProblem) -> NDArray:
    """Return a feasible α of shape (n,) as far from the bounds as the equality allows, such as 1/n on the simplex.

    Without bounds it is the feasible point nearest to 0.
    """
    if problem.kind is Kind.AFFINE:
        return problem.project(np.zeros(problem.n))
    unit = np.where(np.isfinite(problem.upper), problem.upper, 1.0)
    if problem.e is None:
        return 0.5 * unit
    if problem.groups:
        shares = [target / float(unit[J].sum() or 1.0) for J, target in problem.groups]
        return np.where(problem.e > 0, *shares) * unit
    plus, minus = problem.e > 0, problem.e < 0
    U_plus, U_minus = float(unit[plus].sum()), float(unit[minus].sum())
    if not minus.any():
        return unit * (problem.d / U_plus)
    # α = β₊u on one class and β₋u on the other, with β₊U₊ − β₋U₋ = d and neither above ½.
    beta_plus = 0.5 * min(1.0, (U_minus + 2 * problem.d) / U_plus)
    beta_minus = (beta_plus * U_plus - problem.d) / U_minus
    return np.where(plus, beta_plus, beta_minus) * unit


def equality_multiplier(problem: DualProblem, w: NDArray, drive: NDArray) -> float:
    """Return the ν with Σ eᵢwᵢ(driveᵢ + νeᵢ) = 0, which keeps eᵀα constant; 0 without an equality."""
    if problem.e is None:
        return 0.0
    total = float(w.sum())
    return -float(problem.e @ (w * drive)) / total if total > 0 else 0.0


def equality_multipliers(problem: DualProblem, w: NDArray, drive: NDArray) -> tuple[float, float]:
    """Return the ν and μ that keep eᵀα and 1ᵀα constant.

    Σ wᵢ(driveᵢ + νeᵢ + μ) is then 0 over the variables of either sign of e. With one equality or none it is the ν of
    `equality_multiplier`, and μ = 0.
    """
    if not problem.groups:
        return equality_multiplier(problem, w, drive), 0.0
    plus, minus = (-float(w[J] @ drive[J]) / (float(w[J].sum()) or 1.0) for J, _ in problem.groups)
    return 0.5 * (plus - minus), 0.5 * (plus + minus)


class GradientField:
    """The field α̇ = w(g + νe) with ν the exact multiplier; its state y is α, shape (n,)."""

    def __init__(self, problem: DualProblem) -> None:
        self.problem = problem

    def start(self, warm: NDArray | None = None) -> NDArray:
        """Return y at t = 0: the interior point, or ``warm`` with 1 % of it, since the flow cannot leave a bound."""
        centre = interior_point(self.problem)
        if warm is not None and self.problem.kind is Kind.AFFINE:
            return warm
        return centre if warm is None else 0.99 * warm + 0.01 * centre

    def rate(self, t: float, y: NDArray) -> NDArray:
        """Return ẏ, shape (n,)."""
        w = weights(self.problem, y)
        g = -self.problem.gradient(y)
        nu = equality_multiplier(self.problem, w, g)
        return w * (g if self.problem.e is None else g + nu * self.problem.e)

    def alpha(self, y: NDArray) -> NDArray:
        """Return α at y."""
        return y

    def multiplier(self, y: NDArray) -> float:
        """Return ν at y, in the sign of ρ = Qα − p − νe."""
        return equality_multiplier(self.problem, weights(self.problem, y), -self.problem.gradient(y))

    def lyapunov(self, y: NDArray) -> float:
        """Return f, which never increases along the flow."""
        return self.problem.objective(y)
