"""What all kernel estimators share: checking data, running solves, saying what came of them, kernel blocks."""

from __future__ import annotations

import secrets
import time
import warnings
from collections.abc import Iterable, Sequence
from numbers import Integral
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from .._solve import solve
from ..core.certificate import Certificate
from ..core.kernels import Gram
from ..core.problem import DualProblem
from ..core.solution import Solution, Status
from ..exceptions import FitError, ProblemError
from ..registry import make_solver
from ._packing import Table, pack_attributes, pack_solutions, unpack_attributes, unpack_solutions
from ._persistence import Persistent

__all__ = ["FitError", "KernelMachine", "is_plain", "kept"]


class KernelMachine(Persistent):
    """Base class of the estimators; subclasses declare all parameters used here in their ``__init__``."""

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    predict_dtype: Any
    solver: Any
    solver_options: Any
    refine: bool
    tol: float
    max_steps: int | None
    time_limit: float | None
    random_state: Any
    warm_start: bool
    callback: Any
    solutions_: list[Solution]
    support_: NDArray
    support_vectors_: NDArray
    n_support_: NDArray
    #: The training points of each solve, ascending.
    _rows: list[NDArray]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags

    @property
    def solution_(self) -> Solution:
        """The `Solution` of a fit that took one solve; multi-class fits have `solutions_`, one a pair."""
        check_is_fitted(self)
        if len(self.solutions_) != 1:
            raise AttributeError(f"{len(self.solutions_)} pairs of classes were solved: see solutions_")
        return self.solutions_[0]

    @property
    def certificate_(self) -> Certificate:
        """The certificate of `solution_`: how far from the optimum the model is."""
        return self.solution_.certificate

    # --- data ----------------------------------------------------------------------------------

    def _check_fit_data(self, X: ArrayLike, y: ArrayLike | str = "no_validation") -> Any:
        """Validated X (and y, unless left out); sets n_features_in_ and feature_names_in_."""
        without_y = isinstance(y, str) and y == "no_validation"
        if is_plain(X, 2) and len(X) >= 2 and (without_y or (is_plain(y, 1) and len(X) == len(y))):
            # What scikit-learn's validation would find and do, which takes as long as a small fit. NaN and infinity
            # in X are found by `Gram`.
            self.n_features_in_: int = X.shape[1]
            if hasattr(self, "feature_names_in_"):
                del self.feature_names_in_
            return X if without_y else (X, y)
        _reject_unfit(X, "X")
        if not without_y:
            _reject_mixed_labels(y)
        return validate_data(self, X, y, dtype=np.float64, order="C", ensure_min_samples=2)

    def _check_new_data(self, X: ArrayLike) -> NDArray:
        """Validated X of shape (n_new, n_features_in_)."""
        check_is_fitted(self)
        _reject_unfit(X, "X")
        return validate_data(self, X, dtype=np.float64, order="C", reset=False)

    def _check_weight(self, sample_weight: ArrayLike | None, X: NDArray) -> NDArray:
        """Finite weights ≥ 0, one a point, not all of them 0."""
        if sample_weight is None:
            return np.ones(len(X))
        if not np.any(np.asarray(sample_weight)):
            raise ProblemError("sample_weight is zero for every point; nothing is left to fit")
        weight = _check_sample_weight(sample_weight, X, dtype=np.float64)
        if (weight < 0).any():
            raise ProblemError(f"sample_weight must be ≥ 0, found {weight.min():.6g}")
        return weight

    # --- kernel --------------------------------------------------------------------------------

    def _gram(self, X: NDArray) -> Gram:
        return Gram(X, self.kernel, gamma=self.gamma, degree=self.degree, coef0=self.coef0)

    def _part(self, gram: Gram, rows: NDArray) -> Gram:
        """The Gram of some of the points, with the kernel width of all of them."""
        return gram if len(rows) == gram.n else gram.subset(rows)

    def _keep_support(self, X: NDArray, gram: Gram, support: NDArray) -> None:
        """Set what prediction needs: the support vectors, and their kernel with its fitted parameters."""
        precomputed = gram.kernel == "precomputed"
        self.support_ = support
        self.support_vectors_ = np.empty((0, 0)) if precomputed else X[support]
        self._support_gram = None
        if not precomputed and len(support):
            self._support_gram = gram.subset(support)

    # --- files ---------------------------------------------------------------------------------

    def _pack_fit(self, table: Table, numbers: Sequence[str]) -> tuple[dict[str, NDArray], dict[str, Any]]:
        """`_pack` of a batch fit: its solutions, the array attributes of a table (`_packing`), and single numbers."""
        arrays, facts = pack_solutions(self.solutions_, self._rows)
        return arrays | pack_attributes(self, table), facts | {name: getattr(self, name) for name in numbers}

    def _unpack_fit(
        self,
        arrays: dict[str, NDArray],
        facts: dict[str, Any],
        table: Table,
        numbers: Sequence[str],
        **sizes: int,
    ) -> None:
        """`_unpack` of a batch fit of so many ``pairs``; ``sizes`` are dimensions of the table that are known."""
        self.solutions_, self._rows, gram, points = unpack_solutions(arrays, facts)
        unpack_attributes(self, table, arrays, **sizes)
        support, given = self.support_, gram.kernel == "precomputed"
        if len(self.solutions_) != sizes["pairs"] or self.n_support_.sum() != len(support):
            raise ValueError(f"{len(self.solutions_)} solves, {self.n_support_} support vectors do not go together")
        fits = points[-1] < self.n_features_in_ if given else gram.X.shape[1] == self.n_features_in_
        if not fits or not np.isin(support, points).all() or len(np.unique(support)) < len(support):
            raise ValueError(f"its {self.n_features_in_} features or its support vectors are not those of its points")
        self._keep_support(gram.X, gram, np.searchsorted(points, support))
        self.support_ = support
        for name in numbers:
            if facts[name] is not None and not np.isfinite(facts[name]):
                raise ValueError(f"its {name} is {facts[name]!r}")
            setattr(self, name, facts[name])

    def _expand(self, X: NDArray, weights: NDArray) -> NDArray:
        """Σⱼ weights[j, :] k(x, support vector j) for validated X: shape (len(X), r); memory stays bounded."""
        if self.predict_dtype not in ("float64", "float32"):
            raise ProblemError(f"predict_dtype={self.predict_dtype!r} is not one of 'float64', 'float32'")
        if not len(self.support_):
            return np.zeros((len(X), weights.shape[1]))
        if self._support_gram is None:
            return X[:, self.support_] @ weights
        with np.errstate(over="ignore", invalid="ignore"):
            return self._support_gram.expand(
                X, np.arange(len(self.support_)), weights, np.dtype(self.predict_dtype).type
            )

    # --- solving -------------------------------------------------------------------------------

    def _solve_all(self, tasks: Iterable[DualProblem], count: int) -> list[Solution]:
        """Solve ``count`` problems within one time limit; after Ctrl-C the remaining ones get one step each."""
        engine = make_solver(self.solver, self.solver_options)
        if self.refine and isinstance(self.solver, str) and not self.solver_options:
            engine = engine.to_be_refined()
        seeds = _seeds(self.random_state, count)
        time_limit, max_steps, refine = self.time_limit, self.max_steps, self.refine
        earlier: list[Solution] = getattr(self, "solutions_", []) if self.warm_start else []
        started = time.monotonic()
        solutions: list[Solution] = []
        for k, problem in enumerate(tasks):
            share = time_limit
            if isinstance(time_limit, (int, float)) and time_limit > 0:
                left = time_limit - (time.monotonic() - started)
                share = max(left, 1e-9) / (count - k)
            before = earlier[k] if len(earlier) == count else None
            solution = solve(
                problem,
                engine,
                refine=refine,
                tol=self.tol,
                max_steps=max_steps,
                time_limit=share,
                random_state=seeds[k],
                callback=self.callback,
                warm=before.alpha if before is not None and before.problem.n == problem.n else None,
            )
            self._check_solution(solution)
            if solution.status is Status.INTERRUPTED:
                max_steps, refine = 1, False
            solutions.append(solution)
        self._warn_unless_optimal(solutions, self.max_steps)
        return solutions

    def _check_solution(self, solution: Solution) -> None:
        """Refuse what must not become a model."""
        if solution.status is Status.BROKEN:
            name = solution.provenance["solver"]
            raise FitError(f"solver={name!r}: {solution.status.text} No model is made of it.", solution)
        if not (np.isfinite(solution.coefficients).all() and np.isfinite(solution.bias)):
            raise FitError("the solve ended in coefficients that are not finite; scale the features", solution)

    def _warn_unless_optimal(self, solutions: list[Solution], max_steps: int | None) -> None:
        of = f" of {len(solutions)} solves" if len(solutions) > 1 else ""
        withheld = [s for s in solutions if s.certificate.gap is None]
        short = [s for s in solutions if s.certificate.gap is not None and s.status is not Status.OPTIMAL]
        mended = [s for s in solutions if s.status is Status.OPTIMAL and s.raw_status is Status.STEP_LIMIT]
        if withheld:
            first = withheld[0]
            _warn(
                f"kernel: the problem's matrix is {first.certificate.psd}. The state the solver reached is used "
                f"as it is, its certificate is withheld{f' ({len(withheld)}{of})' if of else ''}. "
                f"{first.status.text} A positive semidefinite kernel has a certified optimum."
            )
        if short:
            worst = max(short, key=_gap)
            _warn(
                f"{f'{len(short)}{of} did not reach tol; the worst: ' if of else ''}{worst.status.text} Certified "
                f"relative gap {_gap(worst):.3g}. Raise max_steps or time_limit, scale the features, or lower C."
            )
        if mended and max_steps is not None:
            worst = max(mended, key=lambda s: _relative(s.raw_certificate))
            _warn(
                f"The solver stopped at max_steps={max_steps} with relative gap "
                f"{_relative(worst.raw_certificate):.3g}{f' (worst of {len(mended)}{of})' if of else ''}; the "
                f"refinement took it to {_gap(worst):.3g}. Raise max_steps to let the solver itself come to rest."
            )


def kept(coefficients: NDArray) -> NDArray:
    """The coefficients with round-off set to 0: what is below 1e-12 of the largest is left by projections."""
    size = float(np.abs(coefficients).max(initial=0.0))
    return np.where(np.abs(coefficients) > 1e-12 * size, coefficients, 0.0)


def _relative(certificate: Certificate) -> float:
    return np.inf if certificate.relative_gap is None else certificate.relative_gap


def _gap(solution: Solution) -> float:
    return _relative(solution.certificate)


def _warn(message: str) -> None:
    warnings.warn(message, ConvergenceWarning, stacklevel=5)


def _seeds(random_state: Any, count: int) -> list[int]:
    """One seed a solve, kept in its provenance: the given integer first; None draws from the system."""
    if random_state is None:
        first = secrets.randbits(32)
    elif isinstance(random_state, Integral):
        first = int(random_state)
    else:
        first = int(check_random_state(random_state).randint(2**31 - 1))
    if count == 1:
        return [first]
    return [first, *(int(seed) for seed in np.random.SeedSequence(first).generate_state(count - 1))]


def is_plain(array: Any, ndim: int, finite: bool = False) -> TypeGuard[NDArray]:
    """Whether this is a float64 matrix, or a vector of finite numbers, as it is wanted: nothing need be said about it
    or done to it. ``finite`` looks through a matrix, too."""
    if type(array) is not np.ndarray or array.ndim != ndim or not array.size or not array.flags.c_contiguous:
        return False
    if ndim == 1:
        return array.dtype.kind in "iu" or (array.dtype == np.float64 and bool(np.isfinite(array).all()))
    return array.dtype == np.float64 and (not finite or bool(np.isfinite(array).all()))


def _reject_unfit(X: Any, name: str) -> None:
    """What scikit-learn's own validation lets through or explains badly: masks, text, dates, ragged rows."""
    if isinstance(X, np.ma.MaskedArray):
        raise ProblemError(f"{name} is a masked array; fill or drop the masked entries first")
    if hasattr(X, "tocsr"):
        return
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise ProblemError(f"{name} is not a table of numbers (are its rows equally long?): {error}") from None
    text = array.dtype.kind == "O" and any(isinstance(entry, (str, bytes)) for entry in array.flat)
    if text or array.dtype.kind in "USMm":
        what = "text" if text else f"dtype {array.dtype}"
        raise ProblemError(f"{name} holds {what}; numbers are needed: convert it, e.g. with X.astype(float)")


def _reject_mixed_labels(y: Any) -> None:
    """NumPy would turn [1, "a"] into ["1", "a"] without a word."""
    if isinstance(y, np.ma.MaskedArray):
        raise ProblemError("y is a masked array; fill or drop the masked entries first")
    if isinstance(y, (list, tuple)) or getattr(getattr(y, "dtype", None), "kind", "") == "O":
        text = {isinstance(label, str) for label in np.asarray(y, dtype=object).flat}
        if len(text) == 2:
            raise ProblemError("y mixes text with other labels (or missing ones); give labels of one type")
