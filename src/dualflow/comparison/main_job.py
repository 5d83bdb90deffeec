"""The main job: the same few points to every solver, everyone measured by the same certificate."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .. import problems as models
from .._solve import check_limits
from ..core.kernel_checks import KernelFunction
from ..core.kernels import Gram
from ..core.options import Number
from ..core.psd import REPAIRS
from ..exceptions import ProblemError, near_miss
from ..report import Comparison
from ..solvers import Solver
from .plan import plan
from .repaired import check_repairs
from .rows import ProgressCallback, Rows
from .subsample import Subsample
from .task import Task

__all__ = ["PROBLEMS", "check_names", "compare", "make_task"]

#: Problems that can be compared, with the heading of their section.
PROBLEMS = {
    "hinge": "C-SVM, hinge loss",
    "squared_hinge": "L2-SVM, squared hinge loss",
    "svdd": "Support vector data description",
}

_PACKAGES = ("dualflow", "numpy", "scipy", "scikit-learn", "cvxopt", "qiskit", "qiskit-aer", "pennylane")


def compare(
    X: ArrayLike,
    y: ArrayLike,
    problems: str | Sequence[str] = ("hinge", "squared_hinge", "svdd"),
    solvers: Sequence[str | Solver] | None = None,
    max_n: int = 64,
    *,
    X_test: ArrayLike | None = None,
    y_test: ArrayLike | None = None,
    C: float = 1.0,
    nu: float | None = None,
    fit_intercept: bool | str = True,
    kernel: str | KernelFunction = "rbf",
    gamma: str | float = "scale",
    degree: float = 3,
    coef0: float = 0.0,
    shots: int | None = 10_000,
    devices: Sequence[str] | None = None,
    controls: bool = True,
    studies: bool = False,
    repairs: Sequence[str] | None = REPAIRS,
    inlier_class: Any = None,
    time_limit: float | None = 5.0,
    random_state: int = 0,
    tol: float = 1e-6,
    progress: ProgressCallback | None = None,
) -> Comparison:
    """Put the same points to every solver and rank what each delivers: by its certified raw gap, sampled by its excess.

    One subsample, stratified by class and drawn once, serves every section and solver. Each section is one
    problem with its own CVXOPT reference. A solver that does not apply, is not installed, runs out of time or
    fails is a row with the reason; none is dropped. Quantum solvers run on each device with ``shots``, once with
    exact distributions on the device that is their own default, and in controls in the device's place: a null device,
    random bits and, with shots, a classical sampler. `Row.margin` says how far a row is beyond the first two.

    Parameters
    ----------
    X : array of shape (n, m)
        With kernel="precomputed" the kernel matrix, shape (n, n).
    y : array of shape (n,)
        Two labels of any type. In the two-class sections the larger one is +1.
    problems : sequence of {"hinge", "squared_hinge", "svdd"}
        "svdd" is trained on one class of the subsample and tells inliers from outliers on the held-out points of
        both.
    solvers : sequence of str or Solver, optional
        All of `list_solvers` by default. An instance of a quantum solver is one row on its own device, plus
        controls.
    max_n : int ≥ 2
        Points in the subsample, both classes together.
    X_test, y_test : arrays of shape (k, m) and (k,), optional
        Held-out points; the rest of X by default. With kernel="precomputed" m is n: kernel values with all of X.
    C : float > 0
        scikit-learn's, for both losses; ``np.inf`` is the hard margin.
    nu : float in (0, 1], optional
        Of "svdd"; None is the hard ball.
    fit_intercept : bool or "penalised"
        Of the two-class sections, as of `problems.svc`; False and "penalised" are box duals, which evolution strategies
        solve.
    kernel, gamma, degree, coef0
        As for `Gram`. gamma="scale" is worked out once, on the subsample.
    shots : int ≥ 1 or None
        Per circuit; None for exact distributions throughout.
    devices : sequence of str, optional
        For quantum solvers; "aer" and "pennylane:lightning.qubit" by default.
    controls : bool
        Run the controls too.
    studies : bool
        Include solvers of maturity "study". One named in ``solvers`` always runs.
    repairs : sequence of {"clip", "flip", "shift"} or None
        In a section whose matrix is indefinite only solvers that do without a bound run; beside them stands a row
        for each of these repairs, solved by "working-set" on the repaired kernel, with new points treated alike
        (`dualflow.repair`). Such a section has no reference, and the excess is over its best known objective.
    inlier_class : label, optional
        The class "svdd" describes; the smaller label by default.
    time_limit : float or None, default=5.0
        Seconds a row, None for as long as it takes: a row whose time is up shows what there is by then, and a
        reference whose time is up is none.
    random_state : int ≥ 0
        Of the subsample, of every solver and of the shot floor.
    tol : float > 0
        Certified relative gap at which a run ends.
    progress : callable, optional
        Called as ``progress(rows done, rows in all, what comes next)``.

    Returns
    -------
    Comparison
        On Ctrl-C too, once the problems are posed: with what there is so far, and `Comparison.interrupted` set.

    Raises
    ------
    ProblemError
        Data or a parameter is unusable.
    SolverMismatch
        A name in ``solvers`` is not known.
    """
    names = check_names(problems)
    check_limits(tol, None, time_limit)
    random_state = Number(at_least=0, whole=True).check("random_state", random_state)
    max_n = Number(at_least=2, whole=True).check("max_n", max_n)
    shots = Number(at_least=1, whole=True, none=True).check("shots", shots)
    entries, mending = plan(solvers, shots, devices, controls, studies), check_repairs(repairs)
    pairwise = isinstance(kernel, str) and kernel == "precomputed"
    data = Subsample.split(X, y, X_test, y_test, max_n, random_state, inlier_class, pairwise)
    gram = Gram(data.X, kernel, gamma=gamma, degree=degree, coef0=coef0)
    tasks = [make_task(name, data, gram, C, nu, fit_intercept) for name in names]
    indefinite = [task for task in tasks if task.certifier.psd.kind == "indefinite"]
    total = len(entries) * len(tasks) + len(mending) * len(indefinite)
    run = Rows(shots, random_state, tol, time_limit, progress, total, mending)
    sections = tuple(run.section(task, entries) for task in tasks)
    settings = {
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
        "repairs of indefinite kernels": list(mending) if indefinite else None,
        "shots per circuit": shots,
        "tol": float(tol),
        "time_limit": time_limit,
        "random_state": random_state,
    }
    return Comparison(sections, settings, _versions(), run.interrupted)


def make_task(
    name: str, data: Subsample, gram: Gram, C: float, nu: float | None, fit_intercept: bool | str = True
) -> Task:
    if name != "svdd":
        signs = data.signs(data.y, data.classes[1])
        svc = partial(models.svc, y=signs, C=C, loss=name, fit_intercept=fit_intercept)
        bias = "" if fit_intercept is True else ", penalised bias" if fit_intercept else ", without bias"
        title = f"{PROBLEMS[name]}, C = {C:g}{bias}"
        return Task.of(name, title, svc, gram, data.X_test, data.signs(data.y_test, data.classes[1]))
    # The width of the kernel is the whole subsample's: one kernel for all sections.
    inside = gram.subset(np.flatnonzero(data.y == data.inlier))
    ball = "hard ball" if nu is None else f"ν = {nu:g}"
    title = f"{PROBLEMS[name]}, {ball}, trained on class {data.inlier}"
    svdd = partial(models.svdd, nu=nu)
    return Task.of(name, title, svdd, inside, data.X_test, data.signs(data.y_test, data.inlier))


def check_names(problems: str | Sequence[str]) -> list[str]:
    names = list(dict.fromkeys([problems] if isinstance(problems, str) else problems))
    if not names:
        raise ProblemError(f"problems is empty; choose from {', '.join(PROBLEMS)}")
    for name in names:
        if name not in PROBLEMS:
            raise ProblemError(f"problems: {name!r} is not one of {', '.join(PROBLEMS)}{near_miss(name, PROBLEMS)}")
    return names


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
