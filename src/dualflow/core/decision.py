"""From a certified α to the decision function."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .certificate import Certificate
from .problem import DualProblem

__all__ = ["coefficients", "decision_values"]


def coefficients(problem: DualProblem, certificate: Certificate) -> NDArray:
    """Weight of every *point* of the Gram in the decision function, shape (gram.n,).

    σᵢαᵢ summed over repeated rows; for L2-SVM the usual dual variables, σᵢμᵢ/(μᵀQμ) (Bauckhage 2).
    """
    return problem.reading.coefficients(problem, certificate.alpha, certificate.quadratic, certificate.multiplier)


def decision_values(problem: DualProblem, certificate: Certificate, Z: ArrayLike) -> NDArray:
    """What a certified α says of new points Z of shape (k, m): values of shape (k,).

    Σ wᵢk(z, xᵢ) + b with the `coefficients` w and the certificate's bias; for the data description
    R² − ‖φ(z) − Σ αᵢφ(xᵢ)‖² (Howell 23). Positive is the class of σ = +1, or inside.
    """
    weights, posed = coefficients(problem, certificate), problem.centred()
    bias = certificate.bias if posed is problem else certificate.bias + posed.gram.constant(weights)
    return posed.reading.decision_values(posed, weights, bias, certificate.radius, np.asarray(Z, dtype=float))
