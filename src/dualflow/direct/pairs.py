"""Problems that are solved and certified without a run of the driver, and their results.

`solve_directly` solves one problem, `PairBatch` the pairs of classes of a one-vs-one fit, and `solve_cost_path` these
pairs for several values of C.

A run for each pair (workspace, isolated copy, context, record) takes longer than solving it, and so do Python objects.
So a list of pairs is solved and certified by one or two compiled calls, over shared blocks of kernel values or from the
points; an object for a pair is made when it is read. A pair is solved in float64 to the accuracy that `working-set`
reaches. A pair whose certificate misses the tolerances is not returned: it is left to a run.

The certificate of a pair is in `core.pair_certificate`: compiled code writes its numbers to a row of an array, and a
`PairTable` holds these rows for all pairs of a call.
"""

from __future__ import annotations

import math
import threading
import time
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core._pair_bound import AT_ALPHA, N_FIRST, N_NUMBERS, N_SECOND, certify_listed
from ..core.certificate import Certificate
from ..core.gram import Gram
from ..core.pair_certificate import CertificateRow
from ..core.problem import DualProblem, Kind
from ..core.radial import FEW_FEATURES
from ..core.runtime.arrays import MAX_ENTRIES_CACHED, cached_constant, immutable
from ..core.runtime.threads import cached_property
from ..core.solution import MAX_GAP_UNREFINED, Status
from ..core.sparse_points import SparsePoints
from ..problems.classification import hinge
from ..refinement.refine import support_set
from ..working_set import _point_pairs
from ..working_set.dense import KKT_TOL_ROUND_OFF, solve_dense_pairs
from .from_points import EMPTY, PairArrays, PointPairs, pair_from_points, suits_one_table, suits_points
from .low_rank import (
    interior_minimiser,
    is_low_rank_first,
    rank_of,
    solve_low_rank,
    suits_low_rank,
    updates_like_steps,
)
from .matrix_rows import suits_few_rows
from .pair_blocks import BlockList, SharedBlocks, dense_list
from .simplex import simplex_from_points, suits_simplex_points
from .single import CertifiedResult
from .strategy import USUAL, Thresholds
from .whole import MAX_MARGIN_SHORTFALL, is_wide, solve_whole, suits_whole

#: A compiled call starts no further pair after this many seconds, so that Ctrl-C and the clock are checked between
#: calls.
MAX_CALL_S = 0.05
#: The same for pairs that share kernel rows. It is longer because the next call makes these rows anew. Ctrl-C still
#: ends a search within 0.5 s.
MAX_PATH_CALL_S = 0.2
#: If a pair misses its tolerances but has a relative gap up to this, Newton steps over the whole matrix begin with its
#: α.
MAX_GAP_CONTINUED = 1e-7
#: The largest round-off of a margin, in units of the mean that gap and rounding show: at most 4 for normal errors.
ROUND_OFF_SPREAD = 8.0
#: With more free variables, solve the larger C of this pair separately. Up to 400, pair updates are at least as fast as
#: separate fits; from 600 on they take 1.5 to 6 times as long.
MAX_FREE_PATH = 400


class GapTols(NamedTuple):
    """Relative gaps that a pair has to reach.

    Attributes
    ----------
    computed : float
        Of objective and bound as computed.
    certified : float
        Of the same with the estimate of float64's rounding errors.
    """

    computed: float
    certified: float

    @classmethod
    def of(cls, tol: float, refine: bool) -> GapTols:
        """Return the gaps for a requested certified gap, and `MAX_GAP_UNREFINED` for the computed one if refined."""
        return cls(min(MAX_GAP_UNREFINED, tol) if refine else tol, tol)


def solve_directly(
    problem: DualProblem, tol: float, refine: bool, thresholds: Thresholds = USUAL
) -> CertifiedResult | None:
    """Solve and certify a problem without a run; None if it does not suit, or its tolerance is not reached.

    Parameters
    ----------
    problem : DualProblem
        The hinge's dual with an intercept, a problem on the simplex, or any convex problem of few variables, with a
        kernel that is positive semidefinite for any points. Others return None.
    tol : float
        Certified relative gap to reach.
    refine : bool
        Whether the computed gap has to reach 1e-10 too.
    thresholds : Thresholds
    """
    gram = problem.gram
    if not (isinstance(gram, Gram) and (gram.kernel == "rbf" or gram.is_psd_by_kernel)):
        return None
    gap_tol = GapTols.of(tol, refine).computed
    is_two_class, tries_steps = is_pair(problem), gram.kernel != "rbf" and suits_low_rank(problem, thresholds)
    if tries_steps and is_low_rank_first(problem, thresholds):
        if (by_steps := solve_low_rank(problem, gap_tol, tol, thresholds)) is not None:
            return by_steps
        tries_steps = False
    fits_whole: bool | None = None  # None: not tested yet
    start, is_tried = None, False
    if is_two_class and _is_whole_first(problem, gram, thresholds):
        fits_whole = suits_whole(problem, thresholds)
    if is_two_class and not fits_whole:
        negative = problem.sigma < 0
        groups = [negative.nonzero()[0], (~negative).nonzero()[0]]
        order = np.concatenate(groups)
        pair = solve_pair(gram, groups, problem.upper[order], tol, refine, None, thresholds, keeps_missed=True)
        is_tried = pair is not None
        if pair is not None and pair.meets_tols:
            return DirectPair(pair, order)
        if pair is not None and pair.relative_gap <= MAX_GAP_CONTINUED:
            start = DirectPair(pair, order).alpha
    if suits_few_rows(problem, thresholds):
        few = solve_whole(problem, gap_tol, tol, thresholds, by_rows=True)
        if few is not None:
            return few
    by_points = suits_simplex_points(problem, thresholds)
    if by_points and gram.X.shape[1] > FEW_FEATURES:
        fits_whole = suits_whole(problem, thresholds)  # a sample says whether most rows are needed
    if by_points and not fits_whole:
        return simplex_from_points(problem, gap_tol, thresholds)
    fits_whole = suits_whole(problem, thresholds) if fits_whole is None else fits_whole
    whole: CertifiedResult | None = None
    if fits_whole and not (is_tried and tries_steps and start is None):
        rank = rank_of(gram, gram.n, thresholds)
        limit = updates_like_steps(rank, gram.n, problem.n) if tries_steps else None
        whole = solve_whole(problem, gap_tol, tol, thresholds, start, limit)
    if whole is None and tries_steps:
        whole = solve_low_rank(problem, gap_tol, tol, thresholds)
        if whole is None and fits_whole:
            whole = solve_whole(problem, gap_tol, tol, thresholds)
    return whole


def is_pair(problem: DualProblem) -> bool:
    """Whether a problem is the dual of the hinge with an intercept, over points of both classes."""
    if problem.kind is not Kind.BOX_EQUALITY or problem.idx is not None or problem.d != 0 or problem.offset:
        return False
    signs = problem.sigma
    same = problem.e is signs or (problem.e is not None and np.array_equal(problem.e, signs))
    usual = same and problem.scale == 1 and _is_constant(problem.ridge, 0.0) and _is_constant(problem.p, 1.0)
    return usual and abs(float(signs.sum())) < len(signs)


def _is_constant(vector: NDArray, value: float) -> bool:
    """Whether all entries of a vector are ``value``; vectors that `constant` caches are recognised without a pass."""
    n = len(vector)
    return (n <= MAX_ENTRIES_CACHED and vector is cached_constant(n, value)) or bool((vector == value).all())


def _is_whole_first(problem: DualProblem, gram: Gram, thresholds: Thresholds) -> bool:
    """Whether a pair is solved over its whole matrix without a trial of `solve_pair`.

    Its rows are expensive, and `solve_pair` would make them one by one, or not take them at all.
    """
    n = len(problem.p)
    if n <= thresholds.max_pair_dense or not is_wide(problem, thresholds):
        return False
    features = gram.X.shape[1]
    if gram.is_radial and n <= thresholds.max_whole_variables and features < thresholds.min_features_whole_wide:
        return False
    in_blocks = gram.is_radial and n * features >= thresholds.max_pair_numbers_wide
    return not (in_blocks and float(problem.upper.max()) <= thresholds.max_bound_expensive)


def solve_pair(
    gram: Gram,
    groups: Sequence[NDArray],
    upper: NDArray,
    tol: float,
    refine: bool = True,
    start: NDArray | None = None,
    thresholds: Thresholds = USUAL,
    keeps_missed: bool = False,
) -> PairResult | None:
    """Solve the pair of two classes, with y = +1 for the second; None if a run is needed.

    Parameters
    ----------
    gram, groups, upper, tol, refine, thresholds
        As of `PairBatch`.
    start : array, optional
        Feasible multipliers to start from, laid out as ``upper``; used if the pair is solved from its points.
    keeps_missed : bool, default=False
        Whether a result that misses the tolerances is returned too, if it has a certificate.
    """
    tols = GapTols.of(tol, refine)
    if _are_positive_finite(upper) and suits_points(gram, len(upper), False, thresholds):
        pairs = PointPairs(gram, groups, upper, start, thresholds)
        if pairs.serves(0, [1]):
            table = pairs.table([(0, 1)])
            return next(_pairs_by_points(pairs, table, -1.0, tols, keeps_missed=keeps_missed))
        return _pair_by_search(gram, pairs.point_order, len(groups[0]), upper, -1.0, tols, start, thresholds)
    return PairBatch(gram, groups, upper, tol, refine, thresholds, keeps_missed)[0]


def solve_cost_path(
    gram: Gram,
    groups: Sequence[NDArray],
    weight: NDArray,
    costs: Sequence[float],
    tol: float,
    thresholds: Thresholds = USUAL,
) -> Iterator[PairResult | None] | None:
    """Solve the pairs of classes for several values of C, which share the kernel rows of each pair.

    Parameters
    ----------
    gram : Gram
        Of the radial kernel.
    groups : sequence of int arrays
        The points of each class.
    weight : array
        Factors of C of their points, one class after another.
    costs : sequence of float
        The values of C, ascending.
    tol : float
        Certified relative gap to reach.
    thresholds : Thresholds

    Returns
    -------
    iterator of PairResult or None
        For each pair of classes in the order of `PairBatch` the result of each C, or None where a single fit is needed.
        None in place of the iterator if no pair suits.
    """
    classes, sizes = len(groups), sorted(map(len, groups))
    upper = np.concatenate([C * weight for C in costs])
    features = gram.X.shape[1]
    if (
        isinstance(gram.X, SparsePoints)
        or not gram.is_radial
        or features > FEW_FEATURES
        or sizes[-1] + sizes[-2] > thresholds.max_points_unsampled
        or not _are_positive_finite(upper)
    ):
        return None
    pairs = PointPairs(gram, list(groups) * len(costs), upper, None, thresholds)
    if pairs.points is None or pairs.points.table is not None:
        return None
    every = list(combinations(range(classes), 2))
    table = pairs.table([(c * classes + i, c * classes + j) for i, j in every for c in range(len(costs))])
    total = table[:, _point_pairs.POINTS_N_FIRST] + table[:, _point_pairs.POINTS_N_SECOND]
    table[:, _point_pairs.MAX_ROWS] = table[:, _point_pairs.MAX_ROWS_BOUNDED] = total
    table[:, _point_pairs.CONTINUES] = np.tile(np.arange(len(costs)) > 0, len(every))
    return _pairs_by_points(pairs, table, -1.0 if classes == 2 else 1.0, GapTols.of(tol, True), MAX_PATH_CALL_S)


def _are_positive_finite(upper: NDArray) -> bool:
    """Whether all bounds are finite and above 0."""
    return float(upper.min()) > 0.0 and float(upper.max()) < np.inf


def _pair_by_search(
    gram: Gram,
    order: NDArray,
    m: int,
    upper: NDArray,
    sign: float,
    tols: GapTols,
    start: NDArray | None,
    thresholds: Thresholds,
) -> PairResult | None:
    """Solve one pair by `pair_from_points`; None if a run is needed."""
    begun = time.monotonic()
    found = pair_from_points(gram, order, m, upper, sign, tols.computed, start, thresholds)
    if found is None:
        return None
    pair = np.array([[m, len(order) - m, 0]])
    return next(_pair_results(pair, found, 0, 1, tols, time.monotonic() - begun))


def _pairs_by_points(
    pairs: PointPairs,
    table: NDArray,
    sign: float,
    tols: GapTols,
    max_call_s: float = MAX_CALL_S,
    keeps_missed: bool = False,
) -> Iterator[PairResult | None]:
    """Solve the pairs of a table from their points; only arrays made here are written to."""
    last = table[-1]
    n_first, n_second = last[_point_pairs.POINTS_N_FIRST], last[_point_pairs.POINTS_N_SECOND]
    size = int(last[_point_pairs.POINTS_AT_ALPHA] + n_first + n_second)
    count, begin = len(table), 0
    certificates, sums = np.empty((count, N_NUMBERS)), np.empty(len(pairs.start))
    certificates.fill(np.nan)
    found = PairArrays(np.zeros(size), np.empty(size), np.empty(size), certificates, np.empty(count), sums)
    while begin < count:
        begun = time.monotonic()
        end = pairs.solve(table, sign, tols.computed, found, begin, max_call_s, MAX_FREE_PATH)
        seconds = (time.monotonic() - begun) / (end - begin)
        yield from _pair_results(table, found, begin, end, tols, seconds, keeps_missed)
        begin = end
        while begin < count and table[begin, _point_pairs.CONTINUES] and _has_many_free(pairs, table[end - 1], found):
            yield None
            begin += 1


def _has_many_free(pairs: PointPairs, row: NDArray, found: PairArrays) -> bool:
    """Whether the solution of a row of the table has more than `MAX_FREE_PATH` free variables."""
    m, n, first, second, *_, start = row.tolist()
    alpha = found.alpha[start : start + m + n]
    upper = np.concatenate([pairs.upper[first : first + m], pairs.upper[second : second + n]])
    return bool(((alpha > 0) & (alpha < upper)).sum() > MAX_FREE_PATH)


def _pair_results(
    table: NDArray,
    found: PairArrays,
    begin: int,
    end: int,
    tols: GapTols,
    seconds: float,
    keeps_missed: bool = False,
) -> Iterator[PairResult | None]:
    """Yield the results of pairs ``begin`` to ``end`` of a table.

    One that misses the tolerances is None, unless ``keeps_missed`` and it has a certificate.
    """
    alpha, point, weights, certificates, entries, sums = found
    batch = PairTable.of(
        table[begin:end], alpha, point, weights, certificates[begin:end], None, seconds, entries[begin:end], sums
    )
    for k, meets in enumerate(batch.meet_tols(*tols)):
        yield PairResult(batch, k, meets) if meets or (keeps_missed and batch.rows[k].is_finite) else None


class PairTable(NamedTuple):
    """Pairs that were solved by one call.

    Attributes
    ----------
    table : int array of shape (n_pairs, …)
        Column 0 and 1: points of the first and the second class. Last column: where the pair's values begin in the
        next three arrays.
    alpha, point, weights : arrays
        Multipliers as found and projected, and weights in the decision function, one pair after another.
    biases : array of shape (n_pairs,)
    rows : list of CertificateRow
    shifts : array of shape (n_pairs,)
        Added to the equality's multiplier of each centred problem to get that of the problem as given.
    seconds : float
        Time per pair.
    entries : array of shape (n_pairs,)
        Kernel entries evaluated.
    sums : array
        K times the weights, or NaN; empty if they are not known.
    """

    table: NDArray
    alpha: NDArray
    point: NDArray
    weights: NDArray
    biases: NDArray
    rows: list[CertificateRow]
    shifts: NDArray
    seconds: float
    entries: NDArray
    sums: NDArray

    @classmethod
    def of(
        cls,
        table: NDArray,
        alpha: NDArray,
        point: NDArray,
        weights: NDArray,
        certificates: NDArray,
        lowered: NDArray | None,
        seconds: float,
        entries: NDArray,
        sums: NDArray = EMPTY,
    ) -> PairTable:
        """Return the batch, with its rows and biases; ``lowered`` is as in `BlockList`."""
        rows, shifts = list(map(CertificateRow._make, certificates.tolist())), np.zeros(len(table))
        if lowered is not None:
            for k, (m, n, *_, start) in enumerate(table.tolist()):
                shifts[k] = weights[start : start + m + n] @ lowered[start : start + m + n]
        # b = −ν, with ν in the middle of its interval, see `Reading.bias_of`.
        biases = np.array([-0.5 * (row.low + row.high) for row in rows]) - shifts
        return cls(table, alpha, point, weights, biases, rows, shifts, seconds, entries, sums)

    def meet_tols(self, tol: float, tol_with_rounding: float) -> list[bool]:
        """Return for each pair whether it meets its tolerances, see `CertificateRow.meets_tols`."""
        return [row.meets_tols(tol, tol_with_rounding) for row in self.rows]

    def span(self, k: int) -> slice:
        """Return the places of pair k's values."""
        m, n, *_, start = self.table[k].tolist()
        return slice(start, start + m + n)


@dataclass(frozen=True, slots=True)
class PairResult:
    """Result of one pair of classes; its arrays have the points of the first class before those of the second.

    It has the attributes of a `Solution` that models read.
    """

    batch: PairTable
    number: int
    meets_tols: bool  # whether it meets the tolerances that it was solved for
    steps: ClassVar[int] = 1
    status: ClassVar[Status] = Status.OPTIMAL

    def _part(self, values: NDArray) -> NDArray:
        """Return this pair's part of an array of the batch."""
        part: NDArray = values[self.batch.span(self.number)]
        return part

    @property
    def alpha(self) -> NDArray:
        """Multipliers, shape (n,)."""
        return self._part(self.batch.alpha)

    @property
    def coefficients(self) -> NDArray:
        """Weights of the points in the decision function, shape (n,)."""
        return self._part(self.batch.weights)

    @property
    def point(self) -> NDArray:
        """The feasible multipliers that are certified, shape (n,)."""
        return self._part(self.batch.point)

    @property
    def sums(self) -> NDArray | None:
        """K times the `coefficients`, shape (n,), or None if it was not kept in float64."""
        if not len(self.batch.sums):
            return None
        sums = self._part(self.batch.sums)
        return None if math.isnan(sums[0]) else sums

    @property
    def bias(self) -> float:
        """Bias b of the decision function."""
        return float(self.batch.biases[self.number])

    @property
    def columns(self) -> float:
        """Kernel entries evaluated, in columns of n entries; each pair of a class has a share of the class's block."""
        return float(self.batch.entries[self.number] / len(self.alpha))

    @property
    def wall_time_s(self) -> float:
        """Seconds: the mean of its list."""
        return self.batch.seconds

    @property
    def relative_gap(self) -> float:
        """Certified relative gap, as the `certificate` has it."""
        return self.batch.rows[self.number].gaps[1]

    @property
    def certificate(self) -> Certificate:
        """Certificate of `point`, as a `Certifier` makes it."""
        return self.batch.rows[self.number].certificate(self.point, float(self.batch.shifts[self.number]), self.bias)


def joined_weights(pairs: Sequence[PairResult]) -> tuple[NDArray, NDArray]:
    """Return the joined `coefficients`, and the biases, of consecutive pairs of one batch."""
    batch, first, last = pairs[0].batch, pairs[0].number, pairs[-1].number
    return batch.weights[batch.span(first).start : batch.span(last).stop], batch.biases[first : last + 1]


class DirectPair(CertifiedResult):
    """Result of a problem that is the dual of one pair of classes.

    Parameters
    ----------
    pair : PairResult
    order : int array of shape (n,)
        The problem's variables in the order of the pair's points.
    """

    certify_s = 0.0

    def __init__(self, pair: PairResult, order: NDArray) -> None:
        self.__dict__.update(pair=pair, order=order, seconds=pair.wall_time_s)

    pair: PairResult
    order: NDArray

    def _in_problem_order(self, values: NDArray) -> NDArray:
        """Return values of the pair's points in the order of the problem's variables."""
        ordered = np.empty(len(self.order))
        ordered[self.order] = values
        return immutable(ordered)

    @cached_property
    def alpha(self) -> NDArray:
        return self._in_problem_order(self.pair.alpha)

    @cached_property
    def certificate(self) -> Certificate:
        certificate = self.pair.certificate
        return replace(certificate, alpha=self._in_problem_order(certificate.alpha))

    @property
    def kernel_columns(self) -> float:
        return self.pair.columns

    def support(self, problem: DualProblem) -> NDArray:
        return support_set(problem, self.alpha)


class PairBatch(Sequence[PairResult | None]):
    """The hinge's dual with an intercept for each pair of classes (0, 1), (0, 2), …, in this order.

    A pair is solved when its item is first read, by any thread. An item is None if a run is needed: the pair has too
    many points, a bound is 0 or not finite (a weight was too small, or too large, to multiply C), or the tolerances
    were not reached. y is +1 for the first class; where there are two classes only, for the second.

    Parameters
    ----------
    gram : Gram
        Of all points; its kernel is positive semidefinite for any points.
    groups : sequence of int arrays
        The points of each class.
    upper : array
        Upper bounds of their multipliers, one class after another.
    tol : float
        Certified relative gap to reach.
    refine : bool, default=True
        Whether the computed gap has to reach `MAX_GAP_UNREFINED` too.
    thresholds : Thresholds
    keeps_missed : bool, default=False
        Whether results from kernel blocks that miss the tolerances are items too, if they have a certificate.

    Attributes
    ----------
    units : list of range
        Numbers of the pairs that are solved one after another: threads that take different units do not wait for each
        other.
    """

    def __init__(
        self,
        gram: Gram,
        groups: Sequence[NDArray],
        upper: NDArray,
        tol: float,
        refine: bool = True,
        thresholds: Thresholds = USUAL,
        keeps_missed: bool = False,
    ) -> None:
        self._thresholds, self._keeps_missed = thresholds, keeps_missed
        tols = GapTols.of(tol, refine)
        solvable, classes = _are_positive_finite(upper), len(groups)
        self._lists: list[Iterator[PairResult | None]] = []
        if classes == 2 and solvable and suits_points(gram, len(upper), False, thresholds):
            counts = [1]
            self._lists = [(solve_pair(gram, groups, upper, tol, refine, None, thresholds) for _ in range(1))]
        elif solvable:
            counts = self._make_lists(gram, groups, upper, tols)
        else:
            counts = [classes * (classes - 1) // 2]
        ends = list(accumulate(counts))
        self.units = [range(end - count, end) for count, end in zip(counts, ends, strict=True)]
        if not self._lists:
            self.units = [range(k, k + 1) for k in range(ends[-1])]
        self._ends = ends
        self._found: list[list[PairResult | None]] = [[] for _ in counts]
        self._locks = [threading.Lock() for _ in counts]

    def _make_lists(self, gram: Gram, groups: Sequence[NDArray], upper: NDArray, tols: GapTols) -> list[int]:
        """Set the iterators that solve the pairs, none if all need runs; return the number of pairs of each."""
        classes, t = len(groups), self._thresholds
        is_small = len(upper) <= t.max_points_one_matrix
        if classes > 2 and is_small and suits_one_table(gram, sum(sorted(map(len, groups))[:2]), t):
            every, pairs = list(combinations(range(classes), 2)), PointPairs(gram, groups, upper, None, t)
            self._lists = [_pairs_by_points(pairs, pairs.table(every), 1.0, tols)]
            return [len(every)]
        sizes = np.array([len(group) for group in groups])
        # Two classes that are solved from their points do not come here.
        sign, max_points, max_updates = (1.0, t.max_pair_shared, t.max_dense_updates)
        if classes == 2:
            sign, max_points = -1.0, t.max_pair_dense
            has_expensive_rows = gram.is_radial and not gram.has_few_features
            if has_expensive_rows and float(upper.max()) <= t.max_bound_expensive:
                max_points = t.max_pair_dense_expensive
                max_updates = t.max_dense_updates_per_point * len(upper)
        elif gram.is_radial and not gram.came_sparse and gram.has_few_features:
            max_points = t.max_pair_dense
        elif gram.is_radial and not gram.came_sparse:
            max_points, max_updates = t.max_pair_shared_wide, t.max_dense_updates_wide
        # For each class: the points of its pairs with later classes, and how each of these pairs is solved.
        totals = [sizes[i] + sizes[i + 1 :] for i in range(classes - 1)]
        by_points = [np.array([classes > 2 and suits_points(gram, n, True, t) for n in row.tolist()]) for row in totals]
        by_blocks = [(row <= max_points) & ~other for row, other in zip(totals, by_points, strict=True)]
        counts = list(range(classes - 1, 0, -1))
        most = max(int(row.max()) for row in totals)
        rank = 0 if gram.kernel == "rbf" else rank_of(gram, most, t)
        if rank:
            max_updates = updates_like_steps(rank, most, most)
        how = _BlockSearch(gram, groups, upper, sign, tols, max_updates, rank, self._keeps_missed, t)
        is_one_matrix = is_small or (classes == 2 and by_blocks[0].all() and gram.makes_squares_in_parts)
        if is_one_matrix and not by_points[0].any():
            part = dense_list(gram, groups, sizes, t)
            self._lists = [_pairs_by_blocks(part, how)]
            return [sum(counts)]
        if not any(pairs.any() for pairs in (*by_points, *by_blocks)):
            return [sum(counts)]
        blocks = SharedBlocks(gram, groups, sizes, max_points, t) if any(pairs.any() for pairs in by_blocks) else None
        points = PointPairs(gram, groups, upper, None, t) if any(pairs.any() for pairs in by_points) else None
        bounds = np.split(upper, sizes.cumsum()[:-1])

        def from_points(i: int, others: list[int]) -> Iterator[PairResult | None]:
            if points is not None and others and points.serves(i, others):
                return _pairs_by_points(points, points.table([(i, j) for j in others]), sign, tols)
            given = ((np.concatenate([groups[i], groups[j]]), np.concatenate([bounds[i], bounds[j]])) for j in others)
            return (
                _pair_by_search(gram, order, len(groups[i]), limits, sign, tols, None, t) for order, limits in given
            )

        def of_class(i: int) -> Iterator[PairResult | None]:
            searched = from_points(i, (i + 1 + np.flatnonzero(by_points[i])).tolist())
            if by_points[i].all():
                return searched
            parts = blocks.of(i, i + 1 + np.flatnonzero(by_blocks[i])) if blocks else ()
            solved = (pair for part in parts for pair in _pairs_by_blocks(part, how))
            ways = zip(by_blocks[i].tolist(), by_points[i].tolist(), strict=True)
            return (next(solved) if block else next(searched) if point else None for block, point in ways)

        self._lists = [of_class(i) for i in range(classes - 1)]
        return counts

    def all_pairs(self) -> list[PairResult] | None:
        """Return all pairs, in order; None if any needs a run."""
        for found, pairs in zip(self._found, self._lists, strict=False):
            found.extend(pairs)
        solved = [pair for found in self._found for pair in found if pair is not None]
        return solved if len(solved) == len(self) else None

    def __len__(self) -> int:
        return self._ends[-1]

    def __getitem__(self, k: Any) -> Any:
        if not 0 <= k < len(self):
            raise IndexError(k)
        if not self._lists:
            return None
        unit = bisect_right(self._ends, k)
        found, place = self._found[unit], k - self.units[unit].start
        with self._locks[unit]:
            while len(found) <= place:
                found.append(next(self._lists[unit]))
        return found[place]


class _BlockSearch(NamedTuple):
    """How pairs are solved from their kernel values.

    Attributes
    ----------
    gram : Gram
    groups : sequence of int arrays
        The points of each class.
    upper : array
        The upper bounds of their multipliers, one class after another.
    sign : float
        Label of the first class of a pair.
    tols : GapTols
    max_updates : int
        Pair updates of a pair of many points, or of any pair if there is a ``rank``.
    rank : int
        Columns of the kernel matrix if interior-point steps follow where these updates do not suffice, else 0.
    keeps_missed : bool
        As of `PairBatch`.
    thresholds : Thresholds
    """

    gram: Gram
    groups: Sequence[NDArray]
    upper: NDArray
    sign: float
    tols: GapTols
    max_updates: int
    rank: int
    keeps_missed: bool
    thresholds: Thresholds

    def improves(self, pair: NDArray, alpha: NDArray, certificates: NDArray) -> bool:
        """Whether a pair's α, which is changed in place, may be better than before."""
        if _stretch(pair, self.upper, alpha, certificates, self.tols):
            return True
        # If missed results are kept, interior-point steps follow whose weights have a bound of their own.
        if not self.rank or self.keeps_missed or CertificateRow._make(certificates.tolist()).meets_tols(*self.tols):
            return False
        m, n, *_, first, second, start = pair.tolist()
        J = np.r_[first : first + m, second : second + n]
        signs = np.repeat([self.sign, -self.sign], [m, n])
        problem = hinge(self.gram.subset(np.concatenate(self.groups)[J]), signs, self.upper[J]).centred()
        fits = suits_low_rank(problem, self.thresholds)
        found = interior_minimiser(problem, self.thresholds) if fits else None
        if found is not None:
            alpha[start : start + m + n] = found[0]
        return found is not None


def _pairs_by_blocks(part: BlockList, how: _BlockSearch) -> Iterator[PairResult | None]:
    """Solve the pairs of a list from their kernel values; only arrays made here are written to."""
    within, between, listed, entries, lowered, has_digits = part
    if has_digits is not None and not has_digits.all():
        # Rounding may make the matrix of such a pair indefinite, and pair updates then go on to the bounds.
        (solved,) = has_digits.nonzero()
        found: Iterator[PairResult | None] = iter(())
        if len(solved):
            own = part._replace(listed=listed[solved], entries=entries[solved], has_digits=None)
            found = _pairs_by_blocks(own, how)
        yield from (next(found) if has else None for has in has_digits.tolist())
        return
    last, upper, sign, growth = listed[-1], how.upper, how.sign, how.gram.growth
    size = int(last[AT_ALPHA] + last[N_FIRST] + last[N_SECOND])
    alpha, point, weights, begin = np.empty(size), np.empty(size), np.empty(size), 0
    search = partial(solve_dense_pairs, max_n_unlimited=0) if how.rank else solve_dense_pairs
    while begin < len(listed):
        begun = time.monotonic()
        end = search(within, between, listed, upper, sign, alpha, begin, KKT_TOL_ROUND_OFF, how.max_updates, MAX_CALL_S)
        which = listed[begin:end]
        certificates = np.empty((end - begin, N_NUMBERS))
        certify_listed(within, between, which, upper, sign, alpha, point, weights, certificates, growth)
        if improved := [k for k in range(end - begin) if how.improves(which[k], alpha, certificates[k])]:
            again = np.empty((len(improved), N_NUMBERS))
            certify_listed(within, between, which[improved], upper, sign, alpha, point, weights, again, growth)
            certificates[improved] = again
        seconds = (time.monotonic() - begun) / (end - begin)
        batch = PairTable.of(which, alpha, point, weights, certificates, lowered, seconds, entries[begin:end])
        for k, meets in enumerate(batch.meet_tols(*how.tols)):
            yield PairResult(batch, k, meets) if meets or (how.keeps_missed and batch.rows[k].is_finite) else None
        begin = end


def _stretch(pair: NDArray, upper: NDArray, alpha: NDArray, certificates: NDArray, tols: GapTols) -> bool:
    """Multiply a pair's α, in place, by a number next to 1 that takes all margins past 1; whether that was done.

    See `whole._stretched`. It leaves a relative gap of 2 (factor − 1), and is done if that is less, the
    gap misses its tolerance, and no variable is at its bound.
    """
    row = CertificateRow._make(certificates.tolist())
    gap, size = row.objective - row.lower_bound, row.size
    if not (row.is_finite and gap > tols.computed * size):
        return False
    m, n, *_, first, second, start = pair.tolist()
    bounds, own = np.concatenate([upper[first : first + m], upper[second : second + n]]), alpha[start : start + m + n]
    free = int(np.count_nonzero(own)) or 1
    more = ROUND_OFF_SPREAD * (gap + row.rounding) / (free * float(bounds.min()))
    if more > MAX_MARGIN_SHORTFALL or 2.0 * more * size >= gap or (own >= bounds).any():
        return False
    own *= 1.0 + more
    return True
