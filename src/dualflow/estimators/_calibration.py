"""Probabilities of a support vector classifier from its decision values.

A `Calibrator` turns decision values of a pair of classes into the probability of the class of y = +1; it is fitted to
values of the training points by models that have not seen them. `coupled` joins the probabilities of all pairs.
`CalibratedMachine` is the base class of the classifiers with `predict_proba`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit
from sklearn.utils.metaestimators import available_if

from ..core._sigmoid import newton_sigmoid
from ..core.problem import DualProblem
from ..core.runtime.threads import cached_property
from ..core.solution import Solution
from ..driver.solve import time_limited
from ..exceptions import ProblemError
from ._chunks import by_chunks
from ._classifier import class_pairs
from ._left_out import LEFT_OUT_TOL, MAX_POINTS_EXACT, certified_optimum, held_out_decisions, left_out_decisions
from ._one_vs_one import CertifiedPair, OneVsOneMachine
from ._verify import stored

#: How decision values become probabilities.
METHODS = ("sigmoid", "isotonic", "venn-abers")
#: Points of each class that are added to the targets of the sigmoid: with ½ (Krichevsky and Trofimov 1981) the
#: estimated share of a class has the least worst-case log loss; Platt adds 1.
ADDED_POINTS = 0.5
#: Newton steps of the sigmoid's fit; it takes about 10.
MAX_NEWTON_STEPS = 100
#: Largest component of the gradient at which the sigmoid's fit ends, relative to the number of points.
NEWTON_TOL = 1e-10
#: Least part of a step that the line search of the sigmoid's fit tries.
MIN_STEP = 1e-10
#: Least probability of a class in a pair before coupling, as in LIBSVM: 0 would decide against the class alone.
MIN_PAIR_PROBABILITY = 1e-7
#: Round-off of a margin in a file, relative to the largest.
CALIBRATION_TOL = 1e-6


# --- decision values to probabilities --------------------------------------------------------------


@dataclass(frozen=True)
class Calibrator:
    """A monotone map from the decision values of a pair of classes to the probability of y = +1.

    Parameters
    ----------
    method : {"sigmoid", "isotonic", "venn-abers"}
    values : array of shape (n,)
        Decision values of the training points, each by a model without the point.
    is_positive : bool array of shape (n,)
        Whether y = +1.
    weight : array of shape (n,)
        Sample weights; they count relative to their mean.
    is_exact : bool
        Whether ``values`` are those of the exact models without a single point. For more than 2000 points they are of
        the first segment (`left_out_decisions`), for indefinite kernels of five folds (`held_out_decisions`).
    """

    method: str
    values: NDArray
    is_positive: NDArray
    weight: NDArray
    is_exact: bool = True

    @cached_property
    def _map(self) -> Callable[[NDArray], NDArray]:
        given = self.values, self.is_positive.astype(float), self.weight / self.weight.mean()
        if self.method == "sigmoid":
            slope, offset = sigmoid_of(*given)
            return lambda f: expit(slope * f + offset)
        if self.method == "isotonic":
            from sklearn.isotonic import IsotonicRegression  # imported here, because it takes long

            predicted: Callable[[NDArray], NDArray] = IsotonicRegression(out_of_bounds="clip").fit(*given).predict
            return predicted
        scores, table = venn_abers(*given)

        def merged(f: NDArray) -> NDArray:
            low, high = table[:, np.searchsorted(scores, f, "left") + np.searchsorted(scores, f, "right")]
            return high / (1.0 - low + high)

        return merged

    def __call__(self, f: NDArray) -> NDArray:
        """Return the probabilities of y = +1 at decision values f, in their shape."""
        return self._map(f)

    def __getstate__(self) -> dict[str, NDArray | str]:
        return {name: value for name, value in self.__dict__.items() if name != "_map"}  # a pickle holds no function


def sigmoid_of(values: NDArray, targets: NDArray, weight: NDArray) -> tuple[float, float]:
    """Return slope a ≥ 0 and offset b of the sigmoid 1/(1 + exp(−af − b)) with the least log loss.

    Targets are (n₊ + ½)/(n₊ + 1) for y = +1 and ½/(n₋ + 1) for y = −1, so that separable data have a finite optimum
    (Platt 1999, who adds 1 and 2). Where values that are larger for y = −1 would make the slope negative, it is 0.
    """
    scale = float(np.abs(values).max(initial=0.0)) or 1.0
    above = float(weight @ targets)
    below = float(weight.sum()) - above
    t = np.where(
        targets > 0, (above + ADDED_POINTS) / (above + 2 * ADDED_POINTS), ADDED_POINTS / (below + 2 * ADDED_POINTS)
    )
    share = float(weight @ t) / float(weight.sum())
    constant = float(np.log(share / (1.0 - share)))
    slope, offset = newton_sigmoid(values / scale, t, weight, constant, MAX_NEWTON_STEPS, NEWTON_TOL, MIN_STEP)
    return (slope / scale, offset) if slope > 0 else (0.0, constant)


def venn_abers(values: NDArray, targets: NDArray, weight: NDArray) -> tuple[NDArray, NDArray]:
    """Return the inductive Venn-Abers predictor of a new point for all decision values (Vovk and Petej, UAI 2014).

    p₀ and p₁ are the values at the new point of the isotonic regressions of the training points and the new point, with
    the label 0 and 1. The isotonic regressions of the points before it and after it do not depend on it, so that each
    p follows by pooling it with the blocks beside it.

    Returns
    -------
    scores : array of shape (m,)
        The distinct decision values, ascending.
    table : array of shape (2, 2m + 1)
        p₀ and p₁; column 2k is between scores k − 1 and k, column 2k + 1 at score k.
    """
    scores, place = np.unique(values, return_inverse=True)
    m = len(scores)
    weights = np.bincount(place, weight).tolist()
    sums = np.bincount(place, weight * targets).tolist()
    after = _first_blocks(sums, weights, 1.0)
    before = [(m - 1 - end, s, w) for end, s, w in reversed(_first_blocks(sums[::-1], weights[::-1], -1.0))]
    table = np.empty((2, 2 * m + 1))
    for column in range(2 * m + 1):
        k, is_tied = divmod(column, 2)
        for label in (0, 1):
            s, w = (sums[k] + label, weights[k] + 1.0) if is_tied else (float(label), 1.0)
            left, right = k - 1, k + is_tied
            while True:
                if right < m and after[right][1] * w <= s * after[right][2]:
                    end, more, added = after[right]
                    right = end + 1
                elif left >= 0 and before[left][1] * w >= s * before[left][2]:
                    end, more, added = before[left]
                    left = end - 1
                else:
                    break
                s, w = s + more, w + added
            table[label, column] = s / w
    return scores, table


def _first_blocks(sums: list[float], weights: list[float], sign: float) -> list[tuple[int, float, float]]:
    """Return the first block of the isotonic regression of entries k, k + 1, … for each k: its end, sum and weight.

    With ``sign`` −1 the regression is decreasing.
    """
    found: list[tuple[int, float, float]] = [(0, 0.0, 0.0)] * len(sums)
    for k in range(len(sums) - 1, -1, -1):
        end, s, w = k, sums[k], weights[k]
        while end + 1 < len(sums) and sign * found[end + 1][1] * w <= sign * s * found[end + 1][2]:
            end, more, added = found[end + 1]
            s, w = s + more, w + added
        found[k] = end, s, w
    return found


def coupled(pair_probabilities: NDArray, pairs: tuple[tuple[int, int], ...], classes: int) -> NDArray:
    """Return the probabilities of several classes from those of all pairs.

    They minimise Σᵢ Σⱼ (rⱼᵢpᵢ − rᵢⱼpⱼ)² over Σp = 1, where rᵢⱼ is the probability of class i in the pair (i, j): the
    second method of Wu, Lin and Weng (JMLR 5, 2004), as in LIBSVM. Its linear system has a nonnegative solution.

    Parameters
    ----------
    pair_probabilities : array of shape (n, n_pairs)
        Probability of the first class of each pair.
    pairs : tuple of (int, int)
    classes : int

    Returns
    -------
    array of shape (n, classes)
        Rows sum to 1.
    """
    n = len(pair_probabilities)
    r = np.clip(pair_probabilities, MIN_PAIR_PROBABILITY, 1.0 - MIN_PAIR_PROBABILITY)
    system = np.zeros((n, classes + 1, classes + 1))
    for pair, (i, j) in enumerate(pairs):
        system[:, i, i] += (1.0 - r[:, pair]) ** 2
        system[:, j, j] += r[:, pair] ** 2
        system[:, i, j] = system[:, j, i] = -r[:, pair] * (1.0 - r[:, pair])
    system[:, :classes, classes] = system[:, classes, :classes] = 1.0
    right = np.zeros((n, classes + 1, 1))
    right[:, classes] = 1.0
    found = np.maximum(np.linalg.solve(system, right)[:, :classes, 0], 0.0)
    return found / found.sum(axis=1, keepdims=True)


# --- estimators ------------------------------------------------------------------------------------


def _unfit_for_calibration(solution: Solution | CertifiedPair) -> str | None:
    """Return why the decision values of a solution cannot be calibrated by models without a point, or None."""
    if solution.ran_circuits and not solution.refined:
        return "the models without a point are exact, and this one is what circuits found"
    return None


def _is_exact(solution: Solution | CertifiedPair) -> bool:
    """Whether the models without a single point are exact."""
    return solution.certificate.gap is not None and solution.problem.gram.n <= MAX_POINTS_EXACT


def _saved_calibration(
    arrays: Mapping[str, NDArray], method: Any, solutions: Sequence[Solution]
) -> tuple[Calibrator, ...]:
    """Return the calibrators from a file.

    Leaving a point out never reduces its loss. Values that contradict this are refused, with an allowance for the gap
    of the stored solution; where it has none, values are of five folds, of which nothing is known.
    """
    if method not in METHODS:
        raise ValueError(f"its calibration is {method!r}")
    ends = np.cumsum([solution.problem.gram.n for solution in solutions])
    values, weight = (stored(arrays, f"calibration.{name}", "f", (int(ends[-1]),)) for name in ("values", "weight"))
    if not (np.isfinite(values).all() and np.isfinite(weight).all() and (weight > 0).all()):
        raise ValueError("its calibration has values that are not finite, or weights that are not above 0")
    found = []
    for solution, f, own in zip(solutions, np.split(values, ends), np.split(weight, ends), strict=False):
        problem, certificate = solution.problem, solution.certificate
        margin = problem.sigma * (problem.gram.matvec(solution.coefficients) + solution.bias)
        largest = float(problem.gram.diag().max())
        gap = np.inf if certificate.gap is None else certificate.gap
        allowed = CALIBRATION_TOL * (1.0 + np.abs(margin).max()) + np.sqrt(8.0 * largest * gap)
        if (np.minimum(problem.sigma * f, 1.0) > margin + allowed).any():
            raise ValueError("its calibration has margins without a point that exceed those with it")
        found.append(Calibrator(method, f, problem.sigma > 0, own, _is_exact(solution)))
    return tuple(found)


class CalibratedMachine(OneVsOneMachine):
    """Base of the batch classifiers with a parameter ``probability``, by which `fit` prepares `predict_proba`."""

    intercept_: NDArray
    probability: bool | str
    calibration_: tuple[Calibrator, ...]
    _pair_values: Callable[[ArrayLike], NDArray]
    _columns: Callable[[], NDArray]
    _sides: Callable[[int], tuple[int, int]]

    def _calibrate(self, weight: NDArray | None = None) -> None:
        """Set ``calibration_`` from the models without each training point.

        ``weight`` are the sample weights of all training points, 1 by default.
        """
        if (method := self._calibration_method) is None:
            return
        found = []
        what = "every model without a point was found, for probability"
        with time_limited(self._time_left(), what, self.time_limit):
            solved = self.__dict__.get("_solved")
            solutions = self.solutions_ if solved is None else solved.certified()
            for rows, solution in zip(self._rows, solutions, strict=True):
                if reason := _unfit_for_calibration(solution):
                    raise ProblemError(
                        f"probability={self.probability!r}: {reason}; give probability=False, and calibrate the model "
                        "by sklearn.calibration.CalibratedClassifierCV"
                    )
                problem, alpha = self._with_fixed_bounds(solution)
                if solution.certificate.gap is None:
                    values = held_out_decisions(problem)
                else:
                    is_optimal = problem is solution.problem and solution.certificate.reaches(LEFT_OUT_TOL)
                    best = solution.certificate if is_optimal else certified_optimum(problem, alpha)
                    values = left_out_decisions(problem, best)
                own = np.ones(len(values)) if weight is None else weight[rows]
                found.append(Calibrator(method, values, problem.sigma > 0, own, _is_exact(solution)))
        self.calibration_ = tuple(found)

    @property
    def _calibration_method(self) -> str | None:
        """How the next fit calibrates probabilities, or None."""
        given = self.probability
        if isinstance(given, str):
            return None if given == "deprecated" else given
        return "sigmoid" if given else None

    def _with_fixed_bounds(self, solution: Solution | CertifiedPair) -> tuple[DualProblem, NDArray]:
        """Return a problem with the decision function of a solution whose bounds are fixed, and its α."""
        return solution.problem, solution.alpha

    def _has_probabilities(self) -> bool:
        """Whether `predict_proba` exists; AttributeError with the way out if not."""
        if self.__sklearn_is_fitted__():
            if "calibration_" in self.__dict__:
                return True
        elif self._calibration_method is not None:
            return True
        raise AttributeError(
            f"{type(self).__name__} has no predict_proba without probabilities: fit it with probability='sigmoid', or "
            "calibrate it by sklearn.calibration.CalibratedClassifierCV"
        )

    @available_if(_has_probabilities)
    @by_chunks
    def predict_proba(self, X: ArrayLike) -> NDArray:
        """Return the probabilities of the classes, shape (n_new, n_classes), for a model with ``probability``.

        Parameters
        ----------
        X : array of shape (n_new, n_features), or (n_new, n) if the kernel is precomputed
            New points; sparse X is accepted where `fit` accepts it.

        Returns
        -------
        array of shape (n_new, n_classes)
            Rows sum to 1. The probability of a class that had no points of positive weight is 0.

        Notes
        -----
        The decision value of each training point is computed by the model without it, exactly and without a refit, for
        up to 2000 points in a pair of classes; above, by the first segment of the path to that model. With an
        indefinite kernel it is computed by a model of the other four fifths of the points. ``probability``
        says how these values become probabilities. Those of several classes are coupled from the pairs' (Wu, Lin and
        Weng, JMLR 5, 2004, second method), as in LIBSVM. Where two probabilities are close, the most probable class may
        differ from `predict`. Class weights shift decision values, not probabilities, which follow the shares of the
        classes among the training points.
        """
        values, classes = self._pair_values(X), len(self.classes_)
        present = np.arange(classes) if self._present is None else self._present
        found = np.empty((len(values), len(self.calibration_)))
        for k, (calibrator, column) in enumerate(zip(self.calibration_, self._columns(), strict=True)):
            positive, _ = self._sides(k)
            # Values of two classes are positive for the second one, those of a pair among more for its first class.
            second = positive == present[class_pairs(len(present))[k][1]]
            own = calibrator(-values[:, column] if second and classes > 2 else values[:, column])
            found[:, k] = 1.0 - own if second else own
        if classes == 2:
            return np.column_stack([found[:, 0], 1.0 - found[:, 0]])
        out = np.zeros((len(values), classes))
        out[:, present] = coupled(found, class_pairs(len(present)), len(present))
        return out

    @available_if(_has_probabilities)
    @by_chunks
    def predict_log_proba(self, X: ArrayLike) -> NDArray:
        """Return the logarithms of `predict_proba`, shape (n_new, n_classes)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = super()._pack()
        if calibrators := self.__dict__.get("calibration_"):
            for name in ("values", "weight"):
                arrays[f"calibration.{name}"] = np.concatenate([getattr(one, name) for one in calibrators])
            facts["calibration"] = calibrators[0].method
        return arrays, facts

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        super()._unpack(arrays, facts)
        if "calibration" in facts:
            self.calibration_ = _saved_calibration(arrays, facts["calibration"], self.solutions_)
