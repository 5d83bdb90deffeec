"""The support vector classifier."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function
from sklearn.utils.validation import check_is_fitted

from .. import problems
from .._solve import DEFAULT_SOLVER, Progress
from ..core.kernels import Gram
from ..core.problem import DualProblem
from ..core.solution import Solution, Status
from ..exceptions import ProblemError
from ..solvers import Solver
from ._base import FitError, KernelMachine, kept
from ._labels import class_weights, encode, winners

__all__ = ["SVC"]

#: What a file holds beside the solutions: dtype kinds and dimensions.
_STORED = {
    "classes_": ("biufUSmMO", "classes"),
    "class_weight_": ("f", "classes"),
    "support_": ("i", "support"),
    "n_support_": ("i", "classes"),
    "dual_coef_": ("f", "rows", "support"),
    "_pair_coef": ("f", "support", "pairs"),
    "intercept_": ("f", "pairs"),
    "n_iter_": ("i", "pairs"),
}


class SVC(ClassifierMixin, KernelMachine):
    """Support vector classifier whose dual is solved by a solver of one's choice, and certified.

    Parameters, attributes and signs are those of `sklearn.svm.SVC` wherever both have them.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the loss, scikit-learn's for each loss (Bauckhage's C is twice it). ``np.inf`` is the hard
        margin (Howell eq. 6-7).
    loss : {"hinge", "squared_hinge"}, default="hinge"
        "hinge": C-SVM (Howell eq. 13, Cauwenberghs & Poggio eq. 1). "squared_hinge": L2-SVM on the simplex
        (Bauckhage eq. 1-2), whose bias is penalised; with a linear kernel it is
        ``LinearSVC(loss="squared_hinge", intercept_scaling=1)``.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        A callable is ``kernel(A, B) -> array of shape (len(A), len(B))``.
    gamma : {"scale", "auto"} or float ≥ 0, default="scale"
        As in scikit-learn: "scale" is 1/(n_features · X.var()), whatever the weights.
    degree, coef0 : float, default=3, 0.0
        Of the kernels "poly" and "sigmoid".
    fit_intercept : bool or "penalised", default=True
        False is the box dual without bias (Mierswa 4.1). "penalised" is a box dual too, with the bias inside the
        kernel, K + 1, as the squared hinge always has it.
    solver : str or Solver, default="working-set"
        A name of `dualflow.list_solvers`, or an instance.
    solver_options : dict, optional
        Options of a solver given by name; an unknown one is a TypeError.
    refine : bool, default=True
        Follow the solver up with the classical active-set refinement. The solver's own answer stays in
        ``solution_.raw_alpha``. False makes the model of that answer as it is: then `support_` is every point
        it gives weight to (all of them, for interior methods).
    tol : float > 0, default=1e-6
        Certified relative gap at which a solve ends.
    max_steps : int, optional
        Step limit of each solve.
    time_limit : float, optional
        Seconds for the whole fit, shared out among the pairs of classes.
    class_weight : dict or "balanced", optional
        Multiplies C, class by class.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for more than two classes.
    break_ties : bool, default=False
        Whether `predict` settles ties of votes by the "ovr" decision values.
    warm_start : bool, default=False
        Start from the previous fit's α where the number of points agrees.
    callback : callable, optional
        Called with a `dualflow.Progress` after each step; a true return value ends that solve.
    random_state : int, RandomState or None, default=None
        Seed of stochastic solvers. The one that was used is in ``solution_.provenance["seed"]``.
    predict_dtype : {"float64", "float32"}, default="float64"
        Precision of kernel values in prediction, not in training. "float32" is faster and good to about 1e-4 of
        the largest decision value.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    class_weight_ : array of shape (n_classes,)
    support_ : array of shape (n_SV,)
        Indices of the support vectors, by class and then by index.
    support_vectors_ : array of shape (n_SV, n_features)
        Callable kernels included; empty if the kernel is precomputed.
    n_support_ : array of shape (n_classes,)
    dual_coef_ : array of shape (n_classes − 1, n_SV)
        yᵢαᵢ (squared hinge: yᵢaᵢ, a = μ/(μᵀHμ)) in LIBSVM's layout: a support vector of class i has its
        coefficient against class j in row j if j < i, else in row j − 1.
    intercept_ : array of shape (n_classes · (n_classes − 1)/2,)
    coef_ : array of shape (n_pairs, n_features)
        Linear kernel only.
    solutions_ : list of Solution
        One a pair of classes (0, 1), (0, 2), …, over the pair's points of positive weight, in their order.
    solution_, certificate_ : Solution, Certificate
        Two classes only.
    n_iter_ : array of shape (n_pairs,)
        Steps.
    fit_status_ : int
        0 if every solve reached ``tol``, else 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Signs: with two classes y = +1 is ``classes_[1]``, and so is decision_function > 0. With more, the pair (i, j)
    has y = +1 for class i, as LIBSVM has it. Probabilities: wrap in `sklearn.calibration.CalibratedClassifierCV`.

    Examples
    --------
    >>> from dualflow import SVC
    >>> SVC(kernel="linear", C=10).fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"]).predict([[0.4], [2.2]])
    array(['a', 'b'], dtype='<U1')
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "hinge",
        kernel: str | Callable[[NDArray, NDArray], ArrayLike] = "rbf",
        gamma: str | float = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        fit_intercept: bool | str = True,
        solver: str | Solver = DEFAULT_SOLVER,
        solver_options: dict[str, Any] | None = None,
        refine: bool = True,
        tol: float = 1e-6,
        max_steps: int | None = None,
        time_limit: float | None = None,
        class_weight: dict[Any, float] | str | None = None,
        decision_function_shape: str = "ovr",
        break_ties: bool = False,
        warm_start: bool = False,
        callback: Callable[[Progress], bool | None] | None = None,
        random_state: Any = None,
        predict_dtype: str = "float64",
    ) -> None:
        self.C = C
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.fit_intercept = fit_intercept
        self.solver = solver
        self.solver_options = solver_options
        self.refine = refine
        self.tol = tol
        self.max_steps = max_steps
        self.time_limit = time_limit
        self.class_weight = class_weight
        self.decision_function_shape = decision_function_shape
        self.break_ties = break_ties
        self.warm_start = warm_start
        self.callback = callback
        self.random_state = random_state
        self.predict_dtype = predict_dtype

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> SVC:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            Dense, finite numbers.
        y : array of shape (n,)
            Labels of at least two classes.
        sample_weight : array of shape (n,), optional
            Multiplies C, point by point; 0 takes a point out.

        Returns
        -------
        SVC
            The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range. With ``C=np.inf`` and classes that cannot be separated it is a
            `FitError`, whose ``solution`` has the status NOT_SEPARABLE and a witness.
        SolverMismatch, SolverUnavailable, TypeError
            The solver cannot solve this problem, needs a package, or does not have an option.

        Warns
        -----
        ConvergenceWarning
            A solve ended above ``tol``, or its certificate is withheld because the kernel is indefinite.
        """
        self._check_shape()
        points: NDArray
        labels: NDArray
        points, labels = self._check_fit_data(X, y)
        classes, codes = encode(labels)
        if len(classes) < 2:
            raise ProblemError(f"y holds a single class, {classes[0]!r}; at least two classes are needed")
        self.class_weight_ = class_weights(self.class_weight, classes, labels)
        weight = self._check_weight(sample_weight, points) * self.class_weight_[codes]
        weighty = np.bincount(codes, weight > 0, minlength=len(classes))
        if not weighty.all():
            raise ProblemError(
                f"sample_weight, class_weight: no point of class {classes[int(np.argmin(weighty))]!r} has a positive "
                "weight; every class needs one"
            )
        gram = self._gram(points)
        pairs = list(combinations(range(len(classes)), 2))
        rows = [np.flatnonzero(((codes == i) | (codes == j)) & (weight > 0)) for i, j in pairs]
        solutions = self._solve_all(self._pair_problems(gram, codes, weight, pairs, rows), len(pairs))
        self.classes_, self.solutions_, self._rows = classes, solutions, rows
        self._read(points, gram, codes, pairs, rows)
        self.n_iter_ = np.array([solution.cost.steps for solution in solutions])
        self.fit_status_ = int(any(solution.status is not Status.OPTIMAL for solution in solutions))
        return self

    def decision_function(self, X: ArrayLike) -> NDArray:
        """Decision values.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed

        Returns
        -------
        array
            Two classes: shape (n_new,), positive for ``classes_[1]``. More, "ovo": shape (n_new, n_pairs),
            positive for the first class of the pair; "ovr": shape (n_new, n_classes), votes plus a
            monotone transform of the summed decision values into (−1/3, 1/3), as in scikit-learn.
        """
        self._check_shape()
        values = self._pair_values(X)
        if len(self.classes_) == 2:
            return values[:, 0]
        if self.decision_function_shape == "ovo":
            return values
        return _ovr_decision_function(values < 0, -values, len(self.classes_))

    def predict(self, X: ArrayLike) -> NDArray:
        """Labels, shape (n_new,): by the sign for two classes, by votes of the pairs for more."""
        self._check_shape()
        check_is_fitted(self)
        return self.classes_[winners(self._pair_values(X), len(self.classes_), self.break_ties)]

    @property
    def coef_(self) -> NDArray:
        """Weights of the features, shape (n_pairs, n_features); linear kernel only."""
        if self.kernel != "linear":
            raise AttributeError(f"coef_ exists with kernel='linear' only; kernel is {self.kernel!r}")
        check_is_fitted(self)
        return self._pair_coef.T @ self.support_vectors_

    def _check_shape(self) -> None:
        if self.decision_function_shape not in ("ovr", "ovo"):
            raise ProblemError(f"decision_function_shape={self.decision_function_shape!r} is not one of 'ovr', 'ovo'")
        if self.break_ties and self.decision_function_shape == "ovo":
            raise ProblemError("break_ties must be False if decision_function_shape is 'ovo'")

    def _pair_problems(
        self, gram: Gram, codes: NDArray, weight: NDArray, pairs: list[tuple[int, int]], rows: list[NDArray]
    ) -> Iterator[DualProblem]:
        for (i, j), points in zip(pairs, rows, strict=True):
            positive = j if len(pairs) == 1 else i
            problem = problems.svc(
                self._part(gram, points),
                np.where(codes[points] == positive, 1, -1),
                self.C,
                loss=self.loss,
                fit_intercept=self.fit_intercept,
                sample_weight=weight[points],
            )
            if problem.is_hard_margin and problem.psd.kind == "indefinite":
                raise ProblemError(
                    f"C=inf: the kernel is {problem.psd}; without bounds the dual falls for ever. Give a finite C"
                )
            yield problem

    def _check_solution(self, solution: Solution) -> None:
        if solution.status is Status.NOT_SEPARABLE:
            raise FitError(
                f"C={self.C!r}: {solution.status.text} Give a finite C, or a kernel that separates the classes; "
                "the witness is in this error's solution.witness",
                solution,
            )
        super()._check_solution(solution)

    def _read(self, X: NDArray, gram: Gram, codes: NDArray, pairs: list[tuple[int, int]], rows: list[NDArray]) -> None:
        """Support vectors of all pairs together, and each pair's coefficients on them."""
        coefficients = [kept(solution.coefficients) for solution in self.solutions_]
        used = np.zeros(len(codes), dtype=bool)
        for points, values in zip(rows, coefficients, strict=True):
            used[points[values != 0]] = True
        support = np.flatnonzero(used)
        support = support[np.argsort(codes[support], kind="stable")]
        place = np.zeros(len(codes), dtype=np.intp)
        place[support] = np.arange(len(support))
        classes = len(self.classes_)
        self._pair_coef = np.zeros((len(support), len(pairs)))
        self.dual_coef_ = np.zeros((classes - 1, len(support)))
        for k, (i, j) in enumerate(pairs):
            weighty = coefficients[k] != 0
            points, values = rows[k][weighty], coefficients[k][weighty]
            self._pair_coef[place[points], k] = values
            self.dual_coef_[np.where(codes[points] == i, j - 1, i), place[points]] = values
        self.n_support_ = np.bincount(codes[support], minlength=classes)
        self.intercept_ = np.array([solution.bias for solution in self.solutions_])
        self._keep_support(X, gram, support)

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        return self._pack_fit(_STORED, ["fit_status_"])

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        rows = len(arrays["classes_"]) - 1
        self._unpack_fit(
            arrays, facts, _STORED, ["fit_status_"], classes=rows + 1, rows=rows, pairs=rows * (rows + 1) // 2
        )

    def _pair_values(self, X: ArrayLike) -> NDArray:
        """Decision values of the pairs, shape (n_new, n_pairs)."""
        X = self._check_new_data(X)
        values = self._expand(X, self._pair_coef) + self.intercept_
        if not np.isfinite(values).all():
            raise ProblemError(f"X: kernel={self.kernel!r} overflows float64 on it; scale the features")
        return values
