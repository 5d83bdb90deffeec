"""The small ones among the pairs of classes of one fit: solved over blocks of kernel values that they share.

A run of its own for each (workspace, twin, context, record) takes longer than solving it. What comes of it is what
`working-set` brings such a problem to, its end in float64; and what the certificate does not call sharp is not handed
out, but left to a run.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .core.arena import borrowed
from .core.certificate import Certificate, Certifier
from .core.kernels import Gram
from .core.problem import DualProblem, Kind
from .core.psd import SpectrumEvidence
from .core.radial import RadialPoints
from .core.solution import SHARP, Status
from .problems.classification import HINGE
from .working_set.descent import END_KKT
from .working_set.whole import solve_pair

__all__ = ["Settled", "SettledPairs"]

#: Points of a pair up to which its whole matrix is soon made, and solved in float64 without a refinement.
SMALL = 640
#: Entries of the blocks within a class that are kept for its other pairs: 128 MB.
KEPT = 1 << 24
#: Mean squared distance in feature space, as a part of the largest squared length, from which digits are left.
FLAT = 1e-6


@dataclass(frozen=True)
class Settled:
    """What a pair of classes came to.

    Attributes
    ----------
    alpha : array of shape (n,)
        Of the first class's points, and then of the second's.
    certificate : Certificate
        Of it, in the same order.
    coefficients : array of shape (n,)
        Weights of the points in the decision function, in the same order.
    columns : float
        Kernel entries evaluated for it, in columns of n; blocks within a class are shared out among its pairs.
    wall_time_s : float
    """

    alpha: NDArray
    certificate: Certificate
    coefficients: NDArray
    columns: float
    wall_time_s: float
    #: As of a solution.
    steps: ClassVar[int] = 1
    status: ClassVar[Status] = Status.OPTIMAL

    @property
    def bias(self) -> float:
        """b of the decision function."""
        return self.certificate.bias


class SettledPairs(Sequence[Settled | None]):
    """The hinge's dual with an intercept for each pair of classes (0, 1), (0, 2), …, in this order; settled when it is
    asked for, by any thread.

    An item is None where a run of its own is called for: there are too many points, a bound is 0 or not finite (a
    weight was too small, or too large, to multiply C), or the end could not be reached. y is +1 for the first class,
    but for the second where there are two only.

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
    """

    def __init__(self, gram: Gram, groups: Sequence[NDArray], upper: Sequence[NDArray], tol: float) -> None:
        self.gram, self.groups, self.upper, self.tol = gram, groups, upper, tol
        self._pairs = list(combinations(range(len(groups)), 2))
        self._evidence, self._blocks = SpectrumEvidence("by kernel"), _Blocks(gram, groups)
        self._usual = all(bool(((bounds > 0) & (bounds < np.inf)).all()) for bounds in upper)

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, k: Any) -> Any:
        i, j = self._pairs[k]
        m = len(self.groups[i])
        n = m + len(self.groups[j])
        if n > SMALL or not self._usual:
            return None
        begun = time.monotonic()
        own, K = self._blocks.of(i, j)
        if not own.is_radial and K.has_lost_digits():
            return None
        signs = np.ones(n)
        signs[slice(None, m) if len(self.groups) == 2 else slice(m, None)] = -1.0
        bounds = np.concatenate([self.upper[i], self.upper[j]])
        room = borrowed((SMALL * SMALL,), float)[: n * n].reshape(n, n)
        alpha = solve_pair(signs, bounds, *K, room, END_KKT)
        problem = _problem(own, signs, bounds)
        certificate = _OfBlock(problem, K, self._evidence, own.center is not self.gram.center).certify(alpha)
        if not certificate.within(min(SHARP, self.tol)):
            return None
        columns = self._blocks.entries(i, j) / n
        return Settled(alpha, certificate, signs * certificate.alpha, columns, time.monotonic() - begun)


class _Block(NamedTuple):
    """Kernel values within a class, between it and another, and within the other."""

    first: NDArray
    between: NDArray
    second: NDArray

    def product(self, v: NDArray) -> NDArray:
        """K v, by the columns where v is not 0."""
        m = len(self.first)
        a, b = v[:m], v[m:]
        (A,), (B,) = a.nonzero(), b.nonzero()
        head = a[A] @ self.first[A] + self.between[:, B] @ b[B]
        return np.concatenate([head, a[A] @ self.between[A] + b[B] @ self.second[B]])

    def has_lost_digits(self) -> bool:
        """Whether kernel values differ by so little of their size that two ways to compute them differ in the digits
        that count: a run then says so, for its certificate is of values of its own."""
        diag = np.concatenate([self.first.diagonal(), self.second.diagonal()])
        total = float(self.first.sum() + 2 * self.between.sum() + self.second.sum())
        return not float(diag.mean()) - total / len(diag) ** 2 > FLAT * float(diag.max())


class _Blocks:
    """Kernel values of pairs of classes; those within a class are the same in all its pairs, and made by one thread."""

    def __init__(self, gram: Gram, groups: Sequence[NDArray]) -> None:
        self.gram, self.groups = gram, groups
        self.within: dict[int, NDArray] = {}
        self.kept = 0
        self.points: dict[int, RadialPoints] = {}
        self.locks = [threading.RLock() for _ in groups]

    def of(self, i: int, j: int) -> tuple[Gram, _Block]:
        """Those of classes i and j, and the Gram they are of."""
        rows, columns = self.groups[i], self.groups[j]
        if self.gram.is_translatable:  # about the mean of the pair, which no other has
            own, m = self.gram.subset(np.concatenate([rows, columns])).centred(), len(rows)
            K = own.block(np.arange(own.n), np.arange(own.n))
            parts = _Block(*(np.array(part, order="C") for part in (K[:m, :m], K[:m, m:], K[m:, m:])))
            for part in parts:
                part.flags.writeable = False
            return own, parts
        return self.gram, _Block(self.one(i), self.between(i, j), self.one(j))

    def between(self, i: int, j: int) -> NDArray:
        """Those of class i with class j."""
        if self.gram.is_radial:
            K = self.ready(i).kernel(self.ready(j))
        else:
            K = self.gram.block(self.groups[i], self.groups[j])
        K.flags.writeable = False
        return K

    def ready(self, i: int) -> RadialPoints:
        """The points of class i."""
        with self.locks[i]:
            if i not in self.points:
                self.points[i] = self.gram.radial_points(float, self.groups[i])
            return self.points[i]

    def one(self, i: int) -> NDArray:
        """Those of class i."""
        with self.locks[i]:
            if i not in self.within:
                K = self.between(i, i)
                if self.kept + K.size > KEPT:
                    return K
                self.kept += K.size
                self.within[i] = K
            return self.within[i]

    def entries(self, i: int, j: int) -> float:
        """Kernel entries evaluated for a pair."""
        m, n, others = len(self.groups[i]), len(self.groups[j]), len(self.groups) - 1
        if self.gram.is_translatable:
            return float((m + n) ** 2)
        return m * n + (m * m + n * n) / others


class _OfBlock(Certifier):
    """A certifier whose kernel values are at hand; and nobody else may write to them."""

    def __init__(self, problem: DualProblem, K: _Block, evidence: SpectrumEvidence, moved: bool) -> None:
        self._begin(problem, None if moved else problem)
        self._K, self._by_kernel = K, evidence

    @property
    def psd(self) -> SpectrumEvidence:
        return self._by_kernel

    def compute(self, alpha: NDArray) -> NDArray:
        sigma = self.problem.sigma
        product: NDArray = sigma * self._K.product(sigma * alpha)
        return product


def _problem(gram: Gram, signs: NDArray, upper: NDArray) -> DualProblem:
    """The dual of a pair, whose parts were looked at when the fit began; it stays in here."""
    n = len(signs)
    problem = object.__new__(DualProblem)
    zeros = np.zeros(n)
    problem.__dict__.update(
        gram=gram,
        p=np.ones(n),
        lower=zeros,
        upper=upper,
        e=signs,
        d=0.0,
        sigma=signs,
        scale=1.0,
        offset=0.0,
        ridge=zeros,
        idx=None,
        reading=HINGE,
        kind=Kind.BOX_EQUALITY,
    )
    return problem
