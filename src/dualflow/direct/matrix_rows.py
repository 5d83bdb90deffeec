"""The rows of M that the pair loop reads: of a whole kernel matrix, or made on demand from the points.

On a simplex the start has d at few variables. The kernels ⟨x, z⟩ and (γ⟨x, z⟩ + coef0)^degree of few features have a
matrix of low rank, of which few variables are free at an optimum, so that few others ever move. Their gradient at the
start takes no kernel values (`core.monomials`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..core.gram import Gram
from ..core.monomials import monomial_product, rank_by_kernel
from ..core.problem import DualProblem, Kind
from ..core.product_points import ProductPoints
from ..core.runtime.memory import arena_array
from ..working_set._pairs import RowSource, padded
from ..working_set.units import ScaledVariables
from .pair_blocks import spread_of
from .strategy import USUAL, Thresholds


def suits_few_rows(problem: DualProblem, thresholds: Thresholds = USUAL) -> bool:
    """Whether few rows of M suffice, because the kernel has low rank and the start on a simplex takes none."""
    gram, n = problem.gram, problem.n
    if problem.kind not in (Kind.SIMPLEX, Kind.CAPPED_SIMPLEX) or problem.idx is not None or problem.ridge.any():
        return False
    if n > thresholds.max_simplex_points or not (isinstance(gram, Gram) and ProductPoints.supports(gram)):
        return False
    return 0 < row_limit(problem, thresholds) <= n * thresholds.max_row_share


def row_limit(problem: DualProblem, thresholds: Thresholds = USUAL) -> int:
    """Return how many rows of M may be made, 0 if the rank of the kernel is not known or too large."""
    rank = rank_by_kernel(problem.gram)
    if rank is None or rank > thresholds.max_rank_by_rows:
        return 0
    return thresholds.min_rows_by_rank + thresholds.max_rows_per_rank * rank


def product_by_points(problem: DualProblem, alpha: NDArray) -> NDArray:
    """Return Qα of a problem that `suits_few_rows`, without kernel values: shape (n,)."""
    gram = problem.gram
    if gram.kernel == "linear":
        return problem.product(alpha)
    weights, rank = problem.sigma * alpha, rank_by_kernel(gram)
    assert rank is not None
    sums = monomial_product(gram, weights, slice(None), weights.nonzero()[0], rank)
    sums += problem.offset * float(weights.sum())
    product: NDArray = problem.scale * problem.sigma * sums
    return product


def relative_spread_by_points(gram: Gram) -> float:
    """Return the `relative_spread` of the kernel matrix of a Gram of low rank, without kernel values."""
    rank, ones = rank_by_kernel(gram), np.ones(gram.n)
    assert rank is not None
    return spread_of(gram.diag(), float(monomial_product(gram, ones, slice(None), np.arange(gram.n), rank).sum()))


@dataclass
class MatrixRows:
    """The rows of M in the units of `ScaledVariables`.

    Attributes
    ----------
    M : array of shape (k, width)
        Row i is at ``slots[i]``.
    slots : int array of shape (n,)
        Negative where the row is not made yet.
    made : int
        Number of rows made.
    diag : array of shape (n,)
        Diagonal of M.
    source : RowSource or None
        None if all rows are given.
    """

    problem: DualProblem
    M: NDArray
    slots: NDArray
    made: int
    diag: NDArray
    source: RowSource | None = None

    @classmethod
    def given(cls, problem: DualProblem, K: NDArray, scaled: ScaledVariables) -> MatrixRows:
        """Return the rows of a kernel matrix of the points, which is not written to."""
        slots = np.arange(problem.n) if problem.idx is None else problem.idx.astype(np.int64)
        factor = problem.scale * scaled.unit / scaled.slope
        M = K
        if factor != 1.0 or problem.offset or problem.idx is not None or (scaled.sign < 0).any():
            copies = 1 if problem.idx is None else 2  # the two variables of a point have the same row
            M = arena_array((len(K), copies * len(K)), float)
            part = M[:, : len(K)]
            np.add(K, problem.offset, out=part)
            part *= factor
            if copies == 2:
                M[:, len(K) :] = part
            elif (scaled.sign < 0).any():
                part *= scaled.sign[:, None]
                part *= scaled.sign
        if problem.ridge.any():
            M = M.copy() if M is K else M
            M[slots, slots] += problem.ridge * (scaled.unit / scaled.slope)
        return cls(problem, M, slots, len(M), M.diagonal()[slots])

    @classmethod
    def on_demand(cls, problem: DualProblem, scaled: ScaledVariables, limit: int) -> MatrixRows:
        """Return no rows yet, and at most ``limit`` later."""
        n, unit, points = problem.n, scaled.unit / scaled.slope, ProductPoints.of(problem.gram, float)
        signs = scaled.sign, problem.ridge, problem.scale * unit, problem.offset
        source = RowSource(points.points, points.half, *signs, points.degree)
        M, slots = arena_array((limit, padded(n)), float), np.full(n, -1, dtype=np.int64)
        return cls(problem, M, slots, 0, problem.diag() * unit, source)

    @property
    def entries(self) -> float:
        """Kernel entries evaluated."""
        return float(self.made) * len(self.slots) if self.source else float(self.problem.gram.n) ** 2

    @property
    def are_used_up(self) -> bool:
        """Whether a row that was wanted could not be made."""
        return self.source is not None and self.made > len(self.M) - 4

    def gradient(self, scaled: ScaledVariables) -> NDArray:
        """Return Mβ − ep, shape (n,)."""
        if self.source is None:
            return np.asarray((self.M @ scaled.beta)[self.slots] - scaled.ep)
        product = product_by_points(self.problem, scaled.alpha)
        return np.asarray(scaled.e * product / scaled.slope - scaled.ep)
