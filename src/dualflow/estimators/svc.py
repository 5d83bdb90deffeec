"""The support vector classifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.gram import Gram
from ..core.options import OneOf
from ..core.problem import DualProblem
from ..core.solution import Solution, Status
from ..direct.pairs import PairBatch
from ..direct.results import PairResult
from ..driver.solve import AUTO, Progress, check_limits
from ..exceptions import FitError, ProblemError
from ..problems.classification import COST, hinge
from ..solvers import Solver
from ._batch import BatchMachine, seeds_of
from ._classifier import PairClassifier
from ._one_vs_one import Pairs, PairSolutions, SavedPairs, takes_batch
from ._solving import Solving, at_once, solve_one

__all__ = ["SVC"]


class SVC(SavedPairs, PairClassifier, BatchMachine):
    """Support vector classifier whose dual is solved by a solver of one's choice, and certified.

    Parameters, attributes and signs are those of `sklearn.svm.SVC` wherever both have them; what differs is in
    docs/how-to/from-sklearn.md.

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
    solver : str or Solver, default="auto"
        A name of `dualflow.list_solvers`, or an instance.
    solver_options : dict, optional
        Options of a solver given by name; an unknown one is a TypeError.
    refine : bool or "auto", default="auto"
        Follow the solver up with the classical active-set refinement: "auto" does, but for solvers that run circuits,
        whose own answer is the model. The solver's own answer stays in ``solution_.raw_alpha``. Without refinement
        `support_` is every point it gives weight to (all of them, for interior methods). Beyond 16 384 points nothing
        is refined that is certified within ``tol`` already.
    tol : float > 0, default=1e-6
        Certified relative gap at which a solve ends.
    max_steps : int, optional
        Step limit of each solve.
    time_limit : float, optional
        Seconds for the whole fit, shared out among the pairs of classes: what there is then is the model, with its
        certificates, for which time is set aside. Where a certificate takes longer, there is no model: a `FitError`.
    class_weight : dict or "balanced", optional
        Multiplies C, class by class.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for more than two classes.
    break_ties : bool, default=False
        Whether `predict` settles ties of votes by the "ovr" decision values.
    warm_start : bool, default=False
        Start from the previous fit's α where the number of points agrees.
    callback : callable, optional
        Called with a `dualflow.Progress` after each step; a true return value ends that solve. What it raises ends the
        fit, with the state that was reached as ``error.solution``.
    on_interrupt : {"raise", "keep"}, default="raise"
        Ctrl-C raises KeyboardInterrupt and leaves the estimator as it was, with what the solve had reached as
        ``error.solution``; or what there is becomes the model, with a warning.
    random_state : int, RandomState or None, default=None
        Seed of stochastic solvers. The one that was used is in ``solution_.provenance["seed"]``.
    predict_dtype : {"float64", "float32"}, default="float64"
        Precision of kernel values in prediction, not in training. "float32" is faster and good to about 1e-4 of
        the largest decision value; where a few points in both precisions say that it is not (terms that cancel:
        polynomials away from the origin), of less than 64 points, and of linear kernels over dense points, which
        predict by `coef_`, it is "float64".
    n_jobs : int, optional
        Threads for the pairs of classes, whatever BLAS has, and for predictions; -1 is all processors. None is 1 for
        pairs, or what `joblib.parallel_backend` says, and for predictions what BLAS has. Answers do not depend on it,
        but for last digits where BLAS has several threads.
    max_iter : int, default=-1
        Iterations of each solve at most; -1 is no limit. Pair updates of the default solver, as scikit-learn counts
        them, steps of all others. What was reached is refined all the same, unless ``refine=False``.
    verbose : bool, default=False
        Say how the fit goes on: certified gap, survivors, seconds; on a terminal in one line, else a line a second.
    shrinking, cache_size, probability
        scikit-learn's, without a meaning here: other values than its defaults are ignored with a warning.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    class_weight_ : array of shape (n_classes,)
    support_ : array of shape (n_SV,)
        Rows of X that are support vectors, by class and then ascending.
    support_vectors_ : array of shape (n_SV, n_features)
        Callable kernels included; empty if the kernel is precomputed. CSR, as are coefficients, if X was sparse.
    n_support_ : array of shape (n_classes,)
    dual_coef_ : array of shape (n_classes − 1, n_SV)
        yᵢαᵢ (squared hinge: yᵢaᵢ, a = μ/(μᵀHμ)) in LIBSVM's layout: a support vector of class i has its
        coefficient against class j in row j if j < i, else in row j − 1.
    intercept_ : array of shape (n_classes · (n_classes − 1)/2,)
        Of a pair with a class without weight ±1, which decides for the other class; 0 if both have none.
    coef_ : array of shape (n_pairs, n_features)
        Linear kernel only; read-only, as are `dual_coef_` and `intercept_`.
    solutions_ : list of Solution
        One a pair of classes (0, 1), (0, 2), …, over the pair's points of positive weight, in their order. A pair
        with a class without weight is left out, here and in `certificates_`.
    certificates_ : list of Certificate
    solution_ : Solution
        Two classes only.
    certificate_ : Certificate
        The worst pair's: how far from the optimum the model is.
    n_iter_ : array of shape (n_pairs,)
        Steps, or what ``max_iter`` counts where it is given; 0 of a pair with a class without weight.
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

    _fitted_by = "classes_"
    _rules = {"C": COST, "loss": OneOf(words=("hinge", "squared_hinge"))}

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
        solver: str | Solver = AUTO,
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
        shrinking: bool = True,
        cache_size: float = 200,
        probability: bool | str = False,
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
        self.on_interrupt = on_interrupt
        self.random_state = random_state
        self.predict_dtype = predict_dtype
        self.n_jobs = n_jobs
        self.max_iter = max_iter
        self.verbose = verbose
        self.shrinking = shrinking
        self.cache_size = cache_size
        self.probability = probability

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> SVC:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            Finite numbers; dense, or of any sparse format of scipy unless the kernel is precomputed. Whatever a kernel
            of one's own takes: a list of text, say.
        y : array of shape (n,)
            Labels of at least two classes.
        sample_weight : array of shape (n,), optional
            Multiplies C, point by point; 0 or less takes a point out.

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
        self._fit_pairs(X, y, sample_weight)
        return self

    def _solve_pairs(self, gram: Gram, weight: NDArray, pairs: Pairs) -> Sequence[Solution | PairResult]:
        """Solve the pairs of classes, and keep the solutions."""
        seeds = seeds_of(self.random_state, len(pairs))

        def pose(k: int) -> DualProblem:
            whole = len(pairs) == 1 and len(pairs.order) == gram.n
            points: Any = slice(None) if whole else pairs[k]
            own, signs, C = gram if whole else self._part(gram, points), pairs.signs(k), COST.check("C", self.C)
            if self.loss == "hinge" and self.fit_intercept is True and np.inf > C:
                return hinge(own, signs, C * weight[points])
            problem = problems.svc(
                own,
                signs,
                C,
                loss=self.loss,
                fit_intercept=self.fit_intercept,
                sample_weight=weight[points],
            )
            if problem.is_hard_margin and problem.psd.kind == "indefinite":
                raise ProblemError(
                    f"C=inf: the kernel is {problem.psd}; without bounds the dual falls for ever. Give a finite C"
                )
            return problem

        size = 2 * gram.n // len(pairs.groups)  # of a pair, in the mean
        engine = self._engine(gram, size, math.isfinite(COST.check("C", self.C)))
        if len(pairs) == 1:
            solutions: list[Solution | PairResult] = [solve_one(self, pose(0), engine, seeds[0])]
            self.__dict__.pop("_solved", None)
            self.solutions_ = solutions
            return solutions
        batch: PairBatch | None = None
        found: Sequence[Solution | PairResult] | None = None

        def progress(k: int, pair: PairResult) -> Progress:
            return Progress(1, 1.0, pair.alpha[pairs.places(k)], pair.certificate, pair.wall_time_s)

        if takes_batch(self, engine, gram):
            check_limits(self.tol, self.max_steps, self.time_limit)
            batch = PairBatch(gram, pairs.groups, self.C * weight[pairs.order], self.tol, bool(self.refine))
            found = at_once(self, batch)
        if found is None:
            found = Solving(self, pose, seeds, engine, batch, progress).run()
        self.__dict__.pop("solutions_", None)
        self._solved = PairSolutions(found, gram, pairs, self.C, weight, self.tol, seeds, bool(self.refine))
        return found

    def _check_solution(self, solution: Solution) -> None:
        if solution.status is Status.NOT_SEPARABLE:
            raise FitError(
                f"C={self.C!r}: {solution.status.text} Give a finite C, or a kernel that separates the classes; "
                "the witness is in this error's solution.witness",
                solution,
            )
        super()._check_solution(solution)
