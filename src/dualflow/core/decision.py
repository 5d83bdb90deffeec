"""The decision function of a certified α: its coefficients, feature weights and values."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .certificate import Answer, Certificate
from .problem import DualProblem
from .sparse_points import SparsePoints, given_points


def coefficients(problem: DualProblem, certificate: Certificate | Answer) -> NDArray:
    """Return the weight of each *point* of the Gram in the decision function, shape (gram.n,).

    It is the sum of σᵢαᵢ over the variables of the point; for L2-SVM the usual dual variables, σᵢμᵢ/(μᵀQμ)
    (Bauckhage 2).
    """
    posed = problem if certificate.level is None else problem.at_level(certificate.level)
    return problem.reading.coefficients(posed, certificate.alpha, certificate.quadratic, certificate.multiplier)


def feature_weights(problem: DualProblem, certificate: Certificate | Answer) -> NDArray | None:
    """Return the weights of the features that predict, shape (m,), or None if the `coefficients` predict.

    There are such weights if the certificate has a bound from them (`Certificate.primal`).
    """
    if certificate.primal is None:
        return None
    posed = problem if certificate.level is None else problem.at_level(certificate.level)
    unit = posed.reading.weight_divisor(posed, certificate.quadratic, certificate.multiplier)
    found: NDArray = certificate.primal / unit
    return found


def decision_values(problem: DualProblem, certificate: Certificate | Answer, Z: ArrayLike) -> NDArray:
    """Return the decision function of a certified α at new points Z of shape (k, m), dense or sparse: shape (k,).

    It is Σ wᵢk(z, xᵢ) + b, with the `coefficients` w and the certificate's bias; for the data description
    R² − ‖φ(z) − Σ αᵢφ(xᵢ)‖² (Howell 23). A positive value means the class of σ = +1, or inside.
    """
    weights, posed = coefficients(problem, certificate), problem.centred()
    points, center = given_points(Z), posed.gram.center
    if (w := feature_weights(problem, certificate)) is not None:
        if isinstance(points, SparsePoints) and (center is not None or posed.reading.needs_self_kernel):
            points = points.toarray()
        points = points if center is None else points - center
        if posed.reading.needs_self_kernel:
            found: NDArray = (certificate.radius or 0.0) ** 2 - ((points - w) ** 2).sum(axis=1)
            return found
        shift = 0.0 if posed is problem else float(w @ posed.gram.center)
        return np.asarray(points.dot(w) + (certificate.bias + shift))
    bias = certificate.bias if posed is problem else certificate.bias + posed.gram.constant(weights)
    return posed.reading.decision_values(posed, weights, bias, certificate.radius, points)
