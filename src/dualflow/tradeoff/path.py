"""The front of ‖w‖² and Σξ: the C-path, certified between its points as well as at them."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.certificate import Certificate
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.solution import Status
from ..driver.solve import solve
from ..evolution.fronts import mistakes, sandwich
from .front import FrontStatus, ParetoFront, ParetoPoint

__all__ = ["Path", "Task", "bounded", "follow", "ladder"]

#: Certified relative gap of every solve: far below any tolerance of a front.
TOL = 1e-9
#: Weights closer than this, relative, are not told apart: what is left there is the solver's own gap.
NEAR = 1e-6


@dataclass(frozen=True)
class Task:
    """The data, as every part of a front needs them; ``deadline`` in seconds of the monotonic clock."""

    gram: Gram
    signs: NDArray
    classes: NDArray
    fit_intercept: bool | str
    C: NDArray
    deadline: float | None

    def problem(self, C: float, weight: NDArray | None = None) -> DualProblem:
        """The dual of the hinge loss at C; points of weight 0 left out."""
        return problems.svc(self.gram, self.signs, C, fit_intercept=self.fit_intercept, sample_weight=weight)

    def time_left(self) -> float | None:
        """Seconds, or None without a limit."""
        return None if self.deadline is None else max(1e-9, self.deadline - time.monotonic())

    def late(self) -> bool:
        """Whether the time is up."""
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
        """A classifier, with its ``values`` y·f on the training points, shape (n,)."""
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
    """What has been solved, by rising C: α of shape (n,), points, and certified bounds on the weighted sum."""

    weights: list[float] = field(default_factory=list)
    alphas: list[NDArray] = field(default_factory=list)
    points: list[ParetoPoint] = field(default_factory=list)
    bounds: list[float] = field(default_factory=list)
    status: FrontStatus = FrontStatus.CERTIFIED

    @property
    def stopped(self) -> bool:
        """Whether a limit of the whole run ended it, so that nothing should follow."""
        return self.status is FrontStatus.TIME_LIMIT

    def criteria(self) -> NDArray:
        """‖w‖² and Σξ, shape (k, 2)."""
        return np.array([[point.squared_norm, point.error] for point in self.points])


def follow(task: Task, tol: float, max_points: int) -> Path:
    """Solve at each C of the task, then where the front is known worst, until it is known to ``tol``.

    Between two neighbours α is interpolated for the warm start: the path is piecewise linear in C (Hastie, Rosset,
    Tibshirani, Zhu, JMLR 5 (2004) 1391-1415), so that it is exact where no point changes its set. Bounds are −f(α),
    which weak duality puts below every ½‖w‖² + CΣξ, however far α is from its optimum.
    """
    path, due = Path(), ladder(task.C)
    while True:
        if due:
            C = due.pop(0)
        else:
            known = np.array(path.weights)
            at, distance = sandwich(path.criteria(), known, np.array(path.bounds), task.C[0], task.C[-1])
            fresh = np.abs(at[:, None] - known).min(axis=1) > NEAR * at
            if distance.max() <= tol:
                break
            if not (fresh & (distance > tol)).any():
                path.status = FrontStatus.SOLVER_GAP
                break
            C = float(at[np.argmax(np.where(fresh, distance, -1.0))])
        if len(path.points) >= max_points:
            path.status = FrontStatus.POINT_LIMIT
            break
        if path.points and task.late():
            path.status = FrontStatus.TIME_LIMIT
            break
        if (stopped := _add(task, path, C)) is not None:
            path.status = stopped
            break
    return path


def ladder(C: NDArray) -> list[float]:
    """The C asked for, with steps of at most a decade: no warm start reaches much further."""
    rungs = [C[:1]]
    for low, high in pairwise(C):
        rungs.append(np.geomspace(low, high, 1 + int(np.ceil(np.log10(high) - np.log10(low) - 1e-9)))[1:])
    return [float(c) for c in np.concatenate(rungs)]


def _add(task: Task, path: Path, C: float) -> FrontStatus | None:
    """Solve at C, put the point in its place, and say what ended the solve if that was a limit."""
    k = int(np.searchsorted(path.weights, C))
    warm: ArrayLike | None = None
    if k == len(path.weights) > 0:
        warm = path.alphas[-1] * (C / path.weights[-1])
    elif k > 0:
        t = (C - path.weights[k - 1]) / (path.weights[k] - path.weights[k - 1])
        warm = (1 - t) * path.alphas[k - 1] + t * path.alphas[k]
    problem = task.problem(C)
    solution = solve(problem, refine=True, tol=TOL, warm=warm, time_limit=task.time_left())
    certificate = solution.certificate
    point, (norm, linear) = _point(task, problem, certificate, C)
    path.weights.insert(k, C)
    path.alphas.insert(k, certificate.alpha)
    path.points.insert(k, point)
    path.bounds.insert(k, max(0.0, linear - 0.5 * norm))
    return FrontStatus.TIME_LIMIT if solution.raw_status is Status.TIME_LIMIT else None


def _point(
    task: Task, problem: DualProblem, certificate: Certificate, C: float
) -> tuple[ParetoPoint, tuple[float, float]]:
    """The classifier of a certified α, and its αᵀQα and pᵀα."""
    alpha, bias = certificate.alpha, certificate.bias
    Qa = problem.matvec(alpha)
    norm = max(0.0, float(alpha @ Qa))
    # A bias inside the kernel is in Qα already.
    values = Qa + (0.0 if problem.e is None else task.signs * bias)
    slack = float(np.maximum(0.0, 1.0 - values).sum())
    return task.point(alpha, bias, norm, slack, values, certificate, C), (norm, float(problem.p @ alpha))


def bounded(task: Task, path: Path, points: tuple[ParetoPoint, ...], status: FrontStatus) -> ParetoFront:
    """The hinge front of these points above the path's supporting lines, and how far it is known."""
    F = np.array([[point.squared_norm, point.error] for point in points])
    weights, bounds = np.array(path.weights), np.array(path.bounds)
    distance = float(sandwich(F, weights, bounds, task.C[0], task.C[-1])[1].max())
    return ParetoFront(points, "hinge", status, distance, task.fit_intercept, weights, bounds)
