"""`compare`: run every solver on the same points and measure all answers by the same certificate."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..core.gram import Gram
from ..core.kernel_functions import KernelFunction
from ..core.options import Number
from ..core.problem import DualProblem
from ..core.psd import REPAIRS
from ..core.runtime.clock import keeping_interrupts
from ..driver.solve import check_limits, limit_kernel_wait
from ..exceptions import ProblemError, did_you_mean
from ..planning.estimate import duration_text
from ..report import Comparison
from ..report.scores import SCORES, ModelScore, best_model
from ..solvers import Solver
from .models import AUTO_WEIGHTS, model_kernels, score_models
from .plan import OWN_SHOTS, Entry, plan, planned_shots
from .repairs import check_repairs
from .rows import ProgressCallback, RowRunner, refusal
from .tasks import Subsample, Task, given_settings, given_task, tasks_from_data


def announcement(
    tasks: Sequence[Task],
    entries: Sequence[Entry],
    repairs: int,
    time_limit: float | None,
    total: float | None = None,
    seeds: int = 1,
) -> str:
    """Return one sentence: the number of problems, the number of runs, and their maximum time together.

    ``repairs`` is the number of rows on repaired kernels; a sampled row runs with each of ``seeds`` seeds. Rows that do
    not apply take no time and are not counted.
    """
    apply = {
        (number, entry.group): refusal(entry, task.certifier) is None
        for number, task in enumerate(tasks)
        for entry in {entry.group: entry for entry in entries}.values()
    }
    found = [
        entry
        for number, _ in enumerate(tasks)
        for entry in entries
        for _ in range(seeds if entry.sampled else 1)
        if apply[number, entry.group]
    ]
    circuits = sum(entry.role in ("quantum", "emulated", "control") for entry in found)
    rows = len(found) + repairs
    text = f"{_counted(len(tasks), 'problem')}, {_counted(rows, 'run')}"
    text += f", {circuits} of them on devices and their controls" if circuits else ""
    if total is not None and (time_limit is None or total < rows * time_limit):
        return f"{text}; no run begins after {duration_text(total)}."
    if time_limit is None:
        return f"{text}; there is no time limit."
    all_rows = duration_text(rows * time_limit)
    return f"{text}; each run takes at most {duration_text(time_limit)}, all together at most {all_rows}."


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


#: Points up to which solvers that factorise an n × n matrix run beside `models`: with 4000 points a step of qpsolvers'
#: default takes 20 s, one of cvxopt 5 s, and neither can be stopped within it.
MAX_DENSE_N = 2000
TOTAL_TIME_LIMIT = Number(above=0, none=True, note="(in seconds)")
_PACKAGES = ("dualflow", "numpy", "scipy", "scikit-learn", "cvxopt", "qiskit", "qiskit-aer", "pennylane")


@keeping_interrupts()
def compare(
    X: ArrayLike | DualProblem,
    y: ArrayLike | None = None,
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
    shots: int | str | None = OWN_SHOTS,
    devices: Sequence[str] | None = None,
    controls: bool = True,
    studies: bool = False,
    circuits: bool = True,
    repairs: Sequence[str] | None = REPAIRS,
    inlier_class: Any = None,
    time_limit: float | None = 2.0,
    total_time_limit: float | None = None,
    random_state: int = 0,
    seeds: int = 1,
    tol: float = 1e-6,
    class_weight: Any = None,
    models: bool = False,
    positive: Any = None,
    scoring: str = "balanced_accuracy",
    progress: ProgressCallback | None = None,
    announce: Callable[[str], object] | None = None,
) -> Comparison:
    """Compare solvers on the same points, or on one problem.

    Rows that met the tolerance are ranked by time. The others are ranked by raw gap, or by excess if a row of the
    section is sampled.

    One subsample, stratified by class and drawn once, serves every section and solver. Each section is one
    problem with its own CVXOPT reference. A solver that does not apply, is not installed, runs out of time or
    fails is a row with the reason; none is left out. Quantum solvers run on each device with ``shots``, once with
    exact distributions on their default device, and once on each control, which replaces the device: a null device,
    random bits and, with shots, a classical sampler. `Row.margin` compares a row with the first two controls.

    Parameters
    ----------
    X : array of shape (n, m), or DualProblem
        With kernel="precomputed" the kernel matrix, shape (n, n). A DualProblem of any model becomes the only section:
        it has no held-out points and no repairs, and the parameters that define a problem (y, problems, max_n, C, nu,
        the kernel, …) must not be given with it.
    y : array of shape (n,)
        Two labels of any type. In the two-class sections the larger one is +1.
    problems : sequence of {"hinge", "squared_hinge", "svdd", "least_squares", "discriminant"}
        "svdd" is trained on one class of the subsample, and its accuracy is measured on the held-out points of both.
        "least_squares" and "discriminant" have no bounds, so only "gradient-flow", "cvxopt", "qpsolvers" and one study
        (at most 16 points) solve them. "discriminant" is Fisher's: its variables are weights of the features, and it
        has no kernel, no C and equal priors.
    solvers : sequence of str or Solver, optional
        All of `list_solvers` by default. An instance of a quantum solver is one row on its own device, plus
        controls.
    max_n : int ≥ 2
        Number of points in the subsample, both classes together.
    X_test, y_test : arrays of shape (k, m) and (k,), optional
        Held-out points; the rest of X by default. With kernel="precomputed" m is n: kernel values with all of X.
    C : float > 0
        As in scikit-learn, for all losses; ``np.inf`` is the hard margin, which "least_squares" does not have.
    nu : float in (0, 1], optional
        Outlier fraction of "svdd"; None is the hard ball.
    fit_intercept : bool or "penalised"
        For the two-class sections, as in `problems.svc`; False and "penalised" give box duals, which evolution
        strategies can solve.
    kernel, gamma, degree, coef0
        As for `Gram`. gamma="scale" is computed once, on the subsample.
    shots : int ≥ 1, None, or "own", default="own"
        Shots per circuit; None gives exact distributions for all rows. A number or None also overrides the ``shots``
        of solver instances. "own" leaves instances as they are, and takes 10 000 for solvers by name.
    devices : sequence of str, optional
        Devices of the quantum solvers; "aer" and "pennylane:lightning.qubit" by default.
    controls : bool
        Run the controls too.
    studies : bool
        Include solvers of maturity "study". One named in ``solvers`` always runs.
    circuits : bool
        Include solvers that run circuits, unless ``solvers`` names the solvers.
    repairs : sequence of {"clip", "flip", "shift"} or None
        In a section with an indefinite matrix only solvers that need no dual bound run. The section also gets a row for
        each of these repairs: "working-set" solves the problem with the repaired kernel, and new points are repaired
        alike (`dualflow.repair`). Such a section has no reference; its excess is relative to the best known objective.
    inlier_class : label, optional
        The class on which "svdd" is trained; the smaller label by default.
    time_limit : float or None, default=2.0
        Seconds for each row; None is no limit. A row that reaches the limit shows its answer so far; a reference that
        reaches it is not used. Each solver first runs one step on four points. If that reaches its limit (half of
        ``time_limit``, at most a second), its time is charged to the row.
    total_time_limit : float, optional
        Seconds for all rows together; rows that have not begun by then are not run, which their reason says.
    random_state : int ≥ 0
        Seed of the subsample, of every solver and of the shot floor.
    seeds : int ≥ 1
        Runs of each sampled row, controls too, with seeds random_state, random_state + 1, …: the row has the median and
        the quartiles of their gaps and excesses, which `ComparisonDisplay` and the report draw as error bars. Rows that
        draw no random numbers run once.
    tol : float > 0
        Certified relative gap at which a run stops.
    class_weight : None, "balanced", "auto" or dict by label
        Factors of C for the points of a class, as in `SVC`. "auto" needs ``models``: it takes those of the model with
        the best score, "balanced" or none, and tries "balanced" only if one class has at least 60 % of the points.
    models : bool
        Also score models on the held-out points: the larger class, scikit-learn's `SVC` and dualflow's, with the class
        weights of ``class_weight``. `Comparison.models` holds the scores, and the verdict begins with them. It needs a
        kernel that both packages name, a finite C and an intercept. Solvers that factorise a matrix of n × n, cvxopt
        among them, then run up to 2000 points only, unless they are named in ``solvers``.
    positive : label, optional
        The class whose recall and precision are given; the rarer one by default.
    scoring : {"balanced_accuracy", "accuracy", "recall", "precision", "f1", "average_precision", "roc_auc"}
        The score by which models are compared.
    progress : callable, optional
        Called as ``progress(rows done, rows in all, text of the next row)``.
    announce : callable, optional
        Called once, before the first row, with a sentence: the number of rows and their maximum time.

    Returns
    -------
    Comparison

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C. If it comes after the problems are defined, ``error.comparison`` is a `Comparison` of the rows so far,
        with ``interrupted`` set.
    ProblemError
        Data or a parameter are not valid.
    SolverMismatch
        A name in ``solvers`` is not known.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from dualflow import compare
    >>> X, y = make_moons(16, noise=0.1, random_state=0)
    >>> found = compare(X, y, problems=["hinge"], solvers=["working-set", "smo"], C=10.0, random_state=0)
    >>> [(row.solver, row.status) for section in found.sections for row in section.rows]
    [('working-set', 'OPTIMAL'), ('smo', 'OPTIMAL')]
    """
    check_limits(tol, None, time_limit)
    total_time_limit = TOTAL_TIME_LIMIT.check("total_time_limit", total_time_limit)
    random_state = Number(at_least=0, whole=True).check("random_state", random_state)
    seeds = Number(at_least=1, whole=True).check("seeds", seeds)
    solvers, shots = planned_shots(solvers, shots)
    entries, mending = plan(solvers, shots, devices, controls, studies, circuits), check_repairs(repairs)
    posing: dict[str, Any] = {
        "y": y,
        "problems": problems,
        "max_n": max_n,
        "X_test": X_test,
        "y_test": y_test,
        "C": C,
        "nu": nu,
        "fit_intercept": fit_intercept,
        "kernel": kernel,
        "gamma": gamma,
        "degree": degree,
        "coef0": coef0,
        "inlier_class": inlier_class,
    }
    scored = _ScoredModels(models, class_weight, positive, scoring, C, fit_intercept, time_limit, progress)
    scored.check()
    posing |= {"class_weight": class_weight, "models": models, "positive": positive}
    with limit_kernel_wait(time_limit):
        if isinstance(X, DualProblem):
            tasks, settings, mending = [given_task(X, posing, compare)], given_settings(X), ()
        else:
            for name in ("class_weight", "models", "positive"):
                del posing[name]
            tasks, settings = tasks_from_data(X, random_state=random_state, weights_of=scored.weights_of, **posing)
        indefinite = [task for task in tasks if task.certifier.psd.kind == "indefinite"]
    total = len(entries) * len(tasks) + len(mending) * len(indefinite)
    run = RowRunner(shots, random_state, tol, time_limit, progress, total, mending, seeds)
    run.max_dense_n = MAX_DENSE_N if models and solvers is None else None
    if announce is not None:
        repairs_in_all = len(mending) * len(indefinite)
        announce(announcement(tasks, entries, repairs_in_all, time_limit, total_time_limit, seeds))
    if total_time_limit is not None:
        run.ends = time.monotonic() + total_time_limit
    sections = tuple(run.run_section(task, entries) for task in tasks)
    settings |= {
        "repairs of indefinite kernels": list(mending) if indefinite else None,
        "shots per circuit": shots if any(entry.role not in ("classical", "reference") for entry in entries) else None,
        "tol": float(tol),
        "time_limit": time_limit,
        "total_time_limit": total_time_limit,
        "random_state": random_state,
        "seeds of each sampled row": seeds if seeds > 1 else None,
    }
    if models:
        settings |= {"models compared by": scoring, "positive class": scored.positive_class}
        del settings["class +1"]
    found = Comparison(sections, settings, _versions(), run.interrupt is not None, scored.scores, scoring)
    if run.interrupt is not None:
        run.interrupt.comparison = found  # type: ignore[attr-defined]
        raise run.interrupt
    return found


@dataclass
class _ScoredModels:
    """The models that a comparison scores on the held-out points, and the class weights that the scores choose.

    ``wanted`` says whether models are scored; the other arguments are those of `compare`.
    """

    wanted: bool
    class_weight: Any
    positive: Any
    scoring: str
    C: float
    fit_intercept: Any
    time_limit: float | None
    progress: ProgressCallback | None
    scores: tuple[ModelScore, ...] = ()

    def check(self) -> None:
        """Raise `ProblemError` for arguments that need ``models``, or an unknown score."""
        if self.class_weight == AUTO_WEIGHTS and not self.wanted:
            raise ProblemError("class_weight='auto' needs models=True, whose scores choose the weights")
        if self.positive is not None and not self.wanted:
            raise ProblemError(
                f"positive={self.positive!r} needs models=True, whose recall and precision are of this class"
            )
        if self.scoring not in SCORES:
            meant = did_you_mean(str(self.scoring), SCORES)
            raise ProblemError(f"scoring={self.scoring!r} is not one of {', '.join(SCORES)}{meant}")

    def weights_of(self, data: Subsample, gram: Gram) -> Any:
        """Score the models, if they are wanted, and return the class weights of the comparison."""
        if not self.wanted:
            return self.class_weight
        known = isinstance(gram.kernel, str) and gram.kernel in model_kernels()
        if not known or not np.isfinite(self.C) or self.fit_intercept is not True:
            raise ProblemError(
                f"models=True needs kernel {' or '.join(model_kernels())}, a finite C and fit_intercept=True, found "
                f"kernel={gram.kernel!r}, C={self.C!r}, fit_intercept={self.fit_intercept!r}"
            )
        progress = self.progress
        self.scores = score_models(
            data,
            gram,
            C=self.C,
            class_weight=self.class_weight,
            positive=self.positive,
            time_limit=self.time_limit,
            progress=lambda text: None if progress is None else progress(0, None, text),  # type: ignore[arg-type]
        )
        best = best_model(self.scores, self.scoring)
        if self.class_weight != AUTO_WEIGHTS:
            return self.class_weight
        return None if best is None else best.class_weight

    @property
    def positive_class(self) -> Any:
        """The class whose recall and precision the scores are."""
        return next(s.counts.classes[s.counts.positive] for s in self.scores if s.counts is not None)


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
