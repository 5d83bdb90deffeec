"""`BatchMachine`, the base class of the estimators that solve their problems from scratch at each `fit`.

It chooses the solver, checks solutions, warns of those above the tolerance, freezes the certified attributes, decides
what pickles hold, and predicts by feature weights where the kernel is linear.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from copy import copy, deepcopy
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import _safe_indexing, check_random_state
from sklearn.utils.validation import _num_samples

from ..core.certificate import Certificate
from ..core.gram import Gram
from ..core.kernel_functions import check_callable, kernel_values, trial_rows
from ..core.options import Flag
from ..core.problem import DualProblem
from ..core.psd import REPAIR_HINT
from ..core.runtime.arrays import has_same_bits, in_parts
from ..core.runtime.memory import MIN_BYTES_KEPT
from ..core.runtime.threads import at_most, cached_property
from ..core.runtime.warn import warn_user
from ..core.solution import LeftOut, Solution, Status
from ..core.solver import BOUNDED
from ..core.sparse_points import SparsePoints, is_sparse
from ..driver.solve import ON_INTERRUPT
from ..exceptions import FitError, UnusedCircuitsWarning
from ..solvers import Solver
from ..solvers.registry import USUAL_TRAITS, Traits, make_solver, traits_of
from ._base import KernelMachine, as_csr, fitted
from ._packing import Pose, unpack_solutions
from ._solving import check_arguments, solve_one, thread_count
from ._validation import are_objects

#: Coefficients up to this part of the largest are round-off of a projection, and are set to 0.
MIN_RELATIVE_COEF = 16 * float(np.finfo(float).eps)


class BatchMachine(KernelMachine):
    """Base class of the estimators that solve from scratch at each `fit`, with the solver given by ``solver``."""

    solver: Any
    solver_options: Any
    refine: bool | str
    tol: float
    max_steps: int | None
    max_iter: int = -1
    shrinking: Any = True
    cache_size: Any = 200
    verbose: Any = False
    time_limit: float | None
    random_state: Any
    warm_start: bool
    callback: Any
    on_interrupt: Any
    n_jobs: Any = None

    _rules = {"on_interrupt": ON_INTERRUPT, "refine": Flag(words=("auto",))}
    _takes_sparse: ClassVar[bool] = True
    #: Whether a callable kernel may take X that is not a numeric array (`are_objects`), such as texts or graphs.
    _takes_objects: ClassVar[bool] = True
    #: Such an X of the fit; the problems are then posed with its kernel matrix as a precomputed one.
    _objects: Any = None
    #: Whether pickles hold the training data (`keep_training_data`).
    _keeps_data: bool = False

    def _check_parameters(self, *names: str) -> None:
        if not names:
            check_arguments(self)
        if self.n_jobs is not None:
            thread_count(self.n_jobs)
        super()._check_parameters(*names)

    def _expanded(self, X: Any) -> NDArray:
        with at_most(None if self.n_jobs is None else thread_count(self.n_jobs)):
            return super()._expanded(X)

    #: With a linear kernel, the certified feature weights of each expansion, or None; None for other kernels, and for
    #: sparse points if none was certified.
    _certified_weights: Sequence[NDArray | None] | None = None

    def _keep_linear(self, given: Sequence[NDArray | None]) -> None:
        """Keep the certified feature weights of each expansion, or None, if the kernel is linear."""
        is_linear = self.kernel == "linear" and self._vectors is not None and self._vectors.is_linear
        predicts = is_linear and not (self._sparse and all(w is None for w in given))
        self._certified_weights = given if predicts else None

    @property
    def _linear(self) -> NDArray | None:
        """Feature weights by which a model with a linear kernel predicts, shape (r, n_features), or None.

        They are those that were certified, or else those that the support vectors make.
        """
        given = self._certified_weights
        return None if given is None else self._vectors.feature_weights(self._weights, given, self._sparse)

    @property
    def _constants(self) -> NDArray | float:
        """The constants that the centre of the support vectors subtracts from the expansions; predictions add them."""
        if (vectors := self._vectors) is None or not vectors.is_translatable:
            return 0.0
        if (linear := self._linear) is not None:
            return 0.0 if vectors.center is None else linear @ vectors.center
        constants = vectors.gram.constants(np.arange(len(self.support_)))
        return 0.0 if constants is None else constants @ self._weights

    def _feature_weights(self) -> NDArray:
        """Return `coef_`: the feature weights of each expansion, CSR if X was sparse; linear kernel only."""
        if self._as_fitted.kernel != "linear":
            raise AttributeError(f"coef_ exists with kernel='linear' only; kernel is {self._as_fitted.kernel!r}")
        if (linear := self._linear) is not None:
            return as_csr(linear) if self._sparse else linear
        return self._of_features(self._weights.T, self._support_gram)

    def _expansion(self, X: Any, beside: NDArray | None = None) -> NDArray:
        if self._linear is None:
            vectors = self._vectors
            if not self._sparse or vectors is None or vectors.gram.kernel != "linear":
                return super()._expansion(X, beside)
            self._check_parameters("predict_dtype")
            with np.errstate(over="ignore", invalid="ignore"):
                if vectors.gram.center is not None and vectors.gram.center.any():
                    X = (SparsePoints.of(scipy.sparse.csr_array(X)) - vectors.gram.center).tocsr()
                found = X @ vectors.sparse_weights(self._weights)
                return found.toarray() if is_sparse(found) else found
        self._check_parameters("predict_dtype")
        center, W = self._vectors.center, self._linear.T
        with np.errstate(over="ignore", invalid="ignore"):
            if center is None or is_sparse(X):
                values: NDArray = X @ W
                return values if center is None else values - center @ W
            return np.concatenate([(X[rows] - center) @ W for rows in in_parts(X, slice(None))])

    def _publish(self) -> None:
        """Convert `dual_coef_` to CSR if X was sparse, as in scikit-learn, and make certified attributes read-only."""
        if self._sparse:
            self.dual_coef_ = as_csr(self.dual_coef_)
        self._freeze()

    def keep_training_data(self, keep: bool = True) -> Self:
        """Set whether pickles of this fitted model hold its training data.

        Without the training data, an unpickled model predicts, has its certificates and starts a warm fit. With them,
        it also has ``solution_.problem`` and the methods that need the solved problems: `save`, `p_values`,
        `generalization_report`. Copies by `copy` always hold the training data, and so do pickles of models whose
        leave-one-out scores were computed (for ``contamination`` or `p_values`).

        Parameters
        ----------
        keep : bool, default=True
            True keeps the training data in pickles, False leaves them out.

        Returns
        -------
        The estimator itself.
        """
        self._check_fitted()
        self._keeps_data = keep
        return self

    @property
    def _pickles_data(self) -> bool:
        """Whether a pickle holds the training data."""
        return self._keeps_data

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        if self._pickles_data or not self.__sklearn_is_fitted__():
            return state
        state["solutions_"] = [solution.without_problem() for solution in self.solutions_]
        state.pop("_solved", None)
        signs = self._signs_of_weights()
        if signs is not None:
            state["dual_coef_"] = signs
        return state | ({"_rows": LeftOut()} if "_rows" in state else {})

    def _signs_of_weights(self) -> NDArray | None:
        """Return the signs of `dual_coef_` if its entries are ±α of the only solve, else None."""
        weights = self.__dict__.get("dual_coef_")
        if len(self.solutions_) > 1 or not isinstance(weights, np.ndarray) or not weights.size:
            return None
        alpha, signs = self.solutions_[0].alpha, np.sign(weights).astype(np.int8)
        is_within = self.support_.max() < len(alpha)
        return signs if is_within and np.array_equal(signs * alpha[self.support_], weights) else None

    def __copy__(self) -> Self:
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        other = memo[id(self)] = object.__new__(type(self))
        other.__dict__.update(deepcopy(self.__dict__, memo))
        other._freeze()
        return other

    def __setstate__(self, state: dict[str, Any]) -> None:
        dual_coef = state.get("dual_coef_")
        if isinstance(dual_coef, np.ndarray) and dual_coef.dtype == np.int8:
            state = state | {"dual_coef_": dual_coef * state["solutions_"][0].alpha[state["support_"]]}
        super().__setstate__({name: value for name, value in state.items() if name != "fit_status_"})
        self._freeze()  # unpickled arrays are writeable

    def _kernel_input(self, X: Any) -> Any:
        """Return X of a fit, or, where it is not numeric and the kernel is a callable, its kernel matrix."""
        self.__dict__.pop("_objects", None)
        if not (callable(self.kernel) and self._takes_objects and are_objects(X)):
            return X
        self._objects = copy(X)
        check_callable(self.kernel, _safe_indexing(X, trial_rows(_num_samples(X))))
        return self._kernel_of_objects(self._objects)

    def _kernel_of_objects(self, X: Any) -> NDArray:
        """Return the kernel matrix between X and the points of the fit, where neither is numeric."""
        return kernel_values(self._as_fitted.kernel(X, self._objects), (_num_samples(X), _num_samples(self._objects)))

    def _check_new_data(self, X: Any) -> Any:
        if self._objects is not None:
            self._check_fitted()
            X = self._kernel_of_objects(X)
        return super()._check_new_data(X)

    def _gram(self, X: Any) -> Gram:
        """Return the Gram of the training points, or of a precomputed kernel matrix."""
        if self._objects is not None:
            return Gram(X, "precomputed")
        parameters: Any = self.__dict__.get("_parameters_kept", self)
        return Gram(
            self._known_points(X),
            parameters.kernel,
            gamma=parameters.gamma,
            degree=parameters.degree,
            coef0=parameters.coef0,
        )

    def _known_points(self, X: Any) -> Any:
        """Return the copy of X that the last fit made if X has the same numbers, else X.

        A model stays as it is until a refit has succeeded. Without this, a refit takes memory for a second copy.
        """
        last = getattr(self.__dict__.get("_vectors"), "__dict__", {}).get("_gram")
        if last is None or not (type(X) is type(last.X) is np.ndarray) or X.nbytes < MIN_BYTES_KEPT:
            return X
        return last.X if has_same_bits(X, last.X) else X

    def _part(self, gram: Gram, rows: NDArray) -> Gram:
        """Return the Gram of some of the points, with the kernel width of all of them."""
        return gram if len(rows) == gram.n else gram.subset(rows)

    def _engine(self, gram: Gram, n: int, bounded: bool, traits: Traits = USUAL_TRAITS) -> Solver[Any, Any]:
        """Return the solver for problems of n variables; ``bounded`` says whether their bounds are finite."""
        return make_solver(self.solver, self.solver_options, gram if bounded else None, n, traits=traits)

    def _solve(self, problem: DualProblem) -> Solution:
        """Return the solution of a fit's only problem."""
        engine = self._engine(problem.gram, problem.n, problem.kind in BOUNDED, traits_of(problem, self.refine))
        return solve_one(self, problem, engine, seeds_of(self.random_state, 1)[0])

    def _check_solution(self, solution: Solution) -> None:
        """Raise `FitError` for a solution that must not become a model."""
        if solution.ended is Status.BROKEN:
            name = solution.provenance["solver"]
            raise FitError(f"solver={name!r}: {solution.ended.text} No model is made of it.", solution)
        if not (np.isfinite(solution.coefficients).all() and np.isfinite(solution.bias)):
            raise FitError("the solve ended in coefficients that are not finite; scale the features", solution)

    @fitted
    def fit_status_(self) -> int:
        """0 if all solves reached ``tol``, else 1."""
        return int(any(solution.status is not Status.OPTIMAL for solution in self.solutions_))

    @fitted
    def certificates_(self) -> list[Certificate]:
        """The certificate of each solve: how far from the optimum its solution is.

        The spectrum of a large precomputed or callable kernel is examined at first access, with the warning of `fit`
        if it is found to be indefinite.
        """
        solutions = self.solutions_
        late = [s for s in solutions if s.provisional.psd.kind == "presumed"]
        found = [s.certificate for s in solutions]
        if any(s.certificate.gap is None for s in late):
            self._warn_unless_optimal(late, len(solutions))
        return found

    def _warn_unless_optimal(self, solutions: list[Solution], count: int) -> None:
        """Warn of solves that missed ``tol`` or have no certificate, and of circuits without influence.

        Each kind of shortfall gives one warning, with the worst solve's gap; ``count`` is the number of all solves.
        """
        of_all = f" of {count} solves" if count > 1 else ""
        missed = [s for s in solutions if s.provisional_status is not Status.OPTIMAL]
        for solution in missed:
            _ = solution.certificate  # examined: a warning says what is certain
        withheld = [s for s in solutions if s.provisional.gap is None]
        at_max_iter = [s for s in solutions if _reached(s, self.max_iter)]
        above_tol = [s for s in missed if s.provisional.gap is not None]
        if at_max_iter:
            worst = max(at_max_iter, key=_gap)
            _warn(
                f"Solver terminated early (max_iter={self.max_iter}).  Consider pre-processing your data with "
                f"StandardScaler or MinMaxScaler. Certified relative gap{' after the refinement' * worst.refined} "
                f"{_gap(worst):.3g}{f' (worst of {len(at_max_iter)}{of_all})' if of_all else ''}."
            )
            above_tol = [s for s in above_tol if not _reached(s, self.max_iter)]
        # Solves that stopped at the step limit already have their raw certificate; others would compute it here.
        stopped = [s for s in solutions if s.raw_ended is Status.STEP_LIMIT]
        mended = [s for s in stopped if s.provisional_status is Status.OPTIMAL and s.raw_status is Status.STEP_LIMIT]
        if withheld:
            first = withheld[0]
            _warn(
                f"kernel: the problem's matrix is {first.provisional.psd}. The state the solver reached is used "
                f"as it is, its certificate is withheld{f' ({len(withheld)}{of_all})' if of_all else ''}. "
                f"{first.status.text} {REPAIR_HINT}."
            )
        if above_tol:
            worst = max(above_tol, key=_gap)
            _warn(
                f"{f'{len(above_tol)}{of_all} did not reach tol; the worst: ' if of_all else ''}{worst.status.text} "
                f"Certified relative gap {_gap(worst):.3g}, rounding {worst.certificate.relative_rounding:.2g}"
                f"{worst.certificate.sides}. "
                f"{worst.advice}"
            )
        unused = [s for s in solutions if s.refined and s.ran_circuits and not s.shows_circuits]
        if unused:
            worst = max(unused, key=lambda s: s.raw_excess)
            warn_user(
                f"{f'{len(unused)}{of_all} owe' if of_all else 'The model owes'} nothing to circuits: "
                f"{worst.raw_summary()}. The refinement finds the optimum from any start; refine=False shows the "
                "circuits' own answer.",
                UnusedCircuitsWarning,
            )
        if mended and self.max_steps is not None:
            worst = max(mended, key=lambda s: _relative(s.raw_certificate))
            _warn(
                f"The solver stopped at max_steps={self.max_steps} with relative gap "
                f"{_relative(worst.raw_certificate):.3g}{f' (worst of {len(mended)}{of_all})' if of_all else ''}; the "
                f"refinement took it to {_gap(worst):.3g}. Raise max_steps to let the solver itself converge."
            )

    # --- files ---------------------------------------------------------------------------------

    def _unpack_solutions(
        self, arrays: dict[str, NDArray], facts: dict[str, Any], pose: Pose, count: int, per: int = 1
    ) -> tuple[Gram, NDArray]:
        """Set the ``count`` solutions from a file, with ``per`` variables a point.

        Returns the Gram of all their points, and the indices of these in the training data.
        """
        if facts["gram"]["kernel"] is None:
            facts = facts | {"gram": facts["gram"] | {"kernel": self._as_fitted.kernel}}
        self.solutions_, self._rows, gram, points = unpack_solutions(arrays, facts, pose, per)
        given = gram.kernel == "precomputed"
        fits = points[-1] < self.n_features_in_ if given else gram.X.shape[1] == self.n_features_in_
        if len(self.solutions_) != count or not fits:
            raise ValueError(f"{len(self.solutions_)} solves, {self.n_features_in_} features do not go together")
        for solution in self.solutions_:
            self._check_solution(solution)
        return gram, points


def without_round_off(coefficients: NDArray) -> NDArray:
    """Return the coefficients with round-off of projections set to 0.

    Only coefficients up to `MIN_RELATIVE_COEF` of the largest are dropped: with a large C, many small ones add up.
    """
    sizes = np.abs(coefficients)
    return np.where(sizes > MIN_RELATIVE_COEF * sizes.max(initial=0.0), coefficients, 0.0)


def iterations_of(solution: Solution) -> int:
    """Return the solver's iterations as ``max_iter`` counts them: pair updates if it counted them, else steps."""
    if solution.direct_result is not None:  # one step, as its `cost` says, which is not made here
        return 1
    updates = solution.extras.get("updates")
    return solution.cost.steps if updates is None else int(updates[0])


def _reached(solution: Solution, max_iter: int) -> bool:
    """Whether ``max_iter`` ended the solver."""
    if max_iter == -1:
        return False
    return solution.raw_ended is Status.STEP_LIMIT or iterations_of(solution) >= max_iter


def _relative(certificate: Certificate) -> float:
    """Return a certificate's relative gap; ∞ if it is withheld."""
    return np.inf if certificate.relative_gap is None else certificate.relative_gap


def _gap(solution: Solution) -> float:
    """Return a solution's certified relative gap; ∞ if its certificate is withheld."""
    return _relative(solution.provisional)


def _warn(message: str) -> None:
    warn_user(message, ConvergenceWarning)


class Seeds(Sequence[int]):
    """One seed a solve; all but the first are made on access.

    Parameters
    ----------
    first : int or None
        The first seed, from which the others are made; None draws it from the system.
    count : int
        Number of solves.
    """

    def __init__(self, first: int | None, count: int) -> None:
        self._first, self._count = secrets.randbits(32) if first is None else first, count

    @cached_property
    def _others(self) -> list[int]:
        return [int(seed) for seed in np.random.SeedSequence(self._first).generate_state(self._count - 1)]

    def __len__(self) -> int:
        return self._count

    def __reduce__(self) -> Any:
        return Seeds, (self._first, self._count)  # a copy has the same seeds

    def __getitem__(self, k: Any) -> Any:
        if not 0 <= k < self._count:
            raise IndexError(k)
        return self._others[k - 1] if k else self._first


def seeds_of(random_state: Any, count: int) -> Seeds:
    """Return one seed a solve; an integer ``random_state`` is the first of them, None draws it from the system."""
    if random_state is None or isinstance(random_state, Integral):
        return Seeds(None if random_state is None else int(random_state), count)
    return Seeds(int(check_random_state(random_state).randint(2**31 - 1)), count)
