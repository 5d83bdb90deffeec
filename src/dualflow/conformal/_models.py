"""The models of one problem, of all its points and without one point or one fold each, as columns of one matrix.

`left_out` finds the models without one point along the path of the optimum, `held_out` solves the model without each
fold. Every model is certified; one that misses the tolerance is solved again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import gaps
from ..core.decision import coefficients
from ..core.kernel_cache import KeptGram
from ..core.problem import DualProblem
from ..core.runtime.memory import memory_bytes
from ..estimators._left_out import LEFT_OUT_TOL, MAX_INFEASIBILITY, certified_optimum
from ..exceptions import ProblemError
from ..online.point_paths import PointPaths
from ..online.state import PathError

#: Most points for leaving out one at a time: a matrix of 8000 × 8000 takes half a gigabyte.
MAX_POINTS_LEFT_OUT = 8000
#: Matrices of that size in memory at the same time: kernel, weights, columns of the margin points (twice as long for a
#: tube, so they count twice), and the inverse of their system.
MAX_MATRICES = 5
#: Models that are certified in one batch, which bounds memory.
MODELS_PER_BLOCK = 256
#: Values that a prediction holds in memory at a time: 32 MB.
MAX_BLOCK_VALUES = 1 << 22
#: What is called with the number of models found so far, and of all.
Report = Callable[[int, int], None]

_EPS = float(np.finfo(float).eps)


def no_report(done: int, count: int) -> None:
    """Do nothing: the progress of a fit that is not verbose."""


@dataclass(frozen=True)
class Models:
    """k models over the points of a Gram; number 0 is the model of all points."""

    gram: KeptGram  # the kernel matrix of the u points that have weight in any model
    rows: NDArray  # the indices of these points; int array of shape (u,)
    weights: NDArray  # weights of the points in each model's expansion; shape (u, k)
    biases: NDArray  # the bias of each model; shape (k,)
    #: The model that leaves out each point; 0 where leaving it out does not change the model; int array of shape (n,).
    without: NDArray
    values: NDArray  # the decision value of each point by that model; shape (n,)
    gap: float  # the largest certified relative gap of all models

    def spread(self, n: int) -> NDArray:
        """Return the weights of all n points, shape (n, k)."""
        weights = np.zeros((n, self.weights.shape[1]))
        weights[self.rows] = self.weights
        return weights

    def at(self, Z: NDArray) -> NDArray:
        """Return each model's values of new points, (len(Z), k); with a precomputed kernel Z has the columns `rows`."""
        return self.gram.expand(Z, np.arange(len(self.rows)), self.weights) + self.biases


def check_left_out(n: int) -> None:
    """Raise `ProblemError` if leaving out one of n points at a time needs too much memory."""
    available, needed = memory_bytes(), MAX_MATRICES * 8 * n * n
    if n > MAX_POINTS_LEFT_OUT or (available is not None and needed > available):
        raise ProblemError(
            f"cv=None: leaving out one of n={n} points may take {needed / 1e9:.3g} GB, and is for {MAX_POINTS_LEFT_OUT}"
            " points at most; give cv=10, for ten folds"
        )


def left_out(
    problem: DualProblem, alpha: NDArray, max_refits: float = np.inf, report: Report = no_report
) -> Models | None:
    """Return the models without one point each. Leaving out a point without weight does not change the model.

    None if more than ``max_refits`` of them cannot be found along the path, so that each would be solved again.
    """
    n = problem.gram.n
    check_left_out(n)
    best = certified_optimum(problem, alpha)
    posed = problem.centred()
    K = KeptGram(posed.gram).full()
    all_weights, b = coefficients(problem, best), best.bias + posed.gram.constant(coefficients(problem, best))
    path, gap = _path(problem, posed, K, best.alpha, b) or (None, best.relative_gap or 0.0)
    if path is None:
        # Without a free variable the bias is an interval's end, which points without weight may set.
        movers = np.flatnonzero(all_weights) if best.bias_interval[0] == best.bias_interval[1] else np.arange(n)
    else:
        all_weights, b = _read(problem, *path.at_rest())
        movers = path.movers()
    count = 1 + len(movers)
    weights, biases, gaps_of = np.zeros((n, count)), np.zeros(count), np.zeros(count)
    weights[:, 0], biases[0], gaps_of[0] = all_weights, b, gap
    is_certified = np.zeros(count, dtype=bool)  # found along the path, and then certified
    for start in range(1, count, MODELS_PER_BLOCK):
        block = range(start, min(start + MODELS_PER_BLOCK, count))
        for model in block:
            if path is not None and (found := path.without(int(movers[model - 1]))) is not None:
                weights[:, model], biases[model] = _read(problem, *found)
                is_certified[model] = True
            report(model, count - 1)
        part = start + np.flatnonzero(is_certified[block])
        out = np.arange(n)[:, None] == movers[part - 1]
        gaps_of[part] = relative_gaps(problem, posed, K, weights[:, part], biases[part], out)
        is_certified[part] = gaps_of[part] <= LEFT_OUT_TOL
        if np.count_nonzero(~is_certified[1 : block.stop]) > max_refits:
            return None
    refits = 1 + np.flatnonzero(~is_certified[1:])
    for done, model in enumerate(refits.tolist()):
        report(count - 1 - len(refits) + done, count - 1)
        is_out = np.arange(n) == movers[model - 1]
        weights[:, model], biases[model], gaps_of[model] = _refit(problem, posed, best.alpha, is_out)
    without = np.zeros(n, dtype=np.intp)
    without[movers] = np.arange(1, 1 + len(movers))
    values = K @ weights[:, 0] + biases[0]
    for model, point in enumerate(movers, 1):
        values[point] = K[point] @ weights[:, model] + biases[model]
    return _gathered(posed, weights, biases, without, values, float(gaps_of.max()))


def held_out(problem: DualProblem, alpha: NDArray, folds: Sequence[NDArray], report: Report = no_report) -> Models:
    """Return the models without one fold each. The folds are given as points of the problem, each point in one fold."""
    n, posed, best = problem.gram.n, problem.centred(), certified_optimum(problem, alpha)
    weights, biases = np.zeros((n, 1 + len(folds))), np.zeros(1 + len(folds))
    without, values, worst = np.zeros(n, dtype=np.intp), np.zeros(n), best.relative_gap or 0.0
    weights[:, 0] = coefficients(problem, best)
    biases[0] = best.bias + posed.gram.constant(weights[:, 0])
    for model, fold in enumerate(folds, 1):
        report(model - 1, len(folds))
        if not len(fold):  # the fold has no points of this pair of classes
            weights[:, model], biases[model] = weights[:, 0], biases[0]
            continue
        out = np.zeros(n, dtype=bool)
        out[fold] = True
        weights[:, model], biases[model], gap = _refit(problem, posed, best.alpha, out)
        without[fold], worst = model, max(worst, gap)
        values[fold] = posed.gram.matvec(weights[:, model], fold) + biases[model]
    return _gathered(posed, weights, biases, without, values, worst)


def _path(
    problem: DualProblem, posed: DualProblem, K: NDArray, alpha: NDArray, b: float
) -> tuple[PointPaths, float] | None:
    """Return the path to the models without a point and the gap of its first model; None if there is no such path."""
    if not has_paths(problem):
        return None
    try:
        path = PointPaths(posed, K, alpha, b)
    except (PathError, np.linalg.LinAlgError):
        return None
    weights, b = _read(problem, *path.at_rest())
    nothing = np.zeros((problem.gram.n, 1), dtype=bool)
    gap = float(relative_gaps(problem, posed, K, weights[:, None], np.array([b]), nothing)[0])
    return (path, gap) if gap <= LEFT_OUT_TOL else None


def has_paths(problem: DualProblem) -> bool:
    """Whether a problem has a path to its models without a point: the hinge and the tube, with finite bounds."""
    return not (problem.d or problem.has_ridge) and bool(np.isfinite(problem.upper).all())


def _read(problem: DualProblem, alpha: NDArray, b: float) -> tuple[NDArray, float]:
    """Return the weights of the points from α, and the constant that is added to their expansion."""
    signed = problem.sigma * alpha
    weights = signed if problem.idx is None else np.bincount(problem.idx, signed, minlength=problem.gram.n)
    return weights, b if problem.e is not None else problem.offset * float(signed.sum())


def relative_gaps(
    problem: DualProblem, posed: DualProblem, K: NDArray, weights: NDArray, biases: NDArray, out: NDArray
) -> NDArray:
    """Return the relative gap of each model, shape (k,), where model j leaves out the points in the mask ``out[:, j]``.

    The gap is computed by a product from scratch, with the dual bound at the model's own bias. A gap that may be
    round-off counts as at most `LEFT_OUT_TOL`; an infeasible model has gap ∞.
    """
    idx = slice(None) if problem.idx is None else problem.idx
    tube = problem.idx is not None
    sigma, p = problem.sigma[:, None], posed.p[:, None]
    upper = np.where(out[idx], 0.0, problem.upper[:, None])
    alpha = np.maximum(sigma * weights[idx], 0.0) if tube else sigma * weights
    rho = sigma * (K @ weights + biases)[idx] - p
    linear = (p * alpha).sum(axis=0)
    quadratic = ((rho + p) * alpha).sum(axis=0) - biases * (sigma * alpha).sum(axis=0) * (problem.e is not None)
    bound_terms = (np.minimum(rho, 0.0) * upper).sum(axis=0)
    round_off = 64 * _EPS * (np.abs(p) * upper).sum(axis=0)
    both = [gaps(f, f_dual) for f, f_dual in zip(0.5 * quadratic - linear, bound_terms - 0.5 * quadratic, strict=True)]
    gap, relative = np.array(both).T.reshape(2, -1)
    found: NDArray = np.where(gap <= round_off, np.minimum(relative, LEFT_OUT_TOL), relative)
    # The objective of an infeasible α may be below the optimum, so its gap means nothing.
    violation = np.maximum(-alpha, alpha - upper).max(axis=0)
    if problem.e is not None:
        violation = np.maximum(violation, np.abs(weights.sum(axis=0)))
    found[violation > MAX_INFEASIBILITY * np.abs(weights).sum(axis=0)] = np.inf
    return found


def _refit(problem: DualProblem, posed: DualProblem, alpha: NDArray, out: NDArray) -> tuple[NDArray, float, float]:
    """Return weights, bias and relative gap of the model without the points in the mask ``out``, solved again."""
    is_out = out if problem.idx is None else out[problem.idx]
    rest = replace(problem, upper=np.where(is_out, 0.0, problem.upper))
    certificate = certified_optimum(rest, np.where(is_out, 0.0, alpha))
    weights = coefficients(rest, certificate)
    weights[out] = 0.0
    return weights, certificate.bias + posed.gram.constant(weights), certificate.relative_gap or 0.0


def _gathered(
    posed: DualProblem, weights: NDArray, biases: NDArray, without: NDArray, values: NDArray, gap: float
) -> Models:
    """Return the models, with only the points that have weight in any of them."""
    rows = np.flatnonzero(weights.any(axis=1))
    return Models(KeptGram(posed.gram).subset(rows), rows, weights[rows], biases, without, values, gap)
