"""A batch classifier's fit, pair by pair, and its files: the pairs' problems are posed again, and what it says of them
is held against them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core.decision import feature_weights
from ..core.kernels import Gram
from ..core.problem import DualProblem
from ..core.solution import Solution, Status
from ..direct.results import PairResult
from ._attributes import fitted
from ._batch import BatchMachine, iterations_of
from ._classifier import pairs_of
from ._labels import class_weights, classes_with_weight, encode, several
from ._packing import pack_attributes, pack_solutions, unpacked
from ._pair_solutions import Pairs, among_all, read_pairs, runs_of
from ._validation import checked_data, kept_weight
from ._verify import agree, known_classes, round_off, scale_loss, stored

__all__ = ["SavedPairs"]

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
