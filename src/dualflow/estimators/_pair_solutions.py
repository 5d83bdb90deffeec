"""The solutions of a classifier's pairs; those settled without a run become objects when they are looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import problems
from .._conclusion import provenance_of
from .._together import Settled, together
from ..core.kernels import Gram
from ..core.solution import Cost, Solution, Status
from ..core.support import support_set
from ..core.values import immutable
from ..problems.classification import COST
from ..solvers import Solver
from ._batch import kept
from ._by_points import nobody_looks_on
from ._classifier import laid_out, pairs_of

__all__ = ["PairSolutions", "members", "read_pairs", "settles"]


def settles(model: Any, gram: Gram) -> bool:
    """Whether small pairs may be solved without a run each."""
    hinge = model.loss == "hinge" and model.fit_intercept is True and COST.check("C", model.C) < np.inf
    return bool(nobody_looks_on(model) and hinge and gram.is_psd_by_kernel)


def members(codes: NDArray, classes: int) -> list[NDArray]:
    """The points of each class, ascending; those of class −1 are left out."""
    counts = np.bincount(codes + 1, minlength=classes + 1)
    return np.split(np.argsort(codes, kind="stable"), counts.cumsum()[:-1])[1:]


def read_pairs(
    codes: NDArray, rows: Sequence[NDArray], found: Sequence[Solution | Settled], classes: int
) -> tuple[NDArray, NDArray, NDArray, tuple[NDArray, NDArray]]:
    """What pairs of classes came to, each over its rows: support vectors by class and then ascending, how many of each
    class, biases, and coefficients as `laid_out` has them."""
    order = np.argsort(codes, kind="stable")
    place_of, ends = np.empty(len(order), dtype=np.intp), np.bincount(codes + 1, minlength=classes + 1).cumsum()
    place_of[order] = np.arange(len(order))
    pairs, places, values, owners, biases, done = np.array(pairs_of(classes)), [], [], [], [], 0
    for _, group in groupby(found, key=lambda pair: id(pair.batch) if isinstance(pair, Settled) else id(pair)):
        same = list(group)
        which = np.arange(done, done + len(same))
        done += len(same)
        if isinstance(same[0], Settled):
            sizes, weights, intercepts = together(same)  # type: ignore[arg-type]
            lengths = sizes.ravel()
            starts = lengths.cumsum() - lengths
            weights = kept(weights, starts[::2])
            (J,) = np.nonzero(weights)
            place = np.repeat(ends[pairs[which]].ravel() - starts, lengths)[J] + J
            owner = np.repeat(which, sizes.sum(axis=1))[J]
        else:
            intercepts, weights = np.array([same[0].bias]), kept(same[0].coefficients)
            (J,) = np.nonzero(weights)
            place, owner = place_of[rows[which[0]][J]], np.full(len(J), which[0])
        biases.append(intercepts)
        places.append(place)
        values.append(weights[J])
        owners.append(owner)
    at, owner = np.concatenate(places), np.concatenate(owners)
    is_support = np.zeros(len(order), dtype=bool)
    is_support[at] = True
    rank, support = is_support.cumsum() - 1, order[is_support]
    coefficients = laid_out(classes, len(support), rank[at], codes[order[at]], np.concatenate(values), owner)
    return support, np.bincount(codes[support], minlength=classes), np.concatenate(biases), coefficients


class PairSolutions:
    """One `Solution` a pair of classes, (0, 1), (0, 2), …

    Parameters
    ----------
    found : list of Solution or Settled
    gram : Gram
        Of all points.
    groups : list of int arrays
        The points of each class, ascending.
    C : float
    weight : array of shape (gram.n,)
    tol : float
    engine : Solver
        Whose problems those that were settled are.
    seeds : list of int
    """

    def __init__(
        self,
        found: list[Solution | Settled],
        gram: Gram,
        groups: list[NDArray],
        C: float,
        weight: NDArray,
        tol: float,
        engine: Solver[Any, Any],
        seeds: list[int],
    ) -> None:
        self._found, self._gram, self._groups, self._C, self._weight = list(found), gram, groups, C, weight
        self._tol, self._engine, self._seeds = tol, engine, seeds
        self._pairs = pairs_of(len(groups))

    def __iter__(self) -> Iterator[Solution]:
        for k, found in enumerate(self._found):
            yield self._solution(k, found) if isinstance(found, Settled) else found

    def _solution(self, k: int, settled: Settled) -> Solution:
        i, j = self._pairs[k]
        first, second = self._groups[i], self._groups[j]
        points = np.concatenate([first, second])
        order = np.argsort(points)
        rows, positive = points[order], order < len(first)
        if len(self._groups) == 2:
            positive = ~positive
        problem = problems.svc(
            self._gram if len(rows) == self._gram.n else self._gram.subset(rows),
            np.where(positive, 1, -1),
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
            provenance=provenance_of(self._engine.aim(self._tol, hand_over=True), self._seeds[k]),
            certified=certificate,
        )
