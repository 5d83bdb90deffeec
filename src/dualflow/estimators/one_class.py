"""`OneClassSVM`, the one-class ν-SVM: novelty detection by the plane farthest from the origin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.decision import feature_weights
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..driver.solve import AUTO, Progress
from ..solvers import Solver
from ._base import read_only_property, set_by_fit, unavailable
from ._batch import BatchMachine, iterations_of, without_round_off
from ._chunks import by_chunks
from ._one_class import NU_RULE, ShareOfNew
from ._packing import pack_attributes, pack_solutions, unpacked
from ._validation import checked_data, rows_of_weight
from ._verify import agree, round_off

#: Attributes that a file holds beside the solution: name -> (dtype kinds, names of the dimensions …).
_STORED = {
    "support_": ("i", "support"),
    "n_support_": ("i", "one"),
    "dual_coef_": ("f", "one", "support"),
    "intercept_": ("f", "one"),
}


def _posed(gram: Gram, solve_facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
    """Return the problem from a file, which holds its bounds."""
    return replace(problems.one_class(gram), upper=column["upper"])


class OneClassSVM(ShareOfNew, BatchMachine):
    """Plane that separates the data from the origin in feature space; points on the origin's side are outliers.

    Minimises ½‖w‖² + Σ ξᵢ − νnρ subject to ⟨w, φ(xᵢ)⟩ ≥ ρ − ξᵢ, by its dual (Schölkopf et al. 2001). Parameters,
    attributes and signs are those of `sklearn.svm.OneClassSVM`; see :doc:`/how-to/from-sklearn` for the differences.
    Where k(x, x) is constant (RBF) its predictions are those of `SVDD` with the same ν.

    Parameters
    ----------
    nu : float in (0, 1] or "auto", default=0.5
        Upper bound on the share of training points outside, and lower bound on the share of support vectors. "auto"
        takes the value of ``contamination``, or 0.05 for both if that is None.
    kernel, gamma, degree, coef0
        As in `SVC`.
    contamination : float in (0, 0.5], optional
        Share of *new* points, drawn as the training points were, that the model rejects. The plane is moved for this by
        exact leave-one-out, as the sphere of `SVDD` (see its Notes).
    solver, solver_options, refine, tol, max_steps, time_limit, warm_start, callback, on_interrupt, random_state,
    predict_dtype
        As in `SVC`.
    n_jobs, max_iter, verbose, shrinking, cache_size
        As in `SVC`; ``n_jobs`` is the number of threads for predictions.

    Attributes
    ----------
    dual_coef_ : array of shape (1, n_SV)
        Coefficients in (0, 1], or up to a point's weight, whose sum is νn, or ν times the sum of weights. They are νn
        times the α of `solution_`.
    intercept_, offset_ : array of shape (1,)
        −ρ and ρ: ``decision_function = score_samples − offset_``. Points on the plane count as inside.
    coef_ : array of shape (1, n_features)
        Weights of the features, for a linear kernel only.
    nu_ : float
        The value of ν that was used.
    loo_scores_, loo_rejection_rate_, loo_relative_gap_
        As in `SVDD`; the scores are divided by νn.
    support_, support_vectors_, n_support_, solution_, certificate_, n_iter_, fit_status_, n_features_in_,
    feature_names_in_
        As in `SVDD`.

    Examples
    --------
    >>> from dualflow import OneClassSVM
    >>> model = OneClassSVM(nu=0.5, gamma=1.0).fit([[0.0], [0.1], [0.2], [3.0]])
    >>> model.predict([[0.1], [9.0]])
    array([ 1, -1])
    """

    _rules = {"nu": NU_RULE}

    radius_: ClassVar[Any] = unavailable("intercept_")
    intercept_: NDArray = set_by_fit()

    def __init__(
        self,
        *,
        contamination: float | None = None,
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        nu: float | str = 0.5,
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

    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> OneClassSVM:
        """Fit the plane.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            As in `SVC.fit`.
        y : ignored
            Present for scikit-learn's conventions.
        sample_weight : array of shape (n,), optional
            Multiplies each point's bound. Points with a weight of 0 or less are left out.

        Returns
        -------
        OneClassSVM
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
            (points,) = checked_data(self, self._kernel_input(X), first=True)
            rows, given = rows_of_weight(sample_weight, points)
            gram, total = self._gram(points), float(len(rows) if given is None else given.sum())
            self._set_share(len(rows))
            nu: Any = self.nu_
            problem = problems.one_class(self._part(gram, rows), nu, sample_weight=given)
            self.solutions_, self._rows = [self._solve(problem)], [rows]
            self._read(gram, rows, nu * total)
            self._publish()
        return self

    def _read(self, gram: Gram, rows: NDArray, total: float) -> None:
        """Set the fitted attributes from the solution, whose points are these rows of the Gram.

        ``total`` is the sum of the coefficients.
        """
        (solution,) = self.solutions_
        coefficients = total * without_round_off(solution.coefficients)
        (support,) = coefficients.nonzero()
        self._keep_support(gram, rows[support])
        self.dual_coef_, self.n_support_ = coefficients[None, support], np.array([len(support)])
        w = feature_weights(solution.problem, solution.answer)
        self._keep_linear([None if w is None else total * w])
        self._total = total
        # The slack for round-off makes points on the plane count as inside.
        largest = float(np.abs(gram.diag()).max())
        slack = 64 * np.finfo(float).eps * largest * total
        threshold = self._threshold()
        self.intercept_ = np.array([total * (solution.bias if threshold is None else -threshold) + slack])
        self.n_iter_ = iterations_of(solution)

    @read_only_property
    def offset_(self) -> NDArray:
        """The distance term ρ, shape (1,): decision_function = score_samples − offset_."""
        return -self.intercept_

    @by_chunks
    def score_samples(self, X: ArrayLike) -> NDArray:
        """Return ⟨w, φ(x)⟩, shape (n_new,): larger for points more like the training data.

        X is that of `decision_function`.
        """
        found: NDArray = self._expanded(X)[:, 0]
        return found

    @by_chunks
    def decision_function(self, X: ArrayLike) -> NDArray:
        """Return ⟨w, φ(x)⟩ − ρ, shape (n_new,): positive inside, negative outside.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            New points, dense or sparse.
        """
        return self.score_samples(X) + self.intercept_[0]

    @by_chunks
    def predict(self, X: ArrayLike) -> NDArray:
        """Return +1 for points inside or on the plane, −1 for points outside, shape (n_new,)."""
        return np.where(self.decision_function(X) >= 0, 1, -1)

    @read_only_property
    def coef_(self) -> NDArray:
        """Weights of the features, shape (1, n_features), CSR if X was sparse; linear kernel only."""
        return self._feature_weights()

    def _scored(self, points: Any, values: NDArray, squares: NDArray) -> NDArray:
        return values

    def _unit_scores(self, points: Any) -> NDArray:
        scores: NDArray = self._expansion(points)[:, 0] / self._total
        return scores

    def _limit(self) -> float:
        return float(self.offset_[0]) / self._total

    def _round_off(self) -> float:
        return 64 * float(np.finfo(float).eps) * float(np.abs(self.solutions_[0].problem.gram.diag()).max())

    # --- files ---------------------------------------------------------------------------------

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = pack_solutions(self.solutions_, self._rows)
        share_arrays, share_facts = self._pack_share()
        return arrays | pack_attributes(self, _STORED) | share_arrays, facts | share_facts | {"total": self._total}

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        total = facts["total"]
        if type(total) is not float or not 0 < total < np.inf:
            raise ValueError(f"its fact 'total' is {total!r}")
        gram, points = self._unpack_solutions(arrays, facts, _posed, 1)
        self._unpack_share(arrays, facts, self.solutions_[0])
        self._read(gram, np.arange(gram.n), total)
        self.support_ = points[self.support_]
        solution, saved = self.solutions_[0], unpacked(_STORED, arrays, one=1)
        tol_coef = 1e-9 * float(self.dual_coef_.max(initial=0.0))
        tol_bias = total * round_off(solution.problem, solution.alpha) + 1e-9 * float(np.abs(self.intercept_[0]))
        tolerance = {"support_": 0.0, "n_support_": 0.0, "dual_coef_": tol_coef, "intercept_": tol_bias}
        for name, array in saved.items():
            agree(name, array, getattr(self, name), tolerance[name])
            setattr(self, name, array)
        self._publish()
