"""Support vector data description: novelty detection by the smallest ball."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import OutlierMixin
from sklearn.utils.validation import check_is_fitted

from .. import problems
from .._solve import DEFAULT_SOLVER, Progress
from ..core.screening import product_from_below
from ..core.solution import Status
from ..exceptions import ProblemError
from ..solvers import Solver
from ._base import FitError, KernelMachine, kept
from ._packing import stored

__all__ = ["SVDD"]

#: What a file holds beside the solution: dtype kinds and dimensions.
_STORED = {"support_": ("i", "support"), "n_support_": ("i", "one"), "dual_coef_": ("f", "one", "support")}
_NUMBERS = ("radius_", "offset_", "n_iter_", "fit_status_", "_center_square", "_constant_diag")


class SVDD(OutlierMixin, KernelMachine):
    """Smallest ball around the data in feature space; what lies outside is an outlier (Howell eq. 21-24).

    Minimises R² + (1/(νn)) Σ ξᵢ subject to ‖φ(xᵢ) − a‖² ≤ R² + ξᵢ, by its dual.

    Parameters
    ----------
    nu : float in (0, 1] or None, default=0.1
        At most a fraction ν of the training points lies outside the ball. None is the hard
        ball around all points.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        With "precomputed", k(z, z) of new points is not in the matrix: see `decision_function`.
    gamma, degree, coef0
        As in `SVC`.
    solver, solver_options, refine, tol, max_steps, time_limit, warm_start, callback, random_state, predict_dtype
        As in `SVC`.

    Attributes
    ----------
    radius_ : float
        R, in feature space. The hard ball's is the distance of its farthest point.
    offset_ : float
        −R², so that ``decision_function = score_samples − offset_``. The sphere itself counts as inside.
    support_ : array of shape (n_SV,)
    support_vectors_ : array of shape (n_SV, n_features)
        Callable kernels included; empty if the kernel is precomputed.
    n_support_ : array of shape (1,)
    dual_coef_ : array of shape (1, n_SV)
        αᵢ ≥ 0 with Σαᵢ = 1, the centre a = Σ αᵢφ(xᵢ). `sklearn.svm.OneClassSVM` has νn times this.
    solution_, certificate_ : Solution, Certificate
        Over the points of positive weight, in their order.
    n_iter_ : int
        Steps.
    fit_status_ : int
        0 if the solve reached ``tol``, else 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Where k(x, x) is constant (RBF), the decision values are 2/(νn) times those of
    ``OneClassSVM(nu=nu)``, and the predictions are the same.

    Examples
    --------
    >>> from dualflow import SVDD
    >>> ball = SVDD(nu=None, kernel="linear").fit([[0.0, 0.0], [2.0, 0.0], [1.0, 0.5]])
    >>> round(ball.radius_, 9), ball.predict([[1.0, 0.9], [1.0, 1.1]]).tolist()
    (1.0, [1, -1])
    """

    def __init__(
        self,
        nu: float | None = 0.1,
        *,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        solver: str | Solver = DEFAULT_SOLVER,
        solver_options: dict[str, Any] | None = None,
        refine: bool = True,
        tol: float = 1e-6,
        max_steps: int | None = None,
        time_limit: float | None = None,
        warm_start: bool = False,
        callback: Callable[[Progress], bool | None] | None = None,
        random_state: Any = None,
        predict_dtype: str = "float64",
    ) -> None:
        self.nu = nu
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
        self.random_state = random_state
        self.predict_dtype = predict_dtype

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> SVDD:
        """Fit the ball.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            Dense, finite numbers.
        y : ignored
        sample_weight : array of shape (n,), optional
            Multiplies each point's bound 1/(νn), normalised to mean 1; 0 takes a point out.

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
        points: NDArray = self._check_fit_data(X)
        weight = self._check_weight(sample_weight, points)
        gram = self._gram(points)
        rows = np.arange(len(points)) if sample_weight is None else np.flatnonzero(weight > 0)
        given = None if sample_weight is None else weight[rows]
        problem = problems.svdd(self._part(gram, rows), self.nu, sample_weight=given)
        (solution,) = self._solve_all([problem], 1)
        alpha = np.zeros(len(points))
        alpha[rows] = kept(solution.coefficients)
        (support,) = alpha.nonzero()
        self._keep_support(points, gram, support)
        self.solutions_, self._rows = [solution], [rows]
        self.dual_coef_ = alpha[None, support]
        self.n_support_ = np.array([len(support)])
        if np.array_equal(alpha[rows], solution.alpha):  # the certificate's product is still there
            product = product_from_below(problem, solution.alpha)
            self._center_square = float(solution.alpha @ product) / problem.scale
        else:
            self._center_square = float(alpha[support] @ gram.matvec(alpha, support))
        diag = gram.diag()
        self._training_kernel = self._constant_diag = None
        if gram.kernel == "precomputed":
            constant = np.ptp(diag) <= 1e-12 * float(np.abs(diag).max())
            self._constant_diag = float(diag[0]) if constant else None
            self._training_kernel = None if constant else points
        if self.nu is None:
            squared_radius = float(self._squared_distances(points[rows], diag[rows]).max())
        else:
            squared_radius = float(solution.certificate.radius or 0.0) ** 2
        if not np.isfinite(squared_radius):
            raise FitError("the solve ended in a radius that is not finite; scale the features", solution)
        # Points on the sphere are inside: without this, round-off would decide for each of them.
        slack = 64 * np.finfo(float).eps * (float(np.abs(diag).max()) + abs(self._center_square))
        self.radius_ = float(np.sqrt(max(0.0, squared_radius)))
        self.offset_ = -(squared_radius + slack)
        self.n_iter_ = solution.cost.steps
        self.fit_status_ = int(solution.status is not Status.OPTIMAL)
        return self

    def score_samples(self, X: ArrayLike) -> NDArray:
        """−‖φ(x) − a‖², shape (n_new,): the larger, the more like the training data. Errors as `decision_function`."""
        X = self._check_new_data(X)
        return -self._squared_distances(X, self._self_kernel(X))

    def decision_function(self, X: ArrayLike) -> NDArray:
        """R² − ‖φ(x) − a‖², shape (n_new,): positive inside the ball, negative outside.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed

        Raises
        ------
        ProblemError
            The kernel is precomputed with a diagonal that is not constant, and X is not the training matrix:
            k(x, x) of new points is then unknown. (Where the training diagonal is constant, as for every
            normalised kernel, new points are taken to have the same k(x, x).)
        """
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray:
        """+1 inside the ball or on it, −1 outside; shape (n_new,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    @property
    def center_(self) -> NDArray:
        """Centre of the ball in input space, shape (n_features,); linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError(f"center_ exists with kernel='linear' only; kernel is {self.kernel!r}")
        check_is_fitted(self)
        return self.dual_coef_[0] @ self.support_vectors_

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = self._pack_fit(_STORED, _NUMBERS)
        return arrays if self._training_kernel is None else arrays | {"training_kernel": self._training_kernel}, facts

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        self._unpack_fit(arrays, facts, _STORED, _NUMBERS, pairs=1, one=1)
        n = self.n_features_in_
        self._training_kernel = stored(arrays, "training_kernel", "f", (n, n)) if "training_kernel" in arrays else None

    def _self_kernel(self, X: NDArray) -> NDArray:
        """k(x, x) for validated X."""
        if self._support_gram is not None:
            with np.errstate(over="ignore"):
                return self._support_gram.self_kernel(X)
        if self._constant_diag is not None:
            return np.full(len(X), self._constant_diag)
        if self._training_kernel is not None and np.array_equal(X, self._training_kernel):
            return np.diag(X).copy()
        raise ProblemError(
            "kernel='precomputed': k(x, x) of new points is not in the matrix, and the training diagonal is not "
            "constant, so their distance to the centre is unknown; give a callable kernel, or normalise K"
        )

    def _squared_distances(self, X: NDArray, diag: NDArray) -> NDArray:
        """‖φ(x) − a‖² for validated X with k(x, x) = diag."""
        with np.errstate(over="ignore", invalid="ignore"):
            distances = diag - 2.0 * self._expand(X, self.dual_coef_.T)[:, 0] + self._center_square
        if not np.isfinite(distances).all():
            raise ProblemError(f"X: kernel={self.kernel!r} overflows float64 on it; scale the features")
        return distances
