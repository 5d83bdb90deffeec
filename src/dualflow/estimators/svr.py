"""`SVR`, support vector regression: an ε-insensitive tube around a function in feature space."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning

from .. import problems
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.solution import Solution, Status
from ..driver.solve import AUTO, Progress
from ..exceptions import FitError
from ..problems.classification import C_RULE
from ..problems.regression import EPSILON_RULE
from ..solvers import Solver
from ._base import MIN_TIME_LEFT_S
from ._regressor import ValueMachine, stored_values

#: Condition numbers of the kernel matrix that are assumed in turn, to choose a finite C for the hard tube.
CONDITIONS = (1e2, 1e4, 1e6, 1e8, 1e10)


#: Statuses of a solve that was stopped early, after which no larger C is tried.
_STOPPED_EARLY = (Status.TIME_LIMIT, Status.INTERRUPTED, Status.STOPPED)


def _hard_tube_costs(gram: Gram, values: NDArray) -> list[float]:
    """Return finite values of C to try for C = ∞, ascending.

    If no coefficient of the optimum comes near C, it is also the optimum for C = ∞. Coefficients are about as large as
    the range of y divided by a kernel value, times the condition number of the kernel matrix.
    """
    size = float(np.ptp(values)) / (abs(float(np.mean(gram.diag()))) or 1.0)
    return [condition * (size or 1.0) for condition in CONDITIONS]


class SVR(ValueMachine):
    """ε-insensitive support vector regression, by any solver that takes its dual; each solution has a certificate.

    Minimises ½‖w‖² + C Σ max(0, |zᵢ − f(xᵢ)| − ε) (Smola, Schölkopf 2004, eq. 3). Parameters, attributes and signs are
    those of `sklearn.svm.SVR` wherever both have them.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the loss. ``np.inf`` is the hard tube, in which no residual is above ε.
    epsilon : float ≥ 0, default=0.1
        Half the width of the tube within which residuals have no loss, in units of y.
    kernel, gamma, degree, coef0
        As in `SVC`.
    solver, solver_options, refine, tol, max_steps, time_limit, warm_start, callback, on_interrupt, random_state,
    predict_dtype
        As in `SVC`.
    n_jobs, max_iter, verbose, shrinking, cache_size
        As in `SVC`; ``n_jobs`` is the number of threads for predictions.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Rows of X, ascending.
    support_vectors_ : array of shape (n_SV, n_features)
        The support vectors, also with a callable kernel; empty if the kernel is precomputed. CSR if X was sparse, as
        are the coefficients.
    n_support_ : array of shape (1,)
        Number of support vectors.
    dual_coef_ : array of shape (1, n_SV)
        αᵢ − αᵢ*, within ±C.
    intercept_ : array of shape (1,)
        The bias.
    coef_ : array of shape (1, n_features)
        Weights of the features, for a linear kernel only.
    solution_, certificate_ : Solution, Certificate
        The solution of the dual in (α, α*), over the points of positive weight, in their order; also as lists of one,
        solutions_ and certificates_.
    n_iter_ : int
        Steps of the solve, or iterations as ``max_iter`` counts them if it is set.
    fit_status_ : int
        0 if the solve reached ``tol``, else 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from dualflow import SVR
    >>> line = SVR(C=100, epsilon=0.5, kernel="linear").fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> line.coef_.round(6).tolist(), line.predict([[1.0]]).round(6).tolist()
    ([[1.5]], [3.0])
    """

    _rules = {"C": C_RULE, "epsilon": EPSILON_RULE}

    C: float
    epsilon: float

    def __init__(
        self,
        C: float = 1.0,
        *,
        epsilon: float = 0.1,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        solver: str | Solver = AUTO,
        solver_options: dict[str, Any] | None = None,
        refine: bool | str = "auto",
        tol: float = 1e-6,
        max_steps: int | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        callback: Callable[[Progress], bool | None] | None = None,
        on_interrupt: str = "raise",
        random_state: Any = None,
        predict_dtype: str = "float64",
        n_jobs: int | None = None,
        max_iter: int = -1,
        verbose: bool = False,
        shrinking: bool = True,
        cache_size: float = 200,
    ) -> None:
        self._set_parameters(locals())

    def _solutions(self, gram: Gram, part: Gram, values: NDArray, weight: NDArray | None) -> list[Solution]:
        def posed(C: float) -> DualProblem:
            return problems.svr(part, values, C, epsilon=self.epsilon, sample_weight=weight)

        if np.inf > self.C:
            return [self._solve(posed(self.C))]
        return [self._hard_tube(posed, _hard_tube_costs(gram, values))]

    def _hard_tube(self, posed: Callable[[float], DualProblem], costs: list[float]) -> Solution:
        """Return the solution for the first C that no coefficient comes near."""
        for C in costs:
            with warnings.catch_warnings():  # the solution that is returned warns below
                warnings.simplefilter("ignore", ConvergenceWarning)
                solution = self._solve(posed(C))
            stopped_early = solution.ended in _STOPPED_EARLY or self._time_left() == MIN_TIME_LEFT_S
            if stopped_early or (solution.alpha < 0.5 * solution.problem.upper).all():
                self._warn_unless_optimal([solution], 1)
                return solution
        raise FitError(
            f"C={self.C!r}: no function of this kernel is found that stays within epsilon={self.epsilon!r} of y; give "
            "a finite C, or a wider tube",
            solution,
        )

    # --- files ---------------------------------------------------------------------------------

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        p = stored_values(arrays)

        def posed(gram: Gram, solve_facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
            """Return the problem from a file, which holds its bounds, and y and ε in the array 'p'."""
            if p.shape != (2 * gram.n,) or not (p[: gram.n] + p[gram.n :] <= 0).all():
                raise ValueError("its array 'p' is that of no tube")
            upper = column["upper"]
            if not np.array_equal(upper[: gram.n], upper[gram.n :]):
                raise ValueError("its bounds are not those of a tube")
            return replace(problems.svr(gram, np.zeros(gram.n)), p=p, upper=upper)

        self._unpack_values(arrays, facts, posed, per=2)
