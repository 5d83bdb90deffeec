"""What a product Qα says of the optimum: lower bounds of f, and the multipliers that give them.

D(ν) = −½ αᵀQα + νd + Σᵢ min(lᵢρᵢ, uᵢρᵢ), ρ = Qα − p − νe, is concave and piecewise linear; its maximum is taken over
its breakpoints hᵢ/eᵢ exactly.

With a second equality, 1ᵀα = total, ρ = Qα − p − νe − μ is h − (μ + ν) where e = +1 and h − (μ − ν) where e = −1. So D
falls into two such functions, of ν₊ = μ + ν over the variables with e = +1 and of ν₋ = μ − ν over the others, and both
maxima are exact (`level_of`).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ..exceptions import ProblemError
from ._bound import best_of, capped_sum, maximisers, reach_of, rounded
from .gram import KernelMatrix
from .problem import DualProblem, Kind
from .reading import Interval
from .workspace import FACTOR_UP_TO, Workspace

__all__ = [
    "EPS",
    "affine_bound",
    "contradiction",
    "dual_bound",
    "expanded",
    "gaps",
    "growth_of",
    "hard_margin_bound",
    "inseparability_witness",
    "kkt_violation",
    "level_of",
    "primal_product",
    "primal_rounding",
    "reach_of",
    "rounding",
    "vanishing",
]

EPS = float(np.finfo(float).eps)
#: The part of its terms below which f is their round-off.
VANISHES = 64 * EPS
#: Rounding errors of a kernel value, in units of ε and of the root of the product of its points' own; of a linear one,
#: whose errors of a point's coordinates are those of all its values, more. Of 629 random hard problems on
#: which these were not chosen no error was above 0.45 of the estimate (tests/core/test_rounding.py).
GROWTH, LINEAR_GROWTH = 2.0, 5.0
#: Times the estimated rounding that a gap may be below 0: the estimate is no bound, and an error ends a fit.
CONTRADICTION = 100.0


def gaps(objective: float, lower_bound: float, rounding: float = np.inf, cause: str = "") -> tuple[float, float]:
    """Absolute and relative gap. `ProblemError` where it is below 0 by far more than ``rounding``: then f and its bound
    cannot be of one problem, for which the message gives the ``cause``. Without these, 0 is the least there is."""
    difference = objective - lower_bound
    if difference < -CONTRADICTION * rounding:
        raise ProblemError(
            f"the lower bound {lower_bound:.10g} is above the objective {objective:.10g} by {-difference:.3g}, and "
            f"rounding explains {rounding:.3g}: {cause}"
        )
    # max(0, NaN) is 0: an overflow would be certified as optimal.
    gap = np.inf if np.isnan(difference) else max(0.0, difference)  # below zero is round-off
    size = max(abs(objective), abs(lower_bound))
    return gap, gap / size if 0 < size < np.inf else (0.0 if gap == 0 else np.inf)


def contradiction(gram: KernelMatrix) -> str:
    """What must be wrong with a kernel matrix that gives a negative gap."""
    if callable(gram.kernel):
        return "kernel: the callable contradicts itself; it must give the same value at every call, and be symmetric"
    if gram.kernel == "precomputed":
        return "K: the matrix contradicts itself; it must be symmetric and must not change"
    return "X or alpha changed while the certificate was made"


def growth_of(gram: KernelMatrix) -> float:
    """Rounding errors of a kernel's values, as `GROWTH`: a power has as many times those of its base, and an
    exponential those of its exponent, in which squared lengths cancel, or coordinates where it is of differences."""
    if gram.kernel == "rbf":
        mean = float(np.add.reduce(gram.squares)) / gram.n  # of a few points `mean` takes four times as long
        exponent = float(gram.gamma) * mean
        # −t, t = γ‖x − z‖², counts with its error times e^−t: by coordinates at most about √(γ‖x‖²), as √t e^−t < ½.
        exponent = 2.0 * exponent if gram.is_radial else math.sqrt(exponent)
        # An exponent of which no digit is left is that of a kernel that is 0 between points that are not copies.
        return GROWTH + (exponent if exponent * EPS < 1.0 else 0.0)
    if gram.kernel == "poly":
        return GROWTH * (1.0 + gram.degree)
    return LINEAR_GROWTH if gram.kernel == "linear" else GROWTH


def rounding(
    problem: Workspace | DualProblem,
    alpha: NDArray,
    Qa: NDArray,
    objective: float,
    bound: tuple[float, Interval | None],
) -> float:
    """An estimate of what float64 has rounded away of a gap f − D, absolute; ``bound`` is D and its multipliers.

    Errors of Qα are those of its sums of kernel values, in proportion to √Qᵢᵢ and the `reach_of` |αⱼ|√Qⱼⱼ; see
    `_bound.rounding_of` for what they make of the gap. O(n).
    """
    (lower, interval), e = bound, problem.e
    if not (np.isfinite(lower) and np.isfinite(objective)):
        return np.inf
    level = level_of(problem, Qa) or 0.0
    nu = 0.0 if e is None or interval is None else 0.5 * (interval[0] + interval[1])
    size = np.abs(alpha)
    root = np.sqrt(np.maximum(problem.diag() - problem.ridge, 0.0))
    beside = np.abs(problem.p) + abs(level) + problem.ridge * size
    growth = growth_of(problem.gram)
    terms = 0.5 * abs(float(alpha @ Qa)) + float(np.abs(problem.p) @ size) + abs(nu * problem.d)
    terms += abs(level) * float(size.sum()) if level else 0.0
    upper = problem.effective_upper
    if problem.kind is not Kind.AFFINE and np.isfinite(upper).any():
        h = Qa - problem.p - level
        return float(rounded(h, e, upper, alpha, root, beside, nu, growth, terms))
    doubt = EPS * (growth * root * reach_of(size * root) + beside + abs(nu))
    if problem.kind is Kind.AFFINE:
        # Half the square of ρ's doubt in the norm of Q⁻¹, which is at most that of the ridge, and what it adds to ρ's.
        extra = 0.5 * float((doubt * doubt / np.where(problem.ridge > 0, problem.ridge, root**2 + EPS)).sum())
        return (
            extra
            + 2.0 * float(np.sqrt(extra * max(0.0, objective - lower)))
            + 4.0 * (1.0 + problem.n**0.5) * EPS * terms
        )
    # Hard margins: D is −½αᵀQα over the square of the least margin, which is 1 up to that doubt.
    return (
        2.0 * abs(lower) * float(doubt[problem.upper > 0].max(initial=0.0)) + 4.0 * (1.0 + problem.n**0.5) * EPS * terms
    )


def primal_rounding(
    problem: DualProblem,
    alpha: NDArray,
    own: tuple[NDArray, NDArray],
    other: tuple[NDArray, NDArray],
    bound: tuple[float, Interval | None],
) -> float:
    """As `rounding`, where f is made of ``own`` weights of the features, α's `expanded`, and the bound of ``other``
    ones; each comes with its `primal_product`.

    f loses digits of Σσαx, which are as large as Σ|αx| of each feature; D those of ⟨w, x⟩, which are as large as Σ|wx|
    of each point: columns of any scale cost none of them where their weights are small. What the equality of α lacks
    is known exactly (a sum of signs times α), and is given to the variable with most room. O(nm).
    """
    (lower, interval), (v, Qa), (w, product), e = bound, own, other, problem.e
    if not np.isfinite(lower):
        return np.inf
    size, scale, nu = np.abs(alpha), problem.scale, 0.0 if interval is None else 0.5 * (interval[0] + interval[1])
    level = level_of(problem, product) or 0.0
    features, points = problem.gram.sizes(_of_points(problem, size), w)
    if problem.idx is not None:
        points = points[problem.idx]
    off, total, mass = GROWTH * EPS * features, float(problem.sigma @ alpha), float(size.sum())
    doubt = (
        scale * (GROWTH * points + problem.offset * mass)
        + problem.ridge * size
        + np.abs(problem.p)
        + abs(nu)
        + abs(level)
    )
    doubt *= EPS
    upper = problem.effective_upper
    loses = product - problem.p - level - (0.0 if e is None else nu * e) < doubt
    lost = float(np.where(np.isfinite(upper), upper, alpha)[loses] @ doubt[loses])
    lost += scale * float(np.abs(v) @ off + 0.5 * off @ off + problem.offset * abs(total) * EPS * mass)
    terms = 0.5 * (scale * float(v @ v + w @ w + problem.offset * total**2) + float(problem.ridge @ (alpha * alpha)))
    terms += float(np.abs(problem.p) @ size) + abs(nu * problem.d) + abs(level) * mass
    lost += 4.0 * (1.0 + problem.n**0.5) * EPS * terms
    if e is None:
        return lost
    for J, wanted in problem.groups:
        missing, widest = math.fsum((*alpha[J], -wanted)), J[int(np.argmax(np.minimum(alpha, upper - alpha)[J]))]
        lost += abs(missing * float(Qa[widest] - problem.p[widest]))
    if problem.groups:
        return lost
    missing, widest = math.fsum((*(e * alpha), -problem.d)), int(np.argmax(np.minimum(alpha, upper - alpha)))
    return lost + abs(missing * float(Qa[widest] - problem.p[widest]))


def vanishing(problem: DualProblem, alpha: NDArray, quadratic: float) -> float:
    """The size of f from which it is the round-off of its terms; ``quadratic`` is αᵀQα.

    Where f is αᵀQα alone, that is a square of vectors that may cancel (the plane through the origin, for one): not so
    with a ridge, below which it never is. Without bounds f is as small as the round-off of its gradient makes it where
    e takes p away (values that are all equal): Q is at least the ridge.
    """
    if not (problem.p.any() or problem.ridge.any()):
        return VANISHES * 0.5 * float(np.sqrt(np.maximum(problem.diag(), 0.0)) @ np.abs(alpha)) ** 2
    least, unseen = float(problem.ridge.min()), 0.0
    if problem.kind is Kind.AFFINE and least > 0:
        unseen = 0.5 * problem.n * (VANISHES * float(np.abs(problem.p).max())) ** 2 / least
    return unseen + VANISHES * (0.5 * quadratic + float(np.abs(problem.p) @ np.abs(alpha)))


def kkt_violation(problem: DualProblem, alpha: NDArray, h: NDArray) -> float:
    """min over ν of the largest violation: of ρ ≥ 0 where α can rise, of ρ ≤ 0 where it can fall, ρ = h − νe."""
    can_rise, can_fall = alpha < problem.upper, alpha > problem.lower
    if problem.e is None:
        return max(float(np.max(-h[can_rise], initial=0.0)), float(np.max(h[can_fall], initial=0.0)))
    if problem.groups:  # an equality for each sign of e, and its own best multiplier
        worst = [
            float(np.max(h[J][can_fall[J]], initial=-np.inf)) - float(np.min(h[J][can_rise[J]], initial=np.inf))
            for J, _ in problem.groups
        ]
        return max(0.0, 0.5 * max(worst))
    # A violation is ν − he or he − ν, as e = ±1; the best ν lies half way between the two worst (LIBSVM's m and M).
    positive = problem.e > 0
    above, below = (can_rise & positive) | (can_fall & ~positive), (can_fall & positive) | (can_rise & ~positive)
    price = h * problem.e
    spread = float(np.max(price[below], initial=-np.inf)) - float(np.min(price[above], initial=np.inf))
    return max(0.0, 0.5 * spread)


def dual_bound(
    problem: DualProblem, alpha: NDArray, Qa: NDArray, quadratic: float | None = None
) -> tuple[float, Interval | None]:
    """The best lower bound D and the interval of multipliers that give it; ``quadratic`` is αᵀQα, unless what is given
    as Qα is a `primal_product`."""
    h, e, u = Qa - problem.p, problem.e, problem.effective_upper
    fixed = -0.5 * (float(alpha @ Qa) if quadratic is None else quadratic)
    if (level := level_of(problem, Qa)) is not None and problem.total is not None:
        h, fixed = h - level, fixed + level * problem.total
    if e is None:
        return fixed + capped_sum(u, h, None, 0.0), None
    # The bounds as given: the plateau that an implied αᵢ ≤ d adds to D is an artefact.
    low, high, best = best_of(h, e, problem.upper, u, problem.d, fixed)
    return best, (low, high)


def level_of(problem: DualProblem, Qa: NDArray) -> float | None:
    """The multiplier μ of 1ᵀα = total at which D is largest, together with the best ν there; None without it.

    The margin ρ of a ν-SVC and −ε of a ν-SVR: what makes their primal objectives least, for given weights w, together
    with the best bias and slacks (Schölkopf et al. 2000), as D(ν, μ) is minus that objective. Where a
    sign of e has no free variable the maximisers ν₊ or ν₋ are an interval, of which the middle is taken.
    """
    if not problem.groups:
        return None
    h = Qa - problem.p
    ends = [maximisers(h[J], np.ones(len(J)), problem.upper[J], wanted) for J, wanted in problem.groups]
    return 0.25 * float(np.sum(ends))


def affine_bound(problem: Workspace, alpha: NDArray, Qa: NDArray) -> tuple[float, Interval | None]:
    """Least squares: l = −∞ makes D = −∞, but f(α) − f* = min_ν ½ ρᵀQ⁻¹ρ on the affine set.

    Where Q is too large to factorise, Q⁻¹ is replaced by what it is below: the inverse of the ridge alone.
    """
    h, e = Qa - problem.p, problem.e
    objective = 0.5 * float(alpha @ Qa) - float(problem.p @ alpha)
    inverse = problem.inverse()
    if inverse is None and problem.n > FACTOR_UP_TO and problem.ridge.all():

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
    """The weights of variables, added up for the points they are about."""
    return weights if problem.idx is None else np.bincount(problem.idx, weights, minlength=problem.gram.n)


def expanded(problem: DualProblem, alpha: NDArray) -> NDArray:
    """Σσαx of the points less their centre, shape (m,), for a linear kernel."""
    weights = _of_points(problem, problem.sigma * alpha)
    return problem.gram.summed(weights, np.flatnonzero(weights))


def primal_product(problem: DualProblem, alpha: NDArray, w: NDArray) -> tuple[NDArray, float]:
    """sσ(⟨w, x⟩ + cΣσα) + rα of each variable, and s(‖w‖² + c(Σσα)²) + Σrα²: what stands for Qα and αᵀQα in D where w
    need not be Σσαx.

    ½‖Σσαx‖² ≥ ⟨w, Σσαx⟩ − ½‖w‖² for any w, so that D is a lower bound of f whatever w is (weak duality). Where columns
    of X differ by a factor of 1e7, no α of float64 makes the best w, and a bound from α alone says nothing.
    """
    values = problem.gram.along(w)
    values = values if problem.idx is None else values[problem.idx]
    total, r = float(problem.sigma @ alpha), problem.ridge * alpha
    product = problem.scale * problem.sigma * (values + problem.offset * total) + r
    square = problem.scale * (float(w @ w) + problem.offset * total * total) + float(r @ alpha)
    return product, square


def hard_margin_bound(problem: DualProblem, alpha: NDArray, Qa: NDArray) -> tuple[float, float, Interval | None] | None:
    """Scaling t, bound D and multipliers for u = ∞ and p = 1, or None if α separates nothing yet.

    With s = 1/m the direction of α becomes primal feasible (every margin ≥ 1), so −½ s²αᵀQα bounds f from
    below; the α it is compared with is tα, the best point on the ray.
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
        # At scale t the multiplier ν = −b puts both margins in balance: b = −t(above + below)/2.
        centre = 0.5 * t * (above + below)
        interval = (centre, centre)
    if margin <= 0:
        return None
    return t, -0.5 * (quadratic / margin) / margin, interval


def inseparability_witness(problem: DualProblem, alpha: NDArray) -> NDArray | None:
    """v = α/1ᵀα if it proves that the hard margin does not exist, else None.

    Not separable ⇔ some v ≥ 0 with yᵀv = 0, 1ᵀv = 1 has vᵀQv = 0: the convex hulls of the classes meet in
    feature space (Howell eq. 6). Zero means ≤ 1e-12 of the largest Qᵢᵢ: a distance of 1e-6 between the hulls,
    in units of the data's, is the least that float64 kernels resolve.
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
