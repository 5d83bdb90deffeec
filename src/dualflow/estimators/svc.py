"""`SVC`, the support vector classifier."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.bounds import ridges_apart
from ..core.gram import Gram
from ..core.options import OneOf
from ..core.problem import DualProblem
from ..core.solution import Solution, Status
from ..direct.pairs import PairBatch, PairResult
from ..driver.solve import AUTO, Progress, check_limits
from ..exceptions import FitError, ProblemError
from ..problems.classification import C_RULE, hinge
from ..solvers import Solver
from ..solvers.registry import Traits
from ._batch import BatchMachine, seeds_of
from ._calibration import CalibratedMachine
from ._classifier import PairClassifier
from ._one_vs_one import Pairs, PairSolutions, can_use_batch
from ._solving import Solving, solve_batch, solve_one


class SVC(CalibratedMachine, PairClassifier, BatchMachine):
    """Support vector classifier, by any solver that takes its dual; each solution has a certificate.

    Parameters, attributes and signs are those of `sklearn.svm.SVC` wherever both have them;
    see :doc:`/how-to/from-sklearn` for the differences.

    Parameters
    ----------
    C : float > 0, default=1.0
        Weight of the loss, as in scikit-learn for each loss (C of Bauckhage is twice as large). ``np.inf`` is the hard
        margin (Howell eq. 6-7).
    loss : {"hinge", "squared_hinge"}, default="hinge"
        "hinge" is the C-SVM (Howell eq. 13, Cauwenberghs & Poggio eq. 1). "squared_hinge" is the L2-SVM on the simplex
        (Bauckhage eq. 1-2), whose bias is penalised; with a linear kernel it equals
        ``LinearSVC(loss="squared_hinge", intercept_scaling=1)``.
    kernel : {"linear", "poly", "rbf", "sigmoid", "precomputed"} or callable, default="rbf"
        Kernel function. A callable ``kernel(A, B)`` returns an array of shape (len(A), len(B)).
    gamma : {"scale", "auto"} or float ≥ 0, default="scale"
        Kernel width, as in scikit-learn. "scale" is 1/(n_features · X.var()), independent of weights.
    degree, coef0 : float, default=3, 0.0
        Parameters of the kernels "poly" and "sigmoid".
    fit_intercept : bool or "penalised", default=True
        Whether the model has a bias. False is the box dual without bias (Mierswa 4.1). "penalised" is also a box dual,
        with the bias inside the kernel, K + 1, as the squared hinge always has it.
    solver : str or Solver, default="auto"
        A name from `dualflow.list_solvers`, or an instance. "auto" chooses by the problem.
    solver_options : dict, optional
        Options of a solver given by name. An unknown option raises TypeError.
    refine : bool or "auto", default="auto"
        Whether a classical active-set refinement follows the solver. "auto" refines, unless the solver runs circuits:
        then the solver's own answer is the model. The solver's answer stays in ``solution_.raw_alpha``. Without
        refinement, `support_` is every point to which the solver gives weight (all points, for interior methods).
        Beyond 16 384 points a solution that is certified within ``tol`` is not refined.
    tol : float > 0, default=1e-6
        Certified relative gap at which a solve ends.
    max_steps : int, optional
        Maximum number of steps of each solve.
    time_limit : float, optional
        Seconds for the whole fit, divided among the pairs of classes. When the time is over, the state reached becomes
        the model, with certificates, for which time is reserved. If a certificate takes longer than that, the fit
        raises `FitError`.
    class_weight : dict or "balanced", optional
        Factors of C for each class.
    decision_function_shape : {"ovr", "ovo"}, default="ovr"
        What `decision_function` returns for more than two classes.
    break_ties : bool, default=False
        Whether `predict` breaks ties between votes by the "ovr" decision values.
    warm_start : bool, default=False
        Whether a fit starts from the α of the previous fit, if the number of points is the same.
    callback : callable, optional
        Called with a `dualflow.Progress` after each step. A true return value ends that solve. An exception ends the
        fit, and carries the state reached as ``error.solution``.
    on_interrupt : {"raise", "keep"}, default="raise"
        What Ctrl-C does. "raise" raises KeyboardInterrupt with the state reached as ``error.solution``, and leaves the
        estimator as it was. "keep" makes the state reached the model, with a warning.
    random_state : int, RandomState or None, default=None
        Seed of stochastic solvers. ``solution_.provenance["seed"]`` holds the seed that was used.
    predict_dtype : {"float64", "float32"}, default="float64"
        Precision of kernel values in prediction; training is not affected. "float32" is faster, with an error of about
        1e-4 of the largest decision value. float64 is used all the same if a test on a few points shows a larger error
        (as for polynomials away from the origin, whose terms cancel), for fewer than 64 points, and for a linear
        kernel, which predicts by `coef_`.
    n_jobs : int, optional
        Number of threads for the pairs of classes, independent of the threads of BLAS, and for predictions; -1 is all
        processors. None is 1 for pairs, or the number set by `joblib.parallel_config`, and the number of BLAS for
        predictions. Results do not depend on it, except in the last digits where BLAS has several threads.
    max_iter : int, default=-1
        Maximum number of iterations of each solve; -1 is no limit. For the default solver these are pair updates, as
        scikit-learn counts them, for other solvers steps. The state reached is refined, unless ``refine=False``.
    verbose : bool, default=False
        Whether to print the progress of the fit: certified gap, survivors and seconds, in one line on a terminal, else
        in one line a second.
    shrinking, cache_size
        Present for scikit-learn's interface. Values other than the defaults are ignored with a warning.
    probability : bool or {"sigmoid", "isotonic", "venn-abers"}, default=False
        Whether `fit` also prepares `predict_proba`, and how: decision values of the training points, each by the exact
        model without that point, become probabilities. "sigmoid", which True also means, fits two parameters (Platt
        1999, with targets by Krichevsky and Trofimov) and suits small data. "isotonic" fits a monotone step function
        and needs many points; it says 0 and 1. "venn-abers" (Vovk and Petej 2014) takes two isotonic fits, in which
        the new point has either label, and says neither.

    Attributes
    ----------
    calibration_ : tuple of calibrators
        With ``probability``, one for each of `solutions_`: ``values`` are the decision values of its points by the
        models without each of them, ``is_exact`` says whether they are exact. With an indefinite kernel they are of
        five folds.
    classes_ : array of shape (n_classes,)
        The class labels.
    class_weight_ : array of shape (n_classes,)
        The factor of C of each class.
    support_ : array of shape (n_SV,)
        Rows of X that are support vectors, by class and then ascending.
    support_vectors_ : array of shape (n_SV, n_features)
        The support vectors, also with a callable kernel; empty if the kernel is precomputed. CSR if X was sparse, as
        are the coefficients.
    n_support_ : array of shape (n_classes,)
        Number of support vectors of each class.
    dual_coef_ : array of shape (n_classes − 1, n_SV)
        yᵢαᵢ (squared hinge: yᵢaᵢ, a = μ/(μᵀHμ)) in LIBSVM's layout: a support vector of class i has its
        coefficient against class j in row j if j < i, else in row j − 1.
    intercept_ : array of shape (n_classes · (n_classes − 1)/2,)
        Bias of each pair. For a pair in which one class has no weight it is ±1, which decides for the other class; if
        neither has weight it is 0.
    coef_ : array of shape (n_pairs, n_features)
        Weights of the features, for a linear kernel only; read-only, as are `dual_coef_` and `intercept_`.
    solutions_ : list of Solution
        One for each pair of classes (0, 1), (0, 2), …, over the pair's points of positive weight, in their order.
        Pairs with a class without weight are left out, here and in `certificates_`.
    certificates_ : list of Certificate
        The certificate of each of `solutions_`.
    solution_ : Solution
        The only solution, with two classes.
    certificate_ : Certificate
        The worst of `certificates_`: how far from the optimum the model is.
    n_iter_ : array of shape (n_pairs,)
        Steps of each solve, or iterations as ``max_iter`` counts them if it is set; 0 for a pair with a class without
        weight.
    fit_status_ : int
        0 if every solve reached ``tol``, else 1.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Notes
    -----
    Signs: with two classes y = +1 is ``classes_[1]``, for which decision_function > 0. With more, the pair (i, j)
    has y = +1 for class i, as in LIBSVM.

    Examples
    --------
    >>> from dualflow import SVC
    >>> SVC(kernel="linear", C=10).fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"]).predict([[0.4], [2.2]])
    array(['a', 'b'], dtype='<U1')
    """

    _fitted_by = "classes_"
    _rules = {"C": C_RULE, "loss": OneOf(words=("hinge", "squared_hinge"))}

    C: float
    loss: str
    fit_intercept: bool | str
    probability: bool | str

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
        self._set_parameters(locals())

    def _solve_pairs(self, gram: Gram, weight: NDArray, pairs: Pairs) -> Sequence[Solution | PairResult]:
        """Solve the pairs of classes, keep their solutions, and return the results.

        The one problem of two classes goes to `solve`. The pairs of more classes go to a `PairBatch` first, which
        solves small pairs in a few compiled calls, and those that it leaves to a run each (`Solving`).
        """
        classes = len(pairs.groups)
        count, pose = classes * (classes - 1) // 2, partial(self._posed, gram, weight, pairs)
        problem = pose(0) if count == 1 else None
        seeds, size = seeds_of(self.random_state, count), 2 * gram.n // classes  # mean number of points of a pair
        first_seed = seeds[0]
        uneven = self.loss == "squared_hinge" and ridges_apart(weight[weight > 0])
        bound = self.C * float(weight.max()) if self.refine and self.loss == "hinge" else 0.0
        engine = self._engine(gram, size, math.isfinite(self.C), Traits(uneven=uneven, bound=bound))
        if problem is not None:
            solutions: list[Solution | PairResult] = [solve_one(self, problem, engine, first_seed)]
            self.__dict__.pop("_solved", None)
            self.solutions_ = solutions
            return solutions
        batch: PairBatch | None = None
        found: Sequence[Solution | PairResult] = ()
        solved = PairSolutions(gram, pairs, self.C, weight, self.tol, seeds, bool(self.refine))
        if can_use_batch(self, engine, gram):
            check_limits(self.tol, self.max_steps, self.time_limit)
            batch = PairBatch(gram, pairs.groups, self.C * weight[pairs.order], self.tol, bool(self.refine))
            found = solve_batch(self, batch, solved)
        if len(found) < count:
            found = Solving(self, pose, seeds, engine, batch, solved, found).run()
        self.__dict__.pop("solutions_", None)
        solved.found = found
        self._solved = solved
        return found

    def _posed(self, gram: Gram, weight: NDArray, pairs: Pairs, k: int) -> DualProblem:
        """Return the dual problem of pair ``k`` of the classes."""
        C, all_points = float(self.C), len(pairs) == 1 and len(pairs.order) == gram.n
        points: Any = slice(None) if all_points else pairs[k]
        own, signs = gram if all_points else self._part(gram, points), pairs.signs(k)
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
                f"C=inf: the kernel is {problem.psd}; without bounds the dual has no minimum. Give a finite C"
            )
        return problem

    def _check_solution(self, solution: Solution) -> None:
        if solution.ended is Status.NOT_SEPARABLE:
            raise FitError(
                f"C={self.C!r}: {solution.ended.text} Give a finite C, or a kernel that separates the classes; "
                "the witness is in this error's solution.witness",
                solution,
            )
        super()._check_solution(solution)
