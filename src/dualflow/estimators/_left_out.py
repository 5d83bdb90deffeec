"""Decision values of training points by the models of two classes without each of them.

`left_out_values` is exact, by unlearning; `left_out_decisions` adds the points whose removal changes nothing, and takes
the first segment of the path for many points. `response_and_distance` is the geometry of that segment (CP section 4).
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ..core.certificate import Certificate
from ..core.decision import coefficients
from ..core.gram import BLOCK_ENTRIES
from ..core.kernel_cache import KeptGram
from ..core.problem import DualProblem
from ..core.runtime.clock import check_time, check_time_cubic
from ..driver.solve import solve
from ..online._response import left_out_gaps
from ..online.leave_one_out import Response, each_without
from ..online.point_paths import MIN_FREE_DISTANCE
from ..online.state import PathError
from ._batch import without_round_off

#: Certified relative gap of every leave-one-out model.
LEFT_OUT_TOL = 1e-9
#: Points of a pair of classes up to which all models without a point are exact: 2000 points take about 1 s of processor
#: time (benchmarks/classical/probabilities.py). Above, each is taken from the first segment of its path.
MAX_POINTS_EXACT = 2000
#: Folds of the points where models without a single point are not certified; scikit-learn takes as many.
FOLDS = 5
#: Largest violation of the bounds, or of a signed sum of 0, relative to the sum of the weights, that counts as 0.
MAX_INFEASIBILITY = 1e-10
#: Multiplications between two looks at the clock, about a tenth of a second's.
MAX_PRODUCTS = 1 << 30
#: Least columns of a block: products of fewer are slow.
MIN_COLUMNS = 64
#: Least length of an interval of optimal biases, relative to them; a shorter one is round-off.
MIN_INTERVAL = 1e-10
#: A variable is at its bound if it is at least this share of it.
AT_BOUND = 1.0 - 1e-12


def certified_optimum(problem: DualProblem, start: NDArray | None) -> Certificate:
    """Return the certificate of the optimum, solved to `LEFT_OUT_TOL` from ``start`` if that is given."""
    solution = solve(problem, refine="early", tol=LEFT_OUT_TOL, warm=start)
    return solution.certificate


def balances(problem: DualProblem) -> bool:
    """Whether the problem has the constraint yᵀα = 0. The span of the margin vectors is then an affine hull."""
    return problem.e is not None and problem.d == 0


def left_out_values(problem: DualProblem, certificate: Certificate, points: NDArray) -> tuple[NDArray, NDArray, int]:
    """Compute the decision values of points by the models without each of them, exactly and without a refit.

    Parameters
    ----------
    problem : DualProblem
        Of two classes, positive semidefinite, with one variable a point.
    certificate : Certificate
        Of its optimum.
    points : int array of shape (k,)

    Returns
    -------
    values : array of shape (k,)
        f(x) by the model without the point; NaN for the only point of a class, without which there is no model.
    gaps : array of shape (k,)
        The certified relative gap of each model, at most 1e-9 unless float64 does not permit it.
    refits : int
        Number of models that had to be solved, because the path from the optimum broke off.
    """
    values, worst, refits = np.full(len(points), np.nan), np.zeros(len(points)), 0
    others = np.ones(len(points), dtype=bool)
    if balances(problem):
        for sign in (-1.0, 1.0):
            (side,) = np.nonzero((problem.sigma == sign) & (problem.upper > 0))
            if len(side) == 1:
                others &= points != side[0]
    computed = np.flatnonzero(others)
    if problem.n <= MAX_POINTS_EXACT and problem.d == 0 and np.isfinite(problem.upper).all():
        values[computed], worst[computed] = _by_response(problem, certificate.alpha, points[computed])
        computed = computed[worst[computed] > LEFT_OUT_TOL]
    if not len(computed):
        return values, worst, refits
    found = each_without(problem, certificate.alpha, points[computed], certified_optimum, LEFT_OUT_TOL)
    for k, left in zip(computed, found, strict=True):
        values[k] = left.expansion(left.weights()) + left.certificate.bias
        worst[k] = left.certificate.relative_gap or 0.0
        refits += left.refitted
    return values, worst, refits


def _by_response(problem: DualProblem, alpha: NDArray, points: NDArray) -> tuple[NDArray, NDArray]:
    """Return decision values and relative gaps of the hinge models without each point, by the linear response.

    The gaps are computed by one product from scratch for all models, with the dual bound at each model's bias. A model
    that the response does not find has gap ∞.
    """
    posed, values, gap = problem.centred(), np.full(len(points), np.nan), np.full(len(points), np.inf)
    sigma, upper, balanced = posed.sigma, posed.upper, posed.e is not None
    Q = KeptGram(posed.gram).full() + posed.offset
    Q *= sigma
    Q *= sigma[:, None]
    try:
        response = Response(posed, Q, alpha)
    except (PathError, np.linalg.LinAlgError):
        return values, gap
    A, is_found = response.without_each(points)
    known = np.flatnonzero(is_found)
    if not len(known):
        return values, gap
    own, A = points[known], A if len(known) == len(points) else A[known]
    row = np.arange(len(known))
    A[row, own] = 0.0
    product = A @ Q
    signs = sigma if balanced else np.zeros(len(sigma))
    bias, absolute, relative = left_out_gaps(
        A, product, posed.p, signs, upper, own, balanced, MIN_FREE_DISTANCE, MAX_INFEASIBILITY
    )
    round_off = 64 * np.finfo(float).eps * float(np.abs(posed.p) @ upper)
    gap[known] = np.where(absolute <= round_off, np.minimum(relative, LEFT_OUT_TOL), relative)
    values[known] = sigma[own] * product[row, own] + bias
    return values, gap


def response_and_distance(problem: DualProblem, which: NDArray, S: NDArray) -> tuple[NDArray, NDArray]:
    """Return γ_c by linear response and 2W_c by the distance, for the variables c in ``which``.

    ``which`` and the margin vectors S, a part of it, are ascending. Labels cancel: with θⱼ = −y_c yⱼβⱼ both quantities
    are functions of the kernel matrix without signs. The affine hull is computed as a span about the mean of S.
    Eigenvalues are raised to the level of round-off, so that equal points are at distance 0 from each other.
    """
    affine = balances(problem)
    diag, s = problem.diag()[which], len(S)
    if not s:
        alone = np.full(len(which), np.inf) if affine else diag
        return alone, alone.copy()
    check_time_cubic(s, _eigh_of, "the eigendecomposition")
    A = problem.plain_block(S, S)
    centred, means, mean, ones = A, np.zeros(s), 0.0, np.zeros(s)
    if affine:
        means, mean, ones = A.mean(axis=0), float(A.mean()), np.full(s, 1.0 / s)
        centred = A - means - means[:, None] + mean
    size = float(np.trace(centred)) or 1.0
    # Centring makes `ones` a null vector: it gets the eigenvalue `size` here, whose part is subtracted from R again.
    eigenvalues, U = scipy.linalg.eigh(centred + size * np.outer(ones, ones) * s)
    floored = np.maximum(eigenvalues, 4 * s * np.finfo(float).eps * eigenvalues[-1])
    R = (U / floored) @ U.T - np.outer(ones, ones) * s / size
    # For a margin vector, S is without it: the weights of the others are its column of R, and γ_c = 1/R_cc (CP eq. 11).
    own = np.diag(R) if s > 1 or not affine else np.zeros(1)
    gamma, distance = np.empty(len(which)), np.empty(len(which))
    width = max(1, min(BLOCK_ENTRIES // s, max(MIN_COLUMNS, MAX_PRODUCTS // (3 * s * s))))
    for start in range(0, len(which), width):
        check_time()
        part = slice(start, start + width)
        B, length = problem.plain_block(S, which[part]), diag[part]
        columns, lengths = B, length
        if affine:
            columns = B - B.mean(axis=0) - means[:, None] + mean
            lengths = length - 2.0 * B.mean(axis=0) + mean
        # Computed without R, whose entries may be as large as the inverse of round-off.
        along = U.T @ columns
        gamma[part] = lengths - np.einsum("ij,ij->j", along, along / floored[:, None])
        theta = U @ (along / floored[:, None]) + ones[:, None]
        (margin,) = np.isin(S, which[part]).nonzero()
        inside = np.searchsorted(which[part], S[margin])
        with np.errstate(divide="ignore", invalid="ignore"):
            theta[:, inside] = -R[:, margin] / own[margin]
            gamma[start + inside] = 1.0 / own[margin]
        theta[margin, inside] = 0.0
        distance[part] = length - 2.0 * np.einsum("ij,ij->j", B, theta) + np.einsum("ij,ij->j", theta, A @ theta)
    return np.maximum(gamma, 0.0), np.where(np.isinf(gamma), np.inf, np.maximum(distance, 0.0))


def _eigh_of(rows: int) -> None:
    """Compute the eigenvectors of a matrix with this number of rows."""
    k = np.arange(rows)
    scipy.linalg.eigh(1.0 / (1.0 + np.abs(k[:, None] - k)))


def held_out_decisions(problem: DualProblem) -> NDArray:
    """Return the decision value of every point by a model of other points, of five folds.

    For indefinite kernels, of which no model without a single point is certified. The points of a class go to the folds
    in turn. If the other folds hold one class only, the model is the constant ±1 of that class.

    Parameters
    ----------
    problem : DualProblem
        Of two classes, with one variable a point.

    Returns
    -------
    values : array of shape (n,)
    """
    values, fold = np.zeros(problem.n), np.empty(problem.n, dtype=np.intp)
    for sign in (-1.0, 1.0):
        (members,) = np.nonzero(problem.sigma == sign)
        fold[members] = np.arange(len(members)) % FOLDS
    for k in range(FOLDS):
        held = fold == k
        upper = np.where(held, 0.0, problem.upper)
        classes = np.unique(problem.sigma[upper > 0])
        if len(classes) == 2:
            found = solve(problem.with_upper(upper), "working-set", tol=LEFT_OUT_TOL)
            values[held] = (problem.gram.matvec(found.coefficients) + found.bias)[held]
        elif len(classes):
            values[held] = classes[0]
    return values


def left_out_decisions(problem: DualProblem, certificate: Certificate) -> NDArray:
    """Return the decision value of every point by the model without it.

    A point without weight does not change the model, so that its value is f(x). Up to 2000 points the values of the
    others are exact. Above, they are f(x) − yαγ, with γ of `response_and_distance`: the first segment of the path, on
    which no other variable changes its set (the span rule of Vapnik and Chapelle 2000).

    Parameters
    ----------
    problem : DualProblem
        Of two classes, positive semidefinite, with one variable a point.
    certificate : Certificate
        Of its optimum.

    Returns
    -------
    values : array of shape (n,)
        Without the only point of a class the model is the constant ±1 of the other class.
    """
    weights = without_round_off(coefficients(problem, certificate))
    values = problem.gram.matvec(weights) + certificate.bias
    low, high = certificate.bias_interval
    # Within an interval of optimal biases, points without weight may set its ends.
    is_interval = high - low > MIN_INTERVAL * max(1.0, abs(low), abs(high))
    changing = np.flatnonzero((weights != 0) | (is_interval & (problem.upper > 0)))
    if problem.n > MAX_POINTS_EXACT:
        (support,) = np.nonzero(weights)
        alpha = problem.sigma[support] * weights[support]
        free = support[alpha < problem.upper[support] * AT_BOUND]
        gamma, _ = response_and_distance(problem, support, free)
        known = np.isfinite(gamma)
        # The ridge of the squared hinge is part of Q, but not of f.
        change = alpha * (gamma - problem.ridge[support])
        values[support[known]] -= (problem.sigma[support] * change)[known]
        changing = support[~known]
    exact, _, _ = left_out_values(problem, certificate, changing)
    values[changing] = np.where(np.isnan(exact), -problem.sigma[changing], exact)
    return values
