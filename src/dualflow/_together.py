"""The small ones among the pairs of classes of one fit: solved over blocks of kernel values that they share.

A run of its own for each (workspace, twin, context, record) takes longer than solving it, and so do Python's objects:
lists of pairs are solved by one compiled call, certified by another, and become objects when they are looked at. What
comes of it is what `working-set` brings such a problem to, its end in float64; and what the certificate does not call
sharp is not handed out, but left to a run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .core._bound import certify_listed
from .core.arena import borrowed
from .core.bounds import gaps
from .core.certificate import VANISHES, Certificate
from .core.kernels import Gram
from .core.psd import SpectrumEvidence
from .core.solution import SHARP, Status
from .core.values import immutable
from .working_set.descent import END_KKT
from .working_set.whole import solve_small_pairs

__all__ = ["Settled", "settled_pairs"]

#: Points of a pair up to which its whole matrix is soon made, and solved in float64 without a refinement.
SMALL = 640
#: Entries of the blocks within classes that are kept for all their pairs: 128 MB; and of a strip between classes: 8 MB.
KEPT, STRIP = 1 << 24, 1 << 20
#: Mean squared distance in feature space, as a part of the largest squared length, from which digits are left.
FLAT = 1e-6
#: Seconds after which a compiled call begins no other pair: Ctrl-C and the clock are honoured between calls.
AT_ONCE = 0.05


class _Batch(NamedTuple):
    """Pairs that were solved by one call: their multipliers one after another, as found and projected, the figures of
    `certify_listed`, what multipliers of the problem as given are more, and seconds and entries a pair."""

    listed: NDArray
    sign: float
    alpha: NDArray
    point: NDArray
    figures: NDArray
    shift: float
    seconds: float
    entries: NDArray

    def are_sharp(self, tol: float) -> NDArray:
        """Which are certified to a relative gap of ``tol``, or sharp if that is less."""
        objective, bound = self.figures[:, 0], self.figures[:, 1]
        size = np.maximum(np.abs(objective), np.abs(bound))
        with np.errstate(invalid="ignore"):
            sharp = np.maximum(objective - bound, 0.0) <= min(SHARP, tol) * size
            sharp |= size <= VANISHES * self.figures[:, 7]
        return np.asarray(sharp & np.isfinite(self.figures).all(axis=1))


@dataclass(frozen=True, slots=True)
class Settled:
    """What a pair of classes came to; points of the first class come first, and then those of the second."""

    batch: _Batch
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
        weights, m = self.batch.sign * self._part(self.batch.point), int(self.batch.listed[self.number, 0])
        np.negative(weights[m:], out=weights[m:])
        return weights

    @property
    def bias(self) -> float:
        """b of the decision function."""
        low, high = self._ends
        return -0.5 * (low + high)

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
        objective, bound, infeasibility, distance, _, _, quadratic, terms = self.batch.figures[self.number].tolist()
        gap, relative_gap = gaps(objective, bound)
        if max(abs(objective), abs(bound)) <= VANISHES * terms:
            relative_gap = 0.0
        low, high = self._ends
        return Certificate(
            alpha=immutable(self._part(self.batch.point)),
            objective=objective,
            lower_bound=bound,
            gap=gap,
            relative_gap=relative_gap,
            infeasibility=infeasibility,
            projection_distance=distance,
            multiplier=0.5 * (low + high),
            multiplier_interval=(low, high),
            bias=self.bias,
            bias_interval=(-high, -low),
            radius=None,
            quadratic=quadratic,
            psd=SpectrumEvidence("by kernel"),
        )

    @property
    def _ends(self) -> tuple[float, float]:
        low, high = self.batch.figures[self.number, 4:6].tolist()
        return low + self.batch.shift, high + self.batch.shift


def settled_pairs(
    gram: Gram, groups: Sequence[NDArray], upper: Sequence[NDArray], tol: float
) -> Iterator[Settled | None]:
    """The hinge's dual with an intercept for each pair of classes (0, 1), (0, 2), …, in this order.

    Parameters
    ----------
    gram : Gram
        Of all points, its kernel positive semidefinite whatever they are.
    groups : sequence of int arrays
        The points of each class.
    upper : sequence of arrays
        The bounds of their multipliers.
    tol : float
        Certified relative gap that is wanted.

    Yields
    ------
    Settled or None
        y is +1 for the first class, but for the second where there are two only. None where a run of its own is
        called for: there are too many points, a bound is 0 or not finite (a weight was too small, or too large, to
        multiply C), or the end could not be reached.
    """
    sizes, bounds = np.array([len(group) for group in groups]), np.concatenate(upper)
    usual = bool(((bounds > 0) & (bounds < np.inf)).all())
    blocks = _Blocks(gram, groups, sizes) if usual and sizes.min() + np.partition(sizes, 1)[1] <= SMALL else None
    sign = -1.0 if len(groups) == 2 else 1.0
    for i in range(len(groups) - 1):
        fits = sizes[i] + sizes[i + 1 :] <= SMALL
        if blocks is None or not fits.any():
            yield from (None for _ in fits)
            continue
        settled = (pair for part in blocks.of(i, i + 1 + np.flatnonzero(fits)) for pair in _solved(part, bounds, sign, tol))
        for fit in fits.tolist():
            yield next(settled) if fit else None


class _Listed(NamedTuple):
    """Pairs and their kernel values, see `core._bound.check_listed`; what the values' centre takes, and which have
    digits."""

    within: NDArray
    between: NDArray
    listed: NDArray
    entries: NDArray
    centred: Gram | None
    has_digits: NDArray | None


def _solved(part: _Listed, upper: NDArray, sign: float, tol: float) -> Iterator[Settled | None]:
    """The pairs of a list. It writes to nothing but what it makes."""
    within, between, listed, entries, centred, has_digits = part
    size = int(listed[-1, 10] + listed[-1, :2].sum())
    alpha, point, begin = np.empty(size), np.empty(size), 0
    while begin < len(listed):
        begun = time.monotonic()
        end = solve_small_pairs(within, between, listed, upper, sign, alpha, begin, END_KKT, AT_ONCE)
        which = listed[begin:end]
        figures = np.empty((end - begin, 8))
        certify_listed(within, between, which, upper, sign, alpha, point, figures)
        seconds = (time.monotonic() - begun) / (end - begin)
        batch = _Batch(which, sign, alpha, point, figures, 0.0, seconds, entries[begin:end])
        if centred is not None:
            weights = Settled(batch, 0).coefficients
            batch = batch._replace(shift=centred.constant(weights))
        sharp = batch.are_sharp(tol)
        if has_digits is not None:
            sharp &= has_digits[begin:end]
        for k, fine in enumerate(sharp.tolist()):
            yield Settled(batch, k) if fine else None
        begin = end


class _Blocks:
    """Kernel values of pairs of classes; those within a class are the same in all its pairs."""

    def __init__(self, gram: Gram, groups: Sequence[NDArray], sizes: NDArray) -> None:
        self.gram, self.groups, self.sizes = gram, groups, sizes
        self.bounds_at = np.cumsum(sizes) - sizes
        # Of classes that are in a small pair at all, in the order of classes.
        least = np.sort(sizes)[:2]
        partner = np.where(sizes == least[0], least[1], least[0])
        member = sizes + partner <= SMALL
        squares = np.where(member, sizes * sizes, 0)
        self.within_at = np.cumsum(squares) - squares
        self.is_kept = member & (self.within_at + squares <= KEPT) & (not gram.is_translatable)
        self.points_at = np.cumsum(np.where(self.is_kept, sizes, 0)) - np.where(self.is_kept, sizes, 0)
        self.order = np.concatenate([groups[k] for k in np.flatnonzero(self.is_kept)] or [np.empty(0, dtype=np.intp)])
        self.points = gram.radial_points(float, self.order) if gram.is_radial else None
        self.within = borrowed((int(squares[self.is_kept].sum()),), float)
        self.has_within = np.zeros(len(groups), dtype=bool)

    def of(self, i: int, others: NDArray) -> Iterator[_Listed]:
        """Those of class i with others, ascending, a part at a time."""
        start = 0
        while start < len(others):
            stop = start + 1
            j = others[start]
            if not (self.is_kept[i] and self.is_kept[j]):
                yield self.alone(i, int(j))
            else:
                width = self.sizes[j]
                while stop < len(others) and self.is_kept[others[stop]]:
                    k = others[stop]
                    width += self.sizes[k]
                    if self.points_at[k] != self.points_at[j] + width - self.sizes[k] or width * self.sizes[i] > STRIP:
                        break
                    stop += 1
                yield self.strip(i, others[start:stop])
            start = stop

    def strip(self, i: int, others: NDArray) -> _Listed:
        """Class i with classes whose points follow one another."""
        for k in (i, *others.tolist()):
            if not self.has_within[k]:
                m, at = int(self.sizes[k]), int(self.within_at[k])
                self.values(self.slice_of(k), self.slice_of(k), self.within[at : at + m * m].reshape(m, m))
                self.has_within[k] = True
        m, n = np.full(len(others), self.sizes[i]), self.sizes[others]
        start = int(self.points_at[others[0]])
        columns = slice(start, start + int(n.sum()))
        between = borrowed((int(m[0]), int(n.sum())), float)
        self.values(self.slice_of(i), columns, between)
        alpha_at = np.cumsum(m + n) - m - n
        at = self.within_at
        listed = self.listed(
            m, n, at[i], self.points_at[others] - start, at[others], m, between.shape[1], n, i, others, alpha_at
        )
        entries = m * n + (m * m + n * n) / (len(self.groups) - 1)
        digits = None
        if not self.gram.is_radial:
            ends = np.cumsum(n).tolist()
            digits = np.array([
                _has_digits(self.block(i), between[:, end - size : end], self.block(int(j)))
                for j, size, end in zip(others, n.tolist(), ends, strict=True)
            ])
        return _Listed(_locked(self.within), _locked(between.ravel()), listed, entries, None, digits)

    def alone(self, i: int, j: int) -> _Listed:
        """Classes i and j, by values of their own; about the mean of the pair, which no other has, where that may be."""
        m, n = int(self.sizes[i]), int(self.sizes[j])
        own = self.gram.subset(np.concatenate([self.groups[i], self.groups[j]])).centred()
        K = np.ascontiguousarray(own.block(np.arange(m + n), np.arange(m + n)))
        digits = None if own.is_radial else np.array([_has_digits(K[:m, :m], K[:m, m:], K[m:, m:])])
        one, wide = np.ones(1, dtype=np.int64), m + n
        listed = self.listed(one * m, one * n, 0, m, m * (wide + 1), wide, wide, wide, i, one * j, 0)
        values = _locked(K.ravel())
        return _Listed(values, values, listed, one * float(wide * wide), own if own.center is not None else None, digits)

    def listed(self, m: NDArray, n: NDArray, *numbers: NDArray | int) -> NDArray:
        """A list of pairs; the classes' numbers, last but one and two, become where their bounds begin."""
        *places, i, others, alpha_at = numbers
        table = np.empty((len(m), 11), dtype=np.int64)
        for k, column in enumerate((m, n, *places, self.bounds_at[i], self.bounds_at[others], alpha_at)):
            table[:, k] = column
        return table

    def slice_of(self, k: int) -> slice:
        """Which of the points kept are class k's."""
        return slice(int(self.points_at[k]), int(self.points_at[k] + self.sizes[k]))

    def block(self, k: int) -> NDArray:
        """Those within class k."""
        m, at = int(self.sizes[k]), int(self.within_at[k])
        return self.within[at : at + m * m].reshape(m, m)

    def values(self, rows: slice, columns: slice, out: NDArray) -> None:
        """Kernel values between points kept."""
        if self.points is not None:
            self.points.take(rows).kernel(self.points.take(columns), out)
        else:
            out[:] = self.gram.block(self.order[rows], self.order[columns])


def _locked(values: NDArray) -> NDArray:
    """The same, for reading only: the certificate is made from what the solver was given."""
    view = values.view()
    view.flags.writeable = False
    return view


def _has_digits(first: NDArray, between: NDArray, second: NDArray) -> bool:
    """Whether kernel values differ by enough of their size that two ways to compute them agree in the digits that count:
    if not, a run says so, for its certificate is of values of its own."""
    diag = np.concatenate([first.diagonal(), second.diagonal()])
    total = float(first.sum() + 2 * between.sum() + second.sum())
    return float(diag.mean()) - total / len(diag) ** 2 > FLAT * float(diag.max())
