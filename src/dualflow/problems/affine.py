"""Models whose variables have no bounds: least squares on labels or values, and Fisher's linear discriminant."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.reading import Posed, Reading
from ..exceptions import ProblemError
from .checks import check_signs, check_weight
from .classification import FINITE_C_RULE

LEAST_SQUARES = Reading("least_squares", signed=True)
LEAST_SQUARES_REGRESSION = Reading("least_squares_regression")


class _Discriminant(Reading):
    """Decision function ⟨w, x⟩ + b: the variables are the weights of the features themselves."""

    def decision_values(
        self, problem: Posed, weights: NDArray, bias: float, radius: float | None, Z: NDArray
    ) -> NDArray:
        return Z @ weights + bias


DISCRIMINANT = _Discriminant("discriminant")


def least_squares(
    gram: Gram,
    y: ArrayLike,
    C: float = 1.0,
    *,
    fit_intercept: bool | str = True,
    sample_weight: ArrayLike | None = None,
    regression: bool = False,
) -> DualProblem:
    """Return the dual of a least-squares SVM (Suykens, Vandewalle 1999): ½‖w‖² + ½C Σ weightᵢ (yᵢ − f(xᵢ))².

    α has no bounds, the diagonal of Q has the ridge 1/(C·weight), and with an intercept eᵀα = 0. The optimum is the
    solution of one linear system. On labels e = σ = y and p = 1. On values (``regression=True``) it is ridge regression
    with ridge 1/C: e = σ = 1 and p = y. With labels as values the decision function is the same, with coefficients
    yᵢαᵢ.

    Parameters
    ----------
    gram : Gram
        n points.
    y : array of shape (n,)
        Labels −1 and +1; finite numbers, with ``regression``.
    C : float > 0
        1/C is the ridge of scikit-learn's ``Ridge`` and ``KernelRidge``.
    fit_intercept : bool or "penalised"
        False removes the equality. "penalised" removes it and puts the bias inside the kernel, K + 1.
    sample_weight : array of shape (n,), optional
        Factors of C for each point, > 0.
    regression : bool
        Whether y holds values, not labels.

    Raises
    ------
    ProblemError
        y, C or a weight is out of range.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> gram = Gram([[0.0], [1.0], [2.0], [3.0]], "linear")
    >>> solution = solve(problems.least_squares(gram, [-1, -1, 1, 1], C=1.0), "gradient-flow")
    >>> round(solution.bias, 6)  # ridge regression of ±1: 0.6667·(x − 1.5)
    -1.0
    >>> values = problems.least_squares(gram, [0.0, 2.0, 4.0, 6.0], C=1e6, regression=True)
    >>> round(float(solve(values, "gradient-flow").coefficients @ gram.X[:, 0]), 4)  # the slope
    2.0
    """
    C, weight = FINITE_C_RULE.check("C", C), check_weight(sample_weight, gram.n)
    if not (weight > 0).all():
        raise ProblemError("sample_weight: a weight of 0 makes the ridge infinite; remove points with weight 0")
    if not isinstance(fit_intercept, (bool, np.bool_, str, int)) or fit_intercept not in (True, False, "penalised"):
        raise ProblemError(f"fit_intercept={fit_intercept!r} is not one of True, False, 'penalised'")
    with np.errstate(over="ignore"):
        ridge = 1.0 / (C * weight)
    if not np.isfinite(ridge).all():
        raise ProblemError(f"C={C!r}: 1/(C·weight) overflows; raise C")
    sigma, p = _values_terms(y, gram.n, C * float(weight.max())) if regression else _labels_terms(y, gram.n)
    penalised = fit_intercept == "penalised"
    return DualProblem(
        gram,
        p=p,
        lower=np.full(gram.n, -np.inf),
        upper=np.full(gram.n, np.inf),
        e=sigma if fit_intercept and not penalised else None,
        sigma=sigma,
        offset=1.0 if penalised else 0.0,
        ridge=ridge,
        reading=LEAST_SQUARES_REGRESSION if regression else LEAST_SQUARES,
    )


def _labels_terms(y: ArrayLike, n: int) -> tuple[NDArray, NDArray]:
    """Return σ and p for labels, which are checked."""
    try:
        return check_signs(y, n), np.ones(n)
    except ProblemError as error:
        raise ProblemError(f"{error}; for values, regression=True") from None


def _values_terms(y: ArrayLike, n: int, C: float) -> tuple[NDArray, NDArray]:
    """Return σ and p for values, which are checked."""
    z = np.asarray(y, dtype=float)
    if z.shape != (n,) or not np.isfinite(z).all():
        found = f"shape {z.shape}" if z.shape != (n,) else "NaN or infinity"
        raise ProblemError(f"y must be {n} finite numbers, found {found}")
    largest = float(np.abs(z).max())
    if largest > np.sqrt(np.finfo(float).max / (4.0 * n * max(1.0, C))):  # f is a sum of n of their squares, times C
        raise ProblemError(f"y is as large as {largest:.3g}, and C times its square overflows; scale it")
    return np.ones(n), z


def discriminant(within: Gram, difference: ArrayLike, *, ridge: ArrayLike = 0.0) -> DualProblem:
    """Return the problem of Fisher's linear discriminant: min ½wᵀSw − Δᵀw, with optimum S⁻¹Δ.

    Least squares with the targets n/n₊ and −n/n₋ has the same direction without a ridge, but its dual, `least_squares`,
    would need C = ∞, at which it interpolates. Here the variables are the weights of the features, and there is no C.

    Parameters
    ----------
    within : Gram
        Its m points are the *features*, and K is S, the covariance within classes: with a linear kernel, the transpose
        of the points less the mean of their class, divided by √n.
    difference : array of shape (m,)
        Δ = μ₊ − μ₋, the difference of the class means.
    ridge : float or array of shape (m,)
        Added to the diagonal of S, for shrinkage.

    Raises
    ------
    ProblemError
        Shapes disagree, or numbers are not finite.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import Gram, problems, solve
    >>> X = np.array([[0.0, 0.0], [2.0, 0.0], [1.0, 1.0], [1.0, -1.0]])  # within a class, about its mean (1, 0)
    >>> within = Gram((X - [1.0, 0.0]).T / 2.0, "linear")  # S = ½·1
    >>> solve(problems.discriminant(within, [3.0, 1.0]), "gradient-flow").alpha.round(6)
    array([6., 2.])
    """
    delta = np.asarray(difference, dtype=float)
    if delta.shape != (within.n,) or not np.isfinite(delta).all():
        raise ProblemError(f"difference must be {within.n} finite numbers, one per feature, found shape {delta.shape}")
    return DualProblem(
        within,
        p=delta,
        lower=np.full(within.n, -np.inf),
        upper=np.full(within.n, np.inf),
        ridge=np.asarray(ridge, dtype=float),
        reading=DISCRIMINANT,
    )
