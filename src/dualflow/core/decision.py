"""From α to the decision function."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .certificate import Certificate
from .problem import DualProblem
from .screening import product_from_below

__all__ = ["coefficients", "decision_values"]


def coefficients(problem: DualProblem, alpha: NDArray) -> NDArray:
    """Weight of every *point* of the Gram in the decision function, shape (gram.n,).

    σᵢαᵢ summed over repeated rows; for L2-SVM the usual dual variables, σᵢμᵢ/(μᵀQμ) (Bauckhage 2).
    """
    weights = problem.sigma * alpha
    if problem.model == "squared_hinge":
        quadratic = float(alpha @ product_from_below(problem, alpha))
        weights = weights / quadratic if quadratic > 0 else weights
    if problem.idx is None:
        return weights
    return np.bincount(problem.idx, weights, minlength=problem.gram.n)


def decision_values(problem: DualProblem, certificate: Certificate, Z: ArrayLike) -> NDArray:
    """What a certified α says of new points Z of shape (k, m): values of shape (k,).

    Σ wᵢk(z, xᵢ) + b with the `coefficients` w and the certificate's bias; for the data description
    R² − ‖φ(z) − Σ αᵢφ(xᵢ)‖² (Howell 23). Positive is the class of σ = +1, or inside.
    """
    Z = np.asarray(Z, dtype=float)
    gram, weights = problem.gram, coefficients(problem, certificate.alpha)
    constant, ball = certificate.bias, problem.model == "svdd"
    if ball:
        constant = (certificate.radius or 0.0) ** 2 - float(weights @ gram.matvec(weights))
        weights = 2.0 * weights
    J = np.flatnonzero(weights)
    values = constant + gram.expand(Z, J, weights[J, None])[:, 0]
    return values - gram.self_kernel(Z) if ball else values
