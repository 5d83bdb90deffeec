"""`SVDD`, the support vector data description: novelty detection by the smallest ball."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.decision import feature_weights
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..driver.solve import AUTO, Progress
from ..exceptions import FitError
from ..solvers import Solver
from ._batch import BatchMachine, iterations_of, without_round_off
from ._one_class import NU_RULE_OR_NONE, Ball, ShareOfNew, sphere
from ._packing import pack_attributes, pack_solutions, unpacked
from ._validation import checked_data, rows_of_weight
from ._verify import agree, round_off, stored

#: Attributes that a file holds beside the solution: name -> (dtype kinds, names of the dimensions …).
_STORED = {"support_": ("i", "support"), "n_support_": ("i", "one"), "dual_coef_": ("f", "one", "support")}
_NUMBERS = ("radius_", "offset_", "_center_square", "_constant_diag")


def _posed(gram: Gram, solve_facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
    """Return the problem from a file, which holds its bounds."""
    return replace(problems.svdd(gram), upper=column["upper"])


class SVDD(Ball, ShareOfNew, BatchMachine):
    """Smallest ball around the data in feature space; points outside it are outliers (Howell eq. 21-24).

    Minimises R² + (1/(νn)) Σ ξᵢ subject to ‖φ(xᵢ) − a‖² ≤ R² + ξᵢ, by its dual.

    Parameters
    ----------
    nu : float in (0, 1], None or "auto", default=0.1
        Upper bound on the share of training points outside the ball. None is the hard ball, which contains all points.
        "auto" takes the value of ``contamination``, or 0.05 for both if that is None.
    contamination : float in (0, 0.5], optional
        Share of *new* points, drawn as the training points were, that the model rejects. ``offset_`` is then set by
        exact leave-one-out, see Notes. With None the ball itself sets it.
    kernel, gamma, degree, coef0
        As in `SVC`. With "precomputed", k(z, z) of new points is not in the matrix: see `decision_function`.
    solver, solver_options, refine, tol, max_steps, time_limit, warm_start, callback, on_interrupt, random_state,
    predict_dtype
        As in `SVC`.
    n_jobs, max_iter, verbose, shrinking, cache_size
        As in `SVC`; ``n_jobs`` is the number of threads for predictions.

    Attributes
    ----------
    radius_ : float
        R, in feature space. For the hard ball it is the distance of the farthest point. With a ``contamination`` it is
        the radius of the sphere around the same centre that rejects this share.
    nu_ : float or None
        The value of ν that was used.
    loo_scores_ : array of shape (n,)
        The score of each training point of positive weight by the ball without it. Computed on access.
    loo_rejection_rate_ : float
        The share of ``loo_scores_`` outside the sphere. Computed on access.
    loo_relative_gap_ : float
        The largest certified relative gap of the balls without a point. Computed on access.
    offset_ : float
        −R², so that ``decision_function = score_samples − offset_``. Points on the sphere count as inside.
    support_ : array of shape (n_SV,)
        Rows of X, ascending.
    support_vectors_ : array of shape (n_SV, n_features)
        The support vectors, also with a callable kernel; empty if the kernel is precomputed. CSR if X was sparse, as
        are the coefficients.
    n_support_ : array of shape (1,)
        Number of support vectors.
    dual_coef_ : array of shape (1, n_SV)
        αᵢ ≥ 0 with Σαᵢ = 1; the centre is a = Σ αᵢφ(xᵢ). The ``dual_coef_`` of `sklearn.svm.OneClassSVM` is νn times
        this.
    solution_, certificate_ : Solution, Certificate
        Over the points of positive weight, in their order; also as lists of one, solutions_ and certificates_.
    n_iter_ : int
        Steps of the solve, or iterations as ``max_iter`` counts them if it is set.
    fit_status_ : int
        0 if the solve reached ``tol``, else 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Where k(x, x) is constant (RBF), the decision values are 2/(νn) times those of
    ``OneClassSVM(nu=nu)``, and the predictions are the same.

    **ν and contamination.** ν bounds the share of *training* points outside the ball. The share of new points outside
    is larger: each point that supports the ball would be outside the ball fitted without it, so about the share of
    support vectors is rejected, which can be several times ν. ``contamination=c`` sets the threshold instead to the
    k-th smallest of `loo_scores_` with k = ⌊c(n + 1)⌋: it rejects the points whose ``p_values(Z, "jackknife")`` are at
    most c. That is a share c of new points in the mean, if leaving out one point hardly changes the ball, with a
    standard deviation of √(c(1 − c)/n) over training data; it is not a guarantee. ``nu`` then only sets which points
    the ball leaves out to find its centre, so the two parameters never contradict each other. Weights do not count in
    the share.

    Up to 8000 points the models without each point are found from one kernel matrix, within seconds; beyond, each
    support vector needs a separate solve. ``time_limit`` includes these: a fit, `p_values` or `loo_scores_` that
    exceeds it raises `FitError`.

    Of the *training* points `fit_predict` marks the share c, each point judged by the ball without it; `predict` marks
    fewer.

    Examples
    --------
    >>> from dualflow import SVDD
    >>> ball = SVDD(nu=None, kernel="linear").fit([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]])
    >>> round(ball.radius_, 9), ball.predict([[1.0, 0.9], [1.0, 1.1]]).tolist()
    (1.0, [1, -1])
    """

    _rules = {"nu": NU_RULE_OR_NONE}

    _takes_objects = False  # distances to the centre need k(z, z), which the kernel matrix to the fit's points lacks

    def __init__(
        self,
        nu: float | str | None = 0.1,
        *,
        contamination: float | None = None,
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

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> SVDD:
        """Fit the ball.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            Finite numbers; dense, or of any sparse format of scipy unless the kernel is precomputed.
        y : ignored
            Present for scikit-learn's conventions.
        sample_weight : array of shape (n,), optional
            Multiplies each point's bound 1/(νn), normalised to mean 1. Points with a weight of 0 or less are left out.

        Returns
        -------
        SVDD
            The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range.
        SolverMismatch, SolverUnavailable, TypeError
            The solver cannot solve this problem, needs a package, or does not have an option.

        Warns
        -----
        ConvergenceWarning
            The solve ended above ``tol``, or its certificate is withheld because the kernel is indefinite.
        """
        with self._transaction():
            self._take_parameters()
            (points,) = checked_data(self, X, first=True, least=2)
            rows, given = rows_of_weight(sample_weight, points)
            gram = self._gram(points)
            self._set_share(len(rows))
            problem = problems.svdd(self._part(gram, rows), self.nu_, sample_weight=given)
            self.solutions_, self._rows = [self._solve(problem)], [rows]
            self._training_kernel = self._constant_diag = None
            if gram.kernel == "precomputed":
                diag = gram.diag()
                constant = np.ptp(diag) <= 1e-12 * float(np.abs(diag).max())
                self._constant_diag = float(diag[0]) if constant else None
                self._training_kernel = None if constant else gram.X
            self._read(gram, rows)
            self._publish()
        return self

    def _read(self, gram: Gram, rows: NDArray) -> None:
        """Set the fitted attributes from the solution, whose points are these rows of the Gram."""
        (solution,) = self.solutions_
        coefficients = without_round_off(solution.coefficients)
        (support,) = coefficients.nonzero()
        own = solution.problem.centred().gram  # translation does not change the ball, and centring saves digits
        self._keep_support(own, support)
        self.support_ = rows[support]
        self.dual_coef_ = coefficients[None, support]
        self.n_support_ = np.array([len(support)])
        w = feature_weights(solution.problem, solution.answer)
        self._keep_linear([w])
        if w is not None:
            self._center_square = float(w @ w)
        elif own is solution.problem.gram and np.array_equal(coefficients, solution.answer.alpha):
            self._center_square = solution.answer.quadratic / solution.problem.scale
        else:
            self._center_square = float(coefficients @ own.matvec(coefficients))
        diag = own.diag()
        if np.isinf(solution.problem.upper).all():
            squared_radius = float(self._squared_distances(gram.X[rows], diag).max())
        else:
            squared_radius = float(solution.answer.radius or 0.0) ** 2
        if not np.isfinite(squared_radius):
            raise FitError("the solve ended in a radius that is not finite; scale the features", solution)
        if (threshold := self._threshold()) is not None:
            squared_radius = -threshold
        self.radius_, self.offset_ = sphere(squared_radius, diag, self._center_square)
        self.n_iter_ = iterations_of(solution)

    def _scored(self, points: Any, values: NDArray, squares: NDArray) -> NDArray:
        return 2.0 * values - squares - self._self_kernel(points)[:, None]

    def _unit_scores(self, points: Any) -> NDArray:
        return -self._squared_distances(points, self._self_kernel(points))

    def _limit(self) -> float:
        return self.offset_

    def _round_off(self) -> float:
        return -self.offset_ - self.radius_**2

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = pack_solutions(self.solutions_, self._rows)
        arrays |= pack_attributes(self, _STORED)
        if self._training_kernel is not None:
            arrays["training_kernel"] = self._training_kernel
        share_arrays, share_facts = self._pack_share()
        return arrays | share_arrays, facts | share_facts | {name: getattr(self, name) for name in _NUMBERS}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        gram, points = self._unpack_solutions(arrays, facts, _posed, 1)
        self._unpack_diagonal(arrays, facts["_constant_diag"], gram, points)
        self._unpack_share(arrays, facts, self.solutions_[0])
        self._read(gram, np.arange(gram.n))
        self.support_ = points[self.support_]
        solution, saved = self.solutions_[0], unpacked(_STORED, arrays, one=1)
        for name, array in saved.items():
            agree(name, array, getattr(self, name), 1e-9 * float(self.dual_coef_.max()))
        # αᵀKα and R² are as accurate as a gradient of αᵀKα.
        tolerance = 4.0 * round_off(solution.problem, solution.alpha)
        for name in ("_center_square", "offset_"):
            agree(name, facts[name], getattr(self, name), tolerance)
        agree("radius_", facts["radius_"], self.radius_, tolerance / max(self.radius_, tolerance**0.5))
        if gram.kernel == "precomputed":
            self._constant_diag = facts["_constant_diag"]
        for name, value in (saved | {name: facts[name] for name in _NUMBERS[:3]}).items():
            setattr(self, name, value)
        self._publish()

    def _unpack_diagonal(self, arrays: dict[str, NDArray], constant: Any, gram: Gram, points: NDArray) -> None:
        """Set what a file holds of k(x, x) for a precomputed kernel: a constant diagonal, or the training matrix."""
        self._training_kernel = self._constant_diag = None
        if gram.kernel != "precomputed":
            return
        if constant is None:
            n = self.n_features_in_
            self._training_kernel = stored(arrays, "training_kernel", "f", (n, n))
            agree("training_kernel", self._training_kernel[np.ix_(points, points)], gram.X)
        else:
            agree("_constant_diag", np.full(gram.n, constant), gram.diag(), 1e-12 * float(np.abs(gram.diag()).max()))
