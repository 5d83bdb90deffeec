"""The folds of a cross-validation over shared kernel matrices: what a model of each would say of the fold's rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators._classifier import pairs_of
from ..estimators._labels import class_weights
from ._duals import Duals, Fits

__all__ = ["Answer", "Chain", "Classes", "Numbers"]

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

    def __init__(self, splits: Sequence[Split], train_scores: bool) -> None:
        self.splits, self.train_scores = splits, train_scores

    def empty(self, fold: int, width: int) -> Answer:
        train, test = self.splits[fold]
        return Answer(np.empty((len(test), width)), np.empty((len(train), width)) if self.train_scores else None)

    def places(self, answer: Answer, fold: int) -> Iterator[tuple[NDArray, NDArray]]:
        """Rows of the data, and what their values go to."""
        train, test = self.splits[fold]
        yield test, answer.test
        if answer.train is not None:
            yield train, answer.train


class Classes(_Folds):
    """Folds of a classifier.

    Parameters
    ----------
    classes, codes : arrays of shape (k,) and (n,)
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
        self, K: NDArray, scale: float, chain: Chain, folds: list[int], check: Callable[[], None]
    ) -> Iterator[tuple[int, int, Answer]]:
        """Candidate, fold and answer, of every candidate in every fold; ``K`` is over ``scale``."""
        model = chain.model
        found: dict[tuple[int, int], Answer] = {}
        weight = self.weights(model, np.arange(len(self.codes)))
        assert weight is not None
        weights = np.array([self.weights(model, self.splits[fold][0]) for fold in folds])
        for k, (i, j) in enumerate(self.pairs):
            positive = j if len(self.pairs) == 1 else i
            rows = np.flatnonzero((self.codes == i) | (self.codes == j))
            block = K if len(rows) == len(K) else K[np.ix_(rows, rows)]
            duals = Duals(
                block, np.where(self.codes[rows] == positive, 1.0, -1.0), None, model.fit_intercept is True, check
            )
            costs = [scale * C for C in chain.costs]
            for fits in duals.path(weight[rows], weights[:, rows], costs, model.tol):
                began = perf_counter()
                answers = []
                for row, place in enumerate(fits.folds):
                    key = chain.candidates[fits.number], folds[place]
                    answer = found.setdefault(key, self.empty(folds[place], len(self.pairs)))
                    self._judge(answer, folds[place], k, K, rows, duals, fits, row)
                    answer.gap = max(answer.gap, float(fits.gap[row]))
                    answer.seconds += float(fits.seconds[row])
                    answers.append((*key, answer))
                for *_, answer in answers:
                    answer.seconds += (perf_counter() - began) / len(answers)
                if k == len(self.pairs) - 1:
                    yield from answers

    def _judge(
        self, answer: Answer, fold: int, k: int, K: NDArray, rows: NDArray, duals: Duals, fits: Fits, row: int
    ) -> None:
        """Decision values of one pair."""
        if len(rows) == len(K):
            values = fits.gradient[row] + duals.ep
            for where, to in self.places(answer, fold):
                to[:, k] = values[where] + fits.bias[row]
            return
        (J,) = np.nonzero(fits.beta[row])
        for where, to in self.places(answer, fold):
            to[:, k] = K[np.ix_(where, rows[J])] @ fits.beta[row, J] + fits.bias[row]


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
        self, K: NDArray, scale: float, chain: Chain, folds: list[int], check: Callable[[], None]
    ) -> Iterator[tuple[int, int, Answer]]:
        """As of `Classes`."""
        model = chain.model
        unit = float(np.abs(self.values).max()) + model.epsilon or 1.0
        duals = Duals(K, self.values / unit, model.epsilon / unit, True, check)
        weights = np.tile([self.weights(model, self.splits[fold][0]) for fold in folds], 2)
        costs = [scale * C / unit for C in chain.costs]
        for fits in duals.path(np.tile(self.weight, 2), weights, costs, model.tol):
            for row, place in enumerate(fits.folds):
                fold = folds[place]
                answer = self.empty(fold, 1)
                values = fits.gradient[row, : duals.n] + duals.ep[: duals.n] + fits.bias[row]
                for where, to in self.places(answer, fold):
                    to[:, 0] = unit * values[where]
                answer.gap, answer.seconds = float(fits.gap[row]), float(fits.seconds[row])
                yield chain.candidates[fits.number], fold, answer
