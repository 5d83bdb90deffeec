"""One-class models: the smallest ball (SVDD), and the plane farthest from the origin (one-class ν-SVM)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.gram import Gram, KernelMatrix
from ..core.options import option
from ..core.problem import DualProblem, Kind
from ..core.reading import Interval, Posed, Reading
from ..core.runtime.arrays import constant
from ..exceptions import ProblemError
from .checks import NU_RULE, check_weight
from .growing import Growing, Variables

#: Allowed values of ν; None is the hard ball.
NU_OR_NONE_RULE = replace(NU_RULE, none=True)

ONE_CLASS = Reading("one_class")


class _Ball(Reading):
    """Decision function R² − ‖φ(x) − Σ αᵢφ(xᵢ)‖² (Howell 23), with R² = αᵀKα − ν and Q = 2K."""

    needs_self_kernel: ClassVar[bool] = True

    def is_translatable(self, problem: Posed) -> bool:
        return np.array_equal(problem.p, self.linear_term(problem, problem.gram))

    def linear_term(self, problem: Posed, gram: KernelMatrix) -> NDArray:
        return gram.diag() + problem.ridge / problem.scale

    def bias(
        self, problem: Posed, alpha: NDArray, quadratic: float, interval: Interval | None
    ) -> tuple[float, Interval]:
        return 0.0, (0.0, 0.0)

    def radius(self, problem: Posed, quadratic: float, nu: float | None) -> float | None:
        # A negative value is round-off, for example of a single point.
        return None if nu is None else float(np.sqrt(max(0.0, quadratic / problem.scale - nu)))

    def decision_values(
        self, problem: Posed, weights: NDArray, bias: float, radius: float | None, Z: NDArray
    ) -> NDArray:
        centre = float(weights @ problem.gram.matvec(weights))
        values = super().decision_values(problem, 2.0 * weights, (radius or 0.0) ** 2 - centre, None, Z)
        return values - problem.gram.self_kernel(Z)


BALL = _Ball("svdd")


def svdd(
    gram: Gram,
    nu: float | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    points: int | None = None,
    ridge: ArrayLike = 0.0,
) -> DualProblem:
    """Return the dual of support vector data description: the smallest ball around the data (Howell 23).

    Parameters
    ----------
    gram : Gram
    nu : float in (0, 1], optional
        At most a fraction ν of the points lies outside: αᵢ ≤ 1/(νn). None is the hard ball around all points.
    sample_weight : array of shape (n,), optional
        Factors of the upper bounds, normalised to mean 1. Without ν a weight of 0 removes a point.
    points : int, optional
        Number of points that ν is a fraction of, if it is not that of the Gram.
    ridge : float or array of shape (n,)
        Squared length of each point in an extra dimension that it shares with no other point.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))  # the ball around a line of points
    >>> solution = solve(problem)
    >>> round(solution.certificate.radius, 6), solution.support
    (1.5, array([0, 3]))
    """
    r = np.asarray(ridge, dtype=float)
    return DualProblem(
        gram,
        p=gram.diag() + r,
        lower=np.zeros(1),
        upper=_bounds(gram.n, nu, sample_weight, points),
        e=np.ones(gram.n),
        d=1.0,
        scale=2.0,
        ridge=2.0 * r,
        reading=BALL,
    )


def one_class(gram: Gram, nu: float = 0.5, *, sample_weight: ArrayLike | None = None) -> DualProblem:
    """Return the dual of a one-class ν-SVM, which separates the data from the origin.

    The decision function is Σαᵢk(x,xᵢ) − ρ, where ρ is the multiplier ν. α, ρ and the decision values are those of
    scikit-learn's OneClassSVM divided by νn.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.one_class(Gram([[1.0], [2.0], [3.0], [4.0]], "linear"), nu=0.5)
    >>> solution = solve(problem)
    >>> float(problem.upper[0]), solution.support  # 1/(νn), and half the points at it
    (0.5, array([0, 1]))
    """
    if nu is None:
        raise ProblemError("nu must be a number in (0, 1]; the hard one-class problem is svdd(gram, nu=None)")
    if sample_weight is None:  # the usual case: constant vectors that need no checks
        ones, zeros = constant(gram.n, 1.0), constant(gram.n, 0.0)
        return DualProblem.of_parts(
            gram,
            p=zeros,
            lower=zeros,
            ridge=zeros,
            upper=constant(gram.n, 1.0 / (NU_RULE.check("nu", nu) * gram.n)),
            e=ones,
            d=1.0,
            sigma=ones,
            reading=ONE_CLASS,
            kind=Kind.CAPPED_SIMPLEX,
        )
    return DualProblem(
        gram,
        p=np.zeros(gram.n),
        lower=np.zeros(1),
        upper=_bounds(gram.n, nu, sample_weight),
        e=np.ones(gram.n),
        d=1.0,
        reading=ONE_CLASS,
    )


def _bounds(n: int, nu: float | None, weight: ArrayLike | None, points: int | None = None) -> NDArray:
    """Return the upper bounds 1/(νn), times the weights, or ∞ if ν is None, shape (n,)."""
    w = np.ones(n) if weight is None else check_weight(weight, n)
    if nu is None:
        return np.where(w > 0, np.inf, 0.0)
    return w / (NU_RULE.check("nu", nu) * (w.sum() if points is None else points))


@dataclass(frozen=True)
class GrowingBall(Growing):
    """`svdd` of points that are added and removed, in α' = νΣw α: the bounds stay w, and the sum grows; targets are 1.

    Examples
    --------
    >>> from dualflow.problems import GrowingBall
    >>> GrowingBall(nu=0.1).counted, GrowingBall().counted
    (True, True)
    """

    nu: float | None = option(None, NU_OR_NONE_RULE)

    scale: ClassVar[float] = 2.0
    counted: ClassVar[bool] = True

    def total(self, mass: float) -> float:
        if mass == 0:
            return 0.0
        return 1.0 if self.nu is None else float(self.nu) * mass

    def variables(self, targets: NDArray, diag: NDArray) -> Variables:
        return Variables(diag, targets, np.inf if self.nu is None else 1.0)

    def problem(self, gram: Gram, targets: NDArray, weight: NDArray) -> DualProblem:
        return svdd(gram, self.nu, sample_weight=weight)
