"""The models of one problem: that of all its points, and those without some of them, as columns of one matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import gaps
from ..core.certificate import Certificate
from ..core.decision import coefficients
from ..core.kernel_cache import KeptGram
from ..core.problem import DualProblem
from ..core.runtime.memory import memory_bytes
from ..driver.solve import solve
from ..exceptions import ProblemError
from ..online.point_paths import PointPaths
from ..online.state import PathError

__all__ = ["POINTS", "Models", "held_out", "left_out"]

#: Points of which each may be left out: half a gigabyte a matrix of them.
POINTS = 8000
#: What is there at a time at most, in such matrices: kernel, weights, the margin's columns (a tube's are twice as long)
#: and the inverse of its system.
MATRICES = 5
#: Certified relative gap of every model.
TOL = 1e-9
#: The part of the weights' sum by which they may be beyond their bounds, or their signed sum off 0.
INFEASIBLE = 1e-10
#: Models that are looked at together.
AT_ONCE = 256
#: Numbers that a prediction has in memory at a time.
ENTRIES = 1 << 22
#: Where no point is left out.
NOBODY = np.array([-1])

_EPS = float(np.finfo(float).eps)


@dataclass(frozen=True)
class Models:
    """Models over a Gram's points, k of them; number 0 is that of all points.

    Attributes
    ----------
    gram : KeptGram
        Of the u points that have a weight in any of them.
    rows : int array of shape (u,)
        Which those are.
    weights : array of shape (u, k)
        Of each point in each expansion.
    biases : array of shape (k,)
    without : int array of shape (n,)
        The model that never saw each point; 0 where that of all is the same without it.
    values : array of shape (n,)
        What that model says of the point.
    gap : float
        The largest certified relative gap.
    """

    gram: KeptGram
    rows: NDArray
    weights: NDArray
    biases: NDArray
    without: NDArray
    values: NDArray
    gap: float

    def at(self, Z: NDArray) -> NDArray:
        """What each model says of new points, shape (len(Z), k). Of a precomputed kernel Z has the columns `rows`."""
        return self.gram.expand(Z, np.arange(len(self.rows)), self.weights) + self.biases


def left_out(problem: DualProblem, alpha: NDArray) -> Models:
    """Every model without one point. Only points with a weight are taken out, for without another all stays."""
    n = problem.gram.n
    there, wanted = memory_bytes(), MATRICES * 8 * n * n
    if n > POINTS or (there is not None and wanted > there):
        raise ProblemError(
            f"cv=None: leaving out one of n={n} points may take {wanted / 1e9:.3g} GB, and is for {POINTS} points at "
            "most; give cv=10, for ten folds"
        )
    best = optimum(problem, alpha)
    posed = problem.centred()
    K = KeptGram(posed.gram).full()
    whole, b = coefficients(problem, best), best.bias + posed.gram.constant(coefficients(problem, best))
    path, gap = _path(problem, posed, K, best.alpha, b) or (None, best.relative_gap or 0.0)
    if path is None:
        # Where none is free, points without weight set the bias.
        movers = np.flatnonzero(whole) if best.bias_interval[0] == best.bias_interval[1] else np.arange(n)
    else:
        whole, b = _read(problem, *path.at_rest())
        movers = path.movers()
    count = 1 + len(movers)
    weights, biases, gaps_of = np.zeros((n, count)), np.zeros(count), np.zeros(count)
    weights[:, 0], biases[0], gaps_of[0] = whole, b, gap
    led = np.zeros(count, dtype=bool)
    for model, point in enumerate(movers, 1):
        if path is not None and (found := path.without(int(point))) is not None:
            weights[:, model], biases[model] = _read(problem, *found)
            led[model] = True
    for start in range(1, count, AT_ONCE):
        part = start + np.flatnonzero(led[start : start + AT_ONCE])
        gaps_of[part] = _judged(problem, posed, K, weights[:, part], biases[part], movers[part - 1])
        led[part] = gaps_of[part] <= TOL
    for model in (int(k) for k in 1 + np.flatnonzero(~led[1:])):
        out = np.arange(n) == movers[model - 1]
        weights[:, model], biases[model], gaps_of[model] = _refitted(problem, posed, best.alpha, out)
    without = np.zeros(n, dtype=np.intp)
    without[movers] = np.arange(1, 1 + len(movers))
    values = K @ weights[:, 0] + biases[0]
    for model, point in enumerate(movers, 1):
        values[point] = K[point] @ weights[:, model] + biases[model]
    return _gathered(posed, weights, biases, without, values, float(gaps_of.max()))


def held_out(problem: DualProblem, alpha: NDArray, folds: Sequence[NDArray]) -> Models:
    """The models without each of some folds, given as points of the problem; every point is in one of them."""
    n, posed, best = problem.gram.n, problem.centred(), optimum(problem, alpha)
    weights, biases = np.zeros((n, 1 + len(folds))), np.zeros(1 + len(folds))
    without, values, worst = np.zeros(n, dtype=np.intp), np.zeros(n), best.relative_gap or 0.0
    weights[:, 0] = coefficients(problem, best)
    biases[0] = best.bias + posed.gram.constant(weights[:, 0])
    for model, fold in enumerate(folds, 1):
        if not len(fold):  # none of its points is of these classes
            weights[:, model], biases[model] = weights[:, 0], biases[0]
            continue
        out = np.zeros(n, dtype=bool)
        out[fold] = True
        weights[:, model], biases[model], gap = _refitted(problem, posed, best.alpha, out)
        without[fold], worst = model, max(worst, gap)
        values[fold] = posed.gram.matvec(weights[:, model], fold) + biases[model]
    return _gathered(posed, weights, biases, without, values, worst)


def optimum(problem: DualProblem, start: NDArray | None) -> Certificate:
    """The certificate of the optimum, from a start nearby."""
    solution = solve(problem, refine="early", tol=TOL, warm=start)
    return solution.certificate


def _path(
    problem: DualProblem, posed: DualProblem, K: NDArray, alpha: NDArray, b: float
) -> tuple[PointPaths, float] | None:
    """The path to models without a point, and the gap where it begins; None where the problem has none, or it breaks
    off."""
    if problem.d or problem.ridge.any() or not np.isfinite(problem.upper).all():
        return None
    try:
        path = PointPaths(posed, K, alpha, b)
    except (PathError, np.linalg.LinAlgError):
        return None
    weights, b = _read(problem, *path.at_rest())
    gap = float(_judged(problem, posed, K, weights[:, None], np.array([b]), NOBODY)[0])
    return (path, gap) if gap <= TOL else None


def _read(problem: DualProblem, alpha: NDArray, b: float) -> tuple[NDArray, float]:
    """Weights of points, and what is added to their expansion."""
    signed = problem.sigma * alpha
    weights = signed if problem.idx is None else np.bincount(problem.idx, signed, minlength=problem.gram.n)
    return weights, b if problem.e is not None else problem.offset * float(signed.sum())


def _judged(
    problem: DualProblem, posed: DualProblem, K: NDArray, weights: NDArray, biases: NDArray, out: NDArray
) -> NDArray:
    """The relative gap of each model, shape (k,), without the point ``out`` of each, by a product from scratch and the
    dual bound at its own bias; at most `TOL` where it may be round-off."""
    idx = slice(None) if problem.idx is None else problem.idx
    tube = problem.idx is not None
    sigma, p = problem.sigma[:, None], posed.p[:, None]
    upper = np.tile(problem.upper[:, None], weights.shape[1])
    upper[(np.arange(problem.gram.n)[:, None] == out)[idx]] = 0.0
    alpha = np.maximum(sigma * weights[idx], 0.0) if tube else sigma * weights
    rho = sigma * (K @ weights + biases)[idx] - p
    linear = (p * alpha).sum(axis=0)
    quadratic = ((rho + p) * alpha).sum(axis=0) - biases * (sigma * alpha).sum(axis=0) * (problem.e is not None)
    lost = (np.minimum(rho, 0.0) * upper).sum(axis=0)
    known = 64 * _EPS * (np.abs(p) * upper).sum(axis=0)  # what round-off leaves of that
    both = [gaps(f, f_dual) for f, f_dual in zip(0.5 * quadratic - linear, lost - 0.5 * quadratic, strict=True)]
    gap, relative = np.array(both).T.reshape(2, -1)
    found: NDArray = np.where(gap <= known, np.minimum(relative, TOL), relative)
    # What is not feasible may well be below the optimum.
    off = np.maximum(-alpha, alpha - upper).max(axis=0)
    if problem.e is not None:
        off = np.maximum(off, np.abs(weights.sum(axis=0)))
    found[off > INFEASIBLE * np.abs(weights).sum(axis=0)] = np.inf
    return found


def _refitted(problem: DualProblem, posed: DualProblem, alpha: NDArray, out: NDArray) -> tuple[NDArray, float, float]:
    """Weights, bias and relative gap of the model without some points, solved anew."""
    gone = out if problem.idx is None else out[problem.idx]
    rest = replace(problem, upper=np.where(gone, 0.0, problem.upper))
    certificate = optimum(rest, np.where(gone, 0.0, alpha))
    weights = coefficients(rest, certificate)
    weights[out] = 0.0
    return weights, certificate.bias + posed.gram.constant(weights), certificate.relative_gap or 0.0


def _gathered(
    posed: DualProblem, weights: NDArray, biases: NDArray, without: NDArray, values: NDArray, gap: float
) -> Models:
    rows = np.flatnonzero(weights.any(axis=1))
    return Models(KeptGram(posed.gram).subset(rows), rows, weights[rows], biases, without, values, gap)
