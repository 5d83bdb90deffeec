"""The tasks of a comparison: a subsample of two classes, and the problems defined on it, or one given DualProblem."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems as models
from ..core.certificate import Certifier
from ..core.gram import Gram
from ..core.kernel_functions import KernelFunction, as_matrix
from ..core.named_kernels import named
from ..core.options import Number
from ..core.problem import DualProblem
from ..estimators._validation import class_weights, exact_labels
from ..estimators.lda import RANK_TOL, Scatter
from ..exceptions import ProblemError, did_you_mean


@dataclass(frozen=True)
class Subsample:
    """Training points, held-out points, and the two labels."""

    #: X, y: the subsample; shapes (n, m) and (n,).
    X: NDArray
    y: NDArray
    #: X_test, y_test: held-out points; shapes (k, m) and (k,).
    X_test: NDArray
    y_test: NDArray
    classes: list[Any]  # list of two labels, sorted
    inlier: Any  # the class on which svdd is trained; label

    @classmethod
    def split(
        cls,
        X: ArrayLike,
        y: ArrayLike,
        X_test: ArrayLike | None,
        y_test: ArrayLike | None,
        max_n: int,
        random_state: int,
        inlier: Any,
        pairwise: bool = False,
    ) -> Subsample:
        """Return a stratified subsample of at most ``max_n`` points; the rest, or X_test, is held out.

        With ``pairwise`` X is a kernel matrix: its columns are points too, and those of the subsample are kept.
        """
        points = as_matrix(X, "X")
        if pairwise and points.shape[0] != points.shape[1]:
            raise ProblemError(
                f"X: with kernel='precomputed' it is the kernel matrix and must be square, found shape {points.shape}"
            )
        labels = _labels(y, len(points), "y", "X")
        classes = _two_classes(labels)
        inlier = classes[0] if inlier is None else inlier
        if inlier not in classes:
            raise ProblemError(f"inlier_class={inlier!r} is not a label of y ({classes[0]!r}, {classes[1]!r})")
        chosen = stratified(labels == classes[1], max_n, np.random.default_rng(random_state))
        if (X_test is None) != (y_test is None):
            raise ProblemError("X_test and y_test go together; one of them is missing")
        if X_test is not None and y_test is not None:
            held_out, held_labels = as_matrix(X_test, "X_test"), _labels(y_test, len(X_test), "y_test", "X_test")  # type: ignore[arg-type]
            if held_out.shape[1] != points.shape[1]:
                raise ProblemError(f"X_test has {held_out.shape[1]} features, X has {points.shape[1]}")
            unknown = set(held_labels.tolist()) - set(classes)
            if unknown:
                raise ProblemError(f"y_test has labels that y does not have: {', '.join(map(repr, sorted(unknown)))}")
        else:
            rest = np.setdiff1d(np.arange(len(points)), chosen)
            held_out, held_labels = points[rest], labels[rest]
        columns = chosen if pairwise else slice(None)
        return cls(points[chosen][:, columns], labels[chosen], held_out[:, columns], held_labels, classes, inlier)

    def signs(self, labels: NDArray, positive: Any) -> NDArray:
        """Return +1 where a label is the positive one, else −1; shape (len(labels),)."""
        return np.where(labels == positive, 1.0, -1.0)

    def describe(self, labels: NDArray) -> str:
        """Return the number of points in all and of each class, as text."""
        counts = ", ".join(f"{int(np.sum(labels == label))} of class {label}" for label in self.classes)
        return f"{len(labels)} ({counts})"


def stratified(second: NDArray, max_n: int, rng: np.random.Generator) -> NDArray:
    """Return sorted indices of at most ``max_n`` points, both classes in proportion, at least one point of each."""
    members = [np.flatnonzero(~second), np.flatnonzero(second)]
    if len(second) <= max_n:
        return np.arange(len(second))
    first = int(np.clip(round(max_n * len(members[0]) / len(second)), 1, max_n - 1))
    sizes = first, max_n - first
    picks = [rng.choice(group, size=size, replace=False) for group, size in zip(members, sizes, strict=True)]
    return np.sort(np.concatenate(picks))


def _labels(y: ArrayLike, n: int, name: str, data: str) -> NDArray:
    labels = np.asarray(exact_labels(y, name))
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.shape != (n,):
        raise ProblemError(f"{name} has shape {labels.shape}, {data} has {n} rows; each row needs one label")
    if labels.dtype.kind == "O":
        types = sorted({type(label).__name__ for label in labels})
        if len(types) > 1:
            raise ProblemError(f"{name} mixes labels of types {', '.join(types)}; use one type")
        if types == ["str"]:
            labels = labels.astype(str)
    if labels.dtype.kind in "fc" and not np.isfinite(labels).all():
        raise ProblemError(f"{name} contains NaN or infinity; drop those rows")
    if labels.dtype.kind not in "biufUS":
        raise ProblemError(f"{name} holds labels of dtype {labels.dtype}; numbers or strings are needed")
    return labels


def _two_classes(labels: NDArray) -> list[Any]:
    classes = np.unique(labels).tolist()
    if len(classes) == 2:
        return classes
    if len(classes) < 2:
        raise ProblemError(f"y has a single class, {classes[0]!r}; two are needed")
    shown = ", ".join(map(repr, classes[:6])) + (", …" if len(classes) > 6 else "")
    raise ProblemError(
        f"y has {len(classes)} classes ({shown}); a comparison needs two: choose them with "
        f"keep = np.isin(y, [{classes[0]!r}, {classes[1]!r}]) and pass X[keep], y[keep]"
    )


@dataclass(frozen=True)
class Task:
    """The task of one section: its problem, its certifier, and held-out points."""

    name: str
    title: str
    make: Callable[[Gram], DualProblem]  # defines the problem on a `Gram`
    certifier: Certifier  # certifies the answers of all rows
    Z: NDArray  # held-out points; shape (k, m)
    signs: NDArray  # their true signs, ±1; shape (k,)

    @property
    def problem(self) -> DualProblem:
        """The problem that every row solves."""
        return self.certifier.problem

    @classmethod
    def of(
        cls, name: str, title: str, make: Callable[[Gram], DualProblem], gram: Gram, Z: NDArray, signs: NDArray
    ) -> Task:
        """Return the task on a kernel.

        It has no held-out points if the model needs their own kernel values, which a kernel matrix does not hold.
        """
        problem = make(gram)
        if gram.kernel == "precomputed" and problem.reading.needs_self_kernel:
            Z, signs = Z[:0], signs[:0]
        return cls(name, title, make, Certifier(problem), Z, signs)


#: The problems that can be compared, and the titles of their sections.
PROBLEMS = {
    "hinge": "C-SVM, hinge loss",
    "squared_hinge": "L2-SVM, squared hinge loss",
    "svdd": "Support vector data description",
    "least_squares": "Least-squares SVM",
    "discriminant": "Fisher's discriminant",
}


def tasks_from_data(
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
    weights_of: Callable[[Subsample, Gram], Any] | None = None,
) -> tuple[list[Task], dict[str, Any]]:
    """Return a task for each problem, all on one subsample, and the settings that the report shows.

    ``weights_of`` returns the class weights for a subsample and its kernel.
    """
    names = checked_problems(problems)
    max_n = Number(at_least=2, whole=True).check("max_n", max_n)
    if y is None:
        raise ProblemError("y is missing: each row of X needs a label; only a DualProblem is compared without y")
    pairwise = isinstance(kernel, str) and kernel == "precomputed"
    data = Subsample.split(X, y, X_test, y_test, max_n, random_state, inlier_class, pairwise)
    gram = Gram(data.X, kernel, gamma=gamma, degree=degree, coef0=coef0)
    parameters = named(gram.kernel).parameters
    weights = None if weights_of is None else weights_of(data, gram)
    tasks = [make_task(name, data, gram, C, nu, fit_intercept, weights) for name in names]
    return tasks, {
        "problems": list(names),
        "training points": data.describe(data.y),
        "held-out points": data.describe(data.y_test),
        "class +1": data.classes[1],
        "class described by svdd": data.inlier if "svdd" in names else None,
        "C": C,
        "class weights": weights_text(weights),
        "nu": nu,
        "fit_intercept": fit_intercept,
        "kernel": kernel if isinstance(kernel, str) else getattr(kernel, "__name__", "callable"),
        "gamma": gram.gamma if "gamma" in parameters else None,
        "degree": degree if "degree" in parameters else None,
        "coef0": coef0 if "coef0" in parameters else None,
    }


def given_task(problem: DualProblem, given: dict[str, Any], function: Callable[..., Any]) -> Task:
    """Return the task of a given problem.

    Raise ProblemError if an argument in ``given``, which defines a problem from data, is not ``function``'s default.
    """
    defaults = inspect.signature(function).parameters
    for name, value in given.items():
        default = defaults[name].default
        if value is not default and not (type(value) is type(default) and value == default):
            raise ProblemError(f"{name} must not be given with a DualProblem, which defines it already; leave it out")
    own = problem.frozen_copy()
    title = f"As it was posed, {own.model}"
    return Task(own.model, title, lambda gram: own, Certifier(own), np.empty((0, 1)), np.empty(0))


def given_settings(problem: DualProblem) -> dict[str, Any]:
    """Return the settings that the report shows for a given problem."""
    return {"problem": repr(problem)}


def make_task(
    name: str,
    data: Subsample,
    gram: Gram,
    C: float,
    nu: float | None,
    fit_intercept: bool | str = True,
    class_weight: Any = None,
) -> Task:
    """Return the task of one problem; ``class_weight`` multiplies C for the points of a class."""
    if name == "discriminant":
        return _discriminant(data, gram)
    if name != "svdd":
        signs = data.signs(data.y, data.classes[1])
        pose: Any = partial(models.svc, loss=name) if name != "least_squares" else models.least_squares
        posed = partial(
            pose, y=signs, C=C, fit_intercept=fit_intercept, sample_weight=point_weights(class_weight, data.y)
        )
        weighted = f", {weights_text(class_weight)} weights" if class_weight is not None else ""
        bias = "" if fit_intercept is True else ", penalised bias" if fit_intercept else ", without bias"
        title = f"{PROBLEMS[name]}, C = {C:g}{weighted}{bias}"
        return Task.of(name, title, posed, gram, data.X_test, data.signs(data.y_test, data.classes[1]))
    # gamma is that of the whole subsample, so that all sections have the same kernel.
    inside = gram.subset(np.flatnonzero(data.y == data.inlier))
    ball = "hard ball" if nu is None else f"ν = {nu:g}"
    title = f"{PROBLEMS[name]}, {ball}, trained on class {data.inlier}"
    svdd = partial(models.svdd, nu=nu)
    return Task.of(name, title, svdd, inside, data.X_test, data.signs(data.y_test, data.inlier))


def weights_text(class_weight: Any) -> str | None:
    """Return class weights as text, None without weights."""
    if isinstance(class_weight, dict):
        return ", ".join(f"{label}={weight:g}" for label, weight in class_weight.items())
    return class_weight


def point_weights(class_weight: Any, y: NDArray) -> NDArray | None:
    """Return the weight of each point, shape (n,); None without class weights."""
    if class_weight is None:
        return None
    classes, codes = np.unique(y, return_inverse=True)
    return class_weights(class_weight, classes, y)[codes]


def _discriminant(data: Subsample, gram: Gram) -> Task:
    """Return the task of Fisher's discriminant, over the features and without a kernel, as in `LDA`.

    The decision boundary lies half way between the two means, as for classes of equal priors.
    """
    if gram.kernel == "precomputed":
        raise ProblemError("problems: 'discriminant' needs features, and kernel='precomputed' has none; leave it out")
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


def checked_problems(problems: str | Sequence[str]) -> list[str]:
    names = list(dict.fromkeys([problems] if isinstance(problems, str) else problems))
    if not names:
        raise ProblemError(f"problems is empty; choose from {', '.join(PROBLEMS)}")
    for name in names:
        if name not in PROBLEMS:
            raise ProblemError(f"problems: {name!r} is not one of {', '.join(PROBLEMS)}{did_you_mean(name, PROBLEMS)}")
    return names
