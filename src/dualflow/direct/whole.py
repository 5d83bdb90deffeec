"""Problems of few variables, solved in float64 over the whole kernel matrix of their points.

A run of the driver takes longer than such a solve: workspace, isolated copy, context, states and record are objects of
Python. Here one matrix serves the pair loop and the certificate.
"""

from __future__ import annotations

import math
import time

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram, KernelMatrix
from ..core.problem import DualProblem, Kind, paired
from ..core.runtime import clock
from ..core.runtime.arrays import immutable, is_same_array
from ..core.runtime.memory import fits_easily, submatrix
from ..core.sparse_points import SparsePoints
from ..refinement.linear_systems import solve_definite
from ..working_set._pairs import MAX_FREE_NEWTON, solve_pairs
from ..working_set.dense import KKT_TOL_ROUND_OFF, MAX_RESTARTS, MAX_UPDATES_EXACT
from ..working_set.seeding import seed
from ..working_set.units import ScaledVariables
from .matrix_rows import FeatureKernel, MatrixRows, row_limit
from .newton import NetProblem, coupling, minimise_by_newton
from .pair_blocks import relative_spread
from .single import DirectSingle
from .strategy import USUAL, Thresholds

#: The feasible sets that the pair loop takes.
_KINDS = (Kind.BOX, Kind.BOX_EQUALITY, Kind.SIMPLEX, Kind.CAPPED_SIMPLEX)
#: Newton steps over the free variables after the pair loop.
MAX_POLISH = 3
#: If the KKT violation is at most this, Newton steps finish what the pair loop leaves, because the free variables are
#: known.
MAX_VIOLATION_POLISHED = 1e-4
#: With many variables, the pair loop ends at this KKT violation, and one Newton step of the free variables follows.
#: They are nearly always known then. Without it, two thirds of all updates would follow.
ROUGH_VIOLATION = 1e-4
#: Where pair updates crawl, at most this many Newton steps of the free variables follow, ...
MAX_NEWTON_ROUNDS = 12
#: ... if these are at most as many: a step takes 0.3 s.
MAX_FREE_IN_ROUNDS = 1536
#: Pair updates per variable after each.
UPDATES_PER_NEWTON_ROUND = 4
#: Up to this many sparse points, the matrix is one product. With more, it is made by strips above the diagonal.
MAX_POINTS_ONE_PRODUCT = 1024
#: Newton's rounds hold the matrix in float64 and in float32, and a part of it.
MAX_MATRICES = 2
#: If a margin differs from 1 by at most this, the difference is round-off.
MAX_MARGIN_SHORTFALL = 1e-9
#: A margin for round-off that is seen may cost at most this share of the gap, ...
MAX_MARGIN_COST = 0.25
#: ... and one for more round-off at most this relative gap.
MAX_MARGIN_GAP = 2e-11
#: Up to this many free variables, the step is the shortest one, by singular values: 2 ms. With more, a singular matrix
#: fails.
MAX_BY_SINGULAR_VALUES = 64
#: The same if the matrix is known to be singular: 30 ms.
MAX_BY_SINGULAR_VALUES_SINGULAR = 256


def is_wide(problem: DualProblem, thresholds: Thresholds = USUAL) -> bool:
    """Whether kernel values take most of the time of a solve: of many features, or of a polynomial kernel."""
    gram, least = problem.gram, thresholds.min_features_whole_wide
    if gram.is_radial and float(problem.upper.max()) <= thresholds.max_bound_whole:
        least = thresholds.min_features_whole_bounded
    return gram.kernel == "poly" or bool(gram.X.shape[1] >= least)


def suits_whole(problem: DualProblem, thresholds: Thresholds = USUAL) -> bool:
    """Whether a problem has few variables, either one for each point, or two as in a regression with a tube."""
    n = problem.n
    if problem.gram.n > max(thresholds.max_points_near_diagonal, thresholds.max_whole_variables):
        return False
    if problem.kind not in _KINDS or problem.is_hard_margin or not _has_own_rows(problem):
        return False
    if n <= thresholds.max_whole_variables:
        return True
    if not is_wide(problem, thresholds):
        return False
    if n > thresholds.max_whole_variables_wide:
        fits = fits_easily(problem.gram.n, MAX_MATRICES)
        return fits and suits_newton(problem, None, thresholds) and _expects_many(problem, thresholds)
    return _expects_many(problem, thresholds)


def suits_newton(problem: DualProblem, K: NDArray | None, thresholds: Thresholds = USUAL) -> bool:
    """Whether Newton's rounds solve a problem whose points have own rows, of which K is the matrix if it is known."""
    gram, n = problem.gram, problem.gram.n
    if n < thresholds.min_points_newton or not NetProblem.suits(problem):
        return False
    sample = np.arange(thresholds.sample_points_coupling) * n // thresholds.sample_points_coupling
    assert isinstance(gram, Gram)
    part = _kernel_matrix(gram.subset(sample)) if K is None else submatrix(K, sample, sample)
    most = thresholds.max_coupling_updates if _may_update(problem, thresholds) else thresholds.max_coupling
    return coupling(problem, part, sample) <= most


def _may_update(problem: DualProblem, thresholds: Thresholds) -> bool:
    """Whether pair updates may solve a problem as fast as Newton's rounds: there are few, one for each point."""
    return problem.idx is None and problem.n <= thresholds.max_whole_variables_wide


def _has_own_rows(problem: DualProblem) -> bool:
    """Whether each point has one variable, or two as in a regression with a tube."""
    n, points, idx = problem.n, problem.gram.n, problem.idx
    if idx is None:
        return True
    if n != 2 * points or problem.has_ridge or problem.e is None or not is_same_array(problem.e, problem.sigma):
        return False
    return is_same_array(idx, paired(points)[1])


def _expects_many(problem: DualProblem, thresholds: Thresholds) -> bool:
    """Whether many points are support vectors, so that most rows of the kernel matrix are needed, or nearly repeat.

    The share of two samples, the second twice as large as the first, is extrapolated to all points: it falls with their
    number where the classes are separable. Points that nearly repeat have a kernel matrix that is singular in float32,
    in which a run would have to find the support vectors among them.
    """
    size = thresholds.sample_points_whole
    if _repeat_nearly(problem.gram, size, thresholds):
        return True
    share = _support_share(problem, size, thresholds)
    if share >= thresholds.min_support_share_whole:
        doublings = math.log2(problem.gram.n / size)
        share *= min(share / _support_share(problem, size // 2, thresholds), 1.0) ** doublings
    return share >= thresholds.min_support_share_whole


def _repeat_nearly(gram: KernelMatrix, count: int, thresholds: Thresholds) -> bool:
    """Whether most of ``count`` points have another one next to them."""
    assert isinstance(gram, Gram)
    K = _kernel_matrix(gram.subset(np.arange(count) * gram.n // count))
    lengths = K.diagonal()
    nearness = 2.0 * K / np.add.outer(lengths, lengths)  # 1 less the squared distance by the mean squared length
    np.fill_diagonal(nearness, -np.inf)
    has_near = nearness.max(axis=1) >= 1.0 - thresholds.max_distance_near
    return bool(has_near.mean() >= thresholds.min_share_near)


def _support_share(problem: DualProblem, count: int, thresholds: Thresholds) -> float:
    """Return the share of support vectors among ``count`` points, solved alone; 1 where that takes many updates."""
    points, gram = problem.gram.n, problem.gram
    J = np.arange(count) * points // count
    assert isinstance(gram, Gram)
    variables = J if problem.idx is None else np.concatenate([J, points + J])
    wider = points / count if problem.d else 1.0  # fewer variables share the same d
    parts = {name: immutable(getattr(problem, name)[variables]) for name in ("p", "lower", "sigma", "ridge")}
    part = gram.subset(J)
    sample = DualProblem.of_parts(
        part,
        **parts,
        upper=immutable(problem.upper[variables] * wider),
        e=None if problem.e is None else immutable(problem.e[variables]),
        d=problem.d,
        scale=problem.scale,
        offset=problem.offset,
        idx=None if problem.idx is None else paired(count)[1],
        reading=problem.reading,
        kind=problem.kind,
    )
    found, _ = _minimise(sample, _kernel_matrix(part), thresholds, thresholds.max_whole_updates * sample.n)
    if found is None:
        return 1.0
    nonzero = found > 0.0
    support = nonzero if problem.idx is None else nonzero[:count] | nonzero[count:]
    return max(float(np.count_nonzero(support)), 1.0) / count


def solve_whole(
    problem: DualProblem,
    gap_tol: float,
    tol: float,
    thresholds: Thresholds = USUAL,
    start: NDArray | None = None,
    max_updates: int | None = None,
    by_rows: bool = False,
) -> DirectSingle | None:
    """Solve and certify a problem for which `suits_whole` is true; None if a tolerance is not reached.

    Parameters
    ----------
    problem : DualProblem
        With a kernel that is positive semidefinite for any points.
    gap_tol : float
        Relative gap that objective and bound as computed have to reach.
    tol : float
        The same with the estimate of rounding errors included.
    thresholds : Thresholds
    start : array of shape (n,), optional
        An α near the optimum, from which Newton steps begin without pair updates.
    max_updates : int, optional
        Pair updates, at most, if that is fewer than the thresholds allow.
    by_rows : bool, default=False
        Whether rows are made on demand in place of the matrix, of a problem for which `suits_few_rows` is true.
    """
    started, problem = time.monotonic(), problem.centred()
    gram = problem.gram
    assert isinstance(gram, Gram)
    K = FeatureKernel(gram) if by_rows else _kernel_matrix(gram)
    if gram.kernel == "poly":
        spread = K.relative_spread() if isinstance(K, FeatureKernel) else relative_spread(K)
        if not spread > thresholds.min_relative_spread:
            return None
    found, entries = start, float(gram.n) ** 2
    if found is None and not isinstance(K, FeatureKernel) and suits_newton(problem, K, thresholds):
        found = minimise_by_newton(problem, K, _may_update(problem, thresholds))
    is_small = problem.n <= max(thresholds.max_whole_variables_wide, thresholds.max_whole_variables)
    if found is None and (by_rows or is_small):
        found, entries = _minimise(problem, K, thresholds, max_updates)
    # With a ridge on the simplex the gap is a small difference: products anew give it the bits of `certify`.
    anew = not by_rows and (gram.kernel == "linear" or problem.has_ridge)
    best: DirectSingle | None = None
    polished, is_stretched, last, certify_s = 0, False, np.inf, 0.0
    while found is not None:
        begun = time.monotonic()
        this = certified(problem, found, None if anew else K, entries)
        certify_s += time.monotonic() - begun
        best = this if best is None or this.relative_gap < best.relative_gap else best
        if this.relative_gap <= gap_tol:
            break
        found = None if is_stretched else _stretched(this)
        is_stretched = found is not None
        if found is None:
            if polished == MAX_POLISH or not best.relative_gap < 0.5 * last:
                break
            polished, last = polished + 1, best.relative_gap
            step = _newton_step(problem, K, this.point, this.rho - _margin(this), thresholds)
            found = None if step is None else this.point + step
    if best is None or not best.suffices(gap_tol, tol):
        return None
    return best.timed(time.monotonic() - started, certify_s)


def certified(problem: DualProblem, alpha: NDArray, K: NDArray | FeatureKernel | None, entries: float) -> DirectSingle:
    """Return the result of an α of a centred problem, from its kernel matrix K or its features, or from products anew.

    ``entries`` kernel values were evaluated.
    """
    clock.check_time()
    gram, point, shift = problem.gram, problem.project(alpha), 0.0
    Qa = problem.product(point) if K is None else _product(problem, K, point)
    if gram.center is not None:
        shift = problem.scale * gram.constant(problem.reading.coefficients(problem, point, 0.0), problem.d)
    return DirectSingle(problem, alpha, point, Qa, entries, shift)


def _stretched(best: DirectSingle) -> NDArray | None:
    """Return α times a number next to 1 that takes all margins past 1, or None if that is not what the gap is made of.

    A margin that round-off leaves at 1 − 1e-16 adds C · 1e-16 to the gap. If no variable is at its bound, a stretch
    adds a term of second order only.
    """
    problem, alpha = best.problem, best.point
    common_p = float(problem.p.max())
    if problem.d != 0 or not 0 < common_p == float(problem.p.min()) or (alpha >= problem.upper).any():
        return None
    estimate, seen = _round_off(best)
    short = (estimate + seen) / common_p
    return alpha * (1.0 + 2.0 * short) if 0 < short < MAX_MARGIN_SHORTFALL else None


def _round_off(best: DirectSingle) -> tuple[float, float]:
    """Return the estimated mean round-off of a ρ that should be 0, and the largest that is seen below 0."""
    problem, alpha = best.problem, best.point
    is_free = (alpha > problem.lower) & (alpha < problem.upper)
    estimate = best.row.rounding / (float(problem.upper[is_free].sum()) or np.inf)
    return estimate, -float(best.rho[alpha < problem.upper].min(initial=0.0))


def _margin(best: DirectSingle) -> float:
    """Return a ρ that free variables should have in place of 0, so that round-off leaves none below 0.

    A ρ of −1e-15 adds C · 1e-15 to the gap, and one of δ adds αδ. It is 0 where that would not be less.
    """
    problem, alpha, (estimate, seen) = best.problem, best.point, _round_off(best)
    cost = float(alpha[(alpha > problem.lower) & (alpha < problem.upper)].sum())
    per_cost = best.row.size / (cost or np.inf)
    if 2.0 * seen > min(MAX_MARGIN_COST * best.relative_gap * per_cost, MAX_MARGIN_SHORTFALL * np.abs(problem.p).max()):
        return 0.0
    return 2.0 * seen + min(2.0 * estimate, max(0.0, MAX_MARGIN_GAP * per_cost - 2.0 * seen))


def _kernel_matrix(gram: Gram) -> NDArray:
    """Return the kernel matrix of all points in float64."""
    is_made_in_strips = isinstance(gram.X, SparsePoints) and gram.n > MAX_POINTS_ONE_PRODUCT
    return gram.full() if is_made_in_strips else gram.by_one_product()


def _product(problem: DualProblem, K: NDArray | FeatureKernel, alpha: NDArray) -> NDArray:
    """Return Qα from the kernel matrix of the points, or from their features."""
    if isinstance(K, FeatureKernel):
        return K.product(problem, alpha)
    weights, points = problem.sigma * alpha, len(K)
    sums = K @ (weights if problem.idx is None else weights[:points] + weights[points:])
    sums = sums if problem.idx is None else np.concatenate([sums, sums])
    if problem.offset:
        sums += problem.offset * float(weights.sum())
    product: NDArray = problem.scale * problem.sigma * sums + problem.ridge * alpha
    return product


def _minimise(
    problem: DualProblem, K: NDArray | FeatureKernel, thresholds: Thresholds, max_updates: int | None = None
) -> tuple[NDArray | None, float]:
    """Return the minimiser of f by pair updates and Newton steps, shape (n,), and the kernel entries evaluated.

    It is None if it takes too many updates, or too many rows from features. Where pair updates crawl, Newton steps of
    all free variables follow, each with some updates that find which are free; not if ``max_updates`` is given.
    """
    is_large = problem.n > thresholds.max_whole_variables
    limit = problem.n * (thresholds.max_whole_updates_wide if is_large else thresholds.max_whole_updates)
    limit = limit if max_updates is None else min(limit, max_updates)
    zeros = np.zeros(problem.n)
    begun = K.start(problem) if isinstance(K, FeatureKernel) else seed(problem, zeros) if problem.d else zeros
    scaled = ScaledVariables(problem, begun, problem.diag())  # type: ignore[arg-type]  # it reads no cache
    if isinstance(K, FeatureKernel):
        rows = MatrixRows.on_demand(problem, K, scaled, row_limit(problem.gram, K.rank, thresholds))
    else:
        rows = MatrixRows.given(problem, K, scaled)
    tolerance = KKT_TOL_ROUND_OFF * scaled.max_own_change
    is_rough, starts_newton, restarts, rounds = is_large, False, 0, 0
    while restarts < MAX_RESTARTS:
        G = rows.gradient(scaled)
        low, high, has_equality = scaled.low, scaled.high, problem.e is not None
        until = ROUGH_VIOLATION * scaled.max_own_change if is_rough else tolerance
        rest = low, high, has_equality, until, limit, rows.source, starts_newton
        moved, violation, rows.made = solve_pairs(rows.M, rows.slots, rows.made, G, rows.diag, scaled.beta, *rest)
        (free,) = ((scaled.beta > low) & (scaled.beta < high)).nonzero()
        if moved == limit or rows.are_used_up:
            if violation <= MAX_VIOLATION_POLISHED:
                return scaled.alpha, rows.entries
            ends = max_updates is not None or rows.source is not None
            if ends or rounds == MAX_NEWTON_ROUNDS or len(free) > MAX_FREE_IN_ROUNDS:
                return None, rows.entries
            rounds, is_rough, starts_newton = rounds + 1, False, True
            limit = UPDATES_PER_NEWTON_ROUND * problem.n
            continue
        restarts += 1
        if is_rough:
            limit, is_rough = limit - moved, False
            starts_newton = len(free) <= MAX_FREE_NEWTON
            if not starts_newton and len(free) <= thresholds.max_free_polished:
                _move_free(rows.M, rows.slots, G, scaled, has_equality, free)
        elif moved == 0 or (violation <= tolerance and moved < MAX_UPDATES_EXACT):
            break
    return scaled.alpha, rows.entries


def _move_free(
    M: NDArray, slots: NDArray, G: NDArray, scaled: ScaledVariables, has_equality: bool, free: NDArray
) -> None:
    """Move the free variables by a Newton step, in place, up to the first bound; not at all if the matrix is singular.

    ``G`` is the gradient. The pair loop makes such steps itself, but only for few free variables.
    """
    try:
        step = _by_factor(submatrix(M, slots[free], free), -G[free], np.ones(len(free)) if has_equality else None)
    except np.linalg.LinAlgError:
        return
    own, low, high = scaled.beta[free], scaled.low[free], scaled.high[free]
    room = np.where(step > 0, high - own, own - low)
    length = min(1.0, float((room / np.maximum(np.abs(step), np.finfo(float).tiny)).min()))
    if math.isfinite(length):
        scaled.beta[free] = np.clip(own + length * step, low, high)


def _newton_step(
    problem: DualProblem, K: NDArray | FeatureKernel, alpha: NDArray, rho: NDArray, thresholds: Thresholds
) -> NDArray | None:
    """Return the shortest Newton step over the free variables, 0 for others; None if these are too many or none.

    The matrix of the free variables may be singular: of few features, say, or of repeated points.
    """
    (free,) = ((alpha > problem.lower) & (alpha < problem.effective_upper)).nonzero()
    m, step = len(free), np.zeros(problem.n)
    if not 0 < m <= thresholds.max_free_polished:
        return None
    points, sigma = free if problem.idx is None else problem.idx[free], problem.sigma[free]
    A = K.block(points) if isinstance(K, FeatureKernel) else submatrix(K, points, points)
    if problem.offset:
        A += problem.offset
    if problem.scale != 1.0 or (sigma < 0).any():
        A *= (problem.scale * sigma)[:, None]
        A *= sigma
    A[np.arange(m), np.arange(m)] += problem.ridge[free]
    e = None if problem.e is None else problem.e[free]
    is_singular = isinstance(K, FeatureKernel) and K.rank < m <= MAX_BY_SINGULAR_VALUES_SINGULAR
    by_values = m <= MAX_BY_SINGULAR_VALUES or is_singular
    try:
        step[free] = _shortest(A, -rho[free], e) if by_values else _by_factor(A, -rho[free], e)
    except np.linalg.LinAlgError:
        return None
    return step if np.isfinite(step).all() else None


def _shortest(A: NDArray, right: NDArray, e: NDArray | None) -> NDArray:
    """Return the shortest s with As − μe = right, eᵀs = 0, by singular values."""
    m = len(A)
    if e is None:
        found: NDArray = np.linalg.lstsq(A, right, rcond=None)[0]
        return found
    bordered, largest = np.zeros((m + 1, m + 1)), float(A.diagonal().max()) or 1.0
    bordered[:m, :m] = A
    bordered[m, :m] = bordered[:m, m] = largest * e
    shortest: NDArray = np.linalg.lstsq(bordered, np.append(right, 0.0), rcond=None)[0][:m]
    return shortest


def _by_factor(A: NDArray, right: NDArray, e: NDArray | None) -> NDArray:
    """Return the s of `_shortest` for a positive definite A, which is overwritten; else raise `LinAlgError`."""
    solved = solve_definite(A, np.column_stack([right] if e is None else [right, e]))
    if e is None:
        return solved[:, 0]
    if not (curvature := float(e @ solved[:, 1])) > 0.0:
        raise np.linalg.LinAlgError("the matrix is singular to round-off")
    return np.asarray(solved[:, 0] - solved[:, 1] * (float(e @ solved[:, 0]) / curvature))
