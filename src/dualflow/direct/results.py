"""Results of direct solves: batches of pairs as arrays, with an object for a pair when it is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import MIN_PART_OF_TERMS, gaps
from ..core.certificate import Certificate
from ..core.problem import DualProblem
from ..core.psd import SpectrumEvidence
from ..core.reading import Reading
from ..core.runtime.arrays import immutable
from ..core.runtime.threads import cached_property
from ..core.solution import DirectResult, Status
from ..refinement.refine import support_set
from .pair_points import EMPTY
from .simplex import SimplexResult
from .whole import WholeResult

__all__ = [
    "Batch",
    "CertificateRow",
    "CertifiedResult",
    "DirectPair",
    "DirectSimplex",
    "DirectWhole",
    "PairResult",
    "joined_weights",
]

#: The reason that an error for a negative gap gives.
NEGATIVE_GAP_REASON = "X changed while the pair was solved"


class CertificateRow(NamedTuple):
    """The numbers of one pair's certificate, in the order of `core._pair_bound.certify_listed`; NaN if α is infeasible.

    Attributes
    ----------
    objective, lower_bound, infeasibility, projection_distance, quadratic, rounding
        As in `Certificate`.
    low, high : float
        Ends of the multiplier interval.
    terms : float
        Size of the objective's terms.
    """

    objective: float
    lower_bound: float
    infeasibility: float
    projection_distance: float
    low: float
    high: float
    quadratic: float
    terms: float
    rounding: float

    @property
    def vanishes(self) -> bool:
        """Whether objective and bound are 0 up to float64's rounding."""
        return max(abs(self.objective), abs(self.lower_bound)) <= MIN_PART_OF_TERMS * self.terms

    def meets_tols(self, tol: float, tol_with_rounding: float) -> bool:
        """Whether the relative gap is at most ``tol``, and at most ``tol_with_rounding`` with the bound on rounding."""
        if not all(map(math.isfinite, self)):
            return False
        gap, size = self.objective - self.lower_bound, max(abs(self.objective), abs(self.lower_bound))
        return (gap <= tol * size and gap + self.rounding <= tol_with_rounding * size) or self.vanishes


class Batch(NamedTuple):
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
    shift : float
        Added to the equality's multiplier of the centred problem to get that of the problem as given.
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
    shift: float
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
        figures: NDArray,
        shift: float,
        seconds: float,
        entries: NDArray,
        sums: NDArray = EMPTY,
    ) -> Batch:
        """Return the batch, with rows and biases from the certificates' figures."""
        rows = list(map(CertificateRow._make, figures.tolist()))
        biases = np.array([Reading.bias_of((row.low, row.high)) - shift for row in rows])
        return cls(table, alpha, point, weights, biases, rows, shift, seconds, entries, sums)

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

    batch: Batch
    number: int
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
    def certificate(self) -> Certificate:
        """Certificate of `alpha`, as a `Certifier` makes it."""
        row, shift = self.batch.rows[self.number], self.batch.shift
        gap, relative_gap = gaps(row.objective, row.lower_bound, row.rounding, NEGATIVE_GAP_REASON)
        low, high = row.low + shift, row.high + shift
        return Certificate(
            alpha=immutable(self.point),
            objective=row.objective,
            lower_bound=row.lower_bound,
            gap=gap,
            relative_gap=0.0 if row.vanishes else relative_gap,
            infeasibility=row.infeasibility,
            projection_distance=row.projection_distance,
            multiplier=0.5 * (low + high),
            multiplier_interval=(low, high),
            bias=self.bias,
            bias_interval=(-high, -low),
            radius=None,
            quadratic=row.quadratic,
            psd=SpectrumEvidence("by kernel"),
            rounding=0.0 if row.vanishes else row.rounding,
        )


def joined_weights(pairs: Sequence[PairResult]) -> tuple[NDArray, NDArray]:
    """Return the joined `coefficients`, and the biases, of consecutive pairs of one batch."""
    batch, first, last = pairs[0].batch, pairs[0].number, pairs[-1].number
    return batch.weights[batch.span(first).start : batch.span(last).stop], batch.biases[first : last + 1]


class CertifiedResult(DirectResult):
    """A result with a certificate that was made from scratch by the functions of `core`: the driver makes no other.

    Its attributes are computed when they are first read.

    Attributes
    ----------
    certificate : Certificate
    seconds, certify_s : float
        Seconds spent on the search, and on certificates.
    """

    certificate: Certificate
    seconds: float
    certify_s: float

    def support(self, problem: DualProblem) -> NDArray:
        """Return the support set, indices of variables."""
        raise NotImplementedError


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


class DirectSimplex(CertifiedResult):
    """Result of a problem on the simplex.

    Parameters
    ----------
    found : SimplexResult
    seconds : float
        Seconds spent in total.
    """

    def __init__(self, found: SimplexResult, seconds: float) -> None:
        self.__dict__.update(
            alpha=immutable(found.alpha),
            certificate=found.certificate,
            kernel_columns=found.entries / len(found.alpha),
            seconds=seconds - found.certify_s,
            certify_s=found.certify_s,
            found=found,
        )

    found: SimplexResult

    def support(self, problem: DualProblem) -> NDArray:
        return self.found.support


class DirectWhole(CertifiedResult):
    """Result of a problem of few variables, over its whole kernel matrix.

    Parameters
    ----------
    found : WholeResult
    seconds : float
        Seconds spent in total.
    """

    def __init__(self, found: WholeResult, seconds: float) -> None:
        self.__dict__.update(
            alpha=immutable(found.alpha),
            certificate=found.certificate,
            kernel_columns=found.entries / len(found.alpha),
            seconds=seconds - found.certify_s,
            certify_s=found.certify_s,
            found=found,
        )

    found: WholeResult

    def support(self, problem: DualProblem) -> NDArray:
        return self.found.support()
