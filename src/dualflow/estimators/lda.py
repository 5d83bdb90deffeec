"""`LDA`, linear discriminant analysis as a quadratic problem in the features' weights.

`Scatter` computes the means of the classes and the covariance within them, in coordinates in which each discriminant
is an unconstrained problem that a solver can solve and certify.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import scipy.linalg
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.covariance import ledoit_wolf_shrinkage

from .. import problems
from ..core.gram import Gram
from ..core.options import Number
from ..core.problem import DualProblem
from ..core.solution import Solution, Status
from ..driver.solve import Progress
from ..exceptions import ProblemError
from ..solvers import Solver
from ..solvers.registry import make_solver
from ._base import set_by_fit, unavailable
from ._batch import BatchMachine, iterations_of, seeds_of
from ._chunks import by_chunks
from ._packing import pack_attributes, pack_solutions, unpack_solutions, unpacked
from ._solving import Solving
from ._validation import checked_data, encode, require_two_classes
from ._verify import agree, known_classes, stored
from .least_squares import DEFAULT_SOLVER

#: Directions with a smaller deviation, in units of the features' deviations, are left out; scikit-learn's default.
RANK_TOL = 1e-4

_SHARE = Number(at_least=0, at_most=1, note="or 'auto'")


@dataclass(frozen=True)
class Scatter:
    """The covariance S within classes, in scaled coordinates of the directions in which points vary."""

    priors: NDArray  # prior probabilities of the classes; shape (n_classes,)
    means: NDArray  # means of the classes; shape (n_classes, m)
    #: Deviation of each feature within classes, with shrinkage; 1 for a feature that does not vary; shape (m,).
    unit: NDArray
    basis: NDArray  # orthonormal rows: the directions, in those units, in which points vary; shape (r, m)
    root: NDArray  # S = root·rootᵀ + diag(ridge) in these coordinates; shape (r, k)
    ridge: NDArray  # the part of S that shrinkage adds to the diagonal; shape (r,)

    @classmethod
    def of(cls, X: NDArray, codes: NDArray, priors: NDArray, shrinkage: Any, rank_tol: float) -> Scatter:
        """Return the scatter of points of shape (n, m), whose classes are given by ``codes``.

        Raises
        ------
        ProblemError
            Shrinkage is out of range, there are not more points than classes, or no feature varies within the classes.
        """
        share = _share_of(shrinkage)
        n, m, classes = *X.shape, len(priors)
        if n <= classes:
            raise ProblemError(
                f"y: {n} points of {classes} classes; the number of samples must be more than the number of classes"
            )
        means, rows, ridge = np.empty((classes, m)), np.empty((n, m)), np.zeros(m)
        for k in range(classes):
            own = np.flatnonzero(codes == k)
            # The mean of the centred points corrects the rounding of the first mean, which matters far from the origin.
            centre = X[own].mean(axis=0)
            centre += (X[own] - centre).mean(axis=0)
            within = X[own] - centre
            weight = 1.0 / n if shrinkage is None else priors[k] / len(own)
            part, added = _shrunk(within, share)
            means[k], rows[own] = centre, within * np.sqrt(weight * (1.0 - part))
            ridge += priors[k] * added
        with np.errstate(over="ignore"):
            variance = np.einsum("ij,ij->j", rows, rows) + ridge
        if not (np.isfinite(variance).all() and np.isfinite(means).all()):
            raise ProblemError("X: its variances overflow float64; scale the features")
        unit = np.sqrt(variance)
        varies = unit > np.finfo(float).eps * np.abs(X).max(axis=0, initial=0.0)
        if not varies.any():
            raise ProblemError("X: no feature varies within a class, so no direction is better than another")
        unit = np.where(varies, unit, 1.0)
        rows, ridge = np.where(varies, rows / unit, 0.0), np.where(varies, ridge / unit**2, 0.0)
        if n > m:  # m rows with the same scatter
            rows = scipy.linalg.qr(rows, mode="r", check_finite=False)[0][:m]
        if (ridge > 0).all():
            return cls(priors, means, unit, np.eye(m), rows.T.copy(), ridge)
        if ridge.any():  # constant features
            basis = np.eye(m)[varies]
            return cls(priors, means, unit, basis, (rows @ basis.T).T.copy(), ridge[varies])
        _, sizes, directions = scipy.linalg.svd(rows, full_matrices=False, check_finite=False)
        is_kept = sizes > rank_tol
        if not is_kept.any():
            raise ProblemError(f"X: no direction varies within classes by more than rank_tol={rank_tol!r}; lower it")
        basis = np.eye(m) if is_kept.sum() == m else directions[is_kept]
        return cls(priors, means, unit, basis, (rows @ basis.T).T.copy(), np.zeros(len(basis)))

    def differences(self) -> NDArray:
        """Return the difference of two classes' means, (1, r), or of each class's mean from the mean of all."""
        return differences(self.means, self.priors, self.unit, self.basis)

    def problems(self) -> list[DualProblem]:
        """Return the problems of the discriminants: one for two classes, else one for each class."""
        gram = Gram(self.root, "linear")
        return [problems.discriminant(gram, difference, ridge=self.ridge) for difference in self.differences()]


def differences(means: NDArray, priors: NDArray, unit: NDArray, basis: NDArray) -> NDArray:
    """Return `Scatter.differences` from the attributes that a file holds."""
    found = means[1:] - means[:1] if len(means) == 2 else means - priors @ means
    scaled: NDArray = (found / unit) @ basis.T
    return scaled


def _share_of(shrinkage: Any) -> float | None:
    """Return the shrinkage λ in [0, 1]; None if "auto" computes it for each class."""
    if isinstance(shrinkage, str) and shrinkage == "auto":
        return None
    return 0.0 if shrinkage is None else float(_SHARE.check("shrinkage", shrinkage))


def _shrunk(within: NDArray, share: float | None) -> tuple[float, NDArray]:
    """Return the shrinkage λ of a class and what it adds to the variances, from its points less their mean."""
    count, m = within.shape
    if share is not None:
        return share, np.full(m, share * float(np.einsum("ij,ij->", within, within)) / (count * m))
    deviation = within.std(axis=0)
    unit = np.where(deviation > 0, deviation, 1.0)
    standard = within / unit
    part = float(ledoit_wolf_shrinkage(standard)) if count > 1 and deviation.any() else 0.0
    return part, unit**2 * (part * float(np.mean(standard**2)))


#: Attributes that a file holds beside the solutions: name -> (dtype kinds, names of the dimensions …).
_STORED = {
    "classes_": ("biufUSmMO", "classes"),
    "priors_": ("f", "classes"),
    "means_": ("f", "classes", "features"),
    "_unit": ("f", "features"),
    "_basis": ("f", "rank", "features"),
}


class LDA(ClassifierMixin, BatchMachine):
    """Linear discriminant analysis. Each discriminant is the certified optimum of a problem in the features' weights.

    With two classes the problem is min ½wᵀSw − (μ₊ − μ₋)ᵀw, where S is the covariance within classes; its optimum is
    Fisher's S⁻¹(μ₊ − μ₋). Up to scale this is least squares with the targets n/n₊ and −n/n₋ and no ridge, in a form
    that needs no C = ∞ (`problems.discriminant`). Scale and bias are those of two normal densities with one covariance.
    With more classes there is one problem for each, whose optimum is S⁻¹(μₖ − μ). The model equals
    `sklearn.discriminant_analysis.LinearDiscriminantAnalysis`.

    Parameters
    ----------
    priors : array of shape (n_classes,), optional
        Prior probabilities of the classes; by default their shares of the points.
    shrinkage : float in [0, 1], or "auto", optional
        λ, by which S becomes (1 − λ)S + λ·tr(S)/m in each class; "auto" computes λ by Ledoit and Wolf. These are
        scikit-learn's solvers "lsqr" and "eigen". None is its solver "svd": no shrinkage, and S is not weighted by
        ``priors``.
    rank_tol : float > 0, default=1e-4
        Directions with a smaller deviation within classes are left out, after each feature was divided by its deviation
        within classes; this removes constant and collinear features. With ``shrinkage`` above 0 none are left out.
    solver : str or Solver, default="gradient-flow"
        A solver for problems without bounds: "gradient-flow", "cvxopt", "qpsolvers", or, for up to 16 features, one of
        the studies.
    solver_options, refine, tol, max_steps, time_limit, warm_start, callback, on_interrupt, random_state,
    n_jobs, max_iter, verbose
        As in `SVC`.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The class labels.
    coef_ : array of shape (1, n_features), or (n_classes, n_features) of more than two
        Weights of the features. With more than two classes they are S⁻¹(μₖ − μ), as of scikit-learn's solver "svd";
        its "lsqr" adds the same S⁻¹μ to all classes, which changes no prediction.
    intercept_ : array of shape (1,), or (n_classes,)
        The biases.
    priors_ : array of shape (n_classes,)
        Prior probabilities of the classes.
    means_ : array of shape (n_classes, n_features)
        Means of the classes.
    xbar_ : array of shape (n_features,)
        μ, the mean of the classes' means, weighted by their priors.
    rank_ : int
        Number of directions that were not left out.
    solutions_, certificates_ : list of Solution, list of Certificate
        One for two classes (then also `solution_`), else one for each class. The variables are the weights of the
        features in units of their deviations. `certificate_` is the worst certificate.
    n_iter_ : array of shape (n_problems,)
        Number of steps of each solve.
    fit_status_ : int
        0 if every solve reached ``tol``, else 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from dualflow import LDA
    >>> X = [[0.0, 0.0], [2.0, 0.0], [1.0, 1.0], [1.0, -1.0], [4.0, 0.0], [6.0, 0.0], [5.0, 1.0], [5.0, -1.0]]
    >>> model = LDA().fit(X, list("aaaabbbb"))
    >>> model.coef_.round(6).tolist(), model.intercept_.round(6).tolist()  # S = ½·1, means (1, 0) and (5, 0)
    ([[8.0, 0.0]], [-24.0])
    >>> model.predict([[2.9, 0.0], [3.1, 7.0]]).tolist()
    ['a', 'b']
    """

    _fitted_by = "classes_"
    _takes_sparse: ClassVar[bool] = False
    _takes_objects: ClassVar[bool] = False
    _rules = {"rank_tol": Number(above=0)}

    # The base class of kernel machines needs these; they are constants here, or refused.
    kernel, gamma, degree, coef0, predict_dtype = "linear", 1.0, 3, 0.0, "float64"
    support_: NDArray = unavailable("coef_")
    support_vectors_: NDArray = unavailable("coef_")
    n_support_: NDArray = unavailable("coef_")
    dual_coef_: NDArray = unavailable("coef_")
    offset_: ClassVar[Any] = unavailable("intercept_")
    radius_: ClassVar[Any] = unavailable("intercept_")

    classes_: NDArray = set_by_fit()
    coef_: NDArray = set_by_fit()
    intercept_: NDArray = set_by_fit()

    priors: ArrayLike | None
    shrinkage: float | str | None
    rank_tol: float

    def __init__(
        self,
        priors: ArrayLike | None = None,
        shrinkage: float | str | None = None,
        *,
        rank_tol: float = RANK_TOL,
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
        n_jobs: int | None = None,
        max_iter: int = -1,
        verbose: bool = False,
    ) -> None:
        self._set_parameters(locals())

    def fit(self, X: ArrayLike, y: ArrayLike) -> LDA:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, n_features)
            Finite numbers, more points than classes; dense.
        y : array of shape (n,)
            Labels of at least two classes.

        Returns
        -------
        LDA
            The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range, or no feature varies within the classes.
        SolverMismatch, SolverUnavailable, TypeError
            The solver cannot solve this problem, needs a package, or does not have an option.

        Warns
        -----
        ConvergenceWarning
            A solve ended above ``tol``.
        """
        with self._transaction():
            self._take_parameters()
            points, labels = checked_data(self, X, y, first=True, least=2)
            classes, codes = encode(labels)
            require_two_classes(classes, "y")
            scatter = Scatter.of(points, codes, self._priors(codes, len(classes)), self.shrinkage, self.rank_tol)
            problem_of = scatter.problems()
            seeds = seeds_of(self.random_state, len(problem_of))
            engine = make_solver(self.solver, self.solver_options)
            found: Any = Solving(self, problem_of.__getitem__, seeds, engine).run()
            self.solutions_, self.classes_ = found, classes
            self.priors_, self.means_, self._unit, self._basis = (
                scatter.priors,
                scatter.means,
                scatter.unit,
                scatter.basis,
            )
            self._read()
        return self

    def _priors(self, codes: NDArray, classes: int) -> NDArray:
        """Return the prior probabilities of the classes, given or from the points."""
        shares: NDArray = np.bincount(codes, minlength=classes) / len(codes)
        if self.priors is None:
            return shares
        priors = np.asarray(self.priors, dtype=float)
        if priors.shape != (classes,) or not (priors > 0).all() or not abs(priors.sum() - 1.0) <= 1e-5:
            raise ProblemError(f"priors={self.priors!r} must be {classes} numbers above 0, one a class, whose sum is 1")
        return priors / priors.sum()

    def _read(self) -> None:
        """Set the fitted attributes from the solutions."""
        solutions: list[Solution] = self.solutions_
        weights = np.array([solution.coefficients for solution in solutions])
        self.xbar_, self.rank_ = self.priors_ @ self.means_, len(self._basis)
        coef = (weights @ self._basis) / self._unit
        if len(self.classes_) == 2:
            # The midpoint of the means, instead of two products, loses no digits far from the origin.
            middle = 0.5 * (self.means_[0] + self.means_[1])
            self.intercept_ = np.log(self.priors_[1] / self.priors_[0]) - coef @ middle
        else:
            middles = 0.5 * (self.means_ + self.xbar_)
            self.intercept_ = np.log(self.priors_) - np.einsum("kj,kj->k", coef, middles)
        self.coef_ = coef
        self.n_iter_ = np.array([iterations_of(solution) for solution in solutions])
        self.fit_status_ = int(any(solution.status is not Status.OPTIMAL for solution in solutions))
        self._freeze()
        for name in ("coef_", "means_", "priors_", "xbar_"):
            self.__dict__[name].flags.writeable = False

    # --- prediction ----------------------------------------------------------------------------

    @by_chunks
    def decision_function(self, X: ArrayLike) -> NDArray:
        """Return the logarithms of the classes' densities times their priors, relative to each other.

        Parameters
        ----------
        X : array of shape (n_new, n_features)
            New points.

        Returns
        -------
        array
            With two classes, shape (n_new,): the log-ratio, positive for ``classes_[1]``. With more, shape
            (n_new, n_classes), up to a constant for each point.
        """
        values = self._finite(self._check_new_data(X) @ self.coef_.T + self.intercept_)
        return values[:, 0] if len(self.classes_) == 2 else values

    @by_chunks
    def predict(self, X: ArrayLike) -> NDArray:
        """Return the most probable labels, shape (n_new,)."""
        values = self.decision_function(X)
        return self.classes_[(values > 0).astype(int) if values.ndim == 1 else values.argmax(axis=1)]

    @by_chunks
    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the probabilities of the classes, shape (n_new, n_classes), for normal densities."""
        values = self.decision_function(X)
        return np.column_stack([expit(-values), expit(values)]) if values.ndim == 1 else softmax(values, axis=1)

    @by_chunks
    def predict_log_proba(self, X: ArrayLike) -> NDArray:
        """Return the logarithms of `predict_proba`, shape (n_new, n_classes)."""
        values = self.decision_function(X)
        if values.ndim == 1:
            return -np.logaddexp(0.0, np.column_stack([values, -values]))
        logarithms: NDArray = log_softmax(values, axis=1)
        return logarithms

    # --- files ---------------------------------------------------------------------------------

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        rows = [np.arange(self.rank_)] * len(self.solutions_)
        arrays, facts = pack_solutions(self.solutions_, rows)
        return arrays | pack_attributes(self, _STORED), facts

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        classes = known_classes(stored(arrays, "classes_", "biufUSmMO", (None,)))
        saved = unpacked(_STORED, arrays, classes=len(classes), features=self.n_features_in_)
        for name, array in saved.items():
            setattr(self, name, array)
        if not ((self.priors_ > 0).all() and (self._unit > 0).all()):
            raise ValueError("its priors or units are not above 0")
        agree("priors", self.priors_.sum(), 1.0, 1e-9)
        agree("basis", self._basis @ self._basis.T, np.eye(len(self._basis)), 1e-9)
        count = 1 if len(classes) == 2 else len(classes)
        rows = iter(differences(self.means_, self.priors_, self._unit, self._basis))

        def posed(gram: Gram, solve_facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
            """Return the next problem: points and ridge are the file's, the differences those of its means."""
            return problems.discriminant(gram, next(rows), ridge=column["ridge"])

        if len(facts["solves"]) != count:
            raise ValueError(f"{len(facts['solves'])} solves and {len(classes)} classes do not go together")
        self.solutions_ = unpack_solutions(arrays, facts, posed)[0]
        for solution in self.solutions_:
            self._check_solution(solution)
        self._read()
