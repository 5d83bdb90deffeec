"""The main job: the same few points to every solver, everyone measured by the same certificate.

How long a comparison takes at the most, said before it begins.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from numpy.typing import ArrayLike

from ..core.kernel_functions import KernelFunction
from ..core.options import Number
from ..core.problem import DualProblem
from ..core.psd import REPAIRS
from ..core.runtime.clock import keeping_interrupts
from ..driver.solve import check_limits, limit_kernel_wait
from ..planning.estimate import span
from ..quantum.devices import check_shots
from ..report import Comparison
from ..solvers import Solver
from .plan import Entry, plan
from .posing import Task, as_it_stands, described, from_data
from .repaired import check_repairs
from .rows import ProgressCallback, Rows, barred_by

__all__ = ["announcement", "compare"]


def announcement(
    tasks: Sequence[Task], entries: Sequence[Entry], repairs: int, time_limit: float | None, total: float | None = None
) -> str:
    """One sentence: problems, rows that will run, and the most they can take together.

    ``repairs`` is the number of rows of repaired kernels. Rows that do not apply take no time and are not counted.
    """
    apply = {
        (number, entry.group): barred_by(entry, task.certifier) is None
        for number, task in enumerate(tasks)
        for entry in {entry.group: entry for entry in entries}.values()
    }
    found = [entry for number, _ in enumerate(tasks) for entry in entries if apply[number, entry.group]]
    circuits = sum(entry.role in ("quantum", "emulated", "control") for entry in found)
    rows = len(found) + repairs
    text = f"{_several(len(tasks), 'problem')}, {_several(rows, 'row')}"
    text += f", {circuits} of them on devices and their controls" if circuits else ""
    if total is not None and (time_limit is None or total < rows * time_limit):
        return f"{text}; no row begins after {span(total)}."
    if time_limit is None:
        return f"{text}; without a time limit nobody knows for how long."
    return f"{text}; a row ends after {span(time_limit)} at the latest, all of them after {span(rows * time_limit)}."


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


TOTAL = Number(above=0, none=True, note="(in seconds)")
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
    shots: int | None = 10_000,
    devices: Sequence[str] | None = None,
    controls: bool = True,
    studies: bool = False,
    repairs: Sequence[str] | None = REPAIRS,
    inlier_class: Any = None,
    time_limit: float | None = 2.0,
    total_time_limit: float | None = None,
    random_state: int = 0,
    tol: float = 1e-6,
    progress: ProgressCallback | None = None,
    announce: Callable[[str], object] | None = None,
) -> Comparison:
    """Put the same points, or one problem, to every solver: who met the tolerance ranks by time, the others by raw gap,
    or by excess where rows are sampled.

    One subsample, stratified by class and drawn once, serves every section and solver. Each section is one
    problem with its own CVXOPT reference. A solver that does not apply, is not installed, runs out of time or
    fails is a row with the reason; none is dropped. Quantum solvers run on each device with ``shots``, once with
    exact distributions on the device that is their own default, and in controls in the device's place: a null device,
    random bits and, with shots, a classical sampler. `Row.margin` says how far a row is beyond the first two.

    Parameters
    ----------
    X : array of shape (n, m), or DualProblem
        With kernel="precomputed" the kernel matrix, shape (n, n). A problem that is posed already, of any model, is
        the one section as it stands: it has no held-out points and no repairs, and what poses a problem (y, problems,
        max_n, C, nu, the kernel, …) must not be given with it.
    y : array of shape (n,)
        Two labels of any type. In the two-class sections the larger one is +1.
    problems : sequence of {"hinge", "squared_hinge", "svdd", "least_squares", "discriminant"}
        "svdd" is trained on one class of the subsample and tells inliers from outliers on the held-out points of
        both. "least_squares" is for solvers of problems without bounds: "gradient-flow", "cvxopt", "qpsolvers", and
        a study, which takes at most 16 points; so is "discriminant", Fisher's, whose variables are weights of the
        features: it has no kernel, no C and equal priors.
    solvers : sequence of str or Solver, optional
        All of `list_solvers` by default. An instance of a quantum solver is one row on its own device, plus
        controls.
    max_n : int ≥ 2
        Points in the subsample, both classes together.
    X_test, y_test : arrays of shape (k, m) and (k,), optional
        Held-out points; the rest of X by default. With kernel="precomputed" m is n: kernel values with all of X.
    C : float > 0
        scikit-learn's, for all losses; ``np.inf`` is the hard margin, which "least_squares" has not.
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
    time_limit : float or None, default=2.0
        Seconds a row, None for as long as it takes: a row whose time is up shows what there is by then, and a
        reference whose time is up is none. A step on four points goes before a solver's first row; where its device has
        not answered in half the time, or in a second, that is taken off the row's.
    total_time_limit : float, optional
        Seconds for all rows together: those that are not reached by then are not run, and say so.
    random_state : int ≥ 0
        Of the subsample, of every solver and of the shot floor. Each sampled row is one draw, the same for the same
        seed: an error bar needs a comparison for each of several seeds.
    tol : float > 0
        Certified relative gap at which a run ends.
    progress : callable, optional
        Called as ``progress(rows done, rows in all, what comes next)``.
    announce : callable, optional
        Called once, before the first row, with a sentence: how many rows there are, and how long they take at most.

    Returns
    -------
    Comparison

    Raises
    ------
    KeyboardInterrupt
        Ctrl-C; once the problems are posed ``error.comparison`` is what there is so far, a `Comparison` with
        ``interrupted`` set.
    ProblemError
        Data or a parameter is unusable.
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
    total_time_limit = TOTAL.check("total_time_limit", total_time_limit)
    random_state = Number(at_least=0, whole=True).check("random_state", random_state)
    shots = check_shots(shots)
    entries, mending = plan(solvers, shots, devices, controls, studies), check_repairs(repairs)
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
    with limit_kernel_wait(time_limit):
        if isinstance(X, DualProblem):
            tasks, settings, mending = [as_it_stands(X, posing, compare)], described(X), ()
        else:
            tasks, settings = from_data(X, random_state=random_state, **posing)
        indefinite = [task for task in tasks if task.certifier.psd.kind == "indefinite"]
    total = len(entries) * len(tasks) + len(mending) * len(indefinite)
    run = Rows(shots, random_state, tol, time_limit, progress, total, mending)
    if announce is not None:
        announce(announcement(tasks, entries, len(mending) * len(indefinite), time_limit, total_time_limit))
    if total_time_limit is not None:
        run.ends = time.monotonic() + total_time_limit
    sections = tuple(run.section(task, entries) for task in tasks)
    settings |= {
        "repairs of indefinite kernels": list(mending) if indefinite else None,
        "shots per circuit": shots,
        "tol": float(tol),
        "time_limit": time_limit,
        "total_time_limit": total_time_limit,
        "random_state": random_state,
    }
    found = Comparison(sections, settings, _versions(), run.interrupt is not None)
    if run.interrupt is not None:
        run.interrupt.comparison = found  # type: ignore[attr-defined]
        raise run.interrupt
    return found


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
