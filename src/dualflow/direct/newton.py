"""A problem over its whole kernel matrix by Newton's steps of all variables at once.

In many features most points are nearly at right angles, so that the kernel matrix is close to a diagonal and few others.
There the minimiser of each variable alone says which variables are free (the primal-dual active-set method:
Hintermüller, Ito, Kunisch 2002), and conjugate gradients with the diagonal as preconditioner, projected onto the
equality (Gould, Hribar, Nocedal 2001), solve for these in some ten products. Each round costs as much as a hundredth of
what pair updates take. Elsewhere the rounds do not end: they are given up as soon as they make no progress.

Variables are β = σα, so that K has no signs and the two variables of a point of a regression are one, with a kink at 0:

    min ½ s βᵀ(K + c)β + ½ rβ² − pᵀβ + Σ εᵢ|βᵢ|,  low ≤ β ≤ high,  Σβ = d
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
#: While more than this share of the variables change, a round's system is solved to `ROUGH_RESIDUAL`.
FEW_CHANGES = 0.002
#: Relative residual of the systems of the first rounds.
ROUGH_RESIDUAL = 1e-2
#: The same of the last rounds, in float32 and in float64.
FINE_RESIDUALS = {np.dtype(np.float32): 1e-5, np.dtype(float): 1e-9}
#: Products for one system, at most.
MAX_PRODUCTS = 60
#: Products of all rounds, at most.
MAX_PRODUCTS_IN_ALL = 200
#: A system that is left with more than this share of its residual is too ill-conditioned.
MAX_RESIDUAL_LEFT = 0.3
#: The rounds end at a residual of this many rounding errors of the terms of a gradient.
ROUND_OFF = 8 * float(np.finfo(float).eps)
#: With at least this many points, products within a round are made in float32: its matrix is out of the cache.
MIN_POINTS_FLOAT32 = 1500
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
    in_single : bool
        Whether float32 holds K.

    Attributes
    ----------
    p, kink, low, high, diag : arrays of shape (n,)
    total : float or None
        Σβ, if it is fixed.
    """

    def __init__(self, problem: DualProblem, K: NDArray, in_single: bool) -> None:
        self.problem, self.K, n = problem, K, len(K)
        upper, sigma = problem.effective_upper, problem.sigma
        if problem.idx is None:
            self.p, self.kink, self.ridge = sigma * problem.p, np.zeros(n), problem.ridge
            self.low, self.high = np.where(sigma > 0, 0.0, -upper), np.where(sigma > 0, upper, 0.0)
        else:
            first, second = problem.p[:n], problem.p[n:]
            self.p, self.kink, self.ridge = 0.5 * (first - second), -0.5 * (first + second), np.zeros(n)
            self.low, self.high = -upper[n:], upper[:n]
        self.total = None if problem.e is None else problem.d
        own = problem.scale * (K.diagonal() + problem.offset) + self.ridge
        self.diag = np.maximum(own, np.finfo(float).eps * (float(own.max()) or 1.0))
        self.rough, self.products = K, 0
        if in_single and n >= MIN_POINTS_FLOAT32:
            self.rough = arena_array(K.shape, np.float32)
            np.copyto(self.rough, K, casting="same_kind")

    @staticmethod
    def suits(problem: DualProblem) -> bool:
        """Whether a problem whose points have own rows has such a form."""
        same = problem.e is None or np.array_equal(problem.e, problem.sigma)
        is_tube = problem.idx is not None
        n = problem.gram.n
        return same and not problem.lower.any() and not (is_tube and (problem.p[:n] + problem.p[n:] > 0).any())

    def times(self, v: NDArray, matrix: NDArray | None = None, J: NDArray | slice = slice(None)) -> NDArray:
        """Return the product of the quadratic term's matrix with v, by K or a rougher ``matrix``, of variables J."""
        problem = self.problem
        self.products += 1
        if matrix is None or matrix.dtype == float:
            product = (self.K if matrix is None else matrix) @ v
        else:
            size = float(np.abs(v).max()) or 1.0
            product = (matrix @ (v / size).astype(np.float32)).astype(float)
            product *= size
        if problem.offset:
            product += problem.offset * float(v.sum())
        if problem.scale != 1.0:
            product *= problem.scale
        product += self.ridge[J] * v
        return np.asarray(product)

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
        """Return the ν that the free variables have in common, the mean of their slopes; 0 without an equality."""
        if self.total is None:
            return 0.0
        weights = 1.0 / self.diag[is_free]
        return float(weights @ slope[is_free]) / float(weights.sum())

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
    own = problem.scale * (K.diagonal() + problem.offset) + problem.ridge[sample]
    scale = 1.0 / np.sqrt(np.maximum(own, np.finfo(float).eps * (float(own.max()) or 1.0)))
    scaled = (problem.scale * (K + problem.offset)) * scale * scale[:, None]
    if problem.e is not None:
        across = scale / float(np.linalg.norm(scale))
        along = scaled @ across
        scaled -= np.outer(across, along) + np.outer(along - float(across @ along) * across, across)
    beside = float(np.square(scaled).sum() - np.square(scaled.diagonal()).sum())
    return beside / len(sample) * (problem.gram.n / len(sample))


def minimise_by_newton(
    problem: DualProblem, K: NDArray, in_single: bool = True, max_products: int = MAX_PRODUCTS_IN_ALL
) -> NDArray | None:
    """Return the minimiser of f, shape (n,), or None if the rounds make no progress, or take too many products.

    Parameters
    ----------
    problem : DualProblem
        For which `NetProblem.suits` is true.
    K : array of shape (points, points)
        Its kernel matrix in float64.
    in_single : bool, default=True
        Whether float32 holds K.
    """
    net, n = NetProblem(problem, K, in_single), len(K)
    beta, slope, state = np.zeros(n), net.p.copy(), np.full(n, np.nan)
    nu, fewest, stalled, last = net.multiplier(beta, slope), np.inf, 0, np.inf
    for _ in range(MAX_ROUNDS):
        check_time()
        to = net.target(beta, slope, nu)
        sign = np.sign(to)
        is_free = (to > net.low) & (to < net.high) & ((to != 0.0) | (net.kink == 0.0))
        new = np.where(is_free, sign, 2.0 * sign)
        changed, state = int(np.count_nonzero(new != state)), new
        if changed == 0:
            residual = float(np.abs(slope - nu - net.kink * sign)[is_free].max(initial=0.0))
            if residual <= net.round_off(beta) or residual > MAX_RESIDUAL_LEFT * last:
                return net.alpha(np.where(is_free, beta, to))
            last = residual
        stalled = 0 if changed < PROGRESS * fewest else stalled + (changed > 0)
        fewest = min(fewest, changed)
        if stalled > MAX_STALLED or net.products > max_products:
            return None
        start = np.where(is_free & (sign * beta >= 0.0), beta, np.where(is_free, 0.0, to))
        if (start != beta).any():
            beta, slope = start, net.p - net.times(start)
        tolerance = ROUGH_RESIDUAL if changed > FEW_CHANGES * n else FINE_RESIDUALS[net.rough.dtype]
        moved = _with_free_solved(net, beta, slope - net.kink * sign, is_free, tolerance)
        if moved is None:
            return None
        beta, slope = moved, net.p - net.times(moved)
        nu = net.multiplier(beta, slope) if not is_free.any() else net.mean(slope - net.kink * sign, is_free)
    return None


def _with_free_solved(
    net: NetProblem, beta: NDArray, slope: NDArray, is_free: NDArray, tolerance: float
) -> NDArray | None:
    """Return β with the free variables at their common minimum; None if their system is too ill-conditioned.

    ``slope`` is the negative gradient at β, without ν.
    """
    (free,) = is_free.nonzero()
    if not len(free):
        return beta
    inverse, fixed = 1.0 / net.diag[free], net.total is not None
    weight, step = float(inverse.sum()), np.zeros(len(free))
    gathered = len(free) <= MAX_SHARE_GATHERED * len(beta)
    matrix = submatrix(net.rough, free, free) if gathered else net.rough

    def times(v: NDArray) -> NDArray:
        if gathered:
            return net.times(v, matrix, free)
        whole = np.zeros(len(beta))
        whole[free] = v
        return net.times(whole, matrix)[free]

    def without_multiplier(r: NDArray) -> NDArray:
        return r - float(inverse @ r) / weight if fixed else r

    residual = slope[free]
    if net.total is not None and abs(missing := net.total - float(beta.sum())) > ROUND_OFF * float(np.abs(beta).sum()):
        step = inverse * (missing / weight)
        residual = residual - times(step)
    residual = without_multiplier(residual)
    direction = inverse * residual
    size = first = float(residual @ direction)
    for _ in range(MAX_PRODUCTS):
        if not size > tolerance**2 * first:
            break
        check_time()
        along = times(direction)
        curvature = float(direction @ along)
        if not curvature > 0.0:
            break
        t = size / curvature
        step += t * direction
        residual = without_multiplier(residual - t * along)
        z = inverse * residual
        size, before = float(residual @ z), size
        direction = z + (size / before) * direction
    if not size <= MAX_RESIDUAL_LEFT**2 * first:
        return None
    moved = beta.copy()
    moved[free] += step
    return moved
