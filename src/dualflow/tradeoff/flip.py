"""An indefinite kernel by way of the one with its eigenvalues' absolute values."""

from __future__ import annotations

from dataclasses import replace

from numpy.typing import NDArray

from ..core.kernels import Gram
from ..core.psd import repair
from .front import ParetoFront
from .path import Task

__all__ = ["flipped", "turned_back"]


def flipped(task: Task) -> tuple[Task, NDArray]:
    """The task with the kernel that has the eigenvalues' absolute values (its bias, if inside, too), and the map of
    shape (n, n) that turns coefficients of that kernel into those of the task's with the same values and norm.
    """
    inside = task.fit_intercept == "penalised"
    mended = repair(task.gram.full() + (1.0 if inside else 0.0), "flip")
    assert mended.map is not None
    gram = Gram.precomputed(mended.matrix)
    return replace(task, gram=gram, fit_intercept=False if inside else task.fit_intercept), mended.map


def turned_back(front: ParetoFront, task: Task, back: NDArray) -> ParetoFront:
    """A front of the flipped kernel as one of the task's own: α of any sign, all figures as they are."""
    points = []
    for point in front.points:
        alpha = task.signs * (back @ (task.signs * point.alpha))
        bias = float(task.signs @ alpha) if task.fit_intercept == "penalised" else point.bias
        points.append(replace(point, gram=task.gram, alpha=alpha, bias=bias))
    return replace(front, points=tuple(points), fit_intercept=task.fit_intercept)
