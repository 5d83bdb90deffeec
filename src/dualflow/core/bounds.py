"""Lower bounds of f from a product Qα, the multipliers that give them, and their rounding errors.

D(ν) = −½ αᵀQα + νd + Σᵢ min(lᵢρᵢ, uᵢρᵢ), ρ = Qα − p − νe, is concave and piecewise linear; its maximum is found exactly
among its breakpoints hᵢ/eᵢ.

With a second equality, 1ᵀα = total, ρ = Qα − p − νe − μ is h − (μ + ν) where e = +1 and h − (μ − ν) where e = −1. So D
falls into two such functions, of ν₊ = μ + ν over the variables with e = +1 and of ν₋ = μ − ν over the others, and both
maxima are exact (`level_of`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ._bound import best_of, capped_sum, maximisers, rounded, shortfall, sum_error
from .gram import GROWTH, KernelMatrix
from .problem import DualProblem, Kind
from .reading import Interval, multiplier_of
from .workspace import MAX_N_FACTOR, Workspace

EPS = float(np.finfo(float).eps)
#: If |f| is at most this share of the size of its terms, f is round-off.
MIN_PART_OF_TERMS = 64 * EPS
#: `slack_bound` is tried if the largest ridge is more than this many times the least. With equal ridges it is the usual
#: bound.
MAX_RIDGE_RATIO = 1e4
#: Largest number of Newton steps of `slack_bound`. It takes about ten if ridges differ by a factor of 1e12.
MAX_SLACK_STEPS = 100
#: A gap below −100 times its estimated rounding error raises an error. The factor is large because the estimate is no
#: bound, and an error ends a fit.
MAX_NEGATIVE_GAP = 100.0


def gaps(objective: float, lower_bound: float, rounding: float = np.inf, cause: str = "") -> tuple[float, float]:
    """Return the absolute and the relative gap, at least 0.

    Raises
    ------
    ProblemError
        The gap is below 0 by far more than ``rounding``, so objective and bound are not those of one problem; the
        message names the ``cause``.
    """
    difference = objective - lower_bound
    if difference < -MAX_NEGATIVE_GAP * rounding:
        raise ProblemError(
            f"the lower bound {lower_bound:.10g} is above the objective {objective:.10g} by {-difference:.3g}, and "
            f"rounding explains {rounding:.3g}: {cause}"
        )
    # max(0, NaN) is 0, so an overflow would be certified as optimal.
    gap = np.inf if np.isnan(difference) else max(0.0, difference)  # a negative gap is round-off
    size = max(abs(objective), abs(lower_bound))
    return gap, gap / size if 0 < size < np.inf else (0.0 if gap == 0 else np.inf)


def contradiction(gram: KernelMatrix) -> str:
    """Return the reason for a negative gap that the kind of kernel matrix suggests."""
    if callable(gram.kernel):
        return "kernel: the callable contradicts itself; it must return the same value at each call, and be symmetric"
    if gram.kernel == "precomputed":
        return "K: the matrix contradicts itself; it must be symmetric and must not change"
    return "X or alpha changed while the certificate was computed"


def rounding(
    problem: Workspace | DualProblem,
    alpha: NDArray,
    Qa: NDArray,
    objective: float,
    bound: tuple[float, Interval | None],
    by_margin: bool = False,
    exact_error: float | None = None,
) -> float:
    """Return an estimate of the rounding error of a gap f − D, absolute; ``bound`` is D and its multipliers.

    ``by_margin`` says that D is that of `hard_margin_bound`, though the problem has finite bounds. ``exact_error``
    replaces the `sum_error` of |αⱼ|√Qⱼⱼ where weights of equal points were summed exactly (`places`).

    The errors of Qα are those of sums of kernel values, in proportion to √Qᵢᵢ and the `sum_error` of |αⱼ|√Qⱼⱼ, and
    what the equality lacks (`_missing`); for the resulting error of the gap see `_bound.rounding_of`. O(n).
    """
    (lower, interval), e = bound, problem.e
    if not (math.isfinite(lower) and math.isfinite(objective)):
        return np.inf
    level = level_of(problem, Qa) or 0.0
    nu = 0.0 if e is None else multiplier_of(interval)
    size, upper, growth, diag = np.abs(alpha), problem.effective_upper, problem.gram.growth, problem.diag()
    terms = 0.5 * abs(float(alpha @ Qa)) + float(np.abs(problem.p) @ size) + abs(nu * problem.d)
    terms += abs(level) * float(size.sum()) if level else 0.0
    missing = _missing(problem, alpha, upper)
    if problem.kind is not Kind.AFFINE and not by_margin and float(upper.min()) < np.inf:
        of_problem = problem.p, e, upper, alpha, diag, problem.ridge
        return float(rounded(Qa, *of_problem, nu, level, growth, terms, missing, exact_error))
    root = np.sqrt(np.maximum(diag - problem.ridge, 0.0))
    beside = np.abs(problem.p) + problem.ridge * size
    shift = sum(lacking * float(root[m]) for lacking, m in missing)
    error_bound = EPS * (growth * root * sum_error(size * root) + beside + abs(nu)) + shift * root
    of_terms = 4.0 * (1.0 + problem.n**0.5) * EPS * terms
    for lacking, m in missing:  # as in `rounded`
        room = max(float(alpha[m]), float(upper[m] - alpha[m])) if np.isfinite(upper[m]) else abs(float(alpha[m]))
        of_terms += lacking * (abs(float(Qa[m] - problem.p[m])) + float(problem.ridge[m]) * room)
    if problem.kind is Kind.AFFINE:
        # Half the square of the error of ρ in the norm of Q⁻¹, at most that of the ridge, and its product with ρ.
        least = np.where(problem.ridge > 0, problem.ridge, root**2 + EPS)
        extra = 0.5 * float((error_bound * error_bound / least).sum())
        return extra + 2.0 * float(np.sqrt(extra * max(0.0, objective - lower))) + of_terms
    # Hard margins: D is −½αᵀQα over the square of the least margin, which is 1 up to this error.
    return 2.0 * abs(lower) * float(error_bound[problem.upper > 0].max(initial=0.0)) + of_terms


def _missing(problem: Workspace | DualProblem, alpha: NDArray, upper: NDArray) -> list[tuple[float, int]]:
    """Return what each equality lacks, absolute, and the variable that takes it up.

    A projection leaves the rounding of its sum, up to 4ε Σ|α|, so this is computed with twice the digits.
    """
    if problem.e is None:
        return []
    if not problem.groups:
        missing, most = shortfall(problem.e, alpha, upper, problem.d)
        return [(abs(missing), most)]
    found = [(J, shortfall(np.ones(len(J)), alpha[J], upper[J], wanted)) for J, wanted in problem.groups if len(J)]
    return [(abs(missing), int(J[most])) for J, (missing, most) in found]


def primal_rounding(
    problem: DualProblem,
    alpha: NDArray,
    own: tuple[NDArray, NDArray],
    other: tuple[NDArray, NDArray],
    bound: tuple[float, Interval | None],
    bound_error: float | None = None,
) -> float:
    """Return the rounding error of a gap whose bound comes from weights of the features, absolute.

    ``own`` are the weights of α (`expanded`) and their `primal_product`, from which f is computed; ``other`` are those
    of the bound. ``bound_error`` is the error of the bound, if that is a `slack_bound`.

    The error of f is that of Σσαx, in proportion to Σ|αx| of each feature. The error of D is that of ⟨w, x⟩, in
    proportion to Σ|wx| of each point, so columns of a large scale do no harm if their weights are small. The residual
    of the equality is known exactly (a sum of signs times α); the variable with the most room takes it up. O(nm).
    """
    (lower, interval), (v, Qa), (w, product), e = bound, own, other, problem.e
    if not np.isfinite(lower):
        return np.inf
    size, scale, nu = np.abs(alpha), problem.scale, multiplier_of(interval)
    level = level_of(problem, product) or 0.0
    features, points = _term_sizes(problem, size, w)
    off, total, mass = GROWTH * EPS * features, float(problem.sigma @ alpha), float(size.sum())
    upper = problem.effective_upper
    if bound_error is None:
        error_bound = scale * (GROWTH * points + problem.offset * mass) + problem.ridge * size
        error_bound = error_bound + np.abs(problem.p) + abs(nu) + abs(level)
        error_bound *= EPS
        loses = product - problem.p - level - (0.0 if e is None else nu * e) < error_bound
        bound_error = float(np.where(np.isfinite(upper), upper, alpha)[loses] @ error_bound[loses])
    lost = bound_error
    lost += scale * float(np.abs(v) @ off + 0.5 * off @ off + problem.offset * abs(total) * EPS * mass)
    terms = 0.5 * (scale * float(v @ v + w @ w + problem.offset * total**2) + float(problem.ridge @ (alpha * alpha)))
    terms += float(np.abs(problem.p) @ size) + abs(nu * problem.d) + abs(level) * mass
    lost += 4.0 * (1.0 + problem.n**0.5) * EPS * terms
    for missing, m in _missing(problem, alpha, upper):
        lost += missing * abs(float(Qa[m] - problem.p[m]))
    return lost


def _term_sizes(problem: DualProblem, size: NDArray, w: NDArray) -> tuple[NDArray, NDArray]:
    """Return Σ|αx| of each feature, and Σ|wx| of the point of each variable; ``size`` is |α|."""
    features, points = problem.gram.term_sizes(_of_points(problem, size), w)
    return features, points if problem.idx is None else points[problem.idx]


def product_error(problem: DualProblem, alpha: NDArray) -> NDArray:
    """Return the rounding error of each entry of Qα, shape (n,)."""
    size, root = np.abs(alpha), np.sqrt(np.maximum(problem.diag() - problem.ridge, 0.0))
    error: NDArray = EPS * (problem.gram.growth * root * sum_error(size * root) + problem.ridge * size)
    return error


def primal_error(problem: DualProblem, alpha: NDArray, w: NDArray) -> NDArray:
    """Return the rounding error of each entry of the `primal_product` of weights w, shape (n,)."""
    size = np.abs(alpha)
    terms = GROWTH * _term_sizes(problem, size, w)[1] + problem.offset * float(size.sum())
    error: NDArray = EPS * (problem.scale * terms + problem.ridge * size)
    return error


def ridges_apart(ridge: NDArray) -> bool:
    """Whether ridges are positive and of very different sizes, as those of the squared hinge with uneven weights."""
    least = float(ridge.min())
    return least > 0 and float(ridge.max()) > MAX_RIDGE_RATIO * least


def slack_bound(
    problem: DualProblem, alpha: NDArray, product: NDArray, square: float, error: NDArray
) -> tuple[float, float]:
    """Return a lower bound of f from the best slacks, and its rounding error, for p = 0, Σα = d, no upper bounds.

    `dual_bound` takes rᵢαᵢ as the slack of a margin. Where the ridges r differ by many powers of 10, α is far from the
    best slacks though f is near its minimum: a large rᵢ makes much of an αᵢ that is 1e-12 of the sum. With fᵢ = (Kα)ᵢ
    and any q ≥ 0, P(q) = ½q²αᵀKα + ½Σ(1 − qfᵢ)₊²/rᵢ is the primal objective of w = qΣασx, and f ≥ d²/(4P): weak
    duality on the ray. P is convex and piecewise quadratic; Newton's method finds its minimum. O(n) a step.

    Parameters
    ----------
    problem : DualProblem
    alpha, product : arrays of shape (n,)
        ``product`` is Qα, or the `primal_product` of weights.
    square : float
        αᵀQα, or what stands for it.
    error : array of shape (n,)
        Rounding error of each entry of ``product``.
    """
    own = problem.ridge * alpha
    r = np.where(problem.upper > 0, problem.ridge, np.inf)  # a point that is left out costs nothing
    f, square = product - own, max(0.0, square - float(own @ alpha))
    q = 0.0
    for _ in range(MAX_SLACK_STEPS):
        slack = np.maximum(1.0 - q * f, 0.0) / r
        curvature = square + float((f * f / r)[slack > 0].sum())
        step = (float(slack @ f) - q * square) / curvature if curvature > 0 else 0.0
        q, last = max(0.0, q + step), q
        if abs(q - last) <= EPS * q:
            break
    short = np.maximum(1.0 - q * f, 0.0)
    slack = short / r
    value = 0.5 * (q * q * square + float(slack @ short))
    lost = q * float((slack + 0.5 * q * alpha) @ error) + 0.5 * q * q * float((error * error / r).sum())
    lost += 4.0 * (1.0 + problem.n**0.5) * EPS * value
    bound = 0.25 * problem.d * problem.d / value
    return bound, bound * lost / value


def vanishing(problem: DualProblem, alpha: NDArray, quadratic: float) -> float:
    """Return the size of f below which it is the round-off of its terms; ``quadratic`` is αᵀQα.

    If f is αᵀQα alone, it is the square of a sum of vectors that may cancel (for example, of the plane through the
    origin); a ridge prevents that. Without bounds, if e takes p away (all values are equal), f is as small as the
    round-off of its gradient, since Q is at least the ridge.
    """
    if not (problem.has_ridge or problem.p.any()):
        return MIN_PART_OF_TERMS * 0.5 * float(np.sqrt(np.maximum(problem.diag(), 0.0)) @ np.abs(alpha)) ** 2
    unseen = 0.0
    if problem.kind is Kind.AFFINE and (least := float(problem.ridge.min())) > 0:
        unseen = 0.5 * problem.n * (MIN_PART_OF_TERMS * float(np.abs(problem.p).max())) ** 2 / least
    return unseen + MIN_PART_OF_TERMS * (0.5 * quadratic + float(np.abs(problem.p) @ np.abs(alpha)))


def kkt_violation(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """Return the largest violation of a KKT condition for the best ν, with ρ = h − νe.

    The conditions are ρ ≥ 0 where α can rise and ρ ≤ 0 where it can fall.
    """
    can_rise, can_fall = alpha < problem.upper, alpha > problem.lower
    if problem.e is None:
        return max(float(np.max(-h[can_rise], initial=0.0)), float(np.max(h[can_fall], initial=0.0)))
    if problem.groups:  # an equality for each sign of e, and its own best multiplier
        worst = [
            float(np.max(h[J][can_fall[J]], initial=-np.inf)) - float(np.min(h[J][can_rise[J]], initial=np.inf))
            for J, _ in problem.groups
        ]
        return max(0.0, 0.5 * max(worst))
    # A violation is ν − he or he − ν, as e = ±1; the best ν is halfway between the two worst (LIBSVM's m and M).
    positive = problem.e > 0
    above, below = (can_rise & positive) | (can_fall & ~positive), (can_fall & positive) | (can_rise & ~positive)
    nu_of_each = h * problem.e
    spread = float(np.max(nu_of_each[below], initial=-np.inf)) - float(np.min(nu_of_each[above], initial=np.inf))
    return max(0.0, 0.5 * spread)


def dual_bound(
    problem: DualProblem, alpha: NDArray, Qa: NDArray, quadratic: float | None = None
) -> tuple[float, Interval | None]:
    """Return the best lower bound D and the interval of multipliers that give it, None without an equality.

    ``quadratic`` stands for αᵀQα if ``Qa`` is a `primal_product`.
    """
    h, e, u = Qa - problem.p, problem.e, problem.effective_upper
    fixed = -0.5 * (float(alpha @ Qa) if quadratic is None else quadratic)
    if (level := level_of(problem, Qa)) is not None and problem.total is not None:
        h, fixed = h - level, fixed + level * problem.total
    if e is None:
        return fixed + capped_sum(u, h, None, 0.0), None
    # The interval is that of the given bounds: an implied αᵢ ≤ d would add a plateau to D.
    low, high, best = best_of(h, e, problem.upper, u, problem.d, fixed, alpha)
    return best, (low, high)


def level_of(problem: DualProblem, Qa: NDArray) -> float | None:
    """Return the multiplier μ of 1ᵀα = total that maximises D with the best ν, or None without this equality.

    It is the margin ρ of a ν-SVC and −ε of a ν-SVR: with the best bias and slacks it minimises their primal objective
    for given weights w (Schölkopf et al. 2000), since D(ν, μ) is minus that objective. If a sign of e has no free
    variable, the maximisers ν₊ or ν₋ are an interval, and its midpoint is used.
    """
    if not problem.groups:
        return None
    h = Qa - problem.p
    ends = [maximisers(h[J], np.ones(len(J)), problem.upper[J], wanted) for J, wanted in problem.groups]
    return 0.25 * float(np.sum(ends))


def affine_bound(problem: Workspace, alpha: NDArray, Qa: NDArray) -> tuple[float, Interval | None]:
    """Return the best lower bound and its multiplier, as an interval, for least squares.

    With l = −∞, D = −∞, but f(α) − f* = min_ν ½ ρᵀQ⁻¹ρ on the affine set. If Q is too large to factorise, Q⁻¹ is
    replaced by a larger matrix, the inverse of the ridge.
    """
    h, e = Qa - problem.p, problem.e
    objective = 0.5 * float(alpha @ Qa) - float(problem.p @ alpha)
    inverse = problem.inverse()
    if inverse is None and problem.n > MAX_N_FACTOR and problem.ridge.all():

        def inverse(v: NDArray) -> NDArray:
            return v / problem.ridge

    if inverse is None:
        nu = None if e is None else float(e @ h) / problem.n
        return -np.inf, None if nu is None else (nu, nu)
    if e is None:
        return objective - 0.5 * float(h @ inverse(h)), None
    Qe = inverse(e)
    nu = float(Qe @ h) / float(Qe @ e)
    rho = h - nu * e
    return objective - 0.5 * float(rho @ inverse(rho)), (nu, nu)


def _of_points(problem: DualProblem, weights: NDArray) -> NDArray:
    """Return the sums of the weights of each point's variables, shape (points,)."""
    return weights if problem.idx is None else np.bincount(problem.idx, weights, minlength=problem.gram.n)


def expanded(problem: DualProblem, alpha: NDArray) -> NDArray:
    """Return Σσα(x − center), shape (m,), for a linear kernel."""
    weights = _of_points(problem, problem.sigma * alpha)
    return problem.gram.weighted_sum(weights, np.flatnonzero(weights))


def primal_product(problem: DualProblem, alpha: NDArray, w: NDArray) -> tuple[NDArray, float]:
    """Return the replacements of Qα and αᵀQα in D if the weights w of the features need not be Σσαx.

    They are sσ(⟨w, x⟩ + cΣσα) + rα for each variable, and s(‖w‖² + c(Σσα)²) + Σrα². Since
    ½‖Σσαx‖² ≥ ⟨w, Σσαx⟩ − ½‖w‖², D is a lower bound of f for any w (weak duality). If columns of X differ by a factor
    of 1e7, no α in float64 gives the best w, and a bound from α alone is useless.
    """
    values = problem.gram.linear_values(w)
    values = values if problem.idx is None else values[problem.idx]
    total, r = float(problem.sigma @ alpha), problem.ridge * alpha
    product = problem.scale * problem.sigma * (values + problem.offset * total) + r
    square = problem.scale * (float(w @ w) + problem.offset * total * total) + float(r @ alpha)
    return product, square


def hard_margin_bound(problem: DualProblem, alpha: NDArray, Qa: NDArray) -> tuple[float, float, Interval | None] | None:
    """Return the scaling t, bound D and multipliers for p = 1, or None if α does not separate the classes.

    With s = 1/m, m the least margin, sα is primal feasible (each margin is ≥ 1), so −½ s²αᵀQα is a lower bound of f,
    for any bounds u. It is compared with f(tα), the best point on the ray.
    """
    live = problem.upper > 0
    if not (problem.p[live] == 1).all():
        return None
    quadratic, total = float(alpha @ Qa), float(alpha.sum())
    if not (quadratic > 0 and total > 0):
        return None
    t = total / quadratic
    if problem.e is None:
        margin = float(Qa[live].min())
        interval = None
    else:
        f0, positive = Qa * problem.e, problem.e > 0
        if not (live & positive).any() or not (live & ~positive).any():
            return None
        above, below = float(f0[live & positive].min()), float(f0[live & ~positive].max())
        margin = 0.5 * (above - below)
        # At scale t the multiplier ν = −b makes both margins equal: b = −t(above + below)/2.
        centre = 0.5 * t * (above + below)
        interval = (centre, centre)
    if margin <= 0:
        return None
    return t, -0.5 * (quadratic / margin) / margin, interval


def inseparability_witness(problem: DualProblem, alpha: NDArray) -> NDArray | None:
    """Return v = α/1ᵀα if it proves that the hard margin does not exist, else None.

    The data are not separable if and only if some v ≥ 0 with yᵀv = 0, 1ᵀv = 1 has vᵀQv = 0: the convex hulls of the
    classes meet in feature space (Howell eq. 6). Values up to 1e-12 of the largest Qᵢᵢ count as 0: float64 kernels
    resolve distances of the hulls down to 1e-6 of the size of the data.
    """
    if not problem.is_hard_margin:
        return None
    v = problem.project(np.maximum(alpha, 0.0))
    total = float(v.sum())
    if not (np.isfinite(total) and total > 0):
        return None
    v = v / total
    size = float(problem.diag()[problem.upper > 0].max(initial=0.0))
    return v if float(v @ problem.product(v)) <= 1e-12 * size else None
