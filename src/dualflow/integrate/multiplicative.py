"""Multiplicative Euler: explicit Euler in the flow's own coordinates, log α (u = ∞) or logit(α/u).

α stays strictly inside its bounds for any h; on the simplex it is exponentiated gradient descent.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import expit

from ..core.problem import DualProblem


def max_descent_step(problem: DualProblem) -> float:
    """Return a step length with which f cannot rise.

    f is max|Qᵢⱼ|-smooth in the 1-norm, and ΣΔ²/w ≥ ‖Δ‖₁²/Σw. Σw is at most d on the simplex and Σu/4 on a box. For
    u = ∞ with another equality no such bound exists, and 1 is taken for each variable.
    """
    finite = np.isfinite(problem.upper)
    mass = float(problem.upper[finite].sum()) / 4 + float((~finite).sum())
    if problem.e is not None and (problem.e > 0).all():
        mass = min(mass, problem.d) if finite.all() else problem.d
    return 1.0 / (float(problem.diag().max()) * max(mass, np.finfo(float).tiny))


def multiplicative_step(problem: DualProblem, alpha: NDArray, h: float, nu: float | None = None) -> NDArray:
    """Return α after one step of length h.

    Parameters
    ----------
    nu : float, optional
        The multiplier; by default the one that makes eᵀα = d exactly (on the simplex, normalisation).
    """
    g = -problem.gradient(alpha)
    e, finite = problem.e, np.isfinite(problem.upper)
    inside = (problem.upper > 0) & (alpha > 0)
    u = np.where(finite, problem.upper, 1.0)
    log_odds = np.full(problem.n, -np.inf)
    with np.errstate(divide="ignore"):
        room = np.where(finite, np.maximum(problem.upper - alpha, 0.0), 1.0)
        log_odds[inside] = np.log(alpha[inside]) - np.log(room[inside])
    log_odds[inside] += h * g[inside]

    def alpha_at(shift: float) -> NDArray:
        x = log_odds if e is None else log_odds + shift * e
        with np.errstate(over="ignore"):
            return np.where(finite, u * expit(x), np.exp(x))

    if e is None:
        return alpha_at(0.0)
    if nu is not None:
        return alpha_at(h * nu)
    if not finite.any() and (e > 0).all():
        top = float(log_odds.max())
        out = np.exp(log_odds - top)
        return problem.d * out / out.sum()

    def excess(shift: float) -> float:
        return float(e @ alpha_at(shift)) - problem.d

    low, high = -1.0, 1.0
    while excess(low) > 0 and low > -1e6:
        low *= 2
    while excess(high) < 0 and high < 1e6:
        high *= 2
    if not excess(low) < 0 < excess(high):
        return alpha  # only a corner is feasible, and α cannot move
    return alpha_at(float(brentq(excess, low, high, xtol=1e-14, rtol=8.9e-16)))
