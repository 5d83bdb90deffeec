"""The folds of a cross-validation over shared kernel matrices: values of each fold's model on the fold's rows.

`shared_gain` estimates whether one kernel matrix for all folds is faster than a fit for each fold, and `Watch` ends the
work over the matrix if it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter, thread_time
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.runtime import clock
from ..core.solution import MAX_GAP_UNREFINED
from ..direct.pairs import PairResult, solve_cost_path
from ..estimators._classifier import class_pairs
from ..estimators._validation import class_weights
from ._duals import Duals, Fits

#: Nanoseconds to compute an entry of the matrix and round it to float32, on a processor of 2020 with one thread.
ENTRY_NS = 6.0
#: Nanoseconds for each feature of an entry.
FEATURE_NS = 0.3
#: Nanoseconds for each product of an entry with the multipliers of a fold.
PRODUCT_NS = 1.0
#: Products for each C besides those of the folds. They are for the model of all points, from which the folds start.
N_SEED_PRODUCTS = 4
#: Seconds of calls for each problem.
PROBLEM_S = 2e-4
#: Number of folds whose fits take as long as the models of all points.
N_SEED_FOLDS = 3
#: Smallest gain for which the shared matrix is tried; the estimated time is a lower bound. In the searches of
#: `benchmarks/classical/search_tables.py` those above it (gain 1.36 and more) take 0.4 to 0.8 of the time, and those
#: below it (at most 1.0) take 1.0 to 1.3.
MIN_GAIN = 1.3
#: Gain by the fits to the first fold so far at which the rest of that fold is left to the shared matrix.
STOP_GAIN = 2.0 * MIN_GAIN
#: Factor by which the gain must exceed that of a failed trial for another trial.
RETRY_GAIN_RATIO = 3.0
#: Time for the shared matrix before its first answers, as a fraction of the time of all remaining fits.
MAX_LOSS_FRACTION = 0.1


def shared_seconds(costs: int, points: int, variables: int, features: int, folds: int, pairs: int) -> float:
    """Return the least time of all C and folds over one matrix; for the parameters see `shared_gain`."""
    products = costs * (N_SEED_PRODUCTS + folds) / max(1, pairs)
    entries = 1e-9 * points * variables * (ENTRY_NS + FEATURE_NS * features + PRODUCT_NS * products)
    return entries + PROBLEM_S * costs * (folds + 1) * pairs


def shared_gain(expected: Sequence[float], points: int, variables: int, features: int, folds: int, pairs: int) -> float:
    """Return the time of single fits, less the models of all points, divided by the least time over one matrix.

    Parameters
    ----------
    expected : sequence of float
        Processor seconds of a fit to one fold for each C.
    points, variables, features, folds, pairs : int
        Of the data; variables of a dual of all points; folds that are left; pairs of classes.
    """
    min_seconds = shared_seconds(len(expected), points, variables, features, folds, pairs)
    return sum(expected) * max(folds - N_SEED_FOLDS, 0) / min_seconds


class SlowerError(Exception):
    """Raised between pieces of work if single fits would be faster."""


class Watch:
    """Compares the time spent on the shared matrix with the time of single fits for the same answers.

    Parameters
    ----------
    expected : sequence of float
        Processor seconds of a fit to one fold, with its values on the test rows, for each C.
    folds : int
        Number of folds that are left.
    check : callable
        Called first at every check; it may raise.
    """

    def __init__(self, expected: Sequence[float], folds: int, check: Callable[[], None]) -> None:
        self.expected, self.check = expected, check
        self.allowed = MAX_LOSS_FRACTION * sum(expected) * folds
        self.began = thread_time()

    def __call__(self) -> None:
        """Raise `SlowerError` if the shared matrix has taken more time than allowed."""
        self.check()
        if thread_time() - self.began > self.allowed:
            raise SlowerError

    def done(self, number: int, folds: float) -> None:
        """Add the time of single fits for the answers of ``folds`` folds for one C."""
        self.allowed += self.expected[number] * folds


Split = tuple[NDArray, NDArray]


@dataclass
class Answer:
    """The values of one candidate in one fold."""

    #: test, train: decision values of the r pairs of classes, or r = 1 predictions; ``train`` only if it is needed;
    #: shape (rows, r).
    test: NDArray
    train: NDArray | None
    gap: float = 0.0  # largest certified relative gap of its solves
    seconds: float = 0.0


@dataclass(frozen=True)
class Chain:
    """Candidates that differ in C only."""

    model: Any  # one of the candidates
    candidates: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)  # ascending


class _Folds:
    """Common parts of classification and regression; ``fitted`` holds the attributes of a fitted model of any fold."""

    fitted: dict[str, Any]
    #: Pairs of classes, each with its own problems.
    pairs: Sequence[tuple[int, int]] = ((0, 1),)
    #: Variables of the dual for each point.
    variables_of_point: ClassVar[int] = 1

    def __init__(self, splits: Sequence[Split], train_scores: bool) -> None:
        self.splits, self.train_scores = splits, train_scores

    def weights(self, model: Any, rows: NDArray) -> NDArray | None:
        """Return the factor of C for each point in a fit to these rows; None if no shared fit is possible."""
        raise NotImplementedError

    def weights_of(self, model: Any, fold: int) -> NDArray | None:
        """Return `weights` for the training rows of a fold."""
        return self.weights(model, self.splits[fold][0])

    def path(self, gram: Gram, chain: Chain, fold: int) -> dict[int, Answer]:
        """Return answers in a fold that are faster than single fits; here none."""
        return {}

    def empty(self, fold: int, width: int) -> Answer:
        """Return an answer with unset values for a fold."""
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
        self._weights_known: dict[tuple[str, int], NDArray | None] = {}
        self.pairs = class_pairs(len(classes))
        counts = np.bincount(codes)
        self.ranges = [slice(end - count, end) for end, count in zip(np.cumsum(counts), counts, strict=True)]

    def weights(self, model: Any, rows: NDArray) -> NDArray | None:
        """Return the factor of C for each point in a fit to these rows; None if a class has no weight."""
        own = np.zeros(len(self.codes))
        try:
            of_classes = class_weights(model.class_weight, self.classes, self.classes[self.codes[rows]])
        except ValueError:
            return None
        own[rows] = self.weight[rows] * of_classes[self.codes[rows]]
        has_all_classes = (np.bincount(self.codes, own > 0, minlength=len(self.classes)) > 0).all()
        return own if has_all_classes and len(np.unique(rows)) == len(rows) else None

    def weights_of(self, model: Any, fold: int) -> NDArray | None:
        """Return `weights` for the training rows of a fold; computed once for each ``class_weight``."""
        key = repr(model.class_weight), fold
        if key not in self._weights_known:
            self._weights_known[key] = self.weights(model, self.splits[fold][0])
        return self._weights_known[key]

    def path(self, gram: Gram, chain: Chain, fold: int) -> dict[int, Answer]:
        """Return the answers of candidates in a fold that are solved from the points, with kernel rows for all C.

        ``gram`` is the radial kernel of all points. A candidate without an answer needs a single fit.
        """
        began = thread_time()
        train, test = self.splits[fold]
        weight = self.weights_of(chain.model, fold)
        if weight is None or not (weight[train] > 0).all() or chain.model.fit_intercept is not True:
            return {}
        rows = np.sort(train)
        groups = np.split(rows, np.searchsorted(rows, [part.stop for part in self.ranges[:-1]]))
        found = solve_cost_path(gram, groups, weight[rows], chain.costs, chain.model.tol)
        if found is None:
            return {}
        count = len(chain.costs)
        results: list[list[PairResult | None]] = [[] for _ in self.pairs]
        for number, result in enumerate(found):
            results[number // count].append(result)
            clock.check_time()
        solved = [c for c in range(count) if all(of_pair[c] is not None for of_pair in results)]
        if not solved:
            return {}
        weights, biases = np.zeros((gram.n, len(self.pairs), len(solved))), np.empty((len(self.pairs), len(solved)))
        gaps_of = np.zeros(len(solved))
        for k, (i, j) in enumerate(self.pairs):
            members = np.concatenate([groups[i], groups[j]])
            for place, c in enumerate(solved):
                result = results[k][c]
                assert result is not None
                weights[members, k, place], biases[k, place] = result.coefficients, result.bias
                gaps_of[place] = max(gaps_of[place], result.relative_gap)
        (support,) = np.nonzero(weights.any(axis=(1, 2)))
        points = gram.radial_points(float)
        columns = weights[support].reshape(len(support), biases.size)
        tables = [test, train] if self.train_scores else [test]
        values = [
            points.take(at).expand(points.take(support), columns).reshape(len(at), *biases.shape) + biases
            for at in tables
        ]
        seconds = (thread_time() - began) / max(1, len(solved))
        return {
            chain.candidates[c]: Answer(
                values[0][:, :, place], values[1][:, :, place] if self.train_scores else None, gaps_of[place], seconds
            )
            for place, c in enumerate(solved)
        }

    def answers(
        self, K: NDArray, scale: float, chain: Chain, folds: list[int], watch: Watch
    ) -> Iterator[tuple[int, int, Answer]]:
        """Yield candidate, fold and answer, for every candidate in every fold; ``K`` is divided by ``scale``."""
        found: dict[tuple[int, int], Answer] = {}
        weight = self.weights(chain.model, np.arange(len(self.codes)))
        assert weight is not None
        weights = np.array([self.weights_of(chain.model, fold) for fold in folds])
        is_multiclass = len(self.pairs) > 1
        # Rows of K that give the values of all pairs, gathered once.
        tested = {fold: K[self.splits[fold][1]] if is_multiclass else K for fold in folds}
        for k, pair in enumerate(self.pairs):
            parts = [self.ranges[code] for code in pair] if is_multiclass else [slice(0, len(K))]
            positive = pair[0] if is_multiclass else pair[1]
            codes, own = (np.concatenate([of[part] for part in parts]) for of in (self.codes, weight))
            block = np.block([[K[one, other] for other in parts] for one in parts]) if is_multiclass else K
            target, intercept = np.where(codes == positive, 1.0, -1.0), chain.model.fit_intercept is True
            duals = Duals(block, target, None, intercept, watch)
            bounds = np.concatenate([weights[:, part] for part in parts], axis=1)
            block_of_folds: list[Fits] = []
            for fits in duals.path(own, bounds, [scale * C for C in chain.costs], chain.model.tol):
                watch.done(fits.number, len(fits.folds) / len(self.pairs))
                block_of_folds.append(fits)
                if is_multiclass and fits.number < len(chain.costs) - 1:
                    continue
                for row, position in enumerate(fits.folds):
                    fold, began = folds[position], perf_counter()
                    beta = np.array([each.beta[row] for each in block_of_folds])
                    bias = np.array([each.bias[row] for each in block_of_folds])
                    train, test = self.splits[fold]
                    if is_multiclass:
                        values = _pair_expansion(tested[fold], parts, beta)
                        trained = _pair_expansion(K, parts, beta)[:, train] if self.train_scores else values
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


def _pair_expansion(rows: NDArray, parts: list[slice], beta: NDArray) -> NDArray:
    """Return expansions in the points of two classes, from rows of K: shape (len(beta), len(rows))."""
    first = parts[0].stop - parts[0].start
    values: NDArray = beta[:, :first] @ rows[:, parts[0]].T + beta[:, first:] @ rows[:, parts[1]].T
    return values


class Numbers(_Folds):
    """Folds of a regression.

    Parameters
    ----------
    values, weight : arrays of shape (n,)
        Targets and sample weights.
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
        """Return the weights, as `Classes.weights`."""
        own = np.zeros(len(self.values))
        own[rows] = self.weight[rows]
        return own if own.any() and len(np.unique(rows)) == len(rows) else None

    def answers(
        self, K: NDArray, scale: float, chain: Chain, folds: list[int], watch: Watch
    ) -> Iterator[tuple[int, int, Answer]]:
        """Yield answers, as `Classes.answers`."""
        model = chain.model
        scale_of_values = float(np.abs(self.values).max()) + model.epsilon or 1.0
        duals = Duals(K, self.values / scale_of_values, model.epsilon / scale_of_values, True, watch)
        weights = np.tile([self.weights(model, self.splits[fold][0]) for fold in folds], 2)
        costs = [scale * C / scale_of_values for C in chain.costs]
        # A regression score depends on every digit of a prediction, so that the tolerance is that of a single fit.
        for fits in duals.path(np.tile(self.weight, 2), weights, costs, min(model.tol, MAX_GAP_UNREFINED)):
            watch.done(fits.number, len(fits.folds))
            for row, position in enumerate(fits.folds):
                fold = folds[position]
                answer = self.empty(fold, 1)
                values = fits.gradient[row, : duals.n] + duals.ep[: duals.n] + fits.bias[row]
                train, test = self.splits[fold]
                answer.test[:, 0] = scale_of_values * values[test]
                if answer.train is not None:
                    answer.train[:, 0] = scale_of_values * values[train]
                answer.gap, answer.seconds = float(fits.gap[row]), float(fits.seconds[row])
                yield chain.candidates[fits.number], fold, answer
