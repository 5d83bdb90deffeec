"""One class: the smallest ball, and the plane farthest from the origin."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.kernels import Gram
from ..core.options import Number
from ..core.problem import DualProblem
from ..core.reading import Interval, Posed, Reading
from ..exceptions import ProblemError
from .checks import check_weight

__all__ = ["BALL", "ONE_CLASS", "SHARE", "ball_bounds", "one_class", "svdd"]

#: What ν may be.
SHARE = Number(above=0, at_most=1)

ONE_CLASS = Reading("one_class")


class _Ball(Reading):
    """R² − ‖φ(x) − Σ αᵢφ(xᵢ)‖² (Howell 23), with R² = αᵀKα − ν and Q = 2K."""

    needs_self_kernel: ClassVar[bool] = True

    def bias(
        self, problem: Posed, alpha: NDArray, quadratic: float, interval: Interval | None
    ) -> tuple[float, Interval]:
        return 0.0, (0.0, 0.0)

    def radius(self, problem: Posed, quadratic: float, nu: float | None) -> float | None:
        # Round-off below zero (a single point) is zero.
        return None if nu is None else float(np.sqrt(max(0.0, quadratic / problem.scale - nu)))

    def decision_values(
        self, problem: Posed, weights: NDArray, bias: float, radius: float | None, Z: NDArray
    ) -> NDArray:
        centre = float(weights @ problem.gram.matvec(weights))
        values = super().decision_values(problem, 2.0 * weights, (radius or 0.0) ** 2 - centre, None, Z)
        return values - problem.gram.self_kernel(Z)


BALL = _Ball("svdd")


def svdd(gram: Gram, nu: float | None = None, *, sample_weight: ArrayLike | None = None) -> DualProblem:
    """Support vector data description: the smallest ball around the data in feature space (Howell 23).

    Parameters
    ----------
    gram : Gram
    nu : float in (0, 1], optional
        At most a fraction ν of the points lies outside: αᵢ ≤ 1/(νn). None is the hard ball around all points.
    sample_weight : array of shape (n,), optional
        Multiplies each point's bound; normalised to mean 1. Without ν a weight of 0 removes a point.
    """
    upper = ball_bounds(gram.n, nu, sample_weight)
    return DualProblem(
        gram,
        p=gram.diag(),
        lower=np.zeros(gram.n),
        upper=upper,
        e=np.ones(gram.n),
        d=1.0,
        scale=2.0,
        reading=BALL,
    )


def one_class(gram: Gram, nu: float = 0.5, *, sample_weight: ArrayLike | None = None) -> DualProblem:
    """One-class ν-SVM: separate the data from the origin; decision Σαᵢk(x,xᵢ) − ρ with ρ = the multiplier ν.

    α is scikit-learn's OneClassSVM's divided by νn, and so are ρ and the decision values.
    """
    if nu is None:
        raise ProblemError("nu must be a number in (0, 1]; the hard one-class problem is svdd(gram, nu=None)")
    return DualProblem(
        gram,
        p=np.zeros(gram.n),
        lower=np.zeros(gram.n),
        upper=ball_bounds(gram.n, nu, sample_weight),
        e=np.ones(gram.n),
        d=1.0,
        reading=ONE_CLASS,
    )


def ball_bounds(n: int, nu: float | None, weight: ArrayLike | None) -> NDArray:
    """Upper bounds 1/(νn), or ∞ where ν is None, of n points of these weights."""
    w = np.ones(n) if weight is None else check_weight(weight, n)
    if nu is None:
        return np.where(w > 0, np.inf, 0.0)
    return w / (SHARE.check("nu", nu) * w.sum())
