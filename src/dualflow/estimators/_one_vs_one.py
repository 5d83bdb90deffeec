"""The solutions of a classifier's pairs; those settled without a run become objects when they are looked at.

A batch classifier's fit, pair by pair, and its files: the pairs' problems are posed again, and what it says of them
is held against them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core._pair_bound import read_listed
from ..core._points import by_class
from ..core.decision import feature_weights
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.runtime.arrays import immutable
from ..core.solution import Cost, Solution, Status
from ..direct.results import DirectPair, PairResult, together
from ..driver.direct import result_of
from ..driver.result import provenance_of
from ..problems.classification import COST
from ..refinement.refine import support_set
from ..solvers import Solver
from ..solvers.working_set import WorkingSet
from ._base import fitted
from ._batch import LEFT, BatchMachine, iterations_of
from ._classifier import constants_of, laid_out, pairs_of
from ._packing import pack_attributes, pack_solutions, unpacked
from ._validation import checked_data, class_weights, classes_with_weight, encode, kept_weight, several
from ._verify import agree, known_classes, round_off, scale_loss, stored

__all__ = ["PairSolutions", "Pairs", "SavedPairs", "among_all", "read_pairs", "runs_of", "takes_batch"]


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


#: What a file holds beside the solutions: dtype kinds and dimensions.
_STORED = {
    "classes_": ("biufUSmMO", "classes"),
    "class_weight_": ("f", "classes"),
    "support_": ("i", "support"),
    "n_support_": ("i", "classes"),
    "dual_coef_": ("f", "rows", "support"),
    "_pair_coef": ("f", "support", "pairs"),
    "intercept_": ("f", "pairs"),
}


def _posed(gram: Gram, told: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
    """A pair's problem again; a file leaves open its labels, loss and intercept, and C times the weights."""
    hinge = told["model"] == "hinge"
    intercept = "penalised" if hinge and told["offset"] else bool(told["equality" if hinge else "offset"])
    problem = problems.svc(gram, column["sigma"], loss=told["model"], fit_intercept=intercept)
    return replace(problem, upper=column["upper"]) if hinge else replace(problem, ridge=column["ridge"])


def _classes_present(arrays: Mapping[str, NDArray], classes: int) -> NDArray | None:
    """The classes of a file whose pairs were solved; None where all were."""
    if "present" not in arrays:
        return None
    present = stored(arrays, "present", "i", (None,)).astype(np.intp)
    if not 2 <= len(present) < classes or (np.diff(present) <= 0).any() or present[0] < 0 or present[-1] >= classes:
        raise ValueError("its array 'present' does not name at least two of its classes, ascending, and not all")
    return present


class SavedPairs(BatchMachine):
    """A batch classifier's fit, `_pack` and `_unpack`, and what it has solved."""

    classes_: NDArray
    class_weight_: NDArray
    intercept_: NDArray
    _pair_coef: NDArray
    _constants: NDArray | float

    class_weight: Any
    _pose = staticmethod(_posed)

    def _fit_pairs(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> None:
        """Encode, weigh, solve the pairs of classes and read what they came to."""
        with self._transaction():
            self._take_parameters()
            points, labels = checked_data(self, self._met(X), y, first=True, least=2)
            classes, codes = encode(labels)
            several(classes, "y")
            self.class_weight_ = class_weights(self.class_weight, classes, labels)
            weight, self._present, solved = kept_weight(sample_weight, points), None, len(classes)
            if sample_weight is not None or self.class_weight is not None:
                weight *= self.class_weight_[codes]
                if not (weight > 0).all():
                    counts = np.bincount(codes, weight > 0, minlength=len(classes))
                    present = classes_with_weight(counts, classes)
                    if (solved := len(present)) < len(classes):
                        self._present, codes = present, np.searchsorted(present, codes)
                    codes = np.where(weight > 0, codes, -1)
            gram, pairs = self._gram(points), Pairs(codes, solved)
            del points  # of another precision it is a copy, and so is the Gram's
            found = self._solve_pairs(gram, weight, pairs)
            self.classes_, self._rows = classes, pairs
            self._read(gram, pairs, found)
            self._publish()

    def _solve_pairs(
        self, gram: Gram, weight: NDArray, pairs: Pairs
    ) -> Sequence[Solution] | Sequence[Solution | PairResult]:
        """Solve the pairs of classes, and keep the solutions."""
        raise NotImplementedError

    @fitted
    def solutions_(self) -> list[Solution]:
        """One a pair of classes; those of pairs that were settled without a run are made when first asked for."""
        if (solved := self.__dict__.get("_solved")) is not None:  # another thread may have been first
            self.solutions_ = list(solved)
            self.__dict__.pop("_solved", None)
        if "solutions_" not in self.__dict__:
            raise AttributeError("solutions_")  # the models of a search's folds then fit anew
        return self.__dict__["solutions_"]

    def _read(self, gram: Gram, pairs: Pairs, found: Sequence[Solution] | Sequence[Solution | PairResult]) -> None:
        """Set what the pairs of a Gram's points came to is to the user."""
        runs = runs_of(found)
        steps = np.array([1 if run is None else iterations_of(run) for run in runs])
        support, counts, bias, pair_coef, dual_coef = read_pairs(pairs, found)
        if self._present is not None:
            counts, bias, pair_coef, dual_coef, steps = among_all(
                len(self.classes_), self._present, counts, bias, pair_coef, steps
            )
        self.n_support_, self.intercept_, self._pair_coef, self.dual_coef_ = counts, bias, pair_coef, dual_coef
        moved = gram.is_translatable and all(run is None or run.problem.reading.moves(run.problem) for run in runs)
        own = self._keep_support(gram, support, moved)
        given = [None if run is None else feature_weights(run.problem, run.certificate) for run in runs]
        if self._present is not None:
            # Those of the pairs that were solved; two classes by themselves are signed the other way round.
            sign, solved = -1.0 if len(self._present) == 2 else 1.0, given
            given = [None] * len(self.intercept_)
            for column, w in zip(self._columns(), solved, strict=True):
                given[column] = None if w is None else sign * w
        self._keep_linear(given)
        self._constants = 0.0
        if own is not None and self._linear is not None:
            self._constants = self._linear @ own.center
        elif own is not None:
            self._constants = np.array([own.gram.constant(weights) for weights in self._pair_coef.T])
        self.n_iter_ = steps
        self.fit_status_ = int(any(run is not None and run.status is not Status.OPTIMAL for run in runs))

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = pack_solutions(self.solutions_, self._rows)
        arrays |= {} if self._present is None else {"present": self._present.astype(np.int64)}
        return arrays | pack_attributes(self, _STORED), facts

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        classes = len(known_classes(stored(arrays, "classes_", "biufUSmMO", (None,))))
        self._present = _classes_present(arrays, classes)
        solved = classes if self._present is None else len(self._present)
        pairs = pairs_of(solved)
        gram, points = self._unpack_solutions(arrays, facts, self._pose, len(pairs))
        sizes = {"classes": classes, "rows": classes - 1, "pairs": len(pairs_of(classes))}
        said = unpacked(_STORED, arrays, **sizes)
        self.classes_, self.class_weight_ = said["classes_"], said["class_weight_"]
        weights = self.class_weight_ if self._present is None else self.class_weight_[self._present]
        if not (weights > 0).all() or (self.class_weight_ < 0).any():
            raise ValueError("its class weights are not all above 0")
        codes, rows = np.full(len(points), -1), [np.searchsorted(points, part) for part in self._rows]
        for (i, j), part, solution in zip(pairs, rows, self.solutions_, strict=True):
            own = np.where(solution.problem.sigma > 0, *((j, i) if len(pairs) == 1 else (i, j)))
            if ((codes[part] >= 0) & (codes[part] != own)).any():
                raise ValueError("its solves put a point into several classes")
            codes[part] = own
        parts = Pairs(codes, solved)
        if not all(np.array_equal(own, part) for own, part in zip(parts, rows, strict=True)):
            raise ValueError("a solve of two classes leaves points of them out")
        self._rows = parts.of(points)
        self._read(gram, parts, self.solutions_)
        self.support_ = points[self.support_]
        met = [(solution.problem, solution.certificate) for solution in self.solutions_]
        lost, near = np.full(self.intercept_.shape, 1e-9), np.zeros(self.intercept_.shape)
        columns = self._columns()
        lost[columns] += [scale_loss(*one) for one in met]
        near[columns] = [round_off(problem, certificate.alpha) for problem, certificate in met]
        weights = lost * np.abs(self._pair_coef).max(axis=0, initial=0.0)
        tolerance = {
            "intercept_": near + lost * np.abs(self.intercept_),
            "_pair_coef": weights,
            "dual_coef_": weights.max(),
            "support_": 0,
            "n_support_": 0,
        }
        for name, allowed in tolerance.items():
            agree(name, said[name], getattr(self, name), allowed)
            setattr(self, name, said[name])
        self._publish()
