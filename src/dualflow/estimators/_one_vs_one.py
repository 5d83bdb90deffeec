"""One-against-one classification in one batch: the points of each pair, its result, the joint model, and its files.

`Pairs` holds the points of each pair of classes, `PairSolutions` their results, and `OneVsOneMachine` is the base class
of the batch classifiers. A `Solution` object of a pair that was solved by a direct method is made on first access.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from itertools import groupby, pairwise
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import problems
from ..core._pair_bound import read_listed
from ..core._points import by_class
from ..core.certificate import Certificate
from ..core.decision import feature_weights
from ..core.gram import Gram
from ..core.problem import DualProblem
from ..core.runtime.arrays import immutable
from ..core.solution import Cost, Progress, Solution, Status
from ..direct.pairs import DirectPair, PairResult, joined_weights
from ..driver.result import provenance_of
from ..driver.solve import attach_interrupted
from ..problems.classification import C_RULE
from ..refinement.refine import support_set
from ..solvers import Solver
from ..solvers.working_set import WorkingSet
from ._base import fitted
from ._batch import MIN_RELATIVE_COEF, BatchMachine, iterations_of
from ._classifier import class_pairs, constants_of, libsvm_layout
from ._packing import pack_attributes, pack_solutions, unpacked
from ._validation import (
    checked_data,
    class_weights,
    classes_with_weight,
    encode,
    nonnegative_weight,
    require_two_classes,
)
from ._verify import agree, known_classes, round_off, scale_loss, stored

#: Up to this many points, ``refine=False`` also takes the batch. With more, a run is faster, because it may end at
#: ``tol``.
MAX_POINTS_UNREFINED = 8192


def can_use_batch(model: Any, engine: Solver[Any, Any], gram: Gram) -> bool:
    """Whether a fit of several classes may solve its small pairs in one batch instead of a run each.

    That needs the default solver without options or limits, the hinge loss with a free bias, a finite C and a kernel
    that is positive semidefinite by its form.
    """
    is_default = engine == WorkingSet() and model.max_iter == -1 and not model.warm_start
    is_hinge = model.loss == "hinge" and model.fit_intercept is True and C_RULE.check("C", model.C) < np.inf
    is_small = model.refine or gram.n <= MAX_POINTS_UNREFINED
    return bool(is_default and is_hinge and is_small and gram.is_psd_by_kernel)


def direct_result_of(found: Solution | PairResult) -> PairResult | None:
    """Return a pair's result if a direct method solved it, else None."""
    if isinstance(found, PairResult):
        return found
    direct = found.direct_result
    return direct.pair if isinstance(direct, DirectPair) else None


class Pairs(Sequence[NDArray]):
    """The points of each pair of classes. Item k holds the indices of the points of pair k, ascending.

    Parameters
    ----------
    codes : array of shape (n,)
        Class of each point; points of class −1 are left out.
    classes : int
        Number of classes.

    Attributes
    ----------
    order : int array
        Indices of all points, sorted by class and then ascending.
    starts : int array of shape (classes + 1,)
        Start of each class in ``order``, and the end of the last one.
    groups : list of int arrays
        Indices of the points of each class.
    """

    def __init__(self, codes: NDArray, classes: int) -> None:
        self.order, self.starts = by_class(codes.astype(np.intp, copy=False), classes)
        self.groups = [self.order[start:end] for start, end in pairwise(self.starts.tolist())]
        self._classes = class_pairs(classes)
        self._codes = codes[codes >= 0] if len(self.order) < len(codes) else codes

    def of(self, points: NDArray) -> Pairs:
        """Return a copy that refers to ``points[0], points[1], …`` (ascending) instead of points 0, 1, …"""
        other = copy(self)
        other.order = points[self.order]
        other.groups = [points[group] for group in self.groups]
        return other

    def __len__(self) -> int:
        return len(self._classes)

    def __getitem__(self, k: Any) -> Any:
        return np.sort(self.by_class(k))

    def by_class(self, k: int) -> NDArray:
        """Return the points of pair ``k``, those of its first class first."""
        i, j = self._classes[k]
        return np.concatenate([self.groups[i], self.groups[j]])

    def places(self, k: int) -> NDArray:
        """Return the position in `by_class` of each point of pair ``k``."""
        points = self.by_class(k)
        if points.max(initial=-1) != len(points) - 1:
            return np.argsort(points)
        places = np.empty_like(points)  # they are all points, in another order
        places[points] = np.arange(len(points))
        return places

    def signs(self, k: int) -> NDArray:
        """Return the labels of the points of pair ``k``: +1 for its first class, or, of two classes, for the second."""
        if len(self) == 1:
            return 2.0 * self._codes - 1.0
        return np.where(self.places(k) < len(self.groups[self._classes[k][0]]), 1.0, -1.0)


def read_pairs(
    pairs: Pairs, found: Sequence[Solution | PairResult], results: Sequence[PairResult | None]
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """Return the joint model of all pairs.

    Parameters
    ----------
    pairs : Pairs
    found : sequence of Solution or PairResult
    results : sequence of PairResult or None
        The `direct_result_of` each of them.

    Returns
    -------
    support : int array of shape (n_SV,)
        The support vectors, by class and then ascending.
    n_support : int array of shape (n_classes,)
    bias : array of shape (n_pairs,)
    pair_coef : array of shape (n_SV, n_pairs)
    dual_coef : array of shape (n_classes − 1, n_SV)
        The same coefficients in LIBSVM's layout.
    """
    weights, biases, done = [], [], 0
    if len(pairs) > 1:
        # The direct result behind a `Solution` has the points of y = −1 first: the order of the joint model only for
        # two classes. Among more, y = −1 is the second class of a pair.
        results = [
            result if isinstance(pair, PairResult) else None for pair, result in zip(found, results, strict=True)
        ]
    batches = [id(pair if result is None else result.batch) for pair, result in zip(found, results, strict=True)]
    for _, group in groupby(range(len(found)), key=batches.__getitem__):
        members = list(group)
        own = [result for k in members if (result := results[k]) is not None]
        if own:
            values, intercepts = joined_weights(own)
        else:
            solution = found[members[0]]
            values, intercepts = np.empty(len(solution.coefficients)), np.array([solution.bias])
            values[pairs.places(done)] = solution.coefficients
        weights.append(values)
        biases.append(intercepts)
        done += len(members)
    one = len(weights) == 1
    weights_of_all, starts = weights[0] if one else np.concatenate(weights), pairs.starts.astype(np.int64, copy=False)
    places, n_support, pair_coef, dual_coef = read_listed(weights_of_all, starts, MIN_RELATIVE_COEF)
    return pairs.order[places], n_support, biases[0].copy() if one else np.concatenate(biases), pair_coef, dual_coef


def spread_to_all_pairs(
    classes: int, present: NDArray, n_support: NDArray, bias: NDArray, pair_coef: NDArray, steps: NDArray
) -> tuple[NDArray, NDArray, NDArray, NDArray, NDArray]:
    """Return the model of all pairs of classes from that of the pairs between classes that are ``present``.

    A pair with an absent class has no support vectors, coefficients or steps, and the bias of `constants_of`. Returns
    n_support, bias, pair_coef, dual_coef and steps.
    """
    pairs = np.array(class_pairs(classes))
    solved = np.flatnonzero(np.isin(pairs, present).all(axis=1))
    # A model of two classes has y = +1 for the second class; a pair among more has it for the first.
    sign = -1.0 if len(present) == 2 else 1.0
    counts, biases, iterations = (
        np.zeros(classes, n_support.dtype),
        constants_of(classes, present),
        np.zeros(len(pairs), steps.dtype),
    )
    counts[present], biases[solved], iterations[solved] = n_support, sign * bias, steps
    codes = np.repeat(np.arange(classes), counts)
    row, pair = np.nonzero(pair_coef)
    values = sign * pair_coef[row, pair]
    return (
        counts,
        biases,
        *libsvm_layout(classes, len(pair_coef), row, codes[row], values, solved[pair]),
        iterations,
    )


class CertifiedPair(NamedTuple):
    """The problem of a pair of classes that a direct method solved, and the certificate of its optimum."""

    problem: DualProblem
    certificate: Certificate

    @property
    def ran_circuits(self) -> bool:
        """Return False: circuits are no direct method."""
        return False

    @property
    def refined(self) -> bool:
        """Return False, as for the pair's `Solution`."""
        return False

    @property
    def alpha(self) -> NDArray:
        """Return the certified α."""
        return self.certificate.alpha


class PairSolutions:
    """The `Solution` objects of the pairs of classes (0, 1), (0, 2), …, made on iteration.

    Parameters
    ----------
    gram : Gram
        The kernel matrix of all points.
    pairs : Pairs
    C : float
    weight : array of shape (gram.n,)
        Weights of the points, which multiply C.
    tol : float
    seeds : sequence of int
        The seed of each pair, for the provenance.
    refine : bool
        Whether a run of the same fit would be refined, for the provenance.

    Attributes
    ----------
    found : sequence of Solution or PairResult
        What a run or a direct method returned, for each pair. To be set.
    """

    found: Sequence[Solution | PairResult] = ()

    def __init__(
        self,
        gram: Gram,
        pairs: Pairs,
        C: float,
        weight: NDArray,
        tol: float,
        seeds: Sequence[int],
        refine: bool,
    ) -> None:
        self._gram, self._pairs, self._C, self._weight = gram, pairs, C, weight
        self._tol, self._seeds, self._refine = tol, seeds, refine

    def __iter__(self) -> Iterator[Solution]:
        for k, found in enumerate(self.found):
            yield self._solution(k, found) if isinstance(found, PairResult) else found

    def relative_gaps(self) -> list[float | None]:
        """Return the certified relative gap of each pair; None where the certificate is withheld."""
        return [found.certificate.relative_gap for found in self.found]

    def report(self, k: int, result: PairResult, callback: Callable[[Progress], bool | None]) -> None:
        """Call a callback with the result of pair ``k``. An error that it raises has the pair's solution."""
        alpha = result.alpha[self._pairs.places(k)]
        progress = Progress(1, 1.0, alpha, result.certificate, result.wall_time_s)
        try:
            callback(progress)
        except BaseException as error:
            attach_interrupted(error, self._solution(k, result))
            raise

    def certified(self) -> Iterator[Solution | CertifiedPair]:
        """Yield the problem and the certificate of each pair, without the rest of a `Solution`."""
        for k, found in enumerate(self.found):
            yield self._certified(k, found) if isinstance(found, PairResult) else found

    def _certified(self, k: int, result: PairResult) -> CertifiedPair:
        rows, order = self._pairs[k], self._pairs.places(k)
        problem = problems.svc(
            self._gram if len(rows) == self._gram.n else self._gram.subset(rows),
            self._pairs.signs(k),
            self._C,
            sample_weight=self._weight[rows],
        )
        certified = result.certificate
        return CertifiedPair(problem, replace(certified, alpha=immutable(certified.alpha[order])))

    def _solution(self, k: int, result: PairResult) -> Solution:
        problem, certificate = self._certified(k, result)
        alpha = immutable(result.alpha[self._pairs.places(k)])
        return Solution(
            problem=problem,
            alpha=certificate.alpha,
            raw_alpha=alpha,
            refined=False,
            support=support_set(problem, alpha),
            ended=Status.OPTIMAL,
            raw_ended=Status.OPTIMAL,
            tol=self._tol,
            cost=Cost(wall_time_s=result.wall_time_s, steps=1, kernel_columns=result.columns),
            provenance=provenance_of(
                WorkingSet(), self._seeds[k], "early" if self._refine else False, strategy="batch"
            ),
            certified=certificate,
        )


#: Attributes that a file holds beside the solutions: name -> (dtype kinds, names of the dimensions …).
_STORED = {
    "classes_": ("biufUSmMO", "classes"),
    "class_weight_": ("f", "classes"),
    "support_": ("i", "support"),
    "n_support_": ("i", "classes"),
    "dual_coef_": ("f", "rows", "support"),
    "_pair_coef": ("f", "support", "pairs"),
    "intercept_": ("f", "pairs"),
}


def _posed(gram: Gram, facts: Mapping[str, Any], column: Mapping[str, NDArray]) -> DualProblem:
    """Return a pair's problem from a file: labels and bounds are in ``column``, loss and bias in ``facts``."""
    hinge = facts["model"] == "hinge"
    intercept = "penalised" if hinge and facts["offset"] else bool(facts["equality" if hinge else "offset"])
    problem = problems.svc(gram, column["sigma"], loss=facts["model"], fit_intercept=intercept)
    return replace(problem, upper=column["upper"]) if hinge else replace(problem, ridge=column["ridge"])


def _classes_present(arrays: Mapping[str, NDArray], classes: int) -> NDArray | None:
    """Return the classes that had points of positive weight, from a file; None if all had."""
    if "present" not in arrays:
        return None
    present = stored(arrays, "present", "i", (None,)).astype(np.intp)
    if not 2 <= len(present) < classes or (np.diff(present) <= 0).any() or present[0] < 0 or present[-1] >= classes:
        raise ValueError("its array 'present' does not name at least two of its classes, ascending, and not all")
    return present


class OneVsOneMachine(BatchMachine):
    """Base of the batch classifiers: fit by pairs of classes, attributes of the joint model, and files."""

    classes_: NDArray
    class_weight_: NDArray
    intercept_: NDArray
    _pair_coef: NDArray
    _constants = BatchMachine._constants  # before that of `PairClassifier`

    class_weight: Any
    probability: bool | str = False
    _pose = staticmethod(_posed)

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array of shape (n, n_features), or (n, n) if the kernel is precomputed
            Finite numbers, dense or, unless the kernel is precomputed, in any sparse format of scipy. With a callable
            kernel, X may be whatever the kernel takes, for example a list of texts.
        y : array of shape (n,)
            Labels of at least two classes.
        sample_weight : array of shape (n,), optional
            Multiplies C, point by point; ν is a share of their sum. Points with a weight of 0 or less are left out.

        Returns
        -------
        The fitted estimator itself.

        Raises
        ------
        ProblemError
            Data or parameters are out of range. If ``C=np.inf`` and the classes cannot be separated, the error is a
            `FitError`, whose ``solution`` has the status NOT_SEPARABLE and a witness.
        SolverMismatch, SolverUnavailable, TypeError
            The solver cannot solve this problem, needs a package that is not installed, or does not have an option.

        Warns
        -----
        ConvergenceWarning
            A solve ended above ``tol``, or its certificate is withheld because the kernel is indefinite.
        """
        with self._transaction():
            self._take_parameters()
            if callable(self.kernel) or self._objects is not None:
                X = self._kernel_input(X)
            points, labels = checked_data(self, X, y, first=True, least=2)
            classes, codes = encode(labels)
            require_two_classes(classes, "y")
            self.class_weight_ = class_weights(self.class_weight, classes, labels)
            weight, self._present, solved = nonnegative_weight(sample_weight, points), None, len(classes)
            own_weight = weight.copy() if self.probability else None
            if sample_weight is not None or self.class_weight is not None:
                weight *= self.class_weight_[codes]
                if not (weight > 0).all():
                    counts = np.bincount(codes, weight > 0, minlength=len(classes))
                    present = classes_with_weight(counts, classes)
                    if (solved := len(present)) < len(classes):
                        self._present, codes = present, np.searchsorted(present, codes)
                    codes = np.where(weight > 0, codes, -1)
            gram, pairs = self._gram(points), Pairs(codes, solved)
            del points  # if `checked_data` converted X, this is a second copy beside the Gram's
            found = self._solve_pairs(gram, weight, pairs)
            self.classes_, self._rows = classes, pairs
            self._read(gram, pairs, found)
            self.__dict__.pop("calibration_", None)
            if self.probability:
                self._calibrate(own_weight)
            self._publish()
        return self

    def _calibrate(self, weight: NDArray | None = None) -> None:
        """Prepare `predict_proba`, in a subclass with a parameter ``probability``."""
        raise NotImplementedError

    def _solve_pairs(
        self, gram: Gram, weight: NDArray, pairs: Pairs
    ) -> Sequence[Solution] | Sequence[Solution | PairResult]:
        """Solve the pairs of classes, keep their solutions, and return the results."""
        raise NotImplementedError

    @fitted
    def solutions_(self) -> list[Solution]:
        """Return the solution of each pair of classes; those that a direct method found are made on first access."""
        if (solved := self.__dict__.get("_solved")) is not None:  # another thread may have been first
            self.solutions_ = list(solved)
            self.__dict__.pop("_solved", None)
        if "solutions_" not in self.__dict__:
            raise AttributeError("solutions_")  # models of a search's folds hold none; the search fits them again
        return self.__dict__["solutions_"]

    def _read(self, gram: Gram, pairs: Pairs, found: Sequence[Solution] | Sequence[Solution | PairResult]) -> None:
        """Set the fitted attributes from the results of the pairs."""
        results = [direct_result_of(pair) for pair in found]
        runs: list[Any] = [pair if result is None else None for pair, result in zip(found, results, strict=True)]
        steps = np.array([1 if run is None else iterations_of(run) for run in runs])
        moved = gram.kernel != "rbf" and gram.is_translatable
        moved = moved and all(run is None or run.problem.reading.is_translatable(run.problem) for run in runs)
        given = [None if run is None else feature_weights(run.problem, run.provisional) for run in runs]
        support, counts, bias, pair_coef, dual_coef = read_pairs(pairs, found, results)
        if self._present is not None:
            counts, bias, pair_coef, dual_coef, steps = spread_to_all_pairs(
                len(self.classes_), self._present, counts, bias, pair_coef, steps
            )
        self.n_support_, self.intercept_, self._pair_coef, self.dual_coef_ = counts, bias, pair_coef, dual_coef
        self.n_iter_ = steps
        if self._present is not None:
            # Move each solved pair's weights to its column among all pairs; a model of two classes has the other sign.
            sign, solved = -1.0 if len(self._present) == 2 else 1.0, given
            given = [None] * len(self.intercept_)
            for column, w in zip(self._columns(), solved, strict=True):
                given[column] = None if w is None else sign * w
        self._keep_support(gram, support, moved)
        self._keep_linear(given)

    def _pack(self) -> tuple[dict[str, NDArray], dict[str, Any]]:
        arrays, facts = pack_solutions(self.solutions_, self._rows)
        arrays |= {} if self._present is None else {"present": self._present.astype(np.int64)}
        return arrays | pack_attributes(self, _STORED), facts

    def _unpack(self, arrays: dict[str, NDArray], facts: dict[str, Any]) -> None:
        classes = len(known_classes(stored(arrays, "classes_", "biufUSmMO", (None,))))
        self._present = _classes_present(arrays, classes)
        solved = classes if self._present is None else len(self._present)
        pairs = class_pairs(solved)
        gram, points = self._unpack_solutions(arrays, facts, self._pose, len(pairs))
        sizes = {"classes": classes, "rows": classes - 1, "pairs": len(class_pairs(classes))}
        saved = unpacked(_STORED, arrays, **sizes)
        self.classes_, self.class_weight_ = saved["classes_"], saved["class_weight_"]
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
        certified = [(solution.problem, solution.certificate) for solution in self.solutions_]
        # Relative and absolute round-off of each pair's stored numbers.
        relative, absolute = np.full(self.intercept_.shape, 1e-9), np.zeros(self.intercept_.shape)
        columns = self._columns()
        relative[columns] += [scale_loss(*one) for one in certified]
        absolute[columns] = [round_off(problem, certificate.alpha) for problem, certificate in certified]
        weights = relative * np.abs(self._pair_coef).max(axis=0, initial=0.0)
        tolerance = {
            "intercept_": absolute + relative * np.abs(self.intercept_),
            "_pair_coef": weights,
            "dual_coef_": weights.max(),
            "support_": 0,
            "n_support_": 0,
        }
        for name, allowed in tolerance.items():
            agree(name, saved[name], getattr(self, name), allowed)
            setattr(self, name, saved[name])
        self._publish()
