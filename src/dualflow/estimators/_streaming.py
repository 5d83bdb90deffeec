"""`StreamMachine`, the base class of the estimators that learn from a stream, and their certified state."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ..core.certificate import Certificate, certify
from ..core.problem import DualProblem
from ..core.solution import Cost, Solution, Status
from ..driver.solve import DEFAULT_SOLVER, solve
from ._base import KernelMachine
from ._validation import checked_data

__all__ = ["TOL", "StreamMachine", "optimum", "remembered", "warn_of_gap"]

#: Relative gap above which a stream's state is not taken for the optimum, and warns.
TOL = 1e-6


def optimum(problem: DualProblem, alpha: NDArray) -> Certificate:
    """Return the certificate of the best solution found from ``alpha``, or, if that misses `TOL`, without a start."""
    best: Certificate | None = None
    for start in (alpha, None) if np.isfinite(alpha).all() else (None,):
        solution = solve(problem, DEFAULT_SOLVER, refine="early", tol=TOL, warm=start)
        found = solution.certificate
        if best is None or (found.relative_gap or 0.0) < (best.relative_gap or 0.0):
            best = found
        if best.relative_gap is None or best.reaches(TOL):
            break
    assert best is not None
    return best


def warn_of_gap(gap: float | None, tol: float, stacklevel: int) -> None:
    """Warn with `ConvergenceWarning` if a state's relative gap exceeds ``tol`` or is unknown (None)."""
    if gap is None:
        warnings.warn(
            "kernel: it is not positive semidefinite on these points; the state reached is used as it is, and "
            "certificates are withheld",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )
    elif not gap <= tol:
        warnings.warn(
            f"The optimum over the points that are remembered was reached to relative gap {gap:.3g} only, not "
            f"{tol:.3g}: kernel values have too few digits. Scale the features, or lower C",
            ConvergenceWarning,
            stacklevel=stacklevel,
        )


def remembered(problem: DualProblem, alpha: NDArray, engine: str, tol: float = TOL) -> Solution:
    """Return a stream's state as a certified `Solution` of the problem of the points it remembers, without its cost."""
    certificate = certify(problem, alpha)
    ended = Status.FINISHED if certificate.psd.is_psd else Status.STATIONARY
    return Solution(
        problem=problem,
        alpha=certificate.alpha,
        raw_alpha=alpha.copy(),
        refined=False,
        support=np.flatnonzero(alpha),
        ended=ended,
        raw_ended=ended,
        tol=tol,
        cost=Cost(),
        provenance={"solver": engine},
        certified=certificate,
    )


class StreamMachine(KernelMachine):
    """Base class of the estimators with `partial_fit`, whose first batch fixes the features and the kernel width."""

    reserve: Any
    #: The kernel width γ of the stream.
    _gamma: float

    def _forget_everything(self) -> None:
        """Drop the fitted state before a `fit`, which begins a new stream."""
        for name in (self._fitted_by, "_parameters_kept", "classes_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)

    def _check_batch(self, X: ArrayLike, *y: ArrayLike, least: int = 1, numeric: bool = False) -> tuple[NDArray, ...]:
        """Return X, validated, and y if it is given; the first batch must have at least ``least`` points."""
        first = not self.__sklearn_is_fitted__()
        return checked_data(self, X, *y, first=first, least=least if first else 1, numeric=numeric)
