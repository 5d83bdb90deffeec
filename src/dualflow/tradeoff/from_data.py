"""`pareto_front`: from data to a front; an indefinite kernel is replaced by the one with absolute eigenvalues."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.gram import Gram
from ..core.options import Number, OneOf
from ..core.psd import MAX_POINTS_CHECKED, repair
from ..core.runtime.random import generator_of
from ..driver.solve import check_limits, limit_kernel_wait
from ..estimators._validation import exact_labels
from ..evolution.fronts import nondominated
from ..exceptions import ProblemError
from .front import ParetoFront
from .path import FrontTask, bounded, follow
from .search import check_pymoo, searched


def flipped(task: FrontTask) -> tuple[FrontTask, NDArray]:
    """Return the task with the kernel that has absolute eigenvalues (of K + 1 if the bias is penalised), and a map.

    The map, of shape (n, n), turns coefficients of that kernel into those of the task's kernel with the same values and
    norm.
    """
    inside = task.fit_intercept == "penalised"
    repaired = repair(task.gram.full() + (1.0 if inside else 0.0), "flip")
    assert repaired.map is not None
    gram = Gram.precomputed(repaired.matrix)
    return replace(task, gram=gram, fit_intercept=False if inside else task.fit_intercept), repaired.map


def mapped_back(front: ParetoFront, task: FrontTask, map_back: NDArray) -> ParetoFront:
    """Return a front of the flipped kernel as one of the task's own kernel: α of any sign, criteria unchanged."""
    points = []
    for point in front.points:
        alpha = task.signs * (map_back @ (task.signs * point.alpha))
        bias = float(task.signs @ alpha) if task.fit_intercept == "penalised" else point.bias
        points.append(replace(point, gram=task.gram, alpha=alpha, bias=bias))
    return replace(front, points=tuple(points), fit_intercept=task.fit_intercept)


def pareto_front(
    X: ArrayLike,
    y: ArrayLike,
    *,
    errors: str = "hinge",
    kernel: Any = "rbf",
    gamma: str | float = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    C: ArrayLike = (1e-2, 1e3),
    fit_intercept: bool | str = True,
    indefinite: str = "flip",
    tol: float = 1e-2,
    max_points: int = 200,
    population: int = 100,
    generations: int = 200,
    random_state: int | np.random.Generator | None = 0,
    time_limit: float | None = None,
) -> ParetoFront:
    """Return the classifiers for which no other has both a larger margin and a smaller training error.

    Parameters
    ----------
    X : array of shape (n, m)
        Training data; the kernel matrix of shape (n, n) for ``kernel="precomputed"``.
    y : array of shape (n,)
        Labels of two classes.
    errors : {"hinge", "zero-one"}
        The second criterion: Σξᵢ, ξᵢ = max(0, 1 − yᵢf(xᵢ)), or the number of points with yᵢf(xᵢ) < 1, those left out
        of a margin that all others keep. (The number of wrong signs would not do: w → 0 changes no sign.)
    kernel, gamma, degree, coef0
        As for `Gram`. The kernel may be indefinite.
    C : increasing numbers > 0, at least two
        Range of the weight of the error; the weights given are solved in any case. A search uses the box [0, max C].
    fit_intercept : bool or "penalised"
        As for `problems.svc`.
    indefinite : {"flip", "raw"}
        Treatment of a kernel that is not positive semidefinite. "flip": coefficients yᵢαᵢ may have any sign, and the
        front is that of the flipped kernel. "raw": α in the box [0, max C], searched for both errors.
    tol : float > 0
        `ParetoFront.distance` to reach for a certified front, relative.
    max_points : int
        Maximum number of points of a certified front.
    population, generations : int
        Size and number of generations of a search by NSGA-II.
    random_state : int, numpy.random.Generator or None
        Seed of a search. The same seed gives the same front.
    time_limit : float, optional
        Seconds; after that the points so far are returned.

    Returns
    -------
    ParetoFront

    Raises
    ------
    ProblemError
        The data or an argument is out of range.
    FitError
        ``time_limit`` was over before the kernel, a callable or a device, had returned its values.
    SolverUnavailable
        A search is needed, and pymoo is not installed: ``pip install 'dualflow[evolution]'``.

    Notes
    -----
    **Hinge, positive semidefinite kernel.** Both criteria are convex in (w, b), so that every point of the front has
    the least ½‖w‖² + CΣξ for some C: the front is the C-path, and no search is needed. It is solved at rising C, each
    from the solutions beside it. Every solution is a point of the front, and its dual value gives a supporting line
    below which no point can lie. Mixtures of two neighbours lie between them. The next C is the one at which the two
    bounds are farthest apart (`evolution.fronts`).

    **Number of points.** Not convex: the choice of the points to leave out is combinatorial. NSGA-II searches α in the
    box [0, max C], with the best bias for each, starting from the points of the C-path (one matrix product evaluates a
    population). Two steps follow in turn until nothing improves: along each α found, and for each number of points left
    out, the choice of them and the scale that leave the widest margin; and for each choice the largest margin of all α,
    a convex problem, certified. No point of the path has a smaller ‖w‖² at its count (to 3e-6 relative: margins within
    1e-6 of 1 count as 1 there). It is not claimed that no better choice of points exists; the two steps bring most of
    the improvement.

    **Indefinite kernels.** αᵀQα is not a norm: it is negative somewhere, and 0 for classifiers that separate the
    classes, so that the margin would be infinite. Used instead is αᵀ|Q|α with absolute eigenvalues: the squared norm of
    the Hilbert space that majorises the kernel's Krein space, and ‖w‖² for a positive semidefinite kernel. With it
    β ↦ Jβ, J = sign(K), turns coefficients for |K| into coefficients for K with the same values on the training points,
    |K|β = K(Jβ), and the same norm. So all classifiers Σβᵢk(xᵢ, x) + b with this kernel have the front of
    ``repair(K, "flip")``, which for the hinge is a certified C-path; new points are classified by K itself. Mierswa's
    α (eq. 31-33) have the sign of the class. "raw" keeps this restriction, and NSGA-II searches these α, starting from
    stationary points of the dual at rising C. They are fewer, so that their front lies on or above the other, which
    bounds it from below (`ParetoFront.lower_bound`, for the hinge).

    Examples
    --------
    >>> from dualflow import pareto_front
    >>> front = pareto_front([[0.0], [1.0], [3.0], [4.0]], [0, 0, 1, 1], kernel="linear")
    >>> front.distance <= 1e-2, front.points[-1].margin, front.points[-1].error
    (True, 1.0, 0.0)
    """
    check_limits(tol, None, time_limit)
    Number(at_least=2, whole=True).check("max_points", max_points)
    Number(at_least=4, whole=True).check("population", population)
    Number(at_least=1, whole=True).check("generations", generations)
    OneOf(words=("hinge", "zero-one")).check("errors", errors)
    OneOf(words=("flip", "raw")).check("indefinite", indefinite)
    started, rng = time.monotonic(), generator_of(random_state)
    with limit_kernel_wait(time_limit):
        gram = Gram(X, kernel, gamma=gamma, degree=degree, coef0=coef0)
        signs, classes = _two_classes(y, gram.n)
        deadline = None if time_limit is None else started + time_limit
        task = FrontTask(gram, signs, classes, fit_intercept, _check_weights(C), deadline)

        def front_of(task: FrontTask) -> ParetoFront:
            if errors == "zero-one":
                check_pymoo()
            path = follow(task, tol, max_points)
            if errors == "hinge":
                points = tuple(path.points[k] for k in nondominated(path.criteria()))
                return bounded(task, path, points, path.status)
            return searched(task, errors, path, population, generations, rng)

        evidence = task.problem(float(task.C[-1])).psd
        if evidence.kind == "unknown" or (gram.n > MAX_POINTS_CHECKED and not (errors == "hinge" and evidence.is_psd)):
            raise ProblemError(
                f"X has {gram.n} points; a search, or a kernel without guarantee, takes at most {MAX_POINTS_CHECKED}: "
                "subsample"
            )
        if evidence.is_psd:
            return front_of(task)
        flipped_task, map_back = flipped(task)
        if indefinite == "flip":
            return mapped_back(front_of(flipped_task), task, map_back)
        check_pymoo()
        path = follow(flipped_task, tol, max_points)
        return searched(task, errors, path, population, generations, rng, flipped_task.gram.full())


def _two_classes(y: ArrayLike, n: int) -> tuple[NDArray, NDArray]:
    """Return signs of shape (n,), and the two classes, that of sign +1 last."""
    labels = np.asarray(exact_labels(y))
    if labels.shape != (n,):
        raise ProblemError(f"y has shape {labels.shape}, X has {n} points; one label a point is needed")
    if labels.dtype.kind == "f" and not np.isfinite(labels).all():
        raise ProblemError("y contains NaN or infinity; give every point a label")
    if labels.dtype.kind == "O" and len({type(label) for label in labels.tolist()}) > 1:
        raise ProblemError("y mixes labels of several types; use one")
    try:
        classes = np.unique(labels)
    except TypeError:
        raise ProblemError(
            f"y holds labels of type {type(labels[0]).__name__}; numbers or strings are needed"
        ) from None
    if len(classes) != 2:
        raise ProblemError(f"y holds {len(classes)} classes, a front of margin and error is of two; pick a pair")
    return np.where(labels == classes[1], 1.0, -1.0), classes


def _check_weights(C: ArrayLike) -> NDArray:
    """Return C as an array; raise `ProblemError` unless it holds at least two increasing positive numbers."""
    try:
        weights = np.asarray(C, dtype=float)
    except (TypeError, ValueError):
        raise ProblemError(f"C={C!r} must be increasing numbers > 0, at least two: the range, or a grid") from None
    is_valid = weights.ndim == 1 and len(weights) > 1 and (weights > 0).all() and np.isfinite(weights).all()
    if not is_valid or not (np.diff(weights) > 0).all():
        raise ProblemError(f"C={C!r} must be increasing finite numbers > 0, at least two: the range, or a grid")
    return weights
