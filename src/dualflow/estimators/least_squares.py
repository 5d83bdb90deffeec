"""`LSSVC` and `LSSVR`, the least-squares support vector machines: ridge regression in feature space.

Their dual has no bounds and is one linear system; it is posed and solved like the other duals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.solution import Solution
from ..driver.solve import Progress
from ..problems.classification import FINITE_C_RULE
from ..solvers import Solver
from ..solvers.registry import make_solver
from ._batch import seeds_of
from ._classifier import PairClassifier
from ._one_vs_one import OneVsOneMachine, Pairs
from ._regressor import ValueMachine, stored_values
from ._solving import Solving

#: Solver of problems without bounds, of `LDA` too: the flow is linear there, so that one implicit step is exact. The
#: working-set solver needs bounds.
DEFAULT_SOLVER = "gradient-flow"


def intercept_of(solve_facts: Mapping[str, Any]) -> bool | str:
    """Return ``fit_intercept`` of a problem from a file."""
    return "penalised" if solve_facts["offset"] else bool(solve_facts["equality"])


def posed_again(problem: DualProblem, column: Mapping[str, NDArray]) -> DualProblem:
    """Return the problem with the ridge of a file; ValueError if the file's bounds are not those of least squares."""
    if not np.isposinf(column["upper"]).all() or not (column["ridge"] > 0).all():
        raise ValueError("its bounds or ridges are not those of least squares")
    return replace(problem, ridge=column["ridge"])


def _posed(gram: Gram, facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
    """Return a pair's problem from a file, which holds its labels, its intercept, and C times the weights."""
    problem = problems.least_squares(gram, column["sigma"], fit_intercept=intercept_of(facts))
    return posed_again(problem, column)


class LSSVC(OneVsOneMachine, PairClassifier):
    """Least-squares support vector classifier. Every solution has a certificate.

    Minimises ½‖w‖² + ½C Σ (yᵢ − f(xᵢ))² with y = ±1 for each pair of classes (Suykens, Vandewalle 1999). The dual has
    no bounds: it is one linear system, which one implicit step of the gradient flow solves. With ``kernel="linear"``
    and two classes the model is ``sklearn.linear_model.RidgeClassifier(alpha=1/C)``, and its direction approaches that
    of `LDA` as C grows. Nearly every point is a support vector; for few of them use `SVC`.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the squared residuals; 1/C is the ridge.
    kernel, gamma, degree, coef0
        As in `SVC`.
    fit_intercept : bool or "penalised", default=True
        Whether the model has a bias. "penalised" puts it inside the kernel, K + 1.
    solver : str or Solver, default="gradient-flow"
        A solver for problems without bounds: "gradient-flow", "cvxopt", "qpsolvers", or, for pairs of at most 16
        points, one of the studies.
    solver_options, refine, tol, max_steps, time_limit, class_weight, decision_function_shape, break_ties
        As in `SVC`.
    warm_start, callback, on_interrupt, random_state, predict_dtype, n_jobs, max_iter, verbose
        As in `SVC`.

    Attributes
    ----------
    class_weight_ : array of shape (n_classes,)
        The factor of each class's weights.
    support_ : array of shape (n_SV,)
        Rows of X, by class and then ascending: nearly all.
    dual_coef_ : array of shape (n_classes − 1, n_SV)
        yᵢαᵢ = C · weightᵢ · (yᵢ − f(xᵢ)), of either sign, in LIBSVM's layout as in `SVC`.
    classes_, support_vectors_, n_support_, intercept_, coef_, solutions_, certificates_, solution_, certificate_,
    n_iter_, fit_status_, n_features_in_, feature_names_in_
        As in `SVC`.

    Notes
    -----
    Signs are those of `SVC`: with two classes y = +1 is ``classes_[1]``; with more, the pair (i, j) has y = +1 for
    class i.

    Examples
    --------
    >>> from dualflow import LSSVC
    >>> model = LSSVC(kernel="linear").fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> model.coef_.round(6).tolist(), model.predict([[0.4], [2.2]]).tolist()  # ridge regression of ±1
    ([[0.666667]], ['a', 'b'])
    """

    _fitted_by = "classes_"
    _rules = {"C": FINITE_C_RULE}
    _pose = staticmethod(_posed)

    C: float
    fit_intercept: bool | str

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        fit_intercept: bool | str = True,
        solver: str | Solver = DEFAULT_SOLVER,
        solver_options: dict[str, Any] | None = None,
        refine: bool | str = "auto",
        tol: float = 1e-6,
        max_steps: int | None = None,
        time_limit: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        warm_start: bool = False,
        callback: Callable[[Progress], bool | None] | None = None,
        on_interrupt: str = "raise",
        random_state: Any = None,
        predict_dtype: str = "float64",
        n_jobs: int | None = None,
        max_iter: int = -1,
        verbose: bool = False,
    ) -> None:
        self._set_parameters(locals())

    def _solve_pairs(self, gram: Gram, weight: NDArray, pairs: Pairs) -> list[Solution]:
        seeds = seeds_of(self.random_state, len(pairs))

        def pose(k: int) -> DualProblem:
            points = pairs[k]
            return problems.least_squares(
                self._part(gram, points),
                pairs.signs(k),
                self.C,
                fit_intercept=self.fit_intercept,
                sample_weight=weight[points],
            )

        engine = make_solver(self.solver, self.solver_options)
        found: Any = Solving(self, pose, seeds, engine).run()
        self.solutions_ = found
        return self.solutions_


class LSSVR(ValueMachine):
    """Least-squares support vector regression. Every solution has a certificate.

    Minimises ½‖w‖² + ½C Σ (zᵢ − f(xᵢ))² (Suykens, Vandewalle 1999; Saunders, Gammerman, Vovk 1998). The dual has no
    bounds: it is one linear system, which one implicit step of the gradient flow solves. With ``kernel="linear"`` the
    model is ``sklearn.linear_model.Ridge(alpha=1/C)``, without an intercept
    ``sklearn.kernel_ridge.KernelRidge(alpha=1/C)``. Nearly every point is a support vector; for few of them use `SVR`.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the squared residuals; 1/C is the ridge.
    kernel, gamma, degree, coef0
        As in `SVC`.
    fit_intercept : bool or "penalised", default=True
        Whether the model has a bias. "penalised" puts it inside the kernel, K + 1.
    solver : str or Solver, default="gradient-flow"
        A solver for problems without bounds: "gradient-flow", "cvxopt", "qpsolvers", or, for up to 16 points, one of
        the studies.
    solver_options, refine, tol, max_steps, time_limit, warm_start, callback, on_interrupt, random_state, predict_dtype
        As in `SVC`.
    n_jobs, max_iter, verbose
        As in `SVC`; ``n_jobs`` is the number of threads for predictions.

    Attributes
    ----------
    support_ : array of shape (n_SV,)
        Rows of X, ascending: nearly all.
    dual_coef_ : array of shape (1, n_SV)
        αᵢ = C · weightᵢ · (zᵢ − f(xᵢ)).
    solution_, certificate_ : Solution, Certificate
        Over the points of positive weight, in their order; also as lists of one, solutions_ and certificates_.
    support_vectors_, n_support_, intercept_, coef_, n_iter_, fit_status_, n_features_in_, feature_names_in_
        As in `SVR`.

    Notes
    -----
    Predictions are sums of αᵢk(x, xᵢ), where αᵢ is as large as C times a residual, so round-off grows with C. With a
    linear kernel and standardised features the coefficients equal those of `Ridge` to 1e-8 up to about C = 1e5.

    Examples
    --------
    >>> from dualflow import LSSVR
    >>> line = LSSVR(C=1.0, kernel="linear").fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])
    >>> line.coef_.round(6).tolist(), line.predict([[1.0]]).round(6).tolist()
    ([[1.333333]], [3.0])
    """

    _rules = {"C": FINITE_C_RULE}

    C: float
    fit_intercept: bool | str

    def __init__(
        self,
        C: float = 1.0,
        *,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        fit_intercept: bool | str = True,
        solver: str | Solver = DEFAULT_SOLVER,
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
    ) -> None:
        self._set_parameters(locals())

    def _solutions(self, gram: Gram, part: Gram, values: NDArray, weight: NDArray | None) -> list[Solution]:
        problem = problems.least_squares(
            part, values, self.C, fit_intercept=self.fit_intercept, sample_weight=weight, regression=True
        )
        return [self._solve(problem)]

    # --- files ---------------------------------------------------------------------------------

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        p = stored_values(arrays)

        def posed(gram: Gram, solve_facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
            """Return the problem from a file, which holds C times the weights, and y in the array 'p'."""
            if p.shape != (gram.n,) or not (column["sigma"] == 1).all():
                raise ValueError("its arrays 'p' and 'sigma' are those of no regression")
            intercept = intercept_of(solve_facts)
            problem = problems.least_squares(gram, np.zeros(gram.n), fit_intercept=intercept, regression=True)
            return posed_again(replace(problem, p=p), column)

        self._unpack_values(arrays, facts, posed, per=1)
