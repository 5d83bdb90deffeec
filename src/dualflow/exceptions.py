"""Errors and warnings of dualflow. Each message names the argument, what was found, and the way out."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any


class DualflowError(Exception):
    """Base class of the errors that dualflow raises.

    Examples
    --------
    >>> from dualflow import SVC, DualflowError
    >>> try:
    ...     SVC(C=-1.0).fit([[0.0], [1.0]], [0, 1])
    ... except DualflowError as error:
    ...     print(error)
    ...
    C=-1.0 must be a number > 0
    """


class ProblemError(DualflowError, ValueError):
    """The data or parameters do not make a well-posed dual problem.

    Examples
    --------
    >>> from dualflow import Gram, ProblemError, problems
    >>> try:
    ...     problems.svc(Gram([[0.0], [1.0]]), [0, 1])
    ... except ProblemError as error:
    ...     print(error)
    ...
    y must hold −1 and +1 only; estimators encode other labels themselves
    """


class FitError(ProblemError):
    """A solve ended without a usable model.

    Attributes
    ----------
    solution : Solution or None
        The state in which the solve ended, with its status and any witness.

    Examples
    --------
    >>> from dualflow import SVC, FitError
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [0, 1, 0, 1]
    >>> try:
    ...     SVC(kernel="linear", C=float("inf")).fit(X, y)  # a hard margin where there is none
    ... except FitError as error:
    ...     print(error.solution.status.name, error.solution.witness is not None)
    ...
    NOT_SEPARABLE True
    """

    def __init__(self, message: str, solution: Any = None) -> None:
        super().__init__(message)
        self.solution = solution


class SolverMismatch(DualflowError, ValueError):  # noqa: N818 - a public name fixed by the design
    """The solver exists but cannot solve this problem; the message says why.

    Examples
    --------
    >>> from dualflow import Gram, SolverMismatch, problems, solve
    >>> try:
    ...     solve(problems.svc(Gram([[0.0], [1.0]]), [-1, 1]), "variational-flow")
    ... except SolverMismatch as error:
    ...     print(str(error).partition(" (")[0])
    ...
    'variational-flow' does not solve problems of kind 'box with equality'
    """


class SolverUnavailable(DualflowError, ImportError):  # noqa: N818 - a public name fixed by the design
    """A package that the solver or device needs is not installed; the message gives the pip line.

    Examples
    --------
    >>> from dualflow import list_solvers
    >>> [info.install for info in list_solvers() if info.name == "smo"]  # None: nothing is missing
    [None]
    """


class DeviceError(DualflowError, RuntimeError):
    """A device refused a job, lost it or failed to run it.

    Attributes
    ----------
    transient : bool
        Whether the same job may succeed if it is sent again later.
    sent : bool or None
        Whether the job has reached the machine. None if that is unknown: sending the job again may then be charged
        twice.

    Examples
    --------
    >>> from dualflow import DeviceError
    >>> from dualflow.quantum.devices import make_device
    >>> try:
    ...     make_device("emulatr")
    ... except DeviceError as error:
    ...     print(error.transient, error.sent)
    ...
    False False
    """

    def __init__(self, message: str = "", *, transient: bool = False, sent: bool | None = False) -> None:
        super().__init__(message)
        self.transient, self.sent = transient, sent


class BudgetSpent(DeviceError):  # noqa: N818 - it is no fault of the device
    """The next batch of a run would exceed its budget; no part of that batch was sent.

    Examples
    --------
    >>> from dualflow import BudgetSpent, Gram, problems, solve
    >>> problem = problems.svdd(Gram([[0.0], [1.0], [2.0], [3.0]], "linear"))
    >>> try:
    ...     solve(problem, "variational-flow", device="emulator", shots=100, max_shots=50)
    ... except BudgetSpent as error:  # not even the first batch
    ...     print(str(error).partition(" does")[0])
    ...
    max_shots=50
    """


class EngineError(DualflowError, RuntimeError):
    """The processes or the cluster that work on parts of the data were lost; the data are not at fault.

    Examples
    --------
    >>> import numpy as np
    >>> from dualflow import CascadeSVC, EngineError
    >>> X, y = np.arange(40.0)[:, None], np.arange(40) // 20
    >>> try:
    ...     model = CascadeSVC(engine="joblib", n_jobs=1).fit(X, y)
    ... except EngineError:  # processes were lost: work in this one
    ...     model = CascadeSVC().fit(X, y)
    ...
    >>> model.score(X, y)
    1.0
    """


class ConcentrationWarning(UserWarning):
    """The entries of a measured kernel differ by less than their shot noise, so a model would be fitted to noise.

    Examples
    --------
    >>> import warnings
    >>> from dualflow import ConcentrationWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConcentrationWarning)  # rather stop than fit noise: now it is an exception
    ...
    """


class FidelityWarning(UserWarning):
    """A device's read-outs do not match the circuits it was sent.

    Either their fidelity is below 0.5 by more than shot noise, or the device claims to be noiseless and they differ by
    more than shot noise.

    Examples
    --------
    >>> import warnings
    >>> from dualflow import FidelityWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", FidelityWarning)  # stop at such a device: now it is an exception
    ...
    """


class UnusedCircuitsWarning(UserWarning):
    """A refined answer does not depend on its circuits, whose own answer is no better than noise or far from optimal.

    Examples
    --------
    >>> import warnings
    >>> from dualflow import UnusedCircuitsWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", UnusedCircuitsWarning)  # stop there: now it is an exception
    ...
    """


def raise_interrupt(error: BaseException) -> None:
    """Raise KeyboardInterrupt if a Ctrl-C is the cause of an error.

    Python 3.11 turns a Ctrl-C during the creation of a class into a RuntimeError, and libraries into other errors.
    """
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        link = link.__cause__ or link.__context__


def did_you_mean(word: object, known: Iterable[str]) -> str:
    """Return "; did you mean …?" with the known word most similar to ``word``, or "" if none is similar."""
    by_lower = {name.lower(): name for name in known}
    matches = difflib.get_close_matches(str(word).lower(), list(by_lower), n=1)
    return f"; did you mean {by_lower[matches[0]]!r}?" if matches else ""
