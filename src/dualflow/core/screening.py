"""Qα where it matters, when float64 kernel values are dear.

The dual bound adds uᵢ·min(0, ρᵢ), ρ = h − νe: of a variable at its lower bound it matters only whether ρᵢ < 0. With
many features float32 kernel values cost half, and nothing where a solver has left its rows with the Gram. So all of
Qα is estimated from them, with a bound on the error; whoever has weight, or a multiplier that could be negative, is
computed in float64; for all others the estimate less its error takes part. That can only lower the bound: what is
certified so is certified.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .problem import DualProblem, Kind

__all__ = ["change_in_single", "product_from_below"]

#: The part of the variables that may need float64 before all are computed in it.
MOST = 0.5


def product_from_below(problem: DualProblem, alpha: NDArray, near: NDArray | None = None) -> NDArray:
    """Qα of shape (n,): in float64 where α > 0 or a multiplier may be negative, elsewhere certainly not above it.

    All in float64 where no estimate is to be had or it spares too little; ``near`` as in `DualProblem.matvec`.
    """
    for known, product in problem.screened:
        if np.array_equal(known, alpha):
            return product.copy()
    if (
        not (problem.gram.estimates and (alpha >= 0).all())
        or problem.kind.may_be_unbounded
        or problem.kind is Kind.AFFINE
    ):
        return problem.matvec(alpha, near)
    estimate, error = problem.estimate(alpha)
    multipliers, free = estimate - problem.p, (alpha > 0) & (alpha < problem.upper)
    if problem.e is not None:
        if not free.any():
            return problem.matvec(alpha, near)
        multipliers -= float(np.mean((multipliers * problem.e)[free])) * problem.e
    # Twice the error: the ν of the certificate is not quite this one. If it were far off, the bound would be loose.
    exact = (alpha > 0) | (multipliers <= 2.0 * error)
    if exact.mean() > MOST:
        return problem.matvec(alpha, near)
    product = estimate - error
    product[exact] = problem.product(alpha, np.flatnonzero(exact))
    problem.screened.appendleft((np.array(alpha), product))
    return product.copy()


def change_in_single(problem: DualProblem, v: NDArray, rows: NDArray) -> tuple[NDArray, float]:
    """Entries ``rows`` of Qv from float32 kernel values, and a bound on their error; of few features, where the Gram
    `sums_in_single`: 32 terms at a time, which adds 34u to the relative error of each."""
    gram, signed = problem.gram, problem.sigma * v
    weights = signed if problem.idx is None else np.bincount(problem.idx, signed, minlength=gram.n)
    points, J = rows if problem.idx is None else problem.idx[rows], np.flatnonzero(weights)
    gram.entries_computed += len(rows) * len(J)
    outer, inner = gram.radial_points(np.float32, points), gram.radial_points(np.float32, J)
    values = outer.expand(inner, weights[J, None])[:, 0] + problem.offset * signed.sum()
    change = problem.scale * problem.sigma[rows] * values + problem.ridge[rows] * v[rows]
    relative = gram.radial_points(np.float32).error_in_single + 40 * 2.0**-24
    return change, problem.scale * relative / (1 - relative) * float(np.abs(weights).sum())
