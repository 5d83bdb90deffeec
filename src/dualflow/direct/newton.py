"""A problem over its whole kernel matrix by Newton's steps of all variables at once.

In many features most points are nearly at right angles: the kernel matrix is near its diagonal, but for a few
eigenvalues. There the minimiser of each variable alone says which variables are free (the primal-dual active-set
method: Hintermüller, Ito, Kunisch 2002), and conjugate gradients with the diagonal as preconditioner, projected onto
the equality (Gould, Hribar, Nocedal 2001), solve for these in some ten products. A large C costs no more than a small
one. Elsewhere the rounds do not end; they are given up as soon as they make no progress.

Variables are β = σα, so that K has no signs and the two variables of a point of a regression are one, with a kink at 0:

    min ½ s βᵀ(K + c)β − pᵀβ + Σ εᵢ|βᵢ|,  low ≤ β ≤ high,  Σβ = d
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..core.problem import DualProblem
from ..core.runtime.clock import check_time
from ..core.runtime.memory import arena_array, submatrix

#: Rounds, at most.
MAX_ROUNDS = 30
#: A round makes progress if it changes at most this share of the fewest variables that a round before has changed.
PROGRESS = 0.9
#: Rounds in a row without progress after which the search is given up.
MAX_STALLED = 2
#: Up to this share of changes, a round changes few variables.
FEW_CHANGES = 0.002
#: Residuals of the systems of rounds that change many variables, and few, as parts of the first one. Rounds that change
#: none go down to `SAFE_ROUND_OFF` of the rounding error.
RESIDUALS = (0.1, 1e-4)
SAFE_ROUND_OFF = 0.3
#: The same as a part of a system's own first residual, at most.
MAX_RESIDUAL = 0.1
#: In float32, a part of a system's own first residual, at least.
LEAST_RESIDUAL_FLOAT32 = 1e-5
#: With at least this many points, whose matrix is out of the cache, systems are solved in float32.
MIN_POINTS_FLOAT32 = 1500
#: Products for one system, at most.
MAX_PRODUCTS = 60
#: Products of all rounds, at most.
MAX_PRODUCTS_IN_ALL = 200
#: Where pair updates and one factor of the free variables can follow, a round after the first gives way to them if it
#: changes more than this share of the points, ...
MAX_CHANGES = 0.1
#: ... and few variables are free: their number cubed is below this times that of the kernel values. A factor then takes
#: less time than the rounds.
FACTOR_COST = 1200
#: A system that is left with more than this share of its residual is too ill-conditioned.
MAX_RESIDUAL_LEFT = 0.3
#: The rounds end at a residual of this many rounding errors of the terms of a gradient.
ROUND_OFF = 2 * float(np.finfo(float).eps)
#: Up to this share of free variables, their own matrix is gathered.
MAX_SHARE_GATHERED = 0.6
#: Halvings of the interval in which the first multiplier lies.
BISECTIONS = 60


class NetProblem:
    """A problem in variables β, one for each point.

    Parameters
    ----------
    problem : DualProblem
        With lower bounds of 0, and one variable for each point, or two as in a regression with a tube.
    K : array of shape (n, n)
        The kernel matrix of the points.

    Attributes
    ----------
    p, kink, low, high, diag : arrays of shape (n,)
    total : float or None
        Σβ, if it is fixed.
    """

    def __init__(self, problem: DualProblem, K: NDArray) -> None:
        self.problem, self.K, n = problem, K, len(K)
        upper, sigma = problem.effective_upper, problem.sigma
        if problem.idx is None:
            self.p, self.kink = sigma * problem.p, np.zeros(n)
            self.low, self.high = np.where(sigma > 0, 0.0, -upper), np.where(sigma > 0, upper, 0.0)
        else:
            first, second = problem.p[:n], problem.p[n:]
            self.p, self.kink = 0.5 * (first - second), -0.5 * (first + second)
            self.low, self.high = -upper[n:], upper[:n]
        self.total = None if problem.e is None else problem.d
        own = problem.scale * (K.diagonal() + problem.offset)
        self.diag = np.maximum(own, np.finfo(float).eps * (float(own.max()) or 1.0))
        self.rough, self.products = K, 0
        if n >= MIN_POINTS_FLOAT32 and problem.gram.is_safe_in_single:
            self.rough = arena_array(K.shape, np.float32)
            np.copyto(self.rough, K, casting="same_kind")

    @staticmethod
    def suits(problem: DualProblem) -> bool:
        """Whether a problem whose points have own rows has such a form."""
        if problem.lower.any() or problem.has_ridge:
            return False
        n, has_kinks = problem.gram.n, problem.idx is not None
        if has_kinks and (problem.p[:n] + problem.p[n:] > 0).any():
            return False
        return problem.e is None or np.array_equal(problem.e, problem.sigma)

    def times(self, v: NDArray, matrix: NDArray, J: NDArray | None = None) -> NDArray:
        """Return the product of the quadratic term's matrix with v, by K or a rougher matrix of kernel values.

        With J, the matrix is that of the variables J; v is 0 beside these, and so are the entries that are returned.
        """
        problem = self.problem
        self.products += 1
        size = 1.0 if matrix.dtype == float else float(np.abs(v).max()) or 1.0  # float32 may not hold v
        own = ((v if J is None else v[J]) / size).astype(matrix.dtype, copy=False)
        product = np.zeros(len(v))
        product[slice(None) if J is None else J] = matrix @ own
        product *= size * problem.scale
        if problem.offset:
            product += problem.scale * problem.offset * float(v.sum())
        return product

    def target(self, beta: NDArray, slope: NDArray, nu: float) -> NDArray:
        """Return the minimiser of each variable alone from β, where −``slope`` is the gradient without ν and kinks."""
        to, reach = beta + (slope - nu) / self.diag, self.kink / self.diag
        to = np.sign(to) * np.maximum(np.abs(to) - reach, 0.0)
        return np.minimum(np.maximum(to, self.low), self.high)

    def multiplier(self, beta: NDArray, slope: NDArray) -> float:
        """Return the ν for which the targets sum to the total."""
        if self.total is None:
            return 0.0
        reach = self.diag * (np.abs(beta) + abs(self.total)) + self.kink
        low, high = float((slope - reach).min()), float((slope + reach).max())
        for _ in range(BISECTIONS):
            nu = 0.5 * (low + high)
            if float(self.target(beta, slope, nu).sum()) > self.total:
                low = nu
            else:
                high = nu
        return 0.5 * (low + high)

    def mean(self, slope: NDArray, is_free: NDArray) -> float:
        """Return the ν that the free variables have in common, the mean of their slopes.

        It is 0 without an equality, and without free variables, which leave it open.
        """
        if self.total is None or not is_free.any():
            return 0.0
        weights = 1.0 / self.diag[is_free]
        return float(weights @ slope[is_free]) / float(weights.sum())

    def size(self, slope: NDArray, is_free: NDArray) -> float:
        """Return the norm of the free variables' slopes without ν, each in units of √diag."""
        own = (slope - self.mean(slope, is_free))[is_free] if is_free.any() else np.zeros(1)
        return float(np.sqrt(own @ (own / self.diag[is_free]))) if is_free.any() else 0.0

    def round_off(self, beta: NDArray) -> float:
        """Return the rounding error of a gradient whose terms are independent."""
        terms = float(np.linalg.norm(self.diag * beta)) + float(np.abs(self.p).max())
        return ROUND_OFF * terms

    def alpha(self, beta: NDArray) -> NDArray:
        """Return α."""
        upper = self.problem.effective_upper
        if self.problem.idx is None:
            found = self.problem.sigma * beta
        else:
            found = np.concatenate([beta, -beta])
        return np.minimum(np.maximum(found, 0.0), upper)


def coupling(problem: DualProblem, K: NDArray, sample: NDArray) -> float:
    """Return how far a kernel matrix is from its diagonal: the sum of squares beside it in a row.

    The matrix is scaled to a diagonal of 1, without its part along the equality, which costs no round. Rounds end in
    few products up to about 4; noise of m features has n/m with a radial kernel.

    Parameters
    ----------
    problem : DualProblem
    K : array of shape (count, count)
        The kernel matrix of a sample of the points.
    sample : int array of shape (count,)
        Which points these are.
    """
    own = problem.scale * (K.diagonal() + problem.offset)
    scale = 1.0 / np.sqrt(np.maximum(own, np.finfo(float).eps * (float(own.max()) or 1.0)))
    scaled = (problem.scale * (K + problem.offset)) * scale * scale[:, None]
    if problem.e is not None:
        across = scale / float(np.linalg.norm(scale))
        along = scaled @ across
        scaled -= np.outer(across, along) + np.outer(along - float(across @ along) * across, across)
    beside = float(np.square(scaled).sum() - np.square(scaled.diagonal()).sum())
    return beside / len(sample) * (problem.gram.n / len(sample))


def minimise_by_newton(
    problem: DualProblem, K: NDArray, gives_way: bool = False, max_products: int = MAX_PRODUCTS_IN_ALL
) -> NDArray | None:
    """Return the minimiser of f, shape (n,), or None if the rounds make no progress, or take too many products.

    Parameters
    ----------
    problem : DualProblem
        For which `NetProblem.suits` is true.
    K : array of shape (points, points)
        Its kernel matrix in float64.
    gives_way : bool, default=False
        Whether to give up where pair updates take less time.
    max_products : int
        Products with K after which no further round begins.
    """
    net, n = NetProblem(problem, K), len(K)
    beta, slope, state = np.zeros(n), net.p.copy(), np.full(n, np.nan)
    nu, fewest, stalled, last, size = net.multiplier(beta, slope), np.inf, 0, np.inf, 0.0
    for _ in range(MAX_ROUNDS):
        to = net.target(beta, slope, nu)
        sign = np.sign(to)
        is_free = (to > net.low) & (to < net.high) & ((to != 0.0) | (net.kink == 0.0))
        new = np.where(is_free, sign, 2.0 * sign)
        changed, state = int(np.count_nonzero(new != state)), new
        start = np.where(is_free, np.where(sign * beta > 0.0, beta, 0.0), to)
        if changed == 0 or (start != beta).any():
            beta, slope = start, net.p - net.times(start, net.rough if changed else net.K)
        own = slope - net.kink * sign
        if changed == 0:
            residual = float(np.abs(own - net.mean(own, is_free))[is_free].max(initial=0.0))
            if residual <= net.round_off(beta) or residual > MAX_RESIDUAL_LEFT * last:
                return net.alpha(beta)
            last = residual
        stalled = 0 if changed < PROGRESS * fewest else stalled + (changed > 0)
        fewest = min(fewest, changed)
        gave_way = gives_way and MAX_CHANGES * n < changed < n and is_free.sum() ** 3 < FACTOR_COST * n**2
        if stalled > MAX_STALLED or net.products > max_products or gave_way:
            return None
        size = size or net.size(own, is_free)
        until = size * RESIDUALS[0 if changed > FEW_CHANGES * n else 1]
        if changed == 0:
            until = SAFE_ROUND_OFF * net.round_off(beta) * float(np.sqrt((1.0 / net.diag[is_free]).sum()))
        change = _step_of_free(net, beta, own, is_free, until)
        if change is None:
            return None
        beta, slope = beta + change[0], slope - change[1]
        beyond = is_free & ((beta <= net.low) | (beta >= net.high) | (sign * beta < 0.0))
        # If most free variables have left their bounds, what they have in common is no multiplier.
        is_lost = 2 * np.count_nonzero(beyond) >= np.count_nonzero(is_free)
        nu = net.multiplier(beta, slope) if is_lost else net.mean(slope - net.kink * sign, is_free)
    return None


def _step_of_free(
    net: NetProblem, beta: NDArray, slope: NDArray, is_free: NDArray, until: float
) -> tuple[NDArray, NDArray] | None:
    """Return the step of the free variables to their common minimum, and its product; None if it is not found.

    ``slope`` is the negative gradient at β, without ν. The residual falls to ``until`` in the norm of
    `NetProblem.size`, and at least to `MAX_RESIDUAL` of what it is first, which suffices if ``until`` is 0.
    """
    inverse = np.where(is_free, 1.0 / net.diag, 0.0)
    weight, step, product = float(inverse.sum()), np.zeros(len(beta)), np.zeros(len(beta))
    if not weight:
        return step, product
    fixed = net.total is not None
    (free,) = is_free.nonzero()
    gathers = len(free) <= MAX_SHARE_GATHERED * len(beta)
    matrix, J = (submatrix(net.rough, free, free), free) if gathers else (net.rough, None)

    def without_multiplier(r: NDArray) -> NDArray:
        r = np.where(is_free, r, 0.0)
        return np.where(is_free, r - float(inverse @ r) / weight, 0.0) if fixed else r

    if net.total is not None and abs(missing := net.total - float(beta.sum())) > ROUND_OFF * float(np.abs(beta).sum()):
        step = inverse * (missing / weight)
        product = net.times(step, net.rough)
    residual = without_multiplier(slope - product)
    direction = inverse * residual
    size = first = float(residual @ direction)
    until = min(until**2 or np.inf, MAX_RESIDUAL**2 * first)
    if net.rough.dtype != float:
        until = max(until, LEAST_RESIDUAL_FLOAT32**2 * first)
    for _ in range(MAX_PRODUCTS):
        if not size > until:
            break
        check_time()
        along = net.times(direction, matrix, J)
        curvature = float(direction @ along)
        if not curvature > 0.0:
            break
        t = size / curvature
        step += t * direction
        product += t * along
        residual = without_multiplier(residual - t * along)
        z = inverse * residual
        size, before = float(residual @ z), size
        direction = z + (size / before) * direction
    if not size <= MAX_RESIDUAL_LEFT**2 * first:
        return None
    return step, net.times(step, net.rough) if gathers else product
