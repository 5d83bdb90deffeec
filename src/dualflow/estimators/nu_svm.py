"""`NuSVC` and `NuSVR`, the ν-support vector machines: ν takes the place of C, or of the tube's width ε."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.bounds import vanishing
from ..core.gram import Gram
from ..core.problem import DualProblem, Kind
from ..core.runtime import clock
from ..core.runtime.warn import warn_user
from ..core.solution import Solution, Status
from ..driver.solve import AUTO, Progress, solve
from ..exceptions import FitError
from ..problems.checks import NU_RULE
from ..problems.classification import FINITE_C_RULE, check_nu, hinge
from ..solvers import Solver
from ..solvers.registry import USUAL_TRAITS, Traits, make_solver
from ._base import MIN_TIME_LEFT_S, fitted
from ._batch import BatchMachine, seeds_of
from ._calibration import CalibratedMachine
from ._classifier import PairClassifier
from ._one_vs_one import CertifiedPair, Pairs
from ._regressor import ValueMachine, stored_values
from ._solving import Solving

#: C of the C-SVC that is near the limit of the ν-SVC where the margin ends, in units of 1/k(x, x) of centred points.
LIMIT_C = 1e3
#: A ν that is feasible for any sizes of the classes; a problem from a file is posed with it before its own ν is set.
FEASIBLE_NU = 1e-12


def _posed(gram: Gram, facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
    """Return a pair's problem from a file, which holds its labels, the weights of the points, and ν."""
    problem = problems.nu_svc(gram, column["sigma"], nu=FEASIBLE_NU)
    return replace(problem, upper=column["upper"], total=facts["total"])


class NuSVC(CalibratedMachine, PairClassifier, BatchMachine):
    """Support vector classifier with ν in the place of C; ν bounds the shares of margin errors and support vectors.

    Minimises ½‖w‖² − νρΣωᵢ + Σωᵢξᵢ subject to yᵢ(⟨w, φ(xᵢ)⟩ + b) ≥ ρ − ξᵢ, where ω are the weights of the points. It
    solves the dual, which has two equalities (Schölkopf and others 2000), and divides w and b by the margin ρ.
    Parameters, attributes and signs are those of `sklearn.svm.NuSVC` wherever both have them;
    see :doc:`/how-to/from-sklearn` for the differences.
    The decision function is that of ``SVC(C=1/ρ)``, where ρ is ``certificate_.level``.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Upper bound on the share of a pair's points on the wrong side of their margin, and lower bound on the share of
        support vectors. It must not exceed twice the share of the smaller class in the weight of the pair's points;
        with ``class_weight="balanced"`` every ν is feasible.
    kernel, gamma, degree, coef0
        As in `SVC`.
    solver : str or Solver, default="auto"
        A solver for problems with two equalities. "auto" is "interior-point" for kernel matrices of low rank (linear,
        or polynomials of few features), else "level-search".
    solver_options : dict, optional
        Options of a solver given by name.
    refine : bool or "auto", default="auto"
        Without effect: the solvers of these problems put variables exactly on their bounds, so nothing is refined.
    tol, max_steps, time_limit
        As in `SVC`.
    class_weight : dict or "balanced", optional
        Factors of the points' weights for each class. (`sklearn.svm.NuSVC` ignores it.)
    decision_function_shape, break_ties, warm_start, callback, on_interrupt, random_state, predict_dtype
        As in `SVC`.
    n_jobs, max_iter, verbose, shrinking, cache_size
        As in `SVC`.
    probability : bool or {"sigmoid", "isotonic", "venn-abers"}, default=False
        As in `SVC`. The models without a training point are those of the `SVC` that has this decision function: its C
        is fixed, 1/ρ.

    Attributes
    ----------
    calibration_ : tuple of calibrators
        As in `SVC`.
    class_weight_ : array of shape (n_classes,)
        The factor of each class's weights.
    dual_coef_ : array of shape (n_classes − 1, n_SV)
        yᵢαᵢ/ρ in LIBSVM's layout, as in `SVC`.
    certificates_ : list of Certificate
        One for each of `solutions_`; the ``level`` of each is the margin ρ.
    classes_, support_, support_vectors_, n_support_, intercept_, coef_, solutions_, solution_, certificate_, n_iter_,
    fit_status_, n_features_in_, feature_names_in_
        As in `SVC`.

    Notes
    -----
    Signs are those of `SVC`: with two classes y = +1 is ``classes_[1]``; with more, the pair (i, j) has y = +1 for
    class i.

    `fit` raises `ProblemError` if ν is infeasible, with the largest feasible ν, and `FitError` if the classes overlap
    for every plane and every ν: the margin ρ is 0, and there is no model. It warns (UserWarning) if ν is so small for
    two classes that their margin ρ is 0, and no plane is better than another. Their model is then the one near the
    least ν with a margin, which is that of an SVC with a large C.

    Examples
    --------
    >>> from dualflow import NuSVC
    >>> model = NuSVC(nu=0.5, kernel="linear").fit([[0.0], [1.0], [2.0], [3.0]], ["a", "a", "b", "b"])
    >>> model.coef_.round(6).tolist(), model.predict([[0.4], [2.2]]).tolist()  # x − 1.5
    ([[1.0]], ['a', 'b'])
    """

    _fitted_by = "classes_"
    _rules = {"nu": NU_RULE}
    _pose = staticmethod(_posed)

    nu: float
    probability: bool | str

    def __init__(
        self,
        *,
        nu: float = 0.5,
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

    def _solve_pairs(self, gram: Gram, weight: NDArray, pairs: Pairs) -> list[Solution]:
        masses = [float(weight[group].sum()) for group in pairs.groups]
        check_nu(self.nu, min(masses), max(masses))
        seeds = seeds_of(self.random_state, len(pairs))

        def pose(k: int) -> DualProblem:
            points = pairs[k]
            return problems.nu_svc(self._part(gram, points), pairs.signs(k), self.nu, sample_weight=weight[points])

        engine, timer = make_solver(self.solver, self.solver_options, gram, gram.n, Kind.TWO_EQUALITIES), clock.Timer()
        found: Any = Solving(self, pose, seeds, engine).run()
        self.solutions_ = [
            self._with_margin(solution, engine, seed, timer) if _has_no_margin(solution) else solution
            for solution, seed in zip(found, seeds, strict=True)
        ]
        return self.solutions_

    def _with_fixed_bounds(self, solution: Solution | CertifiedPair) -> tuple[DualProblem, NDArray]:
        problem, level = solution.problem, float(solution.certificate.level or 0.0)
        return hinge(problem.gram, problem.sigma, problem.upper / level), solution.alpha / level

    def _with_margin(self, solution: Solution, engine: Solver[Any, Any], seed: int, timer: clock.Timer) -> Solution:
        """Return the solution near the least ν that has a margin, with a warning; `FitError` if there is none.

        With C → ∞ the C-SVC goes to the limit of the ν-SVC as its margin goes to 0 (Chang and Lin 2001, section 3).
        """
        # A feasible α whose f is round-off is the optimum, whatever its relative gap.
        if solution.status not in (Status.OPTIMAL, Status.FINISHED):
            raise FitError(
                f"nu={self.nu!r}: the solve ended before it found a margin ({solution.ended.text})", solution
            )

        def left_s() -> float | None:
            return None if self.time_limit is None else max(MIN_TIME_LEFT_S, self.time_limit - timer.seconds()[0])

        problem = solution.problem
        C = LIMIT_C / max(float(problem.centred().gram.diag().mean()), float(np.finfo(float).tiny))
        limit = solve(hinge(problem.gram, problem.sigma, C * problem.upper), refine="early", time_limit=left_s())
        posed = replace(problem, total=max(float(limit.alpha.sum()) / C, problem.total or 0.0))
        start = limit.alpha / C  # the optimum, but for the digits of the limit's solve
        again = solve(posed, engine, tol=self.tol, time_limit=left_s(), random_state=seed, warm=start)
        if _has_no_margin(again):
            raise FitError(
                f"nu={self.nu!r}: the margin rho is 0 for every nu, so that no plane is better than another: with this "
                "kernel the classes overlap everywhere. Take a kernel that separates them better",
                solution,
            )
        weight = float(problem.upper.sum())
        warn_user(
            f"nu={self.nu!r}: with it the margin of two classes is 0, and no plane is better than another; their model "
            f"is that of nu={(posed.total or 0.0) / weight:.6g}, near the least that has a margin. Raise nu"
        )
        self._check_solution(again)
        self._warn_unless_optimal([again], 1)
        return again

    def _warn_unless_optimal(self, solutions: list[Solution], count: int) -> None:
        # A solution without a margin is not the model's, and the relative gap of an f that is round-off says nothing.
        super()._warn_unless_optimal([one for one in solutions if not _has_no_margin(one)], count)


def _has_no_margin(solution: Solution) -> bool:
    """Whether ‖w‖ of a ν-SVC is round-off; its margin ρ is 0 then."""
    certificate = solution.provisional
    return 0.5 * certificate.quadratic <= vanishing(solution.problem, certificate.alpha, certificate.quadratic)


class NuSVR(ValueMachine):
    """Support vector regression with ν in the place of ε; ν bounds the share of points outside the tube.

    Minimises ½‖w‖² + C(νεΣωᵢ + Σωᵢ max(0, |zᵢ − f(xᵢ)| − ε)) over f and ε, where ω are the weights of the points, by
    its dual, which has two equalities (Schölkopf and others 2000). Parameters, attributes and signs are those of
    `sklearn.svm.NuSVR` wherever both have them. The function is that of ``SVR`` with the same C and the ε found,
    `epsilon_`.

    Parameters
    ----------
    nu : float in (0, 1], default=0.5
        Upper bound on the share of points (of their weight) outside the tube, and lower bound on the share of support
        vectors.
    C : float > 0, default=1.0
        Weight of the loss.
    kernel, gamma, degree, coef0
        As in `SVC`.
    solver, solver_options, refine
        As in `NuSVC`.
    tol, max_steps, time_limit, warm_start, callback, on_interrupt, random_state, predict_dtype
        As in `SVC`.
    n_jobs, max_iter, verbose, shrinking, cache_size
        As in `SVC`; ``n_jobs`` is the number of threads for predictions.

    Attributes
    ----------
    epsilon_ : float
        Half the width of the tube, in units of y.
    support_, support_vectors_, n_support_, dual_coef_, intercept_, coef_, solution_, certificate_, n_iter_,
    fit_status_, n_features_in_, feature_names_in_
        As in `SVR`.

    Examples
    --------
    >>> from dualflow import NuSVR
    >>> line = NuSVR(nu=0.5, C=100, kernel="linear").fit([[0.0], [1.0], [2.0]], [0.0, 1.0, 5.0])
    >>> line.coef_.round(6).tolist(), round(line.epsilon_, 6)  # −0.75 + 2.5x within 0.75 of all
    ([[2.5]], 0.75)
    """

    _rules = {"nu": NU_RULE, "C": FINITE_C_RULE}

    nu: float
    C: float

    def __init__(
        self,
        *,
        nu: float = 0.5,
        C: float = 1.0,
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
        return [self._solve(problems.nu_svr(part, values, self.C, nu=self.nu, sample_weight=weight))]

    def _engine(self, gram: Gram, n: int, bounded: bool, traits: Traits = USUAL_TRAITS) -> Solver[Any, Any]:
        return make_solver(self.solver, self.solver_options, gram, n, Kind.TWO_EQUALITIES)

    @fitted
    def epsilon_(self) -> float:
        """Half the width of the tube, in units of y."""
        return max(0.0, -(self.solutions_[0].provisional.level or 0.0))

    # --- files ---------------------------------------------------------------------------------

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        p = stored_values(arrays)

        def posed(gram: Gram, solve_facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
            """Return the problem from a file, which holds its bounds, ν, and y in the array 'p'."""
            if p.shape != (2 * gram.n,) or not np.array_equal(p[: gram.n], -p[gram.n :]):
                raise ValueError("its array 'p' is that of no tube")
            upper = column["upper"]
            if not np.array_equal(upper[: gram.n], upper[gram.n :]):
                raise ValueError("its bounds are not those of a tube")
            return replace(problems.nu_svr(gram, np.zeros(gram.n)), p=p, upper=upper, total=solve_facts["total"])

        self._unpack_values(arrays, facts, posed, per=2)
