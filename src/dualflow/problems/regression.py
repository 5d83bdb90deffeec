"""Regression: the ε-insensitive tube, and least squares (on labels, as a classifier)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..core.kernels import Gram
from ..core.options import Number
from ..core.problem import DualProblem
from ..core.reading import Reading
from ..exceptions import ProblemError
from .checks import check_signs, check_weight

__all__ = ["FINITE_COST", "LEAST_SQUARES", "REGRESSION", "TUBE", "least_squares", "svr"]

#: What C and ε may be.
FINITE_COST, TUBE = Number(above=0), Number(at_least=0)

LEAST_SQUARES, REGRESSION = Reading("least_squares", signed=True), Reading("svr")


def least_squares(gram: Gram, y: ArrayLike, C: float = 1.0, *, fit_intercept: bool = True) -> DualProblem:
    """Least-squares SVM: α free, r = 1/C, yᵀα = 0."""
    y = check_signs(y, gram.n)
    C = FINITE_COST.check("C", C)
    return DualProblem(
        gram,
        p=np.ones(gram.n),
        lower=np.full(gram.n, -np.inf),
        upper=np.full(gram.n, np.inf),
        e=y if fit_intercept else None,
        sigma=y,
        ridge=np.full(gram.n, 1.0 / C),
        reading=LEAST_SQUARES,
    )


def svr(
    gram: Gram,
    z: ArrayLike,
    C: float = 1.0,
    *,
    epsilon: float = 0.1,
    sample_weight: ArrayLike | None = None,
) -> DualProblem:
    """ε-insensitive regression: every point twice, σ = (1, −1), p = (z − ε, −z − ε)."""
    z = np.asarray(z, dtype=float)
    if z.shape != (gram.n,) or not np.isfinite(z).all():
        raise ProblemError(f"z must be {gram.n} finite numbers, found shape {z.shape}")
    C = FINITE_COST.check("C", C)
    epsilon = TUBE.check("epsilon", epsilon)
    signs = np.concatenate([np.ones(gram.n), -np.ones(gram.n)])
    return DualProblem(
        gram,
        p=np.concatenate([z - epsilon, -z - epsilon]),
        lower=np.zeros(2 * gram.n),
        upper=np.tile(C * check_weight(sample_weight, gram.n), 2),
        e=signs,
        sigma=signs,
        idx=np.tile(np.arange(gram.n), 2),
        reading=REGRESSION,
    )
