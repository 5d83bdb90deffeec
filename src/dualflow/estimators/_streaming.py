"""`StreamMachine`, the base class of the estimators that learn from a stream, and their certified state."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from ..core.certificate import Certificate, certify
from ..core.problem import DualProblem
from ..core.runtime.warn import warn_user
from ..core.solution import Cost, Solution, Status
from ..driver.solve import solve
from ..exceptions import ProblemError
from ..solvers.registry import DEFAULT_SOLVER
from ._base import KernelMachine
from ._persistence import encode
from ._removal import removal_record, state_of
from ._validation import checked_data

#: If the relative gap exceeds this, a stream's state is not the optimum, and a warning says so.
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


def warn_of_gap(gap: float | None, tol: float) -> None:
    """Warn with `ConvergenceWarning` if a state's relative gap exceeds ``tol`` or is unknown (None)."""
    if gap is None:
        warn_user(
            "kernel: it is not positive semidefinite on these points; the state reached is used as it is, and "
            "certificates are withheld",
            ConvergenceWarning,
        )
    elif not gap <= tol:
        warn_user(
            f"The optimum over the points that are remembered was reached to relative gap {gap:.3g} only, not "
            f"{tol:.3g}: kernel values have too few digits. Scale the features, or lower C",
            ConvergenceWarning,
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
    #: What `certificate_of_removal` needs of the last removal: the state before it, the ids, and whether it purged.
    _removal: tuple[dict[str, Any], list[Any], bool] | None = None

    def _remembered_ids(self) -> NDArray:
        """Return the numbers of the remembered points, ascending."""
        raise NotImplementedError

    def _public_ids(self, numbers: NDArray) -> NDArray:
        """Return the ids of points as the caller gave them."""
        return numbers

    def _parts(self) -> list[tuple[NDArray, NDArray, NDArray]]:
        """Return points, targets (±1, or numbers) and weights of each problem, over the remembered points."""
        raise NotImplementedError

    def _values_of_part(self, X: NDArray, k: int) -> NDArray:
        """Return the decision values of points in problem k."""
        raise NotImplementedError

    def _before_removal(self, ids: Any, purge: bool, record: bool) -> tuple[dict[str, Any], list[Any], bool] | None:
        """Return what `certificate_of_removal` needs, or None without ``record``."""
        if not record:
            return None
        listed = ids.tolist() if hasattr(ids, "tolist") else ids
        listed = [listed] if isinstance(listed, (str, bytes)) or not hasattr(listed, "__iter__") else list(listed)
        listed = [int(one) if isinstance(one, np.integer) else one for one in listed]
        encode(listed, "ids")  # an id that JSON cannot hold is an error before anything is removed
        return state_of(self), listed, purge

    def _keep_removal(self, removal: tuple[dict[str, Any], list[Any], bool] | None) -> None:
        """Set what `certificate_of_removal` needs, or remove it where the model has changed since."""
        self.__dict__.pop("_removal", None)
        if removal is not None:
            self._removal = removal

    def certificate_of_removal(self) -> dict[str, Any]:
        """Return a record of the last removal, by ``forget(ids, record=True)``, for your files.

        It holds the removed ids, digests of the model before and after, both certificates, the distance between the
        model and a batch fit of the points it still remembers, version, time, and a SHA-256 of all these.
        `dualflow.verify_removal` and ``dualflow check --removal`` verify it. It holds no data.

        Returns
        -------
        dict
            Plain values, for `json.dump`. The field "meaning" says what it shows and what it does not: it is no proof
            that other copies were deleted, and a digest is not a signature.

        Raises
        ------
        ProblemError
            The last call was not a ``forget`` with ``record=True``: the model has changed since, or no state before the
            removal was recorded.
        """
        self._check_fitted()
        if self._removal is None:
            raise ProblemError(
                "there is no record of a removal: call forget(ids, record=True), and certificate_of_removal() before "
                "the model changes again"
            )
        return removal_record(self, *self._removal)

    def _forget_everything(self) -> None:
        """Drop the fitted state before a `fit`, which begins a new stream."""
        data = ("classes_", "n_features_in_", "feature_names_in_")
        for name in (self._fitted_by, "_removal", "_parameters_kept", *data):
            self.__dict__.pop(name, None)

    def _check_batch(self, X: ArrayLike, *y: ArrayLike, least: int = 1, numeric: bool = False) -> tuple[NDArray, ...]:
        """Return X, validated, and y if it is given; the first batch must have at least ``least`` points."""
        first = not self.__sklearn_is_fitted__()
        return checked_data(self, X, *y, first=first, least=least if first else 1, numeric=numeric)
