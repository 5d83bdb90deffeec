"""Two-class models: hinge, squared hinge and ν-SVC."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.gram import Gram
from ..core.options import Number, option
from ..core.problem import DualProblem, Kind
from ..core.reading import Interval, Posed, Reading, multiplier_of
from ..core.runtime.arrays import constant, immutable
from ..exceptions import ProblemError
from .checks import NU_RULE, check_signs, check_weight
from .growing import Growing, Variables

#: Allowed values of C; ∞ is the hard margin.
C_RULE = Number(above=0, infinite=True)
#: Allowed values of C in models without a hard margin.
FINITE_C_RULE = Number(above=0)

#: Up to this relative gap, a squared-hinge model may be scaled so that each margin is at least 1. The change is small.
MAX_GAP_SCALED = 1e-6

HINGE = Reading("hinge", signed=True)


class _SquaredHinge(Reading):
    """L2-SVM on the simplex: the usual dual variables are μ/(μᵀHμ), and the bias is inside the kernel (Bauckhage 2)."""

    def demands_separation(self, problem: Posed) -> bool:
        return problem.kind.may_be_unbounded or not problem.ridge.any()

    def bias(
        self, problem: Posed, alpha: NDArray, quadratic: float, interval: Interval | None
    ) -> tuple[float, Interval]:
        size = _size(problem, quadratic, None if interval is None else multiplier_of(interval))
        b = problem.offset * float(problem.sigma @ alpha) / size if size > 0 else 0.0
        return b, (b, b)

    def weight_divisor(self, problem: Posed, quadratic: float, multiplier: float | None) -> float:
        size = _size(problem, quadratic, multiplier)
        return size if size > 0 else 1.0

    def coefficients(
        self, problem: Posed, alpha: NDArray, quadratic: float, multiplier: float | None = None
    ) -> NDArray:
        return super().coefficients(problem, alpha, quadratic) / self.weight_divisor(problem, quadratic, multiplier)


def _size(problem: Posed, quadratic: float, multiplier: float | None) -> float:
    """Return the divisor of μ: μᵀHμ, or the multiplier, which is the least (Hμ)ᵢ.

    At the optimum they are equal. With the first, a margin may be below 1 by the relative gap, which costs C times its
    square. If C is so large that this exceeds the gap, the second is used, with which each margin is at least 1.
    """
    if multiplier is None or not 0 <= quadratic - multiplier <= MAX_GAP_SCALED * quadratic:
        return quadratic
    return multiplier if 0 < 2.0 * float(problem.ridge.min()) <= quadratic - multiplier else quadratic


SQUARED_HINGE = _SquaredHinge("squared_hinge", signed=True)


class _NuHinge(Reading):
    """ν-SVC: weights and bias in units of the margin ρ, so that margins are 1, as in a C-SVC and in LIBSVM."""

    def weight_divisor(self, problem: Posed, quadratic: float, multiplier: float | None) -> float:
        margin = float(problem.p[0])  # p = ρ for a problem `at_level`, else p = 0
        return margin if margin > 0 else 1.0

    def bias(
        self, problem: Posed, alpha: NDArray, quadratic: float, interval: Interval | None
    ) -> tuple[float, Interval]:
        unit = self.weight_divisor(problem, quadratic, None)
        b, (low, high) = super().bias(problem, alpha, quadratic, interval)
        return b / unit, (low / unit, high / unit)

    def coefficients(
        self, problem: Posed, alpha: NDArray, quadratic: float, multiplier: float | None = None
    ) -> NDArray:
        return super().coefficients(problem, alpha, quadratic) / self.weight_divisor(problem, quadratic, multiplier)


NU_HINGE = _NuHinge("nu_svc", signed=True)


def svc(
    gram: Gram,
    y: ArrayLike,
    C: float = 1.0,
    *,
    loss: str = "hinge",
    fit_intercept: bool | str = True,
    sample_weight: ArrayLike | None = None,
) -> DualProblem:
    """Return the dual of a two-class support vector machine.

    Parameters
    ----------
    gram : Gram
        n points.
    y : array of shape (n,) with entries −1 and +1
    C : float > 0
        scikit-learn's C; ``np.inf`` is the hard margin (Howell eq. 6, with its misprint Σaᵢtᵢ = 1 corrected to 0).
    loss : {"hinge", "squared_hinge"}
        "hinge": Howell 13, CP 1, Mierswa 31-33. "squared_hinge": Bauckhage 1-2, on the simplex with the bias inside the
        kernel (K + 1); the paper's C is twice this one, so the ridge is 1/(2C).
    fit_intercept : bool or "penalised"
        False removes the equality yᵀα = 0 (Mierswa 4.1) and, for the squared hinge, the + 1. "penalised" removes the
        equality and puts the bias inside the kernel, K + 1: a box dual without the loss of accuracy of b = 0. The
        squared hinge always has its bias inside the kernel.
    sample_weight : array of shape (n,), optional
        Factors of C for each point; 0 removes a point.

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
    C = C_RULE.check("C", C)
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


def nu_svc(gram: Gram, y: ArrayLike, nu: float = 0.5, *, sample_weight: ArrayLike | None = None) -> DualProblem:
    """Return the dual of a two-class ν-SVM (Schölkopf, Smola, Williamson, Bartlett 2000), with ν instead of C.

    The primal is min ½‖w‖² − νρΣωᵢ + Σωᵢξᵢ, yᵢ(⟨w, φ(xᵢ)⟩ + b) ≥ ρ − ξᵢ, ξ ≥ 0, with weights ω, in the scale of LIBSVM:
    the paper's objective times n. The dual has two equalities, yᵀα = 0 and 1ᵀα = νΣω, bounds 0 ≤ α ≤ ω and p = 0
    (1ᵀα ≥ νΣω may be an equality: Chang and Lin 2001), so the α of each class sum to ½νΣω.

    For given w the best b, ρ and ξ are exact (`core.bounds.level_of`): with ρ = ½(ν₊ + ν₋) and b = ½(ν₋ − ν₊) the
    objective is the sum of ½‖w‖² and, for each class, Σωᵢ max(0, ν± − yᵢ⟨w, φ(xᵢ)⟩) − ½νΣω·ν±. This is convex and
    piecewise linear in ν±, with its minimum where the weights of the points below ν± reach ½νΣω.

    Parameters
    ----------
    gram : Gram
        n points.
    y : array of shape (n,) with entries −1 and +1
    nu : float in (0, 1]
        At most this share of the points (of their weight) is on the wrong side of the margin, and at least this share
        are support vectors.
    sample_weight : array of shape (n,), optional
        ω, all 1 by default; 0 removes a point.

    Raises
    ------
    ProblemError
        y is not ±1, ν is out of range, or above 2 min(Σω₊, Σω₋)/Σω: the smaller class cannot hold its half of νΣω.

    Examples
    --------
    >>> from dualflow import Gram, problems, solve
    >>> problem = problems.nu_svc(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"), [-1, -1, 1, 1], nu=0.5)
    >>> problem.kind.value, problem.total
    ('box with two equalities', 2.0)
    >>> solution = solve(problem, "interior-point")
    >>> round(solution.bias, 6), round(solution.certificate.level, 6)  # x − 1.5, and ρ
    (-1.5, 1.0)
    """
    y, weight = check_signs(y, gram.n), check_weight(sample_weight, gram.n)
    plus, minus = float(weight[y > 0].sum()), float(weight[y < 0].sum())
    if not min(plus, minus) > 0:
        missing = -1.0 if plus > 0 else 1.0
        raise ProblemError(f"y: no point of class {missing:+g} with a positive weight; two classes are needed")
    nu = check_nu(nu, plus, minus)
    return DualProblem(
        gram,
        p=np.zeros(gram.n),
        lower=np.zeros(gram.n),
        upper=weight,
        e=y,
        sigma=y,
        reading=NU_HINGE,
        total=min(nu * (plus + minus), 2.0 * min(plus, minus)),
    )


def check_nu(nu: float, one: float, other: float) -> float:
    """Return a valid ν for two classes with these total weights, or raise a `ProblemError` if it is too large."""
    nu, most = NU_RULE.check("nu", nu), 2.0 * min(one, other) / (one + other)
    if nu > most * (1.0 + 1e-12):
        shown = float(f"{most:.6g}")
        shown -= 0.0 if shown <= most else 10.0 ** (np.floor(np.log10(most)) - 5)  # rounded down, to be feasible
        raise ProblemError(
            f"nu={nu!r}: specified nu is infeasible. It can be at most twice the lighter class's share of the weight, "
            f"{0.5 * most:.6g}, so nu can be {shown:.6g} at most (class_weight='balanced' makes it 1)"
        )
    return float(nu)


def hinge(gram: Gram, y: NDArray, upper: ArrayLike, *, fit_intercept: bool | str = True) -> DualProblem:
    """Return the dual of `svc` with the hinge, given an upper bound for each point.

    Both classes need not be present: the first points of a stream may be of one class.
    """
    penalised = fit_intercept == "penalised"
    if fit_intercept and not penalised and np.shape(upper) == y.shape == (gram.n,) and y.dtype == float:
        bounds = np.asarray(upper, dtype=float)
        if float(bounds.min()) > 0.0 and float(bounds.max()) < np.inf:  # the usual case, which needs no other checks
            sigma, zeros = immutable(y), constant(gram.n, 0.0)
            return DualProblem.of_parts(
                gram,
                lower=zeros,
                ridge=zeros,
                p=constant(gram.n, 1.0),
                upper=immutable(bounds),
                e=sigma,
                sigma=sigma,
                reading=HINGE,
                kind=Kind.BOX_EQUALITY,
            )
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
    """`hinge` with one C for points that are added and removed; targets are ±1.

    Examples
    --------
    >>> from dualflow.problems import GrowingHinge
    >>> GrowingHinge(C=10.0)
    GrowingHinge(C=10.0)
    """

    C: float = option(1.0, FINITE_C_RULE)

    def variables(self, targets: NDArray, diag: NDArray) -> Variables:
        return Variables(np.ones(len(targets)), targets, float(self.C))

    def problem(self, gram: Gram, targets: NDArray, weight: NDArray) -> DualProblem:
        return hinge(gram, targets, self.C * weight)
