"""Lotka-Volterra competition with the multiplier as a dynamic variable (Howell eq. 7, 16, 27).

`LotkaVolterraField` is the flow

    α̇ᵢ = wᵢ (gᵢ − ϱeᵢ(eᵀα − d) + λeᵢ),   λ̇ = −(eᵀα − d)/τ

Species are data points, α their abundances, Q their competition, and λ the resource that keeps eᵀα at d.
Howell's (7) has w = α and τ = 1; her (16) has w = a(C − a), this flow C times faster; her (27) has Kᵢᵢ = 1 and
K for 2K, so that our ν = 2λ − 1 and our time is half of hers. Howell's (6) and (13) print Σaᵢtᵢ = 1 where
(7) has, and the SVM needs, Σaᵢtᵢ = 0.

As τ → 0 this is the gradient flow: the path differs by O(√τ), by O(τ) when eᵀα₀ = d and λ(0) = ν(α₀).
A fast λ oscillates; ϱ > 0 (the augmented Lagrangian) damps it.

`LogitLotkaVolterra` is the same flow in coordinates whose rates are growth rates per head:

    zᵢ = log(αᵢ/(uᵢ − αᵢ))  (log αᵢ where uᵢ = ∞),   żᵢ = α̇ᵢ/wᵢ = gᵢ − ϱeᵢ(eᵀα − d) + λeᵢ,   λ̇ = −(eᵀα − d)/τ

In α, the points αᵢ = 0 and αᵢ = uᵢ are fixed points at any fitness, and a method that minimises residuals finds these
spurious solutions. In z they are at infinity, and a variable on its way to a bound follows a straight line.
"""

from __future__ import annotations

from copy import copy

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from ..core.problem import DualProblem
from .gradient import equality_multiplier, interior_point, weights


class LotkaVolterraField:
    """The flow in α and λ; its state y is (α, λ), shape (n + 1,). Without an equality λ stays 0.

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
        """Return (α₀, λ₀) with eᵀα₀ = d and λ₀ = ν(α₀), from which λ does not oscillate."""
        centre = interior_point(self.problem)
        alpha = centre if warm is None else 0.99 * warm + 0.01 * centre
        nu = equality_multiplier(self.problem, weights(self.problem, alpha), -self.problem.gradient(alpha))
        return np.append(alpha, nu)

    def rate(self, t: float, y: NDArray) -> NDArray:
        """Return ẏ, shape (n + 1,)."""
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
        """Return α at y."""
        return y[:-1]

    def multiplier(self, y: NDArray) -> float:
        """Return λ at y, in the sign of ρ = Qα − p − λe."""
        return float(y[-1])


#: Smallest distance of a start from its bounds, relative to u: z is infinite at a bound.
MIN_BOUND_DISTANCE = 1e-12


class LogitLotkaVolterra:
    """The flow in logit coordinates, for many states in one call; a state y is (z, λ/Λ), or z without an equality.

    Variables with uᵢ = 0 are left out of z. Λ is the largest |g + λe| at the start, so that λ/Λ has the size of the z.

    Attributes
    ----------
    unit : float
        Λ.
    y0 : array of shape (size,)
        The start.

    Parameters
    ----------
    problem : DualProblem
    tau, damping : float
        As for `LotkaVolterraField`.
    warm : array of shape (n,), optional
        Feasible α to start from, mixed with 1 % of the interior point.
    """

    def __init__(
        self, problem: DualProblem, tau: float = 1.0, damping: float = 0.0, warm: NDArray | None = None
    ) -> None:
        self.problem, self.tau, self.damping = problem, tau, damping
        self.positive = np.flatnonzero(problem.upper > 0)
        u = problem.upper[self.positive]
        self.capped = np.isfinite(u)
        self.u = np.where(self.capped, u, 1.0)
        self.Q = problem.dense()[np.ix_(self.positive, self.positive)]
        self.p = problem.p[self.positive]
        self.e = None if problem.e is None else problem.e[self.positive]
        original = LotkaVolterraField(problem, tau, damping).start(warm)
        alpha, lam = original[:-1][self.positive], float(original[-1])
        share = np.clip(alpha / self.u, MIN_BOUND_DISTANCE, np.where(self.capped, 1 - MIN_BOUND_DISTANCE, np.inf))
        z = np.where(self.capped, logit(np.minimum(share, 1 - MIN_BOUND_DISTANCE)), np.log(share))
        growth = self.p - self.Q @ (share * self.u) + (0.0 if self.e is None else lam * self.e)
        self.unit = float(np.abs(growth).max(initial=0.0)) or 1.0
        self.y0 = z if self.e is None else np.append(z, lam / self.unit)

    def in_unit(self, unit: float) -> LogitLotkaVolterra:
        """Return the same field with another Λ, that of another start."""
        other = copy(self)
        other.unit = unit
        return other

    @property
    def size(self) -> int:
        """Length of y."""
        return len(self.y0)

    def alpha(self, y: NDArray) -> NDArray:
        """Return α of shape (…, n) from y of shape (…, size), strictly inside the bounds up to round-off."""
        alpha = np.zeros((*y.shape[:-1], self.problem.n))
        alpha[..., self.positive] = self._abundances(y)
        return alpha

    def multiplier(self, y: NDArray) -> float:
        """Return λ of a state y, in the sign of ρ = Qα − p − λe; 0 without an equality."""
        return 0.0 if self.e is None else float(y[-1]) * self.unit

    def rate(self, y: NDArray) -> NDArray:
        """Return ẏ, shape (k, size), for states of shape (k, size)."""
        alpha = self._abundances(y)
        g = self.p - alpha @ self.Q
        if self.e is None:
            return g
        excess = alpha @ self.e - self.problem.d
        g = g + (self.unit * y[:, -1] - self.damping * excess)[:, None] * self.e
        return np.hstack([g, -excess[:, None] / (self.tau * self.unit)])

    def jacobian(self, y: NDArray) -> NDArray:
        """Return ∂ẏ/∂y, shape (k, size, size)."""
        alpha, n = self._abundances(y), len(self.positive)
        w = np.where(self.capped, alpha * (1.0 - alpha / self.u), alpha)
        J = np.zeros((len(y), self.size, self.size))
        Q = self.Q if self.e is None else self.Q + self.damping * np.outer(self.e, self.e)
        J[:, :n, :n] = -Q * w[:, None, :]
        if self.e is not None:
            J[:, :n, n] = self.unit * self.e
            J[:, n, :n] = -self.e * w / (self.tau * self.unit)
        return J

    def _abundances(self, y: NDArray) -> NDArray:
        """Return α of the variables with u > 0, shape (…, m)."""
        z = y[..., : len(self.positive)]
        with np.errstate(over="ignore"):  # a trial step may overflow; it is rejected by its residual
            return np.where(self.capped, self.u * expit(z), np.exp(np.where(self.capped, 0.0, z)))
