"""The folds of a cross-validation over shared kernel matrices: what a model of each would say of the fold's rows.

Whether one kernel matrix for all folds is quicker than a fit a fold, estimated beforehand and watched on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.solution import SHARP
from ..estimators._classifier import pairs_of
from ..estimators._validation import class_weights
from ._duals import Duals, Fits

__all__ = ["Answer", "Chain", "Classes", "Numbers", "SlowerError", "Watch", "shared_gain"]


#: Nanoseconds an entry of the matrix takes: made and rounded to float32, for each feature, and in each product with
#: the multipliers of a fold. Least values of a processor of 2020 with one thread.
ENTRY_NS, FEATURE_NS, PRODUCT_NS = 6.0, 0.3, 1.0
#: Products for each C beside those of the folds: of the model of all points, whose steps the folds begin with.
SEED_PRODUCTS = 4
#: Seconds a problem takes in calls.
PROBLEM_S = 2e-4
#: Folds whose fits take as long as the models of all points.
SEED_FOLDS = 3
#: How many times the estimate, which is a least one, fits a fold must take for the shared matrix to be tried; and how
#: many times as many as where it was tried and lost. Of the searches of `benchmarks/classical/search_tables.py` those
#: above the first number (1.36 and more) take 0.4 to 0.8 of the time, and those below it (at most 1.0) 1.0 to 1.3.
TRIED_FROM, AGAIN_FROM = 1.3, 3.0
#: What the shared matrix may take before it has paid, as a part of what fits a fold would take for all that is left.
ALLOWED = 0.1


def shared_gain(expected: Sequence[float], points: int, variables: int, features: int, folds: int, pairs: int) -> float:
    """How many times the least time over one matrix the fits one by one take, less the models of all points.

    Parameters
    ----------
    expected : sequence of float
        Processor seconds of a fit to one fold for each C.
    points, variables, features, folds, pairs : int
        Of the data; variables of a dual of all points; folds that are left; and pairs of classes.
    """
    costs = len(expected)
    products = costs * (SEED_PRODUCTS + folds) / max(1, pairs)
    entries = 1e-9 * points * variables * (ENTRY_NS + FEATURE_NS * features + PRODUCT_NS * products)
    least = entries + PROBLEM_S * costs * (folds + 1) * pairs
    return sum(expected) * max(folds - SEED_FOLDS, 0) / least


class SlowerError(Exception):
    """Raised between pieces of work when fits a fold would be quicker."""


class Watch:
    """Hold what the shared matrix takes against what fits a fold would have taken for the same answers.

    Parameters
    ----------
    expected : sequence of float
        Processor seconds of a fit to one fold, with its values on the test rows, for each C.
    folds : int
        Folds that are left.
    check : callable
        Called first, whenever this is; may raise.
    """

    def __init__(self, expected: Sequence[float], folds: int, check: Callable[[], None]) -> None:
        self.expected, self.check = expected, check
        self.allowed = ALLOWED * sum(expected) * folds
        self.began = thread_time()

    def __call__(self) -> None:
        """Raise `SlowerError` if the shared matrix is behind by more than it is allowed."""
        self.check()
        if thread_time() - self.began > self.allowed:
            raise SlowerError

    def done(self, number: int, folds: float) -> None:
        """Book the answers of so many folds for a C."""
        self.allowed += self.expected[number] * folds


Split = tuple[NDArray, NDArray]


@dataclass
class Answer:
    """What came of one candidate in one fold.

    Attributes
    ----------
    test, train : arrays of shape (rows, r)
        Decision values of the r pairs of classes, or r = 1 predictions; ``train`` only if asked for.
    gap : float
        The largest certified relative gap of its solves.
    seconds : float
    """

    test: NDArray
    train: NDArray | None
    gap: float = 0.0
    seconds: float = 0.0


@dataclass(frozen=True)
class Chain:
    """Candidates that differ in C alone.

    Attributes
    ----------
    model : estimator
        One of them.
    candidates : list of int
    costs : list of float
        Ascending.
    """

    model: Any
    candidates: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)


class _Folds:
    """What classification and regression share; ``fitted`` is what a model of any fold has once it is fitted."""

    fitted: dict[str, Any]
    #: Pairs of classes, of which each has problems of its own.
    pairs: Sequence[tuple[int, int]] = ((0, 1),)
    #: Variables of the dual that a point has.
    variables_of_point: ClassVar[int] = 1

    def __init__(self, splits: Sequence[Split], train_scores: bool) -> None:
        self.splits, self.train_scores = splits, train_scores

    def empty(self, fold: int, width: int) -> Answer:
        train, test = self.splits[fold]
        return Answer(np.empty((len(test), width)), np.empty((len(train), width)) if self.train_scores else None)


class Classes(_Folds):
    """Folds of a classifier.

    Parameters
    ----------
    classes, codes : arrays of shape (k,) and (n,)
        ``codes`` ascending: the points are sorted by class.
    weight : array of shape (n,)
        Sample weights.
    splits : sequence of (train, test)
    train_scores : bool
    features : int
    """

    def __init__(
        self,
        classes: NDArray,
        codes: NDArray,
        weight: NDArray,
        splits: Sequence[Split],
        train_scores: bool,
        features: int,
    ) -> None:
        super().__init__(splits, train_scores)
        self.fitted = {"classes_": classes, "n_features_in_": features}
        self.classes, self.codes, self.weight = classes, codes, weight
        self.pairs = pairs_of(len(classes))
        counts = np.bincount(codes)
        self.ranges = [slice(end - count, end) for end, count in zip(np.cumsum(counts), counts, strict=True)]

    def weights(self, model: Any, rows: NDArray) -> NDArray | None:
        """What C is multiplied by, point by point, in a fit to these rows; None where a class has no weight."""
        own = np.zeros(len(self.codes))
        try:
            of_classes = class_weights(model.class_weight, self.classes, self.classes[self.codes[rows]])
        except ValueError:
            return None
        own[rows] = self.weight[rows] * of_classes[self.codes[rows]]
        whole = (np.bincount(self.codes, own > 0, minlength=len(self.classes)) > 0).all()
        return own if whole and len(np.unique(rows)) == len(rows) else None

    def answers(
        self, K: NDArray, scale: float, chain: Chain, folds: list[int], watch: Watch
    ) -> Iterator[tuple[int, int, Answer]]:
        """Candidate, fold and answer, of every candidate in every fold; ``K`` is over ``scale``."""
        found: dict[tuple[int, int], Answer] = {}
        weight = self.weights(chain.model, np.arange(len(self.codes)))
        assert weight is not None
        weights = np.array([self.weights(chain.model, self.splits[fold][0]) for fold in folds])
        several = len(self.pairs) > 1
        # What the values of pairs are products with, gathered once.
        tested = {fold: K[self.splits[fold][1]] if several else K for fold in folds}
        for k, pair in enumerate(self.pairs):
            parts = [self.ranges[code] for code in pair] if several else [slice(0, len(K))]
            positive = pair[0] if several else pair[1]
            codes, own = (np.concatenate([of[part] for part in parts]) for of in (self.codes, weight))
            block = np.block([[K[one, other] for other in parts] for one in parts]) if several else K
            target, intercept = np.where(codes == positive, 1.0, -1.0), chain.model.fit_intercept is True
            duals = Duals(block, target, None, intercept, watch)
            bounds = np.concatenate([weights[:, part] for part in parts], axis=1)
            block_of_folds: list[Fits] = []
            for fits in duals.path(own, bounds, [scale * C for C in chain.costs], chain.model.tol):
                watch.done(fits.number, len(fits.folds) / len(self.pairs))
                block_of_folds.append(fits)
                if several and fits.number < len(chain.costs) - 1:
                    continue
                for row, place in enumerate(fits.folds):
                    fold, began = folds[place], perf_counter()
                    beta = np.array([each.beta[row] for each in block_of_folds])
                    bias = np.array([each.bias[row] for each in block_of_folds])
                    train, test = self.splits[fold]
                    if several:
                        values = _across(tested[fold], parts, beta)
                        trained = _across(K, parts, beta)[:, train] if self.train_scores else values
                    else:
                        everywhere = np.array([each.gradient[row] for each in block_of_folds]) + target
                        values, trained = everywhere[:, test], everywhere[:, train]
                    seconds = (perf_counter() - began) / len(block_of_folds)
                    for number, each in enumerate(block_of_folds):
                        candidate = chain.candidates[each.number]
                        answer = found.setdefault((candidate, fold), self.empty(fold, len(self.pairs)))
                        answer.test[:, k] = values[number] + bias[number]
                        if answer.train is not None:
                            answer.train[:, k] = trained[number] + bias[number]
                        answer.gap = max(answer.gap, float(each.gap[row]))
                        answer.seconds += float(each.seconds[row]) + seconds
                        if k == len(self.pairs) - 1:
                            yield candidate, fold, answer
                block_of_folds.clear()


def _across(rows: NDArray, parts: list[slice], beta: NDArray) -> NDArray:
    """Expansions in the points of two classes, from rows of K: shape (len(beta), len(rows))."""
    first = parts[0].stop - parts[0].start
    values: NDArray = beta[:, :first] @ rows[:, parts[0]].T + beta[:, first:] @ rows[:, parts[1]].T
    return values


class Numbers(_Folds):
    """Folds of a regression.

    Parameters
    ----------
    values, weight : arrays of shape (n,)
        What is regressed on, and sample weights.
    splits : sequence of (train, test)
    train_scores : bool
    features : int
    """

    variables_of_point: ClassVar[int] = 2

    def __init__(
        self, values: NDArray, weight: NDArray, splits: Sequence[Split], train_scores: bool, features: int
    ) -> None:
        super().__init__(splits, train_scores)
        self.fitted = {"n_features_in_": features}
        self.values, self.weight = values, weight

    def weights(self, model: Any, rows: NDArray) -> NDArray | None:
        """As of `Classes`."""
        own = np.zeros(len(self.values))
        own[rows] = self.weight[rows]
        return own if own.any() and len(np.unique(rows)) == len(rows) else None

    def answers(
        self, K: NDArray, scale: float, chain: Chain, folds: list[int], watch: Watch
    ) -> Iterator[tuple[int, int, Answer]]:
        """As of `Classes`."""
        model = chain.model
        unit = float(np.abs(self.values).max()) + model.epsilon or 1.0
        duals = Duals(K, self.values / unit, model.epsilon / unit, True, watch)
        weights = np.tile([self.weights(model, self.splits[fold][0]) for fold in folds], 2)
        costs = [scale * C / unit for C in chain.costs]
        # A score of numbers shows every digit of a prediction: as sharp as a fit by itself is.
        for fits in duals.path(np.tile(self.weight, 2), weights, costs, min(model.tol, SHARP)):
            watch.done(fits.number, len(fits.folds))
            for row, place in enumerate(fits.folds):
                fold = folds[place]
                answer = self.empty(fold, 1)
                values = fits.gradient[row, : duals.n] + duals.ep[: duals.n] + fits.bias[row]
                train, test = self.splits[fold]
                answer.test[:, 0] = unit * values[test]
                if answer.train is not None:
                    answer.train[:, 0] = unit * values[train]
                answer.gap, answer.seconds = float(fits.gap[row]), float(fits.seconds[row])
                yield chain.candidates[fits.number], fold, answer
