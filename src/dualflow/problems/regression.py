"""Regression models: ε-SVR and ν-SVR, with an ε-insensitive tube, and quantile regression, with the pinball loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core._points import all_finite
from ..core.gram import Gram
from ..core.options import Number, option
from ..core.problem import DualProblem, Kind, paired
from ..core.reading import Reading
from ..core.runtime.arrays import constant, immutable
from ..exceptions import ProblemError
from .checks import NU_RULE, check_weight
from .classification import FINITE_C_RULE
from .growing import Growing, Variables

#: Allowed values of ε.
EPSILON_RULE = Number(at_least=0)
#: Allowed quantiles.
QUANTILE_RULE = Number(above=0, below=1)

#: The largest number of float64.
MAX_FLOAT = float(np.finfo(float).max)

REGRESSION = Reading("svr")
NU_REGRESSION = Reading("nu_svr")


def svr(
    gram: Gram,
    z: ArrayLike,
    C: float = 1.0,
    *,
    epsilon: float = 0.1,
    sample_weight: ArrayLike | None = None,
) -> DualProblem:
    """Return the dual of ε-insensitive regression: two variables per point, σ = (1, −1), p = (z − ε, −z − ε).

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.svr(Gram([[0.0], [1.0], [2.0]], "linear"), [0.0, 2.0, 4.0], C=10.0, epsilon=0.5)
    >>> problem.n  # two variables per point
    6
    >>> solution = solve(problem)
    >>> round(solution.bias, 6)  # the flattest line within 0.5 of all: 0.5 + 1.5x
    0.5
    """
    C, epsilon = FINITE_C_RULE.check("C", C), EPSILON_RULE.check("epsilon", epsilon)
    z = _values(z, gram.n, C, epsilon)
    upper = constant(2 * gram.n, C) if sample_weight is None else np.tile(C * check_weight(sample_weight, gram.n), 2)
    return _two_sided(gram, np.concatenate([z - epsilon, -z - epsilon]), upper, REGRESSION, None)


def nu_svr(
    gram: Gram, z: ArrayLike, C: float = 1.0, *, nu: float = 0.5, sample_weight: ArrayLike | None = None
) -> DualProblem:
    """Return the dual of ν-regression (Schölkopf, Smola, Williamson, Bartlett 2000), which finds the width of the tube.

    The primal is min ½‖w‖² + C(νεΣωᵢ + Σωᵢ(ξᵢ + ξᵢ*)), |zᵢ − f(xᵢ)| ≤ ε plus its slack, with LIBSVM's C (the paper's C
    divided by n). The dual is that of `svr` with ε = 0 and a second equality, Σ(α + α*) = CνΣω, with multiplier −ε.
    (Chang and Lin 2002 show that it may be an equality; as ν ≤ 1, no ε below 0 is better.)

    For given w the best b, ε and slacks are exact (`core.bounds.level_of`): with r = z − ⟨w, φ(x)⟩ the objective is the
    sum of ½‖w‖², of Σωᵢ max(0, rᵢ − s) + ½νΣω·s with s = b + ε, and of the same for −r with ε − b. The last two are
    convex and piecewise linear, with their minimum where the weights of the points above reach ½νΣω.

    Parameters
    ----------
    gram : Gram
        n points.
    z : array of shape (n,)
        Finite numbers.
    C : float > 0
    nu : float in (0, 1]
        At most this share of the points (of their weight) is outside the tube, and at least this share are support
        vectors.
    sample_weight : array of shape (n,), optional
        ω, all 1 by default; 0 removes a point.

    Raises
    ------
    ProblemError
        z, C, ν or a weight is out of range.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.nu_svr(Gram([[0.0], [1.0], [2.0]], "linear"), [0.0, 1.0, 5.0], C=10.0, nu=0.5)
    >>> solution = solve(problem, "interior-point")
    >>> round(solution.bias, 6), round(-solution.certificate.level, 6)  # −0.75 + 2.5x within ε = 0.75 of all
    (-0.75, 0.75)
    """
    C, nu = FINITE_C_RULE.check("C", C), NU_RULE.check("nu", nu)
    z, weight = _values(z, gram.n, C), check_weight(sample_weight, gram.n)
    upper, total = np.tile(C * weight, 2), C * nu * float(weight.sum())
    return _two_sided(gram, np.concatenate([z, -z]), upper, NU_REGRESSION, total)


def quantile_svr(
    gram: Gram, z: ArrayLike, C: float = 1.0, *, quantile: float = 0.5, sample_weight: ArrayLike | None = None
) -> DualProblem:
    """Return the dual of kernel quantile regression (Takeuchi, Le, Sears, Smola 2006).

    The primal is min ½‖w‖² + CΣωᵢρ(zᵢ − f(xᵢ)) with the pinball loss ρ(r) = max(τr, (τ − 1)r): the dual of `svr` with
    ε = 0, and bounds Cτωᵢ for points above f and C(1 − τ)ωᵢ for points below. With a bias, at most a share τ of the
    weight is strictly below f, and at most 1 − τ above.

    Parameters
    ----------
    gram : Gram
        n points.
    z : array of shape (n,)
        Finite numbers.
    C : float > 0
    quantile : float, 0 < τ < 1
    sample_weight : array of shape (n,), optional
        ω, all 1 by default; 0 removes a point.

    Raises
    ------
    ProblemError
        z, C, τ or a weight is out of range.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> gram = Gram([[0.0], [0.0], [0.0], [0.0], [0.0]], "linear")  # no feature: f is a constant
    >>> solution = solve(problems.quantile_svr(gram, [1.0, 2.0, 3.0, 4.0, 9.0], quantile=0.7))
    >>> round(solution.bias, 6)
    4.0
    """
    C, quantile = FINITE_C_RULE.check("C", C), QUANTILE_RULE.check("quantile", quantile)
    z, weight = _values(z, gram.n, C), C * check_weight(sample_weight, gram.n)
    upper = np.concatenate([quantile * weight, (1.0 - quantile) * weight])
    return _two_sided(gram, np.concatenate([z, -z]), upper, REGRESSION, None)


def _values(z: ArrayLike, n: int, C: float, epsilon: float = 0.0) -> NDArray:
    """Return the target values as float64, shape (n,), or raise a `ProblemError`."""
    z = np.asarray(z, dtype=float)
    if z.shape != (n,) or not all_finite(np.ascontiguousarray(z)):
        found = f"shape {z.shape}" if z.shape != (n,) else "NaN or infinity"
        raise ProblemError(f"z must be {n} finite numbers, found {found}")
    largest = float(np.abs(z).max()) + epsilon
    if 4.0 * n * max(1.0, C) > MAX_FLOAT / max(1.0, largest):  # f is a sum of n of them, times C
        raise ProblemError(f"z is as large as {largest:.3g}, and C times the sum of it overflows; scale it")
    return z


def _two_sided(gram: Gram, p: NDArray, upper: NDArray, reading: Reading, total: float | None) -> DualProblem:
    """Return the problem with two variables per point, for the upper and the lower side of the tube."""
    signs, idx = paired(gram.n)
    if total is None and float(upper.min()) > 0.0 and float(upper.max()) < np.inf:
        # The usual case, which needs no other checks: `_values` has made sure that p is finite.
        zeros = constant(len(p), 0.0)
        return DualProblem.of_parts(
            gram,
            p=immutable(p),
            lower=zeros,
            ridge=zeros,
            upper=immutable(upper),
            e=signs,
            sigma=signs,
            idx=idx,
            reading=reading,
            kind=Kind.BOX_EQUALITY,
        )
    return DualProblem(
        gram, p=p, lower=np.zeros(1), upper=upper, e=signs, sigma=signs, idx=idx, reading=reading, total=total
    )


@dataclass(frozen=True)
class GrowingTube(Growing):
    """`svr` of points that are added and removed; targets are the values to fit.

    Examples
    --------
    >>> from dualflow.problems import GrowingTube
    >>> GrowingTube(C=10.0, epsilon=0.5)
    GrowingTube(C=10.0, epsilon=0.5)
    """

    C: float = option(1.0, FINITE_C_RULE)
    epsilon: float = option(0.1, EPSILON_RULE)

    per: ClassVar[int] = 2

    def variables(self, targets: NDArray, diag: NDArray) -> Variables:
        p = np.column_stack([targets - self.epsilon, -targets - self.epsilon]).ravel()
        return Variables(p, np.tile([1.0, -1.0], len(targets)), float(self.C))

    def problem(self, gram: Gram, targets: NDArray, weight: NDArray) -> DualProblem:
        return svr(gram, targets, self.C, epsilon=self.epsilon, sample_weight=weight)
