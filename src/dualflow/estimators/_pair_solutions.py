"""The solutions of a classifier's pairs; those settled without a run become objects when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import problems
from .._conclusion import provenance_of
from .._direct import result_of
from ..core._pair_bound import read_listed
from ..core._points import by_class
from ..core.kernels import Gram
from ..core.solution import Cost, Solution, Status
from ..core.support import support_set
from ..core.values import immutable
from ..direct.results import DirectPair, PairResult, together
from ..problems.classification import COST
from ..solvers import Solver
from ..solvers.working_set import WorkingSet
from ._batch import LEFT
from ._classifier import constants_of, laid_out, pairs_of

__all__ = ["PairSolutions", "Pairs", "among_all", "read_pairs", "runs_of", "takes_batch"]

#: Points up to which an answer that nobody refines is found sooner without a run, which could end at a tolerance.
RAW = 8192


def takes_batch(model: Any, engine: Solver[Any, Any], gram: Gram) -> bool:
    """Whether small pairs of several classes are solved by a batch: one for an answer that nobody refines may end
    sooner."""
    usual = engine == WorkingSet() and model.max_iter == -1 and not model.warm_start
    hinge = model.loss == "hinge" and model.fit_intercept is True and COST.check("C", model.C) < np.inf
    small = model.refine or gram.n <= RAW
    return bool(usual and hinge and small and gram.is_psd_by_kernel)


def runs_of(found: Sequence[Solution | PairResult]) -> list[Solution | None]:
    """The solutions of those that took a run; None for those that were brought to their end without."""
    return [None if pair_of(pair) else pair for pair in found]  # type: ignore[misc]


def pair_of(found: Solution | PairResult) -> PairResult | None:
    """The result that a pair of classes was brought to without a run, if it was."""
    if isinstance(found, PairResult):
        return found
    direct = result_of(found)
    return direct.pair if isinstance(direct, DirectPair) else None


class Pairs(Sequence[NDArray]):
    """The points of each class, and of each pair of classes: an item is the points of a pair, ascending.

    Parameters
    ----------
    codes : array of shape (n,)
        Which class each point is of; those of class −1 are left out.
    classes : int

    Attributes
    ----------
    order : int array
        The points, class by class, ascending within.
    starts : int array of shape (classes + 1,)
        Where each class begins in it, and the end.
    groups : list of int arrays
        The points of each class.
    """

    def __init__(self, codes: NDArray, classes: int) -> None:
        self.order, self.starts = by_class(codes.astype(np.intp, copy=False), classes)
        self.groups = [self.order[start:end] for start, end in pairwise(self.starts.tolist())]
        self._classes = pairs_of(classes)
        self._codes = codes[codes >= 0] if len(self.order) < len(codes) else codes

    def of(self, points: NDArray) -> Pairs:
        """The same of these points, ascending, in the place of 0, 1, …"""
        other = copy(self)
        other.order = points[self.order]
        other.groups = [points[group] for group in self.groups]
        return other

    def __len__(self) -> int:
        return len(self._classes)

    def __getitem__(self, k: Any) -> Any:
        return np.sort(self.by_class(k))

    def by_class(self, k: int) -> NDArray:
        """The points of a pair, those of its first class first."""
        i, j = self._classes[k]
        return np.concatenate([self.groups[i], self.groups[j]])

    def places(self, k: int) -> NDArray:
        """Where in `by_class` each point of a pair is."""
        return np.argsort(self.by_class(k))

    def signs(self, k: int) -> NDArray:
        """Labels of the points of a pair: +1 for the first class, but for the second where there are two only."""
        if len(self) == 1:
            return 2.0 * self._codes - 1.0
        return np.where(self.places(k) < len(self.groups[self._classes[k][0]]), 1.0, -1.0)


def read_pairs(
    pairs: Pairs, found: Sequence[Solution | PairResult]
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """What pairs of classes came to: support vectors by class and then ascending, how many of each class, biases, and
    their coefficients in the pairs, shape (n_SV, n_pairs), and in LIBSVM's layout."""
    weights, biases, done = [], [], 0
    results = [pair_of(pair) for pair in found]
    batches = [id(pair if result is None else result.batch) for pair, result in zip(found, results, strict=True)]
    for _, group in groupby(range(len(found)), key=batches.__getitem__):
        same = list(group)
        own = [result for k in same if (result := results[k]) is not None]
        if own:
            values, intercepts = together(own)
        else:
            solution = found[same[0]]
            values, intercepts = np.empty(len(solution.coefficients)), np.array([solution.bias])
            values[pairs.places(done)] = solution.coefficients
        weights.append(values)
        biases.append(intercepts)
        done += len(same)
    one = len(weights) == 1
    joined, starts = weights[0] if one else np.concatenate(weights), pairs.starts.astype(np.int64, copy=False)
    places, n_support, pair_coef, dual_coef = read_listed(joined, starts, LEFT)
    return pairs.order[places], n_support, biases[0].copy() if one else np.concatenate(biases), pair_coef, dual_coef


def among_all(
    classes: int, present: NDArray, n_support: NDArray, bias: NDArray, pair_coef: NDArray, steps: NDArray
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """What the pairs of the classes that are present came to, as what all pairs of all classes have: without support
    vectors, coefficients and steps where a class is not present, with the bias of `constants_of`."""
    pairs = np.array(pairs_of(classes))
    solved = np.flatnonzero(np.isin(pairs, present).all(axis=1))
    # Two classes by themselves have y = +1 for the second, of several a pair has it for the first.
    sign = -1.0 if len(present) == 2 else 1.0
    counts, biases, iterations = (
        np.zeros(classes, n_support.dtype),
        constants_of(classes, present),
        np.zeros(len(pairs), steps.dtype),
    )
    counts[present], biases[solved], iterations[solved] = n_support, sign * bias, steps
    codes = np.repeat(np.arange(classes), counts)
    place, pair = np.nonzero(pair_coef)
    values = sign * pair_coef[place, pair]
    return counts, biases, *laid_out(classes, len(pair_coef), place, codes[place], values, solved[pair]), iterations


class PairSolutions:
    """One `Solution` a pair of classes, (0, 1), (0, 2), …

    Parameters
    ----------
    found : sequence of Solution or PairResult
    gram : Gram
        Of all points.
    pairs : Pairs
    C : float
    weight : array of shape (gram.n,)
    tol : float
    seeds : sequence of int
    refine : bool
        Whether a run would be handed over to a refinement.
    """

    def __init__(
        self,
        found: Sequence[Solution | PairResult],
        gram: Gram,
        pairs: Pairs,
        C: float,
        weight: NDArray,
        tol: float,
        seeds: Sequence[int],
        refine: bool,
    ) -> None:
        self._found, self._gram, self._pairs, self._C, self._weight = list(found), gram, pairs, C, weight
        self._tol, self._seeds, self._refine = tol, seeds, refine

    def __iter__(self) -> Iterator[Solution]:
        for k, found in enumerate(self._found):
            yield self._solution(k, found) if isinstance(found, PairResult) else found

    def relative_gaps(self) -> list[float | None]:
        """The certified relative gap of each; None where the certificate is withheld."""
        return [found.certificate.relative_gap for found in self._found]

    def _solution(self, k: int, settled: PairResult) -> Solution:
        rows, order = self._pairs[k], self._pairs.places(k)
        problem = problems.svc(
            self._gram if len(rows) == self._gram.n else self._gram.subset(rows),
            self._pairs.signs(k),
            self._C,
            sample_weight=self._weight[rows],
        )
        alpha, certified = immutable(settled.alpha[order]), settled.certificate
        certificate = replace(certified, alpha=immutable(certified.alpha[order]))
        return Solution(
            problem=problem,
            alpha=certificate.alpha,
            raw_alpha=alpha,
            refined=False,
            support=support_set(problem, alpha),
            ended=Status.OPTIMAL,
            raw_ended=Status.OPTIMAL,
            tol=self._tol,
            cost=Cost(wall_time_s=settled.wall_time_s, steps=1, kernel_columns=settled.columns),
            provenance=provenance_of(
                WorkingSet(), self._seeds[k], "early" if self._refine else False, strategy="batch"
            ),
            certified=certificate,
        )
