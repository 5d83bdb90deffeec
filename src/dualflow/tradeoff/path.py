"""The front of ‖w‖² and Σξ as a C-path, certified at its points and between them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.certificate import Certificate, Certifier, certify
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.runtime import clock
from ..core.solution import Status
from ..driver.solve import solve
from ..evolution.fronts import mistakes, sandwich
from .front import FrontStatus, ParetoFront, ParetoPoint

#: Certified relative gap of every solve, far below any tolerance of a front.
SOLVE_TOL = 1e-9
#: If weights differ relatively by less than this, none is added between them. The remaining distance is the solver's
#: gap.
MIN_RELATIVE_STEP = 1e-6


@dataclass(frozen=True)
class FrontTask:
    """The data of a front; ``deadline`` is in seconds of the monotonic clock."""

    gram: Gram
    signs: NDArray
    classes: NDArray
    fit_intercept: bool | str
    C: NDArray
    deadline: float | None

    def problem(self, C: float, weight: NDArray | None = None) -> DualProblem:
        """Return the dual of the hinge loss at C; points of weight 0 are left out."""
        return problems.svc(self.gram, self.signs, C, fit_intercept=self.fit_intercept, sample_weight=weight)

    def time_left(self) -> float | None:
        """Return the seconds left, or None without a limit."""
        return None if self.deadline is None else max(1e-9, self.deadline - time.monotonic())

    def is_late(self) -> bool:
        """Return whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def point(
        self,
        alpha: NDArray,
        bias: float,
        squared_norm: float,
        error: float,
        values: NDArray,
        certificate: Certificate | None,
        C: float | None = None,
    ) -> ParetoPoint:
        """Return a classifier with its ``values`` y·f on the training points, shape (n,)."""
        return ParetoPoint(
            squared_norm=max(0.0, squared_norm),
            error=error,
            mistakes=mistakes(values, self.signs),
            C=C,
            alpha=alpha,
            bias=bias,
            certificate=certificate,
            gram=self.gram,
            signs=self.signs,
            classes=self.classes,
        )


@dataclass
class Path:
    """The solved weights C, rising: α of shape (n,), points, and certified lower bounds of the weighted sum."""

    weights: list[float] = field(default_factory=list)
    alphas: list[NDArray] = field(default_factory=list)
    points: list[ParetoPoint] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    status: FrontStatus = FrontStatus.CERTIFIED

    @property
    def is_stopped(self) -> bool:
        """Whether the time limit ended the path, so that no search should follow."""
        return self.status is FrontStatus.TIME_LIMIT

    def criteria(self) -> NDArray:
        """‖w‖² and Σξ, shape (k, 2)."""
        return np.array([[point.squared_norm, point.error] for point in self.points])


def follow(task: FrontTask, tol: float, max_points: int) -> Path:
    """Solve at each C of the task, then where the bounds are farthest apart, until their distance is ``tol``.

    The warm start at C is interpolated between the two neighbours: the path is piecewise linear in C (Hastie, Rosset,
    Tibshirani, Zhu, JMLR 5 (2004) 1391-1415), so that it is exact where no point changes its set. Bounds are −f(α),
    which by weak duality are below every ½‖w‖² + CΣξ, however far α is from its optimum.
    """
    path, weights_due = Path(), weight_ladder(task.C)
    while True:
        if weights_due:
            C = weights_due.pop(0)
        else:
            known = np.array(path.weights)
            at, distance = sandwich(path.criteria(), known, np.array(path.bounds), task.C[0], task.C[-1])
            is_new = np.abs(at[:, None] - known).min(axis=1) > MIN_RELATIVE_STEP * at
            if distance.max() <= tol:
                break
            if not (is_new & (distance > tol)).any():
                path.status = FrontStatus.SOLVER_GAP
                break
            C = float(at[np.argmax(np.where(is_new, distance, -1.0))])
        if len(path.points) >= max_points:
            path.status = FrontStatus.POINT_LIMIT
            break
        if path.points and task.is_late():
            path.status = FrontStatus.TIME_LIMIT
            break
        if (ended := _add(task, path, C)) is not None:
            path.status = ended
            break
    return path


def weight_ladder(C: NDArray) -> list[float]:
    """Return the given C with steps of at most a decade; warm starts are of little use over larger steps."""
    rungs = [C[:1]]
    for low, high in pairwise(C):
        rungs.append(np.geomspace(low, high, 1 + int(np.ceil(np.log10(high) - np.log10(low) - 1e-9)))[1:])
    return [float(c) for c in np.concatenate(rungs)]


def _add(task: FrontTask, path: Path, C: float) -> FrontStatus | None:
    """Solve at C and insert the point; return the status if a limit ended the solve."""
    k = int(np.searchsorted(path.weights, C))
    warm: ArrayLike | None = None
    if k == len(path.weights) > 0:
        warm = path.alphas[-1] * (C / path.weights[-1])
    elif k > 0:
        t = (C - path.weights[k - 1]) / (path.weights[k] - path.weights[k - 1])
        warm = (1 - t) * path.alphas[k - 1] + t * path.alphas[k]
    problem, ended, left = task.problem(C), None, task.time_left()
    if left is not None:  # the point takes a product beside that of its certificate
        left = max(1e-9, left - Certifier(problem).seconds(problem.upper))
    solution = solve(problem, refine=True, tol=SOLVE_TOL, warm=warm, time_limit=left)
    try:
        with clock.within(task.deadline):
            point, (norm, linear) = _point(task, problem, solution.certificate, C)
        ended = FrontStatus.TIME_LIMIT if solution.raw_status is Status.TIME_LIMIT else None
    except clock.OutOfTime:
        ended = FrontStatus.TIME_LIMIT
        if path.points:
            return ended
        # A front has at least one point: that of w = 0, whose product is 0.
        point, (norm, linear) = _point(task, problem, certify(problem, np.zeros(problem.n)), C)
    path.weights.insert(k, C)
    path.alphas.insert(k, point.alpha)
    path.points.insert(k, point)
    path.bounds.insert(k, max(0.0, linear - 0.5 * norm))
    return ended


def _point(
    task: FrontTask, problem: DualProblem, certificate: Certificate, C: float
) -> tuple[ParetoPoint, tuple[float, float]]:
    """Return the classifier of a certified α, and its αᵀQα and pᵀα."""
    alpha, bias = certificate.alpha, certificate.bias
    Qa = problem.matvec(alpha)
    norm = max(0.0, float(alpha @ Qa))
    # A penalised bias is part of Qα.
    values = Qa + (0.0 if problem.e is None else task.signs * bias)
    slack = float(np.maximum(0.0, 1.0 - values).sum())
    return task.point(alpha, bias, norm, slack, values, certificate, C), (norm, float(problem.p @ alpha))


def bounded(task: FrontTask, path: Path, points: tuple[ParetoPoint, ...], status: FrontStatus) -> ParetoFront:
    """Return the hinge front of these points above the path's supporting lines, with its distance."""
    F = np.array([[point.squared_norm, point.error] for point in points])
    weights, bounds = np.array(path.weights), np.array(path.bounds)
    distance = float(sandwich(F, weights, bounds, task.C[0], task.C[-1])[1].max())
    return ParetoFront(points, "hinge", status, distance, task.fit_intercept, weights, bounds)
