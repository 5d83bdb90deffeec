"""Two classes: the hinge and the squared hinge."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.kernels import Gram
from ..core.options import Number, option
from ..core.problem import DualProblem
from ..core.reading import Interval, Posed, Reading
from ..exceptions import ProblemError
from .checks import check_signs, check_weight
from .growing import Growing, Variables

__all__ = ["COST", "FINITE_COST", "HINGE", "SQUARED_HINGE", "GrowingHinge", "hinge", "svc"]

#: What C may be; ∞ is the hard margin.
COST, FINITE_COST = Number(above=0, infinite=True), Number(above=0)

#: Relative gap up to which margins are short of 1 by so little that stretching the model is no other model.
WITHIN = 1e-6

HINGE = Reading("hinge", signed=True)


class _SquaredHinge(Reading):
    """L2-SVM on the simplex: the usual dual variables are μ/(μᵀHμ), and the bias sits in the kernel (Bauckhage 2)."""

    def demands_separation(self, problem: Posed) -> bool:
        return problem.kind.may_be_unbounded or not problem.ridge.any()

    def bias(
        self, problem: Posed, alpha: NDArray, quadratic: float, interval: Interval | None
    ) -> tuple[float, Interval]:
        size = _size(problem, quadratic, None if interval is None else 0.5 * (interval[0] + interval[1]))
        b = problem.offset * float(problem.sigma @ alpha) / size if size > 0 else 0.0
        return b, (b, b)

    def unit(self, problem: Posed, quadratic: float, multiplier: float | None) -> float:
        size = _size(problem, quadratic, multiplier)
        return size if size > 0 else 1.0

    def coefficients(
        self, problem: Posed, alpha: NDArray, quadratic: float, multiplier: float | None = None
    ) -> NDArray:
        return super().coefficients(problem, alpha, quadratic) / self.unit(problem, quadratic, multiplier)


def _size(problem: Posed, quadratic: float, multiplier: float | None) -> float:
    """What μ is divided by: μᵀHμ, or the multiplier, which is the least of the (Hμ)ᵢ.

    At the optimum they are one number. By the first a margin is short of 1 by up to the relative gap, which costs C
    times its square; where that is more than the gap itself, for a large C, the second takes every margin past 1.
    """
    if multiplier is None or not 0 <= quadratic - multiplier <= WITHIN * quadratic:
        return quadratic
    return multiplier if 0 < 2.0 * float(problem.ridge.min()) <= quadratic - multiplier else quadratic


SQUARED_HINGE = _SquaredHinge("squared_hinge", signed=True)


def svc(
    gram: Gram,
    y: ArrayLike,
    C: float = 1.0,
    *,
    loss: str = "hinge",
    fit_intercept: bool | str = True,
    sample_weight: ArrayLike | None = None,
) -> DualProblem:
    """Two-class support vector machine.

    Parameters
    ----------
    gram : Gram
        n points.
    y : array of shape (n,) with entries −1 and +1
    C : float > 0
        scikit-learn's C; ``np.inf`` is the hard margin (Howell eq. 6, with its misprint Σaᵢtᵢ = 1 mended to 0).
    loss : {"hinge", "squared_hinge"}
        "hinge": Howell 13, CP 1, Mierswa 31-33. "squared_hinge": Bauckhage 1-2, on the simplex with the bias
        inside the kernel (K + 1); his C is twice this one, so the diagonal carries 1/(2C).
    fit_intercept : bool or "penalised"
        False drops the equality yᵀα = 0 (Mierswa 4.1) and, for the squared hinge, the + 1. "penalised" drops the
        equality and puts the bias inside the kernel, K + 1: a box dual without the loss of accuracy of b = 0. The
        squared hinge's is always of this kind.
    sample_weight : array of shape (n,), optional
        Multiplies C, point by point; 0 removes a point.

    Raises
    ------
    ProblemError
        y is not ±1, a class is missing, or C or a weight is out of range.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], C=10.0)
    >>> problem.n, problem.kind.value
    (4, 'box with equality')
    >>> solution = solve(problem)
    >>> round(solution.bias, 6), round(solution.certificate.objective, 6)  # w = 2, b = −3
    (-3.0, -2.0)
    """
    y = check_signs(y, gram.n)
    C = COST.check("C", C)
    weight = check_weight(sample_weight, gram.n)
    if not isinstance(fit_intercept, (bool, np.bool_, str, int)) or fit_intercept not in (True, False, "penalised"):
        raise ProblemError(f"fit_intercept={fit_intercept!r} is not one of True, False, 'penalised'")
    signs = y * (weight > 0)
    for label in (1.0, -1.0):
        if fit_intercept and not (signs == label).any():
            raise ProblemError(f"y: no point of class {label:+g} with a positive weight; two classes are needed")
    if loss == "hinge":
        upper = C * weight if np.isfinite(C) else np.where(weight > 0, C, 0.0)
        return hinge(gram, y, upper, fit_intercept=fit_intercept)
    if loss != "squared_hinge":
        raise ProblemError(f"loss={loss!r} is not one of 'hinge', 'squared_hinge'")
    live = weight > 0
    ridge = np.zeros(gram.n) if np.isinf(C) else 1.0 / (2.0 * C * np.where(live, weight, 1.0))
    return DualProblem(
        gram,
        p=np.zeros(gram.n),
        lower=np.zeros(1),
        upper=np.where(live, np.inf, 0.0),
        e=np.ones(gram.n),
        d=1.0,
        sigma=y,
        offset=1.0 if fit_intercept else 0.0,
        ridge=ridge,
        reading=SQUARED_HINGE,
    )


def hinge(gram: Gram, y: NDArray, upper: ArrayLike, *, fit_intercept: bool | str = True) -> DualProblem:
    """The dual of `svc` for the hinge, of points with a bound each; a stream's first ones may be of one class."""
    penalised = fit_intercept == "penalised"
    return DualProblem(
        gram,
        p=np.ones(gram.n),
        lower=np.zeros(1),
        upper=np.asarray(upper, dtype=float),
        e=y if fit_intercept and not penalised else None,
        sigma=y,
        offset=1.0 if penalised else 0.0,
        reading=HINGE,
    )


@dataclass(frozen=True)
class GrowingHinge(Growing):
    """`hinge` with one C for points that come and go; targets are ±1.

    Examples
    --------
    >>> from dualflow.problems import GrowingHinge
    >>> GrowingHinge(C=10.0)
    GrowingHinge(C=10.0)
    """

    C: float = option(1.0, FINITE_COST)

    def variables(self, targets: NDArray, diag: NDArray) -> Variables:
        return Variables(np.ones(len(targets)), targets, float(self.C))

    def problem(self, gram: Gram, targets: NDArray) -> DualProblem:
        return hinge(gram, targets, self.C)
