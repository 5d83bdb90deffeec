"""Support vector data description: novelty detection by the smallest ball."""

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
from ..core.solution import Status
from ..driver.solve import AUTO, Progress
from ..exceptions import FitError
from ..solvers import Solver
from ._batch import BatchMachine, iterations_of, kept
from ._one_class import NU_OR_NONE, Ball, ShareOfNew, sphere
from ._packing import pack_attributes, pack_solutions, unpacked
from ._validation import checked_data, kept_weight
from ._verify import agree, round_off, stored

__all__ = ["SVDD"]

#: What a file holds beside the solution: dtype kinds and dimensions.
_STORED = {"support_": ("i", "support"), "n_support_": ("i", "one"), "dual_coef_": ("f", "one", "support")}
_NUMBERS = ("radius_", "offset_", "_center_square", "_constant_diag")


def _posed(gram: Gram, told: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
    """The problem again, of which a file leaves open the bounds."""
    return replace(problems.svdd(gram), upper=column["upper"])


class SVDD(Ball, ShareOfNew, BatchMachine):
    """Smallest ball around the data in feature space; what lies outside is an outlier (Howell eq. 21-24).

    Minimises R² + (1/(νn)) Σ ξᵢ subject to ‖φ(xᵢ) − a‖² ≤ R² + ξᵢ, by its dual.

    Parameters
    ----------
    nu : float in (0, 1], None or "auto", default=0.1
        At most a fraction ν of the training points lies outside the ball. None is the hard
        ball around all points. "auto" is ``contamination``, or 0.05 for both.
    contamination : float in (0, 0.5], optional
        The share of *new* points, drawn as the training points were, that is to be rejected: ``offset_`` is then set by
        exact leave-one-out, see Notes. None leaves it to the ball.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        With "precomputed", k(z, z) of new points is not in the matrix: see `decision_function`.
    gamma, degree, coef0
        As in `SVC`.
    solver, solver_options, refine, tol, max_steps, time_limit, warm_start, callback, on_interrupt, random_state,
    predict_dtype
        As in `SVC`.
    n_jobs, max_iter, verbose, shrinking, cache_size
        As in `SVC`; threads are for predictions.

    Attributes
    ----------
    radius_ : float
        R, in feature space. The hard ball's is the distance of its farthest point; with a ``contamination`` it is that
        of the sphere around the same centre which rejects this share.
    nu_ : float or None
        ν of the ball.
    loo_scores_, loo_rejection_rate_, loo_relative_gap_ : array of shape (n,), float, float
        What each training point of positive weight scores by the ball without it, the part of these scores outside of
        ``radius_``, and the largest certified relative gap of the balls without a point. Computed when asked for.
    offset_ : float
        −R², so that ``decision_function = score_samples − offset_``. The sphere itself counts as inside.
    support_ : array of shape (n_SV,)
        Rows of X, ascending.
    support_vectors_ : array of shape (n_SV, n_features)
        Callable kernels included; empty if the kernel is precomputed. CSR, as are coefficients, if X was sparse.
    n_support_ : array of shape (1,)
    dual_coef_ : array of shape (1, n_SV)
        αᵢ ≥ 0 with Σαᵢ = 1, the centre a = Σ αᵢφ(xᵢ). `sklearn.svm.OneClassSVM` has νn times this.
    solution_, certificate_ : Solution, Certificate
        Over the points of positive weight, in their order; in lists of one, too: solutions_, certificates_.
    n_iter_ : int
        Steps, or what ``max_iter`` counts where it is given.
    fit_status_ : int
        0 if the solve reached ``tol``, else 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Where k(x, x) is constant (RBF), the decision values are 2/(νn) times those of
    ``OneClassSVM(nu=nu)``, and the predictions are the same.

    **ν and contamination.** ν is about the points trained on: at most that share is outside. Of new points more are: a
    point that supports the ball would be outside of the ball without it, so that about the share of support vectors is
    rejected, which can be several times ν. ``contamination=c`` sets the threshold instead: with k = ⌊c(n + 1)⌋, below
    the k-th smallest of `loo_scores_`; what is rejected are the points whose ``p_values(Z, "jackknife")`` are ≤ c. Of
    new points that is a share of c in the mean, as far as a point more or less hardly moves the ball, give or take
    √(c(1 − c)/n) by the luck of the training data; nothing is guaranteed beyond. ``nu`` then says only what the ball
    leaves out to find its centre, and the two never contradict each other. Weights do not count in the share.
    Up to 8000 points the models without each point come from one matrix of all of them (seconds); beyond, every support
    vector costs a solve of its own. ``time_limit`` is for these, too: a fit, `p_values` and `loo_scores_` that it does
    not suffice for are a `FitError`.
    Of the *training* points `fit_predict` marks that share, each judged by the ball without it, and `predict` fewer.

    Examples
    --------
    >>> from dualflow import SVDD
    >>> ball = SVDD(nu=None, kernel="linear").fit([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]])
    >>> round(ball.radius_, 9), ball.predict([[1.0, 0.9], [1.0, 1.1]]).tolist()
    (1.0, [1, -1])
    """

    _rules = {"nu": NU_OR_NONE}

    _takes_things = False  # distances to the centre need k(z, z) of each

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
        self.nu = nu
        self.contamination = contamination
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.solver = solver
        self.solver_options = solver_options
        self.refine = refine
        self.tol = tol
        self.max_steps = max_steps
        self.time_limit = time_limit
        self.warm_start = warm_start
        self.callback = callback
        self.on_interrupt = on_interrupt
        self.random_state = random_state
        self.predict_dtype = predict_dtype
        self.n_jobs = n_jobs
        self.max_iter = max_iter
        self.verbose = verbose
        self.shrinking = shrinking
        self.cache_size = cache_size

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> SVDD:
        """Fit the ball.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            Finite numbers; dense, or of any sparse format of scipy unless the kernel is precomputed.
        y : ignored
        sample_weight : array of shape (n,), optional
            Multiplies each point's bound 1/(νn), normalised to mean 1; 0 or less takes a point out.

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
            gram, rows, given = self._gram(points), np.arange(points.shape[0]), None
            if sample_weight is not None:
                weight = kept_weight(sample_weight, points)
                (rows,) = (weight > 0).nonzero()
                given = weight[rows]
            self._settle_share(len(rows))
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
        """Set what the solution, over those rows of a Gram, is to the user."""
        (solution,) = self.solutions_
        coefficients = kept(solution.coefficients)
        (inside,) = coefficients.nonzero()
        own = solution.problem.centred().gram  # a ball moves with its points, which are known best about their mean
        self._keep_support(own, inside)
        self.support_ = rows[inside]
        self.dual_coef_ = coefficients[None, inside]
        self.n_support_ = np.array([len(inside)])
        w = feature_weights(solution.problem, solution.certificate)
        self._keep_linear([w])
        if w is not None:
            self._center_square = float(w @ w)
        elif own is solution.problem.gram and np.array_equal(coefficients, solution.certificate.alpha):
            self._center_square = solution.certificate.quadratic / solution.problem.scale
        else:
            self._center_square = float(coefficients @ own.matvec(coefficients))
        diag = own.diag()
        if np.isinf(solution.problem.upper).all():
            squared_radius = float(self._squared_distances(gram.X[rows], diag).max())
        else:
            squared_radius = float(solution.certificate.radius or 0.0) ** 2
        if not np.isfinite(squared_radius):
            raise FitError("the solve ended in a radius that is not finite; scale the features", solution)
        if (least := self._threshold()) is not None:
            squared_radius = -least
        self.radius_, self.offset_ = sphere(squared_radius, diag, self._center_square)
        self.n_iter_ = iterations_of(solution)
        self.fit_status_ = int(solution.status is not Status.OPTIMAL)

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
        more, told = self._pack_share()
        return arrays | more, facts | told | {name: getattr(self, name) for name in _NUMBERS}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        gram, points = self._unpack_solutions(arrays, facts, _posed, 1)
        self._unpack_diagonal(arrays, facts["_constant_diag"], gram, points)
        self._unpack_share(arrays, facts, self.solutions_[0])
        self._read(gram, np.arange(gram.n))
        self.support_ = points[self.support_]
        solution, said = self.solutions_[0], unpacked(_STORED, arrays, one=1)
        for name, array in said.items():
            agree(name, array, getattr(self, name), 1e-9 * float(self.dual_coef_.max()))
        # αᵀKα and R² are no better known than a gradient of αᵀKα.
        near = 4.0 * round_off(solution.problem, solution.alpha)
        for name in ("_center_square", "offset_"):
            agree(name, facts[name], getattr(self, name), near)
        agree("radius_", facts["radius_"], self.radius_, near / max(self.radius_, near**0.5))
        if gram.kernel == "precomputed":
            self._constant_diag = facts["_constant_diag"]
        for name, value in (said | {name: facts[name] for name in _NUMBERS[:3]}).items():
            setattr(self, name, value)
        self._publish()

    def _unpack_diagonal(self, arrays: dict[str, NDArray], constant: Any, gram: Gram, points: NDArray) -> None:
        """What is known of k(x, x) where the kernel is a matrix."""
        self._training_kernel = self._constant_diag = None
        if gram.kernel != "precomputed":
            return
        if constant is None:
            n = self.n_features_in_
            self._training_kernel = stored(arrays, "training_kernel", "f", (n, n))
            agree("training_kernel", self._training_kernel[np.ix_(points, points)], gram.X)
        else:
            agree("_constant_diag", np.full(gram.n, constant), gram.diag(), 1e-12 * float(np.abs(gram.diag()).max()))
