"""What a comparison is about: the problems that data pose, or one that somebody posed already."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import problems as models
from ..core.certificate import Certifier
from ..core.kernel_checks import KernelFunction
from ..core.kernels import Gram
from ..core.options import Number
from ..core.problem import DualProblem
from ..estimators._scatter import RANK_TOL, Scatter
from ..exceptions import ProblemError, near_miss
from .subsample import Subsample
from .task import Task

__all__ = ["PROBLEMS", "as_it_stands", "described", "from_data", "make_task"]

#: Problems that can be compared, with the heading of their section.
PROBLEMS = {
    "hinge": "C-SVM, hinge loss",
    "squared_hinge": "L2-SVM, squared hinge loss",
    "svdd": "Support vector data description",
    "least_squares": "Least-squares SVM",
    "discriminant": "Fisher's discriminant",
}


def from_data(
    X: ArrayLike,
    *,
    y: ArrayLike | None,
    problems: str | Sequence[str],
    max_n: int,
    X_test: ArrayLike | None,
    y_test: ArrayLike | None,
    C: float,
    nu: float | None,
    fit_intercept: bool | str,
    kernel: str | KernelFunction,
    gamma: str | float,
    degree: float,
    coef0: float,
    inlier_class: Any,
    random_state: int,
) -> tuple[list[Task], dict[str, Any]]:
    """A task for each of the problems, on one subsample, and what was chosen."""
    names = check_names(problems)
    max_n = Number(at_least=2, whole=True).check("max_n", max_n)
    if y is None:
        raise ProblemError("y is missing: data need one label a row; only a DualProblem goes without")
    pairwise = isinstance(kernel, str) and kernel == "precomputed"
    data = Subsample.split(X, y, X_test, y_test, max_n, random_state, inlier_class, pairwise)
    gram = Gram(data.X, kernel, gamma=gamma, degree=degree, coef0=coef0)
    tasks = [make_task(name, data, gram, C, nu, fit_intercept) for name in names]
    return tasks, {
        "problems": list(names),
        "training points": data.describe(data.y),
        "held-out points": data.describe(data.y_test),
        "+1 in the two-class sections": data.classes[1],
        "class described by svdd": data.inlier,
        "C": C,
        "nu": nu,
        "fit_intercept": fit_intercept,
        "kernel": kernel if isinstance(kernel, str) else getattr(kernel, "__name__", "callable"),
        "gamma": gram.gamma if gram.kernel in ("rbf", "poly", "sigmoid") else None,
        "degree": degree if gram.kernel == "poly" else None,
        "coef0": coef0 if gram.kernel in ("poly", "sigmoid") else None,
    }


def as_it_stands(problem: DualProblem, given: dict[str, Any], asked: Callable[..., Any]) -> Task:
    """The task of a problem that is posed: nothing ``given`` that would pose another may differ from the default that
    ``asked``, the function called, has for it."""
    defaults = inspect.signature(asked).parameters
    for name, value in given.items():
        default = defaults[name].default
        if value is not default and not (type(value) is type(default) and value == default):
            raise ProblemError(f"{name} goes with data, and the problem is posed already: leave it out")
    own = problem.value()
    title = f"As it was posed, {own.model}"
    return Task(own.model, title, lambda gram: own, Certifier(own), np.empty((0, 1)), np.empty(0))


def described(problem: DualProblem) -> dict[str, Any]:
    """What is known of a posed problem."""
    return {"problem": repr(problem)}


def make_task(
    name: str, data: Subsample, gram: Gram, C: float, nu: float | None, fit_intercept: bool | str = True
) -> Task:
    if name == "discriminant":
        return _discriminant(data, gram)
    if name != "svdd":
        signs = data.signs(data.y, data.classes[1])
        pose: Any = partial(models.svc, loss=name) if name != "least_squares" else models.least_squares
        posed = partial(pose, y=signs, C=C, fit_intercept=fit_intercept)
        bias = "" if fit_intercept is True else ", penalised bias" if fit_intercept else ", without bias"
        title = f"{PROBLEMS[name]}, C = {C:g}{bias}"
        return Task.of(name, title, posed, gram, data.X_test, data.signs(data.y_test, data.classes[1]))
    # The width of the kernel is the whole subsample's: one kernel for all sections.
    inside = gram.subset(np.flatnonzero(data.y == data.inlier))
    ball = "hard ball" if nu is None else f"ν = {nu:g}"
    title = f"{PROBLEMS[name]}, {ball}, trained on class {data.inlier}"
    svdd = partial(models.svdd, nu=nu)
    return Task.of(name, title, svdd, inside, data.X_test, data.signs(data.y_test, data.inlier))


def _discriminant(data: Subsample, gram: Gram) -> Task:
    """That of `LDA`, over the features, whatever the kernel; held-out points are told apart half way between the means,
    as for classes of equal priors."""
    if gram.kernel == "precomputed":
        raise ProblemError("problems: 'discriminant' weighs features, and kernel='precomputed' has none; leave it out")
    second = data.y == data.classes[1]
    share = float(np.mean(second))
    scatter = Scatter.of(data.X, second.astype(int), np.array([1.0 - share, share]), None, RANK_TOL)
    pose = partial(models.discriminant, difference=scatter.differences()[0], ridge=scatter.ridge)
    middle = 0.5 * (scatter.means[0] + scatter.means[1])
    Z = ((data.X_test - middle) / scatter.unit) @ scatter.basis.T
    title = f"{PROBLEMS['discriminant']}, {len(scatter.basis)} features"
    return Task.of(
        "discriminant", title, pose, Gram(scatter.root, "linear"), Z, data.signs(data.y_test, data.classes[1])
    )


def check_names(problems: str | Sequence[str]) -> list[str]:
    names = list(dict.fromkeys([problems] if isinstance(problems, str) else problems))
    if not names:
        raise ProblemError(f"problems is empty; choose from {', '.join(PROBLEMS)}")
    for name in names:
        if name not in PROBLEMS:
            raise ProblemError(f"problems: {name!r} is not one of {', '.join(PROBLEMS)}{near_miss(name, PROBLEMS)}")
    return names
