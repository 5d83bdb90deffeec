"""All optima of a support vector machine along C, or along ε: exact, and certified at any value."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy, deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone

from ..core.certificate import Certificate, Certifier, certify
from ..core.decision import coefficients, decision_values
from ..core.options import Number
from ..core.problem import DualProblem
from ..driver.solve import solve
from ..estimators import SVC, SVR, generalization_report
from ..exceptions import ProblemError
from ..online._path import AT_UPPER
from ..online.linear_term_path import LinearTermPath, follow_linear_term
from ._accuracy import accuracy_steps

#: Relative gap of the optima at which a path starts.
START_TOL = 1e-11
#: Up to this many variables, a path is followed. It holds a matrix of this order.
MAX_VARIABLES = 10_000
#: Ratio of the ends of a path along C: it has a section for each factor of 2.
MAX_RATIO = 1e50
_VALUE = Number(above=0)
_EPSILON = Number(at_least=0)


@dataclass(frozen=True, eq=False)
class RegularizationPath:
    """All optima between two values of a parameter.

    Between two breakpoints the set of free variables is the same, and α is a linear function of C (or of ε).

    Attributes
    ----------
    parameter : {"C", "epsilon"}
    values : array of shape (k,)
        The breakpoints, ascending; the first and last are the ends of the path. Two are equal where α jumps between
        two optima, which happens where it is not unique (a linear kernel of few features).
    is_exact : array of shape (k − 1,)
        Whether α is known between breakpoints i and i + 1. Where round-off breaks the path off, or spoils a stretch of
        it, α is computed anew further on; in between, α is interpolated, and `certificate` says how good it is.
    model : SVC or SVR
        The estimator, unfitted.
    classes_ : array of shape (2,) or None
        The two classes of an `SVC`.

    Examples
    --------
    >>> from dualflow import SVR, regularization_path
    >>> path = regularization_path(SVR(kernel="linear", C=10), [[0.0], [1.0], [2.0]], [0.0, 1.0, 2.0], epsilon=(0, 2))
    >>> path.values.tolist(), path.n_support.tolist()  # the flattest line within ε, until a constant is one
    ([0.0, 1.0, 2.0], [2, 0, 0])
    """

    parameter: str
    values: NDArray
    is_exact: NDArray
    model: Any
    classes_: NDArray | None
    _path: LinearTermPath = field(repr=False)
    _problem: Callable[[float], DualProblem] = field(repr=False)
    _Q: NDArray = field(repr=False)
    _data: tuple[Any, ...] = field(repr=False)
    _fitted: SVC | SVR = field(repr=False)

    def _checked(self, value: float) -> float:
        value = float((_VALUE if self.parameter == "C" else _EPSILON).check(self.parameter, value))
        low, high = self.values[0], self.values[-1]
        if not low <= value <= high:
            raise ProblemError(f"{self.parameter}={value!r} is not on this path, which is from {low:g} to {high:g}")
        return value

    def alpha(self, value: float) -> NDArray:
        """Return α at a value of the parameter, shape (n,); with an `SVR` (α, α*), shape (2n,)."""
        value = self._checked(value)
        return value * self._path.between(1.0 / value) if self.parameter == "C" else self._path.between(value)

    def problem(self, value: float) -> DualProblem:
        """Return the dual problem at a value of the parameter."""
        return self._problem(self._checked(value))

    def certificate(self, value: float) -> Certificate:
        """Return the certificate of α at a value of the parameter, from kernel values computed anew."""
        return certify(self.problem(value), self.alpha(value))

    def coefficients(self, value: float) -> NDArray:
        """Return the weights of the training points in the decision function, shape (n,)."""
        return coefficients(self.problem(value), self.certificate(value))

    def decision_function(self, X: ArrayLike, value: float) -> NDArray:
        """Return the decision values of new points, or the predicted values of an `SVR`, shape (n_new,)."""
        return decision_values(self.problem(value), self.certificate(value), self._fitted._check_new_data(X))

    def predict(self, X: ArrayLike, value: float) -> NDArray:
        """Return the predicted classes, or the predicted values of an `SVR`, shape (n_new,)."""
        found = self.decision_function(X, value)
        return found if self.classes_ is None else self.classes_[(found >= 0).astype(int)]

    def accuracy(self, X: ArrayLike, y: ArrayLike) -> tuple[NDArray, NDArray]:
        """Return the accuracy of an `SVC` on given points at every C of the path: a step function.

        Between two breakpoints each decision value is linear in C, and its zero is computed.

        Parameters
        ----------
        X : array of shape (m, n_features)
        y : array of shape (m,)
            Their labels.

        Returns
        -------
        C : array of shape (k + 1,)
            Ascending, from the first to the last value of the path.
        accuracy : array of shape (k,)
            From C[i] to C[i + 1]; NaN where no variable is free, so that the bias is not unique, and where α is
            interpolated (`is_exact`).

        Raises
        ------
        ProblemError
            The path is that of an `SVR`, or X and y do not fit.

        Examples
        --------
        >>> from sklearn.datasets import make_moons
        >>> from dualflow import SVC, regularization_path
        >>> X, y = make_moons(60, noise=0.3, random_state=0)
        >>> path = regularization_path(SVC(gamma=1.0), X[:40], y[:40], C=(0.1, 100))
        >>> C, accuracy = path.accuracy(X[40:], y[40:])
        >>> C.round(2).tolist()
        [0.1, 0.14, 1.04, 1.26, 1.74, 1.95, 6.93, 10.02, 100.0]
        >>> accuracy.tolist()
        [nan, 0.85, 0.9, 0.85, 0.9, 0.95, 0.9, 0.95]
        """
        return accuracy_steps(self, X, y)

    @property
    def n_support(self) -> NDArray:
        """Number of variables with α > 0 at each breakpoint, shape (k,)."""
        path = self._path
        at_bound = (path.codes == AT_UPPER).sum(axis=1)
        positive = np.append(0, np.cumsum(path.values > 0))
        return at_bound + np.diff(positive[path.starts])

    def relative_gaps(self, values: ArrayLike | None = None) -> NDArray:
        """Return the certified relative gaps at some values of the parameter, by default at all breakpoints.

        The products are made from the dense Q that the path was followed with.
        """
        wanted = self.values if values is None else np.atleast_1d(np.asarray(values, dtype=float))
        certifier = Certifier(self.problem(float(self.values[0])))
        found = []
        for value in wanted:
            alpha = self.alpha(float(value))
            problem = replace_problem(certifier.problem, self.problem(float(value)))
            found.append(certifier.certify_product(alpha, self._Q @ alpha, problem).relative_gap)
        return np.array([np.inf if gap is None else gap for gap in found])

    def leave_one_out_errors(self, values: ArrayLike) -> NDArray:
        """Return the exact leave-one-out errors of an `SVC` without sample weights at some values of C.

        See `generalization_report`.
        """
        if self.classes_ is None:
            raise ProblemError("leave_one_out_errors is for classifiers; an SVR has no errors to count")
        X, y, sample_weight = self._data
        if sample_weight is not None:
            raise ProblemError("sample_weight: leave_one_out_errors is for a path without weights")
        wanted = [self._checked(float(value)) for value in np.atleast_1d(np.asarray(values, dtype=float))]
        models = (clone(self.model).set_params(**{self.parameter: value}) for value in wanted)
        return np.array([generalization_report(model.fit(X, y)).loo_error for model in models])


def replace_problem(base: DualProblem, other: DualProblem) -> DualProblem:
    """Return ``base`` with the bounds and the linear term of another problem of the same points."""
    return replace(base, upper=other.upper, p=other.p)


def regularization_path(
    model: SVC | SVR,
    X: ArrayLike,
    y: ArrayLike,
    *,
    C: tuple[float, float] | None = None,
    epsilon: tuple[float, float] | None = None,
    sample_weight: ArrayLike | None = None,
) -> RegularizationPath:
    """Return all optima of a model from one value of C, or of ε, to another.

    In the variables α/C the dual of the hinge loss has fixed bounds and the linear term p/C, so that its optimum is
    piecewise linear in 1/C (Hastie, Rosset, Tibshirani, Zhu 2004, section 3); that of the ε-insensitive loss also in ε
    (Wang, Yeung, Lochovsky 2008). The path is followed exactly from breakpoint to breakpoint by the engine of
    incremental learning; the time is about that of as many updates of the free variables' inverse.

    Parameters
    ----------
    model : SVC or SVR
        With its kernel; an `SVC` with the hinge loss. Its C (or ε) is ignored. It is not changed.
    X, y : arrays of shape (n, n_features) and (n,)
        Training data; two classes for an `SVC`. The path holds an n × n matrix (2n × 2n for an `SVR`).
    C : (low, high), optional
        The ends of the path along C, 0 < low < high ≤ 1e50 · low.
    epsilon : (low, high), optional
        The ends of the path along ε, of an `SVR`, instead of C.
    sample_weight : array of shape (n,), optional
        Multiplies C, point by point; greater than 0.

    Returns
    -------
    RegularizationPath

    Raises
    ------
    ProblemError
        Data or parameters are out of range, the model is another one, or the kernel is not positive semidefinite.

    Examples
    --------
    >>> from dualflow import SVC, regularization_path
    >>> path = regularization_path(SVC(kernel="linear"), [[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1], C=(0.1, 10))
    >>> [round(float(value), 6) for value in path.values]
    [0.1, 0.166667, 0.666667, 2.0, 10.0]
    >>> path.alpha(1.0).round(6).tolist(), path.certificate(1.0).reaches(1e-12)
    ([0.0, 1.0, 1.0, 0.0], True)
    """
    if not isinstance(model, (SVC, SVR)):
        raise ProblemError(f"model is {type(model).__name__}; a path is that of an SVC or SVR")
    if (C is None) == (epsilon is None):
        raise ProblemError("C and epsilon: give the ends of one of them, for example C=(0.01, 100)")
    if epsilon is not None and not isinstance(model, SVR):
        raise ProblemError("epsilon: an SVC has none; give C=(low, high)")
    if isinstance(model, SVC) and model.loss != "hinge":
        raise ProblemError(f"loss={model.loss!r}: only that of the hinge is piecewise linear; use SVC(loss='hinge')")
    parameter, span = ("C", C) if epsilon is None else ("epsilon", epsilon)
    assert span is not None  # for the type checker
    rule = _VALUE if parameter == "C" else _EPSILON
    if np.shape(span) != (2,):
        raise ProblemError(f"{parameter}={span!r} must be two numbers, (low, high)")
    low, high = (float(rule.check(parameter, value)) for value in span)
    if not low < high:
        raise ProblemError(f"{parameter}={span!r} must be in ascending order")
    if parameter == "C" and high / low > MAX_RATIO:
        raise ProblemError(f"C={span!r}: the ends of a path are at most a factor of {MAX_RATIO:g} apart")
    if sample_weight is not None:
        weight = np.asarray(sample_weight)
        if weight.dtype.kind in "US" or not (weight > 0).all():
            raise ProblemError("sample_weight must be numbers greater than 0: leave the other points out")
    kept = clone(model)
    fitted = copy(kept).set_params(**{parameter: low}).fit(X, y, sample_weight)
    posed = _problems(fitted, parameter, low)
    problem = posed(low)
    if problem.n > MAX_VARIABLES:
        raise ProblemError(
            f"{problem.n} variables: a path holds a matrix of this order, and {MAX_VARIABLES} is the most"
        )
    Q = problem.dense()

    def optimum(t: float) -> tuple[NDArray, float]:
        value = 1.0 / t if parameter == "C" else t
        is_known = value == low and fitted.certificate_.reaches(START_TOL)
        solution = fitted.solution_ if is_known else solve(posed(value), tol=START_TOL)
        scale = value if parameter == "C" else 1.0
        return solution.alpha / scale, (solution.certificate.multiplier or 0.0) / scale

    if parameter == "C":
        zero = np.zeros(problem.n)
        path = follow_linear_term(Q, problem.e, problem.upper / low, zero, problem.p, (1 / low, 1 / high), optimum)
        values = 1.0 / path.t
        values[[0, -1]] = low, high
    else:
        rate = np.full(problem.n, -1.0)
        path = follow_linear_term(Q, problem.e, problem.upper, problem.p + low, rate, (low, high), optimum)
        values = path.t
    classes = np.unique(np.asarray(y)) if isinstance(model, SVC) else None
    data = deepcopy((X, y, sample_weight))  # the caller may change its arrays
    return RegularizationPath(parameter, values, ~path.breaks[1:], kept, classes, path, posed, Q, data, fitted)


def _problems(fitted: Any, parameter: str, low: float) -> Callable[[float], DualProblem]:
    """Return the function that makes the problem at a value of the parameter, from a model fitted at the lowest one."""
    if len(fitted.solutions_) != 1:
        raise ProblemError(f"y has {len(fitted.classes_)} classes; a path is that of two: fit each pair on its own")
    base = fitted.solution_.problem
    if fitted.certificate_.gap is None:
        raise ProblemError(f"kernel: it is {fitted.certificate_.psd}, so that the optima have no path")

    def at(value: float) -> DualProblem:
        if parameter == "C":
            return base.with_upper(base.upper * (value / low))
        return replace(base, p=base.p + low - value)

    return at
