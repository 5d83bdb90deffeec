"""What the estimators that learn from a stream share."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..core.certificate import certify
from ..core.problem import DualProblem
from ..core.solution import Cost, Solution, Status
from ._base import KernelMachine
from ._validation import checked_data

__all__ = ["StreamMachine", "remembered"]


def remembered(problem: DualProblem, alpha: NDArray, engine: str, tol: float = 1e-6) -> Solution:
    """The state of a stream as a `Solution` of the problem of the points it remembers; what it cost is not kept."""
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
    """Base of the estimators with `partial_fit`, whose first batch fixes features and kernel width."""

    reserve: Any
    #: The kernel's width.
    _gamma: float

    def _forget_everything(self) -> None:
        """Before a `fit`, which begins a new stream."""
        for name in (self._fitted_by, "classes_", "n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)

    def _check_batch(self, X: ArrayLike, *y: ArrayLike, least: int = 1, numeric: bool = False) -> tuple[NDArray, ...]:
        """Validated X of at least so many points, and y if it is given."""
        first = not self.__sklearn_is_fitted__()
        return checked_data(self, X, *y, first=first, least=least if first else 1, numeric=numeric)
