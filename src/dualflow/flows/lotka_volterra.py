"""Lotka-Volterra competition with the multiplier as a dynamic variable (Howell eq. 7, 16, 27).

    α̇ᵢ = wᵢ (gᵢ − ϱeᵢ(eᵀα − d) + λeᵢ),   λ̇ = −(eᵀα − d)/τ

Species are data points, α their abundances, Q how they compete, and λ the resource that holds eᵀα at d.
Howell's (7) has w = α and τ = 1; her (16) has w = a(C − a), this flow C times faster; her (27) has Kᵢᵢ = 1 and
K for 2K, so that our ν = 2λ − 1 and our time is half of hers. Howell's (6) and (13) print Σaᵢtᵢ = 1 where
(7) has, and the SVM needs, Σaᵢtᵢ = 0.

As τ → 0 this is the gradient flow: the path differs by O(√τ), by O(τ) when eᵀα₀ = d and λ(0) = ν(α₀).
A fast λ oscillates; ϱ > 0 (the augmented Lagrangian) damps it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from .gradient import balance, interior_point, weights

__all__ = ["LotkaVolterraField"]


class LotkaVolterraField:
    """The field above; its state y is (α, λ), shape (n + 1,). Without an equality λ stays 0.

    Parameters
    ----------
    problem : DualProblem
    tau : float > 0
        Time scale of λ.
    damping : float ≥ 0
        ϱ of the augmented fitness.
    """

    def __init__(self, problem: DualProblem, tau: float = 1.0, damping: float = 0.0) -> None:
        self.problem, self.tau, self.damping = problem, tau, damping

    def start(self, warm: NDArray | None = None) -> NDArray:
        """(α₀, λ₀) on the slow manifold: eᵀα₀ = d and λ₀ = ν(α₀), so that λ does not ring."""
        centre = interior_point(self.problem)
        alpha = centre if warm is None else 0.99 * warm + 0.01 * centre
        nu = balance(self.problem, weights(self.problem, alpha), -self.problem.gradient(alpha))
        return np.append(alpha, nu)

    def rate(self, t: float, y: NDArray) -> NDArray:
        """ẏ, shape (n + 1,)."""
        alpha, lam, problem = y[:-1], y[-1], self.problem
        g = -problem.gradient(alpha)
        out = np.zeros_like(y)
        if problem.e is not None:
            excess = float(problem.e @ alpha) - problem.d
            g += (lam - self.damping * excess) * problem.e
            out[-1] = -excess / self.tau
        out[:-1] = weights(problem, alpha) * g
        return out

    def alpha(self, y: NDArray) -> NDArray:
        """The abundances in y."""
        return y[:-1]

    def multiplier(self, y: NDArray) -> float:
        """λ, in the sign of ρ = Qα − p − λe."""
        return float(y[-1])
