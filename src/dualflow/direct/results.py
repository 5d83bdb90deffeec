"""What pairs of classes that one compiled call has solved came to, each as an object when it is looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..core.bounds import VANISHES, gaps
from ..core.certificate import Certificate
from ..core.problem import DualProblem
from ..core.psd import SpectrumEvidence
from ..core.reading import Reading
from ..core.runtime.arrays import immutable
from ..core.runtime.threads import cached_property
from ..core.solution import DirectResult, Status
from ..refinement.refine import support_set
from .pair_points import NOT_ASKED
from .simplex import FoundSimplex

__all__ = ["Batch", "CertificateRow", "CertifiedResult", "DirectPair", "DirectSimplex", "PairResult", "together"]

#: What a negative gap of a pair says.
CHANGED = "X changed while the pair was solved"


class CertificateRow(NamedTuple):
    """The figures of one pair's certificate, as `core._pair_bound.certify_listed` lays them out; NaN where the α is not
    feasible.

    Attributes
    ----------
    objective, lower_bound, infeasibility, projection_distance, quadratic, rounding
        As in `Certificate`.
    low, high : float
        Ends of the interval of multipliers.
    terms : float
        How large the terms of the objective may be.
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
        """Whether objective and bound are 0 as far as float64 tells."""
        return max(abs(self.objective), abs(self.lower_bound)) <= VANISHES * self.terms

    def is_sharp(self, tol: float, enough: float) -> bool:
        """Whether the relative gap is ``tol``, and with what float64 may have rounded away of it ``enough``."""
        if not all(map(math.isfinite, self)):
            return False
        gap, size = self.objective - self.lower_bound, max(abs(self.objective), abs(self.lower_bound))
        return (gap <= tol * size and gap + self.rounding <= enough * size) or self.vanishes


class Batch(NamedTuple):
    """Pairs that were solved by one call.

    Attributes
    ----------
    listed : int array of shape (n_pairs, …)
        Points of the first and the second class first, and where the pair's begin in the next three last.
    alpha, point, weights : arrays
        Multipliers as found and projected, and weights in the decision function, one pair after another.
    biases : array of shape (n_pairs,)
    rows : list of CertificateRow
    shift : float
        What multipliers of the problem as given are more.
    seconds : float
        For each pair.
    entries : array of shape (n_pairs,)
        Kernel entries evaluated.
    sums : array
        K times the weights, or NaN; empty where they are not known.
    """

    listed: NDArray
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
        listed: NDArray,
        alpha: NDArray,
        point: NDArray,
        weights: NDArray,
        figures: NDArray,
        shift: float,
        seconds: float,
        entries: NDArray,
        sums: NDArray = NOT_ASKED,
    ) -> Batch:
        """With biases, by the figures."""
        rows = list(map(CertificateRow._make, figures.tolist()))
        biases = np.array([Reading.bias_of((row.low, row.high)) - shift for row in rows])
        return cls(listed, alpha, point, weights, biases, rows, shift, seconds, entries, sums)

    def are_sharp(self, tol: float, enough: float) -> list[bool]:
        """Which have a relative gap of ``tol``, and with what float64 may have rounded away of it one of ``enough``."""
        return [row.is_sharp(tol, enough) for row in self.rows]


@dataclass(frozen=True, slots=True)
class PairResult:
    """What a pair of classes came to; points of the first class come first, and then those of the second."""

    batch: Batch
    number: int
    #: As of a solution.
    steps: ClassVar[int] = 1
    status: ClassVar[Status] = Status.OPTIMAL

    def _part(self, values: NDArray) -> NDArray:
        m, n, *_, start = self.batch.listed[self.number].tolist()
        part: NDArray = values[start : start + m + n]
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
        """K times the `coefficients`, shape (n,), where it was made in float64 and kept."""
        if not len(self.batch.sums):
            return None
        sums = self._part(self.batch.sums)
        return None if math.isnan(sums[0]) else sums

    @property
    def bias(self) -> float:
        """b of the decision function."""
        return float(self.batch.biases[self.number])

    @property
    def columns(self) -> float:
        """Kernel entries evaluated for it, in columns of n; blocks within a class are shared out among its pairs."""
        return float(self.batch.entries[self.number] / len(self.alpha))

    @property
    def wall_time_s(self) -> float:
        """Its share in its list's."""
        return self.batch.seconds

    @property
    def certificate(self) -> Certificate:
        """Of `alpha`, as a `Certifier` makes it."""
        row, shift = self.batch.rows[self.number], self.batch.shift
        gap, relative_gap = gaps(row.objective, row.lower_bound, row.rounding, CHANGED)
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


def together(pairs: Sequence[PairResult]) -> tuple[NDArray, NDArray]:
    """Of pairs of one batch that follow one another: their `coefficients` one after another, and their biases."""
    batch, first, last = pairs[0].batch, pairs[0].number, pairs[-1].number
    m, n, *_, start = batch.listed[last].tolist()
    return batch.weights[int(batch.listed[first, -1]) : start + m + n], batch.biases[first : last + 1]


class CertifiedResult(DirectResult):
    """A result whose certificate was made on the way, from scratch and by the functions of `core`: the driver makes no
    other. Its parts are made when they are first looked at.

    Attributes
    ----------
    certificate : Certificate
    seconds, certify_s : float
        Spent on the search, and on certificates.
    """

    certificate: Certificate
    seconds: float
    certify_s: float

    def support(self, problem: DualProblem) -> NDArray:
        """The support set, indices of variables."""
        raise NotImplementedError


class DirectPair(CertifiedResult):
    """Two classes.

    Parameters
    ----------
    pair : PairResult
    order : int array of shape (n,)
        The variables of the problem in the order of the pair's.
    """

    certify_s = 0.0

    def __init__(self, pair: PairResult, order: NDArray) -> None:
        self.__dict__.update(pair=pair, order=order, seconds=pair.wall_time_s)

    pair: PairResult
    order: NDArray

    def _in_place(self, values: NDArray) -> NDArray:
        found = np.empty(len(self.order))
        found[self.order] = values
        return immutable(found)

    @cached_property
    def alpha(self) -> NDArray:
        return self._in_place(self.pair.alpha)

    @cached_property
    def certificate(self) -> Certificate:
        found = self.pair.certificate
        return replace(found, alpha=self._in_place(found.alpha))

    @property
    def kernel_columns(self) -> float:
        return self.pair.columns

    def support(self, problem: DualProblem) -> NDArray:
        return support_set(problem, self.alpha)


class DirectSimplex(CertifiedResult):
    """A problem on the simplex.

    Parameters
    ----------
    found : FoundSimplex
    seconds : float
        Spent on all of it.
    """

    def __init__(self, found: FoundSimplex, seconds: float) -> None:
        self.__dict__.update(
            alpha=immutable(found.alpha),
            certificate=found.certificate,
            kernel_columns=found.entries / len(found.alpha),
            seconds=seconds - found.certify_s,
            certify_s=found.certify_s,
            found=found,
        )

    found: FoundSimplex

    def support(self, problem: DualProblem) -> NDArray:
        return self.found.support
