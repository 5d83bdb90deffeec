"""The errors dualflow raises on purpose. Each message names the argument, what was found, and the fix."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

__all__ = [
    "BudgetSpent",
    "ConcentrationWarning",
    "DeviceError",
    "DualflowError",
    "EngineError",
    "FitError",
    "ProblemError",
    "SolverMismatch",
    "SolverUnavailable",
    "heed",
    "near_miss",
]


class DualflowError(Exception):
    """Base class of every error raised on purpose.

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
    """A solve ended without a usable model; ``solution`` is what it left, with its status and any witness, or None.

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
    """The solver exists but cannot solve this problem; the message says what it lacks.

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
    """A package the solver or device needs is not installed; the message gives the pip line.

    Examples
    --------
    >>> from dualflow import DualflowError, SolverUnavailable, list_solvers
    >>> issubclass(SolverUnavailable, DualflowError)
    True
    >>> [info.install for info in list_solvers() if info.name == "smo"]  # None: nothing is missing
    [None]
    """


class DeviceError(DualflowError, RuntimeError):
    """A device refused, lost or failed a job.

    Attributes
    ----------
    transient : bool
        The same may work a little later: it is worth another try.
    sent : bool or None
        Whether the job has reached the machine; None if nobody knows, so that sending it again may pay for it twice.

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
    """A budget of a run does not hold the next batch; nothing of that was sent.

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
    """The processes or the cluster that work on parts of the data are lost; nothing is wrong with the data.

    Examples
    --------
    >>> from dualflow import DualflowError, EngineError
    >>> issubclass(EngineError, DualflowError)
    True
    """


class ConcentrationWarning(UserWarning):
    """A measured kernel's entries differ by less than their shots' noise: what is fitted to it is fitted to noise.

    Examples
    --------
    >>> import warnings
    >>> from dualflow import ConcentrationWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", ConcentrationWarning)  # rather stop than fit noise: now it is an exception
    ...
    >>> issubclass(ConcentrationWarning, UserWarning)
    True
    """


class FidelityWarning(UserWarning):
    """A device's read-outs are not those of the circuits it was sent: their fidelity is below 0.5 beyond shot noise, or
    the device says that it has no noise and they differ by more than shots explain.

    Examples
    --------
    >>> import warnings
    >>> from dualflow import FidelityWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", FidelityWarning)  # stop at such a device: now it is an exception
    ...
    >>> issubclass(FidelityWarning, UserWarning)
    True
    """


class UnusedCircuitsWarning(UserWarning):
    """A refined answer owes nothing to its circuits: their own answer is no better than noise, or far from the optimum.

    Examples
    --------
    >>> import warnings
    >>> from dualflow import UnusedCircuitsWarning
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("error", UnusedCircuitsWarning)  # stop there: now it is an exception
    ...
    >>> issubclass(UnusedCircuitsWarning, UserWarning)
    True
    """


def heed(error: BaseException) -> None:
    """Raise the Ctrl-C that is behind an error, if one is: Python 3.11 makes a RuntimeError of it where it comes as a
    class is made, and libraries make others."""
    link: BaseException | None = error
    while link is not None:
        if isinstance(link, KeyboardInterrupt):
            raise KeyboardInterrupt from error
        link = link.__cause__ or link.__context__


def near_miss(word: object, known: Iterable[str]) -> str:
    """The end of a message on a word that is not known: the nearest that is, if one is near."""
    near = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {near[0]!r}?" if near else ""
